"""A call of one configuration without NumPy's ufunc machinery.

A gufunc costs about a microsecond before its loop starts, as much as the dynamics of an arm. The
function made here is a Python builtin of generated code: if all arguments are plain arrays of
float64 of exactly the right shape, it makes the results, runs the one-lane kernel on the arrays
themselves and returns; in every other case (lists, batches, a failure) it returns None and the
caller goes the ordinary way, which also explains failures.

Reasons: docs/decisions/0017.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy._core._multiarray_umath as umath

from phipsi.backends.native.calls import scratch
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import I1, I8, I32, I64, POINTER, i64

# Places in NumPy's PyArrayObject, which is part of its stable binary interface.
_DATA, _RANK, _SHAPE, _DTYPE, _FLAGS = 16, 24, 32, 56, 64
_TYPE = 8  # of any Python object
_PLAIN = 0x1 | 0x100  # C-contiguous and aligned
_DOUBLE = 12  # NPY_DOUBLE
_FASTCALL = 0x80  # METH_FASTCALL
# functions of NumPy by their place in the table of its C interface, and of Python by name
_NUMPY = {"phipsi_PyArray_New": 93, "phipsi_PyArray_Return": 76}
_PYTHON = ("Py_IncRef", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem")
# addresses the code compares with, as words of the data record
WORDS = 3
_ARRAY, _FLOAT64, _NONE = range(WORDS)


def sizes_after(size_word: int) -> int:
    """Where the data record holds the core sizes of the arguments, after the words of Python."""
    return size_word + 1 + scratch.SLOTS + WORDS


def define_direct(
    module: ir.Module,
    kernel: ir.Function,
    pattern: list[tuple[int, ...]],
    n_inputs: int,
    size_word: int,
) -> None:
    """Add ``PyObject *phipsi_direct(self, args, nargs)``.

    `self` is the data record as a NumPy array: `size_word` holds the scratch size, then come the
    scratch slots, the `WORDS` of Python, and the core sizes of all arguments.
    """
    w = _Writer(module)
    b, this, args, count = w.b, *w.function.args
    data = w.at(this, _DATA, POINTER)
    python = size_word + 1 + scratch.SLOTS
    array, float64, none = (w.at(data, 8 * (python + i), POINTER) for i in range(WORDS))
    sizes: list[int] = []  # where the sizes of each argument begin
    place = sizes_after(size_word)
    for shape in pattern:
        sizes.append(place)
        place += len(shape)
    buffers = b.alloca(POINTER, size=len(pattern))
    status = b.alloca(I64)
    outputs = range(n_inputs, len(pattern) - 1)

    def give(i: int, address: Any) -> None:
        b.store(address, b.gep(buffers, [i64(8 * i)], source_etype=I8))

    w.require(b.icmp_signed("==", count, i64(n_inputs)))
    for i in range(n_inputs):
        a = w.at(args, 8 * i, POINTER)
        w.require(b.icmp_unsigned("==", w.at(a, _TYPE, POINTER), array))
        w.require(b.icmp_unsigned("==", w.at(a, _DTYPE, POINTER), float64))
        plain = ir.Constant(I32, _PLAIN)
        w.require(b.icmp_signed("==", b.and_(w.at(a, _FLAGS, I32), plain), plain))
        w.require(b.icmp_signed("==", w.at(a, _RANK, I32), ir.Constant(I32, len(pattern[i]))))
        shape = w.at(a, _SHAPE, POINTER)
        for d in range(len(pattern[i])):
            wanted = w.at(data, 8 * (sizes[i] + d), I64)
            w.require(b.icmp_signed("==", w.at(shape, 8 * d, I64), wanted))
        give(i, w.at(a, _DATA, POINTER))
    results: list[Any] = []
    null, zero = ir.Constant(POINTER, None), ir.Constant(I32, 0)
    for i in outputs:
        rank = ir.Constant(I32, len(pattern[i]))
        shape = b.gep(data, [i64(8 * sizes[i])], source_etype=I8)
        kind = ir.Constant(I32, _DOUBLE)
        a = w.call(
            "phipsi_PyArray_New", POINTER, array, rank, shape, kind, null, null, zero, zero, null
        )
        w.made(a, results)
        give(i, w.at(a, _DATA, POINTER))
        results.append(a)
    give(len(pattern) - 1, status)
    failed, fine = (w.function.append_basic_block(n) for n in ("failed", "fine"))
    block, memory = scratch.acquire(b, data, size_word, failed)
    b.call(kernel, [data, memory, buffers, ir.Constant(I1, 1)])
    scratch.release(b, data, size_word, block)
    b.cbranch(b.icmp_signed("==", b.load(status, typ=I64), i64(0)), fine, failed)
    b.position_at_end(failed)
    w.drop(results)
    b.branch(w.refuse)
    b.position_at_end(fine)
    for j, i in enumerate(outputs):
        if not pattern[i]:  # arrays without axes become NumPy's numbers
            results[j] = w.call("phipsi_PyArray_Return", POINTER, results[j])
    if len(results) == 1:
        b.ret(results[0])
    else:
        whole = w.call("PyTuple_New", POINTER, i64(len(results)))
        w.made(whole, results)
        for j, a in enumerate(results):
            w.call("PyTuple_SetItem", I32, whole, i64(j), a)
        b.ret(whole)
    b.position_at_end(w.refuse)
    w.call("Py_IncRef", ir.VoidType(), none)
    b.ret(none)


class _Writer:
    """Writes the tests and calls of the function."""

    def __init__(self, module: ir.Module) -> None:
        kind = ir.FunctionType(POINTER, [POINTER, POINTER, I64])
        self.function = ir.Function(module, kind, "phipsi_direct")
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.refuse = self.function.append_basic_block("refuse")

    def at(self, base: Any, offset: int, kind: Any) -> Any:
        """What stands `offset` bytes after an address."""
        return self.b.load(self.b.gep(base, [i64(offset)], source_etype=I8), typ=kind)

    def require(self, condition: Any) -> None:
        """Go on if the condition holds, else refuse."""
        following = self.function.append_basic_block("so_far")
        self.b.cbranch(condition, following, self.refuse)
        self.b.position_at_end(following)

    def call(self, name: str, gives: Any, *arguments: Any) -> Any:
        """Call a function of Python or NumPy."""
        kind = ir.FunctionType(gives, [a.type for a in arguments])
        module = self.b.module
        function = module.globals.get(name) or ir.Function(module, kind, name)
        return self.b.call(function, arguments)

    def drop(self, objects: list[Any]) -> None:
        """Give up references."""
        for x in objects:
            self.call("Py_DecRef", ir.VoidType(), x)

    def made(self, x: Any, others: list[Any]) -> None:
        """Leave with Python's error if an object could not be made."""
        nothing, following = (self.function.append_basic_block(n) for n in ("nothing", "made"))
        null = ir.Constant(POINTER, None)
        self.b.cbranch(self.b.icmp_unsigned("==", x, null), nothing, following)
        self.b.position_at_end(nothing)
        self.drop(others)
        self.b.ret(null)
        self.b.position_at_end(following)


# ---- the builtin
# -----------------------------------------------------------------------------------


class _Method(ctypes.Structure):
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
        self.method = _Method(b"phipsi_direct", address, _FASTCALL, b"compiled by phipsi")
        self.__array_interface__ = record.__array_interface__


@cache
def available() -> bool:
    """True if arrays look in memory as the code expects, and Python's functions are found."""
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
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
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


def python_words() -> list[int]:
    """The words of the data record that say where Python keeps its objects."""
    return [id(np.ndarray), id(np.dtype(np.float64)), id(None)]


def make_direct(address: int, record: np.ndarray, also: object) -> Any:
    """The builtin of a compiled `phipsi_direct`; it owns the record and `also`."""
    owned = _Record(address, record, also)
    maker = ctypes.pythonapi.PyCFunction_NewEx
    maker.restype = ctypes.py_object
    maker.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return maker(ctypes.addressof(owned.method), np.asarray(owned), None)
