"""Scratch memory of generated code: taken from slots of the data record, or from the heap.

Calls leave their block in a slot for the next one. Taking and leaving are single atomic exchanges,
so any number of threads may call at once; the 17th at the same time uses the heap. If the heap has
no memory left, `acquire` goes to a block of the caller's choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.backends.native.calls.atomic_words import exchange, exchange_if
from phipsi.backends.native.targets.llvm_library import release_memory
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import I64, POINTER, WORD, i64

SLOTS = 16  # how many scratch blocks are kept for reuse by later calls


def acquire(b: Any, data: Any, size_word: int, without: ir.Block) -> tuple[Any, Any]:
    """(block to return, its first cache line): memory that no other call uses, zero where fresh.

    Control goes to `without` if there is none.
    """
    f = b.function
    found = f.append_basic_block("found")
    values: list[tuple[Any, Any]] = []
    for i in range(SLOTS):
        place = b.at(data, WORD * (size_word + 1 + i))
        taken = exchange(b, "xchg", place, i64(0), "acq_rel")
        values.append((taken, b.block))
        following = f.append_basic_block("next")
        b.cbranch(b.icmp_signed("!=", taken, i64(0)), found, following)
        b.position_at_end(following)
    size = b.word(data, size_word)
    fresh = b.ptrtoint(b.call_named("calloc", POINTER, [size, i64(1)]), I64)
    values.append((fresh, b.block))
    b.cbranch(b.icmp_signed("!=", fresh, i64(0)), found, without)
    b.position_at_end(found)
    block = b.phi(I64)
    for value, origin in values:
        block.add_incoming(value, origin)
    return block, b.inttoptr(b.and_(b.add(block, i64(63)), i64(-64)), POINTER)


def release(b: Any, data: Any, size_word: int, block: Any) -> None:
    """Put a block into a free slot, or return it to the heap."""
    f = b.function
    done = f.append_basic_block("done")
    for i in range(SLOTS):
        place = b.at(data, WORD * (size_word + 1 + i))
        left = exchange_if(b, place, i64(0), block, "acq_rel", "monotonic")
        following = f.append_basic_block("next")
        b.cbranch(left, done, following)
        b.position_at_end(following)
    b.call_named("free", ir.VOID, [b.inttoptr(block, POINTER)])
    b.branch(done)
    b.position_at_end(done)


class Scratch:
    """The blocks that calls left in the slots of a data record; freed with this object."""

    def __init__(self, data: np.ndarray, size_word: int) -> None:
        self._data, self._size_word = data, size_word

    def __del__(self) -> None:
        for address in self._data[self._size_word + 1 :][:SLOTS]:
            if address:
                release_memory(int(address))
