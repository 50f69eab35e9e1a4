"""The normal form of an expression: a sum of words.

A word is a product of letters: leaves, their adjoints, inverses, bd(…), functions. Two expressions
with the same normal form are equal by the laws of sums and products alone: sums and linear
functions are multiplied out, X X⁻¹ = I, (X Y)⁻¹ = Y⁻¹ X⁻¹ for square X and Y, and bd(A X B) =
A bd(X) B with memoryless A and B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product as choices_of

from phipsi.core.expressions import (
    ONE,
    Expr,
    Number,
    Op,
    Space,
    Structure,
    adjoint,
    block_diagonal,
    identity,
    int_if_whole,
    inverse,
    logdet,
    product,
    shown,
    total_of,
    zero,
)
from phipsi.core.operators import BodyFunction, place_of, with_arguments
from phipsi.core.rewrite import is_block_operator
from phipsi.errors import InputError

Word = tuple[Expr, ...]
MOST_WORDS = 4096


@dataclass(frozen=True, eq=False)
class WordSum:
    """A sum of words with coefficients, none of them zero, between two spaces."""

    terms: dict[Word, Number]
    takes: Space
    gives: Space

    @cached_property
    def key(self) -> frozenset[tuple[Word, Number]]:
        """Equal for equal sums."""
        return frozenset(self.terms.items())

    @cached_property
    def letters(self) -> frozenset[Expr]:
        """All letters, adjoints as their leaves."""
        return frozenset(x.core for word in self.terms for x in word)

    @property
    def is_zero(self) -> bool:
        """True if no word is left."""
        return not self.terms

    def expression(self) -> Expr:
        """The sum as an expression."""
        if not self.terms:
            return zero(self.takes, self.gives)
        return total_of((c, self.product(word)) for word, c in self.terms.items())

    def product(self, word: Word) -> Expr:
        """One word as an expression."""
        return product(word) if word else identity(self.takes)

    def plus(self, factor: Number, other: WordSum, left: Word = (), right: Word = ()) -> WordSum:
        """This sum plus factor · left · other · right."""
        out, scalar = dict(self.terms), self.takes is ONE and self.gives is ONE
        for word, c in other.terms.items():
            joined = reduced(left + word + right)
            _add(out, _turned(joined) if scalar else joined, factor * c)
        return WordSum(out, self.takes, self.gives)

    def adjoint(self) -> WordSum:
        """The sum of the adjoint words."""
        takes, gives = self.gives.dual, self.takes.dual
        if takes is ONE and gives is ONE:
            return self
        flipped = {tuple(map(adjoint, reversed(w))): c for w, c in self.terms.items()}
        return WordSum(flipped, takes, gives)


def _add(terms: dict[Word, Number], word: Word, c: Number) -> None:
    total = terms.get(word, 0) + c
    if total == 0:
        terms.pop(word, None)
    else:
        terms[word] = total if type(total) is int else int_if_whole(total)


def quotient(a: Number, b: Number) -> Number:
    """a / b, exact unless one of them is a float."""
    if b == 1 or b == -1:
        return a * b
    return int_if_whole(a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / b)


def _turned(word: Word) -> Word:
    """A scalar is its own adjoint: the one of both words that comes first in the alphabet."""
    if len(word) < 2:
        return word
    other = tuple(adjoint(x) for x in reversed(word))
    return min(word, other, key=lambda w: [x.text("ascii") for x in w])


def reduced(word: Word) -> Word:
    """The word with X X⁻¹ and X⁻¹ X removed, where X may be several letters."""
    for i, x in enumerate(word):
        if x.op is not Op.INVERSE:
            continue
        inner = x.args[0].factors
        n = len(inner)
        if i >= n and word[i - n : i] == inner:
            return reduced((*word[: i - n], *word[i + 1 :]))
        if word[i + 1 : i + 1 + n] == inner:
            return reduced((*word[:i], *word[i + 1 + n :]))
    return word


@lru_cache(maxsize=2**14)
def words_of(x: Expr) -> WordSum:
    """The normal form of an expression."""
    if x.op is Op.ZERO:
        return WordSum({}, x.takes, x.gives)
    if x.op is Op.IDENTITY:
        return WordSum({(): 1}, x.takes, x.gives)
    if x.op is Op.SUM:
        return _collected(x, ((c, w, d) for c, y in x.terms for w, d in words_of(y).terms.items()))
    if x.op is Op.PRODUCT:
        return _product(x)
    if x.op is Op.AS_MATRIX:
        return words_of(x.args[0])
    if x.op is Op.INVERSE:
        return _inverse(x)
    if x.op is Op.BD:
        return _of_parts(x, (words_of(x.args[0]),), lambda args: _diagonal(args[0]))
    if x.op is Op.LOGDET:
        return _letter(logdet(words_of(x.args[0]).expression()))
    if x.op is Op.FUNCTION:
        function, hole = x.data
        if isinstance(function, BodyFunction):
            return _letter(x)
        parts = tuple(words_of(y) for y in x.args)
        return _of_parts(x, parts, lambda args: (function(*args, hole=hole),))
    if x.op is Op.ADJOINT:
        return words_of(x.args[0]).adjoint() if x.args[0].op is Op.FUNCTION else _letter(x)
    if x.args and x.row.braces is not None:
        name, hole = x.name, place_of(x)
        parts = tuple(words_of(y) for y in x.args)
        return _of_parts(x, parts, lambda args: (with_arguments(name, *args, hole=hole),))
    return _letter(x)


def _letter(x: Expr) -> WordSum:
    return WordSum({(x,): 1}, x.takes, x.gives)


def _collected(x: Expr, terms: Iterable[tuple[Number, Word, Number]]) -> WordSum:
    out: dict[Word, Number] = {}
    scalar = x.takes is ONE and x.gives is ONE
    for c, word, d in terms:
        _add(out, _turned(word) if scalar else word, c * d)
    return WordSum(out, x.takes, x.gives)


def _product(x: Expr) -> WordSum:
    factors = reduced(x.factors)
    partial: dict[Word, Number] = {(): 1}
    for y in factors:
        new: dict[Word, Number] = {}
        found = words_of(y).terms
        if len(partial) * len(found) > MOST_WORDS:
            raise InputError(
                f"{shown(x)}\nhas more than {MOST_WORDS} products when it is multiplied out"
            )
        for left, c in partial.items():
            for right, d in found.items():
                _add(new, reduced((*left, *right)), c * d)
        partial = new
    return _collected(x, ((1, word, c) for word, c in partial.items()))


def _inverse(x: Expr) -> WordSum:
    if x.args[0].op is Op.PRODUCT and all(map(_is_square, x.args[0].args)):
        return _product(product(map(inverse, reversed(x.args[0].args))))
    inner = words_of(x.args[0])
    if len(inner.terms) == 1:
        ((word, c),) = inner.terms.items()
        if all(map(_is_square, word)):
            return WordSum({tuple(map(inverse, reversed(word))): quotient(1, c)}, x.takes, x.gives)
    if inner.is_zero:
        raise InputError(f"{shown(x)} is the inverse of zero")
    return _letter(inverse(inner.expression()))


def _is_square(x: Expr) -> bool:
    return x.takes.index == x.gives.index and not x.is_vector


def _of_parts(
    x: Expr, parts: Sequence[WordSum], build: Callable[[list[Expr]], Iterable[Expr]]
) -> WordSum:
    """A node that is linear in every part, multiplied out."""
    out: dict[Word, Number] = {}
    for chosen in choices_of(*(p.terms.items() for p in parts)):
        c: Number = 1
        for _, d in chosen:
            c = c * d
        args = [p.product(word) for p, (word, _) in zip(parts, chosen, strict=True)]
        for y in build(args):
            for factor, word in _of_one(y):
                _add(out, word, c * factor)
    return WordSum(out, x.takes, x.gives)


def _of_one(x: Expr) -> Iterator[tuple[Number, Word]]:
    for c, y in x.terms:
        if y.op is not Op.ZERO:
            yield c, tuple(z for z in y.factors if z.op is not Op.IDENTITY)


def _diagonal(x: Expr) -> tuple[Expr, ...]:
    """bd(A X B) = A bd(X) B, zero of what has no diagonal."""
    factors = list(x.factors)
    first = 0
    while first < len(factors) and is_block_operator(factors[first]):
        first += 1
    last = len(factors)
    while last > first and is_block_operator(factors[last - 1]):
        last -= 1
    if first == last:
        return (x,)
    inner = product(factors[first:last])
    if not inner.structure & Structure.DIAGONAL:
        return ()
    return (product((*factors[:first], block_diagonal(inner), *factors[last:])),)
