"""Machine elements: teeth in mesh have one velocity, belts and racks one speed, energy is kept.

The second route is geometry: material points of the two bodies at the place where they touch move
alike, whatever the axes and senses of rotation of the joints are.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c

Z = (0, 0, 1)
ROUND = pp.SpatialInertia(1.0, (0, 0, 0), (0.02, 0.02, 0.03))


def turned(seed: int) -> np.ndarray:
    """A random rotation."""
    Q, R = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    Q = Q * np.sign(np.diag(R))
    return Q * np.linalg.det(Q)


def shafts(centres: dict, flipped=(), carriers: dict | None = None, seed: int = 0):
    """Wheels on parallel shafts of a moving carrier body that is turned in space.

    `centres`: joint → its place in the plane; `flipped`: joints whose axis points the other way;
    `carriers`: joint → the joint on whose body it is, the housing if not named.
    """
    builder = pp.ModelBuilder(gravity=(0.3, -0.2, -9.81))
    heavy = pp.SpatialInertia(3.0, (0.1, 0, 0), (0.3, 0.4, 0.5))
    builder.add_body(
        "housing", joint=pp.joints.Free(), inertia=heavy, placement=pp.Pose(turned(seed))
    )
    for name, at in centres.items():
        parent = (carriers or {}).get(name, "housing")
        axis = (0, 0, -1) if name in flipped else Z
        builder.add_body(
            f"{name}_body", parent=parent, joint=pp.joints.Revolute(axis), joint_name=name,
            inertia=ROUND, placement=pp.Pose(translation=(*at, 0.0)),
        )  # fmt: skip
    return builder.build()


def admissible(system, seed=1):
    """Rates that the constraints allow, at a configuration where they hold."""
    rng = np.random.default_rng(seed)
    q = system.assemble(system.random_configuration(rng))
    return system.project(q, rng.standard_normal(system.nv))


def speed_at(model, q, v, body, place):
    """Velocity of the material point of a body that is at a place (3,) of the housing's axes."""
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    world = poses["housing"] @ np.array([*place, 1.0])
    local = (np.linalg.inv(poses[body]) @ world)[:3]
    return (pp.jacobian(model, q, [(body, local)], axes="world") @ v)[3:6]


@pytest.mark.parametrize("flipped", [(), ("a",), ("b",), ("a", "b")])
def test_teeth_in_mesh_have_one_velocity(flipped):
    r = 0.1, 0.3
    model = shafts({"a": (0, 0), "b": (r[0] + r[1], 0)}, flipped)
    gear = c.Gear(name="gear", driver="a", driven="b", teeth=(10, 30))
    system = pp.System(model, [gear])
    q, v = admissible(system)
    at = (r[0], 0, 0)
    assert_allclose(
        speed_at(model, q, v, "a_body", at), speed_at(model, q, v, "b_body", at), atol=1e-11
    )
    wrong = pp.System(model, [c.Gear(name="g", driver="a", driven="b", teeth=(10, 30.0001))])
    q, v = admissible(wrong)
    off = speed_at(model, q, v, "a_body", at) - speed_at(model, q, v, "b_body", at)
    assert np.abs(off).max() > 1e-9


@pytest.mark.parametrize("flipped", [(), ("b",)])
def test_an_internal_ring_turns_with_its_pinion(flipped):
    model = shafts({"a": (0.2, 0), "b": (0, 0)}, flipped)
    system = pp.System(
        model, [c.Gear(name="gear", driver="a", driven="b", teeth=(10, 30), internal=True)]
    )
    q, v = admissible(system)
    at = (0.3, 0, 0)  # radii 0.1 and 0.3
    assert_allclose(
        speed_at(model, q, v, "a_body", at), speed_at(model, q, v, "b_body", at), atol=1e-11
    )


@pytest.mark.parametrize("flipped", [(), ("ring",), ("sun", "planet"), ("carrier",)])
def test_a_planet_rolls_on_sun_and_ring(flipped):
    """z = 20, 60: radii 0.1, 0.3, the planet's (0.3 − 0.1)/2 on a carrier of 0.2."""
    places = {"sun": (0, 0), "ring": (0, 0), "carrier": (0, 0), "planet": (0.2, 0)}
    model = shafts(places, flipped, {"planet": "carrier_body"})
    gear = c.Planetary(
        name="stage", sun="sun", ring="ring", carrier="carrier", planet="planet", teeth=(20, 60)
    )
    system = pp.System(model, [gear])
    assert system.row_names == ("stage.mesh", "stage.planet")
    q, v = admissible(system)
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    centre = np.linalg.inv(poses["housing"]) @ poses["planet_body"][:, 3]
    out = centre[:3] / np.linalg.norm(centre[:3])
    for body, radius in (("sun_body", 0.1), ("ring_body", 0.3)):
        at = radius * out
        assert_allclose(
            speed_at(model, q, v, body, at), speed_at(model, q, v, "planet_body", at), atol=1e-11
        )


def test_a_planetary_gear_with_a_fixed_ring_reduces_by_willis():
    model = shafts({"sun": (0, 0), "ring": (0, 0), "carrier": (0, 0)})
    free = c.Planetary(name="s", sun="sun", ring="ring", carrier="carrier", teeth=(20, 60))
    fixed = c.Planetary(name="s", sun="sun", ring=None, carrier="carrier", teeth=(20, 60))
    held = pp.System(model, [free]).with_locked("ring", model.neutral())
    q, v = admissible(held)
    sun, carrier = held.v_slice("sun"), held.v_slice("carrier")
    assert_allclose(v[sun], 4 * v[carrier], atol=1e-12)
    q, v = admissible(pp.System(model, [fixed]))
    assert_allclose(v[model.v_slice("sun")], 4 * v[model.v_slice("carrier")], atol=1e-12)


@pytest.mark.parametrize(("flipped", "sign"), [((), 1), (("right",), -1)])
def test_a_differential_shares_efforts_and_means_rates(flipped, sign):
    model = shafts({"left": (0, 0), "right": (0, 0), "cage": (0, 0)}, flipped)
    axle = c.Differential(name="axle", left="left", right="right", carrier="cage")
    system = pp.System(model, [axle])
    q, v = admissible(system)
    rate = {n: float(v[model.v_slice(n)][0]) for n in ("left", "right", "cage")}
    assert_allclose(rate["left"] + sign * rate["right"], 2 * rate["cage"], atol=1e-12)
    motion = pp.forward_dynamics(system, q, v, np.zeros(model.nv), return_multipliers=True)
    effort = system.jacobian(q).T @ motion.f
    parts = [float(effort[model.v_slice(n)][0]) for n in ("left", "right", "cage")]
    assert_allclose(parts[0], sign * parts[1], rtol=1e-12)
    assert_allclose(parts[2], -2 * parts[0], rtol=1e-12)


def test_a_belt_has_one_speed():
    model = shafts({"a": (0, 0), "b": (1, 0), "idler": (0.5, 0.2)}, ("b",))
    radii = {"a": 0.1, "b": 0.3, "idler": -0.05}
    belt = c.Belt(name="belt", pulleys=tuple(radii), radii=tuple(radii.values()))
    system = pp.System(model, [belt])
    assert system.row_names == ("belt.a–b", "belt.b–idler")
    q, v = admissible(system)
    sense = {"a": 1, "b": -1, "idler": 1}
    speeds = [radii[n] * sense[n] * float(v[model.v_slice(n)][0]) for n in radii]
    assert_allclose(speeds, speeds[0], atol=1e-12)


def rack_and_screw():
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    builder.add_body("wheel", joint=pp.joints.Revolute(Z), joint_name="pinion", inertia=ROUND)
    for name in ("bar", "table"):
        builder.add_body(
            name, joint=pp.joints.Prismatic((0, 0.6, 0.8)), joint_name=f"slide_{name}",
            inertia=pp.SpatialInertia(2.0, (0, 0, 0), 0.1),
        )  # fmt: skip
    return builder.build()


def test_rack_and_screw_carry_a_load_by_virtual_work():
    """At rest the effort of the pinion is the weight along the rack times the travel per angle."""
    model = rack_and_screw()
    rack = c.RackPinion(name="rack", pinion="pinion", rack="slide_bar", radius=0.05)
    screw = c.Screw(name="lift", spindle="pinion", nut="slide_table", lead=-0.01)
    system = pp.System(model, [rack, screw])
    travel = np.array([1.0, 0.05, -0.01 / (2 * np.pi)])
    weight = 2 * 9.81 * 0.8
    needed = travel[1:] @ [weight, weight]
    tau = np.array([needed, 0, 0])
    assert_allclose(
        pp.forward_dynamics(system, np.zeros(3), np.zeros(3), tau), np.zeros(3), atol=1e-12
    )
    # effective inertia: J + m r² + m (lead/2π)²
    moving = pp.forward_dynamics(system, np.zeros(3), np.zeros(3), tau + [1, 0, 0])
    effective = 0.03 + 2 * travel[1] ** 2 + 2 * travel[2] ** 2
    assert_allclose(moving, travel / effective, rtol=1e-12)


def test_a_run_of_gears_keeps_energy_and_mesh():
    places = {"sun": (0, 0), "ring": (0, 0), "carrier": (0, 0), "planet": (0.2, 0)}
    model = shafts(places, (), {"planet": "carrier_body"})
    gear = c.Planetary(
        name="stage", sun="sun", ring="ring", carrier="carrier", planet="planet", teeth=(20, 60)
    )
    system = pp.System(model, [gear])
    q, v = admissible(system)
    run = pp.simulate(system, q, v, 0.5, rtol=1e-9, atol=1e-9)
    assert_allclose(run.energy, run.energy[0], rtol=1e-7)
    assert np.abs(system.residual(run.q)).max() < 1e-9


def test_gears_engage_where_the_joints_are():
    model = shafts({"a": (0, 0), "b": (0.4, 0), "c": (0.8, 0)})
    q = model.neutral()
    q[-3:] = 0.3, 0.2, -0.7
    belt = c.Belt(name="belt", pulleys=("a", "b", "c"), radii=(0.1, 0.2, 0.3))
    system = pp.System(model, [belt.fitted(model, q)])
    assert_allclose(system.residual(q), 0, atol=1e-15)
    assert abs(pp.System(model, [belt]).residual(q)).min() > 1e-3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: c.Gear(name="g", driver="a", driven="b"), "either ratio"),
        (lambda: c.Gear(name="g", driver="a", driven="b", ratio=2, teeth=(1, 2)), "either ratio"),
        (lambda: c.Gear(name="g", driver="a", driven="b", ratio=0), "not 0"),
        (lambda: c.Gear(name="g", driver="a", driven="a", ratio=2), "is both driver= and driven="),
        (lambda: c.Gear(name="g", driver="a", driven="b", ratio=2, internal=True), "internal"),
        (lambda: c.Differential(name="d", left="a", right="a", carrier="b"), "left= and right="),
        (lambda: c.Planetary(name="p", sun="a", ring="a", carrier="d", teeth=(2, 6)), "ring="),
        (lambda: c.Gear(name="g", driver="a", driven="b", teeth=(3, -1)), "above 0"),
        (lambda: c.Planetary(name="p", sun="a", ring="b", carrier="d", teeth=(6, 2)), "more teeth"),
        (lambda: c.RackPinion(name="r", pinion="a", rack="s", radius=float("nan")), "finite"),
        (lambda: c.Screw(name="s", spindle="a", nut="s", lead=0), "not 0"),
        (lambda: c.Belt(name="b", pulleys=("a",), radii=(1,)), "two or more"),
        (lambda: c.Belt(name="b", pulleys=("a", "b"), radii=(1, 0)), "none 0"),
        (lambda: c.Gear(name="g", driver="a", driven="b", ratio=2, offset=np.inf), "finite"),
    ],
)  # fmt: skip
def test_numbers_that_no_machine_has(make, text):
    with pytest.raises(pp.errors.ModelError, match=text):
        make()


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (c.Gear(name="g", driver="a", driven="d", teeth=(1, 2)), "on different bodies"),
        (c.Gear(name="g", driver="a", driven="tilted", teeth=(1, 2)), "give the ratio"),
        (c.Gear(name="g", driver="a", driven="slide", ratio=2), "must be revolute"),
        (c.Gear(name="g", driver="a", driven="nothing", ratio=2), "no joint 'nothing'"),
        (c.Differential(name="d", left="a", right="b", carrier="tilted"), "not parallel"),
        (c.RackPinion(name="r", pinion="slide", rack="a", radius=1), "must be revolute"),
        (c.Screw(name="s", spindle="a", nut="b", lead=1), "must be prismatic"),
        (c.Belt(name="b", pulleys=("a", "b"), radii=(1, 1), offset=(1, 2, 3)), "3 offsets"),
        (c.Planetary(name="p", sun="a", ring=None, carrier="b", planet="d", teeth=(1, 3)),
         "on body 'b_body'"),
    ],
)  # fmt: skip
def test_joints_that_cannot_mesh(constraint, text):
    builder = pp.ModelBuilder()
    for name in ("a", "b", "tilted"):
        axis = (0, 1, 0) if name == "tilted" else Z
        builder.add_body(
            f"{name}_body", joint=pp.joints.Revolute(axis), joint_name=name, inertia=ROUND
        )
    builder.add_body("bar", joint=pp.joints.Prismatic(Z), joint_name="slide", inertia=ROUND)
    builder.add_body(
        "d_body", parent="a_body", joint=pp.joints.Revolute(Z), joint_name="d", inertia=ROUND
    )
    with pytest.raises(pp.errors.ModelError, match=text):
        pp.System(builder.build(), [constraint])


def test_bevel_gears_take_a_ratio():
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body("x", joint=pp.joints.Revolute((1, 0, 0)), inertia=ROUND, joint_name="a")
    builder.add_body("z", joint=pp.joints.Revolute(Z), inertia=ROUND, joint_name="b")
    system = pp.System(builder.build(), [c.Gear(name="g", driver="a", driven="b", ratio=-2)])
    motion = pp.forward_dynamics(system, np.zeros(2), np.zeros(2), [1.0, 0.0])
    assert_allclose(motion, np.array([-2, 1]) * -2 / (0.02 * 4 + 0.03), rtol=1e-12)


def test_a_motor_keeps_its_rate_and_its_multiplier_is_the_effort():
    """A crank of a four-bar at 5 rad/s: the effort is that of inverse dynamics with the loop."""
    arm = pp.examples.planar_arm(3)
    pin = c.Revolute(Z, name="pin", a="tip", b=("world", (1.5, 0, 0)))
    motor = c.Motor(name="crank", joint="joint1", rate=5.0)
    system, tau = pp.System(arm, [pin, motor]), np.zeros(3)
    q = system.assemble([1.0, -1.0, -1.5])
    q, v = system.project(q, np.zeros(3))
    assert_allclose(v[0], 5.0, rtol=1e-12)
    motion = pp.forward_dynamics(system, q, v, tau, return_multipliers=True)
    assert abs(motion.vdot[0]) < 1e-9
    free = pp.System(arm, [pin])
    effort = -motion.f[system.row_names.index("crank.rate")]
    again = pp.forward_dynamics(free, q, v, [effort, 0, 0])
    assert_allclose(again, motion.vdot, atol=1e-9 * abs(effort))
    run = pp.simulate(system, q, v, 0.05, rtol=1e-8)
    assert_allclose(run.q[-1, 0] - q[0], 0.25, atol=1e-9)
    after, p = pp.constraint_impulse(system, q, v)
    assert_allclose(after, v, atol=1e-10)
    assert np.abs(p).max() < 1e-8
    with pytest.raises(pp.errors.ModelError, match="no clock"):
        pp.System(arm, [c.Motor(name="m", joint="joint1", rate=lambda t: t)])
