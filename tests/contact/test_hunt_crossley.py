"""Contacts that give after Hunt and Crossley: their restitution, energy, rest and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

import phipsi as pp

STIFF = 1e5


def system(alpha: float, gravity: float = 0.0) -> pp.System:
    """A ball of 1 kg above a floor; the pair has the stiffness 1e5 N/m and α/2."""
    builder = pp.ModelBuilder(gravity=(0, 0, -gravity))
    inertia = pp.SpatialInertia.sphere(0.1, mass=1.0)
    builder.add_body("ball", joint=pp.joints.Prismatic((0, 0, 1)), inertia=inertia)
    builder.add_shape("ball", "ball", pp.shapes.Sphere(0.1))
    model = builder.build()
    material = pp.Material(0.0, stiffness=2 * STIFF, hunt_crossley=alpha)
    ground = pp.Pose(None, (0, 0, -0.1))
    return pp.System(model, contacts=pp.Contacts(model, ground=ground, material=material))


def restitution(alpha: float, v: float) -> float:
    """Of f = k δ (1 + α δ̇): v dv/(1 + α v) = −(k/m) δ dδ, both ways."""

    def energy(x: float) -> float:
        return alpha * x - np.log1p(alpha * x)

    top = min(1.0, 1 / (alpha * v))
    return float(brentq(lambda e: energy(v) - energy(-e * v), 1e-3, top - 1e-12))


@pytest.mark.parametrize(("alpha", "v"), [(0.3, 0.2), (2.0, 0.2), (2.0, 1.0)])
def test_the_restitution_of_an_impact(alpha, v):
    given, found = system(alpha), []
    own = given.contact_pairs.pairs[0].material.hunt_crossley
    assert own == pytest.approx(alpha / 2)  # two surfaces in series
    for h in (1e-5, 5e-6):
        sim = pp.Simulator(given, dt=h, integrator="time_stepping")
        start = sim.initial_state([1e-9], [-v])
        run = sim.rollout(start, steps=round(0.014 / h), record=("q", "v"), progress=False)
        found.append(run.v[-1, 0] / v)
        depth = np.maximum(-run.q[:, 0], 0.0)
        energy = 0.5 * run.v[:, 0] ** 2 + 0.5 * STIFF * depth**2
        assert np.diff(energy).max() < 1e-15  # never gained
    exact = restitution(own, v)
    assert 2 * found[1] - found[0] == pytest.approx(exact, abs=3e-4)
    assert found[1] == pytest.approx(exact, abs=5e-3)
    assert exact == pytest.approx(1 - 2 / 3 * own * v, abs=0.5 * (own * v) ** 2)  # small speeds


@pytest.mark.parametrize("h", [1e-3, 1e-2])
def test_it_rests_at_the_same_depth_whatever_the_step(h):
    sim = pp.Simulator(system(1.0, 9.81), dt=h, integrator="time_stepping")
    state = sim.initial_state([0.0])
    sim.step(state, steps=round(3.0 / h))
    assert state.q[0] == pytest.approx(-9.81 / STIFF, rel=1e-6)


def test_gradients():
    sim = pp.Simulator(system(2.0), dt=5e-5, integrator="time_stepping")
    steps = 120
    weight = np.zeros((steps + 1, 1))
    weight[-1] = 1.0
    found = sim.gradient(sim.initial_state([1.1e-4], [-0.5]), None, steps, cotangents={"v": weight})

    def value(q, v):
        run = sim.rollout(sim.initial_state([1.1e-4 + q], [-0.5 + v]), steps=steps, progress=False)
        return run.v[-1, 0]

    def slope(along, x):
        """Differences of fourth order."""
        return (8 * (along(x) - along(-x)) - along(2 * x) + along(-2 * x)) / (12 * x)

    assert_allclose(found.v, slope(lambda x: value(0, x), 1e-5), rtol=1e-7)
    assert_allclose(found.q, slope(lambda x: value(x, 0), 1e-8), rtol=1e-7)
    assert abs(found.q[0]) > 1.0


def test_rejected():
    with pytest.raises(
        pp.errors.PhipsiError, match=r"hunt_crossley=1 s/m has no effect on a rigid surface"
    ):
        pp.Material(hunt_crossley=1.0)
    with pytest.raises(pp.errors.PhipsiError, match="negative"):
        pp.Material(stiffness=1e5, hunt_crossley=-1.0)
