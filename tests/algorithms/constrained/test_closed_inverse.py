"""Efforts of chosen actuators for motions of systems with loops, by second routes."""

import numpy as np
import pytest
from comparers import close as near
from known_systems import four_bar
from random_grasps import random_grasp
from random_systems import KINDS, admissible, random_system

import phipsi as pp


def case(seed: int):
    """A random system and an admissible motion of it, with accelerations of its own choice."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:3]]
    system, q = random_system(seed, 7, kinds, n_roots=2, independent=True)
    v = admissible(system, q, rng)
    G = system.jacobian(q)
    vdot = rng.standard_normal(system.model.nv)
    vdot = vdot - np.linalg.pinv(G) @ (G @ vdot + system.bias(q, v))
    return system, q, v, vdot, rng


@pytest.mark.parametrize("seed", range(8))
def test_forward_dynamics_gives_the_motion_back(seed):
    system, q, v, vdot, rng = case(seed)
    f_ext = rng.standard_normal((system.model.n_bodies, 6))
    _, tau, f = pp.inverse_dynamics(system, q, v, vdot, f_ext, return_multipliers=True)
    motion = pp.forward_dynamics(system, q, v, tau, f_ext, return_multipliers=True)
    near(motion.vdot, vdot, 1e-8)
    near(motion.f, f, 1e-7)
    # least norm: nothing in it that the constraints would carry without motion
    G = system.jacobian(q)
    near(np.linalg.pinv(G.T) @ tau, np.zeros(len(G)), 1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_just_enough_actuators_give_the_only_efforts(seed):
    """Solved by a second route: Z* tau = Z* ID with as many unknowns as freedoms."""
    system, q, v, vdot, _ = case(seed)
    model, G = system.model, system.jacobian(q)
    Z = np.linalg.svd(G)[2][np.linalg.matrix_rank(G, tol=1e-9) :].T
    chosen, columns = [], np.zeros(0, dtype=int)
    for name, at in zip(model.joint_names, model.v_slices, strict=True):
        more = np.concatenate([columns, np.arange(at.start, at.stop)])
        if np.linalg.matrix_rank(Z[more], tol=1e-6) == len(more) <= Z.shape[1]:
            chosen, columns = [*chosen, name], more
    if len(columns) < Z.shape[1]:  # joints with several rates left some freedom: all of them then
        chosen, columns = list(model.joint_names), np.arange(model.nv)
    _, tau, _ = pp.inverse_dynamics(system, q, v, vdot, actuated=chosen, return_multipliers=True)
    needed = Z.T @ pp.inverse_dynamics(model, q, v, vdot)
    exact = np.zeros(model.nv)
    exact[columns] = np.linalg.lstsq(Z[columns].T, needed, rcond=None)[0]
    near(tau, exact, 1e-7)
    near(pp.forward_dynamics(system, q, v, tau), vdot, 1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_weights_decide_between_redundant_actuators(seed):
    """The optimum of Σ w tau²: its gradient is normal to what may change, found by null spaces."""
    system, q, v, vdot, rng = case(seed)
    weights = rng.uniform(0.1, 10, system.model.nv)
    _, tau, _ = pp.inverse_dynamics(system, q, v, vdot, weights=weights, return_multipliers=True)
    near(pp.forward_dynamics(system, q, v, tau), vdot, 1e-7)
    G = system.jacobian(q)  # efforts G* y move nothing
    near(G @ (weights * tau), np.zeros(len(G)), 1e-8)
    _, other, _ = pp.inverse_dynamics(system, q, v, vdot, return_multipliers=True)
    assert (weights * tau**2).sum() <= (weights * other**2).sum() * (1 + 1e-9)


def test_a_four_bar_is_driven_by_any_one_of_its_joints():
    """The power is the same whichever joint drives: tau₁ v₁ = tau₂ v₂ = tau₃ v₃."""
    system = four_bar()
    q = system.assemble([1.0, -0.8, -1.5])
    rng = np.random.default_rng(0)
    v = admissible(system, q, rng)
    vdot = pp.forward_dynamics(system, q, v, [3.0, 0, 0])
    powers = []
    for name in system.model.joint_names:
        _, tau, _ = pp.inverse_dynamics(
            system, q, v, vdot, actuated=[name], return_multipliers=True
        )
        assert np.count_nonzero(tau) == 1
        powers.append(tau @ v)
    near(powers, np.full(3, 3.0 * v[0]))
    batch = pp.inverse_dynamics(
        system, q, v, np.stack([vdot, vdot]), actuated="crank", return_multipliers=True
    )
    assert batch.tau.shape == (2, 3) and batch.f.shape == (2, 5)


def test_arms_move_an_object_without_a_motor_on_it():
    grasp, q, v = random_grasp(3, ("Rigid", "SoftFinger"))
    rng = np.random.default_rng(3)
    model, G = grasp.model, grasp.jacobian(q)
    vdot = rng.standard_normal(model.nv)
    vdot = vdot - np.linalg.pinv(G) @ (G @ vdot + grasp.bias(q, v))
    motors = [name for name in model.joint_names if name != model.joint_names[-1]]
    _, tau, f = pp.inverse_dynamics(grasp, q, v, vdot, actuated=motors, return_multipliers=True)
    assert not tau[grasp.object_rates].any()
    near(pp.forward_dynamics(grasp, q, v, tau), vdot, 1e-8)
    near(grasp.efforts(q, v, vdot, f), tau, 1e-8)
    near(grasp.grasp_map(q) @ f, grasp.object_load(q, v, vdot), 1e-8)


def test_what_cannot_be_driven_is_named():
    grasp = pp.examples.two_finger_grasp()
    q, zero = grasp.model.neutral(), np.zeros(grasp.model.nv)
    vdot = zero.copy()
    vdot[4] = 1.0  # the box turns about the line through its two point contacts
    motors = ["left_lower", "left_upper", "right_lower", "right_upper"]
    with pytest.raises(
        pp.errors.InputError, match=r"cannot drive this motion(.|\n)*'box' by \[1.0, "
    ):
        pp.inverse_dynamics(grasp, q, zero, vdot, actuated=motors, return_multipliers=True)
    pp.inverse_dynamics(grasp, q, zero, zero, actuated=motors, return_multipliers=True)
    with pytest.raises(pp.errors.InputError, match="vdot does not keep the constraints: row 'left"):
        pp.inverse_dynamics(grasp, q, zero, np.eye(10)[9], actuated=motors, return_multipliers=True)
    with pytest.raises(pp.errors.InputError, match="v does not keep the constraints"):
        pp.inverse_dynamics(grasp, q, np.eye(10)[9], zero, actuated=motors, return_multipliers=True)
    with pytest.raises(pp.errors.InputError, match="Did you mean 'left_lower'"):
        pp.inverse_dynamics(grasp, q, zero, zero, actuated=["left_lowr"], return_multipliers=True)
    with pytest.raises(pp.errors.InputError, match="above 0"):
        pp.inverse_dynamics(grasp, q, zero, zero, weights=zero, return_multipliers=True)


def test_a_mechanism_without_joints_needs_no_actuators():
    empty = pp.ModelBuilder().build()
    for mechanism in (empty, pp.System(empty)):
        assert pp.inverse_dynamics(mechanism, [], [], [], actuated=[]).shape == (0,)
        several = np.zeros((4, 0))
        found = pp.inverse_dynamics(mechanism, several, several, several, actuated=[])
        assert found.shape == (4, 0)
