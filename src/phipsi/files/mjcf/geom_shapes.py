"""The geoms of a compiled MuJoCo model as shapes, with what decides which of them touch, and how.

Friction numbers are those of the file; `Contacts` combines them by MuJoCo's rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import Exclusion, LinkShape, Material, ShapePair
from phipsi.core.model import Pose
from phipsi.core.spatial import quat_normalize
from phipsi.files.body_frames import in_body
from phipsi.files.mjcf.checked_files import MjcfFiles

# MuJoCo's types of geoms, and how many times its three numbers ours are.
_SHAPES: dict[int, tuple[str, tuple[int, ...]]] = {
    0: ("plane", (1, 1)),
    1: ("heightfield", ()),
    2: ("sphere", (1,)),
    3: ("capsule", (1, 2)),
    4: ("ellipsoid", (1, 1, 1)),
    5: ("cylinder", (1, 2)),
    6: ("box", (2, 2, 2)),
    7: ("mesh", ()),
}
_WORD = 0xFFFFFFFF

Heights = tuple[tuple[float, ...], ...]


def shapes_of(
    m: Any, found: MjcfFiles, names: Mapping[int, str], shifts: Mapping[int, np.ndarray]
) -> Iterator[LinkShape]:
    """Every geom; one that touches nothing is visual."""
    touching = touching_geoms(m)
    fields: dict[int, tuple[Heights, tuple[float, float]]] = {}
    for k in range(m.ngeom):
        host = int(m.geom_bodyid[k])
        role = "collision" if touching[k] else "visual"
        X = in_body(shifts[host]) @ pose_of(m.geom_quat[k], m.geom_pos[k])
        kind, factors = _SHAPES.get(int(m.geom_type[k]), ("", ()))
        size = tuple(x * n for x, n in zip(m.geom_size[k].tolist(), factors, strict=False))
        uri, file, heights = "", None, ()
        data = int(m.geom_dataid[k])
        if kind == "mesh":
            uri, file = found.meshes.get(m.names["mesh"][data], ("", None))
            # MuJoCo centres meshes and turns them to their principal axes; undo both
            X = X @ pose_of(m.mesh_quat[data], m.mesh_pos[data]).inv
            size = tuple(m.mesh_scale[data].tolist())
        elif kind == "heightfield":
            if data not in fields:
                fields[data] = _field(m, data)
            heights, size = fields[data]
        if kind:
            color = tuple(float(x) for x in m.geom_rgba[k])
            name = m.names["geom"][k]
            material = _material([float(x) for x in m.geom_friction[k]])
            yield LinkShape(
                names[host], role, kind, size, X, name, uri, file, color, material, *_bits(m, k),
                heights, int(m.geom_condim[k]), int(m.geom_priority[k]), bool(m.parents_touch[0]),
            )  # fmt: skip


def touching_geoms(m: Any) -> NDArray[np.bool_]:
    """Which geoms touch others, by their bits or in a <pair>."""
    touching = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
    touching[m.pair_geom1], touching[m.pair_geom2] = True, True
    return touching


def _field(m: Any, k: int) -> tuple[Heights, tuple[float, float]]:
    """Heights over x and y, and their spacing; cells are cut along the same diagonal as here."""
    rows, columns, first = (int(getattr(m, f"hfield_{x}")[k]) for x in ("nrow", "ncol", "adr"))
    wide, long, high, _ = (float(x) for x in m.hfield_size[k])
    data = np.asarray(m.hfield_data[first : first + rows * columns], dtype=np.float64)
    heights = high * data.reshape(rows, columns).T  # rows are along y
    while min(heights.shape) < 3:
        heights = _halved(heights)
    n, k = heights.shape
    return tuple(map(tuple, heights.tolist())), (2 * wide / (n - 1), 2 * long / (k - 1))


def _halved(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same triangles, each cut into four: points halfway along edges and diagonals."""
    n, k = heights.shape
    out = np.zeros((2 * n - 1, 2 * k - 1))
    out[::2, ::2] = heights
    out[1::2, ::2] = (heights[1:] + heights[:-1]) / 2
    out[::2, 1::2] = (heights[:, 1:] + heights[:, :-1]) / 2
    out[1::2, 1::2] = (heights[1:, 1:] + heights[:-1, :-1]) / 2
    return out


def pairs_of(m: Any) -> Iterator[ShapePair]:
    """The pairs of geoms of <pair>, which have names; of two directions, friction is the first."""
    for k, ends in enumerate(zip(m.pair_geom1.tolist(), m.pair_geom2.tolist(), strict=True)):
        first, other = (m.names["geom"][int(i)] for i in ends)
        sliding, _, torsion, rolling, _ = (float(x) for x in m.pair_friction[k])
        condim = int(m.pair_dim[k])
        numbers = (sliding, torsion, rolling)
        acting = [x if condim > most else 0.0 for x, most in zip(numbers, (1, 3, 4), strict=True)]
        yield ShapePair(first, other, _material(acting))


def _material(numbers: list[float]) -> Material:
    """The friction of a file; MuJoCo takes negative numbers for none."""
    sliding, torsion, rolling = (max(x, 0.0) for x in numbers)
    return Material(sliding, torsional_friction=torsion, rolling_friction=rolling)


def _bits(m: Any, k: int) -> tuple[int, int]:
    """Group and mask of a geom.

    In MuJoCo contype of one geom must meet conaffinity of the other, either way; here the group of
    each must meet the mask of the other. With both words in both, the two say the same.
    """
    own, others = (int(x) & _WORD for x in (m.geom_contype[k], m.geom_conaffinity[k]))
    return own | others << 32, others | own << 32


def exclusions_of(m: Any, names: Mapping[int, str]) -> Iterator[Exclusion]:
    """The pairs of bodies of <exclude>."""
    for signature in m.exclude_signature.tolist():
        pair = (int(signature) >> 16 & 0xFFFF, int(signature) & 0xFFFF)
        yield Exclusion(*(names[i] for i in pair))


def pose_of(quaternion: Any, position: Any) -> Pose:
    """A pose of MuJoCo's."""
    return Pose(quat_normalize(np.asarray(quaternion, dtype=np.float64)), position)
