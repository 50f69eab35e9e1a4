"""Event-driven runs beside other things: arms, users' events, controllers, energy, fixed steps."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from amounts import mostly
from contact_problems import G, Scene, about_y, leg
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.simulation.impacts.contact_motion import ContactMotion
from phipsi.simulation.modes import contact_events
from phipsi.simulation.modes.contact_modes import ContactModes

pytestmark = pytest.mark.usefixtures("machine_code")  # runs take thousands of evaluations

SPHERE, BOX = pp.shapes.Sphere, pp.shapes.Box


@cache
def arm(restitution: float = 0.0) -> Any:
    """Two links whose tip touches the ground: not all bodies have shapes."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.25, 0, 0), (0.01, 0.02, 0.02))
    hinge = pp.joints.Revolute(axis=(0, 1, 0))
    X = pp.Pose(None, (0, 0, 0.6))
    builder.add_body("upper", parent="world", joint=hinge, inertia=inertia, placement=X)
    X = pp.Pose(None, (0.5, 0, 0))
    builder.add_body("lower", parent="upper", joint=hinge, inertia=inertia, placement=X)
    builder.add_shape("tip", "lower", SPHERE(0.03), X)
    model = builder.build()
    material = pp.Material(0.4, restitution=restitution)
    return pp.System(model, contacts=pp.Contacts(model, ground=True, material=material))


@cache
def sliding() -> Any:
    """A ball that slides until it rolls."""
    scene = Scene(friction=0.2)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), (1.0, 0, 0))
    return scene.system()


def balls() -> Any:
    """Two balls of different sizes over a floor, and a box."""
    scene = Scene(friction=0.4, torsional_friction=0.01, rolling_friction=0.002)
    scene.add("one", SPHERE(0.1), 1.0, (0, 0, 0.3))
    scene.add("other", SPHERE(0.2), 1.0, (0.3, 0.1, 0.5))
    scene.add("box", BOX((0.2, 0.3, 0.1)), 1.0, (0.1, 0.5, 0.4))
    return scene.system(exclude=[("one", "box")])[0]


@pytest.mark.parametrize("make", [arm, balls])
def test_rows_along_a_motion(make: Any) -> None:
    system = make()
    model, rng = system.model, np.random.default_rng(2)
    q = model.integrate(model.neutral(), 0.3 * rng.normal(size=model.nv))
    v, vdot = rng.normal(size=model.nv), rng.normal(size=model.nv)
    rows = ContactMotion(system.contact_pairs)
    h = 2e-5

    def at(t: float) -> Any:
        return rows.at(model.integrate(q, t * v + t * t / 2 * vdot), v + t * vdot, vdot)

    now = at(0.0)
    later, before = at(h), at(-h)
    change = (later.rate - before.rate) / (2 * h)
    assert_allclose(now.straight + now.turning, change, rtol=1e-5, atol=1e-5)
    gap = (later.gap - before.gap) / (2 * h)
    assert_allclose(now.rate[rows.layout.normals], gap, atol=1e-6)
    assert np.abs(change - now.straight).max() > 0.1  # the rows do change


def test_an_arm_on_the_ground_and_a_twin_that_must_fail(monkeypatch: Any) -> None:
    run = pp.simulate(arm(), [0.1, 0.2], [0, 0], 1.0)
    proof: Any = run.contacts.certificate
    assert [e.name for e in run.events] == ["tip|ground hits", "tip|ground slips"]
    assert proof.overlap < 2e-9 and proof.balance < 1e-8 and proof.dissipated > 1
    own = ContactMotion.at

    def without_turning(self: Any, *args: Any) -> Any:
        found = own(self, *args)
        return found and found._replace(turning=0 * found.turning)

    monkeypatch.setattr(ContactMotion, "at", without_turning)
    twin = pp.simulate(arm(), [0.1, 0.2], [0, 0], 0.31)
    assert len(twin.events) > 4


def test_what_begins_again_after_an_event_is_the_same(monkeypatch: Any) -> None:
    """As where a normal has turned behind an event: modes, names, rests and energy are of both."""
    scene = Scene(friction=0.3, restitution=0.4)
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.11), (0.1, 0, -0.3))
    system, q, v = scene.system()
    once = pp.simulate(system, q, v, 0.15)
    names = [e.name.split()[-1] for e in once.events]
    assert names[-2:] == ["sticks", "rests"] and set(names[:-2]) == {"hits"}
    monkeypatch.setattr(contact_events, "_TURNED", -1.0)  # after every event
    twice = pp.simulate(system, q, v, 0.15)
    assert [e.name for e in twice.events] == [e.name for e in once.events]
    assert_allclose([e.t for e in twice.events], [e.t for e in once.events], atol=1e-12)
    assert_allclose(twice.q[-1], once.q[-1], atol=1e-12)
    proofs: Any = [x.contacts.certificate for x in (once, twice)]
    assert proofs[0].events == proofs[1].events and abs(proofs[1].balance) < 1e-9
    assert proofs[1].dissipated == pytest.approx(proofs[0].dissipated, rel=1e-9)


@pytest.mark.parametrize("e", [0.0, 0.6])
def test_fixed_steps_come_to_the_same(e: float) -> None:
    """Halving the step halves its distance from the run with events."""
    system, end = arm(e), 0.5
    exact = pp.simulate(system, [0.1, 0.2], [0, 0], end).q[-1]
    off = []
    for dt in (4e-4, 2e-4, 1e-4):
        steps = pp.simulate(system, [0.1, 0.2], [0, 0], end, integrator="time_stepping", dt=dt)
        off.append(np.abs(steps.q[-1] - exact).max())
    assert off[2] < 1e-3 and off[2] < 0.7 * off[0]


@cache
def walker(friction: float) -> Any:
    """A trunk on a slide, on a four-bar leg whose foot touches the ground with a heel and a toe."""
    system, q = leg(friction)
    return system, *system.project(q, np.array([0, 2.0, -2.0, 2.0]))


def test_contacts_and_loops_with_events() -> None:
    system, q, v = walker(0.1)
    run = pp.simulate(system, q, v, 0.2)
    names = [e.name for e in run.events]
    assert names == [f"{x}|ground {what}" for what in ("hits", "slips") for x in ("heel", "toe")]
    proof: Any = run.contacts.certificate
    assert proof.overlap < 1e-9 and proof.balance < 1e-8 and proof.dissipated > 0.1
    assert np.abs(run.constraint_residuals).max() < 1e-10
    off = []
    for dt in (4e-4, 2e-4):
        steps = pp.simulate(system, q, v, 0.2, integrator="time_stepping", dt=dt)
        off.append(np.abs(steps.q[-1] - run.q[-1]).max())
    assert off[1] < 4e-4 and 1.8 < off[0] / off[1] < 2.2
    with pytest.raises(pp.errors.PhipsiError, match="stabilization"):
        pp.simulate(system, q, v, 0.2, stabilization="baumgarte")


def test_forces_know_the_loops() -> None:
    """What forces at the feet do, against the whole matrix [ℳ −G*; G 0]."""
    system, q, _ = walker(0.1)
    model = system.model
    metric: Any = ConstraintMetric(system.rows, q[None])
    state: Any = ContactMotion(system.contact_pairs, lambda q: metric).at(q, 0 * q, 0 * q)
    G_, n = metric.whole[0], model.nv
    names = [model.body_names[i] for i in system.contact_pairs.bodies]
    J = pp.jacobian(model, q, names)
    zeros = np.zeros((len(G_), len(G_)))
    whole = np.block([[pp.mass_matrix(model, q), -G_.T], [G_, zeros]])
    right = np.vstack([J.T, np.zeros((len(G_), J.shape[0]))])
    wanted = np.linalg.lstsq(whole, right, rcond=1e-12)[0][:n]
    assert_allclose(state.push, wanted, atol=1e-10)
    assert_allclose(state.admittance, J @ wanted, atol=1e-10)
    tree: Any = ContactMotion(system.contact_pairs).at(q, 0 * q, 0 * q)
    assert np.abs(tree.admittance - state.admittance).max() > 0.1


def test_painleve_a_rod_jams() -> None:
    """Beyond μ = 4/3, at tan θ = 2, a rod pushed over its tip has no finite forces (B6)."""
    length, angle = 1.0, np.arctan(2.0)
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (1 / 12, 1 / 12, 1e-4))
    builder.add_body("rod", joint=pp.joints.Free(), inertia=inertia)
    r = 1e-6
    builder.add_shape("tip", "rod", SPHERE(r), pp.Pose(None, (0, 0, -length / 2)))
    model = builder.build()
    R = about_y(angle - np.pi / 2)
    q = [*pp.Pose(R).quaternion, *(R @ [0, 0, length / 2] + [0, 0, r])]
    v = [0, 0, 0, *(R.T @ [1.0, 0, 0])]
    for friction, jams in ((1.2, False), (1.5, True)):
        material = pp.Material(friction)
        system = pp.System(model, contacts=pp.Contacts(model, ground=True, material=material))
        run = pp.simulate(system, q, v, 1e-3)
        assert any(e.name == "tip|ground jams" for e in run.events) == jams
        proof: Any = run.contacts.certificate
        assert proof.gain <= 0 and proof.balance < 1e-9
        assert (proof.dissipated > 0.1) == jams


def test_a_rocking_block_comes_to_rest() -> None:
    b, h, tilt = 0.05, 0.15, 0.02
    scene = Scene(friction=10.0)
    corner = about_y(-tilt) @ np.array([-b, 0, -h])
    scene.add("block", BOX((2 * b, 0.1, 2 * h)), 1.0, -corner, turned=about_y(-tilt))
    system, q, v = scene.system()
    run = pp.simulate(system, q, v, 1.0)
    hits = [e for e in run.events if e.name == "block|floor hits"]
    ratio = 1 - 1.5 * np.sin(np.arctan2(b, h)) ** 2
    for hit in hits[:6]:
        assert abs(hit.v_after[1] / hit.v[1]) == pytest.approx(ratio, abs=1e-6)
    assert len(hits) > 20 and np.abs(run.v[-1]).max() < 1e-12
    assert run.q[-1, 6] == pytest.approx(h, abs=1e-12)
    assert run.contacts.certificate.balance < 1e-8


@pytest.mark.parametrize("seed", mostly([1, 3], 3))
def test_energy_of_random_runs(seed: int) -> None:
    """Boxes that tumble and balls that hit each other: work is accounted for, never gained."""
    rng = np.random.default_rng(seed)
    scene = Scene(friction=0.5, restitution=0.3)
    R = pp.Pose.from_axis_angle(rng.normal(size=3), rng.uniform(0, 3)).rotation
    v, omega = rng.normal(size=(2, 3))
    scene.add("box", BOX((0.2, 0.3, 0.1)), 1.0, (0, 0, 0.3), v, 3 * omega, turned=R)
    scene.add("ball", SPHERE(0.1), 2.0, (0.1, 0.05, 0.6), -v)
    system, q, v = scene.system()
    run = pp.simulate(system, q, v, 0.5)
    proof: Any = run.contacts.certificate
    assert proof.events > 3 and proof.balance < 1e-7 and proof.gain <= 1e-12
    assert proof.overlap < 1e-8 and proof.residual < 1e-9
    work = run.quadratures["contacts"]
    assert np.diff(work).max() < 1e-9 and work[-1] < -1.0
    assert_allclose(run.energy - run.energy[0], run.work, atol=1e-7)


def test_events_of_users_beside_those_of_contacts() -> None:
    system, q, v = sliding()
    passed = pp.Event(lambda t, q, v: q[4] - 0.05, name="passed")

    def kick(t: float, q: Any, v: Any) -> Any:
        return q, v + [0, 0, 0, 0, 0, 3.0]

    rolls = 2 / (7 * 0.2 * G)
    kicked = pp.Event(lambda t, q, v: t - 0.2, action=kick, name="kicked")
    run = pp.simulate(system, q, v, 0.3, events=[passed, kicked])
    found = [(e.name, e.t) for e in run.events]
    names = [name for name, _ in found]
    assert names == [
        "ball|floor slips", "passed", "ball|floor sticks", "kicked", "ball|floor lifts off",
    ]  # fmt: skip
    assert dict(found)["ball|floor sticks"] == pytest.approx(rolls, abs=5e-9)
    assert run.contacts.modes[-1, 0] == 0
    stop = pp.Event(lambda t, q, v: t - 0.1, action="stop", name="end")
    assert pp.simulate(system, q, v, 0.3, events=stop).t[-1] == pytest.approx(0.1, abs=1e-12)


def test_a_controller_pulls_until_a_sled_slips() -> None:
    """Stick to slip by a force that grows: at F = μ m g exactly; sampled, at the next sample."""
    builder = pp.ModelBuilder()
    for name, parent, axis, mass in (("x", "world", (1, 0, 0), 0.2), ("z", "x", (0, 0, 1), 0.8)):
        inertia, slide = pp.SpatialInertia(mass=mass), pp.joints.Prismatic(axis=axis)
        builder.add_body(name, parent=parent, joint=slide, inertia=inertia)
    builder.add_shape("sled", "z", SPHERE(0.1), pp.Pose(None, (0, 0, 0.1)))
    model = builder.build()
    contacts = pp.Contacts(model, ground=True, material=pp.Material(0.5))
    system, q, v = pp.System(model, contacts=contacts), np.zeros(2), np.zeros(2)

    def pull(t: float, q: Any, v: Any) -> Any:
        return np.array([10 * t, 0])

    begins = 0.5 * 0.8 * G / 10  # s
    run = pp.simulate(system, q, v, begins + 0.1, controller=pull)
    (slip,) = (e for e in run.events if e.name == "sled|ground slips")
    assert slip.t == pytest.approx(begins, abs=1e-9)
    assert run.q[-1, 0] == pytest.approx(10 * 0.1**3 / 6, abs=1e-9)
    sampled = pp.simulate(system, q, v, 0.51, controller=pull, rate=20.0)
    (slip,) = (e for e in sampled.events if e.name == "sled|ground slips")
    assert slip.t == pytest.approx(np.ceil(begins * 20) / 20, abs=1e-9)


def test_output_times_and_samples_of_contacts() -> None:
    system, q, v = sliding()
    times = np.linspace(0, 0.3, 7)
    run = pp.simulate(system, q, v, 0.3, output_times=times)
    assert_allclose(run.t, times)
    assert run.contacts.forces.shape == (7, 1, 6) and run.contacts.modes.shape == (7, 1)
    assert_allclose(run.contacts["ball|floor"].force[:, 2], G, atol=1e-9)
    assert run.contacts.check()
    with pytest.raises(pp.errors.PhipsiError, match="no record of contacts"):
        _ = run.resample([0.1]).contacts


def test_overlap_at_the_start() -> None:
    system, q, v = sliding()
    low = q.copy()
    low[6] -= 1e-4
    run = pp.simulate(system, low, v, 0.01)
    assert run.q[0, 6] == pytest.approx(0.1, abs=1e-12)
    low[6] -= 0.05
    with pytest.raises(pp.errors.PhipsiError, match="overlap by"):
        pp.simulate(system, low, v, 0.01)


def rock(mesh: bool, friction: float = 0.3) -> Any:
    """A brick over a floor, as a box or as a mesh."""
    size = np.array([0.2, 0.3, 0.1])
    corners = [size / 2 * [x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    builder = pp.ModelBuilder()
    builder.add_body(
        "rock", joint=pp.joints.Free(), inertia=pp.SpatialInertia.box(tuple(size), mass=1.0)
    )
    shape = pp.shapes.ConvexMesh(corners) if mesh else BOX(tuple(size))
    builder.add_shape("rock", "rock", shape)
    model = builder.build()
    material = pp.Material(friction, restitution=0.2)
    return pp.System(model, contacts=pp.Contacts(model, ground=True, material=material))


def test_a_mesh_tumbles_as_the_box_that_it_is() -> None:
    q, v = [0.8, 0.36, 0.48, 0, 0, 0, 0.3], [2.0, 1.0, -1.0, 0.5, 0, 0]
    one, other = (pp.simulate(rock(x), q, v, 0.3) for x in (True, False))
    assert [e.name for e in one.events] == [e.name for e in other.events] and one.events
    assert_allclose([e.t for e in one.events], [e.t for e in other.events], atol=1e-9)
    assert_allclose(one.q[-1], other.q[-1], atol=1e-8)
    assert one.contacts.modes.shape[1] == 8  # a slot for every corner
    force = one.contacts["rock|ground"].force
    assert force.shape == (len(one), 3) and np.isfinite(force).all()


def test_a_ball_rolls_on_a_mesh() -> None:
    """On a slab of corners as on the plane that its upper face is in."""
    scene = Scene(friction=0.2, floor=False)
    slab = [[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-0.2, 0)]
    scene.builder.add_shape("slab", "world", pp.shapes.ConvexMesh(slab), material=pp.Material(0.2))
    scene.add("ball", SPHERE(0.1), 1.0, (0, 0, 0.1), (1.0, 0, 0))
    system, q, v = scene.system()
    run = pp.simulate(system, q, v, 0.3)
    (stop,) = [e for e in run.events if e.name.endswith("sticks")]
    assert stop.t == pytest.approx(2 / (7 * 0.2 * G), abs=1e-7)
    assert stop.q[4] == pytest.approx(12 / (49 * 0.2 * G), abs=1e-7)


def held_arm() -> tuple[pp.System, Any]:
    builder = pp.ModelBuilder()
    ball, hinge = pp.SpatialInertia.sphere(0.1, mass=1.0), pp.joints.Revolute((0, 1, 0))
    builder.add_body("slide", joint=pp.joints.Prismatic((0, 0, 1)), inertia=ball)
    arm = pp.SpatialInertia(0.3, (0, 0, 0.1), 0.01)
    builder.add_body("arm", parent="slide", joint=hinge, inertia=arm)
    builder.add_shape("skin", "slide", pp.shapes.Sphere(0.1))
    model = builder.build()

    @pp.law
    def hold(q, v, *, kp, kd, target):
        return kp * (target - q) - kd * v

    law = hold.on("arm").bind(kp=20.0, kd=2.0, target=0.3)
    return pp.System(model, contacts=pp.Contacts(model, ground=True)), law


def test_laws_are_controllers_of_runs_with_contacts():
    system, law = held_arm()
    start = [0.3, 0.1], [0.0, 0.0], 0.4

    def by_hand(t, q, v):
        return np.array([0.0, 20 * (0.3 - q[1]) - 2 * v[1]])

    found = pp.simulate(system, *start, controller=law)
    wanted = pp.simulate(system, *start, controller=by_hand)
    assert [e.name for e in found.events] == [e.name for e in wanted.events] != []
    np.testing.assert_allclose(found.q, wanted.q, atol=1e-12)
    np.testing.assert_allclose(found.tau, wanted.tau, atol=1e-10)
    twin = pp.simulate(system, *start)
    assert abs(twin.q[-1] - wanted.q[-1]).max() > 1e-2
    steps: Any = {"integrator": "time_stepping", "dt": 1e-3}
    stepped = pp.simulate(system, *start, controller=law, **steps)
    np.testing.assert_allclose(stepped.q[-1], wanted.q[-1], atol=5e-3)
    by_law = [by_hand(*x) for x in zip(stepped.t, stepped.q, stepped.v, strict=True)]
    np.testing.assert_allclose(stepped.tau[:, 1], np.array(by_law)[:, 1], atol=1e-9)


def test_laws_with_memory_need_steps():
    system, _ = held_arm()

    @pp.law(rate=100.0)
    def held(q):
        return np.stack([0.0, -q[1]])

    with pytest.raises(pp.errors.PhipsiError, match="the law 'held' is sampled or has states"):
        pp.simulate(system, [0.3, 0.1], [0.0, 0.0], 0.1, controller=held)


@cache
def can(friction: float) -> Any:
    """A cylinder over a floor."""
    builder = pp.ModelBuilder()
    across, along = (3 * 0.1**2 + 0.25**2) / 12, 0.1**2 / 2
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), (across, across, along))
    builder.add_body("can", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("can", "can", pp.shapes.Cylinder(0.1, 0.25))
    model = builder.build()
    return pp.System(
        model, contacts=pp.Contacts(model, ground=True, material=pp.Material(friction))
    )


@pytest.mark.parametrize(("seed", "friction", "end"), [(8, 0.1, 0.6), (10, 0.5, 0.75)])
def test_modes_of_a_rolling_can_end(seed: int, friction: float, end: float, monkeypatch) -> None:
    """Points on its rims are at the floor once in a turn, which is no impact."""
    rng = np.random.default_rng(seed)
    turned = rng.normal(size=4)
    q = np.concatenate([turned / np.linalg.norm(turned), [0, 0, 0.4]])
    v = np.concatenate([4 * rng.normal(size=3), rng.normal(size=3)])
    run = pp.simulate(can(friction), q, v, end)
    proof: Any = run.contacts.certificate
    assert proof.overlap < 3e-9 and proof.outside < 1e-7 and proof.gain <= 1e-12
    assert proof.balance < 1e-6 and len(run.events) < 40
    if seed == 8:  # a twin for which they are
        monkeypatch.setattr(ContactModes, "shallow", lambda *_: -1.0)
        with pytest.raises(pp.errors.PhipsiError, match="indefinitely"):
            pp.simulate(can(friction), q, v, end)


def test_what_grazes_knows_the_forces_of_what_touches() -> None:
    """A plank stands on its foot; its weight, on one side, lifts the end on the other.

    That is no contact if it turns less than a nanometre inside.
    """
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.5, 0, 0), np.diag([0.1, 0.1, 0.1]))
    builder.add_body("plank", joint=pp.joints.Free(), inertia=inertia)
    for name, x in (("foot", 0.0), ("end", -0.3)):
        builder.add_shape(name, "plank", pp.shapes.Sphere(0.1), pp.Pose(None, (x, 0, 0)))
    model = builder.build()
    contacts = pp.Contacts(model, ground=True, material=pp.Material(friction=0.0))
    known = ContactModes(contacts, 1e-10)
    q, up = np.array([1.0, 0, 0, 0, 0, 0, 0.1]), 0.3 * 0.5 * G / (0.1 + 0.5**2)
    for dip, shallow in ((0.0, False), (1e-12, True), (0.99e-9, True), (1.01e-9, False)):
        v = np.array([0, -np.sqrt(2 * up * dip) / 0.3, 0, 0, 0, 0])
        falls = pp.forward_dynamics(model, q, v, np.zeros(6))
        for stands in (False, True):
            known.modes = replace(known.modes, closed=np.array([stands, False]))
            found = known.grazes(known.state(q, v, falls))
            assert found.tolist() == [False, stands and shallow]
