"""Points of one's own in programs of a system, and the inertia of closed chains at them.

Second routes: the program of the tree for what rows do not change; the motions that keep the rows,
by null spaces; forward dynamics under unit forces; and, of two arms, the sum of their inertias.
"""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from comparers import close, proportional, same_bits
from flexible_loops import START, SYSTEM as FLEXIBLE
from known_systems import bricard, four_bar
from random_grasps import random_grasp
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics import point_inertia
from phipsi.algorithms.dynamics.dynamics_expressions import (
    CLOSED_ADMITTANCE,
    FORMS,
    body_forces,
)
from phipsi.operators import (
    A,
    Adot,
    B,
    Bdot,
    H,
    J,
    Lambda,
    V,
    a,
    dq,
    phi,
    v,
)  # fmt: skip

AXES = ("world", "body", "spatial")


def case(seed: int, bodies: int = 6, count: int = 2, **options):
    """A random system, a state of it, and points on its bodies and on the world."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[(2 * seed + i) % len(KINDS)] for i in range(count)]
    system, q = random_system(seed, bodies, kinds, n_roots=2, **options)
    names = [system.body_names[i] for i in rng.choice(bodies, size=2, replace=False)]
    points = [(names[0], tuple(rng.uniform(-0.5, 0.5, 3))), names[1]]
    return system, q, admissible(system, q, rng), points, rng


def plain(system, q, points, axes="world") -> np.ndarray:
    """J Z (Z* ℳ Z)⁻¹ Z* J*, with the motions Z that keep the rows."""
    G, M = system.jacobian(q), pp.mass_matrix(system.model, q)
    size = np.linalg.norm(G, axis=1, keepdims=True)
    _, s, right = np.linalg.svd(G / np.where(size > 1e-12, size, 1.0))
    Z = right[int((s > 1e-9).sum()) :].T
    JZ = pp.jacobian(system.model, q, points, axes=axes) @ Z
    return JZ @ np.linalg.solve(Z.T @ M @ Z, JZ.T)


def by_unit_forces(system, q, points) -> np.ndarray:
    """Accelerations of points by unit forces at them, from forward dynamics; world axes."""
    zero, model = np.zeros(system.nv), system.model
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    columns = []
    rest = pp.forward_dynamics(system, q, zero, zero)
    for point in points:
        body, offset = (point, (0, 0, 0)) if isinstance(point, str) else point
        R = poses[body][:3, :3]
        for force in np.eye(6):
            f_ext = np.zeros((model.n_bodies, 6))
            turned = R.T @ force[:3], R.T @ force[3:]
            moment = turned[0] + np.cross(offset, turned[1])
            f_ext[model.body_index(body)] = [*moment, *turned[1]]
            moved = pp.forward_dynamics(system, q, zero, zero, f_ext) - rest
            columns.append(pp.jacobian(model, q, points) @ moved)
    return np.array(columns).T


# ---- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("seed", range(3))
def test_own_points_are_those_of_the_tree_and_frames_those_of_the_system(seed, axes):
    """The same bits: rows change nothing, and closure frames keep their own axes."""
    system, q, vel, points, rng = case(seed)
    points = [*points, ("world", (1.0, 2.0, 3.0))]
    n, along = 6 * len(points), rng.standard_normal(system.nv)
    vectors = (B.T @ V, Bdot.T @ V, pp.diff(J @ v, "q") @ dq)
    matrices = (J, Lambda, A, Adot)
    modes = (*["apply"] * len(vectors), *["dense"] * len(matrices))
    inputs = {"q": q, "v": vel, "dq": along}

    def values(expressions, mechanism, **given):
        program = pp.compile(expressions, mechanism, mode=modes[: len(expressions)], **given)
        return [x.reshape(-1, *x.shape[2:]) if x.shape[-1] == 6 else x for x in program(**inputs)]

    at = {"points": points, "axes": axes}
    mixed = values((*vectors, *matrices), system, **at)
    tree, frames = (
        values((*vectors, J, Lambda), system.model, **at),
        values((*vectors, *matrices), system),
    )
    for i in range(3):
        same_bits(mixed[i].ravel()[:n], tree[i].ravel())
        close(mixed[i].ravel()[n:], frames[i].ravel())
    same_bits(mixed[3][:n], tree[3])
    same_bits(mixed[3][n:], frames[3])
    close(mixed[4][:n, :n], tree[4])
    close(mixed[4][n:, n:], frames[4])
    for i in (5, 6):
        assert not mixed[i][:, :n].any()
        close(mixed[i][:, n:], frames[i])
    if axes != "body":  # a twin that must fail: in their own axes the frames are others
        other = pp.compile(J, system.model, mode="dense", points=system.closures.points)(q)
        same_bits(mixed[3][n:], other)
        turned = pp.compile(J, system, mode="dense", points=points, axes="body")(q)
        assert abs(mixed[3][:n] - turned[:n]).max() > 1e-3


@pytest.mark.parametrize("axes", AXES)
def test_the_dense_reference_and_the_plain_backend_agree(axes):
    system, q, vel, points, _ = case(3)
    closed = (Lambda["points"], Lambda["closures"], CLOSED_ADMITTANCE)
    at = {"points": points, "axes": axes}
    modes = [*["dense"] * 3, "apply"]
    found = pp.compile((*closed, Bdot.T @ V), system, mode=modes, **at)(q, vel)
    backend = pp.compile((*closed, Bdot.T @ V), system, mode=modes, backend="reference", **at)
    for x, one, two in zip((*closed, Bdot.T @ V), found, backend(q, vel), strict=True):
        close(one, two)
        wanted = pp.evaluate_dense(x, system, q, vel, **at)
        close(one.ravel(), wanted.ravel())


def test_selections_tell_own_points_from_closure_frames():
    system, q, _, points, _ = case(2)
    at = {"points": points, "mode": "dense"}
    whole, own, frames = pp.compile((J, J["points"], J["closures"]), system, **at)(q)
    same_bits(own[:12], whole[:12])
    same_bits(frames[12:], whole[12:])
    assert not own[12:].any() and not frames[:12].any()
    assert pp.parse("J[points]") is J["points"]
    with pytest.raises(pp.errors.InputError, match=r"(?s)'points' distinguishes .*points=\['hand'"):
        pp.compile(J["points"], system, mode="dense")
    with pytest.raises(pp.errors.InputError, match="no selection 'Q' of bodies here.*closures"):
        pp.compile(J["Q"], system, **at)


def test_what_axes_and_points_belong_to_is_checked():
    system, q, _, points, _ = case(2)
    with pytest.raises(pp.errors.InputError, match=r"axes='world' has no effect: the closure fram"):
        pp.compile(A @ J, system, mode="dense", axes="world")
    other = case(3)[0]
    with pytest.raises(pp.errors.InputError, match="closures of another system"):
        pp.compile(J, system, mode="dense", points=other.closures.points)
    own = system.closures.with_points(pp.compile(J, system.model, points=points).request.points)
    same_bits(
        pp.compile(J, system, mode="dense", points=own)(q),
        pp.compile(J, system, mode="dense", points=points)(q),
    )
    same_bits(
        pp.compile(A @ J, system, mode="dense", points=[])(q),
        pp.compile(A @ J, system, mode="dense")(q),
    )
    assert "Λ" in str(pp.explain(Lambda, system, points=points))


@pytest.mark.parametrize("name", ["A-F", "RCCFD2"])
def test_loads_at_points_act_in_forward_dynamics_of_a_system(name):
    """f0 is what the mechanism does to its surroundings: −B f0 as forces on the bodies."""
    system, q, vel, points, rng = case(5)
    program = pp.compile(FORMS[name](body_forces(False, True), False), system, points=points)
    effort = rng.standard_normal(system.nv)
    force = np.zeros((len(program.request.points), 6))
    force[:2] = rng.standard_normal((2, 6))
    vdot, f = program(q, vel, effort, force)
    on_bodies = -pp.compile(B, system.model, points=points)(q, force[:2])
    wanted = pp.forward_dynamics(system, q, vel, effort, on_bodies, return_multipliers=True)
    close(vdot, wanted.vdot)
    G = system.jacobian(q)
    close(G.T @ f, G.T @ wanted.f)  # redundant rows may share a load in other ways
    other = pp.forward_dynamics(system, q, vel, effort, -on_bodies)
    assert abs(vdot - other).max() > 1e-3  # with the other sign it would be wrong


def test_accelerations_of_points_are_those_of_their_jacobian():
    """J v̇ + J̇ v of own points, from one program with the motion that the loops allow."""
    system, q, vel, points, _ = case(2)
    effort = np.zeros(system.nv)
    vdot = pp.forward_dynamics(system, q, vel, effort)
    moved = pp.compile(B.T @ phi.T @ (H.T @ ops.vdot + a) + Bdot.T @ V, system, points=points)
    wanted = pp.jacobian(system, q, points) @ vdot
    wanted += pp.jacobian_dot(system, q, vel, points, times_v=True)
    close(moved(q, vel, vdot)[:2].ravel(), wanted)


@pytest.mark.parametrize("axes", AXES)
def test_derivatives_with_respect_to_the_configuration(axes):
    """Of Λ_c f along a direction, by complex steps: all parts of B and A change with q."""
    system, q, _, points, rng = case(3, independent=True)
    assert system.n_rows
    at = {"points": points, "axes": axes}
    closed = CLOSED_ADMITTANCE @ ops.f0
    value, slope = (pp.compile(x, system, **at) for x in (closed, pp.diff(closed, "q") @ dq))
    force = np.zeros((len(value.request.points), 6))
    force[:2], along = rng.standard_normal((2, 6)), rng.standard_normal(system.nv)
    moving = q + 1e-30j * system.model.qdot(q, along)
    wanted = value(moving, force).imag / 1e-30
    inputs = {"q": q, "f0": force, "dq": along}
    found = slope(*(inputs[name] for name in slope.inputs))
    close(found, wanted)
    assert abs(found[:2]).max() > 1e-3


# ---- the inertia of closed chains ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 9))
def test_the_inverse_is_that_of_motions_that_keep_the_rows(seed):
    """By null spaces and by forward dynamics under unit forces; not that of the tree."""
    system, q, _, points, _ = case(seed)
    found = pp.operational_space_inertia_inverse(system, q, points)
    close(found, plain(system, q, points))
    close(found, by_unit_forces(system, q, points))
    same_bits(found, found.T)
    tree = pp.operational_space_inertia_inverse(system.model, q, points)
    assert abs(found - tree).max() > 1e-3
    assert np.linalg.eigvalsh(tree - found).min() > -1e-9  # rows only take freedom away


@pytest.mark.parametrize("axes", AXES)
def test_axes_of_the_inverse(axes):
    system, q, _, points, _ = case(6)
    found = pp.operational_space_inertia_inverse(system, q, points, axes=axes)
    close(found, plain(system, q, points, axes))
    if axes != "world":
        assert abs(found - plain(system, q, points)).max() > 1e-3


def test_without_rows_both_are_those_of_the_tree():
    model = case(0)[0].model
    q, points = model.neutral(), [model.body_names[-1]]
    inverse = pp.operational_space_inertia_inverse(model, q, points)
    same_bits(inverse, pp.compile(Lambda, model, mode="dense", points=points)(q))
    same_bits(inverse, pp.operational_space_inertia_inverse(pp.System(model), q, points))


@pytest.mark.parametrize("spare", [7, 13])
def test_the_inertia_where_the_point_moves_freely(spare):
    """One point that the rows leave six directions, and two points of a floating tree."""
    for seed in range(20, 40):
        system, q, _, points, _ = case(seed, 8, spare=spare)
        points = points if spare > 12 else points[:1]
        wanted = plain(system, q, points)
        if np.linalg.cond(wanted) < 1e6:
            break
    else:
        pytest.fail("no such system")
    found = pp.operational_space_inertia(system, q, points)
    close(found @ wanted, np.eye(len(wanted)), 1e-8)
    assert abs(found - pp.operational_space_inertia(system.model, q, points)).max() > 1e-3


def two_arms(held: str, floating: bool = False):
    """Two seven-joint arms, on the ground or on a floating base, that hold each other or a box."""
    rng = np.random.default_rng(7)
    builder, base = pp.ModelBuilder(), "world"
    inertia = pp.SpatialInertia(0.7, (0.02, -0.03, 0.05), (0.03, 0.04, 0.05))
    if floating:
        base = "base"
        builder.add_body(base, joint=pp.joints.Free(), inertia=inertia)
    for side in "lr":
        parent = base
        for i, axis in enumerate(rng.standard_normal((7, 3))):
            builder.add_body(
                f"{side}{i}", parent=parent, joint=pp.joints.Revolute(axis), inertia=inertia,
                placement=pp.Pose(None, rng.uniform(-0.4, 0.4, 3)), armature=0.01,
            )  # fmt: skip
            parent = f"{side}{i}"
    if held:
        builder.add_body(held, joint=pp.joints.Free(), inertia=inertia)
    model = builder.build()
    q = model.random_configuration(rng)
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    grip = np.array([0.1, 0.05, -0.02])
    there = poses["l6"] @ pp.Pose(None, grip).matrix
    ends = ["r6", held] if held else ["r6"]
    welds = []
    for end in ends:
        at = np.linalg.inv(poses[end]) @ there
        frame = end, pp.Pose(at[:3, :3], at[:3, 3])
        welds.append(pp.constraints.Weld(name=f"on {end}", a=("l6", pp.Pose(None, grip)), b=frame))
    places = {"l6": ("l6", tuple(grip))}
    places |= {w.b[0]: (w.b[0], tuple(w.b[1].translation)) for w in welds}
    return pp.System(model, welds), q, places


@pytest.mark.parametrize("held", ["", "box"])
def test_arms_that_hold_each_other_show_the_sum_of_their_inertias(held):
    """(Λ₁ + Λ₂)⁻¹ with Λ the inertias, and with an object that of its own (MC 5.3 and 6)."""
    system, q, places = two_arms(held)
    found = pp.operational_space_inertia(system, q, [places["l6"]])
    alone = [pp.operational_space_inertia(system.model, q, [at]) for at in places.values()]
    proportional(found, sum(alone))
    inverse = pp.operational_space_inertia_inverse(system, q, [places["l6"]])
    proportional(inverse, np.linalg.inv(sum(alone)), 1e-8)
    proportional(inverse, by_unit_forces(system, q, [places["l6"]]), 1e-8)
    with pytest.raises(AssertionError):  # a twin: without one of them it is less
        proportional(found, sum(alone[:-1]))
    if not held:  # MC 26: what resists the contact force is (Λ₁⁻¹ + Λ₂⁻¹)⁻¹, in the weld's axes
        turn = pp.poses(system.model, q)[system.model.body_index("l6")][:3, :3]
        axes = np.kron(np.eye(2), turn)
        compliance = sum(np.linalg.inv(x) for x in alone)
        proportional(pp.delassus_matrix(system, q), axes.T @ compliance @ axes, 1e-9)
    # one rigid body: the motions of both grips are the same, and no other two can be forced
    both = pp.operational_space_inertia_inverse(system, q, [places["l6"], places["r6"]])
    proportional(both, np.tile(inverse, (2, 2)), 1e-8)
    with pytest.raises(pp.errors.SingularMatrixError, match="leave 6 of 12 directions"):
        pp.operational_space_inertia(system, q, [places["l6"], places["r6"]])


def test_on_a_floating_base_arms_are_coupled_through_it():
    system, q, places = two_arms("box", floating=True)
    point = [places["box"]]
    found = pp.operational_space_inertia(system, q, point)
    proportional(found @ plain(system, q, point), np.eye(6), 1e-8)
    two = [*point, "base"]
    close(pp.operational_space_inertia_inverse(system, q, two), by_unit_forces(system, q, two))
    alone = sum(pp.operational_space_inertia(system.model, q, [at]) for at in places.values())
    assert abs(found - alone).max() > 1e-3  # the sum is that of arms on the ground


@pytest.mark.parametrize("kinds", [["Rigid", "Rigid"], ["Point", "SoftFinger", "Edge"]])
def test_a_grasp(kinds):
    grasp, q, _ = random_grasp(3, kinds)
    thing = grasp.model.body_names[-1]
    points = [(thing, (0.1, 0.2, -0.1))]
    found = pp.operational_space_inertia_inverse(grasp, q, points)
    close(found, plain(grasp, q, points))
    close(found, by_unit_forces(grasp, q, points))


def test_redundant_rows_change_nothing():
    """The same weld twice: half of the rows follow from the others."""
    system, q, places = two_arms("")
    again = pp.constraints.Weld(name="again", a=system.constraints[0].a, b=system.constraints[0].b)
    twice = pp.System(system.model, [*system.constraints, again])
    for function in (pp.operational_space_inertia, pp.operational_space_inertia_inverse):
        found, wanted = (function(x, q, [places["l6"]]) for x in (twice, system))
        proportional(found, wanted, 1e-8)


def test_a_four_bar_has_one_direction_to_give_way():
    system = four_bar()
    q = system.assemble([1.0, -0.8, -1.5])
    points = [("coupler", (0.3, 0.1, 0))]
    found = pp.operational_space_inertia_inverse(system, q, points)
    close(found, plain(system, q, points))
    assert np.linalg.matrix_rank(found, tol=1e-9) == 1
    with pytest.raises(pp.errors.SingularMatrixError) as error:
        pp.operational_space_inertia(system, q, points)
    text = str(error.value)
    assert "leave 1 of 6 directions" in text and "'coupler'" in text
    assert "pp.operational_space_inertia_inverse(system, q, points)" in text


def test_batches_and_options():
    system, q, places = two_arms("box")
    rng = np.random.default_rng(0)
    near = system.model.integrate(q, 1e-3 * rng.standard_normal((9, system.nv)))
    qs = np.concatenate([[q], near]).reshape(2, 5, -1)
    for function in (pp.operational_space_inertia, pp.operational_space_inertia_inverse):
        found = function(system, qs, [places["box"]])
        assert found.shape == (2, 5, 6, 6)
        proportional(found[1, 2], function(system, qs[1, 2], [places["box"]]), 1e-9)
        out = np.empty((2, 5, 6, 6))
        assert function(system, qs, [places["box"]], out=out) is out
        same_bits(out, found)
        bad = qs.copy()
        bad[0, 1] = np.nan
        masked, status = function(system, bad, [places["box"]], on_error="nan")
        assert np.isnan(masked[0, 1]).all() and np.isfinite(masked[0, 0]).all()
        assert (status != 0).sum() == 1
    q4 = four_bar().assemble([1.0, -0.8, -1.5])
    masked, status = pp.operational_space_inertia(four_bar(), q4, ["rocker"], on_error="nan")
    assert np.isnan(masked).all() and status != 0


@pytest.mark.parametrize(
    "function", [pp.operational_space_inertia, pp.operational_space_inertia_inverse]
)
def test_bad_points_are_told(function):
    system, q = four_bar(), np.zeros(3)
    with pytest.raises(pp.errors.InputError, match="needs points"):
        function(system, q, [])
    with pytest.raises(pp.errors.ModelError, match=r"points=\['rocker'\]"):
        function(system, q, "rocker")
    with pytest.raises(pp.errors.ModelError, match="'rokcer', which is not a body or frame"):
        function(system, q, ["rokcer"])
    with pytest.raises(pp.errors.InputError, match="q is nan at joint 'coupler'"):
        function(system, [0, np.nan, 0], ["rocker"])
    assert function(system, np.zeros((0, 3)), ["rocker"]).shape == (0, 6, 6)


def test_flexible_bodies():
    found = pp.operational_space_inertia_inverse(FLEXIBLE, START, ["first"])
    close(found, plain(FLEXIBLE, START, ["first"]))


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_rows_in_doubt_are_solved_again(backend, monkeypatch):
    """Two rows that differ by a small tilt; exact in 60 digits."""
    monkeypatch.setenv("PHIPSI_BACKEND", backend)
    builder = pp.ModelBuilder()
    body = pp.SpatialInertia(2, (0.1, 0, 0.05), (0.2, 0.3, 0.25))
    builder.add_body("plate", joint=pp.joints.Free(), inertia=body)
    builder.add_body("flap", parent="plate", joint=pp.joints.Spherical(), inertia=body)
    up = {"points": [("plate", (0.4, 0.1, 0.2))], "A": [[0, 0, 0, 0, 0, 1]]}
    rows = [pp.constraints.Rows(name=x, axes=x, **up) for x in ("world", "body")]
    system, points = pp.System(builder.build(), rows), ["flap"]
    tilts = np.array([0.5, 1e-2, 1e-4, 1e-5, 1e-6, 0.0])
    q = np.tile(system.model.neutral(), (len(tilts), 1))
    q[:, 0], q[:, 2] = np.cos(tilts / 2), np.sin(tilts / 2)
    found = pp.operational_space_inertia_inverse(system, q, points)
    for at, one, tilt in zip(q, found, tilts, strict=True):
        G = system.jacobian(at)[: 1 if tilt == 0 else 2]
        J0, M = pp.jacobian(system.model, at, points), pp.mass_matrix(system.model, at)
        with mp.workdps(60):
            inverse, G = mp.inverse(mp.matrix(M.tolist())), mp.matrix(G.tolist())
            held = inverse * G.T * mp.inverse(G * inverse * G.T) * G * inverse
            exact = mp.matrix(J0.tolist()) * (inverse - held) * mp.matrix(J0.T.tolist())
        wanted = np.array(exact.tolist(), dtype=float)
        close(one, wanted, 1e-8 if tilt < 5e-6 else max(1e-9, 1e-15 / tilt**2))  # by elimination


def test_loops_that_are_open_a_little_do_not_lock():
    """Drift makes redundant rows look independent; what the gap explains does not count."""
    system, points = bricard(), [bricard().body_names[2]]
    rng = np.random.default_rng(0)
    q, _ = system.project(pp.simulate(system, np.zeros(5), np.zeros(5), 0.7).q[-1], np.zeros(5))
    wanted = pp.operational_space_inertia_inverse(system, q, points)
    close(wanted, plain(system, q, points))
    assert abs(wanted).max() > 1e-3
    again = [*system.constraints, *(replace(x, name="again") for x in system.constraints)]
    for gap in (1e-10, 1e-8, 1e-6, 1e-5):
        off = q + gap * rng.standard_normal(5)
        for listed in (system.constraints, again):
            found = pp.operational_space_inertia_inverse(
                pp.System(system.model, listed), off, points
            )
            close(found, wanted, 100 * gap)


def test_what_solves_again_agrees_where_nothing_is_in_doubt():
    system, q, _, points, _ = case(4)
    program = pp.compile(CLOSED_ADMITTANCE, system, points=points, columns=True)
    count = len(program.request.points)
    x = np.random.default_rng(1).standard_normal((1, count, 6, 3))
    every = pp.compile(J, system, mode="dense", points=points)
    (found,), status = point_inertia._resolved(system, every, {"q": q[None], "x": x})
    close(found, program(q[None], x))
    assert not status.any()
