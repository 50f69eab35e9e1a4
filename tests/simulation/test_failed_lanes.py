"""Trajectories that have failed: what is left of them, and that they cost nothing any more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import phipsi as pp

ARM = pp.examples.planar_arm(2)


@pp.law
def ends(t: Any, limit: float = 1.0) -> Any:
    """Efforts that are not numbers from a time on."""
    return np.sqrt(limit - t) * np.zeros(2)


@pp.law(states={"spent": 0.0})
def spends(t: Any, spent: Any, limit: float = 1.0) -> Any:
    """No efforts, and a state that is not a number from a time on."""
    return {"tau": np.zeros(2), "spent": np.sqrt(limit - t)}


def rolled(limits: list[float], steps: int, **options: Any) -> Any:
    sim = pp.Simulator(ARM, [ends], dt=1e-3)
    q = np.linspace(0, 1, len(limits))[:, None] * np.ones(2)
    state = sim.initial_state(q, parameters={"ends.limit": np.array(limits)})
    known: Any = {"record": ("q", "v", "vdot"), "on_error": "best", "progress": False}
    return sim, sim.rollout(state, steps=steps, **{**known, **options})


def test_lanes_of_a_batch_do_not_notice_those_that_have_failed() -> None:
    limits = [1e9, 0.01, 1e9, 0.05, 0.02, 1e9, 0.01]
    sim, run = rolled(limits, 100, record_every=3)
    for i, limit in enumerate(limits):
        start = sim.initial_state(run.q[i, 0], parameters={"ends.limit": limit})
        alone = sim.rollout(
            start,
            steps=100,
            record_every=3,
            record=("q", "v", "vdot"),
            on_error="best",
            progress=False,
        )
        for name in ("q", "v", "vdot"):
            assert_array_equal(run[name][i], alone[name])
        assert_array_equal(run.state.q[i], alone.state.q)  # the last good one
        assert (run.status[i] == 0) == (limit > 1)
        assert run.failed_at[i] == alone.failed_at
        kept = np.isfinite(run.q[i]).all(axis=1)
        assert kept.all() == (limit > 1) and not np.isnan(run.state.q[i]).any()


@pytest.mark.parametrize("count", [1, 4])
def test_a_run_whose_trajectories_have_all_failed_ends_at_once(count: int) -> None:
    """Steps that are taken would need hours: this ends only because none is."""
    steps = 300_000_000
    _, run = rolled([0.01] * count, steps, record_every=steps)
    assert (run.status != 0).all() and (run.failed_at < 20).all()
    assert np.isnan(run.q[:, 1:]).all() and np.isfinite(run.state.q).all()


@pytest.mark.parametrize("limit", [2e-3, 1e9])
def test_a_lane_that_fails_in_long_searches_leaves_the_others_alone(limit: float) -> None:
    """Stops that exclude each other keep the solver busy; its neighbours have their own bits."""
    stop = pp.forces.JointLimit(["joint1", "joint2"], np.inf, lower=-0.5, upper=0.5)
    sim = pp.Simulator(ARM, [stop, spends], dt=1e-3, integrator="time_stepping")

    def go(limits: Any, uppers: Any) -> Any:
        known = {"spends.limit": limits, "joint_limit.upper": uppers}
        state = sim.initial_state(
            np.zeros((len(limits), 2)), resolve_penetration=True, parameters=known
        )
        return sim.rollout(state, steps=60, on_error="best", progress=False)

    limits, uppers = np.full(4, 1e9), np.full((4, 2), 0.5)
    expected = go(limits[:1], uppers[:1])
    limits[1], uppers[1] = limit, -0.6
    found = go(limits, uppers)
    assert (found.status[1] != 0) == (limit < 1) and not found.status[[0, 2, 3]].any()
    for i in (0, 2, 3):
        assert_array_equal(found.q[i], expected.q[0])


def test_a_failed_trajectory_begins_again_with_the_next_episode() -> None:
    """In lanes as alone: what ends an episode reads the last good state."""
    found = []
    for count in (1, 3):
        episodes = pp.Episodes(time_limit=1.0, check_every=20)
        sim = pp.Simulator(ARM, [ends], dt=1e-3, episodes=episodes)
        limits = np.array([0.01, 1e9, 1e9][:count])
        state = sim.initial_state(np.full((count, 2), 0.3), parameters={"ends.limit": limits})
        run = sim.rollout(state, steps=50, record=("q", "t"), on_error="best", progress=False)
        found.append(run.q[0])
    assert_array_equal(*found)
    assert np.isnan(found[0]).any() and np.isfinite(found[0][20:29]).all()
