"""Joint limits, damping, dry friction and the floor of a robot file: they act if asked for.

A simulation of a model from a file warns once of what does not act: properties of joints if nothing
acts at all, and the floor of a robot that can fall through it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from phipsi.core.model import WORLD, Model, flattened
from phipsi.errors import counted, warn
from phipsi.laws import BlockDiagram
from phipsi.simulation.forces.joint_forces import JointDamper, JointFriction
from phipsi.simulation.forces.joint_limits import JointLimit, limited_joints

_TOLD: WeakValueDictionary[int, Any] = WeakValueDictionary()  # contents of files, by their id
_TOLD_OF_FLOORS: WeakValueDictionary[int, Any] = WeakValueDictionary()
_FLOORS = ("plane", "heightfield")
_TRANSLATING = ("free", "translation", "prismatic", "planar", "cylindrical")  # kinds of joints
_OF_JOINTS = (JointDamper, JointFriction, JointLimit)


def stored_properties(model: Model) -> str:
    """Joint properties of a tree that `from_model` would apply, with numbers of joints; "" if none.

    >>> import phipsi as pp
    >>> stored_properties(pp.examples.seven_joint_arm())
    'limits of 7 joints and damping of 7 joints'
    """
    joints = zip(model.joint_names, model.v_slices, strict=True)
    counts = {
        "limits": len(limited_joints(model)),
        "damping": sum(bool(model.damping[at].any()) for _, at in joints),
        "dry friction": sum(bool(np.any(r.friction)) for r in model.joint_properties.values()),
    }
    listed = [f"{name} of {counted(n, 'joint')}" for name, n in counts.items() if n]
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def forces_or_none(model: Model, forces: Any, integrator: object) -> Any:
    """The forces that were passed to `simulate`; of None there are none, with a warning."""
    warn_of_floor(model)
    if forces is not None:
        return forces
    _warn_of(model.model, f"    forces={_line(integrator)}", "    forces=[]")
    return ()


def acting_laws(model: Model, laws: Any, integrator: object) -> Any:
    """The laws that were passed to `Simulator`, one or a tuple; of None none, with a warning."""
    warn_of_floor(model)
    if laws is None:
        line = f"    pp.Simulator(model, {_line(integrator)}, …)"
        _warn_of(model.model, line, "    pp.Simulator(model, [], …)")
        return ()
    several = isinstance(laws, Iterable) and not isinstance(laws, BlockDiagram)
    return flattened(laws) if several else laws


def warn_of_floor(model: Model, *, quiet: bool = False) -> None:
    """Warn, once for each file, of a floor without contacts under a robot that can fall.

    With `quiet` the user was told already.
    """
    source = model.description.attachments.stored_as("geometry")
    if source is None or _TOLD_OF_FLOORS.get(id(source)) is source:
        return
    if not quiet and (model.contact_pairs is not None or not _can_fall_through(model.model)):
        return
    _TOLD_OF_FLOORS[id(source)] = source
    if not quiet:
        name = f" {model.name!r}" if model.name else ""
        constraints = "" if model.model is model else "model.constraints, "
        tree = "model" if model.model is model else "model.model"
        warn(
            f"the floor of the robot file{name} does not act: this simulation has no contacts, so "
            "the robot passes through it. With contacts:\n"
            f"    system = pp.System({tree}, {constraints}contacts=pp.Contacts({tree}))\n"
            '    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")\n'
            "To simulate without them and without a warning:\n"
            '    warnings.filterwarnings("ignore", message="the floor of the robot")'
        )


def _can_fall_through(model: Model) -> bool:
    """Whether a body that translates in the world may touch a floor of the file."""
    if not any(x.kind in _FLOORS and x.role == "collision" for x in model.geometry):
        return False
    solid = [x for x in model.geometry if x.role == "collision"]
    hosts = [model.resolve_point(x.link)[0] for x in solid]
    floors = [x for x, i in zip(solid, hosts, strict=True) if i == WORLD and x.kind in _FLOORS]
    loose = set[int]()
    for i, (joint, parent) in enumerate(zip(model.joints, model.parent, strict=True)):
        moves = any(word in joint.kind for word in _TRANSLATING)
        massless = parent != WORLD and not model.inertias[parent].mass
        if parent in loose or (moves and (parent == WORLD or massless)):
            loose.add(i)
    return any(
        i in loose and (x.group & floor.mask or floor.group & x.mask)
        for x, i in zip(solid, hosts, strict=True)
        for floor in floors
    )


def not_acting(model: Model, laws: Any) -> str:
    """What a robot file says of joints, if no law is a force of that kind; "" for nothing."""
    acting = isinstance(laws, tuple) and any(isinstance(x, _OF_JOINTS) for x in laws)
    known = "" if acting or _source(model) is None else stored_properties(model)
    return f"; stored, not acting: {known}" if known else ""


def _source(model: Model) -> Any:
    """The contents of the robot file that say something of joints, or None."""
    found = model.description.attachments.stored_as("joint_properties")
    return found if found is not None and found.joint_properties else None


def _line(integrator: object) -> str:
    steps = isinstance(integrator, str) and integrator == "time_stepping"  # not checked yet
    exact = ", exact=True" if steps else ""
    return f"pp.forces.from_model(model{exact})"


def _warn_of(model: Model, *lines: str) -> None:
    """Warn, once for each robot file that was read; `lines` to paste, with and without them."""
    source = _source(model)
    if source is None or _TOLD.get(id(source)) is source or not (known := stored_properties(model)):
        return
    _TOLD[id(source)] = source
    name = f" {model.name!r}" if model.name else ""
    listed = "\n".join(lines)
    warn(
        f"the file of the robot{name} gives {known}, which do not act here: only the forces that "
        f"you pass act. To apply them, or to simulate without them and without a warning:\n{listed}"
    )
