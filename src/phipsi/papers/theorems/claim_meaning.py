"""What a text given to `prove` states: equations by name or number, or a claim in some notation.

The papers assume more than their equations say: no rotors, mostly no gravity, and in MS revolute
joints. A claim in the letters of a paper means what it says under these assumptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from phipsi.core.calculus import substitute
from phipsi.core.expressions import Expr, with_plain_equals, zero
from phipsi.core.operators import paper_named, parse
from phipsi.core.rewrite import Claim, Identity, claim
from phipsi.errors import InputError, PhipsiError
from phipsi.papers.proofs.claim_decision import sides
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.theorems.book_index import all_identities, equations_at, identity_named
from phipsi.papers.theorems.paper_symbols import NO_ROTORS
from phipsi.papers.theorems.theorem_values import stacked

_GRAVITY, _TAU = parse("gravity"), parse("tau")
_CHAINS_OF_REVOLUTE_JOINTS = (f"{NO_ROTORS}, revolute", f"{NO_ROTORS}, serial, revolute")
_ASSUMED = {"MS": (NO_ROTORS, *_CHAINS_OF_REVOLUTE_JOINTS)}
"""What a paper assumes of mechanisms, from the least to the most; others: no rotors."""


class Meaning(NamedTuple):
    """A claim as a paper means it, and the assumptions in words.

    Without gravity, efforts are arbitrary: those of a proof are efforts with gravity.
    """

    words: str
    identity: Identity
    any_efforts: bool = False


def is_claim(text: str) -> bool:
    """Whether a text is an equation and not a name."""
    return bool(re.search("[=<>≤≥≠]", with_plain_equals(text)))


def stated(text: str, notation: str = "", custom: Sequence[Expr] = ()) -> list[Identity]:
    """The identities with this name or number, or a claim as text."""
    if not text.strip():
        raise InputError(
            'the string is empty. Write a claim, "phi - psi = psi K H phi", or a number, "SOA 0.28"'
        )
    if not is_claim(text):
        return equations_at(text)
    try:
        return [claim(text, notation, custom)]
    except PhipsiError:
        if any(text == identity.name for identity in all_identities()):  # "0 <= P"
            return equations_at(text)
        raise


def stated_once(text: str) -> Identity:
    """The same for one equation; an error if a number has several."""
    return stated(text)[0] if is_claim(text) else identity_named(text)


def notation_of(text: str, notation: str) -> str:
    """The paper in whose letters a claim is; "" for a name."""
    return paper_named(notation) if is_claim(text) else ""


def meanings(paper: str, identity: Identity) -> Iterator[Meaning]:
    """A claim with the assumptions of its paper, the fewest first."""
    own = [part for part in identity.condition.split(", ") if part]
    for assumed in _ASSUMED.get(paper, (NO_ROTORS,)):
        condition = ", ".join(dict.fromkeys([*own, *assumed.split(", ")]))
        yield Meaning(condition, replace(identity, condition=condition))
        if _GRAVITY in identity.leaves:
            free_tau = _TAU in identity.leaves
            yield Meaning(f"{condition}, no gravity", _weightless(identity, condition), free_tau)


def _weightless(identity: Identity, condition: str) -> Identity:
    none = {_GRAVITY: zero(_GRAVITY.takes, _GRAVITY.gives)}
    lhs, rhs = (substitute(side, none) for side in identity.sides)
    return replace(identity, lhs=lhs, rhs=rhs, condition=condition)


def all_at_once(name: str, equations: Sequence[Identity]) -> Identity:
    """Several identities as one."""
    return Identity(
        None,
        None,
        name=name,
        check=partial(_stacked, equations),
        statement="; ".join(x.name if x.lhs is None else str(x.statement or x) for x in equations),
    )


def _stacked(equations: Sequence[Identity], case: ProofState) -> Claim:
    return stacked(*(sides(x, case) for x in equations))
