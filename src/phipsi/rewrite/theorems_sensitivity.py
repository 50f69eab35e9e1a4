# pyright: basic
# ruff: noqa: E501  (tables: one row, one line)
"""Sensitivities of the operators: the lemmas of the paper on mass-matrix sensitivities, and beyond.

The paper is about serial chains of revolute joints, in world axes, with the operators about the
body origins. Its shift operator obeys other rules on a tree, its 𝓗 is skew for revolute joints
only: those statements are conditional here, next to forms for all trees and joints, which are about
the world's origin I, where φ becomes T, all ones and zeros (theory/sensitivities 2.1, 3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from phipsi.expressions.node import Expr
from phipsi.operators import E_phi, H, M, P, R, Upsilon, V, mass_matrix, parse, phi, pose
from phipsi.rewrite.identity import Array, Case, Claim, Identity, claim, gathered, stacked
from phipsi.rewrite.theorems_bias import along, gradient, rate
from phipsi.rewrite.theorems_blocks import blocks, from_blocks, lever
from phipsi.rewrite.theorems_symbols import checked
from phipsi.rewrite.theorems_symbols import theorem as t
from phipsi.spatial import crf, crm, crq, skew
from phipsi.spatial import phi as rigid

REVOLUTE, ONE_DOF = "revolute", "one dof"


class View:
    """One mechanism in one state, in world axes about the body origins."""

    def __init__(self, case: Case) -> None:
        self.case, self.model = case, case.model
        self.n, self.nv = case.model.n_bodies, case.model.nv
        self.owner = [k for k, joint in enumerate(case.model.joints) for _ in range(joint.nv)]
        self.outboard = np.zeros((self.n, self.n), dtype=bool)  # [k, i]: k is i or outboard of it
        for k in range(self.n):
            for i in case.model.tree.path(k):
                self.outboard[k, i] = True

    def value(self, expr: Expr, q: Array | None = None) -> Array:
        """An operator or vector in world axes."""
        return self.case.dense(expr, axes="inertial", **({} if q is None else {"q": q}))

    def change(self, expr: Expr) -> Array:
        """Derivatives along all rates, on the last axis."""
        return gradient(self.case, lambda q: self.value(expr, q))

    @cached_property
    def axes(self) -> Array:
        """H* of every rate at its body, (nv, 6)."""
        columns = self.value(H.T)
        return gathered(
            self.case, [columns[6 * k : 6 * k + 6, i] for i, k in enumerate(self.owner)], 6
        )

    def picked(self, rates: Array, which: str) -> Array:
        """Σ rate_i 𝓗ⁱ, and so for 𝓗ⁱ_s and 𝓗ⁱ_d."""
        inboard = self.outboard[:, self.owner]
        mine = np.arange(self.n)[:, None] == np.array(self.owner, dtype=int)
        chosen = {"": inboard, "s": inboard & ~mine, "d": inboard & mine}[which]
        turns = crf(chosen.astype(float) @ (rates[:, None] * self.axes))
        out = self.case.zeros(self.n, self.n, 6, 6)
        out[np.arange(self.n), np.arange(self.n)] = turns
        return from_blocks(out)

    def pick(self, i: int, which: str) -> Array:
        """𝓗ⁱ, 𝓗ⁱ_s or 𝓗ⁱ_d for rate i: S[H*] at the bodies outboard of its joint."""
        out = self.case.zeros(6 * self.n, 6 * self.n)
        for k in range(self.n):
            own = k == self.owner[i]
            if self.outboard[k, self.owner[i]] and which in ("", "d" if own else "s"):
                out[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] = crf(self.axes[i])
        return out

    def spin(self, which: str = "") -> Array:
        """Ω~ = diag(ω~, ω~), with the parent's ω for "s"."""
        omega = self.value(V).reshape(-1, 6)[:, :3]
        out = self.case.zeros(6 * self.n, 6 * self.n)
        for k in range(self.n):
            at = self.model.parent[k] if which == "s" else k
            if at >= 0:
                out[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] = np.kron(np.eye(2), skew(omega[at]))
        return out


class PointView(View):
    """The same about the world's origin: s, M_I, R_I, T."""

    def frames(self, q: Array) -> Array:
        """F(k) = φ(I, k), body axes about O(k) → world axes about I, (n, 6, 6)."""
        frames = [rigid(x[:3, :3], x[:3, 3]) for x in self.case.dense(pose, q=q)]
        return gathered(self.case, frames, 6, 6)

    def back(self, q: Array) -> Array:
        """F⁻¹(k) = φ(k, I), (n, 6, 6)."""
        poses = ((x[:3, :3].T, x[:3, 3]) for x in self.case.dense(pose, q=q))
        return gathered(self.case, [rigid(R, -R @ p) for R, p in poses], 6, 6)

    def carried(self, expr: Expr, q: Array) -> Array:
        """An operator forces → forces carried to I, F X F⁻¹."""
        out = blocks(self.case.dense(expr, q=q), self.n)
        return from_blocks(self.frames(q)[:, None] @ out @ self.back(q)[None])

    def of_bodies(self, expr: Expr, q: Array | None = None) -> Array:
        """The blocks of a memoryless inertia, carried to I: F X F*."""
        at = self.case.q if q is None else q
        F, inertia = self.frames(at), blocks(self.case.dense(expr, q=at), self.n)
        return F @ np.einsum("kkij->kij", inertia) @ np.swapaxes(F, -1, -2)

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
        inboard = self.outboard[:, self.owner].astype(float)
        return inboard @ (rates[:, None] * self.s)

    def rates_of(self, rates: Array, bodies: set[int]) -> Array:
        """The rates of the joints of these bodies, the others zero."""
        return rates * np.array([float(k in bodies) for k in self.owner])

    def below(self, i: int, j: int) -> bool:
        """Whether rate i belongs to a body outboard of (or at) that of rate j."""
        return bool(self.outboard[self.owner[i], self.owner[j]])

    def gyration(self, inertia: Array, s: Array) -> Array:
        """B[R, s] = ½ (S[s] R − R s~ − Q[R s])."""
        return (crf(s) @ inertia - inertia @ crm(s) - crq(inertia @ s)) / 2


# ---- section 2: shifts, cross products, pick-off operators --------------------------------------


def _random_blocks(case: Case) -> Array:
    n = case.model.n_bodies
    return from_blocks(np.einsum("kij,kl->klij", case.random(n, 6, 6), np.eye(n)))


def _shift_rules(case: Case) -> Claim:
    S = View(case).value(parse("shift"))
    A, B = _random_blocks(case), _random_blocks(case)
    pairs = [
        (S @ A @ S.T @ S @ B, S @ A @ B), (S.T @ A @ S @ S.T @ B, S.T @ A @ B),
        (A @ S.T @ S @ B @ S.T, A @ B @ S.T), (A @ S @ S.T @ B @ S, A @ B @ S),
        (S @ A @ S.T @ S @ B @ S.T, S @ A @ B @ S.T), (S.T @ A @ S @ S.T @ B @ S, S.T @ A @ B @ S),
        (S @ S.T @ S @ A, S @ A), (S.T @ S @ S.T @ A, S.T @ A), (S.T @ S @ A @ S.T, A @ S.T),
        (S @ S.T @ A @ S, A @ S), (S @ A @ S.T @ S, S @ A), (S.T @ A @ S @ S.T, S.T @ A),
        (A @ S.T @ S @ S.T, A @ S.T), (A @ S @ S.T @ S, A @ S),
    ]  # fmt: skip
    return stacked([claim(x, y) for x, y in pairs])


def _shift_rules_on_trees(case: Case) -> Claim:
    view, A = View(case), _random_blocks(case)
    S, values = view.value(parse("shift")), blocks(A, view.n)
    above = np.zeros_like(values)
    for k, p in enumerate(case.model.parent):
        if p >= 0:
            above[k, k] = values[p, p]
    hat = from_blocks(above)
    return stacked([claim(S @ hat, A @ S), claim(hat @ S.T, S.T @ A)])


def _cross_products(case: Case) -> Claim:
    a, b, f = case.random(3, 6)
    return stacked(
        [
            claim(crm(a) @ b, -crm(b) @ a),
            claim(crm(a) @ a, case.zeros(6)),
            claim(crf(a), -crm(a).T),
            claim(crm(a).T @ f, crq(f) @ a),
            claim(crq(f).T, -crq(f)),
            claim(crm(crm(a) @ b), crm(a) @ crm(b) - crm(b) @ crm(a)),
            claim(crf(crm(a) @ b), crf(a) @ crf(b) - crf(b) @ crf(a)),
            claim(crq(crf(a) @ f), crf(a) @ crq(f) - crq(f) @ crm(a)),
        ]
    )


def _carried_cross_products(case: Case) -> Claim:
    z, f = case.random(2, 6)
    F = lever(case.random(3))
    back = np.linalg.inv(F)
    return stacked(
        [
            claim(crq(F @ f), F @ crq(f) @ F.T),
            claim(crf(F.T @ z), back @ crf(z) @ F),
            claim(crm(F.T @ z), F.T @ crm(z) @ back.T),
            claim(crm(F.T @ z) @ F.T, F.T @ crm(z)),
        ]
    )


def _spin_from_picks(case: Case) -> Claim:
    view = View(case)
    zero = case.zeros(6 * view.n, 6 * view.n)
    total = {
        w: sum((case.v[i] * view.pick(i, w) for i in range(view.nv)), zero) for w in ("", "s", "d")
    }
    inner, outer = view.spin(), view.spin("s")
    return stacked(
        [claim(total[""], inner), claim(total["s"], outer), claim(total["d"], inner - outer)]
    )


# ---- section 3: time derivatives and sensitivities of the operators -----------------------------


def _inertia_rate(case: Case) -> Claim:
    view = View(case)
    spin, inertia = view.spin(), view.value(M)
    return claim(rate(case, M, axes="inertial"), spin @ inertia - inertia @ spin)


def _rates(case: Case) -> Claim:
    view = View(case)
    O, Os = view.spin(), view.spin("s")  # noqa: E741
    E, F, axes = view.value(E_phi), view.value(phi), view.value(H.T)
    tilde = F - case.eye(len(F))
    moved = rate(case, phi, axes="inertial")
    return stacked(
        [
            claim(rate(case, H.T, axes="inertial"), Os @ axes),
            claim(rate(case, E_phi, axes="inertial"), O @ E - E @ Os),
            claim(moved, F @ O @ tilde - tilde @ Os @ F),
            claim(moved, F @ (O - Os) @ F + Os @ F - F @ O),
        ]
    )


def _by_rate(view: View, expr: Expr, formula: Callable[[int], Array]) -> Claim:
    """L_i of an operator against a formula, for every rate."""
    moved = view.change(expr)
    return stacked([claim(moved[..., i], formula(i)) for i in range(view.nv)])


def _step_sensitivities(case: Case) -> Claim:
    view = View(case)
    E, F, axes, inertia = (view.value(x) for x in (E_phi, phi, H.T, M))
    pick = view.pick
    return stacked(
        [
            _by_rate(view, E_phi, lambda i: pick(i, "") @ E - E @ pick(i, "s")),
            _by_rate(view, H.T, lambda i: pick(i, "s") @ axes),
            _by_rate(view, M, lambda i: pick(i, "") @ inertia - inertia @ pick(i, "")),
            _by_rate(
                view, phi, lambda i: F @ pick(i, "d") @ F - F @ pick(i, "") + pick(i, "s") @ F
            ),
            _by_rate(view, H @ phi, lambda i: axes.T @ F @ (pick(i, "d") @ F - pick(i, ""))),
        ]
    )


# ---- section 4: the mass matrix ------------------------------------------------------------------


def _composite_sensitivity(case: Case) -> Claim:
    view = View(case)
    F, whole = view.value(phi), view.value(phi @ M @ phi.T)

    def formula(i: int) -> Array:
        d, s = view.pick(i, "d"), view.pick(i, "s")
        return (F @ d + s) @ whole - whole @ (d @ F.T + s)

    return _by_rate(view, phi @ M @ phi.T, formula)


def _mass_matrix_revolute(case: Case) -> Claim:
    view = View(case)
    axes, F, inertia, whole = (view.value(x) for x in (H.T, phi, M, R))
    tilde = F - case.eye(len(F))
    left, right = axes.T @ F, F.T @ axes
    colour = view.value(parse("I[forces] + phi K H"))
    articulated = view.value(P)

    def plain(i: int) -> Array:
        d = view.pick(i, "d")
        return left @ (d @ F @ inertia - inertia @ F.T @ d) @ right

    def by_p(i: int) -> Array:
        d = view.pick(i, "d")
        return left @ (d @ colour @ articulated - articulated @ colour.T @ d) @ right

    def by_r(i: int) -> Array:
        d = view.pick(i, "d")
        inner = (
            F @ (d @ whole - whole @ d) @ F.T + F @ d @ tilde @ whole - whole @ tilde.T @ d @ F.T
        )
        return axes.T @ inner @ axes

    claims = [_by_rate(view, mass_matrix, f) for f in (plain, by_r)]
    if not case.model.armature.any():
        claims.append(_by_rate(view, mass_matrix, by_p))
    return stacked(claims)


def _mass_matrix_general(case: Case) -> Claim:
    """L ℳ = H φ (𝓗_d φ M + M φ* 𝓗_d*) φ* H* + X + X*, X = H φ M φ* own, about I.

    For all rates at once, along random ones. `own` is how the axes of a joint change with its own
    rates; a joint with one rate has none, s~ s = 0.
    """
    view, rates = PointView(case), case.random(case.model.nv)
    F, inertias = view.carried(phi, case.q), case.zeros(6 * view.n, 6 * view.n)
    axes, turns, own = (case.zeros(6 * view.n, x) for x in (view.nv, 6 * view.n, view.nv))
    for k, inertia in enumerate(view.of_bodies(M)):
        body = slice(6 * k, 6 * k + 6)
        inertias[body, body] = inertia
        mine = view.rates_of(rates, {k})
        rows = [i for i, owner in enumerate(view.owner) if owner == k]
        changed = along(case, view.hinges, mine) if len(rows) > 1 else None
        for i in rows:
            axes[body, i] = view.s[i]
            turns[body, body] += rates[i] * crf(view.s[i])
            if changed is not None:
                own[body, i] = changed[i]
    moved = along(case, lambda q: case.dense(mass_matrix, q=q), rates)
    inner = turns @ F @ inertias
    X = axes.T @ F @ inertias @ F.T @ own
    return claim(moved, axes.T @ F @ (inner + inner.T) @ F.T @ axes + X + X.T)


# ---- section 5: about the inertial point, components, Christoffel symbols ------------------------


def _all_ones(case: Case) -> Claim:
    view = PointView(case)
    expected = np.kron(view.outboard.T.astype(float), np.eye(6))
    return claim(view.carried(phi, case.q), expected)


def _changes_about_the_point(case: Case) -> Claim:
    """L_a s_k = s_a~ s_k outboard, 0 inboard and aside; L_a M_I = S[s] M_I + M_I S[s]*.

    Along random rates. For s, those of half of the bodies at a time: any two bodies are told apart
    by a digit of their numbers, so every body is without its own rates, and with any other's, once.
    """
    view, rates = PointView(case), case.random(case.model.nv)
    inertias = view.of_bodies(M)
    turned = along(case, lambda q: view.of_bodies(M, q), rates)
    claims = []
    S = crf(view.moved_by(rates))
    claims.append(claim(turned, S @ inertias + inertias @ np.swapaxes(S, -1, -2)))
    for digit in range(view.n.bit_length()):
        for value in (0, 1):
            half = {k for k in range(view.n) if k >> digit & 1 == value}
            some = view.rates_of(rates, half)
            moved = along(case, view.hinges, some)
            chosen = [b for b, k in enumerate(view.owner) if k not in half]
            turns = crm(view.moved_by(some)[[view.owner[b] for b in chosen]])
            claims.append(claim(moved[chosen], (turns @ view.s[chosen][..., None])[..., 0]))
    return stacked(claims)


def _components(case: Case) -> Claim:
    view = PointView(case)
    s, whole, owner = view.s, view.of_bodies(R), view.owner
    moved = gradient(case, lambda q: case.dense(mass_matrix, q=q))
    expected = np.zeros_like(moved)
    for i, j, k in np.ndindex(view.nv, view.nv, view.nv):
        strictly_j = view.below(i, j) and i != j
        if view.below(k, i) and strictly_j:
            expected[j, k, i] = s[j] @ crf(s[i]) @ whole[owner[k]] @ s[k]
            expected[k, j, i] = expected[j, k, i]
    for i, j, k in np.ndindex(view.nv, view.nv, view.nv):
        if view.below(i, j) and view.below(i, k) and i != j and i != k:
            turn = crf(s[i]) @ whole[owner[i]]
            expected[j, k, i] = s[j] @ (turn + turn.T) @ s[k]
    return claim(moved, expected)


def _christoffel(case: Case) -> Claim:
    """C_i(j,k) = s_i* B[R_I(m), s_lo] s_hi, m the outermost, against the definition."""
    view = PointView(case)
    s, whole, owner = view.s, view.of_bodies(R), view.owner
    L = gradient(case, lambda q: case.dense(mass_matrix, q=q))
    C = (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, -1, 0)) / 2
    expected = np.zeros_like(C)
    for i, j, k in np.ndindex(C.shape):
        related = all(view.below(a, b) or view.below(b, a) for a, b in ((i, j), (j, k), (i, k)))
        if not related:
            continue
        low, high = (j, k) if view.below(j, k) else (k, j)
        outer = i if view.below(i, low) else low
        expected[i, j, k] = s[i] @ view.gyration(whole[owner[outer]], s[low]) @ s[high]
    return claim(C, expected)


def _christoffel_cases(case: Case) -> Claim:
    """Equation 5.55 with its missing cases, from Y(a, b, c) = s_a* B[R_I(c), s_c] s_b."""
    view = PointView(case)
    s, whole, owner = view.s, view.of_bodies(R), view.owner
    L = gradient(case, lambda q: case.dense(mass_matrix, q=q))
    C = (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, -1, 0)) / 2

    def Y(a: int, b: int, c: int) -> Array:
        return s[a] @ view.gyration(whole[owner[c]], s[c]) @ s[b]

    claims = []
    for i, j, k in np.ndindex(C.shape):
        if not view.below(k, j):
            continue  # j ≽ k; the others by symmetry
        if view.below(i, k) and i != k:
            claims.append(claim(C[i, j, k], -Y(k, j, i)))
        elif view.below(k, i):
            claims.append(claim(C[i, j, k], 0.0 if i == k else Y(i, j, k)))
    return stacked(claims)


def _christoffel_symmetries(case: Case) -> Claim:
    view = PointView(case)
    L = gradient(case, lambda q: case.dense(mass_matrix, q=q))
    C = (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, -1, 0)) / 2
    claims = [claim(C, np.swapaxes(C, 1, 2)), claim(L, C + np.swapaxes(C, 0, 1))]
    for i, j, k in np.ndindex(C.shape):
        if view.below(i, j) and view.below(k, j):
            claims.append(claim(C[i, j, k], -C[k, j, i]))
    forces = np.einsum("ijk,j,k->i", C, case.v, case.v)
    return stacked([*claims, claim(forces, case.dense(parse("H phi (M phi* a + b)")))])


# ---- beyond the paper: articulated quantities ----------------------------------------------------


def _articulated(case: Case) -> Claim:
    """L_i P = Sⁱ P + P Sⁱ* + λ_i: the subtree turns rigidly, the path to the base feels the rest."""
    view = PointView(case)
    s = view.s
    inertia = view.of_bodies(P)
    bar = case.eye(6 * view.n) - view.carried(parse("G H"), case.q)
    bar = np.einsum("kkij->kij", blocks(bar, view.n))
    moved = gradient(case, lambda q: view.of_bodies(P, q))
    claims = []
    for i, k in enumerate(view.owner):
        S = crf(s[i])
        rest = bar[k] @ inertia[k]
        path, extra = case.model.parent[k], S @ rest + rest @ S.T
        lam = case.zeros(view.n, 6, 6)
        while path >= 0:
            lam[path] = extra
            extra = bar[path] @ extra @ bar[path].T
            path = case.model.parent[path]
        for m in range(view.n):
            rigid_part = S @ inertia[m] + inertia[m] @ S.T if view.outboard[m, k] else 0
            claims.append(claim(moved[m, ..., i], rigid_part + lam[m]))
    return stacked(claims)


def _fixman(case: Case) -> Claim:
    """L_i log det ℳ = 2 tr(Υ(i) S[H*(i)] P(i))."""
    view = View(case)
    up = np.einsum("kkij->kij", blocks(view.value(Upsilon), view.n))
    inertia = np.einsum("kkij->kij", blocks(view.value(P), view.n))
    moved = gradient(case, lambda q: case.dense(parse("logdet(mass_matrix)"), q=q))
    expected = [
        2 * np.trace(up[k] @ crf(view.axes[i]) @ inertia[k]) for i, k in enumerate(view.owner)
    ]
    return claim(moved, gathered(case, expected))


def _coriolis(case: Case) -> Claim:
    """C = H φ [M φ* (cross(V) H* + Ḣ*) + B φ* H*]: C v is the bias, C + C* the rate of ℳ."""
    matrix = case.dense(
        parse(
            "H phi (M phi* (cross(V) H* + Hdot*)"
            " - 1/2 (cross(V)* M + M cross(V) + cross_force(M V)) phi* H*)"
        )
    )
    bias = case.dense(parse("H phi (M phi* a + b)"))
    return stacked(
        [claim(matrix @ case.v, bias), claim(matrix + matrix.T, rate(case, mass_matrix))]
    )


def _propagation_rate(case: Case) -> Claim:
    turn = case.dense(parse("cross(V)* phi - phi cross(V)*"))
    return claim(rate(case, phi), turn)


# fmt: off
SENSITIVITY: list[Identity] = [
    checked("Lemma 2.1", "(S A S*) S B = S A B, (S* A S) S* B = S* A B and the other twelve", "MS lemma 2.1", _shift_rules, "serial", rigid=True),
    checked("Lemma 2.1 on trees", "S A^ = A S, A^ S* = S* A, A^ = diag A(parent(k))", "MS lemma 2.1; derived", _shift_rules_on_trees, rigid=True),
    checked("Lemma 2.2", "a~ b = -b~ a, S[a] = -(a~)*, a~* f = Q[f] a, (a~ b)~ = a~ b~ - b~ a~, S[a~ b] = S[a] S[b] - S[b] S[a]", "MS eq. 2.5-2.10", _cross_products, rigid=True),
    checked("Lemma 2.3", "Q[phi f] = phi Q[f] phi*, S[phi* z] = phi^-1 S[z] phi, (phi* z)~ phi* = phi* z~", "MS lemma 2.3", _carried_cross_products, rigid=True),
    checked("angular velocities from pick-offs", "sum v_i H^i = Omega~, sum v_i H_s^i = Omega_s~, sum v_i H_d^i = Omega~ - Omega_s~", "MS eq. 2.16-2.18", _spin_from_picks, REVOLUTE, rigid=True),
    checked("Lemma 3.3, inertias", "Mdot = Omega~ M - M Omega~", "MS eq. 3.19, 3.33", _inertia_rate, rigid=True),
    checked("Lemma 3.3", "Hdot* = Omega_s~ H*, Edot_phi = Omega~ E_phi - E_phi Omega_s~, phidot = phi Omega~ phi~ - phi~ Omega_s~ phi", "MS eq. 3.30-3.34", _rates, REVOLUTE, rigid=True),
    checked("Lemmas 3.4 and 3.5", "L_i E_phi = H^i E_phi - E_phi H_s^i, L_i phi = phi H_d^i phi - phi H^i + H_s^i phi, L_i (H phi) = H phi (H_d^i phi - H^i)", "MS eq. 3.35-3.41", _step_sensitivities, REVOLUTE, rigid=True),
    checked("Lemma 4.1", "L_i (phi M phi*) = (phi H_d^i + H_s^i) phi M phi* - phi M phi* (H_d^i phi* + H_s^i)", "MS eq. 4.42", _composite_sensitivity, REVOLUTE, rigid=True),
    checked("Lemmas 4.2, 4.3 and 5.2", "L_i mass_matrix = H phi [H_d^i phi M - M phi* H_d^i] phi* H*, the same with P and with R", "MS eq. 4.43, 5.51", _mass_matrix_revolute, REVOLUTE),
    checked("Lemma 4.2 in general", "L_i mass_matrix = H phi [H_d phi M + M phi* H_d*] phi* H* + X + X*, X = H phi M phi* own", "MS lemma 4.2; derived", _mass_matrix_general, rigid=True),
    checked("inertial reference", "F phi F^-1 = T, T(j,k) = I for k outboard of j, F = diag phi(I,k)", "MS eq. 5.47-5.50", _all_ones, rigid=True),
    checked("inertial reference, sensitivities", "L_a s_k = s_a~ s_k outboard of a, else 0; L_a M_I = S[s_a] M_I + M_I S[s_a]*", "MS eq. 5.48; derived", _changes_about_the_point, rigid=True),
    checked("Lemma 5.3", "L_i mass_matrix(j,k) = s_j* S[s_i] R_I(k) s_k (k outboard of i, i of j), s_j* (S[s_i] R_I(i) + R_I(i) S[s_i]*) s_k (i outboard of both)", "MS eq. 5.52", _components, ONE_DOF, rigid=True),
    checked("Christoffel symbols in one form", "C_i(j,k) = s_i* B[R_I(m), s_lo] s_hi, B[R,s] = 1/2 (S[s] R - R s~ - Q[R s])", "MS lemma 5.4; derived", _christoffel, ONE_DOF, rigid=True),
    checked("Lemma 5.5", "C_i(j,k) = -Y(k,j,i), 0 or Y(i,j,k), with the cases that are missing in print", "MS eq. 5.55", _christoffel_cases, ONE_DOF, rigid=True),
    checked("symmetries of the Christoffel symbols", "C_i(j,k) = C_i(k,j), C_i(j,k) = -C_k(j,i) for j inboard of i and k, L_i mass_matrix(k,j) = C_j(i,k) + C_k(i,j)", "MS eq. 5.53-5.54", _christoffel_symmetries, ONE_DOF, rigid=True),
    checked("sensitivity of P", "L_i P = S^i P + P S^i* + lambda_i, lambda_i(p) = proj_bar lambda_i proj_bar* along the path", "derived", _articulated, ONE_DOF),
    checked("Fixman gradient", "L_i log det mass_matrix = 2 tr(Upsilon(i) S[H*(i)] P(i))", "derived", _fixman, ONE_DOF),
    checked("Coriolis matrix", "C v = H phi (M phi* a + b), C + C* = d/dt mass_matrix", "derived", _coriolis, rigid=True),
    checked("phi in motion", "d/dt phi = cross(V)* phi - phi cross(V)* in body axes", "derived", _propagation_rate, rigid=True),
    t("cross over E_phi*",     "E_phi* cross(x)",           "cross(E_phi* x) E_phi*",                          "MS lemma 2.3; derived"),
    t("carry between phi*",    "phi* cross(x) phi*",        "cross(phi* x) phi* - phi* cross(E_phi* phi* x)",  "derived"),
    t("carry between phi",     "phi cross(x)* phi",         "phi cross(phi* x)* - cross(E_phi* phi* x)* phi",  "derived"),
    t("carry beside phi~*",    "phi* cross(x) phi~*",       "cross(phi* x) phi* - phi* cross(phi* x)",         "derived"),
    t("carry beside phi~",     "phi~ cross(x)* phi",        "phi cross(phi* x)* - cross(phi* x)* phi",         "derived"),
]
# fmt: on
