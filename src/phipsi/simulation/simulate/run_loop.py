"""The run of one mechanism that stays as it is: what goes with what, and the loop over its steps.

`simulate` is such a run, and so is every phase of a mechanism that changes (changing_run.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import contact
from phipsi.algorithms import System
from phipsi.core.model import Model
from phipsi.errors import InputError, PhipsiError, SimulationError, warn
from phipsi.simulation import modes
from phipsi.simulation.forces.force import rows_of_joints
from phipsi.simulation.forces.joint_limits import warn_beyond_limits
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.tableaux import Method
from phipsi.simulation.runs import checks
from phipsi.simulation.runs.user_functions import first_call
from phipsi.simulation.simulate.adaptive_steps import Adaptive, AdaptiveStep
from phipsi.simulation.simulate.equations import Equations, controller_of
from phipsi.simulation.simulate.events import Change, Event, Watch, ZeroCrossing, changes_of
from phipsi.simulation.simulate.prescribed import Prescribed
from phipsi.simulation.simulate.quadratures import CONTACTS, Quadrature, Quadratures
from phipsi.simulation.simulate.run_constraints import RunConstraints
from phipsi.simulation.simulate.run_options import RunOptions, listed, listed_forces, run_options
from phipsi.simulation.simulate.sampled_control import SampledControl, check_sampling
from phipsi.simulation.simulate.stepper import Diverged, Stepper, TimeStep
from phipsi.simulation.trajectory.event_record import EventRecord
from phipsi.simulation.trajectory.interpolation import DenseRecord
from phipsi.simulation.trajectory.trajectory import WORK, Trajectory
from phipsi.support import make_progress

if TYPE_CHECKING:
    from phipsi.simulation.modes.contact_events import EventOutcome

Array = NDArray[Any]
Begin = Callable[[float, Array, Array], None]

# Events as close together as this (relative to the step) happen at the same time.
_SAME_TIME = 1e-12
# Nearer to a stop of a slipping contact than this (s) a step may pass it; before, it is approached
# by steps that end short of it by this share.
_BEFORE_A_STOP, _SHORT_OF = 1e-7, 1e-2


class RunSetup(NamedTuple):
    """What acts during a run and how it is integrated, checked.

    **Attributes:** `model`, a model or a system; `own`, numbers of the run as the user gave them,
    None for the others, and `options`, all of them; `method`; `controller`, with `rate` and `delay`
    if it is sampled; `events`; `before`, changes of the mechanism that hold from the start, and
    `changes`, these and those of events; `forces`, `prescribed`, `quadratures` and `work`, as
    `simulate` takes them; `joints`, rows of rigid stops, ropes and dry friction; `touching`,
    whether there are such rows or contacts.
    """

    model: Any
    own: Mapping[str, Any]
    options: RunOptions
    method: Method
    controller: Any
    rate: float | None
    delay: int
    events: Sequence[Event]
    before: Sequence[Change]
    changes: Sequence[Change]
    forces: Any
    prescribed: Mapping[str, Any] | None
    quadratures: Mapping[str, Quadrature] | None
    work: bool
    joints: Any
    touching: bool


def run_setup(
    model: Any,
    own: Mapping[str, Any],
    *,
    controller: Any,
    rate: float | None,
    delay: int,
    integrator: str,
    events: Any,
    forces: Any,
    prescribed: Any,
    quadratures: Any,
    work: bool,
    topology: Any = (),
) -> RunSetup:
    """Check what acts and how it is integrated; arguments as for `simulate`."""
    controller = controller_of(model, controller, stepping=False)
    joints = None
    if isinstance(model, Model) and integrator in ("dopri", "radau"):
        joints = rows_of_joints(model.model, listed_forces(forces))
    touching = isinstance(model, Model) and model.contact_pairs is not None or joints is not None
    if touching:
        given = {"topology": topology, "prescribed": prescribed, "quadratures": quadratures}
        check = modes.contact_runs.check_contact_run
        check(model, integrator, given, own["stabilization"])
    method = checks.checked_method(integrator)
    events = listed("events", events, Event, "[event]")
    before = listed("topology", topology, Change, "[pp.topology.Lock('joint1')]")
    changes = [*before, *(c for e in events if isinstance(e, Event) for c in changes_of(e.action))]
    has_rows = isinstance(model, System) and model.n_rows > 0
    may_have = has_rows or any(isinstance(c, Change) and c.closes for c in changes)
    options = run_options(method, own, rows=may_have, contacts=touching)
    check_sampling(rate, delay, controller, None if method.is_adaptive else options.dt)
    if changes and rate is not None:
        raise InputError(
            "rate= (sampled control) cannot be combined with changes of topology, whose phases "
            "begin between samples. Remove it, and implement the sample-and-hold in the "
            "controller"
        )
    return RunSetup(
        model, own, options, method, controller, rate, delay, events, before, changes, forces,
        prescribed, quadratures, work, joints, touching,
    )  # fmt: skip


def run_once(
    setup: RunSetup, q0: ArrayLike, v0: ArrayLike, duration: float, output_times: Any, progress: Any
) -> Trajectory:
    """The motion of a mechanism that does not change."""
    mechanism, method, options = setup.model, setup.method, setup.options
    system, model = mechanism if isinstance(mechanism, System) else None, mechanism.model
    rows = 0 if system is None else system.n_rows
    moved = None if setup.prescribed is None else Prescribed(model, setup.prescribed)
    checks.reject_unfit(method, rows=rows, prescribed=bool(setup.prescribed))
    end = checks.checked_time(duration, "duration", zero=True)
    if not method.is_adaptive:
        checks.check_count(end, options.dt)
    times = checks.checked_output_times(output_times, end)
    loops = None
    if system is not None and system.n_rows:
        free = None if moved is None else moved.free
        loops = RunConstraints(Motion(system, free), *options.kept)
    contacts, quadratures = None, setup.quadratures
    if setup.touching:
        modes_of = modes.contact_runs.modes_of
        contacts = modes_of(system or model, setup.joints, options.kept[1], loops)
        quadratures = {**(quadratures or {}), CONTACTS: lambda t, q, v: contacts.power}
    beside = Quadratures(model, quadratures, setup.work or setup.touching)
    controller, sampled = setup.controller, None
    if controller is not None and setup.rate is not None:
        held = (float(setup.rate), int(setup.delay), model.nv)
        sampled = controller = SampledControl(controller, *held)
    forces = listed_forces(setup.forces)
    equations = Equations(model, controller, forces, moved, loops, beside, contacts)
    q, v = checks.checked_state(model, equations.chart, q0, v0)
    warn_beyond_limits(model, forces, q)
    if loops is not None:
        q, v = loops.start(q, v)
    q = q if contacts is None else modes.contact_runs.separated(contacts, q)
    run = RunLoop(equations, method, times, end, system, sampled)
    run.begin(q, v, setup.events, options)
    return run.run_until_end(make_progress(progress, end))


@final
class RunLoop:
    """The loop over steps, events and output, and the record so far."""

    def __init__(
        self,
        equations: Equations,
        method: Method,
        times: Array | None,
        end: float,
        system: System | None = None,
        sampled: SampledControl | None = None,
    ) -> None:
        self.system, self.sampled = system, sampled
        self.equations, self.method = equations, method
        self.end, self.times, self._next = end, times, 0
        self.rows: list[tuple[float, Array, Array, Array, Array]] = []
        self.events: list[EventRecord] = []
        self.dense = DenseRecord() if method.is_adaptive and times is None else None
        self.stepper: Stepper
        self.watch: Watch
        self._has_work = equations.quadratures.has_work
        self.contacts = None
        if equations.contacts is not None:
            begin = modes.contact_events.ContactEvents
            self.contacts = begin(equations.contacts, equations.free, end)
        self._touched: list[tuple[Array, Array, Array]] = []
        self._pause: tuple[float, float] | None = None

    def begin(self, q: Array, v: Array, events: Sequence[Any], options: RunOptions) -> None:
        """Look at the first state, which a run that fails there has as its last good one."""
        try:
            if self.sampled is not None:
                self.equations.sample(self.sampled, 0.0, q, v)
            self.equations.check(0.0, q, v)
            self.watch = Watch(events, 0.0, q, v, self.end)
            with first_call("the simulation", 0.0):
                self._start(q, v, options)
        except SimulationError as error:
            model, nothing = self.equations.model, np.full((1, len(v)), np.nan)
            error.trajectory = Trajectory(
                model, np.zeros(1), q[None], v[None], nothing, complete=False,
                integrator=self.method.name, system=self.system,
            )  # fmt: skip
            raise

    def _start(self, q: Array, v: Array, options: RunOptions) -> None:
        """Build the stepper and record the initial state."""
        first = (q, v)
        touched = None
        if self.contacts is not None:
            touched = self.contacts.begin(0.0, q, v)
            q, v = touched.q, touched.v
        start = (0.0, q, v)
        if self.method.is_adaptive:
            inside = self.dense is not None or bool(self.watch.events)
            inside = inside or self.contacts is not None
            tolerances = options.rtol, options.atol
            self.stepper = Adaptive(
                self.equations, self.method, start, self._until(), *tolerances,
                look_inside=inside, outputs=self.times,
            )  # fmt: skip
        else:
            from phipsi.simulation.simulate.fixed_steps import FixedSteps

            self.stepper = FixedSteps(self.equations, self.method, start, self.end, options.dt)
        if touched is not None and touched.gain:  # an impact at the start
            self.stepper.w = touched.gain * self._impact_weights()
            self.stepper.restart(0.0, q, v)
            if self.times is None:  # the state before it too
                self._row(0.0, *first, np.zeros(len(self.stepper.w)))
        self._stored_at_start = self._stored(0.0, q, v) if self._has_work else 0.0
        if touched is not None and touched.names:
            self._record_contacts(0.0, *first, touched)
        self._record_state(0.0, q, v, self.stepper.w)

    def run_until_end(self, progress: Any) -> Trajectory:
        """Step until the end, a stop, an interrupt or a failure."""
        try:
            while self.stepper.t < self.end:
                stopped = self._advance()
                progress.advance(self.stepper.t)
                if stopped:
                    break
        except KeyboardInterrupt:
            trajectory = self._partial()
            warn(
                f"interrupted at t = {trajectory.t[-1]:.6g} of {self.end:.6g} s; the trajectory "
                f"ends there (complete=False)."
            )
            return trajectory
        except Diverged as reason:
            raise self._failure(str(reason), self.equations.explain()) from None
        except Exception as error:
            raise self._failure("", error) from error
        finally:
            progress.close()
        return self._trajectory(complete=True)

    def _advance(self) -> bool:
        """One step with its events and outputs; whether an event ends the run."""
        now = self.stepper
        before = now.t, now.q, now.v, now.w
        step = now.step()
        touch = None
        if self.contacts is not None:
            with self.equations.probe():
                found = self.contacts.first(step)
            if found is not None and found.stops and found.t - step.t0 > _BEFORE_A_STOP:
                self._approach(before, found.t)
                return False
            touch = None if found is None else found.t
        if self.dense is not None and isinstance(step, AdaptiveStep):
            step.record(self.dense)
        fired: list[ZeroCrossing] = []
        if self.watch.events:
            with self.equations.probe():
                crossings = self.watch.crossings(step)
            if touch is not None:
                crossings = [c for c in crossings if c.t - touch <= _SAME_TIME * step.t1]
            while crossings:
                fired = [c for c in crossings if c.t - crossings[0].t <= _SAME_TIME * step.t1]
                crossings = crossings[len(fired) :]
                ended = self._happen(step, fired)
                if ended is not None:
                    return ended
        if touch is not None:
            self._touch(step, touch, fired)
            return False
        if self._is_due(step.t1):
            self._record_step(step, step.t1, at_end=False)  # with the efforts before it
            self._sample(step.t1, step.q1, step.v1)
            if isinstance(self.stepper, Adaptive):
                self.stepper.begin_stretch()
        self._record_step(step, step.t1, at_end=True)
        if self._pause is not None and step.t1 >= self._pause[0]:
            self._resume(step)
        return False

    # ---- stops of slipping contacts

    def _approach(self, start: tuple[float, Array, Array, Array], stop: float) -> None:
        """Take a step again, to shortly before a stop, where friction is still smooth."""
        assert isinstance(self.stepper, Adaptive)
        t, q, v, w = start
        until = t + (1.0 - _SHORT_OF) * (stop - t)
        self._pause = (until, stop - until)
        self.stepper.w, self.stepper.end = w, min(until, self._until())
        self.stepper.restart(t, q, v, stop - t)

    def _resume(self, step: TimeStep) -> None:
        """Across the stop, with a short step."""
        assert isinstance(self.stepper, Adaptive) and self._pause is not None
        left, self._pause = self._pause[1], None
        self.stepper.end = self._until()
        if step.t1 < self.end:
            self.stepper.restart(step.t1, step.q1, step.v1, 3 * left)

    # ---- samples of the controller

    def _until(self) -> float:
        """Where the next stretch without a sample ends."""
        return self.end if self.sampled is None else min(self.end, self.sampled.next_time)

    def _is_due(self, t: float) -> bool:
        return self.sampled is not None and t < self.end and self.sampled.is_due(t)

    def _sample(self, t: float, q: Array, v: Array) -> None:
        """Call the controller; accelerations jump, and the next stretch ends at its next sample."""
        assert self.sampled is not None
        self.equations.sample(self.sampled, t, q, v)
        if isinstance(self.stepper, Adaptive):
            self.stepper.end = self._until()

    def _touch(self, step: TimeStep, t: float, now: list[ZeroCrossing]) -> None:
        """An event of contacts: the step ends there, and another phase begins."""
        assert self.contacts is not None and isinstance(self.stepper, Adaptive)
        self._record_step(step, t, at_end=False)
        q, v, w = step.inside(t)
        q, v = self._on_constraints(t, q, v)
        if self.times is None:
            self._row(t, q, v, w)
        if self._is_due(t):
            self._sample(t, q, v)
        found = self.contacts.begin(t, q, v)
        self._pause, self.stepper.end = None, self._until()
        w = w + found.gain * self._impact_weights()
        if found.names:
            self._record_contacts(t, q, v, found)
        self._record_state(t, found.q, found.v, w)
        self._go_on_from(t, found.q, found.v, w, self.stepper.begin_phase)
        self.watch.begin(t, found.q, found.v, [c for c in now if t - c.t <= _SAME_TIME * step.t1])

    def _go_on_from(self, t: float, q: Array, v: Array, w: Array, begin: Begin) -> None:
        """From a state behind an event; at the end of the run the stepper only stands there."""
        self.stepper.w = w
        if t < self.end:
            begin(t, q, v)
        else:
            self.stepper.reset_to(t, q, v)

    def _impact_weights(self) -> Array:
        """1 for the quadratures that have the energy of impacts: work, and that of contacts."""
        names = self.equations.quadratures.names
        return np.array([name in (WORK, CONTACTS) for name in names], dtype=float)

    def _record_contacts(self, t: float, q: Array, v: Array, found: EventOutcome) -> None:
        """Events by their names; those that come to rest later have the time of that."""
        for name in found.names:
            self.events.append(EventRecord(name, t, q, v, found.q, found.v))
        for later, pair in found.rests:
            self.events.append(EventRecord(f"{pair} rests", later, q, v, found.q, found.v))

    def _happen(self, step: TimeStep, now: list[ZeroCrossing]) -> bool | None:
        """Events at one time. None: the step goes on; else it ends here, True for the run too."""
        actions = [self.watch.events[c.index].action for c in now]
        ending = [c.t for c, a in zip(now, actions, strict=True) if a == "stop" or callable(a)]
        ends = bool(ending)
        t = ending[0] if ends else now[0].t  # one that is only recorded does not move an action
        if ends:
            self._record_step(step, t, at_end=False)
        with nullcontext() if ends else self.equations.probe():
            q, v, w = step.inside(t)
            first = q, v = self._on_constraints(t, q, v)
        for crossing in now:
            new_q, new_v = self.watch.act(crossing, q, v)
            if new_q is not q or new_v is not v:
                names = ("the new q", "the new v")
                new_q, new_v = checks.checked_state(
                    self.equations.model, self.equations.chart, new_q, new_v, names
                )
                if self.contacts is None:  # contacts may open and close
                    new_q, new_v = self._on_constraints(t, new_q, new_v)
            name = self.watch.events[crossing.index].name
            self.events.append(EventRecord(name, t, q, v, new_q, new_v))
            q, v = new_q, new_v
        if not ends:
            return None
        jumped = q is not first[0] or v is not first[1]
        if self.times is None and jumped:
            self._row(t, *first, w)
        if jumped and self._has_work:
            # energy that an action puts into springs is not work
            w = w.copy()
            w[0] -= self._stored(t, q, v) - self._stored(t, *first)
        if "stop" not in actions and self._is_due(t):  # the sample sees the state after the event
            self._sample(t, q, v)
        self._record_state(t, q, v, w)
        self.stepper.w = w
        if "stop" in actions:
            self.stepper.reset_to(t, q, v)
            return True
        self.equations.laws_may_have_changed()
        if self.contacts is not None:
            touched = self.contacts.begin(t, q, v)
            if touched.names:
                self._record_contacts(t, q, v, touched)
            q, v = touched.q, touched.v
            w = w + touched.gain * self._impact_weights()
            self._record_state(t, q, v, w)
        self._go_on_from(t, q, v, w, self.stepper.restart)
        self.watch.begin(t, q, v, now)
        return False

    # ---- recording --------------------------------------------------------------------------

    def _record_step(self, step: TimeStep, until: float, *, at_end: bool) -> None:
        """Record a step up to a time: its end, or the output times in it."""
        if self.times is None:
            if at_end:
                self._row(step.t1, step.q1, step.v1, step.w1)
            return
        while self._next < len(self.times):
            t = float(self.times[self._next])
            if t > until or (t == until and not at_end):
                return
            self._next += 1
            with self.equations.probe():
                q, v, w = step.inside(t)
                if t < step.t1:
                    q, v = self._on_constraints(t, q, v)
            self._row(t, q, v, w)

    def _record_state(self, t: float, q: Array, v: Array, w: Array) -> None:
        """A state that does not end a step: the initial one, or one after an event."""
        if self.times is None:
            self._row(t, q, v, w)
        elif self._next < len(self.times) and self.times[self._next] == t:
            self._next += 1
            self._row(t, q, v, w)

    def _on_constraints(self, t: float, q: Array, v: Array) -> tuple[Array, Array]:
        """States inside a step come from its dense output, which knows no constraints."""
        keeper = self.equations.projector
        return (q, v) if keeper is None or not keeper.projects else keeper.project(t, q, v)

    def _stored(self, t: float, q: Array, v: Array) -> float:
        """Energy in the force elements, J."""
        return float(self.equations.potential_energy(np.array(t), q, v))

    def _row(self, t: float, q: Array, v: Array, w: Array) -> None:
        self._keep(t, q, v, self.equations.recorded_effort(t, q, v), w)

    def _keep(self, t: float, q: Array, v: Array, tau: Array, w: Array) -> None:
        self.rows.append((t, q, v, tau, w))
        if self.contacts is not None:
            with self.equations.probe():
                self._touched.append(self.contacts.sample(t, q, v))

    def _partial(self) -> Trajectory:
        """Everything so far, with the last good state at its end."""
        now = self.stepper
        if not self.rows or self.rows[-1][0] < now.t:
            zero = np.full(self.equations.model.nv, np.nan)
            last = zero if self.equations.controller else np.zeros(self.equations.model.nv)
            self._keep(now.t, now.q, now.v, last, now.w)
        return self._trajectory(complete=False)

    def _trajectory(self, *, complete: bool) -> Trajectory:
        model = self.equations.model
        t, q, v, tau, w = zip(*self.rows, strict=True) if self.rows else ((), (), (), (), ())
        times = np.array(t, dtype=np.float64)
        places = np.array(q, dtype=np.float64).reshape(len(t), model.nq)
        rates = np.array(v, dtype=np.float64).reshape(len(t), model.nv)
        beside, now = self.equations.quadratures, self.stepper
        found = np.array([*w, now.w]).reshape(len(t) + 1, len(beside))
        if self._has_work:  # what springs have given back is theirs
            held = self.equations.potential_energy(times, places, rates)
            found[:, 0] += [*held, self._stored(now.t, now.q, now.v)]
            found[:, 0] -= self._stored_at_start
        out = Trajectory(
            model,
            times,
            places,
            rates,
            np.array(tau, dtype=np.float64).reshape(len(t), model.nv),
            events=tuple(self.events),
            complete=complete,
            integrator=self.method.name,
            stored=self.equations.potential_energy,
            acting=self.equations.element_forces if self.equations.forces else None,
            elements=self.equations.forces.bound,
            dense=self.dense,
            system=self.system,
            quadratures=dict(zip(beside.names, found[:-1].T, strict=True)),
            totals=dict(zip(beside.names, found[-1].tolist(), strict=True)),
        )
        if self.contacts is not None:
            forces, modes, rows = (np.array(x) for x in zip(*self._touched, strict=True))
            off = float(np.abs(out.energy - out.energy[0] - out.work).max())
            # what compliant surfaces have stored since the start is not lost
            stored = self.contacts.stored(self.stepper.q) - self.contacts.stored(out.q[0])
            proof = self.contacts.certificate(off, -out.totals[CONTACTS] - stored)
            pairs = self.contacts.contacts.contacts
            own = self.contacts.joint_forces(rows)
            record = contact.contact_record.ContactRecord
            out.with_contacts(record(pairs, times, places, forces, 1.0, proof, modes, own))
        return out

    def _fastest(self) -> str:
        """A sentence about the joint that moves fastest at the last good state."""
        v = self.stepper.v
        if not v.size:
            return ""
        k = int(np.abs(v).argmax())
        return f" Fastest at the last good state: joint {self.equations.rate_name(k)}, {v[k]:.4g}."

    def _advice(self) -> str:
        """What may help a run that diverged, beside what it uses already."""
        stiff = "" if self.method.name == "radau" else "integrator='radau' for stiff forces"
        if not self.method.is_adaptive:
            if any(self.equations.model.modes) and not (
                self.method.elastic_implicit or self.method.handles_contact
            ):
                stiff = "integrator='linearly_implicit' for stiff modes"
            return f"Try {stiff}, or a smaller dt."
        steps = "integrator='time_stepping', dt=1e-3 for many contacts"
        ways = [x for x in (stiff, steps if self.equations.contacts is not None else "") if x]
        if not ways:
            return "Its forces may be unbounded near this state: smaller gains or stiffnesses help."
        return f"Try {', or '.join(ways)}."

    def _failure(self, reason: str, cause: BaseException | None) -> SimulationError:
        trajectory = self._partial()
        last = f"t = {trajectory.t[-1]:.9g} s"
        if reason:
            text = f"the simulation diverged: {reason}.{self._fastest()}"
            if isinstance(cause, PhipsiError):
                text += f"\n{cause}"
            text += self.equations.about(self.stepper.q, is_explained=cause is not None)
            text += f"\n{self._advice()}"
        else:
            kind = "" if isinstance(cause, PhipsiError) else f"{type(cause).__name__}: "
            text = f"the simulation stopped: {kind}{cause}"
        text += f"\nerror.trajectory has everything up to the last good state, {last}."
        return SimulationError(text, trajectory)
