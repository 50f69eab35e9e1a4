"""Compiled functions of arrays, and the ways to call them; a loop as a NumPy generalized ufunc."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy._core._multiarray_umath as umath
from numpy.typing import NDArray

from phipsi.core.backends import LEAST, batch_pieces, empty, never
from phipsi.core.model import ForkSafeLock, as_numbers, surely_numbers
from phipsi.native import data_record as record
from phipsi.native.calls.batch_loop import define_loop
from phipsi.native.calls.direct_call import (
    address_of,
    available,
    define_direct,
    functions_in,
    make_direct,
)
from phipsi.native.calls.scratch import Scratch
from phipsi.native.calls.spin_pool import MOST, run_tasks, tasks_of
from phipsi.native.targets.target import MachineCode, Target
from phipsi.native.text.lane_arithmetic import NumberName
from phipsi.native.text.llvm_text import IRFunction, Module

Array = np.ndarray
_FLOAT64, _ARRAY, _count_nonzero = np.dtype(np.float64), np.ndarray, np.count_nonzero
_KEPT_TASKS = 8
_SHORT = 1 << 20  # bytes of scratch of one configuration, up to which a call may hold the GIL

_Given = NDArray[Any] | list[Any] | tuple[Any, ...]


class _Compiling(ForkSafeLock):
    """Code for groups is compiled one at a time.

    LLVM has locks of its own. In a process that was forked while it compiled they stay held, and
    whoever asks it waits for ever: there, batches go on one by one.
    """

    busy = False
    must_not = False

    def _release(self) -> None:
        super()._release()
        self.must_not = self.must_not or self.busy


_COMPILING = _Compiling()


def _compiled(make: Callable[[], MachineCode]) -> MachineCode:
    """What is compiled by the thread that has the lock."""
    _COMPILING.busy = True
    try:
        return make()
    finally:
        _COMPILING.busy = False


def define_single(
    module: Module, kernel: IRFunction, arguments: record.Arguments, number: NumberName
) -> None:
    """The ways into the scalar kernel: a loop over a batch, and a builtin of Python."""
    define_loop(module, kernel, arguments, number)
    if available():
        define_direct(module, kernel, arguments)


class MachineFunction:
    """Machine code of a function of arrays, and the ways to call it.

    `names` are those of the inputs; `single` says whether there is one result; `also` are objects
    that the code needs to live. `single_code` and `wide` compile the code for one configuration and
    for groups, when the first call or the first batch arrives (docs/decisions/0064).

    **Attributes:** `data`, the record that the code works on.
    """

    _pick: Callable[[list[Any]], list[Any]] | None = None  # chooses blocks of the results

    def __init__(
        self,
        single_code: Callable[[], MachineCode],
        wide: Callable[[], MachineCode],
        data: np.ndarray,
        target: Target,
        names: Sequence[str],
        arguments: record.Arguments,
        *,
        single: bool,
        also: object,
    ) -> None:
        self.data, self.target, self.words = data, target, arguments.words
        self.names, self.shapes, self._single = tuple(names), arguments.shapes, single
        # what gufuncs need, which may live longer than this object
        self._owned: list[object] = [data, also, Scratch(data, self.words)]
        self._compile_single, self._compile_wide = single_code, wide
        self._fewest, self._is_wide = int(data[record.FEWEST]), False
        self._code: MachineCode | None = None
        self._one: Any = None  # the gufunc of the code for one, which leaves batches to groups
        self._groups: Any = None  # the gufunc of the code for groups alone
        self._loop = 0  # the address of the loop of the better one of them
        self._direct: Callable[..., Any] = never
        count = arguments.n_inputs
        self.input_shapes, self.output_shapes = self.shapes[:count], self.shapes[count:-1]
        self._tasks: dict[tuple[Any, ...], np.ndarray] = {}  # of batches that threads ran
        self._count, self._ranks = count, [len(s) for s in self.input_shapes]
        # numbers in an input from which results may be so large that their memory is used again
        widest = max((math.prod(s) for s in self.output_shapes), default=1) or 1
        narrowest = min((math.prod(s) for s in self.input_shapes), default=1) or 1
        self._many = max(narrowest * LEAST // (target.unit * widest), 2)

    @property
    def scratch_bytes(self) -> int:
        """The memory that a thread works in; of some functions it is known with their code."""
        return int(self.data[self.words])

    @property
    def one(self) -> Any:
        """The gufunc, whose last output is an integer status per configuration, as it is.

        It takes batches one by one until there is code for groups.
        """
        if self._one is None and _COMPILING.must_not and self._groups is not None:
            return self._groups
        return self._one if self._one is not None else self._load_single()

    @property
    def direct(self) -> Callable[..., Any]:
        """The builtin for one configuration in plain arrays, which returns None for others."""
        _ = self.one
        return self._direct

    @property
    def code(self) -> MachineCode:
        """The code for one configuration."""
        _ = self.one
        assert self._code is not None
        return self._code

    def direct_if_compiled(self) -> Callable[..., Any] | None:
        """`direct`, once there is code for one configuration."""
        return None if self._one is None else self._direct

    @property
    def ufunc(self) -> Any:
        """The gufunc, ready for batches."""
        if not self._is_wide and not _COMPILING.must_not:
            self._load_wide()
        return self.one

    def _load_single(self) -> Any:
        with _COMPILING.lock:
            if self._one is None:
                code = _compiled(self._compile_single)
                self._owned.append(code)
                self._code, self._loop = code, code.address("phipsi_loop")
                if available() and self.scratch_bytes < _SHORT * self.target.lanes:
                    address = code.address("phipsi_direct")
                    self._direct = make_direct(address, self.data, self._owned)
                self._one = self._gufunc(self._loop)  # last: others look for it without the lock
        return self._one

    def _load_wide(self) -> None:
        with _COMPILING.lock:
            if not self._is_wide:
                code = _compiled(self._compile_wide)
                self._owned.append(code)
                self.data[record.WIDE] = code.address("phipsi_groups")
                loop = code.address("phipsi_batches")
                self._loop = self._loop or loop
                self._groups = self._gufunc(loop)
                self._is_wide = True

    def _gufunc(self, loop: int) -> Any:
        return make_gufunc(loop, self.data.ctypes.data, self.shapes, self._count, self._owned)

    def ufunc_for(self, count: int) -> Any:
        """The gufunc for so many configurations, of which groups need no code for one."""
        if self._one is not None or count < self._fewest or _COMPILING.must_not:
            return self.one if count < self._fewest else self.ufunc
        self._load_wide()
        return self._groups

    def _ufunc_of(self, args: tuple[Any, ...]) -> Any:
        """The gufunc for these arguments, which may be lists."""
        if self._is_wide:
            if self._one is not None:
                return self._one
            first = args[0] if args else None  # the ordinary batch: ten times as fast
            if type(first) is _ARRAY and first.ndim == self._ranks[0] + 1:
                if len(first) >= self._fewest:
                    return self._groups
        batches = [np.shape(a)[: np.ndim(a) - r] for a, r in zip(args, self._ranks, strict=True)]
        return self.ufunc_for(math.prod(np.broadcast_shapes(*batches)))

    def quick(self, args: tuple[_Given, ...], threads: int, out: Array | None) -> Any:
        """One call of the gufunc; None if anything is out of the ordinary, or fails."""
        if len(args) != self._count:
            return None
        own = out is not None or threads != 1
        for a in args:
            if type(a) is _ARRAY and a.dtype is _FLOAT64:
                if a.size >= self._many:
                    own = True
            elif not (type(a) is list and a and type(a[0]) is float or surely_numbers(a)):
                args = tuple(map(as_numbers, self.names, args))
                break
        try:
            found = self._into(args, threads, out) if own else self._ufunc_of(args)(*args)
        except (TypeError, ValueError):  # the long way says why
            return None
        if found is None:
            return None
        *results, status = found
        if _count_nonzero(status) if status.ndim else status:  # three times as fast as `any`
            return None
        if self._pick is not None:
            results = self._pick(results)
        return results[0] if self._single else tuple(results)

    def _into(self, args: tuple[Any, ...], threads: Any, out: Any) -> Any:
        """The same with results in arrays of the caller or in `result_memory`, and in threads."""
        if self._pick is not None and out is not None:
            return None
        arrays, batches = list[NDArray[Any]](), set[tuple[int, ...]]()
        for a, rank in zip(args, self._ranks, strict=True):
            x = a if type(a) is _ARRAY else np.asarray(a, dtype=np.float64)
            arrays.append(x)
            batches.add(x.shape[: x.ndim - rank])
        same = len(batches) == 1
        batch = batches.pop() if same else np.broadcast_shapes(*batches)
        wanted = [batch + s for s in self.output_shapes]
        if out is None:
            results = [empty(s) for s in wanted]
        else:
            results = [out] if self._single else list(out)
            if not _fits(results, wanted, arrays):
                return None
        ufunc = self.ufunc_for(math.prod(batch))
        if threads == 1:
            return ufunc(*arrays, out=(*results, None))
        if type(threads) is not int or not same or len(batch) != 1 or not 1 < threads <= batch[0]:
            return None
        status = np.empty(batch, dtype=np.int64)
        good = self.run_shared([*arrays, *results, status], batch[0], threads)
        return None if good is None else (*results, _FINE if good else status)

    def run_shared(self, arrays: list[np.ndarray], count: int, threads: int) -> bool | None:
        """Run parts of a batch at the same time; True if no element failed.

        None, and nothing done, if the numbers are not float64 or not aligned. The last array is the
        status. Memory that was freed is mostly given out again, so the tasks of a few calls are
        kept.
        """
        self.ufunc_for(count)
        key: tuple[Any, ...] = (count, threads)
        for a in arrays:
            key += (address_of(a), a.strides, a.dtype)
        tasks = self._tasks.get(key)
        if tasks is None:
            tasks = self._make_tasks(arrays, batch_pieces(count, min(threads, MOST + 1)))
            if tasks is None:
                return None
            if len(self._tasks) >= _KEPT_TASKS:
                self._tasks.clear()
            self._tasks[key] = tasks
        return run_tasks(tasks)

    def _make_tasks(self, arrays: list[np.ndarray], pieces: list[slice]) -> np.ndarray | None:
        addresses, strides = [address_of(a) for a in arrays], [a.strides for a in arrays]
        odd = any(x & 7 for x in addresses) or any(s & 7 for one in strides for s in one)
        if odd or any(a.dtype is not _FLOAT64 for a in arrays[:-1]):
            return None
        sizes = dict.fromkeys(size for shape in self.shapes for size in shape)
        # LLVM is not asked again: in a forked process its lock may be held by a thread that is gone
        return tasks_of(self._loop, self.data.ctypes.data, list(sizes), addresses, strides, pieces)


_FINE = np.zeros((), dtype=np.int64)  # the status of a batch in which nothing failed


def _fits(
    targets: Sequence[Sequence[Array] | Array], shapes: list[tuple[int, ...]], inputs: list[Array]
) -> bool:
    """Whether results can be written straight into these arrays."""
    if len(targets) != len(shapes):
        return False
    for a, shape in zip(targets, shapes, strict=True):
        if type(a) is not np.ndarray or a.dtype is not _FLOAT64 or a.shape != shape:
            return False
        others = (*inputs, *(b for b in targets if b is not a))
        if not a.flags.writeable or any(np.may_share_memory(a, b) for b in others):
            return False
    return len({id(a) for a in targets}) == len(targets)


# ---- generalized ufuncs, through NumPy's C interface ---------------------------------------------

_FROM_SIGNATURE = 31  # PyUFunc_FromFuncAndDataAndSignature in the table of NumPy's C interface
# NumPy's numbers of types; int64 is C's long, and on Windows its long long
_DOUBLE, _INT64 = np.dtype(np.float64).num, np.dtype(np.int64).num
# Places in NumPy's PyUFuncObject, which is part of its stable binary interface: the name, and an
# object that the ufunc owns and releases when it is deleted.
_NAME_FIELD, _OWNED_FIELD = 56, 88


@cache
def _maker() -> Any:
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
        ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
        ctypes.c_char_p,
    )  # fmt: skip
    return kind(functions_in(vars(umath)["_UFUNC_API"])[_FROM_SIGNATURE])


class Owned:
    """Everything a gufunc points to: code, tables, and the arrays NumPy keeps addresses of."""

    def __init__(self, loop: int, data: int, n_arguments: int, name: str, also: object) -> None:
        self.also = also
        self.functions = (ctypes.c_void_p * 1)(loop)
        self.data = (ctypes.c_void_p * 1)(data)
        kinds = [_DOUBLE] * (n_arguments - 1) + [_INT64]
        self.types = ctypes.create_string_buffer(bytes(kinds))
        self.name = ctypes.create_string_buffer(name.encode())
        self.doc = ctypes.create_string_buffer(b"compiled by phipsi")


def make_gufunc(
    loop: int, data: int, shapes: list[tuple[int, ...]], n_inputs: int, also: object
) -> Any:
    """The gufunc of a compiled loop; it owns `also` (the code and the tables behind `data`)."""
    owned = Owned(loop, data, len(shapes), "phipsi", also)
    parts = ["(" + ",".join(map(str, s)) + ")" for s in shapes]
    signature = ",".join(parts[:n_inputs]) + "->" + ",".join(parts[n_inputs:])
    address = ctypes.addressof
    ufunc = _maker()(
        address(owned.functions), address(owned.data), address(owned.types), 1, n_inputs,
        len(shapes) - n_inputs, -1, address(owned.name), address(owned.doc), 0,
        signature.encode(),
    )  # fmt: skip
    _give(ufunc, owned)
    return ufunc


_KEPT: list[Owned] = []


def _give(ufunc: Any, owned: Owned) -> None:
    """Make the ufunc own an object; if its layout is not as expected, keep the object for good."""
    name = ctypes.c_void_p.from_address(id(ufunc) + _NAME_FIELD)
    place = ctypes.c_void_p.from_address(id(ufunc) + _OWNED_FIELD)
    if name.value != ctypes.addressof(owned.name) or place.value:
        _KEPT.append(owned)
        return
    increase = ctypes.pythonapi.Py_IncRef
    increase.argtypes, increase.restype = [ctypes.py_object], None
    increase(owned)
    place.value = id(owned)
