"""Fourier series as references: derivatives, period, fits, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import chain

import phipsi as pp
from phipsi.errors import InputError, PhipsiWarning
from phipsi.simulation.control.references import FourierPath

ARM = pp.examples.planar_arm(3)


def path(seed=0, harmonics=4, period=3.0):
    a, b = np.random.default_rng(seed).standard_normal((2, 3, harmonics))
    return FourierPath(ARM, [0.1, -0.2, 0.3], a, b, period)


def test_rates_are_derivatives():
    p, h = path(), 1e-3
    t = np.linspace(0, 3, 17)
    weights = {1: 45 / 60, 2: -9 / 60, 3: 1 / 60}
    for value, rate in ((0, 1), (1, 2)):
        numeric = sum(c * (p(t + k * h)[value] - p(t - k * h)[value]) for k, c in weights.items())
        assert_allclose(p(t)[rate], numeric / h, rtol=0, atol=1e-9)
    assert_allclose(p(t + 3.0).q, p(t).q, atol=1e-12)
    assert p(0.7).q.shape == (3,) and p(t[:, None]).v.shape == (17, 1, 3)
    assert_allclose(p(t)[0][5], p(t[5]).q, atol=1e-15)


def test_fit():
    p = path(1)
    t = np.linspace(0, 3, 100)
    found = FourierPath.fit(ARM, t, p(t).q, 3.0, harmonics=4)
    assert_allclose(found.center, p.center, atol=1e-12)
    assert_allclose(found.cosines, p.cosines, atol=1e-11)
    assert_allclose(found.sines, p.sines, atol=1e-11)
    noisy = p(t).q + 1e-3 * np.random.default_rng(0).standard_normal((100, 3))
    rough = np.gradient(noisy, t, axis=0)
    filtered = FourierPath.fit(ARM, t, noisy, 3.0, harmonics=4)(t).v
    assert np.abs(filtered - p(t).v).max() < 0.2 * np.abs(rough - p(t).v).max()


def test_a_record_that_is_not_periodic_is_fitted_with_a_warning():
    t = np.linspace(0, 3, 100)
    ramp = path(1)(t).q + [0, 1, 0] * t[:, None]
    joint = ARM.joint_names[1]
    with pytest.warns(PhipsiWarning, match=rf"joint '{joint}' is up to .* record .* period=3 s"):
        FourierPath.fit(ARM, t, ramp, 3.0, harmonics=4)


def test_what_is_refused():
    with pytest.raises(InputError, match="joint .* is spherical"):
        FourierPath(chain(1, 0, ["spherical"]), np.zeros(4), np.zeros((4, 1)), np.zeros((4, 1)), 1)
    with pytest.raises(InputError, match="shapes"):
        FourierPath(ARM, np.zeros(3), np.zeros((3, 2)), np.zeros((3, 1)), 1)
    with pytest.raises(InputError, match="center"):
        FourierPath(ARM, np.zeros(2), np.zeros((3, 1)), np.zeros((3, 1)), 1)
    with pytest.raises(InputError, match="period"):
        FourierPath(ARM, np.zeros(3), np.zeros((3, 1)), np.zeros((3, 1)), 0)
    with pytest.raises(InputError, match="cannot determine"):
        FourierPath.fit(ARM, [0, 1, 2], np.zeros((3, 3)), 1.0, 2)
    with pytest.raises(InputError, match="must have the shapes"):
        FourierPath.fit(ARM, [0, 1, 2], np.zeros((3, 2)), 1.0, 1)


def test_a_series_without_frequencies_is_the_mean():
    t = np.linspace(0, 3, 20)
    q = np.random.default_rng(2).standard_normal((20, 3))
    found = FourierPath.fit(ARM, t, q, 3.0, harmonics=0)(1.3)
    assert_allclose(found.q, q.mean(axis=0), atol=1e-14)
    assert not found.v.any()
