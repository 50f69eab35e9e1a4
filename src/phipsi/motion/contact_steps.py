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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.energy import kinetic_energy, potential_energy
from phipsi.backends.arguments import joint_array, real_array
from phipsi.circuits.wire_laws import circuit
from phipsi.contact.certificate import TOTALS, WORST, Certificate, Totals, Worst
from phipsi.contact.cone_calls import ConeCall
from phipsi.contact.cone_problem import INACTIVE, ConeLayout, ConeProblem, residual
from phipsi.contact.cone_smoothing import SmoothedCall
from phipsi.contact.contact_rows import (
    IMPULSES,
    MATERIALS,
    RESTITUTION,
    UNSOLVED_CONTACTS,
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
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Node
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import Traced, as_node
from phipsi.model.contact_pairs import Contacts
from phipsi.model.model import Model
from phipsi.motion.chart import chart_of
from phipsi.motion.checks import (
    check_contacts,
    check_quaternions,
    checked_number,
    checked_time,
)
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
WRONG = 1e-4
"""Residual, m/s and beside the speeds of contacts above 1 m/s, with which a step is a failure."""


class _Impulses(NamedTuple):
    """What the impulses of a step do: nodes."""

    wrenches: Node
    world: Node
    worst: Worst
    dissipated: Any
    unsolved: Any


class StepProblem(NamedTuple):
    """The contact problem of a step and its solution, nodes: as for `ConeProblem`."""

    W: Node
    b: Node
    s: Node
    coefficients: Node
    p: Node


@final
class ContactSteps:
    """Steps of a mechanism whose bodies may touch.

    **Arguments:** `tolerance`, m/s, of the residual; `smoothing`, J: with it, derivatives are those
    of smoothed impulses, and with `smoothed` the impulses themselves are.
    **Attributes:** `problem`, that of the last step that was written.
    """

    problem: StepProblem

    def __init__(
        self,
        graph: StepGraph,
        contacts: Contacts,
        *,
        tolerance: float = TOLERANCE,
        smoothing: float = 0.0,
        smoothed: bool = False,
    ) -> None:
        self._graph, self._contacts = graph, contacts
        self._points = [graph.model.body_names[k] for k in contacts.bodies]
        self._layout = layout_of(contacts)
        self._bounces = bool((slot_materials(contacts)[:, RESTITUTION] > 0).any())
        solver = ConeCall(
            self._layout,
            tolerance,
            rebounds=self._bounces,
            smoothing=smoothing,
            masks=Delassus(contacts, self._layout).masks,
        )
        self._solver = solver, SmoothedCall(self._layout, smoothing) if smoothed else None

    def step(self, start: Place) -> Place:
        """The place after a step."""
        graph, model = self._graph, self._graph.model
        forces, inertia = self._implicit(start)
        vdot, admittance = graph.dynamics_at(self._points, start, forces, inertia)
        rows = self._rows(start, admittance)
        free = pushed_rates(model, start.v, vdot, STEP)
        before = self._motions(start.q, start.v)
        found = rows.impulses(before, self._motions(start.q, free), *self._solver)
        self.problem = rows.problem
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
        worst = as_node(np.stack(found.worst))
        later[WORST] = ops.apply("maximum", start.states[WORST], worst)
        work = self._work(start, forces, inertia, Traced(ops.apply("add", free, change)))
        totals = as_node(np.stack(Totals(found.dissipated, work, found.unsolved)))
        later[TOTALS] = ops.apply("add", start.states[TOTALS], totals)
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

    def _work(self, start: Place, forces: Forces, inertia: Node | None, end: Any) -> Any:
        """Of efforts and loads, from v to the rates at the end in the same axes, J."""
        v_0: Any = Traced(start.v)
        efforts = forces.efforts
        if forces.loads is not None:
            efforts = ops.apply("add", efforts, self._graph.carried(start.q, forces.loads))
        push: Any = Traced(ops.apply("mul", STEP, efforts))
        if inertia is not None:
            push = push - Traced(inertia) * (end - v_0)
        return np.sum(0.5 * (v_0 + end) * push)

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
        self.problem: StepProblem
        self._W: Any
        self._gap: Any
        self._near: Any

    def impulses(
        self, before: Any, free: Any, solver: ConeCall, smoothed: SmoothedCall | None
    ) -> _Impulses:
        """The impulses of a step, from motions of frames before it and after it without them."""
        contacts, layout, slots = self._contacts, self._layout, self._slots
        b = row_rates(contacts, layout, self._blocks, free)
        u = row_rates(contacts, layout, self._blocks, before) if solver.rebounds else b
        h: Any = Traced(STEP)
        parts = problem_parts(contacts, layout, slots.gap, b, u, self._materials, h)
        self._near = parts.near
        sides = [as_node(x) for x in self._blocks]
        more = [as_node(x) for x in (parts.inelastic, parts.compliance)]
        (W,) = call(Delassus(contacts, layout), *sides, self._admittance, *more)
        first = row_impulses(contacts, layout, slots.normal, self._last)
        known = [as_node(x) for x in (parts.coefficients, first)]

        given = [W, as_node(b), as_node(parts.s)]
        calm = [as_node(parts.inelastic)] if solver.rebounds else []
        solved: list[Any] = [Traced(x) for x in call(solver, *given, *calm, *known)]
        p, error, iterations, status, *_ = solved
        if smoothed is not None:
            weight = ops.constant(np.zeros(layout.n_rows))
            p, *_, status = (Traced(x) for x in call(smoothed, *given, known[0], weight))
        self.problem = StepProblem(W, as_node(b), as_node(parts.s), known[0], as_node(p))
        f: Any = Traced(self._wrenches(p))
        change = (Traced(self._admittance) @ f.reshape(-1)).reshape(-1, 6)
        # T⁺ − T_f = p* b + ½ p* W p, and W p is C times the change of motions
        gained = np.sum(p * b) + 0.5 * np.sum(f * change)
        normals = layout.normals
        after = row_rates(contacts, layout, self._blocks, free + change)
        self._gap = slots.gap + h * after[normals]
        self._W = Traced(W)[np.ix_(normals, normals)]
        near = parts.near
        overlap = np.max(np.where(near, -slots.gap, 0.0))
        speed = np.max(np.where(near, np.abs(b[normals]), 0.0))
        (error,) = call(Bounded(), as_node(error), as_node(WRONG * np.maximum(speed, 1.0)))
        worst = Worst(overlap, Traced(error), gained, iterations)
        dissipated = -0.5 * np.sum(f * (before + free + change))
        unsolved = np.where(status == 0.0, 0.0, 1.0)
        return _Impulses(as_node(f), self._world(p), worst, dissipated, unsolved)

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
        masks = Delassus(self._contacts, layout).masks
        solver = ConeCall(ConeLayout(("normal",) * k), TOLERANCE, masks=masks)
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


def largest_residual(contacts: Contacts, problem: Sequence[Array]) -> tuple[str, float]:
    """The pair whose impulses are the furthest from the laws, and by how much, m/s.

    `problem` has the arrays of a `StepProblem` of one trajectory.
    """
    layout = layout_of(contacts)
    W, b, s, coefficients, p = problem
    u, errors = W @ p + b, []
    for i, kind in enumerate(layout.contacts):
        rows = np.flatnonzero(row_table(contacts, layout).slot == i)
        inner = W[np.ix_(rows, rows)]
        alone = ConeLayout((kind,)), inner, u[rows] - inner @ p[rows], s[i : i + 1]
        errors.append(float(residual(ConeProblem(*alone, coefficients[rows]), p[rows])))
    worst = int(np.argmax(errors))
    return contacts.slot_names[worst], errors[worst]


@final
class Bounded(Callee):
    """A residual that is at most a bound; in a run, a step with a larger one is a failure."""

    def __init__(self) -> None:
        self.name, self.shapes, self.key = "bounded residual", ((),), ()

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The residual."""
        return [args[0]]

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The weight itself."""
        return [weights[0], None]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Note where it is too large."""
        host, e = code.host, code.e
        wrong = e.compare(">", code.entry(args[0], 0), code.entry(args[1], 0))
        host.note(host.b.select(wrong, e.integer(UNSOLVED_CONTACTS), host.zero))
        return [args[0]]


@final
@dataclass(frozen=True)
class ContactStep:
    """A step with contacts.

    **Attributes:** `q` (..., nq) and `v` (..., nv) after the step; `impulses` (..., k, 6) of all
    slots, [moment; force] on side a in world axes, N·m·s and N·s: forces are impulses / dt;
    `certificate`, a `Certificate` of this step.
    """

    q: Array
    v: Array
    impulses: Array
    certificate: Certificate


def contact_step(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None = None,
    dt: float = 1e-3,
    *,
    impulses: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    smoothing: float = 0.0,
) -> ContactStep:
    """One step of time stepping: the state after dt, with the impulses of all contacts.

    ℳ (v⁺ − v − dt vdot) = J* C* p with Signorini's and Coulomb's laws at the end of the step,
    solved for all contacts together; then bodies that overlap are moved apart without velocity.

    **Arguments:** `model`, a system with `contacts=`; `q` (..., nq); `v` (..., nv); `tau`
    (..., nv), N·m or N, zero if None; `dt`, s; `impulses` (..., k, 6), those of the last step, from
    which the search begins: with them, bodies at rest stay at rest also where another solution
    exists; `tolerance` of the residual, m/s, or rounding where that is more; `smoothing`, J: if
    positive, impulses are those of a point inside the cones, y ∘ z = smoothing, which are smooth
    functions of the state, act at a distance within the margin of the contacts, and err in
    proportion to it.
    **Cost:** O(N) for the mechanism, and O(c³) for c points that touch.
    **Source:** theory/contact 3 and 7 (K37).

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
    _check_model(contact_step, model)
    options = _checked("tolerance", tolerance), _checked("smoothing", smoothing)
    return _step(model, q, v, tau, checked_time(dt, "dt"), impulses, *options)


def contact_forces(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None = None,
    *,
    dt: float = 1e-3,
    impulses: ArrayLike | None = None,
) -> Array:
    """Forces between bodies that touch: the mean over the next step of `dt`.

    f = p/dt with the impulses p of `contact_step`. Where contacts stay closed, slide or open, they
    tend to the forces of that instant as dt → 0; of a contact that closes with a speed there is no
    such force, and the mean grows as 1/dt.

    **Arguments:** as for `contact_step`; `tau` (..., nv), N·m or N, zero if None.
    **Returns:** (..., k, 6), [moment; force] on side a of each slot in world axes, N·m and N, at
    the points of `contact_points`; side b has the opposite. `contacts.slot_names` are the names.
    **Cost:** that of `contact_step`.
    **Source:** theory/contact 3.

    >>> import phipsi as pp
    >>> b = pp.ModelBuilder()
    >>> solid = pp.SpatialInertia.box((0.2, 0.2, 0.2), mass=4)
    >>> box = b.add_body("box", joint=pp.joints.Free(), inertia=solid)
    >>> b.add_shape("box", "box", pp.shapes.Box((0.2, 0.2, 0.2)))
    >>> model = b.build()
    >>> system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    >>> f = pp.contact_forces(system, [1, 0, 0, 0, 0, 0, 0.1], [0] * 6)
    >>> f[:, 5].round(6)                                  # N, a quarter of the weight each
    array([9.81, 9.81, 9.81, 9.81])
    """
    _check_model(contact_forces, model)
    h = checked_time(dt, "dt")
    return _step(model, q, v, tau, h, impulses, TOLERANCE, 0.0).impulses / h


def _check_model(function: Any, model: Any) -> None:
    name = function.__name__
    if not isinstance(model, Model):
        raise InputError(
            f"{name} takes the model first, not {type(model).__name__}:\n"
            f"    {name}(model, q, v, tau, dt=1e-3)"
        )
    check_contacts(METHODS["time_stepping"], model)


def _checked(name: str, value: Any) -> float:
    """A tolerance or smoothing."""
    number = checked_number(value, name, "a finite number", zero=name == "smoothing")
    return number


@final
class _Step:
    """The graph of a step, kept with the model."""

    def __init__(self, model: Model, tolerance: float, smoothing: float) -> None:
        contacts = model.contact_pairs
        graph = StepGraph(model, circuit(model, (), 1e-3))
        options = {"tolerance": tolerance, "smoothing": smoothing, "smoothed": smoothing > 0}
        steps = ContactSteps(graph, contacts, **options)
        end = steps.step(graph.start)
        self.model, self.layout = model.model, layout_of(contacts)
        self.smoothed = smoothing > 0
        self.nodes = [end.q, end.v, *(end.states[n] for n in (IMPULSES, WORST, TOTALS))]
        self.problem = steps.problem if self.smoothed else ()

    def __call__(self, known: dict[str, Array]) -> ContactStep:
        q, v, world, worst, totals, *problem = evaluate([*self.nodes, *self.problem], known)
        if self.smoothed:  # its residual is not that of the exact impulses
            *data, p = problem
            worst[..., Worst._fields.index("residual")] = residual(
                ConeProblem(self.layout, *data), p
            )
        before, after = (known["q"], known["v"]), (q, v)
        T, V = (
            [f(self.model, *x[:n]) for x in (after, before)]
            for f, n in ((kinetic_energy, 2), (potential_energy, 1))
        )
        change = T[0] - T[1] + V[0] - V[1]
        return ContactStep(q, v, world, Certificate.of(worst, totals, change))


def _step(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None,
    h: float,
    impulses: ArrayLike | None,
    tolerance: float,
    smoothing: float,
) -> ContactStep:
    contacts = model.contact_pairs
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
    zeros = {name: x for name, x in contact_states(contacts).items() if name != IMPULSES}
    known = {"q": places, "v": rates, "tau": efforts, IMPULSES: last, **zeros}
    known |= {"t": np.zeros(()), "h": np.full((), h), MATERIALS: slot_materials(contacts)}
    shaped = {n: np.broadcast_to(x, (*batch, *_inner(n, x))) for n, x in known.items()}
    key = (contact_step, contacts, tolerance, smoothing)
    return model.cached(key, lambda: _Step(model, tolerance, smoothing))(shaped)


def _inner(name: str, x: Array) -> tuple[int, ...]:
    """The shape of one configuration's numbers."""
    return x.shape[-2:] if name in (IMPULSES, MATERIALS) else x.shape[-1:]
