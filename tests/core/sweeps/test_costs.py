"""What the forms cost that the compiler finds: random expressions, and derivatives of the papers'.

A right result can come from a form that is needlessly dear; only its cost shows that. The recorded
numbers are floating-point operations of one evaluation. To judge a change, and to record it:

    python scripts/record_costs.py
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import recorded_costs
from recorded_costs import COMMAND, GROUPS, RANDOM, Asked, Cost, judged, measured, recorded

import phipsi as pp
from phipsi import operators as ops

ROOT = Path(__file__).parents[3]


def seed_of(name: str) -> int:
    return int(name.split()[0])


@pytest.mark.parametrize("group", GROUPS)
def test_no_form_became_dearer(group: str):
    asked = {k: c for k, c in recorded(group).items() if group != "random" or seed_of(k) < RANDOM}
    judgement = judged(asked, measured(group))
    assert judgement.is_as_recorded, "\n".join(
        [
            f"costs of group {group!r} differ from the recorded ones:",
            *judgement.lines(most=40),
            f"To record them:  {COMMAND}     It refuses rises without  --accept-rise",
        ]
    )


def test_a_cost_that_is_off_by_one_operation_is_noticed():
    before = {"0": Cost(7, "a"), "1": Cost(7, "a"), "2": Cost(100, "a"), "3": Cost(None, "a")}
    now = {"0": Cost(8, "a"), "1": Cost(None, "a"), "2": Cost(300, "a"), "3": Cost(5, "a")}
    judgement = judged(before, now)
    assert [name for name, *_ in judgement.risen] == ["1", "2", "0"], "the worst first"
    assert [name for name, *_ in judgement.fallen] == ["3"] and not judgement.asked_otherwise
    assert "    0: 7 → 8  +14.3 %" in list(judgement.lines())
    assert judged(before, before).is_as_recorded


def test_costs_of_other_questions_are_not_compared():
    before = {"0": Cost(7, "a"), "1": Cost(7, "a")}
    judgement = judged(before, {"0": Cost(9, "b"), "2": Cost(1, "a")})
    assert not judgement.risen and [name for name, *_ in judgement.asked_otherwise] == ["0"]
    assert (judgement.new, judgement.gone) == (["2"], ["1"])
    assert not judgement.is_as_recorded and "median: 7 → 9" in "\n".join(judgement.lines())


def test_a_question_is_the_expression_and_the_mechanism():
    x, y = ops.mass_matrix @ ops.v, ops.M @ ops.V
    assert Asked(x).digest() == Asked(x).digest() != Asked(y).digest()
    assert Asked(x).digest() != Asked(x, "dense").digest()
    assert Asked(x).digest() != Asked(x, tree=pp.examples.planar_arm(2)).digest()
    assert Asked(x, derived=y).digest() == Asked(y).digest(), "a dearer derivative is a rise"


@pytest.mark.parametrize("rise", [False, True])
def test_a_rise_is_recorded_on_demand_only(rise: bool, tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("a", ROOT / "scripts" / "record_costs.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    file = tmp_path / "costs.json"
    monkeypatch.setattr(recorded_costs, "FILE", file)
    monkeypatch.setattr(script, "GROUPS", {"a": None})
    recorded_costs.write({"a": {"x": Cost(100, "q"), "y": Cost(10, "q")}})
    found = {"x": Cost(101 if rise else 99, "q"), "y": Cost(10, "q")}
    monkeypatch.setattr(script, "measured", lambda group: found)
    before = file.read_text()
    assert script.main(["--check"]) == 1 and file.read_text() == before
    assert script.main([]) == int(rise)
    said = capsys.readouterr().out
    assert ("--accept-rise" in said) is rise and ("x: 100 → 101  +1.0 %" in said) is rise
    assert script.main(["--accept-rise"]) == 0
    assert json.loads(file.read_text()) == {"a": {"x": [found["x"].flops, "q"], "y": [10, "q"]}}
    assert script.main([]) == 0 and "as recorded" in capsys.readouterr().out
