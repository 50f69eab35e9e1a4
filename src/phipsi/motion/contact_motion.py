"""The rows of contacts along a motion: gaps, velocities, accelerations, and what forces do.

With the motions V = J v of the frames of bodies with shapes and the rows C of their contacts,

    u = C V,    du/dt = C (J vdot + J̇ v) + Ċ V

where Ċ is the change of the rows along the motion of witness points and normals: the tangent of the
traced geometry in the direction of the motion. The normal component of du/dt is the second
derivative of the gap. Everything is one graph, compiled to one call for a state.

**Source:** theory/contact 1, 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.kinematics.motions import JACOBIAN_DOT_V
from phipsi.compiler import compile
from phipsi.contact.contact_rows import (
    RowPlan,
    contact_axes,
)
from phipsi.contact.geometry.slots import slot_geometry
from phipsi.contact.row_products import row_rates
from phipsi.contact.slot_rows import RowBlocks, row_blocks
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import call
from phipsi.laws.circuit import JointRows
from phipsi.laws.graph import Node
from phipsi.laws.law_derivatives import tangents
from phipsi.laws.trace import Traced, as_node
from phipsi.model.contact_pairs import Contacts
from phipsi.motion.run_code import Plan
from phipsi.motion.run_memory import RunMemory
from phipsi.motion.step_calls import ProgramCall
from phipsi.operators import J, Lambda, mass_matrix, pose, v, vdot

Array = NDArray[Any]
Constraints = Callable[[Array], ConstraintMetric]


class RowState(NamedTuple):
    """The rows of all slots at a state, world axes.

    `gap` (k,), m; `axes` (n, 3) of rows; `rate` (n,), u; `straight` (n,) and `turning` (n,),
    C (J vdot + J̇ v) and Ċ V, whose sum is du/dt without contact forces; `a`, `b` (n, 6), the rows
    at the bodies of both sides; `admittance` (6m, 6m), Λ at their frames; `push` (nv, 6m), what
    forces at the frames do to vdot: with constraint rows, which have been eliminated from both.
    """

    gap: Array
    axes: Array
    rate: Array
    straight: Array
    turning: Array
    a: Array
    b: Array
    admittance: Array
    push: Array | None = None


@final
class ContactMotion:
    """The rows of contacts at states of a mechanism.

    **Arguments:** `contacts`; `constraints`, of a system with constraint rows: their metric at a
    configuration. The rows are eliminated first: Λ − Λ_cb S⁺ Λ_bc (K1f).
    **Attributes:** `contacts`; `layout`; `table`, the slot and axis of every row.
    """

    def __init__(self, contacts: Contacts, constraints: Constraints | None = None) -> None:
        self.contacts, self.model = contacts, contacts.model
        self._constraints = constraints
        self._rows = RowPlan(self.model, contacts, JointRows())
        self.layout, self.table = self._rows.layout, self._rows.table
        self._points = [self.model.body_names[k] for k in contacts.bodies]
        self._push = compile(
            mass_matrix.inv @ J.T, self.model, points=self._points, backend="native"
        )
        if constraints is not None:
            forms = (mass_matrix.inv @ J.T, J)
            self._spreads = compile(forms, self.model, points=self._points, mode=("dense",) * 2)
        plan = self.model.cached((ContactMotion, contacts), self._plan)
        model = self.model
        self._given = {
            name: np.zeros((1, size))
            for name, size in (("q", model.nq), ("v", model.nv), ("vdot", model.nv))
        }
        self._found = {name: np.zeros((1, *node.shape)) for name, node in plan.states.items()}
        self._memory = RunMemory(plan, {**self._given, **self._found}, 1)
        self._call = self._memory.stepper(0.0, 0)

    def _plan(self) -> Plan:
        model, contacts, layout = self.model, self.contacts, self.layout
        q_, v_, vdot_ = (
            ops.given(*x) for x in (("q", (model.nq,)), ("v", (model.nv,)), ("vdot", (model.nv,)))
        )
        poses = ProgramCall((pose,), model, mode=("blocks",))
        (all_poses,) = call(poses, q_)
        chosen = np.arange(16 * model.n_bodies).reshape(-1, 4, 4)[list(contacts.bodies)]
        X = ops.pick(all_poses, chosen)
        at: Any = {"points": self._points}
        motions, pushed = ProgramCall((J @ v,), model, **at), ProgramCall(
            (J @ vdot + JACOBIAN_DOT_V,), model, **at
        )  # fmt: skip
        admittance = ProgramCall((Lambda,), model, mode=("dense",), **at)
        inputs = {"q": q_, "v": v_, "vdot": vdot_}
        (V,), (A,), (L,) = (
            call(x, *(inputs[n] for n in x.inputs)) for x in (motions, pushed, admittance)
        )
        poses_of: Any = Traced(X)
        slots = slot_geometry(contacts, poses_of)
        blocks = row_blocks(self._rows, poses_of[:, :3, 3], slots)
        nodes = [as_node(x) for x in blocks]
        rates = as_node(_pose_rates(poses_of, Traced(V)))  # of those bodies that the rows read
        moving = tangents(nodes, {all_poses: ops.scatter(rates, chosen, all_poses.shape)})
        zeros = ops.constant(np.zeros((layout.n_rows, 6)))
        change = RowBlocks(*(Traced(zeros if x is None else x) for x in moving))
        traced: Any = Traced(V)
        found: dict[str, Any] = {
            "gap": slots.gap,
            "axes": contact_axes(slots.normal)[self.table.slot, self.table.axis],
            "rate": row_rates(self._rows, blocks, traced),
            "straight": row_rates(self._rows, blocks, Traced(A)),
            "turning": row_rates(self._rows, change, traced),
            "a": nodes[0],
            "b": nodes[1],
            "admittance": L,
        }
        states = {name: x if isinstance(x, Node) else as_node(x) for name, x in found.items()}
        own = {"q": model.nq, "v": model.nv, "vdot": model.nv}
        return Plan(poses.native, states, {}, own, {}, (), {})

    def at(self, q: Array, v: Array, vdot: Array) -> RowState | None:
        """The rows at a state with the accelerations vdot (nv,); None where they are not finite."""
        for name, x in (("q", q), ("v", v), ("vdot", vdot)):
            self._given[name][0] = x
        if self._call():
            self._memory.status[0] = 0
            return None
        found = RowState(*(x[0].copy() for x in self._found.values()))
        return found if self._constraints is None else self._constrained(q, found)

    def _constrained(self, q: Array, state: RowState) -> RowState:
        """The same with the constraint rows eliminated: N − ℳ⁻¹ G* S⁺ G N, N = ℳ⁻¹ J*."""
        assert self._constraints is not None
        N, jacobian = self._spreads(q)
        at = self._constraints(q)
        N = N - at.reach[0] @ (at.whole[0] @ N)
        admittance = jacobian @ N
        return state._replace(admittance=0.5 * (admittance + admittance.T), push=N)

    def rows_of(self, slots: Array) -> Array:
        """The numbers of the rows of some slots, given as a mask (k,)."""
        return np.flatnonzero(slots[self.table.slot])

    def spread(self, state: RowState, rows: Array) -> Array:
        """C (rows, 6m) of some rows."""
        m = len(self.contacts.bodies)
        C = np.zeros((len(rows), m, 6))
        for bodies, block in ((self._rows.a, state.a), (self._rows.b, state.b)):
            hosts = bodies[rows]
            (there,) = np.nonzero(hosts >= 0)
            C[there, hosts[there]] = block[rows[there]]  # a body does not touch itself
        return C.reshape(len(rows), 6 * m)

    def delassus(self, state: RowState, C: Array) -> Array:
        """W = C Λ C* of some rows."""
        return C @ state.admittance @ C.T

    def pushed(self, q: Array, state: RowState, C: Array, forces: Array) -> Array:
        """ℳ⁻¹ J* C* f (nv,) of the forces of some rows."""
        if state.push is not None:
            return state.push @ (forces @ C)
        return self._push(q, (forces @ C).reshape(-1, 6))

    def world(self, state: RowState, forces: Array) -> Array:
        """[moment; force] (k, 6) of all slots on side a, from forces (n,) of all rows."""
        out = np.zeros((self.contacts.n_slots, 2, 3))
        terms = state.axes * forces[:, None]
        np.add.at(out, (self.table.slot, self.table.slides.astype(int)), terms)
        return out.reshape(-1, 6)


def _pose_rates(X: Any, V: Any) -> Any:
    """Rates (m, 4, 4) of poses whose frames move as V (m, 6), world axes at their origins."""
    m = X.shape[0]
    omega = V[:, :3]
    columns = [np.cross(omega, X[:, :3, j]) for j in range(3)]
    top = np.stack([*columns, V[:, 3:]], axis=2)
    return np.concatenate([top, np.zeros((m, 1, 4))], axis=1)
