"""Records and values as dictionaries that go through JSON and come back bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, cast, get_type_hints

import numpy as np

from phipsi.core.model.argument_checks import is_list, is_mapping, is_tuple
from phipsi.core.model.joint import Joint
from phipsi.core.model.pose import Pose
from phipsi.core.model.value import PlainValue
from phipsi.errors import ParseError, did_you_mean


def encoded(value: Any, rare: tuple[str, ...] = ()) -> Any:
    """Records as objects of their fields, values as their arguments, infinite numbers as null.

    Fields of a record that are None and `rare` are left out.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: encoded(getattr(value, field.name)) for field in fields(value)}
        return {name: x for name, x in named.items() if x is not None or name not in rare}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Joint):
        return {"type": type(value).__name__, **encoded(value.as_arguments())}
    if isinstance(value, PlainValue):
        return encoded(value.as_arguments())
    if is_mapping(value):
        return {name: encoded(entry) for name, entry in value.items()}
    if is_tuple(value):
        return [encoded(entry, rare) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def decoded(record: type[Any], data: Any, where: str) -> Any:
    """Inverse of `encoded` for a record whose fields are poses, texts, numbers and tuples."""
    if is_mapping(data) and isinstance(data.get("name"), str):
        where = f"{where.removeprefix('a ')} {data['name']!r}"
    hints = get_type_hints(record)
    needed = [f.name for f in fields(record) if f.default is MISSING is f.default_factory]
    optional = [f.name for f in fields(record) if f.name not in needed]
    given = checked_fields(data, where, needed, optional)
    values = {name: _of_type(hints[name], x, where) for name, x in given.items()}
    try:
        return record(**values)
    except (TypeError, ValueError, AttributeError) as error:
        raise ParseError(f"{where} is not a {record.__name__}: {data!r} ({error}).") from error


def _of_type(hint: Any, value: Any, where: str) -> Any:
    return pose_from_dict(value, where) if hint is Pose else _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, cast(list[Any], value))) if isinstance(value, list) else value


def pose_from_dict(data: Any, where: str) -> Pose:
    """The pose in the field "placement" of a body, frame or record."""
    names = ("rotation", "translation")
    return Pose(**checked_fields(data, f"the placement of {where}", (), names))


def checked_fields(
    data: Any, where: str, required: Sequence[str], optional: Sequence[str], hint: str = ""
) -> dict[str, Any]:
    """The named fields of an object; a ParseError names those that are missing or not known."""
    if not is_mapping(data):
        raise ParseError(f"{where} must be an object with named fields, not {data!r}.")
    for name in required:
        if name not in data:
            raise ParseError(f"{where} lacks the field {name!r}.")
    for name in data:
        if name not in required and name not in optional:
            raise ParseError(
                f"{where} has an unknown field {name!r}. "
                + did_you_mean(str(name), [*required, *optional])
                + hint
            )
    return dict(data)


def checked_items(data: Mapping[str, Any], name: str) -> list[Any]:
    """The list in a field, empty if it is missing."""
    items = data.get(name, [])
    if not is_list(items):
        raise ParseError(f"{name!r} must be a list, not {items!r}.")
    return list(items)
