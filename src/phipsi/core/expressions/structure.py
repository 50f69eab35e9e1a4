"""Which blocks of an operator can be different from zero.

Block (i, j) of an operator on the bodies stands in one of four relations: i is j; i is an ancestor
of j; i is a descendant of j; neither. A `Structure` is the set of relations in which blocks may be
non-zero. Causal, anticausal and memoryless operators are three of these sets, and sums and products
of operators have the union and the composition of the sets of their parts.
"""

from __future__ import annotations

from enum import IntFlag
from functools import cache


class Structure(IntFlag):
    """A set of block positions; see the module's text."""

    __hash__ = int.__hash__  # that of enumerations is written in Python

    ZERO = 0
    DIAGONAL = 1
    INWARD = 2  # row body is a strict ancestor of the column body
    OUTWARD = 4  # row body is a strict descendant of the column body
    UNRELATED = 8


MEMORYLESS = Structure.DIAGONAL
STRICTLY_CAUSAL = Structure.INWARD
STRICTLY_ANTICAUSAL = Structure.OUTWARD
CAUSAL = Structure.DIAGONAL | Structure.INWARD
ANTICAUSAL = Structure.DIAGONAL | Structure.OUTWARD
RELATED = Structure.DIAGONAL | Structure.INWARD | Structure.OUTWARD
GENERAL = RELATED | Structure.UNRELATED

_COMPOSE: dict[tuple[Structure, Structure], Structure] = {
    (Structure.DIAGONAL, Structure.DIAGONAL): Structure.DIAGONAL,
    (Structure.DIAGONAL, Structure.INWARD): Structure.INWARD,
    (Structure.DIAGONAL, Structure.OUTWARD): Structure.OUTWARD,
    (Structure.INWARD, Structure.DIAGONAL): Structure.INWARD,
    (Structure.OUTWARD, Structure.DIAGONAL): Structure.OUTWARD,
    (Structure.INWARD, Structure.INWARD): Structure.INWARD,
    (Structure.OUTWARD, Structure.OUTWARD): Structure.OUTWARD,
    # both bodies are ancestors of the one in between, hence related to each other
    (Structure.INWARD, Structure.OUTWARD): RELATED,
    # both bodies are descendants of the one in between: they may be on different branches
    (Structure.OUTWARD, Structure.INWARD): GENERAL,
}
_ATOMS = (Structure.DIAGONAL, Structure.INWARD, Structure.OUTWARD, Structure.UNRELATED)


@cache
def sum_structure(left: Structure, right: Structure) -> Structure:
    """Positions that ``left + right`` may fill."""
    return left | right


@cache
def product_structure(left: Structure, right: Structure) -> Structure:
    """Positions that ``left @ right`` may fill."""
    out = Structure.ZERO
    for a in _ATOMS:
        for b in _ATOMS:
            if a & left and b & right:
                fallback = (
                    b if a is Structure.DIAGONAL else a if b is Structure.DIAGONAL else GENERAL
                )
                out |= _COMPOSE.get((a, b), fallback)
    return out


@cache
def adjoint_structure(s: Structure) -> Structure:
    """Positions that the adjoint may fill."""
    out = s & (Structure.DIAGONAL | Structure.UNRELATED)
    if s & Structure.INWARD:
        out |= Structure.OUTWARD
    if s & Structure.OUTWARD:
        out |= Structure.INWARD
    return out


@cache
def inverse_structure(s: Structure) -> Structure:
    """Positions that the inverse may fill: triangular stays triangular, nothing else is known."""
    for kind in (MEMORYLESS, CAUSAL, ANTICAUSAL):
        if s | kind == kind:
            return kind
    return GENERAL


# subsets in tuples: `|` of flags is a Python function, and expressions ask often
_PARTS_OF_MEMORYLESS = (Structure.ZERO, MEMORYLESS)
_PARTS_OF_CAUSAL = (*_PARTS_OF_MEMORYLESS, STRICTLY_CAUSAL, CAUSAL)
_PARTS_OF_ANTICAUSAL = (*_PARTS_OF_MEMORYLESS, STRICTLY_ANTICAUSAL, ANTICAUSAL)


def is_memoryless(s: Structure) -> bool:
    """True if only diagonal blocks can be non-zero."""
    return s in _PARTS_OF_MEMORYLESS


def is_causal(s: Structure) -> bool:
    """True for a tip-to-base operator (memoryless ones included)."""
    return s in _PARTS_OF_CAUSAL


def is_anticausal(s: Structure) -> bool:
    """True for a base-to-tip operator (memoryless ones included)."""
    return s in _PARTS_OF_ANTICAUSAL


def is_strict(s: Structure) -> bool:
    """True if the diagonal blocks are all zero."""
    return not s & Structure.DIAGONAL


def structure_word(s: Structure) -> str:
    """The papers' word for it."""
    words = {
        Structure.ZERO: "zero",
        MEMORYLESS: "memoryless",
        STRICTLY_CAUSAL: "strictly causal",
        STRICTLY_ANTICAUSAL: "strictly anticausal",
        CAUSAL: "causal",
        ANTICAUSAL: "anticausal",
    }
    return words.get(s, "neither causal nor anticausal")
