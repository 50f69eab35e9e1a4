"""Machine code of functions that are more than one program, such as a controller or a search.

A writer gets a `LaneKernel`: inputs and results in memory, lane by lane, and the kernels of
programs to call. What it writes becomes a kernel like that of a program, so that one
configuration, batches and threads are called the same way, with bitwise identical results.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, final

import numpy as np

from phipsi.core.arrays import Node, in_order, listing, natives_of
from phipsi.core.backends import CODES
from phipsi.native import data_record as record
from phipsi.native.calls.batch_loop import define_groups
from phipsi.native.calls.direct_call import available
from phipsi.native.calls.machine_function import MachineFunction, define_single
from phipsi.native.kernel.emission import KERNEL
from phipsi.native.kernel.law_code import Area, LawCode
from phipsi.native.native_backend import NativeCode
from phipsi.native.targets.code_cache import machine_code, sources_digest
from phipsi.native.targets.target import MachineCode, Target, host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, POINTER, WORD, Emitter, Lane, fold_loop, i64

Shapes = Mapping[str, tuple[int, ...]]
_LINE = 64  # bytes of a cache line, at which scratch memory begins


@final
class LaneKernel:
    """Writes one kernel: ``void kernel(data, scratch, buffers, fresh)``.

    **Attributes:** `b`, `e`, what instructions are written with; `inputs`, `results`, where they
    are, by name; `code`, for graphs of the inputs; `bad`, the status of every lane so far.
    """

    def __init__(
        self,
        module: ir.Module,
        lanes: int,
        natives: Sequence[NativeCode],
        inputs: Shapes,
        results: Shapes,
        words: int,
    ) -> None:
        self.module, self.lanes, self.natives = module, lanes, natives
        self._kernels = [native.unit.kernel_function(module, lanes) for native in natives]
        self.function = ir.IRFunction(module, KERNEL, f"phipsi_lane_function_{lanes}", "internal")
        self._data, self._scratch, buffers, self._fresh = self.function.args
        self.b = self.function.begin()
        target = _target_of(natives)
        self.e = Emitter(lanes, fused=target.fused, number=target.number)
        self.e.builder = self.b
        self._used, self._words = 0, words
        first = self.b.mul(self.b.word(self._data, words), i64(self.e.bytes))  # after the buffers
        self._work = self.b.at(self._scratch, first)
        places = [
            self.b.load(self.b.at(buffers, WORD * i), typ=POINTER)
            for i in range(len(inputs) + len(results) + 1)
        ]
        self.inputs = dict(zip(inputs, map(Area, places), strict=False))
        self.results = dict(zip(results, map(Area, places[len(inputs) :]), strict=False))
        self._out = places[-1]
        self._bad = self.b.alloca(self.e.integers)
        self.b.store(self.e.integer(0), self._bad)
        self._status = self.area(1)
        self.code = LawCode(module, self.e, self.inputs, self.area, self)

    def finish(self) -> int:
        """The end of the kernel; how many numbers of every lane it works with."""
        self.e.store_integers(self.bad, self._out)
        self.b.ret_void()
        return self._used

    def area(self, size: int) -> ir.IRValue:
        """Working memory for so many numbers of every lane."""
        here = self.b.at(self._work, self._used * self.e.bytes)
        self._used += size
        return here

    # ---- failures

    @property
    def fine(self) -> ir.IRValue:
        """The lanes that have not failed."""
        return self.b.icmp_signed("==", self.bad, self.e.integer(0))

    @property
    def bad(self) -> ir.IRValue:
        """The status of every lane so far."""
        return self.b.load(self._bad, typ=self.e.integers)

    def set_bad(self, status: ir.IRValue) -> None:
        """The status of every lane becomes this."""
        self.b.store(status, self._bad)

    def note(self, status: ir.IRValue) -> None:
        """Keep the first failure of every lane."""
        b, old = self.b, self.bad
        b.store(b.select(b.icmp_signed("==", old, self.e.integer(0)), status, old), self._bad)

    def fail(self, condition: ir.IRValue, code: int) -> None:
        """Note a failure where a condition holds."""
        e = self.e
        self.note(self.b.select(condition, e.integer(code), e.integer(0)))

    # ---- programs

    def call_program(
        self, native: NativeCode, code: LawCode, args: Sequence[Any], allowed: Sequence[int] = ()
    ) -> list[Area]:
        """Call the kernel of a program; its results are in new memory.

        Its failures are noted, except those with codes of errors_from_status.py that are `allowed`.
        """
        b, e = self.b, self.e
        results = [code.area(max(1, math.prod(shape))) for shape in native.output_shapes]
        self.call_into(native, [code.stored(x) for x in args], results)
        status = self.status
        for number in allowed:
            fine = b.icmp_signed("==", b.and_(status, e.integer(CODES - 1)), e.integer(number))
            status = b.select(fine, e.integer(0), status)
        self.note(status)
        return results

    @property
    def status(self) -> ir.IRValue:
        """What the last call of a program reported, by lane."""
        return self.e.load_integers(self._status)

    def call_into(self, native: NativeCode, args: Sequence[Area], results: Sequence[Area]) -> None:
        """Call the kernel of a program with results in these places."""
        b, number = self.b, [x is native for x in self.natives].index(True)
        word = self._words + 1 + 2 * number
        data = b.inttoptr(b.word(self._data, word), POINTER)
        scratch = b.at(self._scratch, b.word(self._data, word + 1))
        places = [self._whole(x) for x in (*args, *results)]
        buffers = self.area(-(-WORD * (len(places) + 1) // self.e.bytes))
        for i, place in enumerate((*places, self._status)):
            b.store(place, b.at(buffers, WORD * i))
        flag = ir.IRConstant(ir.IntType(1), 1)
        b.call(self._kernels[number], [data, scratch, buffers, flag])

    def _whole(self, area: Area) -> ir.IRValue:
        assert not area.shared, "kernels read numbers of every lane"
        return self.b.at(area.base, self.e.bytes * area.start) if area.start else area.base


Writer = Callable[[LaneKernel], None]


@final
class CustomKernel(MachineFunction):
    """A function of named arrays, written by `write` around the kernels of programs.

    `key` names everything that the code depends on besides the programs, the shapes and the sources
    of the backend. It is compiled when it is called, for one or for groups. Only then it is known
    how much memory it works in: the kernel for groups needs no more numbers of a lane than that for
    one, and all its lanes together no less.
    """

    def __init__(
        self,
        key: str,
        natives: Sequence[NativeCode],
        inputs: Shapes,
        results: Shapes,
        write: Writer,
    ) -> None:
        target = _target_of(natives)
        shapes = [*inputs.values(), *results.values(), ()]
        arguments = record.Arguments(shapes, len(inputs))
        words, own = arguments.words, arguments.end
        # `available` also says where the code finds functions of Python, before it is loaded
        parts = [key, sources_digest(), repr((target, available()))]
        parts += [repr((list(inputs), list(results), shapes))]
        parts += [native.unit.key() for native in natives]

        def kernel(module: ir.Module, lanes: int) -> ir.IRFunction:
            """The kernel, and a function that returns how many numbers of a lane it works with."""
            written = LaneKernel(module, lanes, natives, inputs, results, own)
            write(written)
            size = ir.IRFunction(module, ir.FunctionType(I64, []), "phipsi_work_size")
            size.begin().ret(i64(written.finish()))
            return written.function

        def emit() -> ir.Module:
            module = ir.Module(linked=True)
            define_single(module, kernel(module, 1), arguments, target.number)
            return module

        def emit_wide() -> ir.Module:
            module = ir.Module(linked=True)
            lanes = target.lanes
            define_groups(module, kernel(module, lanes), lanes, arguments, target.number)
            return module

        def compiled(end: str, lanes: int, write_module: Callable[[], ir.Module]) -> MachineCode:
            """The code, for which the record has room now."""
            found = machine_code(digest + end, target, write_module)
            numbers = buffers + _work_size(found)
            if not data[words]:  # the first of the two; what it needs is enough for the other one
                _divide(data, own, words, numbers * target.unit * target.lanes, natives)
            room = data[own + 2] if natives else data[words] - _LINE
            assert numbers * target.unit * lanes <= room, "work in the memory of programs"
            return found

        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        # where the work begins, behind the buffers; data and scratch of every program
        data = arguments.record(1 + 2 * len(natives))
        *starts, buffers = accumulate(arguments.buffer_sizes(target.lanes), initial=0)
        arguments.put_buffers(data, starts)
        data[record.FEWEST], data[own] = min(2, target.lanes), buffers
        # The memory that the code uses, not the programs: those hold the model, which may hold this
        # function, and the garbage collector does not look into what a ufunc owns.
        also = [(native.data, native.unit.pointers()) for native in natives]
        super().__init__(
            lambda: compiled("", 1, emit), lambda: compiled("-wide", target.lanes, emit_wide),
            data, target, tuple(inputs), arguments, single=len(results) == 1, also=also,
        )  # fmt: skip

    def fast(self, *args: Any) -> Any:
        """The results for real arrays; None if one is out of the ordinary or an element fails."""
        one = self.direct_if_compiled()
        answer = None if one is None else one(*args)
        return self.quick(args, 1, None) if answer is None else answer

    def joined(self, slow: Callable[..., Any], *args: Any) -> Any:
        """The one result; elements that fail here, and odd arguments, are left to `slow`."""
        answer = self.fast(*args)
        if answer is not None:
            return answer
        try:
            found, status = self._ufunc_of(args)(*args)
        except (TypeError, ValueError):
            return slow(*args)
        bad = np.asarray(status != 0)
        if bad.all():
            return slow(*args)
        wide = (
            np.broadcast_to(x, (*bad.shape, *shape))[bad]
            for x, shape in zip(args, self.input_shapes, strict=True)
        )
        found[bad] = slow(*wide)
        return found


def _target_of(natives: Sequence[NativeCode]) -> Target:
    """That of the programs; without any, this machine."""
    return natives[0].target if natives else host_target()


def _divide(
    data: np.ndarray, own: int, words: int, work: int, natives: Sequence[NativeCode]
) -> None:
    """Scratch memory: so many bytes of work, then the memory of every program."""
    place = -(-work // _LINE) * _LINE
    for i, native in enumerate(natives):
        data[own + 1 + 2 * i : own + 3 + 2 * i] = native.data.ctypes.data, place
        place += -(-native.scratch_bytes // _LINE) * _LINE
    data[words] = place + _LINE


def _work_size(code: MachineCode) -> int:
    """How many numbers of every lane a kernel works with."""
    return ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("phipsi_work_size"))()


def graph_function(inputs: Shapes, results: Mapping[str, Node], failure: int = 0) -> CustomKernel:
    """The function that graphs of named inputs describe, with calls of programs or without.

    With `failure`, elements whose last result is not 0 fail with that status; it is not returned.
    """
    nodes = list(results.values())
    listed = in_order(nodes)
    natives = natives_of(listed)
    shown = list(results)[:-1] if failure else list(results)

    def write(kernel: LaneKernel) -> None:
        code = kernel.code
        values = code.write(nodes)
        total = kernel.e.constant(0.0)
        for name, node, value in zip(results, nodes, values, strict=True):
            for i in range(node.size):
                x = code.entry(value, i)
                total = kernel.e.poison_nan(total, x)
                if name in shown:
                    code.put(x, kernel.results[name], i)
        kernel.fail(kernel.b.not_(kernel.e.compare("==", total, 0.0)), _NOT_FINITE)
        if failure:
            flag = code.entry(values[-1], 0)
            kernel.fail(kernel.b.not_(kernel.e.compare("==", flag, 0.0)), failure)

    shapes = {name: results[name].shape for name in shown}
    text = "\n".join([*listing(listed, natives), repr([listed.index(x) for x in nodes])])
    return CustomKernel(text, natives, inputs, shapes, write)


def graph_after_program(native: NativeCode, name: str, results: Mapping[str, Node]) -> CustomKernel:
    """The function q → graphs of the result of a program of q, which is their input `name`."""
    nodes = list(results.values())

    def write(kernel: LaneKernel) -> None:
        (found,) = kernel.call_program(native, kernel.code, [kernel.inputs["q"]])
        code = LawCode(kernel.module, kernel.e, {name: found}, kernel.area, kernel)
        total = kernel.e.constant(0.0)
        for result, value in zip(results, code.write(nodes), strict=True):
            value, out = code.stored(value), kernel.results[result]

            def put(
                i: ir.IRValue, so_far: Sequence[ir.IRValue], value: Area = value, out: Area = out
            ) -> list[ir.IRValue]:
                x = code.entry(value, i)
                code.put(x, out, i)
                return [kernel.e.poison_nan(Lane(kernel.e, so_far[0]), x).value]

            size = i64(results[result].size)
            total = Lane(kernel.e, fold_loop(kernel.b, size, 1, [total.value], put)[0])
        kernel.fail(kernel.b.not_(kernel.e.compare("==", total, 0.0)), _NOT_FINITE)

    listed = in_order(nodes)
    text = "\n".join([*listing(listed, [native]), repr([listed.index(x) for x in nodes])])
    shapes = {name: node.shape for name, node in results.items()}
    return CustomKernel(text, [native], {"q": native.input_shapes[0]}, shapes, write)


_NOT_FINITE = 4
