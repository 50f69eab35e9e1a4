"""The scene of a trajectory: poses, paths and forces over time, operators at some times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import System, forward_dynamics, joint_reactions, motions
from phipsi.core.compiler import compile
from phipsi.core.constraints import Constraint
from phipsi.core.model import WORLD, Closure, Model
from phipsi.core.operators import D, G, P
from phipsi.errors import InputError, PhipsiError
from phipsi.pages.deformed_shapes import modal_slice
from phipsi.pages.html_file import packed, packed_poses, rounded, rounded_list
from phipsi.pages.machine_parts import hidden_bodies
from phipsi.pages.scene import Drawing
from phipsi.pages.shapes_and_colors import Spans, tips
from phipsi.simulation import State, Trajectory

if TYPE_CHECKING:
    from phipsi.simulation import TopologyPhase

Array = NDArray[Any]

_RATE, _TRAIL_RATE = 60, 200  # frames per second
_MOST_NUMBERS = 700_000  # in all poses together
_MOST_REACTIONS = 400  # times at which constraint forces are computed
_MOST_BLOCK_NUMBERS = 60_000  # in P, D and G together
_LARGE = 300  # rates; with more, constraint forces take too long
_TRAIL_COLORS = ((1.0, 0.54, 0.24), (0.30, 0.79, 0.94), (0.98, 0.45, 0.72), (0.65, 0.90, 0.35))


_NOT_UNIQUE = "Constraint forces are not shown: they are not uniquely determined in this mechanism."


def recorded_scene(trajectory: Trajectory) -> dict[str, Any]:
    """The scene of a trajectory: its description, and poses, paths and forces over time."""
    model = trajectory.model
    times = frame_times(trajectory)
    fine = frame_times(trajectory, _TRAIL_RATE)
    closures, passing = _closures(trajectory)
    touching = trajectory.contacts.contacts if trajectory.has_contacts else None
    pairs = () if touching is None else touching.pairs  # stops and ropes alone have none
    what = Drawing(model, closures, passing, pairs, _present(trajectory), trajectory.has_contacts)
    q = trajectory.resample(times).q
    X = motions.poses(model, q)
    if trajectory.system is not None:
        what.constraints = trajectory.system.constraints
    else:
        held, what.engaged = _constraints(trajectory)
        what.constraints = held
    what.forces = trajectory.elements
    description = what.description(q)
    size = description["radius"]
    held, untold, efforts = _constraint_arrows(trajectory, times, X, size)
    paths = zip(_paths(trajectory, fine), _TRAIL_COLORS, strict=False)
    return {
        **description,
        "times": packed(times),
        "poses": packed_poses(X),
        "modal": [packed(q[:, modal_slice(model, x["body"])]) for x in description["flexible"]],
        "trail_times": packed(fine),
        "trails": [
            {"name": name, "color": list(color), "points": packed(points)}
            for (name, points), color in paths
        ],
        "trail_span": float(np.clip(0.35 * (times[-1] - times[0]), 0.05, 2.0)),
        "machines": _with_numbers(trajectory, times, q, description["machines"], efforts),
        "arrows": [*_contact_arrows(trajectory, times, size), *held],
        "notices": [*description["notices"], *untold],
    }


def operator_blocks(trajectory: Trajectory) -> dict[str, Any] | None:
    """P(k), D(k) and G(k) of the tree at up to 25 even times, for the facts about a body.

    In body axes at O(k), SI units. None where they do not exist: without samples, or if a joint has
    nothing to move.
    """
    model = trajectory.model
    per_frame = 36 * model.n_bodies + sum(j.nv * (j.nv + 6) for j in model.joints)
    count = min(25, _MOST_BLOCK_NUMBERS // max(per_frame, 1))
    if count < 1 or not model.n_bodies:
        return None
    times = np.linspace(float(trajectory.t[0]), float(trajectory.t[-1]), count)
    times = np.unique(times)
    try:
        found = compile((P, D, G), model, mode="blocks")(trajectory.resample(times).q)
    except PhipsiError:
        return None
    articulated, hinge, gain = (np.asarray(x) for x in found)
    if articulated.shape[-2:] != (6, 6):
        return None
    sizes = [joint.nv for joint in model.joints]
    squares = [hinge[:, k, :n, :n].reshape(len(times), -1) for k, n in enumerate(sizes)]
    columns = [gain[:, :, s].reshape(len(times), -1) for s in model.v_slices]
    return {
        "times": rounded_list(times, 9),
        "sizes": sizes,
        "P": packed(articulated),
        "D": packed(np.concatenate(squares, axis=1)),
        "G": packed(np.concatenate(columns, axis=1)),
    }


def _contact_arrows(trajectory: Trajectory, times: Array, radius: float) -> list[dict[str, Any]]:
    """Contact forces at frames: where they act, the forces, N; and what an arrow of 1 m is, N."""
    model = trajectory.model
    if not trajectory.has_contacts or not trajectory.contacts.has_forces:
        return []
    record = trajectory.contacts
    if record.contacts is None:
        return []
    body_a, body_b = record.contacts.slot_bodies.T  # numbers among bodies with shapes, −1: world
    forces = np.where(body_a[:, None] >= 0, 1.0, -1.0) * record.forces[..., 3:]
    points = np.where((body_a >= 0)[:, None], record.points.point_a, record.points.point_b)
    acts = np.flatnonzero(np.abs(forces).max(axis=(0, 2)) > 0)
    if not acts.size:
        return []
    frame = np.clip(np.searchsorted(trajectory.t, times), 0, len(trajectory) - 1)
    return [
        _arrows(model, "contact", [record.names[i] for i in acts], points[frame][:, acts],
                forces[frame][:, acts], radius)
    ]  # fmt: skip


def _with_numbers(
    trajectory: Trajectory,
    times: Array,
    q: Array,
    machines: list[dict[str, Any]],
    efforts: Array | None,
) -> list[dict[str, Any]]:
    """Machine elements with their residuals or twists at frames, and their efforts on joints.

    `efforts` (frames, rows, nv) are those of the rows; elements that couple joints know their own.
    """
    model, system = trajectory.model, trajectory.system
    residuals = None if system is None or not system.n_rows else system.residual(q)
    out: list[dict[str, Any]] = []
    for one in machines:
        row, count = one["rows"]
        more: dict[str, Any] = {}
        rates = [model.v_slices[k].start for k in one["bodies"]]
        if count and residuals is not None:
            more["values"] = packed(residuals[:, row : row + count])
        elif one["linear"]:
            x = [q[:, r["at"]] @ np.array(r["by"]) - r["offset"] for r in one["linear"]]
            more["values"] = packed(np.stack(x, axis=-1))
        if count and efforts is not None:
            more["efforts"] = packed(efforts[:, row : row + count].sum(1)[:, rates])
        elif one["force"] >= 0:
            state = State(model, times, q, trajectory.resample(times).v)
            more["efforts"] = packed(trajectory.elements[one["force"]].efforts(state)[:, rates])
        out.append({**one, **more})
    return out


def _constraint_arrows(
    trajectory: Trajectory, times: Array, X: Array, radius: float
) -> tuple[list[dict[str, Any]], list[str], Array | None]:
    """The forces of closures on bodies at frames, or why they are not shown.

    Last the efforts −G* f of every row (frames, rows, nv), or None.

    A run knows the force elements that acted; one from a file does not. Where accelerations are
    those of the efforts, gravity and known elements, the reactions of these are the right ones;
    elsewhere none is drawn.
    """
    system = trajectory.system
    if system is None or not system.n_rows or system.nv > _LARGE or len(times) < 2:
        return [], [], None
    some = np.unique(np.linspace(0, len(times) - 1, min(len(times), _MOST_REACTIONS)).astype(int))
    found = _reactions(trajectory, system, times, times[some])
    if isinstance(found, str):
        return [], [found], None
    near = np.clip(np.searchsorted(some, np.arange(len(times))), 0, len(some) - 1)
    points, other = system.closures.points, system.closures.mate
    shown_points = [
        i for i, body in enumerate(points.body)
        if body != WORLD and (system.closures.side[i] == 1 or points.body[other[i]] == WORLD
                              or other[i] == i)
    ]  # fmt: skip
    at = np.empty((len(times), len(shown_points), 3))
    force = np.empty_like(at)
    for k, i in enumerate(shown_points):
        R, p = X[:, points.body[i], :3, :3], X[:, points.body[i], :3, 3]
        at[:, k] = p + R @ points.offset[i]
        local = np.nan_to_num(found.closures[near, i, 3:])
        force[:, k] = np.einsum("tij,tj->ti", R @ points.rotation[i], local)
    names = [points.names[i].rpartition(".")[0] for i in shown_points]
    f = np.nan_to_num(found.f[near])
    for one in system.constraints:  # teeth and belts, where they touch
        if one.shaft_forces(system.model):
            more = one.transmitted(system, X, f)  # type: ignore[attr-defined]
            names += [one.name] * len(more.bodies)
            at = np.concatenate([at, more.places], axis=1)
            force = np.concatenate([force, more.forces], axis=1)
    efforts = (-found.f[..., None] * system.jacobian(found.q))[near]
    return [_arrows(system, "constraint", names, at, force, radius)], [], efforts


class _ClosureForces(NamedTuple):
    """Multipliers `f` and forces at `closures` at some `q` of a run, NaN where they are unknown."""

    q: Array
    f: Array
    closures: Array


def _reactions(
    trajectory: Trajectory, system: System, times: Array, some: Array
) -> _ClosureForces | str:
    """The reactions of constraints at some of the times, or why there are none."""
    h = 1e-3 * float(times[1] - times[0])
    inner = np.clip(some, times[0] + h, times[-1] - h)
    around = [trajectory.resample(inner + x) for x in (-h, 0.0, h)]
    here = around[1]
    tau, f_ext = np.nan_to_num(here.tau), None
    if trajectory.acting is not None:
        elements, f_ext = trajectory.acting(inner, here.q, here.v)
        tau = tau + elements
    try:
        measured = (around[2].v - around[0].v) / (2 * h)
        motion = forward_dynamics(system, here.q, here.v, tau, f_ext, return_multipliers=True)
        expected = motion.vdot
        reactions = joint_reactions(system, here.q, here.v, tau, f_ext).closures
    except InputError as error:  # a belt that would have to push
        return f"Constraint forces are not shown: {error.args[0].partition(chr(10))[0]}"
    except PhipsiError:
        return _NOT_UNIQUE
    scale = 1.0 + np.abs(expected).max(axis=1)
    right = np.abs(measured - expected).max(axis=1) < 1e-3 * scale
    if right.mean() < 0.5:
        return (
            "Constraint forces are not shown: other forces than the recorded joint torques and "
            "gravity act, and the trajectory does not record which."
        )
    f = np.where(right[:, None], motion.f, np.nan)
    return _ClosureForces(here.q, f, np.where(right[:, None, None], reactions, np.nan))


def _arrows(
    model: Model, kind: str, labels: list[str], points: Array, forces: Array, radius: float
) -> dict[str, Any]:
    """Forces (frames, k, 3) at points, in world axes; `unit` is what an arrow of 1 m is, N."""
    weight = sum(x.mass for x in model.inertias) * float(np.linalg.norm(model.gravity))
    large = float(np.percentile(np.linalg.norm(forces, axis=-1).max(axis=1), 90))
    return {
        "kind": kind,
        "count": len(labels),
        "labels": labels,
        "points": packed(points),
        "forces": packed(forces),
        "unit": rounded(max(weight, large) / (0.9 * radius) or 1.0),
    }


def _closures(trajectory: Trajectory) -> tuple[list[Closure], list[tuple[Closure, Spans]]]:
    """Constraints that hold during the whole run, and those that come and go, with their times."""
    model = trajectory.model
    if trajectory.system is not None:
        return list(trajectory.system.closures.closures), []
    held, engaged = _constraints(trajectory)
    return [c.closure(model) for c in held], [(c.closure(model), when) for c, when in engaged]


def _constraints(trajectory: Trajectory) -> tuple[list[Constraint], list[tuple[Constraint, Spans]]]:
    """The same as constraints, of a run whose mechanism changes."""
    acting: dict[int, tuple[Constraint, list[TopologyPhase]]] = {}
    for phase in trajectory.phases:
        for c in phase.topology.constraints:
            acting.setdefault(id(c), (c, []))[1].append(phase)
    whole = len(trajectory.phases)
    always = [c for c, phases in acting.values() if len(phases) == whole]
    return always, [(c, _spans(p)) for c, p in acting.values() if len(p) < whole]


def _present(trajectory: Trajectory) -> dict[str, Spans]:
    """When bodies are there that are absent for a while, by name."""
    phases = trajectory.phases
    ever = frozenset[str]().union(*(p.topology.absent for p in phases))
    return {body: _spans([p for p in phases if body not in p.topology.absent]) for body in ever}


def _spans(phases: Sequence[TopologyPhase]) -> Spans:
    """Their times; stretches that follow on each other are joined."""
    out: list[tuple[float, float]] = []
    for phase in phases:
        if out and out[-1][1] == phase.t0:
            out[-1] = (out[-1][0], phase.t1)
        else:
            out.append((phase.t0, phase.t1))
    return tuple(out)


def frame_times(trajectory: Trajectory, rate: int = _RATE) -> Array:
    """Even times at so many frames per second, fewer if the page would grow too large."""
    start, end = float(trajectory.t[0]), float(trajectory.t[-1])
    most = max(2, _MOST_NUMBERS // max(7 * trajectory.model.n_bodies, 1))
    count = int(np.clip(np.ceil((end - start) * rate) + 1, 2, most))
    return np.linspace(start, end, count) if end > start else np.array([start])


def _paths(trajectory: Trajectory, times: Array) -> list[tuple[str, Array]]:
    """Where the tips are, by name (k, 3), in the model's world."""
    poses = motions.poses(trajectory.model, trajectory.resample(times).q)
    held = () if trajectory.system is None else trajectory.system.constraints
    hidden = hidden_bodies(trajectory.model, held)
    return [
        (name, poses[:, body, :3, 3] + poses[:, body, :3, :3] @ offset)
        for name, body, offset in tips(trajectory.model, hidden=hidden)
    ]
