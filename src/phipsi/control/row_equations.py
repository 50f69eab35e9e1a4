"""Dense equations with constraint rows, in the graphs of laws: P x + G* f = c, G x = e.

P is symmetric, and positive definite along the motions that keep the rows; elsewhere it may be
zero, as it is for joints without a drive. So with rows in natural size and a weight w,

    B = P + w G* G = L L*,   Y = L⁻¹ G*,   (Y* Y) g = Y* L⁻¹ c − e
    x = L⁻* (L⁻¹ c − Y g),   f = g + w e

B is positive definite, and G x = e makes the added term that of a known force. A row that depends
on those before it is dropped by the criterion of programs (`failures`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.dynamics.dynamics_expressions import ROW_DRIFT
from phipsi.backends.native.kernel.law_code import Area, LawCode
from phipsi.backends.native.targets.code_cache import sources_digest
from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lane_arithmetic import (
    POINTER,
    Emitter,
    Lane,
    fold_loop,
    i64,
    write_loop,
)
from phipsi.backends.rank_limits import ROW_FLOOR, ROW_TOLERANCE
from phipsi.control.compiled_control import called
from phipsi.laws import law_operations as ops
from phipsi.laws.calls import Callee, call
from phipsi.laws.graph import Node
from phipsi.laws.trace import Traced, as_node
from phipsi.model.model import Model
from phipsi.operators import A, J

Array = NDArray[Any]
_SAMPLES = 3

_SINGULAR = 1e-13  # of a pivot of B, of its own entry: there P x does not determine the motion


@final
class RowSolve(Callee):
    """P (n, n), G (m, n), c (n, k), e (m, k), scales (m,) → x (n, k), f (m, k).

    `scales` are one over the natural sizes of the rows. Where P does not determine the motion, the
    results are not numbers, and a run stops with `status` + 8 (i + 1), i the first entry of x that
    is not determined; with 0 nothing is noted. f is zero on rows that are dropped, up to w e.
    """

    def __init__(self, n: int, m: int, k: int, status: int = 0) -> None:
        self.sizes, self.status = (n, m, k), status
        self.shapes = (n, k), (m, k)
        # code in the cache belongs to this text of the formulas
        self.name = f"constrained solve {n} {m} {k} {status} {sources_digest('control')}"
        self.key = *self.sizes, status

    def pull(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The same equations with the weights on the right: the matrix is symmetric."""
        P, G, _, _, scales = args
        zeros = [ops.constant(np.zeros(shape)) for shape in self.shapes]
        bars = [z if w is None else w for z, w in zip(zeros, weights, strict=True)]
        by_c, by_e = call(self, P, G, *bars, scales)
        x, f, y, g = (cast(Any, Traced(node)) for node in (*results, by_c, by_e))
        return [as_node(-(y @ x.T)), as_node(-(g @ x.T) - f @ y.T), by_c, by_e, None]

    # ---- arrays -------------------------------------------------------------------------------

    def arrays(self, *args: Array) -> Sequence[Array]:
        """The formulas above."""
        n, m, _ = self.sizes
        batch = np.broadcast_shapes(
            *(x.shape[: x.ndim - r] for x, r in zip(args, (2, 2, 2, 2, 1), strict=True))
        )
        P, G, c, e = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in args[:4])
        scales = np.broadcast_to(args[4], (*batch, m))
        rows = scales[..., None] * G
        traces = np.einsum("...ii->...", P), np.square(rows).sum(axis=(-1, -2))
        w = np.where(traces[1] > 0, traces[0] / np.where(traces[1] > 0, traces[1], 1.0), 0.0)
        B = P + w[..., None, None] * (np.swapaxes(rows, -1, -2) @ rows)
        L, back = _cholesky(B, lambda i, pivot: pivot > _SINGULAR * B[..., i, i], np.nan)
        Y = _forward(L, back, np.swapaxes(rows, -1, -2))
        z = _forward(L, back, c)
        S = np.swapaxes(Y, -1, -2) @ Y

        def counts(i: int, pivot: Array) -> Array:
            return (pivot > ROW_TOLERANCE * S[..., i, i]) & (w * pivot > ROW_FLOOR)

        T, gains = _cholesky(S, counts, 0.0)
        wanted = scales[..., None] * e
        p = _forward(T, gains, np.swapaxes(Y, -1, -2) @ z - wanted)
        g = _backward(T, gains, p)
        x = _backward(L, back, z - Y @ g)
        return x, scales[..., None] * (g + w[..., None, None] * wanted)

    # ---- machine code -------------------------------------------------------------------------

    def write(self, code: LawCode, args: Sequence[Any]) -> Sequence[Area]:
        """One call of a function, which all calls of this size share."""
        n, m, k = self.sizes
        function = self._function(code.module, code.e)
        results = [code.area(n * k), code.area(m * k)]
        work, missing = code.area(sum(self._work)), code.area(1)
        areas = [*map(code.stored, args), *results, work, missing]
        b, e = code.e.builder, code.e
        b.call(function, [x.base for x in areas])
        if self.status and code.host is not None:
            number = b.load(missing.base, align=8, typ=e.integers)
            status = b.add(b.mul(number, e.integer(8)), e.integer(self.status))
            fine = b.icmp_signed("==", number, e.integer(0))
            code.host.note(b.select(fine, e.integer(0), status))
        return results

    @property
    def _work(self) -> Sequence[int]:
        """Numbers per lane of the matrices that it works with."""
        n, m, k = self.sizes
        return m * n, n * n, n * m, m * m, n, n, m, m, n * k, m * k

    def _function(self, module: ir.Module, of: Emitter) -> ir.Function:
        """The formulas above in loops: the code does not grow with the mechanism."""
        n, m, k = self.sizes
        name = f"phipsi_row_solve_{n}_{m}_{k}_{of.lanes}"
        if name in module.globals:
            return module.globals[name]
        function = ir.Function(module, ir.FunctionType(ir.VOID, [POINTER] * 9), name)
        function.linkage = "internal"
        e = Emitter(of.lanes, fused=of.fused)
        e.builder = b = function.begin()
        P, G, c, wanted, scales, x, f, work, missing = map(Area, function.args)
        starts = [0, *accumulate(self._work)]
        rows, L, Y, T, back, own, gains, owns, z, g = (
            Area(b.at(work.base, 8 * e.lanes * start)) for start in starts[:-1]
        )
        code = LawCode(module, e, {}, lambda _: None)
        at = _LaneMatrices(code)

        w = self._weight(at, P, G, scales, rows)

        self._augment(at, P, rows, w, L)
        b.store(e.integer(0), missing.base, align=8)

        def determined(i: Any, pivot: Lane) -> Any:
            good = e.compare(">", pivot, code.entry(own, i) * _SINGULAR)
            _note_first(at, missing, i, pivot, good)
            return good

        at.cholesky(L, n, own, back, determined, float("nan"))
        at.forward(L, back, n, m, lambda i, r: at(rows, r, i, n), Y)
        at.forward(L, back, n, k, lambda i, q: at(c, i, q, k), z)

        self._gram(at, Y, T)

        def counts(a: Any, pivot: Lane) -> Any:
            larger = e.compare(">", pivot, code.entry(owns, a) * ROW_TOLERANCE)
            return b.and_(larger, e.compare(">", pivot * w, ROW_FLOOR))

        at.cholesky(T, m, owns, gains, counts, 0.0)

        def lacking(a: Any, q: Any) -> Lane:
            moved = at.total(n, lambda i: at(Y, i, a, m) * at(z, i, q, k))
            return moved - at(wanted, a, q, k) * code.entry(scales, a)

        at.forward(T, gains, m, k, lacking, g)
        at.backward(T, gains, m, k, lambda a, q: at(g, a, q, k), g)

        def rest(i: Any, q: Any) -> Lane:
            return at(z, i, q, k) - at.total(m, lambda a: at(Y, i, a, m) * at(g, a, q, k))

        at.backward(L, back, n, k, rest, x)

        def force(a: Any, q: Any) -> None:
            s = code.entry(scales, a)
            at.put(s * (at(g, a, q, k) + w * (s * at(wanted, a, q, k))), f, a, q, k)

        at.each(m, lambda a: at.each(k, lambda q: force(a, q)))
        b.ret_void()
        return function

    def _weight(self, at: _LaneMatrices, P: Area, G: Area, scales: Area, rows: Area) -> Lane:
        """Put G in natural size into `rows`; the weight w with which G* G is as large as P."""
        (n, m, _), code, e = self.sizes, at.code, at.e

        def scaled(r: Any, i: Any) -> None:
            at.put(at(G, r, i, n) * code.entry(scales, r), rows, r, i, n)

        at.each(m, lambda r: at.each(n, lambda i: scaled(r, i)))
        mass = at.total(n, lambda i: at(P, i, i, n))
        size = at.total(m * n, lambda i: code.entry(rows, i) * code.entry(rows, i))
        some = e.compare(">", size, 0.0)
        return e.select(some, mass / e.select(some, size, 1.0), 0.0)

    def _augment(self, at: _LaneMatrices, P: Area, rows: Area, w: Lane, B: Area) -> None:
        """The lower half of B = P + w G* G."""
        n, m, _ = self.sizes

        def entry(i: Any, j: Any) -> None:
            added = at.total(m, lambda r: at(rows, r, i, n) * at(rows, r, j, n))
            at.put(added.times_plus(w, at(P, i, j, n)), B, i, j, n)

        at.each(n, lambda i: at.each(at.next(i), lambda j: entry(i, j)))

    def _gram(self, at: _LaneMatrices, Y: Area, T: Area) -> None:
        """The lower half of T = Y* Y."""
        n, m, _ = self.sizes

        def entry(a: Any, d: Any) -> None:
            at.put(at.total(n, lambda i: at(Y, i, a, m) * at(Y, i, d, m)), T, a, d, m)

        at.each(m, lambda a: at.each(at.next(a), lambda d: entry(a, d)))


def _note_first(at: _LaneMatrices, missing: Area, i: Any, pivot: Lane, good: Any) -> None:
    """Keep i + 1 of the first pivot that is not good; one that is no number has another reason."""
    b, e = at.b, at.e
    known = b.load(missing.base, align=8, typ=e.integers)
    new = b.and_(b.icmp_signed("==", known, e.integer(0)), b.not_(good))
    new = b.and_(new, e.compare("==", pivot, pivot))
    found = b.select(new, e.splat_integer(at.next(i)), known)
    b.store(found, missing.base, align=8)


@final
class RowEquations:
    """The equations P x + G* f = c, G x = e of a mechanism, of traced quantities.

    A tree has one row, which is zero.
    """

    def __init__(self, mechanism: Model) -> None:
        self._mechanism, self._rows = mechanism, rows_of(mechanism)
        self.nv, self.n_rows = mechanism.model.nv, max(1, self._rows.n_rows)

    @cached_property
    def _scales(self) -> Array:
        """One over the natural sizes of the rows, at random configurations."""
        if not self._rows.n_rows:
            return np.ones(1)
        model = self._mechanism.model
        q = model.random_configuration(np.random.default_rng(0), (_SAMPLES,))
        return 1 / ConstraintMetric(self._rows, q).size.mean(axis=0)

    def drift(self, q: Any, v: Any) -> Any:
        """Ġ v."""
        if not self._rows.n_rows:
            return np.zeros(1)
        return called(self._mechanism, ROW_DRIFT, q, v)[0]

    def solved(self, q: Any, P: Any, c: Any, e: Any, status: int = 0) -> Any:
        """x, a vector or columns as c and e are.

        Where P does not determine the motion, a run stops with `status`.
        """
        if len(c.shape) == 1:
            return self.solved(q, P, c.reshape(-1, 1), e.reshape(-1, 1), status)[:, 0]
        if self._rows.n_rows:
            (G,) = called(self._mechanism, A @ J, q, mode="dense")
        else:
            G = np.zeros((1, self.nv))
        callee = RowSolve(self.nv, self.n_rows, c.shape[1], status)
        return Traced(call(callee, *map(as_node, (P, G, c, e, self._scales)))[0])


@final
class _LaneMatrices:
    """Matrices in memory, lane by lane; numbers of rows and columns are ints or of the code."""

    def __init__(self, code: LawCode) -> None:
        self.code, self.e, self.b = code, code.e, code.e.builder

    def next(self, i: Any) -> Any:
        """i + 1."""
        return self.b.add(i, i64(1))

    def _place(self, i: Any, j: Any, columns: int) -> Any:
        return self.b.add(self.b.mul(i, i64(columns)), j)

    def __call__(self, area: Area, i: Any, j: Any, columns: int) -> Lane:
        return self.code.entry(area, self._place(i, j, columns))

    def put(self, x: Lane, area: Area, i: Any, j: Any, columns: int) -> None:
        """Store entry (i, j)."""
        self.code.put(x, area, self._place(i, j, columns))

    def each(self, count: Any, body: Callable[[Any], None]) -> None:
        """For i in range(count)."""
        write_loop(self.b, i64(count) if isinstance(count, int) else count, body)

    def total(self, count: Any, term: Callable[[Any], Lane]) -> Lane:
        """Σ term(i) for i in range(count)."""
        e, start = self.e, [self.e.constant(0.0).value]

        def more(i: Any, sums: list[Any]) -> list[Any]:
            return [(Lane(e, sums[0]) + term(i)).value]

        number = i64(count) if isinstance(count, int) else count
        return Lane(e, fold_loop(self.b, number, 1, start, more)[0])

    def cholesky(
        self,
        A: Area,
        n: int,
        own: Area,
        gains: Area,
        counts: Callable[[Any, Lane], Any],
        otherwise: float,
    ) -> None:
        """A = L L* in the place of A, below the diagonal; `gains` are 1/L_ii.

        Where a pivot does not count, the gain is `otherwise`; `own` keeps the diagonal of A.
        """
        code, e = self.code, self.e

        def row(i: Any) -> None:
            code.put(self(A, i, i, n), own, i)

            def entry(j: Any) -> None:
                known = self.total(j, lambda t: self(A, i, t, n) * self(A, j, t, n))
                self.put((self(A, i, j, n) - known) * code.entry(gains, j), A, i, j, n)

            self.each(i, entry)
            known = self.total(i, lambda t: self(A, i, t, n) * self(A, i, t, n))
            pivot = self(A, i, i, n) - known
            good = counts(i, pivot)
            gain = 1.0 / e.intrinsic("sqrt", e.select(good, pivot, 1.0))
            code.put(e.select(good, gain, otherwise), gains, i)

        self.each(n, row)

    def forward(
        self, L: Area, gains: Area, n: int, k: int, right: Callable[[Any, Any], Lane], out: Area
    ) -> None:
        """L⁻¹ of a matrix (n, k)."""

        def entry(i: Any, q: Any) -> None:
            known = self.total(i, lambda t: self(L, i, t, n) * self(out, t, q, k))
            self.put((right(i, q) - known) * self.code.entry(gains, i), out, i, q, k)

        self.each(n, lambda i: self.each(k, lambda q: entry(i, q)))

    def backward(
        self, L: Area, gains: Area, n: int, k: int, right: Callable[[Any, Any], Lane], out: Area
    ) -> None:
        """L⁻* of a matrix (n, k)."""
        b = self.b

        def entry(done: Any, q: Any) -> None:
            i = b.sub(i64(n - 1), done)

            def term(u: Any) -> Lane:
                t = b.add(self.next(i), u)
                return self(L, t, i, n) * self(out, t, q, k)

            known = self.total(done, term)
            self.put((right(i, q) - known) * self.code.entry(gains, i), out, i, q, k)

        self.each(n, lambda done: self.each(k, lambda q: entry(done, q)))


def _cholesky(
    A: Array, counts: Callable[[int, Array], Array], otherwise: float
) -> tuple[Array, Array]:
    """L (..., n, n) below the diagonal, and 1/L_ii (..., n): `otherwise` where not counted."""
    n = A.shape[-1]
    L, gains = np.zeros(A.shape), np.zeros(A.shape[:-1])
    for i in range(n):
        for j in range(i):
            known = np.einsum("...t,...t->...", L[..., i, :j], L[..., j, :j])
            L[..., i, j] = (A[..., i, j] - known) * gains[..., j]
        pivot = A[..., i, i] - np.square(L[..., i, :i]).sum(axis=-1)
        good = counts(i, pivot)
        gains[..., i] = np.where(good, 1 / np.sqrt(np.where(good, pivot, 1.0)), otherwise)
    return L, gains


def _forward(L: Array, gains: Array, right: Array) -> Array:
    out = np.zeros(right.shape)
    for i in range(right.shape[-2]):
        known = np.einsum("...t,...tk->...k", L[..., i, :i], out[..., :i, :])
        out[..., i, :] = (right[..., i, :] - known) * gains[..., i, None]
    return out


def _backward(L: Array, gains: Array, right: Array) -> Array:
    out = np.zeros(right.shape)
    for i in reversed(range(right.shape[-2])):
        known = np.einsum("...t,...tk->...k", L[..., i + 1 :, i], out[..., i + 1 :, :])
        out[..., i, :] = (right[..., i, :] - known) * gains[..., i, None]
    return out
