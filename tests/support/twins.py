"""Twins of identities: claims that differ by a sign, a factor, a star or a term of 1e-12.

A prover that cannot tell an identity from its twin proves nothing. `twins(identity)` yields the
name of the change and the changed identity; `why_true` knows why some of them are true all the
same.
A check of a theorem is also tried with a fault in every value that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import Expr
from phipsi.core.operators.inputs import leaves_of
from phipsi.core.rewrite.identity import Claim, Identity
from phipsi.operators import parse
from phipsi.papers.proofs.claim_decision import equal, sides
from phipsi.papers.proofs.digits import Digits, agree, long_decimals
from phipsi.papers.proofs.proof_state import ProofState

SMALL = Fraction(1, 10**12)
_OPERATORS = (
    "phi", "phi*", "M", "M^-1", "D", "D^-1", "H", "H*", "G", "G*", "J", "J*", "B", "B*", "Upsilon",
    "I[efforts]", "I[rates]", "H phi M", "V", "M V", "v", "tau", "J v", "f0", "phi* H*", "H phi",
    "M phi* H*", "phi M phi* H*", "B* Upsilon B", "v* tau",
)  # fmt: skip
_SQUARE = ("phi", "psi", "E_phi", "E_psi", "phi_tilde", "psi_tilde", "proj", "proj_bar", "shift")
PROBES: list[Expr] = [parse(text) for text in _OPERATORS]


def twins(identity: Identity) -> Iterator[tuple[str, Identity]]:
    """All twins of an identity, by the name of the change."""
    if identity.check is not None:
        yield "sign", replace(identity, check=lambda state: _negated(identity, state))
        yield "factor", replace(identity, check=lambda state: _scaled(identity, state))
        yield "term", replace(identity, check=lambda state: _with_term(identity, state))
        return
    lhs, rhs = identity.sides
    side = "lhs" if rhs.op is Op.ZERO else "rhs"
    x: Expr = getattr(identity, side)
    yield "sign", replace(identity, **{side: _last_term_times(x, -1)})
    yield "factor", replace(identity, **{side: _last_term_times(x, 1 + SMALL)})
    yield "term", replace(identity, rhs=rhs + SMALL * probe_for(lhs))
    for where, leaf in _starrable(identity) if lhs.op is not Op.LOGDET else ():
        check = partial(_starred, identity, side=where, leaf=leaf)
        yield f"star on {leaf.name} {where}", replace(identity, check=check)


def probe_for(x: Expr) -> Expr:
    """Some operator or vector between the spaces of x that is not zero."""
    if x.op is Op.LOGDET:
        return x
    fitting = (p for p in PROBES if (p.takes, p.gives) == (x.takes, x.gives))
    return next(fitting, x)


def _last_term_times(x: Expr, c: int | Fraction) -> Expr:
    if x.op is not Op.SUM:
        return c * x
    *rest, (coefficient, last) = x.terms
    out = (c * Fraction(coefficient)) * last
    for number, term in rest:
        out = out + Fraction(number) * term
    return out


def _both(identity: Identity, state: ProofState) -> Claim:
    assert identity.check is not None
    return identity.check(state)


def _negated(identity: Identity, state: ProofState) -> Claim:
    found = _both(identity, state)
    return Claim(found.lhs, -1 * found.rhs)


def _scaled(identity: Identity, state: ProofState) -> Claim:
    found = _both(identity, state)
    return Claim(found.lhs, found.rhs * state.kind.of(1 + SMALL))


def _with_term(identity: Identity, state: ProofState) -> Claim:
    found = _both(identity, state)
    return Claim(found.lhs, found.rhs + state.kind.of(SMALL))


def _starred(identity: Identity, state: ProofState, side: str, leaf: Expr) -> Claim:
    """One side with an operator starred wherever it stands."""
    lhs, rhs = identity.sides
    values = {"lhs": state.applied(lhs), "rhs": state.applied(rhs)}
    wrong = state.with_value(leaf, state.dense(leaf).T)
    values[side] = wrong.applied(getattr(identity, side))
    return Claim(values["lhs"], values["rhs"])


def _starrable(identity: Identity) -> Iterator[tuple[str, Expr]]:
    """The sides with an operator on them that can be starred, and is not its own star."""
    for side in ("rhs", "lhs"):
        leaves = {x.name: x for x in leaves_of(getattr(identity, side)) if not x.args}
        yield from ((side, leaves[name]) for name in _SQUARE if name in leaves)


def why_true(kind: str, identity: Identity, state: ProofState) -> str:
    """Why a twin may be true, checked at one point; "" if there is no reason."""
    if (kind, identity.name) in KNOWN_TRUE:
        return KNOWN_TRUE[kind, identity.name]
    if kind in ("sign", "factor"):
        with long_decimals():
            rhs = sides(identity, state)[1]
            if agree(rhs, 0 * rhs)[0] if state.kind is Digits else not np.asarray(rhs).any():
                return "the right side is zero"
    return ""


_TURNS_ALONG = "Υ is made from ψ = (I − E_ψ)⁻¹ and turns along; the equation holds for any E_ψ"
KNOWN_TRUE = {
    ("star on E_psi rhs", "Upsilon equation (tree)"): _TURNS_ALONG,
    ("star on E_psi rhs", "Upsilon equation (serial)"): _TURNS_ALONG,
}


# ---- faults inside of a check -------------------------------------------------------------------


class Faulty:
    """A state in which the n-th value that is asked for is off by 1e-12, at random places."""

    def __init__(self, state: ProofState, fault: int) -> None:
        self._state, self._fault, self.calls = state, fault, 0
        self.memo: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def dense(self, expr: Expr, **changes: Any) -> Any:
        value = self._state.dense(expr, **changes)
        self.calls += 1
        if self.calls != self._fault + 1:
            return value
        noise = self._state.random(*value.shape)
        if np.iscomplexobj(value):  # the rate is what is asked for
            noise = noise + 1j * self._state.random(*value.shape)
        return value + self._state.kind.of(SMALL) * noise


def values_asked_for(identity: Identity, state: ProofState) -> int:
    """How many values of expressions a check asks for."""
    counted = Faulty(state.fresh(), -1)
    assert identity.check is not None
    identity.check(counted)  # pyright: ignore[reportArgumentType]
    return counted.calls


def notices(identity: Identity, state: ProofState, fault: int) -> bool:
    """Whether a check fails if the value it asks for at this place is off by 1e-12."""
    assert identity.check is not None
    found = identity.check(Faulty(state.fresh(), fault))  # pyright: ignore[reportArgumentType]
    return not equal(found.lhs, found.rhs)
