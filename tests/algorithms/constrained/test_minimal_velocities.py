"""Minimal velocities of systems with loops, against dense null spaces and the KKT equations."""

from __future__ import annotations

import numpy as np
import pytest
from known_systems import pinned_four_bar, stewart
from numpy.testing import assert_allclose
from random_systems import admissible, kkt, random_system

import phipsi as pp
from phipsi.errors import InputError

CASES = {
    "all kinds": lambda: random_system(1, 8, ["Spherical", "Distance", "PointOnLine"]),
    "laws": lambda: random_system(2, 7, ["Coupling", "Cam", "Distance"]),
    "forest": lambda: random_system(5, 8, ["Universal", "Rows"], n_roots=2),
    "redundant": pinned_four_bar,
    "platform": stewart,
}


def state(name: str):
    system, q = CASES[name]()
    rng = np.random.default_rng(3)
    return system, q, admissible(system, q, rng), rng.standard_normal(system.nv)


@pytest.mark.parametrize("name", CASES)
def test_the_basis_spans_the_admissible_motions(name: str):
    system, q, v, _ = state(name)
    found = pp.minimal_velocities.basis(system, q, v)
    N, G, chosen = found.matrix, system.jacobian(q), list(found.independent)
    assert N.shape == (system.nv, system.nv - np.linalg.matrix_rank(G, tol=1e-9))
    assert N.shape[1] == system.mobility(q).mobility
    assert_allclose(G @ N, 0, atol=1e-9 * (1 + np.abs(N).max()))
    assert_allclose(N[chosen], np.eye(len(chosen)), atol=0)
    assert_allclose(N @ v[chosen] + found.offset, v, rtol=1e-8, atol=1e-8)
    assert_allclose(G @ found.offset, system.rates, atol=1e-9)
    # twin: a motion that is not admissible is not in the span
    wrong = v + G[np.abs(G).sum(axis=1).argmax()]
    assert np.abs(N @ wrong[chosen] + found.offset - wrong).max() > 1e-3


@pytest.mark.parametrize("name", CASES)
def test_the_rate_of_the_basis_by_differences(name: str):
    system, q, v, _ = state(name)
    found = pp.minimal_velocities.basis(system, q, v)
    joints = [i for i in found.independent]
    h = 1e-5

    def at(t: float) -> np.ndarray:
        """N on the path with the velocity v, from the null space of the dense Jacobian."""
        G = system.jacobian(system.model.integrate(q, t * v))
        rank = system.nv - len(joints)
        null = np.linalg.svd(G)[2][rank:].T
        return null @ np.linalg.inv(null[joints])

    slope = (at(h) - at(-h)) / (2 * h)
    size = 1 + np.abs(found.matrix).max() ** 3
    assert_allclose(at(0), found.matrix, atol=1e-8 * size)
    assert_allclose(found.rate, slope, atol=1e-5 * size)
    assert_allclose(found.rate @ v[joints], found.drift, atol=1e-7 * size)


@pytest.mark.parametrize("name", CASES)
def test_the_equations_of_motion_are_those_with_multipliers(name: str):
    system, q, v, tau = state(name)
    found = pp.minimal_velocities.equations(system, q, v, tau)
    wanted, force = kkt(system, q, v, tau)
    scale = 1 + np.abs(wanted).max()
    assert_allclose(found.vdot, wanted, atol=1e-6 * scale)
    assert_allclose(found.mass @ found.udot, found.force, atol=1e-8 * scale)
    N = found.basis.matrix
    mass = pp.mass_matrix(system.model, q)
    assert_allclose(found.mass, N.T @ mass @ N, rtol=1e-10, atol=1e-10)
    u = v[list(found.basis.independent)]
    if not system.rates.any():
        assert_allclose(u @ found.mass @ u / 2, pp.kinetic_energy(system, q, v), rtol=1e-7)
    assert np.linalg.eigvalsh(found.mass).min(initial=1.0) > 0
    lost = N.T @ (tau - pp.bias_forces(system.model, q, v))  # without γ it is another motion
    if np.abs(found.basis.drift).max() > 1e-3 * scale:
        assert np.abs(lost - found.force).max() > 1e-6


def test_batches_are_single_configurations_with_the_same_velocities():
    system, q = pinned_four_bar()
    rng, joints = np.random.default_rng(0), ["joint1"]
    many = np.stack([system.assemble(q + [d, 0, 0]) for d in (0.0, 0.1, 0.2)])
    v = np.stack([admissible(system, x, rng) for x in many])
    tau = rng.standard_normal((3, 3))
    whole = pp.minimal_velocities.equations(system, many, v, tau, independent=joints)
    assert whole.basis.names == ("joint1",)
    for i in range(3):
        one = pp.minimal_velocities.equations(system, many[i], v[i], tau[i], independent=joints)
        for x, y in zip(whole[:4], one[:4], strict=True):
            assert_allclose(x[i], y, rtol=1e-10, atol=1e-12)
        assert_allclose(whole.basis.rate[i], one.basis.rate, rtol=1e-9, atol=1e-12)
    wide = pp.minimal_velocities.basis(system, many.reshape(1, 3, 3), v, independent=joints)
    assert wide.matrix.shape == (1, 3, 3, 1)


def test_prescribed_velocities_are_in_the_offset():
    arm = pp.examples.planar_arm(3)
    motor = pp.constraints.Motor(name="motor", joint="joint2", rate=0.7)
    system = pp.System(arm, [motor])
    q = np.array([0.1, 0.4, 0.2])
    v = np.array([0.3, 0.7, -0.2])
    found = pp.minimal_velocities.basis(system, q, v)
    assert_allclose(found.offset, [0, 0.7, 0], atol=1e-12)
    assert found.names == ("joint1", "joint3")
    assert_allclose(found.matrix @ v[[0, 2]] + found.offset, v)


def test_trees_have_all_their_velocities():
    tree = pp.examples.random_tree(seed=1, n=4)
    rng = np.random.default_rng(0)
    q, v, tau = tree.random_configuration(rng), *rng.standard_normal((2, tree.nv))
    found = pp.minimal_velocities.equations(tree, q, v, tau)
    assert_allclose(found.basis.matrix, np.eye(tree.nv))
    assert_allclose(found.vdot, pp.forward_dynamics(tree, q, v, tau), rtol=1e-7, atol=1e-7)


def test_velocities_that_do_not_determine_the_motion_are_refused():
    system, q = pinned_four_bar()
    rest = np.zeros(3)
    with pytest.raises(InputError, match=r"has 2 velocities, and the system has 1 degree"):
        pp.minimal_velocities.basis(system, q, rest, independent=["joint1", "joint2"])
    builder = pp.ModelBuilder()
    for k in range(3):
        builder.add_body(f"b{k}", joint_name=f"j{k}", joint=pp.joints.Revolute((0, 0, 1)),
                         inertia=pp.SpatialInertia(1.0, (0.5, 0, 0), 0.1))  # fmt: skip
    hold = pp.constraints.Coupling(name="hold", joints=["j0"], coefficients=[1.0])
    locked = pp.System(builder.build(), [hold])
    with pytest.raises(InputError, match=r"(?s)\['j0', 'j1'\] do not determine.*These do there"):
        pp.minimal_velocities.basis(locked, rest, rest, independent=["j0", "j1"])
