"""What all parts of a kernel write code with: its function, its lanes and its memory.

Lanes are configurations. A kernel for one configuration (one lane) works on several columns of a
matrix at once: there lanes are columns, and what the configuration has once is the same in all of
them. `config` writes for the first kind of lanes, `group` for the second, and `emitter` is the one
in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from phipsi.core.expressions import Space
from phipsi.core.sweeps import Domain, Field, Result
from phipsi.native import data_record as record, tables
from phipsi.native.kernel.storage_plan import StoragePlan, entry_count, is_column, shown
from phipsi.native.tables import Tables
from phipsi.native.targets.target import Target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I1,
    I32,
    I64,
    POINTER,
    WORD,
    Emitter,
    Lane,
    i64,
    scaled,
    write_loop,
)
from phipsi.native.text.sine_and_logarithm import define_sincos

_AREAS = {  # of the records of a domain: for what a configuration has once, for what columns have
    Domain.BODY: (record.BODIES, record.COLUMN_BODIES),
    Domain.POINT: (record.POINTS, record.COLUMN_POINTS),
    Domain.LINK: (record.LINKS, record.COLUMN_LINKS),
    Domain.ROW: (record.ROWS, record.COLUMN_ROWS),
    Domain.WORLD: (record.WORLD, record.COLUMN_WORLD),
}
KERNEL = ir.FunctionType(ir.VOID, [POINTER] * 3 + [I1])
"""What kernels take: data, scratch, buffers, fresh."""
_INTEGER_TABLES = (record.INTEGERS, record.POINT_INTEGERS, record.LINK_INTEGERS)
_COUNTS = {
    Domain.BODY: record.N_BODIES,
    Domain.POINT: record.N_POINTS,
    Domain.LINK: record.N_LINKS,
    Domain.ROW: record.N_ROWS,
}


@dataclass(frozen=True)
class InputSlot:
    """One input: the number of its buffer and its spaces (takes None for a vector).

    `symmetric` says that it has the blocks of a symmetric operator.
    """

    buffer: int
    takes: Space | None
    gives: Space | None
    symmetric: bool = False


@dataclass(frozen=True)
class KnownRecord:
    """A data record that is known when the code is written: its words, and the tables by word.

    Words become constants of the code and tables constant data of its module, so that the code
    needs no record and holds no address as a number. If the table of bodies has only the numbers
    that are used, `columns` says where.
    """

    words: tuple[int, ...]
    tables: dict[int, np.ndarray]
    columns: dict[int, int] | None = None


@dataclass(frozen=True)
class Parts:
    """What a kernel is written from, besides its phases.

    `known` is the data record if it is known; `inspects`, the names of inputs that the kernel looks
    at, if that is not all of them and its results: what is not finite ends in states of a run.
    """

    plan: StoragePlan
    results: tuple[Result, ...]
    inputs: dict[str, InputSlot]
    tables: Tables
    target: Target
    known: KnownRecord | None = None
    inspects: tuple[str, ...] | None = None


@final
class Emission:
    """The function ``void kernel(data, scratch, buffers, fresh)``, and access to its memory.

    Scratch memory has, at offsets that the data record gives, the records of bodies (the first is
    the world's), points, links and rows, and of the whole. `buffers` are the addresses of one
    packed buffer per input, then per result, then of the status. `fresh` is false if this kernel
    was the last to use the memory, for the same data.
    """

    def __init__(self, module: ir.Module, parts: Parts, lanes: int) -> None:
        self.module, self.parts, self.plan = module, parts, parts.plan
        self.results, self.codes, target = parts.results, parts.tables.codes, parts.target
        self.widest = max((c.nv for c in self.codes), default=0)
        self.config = Emitter(lanes, fused=target.fused, number=target.number)
        self.several = lanes == 1 and target.lanes > 1  # columns are worked on together
        self.group = self.config.like(target.lanes) if self.several else self.config
        self.emitter = self.config
        self.bytes = self.config.bytes  # of one number of every configuration
        self.unit = self.config.unit  # of one number
        self.n_inputs = len(parts.inputs)
        self.n_buffers = self.n_inputs + len(parts.results) + 1
        self.sincos_function = define_sincos(module, self.config)
        self.function = self._function()
        self.b = self.function.begin()
        self.config.builder = self.group.builder = self.b
        self._data, self.scratch, buffers, self.fresh = self.function.args
        self._words: dict[int, ir.IRValue] = {}  # of the data record, as far as they are used
        self._tables: dict[int, ir.IRValue] = {}  # addresses by word
        self._areas: dict[tuple[int, int], ir.IRValue] = {}  # addresses by word and unit
        self.integer_bytes = module.integer_bytes
        self.used_columns: set[int] = set()  # of the table of bodies
        self._buffers = [
            self.b.load(self.at(buffers, i64(WORD * i)), typ=POINTER) for i in range(self.n_buffers)
        ]
        if parts.known is not None:  # for exported code: all at the beginning
            for columns in (False, True):
                unit = self.emitter_of(columns).bytes
                for starts in _AREAS.values():
                    self._areas[starts[columns], unit] = self.area(starts[columns], unit)
        self.status = self.b.alloca(self.config.integers)

    def _function(self) -> ir.IRFunction:
        name = f"phipsi_kernel_{self.config.lanes}"
        if name in self.module.globals:  # of another program
            name = f"{name}_{len(self.module.globals)}"
        function = ir.IRFunction(self.module, KERNEL, name, "internal")
        for a in function.args[:3]:
            a.add_attribute("noalias")
        return function

    # -- addresses and numbers ---------------------------------------------------------------------

    def word(self, index: int) -> ir.IRValue:
        """One word of the data record."""
        if index not in self._words:
            known = self.parts.known
            if known is not None:
                self._words[index] = i64(known.words[index])
            else:
                with self.b.early():
                    self._words[index] = self.b.word(self._data, index)
        return self._words[index]

    def table(self, index: int) -> ir.IRValue:
        """The table whose address is a word of the data record."""
        if self.parts.known is None:
            if index not in self._tables:
                with self.b.early():
                    where = self.b.at(self._data, WORD * index)
                    self._tables[index] = self.b.load(where, typ=POINTER)
            return self._tables[index]
        numbers = self.parts.known.tables[index]
        short = self.integer_bytes == 4 and index in _INTEGER_TABLES
        return self.module.table_of(numbers.astype(np.int32) if short else numbers)

    @property
    def shares_rows(self) -> bool:
        """Whether bodies with equal numbers have one row of the table of bodies."""
        return self.parts.tables.shared is not None and self.parts.known is None

    @property
    def columns(self) -> int:
        """How many numbers the table of bodies has for each."""
        known, every = self.parts.known, self.parts.tables.doubles.shape[1]
        return every if known is None or not known.columns else len(known.columns)

    def column(self, i: int) -> int:
        """Where number i of a body stands in its row of the table."""
        self.used_columns.add(i)
        known = self.parts.known
        return i if known is None or known.columns is None else known.columns[i]

    def at(self, base: ir.IRValue, offset: ir.IRValue) -> ir.IRValue:
        """base + offset bytes."""
        return self.b.at(base, offset)

    def area(self, word: int, unit: int) -> ir.IRValue:
        """The start of a scratch area, which the data record gives in numbers of `unit` bytes."""
        found = self._areas.get((word, unit))
        if found is None:
            start = self.word(word)
            if self.parts.known is not None:
                return self.at(self.scratch, self.b.mul(start, i64(unit)))
            with self.b.early():
                found = self.at(self.scratch, self.b.mul(start, i64(unit)))
            self._areas[word, unit] = found
        return found

    def records(self, domain: Domain, columns: bool) -> ir.IRValue:
        """The start of the records of bodies, points, links, rows, or of the whole."""
        return self.area(_AREAS[domain][columns], self.emitter_of(columns).bytes)

    def integer(self, word: int, width: int, k: ir.IRValue, i: int) -> ir.IRValue:
        """Number i of row k of a table of integers."""
        index = self.b.add(self.b.mul(k, i64(width)), i64(i))
        return self.read_integer(word, self.table(word), index, i)

    def read_integer(
        self, word: int, base: ir.IRValue, index: ir.IRValue, column: int
    ) -> ir.IRValue:
        """Number `index` behind an address in a table of integers, which is in that column."""
        where = self.at(base, self.b.mul(index, i64(self.integer_bytes)))
        if self.integer_bytes == 8:
            return self.b.load(where, typ=I64)
        assert self.parts.known is not None
        negative = (self.parts.known.tables[word][..., column] < 0).any()
        widen = self.b.sext if negative else self.b.zext
        return widen(self.b.load(where, typ=I32), I64)

    def body_integers(self, k: ir.IRValue, *which: int) -> list[ir.IRValue]:
        """Numbers of body k in the table of bodies."""
        return [self.integer(record.INTEGERS, tables.N_INTEGERS, k, i) for i in which]

    def lane_load(self, base: ir.IRValue, offset: ir.IRValue) -> Lane:
        """One number that every configuration has once."""
        where = self.at(base, offset)
        if self.emitter is self.config:
            return self.emitter.load(where)
        return self.emitter.load_shared(where)

    def lane_store(self, value: int | Lane, base: ir.IRValue, offset: ir.IRValue) -> None:
        """One vector to memory."""
        self.emitter.store(value, self.at(base, offset))

    def load(self, base: ir.IRValue, index: ir.IRValue) -> Lane:
        """Number `index` of an array that every configuration has once."""
        return self.lane_load(base, self.b.mul(index, i64(self.bytes)))

    def store(self, value: Any, base: ir.IRValue, index: ir.IRValue) -> None:
        """Write number `index` of an array."""
        self.lane_store(value, base, self.b.mul(index, i64(self.bytes)))

    def loop(self, count: ir.IRValue, reverse: bool, body: Callable[[Any], None]) -> None:
        """For i in range(count), or from its end."""
        b = self.b
        last = b.sub(count, i64(1))
        write_loop(b, count, lambda i: body(b.sub(last, i) if reverse else i))

    def count(self, domain: Domain) -> ir.IRValue:
        """How many bodies, points, links or rows there are."""
        return self.word(_COUNTS[domain])

    def count_of(self, space: Space) -> ir.IRValue:
        """Number of scalars in a vector of the space."""
        if space.index in ("joint", "row"):
            return self.word(record.N_RATES if space.index == "joint" else record.N_ROWS)
        if space.index in ("world", "one"):
            return i64(6 if space.index == "world" else 1)
        count = self.count(Domain.POINT if space.index == "point" else Domain.BODY)
        return self.b.mul(count, i64(space.width or 6))

    # -- buffers -----------------------------------------------------------------------------------

    def buffer(self, i: int) -> ir.IRValue:
        """The address of a packed buffer."""
        return self._buffers[i]

    def buffer_size(self, i: int) -> ir.IRValue:
        """How many numbers of each configuration it holds."""
        return self.word(record.BUFFERS + self.n_buffers + i)

    def buffer_of(self, r: Result) -> int:
        """The number of a result's buffer."""
        return self.n_inputs + next(i for i, x in enumerate(self.results) if x is r)

    def result_base(self, r: Result) -> ir.IRValue:
        """The address of a result's buffer."""
        return self.buffer(self.buffer_of(r))

    # -- records -----------------------------------------------------------------------------------

    def emitter_of(self, columns: bool) -> Emitter:
        """What writes the numbers that stand side by side in a record."""
        return self.group if columns else self.config

    def record(self, domain: Domain, columns: bool, k: ir.IRValue) -> ir.IRValue:
        """The record of body, point, link or row k; the world's is that of body 0."""
        size = self.emitter_of(columns).bytes * self.plan.size(domain, columns)
        return self.at(self.records(domain, columns), self.b.mul(k, i64(size)))

    def both(self, domain: Domain, k: ir.IRValue) -> tuple[Any, Any]:
        """The records of body or point k: of what there is once, and of what columns have."""
        return self.record(domain, False, k), self.record(domain, True, k)

    def entries(self, x: Field) -> int:
        """How many numbers a field has at a body."""
        return entry_count(x, self.widest, self.plan.modes)

    def entry_load(self, x: Field, base: ir.IRValue, start: int, i: int) -> Lane:
        """Entry i of a stored field."""
        if not is_column(x):
            return self.lane_load(base, i64(self.bytes * (start + i)))
        return self.group.load(self.at(base, i64(self.group.bytes * (start + i))))

    def entry_store(
        self, x: Field, value: float | Lane, base: ir.IRValue, start: int, i: int
    ) -> None:
        """Store entry i of a field."""
        emitter = self.group if is_column(x) else self.config
        emitter.store(value, self.at(base, i64(emitter.bytes * (start + i))))

    def clear_entries(self, x: Field, base: ir.IRValue, start: int) -> None:
        """Zero a stored field."""
        for i in range(self.entries(x)):
            self.entry_store(x, 0.0, base, start, i)

    def load_entry(self, x: Field, i: ir.IRValue) -> Lane:
        """Number i of a vector of points, rows or of the world, wherever its point is."""
        r, factor, _ = shown(x)
        e, where = self.emitter, self._entry_of(r, i)
        whole = is_column(r) or e is self.config
        found = e.load(where) if whole else e.load_shared(where)
        return scaled(found, factor)

    def store_entry(self, x: Field, i: ir.IRValue, value: Lane) -> None:
        """Write number i of a vector of points, rows or of the world."""
        value.emitter.store(value, self._entry_of(x, i))

    def _entry_of(self, r: Field, i: ir.IRValue) -> ir.IRValue:
        columns, b, domain = is_column(r), self.b, r.type.domain
        unit, start = i64(self.emitter_of(columns).bytes), self.plan.slots(domain)[r]
        if domain is Domain.WORLD:
            base = self.records(domain, columns)
        elif domain is Domain.ROW:
            base, i = self.record(domain, columns, i), i64(0)
        else:
            base, i = self.record(domain, columns, b.udiv(i, i64(6))), b.urem(i, i64(6))
        return self.at(base, b.mul(b.add(i64(start), i), unit))
