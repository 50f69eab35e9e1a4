"""How the coordinates of loops move: free ones by addition, bound ones so that loops stay closed.

A step moves all joints along θ̇ = X ξ̇ and then corrects the bound ones by Newton's method, onto the
loops, so that rounding does not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.spatial import ARRAYS, LieGroup, flat
from phipsi.embedding.loop_motion import LoopMotion
from phipsi.embedding.loop_structure import LoopStructure

Numbers = Sequence[Any]
FloatArray = NDArray[np.float64]

CORRECTIONS = 3
"""Newton steps of a compiled step: the error of one, h² by h² or so, is squared by each."""
_MOST, _CLOSED, _TURN = 30, 1e-13, 0.2


@final
class LoopGroup(LieGroup):
    """The configurations of a structure; its loops are closed at the coordinates `neutral`."""

    rotation = None

    def __init__(self, x: LoopStructure, neutral: Sequence[float]) -> None:
        self._x = x
        self.nq, self.nv = x.nq, len(x.free)
        self.space = self.nv
        self.neutral = tuple(neutral)
        self._flat = flat(self.nv)
        self._places = x.free_places
        self._numbers = [int(c) if c in (0.0, 1.0, -1.0) else c for c in x.geometry]

    def _motion(self, q: Numbers, ops: Any) -> LoopMotion:
        return LoopMotion(self._x, self._numbers, list(q), ops)

    def _retracted(self, q: Numbers, rates: Numbers, ops: Any) -> list[Any]:
        out: list[Any] = list(q)
        for m, i, j in zip(self._x.members, self._x.q_slices, self._x.v_slices, strict=True):
            for group, at, first in m.joint.parts(i.start, j.start):
                moved = group.move(q[at : at + group.nq], rates[first : first + group.nv], ops)
                out[at : at + group.nq] = list(moved)
        return out

    def _corrected(self, q: Numbers, ops: Any) -> list[Any]:
        at = self._motion(q, ops)
        pushed = at.solve_bound([-g for g in at.residuals()])
        whole: list[Any] = [0.0] * self._x.nv
        for j, c in zip(self._x.bound, pushed, strict=True):
            whole[j] = c
        return self._retracted(q, whole, ops)

    def move(self, q: Numbers, z: Numbers, ops: Any) -> Numbers:
        """Along θ̇ = X z, and back onto the loops."""
        start = self._motion(q, ops)
        out = self._retracted(q, start.rates(z), ops)
        for _ in range(CORRECTIONS):
            out = self._corrected(out, ops)
        return out

    moved = move

    def rate(self, z: Numbers, v: Numbers, ops: Any) -> Numbers:
        """The free rates."""
        return v

    def bracket(self, z: Numbers, v: Numbers) -> Numbers:
        """Zero: free coordinates commute."""
        return self._flat.bracket(z, v)

    @property
    def is_flat(self) -> bool:
        """False: bound coordinates follow."""
        return False

    @property
    def own_places(self) -> tuple[int, ...]:
        """Where the free coordinates are."""
        return self._places

    def lift(self, q: Numbers, g: Numbers) -> list[Any]:
        """Weights of all coordinates that stand for weights of the free ones."""
        out: list[Any] = [0.0] * self.nq
        for place, weight in zip(self._places, g, strict=True):
            out[place] = weight
        return out

    # ---- arrays ----------------------------------------------------------------------------------

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """The same, in as many steps as it takes; NaN where the loops cannot follow."""
        start, step = np.asarray(q, dtype=np.float64), np.asarray(dv, dtype=np.float64)
        batch = np.broadcast_shapes(start.shape[:-1], step.shape[:-1])
        at = np.broadcast_to(start, (*batch, self.nq)).reshape(-1, self.nq).copy()
        way = np.broadcast_to(step, (*batch, self.nv)).reshape(-1, self.nv)
        pieces = max(1, int(np.ceil(np.abs(way).max(initial=0.0) / _TURN)))
        pieces = pieces if np.isfinite(way).all() else 1
        with np.errstate(all="ignore"):
            for _ in range(pieces):
                at = self._piece(at, way / pieces)
        return at.reshape(*batch, self.nq)

    def _piece(self, q: FloatArray, z: FloatArray) -> FloatArray:
        parts = [q[:, i] for i in range(self.nq)]
        rates = self._motion(parts, ARRAYS).rates([z[:, i] for i in range(self.nv)])
        parts = self._retracted(parts, rates, ARRAYS)
        gap = np.full(len(q), np.inf)
        for _ in range(_MOST):
            found = self._motion(parts, ARRAYS).residuals()
            gap = np.abs(np.stack(np.broadcast_arrays(*found), axis=-1)).max(axis=-1)
            if (gap < _CLOSED).all():
                break
            parts = self._corrected(parts, ARRAYS)
        out = np.stack(np.broadcast_arrays(*parts), axis=-1)
        out[~(gap < 1e3 * _CLOSED)] = np.nan
        return out

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """The difference of the free coordinates; turns count."""
        places = list(self._places)
        a, b = np.asarray(q0, dtype=np.float64), np.asarray(q1, dtype=np.float64)
        return b[..., places] - a[..., places]

    def random(self, rng: np.random.Generator, batch: tuple[int, ...]) -> FloatArray:
        """Configurations at most half a radian or half a metre from the neutral one, by free rate.

        A way that the loops cannot follow is halved until they can.
        """
        count = int(np.prod(batch, dtype=int))
        out = np.tile(np.array(self.neutral), (count, 1))
        way = rng.uniform(-0.5, 0.5, (count, self.nv))
        left = np.arange(count)
        for _ in range(20):
            found = self.integrate(np.tile(np.array(self.neutral), (len(left), 1)), way[left])
            good = np.isfinite(found).all(axis=-1)
            out[left[good]] = found[good]
            left = left[~good]
            if not len(left):
                break
            way[left] *= 0.5
        return out.reshape(*batch, self.nq)

    # ---- steps -----------------------------------------------------------------------------------

    def log(self, q0: Numbers, q1: Numbers, ops: Any) -> Numbers:
        """The difference of the free coordinates."""
        return tuple(q1[i] - q0[i] for i in self._places)

    def pushed(self, v: Numbers, vdot: Numbers, h: Any) -> Numbers:
        """The rates after h."""
        return self._flat.pushed(v, vdot, h)

    def euler(
        self, q: Numbers, v: Numbers, vdot: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        """q⁺ and v⁺ of the semi-implicit step."""
        new = self.pushed(v, vdot, h)
        return self._ahead(q, new, h, ops), new

    def placed(
        self, q: Numbers, v: Numbers, vdot: Numbers, mean: Numbers, h: Any, ops: Any
    ) -> tuple[Numbers, Numbers]:
        """The same where q moves with the rates `mean`."""
        return self._ahead(q, mean, h, ops), self.pushed(v, vdot, h)

    def _ahead(self, q: Numbers, v: Numbers, h: Any, ops: Any) -> Numbers:
        return self.move(q, [h * c for c in v], ops)

    def middle(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        """The configuration at the middle of a step."""
        return self._ahead(q, w, h * 0.5, ops)

    def end(self, q: Numbers, w: Numbers, h: Any, ops: Any) -> Numbers:
        """The configuration at the end of a step."""
        return self._ahead(q, w, h, ops)

    def wanted(
        self, w: Numbers, h: Any, p: Numbers, force: Numbers, now: Numbers, ops: Any
    ) -> Numbers:
        """The momenta at the middle that follow from p and the forces."""
        return self._flat.wanted(w, h, p, force, now, ops)

    def after(
        self, q: Numbers, w: Numbers, h: Any, p: Numbers, force: Numbers, ops: Any
    ) -> Numbers:
        """Momenta after the step."""
        return self._flat.after(q, w, h, p, force, ops)
