"""Gradients through runs: the adjoint of every step, from the last to the first, in machine code.

A step y⁺ = F(y, u, π) of the state y with inputs u and parameters π has records r = R(y, u, π). The
gradient of Σ w r goes backward,

    λ = (∂F/∂y)* λ⁺ + (∂R/∂y)* w,     by u: (∂F/∂u)* λ⁺ + (∂R/∂u)* w,     by π: the sum over steps

begins with λ = (∂R/∂y)* w of the record after the last step, which has the inputs of that step,
and is a run of its own, whose state is λ and the sums, and whose inputs are the states of the
forward run in reverse. Only every so many of those are kept; the others are computed again.

A matrix of a product, such as the weights of a layer, gets the sum of a product of two smaller ones
in every step. These are written out, and multiplied for a block of steps at once.

**Source:** Griewank and Walther 2008, ch. 12 (checkpointing).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.arrays import Node, adjoints, law_operations as ops
from phipsi.core.backends import NOT_FINITE
from phipsi.errors import SimulationError
from phipsi.simulation.integrators.graph_steps import step_of
from phipsi.simulation.integrators.group_calls import lifted, lower
from phipsi.simulation.integrators.step_graph import StepGraph
from phipsi.simulation.integrators.tableaux import Method
from phipsi.simulation.runs.run_memory import RunMemory
from phipsi.simulation.runs.run_program import RunProgram

Array = NDArray[Any]
_MOST_NUMBERS = 5e7  # kept for the steps between two checkpoints: 400 MB
_BLOCK = 8  # steps back before factors are multiplied, whatever the batch


@dataclass(frozen=True)
class Cotangents:
    """What a gradient is by: rows of trajectories first.

    **Attributes:** `states`, by name, by q (n, nv) along the rates; `tau`
    (n, nv) or (n, steps, nv), as the efforts were given; `parameters`, by name: (n, *shape) of
    those of each trajectory, the sum (*shape) of those that all share.
    """

    states: dict[str, Array]
    tau: Array
    parameters: dict[str, Array]


Weigh = Callable[[Mapping[str, Array], int, int], Mapping[str, Array]]
"""(seen, start, stop) → the weights (n, stop − start + 1, size) of records by name.

`seen` has the states and records, such as "v" and "of cost", from step `start` to the place after
step `stop` − 1; the last row counts only if no step follows.
"""


@final
class GivenWeights:
    """Weights that are known before the run: of every so many records, zero between them.

    **Arguments:** `weights` (n, kept, *shape) by name, `every` so many steps, of a run of `steps`.
    **Attributes:** `value` (n,), Σ w r.
    """

    def __init__(self, weights: Mapping[str, Array], every: int, steps: int) -> None:
        self._weights, self._every, self._steps = weights, every, steps
        self.value: Any = 0.0

    def __call__(self, seen: Mapping[str, Array], start: int, stop: int) -> dict[str, Array]:
        """See `Weigh`."""
        out = {}
        for name, given in self._weights.items():
            rows = np.zeros((len(given), stop - start + 1, seen[f"of {name}"].shape[-1]))
            numbers = np.arange(-(-start // self._every), stop // self._every + 1)
            kept = given.reshape(*given.shape[:2], -1)
            rows[:, numbers * self._every - start] = kept[:, numbers]
            out[name] = rows
        if stop == self._steps:
            self._add(out, seen, slice(-1, None))
        if stop > start:
            self._add(out, seen, slice(None, -1))
        return out

    def _add(self, rows: Mapping[str, Array], seen: Mapping[str, Array], which: slice) -> None:
        total: Any = 0.0
        for name, w in rows.items():
            total = total + (w[:, which] * seen[f"of {name}"][:, which]).sum(axis=(1, 2))
        self.value = self.value + total


Product = tuple[Node, Node]


@dataclass(frozen=True, eq=False)
class _Reverse:
    """One step back, and by parameter the products that are summed over steps after the run."""

    plan: RunProgram
    products: dict[str, list[Product]]

    def pairs(self, name: str) -> list[tuple[str, str, Product]]:
        """The products of a parameter, with the names under which the plan gives their factors."""
        return [(*_names(name, i), x) for i, x in enumerate(self.products[name])]


@dataclass(frozen=True, eq=False)
class _Back:
    """A run of steps back; what it writes out is kept, by number of steps, for the next block."""

    reverse: _Reverse
    memory: RunMemory
    room: dict[int, dict[str, Array]] = field(default_factory=dict)

    def written(self, count: int, m: int) -> dict[str, Array]:
        """Arrays (count, m, size) of what the plan gives, by name."""
        if m not in self.room:
            gives = self.reverse.plan.gives.items()
            self.room[m] = {name: np.empty((count, m, max(1, x.size))) for name, x in gives}
        return self.room[m]


def _names(name: str, i: int) -> tuple[str, str]:
    return f"left {i} of {name}", f"right {i} of {name}"


def _terms(x: Node) -> list[Node]:
    """The terms of a sum."""
    if x.operation.name == "add" and all(y.shape == x.shape for y in x.args):
        return [z for y in x.args for z in _terms(y)]
    return [x]


def _is_kept_factored(x: Node) -> bool:
    """Whether a term is a product whose factors have far fewer entries than itself."""
    factors = [y.size for y in x.args] if x.operation.name == "matmul" else [x.size]
    return 2 * sum(factors) < x.size


@final
class RunGradient:
    """The forward and the backward run for the gradient of some records.

    **Arguments:** `graph`, `method`, of the steps; `records`, nodes at the start of the graph, by
    name, which are taken after the samples of their step; `parameters`, the sizes of all parameters
    by name, those in `own` of every trajectory; `wrt`, the parameters by which the gradient is
    wanted; `smoothing`, J, of contacts; with `along_rates`, weights of the record "q" are in the
    directions of the rates (nv), as those of users' costs are; `reproducible`, whether it has
    bitwise identical results on every processor: sums over steps are then in machine code as well,
    where NumPy's products of matrices would be faster.
    """

    def __init__(
        self,
        graph: StepGraph,
        method: Method,
        records: Mapping[str, Node],
        parameters: Mapping[str, tuple[int, ...]],
        own: Sequence[str],
        wrt: Sequence[str],
        *,
        smoothing: float = 0.0,
        along_rates: bool = False,
        reproducible: bool = False,
    ) -> None:
        self._graph, self._wrt, self._reproducible = graph, tuple(wrt), reproducible
        self._along_rates = along_rates
        self._shapes = dict(parameters)
        begin = graph.after_samples()
        end = step_of(graph, method, begin, smoothing=smoothing, differentiable=True)
        sizes = {name: max(1, math.prod(shape)) for name, shape in parameters.items()}
        shared = {name: size for name, size in sizes.items() if name not in own}
        mine = {name: size for name, size in sizes.items() if name in own}
        self._own = tuple(mine)
        start = graph.start
        self.states = {"q": start.q, "v": start.v, **start.states}
        ends = {"q": end.q, "v": end.v, **end.states}
        forward = {**ends, "t": end.t}
        seen = graph.moved_to(begin, list(records.values()))
        self.records = dict(zip(records, seen, strict=True))
        self.forward = RunProgram(
            graph.native, forward, {"tau": graph.tau.size}, mine, shared, (),
            {**self.states, "t": start.t, **{f"of {n}": x for n, x in self.records.items()}},
            reproducible=reproducible,
        )  # fmt: skip
        inputs = {name: x.size for name, x in self.states.items()}
        inputs |= {"t": 1, "tau": graph.tau.size}
        inputs |= {f"weights of {name}": self._weights_of(name).size for name in records}
        weights = {name: ops.input(f"to {name}", x.shape) for name, x in ends.items()}
        self.backward = self._reverse(weights, ends, inputs, mine, shared)
        self.last = self._reverse(weights, None, inputs, mine, shared)

    def _weights_of(self, name: str) -> Node:
        """The input with the weights of a record."""
        along = self._along_rates and name == "q"
        shape = (self._graph.model.nv,) if along else self.records[name].shape
        return ops.input(f"weights of {name}", shape)

    def _reverse(
        self,
        weights: Mapping[str, Node],
        ends: Mapping[str, Node] | None,
        inputs: Mapping[str, int],
        own: Mapping[str, int],
        shared: Mapping[str, int],
    ) -> _Reverse:
        """One step back; without `ends`, only the records of the last state."""
        graph = self._graph
        given = {name: ops.input(name, self._shapes[name]) for name in self._wrt}
        results, bars = [], []
        if ends is not None:
            results += list(ends.values())
            bars += [weights[name] for name in ends]
        for name, node in self.records.items():
            results.append(node)
            bar = self._weights_of(name)
            if self._along_rates and name == "q":
                bar = lifted(graph.model, node, bar)
            bars.append(bar)
        by = [*self.states.values(), graph.tau, *given.values()]
        found = iter(adjoints(results, bars, by))
        after = {
            f"to {name}": next(found) or ops.constant(np.zeros(x.shape))
            for name, x in self.states.items()
        }
        gives = {"by tau": next(found) or ops.constant(np.zeros(graph.tau.shape))}
        products: dict[str, list[Product]] = {}
        for name, x in given.items():
            more = next(found)
            terms = [] if more is None else _terms(more)
            later = [y for y in terms if _is_kept_factored(y) and not self._reproducible]
            products[name] = [(y.args[0], y.args[1]) for y in later]
            for i, factors in enumerate(products[name]):
                gives |= dict(zip(_names(name, i), factors, strict=True))
            if len(later) < len(terms):
                total = ops.input(f"sum {name}", x.shape)
                for y in terms:
                    total = total if y in later else ops.apply("add", total, y)
                after[f"sum {name}"] = total
        parts = graph.native, after, inputs, own, shared, (), {}
        return _Reverse(RunProgram(*parts, gives=gives, reproducible=self._reproducible), products)

    # ---- running ------------------------------------------------------------------------------

    def gradient(
        self,
        h: float,
        steps: int,
        first: int,
        arrays: Mapping[str, Array],
        tau: Array,
        weigh: Weigh,
        segment: int | None = None,
        threads: int = 1,
        first_trajectory: int = 0,
    ) -> tuple[Cotangents, RunMemory]:
        """The gradient of Σ w r, and the memory of the forward run with the status of both runs.

        **Arguments:** `h`, `steps`, `first`, the number of the first step; `arrays`, rows (n, size)
        of the states, "t" among them, and parameters, by name; `tau` (n, nv) or (n, steps, nv);
        `weigh`, which is called with what segments of the run have seen, the last one first;
        `segment`, the number of steps between two kept states; `threads`; `first_trajectory`, the
        number of the first one.
        The gradient by `tau` has its shape.
        """
        given = tau
        if tau.ndim == 2:
            tau = np.broadcast_to(tau[:, None], (len(tau), max(steps, 1), tau.shape[-1]))
        elif not steps:  # none are given, and the record has none
            tau = np.zeros((len(tau), 1, tau.shape[-1]))
        count, length = len(tau), segment or self._segment(len(tau), steps)
        now = {name: arrays[name].copy() for name in self.forward.states}
        constants = {name: arrays[name] for name in self._shapes}
        numbered = {"first_trajectory": first_trajectory}
        forward = RunMemory(self.forward, {**now, **constants}, count, threads, **numbered)
        firsts = list(range(0, max(steps, 1), length))
        kept = [{name: x.copy() for name, x in now.items()}]
        for start in firsts[:-1]:
            number = first + start
            forward.run_in_pieces(h, length, number, records=False, tau=tau, begin=start)
            kept.append({name: x.copy() for name, x in now.items()})
        found = self._pulled_rows(count)
        ending, back = (
            _Back(one, RunMemory(one.plan, {**found, **constants}, count, threads, **numbered))
            for one in (self.last, self.backward)
        )
        sums = {name: self._no_sum(name, count) for name in self._wrt}
        by_tau = np.zeros(tau.shape)
        for start in reversed(firsts):
            for name, x in kept.pop().items():
                now[name][...] = x
            stop = min(start + length, steps)
            seen = self._records(forward, tau, h, first, start, stop)
            if forward.status.any():
                break
            weights = weigh(seen, start, stop)
            here = {**seen, **{f"weights of {name}": x for name, x in weights.items()}}
            if stop == steps:
                at = {name: x[:, -1:] for name, x in here.items()}
                ends = self._back(ending, at, tau[:, -1:], h, first + steps, sums)
            if stop > start:
                at = {name: x[:, :-1] for name, x in here.items()}
                own = tau[:, start:stop]
                by_tau[:, start:stop] = self._segment_back(back, at, own, h, first, start, sums)
            if stop == steps:
                by_tau[:, -1:] += ends
        _take_failures(forward, ending.memory, back.memory)
        states = {name: found[f"to {name}"] for name in self.states}
        (states["q"],) = lower(self._graph.model, arrays["q"], states["q"])
        self._add_sums(found, sums)
        fine = all(np.isfinite(x).all() for x in sums.values())
        if not fine and not forward.status.any():
            raise _not_finite()
        by_tau = by_tau.sum(axis=1) if given.ndim == 2 else by_tau[:, :steps]
        return Cotangents(states, by_tau, sums), forward

    def _pulled_rows(self, count: int) -> dict[str, Array]:
        """Zeros (n, size) for what the steps back change, by name."""
        plans = self.last.plan, self.backward.plan
        states = {name: x for plan in plans for name, x in plan.states.items()}
        return {name: np.zeros((count, max(1, x.size))) for name, x in states.items()}

    def _add_sums(self, found: Mapping[str, Array], sums: Mapping[str, Array]) -> None:
        """Add what the steps back have summed of parameters to their gradients."""
        for name, total in sums.items():
            if f"sum {name}" in found:
                each = found[f"sum {name}"].reshape(-1, *self._shapes[name])
                total += each if name in self._own else each.sum(axis=0)

    def _segment_back(
        self,
        back: _Back,
        at: Mapping[str, Array],
        tau: Array,
        h: float,
        first: int,
        start: int,
        sums: dict[str, Array],
    ) -> Array:
        """Through the steps of a segment that begins with step `start`, in blocks from its end.

        **Returns:** the gradient by `tau` (n, steps of the segment, nv).
        """
        by_tau, stop = np.empty(tau.shape), start + tau.shape[1]
        for low in reversed(range(start - start % _BLOCK, stop, _BLOCK)):
            here = slice(max(low - start, 0), min(low + _BLOCK, stop) - start)
            part = {name: x[:, here] for name, x in at.items()}
            last = first + start + here.stop - 1
            by_tau[:, here] = self._back(back, part, tau[:, here], h, last, sums)[:, ::-1]
        return by_tau

    def _segment(self, count: int, steps: int) -> int:
        one = sum(x.size for x in self.forward.records.values()) + self._graph.model.nv
        most = int(_MOST_NUMBERS / max(1, count * one))
        if steps <= most:
            return max(1, steps)
        few = max(1, min(most, math.isqrt(steps) + 1))
        return few if few < _BLOCK else few - few % _BLOCK

    def _records(
        self, forward: RunMemory, tau: Array, h: float, first: int, start: int, stop: int
    ) -> dict[str, Array]:
        """States and records (n, m + 1, size) from step `start` to the place after step `stop`."""
        count, m = len(tau), stop - start
        out = {
            name: np.empty((count, m + 1, max(1, x.size)))
            for name, x in self.forward.records.items()
        }
        for name, x in out.items():
            forward.place(f"record {name}", x)
        begin = start if m else 0
        forward.run_in_pieces(h, m, first + start, records=True, tau=tau, begin=begin)
        return out

    def _no_sum(self, name: str, count: int) -> Array:
        shape = self._shapes[name]
        return np.zeros((count, *shape) if name in self._own else shape)

    def _back(
        self,
        back: _Back,
        at: Mapping[str, Array],
        tau: Array,
        h: float,
        last: int,
        sums: Mapping[str, Array],
    ) -> Array:
        """Go back through steps from the one with the number `last`: by tau, in this order."""
        memory, out = back.memory, back.written(*tau.shape[:2])
        for name in memory.plan.inputs:
            memory.place(name, (tau if name == "tau" else at[name])[:, ::-1], per_step=True)
        for name, x in out.items():
            memory.place(f"record {name}", x)
        memory.run(h, tau.shape[1], last, records=False, direction=-1)
        if (memory.status & 7 == NOT_FINITE).any():
            raise _not_finite()
        for name, total in sums.items():
            for left, right, factors in back.reverse.pairs(name):
                total += self._product(name, out[left], out[right], factors)
        return out["by tau"]

    def _product(self, name: str, left: Array, right: Array, factors: Product) -> Array:
        """Σ over steps of products, and over trajectories where they share the parameter."""
        (rows, between), (_, columns) = factors[0].shape, factors[1].shape
        count, m = left.shape[:2]
        left, right = left.reshape(count, m, rows, between), right.reshape(count, -1, columns)
        if name in self._own:
            return left.transpose(0, 2, 1, 3).reshape(count, rows, -1) @ right
        return left.transpose(2, 0, 1, 3).reshape(rows, -1) @ right.reshape(-1, columns)


def _take_failures(forward: RunMemory, *backs: RunMemory) -> None:
    """Note what failed on the way back, such as an equation of an implicit step."""
    for back in backs:
        bad = back.status != 0
        forward.status[bad], forward.failed_at[bad] = back.status[bad], back.failed_at[bad]


def _not_finite() -> SimulationError:
    return SimulationError(
        "the gradient is not finite: a law has no derivative at a state of the rollout, such as "
        "√x at 0, or the rollout is so sensitive that its gradient overflows"
    )
