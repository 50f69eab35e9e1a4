"""The function of a compiled rollout: its job, memory of a group, failures, calls of programs.

``void NAME_run(job, 0, 0, 0)`` takes steps of all trajectories of a job, and leaves the number of
the next step in it. ``i64 NAME_step(job)`` does the same and returns 0 if no trajectory has failed;
``i64 NAME_run_size()`` is the size of the working memory in numbers.

The words of a job are those of run_job.py. Trajectories are taken in groups, one in each lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from phipsi.core.arrays import Node, in_order
from phipsi.native.data_record import INTEGERS, N_BODIES
from phipsi.native.kernel.law_code import Area, LawCode
from phipsi.native.lane_values import LaneCondition, LaneIndex
from phipsi.native.native_backend import KernelSource
from phipsi.native.runs import run_job
from phipsi.native.runs.frozen_lanes import FrozenLanes
from phipsi.native.runs.lane_group import FirstCalls, LaneGroup, always
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I32,
    I64,
    POINTER,
    WORD,
    Emitter,
    Lane,
    LaneMask,
    i64,
    write_loop,
)

Rows = list[Any]
"""Where the rows of a port begin for the trajectories of a group, by lane."""


@final
class RunKernel(LaneGroup):
    """Writes the function of a rollout; other classes describe its loops and graphs.

    Parameters
    ----------
    natives : sequence
        The programs that graphs call; the first one has the tables of the model.
    sources : sequence
        The same programs for the target processor.
    name : str
        Prefix of the names of the functions.
    ports : mapping of str to int
        The number of entries of a row, by name.
    packed : iterable of str
        The ports that a group keeps in working memory.

    Attributes
    ----------
    areas : dict
        Where packed ports are in working memory.
    h
        The step length.
    trajectory
        The index of the trajectory of each lane.
    shared : dict
        Values that calls share, by their keys.
    prepared : dict
        Values that calls have written before the loops.
    """

    def __init__(
        self,
        module: ir.Module,
        natives: Sequence[KernelSource],
        sources: Sequence[KernelSource],
        lanes: int,
        name: str,
        ports: Mapping[str, int],
        packed: Iterable[str],
    ) -> None:
        target = sources[0].target
        self.module, self.natives, self.lanes, self._name = module, natives, lanes, name
        self._kernels = [source.kernel(module, lanes) for source in sources]
        self._known = sources[0].known
        self.codes, self.bytes = natives[0].unit.tables.codes, target.unit * lanes
        self._function = ir.IRFunction(
            module, ir.FunctionType(ir.VOID, [POINTER] * 4), f"{name}_run"
        )
        b = self.b = self._function.begin()
        e = self.e = Emitter(lanes, fused=target.fused, number=target.number)
        e.builder = b
        self._at, self._ports = self._function.args[0], ports
        count = run_job.PORTS + 3 * len(ports) + 2 * len(natives)
        self._job = [self.word(self._at, i) for i in range(count)]
        self._programs = run_job.PORTS + 3 * len(ports)
        self.data = b.inttoptr(self._job[self._programs], POINTER)
        self.h = e.load_shared(b.at(self._at, WORD * run_job.STEP_LENGTH))
        self._work, self._used = b.inttoptr(self._job[run_job.WORK], POINTER), 0
        self.zero = ir.IRConstant(e.integers, [0] * lanes)
        self._failed, self._bad, self._failed_at = (b.alloca(e.integers) for _ in range(3))
        self._status = self.area(1)
        self.areas = {name: self.area(ports[name]) for name in packed}
        sizes = [(place, ports[name]) for name, place in self.areas.items()]
        self._frozen = FrozenLanes(self, sizes) if lanes > 1 else None
        self._failures = b.at(self._at, WORD * run_job.FAILURES)
        b.store(i64(0), self._failures)
        # programs of one lane may share their scratch memory with others
        self._places = FirstCalls(b) if lanes > 1 else None
        self.shared: dict[Any, Any] = {}
        self.prepared: dict[Any, Any] = {}
        self._rows: list[Any] = []
        self.trajectory: Lane

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Write what the calls in graphs need before the loops."""
        callees = (x.data for x in in_order(nodes) if x.operation.name == "call")
        for callee in dict.fromkeys(callees):
            if callee not in self.prepared:
                self.prepared[callee] = callee.prepare(self)

    def each_group(self, body: Callable[[], None]) -> None:
        """The code of one group of trajectories, in a loop over all of them."""

        def group(first: ir.IRValue) -> None:
            self._begin_group(first)
            body()

        write_loop(self.b, self._job[run_job.COUNT], group, self.lanes)

    def finish(self) -> int:
        """Write the end, and the other functions; the size of the working memory in numbers."""
        b, name = self.b, self._name
        moved = b.mul(self._job[run_job.STEPS], self._job[run_job.DIRECTION])
        b.store(b.add(self._job[run_job.FIRST], moved), b.at(self._at, WORD * run_job.FIRST))
        b.ret_void()
        step = ir.IRFunction(self.module, ir.FunctionType(I64, [POINTER]), f"{name}_step")
        b = step.begin()
        none = ir.IRConstant(POINTER, None)
        b.call(self._function, [step.args[0], none, none, none])
        b.ret(b.load(b.at(step.args[0], WORD * run_job.FAILURES), typ=I64))
        size = ir.IRFunction(self.module, ir.FunctionType(I64, []), f"{name}_run_size")
        numbers = self._used * self.lanes
        size.begin().ret(i64(numbers))
        return numbers

    # ---- the job and its ports

    def job(self, word: int) -> LaneIndex:
        """A word of the job."""
        return LaneIndex(self.b, self._job[word])

    def index(self, i: int) -> LaneIndex:
        """A known index."""
        return LaneIndex(self.b, i64(i))

    def everywhere(self, i: LaneIndex) -> Lane:
        """An index that is not negative, as a number of every lane."""
        return self.e.splat(self.as_number(i.whole))

    def _word_of(self, name: str) -> int:
        return run_job.PORTS + 3 * list(self._ports).index(name)

    def shared_port(self, name: str) -> Area:
        """A port that all trajectories share."""
        address = self.b.inttoptr(self._job[self._word_of(name)], POINTER)
        return Area(address, shared=True)

    def rows_of(self, name: str) -> Rows:
        """Where the rows of a port are."""
        b, word = self.b, self._word_of(name)
        base = b.inttoptr(self._job[word], POINTER)
        return [b.at(base, b.mul(row, self._job[word + 1])) for row in self._rows]

    def record_rows(self, name: str, rows: Rows, number: LaneIndex) -> Rows:
        """Where the rows of a record of this number are, from those of the port."""
        offset = self.b.mul(number.whole, self._job[self._word_of(name) + 2])
        return [self.b.at(x, offset) for x in rows]

    def read_port(self, name: str) -> None:
        """The rows of a port into working memory."""
        self.pack(self.rows_of(name), self.areas[name], i64(self._ports[name]))

    def write_port(self, name: str) -> None:
        """Working memory into the rows of a port."""
        self.unpack(self.areas[name], self.rows_of(name), i64(self._ports[name]))

    def read_input(self, name: str, rows: Rows, i: LaneIndex | None = None) -> None:
        """An input of step i, if it changes from step to step; without i, one that does not."""
        b, step = self.b, self._job[self._word_of(name) + 2]
        with b.if_then(b.icmp_signed("==" if i is None else "!=", step, i64(0))):
            offset = i64(0) if i is None else b.mul(i.whole, step)
            now = [b.at(x, offset) for x in rows]
            self.pack(now, self.areas[name], i64(self._ports[name]))

    def clear_port(self, name: str) -> None:
        """Zeros in the working memory of a port."""
        self.fill(self.areas[name], self._ports[name], 0.0)

    def write_rows(self, area: Area, rows: Rows, size: int) -> None:
        """Numbers in working memory into rows."""
        self.unpack(area.base, rows, i64(size))

    def write_nothing(self, places: Iterable[tuple[Rows, int]]) -> None:
        """Not a number in rows with so many entries."""
        b, e = self.b, self.e
        nothing = ir.IRConstant(e.number.type, float("nan"))
        for rows, size in places:

            def one(i: ir.IRValue, rows: Rows = rows) -> None:
                for row in rows:
                    b.store(nothing, b.at(row, b.mul(i, i64(e.unit))), align=e.unit)

            write_loop(b, i64(size), one)

    def pool_rows(self, chosen: Lane) -> list[ir.IRValue]:
        """The numbers of rows of a pool that the lanes have chosen."""
        b = self.b
        integers = b.fptosi(chosen.value, self.e.integers)
        return [b.extract_element(integers, ir.IRConstant(I32, k)) for k in range(self.lanes)]

    def read_pool(self, name: str, rows: Sequence[ir.IRValue], size: int) -> Area:
        """These rows of a shared port, with so many entries each."""
        b, pool = self.b, self._job[self._word_of(name)]
        base, new = b.inttoptr(pool, POINTER), Area(self.area(size))
        places = [b.at(base, b.mul(row, i64(self.e.unit * size))) for row in rows]
        self.pack(places, new.base, i64(size))
        return new

    def _begin_group(self, first: ir.IRValue) -> None:
        """The rows of a group of trajectories, one for each lane, and their numbers."""
        b, e = self.b, self.e
        last = b.sub(self._job[run_job.COUNT], i64(1))
        rows: list[Any] = []
        for lane in range(self.lanes):  # lanes without a trajectory repeat the last one
            row = b.add(first, i64(lane))
            rows.append(b.select(b.icmp_signed("<", row, last), row, last))
        numbers: Any = ir.IRConstant(e.vector, ir.Undefined)
        for lane, row in enumerate(rows):
            number = self.as_number(b.add(row, self._job[run_job.TRAJECTORY]))
            numbers = b.insert_element(numbers, number, ir.IRConstant(I32, lane))
        self._rows, self.trajectory = rows, Lane(e, numbers)

    # ---- memory

    def area(self, size: int) -> ir.IRValue:
        """Working memory for so many numbers of every lane."""
        here = self.b.at(self._work, self._used * self.bytes)
        self._used += size
        return here

    def is_packed(self, area: Area) -> bool:
        """Whether numbers are in the working memory of a port."""
        return any(area.base is place for place in self.areas.values())

    def joint_table(self) -> tuple[Any, Any]:
        """The table of bodies, and how many there are."""
        known = self._known
        if known is None:
            return super().joint_table()
        return self.module.table_of(known.tables[INTEGERS]), i64(known.words[N_BODIES])

    # ---- failures: of a trajectory for good, with its step, and of an evaluation in `bad`

    def read_statuses(self) -> None:
        """What has failed before, from the arrays of the caller."""
        for word, place in ((run_job.STATUS, self._failed), (run_job.FAILED_AT, self._failed_at)):
            self.b.store(self._integers(word), place)

    def write_statuses(self) -> None:
        """What has failed in every lane, and in which step; and whether anything has."""
        b, e = self.b, self.e
        for word, place in ((run_job.STATUS, self._failed), (run_job.FAILED_AT, self._failed_at)):
            integers = b.load(place, typ=e.integers)
            for lane, where in enumerate(self._integer_rows(word)):
                entry = b.extract_element(integers, ir.IRConstant(I32, lane))
                b.store(entry, where, align=e.unit)
                if word == run_job.STATUS:
                    wide = entry if e.unit == WORD else b.zext(entry, I64)
                    b.store(b.or_(b.load(self._failures, typ=I64), wide), self._failures)

    def _integer_rows(self, word: int) -> Rows:
        base = self.b.inttoptr(self._job[word], POINTER)
        return [self.b.at(base, self.b.mul(row, i64(self.e.unit))) for row in self._rows]

    def _integers(self, word: int) -> ir.IRValue:
        out: Any = ir.IRConstant(self.e.integers, ir.Undefined)
        for lane, where in enumerate(self._integer_rows(word)):
            entry = self.b.load(where, align=self.e.unit, typ=self.e.number.integer)
            out = self.b.insert_element(out, entry, ir.IRConstant(I32, lane))
        return out

    def has_failed(self) -> LaneMask:
        """Lanes whose trajectories have failed."""
        b, e = self.b, self.e
        return LaneMask(e, b.icmp_signed("!=", b.load(self._failed, typ=e.integers), self.zero))

    def is_alive(self) -> LaneMask:
        """Lanes whose trajectories have not failed."""
        b, e = self.b, self.e
        return LaneMask(e, b.icmp_signed("==", b.load(self._failed, typ=e.integers), self.zero))

    def goes_on(self) -> LaneCondition:
        """Whether a trajectory of the group has not failed."""
        return ~self.all(self.has_failed())

    @property
    def fine(self) -> ir.IRValue:
        """The lanes that have not failed, neither before nor in this evaluation."""
        b, before = self.b, self.is_alive().bits
        return b.and_(before, b.icmp_signed("==", self.bad, self.zero))

    def begin_evaluation(self) -> None:
        """Nothing has failed yet."""
        self.b.store(self.zero, self._bad)

    def note_where(self, mask: LaneMask, code: int) -> None:
        """A failure in the lanes of a mask."""
        self.note(self.b.select(mask.bits, self.e.integer(code), self.zero))

    def note_unless(self, mask: LaneMask, code: int) -> None:
        """A failure outside of a mask."""
        self.note(self.b.select(mask.bits, self.zero, self.e.integer(code)))

    def end_evaluation(self, step: LaneIndex) -> LaneMask:
        """Lanes that have not failed, now either; what has failed now is kept with its step."""
        b, e = self.b, self.e
        old, new = b.load(self._failed, typ=e.integers), self.bad
        alive = b.icmp_signed("==", old, self.zero)
        b.store(b.select(alive, new, old), self._failed)
        before = b.load(self._failed_at, typ=e.integers)
        b.store(b.select(alive, e.splat_integer(step.whole), before), self._failed_at)
        return LaneMask(e, b.and_(alive, b.icmp_signed("==", new, self.zero)))

    def forget_failures(self, mask: LaneMask) -> None:
        """Trajectories in these lanes have not failed any more."""
        b = self.b
        failed = b.load(self._failed, typ=self.e.integers)
        b.store(b.select(mask.bits, self.zero, failed), self._failed)

    def every_lane(self) -> LaneMask:
        """All lanes."""
        return LaneMask(self.e, self.b.icmp_signed("==", self.zero, self.zero))

    def is_set(self, flag: Lane) -> LaneMask:
        """Where a number is not 0, or not a number."""
        bits = self.b.fcmp_unordered("!=", flag.value, self.e.constant(0.0).value)
        return LaneMask(self.e, bits)

    def freeze(self) -> None:
        """Lanes that have failed compute what another one does, until `unfreeze`."""
        if self._frozen is not None:
            self._frozen.put_aside(self.has_failed())

    def unfreeze(self) -> None:
        """They have their own numbers again."""
        if self._frozen is not None:
            self._frozen.put_back()

    # ---- programs

    def call_program(
        self, native: KernelSource, code: LawCode, args: Sequence[Any], allowed: Sequence[int] = ()
    ) -> list[Any]:
        """Call the kernel of a program; its results are in new memory, its failures are noted."""
        results = [code.area(max(1, math.prod(shape))) for shape in native.output_shapes]
        places = [code.stored(x).base for x in args]
        fresh = always if self._places is None else self._places.place()
        self.caller(native, [*places, *(x.base for x in results)], allowed, fresh)()
        return results

    def call_into(
        self, native: KernelSource, args: Sequence[Area], results: Sequence[Area]
    ) -> None:
        """See `LaneHost`."""
        self._kernel_call(native, [x.base for x in (*args, *results)], always)()

    @property
    def status(self) -> ir.IRValue:
        """What the last call of a program reported, by lane."""
        return self.e.load_integers(self._status)

    def caller(
        self, native: KernelSource, places: Sequence[ir.IRValue], allowed: Sequence[int] = (),
        fresh: Callable[[], Any] = always,
    ) -> Callable[[], None]:  # fmt: skip
        """Code that calls a kernel with inputs and results in these places.

        Failures are noted; those with codes of errors_from_status.py that are `allowed` are none.
        """
        call = self._kernel_call(native, places, fresh)

        def call_and_note() -> None:
            call()
            self.note_status(self._status, allowed)

        return call_and_note

    def _kernel_call(
        self, native: KernelSource, places: Sequence[ir.IRValue], fresh: Callable[[], Any]
    ) -> Callable[[], None]:
        b, number = self.b, [x is native for x in self.natives].index(True)
        words = self._job[self._programs + 2 * number :]
        data, scratch = (b.inttoptr(word, POINTER) for word in words[:2])
        self._used += -self._used * self.bytes % WORD // self.bytes  # whole words
        buffers = self.area(-(-WORD * (len(places) + 1) // self.bytes))
        for i, place in enumerate((*places, self._status)):
            b.store(place, b.at(buffers, WORD * i))

        def call() -> None:
            b.call(self._kernels[number], [data, scratch, buffers, fresh()])

        return call
