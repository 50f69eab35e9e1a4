"""B and its changes: one rigid transformation per point, in the axes of the points.

B = first · last. In world axes `first` is the lever of a point on its body and `last` turns into
body axes; in spatial axes `last` is all of it. In a system with points of one's own, the closure
frames keep their own axes: there `last` is the constant frame, and nothing changes with motions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phipsi.core.expressions import Expr
from phipsi.core.model import OWN
from phipsi.core.operators import B, arguments_of, place_of
from phipsi.core.sweeps.equation_builder import EquationBuilder
from phipsi.core.sweeps.ir import Domain, Field, FieldType, Kind

_POINT6 = FieldType(Domain.POINT, "6", "6", Kind.RIGID)


class PointSource(Protocol):
    """What is needed of `MemorylessBlocks`: the axes, and whether closure frames have others."""

    builder: EquationBuilder
    vector: Callable[[Expr], Field]
    axes: str
    mixed: bool

    def pose(self) -> Field:
        """φ(world, k)."""
        ...

    def rigid_rows(self, x: Field) -> Field:
        """The first six rows of blocks of bodies."""
        ...


def point_block(low: PointSource, x: Expr) -> Field:
    """B or its change along motions of the bodies."""
    b = low.builder
    if low.axes == "body":
        return b.apply("point_frame") if x is B else b.zero(_POINT6)
    if x is B:
        first, _, last = _factors(low, [])
        return last if low.axes == "spatial" else b.make("mul", (first, last), None, _POINT6)
    moving = [low.vector(y) for y in arguments_of(x)]
    if any(m.op == "zero" for m in moving):
        return b.zero(_POINT6)
    first, factors, out = _factors(low, moving)
    for y in reversed(factors):
        out = b.mul(y, out)
    return b.mul(first, out)


def swing_block(low: PointSource, x: Expr) -> Field:
    """V ↦ Ḃ{…; V}* y (dBT) or Ḃ{…; V} f (dB), 6 × 6 per point.

    Every direction of Ḃ is a factor between the lever and the turn of a point: −spin in world axes;
    in spatial axes cross* in front of the other factors.
    """
    b = low.builder
    force, place = x.name == "dB", place_of(x)
    u, *motions = (low.vector(y) for y in x.args)
    if low.axes == "body" or "zero" in (u.op, *(m.op for m in motions)):
        return b.zero(FieldType(Domain.POINT, "6", "6"))
    u = u if force else b.shift("gather", low.rigid_rows(u))
    first, factors, last = _factors(low, motions)
    before, after = factors[:place], factors[place:]
    if force:
        left, right = [first, *before], [*after, last]
    else:
        left = [b.transpose(y) for y in (last, *reversed(after))]
        right = [b.transpose(y) for y in (*reversed(before), first)]
    for y in reversed(right):
        u = b.mul(y, u)
    if low.axes == "spatial":
        out = b.apply("crq", u) if force else b.scale(-1, b.apply("crm", u))
    else:
        out = b.scale(1 if force else -1, b.apply("swing", u))
    if low.mixed:
        out = b.mul(out, b.apply("selected", data=OWN))
    for y in reversed(left):
        out = b.mul(y, out)
    return out


def _factors(low: PointSource, motions: list[Field]) -> tuple[Field, list[Field], Field]:
    """`first` and `last`, and the factor that every motion puts between them."""
    b = low.builder
    pose = b.shift("gather", low.pose())
    gathered = [b.shift("gather", low.rigid_rows(m)) for m in motions]
    own = b.apply("selected", data=OWN) if low.mixed else None
    if own is not None:
        gathered = [b.mul(own, m) for m in gathered]
    if low.axes == "spatial":
        first = b.eye(Domain.POINT, "6")
        factors = [b.transpose(b.apply("crm", m)) for m in gathered]
        last = b.apply("rigid_inverse", pose)
    else:
        first = b.apply("point_arm")
        factors = [b.scale(-1, b.apply("spin", m)) for m in gathered]
        last = b.transpose(b.apply("rotation", pose))
    if own is not None:
        last = b.apply("own_frame", pose, own, data=low.axes)
    return first, factors, last
