"""The buffers of a kernel; of the matrices among them, their zeros and their other half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from phipsi.backends.native import tables
from phipsi.backends.native.data_record import BUFFERS, INTEGERS, N_BODIES
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import I1, I8, I64, POINTER
from phipsi.backends.native.text.tiles import mirror_tiles
from phipsi.backends.native.text.trigonometry import i64
from phipsi.backends.native.zeros import is_gram, of_branches, zeros_stay
from phipsi.expressions.spaces import space_named
from phipsi.sweeps.request import Result

if TYPE_CHECKING:
    from phipsi.backends.native.kernel import Kernel


@final
class Buffers:
    """The buffers of a kernel: those of the inputs come first, then results, then the status."""

    def __init__(self, kernel: Kernel, n_inputs: int) -> None:
        self.k, self.n_inputs = kernel, n_inputs
        self.count = n_inputs + len(kernel.results) + 1

    def base(self, buffer: int) -> Any:
        """The address of a packed buffer."""
        return self.k.addresses[buffer]

    def put(self, entry: Any, base: Any, index: Any) -> None:
        """Write a number of every configuration."""
        k = self.k
        k.lane_store(k.emitter.lift(entry), base, k.b.mul(index, i64(k.bytes)))

    def result_base(self, r: Result) -> Any:
        """The address of a result's buffer."""
        return self.base(self.n_inputs + self.k.results.index(r))

    def from_blocks(self) -> list[Result]:
        """The matrices that are made from blocks: results, and those that are inverted."""
        out = [r for r in self.k.results if r.layout == "blocks" and r.field.op == "matrix"]
        for x in (*self.k.plan.small, *self.k.plan.row_matrices):
            if x.op == "matrix":
                takes, gives = (space_named(size[4:]) for size in (x.type.cols, x.type.rows))
                out.append(Result(x, "small", takes, gives))
        return out

    def matrix_base(self, r: Result) -> Any:
        """The address of a matrix."""
        if r.layout != "small":
            return self.result_base(r)
        inside = self.k.row_matrices.get(r.field) or self.k.small[r.field]
        return inside.matrix

    def entry_index(self, r: Result, row: Any, column: Any) -> tuple[Any, Any]:
        """Where an entry of a matrix stands, and how far the same column of the next row is."""
        k, b = self.k, self.k.b
        width = k.count_of(r.takes)
        return b.add(b.mul(row, width), column), width

    def entries(self, r: Result) -> Any:
        """How many numbers a result has, from the data record."""
        i = BUFFERS + self.count + self.n_inputs + self.k.results.index(r)
        return self.k.word(i)

    def clear(self) -> None:
        """Zero the results that are not filled everywhere."""
        k, b = self.k, self.k.b
        name = "llvm.memset.p0.i64"
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I8, I64, I1])

        def clear(base: Any, entries: Any) -> None:
            fill = b.module.globals.get(name) or ir.Function(b.module, kind, name)
            size = b.mul(entries, i64(k.bytes))
            b.call(fill, [base, ir.Constant(I8, 0), size, ir.Constant(I1, 0)])

        kept = [r for r in k.results if self.kept(r)]
        grams = [r for r in k.results if self._of_groups() and is_gram(r)]
        for r in k.results:
            hinges = r.layout == "diagonal" and r.takes.index == r.gives.index == "joint"
            if r in grams:
                continue
            if r in kept or self.masked(r):
                if any(part.how == "diagonal" for part in r.field.data):  # type: ignore[union-attr]
                    self._clear_diagonal(r)
            elif r.layout == "blocks" or hinges:  # narrow hinge blocks are padded with zeros
                clear(self.result_base(r), self.entries(r))
        if k.group is k.config and (kept or k.grams):
            with b.if_then(k.fresh):
                for r in (*kept, *grams):
                    clear(self.result_base(r), self.entries(r))
                for gram in k.grams.values():
                    gram.clear(clear)
        else:
            for gram in k.grams.values():
                gram.clear(clear)
        for small in k.small.values():
            clear(small.matrix, b.mul(small.size, small.size))
        for rows in k.row_matrices.values():
            clear(rows.matrix, b.add(rows.entries, rows.places))  # and the sizes behind it

    def kept(self, r: Result) -> bool:
        """True for a matrix whose zeros stay in the buffer from group to group."""
        return self._of_groups() and zeros_stay(r)

    def _of_groups(self) -> bool:
        return self.k.group is self.k.config and self.k.config.lanes > 1

    def masked(self, r: Result) -> bool:
        """True for a right factor whose zeros are known, and not written."""
        return self._of_groups() and r.left is not None and of_branches(r)

    def _clear_diagonal(self, r: Result) -> None:
        """Zero the diagonal blocks of a matrix between joints: several parts may be added there."""
        k, b = self.k, self.k.b
        base, n = self.result_base(r), k.count_of(r.takes)

        def body(k0: Any) -> None:
            start, end = (
                k.integer(INTEGERS, tables.N_INTEGERS, k0, what)
                for what in (tables.V_OFFSET, tables.V_END)
            )
            width = b.sub(end, start)

            def row(i: Any) -> None:
                first = b.add(b.mul(b.add(start, i), n), start)
                k.loop(width, False, lambda j: self.put(0.0, base, b.add(first, j)))

            k.loop(width, False, row)

        k.loop(k.word(N_BODIES), False, body)

    def mirrored(self, r: Result) -> bool:
        """True for a symmetric matrix between joints, of which the upper half is computed.

        Paths lead from a column to rows above it, so they fill the upper half only.
        """
        if r.field.op != "matrix" or not r.takes.index == r.gives.index == "joint":
            return False
        if self.kept(r) or self.masked(r):  # both halves are written at once
            return False
        data: Any = r.field.data
        parts = list(zip(data, r.field.args, strict=True))
        paths = {y: p.coefficient for p, y in parts if p.how == "path"}
        back = {y: p.coefficient for p, y in parts if p.how == "path of adjoint"}
        kinds = ("symmetric", "inertia")
        diagonal = all(y.type.kind.value in kinds for p, y in parts if p.how == "diagonal")
        once = len(paths) + len(back) == sum(p.how.startswith("path") for p, _ in parts)
        return once and paths == back and diagonal

    def of_rows(self, r: Result) -> bool:
        """True for a matrix between constraint rows that pairs of paths made in two halves."""
        if r.layout != "blocks" or r.field.op != "matrix" or r.takes.index != "row":
            return False
        data: Any = r.field.data
        return any(part.how == "pairs" for part in data)

    def mirror(self, r: Result) -> None:
        """Fill the lower half of a symmetric matrix; between rows, add the two halves."""
        k, b = self.k, self.k.b
        n, base, halves = k.count_of(r.takes), self.result_base(r), self.of_rows(r)
        if k.group is not k.config and not halves:
            mirror_tiles(k, base, n)
            return

        def row(i: Any) -> None:
            def entry(j: Any) -> None:
                up, low = (b.mul(b.add(b.mul(x, n), y), i64(k.bytes)) for x, y in ((j, i), (i, j)))
                value = k.lane_load(base, up)
                if halves:
                    value = value + k.lane_load(base, low)
                    k.lane_store(value, base, up)
                k.lane_store(value, base, low)

            k.loop(i, False, entry)

        k.loop(n, False, row)
