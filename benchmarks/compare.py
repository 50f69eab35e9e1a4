"""Two commits against each other, in one run:  python benchmarks/compare.py OLD NEW

    python benchmarks/compare.py main HEAD                 all rows
    python benchmarks/compare.py main . --only rollout     rows whose name has a word; `.` is the
                                                           working tree as it is

Each side runs in a process of its own, with its own sources, benchmarks and code cache, and they
take turns; OLD runs twice, and what separates the two is the noise. Times are processor time of
one thread, the best of all readings. A row is slower if NEW takes longer than OLD by more than the
noise of all rows, at most 3 %. Rows that look slower or unsteady are measured again in new
processes before the verdict. The answers of both sides are compared too.

The exit status is 1 if a row is slower or its answer differs, 2 if a row could not be decided.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from compare_rows import FRESH, ROWS  # noqa: E402

ROOT = HERE.parent
LIMIT = 0.03  # the noise that is allowed at most
AGREE = 1e-8  # of the answers, relative to their largest number
SIDES = ("old", "again", "new")


@dataclass
class Side:
    """One version of the library: where its files are, and its code cache."""

    folder: Path
    cache: Path

    def environment(self, cache: Path | None = None) -> dict[str, str]:
        paths = [str(self.folder / part) for part in ("src", "benchmarks")]
        dropped = ("PYTHONDONTWRITEBYTECODE", "PHIPSI_BACKEND")
        return {
            **{k: v for k, v in os.environ.items() if k not in dropped},
            "PYTHONPATH": os.pathsep.join(paths),
            "PHIPSI_CACHE": str(cache or self.cache),
            "OPENBLAS_NUM_THREADS": "1",
        }


@dataclass
class Row:
    """Readings of one row: the best of every side, in seconds."""

    name: str
    best: dict[str, float] = field(default_factory=dict)
    trouble: str = ""

    def read(self, side: str, seconds: float) -> None:
        self.best[side] = min(seconds, self.best.get(side, float("inf")))

    @property
    def ratio(self) -> float:
        return self.best["new"] / self.best["old"]

    @property
    def noise(self) -> float:
        a, b = self.best["old"], self.best["again"]
        return max(a, b) / min(a, b) - 1


# ---- versions ------------------------------------------------------------------------------------


def checked_out(commit: str, folder: Path) -> Path:
    """The sources and benchmarks of a commit, in a folder of their own; a folder as it is."""
    if Path(commit).is_dir():
        return Path(commit).resolve()
    command = ["git", "-C", str(ROOT), "archive", commit, "src", "benchmarks"]
    archive = subprocess.run(command, capture_output=True)
    if archive.returncode:
        raise SystemExit(archive.stderr.decode().strip())
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


class Worker:
    """A process that holds the calls of one side."""

    def __init__(self, side: Side) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "compare_rows.py")],
            env=side.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended (status {self.process.wait()}) at {command}")
        return json.loads(line)

    def close(self) -> None:
        self.process.communicate()


@contextlib.contextmanager
def workers(sides: dict[str, Side]) -> Iterator[dict[str, Worker]]:
    """A new process for every side."""
    made = {name: Worker(side) for name, side in sides.items()}
    try:
        yield made
    finally:
        for worker in made.values():
            worker.close()


# ---- readings ------------------------------------------------------------------------------------


def turns(rounds: int) -> Iterator[str]:
    """Every side once a round, each time another one first."""
    for i in range(rounds):
        yield from SIDES[i % 3 :] + SIDES[: i % 3]


def differ(a: list[float], b: list[float]) -> bool:
    """Whether two answers are not the same up to rounding."""
    size = max((abs(x) for x in a[1:]), default=0.0) or 1.0
    same = len(a) == len(b) and a[0] == b[0]
    return not same or any(abs(x - y) > AGREE * size for x, y in zip(a, b, strict=True))


def read_calls(rows: list[Row], sides: dict[str, Side], rounds: int) -> None:
    """A session: new processes, and `rounds` readings of every row on every side."""
    with workers(sides) as found:
        for row in rows:
            first = {name: found[name].ask(row=row.name) for name in SIDES}
            errors = {k: v["error"] for k, v in first.items() if "error" in v}
            if errors:
                row.trouble = "; ".join(f"{k}: {e}" for k, e in errors.items() if k != "again")
                continue
            if differ(first["old"]["answer"], first["new"]["answer"]):
                row.trouble = "the answers differ"
            count = first["old"]["count"]
            for name in turns(rounds):
                row.read(name, found[name].ask(row=row.name, count=count)["seconds"])


def read_fresh(row: Row, sides: dict[str, Side], rounds: int) -> None:
    """Readings that need a new process each; what is compiled starts with an empty cache."""
    for name in turns(rounds):
        side = sides[name]
        with tempfile.TemporaryDirectory() as empty:
            os.chmod(empty, 0o700)
            cold = Path(empty) if row.name.startswith("compile") else None
            command = [sys.executable, "-P", "-c", FRESH[row.name]]
            done = subprocess.run(
                command, env=side.environment(cold), capture_output=True, text=True
            )
        if done.returncode:
            row.trouble = f"{name}: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}"
            return
        row.read(name, float(done.stdout.split()[-1]))


def read(rows: list[Row], sides: dict[str, Side], rounds: int) -> None:
    calls = [r for r in rows if r.name in ROWS]
    if calls:
        read_calls(calls, sides, rounds)
    for row in rows:
        if row.name in FRESH:
            read_fresh(row, sides, max(3, rounds // 5))


# ---- the verdict ---------------------------------------------------------------------------------


def limit_of(rows: list[Row]) -> float:
    """What may separate two readings: the noise of OLD against OLD, at most 3 %."""
    return min(LIMIT, max((r.noise for r in rows if not r.trouble), default=LIMIT))


def verdict(row: Row, limit: float) -> str:
    if row.trouble:
        return row.trouble
    if row.ratio > 1 + max(limit, row.noise):
        return "SLOWER"
    if row.noise > LIMIT:
        return "unsteady"
    return "faster" if row.ratio < 1 - limit else ""


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def table(rows: list[Row], limit: float) -> str:
    lines = ["| row | old | new | new / old | old / old | |", "|---|---|---|---|---|---|"]
    for row in rows:
        said = verdict(row, limit)
        if len(row.best) < 3:
            lines.append(f"| {row.name} | | | | | {said} |")
            continue
        times = f"{_time(row.best['old'])} | {_time(row.best['new'])}"
        lines.append(f"| {row.name} | {times} | {row.ratio:.3f} | ±{row.noise:.1%} | {said} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Two commits against each other, in one run.")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=15, help="readings in each process")
    parser.add_argument("--sessions", type=int, default=3, help="new processes for every row")
    parser.add_argument("--again", type=int, default=6, help="more for rows that look slower")
    options = parser.parse_args()
    rows = [Row(name) for name in (*ROWS, *FRESH) if options.only.lower() in name.lower()]
    if not rows:
        raise SystemExit(f"no row contains {options.only!r}: {', '.join((*ROWS, *FRESH))}")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        made = {}
        for side, commit in (("old", options.old), ("new", options.new)):
            cache = place / f"{side}-cache"
            cache.mkdir(mode=0o700)
            made[side] = Side(checked_out(commit, place / side), cache)
        sides = {"old": made["old"], "again": made["old"], "new": made["new"]}
        for session in range(options.sessions):
            print(f"session {session + 1} of {options.sessions}", file=sys.stderr, flush=True)
            read([r for r in rows if not r.trouble], sides, options.rounds)
        for _ in range(options.again):
            limit = limit_of(rows)
            doubtful = [r for r in rows if verdict(r, limit) in ("SLOWER", "unsteady")]
            if not doubtful:
                break
            print(f"again: {len(doubtful)} rows", file=sys.stderr, flush=True)
            read(doubtful, sides, options.rounds)
    limit = limit_of(rows)
    print(table(rows, limit))
    said = [verdict(r, limit) for r in rows]
    slower = sum(s not in ("", "faster", "unsteady") for s in said)
    print(
        f"\n{len(rows)} rows; allowed: {limit:.1%}, the noise of {options.old} against itself "
        f"(at most {LIMIT:.0%}). Slower or wrong: {slower}; unsteady: {said.count('unsteady')}; "
        f"faster: {said.count('faster')}."
    )
    return 1 if slower else 2 if "unsteady" in said else 0


if __name__ == "__main__":
    sys.exit(main())
