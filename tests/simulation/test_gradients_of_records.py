"""Gradients of every record of a run, against differences of what `rollout` records itself."""

from __future__ import annotations

import known_systems
import numpy as np
import pytest
from amounts import ALL
from circuits_by_hand import start
from differences import slope
from numpy.testing import assert_allclose
from random_models import random_tree

import phipsi as pp

DT = 1e-2
INTEGRATORS = ("rk4", "implicit_midpoint", "semi_implicit", "implicit_damping", "variational")


@pp.law
def feel(q, v, t, tau_given, kp):
    """Reads the given efforts, of the last record too."""
    cost = tau_given @ tau_given + np.sin(q).sum() + t
    return {"tau": -kp * np.tanh(v), "cost": cost, "power": tau_given * v}


@pp.law(discrete={"n": 0.2})
def sums(q, v, n, ki):
    return {"tau": -ki * n * v, "n": 0.9 * n + 0.1 * np.sin(q[0]), "y": n * v}


@pp.law
def memory(v, p, load, g):
    return {"tau": g * p - 0.05 * load, "seen": p * v}


def laws(nv):
    """Held, late, summed and remembered values, noise, and a force element."""
    before = pp.signals.previous("digital", initial=0.1 * np.ones(nv))
    return [
        feel.bind(kp=3.0),
        feel.named("digital").bind(kp=2.0).sampled(50.0, delay=1),
        sums.bind(ki=0.3),
        sums.named("slow").bind(ki=0.2).sampled(100 / 3),
        memory.bind(p=before, load=pp.signals.previous(pp.signals.joint_efforts()), g=0.4),
        pp.law(lambda v, w: w * v, name="shake").bind(w=pp.signals.noise()),
        pp.forces.JointDamper(None, 0.1),
    ]


def check(sim, q0, v0, tau, steps, every=1, names=None, *, own=None, by_state=True, e=1e-3):
    """The gradient of weighted records by everything, along random directions."""
    rng = np.random.default_rng(steps)
    names, batch, own = sim.recordable if names is None else names, v0.shape[:-1], own or {}
    kept = steps // every + 1
    weights = {n: rng.normal(size=(*batch, kept, *sim.shape_of(n))) for n in names}

    def value(q=q0, v=v0, tau=tau, parameters=own, written=None):
        state = sim.initial_state(q, v, parameters=parameters)
        for name, x in (written or {}).items():
            state.laws[name][...] = x
        run = sim.rollout(state, tau, steps, record_every=every, record=names)
        return sum((weights[n] * run[n]).sum() for n in names)

    begin = sim.initial_state(q0, v0, parameters=own)
    found = sim.gradient(begin, tau, steps, record_every=every, cotangents=weights)
    run = sim.rollout(begin, tau, steps, record_every=every, record=names)
    size = sum(np.abs(weights[n] * run[n]).sum() for n in names)
    assert abs(found.value.sum() - value()) < 1e-13 * size
    along, push = rng.normal(size=v0.shape), rng.normal(size=tau.shape)
    assert found.tau.shape == tau.shape
    both = []
    if steps:
        last = np.zeros_like(push)
        last[..., -1, :] = push[..., -1, :]
        both.append((found.tau * push, lambda h: value(tau=tau + h * push)))
        both.append((found.tau * last, lambda h: value(tau=tau + h * last)))
    if by_state:
        both.append((found.q * along, lambda h: value(q=sim.model.integrate(q0, h * along))))
        both.append((found.v * along, lambda h: value(v=v0 + h * along)))
    for name, got in found.parameters.items():
        x = np.asarray(own.get(name, sim.parameters[name]))
        d = x * rng.normal(size=x.shape)
        both.append((got * d, lambda h, n=name, x=x, d=d: value(parameters={**own, n: x + h * d})))
    for name in (x for x in found.laws if not x.startswith("contact.")):
        x, d = begin.laws[name].copy(), rng.normal(size=begin.laws[name].shape)
        both.append(
            (found.laws[name] * d, lambda h, n=name, x=x, d=d: value(written={n: x + h * d}))
        )
    for got, moved in both:
        assert abs(got.sum() - slope(moved, e)) < 1e-8 * np.abs(got).max() + 1e-13 * size / e


@pytest.mark.parametrize("integrator", INTEGRATORS if ALL else INTEGRATORS[:2])
def test_every_record_of_a_tree(integrator):
    """With efforts of the last step in the last record, and parameters of every trajectory."""
    model = random_tree(6, 3)
    sim = pp.Simulator(model, laws(model.nv), DT, integrator=integrator)
    q0, v0 = start(model, 2)
    for steps, every in ((0, 1), (1, 1), (5, 1), (7, 4)):
        tau = np.random.default_rng(steps).normal(size=(2, steps, model.nv))
        check(sim, q0, v0, tau, steps, every, own={"feel.kp": np.array([2.0, 3.0])})
    # the failing twin: without the last record the efforts of the last step count less
    tau = tau[:, :1]
    whole = sim.gradient(sim.initial_state(q0, v0), tau, 1, cotangents={"tau": 1.0}).tau
    less = sim.gradient(
        sim.initial_state(q0, v0), tau, 1, cotangents={"tau": np.array([[1.0], [0.0]])}
    ).tau
    assert np.abs(whole - less).min() > 0.01


def test_every_record_of_a_loop():
    system = known_systems.four_bar()
    q = system.assemble(np.array([1.0, -1.0, -1.5]))
    loads = pp.law(lambda f: {"f": f}, name="loads").bind(f=pp.signals.constraint_efforts())
    sim = pp.Simulator(system, [*laws(system.nv), loads], DT)
    q0, v0 = np.array([q, q]), np.zeros((2, system.nv))
    for steps in (1, 4):
        tau = np.random.default_rng(steps).normal(size=(2, steps, system.nv))
        check(sim, q0, v0, tau, steps, by_state=False)


def test_every_record_of_bodies_that_touch():
    ball = pp.ModelBuilder()
    ball.add_body("b", joint=pp.joints.Free(), inertia=pp.SpatialInertia.sphere(0.1, mass=1.0))
    ball.add_shape("b", "b", pp.shapes.Sphere(0.1))
    model = ball.build()
    drag = pp.law(lambda q, v, c: {"tau": -c * v, "y": q[4:]}, name="drag").bind(c=0.3)
    force = pp.law(lambda f: {"f": f}, name="felt").bind(f=pp.signals.contact_force("b|ground"))
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    sim = pp.Simulator(system, [drag.sampled(50.0), force], DT, integrator="time_stepping")
    q0 = np.array([[1, 0, 0, 0, 0, 0, 0.1012], [1, 0, 0, 0, 0, 0, 0.2]])
    v0 = np.array([[0, 0, 0, 1.0, 0, -0.5], [0, 1, 0, 0.5, 0.2, -1.0]])
    names = ("q", "v", "tau", "vdot", "drag.y", "drag.tau", "felt.f", "contact.impulses")
    tau = 0.2 * np.random.default_rng(0).normal(size=(2, 4, 6))
    check(sim, q0, v0, tau, 4, names=names, e=1e-5)


def test_efforts_of_a_record_without_steps():
    """There is one record: constant efforts act in it, and there are none for no step."""
    model = pp.examples.planar_arm(2)
    sim = pp.Simulator(model, [feel.bind(kp=3.0)], DT)
    names = ("tau", "vdot", "feel.cost")
    tau = np.array([0.3, -0.4])

    def value(tau):
        run = sim.rollout(sim.initial_state([0.1, 0.2]), tau, 0, record=names)
        return sum(run[n].sum() for n in names)

    found = sim.gradient(
        sim.initial_state([0.1, 0.2]), tau, 0, cotangents=dict.fromkeys(names, 1.0)
    )
    assert_allclose(found.value, value(tau), rtol=1e-14)
    wanted = [slope(lambda e, d=d: value(tau + e * d), 1e-3) for d in np.eye(2)]
    assert_allclose(found.tau, wanted, rtol=1e-9)
    none = sim.gradient(
        sim.initial_state([0.1, 0.2]), np.zeros((0, 2)), 0, cotangents=dict.fromkeys(names, 1.0)
    )
    assert none.tau.shape == (0, 2)
    assert_allclose(none.value, value(np.zeros((0, 2))), rtol=1e-14)
    assert_allclose(none.value, value(np.zeros(2)), rtol=1e-14)
