"""Which calls of kernels in a run are the first: these clear the zeros that stay in results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, i64

_MOST = 62
"""Places in the code that have a bit each; calls at further ones clear always."""


@final
class FirstCalls:
    """A word of the running function with a bit for each place in its code that calls a kernel."""

    def __init__(self, b: Any) -> None:
        self._b, self._word, self._count = b, b.alloca(I64), 0
        b.store(i64(0), self._word)

    def place(self) -> Callable[[], Any]:
        """A new place; code that says, once before each call there, whether it is the first."""
        b, bit = self._b, 1 << self._count
        if self._count == _MOST:
            return always
        self._count += 1

        def is_first() -> Any:
            before = b.load(self._word, typ=I64)
            b.store(b.or_(before, i64(bit)), self._word)
            return b.icmp_signed("==", b.and_(before, i64(bit)), i64(0))

        return is_first


def always() -> Any:
    """As if every call were the first."""
    return ir.Constant(ir.IntType(1), 1)
