"""Programs that a law calls: inside a trace they become nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from phipsi.core.arrays.graph import Node
from phipsi.core.arrays.law_errors import fail
from phipsi.core.arrays.trace import Tracer, as_node

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
    """Whether one of some arguments is traced."""
    return any(isinstance(x, Tracer) for x in values)


def recorded_call(program: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The results of a program that is called with traced values."""
    evaluate = _EVALUATE.get()
    if evaluate is None:
        fail("a compiled program is called with traced values, which is supported only inside laws")
    request: Any = program.request
    inputs: Sequence[str] = program.inputs
    values = dict(zip(inputs, args, strict=False)) | dict(named)
    missing = [name for name in inputs if name not in values]
    if missing or len(args) > len(inputs) or len(values) > len(inputs):
        fail(f"the program takes {', '.join(inputs)}")
    if request.inputs or request.columns or request.blocks or request.same_operand:
        fail(
            "a program with inputs=, columns=, blocks= or same_operand= is not supported in laws",
            "bind its expression to an argument",
        )
    operands = {
        name: node
        for name, node in ((n, as_node(x)) for n, x in values.items())
        if not (name in ("q", "v") and node.operation.name == "input" and node.data[0] == name)
    }
    found = evaluate(program.model, request, operands)
    return found[0] if request.single else tuple(found)
