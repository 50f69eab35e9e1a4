"""Attributes that models of other libraries have, and what to write here instead.

``model.createData`` or ``model.opt.timestep`` answer with the way of this library. Names of
functions (``model.CalcMassMatrix``) are those of phipsi/files/foreign_name_hints.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

from phipsi.package_state import name_here

_NO_DATA = "there is no data object: functions take the model and arrays, and return arrays"
_STEP = "a model has no step: pp.Simulator(model, dt=1e-3), pp.simulate(…, dt=1e-3)"
_CHANGE = "models do not change: pp.ModelBuilder() builds them, model.with_body(…) returns another"
_COUNT = "len(model.frames)"
# Groups of names with one answer, a sentence or what to write.
ATTRIBUTES = {
    "Pinocchio": {
        "createData data": _NO_DATA,
        "getFrameId getBodyId": "points are named: pp.poses(model, q, ['name']); "
        "model.resolve_point('name') has the body and the pose in it",
        "getJointId": "model.joint_index('name')",
        "existFrame": "'name' in model.frames",
        "existJointName": "'name' in model.joint_names",
        "existBodyName": "'name' in model.body_names",
        "names": "model.joint_names",
        "njoints nbodies": "model.n_bodies, as many as joints: the world is not counted",
        "nframes": _COUNT,
        "idx_qs nqs": "model.q_slices, model.q_slice('joint')",
        "idx_vs nvs": "model.v_slices, model.v_slice('joint')",
        "lowerPositionLimit": "model.lower",
        "upperPositionLimit": "model.upper",
        "effortLimit": "model.joint_properties['joint'].effort",
        "velocityLimit": "model.joint_properties['joint'].velocity",
        "rotorInertia rotorGearRatio": "model.armature, and model.rotors behind gears",
        "friction": "model.joint_properties['joint'].friction",
        "jointPlacements": "model.placements",
        "parents": "model.parent, −1 for the world",
        "children supports subtrees": "model.tree",
        "referenceConfigurations": "model.neutral(); files keep no others",
        "addJoint addFrame appendBodyToJoint addJointFrame": _CHANGE,
    },
    "MuJoCo": {
        "opt timestep": _STEP,
        "nbody njnt": "model.n_bodies, as many as joints: the world is not counted",
        "nsite": _COUNT,
        "ngeom geom": "model.shapes, those that touch; model.geometry, those of the file",
        "site": "model.frames['name']",
        "nu na actuator_ctrlrange actuator_gear ctrl": "efforts are tau (nv,): every joint has one",
        "body_mass body_ipos body_inertia body_iquat": "model.inertias[model.body_index('name')]",
        "body_pos body_quat": "model.placements",
        "body_parentid": "model.parent, −1 for the world",
        "jnt_range": "model.lower, model.upper",
        "jnt_axis jnt_type": "model.joints",
        "jnt_qposadr": "model.q_slices",
        "jnt_dofadr": "model.v_slices",
        "dof_damping": "model.damping",
        "dof_armature": "model.armature",
        "qpos0": "model.neutral(), where no joint has a ref; else "
        "pp.conventions.from_mujoco(model, m.qpos0).q",
        "key_qpos key keyframes": "pp.conventions.from_mujoco(model, m.key_qpos[0]).q of an "
        "MjModel m; models keep no keyframes",
        "actuators": "every joint takes tau; pp.load warns of actuators with the law of each, and "
        "model.diagnosis lists them",
        "qpos qvel qacc qfrc_applied xpos xquat": _NO_DATA,
    },
    "Drake": {
        "CreateDefaultContext GetPositions SetPositions GetVelocities SetVelocities": _NO_DATA,
        "num_positions": "model.nq",
        "num_velocities": "model.nv",
        "num_bodies num_joints": "model.n_bodies, as many as joints: the world is not counted",
        "num_frames": _COUNT,
        "num_actuators num_actuated_dofs MakeActuationMatrix": "efforts are tau (nv,): every joint "
        "has one",
        "GetBodyByName": "model.body('name')",
        "GetJointByName": "model.joint('name')",
        "GetFrameByName": "model.frames['name']",
        "HasBodyNamed": "'name' in model.body_names",
        "HasJointNamed": "'name' in model.joint_names",
        "GetPositionLowerLimits": "model.lower",
        "GetPositionUpperLimits": "model.upper",
        "EvalBodyPoseInWorld": "pp.poses(model, q, ['name'])",
        "gravity_field": "model.gravity",
        "world_body world_frame": "the point 'world'",
        "time_step": _STEP,
        "Finalize AddRigidBody AddJoint WeldFrames": _CHANGE,
    },
}
# Names that fit, but are not those of this library.
SAID_OTHERWISE = {
    "n_joints n_dof ndof dof num_dof": "model.nv rates, model.n_bodies joints",
    "n_frames": _COUNT,
    "n_q": "model.nq",
    "n_v": "model.nv",
    "frame_names": "tuple(model.frames)",
    "bodies links": "model.body_names, model.body('name')",
    "link_names": "model.body_names",
    "joint_limits limits": "model.lower, model.upper",
    "total_mass": "sum(x.mass for x in model.inertias)",
    "masses mass": "[x.mass for x in model.inertias]",
    "q0": "model.neutral()",
    "attachments": "model.of(Kind)",
    "parents": "model.parent",
    "ratings": "model.joint_properties",
}


# Functions that are methods elsewhere; phipsi/files/foreign_name_hints.py has what to say of them.
METHODS = (
    "CalcInverseDynamics CalcMassMatrix CalcBiasTerm CalcGravityGeneralizedForces "
    "CalcJacobianSpatialVelocity CalcBiasSpatialAcceleration CalcCenterOfMassPositionInWorld "
    "CalcSpatialMomentumInWorldAboutPoint"
)


def attribute_here(name: str) -> str:
    """What to say behind "has no attribute": the way of this library, or nothing."""
    for library, table in ATTRIBUTES.items():
        for theirs, here in table.items():
            if name in theirs.split():
                return f": {library} has it; here {_said(here)}"
    for names, here in SAID_OTHERWISE.items():
        if name in names.split():
            return f": here {_said(here)}"
    if name in sys.modules["phipsi"].__all__:
        return f": functions stand beside the model, pp.{name}(model, …)"
    return name_here(name)


def _said(here: str) -> str:
    is_sentence = " " in here.split("(")[0].split(",")[0] and here[0].isalpha()
    return here if is_sentence else f"write {here}"


class _Answer:
    """An attribute that does not exist, and says what to write instead."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, thing: Any, owner: type) -> Any:
        text = (
            f"{owner.__name__!r} object has no attribute {self.name!r}{attribute_here(self.name)}"
        )
        raise AttributeError(text, name=self.name, obj=owner if thing is None else thing)


class _Listing(type):
    """The type of classes that do not list missing attributes, for ``dir`` and ``help``."""

    def __dir__(cls) -> list[str]:
        return _there(cls, super().__dir__())


class ForeignAttributeHints(metaclass=_Listing):
    """A class whose objects answer for attributes of models of other libraries.

    Each has a descriptor of its own. A `__getattr__` would do the same for all names, and cost
    40 ns whenever an attribute that is there is read: once in every call of a function.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return _there(type(self), super().__dir__())


def _there(owner: type, names: Iterable[str]) -> list[str]:
    return [x for x in names if type(getattr_static(owner, x, None)) is not _Answer]


def _answered() -> set[str]:
    tables = *ATTRIBUTES.values(), SAID_OTHERWISE
    theirs = {name for table in tables for names in table for name in names.split()}
    functions = {name for name in sys.modules["phipsi"].__all__ if name[0].islower()}
    return theirs | functions | set(METHODS.split())


if not TYPE_CHECKING:  # type checkers know the attributes that there are
    for _name in _answered():
        setattr(ForeignAttributeHints, _name, _Answer(_name))
