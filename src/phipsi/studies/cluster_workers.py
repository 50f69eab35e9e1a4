"""Workers of a cluster of dask.distributed that run the blocks of a study.

Whoever can talk to a scheduler or a worker of dask can run commands as its owner, and a driver
unpickles what a scheduler sends. So a cluster that is started here has credentials of its own,
which exist in memory only, and serves no pages. One that exists already must use TLS; of one on the
loopback address without it, a warning says who else can use it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Timer
from typing import Any, final
from urllib.parse import urlsplit

from phipsi.errors import InputError, SimulationError, shown, warn
from phipsi.studies.block_workers import Finished, NotWritten, StudyBlocks, failed
from phipsi.support import import_optional

_AHEAD = 2
"""Blocks for every worker of a cluster: one that runs and one that waits, so that none is idle."""
_ATTEMPTS = 3
"""How often a cluster of this machine is started."""
_LOOK = 2.0
"""Seconds between two looks at how many workers a cluster has."""
_RESTART = 15.0
"""Seconds in which a lost worker of a cluster of this machine is usually back."""
_INSTALL = "'phipsi[cluster]'"
_WITH_TLS = (
    "Use TLS, with the keys of your cluster:\n"
    "    client = distributed.Client('tls://…', security=distributed.Security(…))\n"
    "    study.run(folder, executor=client)"
)


class SchedulerLost(SimulationError):
    """A scheduler that does not answer any more."""


@final
class DaskWorkers:
    """The workers of a scheduler of dask.distributed: one that exists, or one on this machine.

    Blocks go to the scheduler, a few for every worker, and their arrays come back to the driver,
    which writes them: workers need no common disk. Where they have one, they write them themselves.
    The blocks of a lost worker are run again; one that keeps killing workers is quarantined.
    Studies are pickled by the driver for its own workers; nothing that lies in a folder ever is.

    Parameters
    ----------
    study : StudyBlocks
        The study.
    executor : str or distributed.Client
        "dask", for a cluster of this process with `count` workers; the address of a scheduler; or
        a `distributed.Client`.
    count : int
        Number of workers of a cluster of this process.
    write : callable
        ``write(block, arrays)`` keeps a result and returns its digest.
    shared : bool, optional
        Whether workers can write results, too.
    time_limit : float, optional
        Time after which a worker ends itself, s.
    memory_limit : int, optional
        Memory of a worker of a cluster of this process, bytes.

    Raises
    ------
    SchedulerLost
        By `free`, `submit` and `results`.
    """

    def __init__(
        self,
        study: StudyBlocks,
        executor: Any,
        count: int,
        write: Callable[[int, Any], str],
        *,
        shared: bool = False,
        time_limit: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        library: Any = import_optional("distributed", "this executor", _INSTALL)
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
        self._library, self._write, self._own = library, write, False
        self._cluster: _LocalCluster | None = None
        client: Any = executor
        if not isinstance(executor, library.Client):
            self._own = True
            if executor == "dask":
                self._cluster = _LocalCluster(library, count, memory_limit)
                client = _connected(library, self._cluster.cluster)
            else:
                client = _connected(library, executor)
        else:
            check_address(client.scheduler.address)
        self._client = client
        self._address = client.scheduler.address
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

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A call of the scheduler; what goes wrong there is its end."""
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            raise SchedulerLost(
                f"the scheduler at {self._address} does not answer any more "
                f"({type(error).__name__}: {shown(error, 200)}): it was stopped or killed, or the "
                "network to it failed"
            ) from None

    def _look(self) -> None:
        """See how many workers there are; replace those of this machine that nobody restarts."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        with self._answering():
            found = len(self._client.nthreads())
        self._looked = now
        self._workers = max(1, found)
        if found >= self._count or self._cluster is None:
            self._whole_at = now
        elif now - self._whole_at > _RESTART:
            self._whole_at = now
            self._cluster.add_workers(self._count - found)

    def submit(self, block: int) -> None:
        """Give a block to the scheduler."""
        with self._answering():
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
            self._looked = -_LOOK  # a scheduler that has ended cancels all at once: look for it
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
        with suppress(Exception):  # whoever has ended forgets by itself
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


# ---- a cluster of this machine -------------------------------------------------------------------


@final
class _LocalCluster:
    """A scheduler and workers of this machine that nobody else can use.

    They talk by TLS with a key that exists in memory only, so that other processes of this machine
    can neither give them work nor answer in their place. Their HTTP servers, which dask always
    starts, have no pages. Their files are in a folder of this user alone. The driver decides
    whether a block is tried again.
    """

    def __init__(self, library: Any, count: int, memory_limit: int | None) -> None:
        import_optional("cryptography", "executor='dask', for keys of its own,", _INSTALL)
        dask: Any = import_optional("dask", "this executor", _INSTALL)
        settings = {
            "distributed.scheduler.allowed-failures": 0,
            "distributed.scheduler.http.routes": [],
        }
        self._files = tempfile.TemporaryDirectory(prefix="phipsi-dask-", ignore_cleanup_errors=True)
        try:
            for more in reversed(range(_ATTEMPTS)):
                try:
                    with dask.config.set(settings):
                        self.cluster = library.LocalCluster(
                            n_workers=count, threads_per_worker=1, host="127.0.0.1",
                            security=library.Security.temporary(),
                            local_directory=self._files.name, silence_logs="CRITICAL",
                            memory_limit="auto" if memory_limit is None else memory_limit,
                            dashboard_address=None,
                            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                            # of workers that are started again, too
                            config={"distributed.worker.http.routes": []},
                        )  # fmt: skip
                    return
                except RuntimeError:  # a worker died while it started
                    if not more:
                        raise
        except BaseException:
            self._files.cleanup()
            raise

    def add_workers(self, count: int) -> None:
        """Start more workers, in place of some that are gone."""
        self.cluster.scale(len(self.cluster.worker_spec) + count)

    def close(self) -> None:
        """End them, and remove their files."""
        self.cluster.close()
        self._files.cleanup()


# ---- what workers do -----------------------------------------------------------------------------


def _sent(work: tuple[StudyBlocks, Any, float | None]) -> bytes:
    """The study, how its blocks are written, and how long they may take, as workers get them."""
    try:
        return import_optional("cloudpickle", "this executor", _INSTALL).dumps(work)
    except TypeError as error:
        raise InputError(f"this study cannot be sent to a cluster: {shown(error, 300)}") from None


@lru_cache(maxsize=2)
def _received(work: bytes) -> tuple[StudyBlocks, Any, float | None]:
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


# ---- addresses -----------------------------------------------------------------------------------


def check_address(address: Any) -> None:
    """Reject addresses at which anybody could listen or answer; warn of those of this machine."""
    parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
    if parts.scheme not in ("tcp", "tls", "inproc") or not parts.hostname:
        raise InputError(
            f"executor={address!r} is neither 'local', 'dask', a distributed.Client nor the "
            "address of a scheduler, such as 'tls://node1:8786'"
        )
    if parts.scheme != "tcp":
        return
    if not _is_loopback(parts.hostname):
        raise InputError(
            f"executor={address!r}: anybody who can connect to a scheduler by plain tcp can run "
            f"programs on all its workers. {_WITH_TLS}"
        )
    warn(
        f"executor={address!r}: every process and every user of this machine can run commands as "
        "the owner of this scheduler and of its workers, because it has neither TLS nor a "
        "secret. Create the cluster with keys of its own:\n"
        "    cluster = distributed.LocalCluster(security=distributed.Security.temporary())\n"
        "    study.run(folder, executor=distributed.Client(cluster))"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
