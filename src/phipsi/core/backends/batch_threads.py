"""Which thread takes which configurations of a batch; threads of Python for the reference backend.

Every backend cuts a batch by `batch_pieces`. The threads are started once, because that takes as
long as a batch; machine code has threads of its own, `native/calls/spin_pool.py`.

An exception may be raised in the caller between any two of its instructions: Ctrl-C, or one that
another thread set. Whatever it is, the caller leaves after the last task that has been begun; tasks
that have not are given up. What has happened stands in dictionaries, which are written in one step
and can be asked again. An exception right after another one may still slip through between two
attempts to wait, so tasks must own what they read and write.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]
_PATIENCE = 0.05  # s


class _TaskBatch:
    """Tasks that are done together.

    `owners` says who does a task: the caller (this object) or the thread's own object. `ended` has
    the tasks of threads that are over, with what they raised.
    """

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks, self.numbers = tasks, range(len(tasks))
        self.owners: dict[int, object] = {}
        self.ended: dict[int, BaseException | None] = {}
        self._bell = threading.Lock()  # open when a task of a thread has ended

    def take(self, i: int, who: object) -> bool:
        """Whether this one does the task; the first to ask does it."""
        return self.owners.setdefault(i, who) is who

    def serve(self, i: int) -> None:
        """Do a task in another thread, if nobody else does."""
        if not self.take(i, threading.current_thread()):
            return
        error: BaseException | None = None
        try:
            self.tasks[i]()
        except BaseException as raised:
            error = raised
        finally:
            self.ended[i] = error
            if self._bell.locked():
                self._ring()

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:  # another thread has
            pass

    def lead(self) -> None:
        """Do the first task and all that no thread has begun; wait for the others."""
        errors: dict[int, BaseException] = {}
        for i, task in enumerate(self.tasks):
            if self.take(i, self):
                try:
                    task()
                except Exception as error:
                    errors[i] = error
        self.wait()
        errors |= {i: e for i, e in self.ended.items() if e is not None}
        if errors:
            raise errors[min(errors)]

    def wait(self) -> None:
        """Take what has not been begun, and wait for the threads."""
        for i in self.numbers:
            if not self.take(i, self):
                while i not in self.ended:
                    self._bell.acquire(timeout=_PATIENCE)

    def leave(self) -> None:
        """The same after an exception, whatever else is raised meanwhile."""
        while any(self.owners.get(i) is not self and i not in self.ended for i in self.numbers):
            try:
                self.wait()
            except BaseException:
                continue


class _WorkerThreads:
    """Daemon threads that take tasks from one queue."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._tasks: SimpleQueue[tuple[_TaskBatch, int]] = SimpleQueue()
        self._count = 0

    def run(self, tasks: list[Task]) -> None:
        """Run all tasks, the first one here; raise the first error."""
        run = _TaskBatch(tasks)
        try:
            while self._count < len(tasks) - 1:
                self._start()
            for i in range(1, len(tasks)):
                self._tasks.put((run, i))
            run.lead()
        except BaseException:
            run.leave()
            raise

    def _start(self) -> None:
        """One more thread. If the system has none left, the others and the caller do its work."""
        try:
            threading.Thread(target=self._work, name="phipsi", daemon=True).start()
        except RuntimeError:
            pass
        self._count += 1

    def _work(self) -> None:
        while True:
            run, i = self._tasks.get()
            run.serve(i)
            del run  # with its arrays


_workers = _WorkerThreads()


def run_together(tasks: list[Task]) -> None:
    """Run tasks in as many threads, this one included; all have ended when it returns.

    >>> from phipsi.core.backends.batch_threads import run_together
    >>> seen = []
    >>> run_together([lambda i=i: seen.append(i) for i in range(3)])
    >>> sorted(seen)
    [0, 1, 2]
    """
    global _workers
    if len(tasks) == 1:
        tasks[0]()
    elif tasks:
        if _workers.process != os.getpid():  # after a fork the threads are gone
            _workers = _WorkerThreads()
        _workers.run(tasks)


def batch_pieces(count: int, threads: int, whole: int = 8) -> list[slice]:
    """Slices of about equal length that begin at multiples of `whole`, none of them empty."""
    groups = -(-count // whole)
    threads = max(1, min(threads, groups))
    edges = [min(count, groups * i // threads * whole) for i in range(threads + 1)]
    return [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]
