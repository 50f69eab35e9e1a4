"""The rows of contacts along a motion: gaps, velocities, accelerations, and what forces do.

With the motions V = J v of the frames of bodies with shapes and the rows C of their contacts,

    u = C V,    du/dt = C (J vdot + J̇ v) + Ċ V

where Ċ is the change of the rows along the motion of witness points and normals: the tangent of the
traced geometry in the direction of the motion. The normal component of du/dt is the second
derivative of the gap. Rigid stops, ropes and dry friction in joints are rows beside them, with the
rates of their joints for hosts, as in fixed steps. Everything is one graph, compiled to one call
for a state. Slots between faces follow their points (contact_tracking.py).

**Source:** theory/contact 1, 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import JACOBIAN_DOT_V, ConstraintMetric
from phipsi.contact import (
    Contacts,
    RowBlocks,
    RowPlan,
    contact_axes,
    row_blocks,
    row_rates,
    slot_geometry,
)
from phipsi.core.arrays import Node, Tracer, as_node, call, law_operations as ops, tangents
from phipsi.core.compiler import compile
from phipsi.core.model import Model
from phipsi.core.operators import J, Lambda, V, mass_matrix, pose, v, vdot
from phipsi.laws import JointRows
from phipsi.simulation.impacts.contact_tracking import ContactTracker, TrackedPoints, points_change
from phipsi.simulation.integrators.step_calls import ProgramCall
from phipsi.simulation.integrators.step_rows import motions_of_hosts
from phipsi.simulation.runs.run_memory import RunMemory
from phipsi.simulation.runs.run_program import RunProgram

Array = NDArray[Any]
Constraints = Callable[[Array], ConstraintMetric]
Rows = Callable[[Any, Any, Any], JointRows]
"""Rows of joints from q, v, and the poses and velocities of bodies as a function of these."""


class RowState(NamedTuple):
    """The rows of all slots, stops, ropes and dry friction at a state, world axes.

    `gap` (k,), m, of slots, stops (rad or m) and ropes; `bounds` of dry friction, N·m or N;
    `axes` (n, 3) of rows, zero for joints; `rate` (n,), u; `straight` (n,) and `turning` (n,),
    C (J vdot + J̇ v) and Ċ V, whose sum is du/dt without contact forces; `a`, `b` (n, 6), the rows
    at the hosts of both sides; `admittance` (6m, 6m), Λ at the hosts; `push` (nv, 6m), what
    forces at the hosts do to vdot: with rows of joints, and with constraint rows, which have been
    eliminated from both; `places` of slots between faces, None without such slots; `weight` (k,) of
    the stiffness of compliant slots, None where all are 1.
    """

    gap: Array
    bounds: Array
    axes: Array
    rate: Array
    straight: Array
    turning: Array
    a: Array
    b: Array
    admittance: Array
    push: Array | None = None
    places: TrackedPoints | None = None
    weight: Array | None = None


@final
class ContactMotion:
    """The rows of contacts at states of a mechanism.

    **Arguments:** `contacts`, None without any; `constraints`, of a system with constraint rows:
    their metric at a configuration. The rows are eliminated first: Λ − Λ_cb S⁺ Λ_bc (K1f);
    `model`, needed without contacts; `joints`, the rows of joints.
    **Attributes:** `contacts`; `plan`; `layout`; `table`, the slot and axis of every row of slots.
    """

    def __init__(
        self,
        contacts: Contacts | None,
        constraints: Constraints | None = None,
        *,
        model: Model | None = None,
        joints: Rows | None = None,
    ) -> None:
        found = model if contacts is None else contacts.model
        assert found is not None
        self.contacts, self.model, self._joints = contacts, found, joints
        self._constraints = constraints
        model = self.model
        kinds = JointRows()
        if joints is not None:
            kinds = joints(model.neutral(), np.zeros(model.nv), compile((pose, V), model))
        self.plan = RowPlan(model, contacts, kinds)
        self.layout, self.table = self.plan.layout, self.plan.table
        self._points = [model.body_names[k] for k in self.plan.bodies]
        self._is_dense = constraints is not None or bool(self.plan.rates)
        at: Any = {"points": self._points}
        if not self._is_dense:
            self._push = compile(mass_matrix.inv @ J.T, model, backend="native", **at)
        elif self._points:
            forms = (mass_matrix.inv @ J.T, J)
            self._spreads = compile(forms, model, mode=("dense",) * 2, **at)
        if self.plan.rates:
            self._inverse = compile(mass_matrix.inv, model, mode="dense")
        self._places_of: ContactTracker | None = None
        if contacts is not None and any(points_change(pair) for pair in contacts.pairs):
            self._places_of = ContactTracker(contacts, self.layout.n_heads)
        self._first_row = np.searchsorted(self.layout.heads, np.arange(self.layout.n_heads))
        key = (ContactMotion, contacts, self._is_dense)
        plan, self._constant = self._plan() if joints else model.cached(key, self._plan)
        self._kept: tuple[Any, list[tuple[Array, Array, Array]]] = (None, [])
        self._given = {
            name: np.zeros((1, size))
            for name, size in (("q", model.nq), ("v", model.nv), ("vdot", model.nv))
        }
        self._found = {name: np.zeros((1, *node.shape)) for name, node in plan.states.items()}
        self._memory = RunMemory(plan, {**self._given, **self._found}, 1)
        self._call = self._memory.stepper(0.0, 0)

    def _plan(self) -> tuple[RunProgram, dict[str, Array]]:
        model, contacts, rows, layout = self.model, self.contacts, self.plan, self.layout
        q_, v_, vdot_ = (
            ops.input(*x) for x in (("q", (model.nq,)), ("v", (model.nv,)), ("vdot", (model.nv,)))
        )
        inputs = {"q": q_, "v": v_, "vdot": vdot_}
        poses = ProgramCall((pose,), model, mode=("blocks",))
        (all_poses,) = call(poses, q_)
        chosen = np.arange(16 * model.n_bodies).reshape(-1, 4, 4)[list(rows.bodies)]
        origins, slots, joints, rates = None, None, JointRows(), None
        found: dict[str, Any] = {"L": np.zeros((0, 0))}
        motions: list[Node] = []
        if self._points:
            found |= self._at_points(inputs)
            motions = [found["V"], found["A"]]
            X: Any = Tracer(ops.gather(all_poses, chosen))
            origins = X[:, :3, 3]
            rates = as_node(_pose_rates(X, Tracer(found["V"])))  # of bodies that the rows read
            if contacts is not None:
                slots = slot_geometry(contacts, X[: len(contacts.bodies)])
        if self._joints is not None:
            (bodies,) = ProgramCall((V,), model, mode=("blocks",)).of(inputs)
            joints = self._joints(
                Tracer(q_), Tracer(v_), lambda *_: (Tracer(all_poses), Tracer(bodies))
            )
        blocks = row_blocks(rows, origins, slots, joints.pulls)
        nodes = [as_node(x) for x in blocks]
        zeros: Any = ops.constant(np.zeros((layout.n_rows, 6)))
        moving: Any = [zeros, zeros]
        if rates is not None:
            change = {all_poses: ops.scatter_add(rates, chosen, all_poses.shape)}
            moving = [zeros if x is None else x for x in tangents(nodes, change)]
        V_, A_ = (
            motions_of_hosts(rows, x, r)
            for x, r in zip(motions or (None,) * 2, (v_, vdot_), strict=True)
        )
        gaps = [x for x in (slots and slots.gap, joints.gaps, joints.slacks) if x is not None]
        states: dict[str, Any] = {
            "gap": np.concatenate(gaps) if gaps else np.zeros(0),
            "bounds": np.zeros(0) if joints.bounds is None else joints.bounds,
            "axes": self._axes(slots),
            "rate": row_rates(rows, blocks, V_),
            "straight": row_rates(rows, blocks, A_),
            "turning": row_rates(rows, RowBlocks(*map(Tracer, moving)), V_),
            "a": nodes[0],
            "b": nodes[1],
            "admittance": found["L"],
        }
        if slots is not None and slots.weight is not None:
            states["weight"] = np.concatenate([slots.weight, np.ones(layout.stops)])
        if self._places_of is not None and slots is not None:
            states["points"] = np.stack([slots.x_a, slots.x_b], axis=1)
            states["poses"], states["motions"] = X, Tracer(found["V"])
        fixed = {name: x for name, x in states.items() if isinstance(x, np.ndarray)}
        states = {name: x for name, x in states.items() if name not in fixed}
        kept = {name: x if isinstance(x, Node) else as_node(x) for name, x in states.items()}
        own_sizes = {"q": model.nq, "v": model.nv, "vdot": model.nv}
        return RunProgram(poses.native, kept, {}, own_sizes, {}, (), {}), fixed

    def _at_points(self, inputs: dict[str, Node]) -> dict[str, Node]:
        """V and A, motions of points and their rates without turning; L, Λ between them."""
        at: Any = {"points": self._points}
        forms = {"V": (J @ v,), "A": (J @ vdot + JACOBIAN_DOT_V,)}
        calls = {n: ProgramCall(x, self.model, **at) for n, x in forms.items()}
        if not self._is_dense:
            calls["L"] = ProgramCall((Lambda,), self.model, mode=("dense",), **at)
        return {n: x.of(inputs)[0] for n, x in calls.items()}

    def _axes(self, slots: Any) -> Any:
        """The directions of rows (rows, 3), zero for those of joints."""
        axes, touched = np.zeros((self.layout.n_rows, 3)), len(self.table.slot)
        if slots is None:
            return axes
        own = contact_axes(slots.normal)[self.table.slot, self.table.axis]
        return np.concatenate([own, axes[touched:]]) if touched < len(axes) else own

    def at(self, q: Array, v: Array, vdot: Array) -> RowState | None:
        """The rows at a state with the accelerations vdot (nv,); None where they are not finite."""
        for name, x in (("q", q), ("v", v), ("vdot", vdot)):
            self._given[name][0] = x
        if self._call():
            self._memory.status[0] = 0
            return None
        known: dict[str, Any] = {name: x[0].copy() for name, x in self._found.items()}
        known |= self._constant
        where = [known.pop(name, None) for name in ("points", "poses", "motions")]
        found = RowState(**known)
        if self._places_of is not None:
            found = self._ordered(found, self._places_of.now(found.gap, *where))
        return self._dense(q, found) if self._is_dense else found

    def _ordered(self, state: RowState, places: TrackedPoints) -> RowState:
        """The rows of slots in the order in which these follow their points."""
        order, heads = places.order, self.layout.heads
        if self._places_of is not None and order is self._places_of.same:
            return state._replace(places=places)
        n = int(np.searchsorted(heads, len(order)))  # without dry friction
        # slots of a pair have rows alike
        rows = np.arange(len(heads))
        rows[:n] += (self._first_row[order] - self._first_row)[heads[:n]]
        by_row = ("axes", "rate", "straight", "turning", "a", "b")
        own = {name: getattr(state, name)[rows] for name in by_row}
        weight = None if state.weight is None else state.weight[order]
        return state._replace(gap=state.gap[order], places=places, weight=weight, **own)

    def follow(self, state: RowState) -> None:
        """Slots between faces go on from the points that they have at a state."""
        if self._places_of is not None and state.places is not None:
            self._places_of.follow(state.places)

    def _dense(self, q: Array, state: RowState) -> RowState:
        """The same with N = ℳ⁻¹ J* at all hosts, without what constraint rows take from it.

        That is ℳ⁻¹ G* S⁺ G N.
        """
        m, rates = 6 * len(self._points), np.array(self.plan.rates, dtype=int)
        N = np.zeros((self.model.nv, 6 * self.plan.n_hosts))
        jacobian = np.zeros(N.T.shape)
        if m:
            N[:, :m], jacobian[:m] = self._spreads(q)
        if rates.size:
            N[:, m : m + len(rates)] = self._inverse(q)[:, rates]
            jacobian[m + np.arange(len(rates)), rates] = 1.0
        if self._constraints is not None:
            at = self._constraints(q)
            N = N - at.reach[0] @ (at.whole[0] @ N)
        admittance = jacobian @ N
        return state._replace(admittance=0.5 * (admittance + admittance.T), push=N)

    @property
    def pairs_between(self) -> ContactTracker | None:
        """The pairs whose points may change places."""
        return self._places_of

    def rows_of(self, heads: Array, *, limits: bool = False) -> Array:
        """The numbers of the rows of some slots and stops, a mask (k,), and of all dry friction."""
        every = np.concatenate([heads, np.full(self.layout.limits, limits)])
        return np.flatnonzero(every[self.layout.heads])

    def spread(self, state: RowState, rows: Array) -> Array:
        """C (rows, 6m) of some rows."""
        m = self.plan.n_hosts
        if rows is not self._kept[0]:  # those of a phase are the same array, stage after stage
            self._kept = rows, self._places(rows)
        C = np.zeros((len(rows), m, 6))
        for (there, hosts, chosen), block in zip(self._kept[1], (state.a, state.b), strict=True):
            C[there, hosts] = block[chosen]  # a body does not touch itself
        return C.reshape(len(rows), 6 * m)

    def _places(self, rows: Array) -> list[tuple[Array, Array, Array]]:
        """For each side, which of the rows have a host there, these hosts and rows."""
        found = []
        for hosts in (self.plan.a, self.plan.b):
            (there,) = np.nonzero(hosts[rows] >= 0)
            found.append((there, hosts[rows[there]], rows[there]))
        return found

    def delassus(self, state: RowState, C: Array) -> Array:
        """W = C Λ C* of some rows."""
        return C @ state.admittance @ C.T

    def pushed(self, q: Array, state: RowState, C: Array, forces: Array) -> Array:
        """ℳ⁻¹ J* C* f (nv,) of the forces of some rows."""
        if state.push is not None:
            return state.push @ (forces @ C)
        return self._push(q, (forces @ C).reshape(-1, 6))

    def world(self, state: RowState, forces: Array) -> Array:
        """[moment; force] (k, 6) on side a of slots of the geometry, from forces (n,) of rows."""
        out = np.zeros((self.plan.n_slots, 2, 3))
        own = slice(0, len(self.table.slot))
        terms = state.axes[own] * forces[own, None]
        slot = self.table.slot
        if state.places is not None:
            slot = state.places.order[slot]
        np.add.at(out, (slot, self.table.slides.astype(int)), terms)
        return out.reshape(-1, 6)


def _pose_rates(X: Any, V: Any) -> Any:
    """Rates (m, 4, 4) of poses whose frames move as V (m, 6), world axes at their origins."""
    m = X.shape[0]
    omega = V[:, :3]
    columns = [np.cross(omega, X[:, :3, j]) for j in range(3)]
    top = np.stack([*columns, V[:, 3:]], axis=2)
    return np.concatenate([top, np.zeros((m, 1, 4))], axis=1)
