"""One step of time stepping as a function of arrays, and the mean contact forces of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import chart_of
from phipsi.contact import (
    IMPULSES,
    MATERIALS,
    TOTALS,
    WORST,
    Certificate,
    ContactProblem,
    MaxResiduals,
    residual,
    slot_materials,
)
from phipsi.core.arrays import GraphEvaluator
from phipsi.core.backends import joint_array, real_array
from phipsi.core.model import Model, supports
from phipsi.errors import InputError
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.impacts.contact_steps import ContactSteps, energy_change
from phipsi.simulation.integrators.step_graph import StepGraph
from phipsi.simulation.integrators.step_rows import TOLERANCE
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.runs.checks import (
    check_contacts,
    check_quaternions,
    checked_number,
    checked_time,
    common_batch,
)

Array = NDArray[Any]


@final
@dataclass(frozen=True)
class ContactStep:
    """State after a step with contacts, and the impulses, from `contact_step`.

    Attributes
    ----------
    q, v : ndarray, shape (..., nq) and (..., nv)
        State after the step.
    impulses : ndarray, shape (..., k, 6)
        Impulses of all slots, [moment; force] on side a in world axes, N·m·s and N·s: forces are
        impulses / dt.
    certificate : Certificate
        Residuals of this step.
    """

    q: Array
    v: Array
    impulses: Array
    certificate: Certificate


@supports(loops=True, contacts=True, flexible=True, rotors=True)
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
    """Advance a system with contacts by one time step (impulse-based time stepping).

    ℳ (v⁺ − v − dt vdot) = J* C* p with Signorini's and Coulomb's laws at the end of the step,
    solved for all contacts together; then bodies that penetrate each other are moved apart without
    velocity.

    Parameters
    ----------
    model : Model
        A system with `contacts=`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities.
    tau : array_like, shape (..., nv), optional
        Joint torques and forces, N·m or N. Default: zero.
    dt : float, optional
        Time step, s.
    impulses : array_like, shape (..., k, 6), optional
        Impulses of the last step, from which the solver starts (warm start): with them, bodies at
        rest stay at rest also where another solution exists.
    tolerance : float, optional
        Tolerance of the residual, m/s, or rounding where that is more.
    smoothing : float, optional
        If positive, J, impulses are those of a point inside the cones, y ∘ z = smoothing: smooth
        functions of the state, which act at a distance within the margin of the contacts, with an
        error in proportion to it.

    Returns
    -------
    ContactStep
        The state after dt, and the impulses of all contacts.

    See Also
    --------
    contact_forces : Mean forces over the next step.
    Simulator : Many steps, with ``integrator="time_stepping"``.

    Notes
    -----
    **Cost:** O(N) for the mechanism, and O(c³) for c points in contact.
    **Source:** theory/contact 3 and 7 (K37).

    Examples
    --------
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
    least = checked_number(tolerance, "tolerance", "a finite number", zero=False)
    smooth = checked_number(smoothing, "smoothing", "a finite number", zero=True)
    return _step(model, q, v, tau, checked_time(dt, "dt"), impulses, least, smooth)


@supports(loops=True, contacts=True, flexible=True, rotors=True)
def contact_forces(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike | None = None,
    *,
    dt: float = 1e-3,
    impulses: ArrayLike | None = None,
) -> Array:
    """Contact forces between bodies: their mean over the next step of `dt`.

    f = p/dt with the impulses p of `contact_step`. Where contacts stay closed, slide or open, they
    tend to the forces of that instant as dt → 0; of a contact that closes with a speed there is no
    such force, and the mean grows as 1/dt.

    Parameters
    ----------
    model : Model
        A system with `contacts=`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities.
    tau : array_like, shape (..., nv), optional
        Joint torques and forces, N·m or N. Default: zero.
    dt : float, optional
        Time step, s.
    impulses : array_like, shape (..., k, 6), optional
        Impulses of the last step, as for `contact_step`.

    Returns
    -------
    ndarray, shape (..., k, 6)
        [moment; force] on side a of each slot (contact candidate) in world axes, N·m and N, at the
        points of `contact_points`; side b has the opposite. `contacts.slot_names` are the names.

    Notes
    -----
    **Cost:** that of `contact_step`. **Source:** theory/contact 3.

    Examples
    --------
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


@final
class _StepFunction:
    """The graph of a step, kept with the model."""

    def __init__(self, model: Model, tolerance: float, smoothing: float) -> None:
        graph = StepGraph(model, block_diagram(model, (), 1e-3))
        options = {"tolerance": tolerance, "smoothing": smoothing, "smoothed": smoothing > 0}
        steps = ContactSteps(graph, **options)
        end = steps.step(graph.start)
        self.model, self.layout = model.model, steps.plan.layout
        self.smoothed, self.states = smoothing > 0, graph.row_states
        nodes = [end.q, end.v, *(end.states[n] for n in (IMPULSES, WORST, TOTALS))]
        self._evaluated = GraphEvaluator([*nodes, *(steps.problem if self.smoothed else ())])

    def __call__(self, known: dict[str, Array]) -> ContactStep:
        q, v, world, worst, totals, *problem = self._evaluated(known)
        if self.smoothed:  # its residual is not that of the exact impulses
            *data, p = problem
            worst[..., MaxResiduals._fields.index("residual")] = residual(
                ContactProblem(self.layout, *data), p
            )
        change = energy_change(self.model, (known["q"], known["v"]), (q, v))
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
    given = {"q": (places, 1), "v": (rates, 1), "tau": (efforts, 1), "impulses": (last, 2)}
    batch = common_batch(given)
    key = (contact_step, contacts, tolerance, smoothing)
    step = model.cached(key, lambda: _StepFunction(model, tolerance, smoothing))
    zeros = {name: x for name, x in step.states.items() if name != IMPULSES}
    known = {"q": places, "v": rates, "tau": efforts, IMPULSES: last, **zeros}
    known |= {"t": np.zeros(()), "h": np.full((), h), MATERIALS: slot_materials(contacts)}
    shaped = {n: np.broadcast_to(x, (*batch, *_inner(n, x))) for n, x in known.items()}
    return step(shaped)


def _inner(name: str, x: Array) -> tuple[int, ...]:
    """The shape of one configuration's numbers."""
    return x.shape[-2:] if name in (IMPULSES, MATERIALS) else x.shape[-1:]
