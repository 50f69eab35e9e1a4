"""Commands that run something: `phipsi simulate` a robot or a scenario, `phipsi study` a study.

They report the result and write files.
"""

from __future__ import annotations

import runpy
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import App, Parameter

from phipsi.cli.common import (
    FAILED,
    INTERRUPTED,
    SOURCE,
    ModelSource,
    Outs,
    aligned,
    command,
    print_error,
    print_line,
)
from phipsi.cli.notes import print_notes

if TYPE_CHECKING:
    from phipsi.scenarios import Scenario
    from phipsi.simulation import Trajectory
    from phipsi.studies import Study, StudyResults

_MOST_JOINTS = 60
_MOST_EVENTS = 10
_MOST_NAMES = 20
_GROWN, _ROUNDING = 0.1, 1e-9  # of the largest kinetic energy, and of the energy
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
        Time to simulate, s. Required for robots.
    integrator
        Adaptive steps: dopri (default), radau, lsoda. Fixed steps: rk4, semi_implicit,
        implicit_midpoint, variational.
    dt
        Time step of the fixed-step integrators, s.
    rtol
        Relative tolerance of the adaptive integrators.
    atol
        Absolute tolerance of the adaptive integrators.
    every
        Time between recorded samples, s; by default every step is recorded.
    """

    duration: float | None = None
    integrator: str | None = None
    dt: float | None = None
    rtol: float | None = None
    atol: float | None = None
    every: Annotated[float | None, Parameter(name="--output-every")] = None

    def applied(self, scenario: Scenario, **more: Any) -> Scenario:
        """The scenario with these options and more, where they are given."""
        from phipsi.simulation import METHODS

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
    out: Outs = None,
    joint_properties: bool | None = None,
    gravity: Vector = None,
    source: ModelSource = SOURCE,
) -> int:
    """Simulate a robot or a scenario, print a summary, and write the trajectory to files.

    Let an arm fall for two seconds; save the trajectory, and a report with plots and animation:

        phipsi simulate seven_joint_arm --set shoulder_pitch=60deg --duration 2 -o fall.npz -o fall.html

    Use fixed steps, and record a table every 10 ms, with the damping and joint limits of the file:

        phipsi simulate arm.urdf --duration 5 --integrator rk4 --dt 1e-3 --output-every 0.01 --joint-properties -o run.csv

    Run a scenario, a TOML file that adds springs, controllers and events (docs/scenarios.md); options
    override its settings:

        phipsi simulate swing.toml --duration 20

    Ctrl-C stops the simulation and writes the trajectory up to then (exit code 130). If the
    simulation diverges, the trajectory before is written (exit code 1). Wrong names and options
    give exit code 2.

    Parameters
    ----------
    file
        A robot file (URDF, SDF or MJCF), the name of a robot that ships with phipsi, or a scenario
        (.toml).
    set
        Initial position of a joint, in rad or m: elbow=0.5, elbow=30deg, or one number per
        coordinate: base=1,0,0,0,0,0,0.8. Repeat it for several joints; by default neutral.
    set_velocity
        Initial velocity of a joint, in rad/s or m/s, in the same way; by default 0.
    out
        File to write: .npz (the whole trajectory), .csv (table), .html (report with plots and
        animation), .png, .svg or .pdf (figure). Repeat it for several files.
    joint_properties
        Apply the damping, friction and joint limits of the file.
    gravity
        Gravity as three numbers, m/s², in world axes; by default that of the robot.
    """  # noqa: E501
    from phipsi.errors import InputError
    from phipsi.files import assignments
    from phipsi.scenarios import checked_output
    from phipsi.simulation import from_model

    q, v = assignments(set or (), "--set"), assignments(set_velocity or (), "--set-velocity")
    outputs = tuple(checked_output(path) for path in out or ())
    is_scenario = file.suffix.lower() == ".toml"
    if not is_scenario and changes.duration is None:
        raise InputError("a robot needs the time to simulate, in seconds: add  --duration 2")
    only_robots = {"gravity": gravity, "joint_properties": joint_properties} if is_scenario else {}
    scenario = scenario_of(file, source, q, v, **only_robots)
    if gravity is not None:
        scenario = replace(scenario, model=scenario.model.with_gravity(gravity))
    if joint_properties:
        scenario = replace(scenario, forces=from_model(scenario.model))
    if not is_scenario:
        given = bool(joint_properties)
        print_notes(scenario.model, file, joint_properties=given, q=scenario.q0)
    title = scenario.title or scenario.model.name or file.stem
    return _run(changes.applied(scenario, title=title, outputs=outputs or None))


def scenario_of(file: Path, source: ModelSource, q: Any, v: Any, **only_robots: object) -> Scenario:
    """A scenario by its file, or a robot on which nothing acts yet, from a state by joints.

    Options in `only_robots` are rejected for a scenario, which says them in its file.
    """
    from phipsi.files import initial_state
    from phipsi.scenarios import Scenario, load_scenario

    if file.suffix.lower() == ".toml":
        source.reject_for_scenario(**only_robots)
        return load_scenario(file, package_dirs=source.package_dirs, coordinates=q, velocities=v)
    model = source.robot(file)
    return Scenario(model, *initial_state(model, (q, v, None)), 0.0)


class _Steps:
    """Counts the steps of a run on their way to the progress bar."""

    def __init__(self, duration: float) -> None:
        from phipsi.support import make_progress

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
    from phipsi.simulation import Trajectory

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
            print_error(f"warning: {warning.message}")
    if not len(trajectory):
        raise InputError(failure or "the run recorded nothing")
    for line in summary(scenario, trajectory, steps, seconds):
        print_line(line)
    if not failure and (grown := _grown(scenario, trajectory)):
        print_error(grown)
    written = scenario.write(trajectory)
    for path in written:
        print_line(f"written       {path}")
    end = f"t = {trajectory.t[-1]:.6g} of {scenario.duration:.6g} s"
    kept = "the results up to then were written" if written else "nothing was written (no --out)"
    if interrupted:
        print_error(f"interrupted at {end}; {kept}.")
        return INTERRUPTED
    if failure:
        text = failure.partition("\nerror.trajectory")[0]  # advice for Python
        print_error(f"{text}\nIt got to {end}; {kept}.")
        return FAILED
    return 0


def summary(scenario: Scenario, trajectory: Trajectory, steps: _Steps, seconds: float) -> list[str]:
    """The result of a run, as lines; `seconds` it took after its first step, which compiles."""
    from phipsi.algorithms import kinetic_energy
    from phipsi.errors import shown
    from phipsi.pages import sizes_of
    from phipsi.simulation import DT, METHODS, RTOL

    model = trajectory.model
    method = METHODS[trajectory.integrator]
    rtol, dt = (x if y is None else y for x, y in ((RTOL, scenario.rtol), (DT, scenario.dt)))
    how = f"rtol {rtol:g}" if method.is_adaptive else f"dt {dt:g} s"
    span = float(trajectory.t[-1])
    compiled = steps.first - steps.start
    speed = f"{seconds:.3g} s, {span / seconds:.3g}× real time" if seconds > 0 else "0 s"
    speed += f", after {compiled:.3g} s of compiling" if compiled > _LONG else ""
    lines = [
        f"{shown(scenario.title)}: {sizes_of(model)}",
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


def _grown(scenario: Scenario, trajectory: Trajectory) -> str:
    """A warning if the energy grows where nothing can add any; "" if not."""
    from phipsi.algorithms import kinetic_energy
    from phipsi.simulation import METHODS, forces

    passive = forces.JointDamper, forces.JointFriction, forces.JointLimit
    if scenario.controller is not None or not all(isinstance(x, passive) for x in scenario.forces):
        return ""
    energy = trajectory.energy
    gain = float((energy - energy[0]).max())
    size = kinetic_energy(trajectory.model, trajectory.q, trajectory.v).max()
    if scenario.events or not gain > max(_GROWN * size, _ROUNDING * abs(energy).max()):
        return ""
    adaptive = METHODS[trajectory.integrator].is_adaptive
    finer = "--rtol 1e-9" if adaptive else "--integrator dopri, or a smaller --dt"
    return (
        f"warning: the energy grew by {gain:.3g} J, though nothing drives the robot: the steps are "
        f"too long for the motion, or for stiff joint limits. Add  {finer}"
    )


def _final_state(trajectory: Trajectory) -> list[str]:
    from phipsi.errors import shown
    from phipsi.files import joint_values

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


# ---- studies -------------------------------------------------------------------------------------

study_app = App(
    name="study",
    help="""Monte Carlo studies: run many simulations with random samples, and analyse them.

    FILE is a Python file that defines `study = pp.Study(…)`, or a scenario with a table `[study]`.
    """,
    help_format="markdown",
)


@command
def run(
    file: Path,
    /,
    *,
    folder: Path | None = None,
    workers: int = 1,
    executor: str = "local",
    retries: int = 2,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    shared_folder: bool = False,
) -> int:
    """Run a study, or resume it: only runs without results are computed.

    Parameters
    ----------
    file
        A Python file that defines `study = pp.Study(…)`, or a scenario (.toml) with `[study]`.
    folder
        Folder for the results; by default NAME.study next to the file.
    workers
        Number of worker processes.
    executor
        local, dask, or the address of a Dask scheduler (tls://…).
    retries
        How often a block of runs is retried after its process has died.
    time_limit
        Time limit for one block of runs, s.
    memory_limit
        Memory limit of one worker, bytes.
    shared_folder
        Let the workers of a cluster write results directly; they must see the folder at the same
        path.
    """
    with _plain_warnings():
        study = _study_of(file)
        target = folder or file.with_suffix(".study")
        found = study.run(
            target, workers=workers, executor=executor, retries=retries, time_limit=time_limit,
            memory_limit=memory_limit, shared_folder=shared_folder,
        )  # fmt: skip
    _describe(found)
    if found.interrupted:
        return INTERRUPTED
    return 0 if found.complete else FAILED


@command
def status(folder: Path, /) -> int:
    """Show the progress and the results so far of a study; it may still be running.

    Parameters
    ----------
    folder
        The results folder of a study.
    """
    from phipsi.studies import load_results

    with _plain_warnings():
        found = load_results(folder, check=True)
    _describe(found)
    return 0


@command
def report(folder: Path, page: Path | None = None, /) -> int:
    """Write an HTML report of a study: distributions, bands over time, sensitivities.

    Parameters
    ----------
    folder
        The results folder of a study.
    page
        The HTML file to write; by default report.html in the folder.
    """
    from phipsi.pages import study_report
    from phipsi.studies import load_results

    with _plain_warnings():
        found = load_results(folder, check=True)
    target = study_report(found, page or folder / "report.html")
    print_line(f"{target}")
    return 0


@command
def show(file: Path, number: int, page: Path | None = None, /) -> int:
    """Repeat one run of a study, bitwise identically, and write its HTML report.

    Parameters
    ----------
    file
        The file of the study.
    number
        The number of the run, such as the worst one.
    page
        The HTML file to write; by default NAME-run-NUMBER.html next to the file.
    """
    from phipsi.pages import report

    study = _study_of(file)
    target = page or file.with_name(f"{file.stem}-run-{number}.html")
    samples = study.distributions.values(number, 1) if number in range(study.count) else {}
    about = ", ".join(f"{name} = {x[0]}" for name, x in samples.items())
    report(study.trajectory(number), target, title=f"Run {number} of {file.name}: {about[:200]}")
    print_line(f"{target}")
    return 0


study_app.command(run)
study_app.command(run, name="resume")
study_app.command(status)
study_app.command(report)
study_app.command(show)


def _study_of(file: Path) -> Study:
    from phipsi.errors import InputError, shown
    from phipsi.studies import Study

    if file.suffix == ".toml":
        from phipsi.scenarios import load_scenario

        return load_scenario(file).to_study()
    if file.suffix != ".py" or not file.is_file():
        raise InputError(
            f"{file} is not a Python file that defines  study = pp.Study(…), nor a scenario (.toml)"
        )
    beside = str(file.resolve().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)  # as for  python FILE
    found = runpy.run_path(str(file), run_name="__study__").get("study")
    if not isinstance(found, Study):
        what = "nothing" if found is None else shown(type(found).__name__)
        raise InputError(f"{file} defines {what} as `study`; it must be a  pp.Study(…)")
    return found


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings of the library as lines of their own, without the place in the code."""
    from phipsi.errors import PhipsiWarning

    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, PhipsiWarning):
            print_error(f"warning: {message}")
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", PhipsiWarning)
        warnings.showwarning = show
        yield


def _describe(found: StudyResults) -> None:
    import numpy as np

    from phipsi.errors import InputError, shown

    there = len(found) if found.names else 0
    rows = [("runs", f"{there} of {found.count}")]
    if there:
        rows.append(("failed", str(found.failed.size)))
    if found.quarantined:
        listed = ", ".join(map(str, sorted(found.quarantined)[:_MOST_NAMES]))
        rows.append(("quarantined", f"blocks {listed}"))
    for name in found.metrics[:_MOST_NAMES]:
        if found[name].ndim == 1:
            try:
                never = np.isinf(found[name]).any()
                value = np.isfinite(found[name]) if never else found[name]
                failed_as = False if value.dtype == bool else "skip"
                guess = found.estimate(value, failed=failed_as)
                between = f"{guess.low:.4g} to {guess.high:.4g}"
                what = "happens in a share of " if never else ""
                text = f"{what}{guess.value:.4g}, with 95 % confidence {between}"
                text += f" ({guess.failures})" if guess.failed else ""
            except InputError as error:
                text = shown(error, 200)
            rows.append((shown(name)[:60], text))
    for line in aligned(rows):
        print_line(line)
    for number in found.failed[:_MOST_NAMES] if there else ():
        print_error(f"run {number}: {shown(found.reason(number), 300)}")
    for block, why in sorted(found.quarantined.items())[:_MOST_NAMES]:
        print_error(f"block {block}: {shown(why.splitlines()[0])}")
