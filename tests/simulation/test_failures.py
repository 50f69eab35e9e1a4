"""What goes wrong in a run is refused before it, or ends it with everything that was good."""

import io
import os
import signal
import sys

import numpy as np
import pytest
from integrator_steps import steps_of
from known_mechanisms import floating_body, pendulum, slider
from random_models import model_from_parents

import phipsi as pp
from phipsi.core.model.joints import Revolute
from phipsi.support import progress

ARM = pp.examples.planar_arm(2)
ZERO = [0.0, 0.0]
ALL = ["dopri", "radau", "lsoda", "rk4", "semi_implicit", "implicit_midpoint", "variational"]


# ---- before the first step ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((ARM, [0.0, np.nan], ZERO, 1), {}, "q0 is nan at joint 'joint2'"),
        ((ARM, ZERO, [np.inf, 0.0], 1), {}, "v0 is inf at joint 'joint1'"),
        ((ARM, [0.0], ZERO, 1), {}, r"q0 has shape \(1,\), but this model needs \(2,\)"),
        ((ARM, ZERO, [ZERO], 1), {}, "pp.rollout"),
        ((ARM, "ab", ZERO, 1), {}, "q0 is not an array of numbers"),
        ((ARM, ZERO, ZERO, np.nan), {}, "duration=nan must be a finite number"),
        ((ARM, ZERO, ZERO, -1), {}, "duration=-1 must be"),
        ((ARM, ZERO, ZERO, "long"), {}, "duration='long' must be"),
        ((ARM, ZERO, ZERO, 1), {"dt": np.inf, "integrator": "rk4"}, "dt=inf must be"),
        ((ARM, ZERO, ZERO, 1), {"dt": 0, "integrator": "rk4"}, "dt=0 must be .* more than 0"),
        ((ARM, ZERO, ZERO, 1), {"rtol": np.nan}, "rtol=nan"),
        ((ARM, ZERO, ZERO, 1), {"rtol": 1e-16}, "more digits than double precision"),
        ((ARM, ZERO, ZERO, 1), {"atol": -1}, "atol=-1"),
        ((ARM, ZERO, ZERO, 1), {"integrator": "dopry"}, "Did you mean 'dopri'"),
        ((ARM, ZERO, ZERO, 1), {"integrator": 4}, "integrator=4 is not one of"),
        ((ARM, ZERO, ZERO, 1), {"output_times": [0.5, 0.5]}, "must increase, but 0.5 follows 0.5"),
        ((ARM, ZERO, ZERO, 1), {"output_times": [0.5, 2]}, "but the simulation goes from 0 to 1"),
        ((ARM, ZERO, ZERO, 1), {"output_times": [-1]}, "has -1.0"),
        ((ARM, ZERO, ZERO, 1), {"output_times": [np.nan]}, "finite times"),
        ((ARM, ZERO, ZERO, 1), {"output_times": 0.5}, "finite times"),
        ((ARM, ZERO, ZERO, 1), {"controller": 3}, "must be a function"),
        ((ARM, ZERO, ZERO, 1), {"progress": 3}, "progress=3 is not one of"),
        (("arm", ZERO, ZERO, 1), {}, "simulate takes the model first"),
    ],
)
def test_bad_input_is_refused(arguments, options, message):
    with pytest.raises(pp.errors.InputError, match=message):
        pp.simulate(*arguments, **options)


def test_quaternions_must_be_unit():
    body = floating_body()
    q0 = np.array([2.0, 0, 0, 0, 0, 0, 0])
    with pytest.raises(
        pp.errors.InputError, match=r"quaternion of joint 'body' .* of length 2"
    ) as info:
        pp.simulate(body, q0, np.zeros(6), 1)
    fix = str(info.value).splitlines()[-1].strip()
    exec(fix, {"q0": q0, "np": np})
    pp.simulate(body, q0, np.zeros(6), 0.1)
    with pytest.raises(pp.errors.InputError, match="of length 0"):
        pp.simulate(body, np.zeros(7), np.zeros(6), 1)
    nearly = [1 + 1e-10, 0, 0, 0, 0, 0, 0]
    assert pp.simulate(body, nearly, np.zeros(6), 0.1).q[0, 0] == 1


def test_a_joint_with_nothing_to_move_is_named():
    b = pp.ModelBuilder()
    b.add_body("wheel", joint=Revolute(), inertia=pp.SpatialInertia(1.0))
    with pytest.raises(pp.errors.SingularHingeError, match="'wheel'"):
        pp.simulate(b.build(), [0.0], [0.0], 1.0)


# ---- controllers --------------------------------------------------------------------------------


def two_numbers_too_many(t, q, v):
    return np.zeros(4)


def not_a_number(t, q, v):
    return np.array([0.0, np.nan if t > 0.5 else 0.0])


def broken(t, q, v):
    if t > 0.5:
        raise KeyError("gain")
    return np.zeros(2)


def test_a_controller_of_the_wrong_shape_is_named():
    with pytest.raises(
        pp.errors.InputError, match=r"'two_numbers_too_many' returned ndarray of shape \(4,\)"
    ):
        pp.simulate(ARM, ZERO, ZERO, 1.0, controller=two_numbers_too_many)
    with pytest.raises(pp.errors.InputError, match=r"returned NoneType at t = 0 s"):
        pp.simulate(ARM, ZERO, ZERO, 1.0, controller=lambda t, q, v: None)
    listed = pp.simulate(ARM, ZERO, ZERO, 0.1, controller=lambda t, q, v: [1, 2])
    np.testing.assert_array_equal(listed.tau[0], [1, 2])


@pytest.mark.parametrize("integrator", ALL)
def test_a_controller_that_returns_nan_is_named(integrator):
    with pytest.raises(pp.errors.SimulationError, match="'not_a_number' returned nan") as info:
        pp.simulate(ARM, ZERO, ZERO, 1.0, controller=not_a_number, **steps_of(integrator, dt=0.01))
    assert "joint 'joint2'" in str(info.value)
    run = info.value.trajectory
    assert 0.2 < run.t[-1] < 0.511 and np.isfinite(run.q).all() and not run.complete


@pytest.mark.parametrize("integrator", ALL)
def test_an_exception_in_a_controller_keeps_the_trajectory(integrator):
    with pytest.raises(pp.errors.SimulationError, match="KeyError: 'gain'") as info:
        pp.simulate(ARM, ZERO, ZERO, 1.0, controller=broken, **steps_of(integrator, dt=0.01))
    assert isinstance(info.value.__cause__, KeyError)
    assert info.value.trajectory.t[-1] > 0.2


def test_a_controller_cannot_change_the_state():
    def meddle(t, q, v):
        v[0] = 0
        return v

    with pytest.raises(
        pp.errors.SimulationError, match="'.*meddle' failed in its first call.*read-only"
    ):
        pp.simulate(ARM, ZERO, ZERO, 1.0, controller=meddle)


class Broken(pp.forces.Force):
    """A force element with a fault."""

    def efforts(self, state):
        raise KeyError("stiffness")

    def __repr__(self):
        return "Broken()"


def fails(t, q, v):
    raise ZeroDivisionError("no gain")


FIRST_CALLS = {
    "controller": ({"controller": fails}, "controller 'fails'", ZeroDivisionError),
    "force": ({"forces": Broken()}, r"force element Broken\(\)", KeyError),
    "event": ({"events": pp.Event(fails, name="hit")}, "event 'hit'", ZeroDivisionError),
    "quadrature": ({"quadratures": {"heat": fails}}, "quadrature 'heat'", ZeroDivisionError),
    "prescribed": (
        {"prescribed": {"joint1": fails}}, "a prescribed acceleration", ZeroDivisionError),
}  # fmt: skip


@pytest.mark.parametrize("changing", [False, True], ids=["plain", "changing"])
@pytest.mark.parametrize("name", FIRST_CALLS)
def test_what_fails_in_its_first_call_is_named(name, changing):
    options, who, cause = FIRST_CALLS[name]
    if changing:
        options = {**options, "topology": pp.topology.Lock("joint2")}
        who = {"force": "force element", "event": "event"}.get(name, who)
    with pytest.raises(
        pp.errors.SimulationError, match=f"{who}.* failed in its first call"
    ) as info:
        pp.simulate(ARM, ZERO, ZERO, 1.0, **options)
    error = info.value
    while error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, cause)
    assert info.value.trajectory.t.tolist() == [0.0] and not info.value.trajectory.complete


def two(q, v):
    return v


TWO_ARGUMENTS = {
    "controller": lambda: pp.simulate(ARM, ZERO, ZERO, 1.0, controller=two),
    "controller of a changing robot": lambda: pp.simulate(
        ARM, ZERO, ZERO, 1.0, controller=two, topology=pp.topology.Lock("joint2")),
    "event": lambda: pp.Event(two),
    "action": lambda: pp.Event(fails, action=two),
    "quadrature": lambda: pp.simulate(ARM, ZERO, ZERO, 1.0, quadratures={"a": two}),
    "prescribed": lambda: pp.simulate(ARM, ZERO, ZERO, 1.0, prescribed={"joint1": two}),
    "saturated": lambda: pp.control.Saturated(two, ARM, efforts=1.0),
    "null space": lambda: pp.control.OperationalSpace(
        ARM, "tip", (1, 0, 0), 1, 1, components=(3,), null_space=two),
    "reference": lambda: pp.control.PDGravity(ARM, two, 1, 1),
    "reference of a frame": lambda: pp.control.OperationalSpace(ARM, "tip", two, 1, 1),
    "running cost": lambda: pp.rollout_gradient(ARM, ZERO, ZERO, ZERO, 0.1, 2, running=two),
    "final cost": lambda: pp.rollout_gradient(ARM, ZERO, ZERO, ZERO, 0.1, 2, final=fails),
    "wrench": lambda: pp.simulate(ARM, ZERO, ZERO, 1.0, forces=pp.forces.Wrench("tip", two)),
    "gravity": lambda: pp.forces.GravityField(two),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_functions_with_other_arguments_are_told_theirs(name):
    with pytest.raises(
        pp.errors.InputError, match=r"takes \((t, )?q, v\), but it is called with \("
    ):
        TWO_ARGUMENTS[name]()
    pp.Event(lambda *state: state[0])  # these can be called
    pp.control.Saturated(lambda t, q, v, gain=1.0: gain * q, ARM, efforts=1.0)


@pytest.mark.parametrize("effort", [1e300, 1e160])
def test_efforts_beyond_any_step_end_the_run(effort):
    """LSODA answers with steps of no length, and would do so for ever."""
    with pytest.raises(pp.errors.SimulationError, match="step size underflowed") as info:
        pp.simulate(
            ARM, ZERO, ZERO, 1.0, integrator="lsoda", controller=lambda t, q, v: [effort] * 2
        )
    assert info.value.trajectory.t[-1] == 0


# ---- divergence ---------------------------------------------------------------------------------


class Runaway(pp.forces.Force):
    """ẍ = 2 x³, x(0) = ẋ(0) = 1: x = 1/(1 − t), infinite at t = 1."""

    def efforts(self, state):
        return 2 * state.q**3


@pytest.mark.parametrize("integrator", ALL)
def test_divergence_ends_the_run_with_the_last_good_state(integrator):
    with pytest.raises(pp.errors.SimulationError, match="the simulation diverged") as info:
        pp.simulate(slider(), [1.0], [1.0], 2.0, forces=Runaway(), **steps_of(integrator, dt=0.01))
    text, run = str(info.value), info.value.trajectory
    assert "joint 'block'" in text and "last good state" in text
    assert not run.complete
    assert 0.9 < run.t[-1] < (1.2 if integrator in ("rk4", "semi_implicit") else 1.0001)
    assert np.isfinite(run.q).all() and np.isfinite(run.v).all()
    good = run.t < 0.9
    second = dict.fromkeys(("implicit_midpoint", "variational"), 1e-2)
    tolerance = {"semi_implicit": 0.2, "rk4": 1e-3, **second}.get(integrator, 1e-6)
    np.testing.assert_allclose(run.q[good, 0], 1 / (1 - run.t[good]), rtol=tolerance)


def test_the_last_good_state_is_kept_with_output_times():
    with pytest.raises(pp.errors.SimulationError) as info:
        pp.simulate(slider(), [1.0], [1.0], 2.0, forces=Runaway(), output_times=[0.0, 0.5, 1.5])
    assert info.value.trajectory.t[:2].tolist() == [0.0, 0.5]
    assert 0.99 < info.value.trajectory.t[-1] < 1.01


def test_singular_coordinates_do_not_hang():
    """Hinges in a row whose axes align leave the joint fewer freedoms than rates: v → ∞."""
    gimbal = ["free", "spherical", "revolute", "composite"]
    model = model_from_parents([-1, 0, 1, 1], 12, gimbal)
    rng = np.random.default_rng(3)
    q0, v0 = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    with pytest.raises(pp.errors.SimulationError, match=r"approaches a singularity") as info:
        pp.simulate(model, q0, v0, 0.3, rtol=1e-12, atol=1e-14)
    assert "joint 'j3'" in str(info.value)
    assert info.value.trajectory.t[-1] == pytest.approx(0.0626, abs=1e-4)


def test_a_step_too_long_for_the_implicit_midpoint_rule():
    """With forces this stiff and wild the equation has no solution near the start."""
    with pytest.raises(pp.errors.SimulationError, match="implicit midpoint"):
        pp.simulate(
            slider(), [1.0], [1.0], 4.0, forces=Runaway(), integrator="implicit_midpoint", dt=1.0
        )


def test_the_implicit_midpoint_rule_solves_stiff_forces():
    """k h²/4m = 25: fixed-point iteration cannot contract, Newton's method is used."""
    spring = pp.forces.JointSpring("block", 1e6)
    run = pp.simulate(
        slider(), [1e-3], [0.0], 1.0, forces=spring, integrator="implicit_midpoint", dt=0.01
    )
    np.testing.assert_allclose(run.energy, run.energy[0], rtol=1e-6)


# ---- Ctrl-C and progress ------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ALL)
def test_ctrl_c_leaves_a_usable_trajectory(integrator):
    def interrupt(t, q, v):
        if t > 0.5:
            raise KeyboardInterrupt
        return np.zeros(1)

    with pytest.warns(pp.errors.PhipsiWarning, match=r"interrupted at t = 0\.\d+ of 1 s"):
        run = pp.simulate(
            pendulum(), [0.0], [0.0], 1.0, controller=interrupt, **steps_of(integrator, dt=0.01)
        )
    assert not run.complete and 0.1 < run.t[-1] < 0.511
    assert "not complete" in repr(run)
    assert len(run.energy) == len(run)
    assert run.resample([0.05]).q.shape == (1, 1)


def test_a_real_signal():
    # a shell without jobs starts what runs in the background deaf to it, and Python leaves it so
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(t, duration):
        # from inside of the run: one that arrives while Python destroys an object is lost to it
        if t > 0.5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(pp.errors.PhipsiWarning, match="interrupted"):
        run = pp.simulate(ARM, ZERO, ZERO, 1e6, rtol=1e-6, atol=1e-8, progress=interrupt)
    assert not run.complete and 0.5 < run.t[-1] < 2
    fresh = pp.simulate(ARM, ZERO, ZERO, 0.2, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(run.q[: len(fresh) - 1], fresh.q[:-1])


def test_progress_callback():
    seen = []
    pp.simulate(pendulum(), [0.0], [0.0], 1.0, progress=lambda t, total: seen.append((t, total)))
    assert seen[-1] == (1.0, 1.0) and all(
        a < b for (a, _), (b, _) in zip(seen, seen[1:], strict=False)
    )


def test_progress_with_tqdm():
    tqdm = pytest.importorskip("tqdm").tqdm
    with tqdm(total=1.0, file=io.StringIO()) as bar:
        pp.simulate(pendulum(), [0.0], [0.0], 1.0, progress=bar)
        assert bar.n == pytest.approx(1.0)


@pytest.mark.parametrize("rich", [True, False])
def test_progress_bar(rich, capsys, monkeypatch):
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    pp.simulate(pendulum(), [0.0], [0.0], 1.0, integrator="rk4", progress=True)
    shown = capsys.readouterr().err
    assert "simulating" in shown and "of 1 s" in shown and "s/s" in shown
    pp.simulate(pendulum(), [0.0], [0.0], 1.0, progress=False)
    pp.simulate(pendulum(), [0.0], [0.0], 1.0)  # too short, and no terminal
    assert capsys.readouterr().err == ""


def test_the_bar_comes_by_itself_after_a_while_at_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    clock = iter(np.arange(0, 1000, 0.5))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(clock)))
    shown = []
    monkeypatch.setattr(progress, "_display", lambda *given: Display(shown))
    reporter = progress.make_progress(None, 10.0)
    for t in range(10):
        reporter.advance(float(t))
    reporter.close()
    assert shown[0][0] == 3.0 and shown[0][1] == 2.0  # the first one after two seconds
    assert shown[-1] == "closed"


class Display:
    def __init__(self, shown):
        self.shown = shown

    def show(self, t, elapsed):
        self.shown.append((t, elapsed))

    def close(self):
        self.shown.append("closed")


@pytest.mark.parametrize("module", ["scipy.integrate", "scipy.optimize"])
def test_without_scipy_it_says_what_to_install(module, monkeypatch):
    event = pp.Event(lambda t, q, v: q[0] + 0.01, action="stop")
    rk4 = pp.simulate(pendulum(), [0.0], [0.0], 0.1, integrator="rk4")
    monkeypatch.setitem(sys.modules, module, None)
    again = pp.simulate(pendulum(), [0.0], [0.0], 0.1, integrator="rk4")
    np.testing.assert_array_equal(again.q, rk4.q)
    with pytest.raises(
        (ImportError, pp.errors.SimulationError), match="needs scipy.*pip install scipy"
    ):
        pp.simulate(pendulum(), [0.0], [0.0], 0.1, events=event)


def test_describe():
    assert progress.describe(2.5, 10.0, 5.0) == "2.5 of 10 s, 0.5 s/s, 15 s left"
    assert progress.describe(0.0, 10.0, 0.0).endswith("unknown")
