"""Contacts between the fingers of arms and an object they hold.

A contact is a constraint of a `Grasp`. Its rows are the directions in which it transmits forces; in
the others it moves.

>>> import phipsi as pp
>>> tip = pp.grasping.Point(0.6, name="left", finger="left_tip", object=("box", (-0.1, 0, 0)))

**Ends.** `finger` and `object` are a body or frame, alone or with a place on it, an offset (3,) in
m or a `Pose`. The joint frame on the object has the **contact axes**: its z is the outward normal
of the object's surface. Contact forces are those on the object, in these axes.

| contact | transmitted | free | rows |
|---|---|---|---|
| `Rigid` | everything, both ways | nothing | 6 |
| `Edge` | force, moments across the edge | turning about the edge | 5 |
| `Point` | force | turning | 3 |
| `SoftFinger` | force, moment about the normal | turning about the two tangents | 4 |
| `SlidingFace` | normal force, moments about the tangents | sliding, turning about the normal | 3 |
| `Frictionless` | normal force | sliding, turning | 1 |

All but `Rigid` can only push. Rows hold a contact as long as it stays closed and does not slip;
whether it does is for the inequalities of `cones`, each a·w ≥ |C w| for the wrench w on the object.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.constraints import (
    Constraint,
    End,
    Planar,
    PointOnPlane,
    Revolute,
    Spherical,
    Weld,
    check_name,
    z_along,
)
from phipsi.core.model import Closure, Model, fill, unit_axis
from phipsi.errors import ModelError, number_of
from phipsi.support import fields_in_line

Array = NDArray[Any]

_INWARD = np.array([0.0, 0, 0, 0, 0, -1.0])
_ACROSS = np.eye(6)[3:5]
_TURN = np.eye(6)[2:3]


class Cone(NamedTuple):
    """One inequality of a contact: margin(w) = a·w − |C w| ≥ 0 for the wrench w.

    w = [moment; force] is in contact axes.

    Parameters
    ----------
    name : str
        What it means, such as "slip".
    a : ndarray, shape (6,)
        Linear part.
    C : ndarray, shape (k, 6)
        Part under the norm; k = 0 for a plain inequality.
    unit : str, optional
        Unit of the margin. Default: "N".
    """

    name: str
    a: Array
    C: Array
    unit: str = "N"

    def __repr__(self) -> str:
        return fields_in_line(self)

    def margin(self, wrench: Array) -> Array:
        """How far the inequality is from being broken (...); negative where it is."""
        return wrench @ self.a - np.linalg.norm(wrench @ self.C.T, axis=-1)


@dataclass(frozen=True)
class Contact(Constraint):
    """The base of all contacts of a grasp.

    Parameters
    ----------
    name : str
        Name of the contact.
    finger : str or tuple
        Contact frame on the finger: a body, a frame, or (name, offset in m or `Pose`).
    object : str or tuple
        Contact frame on the object, in the same way.
    """

    name: str = field(kw_only=True)
    finger: End = field(kw_only=True)
    object: End = field(kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, type(self).__name__)
        for what in ("friction", "torsional_friction", "half_length"):
            value = getattr(self, what, None)
            if value is None:
                continue
            number = number_of(value)
            if not (np.isfinite(number) and number > 0):
                raise ModelError(
                    f"{self._who()}: {what}={value!r} must be a finite "
                    f"number above 0, or None where it is not to be checked. A contact whose rows "
                    f"forbid slipping needs friction to do so."
                )
            fill(self, **{what: number})
        self._check()

    def _check(self) -> None:
        """Further checks of a kind of contact."""

    @abstractmethod
    def cones(self) -> tuple[Cone, ...]:
        """Conditions on the contact force under which the contact neither opens nor slips."""

    def turn(self) -> Array:
        """Rotation (3, 3) from the axes of the closure's frame to the contact axes."""
        return np.eye(3)

    def sides(self) -> tuple[End, ...]:
        """The object's and the finger's."""
        return self.object, self.finger

    def _ends(self) -> dict[str, Any]:
        return {"name": self.name, "a": self.object, "b": self.finger}


@final
@dataclass(frozen=True)
class Rigid(Contact):
    """The finger holds the object firmly: the two joint frames coincide, 6 rows, no inequality.

    Parameters
    ----------
    name : str
        Name of the contact.
    finger, object : str or tuple
        Contact frames, as for `Contact`.
    """

    def closure(self, model: Model) -> Closure:
        """That of a weld."""
        return Weld(**self._ends()).closure(model)

    def cones(self) -> tuple[Cone, ...]:
        """None: the contact can pull as well as push."""
        return ()


@final
@dataclass(frozen=True)
class Edge(Contact):
    """A line contact with friction: only turning about `axis` is free, 5 rows.

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        In contact axes and the finger's joint frame alike, perpendicular to the normal. Default: x.
    friction : float, optional
        Friction coefficient. What is None is not checked.
    half_length : float, optional
        Half length of the line, m, which bounds the centre of pressure.
    torsional_friction : float, optional
        m, the friction moment about the normal per N of tangential friction (about half of
        `half_length`).
    name : str
        Name of the contact.
    finger, object : str or tuple
        Contact frames, as for `Contact`.
    """

    axis: ArrayLike = (1, 0, 0)
    friction: float | None = None
    half_length: float | None = None
    torsional_friction: float | None = None

    def _check(self) -> None:
        axis = unit_axis(self.axis, f"{self._who()}: axis")
        if abs(axis[2]) > 1e-9:
            raise ModelError(
                f"{self._who()}: axis {tuple(axis)} has a z component, but a line of contact lies "
                "in the surface. z of the object's Pose is the outward normal. A hinge along any "
                "axis is pp.constraints.Revolute."
            )
        fill(self, axis=axis)

    def closure(self, model: Model) -> Closure:
        """That of a revolute joint."""
        return Revolute(self.axis, **self._ends()).closure(model)

    def turn(self) -> Array:
        """Rotation that takes z to the edge, as `Revolute` makes it."""
        return z_along(self.axis).rotation  # type: ignore[arg-type]

    def cones(self) -> tuple[Cone, ...]:
        """Pressure, friction, centre of pressure."""
        out = _friction(self.friction, self.torsional_friction)
        if self.half_length is not None:
            across = np.cross([0.0, 0.0, -1.0], np.asarray(self.axis))
            row = np.concatenate([across, np.zeros(3)])[None]
            out.append(Cone("centre of pressure", self.half_length * _INWARD, row, "N·m"))
        return tuple(out)


@final
@dataclass(frozen=True)
class Point(Contact):
    """A point contact with friction: a force, no moment, 3 rows.

    Parameters
    ----------
    friction : float, optional
        Friction coefficient. Default: not checked.
    name : str
        Name of the contact.
    finger, object : str or tuple
        Contact frames, as for `Contact`.

    Examples
    --------
    >>> import phipsi as pp
    >>> thumb = pp.grasping.Point(0.6, name="thumb", finger="tip", object=("box", (0.1, 0, 0)))
    >>> thumb.friction
    0.6
    """

    friction: float | None = None

    def closure(self, model: Model) -> Closure:
        """That of a spherical joint."""
        return Spherical(**self._ends()).closure(model)

    def cones(self) -> tuple[Cone, ...]:
        """Pressure and friction."""
        return tuple(_friction(self.friction, None))


@final
@dataclass(frozen=True)
class SoftFinger(Contact):
    """A soft-finger contact: a force and a moment about the normal, 4 rows.

    The spin of the finger about the object's normal is zero. That row is nonholonomic: by rolling
    about the two tangents every attitude can be reached, so it has no position. The moment about
    the normal counts as that much force per length, (|F_t|/friction)² + (N_n/torsional_friction)² ≤
    F_n².

    Parameters
    ----------
    friction : float, optional
        Friction coefficient. What is None is not checked.
    torsional_friction : float, optional
        m.
    name : str
        Name of the contact.
    finger, object : str or tuple
        Contact frames, as for `Contact`.
    """

    friction: float | None = None
    torsional_friction: float | None = None

    def closure(self, model: Model) -> Closure:
        """Linear "all", angular "spin"."""
        point = Spherical(**self._ends()).closure(model)
        return replace(point, angular="spin", rows=("spin", *point.rows))

    def cones(self) -> tuple[Cone, ...]:
        """Pressure and friction, torsional friction included."""
        return tuple(_friction(self.friction, self.torsional_friction))


@final
@dataclass(frozen=True)
class Frictionless(Contact):
    """A frictionless point contact, which slides: a normal force, 1 row.

    The point of the finger stays on the plane of the object's surface (z of its contact axes) and
    slides in it, as a finger does that the arm moves over a surface with hybrid position and force
    control. The row has a position, so that the contact does not drift off the plane. Its force
    acts where the finger is; wrenches are about the origin of the object's contact frame.

    Parameters
    ----------
    name : str
        Name of the contact.
    finger, object : str or tuple
        Contact frames, as for `Contact`.

    Examples
    --------
    >>> import phipsi as pp
    >>> roller = pp.grasping.Frictionless(name="roller", finger="tip", object=("box", (0.1, 0, 0)))
    >>> [cone.name for cone in roller.cones()]
    ['pressure']
    """

    def closure(self, model: Model) -> Closure:
        """That of a point on a plane."""
        return PointOnPlane(**self._ends()).closure(model)

    def cones(self) -> tuple[Cone, ...]:
        """Pressure."""
        return tuple(_friction(None, None))


@final
@dataclass(frozen=True)
class SlidingFace(Contact):
    """A frictionless face contact, which slides: a normal force and moments across it, 3 rows.

    A face of the object lies on a plane of the finger: sliding in the plane and turning about its
    normal are free.

    Parameters
    ----------
    radius : float, optional
        Radius of the face about the object's contact frame, m, which bounds the centre of pressure.
        Default: not checked.
    name : str
        Name of the contact.
    finger, object : str or tuple
        Contact frames, as for `Contact`.
    """

    radius: float | None = None

    def _check(self) -> None:
        if self.radius is None:
            return
        radius = number_of(self.radius)
        if not (np.isfinite(radius) and radius > 0):
            raise ModelError(
                f"{self._who()}: radius={self.radius!r} must be a finite number of metres above 0, "
                "or None where the centre of pressure is not to be checked."
            )
        fill(self, radius=radius)

    def closure(self, model: Model) -> Closure:
        """That of a planar joint."""
        return Planar(**self._ends()).closure(model)

    def cones(self) -> tuple[Cone, ...]:
        """Pressure, centre of pressure."""
        out = _friction(None, None)
        if self.radius is not None:
            out.append(Cone("centre of pressure", self.radius * _INWARD, np.eye(6)[:2], "N·m"))
        return tuple(out)


def _friction(friction: float | None, torsion: float | None) -> list[Cone]:
    out = [Cone("pressure", _INWARD, np.zeros((0, 6)))]
    if friction is not None:
        rows = _ACROSS
        if torsion is not None:
            rows = np.concatenate([_ACROSS, friction / torsion * _TURN])
        out.append(Cone("friction", friction * _INWARD, rows))
    elif torsion is not None:
        out.append(Cone("torsion", torsion * _INWARD, _TURN, "N·m"))
    return out
