"""Certify distances of convex shapes by support functions, in machine code: many random poses.

    python scripts/certify_shapes.py [poses] [pair …]

For every pair of kinds, ten pairs of random sizes at random poses. A distance is certified if its
points are on the surfaces and support planes along the normal, within 1e-9 m; of an overlap, the
separation along the normal is checked. docs/contact-validation.md records the result.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.spatial import ConvexHull

import phipsi as pp
from phipsi.contact import CONVEX

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from solid_supports import SHAPES, outside, support

MAKE = {
    "Sphere": lambda p: pp.shapes.Sphere(p[0]),
    "Capsule": lambda p: pp.shapes.Capsule(p[0], 2 * p[1]),
    "Cylinder": lambda p: pp.shapes.Cylinder(p[0], 2 * p[1]),
    "Ellipsoid": pp.shapes.Ellipsoid,
    "Box": lambda p: pp.shapes.Box(2 * np.asarray(p)),
    "ConvexMesh": lambda p: pp.shapes.ConvexMesh(np.reshape(p, (-1, 3))),
}
SIZES = 10


def off_surface(kind, p, R, x, point):
    """How far points are from the surface of one solid at many poses."""
    if kind != "ConvexMesh":
        return np.abs(outside(kind, np.broadcast_to(p, (len(x), len(p))), R, x, point))
    planes = ConvexHull(np.reshape(p, (-1, 3))).equations
    local = np.einsum("mij,mi->mj", R, point - x)
    return np.abs((local @ planes[:, :3].T + planes[:, 3]).max(axis=1))


def certify(kinds, poses):
    """Apart, not certified, overlapping, and the worst error of a separation in an overlap."""
    rng = np.random.default_rng(0)
    builder, sizes = pp.ModelBuilder(), []
    for i in range(SIZES):
        sizes.append([np.asarray(SHAPES[kind](rng), dtype=float) for kind in kinds])
        for side, kind, p in zip("ab", kinds, sizes[-1], strict=True):
            name = f"{side}{i}"
            builder.add_body(name, joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
            builder.add_shape(name, name, MAKE[kind](p))
    model = builder.build()
    contacts = pp.Contacts(model, pairs=[(f"a{i}", f"b{i}") for i in range(SIZES)])
    count = poses // SIZES
    q = model.random_configuration(rng, count)
    q.reshape(count, -1, 7)[..., 4:] = rng.uniform(-0.7, 0.7, (count, 2 * SIZES, 3))
    found, X = pp.distances(contacts, q), pp.poses(model, q)
    apart = failed = 0
    overlap = 0.0
    for k, pair in enumerate(contacts.pairs):
        gap, n = found.distance[:, k], found.normal[:, k]
        points = found.point_a[:, k], found.point_b[:, k]
        bad = np.linalg.norm(points[0] - points[1] - gap[:, None] * n, axis=1)
        sides = zip(kinds, sizes[k], (pair.body_a, pair.body_b), points, (-1, 1), strict=True)
        along = np.zeros(count)
        for kind, p, body, point, sign in sides:
            R, x = X[:, body, :3, :3], X[:, body, :3, 3]
            bad = np.maximum(bad, off_surface(kind, p, R, x, point))
            many = np.broadcast_to(p, (count, len(p)))
            top = support(kind, many, R, x, sign * n)
            bad = np.maximum(bad, np.abs(top - sign * np.einsum("mi,mi->m", n, point)))
            along += top
        is_apart = gap > 1e-9
        apart += int(is_apart.sum())
        failed += int((bad[is_apart] > 1e-9).sum())
        overlap = max(overlap, float(np.abs(along + gap)[~is_apart].max(initial=0.0)))
    return apart, failed, count * SIZES - apart, overlap


def main() -> None:
    """Print a line for every pair."""
    poses = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    wanted = sys.argv[2:]
    for kinds in CONVEX:
        name = "-".join(kinds)
        if wanted and name not in wanted:
            continue
        apart, failed, overlapping, worst = certify(kinds, poses)
        print(f"{name:22} apart {apart:6}, not certified {failed:3}; overlapping {overlapping:6}, "
              f"separation off by {worst:.1e} m", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
