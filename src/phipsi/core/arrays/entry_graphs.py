"""Graphs of single numbers: formulas taken apart to entries, which run on any kind of number.

A formula of one body is small. Taken apart, what is known to be zero or one is left out, and the
same graph serves floats, symbols, decimals and lanes of machine code. Derivatives are graphs again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from phipsi.core.arrays.graph import Node, in_order
from phipsi.core.arrays.law_derivatives import adjoints, tangents
from phipsi.core.arrays.law_errors import fail
from phipsi.core.arrays.law_operations import OPERATIONS, apply, constant, gather, input
from phipsi.core.spatial import ScalarOps, entry_value

MOST_STEPS = 20_000
"""The most operations of one formula."""

Place = tuple[int, int, int]
"""Entry (row, column) of an argument, whose number is first."""
Step = tuple[Any, ...]
"""An operation and its operands: integers are earlier steps, floats are constants.

The step ("entry", n, i, j) is entry (i, j) of argument n. A tuple is the data of the operation.
"""

_EXPENSIVE = set(
    (
        "sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh exp log power floor_divide "
        "remainder curve"
    ).split()
)
_NOT_SMOOTH = set(
    (
        "abs sign floor floor_divide remainder minimum maximum less less_equal equal both either "
        "not where curve"
    ).split()
)


def argument(n: int, shape: tuple[int, ...]) -> Node:
    """Argument n of a formula, a block that is not known yet."""
    return input(str(n), shape)


def _entry(place: Place) -> Node:
    return input("{} {} {}".format(*place), ())


def _place(x: Node) -> Place:
    return cast(Place, tuple(map(int, x.data[0].split())))


@final
@dataclass(frozen=True, eq=False)
class EntryGraph:
    """The entries of a block as nodes of single numbers, by row; its inputs are entries as well.

    Nodes are interned, so graphs are equal if their entries are the same nodes.
    """

    rows: tuple[tuple[Node, ...], ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntryGraph) and self.rows == other.rows

    def __hash__(self) -> int:
        return hash(self.rows)

    def __repr__(self) -> str:
        """Its text, which the code of a program depends on."""
        return f"<entries {self.text}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_listing, self.listing

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Inputs and operations, each after its arguments; without constants."""
        found = in_order(x for row in self.rows for x in row)
        return tuple(x for x in found if x.operation.name != "constant")

    @cached_property
    def listing(self) -> tuple[tuple[Step, ...], tuple[tuple[int | float, ...], ...]]:
        """Its operations, and the entries, as numbers and words: what is stored and compared."""
        numbers = {x: i for i, x in enumerate(self.nodes)}

        def operand(x: Node) -> int | float:
            return numbers[x] if x in numbers else float(x.data)

        steps: list[Step] = []
        for x in self.nodes:
            if x.operation.name == "input":
                steps.append(("entry", *_place(x)))
                continue
            data = () if x.data is None else (tuple(_tuples(part.tolist()) for part in x.data),)
            steps.append((x.operation.name, *map(operand, x.args), *data))
        return tuple(steps), tuple(tuple(map(operand, row)) for row in self.rows)

    @cached_property
    def text(self) -> str:
        """The listing as text."""
        return repr(self.listing)

    @cached_property
    def _plan(self) -> list[tuple[str, Any, tuple[Any, ...], Any]]:
        """By operation its name, its function of Python, operands and data."""
        out: list[tuple[str, Any, tuple[Any, ...], Any]] = []
        for name, *operands in self.listing[0]:
            data = operands.pop() if isinstance(operands[-1], tuple) else None
            out.append((name, _ARITHMETIC.get(name), tuple(operands), data))
        return out

    def run(self, blocks: Sequence[Any], ops: ScalarOps) -> list[list[Any]]:
        """The block on any kind of number; `blocks` are the arguments as rows of entries."""
        values: list[Any] = []

        def value(x: int | float) -> Any:
            return values[x] if isinstance(x, int) else int(x) if x.is_integer() else ops.number(x)

        for name, function, operands, data in self._plan:
            if name == "entry":
                at, row, column = operands
                values.append(blocks[at][row][column])
                continue
            xs = [value(x) for x in operands]
            if function is not None:
                values.append(function(*xs))
            elif all(type(x) in (int, float) for x in xs):  # known as code is written
                values.append(float(entry_value(name, xs, data)))
            else:
                values.append(ops.entrywise(name, xs, data))
        return [[value(x) for x in row] for row in self.listing[1]]

    def row(self, i: int) -> EntryGraph:
        """One row of the block."""
        return EntryGraph((self.rows[i],))

    @cached_property
    def places(self) -> Mapping[Place, Node]:
        """The entries of arguments that it reads."""
        return {_place(x): x for x in self.nodes if x.operation.name == "input"}

    def reads(self, argument: int) -> bool:
        """Whether the block depends on this argument at all."""
        return any(n == argument for n, _, _ in self.places)

    @cached_property
    def branches(self) -> tuple[str, ...]:
        """The operations that are not smooth: comparisons, choices, absolute values, tables."""
        return tuple(sorted({x.operation.name for x in self.nodes} & _NOT_SMOOTH))

    @cached_property
    def flops(self) -> int:
        """Floating-point operations; an elementary function is counted as eight."""
        names = [x.operation.name for x in self.nodes if x.operation.name != "input"]
        return sum(8 if name in _EXPENSIVE else 1 for name in names)

    # ---- derivatives

    def jvp(self, moving: tuple[int, ...], n: int) -> EntryGraph:
        """How the block changes with the arguments `moving` of n, whose changes follow them."""
        directions = {
            node: _entry((n + moving.index(at), i, j))
            for (at, i, j), node in self.places.items()
            if at in moving
        }
        found = iter(tangents([x for row in self.rows for x in row], directions))
        return taken_apart([[next(found) for _ in row] for row in self.rows])

    def gradient(self, size: int) -> EntryGraph:
        """The derivatives of one entry by the entries of argument 0, below each other.

        Other arguments are held.
        """
        ((result,),) = self.rows
        inputs = [self.places.get((0, i, 0)) for i in range(size)]
        found = _by_input([result], [constant(1.0)], inputs)
        return taken_apart([[x] for x in found])

    def vjp(self, at: int, shape: tuple[int, ...], n: int, is_vector: bool) -> EntryGraph:
        """The weight of argument `at` of n, from that of the block, which follows them.

        The sum of the products of weights and changes is kept; the weight of a matrix is stored
        transposed, as W in tr(W δX).
        """
        places = [(r, c) for r, row in enumerate(self.rows) for c in range(len(row))]
        weights = [_entry((n, r, c) if is_vector else (n, c, r)) for r, c in places]
        height, width = (*shape, 1, 1)[:2]
        inputs = [self.places.get((at, i, j)) for i in range(height) for j in range(width)]
        found = _by_input([x for row in self.rows for x in row], weights, inputs)
        rows = [found[i * width : (i + 1) * width] for i in range(height)]
        return taken_apart(list(zip(*rows, strict=True)) if len(shape) == 2 else rows)


def _by_input(
    results: Sequence[Node], weights: Sequence[Node], inputs: Sequence[Node | None]
) -> list[Node | None]:
    """The derivatives with respect to the inputs, of which some are not read."""
    wanted = [x for x in inputs if x is not None]
    found = dict(zip(wanted, adjoints(results, weights, wanted), strict=True))
    return [None if x is None else found[x] for x in inputs]


def _from_listing(steps: Sequence[Step], rows: Sequence[Sequence[int | float]]) -> EntryGraph:
    """The graph with this listing."""
    nodes: list[Node] = []

    def node(x: int | float) -> Node:
        return nodes[x] if isinstance(x, int) else constant(x)

    for name, *operands in steps:
        if name == "entry":
            nodes.append(_entry(cast(Place, tuple(operands))))
            continue
        data = operands.pop() if isinstance(operands[-1], tuple) else None
        arrays = None if data is None else tuple(np.asarray(x) for x in data)
        nodes.append(Node(OPERATIONS[name], map(node, operands), arrays))
    return EntryGraph(tuple(tuple(map(node, row)) for row in rows))


def _divide(x: Any, y: Any) -> Any:
    if isinstance(y, (int, float)) and y == 0:  # known when the program is compiled
        with np.errstate(all="ignore"):
            return x * float(np.divide(1.0, y))
    return x / y


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
    "neg": operator.neg,
}


def _tuples(x: Any) -> Any:
    return tuple(map(_tuples, cast(Any, x))) if isinstance(x, list) else x


# ---- from graphs of arrays -----------------------------------------------------------------------


def taken_apart(rows: Sequence[Sequence[Node | None]]) -> EntryGraph:
    """The graph of single numbers whose entries are scalar nodes; None stands for zero."""
    entries = _EntryExpansion()
    for x in in_order(y for row in rows for y in row if y is not None):
        entries.put(x)
    zero = constant(0.0)
    return EntryGraph(
        tuple(tuple(zero if x is None else entries.of[x][0] for x in row) for row in rows)
    )


def block_entries(block: Node) -> EntryGraph:
    """The entries of a block with two axes, by row, or of one with one axis, below each other."""
    numbers = np.arange(block.size).reshape(block.shape if len(block.shape) == 2 else (-1, 1))
    return taken_apart([[gather(block, np.int64(i)) for i in row] for row in numbers])


class _EntryExpansion:
    """The entries of nodes, row by row, without what is known to be neutral or zero."""

    def __init__(self) -> None:
        self.of: dict[Node, list[Node]] = {}
        self._made: set[Node] = set()
        self._zero = constant(0.0)

    def put(self, x: Node) -> None:
        """Take a node apart; its arguments are."""
        self.of[x] = self._entries(x, [self.of[y] for y in x.args])

    def _entries(self, x: Node, args: list[list[Node]]) -> list[Node]:
        name, data = x.operation.name, x.data
        if name == "constant":
            return [constant(c) for c in data.ravel()]
        if name == "input":
            n, *place = map(int, data[0].split())
            if place:
                return [self._counted(x)]
            return [
                self._counted(_entry(cast(Place, (n, *i, 0, 0)[:3]))) for i in np.ndindex(*x.shape)
            ]
        if name == "pick":
            return [args[0][i] for i in data.ravel()]
        if name == "join":
            return [y for part in args for y in part]
        if name == "scatter":
            out = [self._zero] * x.size
            targets: list[int] = data[0].ravel().tolist()
            for to, y in zip(targets, args[0], strict=True):
                out[to] = self._apply("add", out[to], y)
            return out
        if name == "total":
            places = np.arange(x.args[0].size).reshape(x.args[0].shape)
            rows = places.reshape(1, -1) if data is None else np.moveaxis(places, data, -1)
            return [self._sum([args[0][i] for i in r]) for r in rows.reshape(x.size, -1).tolist()]
        if name == "matmul":
            return self._product(x, *args)
        if not x.operation.is_entrywise:
            fail(f"{name} is not supported in a formula of one body")
        spread = [y if z.shape else y * x.size for y, z in zip(args, x.args, strict=True)]
        entries: Iterable[tuple[Node, ...]] = zip(*spread, strict=True)
        return [self._apply(name, *xs, data=data) for xs in entries]

    def _counted(self, x: Node) -> Node:
        self._made.add(x)
        if len(self._made) > MOST_STEPS:
            fail(
                f"the formula has more than {MOST_STEPS:,} steps",
                "define parts of it as separate operators",
                place="",
            )
        return x

    def _apply(self, name: str, *xs: Node, data: Any = None) -> Node:
        """The node of an operation, or what remains of it."""
        known = [float(x.data) if x.operation.name == "constant" else None for x in xs]
        if None not in known:
            out = apply(name, *xs, data=data)
            if not math.isfinite(out.data):
                fail(
                    f"the constant {float(out.data)} is not finite",
                    "every number must be finite",
                    place="",
                )
            return out
        kept = self._kept(name, xs, known)
        return self._counted(Node(OPERATIONS[name], xs, data)) if kept is None else kept

    def _kept(self, name: str, xs: Sequence[Node], known: Sequence[float | None]) -> Node | None:
        """The operand that remains where others are neutral, or zero."""
        (x, a), (y, b) = (xs[0], known[0]), (xs[-1], known[-1])
        if name in ("add", "sub"):
            return x if b == 0 else y if name == "add" and a == 0 else None
        if name in ("div", "floor_divide", "remainder") and b == 0:
            fail("the formula divides by the constant 0", "divide by another number", place="")
        if name in ("mul", "div"):
            if b == 1:
                return x
            if name == "mul" and a == 1:
                return y
            return self._zero if a == 0 or (name == "mul" and b == 0) else None
        if name == "where" and (a is not None or xs[1] is y):
            return y if a == 0 else xs[1]
        return None

    def _sum(self, terms: Sequence[Node]) -> Node:
        out = self._zero
        for y in terms:
            out = self._apply("add", out, y)
        return out

    def _product(self, x: Node, left: list[Node], right: list[Node]) -> list[Node]:
        a, b = x.args
        between = b.shape[0]
        rows, columns = a.size // max(between, 1), b.size // max(between, 1)
        if not between:
            return [self._zero] * x.size
        return [
            self._sum(
                [
                    self._apply("mul", left[i * between + j], right[j * columns + k])
                    for j in range(between)
                ]
            )
            for i in range(rows)
            for k in range(columns)
        ]
