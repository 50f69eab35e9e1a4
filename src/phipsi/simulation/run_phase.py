"""Phase: a stretch of a run during which the mechanism stays the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.stages import Stages
from phipsi.algorithms.constrained.system import System
from phipsi.forces.force import Elements, Force, State
from phipsi.simulation.topology import Change, Topology
from phipsi.trajectory.trajectory import Trajectory

Array = NDArray[Any]


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
class Phase:
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

    def __init__(self, phase: Phase, elements: Elements) -> None:
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
