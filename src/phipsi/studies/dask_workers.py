"""Workers of a cluster that dask.distributed runs: an existing scheduler, or one on this machine.

Blocks go to the scheduler, a few for every worker, and their arrays come back to the driver, which
writes them: workers need no common disk. A lost worker's blocks are run again by the scheduler; one
that keeps killing workers comes back as an error.
"""

from __future__ import annotations

import ipaddress
import time
import traceback
from collections.abc import Callable
from typing import Any, final
from urllib.parse import urlsplit

from phipsi.errors import InputError, shown
from phipsi.motion.optional_imports import import_optional
from phipsi.studies.block_workers import LONGEST_LOG, Blocks, Finished

_AHEAD = 2
"""Blocks for every worker: one that runs and one that waits, so that none is idle."""


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
        _check_can_be_sent(study)
        self._library, self._write, self._cluster, self._own = library, write, None, False
        client: Any = executor
        if not isinstance(executor, library.Client):
            self._own = True
            if executor == "dask":
                self._cluster = library.LocalCluster(
                    n_workers=count, threads_per_worker=1, host="127.0.0.1",
                    dashboard_address=None, silence_logs="ERROR",
                )  # fmt: skip
            client = library.Client(self._cluster or executor)
        self._client = client
        self._study = self._client.scatter(study, broadcast=True, hash=False)
        self._underway: dict[Any, int] = {}

    @property
    def free(self) -> int:
        """How many more blocks may be given out."""
        workers = max(1, len(self._client.nthreads()))
        return max(0, _AHEAD * workers - len(self._underway))

    def submit(self, block: int) -> None:
        """Give a block to the scheduler."""
        future = self._client.submit(_run_block, self._study, block, pure=False)
        self._underway[future] = block

    def results(self, patience: float) -> list[Finished]:
        """The blocks that end within so many seconds; as soon as there is one."""
        end = time.monotonic() + patience
        while True:
            ready = [f for f in self._underway if f.done()]
            if ready or time.monotonic() >= end:
                return [self._finished(f) for f in ready]
            time.sleep(0.005)

    def _finished(self, future: Any) -> Finished:
        block = self._underway.pop(future)
        try:
            arrays = future.result()
        except self._library.KilledWorker as error:
            return Finished(block, None, f"its workers died: {shown(error, 300)}")
        except Exception as error:
            log = "".join(traceback.format_exception(error))[-LONGEST_LOG:]
            return Finished(block, None, f"{type(error).__name__}: {error}\n{log}")
        return Finished(block, self._write(block, arrays))

    def close(self) -> None:
        """Forget what is underway, and end what was begun here."""
        for future in self._underway:
            future.cancel()
        if self._own:
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _check_can_be_sent(study: Blocks) -> None:
    try:
        import_optional("cloudpickle", "this executor", "'phipsi[cluster]'").dumps(study)
    except TypeError as error:
        raise InputError(f"this study cannot be sent to a cluster: {shown(error, 300)}") from None


def _run_block(study: Blocks, block: int) -> Any:
    return study.run_block(block)


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
