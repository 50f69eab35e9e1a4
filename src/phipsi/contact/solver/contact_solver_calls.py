"""Contact problems as calls in graphs: solved on arrays, and in machine code with lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from phipsi.contact.solver.contact_group import ContactGroup, code_version
from phipsi.contact.solver.contact_problem import Array, ContactProblem, ContactProblemLayout
from phipsi.contact.solver.contact_solver import solve, solve_rebound
from phipsi.contact.solver.contact_solver_derivatives import AdjointCall, SmoothedCall
from phipsi.contact.solver.contact_solver_routine import after, cone_routine
from phipsi.contact.solver.restitution_share import CALM, SHARE, result_rows, solve_rebounds
from phipsi.contact.solver.row_products import outer
from phipsi.contact.solver.solver_schedule import solve_cones
from phipsi.core.arrays import Node, Primitive, call, law_operations as ops
from phipsi.core.machine import BLOCK
from phipsi.native import Area


@final
class ContactSolve(Primitive):
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
        layout: ContactProblemLayout,
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
        problem, share = ContactProblem(self.layout, W, b, s, coefficients), []
        if self.rebounds:
            found, part = solve_rebound(problem, calm[0], start, tolerance=self.tolerance)
            share = [part]
        else:
            found = solve(problem, start, tolerance=self.tolerance)
        counts = [x.astype(float) for x in (found.iterations, found.status)]
        return [found.p, found.residual, *counts, *share]

    def vjp(
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
        by_share, gain = (
            ops.reduce_sum(ops.apply("mul", x[1], moved), None) for x in (first, energy)
        )
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
        """The impulses p that derivatives are about: W p is what `ContactProduct` needs."""
        if not self.smoothing:
            return results[0]
        W, b, *_, coefficients, _ = args
        none = ops.constant(np.zeros(self.layout.n_rows))
        now = self._chosen(args, results)[0]
        smoothed = SmoothedCall(self.layout, self.smoothing, self.masks)
        return call(smoothed, W, b, now, coefficients, none)[0]

    def write(self, code: Any, args: Sequence[Any]) -> list[Area]:
        """Gather the contacts that are there in some lane, solve, and scatter."""
        W, b, s, *calm, coefficients, start = (code.stored(x) for x in args)
        if not self.rebounds:
            return self.written(code, args[1:], lambda group: group.gather_matrix(W))
        group = ContactGroup(code, self.layout, b, coefficients, s, self.masks)
        shape = (result_rows(group.size), max(BLOCK, group.size))
        found, rows = code.area(math.prod(shape)).base, code.area(self.layout.n_rows)
        for i, row in enumerate(self.layout.normals):
            code.put(code.entry(calm[0], i), rows, int(row))
        group.gather_rows(rows, after(code, found, CALM * shape[1]))
        group.gather_matrix(W)
        p = self._solved(group, s, start, solve_rebounds, shape, found)
        share = Area(after(code, found, SHARE * shape[1]))
        return [p, *(Area(after(code, found, i)) for i in range(3)), share]

    def written(
        self, code: Any, args: Sequence[Any], fill: Callable[[ContactGroup], None]
    ) -> list[Area]:
        """The same from b, s, coefficients and start, with W of the group from code of `fill`."""
        b, s, coefficients, start = (code.stored(x) for x in args)
        group = ContactGroup(code, self.layout, b, coefficients, s, self.masks)
        found = code.area(3).base
        fill(group)
        p = self._solved(group, s, start, solve_cones, (3,), found)
        return [p, *(Area(after(code, found, i)) for i in range(3))]

    def _solved(
        self,
        group: ContactGroup,
        s: Area,
        start: Area,
        text: Any,
        shape: tuple[int, ...],
        found: Any,
    ) -> Area:
        """Gather the rest of a problem, call its solver, and scatter the impulses."""
        code, n = group.code, self.layout.n_rows
        group.gather_rest(lambda i: code.entry(s, i), code.whole(start, n))
        name, p = ("rebounds" if self.rebounds else "cones"), code.area(n)
        kinds = group.kinds
        group.call(
            cone_routine(code.module, code.e, name, text, kinds, shape, self.tolerance), found
        )
        group.scatter(group.places[-1], p)
        return p


@final
class ContactProduct(Primitive):
    """The impulses that a `ContactSolve` found, whose derivatives by W are those of a product W p.

    Results and arguments of the call, W p of `followed` → p: so that derivatives of W are not
    needed, but those of what an impulse does, which programs have without loops over columns.
    """

    def __init__(self, cone: ContactSolve) -> None:
        self.cone, self.shapes = cone, cone.shapes[:1]
        self.key = ("product", cone.key)
        self.name = f"product of {cone.name}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """What was found."""
        return [args[0]]

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """As for the call; W has none."""
        count = len(self.cone.shapes)
        if weights[0] is None:
            return [None] * len(args)
        left, _, *others = self.cone.pulled(args[count:-1], args[:count], weights[0])
        return [*[None] * (count + 1), *others, None, left]

    def write(self, code: Any, args: Sequence[Any]) -> list[Area]:
        """What was found."""
        return [code.stored(args[0])]
