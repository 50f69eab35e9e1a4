"""Forces of wheels, racks and belts against flanks and rods that are modelled."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c
from phipsi.errors import InputError, ModelError
from phipsi.pages.machine_solids import belt_path
from phipsi.transmissions.belts import belt_spans

ANGLE = np.deg2rad(20)
WHEEL = pp.SpatialInertia(1.0, (0.01, 0.02, 0.005), 0.01)


def on_carrier(*wheels, gravity=(1.0, -9.0, 2.0)):
    """Wheels (axis, place) on a body that swings, in a field that loads every bearing."""
    b = pp.ModelBuilder(gravity=gravity)
    b.add_body("box", joint=pp.joints.Revolute((0, 1, 0)),
               inertia=pp.SpatialInertia(3.0, (0.1, 0.2, 0), 0.2))  # fmt: skip
    for i, (joint, place) in enumerate(wheels):
        where = pp.Pose(None, place)
        b.add_body(f"w{i}", parent="box", joint=joint, placement=where, inertia=WHEEL)
    return b.build()


def turning(axis):
    return pp.joints.Revolute(axis)


def flank(model, q, bodies, place, normal):
    """The flanks of two teeth as a constraint: no relative velocity along their normal."""
    frames = pp.poses(model, q)
    points = []
    for name in bodies:
        X = frames[model.body_index(name)]
        points.append((name, X[:3, :3].T @ (place - X[:3, 3])))
    row = np.concatenate([np.zeros(3), normal, np.zeros(3), -normal])[None]
    return c.Rows(name="flank", points=points, A=row)


def same_as_flanks(model, gear, q, tau):
    """Reactions and motion at rest are those of teeth that touch at one point, along a normal."""
    system, rest = pp.System(model, [gear]), np.zeros(model.nv)
    motion = pp.forward_dynamics(system, q, rest, tau, return_multipliers=True)
    found = gear.transmitted(system, pp.poses(system, q), motion.f)
    place, push = found.places[0], found.forces[0]
    assert_allclose(found.forces[1], -push, rtol=1e-14)
    explicit = flank(model, q, found.bodies, place, push / np.linalg.norm(push))
    other = pp.System(model, [explicit])
    assert_allclose(pp.forward_dynamics(other, q, rest, tau), motion.vdot, atol=1e-9)
    reactions = pp.joint_reactions(system, q, rest, tau).joints
    assert_allclose(reactions, pp.joint_reactions(other, q, rest, tau).joints, atol=1e-9)
    tilted = push + 0.1 * np.linalg.norm(push) * np.array([0.3, 0.5, 0.4])  # the twin
    wrong = pp.System(model, [flank(model, q, found.bodies, place, tilted)])
    assert abs(pp.joint_reactions(wrong, q, rest, tau).joints - reactions).max() > 1e-2
    return motion, push, place


@pytest.mark.parametrize(("axes", "places", "teeth"), [
    (((0, 0, 1), (1, 0, 0)), ((0.3, 0, -0.1), (0.4, 0, 0)), (16, 32)),
    (((0, 0, -1), (1, 0, 0)), ((0.3, 0, 0.2), (0.1, 0, 0)), (32, 16)),
    (((0, 0, 1), (0.6, 0, 0.8)), ((0.3, 0, 0.1), (0.6, 0, 0.4)), (20, 30)),
    (((0, 0, 1), (0.6, 0, -0.8)), ((0.3, 0, 0.1), (0.6, 0, -0.4)), (20, 25)),
])  # fmt: skip
def test_bevel_wheels_push_and_thrust_as_flanks_do(axes, places, teeth):
    model = on_carrier(*zip(map(turning, axes), places, strict=True))
    module = 0.004
    gear = c.Gear(
        name="bevel", driver="w0", driven="w1", teeth=teeth, module=module, pressure_angle=ANGLE
    )
    q, tau = np.array([0.3, 0.0, 0.0]), np.array([0.5, 3.0, -1.0])
    motion, push, place = same_as_flanks(model, gear, q, tau)
    # the formulas of handbooks, by the cone angles
    X = pp.poses(model, q)[0]
    apex = X[:3, :3] @ [0.3, 0, 0] + X[:3, 3]
    share = np.abs(pp.System(model, [gear]).jacobian(q)[0, 1:])
    outward = [X[:3, :3] @ np.subtract(p, (0.3, 0, 0)) for p in places]
    outward = [x / np.linalg.norm(x) for x in outward]
    for k, (u, z) in enumerate(zip(outward, teeth, strict=True)):
        radius = np.linalg.norm(np.cross(u, place - apex))
        assert_allclose(radius, 0.5 * module * z, rtol=1e-12)
        delta = np.arccos(u @ (place - apex) / np.linalg.norm(place - apex))
        F_t = abs(motion.f[0]) * share[k] / radius
        own = push if k == 0 else -push
        inward = np.cross(u, np.cross(u, place - apex)) / radius
        assert_allclose(own @ u, F_t * np.tan(ANGLE) * np.sin(delta), rtol=1e-10)
        assert_allclose(own @ inward, F_t * np.tan(ANGLE) * np.cos(delta), rtol=1e-10, atol=1e-10)
        assert_allclose(np.linalg.norm(push), F_t / np.cos(ANGLE), rtol=1e-10)


def test_bevel_teeth_give_the_sense_that_cones_roll_with():
    """Where the cones touch, both wheels have one velocity; with the other sense they have not."""
    model = on_carrier((turning((0, 0, 1)), (0.3, 0, -0.1)), (turning((1, 0, 0)), (0.4, 0, 0)))
    gear = c.Gear(name="bevel", driver="w0", driven="w1", teeth=(16, 32))
    ratio = -gear.relations(model)["mesh"]["w1"]
    assert abs(ratio) == 2
    line = np.array([1, 0, -2]) / np.sqrt(5)  # from the apex; tan δ₁ = 16 / 32
    velocities = [np.cross(w, line) for w in (ratio * np.array([0, 0, 1.0]), np.array([1.0, 0, 0]))]
    assert_allclose(velocities[0], velocities[1], atol=1e-12)
    assert abs(np.cross([0, 0, -ratio], line) - velocities[1]).max() > 0.5


@pytest.mark.parametrize("internal", [False, True])
def test_spur_wheels_push_as_flanks_do(internal):
    distance = 0.06 if internal else 0.14
    model = on_carrier((turning((0, 0, 1)), (0, 0, 0)), (turning((0, 0, -1)), (distance, 0, 0.05)))
    gear = c.Gear(name="spur", driver="w0", driven="w1", teeth=(20, 50), internal=internal,
                  module=0.004, pressure_angle=ANGLE)  # fmt: skip
    same_as_flanks(model, gear, np.array([0.3, 0, 0]), np.array([0.5, -3.0, 1.0]))


def test_racks_push_as_flanks_do():
    model = on_carrier(
        (turning((0, 0, 1)), (0, 0.1, 0)), (pp.joints.Prismatic((1, 0, 0)), (0, 0, 0))
    )
    gear = c.RackPinion(name="rack", pinion="w0", rack="w1", radius=-0.03, pressure_angle=ANGLE)
    same_as_flanks(model, gear, np.array([0.3, 0, 0]), np.array([0.5, -3.0, 10.0]))


PULLEYS = {
    "open": (((0, 0), (0.5, 0.1)), (0.05, 0.12), ()),
    "crossed": (((0, 0), (0.5, 0.1)), (0.05, -0.12), (1,)),
    "with a back": (((0, 0), (0.5, 0.1), (0.3, 0.6), (0.1, 0.35)), (0.05, 0.1, 0.07, -0.04), (2,)),
    "clockwise": (((0, 0), (0.3, 0.6), (0.5, 0.1)), (0.05, 0.07, 0.1), (0,)),
}


def belt_model(places, turned):
    down = [turning((0, 0, -1 if i in turned else 1)) for i in range(len(places))]
    return on_carrier(*((down[i], (*p, 0.02 * i)) for i, p in enumerate(places)))


@pytest.mark.parametrize("kind", PULLEYS)
def test_a_belt_with_a_loose_side_pulls_as_rods_along_its_spans(kind):
    """Rods between the points where the spans touch, without the loosest span, at rest."""
    places, radii, turned = PULLEYS[kind]
    model, n = belt_model(places, turned), len(places)
    names = [f"w{i}" for i in range(n)]
    belt = c.Belt(name="belt", pulleys=names, radii=radii, slack_tension=0.0)
    system, rest = pp.System(model, [belt]), np.zeros(model.nv)
    q = np.zeros(model.nv)
    q[0] = 0.3
    for sign in (1, -1):
        tau = sign * np.array([0.5, 3.0, -1.0, 0.7, 0.4])[: model.nv]
        motion = pp.forward_dynamics(system, q, rest, tau, return_multipliers=True)
        poses = pp.poses(model, q)
        found = belt.transmitted(system, poses, motion.f)
        tensions = np.linalg.norm(found.forces, axis=-1).reshape(n, 2)
        assert_allclose(tensions[:, 0], tensions[:, 1], atol=1e-12)
        assert tensions.min() < 1e-9 and tensions.max() > 1
        rods = []
        for i in range(n):
            if i == np.argmin(tensions[:, 0]):
                continue
            ends = []
            for k in (2 * i, 2 * i + 1):
                X = poses[model.body_index(found.bodies[k])]
                ends.append((found.bodies[k], X[:3, :3].T @ (found.places[k] - X[:3, 3])))
            length = float(np.linalg.norm(found.places[2 * i + 1] - found.places[2 * i]))
            rods.append(c.Distance(length, name=f"rod{i}", a=ends[0], b=ends[1]))
        other = pp.System(model, rods)
        assert_allclose(pp.forward_dynamics(other, q, rest, tau), motion.vdot, atol=1e-9)
        reactions = pp.joint_reactions(system, q, rest, tau).joints
        assert_allclose(reactions, pp.joint_reactions(other, q, rest, tau).joints, atol=1e-9)
    plain = pp.System(model, [c.Belt(name="belt", pulleys=names, radii=radii)])  # the twin
    twin = pp.joint_reactions(plain, q, rest, tau).joints
    assert_allclose(twin[0], reactions[0], atol=1e-9)  # the carrier is held alike
    assert abs(twin[1:] - reactions[1:]).max() > 1.0


@pytest.mark.parametrize("kind", PULLEYS)
def test_a_belt_that_rests_pulls_towards_less_length(kind):
    """Tension times the change of the belt's length with the place of a pulley."""
    places, radii, turned = PULLEYS[kind]
    model = belt_model(places, turned).with_gravity((0, 0, 0))
    names = [f"w{i}" for i in range(len(places))]
    belt = c.Belt(name="belt", pulleys=names, radii=radii, tension=70.0)
    system, rest = pp.System(model, [belt]), np.zeros(model.nv)
    found = belt.transmitted(system, pp.poses(model, rest), np.zeros(system.n_rows))

    def length(at):
        path = belt_path(at, np.array(radii), belt_spans(at, np.array(radii)))
        return np.linalg.norm(np.roll(path, -1, axis=0) - path, axis=1).sum()

    at = np.array(places)
    for i, name in enumerate(names):
        pull = sum(f for b, f in zip(found.bodies, found.forces, strict=True) if b == name)
        for axis in range(2):
            step = np.zeros_like(at)
            step[i, axis] = 1e-5
            slope = (length(at + step) - length(at - step)) / 2e-5
            assert_allclose(pull[axis], -70.0 * slope, atol=0.05)
        held = pp.joint_reactions(system, rest, rest, rest).joints[model.body_index(name), 3:]
        assert_allclose(held, -pull, atol=1e-10)
    assert_allclose(sum(found.forces), 0, atol=1e-12)


LIFTED = {
    # over a pulley that the others keep the belt from, in front and at the back
    "front": (((0, 0), (1, 0.2), (2, 0), (1, 2)), (0.1, 0.05, 0.1, 0.1), (0.1, -0.05, 0.1, 0.1)),
    "back": (((0, 0), (1, -0.3), (2, 0), (1, 2)), (0.1, -0.05, 0.1, 0.1), (0.1, 0.05, 0.1, 0.1)),
    "reversed": (((0, 0), (0.5, 0.1), (0.3, 0.6)), (-0.05, -0.1, -0.07), (0.05, 0.1, 0.07)),
}


@pytest.mark.parametrize("kind", LIFTED)
def test_a_belt_does_not_pull_a_pulley_that_it_does_not_touch(kind):
    places, radii, right = LIFTED[kind]
    model, names = belt_model(places, ()), [f"w{i}" for i in range(len(places))]
    belt = {"name": "belt", "pulleys": names, "tension": 10.0}
    with pytest.raises(ModelError, match=r"Belt 'belt'.*does not press on pulley") as error:
        pp.System(model, [c.Belt(radii=radii, **belt)])
    assert f"    radii={right}" in str(error.value)
    (force,) = c.Belt(radii=right, **belt).shaft_forces(model)
    # at rest every pulley is pushed by the arc it carries, towards the belt's inside or outside
    pulls = force.along.reshape(-1, 2, 3)
    sums = pulls[:, 0] + np.roll(pulls[:, 1], 1, axis=0)
    middle = 0.5 * (force.places[::2] + np.roll(force.places[1::2], 1, axis=0))
    centres = np.array([(*p, 0.0) for p in places])
    assert (np.sum(sums * (centres - middle), axis=1) > 0).all()
    pp.System(model, [c.Belt(name="belt", pulleys=names, radii=radii)])  # efforts only


def test_rounding_does_not_choose_the_side_of_pulleys_in_a_line():
    centres, radii = np.array([(0, 0), (0.3, 0.1), (0.9, 0.3)]), np.array([0.05, 0.08, 0.06])
    sides = [belt_spans(centres + [(0, 0), (0, x), (0, 0)], radii) for x in (-1e-15, 0.0, 1e-15)]
    for side in sides:
        assert side is not None and side.turn == 1.0
    above = belt_spans(centres + [(0, 0), (0, 1e-3), (0, 0)], radii)  # the twin
    assert above is not None and above.turn == -1.0


def test_tensions_keep_their_mean_and_never_push():
    """T₁ − T₂ = torque / r and T₁ + T₂ = 2 T, for any batch."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, x in (("motor", 0.0), ("drum", 0.5)):
        b.add_body(name, placement=pp.Pose(None, (x, 0, 0)), inertia=WHEEL)
    belt = c.Belt(name="belt", pulleys=("motor", "drum"), radii=(0.1, 0.1), tension=40.0)
    system = pp.System(b.build(), [belt])
    tau = np.array([[3.0, -3.0], [-3.0, 3.0], [0, 0]])
    q = v = np.zeros((3, 2))
    motion = pp.forward_dynamics(system, q, v, tau, return_multipliers=True)
    found = belt.transmitted(system, pp.poses(system, q), motion.f)
    tensions = np.linalg.norm(found.forces, axis=-1)[:, ::2]
    assert_allclose(np.sort(tensions), [[25, 55], [25, 55], [40, 40]], rtol=1e-12)
    shafts = pp.joint_reactions(system, q, v, tau).joints
    assert_allclose(shafts[:, 0, 3], -80, rtol=1e-12)  # the motor is held against both spans
    assert_allclose(shafts[:, 1, 3], 80, rtol=1e-12)
    assert_allclose(shafts[..., 2], tau, atol=1e-12)
    with pytest.raises(InputError, match=r"Belt 'belt'.*slack: -10 N.*\n    tension=50\n"):
        pp.joint_reactions(system, q[0], v[0], [10.0, -10.0])
    for torque in (10.0, 3.4567891):  # what an error asks for is enough
        with pytest.raises(InputError, match="cannot push") as error:
            wanted = replace(belt, tension=1.0)
            pp.joint_reactions(pp.System(b.build(), [wanted]), q[0], v[0], [torque, -torque])
        needed = float(re.search(r"tension=([\d.]+)\n", str(error.value))[1])
        assert_allclose(needed, torque / 0.2, rtol=1e-3)
        pp.joint_reactions(
            pp.System(b.build(), [replace(belt, tension=needed)]), q[0], v[0], [torque, -torque]
        )


def test_without_geometry_the_error_has_the_line():
    model = on_carrier((turning((0, 0, 1)), (0, 0, 0)), (turning((0, 0, 1)), (0.14, 0, 0)))
    both = {"driver": "w0", "driven": "w1"}
    belt = {"name": "belt", "pulleys": ("w0", "w1"), "radii": (0.02, 0.03)}
    cases = [
        (c.Gear(name="g", **both, teeth=(20, 50)),
         r"teeth=\(20, 50\), module=0\.004, pressure_angle=np\.deg2rad\(20\)"),
        (c.Gear(name="g", **both, ratio=3.0), r"teeth=\(20, 60\), internal=True, module=0\.007"),
        (c.Belt(**belt), "tension=200"),
        (c.Coupling(name="x", joints=("w0", "w1"), coefficients=(1, 2)), "stands for any"),
    ]  # fmt: skip
    for one, text in cases:
        system = pp.System(model, [one])
        with pytest.raises(ModelError, match=text):
            one.transmitted(system, pp.poses(system, np.zeros(3)), np.zeros(1))
    given = c.Gear(name="g", **both, teeth=(20, 50), module=0.004, pressure_angle=np.deg2rad(20))
    system = pp.System(model, [given])
    assert given.transmitted(system, pp.poses(system, np.zeros(3)), np.zeros(1)).bodies == (
        "w0",
        "w1",
    )
    with pytest.raises(ModelError, match="not a constraint of this system"):
        cases[2][0].transmitted(system, pp.poses(system, np.zeros(3)), np.zeros(1))
    with pytest.raises(InputError, match=r"pp\.poses\(system, q\)"):
        given.transmitted(system, np.zeros((2, 4, 4)), np.zeros(1))
    for wrong, text in (
        ({"tension": 1.0, "slack_tension": 0.0}, "either"), ({"tension": -3.0}, "newtons"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=text):
            c.Belt(**belt, **wrong)
    with pytest.raises(ModelError, match="inside another"):
        pp.System(model, [c.Belt(name="b", pulleys=("w0", "w1"), radii=(0.02, 0.3), tension=1.0)])


def test_bevel_wheels_that_say_nothing_of_their_sense():
    both = {"name": "g", "driver": "w0", "driven": "w1", "teeth": (16, 32)}
    cases = [
        (((0, 0, 1), (1, 0, 0)), ((0.3, 0, 0), (0.4, 0, 0)), {}, r"Move its placement.*ratio=±2"),
        (((0, 0, 1), (1, 0, 0)), ((0.3, 0.1, -0.1), (0.4, 0, 0)), {}, r"miss each other by 0\.1 m"),
        (((0, 0, 1), (0.6, 0, 0.8)), ((0.3, 0, -0.1), (0.6, 0, 0.4)), {"teeth": (50, 32)},
         "teeth inside"),
        (((0, 0, 1), (1, 0, 0)), ((0.3, 0, -0.1), (0.4, 0, 0)), {"internal": True},
         "Remove internal=True"),
    ]  # fmt: skip
    for axes, places, more, text in cases:
        model = on_carrier(*zip(map(turning, axes), places, strict=True))
        with pytest.raises(ModelError, match=text):
            pp.System(model, [c.Gear(**{**both, **more})])
