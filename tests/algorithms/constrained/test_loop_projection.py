"""Newton's method onto constraints, as a text: points onto a circle, with their velocities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machine_texts import in_lanes, on_arrays

from phipsi.algorithms.constrained.loop_projection import LoopProjection

TOLERANCE, MOST = 1e-10, 12
RESULTS = {"q": (2,), "v": (2,), "done": (), "moves": ()}
LANES = 37


class Circle:
    """The row ½ (q* q − 1), whose rate q* v vanishes."""

    def __init__(self, m: Any, q: Any, v: Any) -> None:
        self.m, self.q, self.v = m, q, v
        self.step, self.slip = m.array(kept=False), m.array(kept=False)

    def _times(self, x: Any) -> Any:
        return self.m.total(0, 2, lambda i: (self.q[i], x[i]))

    def look(self) -> Any:
        self.gap = (self._times(self.q) - 1.0) * 0.5
        return self.m.abs(self.gap)

    def correct(self, moves: Any, final: Any) -> None:
        square = self._times(self.q)
        self.step.value, self.slip.value = self.gap / square, self._times(self.v) / square

    def _subtract(self, x: Any, factor: Any) -> None:
        for i, old in enumerate([self.q[0], self.q[1]]):
            x[i] = x[i] - factor.value * old

    def move(self) -> None:
        self._subtract(self.q, self.step)

    def change_rates(self) -> None:
        self._subtract(self.v, self.slip)


def projected(m: Any, given: Any, out: Any) -> None:
    """The nearest states on the circle, and how often each moved."""
    m.copy(2, given["q"], out["q"])
    m.copy(2, given["v"], out["v"])
    out["moves"].value = 0.0
    search = LoopProjection(m, Circle(m, out["q"], out["v"]), TOLERANCE, MOST)

    def watch(_turn: Any, moves: Any) -> None:
        out["moves"].value = out["moves"].value + m.to_flag(moves)

    search.run(watch)
    out["done"].value = search.done.value


def states() -> dict[str, np.ndarray]:
    """Points from near the circle to far from it, one on it and one that is not a number."""
    rng = np.random.default_rng(0)
    angle, size = rng.uniform(0, 6, LANES), 10.0 ** rng.uniform(-0.5, 1.5, LANES)
    size[:4] = 1.0, 1.0 + 1e-13, 1.0 + 1e-11, 1.0 + 1e-6
    angle[0] = 0.0
    q = size[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    q[5] = np.nan
    return {"q": q, "v": rng.standard_normal((LANES, 2))}


def test_states_are_on_the_circle() -> None:
    found = on_arrays(projected, states(), RESULTS)
    good = np.arange(LANES) != 5
    np.testing.assert_array_equal(found["done"] == 1, good)
    q, v = found["q"][good], found["v"][good]
    assert np.abs((q * q).sum(axis=1) - 1).max() < 1e-15 * 4
    assert np.abs((q * v).sum(axis=1)).max() < 1e-11
    assert found["moves"][0] == 0  # it was there
    assert found["moves"][1] == 1  # rates were projected before it
    assert found["moves"][good].max() > 4
    assert found["q"][0].tolist() == [1.0, 0.0]


def test_a_motion_that_needs_too_many_steps_is_not_done() -> None:
    given = {"q": np.array([[1e9, 0.0], [1.1, 0.0]]), "v": np.zeros((2, 2))}
    assert on_arrays(projected, given, RESULTS)["done"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("options", [{"strict": True}, {"whole": True}])
def test_arrays_have_the_bits_however_rounds_are_run(options: dict[str, bool]) -> None:
    expected, found = (on_arrays(projected, states(), RESULTS, **x) for x in ({}, options))
    for name in RESULTS:
        np.testing.assert_array_equal(found[name], expected[name])


def test_lanes_have_the_bits_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    given = states()
    found = in_lanes(projected, given, RESULTS, monkeypatch, fused=False)(given)
    expected = on_arrays(projected, given, RESULTS, exact=True)
    for name in RESULTS:
        np.testing.assert_array_equal(found[name], expected[name])
