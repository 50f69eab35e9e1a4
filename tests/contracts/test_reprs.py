"""What the prompt shows of an object: one line with its class, never an address."""

import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

import phipsi as pp
from phipsi import constraints as c, grasping
from phipsi.files.foreign_name_hints import _ELSEWHERE

ROOMS = (
    "core.model", "core.constraints", "algorithms", "contact", "flexible", "grasping",
    "kinematics", "identification", "transmissions", "files", "codegen", "attached",
)  # fmt: skip
_LONGEST = 500  # characters of a line


def _is_of_rooms(kind: type) -> bool:
    return any(f"{kind.__module__}.".startswith(f"phipsi.{room}.") for room in ROOMS)


def _classes(home: Any) -> Iterator[type]:
    """The classes that have a public name in a namespace or in a namespace of it."""
    for name in home.__all__:
        x = getattr(home, name)
        if isinstance(x, ModuleType) and x.__name__ == f"phipsi.{name}" and home is pp:
            if hasattr(x, "__all__") and name not in ("gym", "jax", "torch"):
                yield from _classes(x)
        elif inspect.isclass(x):
            yield x


@cache
def public_classes() -> tuple[type, ...]:
    """All public classes of the rooms, and those of the results of public functions."""
    found = {x for x in _classes(pp) if _is_of_rooms(x)}
    for home, names in _ELSEWHERE.items():
        if home.startswith("phipsi."):
            named = (getattr(importlib.import_module(home), name) for name in names.split())
            found |= {x for x in named if inspect.isclass(x) and _is_of_rooms(x)}
    return tuple(sorted(found, key=lambda x: (x.__module__, x.__name__)))


def test_every_public_class_says_what_it_is():
    assert len(public_classes()) > 50
    silent = [x.__name__ for x in public_classes() if x.__repr__ is object.__repr__]
    assert silent == []


def _contacts() -> pp.Contacts:
    builder, stone = pp.ModelBuilder(), pp.SpatialInertia.box((1, 1, 1), mass=1.0)
    builder.add_body("stone", joint=pp.joints.Free(), inertia=stone)
    corners = np.random.default_rng(0).normal(size=(30, 3))
    builder.add_shape("stone", "stone", pp.shapes.ConvexMesh(corners))
    builder.add_shape("ball", "stone", pp.shapes.Sphere(0.5))
    builder.add_shape("ground", "world", pp.shapes.HeightField(np.zeros((10, 12)), 0.5))
    return pp.Contacts(builder.build(), exclude=["stone"])


ARM = pp.examples.planar_arm(3)
Q, V, TAU = np.full(3, 0.3), np.full(3, 0.2), np.full(3, 0.1)
BEAM = pp.FlexibleInertia.beam(1.0, 1.0, 1.0, modes=1)


def examples() -> dict[str, Any]:
    """Objects that a user meets at the prompt."""
    contacts = _contacts()
    model, high = contacts.model, [1, 0, 0, 0, 0, 0, 2.0]
    lock = c.Coupling(name="lock", joints=["joint1", "joint2"], coefficients=[1, 1])
    rows = c.Rows(name="rows", points=["link1"], A=np.eye(6)[:2])
    system = pp.System(ARM, [lock])
    at = np.array([0.1, -0.1, 0.2])
    rng = np.random.default_rng(1)
    q, v, vdot = rng.normal(size=(3, 60, 3))
    base = pp.identification.base_parameters(ARM)
    efforts = pp.inverse_dynamics(ARM, q, v, vdot) + 1e-3 * rng.normal(size=(60, 3))
    builder = pp.ModelBuilder()
    builder.add_body("beam", joint=pp.joints.Revolute((0, 0, 1)), inertia=BEAM)
    bent = builder.build()
    soft = grasping.SoftFinger(0.5, 0.01, name="pad", finger="tip", object="box")
    return {
        "model": ARM, "system": system, "closures": system.closures, "rows of it": system.rows,
        "stages": system.stages, "mobility": system.mobility(at), "builder": builder,
        "frame": ARM.description.frames[0], "body": ARM.description.bodies[0],
        "joint": ARM.joint("joint1"), "inertia": pp.SpatialInertia(1.0), "pose": pp.Pose(),
        "coupling": lock, "rows": rows, "closure": system.closures.closures[0],
        "cam": c.Cam(lambda x, y: x - y, name="cam", joints=("joint1", "joint2")),
        "pin": c.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0))),
        "contacts": contacts, "touching": pp.System(model, contacts=contacts),
        "pair": contacts.pairs[0], "shape": model.shapes[0],
        "mesh": model.shapes[0].shape, "field": model.shapes[2].shape, "material": pp.Material(),
        "points": pp.contact_points(contacts, high), "distances": pp.distances(contacts, high),
        "dynamics": pp.forward_dynamics(system, at, V, TAU, return_multipliers=True),
        "impulse": pp.constraint_impulse(system, at, V),
        "reactions": pp.joint_reactions(ARM, Q, V, TAU),
        "of accelerations": pp.forward_dynamics_derivatives(ARM, Q, V, TAU),
        "of efforts": pp.inverse_dynamics_derivatives(ARM, Q, V, TAU),
        "innovations": pp.diagonal_dynamics.innovations(ARM, Q, V, TAU),
        "prediction": pp.estimation.predict(ARM, Q, TAU),
        "smoothed": pp.estimation.smooth(ARM, Q, TAU),
        "samples": pp.estimation.sample(ARM, Q, 3), "health": pp.estimation.conditioning(ARM, Q),
        "combined": pp.estimation.combine(Q, np.eye(len(Q)), Q, np.eye(len(Q))),
        "white": pp.estimation.whiteness(ARM, Q, np.outer(range(100), TAU)),
        "velocities": pp.minimal_velocities.basis(system, at, V),
        "minimal": pp.minimal_velocities.equations(system, at, V, TAU),
        "beam": BEAM, "port": BEAM.ports[0], "drawn": BEAM.shape,
        "modes": pp.mode_shapes(bent, bent.neutral()),
        "found": pp.inverse_kinematics(ARM, {"link3": (1, 0.3, 0)}, Q, on_error="best"),
        "base": base, "identification": pp.identification.identify(base, q, v, vdot, efforts),
        "finger": soft, "cone": soft.cones()[1],
        "state": pp.conventions.to_mujoco(ARM, Q, V),
    }  # fmt: skip


def test_one_line_says_what_an_object_is():
    wrong = {}
    for name, thing in examples().items():
        text = repr(thing)
        is_line = " at 0x" not in text and "\n" not in text and len(text) <= _LONGEST
        if not is_line or type(thing).__name__ not in text:
            wrong[name] = text
    assert wrong == {}


def test_numbers_of_a_few_and_shapes_of_many():
    few, many = pp.forward_dynamics(ARM, Q, V, TAU, return_multipliers=True), np.zeros((4, 3))
    assert repr(few).endswith("tau=[0.1, 0.1, 0.1], f=[])")
    found = pp.inverse_dynamics(ARM, many, many, many, return_multipliers=True)
    assert repr(found) == "Dynamics(vdot: shape (4, 3), tau: shape (4, 3), f: shape (4, 0))"
