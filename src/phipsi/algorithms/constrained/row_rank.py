"""Which rows of a mechanism are independent: rank by singular values.

Mobility, assembly and cases in doubt ask here; elimination drops rows by the limits of
`backends/rank_limits.py`.

Numbers are compared only after each has been divided by its *natural size*: how large it would be
if nothing in it cancelled, made of the magnitudes of its terms (lever arms, hinge axes, the mass
metric; `ClosureRows.sizes`). What is left is without units and at most of the order of one:

- a row that is rounding, such as the tilt of a pin in a planar linkage, is 1e-16 of its natural
  size and stays small. Divided by its own length it would become a constraint;
- a row of a heavy loop is not small beside one of a light loop, whatever the units are.

A singular value counts if it is above `RANK` of the largest. Rounding leaves 1e-15, and a
mechanism whose loops are open by an angle δ has redundant rows with singular values of up to about
δ (theory/closed-chains 6), so that the limit rises with the gap (`rank_limit`), up to `DEPENDENT`.
That is the square root of the pivot at which elimination takes a row for dependent.

Reasons: docs/decisions/0030.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

RANK = 1e-9
"""Singular values of rows in natural size below this part of the largest are zero."""
DEPENDENT = 1e-5
"""Open loops do not raise that limit further than this."""
_DRIFT = 10.0  # singular values below this many times the gap of the loops are drift
_NOTHING = 1e-14  # of rows whose rank is known
_ROUNDING = 1e-12  # numbers in natural size below this are rounding, also where all of them are


def rank_limit(gap: Array) -> Array:
    """Below what part (n, 1) of the largest a singular value is zero, with loops open by gap (n,).

    `gap` is an angle, or a length divided by the lever arms that it is seen with.
    """
    return np.clip(_DRIFT * gap, RANK, DEPENDENT)[..., None]


@final
class Ranked:
    """Matrices (n, m, k), in natural size, by their singular values.

    `limit` is one number or one per matrix (n, 1); with `rank` the rank is known. Rows that are
    zero in all matrices may be left out by `alive` (m,).

    **Attributes:** `left` (n, m, r), `values` (n, r), descending, `right` (n, r, k); `relative`
    (n, r), the values relative to the largest; `kept` (n, r), which of them count.
    """

    def __init__(
        self,
        matrix: Array,
        limit: float | Array = RANK,
        rank: int | None = None,
        alive: Array | None = None,
    ) -> None:
        some, s, self.right = np.linalg.svd(
            matrix if alive is None else matrix[:, alive], full_matrices=False
        )
        self.kept: NDArray[np.bool_]
        self.values, self.left = s, some
        if alive is not None:
            self.left = np.zeros((*matrix.shape[:2], some.shape[2]))
            self.left[:, alive] = some
        largest = s[:, :1] if s.shape[1] else np.ones((len(s), 1))
        self.relative = s / np.where(largest > 0, largest, 1.0)
        if rank is None:
            self.with_limit(limit)
        else:
            self.kept = (np.arange(s.shape[1]) < rank) & (s > _NOTHING)

    def with_limit(self, limit: float | Array) -> Ranked:
        """Decided again."""
        self.kept = (self.relative > limit) & (self.values > _ROUNDING)
        return self

    @property
    def rank(self) -> Array:
        """(n,)."""
        return self.kept.sum(axis=-1)

    @property
    def is_clear(self) -> bool:
        """Whether open loops make no difference: all values that count are far above zero."""
        return not (self.kept & (self.relative < DEPENDENT)).any()

    @property
    def _inverse(self) -> Array:
        """1 / values, and zero for those that do not count."""
        return np.where(self.kept, 1 / np.where(self.kept, self.values, 1.0), 0.0)

    def pseudo_inverse(self) -> Array:
        """(n, k, m)."""
        return np.swapaxes(self.right, -1, -2) @ (
            self._inverse[..., None] * np.swapaxes(self.left, -1, -2)
        )

    def gram_inverse(self) -> Array:
        """The pseudo-inverse (n, m, m) of matrix @ matrix*."""
        half = self.left * self._inverse[..., None, :]
        return half @ np.swapaxes(half, -1, -2)

    def across(self) -> Array:
        """The projector (n, k, k) onto the span of the rows."""
        kept = self.right * self.kept[..., None]
        return np.swapaxes(kept, -1, -2) @ kept

    def onto(self) -> Array:
        """The projector (n, m, m) onto the range of the matrix."""
        kept = self.left * self.kept[..., None, :]
        return kept @ np.swapaxes(kept, -1, -2)


@final
class Independent:
    """Matrices (n, m, k), in natural size, whose rows are independent beyond doubt, by QR factors.

    It has what `Ranked` has, but for the singular values, and costs much less. `alive` (m,): the
    other rows are zero.
    """

    def __init__(self, Q: Array, inverse: Array, alive: Array) -> None:
        self.Q, self._inverse, self._alive = Q, inverse, alive

    @staticmethod
    def of(matrix: Array, alive: Array, least: float) -> Independent | None:
        """None if a singular value may be below `least`; rows that are not `alive` are zero."""
        if np.count_nonzero(alive) > matrix.shape[2]:
            return None
        Q, R = np.linalg.qr(matrix[:, alive].swapaxes(-1, -2))
        # counting takes a quarter of the time of `any`, and this runs in every stage
        if np.count_nonzero(np.abs(R.diagonal(axis1=1, axis2=2)) < least):
            return None
        inverse = np.linalg.inv(R)
        if np.count_nonzero(np.sqrt(np.square(inverse).sum(axis=(1, 2))) > 1 / least):
            return None
        return Independent(Q, inverse, alive)

    @property
    def rank(self) -> Array:
        """(n,)."""
        return np.full(len(self.Q), int(self._alive.sum()))

    @property
    def smallest(self) -> Array:
        """The smallest singular value (n,), a little high."""
        return 1 / np.maximum(_norms(self._inverse), 1.0)

    def solve(self, right: Array) -> Array:
        """The least x (n, k) with matrix x = right (n, m)."""
        along = np.swapaxes(self._inverse, -1, -2) @ right[:, self._alive, None]
        return (self.Q @ along)[..., 0]

    def pseudo_inverse(self) -> Array:
        """(n, k, m)."""
        out = np.zeros((*self.Q.shape[:2], len(self._alive)))
        out[..., self._alive] = self.Q @ np.swapaxes(self._inverse, -1, -2)
        return out

    def gram_inverse(self) -> Array:
        """The pseudo-inverse (n, m, m) of matrix @ matrix*."""
        out = np.zeros((len(self.Q), len(self._alive), len(self._alive)))
        places = np.ix_(np.arange(len(out)), self._alive, self._alive)
        out[places] = self._inverse @ np.swapaxes(self._inverse, -1, -2)
        return out

    def across(self) -> Array:
        """The projector (n, k, k) onto the span of the rows."""
        return self.Q @ np.swapaxes(self.Q, -1, -2)

    def onto(self) -> Array:
        """The projector (n, m, m) onto the range of the matrix."""
        one = np.diag(self._alive.astype(float))
        return np.broadcast_to(one, (len(self.Q), *one.shape))


def _norms(matrices: Array) -> Array:
    """Largest singular values (n,) of matrices (n, m, m), by power iteration; a little low."""
    if not matrices.shape[-1]:
        return np.ones(len(matrices))
    x = np.square(matrices).sum(axis=-2)[..., None]
    y = x
    for _ in range(4):
        y = matrices @ (x / np.sqrt(np.square(x).sum(axis=1, keepdims=True)))
        x = np.swapaxes(matrices, -1, -2) @ y
    return np.sqrt(np.square(y).sum(axis=(1, 2)))


def least(projector: Array, units: Array) -> Array:
    """L (n, m, m): of all z with projector z = projector y, z = L y has the least |units · z|.

    `projector` (n, m, m) is orthogonal, y and z are in natural size, and `units` (n, m), above 0,
    takes them to the numbers to be minimised. The admissible changes are spanned by W with as many
    of the numbers as parameters as its rank. Those are taken that cost most, so that V = units · W
    / units[chosen], an identity with further rows of the order of one, can be solved for however
    different the units are. Entries of the projector that are rounding become zero, so that
    separate mechanisms stay separate.
    """
    m = units.shape[-1]
    other = np.eye(m) - projector
    other = np.where(np.abs(other) > _ROUNDING, other, 0.0)
    out = np.broadcast_to(np.eye(m), other.shape).copy()
    ranks = np.rint(np.einsum("nii->n", other)).astype(int)
    for k in set(ranks.tolist()) - {0}:
        here = np.flatnonzero(ranks == k)
        Q, unit = other[here], units[here]
        chosen = _largest_rows(unit[..., None] * Q, k)
        across = np.take_along_axis(Q, chosen[..., None], axis=1)
        within = np.take_along_axis(across, chosen[:, None, :], axis=2)
        W = np.swapaxes(np.linalg.solve(within, across), -1, -2)
        own = np.take_along_axis(unit, chosen, axis=1)
        V = unit[..., None] * W / own[:, None]
        back = np.swapaxes(V, -1, -2)
        solved = np.linalg.solve(back @ V, back * unit[:, None]) / own[..., None]
        out[here] -= W @ solved
    return out


def _largest_rows(rows: Array, count: int) -> Array:
    """Which rows (n, count) of matrices (n, m, k) are largest, each without what those before give.

    Every row is worked on in its own size, so that small ones beside large ones keep their digits.
    """
    left, chosen = rows.copy(), np.zeros((len(rows), count), dtype=int)
    for i in range(count):
        sizes = np.square(left).sum(axis=-1)
        chosen[:, i] = sizes.argmax(axis=-1)
        best = np.take_along_axis(left, chosen[:, i, None, None], axis=1)
        direction = best / np.sqrt(np.square(best).sum(axis=-1, keepdims=True))
        for _twice in range(2):  # once leaves rounding errors
            left = left - (left * direction).sum(axis=-1, keepdims=True) * direction
    return chosen


def most_independent(rows: Array, count: int, first: tuple[int, ...] = ()) -> list[int]:
    """`count` of the rows (m, k), in natural size, that determine the others, in ascending order.

    Those of `first` are among them; of the rest always the one that the chosen ones leave most of.
    """
    left = rows.copy()
    chosen: list[int] = []
    for i in range(count):
        norms = np.einsum("rk,rk->r", left, left)
        # rows of the same length to rounding: the first of them, so that names are predictable
        largest = int(np.flatnonzero(norms >= norms.max() * (1 - 1e-9))[0])
        best = first[i] if i < len(first) else largest
        chosen.append(best)
        direction = left[best] / np.sqrt(norms[best])
        for _twice in range(2):  # once leaves rounding errors
            left = left - np.outer(left @ direction, direction)
    return sorted(chosen)


def multiples(rows: Array, chosen: Array) -> Array:
    """C (m, r) with rows = C rows[chosen], for r independent rows that determine the others."""
    Q, R = np.linalg.qr(rows[chosen].T)
    return np.linalg.solve(R, Q.T @ rows.T).T
