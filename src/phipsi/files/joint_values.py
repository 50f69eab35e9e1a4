"""States by joint name, as scenarios and the command line give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import System
from phipsi.core.model import Model
from phipsi.errors import InputError, counted, did_you_mean

Array = NDArray[np.float64]
Values = Mapping[str, Sequence[float]]
Reject = Callable[[str, str, str], NoReturn]  # of "q" or "v", a joint, and the reason
_CLOSED = 1e-9  # rad/s, m/s


def _reject(key: str, joint: str, reason: str) -> NoReturn:
    raise InputError(reason)


def with_values(
    model: Model, key: str, x: Array, values: Values, reject: Reject = _reject
) -> Array:
    """A copy of q (nq,) or v (nv,), as the key says, in which some joints have other values.

    `reject(key, joint, reason)` raises an error, with the place that the caller knows.
    """
    out = np.array(x, dtype=np.float64)
    slices, word = (model.q_slices, "coordinate") if key == "q" else (model.v_slices, "rate")
    for joint, numbers in values.items():
        if joint not in model.joint_names:
            hint = did_you_mean(joint, model.joint_names)
            reject(key, joint, f"there is no joint {joint!r}. {hint}")
        index = model.joint_index(joint)
        where, kind = slices[index], model.joints[index].kind
        size = where.stop - where.start
        if len(numbers) != size:
            names = model.joints[index].coordinate_names
            listed = f": {', '.join(names)}" if key == "q" and len(names) == size > 1 else ""
            given = f"{len(numbers)} {'is' if len(numbers) == 1 else 'are'} given."
            what = f"{counted(size, word)}{listed}"
            reject(key, joint, f"joint {joint!r} ({kind}) has {what}; {given}")
        if not np.isfinite(numbers).all():
            reject(key, joint, f"joint {joint!r}: {list(numbers)} must be finite numbers.")
        out[where] = numbers
    return out


def initial_state(model: Model, *stated: tuple[Values, Values, Reject | None]) -> tuple[Any, Any]:
    """Neutral and at rest, but for the coordinates and rates that are stated.

    Later statements, each with how its errors are reported, overwrite earlier ones. Loops are
    closed.
    """
    x = {"q": model.neutral(), "v": np.zeros(model.nv)}
    named: dict[str, dict[str, Any]] = {"q": {}, "v": {}}
    for *values, reject in stated:
        for key, of in zip("qv", values, strict=True):
            x[key] = with_values(model, key, x[key], of, reject or _reject)
            named[key] |= of
    return assembled_state(model, x["q"], x["v"], named["q"], named["v"])


def assembled_state(
    model: Model, q: Array, v: Array, q_of: Values, v_of: Values
) -> tuple[Any, Any]:
    """The nearest state that closes the loops; joints in `q_of` and `v_of` keep their values."""
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
            f"the velocities of {', '.join(map(repr, v_of))} contradict constraint row "
            f"{model.row_names[int(gap.argmax())]!r}: set fewer of them."
        )
    return q, v


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
            f"{option} {whole}: {word!r} is not a number. Angles are in rad (or 30deg), "
            "lengths in m, and decimals have a point."
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
