"""Geoms of a compiled MuJoCo model as shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from phipsi.interfaces.anchors import in_body
from phipsi.interfaces.mjcf_compile import Compiled
from phipsi.interfaces.mjcf_files import MjcfFiles
from phipsi.model import Pose
from phipsi.model.extras import Shape

_PLANE, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = 0, 2, 3, 4, 5, 6, 7


def shapes_of(
    m: Compiled, found: MjcfFiles, names: Mapping[int, str], shifts: Mapping[int, np.ndarray]
) -> Iterator[Shape]:
    """Every geom; one that touches nothing is visual."""
    for k in range(m.ngeom):
        host = int(m.geom_bodyid[k])
        role = "collision" if m.geom_contype[k] or m.geom_conaffinity[k] else "visual"
        X = in_body(shifts[host]) @ _pose(m.geom_quat[k], m.geom_pos[k])
        kind, size = _size(int(m.geom_type[k]), m.geom_size[k].tolist())
        uri, file = "", None
        if kind == "mesh":
            mesh = int(m.geom_dataid[k])
            uri, file = found.meshes.get(m.names["mesh"][mesh], ("", None))
            # MuJoCo centres meshes and turns them to their principal axes; undo both
            X = X @ _pose(m.mesh_quat[mesh], m.mesh_pos[mesh]).inv
            size = tuple(m.mesh_scale[mesh].tolist())
        if kind:
            color = tuple(float(x) for x in m.geom_rgba[k])
            link = "world" if host == 0 else names[host]
            yield Shape(link, role, kind, size, X, m.names["geom"][k], uri, file, color)


def _size(kind: int, size: list[float]) -> tuple[str, tuple[float, ...]]:
    a, b, c = size
    known: dict[int, tuple[str, tuple[float, ...]]] = {
        _PLANE: ("plane", (a, b)),
        _SPHERE: ("sphere", (a,)),
        _CAPSULE: ("capsule", (a, 2 * b)),
        _CYLINDER: ("cylinder", (a, 2 * b)),
        _ELLIPSOID: ("ellipsoid", (a, b, c)),
        _BOX: ("box", (2 * a, 2 * b, 2 * c)),
        _MESH: ("mesh", (1.0, 1.0, 1.0)),
    }
    return known.get(kind, ("", ()))


def _pose(quaternion: Any, position: Any) -> Pose:
    values = np.asarray(quaternion, dtype=np.float64)
    return Pose(values / np.linalg.norm(values), position)
