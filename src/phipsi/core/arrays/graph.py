"""The graph of a law: interned nodes, each an operation on arrays of known shape.

A node stands for one array per configuration; its shape has at most two axes and leaves out those
of the batch. The operations are the rows of `law_operations.py`; nothing here depends on which they
are. Nodes that are built alike are one node, so that a subexpression that a law writes twice is
computed once.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from phipsi.core.model import is_array, is_tuple

Shape = tuple[int, ...]
Array = NDArray[Any]
Tangent = Callable[["Node", "tuple[Node | None, ...]"], "Node | None"]
Adjoint = Callable[["Node", "Node"], "Iterable[tuple[int, Node]]"]
Pattern = Callable[["Node", Sequence[Array], int], Array]


@dataclass(frozen=True, eq=False)
class ArrayOperation:
    """One operation of laws, and all that is known about it.

    **Attributes:** `name`; `shape`, of the result, from arguments and data; `array`, its value on
    arrays with leading batch axes; `partials`, for operations on single entries, the derivative by
    each argument as nodes, None where it is zero everywhere; `jvp`, `vjp` and `pattern`
    (dependence.py) for all others; `text`, how it is printed, with {0}, {1} for arguments.
    """

    name: str
    shape: Callable[..., Shape]
    array: Callable[..., Array]
    text: str
    partials: Callable[..., tuple[Node | None, ...]] | None = None
    jvp: Tangent | None = None
    vjp: Adjoint | None = None
    pattern: Pattern | None = None

    @property
    def is_entrywise(self) -> bool:
        """Whether every entry of the result depends on that entry of the arguments only."""
        return self.partials is not None

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


class Node:
    """An operation applied to nodes.

    **Attributes:** `operation`; `args`, nodes; `data`, what the operation knows besides (numbers of
    a constant, the name of an input, places that are picked); `shape`; `size`, how many entries.
    """

    __slots__ = ("__weakref__", "args", "data", "operation", "shape", "size")
    _known: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
    _references: dict[Any, Any] = vars(_known)["data"]  # itself: looked up without an exception

    operation: ArrayOperation
    args: tuple[Node, ...]
    data: Any
    shape: Shape
    size: int

    def __new__(
        cls, operation: ArrayOperation, args: Iterable[Node] = (), data: Any = None
    ) -> Node:
        """The node of this operation on these arguments: the known one, if there is one."""
        args = tuple(args)
        key = (operation.name, *map(id, args), None if data is None else _key_of(data))
        known = cls._references.get(key)
        found = None if known is None else known()
        if found is None:
            found = super().__new__(cls)
            found.operation, found.args, found.data = operation, args, data
            found.shape = operation.shape(*args, data=data)
            found.size = math.prod(found.shape)
            cls._known[key] = found
        return found

    def __repr__(self) -> str:
        return f"<{self.operation.name} {self.shape}>"

    def __reduce__(self) -> Any:
        raise TypeError("nodes are not pickled; pickle the law they come from")


def _key_of(data: Any) -> Any:
    """What makes data equal: the bits of arrays, so that −0.0 is not 0.0.

    The key does not hold callees and nodes, which hold models: these hold their graphs, and none of
    them would ever be forgotten. As long as the node lives, so do they.
    """
    if is_array(data):
        return data.shape, data.dtype.str, data.tobytes()
    if is_tuple(data):
        return tuple(map(_key_of, data))
    if isinstance(data, (int, str)):
        return data
    if isinstance(data, Node):
        return Node, id(data)
    return (type(data), _key_of(data.key)) if hasattr(data, "key") else data


def in_order(results: Iterable[Node], known: Container[Node] = ()) -> list[Node]:
    """The nodes that results need, each after its arguments; without those that are known."""
    done: dict[Node, None] = {}
    stack: list[tuple[Node, Iterator[Node]]] = []
    for result in results:
        if result in known:
            continue
        stack.append((result, iter(result.args)))
        while stack:
            node, rest = stack[-1]
            if node in done:
                stack.pop()
                continue
            for child in rest:
                if child not in done and child not in known:
                    stack.append((child, iter(child.args)))
                    break
            else:
                done[node] = None
                stack.pop()
    return list(done)


def users(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """By node, the nodes that have it as an argument."""
    out: dict[Node, list[Node]] = {}
    for node in nodes:
        for arg in dict.fromkeys(node.args):
            out.setdefault(arg, []).append(node)
    return out
