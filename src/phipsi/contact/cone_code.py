"""Machine code of contact problems, with problems in lanes: both methods in one function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import Emitter, Lane, i64, write_loop
from phipsi.contact.cone_problem import ACCEPTED, NOT_FINITE, SOLVED, UNSOLVED
from phipsi.contact.interior_code import InteriorCode
from phipsi.contact.lane_cones import (
    PER_CONTACT,
    VECTORS,
    ConeLanes,
    Kind,
    cone_routine,
)
from phipsi.contact.lane_elimination import word_table
from phipsi.contact.newton import FREED, ITERATIONS, POLISHING
from phipsi.contact.newton_code import NewtonCode
from phipsi.contact.solver_attempts import ATTEMPTS, CONVEX, FREE


def work_size(rows: int, contacts: int) -> int:
    """How many numbers of every lane the function works with, for at most so many rows."""
    return rows * (rows + 1) + VECTORS * rows + PER_CONTACT * contacts


def cone_function(
    module: ir.Module, e: Emitter, kinds: Sequence[str], tolerance: float
) -> ir.Function:
    """``void solve(W, b, s, coefficients, y, results, contacts, n contacts, n rows, work)``.

    Rows and contacts are those of the group of lanes: W (n, n), b, coefficients, y (n), n a
    multiple of `BLOCK`, s (contacts); see `ARGUMENTS`. y is the start and becomes the impulses;
    results are residual, iterations and status. W, b and s are changed.
    """
    return cone_routine(module, e, "cones", _Attempts, kinds, tolerance)


@final
class _Attempts(ConeLanes):
    """Attempts one after the other, in the order of `ATTEMPTS`."""

    def __init__(
        self, e: Emitter, args: Sequence[Any], kinds: Sequence[Kind], tolerance: float
    ) -> None:
        super().__init__(e, args, kinds)
        self.tolerance = tolerance
        self.kept_y, self.best_y = self.vectors[14:16]
        self.newton, self.interior = NewtonCode(self, tolerance), InteriorCode(self)

    def write(self) -> None:
        """All of it."""
        e, b = self.e, self.b
        self.scale_problem()
        self.todo, self.began, self.known = (b.alloca(e.mask) for _ in range(3))
        self.error = b.alloca(e.vector)
        for place in (self.todo, self.began):
            b.store(e.compare("==", 0.0, 0.0), place)
        self.starts, self.finer = (
            self.table([x.size for x in ATTEMPTS]),
            self.table([x.eps for x in ATTEMPTS]),
        )
        self.flags = word_table(self.b.module, [(x.size > 0) + 2 * x.again for x in ATTEMPTS])
        zero = e.constant(0.0)
        self.store(math.inf, self.results, 0)
        self.fill(self.n, 0.0, self.best_y)
        self.rounds(len(ATTEMPTS), lambda: self.mask(self.todo), self._attempt)
        failed, fine = self.mask(self.todo), self.mask(self.began)
        status = e.select(failed, float(UNSOLVED), float(SOLVED))
        self.store(self.load(self.newton.count), self.results, 1)
        self.store(e.select(fine, status, float(NOT_FINITE)), self.results, 2)

        def unscale(i: Any) -> None:  # x + 0 has no negative zeros
            self.store(self.load(self.best_y, i) * self.load(self.sigma, i) + zero, self.y, i)

        write_loop(b, self.n, unscale)

    def _attempt(self, turn: Any, which: Any) -> None:
        """One attempt in the lanes that have none that was good: inside the cones, then Newton."""
        e, b, zero = self.e, self.b, self.e.constant(0.0)
        flag, is_first = self.word(self.flags, turn), b.icmp_signed("==", turn, i64(0))
        is_cold, is_inside, is_again = (b.icmp_signed("==", flag, i64(x)) for x in range(3))

        def begin(i: Any) -> None:
            best = Lane(e, b.select(is_again, self.load(self.best_y, i).value, zero.value))
            self.store(e.select(which, best, self.load(self.y, i)), self.y, i)

        b.store(self.never(), self.known)
        is_convex = b.and_(
            b.icmp_signed(">=", turn, i64(CONVEX.start)), b.icmp_signed("<", turn, i64(CONVEX.stop))
        )
        with b.if_then(b.not_(b.or_(is_first, is_inside))):  # from none, or the best
            write_loop(b, self.n, begin)
        with b.if_then(is_inside):
            self._go_inside(turn, which, is_convex)
        is_free = b.icmp_signed(">=", turn, i64(FREE))
        warm = b.select(is_free, i64(FREED), i64(POLISHING))
        most = b.select(is_cold, i64(ITERATIONS), warm)
        kept = Lane(e, b.select(is_cold, zero.value, e.constant(1.0).value))
        finite = self.newton.iterate(which, most, self.load(self.finer, turn), kept, is_free)
        with b.if_then(is_first):
            b.store(finite, self.began)
        done = self._keep_best(which)
        b.store(b.and_(b.and_(which, self.mask(self.began)), b.not_(done)), self.todo)

    def _go_inside(self, turn: Any, which: Any, is_convex: Any) -> None:
        """An interior point, of a convex problem or of the problem itself; its y is kept."""
        b, inside = self.b, self.interior
        with b.if_else(is_convex) as (held, free):
            with held:
                self.multiply(self.kept_y)  # not the polished one
                inside.convex.hold_sliding(b.sub(turn, i64(CONVEX.start)))
            with free:
                inside.convex.let_slide()
        inside.iterate(which, self.load(self.starts, turn), self.newton.count)
        self.multiply(self.y)
        b.store(self._judged(which), self.known)
        self.store(self.load(self.found), self.error)
        self.copy(self.n, self.y, self.kept_y)

    def _judged(self, which: Any) -> Any:
        """Where y, whose z is known, is a solution when it is moved onto the cones."""
        e, b = self.e, self.b
        self.move_inside(which, self.y)
        changed = self.mask(self.changed)
        with b.if_then(self.any(changed)):
            self.multiply(self.y, changed)
        self.residual(self.y)
        accepted = self.limit(max(self.tolerance, ACCEPTED))
        return b.and_(which, e.compare("<=", self.load(self.found), accepted))

    def _keep_best(self, which: Any) -> Any:
        """The best y and its residual; where this one, or that inside the cones, is a solution."""
        e, b = self.e, self.b
        good = self._judged(which)
        before = b.and_(self.mask(self.known), b.not_(good))  # Newton has lost it
        self.copy(self.n, self.kept_y, self.y, before)
        found = e.select(before, self.load(self.error), self.load(self.found))
        old = self.load(self.results, 0)
        better = b.and_(which, b.not_(e.compare(">=", found, old)))
        self.store(e.select(better, found, old), self.results, 0)
        self.copy(self.n, self.y, self.best_y, better)
        return b.or_(good, before)
