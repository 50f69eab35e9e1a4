"""Runs that fail, samples that cannot be, and estimates from too few runs say so."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import uniform
from small_studies import small

import phipsi as pp
from phipsi.errors import InputError, PhipsiWarning, SimulationError
from phipsi.pages.study_page import study_report


def product(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"f": samples["x"] * samples["y"] * np.sin(samples["z"])}


@pytest.fixture(scope="module")
def thrown(arm: pp.Simulator) -> Any:
    """Eight runs, three of which end in infinity."""

    def start(samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        v = np.zeros((len(samples["x"]), 2))
        v[samples["x"] > 4] = 1e200
        return {"v": v}

    def metrics(run: Any, samples: Any) -> dict[str, np.ndarray]:
        return {"ok": run.q[:, -1, 0] < 9, "still": run.q[:, -1, 0] < -9, "x": samples["x"] + 0.0}

    study = pp.Study(arm, {"x": np.arange(8.0)}, initial_state=start, steps=20, metrics=metrics,
                     save=("trajectory",))  # fmt: skip
    return study.run()


def test_runs_that_fail_are_never_left_out_silently(thrown: Any, tmp_path: Path):
    assert "all 8 runs, 3 failed: run, " in repr(thrown)
    with pytest.warns(PhipsiWarning, match="3 of 8 runs failed and count as False.*failed=Fa"):
        found = thrown.estimate("ok")
    assert (found.value, found.runs, found.failed, found.failed_as) == (5 / 8, 8, 3, False)
    assert repr(found).endswith("from 8 runs; 3 failed and counted as False>")
    with pytest.warns(
        PhipsiWarning, match=r"3 of 8 runs failed and are not in this estimate.*failed=0\.0"
    ):
        number = thrown.estimate("x")
    assert number.value == 2.0 and number.runs == 5 and number.failed_as is None
    assert repr(number).endswith("from 5 runs; 3 failed and excluded>")
    # a value that is given, and "skip", need no warning
    assert thrown.estimate("ok", failed=False).value == 5 / 8
    assert thrown.estimate("still", failed=True).value == 3 / 8
    assert thrown.estimate("ok", failed="skip").value == 1.0
    assert thrown.estimate("x", failed=10).value == 40 / 8
    for call, what in (
        (lambda: thrown.worst("x"), "among the worst here"),
        (lambda: thrown.correlations("x"), "in these correlations"),
        (lambda: thrown.bands("q"), "in these percentiles"),
    ):
        with pytest.warns(PhipsiWarning, match=f"3 of 8 runs failed and are not {what}"):
            call()
    page = study_report(thrown, tmp_path / "study.html").read_text(encoding="utf-8")
    assert "3 of 8 runs failed. They count as False" in page and ">0.625</td>" in page


def test_what_runs_that_fail_count_as_is_checked(thrown: Any):
    with pytest.raises(InputError, match=r"3 of 8 runs failed; run 5: failed in step .*failed=Fal"):
        thrown.estimate("ok", failed="raise")
    for given, metric, why in (
        (0.0, "ok", "the metric is boolean: pass True or False"),
        (False, "x", "the metric is float64: pass a number"),
        (np.nan, "x", "must be a number. Exclude runs"),
        ("skap", "x", "Did you mean 'skip'"),
    ):
        with pytest.raises(InputError, match=why):
            thrown.estimate(metric, failed=given)


def test_a_probability_where_all_runs_fail_is_zero(arm: pp.Simulator):
    metrics = lambda run, samples: {"ok": run.q[:, -1, 0] < 9}  # noqa: E731
    found = pp.Study(arm, {"v": np.full((9, 2), 1e200)}, steps=20, metrics=metrics).run()
    share = found.estimate("ok", failed=False)
    assert share.value == 0 and 0 < share.high < 0.35


def test_sobol_indices_of_too_few_runs_say_so(arm: pp.Simulator):
    given = {name: uniform(-np.pi, 2 * np.pi) for name in "xyz"}
    s = pp.Study(arm, given, metrics=product, initial_state=lambda d: {"v": [[0, 0]] * len(d["x"])},
                 steps=0, runs=5 * 16, sampling="saltelli")  # fmt: skip
    with pytest.warns(PhipsiWarning, match=r"16 groups of 5 runs are too few.*runs=\d+0\)"):
        s.run().sobol_indices("f")


def test_a_metric_that_lacks_a_record_names_the_option_of_the_study(arm: pp.Simulator):
    s = small(arm, metrics=lambda run, samples: {"tau": run["tau"][:, -1, 0]})
    with (
        pytest.warns(PhipsiWarning, match=r"quarantined$"),  # the reason is in the error alone
        pytest.raises(SimulationError, match=r"Record it:  pp\.Study\(…, record=\('q', 'v', 'tau'"),
    ):
        s.run()


def test_a_mass_that_is_negative_is_the_reason_of_its_run(arm: pp.Simulator):
    sim = pp.Simulator(arm.model, dt=1e-3, per_trajectory=("inertia",))
    body = arm.model.body_names[0]
    found = pp.Study(sim, {f"mass.{body}": [1.0, -0.03, 2.0]}, steps=2).run()
    assert found.failed.tolist() == [1]
    assert found.reason(1).startswith(f"could not start: the sampled mass of '{body}' is -0.03 kg")


def test_one_entry_of_a_parameter_is_sampled(arm: pp.Simulator):
    model = arm.model
    sim = pp.Simulator(model, [pp.forces.JointDamper(None, [0.2, 0.3])], dt=1e-3)
    first, second = (f"joint_damper.damping[{x}]" for x in (model.joint_names[0], "1"))
    study = pp.Study(sim, {first: [1.0, 2.0]}, steps=2)
    given = study._arguments(study.distributions.values(0, 2), 0)["parameters"]
    assert given["joint_damper.damping"].tolist() == [[1.0, 0.3], [2.0, 0.3]]
    both = pp.Study(sim, {first: [1.0], second: [4.0]}, steps=2)
    given = both._arguments(both.distributions.values(0, 1), 0)["parameters"]
    assert given["joint_damper.damping"].tolist() == [[1.0, 4.0]]
    with pytest.raises(InputError, match=rf"has entries such as '{re.escape(first)}'"):
        pp.Study(sim, {"joint_damper.damping[cat]": [1.0]}, steps=2).run()
    with pytest.raises(InputError, match="which is a part of it"):
        pp.Study(sim, {first: [1.0], "joint_damper.damping": [2.0]}, steps=2).run()
