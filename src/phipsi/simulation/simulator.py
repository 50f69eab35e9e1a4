"""Simulator: a mechanism with everything that acts on it, as one compiled step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.identification.regressors import inertial_parameters
from phipsi.backends.arguments import joint_array, real_array
from phipsi.backends.options import OnError, check_on_error
from phipsi.circuits.wire_laws import circuit
from phipsi.contact.contact_points import contact_points
from phipsi.contact.contact_rows import (
    GAPS,
    MATERIALS,
    check_joint_rows,
    check_materials,
    check_overlap,
    slot_materials,
)
from phipsi.errors import InputError, did_you_mean, one_of, true_or_false, warn
from phipsi.laws.circuit import Circuit
from phipsi.laws.graph import Node, Shape
from phipsi.laws.law_operations import given as given_node
from phipsi.laws.law_values import evaluate
from phipsi.laws.trace import as_node
from phipsi.model.capabilities import mechanism_of, supports
from phipsi.model.model import Model
from phipsi.model.numbers import as_list, whole_number
from phipsi.motion.checks import (
    check_contacts,
    check_determined,
    check_quaternions,
    check_room,
    checked_number,
    checked_parameter,
    checked_time,
    common_batch,
    reject_unfit,
)
from phipsi.motion.contact_steps import ContactSteps, largest_residual
from phipsi.motion.exponential_chart import chart_of
from phipsi.motion.graph_steps import step_of
from phipsi.motion.motion import Motion
from phipsi.motion.rollout import failure
from phipsi.motion.rollout_arguments import per_step_efforts
from phipsi.motion.step_graph import INERTIA, StepGraph
from phipsi.motion.step_rows import WRONG
from phipsi.motion.tableaux import METHODS, SIMULATED
from phipsi.simulation.episodes import Episodes, shared_of, starts_of
from phipsi.simulation.simulator_results import (
    SimulatorGradient,
    SimulatorRun,
    own_rows,
    recorded_run,
    weights_of,
)
from phipsi.simulation.simulator_state import SimulatorState, check_state

if TYPE_CHECKING:
    from phipsi.motion.run_gradient import RunGradient
    from phipsi.motion.run_program import RunProgram as Plan

Array = NDArray[Any]
_BODIES = (INERTIA, "M")  # parameters of bodies by which there are gradients


@supports(loops=True, contacts=True, flexible=True, rotors=True)
@final
class Simulator:
    """A mechanism, the laws that act on it, and a step: compiled to one kernel.

    **Arguments:** `mechanism`, a model or a `System`, whose loops stay closed; `laws` that act on
    it: of `pp.law`, force elements, and controllers in traceable arithmetic; `dt`, the step, s;
    `integrator`: "rk4" (order 4), "semi_implicit" (order 1, a quarter of the cost),
    "implicit_damping" (the same, and stable with dampers of any strength at joints);
    "time_stepping" (order 1, for systems with contacts); `given`,
    quantities of the algebra that every trajectory may have its own of, as `compile` takes them,
    such as "M" or "gravity", or "inertia" for the ten `inertial_parameters` of every body; of a
    `System` these and "Jr";
    `episodes`, when trajectories end and start again; `smoothing`, J, of gradients through
    contacts, see `gradient`; `reproducible`, whether steps, rollouts and gradients use no fused
    multiply-add: then steps have the bits of those in WebAssembly, C and on a live page.
    **Attributes:** `model`, `dt`, `integrator`, `smoothing`, `laws`, `reproducible`; `parameters`,
    of the laws, by name with their values; `recordable`, the names of what `rollout` can record.

    A step evaluates laws and forward dynamics at every stage, in machine code, with trajectories
    side by side in vector lanes; a trajectory has the same bits in whatever batch and number of
    threads it runs, in one run or in several that go on from each other.

    >>> import numpy as np, phipsi as pp
    >>> sim = pp.Simulator(pp.examples.planar_arm(2), dt=1e-3)
    >>> state = sim.start(q=np.zeros((100, 2)))         # a hundred arms
    >>> sim.step(state)
    >>> run = sim.rollout(state, steps=500, every=100)
    >>> run.q.shape, round(float(run.t[0, -1]), 9)
    ((100, 6, 2), 0.501)
    """

    def __init__(
        self,
        mechanism: Model,
        laws: Any = (),
        dt: float = 1e-3,
        *,
        integrator: str = "rk4",
        given: Sequence[str] = (),
        episodes: Episodes | None = None,
        smoothing: float = 0.0,
        reproducible: bool = False,
    ) -> None:
        self._mechanism = mechanism_of(mechanism, Simulator)
        self.model = self._mechanism.model
        if not self.model.nv:
            raise InputError(f"{self.model!r} has no joint that moves, so there is nothing to run")
        self.dt = checked_time(dt, "dt")
        hint = "Steps that adapt are those of pp.simulate."
        one_of("Simulator: integrator", integrator, SIMULATED, hint)
        reject_unfit(METHODS[integrator], rows=self._mechanism.n_rows)
        self.integrator = integrator
        self.smoothing = self._checked_smoothing(smoothing)
        self.reproducible = true_or_false("reproducible", reproducible)
        several = isinstance(laws, Iterable) and not isinstance(laws, Circuit)
        self.laws: Any = tuple(laws) if several else laws
        own = tuple(as_list("given", given, "['M']"))
        self._circuit = (
            laws if isinstance(laws, Circuit) else circuit(self._mechanism, self.laws, self.dt, own)
        )
        check_contacts(METHODS[integrator], self._mechanism, self._circuit.joint_rows)
        self._graph = StepGraph(self._mechanism, self._circuit, given)
        place = step_of(self._graph, METHODS[integrator])
        self._states: dict[str, Node] = {"q": place.q, "v": place.v, "t": place.t, **place.states}
        self._first = {n: np.asarray(x.value) for n, x in self._circuit.of_kind("state").items()}
        self._first |= self._graph.row_states
        self.episodes, self._restart = episodes, None
        if episodes is not None:
            if not isinstance(episodes, Episodes):
                raise InputError(f"episodes={episodes!r} must be  pp.Episodes(…), or None")
            periods = [one.period for one in self._circuit.samplings]
            self._restart = episodes.restart(self._kept, tuple(self._states), periods)
            for name, node in {**self._restart.checks, **self._restart.results}.items():
                self._states[name] = given_node(name, node.shape)
                self._first[name] = np.zeros(node.shape)
        self.parameters: dict[str, Array | None] = {
            name: x.value for name, x in self._circuit.of_kind("parameter").items()
        }
        self._shapes: dict[str, Shape] = {
            name: x.shape for name, x in self._circuit.of_kind("parameter").items()
        }
        for name, shape in self._graph.parameters.items():
            known = inertial_parameters(self.model).reshape(shape) if name == INERTIA else None
            if name == MATERIALS and self._mechanism.contact_pairs is not None:
                known = slot_materials(self._mechanism.contact_pairs)
            self.parameters[name], self._shapes[name] = known, shape
        redrawn = () if episodes is None else episodes.redraw
        self._redrawn = {n: given_node(n, self._shape(n)) for n in redrawn}
        self._plans: dict[Any, Plan] = {}
        self._gradients: dict[Any, RunGradient] = {}

    def __repr__(self) -> str:
        return f"<Simulator of {self.model!r}, dt = {self.dt:g} s, {self.integrator}>"

    def as_reproducible(self) -> Simulator:
        """The same simulator with the same bits on every processor; states belong to one of both.

        >>> import phipsi as pp
        >>> pp.Simulator(pp.examples.planar_arm(2)).as_reproducible().reproducible
        True
        """
        if self.reproducible:
            return self
        out = copy(self)
        out.reproducible, out._plans, out._gradients = True, {}, {}
        return out

    def _checked_smoothing(self, value: Any) -> float:
        number = checked_number(value, "smoothing", "a finite number of J,", zero=True)
        if number and self._mechanism.contact_pairs is None:
            raise InputError("smoothing= is for the contacts of a system, and this one has none")
        return number

    @property
    def recordable(self) -> tuple[str, ...]:
        """Names of quantities that `rollout` can record."""
        ends = [name for name in self._states if name.startswith("episode.")]
        touching = () if self._mechanism.contact_pairs is None else (GAPS,)
        rows = (*touching, *self._graph.row_states)
        return ("q", "v", "t", "tau", "vdot", *self._circuit.records, *rows, *ends)

    def shape_of(self, name: str) -> Shape:
        """The shape of a quantity that `rollout` can record."""
        return self._record(name).shape

    def _record(self, name: str) -> Node:
        graph, start = self._graph, self._graph.start
        if name in ("q", "v", "t"):
            return getattr(start, name)
        if name in ("tau", "vdot"):
            forces = graph.forces(start)
            return forces.efforts if name == "tau" else graph.accelerations(start, forces)
        if name == GAPS and self._mechanism.contact_pairs is not None:
            return as_node(ContactSteps(graph).slots(start.q)[0].gap)
        if name in graph.row_states:
            return start.states[name]
        if name in self._circuit.records:
            return graph.values(start, [self._circuit.records[name]])[0]
        if name in self.recordable:
            return self._states[name]
        known = ", ".join(map(repr, self.recordable))
        hint = did_you_mean(str(name), self.recordable)
        raise InputError(f"record={name!r} is not among {known}. {hint}")

    def _kept(self, name: str) -> Node:
        """A record between two steps, with the samples of the second: what `rollout` records."""
        graph = self._graph
        return graph.moved_to(graph.after_samples(), [self._record(name)])[0]

    # ---- states -------------------------------------------------------------------------------

    def start(
        self,
        q: ArrayLike | None = None,
        v: ArrayLike | None = None,
        *,
        t: ArrayLike = 0.0,
        parameters: Mapping[str, ArrayLike] | None = None,
        restart: SimulatorState | None = None,
        separate: bool = False,
        first: int = 0,
    ) -> SimulatorState:
        """States to begin with, of one trajectory or of many on leading axes, which broadcast.

        **Arguments:** `q` (..., nq), the neutral configuration if not given; `v` (..., nv), zero;
        `t` (...), s; `parameters`, values (..., *shape) by name, of laws and of what `given` names:
        with leading axes, every trajectory has its own; `restart`, with `episodes`, another state
        of this simulator: its trajectories are the starts of later episodes, this state if None;
        `separate`, whether bodies may overlap deeply at first, joints be beyond rigid stops and
        ropes too long: the first step then moves them, without velocity. Else that is an error.
        `first`, the number of the first trajectory: noise, and the
        starts of episodes, are random by the numbers of trajectories.
        """
        model, separate = self.model, true_or_false("separate", separate)
        named = parameters.items() if isinstance(parameters, Mapping) else ()
        axes = [(x, len(self._shapes.get(n, ()))) for n, x in named]
        check_room(self.bytes_per_trajectory, (q, 1), (v, 1), (t, 0), *axes)
        places = model.neutral() if q is None else joint_array(model, "q", q, "nq")
        rates = np.zeros(model.nv) if v is None else joint_array(model, "v", v, "nv")
        times = real_array("t", t)
        values = self._parameters(parameters or {})
        own_axes = {n: (x, len(self._shapes[n])) for n, x in values.items()}
        batch = common_batch({"q": (places, 1), "v": (rates, 1), "t": (times, 0), **own_axes})
        check_quaternions(chart_of(model), places, "q")
        whole = [np.broadcast_to(x, (*batch, x.shape[-1])) for x in (places, rates)]
        flat = [x.reshape(math.prod(batch), x.shape[-1]) for x in whole]
        Motion(self._mechanism).check_start(*flat, names=("q", "v"))
        check_determined(self._mechanism, flat[0], self._circuit.rows)
        if self._mechanism.contact_pairs is not None:
            if MATERIALS in (parameters or {}):
                check_materials(self._mechanism.contact_pairs, values[MATERIALS])
        varied = {n for n, x in values.items() if x.ndim > len(self._shapes[n])}
        own = {n: x for n, x in values.items() if n in varied or n in self._redrawn}
        numbers = {"q": places, "v": rates, "t": times} | self._first
        states = {n: own_rows(numbers[n], batch, x.shape) for n, x in self._states.items()}
        kept = {n: own_rows(x, batch, self._shapes[n]) for n, x in own.items()}
        shared = {n: np.array(x, order="C") for n, x in values.items() if n not in own}
        if restart is not None and getattr(restart, "simulator", None) is not self:
            raise InputError("restart= must be a state of this simulator:  sim.start(many_q)")
        known = self._redrawn if restart is None else restart.varied
        for name in (x for x in self._redrawn if x not in known):
            raise InputError(
                f"episodes redraw {name!r}, but all starts have the same value of it. Say\n"
                f"    restart=sim.start(…, parameters={{{name!r}: …}})    # one for each start"
            )
        rows = None if restart is None else {**restart._rows, **restart.own}
        pool = starts_of(self._restart, {**states, **kept}, rows)
        parts = states, kept, shared, pool, frozenset(varied)
        state = SimulatorState(self, batch, *parts, first=whole_number("first", first, 0))
        if not separate:
            self.check_gaps(state, "sim.start(q, v, separate=True)    # moves with the first step")
        return state

    @property
    def bytes_per_trajectory(self) -> int:
        """How much memory the state of one trajectory takes at least."""
        numbers = sum(math.prod(x.shape) for x in self._states.values())
        return 8 * (numbers + self.model.nv + 2)  # efforts; the status and the number of a step

    def check_gaps(self, state: SimulatorState, fix: str) -> None:
        """Reject states with bodies that overlap, joints beyond rigid stops, ropes too long."""
        if not len(state._rows["q"]):
            return
        if self._mechanism.contact_pairs is not None:
            gaps = contact_points(self._mechanism.contact_pairs, state._rows["q"]).gap
            check_overlap(self._mechanism.contact_pairs, gaps.reshape(*state.batch, -1), fix)
        joints = self._circuit.joint_rows
        nodes = {n: x for n in ("gaps", "slacks") if (x := getattr(joints, n)) is not None}
        if nodes:
            found = evaluate(
                self._graph.values(self._graph.start, list(nodes.values())), self._values(state)
            )
            known = {n: x.reshape(*state.batch, -1) for n, x in zip(nodes, found, strict=True)}
            none = np.zeros(0)
            both = known.get("gaps", none), known.get("slacks", none)
            check_joint_rows(self.model, joints, *both, fix)

    def _shape(self, name: str) -> Shape:
        """That of a parameter."""
        if name in self._shapes:
            return self._shapes[name]
        known = ", ".join(map(repr, self._shapes)) or "none"
        hint = did_you_mean(str(name), list(self._shapes))
        raise InputError(f"{name!r} is not a parameter of this simulator: {known}. {hint}")

    def fixed_entries(self, name: str) -> Array:
        """Which entries of a parameter no run can change, such as the stiffness of rigid stops."""
        known = self._circuit.quantities.get(name)
        fixed = None if known is None else known.fixed
        return np.broadcast_to(False if fixed is None else fixed[0], self._shape(name))

    def _unsolved_contact(self, state: SimulatorState, i: int) -> str:
        """The contact that a trajectory fails at in the step after its state."""
        steps = ContactSteps(self._graph)
        steps.step(self._graph.start)
        values = self._values(state, i)
        name, error = largest_residual(steps.plan, evaluate(steps.problem, values))
        where = "" if error > WRONG else " on arrays, which find what machine code does not"
        return f"{name!r} is {error:.2g} m/s from the laws of contact{where}"

    def _values(self, state: SimulatorState, one: int | None = None) -> dict[str, Array]:
        """Inputs of the step's graph: of one trajectory, or of all on a first axis."""
        rows = {**state._rows, **state.own, "tau": state.efforts}
        at = slice(None) if one is None else slice(one, one + 1)
        values = {n: x[at].reshape(-1, *self._inner(n, x[0])) for n, x in rows.items()}
        if one is not None:
            values = {n: x[0] for n, x in values.items()}
        more = {"h": np.array(self.dt), "step": np.array(float(state.steps))}
        return values | dict(state.shared) | more

    def _inner(self, name: str, x: Array) -> Shape:
        """The shape of a state or parameter of one trajectory."""
        return self._states[name].shape if name in self._states else x.shape

    def _parameters(self, given: Mapping[str, ArrayLike]) -> dict[str, Array]:
        if not isinstance(given, Mapping):
            raise InputError(f"parameters={given!r} must be values by name:  {{'kp': 10.0}}")
        for name in given:
            self._shape(name)
        out: dict[str, Array] = {}
        for name, shape in self._shapes.items():
            value = given.get(name, self.parameters[name])
            if value is None:
                raise InputError(
                    f"{name!r} is given by every trajectory, and has no value. Say\n"
                    f"    sim.start(q, v, parameters={{{name!r}: …}})    # shape (..., *{shape})"
                )
            known = self._circuit.quantities.get(name)
            if known is not None and known.kind == "parameter":
                array = checked_parameter(known, value)
            else:
                array = real_array(name, value)
            if array.shape[array.ndim - len(shape) :] != shape:
                raise InputError(f"{name} has shape {array.shape}, but must end with {shape}")
            out[name] = array
        return out

    def plan(self, own: Iterable[str] = (), records: Sequence[str] = ()) -> Plan:
        """What a run computes, as graphs: all that machine code of it is written from.

        **Arguments:** `own`, parameters that every trajectory has its own values of; `records`,
        names of `recordable`.
        """
        from phipsi.motion.run_program import RunProgram as Plan
        from phipsi.motion.run_program import Sample

        key = frozenset(own), tuple(records)
        if key not in self._plans:
            sizes = {n: max(1, math.prod(shape)) for n, shape in self._shapes.items()}
            start = self._graph.start
            samples = []
            for s in self._circuit.samplings:
                nodes = self._graph.values(start, list(s.updates.values()))
                samples.append(Sample(s.period, dict(zip(s.updates, nodes, strict=True))))
            states = {**self._states, **self._redrawn}  # restarts change these parameters
            pools = shared_of(self._restart, states)
            self._plans[key] = Plan(
                self._graph.native,
                states,
                {"tau": self.model.nv},
                {n: size for n, size in sizes.items() if n in key[0] and n not in states},
                {n: size for n, size in sizes.items() if n not in key[0]} | pools,
                tuple(samples),
                {name: self._record(name) for name in records},
                self._restart,
                reproducible=self.reproducible,
            )
        return self._plans[key]

    # ---- runs ---------------------------------------------------------------------------------

    def step(
        self,
        state: SimulatorState,
        tau: ArrayLike | None = None,
        steps: int = 1,
        *,
        out: SimulatorState | None = None,
        threads: int = 1,
    ) -> None:
        """Advance all trajectories of a state by one step or several, in place.

        **Arguments:** `tau` (..., nv), efforts besides those of the laws, N·m or N, from now on;
        `out`, another state of this simulator with the same batch, which is advanced instead:
        `state` then stays as it is; `threads` share the trajectories. With `episodes`, no steps
        (``steps=0``) compute what is kept about a new state. **Raises:** `SimulationError` if a
        trajectory fails; it then keeps its last good state, and the others have advanced.

        >>> import phipsi as pp
        >>> sim = pp.Simulator(pp.examples.planar_arm(2), dt=1e-3)
        >>> now, later = sim.start(), sim.start()
        >>> sim.step(now, [0.1, 0.0], out=later)
        >>> float(now.t), float(later.t)
        (0.0, 0.001)
        """
        for x in (state,) if out is None else (state, out):
            check_state(self, x)
        if out is not None:
            out.take(state)
            state = out
        if tau is not None:
            state.set_efforts(tau)
        if type(steps) is type(threads) is int and steps == threads == 1:
            state.advance()
        else:
            state.advance_by(whole_number("steps", steps, 0), whole_number("threads", threads))

    def rollout(
        self,
        state: SimulatorState,
        tau: ArrayLike | None = None,
        steps: int = 1,
        *,
        every: int = 1,
        record: Sequence[str] = ("q", "v"),
        per_step: bool | None = None,
        threads: int = 1,
        on_error: OnError = "raise",
        progress: Any = None,
    ) -> SimulatorRun:
        """Run all trajectories from a state, which stays as it is.

        **Arguments:** `tau`, efforts besides those of the laws: (..., nv), or for every step
        (..., steps, nv); `per_step` says which, where both would fit; `steps`; `every`, record
        every so many steps; `record`, names out of `recordable`; `threads` share the trajectories;
        `on_error`: "raise" an error if a trajectory fails, after all others are done; "mask" and
        "return" give the run with its `status`; `progress` as for `simulate`. Ctrl-C ends the run
        within a second, with a warning: the run then has the records so far.
        **Returns:** `SimulatorRun`.
        """
        check_on_error(on_error)
        options: Any = {"every": every, "record": record, "per_step": per_step}
        run = recorded_run(self, state, tau, steps, threads=threads, progress=progress, **options)
        if not run.complete:
            done = run.state.steps - state.steps
            warn(f"interrupted after {done} of {steps} steps; the run ends there (complete=False).")
        if on_error == "raise" and run.state.status.any():
            raise run.state.failure(run)
        return run

    def gradient(
        self,
        state: SimulatorState,
        tau: ArrayLike | None = None,
        steps: int = 1,
        *,
        of: Mapping[str, ArrayLike],
        every: int = 1,
        parameters: Sequence[str] | None = None,
        per_step: bool | None = None,
        segment: int | None = None,
        smoothing: float | None = None,
        threads: int = 1,
    ) -> SimulatorGradient:
        """The gradient of Σ weights · records of `rollout`, by all that the run depends on.

        The adjoint of every step, in machine code: λ = (∂F/∂y)* λ⁺ + (∂R/∂y)* w. Only every so many
        states are kept; those between are computed again.

        **Arguments:** `state`, `tau`, `steps`, `every`, `per_step`, `threads` as for `rollout`;
        `of`, weights (..., kept, *shape) by name of what is recorded, which broadcast:
        ``of={"cost": 1.0}`` for the sum of a recorded cost; `parameters`, by which of them the
        gradient is wanted, all of the laws' if None: "contact.materials" is not among these;
        `segment`, steps between two kept states;
        `smoothing`, J, that of the simulator if None. With 0, contacts have the derivatives of the
        modes that they are in: open, sticking or sliding; those that rest, of bodies just above
        each other. If positive, the run stays as it is, and
        every contact within the margin has the derivatives of impulses inside the cones,
        y ∘ z = smoothing: they are felt before a contact closes, and tend to the exact ones as
        smoothing → 0 where modes are strict.
        **Returns:** `SimulatorGradient`. **Cost:** some five runs.
        **Source:** theory/sensitivities 5 and 8; theory/contact 7; Griewank and Walther 2008,
        ch. 12.

        >>> import numpy as np, phipsi as pp
        >>> sim = pp.Simulator(pp.examples.planar_arm(2), dt=1e-2)
        >>> end = np.zeros((51, 2)); end[-1] = [1.0, 0.0]     # the first angle at the end
        >>> found = sim.gradient(sim.start([0.0, 0.1]), np.zeros((50, 2)), 50, of={"q": end})
        >>> found.tau.shape, bool(found.tau[0, 0] > 0)
        ((50, 2), True)
        """
        from phipsi.motion.run_gradient import RunGradient

        check_state(self, state)
        if self.episodes is not None:
            raise InputError(
                "a run with episodes has no gradient: it jumps where they end. Take it without:\n"
                "    pp.Simulator(…, episodes=None).gradient(…)"
            )
        if not of or not isinstance(cast(object, of), Mapping):
            raise InputError('say of what:  sim.gradient(…, of={"q": weights})')
        steps, every = whole_number("steps", steps, 0), whole_number("every", every)
        kept, batch = steps // every + 1, state.batch
        records = {name: self._record(name) for name in of}
        weights = {
            name: weights_of(name, of[name], batch, (kept, *node.shape))
            for name, node in records.items()
        }
        by = [*self._circuit.of_kind("parameter"), *(x for x in _BODIES if x in self._shapes)]
        wrt = tuple(by if parameters is None else as_list("parameters", parameters, "['hold.kp']"))
        by += [MATERIALS] if MATERIALS in self._shapes else []
        for name in wrt:
            if name not in by:
                known = ", ".join(map(repr, by)) or "none"
                raise InputError(f"{name!r} is not a parameter with a gradient: {known}")
        given = state.efforts
        if tau is not None or per_step is not None:
            given = per_step_efforts(self.model, tau, batch, steps, per_step)
        kappa = self.smoothing if smoothing is None else self._checked_smoothing(smoothing)
        key = tuple(of), frozenset(state.own), wrt, kappa
        runs = self._gradients.get(key)
        if runs is None:
            method = METHODS[self.integrator]
            parts = self._graph, method, records, self._shapes, tuple(state.own), wrt
            runs = RunGradient(*parts, smoothing=kappa, reproducible=self.reproducible)
            self._gradients[key] = runs
        found, forward = runs.gradient(
            self.dt, steps, state.steps, state.arrays(), given, weights, every,
            None if segment is None else whole_number("segment", segment),
            whole_number("threads", threads), state.first,
        )  # fmt: skip
        if forward.status.any():
            status = forward.status, forward.failed_at
            raise failure(self._mechanism, batch, *status, self.dt, None)
        nodes, by_tau = self._states, found.tau
        shaped = {
            n: x.reshape((*batch, *nodes[n].shape)) for n, x in found.states.items() if n != "q"
        }
        return SimulatorGradient(
            found.value.reshape(batch),
            found.states["q"].reshape(*batch, -1),
            shaped.pop("v"),
            shaped,
            by_tau.reshape(*batch, *by_tau.shape[1:]),
            {
                n: x.reshape(*batch, *x.shape[1:]) if n in state.own else x
                for n, x in found.parameters.items()
            },
        )
