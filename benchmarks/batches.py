"""Batches of 4096 states on one thread, with AVX-512 and with AVX2, against Pinocchio, in one run.

    python benchmarks/batches.py [rounds]        writes benchmarks/BATCHES.md

Every instruction set has a process of its own, and so has Pinocchio; they take turns. AVX2 is code
for a processor without AVX-512 (`x86-64-v3`: four lanes, 16 vector registers). Figures are the best
of all rounds, in processor time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lanes import choose, in_turns

HERE = Path(__file__).parent
SETS = {"AVX-512": "8", "AVX2": "4, AVX2"}
PEER = "Pinocchio"
KINDS = ("forward dynamics", "inverse dynamics")
BATCH, ROUNDS = 4096, 15


def functions(who: str) -> dict[str, Callable[[], Any]]:
    """A batch of every robot; Pinocchio writes its results into preallocated memory."""
    import robots

    out: dict[str, Callable[[], Any]] = {}
    for name in robots.ROBOTS:
        model = robots.load_robot(name)
        states = robots.States(model, BATCH)
        mine = (
            robots.Pinocchio(name, model, states) if who == PEER else robots.Phipsi(model, states)
        )
        for kind in KINDS:
            run = mine.batch(kind, BATCH)
            assert run is not None
            out[f"{kind}, {name}"] = run
    return out


def child(who: str) -> None:
    """Answer the name of a row with seconds per state."""
    if who != PEER:
        choose(SETS[who])
    rows = functions(who)
    for run in rows.values():
        run()
    print("ready", *rows, sep=";", flush=True)
    for line in sys.stdin:
        run, best = rows[line.strip()], float("inf")
        for _ in range(1 if who == PEER else 5):
            start = time.process_time()
            run()
            best = min(best, time.process_time() - start)
        print(best / BATCH, flush=True)


def main() -> None:
    """Start the processes, let them take turns, and write the table."""
    from machine import machine

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    about = machine()
    if about["lanes"] < 8:
        print("benchmarks/batches.py needs a processor with AVX-512: BATCHES.md stays as it is")
        return
    running: dict[str, subprocess.Popen[str]] = {}
    rows: list[str] = []
    for who in (*SETS, PEER):
        words = [sys.executable, __file__, "--child", who]
        running[who] = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        rows = running[who].stdout.readline().strip().split(";")[1:]  # type: ignore[union-attr]
    best = in_turns(running, rows, rounds)
    after = machine()["load before"]
    versions = about["versions"]
    lines = [
        "# Batches with AVX-512 and with AVX2",
        "",
        f"Time per state of large batches. Written by `benchmarks/batches.py`, {about['date']}, {about['cpu']} ({about['llvm name']}), {about['cores']} cores, Pinocchio",
        f"{versions['pin']} (its wheel from PyPI), commit {about['commit'][:12]}. Load average {about['load before']} before, {after} after: figures above 1.5 mean that",
        "other processes shared the cores and their caches.",
        "",
        f"Batches of {BATCH} states on one thread, µs per state. Numbers in brackets say how many times as long Pinocchio's `abaInParallel` or",
        "`rneaInParallel` with one thread takes, with preallocated results. AVX2 is code for processors without AVX-512 (`x86-64-v3`), run on the",
        f"same machine. The best of {rounds} rounds in which all take turns, in processor time.",
        "",
        f"| | Pinocchio | {' | '.join(SETS)} |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        peer = best[PEER, row]
        cells = [f"{1e6 * best[w, row]:.3f} ({peer / best[w, row]:.1f}×)" for w in SETS]
        lines.append(f"| {row} | {1e6 * peer:.2f} | {' | '.join(cells)} |")
    print("\n".join(lines[10:]))
    (HERE / "BATCHES.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    child(sys.argv[2]) if "--child" in sys.argv else main()
