"""Equality constraints of MJCF as constraints of a system: connect, weld and joint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phipsi import constraints as c
from phipsi.errors import ModelError
from phipsi.model import Pose
from phipsi.spatial import quat_normalize

_CONNECT, _WELD, _JOINT = 0, 1, 2
_WORDS = {3: "tendon", 4: "flex", 5: "flexvert", 6: "flexstrain"}

LinkEnd = Callable[[int, Pose], tuple[str, Pose]]


def equality(m: Any, k: int, name: str, end: LinkEnd, joint_name: Callable[[int], str]) -> Any:
    """Constraint k of the compiled model `m`, or a `ModelError` that says why there is none.

    `end(i, X)` is the end at the pose X in the link frame of MuJoCo's body i; `joint_name(j)` the
    name of its joint j.
    """
    kind, data = int(m.eq_type[k]), np.asarray(m.eq_data[k], dtype=np.float64)
    ids = (int(m.eq_obj1id[k]), int(m.eq_obj2id[k]))
    if kind == _JOINT:
        return _coupling(m, name, ids, data, joint_name)
    if kind not in (_CONNECT, _WELD):
        raise ModelError(
            f"a constraint on a {_WORDS.get(kind, kind)} is not read; bodies and joints can be "
            "tied together. Delete it, or write what it does as pp.constraints."
        )
    if m.eq_on_sites[k]:
        hosts, places = zip(*(_site(m, i) for i in ids), strict=True)
    elif kind == _CONNECT:
        hosts, places = ids, (Pose(translation=data[0:3]), Pose(translation=data[3:6]))
    else:  # pose of body 2 in body 1, about an anchor that is given in body 2
        hosts = ids
        places = (Pose(quat_normalize(data[6:10]), data[3:6]), Pose(translation=data[0:3]))
    a, b = (end(int(i), X) for i, X in zip(hosts, places, strict=True))
    return (c.Spherical if kind == _CONNECT else c.Weld)(name=name, a=a, b=b)


def _coupling(
    m: Any, name: str, ids: tuple[int, int], data: np.ndarray, joint_name: Callable[[int], str]
) -> c.Coupling:
    """q1 − ref1 = c0 + c1 (q2 − ref2); higher powers are refused."""
    first, second = ids
    constant, factor = float(data[0]), float(data[1])
    if second >= 0 and np.any(data[2:5]):
        raise ModelError(
            f"its polynomial {data[:5].tolist()} is not linear. A coupling of ours is a linear "
            "relation between coordinates; use polycoef with two numbers."
        )
    ref = [float(m.qpos0[int(m.jnt_qposadr[i])]) for i in ids if i >= 0]
    if second < 0 or factor == 0:
        return c.Coupling(
            name=name,
            joints=(joint_name(first),),
            coefficients=(1.0,),
            offset=ref[0] + constant,
        )
    return c.Coupling(
        name=name,
        joints=(joint_name(first), joint_name(second)),
        coefficients=(1.0, -factor),
        offset=ref[0] + constant - factor * ref[1],
    )


def _site(m: Any, k: int) -> tuple[int, Pose]:
    return int(m.site_bodyid[k]), Pose(quat_normalize(m.site_quat[k]), m.site_pos[k])
