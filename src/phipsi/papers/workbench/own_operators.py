"""Custom operators of the workbench's page: lines of text, never code.

A line is ``C : rates -> efforts = 0.5``: a name, its spaces and its value. One space is that of a
vector, and ``scalar`` a number. A value is a number or array as JSON has them, with ", symmetric"
after it if it is, or an expression.
"""

from __future__ import annotations

import json
import re
from typing import Any

from phipsi.core.expressions import SPACES, Expr
from phipsi.core.operators import parse
from phipsi.errors import InputError, PhipsiError
from phipsi.user_operators import operator, scalar, vector

MOST = 20  # lines
_LINE = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*:\s*(?P<spaces>[\w ]+(?:->[\w ]+)?)=(?P<value>.*)")
_SYMMETRIC = re.compile(r",\s*symmetric\s*$")
_NUMBERS = tuple("0123456789+-.[{")


def own_operators(text: str) -> list[Expr]:
    """The operators and vectors that the lines of a text define; later ones may name earlier ones.

    >>> print(*own_operators("C : rates -> efforts = 0.5"))
    C
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MOST:
        raise InputError(f"there are {len(lines)} custom operators; the workbench reads {MOST}")
    out: list[Expr] = []
    for line in lines:
        try:
            out.append(_read(line, out))
        except PhipsiError as error:
            raise InputError(f"the custom operator {line.strip()[:80]!r}: {error}") from None
    return out


def _read(line: str, known: list[Expr]) -> Expr:
    found = _LINE.fullmatch(line)
    if found is None:
        raise InputError("write a name, its spaces and its value:  C : rates -> efforts = 0.5")
    name, spaces = found["name"], found["spaces"].strip()
    value, symmetric = _value(found["value"].strip(), known)
    if spaces == "scalar":
        return scalar(name, value)
    ends = [end.strip() for end in spaces.split("->")]
    unknown = [end for end in ends if end not in SPACES]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a space; the spaces are {', '.join(SPACES)}")
    return (
        vector(name, spaces, value)
        if len(ends) == 1
        else operator(name, spaces, value, symmetric=symmetric)
    )


def _value(text: str, known: list[Expr]) -> tuple[Any, bool]:
    """Numbers and whether they are said to be symmetric, or an expression."""
    plain = _SYMMETRIC.sub("", text)
    if not plain.startswith(_NUMBERS):
        return parse(text, custom=known), False
    try:
        value = json.loads(plain)
    except ValueError:
        raise InputError(
            f"{plain[:40]!r} is not a number or an array such as [[1, 0], [0, 2]]"
        ) from (None)
    return value, plain != text
