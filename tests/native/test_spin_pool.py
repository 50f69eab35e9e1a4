"""Threads in machine code: the same bits, whoever runs them, awake or asleep."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from random_models import random_tree

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.native.calls import spin_pool
from phipsi.native.calls.direct_call import address_of
from phipsi.native.calls.spin_pool import WorkerPool, tasks_of
from phipsi.operators import mass_matrix

MODEL = random_tree(3, 12)
PROGRAM = pp.compile(FORWARD_DYNAMICS, MODEL, backend="native")


def states(count: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    q = np.array([MODEL.random_configuration(rng) for _ in range(count)]).reshape(count, MODEL.nq)
    return q, rng.standard_normal((count, MODEL.nv)), rng.standard_normal((count, MODEL.nv))


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("count", [2, 17, 64, 501])
def test_threads_give_the_same_bits(count: int, threads: int):
    at = states(count)
    np.testing.assert_array_equal(PROGRAM(*at, threads=threads), PROGRAM(*at))


def test_matrices_too():
    q, _, _ = states(83)
    program = pp.compile(mass_matrix, MODEL, mode="dense", backend="native")
    np.testing.assert_array_equal(program(q, threads=2), program(q))


def test_strides_are_kept():
    q, v, tau = states(200)
    wide = np.zeros((200, 2 * MODEL.nv))
    wide[:, ::2] = v
    at = (q[::-1], wide[:, ::2], np.asfortranarray(tau))
    np.testing.assert_array_equal(PROGRAM(*at, threads=2), PROGRAM(*at))


def test_whole_numbers_are_converted():
    q, v, tau = states(40)
    at = (q, np.round(v).astype(np.int64), tau.astype(np.float32))
    np.testing.assert_array_equal(PROGRAM(*at, threads=2), PROGRAM(*at))


def test_sleepers_are_woken():
    at = states(64)
    want = PROGRAM(*at)
    for pause in (0.0, 0.05, 0.0, 0.3):
        time.sleep(pause)
        np.testing.assert_array_equal(PROGRAM(*at, threads=3), want)


def test_callers_at_the_same_time_do_not_mix():
    wrong: list[int] = []

    def call(seed: int) -> None:
        at = states(96, seed)
        want = PROGRAM(*at)
        for _ in range(40):
            if not np.array_equal(PROGRAM(*at, threads=2), want):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_busy_pool_does_nothing():
    mine = WorkerPool()
    taken = mine._memory[0]  # type: ignore[attr-defined]
    taken[spin_pool._TAKEN] = 1  # type: ignore[attr-defined]
    assert mine.busy
    at = states(16)
    native = PROGRAM.native
    assert native is not None
    out, status = np.full((16, MODEL.nv), np.nan), np.zeros(16, dtype=np.int64)
    sizes = list(dict.fromkeys(size for shape in native.shapes for size in shape))
    loop, data = native.code.address("phipsi_loop"), native.data.ctypes.data
    pieces = [slice(0, 8), slice(8, 16)]
    arrays = [*at, out, status]
    strides = [a.strides for a in arrays]
    addresses = [address_of(a) for a in arrays]
    tasks = tasks_of(loop, data, sizes, addresses, strides, pieces)
    assert mine.run(tasks) is None
    assert np.isnan(out).all()
    taken[spin_pool._TAKEN] = 0  # type: ignore[attr-defined]
    assert mine.run(tasks) is True
    assert not mine.busy
    np.testing.assert_array_equal(out, PROGRAM(*at))


def test_failures_are_found_in_every_part():
    q, v, tau = states(64)
    tau[61, 0] = np.nan
    with pytest.raises(pp.errors.PhipsiError, match=r"element \[61\]"):
        PROGRAM(q, v, tau, threads=2)
    result, status = PROGRAM(q, v, tau, threads=2, on_error="nan")
    assert np.flatnonzero(status).tolist() == [61]
    assert np.isnan(result[61]).all() and np.isfinite(result[:61]).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_a_pool_of_its_own():
    at = states(64)
    want = PROGRAM(*at, threads=2)
    old = list(spin_pool._pools)  # type: ignore[attr-defined]
    child = os.fork()
    if child == 0:
        good = np.array_equal(PROGRAM(*at, threads=2), want)
        good &= not any(c in old for c in spin_pool._pools)  # type: ignore[attr-defined]
        os._exit(0 if good else 1)
    _, code = os.waitpid(child, 0)
    assert code == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_process_may_fork_while_llvm_is_locked():
    """Code that is there runs without LLVM, whose lock a thread of the parent may hold."""
    from llvmlite.binding import ffi

    at = states(48)  # of a size that has not been shared before
    want = PROGRAM(*at)
    PROGRAM(*states(32), threads=2)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ffi.lib._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if np.array_equal(PROGRAM(*at, threads=2), want) else 1)
    done.set()
    holder.join()
    _, code = os.waitpid(child, 0)
    assert code == 0
