"""Gears, belts and cams on pages: teeth that mesh wherever they turn, belts that are tangent."""

import base64
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c
from phipsi.interfaces.page.machine_parts import machines_of
from phipsi.interfaces.page.machine_solids import belt_path
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
    assert len(scene["parts"]) == 4 and not any(x["body"] == 3 for x in scene["solids"])
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
