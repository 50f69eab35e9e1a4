"""Load many mutants of valid robot files in worker processes and report what comes of them.

    python scripts/fuzz_importers.py --save run.json --record   # 100,000, into docs/robustness.md
    python scripts/fuzz_importers.py --count 5000 --kind mjcf
    python scripts/fuzz_importers.py --first 20000 --count 20000 --save run.json   # the second part

Every mutant must give a finite model or a ModelError with file and line, within 5 s of processor
time and 500 MB in each process. MuJoCo reads MJCF in a process of its own, as for every user; how
often that ended or ran out of time is counted. A worker of this script that dies or hangs is
replaced, and the mutant is reported as a failure. The files are those of the tests and, if
installed, the small URDFs of example-robot-data. `--save` adds the outcome to a file, so that a
long run can be made in parts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
RECORD = SUPPORT.parents[1] / "docs" / "robustness.md"
SECTION = "## Robot files\n"
SECONDS, MEGABYTES = 5.0, 500
HANGS = 120.0  # seconds by the clock, on a machine with other work
GOOD = ("model", "error", "reader", "time")  # ways to end well
SMALL = 20_000  # bytes: larger robots only make the run slower


KINDS = {"urdf": ".urdf", "sdf": ".sdf", "mjcf": ".xml"}
TURNS = ("urdf", "mjcf", "urdf", "sdf", "mjcf")


def corpus(kind: str) -> list[Path]:
    """Valid files of one kind to start from."""
    suffix = KINDS[kind]
    found = [p for p in (SUPPORT.parent / "files" / "data").iterdir() if p.suffix == suffix]
    try:
        listed = files("example-robot-data") or []
    except PackageNotFoundError:
        listed = []
    shipped = [Path(str(f.locate())).resolve() for f in listed if f.suffix == suffix == ".urdf"]
    return sorted(found) + sorted(p for p in shipped if 1000 < p.stat().st_size < SMALL)


def mutants(kind: str, first: int, count: int) -> Iterator[tuple[Path, int]]:
    """Files and seeds: two of five are URDF, one SDF, two MJCF, unless a kind is asked for."""
    turns = [turn for turn in TURNS if kind in (turn, "all")]
    originals = {turn: corpus(turn) for turn in turns}
    taken: Counter[str] = Counter()
    for k in range(first + count):
        turn = turns[k % len(turns)]
        pool, n = originals[turn], taken[turn]
        taken[turn] += 1
        if k >= first:
            yield pool[n % len(pool)], n // len(pool)


def work(pipe: Connection, theirs: Connection) -> None:
    """Take (file, seed), answer (seed, outcome or failure, seconds, megabytes)."""
    theirs.close()  # a fork has it too; without this, nobody would notice that the script is gone
    sys.path.insert(0, str(SUPPORT))
    from file_mutants import mutant, outcome

    from phipsi.files import READERS

    with tempfile.TemporaryDirectory() as folder:
        while True:
            try:
                path, seed = pipe.recv()
            except EOFError:
                return
            target = Path(folder) / path.name
            target.write_bytes(mutant(path.read_bytes(), seed))
            reader, start = READERS.process, time.process_time()
            before = processor_time(reader)
            try:
                result = outcome(str(target))
            except Exception as error:
                result = f"{type(error).__name__}: {str(error)[:300]}"
            seconds = time.process_time() - start + processor_time(READERS.process)
            seconds -= before if READERS.process is reader else 0.0
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send((result, seconds, max(most, megabytes_of(READERS.process))))


def processor_time(reader: subprocess.Popen[bytes] | None) -> float:
    """Seconds of the process that reads MJCF, its start included; 0 if the system does not say."""
    try:
        stat = Path(f"/proc/{reader.pid}/stat").read_text() if reader is not None else ""
    except OSError:
        stat = ""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def megabytes_of(reader: subprocess.Popen[bytes] | None) -> float:
    """The most memory that the process that reads MJCF has had; 0 if the system does not say."""
    try:
        status = Path(f"/proc/{reader.pid}/status").read_text() if reader is not None else ""
    except OSError:
        status = ""
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peaks[0]) / 1024 if peaks else 0.0


class Worker:
    """A process with its pipe and the mutant it is at."""

    def __init__(self) -> None:
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(other, self.pipe), daemon=True)
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
    arguments.add_argument("--first", type=int, default=0, help="leave out so many at the start")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--save", type=Path, help="add the outcome to this file")
    arguments.add_argument("--record", action="store_true", help="write docs/robustness.md")
    chosen = arguments.parse_args()
    tasks = mutants(chosen.kind, chosen.first, chosen.count)
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
            elif time.monotonic() - worker.since > HANGS:
                result, seconds, megabytes = "worker hung", HANGS, 0.0
            else:
                continue
            done += 1
            counts[result if result in GOOD else "failure"] += 1
            slowest, largest = max(slowest, seconds), max(largest, megabytes)
            if seconds > SECONDS or megabytes > MEGABYTES:
                result = f"took {seconds:.2f} s, {megabytes:.0f} MB"
            if result not in GOOD:
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
    outcome: dict[str, Any] = {
        "done": done,
        **{word: counts[word] for word in GOOD},
        "failures": failures,
        "slowest": slowest,
        "largest": largest,
        "seconds": time.monotonic() - start,
    }
    print(summary(outcome))
    if chosen.save:
        outcome = added(outcome, chosen.save)
        print(f"with the earlier parts: {summary(outcome)}")
    if chosen.record:
        record(outcome)
    return 1 if failures else 0


def summary(outcome: dict[str, Any]) -> str:
    """One line."""
    return (
        f"{outcome['done']} mutants: {outcome['model']} models, {outcome['error']} complaints with "
        f"file and line, {outcome['reader']} complaints that MuJoCo's process ended, "
        f"{outcome['time']} that it took too long, {len(outcome['failures'])} failures; slowest "
        f"{outcome['slowest']:.2f} s, largest process {outcome['largest']:.0f} MB, "
        f"{outcome['seconds']:.0f} s in all"
    )


def added(outcome: dict[str, Any], path: Path) -> dict[str, Any]:
    """The outcome together with what is in the file, which has both afterwards."""
    if path.exists():
        before = json.loads(path.read_text())
        for key, value in before.items():
            is_largest = key in ("slowest", "largest")
            outcome[key] = max(value, outcome[key]) if is_largest else value + outcome[key]
    path.write_text(json.dumps(outcome))
    return outcome


def record(outcome: dict[str, Any]) -> None:
    """Put the outcome into its section of the page on robustness."""
    before, _, rest = RECORD.read_text().partition(SECTION)
    after = "".join(rest.partition("\n## ")[1:])
    o = outcome
    lines = "".join(f"- {failure}\n" for failure in o["failures"])
    RECORD.write_text(
        f"""{before}{SECTION}
`python scripts/fuzz_importers.py`, last run on {time.strftime("%Y-%m-%d")}: mutants of valid files,
two of five URDF, two MJCF, one SDF. Each has one to three changes: numbers, names (`%n` among
them), tags, attributes, paths, bytes, and elements that request much memory or time (keyframes,
height fields, copies, chains of frames). Each must give a finite model or a `ModelError` with file
and line, within {SECONDS:g} s of processor time and {MEGABYTES} MB in each process.

| | |
|---|---|
| mutants | {o["done"]:,} |
| finite models | {o["model"]:,} |
| errors with file and line | {o["error"]:,} |
| … because MuJoCo's process ended | {o["reader"]:,} |
| … because it took too long | {o["time"]:,} |
| failures | {len(o["failures"]):,} |
| slowest | {o["slowest"]:.2f} s |
| largest process | {o["largest"]:.0f} MB |
{lines}{after}"""
    )


if __name__ == "__main__":
    sys.exit(main())
