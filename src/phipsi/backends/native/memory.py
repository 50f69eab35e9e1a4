"""What the code of a step reads and writes beyond registers."""

from __future__ import annotations

from typing import Any, Protocol

from phipsi.backends.native import blocks as bl
from phipsi.backends.native.point_memory import PointMemory
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.text.lanes import Emitter, Lane
from phipsi.sweeps import entries as en
from phipsi.sweeps.ir import Field, Reads


class Memory(Protocol):
    """What the code of a step reads and writes beyond registers."""

    emitter: Emitter
    points: PointMemory

    def constant(self, i: int) -> Lane:
        """A number of the body's table."""
        ...

    def gravity(self, i: int) -> Lane:
        """A component of [0; −g]."""
        ...

    def off_hubs(self, x: bl.Block) -> bl.Block:
        """What comes from the parent, or nothing where the parent is a hub."""
        ...

    def coordinate(self, name: str, i: int) -> Lane:
        """A component of the body's part of q or v."""
        ...

    def read_input(self, x: Field, code: JointCode | None) -> bl.Block:
        """The block of an input."""
        ...

    def turn(self) -> en.Rows:
        """Rotation from the simple frame of the body to its own frame."""
        ...

    def load(self, x: Field, where: Reads, like: bl.Block) -> bl.Block:
        """A stored block."""
        ...

    def at_root(self, root: bl.Block, other: bl.Block) -> bl.Block:
        """One block at roots, another elsewhere."""
        ...

    def seed(self, x: Field, rows: int) -> bl.Block:
        """The body's part of a column of the identity."""
        ...

    def path_seed(self, x: Field, rows: int) -> bl.Block:
        """The seed of a path."""
        ...

    def unit(self, x: Field, rows: int) -> bl.Block:
        """The body's part of one unit vector of joint rates."""
        ...

    def fail(self, mask: Any, code: int) -> None:
        """Note a failure."""
        ...

    def sincos(self, x: Lane) -> tuple[Lane, Lane]:
        """Sine and cosine."""
        ...

    def log(self, x: Lane) -> Lane:
        """Natural logarithm."""
        ...
