"""Machine code of laws: the nodes of a graph on lanes.

Small arrays are registers, entry by entry; larger ones are memory, and loops run over them. What is
small is decided by shape alone, so that the code of a law does not depend on its surroundings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from phipsi.core.arrays import Array, Node, in_order, users
from phipsi.native.kernel.entry_code import entry_code
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Emitter, Lane, fold_loop, i64, write_loop

SMALL = 24
"""Arrays of at most so many entries are registers."""
MANY = 160
"""Entries in an irregular pattern are written out up to here; beyond, a loop reads their places
from a table."""

_AHEAD = 200  # nodes after one among which those are looked for that its loop can write
_ROWS = 8  # rows of a product that are summed side by side


@dataclass(frozen=True)
class Area:
    """Numbers in memory, each a vector of lanes, or shared by all lanes.

    They follow each other, beginning with number `start`; or, with `columns`, entry (i, j) of a
    table of so many columns is number `start` + i `down` + j `along`: a transposed matrix, a
    column, or one that is repeated.
    """

    base: ir.IRValue
    shared: bool = False
    start: int = 0
    columns: int = 0
    down: int = 0
    along: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether entries follow each other from the base on, in every lane."""
        return not (self.shared or self.start or self.columns)

    def places(self, i: Any) -> Any:
        """The numbers of entries in memory."""
        if not self.columns:
            return self.start + i
        return self.start + i // self.columns * self.down + i % self.columns * self.along


Value = list[Lane] | Area


@final
class LawCode:
    """Writes the code of nodes where its emitter is.

    `inputs` says where quantities are that are given, by name: lanes, or an `Area`. `memory` gives
    room for so many numbers of every lane; `host` writes what calls need.
    """

    def __init__(
        self,
        module: ir.Module,
        emitter: Emitter,
        inputs: Mapping[str, Value],
        memory: Callable[[int], Any],
        host: Any = None,
    ) -> None:
        self.module, self.e, self._inputs, self._memory = module, emitter, inputs, memory
        self.host = host
        self._known: dict[Node, Any] = {}

    def write(self, results: Sequence[Node]) -> list[Value]:
        """The values of nodes; those written before are not written again."""
        order = in_order(results, self._known)
        after, wanted, done = users(order), set(results), set[Node]()
        for i, x in enumerate(order):
            if x in done:
                continue
            batch = self._together(i, order, done)
            done.update(batch)  # `|=` with keys of a dictionary would copy the whole set
            if not batch:
                self._known[x] = self._value(x)
                continue
            kept = {y for y in batch if y in wanted or not batch.keys() >= {*after.get(y, ())}}
            self._write_loop_of(batch, kept)
        return [self._known[x] for x in results]

    def _together(self, i: int, order: Sequence[Node], done: Set[Node]) -> dict[Node, None]:
        """Node i, and those that the same loop can write: entry by entry, from what is known.

        None if no loop writes it.
        """
        x = order[i]
        if not (x.operation.is_entrywise and x.size > SMALL):
            return {}
        batch = {x: None}
        for y in order[i + 1 : i + 1 + _AHEAD]:
            fits = y.operation.is_entrywise and y.size == x.size and y not in done
            if fits and all(z in batch or z in self._known for z in y.args):
                batch[y] = None
        return batch

    def _write_loop_of(self, batch: Iterable[Node], kept: Set[Node]) -> None:
        """Nodes entry by entry in one loop; those that are kept are in memory after it."""
        size = next(iter(batch)).size
        known = {z: self._known[z] for y in batch for z in y.args if z in self._known}
        known = {z: self.stored(v) if z.shape else v for z, v in known.items()}
        places = {y: self.area(size) for y in batch if y in kept}

        def one(i: ir.IRValue) -> None:
            here: dict[Node, Lane] = {}
            for y in batch:
                for z in y.args:
                    if z not in here:
                        here[z] = self.entry(known[z], i if z.shape else 0)
                entries = [here[z] for z in y.args]
                here[y] = self.e.lift(entry_code(self.e, y.operation.name, entries, y.data))
                if y in places:
                    self.put(here[y], places[y], i)

        self._loop(size, one)
        self._known |= places

    def take(self, known: Mapping[Node, Value]) -> None:
        """Use values that were written before, where they hold too."""
        self._known.update(known)

    # ---- values

    def entry(self, value: Value, i: int | ir.IRValue) -> Lane:
        """Entry i of a value; a number that is known now, or for areas one of the code."""
        if not isinstance(value, Area):
            assert not isinstance(i, ir.IRValue), "registers have no place that the code computes"
            return value[i]
        if isinstance(i, int):
            return self._number(value, i64(value.places(i)))
        if value.columns:
            b, columns = self.e.builder, i64(value.columns)
            return self.element(value, b.udiv(i, columns), b.urem(i, columns), 0)
        return self._number(value, self.e.builder.add(i, i64(value.start)))

    def element(self, value: Area, i: ir.IRValue, j: ir.IRValue, columns: int) -> Lane:
        """Entry (i, j), numbers of the code, of a matrix of so many columns."""
        b = self.e.builder
        down, along = (value.down, value.along) if value.columns else (columns, 1)
        place = b.add(b.mul(i, i64(down)), b.mul(j, i64(along)))
        return self._number(value, b.add(place, i64(value.start)))

    def _number(self, value: Area, place: ir.IRValue) -> Lane:
        b, e = self.e.builder, self.e
        where = b.at(value.base, b.mul(place, i64(e.unit if value.shared else e.bytes)))
        return e.load_shared(where) if value.shared else e.load(where)

    def put(self, x: Lane, area: Area, i: ir.IRValue | int) -> None:
        """Store entry i of an area."""
        b = self.e.builder
        place = b.add(i64(i) if isinstance(i, int) else i, i64(area.start))
        self.e.store(x, b.at(area.base, b.mul(place, i64(self.e.bytes))))

    def area(self, size: int) -> Area:
        """Memory for so many numbers of every lane."""
        return Area(self._memory(size))

    def stored(self, value: Value) -> Area:
        """The same numbers in memory."""
        if isinstance(value, Area):
            return value
        area = self.area(len(value))
        for i, x in enumerate(value):
            self.put(x, area, i)
        return area

    def whole(self, value: Value, size: int) -> Value:
        """The same numbers; those in memory one after the other, in every lane."""
        if not isinstance(value, Area) or value.is_whole:
            return value
        out = self.area(size)
        self._loop(size, partial(self._copy, value, out))
        return out

    def _value(self, x: Node) -> Value:
        name = x.operation.name
        if name == "input":
            return self._inputs[x.data[0]]
        if name == "constant":
            return self._constant(x)
        if x.operation.is_entrywise:
            return self._entrywise(x)
        return getattr(self, f"_{name}")(x, *(self._known[y] for y in x.args))

    def _constant(self, x: Node) -> Value:
        numbers = x.data.ravel()
        if x.size <= SMALL:
            return [self.e.constant(float(c)) for c in numbers]
        return Area(
            self.module.table_of(np.asarray(numbers, dtype=self.e.number.dtype)), shared=True
        )

    def _entrywise(self, x: Node) -> list[Lane]:
        """A small array, entry by entry."""
        args = [(self._known[y], bool(y.shape)) for y in x.args]
        out: list[Lane] = []
        for i in range(x.size):
            entries = [self.entry(v, i if whole else 0) for v, whole in args]
            out.append(self.e.lift(entry_code(self.e, x.operation.name, entries, x.data)))
        return out

    # ---- calls

    def _call(self, x: Node, *args: Value) -> list[list[Lane] | Area]:
        if x.data.takes_views:
            return x.data.write(self, args)
        whole = [self.whole(v, y.size) for v, y in zip(args, x.args, strict=True)]
        return x.data.write(self, whole)

    def _result(self, x: Node, found: Sequence[Value]) -> Value:
        number: int = x.data
        return found[number]

    # ---- moving entries, sums, products

    def _pick(self, x: Node, value: Value) -> Value:
        if isinstance(value, Area) and x.size > SMALL:
            view = _view(value, x.data)
            if view is not None:
                return view
        if x.size > MANY:
            source, out = self.stored(value), self.area(x.size)
            place = self._listed(source.places(x.data.ravel()))
            self._loop(x.size, lambda i: self.put(self._number(source, place(i)), out, i))
            return out
        return self._gathered([self.entry(value, int(i)) for i in x.data.ravel()])

    def _listed(self, places: Any) -> Callable[[Any], Any]:
        """Integers in a table, by their place in it."""
        b, table = self.e.builder, self.module.table_of(np.asarray(places, dtype=np.int64))
        return lambda i: b.word(table, i)

    def _copy(self, source: Area, to: Area, i: ir.IRValue) -> None:
        self.put(self.entry(source, i), to, i)

    def _loop(self, count: int, body: Callable[[Any], None]) -> None:
        write_loop(self.e.builder, i64(count), body)

    def _gathered(self, entries: list[Lane]) -> Value:
        return entries if len(entries) <= SMALL else self.stored(entries)

    def _scatter(self, x: Node, value: Value) -> Value:
        places = x.data[0].ravel()
        if len(places) > MANY:
            return self._added_up(x.size, places, self.stored(value))
        out: list[Any] = [0] * x.size
        for i, place in enumerate(places):
            out[place] = out[place] + self.entry(value, i)
        return self._gathered([self.e.lift(y) for y in out])

    def _added_up(self, size: int, places: Array, value: Area) -> Value:
        """Entries of a value added to zeros at places, in their order."""
        out, place = self.area(size), self._listed(places)
        self._loop(size, lambda i: self.put(self.e.constant(0.0), out, i))

        def add(i: ir.IRValue) -> None:
            at = place(i)
            self.put(self.entry(out, at) + self.entry(value, i), out, at)

        self._loop(len(places), add)
        return out if size > SMALL else [self.entry(out, i) for i in range(size)]

    def _join(self, x: Node, *values: Value) -> Value:
        if x.size > SMALL:
            return self._joined(x, values)
        entries = [
            self.entry(value, i)
            for y, value in zip(x.args, values, strict=True)
            for i in range(y.size)
        ]
        return self._gathered(entries)

    def _joined(self, x: Node, values: Sequence[Value]) -> Area:
        """Parts one after the other in memory; large ones are copied by loops."""
        out, start = self.area(x.size), 0
        for y, value in zip(x.args, values, strict=True):
            if isinstance(value, Area) and y.size > SMALL:
                part = Area(out.base, start=start)
                self._loop(y.size, partial(self._copy, value, part))
            else:
                for i in range(y.size):
                    self.put(self.entry(value, i), out, start + i)
            start += y.size
        return out

    def _total(self, x: Node, value: Value) -> Value:
        (y,) = x.args
        if x.data is None:
            return [self._sum(value, y.size)]
        if y.size > MANY and isinstance(value, Area) and x.size > SMALL:
            return self._sums_along(x.size, y.shape, x.data, value)
        axis: int = x.data
        numbers = np.moveaxis(np.arange(y.size).reshape(y.shape), axis, -1)
        rows = numbers.reshape(x.size, y.shape[axis])
        return self._gathered([_added([self.entry(value, int(i)) for i in row]) for row in rows])

    def _sums_along(self, size: int, shape: Sequence[int], axis: int, value: Area) -> Area:
        """Sums along an axis, which is written out."""
        b, out = self.e.builder, self.area(size)
        count, inner = shape[axis], int(np.prod(shape[axis + 1 :], dtype=int))

        def one(i: ir.IRValue) -> None:
            first = b.mul(i, i64(count))
            if inner > 1:
                within = b.urem(i, i64(inner))
                first = b.add(b.mul(b.sub(i, within), i64(count)), within)
            entries = [self.entry(value, b.add(first, i64(j * inner))) for j in range(count)]
            self.put(_added(entries), out, i)

        self._loop(size, one)
        return out

    def _sum(self, value: Value, size: int) -> Lane:
        if not isinstance(value, Area):
            return _added(value)

        def more(i: ir.IRValue, sums: Sequence[ir.IRValue]) -> list[ir.IRValue]:
            return [(Lane(self.e, sums[0]) + self.entry(value, i)).value]

        start = [self.e.constant(0.0).value]
        return Lane(self.e, fold_loop(self.e.builder, i64(size), 1, start, more)[0])

    def _matmul(self, x: Node, left: Value, right: Value) -> Value:
        a, b = x.args
        rows, between = a.shape if len(a.shape) == 2 else (1, *a.shape)
        columns = b.shape[1] if len(b.shape) == 2 else 1
        if max(a.size, b.size, x.size) <= SMALL:
            return [
                _products(
                    [self.entry(left, i * between + j) for j in range(between)],
                    [self.entry(right, j * columns + k) for j in range(between)],
                )
                for i in range(rows)
                for k in range(columns)
            ]
        out = self.area(x.size)
        left, right = self.stored(left), self.stored(right)
        for k in range(columns):
            for i in range(0, rows, _ROWS):
                count = min(_ROWS, rows - i)

                def factor(j: ir.IRValue, k: int = k) -> Lane:
                    where = (j, i64(k)) if len(b.shape) == 2 else (i64(0), j)
                    return self.element(right, *where, columns)

                sums = self._row_sums(left, factor, i, count, between)
                for n, total in enumerate(sums):
                    self.put(total, out, (i + n) * columns + k)
        return out if x.size > SMALL else [self.entry(out, i) for i in range(x.size)]

    def _row_sums(
        self, left: Area, right: Callable[[Any], Lane], first: int, count: int, between: int
    ) -> list[Lane]:
        """Rows `first` to `first + count` of the left times a column of the right."""
        b, e = self.e.builder, self.e

        def more(j: ir.IRValue, sums: Sequence[ir.IRValue]) -> list[ir.IRValue]:
            factor = right(j)
            return [
                self.element(left, i64(first + n), j, between)
                .times_plus(factor, Lane(e, total))
                .value
                for n, total in enumerate(sums)
            ]

        starts = [e.constant(0.0).value] * count
        return [Lane(e, x) for x in fold_loop(b, i64(between), 1, starts, more)]


def loop_invariant(results: Iterable[Node], names: Set[str]) -> list[Node]:
    """Arrays in memory that depend on inputs of these names only, and on no call.

    A loop that does not change these inputs writes them once; `LawCode.take` has them inside.
    """
    same: dict[Node, bool] = {}
    out: dict[Node, None] = {}
    for x in in_order(results):
        kind = x.operation.name
        if kind == "input":
            same[x] = x.data[0] in names
        else:
            same[x] = kind not in ("call", "result") and all(same[y] for y in x.args)
        if not same[x]:
            out |= dict.fromkeys(y for y in x.args if same[y] and y.args and y.size > SMALL)
    return list(out)


def _view(area: Area, places: Array) -> Area | None:
    """The entries of an area at places in a regular pattern; None if they are not in one."""
    table: Array = area.places(places.reshape(-1, places.shape[-1]))
    rows, columns = table.shape
    start = int(table[0, 0])
    along = int(table[0, 1]) - start if columns > 1 else 1
    down = int(table[1, 0]) - start if rows > 1 else columns
    regular: Array = start + down * np.arange(int(rows))[:, None] + along * np.arange(int(columns))
    if not np.array_equal(table, regular):
        return None
    if along == 1 and down == columns:
        return Area(area.base, area.shared, start)
    return Area(area.base, area.shared, start, columns, down, along)


def _added(entries: Sequence[Lane]) -> Lane:
    out = entries[0]
    for x in entries[1:]:
        out = out + x
    return out


def _products(x: Sequence[Lane], y: Sequence[Lane]) -> Lane:
    out = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        out = a.times_plus(b, out)
    return out
