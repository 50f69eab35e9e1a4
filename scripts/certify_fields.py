"""Certify contacts of bodies with height fields: many random poses against plain ways.

    python scripts/certify_fields.py [poses] [kind …]

Five roughnesses of fields, with a few bodies of random sizes on each; a fifth of the poses is at
the border, and the middle of every body is over the field. Depths reach from touching to half the
body. Nothing of the formulas is used:

- spheres, capsules, ellipsoids (tests/support/field_distances.py): the reported point is on the
  field and at the reported distance from the solid, and no triangle is nearer;
- boxes, cylinders, meshes (tests/support/field_depths.py): linear programs for all triangles at
  once give the deepest place, and prove it by bounds. One slot must have its gap and its normal.
  Corners must have the gap over the triangle below, and no other slot may be deeper.

A difference of more than 1e-9 m counts. Results are recorded in docs/contact-validation.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from scipy.spatial import ConvexHull

import phipsi as pp

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from field_depths import Body, deepest, differences
from field_distances import Solid, heights_at, missed, numbers_of, points_of, prism, triangles

SPACING = np.array([0.5, 0.4])
ROUGH = (0.0, 0.03, 0.1, 0.3, 0.6)  # of heights, m
WITHIN = 1e-9  # m
BORDER = 0.2  # of the poses are at the border


def mesh(rng):
    """A prism on three to seven corners, or the hull of up to 24 points on an ellipsoid."""
    if rng.uniform() < 0.5:
        k = rng.integers(3, 8)
        angles = 2 * np.pi * (np.arange(k) + rng.uniform(-0.3, 0.3, k)) / k
        outline = np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.1, 0.5, 2)
        return pp.shapes.ConvexMesh(prism(outline, rng.uniform(0.1, 1.2)))
    points = rng.normal(size=(rng.integers(4, 25), 3))
    points *= rng.uniform(0.1, 0.5, 3) / np.linalg.norm(points, axis=1)[:, None]
    return pp.shapes.ConvexMesh(points[ConvexHull(points).vertices])


ROUND = {
    "Sphere": lambda rng: pp.shapes.Sphere(rng.uniform(0.05, 0.3)),
    "Capsule": lambda rng: pp.shapes.Capsule(*rng.uniform((0.05, 0.1), (0.3, 0.6))),
    "Ellipsoid": lambda rng: pp.shapes.Ellipsoid(rng.uniform(0.05, 0.3, 3)),
}
SOLIDS = {
    "Box": lambda rng: pp.shapes.Box(rng.uniform(0.1, 1.2, 3)),
    "Cylinder": lambda rng: pp.shapes.Cylinder(*rng.uniform((0.05, 0.1), (0.5, 1.0))),
    "ConvexMesh": mesh,
}
SIZES = {"ConvexMesh": 6}  # each is compiled
POINTS = 150  # of a body: how high it is over the field


class Land:
    """A few bodies of a kind on one field: `gap`, `normal`, … of all poses of each of them."""

    def __init__(self, kind, rough, poses, rng):
        sizes = SIZES.get(kind, 10)
        self.heights = rough * rng.normal(size=(9, 10))
        self.surface = triangles(self.heights, SPACING)
        self.inner = (np.array(self.heights.shape) - 1) / 2 * SPACING
        self.shapes = [(ROUND | SOLIDS)[kind](rng) for _ in range(sizes)]
        builder, names = pp.ModelBuilder(), [f"a{i}" for i in range(sizes)]
        for name, shape in zip(names, self.shapes, strict=True):
            builder.add_body(name, joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
            builder.add_shape(name, name, shape)
        builder.add_shape("field", "world", pp.shapes.HeightField(self.heights, SPACING))
        model = builder.build()
        contacts = pp.Contacts(model, pairs=[(name, "field") for name in names])
        q = self._over_field(model, -(-poses // sizes), rng)
        self.X = pp.poses(model, q).swapaxes(0, 1)
        found = pp.contact_points(contacts, q)
        self.slots = contacts.n_slots // sizes
        self.found = [
            type(found)(*(x[:, self.slots * i : self.slots * (i + 1)] for x in found))
            for i in range(sizes)
        ]

    def _over_field(self, model, poses, rng):
        """Middles over the field, bodies from a little above it to half of them below."""
        q = model.random_configuration(rng, poses).reshape(poses, -1, 7)
        at = rng.uniform(-1, 1, (poses, len(self.shapes), 2))
        side = rng.choice([-1.0, 1.0], at.shape) * rng.uniform(0.9, 1.0, at.shape)
        axis = rng.integers(0, 2, at.shape[:2])[..., None] == np.arange(2)
        at = np.where(axis & (rng.uniform(size=at.shape[:2]) < BORDER)[..., None], side, at)
        q[..., 4:] = np.concatenate([at * self.inner, 0 * at[..., :1]], axis=-1)
        X = pp.poses(model, q.reshape(poses, -1))
        for i, shape in enumerate(self.shapes):
            inside, middle = _some_points(shape, rng)
            q[:, i, 4:6] -= (X[:, i, :3, :3] @ middle)[:, :2]
            points = np.einsum("mij,pj->mpi", X[:, i, :3, :3], inside) + q[:, i, None, 4:]
            over = (np.abs(points[..., :2]) < self.inner).all(axis=-1)
            ground = heights_at(self.heights, SPACING, points.reshape(-1, 3)).reshape(over.shape)
            clear = np.where(over, points[..., 2] - ground, 1e6).min(axis=1)
            shallow = rng.uniform(-0.06, 0.02, poses)
            deep = -rng.uniform(0, 0.5, poses) * np.ptp(inside, axis=0).min()
            depth = np.where(rng.uniform(size=poses) < 0.75, shallow, deep)
            q[:, i, 6] = np.where(clear < 1e5, depth - clear, 0.0)
        return q.reshape(poses, -1)

    def heights_below(self, p):
        """Heights of the field at places (…, 3), and whether they are over it."""
        there = (np.abs(p[..., :2]) <= self.inner).all(axis=-1)
        at = np.clip(p[..., :2], -self.inner, self.inner)
        found = heights_at(self.heights, SPACING, at.reshape(-1, 2))
        return found.reshape(p.shape[:-1]), there


def _some_points(shape, rng):
    """Some points in a shape, and its middle, below which the field is looked for."""
    p = np.array(shape.numbers if shape.kind != "ConvexMesh" else 0.0)
    if shape.kind in ROUND:
        half = {"Sphere": (p[0],) * 3, "Capsule": (p[0], p[0], p[-1] + p[0]), "Ellipsoid": p}
        points = rng.normal(size=(POINTS, 3))
        points *= half[shape.kind] / np.linalg.norm(points, axis=1)[:, None]
        return points, np.zeros(3)
    p = numbers_of(shape)
    points = points_of(shape.kind, p)
    corners = p if shape.kind == "ConvexMesh" else p[:0].reshape(0, 3)
    middle = p.mean(axis=0) if shape.kind == "ConvexMesh" else np.zeros(3)
    return np.concatenate([corners, rng.permutation(points)[:POINTS]]), middle


# ---- spheres, capsules, ellipsoids ---------------------------------------------------------------


def certify_round(land, i):
    """Overlaps, those not seen, invented ones; certified, wrong, deep poses; the worst error.

    Deep are overlaps by more than the least radius of curvature, of which only the sign is checked,
    and gaps of more than a spacing are far: they are not certified.
    """
    shape, X, found = land.shapes[i], land.X[i], land.found[i]
    solid = Solid(shape.kind, shape.numbers, X[:, :3, :3], X[:, :3, 3])
    gap = found.gap.min(axis=1)
    lost = missed(solid, land.surface, np.minimum(gap, SPACING.max()))
    overlaps = gap < 0
    below = np.flatnonzero(overlaps)
    overlaps[below] = missed(solid.some(below), land.surface, np.zeros(len(below))) > 0
    for k in np.flatnonzero((gap < -WITHIN) & ~overlaps):  # cut by faces, far from their edges
        overlaps[k] = sampled(solid, k, land.surface) < 0
    invented = (gap < -WITHIN) & ~overlaps
    unseen = (gap >= 0) & (lost > gap + WITHIN)
    deep, far = np.minimum(gap, gap - lost) <= -0.95 * solid.deepest, gap > SPACING.max()
    error = np.zeros(len(gap))
    for k in range(land.slots):
        on = found.point_b[:, k]
        ground, _ = land.heights_below(on)
        worst = np.abs(on[:, 2] - ground)
        if shape.kind != "Capsule":  # slots of its ends are those of balls
            worst = np.maximum(worst, np.abs(solid.distance(on)[0] - found.gap[:, k]))
        error = np.maximum(error, np.where((found.gap[:, k] < 1e5) & ~deep & ~far, worst, 0.0))
    at = np.argmin(found.gap, axis=1)
    nearest = solid.distance(found.point_b[np.arange(len(gap)), at])[0]
    error = np.maximum(np.where(deep, 0.0, np.abs(nearest - gap)), np.maximum(error, lost))
    for k in np.flatnonzero((gap < 0) & ~deep & (error > WITHIN)):
        deep[k] = sampled(solid, k, land.surface) <= -0.95 * solid.deepest  # inside a face
    error, sure = np.where(deep | far, 0.0, error), ~deep & ~far
    counts = overlaps, unseen, invented, sure, sure & (error > WITHIN), deep
    return np.array([x.sum() for x in counts]), error.max()


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


# ---- boxes, cylinders, meshes --------------------------------------------------------------------


def certify_solid(land, i):
    """The same; deep are overlaps whose nearest faces are above the field, or as far on both sides.

    These push down or nowhere: only the sign is checked.
    """
    shape, X, found = land.shapes[i], land.X[i], land.found[i]
    body, R, x = Body(shape.kind, numbers_of(shape)), X[:, :3, :3], X[:, :3, 3]
    truth = deepest(body, land.surface, R, x)
    if truth.error.max() > 0.01 * WITHIN:
        raise AssertionError(f"a linear program is off by up to {truth.error.max():.1e} m")
    error, too_deep = differences(body, truth, found.gap, found.normal, R, x)
    corner = found.point_a[:, :-4]
    ground, there = land.heights_below(corner)
    over = found.normal[:, :-4, 2] * (corner[..., 2] - ground)
    off = np.abs(over - found.gap[:, :-4])
    error = np.maximum(error, np.where(there & (found.gap[:, :-4] < 1e5), off, 0.0).max(axis=1))
    least = found.gap.min(axis=1)
    overlaps, apart = truth.phi < -WITHIN, truth.phi > WITHIN
    pushes_up = overlaps & (truth.n[:, 2] > 0)
    error = np.where(pushes_up, np.maximum(error, too_deep), 0.0)
    counts = (overlaps, overlaps & (least >= 0), apart & (least < -WITHIN), pushes_up,
              pushes_up & (error > WITHIN), overlaps & ~pushes_up)  # fmt: skip
    return np.array([y.sum() for y in counts]), error.max()


def show(text):
    """Progress, to a screen only."""
    if sys.stderr.isatty():
        print(text, end="", file=sys.stderr, flush=True)


def certify(kind, poses, seed=0):
    """A row for all roughnesses of a kind: poses, seven counts, the worst error, seconds."""
    rng, begin = np.random.default_rng(seed), time.process_time()
    counts, worst, done = np.zeros(6, int), 0.0, 0
    for rough in ROUGH:
        land = Land(kind, rough, poses // len(ROUGH), rng)
        one = certify_solid if kind in SOLIDS else certify_round
        for i in range(len(land.shapes)):
            some, error = one(land, i)
            counts, worst, done = counts + some, max(worst, error), done + len(land.X[i])
            show(f"\r{kind} {done} of {poses}")
    show("\r")
    return done, *counts, worst, time.process_time() - begin


def main():
    """A line of the table for each kind."""
    poses = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print("| body | poses | overlaps | missed | invented | certified | wrong | deep | "
          "largest error, m | time, s |\n|---|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for kind in sys.argv[2:] or (*ROUND, *SOLIDS):
        *row, worst, seconds = certify(kind, poses)
        text = " | ".join(f"{x:,}" for x in row)
        print(f"| {kind} | {text} | {worst:.0e} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
