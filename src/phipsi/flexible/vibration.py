"""Small vibrations: natural frequencies and mode shapes of whole mechanisms.

About an equilibrium, or about a steady motion such as a spin, the equations of motion are

    ℳ ẍ + (∂τ/∂v) ẋ + (∂τ/∂q) x = 0

with the efforts τ(q, v, v̇) of inverse dynamics: elastic forces, gravity and gyroscopic forces. Both
derivatives are complex steps, exact to rounding. With constraints, x is one of the motions X y that
keep them, and forces of constraints f turn with the bodies: a string pulls a pendulum back. So

    X* (∂τ/∂q + ∂(G* f)/∂q) X y = ω² X* ℳ X y,   G X = 0
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import (
    ConstraintMetric,
    KKTSolver,
    bias_forces,
    mass_matrix,
    mass_matrix_inverse,
    motion_and_multipliers,
    open_loops_at,
    rows_of,
)
from phipsi.core.model import Model, as_floats, as_list, entries_of, mechanism_of, supports
from phipsi.errors import InputError
from phipsi.package_state import display
from phipsi.views import view

Array = NDArray[Any]
_STEP = 1e-30  # of complex steps: nothing is subtracted
_CLOSED = 1e-6  # rad and m: how far loops may be open
_ROUNDING = 1e-14  # of the terms of x* K x; below it a squared frequency is 0
_MIXED = 1e-22  # of the largest squared frequency: what rounding mixes into a motion that is rigid
_SLOW = 1e-4  # of the largest one; slower ones are found without those above


class _Pair(NamedTuple):
    frequencies: Array
    shapes: Array


@final
class Vibrations(_Pair):
    """Natural frequencies (k,) in rad/s, ascending, and mode shapes (nv, k), a column for each.

    A pair that also knows its `model` and the configuration `q` (nq,) about which it vibrates.
    """

    model: Model
    q: Array

    def __new__(cls, frequencies: Array, shapes: Array, model: Model, q: Array) -> Vibrations:
        """The pair, about a configuration of a model."""
        self = super().__new__(cls, frequencies, shapes)
        self.model, self.q = model, q
        return self

    def __getnewargs__(self) -> Any:  # of copies and pickles
        return self.frequencies, self.shapes, self.model, self.q

    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str = "") -> Any:
        """Write a page on which the modes move, one at a time, with their frequencies.

        Parameters
        ----------
        path : str or path, optional
            A file that ends in .html. Default: none.
        title : str, optional
            Default: the model's name.

        Returns
        -------
        path or str
            The path; without one, the page as a string.

        Examples
        --------
        >>> import phipsi as pp
        >>> modes = pp.mode_shapes(pp.examples.planar_arm(2), [-1.5707963267948966, 0.0])
        >>> modes.to_html(title="Two pendulums").startswith("<!doctype html>")
        True
        """
        return view("mode page")(self, path, title)

    def __repr__(self) -> str:
        listed = ", ".join(f"{w:.4g}" for w in self.frequencies[:6])
        rest = ", …" if len(self.frequencies) > 6 else ""
        return f"<Vibrations: {len(self.frequencies)} modes, rad/s: {listed}{rest}>"

    _repr_html_ = display


def energy_shares(found: Vibrations) -> list[str]:
    """For every mode, the bodies whose joints and deformations have most of its kinetic energy.

    The share of the rates of body k is Σ xᵢ (ℳ x)ᵢ over them, with x* ℳ x = 1.
    """
    model = found.model
    shares = found.shapes * (mass_matrix(model, found.q) @ found.shapes)
    whole = np.array([shares[at].sum(axis=0) for at in model.v_slices]).reshape(-1, shares.shape[1])
    out: list[str] = []
    for column in whole.T:
        best = [k for k in np.argsort(-column)[:3] if column[k] > 0.05]
        out.append(", ".join(f"{model.body_names[k]} {100 * column[k]:.0f} %" for k in best))
    return out


@supports(loops=True, flexible=True, rotors=True)
def natural_frequencies(
    model: Model,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    *,
    tau: ArrayLike | None = None,
    locked: str | Iterable[str] = (),
) -> Array:
    """Natural frequencies of small vibrations about an equilibrium or a steady motion.

    Constraints of a `System` leave fewer motions, and their forces turn with the bodies: ∂(G* f)/∂q
    x is added.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (nq,), optional
        Configuration. Default: neutral.
    v : array_like, shape (nv,), optional
        Velocities of a steady motion. Default: none.
    tau : array_like, shape (nv,), optional
        Constant joint torques and forces, N·m or N, which in a system determine what its
        constraints carry. Default: none; drives hold what constraints do not.
    locked : str or iterable of str, optional
        Joints that do not vibrate (their modes do), such as a driven hub. Default: none.

    Returns
    -------
    ndarray, shape (k,)
        In rad/s, ascending, one per degree of freedom; 0 for rigid motions, NaN for directions in
        which an equilibrium is unstable.

    See Also
    --------
    mode_shapes : The shapes too.

    Notes
    -----
    ω of ∂τ/∂q x = ω² ℳ x; with velocities v, the imaginary parts of the eigenvalues of ẋ = y, ℳ ẏ =
    −∂τ/∂v y − ∂τ/∂q x. **Cost:** two evaluations of inverse dynamics per degree of freedom, and
    O(nv³). **Source:** theory/flexible-bodies 9.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> builder = pp.ModelBuilder(gravity=(0, 0, 0))
    >>> beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(1.0, 2.0), modes=2)
    >>> body = builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    >>> np.sqrt(pp.natural_frequencies(builder.build())[:1]).round(4)     # of a cantilever: 1.8751
    array([1.8752])
    """
    mechanism = mechanism_of(model, natural_frequencies)
    return _vibrations(mechanism, q, v, tau, locked).frequencies


@supports(loops=True, flexible=True, rotors=True)
def mode_shapes(
    model: Model,
    q: ArrayLike | None = None,
    *,
    tau: ArrayLike | None = None,
    locked: str | Iterable[str] = (),
) -> Vibrations:
    """Natural frequencies and mode shapes of small vibrations about an equilibrium.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (nq,), optional
        Configuration. Default: neutral.
    tau : array_like, shape (nv,), optional
        Constant joint torques and forces, as for `natural_frequencies`. Default: none.
    locked : str or iterable of str, optional
        Joints that do not vibrate; their rows of the shapes are zero. Default: none.

    Returns
    -------
    Vibrations
        `frequencies` (k,) in rad/s, `shapes` (nv, k); its `to_html` writes a page on which they
        move.

    See Also
    --------
    natural_frequencies : The frequencies alone, also about steady motions.

    Notes
    -----
    Columns x of ∂τ/∂q x = ω² ℳ x, in the directions of v, with x* ℳ x = 1; with constraints those
    that keep them, G x = 0. **Cost:** one evaluation of inverse dynamics per degree of freedom, and
    O(nv³). **Source:** theory/flexible-bodies 9.

    Examples
    --------
    >>> import phipsi as pp
    >>> modes = pp.mode_shapes(pp.examples.planar_arm(2), [-1.5707963267948966, 0.0])
    >>> modes.frequencies.shape, modes.shapes.shape, bool((modes.shapes[:, 0] > 0).all())
    ((2,), (2, 2), True)
    """
    return _vibrations(mechanism_of(model, mode_shapes), q, None, tau, locked)


def _vibrations(
    mechanism: Model, q: ArrayLike | None, v: ArrayLike | None, tau: Any, locked: Any
) -> Vibrations:
    model = mechanism.model
    at = model.neutral() if q is None else as_floats("q", q)
    rates = np.zeros(model.nv) if v is None else as_floats("v", v)
    efforts = np.zeros(model.nv) if tau is None else as_floats("tau", tau)
    sizes = ("q", at, model.nq), ("v", rates, model.nv), ("tau", efforts, model.nv)
    for name, x, size in sizes:
        if x.shape != (size,) or not np.isfinite(x).all():
            what = f"of shape {x.shape}" if x.shape != (size,) else str(x)
            raise InputError(f"{name} must be {size} finite numbers, not {what}")
    possible = _possible(mechanism, at, rates, _moving(model, locked))
    turns = model.qdot(np.broadcast_to(at, (model.nv, model.nq)), np.eye(model.nv))
    stiffness = np.imag(bias_forces(model, at + 1j * _STEP * turns, rates)).T / _STEP
    if mechanism.n_rows:
        _, f = motion_and_multipliers(mechanism, at, rates, efforts)
        stiffness = stiffness + KKTSolver(mechanism, at).loads_by_q(f)
    if rates.any():
        return _about_motion(model, at, rates, possible, possible.T @ stiffness @ possible)
    squares, shapes = _separated(possible, (stiffness + stiffness.T) / 2)
    shapes *= np.where(shapes.sum(axis=0) < 0, -1.0, 1.0)
    with np.errstate(invalid="ignore"):
        return Vibrations(np.sqrt(squares), shapes, model, at)


def _separated(possible: Array, stiffness: Array) -> tuple[Array, Array]:
    """Squares of frequencies, ascending, and shapes: eigenvectors of X* K X, those of ω = 0 too.

    A slow motion beside stiff modes would drown in their rounding. So fast ones are found first,
    and what is left is projected onto the rest of the motions again, with K as it is.
    """
    rest, largest = possible, 0.0
    squares: list[Array] = [np.zeros(0)]
    shapes = [np.zeros((len(possible), 0))]
    while rest.shape[1]:
        found, columns = np.linalg.eigh(rest.T @ stiffness @ rest)
        rest = rest @ columns
        top = float(np.abs(found).max())
        largest = max(largest, top)
        noise = _ROUNDING * float((np.abs(rest.T) @ np.abs(stiffness) @ np.abs(rest)).max())
        noise += _MIXED * largest
        fast = np.abs(found) > _SLOW * top if top > noise else np.ones(len(found), dtype=bool)
        squares.append(np.where(np.abs(found) <= noise, 0.0, found)[fast])
        shapes.append(rest[:, fast])
        rest = rest[:, ~fast]
    every = np.concatenate(squares)
    order = np.argsort(every, kind="stable")
    return every[order], np.concatenate(shapes, axis=1)[:, order]


def _about_motion(
    model: Model, q: Array, v: Array, possible: Array, stiffness: Array
) -> Vibrations:
    """Frequencies about a steady motion, where gyroscopic forces couple the modes."""
    ahead = v + 1j * _STEP * possible.T
    damping = possible.T @ np.imag(bias_forces(model, q, ahead)).T / _STEP
    n = possible.shape[1]
    whole = np.zeros((2 * n, 2 * n))
    whole[:n, n:] = np.eye(n)
    whole[n:] = -np.hstack([stiffness, damping])
    found = np.sort(np.abs(np.linalg.eigvals(whole).imag))[::2]  # in pairs
    return Vibrations(found, np.zeros((model.nv, 0)), model, q)


def _possible(mechanism: Model, q: Array, v: Array, free: Array) -> Array:
    """Columns X (nv, k) of all motions that keep the constraints, X* ℳ X = I."""
    model = mechanism.model
    if not mechanism.n_rows:
        mass = mass_matrix(model, q)[np.ix_(free, free)]
        out = np.zeros((model.nv, len(free)))
        try:
            out[free] = np.linalg.inv(np.linalg.cholesky(mass)).T
        except np.linalg.LinAlgError:
            mass_matrix_inverse(model, q)  # names the joint that nothing resists
            raise
        return out
    rows = rows_of(mechanism)
    gaps = open_loops_at(rows, q, _CLOSED)
    if gaps:
        lines = "\n".join(gaps)
        raise InputError(
            f"q does not close the loops, so it is no equilibrium:\n{lines}\nFind one near it:\n"
            "    q = pp.equilibrium(system, q=q).q"
        )
    G = rows.jacobian(q)
    change = KKTSolver(mechanism, q).rates_by_q(v)
    limit = _CLOSED * (1 + np.abs(G).max(initial=0.0)) * (1 + np.abs(v).max(initial=0.0))
    if np.abs(G @ v).max() > limit or np.abs(change).max() > limit or rows.rates.any():
        raise InputError(
            "with these velocities the loops change their shape, so the motion is not steady. "
            "Frequencies are defined about rest, or about a motion that turns or moves the loops "
            "as a whole:\n"
            "    pp.natural_frequencies(system, q)"
        )
    used = None if len(free) == model.nv else free
    at = ConstraintMetric(rows, q[None], rates_used=used)
    sizes, basis = np.linalg.eigh(at.free[0])  # a projector: 0 or 1
    out = np.zeros((model.nv, int(np.count_nonzero(sizes > 0.5))))
    out[free] = at.back[0] @ basis[:, sizes > 0.5]
    return out


def _moving(model: Model, locked: str | Iterable[str]) -> Array:
    """The rates that vibrate: modes also of a body whose joint is locked."""
    names = as_list("locked", locked, "['elbow']")
    return np.setdiff1d(np.arange(model.nv), entries_of(map(model.joint_rates, names)))
