"""Runs of a mechanism that changes: one run after the other, joined in the coordinates of all.

A phase is a stretch of the run during which the mechanism stays the same.

Reasons: docs/decisions/0022.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import (
    Stages,
    System,
    constraint_impulse,
    elastic_energy,
    kinetic_energy,
    momentum,
    potential_energy,
)
from phipsi.core.compiler import program_of
from phipsi.core.model import Model, as_floats, ends
from phipsi.core.operators import mass_matrix as MASS_MATRIX
from phipsi.errors import InputError, PhipsiError, SimulationError
from phipsi.simulation.forces.force import BoundForces, Force, State
from phipsi.simulation.runs.user_functions import name_of
from phipsi.simulation.simulate.events import Change, Event, changes_of
from phipsi.simulation.simulate.quadratures import Quadratures
from phipsi.simulation.simulate.run_loop import RunSetup, run_once, run_setup
from phipsi.simulation.simulate.run_options import OF_CONSTRAINTS
from phipsi.simulation.simulate.topology import ContactMargin, Instant, Topology
from phipsi.simulation.trajectory.event_record import EventRecord
from phipsi.simulation.trajectory.trajectory import Trajectory
from phipsi.support import make_progress

Array = NDArray[Any]

_CLOSED = 1e-6  # what a constraint that is switched on may be open by, rad or m
_BROKEN = 1e-9  # N, below which the margin of a contact counts as negative


@final
@dataclass(frozen=True, eq=False)
class ChangeRecord:
    """What a change of topology did.

    **Attributes:** `changes`; `energy`, `energy_after`, J, kinetic and potential, of what was there
    before and of what is there after; `momentum`, `momentum_after` (6,); `rows`, names of the rows
    that acted in the jump, and their `impulses`; `steps`, how often each step of the dynamics was
    executed for it.
    """

    changes: tuple[Change, ...]
    energy: float
    energy_after: float
    momentum: Array
    momentum_after: Array
    rows: tuple[str, ...]
    impulses: Array
    steps: Counter[tuple[str, str]]


@final
class TopologyPhase:
    """A stretch of a run during which the topology stays the same.

    **Attributes:** `t0`, `t1`, s; `topology`; `system` on the reduced model; `trajectory` in the
    coordinates of that model, its t from 0; `has_all_steps`, whether it was recorded at every step.
    """

    def __init__(
        self, topology: Topology, t0: float, q: Array, v: Array, stages: Stages | None = None
    ) -> None:
        self.topology, self.t0, self.t1, self._stages = topology, t0, t0, stages
        self.model = topology.reduced()
        self._q, self._v = q, np.zeros_like(v)
        whole = topology.model
        names = self.model.joint_names
        held = topology.locked  # of a joint that stays as a weld, the modes of its body go on
        at_q, at_v = ({n: at(n) for n in names} for at in (whole.q_slice, whole.v_slice))
        for n in held.keys() & at_q.keys():
            at_q[n] = slice(whole.joint_coordinates(n).stop, at_q[n].stop)
            at_v[n] = slice(whole.joint_rates(n).stop, at_v[n].stop)
        self.at_q, self.at_v = (places_of(list(x.values())) for x in (at_q, at_v))
        self.trajectory: Trajectory
        self.has_all_steps = True

    @cached_property
    def system(self) -> System:
        """The constraints on the reduced model."""
        return self.topology.system(self.model, self._stages)

    def lower(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The entries of the joints that move."""
        return q[..., self.at_q], v[..., self.at_v]

    def lift(self, q: Array, v: Array) -> tuple[Array, Array]:
        """All coordinates and rates."""
        batch = q.shape[:-1]
        all_q = np.broadcast_to(self._q, (*batch, len(self._q))).copy()
        all_v = np.broadcast_to(self._v, (*batch, len(self._v))).copy()
        all_q[..., self.at_q], all_v[..., self.at_v] = q, v
        return all_q, all_v

    def resampled(self, times: Array) -> Trajectory:
        """The phase at times of the whole run, in its own coordinates."""
        return self.trajectory.resample(np.clip(times - self.t0, 0.0, self.trajectory.t[-1]))

    def lift_rates(self, tau: Array) -> Array:
        """Efforts of all joints, zero where nothing moves."""
        out = np.zeros((*tau.shape[:-1], len(self._v)))
        out[..., self.at_v] = tau
        return out


class Carried(Force):
    """Force elements of the whole mechanism on the reduced model of a phase."""

    def __init__(self, phase: TopologyPhase, elements: BoundForces) -> None:
        self._phase, self._elements = phase, elements
        whole, model = phase.topology.model, phase.model
        self._host = np.full(whole.n_bodies, -1)
        self._turn = np.zeros((whole.n_bodies, 3, 3))
        self._arm = np.zeros((whole.n_bodies, 3))
        for i, name in enumerate(whole.body_names):
            if name in phase.topology.absent:
                continue
            body, X = model.resolve_point(name)
            self._host[i], self._turn[i], self._arm[i] = body, X.rotation, X.translation

    def _state(self, state: State) -> State:
        q, v = self._phase.lift(state.q, state.v)
        return self._elements.state(self._phase.t0 + state.t, q, v)

    def efforts(self, state: State) -> Any:
        """Efforts of the joints that move."""
        whole = self._state(state)
        return self._elements.efforts(whole, np.zeros(whole.v.shape))[..., self._phase.at_v]

    def body_forces(self, state: State) -> Any:
        """Forces on bodies, those on welded ones at what they are welded to."""
        whole, model = self._state(state), self._phase.model
        out = np.zeros((*state.v.shape[:-1], model.n_bodies, 6))
        for load in self._elements.loads(whole):
            moment = np.einsum("bij,...bj->...bi", self._turn, load[..., :3])
            force = np.einsum("bij,...bj->...bi", self._turn, load[..., 3:])
            moment = moment + np.cross(self._arm, force)
            for i, body in enumerate(self._host):
                if body >= 0:
                    out[..., body, :3] += moment[..., i, :]
                    out[..., body, 3:] += force[..., i, :]
        return out

    def potential_energy(self, state: State) -> Any:
        """Of all elements."""
        return self._elements.potential_energy(self._state(state))


def places_of(slices: Sequence[slice]) -> Array:
    """The entries of slices, one after the other."""
    parts = [np.arange(s.start, s.stop) for s in slices]
    return np.concatenate([np.zeros(0, dtype=int), *parts]).astype(int)


# ---- phase after phase ---------------------------------------------------------------------------


def simulate_changing(
    setup: RunSetup, q0: Any, v0: Any, duration: float, output_times: Any, progress: Any
) -> Trajectory:
    """A run with events that change the mechanism, phase after phase; see `phipsi.topology`."""
    runner = _Runner(setup, float(duration), output_times, progress)
    events, before = runner.events, setup.before
    q, v = (np.array(as_floats(name, x)) for name, x in (("q0", q0), ("v0", v0)))
    model = runner.topology.model
    if q.shape != (model.nq,) or v.shape != (model.nv,):
        raise InputError(
            f"q0 and v0 have shapes {q.shape} and {v.shape}; they must be ({model.nq},) and "
            f"({model.nv},), with entries for all joints, locked and absent ones too."
        )
    for change in [*before, *(c for e in events for c in changes_of(e.action))]:
        if not isinstance(change, Change):
            raise InputError(
                f"topology has {change!r}, which is not a change of phipsi.topology. For "
                "example:\n"
                "    topology=[pp.topology.Lock('joint1')]"
            )
        change.check(model)  # wrong names are reported now, not when the event happens
    for change in before:
        runner.topology, q, v = change.apply(runner.topology, q, v)
    return runner.run(q, v)


class _Runner:
    """Phase after phase."""

    def __init__(
        self,
        setup: RunSetup,
        duration: float,
        output_times: Any,
        progress: Any,
    ) -> None:
        self.setup, self.topology, self.end = setup, Topology.of(setup.model), duration
        self.events = list(setup.events)
        times = output_times
        self.times = None if times is None else np.asarray(times, dtype=np.float64)
        self.controller, model = setup.controller, self.topology.model
        self.elements = BoundForces(setup.forces, model)
        self.prescribed = setup.prescribed or {}
        Quadratures(model, setup.quadratures, False)  # reject invalid ones before the run
        self.quadratures: Mapping[str, Any] = setup.quadratures or {}
        self.progress = make_progress(progress, duration)
        self.phases: list[TopologyPhase] = []
        self.records: list[EventRecord] = []
        self.stages = Stages()

    def run(self, q: Array, v: Array) -> Trajectory:
        """All phases, with one progress for all of them."""
        try:
            return self._run(q, v)
        finally:
            self.progress.close()

    def _run(self, q: Array, v: Array) -> Trajectory:
        t = 0.0
        at_once = self._at_start(q, v)
        if at_once:
            q, v = self._change(at_once, t)
        while True:
            phase = TopologyPhase(self.topology, t, q, v, self.stages)
            phase.has_all_steps = self.times is None
            if t > 0:
                broken = self._broken(phase, q, v)
                if broken:
                    q, v = self._change(broken, t)
                    continue
            self.phases.append(phase)
            try:
                found = self._phase(phase, q, v)
            except SimulationError as error:
                if not isinstance(error.trajectory, Trajectory):
                    raise
                phase.trajectory = error.trajectory
                self._log(phase)
                since = f"\n(Times in this message count from the last change, t = {t:.9g} s.)"
                text = str(error) + (since if t > 0 else "")
                raise SimulationError(text, self._joined(complete=False)) from error
            except PhipsiError as error:
                raise self._stopped(
                    f"the simulation cannot continue from t = {t:.9g} s: {error}", error
                ) from error
            phase.trajectory = found
            fired = self._log(phase)
            t = phase.t1
            if not fired or not found.complete:
                return self._joined(complete=found.complete)
            q, v = self._change(fired, t)
            if t >= self.end:
                return self._joined(complete=True)

    def _phase(self, phase: TopologyPhase, q: Array, v: Array) -> Trajectory:
        t0, times, own = phase.t0, None, dict(self.setup.own)
        moved = {n: x for n, x in self.prescribed.items() if n in phase.model.joint_names}
        moved = {n: self._function(phase, x) for n, x in moved.items()}
        beside = {n: self._beside(phase, x) for n, x in self.quadratures.items()}
        if self.times is not None:
            later = self.times > t0 if t0 > 0 else self.times >= 0
            times = self.times[later] - t0
        if not phase.system.n_rows:  # what other phases have
            own |= dict.fromkeys(OF_CONSTRAINTS)
        setup = run_setup(
            phase.system if phase.system.n_rows else phase.model, own,
            controller=None if self.controller is None else self._controller(phase),
            rate=None, delay=0, integrator=self.setup.method.name,
            events=[self._watched(phase, i, e) for i, e in enumerate(self.events)],
            forces=[Carried(phase, self.elements)] if self.elements else (),
            prescribed=moved or None, quadratures=beside or None, work=self.setup.work,
        )  # fmt: skip

        def advanced(t: float, _: float) -> None:
            self.progress.advance(t0 + t)

        return run_once(setup, *phase.lower(q, v), self.end - t0, times, advanced)

    # ---- functions of the user see all coordinates and the time of the whole run -----------------

    def _function(self, phase: TopologyPhase, function: Any) -> Any:
        if not callable(function):
            return function

        def carried(t: float, q: Array, v: Array) -> Any:
            return function(phase.t0 + t, *phase.lift(q, v))

        carried.__qualname__ = name_of(function)
        return carried

    def _beside(self, phase: TopologyPhase, quadrature: Any) -> Any:
        if isinstance(quadrature, Force):
            return Carried(phase, BoundForces([quadrature], self.topology.model))
        return self._function(phase, quadrature)

    def _controller(self, phase: TopologyPhase) -> Any:
        size = self.topology.model.nv

        def controller(t: float, q: Array, v: Array) -> Array:
            found = self.controller(phase.t0 + t, *phase.lift(q, v))
            given = as_floats("tau of the controller", found)
            if given.shape != (size,):
                raise InputError(
                    f"the controller returned shape {given.shape} at t = {phase.t0 + t:.6g} s; it "
                    f"must return tau of shape ({size},), with entries for all joints, locked and "
                    f"absent ones too."
                )
            return given[phase.at_v]

        controller.__qualname__ = name_of(self.controller)
        return controller

    def _watched(self, phase: TopologyPhase, i: int, event: Event) -> Event:
        """The event in the coordinates of a phase, with its place in its name."""
        action: Any = event.action
        if changes_of(action):
            action = "stop"
        elif callable(action):
            action = self._acting(phase, action)
        function: Any = event.function
        if isinstance(function, ContactMargin):
            function = self._margin(phase, function)
        else:
            function = self._function(phase, function)
        return Event(function, event.direction, action, f"{i}:{event.name}")

    def _margin(self, phase: TopologyPhase, function: ContactMargin) -> Any:
        control = None if self.controller is None else self._controller(phase)
        carried = [Carried(phase, self.elements)] if self.elements else []
        return function.within(phase.system, control, carried)

    def _acting(self, phase: TopologyPhase, user: Callable[..., Any]) -> Any:
        def action(t: float, q: Array, v: Array) -> Any:
            given = user(phase.t0 + t, *phase.lift(q, v))
            return None if given is None else phase.lower(*(np.asarray(x) for x in given))

        return action

    # ---- changes ------------------------------------------------------------------------------

    def _log(self, phase: TopologyPhase) -> list[tuple[Event, EventRecord]]:
        """Events of a phase; those that change the topology at its end are returned."""
        found = phase.trajectory
        phase.t1 = phase.t0 + (float(found.t[-1]) if len(found) else 0.0)
        fired: list[tuple[Event, EventRecord]] = []
        for record in found.events:
            place, _, name = record.name.partition(":")
            event = self.events[int(place)]
            before, after = (
                phase.lift(record.q, record.v),
                phase.lift(record.q_after, record.v_after),
            )
            new = EventRecord(name, phase.t0 + record.t, *before, *after)
            self.records.append(new)
            if changes_of(event.action):
                phase.t1 = phase.t0 + record.t
                fired.append((event, new))
        stopped = bool(found.events) and self._action(found.events[-1]) == "stop"
        if found.complete and not fired and not stopped:
            phase.t1 = self.end
        return fired

    def _action(self, record: EventRecord) -> Any:
        return self.events[int(record.name.partition(":")[0])].action

    def _change(self, fired: list[tuple[Event, EventRecord]], t: float) -> tuple[Array, Array]:
        """Apply the changes of events at one time; the state after the jump."""
        old, last = self.topology, fired[-1][1]
        q, v = last.q_after, last.v_after
        energy, total = self._mechanical(old, q, v)
        now, new_q, new_v = old, q.copy(), v.copy()
        changes: list[Change] = []
        for event, _ in fired:
            for change in changes_of(event.action):
                try:
                    now, new_q, new_v = change.apply(now, new_q, new_v)
                except PhipsiError as error:
                    raise self._rejected(event, t, error) from error
                changes.append(change)
        gone = {id(event) for event, _ in fired}
        self.events = [e for e in self.events if id(e) not in gone]
        counts = Counter(self.stages.counts)
        try:
            new_v, rows, impulses = self._jump(old, now, new_q, new_v)
        except PhipsiError as error:
            raise self._rejected(fired[-1][0], t, error) from error
        after, total_after = self._mechanical(now, new_q, new_v)
        record = ChangeRecord(
            tuple(changes),
            energy,
            after,
            total,
            total_after,
            rows,
            impulses,
            self.stages.counts - counts,
        )
        for _, old_record in fired:  # events at one time share one jump
            place = next(i for i, r in enumerate(self.records) if r is old_record)
            self.records[place] = replace(old_record, q_after=new_q, v_after=new_v, change=record)
        self.topology = now
        return new_q, new_v

    def _broken(self, phase: TopologyPhase, q: Array, v: Array) -> list[tuple[Event, EventRecord]]:
        """Contacts that a change leaves broken: they trigger at once, without a zero to cross."""
        for event in self.events:
            if isinstance(event.function, ContactMargin) and changes_of(event.action):
                if self._margin(phase, event.function)(0.0, *phase.lower(q, v)) < -_BROKEN:
                    self.records.append(EventRecord(event.name, phase.t0, q, v, q, v))
                    return [(event, self.records[-1])]
        return []

    def _at_start(self, q: Array, v: Array) -> list[tuple[Event, EventRecord]]:
        """Events of `topology.at(0, …)`: there is no zero to cross at the start."""
        out: list[tuple[Event, EventRecord]] = []
        for event in self.events:
            if isinstance(event.function, Instant) and event.function.time == 0:
                self.records.append(EventRecord(event.name, 0.0, q, v, q, v))
                out.append((event, self.records[-1]))
        return out

    def _rejected(self, event: Event, t: float, why: Exception) -> Exception:
        text = f"event {event.name!r} at t = {t:.9g} s cannot change the mechanism: {why}"
        return self._stopped(text, why)

    def _stopped(self, text: str, error: Exception) -> Exception:
        """A failure between phases, with the trajectory up to then; at the start the error."""
        if not any(hasattr(p, "trajectory") for p in self.phases):
            return error
        text += "\nerror.trajectory has everything up to then."
        return SimulationError(text, self._joined(complete=False))

    def _jump(
        self, old: Topology, now: Topology, q: Array, v: Array
    ) -> tuple[Array, tuple[str, ...], Array]:
        """Rates after all active rows acted together, the rows and their impulses.

        Joints that are locked now but were not before stop as by a row v_k = 0. Their rates leave
        the equations instead: the others take over what momentum is theirs, ℳ v⁺ = (ℳ v)(others),
        with the inertias of the mechanism that is locked.
        """
        names = {c.name for c in old.constraints}
        fresh = {c.name for c in now.constraints if c.name not in names}
        bridge = replace(now, locked={n: x for n, x in now.locked.items() if n in old.locked})
        phase = TopologyPhase(bridge, 0.0, q, v, self.stages)
        at, rates = phase.lower(q, v)
        _check_closed(phase.system, at, fresh)
        out = np.zeros_like(v)
        stopped = [n for n in now.locked if n not in old.locked and n in phase.model.joint_names]
        if not stopped:
            impulses = np.zeros(phase.system.n_rows)
            if fresh and phase.system.n_rows:
                rates, impulses = self._impulse(phase.system, at, rates)
            out[phase.at_v] = rates
            return out, phase.system.row_names, impulses
        held = TopologyPhase(now, 0.0, q, v, self.stages)
        momentum_of = program_of(MASS_MATRIX, phase.model)
        before = np.zeros_like(v)
        before[phase.at_v] = momentum_of(at, rates)
        free = self._rates(held.model, q[held.at_q], before[held.at_v])
        out[held.at_v], p = self._impulse(held.system, q[held.at_q], free)
        # rows between bodies that are locked together bear nothing, their locks do
        acted = dict(zip(held.system.row_names, p, strict=True))
        impulses = np.array([acted.get(name, 0.0) for name in phase.system.row_names])
        lost = momentum_of(at, rates - out[phase.at_v]) - phase.system.jacobian(at).T @ impulses
        places = [(n, phase.model.joint_rates(n)) for n in stopped]
        locks = tuple(f"{n}.lock" for n, at_v in places for _ in range(at_v.stop - at_v.start))
        stopping = [lost[at_v] for _, at_v in places]
        return out, (*phase.system.row_names, *locks), np.concatenate([impulses, *stopping])

    def _rates(self, model: Model, q: Array, momentum: Array) -> Array:
        """ℳ⁻¹ momentum; results of bodies that deform are not kept for the next change."""
        if model.has_more_rows:
            return program_of(MASS_MATRIX.inv, model)(q, momentum)
        return self.stages.rates(model, q, momentum)

    def _impulse(self, system: System, q: Array, v: Array) -> tuple[Array, Array]:
        """Rates after all rows acted at once, and their impulses."""
        if system.model.has_more_rows:
            return constraint_impulse(system, q, v)
        return self.stages.impulse(system, q, v, system.rates)

    def _mechanical(self, topology: Topology, q: Array, v: Array) -> tuple[float, Array]:
        """Kinetic and potential energy, and momentum, of what is there."""
        phase = TopologyPhase(topology, 0.0, q, v)
        at, rates = phase.lower(q, v)
        energy = kinetic_energy(phase.model, at, rates) + potential_energy(phase.model, at)
        if phase.model.is_flexible:
            energy = energy + elastic_energy(phase.model, at)
        return float(energy), momentum(phase.model, at, rates)

    # ---- the whole ----------------------------------------------------------------------------

    def _joined(self, *, complete: bool) -> Trajectory:
        parts = [p for p in self.phases if hasattr(p, "trajectory")]
        model = self.topology.model
        lifted = [p.lift(p.trajectory.q, p.trajectory.v) for p in parts]
        names: dict[str, int] = {}
        for p in parts:
            for name in p.system.row_names:
                names.setdefault(name, len(names))
        residuals = []
        for p in parts:
            block = np.zeros((len(p.trajectory), len(names)))
            block[:, [names[n] for n in p.system.row_names]] = p.trajectory.constraint_residuals
            residuals.append(block)
        first = parts[0].trajectory
        beside: dict[str, Array] = {}
        totals = dict.fromkeys(first.quadratures, 0.0)
        for name in totals:
            columns: list[Array] = []
            for p in parts:
                columns.append(totals[name] + p.trajectory.quadratures[name])
                totals[name] += p.trajectory.totals[name]
            beside[name] = np.concatenate(columns)
        return Trajectory(
            model,
            np.concatenate([p.t0 + p.trajectory.t for p in parts]),
            np.concatenate([x[0] for x in lifted]),
            np.concatenate([x[1] for x in lifted]),
            np.concatenate([p.lift_rates(p.trajectory.tau) for p in parts]),
            events=tuple(self.records),
            complete=complete,
            integrator=first.integrator,
            constraint_residuals=np.concatenate(residuals),
            energy=np.concatenate([p.trajectory.energy for p in parts]),
            momentum=np.concatenate([p.trajectory.momentum for p in parts]),
            phases=tuple(parts),
            elements=self.elements.bound,
            quadratures=beside,
            totals=totals,
        )


def _check_closed(system: System, q: Array, fresh: set[str]) -> None:
    gap = np.abs(system.residual(q))
    for i in np.flatnonzero(gap > _CLOSED):
        closure = system.closure_of(int(i))
        if closure.name in fresh:
            raise InputError(
                f"constraint {closure.name!r} between {ends(system.model, closure)} is open by "
                f"{gap[i]:.4g} (row {system.row_names[i]!r}; rad or m) when it is switched on, "
                "so its bodies would have to jump. Trigger the event when it is closed, or keep "
                "the bodies where they are with as_is=True."
            )
