"""Known motions, conservation laws, and the order of every method."""

import numpy as np
import pytest
from amounts import ALL as EVERYTHING, seeds
from known_mechanisms import BOOT_START, baby_boot, boot_series, floating_body, pendulum
from random_models import ALL, branching, chain, model_from_parents, random_tree
from scipy.integrate import solve_ivp

import phipsi as pp
from phipsi.core.model.joints import Composite, Spherical, Translation
from phipsi.simulation.integrators.tableaux import METHODS

TIGHT = {"rtol": 1e-12, "atol": 1e-14}
A01 = {
    1.0: (0.986291751131875, -0.165010853125541),
    2.0: (-0.793566195343322, -0.608483930443792),
    5.0: (-0.942305435043757, -0.334754338414001),
    10.0: (-0.275087462576117, -0.961419205099125),
}
FIXED = [name for name, x in METHODS.items() if not x.is_adaptive and not x.damping_implicit]
ADAPTIVE = [name for name, method in METHODS.items() if method.is_adaptive]


# ---- known motions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("integrator", "options", "error"),
    [
        ("dopri", TIGHT, 1e-9),
        ("lsoda", TIGHT, 1e-9),
        ("radau", {"rtol": 1e-10}, 1e-9),
        ("rk4", {"dt": 1e-3}, 1e-9),
        ("implicit_midpoint", {"dt": 2e-3}, 1e-4),
    ],
)
def test_pendulum_a01(integrator, options, error):
    times = list(A01)
    run = pp.simulate(
        pendulum(), [np.pi], [0.0], 10, integrator=integrator, output_times=times, **options
    )
    place = np.column_stack([np.cos(run.q[:, 0]), np.sin(run.q[:, 0])])
    np.testing.assert_allclose(place, list(A01.values()), atol=error)
    assert run.complete and list(run.t) == times


def test_baby_boot_is_right_as_long_as_chaos_permits():
    """Errors grow about 10⁷-fold in 10 s; the reference has 30 digits and its own equations."""
    end = 10 if EVERYTHING else 5
    reference = boot_series(order=28, step="0.05", steps=20 * end, digits=30)[::20]
    times, options = np.arange(end + 1.0), {"rtol": 1e-13, "atol": 1e-15}
    run = pp.simulate(baby_boot(), BOOT_START, [0, 0], end, output_times=times, **options)
    error = np.abs(run.q - reference).max(axis=1)
    assert (error[:4] < 1e-11).all(), error
    assert (error < 1e-6).all(), error
    assert np.abs(run.energy).max() < 1e-12


def test_free_body_turns_like_euler_says():
    """A symmetric top without moments: ω precesses about its axis at (I3 − I1)/I1 ω3."""
    body = floating_body((1.0, 1.0, 1.8))
    v0 = np.array([0.3, 0.0, 2.0, 0.1, 0.2, -0.1])
    run = pp.simulate(body, body.neutral(), v0, 20.0, output_times=np.linspace(0, 20, 41), **TIGHT)
    rate = 0.8 * 2.0
    expected = np.column_stack(
        [0.3 * np.cos(rate * run.t), 0.3 * np.sin(rate * run.t), np.full(41, 2.0)]
    )
    np.testing.assert_allclose(run.v[:, :3], expected, atol=1e-10)
    # the mass centre moves straight on
    np.testing.assert_allclose(run.q[:, 4:], run.t[:, None] * v0[3:], atol=1e-10)


@pytest.mark.parametrize("integrator", ADAPTIVE)
def test_agrees_with_scipy_in_quaternion_components(integrator):
    """A second route: q̇ = N(q) v in components, where quaternions are only four numbers."""
    model = model_from_parents([-1, 0, 1, 1], 8, ["free", "spherical", "planar", "composite"])
    rng = np.random.default_rng(0)
    q0, v0 = model.random_configuration(rng), rng.uniform(-2, 2, model.nv)
    zero = np.zeros(model.nv)

    def derivative(t, y):
        q, v = y[: model.nq], y[model.nq :]
        vdot = pp.forward_dynamics(model, q, v, zero)
        return np.concatenate([model.qdot(q, v), vdot])

    tight = {"rtol": 1e-12, "atol": 1e-13}
    other = solve_ivp(derivative, (0, 1), np.concatenate([q0, v0]), method="DOP853", **tight)
    end = other.y[:, -1]
    options = {"rtol": 1e-9} if integrator == "radau" else tight
    run = pp.simulate(model, q0, v0, 1.0, integrator=integrator, **options)
    np.testing.assert_allclose(model.difference(end[: model.nq], run.q[-1]), 0, atol=3e-9)
    np.testing.assert_allclose(run.v[-1], end[model.nq :], atol=3e-9 * np.abs(end).max())


# ---- conservation -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(4))
def test_energy_of_random_trees(seed):
    model = random_tree(seed, 7, armature=seed % 2 == 1)
    rng = np.random.default_rng(seed)
    run = pp.simulate(
        model, model.random_configuration(rng), rng.uniform(-1, 1, model.nv), 1, **TIGHT
    )
    largest = pp.kinetic_energy(model, run.q, run.v).max()
    assert np.ptp(run.energy) < 1e-11 * largest
    for _, joint, at in _quaternions(model):
        length = np.linalg.norm(run.q[:, at], axis=1)
        np.testing.assert_allclose(length, 1, atol=1e-14, err_msg=joint)


def _quaternions(model):
    for name, joint, at in zip(model.joint_names, model.joints, model.q_slices, strict=True):
        if joint.kind in ("free", "spherical"):
            yield name, joint.kind, slice(at.start, at.start + 4)


def test_every_joint_type_is_simulated():
    model = chain(len(ALL), 1, list(ALL))
    assert [j.kind.split("(")[0] for j in model.joints] == list(ALL)
    rng = np.random.default_rng(1)
    run = pp.simulate(
        model, model.random_configuration(2), rng.uniform(-1, 1, model.nv), 0.5, **TIGHT
    )
    assert np.ptp(run.energy) < 1e-11 * pp.kinetic_energy(model, run.q, run.v).max()


def test_energy_of_a_seven_joint_arm():
    arm, end = pp.examples.seven_joint_arm(), 10 if EVERYTHING else 4
    run = pp.simulate(arm, [0.3, 0.5, 0.2, -0.7, 0.1, 0.4, 0.0], np.zeros(7), end, **TIGHT)
    assert np.ptp(run.energy) < 1e-10 * pp.kinetic_energy(arm, run.q, run.v).max()


@pytest.mark.parametrize("integrator", ADAPTIVE)
def test_momentum_of_a_floating_tree(integrator):
    robot = pp.examples.free_flyer()
    v0 = np.random.default_rng(0).uniform(-0.5, 0.5, robot.nv)
    options = {"rtol": 1e-10, "atol": 1e-12} if integrator == "radau" else TIGHT
    run = pp.simulate(robot, robot.neutral(), v0, 2.0, integrator=integrator, **options)
    assert len(run) > 20
    assert np.abs(run.momentum - run.momentum[0]).max() < 1e-11 * np.abs(run.momentum).max()
    np.testing.assert_allclose(np.linalg.norm(run.q[:, :4], axis=1), 1, atol=1e-14)


def test_momentum_is_constant_to_the_order_of_fixed_steps():
    model = branching(
        5, 2, ["free", "spherical", "revolute", "spherical", "planar"], gravity=(0, 0, 0)
    )
    rng = np.random.default_rng(1)
    q0, v0 = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    for integrator, order in (("semi_implicit", 1), ("implicit_midpoint", 2), ("rk4", 4)):
        drift = []
        for dt in (0.02, 0.01):
            run = pp.simulate(model, q0, v0, 0.4, integrator=integrator, dt=dt)
            drift.append(np.abs(run.momentum - run.momentum[0]).max())
        assert drift[1] < drift[0] * 0.5 ** (order - 0.3), (integrator, drift)


def test_implicit_midpoint_has_no_energy_drift():
    """Energy of a symmetric method oscillates; that of Runge–Kutta goes one way."""
    run = pp.simulate(pendulum(), [0.0], [0.0], 40, integrator="implicit_midpoint", dt=0.02)
    error = np.abs(run.energy - run.energy[0])
    assert 0 < error.max() < 1e-3 * pp.kinetic_energy(run.model, run.q, run.v).max()
    assert error[-400:].max() < 1.1 * error[:400].max()


# ---- order --------------------------------------------------------------------------------------

EXACT: dict[tuple[object, ...], pp.Trajectory] = {}


@pytest.mark.parametrize("integrator", FIXED)
@pytest.mark.parametrize("kinds", [
    ("free", "spherical", "revolute", Composite([Translation(), Spherical()])),
    ("planar", "spherical", "free", "universal"),
    ("revolute", "prismatic", "helical", "cylindrical"),
], ids=lambda k: k[0])  # fmt: skip
def test_order_of_fixed_steps(integrator, kinds):
    model = model_from_parents([-1, 0, 1, 1], 12, kinds)
    rng = np.random.default_rng(3)
    q0, v0 = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    exact = EXACT.get(kinds)
    if exact is None:
        exact = EXACT[kinds] = pp.simulate(model, q0, v0, 0.3, output_times=[0.3], **TIGHT)

    def error(dt):
        run = pp.simulate(model, q0, v0, 0.3, integrator=integrator, dt=dt, output_times=[0.3])
        gap = model.difference(exact.q[-1], run.q[-1])
        return np.linalg.norm(gap) + np.linalg.norm(run.v[-1] - exact.v[-1])

    order = METHODS[integrator].order
    coarse = 0.3 / 24 if order > 1 else 0.3 / 96
    measured = np.log2(error(coarse) / error(coarse / 2))
    assert abs(measured - order) < 0.25, measured


def test_wrong_dexp_would_be_seen():
    """Without dexp⁻¹ Runge–Kutta on a group has order 2 only: the test above is sharp."""
    from phipsi.simulation.simulate.equations import Equations
    from phipsi.simulation.simulate.fixed_steps import advance_function

    model = model_from_parents([-1, 0], 12, ["free", "spherical"])
    rng = np.random.default_rng(3)
    q0, v0 = model.random_configuration(rng), rng.uniform(-2, 2, model.nv)
    exact = pp.simulate(model, q0, v0, 0.3, output_times=[0.3], **TIGHT)
    equations = Equations(model, None, ())
    equations.chart.rate = lambda z, v: v
    advance = advance_function(METHODS["rk4"], equations)
    errors = []
    for n in (16, 32):
        q, v = q0, v0
        for k in range(n):
            q, v, _ = advance(k * 0.3 / n, q, v, 0.3 / n)
        errors.append(np.linalg.norm(model.difference(exact.q[-1], q)))
    assert np.log2(errors[0] / errors[1]) < 3


@pytest.mark.parametrize("integrator", ADAPTIVE)
def test_tolerance_is_proportional_to_the_error(integrator):
    model = model_from_parents([-1, 0], 2, ["spherical", "revolute"])
    q0, v0 = model.neutral(), np.ones(model.nv)
    exact = pp.simulate(model, q0, v0, 1.0, rtol=1e-13, atol=1e-15)
    errors = []
    for rtol in (1e-5, 1e-8):
        run = pp.simulate(model, q0, v0, 1.0, integrator=integrator, rtol=rtol, atol=rtol / 100)
        errors.append(np.abs(model.difference(exact.q[-1], run.q[-1])).max())
    assert errors[1] < 1e-2 * errors[0] < 1e-4


# ---- output -------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ADAPTIVE)
def test_output_times_do_not_change_the_motion(integrator):
    model = model_from_parents([-1, 0, 0], 5, ["free", "revolute", "spherical"])
    rng = np.random.default_rng(5)
    q0, v0 = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    options = {"integrator": integrator, "rtol": 1e-7 if integrator == "radau" else 1e-10}
    free = pp.simulate(model, q0, v0, 1.0, **options)
    times = np.sort(rng.uniform(0, 1, 17))
    run = pp.simulate(model, q0, v0, 1.0, output_times=times, **options)
    np.testing.assert_array_equal(run.t, times)
    again = free.resample(times)
    np.testing.assert_allclose(again.q, run.q, atol=1e-13)
    np.testing.assert_allclose(again.v, run.v, atol=1e-12)
    exact = pp.simulate(model, q0, v0, 1.0, output_times=times, **TIGHT)
    np.testing.assert_allclose(run.v, exact.v, atol=1e-4 if integrator == "radau" else 1e-7)


def test_fixed_steps_end_on_multiples_of_dt_and_at_the_end():
    run = pp.simulate(pendulum(), [0.0], [0.0], 0.95, integrator="rk4", dt=0.1)
    np.testing.assert_allclose(run.t, [*np.arange(10) * 0.1, 0.95], rtol=0, atol=1e-15)
    assert len(pp.simulate(pendulum(), [0.0], [0.0], 10.0, integrator="semi_implicit")) == 10001


def test_fixed_steps_at_output_times_have_the_order_of_the_method():
    times = [0.1234, 0.5, 0.777]
    exact = pp.simulate(pendulum(), [0.0], [0.0], 1.0, output_times=times, **TIGHT)
    run = pp.simulate(pendulum(), [0.0], [0.0], 1.0, integrator="rk4", dt=0.01, output_times=times)
    np.testing.assert_allclose(run.q, exact.q, atol=1e-8)


def test_controller_is_followed_and_recorded():
    """A torque that cancels gravity holds the pendulum where it is, and is in tau."""
    model = pendulum()
    hold = pp.simulate(
        model, [0.3], [0.0], 1.0, controller=lambda t, q, v: pp.gravity_forces(model, q)
    )
    np.testing.assert_allclose(hold.q, 0.3, atol=1e-12)
    np.testing.assert_allclose(hold.tau, 9.81 * np.cos(0.3), atol=1e-10)


def test_no_freedom_and_no_time():
    b = pp.ModelBuilder()
    still = pp.simulate(b.build(), [], [], 1.0)
    assert still.t[-1] == 1.0 and still.q.shape == (len(still), 0)
    none = pp.simulate(pendulum(), [0.1], [0.2], 0.0)
    assert none.complete and none.t.tolist() == [0.0] and none.v.tolist() == [[0.2]]
