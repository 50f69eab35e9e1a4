"""Rotors behind gears: their records, and the joints and bodies that they belong to.

What they do is in `rotor_inertias.py`. Reasons: docs/decisions/0056.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError, did_you_mean, one_of
from phipsi.model.body import WORLD_NAME, Body, Carrier, Description, Rotor
from phipsi.model.inertia import SpatialInertia
from phipsi.model.joint import Joint, unit_axis
from phipsi.model.numbers import floats_of
from phipsi.model.scalars import NUMPY_OPS, as_array
from phipsi.model.value import check_text

FloatArray = NDArray[np.float64]


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
    if not joints or not all(isinstance(x, str) for x in joints) or len({*joints}) < len(joints):
        raise ModelError(
            f"rotor {name!r}: joint={joint!r} must be the name of a joint, or different names."
        )
    of_rates = not listed and isinstance(ratio, list | tuple | np.ndarray) and np.ndim(ratio) > 0
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
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _numbers(name: str, what: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """One number, or one for each of several joints, in one row or in several."""
    array = floats_of(value)
    if array.shape != shape and not (shape and array.ndim == 2 and array.shape[1:] == shape):
        wanted = "one number" if not shape else f"{shape[0]} numbers, one for each joint, or rows"
        raise ModelError(f"rotor {name!r}: {what} must be {wanted}, not {value!r}.")
    return array


def added(description: Description, rotor: Rotor, inertia: SpatialInertia | None) -> Description:
    """The description with one more rotor, whose axis is in the axes of its carrier.

    `inertia`, of the rotor at rest in the frame of the carrier, is added to that of the carrier.
    """
    found = [outboard(description.bodies, rotor, name) for name in rotor.joints]
    for body in found:
        check_joint(rotor, body)
    body = found[0]
    if any(other.name == rotor.name for other in description.rotors):
        raise ModelError(
            f"two rotors are called {rotor.name!r}; errors name them, so names must differ."
        )
    if rotor.axis is not None and rotor.on == "parent":
        axis = body.placement.rotation.T @ np.array(rotor.axis)
        rotor = replace(rotor, axis=unit_axis(axis, f"the axis of rotor {rotor.name!r}"))
    bodies = description.bodies
    if inertia is not None:
        if not isinstance(cast(object, inertia), SpatialInertia):
            raise ModelError(
                f"rotor {rotor.name!r}: inertia must be a SpatialInertia, not {inertia!r}."
            )
        carrier = _carrier_name(bodies, rotor)
        if carrier == WORLD_NAME:
            description = replace(description, world_inertia=description.world_inertia + inertia)
        bodies = tuple(
            replace(b, inertia=b.inertia + inertia) if b.name == carrier else b for b in bodies
        )
    return replace(description, bodies=bodies, rotors=(*description.rotors, rotor))


def with_prefix(rotors: Sequence[Rotor], prefix: str, body: str) -> tuple[Rotor, ...]:
    """The rotors of a mechanism whose world becomes a body, with other names."""
    for rotor in rotors:
        if rotor.on == "world" and body != WORLD_NAME:
            raise ModelError(
                f"rotor {rotor.name!r} sits on the world of the mechanism to attach, which "
                f"becomes part of the moving body {body!r}. Mount it on a body of its joint, "
                f'on="parent" or on="child".'
            )
    return tuple(
        replace(
            r,
            name=prefix + r.name,
            joint=prefix + r.joint
            if isinstance(r.joint, str)
            else tuple(prefix + name for name in r.joint),
        )
        for r in rotors
    )


def without_joints(
    description: Description, still: Container[str], gone: Container[str] = ()
) -> tuple[Rotor, ...]:
    """The rotors that turn with other joints than these, which do not move any more.

    On bodies that are `gone` they are as on the world: armature of the joints that are left.
    """
    found = [_without(r, still, gone, description.bodies) for r in description.rotors]
    return tuple(r for r in found if r is not None)


def _without(
    rotor: Rotor, still: Container[str], gone: Container[str], bodies: Sequence[Body]
) -> Rotor | None:
    left = [i for i, name in enumerate(rotor.joints) if name not in still]
    if len(left) == len(rotor.joints) or not left:
        return rotor if left else None
    carrier = _carrier_name(bodies, rotor)
    if left[0] != 0 and (carrier == WORLD_NAME or carrier in gone):
        rotor = replace(rotor, on="world", axis=None)
    elif left[0] != 0:
        raise ModelError(
            f"rotor {rotor.name!r} sits on the {rotor.on} of joint {rotor.joints[0]!r}, which does "
            f"not move any more, and turns with {rotor.joints[left[0]]!r} as well. Build the "
            f"mechanism without it, and add a rotor of the joints that are left."
        )
    joints, rows = tuple(rotor.joints[i] for i in left), rotor.rows
    return replace(rotor, joint=joints, ratio=tuple(tuple(row[i] for i in left) for row in rows))


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


def _carrier_name(bodies: Sequence[Body], rotor: Rotor) -> str:
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
    rows = [joint.hinge_axes(joint.params, q, NUMPY_OPS) for q in _samples(joint)]
    return np.stack([as_array(x).astype(float).reshape(6, joint.nv) for x in rows])


def rotations_of(joint: Joint) -> FloatArray:
    """The rotations (4, 3, 3) from child to inboard axes at the same configurations."""
    rows = [joint.transform(joint.params, q, NUMPY_OPS)[0] for q in _samples(joint)]
    return np.stack([as_array(x).astype(float).reshape(3, 3) for x in rows])


def _samples(joint: Joint) -> list[Any]:
    rng = np.random.default_rng(0)
    return [q.tolist() for q in (joint.neutral(), *joint.random(rng, (3,)))]


def own_body(rotor: Rotor, carrier: str = "carrier", u: FloatArray | None = None) -> str:
    """Lines that make a rotor a body of its own, with a relation; to paste."""
    axis = "…" if u is None else tuple(float(f"{x:.6g}") + 0.0 for x in u)
    note = f"    # its mass stays part of {carrier!r}, but not its moments: take them away there"
    lines, couplings = [note], []
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
