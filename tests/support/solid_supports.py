"""Distances of convex solids by a second route: a certificate from support functions.

Points x_a of A and x_b of B with x_a − x_b = g n are the nearest ones if no point of A is lower
than x_a along n and no point of B is higher than x_b. Nothing of the formulas is used here.
"""

import numpy as np
from numpy.linalg import norm
from scipy.spatial import ConvexHull

SHAPES = {
    "Sphere": lambda rng: [rng.uniform(0.05, 0.5)],
    "Capsule": lambda rng: rng.uniform(0.05, 0.5, 2),
    "Cylinder": lambda rng: rng.uniform(0.05, 0.5, 2),
    "Ellipsoid": lambda rng: rng.uniform(0.05, 0.5, 3),
    "Box": lambda rng: rng.uniform(0.05, 0.5, 3),
    "ConvexMesh": lambda rng: rng.uniform(-0.5, 0.5, 60),
    "Plane": lambda rng: [],
}


def support(kind, p, R, x, d):
    """max over the solid of d · point, for arrays (m, …) of numbers, poses and directions."""
    local = np.einsum("mij,mi->mj", R, d)
    along = np.einsum("mi,mi->m", x, d)
    if kind == "Sphere":
        return along + p[:, 0] * norm(d, axis=1)
    if kind == "Capsule":
        return along + p[:, 0] * norm(d, axis=1) + p[:, 1] * np.abs(local[:, 2])
    if kind == "Cylinder":
        return along + p[:, 0] * norm(local[:, :2], axis=1) + p[:, 1] * np.abs(local[:, 2])
    if kind == "Ellipsoid":
        return along + norm(p * local, axis=1)
    if kind == "Box":
        return along + np.abs(p * local).sum(axis=1)
    if kind == "ConvexMesh":
        vertices = p.reshape(len(p), -1, 3)
        return along + np.einsum("mvi,mi->mv", vertices, local).max(axis=1)
    if kind == "Plane":  # of its own normal only
        assert np.allclose(local, [0, 0, 1], atol=1e-12)
        return along
    raise AssertionError(kind)


def outside(kind, p, R, x, point):
    """How far points (m, 3) are outside the solids, in m: 0 on the surface, negative inside."""
    local = np.einsum("mij,mi->mj", R, point - x)
    if kind == "Sphere":
        return norm(local, axis=1) - p[:, 0]
    if kind == "Capsule":
        z = local[:, 2] - np.clip(local[:, 2], -p[:, 1], p[:, 1])
        return norm(np.stack([local[:, 0], local[:, 1], z], 1), axis=1) - p[:, 0]
    if kind == "Cylinder":
        return np.maximum(norm(local[:, :2], axis=1) - p[:, 0], np.abs(local[:, 2]) - p[:, 1])
    if kind == "Ellipsoid":  # first order in the distance
        s = local / p
        return (norm(s, axis=1) - 1) * norm(s, axis=1) / norm(s / p, axis=1)
    if kind == "Box":
        return (np.abs(local) - p).max(axis=1)
    if kind == "ConvexMesh":  # of the faces of the hull
        hulls = [ConvexHull(x).equations for x in p.reshape(len(p), -1, 3)]
        return np.array([(h[:, :3] @ x + h[:, 3]).max() for h, x in zip(hulls, local, strict=True)])
    if kind == "Plane":
        return local[:, 2]
    raise AssertionError(kind)


def certified(kinds, a, b, slot, tolerance=1e-10):
    """Whether a slot (gap, normal, x_a, x_b) is the contact of two solids, by element (m,).

    Outside each other, the distance; in an overlap, that moving a by −gap along n separates them
    and that the points are on the surfaces.
    """
    gap, n, x_a, x_b = slot
    good = np.abs(norm(n, axis=1) - 1) < tolerance
    good &= norm(x_a - x_b - gap[:, None] * n, axis=1) < tolerance
    for kind, solid, point in ((kinds[0], a, x_a), (kinds[1], b, x_b)):
        good &= np.abs(outside(kind, *solid, point)) < tolerance
    lowest = -support(kinds[0], *a, -n)
    good &= np.abs(lowest - np.einsum("mi,mi->m", n, x_a)) < tolerance
    highest = support(kinds[1], *b, n)
    return good & (np.abs(highest - np.einsum("mi,mi->m", n, x_b)) < tolerance)
