"""Events of rigid stops, ropes, dry friction and contacts that give: exact answers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from known_systems import on_ground
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import brentq

import phipsi as pp
from phipsi.simulation.impacts.contact_motion import ContactMotion

pytestmark = pytest.mark.usefixtures("machine_code")  # runs take thousands of evaluations

F, G = pp.forces, 9.81
INF = float("inf")


def happened(run: pp.Trajectory, what: str) -> list[Any]:
    return [e for e in run.events if e.name.endswith(what)]


def clean(run: pp.Trajectory) -> Any:
    """The certificate, which holds."""
    proof: Any = run.contacts.certificate
    assert proof.overlap < 1e-9 and proof.residual < 1e-9 and proof.outside < 1e-7
    assert proof.gain <= 1e-12 and proof.balance < 1e-7 and proof.dissipated > -1e-9
    return proof


@cache
def hinge() -> pp.Model:
    """A point of 1 kg on a rod of 1 m: q is its angle from the x axis, downward."""
    builder = pp.ModelBuilder()
    axis = pp.joints.Revolute((0, 1, 0))
    builder.add_body(
        "rod", joint=axis, inertia=pp.SpatialInertia(1.0, (1.0, 0, 0), (0, 1e-9, 1e-9))
    )
    return builder.build()


def ball(mass: float = 2.0) -> pp.Model:
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia.sphere(0.05, mass=mass)
    builder.add_body("ball", joint=pp.joints.Free(), inertia=inertia)
    return builder.build()


def pendulum_time(a: float, b: float, speed: float) -> float:
    """How long a pendulum takes from the angle a, with that speed, to b."""
    return quad(lambda x: 1 / np.sqrt(speed**2 + 2 * G * (np.sin(x) - np.sin(a))), a, b,
                epsabs=1e-13)[0]  # fmt: skip


@pytest.mark.parametrize("e", [0.0, 0.6, 1.0])
def test_a_pendulum_hits_a_stop(e: float) -> None:
    stop = F.JointLimit("rod", INF, upper=1.0, restitution=e)
    run = pp.simulate(hinge(), [0.0], [1.0], 0.9, forces=[stop])
    clean(run)
    hits = happened(run, "stop of rod hits")
    assert hits[0].t == pytest.approx(pendulum_time(0.0, 1.0, 1.0), abs=1e-9)
    speed = np.sqrt(1 + 2 * G * np.sin(1.0))
    assert hits[0].v_after[0] == pytest.approx(-e * speed, abs=1e-8)
    if e == 0:
        assert abs(run.q[-1, 0] - 1.0) < 1e-12 and len(hits) == 1
        assert run.contacts.joint_forces["stop"][-1, 0] == pytest.approx(-G * np.cos(1.0), abs=1e-8)
    elif e == 1:  # back to where it began, as fast
        t = 2 * hits[0].t
        assert run.at(t)[0][0] == pytest.approx(0.0, abs=1e-8)
        assert run.at(t)[1][0] == pytest.approx(-1.0, abs=1e-8)
        assert clean(run).dissipated == pytest.approx(0.0, abs=1e-8)


def test_bounces_on_a_stop_end() -> None:
    builder = pp.ModelBuilder()
    axis, inertia = pp.joints.Prismatic((0, 0, 1)), pp.SpatialInertia(mass=2.0)
    builder.add_body("load", joint=axis, inertia=inertia)
    stop = F.JointLimit("load", INF, lower=0.0, restitution=0.5)
    run = pp.simulate(builder.build(), [1.0], [0.0], 2.0, forces=[stop])
    (rest,) = happened(run, "stop of load rests")
    assert rest.t == pytest.approx(3 * np.sqrt(2 / G), abs=1e-9)
    assert clean(run).dissipated == pytest.approx(2 * G, abs=1e-8)
    assert run.contacts.joint_forces["stop"][-1, 0] == pytest.approx(2 * G, abs=1e-8)


def test_stops_rebound_in_fixed_steps_too() -> None:
    stop = F.JointLimit("rod", INF, upper=1.0, restitution=0.6)
    exact = pp.simulate(hinge(), [0.0], [1.0], 0.6, forces=[stop])
    off = []
    for h in (2e-3, 1e-3):
        sim = pp.Simulator(hinge(), [stop], dt=h, integrator="time_stepping")
        run = sim.rollout(sim.initial_state([0.0], [1.0]), steps=round(0.6 / h), record=("q", "v"))
        assert run.certificate.gain.max() < 1e-12 and run.certificate.is_clean
        off.append(abs(run.q[-1, 0] - exact.q[-1, 0]))
    assert off[1] < 0.7 * off[0] and off[1] < 3e-3
    bound = np.maximum.accumulate((0.5 * run.v[:, 0] ** 2 - G * np.sin(run.q[:, 0]))[::-1])[::-1]
    assert bound[0] < 0.5 + 1e-2  # energy of first order only


def test_a_rope_goes_slack_and_taut(monkeypatch: Any) -> None:
    """A ball on a rope is too slow for a loop: it leaves the circle, and falls into it again."""
    v0, model, rope = np.sqrt(3.5 * G), ball(), F.Rope("ball", "world", 1.0)
    start = [1, 0, 0, 0, 0, 0, -1.0], [0, 0, 0, v0, 0, 0]
    run = pp.simulate(model, *start, 1.5, forces=[rope])
    clean(run)
    slack, taut = happened(run, "slack")[0], happened(run, "taut")[0]
    z = (v0**2 - 2 * G) / (3 * G)  # v² = g z
    assert slack.q[6] == pytest.approx(z, abs=1e-8)
    x, speed = np.sqrt(1 - z * z), np.sqrt(G * z)

    def outside(t: float) -> float:
        return (x - speed * z * t) ** 2 + (z + speed * x * t - G / 2 * t * t) ** 2 - 1

    flight = brentq(outside, 0.1, 1.0, xtol=1e-14)
    assert taut.t - slack.t == pytest.approx(flight, abs=1e-7)
    along = taut.q[4:] @ taut.v[3:]
    assert along > 0.1 and taut.q_after[4:] @ taut.v_after[3:] == pytest.approx(0.0, abs=1e-9)
    tension = run.contacts.joint_forces["rope"][:, 0]
    assert tension[0] == pytest.approx(2 * (G + v0**2), rel=1e-9) and tension.min() > -1e-8
    own = ContactMotion.at

    def straight(self: Any, *args: Any) -> Any:
        found = own(self, *args)
        return found and found._replace(turning=0 * found.turning)

    monkeypatch.setattr(ContactMotion, "at", straight)  # a twin without centripetal forces
    twin = pp.simulate(model, *start, 0.1, forces=[rope])
    assert abs(twin.contacts.joint_forces["rope"][0, 0] - tension[0]) > 10


def test_ends_of_a_rope_rebound() -> None:
    rope = F.Rope("ball", "world", 1.0, restitution=0.5)
    run = pp.simulate(ball(), [1, 0, 0, 0, 0, 0, -0.5], np.zeros(6), 0.5, forces=[rope])
    first = happened(run, "taut")[0]
    assert first.t == pytest.approx(np.sqrt(1 / G), abs=1e-10)
    assert first.v_after[5] == pytest.approx(0.5 * np.sqrt(G), abs=1e-9)
    clean(run)
    for wrong in ({"restitution": 2.0}, {"restitution": 0.5, "stiffness": 1e3}):
        with pytest.raises(pp.errors.PhipsiError, match="restitution"):
            pp.simulate(ball(), [1, 0, 0, 0, 0, 0, -0.5], np.zeros(6), 0.1,
                        forces=[F.Rope("ball", "world", 1.0, **wrong)])  # fmt: skip


def test_a_joint_breaks_away_under_a_rising_torque() -> None:
    builder = pp.ModelBuilder()
    axis = pp.joints.Revolute((0, 0, 1))
    builder.add_body("disc", joint=axis, inertia=pp.SpatialInertia(1.0, (0, 0, 0), (0.1, 0.1, 0.1)))
    model, dry = builder.build(), F.JointFriction("disc", 2.0, velocity_scale=0)
    run = pp.simulate(model, [0.0], [0.0], 3.0, controller=lambda t, q, v: [t], forces=[dry])
    (slips,) = run.events
    assert slips.name == "friction in disc slips" and slips.t == pytest.approx(2.0, abs=1e-9)
    assert run.v[-1, 0] == pytest.approx(0.5 / 0.1, abs=1e-9)  # ∫ (t − 2)/I
    assert np.abs(run.q[run.t <= 2.0]).max() == 0.0
    assert_allclose(run.contacts.joint_forces["friction"][[0, -1], 0], [0.0, -2.0], atol=1e-12)
    assert clean(run).dissipated == pytest.approx(2.0 * run.q[-1, 0], rel=1e-9)
    # a joint that turns comes to rest after I ω/F, and is turned back by a torque above F
    back = pp.simulate(model, [0.0], [3.0], 1.0, controller=lambda t, q, v: [-5 * (t >= 0.5)],
                       forces=[dry], rate=2.0)  # fmt: skip
    assert [e.name.split()[-1] for e in back.events] == ["slips", "sticks", "slips"]
    assert back.events[1].t == pytest.approx(0.1 * 3.0 / 2.0, abs=1e-8)


@cache
def floor(**more: float) -> Any:
    """A ball of 2 kg and 0.1 m on a floor; the pair has half the stiffness given."""
    return on_ground(pp.shapes.Sphere(0.1), 2.0, material=pp.Material(**more))


def test_a_ball_on_a_floor_that_gives() -> None:
    system = floor(friction=0.5, stiffness=2e4, damping=40.0)
    own, m, v0 = system.contact_pairs.pairs[0].material, 2.0, 1.0
    k, d = own.stiffness, own.damping
    assert k == 1e4
    run = pp.simulate(system, [1, 0, 0, 0, 0, 0, 0.1], [0, 0, 0, 0, 0, -v0], 0.5)
    depth, rate = -m * G / k, d / (2 * m)
    w = np.sqrt(k / m - rate**2)

    def gap(t: float) -> float:
        a, b = -depth, (-v0 - rate * depth) / w
        return depth + np.exp(-rate * t) * (a * np.cos(w * t) + b * np.sin(w * t))

    def force(t: float, h: float = 1e-6) -> float:
        return -k * gap(t) - d * (gap(t + h) - gap(t - h)) / (2 * h)

    first = happened(run, "lifts off")[0]
    assert first.t == pytest.approx(brentq(force, 0.02, 0.06), abs=1e-8)
    assert first.q[6] - 0.1 == pytest.approx(gap(first.t), abs=1e-9)
    assert first.q[6] < 0.1  # it leaves before its surface is back: it never pulls
    proof = clean(run)
    later = pp.simulate(system, run.q[-1], run.v[-1], 3.0)
    assert later.q[-1, 6] - 0.1 == pytest.approx(depth, abs=1e-8)  # rests at −m g/k
    assert proof.dissipated > 0.1


@pytest.mark.parametrize("v", [0.2, 1.0])
def test_restitution_after_hunt_and_crossley(v: float) -> None:
    system = floor(friction=0.0, stiffness=2e5, hunt_crossley=2.0).with_gravity((0, 0, 0))
    alpha = system.contact_pairs.pairs[0].material.hunt_crossley
    run = pp.simulate(system, [1, 0, 0, 0, 0, 0, 0.11], [0, 0, 0, 0, 0, -v], 0.02 + 0.02 / v)

    def energy(x: float) -> float:
        return alpha * x - np.log1p(alpha * x)

    exact: Any = brentq(lambda e: energy(v) - energy(-e * v), 1e-3, 1.0)
    assert run.v[-1, 5] / v == pytest.approx(exact, abs=1e-8)
    assert clean(run).dissipated == pytest.approx(v * v * (1 - exact**2), rel=1e-7)


def test_friction_on_a_floor_that_gives() -> None:
    system = floor(friction=0.2, stiffness=2e4, damping=40.0)
    rest = 0.1 - 2 * G / 1e4
    run = pp.simulate(system, [1, 0, 0, 0, 0, 0, rest], [0, 0, 0, 1.0, 0, 0], 0.3)
    (rolls,) = happened(run, "sticks")
    # it rubs in the surface of the floor, above its lowest point: friction has the arm `rest`
    clean(run)
    speed, spin = run.v[-1, 3:], run.v[-1, :3]
    share = 1 + rest**2 / (0.4 * 0.1**2)
    assert rolls.t == pytest.approx(1 / (0.2 * G * share), rel=1e-8)
    assert run.contacts.modes[-1, 0] == 2
    assert np.linalg.norm(speed) == pytest.approx(np.linalg.norm(spin) * rest, rel=1e-9)


def test_all_of_them_together_and_fixed_steps() -> None:
    """An arm with a stop, dry friction and a rope, whose tip touches a floor that gives."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.25, 0, 0), (0.01, 0.02, 0.02))
    axis, X = pp.joints.Revolute((0, 1, 0)), pp.Pose(None, (0.5, 0, 0))
    top = pp.Pose(None, (0, 0, 0.6))
    builder.add_body("upper", joint=axis, inertia=inertia, placement=top)
    builder.add_body("lower", parent="upper", joint=axis, inertia=inertia, placement=X)
    builder.add_shape("tip", "lower", pp.shapes.Sphere(0.03), X)
    model = builder.build()
    soft = pp.Material(0.4, stiffness=2e4, damping=100.0)
    system = pp.System(model, contacts=pp.Contacts(model, ground=True, material=soft))
    laws = [
        F.JointLimit("upper", INF, upper=0.35, restitution=0.3),
        F.JointFriction("lower", 0.8, velocity_scale=0),
        F.Rope(("lower", (0.5, 0, 0)), ("world", (0, 0, 1.2)), 1.4),
    ]
    exact = pp.simulate(system, [0.1, 0.6], [0, 0], 0.5, forces=laws)
    clean(exact)
    names = {e.name for e in exact.events}
    assert {"stop of upper hits", "friction in lower slips", "tip|ground slips"} <= names
    assert set(exact.contacts.joint_forces) == {"stop", "friction", "rope"}
    off = []
    for h in (4e-4, 2e-4, 1e-4):
        steps = pp.simulate(system, [0.1, 0.6], [0, 0], 0.5, forces=laws, dt=h,
                            integrator="time_stepping")  # fmt: skip
        off.append(np.abs(steps.q[-1] - exact.q[-1]).max())
    assert off[2] < 3e-3 and off[2] < 0.7 * off[0]


def test_what_does_not_go_with_rows() -> None:
    stop = F.JointLimit("rod", INF, upper=1.0)
    with pytest.raises(pp.errors.PhipsiError, match="rod.* beyond its rigid upper limit"):
        pp.simulate(hinge(), [1.2], [0.0], 0.1, forces=[stop])
    with pytest.raises(
        pp.errors.PhipsiError,
        match=r"JointLimit\('rod'.* is rigid, or dry friction, and has no force law",
    ):
        pp.simulate(hinge(), [0.0], [0.0], 0.1, forces=[stop], integrator="rk4")
    with pytest.raises(pp.errors.PhipsiError, match="prescribed"):
        pp.simulate(hinge(), [0.0], [0.0], 0.1, forces=[stop], prescribed={"rod": 0.0})
