"""Functions of coordinates as constraint rows: traced once, with derivatives of every order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

from phipsi.core.arrays import EntryGraph
from phipsi.errors import InputError, ModelError

Entries = Sequence[Any]
_JUMPING = ("floor", "floor_divide", "remainder", "sign")


@final
class TracedLaw:
    """A scalar function of `size` coordinates as steps on single numbers.

    It is equal to any other that takes the same steps. Derivatives are steps again, recorded when
    they are first needed.
    """

    def __init__(self, program: EntryGraph, size: int) -> None:
        self.program, self.size = program, size
        self._slopes: dict[tuple[int, int], EntryGraph] = {}
        self._steep: dict[tuple[int, int], EntryGraph] = {}

    @cached_property
    def text(self) -> str:
        """The steps."""
        steps, rows = self.program.listing
        return f"{self.size} {steps!r} {rows!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracedLaw) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return TracedLaw, (self.program, self.size)

    def __call__(self, *x: Any) -> Any:
        """f(x) of traced values, as the function that was recorded."""
        from phipsi.core.arrays import TRACED  # loaded with the first law

        return self.value(x, TRACED)

    def value(self, x: Entries, ops: Any) -> Any:
        """f(x)."""
        return _run(self.program, (x,), ops)[0]

    def slope(self, j: int, x: Entries, directions: Sequence[Entries], ops: Any) -> Any:
        """∂f/∂x_j, differentiated along directions that are held."""
        return _run(self._slope(j, len(directions)), (x, *directions), ops)[0]

    def steepness(self, j: int, x: Entries, directions: Sequence[Entries], ops: Any) -> list[Any]:
        """The derivative of that by every coordinate."""
        order = len(directions)
        if (j, order) not in self._steep:
            self._steep[j, order] = self._slope(j, order).gradient(self.size)
        return _run(self._steep[j, order], (x, *directions), ops)

    def _slope(self, j: int, order: int) -> EntryGraph:
        if (j, order) not in self._slopes:
            found = (
                self.program.gradient(self.size).row(j)
                if order == 0
                else self._slope(j, order - 1).jvp((0,), order)
            )
            self._slopes[j, order] = found
        return self._slopes[j, order]

    def depends_on(self, j: int) -> bool:
        """Whether the function reads coordinate j."""
        return (0, j, 0) in self.program.places

    @property
    def jumps(self) -> tuple[str, ...]:
        """Operations whose values jump, which no motion could follow."""
        return tuple(name for name in _JUMPING if name in self.program.branches)


def _run(program: EntryGraph, blocks: Sequence[Entries], ops: Any) -> list[Any]:
    columns = [[[entry] for entry in block] for block in blocks]
    return [row[0] for row in program.run(columns, ops)]


def traced_law(function: Callable[..., Any], size: int, owner: str) -> TracedLaw:
    """The steps of a function of `size` numbers that returns one; `who` names it in errors."""
    import inspect

    from phipsi.core.arrays import (
        Tracer,
        argument,
        as_node,
        block_entries,
        place_of,
        traced_call,
        traced_twice,
    )
    from phipsi.errors import LawError

    if not callable(function):
        raise ModelError(
            f"{owner} must be a function of the joints' coordinates, not {function!r}:\n"
            f"    lambda angle, lift: lift - 0.01 * np.cos(angle)"
        )
    try:
        names = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        names = []
    plain = [p for p in names if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in plain)
    if (
        names
        and not least <= size <= len(plain)
        and not any(p.kind is p.VAR_POSITIONAL for p in names)
    ):
        raise ModelError(
            f"{owner} takes {least} argument{'' if least == 1 else 's'}, but the constraint has "
            f"{size} coordinate{'' if size == 1 else 's'}. It needs one argument for the "
            "coordinate of each joint."
        )

    def steps() -> EntryGraph:
        given = [Tracer(argument(0, (size,)), owned=True)[i] for i in range(size)]
        node = as_node(traced_call(function, *given))
        if node.size != 1:
            raise ModelError(
                f"{owner} returns an array of shape {node.shape}; it must return one number, which "
                f"is zero where the constraint holds."
            )
        return block_entries(node)

    try:
        return TracedLaw(traced_twice(steps, operator.eq, function, place_of(function)), size)
    except (LawError, InputError) as error:
        text = str(error)
        place = "" if ", line " in text else place_of(function)
        raise ModelError(f"{owner}: {place}{text}") from None


@final
class RateLaw:
    """The row v = rate(t), which has a rate and no position: coordinates (q, t), t that of a clock.

    Its coefficients are 1 and −rate(t), the derivatives of q − ∫ rate dt.
    """

    size = 2

    def __init__(self, rate: TracedLaw) -> None:
        self._rate = rate
        self.text = f"rate {rate.text}"

    def __reduce__(self) -> tuple[Any, ...]:
        return RateLaw, (self._rate,)

    def value(self, x: Entries, ops: Any) -> Any:
        """0: the position of the joint follows from the rate."""
        return 0 * x[0]

    def slope(self, j: int, x: Entries, directions: Sequence[Entries], ops: Any) -> Any:
        """1 and −rate, differentiated along directions."""
        if j == 0:
            return 0 if directions else 1
        if not directions:
            return -self._rate.value(x[1:], ops)
        first, *rest = directions
        return -(first[1] * self._rate.slope(0, x[1:], [d[1:] for d in rest], ops))

    def steepness(self, j: int, x: Entries, directions: Sequence[Entries], ops: Any) -> list[Any]:
        """The derivative of that with respect to q, which is zero, and to t."""
        if j == 0:
            return [0, 0]
        along = 1
        for d in directions:
            along = along * d[1]
        ones = [[1] for _ in directions]
        return [0, -(along * self._rate.slope(0, x[1:], ones, ops))]
