# pyright: basic
# ruff: noqa: E501  (tables: one row, one line)
"""The papers' recursions agree with the operators: each sweep written out, in world axes."""

from __future__ import annotations

import numpy as np

from phipsi.operators import (
    D,
    G,
    H,
    I,
    J,
    K,
    P,
    R,
    Upsilon,
    V,
    mass_matrix,
    parse,
    phi,
    psi,
)
from phipsi.rewrite import theorems_blocks as rec
from phipsi.rewrite.identity import Array, Case, Claim, Identity, claim, gathered, stacked
from phipsi.rewrite.theorems_blocks import blocks, bodies
from phipsi.rewrite.theorems_symbols import checked, vocabulary

_WORDS = vocabulary().leaves
_F = _WORDS["f"]


def _inertial(case: Case, expr) -> Array:
    """A body-space vector in world axes, (n, 6)."""
    return case.dense(expr, axes="inertial").reshape(-1, 6)


def _random_bodies(case: Case) -> Array:
    return case.random(case.model.n_bodies, 6)


def _random_efforts(case: Case) -> Array:
    return case.random(case.model.nv)


def _diagonal(case: Case, expr) -> Array:
    n = case.model.n_bodies
    full = blocks(case.dense(expr, axes="inertial"), n)
    return gathered(case, [full[k, k] for k in range(n)], 6, 6)


# ---- propagation -------------------------------------------------------------------------------


def _apply(operator, adjoint: bool):
    def check(case: Case) -> Claim:
        w, y = bodies(case), _random_bodies(case)
        step = w.step if operator is phi else rec.riccati(w).psi
        expr = operator.T if adjoint else operator
        dense = case.dense(expr, axes="inertial") @ y.reshape(-1)
        swept = w.down(step, y) if adjoint else w.up(step, y)
        return claim(dense, swept.reshape(-1))

    return check


def _composite_recursion(case: Case) -> Claim:
    w = bodies(case)
    return claim(case.dense(mass_matrix), rec.mass_matrix_from(w, rec.composite(w)))


def _composite_sum(case: Case) -> Claim:
    w = bodies(case)
    at, tree = case.dense(parse("pose"))[:, :3, 3], case.model.tree
    total = case.zeros(w.n, 6, 6)
    for k in range(w.n):
        for i in tree.subtree(k):
            carry = rec.lever(at[i] - at[k])
            total[k] += carry @ w.M[i] @ carry.T
    return claim(_diagonal(case, R), total)


# ---- Riccati and the filters -------------------------------------------------------------------


def _riccati(case: Case) -> Claim:
    w = bodies(case)
    r = rec.riccati(w)
    dense_psi = blocks(case.dense(psi, axes="inertial"), w.n)
    dense_G, dense_K = case.dense(G, axes="inertial"), case.dense(K, axes="inertial")
    dense_D = case.dense(D)
    claims = [claim(_diagonal(case, P), r.P)]
    for k, p in enumerate(w.parent):
        s, body = w.hinge[k], slice(6 * k, 6 * k + 6)
        claims += [claim(dense_D[s, s], r.D[k]), claim(dense_G[body, s], r.G[k])]
        if p >= 0:
            claims.append(claim(dense_psi[p, k], r.psi[k]))
            claims.append(claim(dense_K[6 * p : 6 * p + 6, s], r.K[k]))
    return stacked(claims)


def _colour(case: Case) -> Claim:
    w, e = bodies(case), _random_efforts(case)
    expr = I + H @ phi @ K
    return claim(case.dense(expr) @ e, rec.colour(w, rec.riccati(w), e))


def _colour_adjoint(case: Case) -> Claim:
    w = bodies(case)
    r, moving, out = rec.riccati(w), rec.velocities(w), case.v.copy()
    for k in range(w.n):
        out[w.hinge[k]] += r.K[k].T @ w.of_parent(moving, k)
    expr = (I + H @ phi @ K).T
    return claim(case.dense(expr) @ case.v, out)


def _whiten(case: Case) -> Claim:
    w, y = bodies(case), _random_efforts(case)
    expr = I - H @ psi @ K
    return claim(case.dense(expr) @ y, rec.whiten(w, rec.riccati(w), y))


def _solve(case: Case) -> Claim:
    w, y = bodies(case), _random_efforts(case)
    r = rec.riccati(w)
    x, _ = rec.smooth(w, r, rec.divide(w, r, rec.whiten(w, r, y)))
    return claim(case.dense(mass_matrix.inv) @ y, x)


def _inertia_order(case: Case) -> Claim:
    """0 ≤ P ≤ R: P(k) and R(k) − P(k) are sums of X S X* with S = M, Jr and D, which are ≥ 0."""
    w = bodies(case)
    p, r = rec.riccati(w).P, rec.composite(w)
    squares = _diagonal(case, parse("psi M psi* + psi K Jr K* psi*"))
    rest = _diagonal(case, parse("phi K D K* phi*"))
    return stacked([claim(p, squares), claim(r - p, rest)])


# ---- dynamics ----------------------------------------------------------------------------------


def _newton_euler(case: Case) -> Claim:
    tau, f = rec.newton_euler(bodies(case))
    return stacked([claim(case.tau, tau), claim(_inertial(case, _F), f)])


def _motion(case: Case) -> Claim:
    tau, _ = rec.newton_euler(bodies(case))
    expr = parse("mass_matrix vdot + H phi (M phi* a + b) + J* f0 + H phi M phi* gravity")
    return claim(tau, case.dense(expr))


def _vdot(case: Case, found: Array) -> Claim:
    return claim(found, case.vdot)


def _alpha(case: Case, found: Array) -> Claim:
    """The papers' alpha: with the papers' bias, gravity included."""
    expected = _inertial(case, parse("phi* (H* vdot + a_paper + gravity)"))
    return claim(found, expected)


def _fd1_fused(case: Case) -> Claim:
    vdot, lam = rec.forward_1_fused(bodies(case))
    expected = _inertial(case, parse("phi* H* vdot"))
    return stacked([_vdot(case, vdot), claim(lam, expected)])


def _fd2(case: Case) -> Claim:
    vdot, lam, zeta = rec.forward_1(bodies(case))
    return stacked([_vdot(case, vdot), _alpha(case, lam + zeta)])


def _fd2_alpha(case: Case) -> Claim:
    _, lam, zeta = rec.forward_1(bodies(case))
    return _alpha(case, lam + zeta)


def _fd4_without_psi(case: Case) -> Claim:
    vdot, alpha = rec.forward_4_without_psi(bodies(case))
    return stacked([_vdot(case, vdot), _alpha(case, alpha)])


def _fd4_force(case: Case) -> Claim:
    w = bodies(case)
    _, alpha, z = rec.forward_4(w)
    found = w.apply(rec.riccati(w).P, alpha) + z
    return claim(found, _inertial(case, _F))


def _reaction(case: Case) -> Claim:
    """(H* v)* (f − H⁺ tau) = 0, H⁺ = H* (H H*)⁻¹."""
    w = bodies(case)
    power = case.zeros()
    f = _inertial(case, _F)
    for k in range(w.n):
        s = w.hinge[k]
        mounted = w.H[k].T @ np.linalg.solve(w.H[k] @ w.H[k].T, case.tau[s])
        motion = w.H[k].T @ case.v[s]
        power = power + motion @ (f[k] - mounted)
    return claim(power, 0 * power)


def _fd4_body(case: Case) -> Claim:
    vdot, _, _ = rec.forward_4(bodies(case, "body"))
    return _vdot(case, vdot)


def _p_body(case: Case) -> Claim:
    """P_b = U* P U."""
    turn = case.dense(parse("pose"))[:, :3, :3]
    U = gathered(case, [rec.rigid(r, np.zeros(3)) for r in turn], 6, 6)
    world, body = rec.riccati(bodies(case)).P, rec.riccati(bodies(case, "body")).P
    return claim(body, U.swapaxes(-1, -2) @ world @ U)


def _force_correction(case: Case) -> Claim:
    """Δvdot from point forces alone, two sweeps."""
    w = bodies(case)
    r = rec.riccati(w)
    z = w.up(r.psi, w.points)
    found, lam = rec.smooth(w, r, -rec.divide(w, r, w.forces_to_efforts(z)))
    expr = -mass_matrix.inv @ J.T @ parse("f0")
    points = case.dense(parse("B*"), axes="inertial") @ lam.reshape(-1)
    at_points = -J @ mass_matrix.inv @ J.T @ parse("f0")
    return stacked(
        [
            claim(case.dense(expr), found),
            claim(case.dense(at_points), points),
        ]
    )


def _upsilon(case: Case) -> Claim:
    w = bodies(case)
    dense = _diagonal(case, parse("psi* H* D^-1 H psi"))
    claims = [
        claim(dense, rec.upsilon_blocks(w, rec.riccati(w))),
        claim(_diagonal(case, Upsilon), dense),
    ]
    return stacked(claims)


def _compliance(case: Case) -> Claim:
    w = bodies(case)
    expr = J @ mass_matrix.inv @ J.T
    return claim(case.dense(expr), rec.compliance(w, rec.riccati(w)))


def _velocity_sweep(case: Case) -> Claim:
    return claim(_inertial(case, V), rec.velocities(bodies(case)))


def _body_mass_matrix(case: Case) -> Claim:
    """H_b φ_b M_b φ_b* H_b* is the same as with the blocks of the papers."""
    x = _random_efforts(case)
    in_body, in_world = (rec.rigid_efforts(bodies(case, axes), x) for axes in ("body", "inertial"))
    return claim(in_body, in_world)


# fmt: off
RECURSIONS: list[Identity] = [
    checked("velocity sweep",  "V(k) = phi*(p,k) V(p) + H*(k) v(k)", "MM eq. 6-9", _velocity_sweep, rigid=True),
    checked("apply phi",       "phi y = tip-to-base recursion",  "SOA", _apply(phi, False), rigid=True),
    checked("apply phi*",      "phi* y = base-to-tip recursion", "SOA", _apply(phi, True), rigid=True),
    checked("apply psi",       "psi y = tip-to-base recursion",  "MC after eq. 10", _apply(psi, False)),
    checked("apply psi*",      "psi* y = base-to-tip recursion", "MC", _apply(psi, True)),
    checked("Newton-Euler",    "tau = H phi [M phi*(H* vdot + a) + b + B f0] + Jr vdot = two-sweep recursion",
            "MM eq. 6-12, 25", _newton_euler, rigid=True),
    checked("equations of motion", "two-sweep recursion = mass_matrix vdot + C + J* f0 + gravity", "MM eq. 23", _motion, rigid=True),
    checked("composite-body recursion", "H phi M phi* H* + Jr = recursion for R(k), x(i)", "MM eq. 30-33", _composite_recursion, rigid=True),
    checked("R positive part", "R(k) = sum over outboard bodies of phi M phi*", "MM eq. 29", _composite_sum, rigid=True),
    checked("body-frame mass matrix", "Hb phib Mb phib* Hb* x = H phi M phi* H* x, for any x", "theory/open-chains 2", _body_mass_matrix, rigid=True),
    checked("Riccati recursion", "P, D, G, psi, K = tip-to-base recursion", "MM eq. 34-36; SOA eq. .39", _riccati),
    checked("colour",          "[I + H phi K] y = tip-to-base recursion", "MC after eq. 11", _colour),
    checked("colour adjoint",  "[I + H phi K]* v = v + K* V(parent), one base-to-tip sweep", "derived", _colour_adjoint),
    checked("whiten",          "[I - H psi K] y = tip-to-base recursion", "MC after eq. 12", _whiten),
    checked("mass matrix solve", "mass_matrix^-1 T = filter-smooth, 2 sweeps", "SOA eq. .40; MM eq. 49-54", _solve),
    checked("0 <= P <= R",     "P = bd(psi M psi* + psi K Jr K* psi*) and R - P = bd(phi K D K* phi*), sums of squares", "MM sec. VI.A; derived", _inertia_order),
    checked("FD1 recursion",   "Algorithm 1 sweeps = vdot", "MM eq. 49-54", lambda c: _vdot(c, rec.forward_1(bodies(c))[0])),
    checked("FD2 recursion",   "Algorithm 2 sweeps = vdot, alpha", "MM eq. 58-59", _fd2),
    checked("FD3 recursion",   "Algorithm 3 sweeps = vdot", "MM eq. 63-65 corrected", lambda c: _vdot(c, rec.forward_3(bodies(c))[0])),
    checked("FD4 recursion",   "Algorithm 4 sweeps = vdot", "MM eq. 69-73", lambda c: _vdot(c, rec.forward_4(bodies(c))[0])),
    checked("FD2 alpha",       "lambda + zeta = alpha", "MM eq. 58", _fd2_alpha),
    checked("FD3 alpha",       "lambda + phi* a = alpha", "88-11 sec. 5", lambda c: _alpha(c, rec.forward_3(bodies(c))[1])),
    checked("FD4 alpha",       "lambda of FD4 = alpha", "derived", lambda c: _alpha(c, rec.forward_4(bodies(c))[1])),
    checked("FD4 without psi", "three fused sweeps, no psi, no K = [vdot; alpha]", "theory/open-chains 10.2", _fd4_without_psi),
    checked("FD1 fused to three sweeps", "both tip-to-base sweeps in one = [vdot; lambda]", "theory/open-chains 10.2", _fd1_fused),
    checked("FD4 in body frames", "FD4 with body-frame phi, H, M, a, b = vdot", "theory/open-chains 4.3", _fd4_body),
    checked("P in body frames", "P_body = U* P U", "theory/open-chains 2", _p_body),
    checked("hinge force from FD4, recursion", "P(k) alpha(k) + z(k) = f(k)", "derived", _fd4_force),
    checked("reaction does no work", "(H* v)* (f - H^+ tau) = 0", "derived", _reaction, "Jr = 0"),
    checked("force correction, recursion", "-mass_matrix^-1 J* f0 in two sweeps, and at the points", "MC eq. 18 corrected", _force_correction),
    checked("Upsilon recursion", "diagonal blocks of Omega = base-to-tip recursion", "MC sec. 5.2; SOA eq. .43", _upsilon),
    checked("compliance recursion", "J mass_matrix^-1 J*, points on any branches = nearest-common-ancestor rule", "derived", _compliance),
]
# fmt: on
