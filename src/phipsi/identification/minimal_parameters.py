"""The smallest set of parameters that determines the efforts: combinations of inertial ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import real_array
from phipsi.core.model import Model, Refusal, supports, tree_of
from phipsi.errors import InputError
from phipsi.identification.regressors import inertial_parameters, parameter_names, regressor

Array = NDArray[Any]

# What is left of a column after the columns before it, relative to the column: columns that depend
# on others leave rounding, 1e-13 or less, independent ones of random motions more than 1e-5.
_DEPENDENT = 1e-9


class JointColumns(TypedDict):
    """Which parameters of joints have columns behind those of the bodies."""

    armature: bool
    viscous: bool
    coulomb: bool


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """A minimal set of parameters: π_base = `combinations` @ π determines all joint torques.

    Parameters
    ----------
    model : Model
        The model it was made of.
    options : JointColumns
        Which columns of friction and armature there are.
    columns : ndarray of int, shape (nb,)
        The parameter of π that each base parameter begins with.
    combinations : ndarray, shape (nb, p)
        1 in those columns, and the weights of the parameters that cannot be distinguished from it.
    parameters : tuple of str, length p
        The names of π.
    unidentifiable : tuple of str
        The names of those without any effect.
    """

    model: Model
    options: JointColumns
    columns: NDArray[np.intp]
    combinations: Array
    parameters: tuple[str, ...]
    unidentifiable: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Each base parameter as a sum, such as "link1.Jzz + link2.m + 2 link2.mcx"."""
        out: list[str] = []
        for row, first in zip(self.combinations, self.columns, strict=True):
            text = self.parameters[first]
            for i in np.flatnonzero(row):
                if i != first:
                    size = f"{abs(row[i]):.4g} "
                    sign = "-" if row[i] < 0 else "+"
                    text += f" {sign} {'' if size == '1 ' else size}{self.parameters[i]}"
            out.append(text)
        return tuple(out)

    def values(self, model: Model | None = None) -> Array:
        """The base parameters (nb,) of a model with the same geometry; of the model itself."""
        return self.combinations @ inertial_parameters(model or self.model, **self.options)

    def regressor(self, q: ArrayLike, v: ArrayLike, vdot: ArrayLike) -> Array:
        """Y_base (..., nv, nb): tau = Y_base π_base. It has full column rank on rich data."""
        return regressor(self.model, q, v, vdot, **self.options)[..., self.columns]

    def complete(self, values: ArrayLike, guess: Model | None = None) -> Array:
        """Parameters π that have given base parameters, as close as possible to a guess.

        Closeness is measured in units of each body's own mass, m l and m l², with l its radius of
        gyration about the origin.

        Parameters
        ----------
        values : array_like, shape (nb,)
            Base parameters.
        guess : Model, optional
            Default: the model that the set was made of.

        Returns
        -------
        ndarray, shape (p,)
            In the order of `parameters`; its first 10 n numbers are what
            `Model.with_inertial_parameters` takes.
        """
        wanted = real_array("values", values)
        if wanted.shape != (len(self),):
            raise InputError(f"{len(self)} base parameters are needed, not {wanted.shape}")
        guess = guess or self.model
        start = inertial_parameters(guess, **self.options)
        weights = _weights(guess, len(self.parameters))
        scaled = self.combinations * weights
        missing = wanted - self.combinations @ start
        return start + weights * np.linalg.lstsq(scaled, missing, rcond=None)[0]

    def __repr__(self) -> str:
        return f"<BaseParameters: {len(self)} combinations of {len(self.parameters)} parameters>"


@supports(
    loops=Refusal(
        "the motions it can make are fewer, and the efforts at its joints also hold the constraint "
        "forces: other parameters can be identified than with free joints",
        "The energies are linear in the parameters there too: "
        "pp.identification.kinetic_energy_regressor and "
        "pp.identification.potential_energy_regressor.",
    ),
    flexible=Refusal(
        "efforts of flexible bodies also depend on the invariants of their modes, which "
        "measurements at the joints do not separate from masses. Columns for the bodies that "
        "are rigid:\n"
        "    pp.identification.regressor(model, q, v, vdot)"
    ),
)
def base_parameters(
    model: Model,
    *,
    armature: bool = False,
    viscous: bool = False,
    coulomb: bool = False,
    samples: int | None = None,
    seed: np.random.Generator | int = 0,
) -> BaseParameters:
    """Minimal set of parameters that the joint torques depend on (base parameters).

    It depends on the geometry of the model and on gravity, not on its inertias.

    Parameters
    ----------
    model : Model
        A tree.
    armature, viscous, coulomb : bool, optional
        As for `regressor`. Default: False.
    samples : int, optional
        Number of random states. Default: enough for four times as many rows as columns.
    seed : int or numpy.random.Generator, optional
        Seed of the random states. Default: 0.

    Returns
    -------
    BaseParameters
        The set.

    Notes
    -----
    Y π = Y_base π_base for all motions. The columns of `regressor`, stacked over random motions,
    are made orthogonal in the order base to tip; a column that leaves nothing depends on earlier
    ones, and its parameter joins theirs with the weights of that dependence. **Cost:** O(rows · p²)
    once. **Source:** theory/sensitivities 8; Gautier and Khalil 1990.

    Examples
    --------
    >>> from phipsi.identification import base_parameters
    >>> from phipsi.examples import planar_arm
    >>> base = base_parameters(planar_arm(2))
    >>> base
    <BaseParameters: 6 combinations of 20 parameters>
    >>> base.names[0]
    'link1.mcx + link2.m'
    """
    model = tree_of(model, base_parameters)
    options: JointColumns = {"armature": armature, "viscous": viscous, "coulomb": coulomb}
    names = parameter_names(model, **options)
    if samples is None:
        samples = 20 + 4 * len(names) // max(1, model.nv)
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng, (samples,))
    v, vdot = rng.standard_normal((2, samples, model.nv))
    # rates and accelerations that make all kinds of terms about as large as gravity's
    Y = regressor(model, q, 3 * v, 10 * vdot, **options)
    Y = Y.reshape(samples * model.nv, len(names))
    kept, weights, nothing = _independent(Y)
    combinations = np.zeros((len(kept), len(names)))
    combinations[np.arange(len(kept)), kept] = 1
    for column, w in weights.items():
        combinations[: len(w), column] = w
    unidentifiable = tuple(names[i] for i in nothing)
    return BaseParameters(model, options, np.array(kept, int), combinations, names, unidentifiable)


def _independent(Y: Array) -> tuple[list[int], dict[int, Array], list[int]]:
    """Columns independent of those before; how the others depend on them; columns of zeros."""
    rows, count = Y.shape
    basis = np.zeros((rows, min(rows, count)), order="F")
    factor = np.zeros((count, count))  # R of the kept columns
    norms = np.linalg.norm(Y, axis=0)
    zero = norms <= 1e-12 * norms.max(initial=0.0)
    kept: list[int] = []
    weights: dict[int, Array] = {}
    for j in np.flatnonzero(~zero):
        n = len(kept)
        rest, along = Y[:, j] / norms[j], np.zeros(n)
        for _ in range(2):  # once more for what rounding left
            part = basis[:, :n].T @ rest
            rest, along = rest - basis[:, :n] @ part, along + part
        size = np.linalg.norm(rest)
        if size > _DEPENDENT:
            basis[:, n] = rest / size
            factor[:n, n], factor[n, n] = along, size
            kept.append(int(j))
            continue
        w = np.linalg.solve(factor[:n, :n], along) * norms[j] / norms[kept]
        w[np.abs(w) * norms[kept] < 1e-9 * norms[j]] = 0
        weights[int(j)] = w
    return kept, weights, [int(j) for j in np.flatnonzero(zero)]


def _weights(model: Model, count: int) -> Array:
    """Size of each parameter of a body: m, m l, m l²; 1 for friction."""
    out = np.ones(count)
    for k, inertia in enumerate(model.inertias):
        p = inertia.parameters
        mass = p[0] or 1.0
        length = np.sqrt(max(p[4] + p[5] + p[6], 0.0) / (2 * mass)) or 1.0
        out[10 * k : 10 * k + 10] = mass * np.repeat([1, length, length**2], (1, 3, 6))
    return out
