"""Derivatives of constrained accelerations against complex-step differences of the solution."""

import numpy as np
import pytest
from amounts import seeds
from comparers import close
from known_systems import pinned_arm
from numpy.testing import assert_allclose
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import forward_with_rows

STEP = 1e-30


@pytest.mark.parametrize("seed", seeds(6))
def test_derivatives_agree_with_complex_steps(seed):
    """The whole solution is analytic in q, v and tau where the rows are independent."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:3]]
    system, q = random_system(seed, 6, kinds, independent=True)
    model = system.model
    v, tau = admissible(system, q, rng), rng.standard_normal(model.nv)
    found = pp.forward_dynamics_derivatives(system, q, v, tau)
    program = pp.compile(forward_with_rows(None, False, False), system, backend="reference")
    eye = 1j * STEP * np.eye(model.nv)
    steps = [
        (q + 1j * STEP * model.qdot(q, np.eye(model.nv)), v, tau),
        (q, v + eye, tau),
        (q, v, tau + eye),
    ]
    for mine, state in zip(found, steps, strict=True):
        wanted = np.imag(program(*state)[0]).T / STEP
        close(mine, wanted, 1e-9)


def test_batches_and_redundant_rows():
    system = pinned_arm()
    q = system.assemble([1.0, -1.0, -1.5])
    rng = np.random.default_rng(0)
    v = np.array([admissible(system, q, rng) for _ in range(4)])
    together = pp.forward_dynamics_derivatives(system, q, v, np.zeros(3))
    for i in range(4):
        alone = pp.forward_dynamics_derivatives(system, q, v[i], np.zeros(3))
        for a, b in zip(together, alone, strict=True):
            assert_allclose(a[i], b, rtol=1e-12, atol=1e-12)
    # one degree of freedom: the accelerations lie along the one admissible motion
    motion = np.linalg.svd(system.jacobian(q))[2][-1]
    by_tau = together[2][0]
    assert_allclose(by_tau, by_tau.T, atol=1e-12)
    assert_allclose(by_tau - np.outer(motion, motion) @ by_tau, 0, atol=1e-9 * np.abs(by_tau).max())
