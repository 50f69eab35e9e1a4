"""Identity: one equation of the algebra as data, and the conditions under which equations hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from phipsi.expressions.node import Expr
from phipsi.model import Model


class Claim(NamedTuple):
    """Two arrays that must be equal, exactly; a number stands for an array full of it."""

    lhs: Any
    rhs: Any


@dataclass(frozen=True)
class Identity:
    """An equation: before = after, where the condition holds.

    `kind` is "rule" (the rewriter uses it, from left to right) or "theorem" (it is stated and
    proved, not used); a theorem that is also a rule has the name of that `rule`. With `sweeps`, the
    left side is the result of its compiled program: applied to a vector ("apply") or as a matrix
    ("dense"). Equations that are not between operators (single blocks, physics) have a
    `check` of a `proofs.State` instead of two sides, and their text in `statement`. `rigid` says
    that a check divides by no hinge inertia, so that its degree is small.
    """

    name: str
    before: Expr | None
    after: Expr | None
    condition: str = ""
    source: str = ""
    kind: str = "theorem"
    check: Callable[[Any], Claim] | None = None
    note: str = ""
    statement: str = ""
    rigid: bool = False
    sweeps: str = ""
    rule: str = ""

    def __str__(self) -> str:
        sides = self.statement or f"{self.before} = {self.after}"
        condition = f"   if {self.condition}" if self.condition else ""
        return f"{self.name}:  {sides}{condition}   [{self.source}]"


@dataclass(frozen=True)
class Erratum:
    """A printed equation that is wrong: `claim` states it as printed, and proving it fails.

    `needs` says which mechanisms show the difference.
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
