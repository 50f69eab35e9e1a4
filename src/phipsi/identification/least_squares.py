"""Identification: inertial parameters from measured motions and efforts, by least squares.

Numbers that fit best need not be those of rigid bodies; `physical_parameters` finds the nearest
that are. The pseudo-inertia of a body, Π = [[Σ, m c], [m c*, m]] with Σ = ½ tr(J) I − J about the
origin, is positive definite exactly for the parameters of bodies with mass everywhere positive.
Written as Π = U U* with an upper triangular U it is so for all numbers in U.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import real_array
from phipsi.core.model import Model
from phipsi.errors import ConvergenceError, InputError, SingularMatrixError, shown, warn
from phipsi.identification.minimal_parameters import BaseParameters
from phipsi.identification.regressors import inertial_parameters
from phipsi.support import fields_in_line

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Identification:
    """Estimated base parameters, and how accurate they are.

    Parameters
    ----------
    base : BaseParameters
        The estimated combinations.
    values : ndarray, shape (nb,)
        Their values.
    covariance : ndarray, shape (nb, nb)
        Of the errors of `values`.
    noise : ndarray, shape (nv,)
        Standard deviation of the joint torques of every degree of freedom that the data show.
    condition : float
        Condition number of the weighted regressor with columns of norm one, about 10 … 100 for a
        well-chosen motion.
    """

    base: BaseParameters
    values: Array
    covariance: Array
    noise: Array
    condition: float

    def __repr__(self) -> str:
        return fields_in_line(self)

    @property
    def deviations(self) -> Array:
        """Standard deviations (nb,) of `values`."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def relative_deviations(self) -> Array:
        """Standard deviations as fractions of the values (nb,); above about 0.3: not identified."""
        with np.errstate(divide="ignore"):
            return self.deviations / np.abs(self.values)

    def efforts(self, q: ArrayLike, v: ArrayLike, vdot: ArrayLike) -> Array:
        """Predicted joint efforts (..., nv) of another motion."""
        return self.base.regressor(q, v, vdot) @ self.values

    def effort_deviations(self, q: ArrayLike, v: ArrayLike, vdot: ArrayLike) -> Array:
        """Standard deviations (..., nv) of the predicted efforts, without the noise of a sensor."""
        Y = self.base.regressor(q, v, vdot)
        return np.sqrt(np.einsum("...ij,jk,...ik->...i", Y, self.covariance, Y))

    def model(self, guess: Model | None = None, *, prior: float = 1.0) -> Model:
        """The most likely physically consistent model.

        Base parameters leave open how the inertias are distributed over the bodies, and noise can
        make the obvious choices inertias that no rigid body has. Here every body has positive mass
        and moments that fulfil the triangle inequality, the base parameters are those of the data
        within their covariance, and the parameters that the data leave open are close to the guess.

        Parameters
        ----------
        guess : Model, optional
            A model of the same geometry with inertias of about the right size. Default: the one the
            base parameters were made of.
        prior : float, optional
            How uncertain its inertias are, as a fraction. Default: 1.

        Returns
        -------
        Model
            With armature and damping if they were estimated; Coulomb friction has no place in a
            model.

        Notes
        -----
        **Source:** Wensing, Kim and Slotine 2018.
        """
        guess = guess or self.base.model
        p = physical_parameters(self.base, self.values, self.covariance, guess, prior)
        at, options = 10 * guess.n_bodies, self.base.options
        friction: dict[str, Any] = {}
        for option, name in (("armature", "armature"), ("viscous", "damping")):
            if options[option]:
                friction[name] = p[at : at + guess.nv]
                at += guess.nv
        return guess.with_inertial_parameters(p[: 10 * guess.n_bodies], **friction)

    def table(self) -> str:
        """The parameters as text: value, standard deviation in percent, and name."""
        rows = zip(self.values, self.relative_deviations, self.base.names, strict=True)
        return "\n".join(f"{x:12.5g}  ± {100 * r:6.2f} %   {name}" for x, r, name in rows)


def identify(
    base: BaseParameters,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    tau: ArrayLike,
    *,
    noise: ArrayLike | None = None,
) -> Identification:
    """Estimate the base parameters from samples of a motion and the joint torques.

    The covariance is that of independent errors of the torques; errors of q, v and vdot are not in
    it, so filter these well.

    Parameters
    ----------
    base : BaseParameters
        From `base_parameters`.
    q : array_like, shape (..., nq)
        Configurations, any number of samples.
    v, vdot, tau : array_like, shape (..., nv)
        Velocities, accelerations, and joint torques and forces.
    noise : float or array_like, shape (nv,), optional
        Standard deviation of tau. Default: estimated from the residuals of an unweighted fit, one
        number for every degree of freedom, and again from the weighted one. Needed where a joint
        has no actuator: its tau is exactly zero, and smaller parameters always fit zeros better.

    Returns
    -------
    Identification
        The estimate.

    Raises
    ------
    SingularMatrixError
        If the data cannot tell base parameters apart, with their names.
    InputError
        If all torques of a joint are zero and `noise` is missing.

    Notes
    -----
    Weighted least squares: the π_base that minimises Σ (tau − Y_base π_base)² / noise². **Cost:**
    O(samples · nv · nb²). **Source:** theory/sensitivities 8; Gautier 1997.

    Examples
    --------
    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm, rng = pp.examples.planar_arm(2), np.random.default_rng(0)
    >>> q, v, vdot = rng.standard_normal((3, 500, 2))
    >>> tau = pp.inverse_dynamics(arm, q, v, vdot) + 0.01 * rng.standard_normal((500, 2))
    >>> result = pp.identification.identify(pp.identification.base_parameters(arm), q, v, vdot, tau)
    >>> bool((np.abs(result.values - result.base.values(arm)) < 4 * result.deviations).all())
    True
    >>> result.noise.round(3)
    array([0.01, 0.01])
    """
    if not isinstance(cast(object, base), BaseParameters):
        raise InputError(
            f"identify needs the combinations that can be identified first: "
            f"pp.identification.identify(pp.identification.base_parameters(model), …), "
            f"not {type(base).__name__}"
        )
    nv, nb = base.model.nv, len(base)
    Y, measured = _samples(base, base.regressor(q, v, vdot), real_array("tau", tau))
    if noise is not None:
        return _checked(_solve(base, Y, measured, _deviations(noise, nv)))
    _check_actuated(base, Y, measured)
    sigma = np.ones(nv)
    for _ in range(3):
        found = _solve(base, Y, measured, sigma)
        residual = measured - Y @ found.values
        free = len(Y) * nv / (len(Y) * nv - nb)  # samples per degree of freedom of the residual
        size = np.sqrt(free * np.mean(residual**2, axis=0))
        floor = 1e-12 * np.abs(measured).max(initial=1.0)
        sigma = np.maximum(size, floor)
    return _checked(_solve(base, Y, measured, sigma))


def _check_actuated(base: BaseParameters, Y: Array, tau: Array) -> None:
    """Reject noise estimated at joints whose efforts are zero: zero parameters fit these best."""
    model = base.model
    moved = Y.any(axis=(0, 2)) & tau.any()
    silent = np.flatnonzero(moved & ~tau.any(axis=0))
    if not len(silent):
        return
    names = [
        name
        for name, at in zip(model.joint_names, model.v_slices, strict=True)
        if ((silent >= at.start) & (silent < at.stop)).any()
    ]
    joints = f"joint{'s' if len(names) > 1 else ''} {shown(', '.join(map(repr, names)), 200)}"
    residual = tau - Y @ _solve(base, Y, tau, np.ones(model.nv)).values
    size = np.maximum(np.sqrt(np.mean(residual**2, axis=0)), 1e-6 * np.abs(tau).max())
    raise InputError(
        f"all samples of tau are zero at {joints}, which has no actuator, so the noise there "
        "cannot be estimated from the residuals: parameters that are too small fit zeros best. "
        "Pass the standard deviations of all entries of tau, there what the errors of q, v and "
        "vdot amount to. Those of an unweighted fit are a beginning:\n    "
        f"identify(base, q, v, vdot, tau, noise=[{', '.join(f'{x:.3g}' for x in size)}])"
    )


def _checked(found: Identification) -> Identification:
    """The estimate, with a warning if the data do not determine a quarter of the parameters.

    A few that hardly matter are undetermined in most good estimates too.
    """
    guess = np.abs(found.base.values())
    relevant = guess > 1e-9 * guess.max(initial=0.0)  # others may well be zero
    bad = np.flatnonzero(relevant & (found.relative_deviations > 1))
    if len(bad) and len(bad) >= np.count_nonzero(relevant) / 4:
        i = bad[found.relative_deviations[bad].argmax()]
        warn(
            f"{len(bad)} of the {len(found.base)} base parameters have standard deviations above "
            f"100 %, such as {found.values[i]:.3g} ± {found.deviations[i]:.2g} for "
            f"{shown(found.base.names[i], 100)}: these data do not determine them. "
            "estimate.table() has all. Use a richer motion, or better velocities and accelerations"
        )
    return found


def _samples(base: BaseParameters, Y: Array, tau: Array) -> tuple[Array, Array]:
    """The regressor (n, nv, nb) and the efforts (n, nv) of n samples, enough of them."""
    nv, nb = base.model.nv, len(base)
    if tau.shape != Y.shape[:-1]:
        raise InputError(
            f"tau has the shape {tau.shape}, but the motion has {Y.shape[:-1]}: one effort "
            f"for every sample and every degree of freedom"
        )
    Y, tau = Y.reshape(-1, nv, nb), tau.reshape(-1, nv)
    if not (np.isfinite(Y).all() and np.isfinite(tau).all()):
        raise InputError("the samples contain numbers that are not finite; remove these samples")
    if len(Y) * nv <= nb:
        raise InputError(f"{len(Y)} samples of {nv} efforts cannot determine {nb} parameters")
    return Y, tau


def _deviations(noise: ArrayLike, nv: int) -> Array:
    """Standard deviations (nv,) that were given."""
    sigma = real_array("noise", noise)
    if sigma.shape not in ((), (nv,)):
        raise InputError(f"noise has shape {sigma.shape}; give one number, or nv = {nv}")
    sigma = np.broadcast_to(sigma, (nv,))
    if not (np.isfinite(sigma) & (sigma > 0)).all():
        raise InputError(f"noise={noise!r}: standard deviations are positive numbers")
    return sigma


def _solve(base: BaseParameters, Y: Array, tau: Array, sigma: Array) -> Identification:
    W = (Y / sigma[:, None]).reshape(-1, len(base))
    scale = np.linalg.norm(W, axis=0)
    _check_excited(base, scale)
    Q, R = np.linalg.qr(W / scale)
    U, sizes, Vt = np.linalg.svd(R)
    if sizes[-1] < 1e-10 * sizes[0]:
        _reject(base, Vt[sizes < 1e-10 * sizes[0]])
    values = (Vt.T / sizes) @ (U.T @ (Q.T @ (tau / sigma).reshape(-1)))
    root = (Vt.T / sizes) / scale[:, None]
    return Identification(
        base, values / scale, root @ root.T, sigma.copy(), float(sizes[0] / sizes[-1])
    )


def _check_excited(base: BaseParameters, scale: Array) -> None:
    silent = np.flatnonzero(scale <= 1e-10 * scale.max(initial=0.0))
    if len(silent):
        names = "\n".join(f"    {shown(base.names[i])}" for i in silent[:8])
        raise SingularMatrixError(
            f"the motion does not excite {len(silent)} of the {len(base)} base parameters:\n"
            f"{names}\nNo effort in the data depends on them. Move the joints they belong to, with "
            "accelerations."
        )


def _reject(base: BaseParameters, directions: Array) -> None:
    mixed = np.flatnonzero(np.abs(directions).max(axis=0) > 0.1)
    names = "\n".join(f"    {shown(base.names[i])}" for i in mixed[:8])
    raise SingularMatrixError(
        f"the motion cannot tell {len(mixed)} of the {len(base)} base parameters apart:\n{names}\n"
        "Their columns of the regressor depend on each other in all samples. Use a richer motion: "
        "all joints, several frequencies, both directions."
    )


# ---- parameters that rigid bodies have -----------------------------------------------------------


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

    form, rotors = _Parametrization(base, guess), _of_attachments(base, guess)
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


def _of_attachments(base: BaseParameters, guess: Model) -> Array:
    """What rotors of the guess, which are known, add to the parameters (p,)."""
    out = np.zeros(base.combinations.shape[1])
    bodies, armature = guess.description.added_inertia(guess.nv)
    n = 10 * guess.n_bodies
    out[:n] = bodies.ravel()
    if base.options["armature"]:
        out[n : n + guess.nv] = armature
    return out


class _Parametrization:
    """Parameters as functions of unconstrained numbers θ: ten per body, then friction."""

    def __init__(self, base: BaseParameters, guess: Model) -> None:
        self.p = inertial_parameters(guess, **base.options) - _of_attachments(base, guess)
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
