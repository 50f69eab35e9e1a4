# pyright: basic
"""The mechanism of a proof as per-body blocks, and the papers' recursions over them.

In world axes the rigid steps are taken from the positions of the bodies alone, and the bias pair is
the papers'; in body axes the steps are the blocks of E_φ and the bias pair is a, b. Every recursion
is written out as in theory/open-chains 5–11, for any tree, with rotor inertia.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phipsi.operators import B, E_phi, H, M, f0, gravity, parse, pose
from phipsi.rewrite.identity import Array, Case, gathered
from phipsi.spatial import phi as rigid


def lever(offset: Array) -> Array:
    """φ(x, y) for the vector l(x, y), in one set of axes."""
    return rigid(np.eye(3), offset)


def blocks(matrix: Array, n: int) -> Array:
    """A 6n × 6n matrix as (n, n, 6, 6)."""
    return matrix.reshape(n, 6, n, 6).transpose(0, 2, 1, 3)


def from_blocks(values: Array) -> Array:
    """Inverse of `blocks`."""
    n = len(values)
    return values.transpose(0, 2, 1, 3).reshape(6 * n, 6 * n)


@dataclass(frozen=True)
class Bodies:
    """Blocks of one mechanism in one state; `step[k]` is φ(parent(k), k)."""

    case: Case
    parent: tuple[int, ...]
    hinge: tuple[slice, ...]
    step: Array
    H: tuple[Array, ...]
    M: Array
    Jr: tuple[Array, ...]
    bias: Array
    b: Array
    gravity: Array
    points: Array

    @property
    def n(self) -> int:
        """Number of bodies."""
        return len(self.parent)

    @property
    def nv(self) -> int:
        """Number of rates."""
        return self.case.model.nv

    @property
    def a(self) -> Array:
        """Coriolis accelerations with gravity, the papers' a of the forward dynamics."""
        return self.bias + self.gravity

    def up(self, step: Array, y: Array) -> Array:
        """Tip-to-base: z(k) = y(k) + Σ over children c of step(k, c) z(c)."""
        z = y.copy()
        for k in reversed(range(self.n)):
            if self.parent[k] >= 0:
                z[self.parent[k]] += step[k] @ z[k]
        return z

    def down(self, step: Array, y: Array) -> Array:
        """Base-to-tip: z(k) = y(k) + step*(p, k) z(p)."""
        z = y.copy()
        for k in range(self.n):
            if self.parent[k] >= 0:
                z[k] += step[k].T @ z[self.parent[k]]
        return z

    def of_parent(self, z: Array, k: int) -> Array:
        """z(parent(k)), zero at a root."""
        return z[self.parent[k]] if self.parent[k] >= 0 else self.case.zeros(6)

    def rates_to_motions(self, x: Array) -> Array:
        """H* x."""
        motions = [self.H[k].T @ x[self.hinge[k]] for k in range(self.n)]
        return gathered(self.case, motions, 6)

    def forces_to_efforts(self, f: Array) -> Array:
        """H f."""
        efforts = (self.H[k] @ f[k] for k in range(self.n))
        return np.concatenate([self.case.zeros(0), *efforts])

    def apply(self, memoryless: Array, x: Array) -> Array:
        """X x for a memoryless X (n, 6, 6)."""
        return np.einsum("kij,kj->ki", memoryless, x)


def bodies(case: Case, axes: str = "inertial") -> Bodies:
    """The blocks of a case, in world axes ("inertial") or body axes ("body")."""
    if axes not in case.memo:
        case.memo[axes] = _bodies(case, axes)
    return case.memo[axes]


def _bodies(case: Case, axes: str) -> Bodies:
    model = case.model
    n, parent, hinge = model.n_bodies, model.parent, model.v_slices
    world = axes == "inertial"

    def vector(expr):
        return case.dense(expr, axes=axes).reshape(n, 6)

    none = case.zeros(6, 6)
    if world:
        at = case.dense(pose)[:, :3, 3]
        steps = [lever(at[k] - at[p]) if p >= 0 else none for k, p in enumerate(parent)]
    else:
        E = blocks(case.dense(E_phi), n)
        steps = [E[p, k] if p >= 0 else none for k, p in enumerate(parent)]
    full = case.dense(H, axes=axes)
    inertias = blocks(case.dense(M, axes=axes), n)
    return Bodies(
        case=case,
        parent=parent,
        hinge=hinge,
        step=gathered(case, steps, 6, 6),
        H=tuple(full[hinge[k], 6 * k : 6 * k + 6] for k in range(n)),
        M=gathered(case, [inertias[k, k] for k in range(n)], 6, 6),
        Jr=tuple(np.diag(model.armature[s]) for s in hinge),
        bias=vector(parse("a_paper" if world else "a")),
        b=vector(parse("b_paper" if world else "b")),
        gravity=vector(gravity),
        points=vector(B @ f0),
    )


def velocities(w: Bodies) -> Array:
    """V(k) = φ*(p, k) V(p) + H*(k) v(k)."""
    return w.down(w.step, w.rates_to_motions(w.case.v))


def composite(w: Bodies) -> Array:
    """R(k) = M(k) + Σ φ(k, c) R(c) φ*(k, c)."""
    r = w.M.copy()
    for k in reversed(range(w.n)):
        if w.parent[k] >= 0:
            r[w.parent[k]] += w.step[k] @ r[k] @ w.step[k].T
    return r


def mass_matrix_from(w: Bodies, r: Array) -> Array:
    """H φ M φ* H* + Jr from composite inertias and walks along the paths, MM eq. 30–33."""
    out = w.case.zeros(w.nv, w.nv)
    for k in range(w.n):
        s = w.hinge[k]
        out[s, s] = w.H[k] @ r[k] @ w.H[k].T + w.Jr[k]
        x, i = r[k] @ w.H[k].T, k
        while w.parent[i] >= 0:
            x, i = w.step[i] @ x, w.parent[i]
            out[w.hinge[i], s] = w.H[i] @ x
            out[s, w.hinge[i]] = out[w.hinge[i], s].T
    return out


@dataclass(frozen=True)
class Riccati:
    """P, D, G, K and ψ by recursion; K[k] and psi[k] are the blocks (parent(k), k)."""

    P: Array
    D: tuple[Array, ...]
    G: tuple[Array, ...]
    K: tuple[Array, ...]
    bar: Array
    psi: Array


def riccati(w: Bodies) -> Riccati:
    """The articulated-body recursion, tip to base, MM eq. 34–36."""
    key = "riccati", id(w)
    if key not in w.case.memo:
        w.case.memo[key] = _riccati(w)
    return w.case.memo[key]


def _riccati(w: Bodies) -> Riccati:
    P, D, G, K = w.M.copy(), [], [], []
    bar, psi = np.zeros_like(P), np.zeros_like(P)
    for k in reversed(range(w.n)):
        D.append(w.H[k] @ P[k] @ w.H[k].T + w.Jr[k])
        G.append(np.linalg.solve(D[-1], w.H[k] @ P[k]).T)
        K.append(w.step[k] @ G[-1])
        bar[k] = np.eye(6) - G[-1] @ w.H[k]
        psi[k] = w.step[k] @ bar[k]
        if w.parent[k] >= 0:
            P[w.parent[k]] += w.step[k] @ (P[k] - G[-1] @ w.H[k] @ P[k]) @ w.step[k].T
    return Riccati(P, tuple(D[::-1]), tuple(G[::-1]), tuple(K[::-1]), bar, psi)


# ---- filters -----------------------------------------------------------------------------------


def colour(w: Bodies, r: Riccati, e: Array) -> Array:
    """y = [I + H φ K] e."""
    z, y = w.case.zeros(w.n, 6), e.copy()
    for k in reversed(range(w.n)):
        y[w.hinge[k]] += w.H[k] @ z[k]
        if w.parent[k] >= 0:
            z[w.parent[k]] += w.step[k] @ z[k] + r.K[k] @ e[w.hinge[k]]
    return y


def whiten(w: Bodies, r: Riccati, y: Array) -> Array:
    """e = [I − H ψ K] y."""
    z, e = w.case.zeros(w.n, 6), y.copy()
    for k in reversed(range(w.n)):
        e[w.hinge[k]] -= w.H[k] @ z[k]
        if w.parent[k] >= 0:
            z[w.parent[k]] += r.psi[k] @ z[k] + r.K[k] @ y[w.hinge[k]]
    return e


def divide(w: Bodies, r: Riccati, e: Array) -> Array:
    """D⁻¹ e."""
    parts = (np.linalg.solve(r.D[k], e[w.hinge[k]]) for k in range(w.n))
    return np.concatenate([w.case.zeros(0), *parts])


def smooth(w: Bodies, r: Riccati, nu: Array) -> tuple[Array, Array]:
    """([I − H ψ K]* nu, ψ* H* nu)."""
    lam = w.down(r.psi, w.rates_to_motions(nu))
    x = nu.copy()
    for k in range(w.n):
        x[w.hinge[k]] -= r.K[k].T @ w.of_parent(lam, k)
    return x, lam


# ---- the algorithms ----------------------------------------------------------------------------


def newton_euler(w: Bodies) -> tuple[Array, Array]:
    """Efforts (rotors included) and hinge forces, two sweeps."""
    alpha = w.down(w.step, w.rates_to_motions(w.case.vdot) + w.a)
    f = w.up(w.step, w.apply(w.M, alpha) + w.b + w.points)
    return w.forces_to_efforts(f) + w.case.model.armature * w.case.vdot, f


def forward_1(w: Bodies) -> tuple[Array, Array, Array]:
    """FD1 and FD2: (vdot, λ, φ* a)."""
    r, zeta = riccati(w), w.down(w.step, w.a)
    F = w.up(w.step, w.apply(w.M, zeta) + w.b + w.points)
    eps = whiten(w, r, w.case.tau - w.forces_to_efforts(F))
    vdot, lam = smooth(w, r, divide(w, r, eps))
    return vdot, lam, zeta


def forward_1_fused(w: Bodies) -> tuple[Array, Array]:
    """FD1 with both tip-to-base sweeps in one and without ψ: (vdot, λ)."""
    r, tau = riccati(w), w.case.tau
    F = w.apply(w.M, w.down(w.step, w.a)) + w.b + w.points
    z, nu = w.case.zeros(w.n, 6), w.case.zeros(w.nv)
    for k in reversed(range(w.n)):
        s = w.hinge[k]
        eps = tau[s] - w.H[k] @ (F[k] + z[k])
        nu[s] = np.linalg.solve(r.D[k], eps)
        if w.parent[k] >= 0:
            F[w.parent[k]] += w.step[k] @ F[k]
            z[w.parent[k]] += w.step[k] @ (z[k] + r.G[k] @ eps)
    lam, vdot = w.case.zeros(w.n, 6), w.case.zeros(w.nv)
    for k in range(w.n):
        mu = w.step[k].T @ w.of_parent(lam, k)
        vdot[w.hinge[k]] = nu[w.hinge[k]] - r.G[k].T @ mu
        lam[k] = mu + w.H[k].T @ vdot[w.hinge[k]]
    return vdot, lam


def forward_3(w: Bodies, tip_forces_twice: bool = False) -> tuple[Array, Array]:
    """FD3: (vdot, alpha). `tip_forces_twice` is the misprint of MM eq. 60 and 63."""
    r, tau, phi_a = riccati(w), w.case.tau, w.down(w.step, w.a)
    zeta = w.apply(w.M, phi_a) + w.b + w.points
    z = w.points.copy() if tip_forces_twice else w.case.zeros(w.n, 6)
    eps = w.case.zeros(w.nv)
    for k in reversed(range(w.n)):
        s = w.hinge[k]
        eps[s] = tau[s] - w.H[k] @ (z[k] + zeta[k])
        if w.parent[k] >= 0:
            z[w.parent[k]] += r.psi[k] @ (z[k] + zeta[k]) + r.K[k] @ tau[s]
    vdot, lam = smooth(w, r, divide(w, r, eps))
    return vdot, lam + phi_a


def forward_4(w: Bodies, tau: Array | None = None) -> tuple[Array, Array, Array]:
    """FD4: (vdot, alpha, z)."""
    r, a = riccati(w), w.a
    tau = w.case.tau if tau is None else tau
    z, eps = w.b + w.points, w.case.zeros(w.nv)
    for k in reversed(range(w.n)):
        s = w.hinge[k]
        eps[s] = tau[s] - w.H[k] @ z[k]
        if w.parent[k] >= 0:
            z[w.parent[k]] += r.psi[k] @ (z[k] + r.P[k] @ a[k]) + r.K[k] @ tau[s]
    nu = divide(w, r, eps)
    alpha, vdot = w.case.zeros(w.n, 6), w.case.zeros(w.nv)
    for k in range(w.n):
        s, outer = w.hinge[k], w.of_parent(alpha, k)
        alpha[k] = r.psi[k].T @ outer + w.H[k].T @ nu[s] + r.bar[k].T @ a[k]
        vdot[s] = nu[s] - r.K[k].T @ outer - r.G[k].T @ a[k]
    return vdot, alpha, z


def forward_4_without_psi(w: Bodies) -> tuple[Array, Array]:
    """The usual articulated-body algorithm: (vdot, alpha)."""
    r, a, tau = riccati(w), w.a, w.case.tau
    z, nu = w.b + w.points, w.case.zeros(w.nv)
    for k in reversed(range(w.n)):
        s = w.hinge[k]
        eps = tau[s] - w.H[k] @ z[k]
        nu[s] = np.linalg.solve(r.D[k], eps)
        if w.parent[k] >= 0:
            z[w.parent[k]] += w.step[k] @ (z[k] + r.bar[k] @ r.P[k] @ a[k] + r.G[k] @ eps)
    alpha, vdot = w.case.zeros(w.n, 6), w.case.zeros(w.nv)
    for k in range(w.n):
        mu = w.step[k].T @ w.of_parent(alpha, k) + a[k]
        vdot[w.hinge[k]] = nu[w.hinge[k]] - r.G[k].T @ mu
        alpha[k] = mu + w.H[k].T @ vdot[w.hinge[k]]
    return vdot, alpha


def compliance(w: Bodies, r: Riccati) -> Array:
    """J ℳ⁻¹ J* by Υ and nearest common ancestors, for the points of the case."""
    case, tree = w.case, w.case.model.tree
    upsilon = upsilon_blocks(w, r)
    picked, where = case.dense(B, axes="inertial"), case.points.body
    out = case.zeros(6 * len(where), 6 * len(where))
    for i, ki in enumerate(where):
        for j, kj in enumerate(where):
            c = tree.nearest_common_ancestor(ki, kj)
            if c >= 0:
                carried = []
                for point, k in ((i, ki), (j, kj)):
                    x = picked[6 * k : 6 * k + 6, 6 * point : 6 * point + 6]
                    while k != c:
                        x, k = r.psi[k] @ x, w.parent[k]
                    carried.append(x)
                block = carried[0].T @ upsilon[c] @ carried[1]
                out[6 * i : 6 * i + 6, 6 * j : 6 * j + 6] = block
    return out


def upsilon_blocks(w: Bodies, r: Riccati) -> Array:
    """Υ(k) = ψ*(p, k) Υ(p) ψ(p, k) + H*(k) D⁻¹(k) H(k)."""
    out = w.case.zeros(w.n, 6, 6)
    for k in range(w.n):
        out[k] = w.H[k].T @ np.linalg.solve(r.D[k], w.H[k])
        if w.parent[k] >= 0:
            out[k] += r.psi[k].T @ out[w.parent[k]] @ r.psi[k]
    return out


def rigid_efforts(w: Bodies, x: Array) -> Array:
    """H φ M φ* H* x: the efforts for accelerations x, and nothing else."""
    alpha = w.down(w.step, w.rates_to_motions(x))
    return w.forces_to_efforts(w.up(w.step, w.apply(w.M, alpha)))
