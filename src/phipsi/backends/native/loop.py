"""The inner loop of a gufunc: packs groups of configurations into lanes and runs the kernel.

The last group is filled up with copies of the last configuration, so every configuration runs through
the same instructions whatever the size of the batch, and gets the same bits.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from phipsi.backends.native.lanes import DOUBLE, I8, I32, I64, POINTER
from phipsi.backends.native.trigonometry import i64

SLOTS = 16  # how many scratch blocks are kept for reuse by later calls


def define_loop(
    module: ir.Module,
    kernel: ir.Function,
    shapes: list[tuple[int, ...]],
    n_inputs: int,
    offsets: int,
    lanes: int,
) -> ir.Function:
    """Add ``void phipsi_loop(args, dimensions, steps, data)``; shapes have −1 for sizes from data.

    `shapes` are the core shapes of inputs and outputs; the last output is the integer status. The
    data record holds, after the kernel's words, the scratch size and `SLOTS` places for scratch.
    """
    kind = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
    function = ir.Function(module, kind, "phipsi_loop")
    args, dimensions, steps, data = function.args
    writer = _Writer(module, function, lanes)
    b = writer.b
    count = writer.word(dimensions, 0)
    scratch = writer.acquire(data, offsets)
    vector = ir.VectorType(DOUBLE, lanes)

    # where the strides of the core dimensions begin
    places: list[int] = []
    place = len(shapes)
    for shape in shapes:
        places.append(place)
        place += len(shape)
    sizes = _core_sizes(writer, dimensions, shapes)
    buffers = [
        b.gep(scratch, [writer.word(data, offsets - len(shapes) + i)], source_etype=I8)
        for i in range(len(shapes))
    ]

    def group(start: Any) -> None:
        rows = []
        for lane in range(lanes):
            at = b.add(start, i64(lane))
            last = b.sub(count, i64(1))
            rows.append(b.select(b.icmp_signed("<", at, count), at, last))
        for i in range(n_inputs):
            bases = writer.bases(args, steps, i, rows)

            def pack(index: Any, offset: Any, bases: list[Any] = bases, i: int = i) -> None:
                out: Any = ir.Constant(vector, ir.Undefined)
                for lane, base in enumerate(bases):
                    x = b.load(b.gep(base, [offset], source_etype=I8), align=8, typ=DOUBLE)
                    out = b.insert_element(out, x, ir.Constant(I32, lane))
                to = b.gep(buffers[i], [b.mul(index, i64(8 * lanes))], source_etype=I8)
                b.store(out, to, align=8)

            writer.over(sizes[i], steps, places[i], pack)
        b.call(kernel, [data, scratch])
        for i in range(n_inputs, len(shapes)):
            bases = writer.bases(args, steps, i, rows)

            def unpack(index: Any, offset: Any, bases: list[Any] = bases, i: int = i) -> None:
                at = b.gep(buffers[i], [b.mul(index, i64(8 * lanes))], source_etype=I8)
                x = b.load(at, align=8, typ=vector)
                for lane, base in enumerate(bases):
                    entry = b.extract_element(x, ir.Constant(I32, lane))
                    b.store(entry, b.gep(base, [offset], source_etype=I8), align=8)

            writer.over(sizes[i], steps, places[i], unpack)

    writer.loop(count, group, step=lanes)
    writer.release(data, offsets, scratch)
    b.ret_void()
    return function


def _core_sizes(
    writer: _Writer, dimensions: Any, shapes: list[tuple[int, ...]]
) -> list[list[Any]]:
    """The sizes of the core dimensions, as NumPy passes them: distinct ones in order."""
    seen: dict[int, Any] = {}
    out: list[list[Any]] = []
    for shape in shapes:
        line: list[Any] = []
        for size in shape:
            if size not in seen:
                seen[size] = writer.word(dimensions, 1 + len(seen))
            line.append(seen[size])
        out.append(line)
    return out


class _Writer:
    """Writes loops and memory accesses of the gufunc's inner loop."""

    def __init__(self, module: ir.Module, function: ir.Function, lanes: int) -> None:
        self.module, self.function, self.lanes = module, function, lanes
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    def word(self, base: Any, index: int) -> Any:
        """A 64-bit word."""
        return self.b.load(self.b.gep(base, [i64(8 * index)], source_etype=I8), typ=I64)

    def loop(self, count: Any, body: Any, step: int = 1) -> None:
        """For i in range(0, count, step)."""
        b, f = self.b, self.function
        head, inside, after = (f.append_basic_block(n) for n in ("head", "inside", "after"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(i64(0), before)
        b.cbranch(b.icmp_signed("<", i, count), inside, after)
        b.position_at_end(inside)
        body(i)
        i.add_incoming(b.add(i, i64(step)), b.block)
        b.branch(head)
        b.position_at_end(after)

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

            self.loop(sizes[d], inner)

        nest(0, i64(0), i64(0))

    # -- scratch: taken from the slots of the data record, or from the heap --------------------------

    def acquire(self, data: Any, offsets: int) -> Any:
        """A block of scratch memory nobody else uses."""
        b, f = self.b, self.function
        found = f.append_basic_block("found")
        values: list[tuple[Any, Any]] = []
        for i in range(SLOTS):
            place = b.gep(data, [i64(8 * (offsets + 1 + i))], source_etype=I8)
            taken = b.atomic_rmw("xchg", place, i64(0), "acq_rel")
            values.append((taken, b.block))
            following = f.append_basic_block("next")
            b.cbranch(b.icmp_signed("!=", taken, i64(0)), found, following)
            b.position_at_end(following)
        calloc = ir.Function(self.module, ir.FunctionType(POINTER, [I64, I64]), "calloc")
        fresh = b.ptrtoint(b.call(calloc, [self.word(data, offsets), i64(1)]), I64)
        values.append((fresh, b.block))
        b.branch(found)
        b.position_at_end(found)
        out = b.phi(I64)
        for value, block in values:
            out.add_incoming(value, block)
        address = b.inttoptr(out, POINTER)
        # start of the first cache line
        aligned = b.and_(b.add(out, i64(63)), i64(-64))
        self._raw = address
        return b.inttoptr(aligned, POINTER)

    def release(self, data: Any, offsets: int, scratch: Any) -> None:
        """Put the scratch back into a free slot, or return it to the heap."""
        b, f = self.b, self.function
        done = f.append_basic_block("done")
        raw = b.ptrtoint(self._raw, I64)
        for i in range(SLOTS):
            place = b.gep(data, [i64(8 * (offsets + 1 + i))], source_etype=I8)
            pair = b.cmpxchg(place, i64(0), raw, "acq_rel", "monotonic")
            following = f.append_basic_block("next")
            b.cbranch(b.extract_value(pair, 1), done, following)
            b.position_at_end(following)
        free = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [POINTER]), "free")
        b.call(free, [self._raw])
        b.branch(done)
        b.position_at_end(done)
