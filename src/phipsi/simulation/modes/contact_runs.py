"""Runs of `simulate` with contacts: what goes with them, and fixed steps of a `Simulator`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import System, chart_of
from phipsi.contact import (
    IMPULSES,
    OPEN,
    SLIPS,
    STICKS,
    ContactProblem,
    ContactProblemLayout,
    ContactRecord,
    Contacts,
    Groups,
    RowPlan,
    check_joint_rows,
    check_overlap,
    contact_points,
    row_coefficients,
    row_impulses,
    slot_materials,
    solve,
)
from phipsi.core.model import Model, as_floats, prescribed_message
from phipsi.errors import InputError, warn
from phipsi.laws import JointRows, Law
from phipsi.simulation.compiled.simulator import Simulator
from phipsi.simulation.compiled.simulator_results import recorded_run
from phipsi.simulation.diagram.connect_laws import block_diagram, check_controller_acts
from phipsi.simulation.forces.force import BoundForces, Force
from phipsi.simulation.impacts.contact_motion import Rows
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.modes.contact_modes import ContactModes
from phipsi.simulation.modes.indeterminate_forces import TOLERANCE
from phipsi.simulation.runs.checks import (
    check_count,
    check_pairs,
    checked_output_times,
    checked_state,
    checked_time,
)
from phipsi.simulation.simulate.prescribed import WITH_CONTACTS
from phipsi.simulation.simulate.quadratures import CONTACTS
from phipsi.simulation.simulate.run_constraints import RunConstraints
from phipsi.simulation.simulate.run_options import run_options
from phipsi.simulation.simulate.traced_parts import can_be_traced
from phipsi.simulation.trajectory.trajectory import Trajectory
from phipsi.support import make_progress

Array = NDArray[Any]

_FULL = 1e-6
"""How close to the bound of its cone, relative to it, a slot slips."""
_AT_ONCE = 100_000
"""Rows of slots whose modes are found at once."""


_SEPARATE = """sim = pp.Simulator(system, laws, dt, integrator="time_stepping")
    state = sim.initial_state(q0, v0, resolve_penetration=True)
    sim.step(state)
    q0 = state.q"""

_NEAR = 0.02
"""Gaps (m, or rad) of what may come to overlap where bodies are moved apart."""


def modes_of(
    mechanism: Model, joints: Rows | None, tolerance: float, loops: RunConstraints | None
) -> ContactModes:
    """What locates and solves the events of a mechanism."""
    check_pairs(mechanism)
    pairs = mechanism.contact_pairs
    pairs = None if pairs is None else pairs.with_all_corners()
    return ContactModes(pairs, tolerance, loops, model=mechanism.model, joints=joints)


def separated(contacts: ContactModes, q: Array) -> Array:
    """The nearest configuration without overlap: a move without velocity."""
    zero = np.zeros(contacts.motion.model.nv)
    state = contacts.state(q, zero, zero)
    fix = "q0 = pp.contact_step(system, q0, v0, dt=1e-9).q"
    slots, joints = contacts.at.slots, contacts.motion.plan.joints
    firm = np.where(contacts.at.soft, 1.0, state.gap)
    if contacts.contacts is not None:
        check_overlap(contacts.contacts, firm[:slots], fix)
    cut = slots + len(joints.stops)
    inside = "q0 = …    # within the limits of joints and the lengths of ropes"
    check_joint_rows(contacts.motion.model, joints, firm[slots:cut], firm[cut:], inside)
    margin = _NEAR if contacts.contacts is None else contacts.contacts.margin
    for _ in range(4):
        near = (state.gap < margin) & ~contacts.at.soft
        if not (state.gap[near] < -1e-14).any():
            break
        rows = contacts.normals[near]
        layout = ContactProblemLayout(("normal",) * len(rows))
        C = contacts.motion.spread(state, rows)
        W, ones = contacts.motion.delassus(state, C), np.ones(len(rows))
        problem = ContactProblem(layout, W, state.gap[near], np.zeros(len(rows)), ones)
        z = solve(problem, tolerance=TOLERANCE).p
        q = contacts.motion.model.integrate(q, contacts.motion.pushed(q, state, C, z))
        state = contacts.state(q, zero, zero)
    return q


def check_contact_run(
    system: Model, integrator: str, given: Mapping[str, Any], stabilization: str | None
) -> None:
    """Reject what cannot be combined with contacts, rigid limits, ropes and dry friction."""
    if integrator not in ("dopri", "radau", "time_stepping"):
        raise InputError(
            f"integrator={integrator!r} does not locate the events of contacts. Use one that does, "
            "or fixed steps with impulses:\n"
            "    integrator='dopri'    # or 'radau'\n"
            "    integrator='time_stepping', dt=1e-3"
        )
    if given["prescribed"]:
        raise InputError(prescribed_message("simulate", WITH_CONTACTS))
    if given["topology"]:
        raise InputError(
            "topology= is not yet supported with contacts, rigid joint limits, ropes and dry "
            "friction. Remove topology=, or contacts= of the system"
        )
    if isinstance(system, System) and system.n_rows and integrator != "time_stepping":
        if system.rates.any():
            raise InputError(
                "constraint rows with prescribed velocities cannot be combined with events of "
                "contacts: their work could not be separated from that of contacts. Use fixed "
                "steps:\n"
                "    integrator='time_stepping', dt=1e-3"
            )
        if stabilization not in (None, "project"):
            raise InputError(
                f"stabilization={stabilization!r} cannot be combined with contacts, whose gaps "
                "are projected together with the constraints. Remove it"
            )
    if CONTACTS in (given["quadratures"] or {}):
        raise InputError(f"the quadrature {CONTACTS!r} is the work of contact forces. Rename yours")


def simulate_steps(
    system: Model,
    q0: ArrayLike,
    v0: ArrayLike,
    duration: float,
    own: Mapping[str, Any],
    controller: Any,
    forces: Sequence[Force],
    output_times: Any,
    progress: Any,
    unfit: Mapping[str, Any],
) -> Trajectory:
    """A run by time stepping: equal steps of at most dt, the last of which ends at `duration`.

    A controller that can be traced is part of the machine code; another one is called before every
    step, and its efforts are held over it. `own`, numbers of the run by name, None for what is not
    given.
    """
    if system.contact_pairs is not None:
        check_contact_run(system, "time_stepping", unfit, own["stabilization"])
    for name, x in unfit.items():
        if x:
            raise InputError(
                f"{name}= cannot be combined with integrator='time_stepping', whose steps are "
                "compiled. Remove it, or use an integrator that locates events:  "
                "integrator='dopri'"
            )
    end = checked_time(duration, "duration")
    times = checked_output_times(output_times, end)
    longest = run_options(METHODS["time_stepping"], own, rows=True).dt
    q, v = checked_state(system.model, chart_of(system.model), q0, v0)
    check_count(end, longest)
    steps = max(1, math.ceil(end / longest * (1 - 1e-12)))
    is_law = isinstance(controller, Law)
    traced = (
        [controller] if is_law or (controller is not None and can_be_traced(controller)) else []
    )
    h = end / steps
    if is_law:
        check_controller_acts(controller, block_diagram(system, [controller], h, quiet=True))
    sim = Simulator(system, [*forces, *traced], h, integrator="time_stepping")
    pairs = system.contact_pairs
    names = ("q", "v", *(() if pairs is None else (IMPULSES,)), *(("tau",) if is_law else ()))
    start = sim.initial_state(q, v, resolve_penetration=True)
    sim.check_gaps(start, _SEPARATE)
    if controller is None or traced:
        run = sim.rollout(start, steps=steps, record=names, progress=progress)
        found, proof = {n: run[n] for n in ("t", *names)}, run.certificate
    else:
        found, proof = _driven(sim, controller, start, steps, names, make_progress(progress, end))
    complete = len(found["t"]) == steps + 1
    elements = BoundForces(forces, system.model, rows=True)
    t, q_, v_ = found["t"], found["q"], found["v"]
    tau = found["tau"] if is_law else np.zeros((len(t), system.nv))
    if controller is not None and not is_law:
        states = zip(t.tolist(), q_, v_, strict=True)
        tau = np.array([as_floats("tau of the controller", controller(*x)) for x in states], float)
    loops: Any = system if isinstance(system, System) else None
    out = Trajectory(
        system.model, t, q_, v_, tau, integrator="time_stepping", stored=elements.stored,
        system=loops, elements=elements.bound, complete=complete,
    )  # fmt: skip
    if pairs is not None:
        modes = _modes(pairs, q_, found[IMPULSES])
        out = out.with_contacts(ContactRecord(pairs, t, q_, found[IMPULSES], h, proof, modes))
    if times is None:
        return out
    if not complete:  # those that were reached, and the last state
        times = np.append(times[times < t[-1]], t[-1])
    return out.resample(np.minimum(times, t[-1]))  # h n may round


def _driven(
    sim: Simulator, controller: Any, state: Any, steps: int, names: Sequence[str], bar: Any
) -> tuple[dict[str, Array], Any]:
    """The records of a run whose controller is called before every step; the certificate.

    Ctrl-C ends it, with a warning: there are then fewer records.
    """
    wanted = ("t", *names)
    run = sim.rollout(state, None, 0, record=names, progress=False)
    parts = [{n: run[n] for n in wanted}]
    try:
        for _ in range(steps):
            given = controller(float(state.t), state.q.copy(), state.v.copy())
            tau = as_floats("tau of the controller", given)
            run = recorded_run(sim, state, tau, record=names, progress=False)
            if run.state.status.any():
                raise run.state.failure(run)
            if not run.complete:
                raise KeyboardInterrupt
            parts.append({n: run[n][1:] for n in wanted})
            state = run.state
            bar.advance(float(state.t))
    except KeyboardInterrupt:
        warn(
            f"interrupted after {len(parts) - 1} of {steps} steps; the trajectory ends there "
            "(complete=False)."
        )
    finally:
        bar.close()
    return {n: np.concatenate([x[n] for x in parts]) for n in wanted}, state.certificate


def _modes(contacts: Contacts, q: Array, impulses: Array) -> Array:
    """Modes (k, slots) at the ends of steps, from their impulses: on a cone's bound a slot slips.

    Impulses are about the places at the starts of steps.
    """
    plan = RowPlan(contacts.model, contacts, JointRows())
    layout = plan.layout
    c = row_coefficients(layout, plan.table, slot_materials(contacts))
    groups, live = Groups(layout), c > 0
    slips_alone = np.ones(layout.n_heads, bool)  # without friction a slot slips
    slips_alone[groups.heads] = False
    out = np.full(impulses.shape[:2], OPEN)
    pushed = np.flatnonzero(impulses.any(axis=(1, 2)))  # at other times all are open
    several = max(1, _AT_ONCE // max(1, len(c)))
    for first in range(0, len(pushed), several):
        now = pushed[first : first + several]
        normal = contact_points.contact_points(contacts, q[np.maximum(now - 1, 0)]).normal
        p = row_impulses(plan, normal, impulses[now])
        push = p[:, layout.normals]
        ratio = np.divide(p, c, out=np.zeros_like(p), where=live)
        size = np.sqrt(np.sum(groups.of(ratio) ** 2, axis=-1))
        full = np.tile(slips_alone, (len(now), 1))
        on_bound = size >= (1 - _FULL) * push[:, groups.heads]
        np.logical_or.at(full.T, groups.heads, on_bound.T)
        out[now] = np.where(push > 0, np.where(full, SLIPS, STICKS), OPEN)
    return out
