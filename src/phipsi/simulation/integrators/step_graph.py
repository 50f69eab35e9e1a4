"""The equations of a run as a graph: forward dynamics and laws at any place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from phipsi import contact
from phipsi.algorithms import (
    CLOSED_INVERSE,
    FORWARD_DYNAMICS,
    INNOVATIONS,
    KINETIC_ENERGY,
    KNOWN_INVERSE,
    STEP_LENGTH,
    WHOLE_INERTIA,
    System,
    body_forces,
    first_moment,
    forward,
    hybrid_form,
    linearly_implicit,
    loaded,
)
from phipsi.core.arrays import (
    Node,
    Tracer,
    as_node,
    call,
    diagonal,
    law_operations as ops,
    substituted,
)
from phipsi.core.backends import CONTRADICTION, DOUBTFUL
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, as_list
from phipsi.core.operators import D, G, H, J, Jr, K_e, Lambda, mass_matrix, phi, pose, v
from phipsi.errors import InputError
from phipsi.laws import INERTIA, AlgebraBlock, BlockDiagram
from phipsi.simulation.integrators.step_calls import ProgramCall, check_per_trajectory, inertias
from phipsi.simulation.integrators.stiff_modes import modal_blocks

_OF_SYSTEMS = ("M", "Jr", "gravity")  # that trajectories of systems may have their own of
_MOST_TANGENTS = 16
STEP = ops.input("h", ())
"""The length of a step, s."""


class GraphState(NamedTuple):
    """Where a trajectory is: time, configuration, rates, and states of laws by name."""

    t: Node
    q: Node
    v: Node
    states: Mapping[str, Node]

    def after(self, q: Node, v: Node, states: Mapping[str, Node]) -> GraphState:
        """The place after a step, with these states changed."""
        return GraphState(ops.apply("add", self.t, STEP), q, v, {**self.states, **states})

    def along(self, rates: Mapping[str, Node]) -> dict[str, Node]:
        """States after a step with these rates."""
        return {
            name: ops.apply("add", self.states[name], ops.apply("mul", rate, STEP))
            for name, rate in rates.items()
        }


class Forces(NamedTuple):
    """What acts at a place: efforts, forces on bodies; and the rates of states of laws by name."""

    efforts: Node
    loads: Node | None
    rates: Mapping[str, Node]


class HostDynamics(NamedTuple):
    """Dynamics at the hosts of impulses, see `StepGraph.dynamics_at`.

    `motions` of frames (m, 6), J v, world axes at their origins; `poses` of all bodies (n, 4, 4);
    `gains`, G and D⁻¹ by name, for `pushed_at`: None and empty if they are not at hand.
    """

    vdot: Node
    admittance: Node
    multipliers: Node | None
    motions: Node | None
    poses: Node | None
    gains: Mapping[str, Node]


@final
class StepGraph:
    """The equations of a run at any place: laws and forward dynamics.

    `given` names per-trajectory quantities of the algebra, as `compile`
    takes them, or `INERTIA`; they are inputs of the graph by the same names. With `prescribed`, the
    input ``free`` (nv,) marks joints with 1 whose efforts are given, and with 0 those whose
    accelerations stand in their place (hybrid dynamics; trees).
    """

    def __init__(
        self,
        mechanism: Model,
        circuit: BlockDiagram,
        given: Sequence[str] = (),
        *,
        prescribed: bool = False,
    ) -> None:
        self.model = model = mechanism.model
        self.circuit, self._named = circuit, tuple(as_list("given", given, "['M']"))
        if not all(isinstance(x, str) for x in self._named):
            raise InputError(f"per_trajectory={given!r} must be names of quantities, such as ['M']")
        self._given = tuple(dict.fromkeys("M" if x == INERTIA else x for x in self._named))
        self._check_given(mechanism)
        self._system = mechanism if isinstance(mechanism, System) and mechanism.n_rows else None
        self.tau = ops.input("tau", (model.nv,))
        self.contacts = mechanism.contact_pairs
        states = {name: x.node for name, x in circuit.of_kind("state").items()}
        loops = mechanism.n_rows
        self.row_states: Mapping[str, Any] = {}
        if self.contacts is not None or circuit.joint_rows:
            first = contact.contact_rows.row_states
            self.row_states = first(self.contacts, circuit.joint_rows, model.nv, loops)
        states |= {name: ops.input(name, x.shape) for name, x in self.row_states.items()}
        t, q, v = (ops.input(*x) for x in (("t", ()), ("q", (model.nq,)), ("v", (model.nv,))))
        self.start = GraphState(t, q, v, states)
        external, self._is_hybrid = circuit.loads is not None, prescribed
        if self._system is None:
            form = loaded(forward, external=True) if external else FORWARD_DYNAMICS
            form = hybrid_form(body_forces(external)) if prescribed else form
            self._dynamics: Any = ProgramCall((form,), model, inputs=self._given)
        else:
            self._dynamics = self._closed_dynamics(0)

    def _check_given(self, mechanism: Model) -> None:
        """Reject quantities of which a part of the run would not know."""
        check_per_trajectory(self._named)
        unfit, why = [x for x in self._given if x not in _OF_SYSTEMS], ""
        if mechanism.n_rows:
            why = "the loops of a system are closed with the lengths of its model"
        elif mechanism.contact_pairs is not None:
            why = "gaps between bodies are those of the model's lengths"
        elif self.circuit.joint_rows:
            why = "impulses of ropes, rigid stops and dry friction act by the model's lengths"
        if unfit and why:
            raise InputError(
                f"per_trajectory={unfit!r}: {why}. Per-trajectory quantities of a system are "
                + ", ".join(map(repr, (INERTIA, *_OF_SYSTEMS)))
            )
        if self.circuit.given != self._named and self.circuit.evaluations:
            raise InputError(
                f"per_trajectory={list(self._named)!r}: these laws were traced for "
                f"{list(self.circuit.given)!r}, and read masses and gravity of those. Trace them "
                f"with the same:  block_diagram(mechanism, laws, dt, given)"
            )

    @property
    def has_loops(self) -> bool:
        """Whether constraints couple what the tree does not."""
        return self._system is not None

    @property
    def named(self) -> tuple[str, ...]:
        """The per-trajectory quantities, as they were named."""
        return self._named

    @property
    def native(self) -> Any:
        """The machine code of forward dynamics, or of a part of it."""
        return self._dynamics.natives[0]

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the quantities named in `given`."""
        shapes: dict[str, tuple[int, ...]] = {INERTIA: (self.model.n_bodies, 10)}
        if self._system is None:
            shapes |= self.native.program.input_shapes
        else:
            shapes |= {x: self._dynamics.given_shape(x) for x in self._given}
        found = {x: tuple(shapes[x]) for x in self._named}
        if self.contacts is None:
            return found
        rows = contact.contact_rows
        return {**found, rows.MATERIALS: (self.contacts.n_slots, len(rows.COLUMNS))}

    @property
    def has_own_bodies(self) -> bool:
        """Whether trajectories have their own masses or gravity."""
        return bool(self._given)

    def values(self, place: GraphState, nodes: Sequence[Node]) -> list[Node]:
        """Nodes of the circuit at a place, with what they read of the algebra."""
        known = self._known(place)
        for one in self.circuit.evaluations:
            callee = self._program_of(one)
            operands = substituted(list(one.operands.values()), known)
            inputs = dict(zip(one.operands, operands, strict=True))
            found = self._called(callee, {"q": place.q, "v": place.v, **inputs})
            for name, node in zip(one.results, found, strict=True):
                known[self.circuit.quantities[name].node] = node
        return substituted(nodes, known)

    def _known(self, place: GraphState) -> dict[Node, Node]:
        """What the nodes of the start are at another place."""
        start = self.start
        known = {start.t: place.t, start.q: place.q, start.v: place.v}
        return known | {node: place.states[name] for name, node in start.states.items()}

    def _program_of(self, one: AlgebraBlock) -> ProgramCall:
        options: Any = {"mode": one.modes, "points": one.points}
        if not one.constrained:
            if one.nominal:
                return ProgramCall(one.forms, self.model, **options)
            return self._own_call(one.forms, **options)
        assert self._system is not None
        # inside a step loops are open by the error of a stage; dynamics judge their own doubts
        options |= {"inputs": self._given, "allowed": (DOUBTFUL,)}
        return ProgramCall(one.forms, self._system, **options)

    def _own_call(self, forms: Sequence[Expr], **options: Any) -> ProgramCall:
        """A program of the tree, with those of the quantities that are given which it reads."""
        if self._given:
            program = compile(tuple(forms), self.model, inputs=self._given, **options)
            read = tuple(x for x in self._given if x in program.source.reads)
            options |= {"inputs": read} if read else {}
        return ProgramCall(forms, self.model, **options)

    def _called(self, callee: ProgramCall, inputs: Mapping[str, Node]) -> tuple[Node, ...]:
        shapes = callee.native.program.input_shapes
        if INERTIA in self._named:
            n = self.model.n_bodies
            inputs = {**inputs, "M": inertias(ops.input(INERTIA, (n, 10)), n)}
        given = {x: ops.input(x, tuple(shapes[x])) for x in callee.inputs if x not in inputs}
        return callee.of({**inputs, **given})

    def apply_forms(
        self, forms: Sequence[Expr], inputs: Mapping[str, Node], **options: Any
    ) -> tuple[Node, ...]:
        """Expressions of the algebra from inputs by name, with what trajectories have of their own.

        **Arguments:** `forms`; `inputs`, such as "q" and "v"; `options` as `compile` takes them.
        """
        return self._called(ProgramCall(forms, self.model, inputs=self._given, **options), inputs)

    def energy(self, place: GraphState) -> Node:
        """Kinetic energy and that of gravity (), J, with what trajectories have of their own."""
        known = {"q": place.q, "v": place.v}
        kinetic = self._called(self._own_call((KINETIC_ENERGY,)), known)[0]
        (whole,) = self._called(self._own_call((WHOLE_INERTIA,), mode=("dense",)), known)
        inertia: Any = Tracer(whole)
        own = "gravity" in self._given
        g = ops.input("gravity", (3,)) if own else ops.constant(self.model.gravity)
        return as_node(Tracer(kinetic) - first_moment(inertia) @ Tracer(g))

    def forces(self, place: GraphState) -> Forces:
        """What the laws say at a place, and efforts that are given."""
        circuit = self.circuit
        wanted = [x for x in (circuit.efforts, circuit.loads) if x is not None]
        found = iter(self.values(place, [*wanted, *circuit.rates.values()]))
        efforts = self.tau
        if circuit.efforts is not None:
            efforts = ops.apply("add", efforts, next(found))
        loads = None if circuit.loads is None else next(found)
        return Forces(efforts, loads, dict(zip(circuit.rates, found, strict=True)))

    def accelerations(
        self, place: GraphState, forces: Forces, inertia: Node | None = None, stage: int = 0
    ) -> Node:
        """(ℳ + diag(inertia))⁻¹ (efforts − …) (nv,), O(N) with `inertia` as without."""
        if self._system is None:
            return self._evaluated(self._dynamics, place, forces, inertia)[0]
        return self._closed_accelerations(place, forces, inertia, stage)[0]

    def _closed_accelerations(
        self, place: GraphState, forces: Forces, inertia: Node | None, stage: int
    ) -> tuple[Node, Node]:
        """Accelerations that keep the constraints, and the multipliers."""
        efforts = forces.efforts
        if forces.loads is not None:  # they act as efforts H φ f_ext
            efforts = ops.apply("add", efforts, self.carried(place.q, forces.loads))
        more = {} if inertia is None else {"Jr": inertia}
        callee = self._closed_dynamics(stage, tuple(more))
        known = self._given_nodes(callee, inertia)
        vdot, multipliers = call(callee, place.q, place.v, efforts, *known)
        return vdot, multipliers

    def carried(self, q: Node, loads: Node) -> Node:
        """The efforts H φ f_ext (nv,) of forces on bodies."""
        return self._called(self._own_call((H @ phi,)), {"q": q, "x": loads})[0]

    def _closed_dynamics(self, stage: int, more: tuple[str, ...] = ()) -> Any:
        """Accelerations that keep the constraints, with more quantities that are given."""
        from phipsi.simulation.kinematic_loops.closure_calls import AccelerationCall

        assert self._system is not None
        return AccelerationCall(self._system, stage, tuple(dict.fromkeys((*self._given, *more))))

    def _given_nodes(self, callee: Any, inertia: Node | None = None) -> list[Node]:
        """The quantities that are given, for a call about the constraints."""
        known: dict[str, Node] = {}
        if INERTIA in self._named:
            n = self.model.n_bodies
            known["M"] = inertias(ops.input(INERTIA, (n, 10)), n)
        if inertia is not None:
            known["Jr"] = self._rotors(inertia, callee.given_shape("Jr"))
        return [known.get(x) or ops.input(x, callee.given_shape(x)) for x in callee.given]

    def linearly_implicit_acceleration(self, place: GraphState, forces: Forces) -> Node:
        """(v⁺ − v)/h (nv,) of a step from here, with elastic forces at its end.

        Of a tree by one program; otherwise as accelerations with h C_e + h² K_e beside the inertia
        of rotors.
        """
        if not self.model.is_flexible:
            return self.accelerations(place, forces)
        if self.has_loops or self._is_hybrid:
            program = ProgramCall((K_e @ v,), self.model)
            less = ops.apply("mul", STEP, self._called(program, {"v": place.v})[0])
            if self._is_hybrid:
                less = ops.apply("mul", less, ops.input("free", less.shape))
            forces = forces._replace(efforts=ops.apply("sub", forces.efforts, less))
            return self.accelerations(place, forces, self._modal_inertia())
        form = loaded(linearly_implicit, external=forces.loads is not None)
        names = tuple(dict.fromkeys((*self._given, STEP_LENGTH.name)))
        program = ProgramCall((form,), self.model, inputs=names)
        inputs = {"q": place.q, "v": place.v, "tau": forces.efforts, STEP_LENGTH.name: STEP}
        if forces.loads is not None:
            inputs["f_ext"] = forces.loads
        return self._called(program, inputs)[0]

    def _modal_inertia(self) -> Node:
        """h C_e + h² K_e as blocks of Jr (n, r, r)."""
        width = max(at.stop - at.start for at in self.model.v_slices)
        K, C = modal_blocks(self.model, width)
        inner = ops.apply("mul", STEP, ops.constant(K))
        return ops.apply("mul", STEP, ops.apply("add", ops.constant(C), inner))

    def evaluated(
        self, forms: Sequence[Expr], place: GraphState, forces: Forces, inertia: Node | None = None
    ) -> tuple[Node, ...]:
        """Expressions of the algebra, with `inertia` (nv,) added to that of the rotors."""
        program = ProgramCall(forms, self.model, inputs=self._given)
        return self._evaluated(program, place, forces, inertia)

    def _evaluated(
        self, program: ProgramCall, place: GraphState, forces: Forces, inertia: Node | None
    ) -> tuple[Node, ...]:
        inputs = {"q": place.q, "v": place.v, "tau": forces.efforts, "vdot": forces.efforts}
        if forces.loads is not None:
            inputs["f_ext"] = forces.loads
        return self._with_inertia(program, inputs, inertia)

    def dynamics_at(
        self,
        points: Sequence[str],
        rates: Sequence[int],
        place: GraphState,
        forces: Forces,
        inertia: Node | None,
        *,
        shared: bool = False,
    ) -> HostDynamics:
        """Accelerations, the admittance at hosts, multipliers of constraints, motions of frames.

        Λ of the frames at `points`, with the rows and columns of ℳ⁻¹ of `rates` after them, in
        blocks of six which zeros fill: of a tree one program, which shares sweeps. With constraints
        Y = ℳ⁻¹ − ℳ⁻¹ G* (G ℳ⁻¹ G*)⁻¹ G ℳ⁻¹ takes the place of ℳ⁻¹: motions that impulses cause
        keep the loops closed. With `shared`, poses, G and D⁻¹ too, of which no derivatives are
        known.
        """
        multipliers = moving = poses = None
        gains: dict[str, Node] = {}
        if self._system is None:
            forms = list(self._dynamics.forms)
            forms += [Lambda] if points else []
            forms += [mass_matrix.inv @ J.T] if points and rates else []
            forms += [mass_matrix.inv] if rates else []
            modes = ("apply", *["dense"] * (len(forms) - 1))
            if points:  # the dynamics have the velocities of bodies already
                forms, modes = [*forms, J @ v], (*modes, "apply")
            more = {"pose": pose} if shared and points else {}
            if shared and not self.model.has_more_rows:
                more |= {G.name: G, INNOVATIONS.name: D.inv}
            options: Any = {"inputs": self._given, "mode": (*modes, *["blocks"] * len(more))}
            options |= {"inspects": self._given, **({"points": points} if points else {})}
            program = ProgramCall([*forms, *more.values()], self.model, **options)
            vdot, *found = self._evaluated(program, place, forces, inertia)
            gains = dict(zip(more, found[len(found) - len(more) :], strict=True))
            found = found[: len(found) - len(more)]
            moving, poses = found.pop() if points else None, gains.pop("pose", None)
        else:
            vdot, multipliers = self._closed_accelerations(place, forces, inertia, 0)
            allowed = (DOUBTFUL, CONTRADICTION)
            options = {"inputs": self._given, "mode": ("dense",), "allowed": allowed}
            program = ProgramCall((CLOSED_INVERSE,), self._system, **options)
            (closed,) = self._with_inertia(program, {"q": place.q}, inertia)
            found = [closed]
            if points:
                program = ProgramCall((J,), self.model, points=points, mode=("dense",))
                (motions,) = call(program, place.q)
                reach = ops.matmul(closed, ops.transpose(motions))
                found = [ops.matmul(motions, reach), reach, closed]
        admittance = found[0]
        if rates:
            admittance = self._at_hosts(found, 6 * len(points), np.array(rates))
        return HostDynamics(vdot, admittance, multipliers, moving, poses, gains)

    def _at_hosts(self, found: Sequence[Node], m: int, rates: Any) -> Node:
        """Λ (m, m), ℳ⁻¹ J* and ℳ⁻¹, or that alone, as one matrix; see `dynamics_at`."""
        nv = self.model.nv
        size, own = m + 6 * -(-len(rates) // 6), m + np.arange(len(rates))
        values = [ops.gather(found[-1], rates[:, None] * nv + rates)]
        places = [own[:, None] * size + own]
        if m:
            every = np.arange(m)
            side = ops.gather(found[1], rates[:, None] * m + every)
            values += [found[0], side, ops.transpose(side)]
            places += [
                every[:, None] * size + every,
                own[:, None] * size + every,
                every[:, None] * size + own,
            ]
        where = np.concatenate([x.ravel() for x in places])
        return ops.scatter_add(ops.concat(values, (len(where),)), where, (size, size))

    def pushed_at(
        self,
        points: Sequence[str],
        q: Node,
        wrenches: Node | None,
        efforts: Node | None,
        inertia: Node | None,
        gains: Mapping[str, Node],
    ) -> tuple[Node, Node | None]:
        """Rates (nv,) that impulses cause, and the multipliers of constraints that go with them.

        (ℳ + diag(inertia))⁻¹ (J* wrenches + efforts), wrenches (m, 6) at points, of a tree. With
        the `gains` of `dynamics_at`, that takes no articulated inertias.
        """
        if wrenches is not None and (efforts is not None or self._system is not None):
            program = ProgramCall((J.T,), self.model, points=points)
            (carried,) = program.of({"x": wrenches, "q": q})
            efforts = carried if efforts is None else ops.apply("add", carried, efforts)
            wrenches = None
        if self._system is not None:
            from phipsi.simulation.kinematic_loops.closure_calls import SolutionCall

            assert efforts is not None
            more = () if inertia is None else ("Jr",)
            callee = SolutionCall(self._system, tuple(dict.fromkeys((*self._given, *more))))
            none = ops.constant(np.zeros(self._system.n_rows))
            change, f = call(callee, q, efforts, none, *self._given_nodes(callee, inertia))
            return change, f
        form, x = KNOWN_INVERSE if gains else mass_matrix.inv, efforts
        options: Any = {"inputs": tuple(gains) or self._given, "inspects": self._given}
        if wrenches is not None:
            form, x, options = form @ J.T, wrenches, {**options, "points": points}
        assert x is not None
        program = ProgramCall((form,), self.model, **options)
        if gains:
            return self._called(program, {"q": q, "x": x, **gains})[0], None
        return self._with_inertia(program, {"q": q, "x": x}, inertia)[0], None

    def _with_inertia(
        self, program: ProgramCall, inputs: dict[str, Node], inertia: Node | None
    ) -> tuple[Node, ...]:
        if inertia is not None:
            if "Jr" not in self._given:
                options = {**program.options, "inputs": (*self._given, "Jr")}
                known, inspects = (program.forms, program.model), program.inspects
                program = ProgramCall(*known, inspects=inspects, **options)
            inputs["Jr"] = self._rotors(inertia, program.native.program.input_shapes["Jr"])
        return self._called(program, inputs)

    def _rotors(self, inertia: Node, shape: tuple[int, ...]) -> Node:
        """The blocks of Jr, (n, r, r), with more on their diagonals, or with more blocks."""
        shape = tuple(shape)
        if len(inertia.shape) == 3:
            own = ops.constant(compile(Jr, self.model, mode="blocks")().reshape(shape))
            return ops.apply("add", ops.input("Jr", shape) if "Jr" in self._given else own, inertia)
        places = [
            k * shape[1] ** 2 + i * (shape[1] + 1)
            for k, at in enumerate(self.model.v_slices)
            for i in range(at.stop - at.start)
        ]
        if "Jr" in self._given:
            more = ops.scatter_add(inertia, np.array(places), shape)
            return ops.apply("add", ops.input("Jr", shape), more)
        own = compile(Jr, self.model, mode="blocks")().ravel()
        known = np.flatnonzero(own)
        whole = ops.concat([ops.constant(own[known]), inertia], (len(known) + inertia.size,))
        return ops.scatter_add(whole, np.concatenate([known, places]), shape)

    def resistance(self, place: GraphState, length: Node | None = None) -> Node | None:
        """How efforts resist a change of rates: max(0, −∂τᵢ/∂vᵢ) (nv,), N·m·s or N·s/m.

        With `length`, in s, also a change of configuration by `length` times as much, where joints
        have q̇ = v: max(0, −∂τᵢ/∂vᵢ − length ∂τᵢ/∂qᵢ). What laws read of the algebra is taken as it
        is, and forces on bodies do not count; nor do terms of efforts that mix so many joints that
        their derivatives would cost more than the dynamics. None if nothing resists.
        """
        slopes = [] if (by_v := self._slope("v")) is None else [by_v]
        if length is not None and (by_q := self._slope("q")) is not None:
            slopes.append(ops.apply("mul", length, by_q))
        if not slopes:
            return None
        return self._positive(place, slopes[0] if len(slopes) == 1 else ops.apply("add", *slopes))

    def stiffness(self, place: GraphState) -> Node | None:
        """How efforts resist a change of configuration: max(0, −∂τᵢ/∂qᵢ) (nv,), N·m or N/m.

        Of joints with q̇ = v, with the same exceptions as `resistance`; None if nothing does.
        """
        slope = self._slope("q")
        return None if slope is None else self._positive(place, slope)

    def _slope(self, by: str) -> Node | None:
        """The diagonal (nv,) of the derivatives of efforts by q or v."""
        if self.circuit.efforts is None:
            return None
        places = self._places_of_rates() if by == "q" else None
        return diagonal(self.circuit.efforts, getattr(self.start, by), places, _MOST_TANGENTS)

    def _positive(self, place: GraphState, slope: Node) -> Node:
        """max(0, −slope) at a place."""
        return self.values(
            place, [ops.apply("maximum", ops.apply("neg", slope), ops.constant(0.0))]
        )[0]

    def _places_of_rates(self) -> list[int]:
        """Which entry of q every rate is the derivative of; −1 for rates of rotations."""
        model = self.model
        out = [-1] * model.nv
        for joint, at_q, at_v in zip(model.joints, model.q_slices, model.v_slices, strict=True):
            for group, i, j in joint.parts(at_q.start, at_v.start):
                if group.is_flat:
                    out[j : j + group.nv] = range(i, i + group.nq)
        return out

    def sampled(self, place: GraphState, updates: Mapping[str, Node]) -> dict[str, Node]:
        """New values of states at a place, by name."""
        return dict(zip(updates, self.values(place, list(updates.values())), strict=True))

    def moved_to(self, place: GraphState, nodes: Sequence[Node]) -> list[Node]:
        """Nodes that are about the start, about another place."""
        return substituted(nodes, self._known(place))

    def after_samples(self) -> GraphState:
        """The state from which the step begins, with samples taken, all from the old values."""
        start, states = self.start, dict(self.start.states)
        for one in self.circuit.samplings:
            due = is_due(ops.input("step", ()), one.period)
            for name, x in self.sampled(start, one.updates).items():
                states[name] = ops.apply("where", due, x, start.states[name])
        return start._replace(states=states)

    def delayed(self, place: GraphState) -> dict[str, Node]:
        """What states of `BlockDiagram.delays` are after a step from a place, by name."""
        out: dict[str, Node] = {}
        for one in self.circuit.delays:
            new = self.sampled(place, one.updates)
            if one.period > 1:
                later = ops.apply("add", ops.input("step", ()), ops.constant(1.0))
                due = is_due(later, one.period)
                new = {n: ops.apply("where", due, x, place.states[n]) for n, x in new.items()}
            out |= new
        return out

    def closed(
        self, place: GraphState, *, stiff: bool = False, rotors_given: bool = False
    ) -> GraphState:
        """The place on the constraints nearest to this one; of a tree, the same.

        Nearest in the mass metric; of a `stiff` step in that of ℳ + h C_e + h² K_e. With
        `rotors_given` the blocks of Jr are an input of the graph: a joint with a large one stays.
        """
        if self._system is None:
            return place
        from phipsi.simulation.kinematic_loops.closure_calls import ProjectionCall

        inertia = self._modal_inertia() if stiff and self.model.is_flexible else None
        more = () if inertia is None and not rotors_given else ("Jr",)
        names = tuple(dict.fromkeys((*self._given, *more)))
        callee = ProjectionCall(self._system, names)
        q, v = call(callee, place.q, place.v, *self._given_nodes(callee, inertia))
        return place._replace(q=q, v=v)


def is_due(step: Node, period: int) -> Node:
    """Whether the number of a step is a multiple of a period."""
    turns = ops.apply("div", step, ops.constant(float(period)))
    return ops.apply("equal", turns, ops.apply("floor", turns))
