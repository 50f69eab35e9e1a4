"""The search for a derivation: which named equations lead from one side to the other.

**Among words** (`DerivationSearch`): which multiples of the equations add up to the difference.
Both sides are sums of words. A move takes a word of an equation that occurs in a word of the
difference, left · word · right, and subtracts the multiple of the equation that removes it, from
the side on which the word stands: it works from both sides at once, with every equation in both
directions. The next difference to work on is the one that is shortest for the moves it took. Zero
is the end.

**From both sides** (`Meeting`): chains of two or three identities, with the factors kept, that
meet. The search among words works on the difference of two sums that are multiplied out, and goes
on with the shortest. A person keeps the factors: ℳ⁻¹ becomes (I − H ψ K)* D⁻¹ (I − H ψ K), four
words where there was one, and the next identity applies to the product. Here every equation is used
once on each side, wherever it stands in the expression as it is written, also inside of inverses,
and once more on the shortest forms that this gives. Where a form of the left side and a form of the
right side are the same sum of words, a chain is found, recorded in the same moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace as with_fields
from functools import lru_cache, reduce
from heapq import heappop, heappush
from itertools import count

from phipsi.core.calculus import substitute, with_parts
from phipsi.core.expressions import (
    ONE,
    Expr,
    Number,
    Op,
    Row,
    Space,
    Structure,
    adjoint,
    leaf,
    product,
    total_of,
)
from phipsi.core.operators import leaves_of
from phipsi.core.rewrite import collect
from phipsi.errors import PhipsiError
from phipsi.papers.derivations.manipulate import replace
from phipsi.papers.derivations.named_equations import Equation
from phipsi.papers.derivations.normal_form import Word, WordSum, quotient, words_of

MOST_INNER = 60
_PER_MOVE = 2.5  # letters that a move may cost


@dataclass(frozen=True, eq=False)
class Move:
    """Subtract ``factor · left · equation · right`` for every multiple.

    With `inside`, the equation was used inside a letter (an inverse, bd, a function), and `words`
    says what that letter equals by it.
    """

    equation: Equation
    words: WordSum
    pivot: Word
    multiples: tuple[tuple[Number, Word, Word], ...]
    inside: Expr | None = None

    def applied(self, to: WordSum, sign: int = 1) -> WordSum:
        """`to` minus the multiples."""
        for factor, left, right in self.multiples:
            to = to.plus(-sign * factor, self.words, left, right)
        return to

    def follows(self) -> bool:
        """Whether `words` is the equation, its adjoint, or what it says inside a letter."""
        if self.inside is not None:
            return any(
                words_of(self.inside).plus(-1, other).key == self.words.key
                for other in self._inner_forms()
            )
        own = self.equation.words
        return self.words.key in (own.key, own.adjoint().key)

    def _inner_forms(self) -> Iterator[WordSum]:
        assert self.inside is not None
        for old, new in (self.equation.sides, self.equation.sides[::-1]):
            plain = replace(self.inside, old, new)
            for x in (plain, replace(self.inside, old.T, new.T), replace(plain, old.T, new.T)):
                yield words_of(x)
        for move in DerivationSearch([self.equation]).inside(self.inside):
            yield words_of(self.inside).plus(-1, move.words)


@dataclass(frozen=True, eq=False)
class SearchOutcome:
    """The end of a search: the moves to zero, or None, and the shortest difference that it saw."""

    moves: list[Move] | None
    nearest: list[Move]
    tried: int


@dataclass(frozen=True, eq=False)
class _SearchNode:
    words: WordSum
    by: tuple[Move, ...]
    parent: _SearchNode | None
    depth: int

    def moves(self) -> list[Move]:
        """The moves from the start."""
        before = [] if self.parent is None else self.parent.moves()
        return [*before, *self.by]


class DerivationSearch:
    """One set of equations, indexed by the first letter of each of their words."""

    def __init__(self, equations: Sequence[Equation]) -> None:
        self._pivots: defaultdict[Expr, list[tuple[Word, Number, Equation, WordSum]]] = defaultdict(
            list
        )
        self._inner: dict[Expr, list[Move]] = {}
        self._mirrors: dict[int, WordSum] = {}
        self._whole: defaultdict[object, list[Equation]] = defaultdict(list)
        for equation in equations:
            for side in equation.sides:
                self._whole[words_of(side).key].append(equation)
            both = (equation.words, equation.words.adjoint())
            self._mirrors[id(both[0])], self._mirrors[id(both[1])] = both[1], both[0]
            for words in both[: 1 if both[0].key == both[1].key else 2]:
                for word, c in words.terms.items():
                    if word:
                        self._pivots[word[0]].append((word, c, equation, words))

    def run(self, start: WordSum, most: int, begin: Sequence[Move] = ()) -> SearchOutcome:
        """Search from a difference to zero, which looks at so many differences at most.

        `begin` are moves that are made first.
        """
        counter = count()
        start = reduce(lambda words, move: move.applied(words), begin, start)
        first = _SearchNode(start, tuple(begin), None, 0)
        nearest, bound = first, 3 * size_of(start) + 40
        heap = [(size_of(start), next(counter), first)]
        seen = {start.key}
        while heap and len(seen) < most:
            _, _, node = heappop(heap)
            for by, words in self.neighbours(node.words):
                if words.key in seen:
                    continue
                seen.add(words.key)
                after = _SearchNode(words, by, node, node.depth + 1)
                if words.is_zero:
                    moves = after.moves()
                    return SearchOutcome(moves, moves, len(seen))
                size = size_of(words)
                if size < size_of(nearest.words):
                    nearest = after
                if size <= bound:
                    heappush(heap, (size + _PER_MOVE * after.depth, next(counter), after))
        return SearchOutcome(None, nearest.moves(), len(seen))

    def neighbours(self, words: WordSum) -> Iterator[tuple[tuple[Move, ...], WordSum]]:
        """What moves lead to; in a symmetric difference, also a move with its mirror image."""
        symmetric = (
            words.takes is words.gives.dual
            and words.takes is not ONE  # scalars are their own adjoints
            and words.key == words.adjoint().key
        )
        for move in self.moves(words):
            after = move.applied(words)
            if symmetric and (mirrored := self._mirrored(move, after)) is not None:
                yield (move, mirrored), mirrored.applied(after)
            yield (move,), after

    def _mirrored(self, move: Move, words: WordSum) -> Move | None:
        """The adjoint of a move, at all places that it left."""
        if move.inside is not None:
            return None
        other, pivot = self._mirrors[id(move.words)], tuple(map(adjoint, reversed(move.pivot)))
        d, n = other.terms[pivot], len(pivot)
        found = [
            (quotient(c, d), word[:i], word[i + n :])
            for word, c in words.terms.items()
            for i in range(len(word) - n + 1)
            if word[i : i + n] == pivot
        ]
        return Move(move.equation, other, pivot, tuple(found)) if found else None

    def moves(self, words: WordSum) -> Iterator[Move]:
        """All moves from a difference: everywhere first, then at single places."""
        places: dict[tuple[int, Word], list[tuple[Number, Word, Word]]] = {}
        kinds: dict[tuple[int, Word], tuple[Equation, WordSum]] = {}
        for word, c in words.terms.items():
            for i, letter in enumerate(word):
                for pivot, d, equation, other in self._pivots.get(letter, ()):
                    n = len(pivot)
                    if word[i : i + n] == pivot:
                        key = (id(other), pivot)
                        kinds[key] = equation, other
                        place = (quotient(c, d), word[:i], word[i + n :])
                        places.setdefault(key, []).append(place)
        for key, found in places.items():
            equation, other = kinds[key]
            if len(found) > 1:
                yield Move(equation, other, key[1], tuple(found))
            for place in found:
                yield Move(equation, other, key[1], (place,))
        for word, c in words.terms.items():
            for i, letter in enumerate(word):
                if letter.op in _OPEN:
                    for move in self.inside(letter):
                        place = (c, word[:i], word[i + 1 :])
                        yield Move(move.equation, move.words, (letter,), (place,), letter)

    def inside(self, letter: Expr) -> list[Move]:
        """What a letter equals when an equation is used inside it."""
        if letter not in self._inner:
            self._inner[letter] = []  # nothing for a letter that contains itself
            self._inner[letter] = list(self._find_inside(letter))
        return self._inner[letter]

    def _find_inside(self, letter: Expr) -> Iterator[Move]:
        for i, part in enumerate(letter.args):
            words = words_of(part)
            whole = self._whole.get(words.key, ()) if letter.op is Op.INVERSE else ()
            for equation in whole:  # with its factors
                old, new = equation.sides
                new = old if words_of(new).key == words.key else new
                other = words_of(letter).plus(-1, words_of(with_parts(letter, [new])))
                yield Move(equation, other, (letter,), (), letter)
            for _, move in zip(range(MOST_INNER), self.moves(words), strict=False):
                try:
                    new = move.applied(words).expression()
                    after = with_parts(letter, [*letter.args[:i], new, *letter.args[i + 1 :]])
                    other = words_of(letter).plus(-1, words_of(after))
                except PhipsiError:  # the inverse of zero, an argument that is not memoryless
                    continue
                if not other.is_zero:
                    yield Move(move.equation, other, (letter,), (), letter)


_OPEN = (Op.INVERSE, Op.BD, Op.LOGDET, Op.FUNCTION)


@lru_cache(maxsize=2**14)
def _weight(letter: Expr) -> float:
    """How long a letter is."""
    return 1.0 if letter.op in (Op.LEAF, Op.ADJOINT) else 0.5 + 0.5 * letter.size


def size_of(words: WordSum) -> float:
    """How long a sum is."""
    return sum(2 + sum(map(_weight, word)) for word in words.terms)


# ---- short expressions for sums of words ---------------------------------------------------------

_KEPT, _MOST_TERMS = 12, 24  # forms to choose from, terms of a sum


def compact_form(words: WordSum, before: Expr, moves: Sequence[Move]) -> Expr:
    """A short expression for a sum of words, if possible with the factors that stood before."""
    plain = words.expression()
    if len(words.terms) > _MOST_TERMS:
        return plain
    kept = {before: None}
    for move in moves[:_MOST_TERMS]:
        pairs = [move.equation.sides, move.equation.sides[::-1]]
        pairs += [(old.T, new.T) for old, new in pairs]
        kept |= {replace(x, *pair): None for x in kept for pair in pairs}
        kept = dict.fromkeys(sorted(kept, key=_length)[:_KEPT])
    forms = [plain, *kept, collect(plain), collect(plain.T).T, _factored(words)]
    short = sorted(forms, key=_length)
    return next(x for x in short if x is plain or words_of(x).key == words.key)


def _length(x: Expr) -> int:
    return len(str(x))


def _factored(words: WordSum) -> Expr:
    """The sum with the letters in front that all its words begin or end with."""
    shared = list(words.terms)
    if len(shared) < 2:
        return words.expression()
    first, last = 0, 0
    while all(len(w) > first and w[first] is shared[0][first] for w in shared):
        first += 1
    while all(len(w) > first + last and w[-1 - last] is shared[0][-1 - last] for w in shared):
        last += 1
    if not first + last:
        return words.expression()
    head, tail = shared[0][:first], shared[0][len(shared[0]) - last :]
    takes = tail[0].gives if tail else words.takes
    rest = {w[first : len(w) - last]: c for w, c in words.terms.items()}
    inner = WordSum(rest, takes, head[-1].takes if head else words.gives).expression()
    return product((*head, min(inner, collect(inner), key=_length), *tail))


# ---- from both sides -----------------------------------------------------------------------------


_MOST_MULTIPLES = 400
_MOST_WRITTEN = 8


@dataclass(frozen=True, eq=False)
class Reached:
    """An expression that identities lead to, and the moves with each of them."""

    expression: Expr
    words: WordSum
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
        with_fields(move, multiples=tuple((-c, u, v) for c, u, v in move.multiples))
        for move in moves
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
    plain = replace(x, old, mark)
    transposed = x if old.T is old else replace(x, old.T, mark.T)
    both = plain if transposed is x else replace(plain, old.T, mark.T)
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
                raise PhipsiError("an identity matches at too many places")
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
            raise PhipsiError("a match inside an operator exceeds the equation")
        return inside
    sign = 1 if old is equation.before else -1
    own = equation.words if letter is mark else equation.words.adjoint()
    return Move(equation, own, (), tuple((sign * c, u, v) for c, u, v in places))
