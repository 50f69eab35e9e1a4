"""Random arms that hold an object, and the papers' formulas for them in plain NumPy.

    from random_grasps import Plain, random_grasp

Everything of `Plain` is in world axes, as in JPL 88-11 Part II: "+" is the finger's side of a
contact, "−" the object's, f the forces of the fingers on the object.
"""

from __future__ import annotations

import numpy as np
from random_models import ALL, Rng, model_from_parents, random_pose, random_rotation
from random_systems import admissible

import phipsi as pp
from phipsi import grasping
from phipsi.core.spatial import skew, so3_exp

KINDS = ("Rigid", "Edge", "Point", "SoftFinger")
FREE = {"Rigid": 0, "Edge": 1, "Point": 3, "SoftFinger": 2}


def random_grasp(
    seed: int, kinds, *, joints=ALL, length: int = 4, least: int = 7, **options
) -> tuple[pp.grasping.Grasp, np.ndarray, np.ndarray]:
    """Chains of bodies with at least `least` rates, one per contact, that hold a free body.

    Returns the grasp, and a state on its constraints.
    """
    rng = np.random.default_rng(seed)
    while True:
        parents, tips = [], []
        for _ in kinds:
            first = len(parents)
            parents += [-1, *range(first, first + length - 1)]
            tips.append(len(parents) - 1)
        parents.append(-1)
        n = len(parents)
        drawn = [joints[int(rng.integers(len(joints)))] for _ in range(n - 1)]
        model = model_from_parents(parents, rng, [*drawn, "free"], **options)
        sizes = [sum(model.joints[t - i].nv for i in range(length)) for t in tips]
        if min(sizes) >= least:
            break
    thing = f"b{n - 1}"
    q = model.random_configuration(rng)
    grasp = pp.grasping.Grasp(
        model,
        object=thing,
        contacts=[
            contact(model, q, kind, f"b{t}", thing, rng)
            for kind, t in zip(kinds, tips, strict=True)
        ],
    )
    return grasp, q, admissible(grasp, q, rng)


def contact(model: pp.Model, q, kind: str, finger: str, thing: str, rng: Rng) -> grasping.Contact:
    """A contact that is closed at q, turned by what it leaves free."""
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    X_finger = random_pose(rng)
    angle = rng.uniform(0, 2 * np.pi)
    axis = np.array([np.cos(angle), np.sin(angle), 0.0])
    turn = {
        "Rigid": np.eye(3),
        "Edge": so3_exp(axis * rng.uniform(-1, 1)),
        "Point": random_rotation(rng),
        "SoftFinger": random_rotation(rng),
    }[kind]
    where = np.linalg.inv(poses[thing]) @ poses[finger] @ X_finger.matrix
    X_object = pp.Pose(where[:3, :3] @ turn.T, where[:3, 3])
    ends = {"name": f"on {finger}", "finger": (finger, X_finger), "object": (thing, X_object)}
    if kind == "Rigid":
        return grasping.Rigid(**ends)
    if kind == "Edge":
        return grasping.Edge(axis, friction=0.7, half_length=0.1, torsional_friction=0.03, **ends)
    if kind == "Point":
        return grasping.Point(0.6, **ends)
    return grasping.SoftFinger(0.6, 0.02, **ends)


class Plain:
    """The quantities of 88-11 Part II at one state, dense, in world axes."""

    def __init__(self, grasp: pp.grasping.Grasp, q, v) -> None:
        model = grasp.model
        rates = grasp.object_rates
        arms = np.setdiff1d(np.arange(model.nv), rates)
        self.arms, self.rates, self.grasp = arms, rates, grasp
        fingers = [c.finger for c in grasp.contacts]
        points = [(b, X.translation) for b, X in fingers]
        l = len(points)
        self.J = pp.jacobian(model, q, points)[:, arms]
        self.MM = pp.mass_matrix(model, q)[np.ix_(arms, arms)]
        self.c = pp.bias_forces(model, q, v)[arms]
        drift = pp.jacobian_dot(model, q, v, points, times_v=True).reshape(-1)
        self.Jdot_v = drift
        pose = dict(zip(model.body_names, pp.poses(model, q), strict=True))
        thing = grasp.object[0]
        X = pose[thing]
        R, x = X[:3, :3], X[:3, 3]
        body = model.body_index(thing)
        inertia = model.inertias[body]
        m, p = inertia.mass, R @ inertia.com_B
        J_C = R @ inertia.moment_about_com_B @ R.T - m * skew(p) @ skew(p)
        self.M_C = np.block([[J_C, m * skew(p)], [-m * skew(p), m * np.eye(3)]])
        self.J_C = pp.jacobian(model, q, [thing])  # all rates, world axes
        V_C = self.J_C @ v
        w = V_C[:3]
        g = m * np.asarray(model.gravity)
        self.b_C = np.concatenate([np.cross(w, J_C @ w), m * np.cross(w, np.cross(w, p))])
        self.b_C -= np.concatenate([np.cross(p, g), g])
        at = pp.poses(model, q, points)[:, :3, 3]
        arm = at - x
        self.A = np.vstack([np.block([[np.eye(3), np.zeros((3, 3))], [-skew(a), np.eye(3)]])
                            for a in arm])  # fmt: skip
        self.a_C = np.concatenate([[0, 0, 0, *np.cross(w, np.cross(w, a))] for a in arm])
        self.contact_axes = [R @ c.object[1].rotation for c in grasp.contacts]
        # the freedoms of the contacts: V^- = V^+ + H0* W
        plus, minus = self.J @ v[arms], self.A @ V_C
        columns, rates_dot = [], []
        for i, c in enumerate(grasp.contacts):
            axes = self.contact_axes[i]
            kind = type(c).__name__
            h = {
                "Rigid": np.zeros((3, 0)),
                "Edge": (axes @ np.asarray(getattr(c, "axis", (1, 0, 0))))[:, None],
                "Point": np.eye(3),
                "SoftFinger": axes[:, :2],
            }[kind]
            gap = (minus - plus)[6 * i : 6 * i + 3]
            W = h.T @ gap
            assert np.allclose(h @ W, gap, atol=1e-9), "the state is not admissible"
            block = np.zeros((6 * l, h.shape[1]))
            block[6 * i : 6 * i + 3] = h
            columns.append(block)
            turning = np.zeros(3) if kind == "Point" else np.cross(w, h @ W)
            rates_dot.append(np.concatenate([turning, np.zeros(3)]))
        self.H0 = np.hstack(columns).T
        self.Hdot_W = np.concatenate(rates_dot)
        inv = np.linalg.inv
        self.Om = self.J @ inv(self.MM) @ self.J.T + self.A @ inv(self.M_C) @ self.A.T

    def b9(self, tau) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(f, vdot of the arms, alpha_C, Wdot) by eq. b.9."""
        inv, J, MM, A, H0 = np.linalg.inv, self.J, self.MM, self.A, self.H0
        G1 = A @ inv(self.M_C) @ self.b_C + self.Jdot_v + self.Hdot_W - self.a_C
        G1 = G1 - J @ inv(MM) @ self.c
        Oi = inv(self.Om)
        Pi, Wdot = Oi, np.zeros(0)
        if len(H0):
            small = inv(H0 @ Oi @ H0.T)
            Pi = Oi - Oi @ H0.T @ small @ H0 @ Oi
            Wdot = -small @ H0 @ Oi @ (J @ inv(MM) @ tau + G1)
        f = Pi @ (J @ inv(MM) @ tau + G1)
        vdot = inv(MM) @ (tau - self.c - J.T @ f)
        return f, vdot, inv(self.M_C) @ (A.T @ f - self.b_C), Wdot

    def wrenches(self, f) -> np.ndarray:
        """Forces (contacts, 6) turned to contact axes."""
        halves = f.reshape(-1, 2, 3)
        return np.array([h @ R for h, R in zip(halves, self.contact_axes, strict=True)]).reshape(
            -1, 6
        )
