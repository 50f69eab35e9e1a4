"""Random poses of two shapes, and the slots of their formula on arrays of them."""

from functools import cache

import numpy as np
from solid_supports import SHAPES

from phipsi.contact.geometry.pair_formulas import FORMULAS
from phipsi.contact.geometry.placed_shapes import Placed
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.core.spatial import quat_to_matrix, so3_exp


@cache
def graph_of(pair, sizes, formula=None):
    """The nodes of a formula, and its inputs by name."""
    names = [(f"{x}_{s}", shape) for s, n in zip("ab", sizes, strict=True)
             for x, shape in (("p", (n,)), ("R", (3, 3)), ("x", (3,)))]  # fmt: skip
    given = [Tracer(ops.input(*one)) for one in names]
    slots = (formula or FORMULAS[pair])(Placed(*given[:3]), Placed(*given[3:]))
    return [as_node(x) for slot in slots for x in slot], [name for name, _ in names]


def slots_of(pair, a, b):
    """The slots of a formula for arrays (m, …): a list of (gap, normal, x_a, x_b)."""
    sizes = a[0].shape[1], b[0].shape[1]
    nodes, names = graph_of(pair, sizes)
    found = evaluate(nodes, dict(zip(names, (*a, *b), strict=True)))
    return [tuple(found[i : i + 4]) for i in range(0, len(found), 4)]


def random_solids(kind, rng, count, reach):
    p = np.array([SHAPES[kind](rng) for _ in range(count)]).reshape(count, -1)
    quat = rng.normal(size=(count, 4))
    R = quat_to_matrix(quat / np.linalg.norm(quat, axis=1, keepdims=True))
    return p, R, rng.uniform(-reach, reach, (count, 3))


def random_pair(pair, count=10_000, reach=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return [random_solids(kind, rng, count, reach) for kind in pair]


def gaps_of(slots):
    return np.stack([slot[0] for slot in slots])


def nearest(slots):
    """The slot with the smallest gap, by element."""
    which = gaps_of(slots).argmin(axis=0)
    return tuple(np.stack([s[i] for s in slots])[which, np.arange(len(which))] for i in range(4))


def moved(solid, w, u, t):
    """A solid after turning about its origin with w and moving with u, for a time t."""
    p, R, x = solid
    return p, so3_exp(w * t) @ R, x + u * t
