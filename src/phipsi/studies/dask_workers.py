"""Workers of a cluster that dask.distributed runs: an existing scheduler, or one on this machine.

Blocks go to the scheduler, a few for every worker, and their arrays come back to the driver, which
writes them: workers need no common disk. The blocks of a lost worker are run again; one that keeps
killing workers is put aside. Studies are pickled by the driver for its own workers; nothing that
lies in a folder ever is.
"""

from __future__ import annotations

import ipaddress
import pickle
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any, final
from urllib.parse import urlsplit

from phipsi.errors import InputError, shown
from phipsi.motion.optional_imports import import_optional
from phipsi.studies.block_workers import Blocks, Finished, NotWritten, failed

_AHEAD = 2
"""Blocks for every worker: one that runs and one that waits, so that none is idle."""
_ATTEMPTS = 3
"""How often a cluster of this machine is started."""
_LOOK = 2.0
"""Seconds between two looks at how many workers there are."""


@final
class DaskWorkers:
    """The workers of a scheduler.

    **Arguments:** `executor`: "dask", for a cluster of this process with `count` workers; the
    address of a scheduler; or a `distributed.Client`. `write(block, arrays)` keeps a result and
    returns its digest.
    """

    def __init__(
        self, study: Blocks, executor: Any, count: int, write: Callable[[int, Any], str]
    ) -> None:
        library: Any = import_optional("distributed", "this executor", "'phipsi[cluster]'")
        if executor != "dask" and not isinstance(executor, library.Client):
            check_address(executor)
        # every task has the whole study: data that is kept on workers dies with them
        self._study = _sent(study)
        self._library, self._write, self._cluster, self._own = library, write, None, False
        client: Any = executor
        if not isinstance(executor, library.Client):
            self._own = True
            if executor == "dask":
                self._cluster = _local_cluster(library, count)
            client = library.Client(self._cluster or executor)
        self._client = client
        self._underway: dict[Any, int] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._workers, self._looked = 1, -_LOOK

    @property
    def free(self) -> int:
        """How many more blocks may be given out."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._workers, self._looked = max(1, len(self._client.nthreads())), now
        return max(0, _AHEAD * self._workers - len(self._underway))

    def submit(self, block: int) -> None:
        """Give a block to the scheduler."""
        future = self._client.submit(_run_block, self._study, block, pure=False)
        self._underway[future] = block
        future.add_done_callback(self._done.put)

    def results(self, patience: float) -> list[Finished]:
        """The blocks that end within so many seconds; as soon as there is one."""
        out = []
        with suppress(Empty):
            out.append(self._finished(self._done.get(timeout=patience)))
            while True:
                out.append(self._finished(self._done.get_nowait()))
        return out

    def _finished(self, future: Any) -> Finished:
        block = self._underway.pop(future)
        try:
            arrays = future.result()
        except self._library.KilledWorker as error:
            # a scheduler of others has tried it several times already
            why = f"its worker died ({shown(error, 300)})"
            return Finished(block, None, why, "its worker died", fatal=self._cluster is not None)
        except CancelledError as error:
            return Finished(block, None, f"it was lost ({shown(error, 300)})", "lost", fatal=True)
        except Exception as error:
            return failed(block, error)
        try:
            return Finished(block, self._write(block, arrays))
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


def _local_cluster(library: Any, count: int) -> Any:
    """Workers of this machine; the driver alone decides whether a block is tried again."""
    dask: Any = import_optional("dask", "this executor", "'phipsi[cluster]'")
    for more in reversed(range(_ATTEMPTS)):
        try:
            with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                return library.LocalCluster(
                    n_workers=count, threads_per_worker=1, host="127.0.0.1",
                    dashboard_address=None, silence_logs="CRITICAL",
                )  # fmt: skip
        except RuntimeError:  # a worker died while it started
            if not more:
                raise


def _sent(study: Blocks) -> bytes:
    """The study as workers get it."""
    try:
        return import_optional("cloudpickle", "this executor", "'phipsi[cluster]'").dumps(study)
    except TypeError as error:
        raise InputError(f"this study cannot be sent to a cluster: {shown(error, 300)}") from None


@lru_cache(maxsize=2)
def _received(study: bytes) -> Blocks:
    """The study of a worker, which compiles it once."""
    return pickle.loads(study)


def _run_block(study: bytes, block: int) -> Any:
    return _received(study).run_block(block)


def check_address(address: Any) -> None:
    """Reject addresses at which anybody could listen or answer."""
    parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
    if parts.scheme not in ("tcp", "tls") or not parts.hostname:
        raise InputError(
            f"executor={address!r} is neither 'local', 'dask', a distributed.Client nor the "
            "address of a scheduler, such as 'tls://node1:8786'"
        )
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
