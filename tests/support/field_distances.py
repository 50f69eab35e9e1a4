"""Distances of solids from the triangles of a height field, the plain way.

The signed distance φ of a point to a convex solid is a convex function. On a triangle it is least
inside, where the normal of the triangle is that of the solid, or on an edge, where bisection finds
the place. A reported distance is right if its point is on the field, φ has that value there, and no
triangle has less.
"""

from itertools import product

import numpy as np


def triangles(heights, spacing):
    """All triangles (t, 3, 3), in the axes of the field; seen from above, counter-clockwise."""
    n, m = heights.shape
    x = (np.arange(n) - (n - 1) / 2) * spacing[0]
    y = (np.arange(m) - (m - 1) / 2) * spacing[1]
    grid = np.stack([*np.meshgrid(x, y, indexing="ij"), heights], -1)
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
    return np.concatenate([np.stack([a, b, c], 2), np.stack([a, c, d], 2)]).reshape(-1, 3, 3)


def heights_at(heights, spacing, p):
    """Heights (m,) of the surface at places (m, 2) over the field."""
    u = [p[:, k] / spacing[k] + (heights.shape[k] - 1) / 2 for k in range(2)]
    i, j = (np.clip(np.floor(x), 0, heights.shape[k] - 2).astype(int) for k, x in enumerate(u))
    s, t = u[0] - i, u[1] - j
    a, c = heights[i, j], heights[i + 1, j + 1]
    low = a + s * (heights[i + 1, j] - a) + t * (c - heights[i + 1, j])
    high = a + t * (heights[i, j + 1] - a) + s * (c - heights[i, j + 1])
    return np.where(t <= s, low, high)


class Solid:
    """A sphere (r), capsule (r, l/2) or ellipsoid (half axes) at poses R (m, 3, 3), x (m, 3)."""

    def __init__(self, kind, p, R, x):
        self.kind, self.p, self.R, self.x = kind, np.asarray(p, float), R, x

    def some(self, which):
        """At some of the poses."""
        return Solid(self.kind, self.p, self.R[which], self.x[which])

    @property
    def size(self):
        """The radius of a ball around it."""
        return self.p.sum() if self.kind == "Capsule" else self.p.max()

    @property
    def deepest(self):
        """Depth to which the least φ is where a normal is."""
        return self.p.min() ** 2 / self.p.max() if self.kind == "Ellipsoid" else self.p[0]

    def lowest(self, n):
        """The points (m, 3) that are lowest along n (m, 3)."""
        if self.kind == "Ellipsoid":
            s = self.p * np.einsum("mij,mi->mj", self.R, n)
            s = self.p * s / np.linalg.norm(s, axis=1)[:, None]
            return self.x - np.einsum("mij,mj->mi", self.R, s)
        half = self.p[1] if self.kind == "Capsule" else 0.0
        axis = self.R[:, :, 2]
        end = half * np.sign(np.sum(axis * n, axis=1))
        return self.x - end[:, None] * axis - self.p[0] * n

    def distance(self, y):
        """φ (m,) and its gradient (m, 3) at points."""
        if self.kind == "Ellipsoid":
            return self._ellipsoid(y)
        d = y - self.x
        if self.kind == "Capsule":
            axis = self.R[:, :, 2]
            s = np.clip(np.sum(d * axis, axis=1), -self.p[1], self.p[1])
            d = d - s[:, None] * axis
        length = np.linalg.norm(d, axis=1)
        return length - self.p[0], d / np.maximum(length, 1e-300)[:, None]

    def _ellipsoid(self, y):
        """Newton's steps for the multiplier, then a check that the point is the nearest."""
        local = np.einsum("mij,mi->mj", self.R, y - self.x)
        s = self.p**2
        shift = np.max(self.p * np.abs(local) - s, axis=1)
        for _ in range(20):
            inverse = 1 / np.maximum(s + shift[:, None], 1e-14 * s.max())
            w = s * (local * inverse) ** 2
            total = w.sum(axis=1)
            step = total * (np.sqrt(total) - 1) / np.maximum((w * inverse).sum(axis=1), 1e-300)
            shift = shift + step
            if (np.abs(step) < 1e-13 * (s.max() + np.abs(shift))).all():
                break
        normal = local / np.maximum(s + shift[:, None], 1e-14 * s.max())
        point = s * normal
        normal = normal / np.linalg.norm(normal, axis=1)[:, None]
        value = np.sum(normal * (local - point), axis=1)
        return value, np.einsum("mij,mj->mi", self.R, normal)


def least_on_edge(solid, p, q, gap):
    """The least φ (m,) on edges from p to q (m, 3), or what is not below a gap (m,).

    φ is convex: its tangents at two places bound it from below, between which bisection of its
    slope finds the least.
    """

    def at(rows, t):
        value, slope = solid.some(rows).distance(p[rows] + t[:, None] * (q - p)[rows])
        return value, np.sum(slope * (q - p)[rows], axis=1)

    rows = np.arange(len(p))
    low, high = np.zeros(len(p)), np.ones(len(p))
    (f, df), (g, dg) = at(rows, low), at(rows, high)
    out = np.minimum(f, g)
    left = (df < 0) & (dg > 0)
    for _ in range(50):
        place = (g - f + df * low - dg * high) / np.where(left, df - dg, 1.0)
        left &= f + df * (place - low) < gap[rows]
        rows, low, high, f, df, g, dg = (x[left] for x in (rows, low, high, f, df, g, dg))
        if not len(rows):
            break
        t = (low + high) / 2
        value, slope = at(rows, t)
        out[rows] = np.minimum(out[rows], value)
        falls = slope < 0
        low, f, df = (np.where(falls, x, y) for x, y in ((t, low), (value, f), (slope, df)))
        high, g, dg = (np.where(falls, y, x) for x, y in ((t, high), (value, g), (slope, dg)))
        left = np.ones(len(rows), bool)
    return out


def over_plane(solid, corners):
    """The least φ (m,) on planes of triangles (m, 3, 3), where (m, 3), and their normals."""
    a = corners[:, 0]
    n = np.cross(corners[:, 1] - a, corners[:, 2] - a)
    n = n / np.linalg.norm(n, axis=1)[:, None]
    found = []
    for side in (n, -n):
        x = solid.lowest(side)
        f = np.sum((x - a) * side, axis=1)
        found.append((f, x - f[:, None] * side))
    (f, x), (g, y) = found
    return np.maximum(f, g), np.where((f > g)[:, None], x, y), n


def least_on(solid, corners, gap):
    """The least φ (m,) on triangles (m, 3, 3), one for every pose, if it is below a gap (m,)."""
    _, foot, n = over_plane(solid, corners)
    sides = [(corners[:, k], corners[:, (k + 1) % 3]) for k in range(3)]
    inside = np.ones(len(foot), bool)
    for p, q in sides:
        inside &= np.sum((foot - p) * np.cross(n, q - p), axis=1) >= 0
    edges = np.min([least_on_edge(solid, p, q, gap) for p, q in sides], axis=0)
    return np.where(inside, np.minimum(solid.distance(foot)[0], edges), edges)


def missed(solid, surface, gap):
    """By how much (m,) some triangle is nearer than a gap."""
    middle = surface.mean(axis=1)
    reach = np.linalg.norm(surface - middle[:, None], axis=2).max(axis=1) + solid.size
    away = np.linalg.norm(solid.x[:, None] - middle, axis=2)
    pose, which = np.nonzero(away < reach + np.maximum(gap, 0)[:, None])
    near = over_plane(solid.some(pose), surface[which])[0] < gap[pose]
    pose, which = pose[near], which[near]
    out = np.zeros(len(gap))
    if len(pose):
        np.maximum.at(out, pose, gap[pose] - least_on(solid.some(pose), surface[which], gap[pose]))
    return out


def numbers_of(shape):
    """Half edges of a box, radius and half length of a cylinder, vertices of a mesh."""
    return np.array(shape.vertices if shape.kind == "ConvexMesh" else shape.numbers)


def prism(outline, length):
    """Vertices between outlines (k, 2) at both ends of an axis x: three planes at every corner."""
    return np.array([(x, *yz) for x in (-length / 2, length / 2) for yz in outline])


def points_of(kind, p):
    """Points (m, 3) in a solid with the numbers p, corners and rims among them."""
    grid = np.array(list(product(np.linspace(-1, 1, 13), repeat=3)))
    if kind == "ConvexMesh":
        shares = np.random.default_rng(0).dirichlet(np.full(len(p), 0.3), 2000)
        return np.concatenate([p, shares @ p])
    if kind == "Cylinder":
        grid[:, :2] /= np.maximum(np.linalg.norm(grid[:, :2], axis=1), 1.0)[:, None]
        return grid * p[[0, 0, 1]]
    return grid * p
