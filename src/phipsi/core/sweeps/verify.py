"""Legality of the steps after each pass, as a table of rules.

A rule gets the result of a pass and yields a sentence for every fault. The tests run with the rules
(``PHIPSI_CHECK=1``); programs of users are compiled without them. The back half
of compilation has a table of its own, in `native/verify_phases.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from phipsi.core.sweeps.ir import Field, Loop, LoopStep, StepKind, dependencies
from phipsi.core.sweeps.schedule import reachable, runs_in

CHECKING = os.environ.get("PHIPSI_CHECK", "0") == "1"
Rule = Callable[..., Iterator[str]]


class IllegalProgram(AssertionError):
    """A pass of the compiler gave a result that the next one cannot take: a fault of phipsi."""


def check(table: Mapping[str, tuple[Rule, ...]], stage: str, *made: Any) -> None:
    """Apply the rules to the result of a pass, whether or not checks are on."""
    for rule in table[stage]:
        for complaint in rule(*made):
            raise IllegalProgram(f"after {stage!r}, {rule.__name__}: {complaint}")


def check_steps(stage: str, steps: list[LoopStep], outputs: Iterable[Field]) -> None:
    """Apply the rules of this file, if checks are on."""
    if CHECKING:
        check(LEGAL, stage, steps, list(outputs))


def is_loop_result(x: Field) -> bool:
    """Whether a field is complete only when the loop that computes it has ended."""
    return x.operation.runs is not Loop.OWN


def computed_once(steps: list[LoopStep], outputs: list[Field]) -> Iterator[str]:
    """Every field is computed in one step."""
    seen: set[Field] = set()
    for x in (x for step in steps for x in step.fields):
        if x in seen:
            yield f"{x!r} is computed twice"
        seen.add(x)


def computes_exactly_required(steps: list[LoopStep], outputs: list[Field]) -> Iterator[str]:
    """All fields that the outputs need are computed, and no others."""
    needed, there = set(reachable(outputs)), {x for step in steps for x in step.fields}
    yield from (f"{x!r} is needed, but not computed" for x in needed - there)
    yield from (f"{x!r} is computed, but not needed" for x in there - needed)


def scheduled_in_own_loop(steps: list[LoopStep], outputs: list[Field]) -> Iterator[str]:
    """A field is computed in the loop over its index set, in the direction of its shift."""
    for step in steps:
        for x in step.fields:
            if runs_in(x) is not step.domain:
                yield f"{x!r} runs over {runs_in(x).value}, the step over {step.domain.value}"
            if x.operation.step not in (None, step.kind) and step.kind is not StepKind.PATH:
                yield f"{x!r} is in a step {step.kind.value}"


def reads_after_writes(steps: list[LoopStep], outputs: list[Field]) -> Iterator[str]:
    """Nothing is read before it is there."""
    done: set[Field] = set()
    for step in steps:
        yield from reads_too_early(step, done)
        done.update(step.fields)


def reads_too_early(
    step: LoopStep, done: set[Field], shown: Callable[[Field], Field] | None = None
) -> Iterator[str]:
    """The fields that a step reads too early, where `done` are the fields of earlier steps.

    Where views are not computed, `shown` is the field whose value one shows.
    """
    inside, before = set(step.fields), set[Field]()
    for x in step.fields:
        needed = dependencies(x)
        if shown is not None:
            needed = tuple(map(shown, needed)) if shown(x) is x else ()
        for y in needed:
            here = inside if x.operation.step is not None else before  # neighbours are complete
            if y not in done and (y not in here or is_loop_result(y)):
                yield f"{x!r} reads {y!r} too early"
        before.add(x)


def kept_while_needed(steps: list[LoopStep], outputs: list[Field]) -> Iterator[str]:
    """No buffer is forgotten before its last reader; outputs never are."""
    forgotten: set[Field] = set()
    for step in steps:
        read = {y for x in step.fields for y in dependencies(x)}
        yield from (f"{y!r} is read after its buffer was dropped" for y in read & forgotten)
        dropped = set(step.last_used) | step.local
        yield from (f"the output {x!r} is dropped" for x in dropped & set(outputs))
        forgotten |= dropped


def local_to_a_body(steps: list[LoopStep], outputs: list[Field]) -> Iterator[str]:
    """A field without a buffer is read at the body where it is computed, in the same step."""
    for step in steps:
        yield from (f"{x!r} is of another step" for x in step.local - set(step.fields))
        shifted = {y for x in step.fields if x.operation.step is not None for y in x.args}
        yield from (f"{x!r} is read at another body" for x in step.local & shifted)
        yield from (
            f"{x!r} is of another loop" for x in step.local if x.type.domain is not step.domain
        )


_ORDER = (computed_once, computes_exactly_required, scheduled_in_own_loop, reads_after_writes)
LEGAL: dict[str, tuple[Rule, ...]] = {
    "schedule": _ORDER,
    "plan buffers": (*_ORDER, kept_while_needed, local_to_a_body),
}
"""The rules after every pass of the front half."""
