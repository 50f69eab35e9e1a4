"""Machine elements on a page: where they are, with their bodies, wheels and solids, and links.

Links are relations between joints that have no form of their own, and springs between them. A
relation is drawn as rods from its joints to one knot, which move with the bodies; one of a single
joint is a ring that holds it. An elastic coupling is a coil that twists, or stretches, as it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import WORLD, Model, Pose
from phipsi.errors import counted
from phipsi.pages import machine_solids as solids
from phipsi.pages.meshes import Meshes, MeshPart, packed_surface, placed
from phipsi.pages.shapes_and_colors import given_joint, reach_of, solids_of, z_along
from phipsi.simulation import (
    Bushing,
    ElasticCoupling,
    PointSpring,
    PointSprings,
    RigidRopes,
    Rope,
    TorsionSpring,
)

Array = NDArray[Any]
STEEL, BRASS, DARK = (0.42, 0.46, 0.52), (0.62, 0.42, 0.10), (0.07, 0.085, 0.12)
RUBBER = (0.16, 0.05, 0.03)
MOTOR = (0.05, 0.20, 0.42)
PARALLEL = 1e-6
_ENDS = 24  # of one link; a general row may take part in every body


class Coil(NamedTuple):
    """How a coil along z from the origin follows the value x of its element.

    Its end at `length` is turned about z, or if it `slides` shifted along it, by `scale` · x; what
    is between in proportion.
    """

    length: float
    scale: float
    slides: bool


class LinearRow(NamedTuple):
    """x = Σ by · q[at] − offset."""

    at: list[int]
    by: list[float]
    offset: float


@final
@dataclass(frozen=True, eq=False)
class MachinePart:
    """One solid of an element, fixed in a body (−1: the world).

    `beside`: the body has its own shape besides.
    """

    body: int
    surface: solids.Surface
    pose: Pose
    color: tuple[float, float, float] = STEEL
    beside: bool = False
    coil: Coil | None = None


@final
@dataclass(eq=False)
class MachineElement:
    """A machine element: its name, kind, what is said of it, its bodies, solids, and its place.

    `row` and `rows` are the numbers of its first row in the system and of its rows, whose
    multipliers are what it transmits; force elements have none, but the number `force` among the
    forces. `drawn` are bodies that need no shape besides its solids, although they carry others.
    `ends` of rods to one knot: bodies and places on them, in a `straight` line if they are two.
    `linear` has the rows on coordinates whose value, a residual or a twist, the page shows; `shown`
    the times at which it is there, None for always. `behind` is a body whose joint its solids
    stand behind, against the axis (`stand_back`).
    """

    name: str
    kind: str
    text: str
    bodies: tuple[int, ...]
    row: int
    rows: int = 1
    parts: list[MachinePart] = field(default_factory=list)
    place: tuple[int, Array] = (WORLD, np.zeros(3))
    drawn: tuple[int, ...] = ()
    ends: list[tuple[int, Array]] = field(default_factory=list)
    straight: bool = False
    linear: list[LinearRow] = field(default_factory=list)
    value: str = "residual"
    force: int = -1
    shown: tuple[tuple[float, float], ...] | None = None
    behind: int | None = None


@final
class Wheel:
    """A joint about an axis: its body, and its frame (z along the axis) in the carrier at q = 0."""

    def __init__(self, model: Model, joint: str) -> None:
        self.name, self.body = joint, model.joint(joint).index
        X, u = (
            model.placements[self.body],
            np.array(given_joint(model.joints[self.body]).params[:3]),
        )
        self.carrier = model.parent[self.body]
        self.own = z_along(u)  # the frame of the wheel in its body
        self.axis, self.centre = X.rotation @ u, X.translation
        self.turn = X.rotation @ self.own

    def angle(self, direction: Array) -> float:
        """The angle of a direction in the carrier about the axis, in the wheel's frame at q = 0."""
        x, y, _ = self.turn.T @ direction
        return float(np.arctan2(y, x))

    def part(
        self, surface: solids.Surface, color: Any, lift: float = 0.0, *, beside: bool = False
    ) -> MachinePart:
        """A solid in the wheel's frame."""
        pose = Pose(self.own, self.own[:, 2] * lift)
        return MachinePart(self.body, surface, pose, color, beside)

    def element(
        self, name: str, kind: str, text: str, bodies: Sequence[int], row: int
    ) -> MachineElement:
        """An element at the wheel's origin, without solids yet."""
        return MachineElement(
            name, kind, text, tuple(bodies), row, place=(self.carrier, self.centre)
        )

    def along(self, point: Array) -> float:
        """How far a point of the carrier is from the wheel's origin along its axis."""
        return float(self.axis @ (point - self.centre))


def pose_in(model: Model, body: int, turn: Array, place: Array) -> Pose:
    """Axes and a place in what a body is joined to, as a pose in the body at q = 0."""
    X = model.placements[body]
    return Pose(X.rotation.T @ turn, X.rotation.T @ (place - X.translation))


def between(a: Wheel, b: Wheel) -> tuple[float, Array]:
    """The distance of two parallel axes, and the direction from one to the other."""
    across = b.centre - a.centre
    across = across - a.axis * float(a.axis @ across)
    distance = float(np.linalg.norm(across))
    return distance, across / (distance or 1.0)


def are_coaxial(a: Wheel, b: Wheel) -> bool:
    """True for two axes of one carrier that are one line."""
    aligned = 1 - abs(float(a.axis @ b.axis)) < PARALLEL and a.carrier == b.carrier
    return aligned and between(a, b)[0] < 1e-9


def size_of(model: Model, k: int) -> float:
    """How large a body is, m: how far its children and its mass reach from its joint."""
    children = [np.linalg.norm(model.placements[j].translation) for j in model.tree.children[k]]
    inertia = model.inertias[k]
    mass = max(inertia.mass, 1e-300)
    turning = np.sqrt(float(np.max(np.linalg.eigvalsh(inertia.moment_about_com_B))) / mass)
    found = [*children, 2 * float(np.linalg.norm(inertia.com_B)), 2 * turning]
    return float(max(found)) or 0.1


def stand_back(model: Model, machines: Sequence[MachineElement]) -> None:
    """Move what stands behind joints to where the bodies, and wheels on them, do not hide it."""
    waiting = [x for x in machines if x.behind is not None]
    if not waiting:
        return
    others = [part for x in machines if x.behind is None for part in x.parts]
    wheels = {part.body for part in others if not part.beside}
    own = solids_of(model, meshed=frozenset(wheels - {*model.parent}))
    for machine in waiting:
        assert machine.behind is not None
        wheel = Wheel(model, model.joint_names[machine.behind])
        back = -wheel.own[:, 2]
        reach = reach_of([x for x in own if x.body == machine.behind], back)
        for part in others:
            if part.body == machine.behind:
                along = (part.surface[0] @ part.pose.rotation.T + part.pose.translation) @ back
                reach = max(reach, float(along.max()))
        for i, part in enumerate(machine.parts):
            place = part.pose.translation - reach * wheel.axis
            machine.parts[i] = replace(part, pose=Pose(part.pose.rotation, place))
        machine.behind = None


def with_machines(meshes: Meshes, made: Sequence[MachinePart]) -> Meshes:
    """The meshes of files, and behind them the solids of machine elements."""
    parts, written = list(meshes.parts), list(meshes.packed)
    for x in made:
        points, triangles = x.surface
        plain, bounds = packed_surface(np.asarray(points, float), np.asarray(triangles, np.int64))
        box = placed(bounds, x.body, x.pose)
        parts.append(MeshPart(x.body, len(written), x.pose, x.color, 1.0, box))
        written.append(plain)
    return Meshes(tuple(parts), tuple(written), meshes.notices)


def parts_of(machines: Sequence[MachineElement]) -> Iterator[tuple[int, MachinePart]]:
    """All solids, with the numbers of their elements."""
    for i, machine in enumerate(machines):
        for part in machine.parts:
            yield i, part


# ---- relations as links --------------------------------------------------------------------------


def relation(model: Model, one: Any, row: int, kind: str) -> MachineElement:
    """A linear relation between joints: its rows as text, and where it is."""
    shares = one.relations(model)
    names = list(dict.fromkeys(n for of in shares.values() for n in of))
    offsets = np.broadcast_to(np.asarray(one.offset, dtype=float), (len(shares),))
    text = "; ".join(
        f"{weighted(of)} = {offset:g}" for of, offset in zip(shares.values(), offsets, strict=True)
    )
    if len(shares) == 1 and len(names) == 2:
        a, b = names
        speed = -shares[next(iter(shares))][b] / shares[next(iter(shares))][a]
        text += f": {a} moves {speed:.5g} times as fast as {b}"
    bodies = tuple(model.joint(n).index for n in names)
    k = bodies[0]
    place = model.parent[k], model.placements[k].translation
    return MachineElement(one.name, kind, text, bodies, row, place=place)


def weighted(shares: dict[str, float]) -> str:
    """Coefficients and names as a sum."""
    return " + ".join(f"{x:.4g} {n}" for n, x in shares.items()).replace("+ -", "− ")


def linked(model: Model, machine: MachineElement, clock: int | None = None) -> None:
    """Rods between the joints of an element without solids; a ring about the only one."""
    if machine.parts or machine.ends:
        return
    bodies = [k for k in machine.bodies if k != clock]
    if len(bodies) != 1 or given_joint(model.joints[bodies[0]]).nv != 1:
        machine.ends = [(k, np.zeros(3)) for k in bodies]
        return
    wheel, size = Wheel(model, model.joint_names[bodies[0]]), size_of(model, bodies[0])
    pose = Pose(wheel.turn, wheel.centre - 0.03 * size * wheel.axis)
    machine.behind = bodies[0]
    ring = solids.ring(0.09 * size, 0.13 * size, 0.06 * size)
    machine.parts.append(MachinePart(wheel.carrier, ring, pose, MOTOR, beside=True))


def general_rows(model: Model, one: Any, row: int) -> MachineElement | None:
    """Rows on the motions of points: rods between these; None for a joint between two frames."""
    closure = one.closure(model)
    if closure.matrix is None:
        return None
    ends: list[tuple[int, Array]] = []
    for body, X in closure.points:
        place = X.translation
        if not any(body == k and np.allclose(place, p) for k, p in ends):
            ends.append((body, place))
    bodies = tuple(dict.fromkeys(k for k, _ in ends if k != WORLD))
    rows, points = counted(len(closure.rows), "row"), counted(len(ends), "point")
    text = f"{rows} on the velocities of {points}"
    out = MachineElement(one.name, type(one).__name__.lower(), text, bodies, row, place=ends[0])
    out.ends = ends[:_ENDS]
    return out


def linear_rows(model: Model, one: Any) -> list[LinearRow]:
    """The rows of a relation as numbers on coordinates, from which a page has its residuals."""
    out: list[LinearRow] = []
    for row, offset in one.coordinates(model):
        at = np.flatnonzero(row)
        out.append(LinearRow(at.tolist(), row[at].tolist(), float(offset)))
    return out


# ---- forces as links -----------------------------------------------------------------------------


def of_forces(model: Model, forces: Sequence[Any]) -> list[MachineElement]:
    """Elements among the forces that couple joints or bodies; laws have no form."""
    out: list[MachineElement] = []
    for i, one in enumerate(forces):
        if isinstance(one, ElasticCoupling):
            out.append(_coil(model, one, i))
        elif isinstance(one, PointSpring | Rope | Bushing | TorsionSpring):
            found = [model.resolve_point(x) for x in (one.a, one.b)]
            ends = [(k, X.translation) for k, X in found]
            out.append(_between(model, type(one).__name__, ends))
        elif isinstance(one, PointSprings | RigidRopes):  # many at once, as runs have them
            out += [_between(model, one.kind, ends) for ends in one.pairs()]
    return out


_WORDS = {
    "PointSpring": ("spring", "a spring between two points"),
    "Rope": ("rope", "carries tension only"),
    "Bushing": ("bushing", "an elastic mount in six directions"),
    "TorsionSpring": ("torsion spring", "a spring about one axis"),
}


def _between(model: Model, kind: str, ends: list[tuple[int, Array]]) -> MachineElement:
    """A line between two points of bodies."""
    word, text = _WORDS.get(kind, (kind.lower(), "between two points"))
    bodies = tuple(dict.fromkeys(int(k) for k, _ in ends if k != WORLD))
    names = ["world" if k == WORLD else model.body_names[k] for k, _ in ends]
    out = MachineElement(" – ".join(names), word, text, bodies, -1, 0, place=ends[0])
    out.ends, out.straight = [(int(k), np.asarray(p)) for k, p in ends], True
    return out


def _coil(model: Model, one: ElasticCoupling, number: int) -> MachineElement:
    """A coil on the joint with the largest share, to the other one if both are on one line.

    Its far end follows the others: seen from its joint a it is turned, or shifted, by −x / c_a.
    """
    weights = np.ravel(np.asarray(one.coefficients, dtype=float))
    order = sorted(range(len(weights)), key=lambda i: -abs(weights[i]))
    a, *others = (Wheel(model, one.joints[i]) for i in order)
    k, gap = one.stiffness, one.backlash
    said = f", backlash {np.ravel(gap)[0]:.4g}" if np.any(gap) else ""
    twist = weighted(dict(zip(one.joints, weights.tolist(), strict=True)))
    text = f"stiffness {np.ravel(k)[0]:.4g} per unit of {twist}{said}"
    bodies = tuple(model.joint(n).index for n in one.joints)
    name = " – ".join(one.joints)
    out = MachineElement(name, "elastic coupling", text, bodies, -1, 0, place=(a.carrier, a.centre))
    slides = given_joint(model.joints[a.body]).kind == "prismatic"
    in_line = len(others) == 1 and are_coaxial(a, others[0])
    length = a.along(others[0].centre) if in_line else 0.0
    sign, start = -1.0 if length < 0 else 1.0, 0.0
    if abs(length) > 1e-9:
        length = abs(length)
        shape = solids.coil(0.2 * length, 0.025 * length, length, 6)
    else:  # beside what the body looks like, on a shaft that ends in the joint
        own = [x for x in solids_of(model) if x.body == a.body]
        length, start = 0.3 * size_of(model, a.body), reach_of(own, a.own[:, 2])
        shape = solids.coil_on_shaft(0.25 * length, 0.04 * length, length, 4, start)
    pose = Pose(z_along(sign * a.own[:, 2]), start * a.own[:, 2])
    follows = Coil(length, float(-sign / weights[order[0]]), slides)
    out.parts.append(MachinePart(a.body, shape, pose, BRASS, beside=True, coil=follows))
    end = a.centre + (start + sign * length) * a.axis
    out.place = a.carrier, a.centre + (start + sign * length / 2) * a.axis
    if others and not in_line:  # rods from the far end to the others
        out.ends = [(a.carrier, end), *((x.body, np.zeros(3)) for x in others)]
    at = [model.q_slice(n).start for n in one.joints]
    offset = float(np.ravel(np.asarray(one.offset, dtype=float))[0])
    out.linear, out.value, out.force = [LinearRow(at, weights.tolist(), offset)], "twist", number
    return out
