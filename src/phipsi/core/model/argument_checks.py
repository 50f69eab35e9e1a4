"""Arguments that come from outside: numbers, which of them are not finite, and lists."""

from __future__ import annotations

import cmath
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError, is_a, is_whole

_FLOAT64 = np.dtype(np.float64)
_NO_NUMBERS = (str, bytes, bool, np.bool_, np.datetime64, np.timedelta64)


def surely_numbers(value: list[Any] | tuple[Any, ...] | NDArray[Any]) -> bool:
    """True for lists that begin with a number, and arrays: NumPy converts or rejects them.

    A quick check: all other values go through `as_numbers`.
    """
    if type(value) is np.ndarray:
        return value.dtype.kind in "fiu"
    if type(value) is list or type(value) is tuple:
        return len(value) > 0 and type(value[0]) in (float, int)
    return False


def as_numbers(name: str, value: Any) -> NDArray[Any]:
    """The numbers as float64, complex128, or objects that are numbers of some other kind.

    Booleans, strings, dates and masked entries are not numbers.
    """
    try:
        a = np.asarray(value)
    except (ValueError, TypeError) as e:
        raise InputError(f"{name} is not an array of numbers: {e}") from None
    if a is not value:
        _reject_masked(name, value, a.ndim)
    if a.dtype is _FLOAT64:
        return a
    if a.dtype == object:
        for x in a.flat:
            if x is None or isinstance(x, _NO_NUMBERS):
                raise InputError(f"{name} holds {x!r}, which is not a number")
        return a
    if a.dtype.kind not in "fiuc" and a.size:
        held = f"the text {str(a.flat[0])[:40]!r}" if a.dtype.kind == "U" else a.dtype
        raise InputError(f"{name} holds {held}, not numbers")
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64, copy=False)


def as_floats(name: str, value: Any) -> NDArray[Any]:
    """Real numbers as float64; they may be infinite, or NaN."""
    a = as_numbers(name, value)
    if a.dtype.kind == "c":
        raise InputError(f"{name} holds {a.dtype}, but must be real numbers here")
    try:
        return a.astype(np.float64, copy=False)
    except (TypeError, ValueError):  # objects
        raise InputError(f"{name} holds {value!r}, which is not a number") from None


def floats_of(value: Any, shape: tuple[int, ...] = (0,)) -> NDArray[Any]:
    """Real numbers as float64, or NaN of a shape for anything else."""
    try:
        return as_floats("it", value)
    except InputError:
        return np.full(shape, np.nan)


def plain_numbers(values: Any) -> NDArray[Any]:
    """An array; exact numbers in it, such as fractions, as floats. The caller checks its kind."""
    array = np.asarray(values)
    if array.dtype != object:
        return array
    try:
        return as_floats("values", array)
    except InputError:
        return array


# ---- what a value of no known type is ------------------------------------------------------------


def kind_of(x: object) -> str:
    """The name of the class of a value."""
    return type(x).__name__


def is_array(x: object) -> TypeGuard[NDArray[Any]]:
    """Whether a value is an array of any numbers."""
    return isinstance(x, np.ndarray)


def is_tuple(x: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether a value is a tuple of anything."""
    return isinstance(x, tuple)


def is_list(x: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether a value is a list or a tuple of anything."""
    return isinstance(x, list | tuple)


def is_collection(x: object) -> TypeGuard[Collection[Any]]:
    """Whether a value is a list, a tuple or a set of anything."""
    return isinstance(x, list | tuple | set | frozenset)


def is_mapping(x: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value is a mapping of anything."""
    return isinstance(x, Mapping)


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """An integer that is large enough, and small enough for a counter."""
    if not is_whole(value) or value < least:
        raise InputError(f"{name}={value!r} must be an integer of at least {least}")
    if value >= 2**63:
        raise InputError(f"{name}={value!r} must be below 2**63, the limit of 64-bit integers")
    return int(value)


def as_list(name: str, value: Any, example: str) -> list[Any]:
    """The members of a list, or of whatever can be gone through; a text is one of its own."""
    if isinstance(value, str):
        return [value]
    try:
        return list(value)
    except TypeError:
        raise InputError(f"{name}={value!r} must be a list, such as {name}={example}") from None


def flattened(members: Iterable[Any]) -> tuple[Any, ...]:
    """The members, with those of lists and tuples among them in their place."""
    out: list[Any] = []
    for one in members:
        out += flattened(one) if type(one) in (list, tuple) else (one,)
    return tuple(out)


def _is_of_other_class(value: object) -> TypeGuard[NDArray[Any]]:
    return type(value) is not np.ndarray and isinstance(value, np.ndarray)


def _reject_masked(name: str, value: Any, depth: int) -> None:
    """An entry that is masked has no number; arrays without masked entries are fine."""
    # a subclass first: np.ma takes 8 ms to load, and whoever has such arrays has loaded it
    if _is_of_other_class(value) and isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            masked: NDArray[np.bool_] = np.ma.getmaskarray(value)
            index = [int(i) for i in np.argwhere(masked)[0]]
            raise InputError(
                f"{name} is masked at index {index}, so it has no value. Remove those elements, or "
                f"fill them:  {name}.filled(0.0)"
            )
    elif depth > 1 and is_list(value):
        for x in value:
            _reject_masked(name, x, depth - 1)


def is_masked(value: Any) -> bool:
    """Whether an entry of an array is masked, and so no number."""
    return _is_of_other_class(value) and bool(np.ma.is_masked(value))


def first_not_finite(a: NDArray[Any]) -> tuple[int, ...] | None:
    """Index of the first NaN or infinity; None if all numbers are finite."""
    good = finite(a)
    return None if good.all() else tuple(int(i) for i in np.argwhere(~good)[0])


def flat_batch(a: NDArray[Any], batch: tuple[int, ...], axes: int = 1) -> NDArray[Any]:
    """An array for every element of a batch on one axis: (n, …), with its last `axes` axes."""
    tail = a.shape[a.ndim - axes :]
    return np.broadcast_to(a, (*batch, *tail)).reshape(math.prod(batch), *tail)


def entries_of(slices: Iterable[slice]) -> NDArray[np.intp]:
    """The entries that slices cover, one slice after the other."""
    return np.array([i for s in slices for i in range(s.start, s.stop)], dtype=np.intp)


def all_finite(a: NDArray[Any]) -> bool:
    """Whether all numbers of an array of floats are finite, in half the time that `all` takes."""
    return np.count_nonzero(np.isfinite(a)) == a.size


def finite(a: NDArray[Any]) -> NDArray[np.bool_]:
    """True where a number is finite; symbols are."""
    if a.dtype != object:
        return np.isfinite(a)
    return np.array([_is_finite(x) for x in a.flat], dtype=bool).reshape(a.shape)


def _is_finite(x: Any) -> bool:
    if is_a(x, (float, complex, np.inexact)):
        return cmath.isfinite(x)
    try:
        nothing = x - x
        return bool(nothing == 0) or bool(getattr(nothing, "free_symbols", ()))
    except TypeError:  # not a number: the operation that uses it raises
        return True
