"""A step with contacts as a graph: free motion, impulses between bodies that touch, no overlap.

    v_f = v + h vdot                       without contacts, in the axes at the start of the step
    u = W p + C S v_f,  p ∈ K, …           the impulses p of all rows together (contact/)
    v⁺ = v_f + ℳ⁻¹ S* C* p                 Signorini's and Coulomb's laws hold at its end
    q⁺ = q ∘ (h v⁺) ∘ exp(ℳ⁻¹ S* C_n* z)   z ≥ 0 moves overlapping bodies apart, without velocity

S v are the motions of hosts: J v of the frames of bodies with shapes, and the rates of joints with
rigid stops or dry friction. W = C Λ C*: Λ = S ℳ⁻¹ S* is a program of the algebra, and C picks the
motions of witness points along contact axes, and single rates. Springs and dampers of laws at
joints are linearly implicit (K35): with ℳ + h D + h² K in place of ℳ; so are those of modes.

**Source:** theory/contact 1, 3.

Reasons: docs/decisions/0041 and 0043.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import KINETIC_ENERGY, kinetic_energy, potential_energy
from phipsi.contact import (
    GAINS_ENERGY,
    LOOPS,
    REACH,
    RESTITUTION,
    TOTALS,
    WEDGED,
    WORST,
    ContactProblem,
    ContactProblemLayout,
    ContactSolve,
    MaxResiduals,
    RowPlan,
    Slots,
    SmoothedCall,
    StepTotals,
    contact_problem,
    masks_of,
    residual,
    slot_geometry,
    slot_materials,
)
from phipsi.core.arrays import Node, Tracer, as_node, call, law_operations as ops
from phipsi.core.model import Model
from phipsi.core.operators import C_e, J, K_e, eta, pose, v
from phipsi.errors import warn
from phipsi.simulation.impacts.displacement import TIMES_DEEPER, farthest_allowed, farthest_move
from phipsi.simulation.integrators.group_calls import euler_step, moved, placed_step, pushed_rates
from phipsi.simulation.integrators.step_calls import ProgramCall
from phipsi.simulation.integrators.step_graph import (
    STEP,
    Forces,
    GraphState,
    HostDynamics,
    StepGraph,
)
from phipsi.simulation.integrators.step_rows import (
    TOLERANCE,
    Bounded,
    StepImpulses,
    StepProblem,
    StepRows,
    finite,
    motions_of_hosts,
)
from phipsi.simulation.runs.conditional import where_needed

Array = NDArray[Any]


_FARTHEST = 0.1
"""How far (rad or m) bodies are moved apart in any case."""
_FIRST_STEPS, _BIT_BY_BIT = 50, 10.0
"""Steps of a run in which bodies that overlap may be moved apart bit by bit, and moves for which
that is done, beside what is allowed."""
_ELASTIC = K_e @ eta + C_e @ v
"""What the deformation of bodies resists with, (nv,)."""
_GAIN = 1e-4
"""The share of kinetic energy that contacts may add in a step, by the error of their impulses."""


@final
class ContactSteps:
    """Steps of a mechanism with contacts, rigid stops or dry friction in joints.

    **Arguments:** `tolerance`, m/s, of the residual; `smoothing`, J: with it, derivatives are those
    of smoothed impulses, and with `smoothed` the impulses themselves are; `differentiable`, for a
    graph of the same values that has derivatives, see step_rows.py.
    **Attributes:** `plan`, which rows there are; `problem`, that of the last step that was written.
    """

    problem: StepProblem

    def __init__(
        self,
        graph: StepGraph,
        *,
        tolerance: float = TOLERANCE,
        smoothing: float = 0.0,
        smoothed: bool = False,
        differentiable: bool = False,
    ) -> None:
        self._graph, self._contacts = graph, graph.contacts
        self._differentiable = differentiable
        joints = graph.circuit.joint_rows
        self.plan = RowPlan(graph.model, graph.contacts, joints, graph.has_loops)
        self._points = [graph.model.body_names[k] for k in self.plan.bodies]
        _suggest_near(self.plan)
        layout, bounces = self.plan.layout, bool(self.plan.stop_materials[:, RESTITUTION].any())
        if graph.contacts is not None:
            bounces |= bool((slot_materials(graph.contacts)[:, RESTITUTION] > 0).any())
        masks = masks_of(self.plan.reached)
        solver = ContactSolve(layout, tolerance, rebounds=bounces, smoothing=smoothing, masks=masks)
        self._solver = solver, SmoothedCall(layout, smoothing, masks) if smoothed else None

    def step(self, start: GraphState) -> GraphState:
        """The place after a step."""
        graph, model, plan = self._graph, self._graph.model, self.plan
        forces, inertia = self._implicit(start)
        others = [x for x in (forces.loads, inertia) if x is not None]
        forces = forces._replace(efforts=finite(forces.efforts, *others))
        known = self._points, plan.rates, start, forces, inertia
        shared = not self._differentiable
        here = graph.dynamics_at(*known, shared=shared)
        vdot, multipliers, self._gains = here.vdot, here.multipliers, here.gains
        more = [*([] if inertia is None else [inertia]), *self._gains.values()]
        rows = self._rows(start, here)
        if self._differentiable:
            rows.caused = lambda f: self._motions(start.q, self._pushed(start.q, f, inertia)[0])
            rows.known = [start.q, *more]
        free = pushed_rates(model, start.v, vdot, STEP)
        before = self._motions(start.q, start.v, here.motions)
        found = rows.impulses(before, self._motions(start.q, free), *self._solver)
        self.problem = rows.problem
        change, reaction = self._pushed(start.q, found.forces, inertia)
        total = ops.apply("add", vdot, ops.apply("div", change, STEP))
        lag = hit = deep = lift = None
        if rows.back is not None:  # bodies that are hit moved with the velocity before for a time
            hit = as_node(np.max(np.abs(Tracer(rows.back))))
            lag, _ = self._pushed(start.q, rows.back, inertia)
            (lag,) = where_needed(hit, [start.q, rows.back, *more], [lag])
        if lag is not None and rows.rebounds:
            late = ops.apply("sub", change, ops.apply("div", lag, STEP))
            mean = ops.apply("add", free, late)
            q, rates = placed_step(model, start.q, start.v, total, mean, STEP)
        else:
            q, rates = euler_step(model, start.q, start.v, total, STEP)
            if hit is not None and lag is not None:
                q = _moved_where(hit, [q, lag], model, q, ops.apply("neg", lag))
        if plan.layout.n_heads:
            deep, apart, depth = rows.separation()
            fixed = [start.q, *rows.fixed, *more]
            lift, _ = self._pushed(start.q, apart, inertia)
            (lift,) = where_needed(deep, fixed, [lift])
            below: Any = Tracer(depth)
            lift = self._shortened(lift, below, start)
            farthest = as_node(np.maximum(_FARTHEST, TIMES_DEEPER * below))
            (lift,) = call(Bounded((model.nv,), WEDGED), lift, farthest)
            q = _moved_where(deep, [q, lift], model, q, lift)
        later = {**start.along(forces.rates), **found.states}
        if multipliers is not None and reaction is not None:
            both = ops.apply("add", ops.apply("mul", STEP, multipliers), reaction)
            later[LOOPS] = ops.apply("neg", both)
        moved = self._moved(start.q, [(hit, lag), (deep, lift)], found)
        bad = np.where(moved > farthest_allowed(plan), 1.0, 0.0)
        bad = np.maximum(bad, found.buried)
        worst = self._checked_gain(start, free, forces, found)._replace(moved=moved)
        worst = as_node(np.stack(worst))
        later[WORST] = ops.apply("maximum", start.states[WORST], worst)
        work = self._work(start, forces, inertia, Tracer(ops.apply("add", free, change)))
        sums = StepTotals(found.dissipated, work, found.unsolved, bad, 1.0)
        totals = as_node(np.stack(sums))
        later[TOTALS] = ops.apply("add", start.states[TOTALS], totals)
        return graph.closed(start.after(q, rates, later))

    def _shortened(self, lift: Node, below: Array, start: GraphState) -> Node:
        """A move (nv,) apart; in the first steps, a part of one that is farther than allowed.

        Where many bodies overlap deeply at the start, the least move along their normals may turn
        a light one several times: normals hold for a short way only, and the next steps have
        others. Much farther moves, and those that are still so far later, end the trajectory; so
        do far moves of linkages, which would begin in another configuration.
        """
        if any(self._graph.model.parent[k] >= 0 for k in self.plan.bodies):
            return lift
        far: Any = np.max(np.abs(Tracer(lift)))
        taken: Any = Tracer(start.states[TOTALS])[StepTotals._fields.index("taken")]
        allowed = np.maximum(_FARTHEST, TIMES_DEEPER * below)
        is_far = (far > allowed) & (far < _BIT_BY_BIT * allowed) & (taken < _FIRST_STEPS)
        share = np.where(is_far, np.maximum(_FARTHEST, below) / np.where(is_far, far, 1.0), 1.0)
        return as_node(Tracer(lift) * share)

    def _moved(self, q: Node, moves: Sequence[tuple[Any, Any]], found: StepImpulses) -> Any:
        """How far a step moved a body beyond what velocities explain, m.

        `moves`: whether there is one, and the move (nv,) itself; their ways are added up.
        """
        moves = [(there, z) for there, z in moves if z is not None]
        if not self._points or not moves:
            return 0.0
        needed: Any = 0.0
        for there, _ in moves:
            needed = np.where(Tracer(there) != 0.0, 1.0, needed)
        along = [self._motions(q, z) for _, z in moves]
        way = as_node(farthest_move(self.plan, along, found.motions, found.worst.overlap))
        fixed = [as_node(x) for x in (found.worst.overlap, *found.motions)]
        (way,) = where_needed(as_node(needed), [q, *(z for _, z in moves), *fixed], [way])
        return Tracer(way)

    def _checked_gain(
        self, start: GraphState, free: Node, forces: Forces, found: StepImpulses
    ) -> MaxResiduals:
        """The worst of a step that is a failure where contacts add energy beyond rounding.

        That is the kinetic energy T_f without contacts times `_GAIN`, and what is allowed.
        """
        gain = found.worst.gain
        more = np.where(gain > found.allowed, 1.0, 0.0)
        here = start._replace(v=free)
        known = self._graph.evaluated((KINETIC_ENERGY,), here, forces)
        (there,) = where_needed(as_node(more), [start.q, free], known)
        energy: Any = Tracer(there)
        bound = as_node(found.allowed + _GAIN * energy)
        (gain,) = call(Bounded((), GAINS_ENERGY), as_node(gain), bound)
        return found.worst._replace(gain=Tracer(gain))

    def _pushed(self, q: Node, forces: Node, inertia: Node | None) -> tuple[Node, Node | None]:
        """Rates that forces (hosts, 6) on hosts cause, and what loops do."""
        m, rates = 6 * len(self._points), np.array(self.plan.rates, dtype=int)
        wrenches = ops.gather(forces, np.arange(m).reshape(-1, 6)) if m else None
        efforts = None
        if len(rates):
            own = ops.gather(forces, m + np.arange(len(rates)))
            efforts = ops.scatter_add(own, rates, (self._graph.model.nv,))
        return self._graph.pushed_at(self._points, q, wrenches, efforts, inertia, self._gains)

    def _implicit(self, start: GraphState) -> tuple[Forces, Node | None]:
        """Forces with joint springs and dampers of laws linearly implicit, D and K their diagonals.

        (ℳ + h D + h² K) (v⁺ − v) = h (T − h K v): as T(q + h v⁺, v⁺) to first order. Elastic forces
        of bodies that deform are taken the same way, so that stiff modes need no short steps.
        """
        forces = self._graph.forces(start)
        D, K = self._graph.resistance(start), self._graph.stiffness(start)
        if self._graph.model.is_flexible:
            D, K = (
                own if x is None else ops.apply("add", x, own)
                for x, own in zip((D, K), _modal_diagonals(self._graph.model), strict=True)
            )
        terms = [] if D is None else [ops.apply("mul", STEP, D)]
        if K is not None:
            K = ops.apply("mul", STEP, K)
            less = ops.apply("mul", K, start.v)
            forces = forces._replace(efforts=ops.apply("sub", forces.efforts, less))
            terms.append(ops.apply("mul", STEP, K))
        if not terms:
            return forces, None
        return forces, terms[0] if len(terms) == 1 else ops.apply("add", *terms)

    def _work(self, start: GraphState, forces: Forces, inertia: Node | None, end: Any) -> Array:
        """Of efforts, loads and elastic forces, from v to the rates at the end in the same axes."""
        v_0: Any = Tracer(start.v)
        efforts = forces.efforts
        if forces.loads is not None:
            efforts = ops.apply("add", efforts, self._graph.carried(start.q, forces.loads))
        if self._graph.model.is_flexible:
            (resists,) = self._graph.evaluated((_ELASTIC,), start, forces)
            efforts = ops.apply("sub", efforts, resists)
        push: Any = Tracer(ops.apply("mul", STEP, efforts))
        if inertia is not None:
            push = push - Tracer(inertia) * (end - v_0)
        return np.sum(0.5 * (v_0 + end) * push)

    def slots(self, q: Node, poses: Node | None = None) -> tuple[Slots, Any]:
        """Gaps, normals and witness points of all slots, and the origins of the bodies, traced.

        `poses` of all bodies, if they are known.
        """
        assert self._contacts is not None
        model, bodies = self._graph.model, list(self._contacts.bodies)
        if poses is None:
            (poses,) = call(ProgramCall((pose,), model, mode=("blocks",)), q)
        chosen = np.arange(16 * model.n_bodies).reshape(-1, 4, 4)[bodies]
        X: Any = Tracer(ops.gather(poses, chosen))
        within = REACH * self._contacts.margin
        return slot_geometry(self._contacts, X, within), X[:, :3, 3]

    def _rows(self, start: GraphState, known: HostDynamics) -> StepRows:
        slots = origins = None
        if self.plan.n_slots:
            slots, origins = self.slots(start.q, known.poses)
        joints = self._graph.circuit.joint_rows
        nodes = {n: getattr(joints, n) for n in ("gaps", "bounds", "slacks", "pulls")}
        given = {n: x for n, x in nodes.items() if x is not None}
        found = dict(zip(given, self._graph.values(start, list(given.values())), strict=True))
        here = replace(joints, **found)
        return StepRows(self.plan, slots, origins, here, known.admittance, start.states)

    def _motions(self, q: Node, rates: Node, moving: Node | None = None) -> Array:
        """Motions of hosts (hosts, 6): of frames in world axes at their origins, and rates.

        `moving`, those of frames, if they are known.
        """
        if self._points and moving is None:
            model = self._graph.model
            program = ProgramCall((J @ v,), model, points=self._points, inspects=())
            (moving,) = program.of({"q": q, "v": rates})
        return motions_of_hosts(self.plan, moving, rates)


def _moved_where(condition: Node, fixed: Sequence[Node], model: Model, q: Node, z: Node) -> Node:
    """q ∘ exp(z) where the condition () is not zero, which few steps need, and q elsewhere."""
    (there,) = where_needed(condition, fixed, [moved(model, q, z)])
    needed: Any = Tracer(condition)
    return as_node(np.where(needed == 0.0, Tracer(q), Tracer(there)))


def _modal_diagonals(model: Model) -> tuple[Node, Node]:
    """Damping and stiffness (nv,) of modes, 0 for joints: sums |C_e| and |K_e| of the rows.

    Modes of beams and of finite elements have diagonal matrices. Of others the sums are at least as
    stiff in every direction, and a step is stable, of first order, with them.
    """
    out = np.zeros((2, model.nv))
    for at, x in zip(model.v_slices, model.flexible, strict=True):
        if x is not None:
            rates = slice(at.stop - x.modes, at.stop)
            out[:, rates] = np.abs([x.damping, x.stiffness]).sum(axis=2)
    return ops.constant(out[0]), ops.constant(out[1])


_MANY_ROWS = 5000
"""Rows of a step whose admittance, 8 n² bytes, is no longer small."""


def _suggest_near(plan: RowPlan) -> None:
    """Warn where the pairs of a system are too many for the steps, and say what runs instead."""
    n = plan.layout.n_rows
    if plan.contacts is None or n <= _MANY_ROWS:
        return
    warn(
        f"steps have {n:,} constraint rows for {len(plan.contacts.pairs):,} pairs that may "
        f"touch, whose dense admittance takes {8e-09 * n * n:.2g} GB and long to compile. Use "
        "only the pairs that are near at the start:\n"
        "    pp.Contacts(model, broadphase_poses=pp.poses(model, q), broadphase_distance=0.1)"
    )


def largest_residual(plan: RowPlan, problem: Sequence[Array]) -> tuple[str, float]:
    """The pair or joint whose impulses are the furthest from the laws, and by how much, m/s.

    `problem` has the arrays of a `StepProblem` of one trajectory.
    """
    W, b, s, coefficients, p = problem
    u, errors, heads = W @ p + b, [], plan.layout.n_heads
    for i, rows in enumerate(contact_problem.contact_rows(plan.layout)):
        kinds = plan.layout.contacts[i : i + 1]
        layout = ContactProblemLayout(kinds, int(not kinds and i < heads), int(i >= heads))
        inner = W[rows, rows]
        alone = layout, inner, u[rows] - inner @ p[rows], s[i : i + 1][: layout.n_heads]
        errors.append(float(residual(ContactProblem(*alone, coefficients[rows]), p[rows])))
    worst = int(np.argmax(errors))
    return plan.names[worst], errors[worst]


def energy_change(model: Model, before: tuple[Array, Array], after: tuple[Array, Array]) -> Array:
    """Of kinetic and potential energy (...) between states (q, v), J."""
    T, V = (
        [f(model, *x[:n]) for x in (after, before)]
        for f, n in ((kinetic_energy, 2), (potential_energy, 1))
    )
    return T[0] - T[1] + V[0] - V[1]
