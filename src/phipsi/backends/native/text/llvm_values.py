"""LLVM's text: types, values, blocks, functions and modules; see `llvm_text` for instructions."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

# ---- types ---------------------------------------------------------------------------------------


class Type:
    """A type, by its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class IntType(Type):
    """Integers of some bits."""

    __slots__ = ("width",)

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width


class DoubleType(Type):
    """Numbers."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("double")


class PointerType(Type):
    """Addresses."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("ptr")


class VoidType(Type):
    """Nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("void")


class VectorType(Type):
    """Several elements side by side."""

    __slots__ = ("count", "element")

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"<{count} x {element}>")
        self.element, self.count = element, count


class LiteralStructType(Type):
    """A record without a name."""

    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[Type]) -> None:
        super().__init__("{" + ", ".join(x.text for x in elements) + "}")
        self.elements = tuple(elements)


class FunctionType(Type):
    """What a function returns and takes."""

    __slots__ = ("gives", "takes")

    def __init__(self, gives: Type, takes: Sequence[Type]) -> None:
        super().__init__(f"{gives} ({', '.join(x.text for x in takes)})")
        self.gives, self.takes = gives, tuple(takes)


BIT = IntType(1)


# ---- values --------------------------------------------------------------------------------------


class Value:
    """Something an instruction can use; `typed` is its type and name."""

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
        super().__init__(type_, _known(type_, value))
        self.number: int | None = value if isinstance(type_, IntType) else None


def _known(type_: Type, value: Any) -> str:
    if value is Undefined:
        return "undef"
    if value is None:
        return "null"
    if isinstance(type_, VectorType):
        element = type_.element
        return "<" + ", ".join(f"{element.text} {_known(element, x)}" for x in value) + ">"
    if isinstance(type_, DoubleType):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(int(value))


class Function(Value):
    """A function of a module: declared, and defined once it has blocks."""

    __slots__ = ("_labels", "_names", "args", "blocks", "linkage", "module", "signature")

    def __init__(self, module: Module, signature: FunctionType, name: str) -> None:
        super().__init__(ADDRESS, f"@{name}")
        self.module, self.signature, self.linkage = module, signature, ""
        self.args = [Argument(x, f"%a{i}") for i, x in enumerate(signature.takes)]
        self.blocks: list[Block] = []
        self._names = self._labels = 0
        module.globals[name] = self

    def append_basic_block(self, name: str) -> Block:
        """A new block at the end."""
        self._labels += 1
        self.blocks.append(Block(self, f"{name}.{self._labels}"))
        return self.blocks[-1]

    def fresh(self) -> str:
        """The name of the next value."""
        self._names += 1
        return f"%v{self._names}"

    def lines(self) -> Iterator[str]:
        """The text."""
        if not self.blocks:
            takes = ", ".join(a.type.text for a in self.args)
            yield f"declare {self.signature.gives} {self.name}({takes})"
            return
        takes = ", ".join(f"{a.type} {a.attributes}{a.name}" for a in self.args)
        linkage = f"{self.linkage} " if self.linkage else ""
        yield f"define {linkage}{self.signature.gives} {self.name}({takes})"
        yield "{"
        for block in self.blocks:
            yield f"{block.label}:"
            for line in block.lines:
                yield line if isinstance(line, str) else line.text()
        yield "}"


class Argument(Value):
    """An argument of a function."""

    __slots__ = ("attributes",)

    def __init__(self, type_: Type, name: str) -> None:
        super().__init__(type_, name)
        self.attributes = ""

    def add_attribute(self, name: str) -> None:
        """Promise something, e.g. "noalias"."""
        self.attributes += f"{name} "


class Block:
    """Instructions that run one after the other."""

    __slots__ = ("function", "label", "lines")

    def __init__(self, function: Function, label: str) -> None:
        self.function, self.label = function, label
        self.lines: list[str | Phi | Switch] = []


class Phi(Value):
    """The value that belongs to the block control came from."""

    __slots__ = ("_incoming",)

    def __init__(self, type_: Type, name: str) -> None:
        super().__init__(type_, name)
        self._incoming: list[tuple[Value, Block]] = []

    def add_incoming(self, value: Value, block: Block) -> None:
        """The value when control comes from a block."""
        self._incoming.append((value, block))

    def text(self) -> str:
        """The line."""
        parts = ", ".join(f"[{value.name}, %{block.label}]" for value, block in self._incoming)
        return f"  {self.name} = phi {self.type} {parts}"


class Switch:
    """A jump to the block of the case."""

    def __init__(self, value: Value, default: Block) -> None:
        self._value, self._default = value, default
        self._cases: list[tuple[Value, Block]] = []

    def add_case(self, value: Value, block: Block) -> None:
        """Where to go for a value."""
        self._cases.append((value, block))

    def text(self) -> str:
        """The line."""
        cases = " ".join(f"{value.typed}, label %{block.label}" for value, block in self._cases)
        return f"  switch {self._value.typed}, label %{self._default.label} [{cases}]"


class Table(Value):
    """Known numbers in memory."""

    __slots__ = ("_line",)

    def __init__(self, module: Module, element: Type, numbers: Sequence[Any], name: str) -> None:
        super().__init__(ADDRESS, f"@{name}")
        listed = ", ".join(Constant(element, x).typed for x in numbers)
        kind = f"[{len(numbers)} x {element}]"
        self._line = f"{self.name} = internal constant {kind} [{listed}], align 8"
        module.tables.append(self)

    def lines(self) -> Iterator[str]:
        """The text."""
        yield self._line


class Module:
    """Functions that are compiled together, and their tables."""

    def __init__(self) -> None:
        self.globals: dict[str, Function] = {}
        self.tables: list[Table] = []

    def __str__(self) -> str:
        parts = (*self.tables, *self.globals.values())
        return "\n".join(line for part in parts for line in part.lines()) + "\n"


ADDRESS = PointerType()
