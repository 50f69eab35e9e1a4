"""Traced values as a kind of number: formulas of groups and of rows become graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.core.arrays.law_operations import apply
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.core.spatial import ScalarOps

_COSINE_OF_ROOT = tuple((-1) ** k / math.factorial(2 * k) for k in range(10))  # cos √s


@final
class TracedOps(ScalarOps):
    """Traced values."""

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> Tracer:
        """An operation by its name in the table."""
        arrays = None if data is None else tuple(np.asarray(x) for x in data)
        return Tracer(apply(name, *map(as_node, args), data=arrays))

    def cos(self, x: Any) -> Any:
        """The cosine of a root has a derivative at zero, but the root has not."""
        if x.node.operation.name != "sqrt":
            return self.entrywise("cos", (x,))
        (s,) = x.node.args
        return self.pick(Tracer(s), _COSINE_OF_ROOT, _cosine_of_root)


def _cosine_of_root(s: Any, ops: ScalarOps) -> Any:
    return ops.entrywise("cos", (ops.sqrt(s),))


TRACED = TracedOps()
