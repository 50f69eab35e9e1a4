# pyright: basic
# ruff: noqa: E501  (tables: one row, one line)
"""Single blocks, series, numberings and sums along paths: statements below the operator level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phipsi.expressions.node import Expr
from phipsi.operators import E_phi, E_psi, G, H, Omega, Upsilon, mass_matrix, parse, phi, psi
from phipsi.rewrite.identity import Array, Case, Claim, Identity, claim, gathered, stacked
from phipsi.rewrite.theorems_blocks import blocks, bodies, from_blocks, lever, riccati
from phipsi.rewrite.theorems_symbols import checked, vocabulary
from phipsi.spatial import skew

_WORDS = vocabulary("88-11").leaves


def _world(case: Case, expr: Expr) -> Array:
    """The blocks (n, n, 6, 6) of an operator on bodies, in world axes."""
    return blocks(case.dense(expr, axes="inertial"), case.model.n_bodies)


def _positions(case: Case) -> Array:
    return case.dense(parse("pose"))[:, :3, 3]


# ---- rigid transformations ---------------------------------------------------------------------


def _rigid_unit(case: Case) -> Claim:
    return claim(lever(np.zeros(3)), np.eye(6))


def _rigid_inverse(case: Case) -> Claim:
    offset = case.random(3)
    return claim(np.linalg.inv(lever(offset)), lever(-offset))


def _rigid_chain(case: Case) -> Claim:
    first, second = case.random(2, 3)
    return claim(lever(first) @ lever(second), lever(first + second))


def _moves_velocity(case: Case) -> Claim:
    offset, w, v = case.random(3, 3)
    return claim(
        lever(offset).T @ np.concatenate([w, v]), np.concatenate([w, v + np.cross(w, offset)])
    )


def _moves_force(case: Case) -> Claim:
    offset, N, F = case.random(3, 3)
    return claim(
        lever(offset) @ np.concatenate([N, F]), np.concatenate([N + np.cross(offset, F), F])
    )


def _parallel_axis(case: Case) -> Claim:
    claims = []
    for k, inertia in enumerate(case.model.inertias):
        M_O = case.model.inertia_matrices[k]
        m, p = inertia.mass, inertia.com_B
        about_com = M_O[:3, :3] + m * skew(p) @ skew(p)
        none = case.zeros(3, 3)
        M_C = np.block([[about_com, none], [none, m * np.eye(3)]])
        claims.append(claim(lever(p) @ M_C @ lever(p).T, M_O))
    return stacked(claims)


# ---- series, blocks, numbering -----------------------------------------------------------------


def _series(case: Case) -> Claim:
    step, n = case.dense(E_phi), case.model.n_bodies
    x = case.random(6 * n)
    power, total = x, case.zeros(6 * n)
    for _ in range(n):
        total, power = total + power, step @ power
    return claim(case.dense(parse("(I - E_phi)^-1")) @ x, total)


def _nilpotent(step: Expr) -> Callable[[Case], Claim]:
    def check(case: Case) -> Claim:
        matrix = case.dense(step)
        power = case.random(6 * case.model.n_bodies)
        for _ in range(case.model.n_bodies):
            power = matrix @ power
        return claim(power, np.zeros_like(power))

    return check


def _phi_blocks(case: Case) -> Claim:
    at, tree, n = _positions(case), case.model.tree, case.model.n_bodies
    expected = case.zeros(n, n, 6, 6)
    for j in range(n):
        for i in tree.path(j):
            expected[i, j] = lever(at[j] - at[i])
    return claim(_world(case, phi), expected)


def _renumbering(case: Case) -> Claim:
    n = case.model.n_bodies
    order = case.rng.permutation(n)
    step, full = _world(case, E_phi)[order][:, order], _world(case, phi)[order][:, order]
    inverse = np.linalg.inv(case.eye(6 * n) - from_blocks(step))
    return claim(inverse, from_blocks(full))


def _tip_first(case: Case) -> Claim:
    full = blocks(case.dense(phi, order="tip_to_base"), case.model.n_bodies)
    above = full[np.triu_indices(case.model.n_bodies, 1)]
    return claim(above, np.zeros_like(above))


def _base_first(case: Case) -> Claim:
    full = blocks(case.dense(phi), case.model.n_bodies)
    below = full[np.tril_indices(case.model.n_bodies, -1)]
    return claim(below, np.zeros_like(below))


def _square_root(case: Case) -> Claim:
    """M = L Δ L*, so M^(1/2) = L Δ^(1/2); the root of Δ ≥ 0 stands between and need not be taken."""
    inertias = [_factored(case, x) for x in case.model.inertia_matrices]
    lower, pivots = (
        (gathered(case, x, 6, 6) for x in zip(*inertias, strict=True))
        if inertias
        else (
            case.zeros(0, 6, 6),
            case.zeros(0, 6, 6),
        )
    )
    factor = case.dense(H @ phi) @ _diagonal_matrix(lower)
    whole = factor @ _diagonal_matrix(pivots) @ factor.T
    return claim(case.dense(mass_matrix), whole + np.diag(case.model.armature))


def _factored(case: Case, inertia: Array) -> tuple[Array, Array]:
    """L and Δ of a symmetric matrix; where a pivot is zero, so is the column."""
    rest, lower, pivots = inertia.copy(), case.eye(6), case.zeros(6, 6)
    for i in range(6):
        pivots[i, i] = rest[i, i]
        if np.asarray(rest[i, i]).any():
            lower[i + 1 :, i] = rest[i + 1 :, i] / rest[i, i]
            rest = rest - np.outer(lower[:, i], rest[i]) * (np.arange(6) > i)[:, None]
    return lower, pivots


# ---- MM and 88-11: blocks of Φ, Ψ, L ------------------------------------------------------


def _outer_blocks(case: Case, inner: Array, weight: Array | None = None) -> Array:
    """Blocks X(i, parent(j)) of X, times a block of j if there is a weight."""
    out = np.zeros_like(inner)
    for j, p in enumerate(case.model.parent):
        if p >= 0:
            out[:, j] = inner[:, p] if weight is None else inner[:, p] @ weight[j]
    return out


def _along_path(case: Case, step: Array) -> Array:
    """The product of `step` blocks along the path from j up to its ancestor i, I for i = j."""
    n = case.model.n_bodies
    out = case.zeros(n, n, 6, 6)
    for j in range(n):
        block, i = case.eye(6), j
        out[j, j] = block
        while case.model.parent[i] >= 0:
            block, i = step[i] @ block, case.model.parent[i]
            out[i, j] = block
    return out


def _psi1_blocks(case: Case) -> Claim:
    w = bodies(case)
    psi_blocks = _along_path(case, riccati(w).psi)
    return claim(_world(case, _WORDS["Psi1"]), _outer_blocks(case, psi_blocks, w.step))


def _phi3(case: Case) -> Claim:
    return claim(_world(case, _WORDS["Phi3"]), _outer_blocks(case, _world(case, phi)))


def _psi3(case: Case) -> Claim:
    return claim(_world(case, _WORDS["Psi3"]), _outer_blocks(case, _world(case, psi)))


def _phi3_blocks(case: Case) -> Claim:
    at, tree, n = _positions(case), case.model.tree, case.model.n_bodies
    expected = case.zeros(n, n, 6, 6)
    for j in range(n):
        for i in tree.path(j)[1:]:
            expected[i, j] = lever(at[case.model.parent[j]] - at[i])
    return claim(_world(case, _WORDS["Phi3"]), expected)


def _psi3_blocks(case: Case) -> Claim:
    psi_blocks = _along_path(case, riccati(bodies(case)).psi)
    return claim(_world(case, _WORDS["Psi3"]), _outer_blocks(case, psi_blocks))


def _gain_blocks(case: Case) -> Claim:
    w = bodies(case)
    dense, gains = case.dense(_WORDS["L"], axes="inertial"), case.dense(G, axes="inertial")
    claims = []
    for k, p in enumerate(w.parent):
        if p >= 0:
            body, s = slice(6 * k, 6 * k + 6), w.hinge[k]
            claims.append(claim(dense[body, s], w.step[k] @ gains[body, s]))
    return stacked(claims)


def _telescope(left: Expr, right: Expr, by_gain: bool) -> Callable[[Case], Claim]:
    """Σ along the path of m of left(k,i+) right(i+,m) − left(k,i) right(i,m).

    Compared with left(k,·) − …, i.e. right − left at (k, m), or with the sum of
    ± left(k,i+) L(i) H(i) right(i,m).
    """
    sign = 1.0 if left is psi else -1.0

    def check(case: Case) -> Claim:
        w, tree = bodies(case), case.model.tree
        r = riccati(w)
        X, Y = _world(case, left), _world(case, right)
        F, S = _world(case, phi), _world(case, psi)
        claims = []
        for m in range(w.n):
            path = tree.path(m)
            terms = {i: X[path, i] @ Y[i, m] for i in path}  # for all k on the path at once
            gains = {i: X[path, w.parent[i]] @ r.K[i] @ w.H[i] @ Y[i, m] for i in path[:-1]}
            for at, k in enumerate(path):
                total, gained = case.zeros(6, 6), case.zeros(6, 6)
                i = m
                while i != k:
                    up = w.parent[i]
                    total += terms[up][at] - terms[i][at]
                    gained += sign * gains[i][at]
                    i = up
                expected = gained if by_gain else sign * (F[k, m] - S[k, m])
                claims.append(claim(total, expected))
        return stacked(claims)

    return check


# ---- Lemma A.1, its dual, and Omega ------------------------------------------------------------


def _lemma_a1(case: Case) -> Claim:
    """psi_a X psi_b* = r + psi_a~ r + r psi_b~*, with φ, ψ and a random transition operator."""
    w = bodies(case)
    X = case.random(w.n, 6, 6)
    random_step = case.random(w.n, 6, 6)
    steps = {"phi": w.step, "psi": riccati(w).psi, "any": random_step}
    claims = []
    for a, b in (("psi", "phi"), ("phi", "phi"), ("psi", "psi"), ("any", "phi")):
        r = X.copy()
        for k in reversed(range(w.n)):
            if w.parent[k] >= 0:
                r[w.parent[k]] += steps[a][k] @ r[k] @ steps[b][k].T
        left = from_blocks(_along_path(case, steps[a]))
        right = from_blocks(_along_path(case, steps[b]))
        eye = case.eye(6 * w.n)
        full, diagonal = _diagonal_matrix(X), _diagonal_matrix(r)
        decomposed = diagonal + (left - eye) @ diagonal + diagonal @ (right - eye).T
        claims.append(claim(left @ full @ right.T, decomposed))
    return stacked(claims)


def _lemma_a1_dual(case: Case) -> Claim:
    """(psi_a* X psi_b)(i,j) = psi_a*(c,i) Y(c) psi_b(c,j), c the nearest common ancestor."""
    w = bodies(case)
    X = case.random(w.n, 6, 6)
    other = case.random(w.n, 6, 6)
    first, second = riccati(w).psi, other
    Y = X.copy()
    for k, p in enumerate(w.parent):
        if p >= 0:
            Y[k] += first[k].T @ Y[p] @ second[k]
    left, right = _along_path(case, first), _along_path(case, second)
    full = from_blocks(left).T @ _diagonal_matrix(X) @ from_blocks(right)
    return claim(full, from_blocks(_through_ancestors(case, left, Y, right)))


def _omega_blocks(case: Case) -> Claim:
    w, n = bodies(case), case.model.n_bodies
    path = _along_path(case, riccati(w).psi)
    upsilon = _world(case, Upsilon)
    diagonal = gathered(case, [upsilon[k, k] for k in range(n)], 6, 6)
    expected = from_blocks(_through_ancestors(case, path, diagonal, path))
    return claim(from_blocks(_world(case, Omega)), expected)


def _through_ancestors(case: Case, left: Array, middle: Array, right: Array) -> Array:
    tree, n = case.model.tree, case.model.n_bodies
    out = case.zeros(n, n, 6, 6)
    for i in range(n):
        for j in range(n):
            c = tree.nearest_common_ancestor(i, j)
            if c >= 0:
                out[i, j] = left[c, i].T @ middle[c] @ right[c, j]
    return out


def _diagonal_matrix(values: Array) -> Array:
    out = np.zeros_like(values, shape=(len(values), len(values), 6, 6))
    for k, block in enumerate(values):
        out[k, k] = block
    return from_blocks(out)


_LOST = "88-11 App. A (a.20, a.21 lost in the scan)"

# fmt: off
ELEMENTS: list[Identity] = [
    checked("phi unit",    "phi(x,x) = I",                  "MM eq. 4-5; 88-11 eq. 3.2-3.3", _rigid_unit, rigid=True),
    checked("phi inverse", "phi(x,y)^-1 = phi(y,x)",        "MM eq. 4-5; 88-11 eq. 3.2-3.3", _rigid_inverse, rigid=True),
    checked("phi chain",   "phi(x,z) phi(z,y) = phi(x,y)",  "MM eq. 4-5; 88-11 eq. 3.2-3.3", _rigid_chain, rigid=True),
    checked("phi* moves velocity", "phi*(x,y) [w; v] = [w; v + w x l(x,y)]", "SOA", _moves_velocity, rigid=True),
    checked("phi moves force", "phi(x,y) [N; F] = [N + l x F; F]",           "SOA", _moves_force, rigid=True),
    checked("parallel axis", "phi(O,C) M(C) phi*(O,C) = M(O)",               "SOA; MM eq. 2", _parallel_axis, rigid=True),
    checked("phi series",    "(I - E_phi)^-1 = sum_p E_phi^p",               "SOA eq. 0.6, 0.12", _series, rigid=True),
    checked("nilpotent",     "E_phi^n = 0",                                  "SOA", _nilpotent(E_phi), rigid=True),
    checked("nilpotent psi", "E_psi^n = 0",                                  "SOA eq. 0.27", _nilpotent(E_psi)),
    checked("phi blocks",    "phi(i,j) = phi(l(i,j)) if i is j or an ancestor of j, else 0", "SOA eq. 0.13", _phi_blocks, rigid=True),
    checked("renumbering",   "(I - Pi E_phi Pi*)^-1 = Pi phi Pi*",           "theory/open-chains 3", _renumbering, rigid=True),
    checked("tip-first numbers",  "phi above the block diagonal = 0 (lower triangular = causal)", "SOA", _tip_first, rigid=True),
    checked("base-first numbers", "phi below the block diagonal = 0 (upper triangular)", "theory/open-chains 3", _base_first, rigid=True),
    checked("square-root factor", "mass_matrix = (H phi M^(1/2)) (H phi M^(1/2))* + Jr", "MM sec. X.A", _square_root, rigid=True),
    checked("MM Psi blocks", "Psi(i,j) = psi(i,parent(j)) phi(parent(j),j)", "MM eq. 41", _psi1_blocks),
    checked("(a.6)",         "Phi = phi S",                                  "88-11 A.1 (reconstructed)", _phi3, rigid=True),
    checked("(a.7)",         "Psi = psi S",                                  "88-11 A.1 (reconstructed)", _psi3),
    checked("(4.9) blocks",  "Phi(i,j) = phi(i,parent(j)), i a strict ancestor of j", "88-11 eq. 4.9", _phi3_blocks, rigid=True),
    checked("(4.10) blocks", "Psi(i,j) = psi(i,parent(j)), i a strict ancestor of j", "88-11 eq. 4.10", _psi3_blocks),
    checked("(a.12)",        "L = Lam_phi G, block k = phi(parent(k),k) G(k)", "88-11 A.1 (reconstructed)", _gain_blocks),
    checked("(a.19)-(a.20)", "sum_i [psi(k,i+) phi(i+,m) - psi(k,i) phi(i,m)] = phi(k,m) - psi(k,m)", _LOST,
            _telescope(psi, phi, False)),
    checked("(a.21)",        "the same sum = sum_i psi(k,i+) L(i) H(i) phi(i,m)", _LOST, _telescope(psi, phi, True)),
    checked("(a.29)-(a.30)", "sum_i [phi(k,i+) psi(i+,m) - phi(k,i) psi(i,m)] = -(phi(k,m) - psi(k,m))",
            "88-11 App. A; sign derived", _telescope(phi, psi, False)),
    checked("(a.31)",        "the same sum = - sum_i phi(k,i+) L(i) H(i) psi(i,m)", _LOST, _telescope(phi, psi, True)),
    checked("Lemma A.1 (a.45)", "psi_a X psi_b* = r + psi_a~ r + r psi_b~*, any two transition operators", "88-11 a.44-a.45", _lemma_a1),
    checked("Lemma A.1 dual", "(psi_a* X psi_b)(i,j) = psi_a*(c,i) Y(c) psi_b(c,j), Y(k) = X(k) + psi_a*(p,k) Y(p) psi_b(p,k)",
            "derived", _lemma_a1_dual),
    checked("Omega blocks",  "Omega(i,j) = psi*(c,i) Upsilon(c) psi(c,j), c = nearest common ancestor (0 if none)",
            "derived; completes SOA eq. .43", _omega_blocks),
]
# fmt: on
