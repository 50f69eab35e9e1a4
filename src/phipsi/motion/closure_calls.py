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
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from phipsi.algorithms.constrained.row_rank import RANK
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.dynamics_expressions import (
    BIAS_FORCES,
    INVERSE_DYNAMICS,
    MASS_MATRIX_INVERSE,
    ROW_ACCELERATIONS,
    ROW_DRIFT,
    ROW_MATRIX,
)
from phipsi.backends.failures import CONTRADICTION, DOUBTFUL
from phipsi.backends.native.kernel.law_code import Area, LawCode
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, LaneMask, i64, write_loop
from phipsi.compiler import compile
from phipsi.errors import InputError
from phipsi.expressions.node import Expr
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call, graph_digest
from phipsi.laws.graph import Array, Node
from phipsi.laws.law_derivatives import adjoints
from phipsi.laws.law_values import evaluate
from phipsi.motion.closure_code import (
    Closures,
    Eliminated,
    InOnePiece,
    closure_programs,
    closure_record,
    closure_size,
)
from phipsi.motion.closure_terms import Unrolled, way_of
from phipsi.motion.group_calls import lifted, moved
from phipsi.motion.motion import NEWTON, Motion, Projection
from phipsi.motion.step_calls import ProgramCall, kernel_source, of_rotors, products
from phipsi.operators import A, J, Udot, mass_matrix, tau, v, vdot

_MULTIPLIERS = ROW_MATRIX.inv @ (A @ J @ MASS_MATRIX_INVERSE @ tau - Udot)
_SOLUTION = (MASS_MATRIX_INVERSE @ (tau - J.T @ A.T @ _MULTIPLIERS), _MULTIPLIERS)
_RATES, _MOTION, _MOMENTA = A @ J @ v, A @ J @ vdot, mass_matrix @ vdot
_OPEN = (DOUBTFUL, CONTRADICTION)  # redundant rows that disagree are not a failure here


class _SystemCall(Callee):
    """A call about a system, written by `Closures`, of which a run has one for all its calls.

    `given` names quantities of the algebra that are the last arguments of the call.
    """

    what: str

    def __init__(self, system: System, given: Sequence[str] = ()) -> None:
        self.system, self.given = system, tuple(given)
        self.way = way_of(system, self.given)
        self.key = (self.what, id(system), self.given)
        self.record = closure_record(system, self.given)
        natives = [kernel_source(program) for program in closure_programs(system, self.given)]
        if None in natives:
            raise InputError(f"there is no machine code for the constraints of {system!r}")
        self.natives: Sequence[Any] = tuple(natives)
        # the numbers of the record are part of the code, and what is not zero
        way = "sweeps" if self.way is None else self.way.key
        laws = "".join(f" {x.places} {x.law.text}" for x in system.rows.laws)
        numbers = hashlib.sha256(self.record.tobytes() + laws.encode())
        text = f"{numbers.hexdigest()} {way}"
        self.name = f"{self.what} {text}"

    def prepare(self, host: Any) -> Any:
        """What is written once, before the loops."""
        key = _SystemCall, id(self.system), self.given
        if key not in host.shared:
            host.shared[key] = _Room(host, self, len(host.shared))
        return host.shared[key]

    def given_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a quantity that is given."""
        shapes = [x.program.input_shapes for x in self.natives]
        shapes += [self.way.shapes] if isinstance(self.way, Unrolled) else []
        return next(tuple(x[name]) for x in shapes if name in x)

    def _given(self, code: Any, args: Sequence[Any], names: Sequence[str]) -> _Room:
        """The room, with these arguments in their places."""
        room: _Room = code.host.prepared[self]
        for value, name in zip(args, (*names, *self.given), strict=True):
            place, size = room.places[name]
            room.copy(code.stored(value).base, place, i64(size))
        return room

    # ---- values on arrays

    def _evaluated(
        self, forms: Any, more: Sequence[Array], modes: Sequence[str], **state: Array
    ) -> Any:
        """Expressions with what is given."""
        program = compile(forms, self.system, mode=modes, given=self.given)
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
                form, self.system, names, inputs, weight, given=self.given, unrolls=True
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
            options: Any = {"given": self.given, "allowed": _OPEN}
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
        nv, rows = self.system.nv, self.system.n_rows
        if self._program is not None:
            names = ("q", "tau", "Udot", *self.given)
            place = dict(zip(names, args, strict=True))
            return self._program.write(code, [place[x] for x in self._program.inputs])
        room = self._given(code, args, ("q", "tau", "g"))
        for place, size in ((room.tau, nv), (room.closures.g, rows)):
            write_loop(room.b, i64(size), lambda i, x=place: room.store(-room.load(x, i), x, i))
        solution = room.closures.solution
        assert isinstance(solution, (Eliminated, InOnePiece))
        solution.solve()
        return room.results(code, (room.closures.x, nv), (room.closures.f, rows))

    def pull(
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

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The equations and their solution."""
        room = self._given(code, args, ("q", "v", "tau"))
        room.closures.solution.accelerate(self.stage)
        return room.results(
            code, (room.vdot, self.system.nv), (room.closures.f, self.system.n_rows)
        )

    def pull(
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

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Newton's method in lanes."""
        room = self._given(code, args, ("q", "v"))
        room.closures.project()
        return room.results(code, (room.q, self.system.nq), (room.v, self.system.nv))

    def pull(
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
        self._more = [ops.given(name, self.given_shape(name)) for name in self.given]
        self.shapes = (system.nq,), (system.nv,), *(x.shape for x in self._more)
        self.natives, digest = graph_digest([*self._rates, *self._step], self.natives)
        self.name += f" {digest}"

    @cached_property
    def _inputs(self) -> dict[str, Node]:
        nq, nv, rows = self.system.nq, self.system.nv, self.system.n_rows
        sizes = {"q": nq, "v": nv, "g": rows, "to q": nq, "to v": nv}
        return {name: ops.given(name, (size,)) for name, size in sizes.items()}

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
        r, nq, rows = code.host, self.system.nq, self.system.n_rows
        b, e = r.b, r.e
        q, v, to_q, to_v, *more = (code.stored(x) for x in args)
        room = self._given(code, (q, v, *more), ("q", "v"))
        kept, taken = r.area((NEWTON + 1) * (nq + rows)), r.area(1)
        b.store(r.zero, taken, align=8)

        def at(i: Any) -> tuple[Any, Any]:
            place = b.at(kept, b.mul(i, i64((nq + rows) * r.bytes)))
            return place, b.at(place, nq * r.bytes)

        def watch(i: Any, still: Any) -> None:
            where, gaps = at(i)
            room.copy(room.q, where, i64(nq))
            room.copy(room.closures.g, gaps, i64(rows))
            number = b.load(taken, align=8, typ=e.integers)
            b.store(b.select(still, number, b.add(number, e.integer(1))), taken, align=8)

        room.closures.project(watch)
        (end,) = room.results(code, (room.q, nq))
        given = dict(zip(self.given, more, strict=True))
        inputs = {"q": end, "v": v, "to q": to_q, "to v": to_v, **given}
        inner = LawCode(r.module, e, inputs, r.area, r)
        out = [
            r.copied(inner, x, max(1, node.size))
            for x, node in zip(inner.write(self._rates), self._rates, strict=True)
        ]
        sums = [out[0], *out[2:]]  # of steps: to q changes, the others are added to
        place, gap = code.area(nq), code.area(rows)

        def back(k: Any) -> None:
            i = e.splat_integer(b.sub(i64(NEWTON + 1), k))
            number = b.load(taken, align=8, typ=e.integers)
            active = b.icmp_signed("<=", i, number)
            with r.when(r.any(LaneMask(e, active))):
                before = b.icmp_signed("<", i, number)
                last = b.icmp_signed("==", k, i64(0))
                where, gaps = at(b.select(last, i64(0), b.sub(i64(NEWTON + 1), k)))

                def choose(j: Any) -> None:
                    there = e.select(before, r.load(where, j), r.load(end.base, j))
                    r.store(there, place.base, j)

                def gaps_of(j: Any) -> None:
                    r.store(e.select(before, r.load(gaps, j), 0.0), gap.base, j)

                write_loop(b, i64(nq), choose)
                write_loop(b, i64(rows), gaps_of)
                known = {"q": place, "g": gap, "to q": out[0], **given}
                inside = LawCode(r.module, e, known, r.area, r)
                found = inside.write(self._step)
                # all new values, before the old ones change
                new = [
                    r.copied(inside, x, node.size)
                    for x, node in zip(found, self._step, strict=True)
                ]
                for n, (x, area, node) in enumerate(zip(new, sums, self._step, strict=True)):

                    def keep(j: Any, x: Area = x, area: Area = area, adds: bool = n > 0) -> None:
                        old, more = r.load(area.base, j), r.load(x.base, j)
                        r.store(e.select(active, old + more if adds else more, old), area.base, j)

                    write_loop(b, i64(node.size), keep)

        write_loop(b, i64(NEWTON + 2), back)
        return out

    def pull(
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


@final
class _Room:
    """What `Closures` writes with: the tools of a run, memory of its own, and the record."""

    def __init__(self, host: Any, call: _SystemCall, number: int) -> None:
        self._host, self._call, self.number = host, call, number
        system = call.system
        self.nv, self.laws = i64(system.nv), system.rows.laws
        self.q, self.v = host.area(system.nq), host.area(system.nv)
        self.tau, self.vdot = host.area(system.nv), host.area(system.nv)
        words = [int(x) for x in call.record]
        self.record = ir.Table(host.module, I64, words, f"closures_{len(host.module.tables)}")
        self._place = host.area(closure_size(system, call.way))
        nq, nv, rows = system.nq, system.nv, system.n_rows
        self.places = {"q": (self.q, nq), "v": (self.v, nv), "tau": (self.tau, nv)}
        for name in call.given:
            size = math.prod(call.given_shape(name))
            self.places[name] = (host.area(size), size)
        self.closures = Closures(self, call.way)
        self.places["g"] = (self.closures.g, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def results(self, code: Any, *places: tuple[Any, int]) -> list[Area]:
        """Copies of numbers at these places, with so many entries each."""
        out = [code.area(size) for _, size in places]
        for (place, size), area in zip(places, out, strict=True):
            self.copy(place, area.base, i64(size))
        return out

    def area(self, size: Any) -> Any:
        """The next piece of this room's memory."""
        here = self._place
        self._place = self.b.at(here, self.b.mul(size, i64(8 * self.lanes)))
        return here

    def program(
        self,
        number: int,
        outputs: Sequence[Any],
        places: dict[str, Any] | None = None,
        allowed: Sequence[int] = (),
    ) -> Callable[[], None]:
        """Code that calls a kernel, with inputs in these places or in those of the state."""
        native = self._call.natives[number]
        usual = {name: place for name, (place, _) in self.places.items()} | (places or {})
        slots = native.unit.slots
        where = [usual[name] for name in sorted(slots, key=lambda n: slots[n].buffer)]
        return self._host.caller(native, [*where, *outputs], allowed)
