"""Ctrl-C in runs of machine code: it is answered soon, and what was computed is kept or refused."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest
from known_systems import four_bar, rolling_ball
from numpy.testing import assert_array_equal

import phipsi as pp
from phipsi.errors import PhipsiWarning, SimulationError
from phipsi.simulation.runs import run_memory
from phipsi.simulation.runs.run_memory import RunMemory

ARM = pp.examples.planar_arm(2)
Q = np.linspace(-0.5, 0.5, 12).reshape(6, 2)
SYSTEM = four_bar()
CLOSED = np.array([SYSTEM.assemble([x, 0.6, -1.5]) for x in (0.4, 0.7)])
NONE = np.zeros(2)


@pytest.fixture
def stopped(monkeypatch):
    """After so many pieces, of 1, 8, 64, … steps, there is a Ctrl-C."""

    def after(pieces):
        run, count = RunMemory.run, 0

        def counted(self, *args, **options):
            nonlocal count
            out = run(self, *args, **options)
            count += 1
            if count == pieces:
                raise KeyboardInterrupt
            return out

        monkeypatch.setattr(RunMemory, "run", counted)
        monkeypatch.setattr(run_memory, "_FIRST_PIECE", 1)
        return lambda: count

    return after


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_ends_a_long_rollout(threads, monkeypatch):
    """Millions of steps, of which only those before the signal are taken."""
    run, begun = RunMemory.run, threading.Event()

    def watched(self, *args, **options):
        begun.set()
        return run(self, *args, **options)

    def interrupt():
        begun.wait()
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    monkeypatch.setattr(RunMemory, "run", watched)
    sender = threading.Thread(target=interrupt)
    sender.start()
    steps, every = 3_000_000, 100
    with pytest.warns(PhipsiWarning, match=rf"interrupted after \d+ of {steps} steps"):
        q, v = pp.rollout(ARM, Q, NONE, NONE, 1e-3, steps, record_every=every, threads=threads)
    sender.join()
    assert 1 < q.shape[1] < steps // every + 1 and v.shape == q.shape
    few = min(q.shape[1], 20)
    again, _ = pp.rollout(ARM, Q, NONE, NONE, 1e-3, every * (few - 1), record_every=every)
    assert_array_equal(q[:, :few], again)
    assert np.isfinite(q).all()


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_an_interrupted_rollout_has_the_records_so_far(pieces, stopped):
    tau = np.random.default_rng(0).normal(size=(6, 90, 2))
    whole = pp.rollout(ARM, Q, NONE, tau, 1e-2, 90, record_every=3)
    count = stopped(pieces)
    with pytest.warns(PhipsiWarning, match="interrupted after .* of 90 steps"):
        part = pp.rollout(ARM, Q, NONE, tau, 1e-2, 90, record_every=3)
    assert count() == pieces
    kept = part[0].shape[1]
    assert (kept == 1) if pieces == 1 else (1 < kept < 31)
    for x, y in zip(part, whole, strict=True):
        assert_array_equal(x, y[:, :kept])


def test_an_interrupted_rollout_of_a_system(stopped):
    """In machine code, and while a motion is projected in NumPy."""
    start = CLOSED, np.zeros(3), np.zeros(3), 1e-3, 60
    whole = pp.rollout(SYSTEM, *start, record_every=5)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(pp.simulation.runs.rollout, "projected_step", _interrupting(3))
        m.setattr(pp.simulation.runs.rollout, "_plan", _no_code)
        with pytest.warns(PhipsiWarning, match="interrupted after 0 of 60 steps"):
            part = pp.rollout(SYSTEM, *start, record_every=5)
        assert_array_equal(part[0], whole[0][:, :1])
    stopped(2)
    with pytest.warns(PhipsiWarning, match="interrupted after .* of 60 steps"):
        part = pp.rollout(SYSTEM, *start, record_every=5)
    kept = part[0].shape[1]
    assert 1 < kept < 13
    for x, y in zip(part, whole, strict=True):
        assert_array_equal(x, y[:, :kept])


def _no_code(*args):
    raise pp.errors.InputError("none")


def _interrupting(calls):
    from phipsi.simulation.runs.rollout import projected_step

    left = iter(range(calls))

    def step(*args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return projected_step(*args)

    return step


def test_a_failure_before_the_interrupt_is_said(stopped):
    stopped(3)
    fast = np.array([[1e200, 0.0], [0.0, 0.0]])
    with pytest.raises(SimulationError, match=r"trajectory \[0\] failed in step 0") as error:
        pp.rollout(ARM, Q[:2], fast, NONE, 1e-2, 90)
    q, _ = error.value.trajectory
    assert 1 < q.shape[1] < 91 and np.isfinite(q[1]).all()


def test_steps_leave_the_state_where_they_were_interrupted(stopped):
    sim = pp.Simulator(ARM, [pp.law(lambda q: -q, name="pull").sampled(100.0)], dt=1e-2)
    whole, part = sim.initial_state(Q), sim.initial_state(Q)
    sim.step(whole, steps=90)
    stopped(3)
    with pytest.raises(KeyboardInterrupt):
        sim.step(part, steps=90)
    assert 1 < part.steps < 90
    assert_array_equal(part.t, part.t[0])
    assert round(float(part.t[0]) / 1e-2) == part.steps
    sim.step(part, steps=90 - part.steps)
    assert_array_equal(part.q, whole.q)


def test_gradients_are_not_of_a_part_of_the_run(stopped):
    sim = pp.Simulator(ARM, dt=1e-2)
    for pieces in (1, 3, 8):
        stopped(pieces)
        with pytest.raises(KeyboardInterrupt):
            sim.gradient(sim.initial_state(Q), None, 90, cotangents={"q": 1.0}, segment=40)
    stopped(2)
    with pytest.raises(KeyboardInterrupt):
        pp.rollout_gradient(ARM, Q, NONE, NONE, 1e-2, 90, final=lambda q, v: (q.sum(-1), None, v))


def test_a_study_keeps_no_run_that_was_interrupted(stopped, tmp_path):
    """Nor does it go on as if nothing had happened."""
    stats = pytest.importorskip("scipy.stats")
    draws = {"v.joint1": stats.norm(0.0, 1.0)}
    study = pp.Study(pp.Simulator(ARM, dt=1e-2), draws, steps=90, runs=20, block=5)
    want = study.run(tmp_path / "whole", progress=False)["q.final"]
    stopped(10)
    with pytest.warns(PhipsiWarning, match="blocks. Run the study again"):
        study.run(tmp_path / "part", progress=False)
    again = study.run(tmp_path / "part", progress=False)
    assert_array_equal(again["q.final"], want)


def test_an_interrupted_simulation_with_contacts_is_not_complete(stopped):
    system = rolling_ball()
    start = [1, 0, 0, 0, 0, 0, 0.2], np.zeros(6), 0.3
    steps = {"integrator": "time_stepping", "dt": 1e-2}
    times = [0.05, 0.25]
    whole = pp.simulate(system, *start, **steps)
    calls = []

    def control(t, q, v):
        calls.append(float(t))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return np.zeros(6)

    with pytest.warns(PhipsiWarning, match="interrupted after 7 of 30 steps"):
        part = pp.simulate(system, *start, controller=control, output_times=times, **steps)
    assert not part.complete and part.t.tolist() == pytest.approx([0.05, 0.07])
    stopped(2)
    with pytest.warns(PhipsiWarning, match="interrupted after"):
        part = pp.simulate(system, *start, **steps)
    assert not part.complete and 1 < len(part.t) < 31
    assert_array_equal(part.q, whole.q[: len(part.t)])
