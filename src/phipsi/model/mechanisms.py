"""Notes of what each function does with the constraints of a mechanism.

Every function that takes a model says it once, in a line above its definition:

    @of_given_motion           about the q, v, vdot that are given: constraints change nothing
    @of_mechanisms             right for trees and for systems, constraint forces included
    @of_trees(why, instead)    for trees; a system with constraints is rejected, with the reason
    @of_modes                  right for flexible bodies too; without it they are rejected
    @of_rigid_bodies(why)      they are rejected, with a reason of its own
    @of_geometry               rotors behind gears change nothing
    @of_constant_rotors        rotors on skew axes are rejected
    @of_drives                 right for rotors on any axis too, though not for flexible bodies

The line is a note in `LOOPS` and leaves the function as it is: a warm call costs nothing more. A
system without constraints is a tree to all of them.

Reasons: docs/decisions/0032.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from phipsi.errors import InputError
from phipsi.model.model import Model
from phipsi.model.points import PointSet

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Loops:
    """The treatment of constraints by a function: `kind` is the name of its note."""

    kind: str
    why: str = ""
    instead: str = ""
    contacts: bool = False
    modes: bool = False
    rigid: str = ""
    constant_rotors: bool = False
    geometry: bool = False
    drives: bool = False


LOOPS: dict[Callable[..., Any], Loops] = {}


def _note(**what: Any) -> Callable[[Function], Function]:
    """A note of a function: its kind, or more about it, in a line further up."""

    def note(function: Function) -> Function:
        LOOPS[function] = Loops(**what) if "kind" in what else replace(LOOPS[function], **what)
        return function

    return note


of_given_motion = _note(kind="of_given_motion")
"""Note that the answer is about the motion that is given, with or without constraints."""
of_mechanisms = _note(kind="of_mechanisms")
"""Note that the constraints of a system are taken into account."""
of_contacts = _note(contacts=True)
"""Note that contact forces are taken into account too."""
of_modes = _note(modes=True)
"""Note that bodies may deform."""
of_geometry = _note(geometry=True)
"""Note that inertias are no part of the answer: it is computed without rotors."""
of_constant_rotors = _note(constant_rotors=True)
"""Note that rotors on skew axes are rejected, also if bodies may deform."""
of_drives = _note(drives=True)
"""Note that rotors on any axis are taken into account, though bodies may not deform."""


def of_trees(why: str, instead: str = "") -> Callable[[Function], Function]:
    """Note that the answer would be wrong for a system: `why` in physics, and what to use."""
    return _note(kind="of_trees", why=why, instead=instead)


def of_rigid_bodies(why: str) -> Callable[[Function], Function]:
    """Note why bodies that deform are rejected, in physics, and what to use."""
    return _note(rigid=why)


def tree_of(mechanism: Any, function: Callable[..., Any]) -> Model:
    """The tree that a function works on, or an error if constraints would change its answer."""
    if not isinstance(mechanism, Model):
        raise _model_first(mechanism, function)
    rule = LOOPS[function]
    knows = rule.contacts or rule.kind == "of_given_motion"
    if mechanism.contact_pairs is not None and not knows:
        raise InputError(
            f"{function.__name__} does not know the forces between bodies that touch, and this "
            f"system has contacts. Motions with contact:\n"
            f"    pp.simulate(system, q, v, duration)\n"
            f"    pp.contact_step(system, q, v, tau, dt)\n"
            f"    pp.Simulator(system, laws, dt, integrator='time_stepping')\n"
            f"For bodies that pass through each other, give system.model, or a system without "
            f"contacts=."
        )
    taken = rule.modes or rule.geometry or rule.drives
    if mechanism.has_more_rows and (rule.constant_rotors or not taken):
        _reject_drives(mechanism, function)
    if mechanism.is_flexible and not rule.modes:
        pairs = zip(mechanism.body_names, mechanism.modes, strict=True)
        names = [repr(name) for name, n in pairs if n]
        why = rule.rigid or (
            "inertias and ports that change with the modes are not part of its formulas yet."
        )
        raise InputError(
            f"{function.__name__} is for rigid bodies, and {', '.join(names[:3])}"
            f"{', …' if len(names) > 3 else ''} deform{'s' * (len(names) == 1)}: {why}\n"
            f"For the undeformed bodies, make them rigid:\n"
            f"    model.with_rigid_bodies()"
        )
    if rule.kind == "of_trees" and mechanism.n_rows:
        names = [repr(c.name) for c in mechanism.constraints]
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        instead = f"\n{rule.instead}" if rule.instead else ""
        raise InputError(
            f"{function.__name__} is for trees, and this system has constraints ({shown}): "
            f"{rule.why}.{instead}\n"
            f"For the tree alone, with its loops cut open, give system.model."
        )
    tree = mechanism.model
    if tree.has_more_rows and rule.geometry and not rule.modes:
        return tree.cached(of_geometry, lambda: Model(replace(tree.description, rotors=())))
    return tree


def _reject_drives(mechanism: Model, function: Callable[..., Any]) -> None:
    pairs = zip(mechanism.joint_names, mechanism.joints, strict=True)
    names = [name for name, joint in pairs if getattr(joint, "drive", None) is not None]
    if not names:
        return
    rotors = [r for r in mechanism.rotors if names[0] in r.joints]
    rotor = next((r for r in rotors if r.of_rates), rotors[0])
    why = "their axes are not parallel"
    if rotor.of_rates:
        why = "it turns with several rates of that joint, each by its own ratio"
    raise InputError(
        f"{function.__name__} is for bodies with constant inertias, and what rotor {rotor.name!r} "
        f"does depends on joint {names[0]!r}: {why}. Make the rotor a body of its own, with a "
        f"pp.constraints.Coupling to its joint."
    )


def forest_of(
    mechanism: Model, points: Sequence[Any] | PointSet | None, axes: str | None = None
) -> tuple[Model, Sequence[Any] | PointSet | None]:
    """The target of compilation: the forest, and the closure frames of a system as points."""
    if not isinstance(cast(object, mechanism), Model) or not mechanism.n_rows:
        return getattr(mechanism, "model", mechanism), points
    if points is None and axes is None:
        return mechanism.model, mechanism.closures.points
    raise InputError(
        "the points of a system are the frames of its closures, in their own axes; for other "
        "points and axes compile for system.model"
    )


def mechanism_of(mechanism: Any, function: Callable[..., Any]) -> Model:
    """The mechanism itself, checked; of a system without constraints, its tree."""
    tree = tree_of(mechanism, function)
    return mechanism if mechanism.n_rows or mechanism.contact_pairs is not None else tree


def _model_first(given: Any, function: Callable[..., Any]) -> InputError:
    """The error for arguments in the wrong order."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    needed = [p.name for p in positional if p.default is p.empty]
    more = ", …" if len(needed) < len(parameters) else ""
    place = next((i for i, n in enumerate(needed) if n in ("model", "system", "grasp")), 0)
    where = "first" if place == 0 else "second"
    first = needed[place] if needed else "model"
    return InputError(
        f"{function.__name__} takes the {first} {where}, not {_kind(given)}:\n"
        f"    {function.__name__}({', '.join(needed)}{more})\n"
        "Models come from pp.load, pp.ModelBuilder and pp.examples."
    )


def _kind(given: Any) -> str:
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    return type(given).__name__
