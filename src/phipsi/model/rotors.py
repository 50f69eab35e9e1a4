"""Rotors behind gears: their exact effect, without bodies of their own.

A rotor with the moment I about its axis u sits on a carrier that turns at ω, and turns against it
N times as fast as a joint moves, v:

    ½ I (u·ω + N v)² = ½ I (u·ω)² + I N (u·ω) v + ½ I N² v²

The first term is that of the rotor at rest, a part of the carrier's inertia. The last is armature.
The one between couples the joint with the motion of the carrier, and holds all gyroscopic moments.
If u is parallel to the axis w of the joint, σ = u·w, the parent p and the child k of the joint have
u·ω_k = u·ω_p + σ v, so that

    2 σ v (u·ω_p) = (u·ω_k)² − (u·ω_p)² − σ² v²       2 σ v (u·ω_k) = (u·ω_k)² − (u·ω_p)² + σ² v²

and the whole effect is that of constant inertias: I N / σ about u more for the child, as much less
for the parent, and I N (N ∓ σ) of armature (−: rotor on the parent, +: on the child). u is constant
in both bodies. Nothing else of the mechanism changes: no sweep, no formula, no cost.

Source: theory/flexible-bodies 8. Reasons: docs/decisions/0056.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError, did_you_mean
from phipsi.model.body import WORLD_NAME, Body, Carrier, Description, Rotor
from phipsi.model.inertia import SpatialInertia
from phipsi.model.joint import Joint, unit_axis
from phipsi.model.scalars import NUMPY_OPS, as_array
from phipsi.model.tree import WORLD

FloatArray = NDArray[np.float64]
_PARALLEL = 1e-9  # how far from parallel two axes may be
_TOLERANCE = 1e-9  # of the carrier's moments; rounding in the user's numbers


class Folded(NamedTuple):
    """What rotors add to the inertias of the bodies and to the armature.

    `moments` (n, 3, 3), in body axes; `armature` (nv,), without the rates of modes. For reactions:
    `of_joint` (n, 3, 3), the part of `moments` that the rotors of a body's own joint add to it, and
    `carried` (n, 3), the angular momentum per unit rate of those of them that it carries, and
    `rates` (n,), where that rate is in v. `unseen`, rotors on a moving body whose angular momentum
    is not that of `moments`.
    """

    moments: FloatArray
    armature: FloatArray
    of_joint: FloatArray
    carried: FloatArray
    rates: NDArray[np.intp]
    unseen: tuple[str, ...]

    @property
    def parameters(self) -> FloatArray:
        """The moments as inertial parameters (n, 10): [m, mc, Jxx, Jyy, Jzz, Jxy, Jxz, Jyz]."""
        J = self.moments
        six = J[:, [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        return np.concatenate([np.zeros((len(J), 4)), six], axis=1)


def make_rotor(
    name: str, joint: str, ratio: Any, moment: Any, axis: ArrayLike | None, on: Any
) -> Rotor:
    """Return a record with checked types and numbers; `axis` stays as it is given."""
    if not isinstance(name, str) or not name:
        raise ModelError(f"a rotor's name must be a non-empty string, not {name!r}.")
    if not isinstance(joint, str):
        raise ModelError(
            f"rotor {name!r} turns with one joint, but joint={joint!r}. A rotor that several "
            f"joints turn, as in a differential, is a body of its own with a relation:\n"
            f"    pp.constraints.Coupling(name={name!r}, joints=({name!r}, "
            f"'first', 'second'), coefficients=(1, -n1, -n2))"
        )
    values = {"ratio": _number(name, "ratio", ratio), "moment": _number(name, "moment", moment)}
    for what, value in values.items():
        if not math.isfinite(value) or value == 0 or (what == "moment" and value < 0):
            kind = "positive" if what == "moment" else "finite and not 0"
            raise ModelError(f"rotor {name!r}: {what}={value:g} must be {kind}.")
    if on not in ("parent", "child", "world"):
        raise ModelError(
            f"rotor {name!r}: on={on!r} is not 'parent', 'child' or 'world': the body of its "
            f"joint that carries it. A rotor on another body is a body of its own."
        )
    u = None if axis is None else unit_axis(axis, f"the axis of rotor {name!r}")
    return Rotor(name, joint, values["ratio"], values["moment"], u, cast(Carrier, on))


def _number(name: str, what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ModelError(f"rotor {name!r}: {what} must be one number, not {value!r}.") from None


def added(description: Description, rotor: Rotor, inertia: SpatialInertia | None) -> Description:
    """The description with one more rotor, whose axis is in the axes of its carrier.

    `inertia`, of the rotor at rest in the frame of the carrier, is added to that of the carrier.
    """
    body = _outboard(description.bodies, rotor)
    _checked_joint(rotor, body)
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
    return tuple(replace(r, name=prefix + r.name, joint=prefix + r.joint) for r in rotors)


# ---- the effect --------------------------------------------------------------------------------


def fold(description: Description) -> Folded:
    """What the rotors of a description add to its bodies, which are stored base to tip.

    A ModelError for a rotor whose effect is not that of constant inertias. Cost: O(rotors).
    """
    bodies = description.bodies
    n = len(bodies)
    index = {body.name: i for i, body in enumerate(bodies)}
    widths = [b.joint.nv + (0 if b.flexible is None else b.flexible.modes) for b in bodies]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(int)
    moments, of_joint, carried = np.zeros((n, 3, 3)), np.zeros((n, 3, 3)), np.zeros((n, 3))
    spins, armature = np.zeros((n, 3, 3)), np.zeros(int(starts[-1]))
    rates = starts[:-1].copy()
    unseen: list[str] = []
    for rotor in description.rotors:
        body = _outboard(bodies, rotor)
        k = index[body.name]
        p = index.get(body.parent, WORLD)
        rate, axes = _checked_joint(rotor, body)
        rates[k] = at = starts[k] + rate
        carrier = {"parent": p, "child": k, "world": WORLD}[rotor.on]
        I, N = rotor.moment, rotor.ratio
        armature[at] += I * N * N
        if carrier == WORLD:
            continue
        _reject_flexible(rotor, [bodies[i] for i in {k, p} - {WORLD}])
        way = axes[3:] if not axes[:3].any() else axes[:3]
        u = np.array(rotor.axis) if rotor.axis else way / np.linalg.norm(way)
        if rotor.on == "child":
            carried[k] += I * N * u
        sigma = float(u @ axes[:3])
        if np.linalg.norm(np.cross(u, way)) > _PARALLEL * np.linalg.norm(way) or not sigma:
            if _turns(bodies, index, carrier):
                raise _not_parallel(rotor, bodies[carrier], body, axes, u)
            unseen.append(rotor.name)
            continue
        axis = axes[:3] / np.linalg.norm(axes[:3])
        square = I * N / sigma * np.outer(axis, axis)
        armature[at] += I * N * (-sigma if rotor.on == "parent" else sigma)
        moments[k] += square
        of_joint[k] += square
        R = body.placement.rotation
        if p != WORLD:
            moments[p] -= R @ square @ R.T
        own = I * np.outer(axis, axis)
        spins[carrier] += own if rotor.on == "child" else R @ own @ R.T
    _check_carriers(bodies, spins, description.rotors)
    return Folded(moments, armature, of_joint, carried, rates, tuple(unseen))


def _outboard(bodies: Sequence[Body], rotor: Rotor) -> Body:
    for body in bodies:
        if body.joint_name == rotor.joint:
            return body
    names = [body.joint_name for body in bodies]
    raise ModelError(
        f"rotor {rotor.name!r} turns with {rotor.joint!r}, which is not a joint. "
        + did_you_mean(rotor.joint, names)
    )


def _carrier_name(bodies: Sequence[Body], rotor: Rotor) -> str:
    body = _outboard(bodies, rotor)
    return {"parent": body.parent, "child": body.name, "world": WORLD_NAME}[rotor.on]


def _checked_joint(rotor: Rotor, body: Body) -> tuple[int, FloatArray]:
    """The rate that turns a rotor, and [w; x], the motion per unit of it; w does not change."""
    joint = body.joint
    who = f"rotor {rotor.name!r}: joint {rotor.joint!r} ({joint.kind})"
    found = _motions(joint)
    turning = np.flatnonzero(found[:, :3].any(axis=(0, 1)))
    if joint.nv != 1 and len(turning) != 1:
        raise ModelError(
            f"{who} has {joint.nv} rates, {len(turning)} of which turn, and a ratio is of one. Use "
            f"joints of one rate in a row, with bodies without mass between them, or a rotor that "
            f"is a body:\n{_own_body(rotor)}"
        )
    rate = int(turning[0]) if len(turning) else 0
    axes = found[..., rate]
    if np.abs(axes[1:, :3] - axes[0, :3]).max() > 1e-12:
        raise ModelError(
            f"{who} turns about an axis that changes as it moves, so that its rotor is not "
            f"equal to constant inertias. Make the rotor a body:\n{_own_body(rotor)}"
        )
    return rate, axes[0]


def _motions(joint: Joint) -> FloatArray:
    """H* (4, 6, nv) at the neutral and at three other configurations."""
    rng = np.random.default_rng(0)
    at = [joint.neutral(), *joint.random(rng, (3,))]
    rows = [joint.hinge_axes(joint.params, q.tolist(), NUMPY_OPS) for q in at]
    return np.stack([as_array(x).astype(float).reshape(6, joint.nv) for x in rows])


def _turns(bodies: Sequence[Body], index: dict[str, int], k: int) -> bool:
    """Whether a body can turn: some joint between it and the world does, or some body deforms."""
    while k != WORLD:
        body = bodies[k]
        if body.flexible is not None or _motions(body.joint)[:, :3].any():
            return True
        k = index.get(body.parent, WORLD)
    return False


def _reject_flexible(rotor: Rotor, bodies: Sequence[Body]) -> None:
    for body in bodies:
        if body.flexible is not None:
            raise ModelError(
                f"rotor {rotor.name!r}: body {body.name!r} at its joint {rotor.joint!r} deforms, "
                f"so that the axes of rotor and joint do not stay parallel. Make the rotor a body "
                f"on a port:\n{_own_body(rotor)}"
            )


def _not_parallel(
    rotor: Rotor, carrier: Body, body: Body, axes: FloatArray, u: FloatArray
) -> ModelError:
    if axes[:3].any():
        cosine = abs(float(u @ axes[:3])) / float(np.linalg.norm(axes[:3]))
        why = f"is {math.degrees(math.acos(min(1.0, cosine))):.3g}° away from that of its joint"
        hint = "Leave out axis= if it is meant to be that of the joint. Otherwise make"
    else:
        why, hint = "is on a joint that slides", "Make"
    here = body.placement.rotation @ u if rotor.on == "parent" else u
    return ModelError(
        f"rotor {rotor.name!r} on {carrier.name!r} {why} {rotor.joint!r} "
        f"({body.joint.kind}), and its carrier turns: the moments by which it resists that depend "
        f"on the configuration, and are not those of constant inertias. {hint} the rotor a body "
        f"with a relation, which is exact:\n{_own_body(rotor, carrier, here)}"
    )


def _own_body(rotor: Rotor, carrier: Body | None = None, u: FloatArray | None = None) -> str:
    parent = "carrier" if carrier is None else carrier.name
    axis = "…" if u is None else tuple(float(f"{x:.6g}") + 0.0 for x in u)
    return (
        f"    builder.add_body({rotor.name!r}, parent={parent!r}, joint=pp.joints.Revolute({axis}),"
        f" inertia=…)\n"
        f"    pp.System(builder.build(), [pp.constraints.Coupling(name='gear', "
        f"joints=({rotor.name!r}, {rotor.joint!r}), coefficients=(1, {-rotor.ratio:g}))])"
    )


def _check_carriers(bodies: Sequence[Body], spins: FloatArray, rotors: Sequence[Rotor]) -> None:
    """A carrier has at least the inertia of the rotors on it."""
    for k in np.flatnonzero(spins.any(axis=(1, 2))).tolist():
        own = bodies[k].inertia.moment_about_com_B
        left = np.linalg.eigvalsh(own - spins[k])
        if left[0] >= -_TOLERANCE * max(float(np.abs(own).max()), 1e-300):
            continue
        names = ", ".join(
            repr(r.name) for r in rotors if _carrier_name(bodies, r) == bodies[k].name
        )
        total = float(np.trace(spins[k]))
        raise ModelError(
            f"body {bodies[k].name!r} carries {names}, whose moments about their axes "
            f"({total:.4g} kg·m² together) are more than its own about its mass centre, "
            f"{np.round(np.linalg.eigvalsh(own), 9).tolist()} kg·m². The inertia of a carrier "
            f"contains its rotors at rest; if they are not in it yet, add them:\n"
            f"    add_rotor(…, inertia=SpatialInertia(mass, position, moments of the rotor))"
        )
