"""Steps between joint limits: their coordinates, and the quadratic problem that each one solves.

Inverse kinematics and assembly search with them, many configurations at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.arguments import joint_at
from phipsi.model.model import Model
from phipsi.model.numbers import as_list
from phipsi.model.scalars import NUMPY_OPS

Array = NDArray[Any]

BLOCK_ROUNDS = 6  # rounds in which all wrong coordinates change sides together
ROUNDING = 1e-12  # multipliers and overshoots below this part of the largest are rounding


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
    def in_code(self) -> tuple[Array, Array, Array] | None:
        """Limits of the coordinates of moving rates, and whether each rate moves, (nv,) each.

        None if the steps of some joints are not rates, or nothing moves.
        """
        if self._direct or not self.columns.size:
            return None
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
        for i in self._direct:
            at, of = self.model.v_slices[i], self.model.q_slices[i]
            joint = self.model.joints[i]
            entries = [q[:, k] for k in range(of.start, of.stop)]
            N = np.empty((len(q), joint.nv, joint.nv))
            for k in range(joint.nv):
                unit = [float(j == k) for j in range(joint.nv)]
                for row, rate in enumerate(joint.q_rate(joint.params, entries, unit, NUMPY_OPS)):
                    N[:, row, k] = rate
            jacobian = jacobian.copy()
            jacobian[..., at] = jacobian[..., at] @ np.linalg.inv(N)
        return jacobian[..., self.columns]

    def move(self, q: Array, step: Array) -> Array:
        """The configurations after steps (n, k)."""
        rates = np.zeros((len(q), self.model.nv))
        rates[:, self.columns] = step
        out = self.model.integrate(q, rates)
        for i in self._direct:
            out[:, self.model.q_slices[i]] = (
                q[:, self.model.q_slices[i]] + rates[:, self.model.v_slices[i]]
            )
        return self.inside(out)

    def towards(self, q: Array, rest: Array) -> Array:
        """Step (n, k) that leads from q to another configuration, if nothing is in the way."""
        rates = self.model.difference(q, rest)
        for i in self._direct:
            of = self.model.q_slices[i]
            rates[:, self.model.v_slices[i]] = rest[:, of] - q[:, of]
        return rates[:, self.columns]

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


def bounded_steps(A: Array, g: Array, lower: Array, upper: Array) -> Array:
    """Minimise ½ d* A d + g* d over lower ≤ d ≤ upper, for every element of a batch.

    Block principal pivoting: solve with the coordinates in the active set held at their bounds,
    move every coordinate that violates its bound into the set and release every one whose
    multiplier A d + g pulls it inwards, until none is left. Changing all at once nearly always ends
    after two or three rounds but may cycle, so after a few rounds only the last wrong coordinate
    changes, which ends for positive definite A.

    **Arguments:** `A` (B, k, k), symmetric positive definite; `g` (B, k); `lower` ≤ 0 ≤ `upper`
    (B, k), ∓inf for none. **Returns:** d (B, k), within the bounds.
    **Cost:** one batched k×k solve per round, of the elements that are not done.
    **Source:** Júdice and Pires 1994, Computers & Operations Research 21; Murty 1974.

    >>> import numpy as np
    >>> from phipsi.algorithms.kinematics.bounded_steps import bounded_steps
    >>> A, g = np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[-3.0, -3.0]])
    >>> bounded_steps(A, g, np.array([[-9.0, -9.0]]), np.array([[0.5, 9.0]]))
    array([[0.5 , 1.25]])
    """
    count, k = g.shape
    side = np.zeros((count, k), dtype=np.int8)  # −1 at the lower bound, +1 at the upper, 0 free
    d = np.zeros((count, k))
    left = np.arange(count)
    for turn in range(BLOCK_ROUNDS + 4 * k):
        low, high, at = lower[left], upper[left], side[left]
        held = np.where(at < 0, low, np.where(at > 0, high, 0.0))
        step = _with_held(A[left], g[left], held, at != 0)
        pull = np.einsum("bij,bj->bi", A[left], step) + g[left]
        slack = ROUNDING * np.abs(step).max(axis=-1, keepdims=True)
        noise = ROUNDING * np.abs(g[left]).max(axis=-1, keepdims=True)
        over = np.where(
            at == 0,
            (step > high + slack).astype(np.int8) - (step < low - slack).astype(np.int8),
            np.where(at * pull > noise, np.int8(0), at),
        )
        wrong = over != at
        if turn >= BLOCK_ROUNDS:  # Murty's rule: only the last one
            last = k - 1 - np.argmax(wrong[:, ::-1], axis=-1)
            wrong &= np.arange(k) == last[:, None]
        d[left] = step
        side[left] = np.where(wrong, over, at)
        left = left[wrong.any(axis=-1)]
        if not left.size:
            break
    return np.clip(d, lower, upper)


def _with_held(A: Array, g: Array, held: Array, is_held: Array) -> Array:
    """Solve A d = −g in the free coordinates, the others being held."""
    push = -g - np.einsum("bij,bj->bi", A, held)
    free = ~is_held
    both = free[:, :, None] & free[:, None, :]
    system = np.where(both, A, 0.0)
    k = g.shape[-1]
    # A held coordinate keeps a row of its own with the size of A, so that the matrix stays regular.
    system[:, np.arange(k), np.arange(k)] = np.where(free, np.einsum("bii->bi", A), 1.0)
    d = np.linalg.solve(system, np.where(free, push, 0.0)[..., None])[..., 0]
    return np.where(free, d, held)
