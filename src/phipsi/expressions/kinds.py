"""The kinds of expression node, and what messages and printing read of a node."""
# ruff: noqa: D102  (Expr says what the attributes of a Node are)

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Any, Protocol

from phipsi.expressions.row import Row
from phipsi.expressions.spaces import Space


class Op(Enum):
    """The kinds of expression node."""

    LEAF = "leaf"
    ADJOINT = "adjoint"  # of a leaf or of a cross-product operator; pushed inward everywhere else
    SUM = "sum"  # data: the coefficients
    PRODUCT = "product"
    INVERSE = "inverse"
    BD = "bd"  # the block-diagonal part
    CROSS = "cross"  # the operator x ↦ V × x of a body-motion vector V
    CROSS_FORCE = "cross_force"  # the operator x ↦ cross(x)* f of a body-force vector f; skew
    REGRESS = "regress"  # the operator π ↦ M(π) V of a body-motion vector V
    VEE = "vee"  # the vector of body forces f with f* s = tr(cross(s) X), of a memoryless X
    VEE_FORCE = "vee_force"  # the vector of body motions w with w* f = tr(cross_force(f) X)
    DH_TRACE = "dH_trace"  # the vector of joint efforts e with e* u = tr(Ḣ{u} X)
    INERTIA_TRACE = "inertia_trace"  # the vector w with w* π = tr(M(π) X)
    INERTIA_OF = "inertia_of"  # the operator M(π) of a vector π of inertial parameters; symmetric
    OUTER = "outer"  # the memoryless operator with the blocks x(k) y(k)* of two vectors
    HALF = "half"  # the lower triangle of hinge blocks with half the diagonal
    LOGDET = "logdet"
    AS_MATRIX = "as_matrix"  # an operator that is written out before it is multiplied
    IDENTITY = "identity"
    ZERO = "zero"


class Node(Protocol):
    """An expression, as far as it is read to print it or to speak about it."""

    @property
    def op(self) -> Op: ...
    @property
    def args(self) -> Sequence[Node]: ...
    @property
    def data(self) -> Any: ...
    @property
    def takes(self) -> Space | None: ...
    @property
    def gives(self) -> Space | None: ...
    @property
    def row(self) -> Row: ...
    @property
    def params(self) -> Sequence[Hashable]: ...
    @property
    def is_vector(self) -> bool: ...
    @property
    def terms(self) -> Sequence[tuple[Any, Node]]: ...
    @property
    def T(self) -> Node: ...
    def inner_text(self, style: str) -> str: ...
