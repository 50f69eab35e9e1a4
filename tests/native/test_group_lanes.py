"""Lists of integers, conditions and loops about a whole group of lanes."""

import numpy as np
from compiled_graphs import compiled
from numpy.testing import assert_array_equal

from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.primitive_calls import Primitive, call
from phipsi.native.group_lanes import GroupLanes

LANES, N = 4, 9


class Listed(Primitive):
    """x (N,) → which entries are positive in some lane, then −1; how many, and three integers."""

    name, key, shapes, takes_views = "listed", "listed", ((N,), (4,)), True

    def arrays(self, *args):
        found = np.flatnonzero((args[0] > 0).any(axis=0))
        k = len(found)
        out = np.pad(found, (0, N - k), constant_values=-1)
        double = next(i for i in range(100) if i * i >= k)
        case = 10 + k % 3 if k % 4 != 3 else 99
        both = sum(1 for i in found if i & k)
        return [np.tile(out, (LANES, 1)), np.tile([k, double, case, both], (LANES, 1))]

    def vjp(self, args, results, weights):
        return [None]

    def write(self, code, args):
        g = GroupLanes(code)
        m, x, words, k = g.m, g.packed(args[0], N), g.words(N), g.variable()

        @m.loop(0, N)
        def _(i):
            with g.where(g.any(x[i] > 0.0)):
                words.put(k.value, i)
                k.value = k.value + 1

        out, more, count = g.area(N), g.area(4), k.value
        g.fill(-1.0, out, N)

        @m.loop(0, g.smaller(count, N))
        def _(i):
            out[i] = m.to_number(words[i])

        root, both = g.variable(), g.variable()
        g.repeat(lambda: root.value * root.value < count, lambda: _add(root))

        @m.loop(0, count)
        def _(i):
            with g.where(g.share_bits(words[i], count)):
                _add(both)

        more[2] = 99.0
        is_other = (count % 4).equals(3)
        chosen = g.choose(is_other, 7, count % 3)
        g.cases(chosen, 3, lambda case: more.__setitem__(2, 10.0 + case))
        with g.where(None):
            for i, y in ((0, count), (1, root.value), (3, both.value)):
                more[i] = m.to_number(y)
        with g.where(~(is_other & (count >= 0))):
            more[0] = more[0] + m.to_number(is_other.as_index())
        return [out.area, more.area]


def _add(variable):
    variable.value = variable.value + 1


def test_lists_and_conditions_of_a_group():
    rng, seen = np.random.default_rng(0), set()
    results = list(call(Listed(), ops.input("x", (N,))))
    run = compiled(results, lanes=LANES, fused=False)
    for share in (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0):
        x = np.where(rng.random((LANES, N)) < share, 1.0, -1.0)
        found, expected = run({"x": x}), Listed().arrays(x)
        seen.add(int(expected[1][0, 0]))
        for a, b in zip(found, expected, strict=True):
            assert_array_equal(a, b)
    assert len(seen) >= 5 and {0, N} <= seen
