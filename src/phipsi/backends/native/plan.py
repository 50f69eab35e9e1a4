"""Where the values of a program live: registers, the record of a body, or the record of the whole.

Views (transposes, negatives, names of equations) have no place of their own. A field gets a slot
in the body records if another step or another body reads it; everything else stays in registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from phipsi.sweeps.ir import Domain, Field, Kind, Step
from phipsi.sweeps.schedule import dependencies

# made anew where they are needed instead of being kept
REMADE = (
    "input", "zero", "eye", "M", "Jr", "gravity", "point_frame", "point_arm", "world_arm", "seed",
    "path_seed",
)  # fmt: skip
_CROSS_BODY = ("down", "gather")
SUPPORTED = {
    "input", "zero", "eye", "transform", "hinge_axes", "hinge_axes_rate", "M", "Jr", "gravity",
    "point_frame", "point_arm", "world_arm", "rec", "mul", "cong", "T", "add", "cross",
    "cross_force", "crm", "spin", "gauge", "rotation", "rigid_inverse", "pose_matrix",
    "rigid_of_pose", "hinge_scale", "inv", "chol", "logdet", "up", "down", "gather", "scatter",
    "total", "spread", "seed", "path_seed", "matrix",
}  # fmt: skip


def root(x: Field) -> Field:
    """The field whose value x shows: through equations, transposes and negatives."""
    while True:
        if x.equation is not None:
            x = x.equation
        elif x.op == "T" or (x.op == "add" and len(x.args) == 1):
            x = x.args[0]
        else:
            return x


def entry_count(x: Field, widest: int) -> int:
    """How many numbers a slot for x holds."""
    t = x.type

    def size(s: str) -> int:
        return widest if s == "r" else int(s) if s.isdigit() else 1  # one column at a time

    if t.kind is Kind.INERTIA:
        return 10
    if t.kind in (Kind.RIGID, Kind.RIGID_T):
        return 12
    if t.kind is Kind.SYMMETRIC:
        n = size(t.rows)
        return n * (n + 1) // 2
    return size(t.rows) * size(t.cols)


@dataclass
class Plan:
    """Slots of fields, in numbers from the start of a record."""

    made: dict[Field, int]
    body: dict[Field, int] = field(default_factory=dict[Field, int])
    sums: dict[Field, int] = field(default_factory=dict[Field, int])
    point: dict[Field, int] = field(default_factory=dict[Field, int])
    world: dict[Field, int] = field(default_factory=dict[Field, int])
    carried: dict[Field, int] = field(default_factory=dict[Field, int])
    cross: set[Field] = field(default_factory=set[Field])
    body_size: int = 0
    point_size: int = 0
    world_size: int = 0


def supported(steps: list[Step]) -> bool:
    """True if every operation of the program can be emitted."""
    return all(x.op in SUPPORTED and x.type.cols != "c" for s in steps for x in s.fields)


def make_plan(steps: list[Step], outputs: list[Field], widest: int) -> Plan:
    """Give every field that needs one a slot."""
    made: dict[Field, int] = {}
    for i, step in enumerate(steps):
        for x in step.fields:
            made[x] = i
    plan = Plan(made)
    wanted: dict[Field, None] = {}
    for i, step in enumerate(steps):
        for x in step.fields:
            for y in dependencies(x):
                r = root(y)
                if x.op == "path_seed":  # paths read the blocks of their points from memory
                    wanted[r] = None
                    continue
                elsewhere = x.op in _CROSS_BODY and y is dependencies(x)[0] and r.op != "zero"
                if r.op in REMADE and not elsewhere:
                    continue
                if x.type.cols == "p" and x.op == "up":
                    continue  # carried from body to body along the path
                if elsewhere:
                    plan.cross.add(r)
                    wanted[r] = None
                elif made[r] != i or r.op in ("total", "scatter"):
                    wanted[r] = None
            if x.op == "up" and x.type.cols == "p":
                plan.carried[x] = plan.world_size
                plan.world_size += entry_count(x, widest)
            elif x.op == "up":
                plan.sums[x] = plan.body_size
                plan.body_size += entry_count(x, widest)
            if x.op == "scatter":
                wanted[x] = None
            if x.op == "total":
                wanted[x] = None
    for x in outputs:
        if x.type.domain is Domain.WORLD and root(x).op not in REMADE:
            wanted[root(x)] = None
    for r in wanted:
        if r.type.domain is Domain.WORLD:
            _world_slot(plan, r, widest)
        elif r.type.domain is Domain.POINT:
            plan.point[r] = plan.point_size
            plan.point_size += entry_count(r, widest)
        elif r.op != "up" and r.type.cols != "p":
            plan.body[r] = plan.body_size
            plan.body_size += entry_count(r, widest)
    return plan


def _world_slot(plan: Plan, r: Field, widest: int) -> None:
    if r not in plan.world:
        plan.world[r] = plan.world_size
        plan.world_size += entry_count(r, widest)
