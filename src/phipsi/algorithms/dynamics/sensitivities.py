"""Derivatives of the mass matrix, its inverse and its determinant; Christoffel symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.diagonal_dynamics import LOG_DET
from phipsi.algorithms.dynamics.dynamics_expressions import (
    BIAS_FORCES,
    MASS_MATRIX_INVERSE,
    OPERATIONAL_SPACE_INERTIA,
)
from phipsi.algorithms.kinematics.motions import VELOCITY_MAP
from phipsi.core.backends import CallOptions, Calls
from phipsi.core.calculus import Family, along_units, diff, gradient
from phipsi.core.compiler import NamedForm, evaluate, program_at, program_of
from phipsi.core.expressions import Expr, rigid_cross, rigid_cross_force
from phipsi.core.model import Model, Refusal, supports, tree_of
from phipsi.core.operators import (
    INERTIA,
    C_e,
    E_phi,
    H,
    Hdot,
    Lambda,
    M,
    V,
    change_of,
    cross,
    cross_force,
    dq,
    f0,
    hinge_variation,
    mass_matrix,
    phi,
    v,
    with_arguments,
)
from phipsi.core.spatial import crm
from phipsi.errors import one_of
from phipsi.package_state import only_public

__all__ = [
    "christoffel_symbols",
    "coriolis_matrix",
    "log_det_mass_matrix_gradient",
    "mass_matrix_inverse_sensitivity",
    "mass_matrix_sensitivity",
    "operational_space_inertia_sensitivity",
]
__dir__ = only_public(__name__)

Array = NDArray[Any]
Points = Sequence[Any]

# how a body's momentum changes with its velocity, less what skews: B[M, V] of
# theory/sensitivities 3 (E7)
_B = Fraction(1, 2) * (-cross(V).T @ M - M @ cross(V) - cross_force(M @ V))
CORIOLIS_MATRIX = H @ phi @ (M @ phi.T @ (cross(V) @ H.T + Hdot.T) + _B @ phi.T @ H.T)


def _modal_coriolis() -> Expr:
    """The same with modes: ℳ = J* M J with J = φ* H*, of which both factors change with them.

    C = J* (M dJ/dt + N J), N = ½ (Ṁ{V} + dM{V} − dM{V}*) and what is skew of the rigid rows: the
    connection of Levi-Civita of a body, whose metric is M(η) on SE(3) × ℝⁿ (Koszul's formula).
    """
    turning = M @ rigid_cross(V)
    steps = with_arguments(INERTIA.applied, V)
    skewed = steps - steps.T + turning - turning.T - rigid_cross_force(M @ V)
    N = Fraction(1, 2) * (change_of(INERTIA, V) + skewed)
    return H @ phi @ (M @ diff(VELOCITY_MAP, "q", along=v, modes=True) + N @ phi.T @ H.T)


@cache
def coriolis_form(modal: bool) -> Expr:
    """C of a tree, or of one with modes or rotors on skew axes."""
    return _modal_coriolis() if modal else CORIOLIS_MATRIX


_CORIOLIS_MATRIX = NamedForm(coriolis_form, "dense")
_CORIOLIS_PRODUCT = NamedForm(coriolis_form, "apply")
# ℳ⁻¹, how it moves the parents (carried to the children), and the momenta that it gives
_INVERSE_ROWS = (
    MASS_MATRIX_INVERSE,
    E_phi.T @ phi.T @ H.T @ MASS_MATRIX_INVERSE,
    phi @ M @ phi.T @ H.T @ MASS_MATRIX_INVERSE,
)
_BENT = hinge_variation(dq)


@cache
def _mass_matrix_family(modal: bool) -> Family:
    return diff(mass_matrix, "q", modes=modal)


@cache
def _by_configuration(modal: bool) -> Expr:
    """The derivative of Λ f by q, an operator from joint rates to point motions."""
    return diff(Lambda @ f0, "q", modes=modal)


@cache
def _log_det_gradient(wrt: str, modal: bool) -> Expr:
    return gradient(LOG_DET, wrt, modal)


@cache
def _by_rates(modal: bool) -> Expr:
    """∂c/∂v / 2 of the Coriolis forces c; damping of modes is no part of them."""
    return Fraction(1, 2) * (diff(BIAS_FORCES, "v", modes=modal) - (C_e if modal else 0))


_DERIVATIVES = (
    "Use the derivatives of its accelerations:  pp.forward_dynamics_derivatives(system, q, v, tau)"
)
_MOVES_ALONE = (
    "no joint of a loop moves alone, which a derivative with respect to one degree of freedom "
    "assumes"
)


@supports(loops=Refusal(_MOVES_ALONE, _DERIVATIVES), flexible=True, rotors=True)
def mass_matrix_sensitivity(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Derivatives of the mass matrix with respect to all degrees of freedom.

    Entry [i, j, k] is the rate of change of ℳ[i, j] when degree of freedom k moves with unit
    velocity. Symmetric in i, j.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv, nv, nv)
        The derivatives, with the degree of freedom k on the last axis.

    Notes
    -----
    L_k ℳ = X + X* with X = (Ḣ − H φ E_φ cross(s)*) φ M φ* H*, s = H* of dof k. **Cost:** O(N² ·
    depth) for the N³ entries. **Source:** MS eq. 4.43, lemma 4.2; theory/sensitivities 3 (E3).

    Examples
    --------
    >>> from phipsi.algorithms.dynamics.sensitivities import mass_matrix_sensitivity
    >>> from phipsi.examples import planar_arm
    >>> mass_matrix_sensitivity(planar_arm(2), [0.0, 0.5])[:, :, 1].round(4)
    array([[-0.4794, -0.2397],
           [-0.2397,  0.    ]])
    """
    tree, calls = tree_of(model, mass_matrix_sensitivity), Calls(options)
    family = _mass_matrix_family(tree.has_more_rows)
    program = tree.cached(mass_matrix_sensitivity, lambda: family.compile(tree))
    return calls.finish(calls(program, q))


@supports(
    loops=Refusal(
        "the velocities of its joints depend on each other, and constraint forces contribute to "
        "the Coriolis forces",
        _DERIVATIVES,
    ),
    flexible=True,
    rotors=True,
)
def christoffel_symbols(
    model: Model, q: ArrayLike, v: ArrayLike | None = None, **options: Unpack[CallOptions]
) -> Array:
    """Christoffel symbols: the Coriolis forces as a quadratic form of the velocities.

    C[i, j, k] = ½ ∂²c_i / ∂v_j ∂v_k with c = H φ (M φ* a + b): symmetric in j and k, and Σ C[i, j,
    k] v_j v_k is the bias force without gravity, also where v are quasi-velocities. For joints with
    q̇ = v they are ½ (L_k ℳ_ij + L_j ℳ_ik − L_i ℳ_jk).

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv), optional
        Velocities to contract with once: Σ_k C[i, j, k] v_k = ½ ∂c_i/∂v_j. Default: no contraction.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv, nv, nv)
        The symbols, or with v the contracted matrix (..., nv, nv).

    Notes
    -----
    **Cost:** O(N² · depth) for the N³ entries; O(N · depth²) and the writing of them on trees that
    branch, where all degrees of freedom of a level are computed at once; contracted O(N · depth).
    **Source:** MS eq. 5.53–5.55; theory/sensitivities 2.2 (E8), 3 (E6).

    Examples
    --------
    >>> from phipsi.algorithms.dynamics.sensitivities import christoffel_symbols
    >>> from phipsi.examples import planar_arm
    >>> christoffel_symbols(planar_arm(2), [0.0, 0.5])[0].round(4) + 0
    array([[ 0.    , -0.2397],
           [-0.2397, -0.2397]])
    """
    model = tree_of(model, christoffel_symbols)
    program = program_of(_by_rates(model.has_more_rows), model, "dense")
    if v is not None:
        return program.evaluate((q, v), options)
    levels, calls = _dof_levels(model), Calls(options)
    if not levels.worth_it:
        return calls.finish(calls(partial(along_units, program, {"q": q}, "v")))
    found = calls(partial(along_units, program, {"q": q}, "v", units=levels.units))
    flat = np.moveaxis(found, -1, -3).reshape(*found.shape[:-3], -1)
    return calls.finish(flat.take(levels.places, axis=-1))


@supports(
    loops=Refusal(
        "constraint forces contribute to the Coriolis forces, which no matrix of the tree alone "
        "describes",
        _DERIVATIVES,
    ),
    flexible=True,
    rotors=True,
)
def coriolis_matrix(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """The Coriolis matrix of the Levi-Civita connection: dℳ/dt − 2 C is skew-symmetric.

    C v is the bias force without gravity, and dℳ/dt = C + C*, for every type of joint. With
    flexible bodies the derivatives of M and of the ports are included; elastic forces and their
    damping are not.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv, nv)
        The Coriolis matrix C.

    Notes
    -----
    C = H φ [M φ* (cross(V) H* + Ḣ*) + B φ* H*] with B = −½ (cross(V)* M + M cross(V) +
    cross_force(M V)). **Cost:** O(N · depth). **Source:** theory/sensitivities 3 (E7).

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.sensitivities.coriolis_matrix(arm, [0.0, 0.5], [1.0, 1.0]).round(4)
    array([[-0.2397, -0.4794],
           [ 0.2397,  0.    ]])
    """
    return evaluate(_CORIOLIS_MATRIX, coriolis_matrix, model, (q, v), options)


@supports(
    loops=Refusal(
        "constraint forces contribute to the Coriolis forces, which no matrix of the tree alone "
        "describes",
        _DERIVATIVES,
    ),
    flexible=True,
    rotors=True,
)
def coriolis_product(
    model: Model, q: ArrayLike, v: ArrayLike, w: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Bilinear Coriolis product C(q, v) w of two generalized velocities, in O(N).

    C is that of `sensitivities.coriolis_matrix`: dℳ/dt − 2 C is skew-symmetric, so w* C(q, v) w =
    ½ w* (dℳ/dt) w, and C(q, v) v = `bias_forces` − `gravity_forces`. Passivity-based controllers
    need it with the actual velocity in v and a reference velocity in w, which no call of inverse
    dynamics returns. In N·m and N, in the directions of v.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities of the mechanism, rad/s or m/s.
    w : array_like, shape (..., nv)
        The velocities that are multiplied, rad/s or m/s.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv)
        C(q, v) w.

    Notes
    -----
    C is that of the Levi-Civita connection of the bodies, so C(q, v) w = C(q, w) v for joints with
    q̇ = v; armatures are constant and have no part in it. C is not formed. **Cost:** two sweeps,
    O(N). **Source:** theory/sensitivities 3 (E7); MC sec. 6.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.coriolis_product(arm, [0.0, 0.5], [1.0, 1.0], [2.0, 0.0]).round(4)
    array([-0.4794,  0.4794])
    """
    return evaluate(_CORIOLIS_PRODUCT, coriolis_product, model, (q, v, w), options)


@supports(loops=Refusal(_MOVES_ALONE, _DERIVATIVES), flexible=True, rotors=True)
def mass_matrix_inverse_sensitivity(
    model: Model, q: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Derivatives of the inverse of the mass matrix with respect to all degrees of freedom.

    Entry [i, j, k] is the derivative of ℳ⁻¹[i, j] with respect to degree of freedom k.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv, nv, nv)
        The derivatives.

    Raises
    ------
    SingularHingeError
        If a joint has no inertia to move.

    Notes
    -----
    L_k ℳ⁻¹ = −ℳ⁻¹ (L_k ℳ) ℳ⁻¹ = C_k* F_k + F_k* C_k, of rank 12 at most: for dof k of body i F_k is
    block row i of φ M φ* H* ℳ⁻¹ (6 × nv), C_k that of cross(s_k) E_φ* φ* H* ℳ⁻¹ − Ḣ_k* ℳ⁻¹.
    **Cost:** O(N³) for the N³ entries. **Source:** theory/sensitivities 6 (E14, E17).

    Examples
    --------
    >>> from phipsi.algorithms.dynamics.sensitivities import mass_matrix_inverse_sensitivity
    >>> from phipsi.examples import planar_arm
    >>> mass_matrix_inverse_sensitivity(planar_arm(1), [0.3]).round(6) + 0.0
    array([[[0.]]])
    """
    model, calls = tree_of(model, mass_matrix_inverse_sensitivity), Calls(options)
    if model.has_more_rows:
        return calls.finish(calls.solve(partial(_of_inverse, model), q))
    inverse, above, momenta = calls(program_of(_INVERSE_ROWS, model, "dense"), q)
    body = np.repeat(np.arange(model.n_bodies), [joint.nv for joint in model.joints])
    rows = (*inverse.shape[:-2], model.n_bodies, 6, model.nv)
    axes = calls(program_of(H, model, "blocks"), q)
    right = np.empty((*inverse.shape[:-2], model.nv, 12, model.nv), inverse.dtype)  # F over C
    right[..., :6, :] = momenta.reshape(rows)[..., body, :, :]
    np.matmul(crm(axes), above.reshape(rows)[..., body, :, :], out=right[..., 6:, :])
    if any(joint.nv > 1 for joint in model.joints):  # Ḣ_k is not zero where axes vary with q
        bent = program_of(_BENT, model, "blocks")
        change = calls(partial(along_units, bent, {"q": q}, "dq"))
        right[..., 6:, :] -= np.einsum("...jak,...ji->...kai", change, inverse)
    left = np.empty((*right.shape[:-2], model.nv, 12), right.dtype)
    left[..., :6] = np.swapaxes(right[..., 6:, :], -1, -2)
    left[..., 6:] = np.swapaxes(right[..., :6, :], -1, -2)
    return calls.finish(np.moveaxis(left @ right, -3, -1))


def _of_inverse(model: Model, q: Array) -> Array:
    """−ℳ⁻¹ (L_k ℳ) ℳ⁻¹ by matrices: inertias that change with modes are of no small rank."""
    inverse = program_of(MASS_MATRIX_INVERSE, model, "dense")(q)
    change = np.moveaxis(mass_matrix_sensitivity(model, q), -1, -3)
    return np.moveaxis(-(inverse[..., None, :, :] @ change @ inverse[..., None, :, :]), -3, -1)


@supports(
    loops=Refusal(
        "its velocities are not independent, so the determinant is not that of its admissible "
        "motions"
    ),
    flexible=True,
    rotors=True,
)
def log_det_mass_matrix_gradient(
    model: Model, q: ArrayLike, *, wrt: str = "q", **options: Unpack[CallOptions]
) -> Array:
    """Gradient of the logarithm of the determinant of the mass matrix.

    The torque of the Fixman potential ½ kT log det ℳ is −½ kT times this gradient. Where v are
    quasi-velocities the gradient is along the directions of v.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    wrt : {"q", "inertia"}, optional
        With respect to the configuration or to the inertial parameters. Default: "q".
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv)
        The gradient, in the directions of v; by inertial parameters (..., n, 10), in the order of
        `inertial_parameters`.

    Notes
    -----
    g = −2 H vee(Y P⁺) + 2 dH_trace((I − P π̄* Y) G) with Y = E_φ* Υ E_φ: no mass matrix, no
    inverse, no derivative of P. With respect to the inertial parameters it is inertia_trace(Υ):
    tr(Υ(k) ∂M(k)/∂π). **Cost:** two sweeps, O(N). **Source:** theory/sensitivities 7 (E18), 8
    (E19).

    Examples
    --------
    >>> from phipsi.algorithms.dynamics.sensitivities import log_det_mass_matrix_gradient
    >>> from phipsi.examples import planar_arm
    >>> log_det_mass_matrix_gradient(planar_arm(2), [0.0, 0.5]).round(4) + 0.0
    array([0.    , 0.8351])
    """
    word = one_of("wrt", wrt, ("q", "inertia"))
    found = _log_det_gradient(word, bool(getattr(model, "has_more_rows", False)))
    program = program_of(found, model, "apply", log_det_mass_matrix_gradient)
    return program.evaluate((q,), options)


@supports(
    loops=Refusal(
        "constraint forces resist too, so the points have more inertia than on the tree alone",
        _DERIVATIVES,
    ),
    flexible=True,
    rotors=True,
)
def operational_space_inertia_sensitivity(
    model: Model,
    q: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Derivatives of the operational-space inertia with respect to all degrees of freedom.

    Parameters
    ----------
    model : Model
        A tree.
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
    ndarray, shape (..., 6 nC, 6 nC, nv)
        The derivatives.

    Raises
    ------
    SingularMatrixError
        If J lacks row rank.

    Notes
    -----
    L_k Λ⁻¹ = −Λ⁻¹ (L_k Λ) Λ⁻¹ with Λ = J ℳ⁻¹ J*. **Cost:** O(N) for every pair of a row and a
    column, and O(nC³) per dof. **Source:** theory/sensitivities 6 (E14).

    Examples
    --------
    >>> from phipsi import sensitivities
    >>> from phipsi.examples import seven_joint_arm
    >>> q = [0.1, 0.5, 0.2, 1.0, 0.3, 0.8, 0.1]
    >>> sensitivities.operational_space_inertia_sensitivity(seven_joint_arm(), q, ["tool"]).shape
    (6, 6, 7)
    """
    rule = operational_space_inertia_sensitivity
    inertia = program_at(OPERATIONAL_SPACE_INERTIA, model, points, axes, rule, "dense")
    by_q = _by_configuration(bool(getattr(model, "has_more_rows", False)))
    change = program_at(by_q, model, points, axes, rule, "dense")
    size, calls = 6 * len(points), Calls(options)
    whole = calls(inertia, q)  # Λ⁻¹; its columns are the forces that accelerate one component alone
    forces = np.swapaxes(whole, -1, -2).reshape(*whole.shape[:-1], size // 6, 6)
    at = np.asarray(q)[..., None, :]
    columns = calls(change, at, forces, extra=1)  # (..., column, row, dof)
    return calls.finish(np.moveaxis(-(whole[..., None, :, :] @ columns), -3, -2))


# ---- levels of degrees of freedom -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Levels:
    """Degrees of freedom by their level: how many there are above them on their path.

    No body moves with two of the same level, because neither is on the path of the other. A tensor
    that is bilinear in rates of bodies can therefore be found for all of a level at once.

    **Attributes:** `units` (levels, nv), the unit rates of each level;
    `places` (nv, nv, nv): with D[l] (nv, nv) the tensor C contracted with the rates of level l,
    C[i, j, k] is number `places[i, j, k]` of D. Of j and k the one above gives the level and the
    other the column; if neither is above the other, the entry is one that is always zero.
    """

    units: Array
    places: Array

    @property
    def worth_it(self) -> bool:
        """Whether levels are so much fewer than degrees of freedom that collecting pays."""
        levels, nv = self.units.shape
        return 2 * levels <= nv


def _dof_levels(model: Model) -> _Levels:
    """The levels of a model's degrees of freedom."""
    return model.cached(_Levels, lambda: _levels(model))


def _levels(model: Model) -> _Levels:
    nv = model.nv
    bodies = np.repeat(np.arange(model.n_bodies), [joint.nv for joint in model.joints])
    # [j, k]: k is on the path of j, or j itself; of one joint those before it
    above = np.tril(model.tree.on_path(bodies[None, :], bodies[:, None]))
    level: NDArray[np.intp] = above.sum(axis=1) - 1
    each = np.arange(int(level.max(initial=-1)) + 1)[:, None]
    units = np.equal(level, each).astype(float)
    axes: list[Array] = list(np.indices((nv, nv, nv)))
    i, j, k = axes
    ahead: NDArray[np.bool_] = above[j, k]
    upper, lower = np.where(ahead, k, j), np.where(ahead, j, k)
    places: Array = (level[upper] * nv + i) * nv + lower
    related = above | above.T
    if not related.all():
        a, b = np.argwhere(~related)[0]
        known: NDArray[np.bool_] = related[j, k]
        places = np.where(known, places, int(a) * nv + int(b))
    return _Levels(units, places)
