"""Instructions on words that several threads write."""

from __future__ import annotations

from phipsi.native.text.llvm_text import IRBuilder
from phipsi.native.text.llvm_values import BIT, IRType, IRValue, LiteralStructType


def load_atomic(b: IRBuilder, where: IRValue, *, typ: IRType, ordering: str, align: int) -> IRValue:
    """Read what another thread may be writing."""
    return b.emit(typ, f"load atomic {typ}, {where.typed} {ordering}, align {align}")


def exchange(b: IRBuilder, operation: str, where: IRValue, x: IRValue, ordering: str) -> IRValue:
    """Exchange in one step."""
    return b.emit(x.type, f"atomicrmw {operation} {where.typed}, {x.typed} {ordering}")


def exchange_if(
    b: IRBuilder, where: IRValue, old: IRValue, new: IRValue, done: str, failed: str
) -> IRValue:
    """Write if the old value is there; whether it was."""
    type_ = LiteralStructType([old.type, BIT])
    text = f"cmpxchg {where.typed}, {old.typed}, {new.typed} {done} {failed}"
    return b.extract_value(b.emit(type_, text), 1)
