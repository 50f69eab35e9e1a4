"""Whoever runs the blocks of a study: processes of this machine, or workers of a cluster.

The driver gives out blocks and takes them back; `Workers` is what it sees of either kind, `Blocks`
what either kind sees of the study.
"""

from __future__ import annotations

import faulthandler
import ipaddress
import multiprocessing as mp
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from threading import Thread, Timer
from typing import Any, NamedTuple, Protocol, final
from urllib.parse import urlsplit

from phipsi.errors import InputError, shown
from phipsi.motion.optional_imports import import_optional
from phipsi.studies.study_functions import RaisedInFunction

Job = Callable[[int], Any]
_LONGEST_LOG = 4000
"""Characters of a traceback that are kept."""
_AHEAD = 2
"""Blocks for every worker of a cluster: one that runs and one that waits, so that none is idle."""
_ATTEMPTS = 3
"""How often a cluster of this machine is started."""
_LOOK = 2.0
"""Seconds between two looks at how many workers a cluster has."""
_RESTART = 15.0
"""Seconds in which a lost worker of a cluster of this machine is usually back."""


class Blocks(Protocol):
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
        return Finished(block, None, "it needs more memory than it may have\n" + log, "memory")
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
    """So many processes of this machine that call `job(block)`, each for one block at a time.

    A worker is a process with a pipe. Whoever dies is noticed by the end of its pipe, together with
    the block it had; the driver (`studies/run_study.py`) decides whether to try that again or to
    put it aside. Where processes can be forked, a worker begins as a copy of the driver with
    everything compiled; elsewhere the study is sent to it. What workers write to standard error
    goes to a file of their own: the driver repeats it, and the end of it is the log of a worker
    that died.

    **Arguments:** `time_limit`, s, after which the process of a block is killed; `memory_limit`,
    bytes of a process.
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
            f"this study cannot be sent to other processes ({shown(error, 200)}). Give it a "
            "function of a module that makes the simulator, and functions of modules for start= "
            "and outcome=:\n    pp.Study(make_simulator, …)"
        ) from None


# ---- workers of a cluster ------------------------------------------------------------------------


@final
class DaskWorkers:
    """The workers of a scheduler of dask.distributed: one that exists, or one on this machine.

    Blocks go to the scheduler, a few for every worker, and their arrays come back to the driver,
    which writes them: workers need no common disk. Where they have one, they write them themselves.
    The blocks of a lost worker are run again; one that keeps killing workers is put aside. Studies
    are pickled by the driver for its own workers; nothing that lies in a folder ever is.

    **Arguments:** `executor`: "dask", for a cluster of this process with `count` workers; the
    address of a scheduler; or a `distributed.Client`. `write(block, arrays)` keeps a result and
    returns its digest; `shared`, whether workers can do that, too; `time_limit`, s, after which a
    worker ends itself, and `memory_limit`, bytes, for a cluster of this process.
    """

    def __init__(
        self,
        study: Blocks,
        executor: Any,
        count: int,
        write: Callable[[int, Any], str],
        *,
        shared: bool = False,
        time_limit: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        library: Any = import_optional("distributed", "this executor", "'phipsi[cluster]'")
        if executor != "dask" and not isinstance(executor, library.Client):
            check_address(executor)
        # every task has the whole study: data that is kept on workers dies with them
        self._shared = shared or executor == "dask"
        self._work = _sent((study, write if self._shared else None, time_limit))
        limits = {
            "a block may take {:g} s": time_limit,
            "a worker may have {:,} bytes": memory_limit,
        }
        self._limits = "".join(f"; {text.format(x)}" for text, x in limits.items() if x is not None)
        self._library, self._write, self._cluster, self._own = library, write, None, False
        client: Any = executor
        if not isinstance(executor, library.Client):
            self._own = True
            if executor == "dask":
                self._cluster = _local_cluster(library, count, memory_limit)
            client = _connected(library, self._cluster or executor)
        else:
            check_address(client.scheduler.address)
        self._client = client
        self._underway: dict[Any, int] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._count = count
        self._workers, self._looked = 1, -_LOOK
        self._whole_at = time.monotonic()

    @property
    def free(self) -> int:
        """How many more blocks may be given out."""
        self._look()
        return max(0, _AHEAD * self._workers - len(self._underway))

    def _look(self) -> None:
        """See how many workers there are; replace those of this machine that nobody restarts."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked, found = now, len(self._client.nthreads())
        self._workers = max(1, found)
        if found >= self._count or self._cluster is None:
            self._whole_at = now
        elif now - self._whole_at > _RESTART:
            self._whole_at = now
            self._cluster.scale(len(self._cluster.worker_spec) + self._count - found)

    def submit(self, block: int) -> None:
        """Give a block to the scheduler."""
        future = self._client.submit(_run_block, self._work, block, pure=False)
        self._underway[future] = block
        future.add_done_callback(self._done.put)

    def results(self, patience: float) -> list[Finished]:
        """The blocks that end within so many seconds; as soon as there is one."""
        self._look()
        out = []
        with suppress(Empty):
            out.append(self._finished(self._done.get(timeout=patience)))
            while True:
                out.append(self._finished(self._done.get_nowait()))
        return out

    def _finished(self, future: Any) -> Finished:
        block = self._underway.pop(future)
        try:
            found = future.result()
        except self._library.KilledWorker as error:
            # a scheduler of others has tried it several times already
            why = f"its worker died ({shown(error, 300)}{self._limits})"
            return Finished(block, None, why, "its worker died", fatal=self._cluster is not None)
        except CancelledError as error:
            return Finished(block, None, f"it was lost ({shown(error, 300)})", "lost", fatal=True)
        except Exception as error:
            return failed(block, error)
        if self._shared:
            return Finished(block, found)
        try:
            return Finished(block, self._write(block, found))
        except NotWritten as error:
            return failed(block, error)

    def close(self) -> None:
        """Forget what is underway, and end what was begun here."""
        for future in self._underway:
            future.cancel()
        if self._own:
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _connected(library: Any, where: Any) -> Any:
    """A client of a scheduler that must be there."""
    try:
        return library.Client(where)
    except (OSError, TypeError, ValueError) as error:  # also without certificates
        raise InputError(
            f"no scheduler answers at {where}: {shown(error, 300)}. It must run; for tls:// "
            "this process needs the certificates of the cluster, by the configuration of dask or\n"
            "    client = distributed.Client('tls://…', security=distributed.Security(…))\n"
            "    study.run(folder, executor=client)"
        ) from None


def _local_cluster(library: Any, count: int, memory_limit: int | None) -> Any:
    """Workers of this machine; the driver alone decides whether a block is tried again."""
    dask: Any = import_optional("dask", "this executor", "'phipsi[cluster]'")
    for more in reversed(range(_ATTEMPTS)):
        try:
            with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                return library.LocalCluster(
                    n_workers=count, threads_per_worker=1, host="127.0.0.1",
                    dashboard_address=None, silence_logs="CRITICAL",
                    memory_limit="auto" if memory_limit is None else memory_limit,
                )  # fmt: skip
        except RuntimeError:  # a worker died while it started
            if not more:
                raise


def _sent(work: tuple[Blocks, Any, float | None]) -> bytes:
    """The study, how its blocks are written, and how long they may take, as workers get them."""
    try:
        return import_optional("cloudpickle", "this executor", "'phipsi[cluster]'").dumps(work)
    except TypeError as error:
        raise InputError(f"this study cannot be sent to a cluster: {shown(error, 300)}") from None


@lru_cache(maxsize=2)
def _received(work: bytes) -> tuple[Blocks, Any, float | None]:
    """The study of a worker, which compiles it once."""
    return pickle.loads(work)


def _run_block(work: bytes, block: int) -> Any:
    """The arrays of a block, or their digest if they are written here."""
    study, write, time_limit = _received(work)
    watch = Timer(time_limit or 0.0, os._exit, (1,))
    if time_limit is not None:
        watch.start()
    try:
        arrays = study.run_block(block)
        return arrays if write is None else write(block, arrays)
    finally:
        watch.cancel()


def check_address(address: Any) -> None:
    """Reject addresses at which anybody could listen or answer."""
    parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
    if parts.scheme not in ("tcp", "tls", "inproc") or not parts.hostname:
        raise InputError(
            f"executor={address!r} is neither 'local', 'dask', a distributed.Client nor the "
            "address of a scheduler, such as 'tls://node1:8786'"
        )
    if parts.scheme == "inproc":
        return
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname):
        raise InputError(
            f"executor={address!r}: whoever reaches a scheduler by plain tcp runs programs on all "
            "its workers. Use TLS, with the keys of your cluster:\n"
            "    client = distributed.Client('tls://…', security=distributed.Security(…))\n"
            "    study.run(folder, executor=client)"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
