"""What is written first by people who come from other tools is answered with the line to write."""

import csv

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import InputError, LawError

ARM = pp.examples.planar_arm(2)
BOTH = ["joint1", "joint2"]
PID = pp.laws.pid(BOTH, [0.0, 0.0], 10.0, 1.0, 1.0)


@pp.law
def hold(q, v):
    return -q - v


@pytest.mark.parametrize("name", ["sample_time", "dt", "Ts", "period"])
def test_a_sample_time_is_answered_with_the_rate(name):
    with pytest.raises(LawError, match=rf"no argument {name}=.*\n    law.sampled\(rate=100\)"):
        hold.sampled(**{name: 0.01})
    with pytest.raises(LawError, match=rf"no argument {name}=.*\n    @pp.law\(rate=100\)"):
        pp.law(**{name: 0.01})
    with pytest.raises(TypeError, match="nonsense"):
        hold.sampled(nonsense=1)


def test_rollouts_and_simulations():
    sim = pp.Simulator(ARM, [hold])
    with pytest.raises(InputError, match=r"steps=round\(1.0 / dt\)"):
        sim.rollout(sim.initial_state(), duration=1.0)
    with pytest.raises(InputError, match=r"steps=round\(2.0 / dt\)"):
        pp.rollout(ARM, [0, 0], [0, 0], [0, 0], 1e-3, duration=2.0)
    with pytest.raises(InputError, match="called integrator:\n    integrator='dopri'"):
        pp.simulate(ARM, [0, 0], [0, 0], 1.0, method="ode45")
    for theirs, ours in (("ode45", "dopri"), ("RK45", "dopri"), ("ode15s", "radau")):
        with pytest.raises(InputError, match=f"\n    integrator='{ours}'"):
            pp.simulate(ARM, [0, 0], [0, 0], 1.0, integrator=theirs)


@pytest.mark.parametrize(
    ("name", "meant"), [("qd", "v"), ("dq", "v"), ("time", "t"), ("theta", "q"), ("x", "q and v")]
)
def test_arguments_that_have_another_name_here(name, meant):
    law = pp.law(eval(f"lambda {name}: -{name}"), name="f")
    with pytest.raises(LawError, match=f"argument {name} is called {meant}"):
        pp.Simulator(ARM, [law])


INSTEAD = {
    "round": (np.round, np.rint, "np.rint"),
    "method": (lambda x: x.round(), np.rint, "np.rint"),
    "builtin": (lambda x: np.array([round(y) for y in x]), np.rint, "np.rint"),
    "trunc": (np.trunc, lambda x: np.where(x < 0, np.ceil(x), np.floor(x)), "np.ceil"),
    "fix": (np.fix, lambda x: np.where(x < 0, np.ceil(x), np.floor(x)), "np.ceil"),
    "heaviside": (
        lambda x: np.heaviside(x, 0.0), lambda x: np.where(x > 0, 1.0, 0.0), "np.where",
    ),
    "fmod": (
        lambda x: np.fmod(x, 0.7),
        lambda x: np.sign(x) * np.remainder(np.abs(x), np.abs(0.7)), "np.remainder",
    ),
    "unwrap": (np.unwrap, None, "np.rint"),
    "sinc": (
        np.sinc,
        lambda x: np.where(x == 0, 1.0, np.sin(np.pi * x) / np.where(x == 0, 1.0, np.pi * x)),
        "np.sin",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INSTEAD)
def test_functions_that_cannot_be_traced_name_what_can_and_it_is_the_same(case):
    function, instead, told = INSTEAD[case]
    with pytest.raises(LawError, match="cannot be traced") as error:
        pp.Simulator(ARM, [pp.law(lambda q: function(q), name="f")])
    assert told in str(error.value) and "There are absolute" not in str(error.value)
    if instead is None:
        return
    sim = pp.Simulator(ARM, [pp.law(lambda q: instead(q), name="f")])
    for q in ([1.6, -1.6], [0.0, 2.4], [-0.4, 0.5000001]):
        run = sim.rollout(sim.initial_state(q), steps=1, record=("f.tau",))
        np.testing.assert_allclose(run["f.tau"][0], function(np.array(q)), rtol=1e-14, atol=1e-15)


def test_errors_of_ready_laws_name_the_law():
    with pytest.raises(LawError, match=r"pid, whose arguments have .*target \(3,\)(.|\n)*\(3,\)"):
        pp.Simulator(ARM, [pp.laws.pid(BOTH, np.zeros(3), 10.0)])
    with pytest.raises(LawError, match="^servo: there is no joint 'joint3'"):
        pp.Simulator(ARM, [pp.laws.pid("joint3", 0.0, 10.0, name="servo")])
    tip = pp.signals.position("tip")
    with pytest.raises(LawError, match=r"Pass  initial=np.zeros\(3\)"):
        pp.Simulator(ARM, [pp.laws.low_pass(tip, 0.1)])
    pp.Simulator(ARM, [pp.laws.low_pass(tip, 0.1, initial=np.zeros(3))])


def test_a_target_that_moves_is_the_output_of_a_law():
    with pytest.raises(LawError, match=r"target=pp.signals.output\(path, 'y'\)"):
        pp.laws.pid(BOTH, lambda t: np.sin(t), 10.0)
    path = pp.law(lambda t: {"y": np.sin(t)}, name="path")
    follow = pp.laws.pid(BOTH, pp.signals.output(path, "y"), 10.0)
    sim = pp.Simulator(ARM, [path, follow], dt=0.1)
    run = sim.rollout(sim.initial_state(), steps=3, record=("q", "pid.error"))
    wanted = np.sin([0.0, 0.1, 0.2, 0.3])[:, None] - run.q
    np.testing.assert_allclose(run["pid.error"], wanted, rtol=1e-12, atol=1e-15)


def test_limits_of_a_law_are_in_the_law():
    with pytest.raises(InputError, match=r"\n    pid.bind\(limit=1.0\)"):
        pp.control.Saturated(PID, ARM, efforts=1.0)
    with pytest.raises(InputError, match=r"\n    return np.clip\(tau, -2.0, 2.0\)"):
        pp.control.Saturated(hold, ARM, efforts=2.0)


def test_sampled_laws_in_simulate():
    slow = hold.sampled(100.0, delay=2)
    with pytest.raises(InputError, match=r"controller=hold, rate=100, delay=2\)"):
        pp.simulate(ARM, [0, 0], [0, 0], 1.0, controller=slow)
    with pytest.raises(InputError, match="passed to a Simulator") as error:
        pp.simulate(ARM, [0, 0], [0, 0], 1.0, forces=[slow])
    assert "controller=" not in str(error.value)
    with pytest.raises(InputError, match="controller=hold"):
        pp.simulate(ARM, [0, 0], [0, 0], 1.0, forces=[hold])


def test_armature_per_trajectory_is_jr():
    with pytest.raises(InputError, match=r"'Jr'(.|\n)*per_trajectory=\('Jr',\)"):
        pp.Simulator(ARM, per_trajectory=("armature",))
    sim = pp.Simulator(ARM, per_trajectory=("Jr",), dt=1e-2)
    armature = np.array([[0.1, 0.2], [0.5, 0.6]])
    state = sim.initial_state([0.3, 0.2], parameters={"Jr": armature[..., None, None]})
    run = sim.rollout(state, steps=20)
    for i, own in enumerate(armature):
        model = ARM
        vdot = pp.forward_dynamics(model, [0.3, 0.2], [0.0, 0.0], [0.0, 0.0])
        M = pp.mass_matrix(model, [0.3, 0.2])
        wanted = np.linalg.solve(M + np.diag(own), M @ vdot)
        np.testing.assert_allclose(run.v[i, 1], wanted * 1e-2, rtol=2e-3)


def test_inputs_of_an_fmu_are_torques(tmp_path):
    sim = pp.Simulator(ARM, [PID])
    with pytest.raises(InputError, match=r"tunable(.|\n)*\n    parameters=\['pid.target'\]"):
        pp.export_fmu(sim, tmp_path / "arm.fmu", inputs=["pid.target"])


# ---- what was recorded ---------------------------------------------------------------------------


def test_records_reach_tables_and_figures(tmp_path):
    sim = pp.Simulator(ARM, [PID], dt=1e-2)
    names = ("q", "v", "pid.error", "pid.integral")
    run = sim.rollout(sim.initial_state([[0.1, 0.2], [0.3, 0.1]]), steps=20, record=names)
    change = np.diff(run["pid.integral"], axis=1) / 1e-2
    middle = (run["pid.error"][:, 1:] + run["pid.error"][:, :-1]) / 2
    np.testing.assert_allclose(change, middle, rtol=1e-3, atol=1e-4)  # ki = 1
    one = run.trajectory(1)
    assert list(one.records) == ["pid.error", "pid.integral"]
    one.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = [float(x["pid.error[1]"]) for x in rows]
    np.testing.assert_array_equal(column, run["pid.error"][1, :, 1])
    with pytest.raises(AttributeError, match=r"\n    rollout.trajectory\(0\).to_csv"):
        run.to_csv(tmp_path / "run.csv")
    with pytest.raises(InputError, match=r"pp.report\(rollout.trajectory\(0\)"):
        pp.report(run, tmp_path / "run.html")
    assert not hasattr(run, "nothing")


def test_records_are_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    sim = pp.Simulator(ARM, [PID], dt=1e-2)
    run = sim.rollout(sim.initial_state([0.1, 0.2]), steps=5, record=("q", "v", "pid.error"))
    figure = run.plot()
    axis = next(x for x in figure.axes if x.get_ylabel() == "pid.error")
    np.testing.assert_array_equal(axis.lines[1].get_ydata(), run["pid.error"][:, 1])
    matplotlib.pyplot.close(figure)
