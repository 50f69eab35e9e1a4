"""Tiles of numbers, transposed in registers."""

from __future__ import annotations

from typing import Any

from phipsi.backends.native.kernel.emission import Emission
from phipsi.backends.native.text.lane_arithmetic import I32, i64, write_loop
from phipsi.backends.native.text.llvm_values import Constant, VectorType


def transpose(b: Any, rows: list[Any]) -> list[Any]:
    """The transpose of a tile of vectors, by exchanging halves, then quarters and so on."""
    n = len(rows)
    width = n // 2
    while width:
        out = list(rows)
        for i in range(n):
            if i & width:
                continue
            upper = [j if not j & width else n + (j ^ width) for j in range(n)]
            lower = [j | width if not j & width else n + j for j in range(n)]
            for target, indices in ((i, upper), (i | width, lower)):
                mask = Constant(VectorType(I32, n), indices)
                out[target] = b.shuffle_vector(rows[i], rows[i | width], mask)
        rows = out
        width //= 2
    return rows


def mirror_tiles(k: Emission, base: Any, n: Any) -> None:
    """Fill the lower half of an n × n matrix of one configuration from its upper half."""
    b, g = k.b, k.group

    def where(row: Any, column: Any) -> Any:
        return k.at(base, b.mul(b.add(b.mul(row, n), column), i64(k.unit)))

    def tile(i: Any, j: Any) -> None:
        """Rows from i and columns from j on, to rows from j and columns from i on."""
        inside = g.splat_integer(b.sub(n, j))
        rows: list[Any] = []
        for r in range(g.lanes):
            row = b.add(i, i64(r))
            limit = b.select(b.icmp_signed("<", row, n), inside, g.splat_integer(i64(0)))
            mask = b.icmp_signed("<", g.numbers, limit)
            rows.append(g.masked_load(where(row, j), mask))
        for c, column in enumerate(transpose(b, rows)):
            row = b.add(j, i64(c))
            below = b.select(b.icmp_signed("<", row, n), b.sub(row, i), i64(0))
            mask = g.first(below)
            g.masked_store(column, where(row, i), mask)

    def strip(i: Any) -> None:
        write_loop(b, b.sub(n, i), lambda j: tile(i, b.add(i, j)), g.lanes)

    write_loop(b, n, strip, g.lanes)
