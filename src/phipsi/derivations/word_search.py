"""The search for a derivation: which multiples of named equations add up to the difference.

Both sides are sums of words. A move takes a word of an equation that occurs in a word of the
difference, left · word · right, and subtracts the multiple of the equation that removes it, from
the side on which the word stands: it works from both sides at once, with every equation in both
directions. The next difference to work on is the one that is shortest for the moves it took. Zero
is the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from heapq import heappop, heappush
from itertools import count

from phipsi.derivations.by_hand import replace, with_parts
from phipsi.derivations.named_equations import Equation
from phipsi.derivations.normal_form import Word, Words, quotient, words_of
from phipsi.errors import PhipsiError
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, Number, adjoint
from phipsi.expressions.spaces import ONE

MOST_INNER = 60
_PER_MOVE = 2.5  # letters that a move may cost


@dataclass(frozen=True, eq=False)
class Move:
    """Subtract ``factor · left · equation · right`` for every multiple.

    With `inside`, the equation was used inside a letter (an inverse, bd, a function), and `words`
    says what that letter equals by it.
    """

    equation: Equation
    words: Words
    pivot: Word
    multiples: tuple[tuple[Number, Word, Word], ...]
    inside: Expr | None = None

    def applied(self, to: Words, sign: int = 1) -> Words:
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

    def _inner_forms(self) -> Iterator[Words]:
        assert self.inside is not None
        for old, new in (self.equation.sides, self.equation.sides[::-1]):
            plain = replace(self.inside, old, new)
            for x in (plain, replace(self.inside, old.T, new.T), replace(plain, old.T, new.T)):
                yield words_of(x)
        for move in Search([self.equation]).inside(self.inside):
            yield words_of(self.inside).plus(-1, move.words)


@dataclass(frozen=True, eq=False)
class Found:
    """The end of a search: the moves to zero, or None, and the shortest difference that it saw."""

    moves: list[Move] | None
    nearest: list[Move]
    tried: int


@dataclass(frozen=True, eq=False)
class _Node:
    words: Words
    by: tuple[Move, ...]
    parent: _Node | None
    depth: int

    def moves(self) -> list[Move]:
        """The moves from the start."""
        before = [] if self.parent is None else self.parent.moves()
        return [*before, *self.by]


class Search:
    """One set of equations, indexed by the first letter of each of their words."""

    def __init__(self, equations: Sequence[Equation]) -> None:
        self._pivots: defaultdict[Expr, list[tuple[Word, Number, Equation, Words]]] = defaultdict(
            list
        )
        self._inner: dict[Expr, list[Move]] = {}
        self._mirrors: dict[int, Words] = {}
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

    def run(self, start: Words, most: int, begin: Sequence[Move] = ()) -> Found:
        """Search from a difference to zero, which looks at so many differences at most.

        `begin` are moves that are made first.
        """
        counter = count()
        start = reduce(lambda words, move: move.applied(words), begin, start)
        first = _Node(start, tuple(begin), None, 0)
        nearest, bound = first, 3 * size_of(start) + 40
        heap = [(size_of(start), next(counter), first)]
        seen = {start.key}
        while heap and len(seen) < most:
            _, _, node = heappop(heap)
            for by, words in self.neighbours(node.words):
                if words.key in seen:
                    continue
                seen.add(words.key)
                after = _Node(words, by, node, node.depth + 1)
                if words.is_zero:
                    moves = after.moves()
                    return Found(moves, moves, len(seen))
                size = size_of(words)
                if size < size_of(nearest.words):
                    nearest = after
                if size <= bound:
                    heappush(heap, (size + _PER_MOVE * after.depth, next(counter), after))
        return Found(None, nearest.moves(), len(seen))

    def neighbours(self, words: Words) -> Iterator[tuple[tuple[Move, ...], Words]]:
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

    def _mirrored(self, move: Move, words: Words) -> Move | None:
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

    def moves(self, words: Words) -> Iterator[Move]:
        """All moves from a difference: everywhere first, then at single places."""
        places: dict[tuple[int, Word], list[tuple[Number, Word, Word]]] = {}
        kinds: dict[tuple[int, Word], tuple[Equation, Words]] = {}
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


def size_of(words: Words) -> float:
    """How long a sum is."""
    return sum(2 + sum(map(_weight, word)) for word in words.terms)
