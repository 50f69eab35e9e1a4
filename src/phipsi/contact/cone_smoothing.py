"""Smoothed derivatives of the impulses of contacts: those of a point inside the cones.

The interior point stops at κ > 0 (J), y ∘ z = κ e. Its impulses are smooth functions of the data,
act at a distance, and err in proportion to κ; their derivatives lead an optimiser to contacts that
are not made yet. They obey

    (W + T⁻¹ Arw(y)⁻¹ Arw(z)) dy = −db

in unit cones, p = μ y for tangential rows.

**Source:** theory/contact 7 (K37).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, Emitter, i64, write_loop
from phipsi.contact.cone_problem import SOLVED, UNSOLVED, Array, ConeLayout, ConeProblem, Scaled
from phipsi.contact.contact_group import ContactGroup, code_version
from phipsi.contact.interior_code import InteriorCode
from phipsi.contact.interior_point import ITERATIONS, STARTS, Cones
from phipsi.contact.lane_cones import KINDS, ConeLanes, Kind, cone_routine
from phipsi.contact.lane_elimination import eliminate
from phipsi.laws.calls import Callee
from phipsi.laws.graph import Node


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
    layout = flat.layout
    part = ConeProblem(layout, *(x[todo] for x in (flat.W, flat.b, flat.s, flat.coefficients)))
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
class SmoothedCall(Callee):
    """`smoothed_adjoint` in graphs: W, b, s, coefficients, weight → p, weights, status.

    `masks` as for `ConeCall`.
    """

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

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not available."""
        raise NotImplementedError("the adjoint of contacts has no adjoint")

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Gather, stop inside the cones, solve the transposed equations, scatter."""
        W, b, s, coefficients, weight = (code.stored(x) for x in args)
        group = ContactGroup(code, self.layout, b, coefficients, self.masks)
        group.list_contacts(s)
        group.gather_matrix(W)
        group.gather_rest(lambda i: code.entry(s, i), weight)
        m, many = group.m, group.size
        results = code.area(3 * many + 1).base
        group.gather_rows(weight, results)
        group.call(_function(code.module, code.e, group.kinds, many, self.kappa), results)
        out = [code.area(max(1, math.prod(x))) for x in self.shapes]
        group.scatter(group.places[-1], out[0])
        group.scatter(results, out[1])
        group.scatter_heads(m.at(results, many), out[2])
        group.scatter(m.at(results, 2 * many), out[3])
        m.store(m.load(results, 3 * many), out[4].base)
        return out


def _function(
    module: ir.Module, e: Emitter, kinds: Sequence[str], many: int, kappa: float
) -> ir.Function:
    """Arguments as for `cone_function`; results begin with the weights of p."""
    return cone_routine(
        module,
        e,
        "smoothed",
        (tuple(kinds), many, kappa),
        lambda inner, args: _Smoothed(inner, args, [KINDS[x] for x in kinds], many, kappa).write(),
    )


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
        write_loop(b, self.k, lambda i: self.store(0.0, self.to_s, i))
        self.scale_problem()
        inside.convex.let_slide()
        todo, count = b.alloca(e.mask), b.alloca(e.vector)
        b.store(e.compare("==", 0.0, 0.0), todo)
        self.store(0.0, count)
        starts, number = self.table(STARTS), b.alloca(I64)
        b.store(i64(0), number)

        def goes_on() -> Any:
            more = b.icmp_signed("<", b.load(number, typ=I64), i64(len(STARTS)))
            return b.and_(more, self.any(b.load(todo, typ=e.mask)))

        def attempt() -> None:
            turn, which = b.load(number, typ=I64), b.load(todo, typ=e.mask)
            inside.iterate(which, self.load(starts, turn), count)
            good = b.and_(which, b.load(inside.solved, typ=e.mask))
            with b.if_then(self.any(good)):
                self.pull(good)
            b.store(b.and_(which, b.not_(good)), todo)
            b.store(b.add(turn, i64(1)), number)

        self.repeat(goes_on, attempt)
        status = e.select(b.load(todo, typ=e.mask), float(UNSOLVED), float(SOLVED))
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
        write_loop(b, self.n, lambda i: self.store(self.load(self.z, i), self.reached, i))
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
                    side = inside.side(kind, i, Y)
                    assert side is not None
                    beta, w = side.beta, side.w
                    x = (Z[t] * beta - Y[t] * w) / (beta * beta - Y[t] * Y[t])
                    x = -(self.load(self.d, row) * x) / inside.scaled(row)[0]
                kept = b.and_(which, there)
                self.store(e.select(kept, x, self.load(self.to_mu, row)), self.to_mu, row)
