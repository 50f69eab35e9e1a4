"""Arithmetic that works for float, complex and object arrays (SymPy, mpmath) alike.

Complex numbers are never conjugated, so that complex-step derivatives pass through.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from phipsi.core.backends.rank_limits import ROW_FLOOR, ROW_TOLERANCE
from phipsi.core.spatial import ScalarOps, entry_value


@final
class ObjectOps(ScalarOps):
    """Numbers of any library and arrays of them: each is asked of its own kind."""

    def sin(self, x: Any) -> Any:
        """Sine, elementwise."""
        return _call("sin", x)

    def cos(self, x: Any) -> Any:
        """Cosine, elementwise."""
        return _call("cos", x)

    def sqrt(self, x: Any) -> Any:
        """Square root, elementwise."""
        return _call("sqrt", x)

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> Any:
        """An operation on single numbers, elementwise."""
        if all(np.asarray(x).dtype != object for x in args):
            return entry_value(name, args, data)
        return np.vectorize(lambda *xs: _on_objects(name, xs, data), otypes=[object])(*args)

    def log(self, x: Any) -> Any:
        """Natural logarithm, elementwise."""
        return _call("log", x)


OBJECTS = ObjectOps()


def _call(name: str, x: Any) -> Any:
    if isinstance(x, (int, float, complex)):
        x = np.asarray(x)
    if getattr(x, "dtype", None) is not None and x.dtype != object:
        return getattr(np, name)(x)
    if isinstance(x, np.ndarray):

        def one(e: Any) -> Any:
            return _object_function(name, e)(e)

        return np.vectorize(one, otypes=[object])(x)
    return _object_function(name, x)(x)


def _on_objects(name: str, xs: tuple[Any, ...], data: Any) -> Any:
    """An operation of laws on numbers of other libraries."""
    others: list[object] = [x for x in xs if not isinstance(x, (int, float))]
    kind = type(others[0]) if others else float
    if kind in FUNCTIONS:
        return FUNCTIONS[kind].entrywise(name, xs, data)
    if kind is float:
        return float(entry_value(name, xs, data))
    package = kind.__module__.split(".")[0]
    module: Any = sys.modules.get(package)
    if package not in ("sympy", "mpmath") or name == "curve":
        raise TypeError(f"{name} of {kind.__name__} is not known; use SymPy or mpmath numbers")
    if name in _RELATIONS or name == "where":
        holds = _RELATIONS[name](*xs) if name in _RELATIONS else xs[0] != 0
        yes, no = xs[1:] if name == "where" else (1, 0)
        if package == "sympy":
            return module.Piecewise((yes, holds), (no, True))
        return yes if holds else no
    if name in ("minimum", "maximum"):
        less = xs[0] < xs[1] if name == "minimum" else xs[1] < xs[0]
        return (
            module.Piecewise((xs[0], less), (xs[1], True))
            if package == "sympy"
            else (xs[0] if less else xs[1])
        )
    if name in _OPERATORS:
        return _OPERATORS[name](*xs)
    if name == "floor_divide":
        return module.floor(xs[0] / xs[1])
    return abs(xs[0]) if name == "abs" else getattr(module, name.replace("arc", "a"))(*xs)


def _are_equal(x: Any, y: Any) -> Any:
    return (x <= y) & (y <= x)


def _are_both(x: Any, y: Any) -> Any:
    return (x != 0) & (y != 0)


def _is_either(x: Any, y: Any) -> Any:
    return (x != 0) | (y != 0)


def _power(x: Any, y: Any) -> Any:
    return x**y


def _fused(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


def _quotient(x: Any, y: Any) -> Any:
    return x / y


def _is_zero(x: Any) -> Any:
    return (x <= 0) & (0 <= x)


_RELATIONS: dict[str, Callable[..., Any]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "equal": _are_equal,
    "both": _are_both,
    "either": _is_either,
    "not": _is_zero,
}

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _quotient,
    "neg": operator.neg, "fma": _fused, "power": _power, "remainder": operator.mod,
}  # fmt: skip

FUNCTIONS: dict[type, ScalarOps] = {}
"""Classes of numbers, and what their kind offers; SymPy and mpmath are known."""


def _object_function(name: str, x: Any) -> Callable[[Any], Any]:
    if type(x) in FUNCTIONS:
        return getattr(FUNCTIONS[type(x)], name)
    package = type(x).__module__.split(".")[0]
    module = sys.modules.get(package)
    found = getattr(module, name, None) if package in ("sympy", "mpmath") else None
    if found is None:
        if isinstance(x, (int, float)):
            return lambda e: getattr(np, name)(float(e))
        raise TypeError(f"{name} of {type(x).__name__} is not known; use SymPy or mpmath numbers")
    return found


def result_dtype(arrays: list[np.ndarray]) -> np.dtype[Any]:
    """float64, complex128 or object, whichever holds all inputs."""
    if any(a.dtype == object for a in arrays):
        return np.dtype(object)
    if any(np.iscomplexobj(a) for a in arrays):
        return np.dtype(np.complex128)
    return np.dtype(np.float64)


def generic_inverse(a: np.ndarray) -> np.ndarray:
    """Inverse by elimination without pivoting, for complex and object blocks."""
    n = a.shape[-1]
    work = a.copy()
    out = np.zeros_like(a)
    for i in range(n):
        out[..., i, i] = 1 if a.dtype != object else 1 + 0 * a[..., i, i]
    for i in range(n):
        # without a batch, an object is not an array
        pivot = np.asarray(1 / work[..., i, i])[..., None]
        work[..., i, :] = work[..., i, :] * pivot
        out[..., i, :] = out[..., i, :] * pivot
        for j in range(n):
            if j != i:
                factor = np.array(work[..., j, i])[..., None]
                work[..., j, :] = work[..., j, :] - factor * work[..., i, :]
                out[..., j, :] = out[..., j, :] - factor * out[..., i, :]
    return out


def generic_cholesky(a: np.ndarray) -> np.ndarray:
    """Lower L with L L* = A (no conjugation), for complex and object blocks."""
    n = a.shape[-1]
    out = np.zeros_like(a)
    for j in range(n):
        s = a[..., j, j] - (out[..., j, :j] * out[..., j, :j]).sum(axis=-1)
        out[..., j, j] = OBJECTS.sqrt(s)
        for i in range(j + 1, n):
            t = a[..., i, j] - (out[..., i, :j] * out[..., j, :j]).sum(axis=-1)
            out[..., i, j] = t / out[..., j, j]
    return out


def natural_square(z: np.ndarray, admittance: np.ndarray) -> np.ndarray:
    """How large z* Υ z of a row z (..., 6) would be if its body moved in all directions alike.

    |z|² times the trace of Υ (..., 6, 6), apart for turning and sliding.
    """
    halves = slice(0, 3), slice(3, 6)
    diagonal = np.diagonal(admittance, axis1=-2, axis2=-1)
    return sum((z[..., h] * z[..., h]).sum(-1) * diagonal[..., h].sum(-1) for h in halves)  # type: ignore[return-value]


def solve_semidefinite(
    a: np.ndarray, u: np.ndarray, sizes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """y with A y = u for a symmetric A ≥ 0, by elimination in the given order.

    A pivot that is rounding error of the row's own diagonal entry, or of `sizes` (..., n), how
    large that entry would be if nothing in it cancelled, marks a row that depends on those before
    it: its unknown is set to zero, and the others solve the equations. With y, how much the
    dependent rows ask for beyond what the others give, zero for all other rows. Where the sizes are
    not known, the largest entry is taken for all of them.
    """
    n = a.shape[-1]
    work, y = a.copy(), u.copy()
    recips: list[np.ndarray] = []
    known = _largest(a)[..., None] if sizes is None else abs(sizes)
    floors = np.broadcast_to(known * (ROW_FLOOR / ROW_TOLERANCE), a.shape[:-1])
    gap = np.zeros_like(y)
    for i in range(n):
        pivot, own = np.asarray(work[..., i, i]), np.asarray(abs(a[..., i, i]))
        floor = np.asarray(floors[..., i])
        recip = _reciprocal_pivot(pivot, np.where(own > floor, own, floor))
        recips.append(recip)
        gap[..., i, :] = np.where(np.asarray(recip == 0)[..., None], y[..., i, :], 0)
        for j in range(i + 1, n):
            factor = np.asarray(work[..., j, i] * recip)[..., None]
            work[..., j, i + 1 :] = work[..., j, i + 1 :] - factor * work[..., i, i + 1 :]
            y[..., j, :] = y[..., j, :] - factor * y[..., i, :]
    for i in reversed(range(n)):
        above = np.matmul(work[..., i : i + 1, i + 1 :], y[..., i + 1 :, :])[..., 0, :]
        y[..., i, :] = (y[..., i, :] - above) * np.asarray(recips[i])[..., None]
    return y, gap


def _largest(a: np.ndarray) -> np.ndarray:
    """The largest entry on the diagonal."""
    sizes = abs(np.diagonal(a, axis1=-2, axis2=-1))
    return np.asarray(sizes.max(-1) if a.shape[-1] else 0.0)


def _reciprocal_pivot(pivot: np.ndarray, size: np.ndarray) -> np.ndarray:
    """1 / pivot, or 0 for a dependent row."""
    if pivot.dtype == object:

        def invert(p: Any, s: Any) -> Any:
            return 1 / p if abs(p) > ROW_TOLERANCE * abs(s) else 0 * p

        return np.vectorize(invert, otypes=[object])(pivot, size)
    good = np.abs(pivot) > ROW_TOLERANCE * np.abs(size)
    return np.where(good, 1 / np.where(good, pivot, 1), 0)


def exchanged_pivots(a: np.ndarray) -> np.ndarray:
    """The sizes of the pivots of an elimination that exchanges rows."""
    n = a.shape[-1]
    work, out = a.copy(), np.empty(a.shape[:-1])
    with np.errstate(all="ignore"):
        for i in range(n):
            best = i + np.abs(work[..., i:, i]).argmax(-1)
            order = np.zeros(work.shape[:-1], dtype=np.intp) + np.arange(n, dtype=np.intp)
            np.put_along_axis(order, best[..., None], i, -1)
            order[..., i] = best
            work = np.take_along_axis(work, order[..., None], -2)
            out[..., i] = np.abs(work[..., i, i])
            column = work[..., i + 1 :, i] / work[..., i, i][..., None]
            work[..., i + 1 :, :] -= column[..., :, None] * work[..., i, :][..., None, :]
    return out
