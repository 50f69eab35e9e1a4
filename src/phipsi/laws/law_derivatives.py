"""Derivatives of graphs of laws, as graphs: tangents forward, adjoints backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phipsi.laws.calls import pulled
from phipsi.laws.graph import Node, in_order
from phipsi.laws.law_operations import apply, constant, expand, total


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
            assert x.operation.tangent is not None
            found[x] = x.operation.tangent(x, along)
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
            terms = enumerate(pulled(x, of_calls[x]))
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
            assert x.operation.adjoint is not None
            terms = x.operation.adjoint(x, bar)
        for i, term in terms:
            if term is None:
                continue
            y = x.args[i]
            if term.shape != y.shape:  # a scalar that met an array
                term = total(term, None) if not y.shape else expand(term, y.shape)
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
