"""Inverses of indefinite operators by elimination: right, or an error where digits are lost."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import SingularMatrixError
from phipsi.operators import mass_matrix

ARM = pp.examples.planar_arm(2)
Q, X = np.array([0.3, 0.4]), np.array([1.0, 1.0])
LAST = pp.mass_matrix(ARM, Q)[1, 1]
"""The pivot of the last body without a further term."""


def negative(number):
    """ℳ + K, and its matrix; the last pivot is LAST + number."""
    K = pp.custom.operator("K_q", "rates -> efforts", number, symmetric=True)
    return mass_matrix + K, pp.mass_matrix(ARM, Q) + number * np.eye(2)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("off", [0.0, 1e-15, -1e-15, 1e-12, 1e-10])
def test_a_pivot_without_digits_is_an_error(backend, off):
    form, matrix = negative(off - LAST)
    assert np.linalg.cond(matrix) < 11  # the matrix itself is regular
    program = pp.compile(form.inv, ARM, backend=backend)
    with pytest.raises(SingularMatrixError, match=r"body 'link2'.*\n.*\nX = .* \+ K_q is indef"):
        program(Q, X)
    _, status = program(Q, X, on_error="nan")
    assert status
    dense = pp.evaluate_dense(form.inv, ARM, Q)  # the line of the message
    assert np.allclose(dense @ matrix, np.eye(2), rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("off", [1e-6, -1e-6, 1e-3, -1.0, -50.0])
def test_indefinite_operators_are_inverted_where_the_pivots_have_digits(backend, off):
    form, matrix = negative(off - LAST)
    found = pp.compile(form.inv, ARM, backend=backend)(Q, X)
    exact = np.linalg.solve(matrix, X)
    # rounding of the entries, divided by the pivot
    assert np.allclose(found, exact, rtol=0, atol=32 * 2.2e-16 * max(1.0, 1 / abs(off)))
    assert not np.allclose(found, 1.001 * exact, rtol=0, atol=1e-6)


def test_pivots_are_compared_in_their_own_direction():
    """Of a joint with two rates, one with a large term and one with none."""
    builder = pp.ModelBuilder()
    joint = pp.joints.Planar((1, 0, 0), (0, 1, 0))
    builder.add_body("slab", joint=joint, inertia=pp.SpatialInertia.box((0.1, 0.2, 0.3), mass=1.0))
    model = builder.build()
    blocks = [np.diag([-1e12, 0.0, 0.0])]
    stiff = pp.custom.operator("K_s", "rates -> efforts", blocks, symmetric=True)
    q = model.neutral()
    matrix = pp.mass_matrix(model, q) + np.diag([-1e12, 0.0, 0.0])
    for backend in ("native", "reference"):
        found = pp.compile((mass_matrix + stiff).inv, model, backend=backend)(q, np.ones(3))
        assert np.allclose(found, np.linalg.solve(matrix, np.ones(3)), rtol=1e-14, atol=0)
