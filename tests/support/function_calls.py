"""One call of every public function that takes a model, and mechanisms with one feature each.

A call takes the function, a mechanism and a state of it, and returns what can be compared. Calls
are sorted by what closed loops and other constraints do to them. All mechanisms have bodies link1
to link3, joints joint1 to joint3 and a frame tip. tests/house/test_all_functions.py compares what
they give with what the functions declare.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from known_systems import pinned_arm

import phipsi as pp
from phipsi.operators import M, mass_matrix, tau, v

TIP = ["tip"]
FORCE = [[0, 0, 0, 1.0, 2.0, 0]]


# ---- mechanisms ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """Of a mechanism and of its twin without the feature."""

    q: np.ndarray
    q_2: np.ndarray
    v: np.ndarray
    vdot: np.ndarray
    tau: np.ndarray
    # another mechanism with a body that can move in all directions, its configuration, that body
    six: Callable[[Any], tuple[Any, Any, list[str]]]
    f_ext = np.arange(18.0).reshape(3, 6)


@dataclass(frozen=True)
class Featured:
    """A mechanism with one feature, its twin without it (None if it has other coordinates)."""

    mechanism: pp.Model
    twin: pp.Model | None
    state: State


def _six(others: dict[int, pp.Model], q: Any, body: str) -> Callable[[Any], tuple[Any, Any, Any]]:
    """For mechanisms, by their identity, others with a body that can move in all directions."""
    return lambda m: (others.get(id(m), m), q, [body])


def _box() -> pp.ModelBuilder:
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(2.0, (0, 0, 0), 1.0)
    builder.add_body("box", joint=pp.joints.Free(), inertia=inertia)
    return builder


BEAM = pp.FlexibleInertia(
    1.0, (0.5, 0, 0), (0.01, 0.34, 0.34), S1=[[0], [0.3], [0]], C0=[[0], [0], [0.2]],
    modal_mass=[[0.25]], stiffness=[[50.0]],
    ports=[pp.Port("end", position=(1, 0, 0), translation_modes=[[0], [1], [0]],
                   rotation_modes=[[0], [0], [1.4]])],
)  # fmt: skip


def _arm(bends: bool) -> pp.Model:
    """The planar arm with a second link that bends, or out of the plane with three bars."""
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    bar, there = pp.SpatialInertia.box((1, 0.1, 0.1), mass=1.0), pp.Pose(None, (1, 0, 0))
    on = {"port": "end"} if bends else {"placement": there}
    second, axis = (BEAM, (0, 0, 1)) if bends else (bar, (0, 1, 0))
    builder.add_body("link1", joint_name="joint1", inertia=bar)
    builder.add_body("link2", joint_name="joint2", parent="link1", placement=there,
                     joint=pp.joints.Revolute(axis), inertia=second)  # fmt: skip
    builder.add_body("link3", joint_name="joint3", parent="link2", inertia=bar, **on)
    builder.add_frame("tip", "link3", there)
    return builder.build()


def _closed_state() -> State:
    """One that closes LOOP; its tree and what hangs on it have it too."""
    boxes = _box()  # a ball between two bodies leaves each of them all directions
    inertia = pp.SpatialInertia(3.0, (0, 0.1, 0), 2.0)
    boxes.add_body("other", joint=pp.joints.Free(), inertia=inertia)
    box = boxes.build()
    ball = pp.constraints.Spherical(name="ball", a="box", b="other")
    boxes = {id(LOOP): pp.System(box, [ball]), id(ARM): box, id(FREE): pp.System(box, [])}
    q = LOOP.assemble([1.0, -1.0, -1.5])
    _, rates = LOOP.project(q, [0.3, -0.2, 0.1])
    return State(
        q, LOOP.assemble(q + [0.2, 0, 0], fixed=["joint1"]), rates,
        np.array([0.4, -0.1, 0.7]), np.array([1.0, 0.2, -0.3]),
        _six(boxes, box.neutral(), "box"))  # fmt: skip


def _with_modes() -> Featured:
    arm, box = _arm(bends=True), _box()
    box.add_body("beam", parent="box", inertia=BEAM)
    flyer = box.build()
    q = np.array([1.0, -1.0, 0.05, -1.5])
    six = _six({id(arm): flyer}, flyer.neutral(), "box")
    return Featured(arm, None, State(
        q, q + 0.1, np.array([0.3, -0.2, 0.1, 0.4]), np.array([0.4, -0.1, 0.7, 0.2]),
        np.ones(4), six))  # fmt: skip


def _with_rotors() -> Featured:
    skew = {"ratio": 10.0, "moment": 1e-4, "axis": (0.6, 0, 0.8)}
    bars, robot = _arm(bends=False), pp.examples.seven_joint_arm()
    arm = bars.with_rotor("motor", joint="joint3", **skew)
    robots = {id(arm): robot.with_rotor("motor", joint="elbow_pitch", **skew), id(bars): robot}
    six = _six(robots, np.linspace(0.3, 0.9, 7), robot.body_names[-1])
    return Featured(arm, bars, replace(CLOSED, six=six))


ARM = pp.examples.planar_arm(3).with_shape("skin", "link3", pp.shapes.Sphere(0.1))
LOOP = pinned_arm(arm=ARM)
_BESIDE = ARM.with_shape("post", "world", pp.shapes.Sphere(0.1), pp.Pose(None, (9, 9, 9)))
TOUCHING = pp.System(_BESIDE, contacts=pp.Contacts(_BESIDE, ground=False))
FREE = pp.System(ARM, [])

CLOSED = _closed_state()
LOOPS, CONTACTS = Featured(LOOP, ARM, CLOSED), Featured(TOUCHING, ARM, CLOSED)
NOTHING = Featured(FREE, ARM, CLOSED)
MODES = _with_modes()
ROTORS = _with_rotors()


def _motion(f, m, s):
    return f(m, s.q, s.v, pp.forward_dynamics(m, s.q, s.v, s.tau), return_multipliers=True)


def _simulated(f, m, s):
    run = f(m, s.q, s.v, 0.01)
    return run.q, run.v, run.energy


def _gradient(f, m, s):
    return f(m, s.q, s.v, s.tau, 1e-3, 2, final=lambda q, v: (0.0, q, v))[:4]


def _stops(f, m, s):
    if isinstance(m, pp.Model):
        m = m.with_body("link3", limits=(-3.0, 3.0))
    stops = f(m)
    return [x.stiffness for x in stops if isinstance(x, pp.forces.JointLimit)]


def _linear(f, m, s):
    system = f(m, s.q)
    return system.A, system.B


def _saved(f, m, s):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pp.errors.PhipsiWarning)  # gravity is not that of URDF
        return f(m)


# ---- the calls -----------------------------------------------------------------------------------

# The answer is about the q, v, vdot that are given: the same for the system and for its tree.
GIVEN_MOTION = {
    "accelerations": lambda f, m, s: (
        f(m, s.q, s.v, s.vdot, classical=True),
        f(m, s.q, s.v, s.vdot, TIP, classical=True),
    ),
    "poses": lambda f, m, s: (f(m, s.q), f(m, s.q, TIP)),
    "velocities": lambda f, m, s: (f(m, s.q, s.v), f(m, s.q, s.v, TIP)),
    "center_of_mass": lambda f, m, s: f(m, s.q),
    "centroidal.com_jacobian": lambda f, m, s: f(m, s.q),
    "centroidal.momentum_matrix": lambda f, m, s: f(m, s.q),
    "centroidal.momentum_matrix_dot": lambda f, m, s: f(m, s.q, s.v),
    "control.Saturated": lambda f, m, s: f(lambda t, q, v: 9 * q, m, efforts=5.0)(0.0, s.q, s.v),
    "conventions.from_drake": lambda f, m, s: f(m, s.q, s.v, s.vdot, s.tau),
    "conventions.from_mujoco": lambda f, m, s: f(m, s.q, s.v, s.vdot, s.tau),
    "conventions.from_pinocchio": lambda f, m, s: f(m, s.q, s.v, s.vdot, s.tau),
    "identification.inertial_parameters": lambda f, m, s: f(m, armature=True),
    "jacobian": lambda f, m, s: f(m, s.q, TIP),
    "jacobian_dot": lambda f, m, s: f(m, s.q, s.v, TIP),
    "kinetic_energy": lambda f, m, s: f(m, s.q, s.v),
    "identification.kinetic_energy_regressor": lambda f, m, s: f(m, s.q, s.v, armature=True),
    "mass_matrix": lambda f, m, s: f(m, s.q),
    "momentum": lambda f, m, s: (f(m, s.q, s.v), f(m, s.q, s.v, about="com")),
    "identification.parameter_names": lambda f, m, s: f(m, armature=True),
    "elastic_energy": lambda f, m, s: f(m, s.q),
    "potential_energy": lambda f, m, s: f(m, s.q),
    "identification.potential_energy_regressor": lambda f, m, s: f(m, s.q),
    "control.Constant": lambda f, m, s: f(m, s.q)(0.0),
    "conventions.to_drake": lambda f, m, s: f(m, s.q, s.v, s.vdot, s.tau),
    "conventions.to_mujoco": lambda f, m, s: f(m, s.q, s.v, s.vdot, s.tau),
    "conventions.to_pinocchio": lambda f, m, s: f(m, s.q, s.v, s.vdot, s.tau),
}

# The constraints are taken into account: another answer than for the tree.
MECHANISMS = {
    "control.ComputedTorque": lambda f, m, s: f(m, s.q, kp=9, kd=6)(0.0, s.q, s.v),
    "control.OperationalSpace": lambda f, m, s: f(
        m, "link2", (0.6, 0.9, 0), kp=9, kd=6, components=(3,)
    )(0.0, s.q, s.v),
    "control.HybridForcePosition": lambda f, m, s: f(
        m, pp.control.TaskFrame("link2", force=(3,), motion=()), (0, 0, 0), force=5.0, kp=9, kd=6
    )(0.0, s.q, s.v),
    "control.PDGravity": lambda f, m, s: f(m, s.q, kp=9, kd=6)(0.0, s.q, s.v),
    "forces.from_model": _stops,
    "control.FourierPath": lambda f, m, s: f(
        m, s.q, np.full((3, 1), 0.1), np.full((3, 1), 0.1), 6.0
    )(1.0),
    "control.JointPath": lambda f, m, s: f(m, [s.q, s.q_2], [0, 1])(0.3),
    "exploration.force_noise": lambda f, m, s: f(m, s.q, seed=0),
    "exploration.velocity_noise": lambda f, m, s: f(m, s.q, seed=0),
    "forward_dynamics": lambda f, m, s: (
        f(m, s.q, s.v, s.tau, s.f_ext),
        f(m, s.q, s.v, s.tau, return_multipliers=True),
        f(m, s.q, s.v, s.tau, points=TIP, f0=FORCE),
    ),
    "hybrid_dynamics": lambda f, m, s: f(m, s.q, s.v, None, s.tau, prescribed={"joint2": 0.3}),
    "inverse_dynamics": _motion,
    "forward_dynamics_derivatives": lambda f, m, s: f(m, s.q, s.v, s.tau),
    "inverse_kinematics": lambda f, m, s: f(m, {"link3": (1.3, 0.8, 0)}, s.q, on_error="best").q,
    "joint_reactions": lambda f, m, s: f(m, s.q, s.v, s.tau, s.f_ext),
    "minimal_velocities.basis": lambda f, m, s: (lambda x: x.matrix @ x.matrix.T)(f(m, s.q, s.v)),
    "minimal_velocities.equations": lambda f, m, s: f(m, s.q, s.v, s.tau).vdot,
    "equilibrium": lambda f, m, s: f(m, q=s.q, unknowns="tau").tau,
    "linearize": _linear,
    "mode_shapes": lambda f, m, s: f(m, s.q).shapes,
    "natural_frequencies": lambda f, m, s: np.nan_to_num(f(m, s.q)),
    "operational_space_inertia": lambda f, m, s: f(*s.six(m)),
    "operational_space_inertia_inverse": lambda f, m, s: f(m, s.q, ["link2"]),
    "rollout": lambda f, m, s: f(m, s.q, s.v, s.tau, 1e-3, 5),
    "rollout_gradient": _gradient,
    "simulate": _simulated,
    "step_derivatives": lambda f, m, s: f(m, s.q, s.v, s.tau, 1e-3),
}

# Operators are those of the forest, for a system with the rows A: the same where there is no A.
OPERATORS = {
    "compile": lambda f, m, s: f(mass_matrix.inv @ tau, m)(s.q, s.tau),
    "evaluate_dense": lambda f, m, s: f(mass_matrix.inv @ tau, m, s.q, tau=s.tau),
    "simplify": lambda f, m, s: str(f(mass_matrix.inv @ mass_matrix @ v, m)),
    "explain": lambda f, m, s: str(f(mass_matrix.inv @ tau, m)),
    "extensions.check": lambda f, m, s: "agrees" if f(M, m) is None else None,
    "prove": lambda f, m, s: str(f("H G", m)),
    "vjp": lambda f, m, s: f(mass_matrix @ v, m)(s.q, s.v, s.tau),
}

# Constraints would change the answer, so the function is for trees.
TREES = {
    "identification.base_parameters": lambda f, m, s: f(m).combinations,
    "bias_forces": lambda f, m, s: f(m, s.q, s.v),
    "sensitivities.christoffel_symbols": lambda f, m, s: f(m, s.q),
    "control.InnovationsControl": lambda f, m, s: f(m, s.q_2, k=9, rate=2)(0.0, s.q, s.v),
    "control.PassivityBased": lambda f, m, s: f(m, s.q_2, kp=9, kd=6, rate=2)(0.0, s.q, s.v),
    "coriolis_product": lambda f, m, s: f(m, s.q, s.v, s.vdot),
    "sensitivities.coriolis_matrix": lambda f, m, s: f(m, s.q, s.v),
    "diagonal_dynamics.coriolis": lambda f, m, s: f(m, s.q, s.v),
    "exploration.path_noise": lambda f, m, s: f(m, np.tile(s.q, (6, 1)), seed=0),
    "exploration.smooth_paths": lambda f, m, s: f(m, s.q, s.q_2, 5, seed=0),
    "gravity_forces": lambda f, m, s: f(m, s.q),
    "estimation.colour": lambda f, m, s: f(m, s.q, s.tau),
    "estimation.conditioning": lambda f, m, s: f(m, s.q),
    "estimation.predict": lambda f, m, s: f(m, s.q, s.tau),
    "estimation.sample": lambda f, m, s: f(m, s.q, 2, seed=0),
    "estimation.smooth": lambda f, m, s: f(m, s.q, s.tau),
    "estimation.whiten": lambda f, m, s: f(m, s.q, s.tau),
    "estimation.whiteness": lambda f, m, s: f(m, s.q, np.outer(range(100), s.tau)).covariance,
    "diagonal_dynamics.innovations": lambda f, m, s: f(m, s.q, s.v, s.tau),
    "diagonal_dynamics.rates": lambda f, m, s: f(m, s.q, s.v),
    "inverse_dynamics_derivatives": lambda f, m, s: f(m, s.q, s.v, s.vdot),
    "diagonal_dynamics.log_det_mass_matrix": lambda f, m, s: f(m, s.q),
    "sensitivities.log_det_mass_matrix_gradient": lambda f, m, s: f(m, s.q),
    "manipulability.least_squares_velocities": lambda f, m, s: f(
        m, s.q, TIP, [np.arange(6.0)], damping=0.1
    ),
    "manipulability.log_det": lambda f, m, s: f(m, s.q, TIP, components=(3,), weights="mass"),
    "manipulability.log_det_gradient": lambda f, m, s: f(
        m, s.q, TIP, components=(3,), weights="mass"
    ),
    "mass_matrix_inverse": lambda f, m, s: f(m, s.q),
    "sensitivities.mass_matrix_inverse_sensitivity": lambda f, m, s: f(m, s.q),
    "sensitivities.mass_matrix_sensitivity": lambda f, m, s: f(m, s.q),
    "sensitivities.operational_space_inertia_sensitivity": lambda f, m, s: f(*s.six(m)),
    "identification.regressor": lambda f, m, s: f(m, s.q, s.v, s.vdot, armature=True, coulomb=True),
    "save_urdf": _saved,
}

# About constraints, of which a tree has none.
SYSTEMS = {
    "constraint_forces": lambda f, m, s: f(m, s.q, s.v, s.tau),
    "constraint_impulse": lambda f, m, s: f(m, s.q, s.v),
    "delassus_matrix": lambda f, m, s: f(m, s.q),
}

KINDS = {
    "given motion": GIVEN_MOTION,
    "mechanisms": MECHANISMS | OPERATORS | SYSTEMS,
    "trees": TREES,
}
CALLS = {name: call for rows in KINDS.values() for name, call in rows.items()}
