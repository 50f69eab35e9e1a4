"""EventRecord: an event in a trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class EventRecord:
    """An event that happened: its name, its time, and the state before and after its action.

    Attributes
    ----------
    name : str
        Name of the event.
    t : float
        Time, s.
    q, v : ndarray, shape (nq,) and (nv,)
        State before the action.
    q_after, v_after : ndarray, shape (nq,) and (nv,)
        State after it.
    change : ChangeRecord or None
        If the mechanism changed: energy, momentum and impulses.
    """

    name: str
    t: float
    q: Array
    v: Array
    q_after: Array
    v_after: Array
    change: Any = None

    def __repr__(self) -> str:
        return f"EventRecord({self.name!r} at t = {self.t:.6g} s)"
