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


@pytest.mark.usefixtures("machine_code")
def test_simulate_agrees_and_its_energy_has_the_elastic_part():
    model = chain()
    q0, v0 = start(model)
    run = pp.simulate(model, q0, v0, 0.05, integrator="rk4", dt=5e-4)
    q, v = pp.rollout(model, q0, v0, np.zeros(model.nv), 5e-4, 100)
    assert_allclose(run.q[-1], q[-1], atol=1e-12)
    assert_allclose(run.energy, energy(model, run.q, run.v), rtol=1e-12)


def errors_of(integrator, *steps):
    """How far the chain is from where short steps of rk4 take it, for pairs (step, how many)."""
    model = chain()
    q0, v0 = start(model)
    zero = np.zeros(model.nv)
    exact = pp.rollout(model, q0, v0, zero, 1e-4, 200)[0][-1]
    ends = [pp.rollout(model, q0, v0, zero, h, n, integrator=integrator)[0][-1] for h, n in steps]
    return [np.abs(end - exact).max() for end in ends]


def test_semi_implicit_steps_converge():
    first, second = errors_of("semi_implicit", (1e-3, 20), (5e-4, 40))
    assert second < 0.6 * first


@cache
def stiff_arm():
    """Links whose stretch vibrates at 1e4 rad/s."""
    beam = pp.FlexibleInertia.beam(
        0.5, 2.0, EI=2000.0, EA=1.7e7, modes=0, rotary_inertia=2e-4, damping_ratio=0.01
    )
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    for i in range(20):
        builder.add_body(
            f"link{i}",
            parent=f"link{i - 1}" if i else "world",
            port="tip" if i else None,
            joint=pp.joints.Revolute((0, 1, 0)),
            inertia=beam,
        )
    return builder.build()


def test_stiff_modes_at_ordinary_steps():
    model = stiff_arm()
    assert model.flexible[0].frequencies.max() > 1e4
    v0 = np.zeros(model.nv)
    v0[0] = 1.0
    q, v = pp.rollout(model, model.neutral(), v0, v0 * 0, 1e-2, 100, integrator="linearly_implicit")
    assert np.isfinite(q).all()
    found = energy(model, q, v)
    assert np.ptp(found) < 1e-3 * found[0]
    with pytest.raises(pp.errors.SimulationError):
        pp.rollout(model, model.neutral(), v0, v0 * 0, 1e-2, 100, integrator="semi_implicit")
    with pytest.raises(pp.errors.SimulationError, match="Try integrator='linearly_implicit' for"):
        pp.simulate(model, model.neutral(), v0, 1.0, integrator="semi_implicit", dt=1e-2)


def test_a_linearly_implicit_step_is_its_formula():
    model = chain(0.05)
    q, v = start(model)
    q = model.integrate(q, 0.01 * v)
    tau, h = np.linspace(-1, 1, model.nv), 1e-2
    K, C = np.zeros((2, model.nv, model.nv))
    for k, n in enumerate(model.modes):
        at = slice(model.v_slices[k].stop - n, model.v_slices[k].stop)
        K[at, at], C[at, at] = model.flexible[k].stiffness, model.flexible[k].damping
    mass = pp.mass_matrix(model, q)
    load = tau - pp.bias_forces(model, q, v) - h * K @ v
    after = v + h * np.linalg.solve(mass + h * C + h * h * K, load)
    options = {"integrator": "linearly_implicit"}
    found_q, found_v = pp.rollout(model, q, v, tau, h, 1, **options)
    joint = model.v_slices[1]  # rates of a free body also turn with its axes
    assert_allclose(found_v[-1, joint], after[joint], rtol=1e-9)
    assert_allclose(found_q[-1, -joint.stop + joint.start :], (q[-3:] + h * after[-3:]), rtol=1e-9)
    run = pp.simulate(model, q, v, h, controller=lambda t, q, v: tau, dt=h, **options)
    assert_allclose(run.q[-1], found_q[-1], rtol=1e-11, atol=1e-13)


def test_linearly_implicit_steps_converge_and_without_modes_are_semi_implicit():
    first, second = errors_of("linearly_implicit", (2.5e-4, 80), (1.25e-4, 160))
    assert second < 0.6 * first
    arm = pp.examples.planar_arm(2)
    runs = [
        pp.rollout(arm, [0.1, 0.2], [1.0, 0.0], [0.0, 0.0], 1e-3, 20, integrator=name)[0]
        for name in ("linearly_implicit", "semi_implicit")
    ]
    assert_allclose(*runs, rtol=1e-10)
