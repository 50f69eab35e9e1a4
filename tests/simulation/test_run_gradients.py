"""Gradients through whole compiled runs equal differences of order eight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amounts import ALL, mostly
from circuits_by_hand import H, laws_with_everything, parameter, start, traced
from differences import slope
from numpy.testing import assert_allclose, assert_array_equal
from random_models import random_tree

import phipsi as pp
from phipsi.core.arrays.trace import as_node
from phipsi.errors import PhipsiError, SimulationError
from phipsi.laws.block_diagram import BlockDiagram
from phipsi.native.targets.target import host_target

STEPS = 7
MANY = 37  # more than are multiplied at once
NAMES = ("q", "v", "filtered")


def setup(seed, integrator):
    model = random_tree(seed, 3)
    rng = np.random.default_rng(seed)
    sim = pp.Simulator(model, laws_with_everything(model.nv), H, integrator=integrator)
    q0, v0 = start(model, 2, seed)
    tau = rng.normal(size=(2, STEPS, model.nv))
    sizes = {"q": model.nq, "v": model.nv, "filtered": model.nv}
    weights = {name: rng.normal(size=(2, STEPS + 1, size)) for name, size in sizes.items()}

    def value(q=q0, v=v0, tau=tau, k=0.7, x=0.0):
        state = sim.initial_state(q, v, parameters={"spring.k": k})
        state.laws["filter.x"][...] = x
        run = sim.rollout(state, tau, STEPS, record=NAMES)
        return sum((weights[n] * run[n]).reshape(2, -1).sum(axis=1) for n in NAMES)

    return model, sim, (q0, v0, tau), weights, value, rng


RUNS = [(seed, x) for seed in range(5) for x in ("rk4", "semi_implicit")]


@pytest.mark.parametrize(("seed", "integrator"), RUNS if ALL else [RUNS[0], RUNS[3]])
def test_by_everything(seed, integrator):
    """By the initial state, of laws too, inputs and parameters; on trees with all joints."""
    model, sim, (q0, v0, tau), weights, value, rng = setup(seed, integrator)
    found = sim.gradient(sim.initial_state(q0, v0), tau, STEPS, cotangents=weights)
    assert_allclose(found.value, value(), rtol=1e-13)
    along, more = rng.normal(size=(2, model.nv)), rng.normal(size=tau.shape)
    for name, got, wanted in (
        ("q", found.q * along, slope(lambda e: value(q=model.integrate(q0, e * along)), 1e-4)),
        ("v", found.v * along, slope(lambda e: value(v=v0 + e * along), 1e-3)),
        ("x", found.laws["filter.x"] * along, slope(lambda e: value(x=e * along), 1e-2)),
        ("tau", found.tau * more, slope(lambda e: value(tau=tau + e * more), 1e-3)),
    ):
        size = np.abs(got).max() + np.abs(wanted).max()
        total = got.reshape(2, -1).sum(axis=1)
        assert np.abs(total - wanted).max() < 1e-9 * size, name
        assert np.abs(total * (1 + 1e-6) - wanted).max() > 1e-9 * np.abs(wanted).max(), name
    by_k = slope(lambda e: value(k=0.7 + e), 1e-2)
    assert_allclose(found.parameters["spring.k"], by_k.sum(), rtol=1e-8)
    own = sim.initial_state(q0, v0, parameters={"spring.k": np.array([0.7, 0.7])})
    mine = sim.gradient(own, tau, STEPS, cotangents=weights)
    assert_allclose(mine.parameters["spring.k"], by_k, rtol=1e-8)


def test_the_same_however_it_is_divided():
    """Checkpoints, threads, batches, records between."""
    _, sim, (q0, v0, tau), weights, _, _ = setup(3, "rk4")
    whole = sim.gradient(sim.initial_state(q0, v0), tau, STEPS, cotangents=weights)
    for options in ({"segment": 1}, {"segment": 3}, {"threads": 2}):
        found = sim.gradient(sim.initial_state(q0, v0), tau, STEPS, cotangents=weights, **options)
        assert_array_equal(found.q, whole.q)
        assert_array_equal(found.tau, whole.tau)
        assert_allclose(found.parameters["spring.k"], whole.parameters["spring.k"], rtol=1e-13)
    one = {name: x[0] for name, x in weights.items()}
    alone = sim.gradient(sim.initial_state(q0[0], v0[0]), tau[0], STEPS, cotangents=one)
    assert_array_equal(alone.q, whole.q[0])
    few = {name: x[:, ::3] for name, x in weights.items()}
    thinned = {name: np.zeros_like(x) for name, x in weights.items()}
    for name, x in thinned.items():
        x[:, ::3] = few[name]
    every = sim.gradient(sim.initial_state(q0, v0), tau, STEPS, cotangents=few, record_every=3)
    dense = sim.gradient(sim.initial_state(q0, v0), tau, STEPS, cotangents=thinned)
    assert_array_equal(every.q, dense.q)
    assert_allclose(every.value, dense.value, rtol=1e-14)
    constant = sim.gradient(sim.initial_state(q0, v0), tau[:, 0], STEPS, cotangents=weights)
    assert constant.tau.shape == (2, tau.shape[-1])


def test_equal_to_rollout_gradient():
    """Without laws, the gradient is that of the motion."""
    model = random_tree(8, 4)
    q0, v0 = start(model, 3)
    tau = np.random.default_rng(2).normal(size=(3, 6, model.nv))
    sim = pp.Simulator(model, BlockDiagram({}), H)
    end = np.zeros((7, model.nv))
    end[-1] = np.arange(model.nv)
    found = sim.gradient(sim.initial_state(q0, v0), tau, 6, cotangents={"v": end})
    wanted = pp.rollout_gradient(
        model, q0, v0, tau, H, 6,
        final=lambda q, v: ((v * end[-1]).sum(-1), None, np.broadcast_to(end[-1], v.shape)),
    )  # fmt: skip
    assert_allclose(found.tau, wanted.tau, atol=1e-12 * np.abs(wanted.tau).max())
    assert_allclose(found.q, wanted.q0, atol=1e-12 * np.abs(wanted.q0).max())
    assert_allclose(found.value, wanted.cost, rtol=1e-12)


def test_reproducible_gradients_are_machine_code_alone():
    """Without fused operations, and without NumPy's products of matrices; one lane or many."""
    rng = np.random.default_rng(3)
    first, second = 0.3 * rng.normal(size=(16, 4)), rng.normal(size=(2, 16))

    @pp.law
    def layers(q, v, W):
        return second @ np.tanh(W @ np.concatenate([q, v]))

    found: list[Any] = []
    arm, end = pp.examples.planar_arm(2), np.zeros((9, 2))
    end[-1] = 1.0
    q, W = rng.normal(size=(5, 2)), first * rng.uniform(0.5, 1.5, size=(5, 1, 1))
    for reproducible in (False, True):
        sim = pp.Simulator(arm, layers.bind(W=first), 1e-2, reproducible=reproducible)
        state = sim.initial_state(q, parameters={"layers.W": W})
        found.append(sim.gradient(state, steps=8, cotangents={"q": end}))
        (runs,) = sim.compiled._adjoints.values()
        plans = runs.forward, runs.backward.plan, runs.last.plan
        assert [x.reproducible for x in plans] == 3 * [reproducible]
        assert bool(runs.backward.products["layers.W"]) is not reproducible
    usual, same = found
    assert_array_equal(usual.q.round(12), same.q.round(12))
    for x, y in ((x.tau, x.parameters["layers.W"]) for x in found):
        assert np.abs(x).max() > 1e-7 and np.abs(y).max() > 1e-7
    for x, y in (
        (usual.tau, same.tau),
        (usual.parameters["layers.W"], same.parameters["layers.W"]),
    ):
        assert_allclose(x, y, rtol=1e-10, atol=1e-18)
        assert not (host_target().fused and np.array_equal(x, y))
    for i in range(5):
        state = sim.initial_state(q[i], parameters={"layers.W": W[i]})
        one = sim.gradient(state, steps=8, cotangents={"q": end})
        assert_array_equal(one.q, same.q[i])
        assert_array_equal(one.parameters["layers.W"], same.parameters["layers.W"][i])


def test_by_inertial_parameters():
    """Masses of every trajectory are parameters like those of laws."""
    model = random_tree(4, 4)
    q0, v0 = start(model, 2)
    sim = pp.Simulator(model, (), H, per_trajectory=("inertia",))
    mine = pp.identification.inertial_parameters(model).reshape(-1, 10)
    plain = pp.rollout(model, q0, v0, np.zeros(model.nv), H, STEPS)[0]
    assert_allclose(sim.rollout(sim.initial_state(q0, v0), steps=STEPS).q, plain, atol=1e-13)
    scales = np.array([1.0, 1.3])[:, None, None]
    weights = np.zeros((STEPS + 1, model.nv))
    weights[-1] = 1.0 + np.arange(model.nv)

    def value(e, along):
        given = {"inertia": scales * mine + e * along}
        run = sim.rollout(sim.initial_state(q0, v0, parameters=given), steps=STEPS)
        return (run.v * weights).sum(axis=(1, 2))

    state = sim.initial_state(q0, v0, parameters={"inertia": scales * mine})
    found = sim.gradient(state, None, STEPS, cotangents={"v": weights})
    along = mine * np.random.default_rng(0).uniform(size=mine.shape)
    got = (found.parameters["inertia"] * along).sum(axis=(1, 2))
    wanted = slope(lambda e: value(e, along), 1e-3)
    assert_allclose(got, wanted, atol=1e-8 * np.abs(wanted).max())
    assert np.abs(got * (1 + 1e-6) - wanted).max() > 1e-8 * np.abs(wanted).max()


def test_no_steps():
    model = random_tree(1, 2)
    q0, v0 = start(model, 2)
    sim = pp.Simulator(model, BlockDiagram({}), H)
    found = sim.gradient(sim.initial_state(q0, v0), None, 0, cotangents={"v": 2.0})
    assert_allclose(found.v, 2.0)
    assert_allclose(found.q, 0.0)


def test_errors():
    """Where there is no derivative, and what was not asked right."""
    arm = pp.examples.planar_arm(2)
    k, gain = parameter("odd.k", 0.0)
    circuit = BlockDiagram({"odd.k": k}, efforts=as_node(np.sqrt(gain) + 0 * traced("v", 2)))
    sim = pp.Simulator(arm, circuit, H)
    with pytest.raises(SimulationError, match="gradient is not finite"):
        sim.gradient(sim.initial_state(), None, 2, cotangents={"q": 1.0})
    with pytest.raises(PhipsiError, match="cotangents= must be weights"):
        sim.gradient(sim.initial_state(), None, 2, cotangents={})
    with pytest.raises(PhipsiError, match="'qq' is not among"):
        sim.gradient(sim.initial_state(), None, 2, cotangents={"qq": 1.0})
    with pytest.raises(PhipsiError, match="does not broadcast"):
        sim.gradient(sim.initial_state(), None, 2, cotangents={"q": np.zeros((5, 2))})
    with pytest.raises(PhipsiError, match="not a parameter with a gradient: 'odd.k'"):
        sim.gradient(sim.initial_state(), None, 2, cotangents={"q": 1.0}, parameters=("k",))


def layers(arm, stacked):
    """A law with a layer of 30 tanh on the state; `stacked`: on two copies of it side by side."""

    @pp.law
    def net(q, v, w1, w2, b):
        x = np.concatenate([q, v])
        if stacked:
            y = np.tanh(w1 @ np.stack([x, 2.0 * x], axis=1) + b[:, None])
            return (w2 @ y) @ np.array([1.0, -0.5])
        return w2 @ np.tanh(w1 @ x + b)

    rng = np.random.default_rng(9)
    sizes = {"w1": (30, 2 * arm.nv), "w2": (arm.nv, 30), "b": (30,)}
    return net, {n: 0.05 * rng.normal(size=s) for n, s in sizes.items()}


LAYERS = [(x, stacked) for x in ("rk4", "semi_implicit") for stacked in (False, True)]


@pytest.mark.parametrize(
    ("integrator", "stacked"), mostly(LAYERS, ("rk4", False), ("semi_implicit", True))
)
def test_by_weights_of_layers(integrator, stacked):
    """Of all trajectories together, and of each its own; the same however it is divided."""
    arm = pp.examples.seven_joint_arm()
    net, numbers = layers(arm, stacked)
    q0, v0 = start(arm, 3)
    sim = pp.Simulator(arm, [net.bind(**numbers)], H, integrator=integrator)
    rng = np.random.default_rng(1)
    weights = {"q": rng.normal(size=(3, MANY + 1, arm.nq)), "tau": np.full((MANY + 1, 1), 0.1)}
    found = sim.gradient(sim.initial_state(q0, v0), None, MANY, cotangents=weights)

    def value(**more):
        given = {f"net.{n}": x for n, x in {**numbers, **more}.items()}
        run = sim.rollout(
            sim.initial_state(q0, v0, parameters=given), None, MANY, record=tuple(weights)
        )
        return sum((w * run[n]).reshape(3, -1).sum(axis=1) for n, w in weights.items())

    own = {f"net.{n}": np.stack([x] * 3) for n, x in numbers.items()}
    each = sim.gradient(sim.initial_state(q0, v0, parameters=own), None, MANY, cotangents=weights)
    parts = sim.gradient(
        sim.initial_state(q0, v0), None, MANY, cotangents=weights, segment=11, threads=2
    )
    for name, x in numbers.items():
        along = rng.normal(size=x.shape)
        wanted = slope(lambda e, n=name, x=x, d=along: value(**{n: x + e * d}), 2e-4)
        got = (each.parameters[f"net.{name}"] * along).reshape(3, -1).sum(axis=1)
        assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
        assert not np.allclose(got * (1 + 1e-6), wanted, rtol=1e-9)
        shared = found.parameters[f"net.{name}"]
        size = np.abs(shared).max()
        assert_allclose(shared, each.parameters[f"net.{name}"].sum(axis=0), atol=1e-13 * size)
        assert_allclose(parts.parameters[f"net.{name}"], shared, atol=1e-13 * size)
    one = {n: w[0] if w.ndim == 3 else w for n, w in weights.items()}
    first = sim.initial_state(q0[0], v0[0], parameters={n: x[0] for n, x in own.items()})
    alone = sim.gradient(first, None, MANY, cotangents=one)
    for name, x in alone.parameters.items():
        assert_array_equal(x, each.parameters[name][0])
