"""One text, two machines: arrays and lanes, to the bit; and texts that break the rules."""

import numpy as np
import pytest
from machine_texts import in_lanes, on_arrays

from phipsi.algorithms.kinematics.bounded_steps import BoundedStep
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_values import GraphEvaluator
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.core.backends.errors_from_status import BLOCK, with_part
from phipsi.core.machine.array_machine import ArrayMachine
from phipsi.core.machine.machine import Candidate, Item
from phipsi.core.machine.number_machine import NumberMachine
from phipsi.core.machine.solvers import factor_cholesky, solve_lower, solve_upper

pytestmark = pytest.mark.usefixtures("full_effort")  # machine code as users get it

N, LANES = 6, 37


def bounded_step(m, given, out):
    """The step between bounds, whose rounds and branches differ from lane to lane."""
    A = m.array(N, N, kept=False)
    m.copy_matrix((N, N), given["A"], A)
    step = BoundedStep(m, N)
    step.solve(A, given["damping"], given["g"], given["lower"], given["upper"], out["d"])


def roots(m, given, out):
    """Newton's method for square roots; lanes with other numbers of rounds, and failures."""
    x, turns, live = out["x"], out["turns"], m.number(1.0)
    m.fail(given["a"].value < 0.0, BLOCK)
    x.value, turns.value = 1.0, 0.0

    @m.while_any(lambda: live.value > 0.0, m.count(given["most"].value))
    def _(turn):
        new = (x.value + given["a"].value / x.value) * 0.5
        live.value = m.where(m.abs(new - x.value) > 1e-14 * x.value, 1.0, 0.0)
        x.value, turns.value = new, turns.value + 1.0

        @m.when(turns.value > 4.0)
        def _():
            out["late"].value = m.to_number(turn)

    @m.when(turns.value <= 4.0)
    def _():
        out["late"].value = -1.0


def counts(m, given, out):
    """Bounds that differ from lane to lane: those of lanes that are not live do not count."""
    most, x = m.number(30.0), out["x"]
    x.value = 0.0

    @m.when(given["a"].value < 1.0)
    def _():
        most.value = m.where(given["a"].value < 0.5, 3.0, 2.0)

        @m.loop(0, m.count(most.value))
        def _(i):
            x.value = x.value + 1.0


def sums(m, given, out):
    """Sums in order, with bounds known now and at run time; pairs, diagonals, spans in reverse."""
    a, n = given["a"], m.count(given["n"].value)
    out["s"][0] = m.total(0, n, lambda i: (a[i, 0], a[i, 1]), 0.5)
    out["s"][1] = m.largest(0, n, lambda i: a[i, 2])
    out["s"][2] = m.total(0, 40, lambda i: (a[39 - i, 0], a[i, 1]))
    two = m.sums(2, 5, lambda i: [(a[i, 0], a[i, 1]), (a[i, 1], a[i, 2])], [a[0, 0], 1.0])
    out["s"][3], out["s"][4] = two
    square = m.array(3, 3, kept=False)

    @m.pairs(3)
    def _(i, j):
        square[i, j] = m.total(0, 40, lambda r: (a[r, i], a[r, j]))
        square[j, i] = square[i, j]

    @m.each(0, 3)
    def _(i):
        out["d"][i] = square[i, i]

        @m.each(0, 3)
        def _(j):
            out["m"][j, i] = square[i, j] + m.to_number(i)


def equations(m, given, out):
    """Equations with columns; a row that depends on those before is dropped, and named."""
    A, L, x = given["A"], m.array(4, 4, kept=False), out["x"]

    def scale(i, pivot, entry):
        good = pivot > entry * 1e-10
        m.fail(~good, BLOCK, i)
        return m.where(good, 1.0 / m.sqrt(m.where(good, pivot, 1.0)), 0.0)

    factor_cholesky(m, 4, lambda i, j: A[i, j], lambda i, _: A[i, i], L, scale)
    m.copy_matrix((4, 2), given["b"], x)

    @m.each(0, 2)
    def _(q):
        solve_lower(m, 4, L, x, q)
        solve_upper(m, 4, L, x, q)


HEIGHTS = np.array([[0.0, 1.0, 2.0], [0.5, 3.0, 4.0], [0.5, 5.0, 6.0], [0.2, 7.0, 8.0]])


def choices(m, given, out):
    """The first of the largest that count, constants at places of lanes; words, and a fold."""
    rows, a, order = m.constants(HEIGHTS), given["a"], m.words([3, 0, 2, 1, 0])

    def candidates(i):
        steep = rows[i, 0] * a[0]
        root = m.sqrt(a[i])  # not a number in some lanes
        known = [rows[i, 1], m.to_number(i)]
        return [Candidate(steep, known), Candidate(root, known, rows[i, 2] > a[5])]

    start = [-9.0, -1.0, -1.0]
    found = m.first_largest(0, 4, candidates, [start, [0.3, a[0], -2.0]])
    none = m.first_largest(2, 2, candidates, [start, start])
    for k, best in enumerate([*found, *none]):
        for j, x in enumerate(best):
            out["best"][k, j] = x
    place = m.where(a[0] > 0.5, 3.0, 1.0) * 3.0
    out["there"][0], out["there"][1] = m.gathered(rows, place, (0, 2))

    def larger(i, numbers):
        x, last = numbers
        return [m.where(a[i] > last, x * 2.0 + a[i], x), a[i]]

    out["there"][2] = m.fold(0, 5, [1.0, 0.0], larger)[0]

    @m.each(0, 5)
    def _(i):
        out["words"][i] = a[order[i]] + rows[order[i] * 0 + 1, 1]

        @m.each(0, 3)
        def _(j):
            out["matrix"][i, j] = rows[order[i] * 1, 0] + a[i + j * 0]


def graph_of(scale):
    """Two graphs of x (2, 2) and y: x y and its sum; and y alone."""
    x, y = (Tracer(ops.input(*z)) for z in (("x", (2, 2)), ("y", ())))
    both = GraphEvaluator([as_node(x * y * scale), as_node(np.sum(x * y))])
    return both, GraphEvaluator([as_node(y - 1.0)])


def graphs(m, given, out):
    """Graphs of numbers, of memory, and of items; of few and of many entries."""
    a, (both, alone), order = given["a"], graph_of(2.0), m.words([2, 0, 1])
    at = m.graphs({"x": [a[i, 0] for i in range(4)], "y": [a[4, 1]]})
    (less,), (product, total) = at(alone), at(both)
    out["one"][0], out["one"][1], out["one"][2] = less[0], product[3], total[0]
    large, scratch = m.array(7, 4), m.array(3, kept=False)
    m.copy_matrix((7, 4), a, large)
    long = Tracer(ops.input("z", (7, 4)))
    (found,) = m.graphs({"z": large})(GraphEvaluator([as_node(long * 2.0 + 1.0)]))
    out["one"][3], out["one"][4] = found[27], found[0]

    @m.each(0, 3)
    def _(i):
        inputs = {"x": Item(a, order[i], 4), "y": Item(m.constants(HEIGHTS), i, 1)}
        values = m.graphs(inputs)
        near = (values(alone)[0][0] < 0.5) & (a[0, 0] > 0.0)

        def put(x):
            scratch[i] = x

        m.when(near, lambda: put(-1.0))(lambda: put(m.where(near, values(both)[1][0], -1.0)))

    m.copy(3, scratch, out["pairs"])


def random_equations(rng):
    B = rng.normal(size=(LANES, 4, 4))
    B[::3, 2] = 2 * B[::3, 0] - B[::3, 1]
    return {"A": B @ B.swapaxes(-1, -2), "b": rng.normal(size=(LANES, 4, 2))}


BLOCKS = 4
ENDS, LOWS = [6, 12, 12, 12], [0, 0, 3, 6]  # of a matrix of blocks, which is zero beyond them


def elimination(m, given, out):
    """Equations with a profile, by blocks; once more with the factors; and all of it dense."""
    n = 3 * BLOCKS
    J, d = m.array(n, n + 1, kept=False), m.array(n, kept=False)
    dense = m.words([n] * BLOCKS), m.words([0] * BLOCKS)
    for name, ends, lows in (("x", m.words(ENDS), m.words(LOWS)), ("y", *dense)):
        m.copy_matrix((n, n + 1), given["J"], J)
        m.eliminate(n, J, d, ends)
        m.copy(n, d, out[name])
        m.copy(n, given["right"], d)
        m.substitute(n, J, d, lows, ends)
        m.copy(n, d, out[f"{name} again"])
    m.copy_matrix((n, n + 1), J, out["J"])


def random_profiles(rng):
    n = 3 * BLOCKS
    J = rng.normal(size=(LANES, n, n + 1)) + np.pad(6 * np.eye(n), ((0, 0), (0, 1)))
    for i, (low, end) in enumerate(zip(LOWS, ENDS, strict=True)):
        J[:, 3 * i : 3 * i + 3, :low] = J[:, 3 * i : 3 * i + 3, end:n] = 0.0
        J[:, end:n, 3 * i : 3 * i + 3] = 0.0
    return {"J": J, "right": rng.normal(size=(LANES, n))}


def cases(m, given, out):
    """Turns of three kinds, of which one is not there; the least and rows of a matrix."""
    a, n = given["a"], 7
    table, shifts = (
        m.words([0, 0, 1, 2, 1, 5, 0, 8, 1, 9, 1, 12, 0, 16]),
        m.constants(np.array([0.5, 1.5, 3.0])),
    )

    @m.each(0, 20)
    def _(i):
        out["x"][i] = 0.0

    @m.each_case(n, 3, table)
    def _(case, i, first):
        row = a.row(first)
        for t in range(2 + case):
            out["x"][first + t] = a[first + t, 0] * row[1] + m.to_number(i) + shifts[case]

    out["least"][0] = m.least(0, m.count(given["n"].value), lambda i: a[i, 2])

    @m.loop(0, 3)
    def _(i):
        out["x"][17 + i] = shifts[i]

    least = m.least(0, 5, lambda i: a.row(i)[0] / a[i, 1])  # 0 / 0 in some lanes
    out["least"][1] = m.where(m.equal(least, least), least, 99.0)
    out["least"][2] = m.least(3, 3, lambda i: a[i, 0], 7.0)


def spoiled_rows(rng):
    a = rng.normal(size=(LANES, 20, 3))
    a[::5, 2, :2] = 0.0
    return {"a": a, "n": np.full(LANES, 19.0)}


def random_steps(rng):
    B = rng.normal(size=(LANES, N, N))
    return {
        "A": B @ B.swapaxes(-1, -2),
        "damping": rng.uniform(0, 0.1, LANES),
        "g": rng.normal(size=(LANES, N)) * 3,
        "lower": -rng.uniform(0, 1, (LANES, N)),
        "upper": np.where(rng.random((LANES, N)) < 0.3, np.inf, rng.uniform(0, 1, (LANES, N))),
    }


CASES = {
    "bounded step": (bounded_step, random_steps, {"d": (N,)}),
    "roots": (
        roots,
        lambda rng: {
            "a": np.where(np.arange(LANES) % 7 == 3, -1.0, 10 ** rng.uniform(-3, 3, LANES)),
            "most": np.full(LANES, 30.0),
        },
        {"x": (), "turns": (), "late": ()},
    ),
    "choices": (
        choices,
        lambda rng: {"a": np.round(rng.uniform(-1, 1.5, (LANES, 6)), 0)},
        {"there": (3,), "best": (4, 3), "words": (5,), "matrix": (5, 3)},
    ),
    "graphs": (
        graphs,
        lambda rng: {"a": rng.normal(size=(LANES, 7, 4))},
        {"one": (5,), "pairs": (3,)},
    ),
    "equations": (equations, random_equations, {"x": (4, 2)}),
    "counts": (
        counts,
        lambda rng: {"a": np.where(np.arange(LANES) % 3 == 0, 0.2, 1.5)},
        {"x": ()},
    ),
    "sums": (
        sums,
        lambda rng: {"a": rng.normal(size=(LANES, 40, 3)), "n": np.full(LANES, 33.0)},
        {"s": (5,), "d": (3,), "m": (3, 3)},
    ),
    "cases": (cases, spoiled_rows, {"x": (20,), "least": (3,)}),
    "elimination": (
        elimination,
        random_profiles,
        {"J": (12, 13), **{x: (12,) for x in ("x", "x again", "y", "y again")}},
    ),
}


def same(found, expected):
    fine = expected["status"] == 0
    np.testing.assert_array_equal(found["status"] == 0, fine)
    for name, x in expected.items():
        if name != "status":
            np.testing.assert_array_equal(found[name][fine], x[fine], err_msg=name)


@pytest.mark.quick_code
@pytest.mark.parametrize("case", CASES)
def test_arrays_and_lanes_have_the_same_bits_without_fma(case, monkeypatch):
    text, make, results = CASES[case]
    inputs = make(np.random.default_rng(0))
    expected = on_arrays(text, inputs, results, exact=True)
    run = in_lanes(text, inputs, results, monkeypatch, fused=False)
    same(run(inputs), expected)
    # a lane gets the same alone, and among others
    order = np.random.default_rng(1).permutation(LANES)
    shuffled = run({name: x[order] for name, x in inputs.items()})
    same(shuffled, {name: x[order] for name, x in expected.items()})
    for i in (0, LANES - 1):
        alone = run({name: x[i : i + 1] for name, x in inputs.items()})
        same(alone, {name: x[i : i + 1] for name, x in expected.items()})


@pytest.mark.quick_code
@pytest.mark.parametrize("case", CASES)
def test_fma_changes_rounding_only(case, monkeypatch):
    text, make, results = CASES[case]
    inputs = make(np.random.default_rng(2))
    expected = on_arrays(text, inputs, results)
    found = in_lanes(text, inputs, results, monkeypatch, fused=True)(inputs)
    fine = expected["status"] == 0
    for name in set(results) - {"turns", "late"}:
        size = np.abs(expected[name][fine]).max()
        np.testing.assert_allclose(found[name][fine], expected[name][fine], atol=1e-12 * size)


@pytest.mark.parametrize("case", CASES)
def test_one_problem_has_the_same_bits_on_numbers(case):
    text, make, results = CASES[case]
    inputs = make(np.random.default_rng(6))
    expected = on_arrays(text, inputs, results, exact=True)
    for i in range(0, LANES, 5):
        m = NumberMachine()
        out = {name: m.array(*shape) for name, shape in results.items()}
        with np.errstate(all="ignore"):
            text(m, {name: m.input(x[i]) for name, x in inputs.items()}, out)
        assert (m.status == 0) == (expected["status"][i] == 0)
        if not m.status:
            for name, x in out.items():
                np.testing.assert_array_equal(x.as_array(), expected[name][i], err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_texts_obey_the_rules(case):
    """Turn by turn in reverse, always with copies of the lanes that are left: the same bits."""
    text, make, results = CASES[case]
    inputs = make(np.random.default_rng(3))
    same(
        on_arrays(text, inputs, results, strict=True), on_arrays(text, inputs, results, exact=True)
    )


def test_the_step_between_bounds_is_optimal():
    """By the conditions of Karush, Kuhn and Tucker, on both ways to solve."""
    inputs = random_steps(np.random.default_rng(4))
    for options in ({}, {"exact": True}):
        d = on_arrays(bounded_step, inputs, {"d": (N,)}, **options)["d"]
        A = inputs["A"] + inputs["damping"][:, None, None] * np.eye(N)
        pull = (A @ d[..., None])[..., 0] + inputs["g"]
        low, high = d <= inputs["lower"], d >= inputs["upper"]
        assert (d >= inputs["lower"]).all() and (d <= inputs["upper"]).all()
        assert low.any() and high.any()
        assert np.abs(pull[~low & ~high]).max() < 1e-11
        assert pull[low & ~high].min() > -1e-11 and pull[high & ~low].max() < 1e-11


def test_a_failure_names_the_row(monkeypatch):
    inputs = random_equations(np.random.default_rng(5))
    found = on_arrays(equations, inputs, {"x": (4, 2)})
    expected = np.where(np.arange(LANES) % 3 == 0, with_part(BLOCK, 2), 0)
    np.testing.assert_array_equal(found["status"], expected)
    fine = expected == 0
    b = inputs["A"][fine] @ found["x"][fine]
    np.testing.assert_allclose(b, inputs["b"][fine], atol=1e-10 * np.abs(found["x"][fine]).max())
    code = in_lanes(equations, inputs, {"x": (4, 2)}, monkeypatch, fused=False)
    np.testing.assert_array_equal(code(inputs)["status"], expected)


def test_elimination_solves_and_arrays_have_the_bits_of_blocks():
    inputs, results = random_profiles(np.random.default_rng(5)), CASES["elimination"][2]
    fast = on_arrays(elimination, inputs, results)
    same(fast, on_arrays(elimination, inputs, results, exact=True))
    n = 3 * BLOCKS
    right = np.stack([inputs["J"][:, :, n], inputs["right"]], axis=-1)
    x = np.linalg.solve(inputs["J"][:, :, :n], right)
    for name in "xy":
        np.testing.assert_allclose(fast[name], x[..., 0], rtol=1e-9)
        np.testing.assert_allclose(fast[f"{name} again"], x[..., 1], rtol=1e-9)


def test_the_least_is_not_a_number_where_a_term_is_none():
    found = on_arrays(cases, spoiled_rows(np.random.default_rng(6)), CASES["cases"][2])["least"]
    np.testing.assert_array_equal(np.flatnonzero(found[:, 1] == 99.0), np.arange(0, LANES, 5))
    assert (found[:, 2] == 7.0).all()


def test_many_words_at_once_are_equal():
    def text(m, given, out):
        @m.each(0, 2)
        def _(i):
            out["x"][i] = m.to_number(m.words([3, 4])[i // 3])

    with pytest.raises(AssertionError, match="equal"):
        on_arrays(text, {"a": np.zeros((2, 1))}, {"x": (2,)})


def test_lanes_that_are_not_live_give_no_bound():
    found = on_arrays(counts, {"a": np.array([0.2, 1.5, 0.3])}, {"x": ()})["x"]
    np.testing.assert_array_equal(found, [3, 0, 3])


# ---- texts that break the rules ------------------------------------------------------------------


def reads_other_turns(m, given, out):
    """A running sum in `each`: what a turn reads, another one writes."""
    x = out["x"]
    x[0] = given["a"][0]

    @m.each(1, 4)
    def _(i):
        x[i] = x[i - 1] + given["a"][i]


def scratch_outlives_a_round(m, given, out):
    """A number that a round writes into scratch and that is read after it."""
    s, live = m.array(kept=False), m.number(1.0)
    s.value = 0.0

    @m.while_any(lambda: live.value > 0.0, 9)
    def _(_turn):
        s.value = s.value + 1.0
        live.value = m.where(given["a"][0] > s.value, 1.0, 0.0)

    m.copy(4, given["a"], out["x"])
    out["x"][0] = s.value


def memory_that_nobody_set(m, given, out):
    s = m.array(4)

    @m.each(0, 3)
    def _(i):
        s[i] = given["a"][i]

    m.copy(4, s, out["x"])


@pytest.mark.parametrize(
    "text", [reads_other_turns, scratch_outlives_a_round, memory_that_nobody_set]
)
def test_texts_that_break_a_rule_are_found(text):
    a = np.arange(8.0).reshape(2, 4)
    found = on_arrays(text, {"a": a}, {"x": (4,)}, strict=True)["x"]
    assert np.isnan(found).any()


def numbers_from_outside(m, given, out):
    a, live = given["a"][0], m.number(1.0)
    m.copy(4, given["a"], out["x"])

    @m.while_any(lambda: live.value * given["a"][0] > 0.0, 5)
    def _(_turn):
        out["x"][0], live.value = a, 0.0


def test_numbers_from_outside_a_round_are_found():
    a = np.arange(12.0).reshape(3, 4)
    with pytest.raises(ValueError, match="broadcast"):
        on_arrays(numbers_from_outside, {"a": a}, {"x": (4,)}, strict=True)


def test_inputs_cannot_be_changed():
    m = ArrayMachine(2)
    x = m.input(np.zeros((2, 3)))
    with pytest.raises(AssertionError, match="not changed"):
        x[0] = 1.0


def test_singular_equations_leave_other_lanes_alone():
    """LAPACK rejects the whole batch; then each lane is solved by itself."""

    def text(m, given, out):
        L, x = m.array(2, 2, kept=False), m.array(2, kept=False)
        m.copy(2, given["b"], x)
        A = given["A"]
        m.solve_positive(2, lambda i, j: A[i, j], lambda i, _: A[i, i], L, x)
        m.copy(2, x, out["x"])

    A = np.array([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]])
    b = np.array([[3.0, 3.0], [1.0, 2.0]])
    found = on_arrays(text, {"A": A, "b": b}, {"x": (2,)})["x"]
    np.testing.assert_allclose(found[0], [1.0, 1.0], rtol=1e-15)
    assert not np.isfinite(found[1]).all()
