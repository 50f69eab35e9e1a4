"""How deep a height field reaches into boxes, cylinders and convex meshes, the plain way.

φ(x), the largest of the signed distances of a point x from the planes of a solid's faces, is exact
inside the solid; a cylinder has a plane for every point of its side. On a triangle the least φ is
a linear program in three numbers: two for the place, and s, which no plane exceeds. All triangles
of all poses are solved at once by exchange of one of three rows: what the place exceeds most comes
in. s is a lower bound all the time, φ at the place an upper one: both together prove the result.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

_DONE = 1e-14  # m: what is exceeded by less is not
_MOST = 120  # exchanges
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Body:
    """A box (half edges), a cylinder (radius, half length) or a convex mesh (vertices)."""

    def __init__(self, kind, p):
        self.kind, self.p = kind, np.asarray(p, float)
        if kind == "Cylinder":
            self.planes = np.array([[0, 0, 1, self.p[1]], [0, 0, -1, self.p[1]]])
            self.size = np.hypot(*self.p)
        elif kind == "Box":
            self.planes = np.c_[np.concatenate([np.eye(3), -np.eye(3)]), np.r_[self.p, self.p]]
            self.size = np.linalg.norm(self.p)
        else:
            rows = ConvexHull(self.p).equations
            keep = np.unique(np.round(rows, 9), axis=0, return_index=True)[1]
            self.planes = np.c_[rows[keep, :3], -rows[keep, 3]]
            self.size = np.linalg.norm(self.p, axis=1).max()

    def highest(self, x):
        """φ (m,) at places (m, 3) in the axes of the solid, and the planes (m, 4) that have it."""
        values = x @ self.planes[:, :3].T - self.planes[:, 3]
        k = values.argmax(axis=1)
        value, rows = np.take_along_axis(values, k[:, None], 1)[:, 0], self.planes[k]
        if self.kind == "Cylinder":
            side, around = self.around(x)
            rows = np.where((side > value)[:, None], around, rows)
            value = np.maximum(side, value)
        return value, rows

    def around(self, x):
        """The same of the side of a cylinder alone."""
        length = np.hypot(x[:, 0], x[:, 1])
        u = x[:, :2] / np.maximum(length, 1e-300)[:, None]
        return length - self.p[0], np.c_[u, 0 * length, np.full(len(x), self.p[0])]

    def lowest(self, n):
        """Points (m, 3) that are lowest along n (m, 3), all in the axes of the solid."""
        if self.kind == "Box":
            return -np.sign(n) * self.p
        if self.kind == "Cylinder":
            u = n[:, :2] / np.maximum(np.hypot(n[:, 0], n[:, 1]), 1e-300)[:, None]
            return np.c_[-self.p[0] * u, -self.p[1] * np.sign(n[:, 2])]
        return self.p[(n @ self.p.T).argmin(axis=1)]

    def lifted(self, n, phi, height):
        """How much (m,) the body with planes moved by φ (m,) is below a height (m,) along n (m, 3).

        Of a mesh, a bound by the planes at its lowest corner, and a program where that is not 0.
        """
        if self.kind == "Box":
            low = -np.sum(np.abs(n) * (self.p + phi[:, None]), axis=1)
            return height - low
        if self.kind == "Cylinder":
            low = np.hypot(n[:, 0], n[:, 1]) * (self.p[0] + phi) + np.abs(n[:, 2]) * (
                self.p[1] + phi
            )
            return height + low
        out = height - np.sum(n * self.lowest(n), axis=1) + phi * self._shares(n)
        for i in np.flatnonzero(out > 0):
            found = linprog(
                n[i], self.planes[:, :3], self.planes[:, 3] + phi[i], bounds=(None, None)
            )
            out[i] = height[i] - found.fun if found.status == 0 else 0.0
        return out

    def _shares(self, n):
        """Σ c (m,) of −n = Σ c_k a_k, c ≥ 0, with planes at the lowest corner along n."""
        at, out = (n @ self.p.T).argmin(axis=1), np.zeros(len(n))
        for k, corner in enumerate(self.p):
            i = np.flatnonzero(at == k)
            a = self.planes[np.abs(self.planes[:, :3] @ corner - self.planes[:, 3]) < 1e-9, :3]
            for three in combinations(range(len(a)), 3):
                if abs(np.linalg.det(a[list(three)])) > 1e-9:
                    c = np.linalg.solve(a[list(three)].T, -n[i].T)
                    out[i] = np.where((c >= 0).all(axis=0), c.sum(axis=0), out[i])
        return out


class Deepest(NamedTuple):
    """The least φ (m,) of poses on the field, in m, and `error` (m,), by how much it may be less.

    `place` (m, 3) and `n` (m, 3) there, which leads the solid out, up if its nearest faces are
    below the field; 0 in the middle between opposite faces, where none is nearer. World axes.
    """

    phi: np.ndarray
    place: np.ndarray
    n: np.ndarray
    error: np.ndarray


def deepest(body, surface, R, x, batch=500):
    """The least φ of a body at poses R (m, 3, 3), x (m, 3) on triangles (t, 3, 3)."""
    parts = [
        _deepest(body, surface, R[k : k + batch], x[k : k + batch]) for k in range(0, len(x), batch)
    ]
    return Deepest(*(np.concatenate(y) for y in zip(*parts, strict=True)))


def _deepest(body, surface, R, x):
    m, t = len(x), len(surface)
    local = np.einsum("mtci,mij->mtcj", surface[None] - x[:, None, None], R)
    middle = local.mean(axis=2)
    reach = np.linalg.norm(surface - surface.mean(axis=1, keepdims=True), axis=2).max(axis=1)
    value = body.highest(middle.reshape(-1, 3))[0].reshape(m, t)
    least = value.min(axis=1)  # upper bounds
    pose, which = np.nonzero(value - reach < least[:, None])
    corners = local[pose, which]
    np.minimum.at(least, pose, body.highest(corners.reshape(-1, 3))[0].reshape(-1, 3).min(axis=1))
    keep = (value - reach)[pose, which] < least[pose]
    pose, corners = pose[keep], corners[keep]
    phi, low, place, g = _programs(body, corners, pose, least)
    order = np.lexsort((phi, pose))
    best = order[np.searchsorted(pose[order], np.arange(m))]
    found = np.full(m, np.inf)
    np.minimum.at(found, pose, low)
    n = -np.einsum("mij,mj->mi", R, g[best])
    length = np.linalg.norm(n, axis=1)[:, None]
    n = np.where(length > 1e-9, n / np.maximum(length, 1e-9), 0.0)
    at = x + np.einsum("mij,mj->mi", R, place[best])
    return Deepest(phi[best], at, n, phi[best] - found)


def _programs(body, corners, pose, least):
    """φ, its lower bound, the place and Σ λ a of the planes there, for triangles (k, 3, 3).

    Triangles whose bound exceeds what another one of the same pose has are given up.
    """
    a, b, c = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    k = len(a)

    def rows_of(i, planes):
        """Planes (k, 4) as rows (k, 4) for (u, v, s): the last is the right-hand side."""
        dot = lambda y: np.sum(planes[:, :3] * y[i], axis=1)  # noqa: E731
        return np.stack([dot(b), dot(c), -np.ones(len(i)), planes[:, 3] - dot(a)], 1)

    scale = np.linalg.norm(b, axis=1)
    sides = np.array([[-1.0, 0, 0, 0], [0, -1.0, 0, 0], [1.0, 1.0, 0, 1.0]])
    first = body.highest(corners.mean(axis=1))[1]
    begins = np.einsum("ki,kci->kc", first[:, :3], corners).argmin(axis=1)
    of = np.array([[0, 1], [1, 2], [0, 2]])[begins]  # the sides that meet in a corner
    basis = np.concatenate([rows_of(np.arange(k), first)[:, None], sides[of]], axis=1)
    planes = np.zeros((k, 3, 4))
    planes[:, 0] = first
    phi, low = np.full(k, np.inf), np.full(k, -np.inf)
    place, g = np.zeros((k, 3)), np.zeros((k, 3))

    def solved(i):
        """Where three rows hold, the shares of these in the bound, and the rows."""
        A = basis[i, :, :3]
        z = np.linalg.solve(A, basis[i, :, 3, None])[..., 0]
        shares = np.linalg.solve(A.transpose(0, 2, 1), np.array([0.0, 0, -1.0])[:, None])[..., 0]
        return z, shares, A

    i = np.arange(k)
    for _ in range(_MOST):
        z, shares, A = solved(i)
        at = a[i] + z[:, :1] * b[i] + z[:, 1:2] * c[i]
        value, new = body.highest(at)
        over = np.c_[-z[:, 0], -z[:, 1], z[:, 0] + z[:, 1] - 1.0] * scale[i, None]
        side = over.argmax(axis=1)
        beside = over.max(axis=1)
        inside = beside <= _DONE
        better = inside & (value <= phi[i] + _DONE)
        j = i[better]
        phi[j], place[j] = value[better], at[better]
        g[j] = np.einsum("kr,kri->ki", shares[better], planes[j, :, :3])
        low[i] = np.maximum(low[i], z[:, 2])
        np.minimum.at(least, pose[j], value[better])
        goes = (np.maximum(value - z[:, 2], beside) > _DONE) & (low[i] < least[pose[i]])
        if not goes.any():
            break
        i, value, new, z, shares, A = (y[goes] for y in (i, value, new, z, shares, A))
        beside, side = beside[goes], side[goes]
        is_side = beside > value - z[:, 2]
        row = np.where(is_side[:, None], sides[side], rows_of(i, new))
        change = np.linalg.solve(A.transpose(0, 2, 1), row[:, :3, None])[..., 0]
        leaves = change > 1e-13
        ratio = np.where(leaves, np.maximum(shares, 0) / np.where(leaves, change, 1), np.inf)
        out = ratio.argmin(axis=1)
        basis[i, out] = row
        planes[i, out] = np.where(is_side[:, None], 0.0, new)
    if body.kind == "Cylinder":  # a plane beside the place has another normal: that at the place
        for _ in range(2):
            around = (planes[:, :, 2] == 0.0) & (planes[:, :, 3] > 0.0)
            i = np.flatnonzero((around.sum(axis=1) == 1) & (phi <= least[pose] + _DONE))
            out = around[i].argmax(axis=1)
            planes[i, out] = body.around(place[i])[1]
            basis[i, out] = rows_of(i, planes[i, out])
            z, shares, _ = solved(i)
            g[i] = np.einsum("kr,kri->ki", shares, planes[i, :, :3])
            place[i] = a[i] + z[:, :1] * b[i] + z[:, 1:2] * c[i]
    return phi, low, place, g


def by_programs(body, surface, R, x):
    """Bounds of the same φ at one pose by a solver of linear programs; of a cylinder, planes of its
    side are added until they agree within 1e-10.
    """
    local, bounds = (surface - x) @ R, [np.inf, np.inf]
    for corners in local:
        own = body.planes
        if body.kind == "Cylinder":
            angles = np.linspace(0, 2 * np.pi, 33)[:-1]
            at = np.c_[np.cos(angles), np.sin(angles), 0 * angles]
            own = np.concatenate([own, body.around(at)[1]])
        for _ in range(30):
            rows = np.c_[own[:, :3] @ corners.T, -np.ones(len(own))]
            found = linprog([0, 0, 0, 1], rows, own[:, 3], [[1, 1, 1, 0]], [1],
                            [(0, 1)] * 3 + [(None, None)], options=_TIGHT)  # fmt: skip
            (value,), new = body.highest((found.x[:3] @ corners)[None])
            if value <= found.fun + 1e-10 or found.fun >= bounds[1]:
                break
            own = np.concatenate([own, new])
        bounds = [min(bounds[0], found.fun), min(bounds[1], value)]
    return bounds


def differences(body, truth, gap, normal, R, x):
    """How far (m,) slots (m, k) are from the deepest place, and by how much the last 4 are deeper.

    One of the slots must have the normal of that place, and as gap the height of the lowest point
    of the body over the place along it. A slot with the gap g along n is too deep if the body with
    all planes moved inward by −φ, of the deepest place, is still lower than the plane of the slot.
    """
    own = lambda n: np.einsum("mij,mi->mj", R, n)  # noqa: E731
    g = np.sum(own(truth.n) * body.lowest(own(truth.n)), axis=1)
    g = g - np.sum(truth.n * (truth.place - x), axis=1)
    turned = body.size * np.abs(normal - truth.n[:, None]).max(axis=2)
    error = np.maximum(np.abs(gap - g[:, None]), turned)
    deeper = np.zeros(len(x))
    for k in range(gap.shape[1] - 4, gap.shape[1]):
        i = np.flatnonzero((gap[:, k] < 0) & (error[:, k] > 1e-10) & (truth.phi < 0))
        n = np.einsum("mij,mi->mj", R[i], normal[i, k])
        whole = np.sum(n * body.lowest(n), axis=1)
        deeper[i] = np.maximum(deeper[i], body.lifted(n, truth.phi[i], whole - gap[i, k]))
    return error.min(axis=1), deeper
