"""The data record that generated code and its caller share: 64-bit words, in this order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import final

import numpy as np

# sizes, then addresses of the model's tables
N_BODIES, N_POINTS, N_RATES, N_ROWS, N_LINKS, N_HUBS = range(6)
(
    INTEGERS, DOUBLES, POINT_INTEGERS, POINT_DOUBLES, GRAVITY, LINK_INTEGERS, LINK_DOUBLES, HUBS,
) = range(6, 14)  # fmt: skip
# matrices between rows as they are, and with hubs apart: table, number of places, of entries
ROW_ORDERS = {False: 14, True: 17}
# for each kind of seed that columns start from: its words begin at
SEEDS = {"joint": 20, "body": 26, "point": 32, "link": 38, "parameter": 44}
# groups of one column (address, number), groups of several, how many seeds bodies have before, and
# the columns of the seeds in the order of paths
SINGLE, TOGETHER, FIRST, SEED_COLUMN = 0, 2, 4, 5
BRANCH = 50  # address: branching bodies
# address: the entries of factors that meet in a product, for groups and for one configuration
TILE_TABLE_WORDS = {False: 51, True: 52}
GRAM_TILES = 53  # the same of Gram products
POINT_BODIES, N_POINT_BODIES = 54, 55  # bodies with points outboard: address, number
# start of the scratch areas, in numbers: records of bodies, points, links, rows and the whole for
# what a configuration has once, what paths leave for each other, small matrices, matrices between
# rows, factors of products, factors of Gram products, sines and cosines, then records per column
OFFSETS = 56
(
    BODIES, POINTS, LINKS, ROWS, WORLD, PATHS, SMALLS, ROW_MATRICES, FACTORS, GRAMS, ANGLES,
    COLUMN_BODIES, COLUMN_POINTS, COLUMN_LINKS, COLUMN_ROWS, COLUMN_WORLD,
) = range(OFFSETS, OFFSETS + 16)  # fmt: skip
PATH_STRIDE = OFFSETS + 16  # numbers that one pair of paths leaves
FEWEST = PATH_STRIDE + 1  # configurations for which the wide kernel is worth its time
WIDE = FEWEST + 1  # address of the loop over groups in the wide kernel; 0: not compiled yet
# then for every input and output the start of its buffer, and after all starts their sizes; the
# rest is where `Arguments` say
BUFFERS = WIDE + 1
SLOTS = 16  # how many scratch blocks are kept for reuse by later calls
N_PYTHON = 3  # addresses of Python's objects that code compares with: arrays, float64, None
# layout of a group: the body its path starts at, its first column, how many, its place in the
# order in which paths run, and the body, point or link it belongs to
START, COLUMN, COUNT, RANK, ELEMENT, GROUP_SIZE = range(6)


@final
class Arguments:
    """The arguments of a function of arrays, and where its data record has what belongs to them.

    **Attributes:** `shapes`, of one element of all arguments, the last of which is the status, and
    `counts`, their numbers; `n_inputs`, how many are given; `pattern`, which of the distinct sizes
    each core dimension has, in the order NumPy passes them. Words of the record: at `words` the
    bytes of scratch memory, then slots for it; at `python` addresses of Python's objects; at
    `sizes` the core sizes; at `end` what else a function has.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], n_inputs: int) -> None:
        self.shapes, self.n_inputs = list(shapes), n_inputs
        self.counts = [math.prod(shape) for shape in shapes]
        seen: dict[int, int] = {}
        self.pattern = [tuple(seen.setdefault(n, len(seen)) for n in shape) for shape in shapes]
        self.words = BUFFERS + 3 * len(self.shapes)
        self.python = self.words + 1 + SLOTS
        self.sizes = self.python + N_PYTHON
        self.end = self.sizes + sum(map(len, shapes))

    def record(self, more: int = 0) -> np.ndarray:
        """Zeros, but for Python's objects and core sizes; `more` words at the end."""
        data = np.zeros(self.end + more, dtype=np.int64)
        data[self.python : self.sizes] = id(np.ndarray), id(np.dtype(np.float64)), id(None)
        data[self.sizes : self.end] = [size for shape in self.shapes for size in shape]
        return data

    def buffer_sizes(self, lanes: int) -> list[int]:
        """How many numbers the buffers of the arguments hold: whole tiles."""
        return [-(-n // lanes) * lanes for n in self.counts]

    def put_buffers(self, data: np.ndarray, starts: Iterable[int]) -> None:
        """Where the buffers begin, and their sizes."""
        data[BUFFERS : BUFFERS + 2 * len(self.counts)] = [*starts, *self.counts]
