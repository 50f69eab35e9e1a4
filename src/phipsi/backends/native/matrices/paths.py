"""Steps along the paths of columns, from the bodies of their seeds to the roots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any, final

from phipsi.backends.native import data_record as record
from phipsi.backends.native.kernel.body_code import BodyCode
from phipsi.backends.native.kernel.emission import Emission
from phipsi.backends.native.kernel.phases import Phase
from phipsi.backends.native.kernel.place import Place
from phipsi.backends.native.kernel.plan import MODAL_SIZES, is_column, is_remade
from phipsi.backends.native.matrices.columns import Columns
from phipsi.backends.native.matrices.gram import Gram
from phipsi.backends.native.matrices.matrix_memory import MatrixMemory
from phipsi.backends.native.matrices.pairs import Pairs
from phipsi.backends.native.text.lane_arithmetic import I64, WORD, Lane, i64, write_loop
from phipsi.sweeps.ir import Domain, Field, Reads, Step, Variant, dependencies


@final
class Paths:
    """Emits walks along paths; `visit_body(step, k)` writes a step at body k."""

    def __init__(
        self,
        emission: Emission,
        place: Place,
        columns: Columns,
        matrices: MatrixMemory,
        visit_body: Callable[[Step, Any], None],
    ) -> None:
        self.k, self.place, self.columns, self.matrices = emission, place, columns, matrices
        self._visit_body = visit_body
        self._pairs: list[Pairs] = []
        self._grams: list[Gram] = []

    def emit(self, phase: Phase, step: Step) -> None:
        """A walk for every group of columns; `step` has all fields of the phase."""
        k, b, cs = self.k, self.k.b, self.columns
        cs.kind = phase.seed_kind
        pairs = [x for x in phase.pairs if x not in self.matrices.grams]
        self._pairs = [Pairs(k, self.place, cs, self.matrices, x, i) for i, x in enumerate(pairs)]
        self._grams = [g for x, g in self.matrices.grams.items() if x in phase.pairs]
        word = record.SEEDS[cs.kind] + (record.TOGETHER if cs.several else record.SINGLE)
        groups, count = k.table(word), k.word(word + 1)

        def group(g: Any) -> None:
            row = k.at(groups, b.mul(g, i64(WORD * record.GROUP_SIZE)))
            start, column, size, rank, element = (
                b.word(row, i)
                for i in (record.START, record.COLUMN, record.COUNT, record.RANK, record.ELEMENT)
            )
            cs.begin(column, size, rank)
            cs.begin_path(start, element)
            self._walk(step, start)

        write_loop(b, count, group)

    def _walk(self, step: Step, start: Any) -> None:
        k, b, cs, at = self.k, self.k.b, self.columns, self.place
        inside, head, onward, after = (
            b.function.append_basic_block(n) for n in ("start", "walk", "onward", "end")
        )
        b.cbranch(b.icmp_signed(">=", start, i64(0)), inside, after)
        b.position_at_end(inside)
        first, came_from = start, i64(-1)
        if cs.start_anywhere:
            for x in _carried(step):
                for i in range(k.entries(x)):
                    self._keep(x, 0.0, i)
        else:
            at.at_start = True
            self._visit_body(step, start)
            first, came_from = at.parent, start
            at.at_start = False
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        body, previous = b.phi(I64), b.phi(I64)
        cs.previous = previous
        body.add_incoming(first, before)
        previous.add_incoming(came_from, before)
        b.cbranch(b.icmp_signed(">=", body, i64(0)), onward, after)
        b.position_at_end(onward)
        self._visit_body(step, body)
        body.add_incoming(at.parent, b.block)
        previous.add_incoming(body, b.block)
        b.branch(head)
        b.position_at_end(after)

    def before_joints(self, values: BodyCode) -> None:
        """What is the same for every joint type is written once, not once per type."""
        for pair in self._pairs:
            if not needs_joint(pair.field.args[0]):
                pair.visit(values)

    @property
    def has_shared_code(self) -> bool:
        """True if there is anything to write before the joint types part."""
        return not all(needs_joint(pair.field.args[0]) for pair in self._pairs)

    def visit(
        self, step: Step, values: BodyCode, parts: list[tuple[Field, Callable[[], None]]]
    ) -> None:
        """What a path contributes to matrices at a body, and what it carries to the next one.

        A value that is carried on is written when all that reads it has been, so that few numbers
        wait in registers.
        """
        tasks = [(read_on_path(y), write) for y, write in parts]
        for pair in self._pairs:
            if needs_joint(pair.field.args[0]):
                tasks.append((_read_by(pair.field), partial(pair.visit, values)))
        for gram in self._grams:
            tasks.append((_read_by(gram.field), partial(gram.visit, values)))
        sums = _carried(step)
        left = {x: read_on_path(x.args[0]) for x in sums}
        while tasks or left:
            if tasks:
                reads, work = tasks.pop(0)
                work()
                # next what reads the same
                tasks.sort(key=lambda task, reads=reads: not task[0] & reads)
            waiting = frozenset[Field]().union(*(reads for reads, _ in tasks))
            self._carry_on(left, waiting, values)

    def _carry_on(
        self, left: dict[Field, frozenset[Field]], waiting: frozenset[Field], values: BodyCode
    ) -> None:
        """Write the values that nothing waits for; together, if they need each other's."""
        ready = [x for x in left if x not in waiting]
        while True:
            needed = {y for x in left for y in left[x] if x not in ready and y is not x}
            kept = [x for x in ready if x not in needed]
            if kept == ready:
                break
            ready = kept
        while ready:  # those that no other one needs come first
            free = [x for x in ready if not any(x in left[y] for y in ready if y is not x)]
            batch = free[:1] or list(ready)
            found = [values.value(x) for x in batch]
            blocks = [values.stored_form(x, values.value(x.args[0])) for x in batch]
            for x, old, block in zip(batch, found, blocks, strict=True):
                there = old.entries if len(old.entries) == len(block.entries) else block.entries[:0]
                for i, (before, entry) in enumerate(zip_longest(there, block.entries)):
                    if before is not entry or not isinstance(entry, Lane):  # else it is there
                        self._keep(x, entry, i)
                ready.remove(x)
                del left[x]

    def _keep(self, x: Field, entry: Any, i: int) -> None:
        k = self.k
        assert is_column(x)
        k.entry_store(x, entry, k.records[Domain.WORLD, True], k.plan.carried[x], i)


def _carried(step: Step) -> list[Field]:
    """What a path carries from body to body."""
    return [x for x in step.fields if x.operation.reads is Reads.CHILDREN]


def read_on_path(x: Field) -> frozenset[Field]:
    """The carried values that the value at a body is computed from."""
    stack, seen, out = [x], set[Field](), set[Field]()
    while stack:
        y = stack.pop()
        if y in seen:
            continue
        seen.add(y)
        if y.operation.reads is Reads.CHILDREN:
            out.add(y)
        elif y.type.cols == "p":
            stack.extend(dependencies(y))
    return frozenset(out)


def _read_by(x: Field) -> frozenset[Field]:
    return frozenset[Field]().union(*(read_on_path(y) for y in x.args))


def needs_joint(x: Field) -> bool:
    """True if the value at a body depends on the type of its joint; sums come from memory."""
    stack, seen = [x], set[Field]()
    while stack:
        y = stack.pop()
        if y in seen or y.operation.reads is Reads.CHILDREN:
            continue
        seen.add(y)
        if {"r", *MODAL_SIZES} & {y.type.rows, y.type.cols} or y.operation.variant is Variant.JOINT:
            return True
        if y.type.cols == "p":
            stack.extend(dependencies(y))
        elif not is_remade(y):
            return True  # kept, with numbers that only the joint type knows
    return False
