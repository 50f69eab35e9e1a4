"""The recursion per body in the papers' notation, as text or LaTeX."""

from __future__ import annotations

import re

from phipsi.expressions.node import Expr
from phipsi.sweeps.ir import (
    Binding,
    Domain,
    Field,
    Kind,
    Loop,
    Naming,
    Step,
    StepKind,
    dependencies,
)

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

    def __init__(self, steps: list[Step], outputs: list[Field], *, latex: bool) -> None:
        self.latex = latex
        self.outputs = outputs
        self.names: dict[Field, str] = {}
        self.at_roots: dict[str, str] = {}
        self._name(steps)

    def heading(self, step: Step) -> str:
        """The loop of a step in words."""
        if step.kind is StepKind.MEMORYLESS and step.domain in _LOOPS:
            return _LOOPS[step.domain]
        return _HEADINGS[step.kind]

    def equations(self, step: Step) -> list[str]:
        """The named equations of one step."""
        out: list[str] = []
        for x in step.fields:
            at = _PLACES.get(x.type.domain, "k")
            if x not in self.names or (x.op == "rec" and x.equation in self.names):
                continue
            self.at_roots = {}
            right = self._body(x.equation if x.equation is not None else x, at)
            equals = " &= " if self.latex else " = "
            out.append(f"{self._named(x, at)}{equals}{right}{self._roots()}")
        return out

    def _roots(self) -> str:
        """The value that replaces that of the parent at roots."""
        if not self.at_roots:
            return ""
        values = ", ".join(f"{name} = {value}" for name, value in self.at_roots.items())
        return rf" \quad (\text{{at roots }} {values})" if self.latex else f"   (at roots {values})"

    # -- naming ------------------------------------------------------------------------------------

    def _name(self, steps: list[Step]) -> None:
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
        if isinstance(base, Expr):
            base = base.text("latex" if self.latex else "greek")
        if not base:
            base = "y" if x in self.outputs else x.operation.letter
        taken[base] = taken.get(base, 0) + 1
        if taken[base] == 1 and (x.named or len(self.outputs) == 1 and x in self.outputs):
            return base
        count = taken[base]
        return f"{base}_{{{count}}}" if self.latex else f"{base}{count}"

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
