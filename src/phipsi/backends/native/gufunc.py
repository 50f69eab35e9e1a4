"""A compiled loop as a NumPy generalized ufunc, through NumPy's C interface."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy._core._multiarray_umath as umath

_FROM_SIGNATURE = (
    31  # PyUFunc_FromFuncAndDataAndSignature in the ufunc table of NumPy's C interface
)
_DOUBLE, _INT64 = 12, 7  # NPY_DOUBLE, NPY_LONG


@cache
def _maker() -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
        ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int,
        ctypes.c_char_p,
    )  # fmt: skip
    return kind(table[_FROM_SIGNATURE])


class Gufunc:
    """Owns a gufunc and everything it points to."""

    def __init__(
        self,
        loop: int,
        data: int,
        shapes: list[tuple[int, ...]],
        n_inputs: int,
        name: str,
        owner: object,
    ) -> None:
        self.owner = owner  # code and tables stay alive with the gufunc
        self._functions = (ctypes.c_void_p * 1)(loop)
        self._data = (ctypes.c_void_p * 1)(data)
        kinds = [_DOUBLE] * (len(shapes) - 1) + [_INT64]
        self._types = ctypes.create_string_buffer(bytes(kinds))
        parts = ["(" + ",".join(map(str, s)) + ")" for s in shapes]
        signature = ",".join(parts[:n_inputs]) + "->" + ",".join(parts[n_inputs:])
        self._name, self._signature = name.encode(), signature.encode()
        self.ufunc = _maker()(
            ctypes.addressof(self._functions), ctypes.addressof(self._data),
            ctypes.addressof(self._types), 1, n_inputs, len(shapes) - n_inputs, -1, self._name,
            b"compiled by phipsi", 0, self._signature,
        )  # fmt: skip
