"""The identities of the papers with blocks of 6 + n: they hold as they are printed.

Both sides as full matrices (`pp.evaluate_dense`), whose formulas share nothing with the sweeps. The
shift and its weight, the gauge between two pairs (a, b) and cross products are of rigid bodies.
"""

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.core.rewrite.identity import unmet
from phipsi.operators import (
    B,
    H,
    M,
    Omega,
    P,
    R,
    Upsilon,
    a,
    b,
    f0,
    gravity,
    mass_matrix,
    phi,
    vdot,
)
from phipsi.papers.theorems import identities, identity_named

TREE = random_flexible_tree(11, bodies=4, modes=(2, 0, 1, 2))
MODEL = TREE.build()
POINTS = [MODEL.body_names[-1], MODEL.body_names[0]]
_RNG = np.random.default_rng(0)
Q, RATES = TREE.random_state(_RNG)
NUMBERS = {
    "v": RATES,
    "vdot": _RNG.normal(size=MODEL.nv),
    "f0": _RNG.normal(size=(2, 6)),
    "free": np.ones(MODEL.nv),
}
NUMBERS["tau"] = pp.evaluate_dense(
    mass_matrix @ vdot + H @ phi @ (M @ phi.T @ (a + gravity) + b + B @ f0), MODEL, Q,
    points=POINTS, **{name: NUMBERS[name] for name in ("v", "vdot", "f0")},
)  # fmt: skip
NUMBERS["f_ext"] = np.zeros((MODEL.n_bodies, 6))


def sides(identity):
    return [
        pp.evaluate_dense(x, MODEL, Q, points=POINTS, **NUMBERS)
        for x in (identity.lhs, identity.rhs)
    ]


def test_the_identities_of_the_papers_hold():
    held, of_rigid_bodies = 0, 0
    for identity in identities():
        if identity.lhs is None or identity.rhs is None or unmet(identity.condition, MODEL):
            continue
        try:
            left, right = sides(identity)
        except pp.errors.LoweringError as error:
            assert "known for rigid bodies only" in str(error)
            of_rigid_bodies += 1
        except pp.errors.InputError:
            assert identity.name == "gauge freedom"  # about any x
        else:
            size = max(1.0, np.abs(right).max(initial=0.0))
            assert_allclose(left, right, atol=1e-8 * size, err_msg=identity.name)
            held += 1
    assert held >= 190 and of_rigid_bodies <= 55


def test_a_false_one_does_not():
    wrong = pp.Identity("H psi G", "I + H psi K")
    left, right = (pp.evaluate_dense(x, MODEL, Q) for x in (wrong.lhs, wrong.rhs))
    assert np.abs(left - right).max() > 1e-3
    assert identity_named("D^1/2") is not None


@pytest.mark.parametrize("operator", [Omega, R, P, Upsilon, phi], ids=str)
def test_sweeps_give_the_same_matrices(operator):
    program = pp.compile(operator, MODEL, mode="dense", backend="reference")
    assert_allclose(program(Q), pp.evaluate_dense(operator, MODEL, Q), atol=1e-10)


def test_order_and_axes():
    forward = pp.evaluate_dense(phi, MODEL, Q)
    assert_allclose(np.triu(forward), forward)
    assert_allclose(
        np.tril(pp.evaluate_dense(phi, MODEL, Q, order="tip_to_base")).sum(), forward.sum()
    )
    turned = pp.evaluate_dense(M, MODEL, Q, axes="inertial")
    assert_allclose(np.linalg.eigvalsh(turned), np.linalg.eigvalsh(pp.evaluate_dense(M, MODEL, Q)))
