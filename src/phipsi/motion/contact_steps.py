"""A step with contacts as a graph: free motion, impulses between bodies that touch, no overlap.

    v_f = v + h vdot                       without contacts, in the axes at the start of the step
    u = W p + C J v_f,  p ∈ K, …           the impulses p of all contacts together (contact/)
    v⁺ = v_f + ℳ⁻¹ J* C* p                 Signorini's and Coulomb's laws hold at its end
    q⁺ = q ∘ (h v⁺) ∘ exp(ℳ⁻¹ J* C_n* z)   z ≥ 0 moves overlapping bodies apart, without velocity

W = C Λ C*: Λ = J ℳ⁻¹ J* at the frames of the bodies with shapes is a program of the algebra, and C
picks the motions of witness points along contact axes. Springs and dampers of laws at joints are
linearly implicit (K35): with ℳ + h D + h² K in place of ℳ.

**Source:** theory/contact 1, 3.

Reasons: docs/decisions/0041.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.arguments import joint_array, real_array
from phipsi.circuits.wire_laws import circuit
from phipsi.contact.cone_calls import ConeCall
from phipsi.contact.cone_problem import INACTIVE, ConeLayout
from phipsi.contact.contact_rows import (
    IMPULSES,
    MATERIALS,
    RESTITUTION,
    TOTALS,
    WORST,
    RowBlocks,
    contact_axes,
    contact_states,
    is_rigid,
    layout_of,
    problem_parts,
    row_blocks,
    row_impulses,
    row_rates,
    row_table,
    slot_materials,
)
from phipsi.contact.delassus import Delassus
from phipsi.contact.geometry.slots import Slots, slot_geometry
from phipsi.errors import InputError
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import call
from phipsi.laws.graph import Node
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import Traced, as_node
from phipsi.model.contact_pairs import Contacts
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
    """What the impulses of a step do: nodes."""

    wrenches: Node
    world: Node
    worst: Node
    totals: Node


@final
class ContactSteps:
    """Steps of a mechanism whose bodies may touch."""

    def __init__(self, graph: StepGraph, contacts: Contacts) -> None:
        self._graph, self._contacts = graph, contacts
        self._points = [graph.model.body_names[k] for k in contacts.bodies]
        self._layout = layout_of(contacts)
        self._bounces = bool((slot_materials(contacts)[:, RESTITUTION] > 0).any())

    def step(self, start: Place) -> Place:
        """The place after a step."""
        graph, model = self._graph, self._graph.model
        forces, inertia = self._implicit(start)
        vdot, admittance = graph.dynamics_at(self._points, start, forces, inertia)
        rows = self._rows(start, admittance)
        free = pushed_rates(model, start.v, vdot, STEP)
        before = self._motions(start.q, start.v) if self._bounces else None
        found = rows.impulses(before, self._motions(start.q, free))
        change = graph.pushed_at(self._points, start.q, found.wrenches, inertia)
        total = ops.apply("add", vdot, ops.apply("div", change, STEP))
        q, rates = euler_step(model, start.q, start.v, total, STEP)
        deep, apart = rows.separation()
        fixed = [start.q, *rows.fixed, *([] if inertia is None else [inertia])]
        lift = graph.pushed_at(self._points, start.q, apart, inertia)
        q = moved(model, q, where_needed(deep, fixed, [lift])[0])
        later = {
            name: ops.apply("add", start.states[name], ops.apply("mul", rate, STEP))
            for name, rate in forces.rates.items()
        }
        later[IMPULSES] = found.world
        later[WORST] = ops.apply("maximum", start.states[WORST], found.worst)
        later[TOTALS] = ops.apply("add", start.states[TOTALS], found.totals)
        t = ops.apply("add", start.t, STEP)
        return Place(t, q, rates, {**start.states, **later})

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
        model, bodies = self._graph.model, list(self._contacts.bodies)
        (poses,) = call(ProgramCall((pose,), model, mode=("blocks",)), q)
        chosen = np.arange(16 * model.n_bodies).reshape(-1, 4, 4)[bodies]
        X: Any = Traced(ops.pick(poses, chosen))
        return slot_geometry(self._contacts, X), X[:, :3, 3]

    def _rows(self, start: Place, admittance: Node) -> _ContactRows:
        slots, origins = self.slots(start.q)
        last = Traced(start.states[IMPULSES])
        return _ContactRows(self._contacts, self._layout, slots, origins, admittance, last)

    def _motions(self, q: Node, rates: Node) -> Any:
        """Motions of the frames of touching bodies, (m, 6), world axes at their origins."""
        program = ProgramCall((J @ v,), self._graph.model, points=self._points)
        known = {"q": q, "v": rates}
        return Traced(call(program, *(known[x] for x in program.inputs))[0])


@final
class _ContactRows:
    """The rows of all slots at one configuration, traced: C, and W as soon as it is needed."""

    def __init__(
        self,
        contacts: Contacts,
        layout: ConeLayout,
        slots: Slots,
        origins: Any,
        admittance: Node,
        last: Any,
    ) -> None:
        self._contacts, self._layout, self._slots, self._last = contacts, layout, slots, last
        self._admittance, self._table = admittance, row_table(contacts, layout)
        self._blocks: RowBlocks = row_blocks(contacts, layout, origins, slots)
        self._materials: Any = Traced(ops.given(MATERIALS, (contacts.n_slots, 6)))
        self.fixed: list[Node] = []
        self._W: Any
        self._gap: Any
        self._near: Any

    def impulses(self, before: Any | None, free: Any) -> _Impulses:
        """The impulses of a step, from motions of frames before it and after it without them.

        Motions before the step decide about rebounds; None if nothing rebounds.
        """
        contacts, layout, slots = self._contacts, self._layout, self._slots
        b = row_rates(contacts, layout, self._blocks, free)
        u = b if before is None else row_rates(contacts, layout, self._blocks, before)
        h: Any = Traced(STEP)
        parts = problem_parts(contacts, layout, slots.gap, b, u, self._materials, h)
        self._near = parts.near
        sides = [as_node(x) for x in self._blocks]
        more = [as_node(x) for x in (parts.inelastic, parts.compliance)]
        (W,) = call(Delassus(contacts, layout), *sides, self._admittance, *more)
        first = row_impulses(contacts, layout, slots.normal, self._last)
        known = [as_node(x) for x in (parts.coefficients, first)]

        given = [W, as_node(b), as_node(parts.s)]
        if before is not None:
            given.append(as_node(parts.inelastic))
        solver = ConeCall(layout, TOLERANCE, rebounds=before is not None)
        solved: list[Any] = [Traced(x) for x in call(solver, *given, *known)]
        p, residual, iterations, status, *_ = solved
        f: Any = Traced(self._wrenches(p))
        change = (Traced(self._admittance) @ f.reshape(-1)).reshape(-1, 6)
        # T⁺ − T_f = p* b + ½ p* W p, and W p is C times the change of motions
        gained = np.sum(p * b) + 0.5 * np.sum(f * change)
        normals = layout.normals
        after = row_rates(contacts, layout, self._blocks, free + change)
        self._gap = slots.gap + h * after[normals]
        self._W = Traced(W)[np.ix_(normals, normals)]
        overlap = np.max(np.where(parts.near, -slots.gap, 0.0))
        worst = [overlap, residual, gained, iterations]
        totals = [-gained, np.where(status == 0.0, 0.0, 1.0)]
        world = self._world(p)
        return _Impulses(as_node(f), world, as_node(np.stack(worst)), as_node(np.stack(totals)))

    def separation(self) -> tuple[Node, Node]:
        """Whether bodies overlap after the step, and wrenches that move them apart.

        0 ≤ z ⊥ g + h u_n + W_nn z ≥ 0, in m, for rigid contacts.
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
        z = call(solver, *known, ones, zeros)[0]
        every = ops.scatter(z, normals, (layout.n_rows,))
        return as_node(np.where(deep, 1.0, 0.0)), self._wrenches(Traced(every))

    def _wrenches(self, p: Any) -> Node:
        """C* p (m, 6)."""
        terms, places = [], []
        m = len(self._contacts.bodies)
        for bodies, block in zip((self._table.a, self._table.b), self._blocks, strict=True):
            there = np.flatnonzero(bodies >= 0)
            if there.size:
                terms.append(block[there] * p[there][:, None])
                places.append(6 * bodies[there][:, None] + np.arange(6))
        whole = as_node(np.concatenate(terms))
        return ops.scatter(whole, np.concatenate(places), (m, 6))

    def _world(self, p: Any) -> Node:
        """[moment; force] (k, 6) of all slots on side a in world axes."""
        table = self._table
        terms = contact_axes(self._slots.normal)[table.slot, table.axis] * p[:, None]
        first = 6 * table.slot + np.where(table.slides, 3, 0)
        shape = (self._contacts.n_slots, 6)
        return ops.scatter(as_node(terms), first[:, None] + np.arange(3), shape)


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
    end = ContactSteps(graph, contacts).step(graph.start)
    zeros = {name: x for name, x in contact_states(contacts).items() if name != IMPULSES}
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
