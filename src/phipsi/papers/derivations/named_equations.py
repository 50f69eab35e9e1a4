# ruff: noqa: E501  (tables: one row, one line)
"""The named equations that derivations use: definitions, and the two-sided identities of the book.

An equation is a sum of words that is zero. Each is used with its adjoint, and for every Riccati
family that occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

from phipsi.core.calculus import substitute
from phipsi.core.expressions import (
    MOTIONS,
    Expr,
    Number,
    Op,
    adjoint,
    identity,
    is_memoryless,
    product,
    total_of,
)
from phipsi.core.operators import (
    CATALOGUE,
    Riccati,
    definition,
    is_transition,
    leaf,
    leaves_of,
    nodes_of,
    parse,
    plain_transition,
    strict_transition,
    transition_step,
)
from phipsi.core.rewrite import Identity, families_of, instances
from phipsi.papers.derivations.manipulate import fold
from phipsi.papers.derivations.normal_form import Word, WordSum, quotient, words_of
from phipsi.papers.proofs.proof_state import any_motion
from phipsi.papers.theorems.book_index import all_identities

# fmt: off
_BY_EQUATION = [
    #  of     is          equal to                   source
    ("φ",    "φ",        "I + φ E_φ",               "SOA eq. 0.6"),
    ("φ",    "φ",        "I + E_φ φ",               "SOA eq. 0.6"),
    ("ψ",    "ψ",        "I + ψ E_ψ",               "SOA eq. 0.27"),
    ("ψ",    "ψ",        "I + E_ψ ψ",               "SOA eq. 0.27"),
    ("D",    "D",        "H P H* + Jr",             "SOA eq. 0.26"),
    ("G",    "G",        "P H* D⁻¹",                "SOA eq. 0.26"),
    ("G",    "G D",      "P H*",                    "SOA eq. 0.26"),
    ("D½",   "D½ D½*",   "D",                       "MC sec. 6"),
    ("E_ψ",  "E_ψ",      "E_φ − K H",               "MC eq. 10"),
    ("φ̃",    "φ̃",        "φ − I",                   "SOA eq. .46"),
    ("ψ̃",    "ψ̃",        "ψ − I",                   "SOA eq. .46"),
    ("ψ",    "ψ⁻¹",      "I − E_ψ",                 "SOA eq. 0.27"),
    ("φ",    "φ⁻¹",      "I − E_φ",                 "SOA eq. 0.6"),
]
# fmt: on
_BASE = "H E_phi phi phi_tilde M Jr P D G K proj proj_bar E_psi psi psi_tilde mass_matrix"


@dataclass(frozen=True, eq=False)
class Equation:
    """One named equation between expressions, for one Riccati family: `words` is zero."""

    identity: Identity
    before: Expr
    after: Expr

    @property
    def name(self) -> str:
        """The name of the identity."""
        return self.identity.name

    @property
    def sides(self) -> tuple[Expr, Expr]:
        """Both sides."""
        return self.before, self.after

    @cached_property
    def words(self) -> WordSum:
        """before − after."""
        return difference(self.before, self.after)

    @cached_property
    def key(self) -> frozenset[tuple[Word, Number]]:
        """Equal for equations that say the same."""
        return scaled_key(self.words)


def difference(lhs: Expr, rhs: Expr) -> WordSum:
    """lhs − rhs as a sum of words."""
    return words_of(lhs).plus(-1, words_of(rhs))


def scaled_key(words: WordSum) -> frozenset[tuple[Word, Number]]:
    """The key of a sum up to a factor and the adjoint."""
    if words.is_zero:
        return words.key
    keys = []
    for one in (words, words.adjoint()):
        first = min(one.terms, key=_spelling)
        scaled = {w: quotient(c, one.terms[first]) for w, c in one.terms.items()}
        keys.append((_spelling(first), frozenset(scaled.items())))
    return min(keys, key=lambda k: k[0])[1]


def _spelling(word: Word) -> tuple[str, ...]:
    return tuple(x.text("ascii") for x in word)


def definition_of(name: str, before: Expr, after: Expr, source: str) -> Identity:
    """A definition as an identity."""
    return Identity(before, after, name=f"definition of {name}", source=source, kind="definition")


@cache
def definitions() -> tuple[Identity, ...]:
    """The definitions of the catalogue, and the equations that define φ, ψ, D and G."""
    named = [
        definition_of(symbol, parse(before), parse(after), source)
        for symbol, before, after, source in _BY_EQUATION
    ]
    rows = (leaf(row) for row in CATALOGUE.values() if row.definition is not None)
    written = [
        definition_of(str(x), x, meaning, x.row.source)
        for x in rows
        if (meaning := definition(x)) is not None
    ]
    no_rotors = Identity("Jr", "0", "Jr = 0", name="Jr = 0", kind="condition")
    return (*written, *named, no_rotors)


def own_definitions(sides: Iterable[Expr]) -> list[Identity]:
    """The definitions of custom operators that occur, also in each other."""
    out: dict[Expr, Identity] = {}
    stack = [y for x in sides for y in leaves_of(x)]
    while stack:
        y = stack.pop()
        meaning = definition(y) if y.row.is_own and y not in out else None
        if meaning is not None:
            out[y] = definition_of(str(y), y, meaning, y.row.source)
            stack += leaves_of(meaning)
    return sorted(out.values(), key=lambda one: one.name)


@cache
def book() -> tuple[Identity, ...]:
    """The definitions, and the identities with two sides; what says the same stands once."""
    sides = [x for x in all_identities() if x.lhs is not None and not x.sweeps]
    out: dict[object, Identity] = {}
    for x in (*definitions(), *sides):
        key = (scaled_key(difference(*x.sides)), x.condition)
        out.setdefault(key, x)
    return tuple(out.values())


def _crossed(sides: Sequence[Expr]) -> dict[Expr, None]:
    """The motions in the cross products of some expressions."""
    letters = sorted({y for x in sides for y in words_of(x).letters}, key=str)
    return {y.args[0]: None for y in letters if y.op is Op.FUNCTION and y.args[0].gives is MOTIONS}


def _instantiated(x: Identity, motions: Iterable[Expr]) -> Iterator[Identity]:
    """An identity, and what it says of each motion if it is about any motion x."""
    yield x
    if any(any_motion in leaves_of(side) for side in x.sides):
        for y in motions:
            if y is not any_motion:
                left, right = (substitute(side, {any_motion: y}) for side in x.sides)
                yield replace(x, lhs=left, rhs=right)


def equations_for(
    identities: Iterable[Identity], sides: Sequence[Expr], condition: str
) -> list[Equation]:
    """The identities as equations for the families of some expressions, where their condition holds."""
    met = set(filter(None, condition.split(", ")))
    families: dict[Riccati, None] = {}
    for x in sides:
        families |= dict.fromkeys(families_of(x))
    out: dict[object, Equation] = {}
    motions = _crossed(sides)
    for x in (y for one in identities for y in _instantiated(one, motions)):
        if not set(filter(None, x.condition.split(", "))) <= met:
            continue
        for f in families:
            for i in instances(x, f)[:1]:
                for before, after in ((i.before, i.after), (fold(i.before), fold(i.after))):
                    one = Equation(x, before, after)
                    if not one.words.is_zero:
                        out.setdefault(one.key, one)
    return list(out.values())


def alphabet(sides: Iterable[Expr]) -> set[Expr]:
    """The letters that a derivation between some expressions may use."""
    letters = {leaf(CATALOGUE[name]) for name in _BASE.split()}
    stack = [y for x in sides for y in words_of(x).letters]
    while stack:
        y = stack.pop()
        if y in letters and y.op is not Op.LEAF:
            continue
        known = y in letters
        letters.add(y)
        inner = y.args if y.op is not Op.LEAF else ()
        meaning = definition(y) if y.op is Op.LEAF and not known else None
        for part in (*inner, *(() if meaning is None else (meaning,))):
            stack.extend(words_of(part).letters)
    return letters


def is_relevant(equation: Equation, letters: set[Expr]) -> bool:
    """True if an equation has only letters of the alphabet, or inverses and functions of them."""
    return all(_spelled(x, letters) for x in equation.words.letters)


def _spelled(x: Expr, letters: set[Expr]) -> bool:
    if x in letters or adjoint(x) in letters:
        return True
    if x.op is Op.INVERSE:
        return x.args[0].core in letters
    opened = x.op in (Op.FUNCTION, Op.BD)
    inner = opened and (y for part in x.args for y in words_of(part).letters)
    return bool(inner) and all(y in letters for y in inner)


def cancellations(sides: Iterable[Expr]) -> list[Identity]:
    """X X⁻¹ = I for the inverses of sums that occur."""
    out: list[Identity] = []
    seen: set[Expr] = set()
    stack = [y for x in sides for y in sorted(words_of(x).letters, key=str)]
    while stack:
        y = stack.pop()
        if y in seen:
            continue
        seen.add(y)
        stack.extend(z for part in y.args for z in words_of(part).letters)
        if y.op is Op.INVERSE and y.args[0].op is Op.SUM:
            x = y.args[0]
            unit, other = identity(y.gives), identity(x.gives)
            out.append(Identity(spread(y, x), unit, name="cancel an inverse", kind="law"))
            transposed = spread(y.T, x.T).T
            out.append(Identity(transposed, other, name="cancel an inverse", kind="law"))
    return out


def diagonals(sides: Iterable[Expr]) -> list[Identity]:
    """Lemma A.1 for the diagonals r = bd(T X U*) that occur: T X U* and the recursion of r."""
    out: list[Identity] = []
    for r in sorted({y for x in sides for y in words_of(x).letters if y.op is Op.BD}, key=str):
        first, *middle, last = r.args[0].factors if len(r.args[0].factors) > 2 else (r, r, r)
        last = last.T
        if not (is_transition(first) and is_transition(last)):
            continue
        X = product(middle)
        if not is_memoryless(X.structure):
            continue
        E, F = transition_step(first), transition_step(last)
        whole = r + strict_transition(first) @ r + r @ strict_transition(last).T
        for left, right in ((r, X + E @ r @ F.T), (r.args[0], whole)):
            out.append(
                Identity(left, right, name="Lemma A.1", source="88-11 a.44-a.45", kind="law")
            )
    return out


def spread(x: Expr, y: Expr) -> Expr:
    """x y with y multiplied out, so that X⁻¹ X stays a sum."""
    words = words_of(y)
    return total_of((c, x @ words.product(word)) for word, c in words.terms.items())


# ---- definitions written out ---------------------------------------------------------------------

_WRITTEN_OUT = ("K", "proj", "proj_bar", "E_psi", "Omega", "mass_matrix", "J", "Lambda", "V")


@lru_cache(maxsize=2**12)
def written_out(x: Expr) -> Expr:
    """x in terms of φ, ψ, E, H, M, P, D and G, multiplied out."""
    x = words_of(x).expression()
    while True:
        new = {y: z for y in nodes_of(x) if (z := _meaning(y)) is not None}
        after = words_of(substitute(x, new)).expression()
        if after is x:
            return x
        x = after


def _meaning(x: Expr) -> Expr | None:
    if x.op is Op.INVERSE and x.args[0].op is Op.LEAF and x.args[0].row.transition:
        return identity(x.takes) - transition_step(x.args[0])
    if x.op is not Op.LEAF:
        return None
    plain = plain_transition(x)
    if plain is not None:
        return None if plain is x else plain - identity(x.takes)
    return definition(x) if x.name in _WRITTEN_OUT or x.row.is_own else None
