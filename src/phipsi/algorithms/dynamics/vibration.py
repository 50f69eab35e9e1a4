"""Small vibrations: natural frequencies and mode shapes of whole mechanisms.

About an equilibrium, or about a steady motion such as a spin, the equations of motion are

    ℳ ẍ + (∂τ/∂v) ẋ + (∂τ/∂q) x = 0

with the efforts τ(q, v, v̇) of inverse dynamics: elastic forces, gravity and gyroscopic forces. Both
derivatives are complex steps along unit rates, exact to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.equations_of_motion import bias_forces, mass_matrix
from phipsi.errors import InputError
from phipsi.loaded import display
from phipsi.model.mechanisms import of_modes, of_trees, tree_of
from phipsi.model.model import Model

Array = NDArray[Any]
_STEP = 1e-30  # of complex steps: nothing is subtracted
_ROUNDING = 1e-10  # of the largest squared frequency; below it a mode is one of the rigid bodies


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
        """A page on which the modes move, one at a time, with their frequencies.

        **Arguments:** `path`, a file that ends in .html; `title`, the model's name by default.
        **Returns:** the path; without one, the page as a string.

        >>> import phipsi as pp
        >>> found = pp.mode_shapes(pp.examples.planar_arm(2), [-1.5707963267948966, 0.0])
        >>> found.to_html(title="Two pendulums").startswith("<!doctype html>")
        True
        """
        return import_module("phipsi.interfaces.page.mode_page").mode_page(self, path, title)

    def __repr__(self) -> str:
        listed = ", ".join(f"{w:.4g}" for w in self.frequencies[:6])
        rest = ", …" if len(self.frequencies) > 6 else ""
        return f"<Vibrations: {len(self.frequencies)} modes, rad/s: {listed}{rest}>"

    _repr_html_ = display


@of_modes
@of_trees("loops change which motions are possible", "Open the loops, or take pp.linearize.")
def natural_frequencies(
    model: Model,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    *,
    locked: str | Iterable[str] = (),
) -> Array:
    """Natural frequencies of small vibrations about an equilibrium or a steady motion.

    ω of ∂τ/∂q x = ω² ℳ x; with rates v, the imaginary parts of the eigenvalues of
    ẋ = y, ℳ ẏ = −∂τ/∂v y − ∂τ/∂q x. In rad/s, ascending, one per degree of freedom; 0 for rigid
    motions, NaN for directions in which an equilibrium is unstable.

    **Arguments:** `q` (nq,), by default neutral; `v` (nv,), rates of a steady motion, by default
    none; `locked`, joints that do not vibrate (their modes do), such as a driven hub.
    **Cost:** two evaluations of inverse dynamics per degree of freedom, and O(nv³).
    **Source:** theory/flexible-bodies 9.

    >>> import numpy as np, phipsi as pp
    >>> builder = pp.ModelBuilder(gravity=(0, 0, 0))
    >>> beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(1.0, 2.0), modes=2)
    >>> body = builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    >>> np.sqrt(pp.natural_frequencies(builder.build())[:1]).round(4)     # of a cantilever: 1.8751
    array([1.8752])
    """
    return _vibrations(tree_of(model, natural_frequencies), q, v, locked).frequencies


@of_modes
@of_trees("loops change which motions are possible", "Open the loops, or take pp.linearize.")
def mode_shapes(
    model: Model,
    q: ArrayLike | None = None,
    *,
    locked: str | Iterable[str] = (),
) -> Vibrations:
    """Natural frequencies and mode shapes of small vibrations about an equilibrium.

    Columns x of ∂τ/∂q x = ω² ℳ x, in the directions of v, with x* ℳ x = 1. Rows of `locked` joints
    are zero.

    **Arguments:** as for `natural_frequencies`. **Returns:** `Vibrations`: `frequencies` (k,) in
    rad/s, `shapes` (nv, k); its `to_html` writes a page on which they move.
    **Cost:** one evaluation of inverse dynamics per degree of freedom, and O(nv³).
    **Source:** theory/flexible-bodies 9.

    >>> import phipsi as pp
    >>> found = pp.mode_shapes(pp.examples.planar_arm(2), [-1.5707963267948966, 0.0])
    >>> found.frequencies.shape, found.shapes.shape, bool((found.shapes[:, 0] > 0).all())
    ((2,), (2, 2), True)
    """
    return _vibrations(tree_of(model, mode_shapes), q, None, locked)


def _vibrations(
    model: Model, q: ArrayLike | None, v: ArrayLike | None, locked: str | Iterable[str]
) -> Vibrations:
    at = model.neutral() if q is None else np.asarray(q, dtype=np.float64)
    rates = np.zeros(model.nv) if v is None else np.asarray(v, dtype=np.float64)
    for name, x, size in (("q", at, model.nq), ("v", rates, model.nv)):
        if x.shape != (size,) or not np.isfinite(x).all():
            raise InputError(f"{name} must be {size} finite numbers, not of shape {x.shape}")
    free = _moving(model, locked)
    mass = mass_matrix(model, at)[np.ix_(free, free)]
    units = np.eye(model.nv)[free]
    ahead = at + 1j * _STEP * model.qdot(np.broadcast_to(at, (len(free), model.nq)), units)
    stiffness = np.imag(bias_forces(model, ahead, rates)).T[free] / _STEP
    if v is not None and rates.any():
        return _about_motion(model, at, rates, free, mass, stiffness)
    stiffness = (stiffness + stiffness.T) / 2
    root = np.linalg.cholesky(mass)
    inner = np.linalg.solve(root, np.linalg.solve(root, stiffness).T)
    squares, columns = np.linalg.eigh((inner + inner.T) / 2)
    level = _ROUNDING * np.abs(squares).max(initial=0.0)
    squares = np.where(np.abs(squares) <= level, 0.0, squares)
    shapes = np.zeros((model.nv, len(free)))
    shapes[free] = np.linalg.solve(root.T, columns)
    shapes *= np.where(shapes.sum(axis=0) < 0, -1.0, 1.0)
    with np.errstate(invalid="ignore"):
        return Vibrations(np.sqrt(squares), shapes, model, at)


def _about_motion(
    model: Model, q: Array, v: Array, free: Array, mass: Array, stiffness: Array
) -> Vibrations:
    """Frequencies about a steady motion, where gyroscopic forces couple the modes."""
    ahead = v + 1j * _STEP * np.eye(model.nv)[free]
    damping = np.imag(bias_forces(model, q, ahead)).T[free] / _STEP
    n = len(free)
    whole = np.zeros((2 * n, 2 * n))
    whole[:n, n:] = np.eye(n)
    whole[n:] = -np.linalg.solve(mass, np.hstack([stiffness, damping]))
    found = np.sort(np.abs(np.linalg.eigvals(whole).imag))[::2]  # in pairs
    return Vibrations(found, np.zeros((model.nv, 0)), model, q)


def _moving(model: Model, locked: str | Iterable[str]) -> Array:
    """The rates that vibrate: modes also of a body whose joint is locked."""
    still: set[int] = set()
    for name in [locked] if isinstance(locked, str) else locked:
        at = model.joint_rates(name)
        still |= set(range(at.start, at.stop))
    return np.array([i for i in range(model.nv) if i not in still], dtype=int)
