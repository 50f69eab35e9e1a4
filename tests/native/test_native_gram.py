"""C* S C from the columns of C: which programs are made so, and that the numbers stay the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import random_tree

import phipsi as pp
from phipsi.core.backends.reference import evaluate
from phipsi.operators import mass_matrix


def uses_gram(program) -> bool:
    return any(x.op == "gram" for step in program.steps for x in step.fields)


@pytest.mark.parametrize("n_roots", [1, 3])
def test_shallow_trees_use_squares(n_roots):
    rng = np.random.default_rng(n_roots)
    model = random_tree(rng, 5 + n_roots, n_roots=n_roots)
    q = model.random_configuration(rng, (9,))
    native = pp.compile(mass_matrix.inv, model, mode="dense", backend="native")
    assert native.backend == "native" and uses_gram(native)
    found = native(q)
    wanted = np.linalg.inv(pp.mass_matrix(model, q))
    assert_allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())
    np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
    np.testing.assert_array_equal(native(q[4]), found[4])


def test_long_chains_do_not():
    chain = pp.examples.planar_arm(120)
    native = pp.compile(mass_matrix.inv, chain, mode="dense", backend="native")
    assert not uses_gram(native)
    q = chain.random_configuration(0)
    wanted = pp.compile(mass_matrix.inv, chain, mode="dense", backend="reference")(q)
    assert_allclose(native(q), wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())


def test_the_reference_defines_the_operation():
    """The same lowered program on the reference backend."""
    model = random_tree(np.random.default_rng(7), 5)
    q = model.random_configuration(1)
    native = pp.compile(mass_matrix.inv, model, mode="dense", backend="native")
    results, failures = evaluate(native.source, {"q": q}, ())
    assert not failures
    assert_allclose(results[0], native(q), rtol=0, atol=1e-12 * np.abs(results[0]).max())
