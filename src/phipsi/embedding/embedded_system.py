"""Systems whose loops are embedded: bodies in loops become one body with the free rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    Refusal,
    as_list,
    entries_of,
    joints,
    supports,
    tree_of,
)
from phipsi.core.spatial import ARRAYS
from phipsi.embedding.clusters import LoopCluster, clusters_of, structure_of, turns_of
from phipsi.embedding.loop_body import LoopBody
from phipsi.embedding.loop_motion import LoopMotion
from phipsi.errors import InputError, one_of, warn

Array = NDArray[Any]
_CLOSED = 1e-6
Kept = list[tuple[LoopCluster, LoopBody]]


@final
class EmbeddedSystem:
    """A system with its loops embedded: a tree in the free velocities, and the way between both.

    `embed_constraints` makes it.

    Parameters
    ----------
    system : System
        The system whose loops are embedded.
    model : Model
        The tree.
    parts : list
        Bodies of the tree that are clusters, by number.
    reasons : dict
        Why constraints are not embedded.

    Attributes
    ----------
    system : System
        The system that was given.
    model : Model
        The tree: bodies in loops are one body each, which all functions of trees take. A `System`
        if constraints remain.
    remaining : dict
        Constraints that are not embedded, each with the reason.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(arm, [pin])
    >>> embedded = pp.embed_constraints(four_bar, four_bar.assemble([1.0, -1.0, -1.5]))
    >>> embedded.model.nv, embedded.remaining
    (1, {})
    """

    def __init__(
        self,
        system: System,
        model: Model,
        parts: list[tuple[int, LoopCluster]],
        reasons: dict[str, str],
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
        """Coordinates of the tree from those of the system.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Coordinates of the system, at which its loops are closed.

        Returns
        -------
        ndarray, shape (..., nq)
            Coordinates of the tree.
        """
        return np.asarray(q, dtype=np.float64)[..., self._q]

    def system_coordinates(self, q: ArrayLike) -> Array:
        """Coordinates of the system from those of the tree.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Coordinates of the tree.

        Returns
        -------
        ndarray, shape (..., nq)
            Coordinates of the system.
        """
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
        """Velocities of the system from those of the tree: X ξ̇.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Coordinates of the tree.
        v : array_like, shape (..., nv)
            Velocities of the tree.

        Returns
        -------
        ndarray, shape (..., nv)
            Velocities of the system.
        """
        q, v = np.asarray(q, dtype=np.float64), np.asarray(v, dtype=np.float64)
        out = np.zeros((*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), self.system.nv))
        direct = np.flatnonzero(self._v >= 0)
        out[..., self._v[direct]] = v[..., direct]
        for at_v, at, _, X in self._each(q):
            out[..., at] = np.einsum("...ij,...j->...i", X, v[..., at_v])
        return out

    def velocities(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Velocities of the tree from those of the system: the independent ones of them.

        Accelerations are taken in the same way.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Coordinates of the tree.
        v : array_like, shape (..., nv)
            Velocities of the system, which its constraints allow.

        Returns
        -------
        ndarray, shape (..., nv)
            Velocities of the tree.
        """
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
        """Joint torques and forces of the tree from those of the system: X* tau.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Coordinates of the tree.
        tau : array_like, shape (..., nv)
            Joint torques and forces of the system.

        Returns
        -------
        ndarray, shape (..., nv)
            Joint torques and forces of the tree.
        """
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
            f"bod{'ies' if len(self._parts) != 1 else 'y'}, "
            f"nv = {self.system.nv} → {self.model.nv}>"
        )


@supports(
    loops=True,
    contacts=Refusal(
        "which shapes may touch is decided for the tree",
        "Embed first:\n"
        "    embedded = pp.embed_constraints(pp.System(system.model, system.constraints), q)\n"
        "    pp.System(embedded.model, contacts=pp.Contacts(embedded.model))",
    ),
    flexible=True,
)
def embed_constraints(
    model: System,
    q: ArrayLike | None = None,
    *,
    constraints: Sequence[str] | None = None,
    independent: Sequence[str] = (),
    bodies: Sequence[str] = (),
) -> EmbeddedSystem:
    """Turn closed loops into compound joints: a tree in independent velocities.

    Bodies that move in a closed loop become one body with a velocity for each independent joint
    (constraint embedding). The result is a tree: all functions of trees take it, nothing drifts.

    Parameters
    ----------
    model : System
        A mechanism with constraints.
    q : array_like, shape (nq,), optional
        A configuration at which its loops are closed, away from dead points: which joints are
        independent is decided there. Default: what `system.assemble` finds from the neutral one.
    constraints : sequence of str, optional
        Names of the constraints to embed. Default: all that can be.
    independent : sequence of str, optional
        Joints whose velocities shall be the independent ones, such as those with motors. Default:
        those by which the others are determined best.
    bodies : sequence of str, optional
        Bodies in loops to keep as massless bodies of the tree, for their poses and points. Those
        with frames, shapes or other attachments are kept anyway. Default: none.

    Returns
    -------
    EmbeddedSystem
        The tree `model`, and functions from coordinates, velocities and torques of one to those of
        the other.

    Raises
    ------
    InputError
        If no constraint can be embedded, with the reason for each.

    See Also
    --------
    System : The same mechanism with multipliers, which passes dead points.

    Notes
    -----
    θ̇ = X ξ̇ with X = [1; −G_b⁻¹ G_f]: the tree has the mass matrix X* ℳ X, by sweeps over compound
    bodies. Rows that join two frames (pins, ball joints, rods, welds) and linear relations of
    joints (gears, mimic joints) are embedded; cams, rolling, `Rows` and prescribed velocities are
    not. **Cost:** O(n³) once, for n joints of a loop. **Source:** J12; C23;
    theory/constraint-embedding 1.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(arm, [pin])
    >>> q = four_bar.assemble([1.0, -1.0, -1.5])
    >>> embedded = pp.embed_constraints(four_bar, q, independent=["joint1"])
    >>> embedded
    <EmbeddedSystem: 1 constraint embedded in 1 body, nv = 3 → 1>
    >>> pp.mass_matrix(embedded.model, embedded.coordinates(q)).shape
    (1, 1)
    """
    system = model
    if not isinstance(system, System) or not system.n_rows:
        raise InputError(
            "embed_constraints needs a system with constraints: pp.System(model, constraints)"
        )
    tree_of(system, embed_constraints)
    if system.description.attachments.with_inertia:
        raise InputError(
            "embed_constraints does not support rotors of motors (Rotor). Give the joints their "
            "armature instead:\n    builder.add_body(…, armature=…)"
        )
    tree = system.model
    at = system.assemble(tree.neutral()) if q is None else np.asarray(q, dtype=np.float64)
    if at.shape != (tree.nq,):
        raise InputError(f"q must be one configuration ({tree.nq},), not shape {at.shape}")
    listed = None if constraints is None else as_list("constraints", constraints, "['pin']")
    known = [c.name for c in system.constraints]
    for name in listed or ():
        one_of("constraints", name, known)
    wanted = as_list("independent", independent, "['crank']")
    for name in wanted:
        one_of("independent", name, tree.joint_names)
    gap = np.abs(system.residual(at)).max(initial=0.0)
    if gap > _CLOSED:
        raise InputError(
            f"the loops are open by {gap:.2g} at q. Close them first:\n    q = system.assemble(q)"
        )
    clusters, reasons = clusters_of(system, None if listed is None else set(listed))
    kept: Kept = []
    for cluster in clusters:
        x = structure_of(system, cluster, at, wanted)
        if isinstance(x, str):
            reasons |= dict.fromkeys(cluster.constraints, x)
        else:
            where = entries_of(tree.q_slices[k] for k in cluster.members)
            kept.append((cluster, LoopBody(x, at[where].tolist(), turns_of(tree, cluster))))
    if not kept:
        lines = "\n".join(f"    {n!r}: {why}" for n, why in reasons.items())
        raise InputError(f"no constraint of the system can be embedded:\n{lines}")
    _warn_of_what_acts(system, kept)
    names = as_list("bodies", bodies, "['foot']")
    whole, places = _tree(system, kept, _needed(system, kept, names))
    parts = [(whole.body_index(places[c]), c) for c, _ in kept]
    rest = [c for c in system.constraints if c.name in reasons]
    mechanism = System(whole, rest) if rest else whole
    return EmbeddedSystem(system, mechanism, parts, reasons)


def _warn_of_what_acts(system: System, kept: Kept) -> None:
    """Say which damping and limits of joints in loops are not carried over."""
    found = [system.body(system.body_names[k]) for cluster, _ in kept for k in cluster.members]
    damped = [repr(x.joint_name) for x in found if any(x.damping)]
    limited = [repr(x.joint_name) for x in found if x.limits is not None]
    said = [
        f"{what} of {', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
        for what, names in (("the damping", damped), ("the limits", limited))
        if names
    ]
    if said:
        warn(
            f"embed_constraints: {' and '.join(said)} are not in the tree, which has no joint of "
            "its own for them. Efforts on the system's joints are added as\n"
            "    tau = embedded.efforts(q, tau_of_system)"
        )


def _needed(system: System, kept: Kept, names: Sequence[str]) -> set[str]:
    """Members that stay bodies, without inertia, on a port: they carry something, or are named."""
    inside = {system.body_names[k] for cluster, _ in kept for k in cluster.members}
    for name in names:
        one_of("bodies", name, sorted(inside))
    out = set(names)
    embedded = {name for cluster, _ in kept for name in cluster.constraints}
    for constraint, closure in zip(system.constraints, system.closures.closures, strict=True):
        if constraint.name not in embedded:
            out |= {system.body_names[k] for k, _ in closure.points if k >= 0}
    out |= {frame.body for frame in system.description.frames}
    for attachment in system.description.attachments:
        out |= {body for *_, body in attachment.places()}
    return out & inside


def _tree(system: System, kept: Kept, needed: set[str]) -> tuple[Model, dict[LoopCluster, str]]:
    model = system.model
    b = ModelBuilder(gravity=tuple(model.gravity))
    owner: dict[int, tuple[LoopCluster, LoopBody]] = {
        k: one for one in kept for k in one[0].members
    }
    names = {cluster: _name(model, cluster) for cluster, _ in kept}
    done: set[LoopCluster] = set()

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


def _name(model: Model, cluster: LoopCluster) -> str:
    return "+".join(model.body_names[k] for k in cluster.members)
