"""Loads and stores of some lanes of a vector."""

from __future__ import annotations

from typing import Any

from phipsi.backends.native import llvm_text as ir
from phipsi.backends.native.lanes import I32, POINTER


def masked_load(b: Any, e: Any, where: Any, mask: Any) -> Any:
    """A vector of which only the lanes in the mask are read; the others are zero."""
    name = f"llvm.masked.load.v{e.lanes}f64.p0"
    kind = ir.FunctionType(e.vector, [POINTER, I32, e.mask, e.vector])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    zero = ir.Constant(e.vector, [0.0] * e.lanes)
    return b.call(function, [where, ir.Constant(I32, 8), mask, zero])


def masked_store(b: Any, e: Any, value: Any, where: Any, mask: Any) -> None:
    """Write the lanes in the mask."""
    name = f"llvm.masked.store.v{e.lanes}f64.p0"
    kind = ir.FunctionType(ir.VoidType(), [e.vector, POINTER, I32, e.mask])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    b.call(function, [value, where, ir.Constant(I32, 8), mask])
