"""Gears, belts and cams on pages: teeth that mesh wherever they turn, belts that are tangent."""

import base64
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c
from phipsi.pages import machine_solids as solids
from phipsi.pages.machine_parts import machines_of
from phipsi.pages.machine_solids import belt_path
from phipsi.pages.recorded_scene import recorded_scene
from phipsi.pages.scene import scene_description
from phipsi.transmissions.belts import belt_spans


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


BELTS = {  # places and radii: counterclockwise, clockwise, crossed, a back, in one line
    "open": (((0, 0), (1.0, 0.2), (0.4, 0.9)), (0.3, 0.1, 0.15)),
    "clockwise": (((0, 0), (0.4, 0.9), (1.0, 0.2)), (0.3, 0.15, 0.1)),
    "crossed": (((0, 0), (1.0, 0)), (0.2, -0.3)),
    "back": (((0, 0), (0.5, 0.13), (1.0, 0)), (0.2, -0.1, 0.2)),
    "line": (((0, 0), (0.3, 0.1), (0.9, 0.3)), (0.1, -0.08, 0.1)),
}


@pytest.mark.parametrize("kind", BELTS)
def test_a_belt_lies_on_its_pulleys_and_is_straight_between_them(kind):
    centres, radii = (np.array(x, dtype=float) for x in BELTS[kind])
    spans = belt_spans(centres, radii)
    path = belt_path(centres, radii, spans)
    gaps = np.linalg.norm(path[:, None] - centres, axis=-1) - np.abs(radii)
    assert np.min(np.abs(gaps), axis=1).max() < 1e-12
    steps = np.roll(path, -1, axis=0) - path
    lengths = np.linalg.norm(steps, axis=1)
    for i in np.argsort(lengths)[-len(radii) :]:  # spans meet their arcs without a corner
        u, before = steps[i] / lengths[i], steps[i - 1] / lengths[i - 1]
        assert u @ before > 0.99
    names = [f"w{i}" for i in range(len(radii))]
    model = wheels(*centres).build()
    (machine,) = machines_of(model, [c.Belt(name="b", pulleys=names, radii=radii)])
    *wheel_parts, belt = machine.parts
    points, at = belt.surface[0][:, :2], np.array([p.pose.translation for p in wheel_parts[::2]])
    away = np.linalg.norm(points[:, None] - centres, axis=-1)
    for i, part in enumerate(wheel_parts[::2]):  # its inside, or its back, is on the rim
        rim = np.linalg.norm(part.surface[0][0, :2])
        assert_allclose(away[:, i].min(), rim, rtol=1e-9)
        assert_allclose(at[i], 0)
    twin = wheels(*(1.2 * centres)).build()
    (off,) = machines_of(twin, [c.Belt(name="b", pulleys=names, radii=radii)])
    moved = np.linalg.norm(off.parts[-1].surface[0][:, None, :2] - centres, axis=-1)
    assert abs(moved.min(axis=0)[1:] - away.min(axis=0)[1:]).max() > 0.01
    if kind != "crossed":
        assert volume(belt.surface) > 0


def test_belts_that_lie_nowhere_are_links():
    """A belt whose pulleys are all at its back is that in front; one that lifts off has no form."""
    places = ((0, 0), (0.5, 0.1), (0.3, 0.6))
    model, names = wheels(*places).build(), ("w0", "w1", "w2")
    both = [
        machines_of(
            model, [c.Belt(name="b", pulleys=names, radii=sign * np.array([5, 10, 7]) / 99)]
        )
        for sign in (1, -1)
    ]
    assert_allclose(*(x[0].parts[-1].surface[0] for x in both), atol=1e-15)
    far = wheels((0, 0), (1, 0.2), (2, 0), (1, 2)).build()
    lifted = c.Belt(name="b", pulleys=(*names, "w3"), radii=(0.1, 0.05, 0.1, 0.1))
    (machine,) = machines_of(far, [lifted])
    assert (
        not machine.parts
        and len(machine.ends) == 4
        and machine.text.endswith("the belt does not touch w1")
    )


def planets(turned, lifts, count=3, ring=True):
    """Sun, ring and arm on one line, planets on the arm; `lifts` are places along the axis."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    spin = {n: pp.joints.Revolute((0, 0, -1 if n in turned else 1)) for n in ("s", "r", "a", "p")}
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), 0.01)
    for name in ("s", "r", "a") if ring else ("s", "a"):
        where = pp.Pose(None, (0.1, 0.2, lifts.get(name, 0.0)))
        b.add_body(name, joint=spin[name], placement=where, inertia=inertia)
    for i in range(count):
        angle = 0.4 + 2 * np.pi * i / count
        where = pp.Pose(None, (0.2 * np.cos(angle), 0.2 * np.sin(angle), lifts.get("p", 0.0)))
        b.add_body(f"p{i}", parent="a", joint=spin["p"], placement=where, inertia=inertia)
    return b.build()


@pytest.mark.parametrize(("turned", "teeth", "offset", "ring"), [
    ("", (24, 60), 0.0, True), ("sp", (24, 60), (0.3, 0.8, -1.0, 2.0), True),
    ("ra", (21, 57), 0.7, True), ("p", (30, 66), 0.0, False),
])  # fmt: skip
def test_planets_mesh_with_sun_and_ring_wherever_they_turn(turned, teeth, offset, ring):
    lifts = {"s": 0.3, "r": -0.1, "a": 0.2, "p": 0.5}
    model, names = planets(turned, lifts, ring=ring), ("p0", "p1", "p2")
    gear = c.Planetary(
        name="g", sun="s", ring="r" if ring else None, carrier="a", planet=names, teeth=teeth,
        offset=offset,
    )  # fmt: skip
    rows = [f"planet {n}" for n in names]
    assert list(gear.relations(model)) == ["mesh", *rows]
    (machine,) = machines_of(model, [gear])
    z = [teeth[0], teeth[1], (teeth[1] - teeth[0]) // 2]
    module = 0.4 / (z[0] + z[2])
    count = {model.body_index("s"): z[0], **{model.body_index(n): z[2] for n in names}}
    count[model.body_index("r") if ring else -1] = z[1]
    toothed = {}
    for x in machine.parts:
        points = x.surface[0]
        for n in {len(points) // 4, (len(points) - 2) // 2}:
            if n == 4 * count.get(x.body, 0):
                toothed[x.body] = x
    assert set(toothed) == set(count)
    equations, right = zip(*gear.coordinates(model), strict=True)
    for seed in range(3):
        q = np.random.default_rng(seed).normal(size=model.nq)
        q -= np.linalg.pinv(equations) @ (np.array(equations) @ q - right)
        poses = pp.poses(model, q)
        centre = np.array([0.1, 0.2])
        heights = []

        def tooth(body, point, middle, poses=poses, heights=heights):
            """Turns, in teeth, from a point of the pitch circle to a tooth, counterclockwise."""
            part, X = toothed[body], np.eye(4) if body < 0 else poses[body]
            n = 4 * count[body]
            tips = part.surface[0][:n].reshape(-1, 4, 3)[0, 1:3].mean(axis=0) * [1, 1, 0]
            tip = X[:3, :3] @ (part.pose.rotation @ tips + part.pose.translation) + X[:3, 3]
            heights.append(tip[2])
            angles = [np.arctan2(*(x - middle)[::-1]) for x in (tip[:2], point)]
            return (angles[0] - angles[1]) * count[body] / (2 * np.pi)

        for name in names:
            k = model.body_index(name)
            at = poses[k][:2, 3]
            e = (at - centre) / np.linalg.norm(at - centre)
            near, far = centre + module * z[0] / 2 * e, centre + module * z[1] / 2 * e
            sun, hub = model.body_index("s"), model.body_index("r") if ring else -1
            assert_allclose((tooth(sun, near, centre) + tooth(k, near, at)) % 1, 0.5, atol=1e-9)
            assert_allclose((tooth(hub, far, centre) - tooth(k, far, at)) % 1, 0.5, atol=1e-9)
        assert_allclose(heights, 0.3, atol=1e-12)  # all in the plane of the sun
        poses[model.body_index("s")][:3, :3] = np.eye(3)  # the twin: a sun that does not turn
        assert abs((tooth(sun, near, centre) + tooth(k, near, at)) % 1 - 0.5) > 1e-3


def test_planets_that_cannot_be_drawn_are_links():
    """Shafts beside each other, or planets at several distances."""
    model, both = planets("", {}, 1), {"name": "g", "sun": "s", "carrier": "a", "teeth": (24, 60)}
    beside = model.with_body("r", placement=pp.Pose(None, (0.2, 0.2, 0)))
    for one, there, drawn in ((model, "r", True), (beside, "r", False), (beside, None, True)):
        (machine,) = machines_of(one, [c.Planetary(ring=there, planet=("p0",), **both)])
        assert bool(machine.parts) is drawn and bool(machine.ends) is not drawn
    two = planets("", {}, 2)
    two = two.with_body("p1", placement=pp.Pose(None, (-0.3, 0, 0)))
    (machine,) = machines_of(two, [c.Planetary(ring="r", planet=("p0", "p1"), **both)])
    assert not machine.parts and len(machine.ends) == 5


def test_wheels_stand_in_one_plane_a_rack_meets_its_tooth_and_a_nut_its_thread():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), 0.01)
    slide = pp.joints.Prismatic((1, 0, 0))
    for name, joint, place in (
        ("a", None, (0, 0, 0.1)), ("b", None, (0.3, 0, -0.2)), ("rack", slide, (0, 1, 0)),
        ("spindle", pp.joints.Revolute((-1, 0, 0)), (0, 2, 0)),
    ):  # fmt: skip
        more = {} if joint is None else {"joint": joint}
        b.add_body(name, placement=pp.Pose(None, place), inertia=inertia, **more)
    b.add_body(
        "nut",
        joint=slide,
        placement=pp.Pose(None, (0.9, 2, 0)),
        inertia=inertia,
        limits=(-0.1, 0.4),
    )
    model = b.build()
    listed = [
        c.Gear(name="g", driver="a", driven="b", teeth=(20, 40)),
        c.Belt(name="b", pulleys=("a", "b"), radii=(0.05, 0.1)),
        c.RackPinion(name="r", pinion="a", rack="rack", radius=-0.05, offset=0.004),
        c.Screw(name="s", spindle="spindle", nut="nut", lead=0.02),
    ]
    gear, belt, rack, screw = machines_of(model, listed)
    still = np.zeros(model.nq)
    for machine in (gear, belt):
        heights = [in_world(model, x, x.surface[0], still)[:, 2] for x in machine.parts]
        assert sum(abs(z.mean() - 0.1) < 1e-9 for z in heights) >= len(heights) - 1
        (shaft,) = [z for z in heights if np.ptp(z) > 0.2]  # from the plane to the joint's origin
        assert_allclose([shaft.min(), shaft.max()], [-0.2, 0.1], atol=1e-9)
    for angle in (0.0, 0.3):
        q = np.array([angle, 0, -0.05 * angle + 0.004, 0, 0])
        wheel, bar = (in_world(model, x, x.surface[0], q) for x in rack.parts)
        tips = wheel[:80].reshape(-1, 4, 3)[:, 1:3].mean(axis=1)[:, :2]
        tip = tips[np.argmax(tips[:, 1])]  # the rack is above: gaps at whole pitches of its middle
        pitch, middle = 2 * np.pi * 0.05 / 20, bar[:, 0].mean()
        place = 0.05 * np.arctan2(tip[0], tip[1])
        assert abs((place - middle) / pitch - round((place - middle) / pitch)) < 1e-9
    thread, nut = (in_world(model, x, x.surface[0], still)[:, 0] for x in screw.parts)
    assert thread.min() <= 0 and thread.min() <= nut.min() - 0.1 and thread.max() >= nut.max() + 0.4


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
    assert "its effort on this joint" in text
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
    z = [x.surface[0][:, 2] for x in machine.parts]
    bevels = [x for x, at in zip(machine.parts, z, strict=True) if at.min() > -at.max() + 1e-9]
    assert [x.body for x in bevels][:2] == [left, right] and len(bevels) == 4
    for q in (np.zeros(6), np.arange(6.0)):
        for part in bevels:  # the rims of a cone are similar about its apex
            points = in_world(model, part, part.surface[0], q)
            back, front = np.split(points, 2)
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
        assert_allclose(points[:, 1:].mean(axis=0), [0.8, 0.4], atol=1e-9)
        # on the joint's axis, behind the box that the body is drawn as
        assert part.body == -1 and points[:, 0].max() < -0.5 - np.sqrt(6 * 0.01) / 2 + 1e-9
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
    assert coil.text == "stiffness 20 per unit of 1 shaft − 1 link, backlash 0.01" and not coil.rows
    geared = c.Coupling(name="geared", joints=("rotor", "shaft"), coefficients=(1, -2))
    against = c.Coupling(name="against", joints=("wl", "wr"), coefficients=(1, -1))
    assert not any(x.parts for x in machines_of(model, [geared, against]))
    system = pp.System(model, [rigid])
    run = pp.simulate(system, np.zeros(6), [0, 0, 0, 1, 1, 0], 0.002, forces=[spring], rtol=1e-6)
    assert [x["kind"] for x in recorded_scene(run)["machines"]] == ["coupling", "elastic coupling"]
