"""A cylinder on a height field, see `solid_field_pairs`.

Its faces are two caps and one for every direction u across its axis z. Edges are the rims: at u of
one, on the cap s z, a corner of the field has the key (0, 0, 0); a ridge (s, ±1, 0) for the two
places where side and cap are as near, and (0, 0, 0) for the side alone; a peak (0, 0, s), or 0 for
the side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phipsi.contact.geometry.field_cells import INSIDE, below
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot, Weighted
from phipsi.contact.geometry.plane_pairs import rim_points, rim_weights
from phipsi.contact.geometry.solid_field_pairs import (
    CUT,
    LEAN,
    SAME,
    Corner,
    Solid,
    Touch,
    common_normal,
    corner_slot,
    solid_field,
)

_TINY = 1e-24  # of squares: no direction across the axis
_UPRIGHT = 0.7  # cosine of the angle of an axis that stands
_X, _Y, _Z = np.eye(3)
_CAPS = tuple((s, root) for s in (1.0, -1.0) for root in (1.0, -1.0))


def cylinder_field(
    a: Placed, b: Placed, deep: int = 1, gives: bool = False
) -> list[Slot] | list[Weighted]:
    """The lowest points of both rims, three on the lower one, and the deepest of all else."""
    under = below(b.R.T @ (a.x - b.x), b)
    n = b.R @ under.normal
    points, weights = rim_points(a, n), rim_weights(a, n) if gives else None
    corners = [corner_slot(x, b) for x in points]
    for k in range(2):
        corners[k] = _again(a, b, corners[k], k)
    return solid_field(CylinderOnField, a, b, corners, under, deep=deep, weights=weights)


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


class CylinderOnField(Solid):
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
