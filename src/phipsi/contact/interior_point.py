"""Interior point: impulses of contacts where Newton's method finds none, on arrays.

Cones are unit cones here (`Scaled` with unit=True): K ∋ y ⊥ z ∈ K with

    z = W y + b + (s + |z_t|) e_n,    y ∘ z = κ e,    κ → 0

and the Jordan product y ∘ z = [y_n z_t + z_n y_t; y*z]. A group beside the first of a contact
(rolling), or without a head (a limit), has a head of its own whose y is known, that of its contact
or one, and whose z is unknown; the heads of one contact share u_n + s + Σ |z_g|.

The last resort are **convex** problems, in which a known number stands for Σ |z_g|: they are solved
from any start. Their solutions give the next number; these rounds converge where bodies are wedged
or land on many points at once, and Newton's method and the interior point above do not. Two rounds
give the direction of the next (Anderson's method). When which of them is tried: `solver_attempts`.

**Source:** theory/contact 2 (K3b, K3c), 5, 7 (K37);
Acary, Cadoux, Lemaréchal and Malick 2011.
"""

from __future__ import annotations

import numpy as np

from phipsi.contact.cone_problem import Array, Scaled, solved

ITERATIONS = 24
BOUNDARY = 0.99
"""Part of the way to the boundary that a step may take."""
CENTRED, CARRIED, SHORTEST = 1e-21, 1e-9, 1e-9
"""Where iterations end: κ, the error of the equations, the length of a step. A contact that touches
without force has p and u of √κ."""
LEVEL, ROUNDED = 1e-9, 1e-14
"""Error of y ∘ z = κ e for a κ that is kept, beside it or beside one."""


def interior_point(
    problem: Scaled, size: float = 1.0, sliding: Array | None = None
) -> tuple[Array, Array]:
    """Scaled impulses (B, n), and the factorisations (B,).

    `size` of the first point, beside the largest free velocity: there is no best one. With
    `sliding` (B, n_heads), that stands for Σ |z_g|, and the problem is convex.
    """
    cones = Cones(problem, size, sliding=sliding)
    todo = np.arange(len(problem.b))
    out, count = np.zeros_like(problem.b), np.zeros(len(problem.b), int)
    for _ in range(ITERATIONS):
        if not todo.size:
            break
        count[todo] += 1
        over = cones.step()
        out[todo] = cones.impulses()
        todo = todo[~over]
        cones.keep(~over)
    return out, count


class Rounds:
    """The number that stands for Σ |z_g| in the next convex problem, from those before it."""

    def __init__(self, heads: int, batch: int) -> None:
        self.sliding = np.zeros((batch, heads))
        self._before: tuple[Array, Array] | None = None

    def advance(self, found: Array) -> None:
        """From Σ |z_g| (B, heads) of the solution."""
        error = found - self.sliding
        new = found
        if self._before is not None:
            change, turn = self.sliding - self._before[0], error - self._before[1]
            square = (turn * turn).sum(axis=1)
            part = (error * turn).sum(axis=1) / np.where(square > 0, square, 1.0)
            new = np.maximum(found - part[:, None] * (change + turn), 0.0)
        self._before, self.sliding = (self.sliding, error), new

    def keep(self, which: Array) -> None:
        """Go on with some problems."""
        self.sliding = self.sliding[which]
        if self._before is not None:
            self._before = self._before[0][which], self._before[1][which]


class Cones:
    """Points inside the cones: Y, Z (B, N + 1), rows first, then heads of side groups, then zero.

    `t` (cones, 3) and `h` (cones,) are the places of tangential entries and heads. With `kappa`
    (J), iterations end there.
    """

    def __init__(
        self, problem: Scaled, size: float, kappa: float = 0.0, sliding: Array | None = None
    ) -> None:
        g, layout = problem.groups, problem.layout
        n, first = layout.n_rows, {}
        for j, (head, has_head) in enumerate(zip(g.heads, g.has_head, strict=True)):
            if has_head:
                first.setdefault(int(head), j)
        self.sides = [j for j in range(len(g.rows)) if j not in first.values()]
        self.n, self.N = n, n + len(self.sides)
        empty = [self.N] * 3
        rows = np.where(g.rows < n, g.rows, self.N)
        main = [rows[first[i]] if i in first else empty for i in range(layout.n_heads)]
        self.t = np.array([*main, *(rows[j] for j in self.sides)], int).reshape(-1, 3)
        self.h = np.array([*layout.normals, *range(n, self.N)], int)
        self.n_main = layout.n_heads
        self.owner = np.array([g.heads[j] if g.has_head[j] else -1 for j in self.sides], int)
        # every contact in its own unit of impulse, all of them in one of velocity
        own = np.einsum("bii->bi", problem.W)
        largest = np.zeros((len(own), layout.n_heads + layout.limits))
        np.maximum.at(largest.T, layout.heads, own.T)
        unit = 1.0 / np.sqrt(np.where(largest > 0, largest, 1.0))[:, layout.heads]
        speed = np.abs(unit * problem.b).max(axis=1, initial=0.0)
        speed = np.where(speed > 0, speed, 1.0)
        self.unit, self.speed = unit * speed[:, None], speed
        self.floor = kappa / speed**2
        self.W = unit[:, :, None] * problem.W * unit[:, None, :]
        self.b = unit * problem.b / speed[:, None]
        self.is_convex = sliding is not None
        s = problem.s if sliding is None else problem.s + sliding
        self.s = unit[:, layout.normals] * s / speed[:, None]
        batch = len(own)
        self.Y, self.Z = np.zeros((2, batch, self.N + 1))
        self.Y[:, self.h] = self.Z[:, self.h] = size
        for j, side in enumerate(self.sides):
            if self.owner[j] < 0:
                row = g.rows[side, 0]
                self.Y[:, n + j] = np.maximum(problem.c[:, side] / self.unit[:, row], 1e-300)

    def keep(self, which: Array) -> None:
        """Go on with some problems."""
        for name in ("W", "b", "s", "unit", "speed", "floor", "Y", "Z"):
            setattr(self, name, getattr(self, name)[which])

    def impulses(self) -> Array:
        """Those of the problem (B, n)."""
        return self.Y[:, : self.n] * self.unit

    def _jordan(self, Y: Array, Z: Array) -> Array:
        out = np.zeros_like(Y)
        y, z, a, b = Y[:, self.t], Z[:, self.t], Y[:, self.h], Z[:, self.h]
        out[:, self.h] = a * b + (y * z).sum(axis=-1)
        out[:, self.t] = a[..., None] * z + b[..., None] * y
        out[:, -1] = 0.0
        return out

    def arrow(self, Y: Array) -> Array:
        """The matrix of the product with Y (B, N + 1, N + 1)."""
        out = np.zeros((len(Y), self.N + 1, self.N + 1))
        y, a, h = Y[:, self.t], Y[:, self.h], self.h
        out[:, h, h] = a
        out[:, self.t, self.t] = a[..., None]
        out[:, self.t, h[:, None]] = y
        out[:, h[:, None], self.t] = y
        out[:, -1, :] = out[:, :, -1] = 0.0
        return out

    def _rates(self) -> tuple[Array, Array, Array]:
        """P, Q, q with dY = P ξ, dZ = Q ξ + q."""
        n, N, k = self.n, self.N, self.n_main
        batch = len(self.b)
        P, Q = np.zeros((2, batch, N + 1, N))
        rows, normals = np.arange(n), self.h[:k]
        P[:, rows, rows] = 1.0
        u = (self.W @ self.Y[:, :n, None])[..., 0] + self.b
        q = np.zeros((batch, N + 1))
        q[:, :n] = u - self.Z[:, :n]
        Q[:, :n, :n] = self.W
        q[:, normals] += self.s
        Z_t = self.Z[:, self.t]
        size = np.linalg.norm(Z_t, axis=-1)
        e = Z_t / np.where(size > 0, size, 1.0)[..., None]
        q_t, Q_t = q[:, self.t], Q[:, self.t]
        for i, head in enumerate(self.h):
            owner = i if i < k else self.owner[i - k]
            if i >= k:
                Q[:, head, head] = 1.0
            if owner < 0:
                continue
            normal = normals[owner]
            if i >= k:
                P[:, head, normal] = 1.0
                Q[:, normal, head] -= 1.0
                q[:, normal] -= self.Z[:, head]
            if self.is_convex:
                continue
            q[:, normal] += size[:, i] + (e[:, i] * q_t[:, i]).sum(axis=-1)
            Q[:, normal] += np.einsum("bt,btj->bj", e[:, i], Q_t[:, i])
        return P, Q, q

    def equations(self) -> tuple[Array, Array, Array, Array, Array]:
        """P, Q, q; the matrix of ξ (B, N + 1, N), and Arw(Y), by which errors q enter."""
        P, Q, q = self._rates()
        arrow = self.arrow(self.Y)
        return P, Q, q, self.arrow(self.Z) @ P + arrow @ Q, arrow

    def _reach(self, X: Array, dX: Array) -> Array:
        """The longest step (B,) that stays inside all cones."""
        x, d, h, k = X[:, self.t], dX[:, self.t], X[:, self.h], dX[:, self.h]
        a = k * k - (d * d).sum(axis=-1)
        b = h * k - (x * d).sum(axis=-1)
        size = np.linalg.norm(x, axis=-1)
        c = np.maximum((h - size) * (h + size), 0.0)
        root = b * b - a * c
        below = -b + np.sqrt(np.maximum(root, 0.0))
        hit = (root >= 0) & (below > 0)
        return np.where(hit, c / np.where(hit, below, 1.0), np.inf).min(axis=1, initial=np.inf)

    def step(self) -> Array:
        """One predictor and corrector; where the iteration ends (B,)."""
        N, cones = self.N, max(1, len(self.h))
        P, Q, q, matrix, arrow = self.equations()
        carried = (arrow @ q[..., None])[..., 0]
        product = self._jordan(self.Y, self.Z)
        kappa = product[:, self.h].sum(axis=1) / cones

        def direction(right: Array) -> tuple[Array, Array]:
            xi = solved(matrix[:, :N], (right - carried)[:, :N])
            return (P @ xi[..., None])[..., 0], (Q @ xi[..., None])[..., 0] + q

        def reach(dY: Array, dZ: Array) -> Array:
            return np.minimum(self._reach(self.Y, dY), self._reach(self.Z, dZ))

        product[:, self.h] -= self.floor[:, None]
        dY, dZ = direction(-product)
        length = np.minimum(1.0, reach(dY, dZ))[:, None]
        ahead = self._jordan(self.Y + length * dY, self.Z + length * dZ)[:, self.h]
        centre = np.clip(ahead.sum(axis=1) / cones / np.where(kappa > 0, kappa, 1.0), 0.0, 1.0) ** 3
        right = -product - self._jordan(dY, dZ)
        right[:, self.h] += np.maximum(centre * kappa - self.floor, 0.0)[:, None]
        dY, dZ = direction(right)
        length = np.minimum(1.0, BOUNDARY * reach(dY, dZ))[:, None]
        finite = np.isfinite(np.abs(dY).max(axis=1) + np.abs(dZ).max(axis=1))
        self.Y = np.where(finite[:, None], self.Y + length * dY, self.Y)
        self.Z = np.where(finite[:, None], self.Z + length * dZ, self.Z)
        product = self._jordan(self.Y, self.Z)
        kappa = product[:, self.h].sum(axis=1) / cones
        product[:, self.h] -= self.floor[:, None]
        level = np.abs(product).max(axis=1) <= np.maximum(LEVEL * self.floor, ROUNDED)
        off = np.abs(q).max(axis=1) * (1.0 - length[:, 0])
        self.solved = np.where(self.floor > 0, level, kappa <= CENTRED) & (off <= CARRIED)
        return ~finite | self.solved | (length[:, 0] < SHORTEST)
