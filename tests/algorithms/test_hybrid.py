"""Hybrid dynamics, and placements and gravity as inputs, against dense solutions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from amounts import mostly
from random_models import ALL, branching

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from phipsi.algorithms.dynamics.hybrid import HYBRID_ACCELERATIONS, free_mask
from phipsi.core.model.model import Model

SEEDS = range(5)
CASES = [(seed, backend) for seed in SEEDS for backend in ("reference", "native")]
CASES = mostly(CASES, *((seed, "native") for seed in (2, 3, 4)))  # rotors and none, once each


def case(seed: int) -> tuple[Model, list[np.ndarray], list[str]]:
    model = branching(7 + seed, seed, ALL, armature=seed % 2 == 0)
    rng = np.random.default_rng(seed)
    q = np.array([model.random_configuration(rng) for _ in range(3)])
    v, tau, vdot = rng.standard_normal((3, 3, model.nv))
    chosen = rng.choice(model.n_bodies, 3, replace=False)
    return model, [q, v, tau, vdot], [model.joint_names[i] for i in chosen]


@pytest.mark.parametrize(("seed", "backend"), CASES)
def test_free_rows_are_solved_with_the_held_accelerations(seed: int, backend: str):
    model, (q, v, tau, vdot), names = case(seed)
    free = free_mask(model, names)
    got = pp.compile(HYBRID_ACCELERATIONS, model, backend=backend)(q, v, vdot, tau, free)
    mass, bias = pp.mass_matrix(model, q), pp.bias_forces(model, q, v)
    keep, fixed = free > 0, free == 0
    for i in range(3):
        right = tau[i] - bias[i] - mass[i][:, fixed] @ vdot[i, fixed]
        want = np.linalg.solve(mass[i][np.ix_(keep, keep)], right[keep])
        np.testing.assert_allclose(got[i, keep], want, rtol=1e-9, atol=1e-11)
        assert np.array_equal(got[i, fixed], vdot[i, fixed])


@pytest.mark.parametrize("seed", SEEDS)
def test_both_answers_together_satisfy_the_equations_of_motion(seed: int):
    model, (q, v, tau, vdot), names = case(seed)
    result = pp.hybrid_dynamics(model, q, v, vdot, tau, prescribed=names)
    needed = pp.inverse_dynamics(model, q, v, result.vdot)
    np.testing.assert_allclose(result.tau, needed, rtol=1e-9, atol=1e-9)
    free = free_mask(model, names) > 0
    assert np.array_equal(result.tau[:, free], tau[:, free])


def test_the_two_ends_are_forward_and_inverse_dynamics():
    model, (q, v, tau, vdot), _ = case(1)
    none = pp.hybrid_dynamics(model, q, v, vdot, tau, prescribed=[])
    np.testing.assert_allclose(none.vdot, pp.forward_dynamics(model, q, v, tau), rtol=1e-10, atol=1e-11)  # fmt: skip  # noqa: E501
    everything = pp.hybrid_dynamics(model, q, v, vdot, tau, prescribed=list(model.joint_names))
    assert np.array_equal(everything.vdot, vdot)
    assert np.array_equal(everything.tau, pp.inverse_dynamics(model, q, v, vdot))


def test_masks_batch():
    model, (q, v, tau, vdot), _ = case(2)
    masks = np.random.default_rng(0).integers(2, size=(3, model.nv)).astype(bool)
    got = pp.hybrid_dynamics(model, q, v, vdot, tau, prescribed=masks)
    for i in range(3):
        one = pp.hybrid_dynamics(model, q[i], v[i], vdot[i], tau[i], prescribed=masks[i])
        np.testing.assert_allclose(got.vdot[i], one.vdot, rtol=1e-12, atol=1e-12)


def test_a_locked_joint_moves_like_a_welded_one():
    """Zero rate and acceleration at a joint: the rest is the model with the joint locked."""
    model, (q, v, tau, vdot), names = case(3)
    slices = [model.v_slice(n) for n in names]
    for s in slices:
        v[:, s] = vdot[:, s] = 0
    free = free_mask(model, names) > 0
    got = pp.hybrid_dynamics(model, q, v, vdot, tau, prescribed=names).vdot[:, free]
    for i in range(3):
        values = {n: q[i, model.q_slice(n)] for n in names}
        locked = model.with_locked(names, values)
        rest = [n for n in locked.joint_names if n in model.joint_names]
        qi, vi, ti = locked.neutral(), np.zeros(locked.nv), np.zeros(locked.nv)
        for n in rest:
            qi[locked.q_slice(n)] = q[i, model.q_slice(n)]
            vi[locked.v_slice(n)] = v[i, model.v_slice(n)]
            ti[locked.v_slice(n)] = tau[i, model.v_slice(n)]
        want = pp.forward_dynamics(locked, qi, vi, ti)
        mine = {n: got[i, np.cumsum(free)[model.v_slice(n)] - 1] for n in rest}
        for n in rest:
            np.testing.assert_allclose(mine[n], want[locked.v_slice(n)], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("prescribed", "text"),
    [
        (["elbo"], "prescribed joint 'elbo' does not exist"),
        (np.zeros(3), "booleans of shape (..., 2)"),
        (np.zeros(3, dtype=bool), "booleans of shape (..., 2)"),
        (5, "names of joints, or booleans"),
    ],
)
def test_what_is_no_choice_of_joints_is_refused(prescribed: object, text: str):
    arm = pp.examples.planar_arm(2)
    zero = np.zeros(2)
    with pytest.raises(pp.errors.InputError, match=re.escape(text)):
        pp.hybrid_dynamics(arm, zero, zero, zero, zero, prescribed=prescribed)  # type: ignore[arg-type]


# ---- in motion ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("machine_code")
def test_simulate_and_rollout_follow_a_prescribed_joint():
    """The shoulder of an arm swings as told; the elbow is free, and both codes agree on it."""
    arm = pp.examples.planar_arm(2)
    name = arm.joint_names[0]
    run = pp.simulate(
        arm, [0.2, 0.1], [0.0, 0.3], 0.5, integrator="rk4", dt=1e-3,
        prescribed={name: lambda t, q, v: 2.0},
    )  # fmt: skip
    np.testing.assert_allclose(run.q[:, 0], 0.2 + run.t**2, atol=1e-12)
    given = np.array([2.0, 0.0])
    q, v = pp.rollout(arm, [0.2, 0.1], [0.0, 0.3], given, 1e-3, 500, integrator="rk4", prescribed=[name])  # fmt: skip  # noqa: E501
    np.testing.assert_allclose(q, run.q, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(v, run.v, rtol=1e-11, atol=1e-11)
    # the recorded effort of the shoulder is what inverse dynamics says, and the elbow's is zero
    motion = pp.hybrid_dynamics(arm, run.q, run.v, given, np.zeros(2), prescribed=[name])
    np.testing.assert_allclose(run.tau, motion.tau, rtol=1e-9, atol=1e-9)
    # power of the drive is the change of energy
    power = run.tau[:, 0] * run.v[:, 0]
    work = np.trapezoid(power, run.t)
    assert np.isclose(run.energy[-1] - run.energy[0], work, rtol=1e-5)  # trapezoids of 1 ms


def test_prescribed_joints_in_simulate_are_checked():
    arm = pp.examples.planar_arm(2)
    name = arm.joint_names[0]
    for given, text in (
        ({"x": 0.0}, "prescribed joint 'x' does not exist"),
        ({name: np.nan}, "it must be finite"),
        ({name: [1.0, 2.0]}, "must be 1 number or a function"),
        ([name], "must map names of joints"),
    ):
        with pytest.raises(pp.errors.InputError, match=text):
            pp.simulate(arm, [0, 0], [0, 0], 0.1, prescribed=given)  # type: ignore[arg-type]


# ---- placements and gravity as inputs ---------------------------------------------------------


@pytest.mark.parametrize(("seed", "backend"), CASES)
def test_placements_and_gravity_may_be_given(seed: int, backend: str):
    """One program for many models: each element of the batch has its own geometry and gravity."""
    model, (q, v, tau, vdot), _ = case(seed)
    rng = np.random.default_rng(seed)
    gravity = rng.standard_normal((3, 3))
    places = np.zeros((3, model.n_bodies, 4, 4))
    variants: list[Model] = []
    for i in range(3):
        data = model.with_gravity(gravity[i])
        for k, name in enumerate(model.body_names):
            moved = pp.Pose(
                rotation=model.placement_rotations[k], translation=rng.standard_normal(3)
            )
            data = data.with_body(name, placement=moved)
            places[i, k] = np.eye(4)
            places[i, k, :3, :3], places[i, k, :3, 3] = model.placement_rotations[k], moved.translation  # fmt: skip  # noqa: E501
        variants.append(data)
    for form, function, third in (
        (FORWARD_DYNAMICS, pp.forward_dynamics, tau),
        (INVERSE_DYNAMICS, pp.inverse_dynamics, vdot),
    ):
        program = pp.compile(form, model, inputs=("gravity", "placement"), backend=backend)
        assert program.backend == backend
        got = program(q, v, third, gravity, places)
        for i, variant in enumerate(variants):
            want = function(variant, q[i], v[i], third[i])
            np.testing.assert_allclose(got[i], want, rtol=1e-9, atol=1e-9)
