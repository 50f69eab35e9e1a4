"""Scratch memory of generated code: taken from slots of the data record, or from the heap.

Calls leave their block in a slot for the next one. Taking and leaving are single atomic exchanges,
so any number of threads may call at once; the 17th at the same time uses the heap. If the heap has
no memory left, `acquire` goes to a block of the caller's choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phipsi.native.calls.atomic_words import exchange, exchange_if
from phipsi.native.data_record import SLOTS
from phipsi.native.targets.llvm_library import release_memory
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, POINTER, WORD, i64


def acquire(
    b: ir.IRBuilder, data: ir.IRValue, size_word: int, without: ir.BasicBlock
) -> tuple[Any, Any]:
    """(block to return, its first cache line): memory that no other call uses, zero where fresh.

    Control goes to `without` if there is none.
    """
    found, nothing = (b.function.append_basic_block(n) for n in ("found", "nothing"))

    def take(place: ir.IRValue) -> tuple[Any, Any]:
        taken = exchange(b, "xchg", place, i64(0), "acq_rel")
        return taken, b.icmp_signed("!=", taken, i64(0))

    values = _at_slots(b, data, size_word, take, found, nothing)
    size = b.word(data, size_word)
    fresh = b.ptrtoint(b.call_named("calloc", POINTER, [size, i64(1)]), I64)
    values.append((fresh, b.block))
    b.cbranch(b.icmp_signed("!=", fresh, i64(0)), found, without)
    b.position_at_end(found)
    block = b.phi(I64)
    for value, origin in values:
        block.add_incoming(value, origin)
    return block, b.inttoptr(b.and_(b.add(block, i64(63)), i64(-64)), POINTER)


def release(b: ir.IRBuilder, data: ir.IRValue, size_word: int, block: ir.IRValue) -> None:
    """Put a block into a free slot, or return it to the heap."""
    done, full = (b.function.append_basic_block(n) for n in ("done", "full"))

    def leave(place: ir.IRValue) -> tuple[Any, Any]:
        left = exchange_if(b, place, i64(0), block, "acq_rel", "monotonic")
        return left, left

    _at_slots(b, data, size_word, leave, done, full)
    b.call_named("free", ir.VOID, [b.inttoptr(block, POINTER)])
    b.branch(done)
    b.position_at_end(done)


def _at_slots(
    b: ir.IRBuilder,
    data: ir.IRValue,
    size_word: int,
    act: Callable[[Any], tuple[Any, Any]],
    done: ir.BasicBlock,
    otherwise: ir.BasicBlock,
) -> list[tuple[Any, Any]]:
    """Go through the slots until ``act(place)`` gives (value, whether to go on at `done`).

    The first slot, which mostly does, has code of its own. Returns the values with the blocks that
    control comes from; goes on writing at `otherwise`.
    """
    head, following = (b.function.append_basic_block(n) for n in ("slot", "next"))
    slots = b.at(data, WORD * (size_word + 1))
    first, good = act(slots)
    before = b.block
    b.cbranch(good, done, head)
    b.position_at_end(head)
    i = b.phi(I64)
    value, good = act(b.at(slots, b.mul(i, i64(WORD))))
    b.cbranch(good, done, following)
    b.position_at_end(following)
    after = b.add(i, i64(1))
    i.add_incoming(i64(1), before)
    i.add_incoming(after, following)
    b.cbranch(b.icmp_signed("<", after, i64(SLOTS)), head, otherwise)
    b.position_at_end(otherwise)
    return [(first, before), (value, head)]


class Scratch:
    """The blocks that calls left in the slots of a data record; freed with this object."""

    def __init__(self, data: np.ndarray, size_word: int) -> None:
        self._data, self._size_word = data, size_word

    def __del__(self) -> None:
        for address in self._data[self._size_word + 1 :][:SLOTS]:
            if address:
                release_memory(int(address))
