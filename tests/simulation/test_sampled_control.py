"""Sampled controllers of simulate: called once per sample, at increasing times, held between."""

import numpy as np
import pytest
from integrator_steps import steps_of
from known_systems import pinned_arm
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import InputError, SimulationError

ARM = pp.examples.planar_arm(2)
Q, V, RATE = np.array([0.2, -0.3]), np.zeros(2), 50.0
TARGET, KP, KI, KD = np.array([0.5, 0.3]), 60.0, 40.0, 8.0


class PID:
    """A controller with a memory that records when it was called."""

    def __init__(self, limit=np.inf):
        self.calls, self.integral, self.limit = [], np.zeros(2), limit

    def __call__(self, t, q, v):
        self.calls.append((t, np.array(q), np.array(v)))
        e = TARGET - q
        u = KP * e + self.integral - KD * v
        cut = np.clip(u, -self.limit, self.limit)
        # it is integrated only where the drive can follow
        self.integral = self.integral + np.where(u == cut, KI / RATE * e, 0.0)
        return cut

    @property
    def times(self):
        return np.array([t for t, _, _ in self.calls])


def run(control, duration=0.5, **options):
    return pp.simulate(ARM, Q, V, duration, controller=control, rate=RATE, **options)


FIXED = ("rk4", "semi_implicit", "implicit_midpoint", "variational")
INTEGRATORS = [*FIXED, "dopri", "radau", "lsoda"]


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_one_call_for_every_sample(integrator):
    control = PID()
    found = run(control, 0.3, **steps_of(integrator, dt=1e-3, rtol=1e-6, atol=1e-8))
    assert_allclose(control.times, np.arange(15) / RATE, atol=1e-12)
    assert (np.diff(control.times) > 0).all()
    # it saw the states of the trajectory, and its efforts are recorded until the next sample
    for t, q, v in control.calls:
        i = int(np.argmin(np.abs(found.t - t)))
        assert_allclose(found.t[i], t, atol=1e-12)
        assert_allclose(found.q[i], q, atol=1e-12)
        assert_allclose(found.v[i], v, atol=1e-12)
    held = np.minimum((found.t * RATE * (1 + 1e-12)).astype(int), 14)
    for k in range(15):
        assert len(np.unique(found.tau[held == k], axis=0)) == 1
    assert len(np.unique(found.tau, axis=0)) == 15


def exact(limit=np.inf, delay=0, steps=25, dt=2e-4):
    """Stretches of constant efforts, each a run of its own."""
    control, q, v = PID(limit), Q, V
    waiting = [np.zeros(2)] * delay
    for k in range(steps):
        waiting.append(control(k / RATE, q, v))
        tau = waiting.pop(0)
        q, v = (x[-1] for x in pp.rollout(ARM, q, v, tau, dt, round(1 / RATE / dt)))
    return q, v


@pytest.mark.parametrize(("limit", "delay"), [(np.inf, 0), (15.0, 0), (np.inf, 2)])
def test_a_pid_is_right_in_fixed_and_adaptive_steps(limit, delay):
    q, v = exact(limit, delay)
    fixed = run(PID(limit), delay=delay, integrator="rk4", dt=2e-4)
    assert_allclose(fixed.q[-1], q, rtol=1e-11, atol=1e-12)
    adaptive = run(PID(limit), delay=delay)
    assert_allclose(adaptive.q[-1], q, atol=1e-8)
    assert_allclose(adaptive.v[-1], v, atol=1e-7)
    # held efforts, the limit and the delay matter
    other = pp.simulate(ARM, Q, V, 0.5, controller=PID(), rate=2 * RATE)
    assert np.abs(other.q[-1] - q).max() > 1e-4


def test_it_is_the_sampled_law_of_a_simulator():
    law = pp.laws.pid(ARM.joint_names, TARGET, KP, KI, KD, rate=RATE)
    sim = pp.Simulator(ARM, [law], 1e-3)
    wanted = sim.rollout(sim.initial_state(Q, V), steps=300)

    class Same:
        integral = np.zeros(2)

        def __call__(self, t, q, v):
            e = TARGET - q
            tau = KP * e + self.integral - KD * v
            self.integral = self.integral + KI * e / RATE
            return tau

    found = run(Same(), 0.3, integrator="rk4", dt=1e-3)
    assert_allclose(found.q, wanted.q, rtol=1e-9, atol=1e-10)


def test_a_delay_begins_with_nothing():
    found = run(PID(), 0.1, delay=2, output_times=[0.0, 0.039, 0.04, 0.05])
    assert not found.tau[:2].any() and found.tau[2].all()
    assert_allclose(found.tau[2], PID()(0.0, Q, V))
    assert_allclose(found.tau[2], found.tau[3])


def test_output_times_between_samples_have_the_efforts_held_then():
    control = PID()
    times = np.array([0.005, 0.02, 0.0199, 0.031])
    times.sort()
    found = run(control, 0.04, output_times=times)
    again = PID()
    first, second = (again(t, q, v) for t, q, v in control.calls)
    assert_allclose(found.tau, [first, first, second, second])


@pytest.mark.parametrize("options", [{}, {"integrator": "rk4", "dt": 1e-3}])
def test_events_between_samples_and_at_them(options):
    """An event does not wake the controller; at a sample, it sees the state after the event."""
    control = PID()

    def kick(t, q, v):
        return q, v + [0.0, 1.0]

    between = pp.Event(lambda t, q, v: t - 0.0313, action=kick, name="between")
    at = pp.Event(lambda t, q, v: t - 0.06, action=kick, name="at")
    found = run(control, 0.1, events=[between, at], **options)
    assert [e.name for e in found.events] == ["between", "at"]
    assert_allclose(control.times, np.arange(5) / RATE, atol=1e-9)
    assert_allclose(control.calls[3][2], found.events[1].v_after)
    assert np.abs(found.events[1].v_after - found.events[1].v).max() > 0.5


def test_a_stop_ends_the_samples():
    control = PID()
    run(control, 1.0, events=pp.Event(lambda t, q, v: t - 0.07, action="stop"))
    assert len(control.calls) == 4


def test_systems_and_forces():
    system = pinned_arm()
    calls = []

    def control(t, q, v):
        calls.append(t)
        assert np.abs(system.residual(q)).max() < 1e-9
        return np.array([3.0, 0.0, 0.0]) - 0.5 * v

    q = system.assemble([1.0, -1.0, -1.5])
    pp.simulate(system, q, np.zeros(3), 0.1, controller=control, rate=RATE, rtol=1e-6, atol=1e-8,
                forces=pp.forces.JointDamper(None, 0.1))  # fmt: skip
    assert_allclose(calls, np.arange(5) / RATE, atol=1e-12)


def test_without_a_rate_it_is_called_at_every_stage():
    """The twin: it is called several times for one time, and its integral is wrong."""
    control = PID()
    found = pp.simulate(ARM, Q, V, 0.1, controller=control, integrator="rk4", dt=1 / RATE)
    assert len(control.calls) > 20 and (np.diff(control.times) == 0).any()
    right = run(PID(), 0.1, integrator="rk4", dt=1 / RATE)
    assert np.abs(found.tau[-1] - right.tau[-1]).max() > 0.1


def test_what_is_rejected():
    cases = {
        "must be a positive number of samples": {"rate": 0.0},
        "rate=True must be": {"rate": True},
        "integer number of samples": {"rate": 10.0, "delay": 0.5},
        "Pass rate= too": {"delay": 2},
        "This step fits:  dt=0.00111111111": {"rate": 300.0, "integrator": "rk4", "dt": 1e-3},
    }
    for text, options in cases.items():
        with pytest.raises(InputError, match=text):
            pp.simulate(ARM, Q, V, 0.1, controller=PID(), **options)
    with pytest.raises(InputError, match="Pass controller= too"):
        pp.simulate(ARM, Q, V, 0.1, rate=10.0)
    with pytest.raises(InputError, match=r"controller '.*bad' returned ndarray of shape \(3,\)"):

        def bad(t, q, v):
            return np.zeros(3)

        run(bad)
    with pytest.raises(SimulationError, match=r"failed in its first call(?s:.)*ZeroDivision"):
        run(lambda t, q, v: 1 / 0)
    with pytest.raises(SimulationError, match=r"returned nan for joint 'joint1'"):
        run(lambda t, q, v: np.full(2, np.nan if t > 0.05 else 0.0))
