"""Chains of thousands of bodies: no recursion limit, work and memory linear in the length."""

import tracemalloc

import numpy as np
import pytest
from amounts import ALL

import phipsi as pp
from phipsi.examples import planar_arm

LONG = 10_000 if ALL else 4_000


def state(n: int):
    """A nearly straight chain that moves slowly."""
    rng = np.random.default_rng(n)
    return 0.01 * rng.uniform(-1, 1, n), 0.01 * rng.standard_normal(n), rng.standard_normal(n)


@pytest.fixture(scope="module")
def chain():
    return planar_arm(LONG)


@pytest.mark.usefixtures("machine_code")
def test_forward_and_inverse_dynamics(chain):
    q, v, tau = state(LONG)
    vdot = pp.forward_dynamics(chain, q, v, tau)
    back = pp.inverse_dynamics(chain, q, v, vdot)
    weight = np.abs(pp.gravity_forces(chain, q)).max()  # the size of what has to cancel
    assert np.abs(back - tau).max() < 1e-11 * weight


def test_kinematics_and_energy(chain):
    q, v, _ = state(LONG)
    tip = pp.poses(chain, q, ["tip"])[0, :3, 3]
    angles = np.cumsum(q)
    expected = [np.cos(angles).sum(), np.sin(angles).sum(), 0]
    np.testing.assert_allclose(tip, expected, rtol=1e-10, atol=1e-8)
    rates = np.cumsum(v)
    V = pp.velocities(chain, q, v)
    np.testing.assert_allclose(V[:, 2], rates, rtol=1e-10, atol=1e-10)
    middles = np.cumsum(np.sin(angles)) - np.sin(angles) / 2
    np.testing.assert_allclose(pp.potential_energy(chain, q), 9.81 * middles.sum(), rtol=1e-9)


@pytest.mark.parametrize("algorithm", [None, "FD4"])
def test_memory_is_linear_in_the_number_of_bodies(algorithm):
    """Twice the bodies need twice the memory; a dense or pairwise method would need four times."""
    peaks = []
    for n in (300, 600):
        model = planar_arm(n)
        q, v, tau = state(n)
        pp.forward_dynamics(model, q, v, tau, algorithm=algorithm)  # compile first
        tracemalloc.start()
        pp.forward_dynamics(model, q, v, tau, algorithm=algorithm)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.3 * peaks[0]


def test_work_is_linear_in_the_number_of_bodies(monkeypatch):
    """The number of block operations, counted, doubles with the number of bodies."""
    counts = []
    for n in (50, 100, 200):
        calls = 0
        matmul = np.matmul

        def counted(*args, **named):
            nonlocal calls
            calls += 1
            return matmul(*args, **named)  # noqa: B023

        model = planar_arm(n)
        q, v, tau = state(n)
        with monkeypatch.context() as patch:
            patch.setattr(np, "matmul", counted)
            pp.forward_dynamics(model, q, v, tau)
        counts.append(calls)
    assert counts[0] > 50
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])
