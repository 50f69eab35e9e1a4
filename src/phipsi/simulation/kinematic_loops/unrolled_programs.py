"""Programs as code without loops: the reference backend runs once, on terms instead of numbers.

A term is an operation on terms and known numbers. Equal terms are the same object, and a known 0 or
1 costs nothing; so whatever the numbers of a model make zero, such as all that leaves the plane of
a planar mechanism, is not in the code. Only what results need is written.

Signs stand outside: a term is a product, a sum or a difference of terms without a sign, so that the
code has no negation. LLVM looks for the best place of each negation in a chain of products.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from phipsi.core.backends.array_algebra import FUNCTIONS
from phipsi.core.backends.backend import SweepProgram
from phipsi.core.backends.reference import evaluate
from phipsi.native.runs.straight_line import OPERATIONS, Routine, StraightLine, shared_line

MOST_BODIES, MOST_TERMS = 24, 6000
"""Mechanisms with more bodies, or more operations in a program, are not unrolled."""

Number = Any  # a term, or a number that is known


class NotUnrolled(Exception):
    """An operation that terms do not have, such as a choice by the value of one."""


@final
class Term:
    """An operation on terms and known numbers; `number` counts the terms of one `Terms`."""

    __slots__ = ("args", "name", "number", "terms")

    def __init__(self, terms: Terms, name: str, args: tuple[Any, ...], number: int) -> None:
        self.terms, self.name, self.args, self.number = terms, name, args, number

    def __neg__(self) -> Number:
        return self.args[0] if self.name == "neg" else self.terms.make("neg", self)

    def __add__(self, other: Number) -> Number:
        if not isinstance(other, Term):
            if other == 0:
                return self
            if self.name == "neg":
                return self.terms.make("sub", float(other), self.args[0])
            return self.terms.make("add", self, float(other))
        if other.name == "neg":
            return self - other.args[0]
        if self.name == "neg":
            return other - self.args[0]
        return self.terms.make("add", *_ordered(self, other))

    __radd__ = __add__

    def __sub__(self, other: Number) -> Number:
        if other is self:
            return 0.0
        if not isinstance(other, Term) or other.name == "neg":
            return self + -other
        if self.name == "neg":
            return -(self.args[0] + other)
        return self.terms.make("sub", self, other)

    def __rsub__(self, other: Number) -> Number:
        return -self + other

    def __mul__(self, other: Number) -> Number:
        if self.name == "neg":
            return -(self.args[0] * other)
        if isinstance(other, Term):
            if other.name == "neg":
                return -(self * other.args[0])
            return self.terms.make("mul", *_ordered(self, other))
        if other == 0:
            return 0.0
        if other < 0:
            return -(self * -other)
        return self if other == 1 else self.terms.make("mul", self, float(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Number:
        if self.name == "neg":
            return -(self.args[0] / other)
        if not isinstance(other, Term):
            return self if other == 1 else self.terms.make("div", self, float(other))
        return (
            -(self / other.args[0]) if other.name == "neg" else self.terms.make("div", self, other)
        )

    def __rtruediv__(self, other: Number) -> Number:
        if self.name == "neg":
            return -(other / self.args[0])
        return 0.0 if other == 0 else self.terms.make("div", float(other), self)

    def _undecided(self, *_: Any) -> Any:
        raise NotUnrolled("what depends on the value of a term")

    __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __float__ = _undecided


def _ordered(x: Term, y: Term) -> tuple[Term, Term]:
    return (x, y) if x.number <= y.number else (y, x)


@final
class _Functions:
    """The functions of terms that the reference backend calls: those that there is code for."""

    matmul = staticmethod(np.matmul)

    def entrywise(self, name: str, xs: Sequence[Any], data: Any) -> Term:
        """An operation of laws."""
        if name not in OPERATIONS:
            raise NotUnrolled(name)
        found = next(x for x in xs if isinstance(x, Term))
        return found.terms.make(name, *xs)

    def __getattr__(self, name: str) -> Callable[[Term], Term]:
        if name not in OPERATIONS:
            raise NotUnrolled(name)
        return lambda x: x.terms.make(name, x)


FUNCTIONS[Term] = _Functions()


@final
class Terms:
    """All terms of some results."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Term] = {}

    def make(self, name: str, *args: float | Term | str) -> Term:
        """The term of this operation: the known one, if there is one."""
        key = (name, *(x.number if isinstance(x, Term) else ("known", x) for x in args))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Term(self, name, args, len(self._known))
        return found

    def inputs(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """The entries of an input."""
        count = int(np.prod(shape, dtype=int))
        entries = [self.make("input", name, i) for i in range(count)]
        return np.array([*entries, None], dtype=object)[:-1].reshape(shape)

    def results(self, program: SweepProgram) -> list[np.ndarray]:
        """What a program gives, from its inputs."""
        given = {x: self.inputs(x, program.input_shapes[x]) for x in program.inputs}
        found, _ = evaluate(program, given, ())
        return [np.asarray(x, dtype=object) for x in found]


def _operands(x: Term) -> tuple[Any, ...]:
    """Of what a term is computed: x y + z is one operation."""
    if x.name == "add":
        y, z = x.args
        if isinstance(z, Term) and z.name == "mul":
            return (*z.args, y)
        if y.name == "mul":
            return (*y.args, z)
    elif x.name == "sub":
        y, z = x.args
        if isinstance(z, Term) and z.name == "mul" and not isinstance(z.args[1], Term):
            return (z.args[0], -z.args[1], y)
    return x.args


def needed(results: Iterable[Number]) -> list[Term]:
    """The terms that results need, each after its operands."""
    found: dict[int, Term] = {}
    stack = [x for x in results if isinstance(x, Term)]
    while stack:
        x = stack.pop()
        if x.number not in found:
            found[x.number] = x
            stack += [y for y in _operands(x) if isinstance(y, Term)]
    return [found[i] for i in sorted(found)]


def listing(results: Sequence[Number]) -> str:
    """A line for every term that results need, and the results."""

    def name(x: Number) -> str:
        return f"#{x.number}" if isinstance(x, Term) else repr(x)

    lines = [f"{name(x)} {x.name} {' '.join(map(name, x.args))}" for x in needed(results)]
    return "\n".join([*lines, " ".join(map(name, results))])


# ---- code ----------------------------------------------------------------------------------------


def write_terms(
    results: Sequence[Number], at: StraightLine, load: Callable[[str, int], Any]
) -> list[Any]:
    """The code of results; ``load(name, i)`` reads an entry of an input."""
    lanes = dict[int, Any]()

    def lane(x: Number) -> Any:
        if not isinstance(x, Term):
            return at.number(float(x))
        if x.name == "neg":  # only of results: a plain 0 would be folded to a negation
            return at.number(0.0) - lane(x.args[0])
        if x.number not in lanes:  # an input, read where it is used first
            lanes[x.number] = load(*x.args)
        return lanes[x.number]

    for x in needed(results):
        if x.name not in ("input", "neg"):
            args = [lane(y) for y in _operands(x)]
            fused = len(args) == 3
            lanes[x.number] = args[0].times_plus(*args[1:]) if fused else at.entrywise(x.name, args)
    return [lane(x) for x in results]


@final
class UnrolledProgram:
    """A program that is written without loops: what it computes, and its code.

    **Attributes:** `inputs`, shapes by name, in the order of the program; `results`, entries of
    every result; `key`, a digest of both.
    """

    def __init__(self, program: SweepProgram) -> None:
        self.results = Terms().results(program)
        self.inputs = {x: tuple(program.input_shapes[x]) for x in program.inputs}
        self._entries = [x for result in self.results for x in result.ravel()]
        text = f"{self.inputs} {[x.shape for x in self.results]} {listing(self._entries)}"
        self.key = hashlib.sha256(text.encode()).hexdigest()

    @property
    def size(self) -> int:
        """How many operations it takes."""
        return len(needed(self._entries))

    def routine(self, code: Any) -> Routine:
        """The function of places (inputs …, results …), for a `LawCode`."""
        name = f"phipsi_unrolled_{self.key[:24]}"
        count = len(self.inputs) + len(self.results)
        return shared_line(code.module, code.e, count, name, self._write)

    def _write(self, at: StraightLine) -> None:
        where = dict(zip(self.inputs, at.places, strict=False))
        lanes = write_terms(self._entries, at, lambda x, i: at.load(where[x], i))
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
        except NotUnrolled:
            return None
        return found if found.size <= MOST_TERMS else None

    return program.model.cached((UnrolledProgram, program.request), build)
