"""Runs of flexible mechanisms against published ones (theory/flexible-bodies, section 9)."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.model.joints import Fixed, Free, Revolute

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


# ---- B9b: slider crank with a flexible rod -------------------------------------------------------


def slider_crank_rod():
    """The body that docs/flexible-reference.md types."""
    page = Path(__file__).parents[2] / "docs" / "flexible-reference.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"np": np, "pp": pp}
    block = next(x for x in blocks if "def slider_crank_rod" in x)
    exec(block.partition("\nrod = ")[0], names)
    return names["slider_crank_rod"]()


def test_b9b_flexible_slider_crank(machine_code):
    """At 0.1 s, as the Test Set for IVP Solvers has it; the crank turns at 150 rad/s.

    The slider is a mass on the end of the rod, which a constraint keeps on the line y = 0.
    """
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    crank = pp.SpatialInertia(0.36, (0.075, 0, 0), moment_about_origin_B=(0.1, 0.1, 0.002727))
    builder.add_body("crank", joint=Revolute(), inertia=crank)
    builder.add_body(
        "rod", parent="crank", joint=Revolute(), inertia=slider_crank_rod(),
        placement=pp.Pose(translation=(0.15, 0, 0)),
    )  # fmt: skip
    mass = pp.SpatialInertia(0.075552)
    builder.add_body("slider", parent="rod", port="end", joint=Fixed(), inertia=mass)
    model = builder.build(inertia="keep")
    line = pp.constraints.PointOnLine((1, 0, 0), name="line", a="world", b="slider")
    eta = [0, 0, 1.03339863e-5, 1.69327969e-5]
    start = [0.444896105, 4.63434311e-3, -1.78591076e-6, -2.68938672e-6]
    run = pp.simulate(
        pp.System(model, [line]), [0, 0, *eta], [150, -74.9957670 - 150, *start], 0.1,
        prescribed={"crank": 0.0}, rtol=1e-6, atol=1e-10, output_times=[0.1],
    )  # fmt: skip
    turned, angle, *bent = run.q[-1]
    assert turned == pytest.approx(15.0, abs=1e-12)
    assert 15.0 + angle == pytest.approx(-0.33117350, abs=1e-8)
    x = pp.poses(model, run.q[-1], ["slider"])[0][0, 3]
    assert x == pytest.approx(0.16973733, abs=1e-8)
    exact = [1.893193e-4, 2.375751e-5, -5.32390e-6, -8.36331e-6]
    np.testing.assert_allclose(bent, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


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
