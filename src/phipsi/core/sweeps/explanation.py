"""Explaining a program: the rewrites, the sweeps with their recursion, and the cost.

The recursion per body is in the papers' notation, as text or LaTeX.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from phipsi.core.expressions import Expr
from phipsi.core.model import Model
from phipsi.core.operators import CATALOGUE, leaves_of
from phipsi.core.rewrite import RewriteStep, Rewriting
from phipsi.core.sweeps.cheapest_plan import PlanCost, work_of
from phipsi.core.sweeps.ir import (
    Binding,
    Domain,
    Field,
    Kind,
    Loop,
    LoopStep,
    Naming,
    Operation,
    StepKind,
    dependencies,
)
from phipsi.core.sweeps.operations import flops
from phipsi.core.sweeps.operator_levels import OperatorLevels
from phipsi.core.sweeps.quantity_meanings import meaning_of_quantity


@dataclass(frozen=True)
class Sweep:
    """One step in readable form: its kind, its loop, its equations, and what these mean."""

    kind: str
    heading: str
    equations: tuple[str, ...]
    meanings: tuple[str, ...] = ()

    @property
    def direction(self) -> str:
        """The kind again: "tip_to_base", "base_to_tip", or that of a step without direction."""
        return self.kind


@dataclass(frozen=True)
class Explanation:
    """The result of `phipsi.explain`; ``str()`` is the text.

    Parameters
    ----------
    expressions : tuple of Expr
        The expressions as passed.
    lowered : tuple of Expr
        The expressions after rewriting.
    rewrites : tuple of RewriteStep
        The rules that were applied; each has `name`, `before`, `after` and `source`.
    sweeps : tuple of Sweep
        The loops over the bodies; each has `kind`, `heading` and `equations`.
    flops : int
        Floating-point operations of one evaluation, or per body with a one-dof hinge if no model
        was passed.
    order : str
        The cost in the number of bodies N, such as "O(N)".
    latex : bool
        Whether the text is LaTeX.
    bodies : int or None
        Number of bodies of the model.
    plans : tuple of PlanCost, optional
        If requested: the forms that were compared on the model, the chosen one first.
    levels : tuple of OperatorLevels, optional
        If requested: kind, meaning, recursion, transition and coordinates of each operator.

    Examples
    --------
    >>> import phipsi as pp
    >>> explanation = pp.explain("mass_matrix^-1 tau")
    >>> explanation.order, len(explanation.sweeps)
    ('O(N)', 2)
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
    levels: tuple[OperatorLevels, ...] = ()

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
    rewriting: Rewriting,
    steps: list[LoopStep],
    outputs: list[Field],
    model: Model | None,
    *,
    latex: bool,
    plans: Sequence[PlanCost] = (),
    meanings: bool = False,
) -> Explanation:
    """The explanation of scheduled steps."""
    recursion = Recursion(steps, outputs, latex=latex, own=own_names(expressions, latex))
    sweeps = [
        Sweep(
            s.kind.value,
            recursion.heading(s),
            tuple(text for _, text in recursion.equations(s)),
            tuple(_meaning(x) for x, _ in recursion.equations(s)) if meanings else (),
        )
        for s in steps
    ]
    return Explanation(
        expressions=tuple(expressions),
        lowered=tuple(rewriting.expressions),
        rewrites=tuple(rewriting.steps),
        sweeps=tuple(s for s in sweeps if s.equations),
        flops=count_flops(steps, model),
        order=order_of(steps),
        latex=latex,
        bodies=None if model is None else model.n_bodies,
        plans=tuple(plans),
    )


def _meaning(x: Field) -> str:
    """What a named quantity means, from what it or its equation stands for."""
    stands = x.stands
    if stands is None and x.equation is not None:
        stands = x.equation.stands
    if stands is None and x.op == "mul" and isinstance(x.args[0].named, Expr):
        block, inner = x.args[0].named, x.args[1].stands  # G w, made inside a step
        stands = block @ inner if inner is not None and inner.gives is block.takes else None
    return meaning_of_quantity(stands, x.named)


def own_names(expressions: Sequence[Expr], latex: bool) -> frozenset[str]:
    """How the custom operators and vectors of some expressions are printed."""
    form = "latex" if latex else "greek"
    return frozenset(x.text(form) for y in expressions for x in leaves_of(y) if x.row.is_own)


def count_flops(steps: list[LoopStep], model: Model | None) -> int:
    """Operations of one evaluation; without a model, of one body with a one-dof hinge."""
    if model is not None:
        return work_of(steps, model).flops
    return sum(flops(x, 1, 6) for step in steps for x in step.fields)


def order_of(steps: list[LoopStep]) -> str:
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
        meanings = sweep.meanings or [""] * len(sweep.equations)
        for line, meaning in zip(sweep.equations, meanings, strict=True):
            lines.append(f"        {line}")
            if meaning:
                lines.append(f"            {meaning}")
    own = own_names(e.expressions, e.latex)
    left = [line.partition("(k) = ")[0] for sweep in e.sweeps for line in sweep.equations]
    lines += [
        text
        for name in left
        if re.fullmatch(r"W\d*", name) and name not in own
        for text in ("", f"{name}(k) is φ(world, k), the pose of body k in the world")
    ][:2]
    equations = "\n".join(y for s in e.sweeps for y in s.equations)
    indices = set(re.findall(r"(?<=[(,])\w(?=[,)])", equations))
    if numbers := sorted(own & indices):
        lines += ["", f"{', '.join(numbers)} in brackets is a number; elsewhere a custom operator"]
    lines += _functions(e)
    lines += ["", f"cost  {e.order}, {_flops(e)}"]
    if e.levels:
        lines += ["", "levels (MM Fig. 3; 1 is the expression, 2 are its operators)"]
        for operator in e.levels:
            lines.append(f"  {operator.operator}")
            lines += [f"    {level:16} {line}".rstrip() for level, line in operator.lines()]
    if e.plans:
        lines += ["", "plans (time of one configuration in a batch, estimated)"]
        lines += [f"  {'>' if i == 0 else ' '} {plan}" for i, plan in enumerate(e.plans)]
    return _with_family_numbers("\n".join(lines), e)


def _functions(e: Explanation) -> list[str]:
    """What the functions in the equations are, such as gauge(V(k)): their rows say it."""
    equations = [line for sweep in e.sweeps for line in sweep.equations]
    written = "\n".join(line.partition(" = ")[2] for line in equations)
    named = {line.partition("(")[0] for line in equations}
    words = dict.fromkeys(re.findall(r"(?<![\w.{])([a-z][a-z_]{3,})(?=\*?\()", written))
    known = [x for x in words if Operation.exists(x) and x not in named]
    lines = [f"{x}(…): {Operation.named(x).meaning}" for x in known]
    return ["", *lines] if lines else []


_FAMILY = re.compile(r"([₀₁₂₃₄₅₆₇₈₉]+) is (\{[^{}₀₁₂₃₄₅₆₇₈₉]*\})")


def _with_family_numbers(text: str, e: Explanation) -> str:
    """The recursion with the numbers that Riccati families have in the computed expressions."""
    before, mark, recursion = text.partition("\nrecursion (")
    numbers = {braces: n for x in e.lowered[:1] for n, braces in _FAMILY.findall(str(x))}
    for braces, number in numbers.items() if len(e.lowered) == 1 else ():
        recursion = recursion.replace(braces, number)
    return before + mark + recursion


def _count(e: Explanation) -> str:
    n = sum(s.kind in ("tip_to_base", "base_to_tip") for s in e.sweeps)
    return f"{n} sweep{'s' if n != 1 else ''} over the bodies"


def _flops(e: Explanation) -> str:
    if e.bodies is None:
        return f"about {e.flops} flops per body with one-dof hinges"
    return f"about {e.flops} flops for {e.bodies} {'body' if e.bodies == 1 else 'bodies'}"


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
        lines += ["", *(f"- {meaning}" for meaning in sweep.meanings if meaning)]
    lines += ["", f"{e.order}, {_flops(e)}"]
    for operator in e.levels:
        lines += ["", f"**{operator.operator}**", "", "| level | |", "|---|---|"]
        lines += [f"| {level} | {line} |" for level, line in operator.lines()]
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


# ---- the recursion -------------------------------------------------------------------------------

_PLACES = {Domain.POINT: "C", Domain.LINK: "l", Domain.ROW: "i"}
_ARGUMENT = re.compile(r"\{(\d)([*^~]?)(?:@(\w'?))?\}")
_LOOPS = {
    Domain.POINT: "each point C on its own, k the body it is on:",
    Domain.LINK: "each link l of a constraint row i with a point C:",
    Domain.ROW: "each constraint row i on its own:",
}
_HEADINGS = {
    StepKind.TIP_TO_BASE: "tip to base, k after all its children c:",
    StepKind.BASE_TO_TIP: "base to tip, k after its parent p:",
    StepKind.MEMORYLESS: "each body on its own:",
    StepKind.PATH: "for every column j, along the path from its body to the root:",
    StepKind.PAIRS: "for every row i and column j, c the nearest common ancestor of their bodies:",
    StepKind.SMALL: "once:",
}


class Recursion:
    """Names the fields of a program and prints its steps."""

    def __init__(
        self,
        steps: list[LoopStep],
        outputs: list[Field],
        *,
        latex: bool,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self.latex, self.own = latex, own
        self.outputs = outputs
        self.names: dict[Field, str] = {}
        self.at_roots: dict[str, str] = {}
        self._name(steps)

    def heading(self, step: LoopStep) -> str:
        """The loop of a step in words."""
        if step.kind is StepKind.MEMORYLESS and step.domain in _LOOPS:
            return _LOOPS[step.domain]
        return _HEADINGS[step.kind]

    def equations(self, step: LoopStep) -> list[tuple[Field, str]]:
        """The named fields of one step, each with its equation."""
        out: list[tuple[Field, str]] = []
        for x in step.fields:
            at = _PLACES.get(x.type.domain, "k")
            if x not in self.names or (x.op == "rec" and x.equation in self.names):
                continue
            self.at_roots = {}
            right = self._body(x.equation if x.equation is not None else x, at)
            if right == self._named(x, at):  # an input under its own name
                continue
            equals = " &= " if self.latex else " = "
            out.append((x, f"{self._named(x, at)}{equals}{right}{self._roots()}"))
        return out

    def _roots(self) -> str:
        """The value that replaces that of the parent at roots."""
        if not self.at_roots:
            return ""
        values = ", ".join(f"{name} = {value}" for name, value in self.at_roots.items())
        return rf" \quad (\text{{at roots }} {values})" if self.latex else f"   (at roots {values})"

    # -- naming ------------------------------------------------------------------------------------

    def _name(self, steps: list[LoopStep]) -> None:
        fields = [x for s in steps for x in s.fields]
        uses: dict[Field, int] = {}
        for x in fields:
            if x.operation.naming is Naming.HIDDEN:
                continue
            for y in dependencies(x):
                uses[y] = uses.get(y, 0) + 1
        taken: dict[str, int] = {}
        results = set(self.outputs)
        equations = {x.equation for x in fields if x.equation is not None}
        for x in fields:
            naming = x.operation.naming
            if naming is Naming.HIDDEN:
                continue
            if x not in results:
                if naming is Naming.INLINE or x in equations:
                    continue
                shared = uses.get(x, 0) > 1 and not _spelled_out(x)
                if naming is not Naming.ALWAYS and not x.named and not shared:
                    continue
            self.names[x] = self._fresh(x, taken)

    def _fresh(self, x: Field, taken: dict[str, int]) -> str:
        base = x.named
        own = frozenset[str]() if isinstance(base, Expr) else self.own  # its own name may be one
        if isinstance(base, Expr):
            base = base.text("latex" if self.latex else "greek")
        if not base:
            base = "y" if x in self.outputs else x.operation.letter
        taken[base] = taken.get(base, 0) + 1
        alone = x.named or len(self.outputs) == 1 and x in self.outputs
        if taken[base] == 1 and alone and base not in own:
            return base
        while True:
            count = taken[base]
            name = f"{base}_{{{count}}}" if self.latex else f"{base}{count}"
            if name not in own:
                return name
            taken[base] += 1

    # -- printing ----------------------------------------------------------------------------------

    def _named(self, x: Field, at: str) -> str:
        name = self.names[x]
        if x.operation.runs is Loop.PAIRS:
            return f"{name}(i,j)"
        if x.type.domain is Domain.WORLD:
            return name
        return f"{name}({at},j)" if x.type.cols == "p" else f"{name}({at})"

    def text(self, x: Field, at: str) -> str:
        """A value at a place, by its name if it has one."""
        return self._named(x, at) if x in self.names else self._body(x, at)

    def tight(self, x: Field, at: str) -> str:
        """The same as a factor: sums in brackets."""
        text = self.text(x, at)
        if x.operation.binding is Binding.SUM and x not in self.names:
            return rf"\left[{text}\right]" if self.latex else f"[{text}]"
        return text

    def star(self, x: Field, at: str) -> str:
        """Its transpose."""
        starred = x.operation.starred
        if starred is not None:
            return self._filled(starred[self.latex], x, at)
        if x.op == "T":
            return self.tight(x.args[0], at)
        if x.type.kind in (Kind.SYMMETRIC, Kind.INERTIA):
            return self.tight(x, at)
        if x.op == "mul" and x not in self.names:  # (X Y)* = Y* X*
            return f"{self.star(x.args[1], at)} {self.star(x.args[0], at)}"
        return self._powered(x, at, "^{*}" if self.latex else "*")

    def _powered(self, x: Field, at: str, power: str) -> str:
        """P*(k) rather than P(k)*."""
        text = self.text(x, at)
        if x.operation.binding is not Binding.ATOM and x not in self.names:
            return (rf"\left({text}\right)" if self.latex else f"({text})") + power
        name = self.names.get(x) or text.partition("(")[0]
        return f"{name}{power}{text[len(name) :]}"

    def _body(self, x: Field, at: str) -> str:
        row = x.operation
        if callable(row.form):
            return row.form(self, x, at)
        form = row.latex or row.form if self.latex else row.form
        if form:
            return self._filled(form, x, at)
        escaped = row.name.replace("_", r"\_")
        name = rf"\operatorname{{{escaped}}}" if self.latex else row.name
        return f"{name}({self._inside(x, at)})"

    def _inside(self, x: Field, at: str) -> str:
        shown = (y for y in x.args if y.operation.naming is not Naming.HIDDEN)
        return ", ".join(self.text(y, at) for y in shown)

    def _filled(self, form: str, x: Field, at: str) -> str:
        """A form with its arguments, as `sweeps/operations.py` explains them."""
        if "{...}" in form:
            return form.replace("{...}", self._inside(x, at))
        form = form.replace("{pair}", {"k": "(p,k)", "c": "(k,c)"}.get(at, f"({at})"))
        form = form.replace("{at}", at)

        def argument(found: re.Match[str]) -> str:
            y, how, place = x.args[int(found[1])], found[2], found[3] or at
            if how == "^":
                return self._powered(y, place, "^{-1}" if self.latex else "⁻¹")
            return {"": self.tight, "*": self.star, "~": self.text}[how](y, place)

        return _ARGUMENT.sub(argument, form)


def _spelled_out(x: Field) -> bool:
    """True for fields that are clearer without a name of their own: −X, and P H*."""
    if x.op == "add" and len(x.args) == 1:
        return True
    return x.op == "mul" and x.args[1].op == "hinge_axes" and x.args[0].op in ("rec", "input")
