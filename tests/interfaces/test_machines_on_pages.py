"""Gears, belts and cams on pages: teeth that mesh wherever they turn, belts that are tangent."""

import base64
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c
from phipsi.interfaces.page import machine_solids as solids
from phipsi.interfaces.page.machine_parts import machines_of
from phipsi.interfaces.page.machine_solids import belt_path
from phipsi.interfaces.page.recorded_scene import recorded_scene
from phipsi.interfaces.page.scene import scene_description


def wheels(*places, turned=()):
    """Wheels at places in the plane of x and y; those `turned` have their axis down."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for i, (x, y) in enumerate(places):
        axis = (0, 0, -1 if i in turned else 1)
        where = pp.Pose(None, (x, y, 0.0))
        inertia = pp.SpatialInertia(1.0, (0, 0, 0), 0.01)
        b.add_body(f"w{i}", joint=pp.joints.Revolute(axis), placement=where, inertia=inertia)
    return b


def teeth_of(model, part, q):
    """The middles of the tips of the teeth of a wheel or ring in the plane (n, 2), and its axis."""
    points, X = part.surface[0], pp.poses(model, q)[part.body]
    is_ring = abs(points[-1, :2]).max() > 1e-9  # plates end in the middles of their sides
    n = len(points) // 4 if is_ring else (len(points) - 2) // 2
    corners = points[:n].reshape(-1, 4, 3) * [1, 1, 0]
    tips = corners[:, 1:3].mean(axis=1) @ part.pose.rotation.T + part.pose.translation
    return (tips @ X[:3, :3].T + X[:3, 3])[:, :2], X[:2, 3]


def place_of_teeth(model, part, q, pitch_point, radius):
    """How far the nearest tooth is from the pitch point, counterclockwise about its wheel (m)."""
    tips, centre = teeth_of(model, part, q)
    angles = [np.arctan2(*(x - centre)[::-1]) for x in (*tips, pitch_point)]
    away = (np.array(angles[:-1]) - angles[-1] + np.pi) % (2 * np.pi) - np.pi
    return radius * away[np.argmin(np.abs(away))]


@pytest.mark.parametrize(("teeth", "internal", "turned"), [
    ((18, 45), False, ()), ((45, 18), False, (1,)), ((15, 40), True, ()), ((16, 41), True, (0,)),
])  # fmt: skip
def test_teeth_mesh_wherever_wheels_turn(teeth, internal, turned):
    """At the pitch point a tooth of one wheel is where the other has a gap."""
    distance, direction = 0.3, np.array([np.cos(1), np.sin(1)])
    model = wheels((0.1, 0.2), np.array([0.1, 0.2]) + distance * direction, turned=turned).build()
    total = abs(teeth[1] - teeth[0]) if internal else sum(teeth)
    r, s = (distance * z / total for z in teeth)
    pitch = 2 * np.pi * r / teeth[0]
    at = np.array([0.1, 0.2]) + r * direction * (-1 if internal and r < s else 1)
    for offset in (0.0, 0.13):
        gear = c.Gear(
            name="g", driver="w0", driven="w1", teeth=teeth, internal=internal, offset=offset
        )
        (machine,) = machines_of(model, [gear])
        a, b = machine.parts
        ratio = -gear.relations(model)["mesh"]["w1"]

        def gap(q, a=a, b=b):
            one = place_of_teeth(model, a, q, at, r)
            two = place_of_teeth(model, b, q, at, s)
            return ((one - two if internal else one + two) / pitch) % 1.0

        for angle in (0.0, 0.07, 1.3, -4.0):
            q = np.array([ratio * angle + offset, angle])
            assert_allclose(gap(q), 0.5, atol=1e-9)
        off = np.array([ratio * 0.3 + offset + np.pi / teeth[0], 0.3])  # the twin: half a pitch
        assert_allclose((gap(off) + 0.5) % 1.0, 0.5, atol=1e-9)


def test_a_belt_touches_its_pulleys_and_is_straight_between_them():
    centres, radii = np.array([[0, 0], [1.0, 0.2], [0.4, 0.9]]), np.array([0.3, 0.1, -0.15])
    path = belt_path(centres, radii)
    gaps = [
        np.linalg.norm(path - at, axis=1) - abs(r) for at, r in zip(centres, radii, strict=True)
    ]
    assert abs(np.min(np.abs(gaps), axis=0)).max() < 1e-12
    steps = np.roll(path, -1, axis=0) - path
    lengths = np.linalg.norm(steps, axis=1)
    for i in np.argsort(lengths)[-3:]:  # the three tangents meet their arcs without a corner
        u, before = steps[i] / lengths[i], steps[i - 1] / lengths[i - 1]
        assert u @ before > 0.99


def test_pages_name_machines_and_say_what_they_do(tmp_path):
    b = wheels((0, 0), (0.3, 0))
    b.add_body(
        "rod", joint=pp.joints.Prismatic((0, 1, 0)), placement=pp.Pose(None, (0.3, 0.3, 0)),
        inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.01),
    )  # fmt: skip
    b.add_clock()
    listed = [
        c.Gear(name="pair", driver="w0", driven="w1", teeth=(20, 40)),
        c.Cam(lambda a, y: y - 0.02 * np.cos(a), name="lobe", joints=("w1", "rod")),
        c.Motor(name="drive", joint="w0", angle=lambda t: 3 * t + 0 * t**2),
    ]
    system = pp.System(b.build(), listed)
    scene = scene_description(system)
    assert [x["name"] for x in scene["machines"]] == ["pair", "lobe", "drive"]
    assert "turns -2 times as fast as w1" in scene["machines"][0]["text"]
    assert {x["name"] for x in scene["loops"]} == {"pair", "lobe", "drive"}
    assert len(scene["parts"]) == 6 and not any(x["body"] == 3 for x in scene["solids"])
    q, v = system.project(system.neutral(), np.zeros(4))
    run = pp.simulate(system, q, v, 0.2, rtol=1e-6)
    file = tmp_path / "run.html"
    pp.report(run, file)
    text = file.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1].replace("\\u003c", "<"))
    assert "its effort here" in text
    pair, _, drive = data["scene"]["machines"]

    def numbers(x):
        found = np.frombuffer(base64.b64decode(x["efforts"]), "<f4")
        return found.reshape(-1, len(x["bodies"]))

    both, motor = numbers(pair), numbers(drive)
    assert_allclose(both[:, 1], 2 * both[:, 0], rtol=1e-5)  # a wheel twice as large
    assert_allclose(motor[:, 0], -both[:, 0], atol=1e-4)  # the drive turns the first at one rate


def volume(surface):
    """The signed volume of a closed surface, outside to the left; every edge has two sides."""
    points, triangles = surface
    edges = [tuple(e) for t in triangles.tolist() for e in zip(t, [*t[1:], t[0]], strict=True)]
    assert len(set(edges)) == len(edges) and {(b, a) for a, b in edges} == set(edges)
    a, b, c3 = (points[triangles[:, i]] for i in range(3))
    return float(np.sum(a * np.cross(b, c3)) / 6)


def test_solids_are_closed_with_their_outside_out():
    r, w, length = 0.3, 0.02, 0.5
    assert_allclose(
        volume(solids.bevel_wheel(r, 0, 0.1, 0.0)), np.pi / 3 * (r**3 - 0.2**3), rtol=0.01
    )
    assert volume(solids.bevel_wheel(r, 16, 0.1, 0.0)) > 0
    wire = np.hypot(2 * np.pi * r * 6, length)
    assert_allclose(volume(solids.coil(r, w, length, 6)), np.pi * w**2 * wire, rtol=0.15)
    assert_allclose(volume(solids.ring(r, 0.4, 0.1)), np.pi * (0.16 - r * r) * 0.1, rtol=0.01)


def axle():
    """Shafts along x: left, right and cage in line, and three more beside them."""
    b = pp.ModelBuilder()
    places = {"wl": (-0.5, 0), "wr": (0.5, 0), "cage": (0.1, 0), "rotor": (-0.5, 0.8),
              "shaft": (0.0, 0.8), "link": (0.5, 0.8)}  # fmt: skip
    for name, (x, y) in places.items():
        b.add_body(
            name, joint=pp.joints.Revolute((-1 if name == "wr" else 1, 0, 0)),
            placement=pp.Pose(None, (x, y, 0.4)), inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.01),
        )  # fmt: skip
    return b.build()


def in_world(model, part, points, q):
    X = pp.poses(model, q)[part.body] if part.body >= 0 else np.eye(4)
    fixed = points @ part.pose.rotation.T + part.pose.translation
    return fixed @ X[:3, :3].T + X[:3, 3]


def test_the_cones_of_a_differential_meet_in_one_point_wherever_it_turns():
    model = axle()
    one = c.Differential(name="axle", left="wl", right="wr", carrier="cage")
    (machine,) = machines_of(model, [one])
    left, right = (model.body_index(n) for n in ("wl", "wr"))
    bevels = [x for x in machine.parts if x.surface[0][:, 2].min() == 0]  # others: about z = 0
    assert [x.body for x in bevels][:2] == [left, right] and len(bevels) == 4
    for q in (np.zeros(6), np.arange(6.0)):
        for part in bevels:  # the rims of a cone are similar about its apex
            points = in_world(model, part, part.surface[0], q)
            n = (len(points) - 2) // 2
            back, front = points[:n], points[n : 2 * n]
            ratio = np.linalg.norm(front[0] - front[1]) / np.linalg.norm(back[0] - back[1])
            apex = (front - ratio * back) / (1 - ratio)
            assert_allclose(apex, np.broadcast_to([0, 0, 0.4], apex.shape), atol=1e-9)
    bodies = {x["body"] for x in scene_description(pp.System(model, [one]))["solids"]}
    assert {left, right} <= bodies and model.body_index("cage") not in bodies


def test_a_motor_stands_beside_its_joint_and_hides_nothing():
    model = axle()
    system = pp.System(model, [c.Motor(name="drive", joint="rotor", rate=2.0)])
    (machine,) = machines_of(model, system.constraints)
    for part in machine.parts:
        points = in_world(model, part, part.surface[0], np.zeros(6))
        assert part.body == -1 and points[:, 0].max() < -0.5  # behind the joint, on its axis
        assert_allclose(points[:, 1:].mean(axis=0), [0.8, 0.4], atol=1e-9)
    with_motor, without = scene_description(system), scene_description(model)
    assert len(with_motor["solids"]) == len(without["solids"])  # shapes and feet
    assert len(with_motor["parts"]) == len(machine.parts)


def test_shafts_that_turn_as_one_are_one_and_an_elastic_one_is_a_coil():
    model = axle()
    rigid = c.Coupling(name="rigid", joints=("rotor", "shaft"), coefficients=(1, -1))
    spring = pp.forces.ElasticCoupling(("shaft", "link"), (1, -1), stiffness=20.0, backlash=0.01)
    shaft, coil = machines_of(model, [rigid], [spring])
    for machine, ends in ((shaft, (-0.5, 0.0)), (coil, (0.0, 0.5))):
        points = in_world(model, machine.parts[0], machine.parts[0].surface[0], np.zeros(6))
        assert_allclose([points[:, 0].min(), points[:, 0].max()], ends, atol=0.02)
        assert_allclose(points[:, 1:].mean(axis=0), [0.8, 0.4], atol=0.02)
    assert coil.text == "20 per unit of 1 shaft − 1 link, 0.01 of backlash" and not coil.rows
    geared = c.Coupling(name="geared", joints=("rotor", "shaft"), coefficients=(1, -2))
    against = c.Coupling(name="against", joints=("wl", "wr"), coefficients=(1, -1))
    assert not any(x.parts for x in machines_of(model, [geared, against]))
    system = pp.System(model, [rigid])
    run = pp.simulate(system, np.zeros(6), [0, 0, 0, 1, 1, 0], 0.002, forces=[spring], rtol=1e-6)
    assert [x["kind"] for x in recorded_scene(run)["machines"]] == ["coupling", "elastic coupling"]
