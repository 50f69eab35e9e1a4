"""Metrics of runs: the function of the user is called, checked, and its errors get a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import plain_numbers
from phipsi.errors import InputError, PhipsiError, did_you_mean, shown
from phipsi.simulation import Rollout
from phipsi.studies.study_functions import RaisedInFunction, called

Array = NDArray[Any]
Metrics = Callable[[Rollout, dict[str, Array]], Mapping[str, Any]]


@final
class RunMetrics:
    """A function from (rollout, samples) to arrays by name, none of which may be `taken`."""

    def __init__(self, function: Metrics, taken: Collection[str]) -> None:
        self.function, self.taken = function, frozenset(taken)

    def of(self, run: Rollout, samples: dict[str, Array]) -> dict[str, Array]:
        """Metrics of runs, by name, with one row for each run."""
        n = math.prod(run.state.batch)
        call = partial(self.function, run, samples)
        result = called("metrics", self.function, run.state.first_trajectory, call)
        if not isinstance(result, Mapping):
            raise InputError(
                f"metrics(rollout, samples) returned {type(result).__name__}; it must return "
                'arrays by name:  {"error": …, "reached": …}'
            )
        taken = self.taken | {f"sample.{name}" for name in samples}
        out = {}
        for name, x in result.items():
            if not isinstance(name, str) or name in taken:
                why = "results and their files use it" if name in taken else "it is not a string"
                raise InputError(f"metric {name!r} cannot have this name: {why}. Choose another")
            array = plain_numbers(x)
            if array.shape[:1] != (n,) or array.dtype.kind not in "fiub":
                raise InputError(
                    f"metric {name!r} is {array.dtype} of shape {array.shape}; it must be numbers "
                    f"with one row for each of {n} runs"
                )
            out[name] = array
        return out

    def one_by_one(self, run: Rollout, samples: dict[str, Array]) -> tuple[dict[str, Array], Array]:
        """Metrics of runs, and why there are none of a run, or "".

        Where the function raises an error, it is called again for halves of the runs, until it is
        known in which runs; then for all the others at once. If that fails, no run is to blame.
        """
        n = math.prod(run.state.batch)
        reasons = [""] * n
        try:
            return self.of(run, samples), np.array(reasons)
        except RaisedInFunction as error:
            reason = error

        def part(rows: Any) -> dict[str, Array]:
            return self.of(run.part(rows), {name: x[rows] for name, x in samples.items()})

        def visit(first: int, count: int) -> None:
            try:
                part(np.arange(first, first + count))
            except PhipsiError as error:
                if count == 1:
                    reasons[first] = shown(error, 300)
                    return
                half = count // 2
                visit(first, half)
                visit(first + half, count - half)

        if n > 1:
            visit(0, n // 2)
            visit(n // 2, n - n // 2)
        why = np.array(reasons)
        good = np.flatnonzero(why == "")
        if good.size in (0, n):
            raise reason
        out = {}
        for name, x in part(good).items():
            out[name] = np.full((n, *x.shape[1:]), np.nan if x.dtype.kind == "f" else 0, x.dtype)
            out[name][good] = x
        return out, why


def values_of(
    value: str | Callable[[Rollout, dict[str, Array]], Any],
    metrics: RunMetrics | None,
    run: Rollout,
    samples: dict[str, Array],
) -> Array:
    """One number for each run: a metric by name, or a function of (rollout, samples)."""
    if isinstance(value, str):
        known = {} if metrics is None else metrics.of(run, samples)
        if value not in known:
            hint = did_you_mean(value, list(known))
            raise InputError(f"{value!r} is not a metric of this study. {hint}")
        y = known[value]
    else:
        y = plain_numbers(value(run, samples))
    if y.shape != run.status.shape or y.dtype.kind not in "fiub":
        raise InputError(
            f"value is {y.dtype} of shape {y.shape}; it must be one number for each of "
            f"{len(run.status)} runs:  lambda rollout, samples: rollout.q[:, -1, 0]"
        )
    return y.astype(float)
