"""Rows of slots in graphs: C, and impulses between rows and world axes, by loops over the slots.

The numbers of one slot are in registers, whatever the number of slots; slots without a contact in
any lane are left out.

**Where two compliant surfaces rub on each other:** at one place for both, in one plane. Where
bodies overlap, the witness points of a slot are the depth apart. Forces along the normal do not
tell them apart; friction does. At x_a on one body and at x_b on the other, it would turn the two
together by depth × force. And points of one body at different depths that stick would hold its
tilt, with forces whose arm is the difference of depths: as large as one likes. So compliant
surfaces rub at one point for both, and those of a pair in one plane across the normal:

    b a plane or a height field    in its surface, x_b
    any other pair                 at the height h = Σ w δ h_m / Σ w δ along the normal, δ and w the
                                   depths and weights of its slots, and h_m the heights of the
                                   middles between x_a and x_b

The height is that of the pressure: it does not jump where a slot lifts off, nor where the normal
goes over from the face of one body to that of the other.

**Source:** theory/contact 1 (K1g), 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from phipsi.attached import is_surface
from phipsi.contact.contact_pairs import Contacts
from phipsi.contact.contact_rows import (
    AXIS,
    SLIDES,
    RowPlan,
    contact_axes,
    is_rigid,
    slot_materials,
)
from phipsi.contact.geometry.pair_code import PairLoop, Read
from phipsi.contact.geometry.placed_shapes import INACTIVE as NOWHERE
from phipsi.contact.solver.contact_problem import ROWS
from phipsi.core.arrays import Array, Node, Tracer, as_node, call, law_operations as ops


class RowBlocks(NamedTuple):
    """C at the bodies of side a and of side b, (n, 6) each, the sign of b included."""

    a: Any
    b: Any


class _SlotRange(NamedTuple):
    """Slots of one kind that follow each other, and their rows."""

    kind: str
    slots: range
    rows: range


def row_blocks(plan: RowPlan, origins: Any, slots: Any, pulls: Any = None) -> RowBlocks:
    """The rows, from the origins (m, 3) of bodies, slots (gap, normal, x_a, x_b), and ropes.

    All are traced. Rows of a slot without a contact are zero.
    """
    slots = shared_points(plan.contacts, slots)
    parts: list[list[Any]] = [[], []]
    for run in _runs(plan):
        both = _blocks_of(plan, run, origins, slots)
        for part, block in zip(parts, both, strict=True):
            part.append(block)
    more, ns = plan.joint_blocks, len(plan.joints.stops)
    rest = [(x, np.zeros_like(x)) for x in (more[:ns], more[ns:])]
    rest[1:1] = [] if pulls is None else [(pulls[:, 0], pulls[:, 1])]
    for both in (x for x in rest if len(x[0])):
        for part, block in zip(parts, both, strict=True):
            part.append(block)
    return RowBlocks(*map(_joined, parts))


def slot_impulses(plan: RowPlan, slots: Any, world: Any) -> Array:
    """Impulses of the rows of slots from [moment; force] (k, 6) in world axes, traced."""
    parts = []
    for run in _runs(plan):
        letters = ROWS[run.kind]
        axes, there = _axes(), _given("world", (6,))
        found = [np.sum(axes[AXIS[x]] * (there[3:] if x in SLIDES else there[:3])) for x in letters]
        reads = {"world": Read(2, (6,), _items(run.slots, plan.n_slots))}
        (p,) = _looped(plan, run, slots, [as_node(np.stack(found))], reads, [as_node(world)])
        parts.append(p.reshape(len(run.rows)))
    return _joined(parts)


def world_impulses(plan: RowPlan, slots: Any, p: Array) -> Node:
    """[moment; force] (k, 6) of all slots on side a in world axes, from impulses p (n,); traced."""
    parts = []
    for run in _runs(plan):
        letters = ROWS[run.kind]
        axes, own = _axes(), _given("p", (len(letters),))
        sums: list[Any] = [np.zeros(3), np.zeros(3)]
        for i, x in enumerate(letters):
            term = axes[AXIS[x]] * own[i]
            known = sums[x in SLIDES]
            sums[x in SLIDES] = known + term if isinstance(known, Tracer) else term
        reads = {"p": Read(2, (len(letters),))}
        given = [as_node(p[run.rows.start : run.rows.stop])]
        (found,) = _looped(plan, run, slots, [as_node(np.concatenate(sums))], reads, given)
        parts.append(found)
    return as_node(_joined(parts))


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _runs(plan: RowPlan) -> list[_SlotRange]:
    out, slot, row = [], 0, 0
    for kind, group in groupby(plan.layout.contacts):
        count = len(list(group))
        rows = count * len(ROWS[kind])
        out.append(_SlotRange(kind, range(slot, slot + count), range(row, row + rows)))
        slot, row = slot + count, row + rows
    return out


def _given(name: str, shape: tuple[int, ...]) -> Any:
    return Tracer(ops.input(name, shape))


def _axes() -> Array:
    """Of the slot of a loop."""
    return contact_axes(_given("normal", (3,))[None])[0]


def _items(chosen: range, count: int) -> tuple[int, ...] | None:
    return None if len(chosen) == count else tuple(chosen)


def _blocks_of(plan: RowPlan, run: _SlotRange, origins: Array, slots: Any) -> list[Array]:
    """The rows of some slots of a kind at side a and at side b."""
    axes, sides = _axes(), plan.sides[list(run.slots)]
    there = np.array([1.0, -1.0]) * (sides >= 0)
    out: list[Any] = [np.zeros((len(run.rows), 6))] * 2
    reads, results, places = {}, [], []
    for t, name in enumerate("ab"):
        if not there[:, t].any():
            continue
        reads[f"x_{name}"] = Read(2 + t, (3,), _items(run.slots, plan.n_slots))
        reads[f"o_{name}"] = Read(4, (3,), tuple(np.maximum(sides[:, t], 0).tolist()))
        arm = _given(f"x_{name}", (3,)) - _given(f"o_{name}", (3,))
        sign = there[0, t] if there[:, t].all() else _given("row", (2,))[t]
        rows = []
        for letter in ROWS[run.kind]:
            axis: Any = axes[AXIS[letter]] * sign
            rows += [np.cross(arm, axis), axis] if letter in SLIDES else [axis, np.zeros(3)]
        results.append(as_node(np.concatenate(rows)))
        places.append(t)
    given = [as_node(x) for x in (slots.x_a, slots.x_b, origins)]
    found = _looped(plan, run, slots, results, reads, given, there)
    for t, block in zip(places, found, strict=True):
        out[t] = block.reshape(len(run.rows), 6)
    return out


def _looped(
    plan: RowPlan,
    run: _SlotRange,
    slots: Any,
    results: Sequence[Node],
    reads: dict[str, Read],
    given: Sequence[Node],
    table: Any = None,
) -> list[Any]:
    """Results of a graph for every slot of a run, zero for those without a contact."""
    items = _items(run.slots, plan.n_slots)
    every = {"gap": Read(0, (), items), "normal": Read(1, (3,), items), **reads}
    args = [as_node(slots.gap), as_node(slots.normal), *given]
    rows = np.zeros((len(run.slots), 0)) if table is None else table
    far = as_node(_given("gap", ()) >= NOWHERE)
    shapes, none = [x.shape for x in args], [0.0] * len(results)
    return [Tracer(x) for x in call(PairLoop(results, shapes, every, rows, far, none), *args)]


# ---- where compliant surfaces rub ----------------------------------------------------------------


_NONE = 1e-15
"""A depth (m) beside which that of an open pair is none: its points stay where they are."""


def shared_points(contacts: Contacts | None, slots: Any) -> Any:
    """`Slots` with x_a = x_b where bodies that give rub on each other; others as they are."""
    if contacts is None or slots is None:
        return slots
    soft = ~is_rigid(slot_materials(contacts))
    if not soft.any():
        return slots
    flat, several, at = np.zeros(len(soft), bool), list[range](), 0
    for pair in contacts.pairs:
        mine = range(at, at + pair.slots)
        at += pair.slots
        if soft[mine.start] and is_surface(pair.b.shape):
            flat[mine.start : mine.stop] = True
        elif soft[mine.start]:
            several.append(mine)
    x_a, x_b = slots.x_a, slots.x_b
    if several:
        group = np.full(len(soft), -1)
        for i, mine in enumerate(several):
            group[mine.start : mine.stop] = i
        members = (group[:, None] == np.arange(len(several))) * 1.0  # (slots, pairs)
        depth = np.maximum(-slots.gap, 0.0)
        depth = depth if slots.weight is None else depth * slots.weight
        middle = 0.5 * np.sum(slots.normal * (x_a + x_b), axis=1)
        total = depth @ members
        height = members @ (((depth * middle) @ members) / np.maximum(total, _NONE))
        pressed = ((members @ total) > _NONE)[:, None]
        up = (height - np.sum(slots.normal * x_b, axis=1))[:, None] * slots.normal
        place = x_b + up
        x_a, x_b = np.where(pressed, place, x_a), np.where(pressed, place, x_b)
    return slots._replace(x_a=np.where(flat[:, None], slots.x_b, x_a), x_b=x_b)
