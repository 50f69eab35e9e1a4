"""Graphs of laws on arrays: the reference that machine code is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from phipsi.laws.graph import Array, Node, in_order
from phipsi.laws.law_operations import OPERATIONS


def evaluate(results: Sequence[Node], values: Mapping[str, Array]) -> list[Array]:
    """The values (..., *shape) of nodes, from those of the inputs, batched on leading axes."""
    known: dict[Node, Array] = {}
    nodes = in_order(results)
    inputs = [x for x in nodes if x.operation.name == "input"]
    ranks = [np.ndim(values[x.data[0]]) - len(x.shape) for x in inputs]
    batch = max(ranks, default=0)
    with np.errstate(all="ignore"):
        for x in nodes:
            if x.operation.name == "input":
                known[x] = _with_batch(np.asarray(values[x.data[0]], float), x, batch)
            elif x.operation.name == "constant":
                known[x] = x.data.reshape((1,) * batch + x.shape)
            elif x.operation.is_entrywise:
                args = [_like(known[y], y, x) for y in x.args]
                known[x] = x.operation.array(*args, data=x.data)
            else:
                shapes = tuple(y.shape for y in x.args)
                args = [known[y] for y in x.args]
                known[x] = x.operation.array(*args, data=x.data, shapes=shapes)
    whole = np.broadcast_shapes(*(known[x].shape[:batch] for x in inputs)) if inputs else ()
    return [np.array(np.broadcast_to(known[x], (*whole, *x.shape))) for x in results]


def _with_batch(value: Array, x: Node, batch: int) -> Array:
    missing = batch - (value.ndim - len(x.shape))
    return value.reshape((1,) * missing + value.shape)


def _like(value: Array, y: Node, x: Node) -> Array:
    """A scalar argument with the axes of the result."""
    missing = len(x.shape) - len(y.shape)
    return value.reshape(value.shape + (1,) * missing) if missing else value


# ---- one operation -------------------------------------------------------------------------------


def entry_value(name: str, args: Sequence[Any], data: Any = None) -> Any:
    """An operation on single numbers, or arrays of them, real or complex.

    Complex numbers are never conjugated, so that complex steps give derivatives: choices are made
    by their real parts.
    """
    with np.errstate(all="ignore"):
        if name == "curve":
            data = tuple(np.asarray(x) for x in data)
        elif any(np.iscomplexobj(x) for x in args):
            if name in _OF_COMPLEX:
                return _OF_COMPLEX[name](*args)
            if name in _STEPS:
                args = [np.real(x) for x in args]
        return OPERATIONS[name].array(*map(np.asarray, args), data=data)


_STEPS = ("sign", "floor", "less", "less_equal", "equal", "both", "either", "not")


def _complex_angle(y: Any, x: Any) -> Any:
    """The angle of (x, y): that of the real parts, and the changes of the arcs of quotients."""
    steep = np.abs(np.real(y)) > np.abs(np.real(x))
    sign = np.where(np.real(y) < 0, -1.0, 1.0)
    flat = np.arctan(y / x) + np.where(np.real(x) < 0, np.pi * sign, 0.0)
    return np.where(steep, np.pi / 2 * sign - np.arctan(x / y), flat)


_OF_COMPLEX: dict[str, Callable[..., Any]] = {
    "abs": lambda x: np.where(np.real(x) < 0, -x, x),
    "minimum": lambda x, y: np.where(np.real(x) <= np.real(y), x, y),
    "maximum": lambda x, y: np.where(np.real(x) >= np.real(y), x, y),
    "where": lambda c, x, y: np.where(np.real(c) != 0, x, y),
    "arctan2": _complex_angle,
}
