"""Time stepping on the problems B1–B22 of theory/contact, whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from contact_problems import G, Scene, about_y, run

import phipsi as pp

SPHERE, BOX = pp.shapes.Sphere, pp.shapes.Box


def slope_scene(tangent: float, friction: float, size=(0.2, 0.2, 0.1), v=(0, 0, 0)) -> Scene:
    scene = Scene(slope=np.arctan(tangent), friction=friction)
    scene.add("block", BOX(size), 1.0, (0, 0, size[2] / 2), v)
    return scene


@pytest.mark.parametrize("dt", [1e-4, 1e-2])
def test_b1_a_block_on_a_slope_does_not_move(dt: float) -> None:
    scene = slope_scene(np.tan(np.radians(20)), 0.5)
    system, q, v = scene.system()
    found = run(system, q, v, dt, 2000)
    assert np.abs(found.q[-1] - q).max() < 1e-12
    assert np.abs(found.v[-1]).max() < 1e-10
    force = found.impulses[-1][:, 3:].sum(0) / dt
    np.testing.assert_allclose(force, [0, 0, G], atol=1e-8)


def test_b1_slips_where_friction_is_too_small() -> None:
    scene = slope_scene(np.tan(np.radians(20)), 0.36)
    system, q, v = scene.system()
    found = run(system, q, v, 1e-2, 100)
    wanted = G * (np.sin(np.radians(20)) - 0.36 * np.cos(np.radians(20)))
    assert scene.velocity(found.q[-1], found.v[-1])[0] == pytest.approx(wanted, rel=1e-6)


def test_b2_sliding_stops_at_the_right_place() -> None:
    angle = np.radians(20)
    scene = slope_scene(np.tan(angle), 0.5, v=(1.5, 0, 0))
    system, q, v = scene.system()
    errors = []
    for dt in (2e-3, 1e-3):
        found = run(system, q, v, dt, round(1.4 / dt))
        slowing = G * (0.5 * np.cos(angle) - np.sin(angle))
        errors.append(abs(scene.place(found.q[-1])[0] - 1.5**2 / (2 * slowing)))
        assert np.abs(found.v[-1]).max() < 1e-9
    assert errors[1] < 8e-4
    assert 1.7 < errors[0] / errors[1] < 2.3


def test_b3_a_sliding_ball_begins_to_roll() -> None:
    scene = Scene(friction=0.2)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), (1.0, 0, 0))
    system, q, v = scene.system()
    found = run(system, q, v, 1e-3, 300)
    assert scene.velocity(found.q[-1], found.v[-1])[0] == pytest.approx(5 / 7, rel=1e-9)
    assert found.v[-1, 1] == pytest.approx(5 / 7 / 0.1, rel=1e-9)
    rolling, place = 2 / (7 * 0.2 * G), 12 / (49 * 0.2 * G)
    wanted = place + 5 / 7 * (0.3 - rolling)
    assert scene.place(found.q[-1])[0] == pytest.approx(wanted, abs=4e-4)


@pytest.mark.parametrize("e", [0.5, 0.8])
def test_b4_a_bouncing_ball_comes_to_rest(e: float) -> None:
    scene = Scene(friction=0.5, restitution=e)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 1.1))
    system, q, v = scene.system()
    end, errors = np.sqrt(2 / G) * (1 + e) / (1 - e), []
    for dt in (4e-4, 2e-4):
        found = run(system, q, v, dt, round((end + 0.1) / dt))
        height = scene.place(found.q)[:, 2] - 0.1
        assert height[round(np.sqrt(2 / G) / dt) :].max() == pytest.approx(e**2, abs=10 * dt)
        errors.append(np.flatnonzero(np.abs(found.v).max(-1) > 1e-6)[-1] * dt - end)
        assert abs(height[-1]) < 1e-9
    assert abs(errors[1]) < 0.03
    assert 1.4 < errors[0] / errors[1] < 2.6  # of first order


def test_b5_equal_balls_exchange_their_speed() -> None:
    scene = Scene(friction=0.0, restitution=1.0, floor=False)
    for i in range(5):
        scene.add(f"ball{i}", SPHERE(0.1), 1.0, (0.201 * i, 0, 0), (1.0 if i == 0 else 0, 0, 0))
    system, q, v = scene.system()
    found = run(system.with_gravity((0, 0, 0)), q, v, 1e-4, 100)
    speeds = found.v[-1].reshape(5, 6)[:, 3]
    np.testing.assert_allclose(speeds, [0, 0, 0, 0, 1], atol=1e-12)


def test_b5_three_balls_that_touch() -> None:
    scene = Scene(friction=0.0, restitution=1.0, floor=False)
    for i in range(3):
        scene.add(f"ball{i}", SPHERE(0.1), 1.0, (0.2 * i, 0, 0), (1.0 if i == 0 else 0, 0, 0))
    system, q, v = scene.system()
    found = run(system.with_gravity((0, 0, 0)), q, v, 1e-4, 1)
    speeds = found.v[-1].reshape(3, 6)[:, 3]
    np.testing.assert_allclose(speeds, [-1 / 3, 2 / 3, 2 / 3], atol=1e-12)


@pytest.mark.parametrize(
    ("tangent", "friction", "what"),
    [(0.30, 0.5, "stays"), (0.36, 0.5, "tips"), (0.30, 0.25, "slides")],
)
def test_b8_a_box_stays_tips_or_slides(tangent: float, friction: float, what: str) -> None:
    b, h, angle, dt = 0.05, 0.15, np.arctan(tangent), 1e-4
    scene = slope_scene(tangent, friction, (2 * b, 0.1, 2 * h))
    system, q, v = scene.system()
    found = run(system, q, v, dt, 1)
    turning = found.v[-1, 1] / dt
    along = scene.velocity(found.q[-1], found.v[-1])[0] / dt
    tips = 3 * G * (h * np.sin(angle) - b * np.cos(angle)) / (4 * (b * b + h * h))
    slides = G * (np.sin(angle) - friction * np.cos(angle))
    assert turning == pytest.approx(tips if what == "tips" else 0.0, abs=1e-6)
    if what != "tips":
        assert along == pytest.approx(slides if what == "slides" else 0.0, abs=1e-6)


@pytest.mark.parametrize("friction", [0.15, 0.08])
def test_b9_a_ball_on_a_slope_rolls_or_slides(friction: float) -> None:
    angle, dt = np.radians(20), 1e-3
    scene = Scene(slope=angle, friction=friction)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1))
    system, q, v = scene.system()
    found = run(system, q, v, dt, 100)
    speed, spin = scene.velocity(found.q[-1], found.v[-1])[0], found.v[-1, 1]
    if friction > 2 / 7 * np.tan(angle):
        wanted = 5 / 7 * G * np.sin(angle), 5 / 7 * G * np.sin(angle) / 0.1
    else:
        wanted = (
            G * (np.sin(angle) - friction * np.cos(angle)),
            5 * friction * G * np.cos(angle) / (2 * 0.1),
        )
    assert (speed / 0.1, spin / 0.1) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("mass", [1.0, 1e3, 1e6])
def test_b7_a_heavy_box_stands_on_a_light_one(mass: float) -> None:
    scene = Scene(friction=0.5)
    scene.add("light", BOX((0.2, 0.2, 0.2)), 1.0, (0, 0, 0.1))
    scene.add("heavy", BOX((0.2, 0.2, 0.2)), mass, (0, 0, 0.3))
    system, q, v = scene.system()
    found = run(system, q, v, 5e-3, 200)
    assert np.abs(found.q[-1] - q).max() < 1e-9
    floor = [i for i, pair in enumerate(found.pairs) if "floor" in pair]
    force = found.impulses[-1][floor, 5].sum() / 5e-3
    assert abs(force) == pytest.approx((1 + mass) * G, rel=1e-8)


@pytest.mark.parametrize("force", [9.0, 30.0])
def test_b11_a_block_on_a_block_that_is_pulled(force: float) -> None:
    floor, upper = 0.2, 0.5
    scene = Scene(friction=floor)
    # the geometric mean of the two coefficients is that of the pair
    below = pp.Material(floor)
    above = pp.Material(upper**2 / floor)
    scene.add("lower", BOX((0.6, 0.4, 0.1)), 2.0, (0, 0, 0.05), material=below)
    scene.add("upper", BOX((0.1, 0.1, 0.1)), 1.0, (0, 0, 0.15), material=above)
    system, q, v = scene.system(exclude=[("upper", "floor")])
    tau = np.zeros(12)
    tau[3] = force
    # the force acts at the height of the floor, so that nothing tips
    tau[1] = -force * 0.05
    found = run(system, q, v, 1e-3, 10, tau)
    speeds = [scene.velocity(found.q[-1], found.v[-1], i)[0] / 1e-2 for i in range(2)]
    together = (force - floor * 3 * G) / 3
    if together <= upper * G:
        wanted = [together, together]
    else:
        wanted = [(force - upper * G - floor * 3 * G) / 2, upper * G]
    np.testing.assert_allclose(speeds, wanted, rtol=1e-6)


def test_b16_a_rocking_block_changes_its_edge() -> None:
    b, h = 0.05, 0.15
    tilt, turning = 1e-9, 0.5
    scene = Scene(friction=10.0)
    corner = about_y(tilt) @ np.array([-b, 0, -h])
    # it turns about the edge at −x, and the other one hits the floor
    centre, omega = -corner, np.array([0.0, turning, 0.0])
    scene.add(
        "block", BOX((2 * b, 0.1, 2 * h)), 1.0, centre, np.cross(omega, centre), omega,
        turned=about_y(-tilt),
    )  # fmt: skip
    system, q, v = scene.system()
    found = run(system.with_gravity((0, 0, 0)), q, v, 1e-5, 1)
    angle = np.arctan2(b, h)
    assert found.v[-1, 1] / turning == pytest.approx(1 - 1.5 * np.sin(angle) ** 2, abs=1e-4)


@pytest.mark.parametrize("e", [0.0, 0.6])
@pytest.mark.parametrize(("slide", "friction"), [(0.5, 0.5), (5.0, 0.1)])
def test_b17_a_spinning_ball_hits_the_floor(e: float, slide: float, friction: float) -> None:
    scene = Scene(friction=friction, restitution=e)
    r, down, spin = 0.1, 2.0, 3.0
    scene.add("ball", SPHERE(r), 2.0, (0, 0, r), (slide, 0, -down), (0, spin, 0))
    system, q, v = scene.system()
    found = run(system.with_gravity((0, 0, 0)), q, v, 1e-5, 1)
    push, m = (1 + e) * 2.0 * down, 2.0
    at_floor = slide - r * spin
    side = -np.sign(at_floor) * min(2 / 7 * m * abs(at_floor), friction * push)
    np.testing.assert_allclose(
        np.abs(found.impulses[-1][0, 3:]), np.abs([side, 0, push]), atol=1e-9
    )


def test_b18_spin_about_the_normal_is_slowed_by_torsion() -> None:
    scene = Scene(friction=0.5, torsion=0.01)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), omega=(0, 0, 20.0))
    system, q, v = scene.system()
    found = run(system, q, v, 1e-3, 200)
    inertia = 0.4 * 0.1**2
    assert found.v[-1, 2] == pytest.approx(20 - 0.01 * G * 0.2 / inertia, abs=1e-6)


@pytest.mark.parametrize("angle", [0, 20, 45, 70])
def test_b19_b22_a_cube_slides_straight_and_stays_down(angle: float) -> None:
    along = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle)), 0])
    scene = Scene(friction=0.5)
    scene.add("cube", BOX((0.2, 0.2, 0.2)), 1.0, (0, 0, 0.1), 6 * along)
    system, q, v = scene.system()
    found = run(system, q, v, 1e-3, 100)
    velocity = scene.velocity(found.q[-1], found.v[-1])
    np.testing.assert_allclose(velocity, (6 - 0.5 * G * 0.1) * along, atol=1e-9)
    assert np.abs(scene.place(found.q)[:, 2] - 0.1).max() < 1e-12


def test_b21_a_table_stands_with_the_least_forces() -> None:
    a, b, x, y, h = 0.4, 0.3, 0.1, 0.05, 0.5
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(10.0, (x, y, h), (0.5, 0.5, 0.5))
    builder.add_body("table", joint=pp.joints.Free(), inertia=inertia)
    feet = [(sx * a, sy * b) for sx in (1, -1) for sy in (1, -1)]
    for i, place in enumerate(feet):
        builder.add_shape(f"foot{i}", "table", SPHERE(0.01), pp.Pose(None, (*place, 0.01)))
    builder.add_shape("floor", "world", pp.shapes.Plane())
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model))
    found = run(system, np.array([1.0, 0, 0, 0, 0, 0, 0]), np.zeros(6), 1e-3, 5)
    forces = found.impulses[-1][:, 5] / 1e-3
    wanted = [10 * G / 4 * (1 + x * i / a**2 + y * j / b**2) for i, j in feet]
    np.testing.assert_allclose(np.sort(np.abs(forces)), np.sort(wanted), rtol=1e-6)
