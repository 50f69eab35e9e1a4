"""Jacobian of the mass centre, and the matrix of the momentum about it.

``momentum(model, q, v, about="com")`` and `center_of_mass` are in energy.py.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Unpack

from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.energy import (
    MOMENTUM,
    WHOLE_INERTIA,
    about_mass_center,
    check_momentum,
    first_moment,
    no_mass,
    whole_mass,
)
from phipsi.algorithms.kinematics.motions import VELOCITY_MAP, VELOCITY_MAP_DOT
from phipsi.core.backends import CallOptions, Calls
from phipsi.core.calculus import diff
from phipsi.core.compiler import program_of
from phipsi.core.expressions import Expr
from phipsi.core.model import UNAFFECTED, Model, supports, tree_of
from phipsi.core.operators import M, V, cross, to_com, total, v
from phipsi.core.spatial import skew
from phipsi.package_state import only_public

Array = NDArray[Any]

__all__ = ["com_jacobian", "momentum_matrix", "momentum_matrix_dot"]
__dir__ = only_public(__name__)

MOMENTUM_MATRIX = total(M @ VELOCITY_MAP)
CENTROIDAL_MOMENTUM_MATRIX = to_com @ MOMENTUM_MATRIX
# d/dt of the body forces M φ* H* in world axes: their components change, and the body axes turn
MOMENTUM_MATRIX_DOT = total(M @ VELOCITY_MAP_DOT - cross(V).T @ M @ VELOCITY_MAP)


@cache
def _momentum_matrix_dot_with_modes() -> Expr:
    return diff(MOMENTUM_MATRIX, "q", along=v, modes=True)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def com_jacobian(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Jacobian of the center of mass: generalized velocities → its velocity, m/s in world axes.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 3, nv)
        The Jacobian.

    Raises
    ------
    ModelError
        If the model has no mass.

    Notes
    -----
    The linear rows of total M φ* H*, divided by the mass: momentum is mass times this velocity.
    **Cost:** O(N) for each row. **Source:** theory/open-chains 6 and 12.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.centroidal.com_jacobian(pp.examples.planar_arm(2), [0.0, 0.0])[1]
    array([1.  , 0.25])
    """
    tree = tree_of(model, com_jacobian)
    mass = whole_mass(tree)
    if mass == 0:
        raise no_mass(tree)
    calls = Calls(options)
    return calls.finish(calls(program_of(MOMENTUM_MATRIX, tree, "dense"), q)[..., 3:, :] / mass)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def momentum_matrix(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Centroidal momentum matrix: generalized velocities → momentum about the center of mass.

    Times v it is ``momentum(…, about="com")``. World axes, [angular; linear], without armature.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 6, nv)
        The matrix.

    Notes
    -----
    to_com total M φ* H*, momentum moved from the world's origin to the center of mass. **Cost:**
    O(N) for each of six rows. **Source:** theory/open-chains 6 and 12.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.centroidal.momentum_matrix(pp.examples.planar_arm(1), [0.0])[:, 0].round(4)
    array([0.    , 0.    , 0.0833, 0.    , 0.5   , 0.    ])
    """
    check_momentum(model, "centroidal.momentum_matrix")
    pair = (CENTROIDAL_MOMENTUM_MATRIX, MOMENTUM_MATRIX)
    return about_mass_center(*pair, model, "dense", momentum_matrix).evaluate((q,), options)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def momentum_matrix_dot(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Time derivative of the centroidal momentum matrix.

    World axes, [angular; linear].

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 6, nv)
        The derivative.

    Notes
    -----
    d/dt (total M φ* H*) = total (M d/dt(φ* H*) − cross(V)* M φ* H*), moved to the center of mass,
    which itself moves at the velocity total M V / m. With flexible bodies M changes too. **Cost:**
    O(N) for each of six rows. **Source:** theory/open-chains 4.3.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> pp.centroidal.momentum_matrix_dot(arm, [0.0], [2.0])[:, 0].round(12) + 0
    array([ 0.,  0.,  0., -1.,  0.,  0.])
    """
    tree = tree_of(model, momentum_matrix_dot)
    change = _momentum_matrix_dot_with_modes() if tree.has_more_rows else MOMENTUM_MATRIX_DOT
    parts = (MOMENTUM_MATRIX, change, WHOLE_INERTIA, MOMENTUM)
    check_momentum(tree, "centroidal.momentum_matrix_dot")
    mass, calls = whole_mass(tree), Calls(options)
    matrix, rate, inertia, h = calls(program_of(parts, tree, "dense"), q, v)
    out = _about_com(rate, _com(tree, inertia))
    if mass:
        out[..., :3, :] -= skew(h[..., 3:] / mass) @ matrix[..., 3:, :]
    return calls.finish(out)


def _com(model: Model, inertia: Array) -> Array:
    """Mass centre; the origin for a model without mass, whose momentum has no arm to depend on."""
    moment = first_moment(inertia)
    mass = whole_mass(model)
    return moment / mass if mass else moment


def _about_com(columns: Array, com: Array) -> Array:
    """Momenta (..., 6, m) about the world's origin, moved to the mass centre."""
    out = columns.copy()
    out[..., :3, :] -= skew(com) @ columns[..., 3:, :]
    return out
