"""EventRecord: an event in a trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class EventRecord:
    """An event that happened: its name, when, and the state before and after its action.

    `change`, if the mechanism changed: energy, momentum and impulses (`ChangeRecord`).
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
