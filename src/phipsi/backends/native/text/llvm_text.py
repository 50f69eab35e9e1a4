"""Writing LLVM's text: the instructions that generated code is made of.

The names are those of llvmlite's own writer, which does more (it checks types, keeps every operand
as an object and renders them at the end) and takes five times as long: 40 % of a cold compilation
were spent there. Mistakes in types are found by LLVM, which parses and verifies the text.

Sums and products of known integers are computed here, because no pass of LLVM's optimiser runs.

Reasons: docs/decisions/0025.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from phipsi.backends.native.text.llvm_values import (
    ADDRESS,
    BIT,
    Block,
    Constant,
    DoubleType,
    Function,
    FunctionType,
    IntType,
    LiteralStructType,
    Module,
    Phi,
    PointerType,
    Switch,
    Table,
    Type,
    Undefined,
    Value,
    VectorType,
    VoidType,
)

__all__ = [
    "Block",
    "Constant",
    "DoubleType",
    "Function",
    "FunctionType",
    "IRBuilder",
    "IntType",
    "LiteralStructType",
    "Module",
    "Phi",
    "PointerType",
    "Switch",
    "Table",
    "Type",
    "Undefined",
    "Value",
    "VectorType",
    "VoidType",
    "number",
]

_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_UNSIGNED = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"}
_FLOATING = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


class IRBuilder:
    """Writes instructions at the end of a block."""

    def __init__(self, block: Block) -> None:
        self.position_at_end(block)

    def position_at_end(self, block: Block) -> None:
        """Go on in another block."""
        self.block, self.function = block, block.function
        self.module = block.function.module
        self._write = block.lines.append

    def _value(self, type_: Type, text: str) -> Value:
        out = Value(type_, self.function.fresh())
        self._write(f"  {out.name} = {text}")
        return out

    def _binary(self, operation: str, x: Value, y: Value) -> Value:
        return self._value(x.type, f"{operation} {x.typed}, {y.name}")

    # -- integers

    def add(self, x: Value, y: Value) -> Value:
        """x + y."""
        a, b = number(x), number(y)
        if a is not None and b is not None:
            return Constant(x.type, a + b)
        return y if a == 0 else x if b == 0 else self._binary("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        """x − y."""
        a, b = number(x), number(y)
        if a is not None and b is not None:
            return Constant(x.type, a - b)
        return x if b == 0 else self._binary("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        """x y."""
        a, b = number(x), number(y)
        if a is not None and b is not None:
            return Constant(x.type, a * b)
        return y if a == 1 else x if b == 1 else self._binary("mul", x, y)

    def sdiv(self, x: Value, y: Value) -> Value:
        """x / y, rounded towards zero."""
        return self._binary("sdiv", x, y)

    def udiv(self, x: Value, y: Value) -> Value:
        """The same without signs."""
        return self._binary("udiv", x, y)

    def srem(self, x: Value, y: Value) -> Value:
        """What x / y leaves."""
        return self._binary("srem", x, y)

    def and_(self, x: Value, y: Value) -> Value:
        """Bits of both."""
        return self._binary("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        """Bits of either."""
        return self._binary("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        """Bits that differ."""
        return self._binary("xor", x, y)

    def shl(self, x: Value, y: Value) -> Value:
        """Bits moved up."""
        return self._binary("shl", x, y)

    def lshr(self, x: Value, y: Value) -> Value:
        """Bits moved down."""
        return self._binary("lshr", x, y)

    def not_(self, x: Value) -> Value:
        """All bits turned."""
        if isinstance(x.type, VectorType):
            return self.xor(x, Constant(x.type, [-1] * x.type.count))
        return self.xor(x, Constant(x.type, -1))

    def icmp_signed(self, relation: str, x: Value, y: Value) -> Value:
        """Compare integers."""
        return self._value(_truth(x.type), f"icmp {_SIGNED[relation]} {x.typed}, {y.name}")

    def icmp_unsigned(self, relation: str, x: Value, y: Value) -> Value:
        """Compare integers or addresses without signs."""
        return self._value(_truth(x.type), f"icmp {_UNSIGNED[relation]} {x.typed}, {y.name}")

    # -- numbers

    def fadd(self, x: Value, y: Value) -> Value:
        """x + y."""
        return self._binary("fadd", x, y)

    def fsub(self, x: Value, y: Value) -> Value:
        """x − y."""
        return self._binary("fsub", x, y)

    def fmul(self, x: Value, y: Value) -> Value:
        """x y."""
        return self._binary("fmul", x, y)

    def fdiv(self, x: Value, y: Value) -> Value:
        """x / y."""
        return self._binary("fdiv", x, y)

    def fneg(self, x: Value) -> Value:
        """−x."""
        return self._value(x.type, f"fneg {x.typed}")

    def fcmp_ordered(self, relation: str, x: Value, y: Value) -> Value:
        """Compare; false where something is NaN."""
        return self._value(_truth(x.type), f"fcmp o{_FLOATING[relation]} {x.typed}, {y.name}")

    def fcmp_unordered(self, relation: str, x: Value, y: Value) -> Value:
        """Compare; true where something is NaN."""
        return self._value(_truth(x.type), f"fcmp u{_FLOATING[relation]} {x.typed}, {y.name}")

    # -- other forms of the same bits, or of the same number

    def _cast(self, operation: str, x: Value, type_: Type) -> Value:
        return self._value(type_, f"{operation} {x.typed} to {type_}")

    def bitcast(self, x: Value, type_: Type) -> Value:
        """The same bits."""
        return self._cast("bitcast", x, type_)

    def inttoptr(self, x: Value, type_: Type) -> Value:
        """An integer as an address."""
        return self._cast("inttoptr", x, type_)

    def ptrtoint(self, x: Value, type_: Type) -> Value:
        """An address as an integer."""
        return self._cast("ptrtoint", x, type_)

    def zext(self, x: Value, type_: Type) -> Value:
        """A wider integer."""
        return self._cast("zext", x, type_)

    def trunc(self, x: Value, type_: Type) -> Value:
        """A narrower integer."""
        return self._cast("trunc", x, type_)

    def sitofp(self, x: Value, type_: Type) -> Value:
        """An integer with a sign as a number."""
        return self._cast("sitofp", x, type_)

    def uitofp(self, x: Value, type_: Type) -> Value:
        """An integer as a number."""
        return self._cast("uitofp", x, type_)

    def fptosi(self, x: Value, type_: Type) -> Value:
        """A number as an integer, rounded towards zero."""
        return self._cast("fptosi", x, type_)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, else y."""
        return self._value(x.type, f"select {condition.typed}, {x.typed}, {y.typed}")

    # -- parts

    def extract_element(self, x: Value, i: Value) -> Value:
        """An element of a vector."""
        return self._value(x.type.element, f"extractelement {x.typed}, {i.typed}")  # type: ignore

    def insert_element(self, x: Value, element: Value, i: Value) -> Value:
        """A vector with another element."""
        return self._value(x.type, f"insertelement {x.typed}, {element.typed}, {i.typed}")

    def shuffle_vector(self, x: Value, y: Value, mask: Value) -> Value:
        """Elements of two vectors in another order."""
        type_ = VectorType(x.type.element, mask.type.count)  # type: ignore[attr-defined]
        return self._value(type_, f"shufflevector {x.typed}, {y.typed}, {mask.typed}")

    def extract_value(self, x: Value, i: int) -> Value:
        """A member of a record."""
        return self._value(x.type.elements[i], f"extractvalue {x.typed}, {i}")  # type: ignore

    def insert_value(self, x: Value, member: Value, i: int) -> Value:
        """A record with another member."""
        return self._value(x.type, f"insertvalue {x.typed}, {member.typed}, {i}")

    # -- memory

    def gep(self, base: Value, indices: Sequence[Value], *, source_etype: Type) -> Value:
        """The address so many elements further."""
        (i,) = indices
        if number(i) == 0:
            return base
        return self._value(ADDRESS, f"getelementptr {source_etype}, {base.typed}, {i.typed}")

    def load_atomic(self, where: Value, *, typ: Type, ordering: str, align: int) -> Value:
        """Read what another thread may be writing."""
        return self._value(typ, f"load atomic {typ}, {where.typed} {ordering}, align {align}")

    def load(self, where: Value, *, typ: Type, align: int | None = None) -> Value:
        """Read."""
        aligned = "" if align is None else f", align {align}"
        return self._value(typ, f"load {typ}, {where.typed}{aligned}")

    def store(self, x: Value, where: Value, align: int | None = None) -> None:
        """Write."""
        aligned = "" if align is None else f", align {align}"
        self._write(f"  store {x.typed}, {where.typed}{aligned}")

    def alloca(self, type_: Type, size: int = 1) -> Value:
        """Memory of the function's own, taken once, when it is called.

        Where control comes by more than once it would take more of the stack every time.
        """
        out = Value(ADDRESS, self.function.fresh())
        entry = self.function.blocks[0]
        entry.lines.insert(0, f"  {out.name} = alloca {type_}, i32 {size}")
        return out

    def atomic_rmw(self, operation: str, where: Value, x: Value, ordering: str) -> Value:
        """Exchange in one step."""
        return self._value(x.type, f"atomicrmw {operation} {where.typed}, {x.typed} {ordering}")

    def cmpxchg(self, where: Value, old: Value, new: Value, done: str, failed: str) -> Value:
        """Write if the old value is there; (what was there, whether it was written)."""
        type_ = LiteralStructType([old.type, BIT])
        return self._value(
            type_, f"cmpxchg {where.typed}, {old.typed}, {new.typed} {done} {failed}"
        )

    # -- control

    def call(self, function: Function, args: Sequence[Value]) -> Value:
        """Call a function."""
        gives = function.signature.gives
        text = f"call {gives} {function.name}({', '.join([x.typed for x in args])})"
        if isinstance(gives, VoidType):
            self._write(f"  {text}")
            return Value(gives, "")
        return self._value(gives, text)

    def call_named(self, name: str, gives: Type, args: Sequence[Value]) -> Value:
        """Call a function by its name; it is declared by its first call."""
        known = self.module.globals.get(name)
        if known is None:
            known = Function(self.module, FunctionType(gives, [x.type for x in args]), name)
        return self.call(known, args)

    def call_address(self, signature: FunctionType, address: Value, args: Sequence[Value]) -> None:
        """Call a function that returns nothing by its address."""
        listed = ", ".join([x.typed for x in args])
        self._write(f"  call {signature.gives} {address.name}({listed})")

    def phi(self, type_: Type) -> Phi:
        """A value that depends on where control came from."""
        out = Phi(type_, self.function.fresh())
        self._write(out)
        return out

    def branch(self, target: Block) -> None:
        """Go on in another block."""
        self._write(f"  br label %{target.label}")

    def cbranch(self, condition: Value, then: Block, other: Block) -> None:
        """Go on in one of two blocks."""
        self._write(f"  br {condition.typed}, label %{then.label}, label %{other.label}")

    def switch(self, value: Value, default: Block) -> Switch:
        """Go on in the block of the case."""
        out = Switch(value, default)
        self._write(out)
        return out

    def ret(self, x: Value) -> None:
        """Return a value."""
        self._write(f"  ret {x.typed}")

    def ret_void(self) -> None:
        """Return."""
        self._write("  ret void")

    @contextmanager
    def if_then(self, condition: Value) -> Iterator[None]:
        """What is written inside runs if the condition holds."""
        inside, after = (self.function.append_basic_block(n) for n in ("if", "endif"))
        self.cbranch(condition, inside, after)
        self.position_at_end(inside)
        yield
        self.branch(after)
        self.position_at_end(after)

    @contextmanager
    def if_else(self, condition: Value) -> Iterator[tuple[Any, Any]]:
        """Two places to write in: one runs if the condition holds, the other if not."""
        then, other, after = (self.function.append_basic_block(n) for n in ("if", "else", "endif"))
        self.cbranch(condition, then, other)
        yield self._inside(then, after), self._inside(other, after)
        self.position_at_end(after)

    @contextmanager
    def _inside(self, block: Block, after: Block) -> Iterator[None]:
        self.position_at_end(block)
        yield
        self.branch(after)


def number(x: Value) -> int | None:
    """The integer, if it is known."""
    return x.number if isinstance(x, Constant) else None


def _truth(type_: Type) -> Type:
    return VectorType(BIT, type_.count) if isinstance(type_, VectorType) else BIT
