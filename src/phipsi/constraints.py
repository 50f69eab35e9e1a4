"""Constraints that close loops: joints between any two bodies, couplings of joints, general rows.

A tree has one joint per body. Every further joint is a constraint of a `System`:

>>> import phipsi as pp
>>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a=("rod", (1, 0, 0)), b="world")

**Ends.** `a` and `b` are a body, a frame or "world", alone or with a place on it: an offset (3,) in
m, or a `Pose`. This is the constraint's joint frame on that side. An end given without a rotation
has the axes of the body or frame it names.

**Axes** are given in the joint frame of `a` and have the same numbers in the joint frame of `b`: at
zero displacement the two frames coincide, as for the joints of a tree. Where the axis has other
numbers in `b`, give `axis_b`, or give `b` a `Pose` with the rotation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import InputError, ModelError
from phipsi.model import joints as tree_joints
from phipsi.model.closures import ANGULAR, LINEAR, Closure
from phipsi.model.joint import unit_axis
from phipsi.model.model import Model
from phipsi.model.pose import Pose
from phipsi.model.tree import WORLD
from phipsi.model.value import plain, read_only, vector3

Array = NDArray[Any]
End = str | tuple[str, Pose | ArrayLike]
Axis = tuple[float, float, float]

_ROW_NAMES = {
    "R02": "tilt_x", "R12": "tilt_y", "R22": "angle", "sx": "turn_x", "sy": "turn_y",
    "sz": "turn_z", "rx": "x", "ry": "y", "rz": "z", "distance": "distance",
}  # fmt: skip


_ONE_COORDINATE = (tree_joints.Revolute, tree_joints.Prismatic, tree_joints.Helical)


class Constraint(ABC):
    """The interface of every constraint: its `name`, and its rows on a model."""

    name: str

    @abstractmethod
    def closure(self, model: Model) -> Closure:
        """The rows, with names looked up in the model."""

    def prescribed(self, rows: int) -> Array:
        """The prescribed rates of the rows (rows,): zero, except for `Rows`."""
        return np.zeros(rows)

    def coordinates(self, model: Model) -> tuple[Array, float] | None:
        """For a row on coordinates: coefficients (nq,) and offset of its residual c* q − offset."""
        return None

    def sides(self) -> tuple[End, ...]:
        """The two ends, if it is a joint between two."""
        return ()

    def with_locked(self, model: Model, locked: Mapping[str, ArrayLike]) -> Constraint | None:
        """The same constraint with joints locked; None if there is no motion left for it to bind.

        **Arguments:** `model`, without the locked joints; `locked`, joint → its coordinates.
        """
        hosts = {_end(model, side, "end", repr(self.name))[0] for side in self.sides()}
        return None if len(hosts) == 1 else self


@dataclass(frozen=True)
class _Joint(Constraint):
    name: str = field(kw_only=True)
    a: End = field(kw_only=True)
    b: End = field(kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name, type(self).__name__)
        _plain_ends(self)
        for side in ("axis", "axis1", "axis2", "normal", "axis_b", "normal_b"):
            given = getattr(self, side, None)
            if given is not None:
                value = unit_axis(given, f"{self._who()}: {side}")
                object.__setattr__(self, side, value)

    def _who(self) -> str:
        return f"{type(self).__name__} {self.name!r}"

    def sides(self) -> tuple[End, ...]:
        """Its ends a and b."""
        return self.a, self.b

    def _between(
        self,
        model: Model,
        angular: str,
        linear: str,
        axis_a: Axis = (0.0, 0.0, 1.0),
        axis_b: Axis | None = None,
        constant: float = 0.0,
    ) -> Closure:
        """The closure with its z axes along the axes given in the two joint frames."""
        a, X_a = _end(model, self.a, "a", self._who())
        b, X_b = _end(model, self.b, "b", self._who())
        if a == b:
            where = "the world" if a == WORLD else f"body {model.body_names[a]!r}"
            raise ModelError(
                f"{self._who()}: both ends are fixed in {where} (a={self.a!r}, b={self.b!r}), so "
                f"there is no motion between them to constrain. A loop is closed between two "
                f"different bodies, or a body and 'world'."
            )
        forms = ANGULAR[angular] + LINEAR[linear]
        return Closure(
            name=self.name,
            rows=tuple(_ROW_NAMES[form] for form in forms),
            angular=angular,
            linear=linear,
            a=a,
            b=b,
            a_frame=X_a @ z_along(axis_a),
            b_frame=X_b @ z_along(axis_a if axis_b is None else axis_b),
            constant=constant,
        )


@final
@dataclass(frozen=True)
class Weld(_Joint):
    """The two joint frames coincide: 6 rows."""

    def closure(self, model: Model) -> Closure:
        """Angular "all", linear "all"."""
        return self._between(model, "all", "all")


@final
@dataclass(frozen=True)
class Spherical(_Joint):
    """The two points coincide: 3 rows. Rotations of the joint frames do not matter."""

    def closure(self, model: Model) -> Closure:
        """Linear "all"."""
        return self._between(model, "none", "all")


@final
@dataclass(frozen=True)
class Revolute(_Joint):
    """Only rotation about `axis` is free: 5 rows."""

    axis: ArrayLike = (0, 0, 1)
    axis_b: ArrayLike | None = None

    def closure(self, model: Model) -> Closure:
        """Angular "axis", linear "all"."""
        return self._between(model, "axis", "all", _axis(self.axis), _axis(self.axis_b))


@final
@dataclass(frozen=True)
class Prismatic(_Joint):
    """Only sliding along `axis` is free: 5 rows."""

    axis: ArrayLike = (0, 0, 1)

    def closure(self, model: Model) -> Closure:
        """Angular "all", linear "xy"."""
        return self._between(model, "all", "xy", _axis(self.axis))


@final
@dataclass(frozen=True)
class Cylindrical(_Joint):
    """Rotation about and sliding along `axis` are free: 4 rows."""

    axis: ArrayLike = (0, 0, 1)
    axis_b: ArrayLike | None = None

    def closure(self, model: Model) -> Closure:
        """Angular "axis", linear "xy"."""
        return self._between(model, "axis", "xy", _axis(self.axis), _axis(self.axis_b))


@final
@dataclass(frozen=True)
class Universal(_Joint):
    """Rotation about `axis1`, fixed in `a`, and `axis2`, fixed in `b`: 4 rows.

    The angle between the axes is the one of their numbers, as for a universal joint of a tree.
    """

    axis1: ArrayLike = (1, 0, 0)
    axis2: ArrayLike = (0, 1, 0)

    def closure(self, model: Model) -> Closure:
        """Angular "cross", linear "all"."""
        first, second = _axis(self.axis1), _axis(self.axis2)
        if np.linalg.norm(np.cross(first, second)) < 1e-8:
            raise ModelError(
                f"{self._who()}: axis1 {first} and axis2 {second} are parallel, so the cross "
                f"between them is not a cross, and one rotation is left. Use a revolute:\n"
                f"    pp.constraints.Revolute({first}, name={self.name!r}, a={self.a!r}, "
                f"b={self.b!r})"
            )
        return self._between(model, "cross", "all", first, second, float(np.dot(first, second)))


@final
@dataclass(frozen=True)
class Planar(_Joint):
    """Sliding in the plane perpendicular to `normal` and turning about it are free: 3 rows."""

    normal: ArrayLike = (0, 0, 1)
    normal_b: ArrayLike | None = None

    def closure(self, model: Model) -> Closure:
        """Angular "axis", linear "z"."""
        return self._between(model, "axis", "z", _axis(self.normal), _axis(self.normal_b))


@final
@dataclass(frozen=True)
class PointOnLine(_Joint):
    """The point of `b` stays on the line through the point of `a` along `axis`: 2 rows."""

    axis: ArrayLike = (0, 0, 1)

    def closure(self, model: Model) -> Closure:
        """Linear "xy"."""
        return self._between(model, "none", "xy", _axis(self.axis))


@final
@dataclass(frozen=True)
class Distance(_Joint):
    """The two points stay `length` (m) apart, like the ends of a massless rod: 1 row."""

    length: float = 1.0

    def __post_init__(self) -> None:
        _check_name(self.name, "Distance")
        _plain_ends(self)
        length = _number(self.length)
        if not (np.isfinite(length) and length > 0):
            raise ModelError(
                f"{self._who()}: length={self.length!r} must be a finite number of metres above 0. "
                f"Two points at distance 0 coincide, which takes three rows, not one:\n"
                f"    pp.constraints.Spherical(name={self.name!r}, a={self.a!r}, b={self.b!r})"
            )
        object.__setattr__(self, "length", length)

    def closure(self, model: Model) -> Closure:
        """Linear "distance"."""
        return self._between(model, "none", "distance", constant=self.length)


@final
@dataclass(frozen=True)
class Coupling(Constraint):
    """Gear, mimic or differential: Σ coefficient · q = offset over joints of one coordinate, 1 row.

    ``Coupling(name="gear", joints=("motor", "wheel"), coefficients=(1, -50))``: the motor turns 50
    times as fast. The joints may be revolute, prismatic or helical.
    """

    name: str = field(kw_only=True)
    joints: Sequence[str] = field(kw_only=True)
    coefficients: ArrayLike = field(kw_only=True)
    offset: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name, "Coupling")
        names = (self.joints,) if isinstance(self.joints, str) else tuple(self.joints)
        who = f"Coupling {self.name!r}"
        numbers = _numbers(self.coefficients, f"{who}: coefficients")
        if not names or numbers.shape != (len(names),):
            raise ModelError(
                f"{who}: {len(names)} joints {list(names)} and coefficients of shape "
                f"{numbers.shape}; it needs one coefficient per joint, for example "
                f"joints=('left', 'right'), coefficients=(1, -1)."
            )
        if len(set(names)) < len(names):
            raise ModelError(f"{who}: a joint is listed twice in {list(names)}; add the numbers.")
        if (
            not np.isfinite(numbers).all()
            or not numbers.all()
            or not np.isfinite(_number(self.offset))
        ):
            raise ModelError(
                f"{who}: coefficients {numbers.tolist()} and offset {self.offset!r} must be finite "
                f"numbers and no coefficient 0; a joint with coefficient 0 takes no part."
            )
        object.__setattr__(self, "joints", names)
        object.__setattr__(self, "coefficients", tuple(numbers.tolist()))
        object.__setattr__(self, "offset", float(self.offset))

    def closure(self, model: Model) -> Closure:
        """The rate of each joint as a constant row on the motions of the bodies it joins."""
        points: list[tuple[int, Pose]] = []
        blocks: list[list[float]] = []
        for name, c in zip(self.joints, self.coefficients, strict=True):  # type: ignore[arg-type]
            try:
                view = model.joint(name)
            except ModelError as error:
                raise ModelError(f"Coupling {self.name!r}: {error}") from error
            if not isinstance(view.joint, _ONE_COORDINATE):
                raise ModelError(
                    f"Coupling {self.name!r}: joint {name!r} is {view.joint.kind} with "
                    f"{view.joint.nv} rates; a coupling adds up single coordinates and takes "
                    f"revolute, prismatic and helical joints. Split {name!r} into such joints "
                    f"with massless bodies between them."
                )
            u = np.array(view.joint.params[:3])
            turns = not isinstance(view.joint, tree_joints.Prismatic)
            motion = np.concatenate([u, np.zeros(3)] if turns else [np.zeros(3), u])
            points.append((view.index, Pose()))
            points.append((model.parent[view.index], model.placements[view.index]))
            blocks.extend([(c * motion).tolist(), (-c * motion).tolist()])
        return Closure(
            name=self.name,
            rows=("ratio",),
            points=tuple(points),
            matrix=np.array(blocks).reshape(1, -1),
        )

    def coordinates(self, model: Model) -> tuple[Array, float]:
        """Coefficients over all of q, and the offset."""
        row = np.zeros(model.nq)
        for name, c in zip(self.joints, self.coefficients, strict=True):  # type: ignore[arg-type]
            row[model.q_slice(name)] = c
        return row, self.offset

    def with_locked(self, model: Model, locked: Mapping[str, ArrayLike]) -> Coupling | None:
        """The coupling of the joints that are left, the others' share in its offset."""
        numbers: Any = self.coefficients
        shares: dict[str, float] = dict(zip(self.joints, numbers, strict=True))
        gone = [name for name in shares if name in locked]
        if not gone:
            return self
        still = sum(shares.pop(name) * float(np.squeeze(locked[name])) for name in gone)
        if not shares:
            return None
        left = {"joints": tuple(shares), "coefficients": tuple(shares.values())}
        return replace(self, **left, offset=self.offset - still)


@final
@dataclass(frozen=True, eq=False)
class Rows(Constraint):
    """General rows A V = rates on the motions of points: rolling, knife edges, prescribed speeds.

    `points` as for `jacobian`; `A` (rows, 6 · points), constant, on their motions [angular;
    linear], in world axes or (``axes="body"``) in the axes of each point's body or frame; `rates`,
    constant numbers, one or one per row. They bind velocities only: there is no position to
    assemble, so their residual is 0.
    """

    name: str = field(kw_only=True)
    points: Sequence[Any] = field(kw_only=True)
    A: ArrayLike = field(kw_only=True)
    rates: ArrayLike = field(default=0.0, kw_only=True)
    axes: str = field(default="world", kw_only=True)

    def __post_init__(self) -> None:
        _check_name(self.name, "Rows")
        who, points = f"Rows {self.name!r}", self.points
        if self.axes not in ("world", "body"):
            raise ModelError(f"{who}: axes={self.axes!r} is neither 'world' nor 'body'.")
        if isinstance(points, str) or not len(points):
            raise ModelError(f"{who}: points must be a list, also for one: points=[{points!r}]")
        matrix, size = _numbers(self.A, f"{who}: A"), 6 * len(points)
        if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != size:
            raise ModelError(
                f"{who}: A has shape {matrix.shape}, but {len(points)} points have {size} velocity "
                f"components, [angular; linear] of each: A must be (rows, {size})."
            )
        rates = _numbers(self.rates, f"{who}: rates")
        if rates.shape not in ((), (len(matrix),)):
            raise ModelError(
                f"{who}: rates of shape {rates.shape} must be one number or {len(matrix)}, one per "
                f"row of A."
            )
        if not np.isfinite(matrix).all() or not np.isfinite(rates).all():
            raise ModelError(f"{who}: A and rates must be finite.")
        empty = np.flatnonzero(~matrix.any(axis=1))
        if empty.size:
            raise ModelError(f"{who}: row {empty[0]} of A is zero and constrains nothing.")
        object.__setattr__(self, "points", tuple(points))
        object.__setattr__(self, "A", read_only(matrix))
        object.__setattr__(self, "rates", read_only(np.broadcast_to(rates, (len(matrix),))))

    def closure(self, model: Model) -> Closure:
        """Constant rows on the points."""
        matrix = np.asarray(self.A)
        return Closure(
            name=self.name,
            rows=tuple(str(i) for i in range(len(matrix))),
            points=tuple(_resolved(model, p, f"Rows {self.name!r}") for p in self.points),
            matrix=matrix,
            axes=self.axes,
        )

    def prescribed(self, rows: int) -> Array:
        """The rates given."""
        return np.asarray(self.rates)


def _check_name(name: Any, kind: str) -> None:
    if not isinstance(name, str) or not name:
        raise ModelError(
            f"{kind}: name={name!r} must be a text that is not empty; reports and errors name "
            f"the constraint by it."
        )


def _plain_ends(constraint: _Joint) -> None:
    """Offsets as tuples, so that constraints compare and hash by content."""
    for side in ("a", "b"):
        end = getattr(constraint, side)
        if isinstance(end, tuple | list) and len(end) == 2 and isinstance(end[0], str):
            name, place = end
            if not isinstance(place, Pose):
                who = f"{type(constraint).__name__} {constraint.name!r}: the offset of {side}"
                place = plain(vector3(place, who))
                if not np.isfinite(place).all():
                    raise ModelError(f"{who}, {place}, has a number that is not finite.")
            object.__setattr__(constraint, side, (name, place))


def _axis(axis: Any) -> Any:
    """The axis as `__post_init__` left it: a tuple of length 1, or None."""
    return axis


def _end(model: Model, end: Any, side: str, who: str) -> tuple[int, Pose]:
    """Body (−1: world) of an end, and the pose of the joint frame in it."""
    if isinstance(end, str):
        return _resolved(model, end, f"{who}: {side}")
    if not (isinstance(end, tuple | list) and len(end) == 2 and isinstance(end[0], str)):
        raise ModelError(
            f"{who}: {side}={end!r} must be a body, a frame or 'world', alone or with its place "
            f"there:\n    {side}=('rod', (1, 0, 0))      an offset in m\n"
            f"    {side}=('rod', pp.Pose(R, (1, 0, 0)))"
        )
    name, place = end
    if not isinstance(place, Pose):
        return _resolved(model, (name, place), f"{who}: {side}")
    body, X = _resolved(model, name, f"{who}: {side}")
    return body, X @ place


def _resolved(model: Model, point: Any, who: str) -> tuple[int, Pose]:
    """`resolve_point`, with errors that name the constraint."""
    try:
        return model.resolve_point(point)
    except (ModelError, InputError) as error:
        raise ModelError(f"{who}: {error}") from error


def z_along(axis: Axis) -> Pose:
    """The smallest rotation that takes z to the axis."""
    x, y, z = axis
    if x == 0 and y == 0:
        return Pose() if z > 0 else Pose(np.diag([1.0, -1.0, -1.0]))
    if z < 0:  # by way of −z, which is near
        flipped = z_along((x, -y, -z)).rotation
        return Pose(np.diag([1.0, -1.0, -1.0]) @ flipped)
    k = 1.0 / (1.0 + z)
    R = [[1 - k * x * x, -k * x * y, x], [-k * x * y, 1 - k * y * y, y], [-x, -y, z]]
    return Pose(R)


def _number(value: Any) -> float:
    """One real number, or NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _numbers(values: Any, what: str) -> Array:
    """Real numbers as a new array."""
    try:
        array = np.array(values)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise ModelError(f"{what} must be real numbers, not {values!r}.")
    return array.astype(np.float64)
