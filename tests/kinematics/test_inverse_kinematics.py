"""Inverse kinematics: steps, residuals, and solutions checked by forward kinematics."""

import numpy as np
import pytest
from amounts import examples, seeds
from hypothesis import given, settings, strategies as st
from peers import InPinocchio
from random_models import ALL, chain, models
from scipy.optimize import least_squares, lsq_linear, minimize

import phipsi as pp
from phipsi.algorithms.kinematics.bounded_steps import bounded_steps
from phipsi.algorithms.kinematics.step_coordinates import StepCoordinates
from phipsi.core.spatial import so3_log
from phipsi.kinematics.ik_multistart import MultistartSearch
from phipsi.kinematics.ik_problem import Targets

ARM = pp.examples.seven_joint_arm()


def goals(model: pp.Model, q: np.ndarray, frames: list[str]) -> dict:
    poses = pp.poses(model, q, frames)
    return {name: poses[..., i, :, :] for i, name in enumerate(frames)}


def misses(model: pp.Model, q: np.ndarray, targets: dict) -> tuple[np.ndarray, np.ndarray]:
    """Largest errors in m and rad, by forward kinematics and SciPy-free logarithms."""
    metres, radians = [], []
    for point, goal in targets.items():
        name, offset = (point, np.zeros(3)) if isinstance(point, str) else point
        X = pp.poses(model, q, [name])[..., 0, :, :]
        p = X[..., :3, 3] + X[..., :3, :3] @ np.asarray(offset, dtype=float)
        goal = goal.matrix if isinstance(goal, pp.Pose) else np.asarray(goal)
        full = goal.shape[-2:] == (4, 4)
        metres.append(np.linalg.norm(p - (goal[..., :3, 3] if full else goal), axis=-1))
        if full:
            R = X[..., :3, :3] @ np.swapaxes(goal[..., :3, :3], -1, -2)
            radians.append(np.linalg.norm(so3_log(R), axis=-1))
    return np.max(metres, axis=0), np.max(radians or [np.zeros_like(metres[0])], axis=0)


# ---- the bounded quadratic step --------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_bounded_steps_satisfy_the_conditions_of_optimality(seed, k):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((40, k + 2, k)) * 10.0 ** rng.uniform(-2, 1, (40, 1, k))
    A = np.swapaxes(root, -1, -2) @ root + 1e-6 * np.eye(k)
    g = rng.standard_normal((40, k))
    lower = np.where(rng.random((40, k)) < 0.3, -np.inf, -rng.random((40, k)))
    upper = np.where(rng.random((40, k)) < 0.3, np.inf, rng.random((40, k)))
    upper[0] = 0.0  # a corner at the start
    d = bounded_steps(A, g, lower, upper)
    assert (d >= lower).all() and (d <= upper).all()
    pull = np.einsum("bij,bj->bi", A, d) + g
    noise = 1e-9 * np.abs(g).max(axis=-1, keepdims=True)
    size = np.abs(A).sum(axis=-1) * np.abs(d).max(axis=-1, keepdims=True) * 1e-9
    tolerance = np.maximum(noise, size)
    assert (np.abs(pull) <= tolerance)[(d > lower) & (d < upper)].all()
    assert (pull >= -tolerance)[(d == lower) & (d < upper)].all()
    assert (pull <= tolerance)[(d == upper) & (d > lower)].all()


def test_bounded_steps_agree_with_scipy():
    rng = np.random.default_rng(0)
    for _ in range(20):
        J, r = rng.standard_normal((9, 7)), rng.standard_normal(9)
        low, high = -0.3 * rng.random(7), 0.3 * rng.random(7)
        ours = bounded_steps((J.T @ J)[None], (J.T @ r)[None], low[None], high[None])[0]
        theirs = lsq_linear(J, -r, (low, high), method="bvls", tol=1e-15).x
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


# ---- residuals and the coordinates of a step -------------------------------------------------


def with_limited_planar() -> pp.Model:
    b = pp.ModelBuilder()
    planar = pp.joints.Composite([pp.joints.Planar(), pp.joints.Revolute((1, 0, 0))])
    lower, upper = -np.ones(4), np.ones(4)
    b.add_body(
        "cart", joint=planar, limits=(lower, upper), placement=pp.Pose(translation=(0, 1, 0))
    )
    b.add_body("ball", parent="cart", joint=pp.joints.Spherical())
    place = pp.Pose(translation=(0, 0, 0.5))
    b.add_body("arm", parent="ball", joint=pp.joints.Revolute((0, 1, 0)), placement=place)
    b.add_frame("hand", body="arm", placement=pp.Pose(translation=(0, 0, 0.4)))
    return b.build()


def check_slopes(model: pp.Model, points: list, seed: int) -> None:
    """The derivative of the residuals along every coordinate of a step, by central differences."""
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng, (3,))
    goal = model.random_configuration(rng)
    targets = Targets(model, {p: pp.poses(model, goal, [p])[0] for p in points}, None)
    targets.spread((3,))
    chart, every = StepCoordinates(model, (), True), np.arange(3)
    search = MultistartSearch(targets, chart, None, 1e-6, 1e-6)

    def at(q):
        """Rows and slopes where an attempt begins."""
        state = search.on_arrays(q, every, 0).now
        return state.rows.lanes_first(), state.slopes.lanes_first()

    _, slopes = at(q)
    h = 1e-6  # error h² times third derivatives of size 1, and 1e-16 / h: 1e-10 of both
    for k in range(slopes.shape[-1]):
        step = np.zeros((3, slopes.shape[-1]))
        step[:, k] = h
        (ahead, _), (behind, _) = at(chart.move(q, step)), at(chart.move(q, -step))
        jump = np.abs(ahead - behind).max(axis=-1) > 1  # a rotation error passed a half turn
        np.testing.assert_allclose(
            ((ahead - behind) / (2 * h))[~jump], slopes[~jump, :, k], atol=2e-7
        )


@settings(max_examples=examples(80))
@given(models(max_bodies=4, frames=True), st.integers(0, 2**32 - 1))
def test_slopes_of_residuals_on_random_trees(model, seed):
    check_slopes(model, [f"f{model.n_bodies - 1}", "b0"], seed)


@pytest.mark.parametrize("seed", seeds(5))
def test_slopes_with_limits_on_planar_coordinates(seed):
    check_slopes(with_limited_planar(), ["hand"], seed)


# ---- solutions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "frames"),
    [
        (ARM, ["tool"]),
        (pp.examples.free_flyer(), ["left_tool", "right_tool"]),
        (pp.examples.humanoid(), ["left_palm", "right_sole"]),
    ],
    ids=["arm", "free flyer", "humanoid"],
)
def test_found_configurations_are_solutions_by_pinocchio(model, frames):
    goal = model.random_configuration(1, (12,))
    targets = goals(model, goal, frames)
    found = pp.inverse_kinematics(model, targets, model.random_configuration(2, (12,)), restarts=20)
    assert found.converged.all()
    assert (found.q >= model.lower).all() and (found.q <= model.upper).all()
    peer, places = InPinocchio(model), [list(model.frames).index(f) for f in frames]
    for k in range(12):
        X = peer.poses(found.q[k])[1][places]
        Y = np.stack([targets[f][k] for f in frames])
        assert np.linalg.norm(X[:, :3, 3] - Y[:, :3, 3], axis=-1).max() <= 1e-6
        R = X[:, :3, :3] @ np.swapaxes(Y[:, :3, :3], -1, -2)
        assert np.linalg.norm(so3_log(R), axis=-1).max() <= 1e-6
    metres, radians = misses(model, found.q, targets)
    np.testing.assert_allclose(found.position_error.max(axis=-1), metres, atol=1e-12)
    np.testing.assert_allclose(found.rotation_error.max(axis=-1), radians, atol=1e-12)


@settings(max_examples=examples(80))
@given(models(max_bodies=5, frames=True, limits=True), st.integers(0, 2**32 - 1))
def test_random_trees_of_all_joint_types(model, seed):
    goal = model.random_configuration(seed)
    targets = goals(model, goal, [f"f{i}" for i in range(model.n_bodies)][-2:])
    start = model.random_configuration(seed + 1)
    found = pp.inverse_kinematics(model, targets, start, restarts=60)
    metres, radians = misses(model, found.q, targets)
    assert metres <= 1e-6 and radians <= 1e-6
    for joint, at in zip(model.joints, model.q_slices, strict=True):
        if joint.kind in ("spherical", "free"):
            assert abs(np.linalg.norm(found.q[at][:4]) - 1) < 1e-12
    assert (found.q >= model.lower).all() and (found.q <= model.upper).all()


def test_batches_are_the_same_as_single_calls():
    goal = ARM.random_configuration(3, (3, 4))
    start = ARM.random_configuration(4, (4,))
    targets = goals(ARM, goal, ["tool"])
    found = pp.inverse_kinematics(ARM, targets, start, on_error="best")
    assert found.q.shape == (3, 4, 7) and found.converged.shape == (3, 4)
    assert found.position_error.shape == (3, 4, 1)
    for i in range(3):
        for k in range(4):
            target = {"tool": targets["tool"][i, k]}
            one = pp.inverse_kinematics(ARM, target, start[k], on_error="best")
            assert one.converged == found.converged[i, k]
            if one.converged:
                np.testing.assert_allclose(one.q, found.q[i, k], atol=1e-9)


def test_convergence_is_quadratic():
    """From 0.1 rad off, four steps are enough for 1e-10."""
    goal = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])
    targets = goals(ARM, goal, ["tool"])
    found = pp.inverse_kinematics(
        ARM, targets, goal + 0.1, position_tolerance=1e-10, rotation_tolerance=1e-10
    )
    assert found.iterations <= 5


def test_measured_success():
    """The rates that docs/inverse-kinematics.md states, on a part of the targets it uses."""
    goal, start = ARM.random_configuration(1, (200,)), ARM.random_configuration(101, (200,))
    targets = goals(ARM, goal, ["tool"])

    def rate(**options) -> float:
        found = pp.inverse_kinematics(ARM, targets, start, on_error="best", **options)
        metres, radians = misses(ARM, found.q, targets)
        assert (found.converged == ((metres <= 1e-6) & (radians <= 1e-6))).all()
        return float(found.converged.mean())

    assert rate(limits=False) >= 0.98
    assert rate() >= 0.6
    assert rate(restarts=20) == 1.0


# ---- limits ----------------------------------------------------------------------------------


def test_a_joint_at_its_limit_does_not_stall_the_others():
    """Three links, the middle joint is bounded where the free solution would exceed it."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    rod = pp.SpatialInertia(1, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
    bounds = [(-3, 3), (-0.2, 0.2), (-3, 3)]
    for i, limits in enumerate(bounds):
        b.add_body(
            f"link{i}",
            parent="world" if i == 0 else f"link{i - 1}",
            joint=pp.joints.Revolute((0, 0, 1)),
            placement=pp.Pose(translation=(1.0 if i else 0.0, 0, 0)),
            inertia=rod,
            limits=limits,
        )
    b.add_frame("tip", body="link2", placement=pp.Pose(translation=(1, 0, 0)))
    arm = b.build()
    target = {"tip": (0.9, 1.2, 0.0)}
    start = [0.1, 0.15, 0.1]
    free = pp.inverse_kinematics(arm, target, start, limits=False)
    assert abs(free.q[1]) > 0.2  # so the limit matters
    found = pp.inverse_kinematics(arm, target, start)
    assert abs(found.q[1]) <= 0.2 and misses(arm, found.q, target)[0] <= 1e-6


def test_the_best_of_an_unreachable_target_is_that_of_a_bounded_least_squares_solver():
    target = np.array([0.7, 0.5, -0.4])
    start = np.array([0.3, 0.8, 0.1, 0.5, 0.2, 0.4, 0.0])
    found = pp.inverse_kinematics(ARM, {"tool": target}, start, on_error="best")
    theirs = least_squares(
        lambda q: pp.poses(ARM, q, ["tool"])[0, :3, 3] - target,
        start,
        bounds=(ARM.lower, ARM.upper),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-12,
    )
    assert not found.converged
    np.testing.assert_allclose(found.position_error[0], np.sqrt(2 * theirs.cost), rtol=1e-6)


def test_a_start_outside_the_limits_is_moved_inside():
    target = goals(ARM, np.full(7, 0.4), ["tool"])
    found = pp.inverse_kinematics(ARM, target, np.full(7, 20.0), on_error="best")
    assert (found.q <= ARM.upper).all() and (found.q >= ARM.lower).all()


# ---- what can be asked for -------------------------------------------------------------------


def test_position_only_offsets_and_rotation_only():
    q = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])
    tip = ("tool", (0.0, 0.05, 0.1))
    X = pp.poses(ARM, q, ["tool"])[0]
    p = X[:3, 3] + X[:3, :3] @ np.array(tip[1])
    found = pp.inverse_kinematics(ARM, {tip: p}, q + 0.3)
    assert misses(ARM, found.q, {tip: p})[0] <= 1e-6
    assert np.isnan(found.rotation_error).all()
    turned = pp.Pose(X[:3, :3], (9.0, 9.0, 9.0))  # far away: only the rotation can be met
    found = pp.inverse_kinematics(ARM, {"tool": turned}, q + 0.3, weights={"tool": (1, 0)})
    assert misses(ARM, found.q, {"tool": turned})[1] <= 1e-6
    assert np.isnan(found.position_error).all() and found.converged


def test_weights_decide_between_targets_that_exclude_each_other():
    two = {"tool": (0.5, 0.0, 0.5), ("tool", (0, 0, 0.0)): (0.5, 0.2, 0.5)}
    start = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])
    weights = {"tool": 3.0}
    found = pp.inverse_kinematics(ARM, two, start, weights=weights, on_error="best")
    p = pp.poses(ARM, found.q, ["tool"])[0, :3, 3]
    np.testing.assert_allclose(p, [0.5, 0.02, 0.5], atol=1e-6)  # (9·0 + 1·0.2) / 10


def test_fixed_joints_stay():
    dog = pp.examples.quadruped()
    start = dog.random_configuration(0)
    start[dog.q_slice("trunk")] = [0.6, 0.0, 0.8, 0.0, 1.0, 2.0, 3.0]
    q = start.copy()
    for joint, angle in (("hip_roll", 0.2), ("hip_pitch", -0.5), ("knee", -1.0)):
        q[dog.q_slice(f"rear_left_{joint}")] = angle
    target = {"rear_left_foot": pp.poses(dog, q, ["rear_left_foot"])[0, :3, 3]}
    found = pp.inverse_kinematics(dog, target, start, fixed=["trunk"], restarts=10)
    np.testing.assert_allclose(found.q[:7], start[:7], atol=1e-15)
    assert misses(dog, found.q, target)[0] <= 1e-6
    nothing = pp.inverse_kinematics(dog, target, start, fixed=dog.joint_names, on_error="best")
    np.testing.assert_allclose(nothing.q, start, atol=1e-15)
    assert not nothing.converged


@pytest.mark.parametrize("k", range(4))
def test_the_rest_posture_is_approached_as_far_as_the_target_allows(k):
    """Against SciPy's constrained minimiser, started at the solution found."""
    goal = ARM.random_configuration(1, (4,))[k]
    start = goal + 0.2 * np.random.default_rng(k).standard_normal(7)
    rest = np.array([0.3, 0.4, -0.2, 0.9, 0.1, 0.7, 0.0])
    target = goals(ARM, goal, ["tool"])
    found = pp.inverse_kinematics(ARM, target, start, rest=rest)
    metres, radians = misses(ARM, found.q, target)
    assert metres <= 1e-6 and radians <= 1e-6

    def gap(q):
        X, Y = pp.poses(ARM, q, ["tool"])[0], target["tool"]
        return np.r_[so3_log(X[:3, :3] @ Y[:3, :3].T), X[:3, 3] - Y[:3, 3]]

    best = minimize(
        lambda q: 0.5 * np.sum((q - rest) ** 2),
        found.q,
        jac=lambda q: q - rest,
        constraints=[{"type": "eq", "fun": gap}],
        bounds=list(zip(ARM.lower, ARM.upper, strict=True)),
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 300},
    )
    assert best.success
    ours, theirs = np.linalg.norm(found.q - rest), np.linalg.norm(best.x - rest)
    assert abs(ours - theirs) <= 1e-4 * theirs  # the targets' tolerance leaves that much open
    plain = pp.inverse_kinematics(ARM, target, start)
    assert ours <= np.linalg.norm(plain.q - rest) + 1e-6


def test_the_rest_posture_of_quaternion_joints():
    model = chain(3, 5, ("spherical", "free", "spherical"), frames=True)
    target = {"f2": model_position(model, model.random_configuration(1))}
    rest = model.random_configuration(2)
    start = model.random_configuration(3)
    found = pp.inverse_kinematics(model, target, start, rest=rest)
    J = pp.jacobian(model, found.q, ["f2"])[3:]
    left = model.difference(found.q, rest)
    left -= np.linalg.pinv(J) @ J @ left
    assert misses(model, found.q, target)[0] <= 1e-6
    assert np.linalg.norm(left) <= 0.05 * np.linalg.norm(model.difference(start, rest))


def model_position(model: pp.Model, q: np.ndarray) -> np.ndarray:
    return pp.poses(model, q, ["f2"])[0, :3, 3]


def test_restarts_are_seeded_and_belong_to_their_element():
    goal = ARM.random_configuration(1, (30,))
    start = ARM.random_configuration(101, (30,))
    targets = goals(ARM, goal, ["tool"])
    first = pp.inverse_kinematics(ARM, targets, start, restarts=20)
    again = pp.inverse_kinematics(ARM, targets, start, restarts=20)
    other = pp.inverse_kinematics(ARM, targets, start, restarts=20, seed=1)
    assert (first.q == again.q).all() and (first.attempts > 1).any()
    retried = first.attempts > 1
    assert (first.q[~retried] == other.q[~retried]).all()
    assert (first.q[retried] != other.q[retried]).any()
    few = {"tool": targets["tool"][:5]}
    part = pp.inverse_kinematics(ARM, few, start[:5], restarts=20)
    np.testing.assert_allclose(part.q, first.q[:5], atol=1e-9)


def test_nothing_to_do():
    q = np.array([0.2, 0.6, -0.3, 1.1, 0.4, 0.9, 0.2])
    found = pp.inverse_kinematics(ARM, goals(ARM, q, ["tool"]), q)
    assert found.iterations == 0 and (found.q == q).all()
    empty = pp.inverse_kinematics(ARM, {"tool": np.zeros((0, 3))})
    assert empty.q.shape == (0, 7)


@pytest.mark.parametrize("joints", [[name] for name in ALL])
def test_poses_of_one_joint_are_found_again(joints):
    model = chain(1, 3, joints, frames=True)
    q = model.random_configuration(4)
    targets = goals(model, q, ["f0"])
    found = pp.inverse_kinematics(model, targets, model.random_configuration(5), restarts=30)
    np.testing.assert_allclose(pp.poses(model, found.q, ["f0"])[0], targets["f0"], atol=3e-6)


# ---- refusals --------------------------------------------------------------------------------


def test_an_unreachable_target_says_by_how_much(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")  # from many starts
    arm = pp.examples.seven_joint_arm()
    with pytest.raises(pp.errors.ConvergenceError) as caught:
        pp.inverse_kinematics(arm, {"tool": (3.0, 0.0, 0.0)})
    miss = np.hypot(3.0, 0.16) - 0.94  # the shoulder is at 0.16 m, the rest of the arm 0.94 m long
    assert f"'tool' misses its position by {miss:.4g} m" in str(caught.value)
    assert "restarts=" in str(caught.value)
    best = caught.value.result
    np.testing.assert_allclose(best.position_error, [miss], rtol=1e-6)
    batch = np.array([[0.3, 0.2, 0.5], [0.0, 4.0, 0.16]])
    with pytest.raises(pp.errors.ConvergenceError, match=r"1 of 2 .* the worst is \[1\]"):
        pp.inverse_kinematics(arm, {"tool": batch})


def test_limits_are_named_in_failures():
    with pytest.raises(
        pp.errors.ConvergenceError, match="joints at a limit there: .*'elbow_pitch' at"
    ):
        pp.inverse_kinematics(ARM, {"tool": (0.0, 0.05, 0.2)}, np.full(7, 0.5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": {"tol": (0, 0, 1)}}, "Did you mean 'tool'"),
        ({"targets": {"tool": (0, np.nan, 1)}}, "'tool' has numbers that are not finite"),
        ({"targets": {"tool": np.full((4, 4), np.inf)}}, "'tool' has numbers that are not finite"),
        ({"targets": {"tool": 2 * np.eye(4)}}, "not a pose"),
        ({"targets": {"tool": np.diag([1.0, 1.0, -1.0, 1.0])}}, "not a pose"),
        ({"targets": {"tool": np.zeros((4,))}}, r"shape \(4,\)"),
        ({"targets": {"tool": "up"}}, "cannot be understood"),
        ({"targets": {}}, "must be a mapping"),
        ({"targets": ["tool"]}, "must be a mapping"),
        ({"q0": [0, 0, np.nan, 0, 0, 0, 0]}, "q0 is nan at joint 'upper_arm_roll'"),
        ({"q0": [0, 0]}, "nq = 7"),
        ({"rest": [0, 0]}, "rest has shape"),
        ({"fixed": ["elbow"]}, "no joint 'elbow'"),
        ({"weights": {"hand": 1.0}}, "not a target"),
        ({"weights": {"tool": -1.0}}, "weight of 'tool'"),
        ({"weights": {"tool": 0.0}}, "there is nothing to solve"),
        ({"position_tolerance": 0.0}, "larger than 0"),
        ({"max_iterations": 0}, "at least 1"),
        ({"restarts": -1}, "at least 0"),
        ({"on_error": "ignore"}, "is not one of 'raise', 'best'"),
        ({"targets": {"tool": np.zeros((2, 3)), "wrist_roll": np.zeros((3, 3))}}, "broadcast"),
        ({"q0": np.zeros((2, 7)), "targets": {"tool": np.zeros((3, 3))}}, "broadcast"),
    ],
)
def test_refusals(arguments, message):
    arguments = {"targets": {"tool": (0.3, 0.2, 0.5)}, **arguments}
    with pytest.raises((pp.errors.InputError, pp.errors.ModelError), match=message):
        pp.inverse_kinematics(ARM, **arguments)


def test_a_zero_quaternion_is_refused():
    flyer = pp.examples.free_flyer()
    q = flyer.neutral()
    q[:4] = 0
    with pytest.raises(pp.errors.InputError, match="quaternion"):
        pp.inverse_kinematics(flyer, {"left_tool": (0, 0, 1)}, q)
