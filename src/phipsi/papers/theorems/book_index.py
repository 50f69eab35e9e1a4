"""The index of the book: identities by name, by number in a paper, by operator, by pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple, cast

from phipsi.core.expressions import Expr, Op, adjoint
from phipsi.core.operators import PAPERS, leaves_of, nodes_of
from phipsi.core.rewrite import RULES, Identity, find_in_product, replace_in_sum, sides_of
from phipsi.errors import InputError, PhipsiError, did_you_mean
from phipsi.papers.theorems.paper_symbols import word
from phipsi.papers.theorems.printed_equations import Printed, printed

_KINDS = {"lemma": "lemma", "lemmas": "lemma", "eq.": "", "eq": "", "eqs.": "", "equation": ""}
_SHORTEST_WORD, _SHOWN = 3, 6
_ANY = ("*", "…", "...", "_")
_ALGORITHMS = {
    "aba": ("FD1 recursion", "innovations factorization", "Riccati recursion"),
    "crba": ("composite-body recursion", "composite bodies"),
    "rnea": ("Newton-Euler", "inverse dynamics"),
}
"""What recursions are called elsewhere, and the identities that they are."""
_NUMBER = re.compile(r"(?:[a-z]\.?)?\d*\.?\d+[a-z]?")


def identities(query: str = "") -> list[Identity]:
    """The known identities: all of them, or those that match a query.

    Parameters
    ----------
    query : str, optional
        A name or a part of it (``"Lemma 0.4"``), a paper and a number (``"SOA 0.28"``,
        ``"88-11 a.35"``), a paper (``"MS"``), a recursion (``"ABA"``, ``"CRBA"``,
        ``"RNEA"``), an operator (``"psi"``), or a pattern: a part of a
        product or sum, in which a separate star stands for any factors (``"H psi * H*"``), and
        which is also found in its adjoint. The first of these readings with a match is used.
        Default: the rewriter's rules, then the papers' other theorems.

    Returns
    -------
    list of Identity
        The identities.

    Raises
    ------
    InputError
        If nothing matches; the message lists close matches.

    See Also
    --------
    prove : Decide whether an identity holds.

    Examples
    --------
    >>> import phipsi as pp
    >>> len(pp.identities()) > 250
    True
    >>> for identity in pp.identities("SOA 0.28"):
    ...     print(identity)
    Lemma 0.1 / Lemma 1:  mass_matrix = (I + H phi K) D (I + H phi K)*   [SOA eq. 0.28; MC eq. 11]
    """
    if not isinstance(cast(object, query), str):
        raise InputError(f"a query for identities is a str, not {type(query).__name__}")
    if not query.strip():
        return [*RULES, *(theorem for theorem in _book() if not theorem.rule)]
    for reading in (_by_algorithm, _by_name, _by_source, _by_number, _by_pattern, _by_words):
        found = list(reading(query))
        if found:
            return list({x.rule or x.name: x for x in reversed(found)}.values())[::-1]
    row = _printed_at(query)
    if row is not None:
        raise InputError(_not_an_equation(row))
    raise InputError(
        f"there is no identity {query!r}. {_close_to(query)} A query is a name, a number of a "
        f"paper ('SOA 0.28'), an operator ('psi') or a pattern ('H psi * H*')."
    )


def identity_named(name: str) -> Identity:
    """The identity with this name or number; an error if there is none, or more than one."""
    found = equations_at(name)
    if len(found) > 1:
        raise InputError(_several(name, found))
    return found[0]


def equations_at(name: str) -> list[Identity]:
    """The identities with this name, or all equations with this number; an error if none."""
    known = {identity.name: identity for identity in all_identities()}
    if name in known:
        return [known[name]]
    found = list(_by_name(name)) or list(_by_source(name, exactly=True))
    different = {x.sides if x.lhs is not None else x.name: x for x in reversed(found)}
    as_printed = list(_as_printed(name)) if len(different) != 1 else []
    for some in (list(different.values())[::-1], as_printed):
        if len(some) == 1:
            return some
    row = _printed_at(name)
    if row is not None and not as_printed and not found:
        found = [known[x] for x in row.names if x in known]
    if found or as_printed:
        return as_printed or list({x.name: x for x in found}.values())
    if row is not None:
        raise InputError(_not_an_equation(row))
    raise InputError(
        f"there is no identity {name!r}. {_close_to(name)} To prove your own claim, write "
        f'both sides:  pp.prove("phi - psi = psi K H phi")'
    )


def _not_an_equation(row: Printed) -> str:
    return (
        f"{row} is not an equation to prove. In phipsi it is {row.here}.\n"
        f"More: docs/papers/{row.paper.split()[0]}.md"
    )


def _several(name: str, identities: Sequence[Identity]) -> str:
    """The error where one equation is needed and a number has several."""
    row = _printed_at(name)
    if row is not None and identities[0].name == str(row):
        fixes = [f'"{x.statement}" with notation="{row.paper}"' for x in identities]
    else:
        fixes = [f'"{x.name}"' for x in identities]
    more = f"\n    and {len(fixes) - _SHOWN} more" if len(fixes) > _SHOWN else ""
    return f"{name!r} has {len(fixes)} equations. Use one of them:\n    " + (
        "\n    ".join(fixes[:_SHOWN]) + more
    )


def equations_named(identity: Identity | str) -> list[Identity]:
    r"""The equations between expressions with this name or number in a paper; names first.

    >>> print(*equations_named("SOA Lemma 0.4"), sep="\n")
    Lemma 0.4 / Lemma 4:  (I − H ψ K) H φ = H ψ   [SOA Lemma 0.4; 88-11 a.35]
    whiten φ̃:  (I − H ψ K) H φ̃ = H ψ E_φ   [SOA Lemma 0.4; SOA eq. .46]
    """
    if isinstance(identity, Identity):
        _check_two_sides(identity)
        return [identity]
    if not isinstance(cast(object, identity), str):
        raise InputError(
            f"an identity is a pp.Identity, its name, or its number such as 'SOA 0.28', not "
            f"{type(identity).__name__}"
        )
    if "=" in identity and not any(identity == x.name for x in all_identities()):
        lhs, rhs = sides_of(identity)
        raise InputError(
            f'{identity!r} is a claim, not a name. Write  pp.Identity("{lhs}", "{rhs}")'
        )
    found = [*_by_name(identity), *_by_source(identity)] or list(_by_number(identity))
    usable = [x for x in found if x.lhs is not None and not x.sweeps]
    if usable:
        return list({x.sides: x for x in reversed(usable)}.values())[::-1]
    if found:
        _check_two_sides(found[0])
    raise InputError(f"there is no identity {identity!r}. {_close_to(identity)}")


def _check_two_sides(x: Identity) -> None:
    if x.lhs is None or x.sweeps:
        raise InputError(
            f"identity {x.name!r} is not an equation between two expressions, so it cannot be "
            f"used as a step:\n    {x}"
        )


def _close_to(query: str) -> str:
    """Names and numbers that are written almost like a query, or how to find some."""
    paper = next((p for p in PAPERS if query.casefold().startswith(f"{p.casefold()} ")), "")
    if paper:
        numbers = {asked for row in printed().values() if (asked := str(row)).startswith(paper)}
        return did_you_mean(query, sorted(numbers), f"{paper} has no such number.")
    known = dict.fromkeys(
        part for x in all_identities() for part in (*_names(x), *x.source.split("; "))
    )
    return did_you_mean(query, known, 'pp.identities("psi") lists those about an operator.')


def all_identities() -> tuple[Identity, ...]:
    """The papers' theorems, then the rewriter's rules; a rule that is a theorem is in both."""
    return (*_book(), *RULES)


def _book() -> tuple[Identity, ...]:
    from phipsi.papers.theorems.book import THEOREMS  # some 300 expressions to read: only on use

    return THEOREMS


# ---- names and words -----------------------------------------------------------------------------


def _by_name(query: str) -> Iterator[Identity]:
    wanted = _plain(query)
    return (x for x in all_identities() if wanted in map(_plain, _names(x)))


def _names(x: Identity) -> Iterator[str]:
    """The names of an identity; "Lemmas 4.2, 4.3 and 5.2" is each of these lemmas."""
    yield from (x.name, *x.name.split(" / "))
    if x.name.startswith("Lemmas "):
        yield from (f"Lemma {number}" for number in re.findall(r"[0-9.]*[0-9]", x.name))


def _by_algorithm(query: str) -> Iterator[Identity]:
    names = _ALGORITHMS.get(query.strip().casefold(), ())
    return (x for name in names for x in all_identities() if x.name == name)


def _plain(text: str) -> str:
    return re.sub(r"[\s()]+|\beq\.", "", text).casefold()


def _by_words(query: str) -> Iterator[Identity]:
    words = query.casefold().split()
    if any(len(word) < _SHORTEST_WORD for word in words):
        return  # letters are in every text
    for x in all_identities():
        text = f"{x.name} {x.source} {x.note}".casefold()
        if all(word in text for word in words):
            yield x


# ---- sources -------------------------------------------------------------------------------------


class PaperLocation(NamedTuple):
    """A place in a paper: which one, "lemma" or "", and its numbers."""

    paper: str
    kind: str
    numbers: frozenset[str]


def _by_source(query: str, exactly: bool = False) -> Iterator[Identity]:
    wanted = _place(query)
    if wanted is None:
        return iter(())
    within = _at if exactly else _within
    return (x for x in all_identities() if any(within(wanted, at) for at in _places(x.source)))


def _within(wanted: PaperLocation, at: PaperLocation) -> bool:
    part = not wanted.numbers and at.paper == f"{wanted.paper} II"
    return (
        (part or wanted.paper in ("", at.paper))
        and wanted.kind in ("", at.kind)
        and wanted.numbers <= at.numbers
    )


def _at(wanted: PaperLocation, at: PaperLocation) -> bool:
    """The one number of one paper, and not the lemma of the same number."""
    return bool(wanted.numbers) and wanted == at


# ---- numbers -------------------------------------------------------------------------------------


def _printed_at(query: str) -> Printed | None:
    """What stands at a number: "SOA 0.28", "MM Identity 3", "88-11 Part II eq. b.9"."""
    tokens = re.sub(r"[(),]|\beq(?:s|uation)?\b\.?|\bPart\b", " ", query).split()
    paper = next((p for p in PAPERS if tokens and tokens[0].casefold() == p.casefold()), "")
    rest = tokens[1:]
    if rest[:1] == ["II"]:
        paper, rest = f"{paper} II", [f"II-{rest[-1]}"] if len(rest) > 1 else []
    if rest and rest[0].startswith("II-"):
        paper = f"{paper.removesuffix(' II')} II"
    name = "-".join(rest)
    for spelling in (name, name[:1].upper() + name[1:], name.replace("0.", ".", 1)):
        if (paper, spelling) in printed():
            return printed()[paper, spelling]
    return None


def _as_printed(query: str) -> Iterator[Identity]:
    """The equations at a number, in the letters of the paper, which has no rotors."""
    row = _printed_at(query)
    paper = "" if row is None else row.paper
    for text in () if row is None else row.texts:
        sides = text.split(" = ")
        for left, right in zip(sides, sides[1:], strict=False):
            yield Identity(
                left,
                right,
                "Jr = 0",
                name=str(row),
                source=f"{paper.replace(' II', ' Part II')} as printed",
                statement=f"{left} = {right}",
                notation=paper,
            )


def _by_number(query: str) -> Iterator[Identity]:
    """The equations at a number, or the identities of the book about it."""
    found = list(_as_printed(query))
    if len(found) == 1:
        return iter(found)
    row = _printed_at(query)
    about = () if found or row is None else row.names
    several = (replace(x, name=f"{x.name}: {x.statement}") for x in found)
    return iter([*several, *(x for x in all_identities() if x.name in about)])


@cache
def _places(source: str) -> tuple[PaperLocation, ...]:
    found = (_place(part, strict=False) for part in source.split("; "))
    return tuple(place for place in found if place is not None)


def _place(text: str, strict: bool = True) -> PaperLocation | None:
    """A place as it is written; None for text that is not about a paper or a number."""
    paper, kind, numbers = "", "", set[str]()
    for token in text.replace(",", " ").split():
        lower = token.casefold().strip("()")
        named = next((p for p in PAPERS if p.casefold() == lower), "")
        if named and not paper:
            paper = named
        elif lower in ("part", "ii") and paper:
            paper = f"{paper} II" if lower == "ii" else paper
        elif lower in _KINDS:
            kind = kind or _KINDS[lower]
        elif _NUMBER.fullmatch(lower) or "-" in lower and any(c.isdigit() for c in lower):
            numbers |= _range(lower)
        elif strict:
            return None
    return PaperLocation(paper, kind, frozenset(numbers)) if paper or numbers else None


def _range(text: str) -> set[str]:
    """The numbers of "0.28", "30-33" or "a.44-a.45", with ".41" as "0.41"."""
    first, _, last = text.partition("-")
    ends = [re.fullmatch(r"(.*?)(\d+)", _full(x)) for x in (first, last or first)]
    if ends[0] is None or ends[1] is None or ends[0][1] != ends[1][1]:
        return {_full(x) for x in (first, last) if x}
    return {f"{ends[0][1]}{n}" for n in range(int(ends[0][2]), int(ends[1][2]) + 1)}


def _full(number: str) -> str:
    return f"0{number}" if number.startswith(".") else number


# ---- operators and patterns ----------------------------------------------------------------------


def _by_pattern(query: str) -> Iterator[Identity]:
    try:
        matches = _matcher(query)
    except PhipsiError:
        return iter(())
    return (x for x in all_identities() if x.lhs is not None and any(map(matches, x.sides)))


def _matcher(query: str) -> Callable[[Expr], bool]:
    """A test whether an expression contains the pattern, or its adjoint."""
    parts = [" ".join(part) for part in _split(query.split())]
    pieces = [word(part) for part in parts]
    if len(pieces) == 1 and pieces[0].op is Op.LEAF and parts == [query.strip()]:
        return lambda x: pieces[0] in leaves_of(x)
    if len(pieces) == 1 and pieces[0].op is Op.SUM:
        sums = (pieces[0], adjoint(pieces[0]))
        return lambda x: any(_has_sum(y, one) for y in nodes_of(x) for one in sums)
    factors = [piece.factors for piece in pieces]
    mirrored = [tuple(adjoint(y) for y in reversed(piece)) for piece in reversed(factors)]
    return lambda x: any(
        _in_order(y.factors, one) for y in nodes_of(x) for one in (factors, mirrored)
    )


def _split(tokens: Sequence[str]) -> list[list[str]]:
    """The tokens between those that stand for any factors."""
    out: list[list[str]] = [[]]
    for token in tokens:
        if token in _ANY:
            out.append([])
        else:
            out[-1].append(token)
    return [part for part in out if part]


def _in_order(factors: tuple[Expr, ...], pieces: Sequence[tuple[Expr, ...]]) -> bool:
    """Whether the pieces stand in a product one after the other, with anything between them."""
    at = 0
    for piece in pieces:
        found = find_in_product(factors[at:], piece)
        if found < 0:
            return False
        at += found + len(piece)
    return bool(pieces)


def _has_sum(x: Expr, wanted: Expr) -> bool:
    return x is wanted or (
        x.op is Op.SUM and replace_in_sum(x, wanted, wanted.terms[0][1]) is not None
    )
