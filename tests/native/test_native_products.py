"""Products of matrices with known zeros, and sweeps that only bodies with points need."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from random_models import random_tree

import phipsi as pp
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_operators,
    inverse_dynamics_operators,
)
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS_FD3
from phipsi.core.backends.reference import evaluate
from phipsi.core.calculus.directional import substitute
from phipsi.core.sweeps.ir import StepKind
from phipsi.core.sweeps.request import fields_of
from phipsi.native import pipeline
from phipsi.native.kernel.phases import carriers, for_points_only
from phipsi.native.matrices.tiles import meeting_table, tile_shape
from phipsi.operators import A, J, Lambda, V, as_matrix, mass_matrix, v, vdot as vdot_leaf

# which entries meet is in tables and text; `make fuzz` has all of this optimised
pytestmark = pytest.mark.quick_code


def product_from_table(table, number, a, b, shape, unit):
    """A B as the loops compute it: every tile from the entries that its part of the table names."""
    n, (height, width) = len(a), shape
    out = np.full((n, n), np.nan)
    tile = table[number]
    for j in range(0, n, width):
        for i in range(0, n, height):
            i0, j0 = min(i, n - height), max(min(j, n - width), 0)
            pairs = table[table[tile] : table[tile + 1]].reshape(-1, 2)
            t = pairs[:, 0] // unit
            assert_array_equal(pairs[:, 1], t * n * unit)
            rows, columns = slice(i0, i0 + height), slice(j0, j0 + width)
            out[rows, columns] = a[rows, t] @ b[t, columns]
            tile += 1
    return out


@pytest.mark.parametrize("n", [1, 3, 4, 7, 35])
@pytest.mark.parametrize("together", [1, 4])
def test_the_table_names_all_entries_that_meet(n, together):
    rng = np.random.default_rng(n)
    factors = [rng.standard_normal((2, n, n)) * (rng.random((2, n, n)) < 0.3) for _ in range(2)]
    shape = tile_shape(n, 16, together)
    table = meeting_table([(a != 0, b != 0) for a, b in factors], shape, 32)
    for number, (a, b) in enumerate(factors):
        found = product_from_table(table, number, a, b, shape, 32)
        assert_allclose(found, a @ b, rtol=0, atol=1e-14)
    if n == 35:  # entries that are missing from the table are missing from the product
        fewer = factors[0][0] != 0
        fewer[:, 7] = False
        table = meeting_table([(fewer, factors[0][1] != 0)], shape, 32)
        a, b = factors[0]
        assert np.abs(product_from_table(table, 0, a, b, shape, 32) - a @ b).max() > 0.1


@pytest.mark.parametrize("few", [True, False])
def test_whitened_derivatives_are_products_with_the_inverse(few):
    """−(C* D⁻¹) (C ∂τ) in one lane and in groups, against −ℳ⁻¹ ∂τ by NumPy."""
    rng = np.random.default_rng(1)
    model = pp.examples.planar_arm(3) if few else random_tree(rng, 6, n_roots=2)
    q = model.random_configuration(rng, (9,))
    rates, tau = rng.standard_normal((2, 9, model.nv))
    program = pp.compile(forward_dynamics_operators(False), model, mode="dense", backend="native")
    assert program.backend == "native"
    found = program(q, rates, tau)
    vdot = pp.forward_dynamics(model, q, rates, tau)
    efforts = pp.inverse_dynamics_derivatives(model, q, rates, vdot)
    for by, of in zip(found, (*efforts[:2], -np.eye(model.nv)), strict=True):
        wanted = -np.linalg.solve(efforts.by_vdot, np.broadcast_to(of, by.shape))
        assert_allclose(by, wanted, rtol=0, atol=1e-10 * (1 + np.abs(wanted).max()))
    for one, many in zip(program(q[4], rates[4], tau[4]), found, strict=True):
        assert_array_equal(one, many[4])


def test_left_factors_need_not_be_results_nor_have_zeros():
    """ℳ⁻¹ ∂τ/∂v alone: ℳ⁻¹ is nobody's result, and full."""
    rng = np.random.default_rng(3)
    model = pp.examples.seven_joint_arm()
    by_v = substitute(inverse_dynamics_operators(False)[1], {vdot_leaf: FORWARD_DYNAMICS_FD3})
    program = pp.compile(
        as_matrix(mass_matrix.inv) @ as_matrix(by_v), model, mode="dense", backend="native"
    )
    assert program.backend == "native"
    q = model.random_configuration(rng, (5,))
    rates, tau = rng.standard_normal((2, 5, model.nv))
    values = {"q": q, "v": rates, "tau": tau}
    found = program(*(values[name] for name in program.inputs))
    wanted = -pp.forward_dynamics_derivatives(model, q, rates, tau).by_v
    assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())


# ---- sweeps for points -------------------------------------------------------------------------


def impulses_at_a_foot():
    """A quadruped with one foot on the ground: its change of rates as the foot is stopped."""
    model = pp.examples.quadruped()
    tip = max(range(model.n_bodies), key=lambda k: model.tree.depth[k])
    foot = pp.constraints.Spherical(name="foot", a=model.body_names[tip], b="world")
    impulses = (A @ Lambda @ A.T).inv @ (A @ J @ v)
    change = mass_matrix.inv @ J.T @ A.T @ impulses
    return pp.compile(change, pp.System(model, [foot]), backend="native"), tip


@pytest.fixture(scope="module")
def held():
    """The program, the body of the foot, and arguments."""
    program, tip = impulses_at_a_foot()
    rng = np.random.default_rng(0)
    model = program.source.model
    return program, tip, model.random_configuration(rng, (9,)), rng.standard_normal((9, model.nv))


def restricted(unit):
    return for_points_only(unit.phases, fields_of(unit.results))


def test_sweeps_for_points_visit_the_bodies_that_carry_them(held):
    program, tip, q, rates = held
    unit, _ = pipeline.plan_native(program.source)
    found, k = [], tip
    while k >= 0:
        found.append(k)
        k = unit.program.model.parent[k]
    assert_array_equal(unit.carriers, sorted(found))
    steps = restricted(unit)
    assert steps and all(s.kind is StepKind.BASE_TO_TIP for s in steps)
    assert_allclose(program(q, rates)[3], program(q[3], rates[3]), rtol=0, atol=0)
    wanted, failures = evaluate(program.source, {"q": q, "v": rates}, (9,))
    assert not failures
    assert_allclose(program(q, rates), wanted[0], rtol=0, atol=1e-10 * np.abs(wanted[0]).max())


def test_a_body_that_is_left_out_is_missed(held, monkeypatch):
    """A twin without the foot itself in the table must go wrong."""
    program, _, q, rates = held
    wanted = program(q[0], rates[0])
    monkeypatch.setattr(pipeline, "carriers", lambda *about: carriers(*about)[:-1])
    twin, _ = impulses_at_a_foot()
    found, _ = twin(q[0], rates[0], on_error="nan")
    assert not np.allclose(found, wanted)


def test_results_of_bodies_are_computed_everywhere():
    """V and its like: no sweep of a program without points may be cut short."""
    model = pp.examples.quadruped()
    for expression, mode in ((V, "apply"), (mass_matrix.inv, "dense"), (J @ v, "apply")):
        points = [(model.body_names[-1], (0, 0, 0))] if expression is not V else []
        program = pp.compile(expression, model, mode=mode, points=points, backend="native")
        unit, _ = pipeline.plan_native(program.source)
        assert bool(restricted(unit)) == (mode == "apply" and expression is not V)
