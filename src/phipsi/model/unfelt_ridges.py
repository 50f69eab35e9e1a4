"""Ridges and peaks of height fields that a body does not feel between its corners.

Cylinders and meshes touch a field with rims or corners. What stands up between these, as high as

    max  h(P) − (h(P + s) + h(P − s))/2        over places P of the surface, |s| ≤ half a size

may be inside the body, and nothing pushes it out. A valley has none, nor has a plane.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import warn
from phipsi.model.shapes import BodyShape, ConvexMesh, HeightField, bounding_ball

_FELT_BY_CORNERS = ("Cylinder", "ConvexMesh")
_ROUNDING = 1e-9  # of the size of a body: ridges that are lower are flat
_LISTED = 4


def warn_of_ridges(pairs: Iterable[tuple[BodyShape, BodyShape]]) -> None:
    """Say which bodies may sink into which fields, and how deep; nothing without such ridges."""
    lines: list[str] = []
    first: BodyShape | None = None
    for a, b in pairs:
        if a.shape.kind not in _FELT_BY_CORNERS or not isinstance(b.shape, HeightField):
            continue
        size = 2.0 * float(bounding_ball(a.shape)[3])
        height = ridge_height(b.shape, size)
        if height <= _ROUNDING * size:
            continue
        first = first or a
        lines.append(
            f"  {a.shape.kind} {a.name!r} (on {a.body!r}) on {b.name!r} (on {b.body!r}): "
            f"{height:.2g} m within the {size:.2g} m of the body"
        )
    if first is None:
        return
    more = f"\n  … and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    warn(
        "Contacts: rims of cylinders and corners of meshes touch a height field; ridges and peaks "
        "that stand up between them do not touch edges and faces, and may be inside the body "
        "without a force, as high as\n"
        + "\n".join(lines[:_LISTED])
        + more
        + "\nBoxes, balls, capsules and ellipsoids feel ridges and peaks. Give the body some as "
        "well, one inside for those below its middle:\n"
        f"    {_remedy(first)}\n"
        "and capsules along its edges, or use a field without such ridges."
    )


@lru_cache(maxsize=256)
def ridge_height(field: HeightField, size: float) -> float:
    """How high (m) a field stands above the middle of a chord of a length up to `size` (m).

    Chords are along x, y and the diagonals of cells, with their middle in a point of the grid or
    of an edge: for one edge or point of the field, that is exact; ridges of several cells in
    other directions may be a little higher. **Cost:** O(heights log(size/spacing)).
    """
    fine = _halved(np.array(field.heights))
    found = 0.0
    for step in ((1, 0), (0, 1), (1, 1), (1, -1)):
        length = math.hypot(*(k * d / 2 for k, d in zip(step, field.spacing, strict=True)))
        found = max(found, _above(fine, step, size / (2 * length)))
    return found


def _halved(h: NDArray[np.float64]) -> NDArray[np.float64]:
    """The heights with those of the middles of edges and diagonals between them."""
    fine = np.zeros((2 * len(h) - 1, 2 * h.shape[1] - 1))
    fine[::2, ::2] = h
    fine[1::2, ::2] = (h[1:] + h[:-1]) / 2
    fine[::2, 1::2] = (h[:, 1:] + h[:, :-1]) / 2
    fine[1::2, 1::2] = (h[1:, 1:] + h[:-1, :-1]) / 2
    return fine


def _above(fine: NDArray[np.float64], step: tuple[int, int], most: float) -> float:
    """The largest height above chords of up to `most` steps to both sides."""
    room = min((n - 1) // 2 for n, k in zip(fine.shape, step, strict=True) if k)
    whole = int(min(most, room))
    counts = {2**k for k in range(whole.bit_length())} | ({whole} if whole else set())
    found = max((float(_sag(fine, step, n).max()) for n in counts), default=0.0)
    if whole < min(most, room):  # between two steps heights are linear
        part = most - whole
        more = _sag(fine, step, whole + 1)
        less = 0.0
        if whole:
            less = _sag(fine, step, whole)[tuple(slice(abs(k), -abs(k) or None) for k in step)]
        found = max(found, float(((1 - part) * less + part * more).max()))
    return found


def _sag(fine: NDArray[np.float64], step: tuple[int, int], n: int) -> Any:
    """h(P) − (h(P + n s) + h(P − n s))/2 at all P that have both."""
    i, j = n * step[0], n * step[1]
    p, q = fine.shape

    def moved(di: int, dj: int) -> NDArray[np.float64]:
        a, b = abs(i), abs(j)
        return fine[a + di : p - a + di, b + dj : q - b + dj]

    return moved(0, 0) - (moved(i, j) + moved(-i, -j)) / 2


def _remedy(a: BodyShape) -> str:
    """A line that gives a body an ellipsoid or a ball inside its shape."""
    name, at = f"{a.name} inside", a.placement
    if isinstance(a.shape, ConvexMesh):
        from scipy.spatial import ConvexHull  # noqa: PLC0415

        hull = ConvexHull(np.array(a.shape.vertices))
        middle = np.array(a.shape.vertices).mean(axis=0)
        radius = -float((hull.equations[:, :3] @ middle + hull.equations[:, 3]).max())
        shape = f"Sphere({radius:.4g})"
        place = at.apply(middle)
        return (
            f"builder.add_shape({name!r}, {a.body!r}, pp.shapes.{shape}, "
            f"pp.Pose(None, {tuple(round(float(x), 6) for x in place)}))"
        )
    radius, half_length = a.shape.numbers
    half = (radius, radius, half_length)
    where = "" if repr(at) == "Pose()" else f", pp.{at!r}"
    return f"builder.add_shape({name!r}, {a.body!r}, pp.shapes.Ellipsoid({half}){where})"
