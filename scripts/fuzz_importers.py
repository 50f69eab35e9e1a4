"""Load many mutants of valid robot files in worker processes and report what comes of them.

    python scripts/fuzz_importers.py --record        # 100,000 mutants, into benchmarks/LOADING.md
    python scripts/fuzz_importers.py --count 5000 --kind mjcf

Every mutant must give a finite model or a ModelError with file and line, within 2 s and 500 MB. A
worker that dies or hangs is replaced, and the mutant is reported as a failure. The files are those
of the tests and, if installed, the small URDFs of example-robot-data.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from multiprocessing.connection import Connection, wait
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
RECORD = TESTS.parent / "benchmarks" / "LOADING.md"
SECONDS, MEGABYTES = 2.0, 500
SMALL = 20_000  # bytes: larger robots only make the run slower


KINDS = {"urdf": ".urdf", "sdf": ".sdf", "mjcf": ".xml"}
TURNS = ("urdf", "urdf", "urdf", "sdf", "mjcf")


def corpus(kind: str) -> list[Path]:
    """Valid files of one kind to start from."""
    suffix = KINDS[kind]
    found = [p for p in (TESTS / "interfaces" / "data").iterdir() if p.suffix == suffix]
    try:
        listed = files("example-robot-data") or []
    except PackageNotFoundError:
        listed = []
    shipped = [Path(str(f.locate())).resolve() for f in listed if f.suffix == suffix == ".urdf"]
    return sorted(found) + sorted(p for p in shipped if 1000 < p.stat().st_size < SMALL)


def mutants(kind: str, count: int, seed: int) -> Iterator[tuple[Path, int]]:
    """Files and seeds: three of five are URDF, one SDF, one MJCF, unless a kind is asked for."""
    turns = [turn for turn in TURNS if kind in (turn, "all")]
    originals = {turn: corpus(turn) for turn in turns}
    taken: Counter[str] = Counter()
    for k in range(count):
        turn = turns[k % len(turns)]
        pool, n = originals[turn], taken[turn]
        taken[turn] += 1
        yield pool[n % len(pool)], seed + n // len(pool)


def work(pipe: Connection) -> None:
    """Take (file, seed), answer (seed, outcome or failure, seconds, megabytes)."""
    sys.path.insert(0, str(TESTS))
    from interfaces.mutants import mutant, outcome

    with tempfile.TemporaryDirectory() as folder:
        while True:
            task = pipe.recv()
            if task is None:
                return
            path, seed = task
            target = Path(folder) / path.name
            target.write_bytes(mutant(path.read_bytes(), seed))
            start = time.perf_counter()
            try:
                result = outcome(str(target))
            except Exception as error:
                result = f"{type(error).__name__}: {str(error)[:300]}"
            seconds = time.perf_counter() - start
            pipe.send((result, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


class Worker:
    """A process with its pipe and the mutant it is at."""

    def __init__(self) -> None:
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.task: tuple[Path, int] | None = None
        self.since = 0.0

    def give(self, task: tuple[Path, int]) -> None:
        """Send a mutant to the process."""
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.join()


def main() -> int:
    """Run and print the summary; the exit code is 1 if a mutant ended badly."""
    arguments = argparse.ArgumentParser(description="Load many mutants of valid robot files.")
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--kind", choices=("urdf", "sdf", "mjcf", "all"), default="all")
    arguments.add_argument("--first-seed", type=int, default=0)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--record", action="store_true", help="write benchmarks/LOADING.md")
    chosen = arguments.parse_args()
    tasks = mutants(chosen.kind, chosen.count, chosen.first_seed)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    slowest, largest, done = 0.0, 0.0, 0
    start = time.monotonic()
    workers = [Worker() for _ in range(chosen.jobs)]
    for worker in workers:
        if (task := next(tasks, None)) is not None:
            worker.give(task)
    while any(worker.task for worker in workers):
        ready = wait([worker.pipe for worker in workers if worker.task], timeout=1.0)
        for k, worker in enumerate(workers):
            if worker.task is None:
                continue
            path, seed = worker.task
            if worker.pipe in ready:
                try:
                    result, seconds, megabytes = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    result, seconds, megabytes = "worker died", 0.0, 0.0
            elif time.monotonic() - worker.since > 10:
                result, seconds, megabytes = "worker hung", 10.0, 0.0
            else:
                continue
            done += 1
            counts[result if result in ("model", "error") else "failure"] += 1
            slowest, largest = max(slowest, seconds), max(largest, megabytes)
            if seconds > SECONDS or megabytes > MEGABYTES:
                result = f"took {seconds:.2f} s, {megabytes:.0f} MB"
            if result not in ("model", "error"):
                failures.append(f"{path.name} seed {seed}: {result}")
                print(failures[-1], flush=True)
            if result.startswith("worker") or megabytes > MEGABYTES:
                worker.end()
                worker = workers[k] = Worker()
            worker.task = None
            if (task := next(tasks, None)) is not None:
                worker.give(task)
    for worker in workers:
        worker.end()
    summary = (
        f"{done} mutants: {counts['model']} models, {counts['error']} "
        f"complaints with file and line, {len(failures)} failures; slowest {slowest:.3f} s, "
        f"largest process {largest:.0f} MB, {time.monotonic() - start:.0f} s in all"
    )
    print(summary)
    if chosen.record:
        record(summary, failures)
    return 1 if failures else 0


def record(summary: str, failures: list[str]) -> None:
    """Put the outcome at the end of the page on loading."""
    before = RECORD.read_text().partition("## Mutants\n")[0]
    command = " ".join(["python scripts/fuzz_importers.py", *sys.argv[1:]])
    lines = "".join(f"- {failure}\n" for failure in failures)
    RECORD.write_text(
        f"{before}## Mutants\n\n`{command}`, last run on {time.strftime('%Y-%m-%d')}.\n"
        "Each mutant must give a finite model or a `ModelError` with file and line, within "
        f"{SECONDS:g} s and {MEGABYTES} MB;\nthree of five are URDF, one SDF, one MJCF.\n\n"
        f"{summary}.\n{lines}"
    )


if __name__ == "__main__":
    sys.exit(main())
