# pyright: basic
# ruff: noqa: E501  (tables: one row, one line)
"""Printed forms that are wrong, as claims that fail; theory/open-chains 15 explains each."""

from __future__ import annotations

from phipsi.operators import parse
from phipsi.rewrite import theorems_blocks as rec
from phipsi.rewrite.identity import Case, Claim, Erratum, Identity, claim, gathered
from phipsi.rewrite.theorems_bias import centres, gradient, table_bias, world
from phipsi.rewrite.theorems_symbols import checked, theorem


def _sliding_once(case: Case) -> Claim:
    """a(k) of sliding joints with ω_p × v_J once instead of twice."""
    table, _ = table_bias(case, sliding=1.0)
    return claim(table, world(case, parse("a_paper")))


def _gravity_transposed(case: Case) -> Claim:
    """Gravity at the roots through φ(world, k) instead of φ*(world, k): a moment l × g appears."""
    w = rec.bodies(case)
    at = case.dense(parse("pose"))[:, :3, 3]
    masses = gathered(case, [i.mass for i in case.model.inertias])
    wrong = w.gravity.copy()
    for k, p in enumerate(w.parent):
        if p < 0:
            wrong[k] = rec.lever(at[k]) @ w.gravity[k]
    pulled = w.up(w.step, w.apply(w.M, w.down(w.step, wrong)))
    energy = gradient(case, lambda q: -masses @ (centres(case, q) @ case.model.gravity))
    return claim(w.forces_to_efforts(pulled), energy)


def _wrong_step(case: Case) -> Claim:
    """f(k) = φ(p(k), k) f(c) + … instead of φ(k, c) f(c)."""
    w = rec.bodies(case)
    f = w.apply(w.M, w.down(w.step, w.rates_to_motions(case.vdot) + w.a)) + w.b + w.points
    for k in reversed(range(w.n)):
        p = w.parent[k]
        if p >= 0:
            f[p] += w.step[p] @ f[k]
    return claim(w.forces_to_efforts(f) + case.model.armature * case.vdot, case.tau)


def _tip_forces_twice(case: Case) -> Claim:
    vdot, _ = rec.forward_3(rec.bodies(case), tip_forces_twice=True)
    return claim(vdot, case.vdot)


def _erratum(
    name: str, printed: str, correct: str, source: str, stated: Identity, needs: str = ""
) -> Erratum:
    return Erratum(name, printed, correct, source, stated, needs)


def _as_printed(name: str, before: str, after: str, source: str) -> Identity:
    return theorem(f"{name} (as printed)", before, after, source)


# fmt: off
ERRATA: tuple[Erratum, ...] = (
    _erratum("MM sec. I.B", "(I + H Psi G) D (I + H Psi G)*", "(I + H Phi G) D (I + H Phi G)*", "MM sec. I.B",
             _as_printed("MM sec. I.B", "mass_matrix", "(I + H Psi1 G) D (I + H Psi1 G)*", "MM sec. I.B"),
             "three bodies in a row"),
    _erratum("MM sec. X.B", "(I + H Phi K) D (I + H Phi K)*", "H Phi G (or H phi K)", "MM sec. X.B",
             _as_printed("MM sec. X.B", "mass_matrix", "(I + H Phi1 K) D (I + H Phi1 K)*", "MM sec. X.B"),
             "two bodies in a row"),
    _erratum("MM after eq. 41", "Psi (I - G H) = psi of [11]", "= psi - I (psi~ of [11])", "MM",
             _as_printed("MM after eq. 41", "Psi1 (I - G H)", "psi", "MM")),
    _erratum("prismatic a(k)", "[0; w x (w x l + h qd)]", "[0; w x (w x l) + 2 w x h qd]", "88-11 eq. 2.32",
             checked("prismatic a(k) (as printed)", "a(k) = [0; w x (w x l + h qd)]", "88-11 eq. 2.32", _sliding_once),
             "a sliding joint on a turning body"),
    _erratum("gravity through E^T read as a block transpose", "a + col[.., phi(N+1,N)] g", "a + col[.., phi*(N+1,N)] g",
             "88-11 eq. 3.8, 3.21",
             checked("gravity through E^T (as printed)", "gravity torque with phi(N+1,N) g at the base", "88-11 eq. 3.8, 3.21",
                     _gravity_transposed)),
    _erratum("MC sec. 6 innovations", "eps = D^-1/2 (I - H phi K) T", "eps = D^-1/2 (I - H psi K) T", "MC sec. 6",
             _as_printed("MC sec. 6 innovations", "v* tau", "v* (I + H phi K) D_half D_half^-1 (I - H phi K) tau", "MC sec. 6"),
             "two bodies in a row"),
    _erratum("SOA eq. 0.1", "f(k) = phi(k+1,k) f(k-1) + ..", "f(k) = phi(k,k-1) f(k-1) + ..", "SOA eq. 0.1",
             checked("SOA eq. 0.1 (as printed)", "f(k) = phi(k+1,k) f(k-1) + ..", "SOA eq. 0.1", _wrong_step),
             "two bodies in a row"),
    _erratum("FD3 double tip force", "z(0) = f(0) together with zeta containing B f(0)", "z(0) = 0 (or drop B f(0) from zeta)",
             "MM eq. 60, 63",
             checked("FD3 double tip force (as printed)", "FD3 with z(0) = f(0) = vdot", "MM eq. 60, 63", _tip_forces_twice),
             "point forces"),
    _erratum("MM eq. 67", "nu = .. - D^-1 H psi[(I-GH) P a + b + B f0] + D^-1 H P a",
             "nu = .. - D^-1 H psi[P a + b + B f0] + D^-1 H P a", "MM eq. 67",
             _as_printed("MM eq. 67", "D^-1 ((I - H psi K) tau - H psi ((I - G H) P abar + b + B f0) + H P abar)", "nu4", "MM eq. 67")),
    _erratum("SOA eq. .44 sign", "xhat = -B A* f, eps = -H z", "eps = +H z", "SOA eq. .44",
             _as_printed("SOA eq. .44 sign", "-(I - H psi K)* D^-1 H psi (-B f0)", "-mass_matrix^-1 J* f0", "SOA eq. .44"),
             "point forces"),
    _erratum("SOA eq. .41 on trees", "H* D^-1 H = Upsilon - E_psi* Upsilon E_psi, Upsilon block-diagonal",
             "take the block-diagonal part of E_psi* Upsilon E_psi", "SOA eq. .41",
             _as_printed("SOA eq. .41 on trees", "H* D^-1 H", "Upsilon - E_psi* Upsilon E_psi", "SOA eq. .41"),
             "a body with two children"),
    _erratum("SOA Lemma .5 on trees", "Omega = Upsilon + psi~* Upsilon + Upsilon psi~", "add psi* Xi psi", "SOA eq. .42",
             _as_printed("SOA Lemma .5 on trees", "Omega", "Upsilon + psi~* Upsilon + Upsilon psi~", "SOA eq. .42"),
             "a body with two children"),
)
# fmt: on
