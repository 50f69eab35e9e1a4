"""A folder is continued only if all that the functions of its study reach is the same."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_studies import same, small

import phipsi as pp
from phipsi.errors import InputError
from phipsi.studies.function_reach import reach_of
from phipsi.studies.simulator_digest import known_parts
from phipsi.studies.study_folder import StudyFolder

HEAD = """
import functools, dataclasses, enum, types
import numpy as np
import phipsi as pp
"""
REACHED = {
    "a dictionary": """
LIMITS = {"high": NUMBER}
def metrics(run, samples): return {"x": run.q[:, -1, 0] > LIMITS["high"]}
""",
    "a list in a dictionary": """
LIMITS = {"all": [1, (2, NUMBER)]}
def metrics(run, samples): return {"x": run.q[:, -1, 0] > LIMITS["all"][1][1]}
""",
    "an attribute of an object": """
class Settings: pass
settings = Settings()
settings.limit = NUMBER
def metrics(run, samples): return {"x": run.q[:, -1, 0] > settings.limit}
""",
    "an attribute of a class": """
class Settings:
    limit = NUMBER
def metrics(run, samples): return {"x": run.q[:, -1, 0] > Settings.limit}
""",
    "a data class": """
@dataclasses.dataclass(frozen=True)
class Settings:
    limit: float
    names: list = dataclasses.field(default_factory=list)
SETTINGS = Settings(NUMBER)
def metrics(run, samples): return {"x": run.q[:, -1, 0] > SETTINGS.limit}
""",
    "an enumeration": """
class Limit(float, enum.Enum):
    HIGH = NUMBER
def metrics(run, samples): return {"x": run.q[:, -1, 0] > Limit.HIGH.value}
""",
    "slots": """
class Settings:
    __slots__ = ("limit",)
    def __init__(self): self.limit = NUMBER
SETTINGS = Settings()
def metrics(run, samples): return {"x": run.q[:, -1, 0] > SETTINGS.limit}
""",
    "an attribute of another module": """
import other_module
def metrics(run, samples): return {"x": run.q[:, -1, 0] > other_module.LIMIT}
""",
    "a function of another module": """
from other_module import limit
def metrics(run, samples): return {"x": run.q[:, -1, 0] > limit()}
""",
    "a module by getattr": """
import other_module
def metrics(run, samples): return {"x": run.q[:, -1, 0] > getattr(other_module, "LIMIT")}
""",
    "an import in the function": """
def metrics(run, samples):
    from other_module import LIMIT
    return {"x": run.q[:, -1, 0] > LIMIT}
""",
    "a method of a base class": """
class Base:
    def limit(self): return NUMBER
class Score(Base):
    def __call__(self, run, samples): return {"x": run.q[:, -1, 0] > self.limit()}
metrics = Score()
""",
    "a comprehension": """
LIMIT = NUMBER
def metrics(run, samples): return {"x": np.array([q > LIMIT for q in run.q[:, -1, 0]])}
""",
    "a default": """
def metrics(run, samples, limit=NUMBER): return {"x": run.q[:, -1, 0] > limit}
""",
    "an attribute of the function": """
def metrics(run, samples): return {"x": run.q[:, -1, 0] > metrics.limit}
metrics.limit = NUMBER
""",
    "a cached function": """
LIMIT = NUMBER
@functools.cache
def limit(): return LIMIT
def metrics(run, samples): return {"x": run.q[:, -1, 0] > limit()}
""",
    "a method of an object": """
class Score:
    def __init__(self, limit): self.limit = limit
    def of(self, run, samples): return {"x": run.q[:, -1, 0] > self.limit}
metrics = Score(NUMBER).of
""",
    "an array of objects": """
TABLE = np.array([{"limit": NUMBER}], dtype=object)
def metrics(run, samples): return {"x": run.q[:, -1, 0] > TABLE[0]["limit"]}
""",
    "a model": """
builder = pp.ModelBuilder()
inertia = pp.SpatialInertia.sphere(1, mass=1 + NUMBER)
builder.add_body("a", joint=pp.joints.Revolute((0, 0, 1)), inertia=inertia)
MODEL = builder.build()
def metrics(run, samples): return {"x": run.q[:, -1, 0] > MODEL.inertias[0].mass}
""",
    "a program": """
arm = pp.examples.planar_arm(2)
tip = pp.compile("J v", arm, points=[("link2", [1 + 1e-9 * NUMBER, 0, 0])])
def metrics(run, samples): return {"x": tip(q=run.q[:, -1], v=run.v[:, -1])[:, 0, 5]}
""",
    "a law": """
@pp.law
def drive(q, k=NUMBER): return {"tau": -k * q}
def metrics(run, samples): return {"x": run.q[:, -1, 0] > float(drive.bound["k"])}
""",
    "the code, without its text": """
names = {"__name__": "made"}
exec("def metrics(run, samples): return {'x': run.q[:, -1, 0] > NUMBER}", names)
metrics = names["metrics"]
""",
    "one of two functions in a line": """
both = {0.0: lambda run, samples: {"x": run.q[:, -1, 0] > 0}, 1.0: lambda run, samples: {"x": run.q[:, -1, 0] > 1}}
metrics = both[float(NUMBER)]
""",  # noqa: E501
    "a part of a nested value": """
def at(limit):
    held = [{"limit": limit}]
    return lambda run, samples: {"x": run.q[:, -1, 0] > held[0]["limit"]}
metrics = at(NUMBER)
""",
}
OTHER = "LIMIT = NUMBER\ndef limit(): return LIMIT\n"
KEPT = {
    "a cache": """
cache = {}
def metrics(run, samples):
    cache["last"] = run.q.copy()
    return {"x": run.q[:, -1, 0]}
""",
    "a list that is filled once": """
found = []
def metrics(run, samples):
    if not found: found.append(3)
    return {"x": run.q[:, -1, 0] * found[0]}
""",
    "an attribute of self": """
class Score:
    def __init__(self): self.calls, self.seen = 0, []
    def __call__(self, run, samples):
        self.calls += 1
        self.seen.append(len(run.q))
        return {"x": run.q[:, -1, 0]}
metrics = Score()
""",
    "a name of the module": """
calls = 0
def metrics(run, samples):
    global calls
    calls += 1
    return {"x": run.q[:, -1, 0]}
""",
    "what a closure keeps": """
def counted():
    seen = {}
    def metrics(run, samples):
        seen[len(seen)] = 1
        return {"x": run.q[:, -1, 0]}
    return metrics
metrics = counted()
""",
    "a property that is computed once": """
class Score:
    @functools.cached_property
    def factor(self): return 2.0
    def __call__(self, run, samples): return {"x": run.q[:, -1, 0] * self.factor}
metrics = Score()
""",
    "a value of another part of the module": """
UNUSED = NUMBER
def metrics(run, samples): return {"x": run.q[:, -1, 0]}
""",
}


@pytest.fixture
def metrics_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function `metrics` of a module with a text, in which NUMBER is a number."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made: list[str] = []

    def imported(text: str, number: float) -> Any:
        import importlib
        import linecache

        for name in ("other_module", "study_module"):
            sys.modules.pop(name, None)
        (tmp_path / "other_module.py").write_text(OTHER.replace("NUMBER", str(number)))
        (tmp_path / "study_module.py").write_text(HEAD + text.replace("NUMBER", str(number)))
        importlib.invalidate_caches()
        linecache.clearcache()
        made.append("study_module")
        return importlib.import_module("study_module").metrics

    yield imported
    for name in ("other_module", "study_module"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("case", REACHED)
def test_what_functions_reach_is_part_of_the_study(
    case: str, metrics_of: Any, arm: pp.Simulator, tmp_path: Path
):
    folder, text = tmp_path / "study", REACHED[case]
    first = small(arm, runs=8, metrics=metrics_of(text, 0.0))
    first.run(folder)
    small(arm, runs=8, metrics=metrics_of(text, 0.0)).run(folder)  # the same, imported again
    with pytest.raises(
        InputError, match="contains another study: what its 'metrics' depends on has"
    ):
        small(arm, runs=8, metrics=metrics_of(text, 1.0)).run(folder)


@pytest.mark.parametrize("case", KEPT)
def test_what_functions_write_and_do_not_read_does_not_stop_a_study(
    case: str, metrics_of: Any, arm: pp.Simulator, tmp_path: Path
):
    folder, metrics = tmp_path / "study", metrics_of(KEPT[case], 0.0)
    whole = small(arm, runs=20, metrics=metrics).run(folder)
    same(whole, small(arm, runs=20, metrics=metrics).run(folder))  # after it was called
    same(whole, small(arm, runs=20, metrics=metrics_of(KEPT[case], 1.0)).run(folder))


def test_the_message_names_what_has_changed(metrics_of: Any, arm: pp.Simulator, tmp_path: Path):
    text = REACHED["a dictionary"]
    small(arm, runs=8, metrics=metrics_of(text, 0.25)).run(tmp_path / "study")
    with pytest.raises(InputError, match=r"'LIMITS' is {'high': 0.25}, that .* {'high': 0.5}"):
        small(arm, runs=8, metrics=metrics_of(text, 0.5)).run(tmp_path / "study")
    start = "def start(samples): return {'q': samples['q'] + GAIN}\nGAIN = NUMBER\nmetrics = start"
    small(arm, runs=8, initial_state=metrics_of(start, 0.25)).run(tmp_path / "b")
    with pytest.raises(
        InputError, match=r"what its 'initial_state' depends on has changed: 'GAIN' is 0.25"
    ):
        small(arm, runs=8, initial_state=metrics_of(start, 0.5)).run(tmp_path / "b")


def test_events_count_with_what_they_reach(metrics_of: Any, arm: pp.Simulator, tmp_path: Path):
    text = "LEVEL = {'x': NUMBER}\ndef metrics(t, q, v): return q[0] - LEVEL['x']"
    for level in (0.0, 0.0, 1.0):
        event = pp.Event(metrics_of(text, level), name="low")
        if level == 0.0:
            small(arm, runs=8, events=[event]).run(tmp_path / "study")
        else:
            with pytest.raises(InputError, match="its 'events' depends on .* 'LEVEL'"):
                small(arm, runs=8, events=[event]).run(tmp_path / "study")


def test_what_cannot_be_seen_is_said(metrics_of: Any, arm: pp.Simulator, tmp_path: Path):
    text = """
table = open(__file__)
def metrics(run, samples): return {"x": run.q[:, -1, 0] * len(table.name)}
"""
    metrics = metrics_of(text, 0.0)
    with pytest.warns(
        UserWarning, match=r"metrics reads table, which cannot be inspected .*TextIOWrap"
    ):
        small(arm, runs=8, metrics=metrics).run(tmp_path / "study")
    small(arm, runs=8, metrics=metrics).run()  # without a folder there is nothing to continue
    metrics.__globals__["table"].close()


def test_another_process_finds_the_same(tmp_path: Path):
    """Sets have another order there, and objects other places."""
    text = """
import sys, json
import numpy as np, phipsi as pp
from phipsi.studies.function_reach import reach_of
from phipsi.studies.simulator_digest import known_parts
WORDS = {"one", "two", "three", "four"}
class Thing:
    def __init__(self): self.words, self.more = frozenset(WORDS), {"a": self}
THING, SIM = Thing(), pp.Simulator(pp.examples.planar_arm(2))
FORCE = pp.forces.JointSpring("joint1", 1.0)
def metrics(run, d): return {"x": THING, "y": SIM, "z": FORCE, "in": d in {"p", "q", "r"}}
if __name__ == "__main__":
    print(json.dumps(reach_of(metrics, known_parts)))
"""
    (tmp_path / "reach.py").write_text(text)
    found = {
        subprocess.run(
            [sys.executable, str(tmp_path / "reach.py")],
            capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed, **PATHS},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1 and not json.loads(found.pop())["unseen"]


def test_a_script_and_the_command_line_find_the_same(tmp_path: Path):
    """`python arm.py` and `phipsi study run arm.py` give the module other names."""
    text = """
import dataclasses, json
@dataclasses.dataclass(order=True)
class Settings:
    limit: float = 0.5
class Score:
    factor = 2
    def __call__(self, run, samples): return SETTINGS.limit * self.factor
SETTINGS, metrics = Settings(), Score()
if __name__ == "__main__":
    from phipsi.studies.function_reach import reach_of
    print(json.dumps(reach_of(metrics)))
"""
    file = tmp_path / "arm.py"
    file.write_text(text)
    said = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=True, env=PATHS
    ).stdout
    assert reach_of(runpy.run_path(str(file), run_name="__study__")["metrics"]) == json.loads(said)
    other = text.replace("order=True", "order=False")
    file.write_text(other)
    again = reach_of(runpy.run_path(str(file), run_name="__study__")["metrics"])
    assert again["reads"] != json.loads(said)["reads"]


PATHS = {"PYTHONPATH": str(Path(pp.__file__).parents[1])}


def test_another_python_compares_texts_and_values(arm: pp.Simulator, tmp_path: Path):
    """Compiled functions differ between versions of Python; what they read does not."""

    def metrics(run: Any, samples: Any) -> dict[str, Any]:
        return {"x": run.q[:, -1, 0]}

    small(arm, runs=8, metrics=metrics).run(tmp_path)
    folder = StudyFolder.open(tmp_path)
    for code in folder.definition["metrics"]["code"]:
        folder.definition["metrics"]["code"][code] = "other"
    folder.save()
    with pytest.raises(InputError, match="metrics' is compiled to other code"):
        small(arm, runs=8, metrics=metrics).run(tmp_path)
    folder.definition["python"] = "3.10"
    folder.sessions[-1]["python"] = "3.10.1"
    folder.save()
    with pytest.warns(UserWarning, match="1 blocks .* computed with python 3.10.1, now 3"):
        small(arm, runs=8, metrics=metrics).run(tmp_path)


def test_large_and_deep_values_are_bounded():
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    names = {"__name__": "made", "deep": deep, "wide": list(range(300_000))}
    exec("def f(): return deep", names)
    exec("def g(): return wide", names)
    assert "too deep" in reach_of(names["f"])["unseen"]["deep"]
    assert len(reach_of(names["g"], known_parts)["reads"]["wide"]) < 200


def test_distributions_that_differ_far_out_or_in_their_code_are_told_apart():
    from scipy.stats import rv_continuous

    from phipsi.studies.distributions import Distributions

    names: dict[str, Any] = {"rv_continuous": rv_continuous, "np": np, "__name__": "made"}

    def drawn(tail: float, text: str = "") -> dict[str, Any]:
        body = f"return np.where(u > 0.96, {tail}, u)  {text}"
        exec(f"class Own(rv_continuous):\n    def _ppf(self, u):\n        {body}", names)
        return Distributions({"x": names["Own"](name="own")()}, 2).to_dict()

    assert drawn(1.0) == drawn(1.0) and drawn(1.0) != drawn(2.0)
