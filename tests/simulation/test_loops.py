"""Runs of systems: stabilisation, events, output, files, and what goes wrong."""

import numpy as np
import pytest
from amounts import seeds
from integrator_steps import steps_of
from known_systems import Z, four_bar, n_four_bar
from numpy.testing import assert_allclose, assert_array_equal
from random_systems import KINDS, admissible, kkt, random_system

import phipsi as pp
from phipsi import constraints as c

ALL = ["dopri", "radau", "lsoda", "rk4", "semi_implicit", "implicit_midpoint"]


def start(system: pp.System, speed: float = 1.0):
    q = system.assemble([1.0, -0.8, -1.5])
    return system.project(q, [speed, 0.0, 0.0])


def worst(run: pp.Trajectory) -> float:
    return float(np.abs(run.constraint_residuals).max())


@pytest.mark.parametrize("seed", seeds(8))
def test_accelerations_are_those_of_the_dense_equations(seed, monkeypatch):
    """With singular values, and compiled where the rows are regular."""
    monkeypatch.setenv("PHIPSI_BACKEND", "reference")
    from phipsi.simulation.integrators.motion import Motion
    from phipsi.simulation.simulate.equations import Equations
    from phipsi.simulation.simulate.run_constraints import RunConstraints

    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:5]]
    system, q = random_system(seed, 7, kinds, n_roots=2)
    v, tau = admissible(system, q, rng), rng.standard_normal(system.model.nv)
    loops = RunConstraints(Motion(system), "project", 1e-10, 20)
    equations = Equations(system.model, lambda *_: tau, [], None, loops)
    exact, _ = kkt(system, q, v, tau)
    for _ in range(2):
        found = equations.acceleration(0.0, q, v)
        assert_allclose(found, exact, atol=1e-9 * max(1, np.abs(exact).max()))
        loops.start(q, v)  # decides about rank


@pytest.fixture(scope="module")
def exact():
    """A four-bar, its state at the start, and where it is after half a second."""
    system = four_bar()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHIPSI_BACKEND", "native")  # before the fixture of each test
        q, v = start(system)
        return system, q, v, pp.simulate(system, q, v, 0.5, rtol=1e-12, atol=1e-14).q[-1]


ERRORS = {"dopri": 1e-8, "radau": 1e-6, "lsoda": 1e-5, "rk4": 1e-6, "implicit_midpoint": 1e-4}


@pytest.mark.parametrize("integrator", ALL)
def test_projection_keeps_the_loop_closed_with_every_integrator(integrator, exact):
    """All reach the same state; the steps of first order only come near it."""
    system, q, v, best = exact
    run = pp.simulate(system, q, v, 0.5, **steps_of(integrator, dt=1e-3))
    assert worst(run) <= 1e-10
    rates = np.einsum("krv,kv->kr", system.jacobian(run.q), run.v)
    assert np.abs(rates).max() < 1e-9
    least = {"semi_implicit": 0.2, "implicit_midpoint": 1e-3}.get(integrator, 1e-4)
    assert np.ptp(run.energy) < least
    assert_allclose(run.q[-1], best, atol=ERRORS.get(integrator, 1e-2))


def test_the_order_of_rk4_survives_the_projection(exact):
    system, q, v, best = exact
    errors = [
        np.abs(pp.simulate(system, q, v, 0.5, integrator="rk4", dt=dt).q[-1] - best).max()
        for dt in (0.02, 0.01)
    ]
    assert 12 < errors[0] / errors[1] < 22


def test_a_loop_through_quaternions_is_kept():
    """Free and spherical joints: the coordinates of the integrator are not those of q."""
    b = pp.ModelBuilder()
    box = pp.SpatialInertia(1.0, (0.1, 0.05, 0), (0.02, 0.03, 0.04))
    b.add_body("one", joint=pp.joints.Spherical(), inertia=box)
    b.add_body("two", joint=pp.joints.Free(), inertia=box)
    ends = {"a": ("one", (0.3, 0, 0)), "b": ("two", (0.2, 0, 0))}
    system = pp.System(b.build(), [c.Universal((0, 1, 0), Z, name="cross", **ends)])
    q = system.assemble(system.model.random_configuration(1), restarts=5)
    q, v = system.project(q, np.random.default_rng(1).standard_normal(9))
    for integrator in ("dopri", "radau", "rk4", "lsoda"):
        run = pp.simulate(system, q, v, 0.1, **steps_of(integrator, dt=2e-3))
        assert worst(run) <= 1e-10
        assert np.ptp(run.energy) < 1e-5
        lengths = np.linalg.norm(run.q[:, [0, 1, 2, 3]], axis=1)
        assert_allclose(lengths, 1, atol=1e-12)


def test_baumgarte_pulls_residuals_back_and_none_lets_them_grow():
    system = four_bar()
    q, v = start(system, 3.0)
    drift = {
        method: pp.simulate(
            system, q, v, 2.0, integrator="rk4", dt=5e-3, stabilization=method
        ).constraint_residuals
        for method in ("project", "baumgarte", "none")
    }
    last = {method: np.abs(values[-100:]).max() for method, values in drift.items()}
    assert last["project"] < 1e-12 < last["baumgarte"] < last["none"]
    assert np.abs(drift["none"][:, :]).max() < 1e-2


def test_baumgarte_follows_its_own_equation():
    """g̈ + 2 a ġ + a² g = 0: from g0 at rest, g = g0 (1 + a t) exp(−a t)."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("block", joint=pp.joints.Prismatic(Z), inertia=pp.SpatialInertia(1, (0, 0, 0), 1))
    b.add_body("other", joint=pp.joints.Prismatic(Z), inertia=pp.SpatialInertia(2, (0, 0, 0), 1))
    system = pp.System(
        b.build(), [c.Coupling(name="same", joints=["block", "other"], coefficients=[1, -1])]
    )
    run = pp.simulate(
        system, [5e-7, 0.0], [0.0, 0.0], 1.0, stabilization="baumgarte", baumgarte_rate=5.0,
        atol=1e-16,
    )  # fmt: skip
    exact = 5e-7 * (1 + 5 * run.t) * np.exp(-5 * run.t)
    assert_allclose(run.constraint_residuals[:, 0], exact, atol=1e-13)


@pytest.mark.parametrize("seed", seeds(4))
def test_random_systems_keep_energy_and_constraints(seed, monkeypatch):
    """Trees of all joint types with loops, in gravity."""
    monkeypatch.setenv("PHIPSI_BACKEND", "reference")
    rng = np.random.default_rng(seed)
    kinds = [k for k in rng.permutation(KINDS[:10])[:3]]
    system, q = random_system(seed, 5, kinds, n_roots=2, independent=True, spare=2)
    assert system.n_rows
    q, v = system.project(q, rng.standard_normal(system.model.nv))
    run = pp.simulate(system, q, v, 0.1, rtol=1e-8)
    assert worst(run) <= 1e-10
    size = max(1.0, np.abs(pp.kinetic_energy(system.model, run.q, run.v)).max())
    assert np.ptp(run.energy) < 1e-6 * size


def test_a_skate_runs_in_circles():
    """Rows on velocities only: a blade that does not slip sideways, the mass centre on it."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("skate", joint=pp.joints.Planar(), inertia=pp.SpatialInertia(2.0, (0, 0, 0), 0.3))
    row = [[0, 0, 0, 0, 1, 0]]
    blade = c.Rows(name="blade", points=["skate"], A=row, axes="body")
    run = pp.simulate(pp.System(b.build(), [blade]), [0, 0, 0], [0.5, 2.0, 0], 5.0, rtol=1e-11)
    radius, angle = 2.0 / 0.5, 0.5 * run.t
    exact = np.stack([angle, radius * np.sin(angle), radius * (1 - np.cos(angle))], axis=1)
    assert_allclose(run.q, exact, atol=1e-7)
    assert_allclose(run.v, [[0.5, 2.0, 0.0]] * len(run), atol=1e-9)


def test_a_gear_drives_its_partner():
    """Two wheels with a ratio of 3: the motor feels the other one's inertia nine times."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, moment in (("motor", 0.1), ("wheel", 0.02)):
        inertia = pp.SpatialInertia(1.0, (0, 0, 0), moment)
        b.add_body(name, joint=pp.joints.Revolute(Z), inertia=inertia)
    model = b.build()
    gear = c.Coupling(name="gear", joints=("wheel", "motor"), coefficients=(1, -3))
    tau = np.zeros(2)
    tau[model.v_slice("motor")] = 0.7
    run = pp.simulate(pp.System(model, [gear]), [0, 0], [0, 0], 2.0, controller=lambda *_: tau)
    motor, wheel = (run.q[-1, model.q_slice(n)][0] for n in ("motor", "wheel"))
    assert_allclose(motor, 0.5 * 0.7 / (0.1 + 9 * 0.02) * 4, rtol=1e-9)
    assert_allclose(wheel, 3 * motor, rtol=1e-12)


def test_many_loops_at_once_move_as_one():
    """110 four-bars side by side: more rates than singular values are computed for."""
    one = four_bar()
    q, v = start(one)
    lengths, count = (0.5, 1.2, 1.0), 110
    b, pins = pp.ModelBuilder(gravity=(0, -9.81, 0)), []
    for i in range(count):
        parent, place = "world", (0.0, 0.0, float(i))
        for name, inertia, length in zip("abc", one.model.inertias, lengths, strict=True):
            b.add_body(
                f"{name}{i}", parent=parent, joint=pp.joints.Revolute(Z), inertia=inertia,
                placement=pp.Pose(None, place),
            )  # fmt: skip
            parent, place = f"{name}{i}", (length, 0.0, 0.0)
        ends = {"a": (parent, (1.0, 0, 0)), "b": ("world", (1.1, 0, float(i)))}
        pins.append(c.Revolute(Z, name=f"pin{i}", **ends))
    many = pp.System(b.build(), pins)
    assert many.model.nv > 300
    alone = pp.simulate(one, q, v, 0.1)
    run = pp.simulate(many, np.tile(q, count), np.tile(v, count), 0.1)
    assert worst(run) <= 1e-10
    assert_allclose(run.q[-1].reshape(count, 3), [alone.q[-1]] * count, atol=1e-8)


# ---- events and output --------------------------------------------------------------------------


def test_states_at_output_times_and_events_are_on_the_constraints():
    system = four_bar()
    q, v = start(system)
    times = np.linspace(0, 1, 37)
    hit = pp.Event(lambda t, q, v: q[0] - 0.8, name="angle")
    run = pp.simulate(system, q, v, 1.0, output_times=times, events=[hit], rtol=1e-6)
    assert len(run) == 37 and worst(run) <= 1e-10
    assert run.events
    for record in run.events:
        assert abs(system.residual(record.q)).max() <= 1e-10
        assert abs(record.q[0] - 0.8) < 1e-6


def test_an_impulse_in_an_event_is_shared_out_by_the_loop():
    """A change of one rate by an action becomes the nearest admissible change of all of them."""
    system = four_bar()
    q, v = start(system)
    kick = np.array([0.0, 0.0, 1.0])
    event = pp.Event(lambda t, q, v: t - 0.2, action=lambda t, q, v: (q, v + kick), name="kick")
    run = pp.simulate(system, q, v, 0.4, events=[event])
    record = run.events[0]
    jump = record.v_after - record.v
    assert_allclose(system.jacobian(record.q_after) @ record.v_after, 0, atol=1e-10)
    N = np.linalg.svd(system.jacobian(record.q))[2][2:]
    M = pp.mass_matrix(system.model, record.q)
    assert_allclose(N @ M @ (jump - kick), 0, atol=1e-10)
    assert np.abs(jump).max() > 0.05


def test_constraints_survive_files_and_resampling(tmp_path):
    system = four_bar()
    run = pp.simulate(system, *start(system), 0.5)
    assert run.system is system
    finer = run.resample(np.linspace(0, 0.5, 50))
    assert finer.constraint_residuals.shape == (50, 5)
    assert np.abs(finer.constraint_residuals).max() < 1e-10
    assert np.abs(system.jacobian(run.at(0.123)[0]) @ run.at(0.123)[1]).max() < 1e-9
    loose = pp.simulate(system, *start(system), 0.5, stabilization="none", rtol=1e-4)
    assert np.abs(loose.resample([0.21, 0.43]).constraint_residuals).max() > 1e-9
    run.save(tmp_path / "run.npz")
    back = pp.Trajectory.load(tmp_path / "run.npz")
    assert_allclose(back.constraint_residuals, run.constraint_residuals)
    assert back.system is None and back.model == run.model


# ---- what goes wrong ---------------------------------------------------------------------------


def test_a_start_that_does_not_close_is_refused_with_the_way_out():
    system = four_bar()
    with pytest.raises(
        pp.errors.InputError, match=r"'pin' .* stays open by .* m.*\n.*\n.*\n.*assemble"
    ):
        pp.simulate(system, [1.0, -0.8, -1.5], np.zeros(3), 1.0)
    q = system.assemble([1.0, -0.8, -1.5])
    with pytest.raises(pp.errors.InputError, match=r"'pin\.x' by .*\n.*system\.project"):
        pp.simulate(system, q, [1.0, 0.0, 0.0], 1.0)


def test_a_small_gap_at_the_start_is_closed():
    system = four_bar()
    q, v = start(system)
    run = pp.simulate(system, q + 1e-8, v, 0.01)
    assert worst(run) <= 1e-10


def test_a_start_that_is_turned_over_is_refused():
    b = pp.ModelBuilder()
    b.add_body("body", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1, (0, 0, 0), 1))
    system = pp.System(b.build(), [c.Revolute(Z, name="hinge", a="world", b="body")])
    with pytest.raises(pp.errors.InputError, match="turned over"):
        pp.simulate(system, [0, 1, 0, 0, 0, 0, 0], np.zeros(6), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stabilization": "magic"}, "not one of 'project'"),
        ({"constraint_tolerance": 0}, "constraint_tolerance=0"),
        ({"baumgarte_rate": -1}, "baumgarte_rate=-1"),
        (
            {"prescribed": {"crank": 1.0, "coupler": 3.0}},
            "not prescribed cannot compensate",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    system = four_bar()
    with pytest.raises(pp.errors.InputError, match=message):
        pp.simulate(system, *start(system), 1.0, **options)


def test_contradictory_accelerations_at_the_start_are_named():
    """A flat parallelogram whose rates mix its two branches: no acceleration keeps it closed."""
    system, _, _ = n_four_bar(1)
    flat = np.zeros(3)
    parallelogram = [1.0, -1.0, 1.0]  # rod0, coupler relative to it, rod1
    G = system.jacobian(flat)
    names = system.model.joint_names
    order = [names.index(n) for n in ("rod0", "coupler0", "rod1")]
    mixed = np.zeros(3)
    mixed[order] = parallelogram
    assert_allclose(G @ mixed, 0, atol=1e-12)
    N = np.linalg.svd(G)[2][1:]
    bad = N.T @ np.array([1.0, 0.7])
    with pytest.raises(pp.errors.InputError, match=r"'pin0\.x', .*contradict.*'pin0' between"):
        pp.simulate(system, flat, bad, 1.0)


def test_a_mechanism_at_the_end_of_its_reach_keeps_its_trajectory():
    """Two rods pulled apart until they are straight: the loop cannot follow a prescribed rate."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), 0.1)
    b.add_body("one", joint=pp.joints.Revolute(Z), inertia=rod)
    b.add_body(
        "two", parent="one", joint=pp.joints.Revolute(Z), placement=pp.Pose(None, (1, 0, 0)),
        inertia=rod,
    )  # fmt: skip
    b.add_body("cart", joint=pp.joints.Prismatic((1, 0, 0)), inertia=rod)
    pin = c.Revolute(Z, name="pin", a=("two", (1, 0, 0)), b="cart")
    pull = c.Rows(name="pull", points=["cart"], A=[[0, 0, 0, 1, 0, 0]], row_velocity=1.0)
    system = pp.System(b.build(), [pin, pull])
    q = system.assemble([0.5, -1.0, 1.75])
    q, v = system.project(q, np.zeros(3))
    reach = 2.0 - q[2]
    with pytest.raises(pp.errors.SimulationError) as error:
        pp.simulate(system, q, v, 5.0, rtol=1e-5)
    run = error.value.trajectory
    assert not run.complete and len(run) > 5
    assert reach - 0.05 < run.t[-1] <= reach + 1e-6
    assert worst(run) <= 1e-10
    text = str(error.value)
    assert "lose rank" in text or "'pin'" in text


def test_a_controller_that_fails_keeps_the_trajectory():
    system = four_bar()

    def controller(t, q, v):
        if t > 0.3:
            raise ValueError("no more")
        return np.zeros(3)

    with pytest.raises(pp.errors.SimulationError, match="no more") as error:
        pp.simulate(system, *start(system), 1.0, controller=controller)
    assert error.value.trajectory.t[-1] > 0.1
    assert error.value.trajectory.constraint_residuals.shape[1] == 5


@pytest.mark.parametrize(
    ("integrator", "kind"),
    [
        ("dopri", "regular"),
        ("dopri", "flat"),
        ("dopri", "rubs"),
        ("rk4", "regular"),
        ("rk4", "flat"),
    ],
)
def test_output_times_and_recorded_events_do_not_change_the_run(integrator, kind):
    """Bit for bit: what is judged about the rank at a state beside the run does not last.

    The second mechanism is a parallelogram that passes through its flat position, where the rows
    lose rank; states inside its steps are on both sides of the limits for that. The third has dry
    friction, whose events are looked for inside steps too.
    """
    system, options = four_bar(), {"integrator": integrator}
    options |= {"dt": 0.01} if integrator == "rk4" else {}
    q, v = start(system)
    if kind == "flat":
        pin = c.Revolute(Z, name="pin", a="tip", b=("world", (1.0, 0, 0)))
        system = pp.System(pp.examples.planar_arm(3), [pin])
        q, v = system.project(system.assemble([0.4, -0.4, 0.4 - np.pi]), [-4.0, 4.0, -4.0])
    if kind == "rubs":
        joint = system.model.joint_names[0]
        options["forces"] = pp.forces.JointFriction(joint, 0.3, velocity_scale=0)
    seen = pp.Event(lambda t, q, v: np.sin(40 * t), name="only recorded")
    many = np.linspace(0.0, 0.3, 61)
    ways = [{}, {"output_times": [0.3]}, {"output_times": many}, {"events": [seen]}]
    plain, *others = (pp.simulate(system, q, v, 0.3, **options, **way) for way in ways)
    for run in others:
        assert_array_equal(run.q[-1], plain.q[-1])
        assert_array_equal(run.v[-1], plain.v[-1])
    assert kind != "flat" or plain.q[0, 0] > 0.3 > -0.3 > plain.q[-1, 0]


@pytest.mark.parametrize("integrator", ["dopri", "rk4"])
def test_an_event_that_is_recorded_does_not_move_an_action(integrator):
    """Within rounding of one time they are one event, which is when the action says."""
    system = four_bar()
    options = {"integrator": integrator} | ({"dt": 0.01} if integrator == "rk4" else {})
    act = pp.Event(lambda t, q, v: t - 0.1, action=lambda t, q, v: (q, 0.5 * v))
    seen = pp.Event(lambda t, q, v: t - 0.1 + 1e-15)
    one, two = (
        pp.simulate(system, *start(system), 0.3, events=events, **options)
        for events in ([act], [seen, act])
    )
    assert len(two.events) == 2
    assert_array_equal(two.q[-1], one.q[-1])
    assert_array_equal(two.v[-1], one.v[-1])
