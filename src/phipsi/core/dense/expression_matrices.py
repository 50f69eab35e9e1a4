"""Any expression as a dense matrix, by plain linear algebra: the O(N³) reference implementation.

φ is the inverse of I − E_φ, an inverse is an inverse, bd is a mask. No sweep, no rewriting: nothing
of the compiler is used, so that compiled programs can be compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import space_blocks
from phipsi.core.dense.evaluation import DenseEvaluator
from phipsi.core.dense.override_values import (
    DenseArguments,
    check_expression,
    check_points,
    collect,
)
from phipsi.core.expressions import Expr, Space, space_size
from phipsi.core.model import AXES, UNAFFECTED, Model, PointSet, forest_of, point_set, supports
from phipsi.core.operators import INPUT_ORDER, about_points, as_expression, check_tables
from phipsi.errors import InputError, not_too_deep, one_of

Array = NDArray[Any]


@supports(loops=True, contacts=UNAFFECTED, flexible=True, rotors=True)
def evaluate_dense(
    expr: Expr | str,
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    *,
    vdot: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    f_ext: ArrayLike | None = None,
    f0: ArrayLike | None = None,
    free: ArrayLike | None = None,
    inputs: Mapping[str | Expr, ArrayLike] | None = None,
    points: Sequence[Any] | PointSet | None = None,
    order: str = "base_to_tip",
    axes: str | None = None,
    notation: str = "",
    custom: Sequence[Expr] = (),
    **directions: ArrayLike,
) -> Array:
    """Evaluate an expression with dense matrices: a reference implementation for small models.

    Numbers may be real or complex, with batches on leading axes. Body quantities are in body axes,
    angular part first.

    Parameters
    ----------
    expr : Expr or str
        An expression, or a string that `parse` reads.
    model : Model
        A mechanism; a `System` for expressions with constraint rows.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv), optional
        Generalized velocities.
    vdot : array_like, shape (..., nv), optional
        Joint accelerations.
    tau : array_like, shape (..., nv), optional
        Joint torques and forces.
    f_ext : array_like, shape (..., n, 6), optional
        External force on each body, at its origin in body axes [N·m; N].
    f0 : array_like, shape (..., nC, 6), optional
        Force at each point.
    free : array_like, shape (..., nv), optional
        1 for joints whose effort is known, 0 for joints whose acceleration is prescribed.
    inputs : mapping of str or Expr to array_like, optional
        Values of operators and vectors in storage layout, used instead of computing them.
    points : sequence of (body_or_frame, offset) or PointSet, optional
        The points of B, J and f0.
    order : {"base_to_tip", "tip_to_base"}, optional
        Order of the bodies in the rows and columns of the result; arguments and `inputs` are always
        base to tip. Default: "base_to_tip", as stored; the papers have the other one.
    axes : {"world", "body", "spatial", "inertial"}, optional
        Axes of motions and forces at the points, as for `compile`; default: "world". "inertial":
        body quantities in world axes, about the same points.
    notation, custom : optional
        How strings are read, as for `parse`.
    **directions : array_like
        Other inputs by name: `Udot` (..., rows), and the directions `dq`, `dv`, `dvdot` and `dtau`
        (..., nv).

    Returns
    -------
    ndarray
        Operators (..., rows, cols) with body i in rows 6i … 6i+5, vectors (..., dim), scalars
        (...), poses (..., n, 4, 4).

    Raises
    ------
    InputError
        If an input is missing or has another shape.
    SingularMatrixError
        If a matrix to be inverted is singular.

    See Also
    --------
    compile : The O(N) program of an expression.

    Notes
    -----
    **Cost:** O(N³) per configuration.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.evaluate_dense("H phi M phi* H*", arm, [0.0, 0.5]).shape
    (2, 2)
    """
    expr = as_expression(expr, notation, custom)
    of_points = check_arrangement(expr, order, axes)
    named = {"q": q, "v": v, "vdot": vdot, "tau": tau, "f_ext": f_ext, "f0": f0, "free": free}
    arguments, model, where = _inputs(
        expr, model, points, {**named, **directions}, inputs, of_points
    )
    shape = _shape(expr, model, where)
    out = np.empty((*arguments.batch, *shape), arguments.dtype)
    with not_too_deep("evaluated"):
        for index in np.ndindex(arguments.batch):
            one = DenseEvaluator(model, where, *arguments.at(index), arguments.dtype)
            out[index] = arranged(expr, one, order, axes).reshape(shape)
    return out[()]


def _inputs(
    expr: Expr,
    model: Model,
    points: Sequence[Any] | PointSet | None,
    named: Mapping[str, ArrayLike | None],
    inputs: Mapping[str | Expr, ArrayLike] | None,
    axes: str | None = None,
) -> tuple[DenseArguments, Model, PointSet]:
    check_expression(expr)
    model, points = forest_of(model, points, axes)
    if not isinstance(cast(object, model), Model):
        raise InputError(
            f"pp.evaluate_dense needs a model, not {type(model).__name__}; see pp.ModelBuilder"
        )
    if points is None:
        check_points(expr)
    where = point_set(model, points, axes)
    for name in named:
        if name not in INPUT_ORDER:
            known = ", ".join(INPUT_ORDER)
            raise InputError(
                f"pp.evaluate_dense has no argument {name!r}; arguments of expressions are {known}"
            )
    check_tables((expr,), model, where)
    return collect(model, where, named, inputs, (expr,)), model, where


def _shape(expr: Expr, model: Model, points: PointSet) -> tuple[int, ...]:
    if expr.is_scalar:
        return ()
    rows = space_size(expr.gives, model, points)
    if expr.gives.of_poses:
        return (rows // 16, 4, 4)
    return (rows,) if expr.is_vector else (rows, space_size(expr.takes, model, points))


# ---- order and axes ----------------------------------------------------------------------------


def check_arrangement(expr: Expr, order: str, axes: str | None) -> str | None:
    """Reject unknown orders of bodies and unknown axes; the axes of the points, None by default."""
    one_of("order", order, ("base_to_tip", "tip_to_base"))
    if axes is None:
        return None
    hint = 'For body quantities in world axes write axes="inertial"'
    one_of("axes", axes, (*AXES, "inertial"), hint)
    if axes == "inertial":
        return None
    if axes != "body" and not about_points(expr):
        raise InputError(
            f"axes={axes!r} has no effect: {expr} has no motions or forces at points. {hint}"
        )
    return axes


def arranged(expr: Expr, one: DenseEvaluator, order: str, axes: str | None) -> Array:
    """The value in the axes and the order asked for; see `evaluate_dense`."""
    out = one.value(expr)
    if axes == "inertial":
        if expr.gives.index == "body" and expr.gives.width == 6:
            out = one.at.diagonal(one.at.turn) @ out
        if expr.takes.index == "body" and expr.takes.width == 6:
            out = out @ one.at.diagonal(one.at.turn).T
    if order == "tip_to_base":
        out = out[_reversed(expr.gives, one)][:, _reversed(expr.takes, one)]
    return out


def _reversed(space: Space, one: DenseEvaluator) -> Array:
    """Component numbers with the blocks in the papers' order, tip first."""
    if not space.per_body:
        return np.arange(one.size(space))
    if space.of_poses:
        return np.arange(one.size(space)).reshape(-1, 16)[::-1].reshape(-1)
    blocks = space_blocks(space, one.model, one.points)
    places: list[Array] = [np.arange(s.start, s.stop) for s in blocks[::-1]]
    return np.concatenate([np.arange(0), *places])
