"""Layout: which entries of q and v belong to which joint, and moving on configuration space."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_numbers, first_not_finite
from phipsi.core.model.body import Limits, Numbers
from phipsi.core.model.compound_body import compound_of
from phipsi.core.model.joint import Joint
from phipsi.core.model.value import read_only
from phipsi.core.spatial import ARRAYS
from phipsi.errors import InputError

FloatArray = NDArray[np.float64]
LAYOUT = ("nq", "nv", "q_slices", "v_slices", "lower", "upper")
"""The attributes that a model has too."""
_HALF_RANGE = np.pi  # of a random coordinate with a limit on one side only


@final
class Layout:
    """q and v of all joints, concatenated in the order of the tree.

    **Attributes:** `nq`, `nv`; `q_slices`, `v_slices`, per joint; `lower`, `upper` (nq,), the
    limits of every coordinate, ∓inf where there are none.
    """

    __slots__ = (
        *LAYOUT, "joints", "_names", "_q_additive", "_v_additive", "_curved", "_limited",
    )  # fmt: skip
    nq: int
    nv: int
    q_slices: tuple[slice, ...]
    v_slices: tuple[slice, ...]
    lower: FloatArray
    upper: FloatArray

    def __init__(
        self, joints: Sequence[Joint], names: Sequence[str], limits: Sequence[Limits]
    ) -> None:
        self.joints = tuple(joints)
        q_ends = list(accumulate((joint.nq for joint in joints), initial=0))
        v_ends = list(accumulate((joint.nv for joint in joints), initial=0))
        self.nq, self.nv = q_ends[-1], v_ends[-1]
        self.q_slices = tuple(map(slice, q_ends[:-1], q_ends[1:]))
        self.v_slices = tuple(map(slice, v_ends[:-1], v_ends[1:]))
        self._names = tuple(names)
        lower, upper = np.full(self.nq, -np.inf), np.full(self.nq, np.inf)
        for where, bounds in zip(self.q_slices, limits, strict=True):
            if bounds is not None:
                lower[where], upper[where] = bounds
        self.lower, self.upper = read_only(lower), read_only(upper)
        self._limited = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
        q_add = np.zeros(self.nq, dtype=bool)
        v_add = np.zeros(self.nv, dtype=bool)
        curved: list[int] = []
        for i, joint in enumerate(joints):
            q_add[self.q_slices[i]] = v_add[self.v_slices[i]] = joint.is_additive
            if not joint.is_additive:
                curved.append(i)
        self._q_additive, self._v_additive = np.flatnonzero(q_add), np.flatnonzero(v_add)
        self._curved = tuple(curved)

    def neutral(self) -> FloatArray:
        """Return q (nq,) at which every body frame coincides with its joint frame."""
        q = np.zeros(self.nq)
        for i in self._curved:
            q[self.q_slices[i]] = self.joints[i].neutral()
        return q

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Random q (*batch, nq), within the limits where there are some."""
        q = np.empty((*batch, self.nq))
        for where, joint in zip(self.q_slices, self.joints, strict=True):
            q[..., where] = joint.random(rng, batch)
        if self._limited.size:
            low, high = self.lower[self._limited], self.upper[self._limited]
            low, high = (
                np.where(np.isfinite(low), low, high - 2 * _HALF_RANGE),
                np.where(np.isfinite(high), high, low + 2 * _HALF_RANGE),
            )
            t = rng.random((*batch, self._limited.size))
            q[..., self._limited] = np.clip(low * (1 - t) + high * t, low, high)
        return q

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """Configuration (..., nq) after moving from q with constant rates dv for unit time."""
        start, step = self.checked_q(q), self.checked_v(dv, "dv")
        batch = _common_batch(real=True, q=start, dv=step)
        out = np.array(np.broadcast_to(start, (*batch, self.nq)), dtype=np.float64)
        out[..., self._q_additive] += step[..., self._v_additive]
        for i in self._curved:
            a, b = self.q_slices[i], self.v_slices[i]
            with np.errstate(all="ignore"):
                out[..., a] = self.joints[i].integrate(start[..., a], step[..., b])
            self._reject_nan(i, out[..., a], start[..., a], step[..., b])
        return out

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Constant rates (..., nv) that lead from q0 to q1 in unit time."""
        start, end = self.checked_q(q0, "q0"), self.checked_q(q1, "q1")
        batch = _common_batch(real=True, q0=start, q1=end)
        out = np.empty((*batch, self.nv))
        out[..., self._v_additive] = end[..., self._q_additive] - start[..., self._q_additive]
        for i in self._curved:
            a, b = self.q_slices[i], self.v_slices[i]
            with np.errstate(all="ignore"):
                out[..., b] = self.joints[i].difference(start[..., a], end[..., a])
            self._reject_nan(i, out[..., b], start[..., a], end[..., a])
        return out

    def qdot(self, q: ArrayLike, v: ArrayLike) -> NDArray[Any]:
        """q̇ = N(q) v, (..., nq); complex arrays are taken as they are."""
        at, rates = self.checked_q(q), self.checked_v(v)
        batch = _common_batch(q=at, v=rates)
        out = np.empty((*batch, self.nq), dtype=np.result_type(at, rates))
        out[..., self._q_additive] = rates[..., self._v_additive]
        for i in self._curved:
            joint, a, b = self.joints[i], self.q_slices[i], self.v_slices[i]
            entries = joint.q_rate(joint.params, _split(at[..., a]), _split(rates[..., b]), ARRAYS)
            for k, entry in enumerate(entries):
                out[..., a.start + k] = entry
        return out

    def _reject_nan(self, i: int, found: NDArray[Any], *given: NDArray[Any]) -> None:
        """Finite numbers that lead to none: a quaternion without a direction."""
        if np.isfinite(found).all() or not all(np.isfinite(x).all() for x in given):
            return
        if compound_of(self.joints[i]) is not None:
            raise InputError(
                f"the loops of {self._names[i]!r} cannot follow: on the way is a dead point, or a "
                "place that they do not reach. Move less far, or embed with other joints as the "
                "independent ones"
            )
        raise InputError(
            f"the quaternion of joint {self._names[i]!r} is zero and points to no rotation, or "
            "other numbers there are too large. A configuration in which all rotations are the "
            "identity is model.neutral()"
        )

    def checked_q(self, q: ArrayLike, what: str = "q") -> NDArray[Any]:
        """Return q as an array (..., nq), or raise an InputError that explains the size."""
        return self._checked(q, self.nq, what, "nq", [joint.nq for joint in self.joints])

    def checked_v(self, v: ArrayLike, what: str = "v") -> NDArray[Any]:
        """Return v as an array (..., nv), or raise an InputError that explains the size."""
        return self._checked(v, self.nv, what, "nv", [joint.nv for joint in self.joints])

    def _checked(
        self, values: ArrayLike, size: int, what: str, total: str, sizes: list[int]
    ) -> NDArray[Any]:
        array = as_numbers(what, values)
        if array.ndim and array.shape[-1] == size:
            index = first_not_finite(array)
            if index is not None:
                self._reject_entry(what, array[index], index, sizes)
            return array
        listed = ", ".join(f"{n!r} {k}" for n, k in zip(self._names[:8], sizes, strict=False))
        more = ", …" if len(self._names) > 8 else ""
        raise InputError(
            f"{what} has shape {array.shape}, but its last axis must be {total} = {size} "
            f"({listed}{more})."
        )

    def _reject_entry(
        self, what: str, entry: Any, index: tuple[int, ...], sizes: list[int]
    ) -> None:
        ends = list(accumulate(sizes))
        joint = self._names[bisect_right(ends, index[-1])]
        batch = f" (element {list(index[:-1])} of the batch)" if index[:-1] else ""
        raise InputError(f"{what} is {entry} at joint {joint!r}{batch}; it must be finite")


def _common_batch(*, real: bool = False, **arrays: NDArray[Any]) -> tuple[int, ...]:
    """The batch axes of all arrays together, which must broadcast."""
    for name, a in arrays.items():
        if real and a.dtype != np.float64:
            raise InputError(f"{name} holds {a.dtype}, but must be real numbers here")
    try:
        return np.broadcast_shapes(*(a.shape[:-1] for a in arrays.values()))
    except ValueError:
        shown = ", ".join(f"{name}: {a.shape[:-1]}" for name, a in arrays.items())
        raise InputError(f"the batch axes do not broadcast: {shown}") from None


def _split(values: NDArray[Any]) -> list[Any]:
    return [values[..., k] for k in range(values.shape[-1])]


def per_rate(numbers: list[tuple[float, ...]], modes: tuple[int, ...]) -> list[float]:
    """Numbers of joints, one for each rate; those of modes are 0."""
    pairs = zip(numbers, modes, strict=True)
    return [x for own, n in pairs for x in (*own, *(0.0,) * n)]


@final
@dataclass(frozen=True, slots=True)
class JointView:
    """One joint of a model: its type, where it is in q and v, and its data.

    `limits` are (lower, upper), one number per coordinate, or None.
    """

    name: str
    index: int
    body: str
    joint: Joint
    q_slice: slice
    v_slice: slice
    armature: Numbers
    damping: Numbers
    limits: Limits
