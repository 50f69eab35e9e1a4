"""Descriptions as plain dictionaries that go through JSON and come back bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from phipsi.errors import ParseError, did_you_mean
from phipsi.model import joints as joint_types
from phipsi.model.body import (
    Body,
    Description,
    Frame,
    Limits,
    Rotor,
    checked_gravity,
    make_body,
    make_frame,
)
from phipsi.model.extras import EXTRA_KEYS, extras_from_dict, extras_to_dict
from phipsi.model.flexible_inertia import FlexibleInertia, FlexibleShape, Port
from phipsi.model.inertia import SpatialInertia
from phipsi.model.joint import Joint
from phipsi.model.pose import Pose
from phipsi.model.rotors import make_rotor
from phipsi.model.value import PlainValue

FORMAT = "phipsi-model"
VERSION = 1

_JOINTS: dict[str, type[Joint]] = {
    name: getattr(joint_types, name) for name in joint_types.__all__ if name != "Joint"
}
_RARE = ("port", "flexible")
_INERTIA_KEYS = ("mass", "com_B", "moment_about_com_B", "moment_about_origin_B")


def to_dict(description: Description) -> dict[str, Any]:
    """Return dicts, lists, strings and floats only; `json.dumps` takes it, also with strict NaN."""
    from phipsi.model.shapes import shape_to_dict

    welded = description.world_inertia
    return {
        "format": FORMAT,
        "version": VERSION,
        "gravity": list(description.gravity),
        "bodies": _encoded(description.bodies),
        "frames": _encoded(description.frames),
        **({"parts": _encoded(description.parts)} if description.parts else {}),
        **({} if welded.is_zero else {"world_inertia": _encoded(welded)}),
        **({"shapes": [*map(shape_to_dict, description.shapes)]} if description.shapes else {}),
        **({"rotors": _encoded(description.rotors)} if description.rotors else {}),
        **extras_to_dict(description.extras),
    }


def _encoded(value: Any) -> Any:
    """Records as objects of their fields, values as their arguments, infinite limits as null."""
    if isinstance(value, Body | Frame | Rotor):
        named = {field.name: _encoded(getattr(value, field.name)) for field in fields(value)}
        return {name: x for name, x in named.items() if x is not None or name not in _RARE}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Joint):
        return {"type": type(value).__name__, **_encoded(value.as_arguments())}
    if isinstance(value, PlainValue):
        return _encoded(value.as_arguments())
    if isinstance(value, dict):
        return {name: _encoded(entry) for name, entry in value.items()}
    if isinstance(value, tuple):
        return [_encoded(entry) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def from_dict(data: Mapping[str, Any]) -> Description:
    """Inverse of `to_dict`; a ParseError says where the data departs from the format."""
    from phipsi.model.shapes import shape_from_dict

    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise ParseError(
            f'this is not a phipsi model: the key "format" must be "{FORMAT}". '
            f"Write models with model.to_dict()."
        )
    if data.get("version") != VERSION:
        raise ParseError(
            f"model format version {data.get('version')!r} is not known here; this library reads "
            f"version {VERSION}. Write the model again with the library that made it."
        )
    top = _fields(
        data,
        "the model",
        ("format", "version", "gravity", "bodies"),
        ("frames", "parts", "world_inertia", "shapes", "rotors", *EXTRA_KEYS),
    )
    return Description(
        bodies=tuple(_body_from_dict(body) for body in _items(top, "bodies")),
        frames=tuple(_frame_from_dict(frame) for frame in _items(top, "frames")),
        gravity=checked_gravity(top["gravity"]),
        parts=tuple(_body_from_dict(body) for body in _items(top, "parts")),
        extras=extras_from_dict(top),
        world_inertia=_inertia_from_dict(top, "world_inertia", "the bodies welded to the world"),
        shapes=tuple(shape_from_dict(shape) for shape in _items(top, "shapes")),
        rotors=tuple(_rotor_from_dict(rotor) for rotor in _items(top, "rotors")),
    )


def _body_from_dict(data: Any) -> Body:
    where = f"body {data.get('name')!r}" if isinstance(data, Mapping) else "a body"
    required = ("name", "joint")
    optional = (
        "parent", "joint_name", "placement", "inertia", "armature", "damping", "limits", "port",
        "flexible",
    )  # fmt: skip
    given = _fields(data, where, required, optional)
    rigid = "flexible" not in given
    return make_body(
        given["name"],
        given.get("parent", "world"),
        _joint_from_dict(given["joint"], where),
        _pose_from_dict(given.get("placement", {}), where),
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
    given = _fields(data, who, ("mass", "modal_mass", "stiffness"), FlexibleInertia.__slots__)
    ports = _items(given, "ports")
    given["ports"] = [
        Port(**_fields(x, f"a port of {who}", ("name",), Port.__slots__)) for x in ports
    ]
    if given.get("shape"):
        given["shape"] = FlexibleShape(**given["shape"])
    return FlexibleInertia(**given)


def _inertia_from_dict(data: Mapping[str, Any], key: str, where: str) -> SpatialInertia:
    values = _fields(data.get(key, {}), f"the inertia of {where}", (), _INERTIA_KEYS)
    return SpatialInertia(**values)


def _frame_from_dict(data: Any) -> Frame:
    where = f"frame {data.get('name')!r}" if isinstance(data, Mapping) else "a frame"
    given = _fields(data, where, ("name", "body"), ("placement",))
    placement = _pose_from_dict(given.get("placement", {}), where)
    return make_frame(given["name"], given["body"], placement)


def _rotor_from_dict(data: Any) -> Rotor:
    where = f"rotor {data.get('name')!r}" if isinstance(data, Mapping) else "a rotor"
    given = _fields(data, where, ("name", "joint", "ratio", "moment"), ("axis", "on"))
    return make_rotor(**{"axis": None, "on": "parent", **given})


def _pose_from_dict(data: Any, where: str) -> Pose:
    return Pose(**_fields(data, f"the placement of {where}", (), ("rotation", "translation")))


def _joint_from_dict(data: Any, where: str) -> Joint:
    what = f"the joint of {where}"
    if not isinstance(data, Mapping) or "type" not in data:
        raise ParseError(f'{what} must be an object with a "type", not {data!r}.')
    kind = data["type"]
    if kind not in _JOINTS:
        raise ParseError(
            f"{what} has the type {kind!r}, which does not exist. "
            + did_you_mean(str(kind), _JOINTS)
        )
    arguments = {name: value for name, value in data.items() if name != "type"}
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


def _fields(
    data: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ParseError(f"{where} must be an object with named fields, not {data!r}.")
    for name in required:
        if name not in data:
            raise ParseError(f"{where} lacks the field {name!r}.")
    for name in data:
        if name not in required and name not in optional:
            raise ParseError(
                f"{where} has an unknown field {name!r}. "
                + did_you_mean(str(name), [*required, *optional])
            )
    return dict(data)


def _items(data: Mapping[str, Any], name: str) -> list[Any]:
    items = data.get(name, [])
    if not isinstance(items, list | tuple):
        raise ParseError(f"{name!r} must be a list, not {items!r}.")
    return list(items)
