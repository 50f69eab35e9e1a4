"""Chart: exponential coordinates of the whole configuration about a base point.

A state of the integrators is y = [z, v]. z has nv numbers: for joints with q̇ = v the coordinate q
itself, for spherical, free and planar joints the constant rates that lead from the base point to
the configuration in unit time, so that q = base ∘ exp(z). Then ż = v for the former, and for the
latter ż = dexp⁻¹(z) v, exactly. Nothing has to be done to keep quaternions unit: exp gives no
others.

**Source:** Munthe-Kaas 1999; Hairer, Lubich and Wanner 2006, IV.7–8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.model.joints import Composite, Free, Joint, Planar, Spherical
from phipsi.model.model import Model
from phipsi.simulation import exponential as exp
from phipsi.simulation.exponential import ARRAYS, FLOATS

Array = NDArray[Any]

# With more curved joints than this, arrays over the joints are faster than a loop over floats.
_FEW = 40

SIZES = {"spherical": (4, 3), "free": (7, 6), "planar": (3, 3)}
"""Numbers that a curved part has in q and in v."""


@final
class Chart:
    """Configurations of a model in exponential coordinates; see the module.

    **Attributes:** `is_flat`, whether every joint has q̇ = v, so that z = q; `curved`, where the
    exponential coordinates are in z and v; `angular`, the same for rotations only; `flat_q`,
    `flat_v`, where joints with q̇ = v are in q and in v;
    `named_quaternions`, the joints with a quaternion and where it is in q.
    """

    def __init__(self, model: Model) -> None:
        self.nq, self.nv = model.nq, model.nv
        q_add: list[int] = []
        v_add: list[int] = []
        self._spherical: list[tuple[int, int]] = []
        self._free: list[tuple[int, int]] = []
        self._planar: list[tuple[int, int]] = []
        self.named_quaternions: list[tuple[str, slice]] = []
        places = zip(model.joint_names, model.joints, model.q_slices, model.v_slices, strict=True)
        for name, joint, q, v in places:
            for part, i, j in joint_parts(joint, q.start, v.start):
                if part.is_additive:
                    q_add.extend(range(i, i + part.nq))
                    v_add.extend(range(j, j + part.nv))
                    continue
                kinds = {Spherical: self._spherical, Free: self._free, Planar: self._planar}
                kinds[type(part)].append((i, j))
                if not isinstance(part, Planar):
                    self.named_quaternions.append((name, slice(i, i + 4)))
        self.flat_q, self.flat_v = np.array(q_add, dtype=int), np.array(v_add, dtype=int)
        self.is_flat = len(v_add) == self.nv
        flat = set(v_add)
        self.curved = np.array([j for j in range(self.nv) if j not in flat], dtype=int)
        turning = [(j, 3) for _, j in (*self._spherical, *self._free)]
        turning += [(j, 1) for _, j in self._planar]
        self.angular = np.array([j + k for j, n in turning for k in range(n)], dtype=int)
        # translations in the exponential coordinates: their place in z, and the positions in q
        shifts = [(j + 3, i + 4, 3) for i, j in self._free]
        shifts += [(j + 1, i + 1, 2) for i, j in self._planar]
        self._shift_z = np.array([j + k for j, _, n in shifts for k in range(n)], dtype=int)
        self._shift_q = np.array([i + k for _, i, n in shifts for k in range(n)], dtype=int)
        self._turns = [slice(j, j + n) for j, n in turning]
        count = len(self._spherical) + len(self._free) + len(self._planar)
        self._by_joint = count <= _FEW
        kinds = {"spherical": self._spherical, "free": self._free, "planar": self._planar}
        self._places = [(kind, i, j) for kind, places in kinds.items() for i, j in places]

    @property
    def curved_parts(self) -> list[tuple[str, int]]:
        """Kind ("spherical", "free", "planar") of every part with q̇ ≠ v, and its place in v."""
        return [(kind, j) for kind, _, j in self.curved_places]

    @property
    def curved_places(self) -> list[tuple[str, int, int]]:
        """Kind of every part with q̇ ≠ v, and its places in q and v."""
        return list(self._places)

    def start(self, q: Array) -> Array:
        """z (nv,) of q about q itself: the coordinates q̇ = v, and zero for the others."""
        z = np.zeros(self.nv)
        z[self.flat_v] = q[self.flat_q]
        return z

    def size(self, q: Array) -> Array:
        """Natural size (nv,) of the exponential coordinates at q: 1 rad, and the position in m."""
        out = np.zeros(self.nv)
        out[self.angular] = 1.0
        out[self._shift_z] = np.abs(q[self._shift_q])
        return out

    def largest_turn(self, z: Array) -> float:
        """Largest angle (rad) of a rotation in z."""
        return max((float(np.linalg.norm(z[at])) for at in self._turns), default=0.0)

    def point(self, base: Array, z: Array) -> Array:
        """q = base ∘ exp(z), for one configuration (nq,) or batches on leading axes."""
        if self.is_flat:
            return z
        if z.ndim > 1 or base.ndim > 1 or not self._by_joint:
            return self._point_arrays(base, z)
        q = base.copy()
        q[self.flat_q] = z[self.flat_v]
        b, x = base.tolist(), z.tolist()
        for kind, i, j in self._places:
            n, m = SIZES[kind]
            q[i : i + n] = exp.MOVE[kind](b[i : i + n], x[j : j + m], FLOATS)
        return q

    def rate(self, z: Array, v: Array) -> Array:
        """ż = dexp⁻¹(z) v, for one configuration (nv,) or batches on leading axes."""
        if self.is_flat:
            return v
        if z.ndim > 1 or v.ndim > 1 or not self._by_joint:
            return self._rate_arrays(z, v)
        out = v.copy()
        x, r = z.tolist(), v.tolist()
        for kind, _, j in self._places:
            s = slice(j, j + SIZES[kind][1])
            out[s] = exp.RATE[kind](x[s], r[s], FLOATS)
        return out

    def flat_difference(self, q0: Array, q1: Array) -> Array:
        """q1 − q0 (..., nv) of the joints with q̇ = v; zero for the others."""
        out = np.zeros((*q1.shape[:-1], self.nv))
        out[..., self.flat_v] = q1[..., self.flat_q] - q0[..., self.flat_q]
        return out

    def rate_matrix(self, z: Array) -> Array:
        """The matrix dexp⁻¹(z), (..., nv, nv)."""
        columns = self.rate(z[..., None, :], np.eye(self.nv))
        return np.swapaxes(np.broadcast_to(columns, (*z.shape, self.nv)), -1, -2)

    # ---- all joints of a kind at once ---------------------------------------------------------

    def _point_arrays(self, base: Array, z: Array) -> Array:
        batch = np.broadcast_shapes(base.shape[:-1], z.shape[:-1])
        q = np.array(np.broadcast_to(base, (*batch, self.nq)))
        q[..., self.flat_q] = z[..., self.flat_v]
        for kind, i, j in self.columns():
            n, m = SIZES[kind]
            put(q, i, exp.MOVE[kind](pick(base, i, n), pick(z, j, m), ARRAYS))
        return q

    def _rate_arrays(self, z: Array, v: Array) -> Array:
        batch = np.broadcast_shapes(z.shape[:-1], v.shape[:-1])
        out = np.array(np.broadcast_to(v, (*batch, self.nv)))
        for kind, _, j in self.columns():
            m = SIZES[kind][1]
            put(out, j, exp.RATE[kind](pick(z, j, m), pick(v, j, m), ARRAYS))
        return out

    def columns(self) -> Iterator[tuple[str, Array, Array]]:
        """Every kind that there is, with all its places in q and v as index arrays."""
        for kind in SIZES:
            places = np.array([(i, j) for name, i, j in self._places if name == kind], dtype=int)
            if len(places):
                yield kind, places[:, 0], places[:, 1]


def joint_parts(joint: Joint, q: int, v: int) -> Iterator[tuple[Joint, int, int]]:
    """The joint, or the joints a composite consists of, with where they begin in q and v."""
    if not isinstance(joint, Composite):
        yield joint, q, v
        return
    for part in joint.joints:
        yield from joint_parts(part, q, v)
        q, v = q + part.nq, v + part.nv


def pick(values: Array, first: Any, count: int) -> tuple[Array, ...]:
    """Components of all joints of a kind."""
    return tuple(values[..., first + k] for k in range(count))


def put(out: Array, first: Any, entries: Sequence[Any]) -> None:
    """Store components of all joints of a kind."""
    for k, entry in enumerate(entries):
        out[..., first + k] = entry
