"""Is the description a mechanism? Checks that name the body, the reason and the fix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from phipsi.core.model.body import Body, Description
from phipsi.core.model.tree import WORLD, WORLD_NAME, depth_first
from phipsi.errors import ModelError, did_you_mean, one_of, warn

InertiaPolicy = Literal["error", "warn", "keep"]
_TOLERANCE = 1e-9  # of the moments' own size; rounding in the user's numbers
_SHOWN = 10


def validate(description: Description, inertia: InertiaPolicy = "error") -> None:
    """Raise a ModelError for the first thing that cannot be; judge moments of inertia by `inertia`.

    **Arguments:** `inertia`: "error" rejects moments no rigid body has, "warn" gives one
    `PhipsiWarning` that lists them, "keep" accepts them. **Cost:** O(n).
    """
    check_names(description)
    check_attachment(description)
    for body in description.bodies:
        check_body(body)
    check_ports(description)
    check_moments(description.bodies, inertia)
    for x in description.attachments:
        x.check(description)


def check_names(description: Description) -> None:
    """Bodies and frames share one set of names, joints have their own; "world" is taken."""
    for body in description.bodies:
        if WORLD_NAME in (body.name, body.joint_name):
            what = "a body" if body.name == WORLD_NAME else f"the joint of body {body.name!r}"
            raise ModelError(
                f"{what} is named 'world', which is the inertial frame. Choose another name, for "
                "example 'base'; bodies attach to the inertial frame with parent=\"world\"."
            )
    for frame in description.frames:
        if frame.name == WORLD_NAME:
            raise ModelError(
                "a frame is named 'world', which is the inertial frame. Choose another name."
            )
    _reject_duplicates("body", (body.name for body in description.bodies))
    _reject_duplicates("joint", (body.joint_name for body in description.bodies))
    _reject_duplicates("frame", (frame.name for frame in description.frames))
    for what, names in description.attachments.names().items():
        _reject_duplicates(what, names)
    bodies = {body.name for body in description.bodies}
    for frame in description.frames:
        if frame.name in bodies:
            raise ModelError(
                f"{frame.name!r} is both a body and a frame on {frame.body!r}, so a point given "
                f"by that name would be ambiguous. Rename the frame, for example "
                f"{frame.name + '_frame'!r}."
            )


def check_attachment(description: Description) -> None:
    """Every parent exists, no body is outboard of itself, every frame is on a body."""
    index = {body.name: i for i, body in enumerate(description.bodies)}
    frames = {frame.name: frame for frame in description.frames}
    attached = [
        *(("body", "has the parent", x.name, x.parent) for x in description.bodies),
        *(("frame", "is on", x.name, x.body) for x in description.frames),
        *((what, "is on", name, body) for what, name, body in _places(description)),
    ]
    for kind, how, name, to in attached:
        if to != WORLD_NAME and to not in index:
            hint = _hint(to, index, frames)
            raise ModelError(f"{kind} {name!r} {how} {to!r}, which is not a body. {hint}")
    parents = [index.get(body.parent, WORLD) for body in description.bodies]
    order = depth_first(parents)
    if len(order) < len(parents):
        cycle = _find_cycle(parents, set(order))
        names = [description.bodies[i].name for i in cycle]
        loop = " → ".join(repr(name) for name in [*names, names[0]])
        raise ModelError(
            f"bodies form a cycle (child → parent): {loop}. In a tree, every body leads to the "
            "world through its parents: attach one of them elsewhere, for example\n"
            f'    builder.add_body({names[0]!r}, parent="world", ...)\n'
            "and close the loop with a constraint instead of a joint."
        )


def check_ports(description: Description) -> None:
    """What is on a flexible body is on one of its ports; other bodies have none."""
    bodies = {body.name: body for body in description.bodies}
    for body in description.bodies:
        check_port(body, bodies.get(body.parent))
    frames = (("frame", frame.name, frame.body) for frame in description.frames)
    for kind, name, body in (*frames, *_places(description)):
        host = bodies.get(body)
        if host is None or host.flexible is None:
            continue
        advice = (
            f"builder.add_frame({name!r}, {body!r}, port={_a_port(host)!r})"
            if kind == "frame"
            else f"builder.add_frame('pad', {body!r}, port={_a_port(host)!r}), and the {kind} on "
            f"'pad'"
        )
        raise ModelError(
            f"{kind} {name!r} is on the flexible body {body!r}, whose points move "
            f"with its modes, each in its own way. Put it on a port:\n    {advice}"
        )


def _places(description: Description) -> list[tuple[str, str, str]]:
    """What attachments have on bodies: what it is, its name, and the name of the body."""
    return [place for x in description.attachments for place in x.places()]


def check_port(body: Body, parent: Body | None) -> None:
    """A body on a flexible parent names one of its ports; other bodies name none."""
    if parent is None or parent.flexible is None:
        if body.port:
            raise ModelError(
                f"body {body.name!r} is attached to the port {body.port!r} of {body.parent!r}, "
                "which is not a flexible body and has no ports. Remove port= and pass placement=."
            )
        return
    if body.port == "":
        return
    if body.port is None:
        raise ModelError(
            f"body {body.name!r} is attached to the flexible body {body.parent!r}: pass its port, "
            "for example\n"
            f"    builder.add_body({body.name!r}, parent={body.parent!r}, "
            f"port={_a_port(parent)!r})\n"
            'or port="" for its body frame, which its modes do not move.'
        )
    if body.port not in (names := [port.name for port in parent.flexible.ports]):
        raise ModelError(
            f"body {body.name!r}: the flexible body {body.parent!r} has no port {body.port!r}. "
            + did_you_mean(body.port, names)
        )


def _a_port(body: Body) -> str:
    ports = () if body.flexible is None else body.flexible.ports
    return ports[0].name if ports else "…"


def check_body(body: Body) -> None:
    """Finite numbers, mass ≥ 0, armature and damping ≥ 0, lower limit < upper limit."""
    who = f"body {body.name!r}"
    inertia = body.inertia
    values = {
        "mass": [inertia.mass],
        "mass centre com_B": inertia.com_B.tolist(),
        "moment of inertia": inertia.given_moment_B.ravel().tolist(),
    }
    for what, numbers in values.items():
        if not all(map(math.isfinite, numbers)):
            raise ModelError(
                f"{who}: its {what} has a number that is not finite: {inertia!r}. "
                f"Was a value missing or divided by zero where it was computed?"
            )
    reach = max(map(abs, values["mass centre com_B"]))
    if not math.isfinite(3 * inertia.mass * reach * reach):
        raise ModelError(
            f"{who}: mass {inertia.mass:g} kg at {reach:g} m from its origin has a moment of "
            f"inertia too large for a floating-point number. Are the units kg and m?"
        )
    if inertia.mass < 0:
        raise ModelError(
            f"{who}: mass {inertia.mass:g} kg is negative, so it would accelerate against the "
            f"force on it. Give mass ≥ 0:\n"
            f"    inertia=SpatialInertia(mass={-inertia.mass:g}, ...)"
        )
    joint = f"joint {body.joint_name!r} ({body.joint.kind}, {who})"
    for what, numbers in (("armature", body.armature), ("damping", body.damping)):
        for number in numbers:
            if not math.isfinite(number):
                raise ModelError(f"{joint}: {what} {numbers} has a number that is not finite.")
            if number < 0:
                why = "rotor inertia is a mass" if what == "armature" else "it would feed energy in"
                raise ModelError(
                    f"{joint}: {what} {number:g} is negative, but {why}; give {what} ≥ 0, "
                    f"for example\n    {what}={-number:g}"
                )
    for low, high in zip(*(body.limits or ((), ())), strict=True):
        if math.isnan(low) or math.isnan(high):
            raise ModelError(f"{joint}: limits {body.limits} contain a NaN; use ±inf for none.")
        if not low < high:
            raise ModelError(
                f"{joint}: the lower limit {low:g} is not below the upper limit {high:g}, so no "
                f"configuration is allowed. "
                + (
                    f"Were they swapped?  limits=({high:g}, {low:g})"
                    if low > high
                    else "To hold the joint still, use joint=Fixed() or model.with_locked(...)."
                )
            )


def check_moments(
    bodies: Iterable[Body], inertia: InertiaPolicy, accept: str = 'builder.build(inertia="warn")'
) -> None:
    """Principal moments must be ≥ 0 and each at most the sum of the other two."""
    name = "moments" if "moments=" in accept else "inertia"
    one_of(name, inertia, ("error", "warn", "keep"), error=ModelError)
    findings = moment_findings(bodies) if inertia != "keep" else []
    if not findings:
        return
    text = "\n".join(findings[:_SHOWN])
    if len(findings) > _SHOWN:
        text += f"\n… and {len(findings) - _SHOWN} more bodies."
    if inertia == "warn":
        warn(text)
        return
    raise ModelError(f"{text}\nTo accept them all the same:  {accept}")


def moment_findings(bodies: Iterable[Body]) -> list[str]:
    """One sentence for each body whose moments no rigid body has."""
    bodies = list(bodies)
    if not bodies:
        return []
    moments = np.stack([body.inertia.moment_about_com_B for body in bodies])
    given = np.stack([body.inertia.given_moment_B for body in bodies])
    room = _TOLERANCE * np.abs(given).max(axis=(-1, -2))
    principal = np.linalg.eigvalsh(moments)
    negative = principal[:, 0] < -room
    triangle = principal[:, 2] - principal[:, 0] - principal[:, 1] > room
    findings: list[str] = []
    for i in np.flatnonzero(negative | triangle):
        a, b, c = principal[i]
        reason = (
            "are not all ≥ 0"
            if negative[i]
            else f"break the triangle inequality ({a:.4g} + {b:.4g} < {c:.4g})"
        )
        about = (
            "Was the moment given about the joint? Then pass it as moment_about_origin_B=."
            if bodies[i].inertia.is_about_com
            else "Was the moment given about the mass centre? Then pass it as moment_about_com_B=."
        )
        findings.append(
            f"body {bodies[i].name!r}: principal moments about the mass centre "
            f"({a:.4g}, {b:.4g}, {c:.4g}) kg·m² {reason}, so no rigid body has them. {about}"
        )
    return findings


def _reject_duplicates(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            keyword = "joint_name" if what == "joint" else "name"
            raise ModelError(
                f"two {'bodies' if what == 'body' else what + 's'} are named {name!r}; names must "
                "differ, because results are looked up by them. Rename one, for example "
                f"{keyword}={name + '_2'!r}."
            )
        seen.add(name)


def _hint(name: str, bodies: Iterable[str], frames: Mapping[str, object]) -> str:
    if name in frames:
        return (
            f"{name!r} is a frame; use the body it is on as the parent and "
            f"put the frame's pose first:  placement=frame_pose @ placement"
        )
    return did_you_mean(name, [*bodies, WORLD_NAME])


def _find_cycle(parents: list[int], reached: set[int]) -> list[int]:
    i = next(i for i in range(len(parents)) if i not in reached)
    trail: dict[int, None] = {}
    while i not in trail:
        trail[i] = None
        i = parents[i]
    walked = list(trail)
    return walked[walked.index(i) :]
