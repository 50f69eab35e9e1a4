"""Every kind of number computes every operation of the table, and formulas that ask it."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from phipsi.core.arrays.law_operations import OPERATIONS, input
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.scalar_nodes import ScalarGraph, ScalarNodeOps, Undecided
from phipsi.core.arrays.trace import Tracer
from phipsi.core.arrays.traced_numbers import TRACED
from phipsi.core.backends.array_algebra import OBJECTS
from phipsi.core.model.dual import Dual, DualOps
from phipsi.core.spatial.exponential_coefficients import sinc
from phipsi.core.spatial.number_kinds import ARRAYS, FLOATS, ON_ARRAYS
from phipsi.papers.proofs.digits import DECIMALS, long_decimals
from phipsi.papers.proofs.residues import field

NAMES = [name for name, row in OPERATIONS.items() if row.is_entrywise and name != "curve"]
POINTS = [(0.7, 0.3, -0.4), (0.2, 0.9, 0.5), (0.6, 0.6, 1.5)]


def on_traced(name, xs):
    """An operation on traced values, evaluated."""
    nodes = [input(str(i), ()) for i in range(len(xs))]
    found = TRACED.entrywise(name, [Tracer(x) for x in nodes])
    return evaluate([found.node], {str(i): np.array(x) for i, x in enumerate(xs)})[0]


def on_decimals(name, xs):
    """An operation on decimals, as a float."""
    with long_decimals():
        return float(DECIMALS.entrywise(name, [DECIMALS.number(x) for x in xs]))


def on_symbols(name, xs):
    """An operation on SymPy's numbers, as a float."""
    sympy = pytest.importorskip("sympy")
    return float(OBJECTS.entrywise(name, [np.array(sympy.Rational(x), object) for x in xs]))


KINDS = {
    "floats": FLOATS.entrywise, "objects": OBJECTS.entrywise, "decimals": on_decimals,
    "traced": on_traced, "symbols": on_symbols,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_computes_every_operation(name, kind):
    arity = OPERATIONS[name].text.count("{")
    for point in POINTS:
        xs = point[:arity]
        assert_allclose(KINDS[kind](name, xs), ARRAYS.entrywise(name, xs), rtol=1e-14)


def test_the_table_and_its_values_have_the_same_names():
    assert NAMES == [name for name in OPERATIONS if name in ON_ARRAYS]


@pytest.mark.parametrize("x", [0.3, 1.7])
def test_a_series_or_a_closed_form(x):
    """Below and above where the coefficients of exponential maps change their formula."""
    node = input("x", ())
    traced = evaluate([sinc(Tracer(node), TRACED).node], {"x": np.array(x)})[0]
    by_arrays = sinc(np.array([x]), ARRAYS)[0]
    wanted = np.sin(np.sqrt(x)) / np.sqrt(x)
    assert_allclose([sinc(x, FLOATS), by_arrays, traced], wanted, rtol=1e-15)


def test_dual_numbers_differentiate():
    ops = DualOps(FLOATS)
    found = ops.sin(Dual(0.3, 2.0)) * ops.sqrt(Dual(0.5, -1.0)) + ops.number(Fraction(1, 4))
    assert_allclose(found.value, np.sin(0.3) * np.sqrt(0.5) + 0.25)
    slope = 2 * np.cos(0.3) * np.sqrt(0.5) - np.sin(0.3) / (2 * np.sqrt(0.5))
    assert_allclose(found.rate, slope)
    with pytest.raises(TypeError, match="exp of dual numbers"):
        ops.entrywise("exp", [Dual(0.3, 2.0)])


def test_residues_have_points_of_the_circle():
    kind = field(2**31 - 1)
    (x,) = kind.of(np.array([5.0])).scalars()
    one = kind.ops.sin(x) * kind.ops.sin(x) + kind.ops.cos(x) * kind.ops.cos(x)
    assert one.value == 1


def test_nodes_without_choices():
    (x,) = ScalarGraph().inputs("x", (1,))
    ops = ScalarNodeOps()
    assert ops.sin(x) is ops.sin(x)
    assert ops.cos(x).operation is OPERATIONS["cos"]
    with pytest.raises(Undecided):
        ops.less(x, 1.0)
