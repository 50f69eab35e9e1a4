"""Instructions on words that several threads write."""

from __future__ import annotations

from typing import Any

from phipsi.backends.native.text import llvm_text as ir


def load_atomic(b: Any, where: ir.Value, *, typ: ir.Type, ordering: str, align: int) -> ir.Value:
    """Read what another thread may be writing."""
    return b._value(typ, f"load atomic {typ}, {where.typed} {ordering}, align {align}")


def exchange(b: Any, operation: str, where: ir.Value, x: ir.Value, ordering: str) -> ir.Value:
    """Exchange in one step."""
    return b._value(x.type, f"atomicrmw {operation} {where.typed}, {x.typed} {ordering}")


def exchange_if(
    b: Any, where: ir.Value, old: ir.Value, new: ir.Value, done: str, failed: str
) -> ir.Value:
    """Write if the old value is there; whether it was."""
    type_ = ir.LiteralStructType([old.type, ir.BIT])
    text = f"cmpxchg {where.typed}, {old.typed}, {new.typed} {done} {failed}"
    return b.extract_value(b._value(type_, text), 1)
