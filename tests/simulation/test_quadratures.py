"""Quadratures and work: integrated with the motion, to its accuracy, through everything."""

import csv

import numpy as np
import pytest
from amounts import seeds
from integrator_steps import steps_of
from known_mechanisms import slider
from known_systems import pinned_arm
from numpy.testing import assert_allclose
from random_models import random_tree

import phipsi as pp
from phipsi import constraints as c, topology as top

F = pp.forces
INTEGRATORS = (
    "dopri",
    "radau",
    "lsoda",
    "rk4",
    "implicit_midpoint",
    "semi_implicit",
    "variational",
)
TIGHT = {"rtol": 1e-11, "atol": 1e-13}


def balance(run: pp.Trajectory) -> float:
    return float(np.abs(run.energy - run.energy[0] - run.work).max())


def loaded(seed: int, **options):
    """A random tree with everything that does work on it."""
    rng = np.random.default_rng(seed)
    model = random_tree(rng, 5, armature=seed % 2 == 0, **options)
    q, v = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    first, last = model.body_names[0], model.body_names[-1]
    forces = [
        F.JointDamper(None, 0.4),
        F.PointSpring((first, (0.1, 0, 0)), "world", stiffness=20.0, damping=2.0, rest_length=0.3),
        F.Wrench(last, (0.1, 0.2, 0.3, 1.0, -2.0, 0.5)),
        F.JointFriction(None, 0.2, velocity_scale=0.5),
    ]

    def controller(t, q, v):
        return np.sin(3 * t + np.arange(model.nv)) - 0.1 * v

    return model, q, v, forces, controller


# ---- the integral ---------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_integral_of_a_rate_is_its_coordinate(integrator):
    arm = pp.examples.planar_arm(2)
    run = pp.simulate(
        arm, [0.3, 0.2], [0.5, -1.0], 0.7, **steps_of(integrator, dt=1e-3, **TIGHT),
        quadratures={"turned": lambda t, q, v: v[1], "time": lambda t, q, v: 1.0},
    )  # fmt: skip
    assert list(run.quadratures) == ["turned", "time"]
    assert_allclose(run.quadratures["time"], run.t, rtol=1e-12, atol=1e-14)
    # semi-implicit Euler has the rates of the ends of its steps, an error of O(h)
    error = 2e-2 if integrator == "semi_implicit" else 1e-10
    assert_allclose(run.quadratures["turned"], run.q[:, 1] - run.q[0, 1], atol=error)
    assert_allclose(run.totals["turned"], run.quadratures["turned"][-1], rtol=0)


@pytest.mark.parametrize(("integrator", "order"), [("rk4", 4), ("implicit_midpoint", 2)])
def test_the_order_is_that_of_the_method(integrator, order):
    model, q, v, forces, controller = loaded(1)
    options = {"forces": forces, "controller": controller, "work": True}
    exact = pp.simulate(model, q, v, 0.2, **options, **TIGHT).work[-1]
    errors = [
        abs(pp.simulate(model, q, v, 0.2, integrator=integrator, dt=dt, **options).work[-1] - exact)
        for dt in (0.01, 0.005)
    ]
    assert np.log2(errors[0] / errors[1]) > order - 0.4


@pytest.mark.parametrize("integrator", ["dopri", "radau", "lsoda"])
@pytest.mark.parametrize("seed", seeds(3))
def test_tighter_tolerances_give_better_integrals(integrator, seed):
    model, q, v, forces, controller = loaded(seed)
    options = {"forces": forces, "controller": controller, "work": True, "integrator": integrator}
    found = [balance(pp.simulate(model, q, v, 0.3, rtol=r, **options)) for r in (1e-5, 1e-8)]
    assert found[1] < 1e-6 and (found[1] < 0.1 * found[0] or found[0] < 1e-8)


# ---- work ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(6))
def test_energy_changes_by_the_work(seed):
    """Motors, dampers, friction, a wrench; springs store their part."""
    model, q, v, forces, controller = loaded(seed)
    run = pp.simulate(
        model, q, v, 0.5, forces=forces, controller=controller, work=True, **TIGHT,
        quadratures={"motors": lambda t, q, v: controller(t, q, v) @ v,
                     **{type(x).__name__: x for x in forces}},
    )  # fmt: skip
    assert balance(run) < 1e-9 * max(1, np.abs(run.energy).max())
    assert np.abs(run.work).max() > 0.1
    # each on its own, the springs' energy given back
    kinds = [x for name, x in run.quadratures.items() if name != "work"]
    stored = run.energy - pp.kinetic_energy(model, run.q, run.v)
    stored -= pp.potential_energy(model, run.q)
    assert_allclose(sum(kinds) + stored - stored[0], run.work, atol=1e-10)
    damped = run.quadratures["JointDamper"]
    assert (np.diff(damped) <= 0).all() and damped[-1] < -1e-3


def test_the_work_of_a_damper_has_a_closed_form():
    """x = a e^(−c t / m): the damper takes ½ m v0² (1 − e^(−2 c t / m))."""
    run = pp.simulate(
        slider(2.0), [0.0], [1.5], 2.0, forces=[F.JointDamper("block", 1.2)], work=True, **TIGHT
    )
    taken = 0.5 * 2.0 * 1.5**2 * (1 - np.exp(-1.2 * run.t))
    assert_allclose(run.work, -taken, atol=1e-10)


def test_prescribed_joints_do_work():
    model, q, v, forces, _ = loaded(2)
    names = [model.joint_names[1], model.joint_names[3]]
    given = {n: lambda t, q, v: np.cos(4 * t) for n in names if model.joint(n).joint.nv == 1}
    widths = {n: model.joint(n).joint.nv for n in names}
    given |= {n: np.full(w, 0.3) for n, w in widths.items() if w > 1}
    run = pp.simulate(model, q, v, 0.4, forces=forces, prescribed=given, work=True, **TIGHT)
    assert balance(run) < 1e-9 * max(1, np.abs(run.energy).max())
    power = np.einsum("ki,ki->k", run.tau, run.v)
    assert np.abs(power).max() > 0.1


def test_rows_with_rates_do_work():
    """A driven crank with loops and dampers."""
    arm = pp.examples.planar_arm(3)
    pin = c.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    motor = c.Rows(name="motor", points=["link1"], A=[[0, 0, 1, 0, 0, 0]], row_velocity=2.0)
    system = pp.System(arm, [pin, motor])
    q, v = system.project(system.assemble([1.0, -1.0, -1.5]), np.zeros(3))
    run = pp.simulate(system, q, v, 0.3, forces=[F.JointDamper(None, 0.3)], work=True, **TIGHT)
    assert balance(run) < 1e-9
    assert np.ptp(run.energy) > 0.5


@pytest.mark.parametrize("stabilization", ["project", "baumgarte"])
def test_loops_keep_the_balance(stabilization):
    system = pinned_arm(4, "Spherical")
    q = system.assemble([1.0, -0.5, -1.0, -1.5])
    run = pp.simulate(
        system, q, np.zeros(4), 1.0, forces=[F.JointDamper(None, 0.3)], work=True,
        stabilization=stabilization, **TIGHT,
    )  # fmt: skip
    assert balance(run) < 1e-8
    assert run.work[-1] < -0.5


# ---- events, output, files -----------------------------------------------------------------------


def bounce(t, q, v):
    """The block comes back at half its speed, and a little further out."""
    return q - 0.01, -0.5 * v


def test_quadratures_go_on_behind_events():
    """A spring and a damper, with a wall that takes energy at once: no work of theirs."""
    spring, damper = F.JointSpring("block", 50.0, rest=[0.0]), F.JointDamper("block", 0.6)
    wall = pp.Event(lambda t, q, v: q[0] - 0.3, direction=1, action=bounce, name="wall")
    options = {"forces": [spring, damper], "events": [wall], "work": True}
    for integrator in ("dopri", "rk4"):
        more = {**options, **steps_of(integrator, dt=1e-3, **TIGHT)}
        run = pp.simulate(
            slider(2.0), [0.0], [3.0], 2.0, quadratures={"v2": lambda t, q, v: v[0] ** 2}, **more
        )
        assert len(run.events) >= 1
        assert_allclose(run.work, -0.6 * run.quadratures["v2"], atol=1e-9)
        jumps = np.flatnonzero(np.diff(run.t) == 0)
        lost = np.zeros(len(run))
        for i in jumps:
            lost[i + 1 :] += run.energy[i + 1] - run.energy[i]
        assert_allclose(run.energy - run.energy[0], run.work + lost, atol=1e-9)
        times = np.linspace(0, 2, 41)
        sparse = pp.simulate(slider(2.0), [0.0], [3.0], 2.0, output_times=times, **more)
        assert_allclose(sparse.work, run.resample(times).work, atol=1e-4)
        assert_allclose(sparse.totals["work"], run.totals["work"], atol=1e-9)
        if integrator == "dopri":
            assert_allclose(sparse.work, run.resample(times).work, atol=1e-9)


def test_a_stopped_run_has_its_totals():
    stop = pp.Event(lambda t, q, v: t - 0.5, action="stop")
    run = pp.simulate(
        slider(2.0), [0.0], [1.0], 2.0, events=[stop], output_times=[0.0, 0.2, 1.0],
        quadratures={"way": lambda t, q, v: v[0]},
    )  # fmt: skip
    assert_allclose(run.totals["way"], 0.5, rtol=1e-12)
    assert_allclose(run.quadratures["way"], run.t, rtol=1e-12)


def test_changes_of_the_mechanism():
    """The work of all phases; what locks take is in the event log."""
    arm = pp.examples.planar_arm(3)
    damper = F.JointDamper(None, 0.3)
    calls = []

    def second(t, q, v):
        calls.append(q.shape)
        return v[1] ** 2

    run = pp.simulate(
        arm, [0.2, 0.3, 0.4], [0.0, 0.5, 0.0], 1.0, forces=[damper], work=True, **TIGHT,
        events=[top.at(0.4, top.Lock("joint2")), top.at(0.7, top.Unlock("joint2"))],
        quadratures={"second": second, "damper": damper},
    )  # fmt: skip
    assert set(calls) == {(3,)}
    lost = np.zeros(len(run))
    for event in run.events:
        after = np.searchsorted(run.t, event.t, side="right")
        at = np.flatnonzero(run.t == event.t)
        lost[max(after, at.max() + 1) - 1 :] += event.change.energy_after - event.change.energy
    assert_allclose(run.energy - run.energy[0], run.work + lost, atol=1e-8)
    assert_allclose(run.work, run.quadratures["damper"], atol=1e-12)
    still = (run.t > 0.4) & (run.t < 0.7)
    assert np.ptp(run.quadratures["second"][still]) < 1e-12
    times = np.linspace(0, 1, 23)
    there = run.resample(times)
    sparse = pp.simulate(
        arm, [0.2, 0.3, 0.4], [0.0, 0.5, 0.0], 1.0, forces=[damper], work=True, **TIGHT,
        events=[top.at(0.4, top.Lock("joint2")), top.at(0.7, top.Unlock("joint2"))],
        output_times=times,
    )  # fmt: skip
    assert_allclose(there.work, sparse.work, atol=1e-9)
    assert_allclose(there.totals["work"], sparse.totals["work"], atol=1e-9)


def test_dense_output_has_the_accuracy_of_the_run():
    model, q, v, forces, controller = loaded(3)
    options = {"forces": forces, "controller": controller, "work": True, **TIGHT}
    run = pp.simulate(model, q, v, 0.5, **options)
    there = run.resample(np.linspace(0, 0.5, 37))
    change = there.energy - there.energy[0]
    assert_allclose(there.work, change, atol=1e-8 * max(1, np.abs(there.energy).max()))
    assert_allclose(run.resample(run.t).work, run.work, atol=1e-11)


def test_files_keep_them(tmp_path):
    model, q, v, forces, _ = loaded(4)
    run = pp.simulate(
        model, q, v, 0.2, forces=forces, work=True, quadratures={"time": lambda t, q, v: 1.0}
    )
    run.save(tmp_path / "run.npz")
    back = pp.Trajectory.load(tmp_path / "run.npz")
    assert list(back.quadratures) == ["work", "time"]
    for name, x in run.quadratures.items():
        assert_allclose(back.quadratures[name], x, rtol=0)
    assert dict(back.totals) == dict(run.totals)
    times = np.linspace(0, 0.2, 5)
    assert_allclose(back.resample(times).quadratures["time"], times, atol=1e-12)
    assert_allclose(back.resample(times).work, np.interp(times, run.t, run.work), atol=1e-12)
    run.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert_allclose([float(r["work"]) for r in rows], run.work, rtol=0)


def test_what_cannot_be_integrated_is_refused():
    arm = pp.examples.planar_arm(1)
    for given, message in (
        ({"work": lambda t, q, v: 0.0}, "'work' is reserved for"),
        ({"x": 3.0}, "quadrature 'x' must be a function"),
        ([lambda t, q, v: 0.0], "must be names and functions"),
        ({"x": lambda t, q, v: v[:0]}, "quadrature 'x' returned"),
        ({"x": lambda t, q, v: "much"}, "quadrature 'x' returned 'much'"),
    ):
        with pytest.raises((pp.errors.InputError, pp.errors.SimulationError), match=message):
            pp.simulate(arm, [0.0], [0.0], 0.1, quadratures=given)
    with pytest.raises(pp.errors.InputError, match="work=True"):
        _ = pp.simulate(arm, [0.0], [0.0], 0.1).work
