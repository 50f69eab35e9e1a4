"""Points that slide on planes and circles: dynamics by dense algebra, and no drift in long runs."""

from __future__ import annotations

import numpy as np
import pytest
from amounts import seeds
from comparers import close
from random_systems import SURFACES, admissible, kkt, random_system

import phipsi as pp
from phipsi import constraints as c

pytestmark = pytest.mark.usefixtures("machine_code")
KINDS = (*SURFACES, "PointOnPlane", "Distance")


@pytest.mark.parametrize("seed", seeds(12, 4))
def test_dynamics_are_those_of_dense_equations(seed):
    system, q = random_system(seed, 6, KINDS, n_roots=2, independent=True)
    assert {type(x).__name__ for x in system.constraints} >= set(SURFACES)
    rng = np.random.default_rng(seed)
    v, tau = admissible(system, q, rng), rng.standard_normal(system.nv)
    vdot, f = kkt(system, q, v, tau)
    found = pp.forward_dynamics(system, q, v, tau, return_multipliers=True)
    close(found.vdot, vdot, 1e-8)
    close(found.f, f, 1e-8)
    # a plane tilted by a millionth is another constraint
    other = [
        c.PointOnPlane(np.asarray(x.normal) + 1e-6, name=x.name, a=x.a, b=x.b)
        if isinstance(x, c.PointOnPlane) else x for x in system.constraints
    ]  # fmt: skip
    twin = pp.forward_dynamics(pp.System(system.model, other), q, v, tau)
    assert np.abs(twin - vdot).max() > 1e-9 * np.abs(vdot).max()


def arm_on(kind):
    arm = pp.examples.seven_joint_arm()
    q = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])
    at = pp.poses(arm, q, ["tool"])[0, :3, 3]
    if kind == "plane":
        surface = c.PointOnPlane((0.1, 0, 1), name="on", a=("world", at), b="tool")
    else:
        centre = (at[0] - 0.15, at[1], at[2])
        surface = c.PointOnCircle((0, 0, 1), 0.15, name="on", a=("world", centre), b="tool")
    return pp.System(arm, [surface]), q, at


@pytest.mark.parametrize("kind", ["plane", "circle"])
def test_nothing_drifts_in_compiled_runs(kind):
    """Five seconds of swinging; the twin has the row of velocities alone, which drifts."""
    system, q, at = arm_on(kind)
    _, v = system.project(q, np.linspace(-1, 1, 7))
    sim = pp.Simulator(system, [], 2e-3)
    run = sim.rollout(sim.initial_state(q, v), steps=2500, record_every=50)
    assert np.abs(system.residual(run.q)).max() < 1e-9
    tool = pp.poses(system.model, run.q, ["tool"])[:, 0, :3, 3]
    if kind == "plane":
        off = (tool - at) @ np.array([0.1, 0, 1]) / np.hypot(0.1, 1)
    else:
        gap = tool - np.array([at[0] - 0.15, at[1], at[2]])
        off = np.hypot(np.hypot(gap[:, 0], gap[:, 1]) - 0.15, gap[:, 2])
    assert np.abs(off).max() < 1e-9 and np.abs(tool - at).max() > 0.05
    energy = pp.kinetic_energy(system, run.q, run.v) + pp.potential_energy(system, run.q)
    assert np.ptp(energy) < 1e-3 * (1 + np.abs(energy).max())
    exact = pp.simulate(system, q, v, 0.1, rtol=1e-11, atol=1e-12)
    close(run.q[1], exact.q[-1], 1e-6)
    if kind == "plane":
        rows = c.Rows(name="on", points=["tool"], A=[[0, 0, 0, 0.1, 0, 1]])
        loose = pp.System(system.model, [rows])
        rough = pp.Simulator(loose, [], 2e-3)
        twin = rough.rollout(rough.initial_state(q, v), steps=2500, record_every=2500)
        gone = pp.poses(system.model, twin.q[-1], ["tool"])[0, :3, 3] - at
        assert abs(gone @ np.array([0.1, 0, 1])) > 1e-9


def test_what_is_wrong_is_said():
    with pytest.raises(pp.errors.ModelError, match=r"radius=0 must be (?s:.)*Spherical"):
        c.PointOnCircle((0, 0, 1), 0, name="rim", a="world", b="tool")
    with pytest.raises(pp.errors.ModelError, match="normal"):
        c.PointOnPlane((0, 0, 0), name="table", a="world", b="tool")
    system, *_ = arm_on("plane")
    assert system.row_names == ("on.z",)
