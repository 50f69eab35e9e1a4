"""One thread against two, each contestant in a process of its own.

    python benchmarks/threads.py UR5 phipsi

OpenMP's threads go on spinning after Pinocchio's call and would keep the second core from ours.
Several calls in a row, as in use: threads that have waited for long are asleep.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy
HERE = Path(__file__).parent
SIZES = (4096, 16384)

Seconds = dict[str, dict[str, float]]


def in_own_process(name: str, contestant: str, rounds: int) -> Seconds:
    """Seconds per configuration of every function, by "batch size, number of threads"."""
    command = [sys.executable, str(HERE / "threads.py"), name, contestant, str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(name: str, contestant: str, rounds: int) -> Seconds:
    """The same, in this process."""
    import robots
    from timing import race

    model = robots.load_robot(name) if name in robots.ROBOTS else robots.chain(100)
    states = robots.States(model, max(SIZES))
    if contestant == "phipsi":
        runner = robots.Phipsi(model, states)
    else:
        runner = robots.Pinocchio(name, model, states)
    out: Seconds = {}
    for what in robots.WHAT[:2]:
        out[what] = {}
        for size in SIZES:
            pair = {f"{size}, {n}": runner.batch(what, size, threads=n) for n in (1, 2)}
            found = race(pair, rounds=rounds, target=0.01, clock=time.perf_counter)
            out[what] |= {k: s / size for k, s in found.items()}
    return out


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else 30)))
