"""The papers' symbols that are not in the catalogue, and how a row of the book is written.

Three conventions for capital Φ, Ψ and the gain are in use; a table is written once and read with
the symbols of each (theory/open-chains 1.1):

    SOA, MC    phi, psi, K            K = E_phi G
    MM         Phi1 = phi − I         Psi1 = psi E_phi       gain G
    88-11      Phi3 = phi S           Psi3 = psi S           gain L = Lam_phi G
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from phipsi.core.expressions import Expr, Vocabulary, parse_with
from phipsi.core.operators import VOCABULARY, parse
from phipsi.core.rewrite import RULES, Claim, Identity
from phipsi.papers.proofs.proof_state import any_motion

NO_ROTORS = "Jr = 0"
"""The condition of results that rest on H G = I."""
# fmt: off
_WORDS = {  # a word may use those above it
    "Lam_psi":  "Lam_phi proj_bar",
    "L":        "Lam_phi G",
    "Phi1":     "phi - I",
    "Psi1":     "psi E_phi",
    "Phi3":     "phi S",
    "Psi3":     "psi S",
    "theta":    "E_phi P H* D^-1 H P E_phi*",
    "Xi":       "E_psi* Upsilon E_psi - bd(E_psi* Upsilon E_psi)",
    "abar":     "a + gravity",
    "C":        "H phi (M phi* a + b)",
    "zeta":     "M phi* abar + b + B f0",
    "alpha":    "phi* (H* vdot + abar)",
    "f":        "phi (M alpha + b + B f0)",
    "T1":       "tau - H phi zeta",
    "eps1":     "(I - H psi K) T1",
    "nu1":      "D^-1 eps1",
    "eps4":     "(I - H psi K) tau - H psi (b + B f0) - H psi~ P abar",
    "nu4":      "D^-1 eps4",
}
_CONVENTIONS = {
    "":      {},
    "MM":    {"Phi": "Phi1", "Psi": "Psi1", "L": "G", "SL": "K"},
    "88-11": {"Phi": "Phi3", "Psi": "Psi3", "SL": "S L"},
}
# fmt: on


@cache
def vocabulary(convention: str = "") -> Vocabulary:
    """The words of the tables; convention "MM" or "88-11" adds Phi, Psi and the gain."""
    words: dict[str, Expr] = {"S": parse("shift"), "x": any_motion}
    for name, text in (_WORDS | _CONVENTIONS[convention]).items():
        words[name] = parse_with(text, _with(words))
    return _with(words)


def _with(words: dict[str, Expr]) -> Vocabulary:
    return replace(VOCABULARY, leaves={**VOCABULARY.leaves, **words})


def word(text: str, convention: str = "") -> Expr:
    """An expression in the papers' symbols."""
    return parse_with(text, vocabulary(convention))


def theorem(
    name: str,
    lhs: str,
    rhs: str,
    source: str,
    condition: str = "",
    note: str = "",
    convention: str = "",
) -> Identity:
    """An operator equation, both sides as the papers print them (ASCII, `mass_matrix` for ℳ)."""
    return Identity(
        word(lhs, convention),
        word(rhs, convention),
        condition,
        name=name,
        source=source,
        note=note,
        statement=f"{lhs} = {rhs}",
    )


def sweep(name: str, lhs: str, rhs: str, source: str, mode: str = "apply") -> Identity:
    """A recursion: the sweeps that are compiled from the left side give the right side.

    An operator is applied to a random vector, or written out as a matrix (mode "dense").
    """
    stated = theorem(name, lhs, rhs, source)
    return replace(stated, sweeps=mode, statement=f"sweeps of {stated.statement}")


def used(rule: str, name: str = "") -> Identity:
    """A result that the compiler uses: the row of that rule, under the papers' name."""
    found = next(row for row in RULES if row.name == rule)
    return replace(found, name=name or rule, rule=rule)


def checked(
    name: str,
    statement: str,
    source: str,
    check: Callable[[Any], Claim],
    condition: str = "",
    rigid: bool = False,
) -> Identity:
    """An equation that is not between operators, with the function that checks it."""
    return Identity(
        None,
        None,
        condition,
        name=name,
        source=source,
        check=check,
        statement=statement,
        rigid=rigid,
    )
