# ruff: noqa: E501  (tables: one row, one line)
"""Independent physics: Lagrange, Newton–Euler at the mass centres, energy, momentum, quaternions.

Nothing here uses the operators on the right-hand sides beyond the poses and, for accelerations, the
velocities, which are themselves checked against the poses. theory/open-chains 12 and 13.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from phipsi.core.expressions import Expr
from phipsi.core.model import rotation_of_quaternion
from phipsi.core.operators import V, mass_matrix, parse, pose
from phipsi.core.rewrite import Claim, Identity
from phipsi.core.spatial import quat_multiply, skew
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.theorems.paper_symbols import checked, word
from phipsi.papers.theorems.theorem_values import (
    BIAS,
    GRAVITY_EFFORTS,
    Array,
    along,
    centres,
    lever,
    masses,
    rate,
    stacked,
    turns,
    vanishing,
    world,
)

_BODIES, _PAPERS_BIAS = parse("H phi M phi* H*"), parse("H phi (M phi* a_paper + b_paper)")
_FORWARD = word("mass_matrix^-1 (tau - H phi zeta)")


def _vee(W: Array) -> Array:
    """The vector of antisymmetric matrices (..., 3, 3)."""
    return np.stack([W[..., 2, 1], W[..., 0, 2], W[..., 1, 0]], axis=-1)


def _velocities_of(case: ProofState, rates: Array) -> tuple[Array, Array]:
    """Velocities of the mass centres and ω for any rates, (n, 3), from the poses alone."""

    def where(q: Array) -> Array:
        turned = case.dense(pose, q=q)[:, :3, :3]
        return np.concatenate([turned, centres(case, q)[:, :, None]], axis=-1)

    moved = along(case, where, rates)
    R = case.dense(pose)[:, :3, :3]
    return moved[:, :, 3], _vee(moved[:, :, :3] @ R.swapaxes(-1, -2))


def _inertia_about_com(case: ProofState) -> Array:
    R, out = case.dense(pose)[:, :3, :3], case.zeros(case.model.n_bodies, 3, 3)
    for k, inertia in enumerate(case.model.inertias):
        p = skew(inertia.com_B)
        about = case.model.inertia_matrices[k][:3, :3] + inertia.mass * p @ p
        out[k] = R[k] @ about @ R[k].T
    return out


def _velocity(case: ProofState) -> Claim:
    """V against the derivative of the poses."""
    moved = rate(case, pose)
    R = case.dense(pose)[:, :3, :3]
    omega = _vee(R.swapaxes(-1, -2) @ moved[:, :3, :3])
    linear = np.einsum("kji,kj->ki", R, moved[:, :3, 3])
    return Claim(case.dense(V).reshape(-1, 6), np.concatenate([omega, linear], axis=-1))


def _energy_between(case: ProofState, x: Array, y: Array) -> Array:
    """Σ m ċ(x)·ċ(y) + ω(x)·I ω(y) over the bodies and the rotors: y* ℳ x."""
    (linear_x, angular_x), (linear_y, angular_y) = (_velocities_of(case, r) for r in (x, y))
    total = (masses(case)[:, None] * linear_x * linear_y).sum()
    total = total + np.einsum("ki,kij,kj->", angular_y, _inertia_about_com(case), angular_x)
    return total + (case.model.armature * x * y).sum()


def _kinetic_energy(case: ProofState) -> Claim:
    energy = _energy_between(case, case.v, case.v) / 2
    return Claim(case.dense(parse("1/2 v* mass_matrix v")), energy)


def _mass_matrix(case: ProofState) -> Claim:
    x, y = case.random(2, case.model.nv)
    return Claim(y @ case.dense(mass_matrix) @ x, _energy_between(case, x, y))


def _jacobian(case: ProofState) -> Claim:
    model, x = case.model, case.random(case.model.nv)
    linear, angular = _velocities_of(case, x)
    points = [(model.body_names[k], i.com_B) for k, i in enumerate(model.inertias)]
    dense = case.dense(parse("B* phi* H*"), points=points, f0=case.zeros(len(points), 6)) @ x
    return Claim(dense.reshape(-1, 6), np.concatenate([angular, linear], axis=-1))


# ---- equations of motion -----------------------------------------------------------------------


def _lagrange(case: ProofState, way: Array) -> Array:
    """way* N* (d/dt ∂T/∂q̇ − ∂T/∂q) at v̇ = 0, with T = ½ q̇* A(q) q̇, A = N⁺* H φ M φ* H* N⁺.

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

    qdot, moved = model.qdot(q, v), model.qdot(q, way)
    qddot = case.derivative(lambda at: model.qdot(at, v), (q,), (qdot,))
    force = metric(q) @ qddot + case.derivative(metric, (q,), (qdot,)) @ qdot
    slope = case.derivative(lambda at: qdot @ metric(at) @ qdot, (q,), (moved,))
    return moved @ force - slope / 2


def _check_lagrange(bias: Expr) -> Callable[[ProofState], Claim]:
    def check(case: ProofState) -> Claim:
        way, found = _once(case, "Lagrange", _lagrange)
        return Claim(way @ case.dense(bias), found)

    return check


def _once(
    case: ProofState, key: str, value: Callable[[ProofState, Array], Array]
) -> tuple[Array, Array]:
    """A random direction and a value that two checks ask for there."""
    if key not in case.memo:
        way = case.random(case.model.nv)
        case.memo[key] = way, value(case, way)
    return case.memo[key]


def _virtual_power(case: ProofState, way: Array, vdot: Array) -> Array:
    """way* tau from Newton and Euler at each mass centre, times virtual velocities; no f0."""
    linear, angular = _velocities_of(case, way)
    inertia = _inertia_about_com(case)

    def velocities(q: Array, v: Array) -> Array:
        """[ω; velocity of the mass centre]."""
        moving = case.dense(V, axes="inertial", q=q, v=v).reshape(-1, 6)
        at = case.dense(pose, q=q)[:, :3, 3]
        centre = moving[:, 3:] + np.cross(moving[:, :3], centres(case, q) - at)
        return np.concatenate([moving[:, :3], centre], axis=-1)

    direction = case.model.qdot(case.q, case.v), vdot
    moved = case.derivative(velocities, (case.q, case.v), direction)
    omega_dot, acceleration = moved[:, :3], moved[:, 3:]
    omega = world(case, V)[:, :3]
    spin = np.einsum("kij,kj->ki", inertia, omega)
    moment = np.einsum("kij,kj->ki", inertia, omega_dot) + np.cross(omega, spin)
    force = masses(case)[:, None] * (acceleration - case.model.gravity)
    return (linear * force).sum() + (angular * moment).sum() + way @ (case.model.armature * vdot)


def _inverse_dynamics(bias: Expr) -> Callable[[ProofState], Claim]:
    expr = parse("mass_matrix vdot") + bias + GRAVITY_EFFORTS

    def check(case: ProofState) -> Claim:
        way, found = _once(case, "virtual power", lambda c, w: _virtual_power(c, w, c.vdot))
        return Claim(way @ case.dense(expr), found)

    return check


def _forward_dynamics(case: ProofState) -> Claim:
    """The accelerations of compiled forward dynamics need the given efforts, by virtual power."""
    tau, way = case.random(2, case.model.nv)
    vdot = case.swept(_FORWARD, tau=tau)[:, 0]
    applied = tau - case.dense(parse("J* f0"))
    return Claim(way @ applied, _virtual_power(case, way, vdot))


def _coordinate_rates(case: ProofState) -> Claim:
    """The pose of every joint along N(q) v moves as H* v says: R* Ṙ = ω~, R* ṗ = v."""
    model, claims = case.model, []
    rates = model.qdot(case.q, case.v)

    def pose_of(joint: Any, q: Any) -> Array:
        rotation, offset = joint.transform(joint.params, q.scalars(), q.ops)
        rows = [[*row, x] for row, x in zip(rotation, offset, strict=True)]
        return q.of(np.array(rows, q.dtype))

    motions = case.dense(parse("H* v")).reshape(-1, 6)
    for k, joint in enumerate(model.joints):
        s = model.q_slices[k]
        if not joint.nv:
            continue
        R = pose_of(joint, case.q[s])[:, :3]
        moved = R.T @ case.derivative(partial(pose_of, joint), (case.q[s],), (rates[s],))
        claims += [Claim(moved[:, :3], skew(motions[k, :3])), Claim(moved[:, 3], motions[k, 3:])]
    return stacked(*claims)


# ---- innovations -------------------------------------------------------------------------------


def _innovations(case: ProofState) -> tuple[Array, Array, Array, Array]:
    """(nu, nudot, mu, eps) of MC sec. 6, in the motion vdot of the case, no gravity, no f0."""
    factor = parse("(I + H phi K) D_half")
    root, root_dot = case.dense(factor), rate(case, factor)
    nu = root.T @ case.v
    mu = np.linalg.solve(root, case.dense(BIAS)) - root_dot.T @ case.v
    nu_dot = root_dot.T @ case.v + root.T @ case.vdot
    eps = np.linalg.solve(root, case.dense(parse("mass_matrix vdot") + BIAS))
    return nu, nu_dot, mu, eps


def _innovation_dynamics(case: ProofState) -> Claim:
    _, nu_dot, mu, eps = _innovations(case)
    return Claim(nu_dot + mu, eps)


def _mu_does_no_work(case: ProofState) -> Claim:
    nu, _, mu, _ = _innovations(case)
    return vanishing(nu @ mu)


# ---- free roots --------------------------------------------------------------------------------


def _free_roots(case: ProofState) -> list[int]:
    model = case.model
    return [k for k in model.tree.roots if model.joints[k].kind == "free"]


def _root_blocks(matrix: Array, roots: list[int]) -> Array:
    return np.stack([matrix[6 * k : 6 * k + 6] for k in roots])


def _drifting(case: ProofState) -> tuple[Array, Array]:
    """(tau, vdot) without gravity and point forces, and without effort at the free roots."""
    tau = case.random(case.model.nv)
    for k in _free_roots(case):
        tau[case.model.v_slices[k]] = 0
    return tau, np.linalg.solve(case.dense(mass_matrix), tau - case.dense(BIAS))


def _free_root_projector_vanishes(case: ProofState) -> Claim:
    bar, roots = case.dense(parse("proj_bar")), _free_roots(case)
    return vanishing(np.stack([bar[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] for k in roots]))


def _no_root_force(case: ProofState) -> Claim:
    _, vdot = _drifting(case)
    f = parse("phi (M phi* (H* vdot + a) + b)")
    return vanishing(_root_blocks(case.dense(f, vdot=vdot), _free_roots(case)))


def _momentum(case: ProofState) -> Claim:
    _, vdot = _drifting(case)
    tree = case.model.tree

    def totals(q: Array, v: Array) -> Array:
        momenta = case.dense(parse("M V"), q=q, v=v, axes="inertial").reshape(-1, 6)
        at = case.dense(pose, q=q)[:, :3, 3]
        carried = [lever(x) @ momentum for x, momentum in zip(at, momenta, strict=True)]
        subtrees = (np.stack([carried[k] for k in tree.subtree(r)]) for r in _free_roots(case))
        return np.stack([x.sum(axis=0) for x in subtrees])

    direction = case.model.qdot(case.q, case.v), vdot
    return vanishing(case.derivative(totals, (case.q, case.v), direction))


def _no_root_bias(case: ProofState) -> Claim:
    return vanishing(_root_blocks(case.dense(parse("a")), _free_roots(case)))


def _root_acceleration(case: ProofState) -> Claim:
    alpha = rate(case, V, case.vdot, axes="inertial").reshape(-1, 6)
    U, moving = turns(case), world(case, V)
    claims = []
    for k in _free_roots(case):
        s = np.concatenate([case.zeros(3), np.cross(moving[k, :3], moving[k, 3:])])
        claims.append(Claim(alpha[k], U[k] @ case.vdot[case.model.v_slices[k]] + s))
    return stacked(*claims)


# ---- quaternions -------------------------------------------------------------------------------


def _quaternion(case: ProofState) -> tuple[Array, Array, Array]:
    """A quaternion of any length, ω in the outboard frame, and E(q)."""
    q, omega = case.random(4), case.random(3)
    w, x, y, z = q
    rows = [[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]]
    return q, omega, np.stack([np.stack(row) for row in rows])


def _rotation(q: Any) -> Array:
    """R(q) by the formula of the joints."""
    return q.of(np.array(rotation_of_quaternion(q.scalars()), q.dtype))


def _quaternion_claim(name: str, case: ProofState) -> Claim:
    q, omega, E = _quaternion(case)
    inboard, square = np.concatenate([case.zeros(1), _rotation(q) @ omega]), q @ q
    if name == "rate":
        moved = case.derivative(_rotation, (q,), (E @ omega / 2,))
        return Claim(_rotation(q).T @ moved, skew(omega))
    return {
        "inboard": Claim(0.5 * quat_multiply(inboard, q), 0.5 * E @ omega),
        "inverse": Claim(2 * E.T @ (0.5 * E @ omega) / square, omega),
        "E*E": Claim(E.T @ E, square * np.eye(3)),
        "EE*": Claim(E @ E.T, square * np.eye(4) - np.outer(q, q)),
    }[name]


_FREE, _FREE_ROTORLESS = "free root", "Jr = 0, free root"

# fmt: off
PHYSICS: list[Identity] = [
    checked("physics: velocities", "phi* H* v = derivative of the poses", "independent", _velocity, rigid=True),
    checked("physics: mass matrix", "mass_matrix = sum of partial velocities, weighted with the inertias", "independent", _mass_matrix, rigid=True),
    checked("physics: kinetic energy", "1/2 v* mass_matrix v = sum 1/2 m c'^2 + 1/2 w I w", "independent", _kinetic_energy, rigid=True),
    checked("physics: Jacobian", "B* phi* H*, points = all mass centres = partial velocities", "independent", _jacobian, rigid=True),
    checked("physics: qdot = N(q) v", "dR/dt = R w~ and dp/dt = R v along N(q) v, [w; v] = H* v, at every joint", "independent", _coordinate_rates, rigid=True),
    checked("physics: Lagrange", "H phi (M phi* a + b) = N* (d/dt dT/dqdot - dT/dq), papers' pair", "independent", _check_lagrange(_PAPERS_BIAS)),
    checked("physics: Lagrange, body form", "H phi (M phi* a + b) = the same, body-frame pair", "independent", _check_lagrange(BIAS)),
    checked("physics: inverse dynamics", "mass_matrix vdot + C + gravity = Newton-Euler at mass centres + virtual power", "independent",
            _inverse_dynamics(_PAPERS_BIAS), rigid=True),
    checked("physics: body-frame bias", "the same with the body-frame pair", "independent", _inverse_dynamics(BIAS), rigid=True),
    checked("physics: forward dynamics", "tau of virtual power, with vdot of the compiled sweeps, = tau", "independent", _forward_dynamics),
    checked("innovations dynamics", "d/dt(nu) + mu = eps, mu = l^-1 C - ldot* v, l = [I + H phi K] D^(1/2)", "MC sec. 6", _innovation_dynamics),
    checked("mu does no work", "nu* mu = 0", "derived (energy balance)", _mu_does_no_work),
    checked("free root: psi to the base", "proj_bar(root) = 0", "MM sec. VIII", _free_root_projector_vanishes, _FREE_ROTORLESS),
    checked("free root: hinge force", "f(root) = H^-1(root) tau(root) = 0", "MM eq. 77", _no_root_force, _FREE_ROTORLESS),
    checked("free root: momentum", "d/dt of the total spatial momentum about the origin = 0", "independent", _momentum, _FREE_ROTORLESS),
    checked("free root: a_body(root)", "crm(V) V = 0", "derived", _no_root_bias, _FREE, rigid=True),
    checked("free root: a(root)", "alpha(root) = U vdot_body + [0; w x v]", "88-11 eq. b.6", _root_acceleration, _FREE, rigid=True),
    checked("quaternion rate", "qdot = 1/2 E(q) w, w outboard: R* Rdot = w~", "88-11 eq. b.3", partial(_quaternion_claim, "rate"), rigid=True),
    checked("quaternion rate, inboard", "1/2 (0, R w) (x) q = 1/2 E(q) w", "derived", partial(_quaternion_claim, "inboard"), rigid=True),
    checked("quaternion inverse", "2 E*(q) qdot / |q|^2 = w", "88-11 eq. b.3", partial(_quaternion_claim, "inverse"), rigid=True),
    checked("quaternion E*E", "E* E = |q|^2 I", "88-11 eq. b.3", partial(_quaternion_claim, "E*E"), rigid=True),
    checked("quaternion E E*", "E E* = |q|^2 I - q q*", "derived", partial(_quaternion_claim, "EE*"), rigid=True),
]
# fmt: on
