"""Diagonals of derivatives: how entries of a result change with the same entries of an input.

One tangent gives the derivatives in all directions of a group of entries, if no entry of the result
in the group depends on another of its inputs. So a term that acts joint by joint takes one tangent,
and one that mixes all n entries takes n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from phipsi.laws.graph import Array, Node, in_order
from phipsi.laws.law_derivatives import tangents
from phipsi.laws.law_operations import apply, constant


def diagonal(
    result: Node, by: Node, places: Sequence[int] | None = None, most: int | None = None
) -> Node | None:
    """∂resultᵢ/∂byᵢ (n,) of a vector by another, as a graph; None where it is zero for all i.

    `places` says which entry of `by` belongs to each of the result, −1 for none, if it is not the
    one with the same number. Terms of a sum are differentiated one by one; those that would take
    more than `most` tangents are left out.
    """
    at = np.arange(result.size) if places is None else np.asarray(places)
    out: Node | None = None
    for sign, term in _terms(result):
        pattern = dependence(term, by)[:, at] & (at >= 0)
        groups = _groups(pattern)
        if most is not None and len(groups) > most:
            continue
        for group in groups:
            direction, mask = np.zeros(by.shape), np.zeros(result.shape)
            direction[at[group]], mask[group] = 1.0, 1.0
            (change,) = tangents([term], {by: constant(direction)})
            if change is None:
                continue
            if len(group) < result.size:
                change = apply("where", constant(mask), change, constant(0.0))
            if out is None:
                out = change if sign > 0 else apply("neg", change)
            else:
                out = apply("add" if sign > 0 else "sub", out, change)
    return out


def _terms(x: Node, sign: int = 1) -> list[tuple[int, Node]]:
    """The terms of a sum with their signs; those that are not of its shape stay together."""
    name = x.operation.name
    if name == "neg":
        return _terms(x.args[0], -sign)
    if name in ("add", "sub") and all(y.shape == x.shape for y in x.args):
        first, second = x.args
        return [*_terms(first, sign), *_terms(second, sign if name == "add" else -sign)]
    return [(sign, x)]


def dependence(result: Node, by: Node) -> Array:
    """Which entries of a result change with which of an input: booleans (result.size, by.size).

    Functions of steps do not change, as for `tangents`.
    """
    found: dict[Node, Array] = {by: np.eye(by.size, dtype=bool)}
    for x in in_order([result]):
        if x not in found:
            rule = _entrywise if x.operation.is_entrywise else _RULES[x.operation.name]
            found[x] = rule(x, [found[y] for y in x.args], by.size)
    return found[result]


def _groups(pattern: Array) -> list[list[int]]:
    """Entries with a diagonal, in groups without other dependence, as early as they fit."""
    coupled, out = pattern | pattern.T, []
    for i in np.flatnonzero(np.diag(pattern)).tolist():
        for group in out:
            if not coupled[i, group].any():
                group.append(i)
                break
        else:
            out.append([i])
    return out


def _nothing(x: Node, args: Sequence[Array], n: int) -> Array:
    return np.zeros((x.size, n), dtype=bool)


def _entrywise(x: Node, args: Sequence[Array], n: int) -> Array:
    assert x.operation.partials is not None
    out = _nothing(x, args, n)
    for slope, arg in zip(x.operation.partials(x, *x.args), args, strict=True):
        if slope is not None:
            out |= arg
    return out


def _scatter(x: Node, args: Sequence[Array], n: int) -> Array:
    out = _nothing(x, args, n)
    np.logical_or.at(out, x.data[0].ravel(), args[0])
    return out


def _total(x: Node, args: Sequence[Array], n: int) -> Array:
    (y,) = x.args
    if x.data is None:
        return np.asarray(args[0].any(axis=0, keepdims=True))
    return args[0].reshape(*y.shape, n).any(axis=x.data).reshape(x.size, n)


def _matmul(x: Node, args: Sequence[Array], n: int) -> Array:
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


_RULES: dict[str, Callable[[Node, Sequence[Array], int], Array]] = {
    "constant": _nothing,
    "input": _nothing,
    "pick": lambda x, args, n: args[0][x.data.ravel()],
    "scatter": _scatter,
    "join": lambda x, args, n: np.concatenate(args),
    "total": _total,
    "matmul": _matmul,
}
