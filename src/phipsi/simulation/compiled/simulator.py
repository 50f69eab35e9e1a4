"""Simulator: a mechanism with everything that acts on it, as one compiled step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import contact
from phipsi.algorithms import chart_of
from phipsi.core.arrays import Shape, evaluate
from phipsi.core.backends import OnError, check_on_error, joint_array, real_array
from phipsi.core.model import Model, as_list, mechanism_of, supports, whole_number
from phipsi.errors import InputError, no_attribute, one_of, true_or_false, warn
from phipsi.laws import BlockDiagram
from phipsi.simulation.compiled.compiled_step import CompiledStep
from phipsi.simulation.compiled.episodes import Episodes, starts_of
from phipsi.simulation.compiled.simulator_results import (
    Rollout,
    SimulatorGradient,
    own_rows,
    recorded_run,
    weights_of,
)
from phipsi.simulation.compiled.simulator_state import SimulatorState, check_state
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.step_graph import INERTIA
from phipsi.simulation.integrators.tableaux import METHODS, SIMULATED
from phipsi.simulation.runs.checks import (
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
from phipsi.simulation.runs.rollout import failure
from phipsi.simulation.runs.rollout_arguments import per_step_efforts

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
    "time_stepping" (order 1, for systems with contacts); `per_trajectory`,
    parameters of the mechanism that every trajectory may have its own of: quantities of the
    algebra, such as "M" or "gravity", or "inertia" for the ten `inertial_parameters` of every body;
    of a `System` these and "Jr";
    `episodes`, when trajectories end and start again; `smoothing`, J, of gradients through
    contacts, see `gradient`; `reproducible`, whether steps, rollouts and gradients use no fused
    multiply-add: then steps have the bits of those in WebAssembly, C and on a live page.
    **Attributes:** `model`, `dt`, `integrator`, `smoothing`, `laws`, `reproducible`; `parameters`,
    of the laws, by name with their values; `recordable`, the names of what `rollout` can record;
    `compiled`, the step by itself: its states, inputs, parameters and records with shapes, units
    and first values, to be evaluated, written for a target and differentiated.

    A step evaluates laws and forward dynamics at every stage, in machine code, with trajectories
    side by side in vector lanes; a trajectory has the same bits in whatever batch and number of
    threads it runs, in one run or in several that go on from each other.

    >>> import numpy as np, phipsi as pp
    >>> sim = pp.Simulator(pp.examples.planar_arm(2), dt=1e-3)
    >>> state = sim.initial_state(q=np.zeros((100, 2)))         # a hundred arms
    >>> sim.step(state)
    >>> run = sim.rollout(state, steps=500, record_every=100)
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
        per_trajectory: Sequence[str] = (),
        episodes: Episodes | None = None,
        smoothing: float = 0.0,
        reproducible: bool = False,
    ) -> None:
        whole = mechanism_of(mechanism, Simulator)
        self.model = whole.model
        if not self.model.nv:
            raise InputError(f"{self.model!r} has no joint that moves, so there is nothing to run")
        self.dt = checked_time(dt, "dt")
        hint = "Steps that adapt are those of pp.simulate."
        one_of("Simulator: integrator", integrator, SIMULATED, hint)
        reject_unfit(METHODS[integrator], rows=whole.n_rows)
        self.integrator = integrator
        self.smoothing = _checked_smoothing(smoothing, whole)
        self.reproducible = true_or_false("reproducible", reproducible)
        several = isinstance(laws, Iterable) and not isinstance(laws, BlockDiagram)
        self.laws: Any = tuple(laws) if several else laws
        own = tuple(as_list("per_trajectory", per_trajectory, "['M']"))
        made: Any = laws
        if not isinstance(laws, BlockDiagram):
            made = block_diagram(whole, self.laws, self.dt, own)
        check_contacts(METHODS[integrator], whole, made.joint_rows)
        if episodes is not None and not isinstance(episodes, Episodes):
            raise InputError(f"episodes={episodes!r} must be  pp.Episodes(…), or None")
        self.episodes = episodes
        parts = whole, made, self.dt, integrator, per_trajectory, episodes
        self.compiled = CompiledStep(*parts, reproducible=self.reproducible)
        self.parameters: dict[str, Array | None] = {
            name: x.first for name, x in self.compiled.parameters.items()
        }

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
        out.reproducible, out.compiled = True, self.compiled.as_reproducible()
        return out

    @property
    def recordable(self) -> tuple[str, ...]:
        """Names of quantities that `rollout` can record."""
        return self.compiled.records

    def shape_of(self, name: str) -> Shape:
        """The shape of a quantity that `rollout` can record."""
        return self.compiled.node(name).shape

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, {"start": "sim.initial_state(…)"})

    # ---- states -------------------------------------------------------------------------------

    def initial_state(
        self,
        q: ArrayLike | None = None,
        v: ArrayLike | None = None,
        *,
        t: ArrayLike = 0.0,
        parameters: Mapping[str, ArrayLike] | None = None,
        restart: SimulatorState | None = None,
        resolve_penetration: bool = False,
        first_trajectory: int = 0,
    ) -> SimulatorState:
        """Initial states of one trajectory, or of many on leading axes, which broadcast.

        **Arguments:** `q` (..., nq), the neutral configuration if not given; `v` (..., nv), zero;
        `t` (...), s; `parameters`, values (..., *shape) by name, of laws and those of
        `per_trajectory`: with leading axes, every trajectory has its own; `restart`, with
        `episodes`, another state of this simulator: its trajectories are the starts of later
        episodes, this state if None; `resolve_penetration`, whether the first step resolves deep
        penetration, without velocity: bodies may then overlap, joints be beyond rigid stops and
        ropes too long. By default that is an error. `first_trajectory`, the number of the first
        trajectory: noise, and the starts of episodes, are random by the numbers of trajectories.
        """
        model = self.model
        resolve = true_or_false("resolve_penetration", resolve_penetration)
        named = parameters.items() if isinstance(parameters, Mapping) else ()
        compiled, mechanism = self.compiled, self.compiled.mechanism
        shapes = {n: x.shape for n, x in compiled.parameters.items()}
        axes = [(x, len(shapes.get(n, ()))) for n, x in named]
        check_room(compiled.bytes_per_trajectory, (q, 1), (v, 1), (t, 0), *axes)
        places = model.neutral() if q is None else joint_array(model, "q", q, "nq")
        rates = np.zeros(model.nv) if v is None else joint_array(model, "v", v, "nv")
        times = real_array("t", t)
        values = self._parameters(parameters or {})
        own_axes = {n: (x, len(shapes[n])) for n, x in values.items()}
        batch = common_batch({"q": (places, 1), "v": (rates, 1), "t": (times, 0), **own_axes})
        check_quaternions(chart_of(model), places, "q")
        whole = [np.broadcast_to(x, (*batch, x.shape[-1])) for x in (places, rates)]
        flat = [x.reshape(math.prod(batch), x.shape[-1]) for x in whole]
        Motion(mechanism).check_start(*flat, names=("q", "v"))
        check_determined(mechanism, flat[0], compiled.circuit.rows)
        if mechanism.contact_pairs is not None:
            name = contact.contact_rows.MATERIALS
            if name in (parameters or {}):
                contact.contact_rows.check_materials(mechanism.contact_pairs, values[name])
        varied = {n for n, x in values.items() if x.ndim > len(shapes[n])}
        own = {n: x for n, x in values.items() if n in varied or n in compiled.randomized}
        numbers: dict[str, Any] = {"q": places, "v": rates, "t": times}
        states = {
            n: own_rows(numbers.get(n, x.first), batch, x.shape) for n, x in compiled.states.items()
        }
        kept = {n: own_rows(x, batch, shapes[n]) for n, x in own.items()}
        shared = {n: np.array(x, order="C") for n, x in values.items() if n not in own}
        if restart is not None and getattr(restart, "simulator", None) is not self:
            raise InputError(
                "restart= must be a state of this simulator:  sim.initial_state(many_q)"
            )
        known = compiled.randomized if restart is None else restart.varied
        for name in (x for x in compiled.randomized if x not in known):
            raise InputError(
                f"episodes randomize {name!r}, but all starts have the same value of it. Say\n"
                f"    restart=sim.initial_state(…, parameters={{{name!r}: …}})    # one per start"
            )
        rows = None if restart is None else {**restart._rows, **restart.own}
        pool = starts_of(compiled.restart, {**states, **kept}, rows)
        parts = states, kept, shared, pool, frozenset(varied)
        number = whole_number("first_trajectory", first_trajectory, 0)
        state = SimulatorState(self, batch, *parts, first_trajectory=number)
        if not resolve:
            fix = "sim.initial_state(q, v, resolve_penetration=True)    # moves with the first step"
            self.check_gaps(state, fix)
        return state

    def check_gaps(self, state: SimulatorState, fix: str) -> None:
        """Reject states with bodies that overlap, joints beyond rigid stops, ropes too long."""
        if not len(state._rows["q"]):
            return
        contacts, graph = self.compiled.mechanism.contact_pairs, self.compiled.graph
        if contacts is not None:
            gaps = contact.contact_points.contact_points(contacts, state._rows["q"]).gap
            contact.contact_rows.check_overlap(contacts, gaps.reshape(*state.batch, -1), fix)
        joints = self.compiled.circuit.joint_rows
        nodes = {n: x for n in ("gaps", "slacks") if (x := getattr(joints, n)) is not None}
        if nodes:
            found = evaluate(graph.values(graph.start, list(nodes.values())), state.graph_values())
            known = {n: x.reshape(*state.batch, -1) for n, x in zip(nodes, found, strict=True)}
            none = np.zeros(0)
            both = known.get("gaps", none), known.get("slacks", none)
            contact.contact_rows.check_joint_rows(self.model, joints, *both, fix)

    def _parameters(self, given: Mapping[str, ArrayLike]) -> dict[str, Array]:
        if not isinstance(given, Mapping):
            raise InputError(f"parameters={given!r} must be values by name:  {{'kp': 10.0}}")
        for name in given:
            self.compiled.parameter(name)
        out: dict[str, Array] = {}
        for name, quantity in self.compiled.parameters.items():
            value, shape = given.get(name, self.parameters[name]), quantity.shape
            if value is None:
                raise InputError(
                    f"{name!r} is given by every trajectory, and has no value. Say\n"
                    f"    sim.initial_state(…, parameters={{{name!r}: …}})    # (..., *{shape})"
                )
            known = self.compiled.circuit.quantities.get(name)
            if known is not None and known.kind == "parameter":
                array = checked_parameter(known, value)
            else:
                array = real_array(name, value)
            if array.shape[array.ndim - len(shape) :] != shape:
                raise InputError(f"{name} has shape {array.shape}, but must end with {shape}")
            out[name] = array
        return out

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
        >>> now, later = sim.initial_state(), sim.initial_state()
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
        record_every: int = 1,
        record: Sequence[str] = ("q", "v"),
        per_step: bool | None = None,
        threads: int = 1,
        on_error: OnError = "raise",
        progress: Any = None,
    ) -> Rollout:
        """Run all trajectories from a state, which stays as it is.

        **Arguments:** `tau`, efforts besides those of the laws: (..., nv), or for every step
        (..., steps, nv); `per_step` says which, where both would fit; `steps`;
        `record_every`, steps between records; `record`, names out of `recordable`; `threads` share
        the trajectories; `on_error`: "raise" an error if a trajectory fails, after all others are
        done; "nan" and "best" give the run with its `status`; `progress` as for `simulate`.
        Ctrl-C ends the run within a second, with a warning: the run then has the records so far.
        **Returns:** `Rollout`.
        """
        check_on_error(on_error)
        options: Any = {"record_every": record_every, "record": record, "per_step": per_step}
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
        cotangents: Mapping[str, ArrayLike],
        record_every: int = 1,
        parameters: Sequence[str] | None = None,
        per_step: bool | None = None,
        segment: int | None = None,
        smoothing: float | None = None,
        threads: int = 1,
    ) -> SimulatorGradient:
        """The gradient of Σ cotangents · records of `rollout`, by all that the run depends on.

        The adjoint of every step, in machine code: λ = (∂F/∂y)* λ⁺ + (∂R/∂y)* w. Only every so many
        states are kept; those between are computed again.

        **Arguments:** `state`, `tau`, `steps`, `record_every`, `per_step`, `threads` as for
        `rollout`; `cotangents`, (..., kept, *shape) by name of what is recorded, which broadcast:
        ``cotangents={"cost": 1.0}`` for the sum of a recorded cost; `parameters`, by which of them
        the gradient is wanted, all of the laws' if None: "contact.materials" is not among these;
        `segment`, steps between two kept states; `smoothing`, J, that of the simulator if None.
        With 0, contacts have the derivatives of the modes that they are in: open, sticking or
        sliding; those that rest, of bodies just above each other. If positive, the run stays as it
        is, and every contact within the margin has the derivatives of impulses inside the cones, y
        ∘ z = smoothing: they are felt before a contact closes, and tend to the exact ones as
        smoothing → 0 where modes are strict.
        **Returns:** `SimulatorGradient`. **Cost:** some five runs.
        **Source:** theory/sensitivities 5 and 8; theory/contact 7; Griewank and Walther 2008,
        ch. 12.

        >>> import numpy as np, phipsi as pp
        >>> sim = pp.Simulator(pp.examples.planar_arm(2), dt=1e-2)
        >>> end = np.zeros((51, 2)); end[-1] = [1.0, 0.0]     # the first angle at the end
        >>> state = sim.initial_state([0.0, 0.1])
        >>> result = sim.gradient(state, np.zeros((50, 2)), 50, cotangents={"q": end})
        >>> result.tau.shape, bool(result.tau[0, 0] > 0)
        ((50, 2), True)
        """
        check_state(self, state)
        compiled = self.compiled
        if self.episodes is not None:
            raise InputError(
                "a run with episodes has no gradient: it jumps where they end. Take it without:\n"
                "    pp.Simulator(…, episodes=None).gradient(…)"
            )
        if not cotangents or not isinstance(cast(object, cotangents), Mapping):
            raise InputError('say of what:  sim.gradient(…, cotangents={"q": weights})')
        steps = whole_number("steps", steps, 0)
        every = whole_number("record_every", record_every)
        kept, batch = steps // every + 1, state.batch
        weights = {
            name: weights_of(name, x, batch, (kept, *compiled.node(name).shape))
            for name, x in cotangents.items()
        }
        known = compiled.parameters
        by = [*compiled.circuit.of_kind("parameter"), *(x for x in _BODIES if x in known)]
        wrt = tuple(by if parameters is None else as_list("parameters", parameters, "['hold.kp']"))
        if compiled.mechanism.contact_pairs is not None:
            by.append(contact.contact_rows.MATERIALS)
        for name in wrt:
            if name not in by:
                listed = ", ".join(map(repr, by)) or "none"
                raise InputError(f"{name!r} is not a parameter with a gradient: {listed}")
        given = state.efforts
        if tau is not None or per_step is not None:
            given = per_step_efforts(self.model, tau, batch, steps, per_step)
        kappa = self.smoothing
        if smoothing is not None:
            kappa = _checked_smoothing(smoothing, compiled.mechanism)
        from phipsi.simulation.runs.run_gradient import GivenWeights

        weigh = GivenWeights(weights, every, steps)
        found, forward = compiled.adjoint(tuple(cotangents), state.own, wrt, kappa).gradient(
            self.dt, steps, state.steps, state.arrays(), given, weigh,
            None if segment is None else whole_number("segment", segment),
            whole_number("threads", threads), state.first_trajectory,
        )  # fmt: skip
        if forward.status.any():
            status = forward.status, forward.failed_at
            raise failure(compiled.mechanism, batch, *status, self.dt, None)
        states, by_tau = compiled.states, found.tau
        shaped = {
            n: x.reshape((*batch, *states[n].shape)) for n, x in found.states.items() if n != "q"
        }
        return SimulatorGradient(
            weigh.value.reshape(batch),
            found.states["q"].reshape(*batch, -1),
            shaped.pop("v"),
            shaped,
            by_tau.reshape(*batch, *by_tau.shape[1:]),
            {
                n: x.reshape(*batch, *x.shape[1:]) if n in state.own else x
                for n, x in found.parameters.items()
            },
        )


def _checked_smoothing(value: Any, mechanism: Model) -> float:
    number = checked_number(value, "smoothing", "a finite number of J,", zero=True)
    if number and mechanism.contact_pairs is None:
        raise InputError("smoothing= is for the contacts of a system, and this one has none")
    return number
