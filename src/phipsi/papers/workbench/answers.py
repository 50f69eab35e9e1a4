"""Answers to the questions of the workbench's page: plain data from an expression and a robot.

Only text that `parse` reads is evaluated. Every answer is a dictionary of numbers and strings that
JSON can hold; an error of the library is the answer ``{"error": its text}``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from phipsi import examples
from phipsi.core.backends import Program
from phipsi.core.calculus import diff
from phipsi.core.compiler import compile, explain
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions import Expr, Space, signature, structure_word, with_plain_equals
from phipsi.core.model import Model, entry_names
from phipsi.core.operators import (
    CATALOGUE,
    LETTERS,
    PAPERS,
    as_sides,
    leaves_of,
    paper_named,
    parse,
)
from phipsi.core.rewrite import sides_of
from phipsi.core.sweeps import NEEDS_POINTS
from phipsi.errors import InputError, LoweringError, PhipsiError
from phipsi.papers.derivations.derive import derive
from phipsi.papers.theorems import identities, prove
from phipsi.papers.workbench.own_operators import own_operators
from phipsi.support import Message, serve

LONGEST_TEXT = 2000  # characters of an expression
_LONGEST_LATEX = 30_000
_LONGEST_CODE = 200_000
_MOST_BODIES = 60  # for dense matrices
_MOST_NUMBERS = 900  # of a matrix that is shown
_CHAINS = (1, 2, 4, 8, 16, 32, 64)

Answer = dict[str, Any]
Robots = Mapping[str, Callable[[], Model]]


def shipped_robots() -> dict[str, Callable[[], Model]]:
    """The robots that every workbench offers, small ones first."""
    chains = {f"planar_arm({n})": (lambda n=n: examples.planar_arm(n)) for n in (2, 4)}
    tree = {"random_tree": lambda: examples.random_tree(3, 8)}
    return {**chains, **tree, **{name: getattr(examples, name) for name in examples.ROBOTS}}


@dataclass(frozen=True)
class Question:
    """What the page sent: the `text`, the robot by its name, a seed of the state.

    `notation` is the paper in whose letters the text is, and `own` has lines that define operators.
    """

    text: str
    robot: str = ""
    seed: int = 0
    wrt: str = "q"
    notation: str = ""
    own: str = ""

    @classmethod
    def make(cls, request: Mapping[str, Any]) -> Question:
        """A checked question from plain data."""
        text, robot = request.get("text", ""), request.get("robot", "")
        seed, wrt = request.get("seed", 0), request.get("wrt", "q")
        notation, own = request.get("notation", ""), request.get("operators", "")
        if not all(isinstance(x, str) for x in (text, robot, wrt, notation, own)):
            raise InputError("text, robot, wrt, notation and operators of a question are strings")
        if type(seed) is not int or not 0 <= seed < 2**31:
            raise InputError("the seed of a question is an integer from 0 to 2147483647")
        if len(text) > LONGEST_TEXT:
            raise InputError(
                f"the expression has {len(text)} characters; the workbench reads at most "
                f"{LONGEST_TEXT}. Compile long expressions in Python:  pp.compile(text, model)"
            )
        if len(own) > LONGEST_TEXT:
            raise InputError(
                f"the custom operators have {len(own)} characters; the workbench reads at most "
                f"{LONGEST_TEXT}"
            )
        return cls(text, robot, seed, wrt, notation, own)

    @property
    def custom(self) -> list[Expr]:
        """The custom operators of the page."""
        return own_operators(self.own)

    @property
    def expression(self) -> Expr:
        """The text as an expression."""
        return parse(self.text, self.notation, self.custom)

    @property
    def letters(self) -> dict[str, Any]:
        """How functions read the text."""
        return {"notation": self.notation, "custom": self.custom}


class Answers:
    """All answers of one workbench; `robots` by name, built when they are first asked for."""

    def __init__(self, robots: Robots) -> None:
        self.robots = robots
        self._built: dict[str, Model] = {}
        self._kinds: dict[str, Callable[[Question], Answer]] = {
            "read": self.read,
            "recursion": self.recursion,
            "value": self.value,
            "blocks": self.blocks,
            "cost": self.cost,
            "code": self.code,
            "differentiate": self.differentiate,
            "prove": self.prove,
            "derive": self.derive,
            "identities": self.identities,
            "robots": lambda _: {"robots": list(self.robots), "notations": list(PAPERS)},
            "letters": self.letters,
        }

    def __call__(self, request: Mapping[str, Any]) -> Answer:
        """The answer to a request; every error of the library is one too."""
        try:
            kind = self._kinds.get(str(request.get("kind")))
            if kind is None:
                raise InputError(f"the kind of a question is one of {', '.join(self._kinds)}")
            return kind(Question.make(request))
        except PhipsiError as error:
            return {"error": str(error), "class": type(error).__name__}

    def robot(self, question: Question) -> Model:
        """The model that a question names."""
        name = question.robot or next(iter(self.robots))
        if name not in self.robots:
            raise InputError(f"there is no robot {name!r}. Known: {', '.join(self.robots)}")
        if name not in self._built:
            self._built[name] = self.robots[name]()
        return self._built[name]

    # ---- one expression ------------------------------------------------------------------------

    def read(self, question: Question) -> Answer:
        """The expression typeset, its spaces and structure, and the operators in it."""
        if "=" in with_plain_equals(question.text):
            sides = as_sides(sides_of(question.text), **question.letters)
            return {
                "claim": True,
                "latex": " = ".join(_latex(x) for x in sides),
                "text": " = ".join(map(str, sides)),
                "signature": " = ".join(dict.fromkeys(map(signature, sides))),
                "operators": _glossary(sides),
            }
        x = question.expression
        return {
            "claim": False,
            "latex": _latex(x),
            "text": str(x),
            "signature": signature(x),
            "structure": "" if x.is_vector else structure_word(x.structure),
            "operators": _glossary([x]),
        }

    def recursion(self, question: Question) -> Answer:
        """Every rewrite with its source, the sweeps with their equations, and the cost."""
        x, robot = question.expression, self.robot(question)
        text = explain(x, robot, levels=True, meanings=True)
        typeset = explain(x, robot, latex=True)
        return {
            "rewrites": [
                {
                    "name": step.name,
                    "source": step.source,
                    "before": _latex(step.before),
                    "after": _latex(step.after),
                }
                for step in text.rewrites
            ],
            "lowered": [_latex(y) for y in text.lowered],
            "sweeps": [
                {
                    "kind": plain.kind,
                    "heading": plain.heading,
                    "equations": list(plain.equations),
                    "latex": list(one.equations),
                    "meanings": list(plain.meanings),
                }
                for plain, one in zip(text.sweeps, typeset.sweeps, strict=True)
            ],
            "levels": [
                {"latex": _latex(one.operator), "text": str(one.operator), "lines": [*one.lines()]}
                for one in text.levels
            ],
            "order": text.order,
            "flops": text.flops,
            "bodies": robot.n_bodies,
        }

    def differentiate(self, question: Question) -> Answer:
        """The derivative as an expression: by the variable, or along a change of it."""
        x = question.expression
        y = diff(x, question.wrt) if x.is_vector else None
        along = ""
        if not isinstance(y, Expr):  # a family over the degrees of freedom has no text of its own
            along = f"d{question.wrt}"
            y = diff(x, question.wrt, along=along)
        return {"text": str(y), "latex": _latex(y), "along": along, "signature": signature(y)}

    # ---- on a robot ----------------------------------------------------------------------------

    def value(self, question: Question) -> Answer:
        """The value of the program in a random state, and its distance from `evaluate_dense`."""
        x, robot = question.expression, self.robot(question)
        program, points = _program(x, robot)
        named = _state(program, robot, question.seed)
        got: Any = np.asarray(program(**{name: named[name] for name in program.inputs}))
        out: Answer = {"inputs": list(program.inputs), "shape": list(got.shape)}
        if robot.n_bodies <= _MOST_BODIES:
            operand = named.pop("x", None)
            exact = evaluate_dense(x, robot, points=points, **named)
            if operand is not None:
                exact = exact @ operand.reshape(-1)
            got = got.reshape(exact.shape)
            out |= {
                "difference": float(np.abs(got - exact).max(initial=0.0)),
                "scale": float(np.abs(exact).max(initial=0.0)),
                "applied": operand is not None,
            }
        if got.size <= _MOST_NUMBERS:
            shown = got.astype(object)
            shown[~np.isfinite(got)] = None
            out["numbers"] = shown.tolist()
            rows = _labels(x.gives, robot, points)
            out["rows"] = rows if len(rows) == (got.shape[0] if got.ndim else 1) else []
        return out

    def blocks(self, question: Question) -> Answer:
        """Which blocks of the expression and of each operator in it differ from zero."""
        x, robot = question.expression, self.robot(question)
        if robot.n_bodies > _MOST_BODIES:
            raise InputError(
                f"{question.robot} has {robot.n_bodies} bodies; pictures show dense matrices, and "
                f"are limited to {_MOST_BODIES} bodies"
            )
        forms = (x, *explain(x, robot, points=_points(x, robot)).lowered)
        parts = dict.fromkeys([x, *sorted({y for form in forms for y in leaves_of(form)}, key=str)])
        pictures = []
        for y in parts:
            if not y.is_vector:
                try:
                    pictures.append(_picture(y, robot, question.seed))
                except LoweringError:  # an operator that only has a meaning inside another
                    continue
        return {"pictures": pictures}

    def cost(self, question: Question) -> Answer:
        """The plans on the robot, and the estimated time of each on chains of growing length."""
        x, robot = question.expression, self.robot(question)
        forms: dict[str, list[list[float]]] = {}
        for n in _CHAINS:
            for plan in explain(x, examples.planar_arm(n), plan=True, mode=_mode(x)).plans:
                forms.setdefault(plan.name, []).append([n, plan.nanoseconds])
        compared = explain(x, robot, plan=True, mode=_mode(x), points=_points(x, robot)).plans
        return {
            "forms": [{"name": name, "points": points} for name, points in forms.items()],
            "plans": [
                {
                    "name": plan.name,
                    "flops": plan.work.flops,
                    "words": plan.work.words,
                    "nanoseconds": plan.nanoseconds,
                }
                for plan in compared
            ],
        }

    def code(self, question: Question) -> Answer:
        """The code that is compiled to machine code, and how large that is."""
        program, _ = _program(question.expression, self.robot(question))
        native = program.native
        if native is None:
            raise InputError(
                "this machine has no native backend, so no code is generated. Install LLVM:  "
                "pip install llvmlite"
            )
        text = native.unit.emit()
        cut = text if len(text) <= _LONGEST_CODE else text[:_LONGEST_CODE] + "\n; … cut here"
        return {"text": cut, "lines": text.count("\n"), "lanes": native.target.lanes}

    # ---- identities ----------------------------------------------------------------------------

    def prove(self, question: Question) -> Answer:
        """Whether a claim holds in general and on the robot, exactly; if not, a counterexample."""
        how = question.letters
        general = prove(question.text, **how)
        here = prove(question.text, self.robot(question), **how)
        shown = "" if general.counterexample is None else str(general.counterexample)
        return {
            "holds": general.holds,
            "reason": general.reason,
            "holds_if": general.holds_if,
            "here": here.holds,
            "reason_here": here.reason,
            "counterexample": shown,
        }

    def derive(self, question: Question) -> Answer:
        """A chain of named identities from the left side of a claim to the right."""
        found = derive(question.text, **question.letters)
        return {
            "complete": bool(found),
            "reason": found.reason,
            "condition": found.condition,
            "start": _latex(found.lhs),
            "steps": [
                {"latex": _latex(step.expression), "text": str(step.expression), "why": step.reason}
                for step in found.steps
            ],
        }

    def letters(self, question: Question) -> Answer:
        """The letters of a paper, and what they mean in phipsi."""
        table = LETTERS.get(paper_named(question.notation), {})
        return {
            "letters": [
                {"letter": letter, "meaning": str(parse(letter, question.notation))}
                for letter in table
                if "{" not in letter
            ]
        }

    def identities(self, question: Question) -> Answer:
        """All identities of the library, to search in."""
        return {
            "identities": [
                {
                    "name": one.name,
                    "text": one.statement or f"{one.lhs} = {one.rhs}",
                    "latex": ""
                    if one.lhs is None or one.rhs is None
                    else f"{_latex(one.lhs)} = {_latex(one.rhs)}",
                    "condition": one.condition,
                    "source": one.source,
                    "kind": one.kind,
                }
                for one in identities()
            ]
        }


def _latex(x: Expr) -> str:
    found = x.text("latex")
    return found if len(found) <= _LONGEST_LATEX else r"\text{too long to be typeset}"


def _glossary(expressions: Sequence[Expr]) -> list[Answer]:
    """The operators and vectors of expressions: their names, spaces and meanings."""
    leaves = {y.name: y for x in expressions for y in leaves_of(x)}
    return [
        {
            "name": name,
            "latex": _latex(y),
            "signature": signature(y),
            "meaning": CATALOGUE[name].meaning if name in CATALOGUE else "",
            "source": CATALOGUE[name].source if name in CATALOGUE else "",
        }
        for name, y in sorted(leaves.items())
    ]


def _points(x: Expr, robot: Model) -> list[str] | None:
    """The points of B and J: the last body."""
    names = {leaf.name for leaf in leaves_of(x)}
    return [robot.body_names[-1]] if names & NEEDS_POINTS and robot.n_bodies else None


def _mode(x: Expr) -> str:
    """An operator is shown as its matrix."""
    return "apply" if x.is_vector or x.is_scalar else "dense"


def _program(x: Expr, robot: Model) -> tuple[Program, list[str] | None]:
    """The program of a value: the matrix of an operator, or if it has none its product."""
    points = _points(x, robot)
    try:
        return compile(x, robot, mode=_mode(x), points=points), points
    except LoweringError:
        return compile(x, robot, points=points), points


def _state(program: Program, robot: Model, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    named: dict[str, Any] = {"q": robot.random_configuration(rng)}
    for name, shape in program.input_shapes.items():
        if name != "q":
            named[name] = np.ones(shape) if name == "free" else rng.normal(size=shape)
    return named


def _edges(space: Space, robot: Model, size: int) -> list[int]:
    """Where the blocks of a space begin, and its end."""
    if space.index == "joint":
        return [*(s.start for s in robot.v_slices), robot.nv]
    width = space.width or 1
    return list(range(0, size + 1, width))


def _labels(space: Space, robot: Model, points: Sequence[str] | None) -> list[str]:
    """The names of the components of a vector."""
    if space.index == "joint":
        return entry_names(robot, robot.v_slices)
    names = {"body": robot.body_names, "parameter": robot.body_names, "point": points or ()}
    parts = "αx αy αz x y z".split() if space.width == 6 else [str(i) for i in range(10)]
    width = space.width or 1
    return [f"{name} {part}" for name in names.get(space.index, ()) for part in parts[:width]]


def _block_names(space: Space, robot: Model, count: int) -> list[str]:
    names: Sequence[str] = {
        "joint": robot.joint_names,
        "body": robot.body_names,
        "parameter": robot.body_names,
    }.get(space.index, ())
    return list(names) if len(names) == count else [str(i) for i in range(count)]


def _picture(x: Expr, robot: Model, seed: int) -> Answer:
    """The largest entry of every block of an operator, as powers of ten; None where it is zero."""
    points = _points(x, robot)
    named = _state(compile(x, robot, points=points), robot, seed)
    named.pop("x", None)
    matrix = np.abs(evaluate_dense(x, robot, points=points, **named))
    rows = _edges(x.gives, robot, matrix.shape[0])
    columns = _edges(x.takes, robot, matrix.shape[1])
    least = 1e-13 * matrix.max(initial=0.0)
    cells = [
        [_size(matrix[a:b, c:d], least) for c, d in zip(columns, columns[1:], strict=False)]
        for a, b in zip(rows, rows[1:], strict=False)
    ]
    return {
        "latex": _latex(x),
        "rows": _block_names(x.gives, robot, len(rows) - 1),
        "columns": _block_names(x.takes, robot, len(columns) - 1),
        "cells": cells,
    }


def _size(block: np.ndarray, least: float) -> float | None:
    most = float(block.max(initial=0.0))
    return None if most <= least else round(float(np.log10(most)), 2)


# ---- the process that evaluates: `python -m phipsi.papers.workbench.answers` -----------------


class Evaluator:
    """Answers for the shipped robots, and for one that comes with a request."""

    def __init__(self) -> None:
        self._own: tuple[str, Any] = ("", None)
        self._answers = Answers(shipped_robots())

    def __call__(self, request: dict[str, Any], blobs: list[bytes]) -> Message:
        """The answer to one request; its own robot is data of `Model.to_dict`."""
        name, data = request.get("own", ("", None))
        if data is not None and name != self._own[0]:
            self._own = (name, data)
            own: Robots = {name: partial(Model.from_dict, data, inertia="keep")}
            self._answers = Answers({**own, **shipped_robots()})
        return self._answers(request), []


def main() -> None:
    """Answer until the other side is gone; compiled code may be kept for the next time."""
    serve(Evaluator(), lambda: None, writes_files=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
