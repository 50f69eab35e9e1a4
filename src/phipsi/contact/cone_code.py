"""Machine code of contact problems, with problems in lanes: both methods in one function."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, final

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, Emitter, i64, write_loop
from phipsi.contact.cone_problem import NOT_FINITE, SOLVED, UNSOLVED
from phipsi.contact.interior_code import InteriorCode
from phipsi.contact.interior_point import STARTS
from phipsi.contact.lane_cones import ARGUMENTS, KINDS, PER_CONTACT, VECTORS, ConeLanes, Kind
from phipsi.contact.newton import ITERATIONS, POLISHING
from phipsi.contact.newton_code import NewtonCode


def work_size(rows: int, contacts: int) -> int:
    """How many numbers of every lane the function works with, for at most so many rows."""
    return rows * (rows + 1) + VECTORS * rows + PER_CONTACT * contacts


def cone_function(
    module: ir.Module, e: Emitter, kinds: Sequence[str], tolerance: float
) -> ir.Function:
    """``void solve(W, b, s, coefficients, y, results, contacts, n contacts, n rows, work)``.

    Rows and contacts are those of the group of lanes: W (n, n), b, coefficients, y (n), n a
    multiple of `BLOCK`, s (contacts); `contacts` has two words each, the number of its kind among
    `kinds` and its first row. y is the start and becomes the impulses; results are residual,
    iterations and status. W, b and s are changed.
    """
    text = repr((tuple(kinds), tolerance))
    name = f"phipsi_cones_{hashlib.sha256(text.encode()).hexdigest()[:16]}_{e.lanes}"
    known = module.globals.get(name)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(ir.VOID, ARGUMENTS), name)
    function.linkage = "internal"
    inner = Emitter(e.lanes, fused=e.fused)
    inner.builder = ir.IRBuilder(function.append_basic_block("entry"))
    _Attempts(inner, function.args, [KINDS[x] for x in kinds], tolerance).write()
    inner.builder.ret_void()
    return function


@final
class _Attempts(ConeLanes):
    """Newton's method first; then interior points from several starts, each followed by Newton."""

    def __init__(
        self, e: Emitter, args: Sequence[Any], kinds: Sequence[Kind], tolerance: float
    ) -> None:
        super().__init__(e, args, kinds)
        self.tolerance = tolerance
        self.kept_y = self.vectors[14]
        self.newton, self.interior = NewtonCode(self, tolerance), InteriorCode(self)

    def write(self) -> None:
        """All of it."""
        e, b = self.e, self.b
        self.scale_problem()
        todo, began, known = (b.alloca(e.mask) for _ in range(3))
        number, error = b.alloca(I64), b.alloca(e.vector)
        for place in (todo, began):
            b.store(e.compare("==", 0.0, 0.0), place)
        b.store(i64(0), number)
        starts = self.table([0.0, *STARTS])

        def goes_on() -> Any:
            more = b.icmp_signed("<=", b.load(number, typ=I64), i64(len(STARTS)))
            return b.and_(more, self.any(b.load(todo, typ=e.mask)))

        def judged(which: Any) -> Any:
            """Where y, moved onto the cones, is a solution."""
            self.move_inside(which)
            self.residual(self.y)
            return b.and_(which, e.compare("<=", self.load(self.found), self.limit(self.tolerance)))

        def attempt() -> None:
            turn, which = b.load(number, typ=I64), b.load(todo, typ=e.mask)
            is_first = b.icmp_signed("==", turn, i64(0))
            b.store(self.never(), known)
            with b.if_then(b.not_(is_first)):
                self.interior.iterate(which, self.load(starts, turn), self.newton.count)
                b.store(judged(which), known)
                self.store(self.load(self.found), error)
                write_loop(b, self.n, lambda i: self.store(self.load(self.y, i), self.kept_y, i))
            most = b.select(is_first, i64(ITERATIONS), i64(POLISHING))
            finite = self.newton.iterate(which, most)
            with b.if_then(is_first):
                b.store(finite, began)
            good = judged(which)
            before = b.and_(b.load(known, typ=e.mask), b.not_(good))  # Newton has lost it

            def one(i: Any) -> None:
                self.store(
                    e.select(before, self.load(self.kept_y, i), self.load(self.y, i)), self.y, i
                )

            write_loop(b, self.n, one)
            found = e.select(before, self.load(error), self.load(self.found))
            old = self.load(self.results, 0)
            self.store(e.select(which, found, old), self.results, 0)
            going = b.and_(which, b.load(began, typ=e.mask))
            b.store(b.and_(going, b.not_(b.or_(good, before))), todo)
            b.store(b.add(turn, i64(1)), number)

        self.store(0.0, self.results, 0)
        self.repeat(goes_on, attempt)
        failed, fine = b.load(todo, typ=e.mask), b.load(began, typ=e.mask)
        status = e.select(failed, float(UNSOLVED), float(SOLVED))
        self.store(self.load(self.newton.count), self.results, 1)
        self.store(e.select(fine, status, float(NOT_FINITE)), self.results, 2)
        zero = e.constant(0.0)  # x + 0 has no negative zeros

        def unscale(i: Any) -> None:
            self.store(self.load(self.y, i) * self.load(self.sigma, i) + zero, self.y, i)

        write_loop(b, self.n, unscale)
