# pyright: basic
# ruff: noqa: E501  (tables: one row, one line)
"""The bias terms a, b in both forms, frames, gravity: checked against derivatives of the velocities.

Derivatives in time are derivatives along q̇ = N(q) v and v̇, by dual numbers: exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from phipsi.expressions.node import Expr
from phipsi.operators import V, a, b, c_J, gravity, mass_matrix, parse, phi
from phipsi.rewrite.identity import Array, Case, Claim, Identity, claim, gathered, stacked
from phipsi.rewrite.theorems_blocks import bodies, from_blocks
from phipsi.rewrite.theorems_symbols import checked
from phipsi.spatial import crm, skew
from phipsi.spatial import phi as rigid

_A = parse("phi* (H* vdot + a)")
_ALPHA = parse("phi* (H* vdot + a_paper)")


def rate(case: Case, expr: Expr, vdot: Array | None = None, **options) -> Array:
    """d/dt of an expression along q̇ = N(q) v, v̇ = vdot (zero if not given)."""
    along = case.model.qdot(case.q, case.v), 0 * case.v if vdot is None else vdot
    value = partial(_in_state, case, expr, options)
    return case.derivative(value, (case.q, case.v), along)


def _in_state(case: Case, expr: Expr, options: dict, q: Array, v: Array) -> Array:
    return case.dense(expr, q=q, v=v, **options)


def world(case: Case, expr: Expr) -> Array:
    """A vector on bodies in world axes, (n, 6)."""
    return case.dense(expr, axes="inertial").reshape(-1, 6)


def turns(case: Case) -> Array:
    """U(k) = diag(R_k, R_k), body to world axes, (n, 6, 6)."""
    poses = case.dense(parse("pose"))
    return gathered(case, [rigid(x[:3, :3], np.zeros(3)) for x in poses], 6, 6)


def _at_points(case: Case) -> tuple[Array, Array]:
    """ω of the body of each point, and the point's offset, in world axes."""
    poses, moving = case.dense(parse("pose")), world(case, V)
    bodies_, offsets = list(case.points.body), case.points.offset
    levers = [poses[k][:3, :3] @ c for k, c in zip(bodies_, offsets, strict=True)]
    return moving[bodies_, :3].reshape(-1, 3), gathered(case, levers, 3)


def _centripetal(case: Case) -> Array:
    """a_C = [0; ω × (ω × l)] for every point, flattened."""
    omega, offset = _at_points(case)
    out = case.zeros(len(omega), 6)
    out[:, 3:] = np.cross(omega, np.cross(omega, offset))
    return out.reshape(-1)


# ---- accelerations -----------------------------------------------------------------------------


def _bias_of_alpha(case: Case) -> Claim:
    moved = rate(case, V, axes="inertial")
    return claim(moved, case.dense(parse("phi* a_paper"), axes="inertial"))


def _jacobian_rate(case: Case) -> Claim:
    moved = rate(case, parse("J")) @ case.v
    return claim(moved, case.dense(parse("B* phi* a_paper")) + _centripetal(case))


def _point_accelerations(case: Case) -> Claim:
    expected = case.dense(parse("J vdot")) + rate(case, parse("J")) @ case.v
    return claim(case.dense(parse("B*") @ _ALPHA) + _centripetal(case), expected)


def _component_derivative(case: Case) -> Claim:
    alpha = rate(case, V, case.vdot, axes="inertial")
    return claim(alpha, case.dense(_A + parse("s_gauge"), axes="inertial"))


def _point_acceleration_body(case: Case) -> Claim:
    moving = case.dense(parse("J v")).reshape(-1, 6)
    extra = np.zeros_like(moving)
    extra[:, 3:] = np.cross(moving[:, :3], moving[:, 3:])
    classical = case.dense(parse("B*") @ _ALPHA) + _centripetal(case)
    return claim(classical, case.dense(parse("B*") @ _A) + extra.reshape(-1))


def _components_by_complex_step(case: Case) -> Claim:
    return claim(rate(case, V), case.dense(parse("phi* a")))


def _power_of_bias(case: Case) -> Claim:
    work = case.dense(parse("v* H phi (M phi* a + b)"))
    moved = rate(case, mass_matrix)
    return claim(work, case.v @ moved @ case.v / 2)


# ---- the joint table ---------------------------------------------------------------------------


def table_bias(case: Case, sliding: float = 2.0) -> tuple[Array, Array]:
    """(a by the table of joint types, a in general), both in world axes.

    Columns of the table (theory/open-chains 4.4): the angular part is ω_p × ω_J, plus u1 θ̇1 × u2 θ̇2 for a
    universal joint; the linear part is ω_p × (ω_p × l) plus `sliding` ω_p × v_J, plus ω_J × v_J where
    the rates of translation are body components (planar, free). Composite joints are left to the
    general formula.
    """
    model, moving, local = case.model, world(case, V), world(case, parse("H* v"))
    poses, varying = case.dense(parse("pose")), world(case, c_J)
    table, general = case.zeros(2, model.n_bodies, 6)
    for k, p in enumerate(model.parent):
        omega_J, v_J = local[k, :3], local[k, 3:]
        omega_p, v_p = (moving[p, :3], moving[p, 3:]) if p >= 0 else case.zeros(2, 3)
        offset = poses[k][:3, 3] - (poses[p][:3, 3] if p >= 0 else 0)
        omega_k, v_k = moving[k, :3], moving[k, 3:]
        general[k, :3] = np.cross(omega_k, omega_J)
        general[k, 3:] = np.cross(omega_k, v_J) + np.cross(omega_p, v_k - v_p)
        general[k] += varying[k]
        kind = model.joints[k].kind
        if kind.startswith("composite"):
            table[k] = general[k]
            continue
        table[k, :3] = np.cross(omega_p, omega_J)
        table[k, 3:] = np.cross(omega_p, np.cross(omega_p, offset))
        table[k, 3:] += sliding * np.cross(omega_p, v_J)
        if kind in ("planar", "free"):
            table[k, 3:] += np.cross(omega_J, v_J)
        if kind == "universal":
            axes = model.joints[k].params
            second = poses[k][:3, :3] @ case.array(axes[3:]) * case.v[model.v_slices[k]][1]
            table[k, :3] += np.cross(omega_J - second, second)
    return table, general


def _joint_table(case: Case) -> Claim:
    table, general = table_bias(case)
    exact = world(case, parse("a_paper"))
    return stacked([claim(table, exact), claim(general, exact)])


def _gyroscopic(case: Case) -> Claim:
    """b = Mdot V − phidot(p) M V = [ω × I_O ω; m ω × (ω × p)]."""
    moving, U, exact = world(case, V), turns(case), world(case, parse("b_paper"))
    derived, table = case.zeros(2, case.model.n_bodies, 6)
    for k, inertia in enumerate(case.model.inertias):
        omega, p = moving[k, :3], U[k][:3, :3] @ inertia.com_B
        M_k = U[k] @ case.model.inertia_matrices[k] @ U[k].T
        W = np.kron(np.eye(2), skew(omega))
        turning = case.zeros(6, 6)
        turning[:3, 3:] = skew(np.cross(omega, p))
        derived[k] = (W @ M_k - M_k @ W) @ moving[k] - turning @ M_k @ moving[k]
        table[k, :3] = np.cross(omega, M_k[:3, :3] @ omega)
        table[k, 3:] = inertia.mass * np.cross(omega, np.cross(omega, p))
    return stacked([claim(derived, table), claim(exact, table)])


# ---- frames ------------------------------------------------------------------------------------


def _body_phi(case: Case) -> Claim:
    w, U = bodies(case), turns(case)
    full = case.zeros(w.n, w.n, 6, 6)
    step = np.zeros_like(full)
    for k, p in enumerate(w.parent):
        full[k, k] = U[k]
        if p >= 0:
            step[p, k] = w.step[k]
    turn = from_blocks(full)
    in_world = np.linalg.inv(case.eye(6 * w.n) - from_blocks(step))
    return claim(case.dense(phi), turn.T @ in_world @ turn)


def _body_bias(case: Case) -> Claim:
    in_world = case.dense(parse("H phi (M phi* a_paper + b_paper)"), axes="inertial")
    return claim(case.dense(parse("H phi (M phi* a + b)")), in_world)


def _body_components(case: Case) -> Claim:
    """crm(V) H* v + c_J and crf(V) M V, formed in body and in world components."""
    U, moving, local = turns(case), world(case, V), world(case, parse("H* v"))
    varying, n = world(case, c_J), case.model.n_bodies
    momenta = world(case, parse("M V"))
    in_world = [(crm(moving[k]) @ local[k] + varying[k]) @ U[k] for k in range(n)]
    forces = [-crm(moving[k]).T @ momenta[k] @ U[k] for k in range(n)]
    return stacked(
        [
            claim(case.dense(a), gathered(case, in_world, 6).reshape(-1)),
            claim(case.dense(b), gathered(case, forces, 6).reshape(-1)),
        ]
    )


# ---- gravity -----------------------------------------------------------------------------------


def _gravity_column(case: Case) -> Claim:
    lifted = np.concatenate([case.zeros(3), -case.model.gravity])
    return claim(world(case, parse("phi* gravity")), np.tile(lifted, (case.model.n_bodies, 1)))


def gradient(case: Case, value: Callable[[Array], Array]) -> Array:
    """∂/∂(rate i) of a function of q, along N(q) e_i; last axis i."""
    return gradient_at(case, value, case.q)


def along(case: Case, value: Callable[[Array], Array], rates: Array) -> Array:
    """The derivative of a function of q along N(q) rates: what all rates do, in one direction."""
    return case.derivative(value, (case.q,), (case.model.qdot(case.q, rates),))


def gradient_at(case: Case, value: Callable[[Array], Array], q: Array) -> Array:
    """The same at another q."""
    ways = [case.model.qdot(q, unit) for unit in case.eye(case.model.nv)]
    columns = [case.derivative(value, (q,), (way,)) for way in ways]
    if not columns:
        return case.zeros(*case.derivative(value, (q,), (0 * q,)).shape, 0)
    return np.stack(columns, axis=-1)


def centres(case: Case, q: Array) -> Array:
    """World positions of the mass centres, (n, 3)."""
    poses = case.dense(parse("pose"), q=q)
    offsets = gathered(case, [i.com_B for i in case.model.inertias], 3)
    return poses[:, :3, 3] + np.einsum("kij,kj->ki", poses[:, :3, :3], offsets)


def _gravity_torque(case: Case) -> Claim:
    masses = gathered(case, [i.mass for i in case.model.inertias])

    def energy(q: Array) -> Array:
        return -masses @ (centres(case, q) @ case.model.gravity)

    efforts, way = case.dense(parse("H phi M phi*") @ gravity), case.random(case.model.nv)
    return claim(way @ efforts, along(case, energy, way))


def _gravity_force(case: Case) -> Claim:
    pulled = world(case, parse("M phi*") @ gravity)
    weight = np.concatenate([case.zeros(3), case.model.gravity])
    U = turns(case)
    M_world = U @ case.model.inertia_matrices @ U.swapaxes(-1, -2)
    return claim(pulled, -(M_world @ weight))


# fmt: off
BIAS: list[Identity] = [
    checked("a is the bias of alpha", "d/dt(phi* H*) v = phi* a, a = phidot* V(parent) + Hdot* v", "SOA eq. 0.2", _bias_of_alpha, rigid=True),
    checked("Jdot v", "d/dt(J) v = B* phi* a + a_C", "MM sec. V.A; 88-11 sec. 3", _jacobian_rate, rigid=True),
    checked("point accelerations", "B* alpha + a_C = J vdot + Jdot v", "MM eq. 57", _point_accelerations, rigid=True),
    checked("joint table a(k)", "a(k) per joint type = general a(k)", "88-11 eq. 2.19, 2.32 corrected; derived", _joint_table, rigid=True),
    checked("b(k)", "Mdot V - phidot(p) M V = [w x I w; m w x (w x p)]", "SOA after eq. 0.2; 88-11 eq. 2.23 (lost)", _gyroscopic, rigid=True),
    checked("power of C", "v* C = 1/2 v* (d/dt mass_matrix) v", "energy balance", _power_of_bias, rigid=True),
    checked("body-frame phi", "(I - E_body)^-1 = U* phi U, E_body(p,k) = [[R, l~ R], [0, R]]", "theory/open-chains 2", _body_phi, rigid=True),
    checked("body-frame C", "Hb phib (Mb phib* a + b) = C", "theory/open-chains 4.3", _body_bias, rigid=True),
    checked("body components of a_body", "a, b computed in body components = U* (a, b)", "theory/open-chains 4.3", _body_components, rigid=True),
    checked("component derivative", "alpha = U A + s, A = d/dt of body components", "theory/open-chains 4.3", _component_derivative, rigid=True),
    checked("point acceleration, body form", "B* alpha + a_C = B* A + [0; w x v_C]", "theory/open-chains 4.3", _point_acceleration_body, rigid=True),
    checked("A by complex step", "d/dt(U* phi* H*) v = phib* a", "theory/open-chains 4.3", _components_by_complex_step, rigid=True),
    checked("gravity column", "phi* E* gbar = gbar on every body", "88-11 eq. 3.21", _gravity_column, rigid=True),
    checked("gravity torque", "H phi M phi* E* gbar = gradient of the potential energy", "88-11 eq. 3.21", _gravity_torque, rigid=True),
    checked("gravity as body force", "M phi* E* gbar = -(M(k) [0; g])_k", "theory/open-chains 4.5", _gravity_force, rigid=True),
]
# fmt: on
