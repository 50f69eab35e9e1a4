"""The scene: what a page draws of a mechanism, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import gravity_forces, motions, search
from phipsi.attached import Plane
from phipsi.core.model import WORLD, Closure, FlexibleInertia, Model, joints, supports
from phipsi.core.spatial import ARRAYS, matrix_to_quat
from phipsi.errors import InputError, PhipsiError, shown, true_or_false
from phipsi.pages.deformed_shapes import (
    deformed_bodies,
    deformed_boxes,
    drawn_bodies,
    joint_entries,
    modal_slice,
    ports_of,
)
from phipsi.pages.html_file import rounded, rounded_list
from phipsi.pages.live_modes import modal_reach
from phipsi.pages.machine_elements import MachineElement, MachinePart, parts_of, with_machines
from phipsi.pages.machine_parts import hidden_bodies, machines_of
from phipsi.pages.meshes import Meshes, read_meshes
from phipsi.pages.plane_view import looks_along, plane_normal
from phipsi.pages.shapes_and_colors import (
    FOOT,
    LINK,
    PIN,
    RAIL,
    SLAB,
    Color,
    DrawnSolid,
    Spans,
    given_joint,
    linear,
    meshes_of,
    solids_of,
    z_along,
)

Array = NDArray[Any]
_FARTHEST = 4.0  # times the reach of its slider that a mode may sag
_SOME = 12  # configurations that show how far a mechanism reaches
_SWEPT, _MOST_SWEPT = 9, 40  # values of one coordinate; coordinates, those of the root first


@supports(loops=True, flexible=True, rotors=True)
def scene_description(
    mechanism: Model,
    *,
    meshes: bool = True,
    colors: Mapping[str, Sequence[float]] | None = None,
    q: ArrayLike | None = None,
    forces: Sequence[Any] = (),
) -> dict[str, Any]:
    """What a page draws of a mechanism, as plain data for `PhipsiScene` in assets/scene.js.

    Everything is in axes of the body it is fixed in, or of the model's world (body −1), in SI
    units; only `center`, `half`, `floor` are in the upright axes that `up` turns the world to.
    Names are as the model has them: the page shows them as text.

    **Arguments:** `mechanism`, a model or a system with loops and contacts; `meshes`, whether the
    meshes of its file are drawn; `colors`, by name of body, red, green, blue from 0 to 1; `q`
    (..., nq), configurations that shall fit into the view, by default the neutral or assembled one;
    `forces`, elements that act, of which elastic couplings are drawn.
    **Returns:** a dictionary that `json.dumps` accepts. `notices` lists what could not be drawn.
    **Cost:** a few milliseconds, and the reading of meshes.

    >>> import phipsi as pp
    >>> arm = scene_description(pp.examples.planar_arm(2))
    >>> [body["name"] for body in arm["bodies"]], arm["bodies"][1]["joint"]["kind"]
    (['link1', 'link2'], 'revolute')
    """
    meshes = true_or_false("meshes", meshes)
    closures = list(mechanism.closures.closures) if mechanism.n_rows else []
    pairs = () if mechanism.contact_pairs is None else mechanism.contact_pairs.pairs
    if q is None:
        q = _assembled(mechanism)
    what = Drawing(mechanism.model, closures, pairs=pairs, meshes=meshes, colors=colors or {})
    what.constraints, what.forces = mechanism.constraints, forces
    return what.description(np.asarray(q, dtype=float).reshape(-1, mechanism.nq))


@dataclass
class Drawing:
    """A mechanism with everything that decides how it looks.

    `closures` hold always; those of `passing` come and go, and so do machine elements among the
    constraints of `engaged`. `pairs` are shapes that may touch,
    `has_contacts` whether it is on the ground; `present`, by body, the times at which it is there.
    """

    model: Model
    closures: list[Closure]
    passing: Sequence[tuple[Closure, Spans]] = ()
    pairs: Sequence[Any] = ()
    present: Mapping[str, Spans] = field(default_factory=dict)
    has_contacts: bool | None = None
    meshes: bool = True
    colors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    constraints: Sequence[Any] = ()
    engaged: Sequence[tuple[Any, Spans]] = ()
    forces: Sequence[Any] = ()

    def description(self, q: Array) -> dict[str, Any]:
        """The scene, such that all configurations (k, nq) fit into the view."""
        model, up = self.model, upright(self.model)
        poses = motions.poses(model, q)
        R, p = up @ poses[..., :3, :3], poses[..., :3, 3] @ up.T
        hidden = hidden_bodies(model, self.constraints)
        seen = [k for k in range(model.n_bodies) if k not in hidden]
        p[:, list(hidden)] = p[:, seen[:1]]  # they take no room
        meshes = read_meshes(meshes_of(model)) if self.meshes else Meshes()
        whole = meshes.bodies | drawn_bodies(model)
        machines = self._machines()
        numbered = list(parts_of(machines))
        made = [x for _, x in numbered]
        of_files = [part.bounds for part in meshes.parts]
        meshes = with_machines(meshes, made)
        inner = {*model.parent}  # bodies that carry others keep their own shape
        wheels = {x.body for i, x in numbered if not x.beside and machines[i].shown is None}
        whole |= wheels - inner - {WORLD}
        whole |= {k for x in machines for k in x.drawn if x.shown is None}
        whole |= hidden
        solids = solids_of(model, self.closures, self.passing, whole)
        solids = self._finished(solids)
        boxes = [*solids, *(part.bounds for part in meshes.parts), *deformed_boxes(model, q)]
        boxes += [
            DrawnSolid(k, "box", (1e-6, 1e-6, 1e-6), np.eye(3), place, PIN)
            for x in machines
            for k, place in x.ends
        ]
        view = _view(model, boxes, R, p, up)
        radius, normal = view.radius, plane_normal(model, hidden)
        look = looks_along(normal, up, view.half)
        ground, slabs = _planes(model, self.pairs, up, radius)
        floor = ground if ground is not None or slabs else view.floor
        touches = bool(self.pairs) if self.has_contacts is None else self.has_contacts
        if floor is not None and not touches:
            # machines stand without feet, which would hide them
            still = boxes if WORLD in wheels else [*solids, *of_files]
            behind = np.zeros(3) if look is None or normal is None else -(up @ normal)
            no_feet = wheels | hidden
            solids += _pedestals(model, still, self.closures, floor, up, radius, no_feet, behind)
        weight = sum(x.mass for x in model.inertias) * float(np.linalg.norm(model.gravity))
        return {
            "name": model.name,
            "up": rounded_list(matrix_to_quat(up)),
            "bodies": [_body(model, k, k in hidden) for k in range(model.n_bodies)],
            "solids": [_plain(solid) for solid in solids + slabs],
            "meshes": list(meshes.packed),
            "parts": self._parts(meshes, dict(enumerate(numbered, len(of_files))), machines),
            "flexible": [self._deformed(x) for x in deformed_bodies(model)],
            "ports": ports_of(model),
            "loops": [*self._loops(), *map(_machine_label, machines)],
            "machines": [_machine(model, x) for x in machines],
            "frames": _frames(model),
            "center": view.center.tolist(),
            "half": view.half.tolist(),
            "radius": radius,
            "depth": view.depth,
            "follow": view.follow,
            "look": None if look is None else rounded_list(look),
            "floor": floor,
            "cell": 10.0 ** np.floor(np.log10(radius)) / 5,
            "arrow_unit": rounded(weight / (0.9 * radius) or 1.0),
            "notices": list(meshes.notices),
        }

    def _loops(self) -> list[dict[str, Any]]:
        """Closures, and the times of those that come and go."""
        all_times = [*((c, None) for c in self.closures), *self.passing]
        return [_loop(c, when) for c, when in all_times if c.matrix is None]

    def _machines(self) -> list[MachineElement]:
        """Machine elements that are always there, then those that come and go."""
        out = machines_of(self.model, self.constraints, self.forces)
        for one, when in self.engaged:
            for x in machines_of(self.model, [one]):
                x.shown = when
                out.append(x)
        return out

    def _finished(self, solids: list[DrawnSolid]) -> list[DrawnSolid]:
        """The solids in given colours, with the times at which they are there."""
        unknown = set(self.colors) - set(self.model.body_names)
        if unknown:
            raise InputError(
                f"colors has {shown(sorted(unknown)[0])}, which is not a body of this mechanism; "
                f"its bodies are {shown(', '.join(self.model.body_names[:12]), 300)}"
            )
        chosen = self._chosen()
        return [
            replace(s, color=chosen.get(s.body, s.color), shown=s.shown or self._when(s.body))
            for s in solids
        ]

    def _when(self, body: int) -> Spans | None:
        return None if body == WORLD else self.present.get(self.model.body_names[body])

    def _chosen(self) -> dict[int, Color]:
        return {self.model.body_index(name): linear(tuple(c)) for name, c in self.colors.items()}

    def _deformed(self, plain: dict[str, Any]) -> dict[str, Any]:
        """A body with modes, in its given colour, and when it is there."""
        body = plain["body"]
        color = rounded_list(self._chosen().get(body, LINK))
        return {**plain, "color": color, **_shown_at(self._when(body))}

    def _parts(
        self,
        meshes: Meshes,
        made: Mapping[int, tuple[int, MachinePart]],
        machines: Sequence[MachineElement],
    ) -> list[dict[str, Any]]:
        """The parts of meshes, in given colours, and when they are there; of which machine."""
        chosen = self._chosen()
        out: list[dict[str, Any]] = []
        for i, part in enumerate(meshes.parts):
            plain = replace(part, color=chosen.get(part.body, part.color)).plain()
            if i in made:
                plain["machine"], coil = made[i][0], made[i][1].coil
                plain |= _shown_at(machines[made[i][0]].shown)
                plain |= {} if coil is None else {"coil": coil._asdict()}
            out.append(plain | _shown_at(self._when(part.body)))
        return out


class _CameraView(NamedTuple):
    """What the camera looks at: the middle and half the edges of a box, m, and the floor below.

    `follow`, the body that the camera goes with, or −1, and then `depth`, m, all that it passes.
    """

    center: Array
    half: Array
    floor: float | None
    follow: int
    depth: float

    @property
    def radius(self) -> float:
        """Of the ball around the box, m."""
        return float(np.linalg.norm(self.half))


def _view(model: Model, boxes: list[DrawnSolid], R: Array, p: Array, up: Array) -> _CameraView:
    """The view in which boxes on bodies with rotations R and positions p (k, n, …) fit."""
    low, high = _extent(boxes, R, p, up)
    floor = None
    if np.linalg.norm(model.gravity) > 0:
        fixed = [x for x in boxes if x.body == WORLD and x.color not in (PIN, RAIL)]
        floor = _floor(low, high, _extent(fixed, R, p[:0], up)[0])
    follow, depth = _followed(model, p, high - low), 0.0
    if follow >= 0:  # the camera goes with the base; sizes are those of the mechanism around it
        around = p - p[:, follow : follow + 1]
        depth = float(high[2] - low[2])
        low, high = _extent(boxes, R, around, up)
    return _CameraView((low + high) / 2, np.maximum((high - low) / 2, 1e-3), floor, follow, depth)


def first_configuration(mechanism: Any) -> Array:
    """The neutral configuration (nq,), of a system one nearby at which its loops are closed.

    Bodies that deform are undeformed: to close loops, modes would give way before joints do.
    """
    q = mechanism.neutral()
    if not mechanism.n_rows:
        return q
    if not mechanism.is_flexible:
        return mechanism.assemble(q, restarts=20)
    q[joint_entries(mechanism.model)] = first_configuration(mechanism.with_rigid_bodies())
    return q


def scene_of_any_motion(
    mechanism: Any, q: Array, *, meshes: bool = True, forces: Sequence[Any] = ()
) -> dict[str, Any]:
    """The scene of a mechanism that starts at q (nq,) and may move anywhere from there.

    The view and the floor are for all that it reaches; the camera goes with a base that floats.
    """
    model = mechanism.model
    scene = scene_description(mechanism, meshes=meshes, q=_reach(mechanism, q), forces=forces)
    roots = model.tree.roots
    if len(roots) == 1 and model.joints[roots[0]].nv == 6 and scene["follow"] < 0:
        place = upright(model) @ motions.poses(model, q)[roots[0], :3, 3]
        scene["follow"], scene["center"] = roots[0], (np.array(scene["center"]) - place).tolist()
    return scene


def _reach(mechanism: Any, q: Array) -> Array:
    """A configuration (nq,) and others that shall fit into the view: joints that limits allow."""
    model = mechanism.model
    some = np.vstack([q, model.random_configuration(0, (_SOME,))])
    if not mechanism.n_rows:  # joints alone too: an arm that is stretched reaches farthest
        low = np.where(np.isfinite(model.lower), model.lower, some.min(axis=0))
        high = np.where(np.isfinite(model.upper), model.upper, some.max(axis=0))
        some = np.vstack([some, *(
            np.where(np.arange(model.nq) == i, np.linspace(low, high, _SWEPT), start)
            for start in (q, model.neutral()) for i in range(min(model.nq, _MOST_SWEPT))
        )])  # fmt: skip
    for joint, at in zip(model.joints, model.q_slices, strict=True):
        if not joint.is_additive:  # a base that floats stays where it is
            some[:, at] = q[at]
    if mechanism.n_rows:
        found, closed = search(mechanism.rows, some, tolerance=1e-6, max_iterations=50)
        some = np.vstack([q, found[closed]])
    return np.vstack([some, *_bent(model, q)])


def _bent(model: Model, q: Array) -> list[Array]:
    """Configurations (nq,) with bodies bent as far as a slider goes, and as weight bends them.

    A body that is let go swings to twice its sag K⁻¹ g; one far softer than modes are good for is
    not followed.
    """
    out: list[Array] = []
    if not model.is_flexible:
        return out
    weight, fallen = gravity_forces(model, q), q.copy()
    for k, inertia in enumerate(model.flexible):
        if not isinstance(inertia, FlexibleInertia):
            continue
        at, far = modal_slice(model, k), modal_reach(model, k)
        pull = weight[model.v_slices[k]][-model.modes[k] :]
        sag = np.linalg.lstsq(inertia.stiffness, -pull, rcond=None)[0]
        fallen[at] = np.clip(2 * sag, -_FARTHEST * far, _FARTHEST * far)
        for i, x in zip(range(at.start, at.stop), far, strict=True):
            out += [np.where(np.arange(model.nq) == i, sign * x, q) for sign in (-1, 1)]
    return [*out, fallen]


def _assembled(mechanism: Any) -> Array:
    """The first configuration, or the neutral one where loops cannot be closed."""
    try:
        return first_configuration(mechanism)
    except PhipsiError:
        return mechanism.neutral()


def _body(model: Model, k: int, is_hidden: bool) -> dict[str, Any]:
    """A body for its facts and overlays: mass, mass centre, the ellipsoid of its inertia, joint."""
    inertia, joint = model.inertias[k], given_joint(model.joints[k])
    moments, R = np.linalg.eigh(inertia.moment_about_com_B)
    R = R * np.sign(np.linalg.det(R))
    squares = (
        2.5 * (moments.sum() - 2 * moments) / inertia.mass if inertia.mass > 0 else 0 * moments
    )
    return {
        "name": model.body_names[k],
        "parent": int(model.parent[k]),
        "mass": rounded(inertia.mass),
        "com": rounded_list(inertia.com_B),
        "ellipsoid": rounded_list(np.sqrt(np.maximum(squares, 0.0))),
        "principal": rounded_list(matrix_to_quat(R)),
        "joint": {"name": model.joint_names[k], "kind": joint.kind, "axes": _axes(joint)},
        **({"hidden": True} if is_hidden else {}),
    }


def _frames(model: Model) -> list[dict[str, Any]]:
    """Frames with the bodies that they are on."""
    return [
        {"name": name, "body": at, **_placed(X.rotation, X.translation)}
        for name, (at, X) in model.frames.items()
    ]


def _axes(joint: joints.Joint) -> list[dict[str, Any]]:
    """The axes of a joint with at most three rates, in body axes at its neutral position."""
    if joint.nv > 3 or joint.kind == "spherical":
        return []
    q = joint.neutral().tolist()
    H = np.asarray(joint.hinge_axes(joint.params, q, ARRAYS), dtype=float).reshape(6, joint.nv)
    out: list[dict[str, Any]] = []
    for column in H.T:
        turns = bool(np.abs(column[:3]).max() > 1e-12)
        direction = column[:3] if turns else column[3:]
        length = float(np.linalg.norm(direction))
        if length > 0:
            out.append({"axis": rounded_list(direction / length), "turns": turns})
    return out


def _machine(model: Model, x: MachineElement) -> dict[str, Any]:
    """A machine element for the facts about its bodies."""
    turns = [given_joint(model.joints[k]).kind != "prismatic" for k in x.bodies]
    return {
        "name": x.name,
        "kind": x.kind,
        "text": x.text,
        "bodies": list(x.bodies),
        "units": ["N·m" if t else "N" for t in turns],
        "rows": [x.row, x.rows],
        "value": x.value,
        "linear": [row._asdict() for row in x.linear],
        "ends": [{"body": int(k), "position": rounded_list(p)} for k, p in x.ends],
        "straight": x.straight,
        "force": x.force,
        **_shown_at(x.shown),
    }


def _machine_label(x: MachineElement) -> dict[str, Any]:
    """Its name, where it is."""
    body, place = x.place
    end = {"body": int(body), "position": rounded_list(place)}
    return {"name": x.name, "ends": [end, end], **_shown_at(x.shown)}


def _loop(closure: Closure, when: Spans | None) -> dict[str, Any]:
    """A constraint between two frames: where its ends are."""
    return {
        "name": closure.name,
        "ends": [
            {"body": body, "position": rounded_list(X.translation)} for body, X in closure.points
        ],
        **_shown_at(when),
    }


def _planes(
    model: Model, pairs: Sequence[Any], up: Array, radius: float
) -> tuple[float | None, list[DrawnSolid]]:
    """The height of a level plane that bodies touch, and inclined ones as slabs."""
    height: float | None = None
    slabs: list[DrawnSolid] = []
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
            slabs.append(DrawnSolid(WORLD, "box", size, X.rotation, middle, SLAB))
    return height, slabs


def upright(model: Model) -> Array:
    """The rotation that makes the direction against gravity z; none if there is no gravity."""
    strength = float(np.linalg.norm(model.gravity))
    if strength == 0:
        return np.eye(3)
    z = -model.gravity / strength
    if z[2] > 1 - 1e-12:
        return np.eye(3)
    x = np.array([1.0, 0, 0]) if abs(z[0]) < 0.9 else np.array([0, 1.0, 0])
    x = x - (x @ z) * z
    x /= np.linalg.norm(x)
    return np.vstack([x, np.cross(z, x), z])


def _floor(low: Array, high: Array, foot: Array) -> float:
    """Height of the floor below what is from low to high; `foot` is that of what is fixed."""
    stands = foot[2] <= low[2]  # what is fixed to the world is the lowest of all
    return float(low[2] - (0.0 if stands else 0.03) * np.linalg.norm(high - low))


def _extent(solids: list[DrawnSolid], R: Array, p: Array, up: Array) -> tuple[Array, Array]:
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
    roots = list(model.tree.roots)
    if len(roots) != 1 or given_joint(model.joints[roots[0]]).nv < 6:
        return -1
    around = p - p[:, roots]
    size = float(np.linalg.norm(around.max(axis=(0, 1)) - around.min(axis=(0, 1))))
    travel = p[:, roots[0]]
    far = float(np.linalg.norm(travel.max(axis=0) - travel.min(axis=0)))
    return roots[0] if far > max(size, 0.35 * float(np.linalg.norm(whole))) else -1


def _pedestals(
    model: Model,
    solids: list[DrawnSolid],
    closures: list[Closure],
    floor: float,
    up: Array,
    radius: float,
    without: set[int],
    behind: Array,
) -> list[DrawnSolid]:
    """A foot under every joint and pin that holds the mechanism to the world, to the floor.

    `behind` is the direction, or zero, in which it stands away from the plane of a mechanism, with
    a shaft to the joint: it does not cover what moves.
    """
    if any(s.body == WORLD and s.color not in (PIN, RAIL) for s in solids):
        return []
    out: list[DrawnSolid] = []
    held = [i for i in model.tree.roots if given_joint(model.joints[i]).nv < 3 and i not in without]
    places = [(i, model.placements[i].translation) for i in held]
    for c in closures:
        ends = dict(c.points) if c.matrix is None else {}
        if WORLD in ends and c.linear == "all":
            (body,) = [k for k in ends if k != WORLD]
            places.append((body, ends[WORLD].translation))
    tops: list[Array] = []
    for n, (body, place) in enumerate(places[:12]):
        top = up @ place
        if any(np.linalg.norm(top - other) < 0.05 * radius for other in tops):
            continue
        tops.append(top)
        height = float(top[2] - floor)
        widths = [min(solid.scale) for solid in solids if solid.body == body]
        thick = max(0.025 * radius, min(0.8 * max(widths, default=0.0), 0.1 * radius))
        thick *= 1.0 if n < len(held) else 0.5  # a thin post, so that what swings past it is seen
        if abs(behind[2]) < 0.5 and behind.any():
            away = (2.2 * thick + max(0.05 * radius, thick)) * behind
            height += thick
            shaft = (0.45 * thick, 0.45 * thick, float(np.linalg.norm(away)) / 2)
            turn, at = up.T @ z_along(behind), up.T @ (top + away / 2)
            out.append(DrawnSolid(WORLD, "cylinder", shaft, turn, at, FOOT))
            top = top + away
        middle = np.array([top[0], top[1], floor + height / 2])
        foot = np.array([top[0], top[1], floor + 0.012 * radius])
        out.append(_standing("cylinder", (thick, thick, height / 2), middle, up))
        out.append(_standing("cylinder", (1.9 * thick, 1.9 * thick, 0.012 * radius), foot, up))
    return out


def _standing(mesh: str, scale: tuple[float, float, float], at: Array, up: Array) -> DrawnSolid:
    """A solid given in the rotated world, as one of the model's world."""
    return DrawnSolid(WORLD, mesh, scale, up.T, up.T @ at, FOOT)


def _shown_at(spans: Spans | None) -> dict[str, Any]:
    """When something is there; nothing for always."""
    return {} if spans is None else {"shown": [list(span) for span in spans]}


def _plain(solid: DrawnSolid) -> dict[str, Any]:
    return {
        "body": solid.body,
        "mesh": solid.mesh,
        "scale": rounded_list(solid.scale),
        **_placed(solid.rotation, solid.position),
        "color": rounded_list(solid.color),
        **_shown_at(solid.shown),
    }


def _placed(rotation: ArrayLike, position: ArrayLike) -> dict[str, Any]:
    """A pose as a quaternion [w x y z] and a position."""
    turn = matrix_to_quat(np.asarray(rotation, dtype=float))
    return {"rotation": rounded_list(turn), "position": rounded_list(position)}
