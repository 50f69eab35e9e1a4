"""From a description to the one that is stored: fixed joints welded away, bodies depth first."""

from __future__ import annotations

from dataclasses import replace

from phipsi.core.model.attachments import Weld
from phipsi.core.model.body import Body, Description, Frame
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.pose import Pose
from phipsi.core.model.tree import WORLD, WORLD_NAME, depth_first


def assemble(description: Description) -> Description:
    """Weld bodies without freedom to their parents, then sort depth first. Cost: O(n)."""
    return sort_depth_first(weld(description))


def parent_indices(bodies: tuple[Body, ...]) -> list[int]:
    """Index of each body's parent in the same tuple, −1 for the world."""
    index = {body.name: i for i, body in enumerate(bodies)}
    return [index.get(body.parent, WORLD) for body in bodies]


def sort_depth_first(description: Description) -> Description:
    """Store parents before children, branch by branch, siblings in the order they were added."""
    bodies = description.bodies
    order = depth_first(parent_indices(bodies))
    return replace(description, bodies=tuple(bodies[i] for i in order))


def weld(description: Description) -> Description:
    """Merge every body whose joint has no freedom into the body (or world) it is fixed to.

    Its inertia is added there, bodies, frames and what else is on it move there with placements
    composed, and its name stays as a frame. A flexible body, and a body on a port, moves with the
    modes and stays a body.
    """
    bodies = description.bodies
    if all(body.joint.nv for body in bodies):
        return description
    flexible = {body.name for body in bodies if body.flexible is not None}
    host: dict[str, tuple[str, Pose]] = {WORLD_NAME: (WORLD_NAME, Pose())}
    gained: dict[str, SpatialInertia] = {WORLD_NAME: description.world_inertia}
    kept: dict[str, Body] = {}
    for i in depth_first(parent_indices(bodies)):
        body = bodies[i]
        parent, X_parent = host[body.parent]
        placement = X_parent @ body.placement
        if body.joint.nv == 0 and not {body.name, parent} & flexible:
            host[body.name] = (parent, placement)
            gained[parent] = gained[parent] + body.inertia.transformed(placement)
        else:
            host[body.name] = (body.name, Pose())
            gained[body.name] = body.inertia
            kept[body.name] = replace(body, parent=parent, placement=placement)
    still = {body.joint_name for body in bodies if body.joint.nv == 0}
    welded = [Frame(body.name, *host[body.name]) for body in bodies if body.name not in kept]
    change = Weld(host, still)
    return replace(
        description,
        bodies=tuple(
            replace(kept[body.name], inertia=gained[body.name])
            for body in bodies
            if body.name in kept
        ),
        frames=(*map(change.moved, description.frames), *welded),
        world_inertia=gained[WORLD_NAME],
        attachments=description.attachments.map(lambda x: x.welded(description, change)),
    )
