"""What a study reads of a scenario; `phipsi.scenarios` has the class that files become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from phipsi.simulation import Simulator


class StudyScenario(Protocol):
    """What a study needs of a scenario."""

    @property
    def q0(self) -> Any:
        """Where runs start, (nq,)."""
        ...

    @property
    def v0(self) -> Any:
        """Their rates there, (nv,)."""
        ...

    @property
    def duration(self) -> Any:
        """How long they are, s."""
        ...

    @property
    def dt(self) -> Any:
        """The step, s."""
        ...

    @property
    def events(self) -> Any:
        """Events that runs may have."""
        ...

    def simulator(self, per_trajectory: Sequence[str] = ()) -> Simulator:
        """The run as compiled steps."""
        ...
