"""Rules of users: proved before the rewriter applies them, or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from phipsi.core.expressions import Op, shown
from phipsi.core.model import ANY_POINTS, Model, PointSet
from phipsi.core.operators import CATALOGUE, arguments_of, definition, leaves_of
from phipsi.core.rewrite import Identity, is_about_rows, is_self_matching, unmet
from phipsi.errors import InputError, PhipsiError
from phipsi.papers.theorems.claim_meaning import stated_once
from phipsi.papers.theorems.prove import (
    ClaimInputs,
    Proof,
    prove,
    prove_for_inputs,
    with_paper_condition,
)

_RICCATI = frozenset({name for name, row in CATALOGUE.items() if row.riccati})
_ROUND_RICCATI = frozenset({"H", "M", "Jr", "E_phi", "phi", "phi_tilde"}) | _RICCATI


def proved_rules(
    rules: Sequence[Identity | str],
    mechanism: Model | None,
    given: Sequence[str],
    points: PointSet = ANY_POINTS,
) -> tuple[Identity, ...]:
    """The rules with the way they were proved in their source; an error if one is not true.

    A rule is proved on the mechanism that it is used for, with the points of the program, and for
    any inputs: tau need not be the effort that belongs to vdot. Without a mechanism it is proved on
    those of all kinds.
    """
    out: list[Identity] = []
    for rule in rules:
        identity = stated_once(rule) if isinstance(rule, str) else with_paper_condition(rule)
        _check_sides(identity)
        _check_condition(identity, mechanism)
        _check_given(identity, given)
        how = _proof(identity, mechanism, given, points)
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
            f"the rule {identity.name!r} would replace {shown(identity.sides[0])}, which occurs in "
            f"every expression. Rules are applied from left to right; swap the sides."
        )
    if is_self_matching(identity):
        raise InputError(
            f"the right side of the rule {identity.name!r} contains its left side, so the rewriter "
            f"would not terminate. Swap the sides, or state it for the whole part to be replaced."
        )


def _check_condition(identity: Identity, mechanism: Model | None) -> None:
    if not identity.condition:
        return
    if mechanism is None:
        raise InputError(
            f"the rule {identity.name!r} holds if {identity.condition}, which depends on the "
            f"model. Pass one:  pp.explain(expr, model, rules=[…])"
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
                f"inputs={name!r} makes it an input that may have any value. Remove one of them."
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


def _about_points(identity: Identity) -> bool:
    """Whether it is about points, which a proof draws and a program is given."""
    return any("point" in (x.takes.index, x.gives.index) for x in identity.leaves)


def _proof(
    identity: Identity, mechanism: Model | None, given: Sequence[str], points: PointSet
) -> str:
    """How the rule was proved, in short: on the model, whatever is known of others."""
    if mechanism is None:
        return _in_general(identity)
    at = points if _about_points(identity) and not is_about_rows(identity) else None

    def once() -> Proof | PhipsiError:
        try:
            return prove_for_inputs(identity, mechanism, ClaimInputs(at, any_efforts=True))
        except PhipsiError as error:  # singular, or numbers that no proof knows
            return error

    here = mechanism.cached((_proof, identity, at), once)
    if isinstance(here, PhipsiError):
        raise InputError(
            f"the rule {identity.name!r} cannot be used for this model, because it cannot be "
            f"proved: {here}"
        ) from here
    if here.in_general is not None and here.in_general.holds and here:
        return "proved on this tree"
    if here and not given:
        return "proved for this model"
    raise _refused(identity, mechanism, here)


def _in_general(identity: Identity) -> str:
    """How the rule was proved on mechanisms of all kinds."""
    proof = _everywhere(identity)
    if proof:
        most = f" of up to {proof.in_a_row} bodies in a row" if proof.limit else ""
        return f"proved on {proof.mechanisms} mechanisms{most}"
    raise _untrue(identity, proof)


def _untrue(identity: Identity, proof: Proof, also: str = "") -> InputError:
    _, _, numbers = str(proof.counterexample or "").partition("\n")
    return InputError(
        f"the rule {identity.name!r} cannot be used, because it is false: it fails "
        f"{proof.reason}{also}\n{numbers}".rstrip()
    )


def _refused(identity: Identity, mechanism: Model, here: Proof) -> InputError:
    """The error for a rule that is false on the model; it says what is special about the model."""
    if here:
        return InputError(
            f"the rule {identity.name!r} cannot be used: it holds {here.reason}, and with inputs= "
            f"they may be others. Remove the rule, or inputs="
        )
    try:
        general = _everywhere(identity)
    except PhipsiError:  # it is no claim about all mechanisms
        general = None
    if general is not None and not general:
        return _untrue(identity, general, f". This model has {_described(mechanism)}")
    known = "" if general is None else f". It holds {general.reason}"
    return InputError(
        f"the rule {identity.name!r} cannot be used for this model, which has "
        f"{_described(mechanism)}: {here.reason}{known}"
    )


def _described(mechanism: Model) -> str:
    """What a model has that a rule may not know of."""
    tree = mechanism.model
    in_a_row = max(tree.tree.depth, default=-1) + 1
    said = [f"{in_a_row} {'body' if in_a_row == 1 else 'bodies'} in a row"]
    flexible = (x is not None for x in tree.flexible)
    said += [f"a body {tree.body_names[k]!r} that deforms" for k, x in enumerate(flexible) if x][:1]
    rotors = (tree.armature[s].any() for s in tree.v_slices)
    said += [f"a rotor on joint {tree.joint_names[k]!r}" for k, x in enumerate(rotors) if x][:1]
    said += [f"{mechanism.n_rows} constraint rows"] if mechanism.n_rows else []
    return ", ".join(said)
