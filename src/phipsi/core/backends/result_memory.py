"""Memory of large results, used again when nothing refers to them any more.

The operating system gives out fresh memory page by page, and fills every page with zeros first. For
a batch of matrices that takes longer than to compute them. So `empty` hands out memory of results
that are gone. A *block* owns the memory that an array stands on; it is the base of that array, and
slices, transposes, memoryviews, DLPack capsules and tensors keep the array and with it the block
alive. When the last of them is gone, the block returns its memory.

    result.base        a `ResultBlock`; it lives as long as anything that reads the memory
    block.__del__      a call of C code that puts the memory back, without any Python code in which
                       Ctrl-C could be raised and lost

A block is an object of ctypes at the address of the memory, because NumPy builds an array on one in
half a microsecond. Sizes are rounded up to eight per power of two, and memory waits in a stack for
each of them: taking from a stack and putting back are single operations of C code, so that threads
need a lock only for memory that is allocated or freed.

The memory lent and the memory waiting are together at most `limit` bytes; results beyond it, and
those of less than `LEAST` bytes, are plain arrays of NumPy. ``PHIPSI_RESULT_MEMORY`` sets the limit
in MB, 0 turns reuse off, and so does `set_limit(0)`, which also frees the memory that waits.

Reasons: docs/decisions/0034.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from itertools import cycle
from threading import Lock
from typing import Any, final

import numpy as np

from phipsi.errors import InputError, is_a

LEAST = 1 << 18
"""Bytes of the smallest result that pays: below it the C library reuses memory anyway."""
_DEFAULT = 256  # MB
_PAGE = 4096
# Where in a page results begin, in turn: at lines of the cache, as vectors are stored, and not all
# at the same ones, for which arrays that are written side by side would compete.
_COLOURS = cycle([64 * 11 * i % _PAGE for i in range(64)])
_ARRAY, _FLOAT64 = np.ndarray, np.dtype(np.float64)


class ResultBlock:
    """Owner of the memory of one result."""

    __slots__ = ()


@cache
def _block_type(size: int) -> Any:
    """The type of the owners of so many bytes.

    `__del__` is a slot: what is called when a block dies is what stands there, C code.
    """
    return type("Block", (ResultBlock, ctypes.c_char * size), {"__slots__": ("__del__",)})


@final
class _ReusedMemory:
    """Memory that is lent to one result at a time, and put back when nothing refers to it."""

    __slots__ = ("_address", "_array", "_put_back", "_type", "nbytes")

    def __init__(self, size: int, put_back: Callable[[_ReusedMemory], None]) -> None:
        self._array = np.empty((size + _PAGE) // 8)
        start = self._array.ctypes.data
        self._address = start + (next(_COLOURS) - start) % _PAGE
        self._type, self._put_back, self.nbytes = _block_type(size), put_back, size

    def allocate(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array on this memory."""
        block = self._type.from_address(self._address)
        block.__del__ = partial(self._put_back, self)
        return _ARRAY(shape, _FLOAT64, block)


def _rounded(size: int) -> int:
    """The size of the memory for so many bytes: one of eight for each power of two."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


class ResultMemory:
    """Memory for results, at most `limit` bytes of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # by size, those asked for last at the end; blocks that die append to them in any thread
        self._waiting: dict[int, deque[_ReusedMemory]] = {}
        self._total = 0  # bytes, lent or waiting
        self._lock = Lock()

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of float64 like that of `np.empty`."""
        size = 8 * math.prod(shape)
        if size < LEAST:
            return np.empty(shape)
        size = _rounded(size)
        if size > self.limit:
            return np.empty(shape)
        try:
            memory = self._waiting[size].pop()
        except (KeyError, IndexError):
            memory = self._allocated(size)
        return np.empty(shape) if memory is None else memory.allocate(shape)

    def set_limit(self, limit: int) -> None:
        """Lend and keep at most so many bytes from now on."""
        with self._lock:
            self.limit = limit
            self._make_room(0)

    @property
    def waiting(self) -> int:
        """Bytes that wait for a result."""
        return sum(size * len(stack) for size, stack in list(self._waiting.items()))

    def _allocated(self, size: int) -> _ReusedMemory | None:
        """New memory of so many bytes; None if too much is in use, or another thread asks."""
        if not self._lock.acquire(False):
            return None
        try:
            stack = self._waiting.pop(size, None)  # and to the end
            stack = self._waiting[size] = deque() if stack is None else stack
            if not self._make_room(size):
                return None
            memory = _ReusedMemory(size, stack.append)
            self._total += size
            return memory
        finally:
            self._lock.release()

    def _make_room(self, size: int) -> bool:
        """Free what was used longest ago until so many bytes can be had; whether they can."""
        for kept, stack in self._waiting.items():
            while self._total + size > self.limit:
                try:
                    stack.popleft()
                except IndexError:  # the last one was taken by now
                    break
                self._total -= kept
        return self._total + size <= self.limit


def _limit() -> int:
    """What PHIPSI_RESULT_MEMORY says, in bytes."""
    setting = os.environ.get("PHIPSI_RESULT_MEMORY", str(_DEFAULT))
    if not setting.strip().isdecimal():
        raise InputError(
            f"PHIPSI_RESULT_MEMORY={setting!r} must be an integer (MB), such as {_DEFAULT}; 0 "
            "for no reuse of memory"
        )
    return int(setting) << 20


MEMORY = ResultMemory(_limit())
empty = MEMORY.empty


def set_limit(megabytes: int) -> None:
    """Keep at most so much memory of results for reuse; 0 frees it and turns reuse off.

    >>> from phipsi.core.backends import result_memory
    >>> result_memory.set_limit(0)
    >>> result_memory.set_limit(256)
    """
    if not is_a(megabytes, int) or megabytes < 0:
        raise InputError(f"{megabytes!r} must be an integer (MB), or 0 for no reuse of memory")
    MEMORY.set_limit(megabytes << 20)
