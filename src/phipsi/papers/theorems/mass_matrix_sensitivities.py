# ruff: noqa: E501  (tables: one row, one line)
"""Sensitivities of the operators and of the mass matrix: the lemmas of MS, and beyond.

The paper is about serial chains of revolute joints, in world axes, with the operators about the
body origins. Its shift operator obeys other rules on a tree, its 𝓗 is skew for revolute joints
only: those statements are conditional here, next to forms for all trees and joints, which are about
the world's origin I, where φ becomes T, all ones and zeros (theory/sensitivities 2.1, 3).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from phipsi.core.expressions import Expr
from phipsi.core.operators import E_phi, H, M, P, R, Upsilon, V, mass_matrix, parse, phi, pose
from phipsi.core.rewrite import Claim, Identity
from phipsi.core.spatial import crf, crm, crq, phi as rigid, skew
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.theorems.paper_symbols import checked, theorem as t
from phipsi.papers.theorems.theorem_values import (
    BIAS,
    Array,
    along,
    blocks,
    diagonal,
    from_blocks,
    from_diagonal,
    gathered,
    gradient,
    inertial,
    joined,
    lever,
    rate,
    stacked,
)

REVOLUTE, ONE_DOF = "revolute", "one dof"


class WorldAxesState:
    """One mechanism in one state, in world axes about the body origins."""

    def __init__(self, case: ProofState) -> None:
        self.case, self.n, self.nv = case, case.model.n_bodies, case.model.nv
        self.owner = [k for k, joint in enumerate(case.model.joints) for _ in range(joint.nv)]
        self.outboard = np.zeros((self.n, self.n), dtype=bool)  # [k, i]: k is i or outboard of it
        for k in range(self.n):
            self.outboard[k, case.model.tree.path(k)] = True
        inboard = self.outboard[:, self.owner]  # [k, i]: rate i moves body k
        mine = np.arange(self.n)[:, None] == np.array(self.owner, dtype=int)
        self.moved = {"": inboard, "s": inboard & ~mine, "d": mine}

    def value(self, expr: Expr) -> Array:
        """An operator or vector in world axes."""
        return inertial(self.case, expr)

    def change(self, expr: Expr, rates: Array) -> Array:
        """The derivative of an operator along rates: Σ rate_i L_i."""
        return along(self.case, lambda q: inertial(self.case, expr, q=q), rates)

    def change_of_mass_matrix(self) -> Array:
        """L_i ℳ(j, k), [j, k, i]."""
        return gradient(self.case, lambda q: self.case.dense(mass_matrix, q=q))

    def christoffel(self) -> Array:
        """C_i(j, k) = ½ (L_k ℳ_ij + L_j ℳ_ik − L_i ℳ_jk), [i, j, k]."""
        return _christoffel_of(self.change_of_mass_matrix())

    @cached_property
    def axes(self) -> Array:
        """H* of every rate at its body, (nv, 6)."""
        columns = self.value(H.T)
        found = [columns[6 * k : 6 * k + 6, i] for i, k in enumerate(self.owner)]
        return gathered(self.case, found, 6)

    def picked(self, rates: Array, which: str) -> Array:
        """Σ rate_i 𝓗ⁱ, and so for 𝓗ⁱ_s and 𝓗ⁱ_d: S[H*] at the bodies outboard of its joint."""
        return from_diagonal(crf(self.moved[which].astype(float) @ (rates[:, None] * self.axes)))

    def picks(self, rates: Array) -> list[Array]:
        """Those three for the same rates."""
        return [self.picked(rates, which) for which in ("", "s", "d")]

    def spin(self, which: str = "") -> Array:
        """Ω~ = diag(ω~, ω~), with the parent's ω for "s"."""
        omega, out = self.value(V).reshape(-1, 6)[:, :3], self.case.zeros(self.n, 6, 6)
        for k in range(self.n):
            at = self.case.model.parent[k] if which == "s" else k
            if at >= 0:
                out[k] = np.kron(np.eye(2), skew(omega[at]))
        return from_diagonal(out)

    def within(self, i: int, j: int) -> bool:
        """Rate i belongs to a body outboard of that of rate j, or to the same."""
        return bool(self.outboard[self.owner[i], self.owner[j]])

    def outside(self, i: int, j: int) -> bool:
        """Rate i strictly outboard of rate j, where every joint has one rate."""
        return i != j and self.within(i, j)


def _christoffel_of(L: Array) -> Array:
    return (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, -1, 0)) / 2


class PointView(WorldAxesState):
    """The same about the world's origin: s, M_I, R_I, T."""

    def frames(self, q: Array) -> Array:
        """F(k) = φ(I, k), body axes about O(k) → world axes about I, (n, 6, 6)."""
        frames = [rigid(x[:3, :3], x[:3, 3]) for x in self.case.dense(pose, q=q)]
        return gathered(self.case, frames, 6, 6)

    def back(self, q: Array) -> Array:
        """F⁻¹(k) = φ(k, I), (n, 6, 6)."""
        poses = ((x[:3, :3].T, x[:3, 3]) for x in self.case.dense(pose, q=q))
        return gathered(self.case, [rigid(R, -R @ p) for R, p in poses], 6, 6)

    def carried(self, expr: Expr) -> Array:
        """An operator forces → forces carried to I, F X F⁻¹."""
        q, out = self.case.q, blocks(self.case.dense(expr), self.n)
        return from_blocks(self.frames(q)[:, None] @ out @ self.back(q)[None])

    def of_bodies(self, expr: Expr, q: Array | None = None) -> Array:
        """The blocks of a memoryless inertia, carried to I: F X F*."""
        at = self.case.q if q is None else q
        F = self.frames(at)
        return F @ diagonal(self.case.dense(expr, q=at), self.n) @ np.swapaxes(F, -1, -2)

    def hinges(self, q: Array) -> Array:
        """s of every rate, (nv, 6): F⁻* H*."""
        columns, back = self.case.dense(H.T, q=q), self.back(q)
        found = [back[k].T @ columns[6 * k : 6 * k + 6, i] for i, k in enumerate(self.owner)]
        return gathered(self.case, found, 6)

    @cached_property
    def s(self) -> Array:
        """s of every rate in this state, (nv, 6)."""
        return self.hinges(self.case.q)

    def moved_by(self, rates: Array) -> Array:
        """Σ rate_a s_a over the joints inboard of every body and its own, (n, 6)."""
        return self.moved[""].astype(float) @ (rates[:, None] * self.s)

    def rates_of(self, rates: Array, bodies: set[int]) -> Array:
        """The rates of the joints of these bodies, the others zero."""
        return rates * np.array([float(k in bodies) for k in self.owner])

    def gyration(self, inertia: Array, s: Array) -> Array:
        """B[R, s] = ½ (S[s] R − R s~ − Q[R s])."""
        return (crf(s) @ inertia - inertia @ crm(s) - crq(inertia @ s)) / 2


# ---- section 2: shifts, cross products, pick-off operators --------------------------------------


def _shift_rules(case: ProofState) -> Claim:
    S, n = inertial(case, parse("shift")), case.model.n_bodies
    A, B = (from_diagonal(case.random(n, 6, 6)) for _ in range(2))
    pairs = [
        (S @ A @ S.T @ S @ B, S @ A @ B), (S.T @ A @ S @ S.T @ B, S.T @ A @ B),
        (A @ S.T @ S @ B @ S.T, A @ B @ S.T), (A @ S @ S.T @ B @ S, A @ B @ S),
        (S @ A @ S.T @ S @ B @ S.T, S @ A @ B @ S.T), (S.T @ A @ S @ S.T @ B @ S, S.T @ A @ B @ S),
        (S @ S.T @ S @ A, S @ A), (S.T @ S @ S.T @ A, S.T @ A), (S.T @ S @ A @ S.T, A @ S.T),
        (S @ S.T @ A @ S, A @ S), (S @ A @ S.T @ S, S @ A), (S.T @ A @ S @ S.T, S.T @ A),
        (A @ S.T @ S @ S.T, A @ S.T), (A @ S @ S.T @ S, A @ S),
    ]  # fmt: skip
    return stacked(*(Claim(x, y) for x, y in pairs))


def _shift_rules_on_trees(case: ProofState) -> Claim:
    S, values = inertial(case, parse("shift")), case.random(case.model.n_bodies, 6, 6)
    above = np.zeros_like(values)
    for k, p in joined(case):
        above[k] = values[p]
    A, hat = from_diagonal(values), from_diagonal(above)
    return stacked(Claim(S @ hat, A @ S), Claim(hat @ S.T, S.T @ A))


def _cross_products(case: ProofState) -> Claim:
    a, b, f = case.random(3, 6)
    return stacked(
        (crm(a) @ b, -crm(b) @ a),
        (crm(a) @ a, case.zeros(6)),
        (crf(a), -crm(a).T),
        (crm(a).T @ f, crq(f) @ a),
        (crq(f).T, -crq(f)),
        (crm(crm(a) @ b), crm(a) @ crm(b) - crm(b) @ crm(a)),
        (crf(crm(a) @ b), crf(a) @ crf(b) - crf(b) @ crf(a)),
        (crq(crf(a) @ f), crf(a) @ crq(f) - crq(f) @ crm(a)),
    )


def _carried_cross_products(case: ProofState) -> Claim:
    z, f = case.random(2, 6)
    F = lever(case.random(3))
    back = np.linalg.inv(F)
    return stacked(
        (crq(F @ f), F @ crq(f) @ F.T),
        (crf(F.T @ z), back @ crf(z) @ F),
        (crm(F.T @ z), F.T @ crm(z) @ back.T),
        (crm(F.T @ z) @ F.T, F.T @ crm(z)),
    )


def _compositions(case: ProofState) -> Claim:
    """𝓗 X and X 𝓗 block by block, for any X; 𝓗ⁱ = 𝓗ⁱ_s + 𝓗ⁱ_d. All i at once, at random rates."""
    view, rates = WorldAxesState(case), case.random(case.model.nv)
    n, X, Y = view.n, *case.random(2, 6 * view.n, 6 * view.n)
    x, own = blocks(X, n), {w: case.zeros(n, 6, 6) for w in ("", "s", "d")}
    z, both = case.random(6 * n), case.zeros(n, 6)
    seen = (Y @ z).reshape(n, 6)
    for i, at in enumerate(view.owner):
        turn = rates[i] * crf(view.axes[i])
        both = both + x[:, at] @ (turn @ seen[at])
        for k in range(n):
            if view.outboard[k, at]:
                own[""][k] += turn
                own["d" if k == at else "s"][k] += turn
    picks = {w: view.picked(rates, w) for w in own}
    claims = [Claim(blocks(picks[w] @ X, n), own[w][:, None] @ x) for w in own]
    claims += [Claim(blocks(X @ picks[w], n), x @ own[w][None]) for w in own]
    claims.append(Claim(picks[""], picks["s"] + picks["d"]))
    return stacked(*claims, Claim((X @ picks["d"] @ Y @ z).reshape(n, 6), both))


def _picks_by_shift(case: ProofState) -> Claim:
    """𝓗ⁱ_s = S* 𝓗ⁱ S and Ω_s~ = S* Ω~ S on a serial chain; 𝓗 is skew."""
    view = WorldAxesState(case)
    S, picks = view.value(parse("shift")), view.picks(case.random(view.nv))
    shifted = [(view.spin("s"), S.T @ view.spin() @ S), (picks[1], S.T @ picks[0] @ S)]
    return stacked(*shifted, *((x.T, -x) for x in picks))


def _spin_from_picks(case: ProofState) -> Claim:
    view = WorldAxesState(case)
    inner, outer = view.spin(), view.spin("s")
    return stacked(*zip(view.picks(case.v), (inner, outer, inner - outer), strict=True))


# ---- section 3: time derivatives and sensitivities of the operators -----------------------------


def _inertia_rate(case: ProofState) -> Claim:
    view = WorldAxesState(case)
    spin, inertia = view.spin(), view.value(M)
    return Claim(rate(case, M, axes="inertial"), spin @ inertia - inertia @ spin)


def _rates(case: ProofState) -> Claim:
    view = WorldAxesState(case)
    O, Os = view.spin(), view.spin("s")  # noqa: E741
    E, F, axes, inertia = (view.value(x) for x in (E_phi, phi, H.T, M))
    tilde = F - case.eye(len(F))
    moved = rate(case, phi, axes="inertial")
    return stacked(
        (rate(case, M, axes="inertial"), O @ inertia - inertia @ O),
        (rate(case, H.T, axes="inertial"), Os @ axes),
        (rate(case, E_phi, axes="inertial"), O @ E - E @ Os),
        (moved, F @ O @ tilde - tilde @ Os @ F),
        (moved, F @ (O - Os) @ F + Os @ F - F @ O),
        (rate(case, H @ phi, axes="inertial"), axes.T @ F @ ((O - Os) @ F - O)),
    )


def _step_sensitivities(case: ProofState) -> Claim:
    """The sensitivities of MS, each along random rates: they are linear in 𝓗ⁱ."""
    view, rates = WorldAxesState(case), case.random(case.model.nv)
    E, F, axes, inertia = (view.value(x) for x in (E_phi, phi, H.T, M))
    h, s, d = view.picks(rates)
    formulas = {
        E_phi: h @ E - E @ s,
        H.T: s @ axes,
        M: h @ inertia - inertia @ h,
        phi: F @ d @ F - F @ h + s @ F,
        H @ phi: axes.T @ F @ (d @ F - h),
    }
    return stacked(*((view.change(x, rates), formula) for x, formula in formulas.items()))


def _propagation_components(case: ProofState) -> Claim:
    """L_i φ(k, j), which is zero unless j is strictly outboard of i; along random rates."""
    view, rates = WorldAxesState(case), case.random(case.model.nv)
    F = blocks(view.value(phi), view.n)
    expected = np.zeros_like(F)
    for i, own in enumerate(view.owner):
        turn, beyond = rates[i] * crf(view.axes[i]), view.moved["s"][:, i, None, None].astype(float)
        inner = F[:, own, None] @ turn @ F[None, own] - F @ turn + beyond[:, None] * (turn @ F)
        expected = expected + beyond[None] * inner
    return Claim(view.change(phi, rates), from_blocks(expected))


# ---- section 4: the mass matrix ------------------------------------------------------------------


def _composite_sensitivity(case: ProofState) -> Claim:
    view, rates = WorldAxesState(case), case.random(case.model.nv)
    F, whole, (_, s, d) = view.value(phi), view.value(phi @ M @ phi.T), view.picks(rates)
    expected = (F @ d + s) @ whole - whole @ (d @ F.T + s)
    return Claim(view.change(phi @ M @ phi.T, rates), expected)


def _mass_matrix_revolute(case: ProofState) -> Claim:
    view, rates = WorldAxesState(case), case.random(case.model.nv)
    axes, F, inertia, whole, articulated = (view.value(x) for x in (H.T, phi, M, R, P))
    tilde, colour = F - case.eye(len(F)), view.value(parse("I[forces] + phi K H"))
    d = view.picked(rates, "d")
    outer = F @ d @ tilde @ whole - whole @ tilde.T @ d @ F.T
    inner = [F @ (d @ x - x.T @ d) @ F.T for x in (F @ inertia, whole, colour @ articulated)]
    inner[1] = inner[1] + outer
    if case.model.armature.any():
        del inner[2]  # it rests on H G = I
    moved = view.change(mass_matrix, rates)
    return stacked(*((moved, axes.T @ x @ axes) for x in inner))


def _mass_matrix_general(case: ProofState) -> Claim:
    """L ℳ = H φ (𝓗_d φ M + M φ* 𝓗_d*) φ* H* + X + X*, X = H φ M φ* own, about I.

    For all rates at once, along random ones. `own` is how the axes of a joint change with its own
    rates; a joint with one rate has none, s~ s = 0.
    """
    view, rates = PointView(case), case.random(case.model.nv)
    F, inertias = view.carried(phi), from_diagonal(view.of_bodies(M))
    axes, own = case.zeros(6 * view.n, view.nv), case.zeros(6 * view.n, view.nv)
    turns = case.zeros(view.n, 6, 6)
    for k in range(view.n):
        rows = [i for i, owner in enumerate(view.owner) if owner == k]
        mine = view.rates_of(rates, {k})
        changed = along(case, view.hinges, mine) if len(rows) > 1 else 0 * view.s
        for i in rows:
            axes[6 * k : 6 * k + 6, i], own[6 * k : 6 * k + 6, i] = view.s[i], changed[i]
            turns[k] += rates[i] * crf(view.s[i])
    moved = along(case, lambda q: case.dense(mass_matrix, q=q), rates)
    inner = from_diagonal(turns) @ F @ inertias
    X = axes.T @ F @ inertias @ F.T @ own
    return Claim(moved, axes.T @ F @ (inner + inner.T) @ F.T @ axes + X + X.T)


# ---- section 5: about the inertial point, components, Christoffel symbols ------------------------


def _all_ones(case: ProofState) -> Claim:
    view = PointView(case)
    return Claim(view.carried(phi), np.kron(view.outboard.T.astype(float), np.eye(6)))


def _changes_about_the_point(case: ProofState) -> Claim:
    """L_a s_k = s_a~ s_k outboard, 0 inboard and aside; L_a M_I = S[s] M_I + M_I S[s]*.

    Along random rates. For s, those of half of the bodies at a time: any two bodies differ
    in a digit of their numbers, so every body is without its own rates, and with any other's, once.
    """
    view, rates = PointView(case), case.random(case.model.nv)
    inertias, S = view.of_bodies(M), crf(view.moved_by(rates))
    turned = along(case, lambda q: view.of_bodies(M, q), rates)
    claims = [Claim(turned, S @ inertias + inertias @ np.swapaxes(S, -1, -2))]
    for digit in range(view.n.bit_length()):
        for value in (0, 1):
            half = {k for k in range(view.n) if k >> digit & 1 == value}
            some = view.rates_of(rates, half)
            moved = along(case, view.hinges, some)
            chosen = [b for b, k in enumerate(view.owner) if k not in half]
            turns = crm(view.moved_by(some)[[view.owner[b] for b in chosen]])
            claims.append(Claim(moved[chosen], (turns @ view.s[chosen][..., None])[..., 0]))
    return stacked(*claims)


def _decomposition(case: ProofState) -> Claim:
    """The elements ℳ(i, j) = H(i) φ(i, j) R(j) H*(j); `Identity 1` has the operators."""
    view = WorldAxesState(case)
    f, r = blocks(view.value(phi), view.n), diagonal(view.value(R), view.n)
    out = np.diag(case.model.armature)
    for a, b in np.ndindex(view.nv, view.nv):
        inner, outer = (a, b) if view.within(b, a) else (b, a)
        i, j = view.owner[inner], view.owner[outer]
        if view.within(outer, inner):
            out[a, b] += view.axes[inner] @ f[i, j] @ r[j] @ view.axes[outer]
    return Claim(case.dense(mass_matrix), out)


def _components(case: ProofState) -> Claim:
    """L_i ℳ(j, k) about the world's origin."""
    view = PointView(case)
    s, whole, owner = view.s, view.of_bodies(R), view.owner
    moved = view.change_of_mass_matrix()
    expected = np.zeros_like(moved)
    for i, j, k in np.ndindex(moved.shape):
        if view.within(k, i) and view.outside(i, j):
            expected[j, k, i] = s[j] @ crf(s[i]) @ whole[owner[k]] @ s[k]
            expected[k, j, i] = expected[j, k, i]
    for i, j, k in np.ndindex(moved.shape):
        if view.outside(i, j) and view.outside(i, k):
            turn = crf(s[i]) @ whole[owner[i]]
            expected[j, k, i] = s[j] @ (turn + turn.T) @ s[k]
    return Claim(moved, expected)


class _Halves(WorldAxesState):
    """The parts of lemmas 5.3 and 5.4, about the body origins: blocks of φ and R."""

    def __init__(self, case: ProofState) -> None:
        super().__init__(case)
        self.F, self.R = blocks(self.value(phi), self.n), diagonal(self.value(R), self.n)

    def half(self, i: int, j: int, k: int) -> Array:
        """H(k) φ(k,i) {[𝓗(i) R(i) + R(i) 𝓗*(i)] φ*(j,i) or 𝓗(i) φ(i,j) R(j)} H*(j)."""
        a, b, c = (self.owner[x] for x in (i, j, k))
        turn = crf(self.axes[i])
        if self.outside(i, j):
            inner = (turn @ self.R[a] + self.R[a] @ turn.T) @ self.F[b, a].T
        else:
            inner = turn @ self.F[a, b] @ self.R[b]  # F is zero unless j is outboard of i
        return self.axes[k] @ self.F[c, a] @ inner @ self.axes[j]


def _elements(case: ProofState) -> Claim:
    """Lemma 5.3 about the body origins, with + 𝓗* for the paper's − 𝓗."""
    view = _Halves(case)
    moved = view.change_of_mass_matrix()
    expected = np.zeros_like(moved)
    for i, j, k in np.ndindex(moved.shape):
        if view.outside(i, k):
            expected[k, j, i] = view.half(i, j, k)
        elif view.within(k, i) and view.outside(i, j):
            expected[k, j, i] = view.half(i, k, j)
    return stacked(Claim(moved, expected), Claim(expected, np.swapaxes(expected, 0, 1)))


def _christoffel_elements(case: ProofState) -> Claim:
    """Lemma 5.4: C_i(j, k) for j inboard of both, by R of the bodies i and k."""
    view = _Halves(case)
    C, claims = view.christoffel(), []
    for i, j, k in np.ndindex(C.shape):
        if view.outside(i, j) and view.outside(k, j):
            claims.append(Claim(C[i, j, k], (view.half(k, i, j) - view.half(i, k, j)) / 2))
    return stacked(*claims)


def _christoffel(case: ProofState) -> Claim:
    """C_i(j,k) = s_i* B[R_I(m), s_lo] s_hi, m the outermost, against the definition."""
    view = PointView(case)
    s, whole, owner, C = view.s, view.of_bodies(R), view.owner, view.christoffel()
    expected = np.zeros_like(C)
    for i, j, k in np.ndindex(C.shape):
        if all(view.within(a, b) or view.within(b, a) for a, b in ((i, j), (j, k), (i, k))):
            low, high = (j, k) if view.within(j, k) else (k, j)
            outer = i if view.within(i, low) else low
            expected[i, j, k] = s[i] @ view.gyration(whole[owner[outer]], s[low]) @ s[high]
    return Claim(C, expected)


def _christoffel_cases(case: ProofState) -> Claim:
    """Equation 5.55 with its missing cases, from Y(a, b, c) = s_a* B[R_I(c), s_c] s_b."""
    view = PointView(case)
    s, whole, owner, C = view.s, view.of_bodies(R), view.owner, view.christoffel()

    def Y(a: int, b: int, c: int) -> Array:
        return s[a] @ view.gyration(whole[owner[c]], s[c]) @ s[b]

    claims = []
    for i, j, k in np.ndindex(C.shape):
        if not view.within(k, j):
            continue  # j ≽ k; the others by symmetry
        if view.outside(i, k):
            claims.append(Claim(C[i, j, k], -Y(k, j, i)))
        elif view.within(k, i):
            claims.append(Claim(C[i, j, k], 0.0 if i == k else Y(i, j, k)))
    return stacked(*claims)


def _christoffel_symmetries(case: ProofState) -> Claim:
    view = WorldAxesState(case)
    L = view.change_of_mass_matrix()
    C = _christoffel_of(L)
    claims: list[Any] = [Claim(C, np.swapaxes(C, 1, 2)), Claim(L, C + np.swapaxes(C, 0, 1))]
    for i, j, k in np.ndindex(C.shape):
        if view.within(i, j) and view.within(k, j):
            claims.append(Claim(C[i, j, k], -C[k, j, i]))
    forces = np.einsum("ijk,j,k->i", C, case.v, case.v)
    return stacked(*claims, Claim(forces, case.dense(BIAS)))


def _dependence(case: ProofState) -> Claim:
    """C_i(j, k) depends on coordinates strictly outboard of the innermost of the three only."""
    view, nv, moved = WorldAxesState(case), case.model.nv, case.random(case.model.nv)

    def symbols(q: Array) -> Array:
        return _christoffel_of(gradient(case, lambda at: case.dense(mass_matrix, q=at), q))

    before, claims = symbols(case.q), []
    for m in range(nv):  # all that is not strictly outboard of dof m moves
        inner = np.array([not view.outside(a, m) for a in range(nv)])
        after = symbols(case.q + inner.astype(float) * moved)
        for i, j, k in np.ndindex(before.shape):
            if m in (i, j, k) and all(view.within(x, m) for x in (i, j, k)):
                claims.append(Claim(after[i, j, k], before[i, j, k]))
    return stacked(*claims)


# ---- beyond the paper: articulated quantities ----------------------------------------------------


def _articulated(case: ProofState) -> Claim:
    """L_i P = Sⁱ P + P Sⁱ* + λ_i: the subtree turns rigidly, the path to the base feels the rest."""
    view, rates = PointView(case), case.random(case.model.nv)
    inertia, S = view.of_bodies(P), crf(view.moved_by(rates))
    bar = diagonal(case.eye(6 * view.n) - view.carried(parse("G H")), view.n)
    change = S @ inertia + inertia @ np.swapaxes(S, -1, -2)
    for i, k in enumerate(view.owner):
        turn, rest = rates[i] * crf(view.s[i]), bar[k] @ inertia[k]
        extra = turn @ rest + rest @ turn.T
        for body in case.model.tree.path(k)[1:]:
            change[body] += extra
            extra = bar[body] @ extra @ bar[body].T
    return Claim(along(case, lambda q: view.of_bodies(P, q), rates), change)


def _fixman(case: ProofState) -> Claim:
    """L_i log det ℳ = 2 tr(Υ(i) S[H*(i)] P(i)), along random rates."""
    view, rates = WorldAxesState(case), case.random(case.model.nv)
    up, inertia = (diagonal(view.value(x), view.n) for x in (Upsilon, P))
    moved = along(case, lambda q: case.dense(parse("logdet(mass_matrix)"), q=q), rates)
    turns = (rates[i] * crf(axis) for i, axis in enumerate(view.axes))
    found = [2 * np.trace(up[k] @ S @ inertia[k]) for S, k in zip(turns, view.owner, strict=True)]
    return Claim(moved, sum(found, case.zeros()))


def _coriolis(case: ProofState) -> Claim:
    """C = H φ [M φ* (cross(V) H* + Ḣ*) + B φ* H*]: C v is the bias, C + C* the rate of ℳ."""
    matrix = case.dense(
        parse(
            "H phi (M phi* (cross(V) H* + Hdot*)"
            " - 1/2 (cross(V)* M + M cross(V) + cross_force(M V)) phi* H*)"
        )
    )
    changes = rate(case, mass_matrix)
    return stacked(Claim(matrix @ case.v, case.dense(BIAS)), Claim(matrix + matrix.T, changes))


def _propagation_rate(case: ProofState) -> Claim:
    return Claim(rate(case, phi), case.dense(parse("cross(V)* phi - phi cross(V)*")))


# fmt: off
SENSITIVITIES: list[Identity] = [
    checked("Lemma 2.1", "(S A S*) S B = S A B, (S* A S) S* B = S* A B and the other twelve", "MS lemma 2.1", _shift_rules, "serial", rigid=True),
    checked("Lemma 2.1 on trees", "S A^ = A S, A^ S* = S* A, A^ = diag A(parent(k))", "MS lemma 2.1; derived", _shift_rules_on_trees, rigid=True),
    checked("Lemma 2.2", "a~ b = -b~ a, S[a] = -(a~)*, a~* f = Q[f] a, (a~ b)~ = a~ b~ - b~ a~, S[a~ b] = S[a] S[b] - S[b] S[a]", "MS eq. 2.5-2.10", _cross_products, rigid=True),
    checked("Lemma 2.3", "Q[phi f] = phi Q[f] phi*, S[phi* z] = phi^-1 S[z] phi, (phi* z)~ phi* = phi* z~", "MS lemma 2.3", _carried_cross_products, rigid=True),
    checked("Lemma 2.4", "[H^i X](k,j) = H(i) X(k,j) for k at or outboard of i, and so for X H^i, H_s^i, H_d^i; [X H_d^i Y](k,j) = X(k,i) H(i) Y(i,j)", "MS lemma 2.4, eq. 2.11-2.14 corrected", _compositions, rigid=True),
    checked("pick-offs by the shift", "H_s^i = S* H^i S, Omega_s~ = S* Omega~ S; H^i, H_s^i and H_d^i are skew", "MS eq. 2.14, 2.18", _picks_by_shift, "serial, revolute", rigid=True),
    checked("angular velocities from pick-offs", "sum v_i H^i = Omega~, sum v_i H_s^i = Omega_s~, sum v_i H_d^i = Omega~ - Omega_s~", "MS eq. 2.16-2.18", _spin_from_picks, REVOLUTE, rigid=True),
    checked("Lemma 3.3, inertias", "Mdot = Omega~ M - M Omega~", "MS eq. 3.19, 3.33", _inertia_rate, rigid=True),
    checked("Lemmas 3.1, 3.3 and 3.5, rates", "Mdot(k) = Omega~(k) M(k) - M(k) Omega~(k), Hdot*(k) = Omega~(p) H*(k), phidot(p,k) = Omega~(p) phi(p,k) - phi(p,k) Omega~(p), phidot = phi Omega~ phi~ - phi~ Omega_s~ phi, d/dt (H phi) = H phi (Omega_d~ phi - Omega~)", "MS eq. 3.19-3.21, 3.30-3.34, 3.41", _rates, REVOLUTE, rigid=True),
    checked("Lemmas 3.2, 3.4 and 3.5", "L_i E_phi = H^i E_phi - E_phi H_s^i, L_i H* = H_s^i H*, L_i M = H^i M - M H^i, L_i phi = phi H_d^i phi - phi H^i + H_s^i phi, L_i (H phi) = H phi (H_d^i phi - H^i)", "MS eq. 3.25-3.27 corrected, 3.35-3.41", _step_sensitivities, REVOLUTE, rigid=True),
    checked("Lemma 3.4, components", "L_i phi(k,j) = phi(k,i) H(i) phi(i,j) [k inboard of i] - phi(k,j) H(i) + H(i) phi(k,j) [k outboard of i], for j outboard of i", "MS eq. 3.38", _propagation_components, REVOLUTE, rigid=True),
    checked("Lemma 4.1", "L_i (phi M phi*) = (phi H_d^i + H_s^i) phi M phi* - phi M phi* (H_d^i phi* + H_s^i)", "MS eq. 4.42", _composite_sensitivity, REVOLUTE, rigid=True),
    checked("Lemmas 4.2, 4.3 and 5.2", "L_i mass_matrix = H phi [H_d^i phi M - M phi* H_d^i] phi* H*, the same with P and with R", "MS eq. 4.43, 5.51", _mass_matrix_revolute, REVOLUTE),
    checked("Lemma 4.2 in general", "L_i mass_matrix = H phi [H_d phi M + M phi* H_d*] phi* H* + X + X*, X = H phi M phi* own", "MS lemma 4.2; derived", _mass_matrix_general, rigid=True),
    checked("Lemma 5.1", "mass_matrix(i,j) = H(i) phi(i,j) R(j) H*(j), j at or outboard of i", "MS eq. 5.45-5.46", _decomposition, rigid=True),
    checked("inertial reference", "F phi F^-1 = T, T(j,k) = I for k outboard of j, F = diag phi(I,k)", "MS eq. 5.47-5.50", _all_ones, rigid=True),
    checked("inertial reference, sensitivities", "L_a s_k = s_a~ s_k outboard of a, else 0; L_a M_I = S[s_a] M_I + M_I S[s_a]*", "MS eq. 5.48; derived", _changes_about_the_point, rigid=True),
    checked("Lemma 5.3", "L_i mass_matrix(j,k) = s_j* S[s_i] R_I(k) s_k (k outboard of i, i of j), s_j* (S[s_i] R_I(i) + R_I(i) S[s_i]*) s_k (i outboard of both)", "MS eq. 5.52", _components, ONE_DOF, rigid=True),
    checked("Lemma 5.3 about the bodies", "L_i mass_matrix(j,k) by phi(k,i) [H(i) R(i) + R(i) H*(i)] phi*(j,i), phi(k,i) H(i) phi(i,j) R(j) and its adjoint", "MS lemma 5.3", _elements, ONE_DOF, rigid=True),
    checked("Lemma 5.4", "2 C_i(j,k) = H(j) {phi(j,k) [H(k) R(k) + R(k) H*(k)] phi*(i,k) or phi(j,k) H(k) phi(k,i) R(i)} H*(i) - the same with i and k exchanged, j inboard of both", "MS lemma 5.4", _christoffel_elements, ONE_DOF, rigid=True),
    checked("Christoffel symbols in one form", "C_i(j,k) = s_i* B[R_I(m), s_lo] s_hi, B[R,s] = 1/2 (S[s] R - R s~ - Q[R s])", "MS lemma 5.4; derived", _christoffel, ONE_DOF, rigid=True),
    checked("Lemma 5.5", "C_i(j,k) = -Y(k,j,i), 0 or Y(i,j,k), with the cases that are missing in print", "MS eq. 5.55", _christoffel_cases, ONE_DOF, rigid=True),
    checked("symmetries of the Christoffel symbols", "C_i(j,k) = C_i(k,j), C_i(j,k) = -C_k(j,i) for j inboard of i and k, L_i mass_matrix(k,j) = C_j(i,k) + C_k(i,j)", "MS eq. 5.53-5.54", _christoffel_symmetries, ONE_DOF, rigid=True),
    checked("what Christoffel symbols depend on", "C_i(j,k) is a function of the coordinates strictly outboard of the innermost of i, j, k", "MS sec. 5.3", _dependence, ONE_DOF, rigid=True),
    checked("sensitivity of P", "L_i P = S^i P + P S^i* + lambda_i, lambda_i(p) = proj_bar lambda_i proj_bar* along the path", "derived", _articulated, ONE_DOF),
    checked("Fixman gradient", "L_i log det mass_matrix = 2 tr(Upsilon(i) S[H*(i)] P(i))", "derived", _fixman, ONE_DOF),
    checked("Coriolis matrix", "C v = H phi (M phi* a + b), C + C* = d/dt mass_matrix", "derived", _coriolis, rigid=True),
    checked("phi in motion", "d/dt phi = cross(V)* phi - phi cross(V)* in body axes", "derived", _propagation_rate, rigid=True),
    t("cross over E_phi*",     "E_phi* cross(x)",           "cross(E_phi* x) E_phi*",                          "MS lemma 2.3; derived"),
    t("carry between phi*",    "phi* cross(x) phi*",        "cross(phi* x) phi* - phi* cross(E_phi* phi* x)",  "derived"),
    t("carry beside phi~*",    "phi* cross(x) phi~*",       "cross(phi* x) phi* - phi* cross(phi* x)",         "derived"),
]
# fmt: on
