"""The same mechanism in Pinocchio and in MuJoCo, and the maps between their coordinates and ours.

    from peers import InMujoco, InPinocchio, mujoco_tree, pinocchio_tree

Everything the peers return is brought to this library's conventions: angular part first, joints in
our order, free joints with both rates in body axes. Nothing here is used by the library itself.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
from random_models import model_from_parents, random_axis

from phipsi.core.model import joints
from phipsi.core.model.model import Model
from phipsi.core.spatial import matrix_to_quat, quat_to_matrix, skew

SWAP = [3, 4, 5, 0, 1, 2]  # linear first ↔ angular first


def random_parents(rng: np.random.Generator, n: int, n_roots: int) -> list[int]:
    return [-1 if i < n_roots else int(rng.integers(i)) for i in range(n)]


# ---- Pinocchio ---------------------------------------------------------------------------------


def pinocchio_joint(rng: np.random.Generator) -> joints.Joint:
    """A joint that Pinocchio has too; its planar joint is that of the x–y plane."""
    u, w = random_axis(rng), random_axis(rng)
    perpendicular = np.cross(u, w) / np.linalg.norm(np.cross(u, w))
    choices = (
        joints.Revolute(u),
        joints.Prismatic(u),
        joints.Helical(u, rng.uniform(-0.5, 0.5)),
        joints.Cylindrical(u),
        joints.Universal(u, perpendicular),
        joints.Universal(u, w),
        joints.Planar((1, 0, 0), (0, 1, 0)),
        joints.Spherical(),
        joints.Free(),
        joints.Translation(),
        joints.Composite([joints.Prismatic(u), joints.Spherical()]),
        joints.Composite([joints.Planar((1, 0, 0), (0, 1, 0)), joints.Helical(w, 0.3)]),
    )
    return choices[int(rng.integers(len(choices)))]


def pinocchio_tree(
    seed: int, n: int, *, n_roots: int = 1, armature: bool = False, constant_axes: bool = False
) -> Model:
    """Random tree; with `constant_axes` only joints with a hinge map that does not depend on q."""
    rng = np.random.default_rng(seed)
    varying = (joints.Universal, joints.Composite)
    drawn = [pinocchio_joint(rng) for _ in range(6 * n)]
    kinds = [j for j in drawn if not (constant_axes and isinstance(j, varying))][:n]
    parents = random_parents(rng, n, n_roots)
    return model_from_parents(parents, rng, kinds, armature=armature, frames=True)


def _pinocchio_parts(joint: joints.Joint) -> list[joints.Joint]:
    """The elementary joints that Pinocchio composes this one of."""
    arguments = joint.as_arguments()
    if isinstance(joint, joints.Composite):
        return [part for inner in joint.joints for part in _pinocchio_parts(inner)]
    if isinstance(joint, joints.Cylindrical):
        return [joints.Revolute(arguments["axis"]), joints.Prismatic(arguments["axis"])]
    if isinstance(joint, joints.Universal):
        u1, u2 = np.array(arguments["axis1"]), np.array(arguments["axis2"])
        if abs(u1 @ u2) > 1e-12:  # theirs are perpendicular
            return [joints.Revolute(u1), joints.Revolute(u2)]
    return [joint]


def _pinocchio_elementary(joint: joints.Joint):
    arguments = joint.as_arguments()
    axis = np.array(arguments.get("axis", (0, 0, 1)))
    if isinstance(joint, joints.Revolute):
        return pin.JointModelRevoluteUnaligned(axis)
    if isinstance(joint, joints.Prismatic):
        return pin.JointModelPrismaticUnaligned(axis)
    if isinstance(joint, joints.Helical):
        return pin.JointModelHelicalUnaligned(axis, arguments["pitch"])
    if isinstance(joint, joints.Universal):
        return pin.JointModelUniversal(np.array(arguments["axis1"]), np.array(arguments["axis2"]))
    if isinstance(joint, joints.Planar):
        return pin.JointModelPlanar()
    if isinstance(joint, joints.Spherical):
        return pin.JointModelSpherical()
    if isinstance(joint, joints.Free):
        return pin.JointModelFreeFlyer()
    if isinstance(joint, joints.Translation):
        return pin.JointModelTranslation()
    raise NotImplementedError(joint)


def _pinocchio_joint(joint: joints.Joint):
    parts = _pinocchio_parts(joint)
    if len(parts) == 1:
        return _pinocchio_elementary(parts[0])
    out = pin.JointModelComposite()
    for part in parts:
        out.addJoint(_pinocchio_elementary(part))
    return out


def _pinocchio_q(joint: joints.Joint, q: np.ndarray) -> np.ndarray:
    out, at = [], 0
    for part in _pinocchio_parts(joint):
        mine = q[at : at + part.nq]
        at += part.nq
        if isinstance(part, joints.Planar):
            out += [mine[1], mine[2], np.cos(mine[0]), np.sin(mine[0])]
        elif isinstance(part, joints.Spherical):
            out += [*mine[1:], mine[0]]
        elif isinstance(part, joints.Free):
            out += [*mine[4:], *mine[1:4], mine[0]]
        else:
            out += list(mine)
    return np.array(out)


def _pinocchio_order(joint: joints.Joint) -> list[int]:
    """Which of our rates stands at each place of theirs."""
    out: list[int] = []
    for part in _pinocchio_parts(joint):
        orders = {"planar": [1, 2, 0], "free": SWAP}
        at = len(out)
        out += [at + k for k in orders.get(part.kind, range(part.nv))]
    return out


class InPinocchio:
    """A model in Pinocchio. Arrays in and out are in this library's conventions."""

    def __init__(self, model: Model) -> None:
        self.ours, self.theirs = model, pin.Model()
        self.theirs.gravity.linear = np.array(model.gravity)
        order: list[int] = []
        for i, body in enumerate(model.description.bodies):
            placement = pin.SE3(body.placement.rotation, np.array(body.placement.translation))
            joint = self.theirs.addJoint(
                model.parent[i] + 1, _pinocchio_joint(body.joint), placement, body.joint_name
            )
            inertia = body.inertia
            moment = np.array(inertia.moment_about_com_B)
            self.theirs.appendBodyToJoint(
                joint,
                pin.Inertia(inertia.mass, np.array(inertia.com_B), moment),
                pin.SE3.Identity(),
            )
            order += [len(order) + k for k in _pinocchio_order(body.joint)]
        for name, (host, pose) in model.frames.items():
            place = pin.SE3(pose.rotation, np.array(pose.translation))
            frame = pin.Frame(name, host + 1, 0, place, pin.FrameType.OP_FRAME)
            self.theirs.addFrame(frame)
        self.order = np.array(order, dtype=int)
        self.back = np.argsort(self.order)
        self.theirs.armature = np.array(model.armature)[self.order]
        self.data = self.theirs.createData()

    def q(self, q: np.ndarray) -> np.ndarray:
        slices = zip(self.ours.joints, self.ours.q_slices, strict=True)
        return np.concatenate([_pinocchio_q(joint, q[s]) for joint, s in slices])

    def v(self, v: np.ndarray) -> np.ndarray:
        return v[self.order]

    def _wrenches(self, f_ext: np.ndarray) -> pin.StdVec_Force:
        out = pin.StdVec_Force()
        out.append(pin.Force.Zero())
        for f in f_ext:
            out.append(pin.Force(f[3:], f[:3]))
        return out

    def inverse_dynamics(self, q, v, vdot, f_ext):
        args = self.q(q), self.v(v), self.v(vdot), self._wrenches(f_ext)
        return pin.rnea(self.theirs, self.data, *args)[self.back]

    def forward_dynamics(self, q, v, tau, f_ext):
        args = self.q(q), self.v(v), self.v(tau), self._wrenches(f_ext)
        return pin.aba(self.theirs, self.data, *args)[self.back]

    def joint_reactions(self, q, v, tau, f_ext):
        args = self.q(q), self.v(v), self.v(tau), self._wrenches(f_ext)
        vdot = pin.aba(self.theirs, self.data, *args).copy()
        pin.rnea(self.theirs, self.data, *args[:2], vdot, args[3])
        return np.array([f.vector for f in self.data.f[1:]])[:, SWAP]

    def regressor(self, q, v, vdot):
        args = self.q(q), self.v(v), self.v(vdot)
        Y = pin.computeJointTorqueRegressor(self.theirs, self.data, *args)[self.back]
        mine = [0, 1, 2, 3, 4, 6, 9, 5, 7, 8]  # theirs: xx, xy, yy, xz, yz, zz
        return Y.reshape(len(Y), -1, 10)[:, :, mine].reshape(len(Y), -1)

    def _both_ways(self, matrix):
        return np.array(matrix)[np.ix_(self.back, self.back)]

    def inverse_dynamics_derivatives(self, q, v, vdot):
        args = self.q(q), self.v(v), self.v(vdot)
        by_q, by_v, mass = pin.computeRNEADerivatives(self.theirs, self.data, *args)
        mass = np.triu(mass) + np.triu(mass, 1).T
        return [self._both_ways(x) for x in (by_q, by_v, mass)]

    def forward_dynamics_derivatives(self, q, v, tau):
        args = self.q(q), self.v(v), self.v(tau)
        by_q, by_v, inverse = pin.computeABADerivatives(self.theirs, self.data, *args)
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        return [self._both_ways(x) for x in (by_q, by_v, inverse)]

    def bias_forces(self, q, v):
        return pin.nonLinearEffects(self.theirs, self.data, self.q(q), self.v(v))[self.back]

    def gravity_forces(self, q):
        return pin.computeGeneralizedGravity(self.theirs, self.data, self.q(q))[self.back]

    def mass_matrix(self, q):
        upper = np.triu(pin.crba(self.theirs, self.data, self.q(q)))
        return (upper + np.triu(upper, 1).T)[np.ix_(self.back, self.back)]

    def mass_matrix_inverse(self, q):
        upper = np.triu(pin.computeMinverse(self.theirs, self.data, self.q(q)))
        return (upper + np.triu(upper, 1).T)[np.ix_(self.back, self.back)]

    def poses(self, q):
        pin.forwardKinematics(self.theirs, self.data, self.q(q))
        pin.updateFramePlacements(self.theirs, self.data)
        bodies = np.array([X.homogeneous for X in self.data.oMi[1:]])
        frames = [self.data.oMf[self.theirs.getFrameId(f)].homogeneous for f in self.ours.frames]
        return bodies, np.array(frames)

    def motions(self, q, v, vdot):
        """Velocities, accelerations and classical accelerations of the bodies."""
        pin.forwardKinematics(self.theirs, self.data, self.q(q), self.v(v), self.v(vdot))
        V = np.array([x.vector for x in self.data.v[1:]])[:, SWAP]
        A = np.array([x.vector for x in self.data.a[1:]])[:, SWAP]
        classical = [
            pin.getClassicalAcceleration(self.theirs, self.data, k + 1, pin.LOCAL).vector
            for k in range(self.ours.n_bodies)
        ]
        return V, A, np.array(classical)[:, SWAP]

    @property
    def rates_are_complete(self) -> bool:
        """Their rates of J and of the centroidal matrix leave out joints whose axes vary."""
        varying = (joints.Universal, joints.Composite)
        return not any(isinstance(joint, varying) for joint in self.ours.joints)

    REFERENCE = {
        "world": pin.LOCAL_WORLD_ALIGNED,
        "body": pin.LOCAL,
        "spatial": pin.WORLD,
    }

    def jacobians(self, q, v, frame: str, axes: str):
        """Jacobian of a frame and its rate."""
        reference = self.REFERENCE[axes]
        number = self.theirs.getFrameId(frame)
        pin.computeJointJacobiansTimeVariation(self.theirs, self.data, self.q(q), self.v(v))
        pin.updateFramePlacements(self.theirs, self.data)
        J = pin.getFrameJacobian(self.theirs, self.data, number, reference)
        rate = pin.getFrameJacobianTimeVariation(self.theirs, self.data, number, reference)
        return J[SWAP][:, self.back], rate[SWAP][:, self.back]

    def frame_motions(self, q, v, vdot, frame: str, axes: str):
        """Velocity, acceleration and classical acceleration of a frame."""
        reference = self.REFERENCE[axes]
        number = self.theirs.getFrameId(frame)
        pin.forwardKinematics(self.theirs, self.data, self.q(q), self.v(v), self.v(vdot))
        pin.updateFramePlacements(self.theirs, self.data)
        functions = (
            pin.getFrameVelocity,
            pin.getFrameAcceleration,
            pin.getFrameClassicalAcceleration,
        )
        return [f(self.theirs, self.data, number, reference).vector[SWAP] for f in functions]

    def com_jacobian(self, q):
        """Jacobian of the mass centre."""
        return pin.jacobianCenterOfMass(self.theirs, self.data, self.q(q))[:, self.back].copy()

    def centroidal(self, q, v):
        """Mass centre, momentum about it, the matrix and its rate."""
        pin.dccrba(self.theirs, self.data, self.q(q), self.v(v))
        matrix = self.data.Ag[SWAP][:, self.back].copy()
        rate = self.data.dAg[SWAP][:, self.back].copy()
        com = pin.centerOfMass(self.theirs, self.data, self.q(q), self.v(v)).copy()
        return com, matrix @ v, matrix, rate

    def energies(self, q, v):
        """Kinetic and potential energy.

        Their computeKineticEnergy leaves out the rotors of revolute and helical joints about any
        axis (4.1), so with rotors it is taken from their mass matrix.
        """
        kinetic = pin.computeKineticEnergy(self.theirs, self.data, self.q(q), self.v(v))
        if self.ours.has_armature:
            kinetic = v @ self.mass_matrix(q) @ v / 2
        return kinetic, pin.computePotentialEnergy(self.theirs, self.data, self.q(q))


# ---- MuJoCo ------------------------------------------------------------------------------------


def mujoco_joint(rng: np.random.Generator, root: bool) -> joints.Joint:
    """A joint that MuJoCo has too; its free joint is only for bodies on the world."""
    u, w = random_axis(rng), random_axis(rng)
    choices: list[joints.Joint] = [
        joints.Revolute(u),
        joints.Prismatic(u),
        joints.Cylindrical(u),
        joints.Universal(u, w),
        joints.Spherical(),
        joints.Translation(),
        joints.Composite([joints.Prismatic(u), joints.Spherical()]),
    ]
    if root:
        choices += [joints.Free()] * 4
    return choices[int(rng.integers(len(choices)))]


def mujoco_tree(seed: int, n: int, *, n_roots: int = 1, armature: bool = False) -> Model:
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, n, n_roots)
    kinds = [mujoco_joint(rng, p < 0) for p in parents]
    model = model_from_parents(parents, rng, kinds, frames=True)
    if armature:  # one number per joint of theirs; on a free joint theirs would turn with the world
        for name in model.body_names:
            joint = model.body(name).joint
            if joint.kind != "free":
                model = model.with_body(name, armature=np.full(joint.nv, rng.uniform(0.05, 0.2)))
    return model


def _mujoco_parts(joint: joints.Joint) -> list[tuple[str, tuple[float, ...]]]:
    """Types and axes of MuJoCo's joints, in order."""
    arguments = joint.as_arguments()
    if isinstance(joint, joints.Composite):
        return [part for inner in joint.joints for part in _mujoco_parts(inner)]
    if isinstance(joint, joints.Cylindrical):
        return [("HINGE", arguments["axis"]), ("SLIDE", arguments["axis"])]
    if isinstance(joint, joints.Universal):
        return [("HINGE", arguments["axis1"]), ("HINGE", arguments["axis2"])]
    if isinstance(joint, joints.Translation):
        return [("SLIDE", (1, 0, 0)), ("SLIDE", (0, 1, 0)), ("SLIDE", (0, 0, 1))]
    kinds = {"revolute": "HINGE", "prismatic": "SLIDE", "spherical": "BALL", "free": "FREE"}
    return [(kinds[joint.kind], arguments.get("axis", (0, 0, 1)))]


class InMujoco:
    """A model in MuJoCo. Arrays in and out are in this library's conventions.

    Their rates of a free joint are [velocity in world axes, ω in body axes]: v_theirs = T v.
    """

    def __init__(self, model: Model) -> None:
        self.ours = model
        spec = self.spec = mujoco.MjSpec()
        spec.option.gravity = np.array(model.gravity)
        spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
        spec.compiler.balanceinertia = False
        hosts = {-1: spec.worldbody}
        for i, body in enumerate(model.description.bodies):
            c = body.inertia.com_B
            moment = np.array(body.inertia.moment_about_com_B)
            hosts[i] = hosts[model.parent[i]].add_body(
                name=body.name,
                pos=np.array(body.placement.translation),
                quat=matrix_to_quat(body.placement.rotation),
                mass=body.inertia.mass,
                ipos=np.array(c),
                fullinertia=[*np.diag(moment), moment[0, 1], moment[0, 2], moment[1, 2]],
                explicitinertial=True,
            )
            for k, (kind, axis) in enumerate(_mujoco_parts(body.joint)):
                hosts[i].add_joint(
                    name=f"{body.joint_name}.{k}",
                    type=getattr(mujoco.mjtJoint, f"mjJNT_{kind}"),
                    axis=np.array(axis, dtype=float),
                    armature=float(body.armature[0]),
                )
        self.theirs = spec.compile()
        assert self.theirs.nq == model.nq and self.theirs.nv == model.nv
        self.data = mujoco.MjData(self.theirs)

    def q(self, q: np.ndarray) -> np.ndarray:
        out = np.array(q)
        for joint, s, X in zip(
            self.ours.joints, self.ours.q_slices, self.ours.placements, strict=True
        ):
            if joint.kind == "free":
                R = X.rotation @ quat_to_matrix(q[s][:4])
                out[s] = [*X.apply(q[s][4:]), *matrix_to_quat(R)]
        return out

    def transform(self, q: np.ndarray) -> np.ndarray:
        """T of v_theirs = T v."""
        out = np.eye(self.ours.nv)
        for s, R in self._free(q):
            out[s, s] = np.block([[np.zeros((3, 3)), R], [np.eye(3), np.zeros((3, 3))]])
        return out

    def transform_rate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Time derivative of T: only R turns."""
        out = np.zeros((self.ours.nv, self.ours.nv))
        for s, R in self._free(q):
            omega = v[s][:3]
            turning = np.block([np.zeros((3, 3)), R @ skew(omega)])
            out[s, s] = np.concatenate([turning, np.zeros((3, 6))])
        return out

    def _free(self, q):
        for joint, s, i, X in zip(
            self.ours.joints,
            self.ours.v_slices,
            self.ours.q_slices,
            self.ours.placements,
            strict=True,
        ):
            if joint.kind == "free":
                yield s, X.rotation @ quat_to_matrix(q[i][:4])

    def set(self, q, v, vdot=None, tau=None, f_ext=None) -> tuple[np.ndarray, np.ndarray]:
        """Put the state into their data; returns T and its rate."""
        T, Tdot = self.transform(q), self.transform_rate(q, v)
        mujoco.mj_resetData(self.theirs, self.data)
        self.data.qpos[:], self.data.qvel[:] = self.q(q), T @ v
        if tau is not None:
            self.data.qfrc_applied[:] = np.linalg.solve(T.T, tau)
        mujoco.mj_fwdPosition(self.theirs, self.data)
        if f_ext is not None:  # theirs: at the mass centre, world axes, [force; moment]
            for k, f in enumerate(f_ext):
                R = self.data.xmat[k + 1].reshape(3, 3)
                force, moment = R @ f[3:], R @ f[:3]
                arm = self.data.xpos[k + 1] - self.data.xipos[k + 1]
                self.data.xfrc_applied[k + 1] = [*force, *(moment + np.cross(arm, force))]
        mujoco.mj_forward(self.theirs, self.data)
        if vdot is not None:
            self.data.qacc[:] = T @ vdot + Tdot @ v
        return T, Tdot

    def forward_dynamics(self, q, v, tau, f_ext):
        T, Tdot = self.set(q, v, tau=tau, f_ext=f_ext)
        return np.linalg.solve(T, self.data.qacc - Tdot @ v)

    def inverse_dynamics(self, q, v, vdot):
        T, _ = self.set(q, v, vdot=vdot)
        mujoco.mj_inverse(self.theirs, self.data)
        return T.T @ self.data.qfrc_inverse

    def bias_forces(self, q, v):
        T, Tdot = self.set(q, v)
        return T.T @ (self.data.qfrc_bias + self._mass_matrix() @ Tdot @ v)

    def _mass_matrix(self) -> np.ndarray:
        nv = self.ours.nv
        out, column = np.empty((nv, nv)), np.empty(nv)
        for k in range(nv):
            mujoco.mj_mulM(self.theirs, self.data, column, np.eye(nv)[k])
            out[:, k] = column
        return out

    def mass_matrix(self, q):
        T, _ = self.set(q, np.zeros(self.ours.nv))
        return T.T @ self._mass_matrix() @ T

    def mass_matrix_inverse(self, q):
        T, _ = self.set(q, np.zeros(self.ours.nv))
        nv = self.ours.nv
        rows = np.empty((nv, nv))
        mujoco.mj_solveM(self.theirs, self.data, rows, np.eye(nv))
        back = np.linalg.inv(T)
        return back @ rows @ back.T

    def poses(self, q):
        self.set(q, np.zeros(self.ours.nv))
        out = np.zeros((self.ours.n_bodies, 4, 4))
        out[:, :3, :3] = self.data.xmat[1:].reshape(-1, 3, 3)
        out[:, :3, 3], out[:, 3, 3] = self.data.xpos[1:], 1
        return out

    def velocities(self, q, v):
        self.set(q, v)
        out = np.empty((self.ours.n_bodies, 6))
        for k in range(self.ours.n_bodies):
            xbody = mujoco.mjtObj.mjOBJ_XBODY
            mujoco.mj_objectVelocity(self.theirs, self.data, xbody, k + 1, out[k], 1)
        return out

    def jacobians(self, q, v, body: int, offset: np.ndarray):
        """Jacobian of a point of a body in world axes, and its rate."""
        T, Tdot = self.set(q, v)
        nv = self.ours.nv
        R = self.data.xmat[body + 1].reshape(3, 3)
        point = self.data.xpos[body + 1] + R @ offset
        J, rate = np.empty((6, nv)), np.empty((6, nv))
        mujoco.mj_jac(self.theirs, self.data, J[3:], J[:3], point, body + 1)
        mujoco.mj_jacDot(self.theirs, self.data, rate[3:], rate[:3], point, body + 1)
        return J @ T, rate @ T + J @ Tdot

    def energies(self, q, v):
        """Kinetic and potential energy."""
        self.set(q, v)
        mujoco.mj_energyPos(self.theirs, self.data)
        mujoco.mj_energyVel(self.theirs, self.data)
        return self.data.energy[1], self.data.energy[0]

    def centroidal(self, q, v):
        """Mass centre and momentum about it."""
        self.set(q, v)
        mujoco.mj_subtreeVel(self.theirs, self.data)
        linear = self.data.subtree_linvel[0] * self.theirs.body_subtreemass[0]
        return self.data.subtree_com[0].copy(), np.array([*self.data.subtree_angmom[0], *linear])
