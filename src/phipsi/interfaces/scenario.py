"""Scenario: everything a run needs, from a TOML file or the command line.

    scenario = pp.load_scenario("swing.toml")
    trajectory = scenario.simulate()
    scenario.write(trajectory)

docs/scenarios.md shows all that a file may say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError
from phipsi.interfaces.scenario_outputs import write_output
from phipsi.model import Model
from phipsi.simulation.events import Event
from phipsi.simulation.force import Force
from phipsi.simulation.run import simulate
from phipsi.simulation.trajectory import Trajectory

_MOST_OUTPUTS = 10_000_000


@final
@dataclass(frozen=True)
class Scenario:
    """A run that can be repeated: the model, its initial state, and all arguments of `simulate`.

    **Attributes:** `model`; `q0` (nq,), `v0` (nv,); `duration`, s; `integrator`, `dt`, `rtol`,
    `atol`, `controller`, `forces`, `events` as in `phipsi.simulate`; `every`, s between recorded
    samples, None for every step; `outputs`, files to write; `title`.
    """

    model: Model
    q0: NDArray[np.float64]
    v0: NDArray[np.float64]
    duration: float
    integrator: str = "dopri"
    dt: float = 1e-3
    rtol: float = 1e-9
    atol: float = 1e-12
    every: float | None = None
    controller: Any = None
    forces: Sequence[Force] = ()
    events: Sequence[Event] = ()
    outputs: tuple[Path, ...] = ()
    title: str = ""

    @property
    def is_conservative(self) -> bool:
        """Whether nothing but gravity acts, so that the energy must not change."""
        return self.controller is None and not self.forces

    def simulate(self, progress: Any = None) -> Trajectory:
        """Run it; see `phipsi.simulate`, also for `progress`."""
        return simulate(
            self.model,
            self.q0,
            self.v0,
            self.duration,
            controller=self.controller,
            integrator=self.integrator,
            dt=self.dt,
            rtol=self.rtol,
            atol=self.atol,
            output_times=self.output_times(),
            events=self.events,
            forces=self.forces,
            progress=progress,
        )

    def output_times(self) -> NDArray[np.float64] | None:
        """Multiples of `every` within the duration, and the end."""
        if self.every is None:
            return None
        if not 0 < self.every < np.inf:
            raise InputError(
                f"output every {self.every!r} s: it must be a positive time, like 0.01"
            )
        count = self.duration / self.every
        if count > _MOST_OUTPUTS:
            raise InputError(
                f"output every {self.every:g} s in {self.duration:g} s are {count:.2g} samples; "
                f"more than {_MOST_OUTPUTS:.0e} do not fit. Record less often."
            )
        whole = int(count * (1 + 1e-12))
        times = np.minimum(self.every * np.arange(whole + 1), self.duration)
        if times[-1] < self.duration * (1 - 1e-9):
            times = np.append(times, self.duration)
        return times

    def write(self, trajectory: Trajectory) -> tuple[Path, ...]:
        """Write the trajectory to all `outputs`, and return them."""
        for path in self.outputs:
            write_output(trajectory, path, title=self.title)
        return self.outputs
