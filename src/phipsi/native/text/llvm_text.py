"""Writing LLVM's text: types, values and instructions.

The names are those of llvmlite's own writer, which does more and takes five times as long. LLVM,
which parses and verifies the text, finds mistakes in types. Sums and products of known integers are
computed here, because no pass of LLVM's optimiser runs. Values are numbers in the order of the
text, which LLVM parses in two thirds of the time of names. Reasons: docs/decisions/0025.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from phipsi.native.text.llvm_values import (  # some are for others, as `ir.…`
    BIT as BIT,
    DOUBLE,
    FLOAT as FLOAT,
    POINTER,
    VOID,
    WORD,
    Argument,
    ConstantTable,
    Deferred,
    FunctionType,
    IntType,
    IRConstant,
    IRType,
    IRValue,
    LiteralStructType as LiteralStructType,
    StaticMemory,
    Undefined as Undefined,
    VectorType,
    element_of,
    side_by_side as side_by_side,
    truth_of,
)

# ---- functions and their blocks ------------------------------------------------------------------


class IRFunction(IRValue):
    """A function of a module: declared, and defined once it has blocks."""

    __slots__ = (
        "_labels", "args", "blocks", "calls", "early", "in_order", "linkage", "module", "names",
        "signature", "values", "written",
    )  # fmt: skip

    def __init__(
        self, module: Module, signature: FunctionType, name: str, linkage: str = ""
    ) -> None:
        super().__init__(POINTER, f"@{name}")
        self.module, self.signature, self.linkage = module, signature, linkage
        self.args = [Argument(x, f"%a{i}") for i, x in enumerate(signature.takes)]
        self.blocks: list[BasicBlock] = []
        self.early: list[str | Phi | Switch | Deferred] = []  # what the first block begins with
        self.calls: set[IRFunction] = set()
        self.names = self.values = self._labels = 0
        self.written: list[BasicBlock] = []  # blocks in the order in which they were begun
        self.in_order = True  # none was gone on with after another one was begun
        module.globals[name] = self

    def append_basic_block(self, name: str) -> BasicBlock:
        """A new block at the end."""
        self._labels += 1
        self.blocks.append(BasicBlock(self, f"{name}.{self._labels}"))
        return self.blocks[-1]

    def begin(self) -> IRBuilder:
        """A builder at the start of the function, in the language of its module."""
        return self.module.builder(self.append_basic_block("entry"))

    def fresh(self) -> str:
        """A new name."""
        self.names += 1
        return f"%v{self.names}"

    def go_to(self, block: BasicBlock) -> None:
        """The next instructions are written into this block."""
        if not self.written or block is not self.written[-1]:
            self.in_order = self.in_order and not block.is_begun
            if not block.is_begun:
                self.written.append(block)
                block.is_begun = True

    def lines(self) -> Iterator[str]:
        """The text."""
        if not self.blocks:
            takes = ", ".join(a.type.text for a in self.args)
            yield f"declare {self.signature.gives} {self.name}({takes})"
            return
        takes = ", ".join(f"{a.type} {a.attributes}{a.name}" for a in self.args)
        linkage = f"{self.linkage} " if self.linkage else ""
        attributes = self.module.attributes
        yield f"define {linkage}{self.signature.gives} {self.name}({takes}){attributes}"
        yield "{"
        for block in self.written:
            yield f"{block.label}:"
            lines = [*self.early, *block.lines] if block is self.written[0] else block.lines
            if lines:
                texts = [x if isinstance(x, str) else x.text() for x in lines]
                text = "\n".join([x for x in texts if x])
                yield text if self.in_order else _NUMBERED.sub(r"%n\1", text)
        yield "}"


class BasicBlock:
    """Instructions that run one after the other."""

    __slots__ = ("function", "is_begun", "label", "lines")

    def __init__(self, function: IRFunction, label: str) -> None:
        self.function, self.label, self.is_begun = function, label, False
        self.lines: list[str | Phi | Switch | Deferred] = []


class Phi(IRValue):
    """The value that belongs to the block control came from."""

    __slots__ = ("incoming",)

    def __init__(self, type_: IRType, name: str) -> None:
        super().__init__(type_, name)
        self.incoming: list[tuple[IRValue, BasicBlock]] = []

    def add_incoming(self, value: IRValue, block: BasicBlock) -> None:
        """The value when control comes from a block."""
        self.incoming.append((value.used(), block))

    def text(self) -> str:
        """The line."""
        parts = ", ".join(f"[{value.name}, %{block.label}]" for value, block in self.incoming)
        return f"  {self.name} = phi {self.type} {parts}"


class Switch:
    """A jump to the block of the case."""

    def __init__(self, value: IRValue, default: BasicBlock) -> None:
        self._value, self._default = value.used(), default
        self._cases: list[tuple[IRValue, BasicBlock]] = []

    def add_case(self, value: IRValue, block: BasicBlock) -> None:
        """Where to go for a value."""
        self._cases.append((value, block))

    def text(self) -> str:
        """The line."""
        cases = " ".join(f"{value.typed}, label %{block.label}" for value, block in self._cases)
        return f"  switch {self._value.typed}, label %{self._default.label} [{cases}]"


class SeparateFunction(NamedTuple):
    """A function that is compiled by itself: what its text depends on, and what writes it."""

    key: str
    write: Callable[[Module], IRFunction]

    def module(self, name: str) -> Module:
        """A module in which it has this name; it may have parts of its own."""
        out = Module(linked=True)
        function = self.write(out)
        del out.globals[function.name[1:]]
        function.name, function.linkage = f"@{name}", ""
        out.globals[name] = function
        return out


class Module:
    """Functions that are compiled together, and their tables.

    The `parts` of a `linked` module are functions that it only declares: they are compiled by
    themselves, once for all modules that have them (docs/decisions/0059).

    `builder` is the class that writes instructions, and so the language of the text: this one, or
    that of `c_text`. `standalone` is for code that leaves this process: it calls no library, not
    even where LLVM would put such a call, and has no tables for unwinding. `missing` are intrinsics
    that its processor has no instruction for; `narrow` says that addresses have 32 bits,
    `integer_bytes` how wide integers of the model's tables are. `routines` is what callers of its
    functions know about them, by name.
    """

    @property
    def builder(self) -> type[IRBuilder]:
        """What writes the instructions of its functions."""
        return IRBuilder

    def __init__(
        self, *, standalone: bool = False, missing: Sequence[str] = (), narrow: bool = False,
        integer_bytes: int = 8, linked: bool = False,
    ) -> None:  # fmt: skip
        self.linked, self.parts = linked, dict[str, SeparateFunction]()
        self.routines = dict[str, Any]()
        self.missing, self.narrow, self.integer_bytes = missing, narrow, integer_bytes
        self.globals: dict[str, IRFunction] = {}
        self.tables: list[ConstantTable | StaticMemory] = []
        self.standalone = standalone
        self.attributes = " nounwind" if standalone else ""
        self._shared: dict[tuple[str, bytes], ConstantTable] = {}

    def table_of(self, numbers: np.ndarray) -> ConstantTable:
        """A table with these numbers, integers, doubles or floats; equal ones are there once."""
        key = (numbers.dtype.str, numbers.tobytes())
        if key not in self._shared:
            element = element_of(numbers.dtype)
            name = f"table.{len(self._shared)}"
            self._shared[key] = ConstantTable(self, element, numbers.ravel().tolist(), name)
        return self._shared[key]

    def part(
        self, name: str, key: str, signature: FunctionType, write: Callable[[Module], IRFunction]
    ) -> IRFunction:
        """The function that ``write(module)`` writes: into this module, or as a part of it.

        `key` names everything that its text depends on; so does `name`, with the key or a digest.
        """
        known = self.globals.get(name)
        if known is not None:
            return known
        if not self.linked:
            return write(self)
        self.parts[name] = SeparateFunction(key, write)
        return IRFunction(self, signature, name)

    def keep(self, roots: Sequence[IRFunction]) -> None:
        """Remove the functions that none of these calls, directly or through others."""
        kept, stack = set(roots), list(roots)
        while stack:
            new = stack.pop().calls - kept
            kept |= new
            stack.extend(new)
        self.globals = {name: f for name, f in self.globals.items() if f in kept}
        used = set(re.findall(r"@[\w.]+", "".join(x for f in kept for x in f.lines())))
        self.tables = [t for t in self.tables if t.name in used]

    def __str__(self) -> str:
        parts = (*self.tables, *self.globals.values())
        return "\n".join(line for part in parts for line in part.lines()) + "\n"


_NUMBERED = re.compile(r"%(\d+)")
_WORD, _HALF = IntType(64), IntType(32)
_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_UNSIGNED = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"}
_FLOATING = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


# ---- instructions --------------------------------------------------------------------------------

_Binary = Callable[["IRBuilder", IRValue, IRValue], IRValue]
_Cast = Callable[["IRBuilder", IRValue, IRType], IRValue]


def _binary(name: str) -> _Binary:
    """An instruction on two values of one type."""
    return lambda b, x, y: b.emit(x.type, f"{name} {x.typed}, {y.name}")


def _cast(name: str) -> _Cast:
    """An instruction that converts the bits, or the number, to another type."""
    return lambda b, x, type_: b.emit(type_, f"{name} {x.typed} to {type_.text}")


def _known_or(name: str, compute: Callable[[int, int], int]) -> _Binary:
    """An instruction on two integers without signs, or its result if both are known."""
    write = _binary(name)

    def go(builder: IRBuilder, x: IRValue, y: IRValue) -> IRValue:
        a, b = x.number, y.number
        if a is not None and b is not None:
            return IRConstant(x.type, compute(a, b))
        if builder.module.narrow and x.type.text == _WORD.text:  # indices: 32 bits hold them
            x, y = (builder.trunc(v, _HALF) for v in (x, y))
            return builder.zext(write(builder, x, y), _WORD)
        return write(builder, x, y)

    return go


def _quotient(x: int, y: int) -> int:
    return x // y


def _remainder(x: int, y: int) -> int:
    return x % y


def _once(name: str) -> _Binary:
    """An instruction on two integers that a block has once for the same two.

    With a known one it is written if something but an address uses it: see `Deferred`.
    """

    def go(builder: IRBuilder, x: IRValue, y: IRValue) -> IRValue:
        if x.number is not None:
            x, y = y, x
        known = y.number
        if known is None or x.type.text != "i64":
            key = (name, x.name, y.name)
            found = builder.known.get(key)
            if found is None:
                found = builder.emit(x.type, f"{name} {x.typed}, {y.name}")
                builder.known[key] = found
            return found
        key = (name, x, known)
        found = builder.known.get(key)
        if found is None:
            found = builder.known[key] = Deferred(name, x, known, builder.block)
            builder.write_line(found)
        return found

    return go


_known_integer = lru_cache(maxsize=1 << 12)(IRConstant)
_uitofp = _cast("uitofp")


class IRBuilder:
    """Writes instructions at the end of a block."""

    _is_early = False

    def __init__(self, block: BasicBlock) -> None:
        self.position_at_end(block)

    def position_at_end(self, block: BasicBlock) -> None:
        """Go on in another block."""
        self.block, self.function = block, block.function
        self.module = block.function.module
        self.function.go_to(block)
        self.write_line = block.lines.append
        self.known: dict[tuple[Any, ...], Any] = {}  # what this block has so far

    @contextmanager
    def early(self) -> Generator[None]:
        """What is written inside runs first of all; it may use arguments and what runs there."""
        here = self.write_line, self.known, self._is_early
        self.write_line, self.known, self._is_early = self.function.early.append, {}, True
        yield
        self.write_line, self.known, self._is_early = here

    def _name(self) -> str:
        """The next value of a function is a number, which LLVM finds faster than a name."""
        function = self.function
        if self._is_early:
            return function.fresh()
        count = function.values
        function.values = count + 1
        return f"%{count}"

    def emit(self, type_: IRType, text: str) -> IRValue:
        """An instruction, and what it computes."""
        if self._is_early:
            name = self._name()
        else:  # the same, without a call
            function = self.function
            count = function.values
            function.values = count + 1
            name = f"%{count}"
        self.write_line(f"  {name} = {text}")
        return IRValue(type_, name)

    # -- integers

    _add, _sub, _mul = _once("add"), _binary("sub"), _once("mul")

    def add(self, x: IRValue, y: IRValue) -> IRValue:
        """x + y."""
        a, b = x.number, y.number
        if a is not None and b is not None:
            return _known_integer(x.type, a + b)
        return y if a == 0 else x if b == 0 else self._add(x, y)

    def sub(self, x: IRValue, y: IRValue) -> IRValue:
        """x − y."""
        a, b = x.number, y.number
        if a is not None and b is not None:
            return _known_integer(x.type, a - b)
        return x if b == 0 else self._sub(x, y)

    def mul(self, x: IRValue, y: IRValue) -> IRValue:
        """x y."""
        a, b = x.number, y.number
        if a is not None and b is not None:
            return _known_integer(x.type, a * b)
        return y if a == 1 else x if b == 1 else self._mul(x, y)

    sdiv, srem = _binary("sdiv"), _binary("srem")
    udiv, urem = _known_or("udiv", _quotient), _known_or("urem", _remainder)
    and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")
    shl, lshr = _binary("shl"), _binary("lshr")

    def not_(self, x: IRValue) -> IRValue:
        """All bits inverted."""
        if isinstance(x.type, VectorType):
            return self.xor(x, IRConstant(x.type, [-1] * x.type.count))
        return self.xor(x, IRConstant(x.type, -1))

    def icmp_signed(self, relation: str, x: IRValue, y: IRValue) -> IRValue:
        """Compare integers."""
        return self.emit(truth_of(x.type), f"icmp {_SIGNED[relation]} {x.typed}, {y.name}")

    def icmp_unsigned(self, relation: str, x: IRValue, y: IRValue) -> IRValue:
        """Compare integers or addresses without signs."""
        return self.emit(truth_of(x.type), f"icmp {_UNSIGNED[relation]} {x.typed}, {y.name}")

    # -- numbers

    fadd, fsub, fmul, fdiv = (_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv"))

    def fneg(self, x: IRValue) -> IRValue:
        """−x."""
        return self.emit(x.type, f"fneg {x.typed}")

    def fcmp_ordered(self, relation: str, x: IRValue, y: IRValue) -> IRValue:
        """Compare; false where something is NaN."""
        return self.emit(truth_of(x.type), f"fcmp o{_FLOATING[relation]} {x.typed}, {y.name}")

    def fcmp_unordered(self, relation: str, x: IRValue, y: IRValue) -> IRValue:
        """Compare; true where something is NaN."""
        return self.emit(truth_of(x.type), f"fcmp u{_FLOATING[relation]} {x.typed}, {y.name}")

    # -- the bits, or the number, as another type

    bitcast, inttoptr, ptrtoint = _cast("bitcast"), _cast("inttoptr"), _cast("ptrtoint")
    zext, sext, trunc = _cast("zext"), _cast("sext"), _cast("trunc")  # other widths of integers
    sitofp, fptosi = _cast("sitofp"), _cast("fptosi")

    def uitofp(self, x: IRValue, type_: IRType) -> IRValue:
        """The number of an integer without a sign."""
        known = x.number if type_ is DOUBLE else None
        return _uitofp(self, x, type_) if known is None else IRConstant(type_, float(known))

    def select(self, condition: IRValue, x: IRValue, y: IRValue) -> IRValue:
        """x where the condition holds, else y."""
        return self.emit(x.type, f"select {condition.typed}, {x.typed}, {y.typed}")

    # -- parts

    def extract_element(self, x: IRValue, i: IRValue) -> IRValue:
        """An element of a vector, or the plain value of one lane."""
        if not isinstance(x.type, VectorType):
            return x
        return self.emit(x.type.element, f"extractelement {x.typed}, {i.typed}")  # type: ignore

    def insert_element(self, x: IRValue, element: IRValue, i: IRValue) -> IRValue:
        """A vector with another element, or the plain value of one lane."""
        if not isinstance(x.type, VectorType):
            return element
        return self.emit(x.type, f"insertelement {x.typed}, {element.typed}, {i.typed}")

    def shuffle_vector(self, x: IRValue, y: IRValue, mask: IRValue) -> IRValue:
        """Elements of two vectors in another order."""
        if not isinstance(x.type, VectorType):
            return x
        type_ = VectorType(x.type.element, mask.type.count)  # type: ignore[attr-defined]
        return self.emit(type_, f"shufflevector {x.typed}, {y.typed}, {mask.typed}")

    def extract_value(self, x: IRValue, i: int) -> IRValue:
        """A member of a record."""
        return self.emit(x.type.elements[i], f"extractvalue {x.typed}, {i}")  # type: ignore

    def insert_value(self, x: IRValue, member: IRValue, i: int) -> IRValue:
        """A record with another member."""
        return self.emit(x.type, f"insertvalue {x.typed}, {member.typed}, {i}")

    # -- memory

    def at(self, base: IRValue, offset: IRValue | int) -> IRValue:
        """The address so many bytes further."""
        if isinstance(offset, Deferred) and offset.block is self.block and offset.fits:
            row = self._at(base, offset.of.name, offset.times)
            return self.at(row, offset.plus)
        index = str(offset) if isinstance(offset, int) else offset.name
        return base if index == "0" else self._at(base, index)

    def _at(self, base: IRValue, index: str, unit: int = 1) -> IRValue:
        """The address so many units of some bytes further, which a block has once."""
        key = (base.name, index, unit)
        found = self.known.get(key)
        if found is None:
            step = "i8" if unit == 1 else f"[{unit} x i8]"
            found = self.emit(POINTER, f"getelementptr {step}, {base.typed}, i64 {index}")
            self.known[key] = found
        return found

    def word(self, base: IRValue, i: IRValue | int) -> IRValue:
        """The 64-bit word number i after an address."""
        offset = WORD * i if isinstance(i, int) else self.mul(i, _known_integer(_WORD, WORD))
        return self.load(self.at(base, offset), typ=_WORD)

    def load(self, where: IRValue, *, typ: IRType, align: int | None = None) -> IRValue:
        """Read."""
        aligned = "" if align is None else f", align {align}"
        return self.emit(typ, f"load {typ.text}, {where.typed}{aligned}")

    def store(self, x: IRValue, where: IRValue, align: int | None = None) -> None:
        """Write."""
        aligned = "" if align is None else f", align {align}"
        self.write_line(f"  store {x.typed}, {where.typed}{aligned}")

    def alloca(self, type_: IRType, size: int = 1) -> IRValue:
        """Memory of the function's own, taken once, when it is called."""
        out = IRValue(POINTER, self.function.fresh())
        self.function.early.append(f"  {out.name} = alloca {type_}, i32 {size}")
        return out

    # -- control

    def call(self, function: IRFunction, args: Sequence[IRValue]) -> IRValue:
        """Call a function."""
        gives = function.signature.gives
        self.function.calls.add(function)
        text = f"call {gives.text} {function.name}({', '.join([x.typed for x in args])})"
        if gives is VOID:
            self.write_line(f"  {text}")
            return IRValue(gives, "")
        return self.emit(gives, text)

    def call_named(self, name: str, gives: IRType, args: Sequence[IRValue]) -> IRValue:
        """Call a function by its name; it is declared by its first call."""
        known = self.module.globals.get(name)
        if known is None:
            known = IRFunction(self.module, FunctionType(gives, [x.type for x in args]), name)
        return self.call(known, args)

    def call_address(
        self, signature: FunctionType, address: IRValue, args: Sequence[IRValue]
    ) -> None:
        """Call a function that returns nothing by its address."""
        listed = ", ".join([x.typed for x in args])
        self.write_line(f"  call {signature.gives} {address.name}({listed})")

    def phi(self, type_: IRType) -> Phi:
        """A value that depends on where control came from."""
        out = Phi(type_, self._name())
        self.write_line(out)
        return out

    def branch(self, target: BasicBlock) -> None:
        """Go on in another block."""
        self.write_line(f"  br label %{target.label}")

    def cbranch(self, condition: IRValue, then: BasicBlock, other: BasicBlock) -> None:
        """Go on in one of two blocks."""
        self.write_line(f"  br {condition.typed}, label %{then.label}, label %{other.label}")

    def switch(self, value: IRValue, default: BasicBlock) -> Switch:
        """Go on in the block of the case."""
        out = Switch(value, default)
        self.write_line(out)
        return out

    def ret(self, x: IRValue) -> None:
        """Return a value."""
        self.write_line(f"  ret {x.typed}")

    def ret_void(self) -> None:
        """Return."""
        self.write_line("  ret void")

    @contextmanager
    def if_then(self, condition: IRValue) -> Generator[None]:
        """What is written inside runs if the condition holds."""
        inside, after = (self.function.append_basic_block(n) for n in ("if", "endif"))
        self.cbranch(condition, inside, after)
        self.position_at_end(inside)
        yield
        self.branch(after)
        self.position_at_end(after)

    @contextmanager
    def if_else(
        self, condition: IRValue
    ) -> Generator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
        """Two places to write in: one runs if the condition holds, the other if not."""
        then, other, after = (self.function.append_basic_block(n) for n in ("if", "else", "endif"))
        self.cbranch(condition, then, other)
        yield self._inside(then, after), self._inside(other, after)
        self.position_at_end(after)

    @contextmanager
    def _inside(self, block: BasicBlock, after: BasicBlock) -> Generator[None]:
        self.position_at_end(block)
        yield
        self.branch(after)
