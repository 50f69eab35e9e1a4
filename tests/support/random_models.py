"""Random mechanisms for tests: trees of all joint types with well-conditioned inertias.

    from random_models import ALL, branching, chain, models, random_tree, star

`random_tree(rng, n)` draws the tree too; `chain`, `star`, `branching` fix it; `models()` is a
Hypothesis strategy that shrinks to few bodies and simple joints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.joints import (
    Composite,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Translation,
    Universal,
)
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.core.spatial import quat_to_matrix

Rng = np.random.Generator


def random_axis(rng: Rng) -> np.ndarray:
    axis = rng.standard_normal(3)
    return axis / np.linalg.norm(axis)


def random_rotation(rng: Rng) -> np.ndarray:
    return quat_to_matrix(rng.standard_normal(4))


def random_pose(rng: Rng, reach: float = 0.5) -> Pose:
    return Pose(random_rotation(rng), rng.uniform(-reach, reach, 3))


def random_inertia(rng: Rng) -> SpatialInertia:
    """A turned box of 1–3 kg with edges of 0.3–0.6 m, its mass centre within 0.2 m."""
    mass, edges = rng.uniform(1, 3), rng.uniform(0.3, 0.6, 3)
    squares = edges**2
    R = random_rotation(rng)
    moment = R @ np.diag(mass / 12 * (squares.sum() - squares)) @ R.T
    return SpatialInertia(mass, rng.uniform(-0.2, 0.2, 3), (moment + moment.T) / 2)


def _universal(rng: Rng) -> Joint:
    u1 = random_axis(rng)
    u2 = np.cross(u1, random_axis(rng))
    u2 /= np.linalg.norm(u2)
    return Universal(u1, u2 + 0.4 * rng.uniform(-1, 1) * u1)  # not perpendicular


def _planar(rng: Rng) -> Joint:
    R = random_rotation(rng)
    return Planar(R[:, 0], R[:, 1])


def _composite(rng: Rng) -> Joint:
    parts: list[list[Joint]] = [
        [Revolute(random_axis(rng)), Prismatic(random_axis(rng))],
        [_universal(rng), Cylindrical(random_axis(rng)), Helical(random_axis(rng), 0.3)],
        [Prismatic(random_axis(rng)), Spherical(), Prismatic(random_axis(rng))],
        [Translation(), Spherical()],
        [_planar(rng), Fixed(), Revolute(random_axis(rng))],
    ]
    return Composite(parts[rng.integers(len(parts))])


JOINTS: dict[str, Callable[[Rng], Joint]] = {
    "revolute": lambda rng: Revolute(random_axis(rng)),
    "prismatic": lambda rng: Prismatic(random_axis(rng)),
    "helical": lambda rng: Helical(random_axis(rng), rng.uniform(-0.5, 0.5)),
    "cylindrical": lambda rng: Cylindrical(random_axis(rng)),
    "universal": _universal,
    "planar": _planar,
    "spherical": lambda rng: Spherical(),
    "free": lambda rng: Free(),
    "translation": lambda rng: Translation(),
    "composite": _composite,
}
ALL: tuple[str, ...] = tuple(JOINTS)


def model_from_parents(
    parents: Sequence[int],
    rng: Rng | int = 0,
    joints: Sequence[str | Joint] = ALL,
    *,
    armature: bool = False,
    damping: bool = False,
    limits: bool = False,
    frames: bool = False,
    gravity: Sequence[float] = (0.3, -0.5, -9.81),
) -> Model:
    """Model with body i, called "b<i>", on body parents[i] (−1: world; any parent order).

    `joints` are drawn from at random, unless there are exactly as many as bodies.
    """
    rng = np.random.default_rng(rng)
    builder = ModelBuilder(gravity=gravity)
    for i, p in enumerate(parents):
        pick = joints[i] if len(joints) == len(parents) else joints[int(rng.integers(len(joints)))]
        joint = JOINTS[pick](rng) if isinstance(pick, str) else pick
        bounded = limits and joint.nq == joint.nv
        builder.add_body(
            f"b{i}",
            parent="world" if p < 0 else f"b{p}",
            joint=joint,
            joint_name=f"j{i}",
            placement=random_pose(rng),
            inertia=random_inertia(rng),
            armature=rng.uniform(0.05, 0.2, joint.nv) if armature else 0.0,
            damping=rng.uniform(0.1, 1.0, joint.nv) if damping else 0.0,
            limits=(-np.ones(joint.nq), np.ones(joint.nq)) if bounded else None,
        )
        if frames:
            builder.add_frame(f"f{i}", body=f"b{i}", placement=random_pose(rng))
    return builder.build()


def random_tree(
    rng: Rng | int,
    n: int,
    joints: Sequence[str | Joint] = ALL,
    n_roots: int = 1,
    **options,
) -> Model:
    """Random tree of n bodies, `n_roots` of them on the world; options of `model_from_parents`."""
    rng = np.random.default_rng(rng)
    parents = [-1 if i < n_roots else int(rng.integers(i)) for i in range(n)]
    return model_from_parents(parents, rng, joints, **options)


def chain(n: int, rng: Rng | int = 0, joints: Sequence[str | Joint] = ALL, **options) -> Model:
    """Serial chain of n bodies."""
    return model_from_parents(range(-1, n - 1), rng, joints, **options)


def star(n: int, rng: Rng | int = 0, joints: Sequence[str | Joint] = ALL, **options) -> Model:
    """One root with n − 1 bodies on it."""
    return model_from_parents([-1] + [0] * (n - 1), rng, joints, **options)


def branching(n: int, rng: Rng | int = 0, joints: Sequence[str | Joint] = ALL, **options) -> Model:
    """Binary tree of n bodies."""
    return model_from_parents([(i - 1) // 2 if i else -1 for i in range(n)], rng, joints, **options)


@st.composite
def models(
    draw: st.DrawFn,
    max_bodies: int = 6,
    min_bodies: int = 1,
    joints: Sequence[str] = ALL,
    armature: bool | None = None,
    **options,
) -> Model:
    """Strategy: trees and forests of up to `max_bodies`; armature None means drawn."""
    n = draw(st.integers(min_bodies, max_bodies), label="bodies")
    parents = [draw(st.integers(-1, i - 1), label=f"parent of b{i}") for i in range(n)]
    kinds = [draw(st.sampled_from(list(joints)), label=f"joint of b{i}") for i in range(n)]
    rotor = draw(st.booleans(), label="armature") if armature is None else armature
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    return model_from_parents(parents, seed, kinds, armature=rotor, **options)


def random_state(
    model: Model, seed: int = 0, batch: int | Sequence[int] = (), rates: int = 2
) -> tuple[np.ndarray, ...]:
    """q and so many arrays of the size of v; always the same of a seed."""
    rng, batch = np.random.default_rng(seed), (batch,) if isinstance(batch, int) else tuple(batch)
    return model.random_configuration(rng, batch), *rng.standard_normal((rates, *batch, model.nv))
