"""What bodies in closed loops are: joints in a tree, rows that close it, which rates are free.

Members move against a carrier: the body where their loops begin, or the world. Joint rates θ̇ of all
members satisfy G(q) θ̇ = 0, one row for each of the bound rates; the others are free, and

    θ̇ = X ξ̇,   X = [1; −G_b⁻¹ G_f]     with the free rates ξ̇

**Source:** J12; C23; theory/constraint-embedding 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from phipsi.core.model import Joint, Pose, SpatialInertia, Value


class LoopMember(NamedTuple):
    """A body in a loop: the member before it (−1: the carrier), the joint between, its inertia."""

    name: str
    parent: int
    joint: Joint
    placement: Pose
    inertia: SpatialInertia
    armature: tuple[float, ...]


class FrameRows(NamedTuple):
    """Rows between frames on two members (−1: the carrier), as `Closure` has them."""

    forms: tuple[str, ...]
    a: int
    b: int
    a_frame: Pose
    b_frame: Pose
    constant: float


class CouplingRow(NamedTuple):
    """Σ factor · coordinate = offset; `terms` are (rate, coordinate, factor)."""

    terms: tuple[tuple[int, int, float], ...]
    offset: float


LoopRow = FrameRows | CouplingRow


@dataclass(frozen=True, eq=False)
class LoopStructure(Value):
    """Members, the rows between them (as many as there are bound rates), and the free rates.

    `base` is the frame on the carrier in whose axes motions are: that of the first joint.
    """

    members: tuple[LoopMember, ...]
    rows: tuple[LoopRow, ...]
    free: tuple[int, ...]
    base: Pose = Pose()

    @property
    def nv(self) -> int:
        """Joint rates of all members."""
        return sum(m.joint.nv for m in self.members)

    @property
    def nq(self) -> int:
        """Joint coordinates of all members."""
        return sum(m.joint.nq for m in self.members)

    @cached_property
    def bound(self) -> tuple[int, ...]:
        """The rates that are not free."""
        return tuple(j for j in range(self.nv) if j not in self.free)

    @cached_property
    def q_slices(self) -> tuple[slice, ...]:
        """The coordinates of each member."""
        return tuple(_slices(m.joint.nq for m in self.members))

    @cached_property
    def v_slices(self) -> tuple[slice, ...]:
        """The rates of each member."""
        return tuple(_slices(m.joint.nv for m in self.members))

    @cached_property
    def free_places(self) -> tuple[int, ...]:
        """Which coordinates the free rates are the derivatives of."""
        places = {
            v.start + i: q.start + i
            for m, q, v in zip(self.members, self.q_slices, self.v_slices, strict=True)
            if m.joint.is_additive
            for i in range(m.joint.nv)
        }
        return tuple(places[j] for j in self.free)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """The rates that move each member against the carrier."""
        out: list[tuple[int, ...]] = []
        for m, at in zip(self.members, self.v_slices, strict=True):
            before = out[m.parent] if m.parent >= 0 else ()
            out.append((*before, *range(at.start, at.stop)))
        return tuple(out)

    def path(self, member: int) -> tuple[int, ...]:
        """The rates that move a member, or the carrier (−1)."""
        return self.paths[member] if member >= 0 else ()

    # ---- numbers ---------------------------------------------------------------------------------

    @cached_property
    def geometry(self) -> tuple[float, ...]:
        """Placements, axes, frames of loops, factors: what motions depend on."""
        out: list[float] = []
        for m in self.members:
            out += [*m.placement.rotation.ravel(), *m.placement.translation, *m.joint.params]
        for row in self.rows:
            if isinstance(row, CouplingRow):
                out += [*(factor for *_, factor in row.terms), row.offset]
                continue
            for frame in (row.a_frame, row.b_frame):
                out += [*frame.rotation.ravel(), *frame.translation]
            out.append(row.constant)
        return tuple(map(float, out))

    @cached_property
    def masses(self) -> tuple[float, ...]:
        """m, h and the lower half of J of each member in its own axes, and rotor inertias."""
        out: list[float] = []
        for m in self.members:
            M = m.inertia.matrix
            out += [M[5, 5], M[2, 4], M[0, 5], M[1, 3], *M[:3, :3][np.tril_indices(3)]]
            out += m.armature
        return tuple(map(float, out))

    @cached_property
    def text(self) -> str:
        """What formulas depend on besides numbers."""
        members = " ".join(f"{m.parent}:{m.joint.formulas}" for m in self.members)
        rows = " ".join(
            f"{r.forms}:{r.a}:{r.b}"
            if isinstance(r, FrameRows)
            else f"coupling:{[t[:2] for t in r.terms]}"
            for r in self.rows
        )
        return f"[{members}] rows [{rows}] free {self.free}"

    def _key(self) -> tuple[Any, ...]:
        names = tuple(m.name for m in self.members)
        return self.text, names, self.geometry, self.masses, self.base


def _slices(sizes: Iterator[int] | Sequence[int]) -> Iterator[slice]:
    start = 0
    for size in sizes:
        yield slice(start, start + size)
        start += size


# ---- numbers that are known when code is written -------------------------------------------------

_KNOWN = (0.0, 1.0, -1.0)


def pattern_of(numbers: Sequence[float]) -> str:
    """A letter for each number: which are exactly 0, 1 or −1, and which are read from a table."""
    return "".join("01-x"[_KNOWN.index(x) if x in _KNOWN else 3] for x in numbers)


def read_from_table(numbers: Sequence[float]) -> tuple[float, ...]:
    """The numbers that are not known."""
    return tuple(x for x in numbers if x not in _KNOWN)


def with_known(pattern: str, numbers: Sequence[Any]) -> list[Any]:
    """All numbers: those that are known as Python's integers, the others as they are given."""
    rest = iter(numbers)
    known = {"0": 0, "1": 1, "-": -1}
    return [known[c] if c != "x" else next(rest) for c in pattern]
