"""The data record that generated code and its caller share: 64-bit words, in this order."""

from __future__ import annotations

# sizes, then addresses of the model's tables
N_BODIES, N_POINTS, N_RATES, INTEGERS, DOUBLES, POINT_BODY, POINT_DOUBLES, GRAVITY = range(8)
# for each kind of seed that columns start from: its words begin at
SEEDS = {"joint": 8, "body": 13, "point": 18, "parameter": 23}
# groups of one column (address, number), groups of several, and how many seeds bodies have before
SINGLE, TOGETHER, FIRST = 0, 2, 4
SEED_COLUMN, BRANCH = 28, 29  # addresses: columns of points in the order of paths, branching bodies
# start of the scratch areas, in numbers: records of bodies, points and the whole for what a
# configuration has once, what paths leave for each other, small matrices, then records per column
OFFSETS = 30
(
    BODIES, POINTS, WORLD, PATHS, SMALLS, COLUMN_BODIES, COLUMN_POINTS, COLUMN_WORLD,
) = range(OFFSETS, 38)  # fmt: skip
PATH_STRIDE = 38  # numbers that one pair of paths leaves
# then for every input and output the start of its buffer, and after all starts their sizes
BUFFERS = 39
# layout of a group: the body its path starts at, its first column, how many, and its place in the
# order in which paths run
START, COLUMN, COUNT, RANK, GROUP_SIZE = range(5)
