"""How the runs of a study are divided into blocks: equal ones, or ones that grow.

A block is what is computed, written and lost as a whole. Blocks that grow double from the first on,
so that a study that is killed after a second has something to resume from, and one of a million
runs does not have a file for every eight of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

FIRST = 8
"""Runs of the first block by default: as many as are computed together in any case."""
LARGEST = 256
"""Runs of a block, at most, by default."""
_WORK = 1_000_000
"""Steps × velocities of a block by default: about a second, if each takes a microsecond."""


class BlockSizes(NamedTuple):
    """Blocks of `first` runs, twice as many in each that follows the second, up to `largest`.

    `largest` is `first` times a power of two; where both are the same, all blocks are.

    >>> from phipsi.studies.block_sizes import BlockSizes
    >>> sizes = BlockSizes(8, 32)
    >>> [sizes.numbers_of(i, 100) for i in range(sizes.blocks(100))]
    [range(0, 8), range(8, 16), range(16, 32), range(32, 64), range(64, 96), range(96, 100)]
    """

    first: int
    largest: int

    @property
    def _doublings(self) -> int:
        return (self.largest // self.first).bit_length() - 1

    def _start(self, block: int) -> int:
        """The number of the first run of a block."""
        if block == 0:
            return 0
        if block <= self._doublings + 1:
            return self.first << (block - 1)
        return self.largest * (block - self._doublings)

    def numbers_of(self, block: int, count: int) -> range:
        """The runs of a block, if there are `count` in all."""
        return range(self._start(block), min(self._start(block + 1), count))

    def blocks(self, count: int) -> int:
        """How many blocks `count` runs have."""
        if count > self.largest:
            return -(-count // self.largest) + self._doublings
        return next(block for block in range(self._doublings + 2) if self._start(block) >= count)

    @property
    def is_fine(self) -> bool:
        """Whether `largest` is `first` times a power of two."""
        if self.first < 1 or self.largest < self.first:
            return False
        return self.largest == self.first << self._doublings


def default_sizes(steps: int, nv: int) -> BlockSizes:
    """Blocks that grow to about a second of work: fewer runs where each has more steps."""
    most = min(LARGEST, max(FIRST, _WORK // max(1, steps * nv)))
    return BlockSizes(FIRST, FIRST << int(math.log2(most // FIRST)))
