"""Formulas as lists of steps on single numbers, which every backend runs on its own scalars.

Steps are numbers and words, so formulas are compared and stored. The operations are those of laws
(`arrays/law_operations.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Step = tuple[Any, ...]
"""An operation and its operands: whole numbers are earlier steps, floats are constants.

The step ("entry", n, i, j) is entry (i, j) of argument n. A tuple is the data of the operation.
"""

Operand = int | float

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


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of a formula for one width of joints, and the entries of its block, by row.

    Programs are equal if their texts are.
    """

    steps: tuple[Step, ...]
    rows: tuple[tuple[Operand, ...], ...]

    @cached_property
    def _text(self) -> str:
        return repr((self.steps, self.rows))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def run(self, blocks: Sequence[Any], number: Any, ops: Any) -> list[list[Any]]:
        """The block on any scalars.

        `blocks` are the arguments as rows of entries, `number(c)` is a constant, and
        ``ops.entrywise(name, values, data)`` computes an operation other than + − * /.
        """
        values: list[Any] = []

        def value(x: Operand) -> Any:
            return values[x] if isinstance(x, int) else int(x) if x.is_integer() else number(x)

        for name, *operands in self.steps:
            if name == "entry":
                at, row, column = operands
                values.append(blocks[at][row][column])
            else:
                plain, data = split_data(operands)
                values.append(_computed(name, [value(x) for x in plain], data, ops))
        return [[value(x) for x in row] for row in self.rows]

    def reads(self, argument: int) -> bool:
        """Whether the block depends on this argument at all."""
        return any(step[:2] == ("entry", argument) for step in self.steps)

    @property
    def branches(self) -> tuple[str, ...]:
        """The operations that are not smooth: comparisons, choices, absolute values, tables."""
        return tuple(sorted({name for name, *_ in self.steps} & _NOT_SMOOTH))

    @property
    def flops(self) -> int:
        """Floating-point operations; an elementary function is counted as eight."""
        names = [name for name, *_ in self.steps if name != "entry"]
        return sum(8 if name in _EXPENSIVE else 1 for name in names)


def split_data(operands: list[Any]) -> tuple[list[Operand], Any]:
    """The operands of a step, and its data or None."""
    has_data = isinstance(operands[-1], tuple)
    return (operands[:-1], operands[-1]) if has_data else (operands, None)


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


def _computed(name: str, xs: list[Any], data: Any, ops: Any) -> Any:
    """The value of an operation on any scalars; numbers may be known when code is written."""
    if name in _ARITHMETIC:
        return _ARITHMETIC[name](*xs)
    if all(type(x) in (int, float) for x in xs):
        return float(Numbers.entrywise(name, xs, data))
    return ops.entrywise(name, xs, data)


class Numbers:
    """The operations of laws on NumPy's numbers and arrays."""

    @staticmethod
    def entrywise(name: str, args: Sequence[Any], data: Any = None) -> Any:
        """An operation by its name in the table of laws."""
        from phipsi.core.arrays.law_values import entry_value  # loaded with the first formula

        return entry_value(name, args, data)
