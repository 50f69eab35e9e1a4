"""The scene: what a page draws of a mechanism, and how a run moves it, as plain data."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.kinematics.motions import body_poses
from phipsi.constraints import Constraint
from phipsi.errors import InputError, PhipsiError, shown
from phipsi.interfaces.page.meshes import Meshes, read_meshes
from phipsi.interfaces.page.shapes_and_colors import (
    FOOT,
    PIN,
    SLAB,
    Color,
    Solid,
    Spans,
    linear,
    meshes_of,
    solids_of,
    tips,
)
from phipsi.model import Model, joints
from phipsi.model.closures import Closure
from phipsi.model.mechanisms import of_mechanisms
from phipsi.model.scalars import NUMPY_OPS
from phipsi.model.shapes import Plane
from phipsi.model.tree import WORLD
from phipsi.simulation.run_phase import Phase
from phipsi.spatial import matrix_to_quat
from phipsi.trajectory.trajectory import Trajectory

Array = NDArray[Any]

_RATE, _TRAIL_RATE = 60, 200  # frames per second
_MOST_NUMBERS = 700_000  # in all poses together
_TRAIL_COLORS = ((1.0, 0.54, 0.24), (0.30, 0.79, 0.94), (0.98, 0.45, 0.72), (0.65, 0.90, 0.35))


@of_mechanisms
def scene_description(
    mechanism: Model,
    *,
    meshes: bool = True,
    colors: Mapping[str, Sequence[float]] | None = None,
    q: ArrayLike | None = None,
) -> dict[str, Any]:
    """What a page draws of a mechanism, as plain data for `PhipsiScene` in assets/scene.js.

    Everything is in axes of the body it is fixed in, or of the model's world (body −1), in SI
    units; only `center`, `half`, `floor` are in the upright axes that `up` turns the world to.
    Names are as the model has them: the page shows them as text.

    **Arguments:** `mechanism`, a model or a system with loops and contacts; `meshes`, whether the
    meshes of its file are drawn; `colors`, by name of body, red, green, blue from 0 to 1; `q`
    (..., nq), configurations that shall fit into the view, by default the neutral or assembled one.
    **Returns:** a dictionary that `json.dumps` accepts. `notices` lists what could not be drawn.
    **Cost:** a few milliseconds, and the reading of meshes.

    >>> import phipsi as pp
    >>> arm = scene_description(pp.examples.planar_arm(2))
    >>> [body["name"] for body in arm["bodies"]], arm["bodies"][1]["joint"]["kind"]
    (['link1', 'link2'], 'revolute')
    """
    closures = list(mechanism.closures.closures) if mechanism.n_rows else []
    pairs = () if mechanism.contact_pairs is None else mechanism.contact_pairs.pairs
    if q is None:
        q = mechanism.neutral()
        if mechanism.n_rows:
            q = _assembled(mechanism, q)
    what = _Drawn(mechanism.model, closures, pairs=pairs, meshes=meshes, colors=colors or {})
    return what.description(np.asarray(q, dtype=float).reshape(-1, mechanism.nq))


def recorded_scene(trajectory: Trajectory) -> dict[str, Any]:
    """The scene of a run: the description, and poses, paths and forces over time."""
    model = trajectory.model
    times = frame_times(trajectory)
    fine = frame_times(trajectory, _TRAIL_RATE)
    closures, passing = _closures(trajectory)
    pairs = trajectory.contacts.contacts.pairs if trajectory.has_contacts else ()
    what = _Drawn(model, closures, passing, pairs, trajectory.phases, trajectory.has_contacts)
    q = trajectory.resample(times).q
    X = body_poses(model, q).reshape(len(times), -1, 4, 4)
    description = what.description(q)
    poses = np.concatenate([matrix_to_quat(X[..., :3, :3]), X[..., :3, 3]], axis=-1)
    paths = zip(_paths(trajectory, fine), _TRAIL_COLORS, strict=False)
    return {
        **description,
        "times": packed(times),
        "poses": packed(poses),
        "trail_times": packed(fine),
        "trails": [
            {"name": name, "color": list(color), "points": packed(points)}
            for (name, points), color in paths
        ],
        "trail_span": float(np.clip(0.35 * (times[-1] - times[0]), 0.05, 2.0)),
        "arrows": _contact_arrows(trajectory, times, description["radius"]),
    }


@dataclass
class _Drawn:
    """A mechanism with everything that decides how it looks."""

    model: Model
    closures: list[Closure]
    passing: Sequence[tuple[Closure, Spans]] = ()
    pairs: Sequence[Any] = ()
    phases: Sequence[Phase] = ()
    has_contacts: bool | None = None
    meshes: bool = True
    colors: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def description(self, q: Array) -> dict[str, Any]:
        """The scene, such that all configurations (k, nq) fit into the view."""
        model, up = self.model, upright(self.model)
        poses = body_poses(model, q).reshape(len(q), -1, 4, 4)
        R, p = up @ poses[..., :3, :3], poses[..., :3, 3] @ up.T
        meshes = read_meshes(meshes_of(model)) if self.meshes else Meshes()
        solids = solids_of(model, self.closures, self.passing, meshes.bodies)
        solids = self._colored(_there(model, self.phases, solids))
        boxes = [*solids, *(part.bounds for part in meshes.parts)]
        low, high = _extent(boxes, R, p, up)
        floor = None
        if np.linalg.norm(model.gravity) > 0:
            foot = _extent([x for x in boxes if x.body == WORLD and x.color != PIN], R, p[:0], up)
            stands = foot[0][2] <= low[2]  # what is fixed to the world is the lowest of all
            floor = float(low[2] - (0.0 if stands else 0.03) * np.linalg.norm(high - low))
        follow, depth = _followed(model, p, high - low), 0.0
        if follow >= 0:  # the camera goes with the base; sizes are those of the mechanism around it
            around = p - p[:, follow : follow + 1]
            depth = float(high[2] - low[2])
            low, high = _extent(boxes, R, around, up)
        center, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-3)
        radius = float(np.linalg.norm(half))
        ground, slabs = _planes(model, self.pairs, up, radius)
        floor = ground if ground is not None or slabs else floor
        touches = bool(self.pairs) if self.has_contacts is None else self.has_contacts
        if floor is not None and not touches:
            solids += _pedestals(model, boxes, self.closures, floor, up, radius)
        weight = sum(x.mass for x in model.inertias) * float(np.linalg.norm(model.gravity))
        return {
            "name": model.name,
            "up": _rounded_list(matrix_to_quat(up)),
            "bodies": [_body(model, k) for k in range(model.n_bodies)],
            "solids": [_plain(solid) for solid in solids + slabs],
            "meshes": list(meshes.packed),
            "parts": self._parts(meshes),
            "loops": [_loop(c, None) for c in self.closures if c.matrix is None]
            + [_loop(c, when) for c, when in self.passing if c.matrix is None],
            "frames": [
                {"name": name, "body": at, **_placed(X.rotation, X.translation)}
                for name, (at, X) in model.frames.items()
            ],
            "center": center.tolist(),
            "half": half.tolist(),
            "radius": radius,
            "depth": depth,
            "follow": follow,
            "floor": floor,
            "cell": 10.0 ** np.floor(np.log10(radius)) / 5,
            "arrow_unit": _rounded(weight / (0.9 * radius) or 1.0),
            "notices": list(meshes.notices),
        }

    def _colored(self, solids: list[Solid]) -> list[Solid]:
        """The solids, those of bodies with a given colour in that."""
        unknown = set(self.colors) - set(self.model.body_names)
        if unknown:
            raise InputError(
                f"colors has {shown(sorted(unknown)[0])}, which is not a body of this mechanism; "
                f"its bodies are {shown(', '.join(self.model.body_names[:12]), 300)}"
            )
        chosen = self._chosen()
        return [replace(s, color=chosen.get(s.body, s.color)) for s in solids]

    def _chosen(self) -> dict[int, Color]:
        return {self.model.body_index(name): linear(tuple(c)) for name, c in self.colors.items()}

    def _parts(self, meshes: Meshes) -> list[dict[str, Any]]:
        """The parts of meshes, in given colours, and when they are there."""
        chosen = self._chosen()
        out: list[dict[str, Any]] = []
        for part in meshes.parts:
            plain = replace(part, color=chosen.get(part.body, part.color)).plain()
            (box,) = _there(self.model, self.phases, [part.bounds])
            out.append(plain if box.shown is None else {**plain, "shown": _lists(box.shown)})
        return out


def first_configuration(mechanism: Any) -> Array:
    """The neutral configuration (nq,), of a system one nearby at which its loops are closed."""
    q = mechanism.neutral()
    return mechanism.assemble(q, restarts=20) if mechanism.n_rows else q


def _assembled(system: Any, q: Array) -> Array:
    """A configuration with closed loops, or the given one where none is found."""
    try:
        return system.assemble(q)
    except PhipsiError:
        return q


def _body(model: Model, k: int) -> dict[str, Any]:
    """A body for its facts and overlays: mass, mass centre, the ellipsoid of its inertia, joint."""
    inertia, joint = model.inertias[k], model.joints[k]
    moments, R = np.linalg.eigh(np.asarray(inertia.moment_about_com_B, dtype=float))
    R = R * np.sign(np.linalg.det(R))
    squares = (
        2.5 * (moments.sum() - 2 * moments) / inertia.mass if inertia.mass > 0 else 0 * moments
    )
    return {
        "name": model.body_names[k],
        "parent": int(model.parent[k]),
        "mass": _rounded(inertia.mass),
        "com": _rounded_list(inertia.com_B),
        "ellipsoid": _rounded_list(np.sqrt(np.maximum(squares, 0.0))),
        "principal": _rounded_list(matrix_to_quat(R)),
        "joint": {"name": model.joint_names[k], "kind": joint.kind, "axes": _axes(joint)},
    }


def _axes(joint: joints.Joint) -> list[dict[str, Any]]:
    """The axes of a joint with at most three rates, in body axes at its neutral position."""
    if joint.nv > 3 or joint.kind == "spherical":
        return []
    q = joint.neutral().tolist()
    H = np.asarray(joint.hinge_axes(joint.params, q, NUMPY_OPS), dtype=float).reshape(6, joint.nv)
    out: list[dict[str, Any]] = []
    for column in H.T:
        turns = bool(np.abs(column[:3]).max() > 1e-12)
        direction = column[:3] if turns else column[3:]
        length = float(np.linalg.norm(direction))
        if length > 0:
            out.append({"axis": _rounded_list(direction / length), "turns": turns})
    return out


def _loop(closure: Closure, when: Spans | None) -> dict[str, Any]:
    """A constraint between two frames: where its ends are."""
    shown_at = {} if when is None else {"shown": _lists(when)}
    return {
        "name": closure.name,
        "ends": [
            {"body": body, "position": _rounded_list(X.translation)} for body, X in closure.points
        ],
        **shown_at,
    }


def _planes(
    model: Model, pairs: Sequence[Any], up: Array, radius: float
) -> tuple[float | None, list[Solid]]:
    """The height of a level plane that bodies touch, and inclined ones as slabs."""
    height: float | None = None
    slabs: list[Solid] = []
    planes = {x.name: x for pair in pairs for x in (pair.a, pair.b) if isinstance(x.shape, Plane)}
    for plane in planes.values():
        X = model.resolve_point(plane.body)[1] @ plane.placement
        normal = up @ X.rotation[:, 2]
        if normal[2] > 1 - 1e-9:
            height = float((up @ X.translation)[2])
        else:
            thin = 0.004 * radius
            middle = X.translation - thin * X.rotation[:, 2]
            size = (1.2 * radius, 1.2 * radius, thin)
            slabs.append(Solid(WORLD, "box", size, X.rotation, middle, SLAB))
    return height, slabs


def _contact_arrows(trajectory: Trajectory, times: Array, radius: float) -> list[dict[str, Any]]:
    """Contact forces at frames: where they act, the forces, N; and what an arrow of 1 m is, N."""
    model = trajectory.model
    if not trajectory.has_contacts or not trajectory.contacts.has_forces:
        return []
    record = trajectory.contacts
    body_a, body_b = record.contacts.slot_bodies.T  # numbers among bodies with shapes, −1: world
    forces = np.where(body_a[:, None] >= 0, 1.0, -1.0) * record.forces[..., 3:]
    points = np.where((body_a >= 0)[:, None], record.points.point_a, record.points.point_b)
    acts = np.flatnonzero(np.abs(forces).max(axis=(0, 2)) > 0)
    if not acts.size:
        return []
    frame = np.clip(np.searchsorted(trajectory.t, times), 0, len(trajectory) - 1)
    weight = sum(x.mass for x in model.inertias) * float(np.linalg.norm(model.gravity))
    large = float(np.percentile(np.linalg.norm(forces[1:, acts], axis=-1).max(axis=1), 90))
    unit = max(weight, large) / (0.9 * radius) or 1.0  # N per m of arrow
    return [
        {
            "kind": "contact",
            "count": len(acts),
            "labels": [record.names[i] for i in acts],
            "points": packed(points[frame][:, acts]),
            "forces": packed(forces[frame][:, acts]),
            "unit": _rounded(unit),
        }
    ]


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


def _there(model: Model, phases: Sequence[Phase], solids: list[Solid]) -> list[Solid]:
    """The solids, those of bodies that are absent for a while with the times at which they show."""
    names = model.body_names
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


def _paths(trajectory: Trajectory, times: Array) -> list[tuple[str, Array]]:
    """Where the tips are, by name (k, 3), in the model's world."""
    poses = body_poses(trajectory.model, trajectory.resample(times).q).reshape(len(times), -1, 4, 4)
    return [
        (name, poses[:, body, :3, 3] + poses[:, body, :3, :3] @ offset)
        for name, body, offset in tips(trajectory.model)
    ]


def packed(values: Array) -> str:
    """Numbers as base64 of little-endian single precision."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def upright(model: Model) -> Array:
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
    lows, highs = ([np.zeros(3)], [np.zeros(3)]) if not solids else ([], [])
    if p.size:
        lows, highs = [p.min(axis=(0, 1))], [p.max(axis=(0, 1))]
    for solid in solids:
        if solid.body == WORLD:
            turn, centers = (up @ solid.rotation)[None], (up @ solid.position)[None]
        else:
            turn = R[:, solid.body] @ solid.rotation
            centers = p[:, solid.body] + R[:, solid.body] @ solid.position
        reach = np.abs(turn) @ solid.scale
        lows.append((centers - reach).min(axis=0))
        highs.append((centers + reach).max(axis=0))
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


def _lists(spans: Spans) -> list[list[float]]:
    return [list(span) for span in spans]


def _plain(solid: Solid) -> dict[str, Any]:
    shown_at = {} if solid.shown is None else {"shown": _lists(solid.shown)}
    return {
        "body": solid.body,
        "mesh": solid.mesh,
        "scale": _rounded_list(solid.scale),
        **_placed(solid.rotation, solid.position),
        "color": _rounded_list(solid.color),
        **shown_at,
    }


def _placed(rotation: ArrayLike, position: ArrayLike) -> dict[str, Any]:
    """A pose as a quaternion [w x y z] and a position."""
    turn = matrix_to_quat(np.asarray(rotation, dtype=float))
    return {"rotation": _rounded_list(turn), "position": _rounded_list(position)}


def _rounded(x: float) -> float:
    return float(f"{x:.6g}")


def _rounded_list(values: ArrayLike) -> list[float]:
    return [_rounded(x) for x in np.asarray(values, dtype=float).tolist()]
