"""From a graph of bodies and joints to a tree with constraints: which joints are cut, and how.

A spanning tree takes the joints with few degrees of freedom and cuts those with many: a cut joint
of k of them adds 6 − k rows, while its k coordinates leave q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core import constraints as c
from phipsi.core.model import WORLD_NAME, Joint, Model, ModelBuilder, Pose, SpatialInertia, joints
from phipsi.errors import ModelError, did_you_mean, is_a

_Place = tuple[str, Pose]


class Opened(NamedTuple):
    """A graph as a tree: the model, the constraints in place of the joints cut, and a record of it.

    `reversed` are joints of the tree that lead from `b` to `a`; `floating`, bodies that nothing
    joins to the world and that got a free joint.
    """

    model: Model
    constraints: tuple[c.Constraint, ...]
    cut: tuple[str, ...]
    reversed: tuple[str, ...]
    floating: tuple[str, ...]


def open_graph(
    bodies: Mapping[str, SpatialInertia],
    graph_joints: Sequence[c.GraphJoint],
    gravity: ArrayLike = (0, 0, -9.81),
    cut: Iterable[str] = (),
) -> Opened:
    """A spanning tree of the graph, and constraints for the joints outside it.

    The frame of a body is its inboard joint frame, as in every model. Where that is not the frame
    in which the body was given, the latter is the frame "<body>_frame".
    """
    ends = _checked(bodies, graph_joints, cut)
    preferred = set([cut] if isinstance(cut, str) else cut)
    order = sorted(
        range(len(graph_joints)),
        key=lambda i: (
            graph_joints[i].name in preferred,
            _can_be_cut(graph_joints[i].joint),
            graph_joints[i].joint.nv,
        ),
    )
    group = {name: name for name in (*bodies, WORLD_NAME)}

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    inside: set[int] = set()
    for i in order:
        a, b = root(ends[i][0][0]), root(ends[i][1][0])
        if a != b:
            group[b] = a
            inside.add(i)
    return _Opening(bodies, graph_joints, ends, inside, gravity).done()


class _Opening:
    """A graph that becomes a tree: its joints `inside` lead from body to body."""

    def __init__(
        self,
        bodies: Mapping[str, SpatialInertia],
        graph_joints: Sequence[c.GraphJoint],
        ends: list[tuple[tuple[str, Pose], tuple[str, Pose]]],
        inside: set[int],
        gravity: ArrayLike,
    ) -> None:
        self._bodies, self._joints, self._ends, self._inside = bodies, graph_joints, ends, inside
        self._builder = ModelBuilder(gravity)
        self._around: dict[str, list[int]] = {name: [] for name in (*bodies, WORLD_NAME)}
        for i in sorted(inside):
            for name, _ in ends[i]:
                self._around[name].append(i)
        # pose of the body's own frame (that of its inertia) in the frame of the model's body
        self._own: dict[str, Pose] = {WORLD_NAME: Pose()}
        self._turned: list[str] = []

    def done(self) -> Opened:
        """The tree, and constraints for the other joints."""
        self._grow(WORLD_NAME)
        floating: list[str] = []
        for name in self._bodies:
            if name not in self._own:
                floating.append(name)
                self._float(name)
                self._grow(name)
        outside = [i for i in range(len(self._joints)) if i not in self._inside]
        closing = [_constraint(self._joints[i], self._ends[i], self._own) for i in outside]
        return Opened(
            self._builder.build(),
            tuple(x for x in closing if x is not None),
            tuple(self._joints[i].name for i in outside),
            tuple(self._turned),
            tuple(floating),
        )

    def _float(self, body: str) -> None:
        """Give a body that nothing joins to the world a free joint of a new name."""
        name, taken = f"{body}_free", {joint.name for joint in self._joints}
        while name in taken:
            name += "_"
        free = c.GraphJoint(name, joints.Free(), WORLD_NAME, body)
        self._add(body, WORLD_NAME, Pose(), Pose(), free)

    def _grow(self, start: str) -> None:
        """Add all bodies that joints of the tree lead to from a body, nearest first."""
        queue = [start]
        for parent in queue:
            for i in self._around[parent]:
                (a, X_a), (b, X_b) = self._ends[i]
                child, X_parent, X_child = (b, X_a, X_b) if a == parent else (a, X_b, X_a)
                if child in self._own:
                    continue
                joint = self._joints[i]
                if a != parent:
                    self._turned.append(joint.name)
                    joint = _reversed(joint)
                self._add(child, parent, self._own[parent] @ X_parent, X_child, joint)
                queue.append(child)

    def _add(self, name: str, parent: str, placement: Pose, X: Pose, joint: c.GraphJoint) -> None:
        self._own[name] = X.inv
        self._builder.add_body(
            name,
            parent=parent,
            joint=joint.joint,
            placement=placement,
            inertia=self._bodies[name].transformed(X.inv),
            joint_name=joint.name,
            limits=joint.limits,
            armature=joint.armature,
            damping=joint.damping,
        )
        if not X.is_identity:
            self._builder.add_frame(f"{name}_frame", name, X.inv)


def _can_be_cut(joint: Joint) -> bool:
    return isinstance(joint, tuple(AS_CONSTRAINT)) or isinstance(joint, joints.Free)


def _universal(axes: tuple[float, ...], **ends: Any) -> c.Constraint:
    return c.Universal(axes[:3], axes[3:], **ends)


def _planar(axes: tuple[float, ...], **ends: Any) -> c.Constraint:
    return c.Planar(axes[:3], **ends)


def _without_axes(kind: Callable[..., c.Constraint]) -> Callable[..., c.Constraint]:
    def make(axes: tuple[float, ...], **ends: Any) -> c.Constraint:
        return kind(**ends)

    return make


AS_CONSTRAINT: dict[type[Joint], Callable[..., c.Constraint]] = {
    joints.Fixed: _without_axes(c.Weld),
    joints.Revolute: c.Revolute,
    joints.Prismatic: c.Prismatic,
    joints.Cylindrical: c.Cylindrical,
    joints.Universal: _universal,
    joints.Spherical: _without_axes(c.Spherical),
    joints.Planar: _planar,
}


def _constraint(joint: c.GraphJoint, ends: Any, own: Mapping[str, Pose]) -> c.Constraint | None:
    if isinstance(joint.joint, joints.Free):  # allows every motion
        return None
    make = AS_CONSTRAINT.get(type(joint.joint))
    (a, X_a), (b, X_b) = ends
    if make is None:
        raise ModelError(
            f"joint {joint.name!r} ({joint.joint.kind}) between {a!r} and {b!r} closes a loop, and "
            "no joint of that loop has a type that can be a constraint "
            f"({', '.join(sorted(k.__name__ for k in AS_CONSTRAINT))} can). Split it into such "
            "joints with massless bodies between them."
        )
    if joint.limits is not None or np.any(joint.armature) or np.any(joint.damping):
        raise ModelError(
            f"joint {joint.name!r} between {a!r} and {b!r} is cut to open its loop, so it has no "
            f"coordinate for its limits, armature or damping. Cut another joint of the loop:\n"
            f"    pp.System.from_graph(..., cut=['name of the joint to cut'])"
        )
    return make(joint.joint.params, name=joint.name, a=(a, own[a] @ X_a), b=(b, own[b] @ X_b))


def _reversed(joint: c.GraphJoint) -> c.GraphJoint:
    """The joint seen from its other side; single coordinates keep their meaning."""
    if isinstance(joint.joint, joints.Universal):
        limits = None if joint.limits is None else tuple(_swapped(x) for x in joint.limits)
        armature, damping = _swapped(joint.armature), _swapped(joint.damping)
        joint = replace(joint, limits=limits, armature=armature, damping=damping)
        return replace(joint, joint=_other_way(joint.joint), a=joint.b, b=joint.a)
    several = joint.joint.nv > 1 and not isinstance(joint.joint, joints.Cylindrical)
    if several and (joint.limits is not None or np.size(joint.armature) > 1
                    or np.size(joint.damping) > 1):  # fmt: skip
        raise ModelError(
            f"joint {joint.name!r} ({joint.joint.kind}) leads from {joint.a!r} to {joint.b!r}, but "
            f"the tree reaches {joint.b!r} first, and its limits, armature and damping are those "
            f"of the other direction. Give it with a and b swapped."
        )
    return replace(joint, joint=_other_way(joint.joint), a=joint.b, b=joint.a)


def _other_way(joint: Joint) -> Joint:
    p = joint.params
    minus = tuple(-x for x in p[:3])
    if isinstance(joint, joints.Revolute | joints.Prismatic | joints.Cylindrical):
        return type(joint)(minus)
    if isinstance(joint, joints.Helical):
        return joints.Helical(minus, p[3])
    if isinstance(joint, joints.Universal):
        return joints.Universal(tuple(-x for x in p[3:]), minus)
    if isinstance(joint, joints.Composite):
        return joints.Composite([_other_way(part) for part in reversed(joint.joints)])
    return joint  # the inverse of a rotation, a plane motion, … is one again


def _swapped(values: Any) -> Any:
    array = np.asarray(values, dtype=float)
    return array[::-1] if array.ndim else values


def _checked(
    bodies: Mapping[str, SpatialInertia], graph_joints: Sequence[c.GraphJoint], cut: Iterable[str]
) -> list[tuple[tuple[str, Pose], tuple[str, Pose]]]:
    """The ends of every joint, or an error with the unknown name."""
    if not is_a(bodies, Mapping) or WORLD_NAME in bodies:
        raise ModelError(
            "bodies must map names to inertias, without 'world', which is the inertial frame:\n"
            "    {'rod': pp.SpatialInertia(1.0, (0.5, 0, 0), 0.1), …}"
        )
    for name, inertia in bodies.items():
        if not is_a(inertia, SpatialInertia):
            raise ModelError(f"body {name!r}: {inertia!r} is not a pp.SpatialInertia.")
    names = [joint.name for joint in graph_joints]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"two joints are named {name!r}; names must be unique.")
    for name in [cut] if isinstance(cut, str) else cut:
        if name not in names:
            raise ModelError(
                f"cut= names {name!r}, which is not a joint. {did_you_mean(name, names)}"
            )
    out: list[tuple[_Place, _Place]] = []
    for joint in graph_joints:
        pair: list[_Place] = []
        for side in (joint.a, joint.b):
            name, place = (side, Pose()) if isinstance(side, str) else side
            if name not in bodies and name != WORLD_NAME:
                raise ModelError(
                    f"joint {joint.name!r} is on {name!r}, which is not a body of the graph. "
                    + did_you_mean(name, [*bodies, WORLD_NAME])
                )
            pair.append((name, place if isinstance(place, Pose) else Pose(translation=place)))
        if pair[0][0] == pair[1][0]:
            raise ModelError(
                f"joint {joint.name!r} joins {pair[0][0]!r} to itself; it needs two bodies."
            )
        out.append((pair[0], pair[1]))
    return out
