"""Formulas of one body: blocks of custom operators and vectors in plain arithmetic.

A formula is a graph of entries for every width of a joint. Its derivatives are formulas again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from phipsi.core.arrays import EntryGraph
from phipsi.core.expressions import GENERAL, MEMORYLESS, ONE, Expr, Op, Space, intern
from phipsi.core.model import Model
from phipsi.core.operators import BodyFunction
from phipsi.core.spatial import ScalarOps
from phipsi.errors import InputError, SpaceError


@dataclass(frozen=True, eq=False)
class Formula(BodyFunction):
    """A function of quantities of one body that was traced.

    `programs` has the graphs for joints of 0, 1, …
    6 degrees of freedom, or the text of what went wrong there. Formulas are equal if their contents
    are.
    """

    programs: tuple[EntryGraph | str, ...] = ()
    key: tuple[Any, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        """With the steps, which the code of a program depends on."""
        return f"<formula {self.key}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return formula, self.key

    def __call__(self, *args: Expr, hole: int | None = None) -> Expr:
        """The node f(args), as it is written: a formula need not be linear."""
        assert self.takes is not None
        assert self.gives is not None
        if tuple(map(kind_of, args)) != self.arguments:
            wanted = "; ".join(map(_kind_text, self.arguments))
            found = "; ".join(_kind_text(kind_of(x)) for x in args)
            raise SpaceError(f"{self.name} takes ({wanted}), not ({found})")
        structure = GENERAL if self.takes is ONE else MEMORYLESS
        return intern(Op.FUNCTION, args, (self, hole), self.takes, self.gives, structure)

    def program(self, width: int) -> EntryGraph:
        """The steps for joints of so many degrees of freedom."""
        found = self.programs[width]
        if isinstance(found, str):
            raise InputError(found)
        return found

    def block(self, width: int, arguments: Sequence[Any], ops: ScalarOps) -> list[list[Any]]:
        """The block of a body with such a joint, on any kind of number."""
        return self.program(width).run(arguments, ops)

    def reads(self, argument: int, width: int) -> bool:
        """Whether the block of a body with such a joint depends on an argument."""
        found = self.programs[width]
        return isinstance(found, EntryGraph) and found.reads(argument)

    def flops(self, width: int) -> int:
        """Floating-point operations for one body with such a joint."""
        found = self.programs[width]
        return 0 if isinstance(found, str) else found.flops

    def change(self, args: Sequence[Expr], changes: Sequence[Expr]) -> Expr:
        """How f(args) changes with its arguments, linear in the changes."""
        moving = tuple(i for i, dx in enumerate(changes) if dx.op is not Op.ZERO)
        return self.tangent(moving)(*args, *(changes[i] for i in moving))

    def weight(self, args: Sequence[Expr], i: int, Z: Expr) -> Expr:
        """The weight W of argument i with tr(Z δf) = tr(W δX), or w* δx, while others are held."""
        return self.adjoint_by(i)(*args, Z)

    def tangent(self, moving: tuple[int, ...]) -> Formula:
        """The formula of the change with the arguments `moving`, whose changes follow them."""
        n, kinds = len(self.arguments), tuple(self.arguments[i] for i in moving)
        prefix = "".join(f"d{i}" for i in moving)
        return formula(
            f"{prefix}_{self.name}", self.takes, self.gives, (*self.arguments, *kinds),
            self._each(lambda p, r: p.jvp(moving, n)), self.symmetric,
        )  # fmt: skip

    def adjoint_by(self, i: int) -> Formula:
        """The formula of the weight of argument i; that of the block follows the arguments."""
        assert self.takes is not None
        assert self.gives is not None
        n, is_vector = len(self.arguments), self.takes is ONE
        kind: Any = self.arguments[i]
        weight: Kind = self.gives.dual if is_vector else (self.gives, self.takes)
        takes, gives = (ONE, kind.dual) if isinstance(kind, Space) else (kind[1], kind[0])
        return formula(
            f"w{i}_{self.name}", takes, gives,
            (*self.arguments, weight),
            self._each(lambda p, r: p.vjp(i, block_shape(kind, r), n, is_vector)), False,
        )  # fmt: skip

    def named(self, word: str) -> Formula | None:
        """Itself, or a derivative: d0d1_f by two arguments, w2_f the weight of one."""
        if word == self.name:
            return self
        found = _DERIVED.fullmatch(word)
        inner = None if found is None else self.named(found[3])
        if found is None or inner is None:
            return None
        at = [int(i) for i in re.findall(r"\d+", found[1] or found[2])]
        if max(at) >= len(inner.arguments) or at != sorted(set(at)):
            return None
        return inner.tangent(tuple(at)) if found[1] else inner.adjoint_by(at[0])

    @property
    def cases(self) -> tuple[str, ...]:
        """The operations by which it chooses between cases: where, less, abs, …."""
        programs = [p for p in self.programs if isinstance(p, EntryGraph)]
        return tuple(sorted({name for p in programs for name in p.branches}))

    def _each(self, make: Callable[[EntryGraph, int], EntryGraph]) -> tuple[EntryGraph | str, ...]:
        return tuple(p if isinstance(p, str) else make(p, r) for r, p in enumerate(self.programs))

    def differences(self, other: Formula) -> str:
        """The first step in which it differs from a formula that is printed alike, for an error."""
        for one, twin in zip(self.programs, other.programs, strict=True):
            if one == twin or isinstance(one, str) or isinstance(twin, str):
                continue
            steps, others = one.listing[0], twin.listing[0]
            for a, b in zip(steps, others, strict=False):
                if a != b:
                    return f"{_step_text(a)} in one, {_step_text(b)} in the other"
            return f"{len(steps)} operations in one, {len(others)} in the other"
        return "the functions fail for different joints"

    def check_model(self, model: Model) -> None:
        """Reject joints for which the formula fails."""
        for name, joint in zip(model.joint_names, model.joints, strict=True):
            found = self.programs[joint.nv]
            if isinstance(found, str):
                raise InputError(
                    f"{self.name} of joint {name!r} (degrees of freedom: {joint.nv}): {found}"
                )


def formula(
    name: str,
    takes: Space | None,
    gives: Space | None,
    arguments: tuple[Any, ...],
    programs: tuple[EntryGraph | str, ...],
    symmetric: bool,
) -> Formula:
    """The formula with these contents."""
    key = name, takes, gives, arguments, programs, symmetric
    upright = name.replace("_", r"\_")
    latex = rf"\operatorname{{{upright}}}"
    return Formula(
        name, arguments, takes, gives, "formula", "a formula of one body", latex,
        adjoint=(lambda x: x) if symmetric else None, programs=programs, symmetric=symmetric,
        key=key,
    )  # fmt: skip


Kind = Space | tuple[Space, Space]
"""The space of a vector, or the spaces of an operator, takes and gives."""


_DERIVED = re.compile(r"(?:((?:d\d+)+)|w(\d+))_(\w+)")


def is_derived_name(name: str) -> bool:
    """Whether a name is one that the derivatives of formulas have: d0d1_f, w2_f."""
    return _DERIVED.fullmatch(name) is not None


def _kind_text(kind: Any) -> str:
    if isinstance(kind, Space):
        return kind.phrase if kind is not ONE else "a number"
    return f"{kind[0].phrase} → {kind[1].phrase}"


def kind_of(x: Expr) -> Kind:
    """The kind of an argument of a formula."""
    return x.gives if x.is_vector else (x.takes, x.gives)


def block_shape(kind: Kind, width: int) -> tuple[int, ...]:
    """The axes of a block of one body whose joint has so many degrees of freedom."""
    spaces = (kind,) if isinstance(kind, Space) else (kind[1], kind[0])
    return tuple(width if s.width is None else s.width for s in spaces if s is not ONE)


def _step_text(step: tuple[Any, ...]) -> str:
    """A recorded operation, with the constants in it."""
    numbers = ", ".join(repr(x) if isinstance(x, float) else "…" for x in step[1:])
    return f"{step[0]}({numbers})"
