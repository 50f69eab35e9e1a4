# ruff: noqa: E501  (tables: one row, one line)
"""All theorems in the order of the papers, and the printed forms that fail."""

from __future__ import annotations

from functools import partial

import numpy as np

from phipsi.core.operators import H, M, gravity, parse
from phipsi.core.rewrite import Claim, Erratum, Identity
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.theorems.dynamics_theorems import (
    BIAS_TERMS,
    CONTACTS,
    DYNAMICS,
    coupled,
    potential_energy,
    table_bias,
)
from phipsi.papers.theorems.filter_theorems import FILTERS
from phipsi.papers.theorems.independent_physics import PHYSICS
from phipsi.papers.theorems.mass_matrix_sensitivities import SENSITIVITIES
from phipsi.papers.theorems.operator_identities import BLOCKS, FACTORIZATIONS, TRANSFORMATIONS
from phipsi.papers.theorems.paper_symbols import checked, theorem, word
from phipsi.papers.theorems.theorem_values import (
    gradient,
    inertial,
    joined,
    lever,
    levers,
    positions,
    to_parents,
    world,
)

THEOREMS: tuple[Identity, ...] = (
    *TRANSFORMATIONS,
    *BIAS_TERMS,
    *FACTORIZATIONS,
    *FILTERS,
    *BLOCKS,
    *DYNAMICS,
    *PHYSICS,
    *SENSITIVITIES,
    *CONTACTS,
)


# ---- misprints -----------------------------------------------------------------------------------
# Printed forms that are wrong, as claims that fail; theory/open-chains 15 explains each.


def _sliding_once(case: ProofState) -> Claim:
    """a(k) of sliding joints with ω_p × v_J once instead of twice."""
    table, _ = table_bias(case, sliding=1.0)
    return Claim(table, world(case, parse("a_paper")))


def _gravity_transposed(case: ProofState) -> Claim:
    """Gravity at the roots through φ(world, k) instead of φ*(world, k): a moment l × g appears."""
    at, wrong = positions(case), world(case, gravity)
    for k in case.model.tree.roots:
        wrong[k] = lever(at[k]) @ wrong[k]
    pulled = inertial(case, parse("H phi M phi*")) @ wrong.reshape(-1)
    return Claim(pulled, gradient(case, potential_energy(case)))


def _wrong_step(case: ProofState) -> Claim:
    """f(k) = φ(p(k), k) f(c) + … instead of φ(k, c) f(c)."""
    right, wrong = levers(case), case.zeros(case.model.n_bodies, 6, 6)
    for k, p in joined(case):
        wrong[k] = right[p]
    forces = inertial(case, M @ word("alpha") + parse("b + B f0"))
    f = np.linalg.solve(case.eye(len(forces)) - to_parents(case, wrong), forces)
    return Claim(inertial(case, H) @ f + case.model.armature * case.vdot, case.tau)


def _as_printed(name: str, lhs: str, rhs: str, source: str) -> Identity:
    return theorem(f"{name} (as printed)", lhs, rhs, source)


# fmt: off
ERRATA: tuple[Erratum, ...] = (
    Erratum("MM sec. I.B", "(I + H Psi G) D (I + H Psi G)*", "(I + H Phi G) D (I + H Phi G)*", "MM sec. I.B",
             _as_printed("MM sec. I.B", "mass_matrix", "(I + H Psi1 G) D (I + H Psi1 G)*", "MM sec. I.B"),
             "three bodies in a row"),
    Erratum("MM sec. X.B", "(I + H Phi K) D (I + H Phi K)*", "H Phi G (or H phi K)", "MM sec. X.B",
             _as_printed("MM sec. X.B", "mass_matrix", "(I + H Phi1 K) D (I + H Phi1 K)*", "MM sec. X.B"),
             "two bodies in a row"),
    Erratum("MM after eq. 41", "Psi (I - G H) = psi of [11]", "= psi - I (psi~ of [11])", "MM",
             _as_printed("MM after eq. 41", "Psi1 (I - G H)", "psi", "MM")),
    Erratum("prismatic a(k)", "[0; w x (w x l + h qd)]", "[0; w x (w x l) + 2 w x h qd]", "88-11 eq. 2.32",
             checked("prismatic a(k) (as printed)", "a(k) = [0; w x (w x l + h qd)]", "88-11 eq. 2.32", _sliding_once),
             "a sliding joint on a turning body"),
    Erratum("gravity through E^T read as a block transpose", "a + col[.., phi(N+1,N)] g", "a + col[.., phi*(N+1,N)] g",
             "88-11 eq. 3.8, 3.21",
             checked("gravity through E^T (as printed)", "gravity torque with phi(N+1,N) g at the base", "88-11 eq. 3.8, 3.21",
                     _gravity_transposed)),
    Erratum("MC sec. 6 innovations", "eps = D^-1/2 (I - H phi K) T", "eps = D^-1/2 (I - H psi K) T", "MC sec. 6",
             _as_printed("MC sec. 6 innovations", "v* tau", "v* (I + H phi K) D_half D_half^-1 (I - H phi K) tau", "MC sec. 6"),
             "two bodies in a row"),
    Erratum("SOA eq. 0.1", "f(k) = phi(k+1,k) f(k-1) + ..", "f(k) = phi(k,k-1) f(k-1) + ..", "SOA eq. 0.1",
             checked("SOA eq. 0.1 (as printed)", "f(k) = phi(k+1,k) f(k-1) + ..", "SOA eq. 0.1", _wrong_step),
             "two bodies in a row"),
    Erratum("FD3 double tip force", "z(0) = f(0) together with zeta containing B f(0)", "z(0) = 0 (or drop B f(0) from zeta)",
             "MM eq. 60, 63",
             _as_printed("FD3 double tip force", "(I - H psi K)* D^-1 (tau - H psi (K tau + zeta + B f0))", "vdot", "MM eq. 60, 63"),
             "point forces"),
    Erratum("MM eq. 67", "nu = .. - D^-1 H psi[(I-GH) P a + b + B f0] + D^-1 H P a",
             "nu = .. - D^-1 H psi[P a + b + B f0] + D^-1 H P a", "MM eq. 67",
             _as_printed("MM eq. 67", "D^-1 ((I - H psi K) tau - H psi ((I - G H) P abar + b + B f0) + H P abar)", "nu4", "MM eq. 67")),
    Erratum("SOA eq. .44 sign", "xhat = -B A* f, eps = -H z", "eps = +H z", "SOA eq. .44",
             _as_printed("SOA eq. .44 sign", "-(I - H psi K)* D^-1 H psi (-B f0)", "-mass_matrix^-1 J* f0", "SOA eq. .44"),
             "point forces"),
    Erratum("contacts: sign of C", "Gamma2 with + H Omega^-1 J M^-1 C", "Gamma2 with - H Omega^-1 J M^-1 C", "88-11 Part II eq. b.10, b.11",
             checked("contacts: sign of C (as printed)", "[H Omega^-1 H*, H Omega^-1 J] [W'; theta''] = ... + H Omega^-1 J M^-1 C", "88-11 Part II eq. b.10, b.11",
                     partial(coupled, sign=1)), "any mechanism that moves or has weight"),
    Erratum("SOA eq. .41 on trees", "H* D^-1 H = Upsilon - E_psi* Upsilon E_psi, Upsilon block-diagonal",
             "take the block-diagonal part of E_psi* Upsilon E_psi", "SOA eq. .41",
             _as_printed("SOA eq. .41 on trees", "H* D^-1 H", "Upsilon - E_psi* Upsilon E_psi", "SOA eq. .41"),
             "a body with two children"),
    Erratum("SOA Lemma .5 on trees", "Omega = Upsilon + psi~* Upsilon + Upsilon psi~", "add psi* Xi psi", "SOA eq. .42",
             _as_printed("SOA Lemma .5 on trees", "Omega", "Upsilon + psi~* Upsilon + Upsilon psi~", "SOA eq. .42"),
             "a body with two children"),
)
# fmt: on

__all__ = ["ERRATA", "THEOREMS"]
