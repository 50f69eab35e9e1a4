"""Joint: what every joint type must provide, and the shared part of joints with q̇ = v."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.scalar_linalg import Scalar, ScalarOps, Vector, zeros
from phipsi.core.model.value import Value, plain, vector3
from phipsi.core.spatial import LieGroup, flat
from phipsi.errors import ModelError
from phipsi.package_state import IMPORT_TIME

FloatArray = NDArray[np.float64]
Rotation = list[list[Scalar]]
Columns = list[list[Scalar]]
ParamKind = Literal["axis", "frame", "number"]
PARAM_SIZES: dict[ParamKind, int] = {"axis": 3, "frame": 9, "number": 1}

_classes = count()


class Joint(Value, ABC):
    """How a body may move relative to its inboard joint frame.

    The formulas (`transform`, `hinge_axes`, `hinge_axes_rate`, `q_rate`) are generic over the
    scalar: `params`, `q` and `v` are sequences of anything that adds and multiplies, `ops` supplies
    sin, cos and sqrt, and the Python ints 0 and 1 in a result are structural. They depend on the
    joint only through its class; everything else is in `params`. The configuration functions
    (`integrate`, `difference`, `neutral`, `random`) are NumPy, batched on leading axes.

    A joint may declare more about its formulas. `param_kinds`: whether `params` holds an axis (3
    numbers, a unit vector), a frame (9: unit vectors n, e1, e2) or a number; exact proofs draw
    random ones. `aligned`: the entry of `param_kinds` that generated code rotates onto z, which
    makes the code cheaper; all axes of the joint are rotated with it. `degree`: of `transform` and
    `hinge_axes` as a rational function of the parameters, of quaternions, lengths and the tangents
    of half angles, which bounds the error probability of exact proofs.

    Attributes
    ----------
    kind : str
        The joint type.
    nq : int
        Number of coordinates.
    nv : int
        Number of velocities, the degrees of freedom.
    params : tuple of float
        The model constants the formulas take (axes, pitch).
    is_additive : bool
        Whether q̇ = v, so that integrating is adding.
    coordinate_names : tuple of str
        A short name for each coordinate.
    group : Group
        The group on which the joint moves; it has exp, log and their differentials (several joints
        in a row move on several: `parts`).
    """

    __slots__ = ("_arguments", "params")
    _arguments: Mapping[str, Any]
    params: tuple[float, ...]
    kind: str
    nq: int
    nv: int
    is_additive: bool = False
    coordinate_names: tuple[str, ...]
    group: LieGroup
    param_kinds: tuple[ParamKind, ...] = ()
    aligned: int | None = None
    degree: int | None = None
    _class_number: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._class_number = next(_classes)

    @property
    def formulas(self) -> str:
        """Identifies the formulas: two joints with equal text can share their machine code.

        Sources of the library are part of the key of stored code; formulas of a class from
        elsewhere may differ in the next process, so that their code is not found there.
        """
        if type(self).__module__.startswith("phipsi."):
            return self.kind
        return f"{self.kind} {self._class_number} of {os.getpid()} {IMPORT_TIME}"

    def blocks_of_params(self) -> list[tuple[ParamKind, tuple[float, ...]]]:
        """The parameters by kind; all of them are numbers if the class does not declare kinds."""
        kinds = self.param_kinds or ("number",) * len(self.params)
        if sum(PARAM_SIZES[k] for k in kinds) != len(self.params):
            raise ModelError(
                f"{type(self).__name__}.param_kinds {kinds} describes "
                f"{sum(PARAM_SIZES[k] for k in kinds)} numbers, but params has {len(self.params)}. "
                f"An axis has 3 numbers, a frame 9."
            )
        rest = iter(self.params)
        return [(k, tuple(next(rest) for _ in range(PARAM_SIZES[k]))) for k in kinds]

    def __init__(self) -> None:
        self._set(_arguments={}, params=())

    @abstractmethod
    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """Pose (R 3×3, p 3) of the body frame in the inboard joint frame; identity at neutral q."""

    @abstractmethod
    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """Return H*, 6 rows of nv: body motion [ω; v] per unit velocity, at the body origin.

        Parameters
        ----------
        params : sequence
            The model constants of the joint.
        q : sequence
            Coordinates.
        ops : ScalarOps
            The functions sin, cos and sqrt of the scalars.

        Returns
        -------
        sequence
            The rows, with components in body (outboard) axes.
        """

    @abstractmethod
    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Time derivative of `hinge_axes` when the joint moves with v; c_J is this times v.

        `ConstantAxes` has it for joints whose axes are constant in the body; every other joint must
        define it, because a missing derivative would give wrong results silently.

        Parameters
        ----------
        params : sequence
            The model constants of the joint.
        q : sequence
            Coordinates.
        v : sequence
            Velocities.
        ops : ScalarOps
            The functions sin, cos and sqrt of the scalars.

        Returns
        -------
        sequence
            The rows of dH*/dt.
        """

    @abstractmethod
    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """Return q̇ (nq) for the rates v (nv)."""

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """Configuration (..., nq) after moving from q with the constant rates dv for unit time."""
        return self.group.integrate(q, dv)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Constant velocities that lead from q0 to q1 in unit time; inverse of `integrate`.

        Rotations take the shortest way, at most π; angles of joints with q̇ = v are not wrapped.

        Parameters
        ----------
        q0 : array_like, shape (..., nq)
            Coordinates at the beginning.
        q1 : array_like, shape (..., nq)
            Coordinates at the end.

        Returns
        -------
        ndarray, shape (..., nv)
            The velocities.
        """
        return self.group.difference(q0, q1)

    def neutral(self) -> FloatArray:
        """Return the q (nq,) at which the body frame coincides with the joint frame."""
        return np.array(self.group.neutral)

    def parts(self, q: int = 0, v: int = 0) -> Iterator[tuple[LieGroup, int, int]]:
        """The groups the joint moves on, with where they begin; `q` and `v` are where it does."""
        yield self.group, q, v

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Random q (*batch, nq): angles in [−π, π] rad, lengths in [−1, 1] m, uniform rotations."""
        spread = [np.pi if name.startswith("theta") else 1.0 for name in self.coordinate_names]
        return rng.uniform(-1.0, 1.0, (*batch, self.nq)) * np.array(spread)

    def as_arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, as plain tuples and floats."""
        return dict(self._arguments)

    def _key(self) -> tuple[Any, ...]:
        return tuple(self._arguments.values())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._arguments.values())

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        return f"{type(self).__name__}({arguments})"


class ConstantAxes(Joint):
    """A joint whose axes are constant in the body: H* does not change when it moves."""

    __slots__ = ()

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Zero."""
        return zeros(6, self.nv)


class AdditiveJoint(Joint):
    """A joint whose rates are the derivatives of its coordinates."""

    __slots__ = ()
    is_additive = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "coordinate_names" in vars(cls):
            cls.nq = cls.nv = len(cls.coordinate_names)
            cls.group = flat(cls.nv)

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """Return v itself."""
        return list(v)


def unit_axis(axis: ArrayLike, what: str) -> tuple[float, float, float]:
    """Return the axis with length 1, or raise a ModelError saying which axis is not a direction.

    An axis that is a unit vector to rounding is kept bit for bit.
    """
    u = vector3(axis, what)
    if not np.isfinite(u).all():
        raise ModelError(f"{what} {plain(u)} has a number that is not finite.")
    size = float(np.abs(u).max())
    if size == 0:
        raise ModelError(
            f"{what} is (0, 0, 0), which is not a direction. Give the direction along or about "
            f"which the body moves, for example (0, 0, 1)."
        )
    if size > 2 or abs(float(u @ u) - 1) > 4 * np.finfo(float).eps:
        u = u / size
        u = u / np.linalg.norm(u)
    x, y, z = u.tolist()
    return (x, y, z)
