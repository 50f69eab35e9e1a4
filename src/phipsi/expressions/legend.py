"""Riccati families with short names: ψ₁ K₁ where ₁ is {H; E_φ; M; 0}.

A family of one's own is printed with its four operators in braces. Where one occurs more than once,
it gets a number, and the text ends with what the numbers stand for. `parse` reads both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from phipsi.expressions.kinds import Node, Op

_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_BRACES = {"greek": ("{", "}"), "latex": (r"\langle ", r" \rangle")}
_WHERE = {"greek": " where ", "latex": r" \quad\text{where}\quad "}
_IS = {"greek": " is ", "latex": r"\text{ is }"}
_NUMBER = {"greek": "[₀₁₂₃₄₅₆₇₈₉]+", "latex": r"\\langle [0-9]+\\rangle"}


def with_legend(x: Node, text: str, style: str, argument: Callable[[Node, str], str]) -> str:
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
            braces = braces.replace(line, _index(number, style))
        if short.count(braces) + sum(line.count(braces) for line in lines) > 1:
            lines.append(braces)
            short = short.replace(braces, _index(len(lines), style))
    if not lines:
        return text
    items = [f"{_index(i, style)}{_IS[style]}{line}" for i, line in enumerate(lines, 1)]
    return short + _WHERE[style] + ", ".join(items)


def _index(number: int, style: str) -> str:
    # an index in LaTeX would be the second one of E_ψ, and of D^{1/2}
    return rf"\langle {number}\rangle" if style == "latex" else str(number).translate(_LOWERED)


def _families(x: Node) -> Iterator[Sequence[Node]]:
    """The four operators of every Riccati leaf that has them in braces."""
    seen: set[Node] = set()
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
