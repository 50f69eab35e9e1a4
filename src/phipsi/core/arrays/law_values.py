"""Graphs of laws on arrays: the reference that machine code is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from phipsi.core.arrays.graph import Array, Node, Shape, in_order
from phipsi.core.spatial import ON_ARRAYS, TRUTHS

_LOGIC = ("both", "either", "not")


def evaluate(results: Sequence[Node], values: Mapping[str, Array]) -> list[Array]:
    """The values (..., *shape) of nodes, from those of the inputs, batched on leading axes."""
    return GraphEvaluator(results)(values)


@final
class GraphEvaluator:
    """Nodes as a function of the values of their inputs; for those that are evaluated often.

    What does not depend on values is looked up once: the order of the nodes, the functions of
    arrays, and where their arguments are. Truths that only choices and other truths read stay
    truths of NumPy, and are not made numbers.

    **Attributes:** `nodes`, the results; `takes`, the shapes of the inputs by name.
    """

    def __init__(self, results: Sequence[Node]) -> None:
        self.nodes, nodes = tuple(results), in_order(results)
        places = {x: i for i, x in enumerate(nodes)}
        self._results = [(places[x], x.shape) for x in results]
        self._inputs = [(i, x) for i, x in enumerate(nodes) if x.operation.name == "input"]
        self.takes: dict[str, Shape] = {x.data[0]: x.shape for _, x in self._inputs}
        self._constants = [(i, x) for i, x in enumerate(nodes) if x.operation.name == "constant"]
        self._size, truths = len(nodes), _only_read_as_truths(nodes, results)
        self._steps = [
            (i, _function_of(x, truths), tuple(places[y] for y in x.args))
            for i, x in enumerate(nodes)
            if x.operation.name not in ("input", "constant")
        ]

    def __call__(self, values: Mapping[str, Array]) -> list[Array]:
        """The values of the results, batched on leading axes."""
        ranks = [np.ndim(values[x.data[0]]) - len(x.shape) for _, x in self._inputs]
        batch = max(ranks, default=0)
        known: list[Any] = [None] * self._size
        for i, x in self._inputs:
            known[i] = _with_batch(np.asarray(values[x.data[0]], float), x, batch)
        for i, x in self._constants:
            known[i] = x.data.reshape((1,) * batch + x.shape)
        with np.errstate(all="ignore"):
            for i, function, args in self._steps:
                if len(args) == 2:
                    known[i] = function(known[args[0]], known[args[1]])
                elif len(args) == 1:
                    known[i] = function(known[args[0]])
                else:
                    known[i] = function(*[known[j] for j in args])
        whole = np.broadcast_shapes(*(known[i].shape[:batch] for i, _ in self._inputs))
        return [np.array(np.broadcast_to(known[i], (*whole, *s))) for i, s in self._results]


def _with_batch(value: Array, x: Node, batch: int) -> Array:
    missing = batch - (value.ndim - len(x.shape))
    return value.reshape((1,) * missing + value.shape)


def _only_read_as_truths(nodes: Sequence[Node], results: Sequence[Node]) -> set[Node]:
    """The comparisons, and what is made of them, that are conditions and nothing else."""
    found = {x for x in nodes if x.operation.name in TRUTHS}
    if not found:
        return found
    found.difference_update(results)
    for x in nodes:
        if x.operation.name not in _LOGIC:
            found.difference_update(x.args[1:] if x.operation.name == "where" else x.args)
    return found


def _function_of(x: Node, truths: set[Node]) -> Callable[..., Array]:
    """The value of a node as a function of those of its arguments."""
    if not x.operation.is_entrywise:
        shapes = tuple(y.shape for y in x.args)
        return partial(x.operation.array, data=x.data, shapes=shapes)
    function = ON_ARRAYS.get(x.operation.name) or partial(x.operation.array, data=x.data)
    if x in truths:
        function = TRUTHS[x.operation.name]
    elif x.operation.name == "where" and x.args[0] in truths:
        function = np.where
    rank = len(x.shape)
    if all(len(y.shape) == rank for y in x.args):
        return function
    missing = [(1,) * (rank - len(y.shape)) for y in x.args]

    def spread(*args: Array) -> Array:
        """Scalar arguments get the axes of the result."""
        return function(*[a.reshape(a.shape + m) for a, m in zip(args, missing, strict=True)])

    return spread
