"""A row of the operator catalogue, and the kinds of expression node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from phipsi.expressions.spaces import Space
from phipsi.expressions.structure import Structure


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


@dataclass(frozen=True)
class Row:
    """What is true of one operator or vector of the catalogue.

    `needs` names the inputs the leaf itself reads ("q", "v", …). `riccati` marks the leaves of the
    Riccati family (P, D, G, psi, …), which carry the four operators (H, E, M, Jr) they are built
    from as arguments; without arguments they are the default instance. `symmetric` leaves are their
    own adjoint.
    """

    name: str
    symbol: str
    latex: str
    takes: Space
    gives: Space
    structure: Structure
    needs: tuple[str, ...] = ()
    symmetric: bool = False
    riccati: bool = False
    meaning: str = ""
    source: str = ""
