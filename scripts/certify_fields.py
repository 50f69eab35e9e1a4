"""Certify contacts of bodies with height fields: many random poses.

    python scripts/certify_fields.py [poses] [kind …]

Fields of five roughnesses, ten sizes each. The distance of a sphere, capsule or ellipsoid is
certified if its point is on the field, the point's distance from the solid is the same, and no
triangle is nearer, within 1e-9 m, by the plain way of tests/support/field_distances.py. Boxes,
cylinders and meshes, up to 0.06 m deep, are certified by linear programs for every triangle:
whether they overlap, and the depth of the deepest place. They take longer: 1000 poses in minutes.
The result is recorded in docs/contact.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import phipsi as pp

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from field_distances import (
    Solid,
    depths,
    heights_at,
    least_in,
    missed,
    numbers_of,
    points_of,
    prism,
    triangles,
)

KINDS = {
    "Sphere": (1, lambda p: pp.shapes.Sphere(p[0])),
    "Capsule": (2, lambda p: pp.shapes.Capsule(p[0], 2 * p[1])),
    "Ellipsoid": (3, pp.shapes.Ellipsoid),
}
SOLIDS = {
    "Box": lambda rng: pp.shapes.Box(rng.uniform(0.1, 1.2, 3)),
    "Cylinder": lambda rng: pp.shapes.Cylinder(*rng.uniform((0.05, 0.1), (0.5, 1.0))),
    "ConvexMesh": lambda rng: pp.shapes.ConvexMesh(prism(outline(rng), rng.uniform(0.1, 1.2))),
}
SPACING = np.array([0.5, 0.4])
ROUGH = (0.0, 0.03, 0.1, 0.3, 0.6)  # of heights, m
SIZES = 10
SHALLOW = 0.5  # of the least number of a solid: depths up to which they are compared


def certify(kind, heights, p, poses, rng):
    """Near, deep, far and wrong poses, the worst error of a point, and the worst miss.

    Deep are overlaps by more than the least radius of curvature, of which only the sign is checked.
    """
    builder = pp.ModelBuilder()
    builder.add_body("a", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
    builder.add_shape("a", "a", KINDS[kind][1](p))
    builder.add_shape("field", "world", pp.shapes.HeightField(heights, SPACING))
    model = builder.build()
    contacts = pp.Contacts(model)
    q = model.random_configuration(rng, poses)
    inner = (np.array(heights.shape) - 1) / 2 * SPACING - p.sum() - SPACING.max()
    q[:, 4:6] = rng.uniform(-inner, inner, (poses, 2))
    q[:, 6] = heights_at(heights, SPACING, q[:, 4:6]) + rng.uniform(0, 1.2 * p.sum(), poses)
    X = pp.poses(model, q)[:, 0]
    solid = Solid(kind, p, X[:, :3, :3], X[:, :3, 3])
    found = pp.contact_points(contacts, q)
    gap = found.gap.min(axis=1)
    surface = triangles(heights, SPACING)
    lost = missed(solid, surface, np.minimum(gap, SPACING.max()))
    overlaps = gap < 0
    below = np.flatnonzero(overlaps)
    overlaps[below] = missed(solid.some(below), surface, np.zeros(len(below))) > 0
    for i in np.flatnonzero((gap < -1e-9) & ~overlaps):  # cut by faces, far from their edges
        overlaps[i] = sampled(solid, i, surface) < 0
    wrong = (gap < -1e-9) & ~overlaps | (gap >= 0) & (lost > gap + 1e-9)
    deep, far = np.minimum(gap, gap - lost) <= -0.95 * solid.deepest, gap > SPACING.max()
    value = np.zeros(poses)
    for k in range(contacts.n_slots):
        on = found.point_b[:, k]
        worst = np.abs(on[:, 2] - heights_at(heights, SPACING, on[:, :2]))
        if kind != "Capsule":  # slots of its ends are those of balls
            worst = np.maximum(worst, np.abs(solid.distance(on)[0] - found.gap[:, k]))
        value = np.maximum(value, np.where((found.gap[:, k] < 1e5) & ~deep, worst, 0.0))
    at = np.argmin(found.gap, axis=1)
    nearest = solid.distance(found.point_b[np.arange(poses), at])[0]
    value = np.maximum(value, np.where(deep, 0.0, np.abs(nearest - gap)))
    for i in np.flatnonzero((gap < 0) & ~deep & ((value > 1e-9) | (lost > 1e-9))):
        deep[i] = sampled(solid, i, surface) <= -0.95 * solid.deepest  # inside a face
    value, lost = np.where(deep, 0.0, value), np.where(deep, 0.0, lost)
    counts = (~deep & ~far).sum(), deep.sum(), far.sum(), wrong.sum()
    return np.array(counts), value.max(), lost.max()


def sampled(solid, i, surface):
    """The least φ of a solid at one pose on a fine sampling of all triangles."""
    u, v = (x.ravel() for x in np.meshgrid(*[np.linspace(0, 1, 60)] * 2))
    u, v = u[u + v <= 1], v[u + v <= 1]
    a, b, c = surface[:, 0], surface[:, 1], surface[:, 2]
    points = a[:, None] + u[:, None] * (b - a)[:, None] + v[:, None] * (c - a)[:, None]
    points = points.reshape(-1, 3)
    points = points[np.linalg.norm(points - solid.x[i], axis=1) < solid.size]
    values = solid.some(np.full(len(points), i)).distance(points)[0]
    return values.min(initial=np.inf)


def outline(rng):
    """Three to seven corners (k, 2) on an ellipse."""
    angles = 2 * np.pi * (np.arange(k := rng.integers(3, 8)) + rng.uniform(-0.3, 0.3, k)) / k
    return np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.1, 0.5, 2)


def certify_solid(shape, heights, poses, rng):
    """Overlaps, those that are not seen, those that are none; shallow ones; the worst depth."""
    builder = pp.ModelBuilder()
    builder.add_body("a", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
    builder.add_shape("a", "a", shape)
    builder.add_shape("field", "world", pp.shapes.HeightField(heights, SPACING))
    model = builder.build()
    q, p = model.random_configuration(rng, poses), numbers_of(shape)
    inner = (np.array(heights.shape) - 1) / 2 * SPACING
    q[:, 4:6], q[:, 6] = rng.uniform(-0.97 * inner, 0.97 * inner, (poses, 2)), 0.0
    X, inside = pp.poses(model, q)[:, 0], points_of(shape.kind, p)
    for one, x in zip(q, X, strict=True):
        points = inside @ x[:3, :3].T + x[:3, 3]
        points = points[(np.abs(points[:, :2]) < inner).all(axis=1)]
        clear = points[:, 2] - heights_at(heights, SPACING, points[:, :2])
        one[6] = rng.uniform(-0.06, 0.004) - clear.min()
    X, surface = pp.poses(model, q)[:, 0], triangles(heights, SPACING)
    found = pp.contact_points(pp.Contacts(model), q)
    counts, worst = np.zeros(4, int), 0.0
    for gap, n, x in zip(found.gap, found.normal, X, strict=True):
        truth = least_in(surface, shape.kind, p, x[:3, :3], x[:3, 3])
        if truth > -1e-7:
            counts[2] += gap.min() < -1e-6 and truth > 1e-7
            continue
        counts += (1, gap.min() >= 0, 0, truth > -SHALLOW * np.abs(p).min())
        if gap.min() < 0 and truth > -SHALLOW * np.abs(p).min():
            own = depths(shape.kind, p, gap, n @ x[:3, :3])
            worst = max(worst, own.min() - truth, truth - own[-4:].min())
    return counts, worst


def certify_solids(kind, poses):
    """All roughnesses and sizes of a kind."""
    rng = np.random.default_rng(0)
    for rough in ROUGH[1:]:
        counts, worst = np.zeros(4, int), 0.0
        for _ in range(SIZES):
            heights, shape = rough * rng.normal(size=(7, 8)), SOLIDS[kind](rng)
            some, error = certify_solid(shape, heights, poses // (len(ROUGH) - 1) // SIZES, rng)
            counts, worst = counts + some, max(worst, error)
        print(
            f"{kind:10} heights {rough:4} m: {counts[0]} overlaps, {counts[1]} not seen, "
            f"{counts[2]} that are none; of {counts[3]} shallow ones, depths off by {worst:.1e} m",
            flush=True,
        )


def main():
    """All kinds."""
    poses = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for kind in sys.argv[2:] or (*KINDS, *SOLIDS):
        if kind in SOLIDS:
            certify_solids(kind, poses)
            continue
        rng = np.random.default_rng(0)
        for rough in ROUGH:
            counts, value, lost = np.zeros(4, int), 0.0, 0.0
            for _ in range(SIZES):
                p = rng.uniform(0.05, 0.3, KINDS[kind][0])
                heights = rough * rng.normal(size=(10, 12))
                some, *errors = certify(kind, heights, p, poses // len(ROUGH) // SIZES, rng)
                counts, value, lost = counts + some, max(value, errors[0]), max(lost, errors[1])
            print(
                f"{kind:10} heights {rough:4} m: "
                f"{counts[0]} near, {counts[1]} deep, {counts[2]} far; "
                f"points off by {value:.1e} m, nearer triangles by {lost:.1e} m; "
                f"overlaps that are none, or not seen: {counts[3]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
