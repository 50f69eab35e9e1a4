"""Study: one simulator, many runs with random samples, and what is saved of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact import IMPULSES
from phipsi.core.model import as_list, whole_number
from phipsi.errors import (
    InputError,
    PhipsiError,
    no_attribute,
    one_of,
    shown,
    true_or_false,
)
from phipsi.simulation import (
    DT,
    Event,
    Rollout,
    Simulator,
    SimulatorState,
    Trajectory,
    recorded_run,
)
from phipsi.studies.block_driver import run_study
from phipsi.studies.block_sizes import BlockSizes, default_sizes
from phipsi.studies.distributions import Distributions, NamedSamples, RareEvent, subset_simulation
from phipsi.studies.function_reach import python_version, reach_of
from phipsi.studies.run_metrics import Metrics, RunMetrics, values_of
from phipsi.studies.simulator_digest import known_parts, simulator_digest
from phipsi.studies.study_functions import (
    RaisedInFunction,
    called,
    crossings,
    event_labels,
    recording_events,
)
from phipsi.studies.study_results import StudyResults, load_results
from phipsi.studies.study_scenario import StudyScenario

Array = NDArray[Any]
InitialState = Callable[[dict[str, Array]], Mapping[str, Any]]

SAVED: dict[str, Callable[[Array], Array]] = {
    "final": lambda x: x[:, -1],
    "smallest": lambda x: np.nanmin(x, axis=1),
    "largest": lambda x: np.nanmax(x, axis=1),
    "mean": lambda x: np.nanmean(x, axis=1),
    "trajectory": lambda x: x,
}
"""What can be saved of a record (runs, kept, *shape)."""
_ARRAYS = ("run", "t.final", "status", "failed_at", "rejected", "study", "file", "allow_pickle")
"""Names of arrays that every block has, and of what its file has besides."""
NOT_STARTED, RAISED = -1, -2
"""The status of a run whose start was rejected, and of one whose `metrics` raised an error."""


@final
class Study:
    """Monte Carlo study or parameter sweep: many runs of one simulator with sampled parameters.

    Each run is reproducible by its number alone. A run that diverges does not stop the others: its
    status tells.

    Parameters
    ----------
    simulator : Simulator, callable or Scenario
        A simulator, a function without arguments that makes one, or a scenario.
    distributions : mapping of str to distribution or list
        What differs between runs, by name: frozen distributions of SciPy, or lists of values that
        are all tried. Without `initial_state` the names are "q", "v", "t", "q.JOINT", "v.JOINT",
        those of parameters of the simulator, and with per_trajectory=("inertia",) "mass.BODY", kg,
        which scales the whole inertia of a body; a scenario also accepts "gravity".
    steps : int, optional
        Steps of every run. Default: those of the scenario.
    runs : int, optional
        Number of runs for every combination of listed values.
    initial_state : callable, optional
        ``initial_state(samples)``, a function from arrays (n, *shape) of samples by name to the
        arguments of `Simulator.initial_state`.
    record : sequence of str, optional
        Quantities of `Simulator.rollout`.
    record_every : int, optional
        Steps between records.
    save : sequence of str, optional
        What is saved of each record: "final", "smallest", "largest", "mean" over time, or
        "trajectory".
    events : sequence of Event, optional
        Events that only record. "event.NAME", s, is when a run first had it, linear between
        records, or infinity, and "event.NAME.count" how often.
    metrics : callable, optional
        ``metrics(rollout, samples)``, a function to further arrays (n, …) by name (quantities of
        interest).
    seed : int, optional
        Seed.
    sampling : {"random", "sobol", "latin_hypercube", "saltelli"}, optional
        How samples are drawn; "saltelli" for `StudyResults.sobol_indices`.
    block : int, optional
        Number of runs that are done together and are one file. Default: 8 in the first, and twice
        as many from block to block, up to 256, fewer where runs are long.
    reproducible : bool, optional
        Whether runs are bitwise identical on every processor, as for `Simulator`.

    Attributes
    ----------
    count : int
        Number of runs.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> from scipy.stats import norm
    >>> study = pp.Study(pp.Simulator(pp.examples.planar_arm(2)), {"q": norm([0.3, 0], 0.1)},
    ...                  steps=100, runs=1000)
    >>> study
    <Study of 1000 runs of 100 steps: q>
    >>> results = study.run()                            # without a folder: kept in memory
    >>> results["q.final"].shape, results.failed.size
    ((1000, 2), 0)
    """

    def __init__(
        self,
        simulator: Simulator | Callable[[], Simulator] | StudyScenario,
        distributions: Mapping[str, Any],
        *,
        steps: int | None = None,
        runs: int = 1,
        initial_state: InitialState | None = None,
        record: Sequence[str] = ("q", "v"),
        record_every: int = 1,
        save: Sequence[str] = ("final",),
        events: Sequence[Event] = (),
        metrics: Metrics | None = None,
        seed: int = 0,
        sampling: str = "random",
        block: int | None = None,
        reproducible: bool = False,
    ) -> None:
        self._scenario: StudyScenario | None = None
        if hasattr(simulator, "simulator") and hasattr(simulator, "q0"):
            self._scenario = scenario = cast("StudyScenario", simulator)
            dt = DT if scenario.dt is None else scenario.dt
            steps = round(scenario.duration / dt) if steps is None else steps
            events = (*scenario.events, *events)
        elif not isinstance(simulator, Simulator) and not callable(simulator):
            raise InputError(
                f"a study takes a Simulator, or a function that makes one, not {simulator!r}:\n"
                "    pp.Study(pp.Simulator(model, laws), distributions, steps=1000, runs=1000)"
            )
        if steps is None:
            raise InputError(
                "the length of the runs is missing. Pass steps=:  pp.Study(…, steps=1000)"
            )
        self._given, self.events = simulator, recording_events(events)
        self.steps = whole_number("steps", steps, 0)
        self.record_every = whole_number("record_every", record_every)
        self._block = None if block is None else whole_number("block", block)
        if isinstance(distributions, Mapping) and not distributions:
            raise InputError("distributions= is empty, so all runs would be the same")
        self.distributions = Distributions(
            distributions, whole_number("runs", runs), seed=seed, sampling=sampling
        )
        self.record = tuple(as_list("record", record, "['q', 'v']"))
        self.save = tuple(as_list("save", save, "['final']"))
        for name, x in (("initial_state", initial_state), ("metrics", metrics)):
            if x is not None and not callable(x):
                raise InputError(f"{name}={x!r} must be a function, or None")
        for word in self.save:
            one_of("save", word, SAVED)
        self._initial_state, self._metrics = initial_state, metrics
        self.reproducible = true_or_false("reproducible", reproducible)

    def __getstate__(self) -> dict[str, Any]:
        """What other processes need: they make their own simulator."""
        if isinstance(self._given, Simulator):
            raise TypeError(
                "a compiled simulator cannot be sent to other processes. Pass a function that "
                "makes it:  pp.Study(make_simulator, …)"
            )
        made = ("simulator", "definition", "_named", "_plan_text", "_sizes")
        return {name: x for name, x in self.__dict__.items() if name not in made}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, {"draws": "study.distributions"})

    def __repr__(self) -> str:
        names = ", ".join(self.distributions.names)
        return f"<Study of {self.count} runs of {self.steps} steps: {names}>"

    @property
    def count(self) -> int:
        """The number of runs."""
        return self.distributions.count

    @cached_property
    def _sizes(self) -> BlockSizes:
        if self._block is not None:
            return BlockSizes(self._block, self._block)
        return default_sizes(self.steps, self.simulator.model.nv)

    @property
    def block(self) -> int:
        """The runs of a block, at most."""
        return self._sizes.largest

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return self._sizes.blocks(self.count)

    @cached_property
    def simulator(self) -> Simulator:
        """The simulator, made when it is first needed."""
        if self._scenario is not None:
            given = (
                ("inertia",) if any(x.startswith("mass.") for x in self.distributions.names) else ()
            )
            given += ("gravity",) if "gravity" in self.distributions.names else ()
            made: Any = self._scenario.simulator(given)
        else:
            made = self._given if isinstance(self._given, Simulator) else cast(Any, self._given)()
        if not isinstance(made, Simulator):
            raise InputError(f"the function of a study made {made!r}, which is not a Simulator")
        if self.reproducible:
            made = made.as_reproducible()
        for name in self.record:
            made.shape_of(name)  # says which names there are
        if self.events and not {"q", "v"} <= {*self.record}:
            raise InputError('events need  record=("q", "v", …)')
        return made

    @cached_property
    def _named(self) -> NamedSamples | None:
        """What the names of samples mean, if there is no function `initial_state`."""
        if self._initial_state is not None:
            return None
        at = self._scenario
        first = (None, None) if at is None else (at.q0, at.v0)
        return NamedSamples(self.simulator, self.distributions.names, *first)

    def run(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        workers: int = 1,
        executor: Any = "local",
        retries: int = 2,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        shared_folder: bool = False,
        progress: Any = None,
    ) -> StudyResults:
        """Run what is missing, and return the results.

        Parameters
        ----------
        folder : str or path, optional
            Folder where blocks are written as they finish: an interrupted study resumes from
            completed blocks. Default: they are kept in memory.
        workers : int, optional
            Number of processes.
        executor : str or distributed.Client, optional
            "local"; "dask", a cluster of this machine; the address of a scheduler of
            dask.distributed, "tls://…"; or a `distributed.Client`.
        retries : int, optional
            How often a block is tried again whose process died or took longer than `time_limit`:
            then it is quarantined with what happened, and the others continue.
        time_limit : float, optional
            Time for one block, s.
        memory_limit : int, optional
            Memory that the process of a worker may have, bytes.
        shared_folder : bool, optional
            Whether the workers of a cluster see the folder at the same path: then they write
            blocks, which otherwise come to this process.
        progress : optional
            As for `simulate`, in runs.

        Returns
        -------
        StudyResults
            The results.
        """
        return run_study(
            self, folder, workers=workers, executor=executor, retries=retries,
            time_limit=time_limit, memory_limit=memory_limit, shared_folder=shared_folder,
            progress=progress,
        )  # fmt: skip

    # ---- runs by number -----------------------------------------------------------------------

    @staticmethod
    def results(folder: str | os.PathLike[str], *, check: bool = False) -> StudyResults:
        """Results of a study in a folder, as far as they exist.

        Parameters
        ----------
        folder : str or path
            The folder of the study.
        check : bool, optional
            Whether all files are read at once: damaged blocks are then reported by a warning and
            skipped. By default a damaged block is an error when its arrays are read.

        Examples
        --------
        >>> import tempfile, phipsi as pp
        >>> from scipy.stats import norm
        >>> study = pp.Study(pp.Simulator(pp.examples.planar_arm(1)), {"v": norm([1.0], 0.1)},
        ...                  steps=10, runs=100)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = study.run(place)
        ...     results = pp.Study.results(place)
        ...     print(results["v.final"].shape)
        (100, 1)
        """
        return load_results(folder, check=check)

    def numbers_of(self, block: int) -> range:
        """The runs of a block."""
        return self._sizes.numbers_of(block, self.count)

    def run_block(self, block: int) -> dict[str, Array]:
        """The arrays of a block, (n, …) each, by name."""
        numbers = self.numbers_of(block)
        first, n = numbers.start, len(numbers)
        samples = self.distributions.values(first, n)
        started, reasons = samples, np.zeros(n, dtype="U1")
        try:
            run = self._rollout(samples, self.record, first)
        except PhipsiError as error:
            reasons = np.array(self._rejections(samples, first))
            good = np.flatnonzero(reasons == "")
            if not good.size:  # nothing of this block can be started
                if isinstance(error, RaisedInFunction):
                    raise
                raise RaisedInFunction(
                    f"run {first} cannot start: {reasons[0]}", "initial_state"
                ) from error
            # another run takes the place of one that cannot be started: the others keep theirs
            places = np.where(reasons == "", np.arange(n), good[0])
            started = {name: x[places] for name, x in samples.items()}
            run = self._rollout(started, self.record, first)
        found: dict[str, Array] = {}
        with np.errstate(invalid="ignore"):
            for label, (name, word) in self._kept.items():
                found[label] = SAVED[word](run[name])
        found["t.final"] = run.state.t
        for event in self.events:
            found_by = partial(crossings, event, run.t, run.q, run.v)
            times, counts = called("event", event.function, first, found_by)
            found |= zip(event_labels(event), (times, counts), strict=True)
        metrics: dict[str, Array] = {}
        raised = np.zeros(n, dtype="U1")
        if self._run_metrics is not None:
            metrics, raised = self._run_metrics.one_by_one(run, started)
        rejected = reasons != ""
        out = {f"sample.{name}": x for name, x in samples.items()}
        out |= {name: _without(x, rejected) for name, x in found.items()}
        out |= {name: _without(x, rejected) for name, x in metrics.items()}
        status = np.where(raised != "", RAISED, run.status)
        status = np.where(rejected, NOT_STARTED, status)
        return {
            "run": np.arange(first, numbers.stop),
            **out,
            "status": status,
            "failed_at": np.where(rejected, NOT_STARTED, run.failed_at),
            "rejected": np.where(rejected, reasons, raised),
        }

    def rerun(self, number: int, record: Sequence[str] | None = None) -> Rollout:
        """One run by its number, with the bits that it had, and everything recorded."""
        number = int(number) if isinstance(number, np.integer) else number
        if not isinstance(cast(object, number), int) or number not in range(self.count):
            raise InputError(f"this study has runs 0 … {self.count - 1}, not {number!r}")
        names = self.record if record is None else as_list("record", record, "['q', 'v']")
        return self._rollout(self.distributions.values(number, 1), names, number, record_every=1)

    def trajectory(self, number: int) -> Trajectory:
        """One run by its number as a `Trajectory`, for reports, viewers, figures and files.

        It has the torques and contact forces of the run, and the inertia that was sampled for it:
        ``pp.report(study.trajectory(results.worst("error")[0]), "worst.html")``.

        Parameters
        ----------
        number : int
            Number of the run.

        Examples
        --------
        >>> import phipsi as pp
        >>> from scipy.stats import norm
        >>> study = pp.Study(pp.Simulator(pp.examples.planar_arm(1)), {"q": norm([0.3], 0.1)},
        ...                  steps=100, runs=9)
        >>> study.trajectory(4)
        <Trajectory: 101 samples, t = 0 … 0.1 s, nq = 1, nv = 1, rk4>
        """
        known = [name for name in ("q", "v", "tau", IMPULSES) if name in self.simulator.recordable]
        return self.rerun(number, known).trajectory(0)

    def rare_event(
        self,
        value: str | Callable[[Rollout, dict[str, Array]], Any],
        limit: float,
        *,
        runs: int = 1000,
        share: float = 0.1,
        seed: int | None = None,
    ) -> RareEvent:
        """Probability that a metric exceeds a limit, even if it is very small (subset simulation).

        A run that fails counts as beyond the limit.

        Parameters
        ----------
        value : str or callable
            Name of a metric, or a function of (rollout, samples) to numbers (n,).
        limit : float
            The limit.
        runs : int, optional
            Number of runs of every level.
        share : float, optional
            Fraction of the runs of a level that continue to the next one.
        seed : int, optional
            Seed. Default: that of the study.

        Returns
        -------
        RareEvent
            The probability, its error, and the runs beyond the limit.

        Notes
        -----
        **Cost:** about `runs` for each factor of `share` in the probability: 6 × 900 for 10⁻⁶.
        **Source:** Papaioannou, Betz, Zwirglmaier and Straub 2015.
        """
        distributions = self.distributions
        if distributions.combinations != 1 or not distributions.dimension:
            raise InputError("rare_event needs distributions, without lists of values")
        if "trajectory" in self._plan_text:
            raise InputError(
                "rare_event needs runs that are determined by their samples, but a law has "
                "noise. Sample the noise with distributions= instead"
            )
        if not isinstance(value, str) and not callable(value):
            raise InputError(f"value={value!r} must be the name of a metric, or a function")
        run_metrics = self._run_metrics
        if isinstance(value, str) and run_metrics is None:
            raise InputError(f"the study has no metrics, so {value!r} is not one of them")

        def evaluate(u: Array) -> Array:
            found = []
            for first in range(0, len(u), self.block):
                samples = distributions.at(u[first : first + self.block])
                run = self._rollout(samples, self.record, 0)
                y = values_of(value, run_metrics, run, samples)
                found.append(np.where((run.status != 0) | np.isnan(y), np.inf, y))
            return np.concatenate(found)

        chosen = distributions.seed if seed is None else seed
        return subset_simulation(evaluate, distributions.dimension, limit, runs, share, chosen)

    def _rollout(
        self,
        samples: dict[str, Array],
        record: Sequence[str],
        first: int,
        record_every: int | None = None,
    ) -> Rollout:
        """The runs of samples, the first of which has this number."""
        state, tau = self._state(samples, first)
        which: Any = {
            "record_every": record_every or self.record_every,
            "record": record,
            "progress": False,
        }
        run = recorded_run(self.simulator, state, tau, self.steps, **which)
        if not run.complete:  # its records are not those of a run of this study
            raise KeyboardInterrupt
        return run

    def compile(self) -> None:
        """Compile what the runs need, without running them: forked workers then find it."""
        samples = self.distributions.values(0, len(self.numbers_of(0)))
        try:
            state, _ = self._state(samples)
        except PhipsiError:
            return  # the block will say why
        self.simulator.rollout(state, None, 0, record=self.record)

    def _state(self, samples: dict[str, Array], first: int = 0) -> tuple[SimulatorState, Any]:
        """The start of runs, and their efforts."""
        given = self._arguments(samples, first)
        tau = given.pop("tau", None)
        state = self.simulator.initial_state(**given, first_trajectory=first)
        n = len(next(iter(samples.values())))
        if state.batch != (n,):
            raise InputError(
                f"the initial state of {n} runs has the leading axes {state.batch}; they must be "
                f"({n},): one element for each run"
            )
        return state, tau

    def _arguments(self, samples: dict[str, Array], first: int) -> dict[str, Any]:
        """The arguments of `Simulator.initial_state`."""
        if self._initial_state is not None:
            found = called(
                "initial_state",
                self._initial_state,
                first,
                partial(self._initial_state, dict(samples)),
            )
            if not isinstance(found, Mapping):
                raise InputError(
                    f"initial_state(samples) returned {type(found).__name__}; it must return the "
                    'arguments of initial_state by name:  {"q": …, "v": …, "parameters": {…}}'
                )
            return dict(found)
        assert self._named is not None
        return self._named.arguments(samples)

    def _rejections(self, samples: dict[str, Array], first: int) -> list[str]:
        """Why each run cannot be started, or ""."""
        n, out = len(next(iter(samples.values()))), []
        for i in range(n):
            one = {name: x[i : i + 1] for name, x in samples.items()}
            try:
                self._state(one, first + i)
                out.append("")
            except PhipsiError as error:
                out.append(shown(error, 300))
        return out

    @cached_property
    def _kept(self) -> dict[str, tuple[str, str]]:
        """What is kept of every record, by the name of its array."""
        pairs = ((name, word) for name in self.record for word in self.save)
        return {x if word == "trajectory" else f"{x}.{word}": (x, word) for x, word in pairs}

    @property
    def _run_metrics(self) -> RunMetrics | None:
        """The function of the user, with the names that its results cannot have."""
        if self._metrics is None:
            return None
        taken = {*_ARRAYS, *self._kept}
        taken.update(label for event in self.events for label in event_labels(event))
        return RunMetrics(self._metrics, taken)

    @cached_property
    def _plan_text(self) -> str:
        return self.simulator.compiled.plan((), self.record).text()

    # ---- definition ---------------------------------------------------------------------------

    @cached_property
    def definition(self) -> dict[str, Any]:
        """Everything that the numbers depend on, for JSON."""
        sim, at = self.simulator, self._scenario
        if self._named is not None:
            self._named.check()
        return {
            "simulator": simulator_digest(sim, self.record),
            "mechanism": sim.model.name or f"{sim.model.n_bodies} bodies",
            "dt": sim.dt,
            "integrator": sim.integrator,
            "reproducible": sim.reproducible,
            "steps": self.steps,
            "record_every": self.record_every,
            "record": list(self.record),
            "save": list(self.save),
            "block": self.block,
            **({} if self._block else {"first_block": self._sizes.first}),
            "initial_state": reach_of(self._initial_state, known_parts),
            "initial": None if at is None else [at.q0.tolist(), at.v0.tolist()],
            "events": {
                x.name: {"direction": x.direction, **reach_of(x.function, known_parts)}
                for x in self.events
            },
            "metrics": reach_of(self._metrics, known_parts),
            "python": python_version(),
            **self.distributions.to_dict(),
        }


def _without(x: Array, rejected: Array) -> Array:
    """Rows of runs that could not be started become NaN, or 0 where numbers are whole."""
    if rejected.any():
        x = x.copy()
        x[rejected] = np.nan if x.dtype.kind == "f" else 0
    return x
