"""Closed chains in the graph of a step: accelerations and projection as calls.

All of them solve equations of one kind, K [x; f] = [c; u]:

    ℳ x + G* f = c,    G x = u

K is symmetric, so weights go back through a solution by another one, [a; b] = K⁻¹ [weights], and

    by c: a,    by u: b,    by what K depends on: −∂(a* ℳ x + b* G x + f* G a)

The projection is Newton's method with such steps. Going back through it takes them from the last to
the first, with one more of length zero at the end: a state beside the constraints is projected too.

**Source:** theory/closed-chains 11 (C32).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from phipsi.algorithms import (
    BIAS_FORCES,
    INVERSE_DYNAMICS,
    MASS_MATRIX_INVERSE,
    RANK,
    ROW_ACCELERATIONS,
    ROW_DRIFT,
    ROW_MATRIX,
    System,
)
from phipsi.core.arrays import (
    Array,
    Node,
    Primitive,
    adjoints,
    call,
    evaluate,
    graph_digest,
    law_operations as ops,
)
from phipsi.core.backends import CONTRADICTION, DOUBTFUL
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr
from phipsi.core.machine import Index, Mask
from phipsi.core.operators import A, J, Udot, mass_matrix, tau, v, vdot
from phipsi.errors import InputError
from phipsi.native import Area, LaneMachine, LaneMemory, LawCode, RunKernel
from phipsi.simulation.integrators.group_calls import lifted, moved
from phipsi.simulation.integrators.motion import NEWTON, Motion, Projection
from phipsi.simulation.integrators.step_calls import ProgramCall, kernel_source, of_rotors, products
from phipsi.simulation.kinematic_loops.closure_code import (
    Closures,
    Eliminated,
    StraightLineSolve,
    closure_programs,
    residual_tables,
)
from phipsi.simulation.kinematic_loops.closure_terms import Unrolled, choose_closure_solver

_MULTIPLIERS = ROW_MATRIX.inv @ (A @ J @ MASS_MATRIX_INVERSE @ tau - Udot)
_SOLUTION = (MASS_MATRIX_INVERSE @ (tau - J.T @ A.T @ _MULTIPLIERS), _MULTIPLIERS)
_RATES, _MOTION, _MOMENTA = A @ J @ v, A @ J @ vdot, mass_matrix @ vdot
_OPEN = (DOUBTFUL, CONTRADICTION)  # redundant rows that disagree are not a failure here


class _SystemCall(Primitive):
    """A call about a system, written by `Closures`, of which a run has one for all its calls.

    `given` names quantities of the algebra that are the last arguments of the call.
    """

    what: str

    def __init__(self, system: System, given: Sequence[str] = ()) -> None:
        self.system, self.given = system, tuple(given)
        self.way = choose_closure_solver(system, self.given)
        self.key = (self.what, id(system), self.given)
        natives = [kernel_source(program) for program in closure_programs(system, self.given)]
        if None in natives:
            raise InputError(f"there is no machine code for the constraints of {system!r}")
        self.natives: Sequence[Any] = tuple(natives)
        # numbers of the system are part of the code, and what is not zero
        way, digest = "sweeps" if self.way is None else self.way.key, hashlib.sha256()
        for numbers in (*residual_tables(system), system.rows.rates, *self._floors()):
            digest.update(numbers.tobytes())
        digest.update("".join(f" {x.places} {x.law.text}" for x in system.rows.laws).encode())
        text = f"{digest.hexdigest()} {way}"
        self.name = f"{self.what} {text}"

    def _floors(self) -> Sequence[Array]:
        """Those of the elimination, if there is one."""
        if self.way is None:
            return ()
        way = self.way.elimination if isinstance(self.way, Unrolled) else self.way
        return (way.floors,)

    def prepare(self, host: RunKernel) -> Closures:
        """What is written once, before the loops."""
        key = _SystemCall, id(self.system), self.given
        if key not in host.shared:
            sizes = {name: math.prod(self.given_shape(name)) for name in self.given}
            number = len(host.shared)
            host.shared[key] = Closures(host, self.system, self.way, self.natives, sizes, number)
        return host.shared[key]

    def given_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a quantity that is given."""
        shapes = [x.program.input_shapes for x in self.natives]
        shapes += [self.way.shapes] if isinstance(self.way, Unrolled) else []
        return next(tuple(x[name]) for x in shapes if name in x)

    def _given(self, code: LawCode, args: Sequence[Any], names: Sequence[str]) -> Closures:
        """The equations, with these arguments in their places."""
        closures: Closures = code.host.prepared[self]
        m = closures.m
        for value, name in zip(args, (*names, *self.given), strict=True):
            place = closures.places[name]
            m.copy(place.shape[0], m.memory(code.stored(value), *place.shape), place)
        return closures

    # ---- values on arrays

    def _evaluated(
        self, forms: Any, more: Sequence[Array], modes: Sequence[str], **state: Array
    ) -> Any:
        """Expressions with what is given."""
        program = compile(forms, self.system, mode=modes, inputs=self.given)
        known = {**state, **dict(zip(self.given, more, strict=True))}
        return program(*(known[x] for x in program.inputs))

    def _dense_solution(self, q: Array, c: Array, u: Array, more: Sequence[Array]) -> list[Array]:
        """x and f, by dense matrices and singular values."""
        M, G = self._evaluated((mass_matrix, A @ J), more, ("dense", "dense"), q=q)
        both = np.concatenate([c[..., None], np.swapaxes(G, -1, -2)], axis=-1)
        solved = np.linalg.solve(M, both)
        free, reach = solved[..., :1], solved[..., 1:]
        f = np.linalg.pinv(G @ reach, rcond=RANK, hermitian=True) @ (G @ free - u[..., None])
        return [(free - reach @ f)[..., 0], f[..., 0]]

    def _projection(
        self, q: Array, v: Array, more: Sequence[Array]
    ) -> tuple[Projection, tuple[int, ...]]:
        """The nearest states, in a row, and the batch that they are of."""
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
        rows = [_rows(x, batch, self.given_shape(n)) for n, x in zip(self.given, more, strict=True)]
        inertia = None
        if self.given:
            inertia = lambda q: self._evaluated((mass_matrix,), rows, ("dense",), q=q)[0]  # noqa: E731
        motion = Motion(self.system, inertia=inertia)
        return motion.project(*(_rows(x, batch, x.shape[-1:]) for x in (q, v))), batch

    # ---- derivatives

    def _pulled(
        self,
        args: Sequence[Node],
        solved: tuple[Node, Node, Node, Node],
        momenta: Expr,
        motion: Expr,
        state: dict[str, Node],
    ) -> dict[str, Node]:
        """−∂(a* momenta + b* motion + f* G a) by `state` and what is given, by their names."""
        model, (x, f, a, b) = self.system.model, solved
        more = dict(zip(self.given, args[len(args) - len(self.given) :], strict=True))
        terms = ((momenta, x, a), (motion, x, b), (_MOTION, a, f))
        out: dict[str, Node] = {}
        for form, rates, weight in terms:
            names = [name for name in state if name == "q" or form is not _MOTION]
            names += ["M"] if "M" in more and form is momenta else []
            inputs = {**state, **more, "vdot": rates}
            found = products(
                form, self.system, names, inputs, weight, inputs=self.given, unrolls=True
            )
            for name, w in found.items():
                w = ops.apply("neg", w)
                out[name] = w if name not in out else ops.apply("add", out[name], w)
        out["q"] = lifted(model, state["q"], out["q"])
        if "Jr" in more:
            out["Jr"] = of_rotors(model, more["Jr"].shape, a, x)
        return out


@final
class SolutionCall(_SystemCall):
    """The solution of ℳ x + G* f = c, G x = u at q: q, c, u → x, f."""

    what = "solution"

    def __init__(self, system: System, given: Sequence[str] = ()) -> None:
        self.shapes = (system.nv,), (system.n_rows,)
        super().__init__(system, given)
        self._program: ProgramCall | None = None
        if self.way is None:
            options: Any = {"inputs": self.given, "allowed": _OPEN}
            self._program = ProgramCall(_SOLUTION, system, **options)
            self.natives = self._program.natives

    def prepare(self, host: Any) -> Any:
        """Nothing for sweeps, which are one call."""
        return None if self.way is None else super().prepare(host)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """With dense matrices."""
        q, c, u, *more = args
        return self._dense_solution(q, c, u, more)

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """One elimination, or one call of a kernel."""
        if self._program is not None:
            names = ("q", "tau", "Udot", *self.given)
            place = dict(zip(names, args, strict=True))
            return self._program.write(code, [place[x] for x in self._program.inputs])
        at = self._given(code, args, ("q", "tau", "g"))
        for place in (at.tau, at.g):
            at.m.each(0, place.shape[0])(partial(_negate, place))
        assert isinstance(at.solution, (Eliminated, StraightLineSolve))
        at.solution.solve()
        return _results(code, at.m, at.x, at.f)

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By another solution."""
        (q, _, _, *more), (x, f) = args, results
        a, b = call(self, q, *ops.filled(weights, self.shapes), *more)
        found = self._pulled(args, (x, f, a, b), _MOMENTA, _MOTION, {"q": q})
        return [found["q"], a, b, *(found.get(name) for name in self.given)]


@final
class AccelerationCall(_SystemCall):
    """Accelerations that keep the constraints, and the multipliers: q, v, tau → vdot, f.

    With `stage`, loops are open by the error of a stage, and redundant rows may disagree by it.
    """

    def __init__(self, system: System, stage: int = 0, given: Sequence[str] = ()) -> None:
        self.stage = min(stage, 1)
        self.what = f"accelerations in stage {self.stage}"
        self.shapes = ((system.nv,), (system.n_rows,))
        super().__init__(system, given)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """With dense matrices."""
        q, rates, efforts, *more = args
        forms = (BIAS_FORCES, ROW_DRIFT)
        load, drift = self._evaluated(forms, more, ("apply", "apply"), q=q, v=rates)
        return self._dense_solution(q, efforts - load, -drift, more)

    def write(self, code: LawCode, args: Sequence[Any]) -> list[Area]:
        """The equations and their solution."""
        at = self._given(code, args, ("q", "v", "tau"))
        at.solution.accelerate(self.stage)
        return _results(code, at.m, at.vdot, at.f)

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """By a solution; c = tau − bias and u = −drift change with q and v."""
        (q, rates, _, *more), (x, f) = args, results
        solution = SolutionCall(self.system, self.given)
        a, b = call(solution, q, *ops.filled(weights, self.shapes), *more)
        state = {"q": q, "v": rates}
        found = self._pulled(args, (x, f, a, b), INVERSE_DYNAMICS, ROW_ACCELERATIONS, state)
        return [found["q"], found["v"], a, *(found.get(name) for name in self.given)]


@final
class ProjectionCall(_SystemCall):
    """The nearest state on the constraints: q, v → the same."""

    what = "projection"

    def __init__(self, system: System, given: Sequence[str] = ()) -> None:
        self.shapes = (system.nq,), (system.nv,)
        super().__init__(system, given)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The projection of `Motion`."""
        found, batch = self._projection(args[0], args[1], args[2:])
        return found.q.reshape(*batch, -1), found.v.reshape(*batch, -1)

    def write(self, code: LawCode, args: Sequence[Any]) -> list[Area]:
        """Newton's method in lanes."""
        at = self._given(code, args, ("q", "v"))
        at.project()
        return _results(code, at.m, at.q, at.v)

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Back through the iterations, which are taken again."""
        back = ProjectionAdjoint(self.system, self.given)
        return call(back, *args[:2], *ops.filled(weights, self.shapes), *args[2:])


@final
class ProjectionAdjoint(_SystemCall):
    """Weights before a projection from those after it: q, v, to q, to v → to q, to v, to given."""

    what = "projection pulled"

    def __init__(self, system: System, given: Sequence[str] = ()) -> None:
        super().__init__(system, given)
        self._more = [ops.input(name, self.given_shape(name)) for name in self.given]
        self.shapes = (system.nq,), (system.nv,), *(x.shape for x in self._more)
        self.natives, digest = graph_digest([*self._rates, *self._step], self.natives)
        self.name += f" {digest}"

    @cached_property
    def _inputs(self) -> dict[str, Node]:
        nq, nv, rows = self.system.nq, self.system.nv, self.system.n_rows
        sizes = {"q": nq, "v": nv, "g": rows, "to q": nq, "to v": nv}
        return {name: ops.input(name, (size,)) for name, size in sizes.items()}

    def _solved(self, u: Node) -> Node:
        """x with ℳ x + G* f = 0, G x = u."""
        callee = SolutionCall(self.system, self.given)
        none = ops.constant(np.zeros(self.system.nv))
        return call(callee, self._inputs["q"], none, u, *self._more)[0]

    @cached_property
    def _rates(self) -> list[Node]:
        """Back through v + x, x with G (v + x) = rates: to q, to v, to given."""
        at = self._inputs
        (found,) = ProgramCall((_RATES,), self.system, unrolls=True).of(at)
        x = self._solved(ops.apply("sub", ops.constant(self.system.rows.rates), found))
        end = ops.apply("add", at["v"], x)
        inputs = (at["q"], at["v"], *self._more)
        by_q, *rest = _weights(end, at["to v"], inputs)
        return [ops.apply("add", at["to q"], by_q), *rest]

    @cached_property
    def _step(self) -> list[Node]:
        """Back through a step of Newton's method, from residuals g: to q, to given."""
        at, model = self._inputs, self.system.model
        end = moved(model, at["q"], self._solved(ops.apply("neg", at["g"])))
        inputs = (at["q"], at["g"], *self._more)
        by_q, by_g, *rest = _weights(end, at["to q"], inputs)
        # ∂g = G δq where rows have residuals
        has_position = ops.constant(self.system.rows.has_position.astype(float))
        place = {"q": at["q"], "x": ops.apply("mul", has_position, by_g)}
        (slope,) = ProgramCall((J.T @ A.T,), self.system, unrolls=True).of(place)
        return [ops.apply("add", by_q, lifted(model, at["q"], slope)), *rest]

    def prepare(self, host: Any) -> Any:
        """That of the calls inside, too."""
        host.prepare([*self._rates, *self._step])
        return super().prepare(host)

    def arrays(self, *args: Array) -> Sequence[Array]:
        """With the iterations of `Motion`."""
        found, batch = self._projection(args[0], args[1], args[4:])
        n, more = len(found.q), dict(zip(self.given, args[4:], strict=True))
        more = {x: _rows(y, batch, self.given_shape(x)) for x, y in more.items()}
        to_q, to_v = (_rows(x, batch, x.shape[-1:]) for x in args[2:4])
        known = {"v": found.v0, "to q": to_q, "to v": to_v, **more}
        to_q, to_v, *sums = evaluate(self._rates, {"q": found.q, **known})
        steps = [(found.q, np.zeros((n, self.system.n_rows)), np.ones(n, bool))]
        steps += [(x.q, x.residual, x.taken) for x in reversed(found.corrections)]
        for q, g, taken in steps:
            before, *terms = evaluate(self._step, {**more, "q": q, "g": g, "to q": to_q})
            to_q = np.where(taken[:, None], before, to_q)
            sums = [
                x + np.where(taken.reshape(n, *(1,) * (np.ndim(y) - 1)), y, 0.0)
                for x, y in zip(sums, terms, strict=True)
            ]
        return [
            np.reshape(x, (*batch, *s))
            for x, s in zip((to_q, to_v, *sums), self.shapes, strict=True)
        ]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The iterations again, keeping all of them, and back."""
        r: RunKernel = code.host
        nq, rows = self.system.nq, self.system.n_rows
        q, v, to_q, to_v, *more = (code.stored(x) for x in args)
        at = self._given(code, (q, v, *more), ("q", "v"))
        m, taken = at.m, at.m.number(0.0)
        # one more than there are: the turn of length zero reads it, and takes nothing from it
        kept, gaps = m.array(NEWTON + 2, nq), m.array(NEWTON + 2, rows)

        def watch(turn: Index, moves: Mask) -> None:
            @m.each(0, nq)
            def _(j: Index) -> None:
                kept[turn, j] = at.q[j]

            @m.each(0, rows)
            def _(j: Index) -> None:
                gaps[turn, j] = at.g[j]

            taken.value = m.where(moves, taken.value + 1.0, taken.value)

        at.project(watch)
        (end,) = _results(code, m, at.q)
        given = dict(zip(self.given, more, strict=True))
        inputs = {"q": end, "v": v, "to q": to_q, "to v": to_v, **given}
        inner = LawCode(r.module, r.e, inputs, r.area, r)
        out = [
            r.copied(inner, x, max(1, node.size))
            for x, node in zip(inner.write(self._rates), self._rates, strict=True)
        ]
        sums = [out[0], *out[2:]]  # of steps: to q changes, the others are added to
        last, place, gap = m.memory(end, nq), at.array(nq), at.array(rows)

        @m.loop(0, NEWTON + 2)
        def _(k: Index) -> None:
            turn = NEWTON + 1 - k
            i, count = m.to_number(turn), taken.value
            before = i < count

            @m.when(i <= count)
            def _() -> None:
                @m.each(0, nq)
                def _(j: Index) -> None:
                    place[j] = m.where(before, kept[turn, j], last[j])

                @m.each(0, rows)
                def _(j: Index) -> None:
                    gap[j] = m.where(before, gaps[turn, j], 0.0)

                known = {"q": place.area, "g": gap.area, "to q": out[0], **given}
                inside = LawCode(r.module, r.e, known, r.area, r)
                found = inside.write(self._step)
                # all new values, before the old ones change
                new = [
                    r.copied(inside, x, node.size)
                    for x, node in zip(found, self._step, strict=True)
                ]
                for n, (x, area, node) in enumerate(zip(new, sums, self._step, strict=True)):
                    total = m.memory(area, node.size)
                    m.each(0, node.size)(partial(_keep, total, m.memory(x, node.size), adds=n > 0))

        return out

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Not there."""
        raise NotImplementedError("second derivatives of a projection")


def _weights(end: Node, to: Node, inputs: Sequence[Node]) -> list[Node]:
    """The weights of inputs, from those of the end."""
    return ops.filled(adjoints([end], [to], inputs), (x.shape for x in inputs))


def _rows(x: Array, batch: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """A batch in a row: (n, *shape)."""
    return np.broadcast_to(x, (*batch, *shape)).reshape(math.prod(batch), *shape)


def _results(code: Any, m: LaneMachine, *memories: LaneMemory) -> list[Area]:
    """Copies of numbers."""
    out = [code.area(x.shape[0]) for x in memories]
    for x, area in zip(memories, out, strict=True):
        m.copy(x.shape[0], x, m.memory(area, *x.shape))
    return out


def _negate(memory: LaneMemory, i: Index) -> None:
    memory[i] = -memory[i]


def _keep(total: LaneMemory, x: LaneMemory, i: Index, *, adds: bool) -> None:
    """The next numbers of a sum, or their change."""
    total[i] = total[i] + x[i] if adds else x[i]
