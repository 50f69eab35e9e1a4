"""A call of one configuration without NumPy's ufunc machinery.

A gufunc costs about a microsecond before its loop starts, as much as the dynamics of an arm. The
function defined here is a Python builtin of generated code: if all arguments are plain arrays of
float64 of exactly the right shape, it creates the results, runs the scalar kernel on the arrays
themselves and returns; in every other case (lists, batches, a failure) it returns None and the
caller goes the ordinary way, which also explains failures.

Reasons: docs/decisions/0017.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, final

import numpy as np
import numpy._core._multiarray_umath as umath

from phipsi.native import data_record as record
from phipsi.native.calls import scratch
from phipsi.native.targets.llvm_library import llvm
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I1, I32, I64, POINTER, WORD, i64

# Places in NumPy's PyArrayObject, which is part of its stable binary interface.
_DATA, _RANK, _SHAPE, _DTYPE, _FLAGS = 16, 24, 32, 56, 64
_TYPE = 8  # of any Python object
_PLAIN = 0x1 | 0x100  # C-contiguous and aligned
_DOUBLE = 12  # NPY_DOUBLE
_FASTCALL = 0x80  # METH_FASTCALL
# functions of NumPy by their place in the table of its C interface, and of Python by name
_NUMPY = {"phipsi_PyArray_New": 93, "phipsi_PyArray_Return": 76}
_PYTHON = ("Py_IncRef", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem")


def define_direct(module: ir.Module, kernel: ir.IRFunction, arguments: record.Arguments) -> None:
    """Add ``PyObject *phipsi_direct(self, args, nargs)``; `self` is the data record as an array."""
    _DirectCall(module, arguments).write(kernel)


@final
class _DirectCall:
    """Writes the function: it returns None for arguments that are out of the ordinary."""

    def __init__(self, module: ir.Module, arguments: record.Arguments) -> None:
        self.pattern, self.n_inputs = arguments.pattern, arguments.n_inputs
        self.size_word = arguments.words
        kind = ir.FunctionType(POINTER, [POINTER, POINTER, I64])
        self.function = ir.IRFunction(module, kind, "phipsi_direct")
        b = self.b = self.function.begin()
        self.refuse = self.function.append_basic_block("refuse")
        this, self.args, self.count = self.function.args
        self.data = self._at(this, _DATA, POINTER)
        self.array, self.float64, self.none = (
            self._at(self.data, WORD * (arguments.python + i), POINTER)
            for i in range(record.N_PYTHON)
        )
        lengths = [len(shape) for shape in self.pattern]
        starts = accumulate(lengths[:-1], initial=arguments.sizes)
        self.sizes = [WORD * start for start in starts]  # of the arguments, in the data
        self.buffers = b.alloca(POINTER, size=len(lengths))

    def write(self, kernel: ir.IRFunction) -> None:
        """The whole function."""
        b = self.b
        status = b.alloca(I64)
        self._require(b.icmp_signed("==", self.count, i64(self.n_inputs)))
        for i in range(self.n_inputs):
            self._give(i, self._checked_input(i))
        results: list[Any] = []
        for i in range(self.n_inputs, len(self.pattern) - 1):
            results.append(self._new_result(i, results))
            self._give(i, self._at(results[-1], _DATA, POINTER))
        b.store(status, b.at(self.buffers, WORD * (len(self.pattern) - 1)))
        failed, fine = (self.function.append_basic_block(n) for n in ("failed", "fine"))
        block, memory = scratch.acquire(b, self.data, self.size_word, failed)
        b.call(kernel, [self.data, memory, self.buffers, ir.IRConstant(I1, 1)])
        scratch.release(b, self.data, self.size_word, block)
        b.cbranch(b.icmp_signed("==", b.load(status, typ=I64), i64(0)), fine, failed)
        b.position_at_end(failed)
        self._drop(results)
        b.branch(self.refuse)
        b.position_at_end(fine)
        self._return(results)
        b.position_at_end(self.refuse)
        b.call_named("Py_IncRef", ir.VOID, [self.none])
        b.ret(self.none)

    def _give(self, i: int, address: ir.IRValue) -> None:
        """Argument i of the kernel is at this address."""
        self.b.store(address, self.b.at(self.buffers, WORD * i))

    def _checked_input(self, i: int) -> ir.IRValue:
        """The address of the numbers of argument i, if it is a plain array of the right shape."""
        b, rank = self.b, len(self.pattern[i])
        a = self._at(self.args, WORD * i, POINTER)
        self._require(b.icmp_unsigned("==", self._at(a, _TYPE, POINTER), self.array))
        self._require(b.icmp_unsigned("==", self._at(a, _DTYPE, POINTER), self.float64))
        plain = ir.IRConstant(I32, _PLAIN)
        self._require(b.icmp_signed("==", b.and_(self._at(a, _FLAGS, I32), plain), plain))
        self._require(b.icmp_signed("==", self._at(a, _RANK, I32), ir.IRConstant(I32, rank)))
        shape = self._at(a, _SHAPE, POINTER)
        for d in range(rank):
            wanted = self._at(self.data, self.sizes[i] + WORD * d, I64)
            self._require(b.icmp_signed("==", self._at(shape, WORD * d, I64), wanted))
        return self._at(a, _DATA, POINTER)

    def _new_result(self, i: int, others: Sequence[ir.IRValue]) -> ir.IRValue:
        """An array for argument i; the others are released if there is no memory for it."""
        b, null, zero = self.b, ir.IRConstant(POINTER, None), ir.IRConstant(I32, 0)
        rank, kind = ir.IRConstant(I32, len(self.pattern[i])), ir.IRConstant(I32, _DOUBLE)
        shape = b.at(self.data, self.sizes[i])
        arguments = [self.array, rank, shape, kind, null, null, zero, zero, null]
        out = b.call_named("phipsi_PyArray_New", POINTER, arguments)
        self._made(out, others)
        return out

    def _return(self, results: list[Any]) -> None:
        """Return the results: one as it is, several as a tuple."""
        b = self.b
        for j, shape in enumerate(self.pattern[self.n_inputs : -1]):
            if not shape:  # arrays without axes become NumPy's numbers
                results[j] = b.call_named("phipsi_PyArray_Return", POINTER, [results[j]])
        if len(results) == 1:
            b.ret(results[0])
            return
        whole = b.call_named("PyTuple_New", POINTER, [i64(len(results))])
        self._made(whole, results)
        for j, a in enumerate(results):
            b.call_named("PyTuple_SetItem", I32, [whole, i64(j), a])
        b.ret(whole)

    def _at(self, base: ir.IRValue, offset: int, kind: Any) -> ir.IRValue:
        """What stands `offset` bytes after an address."""
        return self.b.load(self.b.at(base, offset), typ=kind)

    def _require(self, condition: ir.IRValue) -> None:
        """Continue if the condition holds, otherwise return None."""
        following = self.function.append_basic_block("so_far")
        self.b.cbranch(condition, following, self.refuse)
        self.b.position_at_end(following)

    def _drop(self, objects: Sequence[ir.IRValue]) -> None:
        """Release references."""
        for x in objects:
            self.b.call_named("Py_DecRef", ir.VOID, [x])

    def _made(self, x: ir.IRValue, others: Sequence[ir.IRValue]) -> None:
        """Leave with Python's error if an object could not be created."""
        nothing, following = (self.function.append_basic_block(n) for n in ("nothing", "made"))
        null = ir.IRConstant(POINTER, None)
        self.b.cbranch(self.b.icmp_unsigned("==", x, null), nothing, following)
        self.b.position_at_end(nothing)
        self._drop(others)
        self.b.ret(null)
        self.b.position_at_end(following)


# ---- the builtin
# -----------------------------------------------------------------------------------


class _PyMethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Record:
    """A data record as an object whose array keeps everything alive that the code points to."""

    def __init__(self, address: int, record: np.ndarray, also: object) -> None:
        self.record, self.also = record, also
        self.method = _PyMethodDef(b"phipsi_direct", address, _FASTCALL, b"compiled by phipsi")
        self.__array_interface__ = record.__array_interface__


def functions_in(capsule: Any) -> Any:
    """The addresses of functions in a table of NumPy's C interface."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))


@cache
def available() -> bool:
    """True if arrays look in memory as the code expects, and Python's functions are found."""
    if llvm is None or sys.implementation.name != "cpython":
        return False
    probe = np.zeros((2, 3))

    def word(offset: int, kind: Any = ctypes.c_size_t) -> int:
        return int(kind.from_address(id(probe) + offset).value)

    as_expected = (
        word(_TYPE) == id(np.ndarray)
        and word(_DATA) == probe.ctypes.data
        and word(_RANK, ctypes.c_int) == 2
        and (ctypes.c_ssize_t * 2).from_address(word(_SHAPE))[:] == [2, 3]
        and word(_DTYPE) == id(np.dtype(np.float64))
        and word(_FLAGS, ctypes.c_int) & _PLAIN == _PLAIN
    )
    if not as_expected or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    table = functions_in(vars(umath)["_ARRAY_API"])
    for name, place in _NUMPY.items():
        llvm.add_symbol(name, table[place] or 0)
    for name in _PYTHON:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        llvm.add_symbol(name, address or 0)
    return True


_word_at = ctypes.c_size_t.from_address


def address_of(a: np.ndarray) -> int:
    """Where the numbers of an array begin; twenty times faster than asking the array."""
    return _word_at(id(a) + _DATA).value if available() else a.ctypes.data


def make_direct(address: int, record: np.ndarray, also: object) -> Any:
    """The builtin of a compiled `phipsi_direct`; it owns the record and `also`."""
    owned = _Record(address, record, also)
    maker = ctypes.pythonapi.PyCFunction_NewEx
    maker.restype = ctypes.py_object
    maker.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return maker(ctypes.addressof(owned.method), np.asarray(owned), None)
