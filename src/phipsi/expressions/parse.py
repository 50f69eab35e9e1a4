"""Text to expression: Greek or ASCII, juxtaposition or @ for products, * for the adjoint."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import cast

from phipsi.errors import ParseError, SpaceError
from phipsi.expressions.node import SELECTABLE, Expr, identity, product, total_of, zero
from phipsi.expressions.spaces import SPACES, Space


@dataclass(frozen=True)
class Vocabulary:
    """The names a text may use.

    `leaves` maps names and symbols to expressions, `functions` names such as bd to functions of
    expressions, `instance` builds a Riccati leaf from its name and the four operators in braces,
    `with_params` a leaf with something in brackets, such as ``total[0, 0, 1]`` or ``Λ[P]``.
    """

    leaves: Mapping[str, Expr]
    functions: Mapping[str, Callable[..., Expr]]
    instance: Callable[[str, tuple[Expr, ...]], Expr]
    with_params: Callable[[str, str], Expr]


_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][+-]?\d+)?(?:/\d+)?|\.\d+(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[^\W\d][\w\u0300-\u036f½]*~?")
_POSTFIX = re.compile(r"\*|\.T\b|\.inv\b|⁻¹|\^\{-1\}|\^-1|\^\{\*\}|\^\*|\^T\b|\^\d+")
_MINUS = "-−–"


def parse_with(text: str, words: Vocabulary) -> Expr:
    """Parse one expression; see `phipsi.parse`."""
    if not isinstance(cast(object, text), str):
        raise ParseError(f"parse reads text such as 'H phi M', not {type(text).__name__}")
    reader = _Reader(unicodedata.normalize("NFD", text), words)
    try:
        out = reader.sum()
    except RecursionError:
        raise ParseError("the expression is nested too deeply to be read") from None
    reader.skip()
    if reader.at < len(reader.text):
        raise reader.error("this was not expected here")
    return out


class _Reader:
    def __init__(self, text: str, words: Vocabulary) -> None:
        self.text, self.words, self.at = text, words, 0
        normal = unicodedata.normalize
        self.leaves = {normal("NFD", name): x for name, x in words.leaves.items()}
        self.longest = sorted(
            (n for n in self.leaves if not n.isascii() or len(n) == 1), key=len, reverse=True
        )

    def error(self, why: str, at: int | None = None) -> ParseError:
        at = self.at if at is None else at
        visible = sum(1 for c in self.text[:at] if not unicodedata.combining(c))
        shown = unicodedata.normalize("NFC", self.text)
        return ParseError(f"{why}:\n    {shown}\n    {' ' * visible}^")

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.skip()
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise self.error(f"expected '{expected}'")
        self.at += 1

    def sum(self) -> Expr:
        terms: list[tuple[int, Expr]] = []
        sign = 1
        if self.peek() and self.peek() in _MINUS + "+":
            sign = -1 if self.peek() in _MINUS else 1
            self.at += 1
        while True:
            start = self.at
            terms.append((sign, self.term()))
            if not _same_spaces(terms[0][1], terms[-1][1]):
                try:  # only to say where it does not fit
                    total_of(terms)
                except SpaceError as e:
                    raise SpaceError(f"{e}\n{self.error('in', start)}") from None
            nxt = self.peek()
            if not nxt or nxt not in _MINUS + "+":
                return total_of(terms)
            sign = -1 if nxt in _MINUS else 1
            self.at += 1

    def term(self) -> Expr:
        factors: list[Expr] = []
        coefficient: int | float | Fraction = 1
        start = self.at
        while True:
            c = self.peek()
            if c and c in "@·⋅" and factors:
                self.at += 1
                c = self.peek()
            number = _NUMBER.match(self.text, self.at)
            if number and not self._is_zero_operator(number.group()):
                coefficient *= _number(number.group())
                self.at = number.end()
                continue
            if not c or c in ")]};,+" + _MINUS:
                break
            factors.append(self.factor())
        if not factors:
            if self.at > start and coefficient == 0:
                return zero()
            raise self.error("an operator is missing here")
        return total_of([(coefficient, product(factors))])

    def _is_zero_operator(self, digits: str) -> bool:
        return digits == "0" and self.text[self.at + 1 : self.at + 2] == "["

    def factor(self) -> Expr:
        out = self.atom()
        while True:
            found = _POSTFIX.match(self.text, self.at)
            if not found:
                return out
            mark = found.group()
            self.at = found.end()
            if mark in ("*", "^*", "^{*}", "^T", ".T"):
                out = out.T
            elif mark in ("⁻¹", "^-1", "^{-1}", ".inv"):
                out = out.inv
            else:
                out = out ** int(mark[1:])

    def atom(self) -> Expr:
        c = self.peek()
        if c in "([":
            self.at += 1
            inner = self.sum()
            self.take(")" if c == "(" else "]")
            return inner
        if c == "0":
            self.at += 1
            spaces = self.brackets().split(",")
            return zero(*(self._space(s) for s in spaces))
        start = self.at
        found = _WORD.match(self.text, self.at)
        if not found:
            raise self.error("this was not expected here")
        word = found.group()
        if word in self.words.functions:
            self.at = found.end()
            return self._call(word)
        if word == "I":
            self.at = found.end()
            nxt = self.text[self.at : self.at + 1]
            return identity(self._space(self.brackets())) if nxt == "[" else identity()
        name = word if word in self.leaves else self._prefix(word)
        if name is None:
            raise self.error(self._unknown(word), start)
        self.at += len(name)
        return self._decorated(name)

    def _call(self, word: str) -> Expr:
        """f(x) or f(x; y), with the place of a free direction as f[0](x; y)."""
        nxt = self.text[self.at : self.at + 1]
        place = {"hole": int(self.brackets())} if nxt == "[" and word == "bend_trace" else {}
        self.take("(")
        args = [self.sum()]
        while self.peek() == ";":
            self.at += 1
            args.append(self.sum())
        self.take(")")
        try:
            return self.words.functions[word](*args, **place)
        except TypeError:
            raise self.error(f"{word}(…) does not take {len(args)} operators") from None

    def _decorated(self, name: str) -> Expr:
        nxt = self.text[self.at : self.at + 1]
        place = ""
        if nxt == "[" and self.leaves[name].name.startswith(("bend", "swing", "sway")):
            place = f"[{self.brackets()}]"
            nxt = self.text[self.at : self.at + 1]
        if nxt == "{":
            self.at += 1
            args = [self.sum()]
            while self.peek() == ";":
                self.at += 1
                args.append(self.sum())
            self.take("}")
            return self.words.instance(self.leaves[name].name + place, tuple(args))
        if nxt == "[" and self.leaves[name].name in (
            "total",
            "pick",
            "pick_effort",
            "pick_inertia",
            "weight",
            *SELECTABLE,
        ):
            try:
                return self.words.with_params(self.leaves[name].name, self.brackets())
            except ValueError as wrong:
                raise self.error(str(wrong)) from None
        return self.leaves[name]

    def _prefix(self, word: str) -> str | None:
        """Split a run of letters such as HψK, which people write without spaces."""
        if word.isascii():
            return None
        if word[0] == "I" and len(word) > 1:
            return None
        for name in self.longest:
            if word.startswith(name) and not unicodedata.combining(word[len(name) :][:1] or "a"):
                return name
        return None

    def _unknown(self, word: str) -> str:
        word = unicodedata.normalize("NFC", word)
        known = [*self.leaves, *self.words.functions]
        close = get_close_matches(word, known, n=2)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        if not close and len(word) > 1 and all(c in self.leaves for c in word):
            hint = f"; did you mean {' '.join(word)}?"
        return f"'{word}' is no operator of the catalogue{hint}"

    def brackets(self) -> str:
        self.take("[")
        end = self.text.find("]", self.at)
        if end < 0:
            raise self.error("the bracket is never closed")
        inside = self.text[self.at : end]
        self.at = end + 1
        return inside

    def _space(self, name: str) -> Space:
        found = SPACES.get(name.strip())
        if found is None:
            raise self.error(f"'{name}' is no space; there are {', '.join(SPACES)}")
        return found


def _same_spaces(x: Expr, y: Expr) -> bool:
    return x.takes is y.takes and x.gives is y.gives


def _number(digits: str) -> int | float | Fraction:
    if "/" in digits:
        top, bottom = digits.split("/")
        if int(bottom) == 0:
            raise ParseError(f"{digits} divides by zero")
        return Fraction(top) / int(bottom)
    return int(digits) if digits.isdigit() else float(digits)
