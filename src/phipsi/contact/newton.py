"""Proximal semismooth Newton: the impulses of contacts, on arrays.

A round solves the problem with W + ε I and b − ε c, which has one solution of least impulses where
W is singular; the next has c = p, until the residual of W itself is at the tolerance. Inside,
Newton's method on the map of Alart and Curnier. Steps are full unless |F| exceeds the largest of
its last four values: along self-stresses of an indeterminate problem |F| is tiny but curved, and a
monotone search stalls there.

Wedged bodies, whose contacts all but slide, need more care: there a step of |F| = ε moves impulses
by as much as they are. **Polishing** begins near a solution, with c = p and a larger ε.

**Least impulses.** Rounding of W p + b leaves a self-stress of its size / ε in a solution, 1e-7 of
the impulses. A round multiplies impulses by M = ε J⁻¹ ∂F/∂z, whose powers tend to the projection
onto the self-stresses of the modes, with the error (ε/λ)ᵏ for an eigenvalue λ of W. p − Mᵏ p is the
limit of equal compliances to rounding: M p is small, and so is the rounding of it.

**Source:** theory/contact 5.
"""

from __future__ import annotations

import numpy as np

from phipsi.contact.cone_problem import ACCEPTED, ROUNDING, Array, Scaled, solved

PROXIMAL = 1e-9
"""ε beside the mean of the diagonal of W."""
ITERATIONS, ROUNDS, HALVINGS, MEMORY = 24, 8, 6, 4
POLISHING, POLISHED = 12, 1e-7
"""Iterations from a point that is nearly a solution, and their ε."""
FREED, FALLING = 40, 0.2
"""Iterations with full steps only, and their ε from one round to the next. Where sliding contacts
are wedged, the right step bends |F| to many times what it was, and the one after it bends it back;
where gaps are not quite those of a plane, a round moves a self-stress by no more than u / ε."""
RESTING = 0.1
"""Residual beside the tolerance at which the start is the solution."""
PATIENCE = 8
"""Iterations after which all that counts as solved is accepted."""
NOISE = 64 * float(np.finfo(float).eps)
"""Where F is rounding, beside the largest |W| |y| + |b|: one more step would not make it less, but
move self-stresses by as much over ε, and sliding is curved."""
POWERS, STEADY, WORSE = 8, 1e-14, 1.001
"""Least impulses: most powers of M; how much Mᵏ p would change with the next, beside the largest
impulse; how much larger the residual may be without self-stresses."""
INNER = 4 * float(np.finfo(float).eps)
"""What is no larger in any case, beside the largest |W| |y| + |b|."""


def newton(
    problem: Scaled,
    start: Array,
    tolerance: float,
    eps: float = PROXIMAL,
    *,
    polishing: bool = False,
    free: bool = False,
) -> tuple[Array, Array, Array]:
    """Scaled impulses y (B, n), their residuals (B,), the factorisations (B,).

    The start of a round is the result of the one before. Each problem is iterated independently.
    `polishing` begins with c = y; `free` too, with full steps and a falling ε.
    """
    first = np.where(problem.dead, 0.0, start)
    count = np.zeros(len(first), int)
    best = problem.inside(first)
    left = problem.residual(best)
    state = _Round(problem, first, eps, polishing or free, free)
    limit = np.maximum(RESTING * tolerance, problem.rounding(best))
    done = left <= limit  # bodies that go on to rest
    todo = np.flatnonzero(~done)
    state.keep(~done)
    for turn in range(FREED if free else POLISHING if polishing else ITERATIONS):
        if not todo.size:
            break
        count[todo] += 1
        state.step()
        y = state.problem.inside(state.y)
        worth = state.problem.residual(y)
        limit = np.maximum(tolerance, state.problem.rounding(y))
        good = worth <= limit
        state.ended |= good & state.stalled
        better = ~(worth > left[todo]) | (state.ended & good)
        best[todo[better]], left[todo[better]] = y[better], worth[better]
        over = (state.ended & good) | (state.rounds >= ROUNDS)
        if free or turn >= PATIENCE:
            over |= worth <= np.maximum(ACCEPTED, limit)
        state.next_round(state.ended)
        keep = ~(over | state.lost)
        todo = todo[keep]
        state.keep(keep)
    solved = np.flatnonzero((count > 0) & (left <= np.maximum(tolerance, problem.rounding(best))))
    if solved.size:
        part = problem.taken(solved)
        best[solved], left[solved] = _least(part, best[solved], left[solved], eps)
    return best, left, count


def _least(problem: Scaled, y: Array, left: Array, eps: float) -> tuple[Array, Array]:
    """Solutions (B, n) without self-stresses, and their residuals, where they are no worse.

    They are worse where other contacts would have to slide or to open.
    """
    state = _Round(problem, y, eps, polishing=True)
    x, lost, going = y, np.zeros(len(y), bool), np.ones(len(y), bool)
    by_z, size = state.by_z, np.abs(y).max(axis=1, initial=0.0)
    before = size
    for _ in range(POWERS):
        after, bad = _solved(state.J, state.eps[:, None] * (by_z @ x[..., None])[..., 0])
        lost |= going & bad
        change = np.abs(after - x).max(axis=1, initial=0.0)
        x = np.where(going[:, None], after, x)
        going &= change**2 > STEADY * size * before  # change²/before: the next one
        before = change
        if not going.any():
            break
    new = problem.inside(y - x)
    found = problem.residual(new)
    rounded = problem.rounding(new) * (INNER / ROUNDING)
    fine = ~lost & (found <= np.maximum(WORSE * left, rounded))
    return np.where(fine[:, None], new, y), np.where(fine, found, left)


class _Round:
    """Iterates of problems that are not solved yet."""

    def __init__(
        self, problem: Scaled, y: Array, eps: float, polishing: bool, free: bool = False
    ) -> None:
        self.problem, self.y, self.free = problem, y, free
        live = np.maximum((~problem.dead).sum(axis=1), 1)
        self.eps = eps * np.einsum("bii->b", problem.W) / live
        self.eps = np.where(self.eps > 0, self.eps, 1.0)
        self.W = problem.W + self.eps[:, None, None] * np.eye(y.shape[1])
        self.c = y.copy() if polishing else np.zeros_like(y)
        self.rounds = np.zeros(len(y), int)
        self.memory = np.full((len(y), MEMORY), np.inf)
        self.lost = np.zeros(len(y), bool)
        self.ended = self.stalled = np.zeros(len(y), bool)
        self.F, self.J = self._map(y)

    @property
    def by_z(self) -> Array:
        """∂F/∂z (B, n, n) at y."""
        return self._derivatives(self.y)[2]

    def keep(self, which: Array) -> None:
        self.problem = self.problem.taken(which)
        for name in ("y", "eps", "W", "c", "rounds", "memory", "lost", "ended", "F", "J"):
            setattr(self, name, getattr(self, name)[which])

    def next_round(self, which: Array) -> None:
        self.rounds[which] += 1
        self.c[which] = self.y[which]
        self.memory[which] = np.inf
        if self.free:
            self.eps = np.where(which, FALLING * self.eps, self.eps)
            self.W = self.problem.W + self.eps[:, None, None] * np.eye(self.y.shape[1])
        self.F, self.J = self._map(self.y)

    def step(self) -> None:
        """One Newton step of every problem."""
        size = _norm(self.F)
        self.memory = np.concatenate([self.memory[:, 1:], size[:, None]], axis=1)
        known = np.where(np.isfinite(self.memory), self.memory, -np.inf)
        limit = known.max(axis=1)
        d, self.lost = _solved(self.J, -self.F)
        length = np.ones(len(d))
        y = self.y + d
        F, J = self._map(y)
        for _ in range(0 if self.free else HALVINGS):
            worse = ~(_norm(F) <= limit) & ~self.lost
            if not worse.any():
                break
            length[worse] /= 2
            y = self.y + length[:, None] * d
            F, J = self._map(y)
        self.y, self.F, self.J = y, F, J
        self.stalled = _norm(F) > 0.5 * size
        scale = self.problem.rounding(self.y) * (NOISE / ROUNDING)
        self.ended = np.abs(self.F).max(axis=1, initial=0.0) <= scale

    def _map(self, y: Array) -> tuple[Array, Array]:
        """The map of Alart and Curnier (B, n), and its derivative (B, n, n)."""
        F, by_y, by_z = self._derivatives(y)
        return F, by_y + by_z @ self.W

    def _derivatives(self, y: Array) -> tuple[Array, Array, Array]:
        """F (B, n), ∂F/∂y and ∂F/∂z (B, n, n)."""
        x, g, r = self.problem, self.problem.groups, self.problem.r
        layout = x.layout
        z = (self.W @ y[..., None])[..., 0] + x.b - self.eps[:, None] * self.c
        batch, n = y.shape
        rows = np.arange(n)
        F, by_y, by_z = y / r, np.zeros((batch, n + 1, n + 1)), np.zeros((batch, n + 1, n + 1))
        by_y[:, rows, rows] = 1.0 / r
        # normals: u_n + s where they are closed
        normals = layout.normals
        top = y[:, normals] - r[:, normals] * (z[:, normals] + x.s)
        closed = top > 0
        F[:, normals] = np.where(closed, z[:, normals] + x.s, F[:, normals])
        by_y[:, normals, normals] = np.where(closed, 0.0, by_y[:, normals, normals])
        by_z[:, normals, normals] = closed
        # groups: sliding where the velocity asks for more than the bound
        if len(g.rows):
            r_g = g.of(r)[:, :, :1]
            x_g, y_g, z_g = g.of(y) - r_g * g.of(z), g.of(y), g.of(z)
            size = np.linalg.norm(x_g, axis=-1)
            bound = (
                np.where(g.has_head, x.c * np.maximum(top, 0)[:, g.heads], x.c)
                if len(normals)
                else x.c
            )
            slides = (size > bound) | (bound <= 0)
            e = x_g / np.where(size > 0, size, 1.0)[..., None]
            part = np.where(slides, bound / np.where(size > 0, size, 1.0), 1.0)  # of x_g
            F_g = np.where(slides[..., None], (y_g - bound[..., None] * e) / r_g, z_g)
            g.put(F_g, F)
            turn = part[..., None, None] * np.eye(3) - np.where(slides, part, 0.0)[
                ..., None, None
            ] * (e[..., :, None] * e[..., None, :])
            g.put_blocks((np.eye(3) - turn) / r_g[..., None], by_y)
            g.put_blocks(turn, by_z)
            if len(normals):
                lean = np.where(slides & g.has_head & closed[:, g.heads], x.c, 0.0)[..., None] * e
                g.put_beside(-(lean / r_g), normals, by_y)
                g.put_beside(lean, normals, by_z)
        by_y, by_z = by_y[:, :n, :n], by_z[:, :n, :n]
        F = np.where(x.dead, y / r, F)
        by_y = np.where(x.dead[:, :, None], np.eye(n) / r[:, :, None], by_y)
        by_z = np.where(x.dead[:, :, None], 0.0, by_z)
        return F, by_y, by_z


def _norm(F: Array) -> Array:
    return np.sqrt(np.sum(F * F, axis=1))


def _solved(J: Array, right: Array) -> tuple[Array, Array]:
    """J⁻¹ right, and where J is singular or not finite."""
    d = solved(J, right)
    lost = ~np.isfinite(np.abs(d).max(axis=1, initial=0.0))
    return np.where(lost[:, None], 0.0, d), lost
