"""Memory of large results, used again when nothing refers to them any more.

The operating system gives out fresh memory page by page, and fills every page with zeros first. For
a batch of matrices that takes longer than to compute them. So `empty` hands out memory of results
that are gone. A *block* owns the memory that an array stands on; it is the base of that array, and
slices, transposes, memoryviews, DLPack capsules and tensors keep the array and with it the block
alive. When the last of them is gone, the block returns its memory.

    result.base        a _Block; it lives as long as anything that reads the memory
    _Block.__del__     a call of C code that puts the memory back, without any Python code in which
                       Ctrl-C could be raised and lost

The memory lent and the memory waiting are together at most `limit` bytes; results beyond it, and
those of less than `LEAST` bytes, are plain arrays of NumPy. ``PHIPSI_RESULT_MEMORY`` sets the limit
in MB, 0 turns reuse off, and so does `set_limit(0)`, which also frees the memory that waits.

Reasons: docs/decisions/0034.
"""

from __future__ import annotations

import math
import os
from collections import deque
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from phipsi.errors import InputError

LEAST = 1 << 18
"""Bytes of the smallest result that pays: below it the C library reuses memory anyway."""
_DEFAULT = 256  # MB
_PAGE = 4096
_SPARE = 1.25  # how much larger than a result its memory may be


class _Block:
    """Owner of the memory of one result.

    `__del__` is a slot: what is called when a block dies is what stands there, C code.
    """

    __slots__ = ("__array_interface__", "__del__")

    def __init__(self, memory: np.ndarray, shape: tuple[int, ...], put_back: Any) -> None:
        self.__array_interface__ = {
            "data": (memory.ctypes.data, False),
            "shape": shape,
            "typestr": memory.dtype.str,
            "version": 3,
        }
        self.__del__ = partial(put_back, memory)


class ResultMemory:
    """Memory for results, at most `limit` bytes of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._returned: deque[np.ndarray] = deque()  # appended to by blocks that die, in any thread
        self._waiting: list[np.ndarray] = []  # the last one was used last
        self._total = 0  # bytes, lent or waiting
        self._lock = Lock()

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of float64 like that of `np.empty`."""
        size = 8 * math.prod(shape)
        memory = None if size < LEAST or size > self.limit else self._take(size)
        if memory is None:
            return np.empty(shape)
        return np.asarray(_Block(memory, shape, self._returned.append))

    def set_limit(self, limit: int) -> None:
        """Lend and keep at most so many bytes from now on."""
        with self._lock:
            self.limit = limit
            self._make_room(0)

    @property
    def waiting(self) -> int:
        """Bytes that wait for a result."""
        return sum(m.nbytes for m in (*self._returned, *self._waiting))

    def _take(self, size: int) -> np.ndarray | None:
        """Memory of at least so many bytes; None if too much is in use, or another thread asks."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._collect()
            for i in reversed(range(len(self._waiting))):
                if size <= self._waiting[i].nbytes <= _SPARE * size:
                    return self._waiting.pop(i)
            size = -(-size // _PAGE) * _PAGE
            if not self._make_room(size):
                return None
            memory = np.empty(size // 8)
            self._total += size
            return memory
        finally:
            self._lock.release()

    def _collect(self) -> None:
        while self._returned:
            self._waiting.append(self._returned.popleft())

    def _make_room(self, size: int) -> bool:
        """Free what was used longest ago until so many bytes can be had; whether they can."""
        self._collect()
        while self._waiting and self._total + size > self.limit:
            self._total -= self._waiting.pop(0).nbytes
        return self._total + size <= self.limit


def _limit() -> int:
    """What PHIPSI_RESULT_MEMORY says, in bytes."""
    setting = os.environ.get("PHIPSI_RESULT_MEMORY", str(_DEFAULT))
    if not setting.strip().isdecimal():
        raise InputError(
            f"PHIPSI_RESULT_MEMORY={setting!r} must be a whole number of MB, such as {_DEFAULT}; 0 "
            "for no reuse of memory"
        )
    return int(setting) << 20


MEMORY = ResultMemory(_limit())
empty = MEMORY.empty


def set_limit(megabytes: int) -> None:
    """Keep at most so much memory of results for reuse; 0 frees it and turns reuse off.

    >>> from phipsi.backends import result_memory
    >>> result_memory.set_limit(0)
    >>> result_memory.set_limit(256)
    """
    if not isinstance(megabytes, int) or megabytes < 0:
        raise InputError(f"{megabytes!r} must be a whole number of MB, or 0 for no reuse of memory")
    MEMORY.set_limit(megabytes << 20)
