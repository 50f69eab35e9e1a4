"""The driver of a study: which blocks are missing, who runs them, and what happens to failures."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from phipsi.core.model import whole_number
from phipsi.errors import InputError, SimulationError, shown, true_or_false, warn
from phipsi.simulation import checked_time
from phipsi.studies.block_workers import (
    Finished,
    LocalWorkers,
    NotWritten,
    StudyBlocks,
    Workers,
    attempted,
)
from phipsi.studies.cluster_workers import DaskWorkers, SchedulerLost
from phipsi.studies.folder_lock import FolderLock
from phipsi.studies.study_folder import MOST_BLOCKS, StudyFolder
from phipsi.studies.study_results import StudyResults
from phipsi.support import make_progress, path_of

_SAVE_EVERY = 1.0
"""Seconds between manifests; blocks name their study, so that none of them is lost in between."""
_PATIENCE = 0.25
_SYSTEMATIC = 8
"""Runs that must fail in the same way before the first one works, for the study to be stopped."""


def run_study(
    study: StudyBlocks,
    folder: str | os.PathLike[str] | None,
    *,
    workers: int,
    executor: Any,
    retries: int,
    time_limit: float | None,
    memory_limit: int | None,
    shared_folder: bool,
    progress: Any,
) -> StudyResults:
    """Run the blocks that are missing in a folder; see `Study.run`."""
    count = whole_number("workers", workers)
    retries = whole_number("retries", retries, 0)
    if time_limit is not None:
        time_limit = checked_time(time_limit, "time_limit")
    if memory_limit is not None:
        memory_limit = whole_number("memory_limit", memory_limit)
    shared_folder = true_or_false("shared_folder", shared_folder)
    own = isinstance(executor, str) and executor in ("local", "dask")
    if not own and (time_limit is not None or memory_limit is not None):
        raise InputError(
            "time_limit and memory_limit are for executor='local' and 'dask'. The workers of an "
            "existing cluster have their own:  dask worker --memory-limit 4GiB"
        )
    limits = {"time_limit": time_limit, "memory_limit": memory_limit}
    if shared_folder and (folder is None or (isinstance(executor, str) and executor == "local")):
        raise InputError(
            "shared_folder=True has no effect: it is for workers of a cluster that write into a "
            "folder, and blocks are written here anyway. Remove it, or write\n"
            "    study.run(folder, executor='tls://scheduler:8786', shared_folder=True)"
        )
    if folder is None:
        with TemporaryDirectory(prefix="phipsi-study-") as place:
            found = _run_in(study, Path(place), count, executor, retries, limits, False, progress)
            return found.in_memory()
    place = path_of(folder).resolve()
    _warn_of_unseen(study.definition)
    return _run_in(study, place, count, executor, retries, limits, shared_folder, progress)


def _run_in(
    study: StudyBlocks,
    path: Path,
    workers: int,
    executor: Any,
    retries: int,
    limits: dict[str, Any],
    shared_folder: bool,
    progress: Any,
) -> StudyResults:
    if study.blocks > MOST_BLOCKS:
        raise InputError(
            f"{study.blocks} blocks are more than the {MOST_BLOCKS} that a folder may have. Use "
            f"larger blocks:  pp.Study(…, block={-(-study.count // MOST_BLOCKS)})"
        )
    definition = study.definition
    with FolderLock(path) as lock:
        folder = StudyFolder.begin(path, definition)
        for number, why in folder.drop_damaged().items():
            warn(f"{_shown_runs(study, number)} are run again: {why}")
        folder.quarantined.clear()  # another attempt
        missing = folder.done.missing
        interrupted = False
        driver = _Driver(folder, study, retries, progress, lock)
        alone = executor == "local" and workers == 1 and not any(limits.values())
        try:
            if alone:
                with lock.heartbeat():
                    driver.run_here(missing, _Job(study, folder))
            elif len(missing):
                count = min(workers, len(missing))
                if executor == "local":
                    study.compile()
                    pool: Workers = LocalWorkers(_Job(study, folder), count, **limits)
                else:
                    pool = DaskWorkers(
                        study, executor, count, folder.write_block, shared=shared_folder, **limits
                    )
                try:
                    driver.run(missing, pool)
                finally:
                    pool.close()
                    folder.sweep()
        except KeyboardInterrupt:
            interrupted = True
            warn(
                f"interrupted after {len(folder.done)} of {study.blocks} blocks. Run the study "
                "again with the same folder to resume it"
            )
        except SchedulerLost as error:
            raise SchedulerLost(
                f"{error}. {len(folder.done)} of {study.blocks} blocks are done. Start the "
                "scheduler and run the study again: with a folder it resumes from them,\n"
                "    study.run(folder, executor=…)"
            ) from None
        finally:
            driver.close()
        return StudyResults(folder, interrupted=interrupted)


@final
class _Job:
    """What workers of this machine call: compute a block and write it."""

    def __init__(self, study: StudyBlocks, folder: StudyFolder) -> None:
        self._study, self._folder = study, folder

    def __call__(self, block: int) -> str:
        return self._folder.write_block(block, self._study.run_block(block))


@final
class _Driver:
    """Gives out blocks, collects them, tries failed ones again, and keeps the manifest."""

    def __init__(
        self, folder: StudyFolder, study: StudyBlocks, retries: int, progress: Any, lock: FolderLock
    ) -> None:
        self._folder, self._study, self._retries = folder, study, retries
        self._lock = lock
        self._saved, self._pause = time.monotonic(), _SAVE_EVERY
        self._runs = sum(len(study.numbers_of(i)) for i in folder.done)
        total, begun = float(study.count), float(self._runs)
        self._bar = make_progress(progress, total, unit="runs", begun=begun)
        self._failures = _Failures(study, self._runs > 0)

    def run_here(self, missing: Iterable[Any], job: Callable[[int], str]) -> None:
        """All blocks in this process, one after the other."""
        for block in map(int, missing):
            self._take(attempted(job, block))

    def run(self, missing: Iterable[Any], pool: Workers) -> None:
        """All blocks in workers, which have no more of them than they ask for.

        Before the last attempt at a block whose process died, the driver waits for the other
        blocks: where a process has several, only one of them is to blame.
        """
        fresh = map(int, missing)
        again, suspects = deque[int](), deque[int]()
        tried, underway, more = Counter[int](), 0, True
        while more or again or suspects or underway:
            while (more or again) and pool.free:
                block = again.popleft() if again else next(fresh, None)
                more = more and block is not None
                if block is not None:
                    pool.submit(block)
                    underway += 1
            if suspects and not (more or again or underway):
                pool.submit(suspects.popleft())
                underway += 1
            self._lock.beat()
            for one in pool.results(_PATIENCE):
                underway -= 1
                if one.fatal and tried[one.block] < self._retries:
                    tried[one.block] += 1
                    last = tried[one.block] == self._retries
                    (suspects if last else again).append(one.block)
                else:
                    self._take(one, tried[one.block] + 1)

    def _take(self, one: Finished, attempts: int = 1) -> None:
        """List a block that is done; put one aside that failed, and let the others go on."""
        numbers = self._study.numbers_of(one.block)
        if not one.error:
            self._folder.done[one.block] = one.answer
            self._runs += len(numbers)
            self._bar.advance(float(self._runs))
            if time.monotonic() - self._saved > self._pause:
                self._save()
        elif one.disk:
            raise InputError(
                f"{_shown_runs(self._study, one.block)} are computed, but {one.error}. "
                f"{len(self._folder.done)} of {self._study.blocks} blocks are written. Free disk "
                "space, and run the study again with the same folder to resume it"
            )
        else:
            first, _, log = one.error.partition("\n")
            if attempts > 1:
                first = f"{first}, {attempts} times"
            self._folder.quarantined[one.block] = f"{first}\n{log}".rstrip()
            self._save()
            stops = self._failures.stops_with(one)  # then the error says why
            why = "" if stops else f": {first}"
            warn(f"{_shown_runs(self._study, one.block)} are quarantined{why}")
        self._failures.note(one)

    def _save(self) -> None:
        began = time.monotonic()
        try:
            self._folder.save()
        except NotWritten as error:
            raise InputError(
                f"{error}. Blocks that are written are not lost. Free disk space, and run the "
                "study again with the same folder"
            ) from None
        self._saved = time.monotonic()
        # a manifest of many blocks takes long: it may take a hundredth of the time
        self._pause = max(_SAVE_EVERY, 100 * (self._saved - began))

    def close(self) -> None:
        """The last manifest."""
        self._bar.close()
        if sys.exc_info()[0] is None:
            self._save()
        else:  # the reason comes first, and blocks name their study
            with suppress(InputError):
                self._save()


@final
class _Failures:
    """Whether a study fails in the same way from its first block on: then it is stopped."""

    def __init__(self, study: StudyBlocks, fine: bool) -> None:
        self._study, self._fine = study, fine
        self._ways: set[str] = set()
        self._blocks = self._runs = 0

    def stops_with(self, one: Finished) -> bool:
        """Whether the study is stopped when this block, which failed, is noted."""
        runs = self._runs + len(self._study.numbers_of(one.block))
        everything = self._blocks + 1 == self._study.blocks
        alike = not self._fine and self._ways <= {one.way}
        return alike and (everything or runs >= _SYSTEMATIC)

    def note(self, one: Finished) -> None:
        """A block has come back."""
        self._fine = self._fine or not one.error
        if self._fine:
            return
        stops = self.stops_with(one)
        self._ways.add(one.way)
        self._blocks += 1
        self._runs += len(self._study.numbers_of(one.block))
        if stops:
            which = "all" if self._blocks == self._study.blocks else "the first"
            raise SimulationError(
                f"{which} {self._runs} runs of the study fail in the same way, so it was stopped:\n"
                f"    {one.error.splitlines()[0]}"
            )


def _warn_of_unseen(definition: Mapping[str, Any]) -> None:
    """Say what the functions of a study reach that its definition cannot have."""
    events = definition.get("events") or {}
    functions = {
        **{role: definition.get(role) for role in ("initial_state", "metrics")},
        **{f"event {name!r}": x for name, x in events.items()},
    }
    for role, found in functions.items():
        for name, why in (found or {}).get("unseen", {}).items():
            warn(
                f"{role} reads {shown(name, 80) or 'an object'}, which cannot be inspected "
                f"({shown(why, 200)}): if it changes, the study in this folder is resumed all "
                "the same. Let the function read plain numbers, or pass a new folder after a "
                "change"
            )


def _shown_runs(study: StudyBlocks, block: int) -> str:
    numbers = study.numbers_of(block)
    return f"runs {numbers.start} … {numbers.stop - 1}"
