"""Which bodies of a system move in loops together, and which rates of them are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from phipsi.algorithms import System
from phipsi.core.model import WORLD, FlexibleHinge, Joint, Model, Pose, entries_of, joints
from phipsi.core.spatial import ARRAYS
from phipsi.embedding.loop_motion import LoopMotion
from phipsi.embedding.loop_structure import (
    CouplingRow,
    FrameRows,
    LoopMember,
    LoopRow,
    LoopStructure,
)
from phipsi.errors import InputError

_DEPENDENT = 1e-6
"""A row or a column is dependent if less than this of it is left beside the others."""


@dataclass(frozen=True)
class LoopCluster:
    """Constraints that are embedded together: the carrier, the members in tree order, the rows."""

    carrier: int
    members: tuple[int, ...]
    constraints: tuple[str, ...]


def clusters_of(
    system: System, names: Iterable[str] | None
) -> tuple[list[LoopCluster], dict[str, str]]:
    """Clusters of the loops that can be embedded, and why the other constraints cannot.

    `names`, those of the constraints wanted; None for all that can be.
    """
    model, reasons = system.model, dict[str, str]()
    found: list[tuple[int, set[int], list[str]]] = []
    for i, constraint in enumerate(system.constraints):
        name = constraint.name
        if names is not None and name not in names:
            reasons[name] = "it was not asked for"
            continue
        why = _why_not(system, i)
        if why:
            reasons[name] = why
            continue
        carrier, members = _loop(model, *_ends(system, i))
        found.append((carrier, members, [name]))
    merged: list[tuple[int, set[int], list[str]]] = []
    for carrier, members, listed in found:
        for other in [x for x in merged if x[1] & members]:
            merged.remove(other)
            top = _common(model, [carrier, other[0]])
            members = members | other[1] | _way(model, carrier, top) | _way(model, other[0], top)
            carrier, listed = top, [*other[2], *listed]
        merged.append((carrier, members, listed))
    while True:  # what was added on the way up may belong to another cluster
        pair = next(((x, y) for i, x in enumerate(merged) for y in merged[:i] if x[1] & y[1]), None)
        if pair is None:
            break
        x, y = pair
        merged.remove(x)
        merged.remove(y)
        top = _common(model, [x[0], y[0]])
        both = x[1] | y[1] | _way(model, x[0], top) | _way(model, y[0], top)
        merged.append((top, both, [*y[2], *x[2]]))
    clusters: list[LoopCluster] = []
    for carrier, members, listed in merged:
        bad = [k for k in members if isinstance(model.joints[k], FlexibleHinge)]
        if bad:
            why = f"body {model.body_names[bad[0]]!r} is flexible, sits on one, or has skew rotors"
            reasons |= dict.fromkeys(listed, why)
        else:
            clusters.append(LoopCluster(carrier, tuple(sorted(members)), tuple(listed)))
    return clusters, reasons


def _why_not(system: System, i: int) -> str:
    """Why constraint i cannot be embedded; "" if it can."""
    constraint, closure = system.constraints[i], system.closures.closures[i]
    rows = np.flatnonzero(system.closures.row_closure == i)
    if system.rates[rows].any():
        return "it prescribes velocities"
    if len(constraint.coordinates(system.model)) == len(closure.rows):
        return ""
    if closure.laws or closure.matrix is not None:
        return "its rows are no joints between two frames, and no linear relation of coordinates"
    if "wz" in closure.forms:
        return "it binds velocities only"
    return ""


def _ends(system: System, i: int) -> tuple[list[int], bool]:
    """The bodies that a constraint joins, or those whose joints it relates."""
    constraint, closure = system.constraints[i], system.closures.closures[i]
    given = constraint.coordinates(system.model)
    if len(given) == len(closure.rows) and closure.matrix is not None:
        places = {int(j) for factors, _ in given for j in np.flatnonzero(factors)}
        slices = system.model.q_slices
        return [k for k, at in enumerate(slices) if places & set(range(at.start, at.stop))], True
    return [closure.a, closure.b], False


def _loop(model: Model, bodies: list[int], joints: bool) -> tuple[int, set[int]]:
    """Where the loop begins, and the bodies that move in it."""
    starts = [model.parent[k] for k in bodies] if joints else bodies
    top = _common(model, starts)
    members: set[int] = set()
    for k in bodies:
        members |= _way(model, k, top)
    return top, members


def _way(model: Model, k: int, top: int) -> set[int]:
    """Bodies from k up to another, without that."""
    out: set[int] = set()
    while k != top:
        out.add(k)
        k = model.parent[k]
    return out


def _common(model: Model, bodies: Sequence[int]) -> int:
    """The last body that is before all of them, or the world."""
    above: list[list[int]] = []
    for k in bodies:
        chain = [k]
        while chain[-1] != WORLD:
            chain.append(model.parent[chain[-1]])
        above.append(chain[::-1])
    out = WORLD
    for level in zip(*above, strict=False):
        if len(set(level)) > 1:
            break
        out = level[0]
    return out


# ---- free rates ----------------------------------------------------------------------------------


def structure_of(
    system: System, cluster: LoopCluster, q: np.ndarray, wanted: Sequence[str]
) -> LoopStructure | str:
    """Members, independent rows and free rates at q; or why the cluster cannot be embedded."""
    model = system.model
    for k in cluster.members:
        joint, rotors = model.joints[k], model.armature[model.v_slices[k]]
        if not joint.is_additive and rotors.any():
            return (
                f"joint {model.joint_names[k]!r} ({joint.kind}) has armature, and its velocities "
                "are no derivatives of coordinates"
            )
    place = {k: i for i, k in enumerate(cluster.members)}
    members = tuple(_member(model, k, place.get(model.parent[k], -1)) for k in cluster.members)
    nv = sum(m.joint.nv for m in members)
    whole = LoopStructure(members, tuple(_rows(system, cluster, place)), tuple(range(nv)))
    whole = _in_simple_frames(whole)
    at = entries_of(model.q_slices[k] for k in cluster.members)
    motion = LoopMotion(whole, whole.geometry, list(np.asarray(q)[at]), ARRAYS)
    G = np.array(motion.jacobian, dtype=float).reshape(-1, nv)
    size = np.array(motion.natural_sizes())
    G = G / np.where(size > 0, size, 1.0)[:, None]
    kept = _independent(G.T, np.ones(len(G)))
    additive = np.concatenate([np.full(m.joint.nv, m.joint.is_additive) for m in members])
    named = np.concatenate([np.full(m.joint.nv, model.joint_names[k] in wanted)
                            for m, k in zip(members, cluster.members, strict=True)])  # fmt: skip
    weight = np.where(additive, np.where(named, 1e-6, 1.0), 1e6)
    bound = _independent(G[kept], weight)
    if len(bound) < len(kept):
        return "its rows depend on each other"
    free = tuple(j for j in range(nv) if j not in bound)
    if not free:
        return "its loops do not let it move"
    if not all(additive[list(free)]):
        return "more rotations of ball joints are free than the loops bind"
    asked = [j for j in np.flatnonzero(named) if j not in free]
    if asked and wanted:
        k = next(k for k, m in zip(cluster.members, whole.v_slices, strict=True)
                 if m.start <= asked[0] < m.stop)  # fmt: skip
        raise InputError(
            f"independent: the velocity of joint {model.joint_names[k]!r} is not independent of "
            f"the others in the loops {', '.join(map(repr, cluster.constraints))}, which leave "
            f"{len(free)} of {nv} velocities free. Remove it from independent="
        )
    return LoopStructure(whole.members, _only(whole.rows, kept), free, whole.base)


def _only(rows: Sequence[LoopRow], kept: Sequence[int]) -> tuple[LoopRow, ...]:
    """The rows at these places."""
    out: list[LoopRow] = []
    at = 0
    for row in rows:
        count = len(row.forms) if isinstance(row, FrameRows) else 1
        places = [i - at for i in sorted(kept) if at <= i < at + count]
        at += count
        if isinstance(row, FrameRows) and places:
            out.append(row._replace(forms=tuple(row.forms[i] for i in places)))
        elif places:
            out.append(row)
    return tuple(out)


# ---- simple frames -------------------------------------------------------------------------------

_SIMPLE = 4e-16
"""Entries of rotations this close to 0, 1 or −1 are that: they are so up to rounding."""


def _in_simple_frames(x: LoopStructure) -> LoopStructure:
    """The same with the axis of every single hinge along z of its member.

    Motions are in the axes of the first joint. Then most numbers of a planar loop are zeros that
    are known when code is written.
    """
    turns = [Pose(_turn_of(m.joint)) for m in x.members]
    first = next(i for i, m in enumerate(x.members) if m.parent < 0)
    base = x.members[first].placement @ turns[first]
    before = [*turns, base]  # the carrier is at −1
    members = tuple(
        m._replace(
            joint=_along_z(m.joint),
            placement=_tidy(before[m.parent].inv @ m.placement @ turn),
            inertia=m.inertia.transformed(turn.inv),
        )
        for m, turn in zip(x.members, turns, strict=True)
    )
    rows = tuple(
        row
        if isinstance(row, CouplingRow)
        else row._replace(
            a_frame=_on(before[row.a], row.a_frame, row),
            b_frame=_on(before[row.b], row.b_frame, row),
        )
        for row in x.rows
    )
    return LoopStructure(members, rows, x.free, base)


def turns_of(model: Model, cluster: LoopCluster) -> list[Pose]:
    """The rotation from the simple frame of each member to its body frame."""
    return [Pose(_turn_of(model.joints[k])) for k in cluster.members]


def _on(before: Pose, frame: Pose, row: FrameRows) -> Pose:
    moved = _tidy(before.inv @ frame)
    free = all(form[0] == "r" for form in row.forms) and len(row.forms) == 3
    return Pose(None, moved.translation) if free or row.forms == ("distance",) else moved


def _turn_of(joint: Joint) -> np.ndarray:
    """A rotation that turns z onto the axis of a hinge with one."""
    if not isinstance(joint, joints.Revolute | joints.Prismatic | joints.Helical):
        return np.eye(3)
    axis = np.array(joint.params[:3])
    if np.abs(axis - (0, 0, 1)).max() < _SIMPLE:
        return np.eye(3)
    helper = np.eye(3)[np.argmin(np.abs(axis))]
    side = np.cross(helper, axis)
    side /= np.linalg.norm(side)
    return np.column_stack([side, np.cross(axis, side), axis])


def _along_z(joint: Joint) -> Joint:
    z = (0, 0, 1)
    if isinstance(joint, joints.Revolute):
        return joints.Revolute(z)
    if isinstance(joint, joints.Prismatic):
        return joints.Prismatic(z)
    return joints.Helical(z, joint.params[3]) if isinstance(joint, joints.Helical) else joint


def _tidy(pose: Pose) -> Pose:
    """The same pose with zeros and ones where its rotation has them up to rounding."""
    turn = pose.rotation.copy()
    near = np.round(turn)
    turn = np.where(np.abs(turn - near) < _SIMPLE * 4, near, turn)
    return Pose(turn, _tidy_shift(pose.translation))


def _tidy_shift(shift: np.ndarray) -> np.ndarray:
    """The same with zeros where components are rounding beside the largest."""
    return np.where(np.abs(shift) < 4 * _SIMPLE * np.abs(shift).max(), 0.0, shift)


def _member(model: Model, k: int, parent: int) -> LoopMember:
    return LoopMember(
        model.body_names[k],
        parent,
        model.joints[k],
        model.placements[k],
        model.inertias[k],
        tuple(model.armature[model.v_slices[k]].tolist()),
    )


def _rows(system: System, cluster: LoopCluster, place: dict[int, int]) -> Iterable[LoopRow]:
    model = system.model
    at_q = {int(i): n for n, i in enumerate(
        entries_of(model.q_slices[k] for k in cluster.members))}  # fmt: skip
    at_v = {int(i): n for n, i in enumerate(
        entries_of(model.v_slices[k] for k in cluster.members))}  # fmt: skip
    rates = {
        q: v
        for a, b, joint in zip(model.q_slices, model.v_slices, model.joints, strict=True)
        if joint.is_additive
        for q, v in zip(range(a.start, a.stop), range(b.start, b.stop), strict=True)
    }
    for constraint, closure in zip(system.constraints, system.closures.closures, strict=True):
        if constraint.name not in cluster.constraints:
            continue
        if closure.matrix is None:
            a, b = (place.get(k, -1) for k in (closure.a, closure.b))
            frames = closure.a_frame, closure.b_frame
            if closure.angular == "none" and closure.linear in ("all", "distance"):
                frames = tuple(Pose(None, x.translation) for x in frames)  # axes play no role
            yield FrameRows(closure.forms, a, b, frames[0], frames[1], closure.constant)
            continue
        for factors, offset in constraint.coordinates(model):
            used = np.flatnonzero(factors)
            terms = tuple((at_v[rates[int(j)]], at_q[int(j)], float(factors[j])) for j in used)
            yield CouplingRow(terms, float(offset))


def _independent(columns: np.ndarray, weight: np.ndarray) -> list[int]:
    """Which columns span all of them, those of large weight first."""
    rest = columns.copy()
    largest = np.linalg.norm(columns, axis=0).max(initial=0.0)
    out: list[int] = []
    for _ in range(min(columns.shape)):
        left = np.linalg.norm(rest, axis=0)
        score = left * weight
        score[left <= _DEPENDENT * largest] = -1.0
        score[out] = -1.0
        best = int(np.argmax(score))
        if score[best] <= 0:
            break
        out.append(best)
        unit = rest[:, best] / left[best]
        rest = rest - np.outer(unit, unit @ rest)
    return out
