"""The physics of a live page in Node: bits of rollouts, handles, loops, blocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_systems import four_bar
from live_simulators import CASES, built
from numpy.testing import assert_allclose, assert_array_equal
from physics_in_node import in_node, physics_folder

import phipsi as pp
from phipsi.errors import InputError
from phipsi.operators import D, G, P
from phipsi.pages.live_page import LivePhysics, live_physics


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return physics_folder(tmp_path_factory.mktemp("physics"))


@pytest.mark.parametrize("name", CASES)
def test_500_steps_have_the_bits_of_a_rollout(name, folder):
    sim, state, physics = built(name)
    run = sim.rollout(state, steps=500, record_every=100)
    body = """
    const rows = [];
    for (let i = 0; i < 6; i++) {
      if (i) for (const n of [1, 16, 83]) physics.advance(n);
      rows.push([list(values.q), list(values.v)]);
    }
    return { rows, t: values.t[0], step: values.step[0] };
    """
    found = in_node(folder, physics, body)
    assert_array_equal([q for q, _ in found["rows"]], run.q)
    assert_array_equal([v for _, v in found["rows"]], run.v)
    assert found["step"] == 500 and found["t"] == run.t[-1]
    state = state.copy()  # a start that differs in the last places gives other bits
    state.v[...] += 1e-15
    assert not np.array_equal(sim.rollout(state, steps=500, record_every=500).v[-1], run.v[-1])


def test_poses_energies_and_blocks(folder):
    sim, state, physics = built("flyer")
    body = """
    physics.look();
    return { poses: list(physics.poses()), energies: list(values.energies),
             blocks: physics.blocks(3), base: physics.blocks(0) };
    """
    found = in_node(folder, physics, body)
    model, q, v = sim.model, state.q, state.v
    X = pp.poses(model, q)
    poses = np.array(found["poses"]).reshape(-1, 12)
    assert_allclose(poses[:, :9].reshape(-1, 3, 3), X[:, :3, :3], atol=1e-14)
    assert_allclose(poses[:, 9:], X[:, :3, 3], atol=1e-14)
    assert_allclose(found["energies"][0], pp.kinetic_energy(model, q, v), rtol=1e-12)
    blocks = pp.compile((P, D, G), model, mode=("blocks",) * 3)(q)
    for k, part in ((3, found["blocks"]), (0, found["base"])):
        at = model.v_slices[k]
        r = at.stop - at.start
        assert_allclose(part["P"], blocks[0][k], rtol=1e-12, atol=1e-12)
        assert_allclose(part["D"], blocks[1][k][:r, :r], rtol=1e-12, atol=1e-12)
        assert_allclose(part["G"], blocks[2][:, at], rtol=1e-12, atol=1e-12)


def test_gravity_masses_and_damping_act_as_in_a_model_that_has_them(folder):
    sim, state, physics = built("held arm")
    body = """
    values.gravity.set([0, -3.7, 0]);
    for (let i = 10; i < 20; i++) values.inertia[i] *= 2;
    physics.advance(200);
    physics.look();
    const first = [list(values.q), list(values.energies)];
    physics.reset();
    values["live_damping.rate"][0] = 2;
    physics.advance(200);
    return [first, list(values.q), physics.isChanged];
    """
    (q, energies), damped, changed = in_node(folder, physics, body)
    model = sim.model.with_gravity([0, -3.7, 0])
    heavy = model.with_body("link2", inertia=model.body("link2").inertia.scaled(2.0))
    other = pp.Simulator(heavy, sim.laws)
    end = other.rollout(other.initial_state(), steps=200, record_every=200)
    assert_allclose(q, end.q[-1], rtol=0, atol=1e-11)
    assert_allclose(energies[1], pp.potential_energy(heavy, end.q[-1]), rtol=1e-10)
    inverse = np.linalg.inv(pp.mass_matrix(sim.model, sim.model.neutral()))
    damper = pp.forces.JointDamper(None, 2.0 / np.diagonal(inverse))
    other = pp.Simulator(sim.model, [*sim.laws, damper])
    end = other.rollout(other.initial_state(), steps=200, record_every=200)
    assert_allclose(damped, end.q[-1], rtol=0, atol=1e-11)
    assert changed and not np.allclose(q, damped)


def test_the_force_of_the_hand_is_that_of_a_point_spring(folder):
    sim, _, physics = built("held arm")
    point, target, k = [0.7, 0.1, 0.0], [0.5, 1.0, 0.0], 30.0
    body = f"""
    physics.grab(1, {point});
    physics.pull({target});
    values["live_hand.stiffness"][0] = {k};
    values["live_hand.damping"][0] = 0;
    physics.advance(300);
    physics.look();
    return [list(values.q), values.energies[2]];
    """
    q, stored = in_node(folder, physics, body)
    spring = pp.forces.PointSpring(("link2", point), ("world", target), stiffness=k)
    other = pp.Simulator(sim.model, [*sim.laws, spring])
    end = other.rollout(other.initial_state(), steps=300, record_every=300)
    assert_allclose(q, end.q[-1], rtol=0, atol=1e-10)
    X = pp.poses(sim.model, end.q[-1])[1]
    gap = X[:3, :3] @ point + X[:3, 3] - target
    assert_allclose(stored, 0.5 * k * gap @ gap, rtol=1e-9)


def test_a_loop_stays_closed_under_sliders_and_inverse_kinematics(folder):
    _, state, physics = built("loop")
    body = """
    const c = physics.description.coordinates[0], at = physics.get(c), rows = [];
    for (const step of [0.05, 0.2, 0.5]) {
      physics.set(c, at + step);
      rows.push([physics.get(c), list(values.q), list(values.v)]);
    }
    physics.set(c, at);
    const k = 1, point = [0.3, 0, 0], here = physics.pointInWorld(k, point);
    physics.grab(k, point);
    const other = physics.values.q.slice();
    physics.set(c, at + 0.2);
    const there = physics.pointInWorld(k, point);
    values.q.set(other);
    physics.pull(there);
    for (let i = 0; i < 20; i++) physics.follow();
    const reached = physics.pointInWorld(k, point);
    return { rows, at, there, reached, q: list(values.q), t: values.t[0] };
    """
    found = in_node(folder, physics, body)
    system = four_bar()
    for (value, q, v), step in zip(found["rows"], (0.05, 0.2, 0.5), strict=True):
        assert abs(value - found["at"] - step) < 1e-6
        assert np.abs(system.residual(np.array(q))).max() < 1e-9 and not np.any(v)
    assert_allclose(found["reached"], found["there"], atol=1e-4)
    assert np.abs(system.residual(np.array(found["q"]))).max() < 1e-9
    assert found["t"] == float(state.t)


def test_what_cannot_be_live():
    sim = pp.Simulator(pp.examples.planar_arm(1), episodes=pp.Episodes(time_limit=1.0))
    with pytest.raises(InputError, match="without episodes"):
        live_physics(sim, sim.initial_state())
    sim = pp.Simulator(pp.examples.planar_arm(1))
    with pytest.raises(InputError, match="one state"):
        live_physics(sim, sim.initial_state(np.zeros((3, 1))))


def weak_hold(kp: Any, efforts: float) -> pp.Simulator:
    arm = pp.examples.planar_arm(2)
    held = pp.control.PDGravity(arm, [0.4, -0.3], kp=kp, kd=2.0)
    weak = pp.control.Saturated(held, arm, efforts)
    return pp.Simulator(arm, [weak], per_trajectory=("gravity", "M"), reproducible=True)


@cache
def given_arm() -> tuple[pp.Simulator, Any, LivePhysics]:
    sim = weak_hold([20.0, 9.0], 60.0)
    state = sim.initial_state([0.3, 0.1], parameters=given_numbers(sim))
    return sim, state, live_physics(sim, state)


def given_numbers(sim: pp.Simulator) -> dict[str, Any]:
    return {"gravity": [0, -5.0, 0], "M": np.array([x.matrix for x in sim.model.inertias])}


def test_quantities_that_the_simulator_is_given(folder):
    sim, state, physics = given_arm()
    assert "gravity" in physics.handles and "inertia" not in physics.handles
    body = "physics.advance(50); return [list(values.q), physics.isChanged];"
    q, changed = in_node(folder, physics, body)
    assert_array_equal(q, sim.rollout(state, steps=50, record_every=50).q[-1])
    assert not changed


def test_gains_of_a_controller_act_as_in_a_simulator_that_has_them(folder):
    _, _, physics = given_arm()
    assert physics.parameters == (
        "Saturated.efforts",
        "Saturated.controller.kp",
        "Saturated.controller.kd",
        "Saturated.controller.reference.q",
    )
    body = """
    physics.advance(40);
    values["Saturated.controller.kp"].set([35, 4]);
    values["Saturated.efforts"].fill(12);
    physics.advance(60);
    return [list(values.q), list(values.v), physics.isChanged];
    """
    q, v, changed = in_node(folder, physics, body)
    sim = weak_hold([20.0, 9.0], 60.0)
    now = sim.initial_state([0.3, 0.1], parameters=given_numbers(sim))
    sim.step(now, steps=40)

    def after(kp: Any, efforts: float) -> Any:
        """The rest of the run in a simulator that was made with these numbers."""
        other = weak_hold(kp, efforts)
        more = {name: getattr(now, name) for name in ("q", "v", "t")}
        return other.rollout(
            other.initial_state(**more, parameters=given_numbers(sim)), steps=60, record_every=60
        )

    end = after([35.0, 4.0], 12.0)
    assert_array_equal([q, v], [end.q[-1], end.v[-1]])
    assert not changed  # the step of the simulator itself ran
    for kp, efforts in (([20.0, 9.0], 12.0), ([35.0, 4.0], 60.0), ([35.0, 4.0 + 1e-12], 12.0)):
        assert not np.array_equal(after(kp, efforts).v[-1], v)
