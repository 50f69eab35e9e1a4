"""Scenario: everything a run needs, from a TOML file or the command line.

    scenario = pp.load_scenario("swing.toml")
    trajectory = scenario.simulate()
    scenario.write(trajectory)

docs/scenarios.md shows all that a file may say.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model
from phipsi.errors import InputError, counted
from phipsi.simulation import DT, SIMULATED, Event, Force, Simulator, Trajectory, simulate
from phipsi.studies import Study
from phipsi.support import atomic_write, checked_target, path_of

_MOST_OUTPUTS = 10_000_000


@final
@dataclass(frozen=True)
class Scenario:
    """A repeatable simulation: the model, its initial state, and all arguments of `simulate`.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    q0, v0 : ndarray, shape (nq,) and (nv,)
        Initial state.
    duration : float
        Length of the simulation, s.
    integrator, dt, rtol, atol : optional
        As for `phipsi.simulate`.
    every : float, optional
        Time between recorded samples, s; None for every step.
    controller, forces, events : optional
        As for `phipsi.simulate`.
    outputs : tuple of Path, optional
        Files to write.
    title : str, optional
        Title.
    study : mapping, optional
        Arguments of `pp.Study` by name, if the file has such a table.
    """

    model: Model
    q0: NDArray[np.float64]
    v0: NDArray[np.float64]
    duration: float
    integrator: str = "dopri"
    dt: float | None = None
    rtol: float | None = None
    atol: float | None = None
    every: float | None = None
    controller: Any = None
    forces: Sequence[Force] = ()
    events: Sequence[Event] = ()
    outputs: tuple[Path, ...] = ()
    title: str = ""
    study: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        acting = f", {counted(len(self.laws), 'law')}" if self.laws else ""
        of = f"{self.model!r}, {self.duration:g} s, {self.integrator}"
        return f"<Scenario{title} of {of}{acting}>"

    @property
    def is_conservative(self) -> bool:
        """Whether nothing but gravity acts, so that the energy must not change."""
        return not self.laws

    @property
    def laws(self) -> list[Any]:
        """All that acts besides gravity: forces, and then the controller."""
        return [*self.forces, *([] if self.controller is None else [self.controller])]

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

    def simulator(self, per_trajectory: Sequence[str] = ()) -> Simulator:
        """The simulation as a `Simulator`, for batches and studies.

        It needs fixed steps; events are not part of it.

        Parameters
        ----------
        per_trajectory : sequence of str, optional
            As for `Simulator`.

        Returns
        -------
        Simulator
            The simulator.
        """
        if self.integrator not in SIMULATED:
            raise InputError(
                f"the scenario has the adaptive integrator {self.integrator!r}, but a Simulator "
                "needs a fixed step. Write, for example:\n"
                '    integrator = { name = "rk4", dt = 1e-3 }'
            )
        dt = DT if self.dt is None else self.dt
        return Simulator(
            self.model, self.laws, dt, integrator=self.integrator, per_trajectory=per_trajectory
        )

    def to_study(self, **options: Any) -> Study:
        """The study of the file's table `[study]`; `options` of `pp.Study` change it.

        >>> import tempfile, pathlib, phipsi as pp
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "fall.toml"
        >>> _ = file.write_text('''
        ... model = "seven_joint_arm"
        ... duration = 0.1
        ... integrator = { name = "rk4", dt = 1e-3 }
        ... [study]
        ... runs = 100
        ... [study.distributions]
        ... "q.shoulder_pitch" = { normal = [0.7, 0.1] }
        ... ''')
        >>> pp.load_scenario(file).to_study()
        <Study of 100 runs of 100 steps: q.shoulder_pitch>
        """
        given = {**(self.study or {}), **options}
        if "distributions" not in given:
            raise InputError(
                "the scenario has no table [study] with distributions. For example:\n"
                "    [study]\n    runs = 1000\n    [study.distributions]\n"
                '    "q.elbow" = { normal = [0.0, 0.1] }'
            )
        return Study(self, given.pop("distributions"), **given)

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
                f"output every {self.every:g} s in {self.duration:g} s are {count:.2g} samples, "
                f"but at most {_MOST_OUTPUTS:.0e} can be recorded. Record less often."
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


# ---- files to write, by their suffix -------------------------------------------------------------

# suffix -> what it is
KINDS = {
    ".npz": "everything, the model included, for pp.Trajectory.load",
    ".csv": "columns with names, for other programs",
    ".html": "a report with plots and an animation",
    ".png": "a figure",
    ".svg": "a figure",
    ".pdf": "a figure",
}


def checked_output(path: str | os.PathLike[str]) -> Path:
    """A path that can be written to, found out before a long run."""
    out = path_of(path)
    if out.suffix.lower() not in KINDS:
        listed = "\n".join(f"    {suffix:6} {what}" for suffix, what in KINDS.items())
        raise InputError(
            f"{out}: the suffix determines the format, and it must be one of\n{listed}"
        )
    checked_target(out)
    if out.suffix.lower() in (".png", ".svg", ".pdf"):
        _matplotlib()
    return out


def write_output(trajectory: Trajectory, path: Path, *, title: str = "") -> None:
    """Write a trajectory as what the suffix says; it is whole or not there."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        trajectory.save(path)
    elif suffix == ".html":
        from phipsi.pages import report

        report(trajectory, path, title=title)
    else:
        with atomic_write(path) as part:
            if suffix == ".csv":
                trajectory.to_csv(part)
            else:
                _save_figure(trajectory, part)


def _save_figure(trajectory: Trajectory, path: Path) -> None:
    plt = _matplotlib()
    figure = trajectory.plot()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _matplotlib() -> Any:
    """The pyplot module, drawing to files only: a run need not have a screen."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise InputError(
            'figures need matplotlib, which is not installed:  pip install "phipsi[plot]"'
        ) from error
    return plt
