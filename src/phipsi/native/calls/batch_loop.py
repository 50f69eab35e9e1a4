"""The inner loop of a gufunc: packs groups of configurations into lanes and runs the kernels.

Groups run in the wide kernel; the last group repeats its last configuration in the remaining lanes.
If there are too few configurations for that (the data record says how many), they run in the scalar
kernel one by one. Both kernels come from the same equations in the same order, so the result of a
configuration is bitwise identical in every batch.

The wide kernel and its groups are machine code of their own, compiled when the first batch arrives:
one configuration does not wait for them. Their address is in the data record. Nor do batches wait
for the scalar kernel: as long as there is none, `phipsi_batches` runs all of a batch in groups.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, final

from phipsi.core.backends import NO_MEMORY, NOT_FINITE
from phipsi.native import data_record as record
from phipsi.native.calls.scratch import acquire, release
from phipsi.native.matrices.tiles import transpose
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I8,
    I32,
    I64,
    POINTER,
    WORD,
    Emitter,
    Lane,
    NumberName,
    at_most,
    fold_loop,
    i64,
    shared_function,
    write_loop,
)

_AHEAD = 2  # lines between a number that is written and one whose line is asked for
_LINE = 64  # bytes of memory that are moved together
Fold = Callable[[Any, list[Any]], list[Any]]
# FE_ALL_EXCEPT of the C library: on x86 the bits of the processor, but not on Windows
_X86 = platform.machine().lower() in ("x86_64", "amd64")
ALL_EXCEPTIONS = 0x3D if _X86 and os.name != "nt" else 0x1F


_LOOP = ir.FunctionType(ir.VOID, [POINTER] * 4)
_GROUPS = ir.FunctionType(ir.VOID, [POINTER] * 6 + [I64])


_LARGE = 1 << 20  # bytes of scratch of a group


def smallest_group(lanes: int, scratch: int, matrices: bool) -> int:
    """From how many configurations on the wide kernel is faster, as measured.

    Two, three if one alone computes several columns of a matrix at once, four if the numbers of
    a group are too many for the second level of caches.
    """
    return min(4 if scratch > _LARGE else 3 if matrices else 2, lanes)


def define_loop(
    module: ir.Module,
    kernel: ir.IRFunction,
    arguments: record.Arguments,
    number: NumberName,
) -> None:
    """Add ``void phipsi_loop(args, dimensions, steps, data)`` around the scalar kernel.

    Once the data record holds their address, `phipsi_groups` does what it can first.
    """
    function = ir.IRFunction(module, _LOOP, "phipsi_loop")
    e = Emitter(1, fused=False, number=number)
    _BatchLoop(module, function, kernel, e, arguments).write_all()


def define_groups(
    module: ir.Module,
    kernel: ir.IRFunction,
    lanes: int,
    arguments: record.Arguments,
    number: NumberName,
    matrices: Collection[int] = (),
) -> None:
    """Add ``phipsi_groups(args, dimensions, steps, data, scratch, done, fewest)``: the wide kernel.

    It leaves in `done` how many configurations it has done, from the first one on: all but the last
    ones if they fill no group and are fewer than `fewest`. The outputs in `matrices` are inspected
    for numbers that are not finite while they are written: the wide kernel does not do it.
    ``phipsi_batches(args, dimensions, steps, data)`` is a loop like `phipsi_loop`, of groups only.
    """
    groups = ir.IRFunction(module, _GROUPS, "phipsi_groups")
    e = Emitter(lanes, fused=False, number=number)
    _BatchLoop(module, groups, kernel, e, arguments, matrices).write_groups()
    batches = ir.IRFunction(module, _LOOP, "phipsi_batches")
    e = Emitter(1, fused=False, number=number)
    _BatchLoop(module, batches, groups, e, arguments).write_batches()


@final
class _BatchLoop:
    """Writes loops over groups of so many configurations."""

    def __init__(
        self,
        module: ir.Module,
        function: ir.IRFunction,
        kernel: ir.IRFunction,
        emitter: Emitter,
        arguments: record.Arguments,
        matrices: Collection[int] = (),
    ) -> None:
        self.module, self.kernel, self.e = module, kernel, emitter
        self.lanes, self.words, self.matrices = emitter.lanes, arguments.words, matrices
        pattern = self.pattern = arguments.pattern
        self.n_inputs = arguments.n_inputs
        self.args, self.dimensions, self.steps, self.data, *self.others = function.args
        b = self.b = emitter.builder = function.begin()
        self.count = b.word(self.dimensions, 0)
        lengths = [len(shape) for shape in pattern]
        # where the strides of the core dimensions begin
        self.places = [len(pattern) + sum(lengths[:i]) for i in range(len(pattern))]
        self.sizes = [[b.word(self.dimensions, 1 + d) for d in shape] for shape in pattern]
        self.addresses = b.alloca(POINTER, size=len(pattern))
        self.found = b.alloca(emitter.vector)  # sums of x − x

    def write_groups(self) -> None:
        """The whole function of the wide kernel."""
        b = self.b
        self.scratch, done, fewest = self.others
        b.store(self._groups(i64(0), fewest), done)
        b.ret_void()

    def write_batches(self) -> None:
        """The whole loop of groups only; the kernel is the function of the groups."""
        b, data = self.b, self.data
        finished = b.alloca(I64)
        without = b.function.append_basic_block("without")
        block, self.scratch = acquire(b, data, self.words, without)
        given = [self.args, self.dimensions, self.steps, data, self.scratch, finished, i64(1)]
        b.call(self.kernel, given)
        self._end(block, without)

    def write_all(self) -> None:
        """The whole loop: groups for the wide kernel, then what is left one by one."""
        b, data = self.b, self.data
        finished = b.alloca(I64)
        b.store(i64(0), finished)
        without = b.function.append_basic_block("without")
        block, self.scratch = acquire(b, data, self.words, without)
        wide = b.word(data, record.WIDE)
        with b.if_then(b.icmp_signed("!=", wide, i64(0))):
            given = [self.args, self.dimensions, self.steps, data, self.scratch, finished]
            given.append(b.word(data, record.FEWEST))
            b.call_address(_GROUPS, b.inttoptr(wide, POINTER), given)
        self._groups(b.load(finished, typ=I64), i64(1))
        self._end(block, without)

    def _end(self, block: ir.IRValue, without: ir.BasicBlock) -> None:
        """Give the scratch back and return; where there was none, all configurations failed."""
        b = self.b
        release(b, self.data, self.words, block)
        # failures are in the status, not in warnings of NumPy about floating-point exceptions
        b.call_named("feclearexcept", I32, [ir.IRConstant(I32, ALL_EXCEPTIONS)])
        b.ret_void()
        b.position_at_end(without)
        last = len(self.pattern) - 1
        failed = ir.IRConstant(self.e.number.integer, NO_MEMORY)
        write_loop(b, self.count, lambda i: b.store(failed, self._bases(last, [i])[0]))
        b.ret_void()

    def _groups(self, done: ir.IRValue, fewest: ir.IRValue) -> ir.IRValue:
        """All groups behind the configurations that are done; how many are then.

        The last group is filled up if at least `fewest` are left.
        """
        b, lanes = self.b, self.lanes
        left = b.sub(self.count, done)
        full = b.sdiv(b.add(left, b.sub(i64(lanes), fewest)), i64(lanes))
        whole = b.mul(full, i64(lanes))
        buffers: list[Any] = []
        for i in range(len(self.pattern)):
            offset = b.mul(b.word(self.data, record.BUFFERS + i), i64(self.e.bytes))
            buffers.append(b.at(self.scratch, offset))
            b.store(buffers[-1], b.at(self.addresses, WORD * i))
        write_loop(b, whole, lambda i: self._group(done, b.add(done, i), buffers), lanes)
        return at_most(b, b.add(done, whole), self.count)

    def _group(self, first: ir.IRValue, start: ir.IRValue, buffers: Sequence[ir.IRValue]) -> None:
        """Pack the inputs of one group, run the kernel, and unpack the results."""
        b, lanes = self.b, self.lanes
        last = b.sub(b.sub(self.count, start), i64(1))
        rows = [b.add(start, at_most(b, i64(lane), last)) for lane in range(lanes)]
        inspects = bool(self.matrices) and lanes > 1
        if inspects:  # nothing has been found yet
            b.store(self.e.constant(0.0).value, self.found)
        for i, buffer in enumerate(buffers):
            if i == self.n_inputs:
                fresh = b.icmp_signed("==", start, first)
                arguments = [self.data, self.scratch, self.addresses, fresh]
                b.call(self.kernel, arguments)
            bases = self._bases(i, rows)
            if inspects and i == len(self.pattern) - 1:
                self._note_failures(buffer)
            self._move(i, bases, buffer, last)

    def _bases(self, i: int, rows: Sequence[ir.IRValue]) -> list[ir.IRValue]:
        """The address of argument i for every lane."""
        b = self.b
        base = b.inttoptr(b.word(self.args, i), POINTER)
        stride = b.word(self.steps, i)
        return [b.at(base, b.mul(row, stride)) for row in rows]

    # -- between arrays and lanes ------------------------------------------------------------------

    def _move(
        self, i: int, bases: Sequence[ir.IRValue], buffer: ir.IRValue, last: ir.IRValue
    ) -> None:
        """Argument i of a group into its buffer, or out of it."""
        b = self.b

        def one_by_one() -> None:
            self._over(i, lambda index, at: self._move_one(i, bases, buffer, index, at))

        if self.lanes == 1 or not self.sizes[i]:
            one_by_one()
            return
        if i in self.matrices:  # many numbers, mostly one after the other
            whole = partial(self._write_tiles, i, bases, buffer)
            self._if_contiguous(i, whole, one_by_one)
            return
        define = define_pack if i < self.n_inputs else define_unpack
        function, stride = define(self.module, self.e), b.word(self.steps, i)

        def by_function(total: ir.IRValue) -> None:
            b.call(function, [bases[0], stride, last, total, buffer])

        self._if_contiguous(i, by_function, one_by_one)

    def _move_one(
        self,
        i: int,
        bases: Sequence[ir.IRValue],
        buffer: ir.IRValue,
        index: ir.IRValue,
        offset: ir.IRValue,
    ) -> None:
        """One number of every lane."""
        b, e = self.b, self.e
        place = b.at(buffer, b.mul(index, i64(e.bytes)))
        if i < self.n_inputs:
            out: Any = ir.IRConstant(e.vector, ir.Undefined)
            for lane, base in enumerate(bases):
                x = e.load_one(b.at(base, offset))
                out = b.insert_element(out, x, ir.IRConstant(I32, lane))
            e.store(Lane(e, out), place)
            return
        x = e.load(place).value
        if i in self.matrices and e.lanes > 1:
            self._inspect([x])
        for lane, base in enumerate(bases):
            entry = b.extract_element(x, ir.IRConstant(I32, lane))
            b.store(entry, b.at(base, offset), align=e.unit)

    def _over(self, i: int, body: Callable[[Any, Any], None]) -> None:
        """Every element of a core array: body(position in the buffer, offset in bytes)."""
        b, sizes = self.b, self.sizes[i]
        strides = [b.word(self.steps, self.places[i] + d) for d in range(len(sizes))]

        def nest(d: int, index: ir.IRValue, offset: ir.IRValue) -> None:
            if d == len(sizes):
                body(index, offset)
                return

            def inner(j: ir.IRValue) -> None:
                position = b.add(b.mul(index, sizes[d]), j)
                nest(d + 1, position, b.add(offset, b.mul(j, strides[d])))

            write_loop(b, sizes[d], inner)

        nest(0, i64(0), i64(0))

    def _if_contiguous(
        self, i: int, whole: Callable[[Any], None], otherwise: Callable[[], None]
    ) -> None:
        """whole(count) if the core array has no gaps, else otherwise()."""
        b, sizes = self.b, self.sizes[i]
        total: Any = i64(1)
        fits: Any = None
        for d in reversed(range(len(sizes))):
            stride = b.word(self.steps, self.places[i] + d)
            dense = b.icmp_signed("==", stride, b.mul(total, i64(self.e.unit)))
            fits = dense if fits is None else b.and_(fits, dense)
            total = b.mul(total, sizes[d])
        with b.if_else(fits) as (then, other):
            with then:
                whole(total)
            with other:
                otherwise()

    def _write_tiles(
        self, i: int, bases: Sequence[ir.IRValue], source: ir.IRValue, count: ir.IRValue
    ) -> None:
        """Numbers of all lanes to arrays of their own, a tile at a time, and those of a line.

        The data record may have a table of the tiles that are not all zero.
        """
        b, e, lanes, unit = self.b, self.e, self.lanes, i64(self.e.unit)
        filled = b.word(self.data, record.BUFFERS + 2 * len(self.pattern) + i)
        nothing = e.constant(0.0)
        table = b.inttoptr(filled, POINTER)
        sparse = b.icmp_signed("!=", filled, i64(0))

        def line(i: Any, found: list[Any]) -> list[Any]:
            ahead = b.mul(b.add(i, i64(_AHEAD * tiles * lanes)), unit)
            for base in bases:  # stores wait for their lines one after the other
                self._prefetch(b.at(base, ahead))
            for t in range(tiles):
                found = tile(b.add(i, i64(t * lanes)), found)
            return found

        def tile(i: ir.IRValue, found: Sequence[ir.IRValue]) -> list[ir.IRValue]:
            dense, empty, done, look = (
                b.function.append_basic_block(name) for name in ("dense", "empty", "done", "look")
            )
            b.cbranch(sparse, look, dense)
            b.position_at_end(look)
            flag = b.load(b.at(table, b.sdiv(i, i64(lanes))), typ=I8)
            b.cbranch(b.icmp_signed("==", flag, ir.IRConstant(I8, 0)), empty, dense)
            b.position_at_end(empty)
            for base in bases:
                e.store(nothing, b.at(base, b.mul(i, unit)))
            b.branch(done)
            b.position_at_end(dense)
            start = b.at(source, b.mul(i, i64(e.bytes)))
            rows = [e.load(b.at(start, e.bytes * j)).value for j in range(lanes)]
            inspected = self._inspected(rows, found[0])
            for row, base in zip(transpose(b, rows), bases, strict=True):
                e.store(Lane(e, row), b.at(base, b.mul(i, unit)))
            b.branch(done)
            b.position_at_end(done)
            sums = b.phi(e.vector)
            sums.add_incoming(found[0], empty)
            sums.add_incoming(inspected, dense)
            return [sums]

        def one(i: ir.IRValue, found: Sequence[ir.IRValue]) -> list[ir.IRValue]:
            x = e.load(b.at(source, b.mul(i, i64(e.bytes)))).value
            for lane, base in enumerate(bases):
                entry = b.extract_element(x, ir.IRConstant(I32, lane))
                b.store(entry, b.at(base, b.mul(i, unit)), align=e.unit)
            return [self._inspected([x], found[0])]

        tiles = max(1, _LINE // e.bytes)
        pieces = [(tiles * lanes, line), *([(lanes, tile)] if tiles > 1 else []), (1, one)]
        sums, done_so_far = [b.load(self.found, typ=e.vector)], i64(0)
        for step, body in pieces:
            sums, done_so_far = self._whole_pieces(count, done_so_far, step, sums, body)
        b.store(sums[0], self.found)

    def _whole_pieces(
        self,
        count: ir.IRValue,
        first: ir.IRValue,
        step: int,
        values: Sequence[ir.IRValue],
        body: Fold,
    ) -> tuple[list[Any], Any]:
        """values = body(i, values) for i from `first` on, as long as a whole step is left."""
        b = self.b
        whole = b.mul(b.sdiv(b.sub(count, first), i64(step)), i64(step))
        out = fold_loop(b, whole, step, values, lambda i, x: body(b.add(first, i), x))
        return out, b.add(first, whole)

    def _prefetch(self, where: ir.IRValue) -> None:
        """Ask for a line of memory that is going to be written."""
        hints = [ir.IRConstant(I32, x) for x in (1, 3, 1)]
        self.b.call_named("llvm.prefetch.p0", ir.VOID, [where, *hints])

    # -- numbers that are not finite ---------------------------------------------------------------

    def _inspect(self, rows: Sequence[ir.IRValue]) -> None:
        """Add x − x of all lanes to what is in memory."""
        so_far = self.b.load(self.found, typ=self.e.vector)
        self.b.store(self._inspected(rows, so_far), self.found)

    def _inspected(self, rows: Sequence[ir.IRValue], so_far: ir.IRValue) -> ir.IRValue:
        """The sum of x − x of all lanes: zero exactly as long as every number is finite."""
        b = self.b
        parts = [b.fsub(x, x) for x in rows]
        while len(parts) > 1:
            parts = [b.fadd(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        return b.fadd(so_far, parts[0])

    def _note_failures(self, status: ir.IRValue) -> None:
        """The status of lanes in which something is not finite, unless they have failed before."""
        b, e = self.b, self.e
        sums = b.load(self.found, typ=e.vector)
        bad = b.fcmp_unordered("!=", sums, e.constant(0.0).value)
        old = e.load_integers(status)
        fresh = b.and_(bad, b.icmp_signed("==", old, e.integer(0)))
        e.store_integers(b.select(fresh, e.integer(NOT_FINITE), old), status)


# ---- numbers of a group of configurations into lanes, and back ----------------------------------
#
# A vector of one configuration stands in memory one number after the other; a kernel wants the same
# number of all configurations side by side. Tiles of numbers are transposed in registers.


_MOVES = ir.FunctionType(ir.VOID, [POINTER, I64, I64, I64, POINTER])


def define_pack(module: ir.Module, like: Emitter) -> ir.IRFunction:
    """Add ``void pack(vectors, stride, last, count, lanes)``.

    `last` is the number of the last vector, which the lanes behind it get too. Up to a whole tile
    may be written.
    """
    return shared_function(module, like, f"phipsi_pack_{like.lanes}", _MOVES, _write_pack)


def define_unpack(module: ir.Module, like: Emitter) -> ir.IRFunction:
    """Add ``void unpack(vectors, stride, last, count, lanes)``, the way back."""
    return shared_function(module, like, f"phipsi_unpack_{like.lanes}", _MOVES, _write_unpack)


def _write_pack(module: ir.Module, like: Emitter) -> ir.IRFunction:
    def tile(s: _Tiles, i: ir.IRValue, mask: ir.IRValue | None) -> None:
        for j, column in enumerate(
            transpose(s.b, [s.read(s.row(r, i), mask) for r in range(like.lanes)])
        ):
            s.e.store(Lane(s.e, column), s.of_lanes(i, j))

    return _define(module, f"phipsi_pack_{like.lanes}", like, tile)


def _write_unpack(module: ir.Module, like: Emitter) -> ir.IRFunction:
    def tile(s: _Tiles, i: ir.IRValue, mask: ir.IRValue | None) -> None:
        columns = [s.e.load(s.of_lanes(i, j)).value for j in range(like.lanes)]
        for r, row in enumerate(transpose(s.b, columns)):
            s.write(row, s.row(r, i), mask)

    return _define(module, f"phipsi_unpack_{like.lanes}", like, tile)


class _Tiles:
    """Where the numbers of a tile are."""

    def __init__(self, builder: ir.IRBuilder, e: Emitter, arguments: Sequence[ir.IRValue]) -> None:
        self.b, self.e = builder, e
        self.vectors, stride, last, self.count, self.lanes = arguments
        numbers = [at_most(builder, i64(lane), last) for lane in range(e.lanes)]
        self.starts = [builder.mul(stride, number) for number in numbers]

    def row(self, lane: int, i: ir.IRValue) -> ir.IRValue:
        """Number i of a configuration's vector."""
        offset = self.b.add(self.starts[lane], self.b.mul(i, i64(self.e.unit)))
        return self.b.at(self.vectors, offset)

    def of_lanes(self, i: ir.IRValue, j: int) -> ir.IRValue:
        """Number i + j of all configurations."""
        offset = self.b.mul(self.b.add(i, i64(j)), i64(self.e.bytes))
        return self.b.at(self.lanes, offset)

    def read(self, where: ir.IRValue, mask: ir.IRValue | None) -> ir.IRValue:
        """Numbers that follow each other."""
        if mask is None:
            return self.e.load(where).value
        return self.e.masked_load(where, mask)

    def write(self, value: ir.IRValue, where: ir.IRValue, mask: ir.IRValue | None) -> None:
        """Numbers that follow each other."""
        if mask is None:
            self.e.store(Lane(self.e, value), where)
        else:
            self.e.masked_store(value, where, mask)


def _define(
    module: ir.Module, name: str, like: Emitter, tile: Callable[[_Tiles, Any, Any], None]
) -> ir.IRFunction:
    """A function that goes through the tiles, with a mask for the last if it is not whole."""
    function = ir.IRFunction(module, _MOVES, name, "internal")
    e, lanes = like.inside(function), like.lanes
    b = e.builder
    s = _Tiles(b, e, function.args)
    whole = b.mul(b.udiv(s.count, i64(lanes)), i64(lanes))
    write_loop(b, whole, lambda i: tile(s, i, None), lanes)
    left = b.sub(s.count, whole)
    with b.if_then(b.icmp_signed(">", left, i64(0))):
        tile(s, whole, e.first(left))
    b.ret_void()
    return function
