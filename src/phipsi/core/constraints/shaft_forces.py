"""What gears and belts do to their shafts besides efforts: forces at the places where they touch.

The rows of a gear or belt relate coordinates, and their multipliers λ load the joints with pure
efforts. Where the geometry is known, so are the forces between teeth, or of a belt on its pulleys,
which make these efforts. Motions do not depend on the difference; reactions of the shafts do.

Reasons: docs/decisions/0061.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import WORLD, Joint, Model, flat_batch

Array = NDArray[Any]


class Transmitted(NamedTuple):
    """Forces between the parts of a machine element, in world axes.

    `bodies` (k), names; `places` (..., k, 3) in m; `forces` (..., k, 3) in N, on these bodies.
    """

    bodies: tuple[str, ...]
    places: Array
    forces: Array


class ShaftForces(ABC):
    """Forces at known places behind rows of a constraint, between bodies on one carrier.

    `row` is the first of its `rows` in the constraint. In them the `bodies` have the efforts
    −Σ λ `shares` (rows, bodies, 6), at their origins in their own axes.
    """

    row: int
    rows: int
    bodies: tuple[int, ...]
    shares: Array

    @abstractmethod
    def pushes(self, f: Array, poses: Array) -> tuple[Sequence[int], Array, Array]:
        """Bodies (k), places (n, k, 3) and forces (n, k, 3) in world axes.

        **Arguments:** `f` (n, rows), multipliers; `poses` (n, bodies of the model, 4, 4).
        """

    def missing(self, f: Array, poses: Array) -> list[Array]:
        """What is to be added to the forces through the joints of `bodies`: (n, 6), body axes."""
        hosts, places, forces = self.pushes(f, poses)
        out: list[Array] = []
        for i, body in enumerate(self.bodies):
            turn, origin = frame_of(poses, body)
            own = [k for k, host in enumerate(hosts) if host == body]
            push = forces[:, own]
            both = np.cross(places[:, own] - origin[:, None], push).sum(1), push.sum(1)
            whole = np.concatenate([np.einsum("nji,nj->ni", turn, x) for x in both], axis=-1)
            out.append(-(whole + f @ self.shares[:, i]))
        return out


def frame_of(poses: Array, body: int) -> tuple[Array, Array]:
    """Rotation (n, 3, 3) and origin (n, 3) of a body, or of the world."""
    if body == WORLD:
        return np.broadcast_to(np.eye(3), (len(poses), 3, 3)), np.zeros((len(poses), 3))
    return poses[:, body, :3, :3], poses[:, body, :3, 3]


def axis_of(model: Model, body: int) -> tuple[Array, Array]:
    """Axis and origin of a joint in the frame of its parent."""
    X = model.placements[body]
    return X.rotation @ np.array(model.joints[body].params[:3]), np.asarray(X.translation)


def row_of(joint: Joint) -> Array:
    """The rate of a joint of one coordinate as a row (6,) on the motion of its body."""
    u = np.array(joint.params[:3])
    return np.concatenate([np.zeros(3), u] if joint.kind == "prismatic" else [u, np.zeros(3)])


def rows_of_shares(model: Model, bodies: Sequence[int], shares: ArrayLike) -> Array:
    """Rows (rows, bodies, 6) on the motions of bodies, from shares (rows, bodies) of rates."""
    rates = np.array([row_of(model.joints[k]) for k in bodies])
    return np.asarray(shares)[..., None] * rates


def transmitted_by(
    found: Sequence[ShaftForces], model: Model, first: int, poses: Array, f: Array
) -> Transmitted:
    """The forces of an element whose first row in the system is `first`, for any batch."""
    batch = np.broadcast_shapes(poses.shape[:-3], f.shape[:-1])
    X, flat = flat_batch(poses, batch, 3), flat_batch(f, batch)
    hosts: list[int] = []
    places: list[Array] = []
    forces: list[Array] = []
    for x in found:
        at = first + x.row
        more, where, pushes = x.pushes(flat[:, at : at + x.rows], X)
        hosts += more
        places.append(where)
        forces.append(pushes)
    names = tuple(model.body_names[k] for k in hosts)
    both = (np.concatenate(y, axis=1).reshape(*batch, len(hosts), 3) for y in (places, forces))
    return Transmitted(names, *both)
