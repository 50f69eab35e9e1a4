"""Diagonals of derivatives of laws: equal to complex steps, and with few tangents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from phipsi.core.arrays import law_derivatives, law_operations as ops
from phipsi.core.arrays.law_derivatives import dependence, diagonal
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.trace import Tracer, as_node

N = 5
X, Y = ops.input("x", (N,)), ops.input("y", (N, N))
x: Any = Tracer(X)
y: Any = Tracer(Y)
FULL = np.random.default_rng(0).normal(size=(N, N))
BAND = np.diag(np.arange(1.0, N + 1)) + np.diag(np.ones(N - 1), 1)

LAWS = {
    # a law, and how many tangents the diagonals of its terms take
    "entry by entry": (lambda: -2.0 * x + np.tanh(3 * x) * y[0], 2),
    "with a choice": (lambda: np.where(x > 0.1, -x * x, 0.2 * x) + np.maximum(x, 0.0), 2),
    "neighbours": (lambda: np.concatenate([x[:1] ** 3, x[1:] * (x[1:] - x[:-1])]), 2),
    "all together": (lambda: np.sin(FULL @ x), N),
    "a sum": (lambda: -3 * x - (np.sin(BAND @ x) - x[::-1] * x), 1 + 2 + 2),
    "a band": (lambda: BAND @ (x * x), 2),
    "matrices that are given": (lambda: y @ x, N),
    "some entries": (lambda: np.concatenate([x[3:4] * x[0:1], x[1:3] ** 2, 0 * x[3:] + 1.0]), 2),
    "scaled by a norm": (lambda: -x * np.sqrt(np.sum(x * x) + 1.0), N),
    "through rows": (lambda: np.sum(y * x, axis=1) * x[::-1], N),
}


def by_differences(result, values, h=1e-6):
    out = np.empty(N)
    for i in range(N):
        step = h * np.eye(N)[i]
        up, down = (evaluate([result], {**values, "x": values["x"] + s})[0] for s in (step, -step))
        out[i] = (up[i] - down[i]) / (2 * h)
    return out


@pytest.mark.parametrize("name", LAWS)
def test_equal_to_differences(name, monkeypatch):
    make, count = LAWS[name]
    result = as_node(make())
    taken = []
    real = law_derivatives.tangents
    monkeypatch.setattr(law_derivatives, "tangents", lambda *a: taken.append(a) or real(*a))
    found = diagonal(result, X)
    rng = np.random.default_rng(3)
    values = {"x": rng.normal(size=N), "y": rng.normal(size=(N, N))}
    wanted = by_differences(result, values)
    assert found is not None and found.shape == (N,)
    assert_allclose(evaluate([found], values)[0], wanted, atol=1e-8)
    assert np.abs(wanted).max() > 0.1
    assert len(taken) == count


def test_none_where_nothing_depends():
    assert diagonal(as_node(np.sign(x) + y[0]), X) is None
    assert diagonal(as_node(np.concatenate([x[1:], x[:1]])), X) is None  # only others
    assert diagonal(ops.constant(np.ones(N)), X) is None


def test_entries_that_belong_to_others():
    """By positions in another order, where some joints have none."""
    result = as_node(np.concatenate([3 * x[4:], x[1:2] ** 2, x[:1], 7 * x[:1], x[2:3]]))
    found = diagonal(result, X, [4, 1, -1, 0, 3])
    assert found is not None
    at = np.arange(5.0)
    assert_allclose(evaluate([found], {"x": at})[0], [3, 2, 0, 7, 0])


def test_terms_that_take_too_many_tangents_are_left_out():
    found = diagonal(as_node(FULL @ x - 3 * x * x), X, most=2)
    assert found is not None
    at = np.arange(5.0)
    assert_allclose(evaluate([found], {"x": at})[0], -6 * at)
    whole = diagonal(as_node(FULL @ x - 3 * x * x), X, most=N)
    assert whole is not None
    assert_allclose(evaluate([whole], {"x": at})[0], np.diag(FULL) - 6 * at)


def test_dependence():
    """What a result can change with, entry by entry; known zeros pass nothing on."""
    assert_array_equal(dependence(as_node(BAND @ x), X), BAND != 0)
    assert_array_equal(dependence(as_node(x @ BAND), X), BAND.T != 0)
    assert dependence(as_node(FULL @ x), X).all()
    assert_array_equal(dependence(as_node(np.sum(x[1:3] * x[0])), X), [[1, 1, 1, 0, 0]])
    assert not dependence(as_node(np.floor(x)), X).any()
