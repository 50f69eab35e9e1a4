"""Ctrl-C, or an exception set by another thread, during calls that threads share."""

from __future__ import annotations

import ctypes
import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.core.backends.batch_threads import run_together
from phipsi.native.calls import spin_pool

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_interrupts.py"
RANG = threading.Event()
"""An alarm did."""
posix = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")


@pytest.fixture
def alarm() -> Iterator[None]:
    """Alarms raise KeyboardInterrupt."""

    def interrupt(*_: object) -> None:
        RANG.set()
        raise KeyboardInterrupt

    RANG.clear()

    old = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


@pytest.mark.skipif(sys.platform != "linux", reason="protected pages as on Linux")
def test_random_interrupts_under_guard_allocations():
    """A short part of the recorded run; see docs/robustness.md."""
    command = [sys.executable, str(SCRIPT), "--interrupts", "120", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout
    assert "120 interrupts" in done.stdout and " 0 failures" in done.stdout


@posix
@pytest.mark.parametrize("again", [0.0, 0.02], ids=["once", "again and again"])
def test_python_tasks_have_ended_when_an_interrupt_arrives(alarm: None, again: float):
    ended: list[int] = []

    def slow() -> None:
        RANG.wait(60)
        time.sleep(0.1)  # the interrupt could arrive
        ended.append(1)

    def wait_until_begun() -> None:
        begun.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.05, again)

    begun = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        try:
            run_together([wait_until_begun, lambda: (begun.set(), slow())])  # type: ignore[list-item]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            seen = list(ended)
    assert seen == [1]
    run_together([lambda: None, lambda: ended.append(2)])  # and the threads serve the next call
    assert ended == [1, 2]


def test_tasks_that_nobody_has_begun_are_given_up():
    """An interrupt in the first task leaves those that wait in the queue."""
    hold, ended = threading.Event(), []

    def interrupted() -> None:
        raise KeyboardInterrupt

    busy = [threading.Thread(target=run_together, args=([hold.wait] * 4,)) for _ in range(1)]
    for t in busy:
        t.start()
    with pytest.raises(KeyboardInterrupt):
        run_together([interrupted, *(lambda: ended.append(1) for _ in range(2))])
    count = len(ended)
    hold.set()
    for t in busy:
        t.join()
    time.sleep(0.05)
    assert len(ended) == count


@posix
def test_machine_code_has_ended_when_an_interrupt_arrives(alarm: None):
    """The exception comes before or after the work: all elements are written, or none at all."""
    model = pp.examples.seven_joint_arm()
    program = pp.compile(FORWARD_DYNAMICS, model, backend="native")
    rng = np.random.default_rng(0)
    at = [rng.standard_normal((60_000, 7)) for _ in range(3)]
    want = program(*at)
    # Python loses an exception that arrives in the callback of a weak reference: nothing that has
    # one is made or collected below
    program(*at, threads=2)
    gc.collect()
    for delay in (0.001, 0.002, 0.004):
        out = np.full_like(want, np.nan)
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            program(*at, out=out, threads=2)
            time.sleep(1)
        except KeyboardInterrupt:
            then = out.copy()
        else:
            pytest.fail("no interrupt")
        assert not spin_pool.any_busy()
        time.sleep(0.05)
        np.testing.assert_array_equal(out, then)
        assert np.isnan(out).all() or np.array_equal(out, want)


def test_an_exception_set_by_another_thread_waits_for_the_call():
    model = pp.examples.seven_joint_arm()
    start = np.zeros((256, 7))
    pp.rollout(model, start, start, start, 1e-3, 2, threads=2)
    caught: list[bool] = []

    def work() -> None:
        try:
            ready.set()
            for _ in range(1000):
                pp.rollout(model, start, start, start, 1e-3, 50, threads=2)
        except ZeroDivisionError:
            caught.append(spin_pool.any_busy())

    ready = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    time.sleep(0.02)
    kind = ctypes.py_object(ZeroDivisionError)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), kind)
    thread.join(60)
    assert caught == [False]


def test_calls_at_the_same_time_have_pools_of_their_own():
    model = pp.examples.seven_joint_arm()
    start = np.random.default_rng(0).standard_normal((64, 7))
    want = pp.rollout(model, start, start, start, 1e-4, 20)
    good: list[bool] = []

    def call() -> None:
        for _ in range(5):
            got = pp.rollout(model, start, start, start, 1e-4, 20, threads=3)
            good.append(all(np.array_equal(a, b) for a, b in zip(got, want, strict=True)))

    threads = [threading.Thread(target=call) for _ in range(12)]  # more than there are pools
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert good == [True] * 60
    assert not spin_pool.any_busy()


def test_without_threads_the_caller_does_all(monkeypatch: pytest.MonkeyPatch):
    """A system that starts no more threads slows a call down, no more."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    model = pp.examples.seven_joint_arm()
    program = pp.compile(FORWARD_DYNAMICS, model, backend="native")
    at = [np.random.default_rng(0).standard_normal((50, 7)) for _ in range(3)]
    monkeypatch.setattr(spin_pool, "_pools", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    np.testing.assert_array_equal(program(*at, threads=4), program(*at))


@pytest.mark.parametrize("shape", [(16, 5), (2, 1, 30)])
def test_several_batch_axes_are_shared(shape: tuple[int, ...]):
    model = pp.examples.seven_joint_arm()
    program = pp.compile(FORWARD_DYNAMICS, model, backend="native")
    rng = np.random.default_rng(0)
    q, v = rng.standard_normal((*shape, 7)), rng.standard_normal((shape[-1], 7))
    tau = np.asfortranarray(rng.standard_normal((*shape, 7)))
    np.testing.assert_array_equal(program(q, v, tau, threads=3), program(q, v, tau))
    out = np.empty((*shape, 7))
    assert program(q, v, tau, threads=3, out=out) is out
    np.testing.assert_array_equal(out, program(q, v, tau))


def test_arrays_that_are_not_aligned_are_shared():
    model = pp.examples.seven_joint_arm()
    program = pp.compile(FORWARD_DYNAMICS, model, backend="native")
    rng = np.random.default_rng(0)
    at = [rng.standard_normal((50, 7)) for _ in range(3)]
    want = program(*at)
    raw = np.zeros(50 * 7 * 8 + 1, dtype=np.uint8)
    out = raw[1:].view(np.float64).reshape(50, 7)
    assert program(*at, threads=2, out=out) is out
    np.testing.assert_array_equal(out, want)
    odd = np.zeros(50 * 7 * 8 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(50, 7)
    odd[...] = at[0]
    np.testing.assert_array_equal(program(odd, *at[1:], threads=2), want)
