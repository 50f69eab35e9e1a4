"""What a step does to positions: moves that velocities do not explain, bodies inside others.

Impulses that obey the laws of contact say nothing about positions: a step also moves bodies without
velocity, back to the place of an impact and out of an overlap. Here such moves, and the penetration
that a step begins with, are compared with the way that bodies go with their velocities.

The motion [ω; v] of a frame moves points of its body by at most |v| + r |ω|, r the distance of the
farthest point of a shape from the origin of the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.contact import (
    DEEP,
    STOP_MARGIN,
    TOTALS,
    WORST,
    MaxResiduals,
    RowPlan,
    Slots,
    StepTotals,
)
from phipsi.core.arrays import Array, Node, StopGradient, Tracer, as_node, call
from phipsi.simulation.integrators.step_graph import STEP
from phipsi.simulation.runs.conditional import where_needed

TIMES_DEEPER = 20.0
"""How many times their penetration bodies are moved apart at most."""


def farthest_move(
    plan: RowPlan, moves: Sequence[Array], motions: Sequence[Array], deep: Array
) -> Array:
    """The farthest way (m) of a body that neither velocities nor penetration explain, traced.

    `moves` (hosts, 6), those of a step without velocity; `motions` (hosts, 6) of the same hosts
    before the step, without impulses and after it; `deep`, m, the penetration at the start of the
    step, negative without any.
    """
    way = sum(_reach(plan, x) for x in moves)
    h: Any = Tracer(STEP)
    for V in motions:
        way = way - h * _reach(plan, V)
    return _held(np.maximum(np.max(way) - TIMES_DEEPER * np.maximum(deep, 0.0), 0.0))


def farthest_allowed(plan: RowPlan) -> float:
    """The move (m) that counts as none."""
    return DEEP * (STOP_MARGIN if plan.contacts is None else plan.contacts.margin)


def is_buried(
    plan: RowPlan, slots: Slots, origins: Array, depth: Array, before: Array, last: dict[str, Node]
) -> Array:
    """1 where rigid bodies are deeper in each other than the step before explains; 0, traced.

    `depth` (slots,), m, of rigid slots that are there; `before` (hosts, 6), motions at the start of
    the step; `last`, the states of the certificate. The first step has the penetration of the
    start, and what is less deep than penetration so far is being removed.
    """
    allowed = farthest_allowed(plan)
    deepest: Any = Tracer(last[WORST])[MaxResiduals._fields.index("overlap")]
    taken: Any = Tracer(last[TOTALS])[StepTotals._fields.index("taken")]
    is_deep = (np.max(depth) > np.maximum(deepest, allowed)) & (taken > 0.0)
    sides = plan.sides[: plan.n_slots]
    ways: Any = 0.0
    h: Any = Tracer(STEP)
    for host, x in zip(sides.T, (slots.x_a, slots.x_b), strict=True):
        moves = (host >= 0).astype(float)[:, None]
        at = np.maximum(host, 0)
        V, arm = before[at] * moves, x - origins[at]
        along = V[:, 3:] + np.stack(_cross(V[:, :3], arm), axis=1)
        ways = ways + h * np.sqrt(np.sum(along * along, axis=1))
    needed = as_node(np.where(is_deep, 1.0, 0.0))
    fixed = [as_node(x) for x in (depth, before, slots.x_a, slots.x_b, origins)]
    (found,) = where_needed(needed, fixed, [as_node(np.max(depth - ways))])
    beyond: Any = Tracer(found)
    return _held(np.where(beyond > allowed, 1.0, 0.0))


def _held(x: Any) -> Any:
    """A number of the certificate, which has no derivative: √x has none at rest."""
    return Tracer(call(StopGradient(()), as_node(x))[0])


def _reach(plan: RowPlan, motions: Array) -> Array:
    """|v| + r |ω| (bodies,) of the frames of bodies."""
    squares = motions[: len(plan.bodies)] ** 2
    spin, speed = (np.sqrt(np.sum(squares[:, x], axis=1)) for x in (slice(3), slice(3, 6)))
    return speed + plan.radii * spin


def _cross(a: Array, b: Array) -> list[Array]:
    """Columns of a × b, row by row."""
    return [a[:, i] * b[:, j] - a[:, j] * b[:, i] for i, j in ((1, 2), (2, 0), (0, 1))]
