"""An operation that is only a row: it is scheduled, printed and run by every backend."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import random_tree

import phipsi as pp
from phipsi.core import compiler
from phipsi.core.sweeps import cheapest_plan as plans
from phipsi.core.sweeps.entries import cross, dot, mul
from phipsi.core.sweeps.ir import Field, Operation
from phipsi.operators import V

pytestmark = pytest.mark.usefixtures("full_effort")  # machine code as users get it

TRIAL = Operation(
    "trial", "[sin(ω · v) ω; 2 ω × v]", rows="6", cols="1", cost=20, form="trial({0~})",
    body=lambda a, x: trial(a, a.column(x.args[0])),
)  # fmt: skip


def trial(a, u):
    factor = a.sin(dot(u[:3], u[3:]))
    top = [mul(factor, c) for c in u[:3]]
    return a.dense([[c] for c in top + [mul(2, c) for c in cross(u[:3], u[3:])]])


@pytest.fixture
def with_trial(monkeypatch, tmp_path):
    """Programs return trial(x) instead of x."""
    monkeypatch.setenv("PHIPSI_CACHE", str(tmp_path))
    lower = plans.lower_request

    def lowered(*args, **options):
        found = lower(*args, **options)
        made = [Field(TRIAL, (r.field,), None, r.field.type, 10**6 + i)
                for i, r in enumerate(found.results)]  # fmt: skip
        results = tuple(replace(r, field=x) for r, x in zip(found.results, made, strict=True))
        return replace(found, results=results)

    for place in (compiler, plans):
        monkeypatch.setattr(place, "lower_request", lowered)
    monkeypatch.setattr(plans, "_KNOWN", OrderedDict())  # neither found nor left for others


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_row_is_all_that_an_operation_needs(backend, with_trial):
    model = random_tree(2, 6, ["revolute", "free", "prismatic"])
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(rng, (9,)), rng.standard_normal((9, model.nv))
    program = pp.compile(V, model, backend=backend)
    assert program.backend == backend
    found = program(q, v)
    for i in range(9):
        u = pp.evaluate_dense(V, model, q[i], v[i]).reshape(-1, 6)
        w, s = u[:, :3], u[:, 3:]
        top = np.sin((w * s).sum(-1))[:, None] * w
        wanted = np.concatenate([top, 2 * np.cross(w, s)], -1)
        assert_allclose(found[i], wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
        assert_allclose(program(q[i], v[i]), found[i], rtol=0, atol=1e-14 * np.abs(wanted).max())


def test_it_is_explained(with_trial):
    text = str(pp.explain(V))
    assert "trial(" in text
    assert "flops" in text
