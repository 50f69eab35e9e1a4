"""Programs that a law calls: inside a trace they become nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from phipsi.core.arrays.graph import Node, Shape
from phipsi.core.arrays.law_errors import fail
from phipsi.core.arrays.law_operations import concat, gather
from phipsi.core.arrays.trace import Tracer, contains_tracer

Evaluate = Callable[[Any, Any, Mapping[str, Node]], Sequence[Tracer]]
"""Model, the request that was compiled, and operands → results."""
_EVALUATE: ContextVar[Evaluate | None] = ContextVar("evaluate", default=None)


@contextmanager
def recording(evaluate: Evaluate) -> Generator[None]:
    """Inside, programs that are called with traced values are evaluated by this function."""
    token = _EVALUATE.set(evaluate)
    try:
        yield
    finally:
        _EVALUATE.reset(token)


def has_traced(values: Sequence[Any]) -> bool:
    """Whether one of some arguments is traced, or a list in which a value is."""
    return any(map(contains_tracer, values))


def recorded_call(program: Any, operands: Mapping[str, Node], batch: Shape) -> Any:
    """The results of a program that is called with traced values, a call for each of a batch."""
    evaluate = _EVALUATE.get()
    if evaluate is None:
        fail("a compiled program is called with traced values, which is supported only inside laws")
    request: Any = program.request
    if request.inputs or request.columns or request.blocks or request.same_operand:
        fail(
            "a program with inputs=, columns=, blocks= or same_operand= is not supported in laws",
            "bind its expression to an argument",
        )
    if 0 in batch:
        fail(f"a compiled program is called with a batch of shape {batch}, which has no elements")
    shapes: Mapping[str, Shape] = program.input_shapes
    calls = [
        evaluate(
            program.model,
            request,
            {
                name: x
                for name, x in ((n, _element(x, batch, shapes[n], i)) for n, x in operands.items())
                if not (name in ("q", "v") and x.operation.name == "input" and x.data[0] == name)
            },
        )
        for i in np.ndindex(batch)
    ]
    found = [
        Tracer(concat([x.node for x in same], (*batch, *same[0].shape))) if batch else same[0]
        for same in zip(*calls, strict=True)
    ]
    return found[0] if request.single else tuple(found)


def _element(x: Node, batch: Shape, shape: Shape, index: Shape) -> Node:
    """The entries of x for one element of a batch, to which its leading axes broadcast."""
    places = np.arange(x.size).reshape(x.shape)
    return gather(x, np.broadcast_to(places, (*batch, *shape))[index])
