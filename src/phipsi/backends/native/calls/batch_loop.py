"""The inner loop of a gufunc: packs groups of configurations into lanes and runs the kernels.

Groups run in the wide kernel, the last one with its last configuration in all lanes that are left
over. If there are too few for that (the data record says how many), they run in the one-lane kernel
one by one. Both are made from the same equations in the same order, so a configuration gets the
same bits whatever batch it is in.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection
from typing import Any

from phipsi.backends.failures import NO_MEMORY, NOT_FINITE
from phipsi.backends.native.calls.scratch import acquire, release
from phipsi.backends.native.data_record import BUFFERS, FEWEST
from phipsi.backends.native.matrices.tiles import transpose
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import (
    DOUBLE,
    I8,
    I32,
    I64,
    POINTER,
    Emitter,
    i64,
    write_loop,
)  # fmt: skip

_AHEAD = 2  # tiles between a number that is written and one whose line is asked for
# FE_ALL_EXCEPT of the C library
ALL_EXCEPTIONS = 0x3D if platform.machine().lower() in ("x86_64", "amd64") else 0x1F


def core_pattern(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Which of the distinct sizes each core dimension has, in the order NumPy passes them."""
    seen: dict[int, int] = {}
    return [tuple(seen.setdefault(size, len(seen)) for size in shape) for shape in shapes]


def define_loop(
    module: ir.Module,
    kernels: dict[int, ir.Function],
    pattern: list[tuple[int, ...]],
    n_inputs: int,
    offsets: int,
    matrices: Collection[int] = (),
) -> ir.Function:
    """Add ``void phipsi_loop(args, dimensions, steps, data)``.

    `kernels` maps numbers of lanes to kernels; `pattern` are the core dimensions of inputs and
    outputs, the last output being the integer status. The data record holds, after the kernels'
    words, the scratch size in bytes and the slots for scratch. The outputs in `matrices` are looked
    through for numbers that are not finite while they are written; the wide kernel has not done it.
    """
    kind = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
    function = ir.Function(module, kind, "phipsi_loop")
    args, dimensions, steps, data = function.args
    w = _Writer(module, function)
    b = w.b
    count = w.word(dimensions, 0)
    without = function.append_basic_block("without")
    block, scratch = acquire(b, data, offsets, without)
    places: list[int] = []  # where the strides of the core dimensions begin
    place = len(pattern)
    for shape in pattern:
        places.append(place)
        place += len(shape)
    sizes = [[w.word(dimensions, 1 + d) for d in shape] for shape in pattern]
    first_buffer = BUFFERS
    filled = BUFFERS + 2 * len(pattern)  # addresses of tables: which chunks have something
    addresses = b.alloca(POINTER, size=len(pattern))
    w.found = b.alloca(ir.VectorType(DOUBLE, max(kernels)))

    def buffers_of(lanes: int) -> list[Any]:
        out: list[Any] = []
        for i in range(len(pattern)):
            offset = b.mul(w.word(data, first_buffer + i), i64(8 * lanes))
            out.append(b.gep(scratch, [offset], source_etype=I8))
            b.store(out[-1], b.gep(addresses, [i64(8 * i)], source_etype=I8))
        return out

    def group(first: Any, start: Any, lanes: int, buffers: list[Any]) -> None:
        unit = i64(8 * lanes)
        vector = ir.VectorType(DOUBLE, lanes)
        last = b.sub(b.sub(count, start), i64(1))
        rows = [b.add(start, at_most(b, i64(lane), last)) for lane in range(lanes)]
        if matrices and lanes > 1:
            w.start_looking(lanes)
        for i in range(len(pattern)):
            if i == n_inputs:
                fresh = b.icmp_signed("==", start, first)
                b.call(kernels[lanes], [data, scratch, addresses, fresh])
            bases, base = w.bases(args, steps, i, rows), buffers[i]

            def move(
                index: Any, offset: Any, i: int = i, bases: Any = bases, at: Any = base
            ) -> None:
                place = b.gep(at, [b.mul(index, unit)], source_etype=I8)
                if i < n_inputs:
                    out: Any = ir.Constant(vector, ir.Undefined)
                    for lane, one in enumerate(bases):
                        x = b.load(b.gep(one, [offset], source_etype=I8), align=8, typ=DOUBLE)
                        out = b.insert_element(out, x, ir.Constant(I32, lane))
                    b.store(out, place, align=8)
                    return
                x = b.load(place, align=8, typ=vector)
                if i in matrices and lanes > 1:
                    w.look_at([x], lanes)
                for lane, one in enumerate(bases):
                    entry = b.extract_element(x, ir.Constant(I32, lane))
                    b.store(entry, b.gep(one, [offset], source_etype=I8), align=8)

            if lanes > 1 and matrices and i == len(pattern) - 1:
                w.note_failures(base, lanes)
            if lanes == 1 or not sizes[i]:
                w.over(sizes[i], steps, places[i], move)
            elif i not in matrices:
                define = define_pack if i < n_inputs else define_unpack
                turn = define(module, lanes)
                stride = w.word(steps, i)
                w.if_contiguous(
                    sizes[i],
                    steps,
                    places[i],
                    lambda total, turn=turn, one=bases[0], stride=stride, at=base: b.call(
                        turn, [one, stride, last, total, at]
                    ),
                    lambda i=i, move=move: w.over(sizes[i], steps, places[i], move),
                )
            else:  # matrices: many numbers, mostly one after the other
                w.if_contiguous(
                    sizes[i],
                    steps,
                    places[i],
                    lambda total, bases=bases, at=base, i=i: w.write_turned(
                        total, bases, at, w.word(data, filled + i), lanes
                    ),
                    lambda i=i, move=move: w.over(sizes[i], steps, places[i], move),
                )

    done: Any = i64(0)
    for lanes in sorted(kernels, reverse=True):
        left = b.sub(count, done)
        fewest = i64(1) if lanes == 1 else w.word(data, FEWEST)
        full = b.sdiv(b.add(left, b.sub(i64(lanes), fewest)), i64(lanes))
        whole = b.mul(full, i64(lanes))
        start = done
        buffers = buffers_of(lanes)

        def one(i: Any, start: Any = start, lanes: int = lanes, at: Any = buffers) -> None:
            group(start, b.add(start, i), lanes, at)

        write_loop(b, whole, one, lanes)
        done = at_most(b, b.add(done, whole), count)
    release(b, data, offsets, block)
    w.clear_flags()
    b.ret_void()
    b.position_at_end(without)
    last = len(pattern) - 1
    write_loop(b, count, lambda i: b.store(i64(NO_MEMORY), w.bases(args, steps, last, [i])[0]))
    b.ret_void()
    return function


class _Writer:
    """Writes loops and memory accesses of the gufunc's inner loop."""

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        self.module, self.function = module, function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.found: Any = None  # where sums of x − x are kept

    def word(self, base: Any, index: int) -> Any:
        """A 64-bit word."""
        return self.b.load(self.b.gep(base, [i64(8 * index)], source_etype=I8), typ=I64)

    def bases(self, args: Any, steps: Any, i: int, rows: list[Any]) -> list[Any]:
        """The address of argument i for every lane."""
        b = self.b
        base = b.inttoptr(self.word(args, i), POINTER)
        stride = self.word(steps, i)
        return [b.gep(base, [b.mul(row, stride)], source_etype=I8) for row in rows]

    def over(self, sizes: list[Any], steps: Any, place: int, body: Any) -> None:
        """Every element of a core array: body(position in the buffer, offset in bytes)."""
        strides = [self.word(steps, place + d) for d in range(len(sizes))]

        def nest(d: int, index: Any, offset: Any) -> None:
            if d == len(sizes):
                body(index, offset)
                return
            b = self.b

            def inner(i: Any) -> None:
                position = b.add(b.mul(index, sizes[d]), i)
                nest(d + 1, position, b.add(offset, b.mul(i, strides[d])))

            write_loop(b, sizes[d], inner)

        nest(0, i64(0), i64(0))

    def if_contiguous(
        self, sizes: list[Any], steps: Any, place: int, packed: Any, otherwise: Any
    ) -> None:
        """packed(count) if the core array has no gaps, else otherwise()."""
        b = self.b
        total: Any = i64(1)
        fits: Any = None
        for d in reversed(range(len(sizes))):
            dense = b.icmp_signed("==", self.word(steps, place + d), b.mul(total, i64(8)))
            fits = dense if fits is None else b.and_(fits, dense)
            total = b.mul(total, sizes[d])
        with b.if_else(fits) as (then, other):
            with then:
                packed(total)
            with other:
                otherwise()

    def write_turned(
        self, count: Any, bases: list[Any], source: Any, filled: Any, lanes: int
    ) -> None:
        """Numbers of all lanes to arrays of their own, a tile at a time.

        `filled` is the address of a table of the blocks that are not all zero, or 0.
        """
        b = self.b
        vector = ir.VectorType(DOUBLE, lanes)
        unit = 8 * lanes
        whole = b.mul(b.sdiv(count, i64(lanes)), i64(lanes))

        nothing: Any = ir.Constant(vector, [0.0] * lanes)
        table = b.inttoptr(filled, POINTER)
        sparse = b.icmp_signed("!=", filled, i64(0))

        def block(i: Any) -> None:
            ahead = b.mul(b.add(i, i64(_AHEAD * lanes)), i64(8))
            for base in bases:  # stores wait for their lines one after the other
                self.expect(b.gep(base, [ahead], source_etype=I8))
            dense, empty, done = (
                b.function.append_basic_block(name) for name in ("dense", "empty", "done")
            )
            look = b.function.append_basic_block("look")
            b.cbranch(sparse, look, dense)
            b.position_at_end(look)
            flag = b.load(b.gep(table, [b.sdiv(i, i64(lanes))], source_etype=I8), typ=I8)
            b.cbranch(b.icmp_signed("==", flag, ir.Constant(I8, 0)), empty, dense)
            b.position_at_end(empty)
            for base in bases:
                b.store(nothing, b.gep(base, [b.mul(i, i64(8))], source_etype=I8), align=8)
            b.branch(done)
            b.position_at_end(dense)
            full(i)
            b.branch(done)
            b.position_at_end(done)

        def full(i: Any) -> None:
            start = b.gep(source, [b.mul(i, i64(unit))], source_etype=I8)
            rows = [
                b.load(b.gep(start, [i64(unit * j)], source_etype=I8), align=8, typ=vector)
                for j in range(lanes)
            ]
            self.look_at(rows, lanes)
            for row, base in zip(transpose(b, rows), bases, strict=True):
                b.store(row, b.gep(base, [b.mul(i, i64(8))], source_etype=I8), align=8)

        write_loop(b, whole, block, lanes)

        def rest(i: Any) -> None:
            at = b.add(whole, i)
            x = b.load(b.gep(source, [b.mul(at, i64(unit))], source_etype=I8), align=8, typ=vector)
            self.look_at([x], lanes)
            for lane, base in enumerate(bases):
                entry = b.extract_element(x, ir.Constant(I32, lane))
                b.store(entry, b.gep(base, [b.mul(at, i64(8))], source_etype=I8), align=8)

        write_loop(b, b.sub(count, whole), rest)

    # -- numbers that are not finite -----------------------------------------------------------

    def start_looking(self, lanes: int) -> None:
        """Nothing has been found yet."""
        self.b.store(ir.Constant(ir.VectorType(DOUBLE, lanes), [0.0] * lanes), self.found)

    def look_at(self, rows: list[Any], lanes: int) -> None:
        """Add x − x of all lanes: zero exactly as long as every number is finite."""
        b = self.b
        parts = [b.fsub(x, x) for x in rows]
        while len(parts) > 1:
            parts = [b.fadd(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        so_far = b.load(self.found, typ=ir.VectorType(DOUBLE, lanes))
        b.store(b.fadd(so_far, parts[0]), self.found)

    def note_failures(self, status: Any, lanes: int) -> None:
        """The status of lanes in which something is not finite, unless they have failed before."""
        b = self.b
        vector, integers = ir.VectorType(DOUBLE, lanes), ir.VectorType(I64, lanes)
        sums = b.load(self.found, typ=vector)
        bad = b.fcmp_unordered("!=", sums, ir.Constant(vector, [0.0] * lanes))
        old = b.load(status, align=8, typ=integers)
        fresh = b.and_(bad, b.icmp_signed("==", old, ir.Constant(integers, [0] * lanes)))
        b.store(b.select(fresh, ir.Constant(integers, [NOT_FINITE] * lanes), old), status, align=8)

    def expect(self, where: Any) -> None:
        """Ask for a line of memory that is going to be written."""
        name = "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        self.b.call(function, [where, *(ir.Constant(I32, x) for x in (1, 3, 1))])

    def clear_flags(self) -> None:
        """Forget floating-point exceptions: failures are in the status, not in warnings."""
        kind = ir.FunctionType(I32, [I32])
        clear = ir.Function(self.module, kind, "feclearexcept")
        self.b.call(clear, [ir.Constant(I32, ALL_EXCEPTIONS)])


# ---- numbers of a group of configurations into lanes, and back ----------------------------------
#
# A vector of one configuration stands in memory one number after the other; a kernel wants the same
# number of all configurations side by side. Tiles of numbers are transposed in registers.


def at_most(b: Any, x: Any, limit: Any) -> Any:
    """The smaller of two integers."""
    return b.select(b.icmp_signed("<", x, limit), x, limit)


def define_pack(module: ir.Module, lanes: int) -> ir.Function:
    """Add ``void pack(vectors, stride, last, count, lanes)``.

    `last` is the number of the last vector, which the lanes behind it get too. Up to a whole tile
    may be written.
    """

    def tile(s: _Tiles, i: Any, mask: Any) -> None:
        for j, column in enumerate(
            transpose(s.b, [s.read(s.row(r, i), mask) for r in range(lanes)])
        ):
            s.b.store(column, s.of_lanes(i, j), align=8)

    return _define(module, f"phipsi_pack_{lanes}", lanes, tile)


def define_unpack(module: ir.Module, lanes: int) -> ir.Function:
    """Add ``void unpack(vectors, stride, last, count, lanes)``, the way back."""

    def tile(s: _Tiles, i: Any, mask: Any) -> None:
        columns = [s.b.load(s.of_lanes(i, j), align=8, typ=s.e.vector) for j in range(lanes)]
        for r, row in enumerate(transpose(s.b, columns)):
            s.write(row, s.row(r, i), mask)

    return _define(module, f"phipsi_unpack_{lanes}", lanes, tile)


class _Tiles:
    """Where the numbers of a tile are."""

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
        return self.e.masked_load(where, mask)

    def write(self, value: Any, where: Any, mask: Any) -> None:
        """Numbers that follow each other."""
        if mask is None:
            self.b.store(value, where, align=8)
        else:
            self.e.masked_store(value, where, mask)


def _define(
    module: ir.Module, name: str, lanes: int, tile: Callable[[_Tiles, Any, Any], None]
) -> ir.Function:
    """A function that goes through the tiles, with a mask for the last if it is not whole."""
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I64, I64, I64, POINTER])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block("entry"))
    e = Emitter(lanes, fused=False)
    e.builder = b
    s = _Tiles(b, e, function.args)
    whole = b.mul(b.sdiv(s.count, i64(lanes)), i64(lanes))
    write_loop(b, whole, lambda i: tile(s, i, None), lanes)
    left = b.sub(s.count, whole)
    with b.if_then(b.icmp_signed(">", left, i64(0))):
        numbers = ir.Constant(e.integers, list(range(lanes)))
        tile(s, whole, b.icmp_signed("<", numbers, e.splat_integer(left)))
    b.ret_void()
    return function
