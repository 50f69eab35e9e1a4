"""Results of a study: arrays over all runs, bands over time, estimates, indices, worst cases."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import plain_numbers, whole_number
from phipsi.errors import (
    InputError,
    ParseError,
    PhipsiError,
    did_you_mean,
    no_attribute,
    number_of,
    one_of,
    shown,
    true_or_false,
    warn,
)
from phipsi.studies.study_folder import StudyFolder, runs_of
from phipsi.support import import_optional

Array = NDArray[Any]
Values: TypeAlias = "ArrayLike | Callable[[StudyResults], ArrayLike] | str"
"""A number of every run: the name of an array, a function of the results, or the numbers."""


_FEW_BLOCKS = 64
"""Blocks that `repr` reads to count failed runs."""


class Estimate(NamedTuple):
    """A mean over runs with its confidence interval, and its convergence.

    Attributes
    ----------
    value : float
        The mean.
    low, high : float
        Ends of the confidence interval.
    runs : int
        Number of runs in the mean.
    after : ndarray, shape (k,)
        Numbers of runs.
    history : ndarray, shape (k, 2)
        Means and half widths after these numbers of runs.
    failed : int
        Number of runs that failed or could not be started.
    failed_as : bool, float or None
        The value that they count as, or None if they are excluded from the mean.
    """

    value: float
    low: float
    high: float
    runs: int
    after: Array
    history: Array
    failed: int = 0
    failed_as: bool | float | None = None

    def __repr__(self) -> str:
        low, high = f"{self.low:.4g}", f"{self.high:.4g}"
        failures = f"; {self.failures}" if self.failed else ""
        return f"<estimate {self.value:.4g}, {low} to {high}, from {self.runs} runs{failures}>"

    @property
    def failures(self) -> str:
        """How many runs failed, and what they count as, or ""."""
        if not self.failed:
            return ""
        if self.failed_as is None:
            return f"{self.failed} failed and excluded"
        return f"{self.failed} failed and counted as {self.failed_as}"


class SobolIndex(NamedTuple):
    """The share of a variance that a sampled number causes.

    `alone` and in `total`, with standard errors.
    """

    alone: float
    total: float
    alone_error: float
    total_error: float


@final
class StudyResults:
    """Results of a study, also while it is running.

    `results[name]` has a row for every run that exists, in the order of their numbers:
    "run", "sample.…", "status" (0 if all went well, −1 if the initial state was rejected, −2 if
    `metrics` raised an error, else why the run failed), "failed_at", "rejected" (why −1 or −2),
    what was saved of each record ("q.final", "v.largest", … or "q" for trajectories), and metrics.

    Attributes
    ----------
    folder : Path or None
        Where the results are.
    definition : dict
        Definition of the study.
    complete : bool
        Whether all runs are done.
    interrupted : bool
        Whether Ctrl-C ended the study.
    missing, quarantined
        Blocks that are not done, and those that failed.
    """

    def __init__(self, folder: StudyFolder, *, interrupted: bool = False) -> None:
        self.interrupted = interrupted
        self._folder: StudyFolder | None = folder
        self.folder = folder.path
        self.definition, self.quarantined = folder.definition, dict(folder.quarantined)
        self.count = runs_of(folder.definition)
        self._blocks, self.missing = list(folder.done), folder.done.missing.tolist()
        self._arrays: dict[str, Array] = {}
        self._names: tuple[str, ...] | None = None

    @property
    def complete(self) -> bool:
        """Whether all runs are there."""
        return not self.missing

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, {"outcomes": "results.metrics"})

    def __len__(self) -> int:
        return len(self["run"])

    def __repr__(self) -> str:
        if not self.names:
            return f"<results of none of {self.count} runs>"
        there = "all" if self.complete else f"{len(self)} of"
        return f"<results of {there} {self.count} runs{self._failures}: {', '.join(self.names)}>"

    @property
    def _failures(self) -> str:
        """How many runs failed, for `repr`, unless it costs reading many files."""
        if "status" not in self._arrays and len(self._blocks) > _FEW_BLOCKS:
            return ""
        try:
            count = self.failed.size
        except PhipsiError:  # a damaged block: an error when its arrays are used
            return ""
        return f", {count} failed" if count else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        if self._names is None:
            first = next(iter(self._files()), {})
            self._names = tuple(first)
        return self._names

    @property
    def metrics(self) -> list[str]:
        """The names of what `metrics` returned."""
        known = {"run", "t.final", "status", "failed_at", "rejected", *self.definition["record"]}
        kept = {f"{r}.{k}" for r in self.definition["record"] for k in self.definition["save"]}
        return [n for n in self.names if n not in known | kept and not n.startswith("sample.")]

    @property
    def _samples(self) -> list[str]:
        return [n for n in self.names if n.startswith("sample.")]

    def _files(self) -> Iterator[dict[str, Array]]:
        assert self._folder is not None
        first: set[str] | None = None
        for number in self._blocks:
            found = self._folder.read_block(number)
            first = first or {*found}
            if {*found} != first:
                odd = shown(repr(min({*found} ^ first)), 80)
                raise ParseError(f"block {number} of {self.folder} has different arrays: {odd}")
            yield found

    def __getitem__(self, name: str) -> Array:
        if name not in self._arrays:
            if not self.names:
                raise InputError(f"no run of this study is finished yet, so there is no {name!r}")
            if name not in self.names:
                hint = did_you_mean(str(name), list(self.names))
                raise InputError(f"{name!r} is not one of {', '.join(self.names)}. {hint}")
            self._arrays[name] = _joined(name, [x[name] for x in self._files()])
        return self._arrays[name]

    def damaged(self) -> dict[int, str]:
        """Blocks whose files cannot be read or fail their checksum, with what is wrong.

        **Cost:** reads all files. Running the study again runs these blocks again.
        """
        return {} if self._folder is None else self._folder.damaged()

    def without(self, blocks: Iterable[int]) -> StudyResults:
        """The same without some blocks, which then are missing."""
        assert self._folder is not None
        gone = set(blocks)
        self._blocks = [i for i in self._blocks if i not in gone]
        self.missing = sorted({*self.missing, *gone})
        return self

    def in_memory(self) -> StudyResults:
        """The same without its folder."""
        names = self.names
        parts = list(self._files())
        self._arrays = {n: _joined(n, [x[n] for x in parts]) for n in names}
        self._folder, self.folder = None, None
        return self

    @property
    def failed(self) -> Array:
        """The numbers of runs that failed or could not be started."""
        return self["run"][self["status"] != 0]

    def reason(self, number: int) -> str:
        """Why a run failed, or "" if it went well."""
        at = np.flatnonzero(self["run"] == number)
        if not at.size:
            raise InputError(f"no results for run {number}")
        status, why = int(self["status"][at[0]]), str(self["rejected"][at[0]])
        if status == 0:
            return ""
        if status < 0:
            return f"could not start: {why}" if status == -1 else why
        return f"failed in step {self['failed_at'][at[0]]}"

    def _of_all(self, values: Values) -> Array:
        """Values (n, …) of all runs: by name, by a function, or as they are."""
        if isinstance(values, str):
            x = self[values]
        else:
            x = plain_numbers(values(self) if callable(values) else values)
        if x.shape[:1] != (len(self),):
            raise InputError(f"values have shape {x.shape}, but must begin with ({len(self)},)")
        return x

    def _good(self, values: Values) -> Array:
        """Values (n, …) of the runs that went well."""
        good = self._of_all(values)[self["status"] == 0]
        if not len(good):
            raise InputError(
                f"all {len(self)} runs failed. results.reason({self['run'][0]}) tells why the "
                "first one did"
            )
        bad = np.isnan(good).reshape(len(good), -1).any(axis=1) if good.dtype.kind == "f" else []
        if np.any(bad):
            first = self["run"][self["status"] == 0][np.flatnonzero(bad)[0]]
            raise InputError(
                f"{np.count_nonzero(bad)} of {len(good)} runs that went well have NaN there, the "
                f"first is run {first}. Let `metrics` return a number for them"
            )
        return good

    def _one_each(self, values: Values, what: str) -> Array:
        """One number (n,) of every run that went well."""
        return _single(self._good(values), what)

    def _warn_of_failures(self, what: str, more: str = "") -> None:
        """Say that runs failed, how that concerns an analysis, and `more`: what to do."""
        if self.failed.size:
            warn(
                f"{self.failed.size} of {len(self)} runs failed and are not {what}. "
                f"results.failed lists them, results.reason({self.failed[0]}) says why the first "
                f"one did{more}"
            )

    # ---- analysis -----------------------------------------------------------------------------

    def frame(self) -> Any:
        """A table with a row for every run, of pandas or polars, whichever is installed.

        Arrays of several entries become columns such as "q.final[0]"; trajectories are left out.
        """
        columns = columns_of({name: self[name] for name in self.names})
        try:
            library = import_optional("pandas", "a table", "pandas")
        except ImportError:
            library = import_optional("polars", "a table", "pandas  (or polars)")
        return library.DataFrame(columns)

    def bands(self, name: str, percentiles: Sequence[float] = (5, 50, 95)) -> Array:
        """Percentiles (p, kept, …) over the runs of a trajectory that was saved."""
        x = self._good(name)
        if x.ndim < 2 or name not in self.definition["record"]:
            raise InputError(
                f"{name!r} was saved without trajectories. Save them:  pp.Study(…, "
                "save=('trajectory',))"
            )
        if not all(0 <= number_of(p) <= 100 for p in np.ravel(np.array(percentiles, object))):
            raise InputError(f"percentiles={percentiles!r} must be numbers from 0 to 100")
        self._warn_of_failures("in these percentiles")
        return np.percentile(x, percentiles, axis=0)

    def estimate(
        self,
        values: Values,
        confidence: float = 0.95,
        *,
        failed: bool | float | str = "warn",
    ) -> Estimate:
        """Mean of a metric over runs, with confidence interval.

        For a boolean, such as ``lambda r: r["v.final"][:, 0] < 0.1``, the mean is its probability,
        and the interval is Wilson's; otherwise it is that of the normal distribution. Runs by a
        Sobol sequence or a Latin hypercube scatter less than the interval says.

        Parameters
        ----------
        values : str, callable or array_like, shape (n,)
            Name of an array, a function of the results, or a number for every run.
        confidence : float, optional
            Probability that the interval contains the mean.
        failed : bool, float, "warn", "skip" or "raise", optional
            What a run that failed or could not be started counts as: True or False for a boolean
            metric, a number for another one. "skip" excludes these runs: the estimate then holds
            only under the condition that a run succeeds. "raise" makes them an error. By default
            they count as False for a boolean, and are excluded for numbers, with a warning.
        """
        x, failures, failed_as = self._with_failed(values, failed)
        if not 0 < number_of(confidence) < 1:
            raise InputError(f"confidence={confidence!r} must be between 0 and 1, such as 0.95")
        z = import_optional("scipy.stats", "an interval", "scipy").norm.ppf(0.5 + confidence / 2)
        is_share, x = x.dtype == bool, x.astype(float)
        after = np.unique(np.geomspace(min(16, len(x)), len(x), 40).astype(int))
        means = np.cumsum(x)[after - 1] / after
        squares = np.cumsum(x * x)[after - 1] / after
        with np.errstate(invalid="ignore"):  # the mean of numbers that may be infinite
            variances = squares - means**2
        spread = np.sqrt(np.maximum(variances, 0.0) / np.maximum(after - 1, 1))
        if is_share:
            middle = (means + z * z / (2 * after)) / (1 + z * z / after)
            root = means * (1 - means) / after + (z / (2 * after)) ** 2
            half = z * np.sqrt(root) / (1 + z * z / after)
        else:
            middle, half = means, z * spread
        history = np.stack([means, half], axis=1)
        low, high = float(middle[-1]) - float(half[-1]), float(middle[-1]) + float(half[-1])
        return Estimate(float(means[-1]), low, high, len(x), after, history, failures, failed_as)

    def _with_failed(
        self, values: Values, failed: bool | float | str
    ) -> tuple[Array, int, bool | float | None]:
        """Values of the runs in a mean, the number of runs that failed, and what they count as."""
        if isinstance(failed, str):
            one_of("failed", failed, ("warn", "skip", "raise"))
        x, bad = self._of_all(values), self["status"] != 0
        count, is_bool = int(np.count_nonzero(bad)), x.dtype == bool
        given = None if isinstance(failed, str) else failed
        if given is not None and is_bool != isinstance(given, bool | np.bool_):
            kind, right = ("boolean", "True or False") if is_bool else (f"{x.dtype}", "a number")
            raise InputError(
                f'failed={failed!r}, but the metric is {kind}: pass {right}, "skip" or "raise"'
            )
        if given is not None and not is_bool and np.isnan(number_of(given)):
            raise InputError(f'failed={failed!r} must be a number. Exclude runs with "skip"')
        if count and failed == "raise":
            first = self.failed[0]
            raise InputError(
                f"{count} of {len(self)} runs failed; run {first}: {self.reason(int(first))}. Say "
                f"what they count as:  results.estimate(…, failed={'False' if is_bool else '0.0'})"
                ', or exclude them with failed="skip"'
            )
        if count and failed == "warn" and is_bool:
            given = False
            warn(
                f"{count} of {len(self)} runs failed and count as False in this estimate. Say what "
                'they count as:  results.estimate(…, failed=False), or True, or "skip" to '
                "exclude them"
            )
        if given is None or not count:
            good = self._one_each(values, "an estimate is")
            if failed == "warn":
                self._warn_of_failures(
                    "in this estimate",
                    ". Say what they count as:  results.estimate(…, failed=0.0), with the number "
                    'that suits the metric, or "skip" to exclude them without this warning',
                )
            return good, count, None
        if count < len(x):
            self._one_each(values, "an estimate is")  # rejects NaN of runs that went well
        filled = _single(x, "an estimate is").astype(bool if is_bool else float)
        filled[bad] = given
        return filled, count, bool(given) if is_bool else float(given)

    def correlations(self, values: Values) -> dict[str, float]:
        """Spearman's rank correlation of a metric with each sampled parameter, by name.

        NaN where the metric, or the sample, is the same in all runs: there is no order to compare.
        """
        stats = import_optional("scipy.stats", "correlations", "scipy")
        y = self._one_each(values, "correlations are")
        self._warn_of_failures("in these correlations")
        out: dict[str, float] = {}
        for name in self._samples:
            for label, x in _entries(name.removeprefix("sample."), self._good(name)).items():
                same = (x == x[0]).all() or (y == y[0]).all()
                out[label] = np.nan if same else float(stats.spearmanr(x, y).statistic)
        return out

    def sobol_indices(self, values: Values) -> dict[str, SobolIndex]:
        """Sobol indices of a metric, first-order and total, by name (variance-based sensitivity).

        For a study with ``sampling="saltelli"`` in which all runs went well. With d sampled
        numbers, ``runs`` = N (d + 2) are N groups of runs; N about 1000 gives standard errors of
        a few hundredths. First-order: Saltelli et al. (2010), total: Jansen (1999).
        """
        if self.definition["sampling"] != "saltelli":
            raise InputError('Sobol indices need  pp.Study(…, sampling="saltelli")')
        y = self._one_each(values, "indices are")
        if len(y) != self.count:
            raise InputError(
                f"{self.count - len(y)} of {self.count} runs are missing or failed, but Sobol "
                "indices need complete groups of them"
            )
        labels = [
            label
            for name in self._samples
            for label in _entries(name.removeprefix("sample."), self[name])
        ]
        y = y.astype(float)
        with np.errstate(invalid="ignore"):  # values may be infinite: rejected below
            y = y - y.mean()  # a mean that is not zero only adds scatter to the estimates
        a, b, *mixed = y.reshape(-1, len(labels) + 2).T
        with np.errstate(invalid="ignore"):
            variance = np.var(np.concatenate([a, b]))
        if not 0 < variance < np.inf:
            raise InputError(
                f"the variance of the values is {variance:g}, so there are no Sobol indices"
            )
        out: dict[str, SobolIndex] = {}
        for label, x in zip(labels, mixed, strict=True):
            alone, total = b * (x - a) / variance, (a - x) ** 2 / (2 * variance)
            errors = (np.std(z) / np.sqrt(len(z)) for z in (alone, total))
            out[label] = SobolIndex(float(alone.mean()), float(total.mean()), *map(float, errors))
        _warn_of_errors(out, len(a))
        return out

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table of `frame` as a Parquet file, a block at a time."""
        arrow: Any = import_optional("pyarrow", "a Parquet file", "'phipsi[study]'")
        parquet: Any = import_optional("pyarrow.parquet", "a Parquet file", "'phipsi[study]'")
        blocks = [self._arrays] if self._folder is None else self._files()
        writer = None
        try:
            for arrays in blocks:
                table = arrow.table(columns_of(arrays))
                writer = writer or parquet.ParquetWriter(os.fspath(path), table.schema)
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()

    def worst(self, values: Values, count: int = 10) -> Array:
        """The numbers of the runs with the largest values, the worst first: for `Study.rerun`.

        Runs that failed have no value; `failed` lists them, and a warning says how many they are.
        """
        x = self._one_each(values, "the worst are those")
        self._warn_of_failures("among the worst here, though they may be worse")
        numbers = self["run"][self["status"] == 0]
        most = whole_number("count", count, 0)
        return numbers[np.argsort(-x.astype(float), kind="stable")[:most]]


_LARGEST_ERROR = 0.2
"""Standard error of a Sobol index from which it says nothing."""


def _warn_of_errors(indices: Mapping[str, SobolIndex], groups: int) -> None:
    """Say which Sobol indices are too uncertain to be used, and how many runs are needed."""
    errors = {name: max(x.alone_error, x.total_error) for name, x in indices.items()}
    name = max(errors, key=lambda n: errors[n])
    if errors[name] <= _LARGEST_ERROR:
        return
    wanted = max(1000, groups * (errors[name] / _LARGEST_ERROR) ** 2)
    power = 1 << math.ceil(math.log2(wanted))
    warn(
        f"the Sobol indices of {name!r} have a standard error of {errors[name]:.2f}: {groups} "
        f"groups of {len(indices) + 2} runs are too few. Use about {power} groups:  "
        f"pp.Study(…, runs={power * (len(indices) + 2)})"
    )


def _single(x: Array, what: str) -> Array:
    """One number (n,) of every run, as it is."""
    if x.ndim != 1 or x.dtype.kind not in "fiub":
        raise InputError(
            f"{what} of one number per run, not of {x.dtype} of shape {x.shape}. Select one "
            'entry with a function:  lambda r: r["q.final"][:, 0]'
        )
    return x


def _joined(name: str, parts: list[Array]) -> Array:
    """The rows of all blocks."""
    shapes = {x.shape[1:] for x in parts}
    if len(shapes) > 1 or len({x.dtype.kind in "U" for x in parts}) > 1:
        raise InputError(
            f"{name!r} has rows of different shapes in different blocks, such as "
            f"{shown(sorted(map(str, shapes))[:3], 80)}. Let `metrics` return the same shape for "
            "all runs"
        )
    return np.concatenate(parts)


def columns_of(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Columns of a table: entries apart, without trajectories."""
    out: dict[str, Array] = {}
    for name, x in arrays.items():
        out |= _entries(name, x) if x.ndim <= 2 else {}
    return out


def _entries(name: str, x: Array) -> dict[str, Array]:
    """The entries of an array (n, …) apart, (n,) each, by name."""
    if x.ndim == 1:
        return {name: x}
    rows = x.reshape(len(x), math.prod(x.shape[1:]))
    return {f"{name}[{i}]": y for i, y in enumerate(rows.T)}


def load_results(folder: str | os.PathLike[str], *, check: bool = False) -> StudyResults:
    """Results of a study in a folder, as far as they exist.

    Parameters
    ----------
    folder : str or path
        The folder of the study.
    check : bool, optional
        Whether all files are read at once: damaged blocks are then reported by a warning and
        skipped. By default a damaged block is an error when its arrays are read.

    Returns
    -------
    StudyResults
        The results.
    """
    check = true_or_false("check", check)
    found = StudyResults(StudyFolder.open(folder))
    if not check:
        return found
    damaged = found.damaged()
    for why in damaged.values():
        warn(f"{why}. It is skipped; running the study again recomputes it")
    return found.without(damaged)
