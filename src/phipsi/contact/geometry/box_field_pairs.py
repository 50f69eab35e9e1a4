"""A box on a height field, see `solid_field_pairs`.

Keys are signs along its axes, 0 along those of an edge or in a face.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.field_cells import INSIDE, below
from phipsi.contact.geometry.placed_shapes import INACTIVE, Placed, Slot, Weighted
from phipsi.contact.geometry.plane_pairs import DIAGONALS
from phipsi.contact.geometry.solid_field_pairs import (
    CUT,
    LEAN,
    Solid,
    Touch,
    common_normal,
    corner_slot,
    solid_field,
)

_LEVEL = 1e-12  # of the length of an edge: along which faces do not come nearer


def box_field(
    a: Placed, b: Placed, deep: int = 1, gives: bool = False
) -> list[Slot] | list[Weighted]:
    """The four lowest corners, and the deepest of all else under every quarter of the box."""
    up = b.R[:, 2] @ a.R
    lows = [np.where((signs * a.p) @ up > 0.0, -signs, signs) for signs in DIAGONALS]
    corners = [corner_slot(a.x + a.R @ (x * a.p), b) for x in lows]
    return solid_field(
        BoxOnField,
        a,
        b,
        corners,
        below(b.R.T @ (a.x - b.x), b),
        deep=deep,
        weights=[1.0] * len(corners) if gives else None,
    )


class BoxOnField(Solid):
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
        first = (values[0] >= values[1]) & (values[0] >= values[2])
        second = ~first & (values[1] >= values[2])
        which = np.stack([1.0 * first, 1.0 * second, 1.0 * ~(first | second)])
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
