"""Numbers of lanes in memory, with loops of any length."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from phipsi.core.machine.solvers import BLOCK
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, Emitter, Lane, i64, write_loop


def word_table(module: ir.Module, words: Sequence[int]) -> Any:
    """Whole numbers that are part of the code, once for equal ones."""
    digest = hashlib.sha256(repr(tuple(words)).encode()).hexdigest()[:16]
    return known_table(module, I64, list(words) or [0], f"phipsi_words_{digest}")


def known_table(module: ir.Module, kind: Any, numbers: Sequence[Any], name: str) -> Any:
    """The table of a module that has this name, which says what is in it."""
    known = next((x for x in module.tables if x.name == f"@{name}"), None)
    return known or ir.Table(module, kind, list(numbers), name)


class Numbers:
    """Numbers in memory and masks, for a writer of loops."""

    def __init__(self, e: Emitter) -> None:
        self.e, self.b, self.bytes = e, e.builder, 8 * e.lanes

    def at(self, base: Any, i: Any) -> Any:
        """The address of number i."""
        return self.b.at(base, self.b.mul(_number(i), i64(self.bytes)))

    def load(self, base: Any, i: Any = 0) -> Lane:
        """Number i."""
        return Lane(self.e, self.b.load(self.at(base, i), align=8, typ=self.e.vector))

    def load_at(self, base: Any, offset: Any) -> Lane:
        """The number that is so many bytes farther."""
        return Lane(self.e, self.b.load(self.b.at(base, offset), align=8, typ=self.e.vector))

    def store_at(self, x: Lane, base: Any, offset: Any) -> None:
        """The number that is so many bytes farther."""
        self.b.store(x.value, self.b.at(base, offset), align=8)

    def store(self, x: Any, base: Any, i: Any = 0) -> None:
        """Number i."""
        self.b.store(self.e.lift(x).value, self.at(base, i), align=8)

    def word(self, base: Any, i: Any) -> Any:
        """Integer i, shared by all lanes."""
        return self.b.load(self.b.at(base, self.b.mul(_number(i), i64(8))), typ=I64)

    def put_word(self, x: Any, base: Any, i: Any) -> None:
        """Integer i, shared by all lanes."""
        self.b.store(_number(x), self.b.at(base, self.b.mul(_number(i), i64(8))))

    def plus(self, i: Any, j: Any) -> Any:
        """The sum of integers."""
        return self.b.add(_number(i), _number(j))

    def any(self, mask: Any) -> Any:
        """Whether a condition holds in some lane."""
        width = ir.IntType(self.e.lanes)
        return self.b.icmp_unsigned("!=", self.b.bitcast(mask, width), ir.Constant(width, 0))

    def mask(self, place: Any) -> Any:
        """The condition that is in memory."""
        return self.b.load(place, typ=self.e.mask)

    def never(self) -> Any:
        """The condition that holds in no lane."""
        return self.e.compare("<", 0.0, 0.0)

    def larger(self, x: Any, y: Any) -> Lane:
        """The larger number; not a number where x is not."""
        e = self.e
        return e.select(e.compare("<=", x, y), y, x)

    def root(self, x: Lane) -> Lane:
        """The square root."""
        return self.e.intrinsic("sqrt", x)

    def size(self, x: Lane) -> Lane:
        """The absolute value."""
        return self.e.intrinsic("fabs", x)

    def repeat(self, condition: Callable[[], Any], body: Callable[[], None]) -> None:
        """While the condition holds: body."""
        b = self.b
        head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(condition(), inside, after)
        b.position_at_end(inside)
        body()
        b.branch(head)
        b.position_at_end(after)

    def rounds(self, most: Any, live: Callable[[], Any], body: Callable[[Any, Any], None]) -> None:
        """While a condition holds in some lanes, `most` times at most: body(number, which)."""
        b = self.b
        head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        number = b.phi(I64)
        number.add_incoming(i64(0), before)
        which = live()
        more = b.icmp_signed("<", number, _number(most))
        b.cbranch(b.and_(more, self.any(which)), inside, after)
        b.position_at_end(inside)
        body(number, which)
        number.add_incoming(b.add(number, i64(1)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def copy(self, count: Any, source: Any, target: Any, which: Any = None) -> None:
        """So many numbers; in some lanes, if they are given."""

        def one(i: Any) -> None:
            x = self.load(source, i)
            x = x if which is None else self.e.select(which, x, self.load(target, i))
            self.store(x, target, i)

        write_loop(self.b, count, one)

    def fill(self, count: Any, x: float, target: Any) -> None:
        """The same number, so many times."""
        write_loop(self.b, count, lambda i: self.store(x, target, i))

    def between(self, first: Any, end: Any, body: Callable[[Any], None], step: int = 1) -> None:
        """For i in range(first, end, step): body(i)."""
        b, first = self.b, _number(first)
        count = b.sub(_number(end), first)
        write_loop(b, count, lambda i: body(b.add(first, i)), step)


def _number(i: Any) -> Any:
    return i64(i) if isinstance(i, int) else i


def profile_of(m: Numbers, contacts: Any, k: Any, n: Any) -> tuple[Any, Any]:
    """`lows` and `ends`, words for each block of rows, which follow those of the contacts."""
    b = m.b
    lows = b.at(contacts, b.mul(k, i64(16)))
    return lows, b.at(lows, b.mul(b.udiv(n, i64(BLOCK)), i64(8)))
