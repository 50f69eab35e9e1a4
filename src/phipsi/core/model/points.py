"""Points fixed in bodies, where motions are picked off and forces applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from phipsi.core.model.names import Point
from phipsi.core.model.pose import Pose
from phipsi.errors import InputError, ModelError, is_a, one_of

AXES = ("world", "body", "spatial")
# What Pinocchio calls them, for the error of those who know its names.
_PINOCCHIO = {"LOCAL_WORLD_ALIGNED": "world", "LOCAL": "body", "WORLD": "spatial"}


@dataclass(frozen=True, eq=False)
class PointSet:
    """Points of a model, resolved to bodies.

    `body[i]` is the body of point i (−1: the world, which does not move), `offset[i]` its position
    from the body's origin in body axes (m), `rotation[i]` the axes of the frame it was named by, in
    body axes. `axes` says in which axes and about which point motions and forces are given: "world"
    (at the point, world axes), "body" (at the point, axes of the named body or frame), "spatial"
    (at the world origin, world axes). `closures` is the `ClosureSet` whose frames
    they are, or None.
    """

    names: tuple[str, ...]
    body: tuple[int, ...]
    rotation: np.ndarray
    offset: np.ndarray
    axes: str = "world"
    closures: Any = None

    @staticmethod
    def of_frames(names: Iterable[str], frames: Sequence[tuple[int, Pose]], axes: str) -> PointSet:
        """The origins of frames, each given by its body and its pose there."""
        return PointSet(
            names=tuple(names),
            body=tuple(int(body) for body, _ in frames),
            rotation=np.array([pose.rotation for _, pose in frames]).reshape(-1, 3, 3),
            offset=np.array([pose.translation for _, pose in frames]).reshape(-1, 3),
            axes=axes,
        )

    def __len__(self) -> int:
        return len(self.body)

    @property
    def key(self) -> tuple[object, ...]:
        """The contents as one hashable value."""
        numbers = (self.rotation.tobytes(), self.offset.tobytes())
        rows = None if self.closures is None else self.closures.key
        return (self.names, self.body, self.axes, rows, *numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointSet) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _is_one_point(points: Sequence[Any]) -> bool:
    """True for "hand" and for ("hand", offset), which are points and no lists of them."""
    if isinstance(points, str):
        return True
    if not isinstance(points, tuple) or len(points) != 2 or not isinstance(points[0], str):
        return False
    second = points[1]
    named = isinstance(second, str)
    return not named and not (isinstance(second, tuple) and second and isinstance(second[0], str))


ANY_POINTS = PointSet((), (), np.zeros((0, 3, 3)), np.zeros((0, 3)))
"""Stands for points that are not known yet; for explaining expressions without a model."""


def checked_axes(axes: str) -> str:
    """One of the three ways to give motions and forces of points."""
    theirs = _PINOCCHIO.get(str(axes).upper())
    hint = f"Pinocchio's {str(axes).upper()} is axes={theirs!r}" if theirs else ""
    return one_of("axes", axes, AXES, hint)


class _PointResolver(Protocol):
    """An object that knows its bodies and frames by name: a model."""

    def resolve_point(self, point: Point) -> tuple[int, Pose]: ...


def point_set(
    model: _PointResolver, points: Sequence[Any] | PointSet | None, axes: str | None = None
) -> PointSet:
    """Resolve ``[(body_or_frame, offset), …]`` or ``[body_or_frame, …]``; None means no points.

    `axes` is "world" where nothing is said.
    """
    if axes is not None:
        checked_axes(axes)
    if isinstance(points, PointSet):
        if axes not in (None, points.axes):
            raise InputError(f"axes={axes!r}, but the points are given with axes={points.axes!r}")
        return points
    if points is not None and (not is_a(points, Sequence) or _is_one_point(points)):
        raise ModelError(f"points must be a list, also for one point: points=[{points!r}]")
    for p in points or ():
        if not isinstance(p, str) and not (is_a(p, Sequence) and len(p) and isinstance(p[0], str)):
            raise ModelError(
                f"points={points!r}: a point is the name of a body or frame, or (name, offset) "
                "with three numbers in m:  points=[('hand', (0, 0, 0.1))]"
            )
    names = [p if isinstance(p, str) else str(p[0]) for p in points or ()]
    frames = [model.resolve_point(p) for p in points or ()]
    return PointSet.of_frames(names, frames, axes or "world")
