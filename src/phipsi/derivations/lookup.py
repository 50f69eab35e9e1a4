"""Identities by what a reader calls them: their name, a part of it, or their number in a paper."""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from phipsi.errors import InputError, did_you_mean
from phipsi.rewrite.identities import RULES
from phipsi.rewrite.identity import Identity
from phipsi.theorems.book import THEOREMS


def known_identities() -> tuple[Identity, ...]:
    """The papers' theorems, then the rewriter's rules."""
    return (*THEOREMS, *RULES)


def find_identities(wanted: Identity | str) -> list[Identity]:
    r"""The equations between expressions with this name, part of a name, or source; names first.

    >>> print(*find_identities("SOA Lemma 0.4"), sep="\n")
    Lemma 0.4 / Lemma 4:  (I − H ψ K) H φ = H ψ   [SOA Lemma 0.4; 88-11 a.35]
    """
    if isinstance(wanted, Identity):
        _two_sides(wanted)
        return [wanted]
    if not isinstance(cast(object, wanted), str):
        raise InputError(f"an identity, its name or its source, not {type(wanted).__name__}")
    plain = _plain(wanted)
    found = [x for of in (_names, _sources) for x in known_identities() if plain in of(x)]
    usable = [x for x in found if x.lhs is not None and not x.sweeps]
    if usable:
        return list({x.sides: x for x in reversed(usable)}.values())[::-1]
    if found:
        _two_sides(found[0])
    known = {part: None for x in known_identities() for part in (x.name, *x.source.split("; "))}
    raise InputError(f"there is no identity {wanted!r}. {did_you_mean(wanted, known)}")


def _two_sides(x: Identity) -> None:
    if x.lhs is None or x.sweeps:
        raise InputError(
            f"identity {x.name!r} is not an equation between two expressions, so it cannot be "
            f"used as a step:\n    {x}"
        )


@cache
def _names(x: Identity) -> set[str]:
    return {_plain(part) for part in (x.name, *x.name.split(" / "))}


@cache
def _sources(x: Identity) -> set[str]:
    parts = x.source.split("; ")
    short = [part.partition(" ")[2] for part in parts]
    return {_plain(part) for part in (*parts, *short)}


def _plain(text: str) -> str:
    return re.sub(r"[\s()]+|\beq\.", "", text).casefold()
