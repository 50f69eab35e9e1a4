# ruff: noqa: E501  (tables: one row, one line)
"""The bias terms a, b in both forms, frames, gravity: against derivatives of the velocities.

theory/open-chains 4.

Derivatives in time are derivatives along q̇ = N(q) v and v̇, by dual numbers: exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phipsi.operators import V, a, b, c_J, gravity, mass_matrix, parse, phi
from phipsi.proofs.proof_state import State
from phipsi.rewrite.identity import Claim, Identity
from phipsi.spatial import crm, skew
from phipsi.theorems.paper_symbols import checked
from phipsi.theorems.paper_symbols import theorem as t
from phipsi.theorems.values import (
    BIAS,
    GRAVITY_EFFORTS,
    Array,
    along,
    centres,
    from_blocks,
    from_diagonal,
    gathered,
    levers,
    masses,
    propagation,
    rate,
    stacked,
    turns,
    world,
)

_A = parse("phi* (H* vdot + a)")
_ALPHA = parse("phi* (H* vdot + a_paper)")


def _at_points(case: State) -> tuple[Array, Array]:
    """ω of the body of each point, and the point's offset, in world axes."""
    poses, moving = case.dense(parse("pose")), world(case, V)
    hosts, offsets = list(case.points.body), case.points.offset
    arms = [poses[k][:3, :3] @ c for k, c in zip(hosts, offsets, strict=True)]
    return moving[hosts, :3].reshape(-1, 3), gathered(case, arms, 3)


def _centripetal(case: State) -> Array:
    """a_C = [0; ω × (ω × l)] for every point, flattened."""
    omega, offset = _at_points(case)
    out = case.zeros(len(omega), 6)
    out[:, 3:] = np.cross(omega, np.cross(omega, offset))
    return out.reshape(-1)


# ---- accelerations -----------------------------------------------------------------------------


def _bias_of_alpha(case: State) -> Claim:
    moved = rate(case, V, axes="inertial")
    return Claim(moved, case.dense(parse("phi* a_paper"), axes="inertial"))


def _jacobian_rate(case: State) -> Claim:
    moved = rate(case, parse("J")) @ case.v
    return Claim(moved, case.dense(parse("B* phi* a_paper")) + _centripetal(case))


def _point_accelerations(case: State) -> Claim:
    expected = case.dense(parse("J vdot")) + rate(case, parse("J")) @ case.v
    return Claim(case.dense(parse("B*") @ _ALPHA) + _centripetal(case), expected)


def _component_derivative(case: State) -> Claim:
    alpha = rate(case, V, case.vdot, axes="inertial")
    return Claim(alpha, case.dense(_A + parse("s_gauge"), axes="inertial"))


def _point_acceleration_body(case: State) -> Claim:
    moving = case.dense(parse("J v")).reshape(-1, 6)
    extra = np.zeros_like(moving)
    extra[:, 3:] = np.cross(moving[:, :3], moving[:, 3:])
    classical = case.dense(parse("B*") @ _ALPHA) + _centripetal(case)
    return Claim(classical, case.dense(parse("B*") @ _A) + extra.reshape(-1))


def _components_by_complex_step(case: State) -> Claim:
    return Claim(rate(case, V), case.dense(parse("phi* a")))


def _power_of_bias(case: State) -> Claim:
    return Claim(case.v @ case.dense(BIAS), case.v @ rate(case, mass_matrix) @ case.v / 2)


# ---- the joint table ---------------------------------------------------------------------------


def table_bias(case: State, sliding: float = 2.0) -> tuple[Array, Array]:
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


def _joint_table(case: State) -> Claim:
    table, general = table_bias(case)
    exact = world(case, parse("a_paper"))
    return stacked(Claim(table, exact), Claim(general, exact))


def _gyroscopic(case: State) -> Claim:
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
    return stacked(Claim(derived, table), Claim(exact, table))


# ---- frames ------------------------------------------------------------------------------------


def _body_phi(case: State) -> Claim:
    turn, in_world = from_diagonal(turns(case)), from_blocks(propagation(case, levers(case)))
    return Claim(case.dense(phi), turn.T @ in_world @ turn)


def _body_components(case: State) -> Claim:
    """crm(V) H* v + c_J and crf(V) M V, formed in body and in world components."""
    U, moving, local = turns(case), world(case, V), world(case, parse("H* v"))
    varying, n = world(case, c_J), case.model.n_bodies
    momenta = world(case, parse("M V"))
    in_world = [(crm(moving[k]) @ local[k] + varying[k]) @ U[k] for k in range(n)]
    forces = [-crm(moving[k]).T @ momenta[k] @ U[k] for k in range(n)]
    return stacked(
        Claim(case.dense(a), gathered(case, in_world, 6).reshape(-1)),
        Claim(case.dense(b), gathered(case, forces, 6).reshape(-1)),
    )


# ---- gravity -----------------------------------------------------------------------------------


def _gravity_column(case: State) -> Claim:
    lifted = np.concatenate([case.zeros(3), -case.model.gravity])
    return Claim(world(case, parse("phi* gravity")), np.tile(lifted, (case.model.n_bodies, 1)))


def _gravity_torque(case: State) -> Claim:
    way = case.random(case.model.nv)
    return Claim(way @ case.dense(GRAVITY_EFFORTS), along(case, potential_energy(case), way))


def potential_energy(case: State) -> Callable[[Array], Array]:
    """The potential energy of gravity as a function of q."""
    return lambda q: -masses(case) @ (centres(case, q) @ case.model.gravity)


def _gravity_force(case: State) -> Claim:
    pulled = world(case, parse("M phi*") @ gravity)
    weight = np.concatenate([case.zeros(3), case.model.gravity])
    U = turns(case)
    M_world = U @ case.model.inertia_matrices @ U.swapaxes(-1, -2)
    return Claim(pulled, -(M_world @ weight))


_HERE = "theory/open-chains 4.3"

# fmt: off
BIAS_TERMS: list[Identity] = [
    t("a gauge",         "a_paper",  "a + (I - E_phi*) s_gauge",                     _HERE),
    t("b gauge",         "b_paper",  "b - M s_gauge",                                _HERE),
    t("C in both forms", "H phi (M phi* a_paper + b_paper)", "H phi (M phi* a + b)", _HERE),
    t("gauge freedom",   "M phi* a + b", "M phi* (a + (I - E_phi*) x) + b - M x",    _HERE, note="for any x"),
    checked("a is the bias of alpha", "d/dt(phi* H*) v = phi* a, a = phidot* V(parent) + Hdot* v", "SOA eq. 0.2", _bias_of_alpha, rigid=True),
    checked("Jdot v", "d/dt(J) v = B* phi* a + a_C", "MM sec. V.A; 88-11 sec. 3", _jacobian_rate, rigid=True),
    checked("point accelerations", "B* alpha + a_C = J vdot + Jdot v", "MM eq. 57", _point_accelerations, rigid=True),
    checked("joint table a(k)", "a(k) per joint type = general a(k)", "88-11 eq. 2.19, 2.32 corrected; derived", _joint_table, rigid=True),
    checked("b(k)", "Mdot V - phidot(p) M V = [w x I w; m w x (w x p)]", "SOA after eq. 0.2; 88-11 eq. 2.23 (lost)", _gyroscopic, rigid=True),
    checked("power of C", "v* C = 1/2 v* (d/dt mass_matrix) v", "energy balance", _power_of_bias, rigid=True),
    checked("body-frame phi", "(I - E_body)^-1 = U* phi U, E_body(p,k) = [[R, l~ R], [0, R]]", "theory/open-chains 2", _body_phi, rigid=True),
    checked("body components of a_body", "a, b computed in body components = U* (a, b)", _HERE, _body_components, rigid=True),
    checked("component derivative", "alpha = U A + s, A = d/dt of body components", _HERE, _component_derivative, rigid=True),
    checked("point acceleration, body form", "B* alpha + a_C = B* A + [0; w x v_C]", _HERE, _point_acceleration_body, rigid=True),
    checked("A by complex step", "d/dt(U* phi* H*) v = phib* a", _HERE, _components_by_complex_step, rigid=True),
    checked("gravity column", "phi* E* gbar = gbar on every body", "88-11 eq. 3.21", _gravity_column, rigid=True),
    checked("gravity torque", "H phi M phi* E* gbar = gradient of the potential energy", "88-11 eq. 3.21", _gravity_torque, rigid=True),
    checked("gravity as body force", "M phi* E* gbar = -(M(k) [0; g])_k", "theory/open-chains 4.5", _gravity_force, rigid=True),
]
# fmt: on
