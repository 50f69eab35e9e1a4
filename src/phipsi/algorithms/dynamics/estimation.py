"""The mechanism as a filter: prediction, smoothing, samples, and what they say about conditioning.

Body forces z = φ w with independent inputs w(k) of covariance M(k), and joint forces y = H z + e
with e of covariance Jr, have the mass matrix as their covariance: E(y y*) = ℳ. The functions here
are the filter and the smoother of this random process. Forces of the process are in units in which
the covariance of w is the inertia itself; a factor of all of them changes no estimate.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import CallOptions, joint_array, real_array
from phipsi.core.compiler import NamedForm, evaluate, program_of
from phipsi.core.model import Model, Refusal, supports, tree_of, whole_number
from phipsi.core.operators import (
    D,
    D_half,
    H,
    I,
    Jr,
    K,
    P,
    R,
    Upsilon,
    f_ext,
    phi,
    psi,
    tau,
)
from phipsi.errors import InputError
from phipsi.package_state import only_public
from phipsi.support import fields_in_line

__all__ = [
    "Combined", "Conditioning", "Prediction", "ProcessSamples", "Smoothed", "Whiteness",
    "colour", "combine", "conditioning", "predict", "sample", "smooth", "whiten", "whiteness",
]  # fmt: skip
__dir__ = only_public(__name__)

Array = NDArray[Any]

_WHITEN, _COLOUR = I - H @ psi @ K, I + H @ phi @ K
_PREDICTED = psi @ K @ tau
_COSTATES = psi.T @ H.T @ D.inv @ _WHITEN @ tau
_LOOPS = Refusal(
    "closed loops couple the joint forces of a tree, and their forces are no recursive process",
    "Use the tree of the system:  system.model",
)
_BODIES = Refusal(
    "the process has six forces for each body, and no modal forces",
    "Use the rigid bodies:  model.with_rigid_bodies()",
)


class Prediction(NamedTuple):
    """What the Kalman filter of a mechanism knows, body by body from tip to base.

    Parameters
    ----------
    forces : ndarray, shape (..., n, 6)
        ẑ = ψ K y: each body force, estimated from the joint forces outboard of it.
    innovations : ndarray, shape (..., nv)
        ε = y − H ẑ: what a joint force says that the outboard ones do not.
    covariance : ndarray, shape (..., n, 6, 6)
        P, the covariance of z − ẑ.
    innovation_covariance : ndarray, shape (..., nv, nv)
        D, block-diagonal.
    """

    forces: Array
    innovations: Array
    covariance: Array
    innovation_covariance: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class Smoothed(NamedTuple):
    """What all joint forces say about the body forces.

    Parameters
    ----------
    forces : ndarray, shape (..., n, 6)
        E[z | y]: the body forces, estimated from all joint forces.
    costates : ndarray, shape (..., n, 6)
        λ = φ* H* ℳ⁻¹ y: body accelerations, if y are joint forces without bias forces.
    covariance : ndarray, shape (..., n, 6, 6)
        P − P Υ P, the covariance of z − E[z | y].
    """

    forces: Array
    costates: Array
    covariance: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class ProcessSamples(NamedTuple):
    """ProcessSamples of the process whose covariance is the mass matrix.

    Parameters
    ----------
    inputs : ndarray, shape (size, n, 6)
        w, with the covariance M(k) of each body.
    forces : ndarray, shape (size, n, 6)
        z = φ w.
    outputs : ndarray, shape (size, nv)
        y = H z + e, with the covariance ℳ.
    """

    inputs: Array
    forces: Array
    outputs: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class Combined(NamedTuple):
    """Two estimates of one quantity, combined.

    Parameters
    ----------
    estimate : ndarray, shape (..., m)
        The estimate of least variance.
    covariance : ndarray, shape (..., m, m)
        Its covariance, S₁ − S₁ (S₁ + S₂)⁻¹ S₁.
    force : ndarray, shape (..., m)
        (S₁ + S₂)⁻¹ (x₂ − x₁): of two mechanisms that touch, the contact force on the first.
    """

    estimate: Array
    covariance: Array
    force: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class Conditioning(NamedTuple):
    """How well the filter of a mechanism is conditioned, body by body.

    Parameters
    ----------
    articulated : ndarray, shape (..., n)
        Smallest eigenvalue of P(k), scaled to a unit diagonal: 0 for a massless direction, negative
        if rounding has spoiled P(k).
    hinge : ndarray, shape (..., n)
        Smallest ratio of the variance D(k) of an innovation to that of the joint force itself, H R
        H* + Jr: between 0 and 1, and 1 for joints without mass; NaN for fixed joints.
    digits : ndarray, shape (...)
        Decimal digits that cancel at the worst joint, −log10 of the smallest ratio.
    """

    articulated: Array
    hinge: Array
    digits: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class Whiteness(NamedTuple):
    """Whether normalised innovations are white, by their sample covariance, which should be I.

    Parameters
    ----------
    covariance : ndarray, shape (nv, nv)
        Sample covariance of D^−½ ε.
    deviation : float
        Largest difference from I, in standard deviations of an entry.
    bound : float
        What the deviation of white innovations exceeds with a probability below 1e-6.
    is_white : bool
        Whether the deviation is below the bound.
    """

    covariance: Array
    deviation: float
    bound: float
    is_white: bool

    def __repr__(self) -> str:
        return fields_in_line(self)


_WHITENED, _COLOURED = NamedForm(_WHITEN), NamedForm(_COLOUR)


@supports(loops=_LOOPS, flexible=True, rotors=True)
def whiten(model: Model, q: ArrayLike, y: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Whitening filter: joint forces → innovations, which are independent from joint to joint.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    y : array_like, shape (..., nv)
        Joint forces.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv)
        Innovations ε, with the covariance D if that of y is ℳ.

    Notes
    -----
    ε = (I − H ψ K) y, a Kalman filter. **Cost:** one sweep, O(N). **Source:** MC Lemma 2; 88-11 eq.
    4.15.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q = pp.examples.planar_arm(2), [0.0, 0.5]
    >>> epsilon = pp.estimation.whiten(arm, q, [1.0, 2.0])
    >>> pp.estimation.colour(arm, q, epsilon).round(12)
    array([1., 2.])
    """
    return evaluate(_WHITENED, whiten, model, (q, y), options)


@supports(loops=_LOOPS, flexible=True, rotors=True)
def colour(model: Model, q: ArrayLike, epsilon: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Colouring filter: innovations → joint forces, the inverse of `whiten`.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    epsilon : array_like, shape (..., nv)
        Innovations ε.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., nv)
        Joint forces y, with the covariance ℳ if that of ε is D.

    Notes
    -----
    y = (I + H φ K) ε, the innovations representation. **Cost:** one sweep, O(N). **Source:** MC
    Lemma 1; 88-11 eq. 4.13.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.estimation.colour(pp.examples.planar_arm(1), [0.0], [2.0])
    array([2.])
    """
    return evaluate(_COLOURED, colour, model, (q, epsilon), options)


_PREDICT = NamedForm(
    (_PREDICTED, _WHITEN @ tau, P, D), ("apply", "apply", "blocks", "dense"), Prediction
)


@supports(loops=_LOOPS, flexible=_BODIES)
def predict(model: Model, q: ArrayLike, y: ArrayLike, **options: Unpack[CallOptions]) -> Prediction:
    """Kalman filter of a mechanism: each body force from the joint forces outboard of it.

    Parameters
    ----------
    model : Model
        A tree of rigid bodies.
    q : array_like, shape (..., nq)
        Configuration.
    y : array_like, shape (..., nv)
        Joint forces.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    Prediction
        `Prediction` (forces, innovations, covariance, innovation_covariance); forces in the axes of
        the bodies.

    Notes
    -----
    ẑ = ψ K y, ε = y − H ẑ; the error is ψ w, with the covariance P on each body. **Cost:** one
    sweep, O(N). **Source:** MC sec. 4; 88-11 eq. 4.15.

    Examples
    --------
    >>> import phipsi as pp
    >>> found = pp.estimation.predict(pp.examples.planar_arm(2), [0.0, 0.5], [1.0, 2.0])
    >>> found.forces.shape, found.covariance.shape
    ((2, 6), (2, 6, 6))
    >>> float(found.innovations[1])      # nothing is outboard of the last joint
    2.0
    """
    return evaluate(_PREDICT, predict, model, (q, y), options)


_SMOOTH = NamedForm(
    (_PREDICTED + P @ _COSTATES, _COSTATES, P - P @ Upsilon @ P),
    ("apply", "apply", "blocks"),
    Smoothed,
)


@supports(loops=_LOOPS, flexible=_BODIES)
def smooth(model: Model, q: ArrayLike, y: ArrayLike, **options: Unpack[CallOptions]) -> Smoothed:
    """Bryson–Frazier smoother of a mechanism: each body force from all joint forces.

    If y are the joint forces without bias forces, the estimate is exact in mechanics: `forces` are
    the forces between the bodies of the moving mechanism, `costates` its body accelerations.

    Parameters
    ----------
    model : Model
        A tree of rigid bodies.
    q : array_like, shape (..., nq)
        Configuration.
    y : array_like, shape (..., nv)
        Joint forces.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    Smoothed
        `Smoothed` (forces, costates, covariance), in the axes of the bodies.

    Notes
    -----
    E[z | y] = φ M φ* H* ℳ⁻¹ y = ψ K y + P ψ* H* D⁻¹ (I − H ψ K) y, with the covariance P − P Υ P.
    It is also the sweep solution z = ẑ + P λ of the two-point boundary-value problem z = E_φ z + M
    λ, λ = E_φ* λ + H* v̇, H z + Jr v̇ = y. **Cost:** two sweeps, O(N). **Source:** MM sec. I and
    VII; 88-11 eq. 4.19–4.22.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q, tau = pp.examples.planar_arm(2), [0.0, 0.5], [1.0, 2.0]
    >>> found = pp.estimation.smooth(arm, q, tau)
    >>> found.forces[:, 2].round(12)     # moments about the joint axes: the joint forces again
    array([1., 2.])
    """
    return evaluate(_SMOOTH, smooth, model, (q, y), options)


_PROCESS = (phi @ f_ext, H @ phi @ f_ext)


@supports(loops=_LOOPS, flexible=_BODIES)
def sample(model: Model, q: ArrayLike, size: int, seed: Any = None) -> ProcessSamples:
    """Sample the random process whose covariance is the mass matrix.

    Parameters
    ----------
    model : Model
        A tree of rigid bodies.
    q : array_like, shape (nq,)
        Configuration.
    size : int
        Number of samples.
    seed : int or numpy.random.Generator, optional
        Seed.

    Returns
    -------
    ProcessSamples
        `ProcessSamples` (inputs, forces, outputs); inputs and forces in the axes of the bodies.

    Notes
    -----
    w(k) = M(k)^½ ξ, z = φ w, y = H z + Jr^½ ξ. **Cost:** one sweep per sample, O(N). **Source:**
    88-11 eq. 4.1–4.3.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q = pp.examples.planar_arm(2), [0.0, 0.5]
    >>> y = pp.estimation.sample(arm, q, 40_000, seed=1).outputs
    >>> bool(abs(y.T @ y / len(y) - pp.mass_matrix(arm, q)).max() < 0.05)
    True
    """
    tree = tree_of(model, sample)
    size = whole_number("size", size)
    q = joint_array(tree, "q", q, "nq")
    if q.ndim != 1:
        raise InputError(
            f"sample takes one configuration, of shape ({tree.nq},), not {q.shape}. Call it for "
            "each:  [pp.estimation.sample(model, x, size) for x in q]"
        )
    random = np.random.default_rng(seed)
    normal = random.standard_normal((size, tree.n_bodies, 6))
    w = np.einsum("kij,skj->ski", _roots(tree.inertia_matrices), normal)
    z, y = program_of(_PROCESS, tree)(q, w)
    return ProcessSamples(
        w, z, y + np.sqrt(tree.armature) * random.standard_normal((size, tree.nv))
    )


def _roots(matrices: Array) -> Array:
    """Symmetric square roots of positive semidefinite matrices."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ vectors.swapaxes(-1, -2)


def combine(
    first: ArrayLike, first_covariance: ArrayLike, second: ArrayLike, second_covariance: ArrayLike
) -> Combined:
    """Combine two independent estimates of one quantity into that of least variance.

    Two mechanisms whose free accelerations at a common point are x₁ and x₂, with the compliances S₁
    and S₂ = J ℳ⁻¹ J* there, accelerate together at `estimate`, and `force` acts on the first.

    Parameters
    ----------
    first : array_like, shape (..., m)
        x₁.
    first_covariance : array_like, shape (..., m, m)
        S₁, symmetric and positive semidefinite.
    second : array_like, shape (..., m)
        The estimate x₂.
    second_covariance : array_like, shape (..., m, m)
        Its covariance S₂; S₁ + S₂ is regular.

    Returns
    -------
    Combined
        `Combined` (estimate, covariance, force).

    Raises
    ------
    InputError
        If the shapes do not fit, or S₁ + S₂ is singular.

    Notes
    -----
    x = x₁ + S₁ f, f = (S₁ + S₂)⁻¹ (x₂ − x₁). **Source:** MC eq. 26 and sec. 6.

    Examples
    --------
    >>> import phipsi as pp
    >>> found = pp.estimation.combine([1.0], [[1.0]], [4.0], [[2.0]])
    >>> found.estimate, found.covariance
    (array([2.]), array([[0.66666667]]))
    """
    x1, x2 = real_array("first", first), real_array("second", second)
    s1 = real_array("first_covariance", first_covariance)
    s2 = real_array("second_covariance", second_covariance)
    m = x1.shape[-1] if x1.ndim else 0
    for name, x, core in (
        ("first", x1, (m,)),
        ("second", x2, (m,)),
        ("first_covariance", s1, (m, m)),
        ("second_covariance", s2, (m, m)),
    ):
        if not m or x.shape[x.ndim - len(core) :] != core:
            raise InputError(
                f"estimates have shape (..., m) and covariances (..., m, m) with one m; first has "
                f"shape {x1.shape}, and {name} {x.shape}"
            )
    total = s1 + s2
    try:
        force = np.linalg.solve(total, (x2 - x1)[..., None])[..., 0]
        shared = s1 @ np.linalg.solve(total, s1)
    except np.linalg.LinAlgError:
        raise InputError(
            "first_covariance + second_covariance is singular: both estimates are certain in one "
            "direction, so nothing says which is right. Remove that direction from both."
        ) from None
    estimate = x1 + (s1 @ force[..., None])[..., 0]
    covariance = s1 - (shared + shared.swapaxes(-1, -2)) / 2
    return Combined(estimate, covariance, force)


_CONDITIONING = (P, D, H @ R @ H.T + Jr)


@supports(loops=_LOOPS, flexible=_BODIES)
def conditioning(model: Model, q: ArrayLike) -> Conditioning:
    """How well the filter of a mechanism is conditioned: definiteness of P, and D against ℳ.

    The digits that cancel in D(k) are those that forward dynamics may lose at that joint.

    Parameters
    ----------
    model : Model
        A tree of rigid bodies.
    q : array_like, shape (..., nq)
        Configuration.

    Returns
    -------
    Conditioning
        `Conditioning` (articulated, hinge, digits).

    Notes
    -----
    H R H* + Jr are the diagonal blocks of ℳ, the variance of a joint force; D(k) is what is left of
    it once the outboard joint forces are known. **Cost:** one sweep, and small eigenvalues per
    body, O(N). **Source:** MM sec. X.B.

    Examples
    --------
    >>> import phipsi as pp
    >>> found = pp.estimation.conditioning(pp.examples.planar_arm(3), [0.0, 0.5, 1.0])
    >>> bool((found.articulated >= 0).all() and (0 < found.hinge).all() and found.digits < 2)
    True
    """
    tree = tree_of(model, conditioning)
    program = program_of(_CONDITIONING, tree, ("blocks", "dense", "dense"))
    inertia, left, whole = program(q)
    sizes = np.sqrt(np.maximum(np.diagonal(inertia, axis1=-2, axis2=-1), 0.0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    scaled = inertia / (sizes[..., :, None] * sizes[..., None, :])
    hinge = np.full(inertia.shape[:-2], np.nan)
    for k, s in enumerate(tree.v_slices):
        if s.stop > s.start:
            hinge[..., k] = _smallest_ratio(left[..., s, s], whole[..., s, s])
    worst = np.nanmin(hinge, axis=-1) if tree.nv else np.ones(hinge.shape[:-1])
    digits = -np.log10(np.maximum(worst, np.finfo(float).tiny))
    return Conditioning(np.linalg.eigvalsh(scaled)[..., 0], hinge, digits)


def _smallest_ratio(part: Array, whole: Array) -> Array:
    """The smallest eigenvalue of whole⁻¹ part, both symmetric."""
    lower: Array = np.linalg.cholesky(whole)
    half: Array = np.linalg.solve(lower, part)
    ratio: Array = np.linalg.solve(lower, np.swapaxes(half, -1, -2))
    return np.linalg.eigvalsh((ratio + np.swapaxes(ratio, -1, -2)) / 2)[..., 0]


_NORMALISED = D_half.inv @ _WHITEN


@supports(loops=_LOOPS, flexible=True, rotors=True)
def whiteness(model: Model, q: ArrayLike, y: ArrayLike) -> Whiteness:
    """Test whether the innovations of many joint forces are white: whether y has the covariance ℳ.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (nq,) or (samples, nq)
        Configuration, of all samples or of each.
    y : array_like, shape (samples, nv)
        Joint forces with mean zero.

    Returns
    -------
    Whiteness
        `Whiteness` (covariance, deviation, bound, is_white).

    Raises
    ------
    InputError
        For fewer than 100 samples.

    Notes
    -----
    Of n independent normal samples an entry of the covariance has the standard deviation √(1/n),
    and √(2/n) on the diagonal. The bound √(2x) + x √(2/n) holds for sums of n squares and products
    of normal numbers with the probability 1 − e⁻ˣ; x is that of all entries together.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q = pp.examples.planar_arm(2), [0.0, 0.5]
    >>> y = pp.estimation.sample(arm, q, 10_000, seed=1).outputs
    >>> pp.estimation.whiteness(arm, q, y).is_white
    True
    >>> pp.estimation.whiteness(arm, [0.0, 1.5], y).is_white      # another mass matrix
    False
    """
    tree = tree_of(model, whiteness)
    outputs = joint_array(tree, "y", y, "nv")
    if outputs.ndim != 2 or len(outputs) < _FEWEST:
        raise InputError(
            f"y has shape (samples, {tree.nv}) with at least {_FEWEST} samples, not {outputs.shape}"
        )
    unit = np.asarray(program_of(_NORMALISED, tree)(q, outputs))
    n = len(unit)
    covariance = unit.T @ unit / n
    spread = np.sqrt((1 + np.eye(tree.nv)) / n)
    deviation = float((np.abs(covariance - np.eye(tree.nv)) / spread).max(initial=0.0))
    x = np.log(max(tree.nv * (tree.nv + 1), 1) / _CHANCE)  # two sides of each entry
    bound = float(np.sqrt(2 * x) + x * np.sqrt(2 / n))
    return Whiteness(covariance, deviation, bound, deviation <= bound)


_FEWEST, _CHANCE = 100, 1e-6
