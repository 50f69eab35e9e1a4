"""What mechanisms look like: bars between joints, round wheels, gears with teeth, plane views."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.core.spatial import quat_to_matrix
from phipsi.pages.machine_parts import machines_of
from phipsi.pages.plane_view import looks_along, plane_normal
from phipsi.pages.scene import scene_description
from phipsi.pages.shapes_and_colors import solids_of

Z = pp.joints.Revolute((0, 0, 1))


def one_body(inertia, joint=Z, **more):
    b = pp.ModelBuilder()
    b.add_body("body", joint=joint, inertia=inertia, **more)
    return b.build()


def gear_train(*teeth):
    """Wheels beside each other, each in mesh with the next."""
    b, x, gears = pp.ModelBuilder(), 0.0, []
    for i, z in enumerate(teeth):
        x += 0 if i == 0 else 0.005 * (teeth[i - 1] + z)
        inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.01, 0.01, 0.02))
        b.add_body(f"w{i}", joint=Z, placement=pp.Pose(None, (x, 0, 0)), inertia=inertia)
        if i:
            pair = {"driver": f"w{i - 1}", "driven": f"w{i}", "teeth": (teeth[i - 1], z)}
            gears.append(pp.constraints.Gear(name=f"g{i}", **pair))
    return pp.System(b.build(), gears)


def planets():
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.01, 0.01, 0.02))
    for name in ("sun", "ring", "arm"):
        b.add_body(name, joint=Z, inertia=inertia)
    place = pp.Pose(None, (0.1, 0, 0))
    b.add_body("planet", parent="arm", joint=Z, placement=place, inertia=inertia)
    shafts = {"sun": "sun", "ring": "ring", "carrier": "arm", "planet": "planet"}
    return pp.System(b.build(), [pp.constraints.Planetary(name="gear", teeth=(20, 60), **shafts)])


def parts_in_world(system, q):
    """Poses (4, 4) and packed meshes of the solids of machine elements."""
    scene, X = scene_description(system, q=q), pp.poses(system, q)
    out = []
    for part in scene["parts"]:
        turn = pp.Pose(quat_to_matrix(np.array(part["rotation"])), part["position"]).matrix
        at = np.eye(4) if part["body"] < 0 else X[part["body"]]
        out.append((at @ turn, scene["meshes"][part["mesh"]]))
    return out


# ---- bars ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("thick", [1e-4, 0.05, 0.4])
def test_bars_are_slim_whatever_the_inertia(thick):
    """A link from its joint to its tip, with the same bar for any moment about it."""
    inertia = pp.SpatialInertia(1.0, (0.5, 0, 0), (thick, 0.5, 0.5))
    b = pp.ModelBuilder()
    b.add_body("body", joint=Z, inertia=inertia)
    b.add_frame("tip", "body", pp.Pose(None, (1.0, 0, 0)))
    solids = solids_of(b.build())
    (bar,) = [x for x in solids if x.mesh == "box"]
    assert_allclose(bar.position, [0.5, 0, 0], atol=1e-12)
    assert_allclose(bar.scale[0], 0.5)
    assert max(x.scale[1] for x in solids) < 0.1


def test_bars_end_where_the_mass_ends():
    """A thin rod is as long as it is; a point mass is a sphere at the end of its bar."""
    rod = one_body(pp.SpatialInertia(1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12)))
    (bar,) = [x for x in solids_of(rod) if x.mesh == "box"]
    assert_allclose(bar.scale[0], 0.5)
    bob = one_body(pp.SpatialInertia(1.0, (0.5, 0, 0), 1e-9))
    solids = solids_of(bob)
    (bar,) = [x for x in solids if x.mesh == "box"]
    (ball,) = [x for x in solids if x.mesh == "sphere"]
    assert_allclose([2 * bar.scale[0], ball.position[0]], 0.5, rtol=1e-3)


def test_a_slider_has_a_rail_that_does_not_move():
    slide = pp.joints.Prismatic((1, 0, 0))
    inertia = pp.SpatialInertia(1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
    model = one_body(inertia, slide, limits=(-0.2, 0.6))
    (rail,) = [x for x in solids_of(model) if x.body == -1]
    reach = np.abs(rail.rotation[0, 2]) * rail.scale[2]
    assert rail.position[0] - reach < -0.2 and rail.position[0] + reach > 0.6


def test_shapes_of_files_are_as_they_are():
    inertia = pp.SpatialInertia(1.0, (0.5, 0, 0), (0.1, 0.1, 0.1))
    b = pp.ModelBuilder()
    b.add_body("body", joint=Z, inertia=inertia)
    b.add_shape("skin", "body", pp.shapes.Cylinder(0.2, 0.1))
    (solid,) = solids_of(b.build())
    assert solid.mesh == "cylinder" and solid.scale == pytest.approx((0.2, 0.2, 0.05))


# ---- wheels --------------------------------------------------------------------------------------


def test_wheels_are_round():
    """The inertia of a cylinder that turns about its axis is that cylinder, not a box."""
    solids = solids_of(one_body(pp.SpatialInertia.cylinder(0.3, 0.1, mass=2.0)))
    rim = max(solids, key=lambda x: x.scale[0])
    assert rim.mesh == "cylinder"
    assert_allclose(rim.scale, (0.3, 0.3, 0.05), rtol=1e-9)
    (spoke,) = [x for x in solids if x.mesh == "box"]  # shows that it turns
    assert spoke.scale[2] > rim.scale[2] and spoke.position[0] > 0


@pytest.mark.parametrize("moments", [(0.01, 0.02, 0.02), (0.03, 0.02, 0.04)])
def test_other_bodies_are_boxes(moments):
    (box,) = solids_of(one_body(pp.SpatialInertia(1.0, (0, 0, 0), moments)))
    assert box.mesh == "box"


@pytest.mark.parametrize("joint", [pp.joints.Free(), pp.joints.Planar(), pp.joints.Spherical()])
def test_discs_that_float_are_round(joint):
    """Whatever their axis; flat bodies without a symmetry, cubes and trunks are boxes."""
    turn = quat_to_matrix(np.array([0.5, 0.5, 0.5, 0.5]))
    disc = pp.SpatialInertia.cylinder(0.3, 0.06, mass=2.0)
    tilted = pp.SpatialInertia(2.0, (0, 0, 0), turn @ disc.moment_about_com_B @ turn.T)
    for inertia, axis in ((disc, (0, 0, 1)), (tilted, turn[:, 2])):
        rim, hub, spoke = solids_of(one_body(inertia, joint))
        assert (rim.mesh, hub.mesh, spoke.mesh) == ("cylinder", "cylinder", "box")
        assert_allclose(rim.scale, (0.3, 0.3, 0.03), rtol=1e-9)
        assert_allclose(np.abs(rim.rotation[:, 2]), axis, atol=1e-12)
    for edges in ((0.3, 0.2, 0.02), (0.2, 0.2, 0.2), (0.2, 0.2, 0.4)):
        (box,) = solids_of(one_body(pp.SpatialInertia.box(edges, mass=1.0), joint))
        assert box.mesh == "box"
        assert_allclose(sorted(box.scale), np.sort(edges) / 2, rtol=1e-6)


# ---- gears ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("locked", [0, 2])
def test_gears_keep_their_teeth_when_a_joint_is_locked(locked):
    system = gear_train(20, 40, 30)
    q, _ = system.project([0.3, -0.15, 0.2], np.zeros(3))
    held = system.with_locked(f"w{locked}", q)
    before = parts_in_world(system, q)
    after = parts_in_world(held, np.delete(q, locked))
    assert len(before) == len(after) == 3
    for (X, mesh), (Y, same) in zip(before, after, strict=True):
        assert_allclose(X, Y, atol=1e-6)  # scenes are rounded
        assert mesh == same
    names = [x["text"] for x in scene_description(held)["machines"]]
    assert sum(f"; locked: w{locked}" in x for x in names) == 1


def test_a_planetary_gear_keeps_its_teeth_when_joints_are_locked_one_after_another():
    system = planets()
    q, _ = system.project([0.3, 0.2, 0.1, 0.0], np.zeros(4))
    left = q
    held = system
    before = parts_in_world(system, q)
    for name in ("ring", "sun"):
        at = held.model.q_slice(name)
        held, left = held.with_locked(name, left), np.delete(left, at)
        after = parts_in_world(held, left)
        for (X, mesh), (Y, same) in zip(before, after, strict=True):
            assert_allclose(X, Y, atol=1e-6)  # scenes are rounded
            assert mesh == same
    assert repr(held.constraints[0]).startswith("<Planetary 'gear'")
    assert "Planetary" in held.summary(left) and "PartlyLocked" not in held.summary(left)


def test_a_cam_keeps_its_outline_when_a_joint_is_locked():
    """On the bodies that are left, joint after joint; its relation is that of the rest."""
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), 0.01)
    b.add_body("shaft", joint=Z, inertia=inertia)
    slide = pp.joints.Prismatic((1, 0, 0))
    b.add_body("rod", joint=slide, inertia=inertia, placement=pp.Pose(None, (0.1, 0, 0)))
    law = lambda a, x: x - 0.02 * np.cos(a)  # noqa: E731
    system = pp.System(b.build(), [pp.constraints.Cam(law, name="cam", joints=("shaft", "rod"))])
    q, _ = system.project([0.4, 0.0], np.zeros(2))
    before = parts_in_world(system, q)
    assert len(before) == 2
    for i, name in enumerate(("shaft", "rod")):
        held = system.with_locked(name, q)
        left = np.delete(q, i)
        (cam,) = held.constraints
        again = pickle.loads(pickle.dumps(cam))  # noqa: S301
        for other in (cam, cam.fitted(held.model, left), again):
            one = pp.System(held.model, [other])
            after = parts_in_world(one, left)
            for (X, mesh), (Y, same) in zip(before, after, strict=True):
                assert_allclose(X, Y, atol=1e-6)  # scenes are rounded
                assert mesh == same
            (said,) = [x for x in scene_description(one)["machines"]]
            assert said["kind"] == "cam" and said["text"].endswith(f"; locked: {name}")


def test_a_wheel_in_two_meshes_is_drawn_once():
    """And the wheel beyond it is turned such that its teeth are in the gaps of the drawn one."""
    system = gear_train(20, 33, 20)
    parts = [x for one in machines_of(system.model, system.constraints) for x in one.parts]
    assert [x.body for x in parts] == [0, 1, 2]

    def above_pitch(part, direction, teeth):
        """Whether the outline is a tooth (+) or a gap (−) in a direction of the plane."""
        points = part.surface[0] @ part.pose.rotation.T
        near = np.abs(np.angle(np.exp(1j * (np.arctan2(points[:, 1], points[:, 0]) - direction))))
        rim = np.hypot(points[:, 0], points[:, 1]) > 0.5 * 0.005 * teeth
        at = rim & (near <= near[rim].min() + 1e-6)
        return np.sign(np.hypot(points[at, 0], points[at, 1]).mean() - 0.005 * teeth)

    # a tooth points to the large wheel, which has a gap there; and half a pitch on, beyond it
    assert above_pitch(parts[0], 0.0, 20) == -above_pitch(parts[1], np.pi, 33)
    assert above_pitch(parts[1], 0.0, 33) == -above_pitch(parts[2], np.pi, 20)


# ---- the plane -----------------------------------------------------------------------------------


def test_planar_mechanisms_open_in_their_plane():
    arm = pp.examples.planar_arm(3)
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    for mechanism in (arm, pp.System(arm, [pin])):
        assert_allclose(plane_normal(mechanism.model), [0, 0, 1])
        turn, tilt = scene_description(mechanism)["look"]
        assert_allclose([turn, tilt], [-np.pi / 2, 0], atol=1e-5)  # x right, y up
    assert scene_description(gear_train(20, 40))["look"] == pytest.approx(
        [-np.pi / 2, np.pi / 2], abs=1e-5
    )


@pytest.mark.parametrize("name", ["seven_joint_arm", "free_flyer", "quadruped"])
def test_spatial_mechanisms_have_no_plane(name):
    model = getattr(pp.examples, name)()
    assert plane_normal(model) is None and scene_description(model)["look"] is None


def test_slides_across_the_normal_are_in_the_plane():
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.5, 0, 0), (0.1, 0.1, 0.1))
    b.add_body("cart", joint=pp.joints.Prismatic((1, 0, 0)), inertia=inertia)
    cart = b.build()
    b.add_body("pole", parent="cart", joint=pp.joints.Revolute((0, 1, 0)), inertia=inertia)
    assert plane_normal(cart) is None  # one direction is no plane
    assert_allclose(plane_normal(b.build()), [0, 1, 0])
    b.add_body("lift", parent="pole", joint=pp.joints.Prismatic((0, 1, 0)), inertia=inertia)
    assert plane_normal(b.build()) is None


def test_deep_mechanisms_are_seen_from_the_corner():
    """Four wheels of a car turn in planes; from the side two of them would hide the others."""
    y = np.array([0, 1.0, 0])
    assert looks_along(y, np.eye(3), np.array([1, 0.2, 0.3])) == pytest.approx((np.pi / 2, 0))
    assert looks_along(y, np.eye(3), np.array([1, 0.7, 0.3])) is None


def test_posts_stand_behind_the_plane():
    """They do not cover the links: behind, seen from where the camera is."""
    scene = scene_description(pp.examples.planar_arm(2))
    posts = [x for x in scene["solids"] if x["body"] == -1]
    assert posts and all(x["position"][2] - x["scale"][0] < 0 for x in posts)
    upright = [x for x in posts if x["scale"][2] > x["scale"][0]]
    assert upright[-1]["position"][2] < -0.04
