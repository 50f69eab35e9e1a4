"""Laws that are accepted, and warned of: they hardly do what was meant."""

import warnings

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import PhipsiWarning

ARM = pp.examples.planar_arm(2)
BOTH = ["joint1", "joint2"]


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PhipsiWarning)
        yield


@pytest.mark.parametrize("key", ["Tau", "torque", "u", "efforts"])
def test_torques_under_another_name_have_no_effect(key):
    law = pp.law(lambda q: {key: -q}, name="hold")
    for make in (
        lambda x: pp.Simulator(ARM, [x]),
        lambda x: pp.linearize(ARM, [0.0, 0.0], laws=[x]),
    ):
        with pytest.raises(PhipsiWarning, match=f"'hold' returns '{key}' and no 'tau'"):
            make(law)
        make(law.silent())
    reader = pp.law(lambda x: {"tau": x}, name="reader").bind(x=pp.signals.output(law, key))
    pp.Simulator(ARM, [law, reader])
    pp.Simulator(ARM, [pp.law(lambda q: {"tau": -q, key: q})])
    pp.Simulator(ARM, [pp.law(lambda q: {"angle": q})])  # a record
    if key == "u":  # so is this one, beside a controller
        pp.Simulator(ARM, [law, pp.laws.pid(BOTH, 0.0, 1.0)])


@pytest.mark.parametrize("signal", [pp.signals.output, pp.signals.previous])
def test_a_command_that_acts_too_acts_twice(signal):
    pid = pp.laws.pid(BOTH, 0.0, 1.0)
    given = (pid, "tau") if signal is pp.signals.output else (pid, "tau", np.zeros(2))
    motor = pp.laws.motor(BOTH, signal(*given))
    with pytest.raises(PhipsiWarning, match=r"'pid' acts on the joints.*acts twice.*\n.*silent"):
        pp.Simulator(ARM, [pid, motor])
    pp.Simulator(ARM, [pid.silent(), motor])
    pp.Simulator(ARM, [pid, motor.silent()])


def test_commands_that_cross_are_named():
    pid = pp.laws.pid(BOTH, 0.0, 1.0).silent()
    for joints, crosses in ((BOTH, False), (BOTH[::-1], True)):
        motor = pp.laws.motor(joints, pp.signals.output(pid))
        if crosses:
            with pytest.raises(PhipsiWarning, match=r"different orders.*\n.*'joint2', 'joint1'"):
                pp.Simulator(ARM, [pid, motor])
        else:
            pp.Simulator(ARM, [pid, motor])
    one = pp.laws.pid("joint1", 0.0, 1.0).silent()  # a drive of another joint
    pp.Simulator(ARM, [one, pp.laws.motor("joint2", pp.signals.output(one))])


# ---- states that decay faster than steps can follow ----------------------------------------------

R = 1.2


@pp.law(states={"i": np.zeros(1)}, joints="joint1")
def drive(v, i, u, L):
    return {"tau": 0.05 * i, "i": (u - R * i - 0.05 * v) / L}


LIMITS = {"rk4": 2.785, "semi_implicit": 2.0, "implicit_damping": 2.0}


@pytest.mark.parametrize("integrator", LIMITS)
def test_a_state_that_decays_too_fast_is_named_before_it_diverges(integrator):
    """The limit is that of the method: below it the current ends at u / R, above it it grows."""
    for factor in (0.98, 1.02):
        dt = 1e-3
        L = R * dt / (LIMITS[integrator] * factor)
        sim = pp.Simulator(ARM, [drive.bind(u=1.0, L=L)], dt=dt, integrator=integrator)
        if factor < 1:
            state = sim.initial_state()
        else:
            with pytest.raises(
                PhipsiWarning, match=r"'drive.i\[0\]' decays.*too long(.|\n)*midpoint"
            ):
                sim.initial_state()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PhipsiWarning)
                state = sim.initial_state()
        run = sim.rollout(state, steps=600, record=("drive.tau",), on_error="nan")
        size = np.abs(run["drive.tau"]).max()  # the gaps to the end grow by 2 % per step, or shrink
        assert np.isnan(run["drive.tau"]).any() or size > 1 if factor > 1 else size < 0.15


def test_implicit_steps_and_slow_states_are_not_warned_of():
    law = drive.bind(u=1.0, L=1e-6)
    pp.Simulator(ARM, [law], dt=1e-3, integrator="implicit_midpoint").initial_state()
    pp.Simulator(ARM, [pp.laws.pid(BOTH, 0.0, 1.0, 3.0)], dt=1e-3).initial_state()
    grows = pp.law(lambda x: {"x": 1e9 * x}, states={"x": 1.0}, name="grows")
    pp.Simulator(ARM, [grows], dt=1e-3).initial_state()  # nothing decays


def test_parameters_of_trajectories_are_looked_at():
    sim = pp.Simulator(ARM, [drive.bind(u=1.0, L=1.0)], dt=1e-3)
    with pytest.raises(PhipsiWarning, match="time constant of 8.33e-06 s"):
        sim.initial_state(parameters={"drive.L": [1.0, 1e-5]})
