"""The notations of the five papers, and what their letters mean here.

One table per paper, letter → text that `parse` reads; a letter may use those above it. A letter
that the table does not have means what it means here. docs/notation.md 11 explains the differences.

The papers' a and b are derivatives in the inertial frame, and gravity is added to a, as 88-11
eq. 3.21 does: ``a = a_paper + gravity``. The papers have no armature: their equations are those of
Jr = 0. A dot over an operator is its derivative in the inertial frame too. MS writes the derivative
with respect to the angle of joint i with a subscript θ_i, and ℍⁱ for the axis of joint i: here they
are those along dq, of which the unit rate of one joint is a special case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import cast

from phipsi.core.expressions import REGISTERED, Expr, Op, Vocabulary, letters, parse_with
from phipsi.core.operators.inputs import needs_of
from phipsi.errors import InputError, PhipsiError, did_you_mean
from phipsi.views import view

# fmt: off
_ALL = {
    "ℐ":    "I",
    "T":    "tau",
    "a":    "a_paper + gravity",
    "b":    "b_paper",
    "α":    "phi* (H* vdot + a)",
    "f(0)": "f0",
    "V(0)": "J v",
    "a(0)": "Bdot* V - B* s_gauge",
    "α(0)": "B* α + a(0)",
    "V̇(0)": "α(0)",
    "C":    "H phi (M phi* a + b)",
    "ℳ(θ)": "mass_matrix",
    "C(θ,θ̇)": "C",
}
_ANGLES = {"θ̇": "v", "θ̈": "vdot"}
_BIASED = {  # MM, MC and 88-11: with the force f(0) at the tip
    "f":    "phi (M α + b + B f0)",
    "T̂":    "H phi (M phi* a + b + B f0)",
    "T'":   "tau - H phi (M phi* a + b + B f0)",
}
_FILTER = {  # innovations, residuals and smoothed accelerations
    "ε":    "(I - H psi K) T'",
    "ν":    "D^-1 ε",
    "λ":    "psi* H* ν",
}

LETTERS: Mapping[str, Mapping[str, str]] = {
    "SOA": {
        **_ALL,
        "β":   "v",
        "β̇":   "vdot",
        "f":   "phi (M α + b)",
        "T̄":   "tau - C",
        "τ":   "proj",
        "τ̄":   "proj_bar",
        "β̇_f": "mass_matrix^-1 T̄",
        "α_f": "J β̇_f",
        "V̂":   "B* V",
        "Û̇":   "Udot",
        "α̃_f": "phi* H* β̇_f",
        "f̂":   "(A Lambda A*)^-1 (A α_f - U)",
        "β̇_δ": "-mass_matrix^-1 J* A* f̂",
    },
    "MM": {
        **_ALL, **_ANGLES, **_BIASED,
        "Φ":   "phi - I",
        "Ψ":   "psi E_phi",
        "r":   "R",
        "q":   "bd(Φ P H* D^-1 H P Φ*)",
        **_FILTER,
        "ζ":   "M phi* a + b + B f0",
        "Ẇ":   "vdot",
    },
    "MC": {
        **_ALL, **_ANGLES, **_BIASED,
        "𝒞":   "C",
        "φ̄":   "phi - I",
        **_FILTER,
        "y":   "T'",
        "Ω(0)": "Lambda",
        "Λ":   "Lambda^-1",
        "θ̈_f": "mass_matrix^-1 (tau - C)",
        "Δ θ̈": "-mass_matrix^-1 J* f0",
    },
    "88-11": {
        **_ALL, **_ANGLES, **_BIASED,
        "S":   "shift",
        "Φ":   "phi shift",
        "Ψ":   "psi shift",
        "L":   "Lam_phi G",
        "Λ_ψ": "Lam_phi proj_bar",
        "r":   "R",
        **_FILTER,
        "ζ":   "phi* a",
        "Ẇ":   "vdot",
        "W":   "v",
    },
    "88-11 II": {
        **_ALL, **_ANGLES,
        "S":   "shift",
        "Φ":   "phi shift",
        "Ψ":   "psi shift",
        "L":   "Lam_phi G",
        "T'":  "tau - C",
        "ε":   "(I - H psi K) T'",
        "ν":   "D^-1 ε",
        "ζ":   "phi* a",
        "θ̈_f": "mass_matrix^-1 (tau - C)",
        "Δ θ̈": "-mass_matrix^-1 J* f0",
        "α_f(0)": "J θ̈_f + B* phi* a + a(0)",
        "Δ α(0)": "-J mass_matrix^-1 J* f0",
        "Λ(0)": "Lambda",
        "A":   "A_grasp",
    },
    "MS": {
        **_ALL, **_ANGLES,
        "𝒞":   "C",
        "𝒞(θ,θ̇)": "C",
        "f":   "phi (M α + b)",
        "𝕊":   "shift",
        "Δ_φ": "Lam_phi",
        "Ω̃":   "cross(angular V)",
        "Ω̃_s": "cross(angular E_phi* V)",
        "Ω̃_δ": "cross(angular H* v)",
        "ℍ^{i}":   "-cross(angular phi* H* dq)*",
        "ℍ_s^{i}": "-cross(angular E_phi* phi* H* dq)*",
        "ℍ_δ^{i}": "-cross(angular H* dq)*",
    },
}

# Further meanings of a letter, tried if the first does not fit between its neighbours.
READINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "SOA": {
        "D^{1/2}": ("D_half*",),  # printed as if it were symmetric
        "b":   ("D_half^-1 H psi B A*",),  # in eq. 0.37
    },
    "MM": {},
    "MC": {
        "M":   ("mass_matrix",),
        "A":   ("Λ",),
        "D^{1/2}": ("D_half*",),
        "ε":   ("D_half^-1 (I - H psi K) tau",),  # normalised, in section 6
        "ν":   ("D_half* (I + H phi K)* v",),
    },
    "88-11": {},
    "88-11 II": {},
    "MS": {
        "Ω̃":   ("-cross(angular V)*",),
        "Ω̃_s": ("-cross(angular E_phi* V)*",),
        "Ω̃_δ": ("-cross(angular H* v)*",),
        "ℍ^{i}":   ("cross(angular phi* H* dq)",),
        "ℍ_s^{i}": ("cross(angular E_phi* phi* H* dq)",),
        "ℍ_δ^{i}": ("cross(angular H* dq)",),
    },
}

# MC writes of two arms, 1 and 2: a text about one of them means the mechanism that is this arm, and
# f(0) is the force on arm 1, so −f(0) is that on arm 2.
ARMS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "MC": {
        "1": {"f(0)": "-f0", "Δ θ̈_1": "mass_matrix^-1 J* f(0)"},
        "2": {"f(0)": "f0", "Δ θ̈_2": "-mass_matrix^-1 J* f(0)"},
        "": {  # both, as parts P and S of a system that holds them together
            "Λ_1": "(A[P] Ω(0) A[P]*)^-1",
            "Λ_2": "(A[S] Ω(0) A[S]*)^-1",
            "Λ_c": "(A Ω(0) A*)^-1",
        },
    },
}
_OF_AN_ARM = {
    "ℳ": "mass_matrix", "M": "mass_matrix", "J": "J", "T": "tau", "θ̇": "v", "θ̈": "vdot",
    "𝒞": "C", "Λ": "Λ", "V(0)": "J v", "V̇(0)": "α(0)", "α(0)": "α(0)",
    "θ̈f": "θ̈_f", "αf(0)": "J θ̈_f + B* phi* a + a(0)",
}

NOT_OPERATORS: Mapping[str, str] = {
    "θ": "θ are the coordinates, called q here: an input of programs, not an operator",
    "f̂": "f̂ are the multipliers of constraints: "
    "pp.forward_dynamics(system, …, return_multipliers=True)",
    "Û": "Û are the prescribed constraint rates; their rate is U̇, called Udot",
    "𝒥": "𝒥(k) is the rotational inertia of a body, a part of M",
    "𝒬": "𝒬[f] of MS is the function cross_force(f)",
    "ℍ": "ℍ(i) of MS is one block; ℍ^i, ℍ_s^i and ℍ_δ^i are operators, for any joint rates dq: "
    'pp.parse("ℍ^i", notation="MS")',
    "ℂ": "the Christoffel symbols ℂ of MS belong to three joints; see docs/papers/MS.md",
    "Π": "Π of 88-11 Part II is a matrix of one grasp; pp.System solves for the contact forces",
    "k": "k is the number of a body; φ(k+1,k) is a block of E_φ, not an operator. "
    "Write the equation of all bodies at once, without numbers: P = E_ψ P E_ψ* + M",
    "z": "z is the state of a filter, the vector that the sweep of ψ carries: write ψ K T'",
}
# fmt: on
_ELSEWHERE = {"S": "Featherstone's S, the motion subspace, is H*"}
"""Letters that another book is better known for; docs/notation.md 11.4 has the others."""

PAPERS = tuple(LETTERS)


def paper_named(name: str) -> str:
    """The short name of a paper in docs/theory/sources.md; "JPL 88-11" is 88-11, "" is none."""
    if not isinstance(cast(object, name), str):
        raise InputError(
            f"notation={name!r} must be the short name of a paper, such as {PAPERS[0]!r}"
        )
    if not name:
        return ""
    short = name.removeprefix("JPL ").replace("Part II", "II").replace("Part I", "").strip()
    for known in PAPERS:
        if short.upper() == known.upper():
            return known
    raise InputError(
        f"{name!r} is not one of the papers, which are {', '.join(PAPERS)}. "
        f"{did_you_mean(name, PAPERS, ' ')}".rstrip()
    )


@cache
def paper_vocabulary(paper: str, base: Vocabulary) -> Vocabulary:
    """The names that a text of this paper may use."""
    plain = {n: x for n, x in base.leaves.items() if not _is_dotted(n, x)}
    base = replace(base, leaves=plain, rate=_time_derivative)
    if paper == "MS":
        base = replace(base, change=_by_angle)
    out = _with_letters(base, LETTERS[paper])
    readings = {
        spelling: tuple(parse_with(text, out) for text in texts)
        for letter, texts in READINGS[paper].items()
        for spelling in _spellings(letter)
    }
    written: dict[str, Callable[[], Expr]] = {}
    if paper == "MC":
        bias = partial(_bias_of_innovations, out)
        written = dict.fromkeys(_spellings("μ(θ,ν)"), bias)
    if paper == "MM":
        factor = partial(_newton_euler_factor, parse_with("H phi", out))
        written = {"M^{1/2}": _inertia_root, "M½": _inertia_root, "𝒫": factor}
    if paper == "MS":
        written = {"ℳ_i": partial(_by_angle, out.leaves["mass_matrix"])}  # for ℳ_θi
    out = replace(out, readings=readings, written=written)
    return replace(out, others=tuple(_of_arms(paper, out)))


def _with_letters(base: Vocabulary, table: Mapping[str, str]) -> Vocabulary:
    """A vocabulary with the letters of a table, which may use those above them."""
    out = base
    for letter, text in table.items():
        x = parse_with(text, out)
        out = replace(out, leaves={**out.leaves, **dict.fromkeys(_spellings(letter), x)})
    return out


def _of_arms(paper: str, words: Vocabulary) -> Iterator[Vocabulary]:
    """The vocabularies for texts about one of two arms, and about both."""
    for arm, own in ARMS.get(paper, {}).items():
        table = {_lowered(letter, arm): text for letter, text in _OF_AN_ARM.items() if arm}
        out = _with_letters(words, {**table, **own})
        yield replace(out, readings={x: y for x, y in out.readings.items() if x != "f(0)"})


def _lowered(letter: str, arm: str) -> str:
    """A letter with the number of an arm: α_1(0) of α(0), θ̈_1f of θ̈f."""
    stem, zero, _ = letter.partition("(0)")
    bare = stem.removesuffix("f") if len(stem) > 1 else stem
    return f"{bare}_{arm}{stem[len(bare) :]}{zero}"


def _is_dotted(name: str, x: Expr) -> bool:
    """Whether a name is that of a derivative in body axes, written with a dot."""
    return letters(name)[1:2] == "\u0307" and not x.is_vector


def _time_derivative(x: Expr) -> Expr | None:
    """The time derivative in the inertial frame of what depends on q and v only; else None."""
    return view("rate as printed")(x) if needs_of(x) <= {"q", "v", "inertia"} else None


def _inertia_root() -> Expr:
    return view("root of the inertias")()


def _newton_euler_factor(forces: Expr) -> Expr:
    """𝒫 of MM section X.A, with ℳ = 𝒫 𝒫*."""
    return forces @ _inertia_root()


def _by_angle(x: Expr) -> Expr:
    return view("change as printed")(x)


def _bias_of_innovations(words: Vocabulary) -> Expr:
    """μ(θ, ν) of MC section 6: ν̇ + μ = ε."""
    factor = parse_with("D_half* (I + H phi K)*", words)
    rate = view("rate as printed")(factor) @ parse_with("v", words)
    return parse_with("D_half^-1 (I - H psi K) C", words) - rate


def _spellings(letter: str) -> list[str]:
    """A letter, and the name of a Greek one in ASCII: Φ and Phi; T' with any prime."""
    out = [letter]
    if letter.endswith("'"):
        out += [letter[:-1] + "′", letter[:-1] + "^{'}"]
    if "^{i}" in letter:
        stem, _, below = letter.replace("^{i}", "").partition("_")
        below = below and f"_{below}"
        out += [f"{stem}^i{below}", f"{stem}{below}^i", f"{stem}ⁱ{below}", f"{stem}^{{i}}{below}"]
    if " " in letter or "," in letter:
        out += [letter.replace(" ", ""), letter.replace(",", ", ")]
    if letter[1:] in ("", "(0)") and "GREEK" in (name := unicodedata.name(letter[0])):
        word = name.split()[-1].lower().replace("lamda", "lambda")
        out.append((word.capitalize() if "CAPITAL" in name else word) + letter[1:])
    return out


def explain_letter(
    word: str, base: Vocabulary, text: str = "", known: Vocabulary | None = None
) -> str:
    """What an unknown letter of the papers is called here; "" if no paper has it.

    `text` is what it stands in, with words of `known`; a notation that is suggested reads it.
    """
    word = letters(word)
    for letter, why in NOT_OPERATORS.items():
        if letters(letter) == word:
            return why
    if re.search(r"_[12]f?$", word):
        return (
            'letters with 1 and 2 are those of two arms in MC. With notation="MC" a text is about '
            "one of them, as J_1 M_1⁻¹ J_1*, or about both with Λ_1, Λ_2 and Λ_c"
        )
    meanings: dict[str, list[str]] = {}
    for paper, table in LETTERS.items():
        named = [x for x in table if word in map(letters, _spellings(x))]
        if named:
            found = paper_vocabulary(paper, base).leaves[named[0]]
            meanings.setdefault(_called(found), []).append(paper)
    if not meanings:
        return _explain_rate(word[:-1], base) if word.endswith("\u0307") else ""  # a dot
    said = ", ".join(f"in {_listed(papers)} it is {name}" for name, papers in meanings.items())
    leaves = (known or base).leaves
    own = {name: x for name, x in leaves.items() if _is_added(x)}
    using = (paper for papers in meanings.values() for paper in papers)
    reading = {n: x for n, x in leaves.items() if n not in base.leaves and n not in own}
    if reading:  # the letters of another paper, which is not the one to be changed
        here = [n for n, x in reading.items() if _called(x) in meanings]
        return said + (f"; in this notation write {here[0]}" if here else "; write that name")
    first = next((paper for paper in using if _reads(paper, text, base, own)), "")
    if first:
        said += f'; pp.parse(text, notation="{first}") reads the letters of {first}'
    else:
        said += "; none of these papers has all letters of this text, so write those of phipsi"
    said += f". {_ELSEWHERE[word]}" if word in _ELSEWHERE else ""
    return said + (f"; your own operator? pass custom=[{word}]" if word.isascii() else "")


def _is_added(x: Expr) -> bool:
    """Whether a name is that of a custom operator, or of one that a feature registered."""
    return x.op is Op.LEAF and (x.row.is_own or x.row.name in REGISTERED)


def _reads(paper: str, text: str, base: Vocabulary, own: Mapping[str, Expr]) -> bool:
    """Whether a paper has all letters of a text; the text may still be no expression."""
    words = paper_vocabulary(paper, base)
    unknown: list[str] = []

    def foreign(word: str, text: str, words: Vocabulary) -> str:
        unknown.append(word)
        return "unknown"

    words = replace(words, leaves={**own, **words.leaves}, foreign=foreign)
    try:
        parse_with(text, words)
    except PhipsiError:
        pass
    return not unknown


def _explain_rate(stem: str, base: Vocabulary) -> str:
    """How the time derivative of an operator is written, of those that depend on q only."""
    found = next((x for name, x in base.leaves.items() if letters(name) == stem), None)
    if found is None or found.is_vector or not needs_of(found) <= {"q", "inertia"}:
        return ""
    return f'the time derivative of {found} is  pp.diff("{found}", "q", along="v")'


def _called(x: Expr) -> str:
    return f"{x.name}, printed {x}" if x.name not in ("", str(x)) else str(x)


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
