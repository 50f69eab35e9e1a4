r"""LaTeX: how names are escaped in it, and how it becomes the text that `parse` reads.

``H\phi M\phi^{*}`` becomes ``H φ M φ^{*}``, with the place that every character comes from. Accents
and subscripts belong to letters: ``\bar\tau`` is τ with a bar, ``\mathcal{E}_{\phi}`` is ℰ_φ. Which
letters are operators is for the vocabulary to say.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container

from phipsi.errors import PhipsiError

_LETTERS = {
    **{sign: rf"\{sign}" for sign in "_%&#${}"},
    "\\": r"\backslash{}",
    "^": r"\hat{\ }",
    "~": r"{\sim}",
    " ": r"\ ",
    "-": r"\text{-}",
}
_ESCAPED = {text: sign for sign, text in _LETTERS.items()}
_IN_NAMES = re.compile(
    "|".join(map(re.escape, sorted(_ESCAPED, key=len, reverse=True)))
    + r"|\\(?:mathrm|text|mathit|mathsf)\s*\{|[{}]"
)
_IS_LATEX = re.compile(r"\\|[_^]\s*\{|(?:^|[\s(])\{|\$")
_TOKEN = re.compile(
    r"\\(?:left|right)\s*\.|\\(?:[hv]space|[hm]skip|m?kern)\*?\s*(?:\{[^{}]*\}|-?[0-9.]+\s*[a-z]{2})"
    r"|\\operatorname\*|\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?(?:/[0-9]+)?"
    r"|[^\W\d_ᵀ¹²³⁰-⁹¼-¾⅐-⅞](?:[^\W_ᵀ]|[\u0300-\u036f½]|_(?=[^\W_]))*(?:~(?![^\s)*^]))?|\S",
    re.DOTALL,
)
_GREEK = {
    unicodedata.name(c).split()[-1].lower().replace("lamda", "lambda"): c
    for c in "αβγδεζηθικλμνξπρστυφχψω"
}
_SIGNS = {
    **{f"\\{name}": c for name, c in _GREEK.items()},
    **{f"\\{name.capitalize()}": c.upper() for name, c in _GREEK.items()},
    r"\varphi": "φ", r"\varepsilon": "ε", r"\vartheta": "θ", r"\ell": "ℓ", r"\cdot": "·",
    r"\langle": "{", r"\rangle": "}", r"\{": "{", r"\}": "}", r"\lbrace": "{", r"\rbrace": "}",
    r"\lbrack": "[", r"\rbrack": "]", r"\ast": "*", r"\star": "*", r"\prime": "'",
    r"\top": "T", r"\intercal": "T", r"\circ": "∘", r"\exp": "exp", r"\det": "det", r"\log": "log",
}  # fmt: skip
_ACCENTS = {
    r"\bar": "\u0304", r"\overline": "\u0304", r"\tilde": "\u0303", r"\widetilde": "\u0303",
    r"\dot": "\u0307", r"\ddot": "\u0308", r"\hat": "\u0302", r"\widehat": "\u0302",
}  # fmt: skip
_UPRIGHT = (
    r"\mathrm", r"\text", r"\operatorname", r"\operatorname*", r"\mathit", r"\mathsf", r"\mathbf",
    r"\boldsymbol", r"\bm", r"\pmb", r"\textrm", r"\textit", r"\mathnormal", r"\rm", r"\bf",
)  # fmt: skip
_SCRIPT = (r"\mathcal", r"\mathscr", r"\cal")
_FRACTIONS = (r"\frac", r"\tfrac", r"\dfrac")
_SIZES = re.compile(r"\\(?:left|right|[bB]igg?[lr]?)")  # of parentheses
_DROPPED = re.compile(
    rf"{_SIZES.pattern}(?:\s*\.)?|\\[,;:!/\s()\[\]]|\\q?quad|\\(?:display|text)style|[$~]"
    r"|\\(?:neg)?(?:thin|med|thick)space|\\en(?:space|skip)|\\(?:[hv]space|[hm]skip|m?kern)(?![A-Za-z]).*",
    re.DOTALL,
)
_GROUPS = {r"\{": r"\}", r"\lbrace": r"\rbrace"}  # braces that are printed
_HALF = re.compile(r"\\[dt]?frac\s*(?:\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|(\d)\s*(\d))")
_FONTS = re.compile(rf"\s*(?:{'|'.join(map(re.escape, _UPRIGHT))})(?![A-Za-z])")
_CLOSES = ")]}"
_DEEPEST = 12  # accents and subscripts inside each other
_LETTER = re.compile(r"[^\W\d_ᵀ¹²³⁰-⁹¼-¾⅐-⅞]")
_FIRST = re.compile(r"\w[\u0300-\u036f]*")
_SUBSCRIPT = re.compile(r"[\w\u0300-\u036f]+")


def latex_name(name: str) -> str:
    r"""A name given by a user, upright in mathematics and escaped: \mathrm{left\_elbow}."""
    if name.isdecimal():
        return name
    return rf"\mathrm{{{''.join(_LETTERS.get(c, c) for c in name)}}}"


def name_of_latex(text: str) -> str:
    """The inverse of `latex_name`, for one name or several."""
    out, at = "", 0
    for found in _IN_NAMES.finditer(text):
        out += text[at : found.start()] + _ESCAPED.get(found.group(), "")
        at = found.end()
    return out + text[at:]


def is_latex(text: str) -> bool:
    """Whether a text has commands of LaTeX, or braces as LaTeX has them."""
    return _IS_LATEX.search(text) is not None


def script_letter(c: str, font: str = "SCRIPT") -> str:
    """The calligraphic form of a capital letter, ℳ of M; other letters are not changed."""
    if not c.isupper():
        return c
    for name in (f"{font} CAPITAL {c}", f"MATHEMATICAL {font} CAPITAL {c}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return c


def from_latex(
    text: str,
    known: Container[str],
    verbatim: re.Pattern[str],
    error: Callable[[str, int], Exception],
) -> tuple[str, list[int]]:
    """The text in the letters of `parse`, and for every character the place it comes from.

    `known` has the names of more than one letter; other runs of letters are products of letters.
    What `verbatim` matches is copied: names in brackets such as ``unit_rate[left_elbow]``.
    `error(why, place)` makes the exception for a text that cannot be read.
    """
    return _LatexTranslator(text, known, verbatim, error).whole()


class _LatexTranslator:
    def __init__(
        self,
        text: str,
        known: Container[str],
        verbatim: re.Pattern[str],
        error: Callable[[str, int], Exception],
    ) -> None:
        self.text, self.known, self.wrong = text, known, error
        self.tokens: list[tuple[str, int]] = []
        self.copied: set[int] = set()
        at = 0
        for kept in verbatim.finditer(text):
            self._read(at, kept.start())
            self.copied.add(len(self.tokens))
            self.tokens.append((kept.group(), kept.start()))
            at = kept.end()
        self._read(at, len(text))
        self.tokens.append(("", len(text)))
        self.closing = self._pairs()
        self.families = self._families()
        self.at = 0
        self.out: list[str] = []
        self.places: list[int] = []

    def _read(self, start: int, end: int) -> None:
        self.tokens += [
            (found.group(), found.start())
            for found in _TOKEN.finditer(self.text, start, end)
            if not _DROPPED.fullmatch(found.group())
        ]

    def _pairs(self) -> dict[int, int]:
        """The place of the closing brace of every opening one, among the tokens."""
        opened: list[int] = []
        pairs: dict[int, int] = {}
        for i, (token, place) in enumerate(self.tokens):
            if token == "{":
                opened.append(i)
            elif token == "}":
                if not opened:
                    raise self.wrong("this brace closes no other", place)
                pairs[opened.pop()] = i
        if opened:
            raise self.wrong("this brace is never closed", self.tokens[opened[-1]][1])
        return pairs

    def emit(self, text: str, place: int, glued: bool = False) -> None:
        """Add text; names are kept apart by spaces."""
        last = self.out[-1][-1:] if self.out else ""
        if not glued and last and (_is_part(last) or last in ")]}") and _is_part(text[:1]):
            text = f" {text}"
        self.out.append(text)
        self.places += [place] * len(text)

    def whole(self) -> tuple[str, list[int]]:
        braces: list[str] = []
        printed: list[str] = []
        while self.at < len(self.tokens) - 1:
            token, place = self.tokens[self.at]
            if self.at in self.copied:
                self.emit(token, place)
                self.at += 1
                self._scripts()
            elif token == "{" and self._one_symbol():
                self._scripts()
            elif token == "{":
                after_name = self._follows_directly(place)
                braces.append("}" if after_name else ")")
                self.emit("{" if after_name else " (", place, glued=True)
                self.at += 1
            elif token == "}":
                self.emit(braces.pop(), place, glued=True)
                self.at += 1
                self._scripts()
            elif token in _GROUPS and not self._has_arguments(place):
                printed.append(token)
                self.emit(" (", place, glued=True)
                self.at += 1
            elif printed and token == _GROUPS[printed[-1]]:
                printed.pop()
                self.emit(")", place, glued=True)
                self.at += 1
                self._scripts()
            elif token in ("^", "_"):
                self._scripts()
            elif token in _FRACTIONS:
                self._fraction(place)
            elif token[0] == "\\" or _LETTER.match(token):
                self._symbol_with_scripts(place)
            else:
                number = token[0] in ".0123456789"
                apart = number and not self.text[place - 1 : place].isnumeric()
                self.emit(f" {token}" if token == "[" else token, place, glued=not apart)
                self.at += 1
        places = [*self.places, len(self.text)]
        return "".join(self.out), places

    def _one_symbol(self) -> bool:
        r"""Read braces around one letter, {\mathcal E}_{\phi}, as if they were not there."""
        start, end = self.at, self.closing[self.at]
        name = self.tokens[start + 1][0]
        if end - start > _DEEPEST or not (name in _ACCENTS or name in _SCRIPT or name in _SIGNS):
            return False
        tokens = self.tokens[start : end + 1]
        self.at += 1
        try:
            symbol = self.symbol(0)
        except (PhipsiError, ValueError):
            symbol = ""
        if self.at == end and symbol and _LETTER.match(symbol):
            self.at = end + 1
            self.emit(symbol, tokens[0][1])
            return True
        self.at, self.tokens[start : end + 1] = start, tokens
        return False

    def _has_arguments(self, place: int) -> bool:
        """Whether printed braces are those of a family or derivative; others are parentheses."""
        name = next((x.strip() for x in reversed(self.out[-2:]) if x[0] != "^"), "")
        rate = "\u0307" in name and self._follows_directly(place)
        return self.at in self.families or rate or name[:1] in ("d", "δ")

    def _families(self) -> set[int]:
        """The printed braces with a semicolon in them, among the tokens."""
        opened: list[int] = []
        found: set[int] = set()
        for i, (token, _) in enumerate(self.tokens):
            if token in _GROUPS:
                opened.append(i)
            elif token in _GROUPS.values() and opened:
                opened.pop()
            elif token == ";" and opened:
                found.add(opened[-1])
        return found

    def _follows_directly(self, place: int) -> bool:
        """Whether a name stands directly before this place, so that braces are its own."""
        return bool(self.out) and place > 0 and _is_part(self.text[place - 1])

    def _fraction(self, place: int) -> None:
        self.at += 1
        top, bottom = self._argument_text(), self._argument_text()
        if not (top.isdecimal() and bottom.isdecimal()):
            raise self.wrong(
                "a fraction has integers; a division by an operator is written X^{-1}", place
            )
        self.emit(f"{top}/{bottom}", place)

    def _argument_text(self) -> str:
        """The text of a group in braces, or of one character."""
        token, place = self.tokens[self.at]
        if not token:
            raise self.wrong("the text ends before what is raised, lowered or divided here", place)
        if token == "{":
            end = self.closing[self.at]
            self.at = end + 1
            return self.text[place + 1 : self.tokens[end][1]].strip()
        if len(token) > 1 and token[0] != "\\":  # \frac12
            self.tokens[self.at] = (token[1:], place + 1)
            return token[0]
        self.at += 1
        return token

    def _symbol_with_scripts(self, place: int) -> None:
        token = self.tokens[self.at][0]
        if token in _SIGNS and not _LETTER.match(_SIGNS[token]):
            self.at += 1
            self.emit(_SIGNS[token], place, glued=True)
            if _SIGNS[token] in _CLOSES:
                self._scripts()
            return
        if token[0] != "\\" and token.isascii() and token not in self.known:
            singles = [c for c in token if c in self.known]
            if len(token) > 1 and len(singles) == len(token):
                for i, c in enumerate(token[:-1]):
                    self.emit(c, place + i)
                place += len(token) - 1
                self.tokens[self.at] = (token[-1], place)
        self.emit(self.symbol(0), place)
        self._scripts()

    def symbol(self, depth: int) -> str:
        """One letter with its accents, or a name."""
        token, place = self.tokens[self.at]
        if depth > _DEEPEST:
            raise self.wrong("accents are nested too deeply", place)
        self.at += 1
        if token == r"\delta":  # δq is one name
            nxt = self.tokens[self.at][0]
            simple = nxt in _ACCENTS or nxt in _SIGNS or _LETTER.match(nxt)
            return "δ" + self.symbol(depth + 1) if simple else "δ"
        if token == r"\log" and self.tokens[self.at][0] == r"\det":
            self.at += 1
            return "logdet"
        if token in _SIGNS:
            return _SIGNS[token]
        if token in _ACCENTS:
            inner = self._inner(depth)
            if len([c for c in inner if not unicodedata.combining(c)]) != 1:
                raise self.wrong(f"{token} stands over one letter, not over '{inner[:20]}'", place)
            return inner + _ACCENTS[token]
        if token in _SCRIPT:
            return "".join(map(script_letter, self._inner(depth)))
        if token == r"\mathbb":
            return "".join(script_letter(c, "DOUBLE-STRUCK") for c in self._inner(depth))
        if token in _UPRIGHT:
            return self._upright(depth)
        if token[0] == "\\":
            raise self.wrong(f"{token} is not a letter or sign of expressions", place)
        return token

    def _inner(self, depth: int) -> str:
        """The symbol that an accent stands over, in braces or not."""
        token, place = self.tokens[self.at]
        if depth > _DEEPEST:
            raise self.wrong("accents are nested too deeply", place)
        if token != "{":
            if not token or token in _FRACTIONS or not (token[0] == "\\" or token[0].isalnum()):
                raise self.wrong("a letter is missing here", place)
            first = _FIRST.match(token)
            if first and first.end() < len(token):
                self.tokens[self.at] = (token[first.end() :], place + first.end())
                return first.group()
            if token == r"\delta":  # here it is no part of a longer name
                self.at += 1
                return "δ"
            return self.symbol(depth + 1)
        end = self.closing[self.at]
        self.at += 1
        out = ""
        while self.at < end:
            if self.tokens[self.at][0] == "_":
                self.at += 1
                out += "_" + self._inner(depth + 1)
            else:
                out += self.symbol(depth + 1)
        self.at = end + 1
        return out

    def _upright(self, depth: int) -> str:
        """The word in an upright group: cross_f of cross_{f}."""
        if self.tokens[self.at][0] != "{":
            return self._inner(depth)
        end, out = self.closing[self.at], ""
        start = self.tokens[self.at][1] + 1
        if not re.search(r"[_\\]", self.text[start : self.tokens[end][1]]):
            out, self.at = self.text[start : self.tokens[end][1]].strip(), end
        else:
            self.at += 1
        while self.at < end:
            token = self.tokens[self.at][0]
            if token in ("_", r"\_"):
                self.at += 1
                out += "_" + (self._inner(depth) if self.tokens[self.at][0] == "{" else "")
            else:
                out += self.symbol(depth + 1)
        self.at = end + 1
        return out

    def _scripts(self) -> None:
        """Subscripts and superscripts in either order; the subscript belongs to the name."""
        raised: list[tuple[str, int]] = []
        in_order = bool(self.out) and self.out[-1].lstrip().startswith("δ")  # δH^{*} is a name
        while self.tokens[self.at][0] in ("^", "_"):
            sign, place = self.tokens[self.at]
            self.at += 1
            if sign == "^" and in_order:
                self.emit(self._superscript(), place, glued=True)
            elif sign == "^":
                raised.append((self._superscript(), place))
            else:
                self._subscript(place)
        for text, place in raised:
            self.emit(text, place, glued=True)

    def _superscript(self) -> str:
        if self.tokens[self.at][0] in _UPRIGHT:  # ^\mathrm{T}
            self.at += 1
        inside = _HALF.sub(lambda m: "/".join(filter(None, m.groups())), self._argument_text())
        inside = _FONTS.sub("", inside)
        for command, sign in _SIGNS.items():
            if command in inside and sign in "*T'":
                inside = inside.replace(command, sign)
        return f"^{{{''.join(name_of_latex(inside).split())}}}"

    def _subscript(self, place: int) -> None:
        name = self.out[-1].strip() if self.out else ""
        start = self.at
        inside = self._argument_text()
        if inside[:1] == "(" and inside[-1:] == ")":
            self.emit(f"[{name_of_latex(inside[1:-1])}]", place, glued=True)
        elif name in ("I", "0") and inside[:5] == r"\text":
            self.emit(f"[{name_of_latex(inside)}]", place, glued=True)
        else:
            end, self.at = self.at, start
            word = self._inner(0) if _plain_subscript(inside) else ""
            if self.at != end or not _SUBSCRIPT.fullmatch(word):
                raise self.wrong(
                    "a subscript is a name, as in \\mathcal{E}_{\\phi}; blocks such as "
                    "\\phi(k+1,k) belong to sums over bodies, which operators replace",
                    place,
                )
            self.emit(f"_{word}", place, glued=True)


def _plain_subscript(text: str) -> bool:
    return not any(c in text for c in "+-=,()[]^* ") or "\\" in text and "," not in text


def _is_part(c: str) -> bool:
    """Whether a character can stand in a name or number."""
    return bool(c) and (c.isalnum() or c in "_½~" or bool(unicodedata.combining(c)))
