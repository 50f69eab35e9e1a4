"""Whoever runs the blocks of a study, and the processes of this machine that do.

The driver gives out blocks and takes them back; `Workers` is what it sees of them, `StudyBlocks`
what they see of the study. Those of a cluster are in `studies/cluster_workers.py`.
"""

from __future__ import annotations

import faulthandler
import multiprocessing as mp
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any, NamedTuple, Protocol, final

from phipsi.errors import InputError, shown
from phipsi.studies.study_functions import RaisedInFunction

Job = Callable[[int], Any]
_LONGEST_LOG = 4000
"""Characters of a traceback that are kept."""


class StudyBlocks(Protocol):
    """A study, as whoever runs it sees it: runs in blocks."""

    count: Any
    blocks: Any
    definition: Any

    def numbers_of(self, block: int) -> range:
        """The runs of a block."""
        ...

    def run_block(self, block: int) -> dict[str, Any]:
        """The arrays of a block."""
        ...

    def compile(self) -> None:
        """Compile what the runs need."""
        ...


class Finished(NamedTuple):
    """A block that is done, or why it is not.

    `error` with its log behind the first line; `way`, in which way it failed, equal for equal
    causes; `fatal`, if its process died or was stopped; `disk`, if its arrays could not be written.
    """

    block: int
    answer: Any
    error: str = ""
    way: str = ""
    fatal: bool = False
    disk: bool = False


class NotWritten(OSError):
    """A block that could not be written."""


def failed(block: int, error: Exception) -> Finished:
    """A block whose computation raised an error."""
    log = "".join(traceback.format_exception(error))[-_LONGEST_LOG:]
    if isinstance(error, NotWritten):
        return Finished(block, None, str(error), "disk", disk=True)
    if isinstance(error, MemoryError):
        return Finished(
            block, None, "it needs more memory than memory_limit= allows\n" + log, "memory"
        )
    if isinstance(error, RaisedInFunction):
        return Finished(block, None, f"{error}\n{log}", error.way)
    name = type(error).__name__
    return Finished(block, None, f"{name}: {error}\n{log}", f"{name}: {shown(error, 200)}")


def attempted(job: Job, block: int) -> Finished:
    """A block, computed here; its errors are answers."""
    try:
        return Finished(block, job(block))
    except Exception as error:
        return failed(block, error)


class Workers(Protocol):
    """Whoever runs blocks."""

    @property
    def free(self) -> int:
        """How many more blocks may be given out."""
        ...

    def submit(self, block: int) -> None:
        """Give out a block."""
        ...

    def results(self, patience: float) -> list[Finished]:
        """The blocks that end within so many seconds; as soon as there is one."""
        ...

    def close(self) -> None:
        """End all work."""
        ...


# ---- processes of this machine -------------------------------------------------------------------


@final
class LocalWorkers:
    """Worker processes of this machine that call `job(block)`, each for one block at a time.

    A worker is a process with a pipe. The end of its pipe tells that a worker died, and with which
    block; the driver (`studies/block_driver.py`) decides whether to try that block again or to
    quarantine it. Where processes can be forked, a worker begins as a copy of the driver with
    everything compiled; elsewhere the study is sent to it. What workers write to standard error
    goes to a file of their own: the driver repeats it, and the end of it is the log of a worker
    that died.

    Parameters
    ----------
    job : Job
        What is called for a block.
    count : int
        Number of processes.
    time_limit : float, optional
        Time after which the process of a block is killed, s.
    memory_limit : int, optional
        Memory of a process, bytes.
    """

    def __init__(
        self,
        job: Job,
        count: int,
        time_limit: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self._job, self._limits = job, memory_limit
        self._time_limit = time_limit
        methods = mp.get_all_start_methods()
        self._context: Any = mp.get_context("fork" if "fork" in methods else "spawn")
        if self._context.get_start_method() == "spawn":
            _check_can_be_sent(job)
        self._workers = [self._started() for _ in range(count)]

    @property
    def free(self) -> int:
        """How many workers wait for a block."""
        return sum(w.block is None for w in self._workers)

    def submit(self, block: int) -> None:
        """Give a block to a worker that waits."""
        worker = next(w for w in self._workers if w.block is None)
        try:
            worker.pipe.send(block)
        except OSError:  # it died while it waited
            self._workers[self._workers.index(worker)] = worker = self._started()
            worker.pipe.send(block)
        worker.block, worker.since = block, time.monotonic()

    def results(self, patience: float) -> list[Finished]:
        """The blocks that end within so many seconds; as soon as there is one."""
        busy = {w.pipe: w for w in self._workers if w.block is not None}
        if not busy:
            return []
        if self._time_limit is not None:
            first = min(w.since for w in busy.values()) + self._time_limit
            patience = max(0.0, min(patience, first - time.monotonic()))
        out = [self._finished(busy[pipe]) for pipe in wait(list(busy), patience)]  # type: ignore
        late = [w for w in self._workers if w.block is not None and self._is_late(w)]
        return [*out, *(self._stopped(w) for w in late)]

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            if worker.block is not None:
                worker.process.kill()
            else:
                with suppress(OSError):
                    worker.pipe.send(None)
        for worker in self._workers:
            worker.process.join(5.0)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.close()

    def _started(self) -> _Worker:
        mine, theirs = self._context.Pipe()
        log = _shared_file() if self._context.get_start_method() == "fork" else None
        place = None if log is None else log.fileno()
        process = self._context.Process(
            target=_work, args=(theirs, self._job, self._limits, os.getpid(), place), daemon=True
        )
        process.start()
        theirs.close()
        return _Worker(process, mine, log)

    def _finished(self, worker: _Worker) -> Finished:
        block = worker.block
        assert block is not None
        try:
            answer: Finished = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(5.0)
            code = worker.process.exitcode
            return self._replaced(worker, f"its process died ({_reason(code)})")
        worker.block = None
        if written := worker.written():
            sys.stderr.write(written)
        return answer

    def _is_late(self, worker: _Worker) -> bool:
        limit = self._time_limit
        return limit is not None and time.monotonic() - worker.since >= limit

    def _stopped(self, worker: _Worker) -> Finished:
        return self._replaced(worker, f"it took longer than {self._time_limit:g} s")

    def _replaced(self, worker: _Worker, why: str) -> Finished:
        block = worker.block
        assert block is not None
        worker.process.kill()
        worker.process.join()
        log = worker.written()
        worker.close()
        self._workers[self._workers.index(worker)] = self._started()
        return Finished(block, None, f"{why}\n{log}".rstrip(), why, fatal=True)


@final
class _Worker:
    """A process, its pipe, the file of its standard error, and the block it has."""

    def __init__(self, process: Any, pipe: Connection, log: Any) -> None:
        self.process, self.pipe, self._log = process, pipe, log
        self.block: int | None = None
        self.since = 0.0

    def written(self) -> str:
        """The beginning and the end of what it wrote to standard error since the last call."""
        if self._log is None:
            return ""
        place = self._log.fileno()
        size = os.fstat(place).st_size
        if not size:
            return ""
        half = _LONGEST_LOG // 2
        text = os.pread(place, min(size, _LONGEST_LOG), 0).decode(errors="replace")
        if size > _LONGEST_LOG:
            text = (
                f"{text[:half]}\n…\n{os.pread(place, half, size - half).decode(errors='replace')}"
            )
        os.ftruncate(place, 0)
        return text

    def close(self) -> None:
        """Close its pipe and its file."""
        self.pipe.close()
        if self._log is not None:
            self._log.close()


def _shared_file() -> Any:
    """A file without a name that processes write to at its end only."""
    import fcntl

    out = tempfile.TemporaryFile()
    fcntl.fcntl(out, fcntl.F_SETFL, fcntl.fcntl(out, fcntl.F_GETFL) | os.O_APPEND)
    return out


def _work(
    pipe: Connection, job: Job, memory_limit: int | None, parent: int, log: int | None
) -> None:
    """The life of a worker; it ends with its pipe, or with its driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    if log is not None:
        os.dup2(log, 2)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
    faulthandler.enable(2)
    if memory_limit is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            block = pipe.recv()
        except (EOFError, OSError):
            return
        if block is None:
            return
        try:
            pipe.send(attempted(job, block))
        except OSError:
            return


def _end_with(parent: int) -> None:
    """End this process when its driver has ended, also in the middle of a block.

    The end of the pipe would not show it: copies of the other end may live in other workers.
    """
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _reason(code: int | None) -> str:
    """Why a process ended, from its exit code."""
    if code is None:
        return "it does not answer"
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _check_can_be_sent(job: Job) -> None:
    try:
        pickle.dumps(job)
    except Exception as error:
        raise InputError(
            f"this study cannot be sent to other processes ({shown(error, 200)}). Pass a "
            "module-level function that makes the simulator, and module-level functions for "
            "initial_state= and metrics=:\n"
            "    pp.Study(make_simulator, …)"
        ) from None
