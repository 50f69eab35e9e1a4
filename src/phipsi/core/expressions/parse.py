"""Text to expression: Greek, ASCII or LaTeX; juxtaposition or @ for products, * for the adjoint."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from phipsi.core.expressions.coefficients import Number, times
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.latex import from_latex, is_latex, script_letter
from phipsi.core.expressions.misread_formulas import hint_at
from phipsi.core.expressions.node import (
    SELECTABLE,
    Expr,
    Function,
    identity,
    product,
    total_of,
    zero,
)
from phipsi.core.expressions.render import LATEX_CALLS
from phipsi.core.expressions.spaces import SPACES, Space
from phipsi.errors import LoweringError, ParseError, SpaceError


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The names a text may use.

    `leaves` maps names and symbols to expressions, `functions` names such as bd to functions of
    expressions, `instance` builds a Riccati leaf from its name and the four operators in braces,
    `with_params` a leaf with something in brackets, such as ``total[0, 0, 1]`` or ``Λ[P]``.
    `incomplete` says, for leaves that need braces or brackets, which are missing, and
    `foreign` what an unknown letter of the papers is called here. `derived` finds functions that
    are named after others, such as the derivatives of custom formulas. Names that are not words,
    such as f(0), are found as they stand.

    A paper may use one letter for several things: `readings` maps it to those beside the one in
    `leaves`, and the first that fits between its neighbours is meant. `written` are letters
    whose long expressions are made on use. `others` are vocabularies for texts that this
    one does not read. `change` is the derivative of an expression along a rate of each joint, which
    a subscript θ_i means, and `rate` the time derivative, for letters with a dot.
    """

    leaves: Mapping[str, Expr]
    functions: Mapping[str, Callable[..., Expr]]
    instance: Callable[[str, tuple[Expr, ...]], Expr]
    with_params: Callable[[str, str], Expr]
    incomplete: Mapping[str, str] = field(default_factory=dict[str, str])
    foreign: Callable[[str, str, Vocabulary], str] = field(default=lambda word, text, words: "")
    derived: Callable[[str], Function | None] = field(default=lambda word: None)
    readings: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict[str, tuple[Expr, ...]])
    written: Mapping[str, Callable[[], Expr]] = field(default_factory=dict[str, Callable[[], Expr]])
    others: tuple[Vocabulary, ...] = ()
    change: Callable[[Expr], Expr] | None = None
    rate: Callable[[Expr], Expr | None] | None = None


LONGEST = 100_000  # characters of a text
_DIGITS = 400  # of a number; 309 are the most that a floating-point number needs
_SHOWN = 60  # characters on each side of an error
_VULGAR = {c: Fraction(unicodedata.numeric(c)).limit_denominator(10) for c in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
_NUMBER = re.compile(
    r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?(?:/[0-9]+(?:\.[0-9]+)?)?"
    rf"|[{''.join(_VULGAR)}]"
)
_WORD = re.compile(r"[^\W\dᵀ](?:[^\Wᵀ]|[\u0300-\u036f½])*~?")
_POSTFIX = re.compile(
    r"(?P<adjoint>\*|\.T\b|['′ᵀ⊤]|\^\{[*T']\}|\^[*'⊤]|\^T\b)|(?P<inverse>\.inv\b)"
    r"|(?P<both>\^\{(?:-[*T']|-1[*T']|[*T']-1)\}|\^-[*⊤]|\^-T\b|⁻[*ᵀ])"
    r"|\^(?P<power>-?[0-9]+)(?!\.?[0-9])|\^\{(?P<braced>-?[0-9]+)\}|(?P<raised>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
)
_INSIDE = re.compile(  # names in quotes may hold brackets; none is longer than this
    r'((?:[^\]"]|"(?:[^"\\]|\\.){0,400}"){0,400})\]'
)
_BLOCK = re.compile(r"([^\W\d]\w*)\([ ]*[\w+\- ]{1,8},[ ]*[\w+\- ]{1,8}\)")
_TIP = re.compile(r"([^\W\d]\w*)([fVaα]\(0\))")
_NAMED = ("component", "point", "space")  # kinds of brackets that hold names and numbers of users
_NOTHING = re.compile("(?!)")
_BY_ANGLE = re.compile(r"_θ_?i(?!\w)")  # the derivative with respect to the angle of a joint
_ACCENTS = tuple("\u0307\u0308\u0304\u0303\u0302")
_SCRIPTS = re.compile(r"[\^'′ᵀ⊤/]")  # what only makes sense after an operator
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_MINUS = "-−–"
_FOLDED = str.maketrans({
    **{c: unicodedata.normalize("NFKC", c) for c in map(chr, range(0x1D400, 0x1D7CC))},
    **{chr(c): chr(c) for c in range(0x1D538, 0x1D552)},  # 𝕊 of MS is not its S
    **{chr(0x1D4D0 + i): script_letter(chr(65 + i)) for i in range(26)},
    **{chr(0x1D49C + i): script_letter(chr(65 + i)) for i in range(26)},
    "ϕ": "φ", "𝜙": "φ", "𝝓": "φ", "ϵ": "ε", "ϑ": "θ", "ϖ": "π", "∗": "*", "⋆": "*",
    "\u0305": "\u0304",
})  # fmt: skip


def visible(text: str) -> str:
    """Text for a message, with characters that do not print, or change the printing, as escapes."""
    return "".join(
        " " if c.isspace() else c if unicodedata.category(c)[0] != "C" else ascii(c)[1:-1]
        for c in text
    )


class Meanings:
    """Which meaning each letter with several has, in the order in which they are read."""

    def __init__(self) -> None:
        self._chosen: list[int] = []
        self._known: list[int] = []
        self._at = 0

    def restart(self) -> None:
        """Read the text, or texts, once more."""
        self._at = 0

    def take(self, meanings: tuple[Expr, ...]) -> Expr:
        """The meaning of the next letter."""
        if self._at == len(self._chosen):
            self._chosen.append(0)
            self._known.append(len(meanings))
        self._at += 1
        return meanings[self._chosen[self._at - 1]]

    def advance(self) -> bool:
        """Change the last letter that has another meaning; whether there is one."""
        del self._chosen[self._at :], self._known[self._at :]
        while self._chosen and self._chosen[-1] + 1 == self._known[-1]:
            self._chosen.pop()
            self._known.pop()
        if self._chosen:
            self._chosen[-1] += 1
        return bool(self._chosen)


def _written_product(factors: list[Expr]) -> Expr:
    """The product of factors as they are written; a number by name may stand anywhere."""
    try:
        return product(factors)
    except SpaceError:
        numbers = [x for x in factors if x.is_scalar]
        others = [x for x in factors if not x.is_scalar]
        if not numbers or not others:
            raise
        return product(others) * product(numbers)


class _KnownNames:
    """The names of a vocabulary as they are looked up, with those that are printed in LaTeX.

    `phrases` are names with a superscript of their own: D^{1/2}, and δH^{*} before braces.
    """

    def __init__(self, words: Vocabulary) -> None:
        self.leaves = {letters(name): x for name, x in words.leaves.items()}
        self.written = {letters(name): make for name, make in words.written.items()}
        self.readings = {letters(name): more for name, more in words.readings.items()}
        self.functions = dict(words.functions)
        self.phrases = {n: x for n, x in self.leaves.items() if not _WORD.fullmatch(n)}
        self.phrases |= dict.fromkeys(self.written, identity())
        for x in [x for x in words.leaves.values() if x.op is Op.LEAF]:
            name = letters(_without_latex(x.row.latex))
            if words.rate and name[1:2] == "\u0307" and not x.is_vector:
                continue  # a dot means another derivative in this vocabulary
            if _WORD.fullmatch(name):
                self.leaves.setdefault(name, x)
            else:
                self.phrases.setdefault(name, x)
        for name, f in words.functions.items():
            own = f.latex if isinstance(f, Function) else LATEX_CALLS.get(name, "")
            self.functions.setdefault(letters(_without_latex(own)) if own else name, f)
        for phrase in [p for p in self.phrases if p.endswith("^{1/2}")]:
            plain = phrase.removesuffix("^{1/2}")
            for half in ("^1/2", "^½", "^{½}", "^{-1/2}", "^-1/2", "⁻½"):
                self.phrases[plain + half] = self.phrases[phrase]
                if phrase in self.readings:
                    self.readings[plain + half] = self.readings[phrase]
                if phrase in self.written:
                    self.written[plain + half] = self.written[phrase]
        self.rates = {f"{n[0]}\u0307{n[1:]}": n for n in self.leaves if n[1:2] not in _ACCENTS}
        self.longest = sorted(
            (n for n in self.leaves if not n.isascii() or len(n) == 1), key=len, reverse=True
        )
        named = [n for n, x in self.leaves.items() if x.op is Op.LEAF and x.row.brackets in _NAMED]
        self.brackets = re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, named)) or '(?!)'})\[{_INSIDE.pattern}"
            rf"|(?<=\w)\[[\w, ]*\]"
        )
        self.known = self.leaves.keys() | self.functions.keys() | {"I"}


_names = lru_cache(maxsize=128)(_KnownNames)


def _without_latex(latex: str) -> str:
    try:
        return from_latex(latex, (), _NOTHING, lambda why, _: ValueError(f"{latex}: {why}"))[0]
    except ValueError:  # the LaTeX of an operator from outside, which is read by its name only
        return latex


def letters(text: str) -> str:
    """Text with accents apart from letters, and letters that only fonts distinguish as one."""
    return unicodedata.normalize("NFD", text).translate(_FOLDED)


class ExpressionParser:
    """One text being read; `at` is how far, in its letters after translation from LaTeX."""

    def __init__(self, text: str, words: Vocabulary, meanings: Meanings | None = None) -> None:
        self.source = self.text = letters(text)
        self.words = words
        self.at: int = 0
        self.meanings = meanings or Meanings()
        self.names = _names(words)
        self.leaves = self.names.leaves
        self.places: list[int] | None = None
        kept = self.names.brackets
        if is_latex(kept.sub("", self.source)):
            known = self.names.known
            self.text, self.places = from_latex(self.source, known, kept, self._error_at)

    def whole(self) -> Expr:
        """The expression; an error if anything is left."""
        try:
            out = self.sum()
        except RecursionError:
            raise ParseError("the expression is nested too deeply to be read") from None
        self.skip()
        if self.at < len(self.text):
            raise self.unexpected()
        return out

    def unexpected(self) -> ParseError:
        """The error for a sign that does not fit at this place."""
        c = self.peek()
        if c == "/":
            return self.error("numbers divide as in 1/2 H, and operators as in D^-1 H")
        if c and _SCRIPTS.match(c):
            return self.error(
                "this was not expected here; superscripts are * or T (adjoint), -1 (inverse), "
                "-* or -T (both), and integer powers"
            )
        if c == "=" and self.text.count("=") == 1:
            left, right = (side.strip() for side in self.source.split("=", 1))
            return self.error(
                f'this is an equation, and an expression has no "=": pp.prove("{left} = {right}") '
                f'decides it, pp.Identity("{left}", "{right}") states it'
            )
        if c == "=":
            sides = [x.strip() for x in self.source.split("=")]
            return self.error(
                'an equation has one "=". Decide each alone:  '
                + ",  ".join(f'pp.prove("{x} = {y}")' for x, y in pairwise(sides[:3]))
            )
        return self.error("this was not expected here; an operator, a number, + or − would fit")

    def _error_at(self, why: str, place: int) -> ParseError:
        self.places = None
        return self.error(why, place)

    def error(self, why: str, at: int | None = None) -> ParseError:
        """An error that shows the text and marks a place, by default where the reading is."""
        at = self.at if at is None else at
        if self.places is not None:
            at = self.places[min(at, len(self.places) - 1)]
        before, after = self.source[:at], self.source[at:]
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
        """Go to the next character that is no space."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        """The next character that is no space."""
        self.skip()
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, expected: str) -> None:
        """Read one character; an error if it is another."""
        if self.peek() != expected:
            raise self.error(f"expected '{expected}'")
        self.at += 1

    def sum(self) -> Expr:
        """Terms between plus and minus signs."""
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
        """A product of factors and numbers."""
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
                if factors and number.group().isascii() and self._follows_letter():
                    raise self.error(
                        f"the number {number.group()} stands directly behind a letter, where it "
                        "looks like an index, and operators have none. Put a space before it to "
                        "multiply; the block of one body is an entry of  pp.evaluate_dense(expr, "
                        "model, q)"
                    )
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
            raise self._missing()
        with self.placed(start):
            return total_of([(coefficient, _written_product(factors))])

    def _follows_letter(self) -> bool:
        """Whether a name ends directly before this place."""
        before = self.text[self.at - 1 : self.at]
        return (before.isalnum() or unicodedata.combining(before or " ") != 0) and before != "ᵀ"

    def _missing(self) -> ParseError:
        block = _BLOCK.search(self.source, 0, self.at + 8) if self.peek() == "," else None
        if block:
            return self.error(
                f"{block.group()} is the block of two bodies, and operators are those of all "
                f"bodies. The numbers of a block are entries of  pp.evaluate_dense("
                f'"{block[1]}", model, q)'
            )
        return self.error(self._misread() or "an operator is missing here")

    def number(self, found: re.Match[str]) -> Number:
        """A number of bounded length: fractions and integers are exact."""
        digits, exponent = found.group(), found["exponent"] or "0"
        if self.text[found.end() : found.end() + 1] in (*".0123456789", *_VULGAR):
            raise self.error("two numbers follow each other without a space", found.end())
        if digits in _VULGAR:
            return _VULGAR[digits]
        if len(digits) > _DIGITS or len(exponent) > 4 or abs(int(exponent)) > _DIGITS:
            raise self.error(f"numbers have at most {_DIGITS} digits, and lie between ±1e308")
        top, _, bottom = digits.partition("/")
        if not bottom:
            return int(top) if top.isdigit() else float(top)
        if Fraction(bottom) == 0:
            raise self.error(f"{digits} divides by zero")
        return Fraction(top) / Fraction(bottom)

    def _is_zero_operator(self, digits: str) -> bool:
        return digits == "0" and self.text[self.at + 1 : self.at + 2] == "["

    def factor(self) -> Expr:
        """An operator with what is raised or lowered after it."""
        self.skip()
        start = self.at
        with self.placed(start):
            out = self.atom()
            while True:
                by_angle = self.words.change and _BY_ANGLE.match(self.text, self.at)
                if by_angle and self.words.change:
                    self.at = by_angle.end()
                    out = self.words.change(out)
                    continue
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
                    out = out.inv if found["inverse"] or found["both"] else out
                    out = out if found["inverse"] else out.T

    def atom(self) -> Expr:
        """A name, or a sum in parentheses."""
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
        phrase = self._phrase()
        if phrase:
            self.at += len(phrase)
            out = self._decorated(self._meaning(phrase, self.names.phrases[phrase]), start)
            return out.inv if "-" in phrase or "⁻" in phrase else out
        found = _WORD.match(self.text, self.at)
        if not found:
            raise self.unexpected()
        word = found.group()
        function = self.names.functions.get(word) or self.words.derived(word)
        if function is not None:
            self.at = found.end()
            return self._call(word, function)
        if word == "I":
            self.at = found.end()
            nxt = self.text[self.at : self.at + 1]
            return identity(self._space(self.brackets())) if nxt == "[" else identity()
        if word not in self.leaves:
            selected = self._selected(word)
            if selected is not None:
                self.at += len(word)
                return selected
        if self.words.change and (by_angle := _BY_ANGLE.search(word)):
            word = word[: by_angle.start()]
        name = word if word in self.leaves else self._prefix(word)
        if name is None:
            return self._rate(word, start)
        self.at += len(name)
        return self._decorated(self._meaning(name, self.leaves[name]), start)

    def _meaning(self, name: str, usual: Expr) -> Expr:
        """What a letter means here: the next of its readings, or what it stands for."""
        written = self.names.written.get(name)
        if written is not None:
            return written()
        more = self.names.readings.get(name)
        return self.meanings.take((usual, *more)) if more else usual

    def _rate(self, word: str, start: int) -> Expr:
        """The time derivative of a letter with a dot; an error for any other unknown word."""
        dotted = (n for n in self.names.rates if word.startswith(n)) if self.words.rate else ()
        name = max(dotted, key=len, default="")
        if name and word[len(name) :][:1] not in _ACCENTS and self.words.rate:
            stem = self.names.rates[name]
            out = self.words.rate(self._meaning(stem, self.leaves[stem]))
            if out is not None:
                self.at += len(name)
                return out
        raise self.error(self._misread() or self._unknown(word), start)

    def _phrase(self) -> str:
        """The longest name with a superscript of its own that stands here."""
        fitting = [p for p in self.names.phrases if self.text.startswith(p, self.at)]
        for phrase in sorted(fitting, key=len, reverse=True):
            after = self.text[self.at + len(phrase) :][:1]
            if not phrase.endswith("^{*}") or after in ("{", "["):
                return phrase
        return ""

    def _selected(self, word: str) -> Expr | None:
        """Λ_P for Λ[P], as the papers write the points on the bodies of a selection."""
        name, _, selection = word.partition("_")
        x = self.leaves.get(name)
        if x is None or x.name not in SELECTABLE or selection not in ("P", "S"):
            return None
        return self.words.with_params(x.name, selection)

    def _call(self, word: str, function: Callable[..., Expr]) -> Expr:
        """f(x) or f(x; y), with the place of a free direction as f[0](x; y)."""
        directions = isinstance(function, Function) and function.directions is not None
        bracket = self.text[self.at : self.at + 1] == "["
        place = {"hole": self._place()} if bracket and directions else {}
        self.take("(")
        args = self._listed()
        if self.peek() == ",":
            raise self.error(f"the arguments of {word}(…) are separated by semicolons")
        self.take(")")
        try:
            return function(*args, **place)
        except SpaceError:
            raise
        except TypeError:
            raise self.error(f"{word}(…) does not take {len(args)} operators") from None

    def _listed(self) -> list[Expr]:
        """Expressions between semicolons."""
        out = [self.sum()]
        while self.peek() == ";":
            self.at += 1
            out.append(self.sum())
        return out

    def _place(self) -> int:
        """The number in brackets of a direction."""
        start = self.at
        inside = self.brackets().strip()
        if not re.fullmatch("[0-9]{1,3}", inside):
            raise self.error(
                f"'{visible(inside[:_SHOWN])}' is not the number of a direction", start
            )
        return int(inside)

    def _decorated(self, known: Expr, start: int) -> Expr:
        """A name with what stands in brackets or braces directly after it."""
        nxt = self.text[self.at : self.at + 1]
        place, name = "", known.name
        kind = known.row.brackets if known.op is Op.LEAF else ""  # a word may stand for more
        if nxt == "[" and kind == "place":
            place = f"[{self._place()}]"
            nxt = self.text[self.at : self.at + 1]
        if nxt == "{":
            self.at += 1
            args = self._listed()
            self.take("}")
            if not name:
                raise self.error("this name stands for an expression, which has no braces", start)
            return self.words.instance(name + place, tuple(args))
        if nxt == "[" and kind not in ("", "place"):
            inside = self.brackets()
            try:
                return self.words.with_params(name, inside)
            except ParseError as wrong:
                raise self.error(str(wrong), start) from None
        bare = self.words.incomplete.get(name)
        if bare or place:
            raise self.error(bare or f"{name}[…] has no braces with vectors", start)
        return known

    def _prefix(self, word: str) -> str | None:
        """Split a run of letters such as HψK or GH, which people write without spaces."""
        if word.isascii():
            return word[0] if word[0] != "I" and self._is_of_letters(word) else None
        if word[0] == "I" and len(word) > 1:
            return None
        for name in self.names.longest:
            if word.startswith(name) and not unicodedata.combining(word[len(name) :][:1] or "a"):
                return name
        return None

    def _is_of_letters(self, word: str) -> bool:
        """Whether every character of a word is an operator of its own."""
        return len(word) > 1 and all(c in self.leaves or c == "I" for c in word)

    def _misread(self) -> str:
        """What to write instead of a block or an attribute; f(0) behind a name is neither."""
        tip = _TIP.match(self.text, self.at)
        if tip and tip[1] in self.leaves:
            return f"did you mean {tip[1]} {tip[2]}? Put spaces between ASCII names"
        return "" if self.places is not None else hint_at(self.source, self.at)

    def _unknown(self, word: str) -> str:
        word = unicodedata.normalize("NFC", word[:_SHOWN])
        foreign = self.words.foreign(word, self.source, self.words)
        if foreign:
            return f"'{word}' is a letter of papers, not of the catalogue: {foreign}"
        said = f"'{word}' is not an operator of the catalogue"
        if word[0] == "q" and letters(word)[1:].strip("\u0307\u0308") == "" and len(word) > 1:
            return f"{said}; generalized velocities are v, and their derivatives vdot, printed v̇"
        first = "" if word.isascii() else self.words.foreign(word[0], self.source, self.words)
        if first and len(word) > 1:
            return f"'{word[0]}' is a letter of papers, not of the catalogue: {first}"
        if parts := self._in_ascii_names(word):
            return f"{said}; did you mean {' '.join(parts)}? Put spaces between ASCII names"
        close = get_close_matches(word, [*self.leaves, *self.names.functions], n=2)
        if close:
            return f"{said}; did you mean {' or '.join(close)}?"
        return f"{said}; your own operator? pass custom=[{word}]" if word.isascii() else said

    def _in_ascii_names(self, word: str) -> list[str]:
        """The fewest names that a word without spaces consists of: H phi of Hphi."""
        best: list[list[str] | None] = [[]]
        for end in range(1, len(word) + 1):
            found = [
                [*before, word[start:end]]
                for start in range(end)
                if (before := best[start]) is not None and word[start:end] in self.leaves
            ]
            best.append(min(found, key=len, default=None))
        return best[-1] or []

    def brackets(self) -> str:
        """What stands in brackets here."""
        self.take("[")
        found = _INSIDE.match(self.text, self.at)
        if not found:
            raise self.error("the bracket is never closed, or holds more than 400 characters")
        self.at = found.end()
        return unicodedata.normalize("NFC", found[1])

    def _space(self, name: str) -> Space:
        found = SPACES.get(name.strip())
        if found is None:
            word = visible(name[:_SHOWN])
            raise self.error(f"'{word}' is not a space; the spaces are {', '.join(SPACES)}")
        return found


def _same_spaces(x: Expr, y: Expr) -> bool:
    return x.takes is y.takes and x.gives is y.gives
