"""Notes of commands that simulate a robot file: what the file says and does not act."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phipsi.cli.common import print_error

if TYPE_CHECKING:
    from phipsi.core.model import Model

_LEFT_OUT = ("ignored", "actuator")  # findings about elements that would change the motion


def print_notes(
    model: Model, file: Path, *, joint_properties: bool, touching: bool = False,
    fmu: bool = False, dt: float | None = None, q: Any = None,
) -> None:  # fmt: skip
    """Print what does not act in the simulation of a robot, each note with what to type.

    `dt`, the time step, if the simulation has one; `q`, its initial configuration.
    """
    notes = [] if joint_properties else [_joints(model)]
    notes += [] if touching else [_contacts(model, file, fmu=fmu)]
    for note in (*notes, _pose(model, q), _elements(model, file), _time_step(model, dt)):
        if note:
            print_error(f"note: {note}")


def _joints(model: Model) -> str:
    """Limits, damping and dry friction of joints, which nobody asked for."""
    from phipsi.simulation import stored_properties

    known = stored_properties(model.model)
    return known and (
        f"{known} of the robot do not act in this simulation. To apply them, add\n"
        "    --joint-properties"
    )


def _contacts(model: Model, file: Path, *, fmu: bool) -> str:
    """Shapes of a robot that may fall or reach what is fixed."""
    from phipsi.core.model import WORLD
    from phipsi.errors import counted
    from phipsi.simulation import warn_of_floor

    touching = [x for x in model.geometry if x.role == "collision"]
    hosts = [model.resolve_point(x.link)[0] for x in touching]
    moving = sum(host != WORLD for host in hosts)
    roots = zip(model.joints, model.parent, strict=True)
    floats = any(joint.nv == 6 and parent == WORLD for joint, parent in roots)
    if not moving or (moving == len(hosts) and not floats):
        return ""
    warn_of_floor(model, quiet=True)  # this note says it
    floor = "what is fixed in the world" if moving < len(hosts) else "a floor"
    lines = [
        f"{counted(moving, 'collision shape')} of the robot without contacts in this simulation: "
        f"neither with each other nor with {floor}. With contacts, in the browser:",
        f"    phipsi view {file} --ground",
        "In Python, with the floor of the file (or ground=True for one at z = 0):",
        "    system = pp.System(model, contacts=pp.Contacts(model))",
        '    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")',
    ]
    return "\n".join([*lines, *(['    pp.export_fmu(sim, "robot.fmu")'] if fmu else [])])


def _pose(model: Model, q: Any) -> str:
    """Joints at 0 that the file draws elsewhere."""
    if q is None:
        return ""
    known = {x.body: x.numbers[0] for x in model.diagnosis if x.kind == "ref"}
    moving = [name for name in known if name in model.joint_names]
    at_zero = [name for name in moving if not q[model.q_slice(name)].any()]
    listed = "".join(f"\n    --set {name}={known[name]!r}" for name in at_zero)
    return listed and f"joints begin at 0; in the pose of the file, at their ref:{listed}"


def _elements(model: Model, file: Path) -> str:
    """Elements of the file that the model does not have, such as actuators."""
    from phipsi.errors import counted

    left = Counter(x.kind for x in model.diagnosis if x.is_problem and x.kind in _LEFT_OUT)
    both = (left["actuator"], "actuator"), (left["ignored"], "other element")
    named = [counted(n, word) for n, word in both if n]
    return " and ".join(named) and (
        f"left out of the model: {' and '.join(named)} of the file. To list them, with what to "
        f"write in Python instead:\n    phipsi check {file}"
    )


def _time_step(model: Model, dt: float | None) -> str:
    """The time step of the file, if the simulation has another one."""
    stated = next((x.numbers[0] for x in model.diagnosis if x.kind == "timestep"), None)
    if dt is None or stated is None or stated == dt:
        return ""
    return (
        f"the time step of the file is not used; this one is {dt:g} s. To use it, add\n"
        f"    --dt {stated!r}"
    )
