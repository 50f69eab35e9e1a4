"""rollout: the compiled loop against simulate, closed forms, its order, and bad input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from amounts import ALL as EVERYTHING
from random_models import ALL, branching

import phipsi as pp
from phipsi.core.model.model import Model
from phipsi.native.targets.target import host_target
from phipsi.simulation.runs.rollout import COMPILED

METHODS = pytest.mark.parametrize("integrator", COMPILED)


def every_joint(seed: int = 3) -> Model:
    return branching(len(ALL), seed, ALL, armature=True)


def states(model: Model, batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = np.array([model.random_configuration(rng) for _ in range(batch)])
    return q, 0.3 * rng.standard_normal((batch, model.nv)), rng.standard_normal((batch, model.nv))


@pytest.mark.parametrize(
    ("integrator", "seed"),
    [(x, s) for i, x in enumerate(COMPILED) for s in (range(4) if EVERYTHING else (i % 2,))],
)
def test_rollout_does_the_steps_of_simulate(integrator: str, seed: int):
    """Two codes for one formula: Python steps around forward dynamics, and the compiled loop."""
    model = every_joint(seed)
    q0, v0, tau = states(model, 11, seed)
    q, v = pp.rollout(model, q0, v0, tau, 1e-3, 40, record_every=10, integrator=integrator)
    for i in (0, 8, 10):
        alone = pp.simulate(
            model, q0[i], v0[i], 0.04, dt=1e-3, integrator=integrator,
            controller=lambda t, q, v, i=i: tau[i],
        )  # fmt: skip
        np.testing.assert_allclose(q[i], alone.q[::10], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(v[i], alone.v[::10], rtol=1e-12, atol=1e-13)


@METHODS
def test_simulate_runs_the_same_code_when_nothing_of_the_users_is_called(integrator: str):
    """With a controller that does nothing the steps are Python's; the numbers are the same.

    Also across events that change the state inside a step, and a last step that is shorter.
    """
    model = every_joint()
    q0, v0, _ = states(model, 1)
    turn = pp.Event(lambda t, q, v: t - 0.0312, action=lambda t, q, v: (q, -v))
    runs = [
        pp.simulate(
            model, q0[0], v0[0], 0.0625, dt=1e-3, integrator=integrator, events=turn,
            controller=controller,
        )
        for controller in (None, lambda t, q, v: np.zeros(model.nv))
    ]  # fmt: skip
    assert len(runs[0]) == len(runs[1]) and len(runs[0].events) == 1
    np.testing.assert_allclose(runs[0].t, runs[1].t, rtol=0, atol=1e-15)
    np.testing.assert_allclose(runs[0].q, runs[1].q, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(runs[0].v, runs[1].v, rtol=1e-11, atol=1e-12)


@METHODS
def test_changing_efforts_are_held_during_each_step(integrator: str):
    """The same as one rollout after the other, with the state handed on."""
    model = every_joint()
    q0, v0, _ = states(model, 5)
    tau = np.random.default_rng(1).standard_normal((5, 6, model.nv))
    q, v = pp.rollout(model, q0, v0, tau, 2e-3, 6, integrator=integrator)
    for k in range(6):
        q0, v0 = (a[:, -1] for a in pp.rollout(model, q0, v0, tau[:, k], 2e-3, 1, integrator=integrator))  # fmt: skip  # noqa: E501
        assert np.array_equal(q[:, k + 1], q0) and np.array_equal(v[:, k + 1], v0)


@METHODS
def test_bits_do_not_depend_on_batch_threads_or_record(integrator: str):
    model = every_joint()
    q0, v0, tau = states(model, 19)
    whole = pp.rollout(model, q0, v0, tau, 1e-3, 12, integrator=integrator)
    for i in (0, 7, 18):
        one = pp.rollout(model, q0[i], v0[i], tau[i], 1e-3, 12, integrator=integrator)
        assert np.array_equal(one[0], whole[0][i]) and np.array_equal(one[1], whole[1][i])
    for threads in (2, 5):
        again = pp.rollout(model, q0, v0, tau, 1e-3, 12, integrator=integrator, threads=threads)
        assert np.array_equal(again[0], whole[0]) and np.array_equal(again[1], whole[1])
    thin = pp.rollout(model, q0, v0, tau, 1e-3, 12, record_every=5, integrator=integrator)
    assert np.array_equal(thin[0], whole[0][:, ::5][:, :3])


def test_reproducible_steps_have_the_bits_of_a_reproducible_simulator():
    """Which are those of WebAssembly and C, whatever the batch, the lanes and the threads."""
    model = every_joint()
    q0, v0, tau = states(model, 19)
    options: dict[str, Any] = {"record_every": 6, "integrator": "semi_implicit"}
    whole = pp.rollout(model, q0, v0, tau, 1e-3, 12, reproducible=True, **options)
    for part in (
        slice(3, 4),
        slice(2, 7),
        slice(5, 14),
    ):  # one lane, some, and more than one bundle
        some = q0[part], v0[part], tau[part]
        for threads in (1, 3):
            few = pp.rollout(model, *some, 1e-3, 12, reproducible=True, threads=threads, **options)
            assert np.array_equal(few[0], whole[0][part]) and np.array_equal(few[1], whole[1][part])
    sim = pp.Simulator(model, dt=1e-3, integrator="semi_implicit", reproducible=True)
    run = sim.rollout(sim.initial_state(q0[:5], v0[:5]), tau[:5], 12, record_every=6)
    assert np.array_equal(run.q, whole[0][:5]) and np.array_equal(run.v, whole[1][:5])
    usual = pp.rollout(model, q0, v0, tau, 1e-3, 12, **options)
    np.testing.assert_allclose(usual[1], whole[1], rtol=1e-11, atol=1e-12)
    if host_target().fused:
        assert not np.array_equal(usual[1], whole[1])  # x y + z is rounded once there


@pytest.mark.parametrize(
    ("integrator", "order"), [("semi_implicit", 1), ("rk4", 4), ("variational", 2)]
)
def test_order(integrator: str, order: int):
    """Errors at t = 0.2 s against a run with steps 8 times finer than the finest."""
    model = every_joint()
    q0, v0, tau = states(model, 3)
    ends = {
        n: pp.rollout(model, q0, v0, tau, 0.2 / n, n, record_every=n, integrator=integrator)[1][
            :, -1
        ]
        for n in (20, 40, 80, 640)
    }
    errors = [np.abs(ends[n] - ends[640]).max() for n in (20, 40, 80)]
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    # semi-implicit: the reference has an eighth of the finest error, which raises the slope
    assert np.all(slopes > order - 0.2) and np.all(slopes < order + 0.5), slopes


def test_free_fall_and_spin_in_closed_form():
    """A free body for 10,000 steps: exact spin, unit quaternion, parabola to the order of rk4."""
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    ball = pp.SpatialInertia(mass=2.0, com_B=(0, 0, 0), moment_about_com_B=(0.1, 0.1, 0.1))
    builder.add_body("ball", joint=pp.joints.Free(), inertia=ball)
    model = builder.build()
    spin = np.array([0.3, -2.0, 1.1])
    n, dt = 10_000, 1e-3
    start = (model.neutral(), [*spin, 0, 0, 0], np.zeros(6))
    q, v = pp.rollout(model, *start, dt, n, record_every=n, integrator="rk4")
    assert abs(np.linalg.norm(q[-1, :4]) - 1) < 1e-13
    angle = np.linalg.norm(spin) * n * dt
    axis = spin / np.linalg.norm(spin)
    expected = np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)])
    assert abs(abs(q[-1, :4] @ expected) - 1) < 1e-12
    np.testing.assert_allclose(q[-1, 4:], (0, 0, -9.81 / 2 * (n * dt) ** 2), atol=1e-9)
    assert np.isclose(np.linalg.norm(v[-1, 3:]), 9.81 * n * dt, rtol=1e-11)


@METHODS
def test_shapes_broadcast(integrator: str):
    model = pp.examples.planar_arm(3)
    q, v = pp.rollout(
        model, np.zeros((4, 1, 3)), np.zeros((5, 3)), np.zeros(3), 1e-3, 7, record_every=3,
        integrator=integrator,
    )  # fmt: skip
    assert q.shape == v.shape == (4, 5, 3, 3)
    assert pp.rollout(model, np.zeros((0, 3)), np.zeros(3), np.zeros(3), 1e-3, 2)[0].shape == (
        0, 3, 3,
    )  # fmt: skip
    still = pp.rollout(model, np.ones(3), np.zeros(3), np.zeros(3), 1e-3, 0)[0]
    assert np.array_equal(still, np.ones((1, 3)))
    shared = np.random.default_rng(0).standard_normal((1, 7, 3))
    a = pp.rollout(model, np.zeros((4, 3)), np.zeros(3), shared, 1e-3, 7)[0]
    b = pp.rollout(model, np.zeros(3), np.zeros(3), shared[0], 1e-3, 7)[0]
    assert np.array_equal(a, np.broadcast_to(b, a.shape))


def test_a_model_without_freedom_stays_where_it_is():
    q, v = pp.rollout(pp.ModelBuilder().build(), [], [], [], 1e-3, 4)
    assert q.shape == v.shape == (5, 0)


# ---- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dt": 0.0}, "dt=0.0 must be a finite number of seconds, more than 0, such as dt=1e-3"),
        ({"dt": float("nan")}, "dt=nan must be a finite number of seconds"),
        (
            {"dt": "fast"},
            "dt='fast' must be a finite number of seconds, more than 0",
        ),
        ({"steps": -1}, "steps=-1 must be an integer of at least 0"),
        ({"steps": 2.5}, "steps=2.5 must be an integer"),
        ({"record_every": 0}, "record_every=0 must be an integer of at least 1"),
        ({"threads": True}, "threads=True must be an integer"),
        ({"integrator": "dopri"}, "pp.simulate(model, q0, v0, duration, integrator='dopri')"),
        ({"integrator": "rk5"}, "Did you mean 'rk4'?"),
        ({"q0": np.zeros((4, 3))}, "q0 has shape (4, 3), but its last axis must be nq = 2"),
        ({"v0": [[0, 0], [0, np.nan]]}, "v0 is nan at joint 'joint2' (element [1] of the batch)"),
        ({"tau": [np.inf, 0]}, "tau is inf at joint"),
        ({"tau": np.zeros((5, 6, 2))}, "(steps, nv) = (3, 2)"),
        ({"tau": "full"}, "tau holds the text 'full', not numbers"),
        ({"v0": np.zeros((5, 2))}, "do not broadcast"),
        ({"tau": np.zeros((3, 2)), "q0": np.zeros((3, 2))}, "which can mean 3 steps or a batch"),
        ({"steps": 10**18}, "4 trajectories are kept, which need 1.3e+20 bytes"),
        (
            {"steps": 10**18, "record_every": 2},
            "6.4e+19 bytes, more than the available memory",
        ),
        ({"steps": 10**30, "record_every": 10**30}, "below 2**63"),
        ({"per_step": True}, "per_step=True needs tau of shape"),
        ({"per_step": "no"}, "per_step='no'"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], text: str):
    good: dict[str, Any] = {
        "q0": np.zeros((4, 2)), "v0": np.zeros(2), "tau": np.zeros(2), "dt": 1e-3, "steps": 3
    }  # fmt: skip
    with pytest.raises(pp.errors.InputError, match=re.escape(text)):
        pp.rollout(pp.examples.planar_arm(2), **{**good, **change})


def test_a_quaternion_that_is_none_is_refused_with_its_joint():
    model = pp.examples.humanoid()
    q0 = np.array([model.neutral(), 1.5 * model.neutral()])
    name = re.escape(repr(model.joint_names[0]))
    with pytest.raises(pp.errors.InputError, match=rf"q0\[1\].*joint {name} is .* of length 1.5"):
        pp.rollout(model, q0, np.zeros(model.nv), np.zeros(model.nv), 1e-3, 1)


def test_divergence_names_the_trajectory_and_keeps_the_rest():
    model = pp.examples.planar_arm(2)
    v0 = np.zeros((9, 2))
    v0[4] = 1e200
    with pytest.raises(
        pp.errors.SimulationError, match=r"trajectory \[4\] failed in step \d+ .*1 of 9"
    ) as e:
        pp.rollout(model, np.zeros((9, 2)), v0, np.zeros(2), 1e-3, 5)
    q, _ = e.value.trajectory  # type: ignore[misc]
    fine = pp.rollout(model, np.zeros(2), np.zeros(2), np.zeros(2), 1e-3, 5)[0]
    assert np.array_equal(q[3], fine)


def test_a_joint_with_nothing_to_move_is_named():
    builder = pp.ModelBuilder()
    rod = pp.SpatialInertia(mass=1.0, com_B=(0.5, 0, 0), moment_about_com_B=(0.001, 0.083, 0.083))
    builder.add_body("rod", joint=pp.joints.Revolute(axis=(0, 0, 1)), inertia=rod)
    builder.add_body("ghost", parent="rod", joint=pp.joints.Revolute(axis=(0, 0, 1)),
                     inertia=pp.SpatialInertia(0.0, (0, 0, 0), 0.0))  # fmt: skip
    model = builder.build()
    with pytest.raises(pp.errors.SimulationError, match="joint 'ghost' has no inertia to move"):
        pp.rollout(model, np.zeros(2), np.zeros(2), np.zeros(2), 1e-3, 5)


def test_the_axes_of_efforts():
    """One more axis is that of the steps; where both fit, `per_step` says it."""
    model, rng = pp.examples.planar_arm(2), np.random.default_rng(5)
    tau = rng.standard_normal((3, 2))
    q0, rest = rng.standard_normal((3, 2)), np.zeros(2)

    def run(q, effort, steps, **options):
        return pp.rollout(model, q, rest, effort, 1e-2, steps, **options)[0]

    # one trajectory of one step: both mean the same
    one = run(q0[0], tau[0], 1)
    np.testing.assert_array_equal(run(q0[:1], tau[:1], 1), one[None])
    np.testing.assert_array_equal(run(q0[0], tau[:1], 1), one)
    np.testing.assert_array_equal(run(q0, tau[:1], 1)[0], one)
    # three trajectories of three steps
    changing = run(q0, tau, 3, per_step=True)
    constant = run(q0, tau, 3, per_step=False)
    for i in range(3):
        np.testing.assert_array_equal(changing[i], run(q0[i], tau, 3))
        np.testing.assert_array_equal(constant[i], run(q0[i], tau[i], 3))
    assert np.abs(changing - constant).max() > 1e-6
    # a batch that only the efforts have
    np.testing.assert_array_equal(run(q0[0], tau, 7, per_step=False)[1], run(q0[0], tau[1], 7))


def test_gradients_know_the_axes_of_efforts():
    model, rng = pp.examples.planar_arm(2), np.random.default_rng(6)
    q0, tau = rng.standard_normal((2, 3, 2))

    def final(q, v):
        return 0.5 * (q**2).sum(-1), q, None

    def gradient(q, effort, **options):
        return pp.rollout_gradient(
            model, q, np.zeros(2), effort, 1e-2, 3, final=final, **options
        ).tau

    with pytest.raises(pp.errors.InputError, match="per_step=True if it changes"):
        gradient(q0, tau)
    for i, found in enumerate(gradient(q0, tau, per_step=False)):
        np.testing.assert_allclose(found, gradient(q0[i], tau[i]), rtol=1e-12)
    assert gradient(q0, tau, per_step=True).shape == (3, 3, 2)
    with pytest.raises(pp.errors.InputError, match="available memory.*shorter motion"):
        pp.rollout_gradient(model, q0[0], q0[0], q0[0], 1e-2, 2**62, final=final, segment=1)
