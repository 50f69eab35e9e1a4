"""Any expression as a dense matrix, by plain linear algebra: the explicit O(N³) route, the oracle.

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
    """Evaluate an expression, or text that `parse` reads, as a dense matrix, vector or number.

    **Arguments:** `q` (..., nq), `v`, `vdot`, `tau` (..., nv), `f_ext` (..., n, 6), `f0` (..., nC,
    6), `free` (..., nv), `Udot` (..., rows), and the directions `dq`, `dv`, `dvdot`, `dtau` (...,
    nv), real or complex, batched on leading axes; `inputs` maps names of leaves to values in
    storage layout that are used instead of computing them; `points` are ``[(body_or_frame, offset),
    …]`` or a `PointSet`, which also has axes; `order` "base_to_tip" (as stored) or "tip_to_base"
    (the papers'); `axes` of motions and forces at the points, as for `compile`: "world" by default,
    "body" or "spatial"; or "inertial" for body quantities in world axes, about the same points
    (otherwise they are in body axes); `notation` and `custom`, how text is read, as for `parse`.
    **Returns:** operators (..., rows, cols) with body i in rows 6i … 6i+5, vectors (..., dim),
    scalars (...), poses (..., n, 4, 4). **Cost:** O(N³) per configuration; meant for checking and
    for small models.
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
    check_tables((expr,), model)
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
