"""Read many damaged trajectory files or mutants of scenarios, and report what comes of them.

    python scripts/fuzz_files.py trajectories --count 10000
    python scripts/fuzz_files.py scenarios --count 5000

Every file must give what it says it is, with finite numbers, or an error of the library (for
scenarios with file and line) whose text cannot act on a terminal, within 2 s of processor time, a
minute on the clock, and 500 MB. A file is made from its seed alone, so a failure is repeated with
--first-seed SEED --count 1. Robot files have a run of their own, scripts/fuzz_importers.py.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
SECONDS, LONGEST, MEGABYTES = 2.0, 60.0, 500


class Slow(BaseException):
    """A file took longer than allowed; no handler for errors catches it."""


def _too_slow(*_: Any) -> None:
    raise Slow


def main() -> int:
    """Run and print the summary; the exit code is 1 if a file ended badly."""
    arguments = argparse.ArgumentParser(description="Read many damaged files.")
    arguments.add_argument("kind", choices=("trajectories", "scenarios"))
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--first-seed", type=int, default=0)
    chosen = arguments.parse_args()
    sys.path.insert(0, str(SUPPORT))
    import damaged_files as d

    counts: Counter[str] = Counter()
    slowest = 0.0
    signal.signal(signal.SIGALRM, _too_slow)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.kind == "trajectories":
            originals, change, outcome = d.trajectory_files(folder), d.damaged, d.trajectory_outcome
            target = folder / "damaged.npz"
        else:
            originals, change, outcome = d.scenario_files(), d.scenario_mutant, d.scenario_outcome
            target = folder / "mutant.toml"
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.count):
            target.write_bytes(change(originals[seed % len(originals)], seed))
            began = time.process_time()
            signal.setitimer(signal.ITIMER_REAL, LONGEST)
            try:
                result = outcome(target)
            except (Exception, Slow) as error:
                result = f"{type(error).__name__}: {str(error)[:300]}"
            signal.setitimer(signal.ITIMER_REAL, 0)
            seconds = time.process_time() - began
            slowest = max(slowest, seconds)
            if seconds > SECONDS:
                result = f"took {seconds:.1f} s"
            if result not in ("trajectory", "scenario", "error"):
                print(f"seed {seed}: {result}", flush=True)
                result = "failure"
            counts[result] += 1
            for left in folder.glob(".*.tmp"):
                with contextlib.suppress(OSError):
                    left.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    good = counts["trajectory"] + counts["scenario"]
    print(
        f"{chosen.count} {chosen.kind}: {good} read, {counts['error']} refused, "
        f"{counts['failure']} failures; slowest {slowest:.2f} s, at most {peak:.0f} MB, "
        f"{time.monotonic() - start:.0f} s in all"
    )
    return 1 if counts["failure"] or peak > MEGABYTES else 0


if __name__ == "__main__":
    sys.exit(main())
