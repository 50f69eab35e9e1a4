"""Motions of mechanisms with flexible bodies: what is conserved, and how damping takes energy."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp


@cache
def chain(damping: float = 0.0):
    """Two beams in a row that float freely."""
    beam = pp.FlexibleInertia.beam(
        1.0, 1.0, EI=200.0, modes=0, rotary_inertia=5e-3, damping_ratio=damping, max_frequency=120.0
    )
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body("first", joint=pp.joints.Free(), inertia=beam)
    builder.add_body(
        "second", parent="first", port="tip", joint=pp.joints.Revolute((0, 0, 1)), inertia=beam
    )
    return builder.build()


def start(model):
    rng = np.random.default_rng(4)
    v = 0.2 * rng.normal(size=model.nv)
    v[:6] *= 2
    return model.neutral(), v


def energy(model, q, v):
    return pp.kinetic_energy(model, q, v) + pp.elastic_energy(model, q)


def test_energy_and_momentum_are_conserved():
    model = chain()
    q0, v0 = start(model)
    q, v = pp.rollout(model, q0, v0, np.zeros(model.nv), 2e-4, 2500)
    found = energy(model, q[::50], v[::50])
    assert np.ptp(found) < 1e-8 * found[0]
    assert np.ptp(pp.elastic_energy(model, q)) > 1e-3 * found[0]  # it vibrates
    assert np.ptp(pp.momentum(model, q[::50], v[::50]), axis=0).max() < 1e-10


def test_damping_takes_energy_at_its_rate():
    model = chain(0.02)
    q0, v0 = start(model)
    q, v = pp.rollout(model, q0, v0, np.zeros(model.nv), 5e-4, 400)
    power = np.zeros(len(q))
    for k, n in enumerate(model.modes):
        at = slice(model.v_slices[k].stop - n, model.v_slices[k].stop)
        rates = v[:, at]
        power += np.einsum("ti,ij,tj->t", rates, model.flexible[k].damping, rates)
    lost = energy(model, q[0], v[0]) - energy(model, q[-1], v[-1])
    simpson = np.ones(len(q))
    simpson[1:-1:2], simpson[2:-1:2] = 4, 2
    assert_allclose(lost, 5e-4 / 3 * simpson @ power, rtol=1e-5)
    assert lost > 0.01 * pp.elastic_energy(model, q).max()


def test_simulate_agrees_and_its_energy_has_the_elastic_part():
    model = chain()
    q0, v0 = start(model)
    run = pp.simulate(model, q0, v0, 0.05, integrator="rk4", dt=5e-4)
    q, v = pp.rollout(model, q0, v0, np.zeros(model.nv), 5e-4, 100)
    assert_allclose(run.q[-1], q[-1], atol=1e-12)
    assert_allclose(run.energy, energy(model, run.q, run.v), rtol=1e-12)


def test_semi_implicit_steps_converge():
    model = chain()
    q0, v0 = start(model)
    zero = np.zeros(model.nv)
    exact = pp.rollout(model, q0, v0, zero, 1e-4, 200)[0][-1]
    ends = [
        pp.rollout(model, q0, v0, zero, h, steps, integrator="semi_implicit")[0][-1]
        for h, steps in ((1e-3, 20), (5e-4, 40))
    ]
    errors = [np.abs(end - exact).max() for end in ends]
    assert errors[1] < 0.6 * errors[0]


def test_the_variational_integrator_needs_derivatives_that_are_not_there_yet():
    model = chain()
    with pytest.raises(pp.PhipsiError, match="known for rigid bodies only"):
        pp.rollout(model, *start(model), np.zeros(model.nv), 1e-3, 2, integrator="variational")
