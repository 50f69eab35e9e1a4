"""The kinds of expression node, and the part of a node that messages and printing read."""
# ruff: noqa: D102  (Expr says what the attributes of a Node are)

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Any, Protocol

from phipsi.core.expressions.row import Row
from phipsi.core.expressions.spaces import Space
from phipsi.core.expressions.structure import Structure


class Op(Enum):
    """The kinds of expression node."""

    __hash__ = object.__hash__  # of Enum it is a Python function, and every new node needs it

    LEAF = "leaf"
    ADJOINT = "adjoint"  # of a leaf or of a function; pushed inward everywhere else
    SUM = "sum"  # data: the coefficients
    PRODUCT = "product"
    INVERSE = "inverse"
    BD = "bd"  # the block-diagonal part
    FUNCTION = "function"  # linear in its parts; data: its row, and where a direction is open
    LOGDET = "logdet"
    AS_MATRIX = "as_matrix"  # an operator that is written out before it is multiplied
    IDENTITY = "identity"
    ZERO = "zero"


class PrintableNode(Protocol):
    """The part of an expression that printing and messages read."""

    @property
    def op(self) -> Op: ...
    @property
    def args(self) -> Sequence[PrintableNode]: ...
    @property
    def data(self) -> Any: ...
    @property
    def takes(self) -> Space: ...
    @property
    def gives(self) -> Space: ...
    @property
    def structure(self) -> Structure: ...
    @property
    def row(self) -> Row: ...
    @property
    def params(self) -> Sequence[Hashable]: ...
    @property
    def is_vector(self) -> bool: ...
    @property
    def terms(self) -> Sequence[tuple[Any, PrintableNode]]: ...
    @property
    def T(self) -> PrintableNode: ...
    def inner_text(self, style: str) -> str: ...
