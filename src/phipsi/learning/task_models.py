"""Mechanisms of the tasks of environments.py that `phipsi.examples` does not have."""

from __future__ import annotations

from phipsi import examples
from phipsi.algorithms import System
from phipsi.attached import Material, Sphere
from phipsi.contact import Contacts
from phipsi.core.model import Model, ModelBuilder, Pose, SpatialInertia, joints

FEET = tuple(f"{end}_{side}" for end in ("front", "rear") for side in ("left", "right"))


def cart_pole() -> Model:
    """A cart of 1 kg with a pole of 0.1 kg and 1 m, which stands at q = 0."""
    builder = ModelBuilder(gravity=(0, 0, -9.81))
    builder.add_body(
        "cart", joint=joints.Prismatic((1, 0, 0)), joint_name="slide",
        inertia=SpatialInertia(1.0, (0, 0, 0), 0.01),
    )  # fmt: skip
    builder.add_body(
        "pole", parent="cart", joint=joints.Revolute((0, 1, 0)), joint_name="hinge",
        inertia=SpatialInertia(0.1, (0, 0, 0.5), (0.1 / 12, 0.1 / 12, 1e-5)),
    )  # fmt: skip
    return builder.build()


def standing_quadruped() -> System:
    """The quadruped of `examples` with balls for feet, on the ground."""
    model = examples.quadruped()
    for leg in FEET:
        at = Pose(None, (0, 0, -0.3))
        model = model.with_shape(f"{leg}_foot", f"{leg}_knee", Sphere(0.025), at)
    pairs = [(f"{leg}_foot", "ground") for leg in FEET]
    return System(model, contacts=Contacts(model, ground=True, pairs=pairs, material=Material(0.8)))
