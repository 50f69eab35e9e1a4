"""Rotors on any axis, and of joints with several rates: equal to bodies, in every function."""

from collections import OrderedDict

import numpy as np
import pytest
from amounts import GEARED_TREES
from geared_trees import Explicit, geared_tree, rotor_inertia, with_rotor_body
from numpy.testing import assert_allclose
from random_models import random_axis, random_state as state

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.constrained.stages import ArticulatedCache
from phipsi.algorithms.dynamics.derivatives import forward_dynamics_operators
from phipsi.algorithms.dynamics.dynamics_expressions import (
    FORWARD_DYNAMICS_FD3,
    INVERSE_DYNAMICS,
)
from phipsi.algorithms.dynamics.equation_terms import BIAS_FORCES
from phipsi.algorithms.dynamics.sensitivities import _log_det_gradient
from phipsi.core.rewrite.identity import unmet
from phipsi.core.sweeps import cheapest_plan as plans, request as requests
from phipsi.core.sweeps.ir import parts_of
from phipsi.errors import InputError, LoweringError
from phipsi.native.tables import PARAMS
from phipsi.papers.theorems import identities

DISK = pp.SpatialInertia(1.0, (0.1, 0, 0.2), (0.1, 0.2, 0.25))
TURN = ((0.8, -0.6, 0), (0.6, 0.8, 0), (0, 0, 1))
REGRESSOR, PARAMETERS = pp.identification.regressor, pp.identification.inertial_parameters
WRIST = pp.joints.Composite([pp.joints.Revolute((0, 0, 1)), pp.joints.Revolute((0.6, 0.8, 0))])


def arm(joint=None):
    """A body that turns about any axis, one on a joint, and a third."""
    builder = pp.ModelBuilder()
    builder.add_body("upper", joint=pp.joints.Spherical(), inertia=DISK)
    builder.add_body("lower", parent="upper", joint=joint or pp.joints.Revolute((0, 0.6, 0.8)),
                     inertia=DISK, placement=pp.Pose(TURN, (0, 0.1, 0.4)))  # fmt: skip
    builder.add_body("tip", parent="lower", joint=pp.joints.Revolute((0, 1, 0)), inertia=DISK,
                     placement=pp.Pose(translation=(0, 0.1, 0.4)))  # fmt: skip
    return builder.build()


def geared(tree, rows, on="parent", seed=0):
    """Rotors on "upper" or "lower" about one axis, and the same as bodies."""
    rng = np.random.default_rng(seed)
    u, full, shares = random_axis(rng), tree, {}
    given = [rotor_inertia(rng, u, 1e-2) for _ in rows]
    several = np.ndim(rows) > 1
    ratio = tuple(map(tuple, rows)) if several else rows[0]
    model = tree.with_rotor("m", joint="lower", ratio=ratio, moment=1e-2, axis=u, on=on,
                            inertia=sum(given[1:], given[0]))  # fmt: skip
    carrier = {"parent": "upper", "child": "lower", "world": "world"}[on]
    for i, row in enumerate(rows):
        full = with_rotor_body(full, f"m{i}", carrier, u, given[i])
        shares[f"m{i}"] = {"lower": row}
    return model, Explicit(full, model, shares)


def assert_equal_to_bodies(model, bodies, seed):
    q, v, vdot = state(model, seed)
    M, tau = bodies.mass_matrix(q), bodies.efforts(q, v, vdot)
    assert_allclose(pp.mass_matrix(model, q), M, atol=1e-13 * np.abs(M).max())
    assert_allclose(pp.inverse_dynamics(model, q, v, vdot), tau, atol=1e-12 * np.abs(tau).max())
    size = 1e-11 * np.abs(tau).max()
    assert_allclose(M @ pp.forward_dynamics(model, q, v, tau), M @ vdot, atol=size)
    assert_allclose(pp.kinetic_energy(model, q, v), 0.5 * v @ M @ v, rtol=1e-12)
    assert_allclose(
        pp.diagonal_dynamics.log_det_mass_matrix(model, q), np.linalg.slogdet(M)[1], atol=1e-9
    )


def assert_momentum_and_reactions(model, bodies, seed):
    q, v, vdot = state(model, seed)
    whole, B = bodies.q(q), bodies.B
    assert_allclose(pp.momentum(model, q, v), pp.momentum(bodies.model, whole, B @ v), atol=1e-12)
    rate = pp.centroidal.momentum_matrix_dot(model, q, v) @ v
    expected = pp.centroidal.momentum_matrix_dot(bodies.model, whole, B @ v) @ B @ v
    assert_allclose(rate, expected, atol=1e-11)
    tau = pp.inverse_dynamics(model, q, v, vdot)
    found = pp.joint_reactions(model, [q, q], v, [tau, tau]).joints
    assert_allclose(found[1], bodies.reactions(q, v, vdot), atol=1e-10)


# ---- the same as bodies --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(GEARED_TREES))
def test_trees_with_skew_rotors_equal_rotors_as_bodies(seed, monkeypatch):
    if seed >= 20:  # code for a thousand trees would take an hour
        monkeypatch.setenv("PHIPSI_BACKEND", "reference")
    model, bodies = geared_tree(seed, bodies=3 + seed % 3, rotors=2 + seed % 3,
                                flying=seed % 2 == 1, skew=True)  # fmt: skip
    assert_equal_to_bodies(model, bodies, seed)
    assert seed > 7 or seed % 2 == 0 or model.has_more_rows
    if seed % 2 and model.has_more_rows:
        assert_momentum_and_reactions(model, bodies, seed)


@pytest.mark.parametrize("on", ["parent", "child", "world"])
@pytest.mark.parametrize("joint", [pp.joints.Universal(), WRIST, pp.joints.Cylindrical((0, 0, 1))])
def test_rotors_of_a_joint_with_several_rates(joint, on):
    model, bodies = geared(arm(joint), [(8.0, 5.0), (7.0, -3.0)], on)
    assert model.more_rows == (0, 2, 0)
    assert_equal_to_bodies(model, bodies, 1)
    if on != "world":
        assert_momentum_and_reactions(model, bodies, 1)
    assert pp.Model.from_dict(model.to_dict()) == model


def test_a_differential_of_one_joint_is_two_coaxial_rotors_of_two():
    # pitch and roll as one universal joint, and as two joints with a body without mass between
    one = arm(WRIST)
    builder = pp.ModelBuilder()
    builder.add_body("upper", joint=pp.joints.Spherical(), inertia=DISK)
    builder.add_body("pitch", parent="upper", joint=pp.joints.Revolute((0, 0, 1)),
                     placement=pp.Pose(TURN, (0, 0.1, 0.4)))  # fmt: skip
    builder.add_body("lower", parent="pitch", joint=pp.joints.Revolute((0.6, 0.8, 0)), inertia=DISK)
    builder.add_body("tip", parent="lower", joint=pp.joints.Revolute((0, 1, 0)), inertia=DISK,
                     placement=pp.Pose(translation=(0, 0.1, 0.4)))  # fmt: skip
    two, rows = builder.build("keep"), ((9, 4), (9, -4))
    # the axis is in the axes of the carrier, along that of pitch
    one = one.with_rotor("m", joint="lower", ratio=rows, moment=1e-3, axis=(0, 0, 1))
    two = two.with_rotor("m", joint=("pitch", "lower"), ratio=rows, moment=1e-3)
    q, v, vdot = state(one)
    assert_allclose(pp.inverse_dynamics(one, q, v, vdot), pp.inverse_dynamics(two, q, v, vdot),
                    atol=1e-13)  # fmt: skip


# ---- every route ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def skew():
    model, bodies = geared(arm(), [7.0])
    assert model.more_rows == (0, 1, 0)
    return model, bodies, *state(model)


@pytest.fixture(scope="module")
def crossed():
    model, bodies = geared(arm(WRIST), [(8.0, 5.0)])
    return model, bodies, *state(model)


@pytest.mark.parametrize("which", ["skew", "crossed"])
def test_derivatives_are_those_of_rotors_as_bodies(which, request):
    model, bodies, q, v, vdot = request.getfixturevalue(which)
    by_q, by_v, M = pp.inverse_dynamics_derivatives(model, q, v, vdot)
    assert_allclose(M, bodies.mass_matrix(q), atol=1e-13)
    h, units = 1e-5, np.eye(model.nv)
    for i, e in enumerate(units):
        ahead, behind = (bodies.efforts(model.integrate(q, s * h * e), v, vdot) for s in (1, -1))
        assert_allclose(by_q[:, i], (ahead - behind) / (2 * h), atol=1e-7)
        ahead, behind = (bodies.efforts(q, v + s * e, vdot) for s in (1, -1))
        assert_allclose(by_v[:, i], (ahead - behind) / 2, atol=1e-12)  # of second degree in v
    tau = pp.inverse_dynamics(model, q, v, vdot)
    for found, expected in zip(pp.forward_dynamics_derivatives(model, q, v, tau),
                               (-by_q, -by_v, units), strict=True):  # fmt: skip
        assert_allclose(M @ found, expected, atol=1e-11)


@pytest.mark.parametrize("which", ["skew", "crossed"])
def test_programs_with_the_rows_of_drives_agree(which, request, monkeypatch):
    model, _, q, v, vdot = request.getfixturevalue(which)
    at = {"q": q, "v": v, "vdot": vdot, "tau": vdot}
    log_det = _log_det_gradient("q", True)
    forms = (INVERSE_DYNAMICS, FORWARD_DYNAMICS_FD3, *forward_dynamics_operators(True)[:2], log_det)

    def values():
        monkeypatch.setattr(plans, "_KNOWN", OrderedDict())
        fresh = pp.Model.from_dict(model.to_dict())
        programs = [pp.compile(x, fresh, mode="dense", backend="reference") for x in forms]
        inputs = [{n: at[n] for n in p.source.lowered.inputs} for p in programs]
        return programs, [p(**x) for p, x in zip(programs, inputs, strict=True)]

    def sizes(program):
        return {x.type.rows for step in program.source.steps for x in step.fields}

    programs, without = values()
    assert not any("b" in sizes(p) for p in programs)
    assert any(x.op == "coupling" for step in programs[0].source.steps for x in step.fields)
    monkeypatch.setattr(requests, "_without_rows", lambda *_: None)
    programs, with_rows = values()
    assert all("b" in sizes(p) for p in programs)
    for found, expected in zip(without, with_rows, strict=True):
        assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.fixture(scope="module")
def shared():
    """An arm with one skew rotor, its derivatives, and what they should be."""
    model = pp.examples.seven_joint_arm(armature=0.05)
    disk = rotor_inertia(np.random.default_rng(1), np.array([0.6, 0, 0.8]), 1e-4)
    model = model.with_rotor("m", joint=model.joint_names[4], ratio=30.0, moment=1e-4,
                             axis=(0.6, 0, 0.8), inertia=disk)  # fmt: skip
    operators, at = list(forward_dynamics_operators(True)), state(model)
    programs = [
        pp.compile(operators, model, mode="dense", backend=name) for name in ("native", "reference")
    ]
    return model, at, *programs


def test_large_programs_have_one_code_for_joints_with_and_without_a_drive(shared):
    _, at, native, reference = shared
    assert len(native.native.unit.tables.codes) == 1
    for found, expected in zip(native(*at), reference(*at), strict=True):
        assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_numbers_of_drives_that_joints_do_not_have_are_zero(shared):
    """And they are read: others would be found."""
    model, at, native, reference = shared
    driven = model.joint_names[4]
    rows = native.native.unit.tables.doubles[:, PARAMS + 3]
    assert [bool(x) for x in rows] == [name == driven for name in model.joint_names]
    small = pp.compile(FORWARD_DYNAMICS_FD3, model, backend="native")
    assert len(small.native.unit.tables.codes) == 2  # they stay in the fastest memory
    rows[2] = 1e-2
    wrong, right = native(*at)[0], reference(*at)[0]
    rows[2] = 0.0
    assert np.abs(wrong - right).max() > 1e-6 * np.abs(right).max()


def test_the_diagonal_of_a_matrix_is_one_block(shared):
    """It is what paths begin with, so that nothing is added up twice."""
    _, _, native, _ = shared
    for result in native.native.unit.results:
        kinds = [part.how for part, _ in parts_of(result.field)]
        assert kinds.count("diagonal") <= 1


@pytest.mark.parametrize("which", ["skew", "crossed"])
def test_the_coriolis_matrix(which, request):
    model, bodies, q, v, _ = request.getfixturevalue(which)
    free, h = model.with_gravity((0, 0, 0)), 1e-5
    C = pp.sensitivities.coriolis_matrix(model, q, v)
    assert_allclose(C @ v, pp.inverse_dynamics(free, q, v, 0 * v), atol=1e-12)
    ahead, behind = (bodies.mass_matrix(model.integrate(q, s * h * v)) for s in (1, -1))
    assert_allclose(C + C.T, (ahead - behind) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("which", ["skew", "crossed"])
def test_second_derivatives_and_the_oracle(which, request):
    model, _, q, v, direction = request.getfixturevalue(which)
    by_q = pp.diff(BIAS_FORCES, "q", modes=True)
    twice = pp.diff(by_q @ ops.dq, "q", ops.vdot, modes=True)  # has δ³M
    at = {"q": q, "v": v, "dq": direction, "vdot": v}
    found = pp.evaluate_dense(twice, model, **at)
    assert_allclose(pp.compile(twice, model, backend="reference")(**at), found, atol=1e-11)
    matrix, h = pp.compile(by_q, model, mode="dense"), 1e-4
    slopes = [matrix(model.integrate(q, s * h * v), v) @ direction for s in (1, -1)]
    assert_allclose((slopes[0] - slopes[1]) / (2 * h), found, atol=1e-5)
    for expr in (ops.b, ops.mass_matrix @ ops.v, ops.P @ ops.V):
        args = {"q": q, "v": v}
        sweeps = pp.compile(expr, model, backend="native")(**args)
        flat = pp.evaluate_dense(expr, model, **args)
        rows = [slice(0, 6), slice(6, 12), slice(len(flat) - 6, len(flat))]
        flat = flat if sweeps.ndim == 1 else np.stack([flat[at] for at in rows])
        assert_allclose(sweeps, flat, atol=1e-12)


def test_a_loop_the_power_and_a_batch(skew):
    model, bodies, q, v, tau = skew
    pin = pp.constraints.Distance(0.9, name="string", a="tip", b=("world", (0.5, 0.5, 0.5)))
    one, all_ = (
        pp.System(model, [pin]),
        pp.System(bodies.model, [pin, *bodies.system().constraints]),
    )
    B = bodies.B
    found = pp.forward_dynamics(one, q, v, tau)
    other = pp.forward_dynamics(all_, bodies.q(q), B @ v, B @ np.linalg.solve(B.T @ B, tau))
    assert_allclose(B @ found, other, atol=1e-9)
    # kinetic energy changes by the power of the efforts
    free, h = model.with_gravity((0, 0, 0)), 1e-4
    vdot = pp.forward_dynamics(free, q, v, tau)
    ahead, behind = (
        pp.kinetic_energy(free, free.integrate(q, s * h * v), v + s * h * vdot) for s in (1, -1)
    )
    assert_allclose((ahead - behind) / (2 * h), tau @ v, atol=1e-6)
    batch = pp.forward_dynamics(model, [q] * 9, v, tau)
    assert_allclose(batch, [pp.forward_dynamics(model, q, v, tau)] * 9, atol=1e-12)


def test_armature_alone_and_a_wrong_sign_are_found(skew):
    model, _, q, v, vdot = skew
    (rotor,) = model.rotors
    bare = pp.Model.from_dict({**model.to_dict(), "rotors": []})
    armature = bare.with_body("lower", armature=model.armature[3])
    turned = bare.with_rotor("m", joint="lower", ratio=-7, moment=1e-2,
                             axis=np.array(TURN) @ rotor.axis)  # fmt: skip
    tau = pp.inverse_dynamics(model, q, v, vdot)
    for twin in (armature, turned):
        assert np.abs(pp.inverse_dynamics(twin, q, v, vdot) - tau).max() > 1e-3


def test_only_rotors_that_need_them_add_rows():
    tree = arm()
    for on, axis in (("parent", None), ("child", None), ("world", (1, 0, 0))):
        assert not tree.with_rotor("m", joint="lower", ratio=7, moment=1e-3, axis=axis,
                                   on=on).has_more_rows  # fmt: skip
    still = pp.ModelBuilder()
    still.add_body("slide", joint=pp.joints.Prismatic((1, 0, 0)), inertia=DISK)
    still.add_body("lower", parent="slide", inertia=DISK)
    model = still.build().with_rotor("m", joint="lower", ratio=7, moment=1e-3, axis=(1, 0, 0))
    assert not model.has_more_rows


@pytest.mark.parametrize("which", ["skew", "crossed"])
def test_the_identities_of_the_papers_hold(which, request):
    model, _, q, v, vdot = request.getfixturevalue(which)
    numbers = {"v": v, "vdot": vdot, "tau": pp.inverse_dynamics(model, q, v, vdot)}
    held = 0
    for identity in identities():
        sides = identity.lhs, identity.rhs
        if None in sides or unmet(identity.condition, model):
            continue
        try:
            left, right = (pp.evaluate_dense(x, model, q, **numbers) for x in sides)
        except (LoweringError, InputError):  # of rigid bodies, of points, of other inputs
            continue
        size = max(1.0, np.abs(right).max(initial=0.0))
        assert_allclose(left, right, atol=1e-9 * size, err_msg=identity.name)
        held += 1
    assert held > 100
    with pytest.raises(InputError, match="exact proofs do not support rotors on skew axes"):
        pp.prove("H φ K H ψ = H φ − H ψ", model)


# ---- functions that inertias are no part of, and those that know constant ones ---------------


def test_geometry_is_that_of_the_bodies_alone(skew):
    model, _, q, v, _ = skew
    bare = pp.Model.from_dict({**model.to_dict(), "rotors": []})
    points = ["tip"]
    assert_allclose(pp.jacobian_dot(model, q, v, points), pp.jacobian_dot(bare, q, v, points))
    target = pp.poses(model, q, points)[0]
    assert pp.inverse_kinematics(
        model, {"tip": target}, model.integrate(q, 0.1 * v)
    ).converged.all()


def test_controllers_and_conventions_know_rotors_on_skew_axes(skew):
    model, bodies, q, v, vdot = skew
    M, bias = bodies.mass_matrix(q), bodies.efforts(q, v, 0 * v)
    tau = pp.control.ComputedTorque(model, q, kp=9, kd=6)(0.0, q, v)
    assert_allclose(tau, bias - 6 * M @ v, atol=1e-12)
    pose, velocity = pp.poses(model, q, ["tip"])[0], pp.velocities(model, q, v, ["tip"])[0]
    task = pp.control.OperationalSpace(model, "tip", pose[:3, 3], kp=9, kd=6, components=(3, 4, 5))
    vdot = np.linalg.solve(M, task(0.0, q, v) - bias)
    found = pp.accelerations(model, q, v, vdot, ["tip"], classical=True)[0]
    assert_allclose(found[3:], -6 * velocity[3:], atol=1e-11)
    (stop,) = pp.forces.from_model(model.with_body("tip", limits=(-3.0, 3.0)))
    assert np.ravel(stop.stiffness)[-1] >= M[-1, -1] * (np.pi / 0.02) ** 2
    theirs = pp.conventions.to_pinocchio(model, q, v)
    assert_allclose(pp.conventions.from_pinocchio(model, theirs.q, theirs.v).v, v)


@pytest.mark.parametrize("which", ["skew", "crossed"])
def test_the_regressor_knows_that_rotors_do_not_depend_on_the_bodies(which, request):
    model, _, q, v, vdot = request.getfixturevalue(which)
    Y = REGRESSOR(model, q, v, vdot)
    tau, more = pp.inverse_dynamics(model, q, v, vdot), DISK + DISK
    for k, name in enumerate(model.body_names):  # efforts are linear in the inertia of a body
        heavier = model.with_payload(name, more)
        change = pp.inverse_dynamics(heavier, q, v, vdot) - tau
        assert_allclose(Y[:, 10 * k : 10 * k + 10] @ more.parameters, change, atol=1e-11)
    bare = pp.Model.from_dict({**model.to_dict(), "rotors": []})
    assert_allclose(Y, REGRESSOR(bare, q, v, vdot), atol=1e-12)
    assert np.abs(Y @ PARAMETERS(bare) - tau).max() > 1e-3  # the rotors are the rest
    by = pp.diff(INVERSE_DYNAMICS, "inertia", modes=True)
    inputs = {"q": q, "v": v, "vdot": vdot}
    assert_allclose(
        pp.compile(by, model, mode="dense", backend="reference")(**inputs), Y, atol=1e-12
    )
    assert_allclose(pp.evaluate_dense(by, model, **inputs), Y, atol=1e-12)


def test_functions_of_constant_inertias_say_so(skew):
    model, _, q, _, _ = skew
    match = "inertial_parameters is .* rotor 'm' .* joint 'lower'"
    with pytest.raises(InputError, match=match):
        PARAMETERS(model)
    with pytest.raises(InputError, match="rotors on skew axes"):
        ArticulatedCache().articulated(model, q)


def test_what_is_said_of_rotors_that_are_no_constant_inertia():
    solid = pp.SpatialInertia.box((0.1, 0.2, 0.3), mass=1.0)
    for joint, ratio, why in (
        (pp.joints.Revolute(), 10.0, "their axes are not parallel"),
        (pp.joints.Universal(), (10.0, 8.0), "it turns with several rates of that joint, each by"),
    ):
        b = pp.ModelBuilder()
        b.add_body("base", joint=pp.joints.Spherical(), inertia=solid)
        b.add_body("link", parent="base", joint=joint, inertia=solid)
        b.add_rotor("motor", joint="link", ratio=ratio, moment=1e-4, axis=(1, 0, 0))
        model = b.build()
        with pytest.raises(InputError, match=f"rotor 'motor' does depends on joint 'link': {why}"):
            pp.identification.kinetic_energy_regressor(model, model.neutral(), np.zeros(model.nv))
