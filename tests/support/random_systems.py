"""Random mechanisms with loops, and a plain dense solution of their equations of motion.

    from random_systems import KINDS, kkt, random_system

Constraints are put between random bodies so that they hold at a random configuration, displaced by
a random motion of the freedom they leave.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import numpy as np
from random_models import random_axis, random_pose, random_tree

import phipsi as pp
from phipsi import constraints as c
from phipsi.core.spatial import so3_exp

KINDS = (
    "Weld", "Spherical", "Revolute", "Prismatic", "Cylindrical", "Universal", "Planar",
    "PointOnLine", "Distance", "Coupling", "Rows",
)  # fmt: skip
WITH_LAWS = (*KINDS, "Cam")
SURFACES = ("PointOnPlane", "PointOnCircle")
ROWS = dict(zip((*WITH_LAWS, *SURFACES), (6, 3, 5, 5, 4, 4, 3, 2, 1, 1, 2, 1, 1, 2), strict=True))


def displaced(kind: str, u, w, rng) -> pp.Pose:
    """A random pose of frame b in frame a that the joint allows, u and w its axes."""
    turn = so3_exp(np.array(u) * rng.uniform(-1, 1))
    slide = np.array(u) * rng.uniform(-0.5, 0.5)
    across = np.cross(u, random_axis(rng))
    any_turn = so3_exp(rng.uniform(-1, 1, 3))
    return {
        "Weld": lambda: pp.Pose(),
        "Spherical": lambda: pp.Pose(any_turn),
        "Revolute": lambda: pp.Pose(turn),
        "Prismatic": lambda: pp.Pose(None, slide),
        "Cylindrical": lambda: pp.Pose(turn, slide),
        "Universal": lambda: pp.Pose(turn @ so3_exp(np.array(w) * rng.uniform(-1, 1))),
        "Planar": lambda: pp.Pose(turn, across),
        "PointOnLine": lambda: pp.Pose(any_turn, slide),
        "PointOnPlane": lambda: pp.Pose(any_turn, across),
        "PointOnCircle": lambda: pp.Pose(any_turn, across),
        "Distance": lambda: pp.Pose(any_turn, rng.uniform(-0.5, 0.5, 3)),
    }[kind]()


def random_constraint(model: pp.Model, q, kind: str, name: str, rng) -> c.Constraint | None:
    """A constraint of this kind between random bodies that holds at q; None if it cannot be."""
    single = [
        n for n, j in zip(model.joint_names, model.joints, strict=True)
        if j.kind in ("revolute", "prismatic", "helical")
    ]  # fmt: skip
    if kind == "Cam":
        if not single:
            return None
        names = [
            single[i] for i in rng.choice(len(single), size=min(len(single), 3), replace=False)
        ]
        x, y, z = rng.uniform(0.5, 2, 3)

        def law(*at):
            turned = sum(at[1:], start=z * at[0])
            return np.sin(x * at[0]) * np.exp(y * turned / 4) + turned**2

        return c.Cam(law, name=name, joints=names).fitted(model, q)
    if kind == "Coupling":
        if len(single) < 2:
            return None
        chosen = rng.choice(len(single), size=min(len(single), 3), replace=False)
        names = [single[i] for i in chosen]
        numbers = rng.uniform(0.5, 2, len(names))
        total = sum(x * q[model.q_slice(n)][0] for n, x in zip(names, numbers, strict=True))
        return c.Coupling(name=name, joints=names, coefficients=numbers, offset=float(total))
    places = [*model.body_names, "world"]
    a, b = (places[i] for i in rng.choice(len(places), size=2, replace=False))
    X_a = random_pose(rng)
    if kind == "Rows":
        points = [(x, rng.uniform(-0.3, 0.3, 3)) for x in (a, b)]
        axes = "world" if rng.random() < 0.5 else "body"
        return c.Rows(name=name, points=points, A=rng.standard_normal((2, 12)), axes=axes)
    u = random_axis(rng)
    w = np.cross(u, random_axis(rng))
    w = w / np.linalg.norm(w) + 0.3 * u
    moved = displaced(kind, u, w / np.linalg.norm(w), rng)
    poses = {n: X for n, X in zip(model.body_names, pp.poses(model, q), strict=True)}
    poses["world"] = np.eye(4)
    where = np.linalg.inv(poses[b]) @ poses[a] @ X_a.matrix @ moved.matrix
    X_b = pp.Pose(where[:3, :3], where[:3, 3])
    both = {"name": name, "a": (a, X_a), "b": (b, X_b)}
    if kind == "Distance":
        return c.Distance(float(np.linalg.norm(moved.translation)), **both)
    if kind == "PointOnCircle":
        return c.PointOnCircle(u, float(np.linalg.norm(moved.translation)), **both)
    if kind == "Universal":
        return c.Universal(u, w, **both)
    if kind in ("Weld", "Spherical"):
        return getattr(c, kind)(**both)
    return getattr(c, kind)(u, **both)


def random_system(
    seed: Any,
    bodies: int,
    kinds: Sequence[str],
    *,
    spare: int = 1,
    n_roots: int = 1,
    independent: bool = False,
    **options: Any,
) -> tuple[pp.System, np.ndarray]:
    """A system of a random tree, and a configuration at which all constraints hold.

    Kinds that would leave fewer than `spare` degrees of freedom are left out, with `independent`
    also those whose rows the others imply in part. Tests with the same seed share the system and
    what was compiled for it, under the same settings.
    """
    settings = tuple(sorted(x for x in os.environ.items() if x[0].startswith("PHIPSI_")))
    fixed = tuple((k, tuple(x) if isinstance(x, list) else x) for k, x in sorted(options.items()))
    given = (bodies, tuple(kinds), spare, n_roots, independent, fixed)
    system, q = _random_system(seed, *given, settings)
    return system, q.copy()


@lru_cache(maxsize=64)
def _random_system(
    seed: Any,
    bodies: int,
    kinds: Sequence[str],
    spare: int,
    n_roots: int,
    independent: bool,
    options: Sequence[tuple[str, Any]],
    settings: Any,
) -> tuple[pp.System, np.ndarray]:
    rng = np.random.default_rng(seed)
    again = deepcopy(rng)
    model = random_tree(rng, bodies, n_roots=n_roots, **dict(options))
    q = model.random_configuration(rng)
    # constraints are chosen on a draft, without machine code that would run once
    draft = random_tree(again, bodies, n_roots=n_roots, **dict(options))
    with patch.dict(os.environ, PHIPSI_BACKEND="reference"):
        chosen = _chosen(draft, q, kinds, spare, independent, rng)
    return pp.System(model, chosen), q


def _chosen(
    model: pp.Model,
    q: np.ndarray,
    kinds: Sequence[str],
    spare: int,
    independent: bool,
    rng: np.random.Generator,
) -> list[pp.constraints.Constraint]:
    room, chosen = model.nv - spare, []
    for i, kind in enumerate(kinds):
        if ROWS[kind] > room:
            continue
        found = random_constraint(model, q, kind, f"{kind.lower()}{i}", rng)
        if found is None:
            continue
        if independent:
            G = pp.System(model, [*chosen, found]).jacobian(q)
            if np.linalg.matrix_rank(G, tol=1e-3) < len(G):
                continue
        chosen.append(found)
        room -= ROWS[kind]
    return chosen


def admissible(system: pp.System, q, rng) -> np.ndarray:
    """Random rates with A J v = rates."""
    G = system.jacobian(q)
    v = rng.standard_normal(system.model.nv)
    return v - np.linalg.pinv(G, rcond=1e-10) @ (G @ v - system.rates)


def bias_by_complex_step(system: pp.System, q, v) -> np.ndarray:
    """d/dt(A J) v: the Jacobian differentiated along q̇ = N(q) v."""
    h = 1e-30
    moving = np.asarray(q) + 1j * h * system.model.qdot(q, v)
    return system.jacobian(moving).imag / h @ v


def kkt(system: pp.System, q, v, tau) -> tuple[np.ndarray, np.ndarray]:
    """vdot and the least-norm multipliers f of

        ℳ vdot + G* f = tau − bias,   G vdot = −d/dt(G) v

    by one dense least-squares solve with NumPy.
    """
    model = system.model
    M, G = pp.mass_matrix(model, q), system.jacobian(q)
    nv, m = model.nv, len(G)
    left = np.block([[M, G.T], [G, np.zeros((m, m))]])
    right = np.concatenate([tau - pp.bias_forces(model, q, v), -bias_by_complex_step(system, q, v)])
    # scaled by the masses, so that the rank is decided among numbers of one size
    size = np.concatenate([1 / np.sqrt(np.diag(M)), np.full(m, np.sqrt(np.median(np.diag(M))))])
    x = size * np.linalg.lstsq(left * np.outer(size, size), right * size, rcond=1e-12)[0]
    null = np.linalg.svd(G.T)[2][np.linalg.matrix_rank(G, tol=1e-9) :]
    f = x[nv:] - null.T @ (null @ x[nv:])
    return x[:nv], f
