"""Where machine elements are on a page: their bodies, wheels, solids, and the ends of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.interfaces.page import machine_solids as solids
from phipsi.interfaces.page.shapes_and_colors import given_joint, reach_of, solids_of
from phipsi.model import Model, Pose
from phipsi.model.tree import WORLD

Array = NDArray[Any]
STEEL, BRASS, DARK = (0.42, 0.46, 0.52), (0.62, 0.42, 0.10), (0.07, 0.085, 0.12)
RUBBER = (0.16, 0.05, 0.03)
MOTOR = (0.05, 0.20, 0.42)
PARALLEL = 1e-6


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
class Machine:
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
        self.axis, self.centre = X.rotation @ u, np.asarray(X.translation, float)
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

    def along(self, point: Array) -> float:
        """How far a point of the carrier is from the wheel's origin along its axis."""
        return float(self.axis @ (point - self.centre))


def z_along(u: Array) -> Array:
    """A rotation whose third column is u."""
    z = u / np.linalg.norm(u)
    x = np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=-1)


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


def stand_back(model: Model, machines: Sequence[Machine]) -> None:
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


def parts_of(machines: Sequence[Machine]) -> Iterator[tuple[int, MachinePart]]:
    """All solids, with the numbers of their elements."""
    for i, machine in enumerate(machines):
        for part in machine.parts:
            yield i, part
