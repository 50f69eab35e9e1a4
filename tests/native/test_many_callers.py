"""Threads of the caller: the first calls of programs may happen all at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import phipsi as pp

CALLERS, ROUNDS = 6, 12


@pytest.mark.quick_code
def test_threads_that_compile_and_call_the_same_programs(monkeypatch: pytest.MonkeyPatch):
    """Each finds what it would find alone; on free-threaded Python they run at the same time."""
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    arms = [pp.examples.planar_arm(n) for n in (2, 3)]
    failures: list[BaseException] = []
    start = threading.Barrier(CALLERS)

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            start.wait()
            for _ in range(ROUNDS):
                arm = arms[rng.integers(len(arms))]
                q, v, tau = rng.normal(size=(3, 5, arm.nv))
                vdot = pp.forward_dynamics(arm, q, v, tau)
                np.testing.assert_allclose(pp.inverse_dynamics(arm, q, v, vdot), tau, atol=1e-9)
                product = pp.compile("H @ phi @ M @ phi.T @ H.T", arm)(q[0], tau[0])
                np.testing.assert_allclose(pp.mass_matrix(arm, q[0]) @ tau[0], product, atol=1e-12)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
