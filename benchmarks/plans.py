"""Do the plans that costs choose run fastest?

    python benchmarks/plans.py              # every plan of some 60 expressions and mechanisms, timed
    PHIPSI_LANES=4 python benchmarks/plans.py
    python benchmarks/plans.py --write      # also writes benchmarks/plans.md

For each expression, mechanism and mode all plans are run in turns; the table shows how far the chosen
one is from the fastest, and the terminal measured and estimated nanoseconds of each plan, by which the
constants of `sweeps/costs.py` are set.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import phipsi as pp
from phipsi.backends.backend import SweepProgram, backend_of
from phipsi.backends.program import Program
from phipsi.errors import PhipsiError
from phipsi.model.points import point_set
from phipsi.sweeps.plans import Plan, plans_of
from phipsi.sweeps.request import Request

EXPRESSIONS = [
    "mass_matrix", "mass_matrix^-1", "J mass_matrix^-1 J*", "mass_matrix^-1 J*", "J mass_matrix^-1 tau",
    "mass_matrix^-1 (tau - H phi (b + M phi* a))", "phi M phi*", "psi* H* D^-1 H psi",
    "H phi M phi* H* mass_matrix^-1 tau", "mass_matrix + H psi P psi* H*", "phi M phi* H* + psi K H phi M phi* H*",
    "(I - H psi K)* D^-1 (I - H psi K)",
]  # fmt: skip
MECHANISMS = {
    "planar arm, 2": lambda: pp.examples.planar_arm(2),
    "seven-joint arm": pp.examples.seven_joint_arm,
    "quadruped": pp.examples.quadruped,
    "humanoid": pp.examples.humanoid,
    "random tree, 12": lambda: pp.examples.random_tree(3, 12),
    "chain of 20": lambda: pp.examples.planar_arm(20),
    "chain of 40": lambda: pp.examples.planar_arm(40),
    "chain of 80": lambda: pp.examples.planar_arm(80),
}
ROUNDS = 15


def timed(plans: list[Plan], request: Request, model: pp.Model) -> list[float]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    processor = backend_of("native").processor
    lines = [f"Costs of {processor}, one core, batches.", ""]
    lines += [
        "| mechanism | expression | mode | plans | chosen | slower than the fastest by |",
        "|---|---|---|---|---|---|",
    ]
    groups, worst = 0, []
    for name, build in MECHANISMS.items():
        model = build()
        for text in EXPRESSIONS:
            x = pp.parse(text)
            for mode in ("apply",) if x.is_vector else ("apply", "dense"):
                if mode == "dense" and x.gives.index == "body" and model.n_bodies > 20:
                    continue  # megabytes for each configuration
                where = point_set(model, [model.body_names[-1]], None)
                request = Request.make(x, mode, None, False, (), "full", where)
                plans = plans_of(request, model, pairs="symmetric", processor=processor)
                try:
                    found = timed(plans, request, model)
                except PhipsiError as error:
                    print(f"{name}, {text}, {mode}: {error}")
                    continue
                if len(plans) > 1:
                    groups += 1
                    worst.append(found[0] / min(found))
                    lines.append(
                        f"| {name} | `{text}` | {mode} | {len(plans)} | {plans[0].name} | {worst[-1] - 1:.0%} |"
                    )
                    print(
                        lines[-1],
                        *(
                            f"{t:.0f}/{p.nanoseconds:.0f}"
                            for t, p in zip(found, plans, strict=True)
                        ),
                        flush=True,
                    )
    good = sum(w <= 1.10 for w in worst)
    lines += [
        "",
        f"{groups} cases with several plans: in {good} the chosen one is within 10 % of the fastest; the worst is {max(worst) - 1:.0%} slower.",
    ]
    print(lines[-1])
    if write:
        Path(__file__).with_suffix(".md").write_text(
            "# Plans\n\nWritten by `benchmarks/plans.py`.\n\n" + "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    main()
