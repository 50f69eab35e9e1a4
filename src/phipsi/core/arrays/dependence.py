"""Dependence: which entries of an operation's result change with which of n numbers.

Each function gets the node, the patterns (size, n) of its arguments, and n. They are fields of the
rows in law_operations.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phipsi.core.arrays.graph import Array, Node


def picked(x: Node, args: Sequence[Array], n: int) -> Array:
    """Of entries that are chosen."""
    return args[0][x.data.ravel()]


def joined(x: Node, args: Sequence[Array], n: int) -> Array:
    """Of parts one after the other."""
    return np.concatenate(args)


def nothing(x: Node, args: Sequence[Array], n: int) -> Array:
    """Of numbers that do not change."""
    return np.zeros((x.size, n), dtype=bool)


def scattered(x: Node, args: Sequence[Array], n: int) -> Array:
    """Of entries that are added at places."""
    out = nothing(x, args, n)
    np.logical_or.at(out, x.data[0].ravel(), args[0])
    return out


def summed(x: Node, args: Sequence[Array], n: int) -> Array:
    """Of sums."""
    (y,) = x.args
    if x.data is None:
        return np.asarray(args[0].any(axis=0, keepdims=True))
    return args[0].reshape(*y.shape, n).any(axis=x.data).reshape(x.size, n)


def multiplied(x: Node, args: Sequence[Array], n: int) -> Array:
    """Of products of matrices."""
    a, b = x.args
    rows, between = a.shape if len(a.shape) == 2 else (1, *a.shape)
    columns = b.shape[1] if len(b.shape) == 2 else 1
    left, right = args[0].reshape(rows, between, n), args[1].reshape(between, columns, n)
    # a factor that is known to be zero passes nothing on
    left_zero, right_zero = (
        y.data.reshape(shape) == 0 if y.operation.name == "constant" else np.zeros(shape, bool)
        for y, shape in ((a, (rows, between)), (b, (between, columns)))
    )
    out = np.zeros((rows, columns, n), dtype=bool)
    for j in range(between):
        out |= left[:, None, j] & ~right_zero[None, j, :, None]
        out |= right[None, j] & ~left_zero[:, None, j, None]
    return out.reshape(x.size, n)
