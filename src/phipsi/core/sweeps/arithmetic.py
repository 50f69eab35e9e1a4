"""The arithmetic that a backend provides to the implementations of operations.

The reference backend computes with arrays, the native backend writes machine code for lanes. A
backend for another target that provides this can run every operation with a body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from phipsi.core.model import LawForm
from phipsi.core.spatial import ScalarOps
from phipsi.core.sweeps.entries import Entry, Rows, Vector
from phipsi.core.sweeps.ir import Field

Block = Any


class Arithmetic(ScalarOps, Protocol):
    """The arithmetic at the body, point, link or row that a backend visits."""

    # ---- values of fields

    def value(self, x: Field) -> Block:
        """The block of a field here."""
        ...

    def rows(self, x: Field) -> Rows:
        """All entries of a block."""
        ...

    def column(self, x: Field) -> list[Entry]:
        """The entries of the first column."""
        ...

    def rigid(self, x: Field) -> tuple[Rows, list[Entry]]:
        """R and l of a rigid transformation [[R, l~ R], [0, R]]."""
        ...

    def inertia(self, x: Field) -> tuple[Entry, list[Entry], Rows]:
        """m, h and J of a rigid inertia [[J, h~], [−h~, m]]."""
        ...

    def entries(self, block: Block) -> Rows:
        """All entries of a block that is not that of a field."""
        ...

    def by_column(self, x: Field, make: Callable[[Any], list[Entry]]) -> Block:
        """The block whose columns `make` computes from those of x."""
        ...

    # ---- blocks

    def dense(self, rows: Sequence[Vector], columns: int = ...) -> Block:
        """A block of entries; `columns` matters if there are no rows."""
        ...

    def symmetric(self, lower: Vector, n: int) -> Block:
        """A symmetric block, from its lower half."""
        ...

    def rigid_block(self, turn: Rows, arm: Vector) -> Block:
        """[[R, l~ R], [0, R]]."""
        ...

    def step_block(self, turn: Rows, arm: Vector, modal: Rows, n: int) -> Block:
        """[[R, l~ R, 0], [0, R, 0], [Q* diag(R, R), 0]] from R, l and Q*; n columns are zero."""
        ...

    def inertia_block(self, entries: Vector) -> Block:
        """[[J, h~], [−h~, m]] from m, h and the lower half of J."""
        ...

    def gyration_block(self, entries: Vector) -> Block:
        """[[A, 0], [−p~, 0]] from A, row by row, and p."""
        ...

    def turning_block(self, rows: Sequence[Vector]) -> Block:
        """[A, 0] with three columns of zeros, from A."""
        ...

    def zeros(self, x: Field) -> Block:
        """Zeros, in the kind of block that x is."""
        ...

    def eye(self, x: Field) -> Block:
        """The identity, in the kind of block that x is."""
        ...

    def transpose(self, block: Block) -> Block:
        """The transpose."""
        ...

    def times(self, left: Block, right: Block) -> Block:
        """A product."""
        ...

    def times_symmetric(self, left: Block, right: Block) -> Block:
        """A product that is known to be symmetric."""
        ...

    def congruence(self, a: Block, s: Block) -> Block:
        """A S A* of a symmetric S, or of a gyration."""
        ...

    def combine(self, terms: Sequence[tuple[Any, Block]]) -> Block:
        """Σ cᵢ Xᵢ."""
        ...

    # ---- scalars, besides those of their kind

    def scaled(self, entries: Vector) -> list[Entry]:
        """Entries times a power of two, so that the largest is about 1."""
        ...

    def largest(self, entries: Vector) -> Entry:
        """The largest absolute value."""
        ...

    def maximum(self, x: Entry, y: Entry) -> Entry:
        """The larger of two."""
        ...

    # ---- the model and the place

    @property
    def joint(self) -> Any:
        """The joint of this body."""
        ...

    @property
    def link(self) -> tuple[str | LawForm, int, list[Entry]]:
        """Form, side and constants of this link."""
        ...

    def entries_at(self, name: str, places: Sequence[int]) -> list[Entry]:
        """Numbers of q by their places, of whichever joints."""
        ...

    def params(self) -> list[Entry]:
        """The parameters of the joint."""
        ...

    def coordinates(self, name: str) -> list[Entry]:
        """The part of q or v of the joint."""
        ...

    def parent_modes(self, name: str) -> list[Entry]:
        """The modal coordinates ("q") or rates ("v") of the parent."""
        ...

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returns; what it returned before at this place and in this step."""
        ...

    def own_inertia(self) -> Block:
        """The constant inertia of this body as a symmetric block."""
        ...

    def placement(self) -> Block:
        """The frame of the joint in that of the parent, as a rigid transformation."""
        ...

    def turn(self) -> Rows:
        """The rotation from the axes used here to those of the inertial parameters."""
        ...

    def outboard_size(self, half: int) -> Entry:
        """How large the inertias outboard are, for turning (0) or sliding (1)."""
        ...

    def point_offset(self) -> list[Entry]:
        """Where this point is on its body."""
        ...

    def point_turn(self) -> Rows:
        """The axes of this point on its body."""
        ...

    def frame_in_world(self, poses: Field) -> tuple[Rows, list[Entry]]:
        """Rotation and position of this point's frame in the world."""
        ...

    def at_mate(self, make: Callable[[], Any]) -> Any:
        """What `make` returns at the mate of this point."""
        ...

    def at_root(self, root: Block, other: Block) -> Block:
        """One block at roots, another elsewhere."""
        ...
