"""The controller of a scenario: one of `phipsi.controllers` with its reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.kinematics.motions import body_poses
from phipsi.control import controllers, references
from phipsi.errors import PhipsiError
from phipsi.interfaces.scenarios.forces_and_events import point
from phipsi.interfaces.scenarios.joint_values import with_coordinates
from phipsi.interfaces.scenarios.toml_tables import Table
from phipsi.model import Model, Pose
from phipsi.spatial import quat_to_matrix

Array = NDArray[Any]

_JOINT_SPACE = ("ComputedTorque", "PDGravity")
_UNIT = 1e-6  # how far from unit length a quaternion in a file may be


def read_controller(table: Table, model: Model, q0: Array) -> Any:
    """The controller, or None if the scenario has none."""
    one = table.table("controller")
    if one is None:
        return None
    try:
        return _controller(one, model, q0)
    except PhipsiError as error:
        if getattr(error, "file", None) == one.file:
            raise
        names = [key for key in one.data if str(error).startswith((f"{key} ", f"{key}="))]
        one.refuse(names[0] if names else "", str(error))


def _controller(one: Table, model: Model, q0: Array) -> Any:
    kind = one.choice("type", (*_JOINT_SPACE, "OperationalSpace"))
    made = (
        _operational_space(one, model, q0)
        if kind == "OperationalSpace"
        else _joint_space(one, kind, model, q0)
    )
    if "largest_effort" not in one:
        return made
    if one.data["largest_effort"] == "ratings":
        return controllers.Saturated(made, model)
    return controllers.Saturated(made, model, one.gains("largest_effort"))


def _joint_space(one: Table, kind: str, model: Model, q0: Array) -> Any:
    extra = ("compensate_damping",) if kind == "ComputedTorque" else ()
    one.only("type", "kp", "kd", "hold", "path", "largest_effort", *extra)
    reference = _joint_reference(one, model, q0)
    kp, kd = one.gains("kp"), one.gains("kd")
    if kind == "PDGravity":
        return controllers.PDGravity(model, reference, kp, kd)
    damping = one.flag("compensate_damping", False)
    return controllers.ComputedTorque(model, reference, kp, kd, compensate_damping=damping)


def _joint_reference(one: Table, model: Model, q0: Array) -> Any:
    """A configuration to hold, or a path; joints that are not named stay where they were."""
    _not_both(one)
    if "path" not in one:
        return _configuration(one, "hold", model, q0)
    times, waypoints, last = [], [], q0
    for stop in _stops(one, "{ time = 0, q = {} }, { time = 1, q = { elbow = 0.5 } }"):
        stop.only("time", "q")
        last = _configuration(stop, "q", model, last)
        waypoints.append(last)
        times.append(stop.number("time"))
    return references.JointPath(model, np.array(waypoints), times)


def _configuration(one: Table, key: str, model: Model, start: Array) -> Array:
    def refuse(joint: str, reason: str) -> Any:
        one.refuse((key, joint), reason)

    return with_coordinates(model, start, one.by_joint(key), refuse)


def _operational_space(one: Table, model: Model, q0: Array) -> Any:
    one.only(
        "type", "frame", "kp", "kd", "hold", "path", "components", "null_space", "null_damping",
        "singularity", "compensate_damping", "largest_effort",
    )  # fmt: skip
    frame = point(one, "frame")
    body, X = model.resolve_point(frame)
    start = X.matrix if body < 0 else body_poses(model, q0)[body] @ X.matrix
    inner = one.table("null_space")
    null_space = None
    if inner is not None:
        kind = inner.choice("type", _JOINT_SPACE)
        null_space = _joint_space(inner, kind, model, q0)
    return controllers.OperationalSpace(
        model,
        frame,
        _pose_reference(one, Pose(start[:3, :3], start[:3, 3])),
        one.gains("kp"),
        one.gains("kd"),
        components=_components(one),
        null_space=null_space,
        null_damping=one.number("null_damping", 2.0),
        singularity=one.number("singularity", 1e-4, positive=True),
        compensate_damping=one.flag("compensate_damping", False),
    )


def _components(one: Table) -> Any:
    if not isinstance(one.data.get("components"), list):
        return one.choice("components", ("pose", "position", "rotation"), "pose")
    rows = one.numbers("components")
    if not rows or any(x not in range(6) for x in rows) or len(set(rows)) < len(rows):
        one.refuse(
            "components",
            "components must be different whole numbers from 0 to 5: rotations about x, y, z are "
            "0, 1, 2 and positions x, y, z are 3, 4, 5.",
        )
    return tuple(int(x) for x in rows)


def _pose_reference(one: Table, start: Pose) -> Any:
    """A pose to hold, or a path of poses; what is not given stays as it was."""
    _not_both(one)
    if "path" not in one:
        hold = one.table("hold")
        return start if hold is None else _pose(hold, start, ())
    times, poses, last = [], [], start
    example = "{ time = 0 }, { time = 1, position = [0.4, 0, 0.5] }"
    for stop in _stops(one, example):
        last = _pose(stop, last, ("time",))
        poses.append(last)
        times.append(stop.number("time"))
    return references.CartesianPath(poses, times)


def _pose(one: Table, start: Pose, others: tuple[str, ...]) -> Pose:
    one.only(*others, "position", "quaternion")
    position = one.numbers("position", 3, start.translation)
    if "quaternion" not in one:
        return Pose(start.rotation, position)
    quaternion = np.array(one.numbers("quaternion", 4))
    length = float(np.linalg.norm(quaternion))
    if abs(length - 1) > _UNIT:
        one.refuse(
            "quaternion",
            f"the quaternion (w, x, y, z) has length {length:.6g}, but rotations have unit "
            f"quaternions; no rotation is [1, 0, 0, 0].",
        )
    return Pose(quat_to_matrix(quaternion), position)


def _not_both(one: Table) -> None:
    if "hold" in one and "path" in one:
        one.refuse("path", "give either what to hold or a path, not both.")


def _stops(one: Table, example: str) -> list[Table]:
    stops = one.tables("path")
    if len(stops) < 2:
        one.refuse("path", f"a path needs at least two stops:  path = [{example}]")
    return stops
