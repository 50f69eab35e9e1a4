"""Derivatives of the dynamics of flexible bodies against differences and frequencies."""

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from numpy.testing import assert_allclose

import phipsi as pp

TREE = random_flexible_tree(
    2, bodies=3, modes=(2, 0, 1), joints=("spherical", "revolute", "fixed"), armature=True
)
MODEL = TREE.build()
_RNG = np.random.default_rng(0)
Q, V = TREE.random_state(_RNG)
X = _RNG.normal(size=MODEL.nv)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Nothing is compiled here."""
    monkeypatch.setenv("PHIPSI_BACKEND", "reference")


def differences(function, h=1e-6):
    """Columns of a derivative along unit rates."""
    units = h * np.eye(MODEL.nv)
    return np.stack([(function(u) - function(-u)) / (2 * h) for u in units], axis=-1)


@pytest.mark.parametrize("kind", ["inverse", "forward"])
def test_derivatives_of_dynamics(kind):
    function = getattr(pp, f"{kind}_dynamics")
    by_q, by_v, by_x = getattr(pp, f"{kind}_dynamics_derivatives")(MODEL, Q, V, X)
    size = {"rtol": 1e-6, "atol": 1e-6 * np.abs(by_q).max()}
    moved = differences(lambda u: function(MODEL, MODEL.integrate(Q, u), V, X))
    assert_allclose(by_q, moved, **size)
    assert_allclose(by_v, differences(lambda u: function(MODEL, Q, V + u, X)), **size)
    assert_allclose(by_x, differences(lambda u: function(MODEL, Q, V, X + u)), **size)


def test_batches_and_failures():
    many = pp.inverse_dynamics_derivatives(MODEL, np.stack([Q, MODEL.neutral()]), V, X)
    assert_allclose(many.by_q[0], pp.inverse_dynamics_derivatives(MODEL, Q, V, X).by_q)
    bad = np.stack([Q, Q * np.nan])
    found, status = pp.forward_dynamics_derivatives(MODEL, bad, V, X, on_error="mask")
    assert status[0] == 0 and status[1] != 0 and np.isnan(found.by_q[1]).all()


def test_linearisation_has_the_natural_frequencies():
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(1.0, 3.0), modes=1, rotary_inertia=1e-3)
    builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    model = builder.build()
    system = pp.linearize(model, model.neutral())
    found = np.sort(np.abs(np.linalg.eigvals(system.A).imag))[::2]
    assert_allclose(found, pp.natural_frequencies(model), rtol=1e-8)


def test_derivatives_of_a_step():
    A, B = pp.step_derivatives(MODEL, Q, V, X, 1e-4)

    def after(u):
        q, v = pp.rollout(MODEL, Q, V, X + u, 1e-4, 1)
        return v[-1]

    assert_allclose(B[MODEL.nv :], differences(after, 1e-3), rtol=1e-5, atol=1e-9)
    assert A.shape == (2 * MODEL.nv, 2 * MODEL.nv)
