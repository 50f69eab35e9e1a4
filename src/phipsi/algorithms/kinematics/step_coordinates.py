"""Coordinates of steps between joint limits, for inverse kinematics and assembly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.backends import joint_at
from phipsi.core.model import Model, as_list
from phipsi.core.spatial import ARRAYS, LieGroup, flat

Array = NDArray[Any]


@final
class StepCoordinates:
    """Coordinates of a bounded step: the rates of the joints that may move.

    Joints whose limits bound coordinates that are not integrals of rates (planar ones) step in
    their coordinates instead, so that the bounds are bounds of the step.
    """

    def __init__(self, model: Model, fixed: Iterable[str], limits: bool) -> None:
        self.model = model
        held = {model.joint_index(name) for name in as_list("fixed", fixed, "['joint1']")}
        moving = np.zeros(model.nv, dtype=bool)
        self._low, self._high = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
        self._q_of = np.zeros(model.nv, dtype=int)
        self._direct: list[int] = []
        for i, joint in enumerate(model.joints):
            at, of = model.v_slices[i], model.q_slices[i]
            moving[at] = i not in held
            if joint.nq != joint.nv:
                continue
            self._q_of[at] = np.arange(of.start, of.stop)
            if limits:
                self._low[at], self._high[at] = model.lower[of], model.upper[of]
            bounded = np.isfinite(self._low[at]).any() or np.isfinite(self._high[at]).any()
            if bounded and not joint.is_additive and i not in held:
                self._direct.append(i)
        self.columns = np.flatnonzero(moving)
        free = [s for i, s in enumerate(model.q_slices) if i not in held]
        self.moving_q = np.concatenate([np.r_[s] for s in free] or [np.zeros(0, dtype=int)])
        # rates whose joints have as many coordinates, with the place of the coordinate in q
        self.places = [
            (r, int(self._q_of[r]))
            for i, joint in enumerate(model.joints)
            if joint.nq == joint.nv
            for r in range(model.v_slices[i].start, model.v_slices[i].stop)
        ]
        self._bounded = np.flatnonzero(moving & (np.isfinite(self._low) | np.isfinite(self._high)))

    @property
    def are_rates(self) -> bool:
        """Whether the coordinates of a step are the rates of all joints that move."""
        return not self._direct

    @property
    def bounded_places(self) -> list[tuple[int, int]]:
        """Those `places` whose coordinates have limits and may move."""
        return [(int(r), int(self._q_of[r])) for r in self._bounded]

    @property
    def limits(self) -> tuple[Array, Array, Array]:
        """Limits of the coordinates of moving rates, and whether each rate moves, (nv,) each."""
        moving = np.zeros(self.model.nv)
        moving[self.columns] = 1.0
        low, high = (
            np.where(moving > 0, x, y) for x, y in ((self._low, -np.inf), (self._high, np.inf))
        )
        return low, high, moving

    def inside(self, q: Array) -> Array:
        """The nearest configuration within the limits."""
        q, at = q.copy(), self._q_of[self._bounded]
        q[..., at] = np.clip(q[..., at], self._low[self._bounded], self._high[self._bounded])
        return q

    def bounds(self, q: Array) -> tuple[Array, Array]:
        """Least and largest step (n, k) from q."""
        at = q[:, self._q_of] if self.model.nv else np.zeros((len(q), 0))
        low, high = self._low - at, self._high - at
        return np.minimum(low, 0.0)[:, self.columns], np.maximum(high, 0.0)[:, self.columns]

    def slopes(self, q: Array, jacobian: Array) -> Array:
        """Derivatives (n, m, k) along the coordinates of the step, from those along the rates."""
        return self.all_slopes(q, jacobian)[..., self.columns]

    def all_slopes(self, q: Array, jacobian: Array) -> Array:
        """The same for all rates, (n, m, nv)."""
        for i in self._direct:
            at, of = self.model.v_slices[i], self.model.q_slices[i]
            joint = self.model.joints[i]
            entries = [q[:, k] for k in range(of.start, of.stop)]
            N = np.empty((len(q), joint.nv, joint.nv))
            for k in range(joint.nv):
                unit = [float(j == k) for j in range(joint.nv)]
                for row, rate in enumerate(joint.q_rate(joint.params, entries, unit, ARRAYS)):
                    N[:, row, k] = rate
            jacobian = jacobian.copy()
            jacobian[..., at] = jacobian[..., at] @ np.linalg.inv(N)
        return jacobian

    def move(self, q: Array, step: Array) -> Array:
        """The configurations after steps (n, k)."""
        rates = np.zeros((len(q), self.model.nv))
        rates[:, self.columns] = step
        return self.move_all(q, rates)

    def move_all(self, q: Array, rates: Array) -> Array:
        """The configurations after steps (n, nv) of all rates."""
        out = self.model.integrate(q, rates)
        for i in self._direct:
            out[:, self.model.q_slices[i]] = (
                q[:, self.model.q_slices[i]] + rates[:, self.model.v_slices[i]]
            )
        return self.inside(out)

    def towards(self, q: Array, rest: Array) -> Array:
        """Step (n, nv) that leads from q to another configuration, if nothing is in the way."""
        rates = self.model.difference(q, rest)
        for i in self._direct:
            of = self.model.q_slices[i]
            rates[:, self.model.v_slices[i]] = rest[:, of] - q[:, of]
        return rates

    @property
    def groups(self) -> list[tuple[LieGroup, int, int]]:
        """The groups that steps move on, with where they begin in q and v; neighbours joined."""
        out: list[tuple[LieGroup, int, int]] = []
        for i, joint in enumerate(self.model.joints):
            q, v = self.model.q_slices[i].start, self.model.v_slices[i].start
            parts = [(flat(joint.nq), q, v)] if i in self._direct else list(joint.parts(q, v))
            for group, at, of in parts:
                last, a, b = out[-1] if out else (None, 0, 0)
                joins = last is not None and last.is_flat and group.is_flat
                if last is not None and joins and (a + last.nq, b + last.nv) == (at, of):
                    out[-1] = flat(last.nq + group.nq), a, b
                elif group.nq:
                    out.append((group, at, of))
        return out

    def joints_at_limits(self, q: Array) -> list[str]:
        """Joints of one configuration (nq,) that stand at a limit, with the limit."""
        found: list[str] = []
        for i in self._bounded:
            value = q[self._q_of[i]]
            for limit in (self._low[i], self._high[i]):
                if abs(value - limit) <= 1e-9 * max(1.0, abs(limit)):
                    joint = joint_at(self.model, self.model.v_slices, int(i))
                    found.append(f"{joint!r} at {limit:.4g}")
                    break
        return found
