"""Event-driven runs on the problems B1–B22 of theory/contact, whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contact_problems import G, Scene, about_y, bracket
from numpy.testing import assert_allclose

import phipsi as pp

pytestmark = pytest.mark.usefixtures("machine_code")  # runs take thousands of evaluations

SPHERE, BOX = pp.shapes.Sphere, pp.shapes.Box
TILT = np.radians(20)


def moved(scene: Scene, duration: float, **options: Any) -> pp.Trajectory:
    """The scene after a time, with a certificate that holds."""
    contacts = options.pop("contacts", {})
    gravity = options.pop("gravity", None)
    system, q, v = scene.system(**contacts)
    if gravity is not None:
        system = system.with_gravity(gravity)
    run = pp.simulate(system, q, v, duration, **options)
    proof: Any = run.contacts.certificate
    assert proof.overlap < 1e-9
    assert proof.residual < 1e-10 and proof.outside < 1e-7 and proof.gain <= 1e-12
    scale = 1.0 + np.abs(run.energy).max() + proof.dissipated
    assert proof.balance < 1e-8 * scale
    assert proof.dissipated > -1e-9 * scale
    return run


def happened(run: pp.Trajectory, name: str) -> list[Any]:
    return [e for e in run.events if e.name == name]


def block_on(tangent: float, friction: float, size=(0.2, 0.2, 0.1), v=(0, 0, 0)) -> Scene:
    scene = Scene(slope=np.arctan(tangent), friction=friction)
    scene.add("block", BOX(size), 1.0, (0, 0, size[2] / 2), v)
    return scene


@pytest.mark.parametrize(("friction", "stays"), [(0.5, True), (0.37, True), (0.3, False)])
def test_b1_a_block_on_a_slope(friction: float, stays: bool) -> None:
    scene = block_on(np.tan(TILT), friction)
    run = moved(scene, 1000.0 if stays else 1.0)
    away = scene.place(run.q[-1])[0]
    if stays:
        assert np.abs(run.q - run.q[0]).max() < 1e-12 and len(run) < 30
        assert_allclose(run.contacts["block|floor"].force[-1], [0, 0, G], atol=1e-13)
    else:
        assert away == pytest.approx(G / 2 * (np.sin(TILT) - friction * np.cos(TILT)), abs=1e-12)


def test_b2_sliding_stops_at_the_right_place() -> None:
    scene = block_on(np.tan(TILT), 0.5, v=(1.5, 0, 0))
    run = moved(scene, 2.0)
    slowing = G * (0.5 * np.cos(TILT) - np.sin(TILT))
    assert scene.place(run.q[-1])[0] == pytest.approx(1.5**2 / (2 * slowing), abs=1e-12)
    (stop,) = happened(run, "block|floor sticks")
    assert stop.t == pytest.approx(1.5 / slowing, abs=5e-9)
    assert np.abs(run.v[-1]).max() < 1e-12


def test_b3_a_sliding_ball_begins_to_roll() -> None:
    scene = Scene(friction=0.2)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), (1.0, 0, 0))
    run = moved(scene, 0.3)
    (stop,) = happened(run, "ball|floor sticks")
    rolling, place = 2 / (7 * 0.2 * G), 12 / (49 * 0.2 * G)
    assert stop.t == pytest.approx(rolling, abs=5e-9)
    assert stop.q[4] == pytest.approx(place, abs=1e-9)
    assert run.q[-1, 4] == pytest.approx(place + 5 / 7 * (0.3 - rolling), abs=1e-9)
    assert run.contacts.modes[0, 0] == 1 and run.contacts.modes[-1, 0] == 2
    assert_allclose(run.contacts.forces[0, 0, 3:], [-0.2 * G, 0, G], atol=1e-9)


@pytest.mark.parametrize("e", [0.5, 0.8])
def test_b4_a_bouncing_ball_comes_to_rest(e: float) -> None:
    scene = Scene(friction=0.5, restitution=e)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 1.1))
    end = np.sqrt(2 / G) * (1 + e) / (1 - e)
    run = moved(scene, end + 0.1)
    hits = happened(run, "ball|floor hits")
    for n, (one, other) in enumerate(zip(hits, hits[1:], strict=False)):
        assert other.t - one.t == pytest.approx(2 * e ** (n + 1) * np.sqrt(2 / G), abs=1e-11)
    # the last bounce is the last that is higher than 1e-10 m, of heights e²ⁿ
    assert len(hits) == np.ceil(np.log(1e-10) / np.log(e * e))
    (rest,) = happened(run, "ball|floor rests")
    assert rest.t == pytest.approx(end, abs=1e-11)
    assert abs(run.q[-1, 6] - 0.1) < 1e-12 and np.abs(run.v[-1]).max() < 1e-12
    assert run.contacts.certificate.dissipated == pytest.approx(G, abs=1e-8)


@pytest.mark.parametrize(("spacing", "speeds"), [(0.201, [0, 0, 0, 0, 1]), (0.2, [-1, 2, 2])])
def test_b5_balls_in_a_row(spacing: float, speeds: list[int]) -> None:
    scene = Scene(friction=0.0, restitution=1.0, floor=False)
    for i in range(len(speeds)):
        v = (1.0 if i == 0 else 0, 0, 0)
        scene.add(f"ball{i}", SPHERE(0.1), 1.0, (spacing * i, 0, 0), v)
    run = moved(scene, 0.05, gravity=(0, 0, 0))
    wanted = np.array(speeds) / (1 if spacing > 0.2 else 3)
    assert_allclose(run.v[-1].reshape(-1, 6)[:, 3], wanted, atol=1e-14)


@pytest.mark.parametrize(
    ("tangent", "friction", "what"),
    [(0.30, 0.5, "stays"), (0.36, 0.5, "tips"), (0.30, 0.25, "slides")],
)
def test_b8_a_box_stays_tips_or_slides(tangent: float, friction: float, what: str) -> None:
    b, h, angle = 0.05, 0.15, np.arctan(tangent)
    scene = block_on(tangent, friction, (2 * b, 0.1, 2 * h))
    run = moved(scene, 0.2)
    if what == "stays":
        assert np.abs(run.q[-1] - run.q[0]).max() < 1e-12
    elif what == "slides":
        wanted = 0.02 * G * (np.sin(angle) - friction * np.cos(angle))
        assert scene.place(run.q[-1])[0] == pytest.approx(wanted, abs=1e-9)
    else:  # about its lower edge, without loss
        turned = 2 * np.arccos(run.q[-1, :4] @ run.q[0, :4])
        lean, length = np.arctan2(b, h) - angle, np.hypot(b, h)
        height = length * (np.cos(lean) - np.cos(lean - turned))
        omega = np.sqrt(2 * G * height / (4 / 3 * length**2))
        assert run.v[-1, 1] == pytest.approx(omega, rel=1e-9)
        assert turned > 0.005


@pytest.mark.parametrize("friction", [0.15, 0.08])
def test_b9_a_ball_on_a_slope_rolls_or_slides(friction: float) -> None:
    scene = Scene(slope=TILT, friction=friction)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1))
    run = moved(scene, 0.5)
    speed, spin = scene.velocity(run.q[-1], run.v[-1])[0], run.v[-1, 1]
    rolls = 5 / 7 * G * np.sin(TILT), 50 / 7 * G * np.sin(TILT)
    slides = (
        G * (np.sin(TILT) - friction * np.cos(TILT)), 25 * friction * G * np.cos(TILT),
    )  # fmt: skip
    wanted = rolls if friction > 2 / 7 * np.tan(TILT) else slides
    assert (speed / 0.5, spin / 0.5) == pytest.approx(wanted, abs=1e-10)


def test_b10_a_ball_leaves_a_sphere() -> None:
    a, b, v0 = 0.05, 0.5, 0.3
    scene = Scene(friction=0.0, floor=False)
    scene.builder.add_shape("dome", "world", SPHERE(b), material=pp.Material(0.0))
    scene.add("ball", SPHERE(a), 1.0, (0, 0, a + b), (v0, 0, 0))
    run = moved(scene, 1.0)
    (off,) = (e for e in run.events if e.name.endswith("lifts off"))
    assert off.q[6] / (a + b) == pytest.approx(2 / 3 + v0**2 / (3 * G * (a + b)), abs=4e-13)


@pytest.mark.parametrize("force", [9.0, 30.0])
def test_b11_a_block_on_a_block_that_is_pulled(force: float) -> None:
    floor, upper = 0.2, 0.5
    scene = Scene(friction=floor)
    below, above = pp.Material(floor), pp.Material(upper**2 / floor)
    scene.add("lower", BOX((0.6, 0.4, 0.1)), 2.0, (0, 0, 0.05), material=below)
    scene.add("upper", BOX((0.1, 0.1, 0.1)), 1.0, (0, 0, 0.15), material=above)
    tau = np.zeros(12)
    tau[3], tau[1] = force, -force * 0.05  # at the height of the floor, so that nothing tips
    run = moved(
        scene, 0.1, controller=lambda t, q, v: tau, contacts={"exclude": [("upper", "floor")]}
    )
    speeds = [scene.velocity(run.q[-1], run.v[-1], i)[0] / 0.1 for i in range(2)]
    together = (force - floor * 3 * G) / 3
    wanted = [together, together]
    if together > upper * G:
        wanted = [(force - upper * G - floor * 3 * G) / 2, upper * G]
    assert_allclose(speeds, wanted, atol=1e-12)


@pytest.mark.parametrize("push", [12.0, 8.0])
def test_b12_a_block_between_a_wall_and_a_pad(push: float) -> None:
    scene = Scene(friction=0.5, floor=False)
    scene.add("block", BOX((0.1, 0.1, 0.1)), 1.0, (0.05, 0, 0))
    builder, flat = scene.builder, pp.shapes.Plane()
    builder.add_shape("wall", "world", flat, pp.Pose(about_y(np.pi / 2)), material=scene.material)
    axis = pp.joints.Prismatic(axis=(1, 0, 0))
    builder.add_body("pad", joint=axis, inertia=pp.SpatialInertia(mass=0.3))
    X = pp.Pose(about_y(-np.pi / 2), (0.1, 0, 0))
    builder.add_shape("pad", "pad", flat, X, material=scene.material)
    scene._q.append(np.zeros(1))
    scene._v.append(np.zeros(1))
    tau = np.array([0, 0, 0, 0, 0, 0, -push])
    run = moved(scene, 0.3, controller=lambda t, q, v: tau)
    assert run.v[-1, 5] / 0.3 == pytest.approx(-max(0.0, G - push), abs=1e-12)


def test_b15_balls_on_a_box_that_is_pushed() -> None:
    n, force, angle = 4, 90.0, np.pi / 4
    scene = Scene(friction=0.4)
    low, high = pp.Material(0.4), pp.Material(0.8**2 / 0.4)
    scene.add("box", BOX((1.0, 1.0, 0.1)), 10.0, (0, 0, 0.05), material=low)
    for i in range(n):
        at = (0.3 * np.cos(np.pi / 2 * i), 0.3 * np.sin(np.pi / 2 * i), 0.15)
        scene.add(f"ball{i}", SPHERE(0.05), 1.0, at, material=high)
    pairs = [("box", "floor"), *((f"ball{i}", "box") for i in range(n))]
    tau = np.zeros(6 * (n + 1))
    tau[3:5] = force * np.cos(angle), force * np.sin(angle)
    tau[:2] = 0.05 * tau[4], -0.05 * tau[3]
    run = moved(scene, 0.1, controller=lambda t, q, v: tau, contacts={"pairs": pairs})
    wanted = (force - 0.4 * (10 + n) * G) / (10 + 2 / 7 * n)
    along = np.array([np.cos(angle), np.sin(angle), 0])
    for i in range(n + 1):
        share = 1.0 if i == 0 else 2 / 7
        speed = scene.velocity(run.q[-1], run.v[-1], i)
        assert_allclose(speed, 0.1 * share * wanted * along, atol=1e-12)


def test_b16_a_rocking_block_changes_its_edge() -> None:
    b, h, tilt, turning = 0.05, 0.15, 0.05, 0.5
    scene = Scene(friction=10.0)
    corner = about_y(-tilt) @ np.array([-b, 0, -h])
    omega = np.array([0.0, turning, 0.0])
    scene.add(
        "block", BOX((2 * b, 0.1, 2 * h)), 1.0, -corner, np.cross(omega, -corner), omega,
        turned=about_y(-tilt),
    )  # fmt: skip
    run = moved(scene, 0.1)
    (hit,) = happened(run, "block|floor hits")
    assert hit.v[1] > turning
    wanted = 1 - 1.5 * np.sin(np.arctan2(b, h)) ** 2
    assert hit.v_after[1] / hit.v[1] == pytest.approx(wanted, abs=1e-14)


@pytest.mark.parametrize("e", [0.0, 0.6])
@pytest.mark.parametrize(("slide", "friction"), [(0.5, 0.5), (5.0, 0.1)])
def test_b17_a_spinning_ball_hits_the_floor(e: float, slide: float, friction: float) -> None:
    scene = Scene(friction=friction, restitution=e)
    r, m, down, spin = 0.1, 2.0, 2.0, 3.0
    scene.add("ball", SPHERE(r), m, (0, 0, 2 * r), (slide, 0, -down), (0, spin, 0))
    run = moved(scene, 0.08, gravity=(0, 0, 0))
    (hit,) = happened(run, "ball|floor hits")
    assert hit.t == pytest.approx(r / down, abs=1e-12)
    push, at_floor = (1 + e) * m * down, slide - r * spin
    side = -np.sign(at_floor) * min(2 / 7 * m * abs(at_floor), friction * push)
    moves = scene.velocity(hit.q_after, hit.v_after)
    assert_allclose(moves, [slide + side / m, 0, e * down], atol=1e-12)


def test_b18_spin_about_the_normal_is_slowed_by_torsion() -> None:
    scene = Scene(friction=0.5, torsional_friction=0.01)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), omega=(0, 0, 20.0))
    run = moved(scene, 1.0)
    slowing = 0.01 * G / (0.4 * 0.1**2)
    (stop,) = happened(run, "ball|floor sticks")
    assert stop.t == pytest.approx(20 / slowing, abs=5e-9)
    assert run.at(0.2)[1][2] == pytest.approx(20 - slowing * 0.2, abs=3e-12)
    assert np.abs(run.v[-1]).max() < 1e-12


@pytest.mark.parametrize("angle", [0, 20, 45, 70])
def test_b19_b22_a_cube_slides_straight_and_stays_down(angle: float) -> None:
    along = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle)), 0])
    scene = Scene(friction=0.5)
    scene.add("cube", BOX((0.2, 0.2, 0.2)), 1.0, (0, 0, 0.1), 6 * along)
    run = moved(scene, 0.5)
    velocity = scene.velocity(run.q[-1], run.v[-1])
    assert_allclose(velocity, (6 - 0.5 * G * 0.5) * along, atol=1e-13)
    assert np.abs(scene.place(run.q)[:, 2] - 0.1).max() < 1e-12


@pytest.mark.parametrize("share", [1.02, 0.98])
def test_b20_a_ladder_stands_or_slides(share: float) -> None:
    wall, floor, length = 0.3, 0.4, 2.0
    angle = np.arctan(share * (1 - wall * floor) / (2 * floor))
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(5.0, (0, 0, 0), (5 / 3, 5 / 3, 1e-3))
    builder.add_body("ladder", joint=pp.joints.Free(), inertia=inertia)
    r = 1e-3
    for name, z, friction in (("foot", -1.0, floor), ("top", 1.0, wall)):
        builder.add_shape(
            name, "ladder", SPHERE(r), pp.Pose(None, (0, 0, z * length / 2)),
            material=pp.Material(friction),
        )  # fmt: skip
    one = pp.Material(1.0)
    builder.add_shape("floor", "world", pp.shapes.Plane(), material=one)
    at_wall = pp.Pose(about_y(np.pi / 2))
    builder.add_shape("wall", "world", pp.shapes.Plane(), at_wall, material=one)
    model = builder.build()
    pairs = [("foot", "floor"), ("top", "wall")]
    system = pp.System(model, contacts=pp.Contacts(model, pairs=pairs, combine="product"))
    # the ends are small balls: their centres are r away from floor and wall
    x = pp.Pose(about_y(angle - np.pi / 2))
    centre = [length / 2 * np.cos(angle) + r, 0, length / 2 * np.sin(angle) + r]
    run = pp.simulate(system, [*x.quaternion, *centre], np.zeros(6), 0.5)
    stands = np.abs(run.q[-1] - run.q[0]).max() < 1e-11
    assert stands == (share > 1)
    assert run.contacts.certificate.balance < 1e-8


def test_fixed_steps_of_simulate_are_those_of_a_simulator() -> None:
    scene = Scene(friction=0.2)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), (1.0, 0, 0))
    system, q, v = scene.system()
    run = pp.simulate(system, q, v, 0.3, integrator="time_stepping", dt=1e-3)
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    same = sim.rollout(sim.initial_state(q, v), steps=300, progress=False)
    assert_allclose(run.q, same.q, atol=1e-13)
    assert run.contacts.modes[1, 0] == 1 and run.contacts.modes[-1, 0] == 2
    assert_allclose(run.contacts["ball|floor"].force[1], [-0.2 * G, 0, G], atol=1e-9)
    exact = pp.simulate(system, q, v, 0.3)
    assert abs(run.q[-1, 4] - exact.q[-1, 4]) < 2e-4
    # a function of the user is called before every step
    pushed = [0, 0, 0, 0.5, 0, 0]
    held = pp.simulate(
        system, q, v, 0.05, integrator="time_stepping", controller=lambda t, q, v: pushed,
    )  # fmt: skip
    again = sim.rollout(sim.initial_state(q, v), pushed, steps=50, progress=False)
    assert_allclose(held.q[-1], again.q[-1], atol=1e-13)
    assert held.tau[3, 3] == 0.5
    # the last output is the end, where n steps of h round below it too
    last = pp.simulate(
        system, q, v, 0.029, integrator="time_stepping", dt=0.002, output_times=[0.0, 0.029]
    )
    assert last.t[-1] == pytest.approx(0.029, rel=1e-14)


@pytest.mark.parametrize("mass", [1.0, 1e6])
def test_b7_a_heavy_box_stands_on_a_light_one(mass: float) -> None:
    scene = Scene(friction=0.5)
    scene.add("light", BOX((0.2, 0.2, 0.2)), 1.0, (0, 0, 0.1))
    scene.add("heavy", BOX((0.2, 0.2, 0.2)), mass, (0, 0, 0.3))
    system, q, v = scene.system()
    run = pp.simulate(system, q, v, 10.0)
    assert np.abs(run.q[-1] - q).max() < 1e-12 and len(run) < 30
    assert run.contacts["light|floor"].force[-1, 2] == pytest.approx((1 + mass) * G, rel=1e-9)


@pytest.mark.parametrize("share", [1.02, 0.98])
def test_b13_a_bracket_on_a_pole_hangs_or_falls(share: float) -> None:
    """It is wedged by a moment, which then ends: beyond d = h/(2 μ) it hangs on."""
    height, width, friction, r = 0.1, 0.04, 0.4, 0.01
    d = share * height / (2 * friction)
    system = bracket(d, height, width, friction, r)
    q = np.array([1.0, 0, 0, 0, 0, 0, 0])

    def wedge(t: float, q: Any, v: Any) -> Any:
        return np.array([0, 5.0 if t < 0.1 else 0.0, 0, 0, 0, 0])

    free = pp.simulate(system, q, np.zeros(6), 0.1)
    assert free.q[-1, 6] == pytest.approx(-G / 2 * 0.1**2, abs=1e-14)  # falls too
    run = pp.simulate(system, q, np.zeros(6), 0.3, controller=wedge)
    assert (np.abs(run.q[-1] - q).max() < 1e-9) == (share > 1)
    assert np.abs(run.at(0.099)[0] - q).max() < 1e-9


@pytest.mark.parametrize("share", [1.02, 0.98])
def test_b14_three_cylinders_in_a_pile(share: float) -> None:
    r, length, critical = 0.1, 0.3, np.tan(np.radians(15))
    floor = pp.Material(2 * critical / 3)
    scene = Scene(floor=False)
    scene.builder.add_shape("floor", "world", pp.shapes.Plane(), material=floor)
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.02, 0.02, 0.5 * r * r))
    lying = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # z of the capsule along y
    places = {"left": (-r, 0, r), "right": (r, 0, r), "top": (0, 0, (1 + np.sqrt(3)) * r)}
    own = pp.Material(share * critical)
    for name, at in places.items():
        shape = pp.shapes.Capsule(r, length)
        scene.add(name, shape, 1.0, at, turned=lying, inertia=inertia, material=own)
    system, q, v = scene.system(exclude=[("top", "floor")])
    run = pp.simulate(system, q, v, 0.1)
    moved_by = np.abs(run.q[-1] - q).max()
    assert moved_by < 1e-9 if share > 1 else moved_by > 1e-5


def test_b21_a_table_stands_with_the_least_forces() -> None:
    a, b, h = 0.4, 0.3, 0.5
    feet = [(sx * a, sy * b) for sx in (1, -1) for sy in (1, -1)]
    for x, y in ((0.1, 0.05), (0.3, 0.15)):  # the second is beyond the diagonal: three legs carry
        builder = pp.ModelBuilder()
        inertia = pp.SpatialInertia(10.0, (x, y, h), (0.5, 0.5, 0.5))
        builder.add_body("table", joint=pp.joints.Free(), inertia=inertia)
        for i, place in enumerate(feet):
            builder.add_shape(f"foot{i}", "table", SPHERE(0.01), pp.Pose(None, (*place, 0.01)))
        builder.add_shape("floor", "world", pp.shapes.Plane())
        model = builder.build()
        system = pp.System(model, contacts=pp.Contacts(model))
        run = pp.simulate(system, [1.0, 0, 0, 0, 0, 0, 0], np.zeros(6), 1.0)
        forces = run.contacts.forces[-1, :, 5]
        wanted = [10 * G / 4 * (1 + x * i / a**2 + y * j / b**2) for i, j in feet]
        if min(wanted) < 0:
            share = np.array([x / a + y / b, 1 - y / b, 1 - x / a, 0.0])
            wanted = 10 * G / 2 * share
        assert_allclose(forces, wanted, atol=1e-11)
        assert np.abs(run.q[-1] - run.q[0]).max() < 1e-12


def test_fixed_steps_with_a_rigid_stop() -> None:
    builder = pp.ModelBuilder()
    axis = pp.joints.Prismatic((0, 0, 1))
    builder.add_body("ball", joint=axis, inertia=pp.SpatialInertia(mass=1.0))
    builder.add_shape("skin", "ball", SPHERE(0.1))
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    stop = pp.forces.JointLimit("ball", float("inf"), lower=0.3)
    spring = pp.forces.JointSpring("ball", 2.0)
    given: dict[str, Any] = {"integrator": "time_stepping", "forces": [stop, spring]}
    run = pp.simulate(system, [0.5], [0.0], 0.5, dt=1e-3, **given)
    assert run.q[-1, 0] == pytest.approx(0.3, abs=1e-12)
    assert run.energy[0] == pytest.approx(G * 0.5 + 0.5 * 2.0 * 0.5**2, rel=1e-9)
    exact = pp.simulate(system, [0.5], [0.0], 0.5, forces=[stop, spring])
    assert exact.q[-1, 0] == pytest.approx(0.3, abs=1e-12)
    assert [e.name for e in exact.events] == ["stop of ball hits"]
