"""Numbers of a group of configurations into lanes, and back: squares of them turned in registers.

A vector of one configuration stands in memory one number after the other; a kernel wants the same
number of all configurations side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phipsi.backends.native import llvm_text as ir
from phipsi.backends.native.lanes import I8, I64, POINTER, Emitter, write_loop
from phipsi.backends.native.masks import masked_load, masked_store
from phipsi.backends.native.mirror import turned
from phipsi.backends.native.trigonometry import i64


def at_most(b: Any, x: Any, limit: Any) -> Any:
    """The smaller of two integers."""
    return b.select(b.icmp_signed("<", x, limit), x, limit)


def define_pack(module: ir.Module, lanes: int) -> ir.Function:
    """Add ``void pack(vectors, stride, last, count, lanes)``.

    `last` is the number of the last vector, which the lanes behind it get too. Up to a whole square
    may be written.
    """

    def square(s: _Squares, i: Any, mask: Any) -> None:
        for j, column in enumerate(turned(s.b, [s.read(s.row(r, i), mask) for r in range(lanes)])):
            s.b.store(column, s.of_lanes(i, j), align=8)

    return _define(module, f"phipsi_pack_{lanes}", lanes, square)


def define_unpack(module: ir.Module, lanes: int) -> ir.Function:
    """Add ``void unpack(vectors, stride, last, count, lanes)``, the way back."""

    def square(s: _Squares, i: Any, mask: Any) -> None:
        columns = [s.b.load(s.of_lanes(i, j), align=8, typ=s.e.vector) for j in range(lanes)]
        for r, row in enumerate(turned(s.b, columns)):
            s.write(row, s.row(r, i), mask)

    return _define(module, f"phipsi_unpack_{lanes}", lanes, square)


class _Squares:
    """Where the numbers of a square are."""

    def __init__(self, builder: Any, e: Emitter, arguments: Any) -> None:
        self.b, self.e = builder, e
        self.vectors, stride, last, self.count, self.lanes = arguments
        numbers = [at_most(builder, i64(lane), last) for lane in range(e.lanes)]
        self.starts = [builder.mul(stride, number) for number in numbers]

    def row(self, lane: int, i: Any) -> Any:
        """Number i of a configuration's vector."""
        offset = self.b.add(self.starts[lane], self.b.mul(i, i64(8)))
        return self.b.gep(self.vectors, [offset], source_etype=I8)

    def of_lanes(self, i: Any, j: int) -> Any:
        """Number i + j of all configurations."""
        offset = self.b.mul(self.b.add(i, i64(j)), i64(8 * self.e.lanes))
        return self.b.gep(self.lanes, [offset], source_etype=I8)

    def read(self, where: Any, mask: Any) -> Any:
        """Numbers that follow each other."""
        if mask is None:
            return self.b.load(where, align=8, typ=self.e.vector)
        return masked_load(self.b, self.e, where, mask)

    def write(self, value: Any, where: Any, mask: Any) -> None:
        """Numbers that follow each other."""
        if mask is None:
            self.b.store(value, where, align=8)
        else:
            masked_store(self.b, self.e, value, where, mask)


def _define(
    module: ir.Module, name: str, lanes: int, square: Callable[[_Squares, Any, Any], None]
) -> ir.Function:
    """A function that goes through the squares, with a mask for the last if it is not whole."""
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I64, I64, I64, POINTER])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block("entry"))
    e = Emitter(lanes, fused=False)
    e.builder = b
    s = _Squares(b, e, function.args)
    whole = b.mul(b.sdiv(s.count, i64(lanes)), i64(lanes))
    write_loop(b, whole, lambda i: square(s, i, None), lanes)
    left = b.sub(s.count, whole)
    with b.if_then(b.icmp_signed(">", left, i64(0))):
        numbers = ir.Constant(e.integers, list(range(lanes)))
        square(s, whole, b.icmp_signed("<", numbers, e.splat_integer(left)))
    b.ret_void()
    return function
