"""The same systems in Pinocchio: constraintDynamics, lcaba and computeDelassusMatrix.

`lcaba` needs `computeJointMinimalOrdering` first. Where constraints are to the world (the feet of a
humanoid) it is right in the first call on new data, and in every other one after that; those
between are off by some per cent (Pinocchio 4.1, see `repeated`). The first call is compared, all
are timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import robots
from closed_systems import FEET

import phipsi as pp

Peer = tuple[dict[str, np.ndarray], dict[str, Callable[[], Any]]]
"""Accelerations by function, and the functions."""


def pinocchio_standing(name: str, tau: np.ndarray) -> Peer:
    """The humanoid with both feet held where they are."""
    return _functions(*_standing(name), tau)


def _standing(name: str) -> tuple[Any, np.ndarray, Any]:
    model = pin.buildModelFromUrdf(robots.urdf_path(name), pin.JointModelFreeFlyer())
    data, q = model.createData(), pin.neutral(model)
    pin.framesForwardKinematics(model, data, q)
    models = pin.StdVec_RigidConstraintModel()
    for foot in FEET[name]:
        number = model.getFrameId(foot)
        frame = model.frames[number]
        rows = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_6D, model, frame.parentJoint, frame.placement, 0,
            data.oMf[number].copy(), pin.LOCAL,
        )  # fmt: skip
        models.append(rows)
    return model, q, models


def pinocchio_platform(system: pp.System, tau: np.ndarray) -> Peer:
    """The platform; joints in our order, the free one with [linear; angular]."""
    tree = system.model
    model = pin.Model()
    numbers = {-1: 0}
    kinds = {0: pin.JointModelRX, 1: pin.JointModelRY}
    for k, joint in enumerate(tree.joints):
        made: Any = pin.JointModelFreeFlyer()
        if joint.kind == "revolute":
            made = kinds[int(np.argmax(joint.params[:3]))]()
        elif joint.kind == "prismatic":
            made = pin.JointModelPZ()
        place = pin.SE3(tree.placement_rotations[k], tree.placement_translations[k])
        numbers[k] = model.addJoint(numbers[tree.parent[k]], made, place, tree.joint_names[k])
        m = tree.inertia_matrices[k]
        lever = np.array([m[2, 4], m[0, 5], m[1, 3]]) / m[5, 5]
        about = m[:3, :3] + m[5, 5] * pin.skew(lever) @ pin.skew(lever)
        model.appendBodyToJoint(numbers[k], pin.Inertia(m[5, 5], lever, about), pin.SE3.Identity())
    q = pin.neutral(model)
    q[2] = 1.0
    models = pin.StdVec_RigidConstraintModel()
    for closure in system.closures.closures:
        ends = [pin.SE3(f.rotation, f.translation) for f in (closure.a_frame, closure.b_frame)]
        rows = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_3D, model, numbers[closure.a], ends[0], numbers[closure.b],
            ends[1], pin.LOCAL,
        )  # fmt: skip
        models.append(rows)
    return _functions(model, q, models, tau)


def _functions(model: Any, q: np.ndarray, models: Any, tau: np.ndarray) -> Peer:
    data, datas, v = model.createData(), _datas(models), np.zeros(model.nv)
    pin.initConstraintDynamics(model, data, models, datas)
    once = pin.ProximalSettings(1e-12, 0.0, 1)
    loop_data, loop_datas, settings = _for_lcaba(model, models)

    def dynamics() -> Any:
        return pin.constraintDynamics(model, data, q, v, tau, models, datas, once)

    def lcaba() -> Any:
        return pin.lcaba(model, loop_data, q, v, tau, models, loop_datas, settings)

    answers = {"constraintDynamics": np.array(dynamics()), "lcaba": np.array(lcaba())}
    functions: dict[str, Callable[[], Any]] = {
        "constraintDynamics": dynamics,
        "lcaba": lcaba,
        "computeDelassusMatrix": lambda: pin.computeDelassusMatrix(model, data, q, models, datas),
    }
    return answers, functions


def _datas(models: Any) -> Any:
    datas = pin.StdVec_RigidConstraintData()
    for rows in models:
        datas.append(rows.createData())
    return datas


def _for_lcaba(model: Any, models: Any) -> tuple[Any, Any, Any]:
    """New data in the order that lcaba wants, and settings."""
    data = model.createData()
    pin.computeJointMinimalOrdering(model, data, models)
    return data, _datas(models), pin.ProximalSettings(1e-12, 1e-6, 20)


def repeated(name: str, calls: int = 4) -> list[float]:
    """How far lcaba is from constraintDynamics in call after call on the same data, relative."""
    model, q, models = _standing(name)
    v, tau = np.zeros(model.nv), np.random.default_rng(0).standard_normal(model.nv)
    data, datas = model.createData(), _datas(models)
    pin.initConstraintDynamics(model, data, models, datas)
    once = pin.ProximalSettings(1e-12, 0.0, 1)
    wanted = np.array(pin.constraintDynamics(model, data, q, v, tau, models, datas, once))
    data, datas, settings = _for_lcaba(model, models)
    found = [
        np.array(pin.lcaba(model, data, q, v, tau, models, datas, settings)) for _ in range(calls)
    ]
    return [float(np.abs(x - wanted).max() / np.abs(wanted).max()) for x in found]
