"""Programs as code without loops: the reference backend runs once, on nodes instead of numbers.

What the numbers of a model make zero, such as all that leaves the plane of a planar mechanism, is
not in the code (`arrays/scalar_nodes.py`). Only what results need is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from phipsi.core.arrays import (
    Number,
    ScalarGraph,
    ScalarNode,
    ScalarNodeOps,
    Undecided,
    fused,
    scalar_nodes,
)
from phipsi.core.backends import FUNCTIONS, SweepProgram, evaluate
from phipsi.native import Routine, StraightLine, shared_line

MOST_BODIES, MOST_TERMS = 24, 6000
"""Mechanisms with more bodies, or more operations in a program, are not unrolled."""

FUNCTIONS[ScalarNode] = ScalarNodeOps()


def unrolled_results(graph: ScalarGraph, program: SweepProgram) -> list[np.ndarray]:
    """What a program gives, from its inputs, as entries of a graph."""
    given = {x: graph.inputs(x, program.input_shapes[x]) for x in program.inputs}
    found, _ = evaluate(program, given, ())
    return [np.asarray(x, dtype=object) for x in found]


# ---- code ----------------------------------------------------------------------------------------


def write_entries(
    results: Sequence[Number], at: StraightLine, load: Callable[[str, int], Any]
) -> list[Any]:
    """The code of results; ``load(name, i)`` reads an entry of an input."""
    nodes, lanes = fused(results), dict[ScalarNode, Any]()

    def lane(x: ScalarNode) -> Any:
        found = lanes.get(x)
        if found is None:
            if x.name == "constant":
                return at.number(float(x.data))
            name, i = x.data[0].split()  # an input, read where it is used first
            found = lanes[x] = load(name, int(i))
        return found

    def result(x: Number) -> Any:
        if not isinstance(x, ScalarNode):
            return at.number(float(x))
        if x.name == "neg":  # a plain 0 would be folded to a negation
            return at.number(0.0) - lane(nodes[x.args[0]])
        return lane(nodes[x])

    for x in nodes.values():
        if x.name != "input":
            lanes[x] = at.ops.entrywise(x.name, [lane(y) for y in x.args])
    return [result(x) for x in results]


@final
class UnrolledProgram:
    """A program that is written without loops: what it computes, and its code.

    **Attributes:** `inputs`, shapes by name, in the order of the program; `results`, entries of
    every result; `key`, a digest of both.
    """

    def __init__(self, program: SweepProgram) -> None:
        self.results = unrolled_results(ScalarGraph(), program)
        self.inputs = {x: tuple(program.input_shapes[x]) for x in program.inputs}
        self._entries = [x for result in self.results for x in result.ravel()]
        text = (
            f"{self.inputs} {[x.shape for x in self.results]} {scalar_nodes.listing(self._entries)}"
        )
        self.key = hashlib.sha256(text.encode()).hexdigest()

    @property
    def size(self) -> int:
        """How many operations it takes."""
        return len(fused(self._entries))

    def routine(self, code: Any) -> Routine:
        """The function of places (inputs …, results …), for a `LawCode`."""
        name = f"phipsi_unrolled_{self.key[:24]}"
        count = len(self.inputs) + len(self.results)
        return shared_line(code.module, code.e, count, name, self._write)

    def _write(self, at: StraightLine) -> None:
        where = dict(zip(self.inputs, at.places, strict=False))
        lanes = write_entries(self._entries, at, lambda x, i: at.load(where[x], i))
        written = iter(lanes)
        for result, place in zip(self.results, at.places[len(self.inputs) :], strict=True):
            for i in range(result.size):
                at.store(next(written), place, i)


def unrolled_program(
    source: Callable[[], SweepProgram], program: SweepProgram
) -> UnrolledProgram | None:
    """A program without loops, from its `source` for the reference backend; None if it is large."""
    if program.model.n_bodies > MOST_BODIES:
        return None

    def build() -> UnrolledProgram | None:
        try:
            found = UnrolledProgram(source())
        except Undecided:
            return None
        return found if found.size <= MOST_TERMS else None

    return program.model.cached((UnrolledProgram, program.request), build)
