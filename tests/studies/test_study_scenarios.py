"""Scenarios as studies, the names of samples, and events of runs."""

import numpy as np
import pytest
from chaotic_study import make
from scipy.stats import norm, uniform
from small_studies import same

import phipsi as pp
from phipsi.cli.commands import app
from phipsi.errors import InputError, ModelError

FILE = """
model = "seven_joint_arm"
duration = 0.05
integrator = { name = "rk4", dt = 1e-3 }
[initial.q]
elbow_pitch = "30deg"
[[forces]]
type = "JointDamper"
damping = 0.1
[[events]]
joint = "shoulder_pitch"
value = 0.7
name = "passes"
[study]
runs = 20
sampling = "sobol"
save = ["final", "largest"]
block = 16
[study.distributions]
"q.shoulder_pitch" = { normal = [0.7, 0.05] }
"v.elbow_pitch" = [0.0, 0.5]
"joint_damper.damping" = { uniform = [0.05, 0.2] }
"mass.shoulder_yaw" = { lognormal = [2.0, 0.1] }
"gravity" = [[0.0, 0.0, -9.81]]
"""


@pytest.fixture
def file(tmp_path):
    out = tmp_path / "fall.toml"
    out.write_text(FILE)
    return out


def test_a_scenario_is_a_study(file):
    study = pp.load_scenario(file).to_study()
    found = study.run()
    assert study.steps == 50 and study.count == 40 and found.complete and not found.failed.size
    scenario = pp.load_scenario(file)
    arm, number = scenario.model, 27
    q0, v0 = scenario.q0.copy(), scenario.v0.copy()
    q0[arm.q_slice("shoulder_pitch")] = found["sample.q.shoulder_pitch"][number]
    v0[arm.v_slice("elbow_pitch")] = found["sample.v.elbow_pitch"][number]
    assert v0[arm.v_slice("elbow_pitch")] == 0.5
    body = arm.body_index("shoulder_yaw")
    old = arm.inertias[body]
    share = found["sample.mass.shoulder_yaw"][number] / old.mass
    heavier = arm.with_body("shoulder_yaw", inertia=old.scaled(share))
    laws = pp.forces.JointDamper(None, float(found["sample.joint_damper.damping"][number]))
    want = pp.simulate(heavier, q0, v0, 0.05, forces=[laws], integrator="rk4", dt=1e-3)
    assert np.allclose(found["q.final"][number], want.q[-1], rtol=0, atol=1e-12)
    assert np.allclose(found["v.largest"][number], want.v.max(axis=0), rtol=0, atol=1e-12)


def test_options_change_the_study_of_a_file(file):
    scenario = pp.load_scenario(file)
    assert scenario.to_study(runs=8, seed=3).count == 16
    own = pp.Study(scenario, {"q.elbow_pitch": norm(0.5, 0.1)}, runs=5, steps=7)
    assert own.run()["t.final"][0] == pytest.approx(7e-3)
    with pytest.raises(InputError, match=r"no table \[study\]"):
        (file.parent / "plain.toml").write_text('model = "seven_joint_arm"\nduration = 1.0')
        pp.load_scenario(file.parent / "plain.toml").to_study()


def test_the_command_takes_scenarios(file, capsys):
    folder = file.with_suffix(".study")
    call = {"exit_on_error": False, "result_action": "return_value"}
    assert app(["study", "run", str(file), "--workers", "2"], **call) == 0
    assert "40 of 40" in capsys.readouterr().out
    same(pp.load_scenario(file).to_study().run(), pp.Study.results(folder))
    file.write_text(FILE.replace('"rk4", dt = 1e-3', '"dopri"'))
    assert app(["study", "run", str(file)], **call) == 2
    assert 'integrator = { name = "rk4", dt = 1e-3 }' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "normal = [0.7, 0.05]",
            "norm = [0.7, 0.05]",
            ":20: study.distributions: 'norm' is not one of",
        ),
        ("normal = [0.7, 0.05]", "normal = [0.7]", ":20: .*mean and standard deviation"),
        ("normal = [0.7, 0.05]", "normal = [0.7, -1.0]", ":20: .*out of its range"),
        ("runs = 20", "runs = 20.5", "runs = 20.5 must be an integer"),
        ("runs = 20", "rums = 20", "unknown key 'rums'"),
        ('"sobol"', '"sobl"', "sobol"),
    ],
)
def test_files_that_are_wrong(old, new, message, file):
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ModelError, match=message):
        pp.load_scenario(file)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"q.elbow": [0.0]}, "distributions\\['q.elbow'\\] is not one of .*q.joint1"),
        ({"mass.link1": [1.0]}, "Masses need"),
        ({"q": [[0.0, 0.0]], "q.joint1": [0.0]}, "both 'q' and 'q.joint1', which is a part of it"),
        ({"q.joint1": [[0.0, 1.0]]}, "must have 1 numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:runs .* quarantined")
def test_names_of_draws_that_are_wrong(samples, message):
    with pytest.raises((InputError, pp.errors.SimulationError), match=message):
        pp.Study(make(), samples, steps=1).run()


def test_events_are_those_of_simulate():
    """Zeros between records, in all runs at once, against the search inside steps."""
    arm = make()
    rise = pp.Event(lambda t, q, v: v[0], direction=1, name="turns")
    slow = pp.Event(lambda t, q, v: float(q[0]) + 0.5, name="both ways")  # one state at a time
    s = pp.Study(
        arm, {"q.joint1": uniform(-1.0, 2.0)}, steps=400, runs=3, seed=2, events=[rise, slow]
    )
    found = s.run()
    for i in range(3):
        q0 = [found["sample.q.joint1"][i], 0.0]
        run = pp.simulate(arm.model, q0, [0.0, 0.0], 0.4, events=[rise, slow])
        for event in (rise, slow):
            times = [x.t for x in run.events if x.name == event.name]
            assert found[f"event.{event.name}.count"][i] == len(times)
            first = times[0] if times else np.inf
            assert found[f"event.{event.name}"][i] == pytest.approx(first, abs=1e-5)
    assert np.isfinite(found["event.both ways"]).any()
    with pytest.raises(InputError, match="events can only record"):
        pp.Study(arm, {"t": [0.0]}, steps=1, events=[pp.Event(lambda t, q, v: q[0], action="stop")])


def test_a_run_by_its_number_has_its_own_inertia(file):
    study = pp.load_scenario(file).to_study()
    found = study.run()
    number = found.worst(lambda r: r["q.final"][:, 1], 1)[0]
    one = study.trajectory(number)
    assert np.array_equal(one.q[-1], found["q.final"][number]) and len(one.t) == 51
    mass = one.model.inertias[one.model.body_index("shoulder_yaw")].mass
    assert mass == pytest.approx(found["sample.mass.shoulder_yaw"][number], rel=1e-14)
    assert np.abs(one.tau).max() > 0


def test_the_command_shows_a_run(file, capsys):
    call = {"exit_on_error": False, "result_action": "return_value"}
    assert app(["study", "show", str(file), "7"], **call) == 0
    page = (file.parent / "fall-run-7.html").read_text()
    assert "Run 7 of fall.toml" in page and "<html" in page
    assert app(["study", "show", str(file), "40"], **call) == 2
    assert "this study has runs 0 … 39, not 40" in capsys.readouterr().err
