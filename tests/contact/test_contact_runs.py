"""Runs with contacts: gradients, certificates, the same bits in any batch, rejected input."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest
from amounts import ALL, mostly
from contact_problems import Scene
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.contact import contact_rows
from phipsi.contact.contact_rows import FRICTION, MATERIALS, RESTITUTION
from phipsi.contact.geometry import pair_formulas
from phipsi.errors import InputError
from phipsi.laws.block_diagram import JointRows
from phipsi.simulation.impacts import contact_steps
from phipsi.simulation.integrators import step_rows
from phipsi.simulation.modes import contact_runs

BALL = pp.shapes.Sphere(0.1)


def bouncing(**more):
    """A ball that falls onto a floor and slides."""
    scene = Scene(friction=0.3, **more)
    scene.add("ball", BALL, 1.0, (0, 0, 0.12), (1.0, 0.3, -2.0), (0.2, 0.1, 3.0))
    return scene.system()


def changed(sim, column):
    """Parameters of a twin: a property of materials is 1e-6 larger."""
    own = np.array(sim.parameters[MATERIALS])
    own[:, column] += 1e-6
    return {MATERIALS: own}


@pytest.mark.parametrize("e", mostly([0.0, 0.5], 0.0))
def test_gradients_through_an_impact(e):
    system, q, v = bouncing(restitution=e)
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    steps, nv = 30, 6
    weight = np.zeros((steps + 1, nv))
    weight[-1] = np.random.default_rng(1).normal(size=nv)
    found = sim.gradient(
        sim.initial_state(q, v), np.zeros((steps, nv)), steps, cotangents={"v": weight}
    )

    def value(dq, dv):
        start = sim.initial_state(system.model.integrate(q, dq), v + dv)
        run = sim.rollout(start, steps=steps, record=("v",), progress=False)
        return (run.v[..., -1, :] * weight[-1]).sum(-1)

    step, none = 1e-6 * np.eye(nv), np.zeros((nv, nv))
    by_v = (value(none, step) - value(none, -step)) / 2e-6
    by_q = (value(step, none) - value(-step, none)) / 2e-6
    assert_allclose(found.v, by_v, atol=1e-7)
    assert_allclose(found.q, by_q, atol=1e-7)
    assert np.abs(by_v).max() > 0.1
    twin = sim.initial_state(q, v, parameters=changed(sim, RESTITUTION if e else FRICTION))
    other = sim.gradient(twin, np.zeros((steps, nv)), steps, cotangents={"v": weight})
    assert np.abs(other.v - by_v).max() > 2e-7


def test_bits_do_not_depend_on_company():
    scene = Scene(friction=0.6)
    scene.add(
        "box", pp.shapes.Box((0.2, 0.3, 0.1)), 2.0, (0, 0, 0.08), (0.5, 0.1, -1.0), (1.0, 2.0, 0.5)
    )
    scene.add("ball", pp.shapes.Sphere(0.05), 0.5, (0.3, 0, 0.06), (-0.5, 0, 0), (0, 0, 0))
    system, q, v = scene.system()  # two trees: Λ is zero between them
    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
    rng = np.random.default_rng(4)
    rates = v + 0.3 * rng.normal(size=(17, 12))
    names = ("q", "v", "contact.impulses", "contact.worst", "contact.totals")

    def runs(which, threads=1):
        start = sim.initial_state(np.tile(q, (len(rates[which]), 1)), rates[which])
        return sim.rollout(start, steps=150, record=names, threads=threads, progress=False)

    many = runs(slice(None))
    for which in (slice(4, 5), slice(0, 3), slice(9, 17), slice(None)):
        for threads in (1, 2):
            part = runs(which, threads)
            for name in names:
                assert_array_equal(part[name], many[name][which])
    assert np.ptp(many.q[:, -1, 4]) > 0.01  # they differ from each other
    proof = many.certificate
    assert proof.gain.max() <= 1e-13
    assert proof.residual.max() <= 1e-10 and proof.is_clean
    places = np.tile(q, (9, 1))
    places[:, :4] = rng.normal(size=(9, 4))
    places[:, :4] /= np.linalg.norm(places[:, :4], axis=1)[:, None]
    places[:, 6] -= pp.contact_points(system.contact_pairs, places).gap.min(axis=1) + 5e-4
    at = places, rates[:9]
    whole = pp.contact_step(system, *at)
    assert (np.abs(whole.impulses).max(axis=(1, 2)) > 0).sum() >= 4
    for which in (*range(9), slice(4, 5), slice(2, 5)):
        part = pp.contact_step(system, *(x[which] for x in at))
        for name in ("q", "v", "impulses"):
            assert_array_equal(getattr(part, name), getattr(whole, name)[which])


def test_machine_code_agrees_with_arrays():
    system, q, v = bouncing(restitution=0.4)
    sim = pp.Simulator(system, dt=5e-3, integrator="time_stepping")
    state, impulses = sim.initial_state(q, v), None
    at = q, v
    for _ in range(8):
        found = pp.contact_step(system, *at, dt=5e-3, impulses=impulses)
        sim.step(state)
        at, impulses = (found.q, found.v), found.impulses
        assert_allclose(state.q, found.q, atol=1e-13)
        assert_allclose(state.v, found.v, atol=1e-12)
        assert_allclose(state.laws["contact.impulses"], impulses, atol=1e-9)
        assert found.certificate.is_clean


def test_energy_is_accounted_for():
    scene = Scene(friction=0.4)
    scene.add("ball", BALL, 1.0, (0, 0, 0.1), (1.0, 0, 0))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    run = sim.rollout(sim.initial_state(q, v), steps=200, progress=False)
    lost = 0.5 * 1.0**2 - pp.kinetic_energy(system, run.q[-1], run.v[-1])
    proof = run.certificate
    assert proof.dissipated == pytest.approx(lost, rel=1e-12)
    assert abs(proof.balance) < 1e-12 and proof.work == 0
    twin = 0.5 * 1.0**2 - pp.kinetic_energy(system, run.q[-1], run.v[-1] * (1 + 1e-6))
    assert abs(proof.dissipated - twin) > 1e-7


@pytest.fixture(scope="module")
def hopper():
    """A leg with a spring and a damper in its joint, pushed by a force, falls onto the floor."""
    builder = pp.ModelBuilder()
    builder.add_body(
        "body", joint=pp.joints.Planar((1, 0, 0), (0, 0, 1)),
        inertia=pp.SpatialInertia.box((0.3, 0.2, 0.1), mass=4.0),
    )  # fmt: skip
    builder.add_body(
        "leg", parent="body", joint=pp.joints.Prismatic((0, 0, -1)),
        placement=pp.Pose(None, (0, 0, -0.3)), inertia=pp.SpatialInertia(0.5, (0, 0, 0), 1e-3),
    )  # fmt: skip
    builder.add_shape("foot", "leg", pp.shapes.Sphere(0.05))
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))

    @pp.law
    def spring(q, v):
        return np.stack([0.0, 0.0, 0.0, -800.0 * q[3] - 5.0 * v[3]])

    return system, [spring, pp.forces.Wrench("body", [0, 0, 0, 0.5, 0, 0])]


def test_energy_of_laws_and_loads_is_accounted_for(hopper):
    system, laws = hopper
    model, balances = system.model, []
    for dt in (1e-3, 5e-4):
        sim = pp.Simulator(system, laws, dt, integrator="time_stepping")
        q = np.array([0.0, 0, 0.6, 0])  # high up, and moving sideways
        state = sim.initial_state(q, [0, 0.2, 0, 0])
        run = sim.rollout(state, steps=round(0.5 / dt), progress=False)
        proof = run.certificate
        energy = [
            pp.kinetic_energy(model, run.q[i], run.v[i]) + pp.potential_energy(model, run.q[i])
            for i in (0, -1)
        ]
        rest = energy[1] - energy[0] + proof.dissipated - proof.work
        assert proof.balance == pytest.approx(rest, abs=1e-12)
        balances.append(abs(proof.balance))
        assert proof.work < -0.5 and proof.dissipated > 0.1  # of the damper, and of the floor
    assert balances[1] < 0.02 and 1.5 < balances[0] / balances[1] < 2.6  # of first order


def test_systems_with_contacts_keep_them():
    system, q, v = bouncing()
    again = pickle.loads(pickle.dumps(system))
    assert again == system and again.contact_pairs == system.contact_pairs
    light = system.with_gravity((0, 0, -1.62))
    found = pp.contact_step(light, q, v, dt=1e-3)
    assert found.v[5] > pp.contact_step(system, q, v, dt=1e-3).v[5]
    assert "1 pair of shapes" in repr(system)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda s, q, v: pp.Simulator(s, dt=1e-3), "time_stepping"),
        (lambda s, q, v: pp.Simulator(s.model, integrator="time_stepping"), "pp.Contacts"),
        (lambda s, q, v: pp.contact_step(s.model, q, v), "pp.Contacts"),
        (lambda s, q, v: pp.contact_step(s, q, v, impulses=np.zeros((2, 6))), "impulses"),
        (lambda s, q, v: pp.contact_step(s, q, np.zeros((2, 6)), np.zeros((3, 6))), "broadcast"),
        (lambda s, q, v: pp.contact_step("robot", q, v), "the model first"),
        (lambda s, q, v: pp.System(s.model, contacts=True), "pp.Contacts"),
        (lambda s, q, v: pp.System(pp.examples.planar_arm(2), contacts=s.contact_pairs), "another"),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, integrator="rk4"), "events of contacts"),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, prescribed={"ball": 0.0}), "prescribed="),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, quadratures={"contacts": abs}), "Rename yours"),
        (lambda s, q, v: pp.simulate(s, q, v, 1.0, integrator="time_stepping", work=True), "work="),
        (lambda s, q, v: pp.forward_dynamics(s, q, v, np.zeros(6)), "contact_step"),
    ],
)  # fmt: skip
def test_rejected(call, why):
    with pytest.raises(pp.errors.PhipsiError, match=why):
        call(*bouncing())


def test_a_run_without_contacts_has_no_certificate():
    sim = pp.Simulator(pp.examples.planar_arm(1), dt=1e-3)
    run = sim.rollout(sim.initial_state(), steps=1, progress=False)
    with pytest.raises(pp.errors.PhipsiError, match="certificate: this simulator has no contacts"):
        _ = run.certificate


def test_deep_overlap_is_reported_and_separated_on_request():
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    deep = np.tile(q, (3, 1))
    deep[1, 6] = 0.05
    with pytest.raises(
        pp.errors.PhipsiError, match=r"trajectory \[1\] 'ball\|floor' overlap by 0\.05 m"
    ):
        sim.initial_state(deep, v)
    state = sim.initial_state(deep, np.zeros(6), resolve_penetration=True)
    sim.step(state)
    assert_allclose(state.q[1, 6], 0.1, atol=1e-12)  # on the floor, and at rest
    assert_allclose(state.v[1], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        (0, -0.1, "friction of 'ball.floor' is negative"),
        (1, 0.01, "torsional_friction 0.01 for 'ball.floor', whose material has none"),
        (3, 0.5, "restitution 0.5 for"),
        (3, 1.2, "restitution 1.2 of 'ball.floor' would create energy"),
        (4, np.nan, "contact.materials is nan at index"),
    ],
)
def test_materials_of_trajectories_that_do_not_fit(column, value, why):
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    materials = sim.parameters["contact.materials"].copy()
    materials[:, column] = value
    with pytest.raises(pp.errors.PhipsiError, match=why):
        sim.initial_state(q, v, parameters={"contact.materials": materials})


def test_trajectories_have_their_own_friction():
    scene = Scene(friction=0.5)
    scene.add("ball", BALL, 1.0, (0, 0, 0.1), (2.0, 0, 0))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    own = np.tile(sim.parameters["contact.materials"], (3, 1, 1))
    own[:, :, 0] = np.array([0.1, 0.2, 0.3])[:, None]
    state = sim.initial_state(q, v, parameters={"contact.materials": own})
    sim.step(state, steps=50)
    speed = scene.velocity(state.q, state.v)[:, 0]
    assert_allclose(speed, 2.0 - 9.81 * 0.05 * np.array([0.1, 0.2, 0.3]), atol=1e-9)


def test_a_mechanism_that_touched_is_forgotten():
    def used():
        system, q, v = bouncing()
        sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
        sim.step(sim.initial_state(q, v))
        pp.contact_points(system, q)
        pp.contact_step(system, q, v)
        return weakref.ref(system), weakref.ref(system.model)

    found = used()
    gc.collect()
    assert [x() for x in found] == [None, None]


def test_contact_forces_carry_the_weight():
    system, q, v = bouncing()
    q = q.copy()
    q[6] = 0.1
    still = np.zeros(6)
    f = pp.contact_forces(
        system, np.tile(q, (2, 1)), still, [[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]]
    )
    assert_allclose(f[0, 0], [0, 0, 0, 0, 0, 9.81], atol=1e-9)
    assert_allclose(f[1, 0, 3:], [-2 / 7, 0, 9.81], atol=1e-9)  # rolls: friction is 2/7 of the pull
    sliding = pp.contact_forces(system, q, [0, 0, 0, 1.0, 0, 0], dt=1e-4)
    assert_allclose(sliding[0, 3:], [-0.3 * 9.81, 0, 9.81], atol=1e-9)
    step = pp.contact_step(system, q, still, dt=2e-3)
    assert_array_equal(pp.contact_forces(system, q, still, dt=2e-3), step.impulses / 2e-3)
    falling = pp.contact_forces(system, q, [0, 0, 0, 0, 0, -1.0], dt=1e-3)
    assert falling[0, 5] == pytest.approx(1.0 / 1e-3 + 9.81)  # an impact: the mean over the step


def test_contacts_of_a_run_by_pair():
    scene = Scene(friction=0.5)
    scene.add("lower", pp.shapes.Box((0.2, 0.2, 0.1)), 1.0, (0, 0, 0.05))
    scene.add("upper", BALL, 2.0, (0, 0, 0.2))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    state = sim.initial_state(np.tile(q, (2, 1)), v)
    names = ("q", "v", "contact.impulses", "contact.gaps")
    run = sim.rollout(state, steps=4, record_every=2, record=names, progress=False)
    record = run.contacts
    pairs = system.contact_pairs
    assert record.names == pairs.slot_names and record.forces.shape == (2, 3, pairs.n_slots, 6)
    assert_allclose(record.gaps, run["contact.gaps"], atol=1e-15)
    floor = record["lower|floor"]
    assert_allclose(floor.force[:, 1:], np.broadcast_to([0, 0, 3 * 9.81], (2, 2, 3)), atol=1e-8)
    between = next(x for x in record.names if "upper" in x and "lower" in x)
    assert_allclose(np.abs(record[between].force[:, 1:, 2]), 2 * 9.81, atol=1e-8)
    assert_allclose(floor.gap, 0.0, atol=1e-12)
    assert record["upper|floor"].gap[0, 0] == pytest.approx(0.1)
    with pytest.raises(pp.errors.PhipsiError, match="Did you mean 'lower.floor'"):
        record["lower|flor"]
    bare = sim.rollout(state, steps=1, progress=False).contacts
    with pytest.raises(pp.errors.PhipsiError, match="contact.impulses"):
        bare["lower|floor"]


def test_check_prints_the_certificate(capsys):
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    run = sim.rollout(sim.initial_state(q, v), steps=3, progress=False)
    assert run.contacts.check() is True
    printed = capsys.readouterr().out
    assert printed.strip() == str(run.certificate)
    for words in ("residual", "dissipated", "work", "energy error of steps", "0 of 3"):
        assert words in printed


def test_smoothed_gradients_feel_a_contact_before_it_is_made():
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    rates = np.array([0.1, 0.2, -0.1, 0.3, 0.1, 0.0])
    weight = np.zeros((2, 6))
    weight[-1] = np.random.default_rng(3).normal(size=6)

    def gradient(q, smoothing):
        return sim.gradient(
            sim.initial_state(q, rates), None, 1, cotangents={"v": weight}, smoothing=smoothing
        )

    def differences(q, smoothing):
        found = [
            pp.contact_step(system, q, rates + d, dt=1e-3, smoothing=smoothing).v
            for d in np.concatenate([1e-5 * np.eye(6), -1e-5 * np.eye(6)])
        ]
        values = np.stack(found) @ weight[-1]
        return (values[:6] - values[6:]) / 2e-5

    above = q.copy()
    above[6] = 0.101  # 1 mm above the floor: nothing touches, and nothing will in this step
    free = gradient(above, 0.0).v
    for kappa in (1e-2, 1e-3) if ALL else (1e-3,):
        found = gradient(above, kappa).v
        error = np.abs(found - differences(above, kappa)).max()
        assert error < 1e-3 * kappa  # the axes of v turn with the exact impulses
        assert np.abs(found - free).max() > 100 * error  # it is felt
    on = q.copy()
    on[6] = 0.1
    exact = gradient(on, 0.0).v
    assert np.abs(exact - free).max() > 0.1
    errors = [np.abs(gradient(on, kappa).v - exact).max() for kappa in (1e-7, 1e-10)]
    assert errors[1] < 1e-4 and errors[0] > 100 * errors[1] > 0
    smoothing = pp.Simulator(system, dt=1e-3, integrator="time_stepping", smoothing=1e-3)
    start = smoothing.initial_state(above, rates)
    assert_array_equal(
        smoothing.gradient(start, None, 1, cotangents={"v": weight}).v, gradient(above, 1e-3).v
    )
    run, plain = (
        x.rollout(x.initial_state(on, rates), steps=5, progress=False) for x in (smoothing, sim)
    )
    assert_array_equal(run.q, plain.q)  # the run itself is exact


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda s, q, v: pp.contact_step(s, q, v, tolerance=0.0), "tolerance=0.0"),
        (lambda s, q, v: pp.contact_step(s, q, v, smoothing=-1.0), "smoothing=-1.0"),
        (lambda s, q, v: pp.contact_step(s, np.nan * q, v), "q is nan at joint|unit quaternions"),
        (lambda s, q, v: pp.contact_step(s, q, [0, 0, np.nan, 0, 0, 0]), "v is nan at joint"),
        (lambda s, q, v: pp.contact_forces(s, q, v, np.inf * v), "tau is .*inf"),
        (lambda s, q, v: pp.contact_forces(s.model, q, v), "pp.Contacts"),
        (lambda s, q, v: pp.contact_forces(q, s, v), "takes the model first"),
        (lambda s, q, v: pp.contact_forces(s, q, v, dt=0), "dt=0"),
        (lambda s, q, v: pp.Simulator(pp.examples.planar_arm(1), smoothing=1e-3), "has none"),
        (lambda s, q, v: pp.Simulator(s, integrator="time_stepping", smoothing=-1), "smoothing=-1"),
    ],
)  # fmt: skip
def test_bad_numbers_for_steps(call, why):
    with pytest.raises(pp.errors.PhipsiError, match=why):
        call(*bouncing())


def test_impulses_that_are_not_found_stop_a_trajectory(monkeypatch):
    monkeypatch.setattr(step_rows, "WRONG", -1.0)  # no residual is small enough
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    state = sim.initial_state(np.tile(q, (3, 1)), v)
    with pytest.raises(pp.errors.SimulationError, match=r"step 0 .*'ball\|floor' is .* m/s from"):
        sim.rollout(state, steps=3, progress=False)
    run = sim.rollout(state, steps=3, on_error="nan", progress=False)
    assert run.status.all() and np.isfinite(run.q[:, 0]).all()
    monkeypatch.undo()
    fine = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    assert not fine.rollout(fine.initial_state(q, v), steps=3, progress=False).status.any()


def test_starting_compiles_nothing_again(monkeypatch):
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    sim.initial_state(q, v)

    def traced(*_):
        raise AssertionError("the gaps are traced again")

    monkeypatch.setattr(pair_formulas, "slot_geometry", traced)
    monkeypatch.setattr(contact_steps, "slot_geometry", traced)
    sim.initial_state(np.tile(q, (4, 1)), v)


def test_the_worst_pair_is_named():
    scene = Scene(friction=0.5)
    for i in range(3):
        scene.add(f"ball{i}", BALL, 1.0 + i, (0.5 * i, 0, 0.1))
    system, q, v = scene.system(
        exclude=[("ball0", "ball1"), ("ball0", "ball2"), ("ball1", "ball2")]
    )
    contacts = system.contact_pairs
    plan = contact_rows.RowPlan(system.model, contacts, JointRows())
    W = np.eye(9)
    b = np.tile([0.0, 0.0, -1.0], 3)
    p = np.tile([0.0, 0.0, 1.0], 3)
    p[5] = 0.7  # the second contact is not solved
    problem = (W, b, np.zeros(3), np.full(9, 0.5), p)
    name, error = contact_steps.largest_residual(plan, problem)
    assert name == contacts.slot_names[1] and error == pytest.approx(0.3)
    assert plan.layout.n_rows == 9


@pytest.mark.parametrize(
    ("material", "why"),
    [
        ({"friction": -0.1}, "friction"),
        ({"friction": np.nan}, "friction"),
        ({"restitution": 1.1}, "restitution"),
        ({"restitution": -0.1}, "restitution"),
        ({"stiffness": 0.0}, "stiffness"),
        ({"damping": -1.0}, "damping"),
        ({"torsional_friction": -1.0}, "torsional_friction"),
        ({"rolling_friction": np.inf}, "rolling_friction"),
    ],
)
def test_materials_that_no_body_has(material, why):
    with pytest.raises(pp.errors.PhipsiError, match=why):
        pp.Material(**material)


def test_one_bad_trajectory_leaves_the_others_alone():
    system, q, v = bouncing()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    places = np.tile(q, (3, 1))
    for bad, why in ((places * np.array([[1], [np.nan], [1]]), "unit quat|finite"),):
        with pytest.raises(pp.errors.PhipsiError, match=why):
            sim.initial_state(bad, v)
    with pytest.raises(pp.errors.PhipsiError, match="finite"):
        sim.initial_state(places, np.where(np.arange(6) == 2, np.inf, v))
    state, tau = sim.initial_state(places, v), np.zeros((3, 40, 6))
    tau[1, 20, 3] = 1e306  # which no number can hold
    with pytest.raises(pp.errors.SimulationError, match=r"trajectory \[1\] failed in step 2"):
        sim.rollout(state, tau, 40, progress=False)
    run = sim.rollout(state, tau, 40, on_error="nan", progress=False)
    fine = sim.rollout(state, None, 40, progress=False)
    assert_array_equal(run.q[[0, 2]], fine.q[[0, 2]])
    assert_array_equal(run.q[1, :20], fine.q[1, :20])
    assert run.status.astype(bool).tolist() == [False, True, False]
    assert 20 <= run.failed_at[1] <= 22 and np.isfinite(run.state.q).all()
    assert np.isfinite(run.contacts.gaps[[0, 2]]).all()


def test_deeply_stacked_boxes_are_separated_without_speed():
    scene = Scene(friction=0.5)
    for i in range(3):
        scene.add(f"box{i}", pp.shapes.Box((0.2, 0.2, 0.1)), 1.0, (0, 0, 0.03 + 0.07 * i))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    with pytest.raises(
        pp.errors.PhipsiError,
        match=r"'box\d\|\w+' overlap by 0\.03 m.*(?s:.*)resolve_penetration=True",
    ):
        sim.initial_state(q, v)
    state = sim.initial_state(q, v, resolve_penetration=True)
    sim.step(state, steps=200)
    assert_allclose(state.q.reshape(3, 7)[:, 6], [0.05, 0.15, 0.25], atol=1e-6)
    assert np.abs(state.v).max() < 1e-9 and state.certificate.gain <= 1e-12


def test_a_law_reads_the_force_of_a_contact():
    system, q, v = bouncing()

    @pp.law
    def feel(f, v):
        return {"tau": np.concatenate([np.zeros(5), 0.1 * f[2:] - 0.0 * v[:1]]), "f": f}

    touch = feel.bind(f=pp.signals.contact_force("ball|floor"))
    sim = pp.Simulator(system, touch, 1e-3, integrator="time_stepping")
    names = ("q", "feel.f", "tau", "contact.impulses")
    on = np.where(np.arange(7) == 6, 0.1, q)
    run = sim.rollout(sim.initial_state(on), steps=5, record=names, progress=False)
    assert_allclose(run["feel.f"], run["contact.impulses"][:, 0, 3:] / 1e-3, atol=1e-12)
    assert_allclose(run["feel.f"][0], 0.0)
    assert_allclose(run["feel.f"][1], [0, 0, 9.81], atol=1e-9)
    assert run["tau"][1, 5] == pytest.approx(0.981)  # it acts in the next step
    for mechanism, pair, why in (
        (system.model, "ball|floor", "contact_force needs contacts"),
        (system, "ball|flor", "Did you mean 'ball.floor'"),
    ):
        method = "time_stepping" if mechanism is system else "rk4"
        law = feel.bind(f=pp.signals.contact_force(pair))
        with pytest.raises(pp.errors.PhipsiError, match=why):
            pp.Simulator(mechanism, law, 1e-3, integrator=method)


def test_a_step_that_is_not_solved_ends_an_episode(monkeypatch):
    monkeypatch.setattr(step_rows, "WRONG", -1.0)
    system, q, v = bouncing()
    sim = pp.Simulator(
        system, dt=1e-3, integrator="time_stepping", episodes=pp.Episodes(time_limit=1.0)
    )
    state = sim.initial_state(np.tile(q, (3, 1)), v)
    sim.step(state, steps=2)
    assert_array_equal(state.laws["episode.failed"], 1.0)
    assert_array_equal(state.laws["episode.count"], 2.0)
    assert_array_equal(state.q, np.tile(q, (3, 1)))  # every one has started again


@pytest.mark.parametrize("gap", [0.0, 0.14])
def test_gradients_of_rebounds_without_gravity(gap):
    builder, e, h = pp.ModelBuilder(gravity=(0, 0, 0)), 0.9, 5e-3
    for name in ("cue", "ball"):
        inertia = pp.SpatialInertia(0.2, (0, 0, 0), 1e-4)
        builder.add_body(name, joint=pp.joints.Prismatic((1, 0, 0)), inertia=inertia)
        builder.add_shape(name, name, pp.shapes.Sphere(0.03))
    model = builder.build()
    contacts = pp.Contacts(model, material=pp.Material(0.0, restitution=e))
    sim = pp.Simulator(pp.System(model, contacts=contacts), dt=h, integrator="time_stepping")
    start = sim.initial_state([0.0, 0.06 + gap], [1.0, 0.0])
    found = sim.gradient(start, None, 1, cotangents={"v": [[0, 0], [0, 1.0]]})
    wanted = [(1 + e) / 2, (1 - e) / 2] if gap == 0 else [0.0, 1.0]  # of equal masses
    assert_allclose(found.v, wanted, atol=1e-12)
    twin = sim.initial_state([0.0, 0.06 + gap], [1.0, 0.0], parameters=changed(sim, RESTITUTION))
    other = sim.gradient(twin, None, 1, cotangents={"v": [[0, 0], [0, 1.0]]})
    assert (np.abs(other.v - wanted).max() > 1e-7) == (gap == 0)


def test_bodies_that_no_joint_can_move_apart_are_an_error():
    """A foot that overlaps the trunk across its hinges: moving it apart would need any angle."""
    hinge, leg = (
        pp.joints.Revolute((0, 1, 0)),
        pp.SpatialInertia(0.5, (0, 0, -0.1), (3e-3, 3e-3, 5e-4)),
    )
    builder = pp.ModelBuilder()
    trunk = pp.SpatialInertia.box((0.5, 0.2, 0.1), mass=8.0)
    builder.add_body("trunk", joint=pp.joints.Free(), inertia=trunk)
    hip, knee = pp.Pose(None, (0.2, 0.12, 0)), pp.Pose(None, (0, 0, -0.2))
    builder.add_body("thigh", parent="trunk", joint=hinge, placement=hip, inertia=leg)
    builder.add_body("shank", parent="thigh", joint=hinge, placement=knee, inertia=leg)
    builder.add_shape("box", "trunk", pp.shapes.Box((0.5, 0.2, 0.1)))
    builder.add_shape("foot", "shank", pp.shapes.Sphere(0.025), knee)
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model))
    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
    q = model.neutral()
    q[:4] = pp.Pose.from_rpy((0.3, 0.5, 0.7)).quaternion
    q[7:] = 1.5, -3.0
    reason = r"separate them: 'foot.box' overlap by 0\.00\d+ m"
    with pytest.raises(pp.errors.SimulationError, match=reason):
        sim.rollout(sim.initial_state(q, resolve_penetration=True), steps=20)


def test_bodies_that_no_joint_moves_apart_are_named_with_their_depth():
    builder = pp.ModelBuilder()
    rail = pp.joints.Prismatic((1, 0, 1e-3))  # a way of 50 m lifts it by 50 mm
    builder.add_body("cart", joint=rail, inertia=pp.SpatialInertia.sphere(0.1, mass=1.0))
    builder.add_shape("wheel", "cart", pp.shapes.Sphere(0.1), pp.Pose(None, (0, 0, 0.05)))
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
    with pytest.raises(pp.errors.SimulationError) as found:
        sim.rollout(sim.initial_state([0.0], resolve_penetration=True), steps=100)
    text = str(found.value)
    assert "and the step cannot separate them: 'wheel|ground' overlap by 0.0" in text
    assert "exclude=[('wheel', 'ground')]" in text


def test_free_boxes_that_overlap_deeply_are_moved_apart():
    """The least move along normals would turn one of them several times, in one step."""
    rng = np.random.default_rng(9)
    builder = pp.ModelBuilder()
    for i in range(4):
        x, y, z = rng.uniform(0.08, 0.3, 3)
        solid = pp.SpatialInertia.box((x, y, z), mass=10 ** rng.uniform(-1, 1))
        builder.add_body(f"box{i}", joint=pp.joints.Free(), inertia=solid)
        builder.add_shape(f"box{i}", f"box{i}", pp.shapes.Box((x, y, z)))
    model = builder.build()
    contacts = pp.Contacts(model, ground=True, material=pp.Material(0.5))
    system = pp.System(model, contacts=contacts)
    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
    q = np.zeros((8, 4, 7))
    q[..., :4] = rng.normal(size=(8, 4, 4))
    q[..., :4] /= np.linalg.norm(q[..., :4], axis=-1)[..., None]
    q[..., 4:] = rng.uniform(-0.12, 0.12, (8, 4, 3))
    with pytest.raises(InputError) as found:
        sim.initial_state(q[0].ravel())
    depths = -np.array([pp.contact_points(contacts, q[0].ravel()).gap])
    text = str(found.value)
    assert f"overlap by {depths.max():.3g} m, 'box" in text and text.count(" by ") == 6
    run = sim.rollout(
        sim.initial_state(q.reshape(8, -1), resolve_penetration=True), steps=60, progress=False
    )
    assert pp.contact_points(contacts, run.q[:, -1]).gap.min() > -1e-3


def test_rebounds_beside_dry_friction_in_a_joint():
    builder = pp.ModelBuilder()
    ball, hinge = pp.SpatialInertia.sphere(0.1, mass=1.0), pp.joints.Revolute((0, 1, 0))
    builder.add_body("slide", joint=pp.joints.Prismatic((0, 0, 1)), inertia=ball)
    builder.add_body(
        "arm", parent="slide", joint=hinge, inertia=ball, placement=pp.Pose(None, (0, 0, 0.3))
    )
    builder.add_shape("skin", "slide", pp.shapes.Sphere(0.1))
    model = builder.build()
    material = pp.Material(0.3, restitution=0.5)
    system = pp.System(model, contacts=pp.Contacts(model, ground=True, material=material))
    rubs = pp.forces.JointFriction("arm", 0.7, velocity_scale=0)
    sim = pp.Simulator(system, [rubs], dt=1e-3, integrator="time_stepping")
    run = sim.rollout(sim.initial_state([0.3, 0.1]), steps=600)
    hit = np.sqrt(2 * 0.2 / 9.81)
    top = int(round((hit + 0.5 * hit) / 1e-3))  # a quarter of the height, half of the time later
    assert abs(run.q[top, 0] - 0.15) < 2e-3 and run.certificate.is_clean
    assert np.abs(run.q[:, 1] - 0.1).max() < 1e-12


def test_contacts_without_a_pair_are_rejected():
    builder = pp.ModelBuilder()
    builder.add_body(
        "ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia.sphere(0.1, mass=1.0)
    )
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model))
    q = model.neutral()
    for run in (
        lambda: pp.Simulator(system, integrator="time_stepping"),
        lambda: pp.simulate(system, q, np.zeros(6), 0.1),
        lambda: pp.contact_step(system, q, np.zeros(6), np.zeros(6), 0.1),
    ):
        with pytest.raises(InputError, match="no pair of shapes that may touch"):
            run()


def test_a_ground_that_nothing_may_touch_is_named():
    builder = pp.ModelBuilder()
    ball = pp.SpatialInertia.sphere(0.1, mass=1.0)
    builder.add_body("ball", joint=pp.joints.Free(), inertia=ball)
    with pytest.warns(pp.errors.PhipsiWarning, match="No body has a shape"):
        pp.Contacts(builder.build(), ground=True)
    builder.add_shape("skin", "ball", pp.shapes.Sphere(0.1))
    model = builder.build()
    with pytest.warns(
        pp.errors.PhipsiWarning, match=r"Its shapes 'skin' are excluded.*(?s:.*)'ground'\)\]"
    ):
        pp.Contacts(model, ground=True, exclude=["skin"])
    assert len(pp.Contacts(model, ground=True).pairs) == 1
    assert len(pp.Contacts(model, exclude=["skin"]).pairs) == 0  # as it says


def test_modes_of_a_run_are_those_of_its_steps():
    """All steps together, and one by one from the definition: on a cone's bound a slot slips."""
    kinds = [{"friction": 0.5}, {"friction": 0.0}, {"friction": 0.5, "torsional_friction": 0.01}]
    kinds += [
        {"friction": 0.4, "torsional_friction": 0.01, "rolling_friction": 0.02},
        {"friction": 0.4, "rolling_friction": 0.02},
    ]
    builder = pp.ModelBuilder()
    for i, more in enumerate(kinds):
        builder.add_body(f"b{i}", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
        builder.add_shape(f"b{i}", f"b{i}", BALL, material=pp.Material(**more))
    floor = pp.Material(friction=1.0, torsional_friction=0.02, rolling_friction=0.03)
    model = builder.build()
    pairs = [(f"b{i}", "ground") for i in range(len(kinds))]
    contacts = pp.Contacts(model, pairs=pairs, ground=True, combine="minimum", material=floor)
    rng = np.random.default_rng(0)
    q, k = model.random_configuration(rng, 60), contacts.n_slots
    impulses = rng.normal(size=(60, k, 6)) * [0.01, 0.01, 0.01, 0.3, 0.3, 1.0]
    impulses[..., 5] += 1.0
    impulses[rng.random((60, k)) < 0.3] = 0.0
    impulses[::7] = 0.0
    wanted = np.zeros((60, k), dtype=int)
    for i, step in enumerate(impulses):
        for j, (pair, (mx, my, mz, fx, fy, fz)) in enumerate(
            zip(contacts.pairs, step, strict=True)
        ):
            m = pair.material
            terms = [(m.friction, fx), (m.friction, fy), (m.torsional_friction, mz)]
            slide = sum((x / c) ** 2 for c, x in terms if c > 0) ** 0.5
            roll = np.hypot(mx, my) / m.rolling_friction if m.rolling_friction else 0.0
            bound = (1 - 1e-6) * fz
            slips = m.friction == 0 or slide >= bound or roll >= bound
            wanted[i, j] = 0 if fz <= 0 else 1 if slips else 2
    found = contact_runs._modes(contacts, q, impulses)
    assert_array_equal(found, wanted)
    assert min(np.bincount(wanted.ravel())) > 20
    assert_array_equal(contact_runs._modes(contacts, q, 0 * impulses), 0)
