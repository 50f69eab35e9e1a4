"""Equations in graphs: a call that iterates x ← g(x, c) until x stands still (implicit.py).

The solution is differentiated by the implicit function theorem, x = g(x, c):

    λ = weights + (∂g/∂x)* λ,     weights of c: (∂g/∂c)* λ

which is an equation of the same kind, and its iteration contracts as the first one does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from phipsi.errors import PhipsiError
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call, listing, natives_of
from phipsi.laws.graph import Array, Node, in_order
from phipsi.laws.law_derivatives import adjoints
from phipsi.laws.law_values import evaluate
from phipsi.laws.substitution import substituted
from phipsi.motion.implicit import CONVERGED, ITERATIONS, LEAST_FACTOR, STALLED, newton

Measure = tuple[Node, Node]
"""Squares: how much an iterate has changed, and how large it is."""


def solution(
    unknowns: Sequence[Node],
    images: Sequence[Node],
    guesses: Sequence[Node],
    measures: Sequence[Measure] = (),
) -> tuple[Node, ...]:
    """The fixed points of unknowns ← images near guesses.

    **Arguments:** `unknowns`, inputs of a graph; `images`, the next iterates, nodes that read them;
    `measures`, which decide when the iteration has converged (`implicit.py`), sums of squares if
    there are none. What does not depend on the unknowns is computed once, before the iteration.
    """
    pairs = measures or [_squares(x, y) for x, y in zip(unknowns, images, strict=True)]
    results = [*images, *(x for pair in pairs for x in pair)]
    moving = set(unknowns)
    for x in in_order(results):
        if any(y in moving for y in x.args):
            moving.add(x)
    used = dict.fromkeys(y for x in in_order(results) if x in moving for y in x.args)
    used |= dict.fromkeys(results)
    fixed = [x for x in used if x not in moving and x.operation.name != "constant"]
    inside = {x: ops.given(f"fixed {i}", x.shape) for i, x in enumerate(fixed)}
    body = substituted(results, inside)
    callee = Iteration(tuple(unknowns), tuple(inside.values()), tuple(body))
    return call(callee, *guesses, *fixed)


def _squares(x: Node, new: Node) -> Measure:
    step = ops.apply("sub", new, x)
    return tuple(ops.total(ops.apply("mul", y, y), None) for y in (step, new))  # type: ignore[return-value]


def _ratio(measure: tuple[float, float]) -> float:
    change, size = measure
    return change / size if size else np.inf if change else 0.0


@final
class Iteration(Callee):
    """The fixed point of a graph.

    **Attributes:** `unknowns` and `fixed`, the inputs of the graph, which are the arguments of the
    call, guesses for the unknowns; `body`, the images of the unknowns and the two parts of every
    measure.
    """

    def __init__(
        self, unknowns: tuple[Node, ...], fixed: tuple[Node, ...], body: tuple[Node, ...]
    ) -> None:
        self.unknowns, self.fixed, self.body = unknowns, fixed, body
        self.shapes = tuple(x.shape for x in unknowns)
        self.key = (unknowns, fixed, body)
        nodes = in_order([*unknowns, *fixed, *body])
        self.natives = natives_of(nodes)
        ends = [nodes.index(x) for x in (*unknowns, *fixed, *body)]
        text = "\n".join([*listing(nodes, self.natives), repr(ends)])
        self.name = f"iteration {hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def images(self) -> tuple[Node, ...]:
        """The next iterates."""
        return self.body[: len(self.unknowns)]

    @property
    def measures(self) -> list[Measure]:
        """Change and size of iterates, which all have to be small."""
        rest = self.body[len(self.unknowns) :]
        return list(zip(rest[::2], rest[1::2], strict=True))

    def arrays(self, *args: Array) -> list[Array]:
        """The same iteration on arrays; NaN where it does not converge."""
        inputs = (*self.unknowns, *self.fixed)
        known = {x.data[0]: np.asarray(a) for x, a in zip(inputs, args, strict=True)}
        batch = np.broadcast_shapes(
            *(known[x.data[0]].shape[: known[x.data[0]].ndim - len(x.shape)] for x in inputs)
        )
        for x in inputs:
            known[x.data[0]] = np.array(np.broadcast_to(known[x.data[0]], (*batch, *x.shape)))
        first = {x: known[x.data[0]].copy() for x in self.unknowns}
        done, before = np.zeros(batch, bool), [np.full(batch, np.inf) for _ in self.measures]
        for _ in range(ITERATIONS):
            found = evaluate(self.body, known)
            good = np.ones(batch, bool)
            for i, last in enumerate(before):
                change, size = (found[len(self.unknowns) + 2 * i + j] for j in range(2))
                with np.errstate(all="ignore"):
                    factor = np.fmax(change / last, LEAST_FACTOR)
                    small = change * factor <= CONVERGED * size
                    small |= (change >= last) & (change <= STALLED * size)
                good &= small
                before[i] = change
            for x, new in zip(self.unknowns, found, strict=False):
                mask = done.reshape(*batch, *(1,) * len(x.shape))
                known[x.data[0]] = np.where(mask, known[x.data[0]], new)
            done |= good
            if done.all():
                break
        out = [known[x.data[0]] for x in self.unknowns]
        for place in np.ndindex(*batch):
            if done[place]:
                continue
            at = {x.data[0]: known[x.data[0]][place] for x in self.fixed}
            found = self._newton([first[x][place] for x in self.unknowns], at)
            for x, new in zip(out, found, strict=True):
                x[place] = new
        return out

    def _newton(self, guesses: Sequence[Array], fixed: dict[str, Array]) -> list[Array]:
        """The fixed point of one element by Newton's method; NaN where there is none."""
        ends = np.cumsum([x.size for x in self.unknowns])[:-1]

        def parts(w: Array) -> list[Array]:
            several = zip(np.split(w, ends), self.unknowns, strict=True)
            return [part.reshape(x.shape) for part, x in several]

        def image(w: Array) -> tuple[Array, float, float]:
            at = {x.data[0]: part for x, part in zip(self.unknowns, parts(w), strict=True)}
            try:
                found = evaluate(self.body, {**fixed, **at})
            except PhipsiError:
                return np.full_like(w, np.nan), np.nan, np.nan
            new = np.concatenate([np.ravel(x) for x in found[: len(self.unknowns)]])
            rest = [float(x) for x in found[len(self.unknowns) :]]
            return new, *max(zip(rest[::2], rest[1::2], strict=True), key=_ratio)

        w = newton(image, np.concatenate([np.ravel(x) for x in guesses]))
        return parts(np.full(sum(x.size for x in self.unknowns), np.nan) if w is None else w)

    def prepare(self, host: Any) -> None:
        """That of the calls inside."""
        host.prepare(self.body)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """A loop around the code of the graph."""
        from phipsi.motion.iteration_code import write_iteration

        return write_iteration(code, self, args)

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By the implicit function theorem; guesses do not matter."""
        n = len(self.unknowns)
        known = dict(zip(self.unknowns, results, strict=True))
        known |= dict(zip(self.fixed, args[n:], strict=True))
        bars = [
            ops.constant(np.zeros(x.shape)) if w is None else w
            for x, w in zip(self.unknowns, weights, strict=True)
        ]
        to = [ops.given(f"to {x.data[0]}", x.shape) for x in self.unknowns]
        found = adjoints(self.images, to, (*self.unknowns, *self.fixed))
        moving = [i for i, x in enumerate(found) if x is not None]
        there = substituted([x for x in found if x is not None], known)
        terms: dict[int, Node] = dict(zip(moving, there, strict=True))
        images = [ops.apply("add", b, terms[i]) if i in terms else b for i, b in enumerate(bars)]
        solved = solution(to, images, bars)
        fixed = [i for i in range(n, n + len(self.fixed)) if i in terms]
        at = dict(zip(to, solved, strict=True))
        out = dict(zip(fixed, substituted([terms[i] for i in fixed], at), strict=True))
        return [out.get(i) for i in range(len(args))]
