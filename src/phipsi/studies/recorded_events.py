"""Events of recorded runs: when a function of time and state crosses zero, in all runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError
from phipsi.model.numbers import as_list
from phipsi.simulation.events import Event

Array = NDArray[Any]


def checked_events(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events that only record, with names of their own."""
    found = tuple(as_list("events", events, "[event]"))
    for one in found:
        if not isinstance(one, Event):
            raise InputError(f"events has {one!r}, which is not a  pp.Event(function)")
        if one.action is not None:
            raise InputError(
                f"event {one.name!r} has action={one.action!r}, but all runs of a study have the "
                "same steps: events can only record. Leave the action out (in a scenario: "
                'action = "record"), and take the time of the event'
            )
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise InputError(f"two events have the same name: {', '.join(names)}; give them name=")
    return found


def crossings(event: Event, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    """When each run first has an event, s or infinity, and how often it has it.

    **Arguments:** `t` (n, k), `q` (n, k, nq), `v` (n, k, nv). Functions that take whole arrays are
    called once, others for every record. Zeros are between records whose values have other signs,
    where a straight line puts them; a value that is zero at the start is not an event.
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
    try:
        found = np.asarray(event.function(t, np.moveaxis(q, -1, 0), np.moveaxis(v, -1, 0)))  # type: ignore
        if found.shape == t.shape and found.dtype.kind == "f":
            return found
    except Exception:  # a function of one state
        pass
    values = np.empty_like(t)
    for i in np.ndindex(t.shape):
        values[i] = event.function(float(t[i]), q[i], v[i])
    return values
