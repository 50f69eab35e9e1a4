"""Sine and cosine of the native backend against 40 digits.

The pose of a body on a revolute joint about z has cos q and sin q in its first column, unchanged.
"""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest

import phipsi as pp
from phipsi import operators as ops

HALF_PI = np.pi / 2


@pytest.fixture(scope="module", params=[False, True], ids=["usual", "reproducible"])
def turn(request: pytest.FixtureRequest):
    """A function angles → (sine, cosine)."""
    builder = pp.ModelBuilder()
    ball = pp.SpatialInertia(1.0, (0, 0, 0), np.eye(3))
    builder.add_body("b", parent="world", joint=pp.joints.Revolute((0, 0, 1)), inertia=ball)
    model = builder.build()
    program = pp.compile(ops.pose, model, backend="native", reproducible=request.param)
    assert program.backend == "native"

    def sincos(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pose = program(x[:, None])[:, 0]
        np.testing.assert_array_equal(pose[:, 0, 0], pose[:, 1, 1])
        np.testing.assert_array_equal(pose[:, 0, 1], -pose[:, 1, 0])
        return pose[:, 1, 0], pose[:, 0, 0]

    return sincos


@cache
def exact_values(angles: bytes, function) -> list[mpmath.mpf]:
    """f of all angles, once for both kinds of code."""
    x = np.frombuffer(angles)  # the reduction of 1e300 needs its thousand bits
    with mpmath.workprec(1300 if np.abs(x).max() > 2.0**64 else 300):
        return [function(mpmath.mpf(a)) for a in x.tolist()]


def errors_in_ulp(got: np.ndarray, x: np.ndarray, function) -> np.ndarray:
    """|got − f(x)| in units of the last place of f(x)."""
    out = []
    with mpmath.workprec(300):
        for g, exact in zip(got, exact_values(x.tobytes(), function), strict=True):
            ulp = np.spacing(max(abs(float(exact)), np.finfo(float).tiny))
            out.append(float(abs(mpmath.mpf(float(g)) - exact) / mpmath.mpf(float(ulp))))
    return np.array(out)


def worst(turn, x: np.ndarray) -> float:
    sine, cosine = turn(x)
    return max(errors_in_ulp(sine, x, mpmath.sin).max(), errors_in_ulp(cosine, x, mpmath.cos).max())


def rng() -> np.random.Generator:
    return np.random.default_rng(12)


@pytest.mark.parametrize("largest", [1e-3, 1.0, 4.0, 100.0, 1e4, 2.0**20])
def test_within_one_ulp_in_the_stated_range(turn, largest: float):
    assert worst(turn, rng().uniform(-largest, largest, 1500)) <= 1.0


def test_all_magnitudes(turn):
    x = rng().choice([-1.0, 1.0], 1500) * 2.0 ** rng().uniform(-60, 20, 1500)
    assert worst(turn, x) <= 1.0


def neighbours(x: np.ndarray, steps: int = 3) -> np.ndarray:
    out = [x]
    for direction in (-np.inf, np.inf):
        y = x
        for _ in range(steps):
            y = np.nextafter(y, direction)
            out.append(y)
    return np.concatenate(out)


def test_multiples_of_a_quarter_turn_and_their_neighbours(turn):
    """Where one of the two is nearly zero, and all bits come from the low parts of π."""
    n = np.concatenate([np.arange(-40, 41), rng().integers(-600_000, 600_000, 120)])
    exact = [float(mpmath.mpf(int(k)) * mpmath.pi / 2) for k in n]
    assert worst(turn, neighbours(np.array(exact))) <= 1.0


def test_where_the_quadrant_changes(turn):
    """Odd multiples of π/4, where the two polynomials meet."""
    n = 2 * np.concatenate([np.arange(-20, 20), rng().integers(-300_000, 300_000, 100)]) + 1
    assert worst(turn, neighbours(n * (np.pi / 4))) <= 1.0


def test_the_double_closest_to_a_multiple_of_a_quarter_turn(turn):
    """6381956970095103 · 2^797 (Kahan), where glibc is off by 8 ulp of a cosine of 5e-19."""
    x = 6381956970095103 * 2.0 ** np.array([797.0, 797.0, -40.0])
    sine, cosine = turn(x)
    assert errors_in_ulp(sine, x, mpmath.sin).max() <= 1.0
    assert errors_in_ulp(cosine, x, mpmath.cos).max() <= 1.0
    np.testing.assert_allclose(cosine[0], -4.68716592425462761112e-19, rtol=2e-15)


def test_beyond_the_stated_range(turn):
    """Another reduction takes over, at the same accuracy."""
    x = 10.0 ** rng().uniform(6, 22, 800)
    assert worst(turn, x) <= 1.0
    edge = neighbours(np.array([2.0**20, -(2.0**20)]), 8)
    assert worst(turn, edge) <= 1.0
    assert worst(turn, np.array([1e22, 1e100, 1e300, np.finfo(float).max])) <= 1.0


def test_zeros_and_denormals(turn):
    tiny = np.array([5e-324, 1e-320, 1e-310, np.finfo(float).tiny, 1e-300, 1e-200])
    x = np.concatenate([[0.0, -0.0], tiny, -tiny])
    sine, cosine = turn(x)
    np.testing.assert_array_equal(cosine, np.ones_like(x))
    np.testing.assert_array_equal(sine, x)


def test_lanes_do_not_see_their_neighbours(turn):
    """Small arguments next to huge ones, in every position of a group."""
    x = rng().uniform(-10, 10, 64)
    alone = [turn(x[i : i + 1]) for i in range(64)]
    mixed = np.where(rng().random(64) < 0.5, x, 10.0 ** rng().uniform(6, 18, 64))
    together = turn(mixed)
    kept = mixed == x
    assert 10 < kept.sum() < 54
    for k in range(2):
        np.testing.assert_array_equal(together[k][kept], np.array([a[k][0] for a in alone])[kept])
    # and the huge ones are the same alone
    for i in np.flatnonzero(~kept):
        one = turn(mixed[i : i + 1])
        assert [s[0] for s in one] == [t[i] for t in together]


def test_unit_length(turn):
    sine, cosine = turn(rng().uniform(-1e6, 1e6, 4000))
    assert np.abs(sine**2 + cosine**2 - 1).max() < 4e-16
