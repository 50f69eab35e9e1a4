"""States by joint name: what a scenario or the command line says about q and v."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.system import System
from phipsi.errors import InputError, did_you_mean
from phipsi.model import Model

Array = NDArray[np.float64]
Values = Mapping[str, Sequence[float]]
Refuse = Callable[[str, str], NoReturn]
_CLOSED = 1e-9  # rad/s, m/s


def _refuse(joint: str, reason: str) -> NoReturn:
    raise InputError(reason)


def with_coordinates(
    model: Model, q: Array, values: Values, refuse: Refuse = _refuse, what: str = "coordinate"
) -> Array:
    """A copy of q (nq,) in which some joints have other coordinates; unit quaternions are made.

    `refuse(joint, reason)` raises what the caller wants to be raised, with its own place.
    """
    out = np.array(q, dtype=np.float64)
    for joint, numbers in values.items():
        where = _slice(model, model.q_slices, joint, numbers, refuse, what)
        out[where] = numbers
    return out


def with_rates(model: Model, v: Array, values: Values, refuse: Refuse = _refuse) -> Array:
    """A copy of v (nv,) in which some joints have other rates."""
    out = np.array(v, dtype=np.float64)
    for joint, numbers in values.items():
        out[_slice(model, model.v_slices, joint, numbers, refuse, "rate")] = numbers
    return out


def closed_state(model: Model, q: Array, v: Array, q_of: Values, v_of: Values) -> tuple[Any, Any]:
    """The state nearest to (q, v) that closes the loops; what was said of joints stays as it is."""
    if not isinstance(model, System) or not model.n_rows:
        return q, v
    q, v = model.assemble(q, fixed=q_of), np.array(v)
    G = model.jacobian(q)
    others = np.ones(model.nv, dtype=bool)
    for joint in v_of:
        others[model.v_slice(joint)] = False
    v[others] -= np.linalg.pinv(G[:, others]) @ (G @ v - model.rates)
    gap = np.abs(G @ v - model.rates)
    if gap.max() > _CLOSED * max(1.0, float(np.abs(v).max())):
        raise InputError(
            f"the rates of {', '.join(map(repr, v_of))} contradict constraint row "
            f"{model.row_names[int(gap.argmax())]!r}: say fewer of them."
        )
    return q, v


def _slice(
    model: Model,
    slices: Sequence[slice],
    joint: str,
    numbers: Sequence[float],
    refuse: Refuse,
    what: str,
) -> slice:
    if joint not in model.joint_names:
        refuse(joint, f"there is no joint {joint!r}. {did_you_mean(joint, model.joint_names)}")
    index = model.joint_index(joint)
    where, kind = slices[index], model.joints[index].kind
    size = where.stop - where.start
    if len(numbers) != size:
        names = model.joints[index].coordinate_names
        listed = f": {', '.join(names)}" if what == "coordinate" and len(names) == size > 1 else ""
        refuse(
            joint,
            f"joint {joint!r} ({kind}) has {size} {what}{'s' * (size != 1)}{listed}; "
            f"{len(numbers)} {'is' if len(numbers) == 1 else 'are'} given.",
        )
    if not np.isfinite(numbers).all():
        refuse(joint, f"joint {joint!r}: {list(numbers)} must be finite numbers.")
    return where


def assignments(texts: Sequence[str], option: str) -> dict[str, list[float]]:
    """Numbers by joint from ``joint=value`` or ``joint=v1,v2,…``; ``30deg`` is an angle in degrees.

    >>> assignments(["elbow=90deg", "slider=0.2"], "--set")
    {'elbow': [1.5707963267948966], 'slider': [0.2]}
    """
    out: dict[str, list[float]] = {}
    for text in texts:
        joint, equals, values = text.rpartition("=")
        if not equals or not joint.strip():
            raise InputError(
                f"{option} {text}: write joint=value, for example  {option} elbow=0.5   "
                f"or  {option} elbow=30deg"
            )
        joint = joint.strip()
        if joint in out:
            raise InputError(f"{option}: joint {joint!r} is given twice.")
        out[joint] = [parsed_number(part, option, text) for part in values.split(",")]
    return out


def parsed_number(text: str, option: str, whole: str) -> float:
    """A number, or an angle such as ``30deg`` in rad; `whole` is what the user wrote."""
    word = text.strip()
    in_degrees = word.endswith(("deg", "°"))
    try:
        value = float(word.removesuffix("°").removesuffix("deg"))
    except ValueError:
        raise InputError(
            f"{option} {whole}: {word!r} is no number. Angles are in rad (or 30deg), lengths in m, "
            f"and a decimal point is a point."
        ) from None
    return float(np.deg2rad(value)) if in_degrees else value


def joint_values(model: Model, q: Array, v: Array) -> list[tuple[str, str, Any, Any]]:
    """For every joint: its name, its kind, its coordinates and its rates."""
    return [
        (name, joint.kind, q[at], v[rates])
        for name, joint, at, rates in zip(
            model.joint_names, model.joints, model.q_slices, model.v_slices, strict=True
        )
    ]
