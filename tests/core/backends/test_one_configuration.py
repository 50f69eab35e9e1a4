"""One configuration on NumPy's numbers has the bits that it has in arrays."""

import numpy as np
import pytest
from backend_contract import MODELS, VECTORS, arguments, two_points
from numpy.testing import assert_array_equal

import phipsi as pp
from phipsi.core.backends import reference
from phipsi.core.backends.arrays import ArrayArithmetic
from phipsi.core.backends.unbatched_arithmetic import UnbatchedArithmetic, product
from phipsi.core.sweeps.entries import add, dot, mul, mul_add, mul_sub

SPECIAL = [np.nan, np.inf, -np.inf, 1e308, 5e-324]


def laid_out(rng: np.random.Generator, rows: int, columns: int) -> list[np.ndarray]:
    """Matrices with zeros of both signs, as blocks lie in memory."""

    def some(m: int, n: int) -> np.ndarray:
        a, u = rng.standard_normal((m, n)), rng.random((m, n))
        a[u < 0.4] = 0.0
        a[u < 0.2] = -0.0
        if rng.random() < 0.1:
            a.flat[rng.integers(a.size)] = rng.choice(SPECIAL)
        return a

    parts = some(rows + 2, columns + 3), some(columns + 2, rows + 3)
    return [
        some(rows, columns),
        some(columns, rows).T,
        parts[0][1 : 1 + rows, 2 : 2 + columns],
        parts[1][1 : 1 + columns, 2 : 2 + rows].T,
        np.broadcast_to(some(1, columns), (rows, columns)),
        some(rows, 2 * columns)[:, ::2],
    ]


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_products_have_the_bits_of_matmul(rows: int):
    rng = np.random.default_rng(rows)
    with np.errstate(all="ignore"):
        for inner in (1, 2, 3, 6, 7):
            for columns in (1, 2, 3, 6):
                for a in laid_out(rng, rows, inner):
                    for b in (*laid_out(rng, inner, columns), a.T):
                        found, asked = product(a, b), np.matmul(a, b)
                        assert_array_equal(found, asked)
                        real = ~np.isnan(asked)
                        assert_array_equal(np.signbit(found[real]), np.signbit(asked[real]))


def test_entries_that_are_zero_are_not_known_to_be():
    """0 × ∞ is NaN in a value, and nothing in the number 0 of a program."""
    zero, infinite = np.float64(0.0), np.float64(np.inf)
    with np.errstate(all="ignore"):
        for x in (zero, np.zeros(1)):
            assert np.isnan(mul(x, infinite)).all()
            assert np.isnan(mul_add(x, infinite, np.float64(1.0))).all()
            assert np.isnan(mul_sub(np.float64(1.0), x, infinite)).all()
            assert np.isnan(dot([x, zero], [infinite, zero])).all()
            assert not np.signbit(add(-x, x)).any()
    assert mul(0.0, infinite) == 0
    assert mul_add(0, infinite, zero) == 0


@pytest.mark.parametrize("numbers", [(1.0, -3.0, 2.0), (np.nan, 1.0, 2.0), (1.0, 2.0, np.nan)])
def test_choices_are_those_of_arrays(numbers: tuple[float, ...]):
    model = MODELS["arm"]
    rest = model, two_points(model, "world"), {}, (), np.dtype(np.float64)
    one, many = UnbatchedArithmetic(*rest), ArrayArithmetic(*rest)
    values = [np.float64(x) for x in numbers]
    assert_array_equal(one.largest(values), many.largest(values))
    for x in values:
        for y in values:
            assert_array_equal(one.maximum(x, y), many.maximum(x, y))


@pytest.mark.parametrize("name", ["all joints", "forest"])
def test_programs_have_the_bits_of_arrays(name: str, monkeypatch: pytest.MonkeyPatch):
    model = MODELS[name]
    points = two_points(model, "world")
    at = arguments(model, points, (1,))
    asked = tuple(VECTORS[x] for x in ("forward dynamics", "inverse dynamics"))
    program = pp.compile(asked, model, points=points, backend="reference")
    at = {n: at[n] for n in program.inputs}
    one = program(**{n: x[0] for n, x in at.items()})
    batch = program(**at)
    monkeypatch.setattr(reference, "UnbatchedArithmetic", ArrayArithmetic)
    arrays = program(**{n: x[0] for n, x in at.items()})
    for a, b, c in zip(one, batch, arrays, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
        assert b.shape == (1, *a.shape)
