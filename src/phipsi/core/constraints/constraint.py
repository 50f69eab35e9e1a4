"""The interface of every constraint, and the reading of its ends, joints and numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.constraints.shaft_forces import row_of
from phipsi.core.model import (
    Closure,
    FlexibleHinge,
    JointView,
    Model,
    Pose,
    as_floats,
    as_list,
    joints as tree_joints,
)
from phipsi.errors import InputError, ModelError

Array = NDArray[Any]
End = str | tuple[str, Pose | ArrayLike]


class Constraint(ABC):
    """The interface of every constraint: its `name`, and its rows on a model."""

    name: str
    clock: str | None = None
    """The joint whose coordinate is the time, for constraints that are functions of time."""

    @abstractmethod
    def closure(self, model: Model) -> Closure:
        """The rows, with names looked up in the model."""

    def __repr__(self) -> str:
        return f"<{self._who()}>"

    def _who(self) -> str:
        """What errors call it."""
        return f"{type(self).__name__} {self.name!r}"

    def prescribed(self, rows: int) -> Array:
        """The prescribed rates of the rows (rows,): zero, except for `Rows`."""
        return np.zeros(rows)

    def steady_joint(self) -> str | None:
        """The joint that it moves at a constant rate, as a motor does."""
        return None

    def coordinates(self, model: Model) -> tuple[tuple[Array, float], ...]:
        """For rows on coordinates: coefficients (nq,) and offset of each residual c* q − offset."""
        return ()

    def shaft_forces(self, model: Model) -> tuple[Any, ...]:
        """The `ShaftForces` behind its rows, where it is a gear or belt of known geometry."""
        return ()

    @property
    def kind_name(self) -> str:
        """What it is, for texts: the name of its public class."""
        return type(self).__name__

    def sides(self) -> tuple[End, ...]:
        """The two ends, if it is a joint between two."""
        return ()

    def fitted(self, model: Model, q: Array) -> Constraint | None:
        """The same constraint with constants such that it holds at q; None if ends must move."""
        return None

    def with_locked(
        self, model: Model, locked: Mapping[str, ArrayLike], before: Model
    ) -> Constraint | None:
        """The same constraint with joints locked; None if it constrains nothing any more.

        Parameters
        ----------
        model : Model
            The model without the locked joints.
        locked : mapping of str to array_like
            The coordinates of each locked joint.
        before : Model
            The model with them.

        Returns
        -------
        Constraint or None
            The constraint on the reduced model.
        """
        hosts = {end_of(model, side, "end", repr(self.name))[0] for side in self.sides()}
        return None if len(hosts) == 1 else self


def check_name(name: Any, kind: str) -> None:
    """Reject names that are not a text."""
    if not isinstance(name, str) or not name:
        raise ModelError(
            f"{kind}: name={name!r} must be a non-empty string; reports and errors name the "
            "constraint by it."
        )


def is_placed(end: End | list[Any]) -> TypeGuard[tuple[str, Any]]:
    """Whether an end is a name with a place."""
    return isinstance(end, tuple | list) and len(end) == 2 and isinstance(end[0], str)


def end_of(model: Model, end: Any, side: str, who: str) -> tuple[int, Pose]:
    """Body (−1: world) of an end, and the pose of the joint frame in it."""
    if isinstance(end, str):
        return resolved_point(model, end, f"{who}: {side}")
    if not is_placed(end):
        raise ModelError(
            f"{who}: {side}={end!r} must be a body, a frame or 'world', alone or with its place "
            f"there:\n    {side}=('rod', (1, 0, 0))      an offset in m\n"
            f"    {side}=('rod', pp.Pose(R, (1, 0, 0)))"
        )
    name, place = end
    if not isinstance(place, Pose):
        return resolved_point(model, (name, place), f"{who}: {side}")
    body, X = resolved_point(model, name, f"{who}: {side}")
    return body, X @ place


def resolved_point(model: Model, point: Any, who: str) -> tuple[int, Pose]:
    """`resolve_point`, with errors that name the constraint."""
    try:
        return model.resolve_point(point)
    except (ModelError, InputError) as error:
        raise ModelError(f"{who}: {error}") from error


def check_rigid_sides(model: Model, k: int, who: str) -> None:
    """Raise a ModelError if the joint of body k is on a flexible body, or on a port of one."""
    hinge = model.joints[k]
    if not isinstance(hinge, FlexibleHinge) or not (hinge.modes or hinge.port_modes):
        return
    fix = "builder.add_body('hub', joint=…)     # the flexible body is welded to it"
    if hinge.port is not None:
        parent = model.body_names[model.parent[k]]
        fix = f"builder.add_frame('mount', {parent!r}, port=…)     # the joint's parent"
    raise ModelError(
        f"{who}: joint {model.joint_names[k]!r} is on a flexible body, and a coupling holds "
        f"between rigid ones. Put a body without mass between them:\n    {fix}"
    )


def names_of(given: Any, what: str, example: str = "('left', 'right')") -> tuple[str, ...]:
    """Names of joints, one or several."""
    names = tuple(as_list(what, given, example))
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"{what} must be names of joints, and {name!r} is none.")
    return names


def numbers_of(values: Any, what: str) -> Array:
    """Real numbers as a new array."""
    try:
        return np.array(as_floats(what, values))
    except InputError as error:
        raise ModelError(f"{what} must be real numbers, not {values!r}.") from error


# ---- joints with one coordinate ------------------------------------------------------------------


_ONE_COORDINATE = (tree_joints.Revolute, tree_joints.Prismatic, tree_joints.Helical)


def one_coordinate(model: Model, name: str, who: str) -> JointView:
    """The joint with this name, which must have one coordinate; `who` names the constraint."""
    try:
        view = model.joint(name)
    except ModelError as error:
        raise ModelError(f"{who}: {error}") from error
    if not isinstance(view.joint, _ONE_COORDINATE):
        raise ModelError(
            f"{who}: joint {name!r} is {view.joint.kind} with {view.joint.nv} degrees of freedom; "
            "a coupling relates single coordinates and takes revolute, prismatic and helical "
            f"joints. Split {name!r} into such joints with massless bodies between them."
        )
    check_rigid_sides(model, view.index, who)
    return view


def rate_row(model: Model, view: JointView) -> tuple[list[tuple[int, Pose]], Array]:
    """The frames of a joint's body and of its parent, and rows (2, 6) on them: the joint's rate."""
    motion = row_of(view.joint)
    parent = model.parent[view.index], model.placements[view.index]
    return [(view.index, Pose()), parent], np.array([motion, -motion])
