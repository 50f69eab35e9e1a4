"""Joint damping taken implicitly: equal to dense matrices, stable at any stiffness, order one."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
from amounts import seeds
from circuits_by_hand import H, parameter, start, state, traced
from differences import slope
from known_systems import four_bar
from numpy.testing import assert_allclose, assert_array_equal
from random_models import random_tree

import phipsi as pp
from phipsi.algorithms.kinematics.exponential_chart import chart_of
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.primitive_calls import call
from phipsi.core.arrays.trace import as_node
from phipsi.errors import InputError, SimulationError
from phipsi.laws.block_diagram import BlockDiagram
from phipsi.simulation.integrators.graph_steps import step_of
from phipsi.simulation.integrators.step_graph import StepGraph
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.kinematic_loops.closure_calls import AccelerationCall


def damped(nv: int, damping: Any, *others: Any) -> BlockDiagram:
    """−c v, with c a parameter, and more efforts."""
    c, value = parameter("damper.c", np.broadcast_to(np.asarray(damping, float), nv))
    total = -value * traced("v", nv)
    for other in others:
        total = total + other
    return BlockDiagram({"damper.c": c}, efforts=as_node(total))


def by_hand(model, q, v, T, C, h=H, rotors: Any = 0.0):
    """The step with dense matrices."""
    M = pp.mass_matrix(model, q) + rotors
    return chart_of(model).euler(q, v, np.linalg.solve(M + h * np.diag(C), T), h)


@pytest.mark.parametrize("seed", seeds(6))
def test_equal_to_dense_matrices(seed):
    """On trees with all joints, with and without rotors; coupled dampers: the diagonal only."""
    model = random_tree(seed, 2 + seed, armature=bool(seed % 2))
    nv, rng = model.nv, np.random.default_rng(seed)
    c, K = rng.uniform(0, 1e4, nv), rng.normal(size=(nv, nv))
    sim = pp.Simulator(model, damped(nv, c, K @ traced("v", nv)), H, integrator="implicit_damping")
    q0, v0 = start(model, 3, seed)
    own = np.array([c, 0.5 * c, 0.001 * c])
    mixed = np.diag(K) if nv <= 16 else 0.0  # of more joints it is explicit
    run = sim.rollout(sim.initial_state(q0, v0, parameters={"damper.c": own}), steps=6)
    for i in range(3):
        q, v = q0[i], v0[i]
        for k in range(6):
            T = K @ v - own[i] * v - pp.inverse_dynamics(model, q, v, np.zeros(nv))
            q, v = by_hand(model, q, v, T, np.maximum(own[i] - mixed, 0.0))
            assert_allclose(run.q[i, k + 1], q, atol=1e-13)
            assert_allclose(run.v[i, k + 1], v, atol=1e-12 * (1 + np.abs(v).max()))


def test_rotors_of_every_trajectory():
    """`per_trajectory=("Jr",)`: damping is added to rotors that trajectories have of their own."""
    model = random_tree(4, 4)
    sim = pp.Simulator(
        model, damped(model.nv, 30.0), H, integrator="implicit_damping", per_trajectory=("Jr",)
    )
    rotors = (
        pp.compile("D", model, mode="blocks")(model.neutral())
        * np.array([0.1, 0.7])[:, None, None, None]
    )
    q0, v0 = start(model, 2)
    run = sim.rollout(sim.initial_state(q0, v0, parameters={"Jr": rotors}), steps=3)
    for i in range(2):
        q, v = q0[i], v0[i]
        own = np.zeros((model.nv, model.nv))
        for k, at in enumerate(model.v_slices):
            own[at, at] = rotors[i, k, : at.stop - at.start, : at.stop - at.start]
        for k in range(3):
            T = -30 * v - pp.inverse_dynamics(model, q, v, np.zeros(model.nv))
            q, v = by_hand(model, q, v, T, np.full(model.nv, 30.0), rotors=own)
            assert_allclose(run.v[i, k + 1], v, atol=1e-11)


def test_without_damping_it_is_semi_implicit():
    model = random_tree(3, 4)
    q0, v0 = start(model, 5)
    laws = BlockDiagram({}, efforts=as_node(np.sin(3 * traced("t")) * np.ones(model.nv)))
    runs = []
    for integrator in ("semi_implicit", "implicit_damping"):
        sim = pp.Simulator(model, laws, H, integrator=integrator)
        runs.append(sim.rollout(sim.initial_state(q0, v0), steps=9))
    assert_array_equal(runs[0].q, runs[1].q)
    assert_array_equal(runs[0].v, runs[1].v)


@pytest.mark.parametrize("joints", [pp.examples.planar_arm(4), random_tree(5, 5)], ids=str)
def test_dampers_a_thousand_times_faster_than_the_step(joints):
    """They hold the joints against gravity, creeping at tau/c; explicit steps blow up."""
    nv = joints.nv
    q0, v0 = start(joints, 2)
    v0[0] *= 20
    c = 1000 * np.linalg.eigvalsh(pp.mass_matrix(joints, q0)).max() / H
    laws = damped(nv, c)
    sim = pp.Simulator(joints, laws, H, integrator="implicit_damping")
    run = sim.rollout(sim.initial_state(q0, v0), steps=50)
    last = run.q[:, -1]
    creep = -pp.gravity_forces(joints, last) / c
    assert_allclose(run.v[:, -1], creep, rtol=1e-2, atol=1e-3 * np.abs(creep).max())
    for integrator in ("semi_implicit", "rk4"):
        other = pp.Simulator(joints, laws, H, integrator=integrator)
        with pytest.raises(SimulationError, match="failed in step"):
            other.rollout(other.initial_state(q0, v0), steps=200)


def test_order_one():
    """With dampers, friction and a law's own state, against RK4 with tiny steps."""
    model = random_tree(2, 4)
    nv = model.nv
    filtered, x = state("filter.x", np.zeros(nv))
    v = traced("v", nv)
    efforts = as_node(-0.5 * v - 0.2 * np.tanh(v / 0.3) - 0.4 * x)
    laws = BlockDiagram({"filter.x": filtered}, efforts=efforts, rates={"filter.x": as_node(v - x)})
    q0, v0 = start(model, 1)

    def end(integrator, steps):
        sim = pp.Simulator(model, laws, 0.2 / steps, integrator=integrator)
        run = sim.rollout(sim.initial_state(q0[0], v0[0]), steps=steps, record_every=steps)
        return run.q[-1], run.v[-1]

    exact = end("rk4", 400)

    def error(steps):
        q, v = end("implicit_damping", steps)
        return np.linalg.norm(model.difference(exact[0], q)) + np.linalg.norm(v - exact[1])

    assert abs(np.log2(error(80) / error(160)) - 1) < 0.2


def test_energy_that_dampers_take():
    """ΔE = −∫ c v² dt, to first order."""
    model = pp.examples.planar_arm(3)
    c, gaps = np.array([0.4, 0.3, 0.2]), []
    for dt in (2e-3, 1e-3):
        sim = pp.Simulator(model, damped(3, c), dt, integrator="implicit_damping")
        run = sim.rollout(
            sim.initial_state([0.5, 0.3, -0.4], [1.0, 0.0, 2.0]), steps=round(0.5 / dt)
        )
        energy = pp.kinetic_energy(model, run.q, run.v) + pp.potential_energy(model, run.q)
        power = (c * run.v**2).sum(axis=-1)
        taken = dt * (power[:-1] + power[1:]).sum() / 2
        gaps.append(abs(energy[-1] - energy[0] + taken))
    assert taken > 0.5
    assert gaps[1] < 0.05 * taken and gaps[1] < 0.6 * gaps[0]


def test_agrees_with_mujoco(tmp_path):
    """Its implicitfast integrator takes the derivatives of dampers by v as well."""
    text = """<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody>
      <body><joint name="a" axis="0 1 0" damping="40" armature="0.01"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0.5 0 0" contype="0" conaffinity="0"/>
        <body pos="0.5 0 0"><joint name="b" axis="0 0 1" damping="300"/>
          <geom type="capsule" size="0.03" fromto="0 0 0 0.4 0 0" contype="0" conaffinity="0"/>
        </body></body></worldbody></mujoco>"""
    theirs = mujoco.MjModel.from_xml_string(text)
    (tmp_path / "arm.xml").write_text(text)
    model = pp.load(tmp_path / "arm.xml")
    data = mujoco.MjData(theirs)
    data.qvel[:] = [3.0, -2.0]
    sim = pp.Simulator(model, damped(2, [40.0, 300.0]), 0.002, integrator="implicit_damping")
    state = sim.initial_state(np.zeros(2), [3.0, -2.0])
    for _ in range(100):
        mujoco.mj_step(theirs, data)
        sim.step(state)
        assert_allclose(state.q, data.qpos, atol=1e-9)
        assert_allclose(state.v, data.qvel, atol=1e-7)


def test_same_bits_however_it_is_run():
    model = random_tree(5, 4)
    v = traced("v", model.nv)
    laws = damped(model.nv, 20.0, -0.3 * np.tanh(v / 0.01))
    sim = pp.Simulator(model, laws, H, integrator="implicit_damping")
    q0, v0 = start(model, 11)
    whole = sim.rollout(sim.initial_state(q0, v0), steps=20)
    alone = sim.rollout(sim.initial_state(q0[4], v0[4]), steps=20)
    assert_array_equal(alone.q, whole.q[4])
    threads = sim.rollout(sim.initial_state(q0, v0), steps=20, threads=2)
    assert_array_equal(threads.v, whole.v)


def test_gradients():
    """The damping is differentiated too: weights of a step, against differences."""
    model = random_tree(1, 3, armature=True)
    nv = model.nv
    v = traced("v", nv)
    circuit = damped(nv, 3.0, -0.3 * np.tanh(v / 0.2))
    graph = StepGraph(model, circuit)
    end = step_of(graph, METHODS["implicit_damping"])
    q0, v0 = start(model, 1)
    rng = np.random.default_rng(1)
    values = {"q": q0[0], "v": v0[0], "tau": rng.normal(size=nv), "t": 0.0, "h": 0.05}
    values["damper.c"] = rng.uniform(1, 3, nv)
    weights = [rng.normal(size=x.shape) for x in (end.q, end.v)]
    inputs = [graph.start.v, graph.tau, circuit.quantities["damper.c"].node]
    found: Any = adjoints([end.q, end.v], [ops.constant(w) for w in weights], inputs)
    for bar, name in zip(evaluate(found, values), ("v", "tau", "damper.c"), strict=True):

        def cost(x, name=name):
            at = evaluate([end.q, end.v], {**values, name: x})
            return sum((w * a).sum() for w, a in zip(weights, at, strict=True))

        wanted = [
            (cost(values[name] + s) - cost(values[name] - s)) / 2e-6 for s in 1e-6 * np.eye(nv)
        ]
        assert_allclose(bar, wanted, atol=2e-8)
        assert np.abs(wanted).max() > 1e-3


def test_gradients_through_runs():
    """By the initial rates and the damping of every trajectory, in machine code."""
    model = random_tree(2, 3, armature=True)
    nv = model.nv
    laws = damped(nv, 3.0, -0.3 * np.tanh(traced("v", nv) / 0.2))
    sim = pp.Simulator(model, laws, 0.02, integrator="implicit_damping")
    q0, v0 = start(model, 2)
    rng = np.random.default_rng(1)
    c = rng.uniform(1, 3, (2, nv))
    weights = {"q": rng.normal(size=(2, 6, model.nq)), "v": rng.normal(size=(2, 6, nv))}

    def value(v=v0, c=c):
        run = sim.rollout(sim.initial_state(q0, v, parameters={"damper.c": c}), steps=5)
        return sum((weights[n] * run[n]).sum(axis=(1, 2)) for n in ("q", "v"))

    found = sim.gradient(
        sim.initial_state(q0, v0, parameters={"damper.c": c}), steps=5, cotangents=weights
    )
    along = rng.normal(size=(2, nv))
    for got, wanted in (
        (found.v, slope(lambda e: value(v=v0 + e * along), 1e-3)),
        (found.parameters["damper.c"], slope(lambda e: value(c=c + e * along), 1e-2)),
    ):
        assert_allclose((got * along).sum(axis=1), wanted, rtol=1e-9)


def test_rotors_of_closed_chains_have_weights_too():
    """A change of Jr acts as efforts, whatever the loops are."""
    system = four_bar()
    q, v = system.project(system.assemble([1.0, -0.8, -1.5]), [1.0, 0.0, 0.0])
    callee = AccelerationCall(system, given=("Jr",))
    sizes = {"q": (3,), "v": (3,), "tau": (3,), "Jr": callee.given_shape("Jr")}
    inputs = {name: ops.input(name, shape) for name, shape in sizes.items()}
    vdot, _ = call(callee, *inputs.values())
    weights, own = np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3])
    values = {"q": q, "v": v, "tau": own, "Jr": own[:, None, None]}
    found: Any = adjoints([vdot], [ops.constant(weights)], [inputs["Jr"]])
    for i, got in enumerate(evaluate(found, values)[0].ravel()):
        step = np.eye(3)[i][:, None, None]
        wanted = slope(
            lambda e, d=step: weights @ evaluate([vdot], {**values, "Jr": values["Jr"] + e * d})[0],
            1e-3,
        )
        assert abs(got - wanted) < 1e-9


def test_not_of_simulate():
    with pytest.raises(InputError, match=r"needs the derivatives of laws(.|\n)*pp\.Simulator"):
        pp.simulate(pp.examples.planar_arm(2), [0, 0], [0, 0], 1, integrator="implicit_damping")
    with pytest.raises(InputError, match="rollout: integrator="):
        pp.rollout(
            pp.examples.planar_arm(2), [0, 0], [0, 0], [0, 0], 1e-3, 5,
            integrator="implicit_damping",
        )  # fmt: skip
