"""Descriptions as plain dictionaries that go through JSON and come back bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from phipsi.core.model import joints as joint_types
from phipsi.core.model.argument_checks import is_mapping
from phipsi.core.model.attachments import known_keys, read_attachments
from phipsi.core.model.body import (
    Body,
    Description,
    Frame,
    Limits,
    checked_gravity,
    make_body,
    make_frame,
)
from phipsi.core.model.compound_body import reject_compound
from phipsi.core.model.flexible_inertia import FlexibleInertia, FlexibleShape, Port
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.plain_records import checked_fields, checked_items, encoded, pose_from_dict
from phipsi.errors import ModelError, ParseError, did_you_mean, is_a

FORMAT = "phipsi-model"
VERSION = 1

_JOINTS: dict[str, type[Joint]] = {
    name: getattr(joint_types, name) for name in joint_types.__all__ if name != "Joint"
}
_RARE = ("port", "flexible")
_UNKNOWN = (
    "\nThe fields of an attachment are known once it is registered: import the module that does."
)
_OTHER_JOINTS = "\nOther joints are known once the module that registers them is imported."
_INERTIA_KEYS = ("mass", "com_B", "moment_about_com_B", "moment_about_origin_B")


def register_joint(kind: type[Joint]) -> None:
    """Let stored models have a class of joints, by its name."""
    known = _JOINTS.get(kind.__name__, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ModelError(
            f"a class of joints {kind.__name__} is registered already, that of {known.__module__}. "
            "Stored models know joints by the names of their classes; choose another name"
        )
    _JOINTS[kind.__name__] = kind


def to_dict(description: Description) -> dict[str, Any]:
    """Return dicts, lists, strings and floats only; `json.dumps` takes it, also with strict NaN."""
    reject_compound(description.bodies, "model.to_dict()")
    welded = description.world_inertia
    out: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "gravity": list(description.gravity),
        "bodies": encoded(description.bodies, _RARE),
        "frames": encoded(description.frames),
        **({"parts": encoded(description.parts, _RARE)} if description.parts else {}),
        **({} if welded.is_zero else {"world_inertia": encoded(welded)}),
    }
    for attachment in description.attachments:
        out |= attachment.to_dict()
    return out


def from_dict(data: Mapping[str, Any]) -> Description:
    """Inverse of `to_dict`; a ParseError says where the data departs from the format."""
    if not is_a(data, Mapping) or data.get("format") != FORMAT:
        raise ParseError(
            f'this is not a phipsi model: the key "format" must be "{FORMAT}". '
            f"Write models with model.to_dict()."
        )
    if data.get("version") != VERSION:
        raise ParseError(
            f"model format version {data.get('version')!r} is not supported; this library reads "
            f"version {VERSION}. Write the model again with the library that made it."
        )
    required = ("format", "version", "gravity", "bodies")
    optional = ("frames", "parts", "world_inertia", *known_keys())
    top = checked_fields(data, "the model", required, optional, _UNKNOWN)
    return Description(
        bodies=tuple(_body_from_dict(body) for body in checked_items(top, "bodies")),
        frames=tuple(_frame_from_dict(frame) for frame in checked_items(top, "frames")),
        gravity=checked_gravity(top["gravity"]),
        parts=tuple(_body_from_dict(body) for body in checked_items(top, "parts")),
        world_inertia=_inertia_from_dict(top, "world_inertia", "the bodies welded to the world"),
        attachments=read_attachments(top),
    )


def _body_from_dict(data: Any) -> Body:
    where = f"body {data.get('name')!r}" if is_mapping(data) else "a body"
    required = ("name", "joint")
    optional = (
        "parent", "joint_name", "placement", "inertia", "armature", "damping", "limits", "port",
        "flexible",
    )  # fmt: skip
    given = checked_fields(data, where, required, optional)
    rigid = "flexible" not in given
    return make_body(
        given["name"],
        given.get("parent", "world"),
        _joint_from_dict(given["joint"], where),
        pose_from_dict(given.get("placement", {}), where),
        _inertia_from_dict(given, "inertia", where)
        if rigid
        else _flexible_from_dict(given["flexible"], where),
        given.get("joint_name"),
        given.get("armature", 0.0),
        given.get("damping", 0.0),
        _limits_from_list(given.get("limits"), where),
        given.get("port"),
    )


def _flexible_from_dict(data: Any, where: str) -> FlexibleInertia:
    who = f"the flexible inertia of {where}"
    given = checked_fields(
        data, who, ("mass", "modal_mass", "stiffness"), FlexibleInertia.__slots__
    )
    ports = checked_items(given, "ports")
    given["ports"] = [
        Port(**checked_fields(x, f"a port of {who}", ("name",), Port.__slots__)) for x in ports
    ]
    if given.get("shape"):
        given["shape"] = FlexibleShape(**given["shape"])
    return FlexibleInertia(**given)


def _inertia_from_dict(data: Mapping[str, Any], key: str, where: str) -> SpatialInertia:
    values = checked_fields(data.get(key, {}), f"the inertia of {where}", (), _INERTIA_KEYS)
    return SpatialInertia(**values)


def _frame_from_dict(data: Any) -> Frame:
    where = f"frame {data.get('name')!r}" if is_mapping(data) else "a frame"
    given = checked_fields(data, where, ("name", "body"), ("placement",))
    placement = pose_from_dict(given.get("placement", {}), where)
    return make_frame(given["name"], given["body"], placement)


def _joint_from_dict(data: Any, where: str) -> Joint:
    what = f"the joint of {where}"
    if not is_mapping(data) or "type" not in data:
        raise ParseError(f'{what} must be an object with a "type", not {data!r}.')
    kind = data["type"]
    if kind not in _JOINTS:
        raise ParseError(
            f"{what} has the type {kind!r}, which does not exist. "
            + did_you_mean(str(kind), _JOINTS)
            + _OTHER_JOINTS
        )
    arguments: dict[str, Any] = {name: value for name, value in data.items() if name != "type"}
    if "joints" in arguments and kind == "Composite":
        arguments["joints"] = [_joint_from_dict(part, where) for part in arguments["joints"]]
    try:
        return _JOINTS[kind](**arguments)
    except TypeError as error:
        raise ParseError(f"{what}: {kind} does not take {sorted(arguments)}: {error}.") from error


def _limits_from_list(data: Any, where: str) -> Limits:
    if data is None:
        return None
    try:
        lower, upper = data
        low = tuple(-math.inf if x is None else float(x) for x in lower)
        high = tuple(math.inf if x is None else float(x) for x in upper)
    except (TypeError, ValueError) as error:
        raise ParseError(
            f"the limits of {where} must be [lower, upper], each a list of numbers or null, "
            f"not {data!r}."
        ) from error
    return low, high
