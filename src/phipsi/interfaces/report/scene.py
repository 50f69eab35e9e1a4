"""The scene of a report: poses over time, solids, floor and camera, as plain data for the page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.kinematics.motions import body_poses
from phipsi.constraints import Constraint
from phipsi.interfaces.report.shapes_and_colors import (
    FOOT,
    PIN,
    SLAB,
    Solid,
    Spans,
    solids_of,
    tips,
)
from phipsi.model import Model
from phipsi.model.closures import Closure
from phipsi.model.shapes import Plane
from phipsi.model.tree import WORLD
from phipsi.simulation.run_phase import Phase
from phipsi.spatial import matrix_to_quat
from phipsi.trajectory.trajectory import Trajectory

Array = NDArray[Any]

_RATE, _TRAIL_RATE = 60, 200  # frames per second
_MOST_NUMBERS = 700_000  # in all poses together
_TRAIL_COLORS = ((1.0, 0.54, 0.24), (0.30, 0.79, 0.94), (0.98, 0.45, 0.72), (0.65, 0.90, 0.35))


def scene(trajectory: Trajectory) -> dict[str, Any]:
    """What the viewer needs; the world is rotated so that z is up."""
    model = trajectory.model
    times = frame_times(trajectory)
    fine = frame_times(trajectory, _TRAIL_RATE)
    up = _upright(model)
    poses = body_poses(model, trajectory.resample(times).q).reshape(len(times), -1, 4, 4)
    R, p = up @ poses[..., :3, :3], poses[..., :3, 3] @ up.T
    closures, passing = _closures(trajectory)
    solids = _there(trajectory, solids_of(model, closures, passing))
    low, high = _extent(solids, R, p, up)
    floor = None
    if np.linalg.norm(model.gravity) > 0:
        floor = float(low[2] - 0.03 * np.linalg.norm(high - low))
    follow, depth = _followed(model, p, high - low), 0.0
    if follow >= 0:  # the camera goes with the base; sizes are those of the mechanism around it
        around = p - p[:, follow : follow + 1]
        depth = float(high[2] - low[2])
        low, high = _extent(solids, R, around, up)
    center, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-3)
    radius = float(np.linalg.norm(half))
    ground, slabs = _planes(trajectory, up, radius)
    floor = ground if ground is not None or slabs else floor
    if floor is not None and not trajectory.has_contacts:
        solids += _pedestals(model, solids, closures, floor, up, radius)
    solids += slabs
    return {
        "bodies": model.n_bodies,
        "times": packed(times),
        "poses": packed(np.concatenate([matrix_to_quat(R), p], axis=-1)),
        "solids": [_plain(solid, up) for solid in solids],
        "trail_times": packed(fine),
        "trails": [
            {"color": list(color), "points": packed(points @ up.T)}
            for points, color in zip(_paths(trajectory, fine), _TRAIL_COLORS, strict=False)
        ],
        "trail_span": float(np.clip(0.35 * (times[-1] - times[0]), 0.05, 2.0)),
        "center": center.tolist(),
        "half": half.tolist(),
        "radius": radius,
        "depth": depth,
        "follow": follow,
        "floor": floor,
        "arrows": _arrows(trajectory, times, up, radius),
        "cell": 10.0 ** np.floor(np.log10(radius)) / 5,
    }


def _planes(trajectory: Trajectory, up: Array, radius: float) -> tuple[float | None, list[Solid]]:
    """The height of a level plane that bodies touch, and inclined ones as slabs."""
    height: float | None = None
    slabs: list[Solid] = []
    pairs = trajectory.contacts.contacts.pairs if trajectory.has_contacts else ()
    planes = {x.name: x for pair in pairs for x in (pair.a, pair.b) if isinstance(x.shape, Plane)}
    for plane in planes.values():
        X = trajectory.model.resolve_point(plane.body)[1] @ plane.placement
        normal = up @ X.rotation[:, 2]
        if normal[2] > 1 - 1e-9:
            height = float((up @ X.translation)[2])
        else:
            thin = 0.004 * radius
            middle = X.translation - thin * X.rotation[:, 2]
            size = (1.2 * radius, 1.2 * radius, thin)
            slabs.append(Solid(WORLD, "box", size, X.rotation, middle, SLAB))
    return height, slabs


def _arrows(
    trajectory: Trajectory, times: Array, up: Array, radius: float
) -> dict[str, Any] | None:
    """Contact forces at frames: where they act, and the arrows, m; and what an arrow of 1 m is."""
    model = trajectory.model
    if not trajectory.has_contacts or not trajectory.contacts.has_forces:
        return None
    record = trajectory.contacts
    body_a, body_b = record.contacts.slot_bodies.T  # numbers among bodies with shapes, −1: world
    forces = np.where(body_a[:, None] >= 0, 1.0, -1.0) * record.forces[..., 3:]
    points = np.where((body_a >= 0)[:, None], record.points.point_a, record.points.point_b)
    acts = np.flatnonzero(np.abs(forces).max(axis=(0, 2)) > 0)
    if not acts.size:
        return None
    frame = np.clip(np.searchsorted(trajectory.t, times), 0, len(trajectory) - 1)
    weight = sum(x.mass for x in model.inertias) * float(np.linalg.norm(model.gravity))
    large = float(np.percentile(np.linalg.norm(forces[1:, acts], axis=-1).max(axis=1), 90))
    unit = max(weight, large) / (0.9 * radius) or 1.0  # N per m of arrow
    arrows = forces[frame][:, acts] @ up.T / unit
    size = np.linalg.norm(arrows, axis=-1, keepdims=True)
    longest = 1.5 * radius
    arrows = arrows * np.minimum(1.0, longest / np.maximum(size, 1e-12))
    return {
        "count": len(acts),
        "points": packed(points[frame][:, acts] @ up.T),
        "arrows": packed(arrows),
        "thick": _rounded(0.012 * radius),
        "unit": _rounded(unit),
    }


def _closures(trajectory: Trajectory) -> tuple[list[Closure], list[tuple[Closure, Spans]]]:
    """Constraints that hold during the whole run, and those that come and go, with their times."""
    if trajectory.system is not None:
        return list(trajectory.system.closures.closures), []
    acting: dict[int, tuple[Constraint, list[Phase]]] = {}
    for phase in trajectory.phases:
        for c in phase.topology.constraints:
            acting.setdefault(id(c), (c, []))[1].append(phase)
    always: list[Closure] = []
    passing: list[tuple[Closure, Spans]] = []
    for c, phases in acting.values():
        closure = c.closure(trajectory.model)
        if len(phases) == len(trajectory.phases):
            always.append(closure)
        else:
            passing.append((closure, _spans(phases)))
    return always, passing


def _there(trajectory: Trajectory, solids: list[Solid]) -> list[Solid]:
    """The solids, those of bodies that are absent for a while with the times at which they show."""
    names, phases = trajectory.model.body_names, trajectory.phases
    ever = frozenset[str]().union(*(p.topology.absent for p in phases))
    out: list[Solid] = []
    for solid in solids:
        if solid.body != WORLD and solid.shown is None and names[solid.body] in ever:
            here = [p for p in phases if names[solid.body] not in p.topology.absent]
            solid = replace(solid, shown=_spans(here))
        out.append(solid)
    return out


def _spans(phases: Sequence[Phase]) -> Spans:
    """Their times; stretches that follow on each other are joined."""
    out: list[tuple[float, float]] = []
    for phase in phases:
        if out and out[-1][1] == phase.t0:
            out[-1] = (out[-1][0], phase.t1)
        else:
            out.append((phase.t0, phase.t1))
    return tuple(out)


def frame_times(trajectory: Trajectory, rate: int = _RATE) -> Array:
    """Even times at so many frames per second, fewer if the page would grow too large."""
    start, end = float(trajectory.t[0]), float(trajectory.t[-1])
    most = max(2, _MOST_NUMBERS // max(7 * trajectory.model.n_bodies, 1))
    count = int(np.clip(np.ceil((end - start) * rate) + 1, 2, most))
    return np.linspace(start, end, count) if end > start else np.array([start])


def _paths(trajectory: Trajectory, times: Array) -> list[Array]:
    """Where the tips are (k, 3), in the model's world."""
    poses = body_poses(trajectory.model, trajectory.resample(times).q).reshape(len(times), -1, 4, 4)
    return [
        poses[:, body, :3, 3] + poses[:, body, :3, :3] @ offset
        for _, body, offset in tips(trajectory.model)
    ]


def packed(values: Array) -> str:
    """Numbers as base64 of little-endian single precision."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def _upright(model: Model) -> Array:
    """The rotation that makes the direction against gravity z; none if there is no gravity."""
    strength = float(np.linalg.norm(model.gravity))
    if strength == 0:
        return np.eye(3)
    z = -np.asarray(model.gravity) / strength
    if z[2] > 1 - 1e-12:
        return np.eye(3)
    x = np.array([1.0, 0, 0]) if abs(z[0]) < 0.9 else np.array([0, 1.0, 0])
    x = x - (x @ z) * z
    x /= np.linalg.norm(x)
    return np.vstack([x, np.cross(z, x), z])


def _extent(solids: list[Solid], R: Array, p: Array, up: Array) -> tuple[Array, Array]:
    """Lowest and highest corner of everything that is drawn, over the whole motion."""
    lows, highs = [np.zeros(3)], [np.zeros(3)]
    if p.size:
        lows, highs = [p.min(axis=(0, 1))], [p.max(axis=(0, 1))]
    for solid in solids:
        reach = max(solid.scale)
        if solid.body == WORLD:
            centers = (up @ solid.position)[None]
        else:
            centers = p[:, solid.body] + R[:, solid.body] @ solid.position
        lows.append(centers.min(axis=0) - reach)
        highs.append(centers.max(axis=0) + reach)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _followed(model: Model, p: Array, whole: Array) -> int:
    """A floating base that travels farther than the mechanism is large, or −1."""
    roots = [i for i in range(model.n_bodies) if model.parent[i] == WORLD]
    if len(roots) != 1 or model.joints[roots[0]].nv < 6:
        return -1
    around = p - p[:, roots]
    size = float(np.linalg.norm(around.max(axis=(0, 1)) - around.min(axis=(0, 1))))
    travel = p[:, roots[0]]
    far = float(np.linalg.norm(travel.max(axis=0) - travel.min(axis=0)))
    return roots[0] if far > max(size, 0.35 * float(np.linalg.norm(whole))) else -1


def _pedestals(
    model: Model,
    solids: list[Solid],
    closures: list[Closure],
    floor: float,
    up: Array,
    radius: float,
) -> list[Solid]:
    """A foot under every joint and pin that holds the mechanism to the world, to the floor."""
    if any(solid.body == WORLD and solid.color != PIN for solid in solids):
        return []
    out: list[Solid] = []
    held = [i for i in range(model.n_bodies) if model.parent[i] == WORLD and model.joints[i].nv < 3]
    places = [(i, np.asarray(model.placements[i].translation)) for i in held]
    for c in closures:
        ends = dict(c.points) if c.matrix is None else {}
        if WORLD in ends and c.linear == "all":
            (body,) = [k for k in ends if k != WORLD]
            places.append((body, np.asarray(ends[WORLD].translation)))
    tops: list[Array] = []
    for n, (body, place) in enumerate(places[:12]):
        top = up @ place
        if any(np.linalg.norm(top - other) < 0.05 * radius for other in tops):
            continue
        tops.append(top)
        height = float(top[2] - floor)
        widths = [min(solid.scale) for solid in solids if solid.body == body]
        thick = max(0.035 * radius, min(0.8 * max(widths, default=0.0), 0.1 * radius))
        thick *= 1.0 if n < len(held) else 0.5  # a thin post, so that what swings past it is seen
        middle = np.array([top[0], top[1], floor + height / 2])
        foot = np.array([top[0], top[1], floor + 0.012 * radius])
        out.append(_standing("cylinder", (thick, thick, height / 2), middle, up))
        out.append(_standing("cylinder", (1.9 * thick, 1.9 * thick, 0.012 * radius), foot, up))
    return out


def _standing(mesh: str, scale: tuple[float, float, float], at: Array, up: Array) -> Solid:
    """A solid given in the rotated world, as one of the model's world."""
    return Solid(WORLD, mesh, scale, up.T, up.T @ at, FOOT)


def _plain(solid: Solid, up: Array) -> dict[str, Any]:
    R, p = np.asarray(solid.rotation), np.asarray(solid.position)
    if solid.body == WORLD:
        R, p = up @ R, up @ p
    shown = {} if solid.shown is None else {"shown": [list(span) for span in solid.shown]}
    return {
        "body": solid.body,
        "mesh": solid.mesh,
        "scale": [_rounded(x) for x in solid.scale],
        "rotation": [_rounded(x) for x in matrix_to_quat(R)],
        "position": [_rounded(x) for x in p],
        "color": [_rounded(x) for x in solid.color],
        **shown,
    }


def _rounded(x: float) -> float:
    return float(f"{x:.6g}")
