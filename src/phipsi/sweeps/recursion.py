"""The recursion per body in the papers' notation, as text or LaTeX."""

from __future__ import annotations

from typing import Any

from phipsi.operators import parse
from phipsi.operators.catalogue import CATALOGUE, catalogue_leaf
from phipsi.sweeps.builder import terms_of
from phipsi.sweeps.ir import Domain, Field, Kind, Step, StepKind
from phipsi.sweeps.schedule import dependencies

_INLINE = ("T", "input", "eye", "zero", "M", "Jr", "gravity", "diag", "against",
           "hinge_axes", "hinge_axes_rate", "transform",
           "seed", "path_seed", "spread", "down", "point_frame", "point_arm",
           "world_arm", "rotation", "inv", "angular")  # fmt: skip
_HIDDEN = ("hinge_scale",)
_NAMED = ("rec", "pair", "square", "matrix", "small_solve", "row_solve", "relative")
_PLACES = {Domain.POINT: "C", Domain.LINK: "l", Domain.ROW: "i"}
_CALLS = {
    "chol": ("chol", r"\operatorname{chol}"),
    "logdet": ("logdet", r"\log\det"),
    "pose_matrix": ("pose", r"\operatorname{pose}"),
    "gauge": ("gauge", r"\operatorname{gauge}"),
    "rigid_inverse": ("inverse", r"\operatorname{inverse}"),
    "crq": ("cross_force", r"\operatorname{cross_{f}}"),
    "lever": ("cross_force", r"\operatorname{cross_{f}}"),
    "gyration": ("gyration", r"\operatorname{gyration}"),
    "below_root": ("below_root", r"\operatorname{below\_root}"),
    "hinge_axes_along": ("Ḣ*", r"\dot{H}^{*}"),
    "hinge_bend": ("dHT", r"\delta H^{*}"),
    "hinge_bend_force": ("dH", r"\delta H"),
    "hinge_bend_trace": ("dH_trace", r"\operatorname{\delta H_{tr}}"),
    "vee_force": ("vee_force", r"\operatorname{vee_{f}}"),
    "inertia_trace": ("inertia_trace", r"\operatorname{M_{tr}}"),
    "inertia_of": ("inertia_of", r"\operatorname{M}"),
    "crm": ("cross", r"\operatorname{cross}"),
    "regress": ("regress", r"\operatorname{regress}"),
    "spin": ("spin", r"\operatorname{spin}"),
    "rotation": ("turn", r"\operatorname{turn}"),
    "assemble": ("matrix", r"\operatorname{matrix}"),
    "rigid_of_pose": ("", ""),
}
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
        self._at_roots: dict[str, str] = {}
        self._name(steps)

    def heading(self, step: Step) -> str:
        """What the loop of a step runs over."""
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
            self._at_roots = {}
            right = self._body(x.equation if x.equation is not None else x, at)
            equals = " &= " if self.latex else " = "
            out.append(f"{self._named(x, at)}{equals}{right}{self._roots()}")
        return out

    def _roots(self) -> str:
        """What stands for the parent's value where there is no parent."""
        if not self._at_roots:
            return ""
        values = ", ".join(f"{name} = {value}" for name, value in self._at_roots.items())
        return rf" \quad (\text{{at roots }} {values})" if self.latex else f"   (at roots {values})"

    # -- naming ------------------------------------------------------------------------------------

    def _name(self, steps: list[Step]) -> None:
        fields = [x for s in steps for x in s.fields]
        uses: dict[Field, int] = {}
        for x in fields:
            if x.op in _HIDDEN:
                continue
            for y in dependencies(x):
                uses[y] = uses.get(y, 0) + 1
        taken: dict[str, int] = {}
        results = set(self.outputs)
        equations = {x.equation for x in fields if x.equation is not None}
        for x in fields:
            wanted = x.op in _NAMED or x in results or (x.label and x.op not in _INLINE)
            shared = uses.get(x, 0) > 1 and x.op not in _INLINE and not _spelled_out(x)
            if x.op in _INLINE or x.op in _HIDDEN or x in equations and x not in results:
                if not (x in results and x.op not in _HIDDEN):
                    continue
            if wanted or shared:
                self.names[x] = self._fresh(x, taken)

    def _fresh(self, x: Field, taken: dict[str, int]) -> str:
        base = x.label
        if not base:
            letters = {"rec": "z", "pair": "Z", "square": "Z", "matrix": "A"}
            base = "y" if x in self.outputs else letters.get(x.op, "w")
        if base in CATALOGUE or "{" in base:
            named = catalogue_leaf(base) if base in CATALOGUE else parse(base)
            base = named.text("latex" if self.latex else "greek")
        taken[base] = taken.get(base, 0) + 1
        if taken[base] == 1 and (x.label or len(self.outputs) == 1 and x in self.outputs):
            return base
        count = taken[base]
        return f"{base}_{{{count}}}" if self.latex else f"{base}{count}"

    # -- printing ----------------------------------------------------------------------------------

    def _named(self, x: Field, at: str) -> str:
        name = self.names[x]
        if x.op in ("pair", "square"):
            return f"{name}(i,j)"
        if x.type.domain is Domain.WORLD:
            return name
        return f"{name}({at},j)" if x.type.cols == "p" else f"{name}({at})"

    def _text(self, x: Field, at: str) -> str:
        if x in self.names:
            return self._named(x, at)
        return self._body(x, at)

    def _tight(self, x: Field, at: str) -> str:
        text = self._text(x, at)
        if x.op in ("add", "sym") and x not in self.names:
            return rf"\left[{text}\right]" if self.latex else f"[{text}]"
        return text

    def _body(self, x: Field, at: str) -> str:
        if x.op == "add":
            return self._sum(x, at)
        if x.op == "mul":
            return f"{self._tight(x.args[0], at)} {self._tight(x.args[1], at)}"
        if x.op == "cong":
            a = self._tight(x.args[0], at)
            return f"{a} {self._tight(x.args[1], at)} {self._star(x.args[0], at)}"
        if x.op == "T":
            return self._star(x.args[0], at)
        if x.op == "sym":
            return f"{self._text(x.args[0], at)} + {self._star(x.args[0], at)}"
        if x.op == "inv":
            return self._powered(x.args[0], at, _power(self.latex))
        if x.op == "up":
            sign = r"\sum_{c} " if self.latex else "Σ_c "
            return sign + self._tight(x.args[0], "c")
        if x.op == "down":
            if x.args[0].op == "zero":
                return self._root(x)
            before = self._tight(x.args[0], "p")
            if len(x.args) == 2:
                self._at_roots[before] = self._text(x.args[1], "p")
            return before
        if x.op in ("cross", "cross_force"):
            times = (
                (r"\times" if x.op == "cross" else r"\times^{*}")
                if self.latex
                else ("×" if x.op == "cross" else "×*")
            )
            return f"{self._tight(x.args[0], at)} {times} {self._tight(x.args[1], at)}"
        if x.op in ("gather", "scatter", "total", "spread"):
            if x.op == "scatter":
                return ("\\sum_{C} " if self.latex else "Σ_C ") + self._tight(x.args[0], "C")
            if x.op == "total":
                return ("\\sum_{k} " if self.latex else "Σ_k ") + self._tight(x.args[0], "k")
            return self._tight(x.args[0], "k" if x.op == "gather" else at)
        if x.op in ("of_point", "of_row", "of_mate"):
            return self._tight(x.args[0], {"of_point": "C", "of_row": "i"}.get(x.op, "C'"))
        if x.op in ("to_point", "to_row"):
            return (r"\sum_{l} " if self.latex else "Σ_l ") + self._tight(x.args[0], "l")
        if x.op == "matrix":
            return self._matrix(x)
        if x.op == "square":
            sign = r"\sum_{k} " if self.latex else "Σ_k "
            ends = f"{self._star(x.args[0], 'k')} ".replace("k,j", "k,i")
            return sign + ends + self._tight(x.args[1], "k")
        if x.op == "pair":
            left, middle, right = x.args
            ends = f"{self._star(left, 'c')} {self._tight(middle, 'c')}".replace("c,j", "c,i")
            return f"{ends} {self._tight(right, 'c')}"
        if x.op in ("small_solve", "row_solve"):
            return (
                f"{self._powered(x.args[0], at, _power(self.latex))} {self._tight(x.args[1], at)}"
            )
        return self._leaf(x, at)

    def _matrix(self, x: Field) -> str:
        """All blocks: (k, k) of the diagonal parts, (k, j) and (j, k) of the paths."""
        parts: list[str] = []
        data: Any = x.data
        for part, y in zip(data, x.args, strict=True):
            text = self._star(y, "k") if part.how == "path of adjoint" else self._tight(y, "k")
            place = {"diagonal": "(k,k)", "path": "(k,j)", "path of adjoint": "(j,k)"}
            where = place.get(part.how, "(i,j)")
            factor = "" if part.coefficient == 1 else f"{part.coefficient} "
            parts.append(f"{where}: {factor}{text}")
        listed = ";  ".join(parts)
        return rf"\text{{blocks }} {listed}" if self.latex else f"blocks  {listed}"

    def _root(self, x: Field) -> str:
        return r"\bar{g} \text{ (roots)}" if self.latex else "[0; −g] (roots only)"

    def _leaf(self, x: Field, at: str) -> str:
        pair = {"k": "(p,k)", "c": "(k,c)"}.get(at, f"({at})")
        phi = r"\phi" if self.latex else "φ"
        star = "^{*}" if self.latex else "*"
        simple = {
            "transform": phi + pair,
            "hinge_axes": f"H{star}({at})",
            "hinge_axes_rate": (r"\dot{H}" if self.latex else "Ḣ") + f"{star}({at})",
            "M": f"M({at})",
            "diag": f"free({at})",
            "against": r"[0; -g]" if self.latex else "[0; −g]",
            "joint_transform": f"joint({at})",
            "Jr": (r"J_r" if self.latex else "Jr") + f"({at})",
            "eye": "I",
            "zero": "0",
            "gravity": r"\bar{g}" if self.latex else "[0; −g]",
            "point_frame": f"B({at})",
            "point_arm": f"{phi}(k,{at})",
            "selected": f"select_{x.data}({at})",
            "path_seed": self._seed(x, at),
            "seed": f"I({at})",
            "rec": "z",
            "matrix": "all blocks",
        }
        if x.op in simple:
            return simple[x.op]
        if x.op == "input":
            name = str(x.data)
            row = CATALOGUE.get(name)
            shown = name if row is None else (row.latex if self.latex else row.symbol)
            return f"{shown}({at})"
        inside = ", ".join(self._text(y, at) for y in x.args if y.op not in _HIDDEN)
        name = _CALLS.get(x.op, (x.op, rf"\operatorname{{{x.op}}}".replace("_", r"\_")))
        return f"{name[1] if self.latex else name[0]}({inside})"

    def _seed(self, x: Field, at: str) -> str:
        """What a path starts with: the identity, or B of the point, at the body it starts from."""
        start = self._tight(x.args[0], "j") if x.args else "I"
        return rf"{start}|_{{{at}=j}}" if self.latex else f"{start}[{at} = j]"

    def _star(self, x: Field, at: str) -> str:
        if x.op == "hinge_axes":
            return f"H({at})"
        if x.op == "hinge_axes_rate":
            return (r"\dot{H}" if self.latex else "Ḣ") + f"({at})"
        if x.op == "T":
            return self._tight(x.args[0], at)
        if x.type.kind in (Kind.SYMMETRIC, Kind.INERTIA):
            return self._tight(x, at)
        if x.op == "mul" and x not in self.names:  # (X Y)* = Y* X*
            return f"{self._star(x.args[1], at)} {self._star(x.args[0], at)}"
        return self._powered(x, at, "^{*}" if self.latex else "*")

    def _powered(self, x: Field, at: str, power: str) -> str:
        """P*(k) rather than P(k)*."""
        text = self._text(x, at)
        if x.op in ("add", "mul", "cong") and x not in self.names:
            return (rf"\left({text}\right)" if self.latex else f"({text})") + power
        head, bracket, tail = text.partition("(")
        return f"{head}{power}{bracket}{tail}"

    def _sum(self, x: Field, at: str) -> str:
        out = ""
        minus = "-" if self.latex else "−"
        for c, y in sorted(terms_of(x), key=lambda t: t[0] < 0):
            text = self._tight(y, at)
            if abs(c) != 1:
                text = f"{abs(c)} {text}"
            if not out:
                out = f"{minus}{text}" if c < 0 else text
            else:
                out += f" {minus} {text}" if c < 0 else f" + {text}"
        return out


def _power(latex: bool) -> str:
    return "^{-1}" if latex else "⁻¹"


def _spelled_out(x: Field) -> bool:
    """True for what is clearer without a name of its own: −X, and P H*."""
    if x.op == "add" and len(x.args) == 1:
        return True
    return x.op == "mul" and x.args[1].op == "hinge_axes" and x.args[0].op in ("rec", "input")
