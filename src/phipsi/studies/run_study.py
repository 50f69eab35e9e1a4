"""The driver of a study: which blocks are missing, who runs them, and what happens to failures."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from phipsi.errors import InputError, warn
from phipsi.motion.checks import checked_time, whole_number
from phipsi.progress import make_progress
from phipsi.studies.block_workers import Blocks, Finished, Workers
from phipsi.studies.dask_workers import DaskWorkers
from phipsi.studies.local_workers import LocalWorkers
from phipsi.studies.study_folder import StudyFolder
from phipsi.studies.study_results import StudyResults

_SAVE_EVERY = 1.0
"""Seconds between manifests; blocks name their study, so that none of them is lost in between."""
_PATIENCE = 0.25


def run_study(
    study: Blocks,
    folder: str | os.PathLike[str] | None,
    *,
    workers: int,
    executor: Any,
    retries: int,
    time_limit: float | None,
    memory_limit: int | None,
    progress: Any,
) -> StudyResults:
    """Run the blocks that are missing in a folder; see `Study.run`."""
    count = whole_number("workers", workers)
    retries = whole_number("retries", retries, 0)
    if time_limit is not None:
        time_limit = checked_time(time_limit, "time_limit")
    if memory_limit is not None:
        memory_limit = whole_number("memory_limit", memory_limit)
    if executor != "local" and (time_limit is not None or memory_limit is not None):
        raise InputError(
            "time_limit and memory_limit are for executor='local'. Workers of a cluster have their "
            "own:  dask worker --memory-limit 4GiB"
        )
    limits = {"time_limit": time_limit, "memory_limit": memory_limit}
    if folder is None:
        with TemporaryDirectory(prefix="phipsi-study-") as place:
            found = _run_in(study, Path(place), count, executor, retries, limits, progress)
            return found.in_memory()
    return _run_in(study, Path(folder), count, executor, retries, limits, progress)


def _run_in(
    study: Blocks,
    path: Path,
    workers: int,
    executor: Any,
    retries: int,
    limits: dict[str, Any],
    progress: Any,
) -> StudyResults:
    folder = StudyFolder.begin(path, study.definition)
    folder.drop_damaged()
    folder.quarantined.clear()  # another attempt
    missing = [i for i in range(study.blocks) if i not in folder.done]

    def job(block: int) -> str:
        return folder.write_block(block, study.run_block(block))

    interrupted = False
    driver = _Driver(folder, study, retries, make_progress(progress, float(study.count)))
    alone = executor == "local" and workers == 1 and not any(limits.values())
    try:
        if alone:
            driver.run_here(missing, job)
        elif missing:
            count = min(workers, len(missing))
            if executor == "local":
                study.compile()
                pool: Workers = LocalWorkers(job, count, **limits)
            else:
                pool = DaskWorkers(study, executor, count, folder.write_block)
            try:
                driver.run(missing, pool)
            finally:
                pool.close()
    except KeyboardInterrupt:
        interrupted = True
        warn(
            f"interrupted after {len(folder.done)} of {study.blocks} blocks; run the study again "
            "with the same folder to go on"
        )
    finally:
        driver.close()
    return StudyResults(folder, interrupted=interrupted)


class _Driver:
    """Gives out blocks, collects them, tries failed ones again, and keeps the manifest."""

    def __init__(self, folder: StudyFolder, study: Blocks, retries: int, bar: Any) -> None:
        self._folder, self._study, self._retries, self._bar = folder, study, retries, bar
        self._saved = time.monotonic()
        self._runs = sum(len(study.numbers_of(i)) for i in folder.done)

    def run_here(self, missing: list[int], job: Callable[[int], str]) -> None:
        """All blocks in this process, one after the other."""
        for block in missing:
            try:
                self._take(Finished(block, job(block)))
            except OSError:
                raise  # the disk: nothing else would work either
            except Exception as error:
                self._give_up(block, f"{type(error).__name__}: {error}")

    def run(self, missing: list[int], pool: Workers) -> None:
        """All blocks in workers; no more are given out than there are workers."""
        waiting, tried, underway = deque(missing), Counter[int](), 0
        while waiting or underway:
            while waiting and pool.free:
                pool.submit(waiting.popleft())
                underway += 1
            for one in pool.results(_PATIENCE):
                underway -= 1
                if not one.error:
                    self._take(one)
                    continue
                tried[one.block] += 1
                if one.fatal and tried[one.block] <= self._retries:
                    waiting.append(one.block)
                else:
                    self._give_up(one.block, one.error)

    def _take(self, one: Finished) -> None:
        self._folder.done[one.block] = one.answer
        self._runs += len(self._study.numbers_of(one.block))
        self._bar.advance(float(self._runs))
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self._save()

    def _give_up(self, block: int, why: str) -> None:
        """Put a block aside with what happened; the others go on."""
        numbers = self._study.numbers_of(block)
        self._folder.quarantined[block] = why
        self._save()
        first = why.splitlines()[0]
        warn(f"runs {numbers.start} … {numbers.stop - 1} are put aside: {first}")

    def _save(self) -> None:
        self._folder.save()
        self._saved = time.monotonic()

    def close(self) -> None:
        """The last manifest."""
        self._bar.close()
        self._save()
