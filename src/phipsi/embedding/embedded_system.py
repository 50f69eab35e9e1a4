"""Systems whose loops are embedded: bodies in loops become one body with the rates that are free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import System
from phipsi.core.model import (
    WORLD,
    WORLD_NAME,
    Model,
    ModelBuilder,
    Pose,
    as_list,
    entries_of,
    joints,
)
from phipsi.core.spatial import ARRAYS
from phipsi.embedding.clusters import Cluster, clusters_of, structure_of, turns_of
from phipsi.embedding.loop_body import LoopBody
from phipsi.embedding.loop_motion import LoopMotion
from phipsi.errors import InputError

Array = NDArray[Any]


@final
class EmbeddedSystem:
    """A system with its loops embedded: a tree in the free velocities, and the way between both.

    Attributes
    ----------
    system : System
        The system that was given.
    model : Model
        The tree: bodies in loops are one body each, which all functions of trees take.
    remaining : dict
        Constraints that are not embedded, each with the reason.
    """

    def __init__(
        self, system: System, model: Model, parts: list[tuple[int, Cluster]], reasons: dict[str, str]
    ) -> None:
        self.system, self.model, self.remaining = system, model, reasons
        self._parts = parts
        self._q = np.zeros(model.nq, dtype=int)  # where coordinates of the model are in the system
        self._v = np.full(model.nv, -1)
        inside = {system.body_names[k] for _, cluster in parts for k in cluster.members}
        for k, name in enumerate(model.body_names):
            if name in system.body_names and name not in inside:
                j = system.body_index(name)
                self._q[model.q_slices[k]] = np.arange(system.nq)[system.q_slices[j]]
                self._v[model.v_slices[k]] = np.arange(system.nv)[system.v_slices[j]]
        for k, cluster in parts:
            at = entries_of(system.q_slices[j] for j in cluster.members)
            self._q[model.q_slices[k]] = at

    def coordinates(self, q: ArrayLike) -> Array:
        """Coordinates of the tree (..., nq) from those of the system; it must be closed."""
        return np.asarray(q, dtype=np.float64)[..., self._q]

    def system_coordinates(self, q: ArrayLike) -> Array:
        """Coordinates of the system (..., nq) from those of the tree."""
        given = np.asarray(q, dtype=np.float64)
        out = np.empty((*given.shape[:-1], self.system.nq))
        out[..., self._q] = given
        return out

    def _each(self, q: Array) -> Iterable[tuple[slice, Array, LoopBody, Array]]:
        """Of each cluster: its rates in the tree, those in the system, the body, X."""
        for k, cluster in self._parts:
            body: Any = self.model.flexible[k]
            own = q[..., self.model.q_slices[k]]
            motion = LoopMotion(
                body.x, body.x.geometry, [own[..., i] for i in range(body.places)], ARRAYS
            )
            entries = [np.broadcast_arrays(*row, own[..., 0])[:-1] for row in motion.spread]
            X = np.stack([np.stack(row, axis=-1) for row in entries], axis=-2).astype(float)
            at = entries_of(self.system.v_slices[j] for j in cluster.members)
            yield self.model.v_slices[k], at, body, X

    def system_velocities(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Velocities of the system (..., nv), from coordinates and velocities of the tree."""
        q, v = np.asarray(q, dtype=np.float64), np.asarray(v, dtype=np.float64)
        out = np.zeros((*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), self.system.nv))
        direct = np.flatnonzero(self._v >= 0)
        out[..., self._v[direct]] = v[..., direct]
        for at_v, at, _, X in self._each(q):
            out[..., at] = np.einsum("...ij,...j->...i", X, v[..., at_v])
        return out

    def velocities(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Velocities of the tree (..., nv) from those of the system, which must be admissible."""
        v = np.asarray(v, dtype=np.float64)
        out = np.zeros((*v.shape[:-1], self.model.nv))
        direct = np.flatnonzero(self._v >= 0)
        out[..., direct] = v[..., self._v[direct]]
        for k, cluster in self._parts:
            body: Any = self.model.flexible[k]
            at = entries_of(self.system.v_slices[j] for j in cluster.members)
            out[..., self.model.v_slices[k]] = v[..., at[list(body.x.free)]]
        return out

    def efforts(self, q: ArrayLike, tau: ArrayLike) -> Array:
        """Joint torques and forces of the tree (..., nv) from those of the system: X* tau."""
        q, tau = np.asarray(q, dtype=np.float64), np.asarray(tau, dtype=np.float64)
        out = np.zeros((*np.broadcast_shapes(q.shape[:-1], tau.shape[:-1]), self.model.nv))
        direct = np.flatnonzero(self._v >= 0)
        out[..., direct] = tau[..., self._v[direct]]
        for at_v, at, _, X in self._each(q):
            out[..., at_v] = np.einsum("...ij,...i->...j", X, tau[..., at])
        return out

    def __repr__(self) -> str:
        n = sum(len(cluster.constraints) for _, cluster in self._parts)
        return (
            f"<EmbeddedSystem: {n} constraint{'s' * (n != 1)} embedded in {len(self._parts)} "
            f"bod{'ies' if len(self._parts) != 1 else 'y'}, nv = {self.system.nv} → {self.model.nv}>"
        )


def embed(
    system: System,
    q: ArrayLike | None = None,
    *,
    constraints: Iterable[str] | None = None,
    independent: Iterable[str] = (),
    bodies: Iterable[str] = (),
) -> EmbeddedSystem:
    """Embed."""
    model = system.model
    at = system.assemble(model.neutral()) if q is None else np.asarray(q, dtype=np.float64)
    clusters, reasons = clusters_of(system, None if constraints is None else set(constraints))
    wanted = as_list("independent", independent, "['crank']")
    names = as_list("bodies", bodies, "['foot']")
    kept: list[tuple[Cluster, LoopBody]] = []
    for cluster in clusters:
        x = structure_of(system, cluster, at, wanted)
        if isinstance(x, str):
            reasons |= dict.fromkeys(cluster.constraints, x)
        else:
            where = entries_of(model.q_slices[k] for k in cluster.members)
            kept.append((cluster, LoopBody(x, at[where], turns_of(model, cluster))))
    if not kept:
        listed = "\n".join(f"    {n!r}: {why}" for n, why in reasons.items())
        raise InputError(f"no loop of the system can be embedded:\n{listed}")
    tree, places = _tree(system, kept, _needed(system, kept, names, reasons))
    parts = [(tree.body_index(places[c]), c) for c, _ in kept]
    return EmbeddedSystem(system, tree, parts, reasons)


def _needed(
    system: System, kept: list[tuple[Cluster, LoopBody]], names: list[str], reasons: Mapping[str, str]
) -> set[str]:
    """Members that stay bodies, without inertia, on a port: others are on them, or they are named."""
    inside = {system.body_names[k] for cluster, _ in kept for k in cluster.members}
    for name in names:
        if name not in inside:
            raise InputError(f"bodies: {name!r} is no body in an embedded loop: {sorted(inside)}")
    out = set(names)
    out |= {frame.body for frame in system.description.frames}
    for attachment in system.description.attachments:
        out |= {body for *_, body in attachment.places()}
    return out & inside


def _tree(
    system: System, kept: list[tuple[Cluster, LoopBody]], needed: set[str]
) -> tuple[Model, dict[Cluster, str]]:
    model = system.model
    b = ModelBuilder(gravity=tuple(model.gravity))
    owner: dict[int, tuple[Cluster, LoopBody]] = {k: one for one in kept for k in one[0].members}
    names = {cluster: _name(model, cluster) for cluster, _ in kept}
    done: set[Cluster] = set()

    def on(k: int, placement: Pose) -> dict[str, Any]:
        if k == WORLD:
            return {"parent": WORLD_NAME, "placement": placement}
        name = model.body_names[k]
        if k not in owner:
            return {"parent": name, "placement": placement}
        cluster, loop = owner[k]
        turn = loop.turns[cluster.members.index(k)]
        return {"parent": names[cluster], "port": name, "placement": turn.inv @ placement}

    for k, body in enumerate(model.description.bodies):
        if k not in owner:
            b.add_body(
                body.name, joint=body.joint,
                inertia=body.flexible or body.inertia, joint_name=body.joint_name,
                armature=body.armature, damping=body.damping, limits=body.limits,
                **({"port": body.port} if body.port else {}), **on(model.parent[k], body.placement),
            )  # fmt: skip
            continue
        cluster, loop = owner[k]
        if cluster not in done:
            done.add(cluster)
            b.add_body(
                names[cluster], joint=joints.Fixed(), inertia=loop,
                **on(cluster.carrier, loop.x.base),
            )  # fmt: skip
        if body.name in needed:
            b.add_body(
                body.name, joint=joints.Fixed(), joint_name=f"{body.name} on its port",
                **on(k, Pose()),
            )  # fmt: skip
    for frame in model.description.frames:
        b.add_frame(frame.name, frame.body, frame.placement)
    for attachment in model.description.attachments:
        b.add_attachment(attachment)
    return b.build(), names


def _name(model: Model, cluster: Cluster) -> str:
    return "+".join(model.body_names[k] for k in cluster.members)
