"""The body, point, link or row that generated code is at: its numbers, records and status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from phipsi.core.backends import CODES
from phipsi.core.model import LawForm
from phipsi.core.operators import ConstantBlocks
from phipsi.core.sweeps import Domain, Field, Reads, entries as en
from phipsi.native import data_record as record, tables
from phipsi.native.kernel import lane_blocks as bl
from phipsi.native.kernel.emission import Emission
from phipsi.native.kernel.storage_plan import is_column
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I32, I64, WORD, Lane, i64


@final
class EmitContext:
    """Where the code of a step runs.

    **Attributes:** `index`, which body, point, link or row it is; of a body, `parent`, `hub`,
    `on_hub` (whether its parent is a hub), `q_offset` and `v_offset`; of a link, `link_code`, its
    form and side; `records`, by the way in which operations read them: a pair each, of what there
    is once and of what columns have; `at_start`, whether the current path starts here.
    """

    index: ir.IRValue
    parent: ir.IRValue
    hub: ir.IRValue
    on_hub: ir.IRValue
    q_offset: ir.IRValue
    v_offset: ir.IRValue
    link_code: tuple[str | LawForm, int]

    def __init__(self, emission: Emission) -> None:
        self.k = emission
        self.domain = Domain.WORLD
        self.records: dict[Reads, tuple[Any, Any]] = {}
        self.at_start = False

    # -- going there -------------------------------------------------------------------------------

    def at_body(self, k: ir.IRValue) -> ir.IRValue:
        """Go to body k; the number of its joint's type."""
        m, b = self.k, self.k.b
        self.domain, self.index = Domain.BODY, k
        size = i64(m.integer_bytes * tables.N_INTEGERS)
        row = m.at(m.table(record.INTEGERS), b.mul(k, size))
        word = record.INTEGERS
        numbers = [m.read_integer(word, row, i64(i), i) for i in range(tables.N_INTEGERS)]
        self.parent, self.hub, self.on_hub, self.q_offset, self.v_offset = (
            numbers[i]
            for i in (tables.PARENT, tables.HUB, tables.ON_HUB, tables.Q_OFFSET, tables.V_OFFSET)
        )
        self._go_to_row(k)
        self.records = {
            Reads.HERE: m.both(Domain.BODY, b.add(k, i64(1))),
            Reads.PARENT: m.both(Domain.BODY, b.add(self.parent, i64(1))),
        }
        self.old_sum = m.both(Domain.BODY, numbers[tables.OLD_SUM])
        self.records[Reads.CHILDREN] = m.both(Domain.BODY, numbers[tables.SUM])
        return numbers[tables.KIND]

    def _go_to_row(self, k: ir.IRValue) -> None:
        """The numbers of body k: its row of the table, or one that equal bodies share."""
        m, b = self.k, self.k.b
        start = m.table(record.DOUBLES)
        if not m.shares_rows:
            self._table = m.at(start, b.mul(k, i64(m.unit * m.columns)))
            return
        self._head = m.at(start, b.mul(k, i64(WORD * tables.HEAD)))
        self._table = m.at(start, b.load(self._head, typ=I64))

    def at_other(self, domain: Domain, k: ir.IRValue) -> ir.IRValue | None:
        """Go to point, link or row k; for a link, the number of its kind."""
        self.domain, self.index = domain, k
        here = self.k.both(domain, k)
        kind = None
        if domain is Domain.POINT:
            self._at_point(k)
        elif domain is Domain.LINK:
            kind = self._at_link(k)
        self.records[Reads.HERE] = here
        return kind

    def _at_point(self, p: ir.IRValue) -> None:
        m = self.k
        size = i64(m.unit * tables.N_POINT_NUMBERS)
        self._point_table = m.at(m.table(record.POINT_DOUBLES), m.b.mul(p, size))
        self._host, self._mate, self._chosen = (
            m.integer(record.POINT_INTEGERS, tables.N_POINT_INTEGERS, p, i)
            for i in (tables.POINT_BODY, tables.POINT_MATE, tables.POINT_CHOSEN)
        )
        self.records[Reads.HOST] = m.both(Domain.BODY, m.b.add(self._host, i64(1)))
        self.records[Reads.MATE] = m.both(Domain.POINT, self._mate)

    def _at_link(self, link: ir.IRValue) -> ir.IRValue:
        m = self.k
        point, row, kind = (
            m.integer(record.LINK_INTEGERS, tables.N_LINK_INTEGERS, link, i)
            for i in (tables.LINK_POINT, tables.LINK_ROW, tables.LINK_KIND)
        )
        self._at_point(point)
        self.records[Reads.POINT] = m.both(Domain.POINT, point)
        self.records[Reads.ROW] = m.both(Domain.ROW, row)
        size = i64(m.unit * tables.N_LINK_NUMBERS)
        self._link_table = m.at(m.table(record.LINK_DOUBLES), m.b.mul(link, size))
        return kind

    def at_mate(self, make: Callable[[], Any]) -> tuple[list[list[Lane] | Lane], ...]:
        """What `make` returns at the mate of the current point."""
        saved = dict(vars(self), records=dict(self.records))
        self._at_point(self._mate)
        out = make()
        vars(self).update(saved)
        return out

    # -- numbers of the model ----------------------------------------------------------------------

    def _number(self, table: ir.IRValue, i: int) -> Lane:
        k, e = self.k, self.k.emitter
        return e.splat(k.b.load(k.at(table, i64(k.unit * i)), typ=e.number.type))

    def constant(self, i: int) -> Lane:
        """A number of the body's table."""
        if self.k.shares_rows and tables.SIZES <= i < tables.PARAMS:
            found = self._number(self._head, 1 + i - tables.SIZES)
        else:
            found = self._number(self._table, self.k.column(i))
        return Lane(found.emitter, found.value, i)

    def matrix(self, start: int, *, transposed: bool = False) -> en.Rows:
        """A 3 × 3 matrix of the body's table."""
        rows = [[start + 3 * i + j for j in range(3)] for i in range(3)]
        rows = en.transpose_rows(rows) if transposed else rows
        return [[self.constant(i) for i in row] for row in rows]

    def turn(self) -> en.Rows:
        """Rotation from the simple frame of the body to its own frame."""
        return self.matrix(tables.TURN)

    def into_simple_frame(self, x: bl.Dense) -> bl.Dense:
        """A body vector in body axes as one in the simple frame."""
        return bl.turned(x, en.transpose_rows(self.turn()))

    def gravity(self, i: int) -> Lane:
        """A component of [0; −g]."""
        return self._number(self.k.table(record.GRAVITY), i)

    def point_constant(self, i: int) -> Lane:
        """A number of the point's table."""
        return self._number(self._point_table, i)

    def own_of_point(self, table: ConstantBlocks, count: int) -> list[Lane]:
        """The numbers of a custom operator at the current point."""
        k, found = self.k, self.k.parts.tables
        row = k.b.mul(self.index, i64(k.unit * found.own_columns))
        base = k.at(k.table(record.GRAVITY), row)
        return [self._number(base, found.own[table] + i) for i in range(count)]

    def link_constant(self, i: int) -> Lane:
        """A number of the link's table."""
        return self._number(self._link_table, i)

    def selected(self, name: str) -> Lane:
        """1 if the body of the current point is in a selection, 0 if not."""
        b = self.k.b
        bit = i64(self.k.parts.tables.selections.index(name))
        inside = b.and_(b.lshr(self._chosen, bit), i64(1))
        if self.k.module.standalone:  # 64 bits become a number by a call, on some processors
            inside = b.trunc(inside, I32)
        e = self.k.emitter
        return e.splat(b.uitofp(inside, e.number.type))

    def unit(self, x: Field, rows: int) -> bl.Block:
        """This body's part of one unit vector of joint rates or inertial parameters."""
        b, e = self.k.b, self.k.emitter
        start = self.v_offset if x.type.rows == "r" else b.mul(self.index, i64(rows))
        numbers = [b.add(start, i64(i)) for i in range(rows)]
        wanted: Any = x.data
        hits = [b.uitofp(b.icmp_signed("==", n, i64(wanted)), e.number.type) for n in numbers]
        return bl.Dense([[e.splat(hit)] for hit in hits])

    # -- stored values -----------------------------------------------------------------------------

    def slot(self, x: Field) -> tuple[Any, int]:
        """Where the value of a field at this place, or of the whole, is kept."""
        columns, domain, plan = is_column(x), x.type.domain, self.k.plan
        if domain is Domain.WORLD:
            return self.k.records(domain, columns), plan.world[x]
        if x.operation.reads is Reads.CHILDREN:
            return self.records[Reads.CHILDREN][columns], plan.sums[x]
        return self.records[Reads.HERE][columns], plan.slots(domain)[x]

    def load(self, x: Field, where: Reads, like: bl.Block) -> bl.Block:
        """A stored block: of this body, of its parent, of a point's body, or a sum of children."""
        m, plan = self.k, self.k.plan
        if x in plan.carried:
            if self.at_start:
                return like
            base, start = m.records(Domain.WORLD, True), plan.carried[x]
        elif where in (Reads.HERE, Reads.CHILDREN):
            base, start = self.slot(x)
        else:
            base, start = self.records[where][is_column(x)], plan.slots(x.type.domain)[x]
        return like.like([m.entry_load(x, base, start, i) for i in range(len(like.entries))])

    def choose(self, condition: ir.IRValue, yes: bl.Block, no: bl.Block) -> bl.Block:
        """One block if the condition holds, another if not."""
        e, b = self.k.emitter, self.k.b
        entries = [
            x
            if not isinstance(x, Lane) and not isinstance(y, Lane) and x == y
            else Lane(e, b.select(condition, e.lift(x).value, e.lift(y).value))
            for x, y in zip(yes.entries, no.entries, strict=True)
        ]
        return no.like(entries)

    def at_root(self, root: bl.Block, other: bl.Block) -> bl.Block:
        """The root's block where the body has no parent, the other block elsewhere."""
        is_root = self.k.b.icmp_signed("<", self.parent, i64(0))
        if type(root) is not type(other):
            root, other = bl.Dense(root.dense()), bl.Dense(other.dense())
        return self.choose(is_root, root, other)

    def off_hubs(self, x: bl.Block) -> bl.Block:
        """The block of the parent, or zeros where the parent is a hub."""
        stands = self.k.b.icmp_signed("!=", self.on_hub, i64(0))
        return self.choose(stands, x.like([0] * len(x.entries)), x)

    def pose_of_host(self, x: Field, like: bl.Block) -> bl.Block:
        """The pose of the current point's body in the world; the identity for the world itself."""
        found = self.load(x, Reads.HOST, like)
        is_world = self.k.b.icmp_signed("<", self._host, i64(0))
        return self.choose(is_world, like.like([1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]), found)

    # -- status ------------------------------------------------------------------------------------

    def fail(
        self, mask: ir.IRValue, code: int, row: ir.IRValue | None = None, *, over: int | None = None
    ) -> None:
        """Note the first failure of each configuration: code + CODES (body or row + 1).

        It replaces one of the code `over`.
        """
        e, b = self.k.emitter, self.k.b
        status = b.load(self.k.status, typ=e.integers)
        body = i64(code)
        if self.domain is Domain.BODY or row is not None:
            where = self.index if row is None else row
            body = b.add(b.mul(b.add(where, i64(1)), i64(CODES)), body)
        open_ = b.icmp_signed("==", status, e.integer(0))
        if over is not None:
            low = b.and_(status, e.integer(CODES - 1))
            open_ = b.or_(open_, b.icmp_signed("==", low, e.integer(over)))
        first = b.and_(mask, open_)
        b.store(b.select(first, e.splat_integer(body), status), self.k.status)
