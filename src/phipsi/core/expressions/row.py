"""A row of the operator catalogue: everything that is known about one leaf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from phipsi.core.expressions.spaces import Space
from phipsi.core.expressions.structure import Structure


class DifferentialForm(NamedTuple):
    """The change of an operator X along directions d₁, d₂, …, linear in each, in three leaves.

    `change` is X' = Ẋ{d₁; …} itself. The others leave one direction open: `applied`{y; …} maps it
    to X' y, and `adjoint`{z; …} to X'* z. Directions are vectors of the space `along`; those of a
    change of q are what `differential(x, d)` finds as the attribute `by` of d. If their
    order does not matter, `twice`{y; z; …} is z* Ẋ{d₁; d₂; …} y, an operator between the two.
    """

    change: str
    applied: str
    adjoint: str
    along: Space
    by: str
    twice: str = ""


@dataclass(frozen=True, eq=False)
class Row:
    """One operator or vector of the catalogue.

    `needs` names the inputs the leaf itself reads ("q", "v", …), and `varies` other quantities it
    can be differentiated by ("inertia"). `riccati` marks the leaves of the
    Riccati family (P, D, G, psi, …), which carry the four operators (H, E, M, Jr) they are built
    from as arguments; without arguments they are the default instance. `symmetric` leaves are their
    own adjoint. Of bodies with more than six rows, `six_rows` leaves are zero in the others, and
    without modes `modal` leaves are zero. A `step` goes from every body to its parent; a
    `transition` T = (I − step)⁻¹ names the row of T − I; a `compound` is written out before the
    rules are applied.

    `definition(x)` is the expression that the leaf x stands for. `differential(x, d)` is its change
    δx, written with the changes of others: ``d.rates`` = u (along which q moves), ``d.relative`` =
    H* u, ``d.motion`` = φ* H* u, ``d.modes`` (H* u if bodies have modes, else zero), ``d.cross``
    (the cross product of their motions), ``d.parameters`` (of the inertias) and ``d(y)`` = δy of
    another expression. All derivatives follow from it; without one they follow from the definition.

    `form` and `braces` belong to leaves with vectors in braces: their meaning, and the spaces of
    the first and of the other vectors; `now` names the vector that is meant without braces.
    `brackets` says which kind of parameter may stand in brackets: "selection", "component",
    "point", "space", "place".

    A leaf that a feature brings has its formulas along: `blocks(lowering, x)` builds the field of
    its blocks for compiled programs, `matrix(configuration)` the matrix for `pp.evaluate_dense`.
    `inverse(lowering, x)` builds that of the blocks of X⁻¹, if they are known without inverting;
    `move` says of a leaf between two index sets where it reads and what it sums over, as the table
    in `sweeps/lower.py` does.
    `positive` says whether the blocks are ≥ 0 (None: those of a symmetric leaf are). `home` is the
    module whose CATALOGUE has the row. A row without one is a custom row: `value` is what the user
    gave, a table of blocks or an expression, `inverse_value` the table of X⁻¹, and `remake` the
    function and arguments that build the row again when it is unpickled.
    """

    name: str
    symbol: str
    latex: str
    takes: Space
    gives: Space
    structure: Structure
    needs: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    symmetric: bool = False
    riccati: bool = False
    six_rows: bool = False
    modal: bool = False
    step: bool = False
    transition: str = ""
    compound: bool = False
    meaning: str = ""
    source: str = ""
    definition: Callable[[Any], Any] | None = None
    differential: Callable[[Any, Any], Any] | None = None
    form: DifferentialForm | None = None
    braces: tuple[Space, Space] | None = None
    now: str = ""
    brackets: str = ""
    blocks: Callable[[Any, Any], Any] | None = None
    matrix: Callable[[Any], Any] | None = None
    inverse: Callable[[Any, Any], Any] | None = None
    move: tuple[str, str] | None = None
    positive: bool | None = None
    home: str = ""
    value: Any = None
    inverse_value: Any = None
    remake: tuple[Any, ...] = ()

    @property
    def is_input(self) -> bool:
        """True for a leaf whose value is an input of the same name: v, tau, dq, …."""
        return self.needs == (self.name,)

    @property
    def needs_braces(self) -> bool:
        """True for a leaf that is nothing without vectors in braces, dH{x} but not Ḣ."""
        return self.braces is not None and not self.now

    @property
    def is_own(self) -> bool:
        """True for a row of a user: it is a value, and no catalogue has it."""
        return self.value is not None

    def __reduce__(self) -> Any:
        if self.remake:
            return self.remake
        return (row_of, (self.home, self.name)) if self.home else super().__reduce__()


REGISTERED: dict[str, Row] = {}
"""Leaves that features outside the catalogue brought, by name; see `core/extensions.py`."""


def registered_row(home: str, name: str) -> Row:
    """The row of a feature with this name; its module registers it."""
    if name not in REGISTERED:
        import_module(home)
    return REGISTERED[name]


def row_of(home: str, name: str, table: str = "CATALOGUE") -> Any:
    """The row with this name in a table of a module."""
    return getattr(import_module(home), table)[name]
