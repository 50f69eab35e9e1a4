"""What the forms cost that the compiler finds: which are recorded, and how a change is judged.

A cost answers a question: which expression, in which mode, on which mechanism. Recorded are the
cost and a digest of the question. If both sides ask the same, a higher cost is a rise, and somebody
has to look at it. If the question is another one, because a generator of the tests draws otherwise
now, the two numbers say nothing about each other. Of derivatives the question is what is derived,
not what comes out, so that a dearer derivative is a rise.

    python scripts/record_costs.py
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from amounts import ALL
from flexible_oracle import random_flexible_tree
from random_expressions import Generator
from random_models import random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics import dynamics_expressions as dynamics
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import Expr
from phipsi.core.model.model import Model
from phipsi.core.model.points import PointSet, point_set
from phipsi.errors import LoweringError

TESTS = Path(__file__).parents[1]
FILE = next(TESTS.rglob("golden/costs.json"))
COMMAND = "python scripts/record_costs.py"
UPDATE = bool(os.environ.get("PHIPSI_UPDATE_GOLDEN"))
RECORDED = 400
RANDOM = RECORDED if ALL or UPDATE else 200

# The mechanisms of the recorded costs. They name their joints, so that a new one in
# `random_models.JOINTS` leaves these mechanisms, and all costs, as they are.
JOINTS = (
    "revolute", "prismatic", "helical", "cylindrical", "universal", "planar", "spherical", "free",
    "translation", "composite",
)  # fmt: skip
FLEXIBLE_JOINTS = (*JOINTS, "fixed")

DERIVED = {
    "inverse dynamics": dynamics.INVERSE_DYNAMICS,
    "forward dynamics": dynamics.FORWARD_DYNAMICS,
    "gravity forces": dynamics.GRAVITY_FORCES,
    "body accelerations": ops.phi.T @ (ops.H.T @ ops.vdot + ops.a),
    "point velocities": ops.J @ ops.v,
    "point forces": ops.J.T @ ops.f0,
    "momentum": ops.total(ops.M @ ops.V, (0.1, 0.2, 0.3)),
    "kinetic energy": 0.5 * (ops.V.T @ ops.M @ ops.V),
    "force through a step": ops.E_phi @ ops.M @ ops.E_phi.T @ ops.V + ops.phi_tilde @ ops.b,
    "mass matrix": ops.mass_matrix @ ops.vdot,
    "mass matrix inverse": ops.mass_matrix.inv @ ops.tau,
    "operational inertia": ops.Lambda @ ops.f0,
}


def _a_tree() -> tuple[Model, PointSet]:
    """A forest with all kinds of joints and points on two of its bodies."""
    rng = np.random.default_rng(3)
    model = random_tree(rng, 7, JOINTS, n_roots=2, armature=True, frames=True)
    names = model.body_names
    return model, point_set(model, [names[3], (names[6], (0.1, -0.2, 0.3))], "world")


TREE, POINTS = _a_tree()


@dataclass(frozen=True)
class Asked:
    """A question: what does this expression cost there?"""

    expression: Expr
    mode: str | None = None
    tree: Model = TREE
    points: PointSet = POINTS
    derived: Expr | None = None

    def cost(self) -> int | None:
        """Operations of one evaluation; None if there is no O(N) form."""
        options: dict[str, Any] = {} if self.mode is None else {"mode": self.mode}
        options |= {"points": self.points, "backend": "reference"}
        try:
            program = pp.compile(self.expression, self.tree, **options)
        except LoweringError:
            return None
        return program.explain().flops

    def digest(self) -> str:
        """The question in eight letters: the expression, its mode, joints and their tree."""
        asked = self.expression if self.derived is None else self.derived
        joints = [(type(joint).__name__, joint.nv) for joint in self.tree.joints]
        text = f"{asked} {self.mode} {joints} {list(self.tree.parent)} {list(self.points.body)}"
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def _random() -> Iterator[tuple[str, Asked]]:
    """Random expressions, applied and as matrices."""
    for seed in range(RANDOM):
        rng = np.random.default_rng([seed, 5])
        x = Generator(rng, points=bool(seed % 2), independent=True).expression()
        yield f"{seed}", Asked(x)
        if not x.is_vector and seed % 4 == 0:
            yield f"{seed} dense", Asked(x, "dense")


def _derivatives() -> Iterator[tuple[str, Asked]]:
    """Derivatives: along a direction, applied forward and backward, as matrices."""
    for name, x in DERIVED.items():
        for wrt in ("q", "v", "vdot", "tau"):
            jacobian = pp.diff(x, wrt)
            if jacobian.op is Op.ZERO:
                continue
            along = pp.diff(x, wrt, along=f"d{wrt}")
            yield f"{name} along d{wrt}", Asked(along, derived=x)
            yield f"{name} by {wrt}", Asked(jacobian, derived=x)
            yield f"{name} by {wrt}, adjoint", Asked(jacobian.T, derived=x)
            yield f"{name} by {wrt}, dense", Asked(jacobian, "dense", derived=x)
        twice = pp.diff(pp.diff(x, "q", along="dq"), "q", along="v")
        yield f"{name} along dq, along v", Asked(twice, derived=x)


def _flexible() -> Iterator[tuple[str, Asked]]:
    """Forms of bodies with modes, and their derivatives."""
    tree = random_flexible_tree(1, 4, FLEXIBLE_JOINTS, modes=(2, 0, 3, 1)).build()
    at = point_set(tree, ["b3"], "world")
    for name, x in DERIVED.items():
        yield name, Asked(x, None, tree, at)
        along = pp.diff(x, "q", along="dq", modes=True)
        yield f"{name} along dq", Asked(along, None, tree, at, x)
        adjoint = pp.diff(x, "q", modes=True).T
        yield f"{name} by q, adjoint", Asked(adjoint, None, tree, at, x)


GROUPS: dict[str, Callable[[], Iterator[tuple[str, Asked]]]] = {
    "random": _random,
    "derivatives": _derivatives,
    "flexible": _flexible,
}


@dataclass(frozen=True)
class Cost:
    """A cost and the digest of its question."""

    flops: int | None
    question: str

    @property
    def text(self) -> str:
        return "no O(N) form" if self.flops is None else str(self.flops)


Costs = Mapping[str, Cost]


def measured(group: str) -> dict[str, Cost]:
    """What the forms of a group cost now."""
    return {name: Cost(asked.cost(), asked.digest()) for name, asked in GROUPS[group]()}


def recorded(group: str) -> dict[str, Cost]:
    """What they cost when they were recorded last."""
    if not FILE.exists():
        return {}
    rows = json.loads(FILE.read_text(encoding="utf-8")).get(group, {})
    return {name: Cost(flops, question) for name, (flops, question) in rows.items()}


def write(groups: Mapping[str, Costs]) -> None:
    """Record the costs of all groups."""
    lines = []
    for group, costs in groups.items():
        rows = [f"  {json.dumps(n)}: {json.dumps([c.flops, c.question])}" for n, c in costs.items()]
        lines.append(f" {json.dumps(group)}: {{\n" + ",\n".join(rows) + "\n }")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@dataclass(frozen=True)
class Judgement:
    """What became of recorded costs; every entry is a name with the cost before and now."""

    risen: list[tuple[str, Cost, Cost]]
    fallen: list[tuple[str, Cost, Cost]]
    asked_otherwise: list[tuple[str, Cost, Cost]]
    new: list[str]
    gone: list[str]

    @property
    def is_as_recorded(self) -> bool:
        """Whether there is nothing to record."""
        return not (self.risen or self.fallen or self.asked_otherwise or self.new or self.gone)

    def lines(self, most: int = 12) -> Iterator[str]:
        """The judgement for people: rises first, the worst of them first."""
        yield from _listed("dearer than recorded, worst first", self.risen, most)
        yield from _listed("cheaper than recorded", self.fallen, most)
        if self.asked_otherwise:
            yield (
                f"{len(self.asked_otherwise)} ask something else than when they were recorded, so "
                "their costs cannot be compared: a generator or a mechanism of the tests changed, "
                f"or how expressions are written. Their median: {_median(self.asked_otherwise)}"
            )
        if self.new:
            yield f"{len(self.new)} are new, such as {self.new[0]!r}"
        if self.gone:
            yield f"{len(self.gone)} are asked no longer, such as {self.gone[0]!r}"


def judged(before: Costs, now: Costs) -> Judgement:
    """Compare what forms cost with what is recorded."""
    both = [(name, before[name], now[name]) for name in now if name in before]
    same = [x for x in both if x[1].question == x[2].question]
    return Judgement(
        sorted((x for x in same if _ratio(x) > 1), key=_ratio, reverse=True),
        sorted((x for x in same if _ratio(x) < 1), key=_ratio),
        [x for x in both if x[1].question != x[2].question],
        [name for name in now if name not in before],
        [name for name in before if name not in now],
    )


def _ratio(change: tuple[str, Cost, Cost]) -> float:
    """How many times as dear; a form that is lost is dearer than any, one that is found cheaper."""
    _, before, now = change
    if before.flops is None or now.flops is None:
        return 1.0 if before.flops is now.flops else np.inf if now.flops is None else 0.0
    if before.flops == 0:
        return np.inf if now.flops else 1.0
    return now.flops / before.flops


def _median(rows: list[tuple[str, Cost, Cost]]) -> str:
    costs = ([row[1].flops for row in rows], [row[2].flops for row in rows])
    before, now = ([x for x in found if x is not None] for found in costs)
    return " → ".join(f"{np.median(x):.0f}" if x else "none" for x in (before, now))


def _listed(title: str, rows: list[tuple[str, Cost, Cost]], most: int) -> Iterator[str]:
    if not rows:
        return
    yield f"{len(rows)} {title}:"
    for row in rows[:most]:
        name, before, now = row
        is_number = before.flops and now.flops
        percent = f"  {100 * (_ratio(row) - 1):+.1f} %" if is_number else ""
        yield f"    {name}: {before.text} → {now.text}{percent}"
    if len(rows) > most:
        yield f"    … and {len(rows) - most} more"
