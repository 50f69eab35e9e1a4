"""Hints for what people write in formulas that is no expression: blocks, rates, attributes."""

from __future__ import annotations

import re

_NAME = r"[^\W\d_]\w*"
_MISREAD = (
    (
        re.compile(rf"({_NAME})\(([nij]|\d+)\)"),
        "{0} is the block of {1} of one body: operators are of all bodies at once. Write the "
        'equation without numbers. The blocks of a model are  pp.compile("{1}", model, '
        'mode="blocks")(q)',
    ),
    (
        re.compile(rf"({_NAME})_[knij]\b"),
        "{0} is the block of {1} of one body: operators are of all bodies at once. Write the "
        "equation without numbers; your own operator? pass custom=[{0}]",
    ),
    (
        re.compile(rf"d/dt\s*\(?({_NAME}|ℳ)"),
        'time derivatives are not written in formulas. That of {1} is  pp.diff("{1}", "q", '
        'along="v")',
    ),
    (
        re.compile(rf"({_NAME})\.(?:T|H|inv|inverse)\b(?:\(\))?"),
        "in formulas the adjoint of {1} is {1}*, and its inverse {1}^-1",
    ),
)


def hint_at(text: str, at: int) -> str:
    """What to write instead of the part of a formula that was not understood; "" if unknown.

    >>> hint_at("phi.T() M", 6)
    'in formulas the adjoint of phi is phi*, and its inverse phi^-1'
    """
    for pattern, hint in _MISREAD:
        for found in pattern.finditer(text):
            if found.start() <= at <= found.end():
                return hint.format(found.group(), found[1])
    return ""
