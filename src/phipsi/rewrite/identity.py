"""Identity: one equation of the algebra as data, and the conditions under which equations hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phipsi.expressions.node import Expr
from phipsi.model import Model
from phipsi.model.points import PointSet

Array = NDArray[Any]


class Claim(NamedTuple):
    """Two arrays that ought to be equal, exactly."""

    lhs: Array
    rhs: Array


class Case(Protocol):
    """One mechanism in one state, which the equations of motion hold for.

    `vdot` and `f0` are drawn at random, `tau` is what they need; `points` are a few random points.
    The numbers are exact: residues modulo a prime, or long decimals. They are arrays of a class of
    their own, so a check makes its arrays by `zeros`, `eye`, `random`, `np.stack` or `zeros_like`,
    and never by `np.array`. Everything is deterministic for a given seed.
    """

    @property
    def model(self) -> Model:
        """The mechanism."""
        ...

    @property
    def q(self) -> Array:
        """Configuration (nq,)."""
        ...

    @property
    def v(self) -> Array:
        """Rates (nv,)."""
        ...

    @property
    def vdot(self) -> Array:
        """Accelerations (nv,)."""
        ...

    @property
    def tau(self) -> Array:
        """Efforts (nv,)."""
        ...

    @property
    def f0(self) -> Array:
        """Point forces (nC, 6)."""
        ...

    @property
    def points(self) -> PointSet:
        """Points on bodies, world axes."""
        ...

    @property
    def rng(self) -> np.random.Generator:
        """Random choices; random numbers of the right kind come from `random`."""
        ...

    @property
    def random(self) -> Callable[..., Array]:
        """Draws more random numbers, as an array of the shape given."""
        ...

    @property
    def memo(self) -> dict[Any, Any]:
        """What checks keep for each other in this state."""
        ...

    def zeros(self, *shape: int) -> Array:
        """Zeros of the right kind."""
        ...

    def array(self, scalars: Sequence[Any]) -> Array:
        """The array of scalars, such as the parameters of a joint."""
        ...

    def eye(self, size: int) -> Array:
        """The identity matrix."""
        ...

    def dense(self, expr: Expr, **changes: Any) -> Array:
        """The value of an expression in this state; keywords of `dense` replace parts of it."""
        ...

    def derivative(
        self, value: Callable[..., Array], at: Sequence[Array], along: Sequence[Array]
    ) -> Array:
        """The derivative of value(*at) along directions, one for each argument."""
        ...


@dataclass(frozen=True)
class Identity:
    """An equation: before = after, where the condition holds.

    `kind` is "rule" (the rewriter uses it, from left to right) or "theorem" (it is stated and
    proved, not used). Equations that are not between operators (recursions, single blocks, physics)
    have a `check` instead of the two sides, and their text in `statement`. `rigid` says that a
    check divides by no hinge inertia, so that its degree is small.
    """

    name: str
    before: Expr | None
    after: Expr | None
    condition: str = ""
    source: str = ""
    kind: str = "theorem"
    check: Callable[[Case], Claim] | None = None
    note: str = ""
    statement: str = ""
    rigid: bool = False

    def __str__(self) -> str:
        sides = self.statement or f"{self.before} = {self.after}"
        condition = f"   if {self.condition}" if self.condition else ""
        return f"{self.name}:  {sides}{condition}   [{self.source}]"


@dataclass(frozen=True)
class Erratum:
    """A printed equation that is wrong: `claim` states it as printed, and proving it fails.

    `needs` says what a mechanism must have for the difference to show.
    """

    name: str
    printed: str
    correct: str
    source: str
    claim: Identity
    needs: str = ""


# ---- conditions --------------------------------------------------------------------------------


def _no_armature(model: Model) -> str:
    for name, s in zip(model.joint_names, model.v_slices, strict=True):
        if model.armature[s].any():
            return f"joint {name!r} has rotor inertia {model.armature[s].tolist()}"
    return ""


def _serial(model: Model) -> str:
    if len(model.tree.roots) > 1:
        return f"there are {len(model.tree.roots)} bodies on the world"
    for k, children in enumerate(model.tree.children):
        if len(children) > 1:
            return f"body {model.body_names[k]!r} has {len(children)} children"
    return ""


def _free_root(model: Model) -> str:
    if any(model.joints[k].kind == "free" for k in model.tree.roots):
        return ""
    return "no body is attached to the world by a free joint"


def _revolute(model: Model) -> str:
    return _only(model, ("revolute",))


def _one_dof(model: Model) -> str:
    return _only(model, ("revolute", "prismatic", "helical"))


def _only(model: Model, kinds: tuple[str, ...]) -> str:
    for name, joint in zip(model.joint_names, model.joints, strict=True):
        if joint.kind not in kinds:
            return f"joint {name!r} is {joint.kind}"
    return ""


CONDITIONS: dict[str, Callable[[Model], str]] = {
    "Jr = 0": _no_armature,
    "serial": _serial,
    "free root": _free_root,
    "revolute": _revolute,
    "one dof": _one_dof,
}
"""Condition → why a model does not meet it ("" if it does)."""


def unmet(condition: str, model: Model) -> str:
    """Why `model` does not meet a condition such as "Jr = 0, serial"; "" if it does."""
    for part in filter(None, condition.split(", ")):
        why = CONDITIONS[part](model)
        if why:
            return f"it holds for {part}, but {why}"
    return ""


def claim(lhs: Any, rhs: Any) -> Claim:
    """The claim that two arrays are equal; a number stands for an array full of it."""
    return Claim(lhs, rhs)


def gathered(case: Case, blocks: Sequence[Any], *shape: int) -> Array:
    """Blocks of one shape as one array, also if there are none."""
    return np.stack(blocks) if len(blocks) else case.zeros(0, *shape)


def stacked(claims: Sequence[Claim]) -> Claim:
    """Several claims as one."""
    if not claims:
        return Claim(np.zeros(0), np.zeros(0))
    left = [np.reshape(c.lhs + 0 * c.rhs, -1) for c in claims]
    right = [np.reshape(c.rhs + 0 * c.lhs, -1) for c in claims]
    return Claim(np.concatenate(left), np.concatenate(right))
