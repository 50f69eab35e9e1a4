"""Calls in graphs: whole programs, such as forward dynamics, as nodes among the arithmetic.

A `Primitive` is anything that computes arrays from arrays: a program of the algebra, the formulas
of the joints' groups. It says what it computes on arrays, how weights of its results become weights
of its arguments, and how its code is written; so a graph that contains it is evaluated,
differentiated and compiled like any other.

Reasons: docs/decisions/0038.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, final

from phipsi.core.arrays.graph import Array, ArrayOperation, Node, Shape, in_order
from phipsi.core.model import is_array, is_tuple


class Primitive(ABC):
    """What a call computes.

    **Attributes:** `name`; `shapes` of the results; `key`, equal for equal callees; `natives`, the
    compiled programs that it calls; `takes_views`, whether arguments may be anywhere in memory,
    shared by all lanes or not; `any_width`, whether its code computes with numbers of any width, or
    else to the tolerances of doubles. Its machine code depends on name, shapes and programs only.
    """

    name: str
    shapes: tuple[Shape, ...]
    key: Hashable
    natives: Sequence[Any] = ()
    takes_views = any_width = False

    @abstractmethod
    def arrays(self, *args: Array) -> Sequence[Array]:
        """The results (..., *shape) from arguments, batched on leading axes."""

    @abstractmethod
    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The weights of the arguments, from those of the results; None stands for zero."""

    def jvp(self, args: tuple[Node, ...], along: Sequence[Node | None]) -> Node:
        """A call whose results are the tangents of these; `along`, those of the arguments."""
        raise NotImplementedError(f"{self.name} has no jvp; ask for its vjp")

    @abstractmethod
    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Write the call with `code`, a `LawCode`, and return where the results are."""

    def prepare(self, host: Any) -> Any:
        """Write what is needed once, before the loops of a run; kept in `host.prepared`."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.key == self.key  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.key))


def call(callee: Primitive, *args: Node) -> tuple[Node, ...]:
    """The results of a callee for these arguments."""
    made = Node(CALL, args, callee)
    return tuple(Node(RESULT, (made,), i) for i in range(len(callee.shapes)))


@final
class StopGradient(Primitive):
    """A value that derivatives take as fixed."""

    any_width = True

    def __init__(self, shape: Shape) -> None:
        self.shapes, self.key, self.name = (shape,), shape, "held"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The same."""
        return args

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """None."""
        return [None]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The same."""
        return [code.stored(args[0])]


def vjp_of_call(made: Node, weights: dict[int, Node]) -> Sequence[Node | None]:
    """The weights of the arguments of a call, from those of its results by number."""
    callee: Primitive = made.data
    results = tuple(Node(RESULT, (made,), i) for i in range(len(callee.shapes)))
    return callee.vjp(made.args, results, [weights.get(i) for i in range(len(results))])


def _values(*args: Array, data: Any, shapes: tuple[Shape, ...]) -> Any:
    return data.arrays(*args)


def _one(found: Any, *, data: int, shapes: tuple[Shape, ...]) -> Array:
    return found[data]


def _jvp(f: Node, tangents: tuple[Node | None, ...]) -> Node | None:
    """The tangent of a call is a call, and that of its result number i the result number i."""
    if all(x is None for x in tangents):
        return None
    return f.data.jvp(f.args, tangents)


def _jvp_of_result(f: Node, tangents: tuple[Node | None, ...]) -> Node | None:
    (made,) = tangents
    return None if made is None else Node(RESULT, (made,), f.data)


def _no_shape(*args: Node, data: Any) -> Shape:
    return ()


def _shape_of_one(made: Node, *, data: int) -> Shape:
    return made.data.shapes[data]


CALL = ArrayOperation("call", _no_shape, _values, "{data}({0}, …)", jvp=_jvp)
RESULT = ArrayOperation("result", _shape_of_one, _one, "{0}[{data}]", jvp=_jvp_of_result)


# ---- listings ------------------------------------------------------------------------------------


def natives_of(nodes: Iterable[Node]) -> list[Any]:
    """The programs that the calls among nodes need, each once."""
    found: dict[int, Any] = {}
    for x in nodes:
        if x.operation is CALL:
            for native in x.data.natives:
                found.setdefault(id(native), native)
    return list(found.values())


def listing(nodes: Sequence[Node], natives: Sequence[Any]) -> list[str]:
    """A line for every node, in their order, and all that its machine code depends on."""
    numbers = {x: i for i, x in enumerate(nodes)}
    places = {id(native): i for i, native in enumerate(natives)}
    return [
        f"{x.operation.name} {x.shape} {[numbers[y] for y in x.args]} {_text_of(x.data, places)}"
        for x in nodes
    ]


def graph_digest(ends: Sequence[Node], natives: Sequence[Any] = ()) -> tuple[list[Any], str]:
    """The programs that a graph inside a primitive calls, and a digest of its code.

    Parameters
    ----------
    ends : sequence of Node
        The inputs and results of the graph.
    natives : sequence, optional
        Other programs that the primitive calls, which come first.

    Returns
    -------
    tuple
        The programs, and a digest of everything that the code depends on.
    """
    nodes = in_order(ends)
    called = [*natives, *natives_of(nodes)]
    text = "\n".join([*listing(nodes, called), repr([nodes.index(x) for x in ends])])
    return called, hashlib.sha256(text.encode()).hexdigest()


def _text_of(data: Any, natives: dict[int, int]) -> str:
    if is_array(data):
        return f"{data.shape} {data.dtype} {hashlib.sha256(data.tobytes()).hexdigest()}"
    if is_tuple(data):
        return " ".join(_text_of(x, natives) for x in data)
    if isinstance(data, Primitive):
        return f"{data.name} {data.shapes} {[natives[id(x)] for x in data.natives]}"
    return repr(data)
