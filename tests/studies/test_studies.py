"""Studies: runs by number, the same bits for any workers, what is killed goes on, failures."""

import json
import os
import signal
import time
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm, qmc, rv_histogram, uniform
from small_studies import same, small

import phipsi as pp
from phipsi.errors import InputError, ParseError, SimulationError
from phipsi.pages.study_page import study_report
from phipsi.studies.distributions import Distributions
from phipsi.studies.study_folder import StudyFolder

# ---- distributions -------------------------------------------------------------------------------

DISTRIBUTIONS = {
    "mass": norm(5, 0.5),
    "angles": uniform([-1, -2, -3], [2, 4, 6]),
    "pair": multivariate_normal([1, 2], np.array([[1, 0.9], [0.9, 1]])),  # type: ignore
    "friction": [0.2, 0.5, 0.8],
}


@pytest.mark.parametrize("sampling", ["random", "sobol", "latin_hypercube"])
def test_a_draw_depends_on_its_number_alone(sampling: str):
    samples = Distributions(DISTRIBUTIONS, 64, seed=3, sampling=sampling)
    whole = samples.values(0, samples.count)
    for first, count in ((0, 1), (5, 7), (63, 2), (100, 92)):
        part = samples.values(first, count)
        for name, x in part.items():
            assert np.array_equal(x, whole[name][first : first + count]), (name, first)
    other = Distributions(DISTRIBUTIONS, 64, seed=4, sampling=sampling).values(0, 9)
    assert not np.array_equal(other["mass"], whole["mass"][:9])


def test_draws_have_their_distribution():
    samples = Distributions(DISTRIBUTIONS, 20_000)
    found = samples.values(0, samples.count)
    n = samples.count
    assert abs(found["mass"].mean() - 5) < 4 * 0.5 / np.sqrt(n)
    assert abs(found["mass"].std() - 0.5) < 4 * 0.5 / np.sqrt(2 * n)
    assert np.all(np.abs(found["angles"]) <= [1, 2, 3])
    assert abs(np.corrcoef(found["pair"].T)[0, 1] - 0.9) < 0.01
    assert Counter(found["friction"].tolist()) == {0.2: 20_000, 0.5: 20_000, 0.8: 20_000}


def test_sequences_are_those_of_scipy():
    samples = Distributions({"x": uniform(0, 1), "y": uniform(0, 1)}, 128, seed=1, sampling="sobol")
    found = samples.values(0, 128)
    points = np.stack([found["x"], found["y"]], axis=1)
    random_points = Distributions({"x": uniform(0, 1), "y": uniform(0, 1)}, 128).points(0, 128)
    assert qmc.discrepancy(points) < 0.5 * qmc.discrepancy(random_points)
    strata = Distributions({"x": uniform(0, 1)}, 50, sampling="latin_hypercube").values(0, 50)["x"]
    assert sorted((strata * 50).astype(int).tolist()) == list(range(50))


def test_groups_of_saltelli():
    given = {"x": uniform(0, 1), "y": uniform([0, 0], 1)}
    samples = Distributions(given, 50, seed=2, sampling="saltelli")
    assert samples.labels == ("x", "y[0]", "y[1]")
    u = samples.points(0, 50).reshape(10, 5, 3)
    a, b = u[:, 0], u[:, 1]
    for k in range(3):
        want = a.copy()
        want[:, k] = b[:, k]
        assert np.array_equal(u[:, 2 + k], want)
    assert np.array_equal(samples.points(7, 9), u.reshape(50, 3)[7:16])
    with pytest.raises(InputError, match="groups of 5 runs: pass runs=55, not 51"):
        Distributions({"x": uniform(0, 1), "y": uniform([0, 0], 1)}, 51, sampling="saltelli")
    with pytest.raises(InputError, match="independent"):
        Distributions(DISTRIBUTIONS, 60, sampling="saltelli")


BAD_DRAWS = {
    "neither": ({"m": 5.0}, "neither a frozen distribution of SciPy nor a list"),
    "not finite": ({"m": [1.0, np.nan]}, "finite numbers"),
    "empty": ({"m": []}, "at least one"),
    "out of range": ({"m": norm(0, -1)}, "median"),
}


@pytest.mark.parametrize("case", BAD_DRAWS)
def test_bad_draws_are_rejected(case: str):
    given, message = BAD_DRAWS[case]
    with pytest.raises(InputError, match=message):
        Distributions(given, 10)


# ---- results -------------------------------------------------------------------------------------


def test_workers_and_blocks_do_not_change_a_bit(arm: pp.Simulator, tmp_path: Path):
    alone = small(arm).run()
    same(alone, small(arm).run(tmp_path / "two", workers=2))
    same(alone, small(arm, block=50).run())
    assert alone.complete and not alone.failed.size and len(alone) == 50


def test_a_run_again_has_its_bits(arm: pp.Simulator):
    s = small(arm)
    found = s.run()
    number = int(found.worst(lambda r: r["q.final"][:, 0], 1)[0])
    again = s.rerun(number)
    assert np.array_equal(again.q[0, -1], found["q.final"][number])
    assert found["q.final"][number, 0] == found["q.final"][:, 0].max()
    with pytest.raises(InputError, match=r"runs 0 … 49, not 50"):
        s.rerun(50)


def test_a_run_is_that_of_the_simulator(arm: pp.Simulator):
    s = small(arm, save=("final", "smallest", "largest", "mean", "trajectory"))
    found = s.run()
    run = arm.rollout(arm.initial_state(found["sample.q"]), steps=20)
    assert np.array_equal(found["q"], run.q)
    assert np.array_equal(found["v.largest"], run.v.max(axis=1))
    assert np.array_equal(found["v.smallest"], run.v.min(axis=1))
    assert np.allclose(found["q.mean"], run.q.mean(axis=1), rtol=1e-14)
    bands = found.bands("q", (0, 50, 100))
    assert np.array_equal(bands[0], run.q.min(axis=0))
    assert np.array_equal(bands[2], run.q.max(axis=0))


def test_start_and_outcome_are_functions_of_the_user(arm: pp.Simulator):
    s = pp.Study(
        arm,
        {"angle": uniform(0, 1), "side": [-1.0, 1.0]},
        initial_state=lambda d: {"q": np.stack([d["side"] * d["angle"], 0 * d["angle"]], axis=1)},
        metrics=lambda run, d: {"fell": run.q[:, -1, 0] < d["side"] * d["angle"]},
        steps=50,
        runs=10,
    )
    found = s.run()
    assert s.count == 20 and found["fell"].dtype == bool and found["fell"].all()
    assert np.array_equal(np.sign(found["sample.side"]), [-1] * 10 + [1] * 10)


def test_estimates_and_correlations(arm: pp.Simulator):
    found = small(arm, runs=2000, block=500, steps=1).run()
    x = found["q.final"][:, 0]
    mean = found.estimate(lambda r: r["q.final"][:, 0])
    assert abs(mean.value - x.mean()) < 1e-14
    assert abs((mean.high - mean.low) / 2 - 1.96 * x.std() / np.sqrt(2000)) < 1e-5
    share = found.estimate(lambda r: r["q.final"][:, 0] > 0.3)
    assert share.low < np.mean(x > 0.3) < share.high and share.runs == 2000
    assert share.low < 0.5 < share.high
    found_by = found.correlations(lambda r: r["q.final"][:, 0])
    assert found_by["q[0]"] > 0.99 > 0.1 > abs(found_by["q[1]"])
    never = found.estimate(lambda r: r["q.final"][:, 0] > 99)
    assert never.value == 0 and 0 < never.high < 0.003  # nothing seen is not certainty


def test_exact_numbers_are_analysed_like_others(arm: pp.Simulator):
    found = small(arm).run()
    exact = np.array([Fraction(int(x), 7) for x in found["run"]], dtype=object)
    mine, wanted = (found.estimate(x) for x in (exact, exact.astype(float)))
    assert (mine.value, mine.low, mine.runs) == (wanted.value, wanted.low, wanted.runs)
    assert found.correlations(exact) == found.correlations(exact.astype(float))
    assert np.array_equal(found.worst(exact, 3), found.worst(exact.astype(float), 3))
    with pytest.raises(InputError, match="one number per run, not of object"):
        found.estimate(np.array([None] * len(found), dtype=object))

    def ends(run: Any, samples: Any) -> Any:
        return np.array([Fraction(float(x)) for x in run.q[:, -1, 0]], dtype=object)

    study = small(arm, metrics=lambda run, samples: {"end": ends(run, samples)})
    assert study.run()["end"].dtype == np.float64
    plain = study.rare_event(lambda run, samples: run.q[:, -1, 0], 0.6, runs=20)
    assert study.rare_event(ends, 0.6, runs=20).probability == plain.probability


def test_events_are_those_of_single_records(arm: pp.Simulator):
    def speed(t: Any, q: Any, v: Any) -> Any:  # of whole arrays it would be that of all records
        return np.linalg.norm(v) - 0.3 + 0 * q[0]

    def squares(t: Any, q: Any, v: Any) -> Any:
        return np.sqrt(v[0] ** 2 + v[1] ** 2) - 0.3

    events = [pp.Event(speed), pp.Event(squares)]
    found = small(arm, events=events).run()
    assert np.isfinite(found["event.squares"]).any()
    assert np.allclose(found["event.speed"], found["event.squares"], rtol=1e-12)
    assert np.array_equal(found["event.speed.count"], found["event.squares.count"])


@pytest.mark.parametrize("name", ["run", "q.final", "sample.q", "event.up", "study", "file", 3])
def test_outcomes_do_not_take_the_names_of_other_arrays(name: Any, arm: pp.Simulator):
    event = pp.Event(lambda t, q, v: q[0], name="up")
    study = small(arm, events=[event], metrics=lambda run, samples: {name: run.q[:, -1, 0]})
    with pytest.raises(InputError, match=f"metric {name!r} cannot have this name"):
        study.run_block(0)


def test_results_of_runs_that_all_fail(arm: pp.Simulator, tmp_path: Path):
    thrown = {"v": np.array([[1e200, 0.0], [1e201, 0.0]])}
    metrics = lambda run, samples: {"end": run["q"][:, -1, 0]}  # noqa: E731
    found = pp.Study(arm, thrown, steps=3, save=("trajectory",), metrics=metrics).run()
    assert found.failed.tolist() == [0, 1]
    for analysis in (found.bands, found.estimate, found.correlations, found.worst):
        with pytest.raises(InputError, match=r"all 2 runs failed.*reason\(0\)"):
            analysis("q" if analysis == found.bands else "end")
    page = study_report(found, tmp_path / "study.html").read_text(encoding="utf-8")
    assert "0 of them succeeded" in page
    assert "run 1: failed in step" in page


@pytest.fixture(scope="module")
def analysed(arm: pp.Simulator) -> Any:
    def metrics(run: Any, samples: Any) -> Any:
        return {"end": run["q"][:, -1], "same": 0 * run["q"][:, -1, 0]}

    drawn, options = {"q": norm([0.0, 0.0], 0.1)}, {"sampling": "saltelli", "metrics": metrics}
    study = pp.Study(arm, drawn, runs=20, steps=2, save=("final", "trajectory"), **options)
    return study, study.run()


BAD_ANALYSES = {
    "worst of several": (lambda s, r: r.worst("end"), "one number per run.*q.final"),
    "indices of several": (lambda s, r: r.sobol_indices("end"), "one number per run"),
    "indices of one": (lambda s, r: r.sobol_indices("same"), "the variance of the values is 0"),
    "correlations": (lambda s, r: r.correlations("end"), "one number per run"),
    "estimate": (lambda s, r: r.estimate("rejected"), "of <U"),
    "confidence": (lambda s, r: r.estimate("same", 95), "confidence=95 must be betwe"),
    "percentiles": (lambda s, r: r.bands("q", (5, 500)), "numbers from 0 to 100"),
    "count": (lambda s, r: r.worst("same", -1), "count=-1 must be"),
    "rare array": (
        lambda s, r: s.rare_event(lambda run, _: run.q[:, -1, :1], 1, runs=20),
        r"shape \(20, 1\)",
    ),
    "rare number": (lambda s, r: s.rare_event(lambda *_: 1.0, 1, runs=20), "one number"),
    "rare word": (lambda s, r: s.rare_event(7, 1), "value=7 must be the name"),
    "rare limit": (lambda s, r: s.rare_event("end", "a"), "limit='a' must be"),
    "rare share": (lambda s, r: s.rare_event("end", 1, share=True), "share=True must"),
    "rare seed": (lambda s, r: s.rare_event("end", 1, seed="a"), "seed='a' must be"),
}


@pytest.mark.parametrize("case", BAD_ANALYSES)
def test_wrong_analyses_are_rejected(case: str, analysed: Any):
    call, message = BAD_ANALYSES[case]
    with pytest.raises(InputError, match=message):
        call(*analysed)


def ishigami(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x, y, z = (samples[name] for name in "xyz")
    return {"f": np.sin(x) + 7 * np.sin(y) ** 2 + 0.1 * z**4 * np.sin(x)}


def test_indices_of_sobol_are_those_of_a_known_function(arm: pp.Simulator):
    given = {name: uniform(-np.pi, 2 * np.pi) for name in "xyz"}
    s = pp.Study(arm, given, metrics=ishigami,
                 initial_state=lambda d: {"v": d["x"][:, None] + [0, 0]}, steps=0,
                 runs=5 * 2048, block=2000, sampling="saltelli")  # fmt: skip
    found = s.run().sobol_indices("f")
    exact = {"x": (0.3139, 0.5576), "y": (0.4424, 0.4424), "z": (0.0, 0.2437)}
    for name, (alone, total) in exact.items():
        got = found[name]
        assert abs(got.alone - alone) < 0.02 and abs(got.total - total) < 0.02, name
        assert abs(got.alone - alone) < 4 * got.alone_error
    with pytest.raises(InputError, match="sampling="):
        small(arm).run().sobol_indices("q.final")


def weighted(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"sum": (samples["a"] + samples["b"]) / np.sqrt(2)}


def test_the_probability_of_a_rare_event(arm: pp.Simulator):
    """Of a sum of normal numbers, which is known: 3.2e-5 with 4600 runs instead of 10⁶."""
    s = pp.Study(arm, {"a": norm(0, 1), "b": norm(0, 1), "c": uniform(0, 1)}, metrics=weighted,
                 initial_state=lambda d: {"v": d["a"][:, None] + [0, 0]}, steps=0)  # fmt: skip
    found = [s.rare_event("sum", 4.0, runs=1000, seed=seed) for seed in range(6)]
    ratios = np.array([x.probability for x in found]) / norm.sf(4.0)
    errors = np.array([x.error for x in found])
    assert abs(ratios.mean() - 1) < 3 * errors.mean() / np.sqrt(6)
    assert 0.5 < ratios.std() / errors.mean() < 2 and errors.max() < 0.5
    one = found[0]
    assert one.runs < 6000 and np.all(np.diff(one.levels) > 0) and (one.values > 4.0).all()
    drawn = s.distributions.at(one.points)
    assert np.allclose((drawn["a"] + drawn["b"]) / np.sqrt(2), one.values)
    assert s.rare_event("sum", 4.0, seed=0).probability == one.probability
    with pytest.raises(InputError, match="not a metric"):
        s.rare_event("sun", 4.0)


def test_a_parquet_file(arm: pp.Simulator, tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    found = small(arm, save=("final", "trajectory")).run(tmp_path / "study")
    found.to_parquet(tmp_path / "table.parquet")
    table = parquet.read_table(tmp_path / "table.parquet")
    assert table.num_rows == 50 and "q" not in table.column_names
    assert np.array_equal(table["q.final[1]"].to_numpy(), found["q.final"][:, 1])


def test_a_table(arm: pp.Simulator):
    pytest.importorskip("pandas")
    table = small(arm).run().frame()
    assert list(table.columns[:3]) == ["run", "sample.q[0]", "sample.q[1]"] and len(table) == 50


@pp.law
def shaken(v, w):
    return {"tau": 3.0 * w - 0.1 * v}


def test_noise_is_that_of_the_number_of_a_run(arm: pp.Simulator):
    sim = pp.Simulator(arm.model, shaken.bind(w=pp.signals.noise(2, seed=5)), dt=1e-3)
    whole = small(sim, block=50).run()
    same(whole, small(sim, block=8).run())
    assert len(np.unique(whole["v.final"][:, 0])) == 50
    still = pp.Study(sim, {"t": [0.0] * 20}, steps=20, block=7).run()
    assert len(np.unique(still["v.final"][:, 0])) == 20  # they differ by their noise alone
    assert np.array_equal(small(sim).rerun(33).q[0, -1], whole["q.final"][33])
    with pytest.raises(InputError, match="a law has noise"):
        small(sim).rare_event(lambda run, d: run.q[:, -1, 0], 2.0)


def test_a_trajectory_by_its_number(arm: pp.Simulator):
    sim = pp.Simulator(arm.model, shaken.bind(w=pp.signals.noise(2, seed=5)), dt=1e-3)
    many, one = (
        sim.initial_state(np.zeros((8, 2))),
        sim.initial_state(np.zeros((1, 2)), first_trajectory=5),
    )
    assert np.array_equal(sim.rollout(many, steps=30).q[5], sim.rollout(one, steps=30).q[0])
    weights = np.ones((31, 2))
    got = [sim.gradient(x, None, 30, cotangents={"q": weights}) for x in (many, one)]
    assert np.array_equal(got[0].value[5], got[1].value[0])
    assert np.array_equal(got[0].v[5], got[1].v[0])
    assert one.copy().first_trajectory == 5
    with pytest.raises(InputError, match="first"):
        sim.initial_state(first_trajectory=-1)


# ---- folders -------------------------------------------------------------------------------------


def test_a_study_goes_on_with_what_is_there(arm: pp.Simulator, tmp_path: Path):
    whole = small(arm).run(tmp_path)
    folder = StudyFolder.open(tmp_path)
    times = {f.name: f.stat().st_mtime_ns for f in tmp_path.glob("block-*")}
    folder.block_file(2).unlink()
    damaged = folder.block_file(4)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    other = folder.block_file(5)
    other.write_bytes(folder.block_file(6).read_bytes())
    with pytest.raises(ParseError, match="checksum mismatch"):
        folder.read_block(5)
    damaged = pp.Study.results(tmp_path).damaged()
    assert list(damaged) == [2, 4, 5] and "it does not exist" in damaged[2]
    with pytest.warns(UserWarning) as warned:
        same(whole, small(arm).run(tmp_path))
    texts = [str(x.message) for x in warned]
    assert [x.partition(":")[0] for x in texts] == [
        f"runs {8 * i} … {8 * i + 7} are run again" for i in (2, 4, 5)
    ]
    changed = {f.name for f in tmp_path.glob("block-*") if f.stat().st_mtime_ns != times[f.name]}
    assert changed == {f"block-{i:07d}.npz" for i in (2, 4, 5)}


def test_blocks_that_are_not_listed_yet_are_kept(arm: pp.Simulator, tmp_path: Path):
    whole = small(arm).run(tmp_path)
    manifest = tmp_path / "manifest.json"
    read = json.loads(manifest.read_text())
    read["done"] = {k: x for k, x in read["done"].items() if int(k) < 3}
    manifest.write_text(json.dumps(read))
    assert not pp.Study.results(tmp_path).complete and len(pp.Study.results(tmp_path)) == 24
    times = {f.name: f.stat().st_mtime_ns for f in tmp_path.glob("block-*")}
    same(whole, small(arm).run(tmp_path))
    assert times == {f.name: f.stat().st_mtime_ns for f in tmp_path.glob("block-*")}


def test_another_study_is_rejected(arm: pp.Simulator, tmp_path: Path):
    small(arm).run(tmp_path)
    for change, key in (({"seed": 1}, "seed"), ({"steps": 21}, "steps"), ({"runs": 51}, "runs")):
        with pytest.raises(InputError, match=f"contains another study: its {key}"):
            small(arm, **change).run(tmp_path)
    description = pp.examples.planar_arm(2).to_dict()
    heavier = pp.Model.from_dict(json.loads(json.dumps(description).replace("9.81", "9.82")))
    with pytest.raises(InputError, match="its simulator"):
        small(pp.Simulator(heavier, dt=1e-3)).run(tmp_path)


def beyond(run: Any, samples: dict[str, np.ndarray], limit: float) -> dict[str, np.ndarray]:
    return {"high": run.q[:, -1, 0] > limit}


class Beyond:
    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return beyond(run, samples, self.limit)


def closing_over(limit: float) -> Any:
    return lambda run, samples: beyond(run, samples, limit)


def of_a_module(limit: float) -> Any:
    """A function that reads a constant of its module, through another function."""
    names: dict[str, Any] = {"LIMIT": limit, "cache": [limit]}
    text = """
def high(x): return (x > LIMIT) | (len(cache) > 9)
def metrics(run, samples): return {"high": high(run.q[:, -1, 0])}
"""
    exec(text, names)
    return names["metrics"]


@pytest.mark.parametrize(
    "make_metrics",
    [lambda x: partial(beyond, limit=x), Beyond, closing_over, of_a_module],
    ids=["partial", "object", "closure", "module"],
)
def test_what_functions_hold_is_part_of_the_study(
    make_metrics: Any, arm: pp.Simulator, tmp_path: Path
):
    small(arm, metrics=make_metrics(0.0)).run(tmp_path)
    small(arm, metrics=make_metrics(0.0)).run(tmp_path)
    with pytest.raises(InputError, match="its 'metrics'"):
        small(arm, metrics=make_metrics(1.0)).run(tmp_path)


def test_distributions_of_one_name_are_told_apart():
    one, other = (rv_histogram(np.histogram([x, x + 1, x + 1.5]))() for x in (0.0, 5.0))
    assert Distributions({"x": one}, 2).to_dict() != Distributions({"x": other}, 2).to_dict()
    assert Distributions({"x": one}, 2).to_dict() == Distributions({"x": one}, 2).to_dict()


def test_nothing_there_and_nothing_to_say(arm: pp.Simulator, tmp_path: Path):
    def fails(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        raise ValueError("always")

    where = r"metrics '.*fails' raised ValueError: always \(run 0, test_studies.py:\d+\)"
    with (
        pytest.warns(UserWarning, match="runs 0 … 7 are quarantined"),
        pytest.raises(
            SimulationError, match=rf"the first 8 runs .* fail in the same way.*\s+{where}"
        ),
    ):
        small(arm, metrics=fails).run(tmp_path)
    found = pp.Study.results(tmp_path)
    assert repr(found) == "<results of none of 50 runs>" and list(found.quarantined) == [0]
    with pytest.raises(InputError, match="no run of this study is finished yet"):
        _ = found.failed
    gaps = small(arm, metrics=lambda r, d: {"x": np.where(d["q"][:, 0] > 0.3, np.nan, 1.0)}).run()
    with pytest.raises(InputError, match="have NaN there, the first is run"):
        gaps.estimate("x")
    with pytest.raises(InputError, match="limit=nan must be a finite number"):
        small(arm).rare_event(lambda r, d: r.q[:, -1, 0], np.nan)


def test_folders_that_cannot_be_used(arm: pp.Simulator, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"not empty \(notes.txt"):
        small(arm).run(tmp_path)
    with pytest.raises(InputError, match="cannot be used"):
        small(arm).run(tmp_path / "notes.txt" / "inside")
    with pytest.raises(InputError, match="not the folder of a study"):
        pp.Study.results(tmp_path)
    (tmp_path / "manifest.json").write_text("{]")
    with pytest.raises(ParseError, match="cannot be read"):
        pp.Study.results(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "phipsi-study", "version": 1}')
    with pytest.raises(ParseError, match="a field is missing"):
        pp.Study.results(tmp_path)


def test_no_pickle_is_read(arm: pp.Simulator, tmp_path: Path):
    small(arm).run(tmp_path)
    np.savez(StudyFolder.open(tmp_path).block_file(0), run=np.array([{}], dtype=object))
    with pytest.raises(ParseError, match="cannot be read"):
        _ = pp.Study.results(tmp_path)["run"]


# ---- failures ------------------------------------------------------------------------------------


def test_runs_that_diverge_or_cannot_start_do_not_stop_the_others(arm: pp.Simulator):
    def start(samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        v = np.zeros((len(samples["x"]), 2))
        v[samples["x"] == 2.0] = 1e200  # ends in infinity
        v[samples["x"] == 3.0] = np.nan
        return {"v": v}

    s = pp.Study(arm, {"x": [1.0, 2.0, 3.0, 4.0]}, initial_state=start, steps=20)
    found = s.run()
    assert (found["status"] == 0).tolist() == [True, False, False, True]
    assert found["status"][2] == -1 and "must be finite" in str(found["rejected"][2])
    assert found.failed.tolist() == [1, 2]
    assert np.isfinite(found["q.final"][[0, 3]]).all() and np.isnan(found["q.final"][2]).all()


def killer(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if (samples["x"] == 5.0).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def sleeper(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if (samples["x"] == 5.0).any():
        time.sleep(60)
    return {}


def eater(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if (samples["x"] == 5.0).any():
        np.ones(1 << 32)
    return {}


def raiser(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if (samples["x"] == 5.0).any():
        raise ValueError("no such thing")
    return {}


@pytest.mark.parametrize(
    ("metrics", "options", "why"),
    [
        (killer, {}, "its process died (SIGKILL)"),
        (sleeper, {"time_limit": 3.0, "retries": 0}, "it took longer than 3 s"),
        (eater, {"memory_limit": 8 << 30}, "it needs more memory than memory_limit= allows"),
    ],
)
def test_a_block_that_fails_is_put_aside(
    metrics: Any, options: Any, why: str, arm: pp.Simulator, tmp_path: Path
):
    s = pp.Study(
        arm, {"x": np.arange(8.0)}, metrics=metrics, steps=5, block=2,
        initial_state=lambda d: {"v": 0.1 * d["x"][:, None] + [0, 0]},
    )  # fmt: skip
    with pytest.warns(UserWarning, match="runs 4 … 5 are quarantined"):
        found = s.run(tmp_path, workers=2, **options)
    assert found.missing == [2] and found.quarantined[2].startswith(why)
    assert found["run"].tolist() == [0, 1, 2, 3, 6, 7]
    assert pp.Study.results(tmp_path).quarantined[2].startswith(why)


def test_a_run_that_raises_is_reported_and_the_others_have_their_outcomes(arm: pp.Simulator):
    def metrics(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        raiser(run, samples)
        return {"x": samples["x"].copy(), "angle": run.q[:, -1, 0], "first": run.t[:, 0] == 0}

    def start(samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if (samples["x"] == 6.0).any():
            raise KeyError("six")
        return {"v": 0.1 * samples["x"][:, None] + [0, 0]}

    s = pp.Study(arm, {"x": np.arange(8.0)}, initial_state=start, metrics=metrics, steps=5, block=8)
    found = s.run()
    assert found["status"].tolist() == [0, 0, 0, 0, 0, -2, -1, 0]
    why = [str(x) for x in found["rejected"]]
    assert "raised ValueError: no such thing (run 5, test_studies.py:" in why[5]
    assert (
        "initial_state " in why[6] and "raised KeyError: 'six' (run 6, test_studies.py:" in why[6]
    )
    good = found["status"] == 0
    assert (
        np.array_equal(found["x"][good], np.arange(8.0)[good]) and np.isnan(found["x"][~good]).all()
    )
    assert np.array_equal(found["angle"][good], found["q.final"][good, 0])
    assert np.isfinite(found["q.final"][5]).all()  # the run itself went well
    same(
        found,
        pp.Study(
            arm, {"x": np.arange(8.0)}, initial_state=start, metrics=metrics, steps=5, block=3
        ).run(),
    )


NOT_ONE: Any = 3


def zero(t: Any, q: Any, v: Any) -> Any:
    return 0.0


BAD_STUDIES = {
    "no simulator": (lambda arm: pp.Study(NOT_ONE, {"v": [1.0]}, steps=1), "takes a Simulator"),
    "no distributions": (lambda arm: pp.Study(arm, {}, steps=1), "distributions= is empty"),
    "unknown name": (
        lambda arm: pp.Study(arm, {"mass": [1.0]}, steps=1).run(),
        "not one of q, v, t",
    ),
    "unknown word": (
        lambda arm: pp.Study(arm, {"v": [[1.0, 0]]}, steps=1, save=("last",)),
        "save='last'",
    ),
    "sampling": (lambda arm: small(arm, sampling="sobl"), "sobol"),
    "executor": (lambda arm: small(arm).run(executor="cluster"), "executor='cluster' is neither"),
    "open to all": (lambda arm: small(arm).run(executor="tcp://10.0.0.1:8786"), "Use TLS"),
    "limits": (
        lambda arm: small(arm).run(executor="tcp://127.0.0.1:1", time_limit=1),
        "executor='local' and 'dask'",
    ),
    "not sent": (lambda arm: small(arm).run(executor="dask"), "a function that makes it"),
    "events": (
        lambda arm: small(arm, events=[pp.Event(zero, name="a"), pp.Event(zero, name="a.count")]),
        "two events have the same name: a, a.count",
    ),
    "seed": (lambda arm: small(arm, seed="a"), "seed='a' must be an integer"),
    "trajectory": (
        lambda arm: small(arm).rerun(3).trajectory(9),
        r"index=9 is outside the batch \(1,\)",
    ),
    "workers": (lambda arm: small(arm).run(workers=0), "workers"),
    "no trajectory": (lambda arm: small(arm).run().bands("q.final"), "Save them"),
    "no array": (lambda arm: small(arm).run()["q.last"], "q.final"),
}


@pytest.mark.parametrize("case", BAD_STUDIES)
def test_bad_studies_are_rejected(case: str, arm: pp.Simulator):
    call, message = BAD_STUDIES[case]
    with pytest.raises(InputError, match=message):
        call(arm)
