"""Trees of rigid and flexible bodies, densely, from points with mass: an independent oracle.

    from flexible_oracle import random_flexible_tree

A body is a set of points that move by shape functions; nothing here knows the invariants of
`FlexibleInertia`, the operators or the sweeps. Of the library only poses and axes of joints are
used. Two routes to the equations of motion:

- `dalembert`: Σ m J* (J v̇ + J̇ v − g) over all points, exact for fields that are linear in η;
- `inverse_dynamics`: Boltzmann–Hamel for every body, with the inertia from the same points cut at
  the orders that the theory states (J: η², C and S: η, M_e: 1). Without second-order fields both
  agree.

Time derivatives are complex steps along q̇.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from random_models import JOINTS, Rng, random_pose, random_rotation

import phipsi as pp
from phipsi.core.model.joint import Joint
from phipsi.core.spatial.number_kinds import ARRAYS

STEP = 1e-30
ALL_FLEXIBLE = (*JOINTS, "fixed")


def cross_matrix(a):
    """a~, for real and complex a."""
    x, y, z = a
    return np.array([[0 * x, -z, y], [z, 0 * x, -x], [-y, x, 0 * x]])


def axial(A):
    """The vector a of a matrix a~."""
    return np.array([A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]]) / 2


@dataclass(frozen=True)
class Points:
    """Points with mass: positions, first- and second-order shapes, inertias and their rotations."""

    masses: np.ndarray  # (k,)
    positions: np.ndarray  # (k, 3)
    shapes: np.ndarray  # (k, 3, n)
    second: np.ndarray  # (k, 3, n, n)
    inertias: np.ndarray  # (k, 3, 3)
    turns: np.ndarray  # (k, 3, n)

    @property
    def n(self) -> int:
        return self.shapes.shape[-1]

    def place(self, k, eta):
        """Position of a point in body axes."""
        return self.positions[k] + self.shapes[k] @ eta + (self.second[k] @ eta) @ eta / 2

    def jacobian(self, k, eta):
        """Velocity of a point in body axes per [ω; v; η̇], (3, 6 + n), nothing left out."""
        moves = self.shapes[k] + self.second[k] @ eta
        return np.hstack([-cross_matrix(self.place(k, eta)), np.eye(3), moves])

    def inertia(self, eta):
        """M(η), cut at the stated orders: products of the parts of each order in η."""
        n = self.n
        kind = np.result_type(eta, float)
        M = np.zeros((6 + n, 6 + n), dtype=kind)
        for k, m in enumerate(self.masses):
            first, then = self.shapes[k] @ eta, (self.second[k] @ eta) @ eta / 2
            turn = [-cross_matrix(x) for x in (self.positions[k], first, then)]
            move = [self.shapes[k], self.second[k] @ eta]
            for a in range(3):
                M[:3, 3:6] += m * turn[a].T
                for b in range(3 - a):
                    M[:3, :3] += m * turn[a].T @ turn[b]
                for b in range(2 - a):
                    M[:3, 6:] += m * turn[a].T @ move[b]
            M[3:6, 3:6] += m * np.eye(3)
            M[3:6, 6:] += m * (move[0] + move[1])
            M[6:, 6:] += m * move[0].T @ move[0]
            spin = np.hstack([np.eye(3), np.zeros((3, 3)), self.turns[k]])
            M += spin.T @ self.inertias[k] @ spin
        M[3:6, :3], M[6:, :6] = M[:3, 3:6].T, M[:6, 6:].T
        return M


@dataclass(frozen=True)
class Place:
    """A port: reference pose, rotation and displacement per mode, second-order displacement."""

    name: str
    pose: pp.Pose
    turns: np.ndarray
    moves: np.ndarray
    second: np.ndarray

    def motion(self, eta):
        """Rotation, position, and Jacobian [ω; v] in body axes per η̇."""
        n = len(eta)
        g, I = cross_matrix(self.turns @ eta / 2), np.eye(3)  # noqa: E741
        R = np.linalg.solve(I - g, I + g)
        J = np.zeros((6, n), dtype=R.dtype)
        for i in range(n):  # R (I − g~) = I + g~: ω~ = Ṙ R* with Ṙ = (I − g~)⁻¹ ġ~ (I + R)
            rate = np.linalg.solve(I - g, cross_matrix(self.turns[:, i] / 2) @ (I + R))
            J[:3, i] = axial(rate @ R.T)
        J[3:] = self.moves + self.second @ eta
        position = self.pose.translation + self.moves @ eta + (self.second @ eta) @ eta / 2
        return R @ self.pose.rotation, position, J


@dataclass(frozen=True)
class Link:
    """A body and its joint; `port` numbers a port of the parent, None is the parent's frame."""

    parent: int
    port: int | None
    joint: Joint
    placement: pp.Pose
    points: Points
    stiffness: np.ndarray
    damping: np.ndarray
    ports: tuple[Place, ...] = ()
    armature: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def n(self) -> int:
        return self.points.n

    @cached_property
    def library_inertia(self):
        """The body as the library sees it."""
        p = self.points
        if not self.n:
            M = p.inertia(np.zeros(0))
            J, mass = M[:3, :3], M[3, 3]
            return pp.SpatialInertia(mass, axial(M[:3, 3:6]) / mass, moment_about_origin_B=J)
        ports = [
            pp.Port(x.name, x.pose.rotation, x.pose.translation, x.turns, x.moves, x.second)
            for x in self.ports
        ]
        return pp.FlexibleInertia.from_points(
            p.masses, p.positions, p.shapes, self.stiffness, damping=self.damping,
            second=p.second, inertias=p.inertias, turns=p.turns, ports=ports,
        )  # fmt: skip


@dataclass(frozen=True)
class FlexibleTree:
    """Bodies in the order of the model; q = [joint q, η] of each, v likewise."""

    links: tuple[Link, ...]
    gravity: np.ndarray

    @cached_property
    def q_slices(self) -> list[slice]:
        ends = np.cumsum([0, *(x.joint.nq + x.n for x in self.links)])
        return [slice(int(a), int(b)) for a, b in zip(ends, ends[1:], strict=False)]

    @cached_property
    def v_slices(self) -> list[slice]:
        ends = np.cumsum([0, *(x.joint.nv + x.n for x in self.links)])
        return [slice(int(a), int(b)) for a, b in zip(ends, ends[1:], strict=False)]

    @property
    def nq(self) -> int:
        return self.q_slices[-1].stop

    @property
    def nv(self) -> int:
        return self.v_slices[-1].stop

    def random_state(self, rng: Rng, bend: float = 0.2):
        q = [np.r_[x.joint.random(rng), rng.uniform(-bend, bend, x.n)] for x in self.links]
        return np.concatenate(q), rng.uniform(-1, 1, self.nv)

    def q_rate(self, q, v):
        """q̇ of the rates v."""
        out = []
        for x, a, b in zip(self.links, self.q_slices, self.v_slices, strict=True):
            joint = x.joint
            rate = joint.q_rate(joint.params, q[a][: joint.nq], v[b][: joint.nv], ARRAYS)
            out += [np.array(rate, dtype=np.result_type(q, v)), v[b][joint.nv :]]
        return np.concatenate(out)

    def motions(self, q):
        """Of every body: rotation and position in the world, η, Jacobian of [ω; v; η̇] by v.

        ω and v of the body frame in body axes.
        """
        kind = np.result_type(q, float)
        found = []
        for i, x in enumerate(self.links):
            mine = q[self.q_slices[i]]
            theta, eta = mine[: x.joint.nq], mine[x.joint.nq :]
            if x.parent < 0:
                R, p, J = np.eye(3), np.zeros(3), np.zeros((6, self.nv), dtype=kind)
            else:
                R, p, eta_p, whole = found[x.parent]
                J = whole[:6]
                if x.port is not None:
                    place = self.links[x.parent].ports[x.port]
                    Rc, pc, Jc = place.motion(eta_p)
                    w = J[:3] + Jc[:3] @ whole[6:]
                    v = J[3:] - cross_matrix(pc) @ J[:3] + Jc[3:] @ whole[6:]
                    R, p, J = R @ Rc, p + R @ pc, np.vstack([Rc.T @ w, Rc.T @ v])
            A, a = x.placement.rotation, x.placement.translation
            J = np.vstack([A.T @ J[:3], A.T @ (J[3:] - cross_matrix(a) @ J[:3])])
            R, p = R @ A, p + R @ a
            A, a = x.joint.transform(x.joint.params, theta, ARRAYS)
            A, a = np.array(A, dtype=kind), np.array(a, dtype=kind)
            J = np.vstack([A.T @ J[:3], A.T @ (J[3:] - cross_matrix(a) @ J[:3])])
            R, p = R @ A, p + R @ a
            start, nv = self.v_slices[i].start, x.joint.nv
            axes = x.joint.hinge_axes(x.joint.params, theta, ARRAYS)
            J[:, start : start + nv] += np.array(axes, dtype=kind).reshape(6, nv)
            modal = np.zeros((x.n, self.nv), dtype=kind)
            modal[:, start + nv : start + nv + x.n] = np.eye(x.n)
            found.append((R, p, eta, np.vstack([J, modal])))
        return found

    def rotor_inertia(self):
        """Diagonal of armatures; modes have none."""
        return np.diag(np.concatenate([np.r_[x.armature, np.zeros(x.n)] for x in self.links]))

    def mass_matrix(self, q):
        bodies = zip(self.links, self.motions(q), strict=True)
        parts = [J.T @ x.points.inertia(eta) @ J for x, (_, _, eta, J) in bodies]
        return sum(parts) + self.rotor_inertia()

    def elastic_forces(self, q, v):
        """K_e η + C_e η̇ in the modal rows, zero in the joint rows."""
        out = np.zeros(self.nv)
        for x, a, b in zip(self.links, self.q_slices, self.v_slices, strict=True):
            eta, rate = q[a][x.joint.nq :], v[b][x.joint.nv :]
            out[b.start + x.joint.nv : b.stop] = x.stiffness @ eta + x.damping @ rate
        return out

    def gravity_forces(self, q):
        """Σ −m J* g over all points."""
        out = np.zeros(self.nv)
        for x, (R, _, eta, J) in zip(self.links, self.motions(q), strict=True):
            for k, m in enumerate(x.points.masses):
                out -= m * (R @ x.points.jacobian(k, eta) @ J).T @ self.gravity
        return out

    def inverse_dynamics(self, q, v, vdot, elastic=True):
        """tau by Boltzmann–Hamel for every body, gravity from the points."""
        along = q + 1j * STEP * self.q_rate(q, v)
        rates = v + 1j * STEP * vdot
        now, then = self.motions(q), self.motions(along)
        tau = self.gravity_forces(q) + self.rotor_inertia() @ vdot
        for x, (_, _, eta, J), (_, _, eta_t, J_t) in zip(self.links, now, then, strict=True):
            motion = J @ v
            momentum = x.points.inertia(eta) @ motion
            w, u, pw, pv = motion[:3], motion[3:6], momentum[:3], momentum[3:6]
            force = (x.points.inertia(eta_t) @ (J_t @ rates)).imag / STEP
            force[:3] += np.cross(w, pw) + np.cross(u, pv)
            force[3:6] += np.cross(w, pv)
            for i in range(x.n):
                bent = eta + 1j * STEP * np.eye(x.n)[i]
                force[6 + i] -= (motion @ x.points.inertia(bent) @ motion).imag / STEP / 2
            tau += J.T @ force
        return tau + self.elastic_forces(q, v) if elastic else tau

    def dalembert(self, q, v, vdot):
        """Σ m J* (J v̇ + J̇ v − g) over all points; without second-order fields and inertias."""
        along = q + 1j * STEP * self.q_rate(q, v)
        rates = v + 1j * STEP * vdot
        tau = self.rotor_inertia() @ vdot
        for x, now, then in zip(self.links, self.motions(q), self.motions(along), strict=True):
            for k, m in enumerate(x.points.masses):
                G = now[0] @ x.points.jacobian(k, now[2]) @ now[3]
                velocity = then[0] @ (x.points.jacobian(k, then[2]) @ (then[3] @ rates))
                tau += m * G.T @ (velocity.imag / STEP - self.gravity)
        return tau + self.elastic_forces(q, v)

    def bias_forces(self, q, v, elastic=True):
        return self.inverse_dynamics(q, v, np.zeros(self.nv), elastic)

    def forward_dynamics(self, q, v, tau):
        return np.linalg.solve(self.mass_matrix(q), tau - self.bias_forces(q, v))

    def kinetic_energy(self, q, v):
        return v @ self.mass_matrix(q) @ v / 2

    def potential_energy(self, q):
        """Of gravity: −Σ m g · p."""
        return -sum(
            m * self.gravity @ (p + R @ x.points.place(k, eta))
            for x, (R, p, eta, _) in zip(self.links, self.motions(q), strict=True)
            for k, m in enumerate(x.points.masses)
        )

    def elastic_energy(self, q):
        bodies = zip(self.links, self.q_slices, strict=True)
        etas = [(x, q[a][x.joint.nq :]) for x, a in bodies]
        return sum(eta @ x.stiffness @ eta / 2 for x, eta in etas)

    def momentum(self, q, v):
        """[angular about the world's origin; linear] in world axes."""
        out = np.zeros(6)
        for x, (R, p, eta, J) in zip(self.links, self.motions(q), strict=True):
            h = x.points.inertia(eta) @ (J @ v)
            linear = R @ h[3:6]
            out += np.r_[R @ h[:3] + np.cross(p, linear), linear]
        return out

    def port_motion(self, q, body: int, port: int):
        """Rotation, position and Jacobian (6, nv) of a port, all in the port's axes but R, p."""
        R, p, eta, J = self.motions(q)[body]
        Rc, pc, Jc = self.links[body].ports[port].motion(eta)
        w = J[:3] + Jc[:3] @ J[6:]
        v = J[3:6] - cross_matrix(pc) @ J[:3] + Jc[3:] @ J[6:]
        return R @ Rc, p + R @ pc, np.vstack([Rc.T @ w, Rc.T @ v])

    def build(self) -> pp.Model:
        """The same mechanism as a model: bodies "b0", "b1", …"""
        builder = pp.ModelBuilder(gravity=self.gravity)
        for i, x in enumerate(self.links):
            on = {"port": "" if x.port is None else self.links[x.parent].ports[x.port].name}
            builder.add_body(
                f"b{i}",
                parent="world" if x.parent < 0 else f"b{x.parent}",
                joint=x.joint,
                placement=x.placement,
                inertia=x.library_inertia,  # pyright: ignore[reportArgumentType]
                armature=x.armature,
                **on,
            )
        return builder.build(inertia="keep")


def random_points(rng: Rng, n: int, count: int = 6, second=0.3, inertias=True) -> Points:
    """Points within 0.3 m with random shapes; `second` is the size of second-order fields."""
    psi = second * rng.uniform(-1, 1, (count, 3, n, n))
    spin = rng.uniform(-1, 1, (count, 3, 3))
    return Points(
        rng.uniform(0.2, 0.8, count),
        rng.uniform(-0.3, 0.3, (count, 3)),
        rng.uniform(-1, 1, (count, 3, n)),
        psi + psi.swapaxes(-1, -2),
        0.02 * inertias * spin @ spin.swapaxes(-1, -2),
        rng.uniform(-1, 1, (count, 3, n)),
    )


def random_link(rng: Rng, parent: int, port, joint: str, n: int, **options) -> Link:
    """A body with n modes (0: rigid) and two ports if it has any."""
    armature = options.pop("armature", False)
    A, C = rng.uniform(-1, 1, (n, n)), rng.uniform(-1, 1, (n, n))
    kind = pp.joints.Fixed() if joint == "fixed" else JOINTS[joint](rng)
    psi = options.get("second", 0.3) * rng.uniform(-1, 1, (2, 3, n, n))
    ports = tuple(
        Place(
            f"port{k}",
            pp.Pose(random_rotation(rng), rng.uniform(-0.4, 0.4, 3)),
            rng.uniform(-1, 1, (3, n)),
            rng.uniform(-1, 1, (3, n)),
            psi[k] + psi[k].swapaxes(-1, -2),
        )
        for k in range(2 if n else 0)
    )
    return Link(
        parent, port, kind, random_pose(rng), random_points(rng, n, **options),
        20 * A @ A.T + np.eye(n), C @ C.T / 5, ports,
        rng.uniform(0.05, 0.2, kind.nv) * armature,
    )  # fmt: skip


def random_flexible_tree(
    rng: Rng | int,
    bodies: int = 5,
    joints: Sequence[str] = ALL_FLEXIBLE,
    *,
    modes: Sequence[int] = (0, 1, 2, 3),
    second: float = 0.3,
    inertias: bool = True,
    armature: bool = False,
    gravity: Sequence[float] = (0.3, -0.5, -9.81),
) -> FlexibleTree:
    """A random tree in the order of the model (depth first).

    `joints` and `modes` are drawn from, unless there are exactly as many as bodies; children sit on
    ports or on the parent's own frame. A body that is welded to a rigid one has modes.
    """
    rng = np.random.default_rng(rng)
    links: list[Link] = []
    for i in range(bodies):
        path = [-1]  # the last body and its ancestors: only there may the next one go
        k = i - 1
        while k >= 0:
            path.append(k)
            k = links[k].parent
        parent = int(rng.choice(path[1:])) if i and rng.random() < 0.9 else -1
        host = links[parent] if parent >= 0 else None
        port = int(rng.integers(2)) if host and host.n and rng.random() < 0.8 else None
        joint = joints[i] if len(joints) == bodies else str(rng.choice(list(joints)))
        n = modes[i] if len(modes) == bodies else int(rng.choice(list(modes)))
        if joint == "fixed" and n == 0:
            n = max(modes)
        links.append(
            random_link(
                rng, parent, port, joint, n, second=second, inertias=inertias, armature=armature
            )
        )
    return FlexibleTree(tuple(links), np.array(gravity, dtype=float))
