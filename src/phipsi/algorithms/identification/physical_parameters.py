"""Inertial parameters that rigid bodies have, as close as possible to an estimate.

The pseudo-inertia of a body, Π = [[Σ, m c], [m c*, m]] with Σ = ½ tr(J) I − J about the origin, is
positive definite exactly for the parameters of bodies with mass everywhere positive. Written as
Π = U U* with an upper triangular U it is so for all numbers in U.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.identification.minimal_parameters import BaseParameters
from phipsi.algorithms.identification.regressors import inertial_parameters
from phipsi.errors import ConvergenceError
from phipsi.model.model import Model
from phipsi.model.rotor_inertias import fold

Array = NDArray[Any]

_DIAGONAL = ([0, 1, 2, 3], [0, 1, 2, 3])
_ABOVE = ([0, 0, 1, 0, 1, 2], [1, 2, 2, 3, 3, 3])
_STEP = 1e-30


def physical_parameters(
    base: BaseParameters, values: Array, covariance: Array, guess: Model, prior: float
) -> Array:
    """The most likely parameters π (p,) that rigid bodies can have.

    Minimises (K π − values)* covariance⁻¹ (K π − values) + |θ − θ_guess|² / prior² over θ, the
    entries of the triangular factors of the pseudo-inertias (logarithms on the diagonal, the others
    in units of the body's size), square roots of armature and viscous friction, and Coulomb
    friction as it is. `prior` is the relative standard deviation of the guess. Rotors behind gears
    are those of the guess. Bodies without mass
    keep none.

    **Source:** Wensing, Kim and Slotine 2018; Rucker and Wensing 2022 (log-Cholesky).
    """
    from scipy.optimize import least_squares

    form, rotors = _Form(base, guess), _of_rotors(base, guess)
    values = values - base.combinations @ rotors
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    start = form.start

    def residual(theta: Array) -> Array:
        fit = root @ (base.combinations @ form.parameters(theta) - values)
        return np.concatenate([fit, (theta - start) / prior])

    def jacobian(theta: Array) -> Array:
        fit = root @ base.combinations @ form.derivative(theta)
        return np.vstack([fit, np.eye(len(theta)) / prior])

    found = least_squares(residual, start, cast(Any, jacobian), method="dogbox", ftol=1e-10)
    if not found.success:
        raise ConvergenceError(
            f"no physical parameters found near the estimate: {found.message}. "
            "A larger prior= gives the search more room."
        )
    return form.parameters(found.x) + rotors


def _of_rotors(base: BaseParameters, guess: Model) -> Array:
    """What the rotors of the guess, which are known, add to the parameters (p,)."""
    out = np.zeros(base.combinations.shape[1])
    if guess.rotors:
        folded = fold(guess.description)
        n = 10 * guess.n_bodies
        out[:n] = folded.parameters.ravel()
        if base.options["armature"]:
            out[n : n + guess.nv] = folded.armature
    return out


class _Form:
    """Parameters as functions of unconstrained numbers θ: ten per body, then friction."""

    def __init__(self, base: BaseParameters, guess: Model) -> None:
        self.p = inertial_parameters(guess, **base.options) - _of_rotors(base, guess)
        n, nv = guess.n_bodies, guess.nv
        bodies = self.p[: 10 * n].reshape(n, 10)
        self.heavy = np.flatnonzero(bodies[:, 0] > 0)
        pseudo = _pseudo_inertias(bodies[self.heavy])
        room = 1e-6 * np.trace(pseudo, axis1=1, axis2=2)[:, None, None]
        factor = _upper_factor(pseudo + room * np.eye(4))  # thin bodies have singular ones
        self.size = np.sqrt(np.trace(pseudo[:, :3, :3] + room * np.eye(3), axis1=1, axis2=2))
        above = factor[:, *_ABOVE] / self.size[:, None]
        entries = np.hstack([np.log(factor[:, *_DIAGONAL]), above])
        options = base.options
        squares = nv * (options["armature"] + options["viscous"])
        self.squares = slice(10 * n, 10 * n + squares)
        self.plain = slice(10 * n + squares, len(self.p))
        roots = np.sqrt(np.maximum(self.p[self.squares], 1e-6))
        self.start = np.concatenate([entries.ravel(), roots, self.p[self.plain]])

    def _bodies(self, entries: Array) -> Array:
        """(..., h, 10) parameters of factors' entries (..., h, 10)."""
        U = np.zeros((*entries.shape[:-1], 4, 4), dtype=entries.dtype)
        U[..., *_DIAGONAL] = np.exp(entries[..., :4])
        U[..., *_ABOVE] = entries[..., 4:] * self.size[:, None]
        return _from_pseudo_inertias(U @ np.swapaxes(U, -1, -2))

    def parameters(self, theta: Array) -> Array:
        """π (p,)."""
        out = self.p.copy()
        h = 10 * len(self.heavy)
        rows = out[: self.squares.start].reshape(-1, 10)
        rows[self.heavy] = self._bodies(theta[:h].reshape(-1, 10))
        squares = self.squares.stop - self.squares.start
        out[self.squares] = theta[h : h + squares] ** 2
        out[self.plain] = theta[h + squares :]
        return out

    def derivative(self, theta: Array) -> Array:
        """∂π/∂θ (p, θ), by complex steps."""
        h = 10 * len(self.heavy)
        entries = theta[:h].reshape(-1, 10)
        steps = 1j * _STEP * np.eye(10)[:, None, :]  # the same entry of all bodies at once
        blocks = np.imag(self._bodies(entries + steps)) / _STEP
        out = np.zeros((len(self.p), len(theta)))
        for i, k in enumerate(self.heavy):
            out[10 * k : 10 * k + 10, 10 * i : 10 * i + 10] = blocks[:, i].T
        squares = self.squares.stop - self.squares.start
        out[self.squares, h : h + squares] = np.diag(2 * theta[h : h + squares])
        out[self.plain, h + squares :] = np.eye(len(theta) - h - squares)
        return out


def _pseudo_inertias(p: Array) -> Array:
    """Π (..., 4, 4) of inertial parameters (..., 10)."""
    out = np.zeros((*p.shape[:-1], 4, 4), dtype=p.dtype)
    xx, yy, zz, xy, xz, yz = (p[..., 4 + i] for i in range(6))
    half = (xx + yy + zz) / 2
    for i, moment in enumerate((xx, yy, zz)):
        out[..., i, i] = half - moment
    for (i, j), product in (((0, 1), xy), ((0, 2), xz), ((1, 2), yz)):
        out[..., i, j] = out[..., j, i] = -product
    out[..., :3, 3] = out[..., 3, :3] = p[..., 1:4]
    out[..., 3, 3] = p[..., 0]
    return out


def _from_pseudo_inertias(pseudo: Array) -> Array:
    """Inverse of `_pseudo_inertias`."""
    x, y, z = (pseudo[..., i, i] for i in range(3))
    columns = [
        pseudo[..., 3, 3],
        *(pseudo[..., i, 3] for i in range(3)),
        y + z,
        x + z,
        x + y,
        -pseudo[..., 0, 1],
        -pseudo[..., 0, 2],
        -pseudo[..., 1, 2],
    ]
    return np.stack(columns, axis=-1)


def _upper_factor(matrices: Array) -> Array:
    """Upper triangular U with U U* = the matrix."""
    lower = np.linalg.cholesky(matrices[..., ::-1, ::-1])
    return lower[..., ::-1, ::-1]
