"""Task frames: axes in which some directions are controlled in force and others in motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model, PointSet, Pose, as_list, fill
from phipsi.errors import InputError, ModelError, is_whole
from phipsi.support import one_line

Array = NDArray[Any]
COMPONENTS = {"pose": (0, 1, 2, 3, 4, 5), "rotation": (0, 1, 2), "position": (3, 4, 5)}
DIRECTIONS = ("rotation x", "rotation y", "rotation z", "x", "y", "z")


def directions(what: str, given: str | tuple[int, ...], *, empty: bool = False) -> tuple[int, ...]:
    """Increasing indices of [ω; v], from these or from a word; none of them if `empty`."""
    if isinstance(given, str):
        if given in COMPONENTS:
            return COMPONENTS[given]
    else:
        rows = tuple(as_list(what, given, "(3, 4)"))
        whole = all(map(is_whole, rows))
        if whole and (rows or empty) and sorted(set(rows)) == list(rows) and set(rows) <= _ALL:
            return tuple(int(i) for i in rows)
    raise InputError(
        f"{what}={given!r} is not one of {', '.join(map(repr, COMPONENTS))}, nor "
        "increasing indices of [ωx, ωy, ωz, vx, vy, vz]"
    )


_ALL = set(range(6))


@final
@dataclass(frozen=True)
class TaskFrame:
    """Axes at a controlled frame, with its force directions and its motion directions.

    The task of a robot in contact: in some of six directions [rotation; translation] it controls
    the force that it exerts, in others its motion (the selection of hybrid force/position control).
    Directions are along the axes of `base`, which is fixed in the world or in a body, and motions
    are those relative to it. Directions in neither list are free.

    Parameters
    ----------
    frame : str or tuple
        The controlled frame: a body, a frame, or (name, offset in m or `Pose`). Forces act at its
        origin.
    base : str, Pose or tuple, optional
        Whose axes the directions have: "world", a `Pose` in the world, a body or frame, or (name,
        `Pose`), which moves with its body. A contact surface is z = 0 of its base. Default:
        "world".
    force : str or tuple of int, optional
        Directions of force control: indices of [ωx, ωy, ωz, vx, vy, vz], or "pose", "position",
        "rotation". Default: none.
    motion : str or tuple of int, optional
        Directions of motion control. Default: all that are not in `force`.

    Examples
    --------
    >>> import phipsi as pp
    >>> wipe = pp.control.TaskFrame("tool", force=(5,), motion=(3, 4))   # presses along z
    >>> wipe.free
    (0, 1, 2)
    """

    frame: Any
    base: Any = "world"
    force: Any = ()
    motion: Any = None

    def __post_init__(self) -> None:
        force = directions("force", self.force, empty=True)
        rest = tuple(i for i in range(6) if i not in force)
        motion = rest if self.motion is None else directions("motion", self.motion, empty=True)
        both = [i for i in force if i in motion]
        if both:
            named = ", ".join(DIRECTIONS[i] for i in both)
            raise InputError(
                f"force={self.force!r} and motion={self.motion!r} share the direction {named}: "
                "force and motion along one direction cannot both be prescribed. Remove it from "
                "one of the two"
            )
        if not force and not motion:
            raise InputError("a task frame needs a force or a motion direction: force=(5,)")
        fill(self, force=force, motion=motion)

    def __repr__(self) -> str:
        return one_line(self, self.frame, base=self.base, force=self.force, motion=self.motion)

    @property
    def free(self) -> tuple[int, ...]:
        """Directions that are neither force nor motion directions."""
        return tuple(i for i in range(6) if i not in self.force and i not in self.motion)

    @property
    def rows(self) -> tuple[int, ...]:
        """Force and motion directions in increasing order."""
        return tuple(sorted((*self.force, *self.motion)))


class TaskPoints(NamedTuple):
    """The points of tasks: a point for every frame, and for every base that moves.

    Parameters
    ----------
    points : PointSet
        All of them, in world axes.
    frames : tuple of int
        Which is the frame of a task.
    bases : tuple
        Which is its base, or the pose (4, 4) of a base that is fixed in the world.
    """

    points: PointSet
    frames: tuple[int, ...]
    bases: tuple[int | Array, ...]


def task_points(model: Model, tasks: tuple[TaskFrame, ...]) -> TaskPoints:
    """Look up the frames of tasks in a model."""
    names: list[str] = []
    places: list[tuple[int, Pose]] = []
    frames: list[int] = []
    bases: list[int | Array] = []

    def add(name: Any, place: tuple[int, Pose]) -> int:
        names.append(str(name[0] if isinstance(name, tuple) else name))
        places.append(place)
        return len(places) - 1

    for task in tasks:
        body, X = _place(model, task.frame, "frame")
        if body < 0:
            raise InputError(f"{task.frame!r} is fixed in the world: no joint moves it")
        frames.append(add(task.frame, (body, X)))
        base, Y = _place(model, task.base, "base")
        if base == body:
            raise InputError(
                f"frame={task.frame!r} and base={task.base!r} are on the same body "
                f"{model.body_names[body]!r}, so there is no motion between them to control"
            )
        bases.append(Y.matrix if base < 0 else add(task.base, (base, Y)))
    return TaskPoints(PointSet.of_frames(names, places, "world"), tuple(frames), tuple(bases))


def _place(model: Model, given: Any, what: str) -> tuple[int, Pose]:
    """Body (−1: the world) and the pose there."""
    if isinstance(given, Pose):
        return -1, given
    try:
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Pose):
            body, X = (-1, Pose()) if given[0] == "world" else model.resolve_point(given[0])
            return body, X @ given[1]
        if given == "world":
            return -1, Pose()
        if isinstance(given, tuple) and len(given) == 2 and given[0] == "world":
            return -1, Pose(translation=np.asarray(given[1], dtype=float))
        return model.resolve_point(given)
    except (ModelError, TypeError, ValueError) as error:
        raise InputError(f"{what}={given!r} of a task frame: {error}") from error
