"""Exponential coordinates: the same points as the joints', and the exact derivative."""

import math

import numpy as np
import pytest
from random_models import ALL, chain, model_from_parents

from phipsi.algorithms.kinematics.exponential_chart import Chart
from phipsi.core.model.joints import Free, Planar, Spherical
from phipsi.core.spatial import crm

pytestmark = pytest.mark.usefixtures("machine_code")  # as users run it

SIZES = [1e-9, 1e-3, 0.3, 0.999, 1.001, 2.0, 3.0]


def curved_model():
    return model_from_parents([-1, 0, 1, 1, 2, 3, 5], 3, [
        "free", "spherical", "planar", "composite", "revolute", "free", "universal",
    ])  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("few", [True, False], ids=["by joint", "as arrays"])
def test_points_are_those_of_model_integrate(size, few):
    model, rng = curved_model(), np.random.default_rng(1)
    chart = Chart(model)
    chart._by_joint = few
    q, dv = model.random_configuration(2), size * rng.uniform(-0.5, 0.5, model.nv)
    expected = model.integrate(q, dv)
    np.testing.assert_allclose(chart.point(q, chart.start(q) + dv), expected, atol=1e-14)


@pytest.mark.parametrize("size", SIZES)
def test_differences_are_those_of_the_model(size):
    """Of all joints; the flat ones, q̇ = v, are those that `flat_difference` has."""
    model, rng = curved_model(), np.random.default_rng(3)
    chart = Chart(model)
    q, dv = model.random_configuration(2, (3,)), size * rng.uniform(-0.5, 0.5, (3, model.nv))
    other = model.integrate(q, dv)
    np.testing.assert_allclose(chart.difference(q, other), dv, atol=1e-14)
    flat = np.zeros((3, model.nv))
    flat[:, chart.flat_v] = dv[:, chart.flat_v]
    np.testing.assert_allclose(chart.flat_difference(q, other), flat, atol=1e-14)
    assert 0 < len(chart.flat_v) < model.nv


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("joint", [Spherical(), Free(), Planar()], ids=lambda j: j.kind)
def test_rate_is_the_inverse_of_dexp(joint, size):
    """dexp(z) = Σ (−ad z)ᵏ/(k + 1)!, which converges for all z, times dexp⁻¹(z) is 1."""
    rng = np.random.default_rng(4)
    model = model_from_parents([-1], 0, [joint])
    chart = Chart(model)
    z = rng.standard_normal(model.nv)
    z *= size / np.linalg.norm(z[chart.angular])
    ad = -_adjoint(joint, z)
    dexp, term = np.eye(model.nv), np.eye(model.nv)
    for k in range(1, 60):
        term = term @ ad / (k + 1)
        dexp = dexp + term
    scale = np.abs(chart.rate_matrix(z)).max() * np.abs(dexp).max()
    np.testing.assert_allclose(chart.rate_matrix(z) @ dexp, np.eye(model.nv), atol=1e-13 * scale)
    v = rng.standard_normal(model.nv)
    np.testing.assert_allclose(chart.rate(z, v), chart.rate_matrix(z) @ v, rtol=1e-12, atol=1e-13)


def _adjoint(joint, z):
    if joint.kind == "free":
        return crm(z)
    if joint.kind == "spherical":
        return crm([*z, 0, 0, 0])[:3, :3]
    return crm([0, 0, z[0], z[1], z[2], 0])[2:5, 2:5]  # turning about z, sliding along x and y


def test_rate_moves_the_point_with_v():
    """d/ds point(z + s ż) = N(q) v, by differences, for all joints at once."""
    model, rng = curved_model(), np.random.default_rng(5)
    chart = Chart(model)
    q = model.random_configuration(6)
    z = chart.start(q) + 0.8 * rng.standard_normal(model.nv)
    v = rng.standard_normal(model.nv)
    zdot = chart.rate(z, v)

    def slope(s):
        return (chart.point(q, z + s * zdot) - chart.point(q, z - s * zdot)) / (2 * s)

    measured = (4 * slope(5e-4) - slope(1e-3)) / 3
    np.testing.assert_allclose(measured, model.qdot(chart.point(q, z), v), atol=1e-10)


def test_a_model_of_hinges_is_flat():
    model = chain(4, 0, ["revolute", "prismatic", "helical", "cylindrical", "universal"])
    chart = Chart(model)
    q = model.random_configuration(0)
    assert chart.is_flat
    np.testing.assert_array_equal(chart.start(q), q)
    assert not Chart(chain(8, 0, ALL)).is_flat


def test_largest_turn():
    model = curved_model()
    chart = Chart(model)
    z = np.zeros(model.nv)
    z[model.v_slice("j1")] = [0.3, 0.4, 0.0]
    z[model.v_slice("j4")] = 3.0  # a hinge does not count
    assert math.isclose(chart.largest_turn(z), 0.5)
