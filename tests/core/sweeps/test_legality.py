"""The rules that say what is legal after a pass notice what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import phipsi as pp
from phipsi.core.sweeps import verify
from phipsi.core.sweeps.ir import Domain, LoopStep, StepKind, dependencies
from phipsi.core.sweeps.verify import LEGAL, IllegalProgram, check
from phipsi.native import verify_phases as native
from phipsi.native.kernel.phases import Phase
from phipsi.native.pipeline import KernelUnit
from phipsi.operators import mass_matrix, tau

SOLVE = mass_matrix.inv @ tau


def steps_of(expr: Any = SOLVE) -> tuple[list[LoopStep], list[Any]]:
    program = pp.compile(expr, pp.examples.planar_arm(3), backend="reference")
    steps = [
        LoopStep(s.kind, s.domain, list(s.fields), s.local, s.last_used) for s in program.steps
    ]
    return steps, program.lowered.fields


def test_the_tests_run_with_the_rules(monkeypatch: pytest.MonkeyPatch):
    assert verify.CHECKING
    steps, outputs = steps_of()
    with pytest.raises(IllegalProgram, match="needed, but not computed"):
        verify.check_steps("schedule", steps[1:], outputs)
    monkeypatch.setattr(verify, "CHECKING", False)
    verify.check_steps("schedule", steps[1:], outputs)
    native.check("phases", "nobody looks at this")


def swapped(steps: list[LoopStep], outputs: list[Any]) -> None:
    steps[0], steps[-1] = steps[-1], steps[0]


def doubled(steps: list[LoopStep], outputs: list[Any]) -> None:
    steps[-1].fields.append(steps[0].fields[0])


def dropped(steps: list[LoopStep], outputs: list[Any]) -> None:
    steps[-1].fields.pop()


def turned(steps: list[LoopStep], outputs: list[Any]) -> None:
    steps[0].kind = {
        StepKind.TIP_TO_BASE: StepKind.BASE_TO_TIP,
        StepKind.BASE_TO_TIP: StepKind.TIP_TO_BASE,
    }[steps[0].kind]


def elsewhere(steps: list[LoopStep], outputs: list[Any]) -> None:
    steps[0].domain = Domain.POINT


def backwards(steps: list[LoopStep], outputs: list[Any]) -> None:
    steps[0].fields.reverse()


def forgotten(steps: list[LoopStep], outputs: list[Any]) -> None:
    read = {y for x in steps[1].fields for y in dependencies(x)}
    steps[0].last_used = tuple(x for x in steps[0].fields if x in read)[:1]


def lost(steps: list[LoopStep], outputs: list[Any]) -> None:
    steps[-1].last_used = tuple(outputs)


def local(steps: list[LoopStep], outputs: list[Any]) -> None:
    shifted = {y for x in steps[0].fields if x.operation.step for y in x.args}
    steps[0].local |= {x for x in steps[0].fields if x in shifted}


FAULTS = [
    ("schedule", swapped, "reads_after_writes"),
    ("schedule", doubled, "computed_once"),
    ("schedule", dropped, "computes_exactly_required"),
    ("schedule", turned, "scheduled_in_own_loop"),
    ("schedule", elsewhere, "scheduled_in_own_loop"),
    ("schedule", backwards, "reads_after_writes"),
    ("plan buffers", forgotten, "kept_while_needed"),
    ("plan buffers", lost, "kept_while_needed"),
    ("plan buffers", local, "local_to_a_body"),
]


@pytest.mark.parametrize("stage, fault, rule", FAULTS, ids=[f.__name__ for _, f, _ in FAULTS])
def test_a_fault_in_steps_is_noticed(stage: str, fault: Callable[..., None], rule: str):
    steps, outputs = steps_of()
    check(LEGAL, stage, steps, outputs)
    fault(steps, outputs)
    with pytest.raises(IllegalProgram, match=f"after {stage!r}, {rule}"):
        check(LEGAL, stage, steps, outputs)


# ---- the back half -------------------------------------------------------------------------------


def unit_of(expr: Any = SOLVE, **options: Any) -> KernelUnit:
    program = pp.compile(expr, pp.examples.planar_arm(3), backend="native", **options)
    assert program.native is not None
    return program.native.unit


def fields_of(phases: list[Phase]) -> set[Any]:
    return {x for p in phases for s in p.steps for x in s.fields}


def test_phases_out_of_order_are_noticed():
    phases = unit_of(mass_matrix.inv, mode="dense").phases
    before = fields_of(phases)
    check(native.LEGAL, "rematerialisation", phases, before)
    assert len(phases) > 1
    with pytest.raises(IllegalProgram, match="reads .* too early"):
        check(native.LEGAL, "phases", phases[::-1], before)


def test_a_lost_field_is_noticed():
    phases = unit_of().phases
    before = fields_of(phases)
    *others, last = phases[-1].steps
    short = replace(phases[-1], steps=(*others, LoopStep(last.kind, last.domain, last.fields[:-1])))
    with pytest.raises(IllegalProgram, match="is no longer computed"):
        check(native.LEGAL, "rematerialisation", [*phases[:-1], short], before)
    with pytest.raises(IllegalProgram, match="comes from nowhere"):
        check(native.LEGAL, "rematerialisation", phases, before - set(last.fields[-1:]))


def test_columns_of_another_phase_are_noticed():
    phases = unit_of(mass_matrix.inv, mode="dense").phases
    long = next(p for p in phases if p.columns and len(p.steps[0].fields) > 1)
    first, *rest = long.steps
    parts = [
        replace(long, steps=(LoopStep(first.kind, first.domain, first.fields[:-1]),)),
        replace(long, steps=(LoopStep(first.kind, first.domain, first.fields[-1:]), *rest)),
    ]
    at = phases.index(long)
    with pytest.raises(IllegalProgram, match="of another phase"):
        check(
            {"x": (native.columns_local_to_phase,)},
            "x", [*phases[:at], *parts, *phases[at + 1 :]], set(),
        )  # fmt: skip


def test_slots_that_overlap_are_noticed():
    unit = unit_of()
    check(native.LEGAL, "plan", unit.plan, unit.phases, 1)
    x, y = list(unit.plan.body)[:2]
    plan = replace(unit.plan, body={**unit.plan.body, y: unit.plan.body[x]})
    with pytest.raises(IllegalProgram, match="share numbers"):
        check(native.LEGAL, "plan", plan, unit.phases, 1)


def test_a_value_without_a_place_is_noticed():
    unit = unit_of()
    for x in unit.plan.body:
        rest = {y: at for y, at in unit.plan.body.items() if y is not x}
        read = {native.root(y) for s in unit.phases[0].steps[1:] for z in s.fields
                for y in dependencies(z)}  # fmt: skip
        made = {native.root(y) for y in unit.phases[0].steps[0].fields}
        if x in read and x in made:
            break
    else:
        pytest.fail("nothing is read by a later step")
    with pytest.raises(IllegalProgram, match="which is not stored"):
        check(native.LEGAL, "plan", replace(unit.plan, body=rest), unit.phases, 1)


def test_areas_of_memory_that_overlap_are_noticed():
    unit = unit_of()
    data = unit.record()
    check(native.LEGAL, "record", data, unit.words, len(unit.shapes), unit.target.unit)
    data[native.record.POINTS] = data[unit.words]
    with pytest.raises(IllegalProgram, match="behind the"):
        check(native.LEGAL, "record", data, unit.words, len(unit.shapes), unit.target.unit)
    data[native.record.POINTS] = data[native.record.LINKS] + 1
    with pytest.raises(IllegalProgram, match="not in order"):
        check(native.LEGAL, "record", data, unit.words, len(unit.shapes), unit.target.unit)


@pytest.mark.parametrize("text", ["mass_matrix", "mass_matrix^-1", "H phi", "J", "Lambda"])
def test_a_matrix_that_is_only_written_has_no_phase(text: str):
    """Paths write it where the caller wants it; a copy between phases would be read by nobody."""
    arm = pp.examples.planar_arm(3)
    points = {"points": list(arm.body_names[-1:])} if text in ("J", "Lambda") else {}
    native = pp.compile(text, arm, mode="dense", backend="native", **points).native
    assert native is not None
    fields = {x for phase in native.unit.phases for step in phase.steps for x in step.fields}
    whole = {r.field for r in native.unit.results}
    assert whole and not whole & fields
