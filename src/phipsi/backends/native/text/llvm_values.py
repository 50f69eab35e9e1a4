"""Operands of LLVM's instructions: values that have names, and known numbers."""

from __future__ import annotations

from typing import Any, Final

from phipsi.backends.native.text.llvm_types import (
    DOUBLE,
    FLOAT,
    IntType,
    Type,
    VectorType,
    number_text,
)


class Value:
    """An operand of instructions; `typed` is its type and name."""

    __slots__ = ("name", "type", "typed")

    def __init__(self, type_: Type, name: str) -> None:
        self.type, self.name = type_, name
        self.typed = f"{type_.text} {name}"


class _Undefined:
    """Any value will do."""


Undefined: Final = _Undefined()


class Constant(Value):
    """A known number, several of them, no address (None), or `Undefined`."""

    __slots__ = ("number",)

    def __init__(self, type_: Type, value: Any) -> None:
        self.number: Any = None
        if isinstance(type_, VectorType):
            name = _known(type_, value)
        else:
            if isinstance(value, list):  # of one lane
                value = value[0]
            if isinstance(type_, IntType):
                self.number = value
            name = _known(type_, value)
        self.type, self.name = type_, name
        self.typed = f"{type_.text} {name}"


def _known(type_: Type, value: Any) -> str:
    if value is Undefined:
        return "undef"
    if value is None:
        return "null"
    if isinstance(type_, VectorType):
        element, first = type_.element, value[0]
        if all([x is first for x in value]):
            each = [f"{element.text} {_known(element, first)}"] * len(value)
        else:
            each = [f"{element.text} {_known(element, x)}" for x in value]
        return "<" + ", ".join(each) + ">"
    if type_ is DOUBLE or type_ is FLOAT:
        return number_text(value, type_ is FLOAT)
    return str(int(value))
