"""Live pages of bodies that deform, in Node: bits of rollouts, energies, and a hand that bends."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import Any

import amounts
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from physics_in_node import in_node, physics_folder

import phipsi as pp
from phipsi.pages.live_modes import integrator_of_modes
from phipsi.pages.live_page import LivePhysics, live_physics, simulator_of
from phipsi.pages.scene import scene_description, scene_of_any_motion

STIFF = pp.FlexibleInertia.beam(1.0, 1.0, EI=(40.0, np.inf), modes=0, damping_ratio=0.01)
SHAPE = STIFF.shape
assert SHAPE is not None
Q = np.array([0.2, 0.03, -0.002, 0.5])
V = np.array([0.4, 0.1, -0.05, -0.3])


@cache
def arm() -> pp.Model:
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body("beam", inertia=STIFF)
    ball = pp.SpatialInertia.sphere(0.05, mass=0.2)
    builder.add_body("ball", parent="beam", port="tip", inertia=ball)
    return builder.build()


@cache
def built(integrator: str) -> tuple[pp.Simulator, Any, LivePhysics]:
    sim = pp.Simulator(arm(), dt=2e-3, integrator=integrator, reproducible=True)
    state = sim.initial_state(Q, V)
    return sim, state, live_physics(sim, state)


@pytest.fixture(scope="module")
def run_in_node(tmp_path_factory):
    return partial(in_node, physics_folder(tmp_path_factory.mktemp("modes")))


@pytest.mark.parametrize("integrator", ["linearly_implicit", "rk4"][: 1 + amounts.ALL])
def test_steps_have_the_bits_of_a_rollout(integrator, run_in_node):
    sim, state, physics = built(integrator)
    body = """
    const rows = [];
    for (let i = 0; i < 4; i++) {
      if (i) physics.advance(100);
      rows.push([list(values.q), list(values.v)]);
    }
    return rows;
    """
    found = run_in_node(physics, body)
    run = sim.rollout(state, steps=300, record_every=100)
    assert_array_equal([q for q, _ in found], run.q)
    assert_array_equal([v for _, v in found], run.v)
    assert np.abs(run.q[-1, 1:3]).max() > 1e-6  # it bends
    other = state.copy()
    other.q[..., 1] += 1e-15
    assert not np.array_equal(sim.rollout(other, steps=300, record_every=300).v[-1], run.v[-1])


def test_energies_are_those_of_the_functions(run_in_node):
    _, _, physics = built("linearly_implicit")
    found = run_in_node(physics, "physics.look(); return list(values.energies);")
    expected = [
        pp.kinetic_energy(arm(), Q, V),
        pp.potential_energy(arm(), Q),
        pp.elastic_energy(arm(), Q),
    ]
    assert_allclose(found, expected, rtol=1e-12)


def _place(q: np.ndarray, node: int) -> np.ndarray:
    """A node of the beam in the world."""
    X = pp.poses(arm(), q)[0]
    return X[:3, :3] @ SHAPE.deformed(q[1:3])[node] + X[:3, 3]


def test_a_hand_pulls_a_point_that_modes_move(run_in_node):
    """The change of v in a step is that of the force Jᵀf, with J by differences of the place."""
    sim, _, physics = built("linearly_implicit")
    node, h = len(SHAPE.nodes) - 1, sim.dt
    shape = {
        "rest": SHAPE.nodes[node].tolist(),
        "moves": SHAPE.modes[node].T.tolist(),
    }
    body = f"""
    physics.advance(1);
    const free = list(values.v);
    physics.reset();
    physics.grab(0, [0, 0, 0], {json.dumps(shape)});
    const here = physics.handInWorld(0), mass = physics._mass;
    const first = values["live_hand.stiffness"][0];
    physics.pull([here[0] + 0.1, here[1] + 0.3, here[2]]);
    values["live_hand.stiffness"][0] = 20;
    values["live_hand.damping"][0] = 0;
    physics.look();
    const stored = values.energies[2];
    physics.advance(1);
    return {{ free, pulled: list(values.v), here, mass, stored, first }};
    """
    found = run_in_node(physics, body)
    assert_allclose(found["here"], _place(Q, node), atol=1e-7)
    step = 1e-6 * np.eye(4)
    J = np.array([_place(Q + e, node) - _place(Q - e, node) for e in step]).T / 2e-6
    M = pp.mass_matrix(arm(), Q)
    assert_allclose(found["mass"], 3 / np.trace(J @ np.linalg.solve(M, J.T)), rtol=1e-6)
    bends = J[:, 1:3] @ np.linalg.solve(STIFF.stiffness, J[:, 1:3].T)  # m/N
    firm = found["mass"] * (3 * np.pi) ** 2
    assert_allclose(found["first"], min(firm, 0.3 / np.diag(bends).max()), rtol=0.05)
    force = 20 * np.array([0.1, 0.3, 0.0])
    K, C = np.zeros((4, 4)), np.zeros((4, 4))
    K[1:3, 1:3], C[1:3, 1:3] = STIFF.stiffness, STIFF.damping
    change = np.linalg.solve(M + h * C + h * h * K, h * J.T @ force)
    seen = np.array(found["pulled"]) - found["free"]
    assert_allclose(seen, change, rtol=1e-6, atol=1e-9)
    assert abs(seen[1]) > 1e-3  # it bends
    spring = 10 * (0.1**2 + 0.3**2)
    assert_allclose(found["stored"], pp.elastic_energy(arm(), Q) + spring, rtol=1e-6)


def test_sliders_and_a_hand_while_time_stands_still(run_in_node):
    _, _, physics = built("linearly_implicit")
    names = [c["name"] for c in physics.description()["coordinates"]]
    assert names == ["theta", "eta1", "eta2", "theta"]
    body = """
    const [, eta] = physics.description.coordinates;
    physics.set(eta, 0.04);
    const slid = list(values.q), rates = list(values.v);
    physics.grab(1, [0, 0, 0]);
    const from = physics.handInWorld(1);
    physics.pull([from[0] - 0.05, from[1] + 0.2, from[2]]);
    for (let i = 0; i < 30; i++) physics.follow();
    return { slid, rates, from, to: physics.handInWorld(1), q: list(values.q), reach: eta.reach };
    """
    found = run_in_node(physics, body)
    assert_array_equal(found["slid"], [Q[0], 0.04, Q[2], Q[3]])
    assert not np.any(found["rates"]) and 0.01 < found["reach"] < 1.0
    gap = np.array(found["to"]) - np.add(found["from"], [-0.05, 0.2, 0.0])
    assert np.linalg.norm(gap) < 0.1  # as near as a stiff arm of one joint comes
    assert_array_equal(found["q"][1:3], found["slid"][1:3])  # deformations stay
    assert abs(found["q"][0] - found["slid"][0]) > 0.1


def test_a_model_alone_gets_steps_that_its_modes_allow():
    assert integrator_of_modes(arm(), 1e-3) == "rk4"
    assert integrator_of_modes(arm(), 1e-2) == "linearly_implicit"
    assert simulator_of(arm()).integrator == "rk4"


@cache
def slider() -> pp.System:
    """A stiff beam on a hinge whose tip slides in a slot: a loop that bends."""
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(1e6, np.inf), modes=0)
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body("carriage", joint=pp.joints.Prismatic((0, 1, 0)),
                     inertia=pp.SpatialInertia.sphere(0.1, mass=0.5))  # fmt: skip
    builder.add_body("beam", parent="carriage", inertia=beam)
    builder.add_frame("end", "beam", port="tip")
    slot = pp.constraints.PointOnLine((1, 0, 0), name="slot", a="world", b="end")
    return pp.System(builder.build(), [slot])


def test_a_loop_with_stiff_modes_takes_steps_that_they_allow(run_in_node):
    """The page of a system alone steps as a rollout does; explicit steps do not survive."""
    sim = simulator_of(slider())
    assert sim.integrator == "linearly_implicit"
    rigid = slider().with_rigid_bodies()
    q, v = np.zeros((2, 4))
    q[:2], v[:2] = rigid.project(rigid.assemble([0.6, -0.7]), [-0.5, 0.0])
    state = sim.initial_state(q, v)
    found = run_in_node(
        live_physics(sim, state), "physics.advance(200); return [list(values.q), list(values.v)];"
    )
    run = sim.rollout(state, steps=200, record_every=200)
    assert_array_equal(found, [run.q[-1], run.v[-1]])
    assert np.abs(slider().residual(run.q[-1])).max() < 1e-10
    other = pp.simulate(rigid, q[:2], v[:2], 0.2, rtol=1e-9)
    assert_allclose(run.q[-1, :2], other.q[-1], atol=3e-3)  # steps of order 1
    with pytest.raises(pp.errors.SimulationError):
        pp.simulate(slider(), q, v, 0.05, dt=sim.dt, integrator="rk4")


def test_the_floor_is_below_bodies_that_sag():
    beam = pp.FlexibleInertia.beam(1.0, 0.5, EI=4.0, modes=0)
    assert beam.shape is not None
    builder = pp.ModelBuilder()
    builder.add_body("beam", joint=pp.joints.Fixed(), inertia=beam)
    model = builder.build()
    sag = np.linalg.solve(beam.stiffness, -pp.gravity_forces(model, model.neutral()))
    swung = beam.shape.deformed(2 * sag)[:, 2].min() - 0.02  # released, it swings to twice its sag
    assert swung < -0.2
    assert scene_description(model)["floor"] > swung  # the view of the neutral configuration alone
    assert scene_description(model, q=[2 * sag])["floor"] < swung
    assert scene_of_any_motion(model, model.neutral())["floor"] < swung
