"""The rows of a step as nodes: contacts, rigid stops and dry friction, and their impulses.

With `caused`, the motions of hosts that forces on them cause, derivatives of W are those of W p:
programs have those, and no derivatives of Λ, which are needed column by column or not known.

Reasons: docs/decisions/0048.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact import (
    COLUMNS,
    IMPULSES,
    INACTIVE,
    JOINT_FRICTION,
    MATERIALS,
    RESTITUTION,
    ROPES,
    STOPS,
    TOTALS,
    UNSOLVED_CONTACTS,
    WORST,
    ContactProblemLayout,
    ContactProduct,
    ContactSolve,
    Delassus,
    MaxResiduals,
    ProblemParts,
    RowBlocks,
    RowContactSolver,
    RowPlan,
    Slots,
    SmoothedCall,
    fits,
    host_motions,
    is_rigid,
    masks_of,
    problem_parts,
    row_blocks,
    row_forces,
    row_rates,
    slot_impulses,
    weighted,
    world_impulses,
)
from phipsi.core.arrays import (
    Node,
    Primitive,
    StopGradient,
    Tracer,
    as_node,
    call,
    law_operations as ops,
)
from phipsi.core.backends import NOT_FINITE
from phipsi.laws import JointRows
from phipsi.native import LaneMachine, RunKernel
from phipsi.simulation.impacts.displacement import is_buried
from phipsi.simulation.integrators.step_graph import STEP
from phipsi.simulation.runs.conditional import where_needed

Array = NDArray[Any]

TOLERANCE = 1e-13
"""The residual that is asked for, m/s (and m, where bodies are moved apart); or rounding."""
_OVERLAP = 1e-12
"""Overlap (m) that is left as it is."""
_ROUNDING = 1e-9
"""Error of velocities (m/s) that may add energy, that of the impulses times it."""
_CLOSED = 1e-3
"""What is left of a gap that closed in a step, at most."""
_SUDDEN = 10.0
"""g/h², m/s², above which a contact closes suddenly: below, g/h is what gravity adds in a step."""
WRONG = 1e-4
"""Residual, m/s and beside the speeds of contacts above 1 m/s, with which a step is a failure."""


class StepImpulses(NamedTuple):
    """What the impulses of a step do: forces on hosts, new values of states, nodes; energies.

    `allowed`, J: the kinetic energy that rounding and compliant contacts may add; `buried`, 1 where
    bodies are deeper in each other than velocities explain; `motions` of hosts before the step,
    without impulses and with them.
    """

    forces: Node
    states: dict[str, Node]
    worst: MaxResiduals
    dissipated: Any
    unsolved: Any
    allowed: Any
    buried: Any
    motions: tuple[Any, Any, Any]


class StepProblem(NamedTuple):
    """The contact problem of a step and its solution, nodes: as for `ContactProblem`."""

    W: Node
    b: Node
    s: Node
    coefficients: Node
    p: Node


class _Again(NamedTuple):
    """Whether a step has another problem; its impulses, and the change of motions by these."""

    there: Any
    p: Any
    error: Any
    iterations: Any
    status: Any
    change: Any


@final
class StepRows:
    """All rows at one configuration, traced: C, and W as soon as it is needed."""

    def __init__(
        self,
        plan: RowPlan,
        slots: Slots | None,
        origins: Any,
        joints: JointRows,
        admittance: Node,
        last: Mapping[str, Node],
    ) -> None:
        self._plan, self._layout, self._slots, self._last = plan, plan.layout, slots, last
        self._admittance, self._origins = admittance, origins
        gaps, slacks, pulls, self._bounds = (
            None if x is None else Tracer(x)
            for x in (joints.gaps, joints.slacks, joints.pulls, joints.bounds)
        )
        self._blocks: RowBlocks = row_blocks(plan, origins, slots, pulls)
        parts, made = [], []
        if slots is not None:
            parts.append(slots.gap)
            own = Tracer(ops.input(MATERIALS, (plan.n_slots, len(COLUMNS))))
            made.append(weighted(own, slots.weight))
        parts += [x for x in (gaps, slacks) if x is not None]
        if plan.layout.stops:
            made.append(plan.stop_materials)
        self._start_gap, self._materials = _joined(parts), _joined(made)
        self.fixed: list[Node] = []
        self.known: list[Node] = [admittance]
        self.caused: Callable[[Node], Any] | None = None
        self.back: Node | None = None
        self.rebounds = False
        self.problem: StepProblem
        self._compliance: Any
        self._factors: list[Node] | None = None
        self._W: Any
        self._gap: Any
        self._near: Any

    def _first(self) -> Any:
        """Where the search begins: with the impulses of the last step."""
        plan, parts = self._plan, []
        if self._slots is not None:
            world = Tracer(self._last[IMPULSES])
            parts.append(slot_impulses(plan, self._slots, world))
        last = {
            name: Tracer(ops.gather(self._last[name], rates)) * signs
            for name, _, rates, signs in plan.joint_parts()
        }
        if STOPS in last:
            parts.append(np.maximum(last[STOPS], 0.0))
        if ROPES in self._last:
            parts.append(Tracer(self._last[ROPES]))
        if JOINT_FRICTION in last:
            parts.append(last[JOINT_FRICTION])
        return _joined(parts)

    def impulses(
        self, before: Any, free: Any, solver: ContactSolve, smoothed: SmoothedCall | None
    ) -> StepImpulses:
        """The impulses of a step, from motions of hosts before it and after it without them."""
        plan, layout = self._plan, self._layout
        b = row_rates(plan, self._blocks, free)
        u = row_rates(plan, self._blocks, before) if solver.rebounds else None
        h: Any = Tracer(STEP)
        parts = problem_parts(plan, self._start_gap, b, u, self._materials, self._bounds, h)
        if self.caused is not None and layout.n_heads:
            parts = self._followed_gaps(parts, h)
        self._near = near = parts.near
        self.rebounds = parts.bounces is not None
        sides = [as_node(x) for x in self._blocks]
        more = [as_node(x) for x in (parts.inelastic, parts.compliance)]
        factors = [*sides, self._admittance, *more]
        (W,) = call(Delassus(plan), *factors)
        alone = self.caused is None and smoothed is None and fits(solver)
        self._factors = factors if alone else None
        known = [as_node(x) for x in (parts.coefficients, self._first())]
        b = parts.b
        given = [W, as_node(b), as_node(parts.s)]
        calm = [as_node(parts.inelastic)] if solver.rebounds else []
        self._compliance = parts.compliance
        p, error, iterations, status = self._solved(solver, [*given, *calm, *known])
        if smoothed is not None:
            weight = ops.constant(np.zeros(layout.n_rows))
            p, *_, status = (Tracer(x) for x in call(smoothed, *given, known[0], weight))
        f: Any = Tracer(self._forces(p))
        change, s = self._change(f.node), parts.s
        overlap: Any = 0.0
        angle: Any = 0.0
        buried: Any = 0.0
        speed: Any = np.max(np.abs(b))
        if layout.n_heads:
            normals = layout.normals
            placing, along = f, change  # what moves bodies
            if parts.bounces is not None:
                moves = self._moves(solver, smoothed, parts, W, free, change, known[0], p)
                error, status = np.maximum(error, moves.error), np.maximum(status, moves.status)
                iterations = iterations + moves.iterations
                placing = Tracer(self._forces(np.where(moves.there, moves.p, p)))
                along = np.where(moves.there, moves.change, change)
                self.back = as_node(h * (f - placing))  # zero without a rebound
            after = row_rates(plan, self._blocks, free + along, normals=True)
            self._gap = self._start_gap + h * after
            if smoothed is None and not {"normal"}.issuperset(layout.contacts):
                hit, stopped = self._hit(solver, parts, given, known[0], p)
                p, s = (np.where(hit.there, x, y) for x, y in ((hit.p, p), (stopped, s)))
                error, status = np.maximum(error, hit.error), np.maximum(status, hit.status)
                iterations = iterations + hit.iterations
                change = np.where(hit.there, hit.change, change)
                later: Any = Tracer(self._forces(p))
                self.back = as_node(h * (later - placing))  # zero without a hit
                f = later
            self._W = Tracer(W)[np.ix_(normals, normals)]
            turning, depth = plan.turning, np.where(near, -self._start_gap, 0.0)
            overlap = np.max(np.where(turning, 0.0, depth) if turning.any() else depth)
            if turning.any():
                angle = np.max(np.where(turning, depth, 0.0))
            if self._slots is not None:
                own = np.where(is_rigid(self._materials), depth, 0.0)[: plan.n_slots]
                last = {name: self._last[name] for name in (WORST, TOTALS)}
                buried = is_buried(plan, self._slots, self._origins, own, before, last)
            speed = np.max(np.where(near, np.abs(b[normals]), 0.0))
        self.problem = StepProblem(W, as_node(b), as_node(s), known[0], as_node(p))
        # T⁺ − T_f = p* b + ½ p* W p, and W p is C times the change of motions
        gained = np.sum(p * b) + 0.5 * np.sum(f * change)
        allowed = _ROUNDING * np.sum(np.abs(p))
        if layout.n_heads:
            spring = np.where(is_rigid(self._materials), 0.0, np.maximum(-parts.s, 0.0))
            allowed = allowed + np.sum(p[layout.normals] * spring)
        bound = as_node(WRONG * np.maximum(speed, 1.0))
        (error,) = call(Bounded((), UNSOLVED_CONTACTS), as_node(error), bound)
        gain = np.maximum(gained, 0.0)
        worst = MaxResiduals(overlap, Tracer(error), gain, iterations, angle, 0.0)
        dissipated = -0.5 * np.sum(f * (before + free + change))
        if self.back is not None:  # the work of all forces along this move, which has no rates
            dissipated = dissipated - np.sum((free - before) * Tracer(self.back)) / h
        unsolved = np.where(status == 0.0, 0.0, 1.0)
        known = as_node(f), self._recorded(p), worst, dissipated, unsolved, allowed
        return StepImpulses(*known, buried, (before, free, free + change))

    def _moves(
        self,
        solver: ContactSolve,
        smoothed: SmoothedCall | None,
        parts: ProblemParts,
        W: Node,
        free: Any,
        change: Any,
        mu: Node,
        first: Any,
    ) -> _Again:
        """Impulses that move bodies in a step in which contacts rebound, all at once.

        A contact that is hit moves with the velocity u_f without impulses first, for a share λ of
        the step, and then with u⁺: by ū = u⁺ + λ (u_f − u⁺) on the mean. All others obey the laws
        of a step without impacts, s = g/h, so that those which carry what is hit stay closed: their
        impulses have no time of their own. Rows of friction at contacts that are hit have the
        velocities u − ū + u⁺: they stick and slide as after the impact. Where nothing else touches
        the bodies, impulses are (1 − λ) p.
        """
        plan, layout = self._plan, self._layout
        h: Any = Tracer(STEP)
        u_f = row_rates(plan, self._blocks, free)
        u = row_rates(plan, self._blocks, free + change)
        of_rows = np.minimum(layout.heads, layout.n_heads - 1)
        limits = layout.heads >= layout.n_heads  # which do not rebound
        late = np.where(limits, 0.0, parts.late[of_rows])
        mean = u + late * (u_f - u)
        is_normal = np.isin(np.arange(layout.n_rows), layout.normals)
        b = as_node(np.where(is_normal, u_f, u_f - late * (u_f - u)))
        s = np.minimum(-mean[layout.normals], np.maximum(self._start_gap, 0.0) / h)
        s = as_node(np.where(parts.bounces, s, parts.inelastic))
        start = as_node((1.0 - late) * first)
        there = np.max(np.where(parts.bounces, 1.0, 0.0))
        if smoothed is None:
            plain = ContactSolve(
                layout, solver.tolerance, smoothing=solver.smoothing, masks=solver.masks
            )
            return self._again(there, plain, [W, b, s], [mu, start])
        weight = ops.constant(np.zeros(layout.n_rows))
        p, *_, status = (Tracer(x) for x in call(smoothed, W, b, s, mu, weight))
        return _Again(there > 0.0, p, 0.0, 0.0, status, self._change(self._forces(p)))

    def _followed_gaps(self, parts: ProblemParts, h: Any) -> ProblemParts:
        """The same numbers, with derivatives of s by the gaps of contacts that rest.

        Where g is rounding, s is 0. Above it is g/h, and below it bodies are moved apart: either
        way the step closes the gap, and rounding must not decide whether its derivative does.
        """
        gap = self._start_gap
        (fixed,) = call(StopGradient(gap.shape), as_node(gap))
        rests = is_rigid(self._materials) & parts.near & (np.abs(gap) <= _OVERLAP)
        none = (gap - Tracer(fixed)) / h
        s, inelastic = (
            x + np.where(rests & (x == 0.0), none, 0.0) for x in (parts.s, parts.inelastic)
        )
        return parts._replace(s=s, inelastic=inelastic)

    def _hit(
        self, solver: ContactSolve, parts: ProblemParts, given: Sequence[Node], mu: Node, first: Any
    ) -> tuple[_Again, Any]:
        """Impulses and s of a step in which a contact without restitution closes suddenly.

        s = g/h lets a contact close in the step and go on with the speed g/h, which the next step
        stops. Without friction the two impulses are one; with friction they are not, since a slip
        changes between them. So bodies move by the impulses with s = g/h, which close gaps, and
        have the rates of the impulses with s = 0 at the contacts that closed.
        """
        W, b, s = given
        h: Any = Tracer(STEP)
        gap = self._start_gap
        stops = is_rigid(self._materials) & (self._materials[:, RESTITUTION] <= 0.0)
        closed = stops & self._near & (self._gap <= _CLOSED * np.abs(gap))
        there = np.where(np.max(np.where(closed, gap, 0.0)) > _SUDDEN * h * h, 1.0, 0.0)
        stopped = as_node(np.where(closed, 0.0, Tracer(s)))
        calm = [as_node(np.where(closed, 0.0, parts.inelastic))] if solver.rebounds else []
        again = self._again(there, solver, [W, b, stopped, *calm], [mu, as_node(first)])
        return again, Tracer(stopped)

    def _again(
        self, there: Any, solver: ContactSolve, given: Sequence[Node], more: Sequence[Node]
    ) -> _Again:
        """Another problem of the same rows, solved where it is there."""
        W, *known = given
        p, error, iterations, status = self._solved(solver, [*given, *more])
        change = self._change(self._forces(p))
        blocks, soft = [as_node(x) for x in self._blocks], as_node(self._compliance)
        fixed = [*(self._factors or [W]), *known, *more]
        fixed += [*blocks, soft, *self.known]
        results = [as_node(x) for x in (p, error, iterations, status, change)]
        found = where_needed(as_node(there), fixed, results)
        return _Again(there > 0.0, *(Tracer(x) for x in found))

    def _change(self, forces: Node) -> Any:
        """Motions of hosts that forces on them cause."""
        if self.caused is not None:
            return self.caused(forces)
        return host_motions(self._plan, self._admittance, forces)

    def separation(self) -> tuple[Node, Node, Node]:
        """Whether bodies overlap after the step, forces on hosts that move them apart, how far.

        0 ≤ z ⊥ g + h u_n + W_nn z ≥ 0, in m, for rigid contacts and stops.
        """
        normals = self._layout.normals
        rigid = self._near & is_rigid(self._materials)
        deepest = np.min(np.where(rigid, self._gap, 0.0))
        deep = deepest < -_OVERLAP
        s = np.where(rigid, 0.0, 2 * INACTIVE)
        k = len(normals)
        ones, zeros = (ops.constant(np.full(k, x)) for x in (1.0, 0.0))
        masks = masks_of(self._plan.reached)[:k]
        solver = ContactSolve(ContactProblemLayout(("normal",) * k), TOLERANCE, masks=masks)
        known = [as_node(x) for x in (self._W, self._gap, s)]
        fixed = known if self._factors is None else [*known[1:], *self._factors]
        self.fixed = [*fixed, *(as_node(x) for x in self._blocks)]
        z = self._solved(solver, [*known, ones, zeros], normals)[0]
        forces = self._forces(self._whole(z, normals))
        return as_node(np.where(deep, 1.0, 0.0)), forces, as_node(-deepest)

    def _whole(self, p: Any, rows: Array | None) -> Any:
        """Impulses of all rows, from those of some."""
        return p if rows is None else Tracer(ops.scatter_add(p.node, rows, (self._layout.n_rows,)))

    def _solved(
        self, solver: ContactSolve, given: Sequence[Node], rows: Array | None = None
    ) -> list[Any]:
        """Impulses of these rows, residual, iterations and status."""
        if self._factors is not None and rows is None:
            cones = RowContactSolver(self._plan, solver)
            return [Tracer(x) for x in call(cones, *self._factors, *given[1:])]
        found = call(solver, *given)
        if self.caused is not None:
            followed = solver.followed(given, found)
            fixed = self._whole(Tracer(call(StopGradient(followed.shape), followed)[0]), rows)
            moves = row_rates(self._plan, self._blocks, self.caused(self._forces(fixed)))
            if self._layout.n_heads:  # what W has on its diagonal
                normals = self._layout.normals
                soft = as_node(self._compliance * fixed[normals])
                moves = moves + Tracer(ops.scatter_add(soft, normals, (self._layout.n_rows,)))
            product = as_node(moves if rows is None else moves[rows])
            found = (*call(ContactProduct(solver), *found, *given, product), *found[1:])
        return [Tracer(x) for x in found[:4]]

    def _forces(self, p: Any) -> Node:
        """C* p (hosts, 6)."""
        return row_forces(self._plan, self._blocks, p)

    def _recorded(self, p: Any) -> dict[str, Node]:
        """Impulses of slots, [moment; force] on side a in world axes, and of joints at rates."""
        plan, out = self._plan, {}
        if self._slots is not None:
            out[IMPULSES] = world_impulses(plan, self._slots, p)
        for name, rows, rates, signs in plan.joint_parts():
            own = as_node(p[rows] * signs)
            out[name] = ops.scatter_add(own, rates, (plan.model.nv,))
        if len(plan.rope_rows):
            out[ROPES] = as_node(p[plan.rope_rows])
        return out


def motions_of_hosts(plan: RowPlan, frames: Node | None, rates: Node) -> Any:
    """Motions of hosts (hosts, 6), traced: of frames, and of `rates` (nv,) those with rows."""
    parts = [] if frames is None else [frames]
    if plan.rates:
        own = ops.gather(rates, np.array(plan.rates))
        others = plan.n_hosts - len(plan.bodies)
        parts.append(ops.scatter_add(own, np.arange(own.size), (others, 6)))
    return Tracer(parts[0] if len(parts) == 1 else ops.concat(parts, (plan.n_hosts, 6)))


def _joined(parts: Sequence[Any]) -> Any:
    """Rows of all parts; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return np.concatenate(parts)


@final
class Bounded(Primitive):
    """Numbers whose sizes are at most a bound; in a run, a step with larger ones is a failure.

    `status` is that of such a failure.
    """

    def __init__(self, shape: tuple[int, ...], status: int) -> None:
        self.shapes, self.key, self._status = (shape,), (shape, status), status
        self.name = f"bounded {shape} {status}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The numbers."""
        return [args[0]]

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The weight itself."""
        return [weights[0], None]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Note where one is too large."""
        kernel: RunKernel = code.host
        m, bound = LaneMachine(kernel), code.entry(args[1], 0)
        largest: Any = 0.0
        for i in range(math.prod(self.shapes[0])):
            largest = m.larger(m.abs(code.entry(args[0], i)), largest)
        kernel.note_where(largest > bound, self._status)
        return [args[0]]


def finite(x: Node, *others: Node) -> Node:
    """x; in a run, a step in which a number of x or of the others is not finite is a failure."""
    return call(Finite(tuple(y.shape for y in (x, *others))), x, *others)[0]


@final
class Finite(Primitive):
    """The first of several arrays; in a run, a step where one is not finite is a failure."""

    def __init__(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        self._given, self.shapes = shapes, shapes[:1]
        self.key, self.name = shapes, f"finite {shapes}"

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The first of them."""
        return args[:1]

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The weight itself."""
        return [weights[0], *[None] * (len(args) - 1)]

    def write(self, code: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Note where one is not."""
        kernel: RunKernel = code.host
        sizes = [math.prod(shape) for shape in self._given]
        pairs = zip(args, sizes, strict=True)
        entries = (code.entry(x, i) for x, size in pairs for i in range(size))
        kernel.note_unless(kernel.finite(entries), NOT_FINITE)
        return args[:1]
