"""Texts that may or may not be expressions, and what comes of them.

    from expression_texts import outcome, text_of

`text_of(seed)` draws a text: tokens in any order, operators that fit together, or an equation of
the papers with faults in it. `outcome(text)` reads, explains and compiles it: everything has to
work or to raise a `PhipsiError` with a message that is short and safe to print.
"""

from __future__ import annotations

import random
import unicodedata
from functools import cache
from typing import Any

import numpy as np

import phipsi as pp
from phipsi.core.expressions.node import SELECTABLE, Expr
from phipsi.core.expressions.spaces import SPACES
from phipsi.core.model.model import Model
from phipsi.core.operators import VOCABULARY
from phipsi.core.operators.inputs import leaves_of
from phipsi.core.sweeps.request import NEEDS_ROWS
from phipsi.errors import ParseError, PhipsiError

PER_BODY = {name for name, space in SPACES.items() if space.per_body}
LONGEST_MESSAGE = 4000
POINTS = [("link3", (0.1, 0.0, 0.2)), ("link1", (0.0, 0.1, 0.0))]

EQUATIONS = (
    "H φ M φ* H* + Jr",
    "(I − H ψ K)* D⁻¹ (I − H ψ K)",
    "ℳ⁻¹ (τ − H φ (M φ* (a + gravity) + b))",
    "H φ [M φ* (H* v̇ + a + gravity) + b − f_ext] + Jr v̇",
    "(I + H φ K) D (I + H φ K)*",
    "H φ (M φ* a_paper + b_paper)",
    "J ℳ⁻¹ J*",
    "Λ⁻¹ (J v̇ + Ḃ* V)",
    "A Λ A*",
    "(A Λ A*)⁻¹ (U − A J ℳ⁻¹ τ)",
    "1/2 v* ℳ v",
    "logdet(ℳ)",
    "logdet(H φ M φ* H*)",
    "bd(ψ* H* D⁻¹ H ψ)",
    "bd(φ M φ*) − R",
    "total[0.1, 0, 0.3] M V",
    "P{H; E_φ; M; 0}",
    "ψ{H; E_ψ; M; Jr} K{H; E_ψ; M; Jr}",
    "cross(V) φ* cross(a) H*",
    "regress(φ* (H* v̇ + a)) − cross(V)* regress(V)",
    "vee(cross(V))",
    "vee_force(outer(V; f_ext))",
    "inertia_trace(outer(V; V))",
    "dH_trace[0](H* D; v)",
    "H* half(D½⁻¹ D D½*⁻¹)",
    "Ḣ{v; dq}* v + dHT{v} dq + dHT[0]{v; dv} dq",
    "dBT{V} V + dB{f0} V",
    "dA{B* V} V",
    "unit_rate[joint1]* ℳ⁻¹ unit_effort[joint2, 0]",
    "M(π)",
    "inertia_of(unit_inertia[link1, 4]) V",
    "as_matrix(ℳ⁻¹) as_matrix(ℳ)",
    "operand[rates]* ℳ v",
    "0[motions,forces] V + 2 M V",
    "I[efforts] − H G",
    "(φ + ψ~)* (2.5e-3 I + φ~)⁻¹* ",
    "(2 I + H φ K)^-1 Ω^1 φ^2",
    "unprescribed H φ + prescribed v̇",
    "Λ[P]",
)
# operators and vectors that are no leaves by themselves
MADE = (
    "D⁻¹", "ℳ⁻¹", "M⁻¹", "(I + E_φ)⁻¹", "(I − H ψ K)⁻¹", "(2 I + H φ K)⁻¹", "(M + R)⁻¹", "(ψ φ)⁻¹",
    "(H φ M φ* H* + Jr)⁻¹", "(H φ M φ* H*)⁻¹", "(H ψ R ψ* H* + D)⁻¹", "P{H; E_φ; M; 0}⁻¹",
    "ψ{H; E_ψ; M; Jr}", "G{H; E_φ; R; D}", "bd(φ M ψ*)", "bd(φ* M⁻¹ φ)", "cross(V)",
    "cross_force(b)", "outer(V; f_ext)", "inertia_of(unit_inertia[link2, 4])", "regress(a)",
    "vee(cross(V))", "dHT{v}", "dBT{V}", "dB{f0}", "dA{B* V}", "unit_rate[joint2]",
    "total[0, 0, 1]", "Ḣ{dq}", "Λ⁻¹", "as_matrix(ℳ)", "logdet(ℳ)", "(v* ℳ v)⁻¹",
)  # fmt: skip
FRAGMENTS = (
    "^2", "^3", "^0", "^-1", "^-2", "^{-1}", "⁻¹", "*", ".T", ".inv", "^T", "^999999999", "^20",
    "²", "^99999999999999999999999", "1e99999999/3 ", "1e308 ", "1e-308 ", "9" * 5000 + " ",
    "1/0 ", "1/" + "7" * 60 + " ", "0 ", "0[motions]", "0[motions, forces]", "0[", "0[,,]", "I[",
    "I[nothing]", "dH_trace[x]", "dH_trace[9]", "dHT[x]", "dBT", "dA", "select", "unit_rate",
    "unit_rate[a, b]", "unit_rate[joint1, 999]", "dHT", "dAT", "operand", "operand[x]",
    "total[1,2]", "total[nan,1,2]", "total[1e999,0,0]",
    "{", "}", "{0}", "{0; 0; 0; 0}", "{H; E_φ; M; 0}", "(",
    ")", "((((", "))))", "[", "]", ";", ",", "\x1b[31m", "\x00", "\u202e", "̀", "\ud800", "\n",
    "\t", "½", "~", "@", "·", "−", "+", "bd(", "cross(", "outer(", "logdet(", "half(", "as_matrix(",
    "vee(", "I", "ϕ", "°", "𝓜", r"\phi", r"\bar", r"\bar{", r"\left(", r"\right)", r"_{P}", "_{",
    r"^{\top}", r"\mathcal{M}", r"\frac12 ", r"\tfrac{1}{2}", r"\langle ", r"\rangle", "\\", "'",
    "ᵀ", " where ₁ is {H; E_φ; M; 0}", "₁", '["', "inv(", r"\text{where}",
)  # fmt: skip


@cache
def words() -> tuple[str, ...]:
    return tuple(VOCABULARY.leaves)


@cache
def by_space() -> dict[str, list[tuple[str, str]]]:
    """For every space what gives it, with the space it takes."""
    out: dict[str, list[tuple[str, str]]] = {}
    for name in (*VOCABULARY.leaves, *MADE):
        x = pp.parse(name) if name in MADE else VOCABULARY.leaves[name]
        if x.name in VOCABULARY.incomplete and name not in MADE:
            continue
        text = f"({name})" if " " in name else name
        out.setdefault(x.gives.name, []).append((text, x.takes.name))
        if not x.is_vector:
            out.setdefault(x.takes.dual.name, []).append((f"{text}*", x.gives.dual.name))
    return out


def text_of(seed: int) -> str:
    """The text of one seed."""
    rng = random.Random(seed)
    kind = rng.random()
    if kind < 0.15:
        return soup(rng)
    if kind < 0.6:
        text = fitting(rng, rng.choice(list(by_space())), rng.randint(1, 6), 2)
        return mutated(rng, text) if rng.random() < 0.25 else text
    return mutated(rng, rng.choice(EQUATIONS))


def soup(rng: random.Random) -> str:
    tokens = [*words(), *VOCABULARY.functions, *FRAGMENTS, *map(str, range(4)), *SPACES]
    return rng.choice(["", " "]).join(rng.choice(tokens) for _ in range(rng.randint(1, 12)))


def fitting(rng: random.Random, gives: str, length: int, depth: int) -> str:
    """A product whose factors fit, with sums, powers and diagonals here and there."""
    factors: list[str] = []
    space = gives
    for _ in range(length):
        choices = by_space().get(space, [])
        own = [name for name, takes in choices if takes == space]
        if not choices:
            break
        name, takes = rng.choice(choices)
        kind = rng.random() if depth else 1.0
        if kind < 0.15:
            others = [other for other, t in choices if t == takes]
            name = f"({name} + {number(rng)} {rng.choice(others)})"
        elif kind < 0.25 and own:
            name, takes = f"(I + {rng.choice(own)})^{rng.randint(0, 9)}", space
        elif kind < 0.3 and own:
            name, takes = f"({rng.choice(own)})^{rng.choice([-2, -1, 0, 1, 2, 8, 20])}", space
        elif kind < 0.35 and {space, takes} <= PER_BODY:
            name = f"bd({name})"
        elif kind < 0.4 and own:
            inner = fitting(rng, space, 2, depth - 1)
            name, takes = f"({inner} + {rng.choice(own)})", space
        factors.append(name)
        space = takes
        if space == "one":
            break
    text = rng.choice([" ", " @ "]).join(factors) or "I"
    if depth and rng.random() < 0.2:
        text = f"({text})^{rng.randint(2, 9)}" if rng.random() < 0.3 else f"{text} + {text}"
    return f"{number(rng)} {text}" if rng.random() < 0.2 else text


def number(rng: random.Random) -> str:
    return rng.choice(["2", "0.5", "1/3", "7", "1e3", str(rng.uniform(0, 10)), "0"])


def mutated(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 4)):
        i = rng.randint(0, len(text))
        j = min(len(text), i + rng.randint(0, 6))
        kind = rng.randrange(9)
        if kind == 0:
            text = text[:i] + text[j:]
        elif kind == 1:
            text = text[:j] + text[i:]
        elif kind == 2:
            text = text[:i] + rng.choice(FRAGMENTS) + text[i:]
        elif kind == 3:
            text = text[:i] + rng.choice(words()) + " " + text[j:]
        elif kind == 4:
            text = f"({text})" + rng.choice(FRAGMENTS)
        elif kind == 5:
            text = f"({text} + {rng.choice(EQUATIONS)})"
        elif kind == 6:
            text = f"({text}) {rng.choice(EQUATIONS)}"
        elif kind == 7:
            text = f"(({text})^{rng.randint(2, 30)} + {rng.choice(words())})"
        else:
            text = rng.choice(["(" * 400, "−" * 50, "bd(" * 300]) + text
    return text


# ---- what comes of it ----------------------------------------------------------------------------


@cache
def mechanisms() -> tuple[Model, pp.System]:
    arm = pp.examples.planar_arm(3)
    pin = pp.constraints.Spherical(name="pin", a="link3", b="world")
    return arm, pp.System(arm, [pin], secondary=["link1"])


class Bad(Exception):
    """What a text must not lead to."""


def outcome(text: str, *, run: bool = False) -> str:
    """ "compiled", or the stage and class of the `PhipsiError`; anything else is raised."""
    stage = "parse"
    try:
        x = pp.parse(text)
        for style in ("ascii", "greek", "latex"):
            again = pp.parse(x.text(style))
            if again is not x:
                raise Bad(f"{x.text(style)!r} is read as {again.text('ascii')!r}")
        stage = "explain"
        said = str(pp.explain(x))
        if not said:
            raise Bad("no explanation")
        stage = "compile"
        program = compiled(x)
        if run:
            stage = "run"
            evaluated(program)
    except PhipsiError as error:
        check_message(str(error))
        if stage != "parse" and isinstance(error, ParseError):
            raise Bad(f"{stage} cannot read what parse has read: {error}") from None
        return f"{stage}: {type(error).__name__}"
    return "run" if run else "compiled"


def compiled(x: Expr) -> pp.Program:
    arm, system = mechanisms()
    names = {leaf.name for leaf in leaves_of(x)}
    selected = any(leaf.params for leaf in leaves_of(x) if leaf.name in SELECTABLE)
    if names & NEEDS_ROWS or selected:
        return pp.compile(x, system, backend="reference")
    return pp.compile(x, arm, points=POINTS, backend="reference")


def evaluated(program: pp.Program) -> Any:
    rng = np.random.default_rng(0)
    shapes = program.input_shapes
    inputs = {name: rng.uniform(0.1, 1.0, shapes[name]) for name in program.inputs}
    with np.errstate(all="ignore"):
        return program(**inputs)


def check_message(text: str) -> None:
    if not text or len(text) > LONGEST_MESSAGE:
        raise Bad(f"a message of {len(text)} characters: {text[:200]!r}")
    wrong = [c for c in text if c != "\n" and unicodedata.category(c)[0] == "C"]
    if wrong:
        raise Bad(f"the message contains {wrong[0]!r}: {text[:200]!r}")
