# pyright: basic
# ruff: noqa: E501  (tables: one row, one line)
"""The lemmas on mass-matrix sensitivities block by block, as the paper prints them.

`theorems_sensitivity` has the operator forms. Here are the components: one block φ(k, j), one
element of the mass matrix, one Christoffel symbol, all about the body origins in world axes.
"""

from __future__ import annotations

import numpy as np

from phipsi.operators import E_phi, H, M, R, mass_matrix, parse, phi
from phipsi.rewrite.identity import Array, Case, Claim, Identity, claim, stacked
from phipsi.rewrite.theorems_bias import gradient, gradient_at, rate
from phipsi.rewrite.theorems_blocks import blocks
from phipsi.rewrite.theorems_sensitivity import ONE_DOF, REVOLUTE, View
from phipsi.rewrite.theorems_symbols import checked
from phipsi.spatial import crf


def _turned(view: View, i: int) -> Array:
    """𝓗(i) = S[H*(i)], 6 × 6."""
    return crf(view.axes[i])


def _compositions(case: Case) -> Claim:
    """𝓗 X and X 𝓗 block by block, for any X; 𝓗ⁱ = 𝓗ⁱ_s + 𝓗ⁱ_d. All i at once, at random rates."""
    view, rates = View(case), case.random(case.model.nv)
    n, X, Y = view.n, *case.random(2, 6 * view.n, 6 * view.n)
    x, y = blocks(X, n), blocks(Y, n)
    claims, picks = [], {}
    for which in ("", "s", "d"):
        picks[which], turns = view.picked(rates, which), case.zeros(n, 6, 6)
        for i, own in enumerate(view.owner):
            met = [k for k in range(n) if _meets(view, k, own, which)]
            turns[met] = turns[met] + rates[i] * _turned(view, i)
        claims.append(claim(blocks(picks[which] @ X, n), turns[:, None] @ x))
        claims.append(claim(blocks(X @ picks[which], n), x @ turns[None]))
    claims.append(claim(picks[""], picks["s"] + picks["d"]))
    z, both = case.random(6 * n), case.zeros(n, 6)
    seen = (y @ z.reshape(n, 6, 1)[None]).sum(axis=1)[..., 0]  # Y z, by bodies
    for i, own in enumerate(view.owner):
        both = both + x[:, own] @ (rates[i] * _turned(view, i) @ seen[own])
    claims.append(claim((X @ picks["d"] @ Y @ z).reshape(n, 6), both))
    return stacked(claims)


def _meets(view: View, k: int, own: int, which: str) -> bool:
    """Whether 𝓗ⁱ, 𝓗ⁱ_s or 𝓗ⁱ_d has a block at body k."""
    return bool(view.outboard[k, own]) and which in ("", "d" if k == own else "s")


def _picks_by_shift(case: Case) -> Claim:
    """𝓗ⁱ_s = S* 𝓗ⁱ S and Ω_s~ = S* Ω~ S on a serial chain; 𝓗 is skew."""
    view = View(case)
    S = view.value(parse("shift"))
    claims = [claim(view.spin("s"), S.T @ view.spin() @ S)]
    for i in range(view.nv):
        claims.append(claim(view.pick(i, "s"), S.T @ view.pick(i, "") @ S))
        claims += [claim(view.pick(i, w).T, -view.pick(i, w)) for w in ("", "s", "d")]
    return stacked(claims)


def _joined(case: Case) -> list[tuple[int, int]]:
    """Bodies and their parents, where there is one."""
    return [(k, p) for k, p in enumerate(case.model.parent) if p >= 0]


def _component_rates(case: Case) -> Claim:
    """Ṁ(k), Ḣ*(k) and φ̇(p, k)."""
    view = View(case)
    n = view.n
    spin = np.einsum("kkij->kij", blocks(view.spin(), n))
    m, step = blocks(view.value(M), n), blocks(view.value(E_phi), n)
    dm, dstep = (blocks(rate(case, x, axes="inertial"), n) for x in (M, E_phi))
    axes, daxes = view.value(H.T), rate(case, H.T, axes="inertial")
    claims = [claim(dm[k, k], spin[k] @ m[k, k] - m[k, k] @ spin[k]) for k in range(n)]
    for k, p in _joined(case):
        claims.append(claim(dstep[p, k], spin[p] @ step[p, k] - step[p, k] @ spin[p]))
        rows = slice(6 * k, 6 * k + 6)
        claims.append(claim(daxes[rows], spin[p] @ axes[rows]))
    return stacked(claims)


def _component_sensitivities(case: Case) -> Claim:
    """L_i of φ(p, k), H*(k) and M(k)."""
    view = View(case)
    n = view.n
    m, step, axes = blocks(view.value(M), n), blocks(view.value(E_phi), n), view.value(H.T)
    moved_m, moved_step, moved_axes = (view.change(x) for x in (M, E_phi, H.T))
    claims = []
    for i, own in enumerate(view.owner):
        turn = _turned(view, i)
        dm, dstep = blocks(moved_m[..., i], n), blocks(moved_step[..., i], n)
        for k in range(n):
            inside, strictly = _meets(view, k, own, ""), _meets(view, k, own, "s")
            claims.append(claim(dm[k, k], inside * (turn @ m[k, k] - m[k, k] @ turn)))
            rows = slice(6 * k, 6 * k + 6)
            claims.append(claim(moved_axes[rows, :, i], strictly * (turn @ axes[rows])))
            p = case.model.parent[k]
            if p >= 0:
                x = step[p, k]
                claims.append(claim(dstep[p, k], strictly * (turn @ x - x @ turn)))
    return stacked(claims)


def _propagation_components(case: Case) -> Claim:
    """L_i φ(k, j), which is zero unless j is outboard of i."""
    view = View(case)
    n = view.n
    F, moved = blocks(view.value(phi), n), view.change(phi)
    claims = []
    for i, own in enumerate(view.owner):
        turn, change = _turned(view, i), blocks(moved[..., i], n)
        for k, j in np.ndindex(n, n):
            expected = case.zeros(6, 6)
            if view.outboard[j, own] and j != own:
                if view.outboard[own, k]:
                    expected = expected + F[k, own] @ turn @ F[own, j]
                expected = expected - F[k, j] @ turn
                if view.outboard[k, own] and k != own:
                    expected = expected + turn @ F[k, j]
            claims.append(claim(change[k, j], expected))
    return stacked(claims)


def _rate_of_velocities(case: Case) -> Claim:
    """d/dt (H φ) = H φ (Ω_d~ φ − Ω~)."""
    view = View(case)
    F, axes = view.value(phi), view.value(H.T)
    inner, outer = view.spin(), view.spin("s")
    moved = rate(case, H @ phi, axes="inertial")
    return claim(moved, axes.T @ F @ ((inner - outer) @ F - inner))


def _decomposition(case: Case) -> Claim:
    """ℳ = H R H* + H φ~ R H* + H R φ~* H*, and its elements H(i) φ(i, j) R(j) H*(j)."""
    view = View(case)
    F, whole, axes = view.value(phi), view.value(R), view.value(H.T)
    tilde = F - case.eye(len(F))
    rotors = np.diag(case.model.armature)
    matrix = case.dense(mass_matrix)
    three = axes.T @ (whole + tilde @ whole + whole @ tilde.T) @ axes + rotors
    out, f, r = rotors.copy(), blocks(F, view.n), blocks(whole, view.n)
    for a, b in np.ndindex(view.nv, view.nv):
        i, j = view.owner[a], view.owner[b]
        if view.outboard[j, i]:
            element = view.axes[a] @ f[i, j] @ r[j, j] @ view.axes[b]
        elif view.outboard[i, j]:
            element = view.axes[b] @ f[j, i] @ r[i, i] @ view.axes[a]
        else:
            continue
        out[a, b] += element
    return stacked([claim(matrix, three), claim(matrix, out)])


class _Bodies(View):
    """What lemmas 5.3 and 5.4 are made of: blocks of φ and R, axes of one-dof joints."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.F = blocks(self.value(phi), self.n)
        self.R = np.einsum("kkij->kij", blocks(self.value(R), self.n))
        self.body = np.array(self.owner, dtype=int)

    def outside(self, i: int, j: int) -> bool:
        """Dof i strictly outboard of dof j."""
        return i != j and bool(self.outboard[self.owner[i], self.owner[j]])

    def within(self, i: int, j: int) -> bool:
        """Dof i outboard of dof j, or the same."""
        return bool(self.outboard[self.owner[i], self.owner[j]])

    def sensitivity(self, i: int, j: int, k: int) -> Array:
        """L_i ℳ(k, j) by lemma 5.3, about the body origins."""
        a, b, c = (self.owner[x] for x in (i, j, k))
        turn, out = crf(self.axes[i]), self.case.zeros(6, 6)
        if self.outside(i, k) and self.outside(i, j):
            inner = turn @ self.R[a] + self.R[a] @ turn.T
            out = out + self.F[c, a] @ inner @ self.F[b, a].T
        if self.within(j, i) and self.outside(i, k):
            out = out + self.F[c, a] @ turn @ self.F[a, b] @ self.R[b]
        if self.within(k, i) and self.outside(i, j):
            out = out + self.R[c] @ self.F[a, c].T @ turn.T @ self.F[b, a].T
        return self.axes[k] @ out @ self.axes[j]


def _elements(case: Case) -> Claim:
    """Lemma 5.3 about the body origins, with + 𝓗* for the paper's − 𝓗."""
    view = _Bodies(case)
    moved = gradient(case, lambda q: case.dense(mass_matrix, q=q))
    expected = np.zeros_like(moved)
    for i, j, k in np.ndindex(moved.shape):
        expected[k, j, i] = view.sensitivity(i, j, k)
    return stacked([claim(moved, expected), claim(expected, np.swapaxes(expected, 0, 1))])


def _christoffel_elements(case: Case) -> Claim:
    """Lemma 5.4: C_i(j, k) for j inboard of both, by R of the bodies i and k."""
    view = _Bodies(case)
    L = gradient(case, lambda q: case.dense(mass_matrix, q=q))
    C = (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, -1, 0)) / 2
    claims = []

    def half(k: int, i: int, j: int) -> Array:
        """φ(j,k) [𝓗(k) R(k) + R(k) 𝓗(k)*] φ*(i,k) or φ(j,k) 𝓗(k) φ(k,i) R(i), then H*(i)."""
        a, b, c = (view.owner[x] for x in (k, i, j))
        turn = crf(view.axes[k])
        if view.outside(k, i):
            inner = turn @ view.R[a] + view.R[a] @ turn.T
            return view.F[c, a] @ inner @ view.F[b, a].T @ view.axes[i]
        if view.within(i, k):
            return view.F[c, a] @ turn @ view.F[a, b] @ view.R[b] @ view.axes[i]
        return case.zeros(6)

    for i, j, k in np.ndindex(C.shape):
        if view.outside(i, j) and view.outside(k, j):
            value = view.axes[j] @ (half(k, i, j) - half(i, k, j)) / 2
            claims.append(claim(C[i, j, k], value))
    return stacked(claims)


def _dependence(case: Case) -> Claim:
    """C_i(j, k) depends on coordinates strictly outboard of the innermost of the three only."""
    view = _Bodies(case)
    nv = view.nv
    moved = case.random(nv)

    def symbols(q: Array) -> Array:
        L = gradient_at(case, lambda at: case.dense(mass_matrix, q=at), q)
        return (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, -1, 0)) / 2

    before, claims = symbols(case.q), []
    for m in range(nv):  # all that is not strictly outboard of dof m moves
        inner = np.array([not view.outside(a, m) for a in range(nv)])
        after = symbols(case.q + inner.astype(float) * moved)
        for i, j, k in np.ndindex(before.shape):
            if m in (i, j, k) and all(view.within(x, m) for x in (i, j, k)):
                claims.append(claim(after[i, j, k], before[i, j, k]))
    return stacked(claims)


# fmt: off
COMPONENTS: list[Identity] = [
    checked("Lemma 2.4", "[H^i X](k,j) = H(i) X(k,j) for k at or outboard of i, and so for X H^i, H_s^i, H_d^i; [X H_d^i Y](k,j) = X(k,i) H(i) Y(i,j)", "MS lemma 2.4, eq. 2.11-2.14 corrected", _compositions, rigid=True),
    checked("pick-offs by the shift", "H_s^i = S* H^i S, Omega_s~ = S* Omega~ S; H^i, H_s^i and H_d^i are skew", "MS eq. 2.14, 2.18", _picks_by_shift, "serial, revolute", rigid=True),
    checked("Lemma 3.1", "Mdot(k) = Omega~(k) M(k) - M(k) Omega~(k), Hdot*(k) = Omega~(p) H*(k), phidot(p,k) = Omega~(p) phi(p,k) - phi(p,k) Omega~(p)", "MS eq. 3.19-3.21", _component_rates, REVOLUTE, rigid=True),
    checked("Lemma 3.2", "L_i phi(p,k) = H(i) phi(p,k) - phi(p,k) H(i) and L_i H*(k) = H(i) H*(k) for k outboard of i, L_i M(k) = H(i) M(k) - M(k) H(i) also at i; else 0", "MS eq. 3.25-3.27 corrected", _component_sensitivities, REVOLUTE, rigid=True),
    checked("Lemma 3.4, components", "L_i phi(k,j) = phi(k,i) H(i) phi(i,j) [k inboard of i] - phi(k,j) H(i) + H(i) phi(k,j) [k outboard of i], for j outboard of i", "MS eq. 3.38", _propagation_components, REVOLUTE, rigid=True),
    checked("Lemma 3.5, rate", "d/dt (H phi) = H phi (Omega_d~ phi - Omega~)", "MS eq. 3.41", _rate_of_velocities, REVOLUTE, rigid=True),
    checked("Lemma 5.1", "mass_matrix = H R H* + H phi~ R H* + H R phi~* H* + Jr, mass_matrix(i,j) = H(i) phi(i,j) R(j) H*(j)", "MS eq. 5.45-5.46", _decomposition, rigid=True),
    checked("Lemma 5.3 about the bodies", "L_i mass_matrix(j,k) by phi(k,i) [H(i) R(i) + R(i) H*(i)] phi*(j,i), phi(k,i) H(i) phi(i,j) R(j) and its adjoint", "MS lemma 5.3", _elements, ONE_DOF, rigid=True),
    checked("Lemma 5.4", "2 C_i(j,k) = H(j) {phi(j,k) [H(k) R(k) + R(k) H*(k)] phi*(i,k) or phi(j,k) H(k) phi(k,i) R(i)} H*(i) - the same with i and k exchanged, j inboard of both", "MS lemma 5.4", _christoffel_elements, ONE_DOF, rigid=True),
    checked("what Christoffel symbols depend on", "C_i(j,k) is a function of the coordinates strictly outboard of the innermost of i, j, k", "MS sec. 5.3", _dependence, ONE_DOF, rigid=True),
]
# fmt: on
