"""Plain arithmetic, recorded: a function runs on `Entry` numbers, and its steps are kept.

Steps are numbers and words: they are compared, stored, differentiated, and run by every backend on
its own scalars.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NoReturn, cast

import numpy as np

from phipsi.records import dataclass

Step = tuple[Any, ...]
"""An operation and its operands: whole numbers are earlier steps, floats are constants."""

MOST_STEPS = 20_000
FUNCTIONS = {"sqrt": 1, "sin": 8, "cos": 8, "exp": 8, "tanh": 8}
"""The functions of one number, and how many operations they are counted as."""


class Unfit(Exception):
    """Something that a formula cannot do."""


def reject(why: str, instead: str) -> NoReturn:
    """Stop the recording, with the reason and a way out."""
    raise Unfit(f"{why}.\n{instead}.")


# ---- recording -----------------------------------------------------------------------------------


class Tape:
    """The steps that are recorded, each once."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._known: dict[str, int] = {}  # by their text: step 2 is not the constant 2.0

    def put(self, *step: Any) -> Entry:
        """The entry that this step gives."""
        text = repr(step)
        if text not in self._known:
            if len(self.steps) >= MOST_STEPS:
                reject(
                    f"the formula has more than {MOST_STEPS:,} steps",
                    "Compute parts of it as operators of their own",
                )
            self._known[text] = len(self.steps)
            self.steps.append(step)
        return Entry(self, self._known[text])

    def again(self, name: str, operands: list[Any]) -> Entry:
        """The entry of an operation on entries and constants."""
        return self.put(name, *(x.at if isinstance(x, Entry) else x for x in operands))

    def operand(self, x: Any) -> int | float | None:
        """A step or a constant; None for anything else."""
        number: Any = cast(Any, x)[()] if isinstance(x, np.ndarray) else x
        if isinstance(number, Entry):
            return number.at
        if isinstance(number, (int, float, np.integer, np.floating)):
            return _finite(float(cast(Any, number)))
        return None


def _finite(x: float) -> float:
    if not math.isfinite(x):
        reject(f"the constant {x} is not finite", "Every number of a formula must be finite")
    return x


def _binary(name: str, *, swapped: bool = False) -> Callable[[Entry, Any], Any]:
    def operate(self: Entry, other: Any) -> Any:
        tape = self.tape
        y = tape.operand(other)
        if y is None:
            return NotImplemented
        a, b = (y, self.at) if swapped else (self.at, y)
        if isinstance(a, float) and isinstance(b, float):
            if name == "div" and _is(b, 0.0):
                reject("a formula divides by the constant 0", "Divide by another number")
            return Entry(tape, _finite(_TWO[name](a, b)))
        neutral = 0.0 if name in ("add", "sub") else 1.0
        if _is(b, neutral):
            return Entry(tape, a)
        if name in ("add", "mul") and _is(a, neutral):
            return Entry(tape, b)
        if name == "div" and _is(b, 0.0):
            reject("a formula divides by the constant 0", "Divide by another number")
        if name in ("mul", "div") and (_is(a, 0.0) or _is(b, 0.0)):
            return Entry(tape, 0.0)
        return tape.put(name, a, b)

    return operate


def _is(x: int | float, number: float) -> bool:
    """Whether an operand is this constant, and not a step."""
    return isinstance(x, float) and x == number


class Entry:
    """One entry of a block that is not known yet: a step of the tape, or a constant."""

    __slots__ = ("at", "tape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tape: Tape, at: int | float) -> None:
        self.tape, self.at = tape, at

    def __neg__(self) -> Entry:
        return Entry(self.tape, -self.at) if self.known else self.tape.put("neg", self.at)

    def __pos__(self) -> Entry:
        return self

    @property
    def known(self) -> bool:
        """Whether it is a constant."""
        return isinstance(self.at, float)

    def __pow__(self, exponent: Any) -> Any:
        n = self.tape.operand(exponent)
        if not isinstance(n, float) or (n != 0.5 and not (n.is_integer() and abs(n) <= 64)):
            reject(
                "a power of a formula has a whole number of at most 64 or ½ as its exponent",
                "Write it with products and np.sqrt",
            )
        if n == 0.5:
            return self.sqrt()
        out: Any = Entry(self.tape, 1.0)
        for _ in range(int(abs(n))):
            out = out * self
        return 1.0 / out if n < 0 else out

    def _function(self, name: str) -> Entry:
        if not self.known:
            return self.tape.put(name, self.at)
        if name == "sqrt" and self.at < 0:
            reject(f"a formula takes the root of the constant {self.at}", "Roots need numbers ≥ 0")
        return Entry(self.tape, _finite(float(getattr(np, name)(self.at))))

    def sqrt(self) -> Entry:
        """Square root."""
        return self._function("sqrt")

    def sin(self) -> Entry:
        """Sine."""
        return self._function("sin")

    def cos(self) -> Entry:
        """Cosine."""
        return self._function("cos")

    def exp(self) -> Entry:
        """The exponential."""
        return self._function("exp")

    def tanh(self) -> Entry:
        """The hyperbolic tangent."""
        return self._function("tanh")

    def conjugate(self) -> Entry:
        """The number itself: it is real."""
        return self

    def _unknown(self, *_: Any) -> NoReturn:
        reject(
            "the formula branches on a value, or compares values, that are known only when it runs",
            "A formula is one expression for all values, in + − * / @ ** and functions of NumPy: "
            "compute what decides outside of it, and give it as a table or an own scalar",
        )

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _unknown  # type: ignore

    def _no_number(self, *_: Any) -> NoReturn:
        reject(
            "the formula needs the number itself, which is known only when it runs",
            "Use np.sqrt, np.sin, np.exp … instead of functions of math, and arithmetic instead of "
            "float(…) or int(…)",
        )

    __float__ = __int__ = __index__ = __complex__ = _no_number


for _python, _name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}.items():
    setattr(Entry, f"__{_python}__", _binary(_name))
    setattr(Entry, f"__r{_python}__", _binary(_name, swapped=True))


# ---- programs ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of a formula for one width of joints, and the entries of its block, by row.

    Programs are equal if their texts are.
    """

    steps: tuple[Step, ...]
    rows: tuple[tuple[int | float, ...], ...]

    @cached_property
    def _text(self) -> str:
        return repr((self.steps, self.rows))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def run(self, blocks: Sequence[Any], number: Any, ops: Any) -> list[list[Any]]:
        """The block on any scalars.

        `blocks` are the arguments as rows of entries, `number(c)` is a constant, and `ops` has the
        functions.
        """
        values: list[Any] = []

        def value(x: int | float) -> Any:
            return values[x] if isinstance(x, int) else int(x) if x.is_integer() else number(x)

        for name, *operands in self.steps:
            if name == "entry":
                at, row, column = operands
                values.append(blocks[at][row][column])
            else:
                values.append(_computed(name, [value(x) for x in operands], ops))
        return [[value(x) for x in row] for row in self.rows]

    def tangent(self, moving: tuple[int, ...], n: int) -> Program:
        """How the block changes with the arguments `moving` of n, whose changes follow them."""
        tape = Tape()
        values: list[Any] = []
        rates: list[Any] = []
        for name, *operands in self.steps:
            if name == "entry":
                at, *where = operands
                values.append(tape.put(name, at, *where))
                moves = at in moving
                rates.append(tape.put(name, n + moving.index(at), *where) if moves else 0.0)
                continue
            xs = [_of_step(x, values) for x in operands]
            values.append(tape.again(name, xs))
            partials = _partials(name, values[-1], xs)
            pairs = zip(partials, operands, strict=True)
            rates.append(_sum(p * rates[x] for p, x in pairs if isinstance(x, int)))
        rows = [[tape.operand(_of_step(x, rates, 0.0)) for x in row] for row in self.rows]
        return used_steps(tape.steps, rows)  # type: ignore[arg-type]

    def adjoint(self, at: int, shape: tuple[int, ...], n: int) -> Program:
        """The weight of argument `at` of n, from that of the block, which follows them.

        The sum of the products of weights and changes is kept; the weight of a matrix is stored
        transposed, as W in tr(W δX).
        """
        tape = Tape()
        values: list[Any] = []
        for name, *operands in self.steps:
            again = [_of_step(x, values) for x in operands] if name != "entry" else []
            values.append(tape.again(name, again) if again else tape.put(name, *operands))
        bars: list[Any] = [0.0] * len(values)
        for r, row in enumerate(self.rows):
            for c, x in enumerate(row):
                if isinstance(x, int):
                    bars[x] = tape.put("entry", n, c, r) + bars[x]
        rows, cols = (*shape, 1, 1)[:2]
        found = [[0.0 for _ in range(cols)] for _ in range(rows)]
        for i in reversed(range(len(values))):
            name, *operands = self.steps[i]
            if name == "entry":
                if operands[0] == at:
                    found[operands[1]][operands[2]] = bars[i]
            elif not _is_zero(bars[i]):
                xs = [_of_step(x, values) for x in operands]
                for p, x in zip(_partials(name, values[i], xs), operands, strict=True):
                    if isinstance(x, int):
                        bars[x] = bars[x] + p * bars[i]
        if len(shape) == 2:
            found = [list(column) for column in zip(*found, strict=True)]
        return used_steps(tape.steps, [[tape.operand(x) for x in row] for row in found])  # type: ignore

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return sum(FUNCTIONS.get(name, 1) for name, *_ in self.steps if name != "entry")


def _of_step(x: int | float, values: list[Any], constant: float | None = None) -> Any:
    return values[x] if isinstance(x, int) else x if constant is None else constant


def _sum(terms: Any) -> Any:
    out: Any = 0.0
    for x in terms:
        out = x + out
    return out


def _is_zero(x: Any) -> bool:
    return _is(x.at if isinstance(x, Entry) else x, 0.0)


def _partials(name: str, f: Any, xs: list[Any]) -> tuple[Any, ...]:
    """The derivative of an operation by each operand; f is its value."""
    return _BY_TWO[name](f, xs[0], xs[1]) if name in _BY_TWO else (_BY_ONE[name](f, xs[0]),)


_BY_TWO: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    "add": lambda f, x, y: (1.0, 1.0),
    "sub": lambda f, x, y: (1.0, -1.0),
    "mul": lambda f, x, y: (y, x),
    "div": lambda f, x, y: (1.0 / y, -f / y),
}
_BY_ONE: dict[str, Callable[[Any, Any], Any]] = {
    "neg": lambda f, x: -1.0,
    "sqrt": lambda f, x: 0.5 / f,
    "sin": lambda f, x: x.cos(),
    "cos": lambda f, x: -x.sin(),
    "exp": lambda f, x: f,
    "tanh": lambda f, x: 1.0 - f * f,
}


def _divide(x: Any, y: Any) -> Any:
    if isinstance(y, (int, float)) and y == 0:  # known when the program is compiled
        with np.errstate(all="ignore"):
            return x * float(np.divide(1.0, y))
    return x / y


def _computed(name: str, xs: list[Any], ops: Any) -> Any:
    """The value of an operation on any scalars; numbers may be known when code is written."""
    if len(xs) == 2:
        return _TWO[name](*xs)
    (x,) = xs
    if name == "neg":
        return -x
    if isinstance(x, (int, float)):
        with np.errstate(all="ignore"):
            return float(getattr(np, name)(x))
    return getattr(ops, name)(x)


_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
}


def used_steps(steps: Sequence[Step], rows: list[list[int | float]]) -> Program:
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
