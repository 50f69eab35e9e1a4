"""Equations: the right-hand side of the equations of motion, looked up once and called often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import Chart, accelerations, inverse_dynamics
from phipsi.core.backends import is_failure, never
from phipsi.core.compiler import compile
from phipsi.core.model import Model, all_finite, as_floats, bent_too_far, place_name
from phipsi.errors import InputError, PhipsiError
from phipsi.laws import Law
from phipsi.simulation import analysis
from phipsi.simulation.forces.force import BoundForces, Force, State, provides
from phipsi.simulation.integrators.motion import TOLERANCE
from phipsi.simulation.runs.user_functions import check_signature, first_call, name_of
from phipsi.simulation.simulate.prescribed import Prescribed
from phipsi.simulation.simulate.quadratures import Quadratures
from phipsi.simulation.simulate.run_constraints import RunConstraints
from phipsi.simulation.simulate.sampled_control import SampledControl
from phipsi.simulation.simulate.stepper import CompiledStates, CompiledSteps
from phipsi.simulation.simulate.traced_parts import can_be_traced

if TYPE_CHECKING:
    from phipsi.simulation.modes.contact_modes import ContactModes
    from phipsi.simulation.simulate.compiled_equations import CompiledEquations, CompiledStage

Array = NDArray[Any]
Controller = Callable[[float, Array, Array], Any]


def controller_of(model: Any, given: Any, stepping: bool) -> Controller | None:
    """The controller of a run; a law that is not traced becomes one, unless steps are compiled."""
    if given is not None and not callable(given):
        raise InputError(
            f"controller must be a function of (t, q, v) that returns tau, not {given!r}."
        )
    if isinstance(given, Law) and isinstance(model, Model):
        plain = can_be_traced(given) and given.rate is None and given.acts
        plain = plain and not _gives_names(given, model.model)
        if stepping and not plain:
            return given
        if not plain:
            law_control = analysis.law_linearization.LawControl
            return law_control(model.model, given, in_contact=model.contact_pairs is not None)
    if given is not None:
        check_signature(given, f"controller {name_of(given)!r}", "t", "q", "v")
    return given


def _gives_names(law: Law, model: Model) -> bool:
    """Whether a law of (t, q, v) returns a dictionary, which is read where laws are traced."""
    return isinstance(law(0.0, model.neutral(), np.zeros(model.nv)), Mapping)


_NOTHING = np.zeros(0)
_WORTH_COMPILING = 2000  # evaluations: a run with as many before is compiled


@final
class Equations:
    """vdot of a model under a controller and force elements.

    vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b − f_ext]), tau from the controller and the joint
    elements, f_ext from the body elements. With prescribed joints, the same for the other joints
    (hybrid dynamics). With loops, the accelerations nearest to these that keep them closed.

    A state for which the dynamics cannot be computed (a number that is not finite, a joint with
    nothing to move) gives NaN, so that a method with step control tries a smaller step; `explain`
    says why. Steppers set `failure` to None before a step.
    """

    def __init__(
        self,
        model: Model,
        controller: Controller | None,
        forces: Sequence[Any],
        prescribed: Prescribed | None = None,
        loops: RunConstraints | None = None,
        quadratures: Quadratures | None = None,
        contacts: ContactModes | None = None,
    ) -> None:
        self.prescribed, self.loops, self.contacts = prescribed, loops, contacts
        self.quadratures = quadratures or Quadratures(model, None, False)
        self.model, self.controller = model, controller
        self.chart = Chart(model)
        self.forces = BoundForces(forces, model, rows=contacts is not None)
        self._form = prescribed is not None, self.forces.act_on_bodies
        self._program = compile(accelerations(False, *self._form)[0], model)
        self._ways: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self._zero = np.zeros(model.nv)
        self._nv = model.nv
        self._has_forces, self._n_quadratures = bool(self.forces), len(self.quadratures)
        self.failure: tuple[float, Array, Array] | None = None
        self._given_forces = forces
        self.counts = 1  # of an evaluation; 0 aside
        self.known_effort: tuple[Array, Array, Array] | None = None
        self.laws_may_have_changed()

    def _load(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Forward dynamics of the tree, for which runs of compiled stages never ask.

        Its ordinary case, None for others; and every case, with a status.
        """
        native = self._program.native
        self._ways = never if native is None else native.direct, self._program.with_status
        return self._ways

    def laws_may_have_changed(self) -> None:
        """An action of an event may have changed numbers of controllers: trace them again."""
        self._count, self._compiled, self._is_decided = 0, None, False
        self._stage: CompiledStage | None = None

    def compiled(self) -> CompiledEquations | None:
        """The equations as code; None where there is no machine code, or none for these."""
        if self._program.native is None or not self._nv or self.contacts is not None:
            return None
        if self.loops is not None and not self.loops.may_compile:
            return None
        system = None if self.loops is None else self.loops.system
        given = self.controller, self._given_forces, self.prescribed, system, self.quadratures
        # short runs do without it, and without all that writes machine code of runs
        from phipsi.simulation.simulate.compiled_equations import CompiledEquations

        return CompiledEquations(self.model, *given)

    def stretch(self, method: str, dt: float) -> CompiledSteps | None:
        """Many fixed steps in machine code; None if they cannot be."""
        found = self.compiled()
        if found is None or not found.can_stretch:
            return None
        loops = self.loops
        if loops is None:
            return found.stretch(method, dt)
        if not loops.projects or loops.tolerance < TOLERANCE:
            return None
        take = found.stretch(method, dt)

        def closed(t: float, q: Array, v: Array, w: Array, steps: int) -> CompiledStates | None:
            if not loops.is_far:
                return None
            found = take(t, q, v, w, steps)
            return None if found is None else found.until(loops.regular_until(found.q))

        return closed

    @cached_property
    def _closed(self) -> Callable[..., tuple[Any, ...]]:
        """Accelerations and multipliers in one program, where the rows are regular."""
        assert self.loops is not None
        return compile(accelerations(True, *self._form), self.loops.system).with_status

    @property
    def is_plain(self) -> bool:
        """Whether nothing acts but gravity, and there is machine code for it."""
        return self._is_bare and self.controller is None and self._program.native is not None

    @property
    def _is_bare(self) -> bool:
        """Whether nothing acts but gravity and perhaps a controller."""
        alone = not self.forces and self.prescribed is None
        inside = self.loops is None and self.contacts is None
        return alone and inside and not len(self.quadratures)

    @property
    def projector(self) -> RunConstraints | ContactModes | None:
        """What brings the end of a step back to where it has to be."""
        return self.loops if self.contacts is None else self.contacts

    def probe(self) -> Probe:
        """For states that the run does not go on from, such as those at output times.

        What is judged about constraints there does not last, and evaluations do not count: the
        steps that follow are the same with such states and without them.
        """
        return Probe(self)

    @property
    def _is_direct(self) -> bool:
        """Whether a stage is no more than a call of forward dynamics, and of a user's function."""
        return self._is_bare and self.chart.is_flat and not can_be_traced(self.controller)

    # ---- the hot path -----------------------------------------------------------------------

    def derivative(self, t: float, base: Array, y: Array) -> Array:
        """ẏ of y = [z, v, w] about a configuration `base`: [ż, vdot, ẇ], NaN where it fails."""
        if self._is_compiled():
            found = self._from_stage(t, base, y)
            if found is not None:
                return found
        nv, out = self._nv, np.empty(len(y))
        z, v = y[:nv], y[nv : 2 * nv]
        out[:nv] = self.chart.rate(z, v)
        out[nv : 2 * nv], out[2 * nv :] = self._rates(t, self.chart.point(base, z), v)
        return out

    def acceleration(self, t: float, q: Array, v: Array) -> Array:
        """Return vdot (nv,), or NaN where it cannot be computed."""
        return self.rates(t, q, v)[0]

    def rates(self, t: float, q: Array, v: Array) -> tuple[Array, Array]:
        """Return vdot (nv,), and ẇ of the quadratures at the same state."""
        if self._is_compiled():
            y = np.concatenate([self.chart.start(q), v, np.zeros(len(self.quadratures))])
            found = self._from_stage(t, q, y)
            if found is not None:
                return found[self._nv : 2 * self._nv], found[2 * self._nv :]
        return self._rates(t, q, v)

    def count(self, evaluations: int) -> None:
        """Count evaluations that are made aside, or that nobody needed."""
        self._count += evaluations

    def _is_compiled(self) -> bool:
        """Whether machine code evaluates the next stage; it is compiled for a long run."""
        self._count += self.counts
        if self._count >= _WORTH_COMPILING and not self._is_decided:
            self._is_decided = True
            if not self._is_direct:
                self._compiled = self.compiled()
                self._stage = None if self._compiled is None else self._compiled.stage()
        return self._stage is not None and (self.loops is None or self.loops.compiles)

    def _from_stage(self, t: float, base: Array, y: Array) -> Array | None:
        """ẏ by machine code, with what functions of the user give; None where that fails."""
        stage, compiled = self._stage, self._compiled
        assert stage is not None and compiled is not None
        if compiled.is_complete:
            out = stage(t, base, y)
        else:
            q = locked(self.chart.point(base, y[: self._nv]))
            v = locked(y[self._nv : 2 * self._nv])
            self._give(stage, compiled, t, q, v)
            out = stage(t, base, y)
            if out is not None:
                self.quadratures.fill(out, compiled.own_quadratures, t, q, v)
        if self.loops is not None and np.count_nonzero(stage.multipliers) > self.loops.rank:
            return None  # drift has hidden that some rows depend on others
        return out

    def _give(
        self, stage: CompiledStage, compiled: CompiledEquations, t: float, q: Array, v: Array
    ) -> None:
        """The values of functions of the user, for machine code."""
        if compiled.own_controller:
            stage.tau[:] = self.control(t, q, v)
        if compiled.own_forces is not None:
            own = compiled.own_forces
            effort = stage.tau if compiled.own_controller else self._zero
            stage.tau[:], loads = own.acting(own.state(t, q, v), effort)
            if loads:
                stage.loads[:] = loads[0]
        if compiled.own_accelerations:
            assert self.prescribed is not None
            traced = compiled.traced_accelerations
            stage.vdot[:] = self.prescribed.accelerations(t, q, v, traced)

    def _rates(self, t: float, q: Array, v: Array) -> tuple[Array, Array]:
        """The same in Python, with compiled forward dynamics."""
        n = self._n_quadratures
        checks = n or self.loops is not None or self.contacts is not None
        if checks and not (all_finite(q) and all_finite(v)):
            return np.full(self._nv, np.nan), np.full(n, np.nan)
        if self.loops is not None:
            q, v = self.loops.stage(q, v)
        vdot = self._at(t, q, v)
        if not n:
            return vdot, _NOTHING
        power = self._power(q, v, vdot) if self.quadratures.has_work else 0.0
        if self.contacts is not None:
            power += self.contacts.power
        return vdot, self.quadratures.rates(t, locked(q), locked(v), power)

    def _power(self, q: Array, v: Array, vdot: Array) -> float:
        """Power of all efforts and forces at the state `_at` has just been called for, W."""
        effort, loads = self._acting
        if self.prescribed is not None or (self.loops is not None and self.loops.drives):
            # what moves joints or rows as prescribed is found from the motion; others do no work
            effort = inverse_dynamics(self.model, q, v, vdot, *loads)
        return float(self.forces.power(self.forces.state(0.0, q, v), effort, loads))

    def acting(self, t: float, q: Array, v: Array) -> tuple[Array, tuple[Array, ...]]:
        """Efforts (nv,) of the controller and the elements, and forces on bodies if there are."""
        effort = self._zero if self.controller is None else self.control(t, q, v)
        loads: tuple[Array, ...] = ()
        if self._has_forces:
            effort, loads = self.forces.acting(self.forces.state(t, q, v), effort)
        self._acting = effort, loads
        return effort, loads

    def note_failure(self, t: float, q: Array, v: Array) -> None:
        """Remember a state for which there is no answer, unless that is itself a consequence."""
        if all_finite(q) and all_finite(v):
            self.failure = (t, np.array(q), np.array(v))

    def _at(self, t: float, q: Array, v: Array) -> Array:
        vdot = self.free(t, q, v)
        return vdot if self.contacts is None else self.contacts.accelerations(q, v, vdot)

    def free(self, t: float, q: Array, v: Array) -> Array:
        """Return vdot (nv,) without the forces of contacts, or NaN."""
        effort, loads = self.acting(t, q, v)
        inputs = self._inputs(t, q, v, effort, loads)
        if self.loops is not None and self.loops.compiles:
            vdot, f, status = self._closed(*inputs)
            # more rows taken for independent than there are: drift has hidden that some are not
            if not is_failure(status) and np.count_nonzero(f) <= self.loops.rank:
                return vdot
        direct, every = self._ways or self._load()
        vdot = direct(*inputs)
        if vdot is not None:
            return vdot if self.loops is None else self.loops.correct(q, v, vdot)
        vdot, status = every(*inputs)
        if status:
            self.note_failure(t, q, v)
            return np.full(self._nv, np.nan)
        return vdot if self.loops is None else self.loops.correct(q, v, vdot)

    def _inputs(
        self, t: float, q: Array, v: Array, effort: Array, loads: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """What the program takes, in order."""
        if self.prescribed is None:
            return (q, v, effort, *loads)
        given = self.prescribed.accelerations(t, locked(q), locked(v))
        return (q, v, given, effort, *loads, self.prescribed.free)

    def control(self, t: float, q: Array, v: Array) -> Array:
        """Efforts of the controller (nv,); rejects a wrong shape, naming the controller."""
        assert self.controller is not None
        given = self.controller(t, locked(q), locked(v))
        if type(given) is np.ndarray and given.dtype == np.float64 and given.shape == (self._nv,):
            return given
        return self._converted(given, t)

    def sample(self, sampled: SampledControl, t: float, q: Array, v: Array) -> None:
        """Call a sampled controller once, with copies that it may keep."""
        with first_call(self._name(), t) if t == 0 else nullcontext():
            given = self._converted(sampled.function(t, q.copy(), v.copy()), t)
        wrong = self._not_finite(given, t)
        if wrong is not None:
            raise wrong
        sampled.take(given)
        self.known_effort = None

    # ---- the rest ---------------------------------------------------------------------------

    def recorded_effort(self, t: float, q: Array, v: Array) -> Array:
        """Efforts for the trajectory: the controller's, and what prescribed joints need."""
        known = self.known_effort
        if known is not None and known[0] is q and known[1] is v:
            return known[2]
        effort = self._zero if self.controller is None else np.array(self.control(t, q, v))
        if self.prescribed is None:
            return effort
        elements, loads = self.forces.acting(self.forces.state(t, q, v), self._zero)
        with self.probe():
            vdot = self.acceleration(t, q, v)
        needed = inverse_dynamics(self.model, q, v, vdot, *loads) - elements
        if self.loops is not None:
            needed = self.loops.drive(q, needed, effort)
        return np.where(self.prescribed.free > 0, effort, needed)

    def potential_energy(self, t: Array, q: Array, v: Array) -> Array:
        """Energy stored in the force elements (...), J."""
        return self.forces.stored(t, q, v)

    def element_forces(self, t: Array, q: Array, v: Array) -> tuple[Array, Array | None]:
        """Efforts (k, nv) of the force elements, and their forces on bodies (k, n, 6) or None."""
        efforts, loads = self.forces.acting(self.forces.state(t, q, v), np.zeros_like(v))
        return efforts, loads[0] if loads else None

    def check(self, t: float, q: Array, v: Array) -> None:
        """Evaluate once; raise an error that names what is wrong."""
        for element in self.forces.bound:
            with first_call(f"force element {element!r}", t):
                self._check_element(element, self.forces.state(t, q, v))
        if self.prescribed is not None:
            with first_call("a prescribed acceleration", t):
                self.prescribed.accelerations(t, locked(q), locked(v))
        for name, function in self.quadratures.functions:
            with first_call(f"quadrature {name!r}", t):
                function(t, locked(q), locked(v))
        with first_call("the dynamics" if self.controller is None else self._name(), t):
            vdot = self.acceleration(t, q, v)
        if self.loops is not None and np.isfinite(vdot).all():
            loops, self.loops = self.loops, None
            try:
                wrong = loops.contradiction(q, v, self.acceleration(t, q, v))
            finally:
                self.loops = loops
            if wrong:
                raise InputError(f"the simulation cannot start: {wrong}.")
        if not np.isfinite(vdot).all():
            raise self.explain() or InputError("the accelerations at t = 0 are not finite")

    def explain(self) -> PhipsiError | None:
        """Why the last failing state failed: whose number is not finite, or which joint."""
        if self.failure is None:
            return None
        t, q, v = self.failure
        effort = self._zero if self.controller is None else self.control(t, q, v)
        wrong = self._not_finite(effort, t)
        if wrong is not None:
            return wrong
        try:
            state = self.forces.state(t, q, v)
            for element in self.forces.bound:
                self._check_element(element, state)
            effort, loads = self.forces.acting(state, effort)
            self._program(*self._inputs(t, q, v, effort, loads))
        except PhipsiError as error:
            return error
        return None

    def about(self, q: Array, *, is_explained: bool = False) -> str:
        """Lines on what is critical at q: a singular configuration, bodies bent too far."""
        close = "" if self.loops is None else self.loops.near_singular(q)
        bent = ""
        if self.model.is_flexible and not is_explained and np.isfinite(q).all():
            bent = bent_too_far(self.model, q, far=0.15)
        return "".join(f"\n{x}" for x in (close, bent) if x)

    def _not_finite(self, effort: Array, t: float) -> InputError | None:
        """What is wrong with the efforts of the controller, if a number is not finite."""
        if np.isfinite(effort).all():
            return None
        where = int(np.flatnonzero(~np.isfinite(effort))[0])
        return InputError(
            f"{self._name()} returned {effort[where]} for joint {self.rate_name(where)} at t = "
            f"{t:.6g} s; it must be finite."
        )

    def rate_name(self, index: int) -> str:
        """The joint a rate belongs to, quoted, with the rate's number if it has several."""
        return place_name(self.model.joint_names, self.model.v_slices, index)

    def _name(self) -> str:
        assert self.controller is not None
        return f"controller {name_of(self.controller)!r}"

    def _converted(self, given: Any, t: float) -> Array:
        effort, why = None, ""
        try:
            effort = as_floats("tau", given)
        except InputError as error:
            why = f" ({error})"
        if effort is None or effort.shape != (self._nv,):
            shape = f" of shape {effort.shape}" if effort is not None and effort.ndim else ""
            names = ", ".join(map(repr, self.model.joint_names[:6]))
            raise InputError(
                f"{self._name()} returned {type(given).__name__}{shape} at t = {t:.6g} s{why}, "
                f"but it must return tau of shape ({self._nv},), one entry per velocity (joints "
                f"{names}{', …' if self.model.n_bodies > 6 else ''})."
            )
        return effort

    def _check_element(self, element: Force, state: State) -> None:
        n, nv = self.model.n_bodies, self._nv
        for method, shape in (("efforts", (nv,)), ("body_forces", (n, 6))):
            if not provides(element, method):
                continue
            found = getattr(element, method)(state)
            if found is None and element.has_rows:
                continue
            value = np.asarray(found)
            if value.shape != shape:
                raise InputError(
                    f"force element {element!r}: {method} returned shape {value.shape}, but it "
                    f"must be {shape}."
                )
            if not np.isfinite(value).all():
                index = np.argwhere(~np.isfinite(value))[0]
                where = (
                    f"joint {self.rate_name(int(index[0]))}"
                    if method == "efforts"
                    else f"body {self.model.body_names[int(index[0])]!r}"
                )
                raise InputError(
                    f"force element {element!r}: {method} is {value[tuple(index)]} at {where}, "
                    f"t = {float(state.t):.6g} s; forces must be finite."
                )


@final
class Probe:
    """See `Equations.probe`."""

    def __init__(self, equations: Equations) -> None:
        self._equations, self._counts = equations, equations.counts

    def __enter__(self) -> None:
        loops = self._equations.loops
        self._equations.counts, self._judged = 0, None if loops is None else loops.judged

    def __exit__(self, *_: Any) -> None:
        self._equations.counts = self._counts
        if self._equations.loops is not None and self._judged is not None:
            self._equations.loops.judged = self._judged


def locked(values: Array) -> Array:
    """A view that user functions cannot write to: the integrator goes on with these numbers."""
    view = values[:]
    view.setflags(write=False)
    return view
