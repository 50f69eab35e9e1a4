"""Laws that read other laws are given the law that they name, also where names are equal."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import InputError, LawError

ARM = pp.examples.planar_arm(2)


def _tau(laws):
    sim = pp.Simulator(ARM, laws, dt=1e-3)
    return sim.rollout(sim.initial_state(), steps=1, record=("tau",))["tau"][0]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("signal", ["output", "previous"])
def test_the_law_that_is_read_is_found_by_itself(signal, turned):
    first = pp.laws.pid("joint1", 1.0, kp=24.0).silent()
    second = pp.laws.pid("joint2", 1.0, kp=3.0).silent()
    read = pp.signals.output(second)
    if signal == "previous":
        read = pp.signals.previous(second, initial=[7.0])
    laws = [first, second, pp.laws.motor("joint2", read)]
    wanted = [0.0, 3.0 if signal == "output" else 7.0]
    np.testing.assert_array_equal(_tau(laws[1::-1] + laws[2:] if turned else laws), wanted)


def test_what_is_made_of_a_law_is_the_same_law():
    first, second = (pp.laws.pid(f"joint{i}", 1.0, kp=3.0 * i) for i in (1, 2))
    read = pp.laws.motor("joint2", pp.signals.output(second))
    for changed in (second.silent(), second.silent().named("other"), second.silent().bind(kp=6.0)):
        np.testing.assert_array_equal(_tau([first.silent(), changed, read]), [0.0, 6.0])


def test_a_name_of_two_laws_is_ambiguous():
    first, second = (pp.laws.pid(f"joint{i}", 1.0, kp=3.0).silent() for i in (1, 2))
    read = pp.laws.motor("joint2", pp.signals.output("pid"))
    with pytest.raises(LawError, match=r"2 laws are named 'pid'.*'pid', 'pid_2'"):
        _tau([first, second, read])
    twice = pp.laws.motor("joint2", pp.signals.output(second))
    with pytest.raises(LawError, match="2 laws are named 'pid'"):
        _tau([second, second, twice])
    # the names with which records begin are not ambiguous
    named = pp.laws.motor("joint2", pp.signals.output("pid_2"))
    np.testing.assert_array_equal(_tau([first, second, named]), [0.0, 3.0])


def test_another_law_of_the_same_name_is_not_read():
    first, second = (pp.laws.pid(f"joint{i}", 1.0, kp=3.0) for i in (1, 2))
    read = pp.laws.motor("joint2", pp.signals.output(second))
    with pytest.raises(LawError, match="'pid' that is read is not among the laws"):
        _tau([first, read])


# ---- laws as functions of (t, q, v) --------------------------------------------------------------


@pp.law(joints="joint2")
def hold(t, q, v):
    return -50 * q - 5 * v


@pytest.mark.parametrize("options", [{}, {"rate": 100.0}, {"integrator": "rk4", "dt": 1e-2}])
def test_simulate_keeps_the_joints_of_a_law_of_time_and_state(options):
    run = pp.simulate(ARM, [0.1, 0.2], [0.0, 0.0], 0.1, controller=hold, **options)
    np.testing.assert_allclose(run.tau[0], [0.0, -10.0], rtol=1e-14)


def test_simulate_reads_the_dictionary_of_a_law_of_time_and_state():
    named = pp.law(lambda t, q, v: {"tau": -50 * q}, name="named")
    run = pp.simulate(ARM, [0.1, 0.2], [0.0, 0.0], 0.1, controller=named)
    np.testing.assert_allclose(run.tau[0], [-5.0, -10.0], rtol=1e-14)


def test_a_law_whose_joints_would_be_ignored_is_refused_with_a_function_that_works():
    for make in (
        lambda f: pp.control.Saturated(f, ARM, efforts=100.0),
        lambda f: pp.control.OperationalSpace(ARM, "tip", np.eye(4), 1.0, 1.0, null_space=f),
    ):
        with pytest.raises(InputError, match="is a law for the joints 'joint2'") as error:
            make(hold)
    lines = str(error.value).partition(":\n")[2].partition("\nsee ")[0]
    known = {"np": np, "model": ARM, "hold": hold}
    exec("\n".join(x.removeprefix("    ") for x in lines.splitlines()), known)
    whole = pp.control.Saturated(known["hold_of_all"], ARM, efforts=8.0)
    np.testing.assert_allclose(whole(0.0, [0.1, 0.1], [0.0, 0.0]), [0.0, -5.0])
    np.testing.assert_allclose(whole(0.0, [[0.1, 0.2]], [[0.0, 0.0]]), [[0.0, -8.0]])
    with pytest.raises(InputError, match=r"is a law that is silent.*\n    f\.function"):
        pp.control.Saturated(pp.law(lambda t, q, v: -q, name="f").silent(), ARM, efforts=1.0)
