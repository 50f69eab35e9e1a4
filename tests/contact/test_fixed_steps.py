"""Time stepping on the problems B1–B22 of theory/contact, whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amounts import mostly
from contact_problems import (
    G,
    Scene,
    about_y,
    bracket,
    by_pair,
    frictions,
    rod_with_tips,
    run as steps_of,
    start_of,
)

import phipsi as pp

SPHERE, BOX = pp.shapes.Sphere, pp.shapes.Box


def run(*given: Any) -> Any:
    """Fixed steps, all of them solved, without a gain of energy and without overlap."""
    found = steps_of(*given)
    overlap, residual, gain, *_, moved = found.worst[-1]
    assert moved == 0 and found.totals[-1, 3] == 0
    assert found.totals[-1, 2] == 0 and residual < 3e-10  # 1e-10 m/s, or rounding beside 10⁶ kg
    assert gain <= 1e-14 and overlap < 1e-9
    return found


def slope_scene(tangent: float, friction: float, size=(0.2, 0.2, 0.1), v=(0, 0, 0)) -> Scene:
    scene = Scene(slope=np.arctan(tangent), friction=friction)
    scene.add("block", BOX(size), 1.0, (0, 0, size[2] / 2), v)
    return scene


def test_b1_a_block_on_a_slope_does_not_move_in_1000_s() -> None:
    scene = slope_scene(np.tan(np.radians(20)), 0.5)
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-2, integrator="time_stepping")
    found = sim.rollout(
        sim.initial_state(q, v), steps=100_000, record_every=100_000, progress=False
    )
    assert np.abs(found.q[-1] - q).max() < 1e-13
    assert found.certificate.is_clean and found.certificate.overlap < 1e-13


@pytest.mark.parametrize("masses", [[1.0] * 10, [1.0, 1e6]], ids=["ten boxes", "10⁶ on 1"])
def test_stacks_stand_still_for_10_s(masses: list[float]) -> None:
    scene = Scene(friction=0.5)
    for i, mass in enumerate(masses):
        scene.add(f"box{i}", BOX((0.2, 0.2, 0.2)), mass, (0, 0, 0.1 + 0.2 * i))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=5e-3, integrator="time_stepping")
    found = sim.rollout(sim.initial_state(q, v), steps=2000, record_every=2000, progress=False)
    assert np.abs(found.q[-1] - q).max() < 4e-10
    assert found.certificate.is_clean and found.certificate.overlap < 1e-9


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 1e-2])
def test_b1_a_block_on_a_slope_does_not_move(dt: float) -> None:
    scene = slope_scene(np.tan(np.radians(20)), 0.5)
    system, q, v = scene.system()
    found = run(system, q, v, dt, 2000)
    assert np.abs(found.q[-1] - q).max() < 1e-14
    assert np.abs(found.v[-1]).max() < 1e-12
    force = found.impulses[-1][:, 3:].sum(0) / dt
    np.testing.assert_allclose(force, [0, 0, G], atol=5e-11)


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
        assert np.abs(found.v[-1]).max() < 2e-11
    assert errors[1] < 7.5e-4  # v h/2
    assert 1.99 < errors[0] / errors[1] < 2.01


def test_b3_a_sliding_ball_begins_to_roll() -> None:
    scene = Scene(friction=0.2)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), (1.0, 0, 0))
    system, q, v = scene.system()
    rolling, place, errors = 2 / (7 * 0.2 * G), 12 / (49 * 0.2 * G), []
    for dt in (2e-3, 1e-3):
        found = run(system, q, v, dt, round(0.3 / dt))
        speed = scene.velocity(found.q[-1], found.v[-1])[0]
        assert (speed, 0.1 * found.v[-1, 1]) == pytest.approx((5 / 7, 5 / 7), abs=1e-14)
        errors.append(place + 5 / 7 * (0.3 - rolling) - scene.place(found.q[-1])[0])
    assert 0 < errors[1] < 1.43e-4 and 1.98 < errors[0] / errors[1] < 2.02


@pytest.mark.parametrize("e", [0.5, 0.8])
def test_b4_a_bouncing_ball_comes_to_rest(e: float) -> None:
    scene = Scene(friction=0.5, restitution=e)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 1.1))
    system, q, v = scene.system()
    end = np.sqrt(2 / G) * (1 + e) / (1 - e)
    for dt in (4e-4, 2e-4):
        found = run(system, q, v, dt, round((end + 0.1) / dt))
        height = scene.place(found.q)[:, 2] - 0.1
        tops = np.flatnonzero((height[1:-1] > height[:-2]) & (height[1:-1] >= height[2:])) + 1
        wanted = e ** (2.0 * np.arange(1, 6))
        np.testing.assert_allclose(height[tops[:5]], wanted, atol=dt**2)
        moving = np.flatnonzero(np.abs(found.v).max(-1) > 1e-6)[-1]
        # it starts half a step late, and rests at the end of a step
        assert abs((moving + 1) * dt - end) < 0.75 * dt
        assert abs(moving * dt - end) < 2e-4 or dt > 2e-4
        assert abs(height[-1]) < 1e-12 and found.worst[-1, 2] <= 1e-12
        assert found.worst[-1, 3] <= 3  # no share of the restitution is taken away


def test_an_elastic_ball_keeps_its_energy() -> None:
    scene = Scene(friction=0.0, restitution=1.0)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 1.1))
    system, q, v = scene.system()
    dt = 2e-3
    found = run(system, q, v, dt, 5000)
    height = scene.place(found.q)[:, 2] - 0.1
    energy = (
        0.5 * (found.v[:, 5] - 0.5 * G * dt) ** 2 + G * height
    )  # rates are those half a step ago
    np.testing.assert_allclose(energy, energy[0], rtol=1e-11)
    assert height.min() > -1e-12 and found.worst[-1, 2] <= 1e-13
    assert np.sum(found.impulses[:, 0, 5] > 0) == 11


def test_b5_equal_balls_exchange_their_speed() -> None:
    scene = Scene(friction=0.0, restitution=1.0, floor=False)
    for i in range(5):
        scene.add(f"ball{i}", SPHERE(0.1), 1.0, (0.201 * i, 0, 0), (1.0 if i == 0 else 0, 0, 0))
    system, q, v = scene.system()
    found = run(system.with_gravity((0, 0, 0)), q, v, 1e-4, 100)
    speeds = found.v[-1].reshape(5, 6)[:, 3]
    np.testing.assert_allclose(speeds, [0, 0, 0, 0, 1], atol=3e-15)


def test_b5_three_balls_that_touch() -> None:
    scene = Scene(friction=0.0, restitution=1.0, floor=False)
    for i in range(3):
        scene.add(f"ball{i}", SPHERE(0.1), 1.0, (0.2 * i, 0, 0), (1.0 if i == 0 else 0, 0, 0))
    system, q, v = scene.system()
    found = run(system.with_gravity((0, 0, 0)), q, v, 1e-4, 1)
    speeds = found.v[-1].reshape(3, 6)[:, 3]
    np.testing.assert_allclose(speeds, [-1 / 3, 2 / 3, 2 / 3], atol=3e-15)


@pytest.mark.parametrize(
    ("tangent", "friction", "what"),
    [(0.30, 0.5, "stays"), (0.36, 0.5, "tips"), (0.30, 0.25, "slides")],
)
def test_b8_a_box_stays_tips_or_slides(tangent: float, friction: float, what: str) -> None:
    b, h, angle = 0.05, 0.15, np.arctan(tangent)
    scene = slope_scene(tangent, friction, (2 * b, 0.1, 2 * h))
    system, q, v = scene.system()
    tips = 3 * G * (h * np.sin(angle) - b * np.cos(angle)) / (4 * (b * b + h * h))
    slides = G * (np.sin(angle) - friction * np.cos(angle))
    for dt in (1e-5, 1e-3, 1e-2):
        found = run(system, q, v, dt, 1)
        turning = found.v[-1, 1] / dt - (tips if what == "tips" else 0.0)
        along = scene.velocity(found.q[-1], found.v[-1])[0] / dt
        if what != "tips":
            along -= slides if what == "slides" else 0.0
            assert abs(along) < 1e-12
        assert abs(turning) < 1e-12
    # these gaps are rounding: to close one in a step would be an acceleration of g/h², 1e-7 m/s²
    gaps = pp.contact_points(system, q).gap
    assert np.abs(gaps).max() < 1e-15


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
    assert (speed / 0.1, spin / 0.1) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("mass", [1.0, 1e3, 1e6])
def test_b7_a_heavy_box_stands_on_a_light_one(mass: float) -> None:
    scene = Scene(friction=0.5)
    scene.add("light", BOX((0.2, 0.2, 0.2)), 1.0, (0, 0, 0.1))
    scene.add("heavy", BOX((0.2, 0.2, 0.2)), mass, (0, 0, 0.3))
    system, q, v = scene.system()
    found = run(system, q, v, 5e-3, 200)
    assert np.abs(found.q[-1] - q).max() < 1e-11
    floor = [i for i, pair in enumerate(found.pairs) if "floor" in pair]
    force = found.impulses[-1][floor, 5].sum() / 5e-3
    assert abs(force) == pytest.approx((1 + mass) * G, rel=1e-9)


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
    np.testing.assert_allclose(speeds, wanted, atol=2e-14)


def test_b16_a_rocking_block_changes_its_edge() -> None:
    b, h = 0.05, 0.15
    tilt, turning = 0.0, 0.5
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
    assert found.v[-1, 1] / turning == pytest.approx(1 - 1.5 * np.sin(angle) ** 2, abs=1e-14)


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
    np.testing.assert_allclose(found.impulses[-1][0, 3:], [side, 0, push], atol=1e-14)


def test_b18_spin_about_the_normal_is_slowed_by_torsion() -> None:
    scene = Scene(friction=0.5, torsional_friction=0.01)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), omega=(0, 0, 20.0))
    system, q, v = scene.system()
    found = run(system, q, v, 1e-3, 200)
    inertia = 0.4 * 0.1**2
    assert found.v[-1, 2] == pytest.approx(20 - 0.01 * G * 0.2 / inertia, abs=3e-12)


@pytest.mark.parametrize("angle", [0, 20, 45, 70])
def test_b19_b22_a_cube_slides_straight_and_stays_down(angle: float) -> None:
    along = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle)), 0])
    scene = Scene(friction=0.5)
    scene.add("cube", BOX((0.2, 0.2, 0.2)), 1.0, (0, 0, 0.1), 6 * along)
    system, q, v = scene.system()
    found = run(system, q, v, 1e-3, 100)
    moves = scene.velocity(found.q, found.v)
    speeds = 6 - 0.5 * G * 1e-3 * np.arange(101)
    np.testing.assert_allclose(moves, speeds[:, None] * along, atol=1e-13)  # 100 roundings of 6
    np.testing.assert_allclose(moves[1], speeds[1] * along, atol=1e-14)
    assert np.abs(scene.place(found.q)[:, 2] - 0.1).max() < 2e-14


@pytest.mark.parametrize(
    ("x", "y", "speed"),
    [(0.1, 0.05, 0.0), (0.3, 0.15, 0.0), (-0.1, 0.02, 1.0)],
    ids=["four carry", "three", "slides"],
)
def test_b21_a_table_stands_with_the_least_forces(x: float, y: float, speed: float) -> None:
    a, b, h, mu = 0.4, 0.3, 0.5, 0.3
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(10.0, (x, y, h), (0.5, 0.5, 0.5))
    builder.add_body("table", joint=pp.joints.Free(), inertia=inertia)
    feet = [(sx * a, sy * b) for sx in (1, -1) for sy in (1, -1)]
    for i, place in enumerate(feet):
        builder.add_shape(f"foot{i}", "table", SPHERE(0.01), pp.Pose(None, (*place, 0.01)))
    builder.add_shape("floor", "world", pp.shapes.Plane())
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, material=pp.Material(friction=mu)))
    e = np.array([0.6, 0.8])
    ahead = mu * h * e * (speed > 0)  # friction turns the table over the feet ahead
    X, Y = x + ahead[0], y + ahead[1]
    wanted = np.array([10 * G / 4 * (1 + X * i / a**2 + Y * j / b**2) for i, j in feet])
    if wanted.min() < 0:  # the mass centre is beyond the diagonal
        wanted = 10 * G / 2 * np.array([x / a + y / b, 1 - y / b, 1 - x / a, 0.0])
    for dt in (1e-4, 1e-3, 1e-2):
        rates = np.array([0, 0, 0, *(speed * e), 0])
        found = run(system, np.array([1.0, 0, 0, 0, 0, 0, 0]), rates, dt, 5)
        force = found.impulses[-1][:, 3:] / dt
        np.testing.assert_allclose(force[:, 2], wanted, rtol=0, atol=5e-12 * 10 * G)
        if speed:
            np.testing.assert_allclose(force[:, :2], -mu * np.outer(wanted, e), atol=1e-9)


def test_b6_a_rod_that_slides_on_its_tip_may_jam() -> None:
    """Painlevé: at tan θ = 2, no finite force exists beyond μ = 4/3, but an impulse does."""
    theta, m, half = np.arctan(2.0), 1.0, 0.5
    up = np.array([-np.cos(theta), 0, np.sin(theta)])  # from the tip
    ends, turned = np.array([[0.0, 0, 0], 2 * half * up]), np.eye(3)
    builder = rod_with_tips(m, ends, [(0, 0, -1), None], 0.01, turned)
    builder.add_shape("floor", "world", pp.shapes.Plane())
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model))
    q = start_of(turned, ends.mean(axis=0))
    values = np.array([0.5, 1.0, 1.3, 1.4, 3.0])
    turns = np.array([np.sin(theta), np.cos(theta)]) * half
    inertia = m * half**2 / 3 + 1e-9  # the rod of `rod_with_tips`
    W = np.eye(2) / m + np.outer(turns, turns) / inertia
    for h in (1e-4, 1e-5):
        sim = pp.Simulator(system, dt=h, integrator="time_stepping")
        sliding = np.tile([0.0, 0, 0, 1.0, 0, 0], (5, 1))
        state = sim.initial_state(q, sliding, parameters=frictions(sim, values))
        sim.step(state)
        assert state.certificate.is_clean and state.certificate.gain.max() <= 1e-14
        push = state.laws["contact.impulses"][:, 0, [3, 5]]
        slips = values < 4 / 3
        # a finite force, which tends to infinity at 4/3
        wanted = G / (W[1, 1] - values[slips] * W[0, 1])
        np.testing.assert_allclose(push[slips, 1] / h, wanted, rtol=1e-13)
        # an impulse that does not depend on h stops the tip at once
        jams = np.linalg.solve(W, [-1.0, G * h])
        np.testing.assert_allclose(push[~slips] - jams, 0.0, atol=1e-14)
        assert jams[1] > 0.3
        tip = state.v[:, 3] + state.v[:, 1] * (ends[0] - ends.mean(axis=0))[2]
        np.testing.assert_allclose(tip[~slips], 0.0, atol=h)  # in axes that have turned since
        assert tip[slips].min() > 0.9


def test_b10_a_ball_slides_off_a_sphere() -> None:
    a, b, v_0 = 0.05, 0.5, 0.3
    scene = Scene(friction=0.0, floor=False)
    scene.builder.add_shape("dome", "world", SPHERE(b), material=pp.Material(0.0))
    scene.add("ball", SPHERE(a), 1.0, (0, 0, a + b), (v_0, 0, 0))
    system, q, v = scene.system()
    errors = []
    for dt in (1e-3, 5e-4):
        found = run(system, q, v, dt, round(0.75 / dt))
        force = np.linalg.norm(found.impulses[:, 0, 3:], axis=-1) / dt
        last = np.flatnonzero(force > 0)[-1]
        assert last < len(force) - 20  # it has left
        fraction = force[last] / (force[last - 1] - force[last])  # steps until there is no force
        heights = found.q[:, 6] / np.linalg.norm(found.q[:, 4:], axis=-1)
        leaves = heights[last] + fraction * (heights[last] - heights[last - 1])
        errors.append(leaves - (2 / 3 + v_0**2 / (3 * G * (a + b))))
        assert np.linalg.norm(found.q[:last, 4:], axis=-1).min() > a + b - 1e-6
    assert abs(errors[1]) < 2e-3 and 1.6 < errors[0] / errors[1] < 2.5
    twin = 2 / 3 + 0.5**2 / (3 * G * (a + b))  # started faster
    assert abs(twin - 2 / 3 - v_0**2 / (3 * G * (a + b))) > 3 * abs(errors[1])


def test_b12_a_block_pinched_between_a_wall_and_a_pad() -> None:
    builder, friction = pp.ModelBuilder(), 0.5
    size = (0.1, 0.1, 0.1)
    box = pp.SpatialInertia.box(size, mass=1.0)
    builder.add_body("block", joint=pp.joints.Free(), inertia=box)
    builder.add_body("pad", joint=pp.joints.Prismatic((1, 0, 0)), inertia=box)
    wall = pp.Pose.from_axis_angle((0, 1, 0), np.pi / 2)  # z of the plane along x
    builder.add_shape("wall", "world", pp.shapes.Plane(), wall)
    builder.add_shape("block", "block", BOX(size))
    builder.add_shape("pad", "pad", BOX((0.1, 0.1, 0.3)))
    model = builder.build()
    pairs = pp.Contacts(model, exclude=[("pad", "wall")], material=pp.Material(friction))
    system = pp.System(model, contacts=pairs)
    q = np.array([1.0, 0, 0, 0, 0.05, 0, 0, 0.15])
    push = np.array([12.0, 8.0])
    tau = np.zeros((2, 7))
    tau[:, 6] = -push
    errors = []
    for dt in (2e-3, 1e-3):
        sim = pp.Simulator(system, dt=dt, integrator="time_stepping")
        found = sim.rollout(
            sim.initial_state(np.tile(q, (2, 1))), tau, round(0.1 / dt), progress=False
        )
        falls = np.maximum(G - 2 * friction * push, 0.0)
        np.testing.assert_allclose(-found.v[:, -1, 5] / 0.1, falls, atol=1e-11)
        errors.append(abs(q[6] - found.q[1, -1, 6] - 0.5 * falls[1] * 0.01))
        assert abs(found.q[0, -1] - q).max() < 1e-12  # the first one holds
    assert 1.9 < errors[0] / errors[1] < 2.1


def test_b13_a_bracket_on_a_pole_hangs_or_falls() -> None:
    height, width, friction, r, dt = 0.1, 0.04, 0.4, 0.01, 1e-3
    least = height / (2 * friction)
    for d, hangs in ((1.02 * least, True), (0.98 * least, False)):
        system = bracket(d, height, width, friction, r)
        pairs: Any = system.contact_pairs
        q = np.array([1.0, 0, 0, 0, 0, 0, 0])
        falls = pp.contact_step(system, q, np.zeros(6), dt=dt)
        assert falls.certificate.is_clean
        np.testing.assert_allclose(falls.impulses, 0.0, atol=1e-16)
        np.testing.assert_allclose(falls.v[3:], [0, 0, -G * dt], atol=1e-15)
        # held before, by a wedge: sides push with m g d/h, and friction carries half the weight
        load = 2.0 * G * dt
        wedged = np.zeros((2, 6))
        sides = [-1 if "top" in name else 1 for name in pairs.slot_names]
        order = [1 if name.startswith("pole") else -1 for name in pairs.slot_names]
        for i, (side, sign) in enumerate(zip(sides, order, strict=True)):
            wedged[i, 3:] = -sign * np.array([side * load * d / height, 0, load / 2])
        found = pp.contact_step(system, q, np.zeros(6), dt=dt, impulses=wedged)
        assert found.certificate.is_clean
        assert (np.abs(found.v).max() < 1e-14) == hangs


@pytest.mark.parametrize("kind", mostly(["Capsule", "Cylinder"], "Cylinder"))
def test_b14_three_cylinders_in_a_pile(kind: str) -> None:
    r, length, critical = 0.1, 0.3, np.tan(np.radians(15))
    scene = Scene(friction=0.5)
    shape = getattr(pp.shapes, kind)(r, length)
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (0.02, 0.02, 0.5 * r * r))
    lying = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # z of the capsule along y
    places = {"left": (-r, 0, r), "right": (r, 0, r), "top": (0, 0, (1 + np.sqrt(3)) * r)}
    for name, at in places.items():
        scene.add(name, shape, 1.0, at, turned=lying, inertia=inertia)
    system, q, v = scene.system(exclude=[("top", "floor")])
    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
    cases = [(1.02, 1.02), (0.98, 1.5), (1.5, 0.98)]  # stands; slips between; slips on the floor
    own = [by_pair(system, {"floor": f * critical / 3, "": c * critical}) for c, f in cases]
    start = sim.initial_state(np.tile(q, (3, 1)), v, parameters=frictions(sim, own))
    found = sim.rollout(start, steps=250, record_every=50, progress=False)
    moved = np.abs(found.q[:, -1] - q).max(axis=-1)
    assert moved[0] < 1e-11 and moved[1:].min() > 1e-2
    assert found.certificate.is_clean


def test_b15_balls_on_a_box_that_is_pushed() -> None:
    floor, between, force, n, M = 0.4, 0.8, 120.0, 4, 10.0
    scene = Scene(friction=floor)
    scene.add("box", BOX((0.6, 0.6, 0.1)), M, (0, 0, 0.05), material=pp.Material(floor))
    on_top = pp.Material(between**2 / floor)
    for i in range(n):
        at = (0.15 * (-1) ** i, 0.15 * (-1) ** (i // 2), 0.15)
        scene.add(f"ball{i}", SPHERE(0.05), 1.0, at, material=on_top)
    apart = [(f"ball{i}", x) for i in range(n) for x in ("floor", *(f"ball{j}" for j in range(i)))]
    system, q, v = scene.system(exclude=apart)
    diagonal = np.array([1.0, 1.0, 0]) / np.sqrt(2)
    tau = np.zeros(6 * (n + 1))
    tau[3:6] = force * diagonal
    # it acts at the height where the box does not tip: friction above and below turns it
    box = (force - floor * (M + n) * G) / (M + 2 / 7 * n)
    turn = 0.05 * (floor * (M + n) * G - 2 / 7 * n * box)
    tau[0:3] = np.cross([0, 0, 1], turn * diagonal)
    errors = []
    for dt in (2e-3, 1e-3):
        found = run(system, q, v, dt, round(0.02 / dt), tau)
        speeds = [scene.velocity(found.q[-1], found.v[-1], i) / 0.02 for i in range(n + 1)]
        np.testing.assert_allclose(speeds[0], box * diagonal, atol=2e-14)
        for one in speeds[1:]:
            np.testing.assert_allclose(one, 2 / 7 * box * diagonal, atol=2e-14)
        errors.append(scene.place(found.q[-1])[:2] @ diagonal[:2] - 0.5 * box * 4e-4)
    assert 1.9 < errors[0] / errors[1] < 2.1
    assert abs(box - (force - floor * (M + n) * G) / (M + n)) > 1e-2  # balls that were glued on


def test_b20_a_ladder_stands_or_falls() -> None:
    wall, floor, length, r = 0.3, 0.4, 2.0, 0.02
    critical = (1 - wall * floor) / (2 * floor)
    moved = []
    for tangent in (1.02 * critical, 0.98 * critical):
        angle = np.arctan(tangent)
        ends = length * np.array([[np.cos(angle), 0, 0], [0, 0, np.sin(angle)]])
        builder = rod_with_tips(10.0, ends, [(0, 0, -1), (-1, 0, 0)], r, np.eye(3))
        builder.add_shape("floor", "world", pp.shapes.Plane())
        side = pp.Pose.from_axis_angle((0, 1, 0), np.pi / 2)
        builder.add_shape("wall", "world", pp.shapes.Plane(), side)
        model = builder.build()
        pairs = pp.Contacts(model, exclude=[("tip0", "wall"), ("tip1", "floor")])
        system = pp.System(model, contacts=pairs)
        sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
        q = start_of(np.eye(3), ends.mean(axis=0))
        own = frictions(sim, [by_pair(system, {"floor": floor, "wall": wall})])
        found = sim.rollout(sim.initial_state(q[None], parameters=own), steps=250, progress=False)
        moved.append(np.abs(found.q[0, -1] - q).max())
        assert found.certificate.is_clean
    assert moved[0] < 1e-14 and moved[1] > 1e-3
