"""Shared parts of the walks over an expression: changes as leaves, and exchanged arguments.

A row's `differential(x, d)` asks d for the rates u, for the motions that follow from them, and for
changes of other expressions. `Directional` answers with expressions. The two other walks look for
an operator that the direction is multiplied by, so they answer with the leaves of `Symbols`, walk
through the differential with all else held, and take up the change of y where they meet Δ{y}.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from phipsi.core.expressions import (
    EFFORTS,
    FORCES,
    GENERAL,
    MOTIONS,
    ONE,
    PARAMETERS,
    POINT_FORCES,
    RATES,
    STRICTLY_CAUSAL,
    Expr,
    Op,
    Row,
    Space,
    block_diagonal,
    cross,
    dH_trace,
    identity,
    inertia_trace,
    intern,
    leaf,
    rigid_cross,
    trace,
    vee,
    zero,
)
from phipsi.core.operators import (
    DifferentialTerms,
    E_phi,
    H,
    M,
    Riccati,
    arguments_of,
    definition,
    definition_with_modes,
    family_of,
    leaves_of,
    needs_of,
    own_rows,
    phi,
    place_of,
    with_arguments,
)
from phipsi.core.rewrite import riccati_of
from phipsi.errors import SpaceError

VARIABLES: dict[str, Space] = {
    "q": RATES,
    "v": RATES,
    "vdot": RATES,
    "tau": EFFORTS,
    "f_ext": FORCES,
    "f0": POINT_FORCES,
    "dq": RATES,
    "dv": RATES,
    "dvdot": RATES,
    "dtau": EFFORTS,
    "dinertia": PARAMETERS,
    "inertia": PARAMETERS,
}
"""The variables of derivatives, and the space of their changes.

"inertia" stands for the ten inertial parameters of every body, in which M is linear."""


def variable_space(wrt: str, expr: Expr) -> Space | None:
    """The space of the changes of a variable: a known one, or a custom vector in the expression."""
    row = own_rows((expr,)).get(wrt)
    known = row is not None and wrt in row.varies and row.takes is ONE
    return row.gives if row is not None and known else VARIABLES.get(wrt)


def variable_operator(wrt: str, expr: Expr) -> Expr | None:
    """The custom operator of this name in an expression, whose blocks can change."""
    row = own_rows((expr,)).get(wrt)
    return leaf(row) if row is not None and wrt in row.varies and row.takes is not ONE else None


def _symbol(name: str, space: Space, definition: Callable[[Expr], Expr] | None = None) -> Expr:
    return leaf(Row(name, name, name, ONE, space, GENERAL, definition=definition))


U = _symbol("δq", RATES)
RELATIVE = _symbol("δs", MOTIONS, lambda x: H.T @ U)
MOTION = _symbol("δV", MOTIONS, lambda x: phi.T @ RELATIVE)
PARAMETER = _symbol("δπ", PARAMETERS)
_CHANGES = {  # of operators that are symmetric, or steps to the parent
    (symmetric, step): Row("Δ", "Δ", r"\Delta", ONE, ONE, GENERAL, symmetric=symmetric, step=step)
    for symmetric in (False, True)
    for step in (False, True)
}


def change_in(x: Expr) -> Expr | None:
    """y if x is Δ{y}, the change of y."""
    return x.args[0] if x.op is Op.LEAF and x.row in _CHANGES.values() else None


class Symbols:
    """The change of one variable, or of all of them, as leaves for `differential(x, d)`.

    `modal`: bodies may have modes, so that M depends on q.
    """

    def __init__(self, wrt: str | None = None, modal: bool = False) -> None:
        self.wrt, self.modal = wrt, modal
        by_q, by_inertia = wrt in ("q", None), wrt in ("inertia", None)
        self.rates = U if by_q else zero(ONE, RATES)
        self.relative = RELATIVE if by_q else zero(ONE, MOTIONS)
        self.motion = MOTION if by_q else zero(ONE, MOTIONS)
        self.modes = self.relative if modal else zero(ONE, MOTIONS)
        self.cross = rigid_cross if modal else cross
        self.definition = definition_with_modes if modal else definition
        self.parameters = PARAMETER if by_inertia else zero(ONE, PARAMETERS)

    def __call__(self, y: Expr) -> Expr:
        """Δ{y}, or zero if y does not change."""
        if not self.moves(y):
            return zero(y.takes, y.gives)
        row = _CHANGES[y.T is y, y.structure == STRICTLY_CAUSAL]
        return intern(Op.LEAF, (y,), (row, ()), y.takes, y.gives, y.structure)

    def moves(self, y: Expr) -> bool:
        """Whether y depends on the variable at all."""
        if self.wrt is None or self.wrt in needs_of(y):
            return True
        return self.modal and self.wrt == "q" and "inertia" in needs_of(y)


@lru_cache(maxsize=2**14)
def has_symbols(x: Expr) -> bool:
    """Whether x contains changes."""
    return any(
        y in (U, RELATIVE, MOTION, PARAMETER) or change_in(y) is not None for y in leaves_of(x)
    )


def swaps(A: Expr, x: Expr) -> list[tuple[Expr, Expr]]:
    """(y, Q) with A x = Q y for every vector y inside A, in which A is linear; x is held.

    cross(y) x = −cross(x) y and cross(y)* f = cross_force(f) y; Ḣ{u} f = dH{f} u and so on.
    """
    core, flipped = A.core, A.core is not A
    if core.function is not None:
        swap = core.function.swap_adjoint if flipped else core.function.swap
        return [] if swap is None else [(core.args[0], swap(x))]
    form = core.row.form if core.op is Op.LEAF else None
    if form is None:
        return []
    args, place = arguments_of(core), place_of(core)
    if place is None:
        name = form.adjoint if flipped else form.applied
        return [(y, _opened(name, x, args, i)) for i, y in enumerate(args)]
    z, others = args[0], args[1:]
    if flipped:  # with two open directions there is no operator
        name = form.adjoint if core.name == form.applied else form.applied
        flat = [(z, with_arguments(name, x, *others, hole=place).T)]
        if not form.twice:
            return flat
        rest = [(y, (*others[:i], *others[i + 1 :])) for i, y in enumerate(others)]
        # the order of directions does not matter
        return flat + [(y, with_arguments(form.twice, z, x, *more)) for y, more in rest]
    directions = (*others[:place], x, *others[place:])
    whole = with_arguments(form.change, *directions)
    out = [(z, whole if core.name == form.applied else whole.T)]
    at = [i for i in range(len(directions)) if i != place]
    return out + [(directions[i], _opened(core.name, z, directions, i)) for i in at]


def _opened(name: str, y: Expr, directions: tuple[Expr, ...], i: int) -> Expr:
    """The part of a change in which direction i is open."""
    return with_arguments(name, y, *directions[:i], *directions[i + 1 :], hole=i)


# ---- log det -------------------------------------------------------------------------------------


def log_det_change(x: Expr, d: DifferentialTerms) -> Expr:
    """δ log det ℳ = Σ tr(D⁻¹ δD), a trace with Υ instead of one with δP, for H and E_φ.

    The gradient with respect to q is g = −2 H vee(Y P⁺) + 2 dH_trace((I − P π̄* Y) G) with
    Y = E_φ* Υ E_φ; with respect to the inertial parameters it is the trace of Υ M(π). With modes,
    the trace is not transformed.
    """
    inner = x.args[0]
    if inner.takes.index == "point" and inner.T is inner:  # Jacobi's formula
        return trace(inner.inv @ d(inner))
    f = log_det_family(x, d)
    if d.modes.op is not Op.ZERO:
        return trace(f.D.inv @ d(f.D))
    by_parameters = inertia_trace(f.Upsilon).T @ d.parameters if f.M is M else zero(ONE, ONE)
    return by_parameters + log_det_gradient(f).T @ d.rates


def log_det_family(x: Expr, d: DifferentialTerms) -> Riccati:
    """The family whose D has the determinant in log det x: of H, E_φ, M, and a W that is held."""
    inner = x.args[0]
    f = family_of(inner) if inner.name == "D" else riccati_of(inner)
    if f is None or f.H is not H or f.E is not E_phi:
        raise SpaceError(no_trace(x))
    if (f.M is not M and d(f.M).op is not Op.ZERO) or d(f.armature).op is not Op.ZERO:
        raise SpaceError(no_trace(x))
    return f


def log_det_gradient(f: Riccati) -> Expr:
    """The gradient of log det D with respect to q, a vector of joint efforts, in two sweeps."""
    above = block_diagonal(f.E.T @ f.Upsilon @ f.E)
    rest = (identity(FORCES) - f.P @ f.proj_bar.T @ above) @ f.G
    return -2 * (f.H @ vee(above @ f.proj_bar @ f.P)) + 2 * dH_trace(rest)


# ---- messages ------------------------------------------------------------------------------------


def no_formula_rule(x: Expr, y: Expr) -> str:
    """Text for a formula of one body through an argument of which no derivative is known."""
    return (
        f"no derivative is known for the formula  {x}  through its argument  {y}.\n"
        "Write the block as an expression of operators"
    )


def no_rule(x: Expr) -> str:
    """Text for a leaf without a derivative."""
    hint = {
        "pose": (
            "\nPoses cannot be added, so the change of a pose is not an expression of the algebra. "
            "When q changes along u, X_WB moves by the body motions φ* H* u, in body axes:\n"
            "    pp.compile(phi.T @ H.T, model)(q, u)"
        ),
        "frame_pose": (
            "\nPoses cannot be added, so the change of a pose is not an expression of the algebra. "
            "When q changes along u, the frames move by J u:\n"
            "    pp.compile(J, model, points=…)(q, u)"
        ),
    }.get(x.name, "")
    return f"no derivative is known for  {x}  ({x.row.meaning}).{hint}"


def no_trace(x: Expr) -> str:
    """Text for the derivative of a log det of something other than a mass matrix."""
    return (
        f"no derivative is known for  {x}.\n"
        "Known are those of  logdet(D),  of  logdet(ℳ)  with ℳ = W + H φ M φ* H*, times a "
        "number, and of symmetric operators on points, such as  logdet(J W J*). For another X "
        "take the trace of X⁻¹ δX:  pp.diff(X, 'q').compile(model)"
    )
