"""What a link or joint of SDF says that the model does not have, and what to write instead."""

from __future__ import annotations

from phipsi.core.model import SpatialInertia
from phipsi.files.parsed_robot import ParsedRobot
from phipsi.files.xml_document import XMLElement

_STEP = 1e-3  # s, of Gazebo by default: velocities decay once in every step
_USUAL_STOP = (1e8, 1.0)


def note_forces_on_link(
    robot: ParsedRobot, element: XMLElement, name: str, inertia: SpatialInertia
) -> None:
    """Record what acts on a link beside gravity, or that gravity does not.

    `inertia` is in the frame of the body of that name, which is at its joint.
    """
    who, texts = element.label, element.texts
    if not texts.flag("gravity", True):
        lift = [0.0, 0.0, 0.0, *(-inertia.mass * x + 0.0 for x in robot.gravity)]
        instead = (
            "Add the force that lifts it to those of a simulation:\n"
            f"    pp.forces.Wrench(({name!r}, {inertia.com_B.tolist()}), {lift})"
        )
        robot.note_left_out("<gravity>false</gravity>", who, name, element, instead=instead)
    if texts.flag("kinematic"):
        instead = "Prescribe the motion of its joint:  pp.simulate(…, prescribed={joint: vdot})"
        robot.note_left_out("<kinematic>true</kinematic>", who, name, element, instead=instead)
    if texts.flag("enable_wind"):
        instead = f"Drag is\n    pp.forces.WindDrag({name!r}, area=0.01, wind=(1.0, 0.0, 0.0))"
        robot.note_left_out("the force of the wind", who, name, element, instead=instead)
    decay = element.only("velocity_decay", who)
    if decay is None:
        return
    angular, linear = (decay.texts.number(tag, who, 0.0) for tag in ("angular", "linear"))
    if angular or linear:
        turn = float(inertia.moment_about_com_B.diagonal().mean()) * angular / _STEP
        point = f"({name!r}, {inertia.com_B.tolist()})"
        drag = [*[turn] * 3, *[inertia.mass * linear / _STEP] * 3]
        instead = (
            "It takes a part of the velocity in every step; in steps of 1 ms, that is about the "
            "drag of the law\n    pp.law(lambda drag, V: {'wrench': -drag * V})"
            f".bind(drag={drag}, V=pp.signals.twist({point})).at({point})"
        )
        robot.note_left_out("<velocity_decay>", who, name, decay, instead=instead)


def note_spring(
    robot: ParsedRobot, axis: XMLElement, name: str, who: str, place: int, count: int
) -> None:
    """Record the spring and the soft stop of one of the axes of a joint."""

    def on(number: float) -> str:
        return repr(number if count == 1 else [number * (i == place) for i in range(count)])

    at = axis.only("dynamics", who)
    if at is not None and (stiffness := at.texts.number("spring_stiffness", who, 0.0)):
        rest = at.texts.number("spring_reference", who, 0.0)
        instead = (
            "Add it to the forces of a simulation:\n"
            f"    pp.forces.JointSpring({name!r}, {on(stiffness)}, rest={on(rest)})"
        )
        robot.note_left_out("its spring", who, name, at, instead=instead)
    at = axis.only("limit", who)
    if at is None:
        return
    stop = tuple(
        at.texts.number(tag, who, usual)
        for tag, usual in zip(("stiffness", "dissipation"), _USUAL_STOP, strict=True)
    )
    if stop != _USUAL_STOP:
        instead = (
            "Choose the stiffness of a stop:\n"
            f"    pp.forces.JointLimit({name!r}, stiffness={stop[0]!r}, dissipation=0.1)"
        )
        what = "the stiffness or dissipation of its limits"
        robot.note_left_out(what, who, name, at, instead=instead)
