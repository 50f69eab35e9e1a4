"""Functions that users give to a study: how they are called, and where events are zero.

A study calls `initial_state`, `metrics` and the functions of events for many runs at once. Their
errors name the function, its line and the run.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import as_list
from phipsi.errors import InputError, SimulationError, shown
from phipsi.simulation import Event

Array = NDArray[Any]
_LINE = re.compile(r"\n +")
_ROLLOUT = "sim.rollout(…, record="
_COMPARED = 16  # records at which an event is computed alone and together


class RaisedInFunction(SimulationError):
    """A function of the user raised an error: which one, in which line, in which run.

    `way` is the same for errors of the same kind in the same line.
    """

    def __init__(self, message: str, way: str = "") -> None:
        super().__init__(message)
        self.way = way

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return RaisedInFunction, (str(self.args[0]), self.way)


def called(role: str, function: Callable[..., Any], number: int, call: Callable[[], Any]) -> Any:
    """A call of a function of the user for runs from this number on; its errors say where."""
    try:
        return call()
    except MemoryError:
        raise
    except Exception as error:
        code = getattr(function, "__code__", None)
        frames = traceback.extract_tb(error.__traceback__)[1:]
        own = [x for x in frames if code is not None and x.filename == code.co_filename]
        at = (own or frames or [None])[-1]
        where = "" if at is None else f", {os.path.basename(at.filename)}:{at.lineno}"
        name = getattr(function, "__qualname__", type(function).__qualname__)
        kind = type(error).__name__
        # what a rollout says about its records is an option of the study here
        said = _LINE.sub(" ", str(error)).replace(_ROLLOUT, "pp.Study(…, record=")
        text = f"{role} {name!r} raised {kind}: {shown(said, 200)} (run {number}{where})"
        raise RaisedInFunction(text, f"{role} {name} {kind}{where}") from error


# ---- events of recorded runs ---------------------------------------------------------------------


def recording_events(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events that only record, with names of their own."""
    found = tuple(as_list("events", events, "[event]"))
    for one in found:
        if not isinstance(one, Event):
            raise InputError(f"events has {one!r}, which is not a  pp.Event(function)")
        if one.action is not None:
            raise InputError(
                f"event {one.name!r} has action={one.action!r}, but all runs of a study have the "
                "same number of steps, so events can only record. Remove the action (in a "
                'scenario: action = "record"), and use the time of the event'
            )
    labels = [label for one in found for label in event_labels(one)]
    if len(set(labels)) < len(labels):
        names = ", ".join(one.name for one in found)
        raise InputError(f"two events have the same name: {names}. Pass different name=")
    return found


def event_labels(event: Event) -> tuple[str, str]:
    """The names of the arrays of an event: its times, and how often it is."""
    return f"event.{event.name}", f"event.{event.name}.count"


def crossings(event: Event, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    """When each run first has an event, s or infinity, and how often it has it.

    Functions that take whole arrays are called once, if that gives the values of single records,
    others for every record. Zeros are between records whose values have other signs, where a
    straight line puts them; a value that is zero at the start is not an event.

    Parameters
    ----------
    event : Event
        The event.
    t, q, v : ndarray, shape (n, k), (n, k, nq) and (n, k, nv)
        Records.
    """
    values = _values(event, t, q, v)
    before, after = values[:, :-1], values[:, 1:]
    rises, falls = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
    hits = rises if event.direction > 0 else falls if event.direction < 0 else rises | falls
    counts = hits.sum(axis=1)
    if not hits.shape[1]:
        return np.full(len(t), np.inf), counts
    at = hits.argmax(axis=1)
    rows = np.arange(len(t))
    a, b = before[rows, at], after[rows, at]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = a / (a - b)
    times = t[rows, at] + share * (t[rows, at + 1] - t[rows, at])
    return np.where(counts > 0, times, np.inf), counts


def _values(event: Event, t: Array, q: Array, v: Array) -> Array:
    def value(i: tuple[Any, ...]) -> float:
        return event.function(float(t[i]), q[i], v[i])

    try:
        found = np.asarray(event.function(t, np.moveaxis(q, -1, 0), np.moveaxis(v, -1, 0)))  # type: ignore
        if found.shape == t.shape and found.dtype.kind == "f":
            # np.linalg.norm(v) of all records is a number too, but another one
            some = np.linspace(0, t.size - 1, _COMPARED).astype(int)
            alone = [value(i) for i in zip(*np.unravel_index(some, t.shape), strict=True)]
            if np.allclose(found.ravel()[some], alone, rtol=1e-9, atol=0.0, equal_nan=True):
                return found
    except Exception:  # a function of one state
        pass
    values = np.empty_like(t)
    for i in np.ndindex(t.shape):
        values[i] = value(i)
    return values
