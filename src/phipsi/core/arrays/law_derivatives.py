"""Derivatives of graphs of laws, as graphs: tangents forward, adjoints backward, diagonals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phipsi.core.arrays.dependence import nothing
from phipsi.core.arrays.graph import Array, Node, in_order
from phipsi.core.arrays.law_operations import (
    apply,
    constant,
    expand,
    input,
    reduce_sum,
    substituted,
)
from phipsi.core.arrays.primitive_calls import vjp_of_call


def tangents(results: Sequence[Node], directions: Mapping[Node, Node]) -> list[Node | None]:
    """How results change when inputs change in `directions` (input → node); None where not at all.

    The derivative of a function with steps (sign, floor, comparisons) is taken as zero; that of
    |x|, minimum and maximum where both sides meet is that of one side.
    """
    found: dict[Node, Node | None] = dict(directions)
    for x in in_order(results):
        if x in found:
            continue
        along = tuple(found[y] for y in x.args)
        if not x.operation.is_entrywise:
            assert x.operation.jvp is not None
            found[x] = x.operation.jvp(x, along)
            continue
        out: Node | None = None
        if any(dy is not None for dy in along):
            assert x.operation.partials is not None
            for slope, dy in zip(x.operation.partials(x, *x.args), along, strict=True):
                out = _plus(out, _product(slope, dy))
            if out is not None and out.shape != x.shape:
                out = expand(out, x.shape)
        found[x] = out
    return [found[x] for x in results]


def adjoints(
    results: Sequence[Node], weights: Sequence[Node], inputs: Sequence[Node]
) -> list[Node | None]:
    """The derivative of Σ weight · result by inputs, in their shapes; None where it is zero."""
    found: dict[Node, Node | None] = {}
    of_calls: dict[Node, dict[int, Node]] = {}  # by call, the weights of its results
    for x, weight in zip(results, weights, strict=True):
        found[x] = _plus(found.get(x), weight)
    for x in reversed(in_order(results)):
        bar = found.get(x)
        if x in of_calls:
            terms = enumerate(vjp_of_call(x, of_calls[x]))
        elif bar is None:
            continue
        elif x.operation.name == "result":  # all results are needed to go on
            of_calls.setdefault(x.args[0], {})[x.data] = bar
            continue
        elif x.operation.is_entrywise:
            assert x.operation.partials is not None
            slopes = x.operation.partials(x, *x.args)
            terms = enumerate(_product(slope, bar) for slope in slopes)
        else:
            assert x.operation.vjp is not None
            terms = x.operation.vjp(x, bar)
        for i, term in terms:
            if term is None:
                continue
            y = x.args[i]
            if term.shape != y.shape:  # a scalar that met an array
                term = reduce_sum(term, None) if not y.shape else expand(term, y.shape)
            found[y] = _plus(found.get(y), term)
    return [found.get(x) for x in inputs]


def _plus(x: Node | None, y: Node | None) -> Node | None:
    if x is None or y is None:
        return y if x is None else x
    if x.shape != y.shape and x.shape and y.shape:
        raise AssertionError(f"{x.shape} + {y.shape}")
    return apply("add", x, y)


def _product(slope: Node | None, y: Node | None) -> Node | None:
    """slope · y, without products with one and minus one."""
    if slope is None or y is None:
        return None
    if slope.operation.name == "constant" and not slope.shape:
        if slope.data == 1:
            return y
        if slope.data == -1:
            return apply("neg", y)
    return apply("mul", slope, y)


def ones(x: Node) -> Node:
    """Weights that sum the entries of a node."""
    return expand(constant(1.0), x.shape)


# ---- diagonals -----------------------------------------------------------------------------------
# How entries of a result change with the same entries of an input.
#
# One tangent gives the derivatives in all directions of a group of entries, if no entry of the
# result in the group depends on another of its inputs. So a term that acts joint by joint takes one
# tangent, and one that mixes all n entries takes n.


def diagonal(
    result: Node, by: Node, places: Sequence[int] | None = None, most: int | None = None
) -> Node | None:
    """∂resultᵢ/∂byᵢ (n,) of a vector by another, as a graph; None where it is zero for all i.

    `places` says which entry of `by` belongs to each of the result, −1 for none, if it is not the
    one with the same number. Terms of a sum are differentiated one by one; those that would take
    more than `most` tangents are left out; calls count as constants.
    """
    at = np.arange(result.size) if places is None else np.asarray(places)
    # what calls compute is taken as it is
    found = [x for x in in_order([result]) if x.operation.name == "result"]
    opaque = {x: input(f"call {i}", x.shape) for i, x in enumerate(found)}
    (result,) = substituted([result], opaque)
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
    return out if out is None else substituted([out], {y: x for x, y in opaque.items()})[0]


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
            rule = _entrywise if x.operation.is_entrywise else x.operation.pattern
            assert rule is not None, f"{x.operation.name} has no pattern"
            found[x] = rule(x, [found[y] for y in x.args], by.size)
    return found[result]


def _groups(pattern: Array) -> list[list[int]]:
    """Entries with a diagonal, in groups without other dependence, as early as they fit."""
    coupled, out = pattern | pattern.T, list[list[int]]()
    for i in np.flatnonzero(np.diag(pattern)).tolist():
        for group in out:
            if not coupled[i, group].any():
                group.append(i)
                break
        else:
            out.append([i])
    return out


def _entrywise(x: Node, args: Sequence[Array], n: int) -> Array:
    assert x.operation.partials is not None
    out = nothing(x, args, n)
    for slope, arg in zip(x.operation.partials(x, *x.args), args, strict=True):
        if slope is not None:
            out |= arg
    return out
