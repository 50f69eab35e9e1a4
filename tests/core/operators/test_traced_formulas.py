"""Formulas are traced as laws are: every function of NumPy on every kind of number."""

from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import model_from_parents

import phipsi as pp
from phipsi.errors import InputError
from phipsi.operators import D, vdot
from phipsi.papers.proofs.digits import DECIMALS, long_decimals

TREE = model_from_parents([-1, 0, 1, 0], 5, ["revolute", "universal", "prismatic", "spherical"])
RNG = np.random.default_rng(3)
Q = TREE.random_configuration(RNG)
RATES, X, U = RNG.normal(size=(3, TREE.nv))
RATES[1] = 0.27

FUNCTIONS = {
    "abs": lambda v: np.abs(v) + abs(v - 0.2),
    "sign": lambda v: np.sign(v) * v,
    "floor": lambda v: np.floor(3 * v) + np.ceil(v) + (2 * v) // 0.7 + v % 0.4 + np.rint(2 * v),
    "remainder": lambda v: v % 0.4 - (1.3 * v) % -0.7 + 2.0 % (3 + v) + (2 * v) // 0.7,
    "sqrt": lambda v: np.sqrt(v * v) + (1 + v**2) ** 0.5,
    "exp": lambda v: np.exp(-v) - np.sinh(v) * np.cosh(0.3 * v),
    "log": lambda v: np.log(1 + v * v),
    "trigonometry": lambda v: np.sin(v) * np.cos(2 * v) + np.tan(0.3 * v),
    "angles": lambda v: np.arctan(v) + np.arctan2(v, 0.5 - v) + np.arctan2(1 + v * v, v),
    "arcs": lambda v: np.arcsin(0.3 * v) * np.arccos(0.2 * v),
    "power": lambda v: (1 + v * v) ** 1.7 + 2.0**v + v**-2 + v**3,
    "limits": lambda v: np.minimum(v, 0.3) + np.maximum(v, v * v) + np.clip(v, -0.5, 0.4),
    "where": lambda v: np.where((v > 0.1) & (v <= 1) | (v < -1), v * v, -v),
    "not": lambda v: np.where(~(v >= 0) & (v != 0.5), 2.0, v),
    "select": lambda v: np.select([v < -0.2, v < 0.5], [v, v * v], 1.0),
    "table": lambda v: pp.laws.table(v, [-1, 0, 1, 2], [0, 1, 3, 2]) + np.interp(v, [0, 1], [0, 2]),
    "cubic": lambda v: pp.laws.table(v, [-1, 0, 1, 2], [0, 1, 3, 2], kind="cubic"),
    "whole": lambda v: v * np.max(v) + np.min(v) * np.linalg.norm(v) + np.mean(v) + v.clip(0, 1),
    "array": lambda v: np.array([x * x for x in v]) + np.sin(np.array([2 * x for x in v])),
    "moves": lambda v: (
        np.diag(np.diag(v))[::-1] + np.cumsum(v) * np.prod(1 + v) + np.trace(np.outer(v, v))
    ),
    "stack": lambda v: np.vstack([v, 2 * v]).sum(0) + np.hstack([v, v])[: len(v)],
}
FORMULAS = {
    name: pp.custom.operator(
        f"F_{name}", "rates -> efforts", lambda v, f=f: np.diag(f(v)), symmetric=True)
    for name, f in FUNCTIONS.items()
}  # fmt: skip
SMOOTH = [n for n in FORMULAS if n not in ("floor", "sign")]
CHANGES = [pp.diff(FORMULAS[n] @ vdot, "v", along="dv") for n in SMOOTH]


def by_hand(f, rates=RATES):
    """The formula on floats, joint by joint."""
    return np.concatenate([f(rates[hinge]) for hinge in TREE.v_slices])


@pytest.fixture(scope="module", params=["reference", "native"])
def values(request):
    program = pp.compile([x @ vdot for x in FORMULAS.values()], TREE, backend=request.param)
    return dict(zip(FORMULAS, program(RATES, X), strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_and_dense_are_the_function(values, name):
    wanted = by_hand(FUNCTIONS[name])
    assert_allclose(values[name], wanted * X, rtol=1e-13, atol=1e-14)
    assert_allclose(np.diag(pp.evaluate_dense(FORMULAS[name], TREE, Q, RATES)), wanted, rtol=1e-13)
    assert not np.allclose(values[name], by_hand(FUNCTIONS[name], RATES[::-1]) * X, atol=1e-3)


@pytest.fixture(scope="module", params=["reference", "native"])
def changes(request):
    program = pp.compile(CHANGES, TREE, backend=request.param)
    return dict(zip(SMOOTH, program(RATES, X, U), strict=True))


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_those_of_the_function(changes, name):
    ahead, behind = (by_hand(FUNCTIONS[name], RATES + e * U) for e in (1e-6, -1e-6))
    assert_allclose(changes[name], (ahead - behind) / 2e-6 * X, rtol=1e-6, atol=1e-7)


def test_complex_steps():
    """Choices are made by real parts, nothing is conjugated."""
    program = pp.compile([FORMULAS[n] @ vdot for n in SMOOTH], TREE, backend="reference")
    steps = dict(zip(SMOOTH, program(RATES + 1e-30j * U, X), strict=True))
    for name, found in zip(SMOOTH, pp.compile(CHANGES, TREE)(RATES, X, U), strict=True):
        assert_allclose(np.imag(steps[name]) / 1e-30, found, rtol=1e-12, atol=1e-12, err_msg=name)


def test_gradients_are_transposed_changes(changes):
    weights = np.linspace(-1, 2, TREE.nv)
    for name in SMOOTH:
        gradient = pp.vjp(FORMULAS[name] @ vdot, TREE, "v", backend="reference")(RATES, X, weights)
        assert_allclose(gradient @ U, changes[name] @ weights, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    "name", ["exp", "log", "remainder", "trigonometry", "angles", "arcs", "power", "cubic"]
)
def test_fifty_digits(name):
    """Long decimals agree with floats, and are no floats themselves."""
    f = FORMULAS[name].row.value.function.program(1)
    with long_decimals():
        at = Decimal("0.3")
        (((found,),),) = [f.run([[[at]]], DECIMALS)]
        (wanted,) = FUNCTIONS[name](np.array([0.3]))
        assert float(found) == pytest.approx(wanted, rel=1e-14)
        assert abs(found - Decimal(wanted)) > 0


def test_symbols():
    sympy = pytest.importorskip("sympy")
    t = sympy.Symbol("t", real=True)
    arm = pp.examples.planar_arm(1)
    for name in ("abs", "limits", "where", "remainder", "arcs", "angles", "power"):
        program = pp.compile(FORMULAS[name], arm, backend="reference")
        found = program(np.array([t], object), np.array([sympy.Integer(1)], object))[0]
        assert float(found.subs(t, 0.3)) == pytest.approx(FUNCTIONS[name](np.array([0.3]))[0])
        assert float(found.subs(t, -1.4)) == pytest.approx(FUNCTIONS[name](np.array([-1.4]))[0])


def test_entries_of_an_argument_may_be_changed_in_the_function():
    def changed(D):
        D[0, 0] = D[0, 0] + 1
        np.fill_diagonal(D, 2 * np.diag(D))
        return D

    U = pp.custom.operator("U_changed", "rates -> efforts", changed)
    found, blocks = pp.evaluate_dense(U, TREE, Q), pp.evaluate_dense(D, TREE, Q)
    for hinge in TREE.v_slices:
        assert_allclose(found[hinge, hinge], changed(blocks[hinge, hinge].copy()), rtol=1e-13)


def test_shared_arrays_cannot_be_changed():
    """np.asarray(x) shares x in NumPy: a change would have to be seen in both."""

    def shared(v):
        part = np.asarray(v)
        part[0] = 1.0
        return np.diag(v)

    with pytest.raises(InputError, match=r"in shared:[^$]*read-only"):
        pp.custom.operator("U_shared", "rates -> efforts", shared)
    same = pp.custom.operator("U_read", "rates -> efforts", lambda v: np.diag(np.asarray(v)))
    assert_allclose(np.diag(pp.evaluate_dense(same, TREE, Q, RATES)), RATES)


# ---- proofs --------------------------------------------------------------------------------------


DRAG = pp.custom.operator(
    "C_drag", "rates -> efforts", lambda v: np.diag(np.abs(v)), symmetric=True
)


def test_what_holds_for_any_blocks_is_proved_exactly():
    f = pp.custom.riccati(J=pp.operators.Jr + DRAG)
    whiten = pp.operators.I - f.H @ f.psi @ f.K
    inverse = (pp.operators.mass_matrix + DRAG).inv
    claim = pp.Identity(inverse, whiten.T @ f.D.inv @ whiten)
    proof = pp.prove(claim)
    assert proof.holds and proof.in_general.method == "exact" and proof.identity is claim
    here = pp.prove(claim, TREE)
    assert here.holds and (here.in_general.method, here.here.method) == ("exact", "50 digits")
    assert not pp.prove(pp.Identity(inverse, pp.operators.mass_matrix.inv)).holds


def test_cases_that_are_not_met_are_not_proved():
    far = pp.custom.operator(
        "C_far", "rates -> efforts", lambda v: np.diag(np.where(v > 1e9, v, 1.0))
    )
    one = pp.custom.operator("C_one", "rates -> efforts", lambda v: np.eye(len(v)))
    for model in (None, TREE):
        with pytest.raises(InputError, match=r"no proof: the formula f_C_far .*less, where"):
            pp.prove(pp.Identity(far, one), model)
    assert pp.prove(pp.Identity(far, far), TREE).holds
    assert pp.prove(pp.Identity(far, one), TREE, Q, RATES).holds
    assert not pp.prove(pp.Identity(far, 2 * one)).holds
    half = pp.custom.operator(
        "C_half", "rates -> efforts", lambda v: np.diag(np.where(v > 0, 2.0, 1.0))
    )
    assert not pp.prove(pp.Identity(half, one)).holds
