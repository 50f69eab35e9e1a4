"""A compiled program as text that does not depend on how its equations were numbered.

Two programs are the same if their texts are; the golden files hold such texts.
"""

from __future__ import annotations

from phipsi.core.backends.program import Program
from phipsi.core.sweeps.ir import Field, StepKind

DIRECTED = (StepKind.TIP_TO_BASE, StepKind.BASE_TO_TIP)


def directions(program: Program) -> str:
    """The directed sweeps in order, "U" for tip to base and "D" for base to tip."""
    letters = {StepKind.TIP_TO_BASE: "U", StepKind.BASE_TO_TIP: "D"}
    return "".join(letters.get(step.kind, "") for step in program.steps)


def kinds(program: Program) -> list[str]:
    """The kinds of all steps, in order."""
    return [step.kind.value for step in program.steps]


def steps_text(program: Program) -> str:
    """Steps and results only, without the papers' names for the equations.

    An expression may need fewer inputs after rewriting, and R is called R only if it was typed so.
    """
    lines = program_text(program).split("\n")[1:]
    return "\n".join(line.partition("    # ")[0] if " # " in line else line for line in lines)


def program_text(program: Program) -> str:
    """Inputs, steps with their equations in order, and results."""
    names: dict[Field, str] = {}
    for step in program.steps:
        for x in step.fields:
            names[x] = f"%{len(names)}"
    lines = [f"inputs  {', '.join(program.inputs) or 'none'}"]
    for step in program.steps:
        lines.append(f"{step.kind.value} over {step.domain.value}")
        lines += [f"    {_equation(x, names)}" for x in step.fields]
    for r in program.lowered.results:
        lines.append(f"result  {names[r.field]} as {r.layout}: {r.takes.name} → {r.gives.name}")
    return "\n".join(lines) + "\n"


def _equation(x: Field, names: dict[Field, str]) -> str:
    data = "" if x.data in (None, ()) else f" {_data(x.data)}"
    if x.equation is not None:
        right = f"recursion {names[x.equation]}"
    else:
        right = f"{x.op}({', '.join(names[y] for y in x.args)})"
    label = f"    # {x.label}" if x.label else ""
    return f"{names[x]} = {right}{data} : {x.type}{label}"


def _data(data: object) -> str:
    if isinstance(data, tuple):
        return "[" + ", ".join(map(_data, data)) + "]"
    how, coefficient = getattr(data, "how", None), getattr(data, "coefficient", None)
    return str(data) if how is None else f"{coefficient} × {how}"
