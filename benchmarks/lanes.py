"""Batches on one core with 2, 4 and 8 configurations side by side, against Pinocchio, in one run.

    python benchmarks/lanes.py [rounds]          writes benchmarks/LANES.md

Every width has a process of its own; they take turns, with Pinocchio's single calls from Python
between them. "4, AVX2" is code for a processor without AVX-512, which has 16 vector registers
instead of 32. Figures are the best of all rounds, in processor time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
WIDTHS = {"2": 2, "4": 4, "4, AVX2": 4, "8": 8}
PEER = "Pinocchio"
BATCH, ROUNDS, REPEATS = 256, 25, 3
HUMANOIDS = ("G1", "Talos")
KINDS = ("forward dynamics", "inverse dynamics")
SYSTEMS = (*HUMANOIDS, "platform")
ROWS = (
    *(f"{kind}, {name}" for kind in KINDS for name in HUMANOIDS),
    *(f"derivatives of {kind}, {name}" for kind in KINDS for name in HUMANOIDS),
    *(f"constrained dynamics, {name}" for name in SYSTEMS),
)
GOALS = {"derivatives": 6.0, "constrained": 5.0}


def choose(width: str) -> None:
    """Have all code written for this width, before anything is compiled."""
    from phipsi.native import target

    host = target.host_target()
    if WIDTHS[width] > host.lanes:
        raise SystemExit(f"this machine has {host.lanes} lanes")
    new = replace(host, lanes=WIDTHS[width])
    if width == "4, AVX2":
        new = replace(new, cpu="x86-64-v3", features="")
    for module in list(sys.modules.values()):
        if getattr(module, "host_target", None) is target.host_target:
            if module is not target:
                module.host_target = lambda: new  # type: ignore[attr-defined]
    target.host_target = lambda: new  # type: ignore[assignment]


def ours() -> Mapping[str, Callable[[], Any]]:
    """A batch of every row."""
    import closed_systems
    import derivatives
    import robots

    import phipsi as pp

    out: dict[str, Callable[[], Any]] = {}
    for name in HUMANOIDS:
        model = robots.load_robot(name)
        s = robots.States(model, BATCH)
        mine = robots.Phipsi(model, s)
        for kind in KINDS:
            out[f"{kind}, {name}"] = mine.batch(kind, BATCH)
            out[f"derivatives of {kind}, {name}"] = derivatives.functions(model, s, kind, BATCH)
    for name in SYSTEMS:
        system, q = (
            closed_systems.platform() if name == "platform" else closed_systems.standing(name)
        )
        tau = np.random.default_rng(0).standard_normal(system.nv)
        many = [np.broadcast_to(x, (BATCH, len(x))).copy() for x in (q, np.zeros(system.nv), tau)]
        out[f"constrained dynamics, {name}"] = lambda system=system, many=many: pp.forward_dynamics(
            system, *many
        )
    return out


def theirs() -> Mapping[str, Callable[[], Any]]:
    """Single calls of Pinocchio: `lcaba` for systems."""
    import closed_pinocchio
    import closed_systems
    import derivatives
    import robots

    from phipsi.files import conventions

    out: dict[str, Callable[[], Any]] = {}
    for name in HUMANOIDS:
        model = robots.load_robot(name)
        peer = robots.Pinocchio(name, model, robots.States(model, 4))
        for kind in KINDS:
            out[f"{kind}, {name}"] = peer.single(kind)
            out[f"derivatives of {kind}, {name}"] = derivatives.theirs(peer, kind)
    for name in SYSTEMS:
        rng = np.random.default_rng(0)
        if name == "platform":
            system, _ = closed_systems.platform()
            found = closed_pinocchio.pinocchio_platform(system, rng.standard_normal(system.nv))
        else:
            system, q = closed_systems.standing(name)
            tau = rng.standard_normal(system.nv)
            zero = np.zeros(system.nv)
            efforts = conventions.to_pinocchio(system.model, q, zero, tau=tau).tau
            found = closed_pinocchio.pinocchio_standing(name, efforts)
        out[f"constrained dynamics, {name}"] = found[1]["lcaba"]
    return out


def child(who: str) -> None:
    """Answer the name of a row with seconds per configuration."""
    if who != PEER:
        choose(who)
    functions = theirs() if who == PEER else ours()
    for function in functions.values():
        function()
    print("ready", flush=True)
    for line in sys.stdin:
        function, best = functions[line.strip()], float("inf")
        calls = 60 if who == PEER else 1
        for _ in range(REPEATS):
            start = time.process_time()
            for _ in range(calls):
                function()
            best = min(best, time.process_time() - start)
        print(best / (calls if who == PEER else BATCH), flush=True)


def in_turns(
    running: Mapping[str, subprocess.Popen[str]], rows: list[str], rounds: int
) -> dict[tuple[str, str], float]:
    """The best seconds of every process and row; the processes take turns, and end."""
    best = {(who, row): float("inf") for who in running for row in rows}
    for _ in range(rounds):
        for row in rows:
            for who, process in running.items():
                print(row, file=process.stdin, flush=True)
                seconds = float(process.stdout.readline())  # type: ignore[union-attr]
                best[who, row] = min(best[who, row], seconds)
    for process in running.values():
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()
    return best


def main() -> None:
    """Start a process for every width, let them take turns, and write the table."""
    from machine import machine

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    about = machine()
    widths = [w for w, n in WIDTHS.items() if n <= about["lanes"]]
    running: dict[str, subprocess.Popen[str]] = {}
    for who in (*widths, PEER):
        words = [sys.executable, __file__, "--child", who]
        running[who] = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert running[who].stdout.readline() == "ready\n", who  # type: ignore[union-attr]
    best = in_turns(running, list(ROWS), rounds)
    heads = " | ".join(f"{w} lanes" for w in widths)
    lines = [
        "# Batches by the number of lanes",
        "",
        f"What wider SIMD vectors gain. Written by `benchmarks/lanes.py`, {about['date']}, {about['cpu']}, load {about['load before']}. Batches of {BATCH} on one",
        "core, µs per configuration, and how many times as long one call of Pinocchio from Python takes (`lcaba` for",
        f"constrained systems) in the same run; best of {rounds} rounds in which all take turns, processor time.",
        "",
        f"| | Pinocchio | {heads} | goal |",
        f"|---|---|{'---|' * len(widths)}---|",
    ]  # fmt: skip
    for row in ROWS:
        peer = best[PEER, row]
        cells = [f"{1e6 * best[w, row]:.2f} ({peer / best[w, row]:.1f}×)" for w in widths]
        goal = next((f"≥ {x:g}×" for word, x in GOALS.items() if row.startswith(word)), "")
        lines.append(f"| {row} | {1e6 * peer:.1f} | {' | '.join(cells)} | {goal} |")
    print("\n".join(lines[6:]))
    notes = ""
    file = HERE / "LANES.md"
    if file.exists() and "## " in (old := file.read_text(encoding="utf-8")):
        notes = "\n" + old[old.index("## ") :]
    file.write_text("\n".join(lines) + "\n" + notes, encoding="utf-8")


if __name__ == "__main__":
    child(sys.argv[2]) if "--child" in sys.argv else main()
