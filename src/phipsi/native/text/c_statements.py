"""Statements of C99 behind the builder methods of `llvm_text`: operands, types, instructions.

Integers are unsigned, because they wrap, as LLVM's do. Vectors of one element are their
element.
"""
# ruff: noqa: D102  (the methods are those of llvm_text.IRBuilder)

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

from phipsi.native.text import llvm_text as ir

_TYPES = {
    "double": "double", "float": "float", "ptr": "char *", "void": "void", "i1": "_Bool",
    "i8": "uint8_t", "i16": "uint16_t", "i32": "uint32_t", "i64": "uint64_t", "i128": "struct wide",
}  # fmt: skip
_SIGNED = {"i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t"}
_UNORDERED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}  # the negation of these
_FUNCTIONS = {  # LLVM's functions of numbers
    "fabs": "fabs", "sqrt": "sqrt", "fma": "fma", "maxnum": "larger", "copysign": "with_sign",
    "floor": "whole_below",
}  # fmt: skip
STANDARD = {"fabs", "sqrt", "fma"}


class CAssignment:
    """A statement that gives a name a value and does nothing else."""

    __slots__ = ("name", "text", "type")

    def __init__(self, type_: str, name: str, text: str) -> None:
        self.type, self.name, self.text = type_, name, text


class CStatement:
    """A statement that does something; a name for its value, if it has one."""

    __slots__ = ("name", "text", "type")

    def __init__(self, text: str, type_: str = "", name: str = "") -> None:
        self.text, self.type, self.name = text, type_, name


class CBranch:
    """To the first block if the condition holds, else to the second."""

    __slots__ = ("condition", "other", "then")

    def __init__(
        self, then: ir.BasicBlock, condition: str = "", other: ir.BasicBlock | None = None
    ) -> None:
        self.then, self.condition, self.other = then, condition, other


class CSwitch(ir.Switch):
    """To the block of the case."""

    def parts(self) -> tuple[str, list[tuple[str, ir.BasicBlock]], ir.BasicBlock]:
        """The value, the cases, and where to go otherwise."""
        cases = [(operand(value), block) for value, block in self._cases]
        return operand(self._value), cases, self._default


class Members(ir.IRValue):
    """A record by its members."""

    __slots__ = ("members",)

    def __init__(self, type_: ir.IRType, members: Sequence[ir.IRValue | None]) -> None:
        super().__init__(type_, "")
        self.members = tuple(members)


def plain(type_: ir.IRType) -> ir.IRType:
    """The element of a vector of one; other types as they are."""
    if not isinstance(type_, ir.VectorType):
        return type_
    if type_.count != 1:
        raise ValueError(f"C has one lane, not {type_.count}: write for a target with lanes=1")
    return type_.element


def c_type(type_: ir.IRType) -> str:
    """The C type of a type."""
    type_ = plain(type_)
    return (
        f"struct {record_name(type_)}"
        if isinstance(type_, ir.LiteralStructType)
        else _TYPES[type_.text]
    )


def record_name(type_: ir.LiteralStructType) -> str:
    """The name of a record's type."""
    return "_".join(["members", *(plain(x).text for x in type_.elements)])


def operand(x: ir.IRValue) -> str:
    """A value inside an expression."""
    if isinstance(x, ir.IRConstant):
        return constant(plain(x.type), x.name)
    if isinstance(x, Members):
        listed = ", ".join("0" if m is None else operand(m) for m in x.members)
        return f"({c_type(x.type)}){{{listed}}}"
    if isinstance(x, (ir.ConstantTable, ir.StaticMemory)):
        return f"(char *){name_of(x)}"
    return x.name[1:] if x.name[0] in "%@" else x.name


def name_of(x: ir.IRValue) -> str:
    """The name of what a module contains."""
    return x.name[1:].replace(".", "_")


def constant(type_: ir.IRType, text: str) -> str:
    """A known value, from its text in LLVM's spelling."""
    if text.startswith("<"):
        text = text[1:-1].split()[-1]
    if text in ("undef", "null"):
        return "0"
    kind = type_.text
    if kind in ("double", "float"):
        # LLVM writes floats, too, with the bits of a double
        number = struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
        return number_text(number, "f" if kind == "float" else "")
    value = int(text)
    if kind == "i1":
        return str(value & 1)
    if kind == "i128":
        return f"(struct wide){{{integer_text(value % 2**64)}, {integer_text(value >> 64)}}}"
    width = int(kind[1:])
    return integer_text(value % 2**width)


def number_text(x: float, end: str = "") -> str:
    """A number as C reads it, exactly; `end` is "f" for single precision."""
    if x != x:
        return "NAN"
    if x in (float("inf"), float("-inf")):
        return "INFINITY" if x > 0 else "-INFINITY"
    mantissa, _, power = x.hex().partition("p")
    mantissa = re.sub(r"\.?0+$", "", mantissa) if "." in mantissa else mantissa
    return f"{mantissa}p{power}{end}"


def integer_text(value: int) -> str:
    """An unsigned integer literal of C."""
    return str(value) if value < 2**31 else f"UINT64_C({value:#x})"


def _signed(x: ir.IRValue) -> str:
    """A value as a number with a sign."""
    kind = plain(x.type).text
    if isinstance(x, ir.IRConstant):
        value = int(x.name.strip("<>").split()[-1]) if kind != "ptr" else 0
        if abs(value) < 2**31:
            return str(value)
    return operand(x) if kind in ("ptr", "i1") else f"({_SIGNED[kind]}){operand(x)}"


def _plain_binary(name: str, sign: str) -> Any:
    def write(b: CStatementBuilder, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        if plain(x.type).text == "i128":
            return b.emit(x.type, f"wide_{name}({operand(x)}, {operand(y)})")
        return b.emit(x.type, f"{operand(x)} {sign} {operand(y)}")

    return write


def _shift(name: str, sign: str) -> Any:
    def write(b: CStatementBuilder, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        kind = plain(x.type).text
        if kind == "i128":
            return b.emit(x.type, f"wide_{name}({operand(x)}, {operand(y)})")
        left = f"({_TYPES[kind]}){operand(x)}" if isinstance(x, ir.IRConstant) else operand(x)
        return b.emit(x.type, f"{left} {sign} {operand(y)}")

    return write


def _division(sign: str) -> Any:
    def write(b: CStatementBuilder, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        whole = f"{_signed(x)} {sign} {_signed(y)}"
        return b.emit(x.type, f"({c_type(x.type)})({whole})")

    return write


class CStatementBuilder(ir.IRBuilder):
    """Writes statements at the end of a block."""

    module: Any
    write_line: Any

    def position_at_end(self, block: ir.BasicBlock) -> None:
        super().position_at_end(block)
        self.module.order.setdefault(block.function.name, {})[block] = None

    def emit(self, type_: ir.IRType, text: str) -> ir.IRValue:
        name = self.function.fresh()[1:]
        self.write_line(CAssignment(c_type(type_), name, text))
        return ir.IRValue(type_, name)

    # -- integers and numbers

    _add, _sub, _mul = (_plain_binary(n, s) for n, s in (("add", "+"), ("sub", "-"), ("mul", "*")))
    and_, or_, xor = (_plain_binary(n, s) for n, s in (("and", "&"), ("or", "|"), ("xor", "^")))
    shl, lshr = _shift("shl", "<<"), _shift("lshr", ">>")
    udiv, urem = _plain_binary("udiv", "/"), _plain_binary("urem", "%")
    sdiv, srem = _division("/"), _division("%")
    fadd, fsub, fmul, fdiv = (_plain_binary(f"f{s}", s) for s in "+-*/")

    def icmp_signed(self, relation: str, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        both = operand if relation in ("==", "!=") else _signed
        return self.emit(ir.BIT, f"{both(x)} {relation} {both(y)}")

    def icmp_unsigned(self, relation: str, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        return self.emit(ir.BIT, f"{operand(x)} {relation} {operand(y)}")

    def fneg(self, x: ir.IRValue) -> ir.IRValue:
        text = operand(x)
        return self.emit(x.type, f"-({text})" if text.startswith("-") else f"-{text}")

    def fcmp_ordered(self, relation: str, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        a, b = operand(x), operand(y)
        text = f"{a} < {b} || {a} > {b}" if relation == "!=" else f"{a} {relation} {b}"
        return self.emit(ir.BIT, text)

    def fcmp_unordered(self, relation: str, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        a, b = operand(x), operand(y)
        if relation == "!=":
            return self.emit(ir.BIT, f"{a} != {b}")
        text = f"{a} < {b} || {a} > {b}" if relation == "==" else f"{a} {_UNORDERED[relation]} {b}"
        return self.emit(ir.BIT, f"!({text})")

    # -- the bits, or the number, as another type

    def bitcast(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        old, new = plain(x.type).text, plain(type_).text
        if old == new:
            return _renamed(x, type_)
        kinds = {("double", "i64"): "bits_of", ("i64", "double"): "number_of"}
        kinds |= {("float", "i32"): "bits_of_f", ("i32", "float"): "number_of_f"}
        return self.emit(type_, f"{kinds[old, new]}({operand(x)})")

    def inttoptr(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        return self.emit(type_, f"(char *)(uintptr_t){operand(x)}")

    def ptrtoint(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        return self.emit(type_, f"(uintptr_t)({operand(x)})")

    def zext(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        if plain(type_).text == "i128":
            return self.emit(type_, f"(struct wide){{{operand(x)}, 0}}")
        return self.emit(type_, operand(x))

    def sext(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        return self.emit(type_, f"({c_type(type_)})({_SIGNED[plain(type_).text]}){_signed(x)}")

    def trunc(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        old, new = plain(x.type).text, plain(type_).text
        low = f"{operand(x)}.low" if old == "i128" else operand(x)
        return self.emit(type_, f"{low} & 1" if new == "i1" else f"({_TYPES[new]}){low}")

    def sitofp(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        return self.emit(type_, f"({c_type(type_)}){_signed(x)}")

    def uitofp(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        return self.emit(type_, f"({c_type(type_)}){operand(x)}")

    def fptosi(self, x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
        signed = _SIGNED[plain(type_).text]
        return self.emit(type_, f"({c_type(type_)})({signed}){operand(x)}")

    def select(self, condition: ir.IRValue, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
        return self.emit(x.type, f"{operand(condition)} ? {operand(x)} : {operand(y)}")

    # -- parts

    def extract_element(self, x: ir.IRValue, i: ir.IRValue) -> ir.IRValue:
        return _renamed(x, plain(x.type))

    def insert_element(self, x: ir.IRValue, element: ir.IRValue, i: ir.IRValue) -> ir.IRValue:
        return _renamed(element, x.type)

    def shuffle_vector(self, x: ir.IRValue, y: ir.IRValue, mask: ir.IRValue) -> ir.IRValue:
        return x if int(mask.name.strip("<>").split()[-1]) == 0 else y

    def extract_value(self, x: ir.IRValue, i: int) -> ir.IRValue:
        if isinstance(x, Members):
            found = x.members[i]
            assert found is not None, "this member was never set"
            return found
        return self.emit(x.type.elements[i], f"{operand(x)}.m{i}")  # type: ignore[attr-defined]

    def insert_value(self, x: ir.IRValue, member: ir.IRValue, i: int) -> ir.IRValue:
        count = len(x.type.elements)  # type: ignore[attr-defined]
        old: list[ir.IRValue | None] = [None] * count
        if isinstance(x, Members):
            old = list(x.members)
        elif not isinstance(x, ir.IRConstant):
            old = [self.extract_value(x, j) for j in range(count)]
        old[i] = member
        return Members(x.type, old)

    # -- memory

    def at(self, base: ir.IRValue, offset: ir.IRValue | int) -> ir.IRValue:
        known = offset if isinstance(offset, int) else offset.number
        if known is None:
            assert isinstance(offset, ir.IRValue)
            return self.emit(ir.POINTER, f"{operand(base)} + {_signed(offset)}")
        if known == 0:
            return base
        sign = "+" if known > 0 else "-"
        return ir.IRValue(ir.POINTER, f"({operand(base)} {sign} {abs(known)})")

    def load(self, where: ir.IRValue, *, typ: ir.IRType, align: int | None = None) -> ir.IRValue:
        return self.emit(typ, f"*({_pointer(typ)}){operand(where)}")

    def store(self, x: ir.IRValue, where: ir.IRValue, align: int | None = None) -> None:
        self.write_line(CStatement(f"*({_pointer(x.type)}){operand(where)} = {operand(x)};"))

    def alloca(self, type_: ir.IRType, size: int = 1) -> ir.IRValue:
        name = self.function.fresh()[1:]
        kind = "union word" if size > 1 else c_type(type_)  # words of any kind
        self.module.rooms.setdefault(self.function.name, []).append((name, kind, size))
        return ir.IRValue(ir.POINTER, f"(char *){name}")

    # -- control

    def call(self, function: ir.IRFunction, args: Sequence[ir.IRValue]) -> ir.IRValue:
        gives = function.signature.gives
        if function.name == "@llvm.ctlz.i64":
            return self.emit(gives, f"leading_zeros({operand(args[0])})")
        # parameters of functions for others have types of their own
        cast = "" if function.linkage == "internal" else "(void *)"
        listed = [f"{cast if x.type is ir.POINTER else ''}{operand(x)}" for x in args]
        text = f"{function.name[1:]}({', '.join(listed)})"
        if gives is ir.VOID:
            self.write_line(CStatement(f"{text};"))
            return ir.IRValue(gives, "")
        name = self.function.fresh()[1:]
        self.write_line(CStatement(f"{text};", c_type(gives), name))
        return ir.IRValue(gives, name)

    def _call_text(self, name: str, args: Sequence[ir.IRValue]) -> str:
        return f"{name}({', '.join(map(operand, args))})"

    def call_named(self, name: str, gives: ir.IRType, args: Sequence[ir.IRValue]) -> ir.IRValue:
        parts = name.split(".")
        if parts[0] != "llvm":
            raise ValueError(f"C code does not call {name}")
        if parts[1] == "memset":
            self.write_line(CStatement(f"clear({operand(args[0])}, {operand(args[2])});"))
            return ir.IRValue(gives, "")
        if parts[1] == "masked":
            return self._masked(parts[2], gives, args)
        end = "f" if plain(gives).text == "float" else ""
        found = _FUNCTIONS[parts[1]]
        found += end if found in STANDARD or not end else f"_{end}"
        return self.emit(gives, self._call_text(found, args))

    def _masked(self, which: str, gives: ir.IRType, args: Sequence[ir.IRValue]) -> ir.IRValue:
        if which == "load":
            where, _, mask, other = args
            text = f"*({_pointer(gives)}){operand(where)}"
            return self.emit(gives, f"{operand(mask)} ? {text} : {operand(other)}")
        x, where, _, mask = args
        text = f"*({_pointer(x.type)}){operand(where)} = {operand(x)};"
        self.write_line(CStatement(f"if ({operand(mask)}) {text}"))
        return ir.IRValue(gives, "")

    def phi(self, type_: ir.IRType) -> ir.Phi:
        out = ir.Phi(type_, self.function.fresh())
        self.write_line(out)
        return out

    def branch(self, target: ir.BasicBlock) -> None:
        self.write_line(CBranch(target))

    def cbranch(self, condition: ir.IRValue, then: ir.BasicBlock, other: ir.BasicBlock) -> None:
        self.write_line(CBranch(then, operand(condition), other))

    def switch(self, value: ir.IRValue, default: ir.BasicBlock) -> ir.Switch:
        out = CSwitch(value, default)
        self.write_line(out)
        return out

    def ret(self, x: ir.IRValue) -> None:
        self.write_line(CStatement(f"return {operand(x)};"))

    def ret_void(self) -> None:
        self.write_line(CStatement("return;"))


def _pointer(type_: ir.IRType) -> str:
    kind = c_type(type_)
    return f"{kind}*" if kind.endswith("*") else f"{kind} *"


def _renamed(x: ir.IRValue, type_: ir.IRType) -> ir.IRValue:
    """The same value as one of another type that C does not distinguish."""
    if isinstance(x, ir.IRConstant):
        out = ir.IRConstant.__new__(ir.IRConstant)
        ir.IRValue.__init__(out, type_, x.name)
        out.number = x.number
        return out
    return ir.IRValue(type_, x.name)
