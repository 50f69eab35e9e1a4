"""Manipulability of points: log det J W J*, its gradient, and joint velocities by least squares.

J* Wx J = H φ (B Wx B*) φ* H* has the form of a mass matrix: Wx at the points takes the place of the
inertias. Its inverse, with damping in the place of rotor inertia, is therefore a Kalman filter and
a smoother, O(N), and the joint velocities that follow point velocities in least squares need no
Jacobian.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import Program, joint_array, real_array
from phipsi.core.calculus import vjp
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, PointSet, Refusal, point_set, supports, tree_of
from phipsi.core.operators import B, H, J, f0, mass_matrix, phi, v
from phipsi.errors import InputError, SingularMatrixError, is_real
from phipsi.package_state import only_public
from phipsi.user_operators import operator

__all__ = ["least_squares_velocities", "log_det", "log_det_gradient"]
__dir__ = only_public(__name__)

Array = NDArray[Any]
Points = Sequence[Any]

_LOOPS = Refusal(
    "the joint velocities of closed loops are not independent, and J W J* of the tree says nothing "
    "about the motions that are possible",
    "With a basis N of the admissible motions and the Jacobian J of the tree:\n"
    "    N = pp.minimal_velocities.basis(system, q, v).matrix\n"
    "    np.linalg.slogdet(J @ N @ N.T @ J.T)",
)
_BODIES = Refusal(
    "metrics at points have six rows on each body, and bodies with modes have more",
    "Use the rigid bodies:  model.with_rigid_bodies()",
)
_RANK = 1e-13  # of the largest eigenvalue of J W J*, in natural size


@supports(loops=_LOOPS, flexible=True, rotors=True)
def log_det(
    model: Model,
    q: ArrayLike,
    points: Points,
    *,
    components: Sequence[int] | None = None,
    weights: str | ArrayLike | None = None,
) -> Array:
    """Manipulability of points: log det J W J*.

    Half of it is the logarithm of Yoshikawa's measure, if W is the identity.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    points : sequence
        Names of bodies or frames, or pairs (name, offset) with the offset in m in the axes of the
        body or frame.
    components : sequence of int, optional
        Rows of each point that count: 0 to 2 are turns about the world axes, 3 to 5 motions along
        them. Default: all.
    weights : "mass" or array_like, shape (nv,), optional
        W: ℳ⁻¹, or a positive number for each velocity. Default: ones.

    Returns
    -------
    ndarray, shape (...)
        The logarithm; −inf at singular configurations.

    See Also
    --------
    log_det_gradient : Its derivatives.

    Notes
    -----
    **Cost:** O(N) for each row, and a determinant. **Source:** MC sec. 2.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> found = [
    ...     pp.manipulability.log_det(arm, [0.0, bend], ["tip"], components=(3, 4))
    ...     for bend in (0.5, 1.5)
    ... ]
    >>> bool(found[0] < found[1])
    True
    """
    tree = tree_of(model, log_det)
    _, metric = _metric(tree, q, points, components, weights)
    sign, size = np.linalg.slogdet(metric)
    return np.where((sign > 0) & _regular(metric), size, -np.inf)[()]


@supports(loops=_LOOPS, flexible=True, rotors=True)
def log_det_gradient(
    model: Model,
    q: ArrayLike,
    points: Points,
    *,
    components: Sequence[int] | None = None,
    weights: str | ArrayLike | None = None,
) -> Array:
    """Gradient of the manipulability log det J W J* with respect to q, along all velocities.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    points, components, weights : optional
        As for `log_det`.

    Returns
    -------
    ndarray, shape (..., nv)
        The derivatives in the directions of v.

    Raises
    ------
    SingularMatrixError
        At a singular configuration, where the logarithm has no derivative.

    Notes
    -----
    tr X⁻¹ δX with X = J W J*: one gradient in reverse mode for each row of X, exact. **Cost:** O(N)
    for each row. **Source:** MC sec. 2; theory/sensitivities 6.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.manipulability.log_det_gradient(arm, [0.0, 0.5], ["tip"], components=(3, 4)).round(4)
    array([0.   , 3.661])
    """
    tree = tree_of(model, log_det_gradient)
    jacobian, metric = _metric(tree, q, points, components, weights)
    if not _regular(metric).all():
        raise SingularMatrixError(
            "J W J* is singular, so log det has no derivative: the points cannot move in all "
            "directions that components= names. Choose fewer components, or another configuration."
        )
    inverse = np.linalg.inv(metric)
    rows, at = _rows(tree, points, components), joint_array(tree, "q", q, "nq")[..., None, :]
    count = len(_points(tree, points))
    unit = np.eye(6 * count)[rows].reshape(len(rows), count, 6)
    if isinstance(weights, str):
        loads = (inverse @ np.eye(6 * count)[rows]).reshape(*metric.shape[:-1], count, 6)
        return np.asarray(_gradient(_MOBILITY, tree, points)(at, unit, loads)).sum(axis=-2)
    rates = 2 * inverse @ jacobian * _weights(tree, weights)
    return np.asarray(_gradient(_MOTION, tree, points)(at, rates, unit)).sum(axis=-2)


def _gradient(expr: Expr, tree: Model, points: Points) -> Program:
    where = _points(tree, points)
    return tree.cached((vjp, expr, where), lambda: vjp(expr, tree, points=where))


_MOTION, _MOBILITY = J @ v, J @ mass_matrix.inv @ J.T @ f0


@supports(loops=_LOOPS, flexible=_BODIES)
def least_squares_velocities(
    model: Model,
    q: ArrayLike,
    points: Points,
    velocity: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    damping: float = 0.0,
) -> Array:
    """Joint velocities that follow velocities of points in damped least squares, in O(N).

    They minimise Σ (ẋ − J v)* Wx (ẋ − J v) + damping² v* v.

    Parameters
    ----------
    model : Model
        A tree of rigid bodies.
    q : array_like, shape (..., nq)
        Configuration.
    points : sequence
        As for `log_det`.
    velocity : array_like, shape (..., nC, 6)
        Wanted velocities ẋ of the points, [angular; linear] in world axes.
    weights : array_like, shape (nC, 6) or (nC, 6, 6), optional
        Wx: a number for each component, or a symmetric positive semidefinite matrix for each point.
        Default: ones.
    damping : float, optional
        0 needs a J* Wx J that is regular: no more joints than components that count. Default: 0.

    Returns
    -------
    ndarray, shape (..., nv)
        Generalized velocities.

    Raises
    ------
    SingularMatrixError
        If J* Wx J is singular and there is no damping.

    Notes
    -----
    v = (H φ W φ* H* + damping² I)⁻¹ H φ B Wx ẋ with the metric W = B Wx B* on bodies. The inverse
    is that of a mass matrix: a Kalman filter with the information Wx of points, and a smoother.
    **Cost:** two sweeps, O(N nC). **Source:** MC sec. 5.3 (Rodriguez and Scheid 1987).

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q = pp.examples.planar_arm(2), [0.0, 0.5]
    >>> tip = pp.jacobian(arm, q, ["tip"]) @ [0.3, -0.2]
    >>> pp.manipulability.least_squares_velocities(arm, q, ["tip"], [tip]).round(9)
    array([ 0.3, -0.2])
    """
    tree = tree_of(model, least_squares_velocities)
    at, wanted = joint_array(tree, "q", q, "nq"), real_array("velocity", velocity)
    count = len(_points(tree, points))
    if wanted.ndim < 2 or wanted.shape[-2:] != (count, 6):
        raise InputError(
            f"velocity has shape {wanted.shape}, and its last axes must be ({count}, 6): a row "
            "[angular; linear] for each point"
        )
    if not (is_real(damping) and 0 <= damping < np.inf):
        raise InputError(f"damping={damping!r} must be a finite number of at least 0")
    metric = _point_metric(weights, count)
    move = compile(B, tree, mode="dense", points=points)(at)
    blocks = move.reshape(*move.shape[:-2], tree.n_bodies, 6, count, 6)
    scale = 1 / damping**2 if damping else 1.0
    on_bodies = scale * np.einsum("...kiaj,ajl,...kmal->...kim", blocks, metric, blocks)
    loads = scale * np.einsum("ajl,...al->...aj", metric, wanted)
    program = compile(_resolved(bool(damping)), tree, points=points, inputs=("Wb",))
    return np.asarray(program(at, loads, on_bodies))


@cache
def _resolved(damped: bool) -> Expr:
    """(H φ W φ* H* + I)⁻¹ J* f0, with the metric W on bodies as an input."""
    on_bodies = operator("Wb", "motions -> forces", 0.0, symmetric=True)
    whole = H @ phi @ on_bodies @ phi.T @ H.T
    if damped:
        whole = whole + operator("Wj", "rates -> efforts", 1.0, symmetric=True)
    return whole.inv @ J.T @ f0


def _points(tree: Model, points: Points) -> PointSet:
    found = point_set(tree, points, "world")
    if not len(found):
        raise InputError("points= names no point. Name bodies or frames: points=['tool']")
    return found


def _rows(tree: Model, points: Points, components: Sequence[int] | None) -> Array:
    chosen = range(6) if components is None else tuple(components)
    if not len(chosen) or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(6)):
        raise InputError(
            f"components={components!r} are different numbers from 0 to 5: turns about the axes of "
            "the world, then motions along them; (3, 4, 5) is the position"
        )
    count = len(_points(tree, points))
    return np.array([6 * c + i for c in range(count) for i in chosen])


def _weights(tree: Model, weights: str | ArrayLike | None) -> Array:
    if weights is None:
        return np.ones(tree.nv)
    found = joint_array(tree, "weights", weights, "nv")
    if found.ndim != 1 or not (found > 0).all():
        raise InputError(f"weights are {tree.nv} positive numbers, one for each velocity")
    return found


def _metric(
    tree: Model,
    q: ArrayLike,
    points: Points,
    components: Sequence[int] | None,
    weights: str | ArrayLike | None,
) -> tuple[Array, Array]:
    """The rows of J that count, and J W J*."""
    rows = _rows(tree, points, components)
    jacobian = compile(J, tree, mode="dense", points=points)(q)[..., rows, :]
    if not isinstance(weights, str):
        return jacobian, jacobian * _weights(tree, weights) @ np.swapaxes(jacobian, -1, -2)
    if weights != "mass":
        raise InputError(
            f'weights={weights!r} must be "mass", or a positive number for each velocity'
        )
    whole = compile(J @ mass_matrix.inv @ J.T, tree, mode="dense", points=points)(q)
    return jacobian, whole[..., rows[:, None], rows]


def _regular(metric: Array) -> Array:
    """Whether J W J* is regular, with every row divided by its own size."""
    size = np.sqrt(np.diagonal(metric, axis1=-2, axis2=-1))
    size = np.where(size > 0, size, 1.0)
    values = np.linalg.eigvalsh(metric / size[..., :, None] / size[..., None, :])
    return values[..., 0] > _RANK * values[..., -1]


def _point_metric(weights: ArrayLike | None, count: int) -> Array:
    if weights is None:
        return np.broadcast_to(np.eye(6), (count, 6, 6))
    found = real_array("weights", weights)
    if found.shape == (count, 6):
        found = found[:, :, None] * np.eye(6)
    if found.shape != (count, 6, 6) or not np.allclose(found, found.swapaxes(-1, -2)):
        raise InputError(
            f"weights has shape {np.shape(weights)}: ({count}, 6) are numbers for each component, "
            f"({count}, 6, 6) symmetric matrices"
        )
    least, most = np.linalg.eigvalsh(found)[..., [0, -1]].T
    if (least < -1e-12 * np.maximum(most, 0)).any():
        raise InputError("weights must be positive semidefinite: a point cannot be repelled")
    return found
