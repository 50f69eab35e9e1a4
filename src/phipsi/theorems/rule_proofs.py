"""The rules that a user gives to a computation: proved before they are used, or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from phipsi.errors import InputError, SingularMatrixError
from phipsi.expressions.check import shown
from phipsi.expressions.kinds import Op
from phipsi.model import Model
from phipsi.operators.catalogue import CATALOGUE, arguments_of, definition
from phipsi.operators.inputs import leaves_of
from phipsi.rewrite.given_rules import feeds_itself
from phipsi.rewrite.identity import Identity, unmet
from phipsi.theorems.prove import Proof, prove, stated

_RICCATI = frozenset({name for name, row in CATALOGUE.items() if row.riccati})
_ROUND_RICCATI = frozenset({"H", "M", "Jr", "E_phi", "phi", "phi_tilde"}) | _RICCATI


def proved_rules(
    rules: Sequence[Identity | str], mechanism: Model | None, given: Sequence[str]
) -> tuple[Identity, ...]:
    """The rules with the way they were proved in their source; an error if one is not true.

    A rule holds for any inputs: tau need not be the effort that belongs to vdot.
    """
    out: list[Identity] = []
    for rule in rules:
        identity = stated(rule) if isinstance(rule, str) else rule
        _check_sides(identity)
        _check_condition(identity, mechanism)
        _check_given(identity, given)
        how = _proof(identity, mechanism, given)
        source = "; ".join(filter(None, [identity.source, how]))
        out.append(replace(identity, source=source))
    return tuple(out)


def _check_sides(identity: Identity) -> None:
    if identity.check is not None or identity.sweeps:
        raise InputError(
            f"identity {identity.name!r} is not an equation between two expressions, so it cannot "
            f"be a rule:\n    {identity}"
        )
    if identity.sides[0].op in (Op.IDENTITY, Op.ZERO):
        raise InputError(
            f"the rule {identity.name!r} would replace {shown(identity.sides[0])}, which is in "
            f"every expression. Rules are used from left to right; swap the sides."
        )
    if feeds_itself(identity):
        raise InputError(
            f"the right side of the rule {identity.name!r} contains its left side, so it could be "
            f"used for ever. Swap the sides, or state it for the whole part that is to be replaced."
        )


def _check_condition(identity: Identity, mechanism: Model | None) -> None:
    if not identity.condition:
        return
    if mechanism is None:
        raise InputError(
            f"the rule {identity.name!r} holds if {identity.condition}, which is decided by a "
            f"model: pp.explain(expr, model, rules=[…])"
        )
    why = unmet(identity.condition, mechanism)
    if why:
        raise InputError(f"the rule {identity.name!r} cannot be used for this model: {why}")


def _check_given(identity: Identity, given: Sequence[str]) -> None:
    """A quantity that is given may have any value, for which nothing was proved."""
    for name in given:
        if name in _names_read(identity):
            raise InputError(
                f"the rule {identity.name!r} was proved for the {name} of the mechanism, but "
                f"given={name!r} makes it an input that may have any value. Leave out one of them."
            )


@lru_cache(maxsize=256)
def _names_read(identity: Identity) -> frozenset[str]:
    """The names of all quantities that the sides are computed from."""
    names: set[str] = set()
    stack = list(identity.leaves)
    while stack:
        x = stack.pop()
        if x.name in names:
            continue
        names.add(x.name)
        meaning = definition(x)
        stack += [] if meaning is None else leaves_of(meaning)
        stack += arguments_of(x)
        names |= _ROUND_RICCATI if x.row.riccati else frozenset()
        names |= {"placement"} if "q" in x.row.needs else frozenset()
    return frozenset(names)


@lru_cache(maxsize=256)
def _everywhere(identity: Identity) -> Proof:
    return prove(identity, any_efforts=True)


def _on_the_model(identity: Identity, mechanism: Model) -> Proof:
    try:
        return prove(identity, mechanism)
    except SingularMatrixError as error:
        raise InputError(
            f"the rule {identity.name!r} cannot be used for this model: {error}"
        ) from error


def _about_points(identity: Identity) -> bool:
    """Whether it is about points, which a proof draws and a program is given."""
    return any("point" in (x.takes.index, x.gives.index) for x in identity.leaves)


def _proof(identity: Identity, mechanism: Model | None, given: Sequence[str]) -> str:
    """How the rule was proved, in short."""
    proof = _everywhere(identity)
    if proof and (not proof.undefined or mechanism is None or _about_points(identity)):
        return f"proved on {proof.mechanisms} mechanisms"
    about_tau = any(x.name == "tau" for x in identity.leaves)
    if mechanism is not None and not about_tau:
        here = _on_the_model(identity, mechanism)
        if here.in_general is not None and here.in_general.holds and here:
            return "proved on this tree"
        if here and not given:
            return "proved for this model"
    if proof:
        raise InputError(
            f"the rule {identity.name!r} cannot be used for this model: it is proved where all "
            f"inverses exist, and is not true or not defined here"
        )
    _, _, numbers = str(proof.counterexample or "").partition("\n")
    raise InputError(
        f"the rule {identity.name!r} cannot be used, because it is not true: it fails "
        f"{proof.reason}\n{numbers}".rstrip()
    )
