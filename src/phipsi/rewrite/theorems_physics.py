# pyright: basic
# ruff: noqa: E501  (tables: one row, one line)
"""Independent physics: Lagrange, Newton–Euler at the mass centres, energy, momentum, quaternions.

Nothing here uses the operators on the right-hand sides beyond the poses and, for accelerations, the
velocities, which are themselves checked against the poses.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from phipsi.expressions.node import Expr
from phipsi.model.scalars import NUMPY_OPS
from phipsi.operators import V, parse, pose
from phipsi.rewrite.identity import Array, Case, Claim, Identity, claim, gathered, stacked
from phipsi.rewrite.theorems_bias import centres, gradient, rate, turns, world
from phipsi.rewrite.theorems_blocks import bodies, forward_4, lever
from phipsi.rewrite.theorems_symbols import checked
from phipsi.spatial import quat_multiply, quat_to_matrix, skew

_MASS, _BODIES = parse("mass_matrix"), parse("H phi M phi* H*")
_C_PAPER, _C = parse("H phi (M phi* a_paper + b_paper)"), parse("H phi (M phi* a + b)")


def _vee(W: Array) -> Array:
    """The vector of antisymmetric matrices (..., 3, 3)."""
    return np.stack([W[..., 2, 1], W[..., 0, 2], W[..., 1, 0]], axis=-1)


def _partial_velocities(case: Case) -> tuple[Array, Array]:
    """∂(velocity of the mass centres), ∂ω per unit rate, (n, 3, nv), from the poses alone."""
    linear = gradient(case, lambda q: centres(case, q))
    turning = gradient(case, lambda q: case.dense(pose, q=q)[:, :3, :3])
    R = case.dense(pose)[:, :3, :3]
    spin = np.einsum("kijv,klj->kvil", turning, R)
    return linear, np.moveaxis(_vee(spin), 1, -1)


def _inertia_about_com(case: Case) -> Array:
    R, out = case.dense(pose)[:, :3, :3], case.zeros(case.model.n_bodies, 3, 3)
    for k, inertia in enumerate(case.model.inertias):
        p = skew(inertia.com_B)
        about = case.model.inertia_matrices[k][:3, :3] + inertia.mass * p @ p
        out[k] = R[k] @ about @ R[k].T
    return out


def _masses(case: Case) -> Array:
    return gathered(case, [inertia.mass for inertia in case.model.inertias])


def _velocity(case: Case) -> Claim:
    """V against the derivative of the poses."""
    moved = rate(case, pose)
    R = case.dense(pose)[:, :3, :3]
    omega = _vee(R.swapaxes(-1, -2) @ moved[:, :3, :3])
    linear = np.einsum("kji,kj->ki", R, moved[:, :3, 3])
    return claim(case.dense(V).reshape(-1, 6), np.concatenate([omega, linear], axis=-1))


def _kinetic_energy(case: Case) -> Claim:
    linear, angular = _partial_velocities(case)
    velocity, omega = linear @ case.v, angular @ case.v
    energy = _masses(case) / 2 @ np.sum(velocity**2, axis=-1)
    energy += np.einsum("ki,kij,kj->", omega, _inertia_about_com(case), omega) / 2
    energy += case.model.armature @ case.v**2 / 2
    return claim(case.dense(parse("1/2 v* mass_matrix v")), energy)


def _mass_matrix(case: Case) -> Claim:
    linear, angular = _partial_velocities(case)
    total = np.einsum("kiv,k,kiw->vw", linear, _masses(case), linear)
    total += np.einsum("kiv,kij,kjw->vw", angular, _inertia_about_com(case), angular)
    return claim(case.dense(_MASS), total + np.diag(case.model.armature))


def _jacobian(case: Case) -> Claim:
    model = case.model
    linear, angular = _partial_velocities(case)
    points = [(model.body_names[k], i.com_B) for k, i in enumerate(model.inertias)]
    dense = case.dense(parse("B* phi* H*"), points=points, f0=case.zeros(len(points), 6))
    return claim(
        dense.reshape(model.n_bodies, 6, model.nv), np.concatenate([angular, linear], axis=1)
    )


# ---- equations of motion -----------------------------------------------------------------------


def _lagrange(case: Case) -> Array:
    """N* (d/dt ∂T/∂q̇ − ∂T/∂q) at v̇ = 0, with T = ½ q̇* A(q) q̇, A = N⁺* H φ M φ* H* N⁺.

    T is that of the bodies. Rotors add Jr v̇ and nothing else, by definition also where v is no
    derivative of coordinates.
    """
    model, q, v = case.model, case.q, case.v

    def map_of(at: Array) -> Array:  # N(q), nq × nv
        columns = [model.qdot(at, unit) for unit in case.eye(model.nv)]
        return np.stack(columns, axis=-1) if columns else case.zeros(model.nq, 0)

    def metric(at: Array) -> Array:
        N = map_of(at)
        left = np.linalg.solve(N.T @ N, N.T)
        return left.T @ case.dense(_BODIES, q=at) @ left

    N = map_of(q)
    qdot = N @ v
    qddot = case.derivative(lambda at: map_of(at) @ v, (q,), (qdot,))
    force = metric(q) @ qddot + case.derivative(metric, (q,), (qdot,)) @ qdot
    for i, unit in enumerate(case.eye(model.nq)):
        slope = case.derivative(lambda at: qdot @ metric(at) @ qdot, (q,), (unit,))
        force[i] = force[i] - slope / 2
    return N.T @ force


def _check_lagrange(bias: Expr):
    def check(case: Case) -> Claim:
        return claim(case.dense(bias), _lagrange(case))

    return check


def _virtual_power(case: Case) -> Array:
    """Efforts from Newton and Euler at each mass centre, times partial velocities; no f0."""
    linear, angular = _partial_velocities(case)
    inertia, masses = _inertia_about_com(case), _masses(case)

    def velocities(q: Array, v: Array) -> Array:
        """[ω; velocity of the mass centre]."""
        moving = case.dense(V, axes="inertial", q=q, v=v).reshape(-1, 6)
        at = case.dense(pose, q=q)[:, :3, 3]
        centre = moving[:, 3:] + np.cross(moving[:, :3], centres(case, q) - at)
        return np.concatenate([moving[:, :3], centre], axis=-1)

    along = case.model.qdot(case.q, case.v), case.vdot
    moved = case.derivative(velocities, (case.q, case.v), along)
    omega_dot, acceleration = moved[:, :3], moved[:, 3:]
    omega = world(case, V)[:, :3]
    spin = np.einsum("kij,kj->ki", inertia, omega)
    moment = np.einsum("kij,kj->ki", inertia, omega_dot) + np.cross(omega, spin)
    force = masses[:, None] * (acceleration - case.model.gravity)
    out = np.einsum("kiv,ki->v", linear, force) + np.einsum("kiv,ki->v", angular, moment)
    return out + case.model.armature * case.vdot


def _inverse_dynamics(bias: str):
    expr = parse(f"mass_matrix vdot + {bias} + H phi M phi* gravity")

    def check(case: Case) -> Claim:
        return claim(case.dense(expr), _virtual_power(case))

    return check


def _forward_dynamics(case: Case) -> Claim:
    w = bodies(case)
    tau = _virtual_power(case) + case.dense(parse("J* f0"))
    vdot, _, _ = forward_4(w, tau)
    return claim(vdot, case.vdot)


def _coordinate_rates(case: Case) -> Claim:
    """The pose of every joint along N(q) v moves as H* v says: R* Ṙ = ω~, R* ṗ = v."""
    model, claims = case.model, []
    along = model.qdot(case.q, case.v)

    def pose_of(joint: Any, q: Array) -> Array:
        rotation, offset = joint.transform(joint.params, list(q), NUMPY_OPS)
        out = np.zeros_like(q, shape=(3, 4))
        for i, j in np.ndindex(3, 3):
            out[i, j] = rotation[i][j]
        for i in range(3):
            out[i, 3] = offset[i]
        return out

    motions = case.dense(parse("H* v")).reshape(-1, 6)
    for k, joint in enumerate(model.joints):
        s = model.q_slices[k]
        if not joint.nv:
            continue
        R = pose_of(joint, case.q[s])[:, :3]
        moved = R.T @ case.derivative(partial(pose_of, joint), (case.q[s],), (along[s],))
        claims += [claim(moved[:, :3], skew(motions[k, :3])), claim(moved[:, 3], motions[k, 3:])]
    return stacked(claims)


# ---- innovations -------------------------------------------------------------------------------


def _innovations(case: Case) -> tuple[Array, Array, Array, Array]:
    """(nu, nudot, mu, eps) of MC sec. 6, in the motion vdot of the case, no gravity, no f0."""
    factor = parse("(I + H phi K) D_half")
    root, root_dot = case.dense(factor), rate(case, factor)
    nu = root.T @ case.v
    mu = np.linalg.solve(root, case.dense(_C)) - root_dot.T @ case.v
    nu_dot = root_dot.T @ case.v + root.T @ case.vdot
    eps = np.linalg.solve(root, case.dense(parse("mass_matrix vdot") + _C))
    return nu, nu_dot, mu, eps


def _innovation_dynamics(case: Case) -> Claim:
    _, nu_dot, mu, eps = _innovations(case)
    return claim(nu_dot + mu, eps)


def _mu_works_not(case: Case) -> Claim:
    nu, _, mu, _ = _innovations(case)
    return claim(nu @ mu, 0 * (nu @ mu))


# ---- free roots --------------------------------------------------------------------------------


def _free_roots(case: Case) -> list[int]:
    model = case.model
    return [k for k in model.tree.roots if model.joints[k].kind == "free"]


def _root_blocks(matrix: Array, roots: list[int]) -> Array:
    return np.stack([matrix[6 * k : 6 * k + 6] for k in roots])


def _drifting(case: Case) -> tuple[Array, Array]:
    """(tau, vdot) without gravity and point forces, and without effort at the free roots."""
    tau = case.random(case.model.nv)
    for k in _free_roots(case):
        tau[case.model.v_slices[k]] = 0
    return tau, np.linalg.solve(case.dense(_MASS), tau - case.dense(_C))


def _nothing_passes(case: Case) -> Claim:
    bar, roots = case.dense(parse("proj_bar")), _free_roots(case)
    found = np.stack([bar[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] for k in roots])
    return claim(found, np.zeros_like(found))


def _no_root_force(case: Case) -> Claim:
    _, vdot = _drifting(case)
    f = parse("phi (M phi* (H* vdot + a) + b)")
    found = _root_blocks(case.dense(f, vdot=vdot), _free_roots(case))
    return claim(found, np.zeros_like(found))


def _momentum(case: Case) -> Claim:
    _, vdot = _drifting(case)
    tree = case.model.tree

    def totals(q: Array, v: Array) -> Array:
        momenta = case.dense(parse("M V"), q=q, v=v, axes="inertial").reshape(-1, 6)
        at = case.dense(pose, q=q)[:, :3, 3]
        carried = [lever(x) @ momentum for x, momentum in zip(at, momenta, strict=True)]
        subtrees = (np.stack([carried[k] for k in tree.subtree(r)]) for r in _free_roots(case))
        return np.stack([x.sum(axis=0) for x in subtrees])

    along = case.model.qdot(case.q, case.v), vdot
    changes = case.derivative(totals, (case.q, case.v), along)
    return claim(changes, np.zeros_like(changes))


def _no_root_bias(case: Case) -> Claim:
    found = _root_blocks(case.dense(parse("a")), _free_roots(case))
    return claim(found, np.zeros_like(found))


def _root_acceleration(case: Case) -> Claim:
    alpha = rate(case, V, case.vdot, axes="inertial").reshape(-1, 6)
    U, moving = turns(case), world(case, V)
    claims = []
    for k in _free_roots(case):
        s = np.concatenate([case.zeros(3), np.cross(moving[k, :3], moving[k, 3:])])
        claims.append(claim(alpha[k], U[k] @ case.vdot[case.model.v_slices[k]] + s))
    return stacked(claims)


# ---- quaternions -------------------------------------------------------------------------------


def _quaternion(case: Case) -> tuple[Array, Array, Array]:
    """A quaternion of any length, ω in the outboard frame, and E(q)."""
    q, omega = case.random(4), case.random(3)
    w, x, y, z = q
    rows = [[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]]
    return q, omega, np.stack([np.stack(row) for row in rows])


def _quaternion_rate(case: Case) -> Claim:
    q, omega, E = _quaternion(case)
    moved = case.derivative(quat_to_matrix, (q,), (E @ omega / 2,))
    return claim(quat_to_matrix(q).T @ moved, skew(omega))


def _quaternion_inboard(case: Case) -> Claim:
    q, omega, E = _quaternion(case)
    inboard = np.concatenate([case.zeros(1), quat_to_matrix(q) @ omega])
    return claim(0.5 * quat_multiply(inboard, q), 0.5 * E @ omega)


def _quaternion_inverse(case: Case) -> Claim:
    q, omega, E = _quaternion(case)
    return claim(2 * E.T @ (0.5 * E @ omega) / (q @ q), omega)


def _quaternion_gram(case: Case) -> Claim:
    q, _, E = _quaternion(case)
    return claim(E.T @ E, (q @ q) * np.eye(3))


def _quaternion_outer(case: Case) -> Claim:
    q, _, E = _quaternion(case)
    return claim(E @ E.T, (q @ q) * np.eye(4) - np.outer(q, q))


_FREE, _FREE_ROTORLESS = "free root", "Jr = 0, free root"

# fmt: off
PHYSICS: list[Identity] = [
    checked("physics: velocities", "phi* H* v = derivative of the poses", "independent", _velocity),
    checked("physics: mass matrix", "mass_matrix = sum of partial velocities, weighted with the inertias", "independent", _mass_matrix),
    checked("physics: kinetic energy", "1/2 v* mass_matrix v = sum 1/2 m c'^2 + 1/2 w I w", "independent", _kinetic_energy),
    checked("physics: Jacobian", "B* phi* H*, points = all mass centres = partial velocities", "independent", _jacobian),
    checked("physics: qdot = N(q) v", "dR/dt = R w~ and dp/dt = R v along N(q) v, [w; v] = H* v, at every joint", "independent", _coordinate_rates),
    checked("physics: Lagrange", "H phi (M phi* a + b) = N* (d/dt dT/dqdot - dT/dq), papers' pair", "independent", _check_lagrange(_C_PAPER)),
    checked("physics: Lagrange, body form", "H phi (M phi* a + b) = the same, body-frame pair", "independent", _check_lagrange(_C)),
    checked("physics: inverse dynamics", "mass_matrix vdot + C + gravity = Newton-Euler at mass centres + virtual power", "independent",
            _inverse_dynamics("H phi (M phi* a_paper + b_paper)")),
    checked("physics: body-frame bias", "the same with the body-frame pair", "independent", _inverse_dynamics("H phi (M phi* a + b)")),
    checked("physics: forward dynamics", "FD4(tau of virtual power) = vdot of the curve", "independent", _forward_dynamics),
    checked("innovations dynamics", "d/dt(nu) + mu = eps, mu = l^-1 C - ldot* v, l = [I + H phi K] D^(1/2)", "MC sec. 6", _innovation_dynamics),
    checked("mu does no work", "nu* mu = 0", "derived (energy balance)", _mu_works_not),
    checked("free root: psi to the base", "proj_bar(root) = 0", "MM sec. VIII", _nothing_passes, _FREE_ROTORLESS),
    checked("free root: hinge force", "f(root) = H^-1(root) tau(root) = 0", "MM eq. 77", _no_root_force, _FREE_ROTORLESS),
    checked("free root: momentum", "d/dt of the total spatial momentum about the origin = 0", "independent", _momentum, _FREE_ROTORLESS),
    checked("free root: a_body(root)", "crm(V) V = 0", "derived", _no_root_bias, _FREE),
    checked("free root: a(root)", "alpha(root) = U vdot_body + [0; w x v]", "88-11 eq. b.6", _root_acceleration, _FREE),
    checked("quaternion rate", "qdot = 1/2 E(q) w, w outboard: R* Rdot = w~", "88-11 eq. b.3", _quaternion_rate),
    checked("quaternion rate, inboard", "1/2 (0, R w) (x) q = 1/2 E(q) w", "derived", _quaternion_inboard),
    checked("quaternion inverse", "2 E*(q) qdot / |q|^2 = w", "88-11 eq. b.3", _quaternion_inverse),
    checked("quaternion E*E", "E* E = |q|^2 I", "88-11 eq. b.3", _quaternion_gram),
    checked("quaternion E E*", "E E* = |q|^2 I - q q*", "derived", _quaternion_outer),
]
# fmt: on
