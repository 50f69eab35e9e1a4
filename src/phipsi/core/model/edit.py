"""Changed copies of a description: one body replaced, joints locked, another mechanism attached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_floats
from phipsi.core.model.attachments import NO_ATTACHMENTS, Attachment, Mount, Removal
from phipsi.core.model.body import Body, Description, LimitsArgument, make_body
from phipsi.core.model.compound_body import CompoundBody, reject_compound
from phipsi.core.model.flexible_inertia import FlexibleInertia
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.joints import Fixed
from phipsi.core.model.names import Point
from phipsi.core.model.pose import Pose
from phipsi.core.model.scalar_linalg import as_array
from phipsi.core.model.tree import WORLD_NAME
from phipsi.core.model.validate import InertiaPolicy, check_body, check_moments
from phipsi.core.spatial import ARRAYS
from phipsi.errors import InputError, ModelError, is_a

Keep = Literal["keep"]
FloatArray = NDArray[np.float64]


def replaced_body(
    body: Body,
    inertia: SpatialInertia | FlexibleInertia | None,
    placement: Pose | None,
    joint: Joint | None,
    armature: ArrayLike | None,
    damping: ArrayLike | None,
    limits: LimitsArgument | Keep,
    moments: InertiaPolicy,
) -> Body:
    """Return the body with all that is not None replaced, checked like a new one."""
    new_joint = body.joint if joint is None else joint
    kept = f"joint {body.joint_name!r} changes from {body.joint.kind} to {{}}, so its {{}} {{}}"
    changes = is_a(new_joint, Joint) and new_joint.kind != body.joint.kind

    def carried(what: str, old: tuple[float, ...], new: ArrayLike | None) -> ArrayLike:
        if new is not None:
            return new
        if not changes:
            return old
        if len(set(old)) <= 1 and (not any(old) or len(old) == new_joint.nv):
            return old[0] if old else 0.0
        raise ModelError(
            kept.format(new_joint.kind, what, old) + f" no longer applies. Give {what}= as well."
        )

    if isinstance(limits, str):
        if limits != "keep":
            raise ModelError(f'limits must be (lower, upper), None or "keep", not {limits!r}.')
        if changes and body.limits is not None and new_joint.nv:
            raise ModelError(
                kept.format(new_joint.kind, "limits", body.limits)
                + " no longer apply. Give limits= as well (None for no limits)."
            )
        limits = None if changes else body.limits
    changed = make_body(
        body.name,
        body.parent,
        new_joint,
        body.placement if placement is None else placement,
        (body.flexible or body.inertia) if inertia is None else inertia,
        body.joint_name,
        carried("armature", body.armature, armature) if new_joint.nv else 0.0,
        carried("damping", body.damping, damping) if new_joint.nv else 0.0,
        limits,
        body.port,
    )
    check_body(changed)
    if inertia is not None:
        check_moments([changed], moments, accept='model.with_body(..., moments="warn")')
    return changed


def with_body(description: Description, changed: Body) -> Description:
    """Return the description with the body of that name exchanged."""
    attachments = description.attachments
    bodies: list[Body] = []
    for body in description.bodies:
        if body.name == changed.name:
            if (body.inertia, body.flexible) != (changed.inertia, changed.flexible):
                attachments = attachments.map(partial(_reweighed, body.name))
            body = changed
        bodies.append(body)
    return replace(description, bodies=tuple(bodies), attachments=attachments)


def checked_parameters(parameters: ArrayLike, names: Sequence[str]) -> FloatArray:
    """Return the inertial parameters as (n, 10)."""
    values = as_floats("parameters", parameters)
    n = len(names)
    if values.shape not in ((10 * n,), (n, 10)):
        raise InputError(
            f"inertial parameters of {n} bodies are {10 * n} numbers, ({10 * n},) or ({n}, 10): "
            "[m, mcx, mcy, mcz, Jxx, Jyy, Jzz, Jxy, Jxz, Jyz] of each; the shape is "
            f"{values.shape}. Remove the columns of friction, which follow them."
        )
    return values.reshape(n, 10)


def check_attachment(other: Any, placement: Any, prefix: Any) -> None:
    """Reject what is not a model, a pose and a text."""
    if not hasattr(other, "description"):
        raise ModelError(f"attach takes a model, not {other!r}.")
    if placement is not None and not isinstance(placement, Pose):
        raise ModelError(f"attach: placement={placement!r} must be a pp.Pose, or None.")
    if not isinstance(prefix, str):
        raise ModelError(f"attach: prefix={prefix!r} must be a string.")


def checked_rates(what: str, given: ArrayLike | None, old: FloatArray) -> FloatArray:
    """Return one number per degree of freedom, the old ones if none are given."""
    values = old if given is None else as_floats(what, given)
    if values.shape != old.shape:
        raise InputError(
            f"{what} has one number per degree of freedom, {old.shape}, not {values.shape}"
        )
    return values


def without_attachments(
    description: Description, parameters: FloatArray, old: FloatArray, given: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Parameters (n, 10) and armature (nv,) of the equations, without what attachments add."""
    armature = checked_rates("armature", given, old)
    if not description.attachments:
        return parameters, armature
    more, added = description.added_inertia(len(old))
    rest = armature - added
    rest[np.abs(rest) <= 1e-12 * np.abs(added)] = 0.0  # rounding
    return parameters - more, rest


def with_armature(description: Description, armature: Sequence[FloatArray]) -> Description:
    """Return the bodies with the armature of their joints, without attachments."""
    bodies = tuple(
        replace(body, armature=tuple(x[: body.joint.nv].tolist()))
        for body, x in zip(description.bodies, armature, strict=True)
    )
    return replace(description, bodies=bodies, attachments=NO_ATTACHMENTS)


def reject_flexible(description: Description, function: str) -> None:
    """Raise a ModelError if a body is flexible: ten numbers do not describe its inertia."""
    reject_compound(description.bodies, function)
    for body in description.bodies:
        if body.flexible is not None:
            raise ModelError(
                f"{function} is for rigid bodies: {body.name!r} deforms, and its inertia is not "
                f"ten numbers. Replace it with model.with_body({body.name!r}, inertia=…)."
            )


def reparametrised(
    body: Body, parameters: FloatArray, armature: FloatArray, damping: FloatArray
) -> Body:
    """Return the body with other inertial parameters, armature and damping."""
    mass, first = parameters[0], parameters[1:4]
    if mass == 0 and first.any():
        raise ModelError(
            f"body {body.name!r}: the mass is 0 kg but the first moment m c is {first.tolist()} "
            "kg·m, so there is no mass centre. If identification determined only a combination "
            "with other bodies, use the model of the Identification:  result.model(guess)"
        )
    if mass < 0:
        raise ModelError(
            f"body {body.name!r}: mass {mass:g} kg is negative, so it would accelerate against the "
            "force on it. Data with little information about a body can cause this. Use the "
            "physically consistent model of the Identification:  result.model(guess)"
        )
    changed = replace(
        body,
        inertia=SpatialInertia.from_parameters(parameters),
        armature=tuple(armature.tolist()),
        damping=tuple(damping.tolist()),
    )
    check_body(changed)
    return changed


def with_bodies(
    description: Description, bodies: Sequence[Body], moments: InertiaPolicy
) -> Description:
    """Return the description with other bodies of the same names, their moments checked."""
    check_moments(bodies, moments, accept='model.with_inertial_parameters(..., moments="warn")')
    attachments = description.attachments
    for old, new in zip(description.bodies, bodies, strict=True):
        if old.inertia != new.inertia:
            attachments = attachments.map(partial(_reweighed, old.name))
    return replace(description, bodies=tuple(bodies), attachments=attachments)


def _reweighed(body: str, x: Attachment) -> Attachment:
    return x.reweighed(body, payload=False)


def with_rigid_bodies(description: Description) -> Description:
    """Return the description without modes; what is on ports is where these are at η = 0."""
    reject_compound(description.bodies, "with_rigid_bodies")
    bodies = {body.name: body for body in description.bodies}

    def rigid(body: Body) -> Body:
        above = bodies[body.parent].flexible if body.parent in bodies else None
        placement = body.placement
        if above is not None and body.port:
            port: Any = above.port(body.port)
            placement = Pose(port.rotation, port.position) @ placement
        return replace(body, placement=placement, port=None, flexible=None)

    return replace(description, bodies=tuple(map(rigid, description.bodies)))


def with_stiff_modes(description: Description, h: float) -> Description:
    """Return the description with modal masses M_e + h C_e + h² K_e."""

    def heavier(body: Body) -> Body:
        x = body.flexible
        if x is None or isinstance(x, CompoundBody):
            return body
        heavy: Any = {"modal_mass": x.modal_mass + h * (x.damping + h * x.stiffness)}
        return replace(body, flexible=FlexibleInertia(**x.as_arguments() | heavy))

    return replace(description, bodies=tuple(map(heavier, description.bodies)))


def with_locked(description: Description, values: Mapping[str, ArrayLike]) -> Description:
    """Return the description with these joints fixed at the given coordinates."""
    locked = (body for body in description.bodies if body.joint_name in values)
    reject_compound(locked, "with_locked")
    return replace(
        description,
        bodies=tuple(
            _locked(body, values[body.joint_name]) if body.joint_name in values else body
            for body in description.bodies
        ),
        attachments=description.attachments.map(lambda x: x.locked(description, values)),
    )


def _locked(body: Body, value: ArrayLike) -> Body:
    joint = body.joint
    q = np.atleast_1d(as_floats(f"q of joint {body.joint_name!r}", value))
    if body.flexible is not None and q.shape == (joint.nq + body.flexible.modes,):
        q = q[: joint.nq]  # its modes go on moving
    who = f"joint {body.joint_name!r} ({joint.kind})"
    if q.shape != (joint.nq,):
        raise InputError(
            f"{who}: cannot lock at {value!r}; it has {joint.nq} coordinates "
            f"({', '.join(joint.coordinate_names)})."
        )
    if not np.isfinite(q).all():
        raise InputError(f"{who}: cannot lock at {q.tolist()}, which is not finite.")
    R, p = joint.transform(joint.params, q.tolist(), ARRAYS)
    pose = Pose(as_array(R), as_array([p])[0])
    welded = body.placement @ pose
    return replace(body, joint=Fixed(), placement=welded, armature=(), damping=(), limits=None)


def attached(
    description: Description, other: Description, body: str, X_body: Pose, prefix: str
) -> Description:
    """Return both mechanisms in one, the other's world frame fixed at X_body in `body`."""
    _reject_same_names(description, other, body, prefix)

    mount = Mount(prefix, body, X_body)

    def moved(b: Body) -> Body:
        return mount.moved(b, "parent", "name", "joint_name")

    parts: tuple[Body, ...] = ()
    if description.parts or other.parts:
        coming_parts = map(moved, other.parts or other.bodies)
        parts = (*(description.parts or description.bodies), *coming_parts)
    loaded = with_payload(description, body, other.world_inertia.transformed(X_body))
    return replace(
        loaded,
        bodies=(*loaded.bodies, *map(moved, other.bodies)),
        frames=(*description.frames, *(mount.moved(x, "body", "name") for x in other.frames)),
        parts=parts,
        attachments=loaded.attachments.joined(other.attachments, mount),
    )


def _reject_same_names(
    description: Description, other: Description, body: str, prefix: str
) -> None:
    """Raise an error for a name that both mechanisms would have."""
    taken = _names_of(description)
    for what, names in _names_of(other).items():
        there = {*taken.get(what, ()), WORLD_NAME}
        clashes = [prefix + name for name in names if prefix + name in there]
        if clashes:
            raise ModelError(
                f"cannot attach: both mechanisms have a {what} named "
                f"{clashes[0]!r}{f' (and {len(clashes) - 1} more)' if len(clashes) > 1 else ''}. "
                "Pass a prefix for the attached names:\n"
                f'    model.attach(other, at={body!r}, prefix="{prefix}second_")'
            )


def _names_of(description: Description) -> dict[str, list[str]]:
    """All names of a mechanism, by what must have different ones."""
    return {
        "body or frame": [x.name for x in (*description.bodies, *description.frames)],
        "joint": [b.joint_name for b in description.bodies],
    } | description.attachments.names()


def with_payload(description: Description, body: str, inertia: SpatialInertia) -> Description:
    """Return the description with the inertia, in the axes of `body` or the world, added there."""
    if inertia.is_zero:
        return description
    if body == WORLD_NAME:
        return replace(description, world_inertia=description.world_inertia + inertia)
    if any(b.name == body and b.flexible is not None for b in description.bodies):
        reject_compound((b for b in description.bodies if b.name == body), "with_payload")
        raise ModelError(
            f"body {body!r} is flexible: the effect of a payload depends on the port that carries "
            f"it. Add it as a body, builder.add_body(…, parent={body!r}, port=…, joint=Fixed())."
        )
    bodies = tuple(
        replace(b, inertia=b.inertia + inertia) if b.name == body else b for b in description.bodies
    )
    check_body(next(b for b in bodies if b.name == body))
    attachments = description.attachments.map(lambda x: x.reweighed(body, payload=True))
    return replace(description, bodies=bodies, attachments=attachments)


def checked_payload(inertia: SpatialInertia, at: Point, moments: InertiaPolicy) -> None:
    """Raise a ModelError if the inertia is not that of a rigid body."""
    payload = make_body(f"payload at {at!r}", WORLD_NAME, Fixed(), inertia=inertia)
    check_body(payload)
    check_moments([payload], moments, accept='model.with_payload(..., moments="warn")')


def with_trees(description: Description, names: set[str]) -> Description:
    """Return the trees that contain the named bodies, without the others."""
    parent = {b.name: b.parent for b in (*description.bodies, *description.parts)}

    def root(name: str) -> str:
        while parent.get(name, WORLD_NAME) != WORLD_NAME:
            name = parent[name]
        return name

    kept = {root(name) for name in names}

    def stays(name: str) -> bool:
        return name == WORLD_NAME or root(name) in kept

    return _only(description, stays)


def with_paths(description: Description, names: set[str]) -> Description:
    """Return the named bodies and those between them and the base, without the others."""
    parent = {b.name: b.parent for b in description.bodies}
    kept = {WORLD_NAME}
    for name in names:
        while name not in kept:
            kept.add(name)
            name = parent[name]
    hosts = {f.name: f.body for f in description.frames}
    return _only(description, lambda name: hosts.get(name, name) in kept)


def _only(description: Description, stays: Callable[[str], bool]) -> Description:
    """Return the description with the bodies that stay, and what belongs to them."""
    gone = {b.joint_name for b in (*description.bodies, *description.parts) if not stays(b.name)}
    removal = Removal(
        stays,
        {b.name for b in description.bodies if not stays(b.name)},
        gone,
        {f.name: f.body for f in description.frames},
    )
    return replace(
        description,
        bodies=tuple(b for b in description.bodies if stays(b.name)),
        frames=tuple(f for f in description.frames if stays(f.body)),
        parts=tuple(b for b in description.parts if stays(b.name)),
        attachments=description.attachments.map(lambda x: x.reduced(description, removal)),
    )


def locked_values(joints: Sequence[str], q: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
    """Return the value of each joint to lock, from a mapping that must contain them."""
    values: dict[str, ArrayLike] = {}
    for name in joints:
        if name not in q:
            raise InputError(
                f"joint {name!r} is to be locked, but q has no value for it. Pass one:\n"
                f"    with_locked({list(joints)!r}, {{{name!r}: 0.0, ...}})"
            )
        values[name] = q[name]
    return values
