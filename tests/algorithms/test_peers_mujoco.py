"""The named algorithms against MuJoCo, on random trees of all joint types it has."""

from types import SimpleNamespace

import numpy as np
import pytest
from comparers import close
from peers import InMujoco, mujoco_tree

import phipsi as pp

CASES = [
    (seed, n, roots, rotors)
    for seed, (n, roots) in enumerate([(1, 1), (5, 1), (8, 2), (12, 3), (10, 1)])
    for rotors in (False, True)
]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"seed{c[0]}-n{c[1]}-rotors{c[3]}")
def case(request):
    seed, n, roots, rotors = request.param
    model = mujoco_tree(seed, n, n_roots=roots, armature=rotors)
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng)
    v, vdot, tau = rng.standard_normal((3, model.nv))
    f_ext = rng.standard_normal((n, 6))
    return SimpleNamespace(
        model=model, peer=InMujoco(model), q=q, v=v, vdot=vdot, tau=tau, f_ext=f_ext, rng=rng
    )


def test_free_joints_are_among_the_cases():
    trees = [mujoco_tree(seed, n, n_roots=roots) for seed, n, roots, _ in CASES]
    assert any(joint.kind == "free" for model in trees for joint in model.joints)


def test_inverse_dynamics(case):
    mine = pp.inverse_dynamics(case.model, case.q, case.v, case.vdot)
    close(mine, case.peer.inverse_dynamics(case.q, case.v, case.vdot))


def test_forward_dynamics(case):
    state = case.q, case.v, case.tau, case.f_ext
    close(pp.forward_dynamics(case.model, *state), case.peer.forward_dynamics(*state))


def test_bias_forces(case):
    close(pp.bias_forces(case.model, case.q, case.v), case.peer.bias_forces(case.q, case.v))


def test_mass_matrix_and_inverse(case):
    close(pp.mass_matrix(case.model, case.q), case.peer.mass_matrix(case.q))
    close(pp.mass_matrix_inverse(case.model, case.q), case.peer.mass_matrix_inverse(case.q))


def test_poses_and_velocities(case):
    close(pp.poses(case.model, case.q), case.peer.poses(case.q))
    close(pp.velocities(case.model, case.q, case.v), case.peer.velocities(case.q, case.v))


def test_jacobian_and_rate(case):
    body, offset = case.model.n_bodies - 1, case.rng.standard_normal(3)
    J, rate = case.peer.jacobians(case.q, case.v, body, offset)
    points = [(case.model.body_names[body], offset)]
    close(pp.jacobian(case.model, case.q, points), J)
    close(pp.jacobian_dot(case.model, case.q, case.v, points), rate)


def test_energies(case):
    kinetic, potential = case.peer.energies(case.q, case.v)
    close(pp.kinetic_energy(case.model, case.q, case.v), kinetic)
    close(pp.potential_energy(case.model, case.q), potential)


def test_mass_centre_and_momentum(case):
    com, momentum = case.peer.centroidal(case.q, case.v)
    close(pp.center_of_mass(case.model, case.q), com)
    close(pp.momentum(case.model, case.q, case.v, about="com"), momentum)
