"""What a mechanism looks like: solids fixed in its bodies, from the file or from its inertias.

Shapes of the file are used where they are boxes, spheres, cylinders, capsules or ellipsoids. A body
without such a shape, or with balls to touch with alone, gets capsules from its joint to those of
its children, as thick as its inertia says, and a hub at the joint; a floating base and a body that
leads nowhere get the box that has their inertia. Constraints of a system show where they hold their
bodies: a pin along the axis, or a ball; links lead to them as they lead to joints. Meshes are read
by meshes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import LinkShape, as_file_shape
from phipsi.core.model import WORLD, Closure, FlexibleHinge, Model, Picture, Pose, joints

Array = NDArray[Any]
Color = tuple[float, float, float]
Spans = tuple[tuple[float, float], ...]
"""Stretches of time, from and to, s."""

LINK: Color = (0.80, 0.83, 0.88)
HUB: Color = (0.085, 0.10, 0.135)
RING: Color = (1.0, 0.36, 0.07)
BODY: Color = (0.34, 0.46, 0.66)
FOOT: Color = (0.10, 0.12, 0.16)
PIN: Color = (0.03, 0.42, 0.36)
SLAB: Color = (0.10, 0.13, 0.19)
_PRIMITIVES = ("box", "sphere", "cylinder", "capsule", "ellipsoid")
_SHORT = 1e-6  # m; nearer points are the same


@final
@dataclass(frozen=True)
class DrawnSolid:
    """A box, sphere or cylinder (along z) of half size `scale`, fixed in a body (−1: the world).

    `shown`, when it is there; None: always.
    """

    body: int
    mesh: str
    scale: tuple[float, float, float]
    rotation: Array = field(default_factory=lambda: np.eye(3))
    position: Array = field(default_factory=lambda: np.zeros(3))
    color: Color = LINK
    shown: Spans | None = None


def solids_of(
    model: Model,
    closures: Sequence[Closure] = (),
    at_times: Sequence[tuple[Closure, Spans]] = (),
    meshed: frozenset[int] = frozenset(),
) -> list[DrawnSolid]:
    """Everything to draw that belongs to the mechanism, with the constraints between its bodies.

    `closures` hold always, and links lead to them; those of `at_times` come and go. Bodies of
    `meshed` are drawn by meshes: only their other visual shapes are here.
    """
    drawn = _shapes_by_body(model, meshed)
    size = _typical_length(model)
    between = [c for c in closures if c.matrix is None]
    held: dict[int, list[Array]] = {}
    for closure in between:
        for body, X in closure.points:
            held.setdefault(body, []).append(X.translation)
    out: list[DrawnSolid] = []
    for body in range(WORLD, model.n_bodies):
        for shape, X in drawn.get(body, ()):
            out += _of_shape(body, shape, X)
        is_bare = all(_is_foot(*x) for x in drawn.get(body, ()))
        if is_bare and body != WORLD and body not in meshed:
            out += _skeleton(model, body, size, held.get(body, []))
    widths = {s.body: min(s.scale) for s in out if s.mesh == "cylinder"}
    for picture in (x for found in model.description.attachments for x in found.pictures()):
        body, X = model.resolve_point(picture.body)
        out += _of_shape(body, picture, X @ picture.placement)
    passing = [(c, when) for c, when in at_times if c.matrix is None]
    for closure, when in [*((c, None) for c in between), *passing]:
        width = max((widths.get(k, 0.0) for k, _ in closure.points), default=0)
        out += _pin(closure, width, size, when)
    return out


def reach_of(solids: Sequence[DrawnSolid], direction: Array) -> float:
    """How far solids of one body reach from its origin along a unit vector in it, m; 0 or more."""
    found = [0.0]
    for x in solids:
        along = np.asarray(direction) @ x.rotation * x.scale
        size = np.abs(along).sum() if x.mesh == "box" else np.linalg.norm(along)
        if x.mesh == "cylinder":
            size = np.hypot(along[0], along[1]) + abs(along[2])
        found.append(float(np.asarray(direction) @ x.position + size))
    return max(found)


def _pin(closure: Closure, width: float, size: float, when: Spans | None) -> Iterator[DrawnSolid]:
    """Where a constraint holds its bodies: at one end, or at both if these may be apart."""
    radius = max(1.25 * width, 0.07 * size)
    apart = closure.linear in ("none", "z", "distance") or closure.linear == "xy"
    for body, X in closure.points if apart else closure.points[:1]:
        R, p = X.rotation, X.translation
        if closure.angular == "axis":
            thick = (0.8 * radius, 0.8 * radius, 1.3 * radius)
            yield DrawnSolid(body, "cylinder", thick, R, p, PIN, when)
        else:
            yield DrawnSolid(body, "sphere", _ball(radius), R, p, PIN, when)


def given_joint(joint: joints.Joint) -> joints.Joint:
    """The joint without the modes of the bodies that it joins."""
    return joint.joint if isinstance(joint, FlexibleHinge) else joint


def tips(
    model: Model, most: int = 4, hidden: frozenset[int] = frozenset()
) -> list[tuple[str, int, Array]]:
    """Points worth following: (name, body, offset) at the ends of the branches."""
    out: list[tuple[str, int, Array]] = []
    for body in range(model.n_bodies):
        if body in model.parent or body in hidden:
            continue
        ends = [(name, pose.translation) for name, (at, pose) in model.frames.items() if at == body]
        com = model.inertias[body].com_B
        name, offset = max(
            ends, key=lambda e: float(np.linalg.norm(e[1])), default=(model.body_names[body], com)
        )
        out.append((name, body, np.asarray(offset)))
    return out[:most]


# ---- shapes of the file and of contacts -------------------------------------------------------


def _shapes_by_body(
    model: Model, meshed: frozenset[int]
) -> dict[int, list[tuple[LinkShape, Pose]]]:
    """Primitive shapes by the body they move with; collision shapes where nothing else is."""
    found: dict[str, dict[int, list[tuple[LinkShape, Pose]]]] = {"visual": {}, "collision": {}}
    for shape in (*model.geometry, *map(as_file_shape, model.shapes)):
        if shape.kind in _PRIMITIVES and shape.role in found:
            body, X = model.resolve_point(shape.link)
            found[shape.role].setdefault(body, []).append((shape, X @ shape.placement))
    collision = {k: v for k, v in found["collision"].items() if k not in meshed}
    return {**collision, **found["visual"]}


def meshes_of(model: Model) -> list[tuple[int, LinkShape, Pose]]:
    """The meshes to draw: visual ones, and those for contact where a body has nothing visual."""
    found: list[tuple[int, LinkShape, Pose]] = []
    visible: set[int] = set()
    for shape in model.geometry:
        body, X = model.resolve_point(shape.link)
        if shape.role == "visual":
            visible.add(body)
        if shape.kind == "mesh" and shape.role in ("visual", "collision"):
            found.append((body, shape, X @ shape.placement))
    return [x for x in found if x[1].role == "visual" or x[0] not in visible]


def _is_foot(shape: LinkShape, X: Pose) -> bool:
    """Whether a shape is a ball to touch with, away from the middle of its body."""
    away = float(np.linalg.norm(X.translation))
    return (shape.kind, shape.role) == ("sphere", "collision") and away > shape.size[0]


def _of_shape(body: int, shape: LinkShape | Picture, X: Pose) -> Iterator[DrawnSolid]:
    R, p, size = X.rotation, X.translation, shape.size
    color = linear(shape.color) if len(shape.color) >= 3 else LINK
    if shape.kind == "box":
        yield DrawnSolid(body, "box", _half(*size), R, p, color)
    elif shape.kind == "sphere":
        yield DrawnSolid(body, "sphere", _ball(size[0]), R, p, color)
    elif shape.kind == "ellipsoid":
        yield DrawnSolid(body, "sphere", (size[0], size[1], size[2]), R, p, color)
    else:
        radius, length = size
        yield DrawnSolid(body, "cylinder", (radius, radius, length / 2), R, p, color)
        if shape.kind == "capsule":
            for end in (-length / 2, length / 2):
                yield DrawnSolid(body, "sphere", _ball(radius), R, p + R[:, 2] * end, color)


def _ball(radius: float) -> tuple[float, float, float]:
    return (radius, radius, radius)


def _half(x: float, y: float, z: float) -> tuple[float, float, float]:
    return (x / 2, y / 2, z / 2)


def linear(color: tuple[float, ...]) -> Color:
    """A colour as screens have it, as light; pure black would show no shape."""
    r, g, b = (max(float(np.clip(c, 0, 1)) ** 2.2, 0.012) for c in color[:3])
    return (r, g, b)


# ---- bodies without a shape ---------------------------------------------------------------------


def _typical_length(model: Model) -> float:
    lengths = [float(np.linalg.norm(p.translation)) for p in model.placements]
    lengths += [float(np.linalg.norm(pose.translation)) for _, pose in model.frames.values()]
    lengths = [x for x in lengths if x > _SHORT]
    return float(np.median(lengths)) if lengths else 0.3


def _skeleton(model: Model, body: int, size: float, held: list[Array]) -> Iterator[DrawnSolid]:
    floats = model.parent[body] == WORLD and given_joint(model.joints[body]).nv >= 3
    ends = [] if floats else _ends(model, body, held)
    if not ends:
        yield _inertia_box(model, body, size)
        return
    radii = [_radius(model, body, end, size) for end in ends]
    for end, radius in zip(ends, radii, strict=True):
        yield from _capsule(body, end, radius)
    yield from _hub(model, body, ends, radii)


def _ends(model: Model, body: int, held: list[Array]) -> list[Array]:
    """Where a body leads to: its children's joints and where constraints hold it.

    If there are none, its frames, else twice its mass centre.
    """
    children = [i for i, parent in enumerate(model.parent) if parent == body]
    points = [model.placements[i].translation for i in children] + held
    if not points:
        points = [pose.translation for at, pose in model.frames.values() if at == body]
    points = [p for p in points if np.linalg.norm(p) > _SHORT]
    if not points and not children:
        com = 2 * model.inertias[body].com_B
        points = [com] if np.linalg.norm(com) > _SHORT else []
    distinct: list[Array] = []
    for p in points:
        if all(np.linalg.norm(p - other) > _SHORT for other in distinct):
            distinct.append(p)
    return distinct


def _radius(model: Model, body: int, end: Array, size: float) -> float:
    """Of the solid cylinder along the link with the body's inertia, within what looks right."""
    length = float(np.linalg.norm(end))
    inertia = model.inertias[body]
    thick = 0.0
    if inertia.mass > 0:
        u = end / length
        moment = max(float(u @ inertia.moment_about_com_B @ u), 0.0)
        thick = float(np.sqrt(2 * moment / inertia.mass))
    return float(np.clip(thick, 0.07 * max(length, 0.5 * size), max(0.48 * length, 0.07 * size)))


def _capsule(body: int, end: Array, radius: float) -> Iterator[DrawnSolid]:
    length = float(np.linalg.norm(end))
    R = z_along(end)
    waist = 0.86 * radius
    yield DrawnSolid(body, "cylinder", (waist, waist, length / 2), R, end / 2)
    yield DrawnSolid(body, "sphere", _ball(waist), R, end)


def _hub(model: Model, body: int, ends: list[Array], radii: list[float]) -> Iterator[DrawnSolid]:
    radius = max(radii)
    joint = given_joint(model.joints[body])
    if not isinstance(joint, joints.Revolute | joints.Helical | joints.Cylindrical):
        yield DrawnSolid(body, "sphere", _ball(1.08 * radius), color=HUB)
        return
    axis = np.asarray(joint.params[:3])
    R = z_along(axis)
    along = max(abs(float(axis @ (end / np.linalg.norm(end)))) for end in ends)
    if along > 0.8:  # turns about the link: a collar
        yield DrawnSolid(
            body, "cylinder", (1.04 * radius, 1.04 * radius, 0.16 * radius), R, color=RING
        )
        return
    yield DrawnSolid(body, "cylinder", (1.06 * radius, 1.06 * radius, 1.12 * radius), R, color=HUB)
    for side in (-1, 1):
        cap = (0.62 * radius, 0.62 * radius, 0.05 * radius)
        yield DrawnSolid(body, "cylinder", cap, R, side * 1.15 * radius * axis, RING)


def _inertia_box(model: Model, body: int, size: float) -> DrawnSolid:
    """The solid box that has the body's mass and moments, in its principal axes."""
    inertia = model.inertias[body]
    half = np.full(3, 0.12 * size)
    R = np.eye(3)
    if inertia.mass > 0:
        J = inertia.moment_about_com_B
        diagonal = np.abs(J - np.diag(np.diag(J))).max() <= 1e-9 * max(np.abs(J).max(), 1e-300)
        moments, R = (np.diag(J), np.eye(3)) if diagonal else np.linalg.eigh(J)
        R = R * np.sign(np.linalg.det(R))
        squares = 6 * (moments.sum() / 2 - moments) * 2 / inertia.mass
        half = np.maximum(np.sqrt(np.maximum(squares, 0)) / 2, 0.02 * size)
    x, y, z = half.tolist()
    return DrawnSolid(body, "box", (x, y, z), R, inertia.com_B, BODY)


def z_along(u: Array) -> Array:
    """A rotation whose third column points along u."""
    z = u / np.linalg.norm(u)
    x = np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=-1)
