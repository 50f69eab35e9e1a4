"""Contact problems with known answers, B1–B22 of theory/contact section 9, as systems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import phipsi as pp

G = 9.81


def about_y(angle: float) -> np.ndarray:
    """Rotation by an angle about y, (3, 3)."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


class Scene:
    """A world with a floor, to which free bodies with shapes are added.

    The floor is inclined by `slope` (rad): it descends along its own x axis. Bodies are placed in
    the axes of the floor.
    """

    def __init__(
        self, *, slope: float = 0.0, friction: float = 0.5, floor: bool = True, **more: Any
    ):
        self.builder = pp.ModelBuilder()
        self.rotation = about_y(slope)
        self.material = pp.Material(friction, **more)
        self._q: list[np.ndarray] = []
        self._v: list[np.ndarray] = []
        if floor:
            self.builder.add_shape(
                "floor", "world", pp.shapes.Plane(), pp.Pose(self.rotation), material=self.material
            )

    def add(
        self,
        name: str,
        shape: Any,
        mass: float,
        at: Any,
        v: Any = (0, 0, 0),
        omega: Any = (0, 0, 0),
        *,
        turned: Any = None,
        inertia: Any = None,
        material: Any = None,
    ) -> None:
        """A free body with one shape; v and omega in the axes of the floor."""
        R = self.rotation if turned is None else self.rotation @ turned
        if inertia is None:
            solid = pp.SpatialInertia
            if isinstance(shape, pp.shapes.Sphere):
                inertia = solid.sphere(shape.radius, mass=mass)
            else:
                inertia = solid.box(shape.size, mass=mass)
        self.builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
        self.builder.add_shape(name, name, shape, material=material or self.material)
        pose = pp.Pose(R, self.rotation @ np.asarray(at, float))
        self._q.append(np.concatenate([pose.quaternion, pose.translation]))
        back = R.T @ self.rotation
        self._v.append(
            np.concatenate([back @ np.asarray(omega, float), back @ np.asarray(v, float)])
        )

    def system(self, **options: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """The system with its contacts, and the state that it starts from."""
        model = self.builder.build()
        contacts = pp.Contacts(model, **options)
        empty = np.zeros(0)
        q, v = (np.concatenate([empty, *x]) for x in (self._q, self._v))
        return pp.System(model, contacts=contacts), q, v

    def place(self, q: np.ndarray, body: int = 0) -> np.ndarray:
        """Where a body is, in the axes of the floor (..., 3)."""
        return q[..., 7 * body + 4 : 7 * body + 7] @ self.rotation

    def velocity(self, q: np.ndarray, v: np.ndarray, body: int = 0) -> np.ndarray:
        """How a body's centre moves, in the axes of the floor (..., 3)."""
        w, x, y, z = np.moveaxis(q[..., 7 * body : 7 * body + 4], -1, 0)
        R = np.array([
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ])  # fmt: skip
        u = v[..., 6 * body + 3 : 6 * body + 6]
        return np.einsum("ij...,...j->...i", R, u) @ self.rotation


@dataclass(frozen=True)
class Run:
    """States (steps + 1, …) and impulses (steps + 1, slots, 6) of a run; the pair of every slot."""

    q: np.ndarray
    v: np.ndarray
    impulses: np.ndarray
    worst: np.ndarray
    totals: np.ndarray
    pairs: tuple[str, ...]


def run(system: Any, q: Any, v: Any, dt: float, steps: int, tau: Any = None) -> Run:
    """Fixed steps in machine code."""
    sim = pp.Simulator(system, dt=dt, integrator="time_stepping")
    names = ("q", "v", "contact.impulses", "contact.worst", "contact.totals")
    found = sim.rollout(sim.initial_state(q, v), tau, steps=steps, record=names, progress=False)
    contacts = system.contact_pairs
    pairs = tuple(contacts.pairs[i].name for i in contacts.slot_pair)
    impulses, worst, totals = (found[x] for x in names[2:])
    return Run(found.q, found.v, impulses, worst, totals, pairs)


def frictions(sim: Any, values: Any) -> dict[str, np.ndarray]:
    """Parameters of trajectories that differ in friction: values (n,), or (n, slots)."""
    own = np.tile(sim.parameters["contact.materials"], (len(values), 1, 1))
    given = np.asarray(values, float)
    own[:, :, 0] = given if given.ndim == 2 else given[:, None]
    return {"contact.materials": own}


def by_pair(system: Any, values: dict[str, float]) -> np.ndarray:
    """Numbers of all slots (k,) from those of pairs: the first whose words are in their name."""
    names = system.contact_pairs.slot_names
    return np.array([next(x for word, x in values.items() if word in n) for n in names])


def rod_with_tips(mass: float, ends: Any, tips: Any, radius: float, turned: np.ndarray) -> Any:
    """A slender rod between two points (world axes), with balls that touch at its ends.

    `tips` are directions (world axes) in which the ball of an end touches, or None. The body's
    frame is at its middle, turned by R from the world. Returns a builder.
    """
    ends = np.asarray(ends, float)
    along = turned.T @ (ends[1] - ends[0])
    length = np.linalg.norm(along)
    e = along / length
    moment = mass * length**2 / 12 * (np.eye(3) - np.outer(e, e)) + 1e-9 * np.eye(3)
    builder = pp.ModelBuilder()
    builder.add_body(
        "rod", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass, (0, 0, 0), moment)
    )
    middle = ends.mean(axis=0)
    for i, direction in enumerate(tips):
        if direction is not None:
            at = turned.T @ (ends[i] - middle - radius * np.asarray(direction, float))
            builder.add_shape(f"tip{i}", "rod", pp.shapes.Sphere(radius), pp.Pose(None, at))
    return builder


def start_of(turned: np.ndarray, middle: Any) -> np.ndarray:
    """Coordinates (7,) of a free body."""
    pose = pp.Pose(turned, np.asarray(middle, float))
    return np.concatenate([pose.quaternion, pose.translation])


@cache
def leg(friction: float = 0.8) -> tuple[pp.System, np.ndarray]:
    """A trunk on a slide, on a four-bar leg with a foot on two points, just above the ground."""
    builder = pp.ModelBuilder()
    rod = pp.SpatialInertia(1.0, (0, 0, -0.2), (0.02, 0.02, 0.005))
    hinge = pp.joints.Revolute((0, 1, 0))
    trunk = pp.SpatialInertia.box((0.4, 0.2, 0.1), mass=5.0)
    sole = pp.SpatialInertia.box((0.3, 0.1, 0.05), mass=0.5)
    builder.add_body("trunk", joint=pp.joints.Prismatic((0, 0, 1)), inertia=trunk)
    for name, x in (("front", 0.1), ("rear", -0.1)):
        place = pp.Pose(None, (x, 0, 0))
        builder.add_body(name, parent="trunk", joint=hinge, inertia=rod, placement=place)
    place = pp.Pose(None, (0, 0, -0.4))
    builder.add_body("foot", parent="front", joint=hinge, inertia=sole, placement=place)
    for name, x in (("heel", -0.25), ("toe", 0.1)):
        ball = pp.shapes.Sphere(0.03)
        builder.add_shape(name, "foot", ball, pp.Pose(None, (x, 0, -0.05)))
    model = builder.build()
    ends: Any = {"a": ("foot", (-0.2, 0, 0)), "b": ("rear", (0, 0, -0.4))}
    pin = pp.constraints.Revolute((0, 1, 0), name="pin", **ends)  # three of its rows are redundant
    contacts = pp.Contacts(model, ground=True, material=pp.Material(friction))
    system = pp.System(model, [pin], contacts=contacts)
    assert model.joint_names == ("trunk", "front", "foot", "rear")
    q = np.array([0.5, 0.3, -0.3, 0.3])
    q[0] -= pp.contact_points(system, q).gap.min() - 0.002
    return system, q


def bracket(d: float, height: float, width: float, friction: float, r: float) -> pp.System:
    """A bracket whose load hangs at d from a pole, which it touches at its top and its foot."""
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(2.0, (d, 0, 0), 0.02)
    builder.add_body("bracket", joint=pp.joints.Free(), inertia=inertia)
    for name, side, z in (("top", -1, height / 2), ("foot", 1, -height / 2)):
        at = pp.Pose(None, (side * (width / 2 + r), 0, z))
        builder.add_shape(name, "bracket", pp.shapes.Sphere(r), at)
    builder.add_shape("pole", "world", pp.shapes.Box((width, 0.1, 2.0)))
    model = builder.build()
    pairs = pp.Contacts(model, exclude=[("top", "foot")], material=pp.Material(friction))
    return pp.System(model, contacts=pairs)
