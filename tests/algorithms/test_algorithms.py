"""Named algorithms: physics by two routes, on random trees of all joint types."""

from functools import partial

import numpy as np
import pytest
from comparers import close
from hypothesis import given, settings, strategies as st
from random_models import models, random_state, random_tree

import phipsi as pp
from phipsi.core.compiler import compile
from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.errors import InputError, ModelError, SingularHingeError, SingularMatrixError
from phipsi.examples import free_flyer, planar_arm, seven_joint_arm
from phipsi.operators import H, J, mass_matrix

STEP = 1e-30  # complex steps have no rounding error to balance


state = partial(random_state, rates=3)


def forces(model: Model, seed: int, batch=()):
    return np.random.default_rng(seed + 1).standard_normal((*batch, model.n_bodies, 6))


def rate(model: Model, value, q, v, vdot=None):
    """d/dt of value(q, v) along the motion, by a complex step."""
    qc = q + 1j * STEP * model.qdot(q, v)
    vc = v if vdot is None else v + 1j * STEP * vdot
    return value(qc, vc).imag / STEP


trees = models(max_bodies=6, frames=True)
seeds = st.integers(0, 2**32 - 1)


# ---- dynamics ---------------------------------------------------------------------------------


@given(trees, seeds, st.sampled_from([None, "FD1", "FD2", "FD3", "FD4"]))
@settings(max_examples=60)
def test_forward_undoes_inverse_dynamics(model, seed, algorithm):
    q, v, vdot, _ = state(model, seed)
    f_ext, f0 = forces(model, seed), np.random.default_rng(seed).standard_normal((2, 6))
    points = ["f0", (model.body_names[-1], (0.1, 0.2, 0.3))]
    loads = {"points": points, "f0": f0}
    tau = pp.inverse_dynamics(model, q, v, vdot, f_ext, **loads)
    back = pp.forward_dynamics(model, q, v, tau, f_ext, **loads, algorithm=algorithm)
    M = pp.mass_matrix(model, q)
    scale = np.linalg.cond(M) * 1e-4 * max(1.0, np.abs(tau).max() / np.linalg.norm(M, 2))
    close(back, vdot, scale=scale)


@given(trees, seeds)
@settings(max_examples=40)
def test_equations_of_motion(model, seed):
    """tau = ℳ vdot + C, and C at rest is the gravity term."""
    q, v, vdot, _ = state(model, seed)
    tau = pp.inverse_dynamics(model, q, v, vdot)
    M = pp.mass_matrix(model, q)
    close(M, M.T)
    close(tau, M @ vdot + pp.bias_forces(model, q, v))
    close(pp.gravity_forces(model, q), pp.bias_forces(model, q, 0 * v))
    assert np.linalg.eigvalsh(M)[0] > 0
    close(pp.diagonal_dynamics.log_det_mass_matrix(model, q), np.linalg.slogdet(M)[1])
    inverse = pp.mass_matrix_inverse(model, q)
    close(inverse @ M, np.eye(model.nv), scale=1e-4 * np.linalg.cond(M))


@given(trees, seeds)
@settings(max_examples=40)
def test_energy_rate_equals_power(model, seed):
    q, v, tau, _ = state(model, seed)
    f_ext = forces(model, seed)
    vdot = pp.forward_dynamics(model, q, v, tau, f_ext)
    power = v @ tau + np.vdot(pp.velocities(model, q, v), f_ext)

    def energy(q, v):
        return pp.kinetic_energy(model, q, v) + pp.potential_energy(model, q)

    M = pp.mass_matrix(model, q)
    scale = max(1.0, np.linalg.norm(v) * np.linalg.norm(M, 2) * np.linalg.norm(vdot))
    close(rate(model, energy, q, v, vdot), power, scale=scale)


def test_energy_rate_along_integrate():
    """The same by differences along `model.integrate`, which the other test does not use."""
    model = random_tree(4, 7, armature=True)
    q, v, tau, _ = state(model, 4)
    vdot = pp.forward_dynamics(model, q, v, tau)
    h = 1e-4

    def energy(t):
        qt = model.integrate(q, t * v + t * t / 2 * vdot)
        vt = v + t * vdot
        return pp.kinetic_energy(model, qt, vt) + pp.potential_energy(model, qt)

    close((energy(h) - energy(-h)) / (2 * h), v @ tau, tolerance=1e-6, scale=100)


@given(trees, seeds)
@settings(max_examples=30)
def test_gravity_forces_are_the_gradient_of_the_potential(model, seed):
    q, v, *_ = state(model, seed)
    power = rate(model, lambda q, v: pp.potential_energy(model, q), q, v)
    close(power, pp.gravity_forces(model, q) @ v)


def test_kinetic_energy_is_half_v_mass_matrix_v():
    model = random_tree(5, 7, armature=True)
    q, v, *_ = state(model, 5)
    close(pp.kinetic_energy(model, q, v), v @ pp.mass_matrix(model, q) @ v / 2)


@given(trees, seeds)
@settings(max_examples=30)
def test_joint_reactions(model, seed):
    """They carry the efforts, and balance every body against its children and its own motion."""
    q, v, tau, _ = state(model, seed)
    f_ext = forces(model, seed)
    f = pp.joint_reactions(model, q, v, tau, f_ext).joints
    vdot = pp.forward_dynamics(model, q, v, tau, f_ext)
    # as forces of the environment on the bodies they leave nothing for the joints to do
    poses = pp.poses(model, q)
    rest = f_ext + f
    for k, p in enumerate(model.parent):
        if p >= 0:
            X = np.linalg.solve(poses[p], poses[k])
            R, arm = X[:3, :3], X[:3, 3]
            moment, force = R @ f[k, :3], R @ f[k, 3:]
            rest[p] -= np.concatenate([moment + np.cross(arm, force), force])
    scale = max(1.0, np.abs(f).max(), np.abs(vdot).max())
    left = pp.inverse_dynamics(model, q, v, vdot, rest) - model.armature * vdot
    close(left, np.zeros(model.nv), scale=scale)
    axes = compile(H.T, model, mode="blocks")(q)
    effort = tau - model.armature * vdot
    for k, at in enumerate(model.v_slices):
        close(axes[:, at].T @ f[k], effort[at], scale=scale)


# ---- kinematics -------------------------------------------------------------------------------


@given(trees, seeds, st.sampled_from(["world", "body", "spatial"]))
@settings(max_examples=40)
def test_jacobian_rates_by_complex_step(model, seed, axes):
    q, v, vdot, _ = state(model, seed)
    points = [("f0", (0.1, -0.2, 0.3)), model.body_names[-1], "world"]
    J = pp.jacobian(model, q, points, axes=axes)
    Jdot = pp.jacobian_dot(model, q, v, points, axes=axes)
    close(Jdot, rate(model, lambda q, v: pp.jacobian(model, q, points, axes=axes), q, v))
    close(pp.jacobian_dot(model, q, v, points, axes=axes, times_v=True), Jdot @ v)
    assert not J[12:].any() and not Jdot[12:].any()  # the world does not move


@given(trees, seeds)
@settings(max_examples=30)
def test_motions_by_complex_step(model, seed):
    """Velocities are rates of poses, accelerations rates of velocities."""
    q, v, vdot, _ = state(model, seed)
    X, V = pp.poses(model, q), pp.velocities(model, q, v)
    Xdot = rate(model, lambda q, v: pp.poses(model, q), q, v)
    spin = np.swapaxes(X[:, :3, :3], -1, -2) @ Xdot[:, :3, :3]
    close(np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], -1), V[:, :3])
    origin = np.einsum("kji,kj->ki", X[:, :3, :3], Xdot[:, :3, 3])
    close(origin, V[:, 3:])
    A = rate(model, lambda q, v: pp.velocities(model, q, v), q, v, vdot)
    close(pp.accelerations(model, q, v, vdot), A)
    classical = A.copy()
    classical[:, 3:] += np.cross(V[:, :3], V[:, 3:])
    close(pp.accelerations(model, q, v, vdot, classical=True), classical)


@given(trees, seeds)
@settings(max_examples=30)
def test_point_accelerations(model, seed):
    """J vdot + J̇ v in world axes is the classical acceleration of the point."""
    q, v, vdot, _ = state(model, seed)
    body = model.body_names[-1]
    J, bias = pp.jacobian(model, q, [body]), pp.jacobian_dot(model, q, v, [body], times_v=True)
    R = pp.poses(model, q)[-1, :3, :3]
    A = pp.accelerations(model, q, v, vdot, classical=True)[-1]
    close(J @ vdot + bias, np.concatenate([R @ A[:3], R @ A[3:]]))


def test_frames_are_bodies_with_an_offset():
    model = random_tree(2, 6, frames=True)
    q, v, *_ = state(model, 2, (3,))
    host, X = model.frames["f4"]
    name = model.body_names[host]
    close(
        pp.jacobian(model, q, [("f4", (0.1, 0.2, 0.3))]),
        pp.jacobian(model, q, [(name, X.apply((0.1, 0.2, 0.3)))]),
    )
    poses = pp.poses(model, q, ["f4", name, "world"])
    bodies = pp.poses(model, q)
    close(poses[:, 0], bodies[:, host] @ X.matrix)
    close(poses[:, 1], bodies[:, host])
    close(poses[:, 2], np.broadcast_to(np.eye(4), (3, 4, 4)))
    assert pp.poses(model, q, model.frames).shape == (3, len(model.frames), 4, 4)
    V = pp.velocities(model, q, v, [name, "world"], axes="body")
    close(V[:, 0], pp.velocities(model, q, v)[:, host])
    assert not V[:, 1].any()


# ---- momentum ---------------------------------------------------------------------------------


@given(trees, seeds)
@settings(max_examples=30)
def test_centroidal_momentum(model, seed):
    q, v, *_ = state(model, seed)
    matrix = pp.centroidal.momentum_matrix(model, q)
    h, c = pp.momentum(model, q, v, about="com"), pp.center_of_mass(model, q)
    close(matrix @ v, h)
    origin = pp.momentum(model, q, v)
    close(origin, np.concatenate([h[:3] + np.cross(c, h[3:]), h[3:]]))
    mass = sum(inertia.mass for inertia in model.inertias)
    close(h[3:], mass * rate(model, lambda q, v: pp.center_of_mass(model, q), q, v))
    mine = pp.centroidal.momentum_matrix_dot(model, q, v)
    close(mine, rate(model, lambda q, v: pp.centroidal.momentum_matrix(model, q), q, v))


def test_a_floating_robot_keeps_its_momentum():
    model = free_flyer()
    q, v, tau, _ = state(model, 1)
    tau[:6] = 0
    vdot = pp.forward_dynamics(model, q, v, tau)
    scale = np.abs(vdot).max() * 100
    change = rate(model, lambda q, v: pp.momentum(model, q, v), q, v, vdot)
    close(change, np.zeros(6), scale=scale)
    reaction = pp.joint_reactions(model, q, v, tau).joints[0]
    close(reaction, np.zeros(6), scale=scale)


# ---- operational space and innovations --------------------------------------------------------


def test_operational_space_inertia_of_points_on_two_arms():
    model, points = free_flyer(), ["left_tool", ("right_tool", (0, 0, 0.1))]
    q, v, *_ = state(model, 3, (2,))
    J, inverse = pp.jacobian(model, q, points), pp.mass_matrix_inverse(model, q)
    inertia = pp.operational_space_inertia(model, q, points)
    compliance = J @ inverse @ np.swapaxes(J, -1, -2)
    scale = np.linalg.cond(compliance).max()
    close(inertia @ compliance, np.broadcast_to(np.eye(12), (2, 12, 12)), 1e-13, scale)


@pytest.mark.parametrize("points", [["tip"], ["world"]])
def test_operational_space_inertia_needs_row_rank(points):
    with pytest.raises(SingularMatrixError, match="row rank"):
        pp.operational_space_inertia(planar_arm(7), np.linspace(0, 1, 7), points)


def test_operational_space_inertia_needs_independent_points():
    arm, q = seven_joint_arm(), np.linspace(0.2, 1, 7)
    with pytest.raises(SingularMatrixError, match="row rank"):
        pp.operational_space_inertia(arm, q, ["tool", "forearm_roll"])


def test_forces_at_points_change_accelerations_as_the_papers_say():
    model, points = free_flyer(), ["left_tool", "right_tool"]
    q, v, tau, _ = state(model, 6)
    f0 = np.random.default_rng(6).standard_normal((2, 6))
    free = pp.forward_dynamics(model, q, v, tau)
    loaded = pp.forward_dynamics(model, q, v, tau, points=points, f0=f0)
    change = pp.compile(-(mass_matrix.inv @ J.T @ pp.operators.f0), model, points=points)(q, f0)
    close(change, loaded - free, scale=np.abs(free).max())


@given(trees, seeds)
@settings(max_examples=30)
def test_innovations(model, seed):
    q, v, tau, _ = state(model, seed)
    epsilon, nu = pp.diagonal_dynamics.innovations(model, q, v, tau)
    close(nu @ nu, 2 * pp.kinetic_energy(model, q, v))
    M = pp.mass_matrix(model, q)
    close(nu @ epsilon, v @ tau, scale=1e-4 * np.linalg.cond(M))
    close(epsilon @ epsilon, tau @ np.linalg.solve(M, tau), scale=1e-4 * np.linalg.cond(M))


@pytest.mark.parametrize("seed", range(4))
def test_accelerations_of_points(seed):
    """Classical in world axes: J vdot + J̇ v; spatial in frame axes: the rate of the velocity."""
    model = random_tree(seed, 6)
    q, v, vdot, _ = state(model, seed)
    points = [(model.body_names[-1], (0.3, -0.2, 0.5)), "world", model.body_names[1]]
    found = pp.accelerations(model, q, v, vdot, points, axes="world", classical=True)
    J, rate = pp.jacobian(model, q, points), pp.jacobian_dot(model, q, v, points)
    close(found.reshape(-1), J @ vdot + rate @ v)

    h = 1e-30  # the motion q(t), v(t) at an imaginary time
    later = q + 1j * h * model.qdot(q, v), v + 1j * h * vdot
    exact = pp.velocities(model, *later, points, axes="body").imag / h
    close(pp.accelerations(model, q, v, vdot, points, axes="body"), exact)
    world = {"points": points, "axes": "world"}
    assert np.array_equal(pp.velocities(model, q, v, points), pp.velocities(model, q, v, **world))
    spatial = pp.accelerations(model, q, v, vdot, **world)
    assert np.array_equal(pp.accelerations(model, q, v, vdot, points), spatial)
    close(pp.velocities(model, q, v, points).reshape(-1), J @ v)
    assert np.abs(pp.velocities(model, q, v, points, axes="body").reshape(-1) - J @ v).max() > 0.1
    assert pp.accelerations(model, q, v, vdot, []).shape == (0, 6)
    assert pp.accelerations(model, q, v, vdot, [], classical=True).shape == (0, 6)
    with pytest.raises(ModelError, match="must be a list"):
        pp.accelerations(model, q, v, vdot, model.body_names[0])
    with pytest.raises(InputError, match="axes='local'"):
        pp.accelerations(model, q, v, vdot, points, axes="local")


def test_jacobian_of_the_mass_centre(tree):
    q, v, _, _ = state(tree, 3)
    exact = pp.center_of_mass(tree, q + 1e-30j * tree.qdot(q, v)).imag / 1e-30
    found = pp.centroidal.com_jacobian(tree, q)
    close(found @ v, exact)
    close(pp.centroidal.com_jacobian(tree, np.broadcast_to(q, (2, 3, tree.nq)))[1, 2], found, 1e-12)
    with pytest.raises(ModelError, match="no mass centre"):
        pp.centroidal.com_jacobian(ModelBuilder().build(), [])


# ---- batches, empty models, errors ------------------------------------------------------------

CALLS = {
    "inverse_dynamics": lambda m, q, v, x: pp.inverse_dynamics(m, q, v, x),
    "forward_dynamics": lambda m, q, v, x: pp.forward_dynamics(m, q, v, x),
    "FD1": lambda m, q, v, x: pp.forward_dynamics(m, q, v, x, algorithm="FD1"),
    "FD2": lambda m, q, v, x: pp.forward_dynamics(m, q, v, x, algorithm="FD2"),
    "FD3": lambda m, q, v, x: pp.forward_dynamics(m, q, v, x, algorithm="FD3"),
    "FD4": lambda m, q, v, x: pp.forward_dynamics(m, q, v, x, algorithm="FD4"),
    "mass_matrix": lambda m, q, v, x: pp.mass_matrix(m, q),
    "mass_matrix_inverse": lambda m, q, v, x: pp.mass_matrix_inverse(m, q),
    "bias_forces": lambda m, q, v, x: pp.bias_forces(m, q, v),
    "gravity_forces": lambda m, q, v, x: pp.gravity_forces(m, q),
    "joint_reactions": lambda m, q, v, x: pp.joint_reactions(m, q, v, x).joints,
    "poses": lambda m, q, v, x: pp.poses(m, q),
    "poses of frames": lambda m, q, v, x: pp.poses(m, q, m.frames),
    "velocities": lambda m, q, v, x: pp.velocities(m, q, v),
    "velocities of frames": lambda m, q, v, x: pp.velocities(m, q, v, m.frames),
    "accelerations of frames": lambda m, q, v, x: pp.accelerations(m, q, v, x, m.frames),
    "accelerations": lambda m, q, v, x: pp.accelerations(m, q, v, x),
    "classical": lambda m, q, v, x: pp.accelerations(m, q, v, x, classical=True),
    "jacobian": lambda m, q, v, x: pp.jacobian(m, q, ["place", "world"]),
    "jacobian_dot": lambda m, q, v, x: pp.jacobian_dot(m, q, v, ["place"]),
    "jacobian_dot_v": lambda m, q, v, x: pp.jacobian_dot(m, q, v, ["place"], times_v=True),
    "kinetic_energy": lambda m, q, v, x: pp.kinetic_energy(m, q, v),
    "potential_energy": lambda m, q, v, x: pp.potential_energy(m, q),
    "momentum": lambda m, q, v, x: pp.momentum(m, q, v),
    "momentum_com": lambda m, q, v, x: pp.momentum(m, q, v, about="com"),
    "centroidal": lambda m, q, v, x: pp.centroidal.momentum_matrix(m, q),
    "centroidal_dot": lambda m, q, v, x: pp.centroidal.momentum_matrix_dot(m, q, v),
    "epsilon": lambda m, q, v, x: pp.diagonal_dynamics.innovations(m, q, v, x).epsilon,
    "nu": lambda m, q, v, x: pp.diagonal_dynamics.innovations(m, q, v, x).nu,
    "log_det": lambda m, q, v, x: pp.diagonal_dynamics.log_det_mass_matrix(m, q),
}


@pytest.fixture(scope="module")
def tree() -> Model:
    other = ModelBuilder(gravity=(0.3, -0.5, -9.81))
    other.add_frame("place", body="world", placement=Pose(translation=(0.1, 0.2, 0.3)))
    return random_tree(8, 6, armature=True).attach(other.build(), at="b4")


@pytest.mark.parametrize("name", CALLS)
def test_batches_are_element_by_element(tree, name):
    call = CALLS[name]
    q, v, x, _ = state(tree, 8, (2, 3))
    together = call(tree, q, v, x)
    assert together.shape[:2] == (2, 3)
    for index in np.ndindex(2, 3):
        close(together[index], call(tree, q[index], v[index], x[index]), 1e-12)
    one = call(tree, q[0, 0], v[0], x[0])  # batch axes broadcast, where there are any
    assert one.shape in (together.shape[1:], together.shape[2:])


def test_center_of_mass_in_batches(tree):
    q, *_ = state(tree, 8, (2, 3))
    close(pp.center_of_mass(tree, q)[1, 2], pp.center_of_mass(tree, q[1, 2]))


def empty_models() -> dict[str, Model]:
    nothing = ModelBuilder()
    nothing.add_frame("place", body="world")
    welded = ModelBuilder()
    welded.add_body("block", joint=joints.Fixed(), inertia=SpatialInertia(1.0, (0, 0, 1), 1.0))
    welded.add_frame("place", body="block")
    return {"nothing": nothing.build(), "welded": welded.build()}


@pytest.mark.parametrize("kind", ["nothing", "welded"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("batch", [(), (4,)])
def test_models_without_freedom(kind, name, batch):
    model = empty_models()[kind]
    none = np.zeros((*batch, 0))
    out = CALLS[name](model, none, none, none)
    assert out.shape[: len(batch)] == batch
    assert np.isfinite(out).all()


def test_a_model_without_mass_has_no_mass_centre():
    with pytest.raises(ModelError, match="no mass centre"):
        pp.center_of_mass(empty_models()["welded"], [])


def test_wrong_arguments():
    arm, q = planar_arm(2), np.zeros(2)
    with pytest.raises(InputError, match="'FD4'"):
        pp.forward_dynamics(arm, q, q, q, algorithm="FD5")
    with pytest.raises(InputError, match="points"):
        pp.forward_dynamics(arm, q, q, q, f0=np.zeros((1, 6)))
    with pytest.raises(InputError, match="f0"):
        pp.inverse_dynamics(arm, q, q, q, points=["tip"])
    with pytest.raises(InputError, match="com"):
        pp.momentum(arm, q, q, about="tip")
    with pytest.raises(InputError, match="axes"):
        pp.jacobian(arm, q, ["tip"], axes="local")
    with pytest.raises(ModelError, match="tip"):
        pp.jacobian(arm, q, ["tipp"])
    with pytest.raises(InputError, match="nq = 2"):
        pp.mass_matrix(arm, [0.0])


# ---- hinges without inertia -------------------------------------------------------------------


def slider_on_a_hinge() -> Model:
    """Point mass sliding on a massless turntable: no inertia about the hinge when it is at 0."""
    b = ModelBuilder()
    b.add_body("turntable", joint_name="turn")
    point = SpatialInertia(mass=2.0)
    b.add_body("bead", parent="turntable", joint=joints.Prismatic((1, 0, 0)), inertia=point)
    return b.build()


def test_a_hinge_without_inertia_is_an_error_that_helps():
    with pytest.raises(SingularHingeError) as caught:
        pp.forward_dynamics(slider_on_a_hinge(), [0.3, 0.0], [0, 0], [0, 0])
    text = str(caught.value)
    for part in ("'turn'", "D = H P H*", "0", "'turntable', 'bead'", "armature="):
        assert part in text


def test_the_fix_in_the_message_works():
    model = slider_on_a_hinge().with_body("turntable", armature=1e-4)
    vdot = pp.forward_dynamics(model, [0.3, 0.0], [0, 0], [1e-4, 0])
    close(vdot, np.array([1.0, 0.0]))


def test_massless_bodies_are_legal_as_long_as_something_moves():
    vdot = pp.forward_dynamics(slider_on_a_hinge(), [0.0, 0.5], [1.0, 0.0], [0.0, 0.0])
    close(vdot, np.array([0.0, 0.5]))  # centrifugal


def test_failures_in_a_batch_can_be_masked():
    model = slider_on_a_hinge()
    solve = compile(mass_matrix.inv, model)
    q = [[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]]
    out, status = solve(q, [1.0, 0.0], on_error="nan")
    assert (status != 0).tolist() == [False, True, False]
    assert np.isnan(out[1]).all()
    close(out[[0, 2], 0], np.array([0.5, 0.125]))
    with pytest.raises(SingularHingeError, match="element"):
        solve(q, [1.0, 0.0])


def test_offsets_of_any_kind_find_one_program():
    """Tuples, lists and arrays are the same points; other numbers are other points."""
    arm = pp.examples.planar_arm(3)
    q, f0 = np.array([0.2, 0.4, -0.3]), [[0, 0, 0, 0, 10.0, 0]]
    offsets = ((0.0, 0.0, 0.5), [0.0, 0.0, 0.5], np.array([0.0, 0.0, 0.5]))
    found = [pp.jacobian(arm, q, [("tip", x)]) for x in offsets]
    loads = [pp.inverse_dynamics(arm, q, q, q, points=[("tip", x)], f0=f0) for x in offsets]
    count = len(arm.cache)
    for jacobian, tau, x in zip(found, loads, offsets, strict=True):
        assert (jacobian == found[0]).all() and (tau == loads[0]).all()
        pp.jacobian(arm, q, [("tip", x)])
    assert len(arm.cache) == count
    other = pp.jacobian(arm, q, [("tip", np.array([0.5, 0.0, 0.0]))])
    assert np.abs(other - found[0]).max() > 0.1
    plain = pp.inverse_dynamics(arm, q, q, q)
    assert np.abs(plain - loads[0]).max() > 1


@pytest.mark.parametrize("seed", range(3))
def test_innovations_without_gravity_obey_the_documented_equation(seed):
    """ν̇ + μ = ε for tau − gravity forces, with ν̇ along the motion of forward dynamics."""
    model = random_tree(seed, 5)
    q, v, _, tau = state(model, seed)
    vdot, h = pp.forward_dynamics(model, q, v, tau), 1e-30
    later = q + 1j * h * model.qdot(q, v), v + 1j * h * vdot
    nudot = pp.diagonal_dynamics.innovations(model, *later, tau).nu.imag / h
    nu = pp.diagonal_dynamics.innovations(model, q, v, tau).nu
    mu = pp.diagonal_dynamics.coriolis(model, q, nu)
    free = pp.diagonal_dynamics.innovations(model, q, v, tau - pp.gravity_forces(model, q)).epsilon
    close(nudot + mu, free, scale=10.0)
    held = pp.diagonal_dynamics.innovations(model, q, v, tau).epsilon
    assert np.abs(nudot + mu - held).max() > 1e-3
