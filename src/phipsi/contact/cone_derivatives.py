"""Derivatives of the impulses of contacts: how they follow the data of their problem.

At a solution, every contact is in a mode, and its conditions are equations of the changes:

    open   dp = 0;    closed   du_n = −ds;    sticking   du_t = 0
    sliding   d(p_t + p_n μ² u_t/|μ u_t|) = 0

with du = W dp + dW p + db. Where the modes are strict (no contact is between two of them) they
remain, and the derivative is that of these equations. Where W is singular, W + ε I takes its place,
of which a second solution, with the first one's ε dp put back, leaves an error of the order ε².
A contact between two modes gets the derivative of one side, each its own where there are several.

Smoothed derivatives are those of a point inside the cones. The interior point stops at κ > 0 (J),
y ∘ z = κ e. Its impulses are smooth functions of the data, act at a distance, and err in proportion
to κ; their derivatives lead an optimiser to contacts that are not made yet. They obey

    (W + T⁻¹ Arw(y)⁻¹ Arw(z)) dy = −db

in unit cones, p = μ y for tangential rows.

**Source:** theory/contact 7 (K12, K37).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.backends.native.text.lane_arithmetic import Emitter, Lane, i64, write_loop
from phipsi.contact.cone_problem import (
    INACTIVE,
    SOLVED,
    UNSOLVED,
    Array,
    ConeLayout,
    ConeProblem,
    Groups,
    Scaled,
)
from phipsi.contact.contact_group import ContactGroup, code_version
from phipsi.contact.interior_code import InteriorCode
from phipsi.contact.interior_point import ITERATIONS, Cones
from phipsi.contact.lane_cones import ConeLanes, Kind, cone_routine
from phipsi.contact.lane_elimination import eliminate
from phipsi.contact.newton import PROXIMAL
from phipsi.contact.solver_attempts import STARTS
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Node


def cone_adjoint(problem: ConeProblem, p: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Weights of b (..., n), s (..., n_heads) and the coefficients (..., n), from that of p.

    The weight of W is that of b times p*.
    """
    flat, batch, layout = problem.flat(), problem.batch, problem.layout
    n = layout.n_rows
    p, weight = (np.broadcast_to(x, (*batch, n)).reshape(-1, n) for x in (p, weight))
    by_p, by_u, by_s, by_mu = _modes(flat, p)
    there = np.where(layout.heads < layout.n_heads, 0.0, 1.0) * np.ones_like(p)
    is_contact = layout.heads < layout.n_heads
    there[:, is_contact] = (flat.s < INACTIVE)[:, layout.heads[is_contact]]
    own = np.einsum("bii->bi", flat.W) * there
    eps = PROXIMAL * own.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    J = by_p + by_u @ (flat.W + eps[:, None, None] * np.eye(n))
    J, by_b = np.swapaxes(J, 1, 2), np.swapaxes(by_u, 1, 2)
    found = np.linalg.solve(J, weight[..., None])
    found = np.linalg.solve(J, weight[..., None] + eps[:, None, None] * (by_b @ found))
    to_b, to_s, to_mu = (-(np.swapaxes(x, 1, 2) @ found)[..., 0] for x in (by_u, by_s, by_mu))
    return (
        to_b.reshape(*batch, n),
        to_s.reshape(*batch, layout.n_heads),
        to_mu.reshape(*batch, n),
    )


def _modes(flat: ConeProblem, p: Array) -> tuple[Array, Array, Array, Array]:
    """The derivatives of the conditions by p, u, s and the coefficients."""
    layout, count = flat.layout, len(p)
    n, k, normals = layout.n_rows, layout.n_heads, layout.normals
    u = flat.velocities(p)
    by_p, by_u, by_mu = np.zeros((3, count, n + 1, n + 1))
    by_s = np.zeros((count, n, k))
    own = np.einsum("bii->bi", flat.W)
    own = np.where(own > 0, own, 1.0)
    closed = (p[:, normals] * own[:, normals] > u[:, normals] + flat.s) & (flat.s < INACTIVE)
    by_p[:, normals, normals] = ~closed
    by_u[:, normals, normals] = closed
    by_s[:, normals, np.arange(k)] = closed
    g = Groups(layout)
    if len(g.rows):
        mu, p_g, u_g = g.of(flat.coefficients), g.of(p), g.of(u)
        top, depth = np.ones((2, count, len(g.rows)))
        held = np.ones((count, len(g.rows)), bool)
        if k:
            head = normals[g.heads]
            top = np.where(g.has_head, p[:, head], 1.0)
            depth = np.where(g.has_head, 1.0 / own[:, head], 1.0)
            held = closed[:, g.heads] | ~g.has_head
        first = g.rows[:, 0]
        depth = np.where(
            g.has_head, depth, 1.0 / (own[:, first] * np.maximum(mu[..., 0] ** 2, 1e-300))
        )
        safe = np.where(mu > 0, mu, 1.0)
        x = np.where(mu > 0, p_g / safe, 0.0) - depth[..., None] * mu * u_g
        slides = (np.linalg.norm(x, axis=-1) > top) & held
        speed = np.linalg.norm(mu * u_g, axis=-1)
        slides &= speed > 0
        s = np.where(slides, speed, 1.0)[..., None]
        e = mu**2 * u_g / s
        free = (~held[..., None]) | (mu <= 0)
        turn = top[..., None, None] * (
            np.eye(3) * (mu**2 / s)[..., None] - e[..., :, None] * (e / s)[..., None, :]
        )
        by = top[..., None, None] * (
            np.eye(3) * (2 * mu * u_g / s)[..., None]
            - e[..., :, None] * (mu * u_g**2 / s**2)[..., None, :]
        )
        alone = free[..., None] * np.eye(3)
        sliding = slides[..., None, None] & ~free[..., None]
        stick = (~slides[..., None, None] & ~free[..., None]) * np.eye(3)
        g.put_blocks(alone + np.where(sliding, np.eye(3), 0.0), by_p)
        g.put_blocks(np.where(sliding, turn, 0.0) + stick, by_u)
        g.put_blocks(np.where(sliding, by, 0.0), by_mu)
        if k:
            g.put_beside(np.where(sliding[..., 0], e, 0.0), normals, by_p)
    return by_p[:, :n, :n], by_u[:, :n, :n], by_s, by_mu[:, :n, :n]


class _Derivatives(Callee):
    """What both adjoints are as calls in graphs; `masks` as for `ConeCall`."""

    layout: ConeLayout
    masks: tuple[int, ...] | None

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not available."""
        raise NotImplementedError("the adjoint of contacts has no adjoint")

    def solved(
        self, code: Any, args: Sequence[Any], room: int, what: str, writer: Any, *options: Any
    ) -> tuple[ContactGroup, Any, list[Any]]:
        """The contacts that are there, what a routine found for them, and areas for the results.

        `room`, how many numbers of a row it finds; they begin with the last argument, the weights
        of p. The fifth argument is its y.
        """
        W, b, s, coefficients, y, *_ = stored = [code.stored(x) for x in args]
        group = ContactGroup(code, self.layout, b, coefficients, s, self.masks)
        group.gather_matrix(W)
        group.gather_rest(lambda i: code.entry(s, i), y)
        found = code.area(room * group.size + 1).base
        group.gather_rows(stored[-1], found)
        routine = cone_routine(code.module, code.e, what, writer, group.kinds, group.size, *options)
        group.call(routine, found)
        return group, found, [code.area(max(1, math.prod(x))) for x in self.shapes]


@final
class AdjointCall(_Derivatives):
    """`cone_adjoint` in graphs: W, b, s, coefficients, p, weight → weights of b, s, and those."""

    def __init__(self, layout: ConeLayout, masks: tuple[int, ...] | None = None) -> None:
        self.layout, self.masks = layout, masks
        self.shapes = ((layout.n_rows,), (layout.n_heads,), (layout.n_rows,))
        self.key = ("adjoint", layout, masks)
        self.name = f"adjoint of cones {layout} {masks} {code_version()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        W, b, s, coefficients, p, weight = args
        return cone_adjoint(ConeProblem(self.layout, W, b, s, coefficients), p, weight)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Gather, solve the transposed equations, scatter."""
        group, results, out = self.solved(code, args, 4, "cone_adjoint", _Adjoint)
        m, many = group.m, group.size
        group.scatter(results, out[0])
        group.scatter_heads(m.at(results, many), out[1])
        group.scatter(m.at(results, 2 * many), out[2])
        return out


@final
class _Adjoint(ConeLanes):
    """Writes the function; y is p, J* the matrix, and λ the solution, `d`."""

    def __init__(self, e: Emitter, args: Sequence[Any], kinds: Sequence[Kind], many: int) -> None:
        super().__init__(e, args, kinds)
        self.to_s, self.to_mu, self.given = (self.at(self.results, x * many) for x in (1, 2, 3))

    def write(self) -> None:
        """All of it; what is of a contact is computed where it is needed."""
        b, columns = self.b, self.plus(self.n, 1)
        for place in (self.eps, self.found):
            self.store(0.0, place)
        self.each_contact(self._trace)
        live = self.larger(self.load(self.found), self.e.constant(1.0))
        self.store(self.load(self.eps) * PROXIMAL / live, self.eps)
        self.multiply(self.y)

        def keep(i: Any) -> None:
            self.store(self.load(self.results, i), self.given, i)
            self.store(0.0, self.results, i)

        def row(i: Any) -> None:
            start = self.at(self.J, b.mul(i, columns))
            write_loop(b, self.n, lambda j: self.store(0.0, start, j))
            less = self.load(self.eps) * self.load(self.results, i)
            self.store(self.load(self.given, i) - less, start, self.n)

        write_loop(b, self.n, keep)
        write_loop(b, i64(2), lambda _: self._solve(row))

    def _solve(self, row: Any) -> None:
        """Weights from those of p, less ε times the weights of b that were found before."""
        b, columns = self.b, self.plus(self.n, 1)
        write_loop(b, self.n, row)

        def pad(i: Any) -> None:
            self.store(1.0, self.J, self.plus(b.mul(i, columns), i))

        self.in_last_block(pad)
        self.each_contact(self._columns)
        eliminate(self, self.J, self.n, self.d, self.ends)
        self.each_contact(self._weights)

    def _there(self, kind: Kind, i: Any) -> Any:
        e = self.e
        if not kind.has_head:
            return e.compare("==", 0.0, 0.0)
        return e.compare("<", self.load(self.s, i), INACTIVE)

    def _trace(self, kind: Kind, i: Any, first: Any) -> None:
        e, there = self.e, self._there(kind, i)
        for t in range(len(kind.letters)):
            row = self.plus(first, t)
            own = self.load(self.W, self.plus(self.b.mul(row, self.n), row))
            for x, place in ((own, self.eps), (e.constant(1.0), self.found)):
                self.store(self.load(place) + e.select(there, x, 0.0), place)

    def _modes(self, kind: Kind, i: Any, first: Any) -> tuple[dict[Any, Lane], ...]:
        """Derivatives of the conditions of a contact by p, u, coefficients; see `_modes`."""
        e, b = self.e, self.b
        every = range(len(kind.letters))
        p, u, mu = (self.rows(x, first, every) for x in (self.y, self.z, self.mu))
        own = self.load(self.W, self.plus(b.mul(first, self.n), first))
        own = e.select(e.compare(">", own, 0.0), own, 1.0)
        by_p: dict[Any, Lane] = {}
        by_u: dict[Any, Lane] = {}
        by_mu: dict[Any, Lane] = {}
        held = self._there(kind, i)
        if kind.has_head:
            speed = u[0] + self.load(self.s, i)
            held = b.and_(held, e.compare(">", p[0] * own, speed))
            by_p[0, 0], by_u[0, 0] = e.select(held, 0.0, 1.0), e.select(held, 1.0, 0.0)
        for group in kind.groups:
            top = p[0] if kind.has_head else e.constant(1.0)
            depth = 1.0 / own
            if not kind.has_head:
                square = mu[0] * mu[0]
                depth = depth / e.select(e.compare(">", square, 0.0), square, 1e-300)
            some = {t: e.compare(">", mu[t], 0.0) for t in group}
            x = [
                e.select(some[t], p[t] / e.select(some[t], mu[t], 1.0), 0.0) - depth * mu[t] * u[t]
                for t in group
            ]
            fast = self.length([mu[t] * u[t] for t in group])
            slides = b.and_(held, e.compare(">", self.length(x), top))
            slides = b.and_(slides, e.compare(">", fast, 0.0))
            s = e.select(slides, fast, 1.0)
            lean = {t: mu[t] * mu[t] * u[t] / s for t in group}
            for t in group:
                bound = b.and_(held, some[t])
                sliding = b.and_(slides, some[t])
                sticking = b.and_(bound, b.not_(slides))
                for v in group:
                    turn = -(lean[t] * lean[v] / s)
                    by = -(lean[t] * mu[v] * u[v] * u[v] / (s * s))
                    alone, stick = e.constant(0.0), e.constant(0.0)
                    if t == v:
                        turn, by = turn + mu[t] * mu[t] / s, by + 2.0 * mu[t] * u[t] / s
                        alone = e.select(b.or_(sliding, b.not_(bound)), 1.0, 0.0)
                        stick = e.select(sticking, 1.0, 0.0)
                    by_p[t, v] = alone
                    by_u[t, v] = e.select(sliding, top * turn, stick)
                    by_mu[t, v] = e.select(sliding, top * by, 0.0)
                if kind.has_head:
                    by_p[t, 0] = e.select(sliding, lean[t], 0.0)
        return by_p, by_u, by_mu

    def _columns(self, kind: Kind, i: Any, first: Any) -> None:
        """Columns of J* = (by_p + by_u (W + ε I))* that are rows of a contact."""
        e, b, count = self.e, self.b, len(kind.letters)
        by_p, by_u, _ = self._modes(kind, i, first)
        eps, columns = self.load(self.eps), self.plus(self.n, 1)
        W = [self.at(self.W, b.mul(self.plus(first, t), self.n)) for t in range(count)]

        def one(j: Any) -> None:
            offset = b.mul(j, i64(self.bytes))
            w = [self.load_at(x, offset) for x in W]
            target = self.at(self.J, self.plus(b.mul(j, columns), first))
            for t in range(count):
                total = e.constant(0.0)
                for v in range(count):
                    if (t, v) in by_u:
                        total = by_u[t, v].times_plus(w[v], total)
                self.store(total, target, t)

        self.between(*self.columns_of(first, count), one)
        for t, v in {*by_p, *by_u}:
            place = self.at(self.J, self.plus(b.mul(self.plus(first, v), columns), first))
            x = self.load(place, t)
            if (t, v) in by_p:
                x = x + by_p[t, v]
            if (t, v) in by_u:
                x = eps.times_plus(by_u[t, v], x)
            self.store(x, place, t)

    def _weights(self, kind: Kind, i: Any, first: Any) -> None:
        """Minus the derivatives' adjoints of λ."""
        e, every = self.e, range(len(kind.letters))
        _, by_u, by_mu = self._modes(kind, i, first)
        found = self.rows(self.d, first, every)
        for by, base in ((by_u, self.results), (by_mu, self.to_mu)):
            for v in every:
                total = e.constant(0.0)
                for t in every:
                    if (t, v) in by:
                        total = by[t, v].times_plus(found[t], total)
                self.store(-total, base, self.plus(first, v))
        if kind.has_head:
            self.store(-(by_u[0, 0] * found[0]), self.to_s, i)


# ---- smoothed ------------------------------------------------------------------------------------


class Smoothed(NamedTuple):
    """Smoothed impulses `p` (..., n), and weights of b, s and the coefficients; `status` (...)."""

    p: Array
    to_b: Array
    to_s: Array
    to_mu: Array
    status: Array


def smoothed_adjoint(problem: ConeProblem, kappa: float, weight: Array) -> Smoothed:
    """Impulses at κ (J), and the weights of the data from that of p (..., n).

    The weight of W is that of b times p*, with this p.
    """
    flat, batch, layout = problem.flat(), problem.batch, problem.layout
    n, count = layout.n_rows, len(flat.b)
    weight = np.broadcast_to(weight, (*batch, n)).reshape(-1, n)
    p, to_b, to_mu = np.zeros((3, count, n))
    to_s, status = np.zeros((count, layout.n_heads)), np.full(count, UNSOLVED)
    for size in STARTS:
        todo = np.flatnonzero(status == UNSOLVED)
        if not todo.size:
            break
        _attempt(flat, kappa, weight, size, todo, (p, to_b, to_s, to_mu, status))
    shapes = ((n,), (n,), (layout.n_heads,), (n,), ())
    found = (p, to_b, to_s, to_mu, status)
    return Smoothed(*(x.reshape((*batch, *y)) for x, y in zip(found, shapes, strict=True)))


def _attempt(
    flat: ConeProblem, kappa: float, weight: Array, size: float, todo: Array, out: Any
) -> None:
    """Interior points from one start; results where they are found."""
    part = flat.taken(todo)
    scaled = Scaled(part, unit=True)
    cones, which = Cones(scaled, size, kappa), np.arange(len(todo))
    for _ in range(ITERATIONS):
        if not which.size:
            return
        over = cones.step()
        done = over & cones.solved
        if done.any():
            _finish(cones, scaled, part, weight[todo], done, which[done], todo[which[done]], out)
        which = which[~over]
        cones.keep(~over)


def _finish(
    cones: Cones, scaled: Scaled, part: ConeProblem, weight: Array, done: Array, mine: Array,
    places: Array, out: Any,
) -> None:  # fmt: skip
    """The adjoint at points that are reached."""
    layout, n = part.layout, cones.n
    p, to_b, to_s, to_mu, status = out
    _, _, _, matrix, arrow = (x[done] for x in cones.equations())
    unit, speed, sigma = cones.unit[done], cones.speed[done, None], scaled.sigma[mine]
    y = sigma * unit * cones.Y[done][:, :n]
    right = np.zeros((len(mine), cones.N))
    right[:, :n] = weight[mine] * sigma * unit
    found = np.linalg.solve(np.swapaxes(matrix[:, : cones.N], 1, 2), right[..., None])[..., 0]
    weights = -(np.swapaxes(arrow[:, : cones.N, : cones.N], 1, 2) @ found[..., None])[..., 0]
    delta = weights[:, :n].copy()  # of errors of z: those of normals lean on the tangents'
    Z_t = cones.Z[done][:, cones.t]
    length = np.linalg.norm(Z_t, axis=-1)
    e = Z_t / np.where(length > 0, length, 1.0)[..., None]
    for i in range(len(cones.h)):
        owner = i if i < cones.n_main else cones.owner[i - cones.n_main]
        if owner >= 0:
            rows = cones.t[i][cones.t[i] < n]
            delta[:, rows] += weights[:, cones.h[owner], None] * e[:, i, : len(rows)]
    p[places] = y
    # z = unit σ u / speed, with unit times speed kept
    back = delta * sigma * unit / speed**2
    to_b[places] = back
    to_s[places] = back[:, layout.normals]
    to_mu[places] = _of_coefficients(part, mine, y, weight[mine], back)
    head = (np.swapaxes(cones.arrow(cones.Z[done])[:, : cones.N, : cones.N], 1, 2)
            @ found[..., None])[..., 0]  # fmt: skip
    for j, side in enumerate(cones.sides):
        if cones.owner[j] < 0:
            row = scaled.groups.rows[side, 0]
            to_mu[places, row] = -head[:, n + j] / np.where(unit[:, row] > 0, unit[:, row], 1.0)
    status[places] = SOLVED


def _of_coefficients(part: ConeProblem, mine: Array, p: Array, weight: Array, back: Array) -> Array:
    """Weights of coefficients of groups with heads, (p/μ) (weight + W back) + (back/μ) u."""
    mu, W = part.coefficients[mine], part.W[mine]
    u = (W @ p[..., None])[..., 0] + part.b[mine]
    lent = weight + (np.swapaxes(W, 1, 2) @ back[..., None])[..., 0]
    is_group = np.array([x in "abs12" for x in part.layout.letters])
    safe = np.where(mu > 0, mu, 1.0)
    return np.where(is_group & (mu > 0), (p * lent + back * u) / safe, 0.0)


@final
class SmoothedCall(_Derivatives):
    """`smoothed_adjoint` in graphs: W, b, s, coefficients, weight → p, weights, status."""

    def __init__(
        self, layout: ConeLayout, kappa: float, masks: tuple[int, ...] | None = None
    ) -> None:
        self.layout, self.kappa, self.masks = layout, kappa, masks
        n, k = layout.n_rows, layout.n_heads
        self.shapes = ((n,), (n,), (k,), (n,), ())
        self.key = ("smoothed", layout, kappa, masks)
        self.name = f"smoothed cones {self.key} {code_version()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        W, b, s, coefficients, weight = args
        problem = ConeProblem(self.layout, W, b, s, coefficients)
        *found, status = smoothed_adjoint(problem, self.kappa, weight)
        return [*found, status.astype(float)]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Gather, stop inside the cones, solve the transposed equations, scatter."""
        group, results, out = self.solved(code, args, 3, "smoothed", _Smoothed, self.kappa)
        m, many = group.m, group.size
        group.scatter(group.places[-1], out[0])
        group.scatter(results, out[1])
        group.scatter_heads(m.at(results, many), out[2])
        group.scatter(m.at(results, 2 * many), out[3])
        m.store(m.load(results, 3 * many), out[4].base)
        return out


@final
class _Smoothed(ConeLanes):
    """Writes the function."""

    def __init__(
        self, e: Emitter, args: Sequence[Any], kinds: Sequence[Kind], many: int, kappa: float
    ) -> None:
        super().__init__(e, args, kinds)
        self.to_s, self.to_mu, self.status = (self.at(self.results, i * many) for i in (1, 2, 3))
        self.interior = InteriorCode(self, kappa)
        self.weight, self.back, self.reached = self.vectors[4:7]

    def write(self) -> None:
        """Interior points from several starts; the adjoint where one is reached."""
        e, b, inside = self.e, self.b, self.interior

        def begin(i: Any) -> None:
            self.store(self.load(self.results, i), self.weight, i)
            for base in (self.results, self.to_mu, self.y):
                self.store(0.0, base, i)

        write_loop(b, self.n, begin)
        self.fill(self.k, 0.0, self.to_s)
        self.scale_problem()
        inside.convex.let_slide()
        todo, count = b.alloca(e.mask), b.alloca(e.vector)
        b.store(e.compare("==", 0.0, 0.0), todo)
        self.store(0.0, count)
        starts = self.table(STARTS)

        def attempt(turn: Any, which: Any) -> None:
            inside.iterate(which, self.load(starts, turn), count)
            good = b.and_(which, self.mask(inside.solved))
            with b.if_then(self.any(good)):
                self.pull(good)
            b.store(b.and_(which, b.not_(good)), todo)

        self.rounds(len(STARTS), lambda: self.mask(todo), attempt)
        status = e.select(self.mask(todo), float(UNSOLVED), float(SOLVED))
        self.store(status, self.status)
        write_loop(
            b,
            self.n,
            lambda i: self.store(self.load(self.y, i) * self.load(self.sigma, i), self.y, i),
        )

    def pull(self, which: Any) -> None:
        """λ = (W + D)⁻* weight, and the weights that follow, in some lanes."""
        e, b, inside = self.e, self.b, self.interior
        columns = self.plus(self.n, 1)
        inside.fill()
        inside.velocities(steps=False)

        def right(i: Any) -> None:
            x = self.load(self.weight, i) * self.load(self.sigma, i) * inside.scaled(i)[0]
            self.store(x, self.J, self.plus(b.mul(i, columns), self.n))

        write_loop(b, self.n, right)

        def block(kind: Kind, i: Any, first: Any) -> None:
            for (t, u), x in inside.local(kind, i, first, False).D.items():
                row = b.mul(self.plus(first, u), columns)
                place = self.at(self.J, self.plus(row, self.plus(first, t)))
                self.store(self.load(place) + x, place)

        self.each_contact(block)
        inside.pad()
        eliminate(self, self.J, self.n, self.d, self.ends)

        def back(i: Any) -> None:
            x = -(self.load(self.d, i) * inside.scaled(i)[1])
            self.store(x, self.back, i)
            old = self.load(self.results, i)
            self.store(e.select(which, x * self.load(self.sigma, i), old), self.results, i)

        write_loop(b, self.n, back)
        self.multiply(self.y)
        self.copy(self.n, self.z, self.reached)
        self.multiply(self.back)
        self.each_contact(lambda kind, i, first: self._weights(kind, i, first, which))

    def _weights(self, kind: Kind, i: Any, first: Any, which: Any) -> None:
        """Those of s and of coefficients."""
        e, b, inside = self.e, self.b, self.interior
        if kind.has_head:
            x = self.load(self.back, first) * self.load(self.sigma, first)
            self.store(e.select(which, x, self.load(self.to_s, i)), self.to_s, i)
        for group in kind.groups:
            for t in group:
                row = self.plus(first, t)
                mu, sigma = self.load(self.mu, row), self.load(self.sigma, row)
                there = b.and_(e.compare(">", mu, 0.0), e.compare(">", sigma, 0.0))
                if kind.has_head:
                    g, y = self.load(self.back, row), self.load(self.y, row)
                    lent = self.load(self.z, row) - self.load(self.free, row)
                    lent = sigma.times_plus(self.load(self.weight, row), lent)
                    x = y.times_plus(lent, g * self.load(self.reached, row))
                    x = x / e.select(there, mu, 1.0)
                else:
                    Y, Z = (inside.state(v, kind, first) for v in (inside.Y, inside.Z))
                    _, beta, w = inside.cones(kind, i, Y, Z)[-1]
                    x = (Z[t] * beta - Y[t] * w) / (beta * beta - Y[t] * Y[t])
                    x = -(self.load(self.d, row) * x) / inside.scaled(row)[0]
                kept = b.and_(which, there)
                self.store(e.select(kept, x, self.load(self.to_mu, row)), self.to_mu, row)
