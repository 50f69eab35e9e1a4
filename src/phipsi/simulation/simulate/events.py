"""Events: functions of the state whose zeros are located, recorded and acted upon.

A zero is seen as a change of sign between samples of a step: its ends and, for the adaptive
methods, the nodes of its dense output. It is located by `scipy.optimize.brentq` on the states
inside the step, to the last digits of t. Two zeros of one event between neighbouring samples cancel
and are not seen, as in any such scheme; a smaller rtol or dt gives more samples.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model, as_floats
from phipsi.errors import InputError
from phipsi.simulation.runs.user_functions import check_signature, first_call
from phipsi.simulation.simulate.equations import locked
from phipsi.simulation.simulate.stepper import Diverged, TimeStep
from phipsi.support import import_optional, one_line

Array = NDArray[Any]
Action = Any  # None, "stop", a function of (t, q, v), or changes of topology

# An event that triggers this often, each time within this share of the run after the last, is
# piling up: a ball that comes to rest bounces infinitely often in finite time.
_MANY, _NO_TIME = 5, 1e-9


class Change(ABC):
    """Something that happens to the mechanism at an event; the kinds are in `phipsi.topology`."""

    @abstractmethod
    def apply(self, now: Any, q: Array, v: Array) -> tuple[Any, Array, Array]:
        """The topology afterwards, and the state (all coordinates) before velocities jump."""

    def check(self, model: Model) -> None:  # noqa: B027
        """Reject names that the model does not have, before a run begins."""

    @property
    def closes(self) -> bool:
        """Whether it switches constraints on."""
        return bool(getattr(self, "constraints", ()) or getattr(self, "contacts", ()))


def changes_of(action: Any) -> tuple[Change, ...]:
    """The changes an event's action consists of; none if it is something else."""
    if isinstance(action, Change):
        return (action,)
    if isinstance(action, list | tuple) and action and all(isinstance(c, Change) for c in action):
        return tuple(action)
    return ()


@final
@dataclass(frozen=True)
class Event:
    """Zero-crossing event of a simulation, with an optional action.

    A function that is zero at the start, or that an action has just left at zero, does not
    trigger there.

    Parameters
    ----------
    function : callable
        ``function(t, q, v)`` returns a continuous number, whose zeros are the events.
    direction : {0, 1, -1}, optional
        1 for zeros where it rises, −1 where it falls, 0 for both.
    action : optional
        None only records the event; "stop" ends the simulation there. A change of
        `phipsi.topology`, or a list of them, continues with another mechanism, once. A function of
        (t, q, v) may return a new state (q, v) from which to continue, or None to continue
        unchanged (the integrator is restarted, so that the function may also switch a controller).
    name : str, optional
        Name in the record. Default: the name of the function.

    Examples
    --------
    >>> import phipsi as pp
    >>> down = pp.Event(lambda t, q, v: q[0] + 1.5707963267948966, action="stop", name="down")
    >>> fall = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 10.0, events=[down])
    >>> fall.events
    (EventRecord('down' at t = 0.483334 s),)
    """

    function: Callable[[float, Array, Array], float]
    direction: int = 0
    action: Action = None
    name: str = ""

    def __repr__(self) -> str:
        return one_line(self, self.function, self.direction, self.action, name=self.name)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(
                f"an event needs a function of (t, q, v), not {self.function!r}. For example:\n"
                f"    pp.Event(lambda t, q, v: q[2], direction=-1, action='stop')"
            )
        if not isinstance(self.name, str):
            raise InputError(f"the name of an event must be a string, not {self.name!r}")
        if not self.name:
            name = getattr(self.function, "__name__", type(self.function).__name__)
            object.__setattr__(self, "name", name)
        check_signature(self.function, f"event {self.name!r}", "t", "q", "v")
        if callable(self.action) and not hasattr(self.action, "apply"):
            check_signature(self.action, f"the action of event {self.name!r}", "t", "q", "v")
        if self.direction not in (-1, 0, 1):
            raise InputError(
                f"event {self.name!r}: direction={self.direction!r} is not one of −1 (falling), "
                f"0 (both), 1 (rising)."
            )
        changes = self.action if isinstance(self.action, list | tuple) else [self.action]
        changing = bool(changes) and all(hasattr(c, "apply") for c in changes)
        known = self.action is None or self.action == "stop" or callable(self.action)
        if not (known or changing):
            raise InputError(
                f"event {self.name!r}: action={self.action!r} is neither None, 'stop', changes of "
                f"phipsi.topology, nor a function of (t, q, v) that returns (q, v) or None."
            )


@final
@dataclass(frozen=True)
class ZeroCrossing:
    """A zero of an event's function inside a step; `left` is what its value there still is."""

    index: int
    t: float
    left: float


class Watch:
    """The signs of all event functions along a run."""

    def __init__(self, events: Sequence[Any], t: float, q: Array, v: Array, end: float) -> None:
        self.events = tuple(events)
        for event in self.events:
            if not isinstance(event, Event):
                raise InputError(
                    f"events has {event!r}, which is not an event. For example:\n"
                    f"    events=[pp.Event(lambda t, q, v: q[2], action='stop')]"
                )
        self._last = [0.0] * len(self.events)  # the value at the last sample; 0: no sign yet
        self._recent: dict[int, list[float]] = {}
        self._end = end
        self.begin(t, q, v, ())

    def begin(self, t: float, q: Array, v: Array, fired: Sequence[ZeroCrossing]) -> None:
        """Take the signs at a new start; those that have just triggered have none yet."""
        left = {crossing.index: abs(crossing.left) for crossing in fired}
        for i in range(len(self.events)):
            with first_call(f"event {self.events[i].name!r}", t):
                value = self.value(i, t, q, v)
            # The remainder of root finding has no sign: it may lie on either side of zero.
            self._last[i] = 0.0 if i in left and abs(value) <= 16 * left[i] else value
        self._start = t

    def value(self, i: int, t: float, q: Array, v: Array) -> float:
        """The function of event i; rejects all but finite numbers."""
        event = self.events[i]
        given = event.function(t, locked(q), locked(v))
        try:
            value = math.nan if np.iscomplexobj(given) else float(given)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise InputError(
                f"event {event.name!r} returned {given!r} at t = {t:.6g} s; its function must "
                "return one finite number."
            )
        return value

    def crossings(self, step: TimeStep) -> list[ZeroCrossing]:
        """All zeros in a step, in time order; the signs move on to the end of the step."""
        found = [c for i in range(len(self.events)) for c in self._of(i, step)]
        return sorted(found, key=lambda c: (c.t, c.index))

    def _of(self, i: int, step: TimeStep) -> list[ZeroCrossing]:
        found: list[ZeroCrossing] = []
        t0, before = step.t0, self._last[i]
        times = list(step.samples)
        if before == 0.0:  # started at zero: the sign shows right behind the start
            length = step.t1 - step.t0
            times = [step.t0 + length * 10.0**k for k in range(-15, -1)] + times
            times = sorted({t for t in times if step.t0 < t <= step.t1})
        for t1 in times:
            after = self.value(i, t1, *step.at(t1))
            if before * after < 0 or (before != 0 and after == 0):
                rising = before < 0
                if self.events[i].direction in (0, 1 if rising else -1):
                    found.append(self._locate(i, step, t0, t1, after))
            t0, before = t1, after
        self._last[i] = before
        return found

    def _locate(self, i: int, step: TimeStep, t0: float, t1: float, after: float) -> ZeroCrossing:
        if after == 0:
            return ZeroCrossing(i, t1, 0.0)
        brentq = import_optional("scipy.optimize", "locating an event", "scipy").brentq
        root: Any = brentq(
            lambda x: self.value(i, x, *step.at(x)),
            t0,
            t1,
            xtol=4 * math.ulp(t1),
            rtol=4 * np.finfo(np.float64).eps,
        )
        t = float(root)
        return ZeroCrossing(i, t, self.value(i, t, *step.at(t)))

    def act(self, crossing: ZeroCrossing, q: Array, v: Array) -> tuple[Array, Array]:
        """Apply an event's action; return the state to go on from."""
        event = self.events[crossing.index]
        self._guard(crossing)
        if not callable(event.action):
            return q, v
        given: Any = event.action(crossing.t, q.copy(), v.copy())
        if given is None:
            return q, v
        try:
            new_q, new_v = (np.array(as_floats("it", x)) for x in given)
        except (TypeError, ValueError):
            new_q = new_v = np.empty(0)
        if new_q.shape != q.shape or new_v.shape != v.shape:
            raise InputError(
                f"the action of event {event.name!r} returned {given!r} at t = {crossing.t:.6g} s; "
                f"it must return (q, v) of shapes {q.shape} and {v.shape}, or None."
            )
        return new_q, new_v

    def _guard(self, crossing: ZeroCrossing) -> None:
        """Reject events that pile up: the step after the last of them would miss the next."""
        recent = [*self._recent.get(crossing.index, [])[-_MANY:], crossing.t]
        self._recent[crossing.index] = recent
        if len(recent) > _MANY and max(np.diff(recent)) <= _NO_TIME * self._end:
            name = self.events[crossing.index].name
            raise Diverged(
                f"event {name!r} triggers indefinitely at t = {crossing.t:.9g} s (the last "
                f"{_MANY} times within {recent[-1] - recent[0]:.2g} s): Zeno behaviour, like a "
                "ball that bounces ever lower. Let its action end this, for example by stopping "
                "below a small speed"
            )
