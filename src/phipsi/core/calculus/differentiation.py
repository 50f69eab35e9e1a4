"""diff: the derivative of an expression as an expression, and vector–Jacobian products on top."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast, overload

from phipsi.core.backends import Program
from phipsi.core.calculus.change import VARIABLES, variable_operator, variable_space
from phipsi.core.calculus.directional import Directional
from phipsi.core.calculus.families import Family
from phipsi.core.calculus.gradient import Gradient
from phipsi.core.calculus.tangent import NoOperatorError, Tangent
from phipsi.core.compiler import compile
from phipsi.core.expressions import (
    EFFORTS,
    ONE,
    PARAMETERS,
    RATES,
    UNKNOWN,
    Expr,
    Space,
    check,
    identity,
    is_memoryless,
    zero,
)
from phipsi.core.model import UNAFFECTED, Model, PointSet, forest_of, point_set, supports
from phipsi.core.operators import (
    about_points,
    as_expression,
    catalogue_leaf,
    custom_leaves,
    depends_on_modes,
    is_of_rigid_bodies,
    knows_modes,
    leaves_of,
    operand,
    unit_effort,
    unit_inertia,
    unit_rate,
)
from phipsi.errors import InputError, SpaceError, is_a, not_too_deep, true_or_false

_ONE_DOF = re.compile(r"^(\w+)\[([^\],]+)(?:,\s*(\d+))?\]$")


@overload
def diff(
    expr: Family,
    wrt: str | Expr,
    along: Expr | str | None = None,
    *,
    modes: bool = False,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Family: ...
@overload
def diff(
    expr: Expr | str,
    wrt: str | Expr,
    along: Expr | str,
    *,
    modes: bool = False,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Expr: ...
@overload
def diff(
    expr: Expr | str,
    wrt: str | Expr,
    along: Expr | str | None = None,
    *,
    modes: bool = False,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Any: ...  # it depends
def diff(
    expr: Expr | Family | str,
    wrt: str | Expr,
    along: Expr | str | None = None,
    *,
    modes: bool = False,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Expr | Family:
    """Differentiate an expression; the result is an expression of the same algebra.

    Derivatives with respect to q are along the joint rates, nv of them, never along components of
    quaternions: ``gdot = diff(g, "q") @ v`` for every g(q).

    Parameters
    ----------
    expr : Expr, str or Family
        The expression; a `Family` for second derivatives.
    wrt : str or Expr
        "q", "v", "vdot", "tau", "f_ext" or "f0"; "inertia" for the ten inertial parameters of each
        body (in the order of `pp.identification.inertial_parameters`); ``"q[shoulder]"`` or
        ``"q[shoulder, 1]"`` for one degree of freedom; or a custom vector, scalar or operator of
        the expression, itself or its name.
    along : Expr or str, optional
        The direction of the change: "dq" or another vector of the space of the variable; for a
        custom operator, an operator between the same spaces.
    modes : bool, optional
        Whether the terms of the modes of flexible bodies, Ṁ{…} and Ė{…}, are included. Default:
        False, the derivative for rigid bodies, whose M is constant and whose E_φ depends on one
        joint. Compiling that one for a mechanism with flexible bodies is an error. If the
        expression does not determine whether bodies are flexible, as in ``diff(M @ x, "q")``, the
        terms are always included.
    notation, custom : optional
        How strings are read, as for `parse`.

    Returns
    -------
    Expr or Family
        With `along`, or one degree of freedom: the change of the expression, in the same spaces. A
        vector without `along`: the operator from the space of the variable, so that
        ``diff(y, "q") @ dq`` is the change of y, and ``diff(y, "q").T @ c`` the gradient of c* y.
        An operator without `along`: a `Family` over the degrees of freedom; also for a vector with
        articulated quantities (P, D, G, ψ) or block-diagonal parts, whose change is linear in the
        direction but not a product with it. A family: one with another axis; entry [..., j, k] of
        second derivatives is L_k (L_j X), which is symmetric in j and k for joints with q̇ = v.

    Raises
    ------
    LoweringError
        If no derivative is known.

    See Also
    --------
    vjp : Compiled gradients (reverse mode).

    Notes
    -----
    **Source:** theory/sensitivities 1–6; MS lemmas 3.1–4.3.

    Examples
    --------
    >>> import phipsi as pp
    >>> from phipsi.operators import H, M, phi, gravity
    >>> stiffness = pp.diff(H @ phi @ M @ phi.T @ gravity, "q")
    >>> arm = pp.examples.planar_arm(1)
    >>> pp.compile(stiffness, arm, mode="dense")([0.0]).round(9).tolist()
    [[0.0]]
    >>> print(pp.diff(phi, "q", along="dq"))
    −φ E_φ cross(H* dq)* φ
    >>> print(pp.diff("phi", "q", along="dq"))
    −φ E_φ cross(H* dq)* φ
    """
    name = wrt.name if isinstance(wrt, Expr) else wrt
    if not isinstance(expr, Family):
        expr = as_expression(expr, notation, custom)
    inner = _inside(expr)
    _check_expression(inner, "pp.diff")
    if isinstance(along, str):
        along = _direction_read(along, name, inner, notation, custom)
    if true_or_false("modes", modes) or knows_modes(inner):
        return _diff(expr, name, along, True)
    found = _diff(expr, name, along, False)
    if not depends_on_modes(inner) or is_of_rigid_bodies(_inside(found)):
        return found
    return _diff(expr, name, along, True)


def _direction_read(
    along: str, wrt: str, expr: Expr, notation: str, custom: Sequence[Expr]
) -> Expr:
    """A direction given as text, which may name the custom operator that changes along it."""
    changing = variable_operator(wrt, expr) if is_a(wrt, str) else None
    known = list(custom_leaves(custom))
    if changing is not None and changing not in known:
        known.append(changing)
    return as_expression(along, notation, known)


def _inside(x: Expr | Family) -> Expr:
    return x.expr if isinstance(x, Family) else x


def _diff(expr: Expr | Family, wrt: str, along: Expr | None, modal: bool) -> Expr | Family:
    if isinstance(expr, Family):
        return _diff_family(expr, wrt, along, modal)
    found = _ONE_DOF.match(wrt.strip()) if is_a(wrt, str) else None
    if found:
        if along is not None:
            raise InputError(
                f"along= has no effect: wrt={wrt!r} names one degree of freedom. Remove along="
            )
        wrt, name, i = found.group(1), found.group(2).strip(), int(found.group(3) or 0)
        along = _unit(wrt, name, i, expr)
    changing = variable_operator(wrt, expr) if isinstance(cast(object, wrt), str) else None
    if changing is not None:
        return _change(expr, wrt, _operator_change(changing, along), modal)
    space = _variable(wrt, expr)
    if along is None and expr.is_vector:
        try:
            with not_too_deep("differentiated"):
                return Tangent(wrt, space, modal)(expr)
        except NoOperatorError:
            if space is not ONE and not _directions(wrt, space):
                raise
    if space is ONE and along is None:
        along = identity(ONE)
    if along is None:
        direction = _direction(expr, wrt)
        return Family(_change(expr, wrt, direction, modal), direction)
    direction = along
    if not isinstance(cast(object, direction), Expr):
        raise InputError(
            f"along= must be an expression, not {type(along).__name__}. For a numerical direction, "
            "differentiate along an input, such as along='dq', and pass the numbers to the program"
        )
    if not direction.is_vector or direction.gives is not space:
        raise SpaceError(
            f"along={direction} must be a vector of {space.phrase}, because it is a "
            f"change of {wrt}, but it is: {check.signature(direction)}"
        )
    return _change(expr, wrt, direction, modal)


def _operator_change(X: Expr, along: Expr | None) -> Expr:
    """The change of a custom operator X: a memoryless operator between the same spaces."""
    symmetric = X.T is X
    if isinstance(along, Expr) and (along.takes, along.gives) == (X.takes, X.gives):
        if is_memoryless(along.structure) and (along.T is along or not symmetric):
            return along
    words = ", symmetric=True" if symmetric else ""
    raise SpaceError(
        f"{X} is an operator, so its derivative needs along=, "
        f"{'a symmetric' if symmetric else 'a memoryless'} operator {check.signature(X)}"
        f"{'' if along is None else f', not {along}'}:\n"
        f"    dX = pp.custom.operator('dX', '{X.takes.name} -> {X.gives.name}', …{words})\n"
        f"    pp.diff(expr, {X.name!r}, along=dX)\n"
        f"The gradient with respect to all its blocks:  pp.vjp(expr, model, {X.name!r})"
    )


def _change(expr: Expr, wrt: str, direction: Expr, modal: bool) -> Expr:
    with not_too_deep("differentiated"):
        return Directional({wrt: direction}, modal)(expr)


def _diff_family(family: Family, wrt: str, along: Expr | None, modal: bool) -> Family:
    """Every member of a family differentiated: one over two directions, unless one is named."""
    if along is None and not (isinstance(cast(object, wrt), str) and _ONE_DOF.match(wrt.strip())):
        direction = _direction(family.expr, wrt, family.directions)
        change = _change(family.expr, wrt, direction, modal)
        return Family(change, *family.directions, direction)
    if isinstance(along, Expr):
        family.check_apart(along)
    change = cast(Expr, _diff(family.expr, wrt, along, modal))
    return Family(change, *family.directions)


# leaves that can stand for the direction of a family, the usual one first
_DIRECTIONS = {
    "q": ("dq", "dv", "dvdot"),
    "v": ("dv", "dq", "dvdot"),
    "vdot": ("dvdot", "dq", "dv"),
    "tau": ("dtau",),
    "inertia": ("dinertia",),
}
_OF_SPACES = {RATES: "q", EFFORTS: "tau", PARAMETERS: "inertia"}
_UNITS = {RATES: unit_rate, EFFORTS: unit_effort, PARAMETERS: unit_inertia}


def _directions(wrt: str, space: Space) -> tuple[str, ...]:
    """The inputs that a variable can change along; for custom vectors, those of their space."""
    return _DIRECTIONS.get(wrt if wrt in VARIABLES else _OF_SPACES.get(space, ""), ())


def _direction(expr: Expr, wrt: str, taken: Sequence[Expr] = ()) -> Expr:
    """The direction of a family: one that does not occur in the expression yet."""
    every = _directions(wrt, _variable(wrt, expr))
    used = {x.name for x in (*leaves_of(expr), *taken)}
    free = [name for name in every if name not in used]
    if not free:
        known = ", ".join(every)
        why = f" ({known} already occur in the expression)" if known else ""
        raise InputError(
            f"the derivative with respect to {wrt} needs a direction{why}. Write  "
            f"pp.diff(expr, {wrt!r}, along=…)"
        )
    return catalogue_leaf(free[0])


def _unit(wrt: str, name: str, i: int, expr: Expr) -> Expr:
    """The unit vector that ``wrt[name, i]`` names."""
    maker = _UNITS.get(_variable(wrt, expr))
    if maker is None:
        raise InputError(
            f"wrt='{wrt}[{name}]': only q, v, vdot and tau have components, by the name of a "
            f"joint, and inertia, by that of a body. Differentiate with respect to {wrt} instead"
        )
    return maker(name, i)


def _variable(wrt: str, expr: Expr) -> Space:
    """The space of the changes of a variable, or an error with those that there are."""
    space = variable_space(wrt, expr) if isinstance(cast(object, wrt), str) else None
    if space is None:
        known = ", ".join(map(repr, VARIABLES))
        raise InputError(
            f"wrt={wrt!r} is not a variable of derivatives. The variables are {known}, and one "
            "degree of freedom by the name of its joint, such as 'q[shoulder]'"
        )
    return space


def _check_expression(expr: Expr, function: str) -> None:
    if not isinstance(cast(object, expr), Expr):
        raise InputError(
            f"{function} needs an operator expression, not {expr!r}{check.advice(expr)}"
        )
    if expr.takes is UNKNOWN:
        raise SpaceError(check.undetermined(expr))


@supports(loops=True, contacts=UNAFFECTED, flexible=True, rotors=True)
def vjp(
    expr: Expr | str,
    model: Model,
    wrt: str | Expr | Sequence[str | Expr] = "q",
    *,
    points: Sequence[Any] | PointSet | None = None,
    backend: str | None = None,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Program:
    """Compile gradients of an expression: the vector–Jacobian product (reverse mode).

    For a vector y and cotangents c, the program computes the gradients of c* y. The sweeps of the
    derivative run in the opposite direction, so all gradients together cost a small multiple of one
    evaluation of y.

    Parameters
    ----------
    expr : Expr or str
        The vector y.
    model : Model
        A mechanism.
    wrt : str, Expr or sequence of them, optional
        The variables, as for `diff`. Default: "q".
    points : sequence of (body_or_frame, offset) or PointSet, optional
        The points of B, J and f0.
    backend : str, optional
        As for `compile`.
    notation, custom : optional
        How strings are read, as for `parse`.

    Returns
    -------
    Program
        A program of the inputs of the derivatives, in their usual order, and c last, named x. It
        returns one gradient, or a tuple of them. Gradients with respect to q have the directions
        of v, (..., nv). Gradients with respect to a custom operator with constant blocks are
        (..., n, rows, cols), one number for each number of the blocks, symmetric if the operator
        is.

    See Also
    --------
    diff : The derivative as an expression.

    Examples
    --------
    >>> import phipsi as pp
    >>> from phipsi.algorithms import FORWARD_DYNAMICS
    >>> arm = pp.examples.planar_arm(2)
    >>> gradient = pp.vjp(FORWARD_DYNAMICS, arm, ("q", "v", "tau"))
    >>> gradient.inputs
    ('q', 'v', 'tau', 'x')
    >>> by_q, by_v, by_tau = gradient([0.1, 0.2], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0])
    >>> by_tau.shape
    (2,)
    """
    expr = as_expression(expr, notation, custom)
    _check_expression(expr, "pp.vjp")
    if not expr.is_vector:
        raise SpaceError(f"vjp needs a vector expression, but {expr} is: {check.signature(expr)}")
    if not isinstance(cast(object, wrt), (str, Expr, Sequence)):
        raise InputError(
            f"wrt={wrt!r} must be names of variables. Write  pp.vjp(expr, model, ('q', 'v'))"
        )
    names = (wrt,) if isinstance(wrt, (str, Expr)) else tuple(wrt)
    names = tuple(name.name if isinstance(name, Expr) else name for name in names)
    if not names:
        raise InputError("wrt=() names no variable. Write  pp.vjp(expr, model, ('q', 'v'))")
    modal = bool(getattr(model, "has_more_rows", False))
    count = 0
    if about_points(expr):
        count = len(point_set(*forest_of(model, points)))
    gradients = tuple(gradient(expr, name, modal, count) for name in names)
    modes = ["blocks" if variable_operator(name, expr) else "apply" for name in names]
    single = isinstance(wrt, (str, Expr))
    target, mode = (gradients[0], modes[0]) if single else (gradients, modes)
    return compile(target, model, mode=mode, points=points, backend=backend, same_operand=True)


def gradient(expr: Expr, wrt: str, modal: bool = False, points: int = 0) -> Expr:
    """The gradient of c* y with respect to a variable: an operator on c, or a vector linear in it.

    The operator is the adjoint of `diff(y, wrt)`. Where that is not an operator of the algebra,
    because y contains P, D, G, ψ or bd(…), c is the leaf ``operand[…]`` that stands for the operand
    of a program, and the gradient is a vector. By a custom operator X it is the memoryless operator
    G with tr(G* δX) = c* δy, symmetric if X is. `modal`: bodies may have modes;
    `points`, how many points a trace at points is a sum over.

    >>> from phipsi.core.calculus.differentiation import gradient
    >>> from phipsi.operators import D, tau
    >>> print(gradient(D.inv @ tau, "tau"))
    D⁻¹
    """
    weight = identity(expr.gives) if expr.is_scalar else operand(expr.gives.dual)
    changing = variable_operator(wrt, expr)
    with not_too_deep("differentiated"):
        if changing is not None:
            nothing = zero(changing.gives, changing.takes)
            W = Gradient(wrt, nothing, modal, None, points)(expr, weight)
            return Fraction(1, 2) * (W + W.T) if changing.T is changing else W.T
        space = _variable(wrt, expr)
        try:
            return Tangent(wrt, space, modal)(expr).T
        except NoOperatorError:
            return Gradient(wrt, zero(ONE, space.dual), modal, None, points)(expr, weight)
