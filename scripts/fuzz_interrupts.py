"""Interrupt threaded calls at random times and see whether memory and locks survive.

    python scripts/fuzz_interrupts.py --interrupts 50000        # recorded in docs/robustness.md
    python scripts/fuzz_interrupts.py --case rollout --interrupts 500

Inputs and `out=` lie between protected pages. As soon as the call is over, whichever way it ended,
they are protected as well: a thread that still reads or writes there ends the process. Arrays that
the library makes are returned to the system when they are freed, with the same effect. Interrupts
come from a timer, from another thread's signal, as an exception that another thread sets, or in
bursts. After every few of them the same call is made undisturbed and must give the same bits, and
no lock may be left taken. Chunks run in processes of their own: one that dies or hangs is a
failure.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np

CHUNK = 2_000  # interrupts per process
SECONDS = 100  # for a call; more is a hang, even where others need the processors
QUARANTINE = 64  # regions that stay protected before they are given back
EVERY = 5  # interrupts between two undisturbed calls
# arrays of the library above this size are mapped one by one, and unmapped when freed
SETTINGS = {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_MMAP_MAX_": "100000"}

# ---- memory --------------------------------------------------------------------------------------

_PAGE = mmap.PAGESIZE
_NONE, _READ_WRITE, _PRIVATE, _ANONYMOUS = 0, 3, 2, 0x1000 if sys.platform == "darwin" else 0x20
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """An array that ends where a protected page begins, with another one before it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
        kind = np.dtype(dtype)
        size = int(np.prod(shape)) * kind.itemsize
        inner = -(-size // _PAGE) * _PAGE
        self._size = inner + 2 * _PAGE
        self._base = _libc.mmap(None, self._size, _NONE, _PRIVATE | _ANONYMOUS, -1, 0)
        assert self._base not in (None, ctypes.c_void_p(-1).value), "no memory"
        assert _libc.mprotect(self._base + _PAGE, inner, _READ_WRITE) == 0
        start = self._base + _PAGE + inner - size
        buffer = (ctypes.c_char * size).from_address(start)
        self.array: np.ndarray = np.frombuffer(buffer, dtype=kind).reshape(shape)

    def close(self) -> None:
        """From now on whoever touches it ends the process."""
        assert _libc.mprotect(self._base, self._size, _NONE) == 0

    def free(self) -> None:
        """Give the addresses back."""
        assert _libc.munmap(self._base, self._size) == 0


class Regions:
    """Guarded arrays of a call, and those of the last calls, which are closed."""

    def __init__(self) -> None:
        self._open: list[Guarded] = []
        self._closed: deque[Guarded] = deque()

    def copy(self, a: np.ndarray) -> np.ndarray:
        """The same numbers in guarded memory."""
        region = Guarded(a.shape, a.dtype)
        self._open.append(region)
        region.array[...] = a
        return region.array

    def close(self) -> None:
        """The call is over."""
        while self._open:
            region = self._open.pop()
            region.close()
            self._closed.append(region)
        while len(self._closed) > QUARANTINE:
            self._closed.popleft().free()


# ---- interrupts ----------------------------------------------------------------------------------


class Interrupter:
    """Raises KeyboardInterrupt in the main thread some time after `start`, if still armed."""

    KINDS = ("timer", "signal", "exception", "burst")

    def __init__(self) -> None:
        self.armed = False
        self._main = threading.main_thread().ident or 0
        self._orders: SimpleQueue[tuple[str, float]] = SimpleQueue()
        self._given = self._done = 0
        signal.signal(signal.SIGALRM, self._handle)
        signal.signal(signal.SIGUSR1, self._handle)
        threading.Thread(target=self._serve, daemon=True).start()

    def _handle(self, *_: object) -> None:
        if self.armed:
            raise KeyboardInterrupt

    def _serve(self) -> None:
        set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
        while True:
            kind, delay = self._orders.get()
            end = time.perf_counter() + delay
            while time.perf_counter() < end:
                time.sleep(0)
            if kind == "signal":
                signal.pthread_kill(self._main, signal.SIGUSR1)
            elif self.armed:
                set_exception(ctypes.c_ulong(self._main), ctypes.py_object(KeyboardInterrupt))
            self._done += 1

    def start(self, kind: str, delay: float) -> None:
        """Interrupt after so many seconds."""
        self.armed = True
        if kind in ("timer", "burst"):
            again = 5e-5 if kind == "burst" else 0.0
            signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6), again)
        else:
            self._given += 1
            self._orders.put((kind, delay))

    def settle(self, kind: str) -> None:
        """Wait for what is under way; it may be raised here."""
        if kind in ("timer", "burst"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        while self._done < self._given:
            time.sleep(0)


def interrupted(interrupter: Interrupter, kind: str, delay: float, call: Callable[[], Any]) -> bool:
    """Make a call; whether it was interrupted before it was over."""
    inside = hit = False
    try:
        interrupter.start(kind, delay)
        inside = True
        answer = call()
        inside = False
        hit = getattr(answer, "complete", True) is False  # simulate returns what there is
        interrupter.settle(kind)
    except KeyboardInterrupt:
        interrupter.armed = False
        hit = inside
    interrupter.armed = False
    try:
        interrupter.settle(kind)
    except KeyboardInterrupt:  # its sender had looked before it was disarmed
        pass
    return hit


# ---- calls ---------------------------------------------------------------------------------------


def cases(regions: Regions) -> dict[str, Callable[[], Callable[[], Any]]]:
    """By name: functions that prepare a call in guarded memory; its result is always the same."""
    import phipsi as pp
    from phipsi.algorithms import FORWARD_DYNAMICS
    from phipsi.operators import mass_matrix

    model = pp.examples.seven_joint_arm()
    rng = np.random.default_rng(0)
    q, v, tau = (rng.standard_normal((2048, n)) for n in (model.nq, model.nv, model.nv))
    forward = pp.compile(FORWARD_DYNAMICS, model, backend="native")
    matrix = pp.compile(mass_matrix, model, mode="dense", backend="native")
    slow = pp.compile(FORWARD_DYNAMICS, model, backend="reference")

    def short() -> Callable[[], Any]:
        at = [regions.copy(a[:64]) for a in (q, v, tau)]
        return lambda: forward(*at, threads=2)

    def into() -> Callable[[], Any]:
        at = [regions.copy(a) for a in (q, v, tau)]
        out = regions.copy(np.zeros_like(v))
        return lambda: forward(*at, threads=2, out=out)

    def dense() -> Callable[[], Any]:
        at = regions.copy(q[:512])
        return lambda: matrix(at, threads=3)

    def converted() -> Callable[[], Any]:
        at = [regions.copy(a[:512].astype(np.float32)) for a in (q, v, tau)]
        return lambda: forward(*at, threads=2)

    def odd() -> Callable[[], Any]:
        at = [regions.copy(a[:256]) for a in (q, v, tau)]
        raw = regions.copy(np.zeros(256 * model.nv * 8 + 1, dtype=np.uint8))
        out = raw[1:].view(np.float64).reshape(256, model.nv)
        return lambda: forward(*at, threads=2, out=out)

    def axes() -> Callable[[], Any]:
        at = [regions.copy(a[:512].reshape(16, 32, -1)) for a in (q, v, tau)]
        return lambda: forward(*at, threads=2)

    def reference() -> Callable[[], Any]:
        at = [regions.copy(a[:64]) for a in (q, v, tau)]
        return lambda: slow(*at, threads=2)

    def rollout() -> Callable[[], Any]:
        at = [regions.copy(a[:32]) for a in (0.1 * q, 0.1 * v, 0.1 * tau)]
        return lambda: pp.rollout(model, *at, 1e-3, 20, record_every=5, threads=2)

    def generator() -> Callable[[], Any]:
        at = [regions.copy(a[:128]) for a in (q, v, tau)]

        def parts() -> Any:
            for i in range(4):
                piece = slice(32 * i, 32 * i + 32)
                yield forward(*(a[piece] for a in at), threads=2)

        return lambda: np.concatenate(list(parts()))

    def callback() -> Callable[[], Any]:
        at = [regions.copy(a[:64]) for a in (q, v, tau)]
        seen: list[np.ndarray] = []

        def progress(*_: object) -> None:
            seen.append(forward(*at, threads=2))

        def run() -> Any:
            del seen[:]
            out = pp.simulate(
                model, 0 * q[0], 0 * v[0], 0.01, dt=1e-3, integrator="rk4", progress=progress
            )
            return out if not out.complete else seen[-1]

        return run

    names = (short, into, dense, converted, odd, axes, reference, rollout, generator, callback)
    return {f.__name__: f for f in names}


def same(a: Any, b: Any) -> bool:
    """Equal bits of arrays or tuples of them."""
    if isinstance(a, tuple):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return np.array_equal(a, b)


def copied(a: Any) -> Any:
    """Results that do not change any more."""
    return tuple(x.copy() for x in a) if isinstance(a, tuple) else a.copy()


# ---- runs ----------------------------------------------------------------------------------------


def chunk(count: int, seed: int, only: str | None) -> dict[str, int]:
    """Interrupt calls until `count` interrupts have come in time; how many per case."""
    from phipsi.native import spin_pool

    warnings.simplefilter("ignore")
    regions, rng = Regions(), np.random.default_rng(seed)
    prepared = {n: f for n, f in cases(regions).items() if only in (None, n)}
    want: dict[str, Any] = {}
    length: dict[str, float] = {}
    for name, prepare in prepared.items():
        for _ in range(3):
            call = prepare()
            start = time.perf_counter()
            want[name] = copied(call())
            length[name] = min(length.get(name, np.inf), time.perf_counter() - start)
            regions.close()
    interrupter = Interrupter()
    found: Counter[str] = Counter()
    names = list(prepared)
    weights = np.array([length[name] ** -0.5 for name in names])  # short calls more often
    while found.total() < count:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        name = names[rng.choice(len(names), p=weights / weights.sum())]
        kind = Interrupter.KINDS[rng.integers(len(Interrupter.KINDS))]
        call = prepared[name]()
        hit = interrupted(interrupter, kind, rng.uniform(0, 1.1 * length[name]), call)
        regions.close()
        found[name] += hit
        if rng.random() < 1 / EVERY:
            call = prepared[name]()
            if not same(call(), want[name]):
                raise AssertionError(f"{name}: other bits after an interrupt ({kind})")
            regions.close()
            if spin_pool.any_busy():
                raise AssertionError(f"{name}: a pool is still taken ({kind})")
    return dict(found)


def main() -> int:
    """Run chunks in processes and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--interrupts", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="only calls of one kind")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(chunk(options.interrupts, options.seed, options.case)))
        return 0
    total: Counter[str] = Counter()
    failures: list[str] = []
    start, seed, left = time.time(), options.seed, options.interrupts
    while left > 0:
        size = min(CHUNK, left)
        command = [sys.executable, __file__, "--child", "--seed", str(seed)]
        command += ["--interrupts", str(size), *(["--case", options.case] if options.case else [])]
        env = {**os.environ, **SETTINGS, "PYTHONFAULTHANDLER": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            total.update(json.loads(done.stdout.splitlines()[-1]))
        else:
            failures.append(f"seed {seed}: exit {done.returncode}\n{done.stderr[-3000:]}")
        left -= size
        seed += 1
    for name, count in sorted(total.items()):
        print(f"{name:12} {count:7}")
    print(f"{total.total()} interrupts in {time.time() - start:.0f} s, {len(failures)} failures")
    for text in failures:
        print(text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
