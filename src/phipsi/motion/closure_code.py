"""Machine code of constrained steps: accelerations that keep the rows, then the nearest state.

Lanes are trajectories, as in rollout_loop.py. Three kernels do the work of a step: the
accelerations of closed chains, the change of rates x = ℳ⁻¹ G* (A Λ A*)⁻¹ (G v − rates), and the
poses of the bodies, from which residuals g are computed here. One kernel projects both: with v = 0
and g in place of the rates, x is the step of Newton's method; with the rates, v − x are those
nearest in kinetic energy (see motion.py).

A kernel drops rows that follow from those before them, and notes a doubt where such a row asks for
something else than they give. At the start of a step and in the projection of rates the loops are
closed to rounding, so a doubt there is one about the rank: the lane stops. In between the loops are
open by the error of a stage, and redundant rows disagree by as much: that is no doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from phipsi.algorithms.constrained.assembly import ROUNDING
from phipsi.algorithms.constrained.constraint_rows import ClosureRows
from phipsi.backends.failures import CONTRADICTION, DOUBTFUL
from phipsi.backends.native.text.lane_arithmetic import (
    DOUBLE,
    I64,
    POINTER,
    Lane,
    i64,
    write_loop,
)
from phipsi.motion.motion import NEWTON, TOLERANCE
from phipsi.motion.rollout_loop import CLOSURES, Part, Rollout

OPEN = 7
"""Status of a lane whose loops are not closed by the projection; kernels use smaller numbers."""

ACCELERATIONS, CHANGE, POSES = range(3)
"""The kernels, by their place among those of the rollout."""

# Words of a record: numbers, then where its tables begin, in bytes from its start.
_ROWS, _CLOSURES, _TERMS, _COUPLED, _BODIES, _AT = range(6)
_TABLES: tuple[str, ...] = ("ends", "terms", "coupled", "start", "rates")
_END, _TERM, _PAIR, _POSE, _ENTRIES = 13, 15, 3, 16, 13  # numbers of an item


def closure_record(rows: ClosureRows) -> np.ndarray:
    """The rows as 8-byte words that the code reads."""
    t = rows.residual_table()
    count, terms, bodies = len(t.host), len(t.row), rows.model.n_bodies
    turned = t.rotation.reshape(count, 2, 9)
    hosts = np.where(t.host < 0, bodies, t.host)  # the pose behind the last is that of the world
    tables = (
        np.concatenate([_words(hosts)[..., None], turned, t.offset], axis=-1),
        np.concatenate([_words(np.stack([t.row, t.closure], axis=-1)), t.coefficients], axis=-1),
        np.concatenate([_words(np.stack([t.coupled, t.entry], axis=-1)), t.factor[:, None]], -1),
        t.start,
        rows.rates,
    )
    sizes = [table.size for table in tables]
    begin = 8 * (_AT + len(sizes) + np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    head = np.array([rows.n_rows, count, terms, len(t.coupled), bodies, *begin], dtype=np.int64)
    return np.concatenate([head, *(table.ravel().view(np.int64) for table in tables)])


def _words(integers: np.ndarray) -> np.ndarray:
    """Integers as the doubles with the same bits."""
    return np.ascontiguousarray(integers, dtype=np.int64).view(np.float64)


def closure_size(rows: ClosureRows) -> int:
    """Numbers per lane that the projection needs."""
    bodies, count = rows.model.n_bodies, len(rows.pairs)
    return 2 * rows.n_rows + 2 * rows.model.nv + _POSE * (bodies + 1) + _ENTRIES * count


@final
class Closures:
    """Writes the constrained accelerations and the projection of a step."""

    def __init__(self, r: Rollout) -> None:
        self.r, self.b, self.e = r, r.b, r.e
        record = r.b.inttoptr(r.job[CLOSURES], POINTER)
        words = [r.b.load(r.b.at(record, 8 * i), typ=I64) for i in range(_AT + len(_TABLES))]
        self._n = words[:_AT]
        self._at = dict(zip(_TABLES, (r.b.at(record, w) for w in words[_AT:]), strict=True))
        self._g, self._rates = r.area(self._n[_ROWS]), r.area(self._n[_ROWS])
        self._x, self._rest = r.area(r.nv), r.area(r.nv)
        self._poses = r.area(r.b.mul(r.b.add(self._n[_BODIES], i64(1)), i64(_POSE)))
        self._entries = r.area(r.b.mul(self._n[_CLOSURES], i64(_ENTRIES)))
        self._error, self._last = r.b.alloca(r.e.vector), r.b.alloca(r.e.integers)
        self._find_poses = r.program(POSES, [self._poses])
        known: Any = {"v": self._rest, "Udot": self._g}
        self._newton = r.program(CHANGE, [self._x], known, allowed=(DOUBTFUL, CONTRADICTION))
        self._nearest = r.program(CHANGE, [self._x], {"Udot": self._rates})
        self._write_constants()

    def _write_constants(self) -> None:
        """What stays in working memory: the rates of the rows, zero rates, the world's pose."""
        r, b = self.r, self.b
        write_loop(b, self._n[_ROWS], lambda i: r.store(self._number("rates", i), self._rates, i))
        write_loop(b, r.nv, lambda i: r.store(0.0, self._rest, i))
        world = b.mul(self._n[_BODIES], i64(_POSE))
        for i in range(_POSE):
            r.store(float(i % 5 == 0), self._poses, b.add(world, i64(i)))

    def dynamics(self) -> Callable[[int], None]:
        """The accelerations in a stage, into `vdot`."""
        strict = self.r.program(ACCELERATIONS, [self.r.vdot])
        later = self.r.program(ACCELERATIONS, [self.r.vdot], allowed=(DOUBTFUL,))
        return lambda stage: later() if stage else strict()

    # ---- residuals ------------------------------------------------------------------------------

    def _word(self, table: str, i: Any) -> Any:
        where = self.b.at(self._at[table], self.b.mul(i, i64(8)))
        return self.b.load(where, typ=I64)

    def _number(self, table: str, i: Any) -> Lane:
        where = self.b.at(self._at[table], self.b.mul(i, i64(8)))
        return self.e.splat(self.b.load(where, typ=DOUBLE))

    def _numbers(self, table: str, i: Any, first: int, count: int) -> list[Lane]:
        return [self._number(table, self.b.add(i, i64(first + k))) for k in range(count)]

    def _residual(self) -> None:
        """g at q, and the largest of every lane; not a number if one of them is not."""
        r, b = self.r, self.b
        self._find_poses()
        write_loop(b, self._n[_ROWS], lambda i: r.store(self._number("start", i), self._g, i))
        write_loop(b, self._n[_CLOSURES], self._closure)
        write_loop(b, self._n[_TERMS], self._term)
        write_loop(b, self._n[_COUPLED], self._coupled)
        b.store(self.e.constant(0.0).value, self._error)

        def largest(i: Any) -> None:
            error, g = Lane(self.e, b.load(self._error, typ=self.e.vector)), r.load(self._g, i)
            # 0 g is not a number where g is infinite or not a number, and then stays so
            now = self.e.select(self.e.compare(">", error, _size(g)), error, _size(g))
            zero = self.e.constant(0.0)
            b.store((now + error * zero + g * zero).value, self._error)

        write_loop(b, self._n[_ROWS], largest)

    def _frame(self, k: Any, side: int) -> tuple[list[list[Lane]], list[Lane]]:
        """Rotation and origin of one frame of closure k, in the world."""
        r, b = self.r, self.b
        at = b.add(b.mul(k, i64(2 * _END)), i64(side * _END))
        host = b.mul(self._word("ends", at), i64(_POSE))
        pose = [[r.load(self._poses, b.add(host, i64(4 * i + j))) for j in range(4)]
                for i in range(3)]  # fmt: skip
        turn, offset = self._numbers("ends", at, 1, 9), self._numbers("ends", at, 10, 3)
        R = [[_dot(row, turn[j::3]) for j in range(3)] for row in pose]
        return R, [_dot(row, offset) + row[3] for row in pose]

    def _closure(self, k: Any) -> None:
        """R, r and |r| of frame b of a closure, seen from frame a."""
        (R_a, x_a), (R_b, x_b) = self._frame(k, 0), self._frame(k, 1)
        columns_a, columns_b = (list(zip(*R, strict=True)) for R in (R_a, R_b))
        arm = [y - x for x, y in zip(x_a, x_b, strict=True)]
        R = [_dot(a, b) for a in columns_a for b in columns_b]
        r = [_dot(a, arm) for a in columns_a]
        values = [*R, *r, self.e.intrinsic("sqrt", _dot(r, r))]
        self.r.stores(values, self._entries, self.b.mul(k, i64(_ENTRIES)), 0)

    def _term(self, j: Any) -> None:
        at = self.b.mul(j, i64(_TERM))
        row, k = self._word("terms", at), self._word("terms", self.b.add(at, i64(1)))
        total = self.r.load(self._g, row)
        entries = self.r.loads(self._entries, self.b.mul(k, i64(_ENTRIES)), 0, _ENTRIES)
        for x, y in zip(entries, self._numbers("terms", at, 2, _ENTRIES), strict=True):
            total = x.times_plus(y, total)
        self.r.store(total, self._g, row)

    def _coupled(self, j: Any) -> None:
        at = self.b.mul(j, i64(_PAIR))
        row, entry = self._word("coupled", at), self._word("coupled", self.b.add(at, i64(1)))
        factor = self._number("coupled", self.b.add(at, i64(2)))
        total = self.r.load(self.r.q, entry).times_plus(factor, self.r.load(self._g, row))
        self.r.store(total, self._g, row)

    # ---- projection -----------------------------------------------------------------------------

    def project(self) -> None:
        """The nearest state on the constraints; lanes that are there already are left alone."""
        r, b, e = self.r, self.b, self.e
        ones = e.integer(1)
        b.store(r.zero, self._last)
        self._residual()

        def iterate(_: Any) -> None:
            error = Lane(e, b.load(self._error, typ=e.vector))
            over = b.icmp_signed("==", b.load(self._last, typ=e.integers), ones)
            over = b.or_(over, e.compare("<=", error, ROUNDING))
            for failed in (r.bad(), b.load(r.failed, typ=e.integers)):
                over = b.or_(over, b.icmp_signed("!=", failed, r.zero))
            with b.if_then(b.not_(r.all(over))):
                near = b.or_(over, e.compare("<=", error, TOLERANCE))
                b.store(b.select(near, ones, r.zero), self._last)
                self._newton()

                def move(x: Part) -> None:
                    old = x.places(r.q)
                    new = x.group.move(old, x.rates(self._x), x.numbers)
                    pairs = zip(old, new, strict=True)
                    x.put_places([e.select(over, a, c) for a, c in pairs], r.q)

                r.each_part(move)
                self._residual()

        write_loop(b, i64(NEWTON), iterate)
        closed = e.compare("<=", Lane(e, b.load(self._error, typ=e.vector)), TOLERANCE)
        r.note(b.select(closed, r.zero, e.integer(OPEN)))
        self._nearest()
        write_loop(b, r.nv, lambda i: r.store(r.load(r.v, i) - r.load(self._x, i), r.v, i))


def _dot(x: Any, y: Any) -> Any:
    """The product of two vectors, as long as the shorter one."""
    total: Any = None
    for a, c in zip(x, y, strict=False):
        total = a * c if total is None else a.times_plus(c, total)
    return total


def _size(x: Lane) -> Lane:
    return x.emitter.intrinsic("fabs", x)
