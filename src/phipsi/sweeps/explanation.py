"""Explaining a program: the rewrites, the sweeps with their recursion, and the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phipsi.expressions.node import Expr
from phipsi.model.model import Model
from phipsi.operators.catalogue import CATALOGUE
from phipsi.rewrite.rewriter import RewriteStep
from phipsi.sweeps.costs import PlanCost, work_of
from phipsi.sweeps.ir import Domain, Field, Step, StepKind
from phipsi.sweeps.operations import flops
from phipsi.sweeps.recursion import Recursion


@dataclass(frozen=True)
class Sweep:
    """One step as people read it: its kind, its loop, and its equations."""

    kind: str
    heading: str
    equations: tuple[str, ...]

    @property
    def direction(self) -> str:
        """The kind again: "tip_to_base", "base_to_tip", or that of a step without direction."""
        return self.kind


@dataclass(frozen=True)
class Explanation:
    """The result of `phipsi.explain`; `str()` is the text.

    **Attributes:** `expressions` as given, `lowered` after rewriting, `rewrites` (name, before,
    after, source), `sweeps` (kind, heading, equations), `flops` (per evaluation, or per body with a
    one-dof hinge if no model was given), `order` in the number of bodies N, `latex`, and `plans`:
    if asked for, the forms that were compared on the model, the one taken first.
    """

    expressions: tuple[Expr, ...]
    lowered: tuple[Expr, ...]
    rewrites: tuple[RewriteStep, ...]
    sweeps: tuple[Sweep, ...]
    flops: int
    order: str
    latex: bool
    bodies: int | None
    plans: tuple[PlanCost, ...] = ()

    def __str__(self) -> str:
        return _latex(self) if self.latex else _text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str | None:
        return str(self) if self.latex else None

    def _repr_markdown_(self) -> str:
        """Typeset in a notebook."""
        return _markdown(self)


def explain_steps(
    expressions: Sequence[Expr],
    lowered: Sequence[Expr],
    rewrites: Sequence[RewriteStep],
    steps: list[Step],
    outputs: list[Field],
    model: Model | None,
    *,
    latex: bool,
    plans: Sequence[PlanCost] = (),
) -> Explanation:
    """The explanation of scheduled steps."""
    recursion = Recursion(steps, outputs, latex=latex)
    sweeps = [
        Sweep(s.kind.value, recursion.heading(s), tuple(recursion.equations(s))) for s in steps
    ]
    return Explanation(
        expressions=tuple(expressions),
        lowered=tuple(lowered),
        rewrites=tuple(rewrites),
        sweeps=tuple(s for s in sweeps if s.equations),
        flops=count_flops(steps, model),
        order=order_of(steps),
        latex=latex,
        bodies=None if model is None else model.n_bodies,
        plans=tuple(plans),
    )


def count_flops(steps: list[Step], model: Model | None) -> int:
    """Operations of one evaluation; without a model, of one body with a one-dof hinge."""
    if model is not None:
        return work_of(steps, model).flops
    return sum(flops(x, 1, 6) for step in steps for x in step.fields)


def order_of(steps: list[Step]) -> str:
    """The cost in the number of bodies N and the number k of rows of small systems."""
    parts: list[str] = []
    fields = [x for s in steps for x in s.fields]
    if any(s.domain is Domain.BODY for s in steps):
        many = any(x.type.cols.startswith("all:") and x.type.domain is Domain.BODY for x in fields)
        parts.append("O(N · columns)" if many else "O(N)")
    if any(s.kind is StepKind.PATH for s in steps):
        parts.append("O(N · depth)")
    if any(s.kind is StepKind.PAIRS for s in steps):
        parts.append("O(pairs)")
    if any(x.op == "small_solve" for x in fields):
        parts.append("O(k³) for the dense solve of k rows")
    return " + ".join(parts) or "O(1)"


def _text(e: Explanation) -> str:
    lines = ["expression", *(f"    {x}" for x in e.expressions)]
    if e.rewrites:
        lines += ["", "rewrites"]
        for s in e.rewrites:
            source = f"   [{s.source}]" if s.source else ""
            lines += [f"    {s.name}{source}", f"        {s.before}", f"      = {s.after}"]
        lines += ["", "is computed as", *(f"    {x}" for x in e.lowered)]
    lines += ["", f"recursion ({_count(e)})"]
    for i, sweep in enumerate(e.sweeps, 1):
        lines.append(f"  {i}. {sweep.heading}")
        lines += [f"        {line}" for line in sweep.equations]
    if any(line.startswith("W(k) = ") for sweep in e.sweeps for line in sweep.equations):
        lines += ["", "W(k) is φ(world, k), the pose of body k in the world"]
    lines += ["", f"cost  {e.order}, {_flops(e)}"]
    if e.plans:
        lines += ["", "plans (time of one configuration in a batch, estimated)"]
        lines += [f"  {'>' if i == 0 else ' '} {plan}" for i, plan in enumerate(e.plans)]
    return "\n".join(lines)


def _count(e: Explanation) -> str:
    n = sum(s.kind in ("tip_to_base", "base_to_tip") for s in e.sweeps)
    return f"{n} sweep{'s' if n != 1 else ''} over the bodies"


def _flops(e: Explanation) -> str:
    if e.bodies is None:
        return f"about {e.flops} flops per body with one-dof hinges"
    return f"about {e.flops} flops for {e.bodies} bodies"


def _latex(e: Explanation) -> str:
    lines = [r"\begin{align*}"]
    lines += [f"  & {x.text('latex')} \\\\" for x in e.expressions]
    for s in e.rewrites:
        before, after = s.before.text("latex"), s.after.text("latex")
        lines.append(f"  &\\quad {before} = {after} && {_latex_name(s.name)} \\\\")
    lines += [f"  &= {y.text('latex')} \\\\" for y in e.lowered]
    lines[-1] = lines[-1].removesuffix(r" \\")
    lines.append(r"\end{align*}")
    for sweep in e.sweeps:
        lines += [rf"\paragraph{{{sweep.heading}}}", r"\begin{align*}"]
        lines.append(" \\\\\n".join(f"  {line}" for line in sweep.equations))
        lines.append(r"\end{align*}")
    return "\n".join(lines)


def _markdown(e: Explanation) -> str:
    lines = [f"$${x.text('latex')}$$" for x in e.expressions]
    for s in e.rewrites:
        source = f" [{s.source}]" if s.source else ""
        lines.append(f"- {s.name}{source}: ${s.before.text('latex')} = {s.after.text('latex')}$")
    if e.rewrites:
        lines += ["", "computed as", *(f"$${x.text('latex')}$$" for x in e.lowered)]
    for i, sweep in enumerate(e.sweeps, 1):
        lines += ["", f"{i}. {sweep.heading}", "", "```text", *sweep.equations, "```"]
    lines += ["", f"{e.order}, {_flops(e)}"]
    if e.plans:
        lines += ["", "| plan | ns | flops | numbers kept |", "|---|---|---|---|"]
        lines += [
            f"| {p.name} | {p.nanoseconds:,.0f} | {p.work.flops:,} | {p.work.words:,} |"
            for p in e.plans
        ]
    return "\n".join(lines)


_LATEX_SYMBOLS = {
    **{row.symbol: row.latex for row in CATALOGUE.values() if not row.symbol.isascii()},
    "⁻¹": "^{-1}",
    "−": "-",
    "·": r"\cdot",
}


def _latex_name(name: str) -> str:
    """The name of a rewrite as LaTeX text, with its symbols in mathematics."""
    for symbol in sorted(_LATEX_SYMBOLS, key=len, reverse=True):
        name = name.replace(symbol, f"${_LATEX_SYMBOLS[symbol]}$")
    return rf"\text{{{name}}}"
