"""A compiled loop as a NumPy generalized ufunc, through NumPy's C interface."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy._core._multiarray_umath as umath

_FROM_SIGNATURE = 31  # PyUFunc_FromFuncAndDataAndSignature in the table of NumPy's C interface
_DOUBLE, _INT64 = 12, 7  # NPY_DOUBLE, NPY_LONG
# Places in NumPy's PyUFuncObject, which is part of its stable binary interface: the name, and an
# object that the ufunc owns and releases when it is deleted.
_NAME_FIELD, _OWNED_FIELD = 56, 88


@cache
def _maker() -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
        ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
        ctypes.c_char_p,
    )  # fmt: skip
    return kind(table[_FROM_SIGNATURE])


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
