"""Traced functions equal themselves on arrays; their derivatives equal complex steps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from traced_functions import ALL, FUNCTIONS, REAL_ONLY, A, S, X, Y, traced, values

from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints, tangents
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.numpy_functions import table
from phipsi.core.arrays.trace import UFUNCS, Tracer, as_node
from phipsi.errors import LawError


@pytest.mark.parametrize("name", ALL)
def test_values(name):
    given = values((5, 2))
    (found,) = evaluate([traced(ALL[name])], given)
    for i in np.ndindex(5, 2):
        wanted = ALL[name](*(given[n][i] for n in "xyas"))
        assert_allclose(found[i], wanted, rtol=4e-16, atol=4e-16)


def directions():
    return {n: ops.input(f"d{n.data[0]}", n.shape) for n in (X, Y, A, S)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_complex_steps(name):
    at, step = values(), values()
    step = {f"d{n}": 0.7 - x for n, x in step.items()}
    (tangent,) = tangents([traced(FUNCTIONS[name])], directions())
    (found,) = evaluate([tangent], at | step)
    moved = [at[n] + 1e-30j * step[f"d{n}"] for n in "xyas"]
    assert_allclose(found, np.imag(FUNCTIONS[name](*moved)) / 1e-30, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", REAL_ONLY)
def test_tangents_are_differences(name):
    at, step = values(), values()
    step = {f"d{n}": 0.7 - x for n, x in step.items()}
    (tangent,) = tangents([traced(ALL[name])], directions())
    (found,) = evaluate([tangent], at | step)
    ahead, behind = (ALL[name](*(at[n] + h * step[f"d{n}"] for n in "xyas")) for h in (1e-6, -1e-6))
    assert_allclose(found, (ahead - behind) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("name", ALL)
def test_adjoints_are_transposed_tangents(name):
    result, at, step = traced(ALL[name]), values(), values()
    step = {f"d{n}": 0.7 - x for n, x in step.items()}
    weight = ops.input("w", result.shape)
    inputs = [X, Y, A, S]
    rng = np.random.default_rng(1)
    w = rng.standard_normal(result.shape)
    (tangent,) = tangents([result], directions())
    (change,) = evaluate([tangent], at | step)
    bars = adjoints([result], [weight], inputs)
    total = 0.0
    for x, bar in zip(inputs, bars, strict=True):
        if bar is not None:
            assert bar.shape == x.shape
            (value,) = evaluate([bar], at | {"w": w})
            total += np.sum(value * step[f"d{x.data[0]}"])
    assert_allclose(total, np.sum(w * change), rtol=1e-13)


SPECIAL = [0.0, 1.0, 0.3, 0.5, 2.5, 6.0, 0.1, 1e200, 1e308, 5e-324, 1e-200, 709.0, np.inf, np.nan]


def ulps(found, wanted):
    """The distance of numbers; zeros of two signs are apart, infinities and NaN are as they are."""
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    same |= np.isnan(found) & np.isnan(wanted)
    with np.errstate(all="ignore"):
        far = np.abs(found - wanted) / np.spacing(np.abs(wanted))
    return np.where(same, 0.0, np.where(np.isnan(far) | (wanted == 0), np.inf, far))


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_special_values_are_those_of_numpy(name):
    """Infinities, zeros of both signs, numbers whose squares overflow, exact multiples."""
    if name in ("matmul", "clip", "bitwise_and", "bitwise_or", "invert"):
        return
    function = getattr(np, name)
    numbers = np.array([*SPECIAL, *(-x for x in SPECIAL)])
    grid = [x.ravel() for x in np.meshgrid(*[numbers] * function.nin)]
    inputs = [ops.input(f"x{i}", ()) for i in range(function.nin)]
    node = as_node(function(*map(Tracer, inputs)))
    (found,) = evaluate([node], {f"x{i}": x for i, x in enumerate(grid)})
    with np.errstate(all="ignore"):
        wanted = function(*grid).astype(float)
    if name == "hypot":  # of an infinite number and NaN it is infinite in C
        wanted = np.where(np.isnan(grid[0]) | np.isnan(grid[1]), np.nan, wanted)
    most = {"float_power": 8.0, "power": 8.0, "hypot": 1.0}.get(name, 0.0)
    far = ulps(found, wanted)
    worst = int(np.argmax(far))
    assert far[worst] <= most, ([x[worst] for x in grid], found[worst], wanted[worst])


def test_tables_keep_their_ends_at_infinity():
    x = np.array([np.inf, -np.inf, np.nan, 0.5, 1.0, 0.0, 7.0])
    (found,) = evaluate(
        [as_node(np.interp(Tracer(ops.input("x", (7,))), [0, 1], [2, 3]))], {"x": x}
    )
    assert_array_equal(found, np.interp(x, [0, 1], [2, 3]))
    assert_array_equal(table(x[:2], [0, 1], [2, 3], "cubic"), [3.0, 2.0])


def test_equal_subexpressions_are_one_node():
    x = Tracer(X)
    assert (np.sin(x) + 1).node is (np.sin(x) + 1).node
    assert (x * 0.0).node is not (x * -0.0).node


def branches(x):
    return x if x[0] > 0 else -x


def assigns(x):
    x[0] = 1.0
    return x


def uses_math(x):
    import math

    return math.sin(x[0])


def loops(x):
    while x[0] > 1:
        x = x - 1
    return x


def changes_in_place(x):
    x += 1
    return x


def changes_a_part(x):
    y = x * 2
    part = y[:2]
    part += 1
    return part


def changes_while_seen(x):
    y = x * 2
    part = y[:2]
    y[0] = 1
    return part


def changes_what_ravel_sees(x):
    y = x * 2
    part = np.ravel(y)
    y[0] = 1
    return part


BAD = {
    "branch": (branches, "branches on a value.*\n.*np.where"),
    "assignment": (assigns, "cannot be assigned"),
    "math": (uses_math, "needs the number itself.*\n.*np.sin"),
    "loop": (loops, "branches on a value"),
    "chained": (lambda x: 0 < x < 1, "branches on a value.*\n.*&"),
    "shapes": (lambda x: x + np.ones(3), r"shapes \(4,\) and \(3,\) do not fit"),
    "product": (lambda x: np.ones((2, 3)) @ x, "do not fit together in a product"),
    "unknown": (lambda x: np.sort(x), "np.sort cannot be traced"),
    "ufunc": (lambda x: np.gamma(x) if hasattr(np, "gamma") else np.nextafter(x, 1), "nextafter"),
    "place": (lambda x: x[x > 0], "chosen by a value"),
    "range": (lambda x: x[7], "out of bounds"),
    "constant": (lambda x: x + np.inf, "not finite"),
    "text": (lambda x: x + "1", "not a number"),
    "reduce": (lambda x: np.add.reduce(x), "reduce cannot be traced"),
    "out": (lambda x: np.sin(x, out=np.zeros(4)), "out= cannot be traced"),
    "float": (lambda x: float(x[0]), "needs the number itself"),
    "index": (lambda x: [1, 2, 3][x[0]], "needs the number itself"),
    "array": (lambda x: np.asarray(x, dtype=float), "needs the number itself"),
    "axes": (lambda x: x.sum(axis=1), "axis 1 of an array"),
    "argument in place": (changes_in_place, "entries of an argument"),
    "part in place": (changes_a_part, "a named view of an array is changed in place"),
    "seen twice": (changes_while_seen, "has a name of its own"),
    "constants": (lambda x: x + 1 / np.zeros_like(x), "not finite"),
    "ragged": (lambda x: x + [[1, 2], [3]], "several lengths"),
    "table": (lambda x: table(x, [0, 0], [1, 2]), "increase"),
    "same memory": (changes_what_ravel_sees, "has a name of its own"),
    "bits": (lambda x: x & 1, "& takes comparisons"),
    "difference": (lambda x: (x > 0) - (x > 1), "cannot be subtracted"),
    "minus": (lambda x: -(x > 0), "cannot be subtracted"),
    "whole numbers": (lambda x: np.zeros_like(x, dtype=int), "float64"),
    "whole numbers too": (lambda x: np.zeros_like(x, int), "float64"),
    "single": (lambda x: x.astype(np.float32), "float64"),
    "order": (lambda x: np.linalg.norm(x, 1), "order 1"),
    "inner": (lambda x: np.inner(np.outer(x, x), x), "two vectors"),
    "truths": (lambda x: (x > 0) @ (x > 1), "as matrices"),
    "dtype": (lambda x: np.sum(x, 0, np.float32), "np.sum"),
    "initial": (lambda x: np.max(x, initial=0.0), "np.max"),
}


@pytest.mark.parametrize("name", BAD)
def test_untraceable_laws_name_the_line(name):
    function, text = BAD[name]
    with pytest.raises(LawError, match=text) as error:
        as_node(function(Tracer(X)))
    assert f"{__name__.rpartition('.')[2]}.py, line " in str(error.value)
