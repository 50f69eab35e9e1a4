"""Export mechanisms with hostile names in every way, compile and run what was written, and report.

    python scripts/fuzz_exports.py --count 200
    python scripts/fuzz_exports.py --what c web fmu --first-seed 1000 --count 500

Names of robots, bodies, joints and frames are made of pieces that mean something in C, C++, Rust,
JavaScript, Markdown, CMake and XML. Code must be that of the same mechanism with plain names, tests
must say ok, and names that are data must arrive as they are (tests/support/hostile_names.py). Names
follow from the seed alone, so a failure is repeated with --first-seed SEED --count 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
NEEDS = {"cmake": "cmake", "rust": "rustc", "object": "g++"}


def main() -> int:
    """Run and print the summary; the exit code is 1 if an export ended badly."""
    sys.path.insert(0, str(SUPPORT))
    from hostile_names import CHECKS

    arguments = argparse.ArgumentParser(description="Export mechanisms with hostile names.")
    arguments.add_argument("--what", nargs="+", choices=tuple(CHECKS), default=list(CHECKS))
    arguments.add_argument("--count", type=int, default=100)
    arguments.add_argument("--first-seed", type=int, default=0)
    chosen = arguments.parse_args()
    failures = 0
    for what in chosen.what:
        needed = NEEDS.get(what, "gcc")
        if shutil.which(needed) is None:
            print(f"{what:7} left out: {needed} is not installed")
            continue
        start, bad = time.monotonic(), 0
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.count):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    CHECKS[what](seed, Path(folder))
                except Exception as error:  # whatever it is, it is a finding
                    bad += 1
                    print(f"{what} seed {seed}: {type(error).__name__}: {str(error)[:1000]}")
        failures += bad
        seconds = time.monotonic() - start
        print(f"{what:7} {chosen.count} exports, {bad} failures, {seconds:.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
