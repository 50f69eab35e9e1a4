# ruff: noqa: E501  (tables: one row, one line)
"""The operator identities, from rigid transformations to the factorization of the mass matrix.

**Below the operators** (theory/open-chains 2, 3 and 9.3): rigid transformations, trees and
numberings, single blocks.

**Between operators** (theory/open-chains 7 to 9): propagation, composite bodies, Riccati equation,
factorization, inverse. Appendix A of 88-11 is read twice: with its own Φ, Ψ, L as printed, and
with those of MM (Phi1, Psi1, G). Its (a.1)–(a.5) are definitions; (a.6)–(a.13) and (a.23) are lost
in the scan and reconstructed from how the proofs use them.

Formulas without a condition hold with rotor inertia too, where ``mass_matrix = H φ M φ* H* + Jr``,
``D = H P H* + Jr`` and ``P = M + E_ψ P E_φ*``. "Jr = 0" marks those that rest on ``H G = I``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from phipsi.core.expressions import Expr
from phipsi.core.operators import E_phi, E_psi, G, H, K, Omega, Upsilon, mass_matrix, phi, psi
from phipsi.core.rewrite import Claim, Identity
from phipsi.core.spatial import skew
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.theorems.paper_symbols import NO_ROTORS, checked, theorem as t, used, word
from phipsi.papers.theorems.theorem_values import (
    Array,
    blocks,
    diagonal,
    from_blocks,
    from_diagonal,
    gathered,
    inertial,
    joined,
    lever,
    levers,
    positions,
    propagation,
    stacked,
    steps,
    to_parents,
    vanishing,
)


def _full(case: ProofState, expr: Expr) -> Array:
    """The blocks (n, n, 6, 6) of an operator on bodies, in world axes."""
    return blocks(inertial(case, expr), case.model.n_bodies)


# ---- rigid transformations ---------------------------------------------------------------------


def _rigid_inverse(case: ProofState) -> Claim:
    offset = case.random(3)
    return Claim(np.linalg.inv(lever(offset)), lever(-offset))


def _rigid_chain(case: ProofState) -> Claim:
    first, second = case.random(2, 3)
    return Claim(lever(first) @ lever(second), lever(first + second))


def _moves_velocity(case: ProofState) -> Claim:
    offset, w, v = case.random(3, 3)
    moved = lever(offset).T @ np.concatenate([w, v])
    return Claim(moved, np.concatenate([w, v + np.cross(w, offset)]))


def _moves_force(case: ProofState) -> Claim:
    offset, N, F = case.random(3, 3)
    moved = lever(offset) @ np.concatenate([N, F])
    return Claim(moved, np.concatenate([N + np.cross(offset, F), F]))


def _parallel_axis(case: ProofState) -> Claim:
    claims = []
    for M_O, inertia in zip(case.model.inertia_matrices, case.model.inertias, strict=True):
        m, p, M_C = inertia.mass, inertia.com_B, case.zeros(6, 6)
        M_C[:3, :3], M_C[3:, 3:] = M_O[:3, :3] + m * skew(p) @ skew(p), m * np.eye(3)
        claims.append(Claim(lever(p) @ M_C @ lever(p).T, M_O))
    return stacked(*claims)


# ---- series, blocks, numbering -----------------------------------------------------------------


def _powers(case: ProofState, step: Expr) -> list[Array]:
    """x, E x, …, Eⁿ x for a random x."""
    matrix, out = case.dense(step), [case.random(6 * case.model.n_bodies)]
    for _ in range(case.model.n_bodies):
        out.append(matrix @ out[-1])
    return out


def _series(case: ProofState) -> Claim:
    x, *rest = _powers(case, E_phi)
    return Claim(case.dense(word("(I - E_phi)^-1")) @ x, sum(rest, x))


def _nilpotent(step: Expr, case: ProofState) -> Claim:
    return vanishing(_powers(case, step)[-1])


def _levers_between(case: ProofState) -> Array:
    """φ(l(i, j)) from the positions, for every body j and each body i on its path."""
    at, n = positions(case), case.model.n_bodies
    out = case.zeros(n, n, 6, 6)
    for j in range(n):
        for i in case.model.tree.path(j):
            out[i, j] = lever(at[j] - at[i])
    return out


def _phi_blocks(case: ProofState) -> Claim:
    return Claim(_full(case, phi), _levers_between(case))


def _renumbering(case: ProofState) -> Claim:
    n = case.model.n_bodies
    order = case.rng.permutation(n)
    step, full = (from_blocks(_full(case, x)[order][:, order]) for x in (E_phi, phi))
    return Claim(np.linalg.inv(case.eye(6 * n) - step), full)


def _triangular(order: str, part: Callable[..., Any], offset: int, case: ProofState) -> Claim:
    n = case.model.n_bodies
    return vanishing(blocks(case.dense(phi, order=order), n)[part(n, offset)])


def _square_root(case: ProofState) -> Claim:
    """M = L Δ L*, so M^(1/2) = L Δ^(1/2); the root of Δ ≥ 0 stands between and need not be taken."""
    factors = [_factored(case, x) for x in case.model.inertia_matrices]
    lower, pivots = (from_diagonal(gathered(case, [f[i] for f in factors], 6, 6)) for i in (0, 1))
    factor = case.dense(H @ phi) @ lower
    return Claim(case.dense(mass_matrix), factor @ pivots @ factor.T + np.diag(case.model.armature))


def _factored(case: ProofState, inertia: Array) -> tuple[Array, Array]:
    """L and Δ of a symmetric matrix; where a pivot is zero, so is the column."""
    rest, lower, pivots = inertia.copy(), case.eye(6), case.zeros(6, 6)
    for i in range(6):
        pivots[i, i] = rest[i, i]
        if np.asarray(rest[i, i]).any():
            lower[i + 1 :, i] = rest[i + 1 :, i] / rest[i, i]
            rest = rest - np.outer(lower[:, i], rest[i]) * (np.arange(6) > i)[:, None]
    return lower, pivots


# ---- MM and 88-11: blocks of Φ, Ψ, L -----------------------------------------------------------


def _psi_along_paths(case: ProofState) -> Array:
    """Products of the ψ(parent(k), k) along the paths."""
    return propagation(case, steps(case, E_psi))


def _columns_of_parents(
    name: str, inner: Callable[[ProofState], Array], weighted: bool, case: ProofState
) -> Claim:
    """Block (i, j) of an operator is X(i, parent(j)), times φ(parent(j), j) if weighted."""
    X, weight = inner(case), levers(case)
    expected = np.zeros_like(X)
    for j, p in joined(case):
        expected[:, j] = X[:, p] @ weight[j] if weighted else X[:, p]
    return Claim(_full(case, word(name)), expected)


def _gain_blocks(case: ProofState) -> Claim:
    shifted, gains = inertial(case, word("L")), inertial(case, G)
    inner = np.repeat(np.array(case.model.parent, dtype=int) >= 0, 6)  # S removes a root's block
    return Claim(shifted[inner], (from_diagonal(levers(case)) @ gains)[inner])


def _telescope(left: Expr, right: Expr, by_gain: bool, case: ProofState) -> Claim:
    """Σ along the path of m of left(k,i+) right(i+,m) − left(k,i) right(i,m).

    Compared with right − left at (k, m), or with the sum of ± left(k,i+) L(i) H(i) right(i,m).
    """
    sign = 1.0 if left is psi else -1.0
    X, Y, F, S, gain = (_full(case, x) for x in (left, right, phi, psi, K @ H))
    claims = []
    for m in range(case.model.n_bodies):
        path = case.model.tree.path(m)
        total, gained = case.zeros(len(path), 6, 6), case.zeros(len(path), 6, 6)
        for above, (i, up) in enumerate(zip(path, path[1:], strict=False)):
            k = path[above + 1 :]
            total[above + 1 :] += X[k, up] @ Y[up, m] - X[k, i] @ Y[i, m]
            gained[above + 1 :] += sign * X[k, up] @ gain[up, i] @ Y[i, m]
        claims.append(Claim(total, gained if by_gain else sign * (F[path, m] - S[path, m])))
    return stacked(*claims)


# ---- Lemma A.1, its dual, and Omega ------------------------------------------------------------


def _lemma_a1(case: ProofState) -> Claim:
    """ψ_a X ψ_b* = r + ψ_a~ r + r ψ_b~*, r = X + E_a r E_b*; with φ, ψ and a random operator."""
    n = case.model.n_bodies
    X, eye = from_diagonal(case.random(n, 6, 6)), case.eye(6 * n)
    chosen = {"phi": levers(case), "psi": steps(case, E_psi), "any": case.random(n, 6, 6)}
    claims = []
    for a, b in (("psi", "phi"), ("phi", "phi"), ("psi", "psi"), ("any", "phi")):
        step_a, step_b = (to_parents(case, chosen[x]) for x in (a, b))
        left, right = (from_blocks(propagation(case, chosen[x])) for x in (a, b))
        whole = left @ X @ right.T
        r = from_diagonal(diagonal(whole, n))
        claims.append(Claim(whole, r + (left - eye) @ r + r @ (right - eye).T))
        claims.append(Claim(r - step_a @ r @ step_b.T, X))
    return stacked(*claims)


def _lemma_a1_dual(case: ProofState) -> Claim:
    """(ψ_a* X ψ_b)(i,j) = ψ_a*(c,i) Y(c) ψ_b(c,j), c the nearest common ancestor."""
    n = case.model.n_bodies
    X, first, second = case.random(n, 6, 6), steps(case, E_psi), case.random(n, 6, 6)
    left, right = propagation(case, first), propagation(case, second)
    full = from_blocks(left).T @ from_diagonal(X) @ from_blocks(right)
    Y, carried = diagonal(full, n), case.zeros(n, 6, 6)
    for k, p in joined(case):
        carried[k] = first[k].T @ Y[p] @ second[k]
    through = from_blocks(_through_ancestors(case, left, Y, right))
    return stacked(Claim(full, through), Claim(Y, X + carried))


def _omega_blocks(case: ProofState) -> Claim:
    path, middle = _psi_along_paths(case), diagonal(inertial(case, Upsilon), case.model.n_bodies)
    return Claim(_full(case, Omega), _through_ancestors(case, path, middle, path))


def _through_ancestors(case: ProofState, left: Array, middle: Array, right: Array) -> Array:
    out = np.zeros_like(left)
    for i, j in np.ndindex(out.shape[:2]):
        c = case.model.tree.nearest_common_ancestor(i, j)
        if c >= 0:
            out[i, j] = left[c, i].T @ middle[c] @ right[c, j]
    return out


_LOST = "88-11 App. A (a.20, a.21 lost in the scan)"
_PHI, _PSI = partial(_full, expr=phi), partial(_full, expr=psi)

# fmt: off
TRANSFORMATIONS: list[Identity] = [
    checked("phi unit",    "phi(x,x) = I",                  "MM eq. 4-5; 88-11 eq. 3.2-3.3", lambda case: Claim(lever(np.zeros(3)), np.eye(6)), rigid=True),
    checked("phi inverse", "phi(x,y)^-1 = phi(y,x)",        "MM eq. 4-5; 88-11 eq. 3.2-3.3", _rigid_inverse, rigid=True),
    checked("phi chain",   "phi(x,z) phi(z,y) = phi(x,y)",  "MM eq. 4-5; 88-11 eq. 3.2-3.3", _rigid_chain, rigid=True),
    checked("phi* moves velocity", "phi*(x,y) [w; v] = [w; v + w x l(x,y)]", "SOA", _moves_velocity, rigid=True),
    checked("phi moves force", "phi(x,y) [N; F] = [N + l x F; F]",           "SOA", _moves_force, rigid=True),
    checked("parallel axis", "phi(O,C) M(C) phi*(O,C) = M(O)",               "SOA; MM eq. 2", _parallel_axis, rigid=True),
    checked("phi series",    "(I - E_phi)^-1 = sum_p E_phi^p",               "SOA eq. 0.6, 0.12", _series, rigid=True),
    checked("nilpotent",     "E_phi^n = 0",                                  "SOA", partial(_nilpotent, E_phi), rigid=True),
    checked("nilpotent psi", "E_psi^n = 0",                                  "SOA eq. 0.27", partial(_nilpotent, E_psi)),
    checked("phi blocks",    "phi(i,j) = phi(l(i,j)) if i is j or an ancestor of j, else 0", "SOA eq. 0.13", _phi_blocks, rigid=True),
    checked("renumbering",   "(I - Pi E_phi Pi*)^-1 = Pi phi Pi*",           "theory/open-chains 3", _renumbering, rigid=True),
    checked("tip-first numbers",  "phi above the block diagonal = 0 (lower triangular = causal)", "SOA",
            partial(_triangular, "tip_to_base", np.triu_indices, 1), rigid=True),
    checked("base-first numbers", "phi below the block diagonal = 0 (upper triangular)", "theory/open-chains 3",
            partial(_triangular, "base_to_tip", np.tril_indices, -1), rigid=True),
    checked("square-root factor", "mass_matrix = (H phi M^(1/2)) (H phi M^(1/2))* + Jr", "MM sec. X.A", _square_root, rigid=True),
]

BLOCKS: list[Identity] = [
    checked("MM Psi blocks", "Psi(i,j) = psi(i,parent(j)) phi(parent(j),j)", "MM eq. 41", partial(_columns_of_parents, "Psi1", _psi_along_paths, True)),
    checked("(a.6)",         "Phi = phi S",                                  "88-11 A.1 (reconstructed)", partial(_columns_of_parents, "Phi3", _PHI, False), rigid=True),
    checked("(a.7)",         "Psi = psi S",                                  "88-11 A.1 (reconstructed)", partial(_columns_of_parents, "Psi3", _PSI, False)),
    checked("(4.9) blocks",  "Phi(i,j) = phi(i,parent(j)), i a strict ancestor of j", "88-11 eq. 4.9",
            partial(_columns_of_parents, "Phi3", _levers_between, False), rigid=True),
    checked("(4.10) blocks", "Psi(i,j) = psi(i,parent(j)), i a strict ancestor of j", "88-11 eq. 4.10",
            partial(_columns_of_parents, "Psi3", _psi_along_paths, False)),
    checked("(a.12)",        "L = Lam_phi G, block k = phi(parent(k),k) G(k)", "88-11 A.1 (reconstructed)", _gain_blocks),
    checked("(a.19)-(a.20)", "sum_i [psi(k,i+) phi(i+,m) - psi(k,i) phi(i,m)] = phi(k,m) - psi(k,m)", _LOST,
            partial(_telescope, psi, phi, False)),
    checked("(a.21)",        "the same sum = sum_i psi(k,i+) L(i) H(i) phi(i,m)", _LOST, partial(_telescope, psi, phi, True)),
    checked("(a.29)-(a.30)", "sum_i [phi(k,i+) psi(i+,m) - phi(k,i) psi(i,m)] = -(phi(k,m) - psi(k,m))",
            "88-11 App. A; sign derived", partial(_telescope, phi, psi, False)),
    checked("(a.31)",        "the same sum = - sum_i phi(k,i+) L(i) H(i) psi(i,m)", _LOST, partial(_telescope, phi, psi, True)),
    checked("Lemma A.1 (a.45)", "psi_a X psi_b* = r + psi_a~ r + r psi_b~*, any two transition operators", "88-11 a.44-a.45", _lemma_a1),
    checked("Lemma A.1 dual", "(psi_a* X psi_b)(i,j) = psi_a*(c,i) Y(c) psi_b(c,j), Y(k) = X(k) + psi_a*(p,k) Y(p) psi_b(p,k)",
            "derived", _lemma_a1_dual),
    checked("Omega blocks",  "Omega(i,j) = psi*(c,i) Upsilon(c) psi(c,j), c = nearest common ancestor (0 if none)",
            "derived; completes SOA eq. .43", _omega_blocks),
]
# fmt: on


# ---- propagation, composite bodies, Riccati equation, factorization, inverse ---------------------


_APP = "88-11 App. A"
_READ = "88-11 App. A with Phi, Psi, L read as Phi1, Psi1, G"
_RECONSTRUCTED = "88-11 A.1 (reconstructed)"

# fmt: off
PROPAGATION: list[Identity] = [
    used("sum the series of E_φ", "phi definition"),
    used("sum the series of E_ψ", "psi definition"),
    used("join the shift and its weight", "E_phi splits"),
    t("E_psi splits",    "E_psi",               "S Lam_psi",          "derived"),
    t("K splits",        "E_phi G",             "S L",                "SOA eq. 0.26; 88-11"),
    t("E_psi def",       "E_phi proj_bar",      "E_phi - K H",        "MC eq. 10"),
    t("phi~",            "phi - I",             "phi E_phi",          "SOA eq. .46 for phi"),
    t("phi~ (b)",        "phi - I",             "E_phi phi",          "SOA"),
    t("psi~",            "psi - I",             "psi E_psi",          "SOA eq. .46"),
    t("psi~ (b)",        "psi - I",             "E_psi psi",          "SOA eq. .46"),
    used("ψ̃ from the right", "Lemma .7a"),
    used("ψ̃ from the left", "Lemma .7a (b)"),
    used("ψ − I", "Lemma .7a (c)"),
]

COMPOSITE: list[Identity] = [
    t("R equation", "M", "R - E_phi R E_phi*", "MM eq. 31"),
    used("composite bodies", "Identity 1 / Lemma A.1 cor."),
    t("mass matrix from R", "H phi M phi* H*", "H R H* + H phi~ R H* + (H phi~ R H*)*", "MM eq. 28"),
]

RICCATI: list[Identity] = [
    t("Riccati", "M", "P - E_phi [P - P H* (H P H* + Jr)^-1 H P] E_phi*", "SOA eq. 0.25; 88-11 eq. 4.5",
      note="the papers have no Jr"),
    t("Riccati mixed",      "M",             "P - E_psi P E_phi*",           "88-11 App. A"),
    t("Riccati K form",     "M",             "P - E_phi P E_phi* + K D K*",  "MC app."),
    t("Lemma .6",           "M",             "P - E_psi P E_psi*",           "SOA eq. .45; MM eq. 35; MC eq. 8", NO_ROTORS),
    t("tau idempotent",     "proj proj",     "proj",                         "SOA", NO_ROTORS),
    t("tau symmetric in P", "proj P",        "P proj*",                      "SOA"),
    t("tau symmetric in P (b)", "proj P",    "proj P proj*",                 "SOA", NO_ROTORS),
    t("taubar P",           "proj_bar P",    "proj_bar P proj_bar*",         "SOA Lemma .6", NO_ROTORS),
    t("taubar P tau*",      "proj_bar P proj*", "0",                         "SOA Lemma .6", NO_ROTORS),
    used("H G"),
    used("H π̄"),
    used("π̄ G"),
    used("π̄ P H*"),
    t("E_psi P H*",         "E_psi P H*",    "0",                            "SOA Lemma .7d", NO_ROTORS),
    t("G D G*",             "G D G*",        "proj P",                       "derived"),
]

ROTORS: list[Identity] = [
    t("H G with rotors",         "H G",            "I - Jr D^-1",                             "derived"),
    t("H taubar with rotors",    "H proj_bar",     "Jr D^-1 H",                               "derived"),
    t("taubar G with rotors",    "proj_bar G",     "G Jr D^-1",                               "derived"),
    t("taubar P H* with rotors", "proj_bar P H*",  "G Jr",                                    "derived"),
    t("E_psi P H* with rotors",  "E_psi P H*",     "K Jr",                                    "derived"),
    t("taubar P with rotors",    "proj_bar P",     "proj_bar P proj_bar* + G Jr G*",          "derived"),
    used("Riccati with ψ on both sides", "Lemma .6 with rotors"),
    used("ψ M ψ*",               "Lemma .7b with rotors"),
    t("Lemma .7d with rotors",   "D", "H psi M psi* H* + (I - H psi K) Jr (I - H psi K)*",    "derived"),
    t("nu with rotors",          "(I + H phi K)* v", "G* V + D^-1 Jr v",                      "derived"),
]

FACTORIZATION: list[Identity] = [
    t("Lemma .7b / (a.47)",     "psi M psi*",        "P + psi~ P + P psi~*",  "SOA eq. .47; 88-11 a.47", NO_ROTORS),
    t("Lemma .7c",              "psi^-1 phi",        "I + K H phi",           "SOA eq. .48"),
    t("Lemma .7c'",             "phi psi^-1",        "I + phi K H",           "SOA eq. .48"),
    t("phi^-1 psi",             "phi^-1 psi",        "I - K H psi",           "derived"),
    t("psi phi^-1",             "psi phi^-1",        "I - psi K H",           "MC Lemma 4 proof"),
    used("Lemma .7d"),
    t("Lemma 5 / (.50)",        "psi^-1",            "phi^-1 + K H",          "MC Lemma 5; SOA eq. .50"),
    t("Lemma 0.1 / Lemma 1",    "mass_matrix",       "(I + H phi K) D (I + H phi K)*",    "SOA eq. 0.28; MC eq. 11"),
    used("invert the colouring filter", "Lemma 0.2 / Lemma 2"),
    used("innovations factorization", "Lemma 0.3 / Lemma 3"),
    t("Lemma 0.3 (residual)",   "mass_matrix (I - H psi K)* D^-1 (I - H psi K)", "I",      "SOA eq. 0.30"),
    used("whiten φ", "Lemma 0.4 / Lemma 4"),
    used("whiten φ̃"),
    used("colour ψ"),
    used("colour a gain"),
    used("whiten a gain"),
    used("φ K H ψ"),
    used("ψ K H φ"),
    t("psi K H psi",            "psi K H psi",          "psi phi^-1 (phi - psi)",         "derived"),
    t("mass^-1 H phi",          "mass_matrix^-1 H phi", "(I - H psi K)* D^-1 H psi",      "MC eq. 18"),
    t("phi* H* mass^-1",        "phi* H* mass_matrix^-1", "psi* H* D^-1 (I - H psi K)",   "SOA step B"),
    t("Omega",                  "phi* H* mass_matrix^-1 H phi", "psi* H* D^-1 H psi",     "SOA eq. 0.34; MC eq. 20"),
    t("Omega (b)",              "phi* H* mass_matrix^-1 H phi", "Omega",                  "SOA eq. 0.34; MC eq. 20"),
    t("mass^-1 expanded",       "mass_matrix^-1",
      "D^-1 - D^-1 H psi K - (D^-1 H psi K)* + K* Omega K",                               "derived"),
    t("innovation gain",        "(I - H psi K) H phi M phi*", "H psi~ P + D G* phi*",     "derived from a.46"),
    used("log det of the mass matrix", "log det"),
]

MM_FORMS: list[Identity] = [
    used("φ − I", "MM Phi"),
    t("MM Phi (b)",     "Phi1",                 "Phi3 Lam_phi",               "dictionary"),
    t("MM Psi",         "Psi1",                 "Psi3 Lam_phi",               "dictionary"),
    t("MM Psi taubar",  "Psi1 (I - G H)",       "psi - I",                    "MM after eq. 41"),
    t("H Phi1 G",           "H Phi1 G",             "H phi K",                    "dictionary"),
    t("H Phi1 G (b)",       "H Phi1 G",             "H Phi3 L",                   "dictionary"),
    t("H Psi1 G",           "H Psi1 G",             "H psi K",                    "dictionary"),
    t("H Psi1 G (b)",       "H Psi1 G",             "H Psi3 L",                   "dictionary"),
    t("Psi3 L",             "Psi3 L",               "psi K",                      "dictionary"),
    t("Identity 2",         "phi M phi*",           "P + Phi1 P + P Phi1* + Phi1 P H* D^-1 H P Phi1*", "MM eq. 42"),
    t("Identity 3",         "mass_matrix",          "(I + H Phi1 G) D (I + H Phi1 G)*", "MM eq. 43"),
    t("Identity 4",         "(I - Psi1 G H) Phi1",  "Psi1",                       "MM eq. 44"),
    t("Identity 4 proof",   "phi - psi",            "Psi1 G H phi",               "MM proof of eq. 44"),
    t("Identity 5",         "(I + H Phi1 G)^-1",    "I - H Psi1 G",               "MM eq. 45"),
    t("Identity 6",         "mass_matrix^-1",       "(I - H Psi1 G)* D^-1 (I - H Psi1 G)", "MM eq. 46"),
]

# ---- only as printed ---------------------------------------------------------------------------
_PRINTED = [
    # name      before            after             source
    ("(a.8)",   "psi~",           "Psi Lam_psi",     _RECONSTRUCTED),
    ("(a.9)",   "phi~",           "Phi Lam_phi",     _RECONSTRUCTED),
    ("(a.10)",  "psi",            "I + Psi Lam_psi", _RECONSTRUCTED),
    ("(a.11)",  "phi",            "I + Phi Lam_phi", _RECONSTRUCTED),
    ("(a.13)",  "Phi L",          "phi~ G",          "88-11 A.1 (reconstructed, used in proofs)"),
    ("(a.46)",  "psi M phi*",     "P + psi~ P + P phi~*", "88-11 a.46"),
    ("(a.48)",  "phi M phi*",     "P + phi~ P + P phi~* + phi~ P H* D^-1 H P phi~*", "88-11 a.48"),
    ("(a.49)",  "P",              "E_phi P E_phi* + (M - theta)", "88-11 a.49"),
    ("A.6 proof", "phi theta phi*", "phi~ P H* D^-1 H P phi~*", "88-11 A.6"),
]

# ---- in both forms -----------------------------------------------------------------------------
_BOTH = [
    ("(a.14)", "phi",           "psi (I + SL H phi)"),
    ("(a.15)", "psi",           "(I - Psi L H) phi"),
    ("(a.16)", "Phi",           "Psi (I + L H Phi)"),
    ("(a.17)", "Psi",           "(I - Psi L H) Phi"),
    ("(a.18)", "phi - psi",     "Psi L H phi"),
    ("(a.18), second form", "phi - psi", "psi SL H phi"),
    ("(a.22)", "phi",           "(I + Phi L H) psi"),
    ("(a.23)", "psi",           "phi (I - SL H psi)"),
    ("(a.24)", "Phi",           "(I + Phi L H) Psi"),
    ("(a.25)", "Psi",           "Phi (I - L H Psi)"),
    ("(a.26)", "Phi L H psi",   "Psi L H phi"),
    ("(a.27)", "Phi L H Psi",   "Psi L H Phi"),
    ("(a.28)", "phi - psi",     "Phi L H psi"),
    ("(a.28), second form", "phi - psi", "phi SL H psi"),
    ("(a.32)", "H phi",         "(I + H Phi L) H psi"),
    ("(a.33)", "H Phi",         "(I + H Phi L) H Psi"),
    ("(a.34)", "H Psi",         "H Phi (I - L H Psi)"),
    ("(a.35)", "H psi",         "(I - H Psi L) H phi"),
    ("(a.36)", "H Psi",         "(I - H Psi L) H Phi"),
    ("(a.37)", "H Phi",         "H Psi (I + L H Phi)"),
    ("(a.38)", "H Phi L H Psi", "H Psi L H Phi"),
    ("(a.39)", "Phi L",         "Psi L (I + H Phi L)"),
    ("(a.40)", "Psi L",         "(I - Psi L H) Phi L"),
    ("(a.41)", "Psi L",         "Phi L (I - H Psi L)"),
    ("(a.42)", "Phi L",         "(I + Phi L H) Psi L"),
    ("(a.43)", "Phi L H Psi L", "Psi L H Phi L"),
    ("(a.50)", "(I - H Psi L)* D^-1 H psi M phi*",
               "(I - H Psi L)* D^-1 H psi~ P + L* Psi* (I - G H)* + G*"),
    ("(a.51)", "(I - H Psi L)* D^-1 H P (I + phi~*)", "L* Psi* (I - G H)* + G*"),
    ("(Fact 4.1)",     "mass_matrix",                    "(I + H Phi L) D (I + H Phi L)*"),
    ("(Fact 4.2)",     "(I + H Phi L) (I - H Psi L)",    "I"),
    ("(Theorem 4.1)",  "mass_matrix^-1",                 "(I - H Psi L)* D^-1 (I - H Psi L)"),
    ("(Identity 5.1)", "(I - H Psi L) H phi",            "H psi"),
]
# fmt: on

APPENDIX: list[Identity] = [
    *(t(n, left, right, source, convention="88-11") for n, left, right, source in _PRINTED),
    *(t(n, left, right, _APP, convention="88-11") for n, left, right in _BOTH),
    *(t(f"{n} [MM form]", left, right, _READ, convention="MM") for n, left, right in _BOTH),
]

FACTORIZATIONS = [*PROPAGATION, *COMPOSITE, *RICCATI, *ROTORS, *FACTORIZATION, *MM_FORMS, *APPENDIX]
