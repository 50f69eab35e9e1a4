"""The dense oracle agrees with itself by two routes, and the invariants with its points."""

import numpy as np
import pytest
from flexible_oracle import ALL_FLEXIBLE, STEP, random_flexible_tree, random_points

import phipsi as pp

TREES = range(6)


@pytest.mark.parametrize("joint", ALL_FLEXIBLE)
def test_hamel_equals_dalembert_without_second_order(joint):
    tree = random_flexible_tree(1, 4, [joint, joint], second=0.0, inertias=False, armature=True)
    rng = np.random.default_rng(2)
    (q, v), vdot = tree.random_state(rng, bend=1.0), rng.uniform(-1, 1, tree.nv)
    expected = tree.dalembert(q, v, vdot)
    np.testing.assert_allclose(tree.inverse_dynamics(q, v, vdot), expected, rtol=1e-11, atol=1e-11)


def test_second_order_fields_make_the_routes_differ():
    tree = random_flexible_tree(1, 4, ["revolute"], modes=[2], inertias=False)
    rng = np.random.default_rng(2)
    (q, v), vdot = tree.random_state(rng, bend=1.0), rng.uniform(-1, 1, tree.nv)
    gap = tree.inverse_dynamics(q, v, vdot) - tree.dalembert(q, v, vdot)
    assert np.abs(gap).max() > 1e-3


@pytest.mark.parametrize("seed", TREES)
def test_power_is_the_rate_of_energy(seed):
    """v* tau = d/dt (kinetic + potential + elastic) + η̇* C_e η̇, with second-order fields too."""
    tree = random_flexible_tree(seed, 5)
    rng = np.random.default_rng(seed)
    (q, v), vdot = tree.random_state(rng), rng.uniform(-1, 1, tree.nv)
    qs, vs = q + 1j * STEP * tree.q_rate(q, v), v + 1j * STEP * vdot
    rates = [tree.kinetic_energy(qs, vs), tree.potential_energy(qs), tree.elastic_energy(qs)]
    power = v @ (tree.inverse_dynamics(q, v, vdot) - tree.elastic_forces(0 * q, v))
    expected = sum(float(np.imag(x)) for x in rates) / STEP
    assert power == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_momentum_of_a_free_body_is_constant():
    tree = random_flexible_tree(3, 4, ["free", "revolute", "fixed", "universal"], gravity=(0, 0, 0))
    assert sum(x.parent < 0 for x in tree.links) == 1
    q, v = tree.random_state(np.random.default_rng(3))
    vdot = tree.forward_dynamics(q, v, np.zeros(tree.nv))
    turned = tree.q_rate(q, v)
    gap = [tree.momentum(q + h * turned, v + h * vdot) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose((gap[0] - gap[1]) / 2e-6, 0, atol=1e-7)


@pytest.mark.parametrize("seed", TREES)
def test_invariants_are_those_of_the_points(seed):
    rng = np.random.default_rng(seed)
    points = random_points(rng, 3)
    body = pp.FlexibleInertia.from_points(
        points.masses, points.positions, points.shapes, np.eye(3), second=points.second,
        inertias=points.inertias, turns=points.turns,
    )  # fmt: skip
    eta = rng.uniform(-1, 1, 3)
    np.testing.assert_allclose(body.inertia_at(eta), points.inertia(eta), atol=1e-13)
    bent = eta + 1e-20j * rng.uniform(-1, 1, 3)
    gap = np.imag(body.inertia_at(bent) - points.inertia(bent)) / 1e-20
    np.testing.assert_allclose(gap, 0, atol=1e-13)


def test_ports_are_where_the_oracle_has_them():
    tree = random_flexible_tree(4, 3, ["revolute"], modes=[2])
    eta = np.array([0.3, -0.4])
    for link in tree.links:
        for k, place in enumerate(link.ports):
            R, p, _ = place.motion(eta)
            body = link.library_inertia
            assert isinstance(body, pp.FlexibleInertia)
            pose = body.port_pose(f"port{k}", eta)
            np.testing.assert_allclose(pose.rotation, R, atol=1e-14)
            np.testing.assert_allclose(pose.translation, p, atol=1e-14)


def test_port_motion_is_the_derivative_of_its_pose():
    tree = random_flexible_tree(5, 3, ["spherical"], modes=[2])
    q, v = tree.random_state(np.random.default_rng(5))
    R, _, J = tree.port_motion(q, 2, 1)
    Rt, pt, _ = tree.port_motion(q + 1j * STEP * tree.q_rate(q, v), 2, 1)
    spin = R.T @ Rt.imag / STEP
    np.testing.assert_allclose(J[3:] @ v, R.T @ pt.imag / STEP, atol=1e-12)
    np.testing.assert_allclose(J[:3] @ v, [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masses": [1.0, 2.0]}, r"masses must be finite numbers of shape \(1,\)"),
        ({"points": [(0, 0)]}, r"points must be .* \(1, 3\)"),
        ({"modes": [[0, 1, 0]]}, r"masses must be .* as in modes \(k, 3, n\)"),
        ({"second": np.zeros((1, 3, 2, 2))}, r"second must be .* \(1, 3, 1, 1\)"),
        ({"turns": np.full((1, 3, 1), np.inf)}, "turns must be finite"),
    ],
)
def test_points_that_do_not_fit(change, message):
    good = {"masses": [1.0], "points": [(1, 0, 0)], "modes": [[[0], [1], [0]]]}
    pp.FlexibleInertia.from_points(**good, stiffness=[[1.0]])
    with pytest.raises(pp.errors.ModelError, match=message):
        pp.FlexibleInertia.from_points(**good | change, stiffness=[[1.0]])
