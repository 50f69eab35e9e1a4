"""Blocks of what crosses a port that moves with modes: Ė{s}, and the parts of it.

The operations read X_J of the joint here, and modal rows of the parent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from phipsi.expressions.node import Expr
from phipsi.operators.catalogue import arguments_of, place_of
from phipsi.sweeps.equation_builder import Builder
from phipsi.sweeps.ir import Field


class Lowered(Protocol):
    """What is needed of `Blocks`."""

    builder: Builder
    vector: Callable[[Expr], Field]

    def edge(self, e: Expr) -> Field:
        """The block (parent, k) of a one-step operator, at k."""
        ...


def across_a_port(b: Builder, op: str, hinge: Field, *more: Field) -> Field:
    """An operation of the hinge, of what the modes of the parent do to its port, and of `more`."""
    port, moving = b.apply("port_transform"), b.apply("port_motion")
    return b.apply(op, hinge, port, b.apply("transform"), moving, *more)


def _across(
    low: Lowered, op: str, held: Sequence[Field], directions: Sequence[Expr], place: Hashable = None
) -> Field:
    """One of the operations that say how E_φ changes with the modes of the parent."""
    b = low.builder
    along = [b.down(low.vector(y)) for y in directions]
    return b.apply(op, b.apply("transform"), *held, *along, data=place)


def _place(x: Expr) -> Hashable:
    return place_of(x) if x.params else None


def port_step(low: Lowered, x: Expr) -> Field:
    """Ė{s; …}, from body k to its parent."""
    return _across(low, "step_along", (), arguments_of(x))


def port_push(low: Lowered, x: Expr) -> Field:
    """dE{f}: s ↦ Ė{s} f, from the modes of a body to forces on it, summed over its ports."""
    f, *directions = x.args
    return low.builder.up(_across(low, "dE", (low.vector(f),), directions, _place(x)))


def port_swing(low: Lowered, x: Expr) -> Field:
    """dET{y}: s ↦ Ė{s}* y, from the modes of the parent to motions."""
    y, *directions = x.args
    above = low.builder.down(low.vector(y))
    return _across(low, "dET", (above,), directions, _place(x))


def port_trace(low: Lowered, x: Expr) -> Field:
    """dE_trace(Y): how tr(E_φ Y) changes with the modes of a body, summed over its ports."""
    b, (_, hole) = low.builder, x.data
    Y, *directions = x.args
    weight = b.add([(c, b.transpose(low.edge(y.T))) for c, y in Y.terms])
    return b.up(_across(low, "dE_trace", (weight,), directions, hole))
