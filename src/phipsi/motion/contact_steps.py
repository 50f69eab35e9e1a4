"""A step with contacts as a graph: free motion, impulses between bodies that touch, no overlap.

    v_f = v + h vdot                       without contacts, in the axes at the start of the step
    u = W p + C S v_f,  p ∈ K, …           the impulses p of all rows together (contact/)
    v⁺ = v_f + ℳ⁻¹ S* C* p                 Signorini's and Coulomb's laws hold at its end
    q⁺ = q ∘ (h v⁺) ∘ exp(ℳ⁻¹ S* C_n* z)   z ≥ 0 moves overlapping bodies apart, without velocity

S v are the motions of hosts: J v of the frames of bodies with shapes, and the rates of joints with
rigid stops or dry friction. W = C Λ C*: Λ = S ℳ⁻¹ S* is a program of the algebra, and C picks the
motions of witness points along contact axes, and single rates. Springs and dampers of laws at
joints are linearly implicit (K35): with ℳ + h D + h² K in place of ℳ.

**Source:** theory/contact 1, 3.

Reasons: docs/decisions/0041 and 0043.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.arguments import joint_array, real_array
from phipsi.circuits.wire_laws import circuit
from phipsi.contact.cone_calls import ConeCall, ConeProduct
from phipsi.contact.cone_problem import INACTIVE, ConeLayout
from phipsi.contact.contact_rows import (
    IMPULSES,
    LOOPS,
    MATERIALS,
    RESTITUTION,
    RIGID,
    STOPS,
    TOTALS,
    WORST,
    RowBlocks,
    RowPlan,
    contact_axes,
    is_rigid,
    problem_parts,
    row_blocks,
    row_impulses,
    row_rates,
    slot_materials,
)
from phipsi.contact.delassus import Delassus
from phipsi.contact.geometry.slots import Slots, slot_geometry
from phipsi.errors import InputError
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Held, call
from phipsi.laws.graph import Node
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import Traced, as_node
from phipsi.model.model import Model
from phipsi.motion.chart import chart_of
from phipsi.motion.checks import check_contacts, check_quaternions, checked_time
from phipsi.motion.conditional import where_needed
from phipsi.motion.step_calls import ProgramCall, euler_step, moved, pushed_rates
from phipsi.motion.step_graph import STEP, Forces, Place, StepGraph
from phipsi.motion.tableaux import METHODS
from phipsi.operators import J, pose, v

Array = NDArray[Any]

TOLERANCE = 1e-13
"""The residual that is asked for, m/s (and m, where bodies are moved apart); or rounding."""
_OVERLAP = 1e-12
"""Overlap (m) that is left as it is."""


class _Impulses(NamedTuple):
    """What the impulses of a step do: forces on hosts, and new values of states, nodes."""

    forces: Node
    states: dict[str, Node]


@final
class ContactSteps:
    """Steps of a mechanism with contacts, rigid stops or dry friction in joints.

    With `differentiable`, derivatives of W are those of the motions that impulses cause: programs
    have those, and no derivatives of Λ, which are needed column by column, or not known.
    """

    def __init__(self, graph: StepGraph, *, differentiable: bool = False) -> None:
        self._graph, self._contacts = graph, graph.contacts
        self._differentiable = differentiable
        joints = graph.circuit.joint_rows
        self.plan = RowPlan(graph.model, graph.contacts, joints, graph.has_loops)
        self._points = [graph.model.body_names[k] for k in self.plan.bodies]
        self._bounces = False
        if graph.contacts is not None:
            self._bounces = bool((slot_materials(graph.contacts)[:, RESTITUTION] > 0).any())

    def step(self, start: Place) -> Place:
        """The place after a step."""
        graph, model, plan = self._graph, self._graph.model, self.plan
        forces, inertia = self._implicit(start)
        known = self._points, plan.rates, start, forces, inertia
        vdot, admittance, multipliers = graph.dynamics_at(*known)
        rows = self._rows(start, admittance)
        if self._differentiable:
            rows.caused = lambda f: self._motions(start.q, self._pushed(start.q, f, inertia)[0])
        free = pushed_rates(model, start.v, vdot, STEP)
        before = self._motions(start.q, start.v) if self._bounces else None
        found = rows.impulses(before, self._motions(start.q, free))
        change, reaction = self._pushed(start.q, found.forces, inertia)
        total = ops.apply("add", vdot, ops.apply("div", change, STEP))
        q, rates = euler_step(model, start.q, start.v, total, STEP)
        if plan.layout.n_heads:
            deep, apart = rows.separation()
            fixed = [start.q, *rows.fixed, *([] if inertia is None else [inertia])]
            lift, _ = self._pushed(start.q, apart, inertia)
            q = moved(model, q, where_needed(deep, fixed, [lift])[0])
        later = {
            name: ops.apply("add", start.states[name], ops.apply("mul", rate, STEP))
            for name, rate in forces.rates.items()
        }
        later |= found.states
        if multipliers is not None and reaction is not None:
            total = ops.apply("add", ops.apply("mul", STEP, multipliers), reaction)
            later[LOOPS] = ops.apply("neg", total)
        later[WORST] = ops.apply("maximum", start.states[WORST], later[WORST])
        later[TOTALS] = ops.apply("add", start.states[TOTALS], later[TOTALS])
        t = ops.apply("add", start.t, STEP)
        return graph.closed(Place(t, q, rates, {**start.states, **later}))

    def _pushed(self, q: Node, forces: Node, inertia: Node | None) -> tuple[Node, Node | None]:
        """Rates that forces (hosts, 6) on hosts cause, and what loops do."""
        m, rates = 6 * len(self._points), np.array(self.plan.rates, dtype=int)
        wrenches = ops.pick(forces, np.arange(m).reshape(-1, 6)) if m else None
        efforts = None
        if len(rates):
            own = ops.pick(forces, m + np.arange(len(rates)))
            efforts = ops.scatter(own, rates, (self._graph.model.nv,))
        return self._graph.pushed_at(self._points, q, wrenches, efforts, inertia)

    def _implicit(self, start: Place) -> tuple[Forces, Node | None]:
        """Forces with joint springs and dampers of laws linearly implicit, D and K their diagonals.

        (ℳ + h D + h² K) (v⁺ − v) = h (T − h K v): as T(q + h v⁺, v⁺) to first order.
        """
        forces = self._graph.forces(start)
        D, K = self._graph.resistance(start), self._graph.stiffness(start)
        terms = [] if D is None else [ops.apply("mul", STEP, D)]
        if K is not None:
            K = ops.apply("mul", STEP, K)
            less = ops.apply("mul", K, start.v)
            forces = forces._replace(efforts=ops.apply("sub", forces.efforts, less))
            terms.append(ops.apply("mul", STEP, K))
        if not terms:
            return forces, None
        return forces, terms[0] if len(terms) == 1 else ops.apply("add", *terms)

    def slots(self, q: Node) -> tuple[Slots, Any]:
        """Gaps, normals and witness points of all slots, and the origins of the bodies, traced."""
        assert self._contacts is not None
        model, bodies = self._graph.model, list(self._contacts.bodies)
        (poses,) = call(ProgramCall((pose,), model, mode=("blocks",)), q)
        chosen = np.arange(16 * model.n_bodies).reshape(-1, 4, 4)[bodies]
        X: Any = Traced(ops.pick(poses, chosen))
        return slot_geometry(self._contacts, X), X[:, :3, 3]

    def _rows(self, start: Place, admittance: Node) -> _Rows:
        slots, origins = self.slots(start.q) if self.plan.n_slots else (None, None)
        joints = self._graph.circuit.joint_rows
        given = [x for x in (joints.gaps, joints.bounds) if x is not None]
        found = iter(self._graph.values(start, given))
        gaps, bounds = (None if x is None else next(found) for x in (joints.gaps, joints.bounds))
        return _Rows(self.plan, slots, origins, gaps, bounds, admittance, start.states)

    def _motions(self, q: Node, rates: Node) -> Any:
        """Motions of hosts (hosts, 6): of frames in world axes at their origins, and rates."""
        parts = []
        if self._points:
            program = ProgramCall((J @ v,), self._graph.model, points=self._points)
            known = {"q": q, "v": rates}
            parts.append(call(program, *(known[x] for x in program.inputs))[0])
        if self.plan.rates:
            size = 6 * (self.plan.n_hosts - len(self._points))
            own = ops.pick(rates, np.array(self.plan.rates))
            parts.append(ops.scatter(own, np.arange(own.size), (size // 6, 6)))
        shape = (self.plan.n_hosts, 6)
        return Traced(parts[0] if len(parts) == 1 else ops.join(parts, shape))


@final
class _Rows:
    """All rows at one configuration, traced: C, and W as soon as it is needed."""

    def __init__(
        self,
        plan: RowPlan,
        slots: Slots | None,
        origins: Any,
        gaps: Node | None,
        bounds: Node | None,
        admittance: Node,
        last: Mapping[str, Node],
    ) -> None:
        self._plan, self._layout, self._slots, self._last = plan, plan.layout, slots, last
        self._admittance = admittance
        self._blocks: RowBlocks = row_blocks(plan, origins, slots)
        self._bounds: Any = None if bounds is None else Traced(bounds)
        parts, made = [], []
        if slots is not None:
            parts.append(slots.gap)
            made.append(Traced(ops.given(MATERIALS, (plan.n_slots, 6))))
        if gaps is not None:
            parts.append(Traced(gaps))
            made.append(np.tile(RIGID, (plan.layout.stops, 1)))
        self._start_gap, self._materials = _joined(parts), _joined(made)
        self.fixed: list[Node] = []
        self.caused: Callable[[Node], Any] | None = None
        self._W: Any
        self._gap: Any
        self._near: Any

    def _first(self) -> Any:
        """Where the search begins: with the impulses of the last step."""
        plan, parts = self._plan, []
        if self._slots is not None:
            world = Traced(self._last[IMPULSES])
            parts.append(row_impulses(plan, self._slots.normal, world))
        for name, _, rates, signs in plan.joint_parts():
            last: Any = Traced(ops.pick(self._last[name], rates)) * signs
            parts.append(np.maximum(last, 0.0) if name == STOPS else last)
        return _joined(parts)

    def impulses(self, before: Any | None, free: Any) -> _Impulses:
        """The impulses of a step, from motions of hosts before it and after it without them.

        Motions before the step decide about rebounds; None if nothing rebounds.
        """
        plan, layout = self._plan, self._layout
        b = row_rates(plan, self._blocks, free)
        u = b if before is None else row_rates(plan, self._blocks, before)
        h: Any = Traced(STEP)
        parts = problem_parts(plan, self._start_gap, b, u, self._materials, self._bounds, h)
        self._near = parts.near
        sides = [as_node(x) for x in self._blocks]
        more = [as_node(x) for x in (parts.inelastic, parts.compliance)]
        (W,) = call(Delassus(plan), *sides, self._admittance, *more)
        known = [as_node(x) for x in (parts.coefficients, self._first())]
        given = [W, as_node(b), as_node(parts.s)]
        if before is not None:
            given.append(as_node(parts.inelastic))
        solver = ConeCall(layout, TOLERANCE, rebounds=before is not None)
        p, residual, iterations, status = self._solved(solver, [*given, *known])
        f: Any = Traced(self._forces(p))
        if self.caused is None:
            change = (Traced(self._admittance) @ f.reshape(-1)).reshape(-1, 6)
        else:
            change = self.caused(f.node)
        # T⁺ − T_f = p* b + ½ p* W p, and W p is C times the change of motions
        gained = np.sum(p * b) + 0.5 * np.sum(f * change)
        overlap: Any = 0.0
        if layout.n_heads:
            normals = layout.normals
            after = row_rates(plan, self._blocks, free + change)
            self._gap = self._start_gap + h * after[normals]
            self._W = Traced(W)[np.ix_(normals, normals)]
            overlap = np.max(np.where(parts.near, -self._start_gap, 0.0))
        worst = [overlap, residual, gained, iterations]
        totals = [-gained, np.where(status == 0.0, 0.0, 1.0)]
        states = {WORST: as_node(np.stack(worst)), TOTALS: as_node(np.stack(totals))}
        return _Impulses(as_node(f), states | self._recorded(p))

    def separation(self) -> tuple[Node, Node]:
        """Whether bodies overlap after the step, and forces on hosts that move them apart.

        0 ≤ z ⊥ g + h u_n + W_nn z ≥ 0, in m, for rigid contacts and stops.
        """
        layout, normals = self._layout, self._layout.normals
        rigid = self._near & is_rigid(self._materials)
        deep = np.min(np.where(rigid, self._gap, 0.0)) < -_OVERLAP
        s = np.where(rigid, 0.0, 2 * INACTIVE)
        k = len(normals)
        ones, zeros = (ops.constant(np.full(k, x)) for x in (1.0, 0.0))
        solver = ConeCall(ConeLayout(("normal",) * k), TOLERANCE)
        known = [as_node(x) for x in (self._W, self._gap, s)]
        self.fixed = [*known, *(as_node(x) for x in self._blocks)]
        z = self._solved(solver, [*known, ones, zeros], normals)[0]
        return as_node(np.where(deep, 1.0, 0.0)), self._forces(self._whole(z, normals))

    def _whole(self, p: Any, rows: Array | None) -> Any:
        """Impulses of all rows, from those of some."""
        return p if rows is None else Traced(ops.scatter(p.node, rows, (self._layout.n_rows,)))

    def _solved(
        self, solver: ConeCall, given: Sequence[Node], rows: Array | None = None
    ) -> list[Any]:
        """Impulses of these rows, residual, iterations and status."""
        found = call(solver, *given)
        if self.caused is not None:
            fixed = self._whole(Traced(call(Held(found[0].shape), found[0])[0]), rows)
            moves = row_rates(self._plan, self._blocks, self.caused(self._forces(fixed)))
            product = as_node(moves if rows is None else moves[rows])
            found = (*call(ConeProduct(solver), *found, *given, product), *found[1:])
        return [Traced(x) for x in found[:4]]

    def _forces(self, p: Any) -> Node:
        """C* p (hosts, 6)."""
        terms, places, plan = [], [], self._plan
        for hosts, block in zip((plan.a, plan.b), self._blocks, strict=True):
            there = np.flatnonzero(hosts >= 0)
            if there.size:
                terms.append(block[there] * p[there][:, None])
                places.append(6 * hosts[there][:, None] + np.arange(6))
        whole = as_node(np.concatenate(terms))
        return ops.scatter(whole, np.concatenate(places), (plan.n_hosts, 6))

    def _recorded(self, p: Any) -> dict[str, Node]:
        """Impulses of slots, [moment; force] on side a in world axes, and of joints at rates."""
        plan, out = self._plan, {}
        if self._slots is not None:
            table = plan.table
            axes = contact_axes(self._slots.normal)[table.slot, table.axis]
            terms = axes * p[: len(table.slot)][:, None]
            first = 6 * table.slot + np.where(table.slides, 3, 0)
            places = first[:, None] + np.arange(3)
            out[IMPULSES] = ops.scatter(as_node(terms), places, (plan.n_slots, 6))
        for name, rows, rates, signs in plan.joint_parts():
            own = as_node(p[rows] * signs)
            out[name] = ops.scatter(own, rates, (plan.model.nv,))
        return out


def _joined(parts: Sequence[Any]) -> Any:
    """Rows of all parts; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return np.concatenate(parts)


@final
@dataclass(frozen=True)
class ContactStep:
    """A step with contacts.

    **Attributes:** `q` (..., nq) and `v` (..., nv) after the step; `impulses` (..., k, 6) of all
    slots, [moment; force] on side a in world axes, N·m·s and N·s: forces are impulses / dt;
    `overlap` (...), m, the deepest at the start of the step; `residual` (...), m/s, how far the
    impulses are from the laws of contact; `dissipated` (...), J, kinetic energy lost in contacts;
    `iterations` (...); `solved` (...), whether the residual is at the tolerance, or rounding.
    """

    q: Array
    v: Array
    impulses: Array
    overlap: Array
    residual: Array
    dissipated: Array
    iterations: Array
    solved: Array


def contact_step(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None = None,
    dt: float = 1e-3,
    *,
    impulses: ArrayLike | None = None,
) -> ContactStep:
    """One step of time stepping: the state after dt, with the impulses of all contacts.

    ℳ (v⁺ − v − dt vdot) = J* C* p with Signorini's and Coulomb's laws at the end of the step,
    solved for all contacts together, to rounding; then bodies that overlap are moved apart without
    velocity.

    **Arguments:** `model`, a system with `contacts=`; `q` (..., nq); `v` (..., nv); `tau`
    (..., nv), N·m or N, zero if None; `dt`, s; `impulses` (..., k, 6), those of the last step, from
    which the search begins: with them, bodies at rest stay at rest also where another solution
    exists.
    **Cost:** O(N) for the mechanism, and O(c³) for c points that touch.
    **Source:** theory/contact 3.

    >>> import phipsi as pp
    >>> b = pp.ModelBuilder()
    >>> solid = pp.SpatialInertia.sphere(0.1, mass=1)
    >>> ball = b.add_body("ball", joint=pp.joints.Free(), inertia=solid)
    >>> b.add_shape("skin", "ball", pp.shapes.Sphere(0.1))
    >>> b.add_shape("floor", "world", pp.shapes.Plane())
    >>> model = b.build()
    >>> system = pp.System(model, contacts=pp.Contacts(model))
    >>> step = pp.contact_step(system, [1, 0, 0, 0, 0, 0, 0.1], [0] * 6, dt=1e-3)
    >>> (step.impulses[0, 3:] / 1e-3).round(6)            # N, the weight of the ball
    array([0.  , 0.  , 9.81])
    """
    if not isinstance(model, Model):
        raise InputError(
            f"contact_step takes the model first, not {type(model).__name__}:\n"
            "    contact_step(model, q, v, tau, dt)"
        )
    check_contacts(METHODS["time_stepping"], model)
    contacts = model.contact_pairs
    h = checked_time(dt, "dt")
    places, rates = joint_array(model, "q", q, "nq"), joint_array(model, "v", v, "nv")
    efforts = np.zeros(model.nv) if tau is None else joint_array(model, "tau", tau, "nv")
    last = np.zeros((contacts.n_slots, 6)) if impulses is None else real_array("impulses", impulses)
    if last.shape[-2:] != (contacts.n_slots, 6):
        raise InputError(
            f"impulses has shape {last.shape}, but must end with {(contacts.n_slots, 6)}: those of "
            "the step before, step.impulses"
        )
    check_quaternions(chart_of(model), places, "q")
    shapes = (places.shape[:-1], rates.shape[:-1], efforts.shape[:-1], last.shape[:-2])
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise InputError(
            f"the leading axes of q {places.shape}, v {rates.shape}, tau {efforts.shape} and "
            f"impulses {last.shape} do not broadcast"
        ) from None
    graph = StepGraph(model, circuit(model, (), h))
    end = ContactSteps(graph).step(graph.start)
    zeros = {name: x for name, x in graph.row_states.items() if name != IMPULSES}
    known = {"q": places, "v": rates, "tau": efforts, IMPULSES: last, **zeros}
    known |= {"t": np.zeros(()), "h": np.full((), h), MATERIALS: slot_materials(contacts)}
    shaped = {n: np.broadcast_to(x, (*batch, *_inner(n, x))) for n, x in known.items()}
    wanted = [end.q, end.v, *(end.states[n] for n in (IMPULSES, WORST, TOTALS))]
    new_q, new_v, world, worst, totals = evaluate(wanted, shaped)
    overlap, residual, _, iterations = np.moveaxis(worst, -1, 0)
    lost, unsolved = np.moveaxis(totals, -1, 0)
    counts = iterations.astype(int)
    return ContactStep(new_q, new_v, world, overlap, residual, lost, counts, unsolved == 0)


def _inner(name: str, x: Array) -> tuple[int, ...]:
    """The shape of one configuration's numbers."""
    return x.shape[-2:] if name in (IMPULSES, MATERIALS) else x.shape[-1:]
