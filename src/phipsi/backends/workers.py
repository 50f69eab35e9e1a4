"""Threads that share a large batch: started once, because that takes as long as a batch.

A queue and a lock per task instead of futures: handing over costs a few microseconds, not fifty.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]


class _Workers:
    """Daemon threads that take tasks from one queue."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Task, _Done]] = SimpleQueue()
        self._count = 0
        self._lock = threading.Lock()

    def run(self, tasks: list[Task]) -> None:
        """Run all tasks, the first one here; raise the first error."""
        with self._lock:
            while self._count < len(tasks) - 1:
                threading.Thread(target=self._work, name="phipsi", daemon=True).start()
                self._count += 1
        others = [_Done() for _ in tasks[1:]]
        for task, done in zip(tasks[1:], others, strict=True):
            self._tasks.put((task, done))
        try:
            tasks[0]()
        finally:
            for done in others:
                done.wait()
        for done in others:
            if done.error is not None:
                raise done.error

    def _work(self) -> None:
        while True:
            task, done = self._tasks.get()
            try:
                task()
            except BaseException as error:
                done.error = error
            done.finish()


class _Done:
    """The end of one task."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._lock.acquire()
        self.finish = self._lock.release
        self.wait = self._lock.acquire


_workers = _Workers()


def run_together(tasks: list[Task]) -> None:
    """Run tasks in as many threads, this one included; all have ended when it returns.

    >>> from phipsi.backends.workers import run_together
    >>> seen = []
    >>> run_together([lambda i=i: seen.append(i) for i in range(3)])
    >>> sorted(seen)
    [0, 1, 2]
    """
    if len(tasks) == 1:
        tasks[0]()
    elif tasks:
        _workers.run(tasks)


def batch_pieces(count: int, threads: int, whole: int = 8) -> list[slice]:
    """Slices of about equal length that begin at multiples of `whole`, none of them empty."""
    groups = -(-count // whole)
    threads = max(1, min(threads, groups))
    edges = [min(count, groups * i // threads * whole) for i in range(threads + 1)]
    return [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]


def _forget() -> None:
    """After a fork the threads are gone: start anew."""
    global _workers
    _workers = _Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
