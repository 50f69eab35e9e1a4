"""What is kept of a body from sweep to sweep, and that moving work changes no bit of a result."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import random_tree

import phipsi as pp
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_operators,
    inverse_dynamics_operators,
)
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from phipsi.core.expressions.node import Expr
from phipsi.examples import planar_arm, seven_joint_arm
from phipsi.native import pipeline


def kept(expr: Expr) -> list[str]:
    """The operations whose values are in the records of the bodies, besides sums."""
    native = pp.compile(expr, planar_arm(3), backend="native").native
    assert native is not None
    return sorted(x.op for x in native.unit.plan.body)


def test_inverse_dynamics_keeps_what_children_need():
    # V and α, which are sums, the transform, and the hinge axes, of which nothing is unknown;
    # V ×* M V and M α are made where the forces are added
    assert kept(INVERSE_DYNAMICS) == ["add", "add", "hinge_axes", "transform"]


def test_forward_dynamics_makes_cheap_terms_twice():
    # V, the accelerations, G and the effort that is left; neither V × H* v nor gravity at roots
    assert kept(FORWARD_DYNAMICS) == ["add", "add", "hinge_axes", "mul", "mul", "transform"]


def test_transposes_and_multiples_are_where_the_values_are():
    # a view that stays behind would keep a place for what it shows
    expr = forward_dynamics_operators()
    native = pp.compile(expr, planar_arm(3), mode="dense", backend="native").native
    assert native is not None
    steps = [step.fields for phase in native.unit.phases for step in phase.steps]
    moved = {x for fields in steps for x in fields if x.op == "dHT" and len(x.args) == 2}
    assert moved
    assert not moved & set(native.unit.plan.body)


def test_what_drives_add_to_b_stays_before_articulated_inertias():
    # there no registers are left for it; where forces alone are added up, it is made there
    arm = seven_joint_arm()
    wrist = {"joint": arm.joint_names[4], "ratio": 30.0, "moment": 1e-4, "axis": (0.6, 0, 0.8)}
    arm = arm.with_rotor("m", **wrist)
    for expr, stays in ((FORWARD_DYNAMICS, True), (INVERSE_DYNAMICS, False)):
        native = pp.compile(expr, arm, backend="native").native
        assert native is not None
        assert ("coupling_force" in {x.op for x in native.unit.plan.body}) == stays


@pytest.mark.quick_code  # work is moved in the text, before LLVM
@pytest.mark.parametrize(
    "exprs, mode",
    [
        (INVERSE_DYNAMICS, "apply"),
        (FORWARD_DYNAMICS, "apply"),
        (inverse_dynamics_operators(), "dense"),
        (forward_dynamics_operators(), "dense"),
    ],
    ids=("inverse", "forward", "inverse derivatives", "forward derivatives"),
)
def test_results_are_the_same_bits(monkeypatch: pytest.MonkeyPatch, exprs, mode):
    kinds = ("revolute", "free", "universal", "prismatic")
    model, same = (random_tree(7, 9, kinds, n_roots=2) for _ in range(2))
    rng = np.random.default_rng(8)
    q = model.random_configuration(rng, 11)
    args = (q, rng.normal(size=(11, model.nv)), rng.normal(size=(11, model.nv)))
    late = pp.compile(exprs, model, mode=mode, backend="native")
    found = late(*args)
    monkeypatch.setattr(pipeline, "rematerialise", lambda phases, results: phases)
    early = pp.compile(exprs, same, mode=mode, backend="native")
    expected = early(*args)
    np.testing.assert_array_equal(np.array(found), np.array(expected))
    assert late.native is not None and early.native is not None
    assert len(late.native.unit.plan.body) < len(early.native.unit.plan.body)
