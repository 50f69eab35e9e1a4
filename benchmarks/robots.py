"""The robots of the benchmark, in phipsi and in the peers, with the same states for all.

Every peer is a class with the same methods, each returning a function without arguments that does
one evaluation, and `answer` methods in phipsi's conventions for checking that all agree.
"""

from __future__ import annotations

import logging
import os
import sysconfig
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np

import phipsi as pp
from phipsi import operators as ops
from phipsi.files import conventions, load

SHARE = os.path.join(
    sysconfig.get_paths()["purelib"], "cmeel.prefix/share/example-robot-data/robots/"
)
ROBOTS = {
    "UR5": ("ur_description/urdf/ur5_robot.urdf", "fixed"),
    "Panda": ("panda_description/urdf/panda.urdf", "fixed"),
    "ANYmal": ("anymal_b_simple_description/robots/anymal.urdf", "free"),
    "Talos": ("talos_data/robots/talos_reduced.urdf", "free"),
    "G1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", "free"),
}
CHAIN = "chain of 100"
BATCH = 4096
A_G = ops.a + ops.gravity
FORWARD = ops.mass_matrix.inv @ (ops.tau - ops.H @ ops.phi @ (ops.M @ ops.phi.T @ A_G + ops.b))
INVERSE = ops.H @ ops.phi @ (ops.M @ ops.phi.T @ (ops.H.T @ ops.vdot + A_G) + ops.b) + ops.Jr @ ops.vdot  # fmt: skip
WHAT = ("forward dynamics", "inverse dynamics", "mass matrix", "inverse mass matrix")


def urdf_path(name: str) -> str:
    return SHARE + ROBOTS[name][0]


def load_robot(name: str) -> pp.Model:
    path, base = ROBOTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(SHARE + path, base=base, loops="cut")  # type: ignore[arg-type]


def chain(n: int, seed: int = 0) -> pp.Model:
    """Links of 0.1 m with axes z and x in turn and random boxes as bodies."""
    rng = np.random.default_rng(seed)
    builder = pp.ModelBuilder()
    for i in range(n):
        edges = rng.uniform(0.05, 0.1, 3) ** 2
        builder.add_body(
            f"b{i}",
            parent="world" if i == 0 else f"b{i - 1}",
            joint=pp.joints.Revolute((0, 0, 1) if i % 2 else (1, 0, 0)),
            placement=pp.Pose(translation=(0, 0, 0.1)),
            inertia=pp.SpatialInertia(1.0, (0, 0, 0.05), np.diag((edges.sum() - edges) / 12)),
        )
    return builder.build()


class States:
    """Random states of a model, a batch of them."""

    def __init__(self, model: pp.Model, batch: int = BATCH, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.q = np.array([model.random_configuration(rng) for _ in range(batch)])
        self.v = rng.standard_normal((batch, model.nv))
        self.vdot = rng.standard_normal((batch, model.nv))
        self.tau = rng.standard_normal((batch, model.nv))


class Phipsi:
    """This library."""

    def __init__(self, model: pp.Model, states: States, backend: str = "native") -> None:
        self.model, self.s = model, states
        dense = {"mode": "dense", "backend": backend}
        self.programs = {
            "forward dynamics": pp.compile(FORWARD, model, backend=backend),
            "inverse dynamics": pp.compile(INVERSE, model, backend=backend),
            "mass matrix": pp.compile(ops.mass_matrix, model, **dense),
            "inverse mass matrix": pp.compile(ops.mass_matrix.inv, model, **dense),
        }

    def args(self, what: str) -> tuple[np.ndarray, ...]:
        s = self.s
        third = {"forward dynamics": s.tau, "inverse dynamics": s.vdot}.get(what)
        return (s.q,) if third is None else (s.q, s.v, third)

    def single(self, what: str) -> Callable[[], Any]:
        program, args = self.programs[what], [a[0].copy() for a in self.args(what)]
        return lambda: program(*args)

    def batch(self, what: str, size: int = BATCH, threads: int = 1) -> Callable[[], Any]:
        program = self.programs[what]
        args = [np.ascontiguousarray(a[:size]) for a in self.args(what)]
        if threads == 1:
            return lambda: program(*args)
        return lambda: program(*args, threads=threads)

    def answer(self, what: str, count: int) -> np.ndarray:
        return self.programs[what](*(a[:count] for a in self.args(what)))


class Pinocchio:
    """Pinocchio, from the same file; from the model for the chain, with its own aligned joints."""

    def __init__(self, name: str, model: pp.Model, states: States) -> None:
        import pinocchio as pin

        self.pin, self.model, self.s = pin, model, states
        if name in ROBOTS:
            root = [pin.JointModelFreeFlyer()] if ROBOTS[name][1] == "free" else []
            self.theirs = pin.buildModelFromUrdf(urdf_path(name), *root)
        else:
            self.theirs = self._chain(model)
        self.names = list(self.theirs.names)[1:]
        self.data = self.theirs.createData()
        conv = conventions.to_pinocchio
        self.q, self.v, self.vdot, self.tau = conv(
            model, states.q, states.v, states.vdot, states.tau, names=self.names
        )
        self.rates = self._rates()

    def _chain(self, model: pp.Model) -> Any:
        pin = self.pin
        out = pin.Model()
        out.gravity.linear = np.array(model.gravity)
        for i, body in enumerate(model.description.bodies):
            kind = pin.JointModelRZ() if i % 2 else pin.JointModelRX()
            place = pin.SE3(np.eye(3), np.array(body.placement.translation))
            joint = out.addJoint(i, kind, place, body.joint_name)
            inertia = body.inertia
            moment = np.array(inertia.moment_about_com_B)
            out.appendBodyToJoint(
                joint,
                pin.Inertia(inertia.mass, np.array(inertia.com_B), moment),
                pin.SE3.Identity(),
            )
        return out

    def _rates(self) -> np.ndarray:
        """The matrix T of v_theirs = T v (constant: rates of free joints are in body axes)."""
        nv = self.model.nv
        q = np.broadcast_to(self.s.q[0], (nv, self.model.nq))
        return np.asarray(conventions.to_pinocchio(self.model, q, np.eye(nv), names=self.names).v).T

    def single(self, what: str) -> Callable[[], Any]:
        pin, model, data = self.pin, self.theirs, self.data
        q, v, vdot, tau = (a[0].copy() for a in (self.q, self.v, self.vdot, self.tau))
        return {
            "forward dynamics": lambda: pin.aba(model, data, q, v, tau),
            "inverse dynamics": lambda: pin.rnea(model, data, q, v, vdot),
            "mass matrix": lambda: pin.crba(model, data, q),
            "inverse mass matrix": lambda: pin.computeMinverse(model, data, q),
        }[what]

    def batch(self, what: str, size: int = BATCH, threads: int = 1) -> Callable[[], Any] | None:
        pin = self.pin
        function = {
            "forward dynamics": pin.abaInParallel,
            "inverse dynamics": pin.rneaInParallel,
        }.get(what)
        if function is None:
            return None
        pool = pin.ModelPool(self.theirs, threads)
        third = self.tau if what == "forward dynamics" else self.vdot
        args = [np.asfortranarray(a[:size].T) for a in (self.q, self.v, third)]
        out = np.asfortranarray(np.zeros((self.theirs.nv, size)))
        return lambda: function(threads, pool, *args, out)

    def answer(self, what: str, count: int) -> np.ndarray:
        pin, model, data, T = self.pin, self.theirs, self.data, self.rates
        out = []
        for i in range(count):
            q, v = self.q[i], self.v[i]
            if what == "forward dynamics":
                out.append(T.T @ pin.aba(model, data, q, v, self.tau[i]))
            elif what == "inverse dynamics":
                out.append(T.T @ pin.rnea(model, data, q, v, self.vdot[i]))
            elif what == "mass matrix":
                out.append(T.T @ np.array(pin.crba(model, data, q)) @ T)
            else:
                out.append(T.T @ np.array(pin.computeMinverse(model, data, q)) @ T)
        return np.array(out)


class Mujoco:
    """MuJoCo without contacts; a call sets the state and evaluates."""

    def __init__(self, name: str, model: pp.Model, states: States) -> None:
        import mujoco

        self.mj, self.model, self.s = mujoco, model, states
        spec = self.spec = mujoco.MjSpec()
        spec.option.gravity = np.array(model.gravity)
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        spec.compiler.balanceinertia = False
        kinds = {"free": "FREE", "revolute": "HINGE", "prismatic": "SLIDE"}
        hosts = {-1: spec.worldbody}
        for i, body in enumerate(model.description.bodies):
            moment = np.array(body.inertia.moment_about_com_B)
            hosts[i] = hosts[model.parent[i]].add_body(
                name=body.name,
                pos=np.array(body.placement.translation),
                quat=pp.core.spatial.matrix_to_quat(body.placement.rotation),
                mass=body.inertia.mass,
                ipos=np.array(body.inertia.com_B),
                fullinertia=[*np.diag(moment), moment[0, 1], moment[0, 2], moment[1, 2]],
                explicitinertial=True,
            )
            hosts[i].add_joint(
                name=body.joint_name,
                type=getattr(mujoco.mjtJoint, f"mjJNT_{kinds[body.joint.kind]}"),
                axis=np.array(body.joint.as_arguments().get("axis", (0, 0, 1)), dtype=float),
            )
        self.theirs = spec.compile()
        self.data = mujoco.MjData(self.theirs)
        self.q, self.v, self.vdot, self.tau = conventions.to_mujoco(
            model, states.q, states.v, states.vdot, states.tau
        )

    def _calls(self, what: str, i: int) -> Callable[[], Any]:
        mj, model, data = self.mj, self.theirs, self.data
        q, v, vdot, tau = (a[i].copy() for a in (self.q, self.v, self.vdot, self.tau))
        full = np.empty((model.nv, model.nv))
        eye = np.eye(model.nv)

        def forward() -> Any:
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
            mj.mj_forward(model, data)
            return data.qacc

        def inverse() -> Any:
            data.qpos[:], data.qvel[:], data.qacc[:] = q, v, vdot
            mj.mj_inverse(model, data)
            return data.qfrc_inverse

        def mass() -> Any:
            data.qpos[:] = q
            mj.mj_kinematics(model, data)
            mj.mj_comPos(model, data)
            if hasattr(mj, "mj_makeM"):
                mj.mj_makeM(model, data)
            else:
                mj.mj_crb(model, data)
            try:
                mj.mj_fullM(model, full, data.qM)
            except (TypeError, AttributeError):
                mj.mj_fullM(model, data, full)
            return full

        def solve() -> Any:
            mass()
            mj.mj_factorM(model, data)
            mj.mj_solveM(model, data, full, eye)
            return full

        names = ("forward dynamics", "inverse dynamics", "mass matrix", "inverse mass matrix")
        return dict(zip(names, (forward, inverse, mass, solve), strict=True))[what]

    def single(self, what: str) -> Callable[[], Any]:
        return self._calls(what, 0)

    def answer(self, what: str, count: int) -> np.ndarray:
        out = []
        for i in range(count):
            x = np.array(self._calls(what, i)())
            if what == "forward dynamics":
                x = conventions.from_mujoco(self.model, self.q[i], self.v[i], x).vdot
            elif what == "inverse dynamics":
                x = conventions.from_mujoco(self.model, self.q[i], self.v[i], self.vdot[i], x).tau
            else:
                T = _rates(conventions.to_mujoco, self.model, self.s.q[i])
                x = T.T @ x @ T
            out.append(x)
        return np.array(out)


class Drake:
    """Drake, from the same file without its shapes; a call sets the state and evaluates."""

    def __init__(self, name: str, model: pp.Model, states: States) -> None:
        from pydrake.multibody.parsing import Parser
        from pydrake.multibody.plant import MultibodyPlant
        from pydrake.multibody.tree import MultibodyForces

        self.model, self.s = model, states
        self.plant = MultibodyPlant(0.0)
        if name not in ROBOTS:
            raise NotImplementedError("only models from files")
        text = _without_shapes(urdf_path(name))
        logging.getLogger("drake").setLevel(logging.ERROR)
        (instance,) = Parser(self.plant).AddModelsFromString(text, "urdf")
        if ROBOTS[name][1] == "fixed" and '<link name="world"' not in text:
            bodies = self.plant.GetBodyIndices(instance)
            base = next(b for b in map(self.plant.get_body, bodies) if b.name() != "world")
            self.plant.WeldFrames(self.plant.world_frame(), base.body_frame())
        self.plant.mutable_gravity_field().set_gravity_vector(np.array(model.gravity))
        self.plant.Finalize()
        self.context = self.plant.CreateDefaultContext()
        self.forces = MultibodyForces(self.plant)
        found = [self.plant.get_joint(i) for i in self.plant.GetJointIndices()]
        moving = sorted((j for j in found if j.num_positions()), key=lambda j: j.position_start())
        known = set(model.joint_names)
        self.names = [j.name() if j.name() in known else "root_joint" for j in moving]
        self.q, self.v, self.vdot, self.tau = conventions.to_drake(
            model, states.q, states.v, states.vdot, states.tau, names=self.names
        )
        self.port = self.plant.get_generalized_acceleration_output_port()

    def _calls(self, what: str, i: int) -> Callable[[], Any]:
        plant, context, forces, port = self.plant, self.context, self.forces, self.port
        state = np.concatenate([self.q[i], self.v[i]])
        q, vdot, tau = (a[i].copy() for a in (self.q, self.vdot, self.tau))
        plant.get_applied_generalized_force_input_port().FixValue(context, tau)

        def forward() -> Any:
            plant.SetPositionsAndVelocities(context, state)
            return port.Eval(context)

        def inverse() -> Any:
            plant.SetPositionsAndVelocities(context, state)
            plant.CalcForceElementsContribution(context, forces)
            return plant.CalcInverseDynamics(context, vdot, forces)

        def mass() -> Any:
            plant.SetPositions(context, q)
            return plant.CalcMassMatrix(context)

        calls = {"forward dynamics": forward, "inverse dynamics": inverse, "mass matrix": mass}
        if what not in calls:
            raise NotImplementedError("Drake has no inverse mass matrix")
        return calls[what]

    def single(self, what: str) -> Callable[[], Any]:
        return self._calls(what, 0)

    def answer(self, what: str, count: int) -> np.ndarray:
        out = []
        for i in range(count):
            x = np.array(self._calls(what, i)())
            args = self.model, self.q[i], self.v[i]
            if what == "forward dynamics":
                x = conventions.from_drake(*args, x, names=self.names).vdot
            elif what == "inverse dynamics":
                x = conventions.from_drake(*args, self.vdot[i], x, names=self.names).tau
            else:

                def to(*a: Any) -> Any:
                    return conventions.to_drake(*a, names=self.names)

                T = _rates(to, self.model, self.s.q[i])
                x = T.T @ x @ T
            out.append(x)
        return np.array(out)


def _rates(to: Callable[..., Any], model: pp.Model, q: np.ndarray) -> np.ndarray:
    """T of v_theirs = T(q) v."""
    many = np.broadcast_to(q, (model.nv, model.nq))
    return np.asarray(to(model, many, np.eye(model.nv)).v).T


def _without_shapes(path: str) -> str:
    tree = ET.parse(path)
    root = tree.getroot()
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("visual", "collision", "transmission", "gazebo", "mimic", "dynamics"):  # fmt: skip
                parent.remove(child)
    return ET.tostring(root, encoding="unicode")


def disagreement(mine: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference, relative to the largest number of each answer."""
    size = np.abs(mine).reshape(len(mine), -1).max(axis=1)
    return float((np.abs(mine - theirs).reshape(len(mine), -1).max(axis=1) / size).max())
