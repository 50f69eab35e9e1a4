"""How many bodies in a row a claim can tell apart, and so how deep the mechanisms have to be.

On a chain an operator is a power series in the step E to the parent: E is one step, φ = (I − E)⁻¹
has no end, memoryless operators take none. Such series are rational. Let F have terms of at most d
steps, and let R be realised by r states. If F + R vanishes on all paths of up to d + r steps, then
on all others too: no term of F is as long, and what R does after d steps is decided by the r that
follow. A product has the steps and the states of its factors together, a sum those of its longest
terms; inverses may differ in their numbers only, (I − 2 E)⁻¹ and (I − 3 E)⁻¹, and add up.

The articulated-body inertia P of a body is not any symmetric matrix at once: on chains the set of
its values has 10 dimensions for one body, then 16, 20 and 21. Three more bodies outside of a path
let it be anything that it can be.

An inverse of what is neither causal nor anticausal is no such series, unless the rules of the
library or a multiplication of both sides remove it; then nothing bounds the reach, and `limit` says
so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from phipsi.core.expressions import (
    Expr,
    Op,
    identity,
    is_anticausal,
    is_causal,
    is_memoryless,
    product,
)
from phipsi.core.operators import arguments_of, definition_with_modes, inputs_of, written_nodes
from phipsi.core.rewrite import Identity, rewrite_one
from phipsi.errors import PhipsiError
from phipsi.papers.proofs.proof_state import INVERSE_DYNAMICS

_UNTIL_ANY_P = 3  # bodies outside of a path
_OF_PATHS = frozenset({"pose", "frame_pose", "to_com"})  # though their blocks are single ones


@dataclass(frozen=True)
class Reach:
    """What a claim depends on.

    `steps`, how many it takes at most from body to body, or states it has; `in_a_row`, how many
    bodies in a row decide it; `limit`, why there is no such number, "" if there is; `patterns`,
    whether it reads which joints are prescribed, which is drawn as a pattern and not as a number.
    """

    steps: int
    in_a_row: int
    limit: str = ""
    patterns: bool = False


class _Measure(NamedTuple):
    """Steps of terms that end, states of those that do not, and of inverses among these."""

    steps: int = 0
    states: int = 0
    of_inverses: int = 0

    @property
    def all(self) -> int:
        return self.steps + self.states


_NONE, _STEP, _PATH = _Measure(), _Measure(steps=1), _Measure(states=1)


@lru_cache(maxsize=2**11)
def reach_of(claim: Identity) -> Reach:
    """How far a claim reaches from body to body."""
    if claim.check is not None:
        limit = "it is checked by a function, whose steps from body to body are not known"
        return Reach(0, 0, limit)
    nodes = written_nodes(claim.expressions)
    steps = _together(map(measured, claim.sides)).all
    limit = _limit(claim.expressions)
    if limit:
        again = _without_inverses(claim)
        if again is not None:
            limit, steps = "", max(steps, _together(map(measured, again)).all)
    riccati = any(x.op is Op.LEAF and x.row.riccati for x in nodes)
    patterns = "free" in inputs_of(claim.expressions)
    return Reach(steps, steps + 1 + _UNTIL_ANY_P * riccati, limit, patterns)


# ---- steps and states ----------------------------------------------------------------------------


@lru_cache(maxsize=2**13)
def measured(x: Expr) -> _Measure:
    """The steps and states of an expression."""
    if x.op is Op.LEAF:
        return _of_leaf(x)
    if x.op is Op.SUM:
        return _together(measured(y) for _, y in x.terms)
    if x.op is Op.INVERSE and not is_memoryless(x.structure):
        inside = measured(x.args[0]).all + 1
        return _Measure(0, inside, inside)
    return _in_turn(x.args)


def _of_leaf(x: Expr) -> _Measure:
    if x.name in _OF_PATHS:
        return _in_turn(arguments_of(x), _PATH)
    meaning = INVERSE_DYNAMICS if x.name == "tau" else definition_with_modes(x)
    if meaning is not None:
        return measured(meaning)
    parts = arguments_of(x)
    if x.is_vector or is_memoryless(x.structure):
        return _in_turn(parts)
    return _in_turn(parts, _STEP if x.row.step or x.name == "Edot" else _PATH)


def _in_turn(parts: Iterable[Expr], also: _Measure = _NONE) -> _Measure:
    """Of a product."""
    found = [also, *map(measured, parts)]
    steps, states, inverses = (sum(x[i] for x in found) for i in range(3))
    return _Measure(steps, states, steps + states if inverses else 0)


def _together(parts: Iterable[_Measure]) -> _Measure:
    """Of a sum."""
    found = list(parts)
    steps = max((x.steps for x in found if not x.states), default=0)
    plain = max((x.all for x in found if x.states and not x.of_inverses), default=0)
    inverses = sum(x.all for x in found if x.of_inverses)
    return _Measure(steps, plain + inverses, inverses)


# ---- inverses ------------------------------------------------------------------------------------


def _limit(expressions: tuple[Expr, ...]) -> str:
    """The part that couples all bodies, in words."""
    nodes = written_nodes(expressions)
    for x in sorted(nodes, key=str):
        if x.op is Op.LOGDET:
            return f"{x} is of all bodies at once"
        if x.op is Op.INVERSE and not (is_causal(x.structure) or is_anticausal(x.structure)):
            return f"{x} couples all bodies at once"
    return ""


def _without_inverses(claim: Identity) -> tuple[Expr, Expr] | None:
    """Sides that say the same and have no inverse of all bodies at once, if they are found."""
    lhs, rhs = claim.sides
    for candidate in (_rewritten(lhs, rhs), *_multiplied(lhs, rhs), *_multiplied(rhs, lhs)):
        if candidate is not None and not _limit(candidate):
            return candidate
    return None


def _rewritten(lhs: Expr, rhs: Expr) -> tuple[Expr, Expr] | None:
    try:
        sides = [
            rewrite_one(x, frozenset(), armature=True, apply=True).expressions[0]
            for x in (lhs, rhs)
        ]
    except PhipsiError:
        return None
    return (lhs - lhs, rhs - rhs) if sides[0] is sides[1] else (sides[0], sides[1])


def _multiplied(lhs: Expr, rhs: Expr) -> Iterable[tuple[Expr, Expr]]:
    """X⁻¹ Y = Z is Y = X Z, and Y X⁻¹ = Z is Y = Z X."""
    factors = lhs.factors
    first, last = factors[0], factors[-1]
    if first.op is Op.INVERSE and len(factors) > 1:
        yield product(factors[1:]), product((first.args[0], rhs))
    if last.op is Op.INVERSE and len(factors) > 1:
        yield product(factors[:-1]), product((rhs, last.args[0]))
    if lhs.op is Op.INVERSE:
        yield identity(lhs.args[0].takes), product((rhs, lhs.args[0]))
