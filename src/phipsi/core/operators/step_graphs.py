"""Graphs of traced formulas as steps on single numbers, and the derivatives of steps.

The graphs are those of laws, and so are the rules of their derivatives; a formula is small, so it
is taken apart to entries, and what is known to be zero or one is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from phipsi.core.arrays.graph import Node, in_order
from phipsi.core.arrays.law_derivatives import adjoints, tangents
from phipsi.core.arrays.law_errors import fail
from phipsi.core.arrays.law_operations import apply, constant, given, pick
from phipsi.core.operators.recorded_steps import Numbers, Operand, Program, Step, split_data

MOST_STEPS = 20_000
"""The most operations of one formula."""


def argument(n: int, shape: tuple[int, ...]) -> Node:
    """Argument n of a formula, a block that is not known yet."""
    return given(str(n), shape)


def _entry(n: int, i: int, j: int) -> Node:
    return given(f"{n} {i} {j}", ())


# ---- from graphs to steps ------------------------------------------------------------------------


class _Tape:
    """The steps that are recorded, each once."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._known: dict[str, int] = {}  # by their text: step 2 is not the constant 2.0

    def put(self, *step: Any) -> int:
        """The number of this step."""
        text = repr(step)
        if text not in self._known:
            if len(self.steps) >= MOST_STEPS:
                fail(
                    f"the formula has more than {MOST_STEPS:,} steps",
                    "compute parts of it as operators of their own",
                    place="",
                )
            self._known[text] = len(self.steps)
            self.steps.append(step)
        return self._known[text]

    def add(self, x: Operand, y: Operand) -> Operand:
        """A sum."""
        return self.apply("add", [x, y])

    def apply(self, name: str, xs: Sequence[Operand], data: Any = None) -> Operand:
        """The operand that an operation gives; known numbers are computed."""
        if all(isinstance(x, float) for x in xs):
            return _finite(float(Numbers.entrywise(name, xs, data)))
        kept = self._kept(name, *xs)
        if kept is not None:
            return kept
        return self.put(name, *xs) if data is None else self.put(name, *xs, data)

    def _kept(self, name: str, *xs: Operand) -> Operand | None:
        """The operand that remains where others are neutral, or zero."""
        a, b = xs[0], xs[-1]
        if name in ("add", "sub"):
            return a if _is(b, 0.0) else b if name == "add" and _is(a, 0.0) else None
        if name in ("div", "floor_divide", "remainder") and _is(b, 0.0):
            fail("the formula divides by the constant 0", "divide by another number", place="")
        if name in ("mul", "div"):
            if _is(b, 1.0):
                return a
            if name == "mul" and _is(a, 1.0):
                return b
            return 0.0 if _is(a, 0.0) or (name == "mul" and _is(b, 0.0)) else None
        if name == "where" and (isinstance(a, float) or repr(xs[1]) == repr(b)):
            return b if _is(a, 0.0) else xs[1]
        return None


def _is(x: Operand, number: float) -> bool:
    """Whether an operand is this constant, and not a step."""
    return isinstance(x, float) and x == number


def _finite(x: float) -> float:
    if not math.isfinite(x):
        fail(f"the constant {x} is not finite", "every number must be finite", place="")
    return x


def recorded(rows: Sequence[Sequence[Node | None]]) -> Program:
    """The steps that compute scalar nodes, None for zero, as the entries of a block."""
    tape = _Tape()
    values: dict[Node, list[Operand]] = {}
    for x in in_order(y for row in rows for y in row if y is not None):
        values[x] = _entries(tape, x, [values[y] for y in x.args])
    entries = [[0.0 if x is None else values[x][0] for x in row] for row in rows]
    return _used(tape.steps, entries)


def scalars(block: Node) -> list[list[Node]]:
    """The entries of a block with two axes, by row, or of one with one axis, below each other."""
    numbers = np.arange(block.size).reshape(block.shape if len(block.shape) == 2 else (-1, 1))
    return [[pick(block, np.int64(i)) for i in row] for row in numbers]


def _entries(tape: _Tape, x: Node, args: list[list[Operand]]) -> list[Operand]:
    """The entries of a node, row by row, from those of its arguments."""
    name, data = x.operation.name, x.data
    if name == "constant":
        return [float(c) for c in data.ravel()]
    if name == "input":
        n, *place = (int(word) for word in str(data[0]).split())
        at = [place] if place else [[*i, 0, 0][:2] for i in np.ndindex(*x.shape)]
        return [tape.put("entry", n, *i) for i in at]
    if name == "pick":
        return [args[0][i] for i in data.ravel()]
    if name == "join":
        return [y for part in args for y in part]
    if name == "scatter":
        out: list[Operand] = [0.0] * x.size
        for to, y in zip(data[0].ravel(), args[0], strict=True):
            out[int(to)] = tape.add(out[int(to)], y)
        return out
    if name == "total":
        places = np.arange(x.args[0].size).reshape(x.args[0].shape)
        rows = places.reshape(1, -1) if data is None else np.moveaxis(places, data, -1)
        return [_sum(tape, [args[0][i] for i in r]) for r in rows.reshape(x.size, -1).tolist()]
    if name == "matmul":
        return _product(tape, x, *args)
    if not x.operation.is_entrywise:
        fail(f"{name} cannot stand in a formula of one body")
    stored = None if data is None else tuple(_tuples(part.tolist()) for part in data)
    spread = [y if z.shape else y * x.size for y, z in zip(args, x.args, strict=True)]
    return [tape.apply(name, xs, stored) for xs in zip(*spread, strict=True)]


def _tuples(x: Any) -> Any:
    return tuple(map(_tuples, cast(Any, x))) if isinstance(x, list) else x


def _sum(tape: _Tape, terms: Sequence[Operand]) -> Operand:
    out: Operand = 0.0
    for y in terms:
        out = tape.add(out, y)
    return out


def _product(tape: _Tape, x: Node, left: list[Operand], right: list[Operand]) -> list[Operand]:
    a, b = x.args
    between = b.shape[0]
    rows, columns = a.size // max(between, 1), b.size // max(between, 1)
    if not between:
        return [0.0] * x.size
    return [
        _sum(
            tape,
            [
                tape.apply("mul", [left[i * between + j], right[j * columns + k]])
                for j in range(between)
            ],
        )
        for i in range(rows)
        for k in range(columns)
    ]


def _used(steps: Sequence[Step], rows: list[list[Operand]]) -> Program:
    """The steps that the block needs, numbered again."""
    needed = {x for row in rows for x in row if isinstance(x, int)}
    for i in reversed(range(len(steps))):
        if i in needed and steps[i][0] != "entry":
            needed.update(x for x in steps[i][1:] if isinstance(x, int))
    new = {old: i for i, old in enumerate(sorted(needed))}

    def moved(x: Any) -> Any:
        return new[x] if isinstance(x, int) else x

    kept = [
        step if step[0] == "entry" else (step[0], *map(moved, step[1:]))
        for step in (steps[i] for i in sorted(needed))
    ]
    return Program(tuple(kept), tuple(tuple(map(moved, row)) for row in rows))


# ---- derivatives ---------------------------------------------------------------------------------


def _graph(program: Program) -> tuple[list[list[Node]], Mapping[tuple[int, int, int], Node]]:
    """The entries of the block as nodes, and the entries of the arguments that they read."""
    nodes: list[Node] = []
    read: dict[tuple[int, int, int], Node] = {}

    def node(x: Operand) -> Node:
        return nodes[x] if isinstance(x, int) else constant(x)

    for name, *operands in program.steps:
        if name == "entry":
            place = cast("tuple[int, int, int]", tuple(operands))
            read[place] = _entry(*place)
            nodes.append(read[place])
            continue
        plain, data = split_data(operands)
        arrays = None if data is None else tuple(np.asarray(x) for x in data)
        nodes.append(apply(name, *map(node, plain), data=arrays))
    return [[node(x) for x in row] for row in program.rows], read


def tangent(program: Program, moving: tuple[int, ...], n: int) -> Program:
    """How the block changes with the arguments `moving` of n, whose changes follow them."""
    rows, read = _graph(program)
    directions = {
        node: _entry(n + moving.index(at), i, j)
        for (at, i, j), node in read.items()
        if at in moving
    }
    found = iter(tangents([x for row in rows for x in row], directions))
    return recorded([[next(found) for _ in row] for row in rows])


def gradient(program: Program, size: int) -> Program:
    """The derivatives of a program with one result by the entries of argument 0, below each other.

    Other arguments are held.
    """
    (result,), read = _graph(program)
    inputs = [read.get((0, i, 0)) for i in range(size)]
    wanted = [x for x in inputs if x is not None]
    found = dict(zip(wanted, adjoints(result, [constant(1.0)], wanted), strict=True))
    return recorded([[None if x is None else found[x]] for x in inputs])


def picked(program: Program, row: int) -> Program:
    """One row of the block of a program."""
    return _used(program.steps, [list(program.rows[row])])


def adjoint(program: Program, at: int, shape: tuple[int, ...], n: int, is_vector: bool) -> Program:
    """The weight of argument `at` of n, from that of the block, which follows them.

    The sum of the products of weights and changes is kept; the weight of a matrix is stored
    transposed, as W in tr(W δX).
    """
    rows, read = _graph(program)
    places = [(r, c) for r, row in enumerate(rows) for c in range(len(row))]
    weights = [_entry(n, *(place if is_vector else place[::-1])) for place in places]
    results = [x for row in rows for x in row]
    places = [(i, j) for i in range((*shape, 1)[0]) for j in range((*shape, 1, 1)[1])]
    inputs = [read.get((at, *place)) for place in places]
    wanted = [x for x in inputs if x is not None]
    found = dict(zip(wanted, adjoints(results, weights, wanted), strict=True))
    by_place = {p: None if x is None else found[x] for p, x in zip(places, inputs, strict=True)}
    height, width = (*shape, 1, 1)[:2]
    if len(shape) == 2:
        return recorded([[by_place[i, j] for i in range(height)] for j in range(width)])
    return recorded([[by_place[i, j] for j in range(width)] for i in range(height)])
