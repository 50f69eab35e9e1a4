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

A rotor of several joints turns at Σ N_k v_k. What counts is the sum over all rotors: the coupling
g(c, k) = Σ I N_k u of a carrier with a rate must vanish or be parallel to a joint at the carrier,
and A(k, i) = Σ I N_k N_i must vanish for two joints, as it does for two equal motors that turn at
n v_k ± m v_i. It may be any number for two joints in a row about one axis, on a body that never
turns about it: u·ω_k = σ_i v_i + σ_k v_k, 2 σ_i σ_k v_i v_k = (u·ω_k)² − σ_i² v_i² − σ_k² v_k².
Parts of g about which a carrier never turns have no effect: a carrier turns not at all, about one
direction that is constant in it (parallel joints), or about any.

Source: theory/flexible-bodies 8. Reasons: docs/decisions/0056.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
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
    name: str,
    joint: str | Sequence[str],
    ratio: Any,
    moment: Any,
    axis: ArrayLike | None,
    on: Any,
) -> Rotor:
    """Return a record with checked types and numbers; `axis` stays as it is given."""
    if not isinstance(name, str) or not name:
        raise ModelError(f"a rotor's name must be a non-empty string, not {name!r}.")
    listed = isinstance(cast(object, joint), list | tuple)
    joints = tuple(joint) if listed else (cast(str, joint),)
    if not joints or not all(isinstance(x, str) for x in joints) or len({*joints}) < len(joints):
        raise ModelError(
            f"rotor {name!r}: joint={joint!r} must be the name of a joint, or different names."
        )
    shape = (len(joints),) if listed else ()
    ratios = _numbers(name, "ratio", ratio, shape)
    if not np.isfinite(ratios).all() or not ratios.reshape(-1, len(joints)).any(axis=0).all():
        raise ModelError(f"rotor {name!r}: ratio={ratio} must be finite and not 0.")
    inertia = float(_numbers(name, "moment", moment, ()))
    if not math.isfinite(inertia) or inertia <= 0:
        raise ModelError(f"rotor {name!r}: moment={inertia:g} must be positive.")
    if on not in ("parent", "child", "world"):
        raise ModelError(
            f"rotor {name!r}: on={on!r} is not 'parent', 'child' or 'world': the body of its "
            f"joint that carries it. A rotor on another body is a body of its own."
        )
    u = None if axis is None else unit_axis(axis, f"the axis of rotor {name!r}")
    given = joints if listed else joints[0]
    return Rotor(name, given, _frozen(ratios.tolist()), inertia, u, cast(Carrier, on))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _numbers(name: str, what: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """One number, or one for each of several joints, in one row or in several."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.full(0, np.nan)
    if array.shape != shape and not (shape and array.ndim == 2 and array.shape[1:] == shape):
        wanted = "one number" if not shape else f"{shape[0]} numbers, one for each joint, or rows"
        raise ModelError(f"rotor {name!r}: {what} must be {wanted}, not {value!r}.")
    return array


def added(description: Description, rotor: Rotor, inertia: SpatialInertia | None) -> Description:
    """The description with one more rotor, whose axis is in the axes of its carrier.

    `inertia`, of the rotor at rest in the frame of the carrier, is added to that of the carrier.
    """
    found = [_outboard(description.bodies, rotor, name) for name in rotor.joints]
    for body in found:
        _checked_joint(rotor, body)
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


def as_armature(model_armature: FloatArray, description: Description) -> Description:
    """The description without rotors, with the armature (nv,) of its model for that of its joints.

    With `inertia_matrices` of the model for its inertias, it is the same mechanism.
    """
    starts = _Mechanism(description).starts
    bodies = tuple(
        replace(body, armature=tuple(model_armature[at : at + body.joint.nv].tolist()))
        for body, at in zip(description.bodies, starts[:-1].tolist(), strict=True)
    )
    return replace(description, bodies=bodies, rotors=())


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


# ---- the effect --------------------------------------------------------------------------------


def fold(description: Description) -> Folded:
    """What the rotors of a description add to its bodies, which are stored base to tip.

    A ModelError for rotors whose effect is not that of constant inertias. Cost: O(rotors).
    """
    mechanism = _Mechanism(description)
    bodies, starts = mechanism.bodies, mechanism.starts
    n = len(bodies)
    moments, of_joint, carried = np.zeros((n, 3, 3)), np.zeros((n, 3, 3)), np.zeros((n, 3))
    armature, rates, unseen = np.zeros(int(starts[-1])), starts[:-1].copy(), list[str]()
    drives, pairs = _sums(mechanism, description.rotors)
    for (k, i), pair in pairs.items():
        if k == i:
            rates[k] = at = starts[k] + mechanism.motion(pair.rotors[0], k)[0]
            armature[at] += pair.value
    for (c, k), drive in drives.items():
        if drive.vanishes:
            continue
        p, R = mechanism.parent(k), bodies[k].placement.rotation
        w = mechanism.motion(drive.rotors[0], k)[1][:3]
        g = R.T @ drive.value if c == p else drive.value
        size = float(np.linalg.norm(w))
        if c not in (p, k) or not size or drive.exceeds(np.cross(g, w / size)):
            unseen += [r.name for r in drive.rotors]
            g = mechanism.turning(c) @ drive.value  # the rest has no effect
            if not drive.exceeds(g):
                continue
            g = R.T @ g if c == p else g
            if c not in (p, k) or not size or drive.exceeds(np.cross(g, w / size)):
                raise _not_parallel(mechanism, drive, c, k)
        along = float(g @ w) / size
        square = along / size**3 * np.outer(w, w)
        armature[rates[k]] += along * (-size if c == p else size)
        moments[k] += square
        of_joint[k] += square
        if p != WORLD:
            moments[p] -= R @ square @ R.T
        if c == k:
            carried[k] += g
    for (k, i), pair in pairs.items():
        if k == i or pair.vanishes:
            continue
        ways = _in_a_row(mechanism, pair.rotors[0], k, i)
        if ways is None:
            raise _crossed(mechanism, pair, k, i)
        w, own, inner = ways
        moments[k] += pair.value / (own * inner) * np.outer(w, w)
        armature[rates[k]] -= pair.value * own / inner
        armature[rates[i]] -= pair.value * inner / own
        unseen += [r.name for r in pair.rotors]
    _check_carriers(mechanism, description.rotors)
    return Folded(moments, armature, of_joint, carried, rates, tuple(dict.fromkeys(unseen)))


@dataclass
class _Sum:
    """A sum over rotors, `size` that of its absolute values, and which rotors are in it."""

    value: Any
    size: float
    rotors: list[Rotor]

    @property
    def vanishes(self) -> bool:
        return not self.exceeds(self.value)

    def exceeds(self, part: Any) -> bool:
        """Whether a part of the sum is more than rounding."""
        return float(np.linalg.norm(part)) > _PARALLEL * self.size


_Sums = dict[tuple[int, int], _Sum]


def _sums(mechanism: _Mechanism, rotors: Sequence[Rotor]) -> tuple[_Sums, _Sums]:
    """The energy of all rotors beyond that at rest: Σ v_k g(c, k)·ω_c + ½ Σ A(k, i) v_k v_i.

    g(c, k) = Σ I N_k u, in the axes of the moving carrier c, and A(k, i) = Σ I N_k N_i for k ≥ i.
    """
    drives, pairs = _Sums(), _Sums()
    for rotor in rotors:
        ks = [mechanism.index[_outboard(mechanism.bodies, rotor, x).name] for x in rotor.joints]
        for k in ks:
            mechanism.motion(rotor, k)
        c, u = mechanism.carrier(rotor)
        if c != WORLD:
            _reject_flexible(rotor, [mechanism.bodies[k] for k in mechanism.beside(c, ks)])
        for row in rotor.rows:
            for k, N in zip(ks, row, strict=True):
                if c != WORLD:
                    _add(drives, (c, k), rotor.moment * N * u, rotor)
                for i, other in zip(ks, row, strict=True):
                    if k >= i:
                        _add(pairs, (k, i), rotor.moment * N * other, rotor)
    return drives, pairs


def _add(sums: _Sums, key: tuple[int, int], value: Any, rotor: Rotor) -> None:
    have = sums.setdefault(key, _Sum(0.0, 0.0, []))
    have.value = have.value + value
    have.size += float(np.linalg.norm(value))
    if rotor not in have.rotors:
        have.rotors.append(rotor)


class _Mechanism:
    """The bodies of a description, with what rotors ask of them."""

    def __init__(self, description: Description) -> None:
        self.bodies = bodies = description.bodies
        self.index = {body.name: i for i, body in enumerate(bodies)}
        widths = [b.joint.nv + (0 if b.flexible is None else b.flexible.modes) for b in bodies]
        self.starts = np.concatenate([[0], np.cumsum(widths)]).astype(int)
        self._motions: dict[int, tuple[int, FloatArray]] = {}
        self._turning: dict[int, FloatArray] = {WORLD: np.zeros((3, 3))}

    def parent(self, k: int) -> int:
        return self.index.get(self.bodies[k].parent, WORLD)

    def motion(self, rotor: Rotor, k: int) -> tuple[int, FloatArray]:
        """The rate of the joint of body k that turns a rotor, and the motion [w; x] per unit."""
        if k not in self._motions:
            self._motions[k] = _checked_joint(rotor, self.bodies[k])
        return self._motions[k]

    def carrier(self, rotor: Rotor) -> tuple[int, FloatArray]:
        """What a rotor sits on, and its axis there."""
        k = self.index[_outboard(self.bodies, rotor).name]
        axes = self.motion(rotor, k)[1]
        way = axes[:3] if axes[:3].any() else axes[3:]
        u = np.array(rotor.axis) if rotor.axis else way / np.linalg.norm(way)
        if rotor.on == "parent":
            return self.parent(k), self.bodies[k].placement.rotation @ u
        return k if rotor.on == "child" else WORLD, u

    def beside(self, c: int, ks: Sequence[int]) -> list[int]:
        """A carrier and the bodies at the joints of its rotor."""
        return sorted({c, *ks, *(self.parent(k) for k in ks)} - {WORLD})

    def turning(self, k: int) -> FloatArray:
        """The projector (3, 3), in body axes, on the directions about which body k can turn.

        0 if no joint below it turns; n n* if all do so about one direction n; 1 otherwise.
        """
        if k not in self._turning:
            self._turning[k] = self._turning_of(self.bodies[k], self.turning(self.parent(k)))
        return self._turning[k]

    def _turning_of(self, body: Body, above: FloatArray) -> FloatArray:
        above = body.placement.rotation.T @ above @ body.placement.rotation
        axes = np.concatenate([H[:3].T for H in _motions(body.joint)])
        axes = axes[axes.any(axis=1)]
        if body.flexible is not None or np.trace(above) > 2:
            return np.eye(3)
        if not above.any() and not len(axes):
            return above
        n = above[np.argmax(np.diagonal(above))] if above.any() else axes[0]
        n = n / np.linalg.norm(n)
        bent = [R @ n - n for R in _rotations(body.joint)]  # also R that are not about n
        bent += [np.cross(w, n) / np.linalg.norm(w) for w in axes]
        return np.eye(3) if np.linalg.norm(bent, axis=1).max() > _PARALLEL else np.outer(n, n)


def _in_a_row(
    mechanism: _Mechanism, rotor: Rotor, k: int, i: int
) -> tuple[FloatArray, float, float] | None:
    """The axis w of two joints in a row, on a body that never turns about it.

    The turn of body k about w is a v_k + b v_i. **Returns:** w in body k, a, b, or None.
    """
    bodies, above = mechanism.bodies, mechanism.parent(i)
    outer, inner = (mechanism.motion(rotor, j)[1][:3] for j in (k, i))
    if mechanism.parent(k) != i:
        return None
    below = mechanism.turning(above) @ bodies[i].placement.rotation @ inner
    if np.linalg.norm(below) > _PARALLEL * np.linalg.norm(inner):
        return None
    inner = bodies[k].placement.rotation.T @ inner
    a, size = float(np.linalg.norm(outer)), float(np.linalg.norm(inner))
    if not a or not size or np.linalg.norm(np.cross(outer, inner)) > _PARALLEL * a * size:
        return None
    if any(bodies[j].flexible is not None for j in (k, i)):
        return None
    return outer / a, a, float(inner @ outer) / a


def _outboard(bodies: Sequence[Body], rotor: Rotor, joint: str | None = None) -> Body:
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
    body = _outboard(bodies, rotor)
    return {"parent": body.parent, "child": body.name, "world": WORLD_NAME}[rotor.on]


def _checked_joint(rotor: Rotor, body: Body) -> tuple[int, FloatArray]:
    """The rate that turns a rotor, and [w; x], the motion per unit of it; w does not change."""
    joint = body.joint
    who = f"rotor {rotor.name!r}: joint {body.joint_name!r} ({joint.kind})"
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
    turned = np.array([R @ axes[0, :3] for R in _rotations(joint)])
    if np.abs(np.concatenate([axes[1:, :3], turned]) - axes[0, :3]).max() > 1e-12:
        raise ModelError(
            f"{who} turns about an axis that changes as it moves, so that its rotor is not "
            f"equal to constant inertias. Make the rotor a body:\n{_own_body(rotor)}"
        )
    return rate, axes[0]


def _motions(joint: Joint) -> FloatArray:
    """H* (4, 6, nv) at the neutral and at three other configurations."""
    rows = [joint.hinge_axes(joint.params, q, NUMPY_OPS) for q in _samples(joint)]
    return np.stack([as_array(x).astype(float).reshape(6, joint.nv) for x in rows])


def _rotations(joint: Joint) -> FloatArray:
    """The rotations (4, 3, 3) from child to inboard axes at the same configurations."""
    rows = [joint.transform(joint.params, q, NUMPY_OPS)[0] for q in _samples(joint)]
    return np.stack([as_array(x).astype(float).reshape(3, 3) for x in rows])


def _samples(joint: Joint) -> list[Any]:
    rng = np.random.default_rng(0)
    return [q.tolist() for q in (joint.neutral(), *joint.random(rng, (3,)))]


def _reject_flexible(rotor: Rotor, bodies: Sequence[Body]) -> None:
    for body in bodies:
        if body.flexible is not None:
            raise ModelError(
                f"rotor {rotor.name!r}: body {body.name!r} at its joint {rotor.joints[0]!r} "
                f"deforms, so that the axes of rotor and joint do not stay parallel. Make the "
                f"rotor a body on a port:\n{_own_body(rotor)}"
            )


def _not_parallel(mechanism: _Mechanism, drive: _Sum, c: int, k: int) -> ModelError:
    carrier, body = mechanism.bodies[c], mechanism.bodies[k]
    R = body.placement.rotation if c == mechanism.parent(k) else np.eye(3)
    w = R @ mechanism.motion(drive.rotors[0], k)[1][:3]
    axes = {r.name: mechanism.carrier(r)[1] for r in drive.rotors}
    rotor = max(drive.rotors, key=lambda r: float(np.linalg.norm(np.cross(axes[r.name], w))))
    u, hint = axes[rotor.name], "Make"
    if c not in (k, mechanism.parent(k)):
        why = "turns also with joint"
    elif w.any():
        cosine = abs(float(u @ w)) / float(np.linalg.norm(w))
        why = f"is {math.degrees(math.acos(min(1.0, cosine))):.3g}° away from that of its joint"
        if isinstance(rotor.joint, str):
            hint = "Leave out axis= if it is meant to be that of the joint. Otherwise make"
    else:
        why = "is on a joint that slides"
    return ModelError(
        f"rotor {rotor.name!r} on {carrier.name!r} {why} {body.joint_name!r} "
        f"({body.joint.kind}), and its carrier turns: the moments by which it resists that depend "
        f"on the configuration, and are not those of constant inertias. {hint} the rotor a body "
        f"with a relation, which is exact:\n{_own_body(rotor, carrier.name, u)}"
    )


def _crossed(mechanism: _Mechanism, pair: _Sum, k: int, i: int) -> ModelError:
    rotor = pair.rotors[-1]
    c, u = mechanism.carrier(rotor)
    first, second = (mechanism.bodies[j].joint_name for j in (i, k))
    return ModelError(
        f"rotor {rotor.name!r} couples the joints {first!r} and {second!r} by "
        f"{float(pair.value):.4g} kg·m², which is the effect of no inertia of their bodies, unless "
        f"both turn about parallel axes, one on the other, on a body that never turns about them. "
        f"The rotors "
        f"of a differential belong together: two that are equal, with opposite ratios for one "
        f"joint, do not couple; give both in rows, ratio=((n, m), (n, -m)). Otherwise make the "
        f"rotor a body with a relation, which is exact:\n"
        + _own_body(rotor, WORLD_NAME if c == WORLD else mechanism.bodies[c].name, u)
    )


def _own_body(rotor: Rotor, carrier: str = "carrier", u: FloatArray | None = None) -> str:
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


def _check_carriers(mechanism: _Mechanism, rotors: Sequence[Rotor]) -> None:
    """A carrier that turns has at least the inertia of the rotors on it."""
    bodies, spins, names = mechanism.bodies, dict[int, FloatArray](), dict[int, list[str]]()
    for rotor in rotors:
        c, u = mechanism.carrier(rotor)
        if mechanism.turning(c).any():
            own = len(rotor.rows) * rotor.moment * np.outer(u, u)
            spins[c] = spins.get(c, np.zeros((3, 3))) + own
            names.setdefault(c, []).append(repr(rotor.name))
    for c, spin in spins.items():
        own = bodies[c].inertia.moment_about_com_B
        left = np.linalg.eigvalsh(own - spin)
        if left[0] >= -_TOLERANCE * max(float(np.abs(own).max()), 1e-300):
            continue
        raise ModelError(
            f"body {bodies[c].name!r} carries {', '.join(names[c])}, whose moments about their "
            f"axes ({float(np.trace(spin)):.4g} kg·m² together) are more than its own about its "
            f"mass centre, {np.round(np.linalg.eigvalsh(own), 9).tolist()} kg·m². The inertia of a "
            f"carrier contains its rotors at rest; if they are not in it yet, add them:\n"
            f"    add_rotor(…, inertia=SpatialInertia(mass, position, moments of the rotor))"
        )
