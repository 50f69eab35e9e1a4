"""A step with contacts as a graph: free motion, impulses between bodies that touch, no overlap.

    v_f = v + h vdot                       without contacts, in the axes at the start of the step
    u = W p + C J v_f,  p ∈ K, …           the impulses p of all contacts together (contact/)
    v⁺ = v_f + ℳ⁻¹ J* C* p                 Signorini's and Coulomb's laws hold at the end of the step
    q⁺ = q ∘ (h v⁺) ∘ exp(ℳ⁻¹ J* C_n* z)   z ≥ 0 moves overlapping bodies apart, without velocity

W = C Λ C*: Λ = J ℳ⁻¹ J* at the frames of the bodies with shapes is a program of the algebra, and C
picks the motions of witness points along contact axes. Damping of laws at joints is implicit: with
ℳ + h D in place of ℳ.

**Source:** theory/contact 1, 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.arguments import joint_array, real_array
from phipsi.circuits.wire_laws import circuit
from phipsi.contact.contact_rows import slot_materials
from phipsi.contact.geometry.slots import slot_geometry
from phipsi.contact.impulses import (
    IMPULSES,
    MATERIALS,
    TOTALS,
    WORST,
    ImpulseCall,
    SeparationCall,
    contact_states,
)
from phipsi.errors import InputError
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import call
from phipsi.laws.graph import Node
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import Traced, as_node
from phipsi.model.contact_pairs import Contacts
from phipsi.model.mechanisms import mechanism_of, of_contacts, of_mechanisms
from phipsi.model.model import Model
from phipsi.motion.chart import chart_of
from phipsi.motion.checks import check_contacts, check_quaternions, checked_time
from phipsi.motion.step_calls import ProgramCall, euler_step, moved, pushed_rates
from phipsi.motion.step_graph import STEP, Place, StepGraph
from phipsi.motion.tableaux import METHODS
from phipsi.operators import J, Lambda, mass_matrix, pose, v

Array = NDArray[Any]

class _Touching(NamedTuple):
    """Slots at a configuration, as nodes."""

    origins: Node
    gap: Node
    normal: Node
    x_a: Node
    x_b: Node


@final
class ContactSteps:
    """Steps of a mechanism whose bodies may touch."""

    def __init__(self, graph: StepGraph, contacts: Contacts) -> None:
        self._graph, self._contacts = graph, contacts
        self._points = [graph.model.body_names[k] for k in contacts.bodies]
        self._impulses, self._separation = ImpulseCall(contacts), SeparationCall(contacts)

    def step(self, start: Place) -> Place:
        """The place after a step."""
        graph, model = self._graph, self._graph.model
        forces = graph.forces(start)
        inertia = graph.resistance(start)
        if inertia is not None:
            inertia = ops.apply("mul", STEP, inertia)
        vdot = graph.accelerations(start, forces, inertia)
        free = pushed_rates(model, start.v, vdot, STEP)
        touching = self.touching(start.q)
        (admittance,) = graph.at_points((Lambda,), self._points, start.q, inertia)
        before, after = (self._motions(start.q, x) for x in (start.v, free))
        materials = ops.given(MATERIALS, (self._contacts.n_slots, 6))
        wrenches, impulses, worst, totals = call(
            self._impulses, admittance, before, after, *touching, materials, STEP,
            start.states[IMPULSES],
        )  # fmt: skip
        change = self._pushed(start.q, wrenches, inertia)
        total = ops.apply("add", vdot, ops.apply("div", change, STEP))
        q, rates = euler_step(model, start.q, start.v, total, STEP)
        reached = self._motions(start.q, pushed_rates(model, start.v, total, STEP))
        (apart,) = call(self._separation, admittance, reached, *touching, STEP)
        q = moved(model, q, self._pushed(start.q, apart, inertia))
        later = {
            name: ops.apply("add", start.states[name], ops.apply("mul", rate, STEP))
            for name, rate in forces.rates.items()
        }
        later[IMPULSES] = impulses
        later[WORST] = ops.apply("maximum", start.states[WORST], worst)
        later[TOTALS] = ops.apply("add", start.states[TOTALS], totals)
        t = ops.apply("add", start.t, STEP)
        return Place(t, q, rates, {**start.states, **later})

    def touching(self, q: Node) -> _Touching:
        """Gaps, normals and witness points of all slots."""
        model, bodies = self._graph.model, list(self._contacts.bodies)
        poses = call(ProgramCall((pose,), model, mode=("blocks",)), q)[0]
        chosen = np.arange(16 * model.n_bodies).reshape(-1, 4, 4)[bodies]
        X: Any = Traced(ops.pick(poses, chosen))
        found = slot_geometry(self._contacts, X)
        origins = ops.pick(poses, chosen[:, :3, 3])
        return _Touching(origins, *(as_node(x) for x in found))

    def _motions(self, q: Node, rates: Node) -> Node:
        """Motions of the frames of touching bodies, (m, 6), world axes at their origins."""
        program = ProgramCall((J @ v,), self._graph.model, points=self._points)
        known = {"q": q, "v": rates}
        return call(program, *(known[x] for x in program.inputs))[0]

    def _pushed(self, q: Node, wrenches: Node, inertia: Node | None) -> Node:
        """(ℳ + inertia)⁻¹ J* wrenches."""
        forms = (mass_matrix.inv @ J.T,)
        return self._graph.at_points(forms, self._points, q, inertia, x=wrenches)[0]


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


@of_contacts
@of_mechanisms
def contact_step(
    system: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None = None,
    dt: float = 1e-3,
    *,
    impulses: ArrayLike | None = None,
) -> ContactStep:
    """One step of time stepping: the state after dt, with the impulses of all contacts.

    ℳ (v⁺ − v − dt vdot) = J* C* p with Signorini's and Coulomb's laws at the end of the step, solved
    for all contacts together, to rounding; then bodies that overlap are moved apart without
    velocity.

    **Arguments:** `system`, with `contacts=`; `q` (..., nq), `v` (..., nv); `tau` (..., nv), N·m or
    N, zero if None; `dt`, s; `impulses` (..., k, 6), those of the last step, from which the search
    begins: with them, bodies at rest stay at rest also where another solution exists.
    **Cost:** O(N) for the mechanism, and O(c³) for c points that touch.
    **Source:** theory/contact 3.

    >>> import phipsi as pp
    >>> b = pp.ModelBuilder()
    >>> ball = b.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia.sphere(0.1, mass=1))
    >>> b.add_shape("skin", "ball", pp.shapes.Sphere(0.1))
    >>> b.add_shape("floor", "world", pp.shapes.Plane())
    >>> model = b.build()
    >>> system = pp.System(model, contacts=pp.Contacts(model))
    >>> step = pp.contact_step(system, [1, 0, 0, 0, 0, 0, 0.1], [0] * 6, dt=1e-3)
    >>> (step.impulses[0, 3:] / 1e-3).round(6)            # N, the weight of the ball
    array([0.  , 0.  , 9.81])
    """
    mechanism = mechanism_of(system, contact_step)
    check_contacts(METHODS["time_stepping"], mechanism)
    model, contacts = mechanism.model, mechanism.contacts
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
    graph = StepGraph(mechanism, circuit(mechanism, (), h))
    end = ContactSteps(graph, contacts).step(graph.start)
    zeros = {name: x for name, x in contact_states(contacts).items() if name != IMPULSES}
    known = {"q": places, "v": rates, "tau": efforts, IMPULSES: last, **zeros}
    known |= {"t": np.zeros(()), "h": np.full((), h), MATERIALS: slot_materials(contacts)}
    shaped = {n: np.broadcast_to(x, (*batch, *_inner(n, x))) for n, x in known.items()}
    names = (IMPULSES, WORST, TOTALS)
    found = evaluate([end.q, end.v, *(end.states[n] for n in names)], shaped)
    overlap, residual, _, iterations = np.moveaxis(found[3], -1, 0)
    lost, unsolved = np.moveaxis(found[4], -1, 0)
    return ContactStep(*found[:3], overlap, residual, lost, iterations.astype(int), unsolved == 0)


def _inner(name: str, x: Array) -> tuple[int, ...]:
    """The shape of one configuration's numbers."""
    return x.shape[-2:] if name in (IMPULSES, MATERIALS) else x.shape[-1:]
