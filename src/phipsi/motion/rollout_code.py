"""Machine code of a rollout: what a step of every compiled integrator does, inside the loops.

Steps are written with the tools of rollout_loop.py: each calls kernels, such as that of forward
dynamics, and the formulas of the groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from phipsi import spatial
from phipsi.algorithms.constrained import assembly
from phipsi.backends.native.native_backend import NativeCode
from phipsi.backends.native.targets.target import MachineCode, machine_code
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import Lane, i64, write_loop
from phipsi.motion.closure_code import Closures
from phipsi.motion.implicit import CONVERGED, ITERATIONS, LEAST_FACTOR, STALLED, UNSOLVED
from phipsi.motion.rollout_loop import Part, Rollout
from phipsi.motion.tableaux import Method, Tableau

Dynamics = Callable[[int], None]
"""Writes the accelerations of a stage, into `vdot`."""
Constrain = Callable[[Rollout], Closures]


def rollout_code(
    natives: Sequence[NativeCode],
    method: Method,
    constrain: Constrain | None = None,
    key: str = "",
) -> MachineCode:
    """``void phipsi_rollout(job, 0, 0, data)`` around the kernels that a method needs.

    One of forward or hybrid dynamics; for variational steps, one of the derivatives of the
    Lagrangian and one of the rates that momenta have; for closed chains, those of closure_code.py,
    with what it writes and its `key`. `data` is that of the first.
    """
    first = natives[0]
    found = first.companions.get(method.name)
    if found is None:
        keys = " ".join(native.unit.key() for native in natives)
        digest = hashlib.sha256(
            f"{keys} rollout {method.name} {key} {_version()}".encode()
        ).hexdigest()
        found = machine_code(digest, first.target, lambda: _emit(natives, method, constrain))
        first.companions[method.name] = found
    return found


@cache
def _version() -> str:
    """A digest of the sources the code comes from."""
    here = Path(__file__).parent
    names = (
        "rollout_code rollout_loop closure_code row_elimination motion tableaux implicit".split()
    )
    sources = [Path(assembly.__file__), *(here / f"{n}.py" for n in names)]
    sources += [
        Path(spatial.__file__).parent / f"{n}.py"
        for n in ("groups", "rotation_groups", "exponential", "quaternions")
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def work_size(method: Method, nq: int, nv: int) -> int:
    """Numbers per lane of the working memory: state, effort, acceleration, and those of a step."""
    return nq + 4 * nv + 1 + step_size(method, nq, nv)


def _emit(natives: Sequence[NativeCode], method: Method, constrain: Constrain | None = None) -> str:
    module = ir.Module()
    Rollout(module, natives, lambda r: step_writer(r, method, constrain))
    return str(module)


def step_size(method: Method, nq: int, nv: int) -> int:
    """Numbers per lane that a step needs besides the state."""
    if method.conserves:
        return nq + 7 * nv
    if method.tableau is None:
        return 0
    return nq + 2 * nv + 2 * len(method.tableau.b) * nv


def step_writer(
    r: Rollout, method: Method, constrain: Constrain | None = None
) -> Callable[[], None]:
    """A function that writes the code of one step."""
    if method.conserves:
        return _variational(r)
    if constrain is None:
        accelerations = r.program(0, [r.vdot])
        return _explicit(r, method, lambda _: accelerations())
    closures = constrain(r)
    step = _explicit(r, method, closures.solution.accelerate)

    def advance() -> None:
        step()
        closures.project()

    return advance


def _explicit(r: Rollout, method: Method, dynamics: Dynamics) -> Callable[[], None]:
    if method.tableau is None:
        return _semi_implicit(r, dynamics)
    return _runge_kutta(r, method.tableau, dynamics)


def _semi_implicit(r: Rollout, dynamics: Dynamics) -> Callable[[], None]:
    """v⁺ = v + h vdot(q, v), then q⁺ with the rates v⁺; see groups.py."""

    def joint(part: Part) -> None:
        old = part.places(r.q), part.rates(r.v), part.rates(r.vdot)
        q, v = part.group.euler(*old, r.h, part.numbers)
        part.put_places(q, r.q)
        part.put_rates(v, r.v)

    def advance() -> None:
        dynamics(0)
        r.each_part(joint)

    return advance


def _runge_kutta(r: Rollout, tableau: Tableau, dynamics: Dynamics) -> Callable[[], None]:
    """Stages in the exponential coordinates about the step's start; see tableaux.py."""
    q0, v0, z = r.area(r.nq), r.area(r.nv), r.area(r.nv)
    kz, kv = ([r.area(r.nv) for _ in tableau.b] for _ in range(2))

    def combine(weights: tuple[float, ...], slopes: list[Any], i: Any) -> Any:
        """Weighted sum of slopes, h Σ w_j k_j."""
        total: Any = 0
        for weight, slope in zip(weights, slopes, strict=False):
            if weight:
                total = r.load(slope, i) * weight + total
        return total * r.h if isinstance(total, Lane) else 0

    def moved(x: Part) -> None:
        x.put_places(x.group.move(x.places(q0), x.rates(z), x.numbers), r.q)

    def go(weights: tuple[float, ...]) -> None:
        """The state at y + h Σ w_j k_j."""

        def one(i: Any) -> None:
            r.store(combine(weights, kz, i), z, i)
            r.store(r.load(v0, i) + combine(weights, kv, i), r.v, i)

        write_loop(r.b, r.nv, one)
        if any(weights):
            r.each_part(moved)

    def advance() -> None:
        r.copy(r.q, q0, r.nq)
        r.copy(r.v, v0, r.nv)
        for s, weights in enumerate(tableau.a):
            go(weights)

            def rates(x: Part, s: int = s) -> None:
                x.put_rates(x.group.rate(x.rates(z), x.rates(r.v), x.numbers), kz[s])

            r.each_part(rates)
            dynamics(s)
            r.copy(r.vdot, kv[s], r.nv)
        go(tableau.b)

    return advance


def _variational(r: Rollout) -> Callable[[], None]:
    """The discrete Euler–Lagrange equations of variational.py, their solution by iteration.

    A lane that has converged is left alone while others go on, so that what it gets does not depend
    on its neighbours.
    """
    b, e, h = r.b, r.e, r.h
    q0, v0, w, p = r.area(r.nq), r.area(r.nv), r.area(r.nv), r.area(r.nv)
    mu, slope, x, rate = (r.area(r.nv) for _ in range(4))
    lagrangian = r.program(0, [mu, slope])
    rates = r.program(1, [rate], {"tau": x})
    done = b.alloca(e.integers)
    change, size, before = (b.alloca(e.vector) for _ in range(3))
    ones = ir.Constant(e.integers, [1] * r.lanes)

    def forces(part: Part) -> list[Any]:
        return [a + c for a, c in zip(part.rates(slope), part.rates(r.tau), strict=True)]

    def middle() -> None:
        """The derivatives of the Lagrangian at the middle of the step, with the rates w."""
        r.copy(w, r.v, r.nv)
        r.each_part(
            lambda x: x.put_places(x.group.middle(x.places(q0), x.rates(w), h, x.numbers), r.q)
        )
        lagrangian()

    def equation(part: Part) -> None:
        before, now = part.rates(p), part.rates(mu)
        wanted = part.group.wanted(part.rates(w), h, before, forces(part), now, part.numbers)
        part.put_rates(wanted, x)

    def end(part: Part) -> None:
        old, now = part.places(q0), part.rates(w)
        after = part.group.after(old, now, h, part.rates(p), forces(part), part.numbers)
        part.put_rates(after, x)
        part.put_places(part.group.end(old, now, h, part.numbers), r.q)

    def iterate(_: Any) -> None:
        finished = b.icmp_signed("==", b.load(done, typ=e.integers), ones)
        with b.if_then(b.not_(r.all(finished))):
            middle()
            r.each_part(equation)
            rates()
            b.store(e.constant(0.0).value, change)
            b.store(e.constant(0.0).value, size)

            def update(i: Any) -> None:
                old, new, wanted = r.load(w, i), r.load(rate, i), r.load(x, i)
                step = wanted - r.load(mu, i)
                for where, first, second in ((change, new - old, step), (size, new, wanted)):
                    total = Lane(e, b.load(where, typ=e.vector))
                    b.store(first.times_plus(second, total).value, where)
                r.store(e.select(finished, old, new), w, i)

            write_loop(b, r.nv, update)
            moved, whole = (
                e.intrinsic("fabs", Lane(e, b.load(i, typ=e.vector))) for i in (change, size)
            )
            last = Lane(e, b.load(before, typ=e.vector))
            factor = _larger(r, moved / last, e.constant(LEAST_FACTOR))
            good = e.compare("<=", moved * factor, whole * CONVERGED)
            stopped = e.compare(">=", moved, last)
            good = b.or_(good, b.and_(stopped, e.compare("<=", moved, whole * STALLED)))
            good = b.or_(good, b.icmp_signed("!=", r.bad(), r.zero))
            b.store(moved.value, before)
            b.store(b.select(b.or_(good, finished), ones, r.zero), done)

    def advance() -> None:
        # lanes that have failed in an earlier step are not worth iterations
        over = b.icmp_signed("!=", b.load(r.failed, typ=e.integers), r.zero)
        b.store(b.select(over, ones, r.zero), done)
        b.store(e.constant(float("inf")).value, before)
        r.copy(r.q, q0, r.nq)
        lagrangian()
        r.copy(mu, p, r.nv)
        r.copy(r.v, v0, r.nv)
        r.copy(r.v, w, r.nv)
        write_loop(b, i64(ITERATIONS), iterate)
        finished = b.icmp_signed("==", b.load(done, typ=e.integers), ones)
        unsolved = ir.Constant(e.integers, [UNSOLVED] * r.lanes)
        r.note(b.select(finished, r.zero, unsolved))
        middle()
        r.each_part(end)
        # only what 2 w − v misses of v⁺ is solved for: the rounding of a solution is a constant
        # factor for one rigid body, and would make its momentum drift
        write_loop(b, r.nv, lambda i: r.store(r.load(w, i) * 2.0 - r.load(v0, i), r.v, i))
        lagrangian()
        write_loop(b, r.nv, lambda i: r.store(r.load(x, i) - r.load(mu, i), x, i))
        rates()
        write_loop(b, r.nv, lambda i: r.store(r.load(r.v, i) + r.load(rate, i), r.v, i))

    return advance


def _larger(r: Rollout, x: Lane, y: Lane) -> Lane:
    """The larger number, or y if it is not a number."""
    return r.e.select(r.e.compare(">=", x, y), x, y)
