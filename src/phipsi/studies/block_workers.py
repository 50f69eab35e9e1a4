"""Whoever runs the blocks of a study, and what they need to know of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

LONGEST_LOG = 4000
"""Characters of a traceback that are kept."""


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
    """A block that is done, or why it is not: `fatal` if its process died or was stopped."""

    block: int
    answer: Any
    error: str = ""
    fatal: bool = False


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
