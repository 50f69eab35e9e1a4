"""Do the plans that costs choose run fastest?

    python benchmarks/plans.py                   # every plan of the cases that the constants were set by
    python benchmarks/plans.py --held-out        # and of others, which they have not seen
    python benchmarks/plans.py --held-out --only "free flyer"
    PHIPSI_LANES=4 python benchmarks/plans.py
    python benchmarks/plans.py --write           # also writes benchmarks/plans.md, both parts

For each expression, mechanism and mode all plans are run in turns, also those that a compilation gives up before they
are finished. The table shows how far the chosen one is from the fastest, and the terminal measured and estimated
nanoseconds of each plan, by which the constants of `core/sweeps/cheapest_plan.py` are set. Cases with one plan are not counted. Times are
of the processor, the smallest of many turns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

import phipsi as pp
from phipsi.core.backends import Program, SweepProgram, backend_of
from phipsi.core.expressions import Expr
from phipsi.core.model import forest_of, point_set
from phipsi.core.sweeps import CostedForm, Request, cheapest_plan as choosing, plans_of
from phipsi.errors import LoweringError, PhipsiError

IN_SAMPLE = [
    "mass_matrix", "mass_matrix^-1", "J mass_matrix^-1 J*", "mass_matrix^-1 J*", "J mass_matrix^-1 tau",
    "mass_matrix^-1 (tau - H phi (b + M phi* a))", "phi M phi*", "psi* H* D^-1 H psi",
    "H phi M phi* H* mass_matrix^-1 tau", "mass_matrix + H psi P psi* H*", "phi M phi* H* + psi K H phi M phi* H*",
    "(I - H psi K)* D^-1 (I - H psi K)",
]  # fmt: skip
MECHANISMS: dict[str, Callable[[], pp.Model]] = {
    "planar arm, 2": lambda: pp.examples.planar_arm(2),
    "seven-joint arm": pp.examples.seven_joint_arm,
    "quadruped": pp.examples.quadruped,
    "humanoid": pp.examples.humanoid,
    "random tree, 12": lambda: pp.examples.random_tree(3, 12),
    "chain of 20": lambda: pp.examples.planar_arm(20),
    "chain of 40": lambda: pp.examples.planar_arm(40),
    "chain of 80": lambda: pp.examples.planar_arm(80),
}
HELD_OUT = [
    # operational space
    "Lambda^-1", "Lambda^-1 J mass_matrix^-1 tau", "mass_matrix^-1 J* Lambda^-1", "I - J* Lambda^-1 J mass_matrix^-1",
    "mass_matrix^-1 (tau - J* Lambda^-1 J mass_matrix^-1 tau)", "J mass_matrix^-1 H phi b", "J D^-1 J*", "mass_matrix D^-1 mass_matrix",
    # the whole mechanism
    "total M phi* H*", "total M phi* H* mass_matrix^-1", "to_com total M phi* H*",
    # products
    "phi M phi* H* v + phi b", "H psi M psi* H*", "K* psi* H* D^-1 H psi K", "psi P phi* H*", "D^-1 H psi M phi* H*",
    "(I + H phi K) D (I + H phi K)*", "mass_matrix^-1 D mass_matrix^-1", "H phi R phi* H* + mass_matrix",
    "Omega M phi* H* v", "psi* H* D^-1 (tau - H psi K tau)", "mass_matrix vdot + J* f0", "H phi P H* + mass_matrix",
    # derivatives
    "∂q mass_matrix vdot", "∂q mass_matrix^-1 tau", "∂q J v", "∂v H phi (M phi* a + b)", "∂q 1/2 v* mass_matrix v",
]  # fmt: skip
CLOSED = [
    "A Lambda A*",
    "(A Lambda A*)^-1 A J mass_matrix^-1 tau",
    "mass_matrix^-1 J* A* (A Lambda A*)^-1",
]
NEW_MECHANISMS: dict[str, Callable[[], pp.Model]] = {
    "free flyer": pp.examples.free_flyer,
    "two fingers and a box": lambda: pp.examples.two_finger_grasp().model,
    "random tree, 7": lambda: pp.examples.random_tree(11, 7),
    "random tree, 18": lambda: pp.examples.random_tree(21, 18),
    "random tree, 30": lambda: pp.examples.random_tree(5, 30),
    "planar arm, 5": lambda: pp.examples.planar_arm(5),
    "chain of 28": lambda: pp.examples.planar_arm(28),
    "arm with rotors": lambda: pp.examples.seven_joint_arm(armature=0.05),
}


def pinned(model: pp.Model) -> pp.System:
    """A mechanism whose last body is held at a point."""
    pin = pp.constraints.Spherical(name="pin", a=model.body_names[-1], b="world")
    return pp.System(model, [pin])


NEW_SYSTEMS: dict[str, Callable[[], pp.Model]] = {
    "pinned arm with rotors": lambda: pinned(pp.examples.seven_joint_arm(armature=0.05)),
    "pinned tree, 18": lambda: pinned(pp.examples.random_tree(21, 18)),
    "grasp": pp.examples.two_finger_grasp,
}
ROUNDS, PER_EXPRESSION, LARGE = 15, 3, 20
USUAL = choosing.CHOICES[0].name

Case = tuple[str, Callable[[], pp.Model], str]


def cases(held_out: bool) -> Iterator[Case]:
    """Mechanisms and expressions: all pairs, or three mechanisms for each new expression."""
    if not held_out:
        yield from ((name, build, text) for name, build in MECHANISMS.items() for text in IN_SAMPLE)
        return
    turn = cycle(NEW_MECHANISMS.items())
    for text in HELD_OUT:
        yield from ((name, build, text) for name, build in islice(turn, PER_EXPRESSION))
    for text in CLOSED:
        yield from ((name, build, text) for name, build in NEW_SYSTEMS.items())


def expression(text: str) -> Expr:
    """The expression; ∂q x is the derivative of x by q."""
    if text.startswith("∂"):
        return pp.diff(pp.parse(text[2:]), text[1])
    return pp.parse(text)


def every_plan(request: Request, model: pp.Model, processor: str) -> list[CostedForm]:
    """The plans that differ, the chosen one first, with those that are given up for their cost."""
    chosen = plans_of(request, model, pairs="symmetric", processor=processor)[0]
    found: list[CostedForm] = []
    seen: set[tuple[object, ...]] = set()
    for choice in choosing.CHOICES:
        if choice.grams and not choosing._has_gram(found, choice):
            continue
        asked = Request(**{**vars(request), "rewrite": choice.rewrite})
        try:
            plan = choosing._plan(choice, asked, model, "symmetric", processor, (), seen, inf)
        except LoweringError:
            continue
        if plan is not None:
            found.append(plan)
    first = [plan for plan in found if plan.work == chosen.work]
    assert first, "the chosen plan is not among the plans"
    return [*first, *(plan for plan in found if plan.work != chosen.work)]


def timed(plans: list[CostedForm], request: Request, model: pp.Model) -> list[float]:
    """Nanoseconds of one configuration for each plan, the smallest of many turns."""
    count = max(16, min(256, 3000 // model.n_bodies)) // 8 * 8
    calls: list[Any] = []
    for plan in plans:
        source = SweepProgram(request, plan.lowered, plan.steps, model, False, None)
        program = Program(source, plan.rewriting, backend_of("native"))
        rng = np.random.default_rng(0)
        given = {
            name: model.random_configuration(rng, count)
            if name == "q"
            else rng.normal(size=(count, *shape))
            for name, shape in program.input_shapes.items()
        }
        args = [given[name] for name in program.inputs]
        calls.append((program, args, np.empty_like(program(*args))))
    best = [np.inf] * len(plans)
    for _ in range(ROUNDS):
        for i, (program, args, out) in enumerate(calls):
            start = time.process_time()
            program(*args, out=out)
            best[i] = min(best[i], time.process_time() - start)
    return [1e9 * t / count for t in best]


def measured(case: Case, processor: str) -> Iterator[dict[str, Any]]:
    """The rows of one expression on one mechanism, one for each mode with several plans."""
    name, build, text = case
    x, mechanism = expression(text), build()
    tree, points = forest_of(mechanism, None, None)
    where = point_set(tree, points if points is not None else [tree.body_names[-1]], None)
    for mode in ("apply",) if x.is_vector or x.is_scalar else ("apply", "dense"):
        if mode == "dense" and x.gives.index == "body" and tree.n_bodies > LARGE:
            continue  # megabytes for each configuration
        request = Request.make(x, mode, None, False, (), "full", where)
        try:
            plans = every_plan(request, tree, processor)
            found = timed(plans, request, tree) if len(plans) > 1 else []
        except PhipsiError as error:
            print(f"{name}, {text}, {mode}: {error}")
            continue
        if len(plans) > 1:
            yield {
                "mechanism": name,
                "expression": text,
                "mode": mode,
                "plans": len(plans),
                "chosen": plans[0].name,
                "slower": found[0] / min(found) - 1,
                "usual": found[[p.name for p in plans].index(USUAL)] / min(found) - 1,
                "terminal": " ".join(
                    f"{t:.0f}/{p.nanoseconds:.0f}" for t, p in zip(found, plans, strict=True)
                ),
            }


def shown(row: dict[str, Any]) -> str:
    """A row of the page."""
    cells = [row["mechanism"], f"`{row['expression']}`", row["mode"], row["plans"], row["chosen"]]
    return "| " + " | ".join(map(str, cells)) + f" | {row['slower']:.0%} |"


def summary(rows: list[dict[str, Any]]) -> str:
    """How often the chosen plan is within 10 % of the fastest."""
    good, usual = (sum(row[which] <= 0.10 for row in rows) for which in ("slower", "usual"))
    other = [row for row in rows if row["chosen"] != USUAL]
    worst = {which: max(row[which] for row in rows) for which in ("slower", "usual")}
    return (
        f"{len(rows)} cases with several plans. In {good} ({good / len(rows):.0%}) the chosen one is within 10 % of the fastest; the worst "
        f"is {worst['slower']:.0%} slower. If the usual plan, {USUAL!r}, were always taken, it would be {usual} ({usual / len(rows):.0%}), the worst "
        f"{worst['usual']:.0%} slower: costs choose another one in {len(other)} cases."
    )


def page(parts: dict[str, list[dict[str, Any]]], processor: str) -> str:
    """benchmarks/plans.md."""
    out = [
        "# Plans\n",
        f"Whether the plan that the cost model chooses is the fastest one. Written by `benchmarks/plans.py`. Costs of {processor}, one core, batches, processor time, the smallest of {ROUNDS} turns.\n",
    ]
    for title, rows in parts.items():
        out += [f"## {title}\n", summary(rows) + "\n"]
        out += ["| mechanism | expression | mode | plans | chosen | slower than the fastest by |"]
        out += ["|---|---|---|---|---|---|", *map(shown, rows), ""]
    return "\n".join(out)


def main() -> None:
    """Measure, and write the page if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="a mechanism")
    parser.add_argument("--keep", default="", help="a file of rows: measured ones are not repeated")
    chosen = parser.parse_args()
    processor = backend_of("native").processor
    kept = Path(chosen.keep) if chosen.keep else None
    known: dict[str, list[dict[str, Any]]] = (
        json.loads(kept.read_text()) if kept and kept.exists() else {}
    )
    parts: dict[str, list[dict[str, Any]]] = {}
    titles = {
        "Cases by which the constants were set": False,
        "Held-out cases: other expressions on other mechanisms": True,
    }
    for title, held_out in titles.items():
        if held_out != chosen.held_out and not chosen.write:
            continue
        rows = parts.setdefault(title, [])
        for case in cases(held_out):
            if chosen.only and case[0] != chosen.only:
                continue
            key = f"{case[0]} {case[2]}"
            if key not in known:
                known[key] = list(measured(case, processor))
                for row in known[key]:
                    print(shown(row), row["terminal"], flush=True)
                if kept:
                    kept.write_text(json.dumps(known))
            rows += known[key]
        print(summary(rows))
    if chosen.write:
        Path(__file__).with_suffix(".md").write_text(page(parts, processor), encoding="utf-8")


if __name__ == "__main__":
    main()
