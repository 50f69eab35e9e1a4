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
    "jnt_actfrcrange jnt_axis jnt_pos jnt_stiffness jnt_margin jnt_solref jnt_solimp "
    "qpos0 qpos_spring "
    "dof_damping dof_armature dof_frictionloss dof_solref dof_solimp "
    "site_bodyid site_quat site_pos "
    "geom_bodyid geom_contype geom_conaffinity geom_quat geom_pos geom_type geom_size geom_dataid "
    "geom_rgba geom_friction geom_condim geom_priority geom_margin geom_solref geom_solimp "
    "exclude_signature mesh_quat mesh_pos mesh_scale "
    "hfield_nrow hfield_ncol hfield_adr hfield_size hfield_data "
    "pair_geom1 pair_geom2 pair_friction pair_dim pair_margin pair_solref pair_solreffriction "
    "pair_solimp eq_active0 eq_type eq_data eq_obj1id eq_obj2id eq_solref eq_solimp "
    "tendon_stiffness tendon_damping tendon_frictionloss tendon_limited "
    "actuator_trntype actuator_trnid actuator_dyntype actuator_gaintype actuator_biastype "
    "actuator_gainprm actuator_biasprm actuator_gear actuator_ctrllimited actuator_ctrlrange "
    "actuator_forcelimited actuator_forcerange"
).split()
# Arrays that only newer versions of MuJoCo have, by what they belong to; zero in older ones.
NEWER = {
    "dof_dampingpoly": "dof_damping",
    "jnt_stiffnesspoly": "jnt_stiffness",
    "jnt_springyield": "jnt_stiffness",
    "geom_adhesion": "geom_margin",
    "geom_surfacevel": "geom_margin",
    "pair_adhesion": "pair_margin",
    "tendon_armature": "tendon_damping",
    "tendon_dampingpoly": "tendon_damping",
    "tendon_stiffnesspoly": "tendon_damping",
    "actuator_armature": "actuator_trntype",
    "actuator_damping": "actuator_trntype",
    "actuator_dampingpoly": "actuator_trntype",
}
# Arrays that are computed here: the acceleration of gravity (0 if it is switched off), density and
# viscosity of the fluid and the wind, whether an equality constraint is between sites, whether
# bodies may touch those that they are joined to, and the friction that overrides all (or nothing).
MADE = ("gravity", "fluid", "eq_on_sites", "parents_touch", "o_friction")
# What each flag of <flag …="disable"/> switches off: it is zero in the arrays.
FLAGS = {
    "equality": ("eq_active0",),
    "frictionloss": ("dof_frictionloss", "tendon_frictionloss"),
    "limit": ("jnt_limited", "tendon_limited"),
    "contact": ("geom_contype", "geom_conaffinity"),
    "spring": ("jnt_stiffness", "jnt_stiffnesspoly", "tendon_stiffness", "tendon_stiffnesspoly"),
    "damper": ("dof_damping", "dof_dampingpoly", "tendon_damping", "tendon_dampingpoly",
               "actuator_damping", "actuator_dampingpoly"),
    "gravity": ("gravity", "body_gravcomp"),
    "actuation": (),
    "clampctrl": ("actuator_ctrllimited",),
    "filterparent": (),
}  # fmt: skip
_MEANS = {  # flags that stand for several
    "constraint": ("equality", "frictionloss", "limit", "contact"),
    "passive": ("spring", "damper"),
}
# What has names, with MuJoCo's short words for it.
NAMED = {
    "body": "body",
    "joint": "jnt",
    "site": "site",
    "geom": "geom",
    "mesh": "mesh",
    "tendon": "tendon",
    "equality": "eq",
    "actuator": "actuator",
    "pair": "pair",
    "hfield": "hfield",
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
        with warnings.catch_warnings(record=True) as remarks, captured_warnings(mujoco) as said:
            warnings.simplefilter("always")
            spec = mujoco.MjSpec.from_string(text, include=dict(includes), assets=dict(assets))
            disabled = _disabled(mujoco, spec.option.disableflags)
            for flag in ("contact", "constraint"):  # what would be simulated to be thrown away
                spec.option.disableflags |= _bit(mujoco, flag)
            m = spec.compile()
    except MemoryError as error:
        return {"failure": "memory", "message": str(error)}, {}
    except Exception as error:  # the C++ border: whatever it raises is about the file
        message = str(error) or type(error).__name__
        is_memory = "allocate memory" in message or "bad_alloc" in message
        return {"failure": "memory" if is_memory else "complaint", "message": message}, {}
    arrays: Arrays = {name: np.asarray(getattr(m, name)) for name in FIELDS}
    for name, host in NEWER.items():
        found = getattr(m, name, None)
        arrays[name] = np.zeros_like(arrays[host]) if found is None else np.asarray(found)
    arrays["gravity"] = np.array(m.opt.gravity)
    arrays["fluid"] = np.array([m.opt.density, m.opt.viscosity, *m.opt.wind], dtype=np.float64)
    arrays["eq_on_sites"] = np.asarray(m.eq_objtype) == int(mujoco.mjtObj.mjOBJ_SITE)
    arrays["parents_touch"] = np.array(["filterparent" in disabled])
    names = {word: _names(m, short) for word, short in NAMED.items()}
    arrays["o_friction"] = np.zeros(0)
    if m.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE):
        _override(arrays, m.opt)
    _switch_off(arrays, names, disabled)
    head = {
        "names": names,
        "disabled": disabled,
        "remarks": [*(str(remark.message) for remark in remarks), *said],
    }
    return head, arrays


def _bit(mujoco: Any, flag: str) -> int:
    """The bit of a flag, 0 if this version of MuJoCo has none."""
    return int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}", 0))


def _disabled(mujoco: Any, bits: int) -> list[str]:
    """The flags of `FLAGS` that a file switches off."""
    off = {flag for flag in FLAGS if bits & _bit(mujoco, flag)}
    for flag, several in _MEANS.items():
        off |= set(several) if bits & _bit(mujoco, flag) else set()
    return sorted(off)


def _override(arrays: Arrays, option: Any) -> None:
    """Every contact has the parameters of <option o_…>."""
    friction = arrays["o_friction"] = np.array(option.o_friction, dtype=np.float64)
    arrays["geom_friction"] = np.tile(friction[[0, 2, 3]], (len(arrays["geom_friction"]), 1))
    arrays["pair_friction"] = np.tile(friction, (len(arrays["pair_friction"]), 1))
    for kind in ("geom", "pair"):
        for what in ("margin", "solref", "solimp"):
            array = arrays[f"{kind}_{what}"]
            arrays[f"{kind}_{what}"] = np.broadcast_to(
                getattr(option, f"o_{what}"), array.shape
            ).copy()


def _switch_off(arrays: Arrays, names: dict[str, list[str]], disabled: list[str]) -> None:
    for flag in disabled:
        for name in FLAGS[flag]:
            arrays[name] = np.zeros_like(arrays[name])
    for flag, what in (("contact", "pair"), ("actuation", "actuator")):
        if flag in disabled:
            names[what] = []
            for name in [x for x in arrays if x.startswith(f"{what}_")]:
                arrays[name] = arrays[name][:0]


@contextmanager
def captured_warnings(mujoco: Any) -> Iterator[list[str]]:
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
    if set(out) != {*FIELDS, *NEWER, *MADE}:
        raise ValueError("arrays are missing")
    return out
