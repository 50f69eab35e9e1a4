"""The notations of the five papers, and what their letters mean here.

One table per paper, letter → text that `parse` reads; a letter may use those above it. A letter
that the table does not have means what it means here. docs/notation.md 11 explains the differences.

The papers' a and b are derivatives in the inertial frame, and gravity is added to a, as 88-11
eq. 3.21 does: ``a = a_paper + gravity``. The papers have no armature: their equations are those of
Jr = 0.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import cast

from phipsi.core.expressions import Expr, Op, Vocabulary, letters, parse_with
from phipsi.core.operators.inputs import needs_of
from phipsi.errors import InputError, PhipsiError, did_you_mean

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
    "C":    "H phi (M phi* a + b)",
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
    },
    "MM": {
        **_ALL, **_ANGLES, **_BIASED,
        "Φ":   "phi - I",
        "Ψ":   "psi E_phi",
        "r":   "R",
        **_FILTER,
        "ζ":   "M phi* a + b + B f0",
        "Ẇ":   "vdot",
    },
    "MC": {
        **_ALL, **_ANGLES, **_BIASED,
        "𝒞":   "C",
        **_FILTER,
        "Ω(0)": "Lambda",
        "Λ":   "Lambda^-1",
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
        "Λ(0)": "Lambda",
        "A":   "A_grasp",
    },
    "MS": {
        **_ALL, **_ANGLES,
        "𝒞":   "C",
        "f":   "phi (M α + b)",
        "𝕊":   "shift",
        "Δ_φ": "Lam_phi",
        "Ω̃":   "cross(angular V)",
    },
}

NOT_OPERATORS: Mapping[str, str] = {
    "θ": "θ are the coordinates, called q here: an input of programs, not an operator",
    "f̂": "f̂ are the multipliers of constraints: "
    "pp.forward_dynamics(system, …, return_multipliers=True)",
    "Û": "Û are the prescribed constraint rates; their rate is U̇, called Udot",
    "𝒥": "𝒥(k) is the rotational inertia of a body, a part of M",
    "𝒬": "𝒬[f] of MS is the function cross_force(f)",
    "ℍ": "the pick-offs ℍ of MS belong to one joint: cross(H* unit_rate[joint]) here",
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
    words: dict[str, Expr] = {}
    out = base
    for letter, text in LETTERS[paper].items():
        x = parse_with(text, out)
        words |= dict.fromkeys(_spellings(letter), x)
        out = replace(base, leaves={**base.leaves, **words})
    return out


def _spellings(letter: str) -> list[str]:
    """A letter, and the name of a Greek one in ASCII: Φ and Phi; T' with any prime."""
    out = [letter]
    if letter.endswith("'"):
        out += [letter[:-1] + "′", letter[:-1] + "^{'}"]
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
    own = {name: x for name, x in leaves.items() if x.op is Op.LEAF and x.row.is_own}
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
