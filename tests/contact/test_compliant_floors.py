"""Boxes with friction on floors that give: events, fixed steps, and forces that are not unique."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from known_systems import on_ground

import phipsi as pp
from phipsi.simulation.modes.indeterminate_forces import farthest_inside

pytestmark = pytest.mark.usefixtures("machine_code")

G, MU, SIZE = 9.81, 0.5, (0.2, 0.2, 0.1)


def make(friction: float = MU, tilt: float = 0.0, damping: float = 60.0) -> pp.System:
    builder = pp.ModelBuilder(gravity=(G * np.sin(tilt), 0, -G * np.cos(tilt)))
    builder.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia.box(SIZE, mass=1.0))
    builder.add_shape("box", "box", pp.shapes.Box(SIZE))
    model = builder.build()
    material = pp.Material(friction, stiffness=2e4, damping=damping)
    return pp.System(model, contacts=pp.Contacts(model, ground=True, material=material))


SYSTEM = make()
STIFF = 4 * 1e4  # of four corners, each in series with the floor
REST = 0.05 - G / STIFF


def named(run: Any, what: str) -> list[float]:
    return [e.t for e in run.events if e.name.endswith(what)]


def stepped(q: Any, v: Any, h: float) -> Any:
    """Coordinates after 0.3 s of fixed steps."""
    sim = pp.Simulator(SYSTEM, dt=h, integrator="time_stepping")
    state = sim.initial_state(q, v)
    sim.step(state, steps=round(0.3 / h))
    return state.q


def test_a_block_slides_to_a_stop() -> None:
    run = pp.simulate(SYSTEM, [1, 0, 0, 0, 0, 0, REST], [0, 0, 0, 1.0, 0, 0], 0.3)
    assert named(run, " slips") == [0.0]
    (stop,) = named(run, " sticks")
    # momentum: v − v₀ = −μ ∫ f_n/m dt = −μ (g t + ż), whatever the box does on its springs
    slides = run.t < stop
    pose = pp.poses(SYSTEM.model, run.q)[:, 0, :3, :3]
    v = np.einsum("tij,tj->ti", pose, run.v[:, 3:])
    momentum = v[:, 0] + MU * (G * run.t + v[:, 2])
    assert np.abs(momentum[slides] - 1.0).max() < 1e-9
    assert stop == pytest.approx(1 / (MU * G), abs=1e-4)
    assert run.q[-1, 4] == pytest.approx(1 / (2 * MU * G), abs=1e-4)  # apart from the transient
    assert np.abs(run.v[-1]).max() < 1e-5  # rocks less and less
    assert run.q[-1, 6] == pytest.approx(REST, abs=1e-9)
    proof: Any = run.contacts.certificate
    assert abs(proof.balance) < 1e-9 and proof.outside < 1e-9
    off = []
    for h in (2e-4, 1e-4):
        off.append(np.abs(stepped(run.q[0], run.v[0], h) - run.q[-1]).max())
    assert off[1] < 6e-5 and off[1] == pytest.approx(0.5 * off[0], rel=0.02)


def test_a_thrown_box_comes_to_rest() -> None:
    """It lands on a corner, rocks on edges whose two corners stick, and lies on four."""
    X = pp.Pose.from_axis_angle((0.2, 1, 0.1), 0.06)
    q = np.concatenate([X.quaternion, [0, 0, 0.06]])
    v = [0.2, 0.5, 1.0, 0.2, 0.1, 0.0]
    run = pp.simulate(SYSTEM, q, v, 0.3)
    assert len(run.events) < 60
    assert np.abs(run.v[-1]).max() < 1e-4
    assert (run.contacts.modes[-1] == 2).all()
    assert run.q[-1, 6] == pytest.approx(REST, abs=1e-6)
    proof: Any = run.contacts.certificate
    assert abs(proof.balance) < 1e-8 and proof.outside < 1e-9
    off = []
    for h in (2e-4, 5e-5):
        off.append(np.abs(stepped(q, v, h) - run.q[-1]).max())
    assert off[1] < 5e-4 and off[1] < 0.5 * off[0]


@pytest.mark.parametrize(("tilt", "ends"), [(0.3, " sticks"), (0.6, " slips")])
def test_a_block_that_begins_at_a_slope_slips_before_it_is_carried(tilt: float, ends: str) -> None:
    """It touches with no force yet, which holds nothing, whatever the slope."""
    system = make(tilt=tilt)
    run = pp.simulate(system, [1, 0, 0, 0, 0, 0, 0.05], np.zeros(6), 0.05)
    assert named(run, " slips") == [0.0]
    assert run.events[-1].name.endswith(ends)
    slides = run.t <= run.events[-1].t if ends == " sticks" else run.t >= 0
    pose = pp.poses(system.model, run.q)[:, 0, :3, :3]
    v = np.einsum("tij,tj->ti", pose, run.v[:, 3:])
    carried = G * np.cos(tilt) * run.t + v[:, 2]  # ∫ f_n/m dt
    momentum = v[:, 0] - G * np.sin(tilt) * run.t + MU * carried
    assert np.count_nonzero(slides) > 3 and np.abs(momentum[slides]).max() < 1e-9
    proof: Any = run.contacts.certificate
    assert abs(proof.balance) < 1e-9 and proof.outside < 1e-9


@pytest.mark.parametrize(("friction", "word"), [(0.1, "slips"), (2.0, "sticks")])
def test_a_corner_that_falls_straight_slips_by_the_forces_to_come(
    friction: float, word: str
) -> None:
    """It turns its body as soon as it is pressed, with no velocity and no force along the floor."""
    system = make(friction, damping=0.0)
    X = pp.Pose.from_axis_angle((0.2, -1, 0.4), 0.7)
    q = np.concatenate([X.quaternion, [0, 0, 0.12]])
    run = pp.simulate(system, q, np.zeros(6), 0.06)
    assert run.events[0].name.endswith(word)
    proof: Any = run.contacts.certificate
    assert abs(proof.balance) < 1e-8 and proof.outside < 1e-9


def test_a_ball_that_lands_rolling_rolls_on() -> None:
    """As it sinks in, its lever becomes shorter, and no force holds it at first: it slips a bit."""
    material = pp.Material(MU, stiffness=1e4, hunt_crossley=0.5)
    system = on_ground(pp.shapes.Sphere(0.1), material=material)
    run = pp.simulate(system, [1, 0, 0, 0, 0, 0, 0.1001], [0, 5.0, 0, 0.5, 0, 0], 0.02)
    assert [e.name.split()[-1] for e in run.events] == ["slips", "sticks"]
    pose = pp.poses(system.model, run.q)[:, 0, :3, :3]
    v = np.einsum("tij,tj->ti", pose, run.v[:, 3:])
    rolls = run.t > run.events[1].t
    assert rolls.any() and np.abs(v[:, 0] - run.q[:, 6] * run.v[:, 1])[rolls].max() < 1e-9
    proof: Any = run.contacts.certificate
    assert abs(proof.balance) < 1e-9 and proof.outside < 1e-9


def test_damping_begins_where_bodies_touch() -> None:
    """A surface that is approached at 2 m/s does not push from d v/k = 6 mm away."""
    q = np.array([1, 0, 0, 0, 0, 0, 0.05])
    force = []
    for gap in (1e-3, -1e-3):
        q[6] = 0.05 + gap
        after = pp.contact_step(SYSTEM, q, [0, 0, 0, 0, 0, -2.0], dt=1e-6)
        force.append((after.v[5] + 2.0) / 1e-6 + G)
    assert force[0] == pytest.approx(0.0, abs=1e-6)
    pairs: Any = SYSTEM.contact_pairs
    own = pairs.pairs[0].material
    assert force[1] == pytest.approx(4 * (1e-3 * own.stiffness + 2.0 * own.damping), rel=1e-3)


@pytest.mark.parametrize("twin", [False, True])
def test_friction_between_bodies_that_give_turns_nothing(twin: bool, monkeypatch: Any) -> None:
    """Both bodies rub at one point: angular momentum stays. A twin with two points must fail."""
    if twin:
        monkeypatch.setattr("phipsi.contact.slot_rows.shared_points", lambda _, slots: slots)
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    for name in "ab":
        inertia = pp.SpatialInertia.sphere(0.1, mass=1.0)
        builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
        builder.add_shape(name, name, pp.shapes.Sphere(0.1))
    model = builder.build()
    material = pp.Material(0.3, stiffness=2e3)
    system = pp.System(model, contacts=pp.Contacts(model, material=material))
    q = model.neutral().reshape(2, 7)
    q[1, 4:] = 0.05, 0.0, 0.195
    v = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5, 0, -1.0]
    run = pp.simulate(system, q.ravel(), v, 0.1, integrator="time_stepping", dt=2e-4)
    momentum = pp.momentum(model, run.q, run.v)[:, :3]
    drift = np.abs(momentum - momentum[0]).max()
    assert np.abs(run.v[-1, :3]).max() > 1.0  # friction has turned them
    assert (drift > 1e-3) if twin else (drift < 1e-5)


def test_the_forces_farthest_inside() -> None:
    """Two corners of an edge share S along it: the largest slack is that of shares by bounds."""
    by_force = np.array([[[1.0]], [[-1.0]]])
    for pull, bounds in ((1.5, (1.0, 1.0)), (1.5, (0.6, 1.0)), (1.7, (0.6, 1.0))):
        bound, force = np.array(bounds), np.full((2, 1), pull / 2)
        (y,) = farthest_inside(bound, force, np.zeros((2, 1)), by_force)
        slack = bound - np.abs(force[:, 0] + [y, -y])
        assert slack == pytest.approx(np.full(2, (bound.sum() - pull) / 2), abs=1e-10)


def test_forces_of_a_jam_stay_of_their_size() -> None:
    """The more it is pressed, the better it holds: no slack is the largest."""
    bound, force, by_force = np.ones(2), np.full((2, 1), 2.0), np.full((2, 1, 1), 0.1)
    (y,) = farthest_inside(bound, force, np.ones((2, 1)), by_force)
    slack = bound + y - np.abs(force[:, 0] + 0.1 * y)
    assert (slack >= 2.0).all() and y < 100


def test_the_forces_farthest_inside_cannot_be_better() -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        bound, force = rng.uniform(0.1, 1.0, 4), rng.normal(size=(4, 2))
        by_bound, by_force = 0.1 * rng.normal(size=(4, 5)), rng.normal(size=(4, 2, 5))

        y = farthest_inside(bound, force, by_bound, by_force)
        near = rng.normal(size=(500, 5)) * 10.0 ** rng.uniform(-6, 0, (500, 1))
        tries = y + np.concatenate([np.zeros((1, 5)), near])
        size = np.linalg.norm(force + np.einsum("gdm,tm->tgd", by_force, tries), axis=2)
        slack = (bound + tries @ by_bound.T - size).min(axis=1)
        assert slack.max() <= slack[0] + 1e-11
