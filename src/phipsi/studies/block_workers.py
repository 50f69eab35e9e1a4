"""Whoever runs the blocks of a study, and what they need to know of it."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple, Protocol

from phipsi.errors import SimulationError, shown

LONGEST_LOG = 4000
"""Characters of a traceback that are kept."""


class RaisedInFunction(SimulationError):
    """A function of the user raised an error: which one, in which line, in which run.

    `way` is the same for errors of the same kind in the same line.
    """

    def __init__(self, message: str, way: str = "") -> None:
        super().__init__(message)
        self.way = way

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return RaisedInFunction, (str(self.args[0]), self.way)


class Blocks(Protocol):
    """A study, as whoever runs it sees it: runs in blocks."""

    count: Any
    blocks: Any
    definition: Any

    def numbers_of(self, block: int) -> range:
        """The runs of a block."""
        ...

    def run_block(self, block: int) -> dict[str, Any]:
        """The arrays of a block."""
        ...

    def compile(self) -> None:
        """Compile what the runs need."""
        ...


class Finished(NamedTuple):
    """A block that is done, or why it is not.

    `error` with its log behind the first line; `way`, in which way it failed, equal for equal
    causes; `fatal`, if its process died or was stopped; `disk`, if its arrays could not be written.
    """

    block: int
    answer: Any
    error: str = ""
    way: str = ""
    fatal: bool = False
    disk: bool = False


class NotWritten(OSError):
    """A block that could not be written."""


def failed(block: int, error: Exception) -> Finished:
    """A block whose computation raised an error."""
    log = "".join(traceback.format_exception(error))[-LONGEST_LOG:]
    if isinstance(error, NotWritten):
        return Finished(block, None, str(error), "disk", disk=True)
    if isinstance(error, MemoryError):
        return Finished(block, None, "it needs more memory than it may have\n" + log, "memory")
    if isinstance(error, RaisedInFunction):
        return Finished(block, None, f"{error}\n{log}", error.way)
    name = type(error).__name__
    return Finished(block, None, f"{name}: {error}\n{log}", f"{name}: {shown(error, 200)}")


class Workers(Protocol):
    """Whoever runs blocks."""

    @property
    def free(self) -> int:
        """How many more blocks may be given out."""
        ...

    def submit(self, block: int) -> None:
        """Give out a block."""
        ...

    def results(self, patience: float) -> list[Finished]:
        """The blocks that end within so many seconds; as soon as there is one."""
        ...

    def close(self) -> None:
        """End all work."""
        ...
