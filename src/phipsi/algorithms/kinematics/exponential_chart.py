"""Chart: exponential coordinates of the whole configuration about a base point.

A state of the integrators is y = [z, v]. z has nv numbers: for joints with q̇ = v the coordinate q
itself, for spherical, free and planar joints the constant rates that lead from the base point to
the configuration in unit time, so that q = base ∘ exp(z). Then ż = v for the former, and for the
latter ż = dexp⁻¹(z) v, exactly. Quaternions stay unit without further steps: exp gives no
others.

A change of a configuration is a vector δ (nv,) in the directions of v: q ∘ exp(δ). With
q = base ∘ exp(z),

    δq = T δbase + Jr δz,     Jr = dexp(z) = (1 − e^{−ad})/ad,     T = e^{−ad} = 1 − ad Jr

ad the bracket with z of every curved joint; joints with q̇ = v have T = Jr = 1. All matrices are
block diagonal, one block per joint. The formulas are those of the joints' groups.

**Source:** Munthe-Kaas 1999; Hairer, Lubich and Wanner 2006, IV.7–8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model
from phipsi.core.spatial import ARRAYS, FLOATS, LieGroup

Array = NDArray[Any]
Numbers = Sequence[Any]
Blocks = list[tuple[slice, Array]]

# With more curved joints than this, arrays over the joints are faster than a loop over floats.
_FEW = 40
# Imaginary part of a complex step.
_STEP = 1e-30


class ChartBlocks(NamedTuple):
    """Blocks (..., r, r) of the curved joints, each with its place in v."""

    transport: Blocks
    right: Blocks
    rate: Blocks


class EulerBlocks(NamedTuple):
    """Derivatives of a semi-implicit step at the curved joints, each block with its place in v.

    δq⁺ = T δq + h Q_v δv + h² Q_a δv̇ and δv⁺ = V_v δv + h V_a δv̇. Joints with q̇ = v have the
    identity in all five places.
    """

    transport: Blocks
    q_by_v: Blocks
    q_by_a: Blocks
    v_by_v: Blocks
    v_by_a: Blocks


@final
class Chart:
    """Configurations of a model in exponential coordinates; see the module.

    All functions take one configuration or batches on leading axes.

    **Attributes:** `is_flat`, whether every joint has q̇ = v, so that z = q; `parts`, the groups of
    the other joints, with where they begin in q and v; `curved`, where the exponential coordinates
    are in z and v; `angular`, the same for rotations only; `flat_q`, `flat_v`, where joints with
    q̇ = v are in q and in v; `named_quaternions`, the joints with a quaternion and where it is in q;
    `eye`, the identity (nv, nv).
    """

    def __init__(self, model: Model) -> None:
        self.nq, self.nv = model.nq, model.nv
        self.parts: list[tuple[LieGroup, int, int]] = []
        self.named_quaternions: list[tuple[str, slice]] = []
        flat: list[tuple[range, range]] = []
        self._turns: list[slice] = []
        shifts: list[tuple[range, range]] = []  # places of translations in q and in z
        places = zip(model.joint_names, model.joints, model.q_slices, model.v_slices, strict=True)
        for name, joint, q, v in places:
            for group, i, j in joint.parts(q.start, v.start):
                ends = i + group.nq, j + group.nv
                turn = group.rotation
                if group.is_flat:
                    flat.append((range(i, ends[0]), range(j, ends[1])))
                    continue
                self.parts.append((group, i, j))
                if turn is None:  # free rates of loops: as far from a base as rotations are
                    self._turns.append(slice(j, ends[1]))
                    continue
                self._turns.append(slice(j, j + turn.rates))
                shifts.append((range(i + turn.size, ends[0]), range(j + turn.rates, ends[1])))
                if turn.size == 4:
                    self.named_quaternions.append((name, slice(i, i + 4)))
        self.flat_q, self.flat_v = _joined(a for a, _ in flat), _joined(b for _, b in flat)
        self.is_flat = not self.parts
        self.curved = _joined(range(j, j + group.nv) for group, _, j in self.parts)
        self.angular = _joined(range(s.start, s.stop) for s in self._turns)
        self._shift_q, self._shift_z = _joined(a for a, _ in shifts), _joined(b for _, b in shifts)
        self._by_joint = len(self.parts) <= _FEW
        self._slices = [
            (group, slice(i, i + group.nq), slice(j, j + group.nv)) for group, i, j in self.parts
        ]
        self.eye = np.eye(self.nv)

    # ---- coordinates ------------------------------------------------------------------------

    def start(self, q: Array) -> Array:
        """z (..., nv) of q about q itself: the coordinates q̇ = v, and zero for the others."""
        if self.is_flat:
            return q
        if q.ndim == 1:
            z = np.zeros(self.nv)
            z[self.flat_v] = q[self.flat_q]
            return z
        z = np.zeros((*q.shape[:-1], self.nv))
        z[..., self.flat_v] = q[..., self.flat_q]
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

    def flat_difference(self, q0: Array, q1: Array) -> Array:
        """q1 − q0 (..., nv) of the joints with q̇ = v; zero for the others."""
        out = np.zeros_like(q1, shape=(*q1.shape[:-1], self.nv))
        out[..., self.flat_v] = q1[..., self.flat_q] - q0[..., self.flat_q]
        return out

    def difference(self, q0: Array, q1: Array) -> Array:
        """Constant rates (..., nv) that lead from q0 to q1 in unit time, traced values included."""
        out = self.flat_difference(q0, q1)
        for group, i, j in self._slices:
            out[..., j] = group.difference(q0[..., i], q1[..., i])
        return out

    def rate_adjoint(self, z: Array, f: Array) -> Array:
        """dexp⁻¹(z)* f (..., nv)."""
        out = f.copy()
        for group, _, s in self._slices:
            out[..., s] = (f[..., None, s] @ _rate_block(group, z[..., s]))[..., 0, :]
        return out

    def point(self, base: Array, z: Array) -> Array:
        """q = base ∘ exp(z)."""
        if self.is_flat:
            return z
        if self._by_joint and base.ndim == z.ndim == 1:  # the hot path of `simulate`
            q = base.copy()
            q[self.flat_q] = z[self.flat_v]
            b, x = base.tolist(), z.tolist()
            for group, at, to in self._slices:
                q[at] = group.move(b[at], x[to], FLOATS)
            return q
        q = self._copy(base, z)
        q[..., self.flat_q] = z[..., self.flat_v]
        for group, at, _, (b, x), ops in self._curved((base, z), 1):
            _put(q, at, group.move(b, x, ops))
        return q

    def rate(self, z: Array, v: Array) -> Array:
        """ż = dexp⁻¹(z) v."""
        if self.is_flat:
            return v
        if self._by_joint and z.ndim == v.ndim == 1:
            out = v.copy()
            x, r = z.tolist(), v.tolist()
            for group, _, to in self._slices:
                out[to] = group.rate(x[to], r[to], FLOATS)
            return out
        out = self._copy(v, z)
        for group, _, at, (x, r), ops in self._curved((z, v), 0):
            _put(out, at, group.rate(x, r, ops))
        return out

    # ---- steps of rates and momenta; see joint_groups.py --------------------------------------

    def euler(self, q: Array, v: Array, vdot: Array, h: float) -> tuple[Array, Array]:
        """q⁺ and v⁺ of the semi-implicit step."""
        v1 = v + h * vdot
        q1 = self._slid(q, h, v1)
        for group, at, to, x, ops in self._curved((q, v, vdot), 1):
            new_q, new_v = group.euler(x[0], x[1], x[2], h, ops)
            _put(q1, at, new_q)
            _put(v1, to, new_v)
        return q1, v1

    def middle(self, q: Array, w: Array, h: float) -> Array:
        """The configuration at the middle of a step with the rates w."""
        out = self._slid(q, 0.5 * h, w)
        for group, at, _, x, ops in self._curved((q, w), 1):
            _put(out, at, group.middle(x[0], x[1], h, ops))
        return out

    def end(self, q: Array, w: Array, h: float) -> Array:
        """The configuration at the end of a step with the rates w at its middle."""
        out = self._slid(q, h, w)
        for group, at, _, x, ops in self._curved((q, w), 1):
            _put(out, at, group.end(x[0], x[1], h, ops))
        return out

    def wanted(self, w: Array, h: float, p: Array, force: Array, now: Array) -> Array:
        """The momenta at the middle that follow from p and the forces; `now` are those of w."""
        out = p + 0.5 * h * force
        for group, _, to, x, ops in self._curved((w, p, force, now), 0):
            _put(out, to, group.wanted(x[0], h, x[1], x[2], x[3], ops))
        return out

    def after(self, q: Array, w: Array, h: float, p: Array, force: Array) -> Array:
        """Momenta after the step from q."""
        out = p + h * force
        for group, _, to, x, ops in self._curved((q, w, p, force), 1):
            _put(out, to, group.after(x[0], x[1], h, x[2], x[3], ops))
        return out

    # ---- matrices ---------------------------------------------------------------------------

    def bracket(self, z: Array) -> Array:
        """Matrices ad(z) (..., nv, nv); zero for joints with q̇ = v."""
        out = np.zeros((*z.shape, self.nv), dtype=z.dtype)
        for group, _, s in self._slices:
            out[..., s, s] = _matrix(group.bracket, z[..., s], group.nv)
        return out

    def rate_matrix(self, z: Array) -> Array:
        """Matrices dexp⁻¹(z) (..., nv, nv): v → ż."""
        return self.dense(z, [(s, _rate_block(group, z[..., s])) for group, _, s in self._slices])

    def right(self, z: Array) -> Array:
        """Matrices Jr(z) (..., nv, nv): δz → change of base ∘ exp(z)."""
        return self.dense(z, self.blocks(z).right)

    def transport(self, z: Array) -> Array:
        """Matrices T(z) (..., nv, nv): change of the base → change of base ∘ exp(z)."""
        return self.dense(z, self.blocks(z).transport)

    def rate_change(self, z: Array, v: Array) -> Array:
        """Derivatives of dexp⁻¹(z) v by z (..., nv, nv)."""
        batch = np.broadcast_shapes(z.shape[:-1], v.shape[:-1])
        out = np.zeros((*batch, self.nv, self.nv))
        for s, block in self.change_blocks(z, v):
            out[..., s, s] = block
        return out

    def blocks(self, z: Array) -> ChartBlocks:
        """T, Jr and dexp⁻¹ of the curved joints alone; all others are the identity."""
        out = ChartBlocks([], [], [])
        for group, _, s in self._slices:
            rate = _rate_block(group, z[..., s])
            right = np.linalg.inv(rate)
            bracket = _matrix(group.bracket, z[..., s], group.nv)
            blocks = (np.eye(group.nv) - bracket @ right, right, rate)
            for place, block in zip(out, blocks, strict=True):
                place.append((s, block))
        return out

    def change_blocks(self, z: Array, v: Array) -> Blocks:
        """Derivatives of dexp⁻¹(z) v by z of the curved joints; zero for all others."""
        out: Blocks = []
        for group, _, s in self._slices:
            steps = z[..., None, s] + 1j * _STEP * np.eye(group.nv)
            a, b = ([x[..., i] for i in range(group.nv)] for x in (steps, v[..., None, s]))
            columns = np.stack(np.broadcast_arrays(*group.rate(a, b, ARRAYS)), axis=-1)
            out.append((s, np.swapaxes(np.imag(columns), -1, -2) / _STEP))
        return out

    def euler_blocks(self, v: Array, vdot: Array, h: float) -> EulerBlocks:
        """The semi-implicit step, linearised at its rates."""
        out = EulerBlocks([], [], [], [], [])
        for group, _, s in self._slices:
            blocks = _euler_blocks(group, v[..., s], vdot[..., s], h)
            for place, block in zip(out, blocks, strict=True):
                place.append((s, block))
        return out

    def dense(self, like: Array, blocks: Blocks) -> Array:
        """Blocks as a matrix (..., nv, nv), the identity elsewhere; `like` (..., nv)."""
        out = np.array(np.broadcast_to(self.eye, (*like.shape, self.nv)))
        for s, block in blocks:
            out[..., s, s] = block
        return out

    # ---- joints -----------------------------------------------------------------------------

    def _curved(
        self, arrays: tuple[Array, ...], places: int
    ) -> Iterator[tuple[LieGroup, Any, Any, Sequence[Numbers], Any]]:
        """Curved joints: group, where in q and v, the numbers in the arrays, and how to compute.

        The first `places` arrays have the layout of q. One configuration comes joint by joint in
        floats; batches and very many joints come as arrays, all joints of a group at once.
        """
        if self.is_flat:
            return
        if self._by_joint and all(x.ndim == 1 for x in arrays):
            lists = [x.tolist() for x in arrays]
            for group, at, to in self._slices:
                yield (
                    group,
                    at,
                    to,
                    [x[at if k < places else to] for k, x in enumerate(lists)],
                    FLOATS,
                )
            return
        for group in dict.fromkeys(group for group, _, _ in self.parts):
            where = np.array([(i, j) for other, i, j in self.parts if other is group])
            at = [where[:, 0] + k for k in range(group.nq)]
            to = [where[:, 1] + k for k in range(group.nv)]
            found = [
                [x[..., column] for column in (at if k < places else to)]
                for k, x in enumerate(arrays)
            ]
            yield group, at, to, found, ARRAYS

    def _copy(self, x: Array, other: Array) -> Array:
        """A copy of x with the batch of both."""
        if x.ndim == other.ndim == 1:
            return x.copy()
        batch = np.broadcast_shapes(x.shape[:-1], other.shape[:-1])
        return np.array(np.broadcast_to(x, (*batch, x.shape[-1])))

    def _slid(self, q: Array, h: float, v: Array) -> Array:
        """q with the joints that have q̇ = v moved along v."""
        out = self._copy(q, v)
        out[..., self.flat_q] += h * v[..., self.flat_v]
        return out


def chart_of(model: Model) -> Chart:
    """The chart of a model, built once."""
    return model.cached(Chart, lambda: Chart(model))


def _put(out: Array, where: Any, values: Numbers) -> None:
    """Store the components of a joint, or of all joints of a group."""
    if isinstance(where, slice):
        out[where] = values
        return
    for column, entry in zip(where, values, strict=True):
        out[..., column] = entry


def _joined(ranges: Any) -> Array:
    return np.array([i for r in ranges for i in r], dtype=int)


# ---- blocks of one joint ------------------------------------------------------------------------


def _matrix(formula: Callable[[Numbers, Numbers], Numbers], at: Array, columns: int) -> Array:
    """The matrices (..., rows, columns) of a formula that is linear in its second argument."""
    entries = formula([at[..., None, i] for i in range(at.shape[-1])], list(np.eye(columns)))
    out = np.zeros_like(at, shape=(*at.shape[:-1], len(entries), columns))
    for row, entry in enumerate(entries):
        out[..., row, :] = entry
    return out


def _rate_block(group: LieGroup, z: Array) -> Array:
    """The matrix dexp⁻¹(z)."""
    return _matrix(lambda a, b: group.rate(a, b, ARRAYS), z, group.nv)


def _euler_blocks(group: LieGroup, v: Array, vdot: Array, h: float) -> tuple[Array, ...]:
    """ω⁺ = ω + h ω̇, R⁺ = R W with W = exp(h ω⁺), s = u + h (u̇ + ω × u), x⁺ = x + h R s, u⁺ = W* s.

    In body axes δx⁺ = W* (δx − h s × δθ + h δs) and δu⁺ = W* δs + h u⁺ × (Jr δω⁺).
    """
    turn = group.rotation
    assert turn is not None
    n = turn.rates
    omega, u = v[..., :n], v[..., n:]
    w = h * (omega + h * vdot[..., :n])
    turned, right, back = turn.back_matrices(w)
    one = np.broadcast_to(np.eye(n), right.shape)
    corners = (turned, right, right, one, one)
    if not group.space:
        return corners
    d = group.space
    crossed, lever = turn.spin_matrices(omega, u)
    s = u + h * (vdot[..., n:] + (crossed @ u[..., None])[..., 0])
    by_omega, by_u = -h * (back @ lever), back + h * (back @ crossed)
    end = (back @ s[..., None])[..., 0]
    after = h * (turn.spin_matrices(omega, end)[1] @ right)
    zero = np.zeros_like(after)
    lower = (
        (-h * (back @ turn.spin_matrices(omega, s)[1]), back),
        (by_omega, by_u),
        (zero, back),
        (by_omega + after, by_u),
        (after, back),
    )
    out = [np.zeros((*v.shape, n + d)) for _ in corners]
    for x, corner, (left, down) in zip(out, corners, lower, strict=True):
        x[..., :n, :n], x[..., n:, :n], x[..., n:, n:] = corner, left, down
    return tuple(out)
