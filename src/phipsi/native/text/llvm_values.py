"""Types of LLVM's text, and operands of its instructions: values that have names, known numbers.

Sums and products of an index and known numbers are written if something but an address needs them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from phipsi.core.model import is_list

# ---- types ---------------------------------------------------------------------------------------


WORD: Final = 8
"""Bytes of a word: an integer of a table, or an address."""


class IRType:
    """A type, by its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class IntType(IRType):
    """Integers of some bits."""

    __slots__ = ("width",)

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width


class VectorType(IRType):
    """Several elements side by side."""

    __slots__ = ("count", "element")

    def __init__(self, element: IRType, count: int) -> None:
        super().__init__(f"<{count} x {element}>")
        self.element, self.count = element, count


class LiteralStructType(IRType):
    """A record without a name."""

    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[IRType]) -> None:
        super().__init__("{" + ", ".join(x.text for x in elements) + "}")
        self.elements = tuple(elements)


class FunctionType(IRType):
    """The types that a function returns and takes."""

    __slots__ = ("gives", "takes")

    def __init__(self, gives: IRType, takes: Sequence[IRType]) -> None:
        super().__init__(f"{gives} ({', '.join(x.text for x in takes)})")
        self.gives, self.takes = gives, tuple(takes)


def side_by_side(element: IRType, count: int) -> IRType:
    """A vector of several elements; one alone is a plain value."""
    return element if count == 1 else VectorType(element, count)


DOUBLE, FLOAT, POINTER, VOID = (IRType(name) for name in ("double", "float", "ptr", "void"))
BIT = IntType(1)


def element_of(dtype: np.dtype) -> IRType:
    """The type of the numbers of an array."""
    numbers = {8: DOUBLE, 4: FLOAT}
    return numbers[dtype.itemsize] if dtype.kind == "f" else IntType(8 * dtype.itemsize)


def truth_of(type_: IRType) -> IRType:
    """The type of comparisons of values of this type."""
    return VectorType(BIT, type_.count) if isinstance(type_, VectorType) else BIT


_packed, _bits = struct.Struct("<d").pack, struct.Struct("<Q").unpack


def number_text(x: float, is_single: bool) -> str:
    """A floating-point number; those of single precision are written as doubles."""
    return f"0x{_bits(_packed(_rounded(x) if is_single else x))[0]:016X}"


def _rounded(x: float) -> float:
    """The nearest number of single precision; infinite if it is too large for one."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


# ---- operands ------------------------------------------------------------------------------------


class IRValue:
    """An operand of instructions; `typed` is its type and name, `number` a known integer."""

    __slots__ = ("name", "type", "typed")
    number: int | None = None

    def __init__(self, type_: IRType, name: str) -> None:
        self.type, self.name = type_, name
        self.typed = f"{type_.text} {name}"

    def used(self) -> IRValue:
        """The same, for what reads its name only when the text is put together."""
        return self


class Argument(IRValue):
    """An argument of a function."""

    __slots__ = ("attributes",)

    def __init__(self, type_: IRType, name: str) -> None:
        super().__init__(type_, name)
        self.attributes = ""

    def add_attribute(self, name: str) -> None:
        """Promise something, e.g. "noalias"."""
        self.attributes += f"{name} "


class Deferred(IRValue):
    """of · times + plus, an index or an offset: a sum or product with a known number.

    Addresses in its own block are computed from `of`, so that most have no instruction of their
    own. It gets one, where it was made, when its name is asked for.
    """

    __slots__ = ("_label", "_line", "_parts", "block", "of", "plus", "times")

    def __init__(self, instruction: str, x: IRValue, y: int, block: Any) -> None:
        self.type, self._parts, self.block, self._line = x.type, (instruction, x, y), block, ""
        self.of: IRValue = x
        self.times: int = 1
        self.plus: int = 0
        if isinstance(x, Deferred) and x.block is block:
            self.of, self.times, self.plus = x.of, x.times, x.plus
        if instruction == "add":
            self.plus += y
        else:
            self.times, self.plus = self.times * y, self.plus * y

    @property
    def fits(self) -> bool:
        """Whether an address can be written with it."""
        return 0 < self.times < _LARGE and -_LARGE < self.plus < _LARGE

    def used(self) -> IRValue:
        """The same, and it has its instruction."""
        if not self._line:
            instruction, x, y = self._parts
            self._label = self.block.function.fresh()
            self._line = f"  {self._label} = {instruction} {x.typed}, {y}"
        return self

    @property
    def name(self) -> str:  # type: ignore[override]
        """Its name."""
        self.used()
        return self._label

    @property
    def typed(self) -> str:  # type: ignore[override]
        """Its type and name."""
        return f"{self.type.text} {self.name}"

    def text(self) -> str:
        """The line, or nothing."""
        return self._line


_LARGE: Final = 1 << 31


class _Undefined:
    """Any value will do."""


Undefined: Final = _Undefined()


def _of_one_lane(value: Any | list[Any]) -> Any:
    if is_list(value):
        return value[0]
    return value


class IRConstant(IRValue):
    """A known number, several of them, no address (None), or `Undefined`."""

    __slots__ = ("number",)

    def __init__(self, type_: IRType, value: Any) -> None:
        self.number: int | None = None
        if isinstance(type_, VectorType):
            name = _known(type_, value)
        else:
            value = _of_one_lane(value)
            if isinstance(type_, IntType) and value is not Undefined:
                self.number = int(value)
            name = _known(type_, value)
        self.type, self.name = type_, name
        self.typed = f"{type_.text} {name}"


def _known(type_: IRType, value: Any) -> str:
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


# ---- memory of a module --------------------------------------------------------------------------


class ConstantTable(IRValue):
    """Known numbers in memory."""

    __slots__ = ("element", "numbers")

    def __init__(self, module: Any, element: IRType, numbers: Sequence[Any], name: str) -> None:
        super().__init__(POINTER, f"@{name}")
        self.element, self.numbers = element, [IRConstant(element, x) for x in numbers]
        module.tables.append(self)

    def lines(self) -> Iterator[str]:
        """The text."""
        listed = ", ".join([x.typed for x in self.numbers])
        kind = f"[{len(self.numbers)} x {self.element}]"
        yield f"{self.name} = internal constant {kind} [{listed}], align {WORD}"


class StaticMemory(IRValue):
    """Bytes of a module that change, zero at first."""

    __slots__ = ("size",)

    def __init__(self, module: Any, size: int, name: str) -> None:
        super().__init__(POINTER, f"@{name}")
        self.size = max(1, size)
        module.tables.append(self)

    def lines(self) -> Iterator[str]:
        """The text."""
        yield f"{self.name} = internal global [{self.size} x i8] zeroinitializer, align 16"
