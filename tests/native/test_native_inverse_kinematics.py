"""The search of inverse kinematics in machine code: as the one on arrays, in any batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from random_models import random_tree

import phipsi as pp
from phipsi.core.machine.array_machine import ArrayMachine
from phipsi.core.model.model import Model
from phipsi.errors import ConvergenceError, InputError
from phipsi.kinematics import inverse_kinematics as module

COUNT = 11
pytestmark = [pytest.mark.quick_code, pytest.mark.usefixtures("machine_code")]


def limited_arm() -> Model:
    """A seven-joint arm with narrow limits, so that they are met on the way."""
    arm = pp.examples.seven_joint_arm()
    for name in arm.body_names:
        arm = arm.with_body(name, limits=(-0.9, 0.9))
    return arm


ARMS = {
    "arm": pp.examples.seven_joint_arm(),
    "limits": limited_arm(),
    "free base": pp.examples.free_flyer(),
    "tree": random_tree(8, 3, ("revolute", "prismatic", "spherical", "helical")),
}


def problem(name: str, spread: float = 0.3) -> tuple[Model, dict[Any, Any], np.ndarray]:
    """Goals that can be reached, and starts near them."""
    model, rng = ARMS[name], np.random.default_rng(2)
    last = model.body_names[-1]
    points: list[Any] = [(last, (0.1, 0.0, 0.05))]
    if name == "free base":
        points = ["left_tool", ("right_tool", (0, 0, 0.1))]
    q = model.random_configuration(rng, COUNT)
    poses = pp.poses(model, q, points)
    goals: dict[Any, Any] = {point: poses[:, i] for i, point in enumerate(points)}
    if name == "free base":
        goals[points[1]] = poses[:, 1, :3, 3]  # only where it is
    start = model.integrate(q, spread * rng.standard_normal((COUNT, model.nv)))
    return model, goals, start


def by_arrays(monkeypatch: pytest.MonkeyPatch, *args: Any, **options: Any) -> Any:
    """The search without machine code of its own."""
    with monkeypatch.context() as m:
        m.setattr(module, "_code", lambda goals, steps: None)
        m.setattr(module, "_one", lambda *_: None)
        return pp.inverse_kinematics(*args, **options)


def same(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    assert (found.converged == expected.converged).all()
    good = found.converged
    assert np.abs(found.q[good] - expected.q[good]).max(initial=0) < tolerance
    assert (found.iterations == expected.iterations).mean() > 0.8
    for a, b in (
        (found.position_error, expected.position_error),
        (found.rotation_error, expected.rotation_error),
    ):
        assert (np.isnan(a) == np.isnan(b)).all()


@pytest.mark.parametrize("name", ARMS)
def test_it_finds_what_the_search_on_arrays_finds(name: str, monkeypatch: pytest.MonkeyPatch):
    model, goals, start = problem(name)
    found = pp.inverse_kinematics(model, goals, start, on_error="best")
    expected = by_arrays(monkeypatch, model, goals, start, on_error="best")
    assert (found.q != expected.q).any()  # they are two ways
    same(found, expected)
    poses = pp.poses(model, found.q, list(goals))
    first = np.array(goals[next(iter(goals))])
    off = np.abs(poses[:, 0, :3, 3] - first[:, :3, 3]).max(axis=-1)
    assert (off[found.converged] < 1e-6).all() and found.converged.mean() > 0.5


@pytest.mark.parametrize("name", ARMS)
def test_one_element_gets_the_same_bits(name: str):
    model, goals, start = problem(name)
    whole = pp.inverse_kinematics(model, goals, start, on_error="best")
    for i in range(COUNT):
        goal = {point: np.ascontiguousarray(x[i]) for point, x in goals.items()}
        one = pp.inverse_kinematics(model, goal, start[i], on_error="best")
        assert (one.q == whole.q[i]).all() and one.converged == whole.converged[i]
        assert one.iterations == whole.iterations[i] and one.attempts == 1
        np.testing.assert_array_equal(one.rotation_error, whole.rotation_error[i])
        assert one.converged.shape == one.iterations.shape == ()
        poses = {p: pp.Pose(x[:3, :3], x[:3, 3]) for p, x in goal.items() if x.ndim == 2}
        again = pp.inverse_kinematics(model, goal | poses, start[i], on_error="best")
        assert (again.q == one.q).all()


def test_limits_hold_and_are_reached():
    model, goals, _ = problem("limits")
    edge = model.upper * np.array([1, -1, 1, 1, -1, 1, 1])
    point = next(iter(goals))
    goal = pp.poses(model, edge, [point])[0]
    found = pp.inverse_kinematics(model, {point: goal}, np.full(7, 0.2), on_error="best")
    assert (found.q >= model.lower).all() and (found.q <= model.upper).all()
    beyond = pp.poses(model, 1.5 * edge, [point])[0]
    missed = pp.inverse_kinematics(model, {point: beyond}, np.full(7, 0.2), on_error="best")
    assert (np.abs(missed.q) == 0.9).any() and (np.abs(missed.q) <= 0.9).all()
    free = pp.inverse_kinematics(model, {point: beyond}, 1.4 * edge, limits=False, on_error="best")
    assert free.converged and np.abs(free.q).max() > 0.9


def test_fixed_joints_and_weights(monkeypatch: pytest.MonkeyPatch):
    model, goals, start = problem("arm", 0.1)
    (point,) = goals
    options: dict[str, Any] = {"fixed": ["shoulder_pitch"], "weights": {point: (0, 2.0)}}
    found = pp.inverse_kinematics(model, goals, start, on_error="best", **options)
    assert (found.q[:, 1] == start[:, 1]).all() and found.converged.mean() > 0.8
    assert np.isnan(found.rotation_error).all()
    same(found, by_arrays(monkeypatch, model, goals, start, on_error="best", **options))


def test_restarts_are_the_same_draws(monkeypatch: pytest.MonkeyPatch):
    model, goals, _ = problem("limits")
    few: dict[str, Any] = {"max_iterations": 7, "on_error": "best"}
    found = pp.inverse_kinematics(model, goals, **few)
    expected = by_arrays(monkeypatch, model, goals, **few)
    assert found.converged.mean() > 0.8 and found.attempts.max() > 1
    assert (found.attempts == expected.attempts).mean() > 0.8


def test_failures_are_explained_as_before():
    model, goals, start = problem("arm")
    (point,) = goals
    far = np.eye(4)
    far[:3, 3] = 50.0
    with pytest.raises(ConvergenceError, match="misses its position by") as caught:
        pp.inverse_kinematics(model, {point: far}, start[0])
    result: Any = caught.value.result
    assert not result.converged
    bent = np.eye(4)
    bent[0, 1] = 0.3
    with pytest.raises(InputError, match="not a pose"):
        pp.inverse_kinematics(model, {point: bent}, start[0])
    with pytest.raises(InputError, match="not finite"):
        pp.inverse_kinematics(model, {point: far * np.nan}, start[0])
    with pytest.raises(InputError, match="q0 is nan at joint"):
        pp.inverse_kinematics(model, {point: np.eye(4)}, start[0] * np.nan)
    with pytest.raises(InputError, match="max_iterations"):
        pp.inverse_kinematics(model, {point: np.eye(4)}, start[0], max_iterations=0)


def test_steps_that_are_not_rates_are_left_to_arrays():
    """A planar joint with limits steps in its coordinates."""
    builder = pp.ModelBuilder()
    body = pp.SpatialInertia(1, (0, 0, 0), 0.1)
    limits = ((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
    builder.add_body("cart", joint=pp.joints.Planar(), limits=limits, inertia=body)
    cart = builder.build()
    q = np.array([0.4, 0.3, -0.2])
    goal = pp.poses(cart, q)[0]
    found = pp.inverse_kinematics(cart, {"cart": goal}, np.zeros(3))
    assert np.abs(found.q - q).max() < 1e-6
    assert not any(type(x).__name__ == "LaneFunction" for x in cart.cache.values())


@pytest.mark.parametrize("name", ARMS)
def test_the_rest_posture_pulls_as_on_arrays(name: str, monkeypatch: pytest.MonkeyPatch):
    model, goals, start = problem(name)
    rest = model.integrate(start, np.full(model.nv, 0.1))
    found = pp.inverse_kinematics(model, goals, start, rest=rest, on_error="best")
    expected = by_arrays(monkeypatch, model, goals, start, rest=rest, on_error="best")
    assert (found.converged == expected.converged).all() and found.converged.mean() > 0.5
    good = found.converged
    away = [np.linalg.norm(model.difference(x.q, rest), axis=-1) for x in (found, expected)]
    np.testing.assert_allclose(away[0][good], away[1][good], atol=2e-4)
    free = pp.inverse_kinematics(model, goals, start, on_error="best")
    both = good & free.converged
    far = np.linalg.norm(model.difference(free.q, rest), axis=-1)
    # posture is what the targets leave open: never farther, and nearer where there is room
    assert (away[0][both] <= far[both] + 1e-4).mean() > 0.8


@pytest.mark.parametrize("rest", [False, True])
@pytest.mark.parametrize("name", ARMS)
def test_the_text_obeys_the_rules_of_machines(
    name: str, rest: bool, monkeypatch: pytest.MonkeyPatch
):
    """Turn by turn in reverse and with copies of live lanes only, on arrays: the same bits."""
    model, goals, start = problem(name)
    options: dict[str, Any] = {"on_error": "best", "max_iterations": 5}
    if rest:
        options["rest"] = model.neutral()
    found = []
    for how in ("exact", "strict"):
        made = partial(ArrayMachine, **{how: True})
        monkeypatch.setattr("phipsi.kinematics.ik_multistart.ArrayMachine", made)
        found.append(by_arrays(monkeypatch, model, goals, start, **options))
    np.testing.assert_array_equal(found[0].q, found[1].q)
    np.testing.assert_array_equal(found[0].iterations, found[1].iterations)
