"""MuJoCo's model as plain data: the arrays and names that are read off it, and nothing else.

Imported by the process that runs MuJoCo's reader, so it imports little itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Arrays by MuJoCo's names.
FIELDS = (
    "body_parentid body_quat body_pos body_jntadr body_jntnum body_mass body_inertia body_iquat "
    "body_ipos body_gravcomp body_mocapid "
    "jnt_type jnt_bodyid jnt_qposadr jnt_dofadr jnt_limited jnt_range jnt_actfrclimited "
    "jnt_actfrcrange jnt_axis jnt_pos jnt_stiffness qpos0 "
    "dof_damping dof_armature dof_frictionloss "
    "site_bodyid site_quat site_pos "
    "geom_bodyid geom_contype geom_conaffinity geom_quat geom_pos geom_type geom_size geom_dataid "
    "geom_rgba geom_friction geom_condim exclude_signature mesh_quat mesh_pos mesh_scale "
    "geom_margin pair_geom1 pair_geom2 pair_friction pair_dim pair_margin "
    "eq_active0 eq_type eq_data eq_obj1id eq_obj2id "
    "tendon_stiffness tendon_damping tendon_frictionloss"
).split()
# Arrays that are computed here: the acceleration of gravity (0 if it is switched off), density and
# viscosity of the fluid, whether an equality constraint is between sites, the number of actuators.
MADE = ("gravity", "fluid", "eq_on_sites", "counts")
# What has names, with MuJoCo's short words for it.
NAMED = {
    "body": "body",
    "joint": "jnt",
    "site": "site",
    "geom": "geom",
    "mesh": "mesh",
    "tendon": "tendon",
    "equality": "eq",
}

Arrays = dict[str, NDArray[Any]]


def compiled(
    text: str, includes: Mapping[str, bytes], assets: Mapping[str, bytes]
) -> tuple[dict[str, Any], Arrays]:
    """Let MuJoCo compile a model: {"names", "remarks"} and arrays, or {"failure", "message"}.

    "failure" is "missing" (no MuJoCo), "memory", or "complaint" (MuJoCo's, about the file).
    """
    try:
        mujoco: Any = import_module("mujoco")
    except ImportError as error:
        return {"failure": "missing", "message": str(error)}, {}
    try:
        with warnings.catch_warnings(record=True) as remarks, heard(mujoco) as said:
            warnings.simplefilter("always")
            spec = mujoco.MjSpec.from_string(text, include=dict(includes), assets=dict(assets))
            m = spec.compile()
    except MemoryError as error:
        return {"failure": "memory", "message": str(error)}, {}
    except Exception as error:  # the C++ border: whatever it raises is about the file
        message = str(error) or type(error).__name__
        is_memory = "allocate memory" in message or "bad_alloc" in message
        return {"failure": "memory" if is_memory else "complaint", "message": message}, {}
    arrays: Arrays = {name: np.asarray(getattr(m, name)) for name in FIELDS}
    is_weightless = bool(m.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY))
    arrays["gravity"] = np.zeros(3) if is_weightless else np.array(m.opt.gravity)
    arrays["fluid"] = np.array([m.opt.density, m.opt.viscosity], dtype=np.float64)
    arrays["eq_on_sites"] = np.asarray(m.eq_objtype) == int(mujoco.mjtObj.mjOBJ_SITE)
    arrays["counts"] = np.array([m.nu])
    head = {
        "names": {word: _names(m, short) for word, short in NAMED.items()},
        "remarks": [*(str(remark.message) for remark in remarks), *said],
    }
    return head, arrays


@contextmanager
def heard(mujoco: Any) -> Iterator[list[str]]:
    """Collect MuJoCo's warnings, which it otherwise writes to a file in the working folder."""
    before, said = mujoco.get_mju_user_warning(), list[str]()
    mujoco.set_mju_user_warning(said.append)
    try:
        yield said
    finally:
        mujoco.set_mju_user_warning(before)


def _names(m: Any, short: str) -> list[str]:
    """Names of all bodies, joints …, "" for those without."""
    text = bytes(m.names)
    starts = getattr(m, f"name_{short}adr").tolist()
    return [text[at : text.index(b"\0", at)].decode("utf-8", "replace") for at in starts]


# ---- arrays as bytes ----------------------------------------------------------------------------

_KINDS = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "<i8"}


def packed(arrays: Arrays) -> tuple[list[list[Any]], list[bytes]]:
    """Names, types and shapes; and the bytes of each array."""
    listed: list[list[Any]] = []
    blobs: list[bytes] = []
    for name, array in arrays.items():
        kind = _KINDS[array.dtype.kind]
        listed.append([name, kind, list(array.shape)])
        blobs.append(array.astype(kind).tobytes())
    return listed, blobs


def unpacked(listed: Any, blobs: list[bytes]) -> Arrays:
    """The arrays again; a ValueError if the list does not fit the bytes or the question."""
    out: Arrays = {}
    for (name, kind, shape), blob in zip(listed, blobs, strict=True):
        if kind not in ("<f8", "<i8") or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"{name} has the type {kind!r}")
        out[name] = np.frombuffer(blob, dtype=kind).reshape(shape)
    if set(out) != {*FIELDS, *MADE}:
        raise ValueError("arrays are missing")
    return out
