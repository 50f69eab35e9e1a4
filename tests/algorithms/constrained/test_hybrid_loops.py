"""Hybrid dynamics of mechanisms with loops: prescribed accelerations and constraints together."""

import numpy as np
import pytest
from known_systems import four_bar
from numpy.testing import assert_allclose
from random_systems import KINDS, admissible, random_system

import phipsi as pp


def by_hand(system, q, v, vdot, tau, held):
    """[ℳ G* S*; G 0 0; S 0 0] [vdot; f; extra effort] = …, with all of it written out."""
    M, G = pp.mass_matrix(system, q), system.jacobian(q)
    S = np.eye(system.nv)[held]
    k, r = len(S), len(G)
    zero = np.zeros((r + k, r + k))
    whole = np.block([[M, G.T, -S.T], [np.vstack([G, S]), zero]])
    bias = pp.bias_forces(system.model, q, v)
    given = np.where(held, 0.0, tau)
    right = np.concatenate([given - bias, -system.bias(q, v), vdot[held]])
    found = np.linalg.lstsq(whole, right, rcond=1e-12)[0]
    assert_allclose(whole @ found, right, atol=1e-8)
    x, f = found[: system.nv], found[system.nv : system.nv + r]
    return x, M @ x + bias + G.T @ f


@pytest.mark.parametrize("seed", range(4))
def test_it_solves_the_equations_of_motion(seed):
    rng = np.random.default_rng(seed)
    system, q = random_system(seed, 6, KINDS[seed : seed + 3], n_roots=2, armature=True)
    v, tau = admissible(system, q, rng), rng.standard_normal(system.nv)
    name = system.joint_names[-1]  # a leaf, which the loops leave free or not
    at = system.v_slice(name)
    held = np.zeros(system.nv, dtype=bool)
    held[at] = True
    # accelerations that the loops allow, so that what is prescribed agrees with them
    vdot = pp.forward_dynamics(system, q, v, rng.standard_normal(system.nv))
    found = pp.hybrid_dynamics(system, q, v, vdot, tau, prescribed=[name])
    x, effort = by_hand(system, q, v, vdot, tau, held)
    assert_allclose(found.vdot, x, rtol=0, atol=1e-8 * (1 + np.abs(x).max()))
    assert_allclose(found.vdot[held], vdot[held])
    residual = (
        pp.mass_matrix(system, q) @ found.vdot
        + pp.bias_forces(system.model, q, v)
        + system.jacobian(q).T @ found.f
        - found.tau
    )
    assert_allclose(residual, 0, atol=1e-8 * (1 + np.abs(effort).max()))
    assert_allclose(found.tau[~held], tau[~held])


def test_nothing_and_everything_prescribed():
    system = four_bar()
    q, v, tau = system.assemble([1.0, -0.7, -1.2]), np.zeros(3), np.array([0.3, -0.2, 0.5])
    none = pp.hybrid_dynamics(system, q, v, np.zeros(3), tau, prescribed=[])
    assert_allclose(none.vdot, pp.forward_dynamics(system, q, v, tau), atol=1e-9)
    vdot = none.vdot
    everything = pp.hybrid_dynamics(system, q, v, vdot, tau, prescribed=system.joint_names)
    assert_allclose(everything.vdot, vdot)
    crank = system.joint_names[0]
    driven = pp.hybrid_dynamics(system, q, v, None, 0 * tau, prescribed={crank: vdot[0]})
    assert_allclose(driven.vdot, vdot, atol=1e-9)
    alone = pp.inverse_dynamics(system, q, v, vdot, actuated=[crank])
    assert_allclose(driven.tau, alone, atol=1e-9)
    batch = pp.hybrid_dynamics(system, q, v, None, np.zeros((4, 3)), prescribed={crank: vdot[0]})
    assert_allclose(batch.vdot, np.broadcast_to(vdot, (4, 3)), atol=1e-9)


def test_contradictions_are_named():
    system = four_bar()
    q, rest = system.assemble([1.0, -0.7, -1.2]), np.zeros(3)
    with pytest.raises(pp.errors.InputError, match=r"contradict the constraints: row 'pin\.\w+'"):
        pp.hybrid_dynamics(system, q, rest, [1.0, 1.0, 1.0], rest, prescribed=system.joint_names)
    with pytest.raises(
        pp.errors.InputError, match=r"vdot must hold their accelerations.*prescribed=\{"
    ):
        pp.hybrid_dynamics(system, q, rest, None, rest, prescribed=["crank"])
    with pytest.raises(pp.errors.InputError, match="must be None"):
        pp.hybrid_dynamics(system, q, rest, rest, rest, prescribed={system.joint_names[0]: 0.0})
    with pytest.raises(pp.errors.InputError, match="same joints"):
        pp.hybrid_dynamics(system, q, rest, rest, rest, prescribed=np.zeros((2, 3), dtype=bool))
