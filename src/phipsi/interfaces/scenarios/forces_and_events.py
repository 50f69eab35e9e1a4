"""Forces and events of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi import forces
from phipsi.errors import PhipsiError, did_you_mean
from phipsi.forces.force import Force
from phipsi.interfaces.scenarios.toml_tables import Table
from phipsi.model import Model
from phipsi.simulation.events import Event

Array = NDArray[Any]


def read_forces(table: Table, model: Model) -> list[Force]:
    """All elements of [[forces]], each looked up in the model."""
    out: list[Force] = []
    for one in table.tables("forces"):
        kind = one.choice("type", READERS)
        one.name = f"{one.name} ({kind})"
        try:
            elements = READERS[kind](one, model)
            for element in elements:
                element.bind(model)  # unknown joints and impossible numbers show here
        except PhipsiError as error:
            if getattr(error, "file", None) == one.file:
                raise
            one.refuse(_blamed(one, str(error)), str(error))
        out += elements
    return out


def _blamed(one: Table, reason: str) -> str:
    """The key an error of the library is about, if it names one."""
    names = [key for key in one.data if key != "type" and f" {key} " in f" {reason} "]
    return names[0] if names else ("joints" if "joint" in reason and "joints" in one else "")


def _spring(one: Table, model: Model) -> list[Force]:
    one.only("type", "joints", "stiffness", "rest")
    names, stiffness = one.names("joints", None), one.gains("stiffness")
    return [forces.JointSpring(names, stiffness, one.gains("rest", None))]


def _damper(one: Table, model: Model) -> list[Force]:
    one.only("type", "joints", "damping")
    return [forces.JointDamper(one.names("joints", None), one.gains("damping"))]


def _friction(one: Table, model: Model) -> list[Force]:
    one.only("type", "joints", "friction", "velocity_scale")
    scale = one.gains("velocity_scale", 1e-2)
    return [forces.JointFriction(one.names("joints", None), one.gains("friction"), scale)]


def _stop(one: Table, model: Model) -> list[Force]:
    one.only("type", "joints", "stiffness", "dissipation", "lower", "upper")
    return [
        forces.JointStop(
            one.names("joints", None),
            one.gains("stiffness"),
            one.gains("dissipation", 0.0),
            lower=one.gains("lower", None),
            upper=one.gains("upper", None),
        )
    ]


def _point_spring(one: Table, model: Model) -> list[Force]:
    one.only("type", "a", "b", "stiffness", "rest_length", "damping")
    return [
        forces.PointSpring(
            point(one, "a"),
            point(one, "b"),
            one.number("stiffness"),
            one.number("rest_length", 0.0),
            one.number("damping", 0.0),
        )
    ]


def _field(one: Table, model: Model) -> list[Force]:
    one.only("type", "mu", "center")
    center = one.numbers("center", 3, [0.0, 0.0, 0.0])
    return [forces.GravityField.inverse_square(one.number("mu", example="3.986e14"), center)]


def _wrench(one: Table, model: Model) -> list[Force]:
    one.only("type", "point", "wrench", "axes", "times")
    axes = one.choice("axes", ("world", "body"), "world")
    where = point(one, "point")
    if "times" not in one:
        return [forces.Wrench(where, one.numbers("wrench", 6), axes=axes)]
    times = np.array(one.numbers("times"))
    if len(times) < 2 or (np.diff(times) <= 0).any():
        one.refuse("times", "times must be two or more increasing numbers, in s.")
    values = np.array(one.rows("wrench", 6, len(times)))
    return [forces.Wrench(where, _between(times, values), axes=axes)]


def _between(times: Array, values: Array) -> Callable[[float], Array]:
    def wrench(t: float) -> Array:
        return np.array([np.interp(t, times, column) for column in values.T])

    return wrench


def _ratings(one: Table, model: Model) -> list[Force]:
    one.only("type", "stop_time", "dissipation", "velocity_scale")
    return forces.from_ratings(
        model,
        stop_time=one.number("stop_time", 0.02, positive=True),
        dissipation=one.number("dissipation", 0.0),
        velocity_scale=one.number("velocity_scale", 1e-2, positive=True),
    )


READERS: dict[str, Callable[[Table, Model], list[Force]]] = {
    "JointSpring": _spring,
    "JointDamper": _damper,
    "JointFriction": _friction,
    "JointStop": _stop,
    "PointSpring": _point_spring,
    "GravityField": _field,
    "Wrench": _wrench,
    "from_ratings": _ratings,
}


def point(one: Table, key: str) -> Any:
    """A point: the name of a body or frame, or a table with `on` and `offset`."""
    if not isinstance(one.data.get(key), dict):
        return one.text(key, example='"tool"   or   { on = "tool", offset = [0, 0, 0.1] }')
    inner = one.table(key)
    assert inner is not None
    inner.only("on", "offset")
    return (inner.text("on", example='"tool"'), tuple(inner.numbers("offset", 3, [0.0] * 3)))


def read_events(table: Table, model: Model) -> list[Event]:
    """All of [[events]]: a joint's coordinate or rate crosses a value."""
    return [_event(one, model) for one in table.tables("events")]


def _event(one: Table, model: Model) -> Event:
    one.only("joint", "value", "of", "entry", "direction", "action", "name")
    joint = one.text("joint", example=f'"{(*model.joint_names, "elbow")[0]}"')
    if joint not in model.joint_names:
        one.refuse(
            "joint", f"there is no joint {joint!r}. {did_you_mean(joint, model.joint_names)}"
        )
    of = one.choice("of", ("coordinate", "rate"), "coordinate")
    where = model.q_slice(joint) if of == "coordinate" else model.v_slice(joint)
    entry = one.number("entry", 0)
    size = where.stop - where.start
    if entry != int(entry) or not 0 <= entry < size:
        one.refuse("entry", f"joint {joint!r} has {size} of them; entry must be 0 … {size - 1}.")
    value = one.number("value")
    index = where.start + int(entry)
    sign = {"rising": 1, "falling": -1, "both": 0}[
        one.choice("direction", ("both", "rising", "falling"), "both")
    ]
    action = one.choice("action", ("record", "stop"), "record")
    name = one.text("name", f"{joint} = {value:g}")
    is_rate = of == "rate"
    return Event(
        lambda t, q, v: float((v if is_rate else q)[index]) - value,
        sign,
        "stop" if action == "stop" else None,
        name,
    )
