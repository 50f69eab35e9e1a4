"""Runs of flexible mechanisms against published ones (theory/flexible-bodies, section 9)."""

from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.model.joints import Fixed, Free, Revolute

# ---- B9a: a beam is spun up ----------------------------------------------------------------------

END, RATE, HEAVY = 15.0, 6.0, 1e9  # s, rad/s, kg·m²: a hub that nothing slows down


def spin_up(duration: float, **options: Any):
    """Times and places of the tip of the beam in axes of the hub."""
    beam = pp.FlexibleInertia.beam(10.0, 1.2, (1.4e4, np.inf), 2.8e7, modes=2, **options)
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body("hub", joint=Revolute(), inertia=pp.SpatialInertia(1.0, (0, 0, 0), HEAVY))
    builder.add_body("beam", parent="hub", joint=Fixed(), inertia=beam)
    model = builder.build(inertia="keep")
    h, steps = 1e-3, round(duration * 1000)
    t = (np.arange(steps) + 0.5) * h
    tau = np.zeros((steps, model.nv))
    tau[:, 0] = HEAVY * np.where(t < END, RATE / END * (1 - np.cos(2 * np.pi * t / END)), 0.0)
    q, _ = pp.rollout(model, model.neutral(), np.zeros(model.nv), tau, h, steps)
    times, eta = h * np.arange(steps + 1)[::10], q[::10, 1:]
    return times, np.array([beam.port_pose("tip", x).translation for x in eta])


def test_b9a_spin_up(machine_code):
    times, tips = spin_up(16.0)
    lowest = tips[:, 1].argmin()
    assert tips[lowest, 1] == pytest.approx(-0.57375, rel=3e-3)
    assert times[lowest] == pytest.approx(6.76, abs=0.03)
    assert tips[500, 1] == pytest.approx(-0.46844, rel=3e-3)
    after = tips[times > END]
    assert np.abs(after[:, 1]).max() < 3.9e-3
    assert (after[:, 0] - 10).mean() == pytest.approx(5.14e-4, rel=0.02)


def test_b9a_without_shortening_the_beam_folds(machine_code):
    _, tips = spin_up(9.0, stiffening=False)
    assert tips[:, 1].min() < -3.0


# ---- B10: energy and momentum --------------------------------------------------------------------


def test_b10_a_free_chain_keeps_energy_and_momentum(machine_code):
    """Three welded beams that bend in both planes and float."""
    beam = pp.FlexibleInertia.beam(
        0.5, 1.0, (6.0, 9.0), modes=0, rotary_inertia=2e-3, max_frequency=100.0
    )
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    for k in range(3):
        place = {"parent": f"b{k - 1}", "port": "tip", "joint": Fixed()} if k else {"joint": Free()}
        builder.add_body(f"b{k}", inertia=beam, **place)
    model = builder.build()
    rng = np.random.default_rng(5)
    q0, v0 = model.neutral(), 0.1 * rng.standard_normal(model.nv)
    v0[:6] *= 5
    q, v = pp.rollout(model, q0, v0, np.zeros(model.nv), 1.25e-4, 80_000)
    q, v = q[::800], v[::800]
    energy = pp.kinetic_energy(model, q, v) + pp.elastic_energy(model, q)
    assert np.ptp(energy) < 1e-8 * energy[0]
    momentum = pp.momentum(model, q, v)
    assert np.ptp(momentum, axis=0).max() < 1e-10 * np.abs(momentum).max()
    assert np.ptp(pp.elastic_energy(model, q)) > 1e-3 * energy[0]
