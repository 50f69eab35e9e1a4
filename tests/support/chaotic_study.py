"""A study that a driver process runs while a test kills its workers and the driver itself.

python chaotic_study.py FOLDER LOG EXECUTOR        runs the study, or goes on with it

The last blocks wait for the file LOG.go: nobody is done before all kills are.
"""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from amounts import ALL

import phipsi as pp
from phipsi.native.targets.target import host_target

RUNS, BLOCK = 1000, 20
STEPS = 1000 if ALL else 100
_WAITING = 0.8
"""The share of runs from which on blocks wait."""


class Logistic:
    """A frozen distribution as SciPy's are, which every process would need a second to import."""

    dist, kwds = SimpleNamespace(name="logistic"), dict[str, Any]()

    def __init__(self, middle: list[float], width: float) -> None:
        self.args = (middle, width)

    def ppf(self, u: Any) -> np.ndarray:
        """The value below which a share u is."""
        middle, width = self.args
        return np.asarray(middle) + width * np.log(u / (1 - np.asarray(u)))


def make() -> pp.Simulator:
    return pp.Simulator(pp.examples.planar_arm(2), dt=1e-3)


def study(log: str | None = None, *, waits: bool = False, **options: Any) -> pp.Study:
    """A thousand arms; blocks write into a log that they are done, and with how many lanes."""

    def metrics(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if log is not None:
            end = time.monotonic() + 120
            go = Path(f"{log}.go")
            if waits and not go.exists():
                time.sleep(0.2)
            while waits and run.state.first_trajectory >= _WAITING * RUNS and not go.exists():
                time.sleep(0.01)
                assert time.monotonic() < end
            handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{run.state.first_trajectory} {host_target().lanes}\n".encode())
            os.close(handle)
        return {"reach": np.cos(run.q[:, -1, 0])}

    given: Any = {
        "steps": STEPS,
        "record_every": STEPS // 10,
        "runs": RUNS,
        "block": BLOCK,
        **options,
    }
    return pp.Study(make, {"q": Logistic([0.3, 0.0], 0.1)}, metrics=metrics, **given)


def blocks_in(log: Path) -> list[int]:
    """The blocks that were computed, in this order, also those that were computed again."""
    return [int(line.split()[0]) // BLOCK for line in log.read_text().splitlines()]


if __name__ == "__main__":
    folder, log, executor = sys.argv[1:4]
    study(log, waits=True).run(folder, workers=2, executor=executor, retries=50, progress=False)
