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

If u is not parallel to w, what is left of I N u at right angles to w is that of `SkewRotors` at
the joint, and so are rotors with a ratio for each of several rates.

A rotor of several joints turns at Σ N_k v_k. What counts is the sum over all rotors: the coupling
g(c, k) = Σ I N_k u of a carrier with a rate must vanish unless the joint is at the carrier, and
A(k, i) = Σ I N_k N_i must vanish for two joints, as it does for two equal motors that turn at
n v_k ± m v_i. It may be any number for two joints in a row about one axis, on a body that never
turns about it: u·ω_k = σ_i v_i + σ_k v_k, 2 σ_i σ_k v_i v_k = (u·ω_k)² − σ_i² v_i² − σ_k² v_k².
Parts of g about which a carrier never turns have no effect: a carrier turns not at all, about one
direction that is constant in it (parallel joints), or about any.

Source: theory/flexible-bodies 8. Reasons: docs/decisions/0056 and 0060.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import WORLD, WORLD_NAME, Body, Described
from phipsi.errors import ModelError
from phipsi.transmissions.rotors import (
    Rotor,
    check_joint,
    checked_joint,
    motions_of,
    outboard,
    own_body,
    rotations_of,
    rotors_of,
)
from phipsi.transmissions.skew_rotors import SkewRotors

FloatArray = NDArray[np.float64]
_PARALLEL = 1e-9  # how far from parallel two axes may be
_TOLERANCE = 1e-9  # of the carrier's moments; rounding in the user's numbers


class Folded(NamedTuple):
    """What rotors add to the inertias of the bodies and to the armature.

    `moments` (n, 3, 3), in body axes; `armature` (nv,), without the rates of modes. For reactions:
    `of_joint` (n, 3, 3), the part of `moments` that the rotors of a body's own joint add to it, and
    `carried` (n, 3), the angular momentum per unit rate of those of them that it carries, and
    `rates` (n,), where that rate is in v. `unseen`, rotors on a moving body whose angular momentum
    is not that of `moments`. `skew`, by the body outboard of the joint, what is no constant
    inertia.
    """

    moments: FloatArray
    armature: FloatArray
    of_joint: FloatArray
    carried: FloatArray
    rates: NDArray[np.intp]
    unseen: tuple[str, ...]
    skew: dict[int, SkewRotors]


def fold_into(
    description: Described, matrices: FloatArray, armature: FloatArray
) -> dict[int, SkewRotors]:
    """Add what rotors do to inertia matrices (n, 6, 6) and armature (nv,); the rest is skew."""
    if not rotors_of(description):
        return {}
    folded = fold(description)
    matrices[:, :3, :3] += folded.moments
    armature += folded.armature
    return folded.skew


def fold(description: Described) -> Folded:
    """What the rotors of a description add to its bodies, which are stored base to tip.

    A ModelError for rotors whose effect is neither that of constant inertias nor known at a joint.
    Cost: O(rotors).
    """
    mechanism, rotors = _Mechanism(description), rotors_of(description)
    couplings, pairs = _sums(mechanism, [r for r in rotors if not r.of_rates])
    out = _Folding(mechanism)
    for rotor in rotors:
        if rotor.of_rates:
            out.armature += out.skew.add(rotor)
    for (k, i), pair in pairs.items():
        if k == i:
            out.add_square(k, pair)
    for (c, k), coupling in couplings.items():
        if not coupling.vanishes:
            out.add_coupling(c, k, coupling)
    for (k, i), pair in pairs.items():
        if k != i and not pair.vanishes:
            out.add_pair(k, i, pair)
    _check_carriers(mechanism, rotors)
    names = tuple(dict.fromkeys(out.unseen))
    parts = out.moments, out.armature, out.of_joint, out.carried, out.rates
    return Folded(*parts, names, out.skew.all())


class _Folding:
    """What the rotors of a mechanism add to its bodies, as it is added up; see `Folded`."""

    def __init__(self, mechanism: _Mechanism) -> None:
        n, starts = len(mechanism.bodies), mechanism.starts
        self._mechanism = mechanism
        self.moments, self.of_joint = np.zeros((n, 3, 3)), np.zeros((n, 3, 3))
        self.carried, self.armature = np.zeros((n, 3)), np.zeros(int(starts[-1]))
        self.rates, self.unseen = starts[:-1].copy(), list[str]()
        self.skew = _SkewSums(mechanism)

    def add_square(self, k: int, pair: _Sum) -> None:
        """½ A(k, k) v_k²: armature."""
        mechanism = self._mechanism
        self.rates[k] = at = mechanism.starts[k] + mechanism.motion(pair.rotors[0], k)[0]
        self.armature[at] += pair.value

    def add_coupling(self, c: int, k: int, coupling: _Sum) -> None:
        """v_k g(c, k)·ω_c: constant inertias along the axis of the joint, rows across it."""
        mechanism = self._mechanism
        bodies, starts = mechanism.bodies, mechanism.starts
        p, R = mechanism.parent(k), bodies[k].placement.rotation
        w = mechanism.motion(coupling.rotors[0], k)[1][:3]
        g = R.T @ coupling.value if c == p else coupling.value
        size = float(np.linalg.norm(w))
        beside, unit = c in (p, k), w / (size or 1.0)
        along = float(g @ unit) if beside else 0.0
        rest = g - along * unit
        if beside:  # at right angles to the last digit, also if it is a small part of g
            rest = rest - (rest @ unit) * unit
        if coupling.exceeds(rest):
            felt = mechanism.turning(c) @ coupling.value  # the rest has no effect
            felt = R.T @ felt if c == p else felt
            part = float(felt @ unit) if beside else 0.0
            if not coupling.exceeds(felt - part * unit):
                self.unseen += [r.name for r in coupling.rotors]
                along = part
            elif beside:
                _reject_flexible(coupling.rotors[0], [bodies[j] for j in mechanism.beside(c, [k])])
                self.skew.at(k)[int(c == k), :, self.rates[k] - starts[k]] += rest
            else:
                raise _elsewhere(mechanism, coupling, c, k)
        if not size or not abs(along) > _PARALLEL * coupling.size:
            return
        square = along / size**3 * np.outer(w, w)
        self.armature[self.rates[k]] += along * (-size if c == p else size)
        self.moments[k] += square
        self.of_joint[k] += square
        if p != WORLD:
            self.moments[p] -= R @ square @ R.T
        if c == k:
            self.carried[k] += along * unit

    def add_pair(self, k: int, i: int, pair: _Sum) -> None:
        """A(k, i) v_k v_i of two joints in a row about one axis: constant inertias."""
        ways = _in_a_row(self._mechanism, pair.rotors[0], k, i)
        if ways is None:
            raise _crossed(self._mechanism, pair, k, i)
        w, own, inner = ways
        self.moments[k] += pair.value / (own * inner) * np.outer(w, w)
        self.armature[self.rates[k]] -= pair.value * own / inner
        self.armature[self.rates[i]] -= pair.value * inner / own
        self.unseen += [r.name for r in pair.rotors]


class _SkewSums:
    """The skew rotors of joints, as they are added up."""

    def __init__(self, mechanism: _Mechanism) -> None:
        self._mechanism = mechanism
        self._vectors = dict[int, FloatArray]()  # g_p and g_k, (2, 3, nv)
        self._pairs = dict[int, FloatArray]()  # A (nv, nv), of rotors with several ratios

    def at(self, k: int) -> FloatArray:
        """The vectors of the joint of body k, to add to."""
        nv = self._mechanism.bodies[k].joint.nv
        return self._vectors.setdefault(k, np.zeros((2, 3, nv)))

    def add(self, rotor: Rotor) -> FloatArray:
        """Add a rotor with a ratio for each rate of its joint; returns armature (nv,)."""
        mechanism, bodies = self._mechanism, self._mechanism.bodies
        body = outboard(bodies, rotor)
        check_joint(rotor, body)
        k, rows = mechanism.index[body.name], np.array(rotor.rows)
        c, u = mechanism.carrier(rotor)
        _reject_flexible(rotor, [bodies[j] for j in mechanism.beside(c, [k])])
        pair = rotor.moment * rows.T @ rows
        self._pairs[k] = self._pairs.get(k, 0.0) + pair
        vectors = self.at(k)
        if c != WORLD:
            u = body.placement.rotation.T @ u if c != k else u
            vectors[int(c == k)] += rotor.moment * np.outer(u, rows.sum(axis=0))
        out = np.zeros(int(mechanism.starts[-1]))
        out[mechanism.starts[k] :][: body.joint.nv] = np.diagonal(pair)
        return out

    def all(self) -> dict[int, SkewRotors]:
        """They, by the body outboard of the joint; only those that do something."""
        found = {k: self._rotors(k, self._vectors[k]) for k in sorted(self._vectors)}
        return {k: rotors for k, rotors in found.items() if rotors.numbers}

    def _rotors(self, k: int, vectors: FloatArray) -> SkewRotors:
        joint, pairs = self._mechanism.bodies[k].joint, self._pairs.get(k)
        size = float(np.abs(vectors).max())
        vectors = np.where(np.abs(vectors) > 1e-15 * size, vectors, 0.0)  # opposite rotors
        turning = motions_of(joint)[:, :3].any(axis=(0, 1))
        coupled = np.zeros((joint.nv, joint.nv)) if pairs is None else pairs
        coupled = np.where(np.abs(coupled) > 1e-15 * np.abs(coupled).max(initial=0), coupled, 0.0)
        coupled = coupled - np.diag(np.diagonal(coupled))
        moved = turning | vectors.any(axis=(0, 1)) | coupled.any(axis=0)
        rates = np.flatnonzero(moved).tolist()
        above, own = (tuple(tuple(g) for g in x[:, rates].T.tolist()) for x in vectors)
        low = coupled[np.ix_(rates, rates)][np.tril_indices(len(rates), -1)].tolist()
        across = len(rates) == 1 and pairs is None
        return SkewRotors(tuple(rates), above, own, tuple(low), across)


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
    couplings, pairs = _Sums(), _Sums()
    for rotor in rotors:
        ks = [mechanism.index[outboard(mechanism.bodies, rotor, x).name] for x in rotor.joints]
        for k in ks:
            mechanism.motion(rotor, k)
        c, u = mechanism.carrier(rotor)
        if c != WORLD:
            _reject_flexible(rotor, [mechanism.bodies[k] for k in mechanism.beside(c, ks)])
        for row in rotor.rows:
            for k, N in zip(ks, row, strict=True):
                if c != WORLD:
                    _add(couplings, (c, k), rotor.moment * N * u, rotor)
                for i, other in zip(ks, row, strict=True):
                    if k >= i:
                        _add(pairs, (k, i), rotor.moment * N * other, rotor)
    return couplings, pairs


def _add(sums: _Sums, key: tuple[int, int], value: Any, rotor: Rotor) -> None:
    have = sums.setdefault(key, _Sum(0.0, 0.0, []))
    have.value = have.value + value
    have.size += float(np.linalg.norm(value))
    if rotor not in have.rotors:
        have.rotors.append(rotor)


class _Mechanism:
    """The bodies of a description, with what rotors ask of them."""

    def __init__(self, description: Described) -> None:
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
            self._motions[k] = checked_joint(rotor, self.bodies[k])
        return self._motions[k]

    def carrier(self, rotor: Rotor) -> tuple[int, FloatArray]:
        """What a rotor sits on, and its axis there."""
        k = self.index[outboard(self.bodies, rotor).name]
        if rotor.of_rates:
            u = np.array(rotor.axis or (0.0, 0.0, 1.0))  # on the world any axis will do
        else:
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
        axes = np.concatenate([H[:3].T for H in motions_of(body.joint)])
        axes = axes[axes.any(axis=1)]
        if body.flexible is not None or np.trace(above) > 2:
            return np.eye(3)
        if not above.any() and not len(axes):
            return above
        n: FloatArray = above[np.argmax(np.diagonal(above))] if above.any() else axes[0]
        n = n / np.linalg.norm(n)
        bent = [R @ n - n for R in rotations_of(body.joint)]  # also R that are not about n
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


def _reject_flexible(rotor: Rotor, bodies: Sequence[Body]) -> None:
    for body in bodies:
        if body.flexible is not None:
            raise ModelError(
                f"rotor {rotor.name!r}: body {body.name!r} at its joint {rotor.joints[0]!r} "
                f"deforms, so that the axes of rotor and joint do not stay parallel. Make the "
                f"rotor a body on a port:\n{own_body(rotor)}"
            )


def _elsewhere(mechanism: _Mechanism, coupling: _Sum, c: int, k: int) -> ModelError:
    carrier, body, rotor = mechanism.bodies[c], mechanism.bodies[k], coupling.rotors[-1]
    return ModelError(
        f"rotor {rotor.name!r} on {carrier.name!r} turns also with joint {body.joint_name!r} "
        f"({body.joint.kind}), which is not at its carrier, and the carrier turns: no inertia of "
        "the bodies describes the moments by which it resists that. If the body between has no "
        "mass, both joints are one with a ratio for each of its rates, pp.joints.Universal or "
        "pp.joints.Composite. Otherwise make the rotor a body with a relation, which is exact:\n"
        + own_body(rotor, carrier.name, mechanism.carrier(rotor)[1])
    )


def _crossed(mechanism: _Mechanism, pair: _Sum, k: int, i: int) -> ModelError:
    rotor = pair.rotors[-1]
    c, u = mechanism.carrier(rotor)
    first, second = (mechanism.bodies[j].joint_name for j in (i, k))
    return ModelError(
        f"rotor {rotor.name!r} couples the joints {first!r} and {second!r} by "
        f"{float(pair.value):.4g} kg·m², which no inertia of their bodies describes, unless both "
        "turn about parallel axes, one on the other, on a body that never turns about them. The "
        "rotors of a differential belong together: two that are equal, with opposite ratios for "
        "one joint, do not couple; give both in rows, ratio=((n, m), (n, -m)). Otherwise make the "
        "rotor a body with a relation, which is exact:\n"
        + own_body(rotor, WORLD_NAME if c == WORLD else mechanism.bodies[c].name, u)
    )


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
