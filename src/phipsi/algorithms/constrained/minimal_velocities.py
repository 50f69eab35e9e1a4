"""Minimal velocities of a system with closed loops: a basis of its admissible motions.

A J v = rates leaves as many velocities free as the system has degrees of freedom. Those of some
joints, u, are chosen as parameters, v = N u + v₀ with N = 1 at the chosen ones, and the equations
of motion are projected:

    N* ℳ N u̇ = N* (tau − c − ℳ γ),      v̇ = N u̇ + γ,      γ = Ṅ u + v̇₀

N has the rank of the motions in the mass metric, also where rows are redundant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.equation_terms import mass_matrix
from phipsi.algorithms.dynamics.equations_of_motion import inverse_dynamics
from phipsi.core.backends import state_arrays
from phipsi.core.calculus import diff
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr
from phipsi.core.model import (
    UNAFFECTED,
    Model,
    entry_names,
    flat_batch,
    rates_of,
    supports,
    tree_of,
)
from phipsi.core.operators import A, J, v as rates_vector
from phipsi.errors import InputError
from phipsi.package_state import only_public
from phipsi.support import fields_in_line

__all__ = ["MinimalEquations", "VelocityBasis", "basis", "equations"]
__dir__ = only_public(__name__)

Array = NDArray[Any]

_DETERMINED = 1e-6  # chosen velocities determine the others if their motions are that independent


class VelocityBasis(NamedTuple):
    """Minimal velocities u of a system: v = matrix u + offset.

    Parameters
    ----------
    matrix : ndarray, shape (..., nv, n)
        N. Its rows at the independent velocities are the identity.
    offset : ndarray, shape (..., nv)
        v₀, zero except for constraints that prescribe velocities.
    rate : ndarray, shape (..., nv, n)
        Ṅ, the time derivative of N along v.
    drift : ndarray, shape (..., nv)
        γ = Ṅ u + v̇₀: v̇ = N u̇ + γ.
    independent : tuple of int
        Places of u in v.
    names : tuple of str
        Names of u.
    """

    matrix: Array
    offset: Array
    rate: Array
    drift: Array
    independent: tuple[int, ...]
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return fields_in_line(self)


class MinimalEquations(NamedTuple):
    """Equations of motion in minimal velocities: mass u̇ = force.

    Parameters
    ----------
    mass : ndarray, shape (..., n, n)
        N* ℳ N, symmetric and positive definite.
    force : ndarray, shape (..., n)
        N* (tau − c − ℳ γ).
    udot : ndarray, shape (..., n)
        The accelerations u̇ = mass⁻¹ force.
    vdot : ndarray, shape (..., nv)
        Those of all joints, N u̇ + γ.
    basis : VelocityBasis
        The basis.
    """

    mass: Array
    force: Array
    udot: Array
    vdot: Array
    basis: VelocityBasis

    def __repr__(self) -> str:
        return f"<MinimalEquations: {', '.join(self.basis.names) or 'no velocities'}>"


@supports(loops=True, flexible=True, rotors=UNAFFECTED)
def basis(
    model: Model, q: ArrayLike, v: ArrayLike, *, independent: Sequence[str] | None = None
) -> VelocityBasis:
    """Basis of the admissible motions of a system, with its rate along a motion.

    Parameters
    ----------
    model : Model
        A `System` or a tree, all of whose velocities are independent.
    q : array_like, shape (..., nq)
        Configurations at which the loops are closed.
    v : array_like, shape (..., nv)
        Generalized velocities with A J v = rates.
    independent : sequence of str, optional
        Names of joints whose velocities determine the others. Default: those that do best at the
        first configuration of the batch.

    Returns
    -------
    VelocityBasis
        `VelocityBasis` (matrix, offset, rate, drift, independent, names).

    Raises
    ------
    InputError
        If the joints do not determine the motion at a configuration, or the number of degrees of
        freedom differs within the batch.

    See Also
    --------
    equations : Equations of motion in these velocities.

    Notes
    -----
    N spans the null space of G = A J; G Ṅ = −Ġ N. **Cost:** O(N + rows · depth) for G, then dense
    algebra, O(nv³). **Source:** SOA after eq. 0.20.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(arm, [pin])
    >>> q = four_bar.assemble([1.0, -1.0, -1.5])
    >>> found = pp.minimal_velocities.basis(four_bar, q, np.zeros(3), independent=["joint1"])
    >>> found.matrix.shape, float(found.matrix[0, 0])
    ((3, 1), 1.0)
    >>> bool(abs(four_bar.jacobian(q) @ found.matrix).max() < 1e-12)
    True
    """
    tree_of(model, basis)
    tree = model.model
    at_q, at_v = state_arrays(tree, q=q, v=v)
    batch = np.broadcast_shapes(at_q.shape[:-1], at_v.shape[:-1])
    flat, rates = flat_batch(at_q, batch), flat_batch(at_v, batch)
    found, chosen = _basis(model, flat, rates, independent)
    matrix, offset, rate, drift = (x.reshape(*batch, *x.shape[1:]) for x in found)
    names = entry_names(tree, tree.v_slices)
    places = tuple(map(int, chosen))
    return VelocityBasis(matrix, offset, rate, drift, places, tuple(names[i] for i in places))


@supports(loops=True, flexible=True, rotors=True)
def equations(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    independent: Sequence[str] | None = None,
) -> MinimalEquations:
    """Equations of motion of a system in minimal velocities, and their solution.

    Parameters
    ----------
    model : Model
        A `System` or a tree.
    q : array_like, shape (..., nq)
        Configurations at which the loops are closed.
    v : array_like, shape (..., nv)
        Generalized velocities with A J v = rates.
    tau : array_like, shape (..., nv)
        Joint torques and forces, N·m or N.
    independent : sequence of str, optional
        As for `basis`.

    Returns
    -------
    MinimalEquations
        `MinimalEquations` (mass, force, udot, vdot, basis).

    See Also
    --------
    phipsi.forward_dynamics : The same accelerations, with constraint forces instead of a basis.

    Notes
    -----
    Constraint forces do no work along N, so they do not occur. **Cost:** as `basis`, and ℳ.
    **Source:** SOA after eq. 0.20.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(arm, [pin])
    >>> q, rest = four_bar.assemble([1.0, -1.0, -1.5]), np.zeros(3)
    >>> found = pp.minimal_velocities.equations(four_bar, q, rest, rest)
    >>> bool(np.allclose(found.vdot, pp.forward_dynamics(four_bar, q, rest, rest)))
    True
    """
    tree_of(model, equations)
    chosen = basis(model, q, v, independent=independent)
    N, tree = chosen.matrix, model.model
    mass = np.swapaxes(N, -1, -2) @ mass_matrix(tree, q) @ N
    load = np.asarray(tau, dtype=float) - inverse_dynamics(tree, q, v, chosen.drift)
    force = (np.swapaxes(N, -1, -2) @ load[..., None])[..., 0]
    udot = np.linalg.solve(mass, force[..., None])[..., 0]
    vdot = (N @ udot[..., None])[..., 0] + chosen.drift
    return MinimalEquations(mass, force, udot, vdot, chosen)


def _rate_of_rows() -> Expr:
    return diff(A @ J, "q", along=rates_vector)


def _basis(
    system: Model, q: Array, v: Array, independent: Sequence[str] | None
) -> tuple[tuple[Array, Array, Array, Array], Array]:
    """N, v₀, Ṅ, γ of flat configurations, and the places of the independent velocities."""
    n, nv = len(q), system.model.nv
    if not isinstance(system, System) or not system.n_rows:
        every = np.arange(nv)
        _check_count(system.model, independent, every)
        whole = np.broadcast_to(np.eye(nv), (n, nv, nv)).copy()
        return (whole, np.zeros((n, nv)), np.zeros((n, nv, nv)), np.zeros((n, nv))), every
    at = ConstraintMetric(system.rows, q)
    if not n:
        empty = np.zeros((0, nv))
        return (empty[..., None][..., :0], empty, empty[..., None][..., :0], empty), np.arange(0)
    different = np.flatnonzero(at.rank != at.rank[0])
    if len(different):
        raise InputError(
            f"configuration {int(different[0])} of the batch has {nv - int(at.rank[different[0]])} "
            f"degrees of freedom, and the first {nv - int(at.rank[0])}: minimal velocities are "
            "those of one mobility. Call the function for each part of the batch."
        )
    best = at.independent_rates()
    chosen = best if independent is None else rates_of(system.model, independent)
    N = _motions(system.model, at, chosen, best, independent)
    drift = _determined(N, chosen, at.solve(-system.rows.bias(q, v)))
    offset = _determined(N, chosen, at.solve(np.broadcast_to(system.rates, (n, system.n_rows))))
    moved = -(_row_rates(system, q, v) @ N)
    columns = [_determined(N, chosen, at.solve(moved[..., i])) for i in range(len(chosen))]
    rate = np.stack(columns, axis=-1) if columns else np.zeros_like(N)
    return (N, offset, rate, drift), chosen


def _row_rates(system: System, q: Array, v: Array) -> Array:
    """Ġ (n, rows, nv)."""
    out = compile(_rate_of_rows(), system, mode="dense")(q, v)
    out[..., system.rows.coupled, :] = 0.0
    return out


def _determined(N: Array, chosen: Array, x: Array) -> Array:
    """Of all velocities that do to the rows what x (n, nv) does, those with chosen ones zero."""
    out = x - (N @ x[:, chosen, None])[..., 0]
    out[:, chosen] = 0.0
    return out


def _motions(
    model: Model,
    at: ConstraintMetric,
    chosen: Array,
    best: Array,
    independent: Sequence[str] | None,
) -> Array:
    """N (n, nv, chosen), as `ConstraintMetric.motions` for a whole batch."""
    if len(chosen) != len(best):
        _check_count(model, independent, best)
    size: Array = np.linalg.norm(at.back, axis=-1)
    rows: Array = at.back / size[..., None] @ at.free
    Q, R = np.linalg.qr(np.swapaxes(rows[:, chosen], -1, -2))
    smallest = np.linalg.svd(R, compute_uv=False).min(axis=-1, initial=np.inf)
    if (smallest <= _DETERMINED).any():
        worst = int(smallest.argmin())
        names = entry_names(model, model.v_slices)
        there = [names[int(i)] for i in at.independent_rates(element=worst)]
        raise InputError(
            f"the velocities of {[names[int(i)] for i in chosen]} do not determine those of the "
            f"other joints at configuration {worst} of the batch. These do there: {there}\n"
            f"    independent={there!r}"
        )
    back: Array = np.linalg.solve(R, np.swapaxes(Q, -1, -2) @ np.swapaxes(rows, -1, -2))
    out = size[..., None] * np.swapaxes(back, -1, -2) / size[:, None, chosen]
    out[:, chosen] = np.eye(len(chosen))
    return out


def _check_count(model: Model, independent: Sequence[str] | None, best: Array) -> None:
    """Reject names of too many or too few velocities."""
    if independent is None:
        return
    count = len(rates_of(model, independent))
    if count != len(best):
        names = entry_names(model, model.v_slices)
        raise InputError(
            f"independent={list(independent)!r} has {count} velocities, and the system has "
            f"{len(best)} degrees of freedom here. These determine the motion: "
            f"{[names[i] for i in best]}"
        )
