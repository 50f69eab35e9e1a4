"""Runs with contacts: gradients, certificates, the same bits in any batch, rejected input."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest
from contact_problems import Scene
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp

BALL = pp.shapes.Sphere(0.1)


def bouncing(**more):
    """A ball that falls onto a floor and slides."""
    scene = Scene(friction=0.3, **more)
    scene.add("ball", BALL, 1.0, (0, 0, 0.12), (1.0, 0.3, -2.0), (0.2, 0.1, 3.0))
    return scene.system()


@pytest.mark.parametrize("e", [0.0, 0.5])
def test_gradients_through_an_impact(e):
    system, q, v = bouncing(restitution=e)
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    steps, nv = 30, 6
    weight = np.zeros((steps + 1, nv))
    weight[-1] = np.random.default_rng(1).normal(size=nv)
    found = sim.gradient(sim.start(q, v), np.zeros((steps, nv)), steps, of={"v": weight})

    def value(dq, dv):
        start = sim.start(system.model.integrate(q, dq), v + dv)
        run = sim.rollout(start, steps=steps, record=("v",), progress=False)
        return (run.v[..., -1, :] * weight[-1]).sum(-1)

    step, none = 1e-6 * np.eye(nv), np.zeros((nv, nv))
    by_v = (value(none, step) - value(none, -step)) / 2e-6
    by_q = (value(step, none) - value(-step, none)) / 2e-6
    assert_allclose(found.v, by_v, atol=1e-7)
    assert_allclose(found.q, by_q, atol=1e-7)
    assert np.abs(by_v).max() > 0.1
    twin = pp.Simulator(bouncing(restitution=e + 1e-3)[0], dt=1e-3, integrator="time_stepping")
    other = twin.gradient(twin.start(q, v), None, steps, of={"v": weight})
    assert np.abs(other.v - by_v).max() > 1e-6


def test_bits_do_not_depend_on_company():
    scene = Scene(friction=0.6)
    scene.add(
        "box", pp.shapes.Box((0.2, 0.3, 0.1)), 2.0, (0, 0, 0.08), (0.5, 0.1, -1.0), (1.0, 2.0, 0.5)
    )
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
    rng = np.random.default_rng(4)
    rates = v + 0.3 * rng.normal(size=(11, 6))
    many = sim.rollout(sim.start(np.tile(q, (11, 1)), rates), steps=150, progress=False)
    for i in (0, 5, 10):
        one = sim.rollout(sim.start(q, rates[i]), steps=150, progress=False)
        assert_array_equal(one.q, many.q[i])
    proof = many.certificate
    assert proof.gain.max() <= 1e-13
    assert proof.residual.max() < 1e-7
    flagged = proof.residual > 1e-10  # never without a word
    assert_array_equal(proof.unsolved[flagged] > 0, True)
    assert proof.unsolved.sum() <= 3 and proof.is_clean == (not flagged.any())


def test_machine_code_agrees_with_arrays():
    system, q, v = bouncing(restitution=0.4)
    sim = pp.Simulator(system, dt=5e-3, integrator="time_stepping")
    state, impulses = sim.start(q, v), None
    at = q, v
    for _ in range(8):
        found = pp.contact_step(system, *at, dt=5e-3, impulses=impulses)
        sim.step(state)
        at, impulses = (found.q, found.v), found.impulses
        assert_allclose(state.q, found.q, atol=1e-13)
        assert_allclose(state.v, found.v, atol=1e-12)
        assert_allclose(state.laws["contact.impulses"], impulses, atol=1e-9)
        assert found.solved


def test_energy_is_accounted_for():
    scene = Scene(friction=0.4)
    scene.add("ball", BALL, 1.0, (0, 0, 0.1), (1.0, 0, 0))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    run = sim.rollout(sim.start(q, v), steps=200, progress=False)
    lost = 0.5 * 1.0**2 - pp.kinetic_energy(system, run.q[-1], run.v[-1])
    # the weight works against the floor within a step: −½ m g² h² each
    press = 200 * 0.5 * 9.81**2 * 1e-6
    assert run.certificate.dissipated - press == pytest.approx(lost, rel=1e-3)


def test_systems_with_contacts_keep_them():
    system, q, v = bouncing()
    again = pickle.loads(pickle.dumps(system))
    assert again == system and again.contact_pairs == system.contact_pairs
    light = system.with_gravity((0, 0, -1.62))
    found = pp.contact_step(light, q, v, dt=1e-3)
    assert found.v[5] > pp.contact_step(system, q, v, dt=1e-3).v[5]
    assert "1 pair of shapes" in repr(system)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda s, q, v: pp.Simulator(s, dt=1e-3), "time_stepping"),
        (lambda s, q, v: pp.Simulator(s.model, integrator="time_stepping"), "pp.Contacts"),
        (lambda s, q, v: pp.contact_step(s.model, q, v), "pp.Contacts"),
        (lambda s, q, v: pp.contact_step(s, q, v, impulses=np.zeros((2, 6))), "impulses"),
        (lambda s, q, v: pp.contact_step(s, q, np.zeros((2, 6)), np.zeros((3, 6))), "broadcast"),
        (lambda s, q, v: pp.contact_step("robot", q, v), "the model first"),
        (lambda s, q, v: pp.System(s.model, contacts=True), "pp.Contacts"),
        (lambda s, q, v: pp.System(pp.examples.planar_arm(2), contacts=s.contact_pairs), "another"),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, integrator="rk4"), "events of contacts"),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, prescribed={"ball": 0.0}), "prescribed="),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, quadratures={"contacts": abs}), "another name"),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, integrator="time_stepping", work=True), "work="),
        (lambda s, q, v: pp.simulate(bouncing(stiffness=1e4)[0], q, v, 1.0), "stiffness"),
        (lambda s, q, v: pp.forward_dynamics(s, q, v, np.zeros(6)), "contact_step"),
    ],
)  # fmt: skip
def test_rejected(call, why):
    with pytest.raises(pp.PhipsiError, match=why):
        call(*bouncing())


def test_a_run_without_contacts_has_no_certificate():
    sim = pp.Simulator(pp.examples.planar_arm(1), dt=1e-3)
    run = sim.rollout(sim.start(), steps=1, progress=False)
    with pytest.raises(pp.PhipsiError, match="no contacts to certify"):
        _ = run.certificate


def test_deep_overlap_is_reported_and_separated_on_request():
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    deep = np.tile(q, (3, 1))
    deep[1, 6] = 0.05
    with pytest.raises(pp.PhipsiError, match=r"trajectory \[1\] 'ball\|floor' overlap by 0\.05 m"):
        sim.start(deep, v)
    state = sim.start(deep, np.zeros(6), separate=True)
    sim.step(state)
    assert_allclose(state.q[1, 6], 0.1, atol=1e-12)  # on the floor, and at rest
    assert_allclose(state.v[1], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        (0, -0.1, "friction of 'ball.floor' is negative"),
        (1, 0.01, "torsion 0.01 for 'ball.floor', whose material has none"),
        (3, 0.5, "restitution 0.5 for"),
    ],
)
def test_materials_of_trajectories_that_do_not_fit(column, value, why):
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    materials = sim.parameters["contact.materials"].copy()
    materials[:, column] = value
    with pytest.raises(pp.PhipsiError, match=why):
        sim.start(q, v, parameters={"contact.materials": materials})


def test_trajectories_have_their_own_friction():
    scene = Scene(friction=0.5)
    scene.add("ball", BALL, 1.0, (0, 0, 0.1), (2.0, 0, 0))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    own = np.tile(sim.parameters["contact.materials"], (3, 1, 1))
    own[:, :, 0] = np.array([0.1, 0.2, 0.3])[:, None]
    state = sim.start(q, v, parameters={"contact.materials": own})
    sim.step(state, steps=50)
    speed = scene.velocity(state.q, state.v)[:, 0]
    assert_allclose(speed, 2.0 - 9.81 * 0.05 * np.array([0.1, 0.2, 0.3]), atol=1e-9)


def test_a_mechanism_that_touched_is_forgotten():
    def used():
        system, q, v = bouncing()
        sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
        sim.step(sim.start(q, v))
        pp.contact_points(system, q)
        pp.contact_step(system, q, v)
        return weakref.ref(system), weakref.ref(system.model)

    found = used()
    gc.collect()
    assert [x() for x in found] == [None, None]
