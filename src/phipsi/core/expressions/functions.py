"""Functions of expressions that are linear in every argument, one row each.

cross(x), outer(x; y), vee(X), …: a row says what the arguments are, what comes out, which operation
computes it, and the rules from which its derivatives follow; see `Function`. Adding a function is
adding a row here, its name in `operators/__init__.py`, and its formula for `pp.evaluate_dense`.
"""

from __future__ import annotations

from phipsi.core.expressions.node import SCALED, Expr, Function, identity
from phipsi.core.expressions.spaces import (
    EFFORTS,
    FORCES,
    MOTIONS,
    NORMALISED,
    ONE,
    PARAMETER_WEIGHTS,
    PARAMETERS,
    RATES,
    UNKNOWN,
)
from phipsi.core.expressions.structure import STRICTLY_ANTICAUSAL

# ---- operators of vectors ------------------------------------------------------------------------

cross = Function(
    "cross", (MOTIONS,), MOTIONS, MOTIONS, "crm",
    "The memoryless operator y ↦ x(k) × y(k) on body motions, of a body-motion vector x.",
    swap=lambda x: -cross(x),
    swap_adjoint=lambda f: cross_force(f),
    pull=lambda x, Z: (vee(Z),),
)  # fmt: skip
cross_force = Function(
    "cross_force", (FORCES,), MOTIONS, FORCES, "crq",
    "The memoryless operator x ↦ cross(x)* f, of a body-force vector f: the papers' Q[f], skew.",
    r"\operatorname{cross_{f}}",
    adjoint=lambda x: -x,
    swap=lambda x: cross(x).T,
    pull=lambda x, Z: (vee_force(Z),),
)  # fmt: skip
regress = Function(
    "regress", (MOTIONS,), PARAMETERS, FORCES, "regress",
    """The memoryless operator π ↦ M(π) x from inertial parameters, of a body-motion vector x.

    π(k) = [m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz] of body k, about its origin in body axes: the
    spatial inertia is linear in them.
    """,
    swap=lambda x: inertia_of(x),
)  # fmt: skip
inertia_of = Function(
    "inertia_of", (PARAMETERS,), MOTIONS, FORCES, "inertia_of",
    "The memoryless operator M(π) of inertial parameters, in the order of `regress`; symmetric.",
    r"\operatorname{M_{\pi}}",
    adjoint=lambda x: x,
    swap=regress,
    pull=lambda x, Z: (inertia_trace(Z),),
)  # fmt: skip
outer = Function(
    "outer", (None, None), None, None, "",
    "The memoryless operator with the blocks x(k) y(k)*, of two vectors with a block per body.",
    adjoint=lambda x: outer(x.args[1], x.args[0]),
    pull=lambda x, Z: (Z.T @ x.args[1], Z @ x.args[0]),
)  # fmt: skip
diag = Function(
    "diag", (EFFORTS,), RATES, EFFORTS, "diagonal_matrix",
    "The memoryless operator from joint rates to joint efforts with a vector on its diagonal.",
    adjoint=lambda x: x,
    pull=lambda x, Z: (diagonal(Z),),
)  # fmt: skip

# ---- of numbers ----------------------------------------------------------------------------------

scaled = SCALED
trace = Function(
    "trace", ((UNKNOWN, UNKNOWN),), ONE, ONE, "block_trace",
    "The sum of the diagonal entries of a memoryless operator on one space, or of one on points.",
    pull=lambda x, w: (scaled(w, identity(x.args[0].takes)),),
)  # fmt: skip

# ---- of memoryless operators ---------------------------------------------------------------------

half = Function(
    "half", ((NORMALISED, NORMALISED),), NORMALISED, NORMALISED, "half",
    "Lower triangles of hinge blocks with half their diagonals: with its adjoint it gives X.",
    pull=lambda x, Z: (half(Z.T).T,),
)  # fmt: skip
diagonal = Function(
    "diagonal", ((EFFORTS, RATES),), ONE, RATES, "diagonal_column",
    "The vector of joint rates with the diagonal entries of a memoryless operator.",
    pull=lambda x, w: (diag(w),),
)  # fmt: skip
vee = Function(
    "vee", ((MOTIONS, MOTIONS),), ONE, FORCES, "vee",
    "The vector of body forces f with f* s = tr(cross(s) X) for all s, of a memoryless X.",
    pull=lambda x, w: (cross(w),),
)  # fmt: skip
vee_force = Function(
    "vee_force", ((FORCES, MOTIONS),), ONE, MOTIONS, "vee_force",
    "The vector of body motions w with w* f = tr(cross_force(f) X) for all f, of a memoryless X.",
    r"\operatorname{vee_{f}}",
    pull=lambda x, w: (cross_force(w),),
)  # fmt: skip
inertia_trace = Function(
    "inertia_trace", ((FORCES, MOTIONS),), ONE, PARAMETER_WEIGHTS, "inertia_trace",
    "The vector w with w* π = tr(M(π) X) for all inertial parameters π, of a memoryless X.",
    r"\operatorname{M_{tr}}",
    pull=lambda x, w: (inertia_of(w),),
)  # fmt: skip
rigid_cross = Function(
    "rigid_cross", (MOTIONS,), MOTIONS, MOTIONS, "rigid_crm",
    """The operator y ↦ x(k) × y(k) on the six rigid rows of body motions; modal rows are zero.

    Derivatives for mechanisms with flexible bodies have it in the place of `cross`, which is known
    for rigid bodies only.
    """,
    r"\operatorname{cross_{r}}",
    swap=lambda x: -rigid_cross(x),
    swap_adjoint=lambda f: rigid_cross_force(f),
    pull=lambda x, Z: (rigid_vee(Z),),
)  # fmt: skip
rigid_cross_force = Function(
    "rigid_cross_force", (FORCES,), MOTIONS, FORCES, "rigid_crq",
    "The operator x ↦ rigid_cross(x)* f, of a body-force vector f; skew.",
    r"\operatorname{cross_{rf}}",
    adjoint=lambda x: -x,
    swap=lambda x: rigid_cross(x).T,
    pull=lambda x, Z: (rigid_vee_force(Z),),
)  # fmt: skip
rigid_vee = Function(
    "rigid_vee", ((MOTIONS, MOTIONS),), ONE, FORCES, "rigid_vee",
    "The vector of body forces f with f* s = tr(rigid_cross(s) X) for all s, of a memoryless X.",
    r"\operatorname{vee_{r}}",
    pull=lambda x, w: (rigid_cross(w),),
)  # fmt: skip
rigid_vee_force = Function(
    "rigid_vee_force", ((FORCES, MOTIONS),), ONE, MOTIONS, "rigid_vee_force",
    "The body motions w with w* f = tr(rigid_cross_force(f) X) for all f, of a memoryless X.",
    r"\operatorname{vee_{rf}}",
    pull=lambda x, w: (rigid_cross_force(w),),
)  # fmt: skip
dM_trace = Function(
    "dM_trace", ((FORCES, MOTIONS),), ONE, FORCES, "dM_trace",
    """The vector of body forces f with f* s = tr(Ṁ{s} X) for all s, of a memoryless X.

    Further directions and `hole` as for `dH_trace`. Zero for rigid bodies.
    """,
    r"\operatorname{\delta M_{tr}}",
    directions=MOTIONS,
    differential=lambda x, d: dM_trace(*x.args, d.modes, hole=open_place(x)),
)  # fmt: skip
dE_trace = Function(
    "dE_trace", (STRICTLY_ANTICAUSAL,), ONE, FORCES, "dE_trace",
    """The vector of body forces f with f* s = tr(Ė{s} Y), of one step Y from every parent.

    Y = A E* C with memoryless A and C. Further directions and `hole` as for `dH_trace`. Zero for
    rigid bodies.
    """,
    r"\operatorname{\delta E_{tr}}",
    directions=MOTIONS,
    differential=lambda x, d: dE_trace(*x.args, d.modes, hole=open_place(x))
    - dE_trace(d.cross(d.relative).T @ x.args[0], *x.args[1:], hole=open_place(x)),
)  # fmt: skip
dH_trace = Function(
    "dH_trace", ((EFFORTS, FORCES),), ONE, EFFORTS, "dH_trace",
    """The vector of joint efforts e with e* u = tr(Ḣ{u} X) for all u, of a memoryless X.

    With directions w the trace is that of Ḣ{w; u} X; `hole` is where u stands, last if None.
    """,
    r"\operatorname{\delta H_{tr}}",
    directions=RATES,
    differential=lambda x, d: dH_trace(*x.args, d.rates, hole=open_place(x)),
)  # fmt: skip


def open_place(x: Expr) -> int:
    """Where the open direction of a node f(X; directions) stands among the directions."""
    function, hole = x.data
    return len(x.args) - len(function.arguments) if hole is None else hole


FUNCTIONS = {x.name: x for x in tuple(globals().values()) if isinstance(x, Function)}
"""All rows of this module by name: what `parse` knows."""

OF_RIGID_BODIES = frozenset((cross, cross_force, vee, vee_force))
"""Functions in the derivatives of rigid bodies, which are wrong for bodies with modes."""
OF_MODES = frozenset(
    (rigid_cross, rigid_cross_force, rigid_vee, rigid_vee_force, dM_trace, dE_trace)
)
"""Functions in the derivatives of mechanisms whose bodies may have modes."""
