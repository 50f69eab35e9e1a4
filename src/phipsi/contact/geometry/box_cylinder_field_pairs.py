"""Boxes and cylinders on a height field, see `solid_field_pairs`.

Keys of a box are signs along its axes, 0 along those of an edge or in a face.

The faces of a cylinder are two caps and one for every direction u across its axis z. Edges are the
rims: at u of one, on the cap s z, a corner of the field has the key (0, 0, 0); a ridge (s, ±1, 0)
for the two places where side and cap are as near, and (0, 0, 0) for the side alone; a peak
(0, 0, s), or 0 for the side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.explicit_pairs import low_corners, rim_points, rim_weights
from phipsi.contact.geometry.field_cells import INSIDE, below
from phipsi.contact.geometry.placed_shapes import (
    INACTIVE,
    ContactCandidate,
    Placed,
    Weighted,
    common_normal,
    one_of_three,
)
from phipsi.contact.geometry.solid_field_pairs import (
    CUT,
    LEAN,
    SAME,
    ConvexSolid,
    Corner,
    Touch,
    corner_slot,
    solid_field,
)

_LEVEL = 1e-12  # of the length of an edge: along which faces do not come nearer


def box_field(
    a: Placed, b: Placed, deep: int = 1, gives: bool = False
) -> list[ContactCandidate] | list[Weighted]:
    """The four lowest corners, and the deepest of all else under every quarter of the box."""
    corners = [corner_slot(x, b) for x in low_corners(a, b.R[:, 2])]
    under = below(b.R.T @ (a.x - b.x), b)
    return solid_field(BoxOnField, a, b, corners, under, deep=deep, gives=gives)


class BoxOnField(ConvexSolid):
    """A box with half edges p."""

    def __init__(self, w: Any, Q: Any, p: Any) -> None:
        super().__init__(w, Q, p)
        self.size, self.least = np.max(p), np.min(p)

    def lowest(self, n: Any) -> tuple[Any, Any]:
        """The corner on the other side of n."""
        signs = np.where(n @ self.Q > 0.0, -1.0, 1.0)
        return signs * self.p, signs

    def corner(self, key: Any, n: Any) -> Any:
        """By its signs."""
        return key * self.p

    def on_plane(self, n: Any, y: Any, f: Any) -> tuple[Any, Any, Any]:
        """Where three faces are as near: on the diagonal of a cube in the corner."""
        phi = f / np.sum(np.abs(n @ self.Q))
        depth = np.maximum(-phi, 0.0)
        signs = np.where(y < 0.0, -1.0, 1.0)
        place = self.from_point(y - depth * signs)
        return np.where(f < 0.0, place, place - f * n), phi, depth <= self.least

    def on_line(self, d: Any, wanted: Any) -> list[Touch]:
        """Edges along each axis: the lowest, and the one as low as it."""
        return [touch for k in range(3) for touch in self._edges(d, k)]

    def _edges(self, d: Any, k: int) -> list[Touch]:
        w, Q, p = self.w, self.Q, self.p
        i, j = (k + 1) % 3, (k + 2) % 3
        e = Q[:, k]
        n, _, _, is_one = common_normal(w, e, d)
        m = n @ Q
        low = {x: np.where(m[x] > 0.0, -1.0, 1.0) for x in (i, j)}
        flat = np.abs(m[i]) < np.abs(m[j])
        u, y = d @ Q, -(w @ Q)
        out = []
        for is_other in (False, True):
            s_i, s_j = low[i], low[j]
            good = is_one
            if is_other:
                s_i, s_j = np.where(flat, -s_i, s_i), np.where(flat, s_j, -s_j)
                good = good & (np.minimum(np.abs(m[i]), np.abs(m[j])) <= LEAN)
            by_axis = {i: s_i, j: s_j, k: 0.0 * s_i}
            signs = np.stack([by_axis[0], by_axis[1], by_axis[2]])
            arm = self.from_point(signs * p)
            f = n @ arm
            _, s, t, _ = common_normal(arm, e, d)
            near = (np.abs(s) <= p[k] * (1.0 + INSIDE)) & (t >= -INSIDE) & (t <= 1.0 + INSIDE)
            # where two faces of the box are as near, on the ridge: inside, and no other nearer
            slope = s_i * u[i] - s_j * u[j]
            steep = np.abs(slope) > _LEVEL * np.sqrt(d @ d)
            offset = (s_i * y[i] - p[i]) - (s_j * y[j] - p[j])
            r = -offset / np.where(steep, slope, 1.0)
            z = y + r * u
            depth = s_i * z[i] - p[i]
            inside = steep & (np.max(np.abs(z) - p) <= depth + INSIDE * self.size)
            good = good & (((f < 0.0) & inside) | ((f >= 0.0) & near))
            phi = f / np.maximum(np.abs(m[i]) + np.abs(m[j]), 0.5)
            out.append(Touch(signs, n, phi, y + t * u, np.where(f < 0.0, r, t), good))
        return out

    def across(self, key: Any, d: Any) -> tuple[Any, Any]:
        """The nearest points of the edge and the line."""
        along = self.Q @ (1.0 - np.abs(key))
        arm = self.from_point(key * self.p)
        n, s, _, _ = common_normal(arm, along, d)
        return n, arm + s * along

    def at_point(self) -> Touch:
        """The face whose plane is the farthest outward."""
        y = -(self.w @ self.Q)
        values = np.abs(y) - self.p
        which = one_of_three(values)
        signs = which * np.where(y < 0.0, -1.0, 1.0)
        beside = np.max(np.where(which > 0.5, -INACTIVE, values))
        good = beside <= INSIDE * self.size
        return Touch(signs, -(self.Q @ signs), np.max(values), y, 0.0, good)

    def outside(self, key: Any) -> tuple[Any, Any]:
        """Along the normal of the face."""
        n = -(self.Q @ key)
        return n, n @ self.from_point(key * self.p)

    def is_cut(self, x: Any, d: Any) -> Any:
        """Where the edge is between all pairs of faces, if anywhere."""
        y, u = (x - self.w) @ self.Q, d @ self.Q
        half = self.p - CUT * self.size
        level = np.abs(u) <= _LEVEL * self.size
        inverse = 1.0 / np.where(level, 1.0, u)
        reach = half * np.abs(inverse)
        begin = np.where(level, 0.0, -y * inverse - reach)
        end = np.where(level, 1.0, -y * inverse + reach)
        between = np.max(np.where(level, np.abs(y) - half, -1.0)) < 0.0
        return between & (np.maximum(np.max(begin), 0.0) < np.minimum(np.min(end), 1.0))


# ---- cylinders -----------------------------------------------------------------------------------


_TINY = 1e-24  # of squares: no direction across the axis
_UPRIGHT = 0.7  # cosine of the angle of an axis that stands
_X, _Y, _Z = np.eye(3)
_CAPS = tuple((s, root) for s in (1.0, -1.0) for root in (1.0, -1.0))


def cylinder_field(
    a: Placed, b: Placed, deep: int = 1, gives: bool = False
) -> list[ContactCandidate] | list[Weighted]:
    """The lowest points of both rims, three on the lower one, and the deepest of all else."""
    under = below(b.R.T @ (a.x - b.x), b)
    n = b.R @ under.normal
    corners = [corner_slot(x, b) for x in rim_points(a, n)]
    for k in range(2):
        corners[k] = _again(a, b, corners[k], k)
    weights = rim_weights(a, n) if gives else None
    return solid_field(
        CylinderOnField, a, b, corners, under, deep=deep, gives=gives, weights=weights
    )


def _again(a: Placed, b: Placed, corner: Corner, k: int) -> Corner:
    """The lowest point of a rim along the normal below it; none where another one is there.

    Then it is beside a ridge. Deep in the ground it stays.
    """
    before = corner[2]
    slot, p, n = corner_slot(rim_points(a, b.R @ before)[k], b)
    deep = slot.gap < -0.5 * np.min(a.p)
    return slot._replace(gap=np.where((n @ before > SAME) | deep, slot.gap, INACTIVE)), p, n


class _Rim(NamedTuple):
    """Where side and cap are as near on a line: t, the place y, u there, and whether it is one."""

    t: Any
    y: Any
    u: Any
    good: Any


class CylinderOnField(ConvexSolid):
    """A cylinder with the numbers (r, l/2), along z of its axes."""

    def __init__(self, w: Any, Q: Any, p: Any) -> None:
        super().__init__(w, Q, p)
        self.size, self.least = np.max(p), np.min(p)

    def axes(self) -> tuple[Any, Any]:
        """Standing, two across the axis; lying, the axis and level across it."""
        stands = np.abs(self.Q[2, 2]) > _UPRIGHT
        across, _ = _unit(self.Q[2, :2])
        level = np.stack([-across[1], across[0], 0.0 * across[0]])
        return np.where(stands, _X, _Z), np.where(stands, _Y, level)

    def lowest(self, n: Any) -> tuple[Any, Any]:
        """On a rim."""
        return self.corner(None, n), 0.0 * n

    def corner(self, key: Any, n: Any) -> Any:
        """It is that of n."""
        m = n @ self.Q
        u, _ = _unit(-m[:2])
        return np.stack(
            [self.p[0] * u[0], self.p[0] * u[1], np.where(m[2] > 0.0, -1.0, 1.0) * self.p[1]]
        )

    def on_plane(self, n: Any, y: Any, f: Any) -> tuple[Any, Any, Any]:
        """Where side and cap are as near, in a corner of a square through the axis."""
        m = n @ self.Q
        phi = f / (np.sqrt(m[0] * m[0] + m[1] * m[1]) + np.abs(m[2]))
        depth = np.maximum(-phi, 0.0)
        inward = np.stack([y[0] / self.p[0], y[1] / self.p[0], y[2] / self.p[1]])
        place = self.from_point(y - depth * inward)
        return np.where(f < 0.0, place, place - f * n), phi, depth <= self.least

    def on_line(self, d: Any, wanted: Any) -> list[Touch]:
        """The side across the line, and the four places where side and caps are as near."""
        out = [self._side_of(d)]
        y, e = -(self.w @ self.Q), d @ self.Q
        for s, root in _CAPS:
            rim = self._rim(y, e, s, root)
            n, arm, good = self._across_rim(rim.u, s, d)
            g = -(n @ self.Q)
            to_cap, to_side = s * g[2], g[:2] @ rim.u
            good = good & rim.good & (to_cap >= -LEAN) & (to_side >= -LEAN)
            key = np.stack([s + 0.0 * rim.t, root + 0.0 * rim.t, 0.0 * rim.t])
            phi = (n @ arm) / np.maximum(to_cap + to_side, 0.5)
            out.append(Touch(key, n, phi, rim.y, rim.t, good))
        return out

    def _side_of(self, d: Any) -> Touch:
        w, z = self.w, self.Q[:, 2]
        n, s, t, good = common_normal(w, z, d)
        y = t * (d @ self.Q) - w @ self.Q
        from_axis = np.sqrt(y[0] * y[0] + y[1] * y[1]) - self.p[0]
        good = good & (from_axis >= np.abs(y[2]) - self.p[1] - INSIDE * self.size)
        # the line passes below the axis, or above it in a deep overlap
        return Touch(0.0 * w, n, n @ w - self.p[0], y, t, good & (n @ w > 0.0))

    def _rim(self, y: Any, e: Any, s: float, root: float) -> _Rim:
        """|y + t e across z| = r − l/2 + s (y + t e)_z."""
        k, rise = self.p[0] - self.p[1] + s * y[2], s * e[2]
        a = e[0] * e[0] + e[1] * e[1] - rise * rise
        h = y[0] * e[0] + y[1] * e[1] - k * rise
        c = y[0] * y[0] + y[1] * y[1] - k * k
        square = h * h - a * c
        there = square > 0.0
        # of both roots, without cancellation: q/a and c/q
        q = -(h + np.where(h < 0.0, -1.0, 1.0) * np.sqrt(np.where(there, square, 1.0)))
        flat = np.abs(a if root > 0.0 else q) <= _TINY * (e @ e)
        t = (q if root > 0.0 else c) / np.where(flat, 1.0, a if root > 0.0 else q)
        place = y + np.where(flat, 0.0, t) * e
        u, length = _unit(place[:2])
        depth = s * place[2] - self.p[1]
        good = there & ~flat & (k + t * rise >= 0.0) & (length > 0.0)
        good = good & (-s * place[2] - self.p[1] <= depth + INSIDE * self.size)
        return _Rim(t, place, u, good)

    def _across_rim(self, u: Any, s: Any, d: Any) -> tuple[Any, Any, Any]:
        """n and the point of the rim at u, from P; across the tangent of the rim."""
        arm = self.from_point(np.stack([self.p[0] * u[0], self.p[0] * u[1], s * self.p[1]]))
        along = self.Q @ np.stack([-u[1], u[0], 0.0 * u[0]])
        n, _, _, good = common_normal(arm, along, d)
        return n, arm, good

    def across(self, key: Any, d: Any) -> tuple[Any, Any]:
        """All five, of which the key says one."""
        n, s, _, _ = common_normal(self.w, self.Q[:, 2], d)
        x = self.w + s * self.Q[:, 2] - self.p[0] * n
        y, e = -(self.w @ self.Q), d @ self.Q
        for cap, root in _CAPS:
            rim = self._rim(y, e, cap, root)
            normal, arm, _ = self._across_rim(rim.u, cap, d)
            mine = (key[0] == cap) & (key[1] == root)
            n, x = np.where(mine, normal, n), np.where(mine, arm, x)
        return n, x

    def at_point(self) -> Touch:
        """The side, or a cap."""
        y = -(self.w @ self.Q)
        u, length = _unit(y[:2])
        side, cap = length - self.p[0], np.abs(y[2]) - self.p[1]
        s = np.where(y[2] < 0.0, -1.0, 1.0)
        is_side = side >= cap
        key = np.stack([0.0 * s, 0.0 * s, np.where(is_side, 0.0, s)])
        n = -(self.Q @ np.where(is_side, np.stack([u[0], u[1], 0.0 * s]), key))
        return Touch(key, n, np.maximum(side, cap), y, 0.0, True)

    def outside(self, key: Any) -> tuple[Any, Any]:
        """Along the normal of the side or the cap."""
        y = -(self.w @ self.Q)
        u, length = _unit(y[:2])
        is_side = key[2] == 0.0
        n = -(self.Q @ np.where(is_side, np.stack([u[0], u[1], 0.0 * length]), key))
        return n, np.where(is_side, length - self.p[0], key[2] * y[2] - self.p[1])

    def is_cut(self, x: Any, d: Any) -> Any:
        """Where the edge is within both caps and the side, if anywhere."""
        y, e = (x - self.w) @ self.Q, d @ self.Q
        r, half = self.p[0] - CUT * self.size, self.p[1] - CUT * self.size
        level = np.abs(e[2]) <= 1e-12 * self.size
        inverse = 1.0 / np.where(level, 1.0, e[2])
        begin, end = (
            -y[2] * inverse - half * np.abs(inverse),
            -y[2] * inverse + half * np.abs(inverse),
        )
        inside = ~level | (np.abs(y[2]) < half)
        begin, end = np.where(level, 0.0, begin), np.where(level, 1.0, end)
        a = e[0] * e[0] + e[1] * e[1]
        h, c = y[0] * e[0] + y[1] * e[1], y[0] * y[0] + y[1] * y[1] - r * r
        square = h * h - a * c
        along = a <= _TINY * (e @ e)
        inside = inside & ((along & (c < 0.0)) | (~along & (square > 0.0)))
        root = np.sqrt(np.where(square > 0.0, square, 1.0))
        a = np.where(along, 1.0, a)
        begin = np.maximum(begin, np.where(along, 0.0, (-h - root) / a))
        end = np.minimum(end, np.where(along, 1.0, (-h + root) / a))
        return inside & (np.maximum(begin, 0.0) < np.minimum(end, 1.0))


def _unit(x: Any) -> tuple[Any, Any]:
    """The direction of a vector (2,), and its length; x of the axes if it has none."""
    square = x[0] * x[0] + x[1] * x[1]
    there = square > _TINY
    length = np.sqrt(np.where(there, square, 1.0))
    u = np.stack([np.where(there, x[0] / length, 1.0), np.where(there, x[1] / length, 0.0)])
    return u, np.where(there, length, 0.0)
