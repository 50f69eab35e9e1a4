"""The code of one step at one body: the arithmetic of operations on lanes of machine code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

from phipsi.core.backends import BLOCK, CANCELLED_TOLERANCE, HINGE, HINGE_TOLERANCE
from phipsi.core.model import LawForm
from phipsi.core.sweeps import (
    Domain,
    Field,
    Kind,
    Reads,
    Rows,
    add,
    entries as en,
    identity,
    inertia_parts,
    lower_half,
    transpose_rows,
)
from phipsi.native import tables
from phipsi.native.kernel import lane_blocks as bl
from phipsi.native.kernel.emit_context import EmitContext
from phipsi.native.kernel.entry_code import entry_code
from phipsi.native.kernel.kernel_inputs import InputReader, block_size
from phipsi.native.kernel.storage_plan import is_rematerialised, is_zero, root, shown
from phipsi.native.matrices.columns import Columns
from phipsi.native.tables import JointCode
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Emitter, Lane, known
from phipsi.native.text.sine_and_logarithm import log_of

# ---- inverses and factors of small blocks --------------------------------------------------------
# Each has a verdict per configuration.

BLOCK_TOLERANCE = 1e-15


def factor(a: en.Rows) -> tuple[en.Rows, list[Any]]:
    """Unit lower L and pivots d with L diag(d) L* = A."""
    n = len(a)
    low = identity(n)
    d: list[Any] = []
    for j in range(n):
        pivot = a[j][j]
        for k in range(j):
            pivot = en.mul_sub(pivot, en.mul(low[j][k], low[j][k]), d[k])
        d.append(pivot)
        for i in range(j + 1, n):
            s = a[i][j]
            for k in range(j):
                s = en.mul_sub(s, en.mul(low[i][k], low[j][k]), d[k])
            low[i][j] = 0 if en.is_zero(s) else s / pivot
    return low, d


def inverse_definite(e: Emitter, a: en.Rows, scale: list[Any] | None) -> tuple[bl.Symmetric, Any]:
    """A⁻¹ of a positive A, and the mask of configurations where A is not positive."""
    n = len(a)
    low, d = factor(a)
    bad = _not_positive(e, d, scale)
    if n == 1:
        return bl.Symmetric([1.0 / e.lift(d[0])], 1), bad
    inv = lower_inverse(low)
    recip = [1.0 / e.lift(x) for x in d]
    out: list[Any] = []
    for i in range(n):
        for j in range(i + 1):
            s: Any = 0
            for k in range(i, n):
                s = en.mul_add(en.mul(inv[k][i], inv[k][j]), recip[k], s)
            out.append(s)
    return bl.Symmetric(out, n), bad


def solving_inverse(e: Emitter, a: en.Rows, scale: list[Any] | None) -> tuple[bl.Inverse, Any]:
    """A⁻¹ of a positive A for products only, and the mask of configurations where it is not.

    One division per pivot, and A⁻¹ is not formed: for blocks of joints with modes.
    """
    n = len(a)
    low = identity(n)
    scaled: en.Rows = [[0] * n for _ in range(n)]  # L diag(d)
    recip: list[Any] = []
    for j in range(n):
        for i in range(j, n):
            s = a[i][j]
            for k in range(j):
                s = en.mul_sub(s, scaled[i][k], low[j][k])
            scaled[i][j] = s
        recip.append(1.0 / e.lift(scaled[j][j]))
        for i in range(j + 1, n):
            low[i][j] = en.mul(scaled[i][j], recip[j])
    d = [scaled[i][i] for i in range(n)]
    return bl.Inverse(a, low, recip), _not_positive(e, d, scale)


def _not_positive(e: Emitter, d: Sequence[Lane], scale: list[Any] | None) -> ir.IRValue:
    """The mask of configurations with a pivot that is not positive, or next to nothing."""
    bad: Any = None
    least = e.number.tolerance(HINGE_TOLERANCE)
    for i, pivot in enumerate(d):
        limit = 0 if scale is None else en.mul(least, scale[i])
        good = e.compare(">", pivot, limit)
        failed = e.builder.not_(good)
        bad = failed if bad is None else e.builder.or_(bad, failed)
    return bad


def lower_inverse(low: en.Rows) -> en.Rows:
    """Inverse of a unit lower triangular matrix."""
    n = len(low)
    inv = identity(n)
    for j in range(n):
        for i in range(j + 1, n):
            s: Any = 0
            for k in range(j, i):
                s = en.mul_sub(s, low[i][k], inv[k][j])
            inv[i][j] = s
    return inv


def inverse_general(e: Emitter, a: en.Rows, term: en.Rows | None = None) -> tuple[bl.Dense, Any]:
    """A⁻¹ by elimination with row exchanges, and the mask of singular configurations.

    The pivot of a column is compared with that column of `term`, if A is a sum with it.
    """
    b = e.builder
    n = len(a)
    largest: Any = 0.0
    for row in a:
        for x in row:
            largest = e.intrinsic("maxnum", e.lift(largest), e.intrinsic("fabs", e.lift(x)))
    limit = largest * e.number.tolerance(BLOCK_TOLERANCE)
    work = [[e.lift(x) for x in row] + [e.constant(float(i == j)) for j in range(n)]
            for i, row in enumerate(a)]  # fmt: skip
    bad: Any = None
    for i in range(n):
        for j in range(i + 1, n):
            swap = e.compare(">", e.intrinsic("fabs", work[j][i]), e.intrinsic("fabs", work[i][i]))
            for k in range(2 * n):
                upper, lower = work[i][k], work[j][k]
                work[i][k] = e.select(swap, lower, upper)
                work[j][k] = e.select(swap, upper, lower)
        least = limit
        for row in term or ():
            size = e.intrinsic("fabs", e.lift(row[i])) * e.number.tolerance(CANCELLED_TOLERANCE)
            least = e.intrinsic("maxnum", least, size)
        good = e.compare(">", e.intrinsic("fabs", work[i][i]), least)
        failed = b.not_(good)
        bad = failed if bad is None else b.or_(bad, failed)
        recip = 1.0 / work[i][i]
        work[i] = [x * recip for x in work[i]]
        for j in range(n):
            if j != i:
                c = work[j][i]
                work[j] = [en.mul_sub(x, c, y) for x, y in zip(work[j], work[i], strict=True)]
    return bl.Dense([row[n:] for row in work]), bad


def cholesky(e: Emitter, a: en.Rows) -> tuple[bl.Dense, Any]:
    """Lower L with L L* = A, and the mask of configurations where A is not positive."""
    low, d = factor(a)
    bad = _not_positive(e, d, None)
    roots = [e.intrinsic("sqrt", e.lift(x)) for x in d]
    n = len(a)
    rows = [[en.mul(low[i][j], roots[j]) if j <= i else 0 for j in range(n)] for i in range(n)]
    return bl.Dense(rows), bad


# ---- operations ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _InTable:
    """Stands for a number that the table of bodies has."""

    place: int


def _template(x: Any) -> Any:
    """The known part of a number in the code of every body with the same joint type, or None."""
    if known(x):
        return x
    return None if x.place is None else _InTable(x.place)


def _dense(rows: Sequence[Sequence[Any]], columns: int = 0) -> bl.Dense:
    return bl.Dense(rows)


@final
class BodyCode:
    """Evaluates fields at one body (or point, or once), each at most once, in the order needed.

    It is the `Arithmetic` of the bodies of operations. Operations without a body read and move
    data; here are their methods, by name.
    """

    def __init__(
        self,
        place: EmitContext,
        inputs: InputReader,
        columns: Columns,
        templates: dict[tuple[Field, str], list[Any]],
        inside: Collection[Field] = (),
        code: JointCode | None = None,
    ) -> None:
        self.place, self.inputs, self.columns, self.templates = place, inputs, columns, templates
        self.inside, self.code = inside, code
        self.values: dict[Field, bl.Block] = {}
        self._trig: dict[int, tuple[Lane, Lane]] = {}
        self._made: dict[str, Any] = {}

    @property
    def emitter(self) -> Emitter:
        """What lanes are now: configurations, or columns of one."""
        return self.place.k.emitter

    # -- values ------------------------------------------------------------------------------------

    def value(self, x: Field) -> bl.Block:
        """The block of x here."""
        if x in self.values:
            return self.values[x]
        if x in self.inside or is_rematerialised(x) or root(x) is not x:  # views are never kept
            body = x.operation.body
            out = getattr(self, "_" + x.op)(x) if body is None else body(self, x)
            if isinstance(out, (bl.Dense, bl.Turning)) and not any(out.rows):
                out = self.zeros(x)  # over the rates of a weld: zero, of the size of x
        else:
            out = self._kept(x)
        self.values[x] = out
        return out

    def _kept(self, x: Field) -> bl.Block:
        """A value from an earlier step: numbers known then are known now."""
        out = self.place.load(x, Reads.HERE, self.zeros(x))
        known_then = self.templates.get((x, self._kind()))
        if known_then is None:
            return out
        pairs = zip(known_then, out.entries, strict=True)
        return out.like([now if then is None else self._again(then) for then, now in pairs])

    def _again(self, then: int | _InTable) -> int | Lane:
        return self.place.constant(then.place) if isinstance(then, _InTable) else then

    def _kind(self) -> str:
        return "" if self.code is None else str(self.code.key)

    def remember(self, x: Field, value: bl.Block) -> None:
        """Note which numbers of a stored value are known, for the code of the same joint type."""
        self.templates[x, self._kind()] = [_template(v) for v in value.entries]

    def size(self, s: str) -> int:
        """Block size at this body."""
        return block_size(s, self.code)

    def zeros(self, x: Field, size: Callable[[str], int] | None = None) -> bl.Block:
        """A block of zeros of the kind in which x is stored, here or where blocks have a size."""
        t, size = x.type, size or self.size
        if t.kind is Kind.INERTIA:
            return bl.LaneInertia([0] * 10)
        if t.kind is Kind.GYRATION:
            return bl.Gyration([0] * 12)
        if t.kind is Kind.TURNING:
            return bl.Turning([[0] * 3] * size(t.rows))
        if t.kind is Kind.RIGID:
            return bl.rigid_zeros()
        if t.kind is Kind.RIGID_T:
            return bl.Transposed(bl.rigid_zeros())
        if t.kind is Kind.STEP:
            return bl.step_zeros(self.size("B") - 6, self.size("b") - 6)
        if t.kind is Kind.SYMMETRIC:
            n = size(t.rows)
            return bl.Symmetric([0] * (n * (n + 1) // 2), n)
        return bl.zeros(size(t.rows), size(t.cols))

    def stored_form(self, x: Field, value: bl.Block) -> bl.Block:
        """The value in the kind in which x is stored."""
        blank = self.zeros(x)
        if type(blank) is type(value):
            return value
        if isinstance(blank, bl.Symmetric):
            rows = value.dense()
            return bl.Symmetric(lower_half(rows), len(rows))
        if isinstance(blank, (bl.Dense, bl.Turning)):
            return type(blank)(value.dense())
        raise AssertionError(
            f"{x!r} is stored as {type(blank).__name__}, not {type(value).__name__}"
        )

    # -- the arithmetic of bodies ------------------------------------------------------------------

    dense, rigid_block = staticmethod(_dense), staticmethod(bl.LaneTransform)
    symmetric, inertia_block = staticmethod(bl.Symmetric), staticmethod(bl.LaneInertia)
    gyration_block, turning_block = staticmethod(bl.Gyration), staticmethod(bl.Turning)
    transpose = staticmethod(bl.transpose)
    times, times_symmetric = staticmethod(bl.times), staticmethod(bl.times_symmetric)
    congruence, combine = staticmethod(bl.congruence), staticmethod(bl.combine)
    number = staticmethod(float)

    def step_block(self, turn: Rows, arm: Sequence[Any], modal: Rows, n: int) -> bl.Block:
        """[[X, 0], [Q* diag(R, R), 0]]."""
        return bl.LaneStep(bl.LaneTransform(turn, arm), modal, n)

    def rows(self, x: Field) -> Rows:
        """All entries of a block."""
        return self.value(x).dense()

    def entries(self, block: bl.Block) -> Rows:
        """All entries of a block that is not that of a field."""
        return block.dense()

    def column(self, x: Field) -> list[int | Lane]:
        """The entries of the first column."""
        return [row[0] for row in self.rows(x)]

    def rigid(self, x: Field) -> tuple[Rows, list[Any]]:
        """R and l of a rigid transformation."""
        value = self.value(x)
        assert isinstance(value, bl.LaneTransform)
        return value.turn, value.arm

    def inertia(self, x: Field) -> tuple[Any, list[Any], Rows]:
        """m, h and J of a rigid inertia."""
        value = self.value(x)
        if isinstance(value, bl.LaneInertia):
            return value.m, value.h, value.moment.dense()
        return inertia_parts(value.dense())

    def by_column(self, x: Field, make: Callable[[Any], list[Any]]) -> bl.Block:
        """The block whose columns are computed from those of x."""
        return bl.Dense(transpose_rows([make(c) for c in transpose_rows(self.rows(x))]))

    def eye(self, x: Field) -> bl.Block:
        """The identity, in the kind in which x is stored."""
        rows = identity(self.size(x.type.rows))
        if x.type.kind is Kind.RIGID:
            return bl.LaneTransform(identity(3), [0] * 3)
        return self.stored_form(x, bl.Dense(rows))

    def sin(self, x: Lane) -> Lane:
        """Sine."""
        return self._sincos(x)[0]

    def cos(self, x: Lane) -> Lane:
        """Cosine."""
        return self._sincos(x)[1]

    def _sincos(self, x: Any) -> tuple[Lane, Lane]:
        key = x.value.name
        if key not in self._trig:
            self._trig[key] = self.inputs.sincos(x)
        return self._trig[key]

    def sqrt(self, x: Lane) -> Lane:
        """Square root."""
        return self.emitter.intrinsic("sqrt", self.emitter.lift(x))

    def entrywise(self, name: str, args: Sequence[Any], data: Any) -> Any:
        """An operation of laws on single numbers."""
        if name in ("sin", "cos", "sqrt"):
            return getattr(self, name)(*args)
        return entry_code(self.emitter, name, [self.emitter.lift(x) for x in args], data)

    def pick(self, s: Any, series: tuple[float, ...], closed: Callable[..., Any]) -> Lane:
        """A power series in s, or the closed form beyond its range."""
        return self.emitter.pick(s, series, closed, self)

    def scaled(self, entries: Sequence[Lane]) -> list[Lane]:
        """Entries times a power of two: the exponent of the largest one, by its bits."""
        e, b = self.emitter, self.emitter.builder
        bits = b.and_(b.bitcast(self.largest(entries).value, e.integers), e.integer(0x7FF << 52))
        factor = 1.0 / Lane(e, b.bitcast(bits, e.vector))
        return [x * factor for x in entries]

    def largest(self, entries: Sequence[Lane]) -> Lane:
        """The largest absolute value."""
        e = self.emitter
        return reduce(self.maximum, (e.intrinsic("fabs", e.lift(x)) for x in entries))

    def maximum(self, x: Lane, y: Lane) -> Lane:
        """The larger of two."""
        return self.emitter.intrinsic("maxnum", x, y)

    # -- the model and the place -------------------------------------------------------------------

    @property
    def joint(self) -> Any:
        """The joint of this body."""
        assert self.code is not None
        return self.code.joint

    def params(self) -> list[int | Lane]:
        """The parameters of the joint: numbers, or places in the table of bodies."""
        assert self.code is not None
        return [
            self.place.constant(tables.PARAMS + i) if p is None else p
            for i, p in enumerate(self.code.params)
        ]

    def coordinates(self, name: str) -> list[Lane]:
        """The part of q or v of the joint, read once, so that sines are computed once."""
        assert self.code is not None
        count = self.code.nq if name == "q" else self.code.nv
        return self.once(name, lambda: [self.inputs.coordinate(name, i) for i in range(count)])

    def entries_at(self, name: str, places: Sequence[int]) -> list[Any]:
        """Numbers of q by their places, of whichever joints."""
        return [self.inputs.entry(name, i) for i in places]

    def parent_modes(self, name: str) -> list[Any]:
        """The modal coordinates or rates of the parent."""
        assert self.code is not None
        count = self.code.port_places if name == "q" else self.code.port_modes
        return [self.inputs.parent_mode(name, i, count) for i in range(count)]

    def once(self, name: str, make: Callable[[], Any]) -> list[Lane]:
        """What `make` returned the first time here."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def own_inertia(self) -> bl.Block:
        """The constant inertia of this body."""
        return self._rigid_inertia().symmetric()

    def placement(self) -> bl.Block:
        """The frame of the joint in that of the parent, as a rigid transformation."""
        at = self.place
        if self.code is not None and not self.code.placed:
            return bl.LaneTransform(identity(3), [0] * 3)
        return bl.LaneTransform(at.matrix(tables.PLACEMENT), [at.constant(9 + i) for i in range(3)])

    def turn(self) -> Rows:
        """The rotation from the simple frame of the body to its own frame."""
        return self.place.turn()

    def outboard_size(self, half: int) -> Lane:
        """How large the inertias outboard are."""
        return self.place.constant(tables.SIZES + half)

    def point_offset(self) -> list[Lane]:
        """Where this point is on its body."""
        return [self.place.point_constant(i) for i in range(3)]

    def point_turn(self) -> Rows:
        """The axes of this point on its body."""
        return [[self.place.point_constant(3 + 3 * i + j) for j in range(3)] for i in range(3)]

    @property
    def link(self) -> tuple[str | LawForm, int, list[Any]]:
        """Form, side and constants of this link."""
        form, side = self.place.link_code
        # of the others, the residual has a constant, but not its derivative
        count = 6 if form in ("body", "world") or isinstance(form, LawForm) else 0
        return form, side, [self.place.link_constant(i) for i in range(count)]

    def frame_in_world(self, poses: Field) -> tuple[Rows, list[Any]]:
        """Rotation and position of this point's frame in the world."""
        pose = self._view(poses, lambda r: self.place.pose_of_host(r, self.zeros(r)))
        turn = self.point_turn()
        out = bl.times(pose, bl.LaneTransform(turn, self.point_offset()))
        assert isinstance(out, bl.LaneTransform)
        return out.turn, out.arm

    def at_mate(self, make: Callable[[], Any]) -> tuple[list[list[Lane] | Lane], ...]:
        """What `make` returns at the mate of this point."""
        return self.place.at_mate(make)

    def at_root(self, root: bl.Block, other: bl.Block) -> bl.Block:
        """One block at roots, another elsewhere."""
        return self.place.at_root(root, other)

    # -- operations that read ----------------------------------------------------------------------

    def _input(self, x: Field) -> bl.Block:
        return self.inputs.read(x, self.code)

    def _seed(self, x: Field) -> bl.Block:
        return self.columns.seed(x, self.size(x.type.rows))

    def _path_seed(self, x: Field) -> bl.Block:
        return self.columns.path_seed(x, self.size(x.type.rows))

    def _unit_rate(self, x: Field) -> bl.Block:
        return self.place.unit(x, self.size(x.type.rows))

    _unit_parameter = _unit_rate

    def _M(self, x: Field) -> bl.Block:
        return self._rigid_inertia()

    def _rigid_inertia(self) -> bl.LaneInertia:
        return bl.LaneInertia([self.place.constant(tables.INERTIA + i) for i in range(10)])

    def _Jr(self, x: Field) -> bl.Block:
        n = self.size("r")
        rotors = n - (0 if self.code is None else self.code.modes)
        entries = [
            self.place.constant(tables.ARMATURE + i) if i == j and i < rotors else 0
            for i in range(n)
            for j in range(i + 1)
        ]
        return bl.Symmetric(entries, n)

    def _table(self, x: Field) -> bl.Block:
        table: Any = x.data
        if table.of_points:
            blank = self.zeros(x)
            return blank.like(self.place.own_of_point(table, len(blank.entries)))
        start = self.place.k.parts.tables.own[table]
        if x.type.domain is Domain.WORLD:
            return bl.Dense([[self.place.gravity(start)]])
        blank = self.zeros(x)
        return blank.like([self.place.constant(start + i) for i in range(len(blank.entries))])

    def _gravity(self, x: Field) -> bl.Block:
        return bl.Dense([[0], [0], [0]] + [[self.place.gravity(3 + i)] for i in range(3)])

    def _selected(self, x: Field) -> bl.Block:
        inside = self.place.selected(str(x.data))
        return bl.Symmetric([inside if i == j else 0 for i in range(6) for j in range(i + 1)], 6)

    def _up(self, x: Field) -> bl.Block:
        return self.place.load(x, Reads.CHILDREN, self.zeros(x))

    def _down(self, x: Field) -> bl.Block:
        out = self.zeros(x) if is_zero(x.args[0]) else self._gather(x)
        if x.data == "local":
            return self.place.off_hubs(out)
        if len(x.args) == 1:
            return out
        root = self.value(x.args[1])
        if self.code is not None and self.code.parent_rows:
            return out  # its parent is a body
        return self.place.at_root(root, out)

    def _gather(self, x: Field) -> bl.Block:
        reads = x.operation.reads
        return self._view(
            x.args[0], lambda r: self.place.load(r, reads, self._zeros_there(r, reads))
        )

    def _zeros_there(self, x: Field, reads: Reads) -> bl.Block:
        """Zeros as x is stored at the body that is read."""
        if reads is not Reads.PARENT:
            return self.zeros(x)
        return self.zeros(x, lambda s: self.size("B" if s == "b" else s))

    _of_mate = _of_point = _of_row = _gather

    def _view(self, y: Field, load: Callable[[Field], bl.Block]) -> bl.Block:
        """y read elsewhere: what is stored, and what y shows of it."""
        stored, factor, transposed = shown(y)
        out = load(stored)
        out = bl.transpose(out) if transposed else out
        return out if factor == 1 else bl.combine([(factor, out)])

    # -- operations that may fail ------------------------------------------------------------------

    def _inv(self, x: Field) -> bl.Block:
        e = self.emitter
        how = x.data[0]  # type: ignore[index]
        a = self.rows(x.args[0])
        if not a:
            return self.value(x.args[0])
        if how == "definite":
            scale = self.column(x.args[1]) if len(x.args) > 1 else None
            modes = self.code is not None and self.code.modes
            of = solving_inverse if modes else inverse_definite
            out, bad = of(e, a, scale)
            self.place.fail(bad, HINGE)
            return out
        term = self.rows(x.args[1]) if len(x.args) > 1 else None
        general, bad = inverse_general(e, a, term)
        self.place.fail(bad, BLOCK)
        return general

    def _chol(self, x: Field) -> bl.Block:
        out, bad = cholesky(self.emitter, self.rows(x.args[0]))
        self.place.fail(bad, HINGE)
        return out

    def _logdet(self, x: Field) -> bl.Block:
        e = self.emitter
        _, d = factor(self.rows(x.args[0]))
        out: Any = 0
        for pivot in d:
            out = add(out, log_of(e, e.lift(pivot)))
        return bl.Dense([[out]])
