"""The inertia that a mechanism shows at points, and its inverse, of trees and of closed chains.

With Λ of all points and A the rows of the constraints, a force f at the points of one's own causes
the accelerations S Λ_c S* f there, with S that picks these points and

    Λ_c = Λ − Λ A* (A Λ A*)⁻¹ A Λ

Only the forces that the rows allow to move anything remain. S Λ_c S* always exists, also where rows
are redundant; its inverse exists where the points can accelerate in all directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.constrained.row_rank import DEPENDENT, RANK
from phipsi.algorithms.dynamics.dynamics_expressions import (
    CLOSED_ADMITTANCE,
    OPERATIONAL_SPACE_INERTIA,
)
from phipsi.core.backends import CallOptions, Calls, Program
from phipsi.core.compiler import program_at
from phipsi.core.model import Model, PointSet, supports, tree_of
from phipsi.core.operators import J, Lambda
from phipsi.errors import InputError, SingularMatrixError

Array = NDArray[Any]


@supports(loops=True, flexible=True, rotors=True)
def operational_space_inertia(
    model: Model,
    q: ArrayLike,
    points: Sequence[Any],
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Operational-space inertia: accelerations of points → forces at them.

    It contains the coupling between the points, which may be on any bodies. One 6×6 block per pair
    of points, [angular; linear], in kg·m², kg·m and kg. For a `System` it is the effective inertia
    of the closed chain: forces at the points cause constraint forces too. The object that several
    arms hold shows their inertias together with its own.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    points : sequence
        Names of bodies or frames, or pairs (name, offset) with the offset in m in the axes of the
        body or frame.
    axes : {"world", "body", "spatial"}, optional
        At the point in world axes; at the point in the axes of the named body or frame; or at the
        world's origin in world axes. Default: "world".
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 6 nC, 6 nC)
        The inertia.

    Raises
    ------
    SingularMatrixError
        If the points cannot all accelerate independently: J lacks row rank, or constraints hold a
        direction. `operational_space_inertia_inverse` always exists.

    See Also
    --------
    operational_space_inertia_inverse : Forces at points → accelerations of them.

    Notes
    -----
    Λ⁻¹ = (J ℳ⁻¹ J*)⁻¹ = (B* ψ* H* D⁻¹ H ψ B)⁻¹. With constraints (S Λ_c S*)⁻¹,
    Λ_c = Λ − Λ A* (A Λ A*)⁻¹ A Λ, and S picks the points. **Cost:** O(N) per column and O(nC³);
    with constraints also that of the elimination of the rows. **Source:** SOA eq. 0.34; MC eq.
    19–20, sec. 5.3 and 6; theory/closed-chains 3 and 8.

    Examples
    --------
    >>> from phipsi import operational_space_inertia
    >>> from phipsi.examples import seven_joint_arm
    >>> q = [0.1, 0.5, 0.2, 1.0, 0.3, 0.8, 0.1]
    >>> operational_space_inertia(seven_joint_arm(), q, ["tool"]).shape
    (6, 6)
    """
    if not getattr(model, "n_rows", 0):
        return program_at(
            OPERATIONAL_SPACE_INERTIA, model, points, axes, operational_space_inertia, "dense"
        ).evaluate((q,), options)
    calls = Calls(options)
    rule = operational_space_inertia
    closed = _closed(model, q, points, axes, rule, calls)
    tree = [program_at(x, model, points, axes, rule, "dense") for x in (Lambda, J)]
    return calls.finish(calls.solve(partial(_inverted, model, *tree), q, closed, matrices=1))


@supports(loops=True, flexible=True, rotors=True)
def operational_space_inertia_inverse(
    model: Model,
    q: ArrayLike,
    points: Sequence[Any],
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Inverse of the operational-space inertia: forces at points → accelerations of them.

    It always exists, also where the points cannot all accelerate independently, and contains the
    coupling between them. For a `System` it is that of the closed chain, with redundant rows too.
    A force on the mechanism at a point, at rest and without other loads, causes the accelerations
    in its columns. One 6×6 block per pair of points, [angular; linear].

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    points : sequence
        Names of bodies or frames, or pairs (name, offset) with the offset in m in the axes of the
        body or frame.
    axes : {"world", "body", "spatial"}, optional
        At the point in world axes; at the point in the axes of the named body or frame; or at the
        world's origin in world axes. Default: "world".
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 6 nC, 6 nC)
        The inverse; symmetric, and semidefinite.

    See Also
    --------
    operational_space_inertia : Accelerations of points → forces at them.

    Notes
    -----
    Λ = J ℳ⁻¹ J* = B* ψ* H* D⁻¹ H ψ B. With constraints S Λ_c S*, Λ_c = Λ − Λ A* (A Λ A*)⁻¹ A Λ,
    and S picks the points. **Cost:** O(N) per column; with constraints also that of the elimination
    of the rows. **Source:** SOA eq. 0.34; MC eq. 19–20, sec. 5.3, 6; theory/closed-chains 3, 8.

    Examples
    --------
    The tip of an arm that hangs on a string cannot accelerate along the string.

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> string = pp.constraints.Distance(1.0, name="string", a="tip", b=("world", (2.0, 1.0, 0)))
    >>> system = pp.System(arm, [string])
    >>> inverse = pp.operational_space_inertia_inverse(system, [0.0, 0.0], ["tip"])
    >>> inverse.shape, bool(abs(inverse[4]).max() < 1e-12)
    ((6, 6), True)
    """
    rule = operational_space_inertia_inverse
    if not getattr(model, "n_rows", 0):
        return program_at(Lambda, model, points, axes, rule, "dense").evaluate((q,), options)
    calls = Calls(options)
    return calls.finish(_closed(model, q, points, axes, rule, calls))


def _closed(
    system: Model,
    q: ArrayLike,
    points: Sequence[Any],
    axes: str,
    function: Callable[..., Any],
    calls: Calls,
) -> Array:
    """S Λ_c S* (..., 6 nC, 6 nC), one sweep of the tree for every column."""
    tree_of(system, function)
    program = program_at(
        CLOSED_ADMITTANCE, system, points, axes, function, with_rows=True, columns=True
    )
    every = program.request.points
    if program.resolve is None:
        every_jacobian = program_at(J, system, points, axes, function, "dense", with_rows=True)
        program.resolve = partial(_resolved, system, every_jacobian)
    count = 6 * (len(every) - len(system.closures.points))
    if not count:
        name = function.__name__
        raise InputError(f"{name} needs points:\n    pp.{name}(system, q, ['hand'])")
    units = np.eye(6 * len(every), count).reshape(len(every), 6, count)
    moved = calls(program, q, units)
    own = moved.reshape(*moved.shape[:-3], 6 * len(every), count)[..., :count, :]
    return 0.5 * (own + np.swapaxes(own, -1, -2))


def _resolved(
    system: Model, jacobian: Program, inputs: dict[str, Array]
) -> tuple[tuple[Array], Array]:
    """Λ_c on columns (n, points, 6, k) where rows are in doubt, by singular values."""
    q, x = inputs["q"], inputs["x"]
    carried, _ = _carried(system, jacobian, q)
    forces = x.reshape(len(x), carried.shape[1], x.shape[-1])
    moved = carried @ (np.swapaxes(carried, -1, -2) @ forces)
    return (moved.reshape(x.shape),), np.zeros(len(q), dtype=np.int64)


def _carried(system: Model, jacobian: Program, q: Array) -> tuple[Array, Array]:
    """C (n, 6 points, nv) with C C* = Λ_c, and the same for Λ of the tree: J L⁻* P and J L⁻*.

    ℳ = L L*, and P projects on the motions that keep the rows.
    """
    at = ConstraintMetric(rows_of(system), q)
    free = jacobian(q) @ at.back
    return free @ at.free, free


def _inverted(
    system: Model, admittance: Program, jacobian: Program, q: Array, closed: Array
) -> Array:
    """The inverse of S Λ_c S* (n, 6 nC, 6 nC), each direction in its size on the tree.

    Eigenvalues of squares lose half of the digits; where one is small, singular values decide.
    """
    if not len(q):
        return closed
    scale = _sizes(np.einsum("nii->ni", admittance(q)))
    values, vectors = np.linalg.eigh(closed / (scale[:, :, None] * scale[:, None, :]))
    for i in np.flatnonzero(values[:, 0] < DEPENDENT):
        carried, free = (x[0] for x in _carried(system, jacobian, q[i : i + 1]))
        scale[i] = _sizes(np.square(free).sum(axis=-1))
        left, s, _ = np.linalg.svd(carried / scale[i][:, None])
        s = np.concatenate([s, np.zeros(len(left) - len(s))])
        if s[-1] < RANK:
            raise _held(admittance.request.points, int((s >= RANK).sum()), left[:, -1])
        values[i], vectors[i] = s**2, left
    vectors /= scale[:, :, None]
    return (vectors / values[:, None, :]) @ np.swapaxes(vectors, -1, -2)


def _sizes(squares: Array) -> Array:
    """Natural sizes from their squares; 1 where nothing moves at all."""
    return np.sqrt(np.where(squares > 0, squares, 1.0))


def _held(points: PointSet, rank: int, direction: Array) -> SingularMatrixError:
    """The error about a direction (6 nC,) in which points cannot accelerate."""
    most = int(np.abs(direction).argmax())
    half, axis = divmod(most % 6, 3)
    what = "about" if half == 0 else "along"
    return SingularMatrixError(
        f"the points cannot all accelerate independently: joints and constraints leave {rank} of "
        f"{len(direction)} directions, and hold one mostly {what} {'xyz'[axis]} of "
        f"{points.names[most // 6]!r}. The inertia there is infinite; its inverse always exists:\n"
        "    pp.operational_space_inertia_inverse(system, q, points)"
    )
