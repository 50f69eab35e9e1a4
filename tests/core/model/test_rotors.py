"""Rotors behind gears: equal to rotors that are bodies, everywhere, or refused."""

import numpy as np
import pytest
from amounts import seeds
from geared_trees import Explicit, geared_tree
from numpy.testing import assert_allclose
from random_models import chain, random_state as state

import phipsi as pp
from phipsi.algorithms.constrained.stages import ArticulatedCache
from phipsi.core.model.joint import AdditiveJoint
from phipsi.core.model.scalar_linalg import from_columns, rotation_about
from phipsi.errors import InputError, ModelError, PhipsiWarning
from phipsi.studies.distributions import NamedSamples
from phipsi.transmissions.rotor_inertias import fold

TURN = np.eye(3)[[2, 0, 1]]
DISK = pp.SpatialInertia(1.0, (0.1, 0, 0), (0.1, 0.2, 0.25))


class Wound(AdditiveJoint):
    """Rotation about z by 3 q + bend q²: rates are not in rad/s, and may change with q."""

    __slots__ = ()
    kind = "wound"
    nq = nv = 1
    coordinate_names = ("theta",)

    def __init__(self, bend=0.0):
        self._set(_arguments={"bend": float(bend)}, params=(float(bend),))

    def transform(self, params, q, ops):
        return rotation_about((0, 0, 1), 3 * q[0] + params[0] * q[0] * q[0], ops), [0, 0, 0]

    def hinge_axes(self, params, q, ops):
        return from_columns([(0, 0, 3 + 2 * params[0] * q[0], 0, 0, 0)])

    def hinge_axes_rate(self, params, q, v, ops):
        return from_columns([(0, 0, 2 * params[0] * v[0], 0, 0, 0)])


def elbow(axis=(0, 0, 1), joint=None, gravity=(0, 0, -9.81)):
    """Two bodies: one that turns about (0.6, 0, 0.8), and one on a joint about z or another."""
    builder = pp.ModelBuilder(gravity=gravity)
    builder.add_body("upper", joint=pp.joints.Revolute((0.6, 0, 0.8)), inertia=DISK)
    builder.add_body(
        "lower", parent="upper", joint=joint or pp.joints.Revolute(axis), inertia=DISK,
        placement=pp.Pose(translation=(0, 0, 0.4)),
    )  # fmt: skip
    return builder


# ---- the same as bodies --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(40))
def test_trees_equal_rotors_as_bodies(seed):
    model, bodies = geared_tree(seed, bodies=2 + seed % 6, rotors=1 + seed % 5)
    q, v, vdot = state(model, seed)
    M, tau = bodies.mass_matrix(q), bodies.efforts(q, v, vdot)
    assert_allclose(pp.mass_matrix(model, q), M, atol=1e-11 * np.abs(M).max())
    assert_allclose(pp.inverse_dynamics(model, q, v, vdot), tau, atol=1e-11 * np.abs(tau).max())
    assert_allclose(pp.mass_matrix_inverse(model, q) @ M, np.eye(model.nv), atol=1e-7)
    assert_allclose(M @ pp.forward_dynamics(model, q, v, tau), M @ vdot, atol=1e-9)
    assert_allclose(
        pp.diagonal_dynamics.log_det_mass_matrix(model, q), np.linalg.slogdet(M)[1], atol=1e-8
    )
    assert_allclose(pp.kinetic_energy(model, q, v), 0.5 * v @ M @ v, rtol=1e-11)


@pytest.mark.parametrize("seed", seeds(6))
def test_free_flyers_have_the_momentum_and_the_reactions_of_rotors_as_bodies(seed):
    model, bodies = geared_tree(seed, bodies=5, rotors=4, flying=True)
    assert model.rotors
    q, v, vdot = state(model, seed)
    B, whole = bodies.B, bodies.q(q)
    for about in ("origin", "com"):
        expected = pp.momentum(bodies.model, whole, B @ v, about=about)
        assert_allclose(pp.momentum(model, q, v, about=about), expected, atol=1e-12)
    assert_allclose(pp.centroidal.momentum_matrix(model, q),
                    pp.centroidal.momentum_matrix(bodies.model, whole) @ B, atol=1e-12)  # fmt: skip
    rate = pp.centroidal.momentum_matrix_dot(model, q, v) @ v
    assert_allclose(rate, pp.centroidal.momentum_matrix_dot(bodies.model, whole, B @ v) @ B @ v,
                    atol=1e-11)  # fmt: skip
    tau = pp.inverse_dynamics(model, q, v, vdot)
    through = pp.joint_reactions(model, q, v, tau).joints
    assert_allclose(through, bodies.reactions(q, v, vdot), atol=1e-9)


def test_systems_equal_rotors_as_bodies_with_exact_gears():
    model, bodies = geared_tree(3, bodies=4, rotors=3, flying=True)
    q, v, tau = state(model)
    system, B = bodies.system(), bodies.B
    expected = pp.forward_dynamics(system, bodies.q(q), B @ v, B @ np.linalg.solve(B.T @ B, tau))
    assert_allclose(B @ pp.forward_dynamics(model, q, v, tau), expected, atol=1e-9)
    # and in a loop: a pin to the world closes it
    last = model.body_names[-1]
    pin = pp.constraints.Spherical(name="pin", a=last, b=("world", (0, 0, 0)))
    gears = bodies.system().constraints
    one, all_ = pp.System(model, [pin]), pp.System(bodies.model, [pin, *gears])
    found = pp.forward_dynamics(one, q, v, tau, return_multipliers=True)
    other = pp.forward_dynamics(all_, bodies.q(q), B @ v, B @ np.linalg.solve(B.T @ B, tau),
                                return_multipliers=True)  # fmt: skip
    assert_allclose(B @ found.vdot, other.vdot, atol=1e-8)
    rows = [all_.row_names.index(name) for name in one.row_names]
    assert_allclose(found.f, other.f[rows], rtol=1e-8, atol=1e-8)
    held = pp.joint_reactions(one, q, v, tau)  # the same as with the force of the pin on a tree
    f_ext = np.zeros((model.n_bodies, 6))
    f_ext[-1] = held.closures[0]
    assert_allclose(held.joints, pp.joint_reactions(model, q, v, tau, f_ext).joints, atol=1e-9)


@pytest.mark.parametrize("on", ["parent", "child"])
def test_a_joint_whose_rate_is_not_in_radians(on):
    def geared(joint, ratio):
        return elbow(joint=joint).build().with_rotor(
            "motor", joint="lower", ratio=ratio, moment=1e-3, axis=(0, 0, -1), on=on
        )  # fmt: skip

    wound, plain = geared(Wound(), 12), geared(pp.joints.Revolute((0, 0, 1)), 4)
    q, v, vdot = state(wound)
    by = np.array([1, 3])
    tau = pp.inverse_dynamics(plain, by * q, by * v, by * vdot)
    assert_allclose(pp.inverse_dynamics(wound, q, v, vdot), by * tau, atol=1e-13)
    found = pp.joint_reactions(wound, [q, 2 * q], v, [by * tau, tau]).joints  # and a batch
    expected = pp.joint_reactions(plain, [by * q, 2 * by * q], by * v, [tau, tau / by]).joints
    assert_allclose(found, expected, atol=1e-12)
    with pytest.raises(ModelError, match=r"'lower' \(wound\) turns about an axis that changes"):
        geared(Wound(0.1), 12)


def test_rotors_beside_a_flexible_body():
    builder = elbow()
    beam = pp.FlexibleInertia.beam(1.0, 0.5, 10.0)
    builder.add_body("beam", parent="upper", inertia=beam)
    builder.add_body("tool", parent="upper", inertia=DISK, joint=pp.joints.Revolute((0, 1, 0)))
    plain = builder.build()
    rotor = pp.SpatialInertia(0.2, (0, 0, 0), (0.5e-3, 1e-3, 0.5e-3))
    model = plain.with_rotor("motor", joint="tool", ratio=7, moment=1e-3, inertia=rotor)
    part = pp.ModelBuilder()
    part.add_body("motor", joint=pp.joints.Revolute((0, 1, 0)), inertia=rotor)
    bodies = Explicit(plain.attach(part.build(), at="upper"), model, {"motor": {"tool": 7.0}})
    q, v, vdot = state(model)
    assert_allclose(pp.mass_matrix(model, q), bodies.mass_matrix(q), atol=1e-13)
    assert_allclose(pp.inverse_dynamics(model, q, v, vdot), bodies.efforts(q, v, vdot), atol=1e-12)


def test_a_wrong_gyroscopic_sign_and_armature_alone_are_found():
    builder = elbow(joint=pp.joints.Revolute((0, 0, 1)))
    plain = builder.build()
    model = plain.with_rotor("motor", joint="lower", ratio=20, moment=1e-3)
    wrong = plain.with_rotor("motor", joint="lower", ratio=-20, moment=1e-3)
    armature = plain.with_body("lower", armature=20**2 * 1e-3)
    q, v, vdot = state(model)
    tau = pp.inverse_dynamics(model, q, v, vdot)
    for twin in (wrong, armature):
        assert np.abs(pp.inverse_dynamics(twin, q, v, vdot) - tau).max() > 1e-3
    # the carrier feels I N (u v̇ + ω × u v), by hand: u = z, ω = (0.6, 0, 0.8) v0
    efforts = pp.inverse_dynamics(armature, q, v, vdot)
    felt = (
        pp.joint_reactions(model, q, v, tau).joints
        - pp.joint_reactions(armature, q, v, efforts).joints
    )
    moment = 20 * 1e-3 * np.array([0, -0.6 * v[0] * v[1], vdot[1]])
    assert_allclose(felt, [[*moment, 0, 0, 0], np.zeros(6)], atol=1e-12)


def test_derivatives_are_those_of_rotors_as_bodies():
    model, bodies = geared_tree(5, bodies=4, rotors=3, flying=True)
    q, v, vdot = state(model)
    found = pp.inverse_dynamics_derivatives(model, q, v, vdot)
    h = 1e-6
    for i, e in enumerate(np.eye(model.nv)):
        ahead, behind = (bodies.efforts(model.integrate(q, s * h * e), v, vdot) for s in (1, -1))
        assert_allclose(found[0][:, i], (ahead - behind) / (2 * h), atol=1e-6)
        slope = (bodies.efforts(q, v + h * e, vdot) - bodies.efforts(q, v - h * e, vdot)) / (2 * h)
        assert_allclose(found[1][:, i], slope, atol=1e-6)


def test_machine_code_gives_the_same():
    model, _ = geared_tree(3, bodies=4, rotors=3, flying=True)
    rng = np.random.default_rng(0)
    q = model.random_configuration(rng, 5)
    v, tau = rng.standard_normal((2, 5, model.nv))
    expr = pp.operators.mass_matrix.inv @ (
        pp.operators.tau - pp.operators.parse("H φ (M φ* a + b)")
    )
    native, reference = (
        pp.compile(expr, model, backend=name)(q, v, tau) for name in ("native", "reference")
    )
    assert_allclose(native, reference, rtol=1e-10, atol=1e-10)


def test_a_free_flyer_keeps_energy_and_momentum():
    model, _ = geared_tree(3, bodies=3, rotors=3, flying=True)
    model = model.with_gravity((0, 0, 0))
    q, v, _ = state(model)
    vdot = pp.forward_dynamics(model, q, v, np.zeros(model.nv))

    def power(h=1e-4):
        ahead, behind = (
            pp.kinetic_energy(model, model.integrate(q, s * h * v), v + s * h * vdot)
            for s in (1, -1)
        )
        return (ahead - behind) / (2 * h)

    def thrust(tree):
        rate = pp.centroidal.momentum_matrix_dot(tree, q, v) @ v
        return np.abs(rate + pp.centroidal.momentum_matrix(tree, q) @ vdot).max()

    assert abs(power()) < 1e-6
    assert thrust(model) < 1e-11
    bare = pp.Model.from_dict({**model.to_dict(), "rotors": []})  # the bodies alone
    assert thrust(bare) > 1e-2


# ---- where rotors go -----------------------------------------------------------------------------


def test_rotors_stay_with_their_joints():
    builder = elbow()
    builder.add_body("flange", parent="upper", joint=pp.joints.Fixed(), placement=pp.Pose(TURN))
    builder.add_body("tool", parent="flange", joint_name="wrist", inertia=DISK,
                     joint=pp.joints.Revolute((0, 1, 0)))  # fmt: skip
    builder.add_rotor("one", joint="lower", ratio=10, moment=1e-3)
    model = builder.build()
    # the axis of a rotor on a body that is welded away is in the axes of what carries it now
    geared = model.with_rotor("two", joint="wrist", ratio=5, moment=1e-3, axis=TURN @ (0, 1, 0))
    assert geared != model
    assert pp.Model.from_dict(geared.to_dict()) == geared
    assert geared.joint("lower").armature == (0.0,)
    assert_allclose(geared.armature, [0, 90e-3, 20e-3])
    assert_allclose(geared.body("upper").inertia.matrix, model.body("upper").inertia.matrix)
    q, _, _ = state(geared)
    twice = geared.attach(geared, at="lower", prefix="second_")
    assert [r.joint for r in twice.rotors] == ["lower", "wrist", "second_lower", "second_wrist"]
    locked = geared.with_locked("wrist", q)
    assert [r.name for r in locked.rotors] == ["one"]
    assert geared.with_body("lower", joint=pp.joints.Fixed()).rotors[0].name == "two"
    path = geared.with_paths("lower")
    assert [r.name for r in path.rotors] == ["one"]
    assert pp.System(geared, []).with_gravity((0, 0, 0)).rotors == geared.rotors
    kept = ArticulatedCache()
    for change in (q, q + [0, 0.3, 0], q + [0, 0.3, 0.1]):
        found, _ = kept.articulated(geared, change)
        exact = pp.compile((pp.operators.P, pp.operators.D, pp.operators.G), geared,
                           mode="blocks")(change)  # fmt: skip
        for x, y in zip(found, exact, strict=True):
            assert_allclose(x, y, atol=1e-14)
    with pytest.warns(PhipsiWarning, match=r"2 rotor\(s\), for example 'one'"):
        pp.save_urdf(geared)


def test_rotors_on_carriers_that_never_turn_are_armature():
    builder = pp.ModelBuilder()
    builder.add_body("x", joint=pp.joints.Prismatic((1, 0, 0)), inertia=DISK)
    builder.add_body("y", parent="x", joint=pp.joints.Prismatic((0, 1, 0)), inertia=DISK)
    builder.add_rotor("screw", joint="y", ratio=300, moment=1e-4)
    builder.add_rotor("drive", joint="x", ratio=300, moment=1e-4, axis=(0, 1, 1))
    model = builder.build()
    assert_allclose(model.armature, [9.0, 9.0])
    assert_allclose(pp.mass_matrix(model, [0, 0]), np.diag([11.0, 10.0]))
    for function, args in (
        (pp.momentum, ([0, 0], [0, 0])),
        (pp.centroidal.momentum_matrix, ([0, 0],)),
        (pp.centroidal.momentum_matrix_dot, ([0, 0], [0, 0])),
        (pp.joint_reactions, ([0, 0], [0, 0], [0, 0])),
    ):
        with pytest.raises(InputError, match=f"{function.__name__} needs .* of rotor 'screw'"):
            function(model, *args)
    assert elbow().build().attach(model, at="lower").more_rows == (0, 0, 1, 1)  # now it turns


def test_parameters_contain_rotors_and_identification_keeps_them():
    plain = pp.examples.planar_arm(3)
    model = plain.with_rotor("motor", joint="joint2", ratio=8, moment=2e-3)
    model = model.with_rotor("other", joint="joint3", ratio=-5, moment=3e-3, on="child")
    rng = np.random.default_rng(0)
    q, v, vdot = rng.standard_normal((3, 80, 3))
    pi = pp.identification.inertial_parameters(model, armature=True)
    tau = pp.inverse_dynamics(model, q, v, vdot)
    assert_allclose(
        pp.identification.regressor(model, q, v, vdot, armature=True) @ pi, tau, atol=1e-12
    )
    n = 10 * model.n_bodies
    again = model.with_inertial_parameters(pi[:n], armature=pi[n:])
    assert_allclose(pp.inverse_dynamics(again, q, v, vdot), tau, atol=1e-12)
    assert_allclose(again.joint("joint2").armature, 0.0, atol=1e-15)
    assert_allclose(again.body("link1").inertia.parameters,
                    model.body("link1").inertia.parameters, atol=1e-15)  # fmt: skip
    base = pp.identification.base_parameters(model)
    found = pp.identification.identify(base, q, v, vdot, tau - model.armature * vdot)
    assert_allclose(found.values, base.values(model), atol=1e-9)
    guess = found.model()
    assert guess.rotors == model.rotors
    assert_allclose(pp.inverse_dynamics(guess, q, v, vdot), tau, atol=1e-3)


def test_draws_of_masses_leave_rotors_as_they_are():
    arm = pp.examples.planar_arm(2).with_rotor("motor", joint="joint2", ratio=20, moment=1e-3)
    simulator = pp.Simulator(arm, [], 0.01, per_trajectory=("inertia",))
    draws = NamedSamples(simulator, ["mass.link2"], None, None)
    found = draws.arguments({"mass.link2": np.array([1.0, 2.0])})["parameters"]["inertia"]
    twice = 2 * arm.body("link2").inertia.parameters
    heavy = arm.with_body("link2", inertia=pp.SpatialInertia.from_parameters(twice))
    for row, model in zip(found, (arm, heavy), strict=True):
        assert_allclose(row.ravel(), pp.identification.inertial_parameters(model), atol=1e-15)


# ---- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joint": "lowr"}, "'lowr', which is not a joint. Did you mean 'lower'"),
        ({"ratio": 0}, "ratio=0 must be finite and not 0"),
        ({"ratio": "10:1"}, "ratio must be one number"),
        ({"moment": -1e-3}, "moment=-0.001 must be positive"),
        ({"moment": 5.0}, r"'upper' carries 'motor', whose moments about their axes \(5 kg·m²"),
        ({"on": "base"}, "on='base' is not one of 'parent', 'child', 'world'"),
        ({"inertia": 3.0}, "inertia must be a SpatialInertia"),
        ({"name": ""}, "a rotor's name must be a non-empty string"),
    ],
)
def test_rotors_that_cannot_be_are_refused(change, message):
    builder = elbow()
    given = {"name": "motor", "joint": "lower", "ratio": 10, "moment": 1e-3, **change}
    with pytest.raises(ModelError, match=message):
        builder.add_rotor(given.pop("name"), **given)
        builder.build()


def test_joints_with_several_rates_and_changing_axes_are_refused():
    with pytest.raises(ModelError, match=r"joint 'lower' \(spherical\) has 3 rates"):
        elbow(joint=pp.joints.Spherical()).build().with_rotor(
            "motor", joint="lower", ratio=2, moment=1e-3
        )
    beam = pp.FlexibleInertia.beam(1.0, 0.5, 10.0)
    builder = pp.ModelBuilder()
    builder.add_body("upper", inertia=DISK)
    builder.add_body("blade", parent="upper", inertia=beam)
    builder.add_rotor("motor", joint="blade", ratio=2, moment=1e-3)
    with pytest.raises(ModelError, match="body 'blade' at its joint 'blade' deforms"):
        builder.build()


def test_the_moment_of_a_carrier_counts_along_the_axis_of_the_rotor():
    def build(along, on, moment=0.09):
        builder = pp.ModelBuilder()
        for name, parent in (("upper", "world"), ("lower", "upper")):
            builder.add_body(name, parent=parent, placement=pp.Pose(TURN),
                             joint=pp.joints.Revolute((0, 1, 0)),
                             inertia=pp.SpatialInertia(1.0, (0, 0, 0), along))  # fmt: skip
        builder.add_rotor("motor", joint="lower", ratio=3, moment=moment, on=on)
        return builder.build("keep")

    flat = {"parent": TURN @ (0, 0.1, 0), "child": np.array([0, 0.1, 0])}
    for on, along in flat.items():
        assert build(along, on).rotors[0].on == on
        with pytest.raises(ModelError, match="carries 'motor'"):
            build(along, on, 0.11)
        with pytest.raises(ModelError, match="carries 'motor'"):
            build(along[[1, 2, 0]], on)


def test_two_rotors_of_one_name_are_refused():
    model = elbow().build().with_rotor("motor", joint="lower", ratio=2, moment=1e-3)
    with pytest.raises(ModelError, match="two rotors are named 'motor'"):
        model.with_rotor("motor", joint="upper", ratio=2, moment=1e-3)
    other = chain(1, joints=["revolute"])
    other = other.with_rotor("motor", joint="j0", ratio=2, moment=1e-3, on="world")
    with pytest.raises(ModelError, match="both mechanisms have a rotor named 'motor'"):
        model.attach(other)
    with pytest.raises(ModelError, match="is mounted on the world of the mechanism to attach"):
        model.attach(other, at="lower", prefix="b_")
    assert fold(other.description).moments.any() == np.False_
