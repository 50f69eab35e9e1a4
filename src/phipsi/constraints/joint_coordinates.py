"""Joints with one coordinate, and its rate as a constant row on the bodies that the joint joins."""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.constraints.constraint import Array, check_rigid_sides
from phipsi.errors import ModelError
from phipsi.model import joints as tree_joints
from phipsi.model.model import Model
from phipsi.model.pose import Pose

_ONE_COORDINATE = (tree_joints.Revolute, tree_joints.Prismatic, tree_joints.Helical)


def one_coordinate(model: Model, name: str, who: str) -> Any:
    """The joint with this name, which must have one coordinate; `who` names the constraint."""
    try:
        view = model.joint(name)
    except ModelError as error:
        raise ModelError(f"{who}: {error}") from error
    if not isinstance(view.joint, _ONE_COORDINATE):
        raise ModelError(
            f"{who}: joint {name!r} is {view.joint.kind} with {view.joint.nv} rates; "
            f"a coupling adds up single coordinates and takes revolute, prismatic and helical "
            f"joints. Split {name!r} into such joints with massless bodies between them."
        )
    check_rigid_sides(model, view.index, who)
    return view


def rate_row(model: Model, view: Any) -> tuple[list[tuple[int, Pose]], Array]:
    """The frames of a joint's body and of its parent, and rows (2, 6) on them: the joint's rate."""
    u = np.array(view.joint.params[:3])
    turns = not isinstance(view.joint, tree_joints.Prismatic)
    motion = np.concatenate([u, np.zeros(3)] if turns else [np.zeros(3), u])
    parent = model.parent[view.index], model.placements[view.index]
    return [(view.index, Pose()), parent], np.array([motion, -motion])
