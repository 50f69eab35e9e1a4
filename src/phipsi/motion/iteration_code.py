"""Machine code of iterations: the body of an equation in a loop, lane by lane.

First the fixed-point iteration, then Newton's method in the lanes where that does not contract; the
body is written once. implicit_solver.py has the same on arrays, and the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from phipsi.backends.native.kernel.law_code import Area, LawCode
from phipsi.backends.native.text.lane_arithmetic import Lane, fold_loop, i64, write_loop
from phipsi.motion.implicit_solver import (
    CONVERGED,
    DIFFERENCE,
    EXACT,
    ITERATIONS,
    LEAST,
    LEAST_FACTOR,
    NEWTON,
    QUADRATIC,
    STALLED,
    TRIALS,
    UNSOLVED,
)

if TYPE_CHECKING:
    from phipsi.motion.run_code import Run

_MOST = 64  # unknowns of Newton's method, whose matrix grows with their square


def write_iteration(code: LawCode, callee: Any, args: Sequence[Any]) -> list[Area]:
    """The fixed point of an `Iteration`, in memory.

    A lane that has converged is left alone while others go on, so that what it gets does not depend
    on its neighbours. Lanes that have failed before are not worth iterations.
    """
    return _Iterations(code, callee, args).write()


@final
class _Iterations:
    """Writes the loops. Flags are integers of every lane, 0 or 1."""

    def __init__(self, code: LawCode, callee: Any, args: Sequence[Any]) -> None:
        self.r: Run = code.host
        self.code, self.callee = code, callee
        r, unknowns = self.r, callee.unknowns
        self.b, self.e = r.b, r.e
        self.n = n = sum(x.size for x in unknowns)
        self.x = r.area(n)  # where the body is evaluated
        starts = [sum(y.size for y in unknowns[:i]) for i in range(len(unknowns))]
        self.areas = [Area(self.b.at(self.x, i * r.bytes)) for i in starts]
        for a, area, y in zip(args, self.areas, unknowns, strict=False):
            r.each(a, y.size, lambda i, a=a, to=area: code.put(code.entry(a, i), to, i))
        self.inputs = {y.data[0]: a for y, a in zip(unknowns, self.areas, strict=True)}
        rest = args[len(unknowns) :]
        self.inputs |= {y.data[0]: a for y, a in zip(callee.fixed, rest, strict=True)}
        self.w, self.residual, self.new = r.area(n), r.area(n), r.area(n)
        self.step, self.following = r.area(n), r.area(n)
        self.matrix = r.area(2 * n * n if n <= _MOST else 0)
        self.before = [r.area(1) for _ in callee.measures]
        self.measures = [(r.area(1), r.area(1)) for _ in callee.measures]
        self.at_w = [(r.area(1), r.area(1)) for _ in callee.measures]
        self.done, self.lost, self.taken, self.near, self.part = (r.area(1) for _ in range(5))

    # ---- numbers and flags of every lane

    def get(self, place: Any) -> Lane:
        return self.r.load(place, i64(0))

    def put(self, value: Any, place: Any) -> None:
        self.r.store(value, place, i64(0))

    def flag(self, place: Any) -> Any:
        integers = self.b.load(place, align=8, typ=self.e.integers)
        return self.b.icmp_signed("!=", integers, self.r.zero)

    def set(self, place: Any, condition: Any) -> None:
        self.b.store(self.b.select(condition, self.e.integer(1), self.r.zero), place, align=8)

    def raise_flag(self, place: Any, condition: Any) -> None:
        self.set(place, self.b.or_(self.flag(place), condition))

    def where(self, condition: Any, value: Any, old: Any) -> Lane:
        return self.e.select(condition, value, old)

    def each(self, one: Callable[[Any], None]) -> None:
        write_loop(self.b, i64(self.n), one)

    def keep(self, condition: Any, source: Any, target: Any) -> None:
        """One vector becomes another where a condition holds."""
        r = self.r
        self.each(
            lambda i: r.store(
                self.where(condition, r.load(source, i), r.load(target, i)), target, i
            )
        )

    def square(self, x: Any) -> Lane:
        """The sum of squares of a vector."""

        def add(i: Any, sums: list[Any]) -> list[Any]:
            value = self.r.load(x, i)
            return [(Lane(self.e, sums[0]) + value * value).value]

        zero = self.e.constant(0.0).value
        return Lane(self.e, fold_loop(self.b, i64(self.n), 1, [zero], add)[0])

    def is_finite(self, x: Lane) -> Any:
        return self.e.compare("==", x - x, 0.0)

    # ---- the loops

    def write(self) -> list[Area]:
        """All loops; where the solution is."""
        r, b = self.r, self.b
        r.copy(self.x, self.w, i64(self.n))
        over = b.icmp_signed("!=", b.load(r.failed, typ=self.e.integers), r.zero)
        self.set(self.done, over)
        self.set(self.lost, over)
        for place in self.before:
            self.put(math.inf, place)

        def phase(p: Any) -> None:
            is_newton = b.icmp_signed("==", p, i64(1))
            over = r.all(self.flag(self.done))
            count = NEWTON * (1 + self.n + TRIALS)
            count = b.select(is_newton, b.select(over, i64(0), i64(count)), i64(ITERATIONS))
            with b.if_then(is_newton):
                self._begin_newton()
            write_loop(b, count, lambda i: self._once(i, is_newton))

        write_loop(b, i64(2 if self.n <= _MOST else 1), phase)
        unsolved = b.not_(self.flag(self.done))
        r.note(b.select(unsolved, self.e.integer(UNSOLVED), r.zero))
        return self.areas

    def _once(self, i: Any, is_newton: Any) -> None:
        with self.b.if_then(self.b.not_(self.r.all(self.flag(self.lost)))):
            self._iterate(i, is_newton)

    def _iterate(self, i: Any, is_newton: Any) -> None:
        """One evaluation; in Newton's method at w, beside w for every column, along the step."""
        b, r = self.b, self.r
        slot = b.urem(i, i64(1 + self.n + TRIALS))
        with b.if_then(b.not_(b.and_(is_newton, self._is_idle(i, slot)))):
            with b.if_then(is_newton):
                self._move(slot)
            old = r.bad()
            inner = LawCode(r.module, self.e, self.inputs, r.area, r)
            found = inner.write(self.callee.body)
            with b.if_then(b.not_(is_newton)):
                self._plain(inner, found, old, i)
            with b.if_then(is_newton):
                failed = b.icmp_signed("!=", r.bad(), old)
                r.set_bad(old)
                self._keep_images(inner, found)
                self._newton(slot, failed)
        with b.if_then(b.and_(is_newton, b.icmp_signed("==", slot, i64(self.n + TRIALS)))):
            self.raise_flag(self.lost, b.not_(self.flag(self.taken)))
            self.set(self.taken, self.e.compare("==", 1.0, 0.0))

    def _is_idle(self, i: Any, slot: Any) -> Any:
        """Whether the image is known here, or no lane needs a shorter step."""
        b = self.b
        known = b.and_(b.icmp_signed("==", slot, i64(0)), b.icmp_signed("!=", i, i64(0)))
        over = self.r.all(b.or_(self.flag(self.lost), self.flag(self.taken)))
        return b.or_(known, b.and_(b.icmp_signed(">", slot, i64(self.n)), over))

    def _plain(self, inner: LawCode, found: Sequence[Any], old: Any, i: Any) -> None:
        """x becomes its image; `lost` are lanes that have converged, and those that will not."""
        b, e, r, unknowns = self.b, self.e, self.r, self.callee.unknowns
        parts = found[len(unknowns) :]
        good = shrinks = e.compare("==", 0.0, 0.0)
        for change, size, place in zip(parts[::2], parts[1::2], self.before, strict=True):
            c, s, last = inner.entry(change, 0), inner.entry(size, 0), self.get(place)
            ratio = c / last
            factor = e.select(e.compare(">=", ratio, LEAST_FACTOR), ratio, LEAST_FACTOR)
            small = e.compare("<=", c * factor, s * CONVERGED)
            less = e.compare("<", c, last)
            enough = b.or_(small, b.and_(b.not_(less), e.compare("<=", c, s * STALLED)))
            good = b.and_(good, enough)
            shrinks = b.and_(shrinks, b.or_(enough, less))
            self.put(c, place)
        lost = self.flag(self.lost)
        # all new values, before the old ones change
        new = [
            r.copied(inner, value, y.size) if isinstance(value, Area) else value
            for value, y in zip(found, unknowns, strict=False)
        ]
        for value, area, y in zip(new, self.areas, unknowns, strict=True):

            def keep(k: Any, value: Any = value, area: Area = area) -> None:
                inner.put(e.select(lost, inner.entry(area, k), inner.entry(value, k)), area, k)

            r.each(value, y.size, keep)
        # a failure where the iteration begins is one of the motion
        failed = b.icmp_signed("!=", r.bad(), old)
        kept = b.select(b.icmp_signed("==", i, i64(0)), r.bad(), old)
        r.set_bad(kept)
        ends = b.or_(b.and_(good, b.not_(failed)), b.icmp_signed("!=", kept, r.zero))
        self.raise_flag(self.done, b.and_(ends, b.not_(lost)))
        early = b.icmp_signed("<", i, i64(2))
        shrinks = b.select(early, e.compare("==", 0.0, 0.0), shrinks)
        self.raise_flag(self.lost, b.or_(ends, b.or_(b.not_(shrinks), failed)))

    def _keep_images(self, inner: LawCode, found: Sequence[Any]) -> None:
        """The image of x, and the measures of its change."""
        unknowns, start = self.callee.unknowns, 0
        for value, y in zip(found, unknowns, strict=False):
            to = Area(self.b.at(self.new, start * self.r.bytes))
            self.r.each(value, y.size, lambda i, v=value, t=to: inner.put(inner.entry(v, i), t, i))
            start += y.size
        parts = found[len(unknowns) :]
        for change, size, places in zip(parts[::2], parts[1::2], self.measures, strict=True):
            self.put(inner.entry(change, 0), places[0])
            self.put(inner.entry(size, 0), places[1])

    # ---- Newton's method

    def _begin_newton(self) -> None:
        """From the guess, in the lanes that have not converged."""
        active = self.b.not_(self.flag(self.done))
        self.keep(active, self.w, self.x)
        self.set(self.lost, self.flag(self.done))
        self.set(self.taken, self.e.compare("==", 1.0, 0.0))
        for place in self.before:
            self.put(math.inf, place)

    def _active(self) -> Any:
        return self.b.not_(self.flag(self.lost))

    def _difference(self) -> Lane:
        """By how much a rate is changed for the derivatives."""
        e = self.e

        def more(i: Any, found: list[Any]) -> list[Any]:
            x = e.intrinsic("fabs", self.r.load(self.w, i))
            old = Lane(e, found[0])
            return [e.select(e.compare(">", x, old), x, old).value]

        (found,) = fold_loop(self.b, i64(self.n), 1, [e.constant(LEAST).value], more)
        return Lane(e, found) * DIFFERENCE

    def _move(self, slot: Any) -> None:
        """Where the body is evaluated next: w, w beside one of its entries, or a part of a step."""
        b, e, r, active = self.b, self.e, self.r, self._active()
        column = b.sub(slot, i64(1))
        begins = b.icmp_signed("==", slot, i64(1 + self.n))
        halved = self.get(self.part) * 0.5
        self.put(Lane(e, b.select(begins, e.constant(1.0).value, halved.value)), self.part)
        is_trial = b.icmp_signed(">", slot, i64(self.n))
        part, change = self.get(self.part), self._difference()
        waits = b.and_(self.flag(self.taken), self._everywhere(is_trial))

        def one(i: Any) -> None:
            here = b.icmp_signed("==", i, column)
            aside = Lane(e, b.select(here, change.value, e.constant(0.0).value))
            along = (r.load(self.w, i) - part * r.load(self.step, i)).value
            to = Lane(e, b.select(is_trial, along, (r.load(self.w, i) + aside).value))
            moves = b.and_(active, b.not_(waits))
            r.store(self.where(moves, to, r.load(self.x, i)), self.x, i)

        self.each(one)

    def _everywhere(self, condition: Any) -> Any:
        """One condition in all lanes."""
        e = self.e
        value = self.b.select(condition, e.constant(1.0).value, e.constant(0.0).value)
        return e.compare("!=", Lane(e, value), 0.0)

    def _newton(self, slot: Any, failed: Any) -> None:
        b = self.b
        self.raise_flag(
            self.lost, b.and_(failed, self._everywhere(b.icmp_signed("<=", slot, i64(self.n))))
        )
        with b.if_then(b.icmp_signed("==", slot, i64(0))):
            self._subtract(self.residual)
            self._remember(self.e.compare("==", 0.0, 0.0))
        with b.if_then(
            b.and_(b.icmp_signed(">", slot, i64(0)), b.icmp_signed("<=", slot, i64(self.n)))
        ):
            self._column(b.sub(slot, i64(1)))
        with b.if_then(b.icmp_signed("==", slot, i64(self.n))):
            self._invert()
            self._choose_step()
        with b.if_then(b.icmp_signed(">", slot, i64(self.n))):
            self._judge(failed)

    def _subtract(self, target: Any) -> None:
        """x − image."""
        r = self.r
        self.each(lambda i: r.store(r.load(self.x, i) - r.load(self.new, i), target, i))

    def _entry(self, i: Any, j: Any) -> Any:
        return self.b.add(self.b.mul(i, i64(2 * self.n)), j)

    def _column(self, j: Any) -> None:
        r = self.r
        change = r.load(self.x, j) - r.load(self.w, j)

        def one(i: Any) -> None:
            now = r.load(self.x, i) - r.load(self.new, i)
            r.store((now - r.load(self.residual, i)) / change, self.matrix, self._entry(i, j))

        self.each(one)

    def _invert(self) -> None:
        """The inverse, to the right of the matrix, by elimination with exchange of rows."""
        b, e, r, n, A = self.b, self.e, self.r, self.n, self.matrix

        def identity(i: Any) -> None:
            def one(j: Any) -> None:
                same = b.icmp_signed("==", i, j)
                value = b.select(same, e.constant(1.0).value, e.constant(0.0).value)
                r.store(Lane(e, value), A, self._entry(i, b.add(j, i64(n))))

            self.each(one)

        def columns(one: Callable[[Any], None]) -> None:
            write_loop(b, i64(2 * n), one)

        def eliminate(k: Any) -> None:
            def exchange(below: Any) -> None:
                i = b.add(b.add(k, below), i64(1))
                sizes = [e.intrinsic("fabs", r.load(A, self._entry(x, k))) for x in (i, k)]
                larger = e.compare(">", sizes[0], sizes[1])

                def swap(c: Any) -> None:
                    up, down = r.load(A, self._entry(k, c)), r.load(A, self._entry(i, c))
                    r.store(self.where(larger, down, up), A, self._entry(k, c))
                    r.store(self.where(larger, up, down), A, self._entry(i, c))

                columns(swap)

            write_loop(b, b.sub(b.sub(i64(n), k), i64(1)), exchange)
            recip = 1.0 / r.load(A, self._entry(k, k))
            columns(lambda c: r.store(r.load(A, self._entry(k, c)) * recip, A, self._entry(k, c)))

            def reduce(i: Any) -> None:
                other = b.icmp_signed("!=", i, k)
                factor = r.load(A, self._entry(i, k)).value
                factor = Lane(e, b.select(other, factor, e.constant(0.0).value))

                def one(c: Any) -> None:
                    new = r.load(A, self._entry(i, c)) - factor * r.load(A, self._entry(k, c))
                    r.store(new, A, self._entry(i, c))

                columns(one)

            self.each(reduce)

        self.each(identity)
        self.each(eliminate)

    def _solve(self, right: Any, target: Any) -> None:
        """The inverse times a vector."""
        r, e, b = self.r, self.e, self.b

        def one(i: Any) -> None:
            def add(j: Any, sums: list[Any]) -> list[Any]:
                entry = r.load(self.matrix, self._entry(i, b.add(j, i64(self.n))))
                return [(Lane(e, sums[0]) + entry * r.load(right, j)).value]

            zero = e.constant(0.0).value
            r.store(Lane(e, fold_loop(b, i64(self.n), 1, [zero], add)[0]), target, i)

        self.each(one)

    def _choose_step(self) -> None:
        """The correction; whether it is the last one."""
        b, e, r, active = self.b, self.e, self.r, self._active()
        self._solve(self.residual, self.step)
        step, square = self.square(self.step), self.square(self.residual)
        nothing = e.compare("==", square, 0.0)
        ratio = e.select(nothing, 0.0, step / e.select(nothing, 1.0, square))
        exact = near = e.compare("==", 0.0, 0.0)
        stopped = e.compare("==", 1.0, 0.0)
        for (change, size), place in zip(self.at_w, self.before, strict=True):
            left, s = self.get(change) * ratio, self.get(size)
            exact = b.and_(exact, e.compare("<=", left, s * EXACT))
            near = b.and_(near, e.compare("<=", left, s * QUADRATIC))
            stopped = b.or_(stopped, e.compare(">=", left, self.get(place)))
            self.put(left, place)
        rounding = b.and_(near, b.and_(stopped, b.not_(exact)))
        self.each(
            lambda i: r.store(
                self.where(
                    b.and_(active, exact),
                    r.load(self.w, i) - r.load(self.step, i),
                    self.where(b.and_(active, rounding), r.load(self.w, i), r.load(self.x, i)),
                ),
                self.x,
                i,
            )
        )
        ends = b.and_(active, b.or_(exact, rounding))
        self.raise_flag(self.done, ends)
        fine = self.is_finite(step)
        self.raise_flag(self.lost, b.or_(ends, b.not_(fine)))
        self.set(self.near, near)

    def _judge(self, failed: Any) -> None:
        """Take a part of the step, if the correction that follows is less."""
        b, e, r = self.b, self.e, self.r
        waits = b.and_(self._active(), b.not_(self.flag(self.taken)))
        self._subtract(self.following)
        r.copy(self.following, self.new, i64(self.n))  # the residual there
        self._solve(self.new, self.following)
        left, step = self.square(self.following), self.square(self.step)
        least = 1.0 - self.get(self.part) * 0.25
        less = b.or_(self.flag(self.near), e.compare("<=", left, least * least * step))
        good = b.and_(b.and_(waits, self.is_finite(left)), b.and_(less, b.not_(failed)))
        self.keep(good, self.x, self.w)
        self.keep(good, self.new, self.residual)
        self._remember(good)
        self.raise_flag(self.taken, good)

    def _remember(self, condition: Any) -> None:
        """The measures of the last evaluation are those at w, where a condition holds."""
        for now, kept in zip(self.measures, self.at_w, strict=True):
            for x, y in zip(now, kept, strict=True):
                self.put(self.where(condition, self.get(x), self.get(y)), y)
