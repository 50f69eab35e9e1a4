"""Rotors behind gears: their records, and the joints and bodies that they belong to.

What they do is in `rotor_inertias.py`, how they follow changes in `attached_rotors.py`.

Reasons: docs/decisions/0056.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import (
    WORLD_NAME,
    Body,
    Described,
    Joint,
    as_array,
    check_text,
    floats_of,
    unit_axis,
)
from phipsi.core.spatial import ARRAYS
from phipsi.errors import ModelError, did_you_mean, is_a, one_of

FloatArray = NDArray[np.float64]
Carrier = Literal["parent", "child", "world"]
Numbers = tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class Rotor:
    """A symmetric rotor that turns `ratio` times as fast as a joint, against its carrier.

    `moment`, about its axis (kg·m²); `on`, its carrier: the "parent" or the "child" of the joint,
    or "world"; `axis` in the axes of the inboard joint frame, or those of the child if it sits on
    that; None is along the axis of the joint. With several joints, it turns with the sum of their
    rates times their ratios, and sits at the first; several rows of ratios are equal rotors. Of one
    joint with several rates, a row has a ratio for each of these.
    """

    name: str
    joint: str | tuple[str, ...]
    ratio: float | Numbers | tuple[Numbers, ...]
    moment: float
    axis: Numbers | None = None
    on: Carrier = "parent"

    @property
    def joints(self) -> tuple[str, ...]:
        """All joints that it turns with; the first is the one at which it sits."""
        return (self.joint,) if isinstance(self.joint, str) else self.joint

    @property
    def rows(self) -> tuple[Numbers, ...]:
        """The ratio for each joint, or for each rate, for each of the equal rotors."""
        width = np.shape(self.ratio)[-1] if self.of_rates else len(self.joints)
        rows = np.reshape(self.ratio, (-1, width)).tolist()
        return tuple(tuple(row) for row in rows)

    @property
    def of_rates(self) -> bool:
        """Whether it has a ratio for each rate of one joint."""
        return isinstance(self.joint, str) and np.ndim(self.ratio) > 0


def make_rotor(
    name: str,
    joint: str | Sequence[str],
    ratio: Any,
    moment: Any,
    axis: ArrayLike | None,
    on: Any,
) -> Rotor:
    """Return a record with checked types and numbers; `axis` stays as it is given."""
    check_text(name, "a rotor's name")
    listed = isinstance(cast(object, joint), list | tuple)
    joints = tuple(joint) if listed else (cast(str, joint),)
    if not joints or not all(is_a(x, str) for x in joints) or len({*joints}) < len(joints):
        raise ModelError(
            f"rotor {name!r}: joint={joint!r} must be the name of a joint, or different names."
        )
    of_rates = not listed and is_a(ratio, (list, tuple, np.ndarray)) and np.ndim(ratio) > 0
    width = np.shape(ratio)[-1] if of_rates else len(joints)
    ratios = _numbers(name, "ratio", ratio, (width,) if listed or of_rates else ())
    there = ratios.reshape(-1, max(width, 1)).any(axis=0)
    if not np.isfinite(ratios).all() or not (there.any() if of_rates else there.all()):
        raise ModelError(f"rotor {name!r}: ratio={ratio} must be finite and not 0.")
    inertia = float(_numbers(name, "moment", moment, ()))
    if not math.isfinite(inertia) or inertia <= 0:
        raise ModelError(f"rotor {name!r}: moment={inertia:g} must be positive.")
    hint = (
        "It is the body of its joint that carries it; a rotor on another body is a body of its own."
    )
    one_of(f"rotor {name!r}: on", on, ("parent", "child", "world"), hint, ModelError)
    u = None if axis is None else unit_axis(axis, f"the axis of rotor {name!r}")
    given = joints if listed else joints[0]
    return Rotor(name, given, _frozen(ratios.tolist()), inertia, u, cast(Carrier, on))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, cast(list[Any], value))) if isinstance(value, list) else value


def _numbers(name: str, what: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """One number, or one for each of several joints, in one row or in several."""
    array = floats_of(value)
    if array.shape != shape and not (shape and array.ndim == 2 and array.shape[1:] == shape):
        wanted = "one number" if not shape else f"{shape[0]} numbers, one for each joint, or rows"
        raise ModelError(f"rotor {name!r}: {what} must be {wanted}, not {value!r}.")
    return array


def rotors_of(description: Described) -> tuple[Rotor, ...]:
    """The rotors of a description."""
    found = description.attachments.stored_as("rotors")
    return () if found is None else found.records


# ---- joints and bodies ---------------------------------------------------------------------------


def outboard(bodies: Sequence[Body], rotor: Rotor, joint: str | None = None) -> Body:
    """The body outboard of a joint of a rotor, by default the first."""
    joint = rotor.joints[0] if joint is None else joint
    for body in bodies:
        if body.joint_name == joint:
            return body
    names = [body.joint_name for body in bodies]
    raise ModelError(
        f"rotor {rotor.name!r} turns with {joint!r}, which is not a joint. "
        + did_you_mean(joint, names)
    )


def carrier_name(bodies: Sequence[Body], rotor: Rotor) -> str:
    """The body that carries a rotor, or "world"."""
    body = outboard(bodies, rotor)
    return {"parent": body.parent, "child": body.name, "world": WORLD_NAME}[rotor.on]


def check_joint(rotor: Rotor, body: Body) -> None:
    """Raise a ModelError if a rotor cannot turn with the joint of a body."""
    if not rotor.of_rates:
        checked_joint(rotor, body)
        return
    joint, given = body.joint, len(rotor.rows[0])
    who = f"rotor {rotor.name!r}: joint {body.joint_name!r} ({joint.kind})"
    if given != joint.nv:
        raise ModelError(
            f"{who} has {joint.nv} rate{'s' * (joint.nv != 1)}, and ratio has {given} numbers; "
            f"give one for each rate, or one number for a joint of which one rate turns."
        )
    if not joint.is_additive:
        raise ModelError(
            f"{who} has rates that are not those of coordinates, and a gear relates angles. Use a "
            f"universal joint, or pp.joints.Composite of joints about one axis each."
        )
    if rotor.axis is None and rotor.on != "world":
        raise ModelError(
            f"{who} has several rates, so the axis of the rotor must be given, in the axes of its "
            f"carrier: axis=(…, …, …)."
        )


def checked_joint(rotor: Rotor, body: Body) -> tuple[int, FloatArray]:
    """The rate that turns a rotor, and [w; x], the motion per unit of it; w does not change."""
    joint = body.joint
    who = f"rotor {rotor.name!r}: joint {body.joint_name!r} ({joint.kind})"
    found = motions_of(joint)
    turning = np.flatnonzero(found[:, :3].any(axis=(0, 1)))
    if joint.nv != 1 and len(turning) != 1:
        raise ModelError(
            f"{who} has {joint.nv} rates, {len(turning)} of which turn, and one ratio is of one of "
            f"them. Give a ratio for each, ratio=({', '.join('…' * joint.nv)}), with axis=, if the "
            f"rates are those of coordinates (universal, composite); or use joints of one rate in "
            f"a row, with bodies without mass between them."
        )
    rate = int(turning[0]) if len(turning) else 0
    axes = found[..., rate]
    turned = np.array([R @ axes[0, :3] for R in rotations_of(joint)])
    if np.abs(np.concatenate([axes[1:, :3], turned]) - axes[0, :3]).max() > 1e-12:
        raise ModelError(
            f"{who} turns about an axis that changes as it moves, so that its rotor is not "
            f"equal to constant inertias. Make the rotor a body:\n{own_body(rotor)}"
        )
    return rate, axes[0]


def motions_of(joint: Joint) -> FloatArray:
    """H* (4, 6, nv) at the neutral and at three other configurations."""
    rows = [joint.hinge_axes(joint.params, q, ARRAYS) for q in _samples(joint)]
    return np.stack([as_array(x).astype(float).reshape(6, joint.nv) for x in rows])


def rotations_of(joint: Joint) -> FloatArray:
    """The rotations (4, 3, 3) from child to inboard axes at the same configurations."""
    rows = [joint.transform(joint.params, q, ARRAYS)[0] for q in _samples(joint)]
    return np.stack([as_array(x).astype(float).reshape(3, 3) for x in rows])


def _samples(joint: Joint) -> list[Any]:
    rng = np.random.default_rng(0)
    return [q.tolist() for q in (joint.neutral(), *joint.random(rng, (3,)))]


def own_body(rotor: Rotor, carrier: str = "carrier", u: FloatArray | None = None) -> str:
    """Lines that make a rotor a body of its own, with a relation; to paste."""
    axis = "…" if u is None else tuple(float(f"{x:.6g}") + 0.0 for x in u)
    note = f"    # its mass stays part of {carrier!r}, but not its moments: subtract them there"
    lines, couplings = [note], list[str]()
    for n, row in enumerate(rotor.rows, 1):
        name = rotor.name if len(rotor.rows) == 1 else f"{rotor.name}{n}"
        lines.append(
            f"    builder.add_body({name!r}, parent={carrier!r}, joint=pp.joints.Revolute({axis}), "
            f"inertia=pp.SpatialInertia(0, (0, 0, 0), {rotor.moment:.15g}))"
        )
        shares = [(joint, N) for joint, N in zip(rotor.joints, row, strict=True) if N]
        joints = (name, *(joint for joint, _ in shares))
        numbers = ", ".join(["1", *(f"{-N:.15g}" for _, N in shares)])
        couplings.append(
            f"pp.constraints.Coupling(name={f'{name} gear'!r}, joints={joints}, "
            f"coefficients=({numbers}))"
        )
    return "\n".join([*lines, f"    system = pp.System(builder.build(), [{', '.join(couplings)}])"])
