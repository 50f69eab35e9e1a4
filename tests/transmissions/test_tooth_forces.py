"""Forces of teeth on shafts, and couplings by matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c
from phipsi.errors import ModelError

ANGLE = np.deg2rad(20)
TEETH, MODULE = (20, 50), 0.004
R1, R2 = (0.5 * MODULE * z for z in TEETH)


def pair(distance, axes=((0, 0, 1), (0, 0, 1)), carrier=False):
    """Two wheels, the second beside the first along x; with `carrier`, on a swinging body."""
    b, parent = pp.ModelBuilder(gravity=(0, -9.81, 0)), "world"
    if carrier:
        b.add_body("box", inertia=pp.SpatialInertia(3.0, (0.1, 0.2, 0), 0.2))
        parent = "box"
    for name, axis, x in zip(("small", "large"), axes, (0.0, distance), strict=True):
        inertia = pp.SpatialInertia(1.0, (0.01, 0, 0), 0.01)
        joint = pp.joints.Revolute(axis)
        where = pp.Pose(None, (x, 0, 0))
        b.add_body(name, parent=parent, joint=joint, placement=where, inertia=inertia)
    return b.build()


def spur(**more):
    both = {"driver": "small", "driven": "large", "teeth": TEETH}
    return c.Gear(name="mesh", **both, module=MODULE, pressure_angle=ANGLE, **more)


def test_a_gear_pair_at_rest_pushes_its_shafts_apart():
    """T / r along the pitch circle and T tan α / r apart, by statics."""
    system = pp.System(pair(R1 + R2).with_gravity((0, 0, 0)), [spur()])
    for torque in (3.0, -3.0):  # balanced by z₂/z₁ times as much at the other shaft
        tau = [torque, torque * R2 / R1]
        still = [0.0, 0.0], [0.0, 0.0]
        assert_allclose(pp.forward_dynamics(system, *still, tau), 0, atol=1e-12)
        found = pp.joint_reactions(system, *still, tau).joints
        # P is at +x of the small wheel; the large one resists at P along −y for torque > 0
        tooth = np.array([-abs(torque) * np.tan(ANGLE) / R1, -torque / R1, 0])
        assert_allclose(found[0, 3:], -tooth, atol=1e-10)
        assert_allclose(found[1, 3:], tooth, atol=1e-10)
        assert_allclose(found[:, 5 - 3], tau, atol=1e-12)  # efforts about the axes stay
        assert_allclose(np.linalg.norm(found[0, 3:]), 3.0 / R1 / np.cos(ANGLE), rtol=1e-12)


@pytest.mark.parametrize("internal", [False, True])
@pytest.mark.parametrize("swap", [False, True])
def test_moving_gears_have_the_reactions_of_forces_at_the_pitch_point(internal, swap):
    """The same motion without the gear, with the force of the teeth as external forces."""
    distance = R2 - R1 if internal else R1 + R2
    model = pair(distance, axes=((0, 0, 1), (0, 0, -1)), carrier=True)
    both = {"driver": "large", "driven": "small", "teeth": TEETH[::-1]} if swap else {
        "driver": "small", "driven": "large", "teeth": TEETH
    }  # fmt: skip
    gear = c.Gear(name="mesh", **both, internal=internal, module=MODULE, pressure_angle=ANGLE)
    system, rng = pp.System(model, [gear]), np.random.default_rng(3)
    q, v = system.project(rng.uniform(-1, 1, 3), rng.uniform(-3, 3, 3))
    tau = rng.uniform(-2, 2, 3)
    motion = pp.forward_dynamics(system, q, v, tau, return_multipliers=True)
    found = pp.joint_reactions(system, q, v, tau).joints
    poses = pp.poses(model, q)
    centre = poses[1:, :3, 3]
    towards = (centre[1] - centre[0]) / distance
    place = centre[0] + R1 * (-towards if internal else towards)
    axis = poses[1, :3, 2]
    share = {"small": 1.0, "large": 1.0}[gear.driver]
    ratio = system.jacobian(q)[0, 1] * share  # of the small wheel in the row
    tangent = -motion.f[0] * ratio / R1
    arm = (place - centre[0]) / R1
    push = tangent * np.cross(axis, arm) - abs(tangent) * np.tan(ANGLE) * arm
    f_ext = np.zeros((3, 6))
    for k, force in ((1, push), (2, -push)):
        R = poses[k, :3, :3].T
        f_ext[k] = np.concatenate([R @ np.cross(place - poses[k, :3, 3], force), R @ force])
    free = pp.joint_reactions(model, q, v, tau, f_ext).joints
    assert_allclose(pp.forward_dynamics(model, q, v, tau, f_ext), motion.vdot, atol=1e-9)
    assert_allclose(found, free, atol=1e-9)
    plain = c.Gear(name="mesh", **both, internal=internal)  # the twin: pure efforts
    twin = pp.joint_reactions(pp.System(model, [plain]), q, v, tau).joints
    assert_allclose(twin[0], free[0], atol=1e-9)  # the carrier is held alike
    assert abs(twin[1:] - free[1:]).max() > 1.0


@pytest.mark.parametrize("radius", [0.03, -0.03])
def test_a_rack_is_pushed_off_its_pinion(radius):
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), 0.01)
    b.add_body("pinion", inertia=inertia)
    b.add_body("rack", joint=pp.joints.Prismatic((1, 0, 0)), inertia=inertia)
    steering = c.RackPinion(
        name="rack", pinion="pinion", rack="rack", radius=radius, pressure_angle=ANGLE
    )
    system = pp.System(b.build(), [steering])
    q = [0.5, 0.5 * radius]
    tau = [0.6, -0.6 / radius]
    found = pp.joint_reactions(system, q, [0, 0], tau).joints
    assert_allclose(pp.forward_dynamics(system, q, [0, 0], tau), 0, atol=1e-12)
    side = -np.sign(radius)  # the rack is below the pinion: its lowest point moves along +x
    force = 0.6 / 0.03 * np.tan(ANGLE)
    R = pp.poses(system, q)[0, :3, :3]
    shaft = R @ found[0, 3:]
    assert_allclose(shaft, [0.6 / radius, side * force, 0], atol=1e-10)  # held towards the rack
    assert_allclose(found[1, 3:], [-0.6 / radius, -side * force, 0], atol=1e-10)
    moment = np.cross(
        [-q[1], side * 0.03, 0], -found[1, 3:]
    )  # of the tooth about the rack's origin
    assert_allclose(found[1, :3], -moment, atol=1e-10)


def test_a_matrix_of_coefficients_is_several_relations():
    """Two differentials in a row, as one matrix and as two constraints."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    names = ("cage", "left", "right", "front", "rear")
    for i, name in enumerate(names):
        b.add_body(name, inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.01 * (i + 1)))
    model, matrix = b.build(), [[-2, 1, 1, 0, 0], [0, 0, -2, 1, 1]]
    train = pp.System(model, [c.Coupling(name="train", joints=names, coefficients=matrix)])
    assert train.row_names == ("train.0", "train.1")
    two = [
        c.Differential(name="one", left="left", right="right", carrier="cage"),
        c.Differential(name="two", left="front", right="rear", carrier="right"),
    ]
    other, tau = pp.System(model, two), np.arange(5.0)
    still = np.zeros(5), np.zeros(5)
    assert_allclose(
        pp.forward_dynamics(train, *still, tau), pp.forward_dynamics(other, *still, tau), rtol=1e-12
    )
    held = train.with_locked(["rear", "cage"], np.array([0.3, 0, 0, 0, 0.5]))
    assert_allclose(held.jacobian(np.zeros(3)), [[1, 1, 0], [0, -2, 1]])
    assert_allclose(held.residual([0.6, 0, 0]), [0, 0.5], atol=1e-15)
    for bad, word in (([[1, 0, 0, 0, 0], [1, 0, 0, 0, 0]], "takes no part"),
                      ([[1, 1, 1, 1, 1], [2, 2, 2, 2, 2]], "linearly dependent")):  # fmt: skip
        with pytest.raises(ModelError, match=word):
            c.Coupling(name="train", joints=names, coefficients=bad)


def test_errors_name_the_gear_and_the_fix():
    with pytest.raises(ModelError, match=r"Gear 'mesh'.*0\.2 m apart.*0\.14"):
        pp.System(pair(0.2), [spur()])
    both = {"name": "mesh", "driver": "small", "driven": "large"}
    with pytest.raises(ModelError, match="all three"):
        c.Gear(**both, ratio=-2.0, module=MODULE, pressure_angle=ANGLE)
    with pytest.raises(ModelError, match="np.deg2rad"):
        c.Gear(**both, teeth=TEETH, module=MODULE, pressure_angle=20)
