"""Simulator: a mechanism with everything that acts on it, as one compiled step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import contact
from phipsi.algorithms import chart_of
from phipsi.core.arrays import Shape, evaluate
from phipsi.core.backends import OnError, check_on_error, joint_array, real_array
from phipsi.core.model import Model, as_list, mechanism_of, supports, whole_number
from phipsi.errors import InputError, answered, no_attribute, one_of, true_or_false, warn
from phipsi.simulation.compiled.compiled_step import CompiledStep
from phipsi.simulation.compiled.episodes import Episodes, starts_of
from phipsi.simulation.compiled.law_decay import check_law_decay
from phipsi.simulation.compiled.simulator_results import (
    ParameterGradients,
    Rollout,
    SimulatorGradient,
    own_rows,
    recorded_run,
    weights_of,
)
from phipsi.simulation.compiled.simulator_state import SimulatorState, check_initial, check_state
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.forces.stored_properties import acting_laws, not_acting
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.step_graph import INERTIA
from phipsi.simulation.integrators.tableaux import METHODS, SIMULATED
from phipsi.simulation.runs.checks import (
    check_contacts,
    check_quaternions,
    check_room,
    checked_number,
    checked_parameter,
    checked_time,
    common_batch,
    reject_unfit,
)
from phipsi.simulation.runs.rollout import failure
from phipsi.simulation.runs.rollout_arguments import BY_STEPS, per_step_efforts

Array = NDArray[Any]
_BODIES = (INERTIA, "M")  # parameters of bodies by which there are gradients


@supports(loops=True, contacts=True, flexible=True, rotors=True)
@final
class Simulator:
    """Fixed-step simulator of a model with its controllers and forces, compiled to machine code.

    A step evaluates laws and forward dynamics at every stage, in machine code, with trajectories
    side by side in SIMD lanes. Results are bitwise reproducible: a trajectory is the same in
    whatever batch and number of threads it is computed, and in one rollout or in several that
    continue each other.

    Parameters
    ----------
    mechanism : Model
        A tree, or a `System`, whose constraint drift is removed by projection after every step.
    laws : optional
        Controllers and forces: laws of `pp.law`, elements of `phipsi.forces`, and controllers
        ``(t, q, v) -> tau`` in traceable arithmetic; one of them or several. Only these act: pass
        ``pp.forces.from_model(model)`` for the joint limits, damping and friction of a robot file.
    dt : float, optional
        Time step, s.
    integrator : str, optional
        "rk4" (order 4, the default); "semi_implicit" (order 1, a quarter of the cost);
        "linearly_implicit" (the same with the elastic forces of flexible bodies at the end of the
        step, for stiff modes); "implicit_damping" (semi-implicit, and stable with dampers of any
        strength at joints); "implicit_midpoint" (order 2, symmetric); "variational" (order 2:
        symplectic, keeps momenta); "time_stepping" (order 1, for systems with contacts).
    per_trajectory : sequence of str, optional
        Parameters of the mechanism that may differ between trajectories: quantities of the algebra,
        such as "M" or "gravity", or "inertia" for the ten `inertial_parameters` of every body; of a
        `System` these and "Jr".
    episodes : Episodes, optional
        When trajectories are terminated or truncated, and reset.
    smoothing : float, optional
        Smoothing of gradients through contacts, J; see `gradient`.
    reproducible : bool, optional
        Whether steps, rollouts and gradients use no fused multiply-add: then steps are bitwise
        identical to those in WebAssembly, C and on a live page.

    Attributes
    ----------
    model : Model
        The tree.
    dt, integrator, smoothing, laws, episodes, reproducible
        As passed.
    parameters : dict of str to ndarray
        Parameters of the laws, by name with their values.
    recordable : tuple of str
        Names of what `rollout` can record.
    compiled : CompiledStep
        The step by itself: its states, inputs, parameters and records with shapes, units and first
        values, to be evaluated, written for a target and differentiated.

    See Also
    --------
    simulate : One trajectory with adaptive steps and events.
    rollout : Fixed steps under given tau, without controllers and forces.

    Examples
    --------
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
        laws: Any = None,
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
            raise InputError(
                f"{self.model!r} has no joint that moves, so there is nothing to simulate"
            )
        self.dt = checked_time(dt, "dt")
        hint = "For adaptive steps use pp.simulate."
        one_of("Simulator: integrator", integrator, SIMULATED, hint)
        reject_unfit(METHODS[integrator], rows=whole.n_rows)
        self.integrator = integrator
        self.smoothing = _checked_smoothing(smoothing, whole)
        self.reproducible = true_or_false("reproducible", reproducible)
        self.laws: Any = acting_laws(whole, laws, integrator)
        own = tuple(as_list("per_trajectory", per_trajectory, "['M']"))
        made = block_diagram(whole, self.laws, self.dt, own)
        check_contacts(METHODS[integrator], whole, made.joint_rows)
        if episodes is not None and not isinstance(episodes, Episodes):
            raise InputError(f"episodes={episodes!r} must be pp.Episodes(…) or None")
        self.episodes = episodes
        parts = whole, made, self.dt, integrator, per_trajectory, episodes
        self.compiled = CompiledStep(*parts, reproducible=self.reproducible)
        self.parameters: dict[str, Array | None] = {
            name: x.first for name, x in self.compiled.parameters.items()
        }

    def __repr__(self) -> str:
        more = not_acting(self.model, self.laws)
        return f"<Simulator of {self.model!r}, dt = {self.dt:g} s, {self.integrator}{more}>"

    def as_reproducible(self) -> Simulator:
        """The same simulator with bitwise identical results on every processor.

        A state belongs to the simulator that created it, not to both.

        Examples
        --------
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
        """Create an initial state, optionally batched on leading axes, which broadcast.

        Parameters
        ----------
        q : array_like, shape (..., nq), optional
            Configuration. Default: the neutral one.
        v : array_like, shape (..., nv), optional
            Generalized velocities. Default: zero.
        t : array_like, shape (...), optional
            Time, s.
        parameters : mapping of str to array_like, shape (..., *shape), optional
            Values by name, of parameters of laws and those of `per_trajectory`; with leading axes,
            one value for each trajectory.
        restart : SimulatorState, optional
            With `episodes`, another state of this simulator, whose trajectories are the initial
            states of later episodes. Default: this state.
        resolve_penetration : bool, optional
            Whether the first step resolves deep penetration, without velocity: bodies may then
            overlap, joints be beyond rigid limits and ropes be too long. By default that is an
            error.
        first_trajectory : int, optional
            The number of the first trajectory: noise, and the initial states of episodes, are
            random functions of the numbers of trajectories.

        Returns
        -------
        SimulatorState
            The state, which `step` advances.

        Examples
        --------
        >>> import numpy as np, phipsi as pp
        >>> sim = pp.Simulator(pp.examples.planar_arm(2))
        >>> sim.initial_state(np.zeros((100, 2)), [0.0, 1.0]).v.shape        # a hundred arms
        (100, 2)
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
        check_initial(self, flat[0], values)
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
                f"episodes randomize {name!r}, but it is not a per-trajectory value of the "
                "initial states. Pass\n"
                f"    restart=sim.initial_state(…, parameters={{{name!r}: …}})    # (n, …)"
            )
        rows = None if restart is None else {**restart._rows, **restart.own}
        pool = starts_of(compiled.restart, {**states, **kept}, rows)
        parts = states, kept, shared, pool, frozenset(varied)
        number = whole_number("first_trajectory", first_trajectory, 0)
        state = SimulatorState(self, batch, *parts, first_trajectory=number)
        if not resolve:
            fix = "sim.initial_state(q, v, resolve_penetration=True)    # moves with the first step"
            self.check_gaps(state, fix)
        check_law_decay(state)
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
                    f"{name!r} is a per-trajectory parameter without a default. Pass values (..., "
                    f"{str(shape)[1:]}:\n    sim.initial_state(…, parameters={{{name!r}: …}})"
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

        With `episodes`, ``steps=0`` computes the recorded quantities of a new state.

        Parameters
        ----------
        state : SimulatorState
            A state of this simulator.
        tau : array_like, shape (..., nv), optional
            Joint torques and forces besides those of the laws, N·m or N, from now on.
        steps : int, optional
            Number of steps.
        out : SimulatorState, optional
            Another state of this simulator with the same batch, which is advanced instead: `state`
            then stays as it is.
        threads : int, optional
            Number of threads that share the trajectories.

        Raises
        ------
        SimulationError
            If a trajectory fails; it then keeps its last good state, and the others have advanced.

        Examples
        --------
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

    @answered("rollout", BY_STEPS, InputError)
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
        """Simulate all trajectories from a state, which stays as it is, and record them.

        Ctrl-C ends the rollout within a second, with a warning: it then has the records so far.

        Parameters
        ----------
        state : SimulatorState
            Where the rollout begins.
        tau : array_like, shape (..., nv) or (..., steps, nv), optional
            Joint torques and forces besides those of the laws, N·m or N: constant, or for every
            step.
        steps : int, optional
            Number of steps.
        record_every : int, optional
            Steps between records.
        record : sequence of str, optional
            Names from `recordable`.
        per_step : bool, optional
            Whether `tau` has an axis of steps, where both would fit.
        threads : int, optional
            Number of threads that share the trajectories.
        on_error : {"raise", "nan", "best"}, optional
            "raise" raises an error if a trajectory fails, after all others are done; "nan" and
            "best" return the rollout, whose `status` tells which trajectories failed.
        progress : optional
            As for `simulate`.

        Returns
        -------
        Rollout
            Times, states and recorded quantities.

        Raises
        ------
        SimulationError
            If a trajectory fails and `on_error` is "raise".

        Examples
        --------
        >>> import phipsi as pp
        >>> sim = pp.Simulator(pp.examples.planar_arm(2), dt=1e-2)
        >>> fall = sim.rollout(sim.initial_state([0.0, 0.1]), steps=100, record_every=10)
        >>> fall.q.shape, fall.t[-1].round(9)
        ((11, 2), np.float64(1.0))
        """
        check_on_error(on_error)
        options: Any = {"record_every": record_every, "record": record, "per_step": per_step}
        run = recorded_run(self, state, tau, steps, threads=threads, progress=progress, **options)
        if not run.complete:
            done = run.state.steps - state.steps
            warn(
                f"interrupted after {done} of {steps} steps; the rollout ends there "
                "(complete=False)."
            )
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
        """Reverse-mode gradient of a rollout (vector–Jacobian product).

        The gradient of Σ cotangents · records with respect to the initial state, tau and
        parameters, by the adjoint of every step, in machine code: λ = (∂F/∂y)* λ⁺ + (∂R/∂y)* w.
        States are kept at intervals only; those in between are computed again (checkpointing).

        Parameters
        ----------
        state : SimulatorState
            Where the rollout begins.
        tau : array_like, shape (..., nv) or (..., steps, nv), optional
            Joint torques and forces besides those of the laws, as for `rollout`.
        steps : int, optional
            Number of steps.
        cotangents : mapping of str to array_like, shape (..., kept, *shape)
            Weights by name of recorded quantities, which broadcast: ``cotangents={"cost": 1.0}``
            for the sum of a recorded cost.
        record_every : int, optional
            Steps between records, as for `rollout`.
        parameters : sequence of str, optional
            Parameters with respect to which the gradient is computed. Default: all of the laws;
            "contact.materials" is not among these.
        per_step : bool, optional
            Whether `tau` has an axis of steps, as for `rollout`.
        segment : int, optional
            Steps between two kept states.
        smoothing : float, optional
            Smoothing of contacts, J. Default: that of the simulator. With 0, contacts have the
            derivatives of their modes: open, sticking or sliding; bodies just above each other have
            those of resting contacts. If positive, the rollout stays as it is, and every contact
            within the margin has the derivatives of impulses inside the cones, y ∘ z = smoothing:
            they are nonzero before a contact closes, and tend to the exact ones as smoothing → 0
            where modes are strict.
        threads : int, optional
            Number of threads that share the trajectories.

        Returns
        -------
        SimulatorGradient
            The weighted sum, and its gradient by state, tau and parameters.

        Notes
        -----
        **Cost:** about five rollouts. **Source:** theory/sensitivities 5 and 8; theory/contact 7;
        Griewank and Walther 2008, ch. 12.

        Examples
        --------
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
                "gradient is not supported with episodes: a rollout is discontinuous where they "
                "end. Use a simulator without them:\n"
                "    pp.Simulator(…, episodes=None).gradient(…)"
            )
        if not cotangents or not isinstance(cast(object, cotangents), Mapping):
            raise InputError(
                "cotangents= must be weights of recorded quantities by name:  sim.gradient(…, "
                'cotangents={"q": weights})'
            )
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
            ParameterGradients(
                (n, x.reshape(*batch, *x.shape[1:]) if n in state.own else x)
                for n, x in found.parameters.items()
            ),
        )


def _checked_smoothing(value: Any, mechanism: Model) -> float:
    number = checked_number(value, "smoothing", "a finite number of J,", zero=True)
    if number and mechanism.contact_pairs is None:
        raise InputError("smoothing= has no effect: it is for contacts, and this system has none")
    return number
