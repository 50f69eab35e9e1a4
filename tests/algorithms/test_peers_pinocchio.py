"""Every named algorithm against Pinocchio, on random trees of all joint types it has."""

from types import SimpleNamespace

import numpy as np
import pytest
from comparers import close
from peers import InPinocchio, pinocchio_tree

import phipsi as pp
from phipsi.examples import free_flyer

# seed, bodies, roots, armature, only joints with constant axes
SIZES = [(1, 1), (4, 1), (7, 2), (9, 1), (12, 3), (8, 1), (10, 2), (9, 2), (6, 1)]
CASES = [
    (seed, n, roots, rotors, seed >= 7)
    for seed, (n, roots) in enumerate(SIZES)
    for rotors in (False, True)
]
# derivative at 0 from values at ±1, ±2, ±3 steps, exact for polynomials of degree 6
STENCIL = {1: 45 / 60, 2: -9 / 60, 3: 1 / 60}


def derivative(model, q, v, value, h=2e-3):
    """d/dt of value(q) along the motion with constant rates."""
    return sum(
        c * (value(model.integrate(q, k * h * v)) - value(model.integrate(q, -k * h * v))) / h
        for k, c in STENCIL.items()
    )


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"seed{c[0]}-n{c[1]}-rotors{c[3]}")
def case(request):
    seed, n, roots, rotors, constant = request.param
    model = pinocchio_tree(seed, n, n_roots=roots, armature=rotors, constant_axes=constant)
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng)
    v, vdot, tau = rng.standard_normal((3, model.nv))
    f_ext = rng.standard_normal((n, 6))
    return SimpleNamespace(
        model=model, peer=InPinocchio(model), q=q, v=v, vdot=vdot, tau=tau, f_ext=f_ext, rng=rng
    )


def test_inverse_dynamics(case):
    mine = pp.inverse_dynamics(case.model, case.q, case.v, case.vdot, case.f_ext)
    close(mine, case.peer.inverse_dynamics(case.q, case.v, case.vdot, case.f_ext))


@pytest.mark.parametrize("algorithm", [None, "FD1", "FD2", "FD3", "FD4"])
def test_forward_dynamics(case, algorithm):
    state = case.q, case.v, case.tau, case.f_ext
    mine = pp.forward_dynamics(case.model, *state, algorithm=algorithm)
    close(mine, case.peer.forward_dynamics(*state))


def test_joint_reactions(case):
    state = case.q, case.v, case.tau, case.f_ext
    close(pp.joint_reactions(case.model, *state).joints, case.peer.joint_reactions(*state))


def test_bias_and_gravity(case):
    close(pp.bias_forces(case.model, case.q, case.v), case.peer.bias_forces(case.q, case.v))
    close(pp.gravity_forces(case.model, case.q), case.peer.gravity_forces(case.q))


def test_mass_matrix_and_inverse(case):
    close(pp.mass_matrix(case.model, case.q), case.peer.mass_matrix(case.q))
    close(pp.mass_matrix_inverse(case.model, case.q), case.peer.mass_matrix_inverse(case.q))


def test_log_determinant(case):
    sign, value = np.linalg.slogdet(case.peer.mass_matrix(case.q))
    assert sign == 1
    close(pp.diagonal_dynamics.log_det_mass_matrix(case.model, case.q), value)


def test_poses(case):
    bodies, frames = case.peer.poses(case.q)
    close(pp.poses(case.model, case.q), bodies)
    close(pp.poses(case.model, case.q, case.model.frames), frames)


def test_body_motions(case):
    V, A, classical = case.peer.motions(case.q, case.v, case.vdot)
    state = case.model, case.q, case.v
    close(pp.velocities(*state), V)
    close(pp.accelerations(*state, case.vdot), A)
    close(pp.accelerations(*state, case.vdot, classical=True), classical)


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
def test_jacobians(case, axes):
    model, q, v, peer = case.model, case.q, case.v, case.peer
    frame = list(model.frames)[-1]
    J, rate = peer.jacobians(q, v, frame, axes)
    close(pp.jacobian(model, q, [frame], axes=axes), J)
    close(pp.velocities(model, q, v, [frame], axes=axes)[0], J @ v)
    mine = pp.jacobian_dot(model, q, v, [frame], axes=axes)
    close(mine, derivative(model, q, v, lambda x: peer.jacobians(x, v, frame, axes)[0]))
    close(pp.jacobian_dot(model, q, v, [frame], axes=axes, times_v=True), mine @ v)
    if peer.rates_are_complete:
        close(mine, rate)


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
def test_frame_motions(case, axes):
    model, q, v, vdot = case.model, case.q, case.v, case.vdot
    frame = list(model.frames)[-1]
    V, A, classical = case.peer.frame_motions(q, v, vdot, frame, axes)
    close(pp.velocities(model, q, v, [frame], axes=axes)[0], V)
    close(pp.accelerations(model, q, v, vdot, [frame], axes=axes)[0], A)
    mine = pp.accelerations(model, q, v, vdot, [frame], axes=axes, classical=True)[0]
    close(mine, classical)


def test_centroidal_quantities(case):
    model, q, v, peer = case.model, case.q, case.v, case.peer
    com, momentum, matrix, rate = peer.centroidal(q, v)
    close(pp.center_of_mass(model, q), com)
    close(pp.centroidal.com_jacobian(model, q), peer.com_jacobian(q))
    close(pp.momentum(model, q, v, about="com"), momentum)
    close(pp.centroidal.momentum_matrix(model, q), matrix)
    mine = pp.centroidal.momentum_matrix_dot(model, q, v)
    close(mine, derivative(model, q, v, lambda x: peer.centroidal(x, v)[2]))
    if peer.rates_are_complete:
        close(mine, rate)


def test_their_rates_are_compared_too():
    trees = [pinocchio_tree(s, n, n_roots=r, constant_axes=c) for s, n, r, _, c in CASES]
    assert sum(InPinocchio(model).rates_are_complete for model in trees) >= 4


def test_energies(case):
    kinetic, potential = case.peer.energies(case.q, case.v)
    close(pp.kinetic_energy(case.model, case.q, case.v), kinetic)
    close(pp.potential_energy(case.model, case.q), potential)


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
def test_operational_space_inertia(axes):
    """Two points on the arms of a floating robot, and their coupling, from J and ℳ⁻¹ of theirs."""
    model, points = free_flyer(), ["left_tool", "right_tool"]
    peer, rng = InPinocchio(model), np.random.default_rng(0)
    q = model.random_configuration(rng)
    q[7:] = np.tile([0.3, 0.8, -0.4, 1.1, 0.5, 0.9, 0.2], 2)
    J = np.concatenate([peer.jacobians(q, np.zeros(model.nv), f, axes)[0] for f in points])
    theirs = np.linalg.inv(J @ peer.mass_matrix_inverse(q) @ J.T)
    assert np.abs(theirs[:6, 6:]).max() > 1e-3  # the arms do feel each other
    close(pp.operational_space_inertia(model, q, points, axes=axes), theirs)


def test_forces_at_points(case):
    """f0 by the mechanism at two points is f_ext = −B f0 on the bodies."""
    frames = [list(case.model.frames)[0], list(case.model.frames)[-1]]
    f0 = case.rng.standard_normal((2, 6))
    J = np.concatenate([case.peer.jacobians(case.q, case.v, f, "world")[0] for f in frames])
    none = np.zeros((case.model.n_bodies, 6))
    load = J.T @ f0.ravel()
    tau = pp.inverse_dynamics(case.model, case.q, case.v, case.vdot, points=frames, f0=f0)
    close(tau, case.peer.inverse_dynamics(case.q, case.v, case.vdot, none) + load)
    vdot = case.peer.forward_dynamics(case.q, case.v, case.tau - load, none)
    for algorithm in (None, "FD1", "FD2", "FD3", "FD4"):
        mine = pp.forward_dynamics(
            case.model, case.q, case.v, case.tau, points=frames, f0=f0, algorithm=algorithm
        )
        close(mine, vdot)


@pytest.mark.parametrize("rotors", [False, True])
@pytest.mark.parametrize(("seed", "n", "roots"), [(7, 9, 2), (8, 6, 1), (20, 12, 1), (21, 8, 3)])
def test_derivatives_of_the_dynamics(seed, n, roots, rotors):
    """Pinocchio's derivatives take the axes of joints for constant in the body."""
    model = pinocchio_tree(seed, n, n_roots=roots, armature=rotors, constant_axes=True)
    peer, rng = InPinocchio(model), np.random.default_rng(seed)
    q = model.random_configuration(rng)
    v, vdot, tau = rng.standard_normal((3, model.nv))
    mine = pp.inverse_dynamics_derivatives(model, q, v, vdot)
    for x, y in zip(mine, peer.inverse_dynamics_derivatives(q, v, vdot), strict=True):
        close(x, y, 1e-8)
    mine = pp.forward_dynamics_derivatives(model, q, v, tau)
    for x, y in zip(mine, peer.forward_dynamics_derivatives(q, v, tau), strict=True):
        close(x, y, 1e-8)
