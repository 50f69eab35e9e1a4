"""Chains of two or three identities: steps from both sides, with the factors kept, that meet.

The search among words (`word_search.py`) works on the difference of two sums that are multiplied
out, and goes on with the shortest. A person keeps the factors: ℳ⁻¹ becomes (I − H ψ K)* D⁻¹ (I − H
ψ K), four words where there was one, and the next identity applies to the product. Here every
equation is used once on each side, wherever it stands in the expression as it is written, also
inside of inverses, and once more on the shortest forms that this gives. Where a form of the left
side and a form of the right side are the same sum of words, a chain is found, recorded in the same
moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

from phipsi.derivations.by_hand import replace as replace_in
from phipsi.derivations.by_hand import substitute
from phipsi.derivations.named_equations import Equation
from phipsi.derivations.normal_form import Word, Words, words_of
from phipsi.derivations.word_search import Move, size_of
from phipsi.errors import PhipsiError
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, Number, leaf, product, total_of
from phipsi.expressions.row import Row
from phipsi.expressions.spaces import Space
from phipsi.expressions.structure import Structure
from phipsi.operators.inputs import leaves_of

_MOST_MULTIPLES = 400
_MOST_WRITTEN = 8


@dataclass(frozen=True, eq=False)
class Reached:
    """An expression that identities lead to, and the moves with each of them."""

    expression: Expr
    words: Words
    steps: tuple[tuple[Move, ...], ...]


Forms = dict[frozenset[tuple[Word, Number]], Reached]


class Meeting:
    """The forms of two sides, as far as they were looked for."""

    def __init__(self, lhs: Expr, rhs: Expr, equations: Sequence[Equation]) -> None:
        self._equations = equations
        ends = [Reached(x, words_of(x), ()) for x in (lhs, rhs)]
        self._sides: list[Forms] = [{end.words.key: end} for end in ends]
        self._used: set[Reached] = set()

    def chain(self, again: int = 0) -> tuple[tuple[Move, ...], ...] | None:
        """The steps from one side to the other, by one or two identities; None if there are none.

        A further identity is used on so many forms of each side, the shortest: `again`.
        """
        for most in (1, 1 + again):
            for seen in self._sides:
                for form in sorted(seen.values(), key=_order)[:most]:
                    if form in self._used:
                        continue
                    self._used.add(form)
                    for key, one in forms_of(form, self._equations).items():
                        seen.setdefault(key, one)
                    if found := _common(*self._sides):
                        return found
        return None


def _order(form: Reached) -> tuple[int, float]:
    """The side itself, then what one identity leads to, the shortest first."""
    return len(form.steps), size_of(form.words)


def _common(left: Forms, right: Forms) -> tuple[tuple[Move, ...], ...] | None:
    """The shortest chain over a form that both sides lead to."""
    common = [key for key in left if key in right]
    if not common:
        return None
    best = min(common, key=lambda key: len(left[key].steps) + len(right[key].steps))
    return (*left[best].steps, *map(_reversed, reversed(right[best].steps)))


def _reversed(moves: Sequence[Move]) -> tuple[Move, ...]:
    """The moves back."""
    return tuple(
        replace(move, multiples=tuple((-c, u, v) for c, u, v in move.multiples)) for move in moves
    )


def forms_of(reached: Reached, equations: Sequence[Equation]) -> Forms:
    """What one more identity makes of an expression, by its words."""
    x = reached.expression
    out: Forms = {}
    leaves, start, written = leaves_of(x), reached.words, _written(x)
    for equation in equations:
        for before, after in (equation.sides, equation.sides[::-1]):
            if not leaves_of(before) <= leaves or before.op in (Op.IDENTITY, Op.ZERO):
                continue
            for y in written:
                try:
                    found = list(_forms(y, reached, equation, before, after))
                except PhipsiError:  # too many words, the inverse of zero
                    continue
                for form in found:
                    out.setdefault(form.words.key, form)
    out.pop(start.key, None)
    return out


def _written(x: Expr) -> list[Expr]:
    """x as it is written, with one of its sums multiplied out, and with all of them."""
    out = {x: None}
    for i, (_, term) in enumerate(x.terms):
        for j, factor in enumerate(term.factors):
            if factor.op is not Op.SUM or len(term.factors) == 1:
                continue
            left, right = term.factors[:j], term.factors[j + 1 :]
            parts = ((d, product((*left, *_without_unit(y), *right))) for d, y in factor.terms)
            others = (t for k, t in enumerate(x.terms) if k != i)
            out[total_of([*others, (x.terms[i][0], total_of(parts))])] = None
    out[words_of(x).expression()] = None
    return list(out)[:_MOST_WRITTEN]


def _without_unit(x: Expr) -> tuple[Expr, ...]:
    return () if x.op is Op.IDENTITY else (x,)


def _forms(
    x: Expr, reached: Reached, equation: Equation, old: Expr, new: Expr
) -> Iterator[Reached]:
    """x with a side of an equation replaced: as it stands, its adjoint, and both."""
    mark = _marker(old)
    plain = replace_in(x, old, mark)
    transposed = x if old.T is old else replace_in(x, old.T, mark.T)
    both = plain if transposed is x else replace_in(plain, old.T, mark.T)
    for marked in dict.fromkeys((both, plain, transposed)):
        if marked is x:
            continue
        moves = _moves(equation, marked, mark, old, new)
        words = reduce(lambda words, move: move.applied(words), moves, reached.words)
        after = substitute(marked, {mark: new})
        if words.key == words_of(after).key:
            yield Reached(after, words, (*reached.steps, moves))


def _marker(x: Expr) -> Expr:
    """A letter that stands for an expression."""
    return _letter(x.takes, x.gives, x.structure)


@lru_cache(maxsize=2**8)
def _letter(takes: Space, gives: Space, structure: Structure) -> Expr:
    return leaf(Row("mark", "□", r"\square", takes, gives, structure))


def _moves(equation: Equation, marked: Expr, mark: Expr, old: Expr, new: Expr) -> tuple[Move, ...]:
    """The multiples of an equation by which the marked places become the other side."""
    multiples: dict[Expr, list[tuple[Number, Word, Word]]] = {}
    for word, c in words_of(marked).terms.items():
        for i, letter in enumerate(word):
            if mark not in leaves_of(letter):
                continue
            left = _filled(word[:i], mark, new)
            right = _filled(word[i + 1 :], mark, old)
            places = multiples.setdefault(letter, [])
            places += [(c * a * b, u, v) for u, a in left for v, b in right]
            if len(places) > _MOST_MULTIPLES:
                raise PhipsiError("too many places")
    return tuple(
        _move(equation, letter, mark, old, new, places) for letter, places in multiples.items()
    )


def _filled(letters: Word, mark: Expr, by: Expr) -> list[tuple[Word, Number]]:
    if not letters:
        return [((), 1)]
    if not any(mark in leaves_of(x) for x in letters):
        return [(letters, 1)]
    return list(words_of(product(substitute(x, {mark: by}) for x in letters)).terms.items())


def _move(
    equation: Equation,
    letter: Expr,
    mark: Expr,
    old: Expr,
    new: Expr,
    places: list[tuple[Number, Word, Word]],
) -> Move:
    before, after = (substitute(letter, {mark: by}) for by in (old, new))
    words = words_of(before).plus(-1, words_of(after))
    if letter.core is not mark:
        inside = Move(equation, words, (), tuple(places), before)
        if not inside.follows():
            raise PhipsiError("what was found inside a letter is more than the equation says")
        return inside
    sign = 1 if old is equation.before else -1
    own = equation.words if letter is mark else equation.words.adjoint()
    return Move(equation, own, (), tuple((sign * c, u, v) for c, u, v in places))
