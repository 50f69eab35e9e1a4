"""Graphs of laws on arrays: the reference that machine code is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phipsi.laws.graph import Array, Node, in_order


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
