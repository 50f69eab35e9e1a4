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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.contact.solver.contact_group import ContactGroup, code_version
from phipsi.contact.solver.contact_problem import (
    INACTIVE,
    SOLVED,
    UNSOLVED,
    Array,
    ContactProblem,
    ContactProblemLayout,
)
from phipsi.contact.solver.contact_solver_routine import after, cone_routine
from phipsi.contact.solver.gathered_arrays import GatheredArrays
from phipsi.contact.solver.interior_point import InteriorPoint
from phipsi.contact.solver.newton import PROXIMAL
from phipsi.contact.solver.scaled_problem import ProblemMemory, RowPattern, ScaledProblem, padded
from phipsi.contact.solver.solver_schedule import STARTS
from phipsi.core.arrays import Node, Primitive
from phipsi.core.machine import Index, Machine, Mask, Number
from phipsi.native import Area


class SmoothedImpulses(NamedTuple):
    """Smoothed impulses `p` (..., n), and weights of b, s and the coefficients; `status` (...)."""

    p: Array
    to_b: Array
    to_s: Array
    to_mu: Array
    status: Array


ROOM = 4
"""Numbers of a row in the results of texts: weights of b, s and the coefficients, and one more."""


def cone_adjoint(problem: ContactProblem, p: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Weights of b (..., n), s (..., n_heads) and the coefficients (..., n), from that of p.

    The weight of W is that of b times p*.
    """
    found = _on_arrays(problem, p, weight, adjoint_of_modes)
    return found.to_b, found.to_s, found.to_mu


def _on_arrays(
    problem: ContactProblem, y: Array, weight: Array, text: Any, *options: float
) -> SmoothedImpulses:
    """What a text finds on arrays."""
    flat, batch, layout = problem.flat(), problem.batch, problem.layout
    n = layout.n_rows
    y, weight = (np.broadcast_to(x, (*batch, n)).reshape(-1, n) for x in (y, weight))
    gathered = GatheredArrays(flat, y, (ROOM, max(1, padded(n))))
    m, results, weights = gathered.m, gathered.memory.results, gathered.filled(weight)
    with np.errstate(all="ignore"):
        m.copy(gathered.memory.n, weights, results.row(0))
        text(m, gathered.kinds, gathered.memory, *options)
    to_b, to_s, to_mu, rest = np.moveaxis(gathered.results(), 1, 0)
    of_rows = [gathered.y(), *map(gathered.rows, (to_b, to_mu))]
    p, to_b, to_mu = (x.reshape(*batch, n) for x in of_rows)
    to_s = to_s[:, : layout.n_heads].reshape(*batch, layout.n_heads)
    return SmoothedImpulses(p, to_b, to_s, to_mu, rest[:, 0].reshape(batch))


class _Derivatives(Primitive):
    """What both adjoints are as calls in graphs; `masks` as for `ContactSolve`."""

    layout: ContactProblemLayout
    masks: tuple[int, ...] | None

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not available."""
        raise NotImplementedError("second derivatives through contacts are not supported")

    def solved(
        self,
        code: Any,
        args: Sequence[Sequence[Number] | Area],
        what: str,
        text: Any,
        *options: float,
    ) -> tuple[ContactGroup, Any, list[Any]]:
        """The contacts that are there, what a routine found for them, and areas for the results.

        It finds `ROOM` numbers of a row, which begin with the last argument, the weights of p. The
        fifth argument is its y.
        """
        W, b, s, coefficients, y, *_ = stored = [code.stored(x) for x in args]
        group = ContactGroup(code, self.layout, b, coefficients, s, self.masks)
        group.gather_matrix(W)
        group.gather_rest(lambda i: code.entry(s, i), y)
        found = code.area(ROOM * group.size + 1).base
        group.gather_rows(stored[-1], found)
        shape = (ROOM, group.size)
        routine = cone_routine(code.module, code.e, what, text, group.kinds, shape, *options)
        group.call(routine, found)
        return group, found, [code.area(max(1, math.prod(x))) for x in self.shapes]


@final
class AdjointCall(_Derivatives):
    """`cone_adjoint` in graphs: W, b, s, coefficients, p, weight → weights of b, s, and those."""

    def __init__(self, layout: ContactProblemLayout, masks: tuple[int, ...] | None = None) -> None:
        self.layout, self.masks = layout, masks
        self.shapes = ((layout.n_rows,), (layout.n_heads,), (layout.n_rows,))
        self.key = ("adjoint", layout, masks)
        self.name = f"adjoint of cones {layout} {masks} {code_version()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        W, b, s, coefficients, p, weight = args
        return cone_adjoint(ContactProblem(self.layout, W, b, s, coefficients), p, weight)

    def write(self, code: Any, args: Sequence[Sequence[Number] | Area]) -> list[Area]:
        """Gather, solve the transposed equations, scatter."""
        group, results, out = self.solved(code, args, "cone_adjoint", adjoint_of_modes)
        many = group.size
        group.scatter(results, out[0])
        group.scatter_heads(after(code, results, many), out[1])
        group.scatter(after(code, results, 2 * many), out[2])
        return out


def adjoint_of_modes(m: Machine, kinds: Sequence[RowPattern], given: ProblemMemory) -> None:
    """Weights of b, s and the coefficients in rows of the results, from those of p in the first.

    y is p. The last row of the results is for the weights of p.
    """
    _Adjoint(ScaledProblem(m, kinds, given)).run()


@final
class _Adjoint:
    """J* is the matrix, and λ the solution, `d`."""

    def __init__(self, x: ScaledProblem) -> None:
        self.x, self.m = x, x.m
        self.to_b, self.to_s, self.to_mu, self.given = (x.results.row(i) for i in range(ROOM))

    def run(self) -> None:
        """All of it; what is of a contact is computed where it is needed."""
        m, x = self.m, self.x
        self._find_eps()
        x.multiply(x.y)

        @m.each(0, x.n)
        def _(i: Index) -> None:
            self.given[i] = self.to_b[i]
            self.to_b[i] = 0.0

        m.loop(0, 2)(lambda _: self._solve())

    def _solve(self) -> None:
        """Weights from those of p, less ε times the weights of b that were found before."""
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            row = x.J.row(i)

            @m.each(0, x.n)
            def _(j: Index) -> None:
                row[j] = 0.0

            row[x.n] = self.given[i] - x.eps.value * self.to_b[i]

        def pad(i: Index) -> None:
            x.J[i, i] = 1.0

        x.in_last_block(pad)
        x.each_contact(self._columns)
        m.eliminate(x.n, x.J, x.d, x.ends)
        x.each_contact(self._weights)

    def _there(self, kind: RowPattern, i: Index) -> Mask:
        return self.x.s[i] < INACTIVE if kind.has_head else self.m.always()

    def _find_eps(self) -> None:
        """ε, from the diagonal of W of the contacts that are there."""
        m, x = self.m, self.x

        @m.each(0, x.n)
        def _(i: Index) -> None:
            x.sizes[i] = x.d[i] = 0.0

        def diagonal(kind: RowPattern, i: Index, first: Index) -> None:
            there = self._there(kind, i)
            for t in range(len(kind.letters)):
                row = first + t
                x.sizes[row], x.d[row] = m.where(there, x.W[row, row], 0.0), m.to_flag(there)

        x.each_contact(diagonal)
        trace, live = m.sums(0, x.n, lambda i: [(x.sizes[i], 1.0), (x.d[i], 1.0)], [0.0, 0.0])
        x.eps.value = trace * PROXIMAL / x.larger(live, 1.0)

    def _modes(self, kind: RowPattern, i: Index, first: Index) -> tuple[dict[Any, Any], ...]:
        """Derivatives of the conditions of a contact by p, u, coefficients."""
        m, x = self.m, self.x
        every = range(len(kind.letters))
        p, u, mu = (x.rows(v, first, every) for v in (x.y, x.z, x.mu))
        own = x.W[first, first]
        own = m.where(own > 0.0, own, 1.0)
        by_p: dict[Any, Any] = {}
        by_u: dict[Any, Any] = {}
        by_mu: dict[Any, Any] = {}
        held = self._there(kind, i)
        if kind.has_head:
            held = held & (p[0] * own > u[0] + x.s[i])
            by_p[0, 0], by_u[0, 0] = m.to_flag(~held), m.to_flag(held)
        for group in kind.groups:
            top: Any = p[0] if kind.has_head else 1.0
            depth = 1.0 / own
            if not kind.has_head:
                square = mu[0] * mu[0]
                depth = depth / m.where(square > 0.0, square, 1e-300)
            some = {t: mu[t] > 0.0 for t in group}
            at = [
                m.where(some[t], p[t] / m.where(some[t], mu[t], 1.0), 0.0) - depth * mu[t] * u[t]
                for t in group
            ]
            fast = x.length([mu[t] * u[t] for t in group])
            slides = held & (x.length(at) > top) & (fast > 0.0)
            s = m.where(slides, fast, 1.0)
            lean = {t: mu[t] * mu[t] * u[t] / s for t in group}
            for t in group:
                bound, sliding = held & some[t], slides & some[t]
                sticking = bound & ~slides
                for v in group:
                    turn = -(lean[t] * lean[v] / s)
                    by = -(lean[t] * mu[v] * u[v] * u[v] / (s * s))
                    alone: Any = 0.0
                    stick: Any = 0.0
                    if t == v:
                        turn, by = turn + mu[t] * mu[t] / s, by + 2.0 * mu[t] * u[t] / s
                        alone, stick = m.to_flag(sliding | ~bound), m.to_flag(sticking)
                    by_p[t, v] = alone
                    by_u[t, v] = m.where(sliding, top * turn, stick)
                    by_mu[t, v] = m.where(sliding, top * by, 0.0)
                if kind.has_head:
                    by_p[t, 0] = m.where(sliding, lean[t], 0.0)
        return by_p, by_u, by_mu

    def _columns(self, kind: RowPattern, i: Index, first: Index) -> None:
        """Columns of J* = (by_p + by_u (W + ε I))* that are rows of a contact."""
        m, x, count = self.m, self.x, len(kind.letters)
        by_p, by_u, _mu = self._modes(kind, i, first)
        eps, W = x.eps.value, [x.W.row(first + t) for t in range(count)]

        @m.each(*x.columns_of(first, count))
        def _(j: Index) -> None:
            w, target = [row[j] for row in W], x.J.row(j)
            for t in range(count):
                target[first + t] = _product(m, {v: by_u.get((t, v)) for v in range(count)}, w)

        for t, v in sorted({*by_p, *by_u}):
            entry = x.J[first + v, first + t]
            if (t, v) in by_p:
                entry = entry + by_p[t, v]
            if (t, v) in by_u:
                entry = m.fma(eps, by_u[t, v], entry)
            x.J[first + v, first + t] = entry

    def _weights(self, kind: RowPattern, i: Index, first: Index) -> None:
        """Minus the derivatives' adjoints of λ."""
        m, x, every = self.m, self.x, range(len(kind.letters))
        _, by_u, by_mu = self._modes(kind, i, first)
        found = x.rows(x.d, first, every)
        for by, target in ((by_u, self.to_b), (by_mu, self.to_mu)):
            for v in every:
                total = _product(m, {t: by.get((t, v)) for t in every}, found)
                target[first + v] = -total
        if kind.has_head:
            self.to_s[i] = -(by_u[0, 0] * found[0])


def _product(m: Machine, factors: Mapping[int, Any], x: Sequence[Number]) -> Number | float:
    """Σ factors x, of the factors that there are."""
    total: Any = 0.0
    for t, factor in factors.items():
        if factor is not None:
            total = m.fma(factor, x[t], total)
    return total


# ---- smoothed ------------------------------------------------------------------------------------


def smoothed_adjoint(problem: ContactProblem, kappa: float, weight: Array) -> SmoothedImpulses:
    """Impulses at κ (J), and the weights of the data from that of p (..., n).

    The weight of W is that of b times p*, with this p.
    """
    none = np.zeros(problem.layout.n_rows)
    found = _on_arrays(problem, none, weight, adjoint_inside, kappa)
    return found._replace(status=found.status.astype(int))


@final
class SmoothedCall(_Derivatives):
    """`smoothed_adjoint` in graphs: W, b, s, coefficients, weight → p, weights, status."""

    def __init__(
        self, layout: ContactProblemLayout, kappa: float, masks: tuple[int, ...] | None = None
    ) -> None:
        self.layout, self.kappa, self.masks = layout, kappa, masks
        n, k = layout.n_rows, layout.n_heads
        self.shapes = ((n,), (n,), (k,), (n,), ())
        self.key = ("smoothed", layout, kappa, masks)
        self.name = f"smoothed cones {self.key} {code_version()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        W, b, s, coefficients, weight = args
        problem = ContactProblem(self.layout, W, b, s, coefficients)
        *found, status = smoothed_adjoint(problem, self.kappa, weight)
        return [*found, status.astype(float)]

    def write(self, code: Any, args: Sequence[Sequence[Number] | Area]) -> list[Area]:
        """Gather, stop inside the cones, solve the transposed equations, scatter."""
        group, results, out = self.solved(code, args, "smoothed", adjoint_inside, self.kappa)
        many = group.size
        group.scatter(group.places[-1], out[0])
        group.scatter(results, out[1])
        group.scatter_heads(after(code, results, many), out[2])
        group.scatter(after(code, results, 2 * many), out[3])
        return [*out[:4], Area(after(code, results, 3 * many))]


def adjoint_inside(
    m: Machine, kinds: Sequence[RowPattern], given: ProblemMemory, kappa: float
) -> None:
    """Impulses at κ (J), y, and weights of b, s and the coefficients in rows of the results.

    The first row has the weights of p at first; the last one begins with the status.
    """
    _SmoothedProblem(ScaledProblem(m, kinds, given), kappa).run()


@final
class _SmoothedProblem:
    """Interior points, and the adjoint of their equations."""

    def __init__(self, x: ScaledProblem, kappa: float) -> None:
        self.x, self.m = x, x.m
        self.to_b, self.to_s, self.to_mu, self.status = (x.results.row(i) for i in range(ROOM))
        self.interior = InteriorPoint(x, kappa)
        self.weight, self.back, self.reached = (x.vector() for _ in range(3))
        self.todo, self.count = x.m.number(1.0), x.m.number()

    def run(self) -> None:
        """Interior points from several starts; the adjoint where one is reached."""
        m, x, inside = self.m, self.x, self.interior

        @m.each(0, x.n)
        def _(i: Index) -> None:
            self.weight[i] = self.to_b[i]
            self.to_b[i] = self.to_mu[i] = x.y[i] = 0.0

        @m.each(0, x.k)
        def _(i: Index) -> None:
            self.to_s[i] = 0.0

        x.scale_problem()
        inside.sliding.set_sliding()
        self.count.value = 0.0
        starts = m.constants(np.array(STARTS))

        @m.while_any(lambda: self.todo.value > 0.0, len(STARTS))
        def _(turn: Index) -> None:
            inside.iterate(starts[turn], self.count)
            m.when(inside.solved.value > 0.0)(self.pull)
            self.todo.value = m.to_flag(~(inside.solved.value > 0.0))

        failed = self.todo.value > 0.0
        self.status[0] = m.where(failed, float(UNSOLVED), float(SOLVED))

        @m.each(0, x.n)
        def _(i: Index) -> None:
            x.y[i] = x.y[i] * x.sigma[i]

    def pull(self) -> None:
        """λ = (W + D)⁻* weight, and the weights that follow."""
        m, x, inside = self.m, self.x, self.interior
        inside.fill()
        inside.velocities(steps=False)

        @m.each(0, x.n)
        def _(i: Index) -> None:
            x.J[i, x.n] = self.weight[i] * x.sigma[i] * inside.scaled(i)[0]

        def block(kind: RowPattern, i: Index, first: Index) -> None:
            for (t, u), entry in inside.local(kind, i, first, False).D.items():
                x.J[first + u, first + t] = x.J[first + u, first + t] + entry

        x.each_contact(block)
        inside.pad()
        m.eliminate(x.n, x.J, x.d, x.ends)

        @m.each(0, x.n)
        def _(i: Index) -> None:
            back = -(x.d[i] * inside.scaled(i)[1])
            self.back[i] = back
            self.to_b[i] = back * x.sigma[i]

        x.multiply(x.y)
        m.copy(x.n, x.z, self.reached)
        x.multiply(self.back)
        x.each_contact(self._weights)

    def _weights(self, kind: RowPattern, i: Index, first: Index) -> None:
        """Those of s and of coefficients."""
        m, x, inside = self.m, self.x, self.interior
        if kind.has_head:
            self.to_s[i] = self.back[first] * x.sigma[first]
        for group in kind.groups:
            for t in group:
                row = first + t
                mu, sigma = x.mu[row], x.sigma[row]
                there = (mu > 0.0) & (sigma > 0.0)
                if kind.has_head:
                    lent = m.fma(sigma, self.weight[row], x.z[row] - x.free[row])
                    to_mu = m.fma(x.y[row], lent, self.back[row] * self.reached[row])
                    to_mu = to_mu / m.where(there, mu, 1.0)
                else:
                    Y, Z = (inside.state(v, kind, first) for v in (inside.Y, inside.Z))
                    _, beta, w = inside.cones(kind, i, Y, Z)[-1]
                    turn = (Z[t] * beta - Y[t] * w) / (beta * beta - Y[t] * Y[t])
                    to_mu = -(x.d[row] * turn) / inside.scaled(row)[0]
                self.to_mu[row] = m.where(there, to_mu, self.to_mu[row])
