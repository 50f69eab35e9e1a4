"""Contact problems as calls in graphs: solved on arrays, and in machine code with lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from phipsi.backends.native.kernel.law_code import Area
from phipsi.backends.native.text.lane_arithmetic import Lane, fold_loop, i64, write_loop
from phipsi.contact.cone_derivatives import AdjointCall, SmoothedCall
from phipsi.contact.cone_problem import Array, ConeLayout, ConeProblem
from phipsi.contact.cone_routine import cone_routine
from phipsi.contact.cone_solver import BISECTIONS, GAINED, solve, solve_rebound
from phipsi.contact.contact_group import ContactGroup, code_version
from phipsi.contact.row_products import outer
from phipsi.contact.solver_attempts import solve_cones
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Node


@final
class ConeCall(Callee):
    """The impulses of a contact problem.

    W, b, s, coefficients, start → p, residual, iterations, status; see `solve`. With `rebounds`,
    one more argument after s, those without restitution, and one more result, the share of
    restitution that creates no energy; see `solve_rebound`. With `smoothing` (J), derivatives are
    those of smoothed impulses, in which the share of restitution is fixed; see `smoothed_adjoint`.
    `masks`, of contacts, stops and limits: W is zero between those that have no bit in common.
    """

    takes_views = True

    def __init__(
        self,
        layout: ConeLayout,
        tolerance: float = 1e-10,
        *,
        rebounds: bool = False,
        smoothing: float = 0.0,
        masks: tuple[int, ...] | None = None,
    ) -> None:
        self.layout, self.tolerance, self.rebounds = layout, tolerance, rebounds
        self.smoothing, self.masks = smoothing, masks
        self.shapes = ((layout.n_rows,), *[()] * (4 if rebounds else 3))
        self.key = (layout, tolerance, rebounds, smoothing, masks)
        self.name = f"cones {self.key} {code_version()}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """On arrays."""
        W, b, s, *calm, coefficients, start = args
        problem, share = ConeProblem(self.layout, W, b, s, coefficients), []
        if self.rebounds:
            found, part = solve_rebound(problem, calm[0], start, tolerance=self.tolerance)
            share = [part]
        else:
            found = solve(problem, start, tolerance=self.tolerance)
        counts = [x.astype(float) for x in (found.iterations, found.status)]
        return [found.p, found.residual, *counts, *share]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By the equations of the modes that contacts are in; see `cone_adjoint`."""
        if weights[0] is None:
            return [None] * len(args)
        left, p, *others = self.pulled(args, results, weights[0])
        return [outer(left, p), *others, None]

    def pulled(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weight: Node
    ) -> Sequence[Node]:
        """x, y: the weight of W is x y*; and those of b, s, the s without rebound, coefficients.

        Where rebounds are reduced, their share changes so that no energy is created.
        """
        W, b, _, *_, coefficients, _ = args
        p, one = results[0], ops.constant(1.0)
        now, moved, share = self._chosen(args, results)

        def parts(x: Node) -> list[Node]:
            """Weights of s with and without restitution."""
            shares = (share, ops.apply("sub", one, share)) if self.rebounds else (one,)
            return [ops.apply("mul", y, x) for y in shares]

        if self.smoothing:
            smoothed = SmoothedCall(self.layout, self.smoothing, self.masks)
            p, to_b, to_s, to_mu, _ = call(smoothed, W, b, now, coefficients, weight)
            return [to_b, p, to_b, *parts(to_s), to_mu]
        adjoint = AdjointCall(self.layout, self.masks)
        if not self.rebounds:
            to_b, to_s, to_mu = call(adjoint, W, b, now, coefficients, p, weight)
            return [to_b, p, to_b, to_s, to_mu]
        first = call(adjoint, W, b, now, coefficients, p, weight)
        u = ops.apply("add", ops.matmul(W, p), b)
        energy = call(adjoint, W, b, now, coefficients, p, u)
        by_share, gain = (ops.total(ops.apply("mul", x[1], moved), None) for x in (first, energy))
        less = ops.apply("less", share, one)
        safe = ops.apply("where", less, gain, one)
        part = ops.apply("where", less, ops.apply("div", by_share, safe), ops.constant(0.0))

        def joined(x: Node, y: Node) -> Node:
            return ops.apply("sub", x, ops.apply("mul", part, y))

        to_b = joined(first[0], ops.apply("add", energy[0], p))
        half = ops.apply("add", energy[0], ops.apply("mul", ops.constant(0.5), p))
        to_s, to_mu = joined(first[1], energy[1]), joined(first[2], energy[2])
        return [joined(first[0], half), p, to_b, *parts(to_s), to_mu]

    def _chosen(self, args: Sequence[Node], results: Sequence[Node]) -> tuple[Node, Node, Node]:
        """The s that was reached, its change with the share of restitution, and the share."""
        s = args[2]
        if not self.rebounds:
            return s, s, ops.constant(1.0)
        share, moved = results[4], ops.apply("sub", s, args[3])
        return ops.apply("add", args[3], ops.apply("mul", share, moved)), moved, share

    def followed(self, args: Sequence[Node], results: Sequence[Node]) -> Node:
        """The impulses p that derivatives are about: W p is what `ConeProduct` needs."""
        if not self.smoothing:
            return results[0]
        W, b, *_, coefficients, _ = args
        none = ops.constant(np.zeros(self.layout.n_rows))
        now = self._chosen(args, results)[0]
        smoothed = SmoothedCall(self.layout, self.smoothing, self.masks)
        return call(smoothed, W, b, now, coefficients, none)[0]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Gather the contacts that are there in some lane, solve, and scatter."""
        W, b, s, *calm, coefficients, start = (code.stored(x) for x in args)
        if not self.rebounds:
            return self.written(code, args[1:], lambda group: group.gather_matrix(W))
        start = code.whole(start, self.layout.n_rows)
        group = ContactGroup(code, self.layout, b, coefficients, s, self.masks)
        return _Rebounds(group, W, s, calm[0], start, self.tolerance).write()

    def written(
        self, code: Any, args: Sequence[Any], fill: Callable[[ContactGroup], None]
    ) -> Sequence[Any]:
        """The same from b, s, coefficients and start, with W of the group from code of `fill`."""
        b, s, coefficients, start = (code.stored(x) for x in args)
        start = code.whole(start, self.layout.n_rows)
        group = ContactGroup(code, self.layout, b, coefficients, s, self.masks)
        m, p = group.m, code.area(self.layout.n_rows)
        results = code.area(3).base
        fill(group)
        group.gather_rest(lambda i: code.entry(s, i), start)
        _solve(group, self.tolerance, results)
        group.scatter(group.places[-1], p)
        return [p, *(Area(m.at(results, i)) for i in range(3))]


def _solve(group: ContactGroup, tolerance: float, results: Any) -> None:
    """Call the solver of a gathered problem."""
    module, e = group.code.module, group.code.e
    group.call(cone_routine(module, e, "cones", solve_cones, group.kinds, (3,), tolerance), results)


@final
class ConeProduct(Callee):
    """The impulses that a `ConeCall` found, whose derivatives by W are those of a product W p.

    Results and arguments of the call, W p of `followed` → p: so that derivatives of W are not
    needed, but those of what an impulse does, which programs have without loops over columns.
    """

    def __init__(self, cone: ConeCall) -> None:
        self.cone, self.shapes = cone, cone.shapes[:1]
        self.key = ("product", cone.key)
        self.name = f"product of {cone.name}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """What was found."""
        return [args[0]]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """As for the call; W has none."""
        count = len(self.cone.shapes)
        if weights[0] is None:
            return [None] * len(args)
        left, _, *others = self.cone.pulled(args[count:-1], args[:count], weights[0])
        return [*[None] * (count + 1), *others, None, left]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """What was found."""
        return [code.stored(args[0])]


@final
class _Rebounds:
    """Writes the search for the largest share of restitution; see `solve_rebound`."""

    def __init__(
        self, group: ContactGroup, W: Area, s: Area, calm: Area, start: Area, tolerance: float
    ) -> None:
        self.group, self.W, self.s, self.calm, self.start = group, W, s, calm, start
        self.tolerance = tolerance

    def write(self) -> Sequence[Any]:
        """With all of it first; then without any; then half way between."""
        group, code = self.group, self.group.code
        m, e, b = group.m, code.e, group.m.b
        n = group.layout.n_rows
        self.best, self.trial, self.results = code.area(n), code.area(n), code.area(3).base
        self.final, self.share, self.low, self.high = (code.area(x).base for x in (4, 1, 1, 1))
        self.gaining = b.alloca(e.mask)
        b.store(e.compare("==", 0.0, 0.0), self.gaining)
        for place, x in ((self.share, 1.0), (self.low, 0.0), (self.high, 1.0)):
            m.store(x, place)
        m.fill(i64(4), 0.0, self.final)
        write_loop(b, i64(n), lambda i: m.store(code.entry(self.start, i), self.best.base, i))
        m.rounds(BISECTIONS + 2, lambda: m.mask(self.gaining), self._once)
        return [self.best, *(Area(m.at(self.final, i)) for i in range(4))]

    def _once(self, number: Any, which: Any) -> None:
        """One solution, with the present share; and the next share."""
        group, code = self.group, self.group.code
        m, e, b = group.m, code.e, group.m.b
        f = m.load(self.share)

        def wanted(i: Any) -> Any:
            quiet = code.entry(self.calm, i)
            return f.times_plus(code.entry(self.s, i) - quiet, quiet)

        begins = b.icmp_signed("<", number, i64(2))
        base = b.select(begins, self.start.base, self.best.base)
        group.gather_matrix(self.W)
        group.gather_rest(wanted, Area(base))
        _solve(group, self.tolerance, self.results)
        group.scatter(group.places[-1], self.trial)
        gains = e.compare(">", self.gain(self.trial), 0.0)
        solved = e.compare("==", m.load(self.results, 2), 0.0)
        fine = b.and_(b.not_(gains), solved)
        everywhere = e.compare("==", 0.0, 0.0)
        self._keep(which, b.and_(which, b.select(begins, everywhere, fine)), f)
        is_first = b.icmp_signed("==", number, i64(0))
        b.store(b.select(is_first, gains, which), self.gaining)
        search = b.not_(begins)
        down, up = e.select(fine, f, m.load(self.low)), e.select(fine, m.load(self.high), f)
        with b.if_then(search):
            m.store(down, self.low)
            m.store(up, self.high)
        middle = (m.load(self.low) + m.load(self.high)) * 0.5
        with b.if_then(is_first):
            m.store(0.0, self.share)
        with b.if_then(b.not_(is_first)):
            m.store(middle, self.share)

    def _keep(self, which: Any, accepted: Any, f: Lane) -> None:
        """Impulses, results and share where they are accepted; iterations in all lanes that ran."""
        m, e, final, results = self.group.m, self.group.code.e, self.final, self.results
        m.copy(i64(self.group.layout.n_rows), self.trial.base, self.best.base, accepted)
        used = m.load(final, 1) + e.select(which, m.load(results, 1), 0.0)
        for i in (0, 2):
            m.store(e.select(accepted, m.load(results, i), m.load(final, i)), final, i)
        m.store(used, final, 1)
        m.store(e.select(accepted, f, m.load(final, 3)), final, 3)

    def gain(self, p: Area) -> Any:
        """p*b + ½ p*W p, less what is rounding."""
        group, code = self.group, self.group.code
        m, e, b = group.m, code.e, group.m.b
        n = group.layout.n_rows
        total, size, caused = (code.area(1).base for _ in range(3))
        for place in (total, size):
            m.store(0.0, place)

        def row(i: Any, contact: Any) -> None:
            mine = m.word(group.rows, i)
            x = m.load(p.base, mine)
            m.store(0.0, caused)

            def part(first: Any, end: Any) -> None:
                def more(j: Any, sums: list[Any]) -> list[Any]:
                    other = m.word(group.rows, b.add(first, j))
                    w = code.element(self.W, mine, other, n)
                    return [w.times_plus(m.load(p.base, other), Lane(e, sums[0])).value]

                known = [m.load(caused).value]
                m.store(Lane(e, fold_loop(b, b.sub(end, first), 1, known, more)[0]), caused)

            group.meeting(contact, group.k, part)
            half = m.load(caused) * 0.5
            free = code.entry(group.b, mine)
            m.store(x.times_plus(free + half, m.load(total)), total)
            sizes = m.size(free) + m.size(half)
            m.store(m.size(x).times_plus(sizes, m.load(size)), size)

        def contact(i: Any) -> None:
            m.between(*group.rows_of(i), lambda r: row(r, i))

        write_loop(b, group.k, contact)
        return m.load(total) - m.load(size) * GAINED
