"""Nodes that are single numbers with operators of Python: formulas on them are graphs.

A program that runs on these instead of numbers becomes a graph without loops. A known 0 or 1 costs
nothing. Graphs may have thousands of nodes, so each has an interner of its own, which counts its
nodes: their order, and so the code, does not depend on other graphs of the process.

Signs stand outside: a node is a product, a sum or a difference of nodes without a sign, so that the
code has no negation. LLVM looks for the best place of each negation in a chain of products.

Reasons: docs/decisions/0072.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from phipsi.core.arrays.graph import Node
from phipsi.core.arrays.law_operations import OPERATIONS
from phipsi.core.spatial import ScalarOps

Number = Any  # a node, or a number that is known


class Undecided(Exception):
    """A choice by the value of a node, or an operation that makes one."""


@final
class ScalarNode(Node):
    """A number of one `ScalarGraph`, which counts them: arguments have smaller numbers."""

    __slots__ = ("graph", "name", "number")

    graph: ScalarGraph
    name: str
    number: int
    # nodes are never changed, so that arguments may be of one kind
    args: tuple[ScalarNode, ...]  # pyright: ignore[reportIncompatibleVariableOverride]

    def __new__(
        cls, graph: ScalarGraph, name: str, args: tuple[ScalarNode, ...], data: Any, number: int
    ) -> ScalarNode:
        """A new node: `ScalarGraph` knows the others."""
        out = object.__new__(cls)
        out.graph, out.name, out.number = graph, name, number
        out.operation, out.args, out.data = OPERATIONS[name], args, data
        out.shape, out.size = (), 1
        return out

    def __neg__(self) -> Number:
        return self.args[0] if self.name == "neg" else self.graph.make("neg", self)

    def __add__(self, other: Number) -> Number:
        if not isinstance(other, ScalarNode):
            if other == 0:
                return self
            if self.name == "neg":
                return self.graph.make("sub", self.graph.known(other), self.args[0])
            return self.graph.make("add", self, self.graph.known(other))
        if other.name == "neg":
            return self - other.args[0]
        if self.name == "neg":
            return other - self.args[0]
        return self.graph.make("add", *_ordered(self, other))

    __radd__ = __add__

    def __sub__(self, other: Number) -> Number:
        if other is self:
            return 0.0
        if not isinstance(other, ScalarNode) or other.name == "neg":
            return self + -other
        if self.name == "neg":
            return -(self.args[0] + other)
        return self.graph.make("sub", self, other)

    def __rsub__(self, other: Number) -> Number:
        return -self + other

    def __mul__(self, other: Number) -> Number:
        if self.name == "neg":
            return -(self.args[0] * other)
        if isinstance(other, ScalarNode):
            if other.name == "neg":
                return -(self * other.args[0])
            return self.graph.make("mul", *_ordered(self, other))
        if other == 0:
            return 0.0
        if other < 0:
            return -(self * -other)
        return self if other == 1 else self.graph.make("mul", self, self.graph.known(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Number:
        if self.name == "neg":
            return -(self.args[0] / other)
        if not isinstance(other, ScalarNode):
            return self if other == 1 else self.graph.make("div", self, self.graph.known(other))
        if other.name == "neg":
            return -(self / other.args[0])
        return self.graph.make("div", self, other)

    def __rtruediv__(self, other: Number) -> Number:
        if self.name == "neg":
            return -(other / self.args[0])
        return 0.0 if other == 0 else self.graph.make("div", self.graph.known(other), self)

    def _undecided(self, *_: Any) -> Any:
        raise Undecided("what depends on the value of a number")

    __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __float__ = _undecided


def _ordered(x: ScalarNode, y: ScalarNode) -> tuple[ScalarNode, ScalarNode]:
    return (x, y) if x.number <= y.number else (y, x)


@final
class ScalarGraph:
    """All nodes of some results."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], ScalarNode] = {}
        self._constants: dict[float, ScalarNode] = {}

    def make(self, name: str, x: ScalarNode, y: ScalarNode | None = None) -> ScalarNode:
        """The node of this operation: the known one, if there is one."""
        key = (name, x.number, -1 if y is None else y.number)
        found = self._nodes.get(key)
        if found is None:
            args = (x,) if y is None else (x, y)
            found = self._nodes[key] = ScalarNode(self, name, args, None, self._count())
        return found

    def fma(self, x: ScalarNode, y: ScalarNode, z: ScalarNode) -> ScalarNode:
        """The node of x y + z."""
        key = ("fma", x.number, y.number, z.number)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = ScalarNode(self, "fma", (x, y, z), None, self._count())
        return found

    def known(self, c: Any) -> ScalarNode:
        """A number that is known."""
        found = self._constants.get(c)
        if found is None:
            data = np.array(c, dtype=np.float64)
            found = ScalarNode(self, "constant", (), data, self._count())
            self._constants[float(c)] = found
        return found

    def _count(self) -> int:
        return len(self._nodes) + len(self._constants)

    def inputs(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """The entries of an input, each an input with the name and its number in it."""
        entries: list[Any] = []
        for i in range(int(np.prod(shape, dtype=int))):
            key = ("input", name, i)
            if key not in self._nodes:
                data = (f"{name} {i}", ())
                self._nodes[key] = ScalarNode(self, "input", (), data, self._count())
            entries.append(self._nodes[key])
        return np.array([*entries, None], dtype=object)[:-1].reshape(shape)


@final
class ScalarNodeOps(ScalarOps):
    """Nodes as a kind of number: operations without choices."""

    _known = frozenset(("sin", "cos", "sqrt"))

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> ScalarNode:
        """An operation by its name."""
        if name not in self._known:
            raise Undecided(name)
        (x,) = args
        return x.graph.make(name, x)


# ---- what results need ---------------------------------------------------------------------------


def fused(results: Iterable[Number]) -> dict[ScalarNode, ScalarNode]:
    """The nodes that results need, each after its arguments; x y + z is one of them.

    By node the one that is computed: itself, or with products taken into sums. Constants and signs
    of results are left out.
    """
    needed: dict[int, tuple[ScalarNode, tuple[ScalarNode, ...]]] = {}
    stack = [_unsigned(x) for x in results if isinstance(x, ScalarNode)]
    while stack:
        x = stack.pop()
        if x.number not in needed:
            parts = _parts(x)
            needed[x.number] = x, parts
            stack += [y for y in parts if y.name != "constant"]
    out: dict[ScalarNode, ScalarNode] = {}
    for number in sorted(needed):
        x, parts = needed[number]
        args = tuple(out.get(y, y) for y in parts)
        if len(args) == 3:
            out[x] = x.graph.fma(*args)
        else:
            out[x] = x if args == x.args else x.graph.make(x.name, *args)
    return out


def _unsigned(x: ScalarNode) -> ScalarNode:
    return x.args[0] if x.name == "neg" else x


def _parts(x: ScalarNode) -> tuple[ScalarNode, ...]:
    """Of what a node is computed: three factors and terms, if it is x y + z."""
    if x.name == "add":
        y, z = x.args
        if z.name == "mul":
            return (*z.args, y)
        if y.name == "mul":
            return (*y.args, z)
    elif x.name == "sub":
        y, z = x.args
        if z.name == "mul" and z.args[1].name == "constant":
            return (z.args[0], x.graph.known(-z.args[1].data), y)
    return x.args


def listing(results: Sequence[Number]) -> str:
    """A line for every node that results need, and the results."""
    nodes = fused(results)
    numbers = {x: i for i, x in enumerate(nodes.values())}

    def word(x: Number) -> str:
        if not isinstance(x, ScalarNode):
            return repr(x)
        return repr(float(x.data)) if x.name == "constant" else f"#{numbers[x]}"

    def result(x: Number) -> str:
        if not isinstance(x, ScalarNode):
            return repr(x)
        return f"-#{numbers[nodes[x.args[0]]]}" if x.name == "neg" else f"#{numbers[nodes[x]]}"

    lines = [
        f"{x.name} {x.data[0] if x.name == 'input' else ' '.join(map(word, x.args))}"
        for x in nodes.values()
    ]
    return "\n".join([*lines, " ".join(map(result, results))])
