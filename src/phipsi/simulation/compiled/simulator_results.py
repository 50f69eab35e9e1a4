"""Results of a Simulator: recorded runs and gradients, and the shapes of what they need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import contact
from phipsi.algorithms import System
from phipsi.core.backends import real_array
from phipsi.core.model import as_list, whole_number
from phipsi.errors import InputError, is_whole, no_attribute
from phipsi.simulation.compiled.one_trajectory import OwnForces, own_mechanism
from phipsi.simulation.compiled.simulator_state import check_state
from phipsi.simulation.runs.rollout_arguments import per_step_efforts
from phipsi.simulation.trajectory.trajectory import Trajectory
from phipsi.support import make_progress, shapes_in_line

if TYPE_CHECKING:
    from phipsi.contact import Certificate, ContactRecord

Array = NDArray[Any]
_OF_TRAJECTORIES = (
    "to_csv", "save", "to_html", "report", "render", "resample", "energy", "momentum",
)  # fmt: skip
"""What a trajectory has and a rollout of several has not."""


class ParameterGradients(dict[str, Any]):
    """Gradients by names of parameters; of one that was not asked for it says how to ask."""

    def __missing__(self, name: object) -> Any:
        known = ", ".join(map(repr, self)) or "none"
        raise KeyError(
            f"there is no gradient with respect to {name!r}, but of: {known}. Ask for it:  "
            f"sim.gradient(…, parameters=({name!r},))"
        )


class SimulatorGradient(NamedTuple):
    """The gradient of a rollout, from `Simulator.gradient`.

    Attributes
    ----------
    value : ndarray, shape (...)
        Σ cotangents · records.
    q : ndarray, shape (..., nv)
        With respect to the initial configuration, in the directions of v.
    v : ndarray, shape (..., nv)
        With respect to the initial velocities.
    laws : dict of str to ndarray
        With respect to the initial states of laws, by name.
    tau : ndarray
        With respect to tau, in the shape that it had.
    parameters : dict of str to ndarray
        With respect to parameters, in the shape that they were passed in: of parameters that all
        trajectories share, the sum.
    """

    value: Array
    q: Array
    v: Array
    laws: dict[str, Array]
    tau: Array
    parameters: dict[str, Array]

    def __repr__(self) -> str:
        return shapes_in_line(self)


class Beginning(NamedTuple):
    """What a run began with: states and parameters by name, as the state of a simulator has them.

    `rows` of states only if the run may be wanted again; `number` of the first step; `tau`
    (n, nv), or (n, steps, nv); `steps`, `record_every`.
    """

    rows: dict[str, Array]
    own: dict[str, Array]
    shared: dict[str, Array]
    status: tuple[Array, Array]
    number: int
    tau: Array
    steps: int
    record_every: int

    def part(self, at: Any) -> Beginning:
        """That of some trajectories."""
        rows, own = ({n: x[at] for n, x in y.items()} for y in (self.rows, self.own))
        status = self.status[0][at], self.status[1][at]
        return self._replace(rows=rows, own=own, status=status, tau=self.tau[at])


def beginning_of(now: Any, names: Sequence[str], tau: Array, steps: int, every: int) -> Beginning:
    """What a run with records `names` begins with: its state `now` goes on, and may be changed.

    Where efforts are not recorded, with the state too: one may ask for them later.
    """
    own, shared = ({n: x.copy() for n, x in y.items()} for y in (now.own, now.shared))
    status = now.status.copy(), now.failed_at.copy()
    if "tau" in names:
        return Beginning({}, own, shared, status, now.steps, now.efforts[:, :0], steps, every)
    again = now.simulator.compiled.circuit.efforts is not None or tau.ndim == 3
    rows = {n: x.copy() for n, x in now._rows.items()} if again else {}
    given = tau.copy() if tau is now.efforts else tau
    return Beginning(rows, own, shared, status, now.steps, given, steps, every)


@final
class Rollout:
    """Records of `Simulator.rollout`: times, states and quantities of all trajectories.

    The first record is the initial state. Each record has the samples of laws and the given tau of
    the step that begins there; the last one has the samples that the next step would take, and the
    tau of the last step. ``rollout[name]`` is a recorded quantity, (..., kept, *shape).

    Parameters
    ----------
    simulator : Simulator
        The simulator.
    state : SimulatorState
        The last state, from which another rollout can continue.
    out : dict of str to ndarray
        Records by name.
    begun : Beginning
        States and parameters at the beginning.

    Attributes
    ----------
    t : ndarray, shape (..., kept)
        Times, s.
    q, v : ndarray, shape (..., kept, nq) and (..., kept, nv)
        Configurations and generalized velocities.
    state : SimulatorState
        The last state.
    complete : bool
        False if the rollout was interrupted.
    status, failed_at : ndarray, shape (...)
        0 where a trajectory went well, or why and in which step it failed.
    contacts : ContactRecord
        Of a system with contacts: gaps and forces by pair.
    certificate : Certificate
        Of a system with contacts: largest residuals of the contact law.
    """

    def __init__(self, simulator: Any, state: Any, out: dict[str, Array], begun: Beginning) -> None:
        self.simulator, self.state, self.complete = simulator, state, True
        self._begun = begun
        self._found = {n: x.reshape((*state.batch, *x.shape[1:])) for n, x in out.items()}

    def end_after(self, kept: int) -> None:
        """Keep only so many records: the run was interrupted."""
        rank = len(self.state.batch)
        self._found = {n: x[(slice(None),) * rank + (slice(kept),)] for n, x in self._found.items()}
        self.complete = False

    def __getitem__(self, name: str) -> Array:
        try:
            return self._found[name]
        except KeyError:
            known = ", ".join(map(repr, self._found))
            raise InputError(
                f"{name!r} was not recorded (available: {known}). Record it:  sim.rollout(…, "
                f"record=('q', 'v', {name!r}))"
            ) from None

    @property
    def t(self) -> Array:
        """Times (..., kept), s."""
        return self["t"]

    @property
    def q(self) -> Array:
        """Configurations (..., kept, nq)."""
        return self["q"]

    @property
    def v(self) -> Array:
        """Rates (..., kept, nv)."""
        return self["v"]

    @property
    def certificate(self) -> Certificate:
        """How far the steps were from the laws of contact, from the start of the state on."""
        return self.state.certificate

    @cached_property
    def contacts(self) -> ContactRecord:
        """Gaps and forces of pairs by name at the recorded times; `check()` prints the certificate.

        Forces need ``record=(…, "contact.impulses")``.
        """
        proof, sim = self.certificate, self.simulator
        pairs = sim.compiled.mechanism.contact_pairs
        impulses = self._found.get(contact.contact_rows.IMPULSES)
        record = contact.contact_record.ContactRecord
        return record(pairs, self.t, self.q, impulses, sim.dt, proof)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            batch = vars(self)["state"].batch if "state" in vars(self) else ()
            one = f"rollout.trajectory({', '.join('0' * len(batch))})"
            told = f": trajectories have it:\n    {one}.{name}"
            raise no_attribute(self, name, dict.fromkeys(_OF_TRAJECTORIES, told))

    def plot(self, joints: Any = None, *, index: Any = ()) -> Any:
        """Plot one trajectory over time: ``rollout.trajectory(index).plot(joints)``.

        Needs matplotlib: ``pip install "phipsi[plot]"``.

        Parameters
        ----------
        joints : str or sequence of str, optional
            Names of the joints to show. Default: all.
        index : int or tuple of int, optional
            Index of the trajectory in the batch, as for arrays.

        Returns
        -------
        Figure
            The figure.
        """
        return self.trajectory(index).plot(joints)

    def trajectory(self, index: Any = ()) -> Trajectory:
        """One trajectory of the rollout as a `Trajectory`, for pages, figures and files.

        It has the inertias, rotors, gravity and element parameters of this trajectory, so that its
        energy is that of the motion. Its `tau` are all torques and forces at the joints, those of
        laws and elements included; if they were not recorded, the trajectory is simulated once more
        when they are read. The energy is NaN where `episodes` randomize parameters of laws and
        elements during the rollout. Everything else that was recorded is in its `records`, is drawn
        by `Trajectory.plot`, and written by `Trajectory.to_csv`.

        Parameters
        ----------
        index : int or tuple of int, optional
            Index of the trajectory in the batch, as for arrays.

        Returns
        -------
        Trajectory
            The motion, at its records.

        Examples
        --------
        >>> import numpy as np, phipsi as pp
        >>> sim = pp.Simulator(pp.examples.planar_arm(1), dt=1e-2)
        >>> sim.rollout(sim.initial_state(np.zeros((3, 1))), steps=100).trajectory(1)
        <Trajectory: 101 samples, t = 0 … 1 s, nq = 1, nv = 1, rk4>
        """
        sim, batch = self.simulator, self.state.batch
        place = index if isinstance(index, tuple) else (index,)
        if len(place) != len(batch):
            raise InputError(
                f"index={index!r} does not select one trajectory of the batch {batch}. Write\n"
                f"    run.trajectory({', '.join('0' * len(batch))})"
            )
        for i, size in zip(place, batch, strict=True):
            if not is_whole(i) or not -size <= i < size:
                raise InputError(
                    f"index={index!r} is outside the batch {batch}: trajectories are numbered "
                    f"from 0 to {size - 1}"
                )
        t, q, v = (x[place] for x in (self.t, self.q, self.v))
        there = np.isfinite(q).all(axis=-1) & np.isfinite(v).all(axis=-1)
        mechanism, contacts = sim.compiled.mechanism, None
        if mechanism.contact_pairs is not None:
            found = self._found.get(contact.contact_rows.IMPULSES)
            impulses = None if found is None else found[place][there]
            parts = t[there], q[there], impulses, sim.dt, self.certificate[place]
            contacts = contact.contact_record.ContactRecord(mechanism.contact_pairs, *parts)
        row = _row(place, batch)
        given = self._given(row)
        of_bodies = {n: given[n] for n in sim.compiled.per_trajectory}
        own = own_mechanism(mechanism, of_bodies) if of_bodies else mechanism
        forces = OwnForces(sim, own.model, given)
        stored = forces.stored if self._is_known(sim.compiled.randomized) else _unknown
        out = Trajectory(
            own.model, t[there], q[there], v[there], lambda: self._efforts(row)[there],
            complete=self.complete and bool(there.all()), integrator=sim.integrator,
            system=own if isinstance(own, System) and own.n_rows else None, stored=stored,
            elements=forces.elements.bound, acting=forces.acting,
        )  # fmt: skip
        own_names = ("t", "q", "v", "tau", contact.contact_rows.IMPULSES)
        out.with_records({n: x[place][there] for n, x in self._found.items() if n not in own_names})
        return out if contacts is None else out.with_contacts(contacts)

    def _is_known(self, randomized: Mapping[str, Any]) -> bool:
        """Whether parameters stay as they are during the run; rejects bodies that change."""
        for name in randomized:
            if name in self.simulator.compiled.per_trajectory:
                raise InputError(
                    f"episodes randomize {name!r} during the rollout, so a trajectory has no "
                    "single model. Use the records  run.q, run.v, run[name]"
                )
        return not randomized

    def _given(self, row: int) -> dict[str, Array]:
        """The parameters of one trajectory."""
        begun, known = self._begun, self.simulator.compiled.parameters
        own = {n: x[row].reshape(known[n].shape) for n, x in begun.own.items()}
        return {**begun.shared, **own}

    def _efforts(self, row: int) -> Array:
        """All efforts (kept, nv) at the joints of one trajectory: recorded, or by running again."""
        sim = self.simulator
        if "tau" in self._found:
            return self._found["tau"].reshape(self.state.count, -1, sim.model.nv)[row]
        begun, kept = self._begun, self.t.shape[-1]
        if not begun.rows:
            return np.repeat(begun.tau[row, None], kept, axis=0)
        steps = min(begun.steps, (kept - 1) * begun.record_every + 1)
        tau = begun.tau[row] if begun.tau.ndim == 2 else begun.tau[row, :steps]
        start = self.state.alone(row, begun.part(slice(row, row + 1)))
        again = sim.rollout(
            start, tau, steps, record_every=begun.record_every, record=("tau",),
            per_step=tau.ndim == 2, on_error="best",
        )  # fmt: skip
        return again["tau"][:kept]

    def part(self, rows: Array) -> Rollout:
        """The trajectories with these numbers, of a run with one leading axis."""
        found = {name: x[rows] for name, x in self._found.items()}
        out = Rollout(self.simulator, self.state.part(rows), found, self._begun.part(rows))
        out.complete = self.complete
        return out

    @property
    def status(self) -> Array:
        """0 where a trajectory went well, (...)."""
        return self.state.status.reshape(self.state.batch)

    @property
    def failed_at(self) -> Array:
        """The number of the last step that was begun, (...)."""
        return self.state.failed_at.reshape(self.state.batch)

    def __repr__(self) -> str:
        names = ", ".join(self._found)
        return f"<Rollout of {self.state!r}: {names}>"


def _row(place: tuple[Any, ...], batch: tuple[int, ...]) -> int:
    """The number of a trajectory in a row of all."""
    if not place:
        return 0
    return int(np.ravel_multi_index([i % n for i, n in zip(place, batch, strict=True)], batch))


def _unknown(t: Array, q: Array, v: Array) -> Array:
    """An energy that is not known."""
    return np.full(np.shape(t), np.nan)


def recorded_run(
    simulator: Any,
    state: Any,
    tau: ArrayLike | None = None,
    steps: int = 1,
    *,
    record_every: int = 1,
    record: Sequence[str] = ("q", "v"),
    per_step: bool | None = None,
    threads: int = 1,
    progress: Any = None,
) -> Rollout:
    """`Simulator.rollout`, with failures in its status and Ctrl-C in `complete`, without a word."""
    check_state(simulator, state)
    steps, every = whole_number("steps", steps, 0), whole_number("record_every", record_every)
    threads = whole_number("threads", threads)
    names = tuple(dict.fromkeys(("t", *as_list("record", record, "['q', 'v']"))))
    plan = simulator.compiled.plan(state.own, names)
    now = state.copy()
    kept = steps // every + 1
    # what is never written stays NaN; where a trajectory has failed, run_code.py writes NaN
    out = {
        name: np.full((now.count, kept, *node.shape), np.nan) for name, node in plan.records.items()
    }
    given = now.efforts
    if tau is not None or per_step is not None:
        given = per_step_efforts(simulator.model, tau, now.batch, steps, per_step)
    run = Rollout(simulator, now, out, beginning_of(now, names, given, steps, every))
    if not now.count:
        return run
    memory = now.memory(plan, threads)
    for name, array in out.items():
        memory.place(f"record {name}", array)
    bar, first = make_progress(progress, steps * simulator.dt), now.steps
    try:
        now.run_in_pieces(memory, given, steps, every, bar)
    except KeyboardInterrupt:
        now.steps = memory.next_number
        run.end_after((now.steps - first) // every + 1)
    finally:
        bar.close()
    now.status, now.failed_at = memory.status, memory.failed_at
    return run


def own_rows(x: ArrayLike, batch: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Rows (n, *shape) of a state or parameter, every trajectory its own."""
    whole = np.broadcast_to(np.asarray(x, dtype=np.float64), (*batch, *shape))
    return np.array(whole.reshape(math.prod(batch), *(shape or (1,))), order="C")


def weights_of(
    name: str, given: ArrayLike, batch: tuple[int, ...], shape: tuple[int, ...]
) -> Array:
    """Cotangents (n, kept, *shape) of a record."""
    array = real_array(f"cotangents[{name!r}]", given)
    try:
        whole = np.broadcast_to(array, (*batch, *shape))
    except ValueError:
        raise InputError(
            f"cotangents[{name!r}] has shape {array.shape}, which does not broadcast to the "
            f"records, {(*batch, *shape)}"
        ) from None
    return np.array(whole.reshape(math.prod(batch), *shape), order="C")
