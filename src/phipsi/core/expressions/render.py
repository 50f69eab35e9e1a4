"""Expressions as text: Greek for people, ASCII for code, LaTeX for papers. All parse back.

Riccati families have short names: ψ₁ K₁ where ₁ is {H; E_φ; M; 0}. A custom family is printed
with its four operators in braces. Where one occurs more than once, it gets a number, and the text
ends with what the numbers stand for. `parse` reads both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from phipsi.core.expressions.kinds import Op, PrintableNode
from phipsi.core.expressions.spaces import UNKNOWN

STYLES = ("greek", "ascii", "latex")
_ADJOINT = {"greek": "*", "ascii": "*", "latex": "^{*}"}
_INVERSE = {"greek": "⁻¹", "ascii": "^-1", "latex": "^{-1}"}
_INVERSE_ADJOINT = {"greek": "⁻¹*", "ascii": "^-1*", "latex": "^{-*}"}
_LOOSE = (Op.SUM, Op.PRODUCT, Op.ADJOINT, Op.INVERSE)
_MINUS = {"greek": "−", "ascii": "-", "latex": "-"}
_NEEDS_QUOTES = re.compile(r'[\]\[,"]')
LATEX_CALLS = {  # where it is not the name
    "as_matrix": r"\operatorname{matrix}",
    "logdet": r"\log\det",
}


def render(x: PrintableNode, style: str) -> str:
    """The text of `x` in one of the styles "greek", "ascii", "latex"."""
    return with_legend(x, _alone(x, style), style, render_argument)


def _alone(x: PrintableNode, style: str) -> str:
    """The text of `x` where nothing says the spaces of I and 0; families have no numbers yet."""
    if x.op in (Op.IDENTITY, Op.ZERO) and x.takes is not UNKNOWN:
        sign = "I" if x.op is Op.IDENTITY else "0"
        spaces = x.takes.name if x.op is Op.IDENTITY else f"{x.takes.name},{x.gives.name}"
        return f"{sign}_{{\\text{{{spaces}}}}}" if style == "latex" else f"{sign}[{spaces}]"
    if x.op is Op.SUM and len(x.args) == 1 and x.args[0].op is Op.IDENTITY:
        return _number(x.data[0], style) + _alone(x.args[0], style)
    return _node(x, style)


def _number(c: int | float | Fraction, style: str) -> str:
    sign = _MINUS[style] if c < 0 else ""
    return sign if abs(c) == 1 else f"{sign}{_digits(abs(c), style)} "


def _digits(c: int | float | Fraction, style: str) -> str:
    if isinstance(c, Fraction):
        return rf"\tfrac{{{c.numerator}}}{{{c.denominator}}}" if style == "latex" else f"{c}"
    return repr(c)


def _node(x: PrintableNode, style: str) -> str:
    """The text of `x` inside a larger expression, computed once."""
    return x.inner_text(style)


def render_inside(x: PrintableNode, style: str) -> str:
    """The text of `x` inside a larger expression, from which the spaces of I and 0 follow."""
    if x.op is Op.LEAF:
        return _leaf(x, style)
    if x.op is Op.IDENTITY:
        return "I"
    if x.op is Op.ZERO:
        return "0"
    if x.op is Op.ADJOINT:
        return _tight(x.args[0], style) + _ADJOINT[style]
    if x.op is Op.INVERSE:
        inner = x.args[0]
        if inner.op is Op.ADJOINT:
            return _tight(inner.args[0], style) + _INVERSE_ADJOINT[style]
        return _tight(inner, style) + _INVERSE[style]
    if x.op is Op.PRODUCT:
        return " ".join(_tight(y, style, (Op.SUM,)) for y in x.args)
    if x.op is Op.SUM:
        return _sum(x, style)
    return _call(x, style)


def _call(x: PrintableNode, style: str) -> str:
    """f(x; …), with the place of an open direction as f[0](x; …)."""
    function, hole = x.data if x.op is Op.FUNCTION else (None, None)
    latex = style == "latex"
    name: str = x.op.value if function is None else function.name
    if latex:
        name = (function and function.latex) or LATEX_CALLS.get(name, rf"\operatorname{{{name}}}")
    if hole is not None:
        name += f"_{{({hole})}}" if latex else f"[{hole}]"
    inner = "; ".join(_alone(y, style) for y in x.args)
    return rf"{name}\left({inner}\right)" if latex else f"{name}({inner})"


def _leaf(x: PrintableNode, style: str) -> str:
    row = x.row
    name = {"greek": row.symbol, "ascii": row.name, "latex": row.latex}[style]
    if x.params:
        latex = style == "latex"
        texts = [quoted(p) if isinstance(p, str) else str(p) for p in x.params]
        if latex:
            from phipsi.core.expressions.latex import latex_name

            texts = [latex_name(text) for text in texts]
        inside = ", ".join(texts)
        name += f"_{{({inside})}}" if style == "latex" else f"[{inside}]"
    if x.args:
        inside = "; ".join(render_argument(y, style) for y in x.args)
        name += rf"\langle {inside} \rangle" if style == "latex" else f"{{{inside}}}"
    return name


def quoted(name: str) -> str:
    """A name given by a user: in quotes if it would not end where it does."""
    if name == name.strip() and name and not _NEEDS_QUOTES.search(name):
        return name
    from json import dumps

    return dumps(name, ensure_ascii=False)


def render_argument(x: PrintableNode, style: str) -> str:
    """An operator inside the braces of a Riccati leaf, where zero needs no space."""
    return "0" if x.op is Op.ZERO else _node(x, style)


def _tight(x: PrintableNode, style: str, loose: Sequence[Op] = _LOOSE) -> str:
    """Text that a superscript can follow: loose kinds of nodes in brackets."""
    text = _node(x, style)
    if x.op in loose:
        return rf"\left({text}\right)" if style == "latex" else f"({text})"
    if style == "latex" and loose is _LOOSE and x.op is Op.LEAF and "^" in x.row.latex:
        return text if x.args else f"{{{text}}}"  # TeX takes one superscript
    return text


def _sum(x: PrintableNode, style: str) -> str:
    out = ""
    for c, y in x.terms:
        sign = _MINUS[style] if c < 0 else "+"
        body = _term(abs(c), y, style)
        if not out:
            out = f"{_MINUS[style]}{body}" if c < 0 else body
        else:
            out += f" {sign} {body}"
    return out


def _term(c: int | float | Fraction, y: PrintableNode, style: str) -> str:
    text = _node(y, style) if y.op is not Op.SUM else f"({_node(y, style)})"
    return text if c == 1 else f"{_digits(c, style)} {text}"


# ---- Riccati families by number ------------------------------------------------------------------


_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_BRACES = {"greek": ("{", "}"), "latex": (r"\langle ", r" \rangle")}
_WHERE = {"greek": " where ", "latex": r" \quad\text{where}\quad "}
_IS = {"greek": " is ", "latex": r"\text{ is }"}
_NUMBER = {"greek": "[₀₁₂₃₄₅₆₇₈₉]+", "latex": r"\\langle [0-9]+\\rangle"}


def with_legend(
    x: PrintableNode, text: str, style: str, argument: Callable[[PrintableNode, str], str]
) -> str:
    """The text with numbers for families that occur more than once, and what they are."""
    if style not in _BRACES or _BRACES[style][0] not in text:
        return text
    opening, closing = _BRACES[style]
    inside = {"; ".join(argument(y, style) for y in args): None for args in _families(x)}
    written = sorted((f"{opening}{text}{closing}" for text in inside), key=len)
    lines: list[str] = []
    short = text
    for braces in written:  # families inside others are shorter
        for number, line in enumerate(lines, 1):
            braces = braces.replace(line, _numbered(number, style))
        if short.count(braces) + sum(line.count(braces) for line in lines) > 1:
            lines.append(braces)
            short = short.replace(braces, _numbered(len(lines), style))
    if not lines:
        return text
    items = [f"{_numbered(i, style)}{_IS[style]}{line}" for i, line in enumerate(lines, 1)]
    return short + _WHERE[style] + ", ".join(items)


def _numbered(number: int, style: str) -> str:
    # an index in LaTeX would be the second one of E_ψ, and of D^{1/2}
    return rf"\langle {number}\rangle" if style == "latex" else str(number).translate(_LOWERED)


def _families(x: PrintableNode) -> Iterator[Sequence[PrintableNode]]:
    """The four operators of every Riccati leaf that has them in braces."""
    seen: set[PrintableNode] = set()
    stack = [x]
    while stack:
        y = stack.pop()
        if y in seen:
            continue
        seen.add(y)
        if y.op is Op.LEAF and y.args and y.row.riccati:
            yield y.args
        stack.extend(y.args)


def without_legend(text: str, most: int) -> str:
    """The text with the braces that its numbers stand for; text without a legend unchanged.

    It stops soon after it has become longer than `most` characters.
    """
    style = "latex" if r"\text{where}" in text else "greek"
    body, where, legend = text.partition(_WHERE[style].strip() if style == "latex" else " where ")
    number = _NUMBER[style]
    if not where:
        return text
    said = re.escape(_IS[style].strip()) if style == "latex" else r"\s+is\s+"
    rest, *parts = re.split(rf"(?:^|,)[\s\\quad]*({number})\s*{said}", legend)
    if rest.strip() or not parts:
        return text
    meanings: dict[str, str] = {}
    for sign, braces in zip(parts[::2], parts[1::2], strict=False):
        meanings[sign] = _expanded(braces.strip(), number, meanings, most)
        if len(meanings[sign]) > most:
            return meanings[sign]
    return _expanded(body, number, meanings, most)


def _expanded(text: str, number: str, meanings: dict[str, str], most: int) -> str:
    out, at = "", 0
    for found in re.finditer(number, text):
        out += text[at : found.start()] + meanings.get(found.group(), found.group())
        at = found.end()
        if len(out) > most:
            break
    return out + text[at:]
