"""Random motions and forces for exploration and motion planning, in the metric of the mechanism.

A mechanism at the temperature kT has velocities with covariance kT ℳ⁻¹ and momenta with covariance
kT ℳ. With ℓ = (I + H φ K) D½, which is a square root of ℳ = ℓ ℓ*, standard normal numbers ε become

    v = √kT ℓ⁻* ε = √kT (I − H ψ K)* D½⁻* ε,        tau = √kT ℓ ε,

in two sweeps and without a matrix. Smooth paths have random accelerations of this kind, drawn anew
at every point of a path: η̈ = a with E a a* ∝ ℳ⁻¹(q). Their density is exp(−½ Σ η̈* ℳ η̈ / c), by
Gauss's principle of least constraint: the paths that small random forces cause.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.constraint_forces import constraint_impulse
from phipsi.algorithms.dynamics.diagonal_dynamics import RATES_OF_INNOVATIONS
from phipsi.core.backends import joint_array
from phipsi.core.compiler import program_of
from phipsi.core.model import Model, Refusal, mechanism_of, supports, tree_of, whole_number
from phipsi.core.operators import D_half, H, I, K, mass_matrix, phi, v as velocities
from phipsi.errors import InputError, number_of, one_of
from phipsi.package_state import only_public

__all__ = ["force_noise", "path_noise", "smooth_paths", "velocity_noise"]
__dir__ = only_public(__name__)

Array = NDArray[Any]

_FORCES = (I + H @ phi @ K) @ D_half
_MOMENTA = mass_matrix @ velocities
_ENDS = ("fixed", "at_rest", "free")
_LOOPS = Refusal(
    "a smooth path in the coordinates of the tree opens closed loops",
    "Sample paths of the tree, and close the loops of every configuration:\n"
    "    q = pp.exploration.smooth_paths(system.model, q0, q1, steps)\n"
    "    q = system.assemble(q)",
)


@supports(loops=True, flexible=True, rotors=True)
def velocity_noise(
    model: Model,
    q: ArrayLike,
    kT: float = 1.0,
    *,
    size: int | None = None,
    seed: Any = None,
    threads: int = 1,
) -> Array:
    """Sample velocities with the covariance kT ℳ⁻¹, as of a mechanism at the temperature kT.

    Light links move more than heavy ones: every independent velocity has on average the kinetic
    energy ½ kT. With closed loops the samples are admissible, A J v = 0, and the covariance is
    kT (ℳ⁻¹ − ℳ⁻¹ J* A* (A Λ A*)⁻¹ A J ℳ⁻¹).

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    kT : float, optional
        Thermal energy kT, J: Boltzmann's constant times the temperature.
    size : int, optional
        Number of samples for every configuration. Default: one, without an axis of its own.
    seed : int or numpy.random.Generator, optional
        Seed. Default: other samples every time.
    threads : int, optional
        Number of threads that share the batch.

    Returns
    -------
    ndarray, shape (..., nv) or (size, ..., nv)
        Generalized velocities, rad/s or m/s.

    See Also
    --------
    molecules.sample_velocities : The same for molecules, with the temperature in K.

    Notes
    -----
    **Cost:** two sweeps per sample, O(N); with closed loops that of `constraint_impulse` besides.
    **Source:** theory/molecules 3; MM ref. 29.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q = pp.examples.planar_arm(2), [0.0, 0.5]
    >>> v = pp.exploration.velocity_noise(arm, q, kT=2.0, size=20_000, seed=1)
    >>> energy = pp.kinetic_energy(arm, q, v).mean()
    >>> bool(abs(energy - 2 * 2.0 / 2) < 0.05)            # ½ kT for each of two joints
    True
    """
    mechanism = mechanism_of(model, velocity_noise)
    scale = math.sqrt(_positive("kT", kT, "a finite energy in J"))
    tree = mechanism.model
    q = joint_array(tree, "q", q, "nq")
    normal = scale * _normal(seed, _shape(size, q.shape[:-1]), tree.nv)
    v = np.asarray(program_of(RATES_OF_INNOVATIONS, tree)(q, normal, threads=threads))
    if not mechanism.n_rows:
        return v
    still = np.zeros(mechanism.n_rows)
    return constraint_impulse(mechanism, q, v, row_velocity=still, threads=threads).v


@supports(loops=True, flexible=True, rotors=True)
def force_noise(
    model: Model,
    q: ArrayLike,
    kT: float = 1.0,
    *,
    size: int | None = None,
    seed: Any = None,
    threads: int = 1,
) -> Array:
    """Sample joint forces with the covariance kT ℳ, which push every joint by what it can move.

    These are the momenta of `velocity_noise`: as impulses they cause velocities with the covariance
    kT ℳ⁻¹. With closed loops they do not load the constraints.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    kT : float, optional
        Scale of the covariance: for impulses the thermal energy kT in J, for torques in J/s².
    size : int, optional
        Number of samples for every configuration. Default: one, without an axis of its own.
    seed : int or numpy.random.Generator, optional
        Seed. Default: other samples every time.
    threads : int, optional
        Number of threads that share the batch.

    Returns
    -------
    ndarray, shape (..., nv) or (size, ..., nv)
        Joint torques and forces, or impulses, in the directions of v.

    Notes
    -----
    tau = √kT (I + H φ K) D½ ε; with closed loops ℳ v of an admissible v. **Cost:** two sweeps per
    sample, O(N). **Source:** 88-11 eq. 4.1; theory/molecules 3; MM ref. 29.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q = pp.examples.planar_arm(2), [0.0, 0.5]
    >>> tau = pp.exploration.force_noise(arm, q, size=40_000, seed=1)
    >>> bool(abs(tau.T @ tau / len(tau) - pp.mass_matrix(arm, q)).max() < 0.05)
    True
    """
    mechanism = mechanism_of(model, force_noise)
    tree = mechanism.model
    if mechanism.n_rows:
        moved = velocity_noise(mechanism, q, kT, size=size, seed=seed, threads=threads)
        return np.asarray(program_of(_MOMENTA, tree)(q, moved, threads=threads))
    scale = math.sqrt(_positive("kT", kT, "a finite number"))
    q = joint_array(tree, "q", q, "nq")
    normal = scale * _normal(seed, _shape(size, q.shape[:-1]), tree.nv)
    return np.asarray(program_of(_FORCES, tree)(q, normal, threads=threads))


@supports(loops=_LOOPS, flexible=True, rotors=True)
def path_noise(
    model: Model,
    q: ArrayLike,
    kT: float = 1.0,
    *,
    duration: float = 1.0,
    ends: str = "fixed",
    size: int | None = None,
    seed: Any = None,
    threads: int = 1,
) -> Array:
    """Sample smooth random deviations from a path, in the metric of the mechanism along it.

    The deviations η are a Gaussian process in time: η̈ = a with accelerations a that are independent
    from point to point, with covariance ∝ ℳ⁻¹ at the configurations of the path. Where ℳ is
    constant, their velocities have on average over the path the kinetic energy ½ kT for each
    degree of freedom.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., n, nq)
        The path: n ≥ 5 configurations at equal steps of time.
    kT : float, optional
        Thermal energy kT, J, of the velocities of the deviation.
    duration : float, optional
        Time from the first to the last configuration, s. Deviations are proportional to it.
    ends : {"fixed", "at_rest", "free"}, optional
        "fixed": both endpoints stay; "at_rest": their velocities too; "free": only the first
        configuration and its velocity stay.
    size : int, optional
        Number of samples for every path. Default: one, without an axis of its own.
    seed : int or numpy.random.Generator, optional
        Seed. Default: other samples every time.
    threads : int, optional
        Number of threads that share the batch.

    Returns
    -------
    ndarray, shape (..., n, nv) or (size, ..., n, nv)
        Deviations in the directions of v, for `model.integrate(q, η)`.

    See Also
    --------
    smooth_paths : Configurations between two endpoints.

    Notes
    -----
    The covariance of η(i) and η(j) is kT Σ_k S(i,k) S(j,k) ℳ⁻¹(q(k)). S inverts the second
    differences in time; its velocities have mean square one. With ℳ = I this is the noise of STOMP.
    Joint limits are not regarded. **Cost:** two sweeps per point, O(N), and n² nv operations per
    path. **Source:** theory/molecules 5; MM ref. 29.

    Examples
    --------
    >>> import numpy as np
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> path = np.linspace([0.0, 0.0], [1.0, -0.5], 21)
    >>> eta = pp.exploration.path_noise(arm, path, kT=0.5, size=30, seed=0)
    >>> eta.shape, bool((eta[:, [0, -1]] == 0).all())
    ((30, 21, 2), True)
    """
    tree = tree_of(model, path_noise)
    q = joint_array(tree, "q", q, "nq")
    if q.ndim < 2 or q.shape[-2] < 5:
        raise InputError(
            f"q has shape {q.shape}, and must be a path of five or more configurations, "
            f"(..., n, {tree.nq}). Between two configurations:\n"
            "    pp.exploration.smooth_paths(model, q0, q1, steps=50)"
        )
    scale = math.sqrt(_positive("kT", kT, "a finite energy in J"))
    scale *= _positive("duration", duration, "a finite time in s")
    smoothing = _smoothing(q.shape[-2], ends)
    normal = scale * _normal(seed, _shape(size, q.shape[:-1]), tree.nv)
    pushed = np.asarray(program_of(RATES_OF_INNOVATIONS, tree)(q, normal, threads=threads))
    return smoothing @ pushed


@supports(loops=_LOOPS, flexible=True, rotors=True)
def smooth_paths(
    model: Model,
    q0: ArrayLike,
    q1: ArrayLike | None = None,
    steps: int = 50,
    kT: float = 1.0,
    *,
    duration: float = 1.0,
    ends: str | None = None,
    size: int | None = None,
    seed: Any = None,
    threads: int = 1,
) -> Array:
    """Sample smooth random paths between two configurations, in the metric of the mechanism.

    Deviations as of `path_noise` from the path of constant velocity: light links wander, and heavy
    ones keep to it.

    Parameters
    ----------
    model : Model
        A tree.
    q0 : array_like, shape (..., nq)
        First configuration.
    q1 : array_like, shape (..., nq), optional
        Last configuration. Default: q0, with a free end.
    steps : int, optional
        Steps of the path, at least 4.
    kT : float, optional
        Thermal energy kT, J, of the velocities of the deviation.
    duration : float, optional
        Time from the first to the last configuration, s.
    ends : {"fixed", "at_rest", "free"}, optional
        As for `path_noise`. Default: "fixed" with q1, "free" without.
    size : int, optional
        Number of paths for every pair of endpoints. Default: one, without an axis of its own.
    seed : int or numpy.random.Generator, optional
        Seed. Default: other paths every time.
    threads : int, optional
        Number of threads that share the batch.

    Returns
    -------
    ndarray, shape (..., steps + 1, nq) or (size, ..., steps + 1, nq)
        Configurations at equal steps of time.

    Notes
    -----
    The metric is that of the configurations on the path of constant velocity; for that of another
    path, use `path_noise` with it. **Cost:** O(N) per configuration, and steps² nv operations per
    path. **Source:** theory/molecules 5; MM ref. 29.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> paths = pp.exploration.smooth_paths(arm, [0.0, 0.0], [1.0, -0.5], 20, size=30, seed=0)
    >>> paths.shape, paths[3, -1].tolist()
    ((30, 21, 2), [1.0, -0.5])
    """
    tree = tree_of(model, smooth_paths)
    steps = whole_number("steps", steps, 4)
    if ends is None:
        ends = "free" if q1 is None else "fixed"
    first = joint_array(tree, "q0", q0, "nq")
    last = first if q1 is None else joint_array(tree, "q1", q1, "nq")
    try:
        batch = np.broadcast_shapes(first.shape[:-1], last.shape[:-1])
    except ValueError:
        raise InputError(
            f"q0 of shape {first.shape} and q1 of shape {last.shape} do not fit: their leading "
            "axes must be the same, or broadcast"
        ) from None
    first, last = (np.broadcast_to(x, (*batch, tree.nq)) for x in (first, last))
    along = tree.difference(first, last)[..., None, :]
    path = tree.integrate(first[..., None, :], np.linspace(0, 1, steps + 1)[:, None] * along)
    path[..., -1, :] = last
    eta = path_noise(
        tree, path, kT, duration=duration, ends=ends, size=size, seed=seed, threads=threads
    )
    paths = tree.integrate(path, eta)
    # exactly the endpoints that were given
    paths[..., 0, :] = first
    if ends != "free":
        paths[..., -1, :] = last
    return paths


def _smoothing(n: int, ends: str) -> Array:
    """S (n, n): accelerations at n points → deviations, with mean square velocities of one.

    Time is counted in durations. Accelerations act at the points 1 … n − 2.
    """
    one_of("ends", ends, _ENDS)
    m = n - 2
    S = np.zeros((n, n))
    if ends == "free":  # η(0) = η(1) = 0: it starts at rest
        lag = np.subtract.outer(np.arange(n), np.arange(n))
        S[:, 1:-1] = np.maximum(lag, 0)[:, 1:-1]
    else:
        second = np.diag(np.full(m, -2.0)) + np.eye(m, k=1) + np.eye(m, k=-1)
        S[1:-1, 1:-1] = np.linalg.inv(second)
    if ends == "at_rest":  # no accelerations that change η(1) or η(n − 2)
        moving = np.linalg.qr(S[[1, -2], 1:-1].T)[0]
        S[1:-1, 1:-1] -= (S[1:-1, 1:-1] @ moving) @ moving.T
        S[[1, -2]] = 0.0
    return S / (math.sqrt(n - 1) * np.linalg.norm(np.diff(S, axis=0)))


def _shape(size: int | None, batch: tuple[int, ...]) -> tuple[int, ...]:
    return batch if size is None else (whole_number("size", size), *batch)


def _normal(seed: Any, batch: tuple[int, ...], nv: int) -> Array:
    try:
        generator = np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(f"seed={seed!r} must be an integer ≥ 0, or a generator") from error
    return generator.standard_normal((*batch, nv))


def _positive(name: str, value: Any, what: str) -> float:
    number = number_of(value)
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name}={value!r} must be {what}, more than 0, such as {name}=1.0")
    return number
