"""Text to expression: Greek or ASCII, juxtaposition or @ for products, * for the adjoint."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from typing import cast

from phipsi.errors import LoweringError, ParseError, SpaceError
from phipsi.expressions.coefficients import Number, times
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, Function, identity, product, total_of, zero
from phipsi.expressions.spaces import SPACES, Space


@dataclass(frozen=True)
class Vocabulary:
    """The names a text may use.

    `leaves` maps names and symbols to expressions, `functions` names such as bd to functions of
    expressions, `instance` builds a Riccati leaf from its name and the four operators in braces,
    `with_params` a leaf with something in brackets, such as ``total[0, 0, 1]`` or ``Λ[P]``.
    `incomplete` says, for leaves that need braces or brackets, which are missing.
    """

    leaves: Mapping[str, Expr]
    functions: Mapping[str, Callable[..., Expr]]
    instance: Callable[[str, tuple[Expr, ...]], Expr]
    with_params: Callable[[str, str], Expr]
    incomplete: Mapping[str, str] = field(default_factory=dict[str, str])


LONGEST = 100_000  # characters of a text
_DIGITS = 400  # of a number; 309 are the most that a floating-point number needs
_SHOWN = 60  # characters on each side of an error
_NUMBER = re.compile(
    r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?(?:/[0-9]+(?:\.[0-9]+)?)?"
)
_WORD = re.compile(r"[^\W\d][\w\u0300-\u036f½]*~?")
_POSTFIX = re.compile(
    r"\*|\.T\b|\.inv\b|\^\{\*\}|\^\*|\^T\b|"
    r"\^(?P<power>-?[0-9]+)|\^\{(?P<braced>-?[0-9]+)\}|(?P<raised>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
)
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_MINUS = "-−–"


def parse_with(text: str, words: Vocabulary) -> Expr:
    """Parse one expression; see `phipsi.parse`."""
    if not isinstance(cast(object, text), str):
        raise ParseError(f"parse reads text such as 'H phi M', not {type(text).__name__}")
    if len(text) > LONGEST:
        raise ParseError(f"a text of {len(text):,} characters is too long; {LONGEST:,} are allowed")
    reader = _Reader(unicodedata.normalize("NFD", text), words)
    try:
        out = reader.sum()
    except RecursionError:
        raise ParseError("the expression is nested too deeply to be read") from None
    reader.skip()
    if reader.at < len(reader.text):
        raise reader.error("this was not expected here")
    return out


def visible(text: str) -> str:
    """Text for a message, with characters that do not print, or change the printing, as escapes."""
    return "".join(
        " " if c.isspace() else c if unicodedata.category(c)[0] != "C" else ascii(c)[1:-1]
        for c in text
    )


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
        before, after = self.text[:at], self.text[at:]
        left = ("… " if len(before) > _SHOWN else "") + visible(before[-_SHOWN:])
        right = visible(after[:_SHOWN]) + (" …" if len(after) > _SHOWN else "")
        column = sum(1 for c in left if not unicodedata.combining(c))
        shown = unicodedata.normalize("NFC", left + right)
        return ParseError(f"{why}:\n    {shown}\n    {' ' * column}^")

    @contextmanager
    def placed(self, start: int) -> Generator[None]:
        """Say where in the text something does not fit."""
        try:
            yield
        except (SpaceError, LoweringError) as e:
            if getattr(e, "placed", False):
                raise
            there = type(e)(f"{e}\n{self.error('in', start)}")
            there.placed = True  # pyright: ignore[reportAttributeAccessIssue]
            raise there from None

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
            self.skip()
            start = self.at
            terms.append((sign, self.term()))
            with self.placed(start):
                if not _same_spaces(terms[0][1], terms[-1][1]):
                    total_of(terms)  # raises where it does not fit
                nxt = self.peek()
                if not nxt or nxt not in _MINUS + "+":
                    return total_of(terms)
            sign = -1 if nxt in _MINUS else 1
            self.at += 1

    def term(self) -> Expr:
        factors: list[Expr] = []
        coefficient: Number = 1
        self.skip()
        start = self.at
        while True:
            c = self.peek()
            if c and c in "@·⋅" and factors:
                self.at += 1
                c = self.peek()
            number = _NUMBER.match(self.text, self.at)
            if number and not self._is_zero_operator(number.group()):
                with self.placed(self.at):
                    coefficient = times(coefficient, self.number(number))
                self.at = number.end()
                continue
            if not c or c in ")]};,+" + _MINUS:
                break
            factors.append(self.factor())
        if not factors:
            if self.at > start and coefficient == 0:
                return zero()
            raise self.error("an operator is missing here")
        with self.placed(start):
            return total_of([(coefficient, product(factors))])

    def number(self, found: re.Match[str]) -> Number:
        """A number of bounded length: fractions and whole numbers are exact."""
        digits, exponent = found.group(), found["exponent"] or "0"
        if len(digits) > _DIGITS or len(exponent) > 4 or abs(int(exponent)) > _DIGITS:
            raise self.error(f"numbers have at most {_DIGITS} digits, and lie between ±1e308")
        if self.text[found.end() : found.end() + 1] in tuple(".0123456789"):
            raise self.error("two numbers follow each other without a space", found.end())
        top, _, bottom = digits.partition("/")
        if not bottom:
            return int(top) if top.isdigit() else float(top)
        if Fraction(bottom) == 0:
            raise self.error(f"{digits} divides by zero")
        return Fraction(top) / Fraction(bottom)

    def _is_zero_operator(self, digits: str) -> bool:
        return digits == "0" and self.text[self.at + 1 : self.at + 2] == "["

    def factor(self) -> Expr:
        self.skip()
        start = self.at
        with self.placed(start):
            out = self.atom()
            while True:
                found = _POSTFIX.match(self.text, self.at)
                if not found:
                    return out
                power = found["power"] or found["braced"] or found["raised"]
                if power is not None and len(power) > _DIGITS:
                    raise self.error(f"numbers have at most {_DIGITS} digits")
                self.at = found.end()
                if power is not None:
                    out = out ** int(power.translate(_LOWERED))
                else:
                    out = out.inv if found.group() == ".inv" else out.T

    def atom(self) -> Expr:
        c = self.peek()
        if c in "([":
            self.at += 1
            inner = self.sum()
            self.take(")" if c == "(" else "]")
            return inner
        if c == "0":
            start = self.at
            self.at += 1
            spaces = [self._space(s) for s in self.brackets().split(",")]
            if len(spaces) != 2:
                raise self.error("the zero operator names two spaces, 0[takes, gives]", start)
            return zero(*spaces)
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
        return self._decorated(name, start)

    def _call(self, word: str) -> Expr:
        """f(x) or f(x; y), with the place of a free direction as f[0](x; y)."""
        function = self.words.functions[word]
        directions = isinstance(function, Function) and function.directions is not None
        bracket = self.text[self.at : self.at + 1] == "["
        place = {"hole": self._place()} if bracket and directions else {}
        self.take("(")
        args = [self.sum()]
        while self.peek() == ";":
            self.at += 1
            args.append(self.sum())
        self.take(")")
        try:
            return function(*args, **place)
        except SpaceError:
            raise
        except TypeError:
            raise self.error(f"{word}(…) does not take {len(args)} operators") from None

    def _place(self) -> int:
        """The number in brackets of a direction."""
        start = self.at
        inside = self.brackets().strip()
        if not re.fullmatch("[0-9]{1,3}", inside):
            raise self.error(
                f"'{visible(inside[:_SHOWN])}' is not the number of a direction", start
            )
        return int(inside)

    def _decorated(self, name: str, start: int) -> Expr:
        nxt = self.text[self.at : self.at + 1]
        place = ""
        known = self.leaves[name]
        kind = known.row.brackets if known.op is Op.LEAF else ""  # a word may stand for more
        if nxt == "[" and kind == "place":
            place = f"[{self._place()}]"
            nxt = self.text[self.at : self.at + 1]
        if nxt == "{":
            self.at += 1
            args = [self.sum()]
            while self.peek() == ";":
                self.at += 1
                args.append(self.sum())
            self.take("}")
            return self.words.instance(self.leaves[name].name + place, tuple(args))
        if nxt == "[" and kind not in ("", "place"):
            inside = self.brackets()
            try:
                return self.words.with_params(self.leaves[name].name, inside)
            except ParseError as wrong:
                raise self.error(str(wrong), start) from None
        bare = self.words.incomplete.get(self.leaves[name].name)
        if bare or place:
            raise self.error(bare or f"{name}[…] has no braces with vectors", start)
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
        word = unicodedata.normalize("NFC", word[:_SHOWN])
        known = [*self.leaves, *self.words.functions]
        close = get_close_matches(word, known, n=2)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        if not close and len(word) > 1 and all(c in self.leaves for c in word):
            hint = f"; did you mean {' '.join(word)}?"
        return f"'{word}' is not an operator of the catalogue{hint}"

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
            word = visible(name[:_SHOWN])
            raise self.error(f"'{word}' is not a space; the spaces are {', '.join(SPACES)}")
        return found


def _same_spaces(x: Expr, y: Expr) -> bool:
    return x.takes is y.takes and x.gives is y.gives
