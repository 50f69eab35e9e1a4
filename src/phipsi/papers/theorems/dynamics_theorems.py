# ruff: noqa: E501  (tables: one row, one line)
"""Equations of motion: bias terms, forward dynamics, the papers' recursions, and contacts.

**Bias terms** a, b in both forms, frames and gravity are compared with derivatives of the velocities
(theory/open-chains 4). Derivatives in time are derivatives along q̇ = N(q) v and v̇, by dual numbers:
exact.

**Dynamics** (theory/open-chains 5 to 8, 10, 11 and 13): a recursion is the compiled form of an
expression: its sweeps run on exact numbers, and the result is compared with dense matrices. It is
compiled as it is written, and rewritten.

The state of a proof satisfies the equations of motion (gravity, point forces f0 and rotors included),
so that ``vdot`` may stand on one side. Abbreviations: abar = a + gravity, alpha = φ*(H* vdot + abar),
zeta = M φ* abar + b + B f0, f = φ (M alpha + b + B f0), C = H φ (M φ* a + b), T1 = tau − H φ zeta.

**Contacts** that leave an object free to turn: the equations of 88-11 Part II, Appendix B, as checks.
Arms with the points O_i touch an object with the motion α(C). A contact lets it turn about axes h:
H(0) = [h* 0] has no forces, H(0) f(0) = 0, and the accelerations on its two sides differ by
H(0)* Ẇ(0) and the bias of it. H(0) maps to spaces that the library does not have, so that these are
equations between matrices. One arm is the mechanism, with its first point. The other arm, the object,
its bias and the axes are random.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phipsi.core.operators import H, M, P, R, V, a, b, c_J, gravity, mass_matrix, parse, phi
from phipsi.core.rewrite import Claim, Identity
from phipsi.core.spatial import crm, skew
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.theorems.paper_symbols import NO_ROTORS, checked, sweep, theorem as t, word
from phipsi.papers.theorems.theorem_values import (
    BIAS,
    GRAVITY_EFFORTS,
    Array,
    along,
    centres,
    diagonal,
    from_blocks,
    from_diagonal,
    gathered,
    inertial,
    lever,
    levers,
    masses,
    positions,
    propagation,
    rate,
    stacked,
    to_parents,
    turns,
    vanishing,
    world,
)

_A = parse("phi* (H* vdot + a)")
_ALPHA = parse("phi* (H* vdot + a_paper)")


def _at_points(case: ProofState) -> tuple[Array, Array]:
    """ω of the body of each point, and the point's offset, in world axes."""
    poses, moving = case.dense(parse("pose")), world(case, V)
    hosts, offsets = list(case.points.body), case.points.offset
    arms = [poses[k][:3, :3] @ c for k, c in zip(hosts, offsets, strict=True)]
    return moving[hosts, :3].reshape(-1, 3), gathered(case, arms, 3)


def _centripetal(case: ProofState) -> Array:
    """a_C = [0; ω × (ω × l)] for every point, flattened."""
    omega, offset = _at_points(case)
    out = case.zeros(len(omega), 6)
    out[:, 3:] = np.cross(omega, np.cross(omega, offset))
    return out.reshape(-1)


# ---- accelerations -----------------------------------------------------------------------------


def _bias_of_alpha(case: ProofState) -> Claim:
    moved = rate(case, V, axes="inertial")
    return Claim(moved, case.dense(parse("phi* a_paper"), axes="inertial"))


def _jacobian_rate(case: ProofState) -> Claim:
    moved = rate(case, parse("J")) @ case.v
    return Claim(moved, case.dense(parse("B* phi* a_paper")) + _centripetal(case))


def _point_accelerations(case: ProofState) -> Claim:
    expected = case.dense(parse("J vdot")) + rate(case, parse("J")) @ case.v
    return Claim(case.dense(parse("B*") @ _ALPHA) + _centripetal(case), expected)


def _component_derivative(case: ProofState) -> Claim:
    alpha = rate(case, V, case.vdot, axes="inertial")
    return Claim(alpha, case.dense(_A + parse("s_gauge"), axes="inertial"))


def _point_acceleration_body(case: ProofState) -> Claim:
    moving = case.dense(parse("J v")).reshape(-1, 6)
    extra = np.zeros_like(moving)
    extra[:, 3:] = np.cross(moving[:, :3], moving[:, 3:])
    classical = case.dense(parse("B*") @ _ALPHA) + _centripetal(case)
    return Claim(classical, case.dense(parse("B*") @ _A) + extra.reshape(-1))


def _components_by_complex_step(case: ProofState) -> Claim:
    return Claim(rate(case, V), case.dense(parse("phi* a")))


def _power_of_bias(case: ProofState) -> Claim:
    return Claim(case.v @ case.dense(BIAS), case.v @ rate(case, mass_matrix) @ case.v / 2)


# ---- the joint table ---------------------------------------------------------------------------


def table_bias(case: ProofState, sliding: float = 2.0) -> tuple[Array, Array]:
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


def _joint_table(case: ProofState) -> Claim:
    table, general = table_bias(case)
    exact = world(case, parse("a_paper"))
    return stacked(Claim(table, exact), Claim(general, exact))


def _gyroscopic(case: ProofState) -> Claim:
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


def _body_phi(case: ProofState) -> Claim:
    turn, in_world = from_diagonal(turns(case)), from_blocks(propagation(case, levers(case)))
    return Claim(case.dense(phi), turn.T @ in_world @ turn)


def _body_components(case: ProofState) -> Claim:
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


def _gravity_column(case: ProofState) -> Claim:
    lifted = np.concatenate([case.zeros(3), -case.model.gravity])
    return Claim(world(case, parse("phi* gravity")), np.tile(lifted, (case.model.n_bodies, 1)))


def _gravity_torque(case: ProofState) -> Claim:
    way = case.random(case.model.nv)
    return Claim(way @ case.dense(GRAVITY_EFFORTS), along(case, potential_energy(case), way))


def potential_energy(case: ProofState) -> Callable[[Array], Array]:
    """The potential energy of gravity as a function of q."""
    return lambda q: -masses(case) @ (centres(case, q) @ case.model.gravity)


def _gravity_force(case: ProofState) -> Claim:
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


# ---- dynamics ------------------------------------------------------------------------------------


def _composite_sum(case: ProofState) -> Claim:
    at, n = positions(case), case.model.n_bodies
    inertias, total = diagonal(inertial(case, M), n), case.zeros(n, 6, 6)
    for k in range(n):
        for i in case.model.tree.subtree(k):
            total[k] += lever(at[i] - at[k]) @ inertias[i] @ lever(at[i] - at[k]).T
    return Claim(diagonal(inertial(case, R), n), total)


def _in_world_axes(case: ProofState) -> Claim:
    """H φ M φ* H* + Jr with φ from the positions alone, applied to any x."""
    x, eye = case.random(case.model.nv), case.eye(6 * case.model.n_bodies)
    across = inertial(case, H) @ np.linalg.inv(eye - to_parents(case, levers(case)))
    rotors = np.diag(case.model.armature)
    return Claim(case.dense(mass_matrix) @ x, (across @ inertial(case, M) @ across.T + rotors) @ x)


def _riccati_in_world_axes(case: ProofState) -> Claim:
    """P = M + E (P − P H* D⁻¹ H P) E* with E from the positions alone: nothing else solves it."""
    h, p, step = inertial(case, H), inertial(case, P), to_parents(case, levers(case))
    d = h @ p @ h.T + np.diag(case.model.armature)
    passed = p - p @ h.T @ np.linalg.solve(d, h @ p)
    return Claim(p, inertial(case, M) + step @ passed @ step.T)


def _reaction(case: ProofState) -> Claim:
    """(H* v)* (f − H⁺ tau) = 0, H⁺ = H* (H H*)⁻¹."""
    h, motion = case.dense(H), case.dense(word("H* v"))
    mounted = h.T @ np.linalg.solve(h @ h.T, case.tau)
    return vanishing(motion @ (case.dense(word("f")) - mounted))


# fmt: off
MOTION: list[Identity] = [
    t("velocities",            "V",      "phi* H* v",                                          "SOA eq. 0.1"),
    t("stacked velocities",    "V",      "E_phi* V + H* v",                                    "SOA eq. 0.3"),
    t("stacked implicit form", "E_phi f + M alpha + b + B f0", "f",                            "SOA eq. 0.3"),
    t("stacked accelerations", "alpha",  "E_phi* alpha + H* vdot + abar",                      "SOA eq. 0.3"),
    t("inverse dynamics",      "tau",    "H phi (M phi* (H* vdot + abar) + b + B f0) + Jr vdot", "MM eq. 25",
      note="the papers have no Jr"),
    t("equations of motion (operators)", "tau", "mass_matrix vdot + C + J* f0 + H phi M phi* gravity", "MM eq. 23"),
    t("lambda",                "psi* H* nu1", "phi* H* vdot",                                  "SOA step B; MM sec. VII.A"),
]

FORWARD: list[Identity] = [
    t("FD1 operator", "(I - H psi K)* D^-1 (I - H psi K) (tau - H phi (M phi* abar + b + B f0))", "vdot",
      "MM eq. 47-48; 88-11 eq. 4.17-4.18"),
    t("FD2 operator", "psi* H* nu1 + phi* abar", "alpha",                                      "88-11 eq. 5.6"),
    t("FD2 MM",   "(I - G H)* Psi1* H* nu1 + H* nu1 + phi* abar", "alpha",                 "MM eq. 56"),
    t("FD3 operator", "(I - H psi K)* D^-1 (tau - H psi (K tau + M phi* abar + b + B f0))", "vdot", "88-11 eq. 5.8-5.10"),
    t("FD3 MM",   "(I - H Psi1 G)* D^-1 (tau - H Psi1 (G tau + (I - G H) zeta) - H zeta)", "vdot", "MM eq. 60-62"),
    t("FD4 operator", "(I - H psi K)* nu4 - K* psi* (I - G H)* abar - G* abar", "vdot",        "88-11 eq. 5.13-5.15",
      note="nu4 = D^-1 ((I - H psi K) tau - H psi~ P abar - H psi (b + B f0))"),
    t("MM eq. 67 corrected", "D^-1 ((I - H psi K) tau - H psi (P abar + b + B f0) + H P abar)", "nu4", "MM eq. 67"),
    t("innovations agree", "eps1", "tau - H psi (K tau + zeta)",                               "MM eq. 61"),
    t("FD4 eps",      "D^-1 (eps4 - eps1)", "G* phi* abar",                                    "derived"),
    t("FD1 and FD4 smooth differently", "psi* (H* nu4 + proj_bar* abar)", "psi* H* nu1 + phi* abar", "derived"),
    t("FD4 alpha (operators)", "psi* (H* nu4 + proj_bar* abar)", "alpha",                      "derived"),
]

FORCES: list[Identity] = [
    t("hinge force from FD4", "P alpha + psi (b + B f0 + K tau) + psi~ P abar", "f", "derived (articulated-body force law)"),
    t("hinge force projects", "H f",           "tau",                                          "MM eq. 12", NO_ROTORS),
    t("hinge force split",    "G tau + proj_bar f", "f",                                       "derived", NO_ROTORS),
    t("hinge force split, with rotors", "G tau + proj_bar f", "f + G Jr vdot",                 "derived"),
    t("SOA eq. .44 corrected", "(I - H psi K)* D^-1 H psi (-B f0)", "-mass_matrix^-1 J* f0", "SOA eq. .44",
      note="z = psi xhat, eps = +H z, xhat = -B f0"),
]

INNOVATIONS: list[Identity] = [
    t("D^1/2",               "D_half D_half*", "D",                                            "MC sec. 6"),
    t("kinetic energy",      "v* mass_matrix v", "v* (I + H phi K) D_half D_half* (I + H phi K)* v", "MC sec. 6",
      note="2 KE = nu* nu, nu = D^(1/2)* (I + H phi K)* v"),
    t("colour adjoint (operators)",  "(I + H phi K)* v", "v + K* V",                           "derived"),
    t("nu is memoryless in V", "(I + H phi K)* v", "G* V",                                     "derived", NO_ROTORS),
    t("power",               "v* tau", "v* (I + H phi K) D_half D_half^-1 (I - H psi K) tau",  "MC sec. 6 corrected",
      note="v* tau = nu* eps, eps = D^(-1/2) (I - H psi K) tau"),
    t("inverse of nu map",   "(I - H psi K)* D_half^-1* D_half* (I + H phi K)* v", "v",        "derived"),
]

RECURSIONS: list[Identity] = [
    #     name             compiled sweeps of        are                   source
    sweep("velocity sweep",  "phi* H* v",            "V",                  "MM eq. 6-9"),
    sweep("apply phi",       "phi",                  "phi",                "SOA"),
    sweep("apply phi*",      "phi*",                 "phi*",               "SOA"),
    sweep("apply psi",       "psi",                  "psi",                "MC after eq. 10"),
    sweep("apply psi*",      "psi*",                 "psi*",               "MC"),
    sweep("Newton-Euler",    "H phi (M phi* (H* vdot + abar) + b + B f0) + Jr vdot", "tau", "MM eq. 6-12, 25"),
    sweep("Newton-Euler, hinge forces", "phi (M phi* (H* vdot + abar) + b + B f0)", "f", "MM eq. 6-12"),
    sweep("equations of motion", "H phi (M phi* (H* vdot + abar) + b + B f0) + Jr vdot",
          "mass_matrix vdot + C + J* f0 + H phi M phi* gravity",                    "MM eq. 23"),
    sweep("composite-body recursion", "H phi M phi* H* + Jr", "mass_matrix",        "MM eq. 30-33", "dense"),
    checked("R positive part", "R(k) = sum over outboard bodies of phi M phi*",     "MM eq. 29", _composite_sum, rigid=True),
    checked("body-frame mass matrix", "mass_matrix x in body axes = H phi M phi* H* x + Jr x in world axes, for any x",
            "theory/open-chains 2", _in_world_axes, rigid=True),
    sweep("Riccati recursion",      "P",   "M + E_psi P E_phi*",                    "MM eq. 34-36; SOA eq. .39", "dense"),
    sweep("Riccati recursion, D",   "D",   "H P H* + Jr",                           "MM eq. 34-36; SOA eq. .39", "dense"),
    sweep("Riccati recursion, G",   "G",   "P H* D^-1",                             "MM eq. 34-36; SOA eq. .39", "dense"),
    sweep("Riccati recursion, psi", "E_psi", "E_phi (I - G H)",                     "MM eq. 34-36; SOA eq. .39"),
    sweep("Riccati recursion, K",   "K",   "E_phi G",                               "MM eq. 34-36; SOA eq. .39"),
    checked("P in world axes", "P = M + E_phi (P - P H* D^-1 H P) E_phi*, E_phi from the positions", "theory/open-chains 2",
            _riccati_in_world_axes),
    t("0 <= P",                    "P",     "bd(psi M psi* + psi K Jr K* psi*)",    "MM sec. VI.A; derived", note="a sum of squares"),
    t("P <= R",                    "R - P", "bd(phi K D K* phi*)",                  "MM sec. VI.A; derived", note="a sum of squares"),
    sweep("colour",          "I + H phi K",  "I + H phi K",                         "MC after eq. 11"),
    sweep("colour adjoint",  "(I + H phi K)* v", "v + K* V",                        "derived"),
    sweep("whiten",          "I - H psi K",  "I - H psi K",                         "MC after eq. 12"),
    sweep("mass matrix solve", "(I - H psi K)* D^-1 (I - H psi K)", "mass_matrix^-1", "SOA eq. .40; MM eq. 49-54"),
    sweep("FD1 recursion",   "(I - H psi K)* D^-1 (I - H psi K) (tau - H phi (M phi* abar + b + B f0))", "vdot", "MM eq. 49-54"),
    sweep("FD1 fused to three sweeps", "psi* H* D^-1 (I - H psi K) (tau - H phi (M phi* abar + b + B f0))", "phi* H* vdot",
          "theory/open-chains 10.2"),
    sweep("FD2 recursion",   "psi* H* nu1 + phi* abar", "alpha",                    "MM eq. 58-59"),
    sweep("FD3 recursion",   "(I - H psi K)* D^-1 (tau - H psi (K tau + zeta))", "vdot", "MM eq. 63-65 corrected"),
    sweep("FD3 alpha",       "psi* H* D^-1 (tau - H psi (K tau + zeta)) + phi* abar", "alpha", "88-11 sec. 5"),
    sweep("FD4 recursion",   "(I - H psi K)* nu4 - K* psi* proj_bar* abar - G* abar", "vdot", "MM eq. 69-73"),
    sweep("FD4 without psi", "mass_matrix^-1 (tau - H phi (M phi* abar + b + B f0))", "vdot", "theory/open-chains 10.2"),
    sweep("forward dynamics with the papers' pair", "mass_matrix^-1 (tau - H phi (M phi* (a_paper + gravity) + b_paper + B f0))",
          "vdot",                                                                   "SOA eq. 0.2"),
    sweep("FD4 alpha",       "psi* (H* nu4 + proj_bar* abar)", "alpha",             "derived"),
    sweep("hinge force from FD4, recursion", "P alpha + psi (b + B f0 + K tau) + psi~ P abar", "f", "derived"),
    checked("reaction does no work", "(H* v)* (f - H^+ tau) = 0",                   "derived", _reaction, NO_ROTORS),
]

OPERATIONAL: list[Identity] = [
    t("Upsilon equation (tree)",   "H* D^-1 H", "Upsilon - bd(E_psi* Upsilon E_psi)",           "corrects SOA eq. .41"),
    t("Upsilon equation (serial)", "H* D^-1 H", "Upsilon - E_psi* Upsilon E_psi",               "SOA eq. .41", "serial"),
    t("Omega decomposition (tree)", "Omega", "Upsilon + psi~* Upsilon + Upsilon psi~ + psi* Xi psi", "extends SOA Lemma .5"),
    t("Lemma .5 (serial)",         "Omega",     "Upsilon + psi~* Upsilon + Upsilon psi~",       "SOA eq. .42", "serial"),
    t("operational compliance",    "J mass_matrix^-1 J*", "B* Omega B",            "SOA eq. 0.34; MC eq. 19-20"),
    t("force correction",          "-mass_matrix^-1 J* f0", "-(I - H psi K)* D^-1 H psi B f0", "MC eq. 18 corrected"),
    t("correction of point accelerations", "-B* psi* H* D^-1 H psi B f0", "-(J mass_matrix^-1 J*) f0", "MC sec. 5.3"),
    sweep("force correction, recursion", "-(I - H psi K)* D^-1 H psi B f0", "-mass_matrix^-1 J* f0", "MC eq. 18 corrected"),
    sweep("force correction at the points", "-B* psi* H* D^-1 H psi B f0", "-(J mass_matrix^-1 J*) f0", "MC sec. 5.3"),
    sweep("Upsilon recursion", "Upsilon", "bd(psi* H* D^-1 H psi)",                "MC sec. 5.2; SOA eq. .43", "dense"),
    sweep("compliance recursion", "J mass_matrix^-1 J*", "B* psi* H* D^-1 H psi B", "derived", "dense"),
]
# fmt: on

DYNAMICS = [*MOTION, *RECURSIONS, *FORWARD, *FORCES, *OPERATIONAL, *INNOVATIONS]


# ---- contacts ------------------------------------------------------------------------------------


_J, _MASS, _BIAS = parse("J"), parse("mass_matrix"), parse("H phi (M phi* (a + gravity) + b)")
_BY_DEFINITION = (parse("B* phi* H*"), parse("H phi M phi* H* + Jr"))
_POINT_BIAS = parse("Bdot* V + B* phi* a")
_OTHER_JOINTS = 6  # joints of the second arm
_CONTACTS = 2  # Ω and the rows of H(0) below it have at most 18 rows, which bounds the degree


class _GraspState:
    """Arms, contacts and object in one state, with the solution that eq. b.9 states."""

    def __init__(self, case: ProofState) -> None:
        draw, rows = case.random, 6 * _CONTACTS
        some = min(len(case.points), 1)
        at = case.dense(_J)[:6] if some else case.zeros(6, case.model.nv)
        moving = case.dense(_POINT_BIAS)[:6] if some else case.zeros(6)
        other, half = draw(_OTHER_JOINTS, _OTHER_JOINTS), draw(6, 6)
        self.J = _block_diagonal([at, draw(6, _OTHER_JOINTS)], case)
        self.mass = _block_diagonal([case.dense(_MASS), other + other.T], case)
        self.c = np.concatenate([case.dense(_BIAS), draw(_OTHER_JOINTS)])
        self.tau = np.concatenate([case.any_efforts, draw(_OTHER_JOINTS)])
        self.A = np.concatenate([lever(draw(3)).T for _ in range(_CONTACTS)])
        self.M_C, self.b_C, self.a_C = half + half.T, draw(6), draw(rows)
        self.H, self.N = self._axes(case)
        self.bias = np.concatenate([moving, draw(6)]) + draw(rows)  # J̇ θ̇ + Ḣ*(0) W(0)
        inverse, inv = np.linalg.inv(self.mass), np.linalg.inv
        self.free = self.J @ inverse
        self.object = self.A @ inv(self.M_C)
        self.omega = self.free @ self.J.T + self.object @ self.A.T
        self.inverse = inv(self.omega)
        self.gain = inv(self.H @ self.inverse @ self.H.T)
        self.Pi = self.inverse - self.inverse @ self.H.T @ self.gain @ self.H @ self.inverse
        self.g1 = self.object @ self.b_C + self.bias - self.a_C - self.free @ self.c
        drive = self.free @ self.tau + self.g1
        self.Wdot = -(self.gain @ self.H @ self.inverse @ drive)
        self.f = self.Pi @ drive
        self.vdot = inverse @ (self.tau - self.c - self.J.T @ self.f)
        self.alpha = inv(self.M_C) @ (self.A.T @ self.f - self.b_C)

    def _axes(self, case: ProofState) -> tuple[Array, Array]:
        """H(0) and the forces that a contact transmits, N: contacts with one, two, three axes."""
        free, kept = [], []
        for i in range(_CONTACTS):
            n = 1 + (i + case.model.n_bodies) % 3
            h, N = case.zeros(6, n), case.zeros(6, 6 - n)
            h[:n] = case.eye(n)
            slopes = case.random(3 - n, n)
            h[n:3], N[:n, : 3 - n] = slopes, -slopes.T
            N[n:] = case.eye(6 - n)
            free.append(h)
            kept.append(N)
        return _block_diagonal(free, case).T, _block_diagonal(kept, case)


def _block_diagonal(blocks: list[Array], case: ProofState) -> Array:
    out = case.zeros(sum(len(x) for x in blocks), sum(x.shape[1] for x in blocks))
    row = column = 0
    for x in blocks:
        out[row : row + len(x), column : column + x.shape[1]] = x
        row, column = row + len(x), column + x.shape[1]
    return out


def _solution(case: ProofState) -> Claim:
    """The solution satisfies the equations of arms, contacts and object."""
    g, nv = _GraspState(case), case.model.nv
    if len(case.points):  # the mechanism once more, by its definition
        g.J[:6, :nv] = case.dense(_BY_DEFINITION[0])[:6]
        g.mass[:nv, :nv] = case.dense(_BY_DEFINITION[1])
    across = g.J @ g.vdot + g.bias + g.H.T @ g.Wdot
    return stacked(
        (g.mass @ g.vdot + g.c + g.J.T @ g.f, g.tau),
        (across, g.A @ g.alpha + g.a_C),
        (g.H @ g.f, 0 * g.Wdot),
        (g.M_C @ g.alpha + g.b_C, g.A.T @ g.f),
    )


def _one_unknown(case: ProofState) -> Claim:
    """Contact forces with Ẇ(0), and without."""
    g = _GraspState(case)
    drive = g.free @ g.tau + g.g1
    return stacked(
        (g.f, g.inverse @ (drive + g.H.T @ g.Wdot)),
        (g.H @ g.inverse @ g.H.T @ g.Wdot, -(g.H @ g.inverse @ drive)),
    )


def _projection(case: ProofState) -> Claim:
    """Π lets pass what contacts transmit."""
    g = _GraspState(case)
    kept = g.N @ np.linalg.inv(g.N.T @ g.omega @ g.N) @ g.N.T
    return stacked((g.Pi, kept), (g.H @ g.Pi, 0 * (g.H @ g.Pi)), (g.Pi @ g.omega @ g.Pi, g.Pi))


def coupled(case: ProofState, sign: int = -1) -> Claim:
    """The equations of (Ẇ(0), θ̈) together; the print has `sign` + before H Ω⁻¹ J ℳ⁻¹ C."""
    g = _GraspState(case)
    low, across = g.H @ g.inverse, g.object @ g.A.T @ g.Pi
    g2 = low @ (across @ g.g1 - g.g1 + sign * (g.free @ g.c))
    g3 = -(g.J.T @ g.inverse @ g.g1) - g.c
    passed = g.tau - g.J.T @ g.inverse @ g.free @ g.tau
    return stacked(
        (low @ (g.H.T @ g.Wdot + g.J @ g.vdot), low @ across @ g.free @ g.tau + g2),
        (g.J.T @ g.inverse @ g.H.T @ g.Wdot + g.mass @ g.vdot, passed + g3),
    )


CONTACTS = [
    checked(
        "contacts: solution",
        "theta'' = M^-1 (T - C - J* f), f = Pi (J M^-1 T + Gamma1), W' = -(H Omega^-1 H*)^-1 H Omega^-1 (J M^-1 T + Gamma1)",
        "88-11 Part II eq. b.1-b.5, b.9",
        _solution,
    ),
    checked(
        "contacts: forces",
        "f = Omega^-1 (J M^-1 T + Gamma1 + H* W'), H Omega^-1 H* W' = -H Omega^-1 (J M^-1 T + Gamma1)",
        "88-11 Part II eq. b.6-b.8",
        _one_unknown,
    ),
    checked(
        "contacts: Pi",
        "Omega^-1 - Omega^-1 H* (H Omega^-1 H*)^-1 H Omega^-1 = N (N* Omega N)^-1 N*, H N = 0; H Pi = 0, Pi Omega Pi = Pi",
        "88-11 Part II eq. b.9",
        _projection,
    ),
    checked(
        "contacts: both together",
        "[H Omega^-1 H*, H Omega^-1 J; J* Omega^-1 H*, M] [W'; theta''] = [H Omega^-1 A M(C)^-1 A* Pi J M^-1; I - J* Omega^-1 J M^-1] T + [Gamma2; Gamma3]",
        "88-11 Part II eq. b.10-b.14 corrected",
        coupled,
    ),
]
