"""Paths of systems with loops: some joints move on their own paths, the others close the loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import (
    ConstraintMetric,
    System,
    open_loops_at,
    project_position,
    project_velocity,
)
from phipsi.core.arrays import TRACED, Tracer, as_node, call
from phipsi.core.model import Model, entries_of, rates_of
from phipsi.core.operators import pose
from phipsi.errors import InputError
from phipsi.simulation.control.compiled_control import StopWhere, called
from phipsi.simulation.control.row_equations import RowEquations
from phipsi.simulation.integrators.group_calls import moved
from phipsi.simulation.integrators.motion import TOLERANCE
from phipsi.simulation.runs.rollout import OPEN_PATH

Array = NDArray[Any]
State = tuple[Any, Any, Any]
"""q, v and vdot, of arrays or traced."""

_STEPS = 4  # of Newton's method in a compiled run; the guesses are those of the samples


@final
class FollowingJoints:
    """The joints of a system that follow where the independent ones move on their own paths.

    Configurations along the path are found one from the other (`trace`), so that the loops stay
    closed in the way they are closed at the start; between them Newton's method finishes. Rates and
    accelerations of the dependent joints solve G v = 0 and G vdot = −d/dt(G) v.
    """

    def __init__(
        self, system: System, independent: Sequence[str] | None, q: Array, path: type
    ) -> None:
        self._system, self._rows, self._name = system, system.rows, path.__name__
        if not self._rows.has_position.all():
            row = system.row_names[int(np.argmin(self._rows.has_position))]
            raise InputError(
                f"{self._name} needs holonomic (position-level) constraints, but {row!r} is "
                "nonholonomic or driven (rolling, soft fingers), so positions depend on the "
                "path taken. Prescribe accelerations instead:\n"
                "    pp.simulate(system, …, prescribed={…})"
            )
        held = self._chosen(independent, q)
        self._moving = np.setdiff1d(np.arange(system.nv), held)
        self._held = np.setdiff1d(np.arange(system.nv), self._moving)
        joints = zip(system.q_slices, system.v_slices, strict=True)
        self._follows = np.zeros(system.nq, dtype=bool)
        for of, at in joints:
            self._follows[of] = bool(np.isin(np.arange(at.start, at.stop), self._moving).all())
        self._times, self._q, self._v = np.zeros(1), q[None], np.zeros((1, system.nv))

    def _chosen(self, names: Sequence[str] | None, q: Array) -> Array:
        """Rates of joints that determine the others at q: those named, or the best ones."""
        system, at = self._system, ConstraintMetric(self._rows, q[None])
        places = list(zip(system.joint_names, system.joints, system.v_slices, strict=True))
        count = system.nv - int(at.rank[0])
        among = entries_of(s for _, joint, s in places if joint.nv == 1)
        best = at.independent_rates(among=among) if len(among) >= count else among
        named = best if names is None else rates_of(system, names)
        others = np.setdiff1d(np.arange(system.nv), named)
        rank = int(ConstraintMetric(self._rows, q[None], rates_used=others).rank[0])
        if len(others) == int(at.rank[0]) == rank:
            return named
        hint = f"These do: {[name for name, _, s in places if s.start in best]}"
        raise InputError(
            f"{self._name}: independent={None if names is None else list(names)} must name joints "
            f"with {count} degree{'s' * (count != 1)} of freedom that determine the others at the "
            f"start. {hint}"
        )

    def trace(self, times: Array, state: Callable[[float], State]) -> None:
        """Follow the path from its start, configuration by configuration."""
        found: list[State] = []
        for t in times:
            now = self.closed(float(t), state(float(t)))
            found.append(now)
            self._times, self._q, self._v = np.array([t]), now[0][None], now[1][None]
        self._times, self._q = times, np.array([q for q, _, _ in found])
        self._v = np.array([v for _, v, _ in found])

    def __call__(self, t: Any, state: State) -> State:
        """The state at times (...,), or at a traced time, with the loops closed."""
        return self._traced(t, state) if isinstance(t, Tracer) else self.closed(t, state)

    def closed(self, t: ArrayLike, state: State) -> State:
        """The state at times (...,) with the dependent joints where they close the loops."""
        shape = np.shape(t)
        times = np.asarray(t, dtype=np.float64).reshape(-1)
        q, v, vdot = (np.reshape(x, (len(times), x.shape[-1])) for x in state)
        near = np.clip(np.searchsorted(self._times, times), 0, len(self._times) - 1)
        ahead = (times - self._times[near])[:, None] * self._v[near]
        guess = np.where(self._follows, moved_by(self._system.model, self._q[near], ahead), q)
        found, closed, at = project_position(self._rows, guess, TOLERANCE, moving=self._moving)
        if not closed.all():
            i = int(np.argmin(closed))
            gaps = "\n".join(open_loops_at(self._rows, found[i], TOLERANCE))
            raise InputError(
                f"{self._name}: at t = {times[i]:.6g} s the loops cannot be closed with the "
                "independent joints at the positions of the path:\n"
                f"{gaps}\n"
                "They are out of reach. Pass a path within reach, or other joints:  "
                "independent=[…]"
            )
        own = np.zeros_like(v)
        held = self._held
        own[:, held] = v[:, held]
        rates = project_velocity(at, own)
        own[:, held] = vdot[:, held]
        wanted = -self._rows.bias(found, rates) - np.einsum("nrv,nv->nr", at.whole, own)
        vdot = own + at.spread(at.solve(wanted))
        found, rates, vdot = (x.reshape(*shape, x.shape[-1]) for x in (found, rates, vdot))
        return found, rates, vdot

    # ---- in compiled runs -----------------------------------------------------------------------

    @cached_property
    def _equations(self) -> RowEquations:
        return RowEquations(self._system)

    def _traced(self, t: Any, state: State) -> State:
        """The same at a time that is known only when a law runs, with a fixed number of steps.

        With P = 1 at the independent rates and 0 at the others, P x + G* f = P u, G x = e is solved
        by x = u at the independent ones.
        """
        system, (q, v, vdot) = self._system, state
        held = np.ones(system.nv)
        held[self._moving] = 0.0
        P, still = np.diag(held), np.zeros(system.nv)

        def chosen(values: Array) -> Any:
            out: Any = values[0]
            for i in range(1, len(values)):
                out = np.where(t > self._times[i - 1], values[i], out)
            return out

        ahead = (t - chosen(self._times)) * chosen(self._v)
        guess = moved_by(system.model, chosen(self._q), ahead)
        q = np.where(self._follows, guess, q)
        gap = self._gaps(q)
        for _ in range(_STEPS):
            step = self._equations.solved(q, P, still, -gap)
            q = moved_by(system.model, q, (1 - held) * step)
            gap = self._gaps(q)
        far = np.where(np.max(np.abs(gap)) <= TOLERANCE, 0.0, 1.0)  # 1 if it is not a number
        q = Tracer(call(StopWhere(system.nq, OPEN_PATH), as_node(q), as_node(far))[0])
        v = self._equations.solved(q, P, held * v, np.zeros(system.n_rows))
        return q, v, self._equations.solved(q, P, held * vdot, -self._equations.drift(q, v))

    def _gaps(self, q: Any) -> Any:
        """The residuals (rows,) at a traced configuration."""
        t = self._rows.residual_table()
        (poses,) = called(self._system.model, pose, q)

        def frame(host: int, turn: Array, arm: Array) -> tuple[Any, Any]:
            if host < 0:
                return turn, arm
            R, x = poses[host][:3, :3], poses[host][:3, 3]
            return R @ turn, R @ arm + x

        g: list[Any] = list(t.start)
        for k, (hosts, turns, arms) in enumerate(zip(t.host, t.rotation, t.offset, strict=True)):
            ends = zip(hosts, turns, arms, strict=True)
            (R_a, x_a), (R_b, x_b) = (frame(*end) for end in ends)
            arm = R_a.T @ (x_b - x_a)
            entries = [*(R_a.T @ R_b).reshape(9), *arm]
            for j in np.flatnonzero(t.closure == k):
                *factors, of_length = t.coefficients[j]
                terms = [x * c for x, c in zip(entries, factors, strict=True) if c]
                terms += [np.sqrt(arm @ arm) * of_length] if of_length else []
                g[t.row[j]] = sum(terms, start=g[t.row[j]])
        for row, entry, factor in zip(t.coupled, t.entry, t.factor, strict=True):
            g[row] = g[row] + q[entry] * factor
        for x in t.laws:
            g[x.row] = g[x.row] + x.law.value([q[i] for i in x.places], TRACED)
        return np.stack(g)


def moved_by(model: Model, q: Any, z: Any) -> Any:
    """The configuration q ∘ exp(z), of arrays or of traced values."""
    if isinstance(z, Tracer):
        return Tracer(moved(model, as_node(q), z.node))
    return model.integrate(q, z)
