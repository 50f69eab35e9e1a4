"""Blocks of memoryless operators with rules of their own: gyrations, what crosses a moving port.

A gyration is a sum, cross(V)* M + M cross(V) + cross_force(M V) of a rigid body. Across a port that
moves with modes there are Ė{s} and its parts, whose operations read X_J of the joint here and modal
rows of the parent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from phipsi.core.expressions import Expr, Op, cross, cross_force, total_of
from phipsi.core.operators import M, arguments_of, place_of
from phipsi.core.sweeps.equation_builder import EquationBuilder
from phipsi.core.sweeps.ir import Field, Kind


class BlockSource(Protocol):
    """What is needed of `MemorylessBlocks`."""

    builder: EquationBuilder
    vector: Callable[[Expr], Field]

    def block(self, x: Expr) -> Field:
        """The diagonal blocks of a memoryless operator."""
        ...

    def edge(self, e: Expr) -> Field:
        """The block (parent, k) of a one-step operator, at k."""
        ...


# ---- gyrations -----------------------------------------------------------------------------------


def gyration_of(low: BlockSource, x: Expr) -> Field | None:
    """c (cross(V)* M + M cross(V) + cross_force(M V)), which has twelve independent numbers.

    Of a rigid inertia it acts on the angular part only: [[A, 0], [−p~, 0]]. Without the last term
    it is how the inertia changes when the body moves: ten numbers, as the inertia has. What
    leaves with formulas of their own add to it may be of the same form.
    """
    b = low.builder
    rest = [t for t in x.terms if _is_of_feature(t[1])]
    if rest and len(rest) < len(x.args):  # the body's comes first, so that it has no sign
        inner = gyration_of(low, total_of(t for t in x.terms if t not in rest))
        blocks = [(c, low.block(y)) for c, y in rest] if inner else []
        kept = all(y.type.kind is Kind.GYRATION for _, y in blocks)
        return b.add([(1, inner), *blocks]) if inner and kept else None
    if x.op is not Op.SUM or len(x.args) not in (2, 3) or len(set(x.data)) != 1:
        return None
    products = [y for y in x.args if y.op is Op.PRODUCT and len(y.args) == 2]
    cores = [y.args[1] for y in products if y.args[0] is M and y.args[1].function is cross]
    if len(cores) != 1 or low.block(M).type.kind is not Kind.INERTIA:
        return None
    V = cores[0].args[0]
    parts = {M @ cores[0], cores[0].T @ M}
    name = "inertia_rate" if len(x.args) == 2 else "gyration"
    if name == "gyration":
        parts.update(t for _, t in cross_force(M @ V).terms)
    if set(x.args) != parts:
        return None
    return b.add([(-x.data[0], b.apply(name, low.block(M), low.vector(V)))])


def _is_of_feature(x: Expr) -> bool:
    """True for a leaf that a feature brings with the formulas of its blocks."""
    return x.op is Op.LEAF and x.row.blocks is not None and not x.row.is_own


# ---- ports that move -----------------------------------------------------------------------------


def across_a_port(b: EquationBuilder, op: str, hinge: Field, *more: Field) -> Field:
    """An operation of the hinge, of what the modes of the parent do to its port, and of `more`."""
    port, moving = b.apply("port_transform"), b.apply("port_motion")
    return b.apply(op, hinge, port, b.apply("transform"), moving, *more)


def _across(
    low: BlockSource,
    op: str,
    held: Sequence[Field],
    directions: Sequence[Expr],
    place: Hashable = None,
) -> Field:
    """One of the operations that say how E_φ changes with the modes of the parent."""
    b = low.builder
    along = [b.down(low.vector(y)) for y in directions]
    return b.apply(op, b.apply("transform"), *held, *along, data=place)


def _place(x: Expr) -> Hashable:
    return place_of(x) if x.params else None


def port_step(low: BlockSource, x: Expr) -> Field:
    """Ė{s; …}, from body k to its parent."""
    return _across(low, "step_along", (), arguments_of(x))


def port_push(low: BlockSource, x: Expr) -> Field:
    """dE{f}: s ↦ Ė{s} f, from the modes of a body to forces on it, summed over its ports."""
    f, *directions = x.args
    return low.builder.up(_across(low, "dE", (low.vector(f),), directions, _place(x)))


def port_swing(low: BlockSource, x: Expr) -> Field:
    """dET{y}: s ↦ Ė{s}* y, from the modes of the parent to motions."""
    y, *directions = x.args
    above = low.builder.down(low.vector(y))
    return _across(low, "dET", (above,), directions, _place(x))


def port_trace(low: BlockSource, x: Expr) -> Field:
    """dE_trace(Y): how tr(E_φ Y) changes with the modes of a body, summed over its ports."""
    b, (_, hole) = low.builder, x.data
    Y, *directions = x.args
    weight = b.add([(c, b.transpose(low.edge(y.T))) for c, y in Y.terms])
    return b.up(_across(low, "dE_trace", (weight,), directions, hole))
