"""Solids of machine elements as triangles: toothed wheels, racks, threads, belts, cams, springs.

All lie in the plane z = 0 of a frame of their own, the axis of a wheel along z. Flanks are
straight; teeth are as thick as those of involutes at the pitch circle, so that wheels mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.transmissions import Spans, wraps

Array = NDArray[Any]
Surface = tuple[Array, Array]
"""Corners (n, 3) in m, and triangles (m, 3) of their numbers, outside to the left."""

_FLANK = np.tan(np.deg2rad(20.0))
_ARC = 40  # points of a belt on one wheel
_PLAY = 0.96  # of the thickness of a tooth, so that flanks do not flicker


def _tooth(pitch: float, radius: float, module: float, tip: float, root: float) -> Array:
    """Angles and radii (4, 2) of one tooth about angle 0, from one side to the other."""
    half = _PLAY * pitch / 4
    top = max(half - _FLANK * abs(tip - radius) / radius, 0.06 * pitch)
    base = min(half + _FLANK * abs(root - radius) / radius, 0.47 * pitch)
    return np.array([[-base, root], [-top, tip], [top, tip], [base, root]])


def toothed_wheel(radius: float, teeth: int, width: float, phase: float) -> Surface:
    """A wheel with a pitch radius and so many teeth, one of them at the angle `phase`."""
    return _plate(_toothed(radius, teeth, phase, inward=False), width)


def toothed_ring(radius: float, teeth: int, width: float, phase: float) -> Surface:
    """A ring with teeth inside, one of them at the angle `phase`."""
    inner = _toothed(radius, teeth, phase, inward=True)
    module = 2 * radius / teeth
    angle = np.arctan2(inner[:, 1], inner[:, 0])
    outer = (radius + 3.5 * module) * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return _band(inner, outer, width)


def _toothed(radius: float, teeth: int, phase: float, *, inward: bool) -> Array:
    module, pitch = 2 * radius / teeth, 2 * np.pi / teeth
    sign = -1.0 if inward else 1.0
    one = _tooth(pitch, radius, module, radius + sign * module, radius - sign * 1.25 * module)
    angles = (one[:, 0] + pitch * np.arange(teeth)[:, None] + phase).ravel()
    radii = np.tile(one[:, 1], teeth)
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def bevel_wheel(
    radius: float, teeth: int, width: float, phase: float, apex: float | None = None
) -> Surface:
    """A bevel wheel: its pitch circle in z = 0 with this radius, its apex at z = `apex`, or 45°.

    Teeth stand on the pitch cone: their height is across it, as that of the wheel they mesh with.
    Without teeth it is a smooth cone.
    """
    rim = _toothed(radius, teeth, phase, inward=False) if teeth else _circle(radius)
    top = radius if apex is None else apex
    cosine, sine = np.array([top, radius]) / np.hypot(top, radius)
    far = np.hypot(rim[:, 0], rim[:, 1])
    height = far - radius
    around = rim / far[:, None]
    outer = np.column_stack([around * (radius + cosine * height)[:, None], sine * height])
    low = height.min()  # the sides are flat up to the roots of the teeth
    inner = np.column_stack(
        [around * (0.94 * (radius + cosine * low)), np.full(len(rim), sine * low)]
    )
    back = np.concatenate([outer, inner, [[0.0, 0.0, sine * low]]]) - [0.0, 0.0, top]
    points = np.concatenate([back, (1.0 - width / top) * back]) + [0.0, 0.0, top]
    n = len(rim)
    (i, j), m = _around(n), 2 * n + 1
    faces = [*_split([i, j, j + m, i + m])]  # flanks, from the back to the front
    for a, b, first in ((j, i, 0), (i, j, m)):  # teeth and middle of the back, then of the front
        faces += _split([a + first, b + first, b + n + first, a + n + first])
        faces += np.stack([a + n + first, b + n + first, np.full(n, 2 * n + first)], -1).tolist()
    return points, np.array(faces)


def ring(inner: float, outer: float, width: float) -> Surface:
    """A plain ring."""
    return _band(_circle(inner), _circle(outer), width)


def coil(radius: float, wire: float, length: float, turns: int) -> Surface:
    """A helical spring along z from the origin: the radius of its wire's middle, and the wire's."""
    around, along = 8, 24 * turns + 1
    angle = np.linspace(0, 2 * np.pi * turns, along)
    out = np.stack([np.cos(angle), np.sin(angle), np.zeros(along)], axis=-1)
    up = np.broadcast_to([0.0, 0.0, 1.0], out.shape)
    middle = radius * out + np.linspace(0, length, along)[:, None] * up
    turned = 2 * np.pi * np.arange(around) / around
    points = middle[:, None] + wire * (
        np.cos(turned)[:, None] * out[:, None] + np.sin(turned)[:, None] * up[:, None]
    )
    index, sides = _tube(along, around)
    ends = [[index[0, 0], index[0, i + 1], index[0, i]] for i in range(1, around - 1)] + [
        [index[-1, 0], index[-1, i], index[-1, i + 1]] for i in range(1, around - 1)
    ]
    corners = np.array([*sides, *ends])
    return points.reshape(-1, 3), corners[:, ::-1]


def coil_on_shaft(radius: float, wire: float, length: float, turns: int, deep: float) -> Surface:
    """A coil whose far end is on a plate, and the plate on a shaft that ends at z = −deep."""
    plate, shaft = disc(radius + 2 * wire, 3 * wire), disc(0.35 * radius, length + deep)
    return joined(
        coil(radius, wire, length, turns),
        (plate[0] + [0.0, 0.0, length + 1.5 * wire], plate[1]),
        (shaft[0] + [0.0, 0.0, (length - deep) / 2], shaft[1]),
    )


def joined(*surfaces: Surface) -> Surface:
    """Several surfaces as one."""
    counts = np.cumsum([0, *(len(points) for points, _ in surfaces)])
    corners = [triangles + n for (_, triangles), n in zip(surfaces, counts, strict=False)]
    return np.concatenate([points for points, _ in surfaces]), np.concatenate(corners)


def rack_bar(radius: float, teeth: int, count: int, width: float) -> Surface:
    """A rack along x that fits a wheel above it (+y): a gap at x = 0, its pitch line at y = 0."""
    module = 2 * radius / teeth
    pitch = np.pi * module
    half = _PLAY * pitch / 4
    top, base = half - _FLANK * module, half + _FLANK * 1.25 * module
    one = np.array([[-base, -1.25], [-top, 1.0], [top, 1.0], [base, -1.25]]) * [1.0, module]
    x = (one[:, 0] + pitch * (np.arange(-count, count) + 0.5)[:, None]).ravel()
    y = np.tile(one[:, 1], 2 * count)
    upper = np.stack([x, y], axis=-1)
    lower = np.stack([x, np.full_like(x, -4.0 * module)], axis=-1)
    return _strip(lower, upper, width)


def disc(radius: float, width: float) -> Surface:
    """A plain wheel."""
    return _plate(_circle(radius), width)


def _circle(radius: float) -> Array:
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def bar(length: float, first: float, second: float, width: float) -> Surface:
    """A bar along x from the origin, with round ends of two radii."""
    ends = []
    for centre, radius, start in ((length, second, -np.pi / 2), (0.0, first, np.pi / 2)):
        angles = start + np.linspace(0, np.pi, 24)
        ends.append(np.stack([centre + radius * np.cos(angles), radius * np.sin(angles)], axis=-1))
    return _plate(np.concatenate(ends), width)


def plate(outline: Array, width: float) -> Surface:
    """A plate with an outline (n, 2) around the origin, counterclockwise."""
    return _plate(outline, width)


def thread(radius: float, lead: float, length: float) -> Surface:
    """A rod along z with a thread, right-handed for a positive lead."""
    turns = min(max(abs(length / lead), 4.0), 40.0)
    lead = np.sign(lead) * length / turns
    sides, levels = 28, int(turns * 10) + 1
    z = np.linspace(-length / 2, length / 2, levels)
    angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    wave = (z[:, None] / lead - angle / (2 * np.pi)) % 1.0
    r = radius * (0.82 + 0.18 * np.clip(2.2 * np.abs(2 * wave - 1) - 0.6, 0, 1))
    points = np.stack([r * np.cos(angle), r * np.sin(angle), np.repeat(z[:, None], sides, 1)], -1)
    index, triangles = _tube(levels, sides)
    ends = [[0.0, 0.0, z[0]], [0.0, 0.0, z[-1]]]
    last = levels * sides
    for i in range(sides):
        j = (i + 1) % sides
        triangles.append([last, index[0, j], index[0, i]])
        triangles.append([last + 1, index[-1, i], index[-1, j]])
    return np.concatenate([points.reshape(-1, 3), ends]), np.array(triangles)


def belt(centres: Array, radii: Array, spans: Spans, width: float, thick: float) -> Surface:
    """A belt around wheels (n, 2), as thick on both sides of its line."""
    lines = [belt_path(centres, radii, spans, d) for d in (-thick / 2, thick / 2)]
    inner, outer = (x[::-1] if spans.turn < 0 else x for x in lines)
    return _band(inner, outer, width)


def belt_path(centres: Array, radii: Array, spans: Spans, outside: float = 0.0) -> Array:
    """The line of a belt (k, 2), or one beside it: arcs on the wheels, and its spans between.

    Signed radii are negative where the belt's back runs over a wheel. A line that is `outside` of
    the belt's by so much (m) has larger arcs in front and smaller ones at the back.
    """
    out: list[Array] = []
    angles = spans.turn * np.sign(radii) * wraps(spans, radii)
    for i, angle in enumerate(angles):
        turned = angle * np.linspace(0, 1, _ARC)
        x, y = spans.normals[i - 1]
        c, s = np.cos(turned), np.sin(turned)
        normals = np.stack([c * x - s * y, s * x + c * y], axis=-1)
        out.append(centres[i] - spans.turn * (radii[i] + outside) * normals)
    return np.concatenate(out)


# ---- extrusions ----------------------------------------------------------------------------------


def _split(quads: Sequence[Any]) -> Any:
    """Two triangles for each quadrangle of corners a, b, c, d."""
    a, b, c, d = (np.asarray(x).ravel() for x in quads)
    return [*np.stack([a, b, c], -1).tolist(), *np.stack([a, c, d], -1).tolist()]


def _around(n: int) -> tuple[Array, Array]:
    """The numbers of the corners of a closed line, and of those behind them."""
    i = np.arange(n)
    return i, (i + 1) % n


def _tube(rings: int, corners: int) -> tuple[Array, list[list[int]]]:
    """The numbers (rings, corners) of points on rings, and the triangles between these."""
    index = np.arange(rings * corners).reshape(rings, corners)
    a, b = index[:-1], index[1:]
    return index, _split([a, np.roll(a, -1, 1), np.roll(b, -1, 1), b])


def _below_and_above(width: float, *lines: Array) -> Array:
    """Lines (n, 2) in the two planes z = ∓ width/2."""
    return np.concatenate([np.column_stack([line, np.full(len(line), s * width / 2)])
                           for s in (-1, 1) for line in lines])  # fmt: skip


def _plate(outline: Array, width: float) -> Surface:
    n = len(outline)
    points = np.concatenate(
        [_below_and_above(width, outline), [[0, 0, -width / 2], [0, 0, width / 2]]]
    )
    i, j = _around(n)
    sides = _split([i, j, j + n, i + n])
    caps = [*np.stack([np.full(n, 2 * n), j, i], -1).tolist(),
            *np.stack([np.full(n, 2 * n + 1), i + n, j + n], -1).tolist()]  # fmt: skip
    return points, np.array([*sides, *caps])


def _band(inner: Array, outer: Array, width: float) -> Surface:
    """Between two closed lines of as many points."""
    n = len(inner)
    i, j = _around(n)
    quads = [
        [i + n, j + n, j + 3 * n, i + 3 * n],  # outside
        [j, i, i + 2 * n, j + 2 * n],  # inside
        [i + 2 * n, i + 3 * n, j + 3 * n, j + 2 * n],  # above
        [i, j, j + n, i + n],  # below
    ]
    return _below_and_above(width, inner, outer), np.array([x for q in quads for x in _split(q)])


def _strip(lower: Array, upper: Array, width: float) -> Surface:
    """Between two open lines of as many points."""
    n = len(lower)
    i = np.arange(n - 1)
    j = i + 1
    quads = [
        [i, j, j + 2 * n, i + 2 * n],  # bottom
        [j + n, i + n, i + 3 * n, j + 3 * n],  # top
        [i + 2 * n, j + 2 * n, j + 3 * n, i + 3 * n],  # front
        [j, i, i + n, j + n],  # back
        [0, 2 * n, 3 * n, n],  # the ends
        [n - 1, 2 * n - 1, 4 * n - 1, 3 * n - 1],
    ]
    return _below_and_above(width, lower, upper), np.array([x for q in quads for x in _split(q)])
