"""`phipsi simulate`: run a robot or a scenario, report the result, and write files."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from phipsi.interfaces.cli.common import (
    BAD_USAGE,
    FAILED,
    INTERRUPTED,
    SOURCE,
    Files,
    Source,
    aligned,
    command,
    complain,
    say,
)

if TYPE_CHECKING:
    from phipsi.interfaces.scenarios.scenario import Scenario
    from phipsi.trajectory.trajectory import Trajectory

_MOST_JOINTS = 60
_MOST_EVENTS = 10
_LONG = 0.5  # s of compiling that are reported
Several = Annotated[list[str] | None, Parameter(negative=())]
Vector = Annotated[tuple[float, float, float] | None, Parameter(negative=())]


@Parameter(name="*")
@dataclass(frozen=True)
class Changes:
    """Options of a run, which change those of a scenario.

    Parameters
    ----------
    duration
        Seconds to simulate.
    integrator
        dopri, radau, lsoda (choose their steps), rk4, semi_implicit, implicit_midpoint, variational
        (fixed).
    dt
        Step of the fixed-step integrators, s.
    rtol
        Relative tolerance of the others.
    atol
        Absolute tolerance of the others.
    every
        Seconds between recorded samples; by default every step is recorded.
    """

    duration: float | None = None
    integrator: str | None = None
    dt: float | None = None
    rtol: float | None = None
    atol: float | None = None
    every: Annotated[float | None, Parameter(name="--output-every")] = None

    def applied(self, scenario: Scenario, **more: Any) -> Scenario:
        """The scenario with these options and more, where they are given."""
        from phipsi.motion.tableaux import METHODS

        given = {k: value for k, value in {**vars(self), **more}.items() if value is not None}
        method = METHODS.get(given.get("integrator", ""))
        if method is not None:  # what the file says to another integrator
            for name in ("dt",) if method.is_adaptive else ("rtol", "atol"):
                given.setdefault(name, None)
        return replace(scenario, **given)


_CHANGES = Changes()


@command
def simulate(
    file: Path,
    /,
    *,
    changes: Changes = _CHANGES,
    set: Several = None,
    set_velocity: Several = None,
    out: Files = None,
    ratings: bool | None = None,
    gravity: Vector = None,
    source: Source = SOURCE,
) -> int:
    """Simulate a robot or a scenario, report the result, and write it to files.

    An arm that falls for two seconds, kept with its model and as a page to look at:

        phipsi simulate seven_joint_arm --set shoulder_pitch=60deg --duration 2 --out fall.npz --out fall.html

    Fixed steps, recorded every 10 ms as a table; damping and limits as the file says:

        phipsi simulate arm.urdf --duration 5 --integrator rk4 --dt 1e-3 --output-every 0.01 --ratings --out run.csv

    Springs, controllers and events are for scenarios (docs/scenarios.md); options change them:

        phipsi simulate swing.toml --duration 20

    Ctrl-C ends the run and keeps what there is (exit code 130). A run that diverges keeps
    everything before (exit code 1). Wrong names and options are exit code 2.

    Parameters
    ----------
    file
        A robot file (URDF, SDF, MJCF), a robot that ships with phipsi, or a scenario (.toml).
    set
        Initial coordinate of a joint, in rad or m: elbow=0.5, elbow=30deg, or one number per
        coordinate: base=1,0,0,0,0,0,0.8. Several times for several joints; the others are neutral.
    set_velocity
        Initial rate of a joint, in rad/s or m/s, in the same way; the others rest.
    out
        File to write: .npz (everything), .csv (table), .html (report with plots and animation),
        .png, .svg or .pdf (figure). Several times for several files.
    ratings
        Apply damping, friction and joint limits that the file gives.
    gravity
        Three numbers, m/s², world axes; by default those of the robot.
    """  # noqa: E501
    from phipsi.errors import InputError
    from phipsi.interfaces.scenarios.joint_values import assignments
    from phipsi.interfaces.scenarios.scenario import checked_output

    q, v = assignments(set or (), "--set"), assignments(set_velocity or (), "--set-velocity")
    outputs = tuple(checked_output(path) for path in out or ())
    if file.suffix.lower() == ".toml":
        for_robots = {"base": source.base, "model": source.model}
        for name, value in (for_robots | {"gravity": gravity, "ratings": ratings}).items():
            if value is not None:
                raise InputError(f"--{name} is for robot files; in a scenario say it in the file.")
        from phipsi.interfaces.scenarios.load_scenario import load_scenario

        dirs = source.package_dirs
        scenario = load_scenario(file, package_dirs=dirs, coordinates=q, rates=v)
    else:
        if changes.duration is None:
            complain("say how long to simulate, in seconds:  --duration 2")
            return BAD_USAGE
        scenario = _of_robot(source.robot(file), q, v, changes.duration, gravity, bool(ratings))
    title = scenario.title or scenario.model.name or file.stem
    return _run(changes.applied(scenario, title=title, outputs=outputs or None))


def _of_robot(model: Any, q: Any, v: Any, duration: float, gravity: Any, ratings: bool) -> Scenario:
    from phipsi.forces import from_ratings
    from phipsi.interfaces.scenarios.joint_values import initial_state
    from phipsi.interfaces.scenarios.scenario import Scenario

    if gravity is not None:
        model = model.with_gravity(gravity)
    q0, v0 = initial_state(model, (q, v, None))
    return Scenario(model, q0, v0, duration, forces=from_ratings(model) if ratings else ())


class _Steps:
    """Counts the steps of a run on their way to the progress bar."""

    def __init__(self, duration: float) -> None:
        from phipsi.progress import make_progress

        self.count, self._t = 0, 0.0
        self.start = self.first = time.perf_counter()  # of the run, and end of its first step
        self._bar = make_progress(None, duration)

    def update(self, n: float) -> None:
        """One step of n simulated seconds."""
        self.count += 1
        self._t += n
        if self.count == 1:
            self.first = time.perf_counter()
        self._bar.advance(self._t)

    def refresh(self) -> None:
        """The run is over."""
        self._bar.close()


def _run(scenario: Scenario) -> int:
    from phipsi.errors import InputError, PhipsiWarning, SimulationError
    from phipsi.trajectory.trajectory import Trajectory

    steps = _Steps(scenario.duration)
    failure = ""
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always", PhipsiWarning)
        try:
            trajectory = scenario.simulate(steps)
        except SimulationError as error:
            failure, trajectory = str(error), cast(Trajectory, error.trajectory)
    seconds = time.perf_counter() - steps.first
    interrupted = not failure and not trajectory.complete
    for warning in reported:
        if not interrupted or "interrupted" not in str(warning.message):
            complain(f"warning: {warning.message}")
    if not len(trajectory):
        raise InputError(failure or "the run recorded nothing")
    for line in summary(scenario, trajectory, steps, seconds):
        say(line)
    written = scenario.write(trajectory)
    for path in written:
        say(f"written       {path}")
    end = f"t = {trajectory.t[-1]:.6g} of {scenario.duration:.6g} s"
    kept = "what there is up to then was written" if written else "nothing was written (no --out)"
    if interrupted:
        complain(f"interrupted at {end}; {kept}.")
        return INTERRUPTED
    if failure:
        text = failure.partition("\nerror.trajectory")[0]  # advice for Python
        complain(f"{text}\nIt got to {end}; {kept}.")
        return FAILED
    return 0


def summary(scenario: Scenario, trajectory: Trajectory, steps: _Steps, seconds: float) -> list[str]:
    """The result of a run, as lines; `seconds` it took after its first step, which compiles."""
    from phipsi.algorithms.dynamics.energy import kinetic_energy
    from phipsi.errors import shown
    from phipsi.motion.tableaux import METHODS
    from phipsi.simulation.run_options import DT, RTOL

    model = trajectory.model
    method = METHODS[trajectory.integrator]
    rtol, dt = (x if y is None else y for x, y in ((RTOL, scenario.rtol), (DT, scenario.dt)))
    how = f"rtol {rtol:g}" if method.is_adaptive else f"dt {dt:g} s"
    span = float(trajectory.t[-1])
    compiled = steps.first - steps.start
    speed = f"{seconds:.3g} s, {span / seconds:.3g}× real time" if seconds > 0 else "0 s"
    speed += f", after {compiled:.3g} s of compiling" if compiled > _LONG else ""
    lines = [
        f"{shown(scenario.title)}: {model.n_bodies} bodies, nq = {model.nq}, nv = {model.nv}",
        f"simulated     {span:.6g} s in {speed}; {steps.count} steps of "
        f"{trajectory.integrator} ({how}), {len(trajectory)} samples",
    ]
    energy = trajectory.energy
    largest = float(kinetic_energy(model, trajectory.q, trajectory.v).max())
    if scenario.is_conservative:
        drift = float(abs(energy - energy[0]).max())
        share = f", {drift / largest:.2g} of the largest kinetic energy" if largest > 0 else ""
        lines.append(f"energy        {energy[0]:.9g} J, drift at most {drift:.2g} J{share}")
    else:
        lines.append(f"energy        {energy[0]:.6g} J at the start, {energy[-1]:.6g} J at the end")
    if scenario.events:
        lines.append(f"events        {len(trajectory.events) or 'none'}")
        lines += [
            f"              {shown(event.name)} at t = {event.t:.9g} s"
            for event in trajectory.events[:_MOST_EVENTS]
        ]
        if len(trajectory.events) > _MOST_EVENTS:
            lines.append(f"              … and {len(trajectory.events) - _MOST_EVENTS} more")
    return lines + _final_state(trajectory)


def _final_state(trajectory: Trajectory) -> list[str]:
    from phipsi.errors import shown
    from phipsi.interfaces.scenarios.joint_values import joint_values

    rows = joint_values(trajectory.model, trajectory.q[-1], trajectory.v[-1])
    listed = rows[:_MOST_JOINTS]
    cells = [(shown(name)[:40], _numbers(q), _numbers(v)) for name, _, q, v in listed]
    lines = [f"state at the end, t = {trajectory.t[-1]:.6g} s"]
    lines += [
        f"    {line}" for line in aligned([("joint", "q (rad, m)", "v (rad/s, m/s)"), *cells])
    ]
    if len(rows) > len(listed):
        lines.append(f"    … and {len(rows) - len(listed)} more joints")
    return lines


def _numbers(values: Any) -> str:
    return " ".join(f"{x: .6g}" for x in values)
