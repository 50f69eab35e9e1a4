"""The state of a Simulator: where its trajectories are, in memory that machine code works on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import contact
from phipsi.contact import TOTALS, WORST, Certificate
from phipsi.core.arrays import GraphEvaluator
from phipsi.core.backends import joint_array
from phipsi.core.model import as_floats
from phipsi.errors import InputError, SimulationError
from phipsi.laws import INERTIA
from phipsi.simulation import impacts
from phipsi.simulation.forces.joint_limits import warn_beyond_limits
from phipsi.simulation.runs.checks import check_determined, check_inertias
from phipsi.simulation.runs.rollout import failure

if TYPE_CHECKING:
    from phipsi.simulation.runs.run_memory import RunMemory
    from phipsi.simulation.runs.run_program import RunProgram

Array = NDArray[Any]
_FEW = 64  # trajectories whose step is so short that the interpreter is held


@final
class SimulatorState:
    """State of the trajectories of a `Simulator`.

    `sim.initial_state` creates it, `sim.step` advances it.

    Attributes
    ----------
    q : ndarray, shape (..., nq)
        Configurations, an array that can be written to.
    v : ndarray, shape (..., nv)
        Generalized velocities, likewise.
    t : ndarray, shape (...)
        Times, s, likewise.
    laws : dict of str to ndarray
        States of laws by name, likewise.
    own : dict of str to ndarray, shape (n, *shape)
        Per-trajectory parameters by name.
    shared : dict of str to ndarray
        Parameters by name that all trajectories share.
    varied : frozenset of str
        Names of the parameters that were passed for each trajectory.
    first_trajectory : int
        The number of the first trajectory.
    steps : int
        Number of steps taken.
    status, failed_at : ndarray, shape (n,)
        Of all trajectories in a row: 0, or why and in which step the trajectory stopped.
    """

    def __init__(
        self,
        simulator: Any,
        batch: tuple[int, ...],
        states: dict[str, Array],
        own: dict[str, Array],
        shared: dict[str, Array],
        starts: dict[str, Array],
        varied: frozenset[str] = frozenset(),
        begun: tuple[Array, Array] | None = None,
        first_trajectory: int = 0,
    ) -> None:
        self.simulator, self.batch, self.count = simulator, batch, math.prod(batch)
        self._rows, self.own, self.shared, self._starts = states, own, shared, starts
        self.varied, self.first_trajectory = varied, first_trajectory
        # where it began, from which the energy of contacts is accounted for
        touching = WORST in states
        self._begun = (states["q"].copy(), states["v"].copy()) if touching else None
        self._begun = begun or self._begun
        shaped = {n: x.reshape(*batch, *x.shape[1:]) for n, x in states.items()}
        self.q, self.v, self.t = shaped["q"], shaped["v"], shaped["t"].reshape(batch)
        known = simulator.compiled.states
        self.laws = {
            n: x.reshape((*batch, *known[n].shape))
            for n, x in shaped.items()
            if n not in ("q", "v", "t")
        }
        self.efforts = np.zeros((self.count, simulator.model.nv))
        self.steps = 0
        self.status, self.failed_at = (np.zeros(self.count, dtype=np.int64) for _ in range(2))
        self._advance: Callable[[], Any] | None = None
        self._memory: RunMemory | None = None  # kept as long as `_advance` works on it
        self._threads = 0  # of the memory, if several steps were taken at once

    def __repr__(self) -> str:
        which = f"{self.count} trajectories" if self.batch else "one trajectory"
        return f"<state of {which} after {self.steps} steps>"

    def copy(self) -> SimulatorState:
        """The same state in memory of its own."""
        shared = {name: x.copy() for name, x in self.shared.items()}
        return self._taken(slice(None), self.batch, shared, self.first_trajectory)

    def part(self, rows: Array) -> SimulatorState:
        """The trajectories with these numbers, of a state with one leading axis, on their own.

        `first_trajectory` is right for the first of them.
        """
        return self._taken(rows, (len(rows),), self.shared, self.first_trajectory + int(rows[0]))

    def _taken(
        self, rows: Any, batch: tuple[int, ...], shared: dict[str, Array], first: int
    ) -> SimulatorState:
        """Some trajectories in memory of their own."""
        mine, own = ({n: x[rows].copy() for n, x in y.items()} for y in (self._rows, self.own))
        begun = None if self._begun is None else (self._begun[0][rows], self._begun[1][rows])
        parts = mine, own, shared, self._starts, self.varied, begun, first
        out = SimulatorState(self.simulator, batch, *parts)
        out.efforts[:], out.steps = self.efforts[rows], self.steps
        out.status[:], out.failed_at[:] = self.status[rows], self.failed_at[rows]
        return out

    def alone(self, row: int, begun: Any) -> SimulatorState:
        """One trajectory as it was at the beginning of a run, on its own."""
        out = self._taken(slice(row, row + 1), (), begun.shared, self.first_trajectory + row)
        for mine, first in ((out._rows, begun.rows), (out.own, begun.own)):
            for name, x in first.items():
                np.copyto(mine[name], x)
        out.steps = begun.number
        out.status[:], out.failed_at[:] = begun.status
        return out

    def take(self, other: SimulatorState) -> None:
        """Become equal to another state, in the memory that is there."""
        fits = other.simulator is self.simulator and other.batch == self.batch
        fits = fits and other.first_trajectory == self.first_trajectory
        if not fits or other.own.keys() != self.own.keys():
            raise InputError(
                f"out={self!r} is not a state of this simulator like {other!r}. Create one:\n"
                "    out = state.copy()"
            )
        for name, x in other.arrays().items():
            np.copyto(self.arrays()[name], x)
        self.efforts[:], self.steps, self._begun = other.efforts, other.steps, other._begun
        self.status[:], self.failed_at[:] = other.status, other.failed_at
        if self._memory is not None:
            self._memory.number(self.steps)

    def arrays(self) -> dict[str, Array]:
        """Rows of states and parameters by name."""
        return {**self._rows, **self.own, **self.shared}

    def graph_values(self, one: int | None = None) -> dict[str, Array]:
        """Inputs of the step's graph: of one trajectory, or of all on a first axis."""
        compiled = self.simulator.compiled
        rows = {**self._rows, **self.own, "tau": self.efforts}
        at = slice(None) if one is None else slice(one, one + 1)
        inner = {n: known.shape if (known := compiled.states.get(n)) else x[0].shape
                 for n, x in rows.items()}  # fmt: skip
        values = {n: x[at].reshape(-1, *inner[n]) for n, x in rows.items()}
        if one is not None:
            values = {n: x[0] for n, x in values.items()}
        more = {"h": np.array(compiled.dt), "step": np.array(float(self.steps))}
        return values | dict(self.shared) | more

    def memory(self, plan: RunProgram, threads: int = 1) -> RunMemory:
        """This state as the memory of a run."""
        from phipsi.simulation.runs.run_memory import RunMemory

        out = RunMemory(
            plan, {**self.arrays(), **self._starts, "tau": self.efforts}, self.count, threads,
            first_trajectory=self.first_trajectory,
        )  # fmt: skip
        out.status[:], out.failed_at[:] = self.status, self.failed_at
        return out

    @property
    def certificate(self) -> Certificate:
        """How far the steps so far were from the laws of contact."""
        if WORST not in self.laws:
            raise InputError(
                "certificate: this simulator has no contacts. Pass them with the system:\n"
                "    pp.Simulator(pp.System(model, contacts=pp.Contacts(model)), …)"
            )
        sim, numbers = self.simulator, (self.laws[WORST], self.laws[TOTALS])
        turns = contact.contact_rows.turns_at_joints(sim.model, sim.compiled.circuit.joint_rows)
        return Certificate.of(*numbers, self._change(), self.steps, turns=turns)

    def _change(self) -> Array | None:
        """Of kinetic and potential energy since the start (...), J; None if it is not known."""
        sim, graph = self.simulator, self.simulator.compiled.graph
        if sim.episodes is not None or self._begun is None:
            return None
        now = self._rows["q"], self._rows["v"]
        if graph.has_own_bodies:
            run, values = GraphEvaluator([graph.energy(graph.start)]), self.graph_values()
            both = (run({**values, "q": q, "v": v})[0] for q, v in (now, self._begun))
            return np.subtract(*both).reshape(self.batch)
        return impacts.contact_steps.energy_change(sim.model, self._begun, now).reshape(self.batch)

    def set_efforts(self, tau: ArrayLike) -> None:
        """Efforts (..., nv) from now on, besides those of the laws."""
        if type(tau) is not np.ndarray or tau.dtype.kind not in "fiu":
            tau = as_floats("tau", tau)
        try:
            self.efforts.reshape(*self.batch, -1)[...] = tau
        except (TypeError, ValueError):
            array = joint_array(self.simulator.model, "tau", tau, "nv")
            raise InputError(
                f"tau has shape {array.shape}, which does not broadcast to the batch {self.batch}"
            ) from None

    def advance(self) -> None:
        """One step."""
        advance = self._advance
        if advance is None:
            advance = self._advance = self._stepper()
        self.steps += 1
        if advance():
            raise self.failure(None)

    def advance_by(self, steps: int, threads: int) -> None:
        """Several steps."""
        sim = self.simulator
        if self._threads != threads:
            self._advance, self._threads = None, threads
            self._memory = self.memory(sim.compiled.plan(self.own), threads)
            self.status, self.failed_at = self._memory.status, self._memory.failed_at
        assert self._memory is not None
        if not self.count:
            self.steps += steps
            return
        memory = self._memory
        try:
            fine = memory.run_in_pieces(sim.dt, steps, self.steps, records=False)
        finally:  # Ctrl-C leaves the state after the steps so far
            self.steps = memory.next_number
        if not fine:
            raise self.failure(None)

    def run_in_pieces(
        self, memory: RunMemory, tau: Array, steps: int, every: int, bar: Any
    ) -> None:
        """Steps with records, in pieces as short as Ctrl-C and a progress bar `bar` want them.

        `tau` (n, nv), or (n, steps, nv). There is one piece also if there are no steps.
        """
        if not steps:
            tau = tau if tau.ndim == 2 else np.zeros_like(self.efforts)  # none is given
        dt, first = self.simulator.dt, self.steps

        def after(done: int) -> None:
            self.steps = first + done
            bar.advance(done * dt)

        memory.run_in_pieces(dt, steps, first, every, records=True, tau=tau, after=after)

    def _stepper(self) -> Callable[[], Any]:
        sim = self.simulator
        if not self.count:
            return lambda: 0
        self._threads = 0
        memory = self._memory = self.memory(sim.compiled.plan(self.own))
        self.status, self.failed_at = memory.status, memory.failed_at
        if self.count <= _FEW:
            return memory.stepper(sim.dt, self.steps)
        return lambda: not memory.run(sim.dt, 1, self.steps - 1, records=False)

    def failure(self, found: Any) -> SimulationError:
        """What went wrong first, in which trajectory and step."""
        sim, compiled = self.simulator, self.simulator.compiled
        about = self.batch, self.status, self.failed_at, sim.dt, found
        contacts = compiled.mechanism.contact_pairs

        def overlap(i: int) -> str:
            if contacts is None:
                return ""
            gaps = contact.contact_points.contact_points(contacts, self._rows["q"][i]).gap
            return contact.contact_rows.overlaps(contacts, gaps)

        def unsolved(i: int) -> str:
            return compiled.unsolved_contact(self.graph_values(i))

        return failure(compiled.mechanism, *about, unsolved, overlap)


def check_initial(simulator: Any, q: Array, values: Mapping[str, Array]) -> None:
    """Check initial configurations (n, nq) with laws, and inertias among the parameters."""
    check_determined(simulator.compiled.mechanism, q, simulator.compiled.circuit.rows)
    warn_beyond_limits(simulator.model, simulator.laws, q)
    own = simulator.parameters.get(INERTIA)
    if own is not None and INERTIA in values:
        check_inertias(simulator.model, np.asarray(own), values[INERTIA])


def check_state(simulator: Any, given: Any) -> None:
    """Reject what is not a state of a simulator."""
    if getattr(given, "simulator", None) is simulator:
        return
    if isinstance(given, SimulatorState):
        raise InputError(
            "this state belongs to another simulator. Create one with  sim.initial_state(…)"
        )
    raise InputError(
        f"a rollout begins with a state of the simulator, not {type(given).__name__}. Create "
        "one:\n"
        "    state = sim.initial_state(q, v)\n"
        "    run = sim.rollout(state, steps=100)"
    )
