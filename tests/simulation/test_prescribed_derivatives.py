"""Derivatives of steps and motions with prescribed joints, against differences of rollouts."""

import numpy as np
import pytest
from known_systems import pinned_four_bar
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import InputError

pytestmark = pytest.mark.usefixtures("interpreted")


def flexible_arm():
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(40.0, np.inf), modes=0, damping_ratio=0.02)
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body("base", joint_name="base", inertia=pp.SpatialInertia.sphere(0.1, mass=1.0))
    out = pp.Pose(None, (0.4, 0.1, 0))
    builder.add_body("beam", parent="base", joint_name="beam", placement=out, inertia=beam)
    return builder.build()


def arm():
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    rod = pp.SpatialInertia(1.0, (0.3, 0.1, 0), np.diag([0.05, 0.06, 0.07]))
    joints = (pp.joints.Spherical(), pp.joints.Revolute((0, 1, 0)), pp.joints.Prismatic((1, 0, 0)))
    parent = "world"
    for i, joint in enumerate(joints):
        where = pp.Pose(None, (0.4 * bool(i), 0, 0))
        builder.add_body(f"b{i}", parent=parent, joint=joint, placement=where, inertia=rod)
        parent = f"b{i}"
    return builder.build()


def moved(model, q, v, tau, change):
    nv = model.nv
    return model.integrate(q, change[:nv]), v + change[nv : 2 * nv], tau + change[2 * nv :]


CASES = [
    (arm, ["b1"], "rk4"), (arm, ["b0", "b2"], "semi_implicit"),
    (flexible_arm, ["base"], "linearly_implicit"), (flexible_arm, ["beam"], "linearly_implicit"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "held", "integrator"), CASES)
def test_a_step_with_prescribed_joints(make, held, integrator):
    model, rng, h = make(), np.random.default_rng(5), 0.02
    q, nv = model.random_configuration(rng), model.nv
    q[-2:] *= 0.05
    v, tau = rng.uniform(-1, 1, (2, nv))
    options = {"integrator": integrator, "prescribed": held}
    A, B = pp.step_derivatives(model, q, v, tau, h, **options)
    end = [x[-1] for x in pp.rollout(model, q, v, tau, h, 1, **options)]
    step = 1e-4
    changes = step * np.concatenate([np.eye(3 * nv), -np.eye(3 * nv)])
    many = [moved(model, q, v, tau, x) for x in np.concatenate([changes, 2 * changes])]
    ends = [x[:, -1] for x in pp.rollout(model, *map(np.array, zip(*many, strict=True)), h, 1,
                                         per_step=False, **options)]  # fmt: skip
    far = np.concatenate([model.difference(np.broadcast_to(end[0], ends[0].shape), ends[0]),
                          ends[1] - end[1]], axis=-1)  # fmt: skip
    n = 3 * nv
    near, wide = (far[i : i + n] - far[i + n : i + 2 * n] for i in (0, 2 * n))
    expected = ((8 * near - wide) / (12 * step)).T  # of fourth order
    assert_allclose(np.concatenate([A, B], axis=-1), expected, atol=2e-8)
    other, _ = pp.step_derivatives(model, q, v, tau, h, integrator=integrator)  # the twin
    assert np.abs(other - A).max() > 1e-4


@pytest.mark.parametrize(("make", "held", "integrator"), [CASES[0], CASES[2]])
def test_gradients_of_motions_with_prescribed_joints(make, held, integrator):
    model, rng, h, steps = make(), np.random.default_rng(6), 0.02, 4
    q, nv = model.random_configuration(rng), model.nv
    q[-2:] *= 0.05
    v, tau, weights = (
        rng.uniform(-1, 1, nv),
        rng.uniform(-1, 1, (steps, nv)),
        rng.uniform(-1, 1, nv),
    )
    options = {"integrator": integrator, "prescribed": held}

    def final(q, v):
        return v @ weights, None, np.broadcast_to(weights, v.shape)

    rigid = not model.is_flexible
    found = pp.rollout_gradient(
        model, q, v, tau, h, steps, final=final, parameters=rigid, segment=2, **options
    )

    def cost(model, q, v, tau):
        return float(pp.rollout(model, q, v, tau, h, steps, **options)[1][-1] @ weights)

    d = rng.uniform(-1, 1, 2 * nv)
    D = rng.uniform(-1, 1, (steps, nv))

    def slope(along, step=1e-4):
        first, second = (along(x * step) - along(-x * step) for x in (1, 2))
        return (8 * first - second) / (12 * step)

    by_state = slope(lambda x: cost(model, model.integrate(q, x * d[:nv]), v + x * d[nv:], tau))
    assert_allclose(found.q0 @ d[:nv] + found.v0 @ d[nv:], by_state, rtol=1e-7, atol=1e-9)
    by_tau = slope(lambda x: cost(model, q, v, tau + x * D))
    assert_allclose(np.sum(found.tau * D), by_tau, rtol=1e-7, atol=1e-9)
    if rigid:
        now, n = pp.identification.inertial_parameters(model, armature=True), model.n_bodies
        way = 0.1 * now * rng.uniform(-1, 1, now.shape)

        def heavier(x):
            changed = now + x * way
            other = model.with_inertial_parameters(changed[: 10 * n], armature=changed[10 * n :])
            return cost(other, q, v, tau)

        expected = slope(heavier, 1e-3)
        assert_allclose(found.parameters @ way, expected, rtol=1e-6, atol=1e-9)
        assert abs(expected) > 1e-4


def test_what_has_no_derivatives_is_refused():
    system, q = pinned_four_bar()
    model = system.model
    name = model.joint_names[0]
    with pytest.raises(InputError, match=r"constraints\.Motor"):
        pp.step_derivatives(system, q, np.zeros(3), np.zeros(3), 0.01, prescribed=[name])
    with pytest.raises(InputError, match=r"constraints\.Motor"):
        pp.rollout_gradient(system, q, np.zeros(3), np.zeros(3), 0.01, 2, prescribed=[name],
                            final=lambda q, v: (v.sum(-1), None, np.ones_like(v)))  # fmt: skip
    with pytest.raises(InputError, match="all trajectories of a batch"):
        mask = np.zeros((2, 3), bool)
        pp.step_derivatives(model, q, np.zeros(3), np.zeros(3), 0.01, prescribed=mask)
