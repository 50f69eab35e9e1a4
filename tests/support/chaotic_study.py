"""A study that a driver process runs while a test kills its workers and the driver itself.

python chaotic_study.py FOLDER LOG WORKERS        runs the study, or goes on with it
"""

import os
import sys
from typing import Any

import numpy as np
from scipy.stats import norm

import phipsi as pp

RUNS, BLOCK = 1000, 20


def make() -> pp.Simulator:
    return pp.Simulator(pp.examples.planar_arm(2), dt=1e-3)


def study(log: str | None = None) -> pp.Study:
    """A thousand arms; blocks write into a log that they are done."""

    def outcome(run: Any, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if log is not None:
            first = repr(float(draws["q"][0, 0]))
            handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{first}\n".encode())
            os.close(handle)
        return {"reach": np.cos(run.q[:, -1, 0])}

    draws = {"q": norm([0.3, 0.0], 0.2)}
    return pp.Study(make, draws, steps=1000, every=100, runs=RUNS, block=BLOCK, outcome=outcome)


if __name__ == "__main__":
    folder, log, workers = sys.argv[1:4]
    study(log).run(folder, workers=int(workers), retries=50, progress=False)
