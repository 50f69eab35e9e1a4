"""What a mechanism looks like: solids fixed in its bodies, from the file or from its inertias.

Shapes of the file are used where they are boxes, spheres, cylinders, capsules or ellipsoids. A body
without such a shape, or with spheres for contact alone, is drawn as slim bars from its joint to
those of its children and to its tips, with a hub at the joint; a mass at the end of a bar is a
sphere. A body that turns about an axis of symmetry is a wheel; a floating base, and a body that
leads nowhere, is the box that has its inertia, or a disc if that is flat and symmetric. Constraints
of a system show where they hold their bodies: a pin along the axis, or a ball; bars lead to them as
they lead to joints. Meshes are read by meshes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import LinkShape, as_file_shape
from phipsi.core.model import (
    WORLD,
    Closure,
    FlexibleHinge,
    Model,
    Picture,
    Pose,
    SpatialInertia,
    joints,
)

Array = NDArray[Any]
Color = tuple[float, float, float]
Spans = tuple[tuple[float, float], ...]
"""Stretches of time, from and to, s."""

LINK: Color = (0.80, 0.83, 0.88)
BAR: Color = (0.56, 0.61, 0.70)
HUB: Color = (0.085, 0.10, 0.135)
RING: Color = (1.0, 0.36, 0.07)
BODY: Color = (0.34, 0.46, 0.66)
FOOT: Color = (0.10, 0.12, 0.16)
PIN: Color = (0.03, 0.42, 0.36)
RAIL: Color = (0.30, 0.33, 0.38)
SLAB: Color = (0.10, 0.13, 0.19)
_PRIMITIVES = ("box", "sphere", "cylinder", "capsule", "ellipsoid")
_FLAT = 1.2  # its moment of inertia about the axis over those across, of a disc
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
    bars = {s.body for s in out if s.color in (BAR, HUB)}
    width = _bar_radius(size, size)
    widths = {s.body: min(s.scale) for s in out if s.mesh == "cylinder"}
    widths |= {k: width for k in bars}
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
    """The mean of the lengths of bars, each counted by its length: short ones say little."""
    placed = [p for p, k in zip(model.placements, model.parent, strict=True) if k != WORLD]
    lengths = [float(np.linalg.norm(p.translation)) for p in placed]
    lengths += [float(np.linalg.norm(pose.translation)) for _, pose in model.frames.values()]
    lengths += [float(np.linalg.norm(x.com_B)) for x in model.inertias]
    lengths = [x for x in lengths if x > _SHORT]
    if not lengths:  # bodies without a length of their own: how far they are from each other
        apart = [float(np.linalg.norm(p.translation)) for p in model.placements]
        return float(np.median([x for x in apart if x > _SHORT] or [0.3]))
    mean = float(np.square(lengths).sum() / np.sum(lengths))
    return float(np.clip(0.4 * _longest_path(model), mean, 2 * mean))  # long chains are far away


def _longest_path(model: Model) -> float:
    """From a root to the mass centre at the end of a branch, m."""
    along = np.zeros(model.n_bodies)
    for k, parent in enumerate(model.parent):
        if parent != WORLD:
            step = np.linalg.norm(model.placements[k].translation)
            along[k] = along[parent] + float(step)
    ends = [float(np.linalg.norm(x.com_B)) for x in model.inertias]
    return float(np.max(along + ends, initial=0.0))


def _skeleton(model: Model, body: int, size: float, held: list[Array]) -> Iterator[DrawnSolid]:
    floats = model.parent[body] == WORLD and given_joint(model.joints[body]).nv >= 3
    if floats:
        solids = _disc(body, model.inertias[body]) or [_inertia_box(model, body, size)]
        yield from solids
        box = solids[0]
        for end in _ends(model, body, held, tips=False):  # joints that it does not reach
            if np.any(np.abs(box.rotation.T @ (end - box.position)) > 1.05 * np.array(box.scale)):
                yield _rod(body, box.position, end, _bar_radius(size, float(np.linalg.norm(end))))
        return
    ends = _ends(model, body, held)
    if not ends:
        solids = _wheel(model, body) or _disc(body, model.inertias[body])
        yield from solids or [_inertia_box(model, body, size)]
        return
    radii = [_bar_radius(size, float(np.linalg.norm(end))) for end in ends]
    axes = [_axis(model, body)] + [
        a if (a := _axis(model, k)) is None else model.placements[k].rotation @ a
        for k, parent in enumerate(model.parent)
        if parent == body
    ]
    for end, radius in zip(ends, radii, strict=True):
        yield from _bar(body, end, radius, axes)
    yield from _mass(model, body, ends, max(radii))
    yield from _hub(model, body, ends, max(radii), size)


def _ends(model: Model, body: int, held: list[Array], *, tips: bool = True) -> list[Array]:
    """Where a body leads to: its children's joints and where constraints hold it.

    If there are none, its frames, else the end of the rod that has its mass and inertia.
    """
    children = [i for i, parent in enumerate(model.parent) if parent == body]
    points = [model.placements[i].translation for i in children] + held
    if not points and tips:
        points = [pose.translation for at, pose in model.frames.values() if at == body]
    points = [p for p in points if np.linalg.norm(p) > _SHORT]
    if not points and not children and tips:
        points = _rod_end(model, body)
    distinct: list[Array] = []
    for p in points:
        if all(np.linalg.norm(p - other) > _SHORT for other in distinct):
            distinct.append(p)
    return distinct


def _rod_end(model: Model, body: int) -> list[Array]:
    """The far end of the uniform rod with this inertia, at most as far behind the mass centre.

    A point mass has none behind it: the bar ends there.
    """
    inertia = model.inertias[body]
    com, apart = inertia.com_B, float(np.linalg.norm(inertia.com_B))
    if apart <= _SHORT:
        return []
    if inertia.mass <= 0:
        return [com]
    moment = float(np.max(np.linalg.eigvalsh(inertia.moment_about_com_B)))
    half = np.sqrt(3 * max(moment, 0.0) / inertia.mass)  # a rod of length 2 half: m half² / 3
    return [com * (1 + min(half / apart, 1.0))]


def _bar_radius(size: float, length: float) -> float:
    """Of a bar, m: about the same in the whole mechanism, less where it is short."""
    return float(min(np.clip(0.07 * length, 0.045 * size, 0.055 * size), 0.3 * length))


def _axis(model: Model, body: int) -> Array | None:
    """The axis about which a body turns, in its axes; None if there is not just one."""
    joint = given_joint(model.joints[body])
    if not isinstance(joint, joints.Revolute | joints.Helical | joints.Cylindrical):
        return None
    return np.asarray(joint.params[:3])


def _rod(body: int, start: Array, end: Array, radius: float) -> DrawnSolid:
    along = end - start
    half = float(np.linalg.norm(along)) / 2
    R = z_along(along)
    return DrawnSolid(body, "cylinder", (radius, radius, half), R, (start + end) / 2, BAR)


def _bar(
    body: int, end: Array, radius: float, axes: Sequence[Array | None]
) -> Iterator[DrawnSolid]:
    """From the origin to an end: flat with round eyes where all axes are across it, else a rod."""
    length = float(np.linalg.norm(end))
    axis = axes[0]
    flat = axis is not None and abs(float(axis @ end)) < 1e-6 * length
    flat = flat and all(a is not None and abs(float(a @ axis)) > 1 - 1e-9 for a in axes)
    if not flat or axis is None:
        yield _rod(body, np.zeros(3), end, radius)
        yield DrawnSolid(body, "sphere", _ball(radius), position=end, color=BAR)
        return
    u = end / length
    R = np.stack([u, np.cross(axis, u), axis], axis=-1)
    wide, thick = 0.85 * radius, 0.55 * radius
    yield DrawnSolid(body, "box", (length / 2, wide, thick), R, end / 2, BAR)
    for place in (np.zeros(3), end):
        eye = (1.6 * radius, 1.6 * radius, 1.01 * thick)
        yield DrawnSolid(body, "cylinder", eye, z_along(axis), place, BAR)


def _mass(model: Model, body: int, ends: list[Array], radius: float) -> Iterator[DrawnSolid]:
    """A sphere where a mass is concentrated at the end of the only bar."""
    inertia = model.inertias[body]
    if len(ends) != 1 or inertia.mass <= 0:
        return
    far = float(np.linalg.norm(ends[0]))
    if float(np.linalg.norm(inertia.com_B - ends[0])) > 0.25 * far:
        return
    moment = max(float(np.max(np.linalg.eigvalsh(inertia.moment_about_com_B))), 0.0)
    of_same_inertia = float(np.sqrt(2.5 * moment / inertia.mass))
    ball = float(np.clip(of_same_inertia, 2.6 * radius, max(0.3 * far, 2.6 * radius)))
    yield DrawnSolid(body, "sphere", _ball(ball), position=inertia.com_B, color=BODY)


def _hub(
    model: Model, body: int, ends: list[Array], radius: float, size: float
) -> Iterator[DrawnSolid]:
    joint = given_joint(model.joints[body])
    if isinstance(joint, joints.Prismatic):
        yield from _slider(model, body, np.asarray(joint.params[:3]), radius, size)
        return
    axis = _axis(model, body)
    if axis is None:
        yield DrawnSolid(body, "sphere", _ball(1.7 * radius), color=HUB)
        return
    R = z_along(axis)
    along = max(abs(float(axis @ (end / np.linalg.norm(end)))) for end in ends)
    if along > 0.8:  # turns about the bar: a collar
        collar = (1.8 * radius, 1.8 * radius, 0.7 * radius)
        yield DrawnSolid(body, "cylinder", collar, R, color=RING)
        return
    pin = (1.15 * radius, 1.15 * radius, 1.25 * radius)
    yield DrawnSolid(body, "cylinder", pin, R, color=HUB)
    for side in (-1, 1):
        cap = (0.7 * radius, 0.7 * radius, 0.06 * radius)
        yield DrawnSolid(body, "cylinder", cap, R, side * 1.3 * radius * axis, RING)


def _slider(
    model: Model, body: int, axis: Array, radius: float, size: float
) -> Iterator[DrawnSolid]:
    """A block on the body, and the rail along which it slides, on what carries it."""
    block = (1.8 * radius, 1.8 * radius, 2.6 * radius)
    yield DrawnSolid(body, "box", block, z_along(axis), color=HUB)
    X, at = model.placements[body], model.q_slices[body].start
    low, high = float(model.lower[at]), float(model.upper[at])
    if not (np.isfinite(high - low) and high > low):
        low, high = -size, size
    more = 2.6 * radius
    start, end = ((X.translation + X.rotation @ axis * x) for x in (low - more, high + more))
    rail = _rod(model.parent[body], start, end, 0.6 * radius)
    yield replace(rail, color=RAIL)


def _wheel(model: Model, body: int) -> list[DrawnSolid]:
    """The cylinder that has the inertia of a body that turns about its axis of symmetry."""
    axis, inertia = _axis(model, body), model.inertias[body]
    if axis is None:
        return []
    out = _cylinder(body, inertia, axis)
    off = float(np.linalg.norm(np.cross(axis, inertia.com_B)))
    return out if out and off <= 1e-6 * out[0].scale[0] else []


def _disc(body: int, inertia: SpatialInertia) -> list[DrawnSolid]:
    """The cylinder that has the inertia of a flat body with an axis of symmetry; empty for others.

    Long ones may be boxes, such as trunks, as well as cylinders.
    """
    moments, axes = np.linalg.eigh(inertia.moment_about_com_B)
    if moments[2] < _FLAT * moments[1]:
        return []
    axis = axes[:, 2]
    return _cylinder(body, inertia, axis * np.sign(axis[np.argmax(np.abs(axis))]))


def _cylinder(body: int, inertia: SpatialInertia, axis: Array) -> list[DrawnSolid]:
    """The cylinder along an axis that has an inertia; empty if none has it.

    A dark hub and a spoke on its faces show how it turns.
    """
    if inertia.mass <= 0:
        return []
    J, R = inertia.moment_about_com_B, z_along(axis)
    inside = R.T @ J @ R
    polar, cross = float(inside[2, 2]), 0.5 * float(inside[0, 0] + inside[1, 1])
    uneven = np.abs(inside - np.diag([cross, cross, polar])).max()
    radius = float(np.sqrt(max(2 * polar / inertia.mass, 0.0)))
    if polar <= 0 or uneven > 1e-6 * max(polar, cross):
        return []
    squared = 12 * cross / inertia.mass - 3 * radius**2
    half = float(np.clip(np.sqrt(max(squared, 0.0)) / 2, 0.05 * radius, None))
    com = inertia.com_B
    out = [DrawnSolid(body, "cylinder", (radius, radius, half), R, com, BODY)]
    hub = (0.22 * radius, 0.22 * radius, half + 0.04 * radius)
    out.append(DrawnSolid(body, "cylinder", hub, R, com, HUB))
    spoke = (0.36 * radius, 0.05 * radius, half + 0.015 * radius)
    out.append(DrawnSolid(body, "box", spoke, R, com + 0.5 * radius * R[:, 0], HUB))
    return out


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
