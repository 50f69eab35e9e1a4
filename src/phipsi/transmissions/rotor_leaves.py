"""The leaves of programs with rotors on skew axes: Γ, what belongs to it, and how it changes.

Only the pass in `eliminate_rotor_rows.py` makes them. Each brings the operation that computes its
blocks (`rotor_operations.py`). Formulas and letters: `skew_rotors.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phipsi.core.expressions import (
    EFFORTS,
    FORCES,
    GENERAL,
    MEMORYLESS,
    MOTIONS,
    ONE,
    RATES,
    Expr,
    Op,
    Row,
    Space,
    cross,
    leaf,
    linear,
)
from phipsi.core.operators import M, V, family_of, v
from phipsi.core.sweeps import terms_of
from phipsi.transmissions import rotor_operations

CATALOGUE: dict[str, Row] = {}
OPERATIONS = rotor_operations  # its rows of the table are entered by the import


def _row(
    name: str, symbol: str, latex: str, spaces: tuple[Space, Space], operation: str, meaning: str,
    needs: str = "q", symmetric: bool = False, of: tuple[Expr, ...] = (), plain: bool = False,
    blocks: Callable[[Any, Expr], Any] | None = None,
) -> Row:  # fmt: skip
    """A leaf that only this pass makes, with the operation that computes its blocks from Γ."""

    def usual(low: Any, x: Expr) -> Any:
        place = x.params[0] if x.params else None
        first = () if plain else (low.block(GAMMA),)
        return low.builder.apply(operation, *first, *map(low.vector, x.args or of), data=place)

    CATALOGUE[name] = Row(
        name=name, symbol=symbol, latex=latex, takes=spaces[0], gives=spaces[1], needs=tuple(needs),
        structure=GENERAL if spaces[0] is ONE else MEMORYLESS, symmetric=symmetric, meaning=meaning,
        source="theory/flexible-bodies 8", blocks=blocks or usual, home=__name__,
    )  # fmt: skip
    return CATALOGUE[name]


def _composite_blocks(low: Any, x: Expr) -> Any:
    b, (core, _, gain) = low.builder, x.args
    family = family_of(gain)
    source, G, axes = (low.block(y) for y in (core, gain, family.H))
    more = _rows_of(low, x)

    def equation(z: Any) -> Any:
        inner = b.add([(1, b.mul(axes, z)), (1, more)])
        rest = b.add([(1, z), (-1, b.mul(G, inner))])
        return b.add([(1, source), (1, low.step_in(family.E, rest, family.E))])

    found = b.fixpoint(source.type, equation)
    found.named = found.named or "Z"
    return found


def with_rates(low: Any, x: Expr) -> Any:
    """H Z + Y of a composite Z, as its equation has it."""
    axes = low.block(family_of(x.args[2]).H)
    return low.builder.add([(1, low.builder.mul(axes, low.block(x))), (1, _rows_of(low, x))])


def _rows_of(low: Any, x: Expr) -> Any:
    """The rows of rates of a composite; sliding does not enter most of them."""
    b, rows = low.builder, x.args[1]
    more = low.block(rows)
    if all(map(_turns, (y for _, y in rows.terms))):
        return b.add([(c, b.apply("turning", y)) for c, y in terms_of(more)])
    return more


def _force_blocks(low: Any, x: Expr) -> Any:
    motion = low.vector(V)
    momentum = low.builder.mul(low.block(M), motion)
    coupling, rates = low.block(GAMMA), low.vector(v)
    return low.builder.apply("coupling_force", coupling, motion, momentum, rates)


def _swept_blocks(low: Any, x: Expr) -> Any:
    motion, coupling = x.args
    return low.builder.apply("coupling_swept", low.block(coupling), low.vector(motion))


def _trace_blocks(low: Any, x: Expr) -> Any:
    rows, corner, *along = x.args
    blocks = low.block(GAMMA), low.block(rows), low.block(corner)
    place = x.params[0] if x.params else None
    return low.builder.apply("coupling_trace", *blocks, *map(low.vector, along), data=place)


def _turns(x: Expr) -> bool:
    """True for Γ*, Γ̇{…}* and dΓ{…}*, also times cross products: sliding does not enter."""
    first, *others = x.factors
    known = first.core.op is Op.LEAF and first.core.row in (GAMMA.row, ALONG, CHANGE, SWEPT)
    return known and first.op is Op.ADJOINT and all(y.function is cross for y in others)


# fmt: off
_RF, _RE, _MF = (RATES, FORCES), (RATES, EFFORTS), (MOTIONS, FORCES)
GAMMA = leaf(_row("Gamma", "Γ", r"\Gamma", _RF, "coupling", "rates of rotors → forces",
                  plain=True))
CORNER = leaf(_row("A_Gamma", "A_Γ", r"A_{\Gamma}", _RE, "rotor_corner",
                   "inertia between the rates of rotors", symmetric=True, plain=True))
HINGE = leaf(_row("J_Gamma", "J_Γ", r"J_{\Gamma}", _RE, "rotor_inertia",
                  "A_Γ + H Γ + Γ* H*", symmetric=True, plain=True))
FORCE = leaf(_row("b_Gamma", "b_Γ", r"b_{\Gamma}", (ONE, FORCES), "", "b with what rotors add",
                  "qv", blocks=_force_blocks))
EFFORT = leaf(_row("e_Gamma", "e_Γ", r"e_{\Gamma}", (ONE, EFFORTS), "coupling_effort",
                   "b of the rates of rotors", "qv", of=(V, v)))
SWEPT = _row("swept_Gamma", "swept_Γ", r"\operatorname{swept_{\Gamma}}", _RF, "",
              "−cross(V)* Γ", blocks=_swept_blocks)
SPIN = _row("spin_Gamma", "cross_Γ", r"\operatorname{cross_{\Gamma}}", _MF, "coupling_spin",
             "cross_force(Γ w)")
ALONG = _row("Gamma_dot", "Γ̇", r"\dot{\Gamma}", _RF, "coupling_along", "Γ along rates")
CORNER_ALONG = _row("A_Gamma_dot", "Ȧ_Γ", r"\dot{A}_{\Gamma}", _RE, "corner_along",
                     "A_Γ along rates", symmetric=True)
CHANGE = _row("dGamma", "dΓ", r"\delta \Gamma", _RF, "coupling_change", "s ↦ Γ̇{s} y")
BACK = _row("dGammaT", "dΓT", r"\delta \Gamma^{*}", _RE, "coupling_change_back", "s ↦ Γ̇{s}* y")
BACK_OF_ONE = _row("dGammaT_of_one", "dΓT", r"\delta \Gamma^{*}", _RE, "coupling_change_of_one",
                    "the same of one rate", symmetric=True)
CORNER_CHANGE = _row("dA_Gamma", "dA_Γ", r"\delta A_{\Gamma}", _RE, "corner_change",
                      "s ↦ Ȧ_Γ{s} y")
COMPOSITE = _row("bd_Gamma", "bd_Γ", r"\operatorname{bd_{\Gamma}}", _MF, "", "bd(ψ X φ*)",
                  blocks=_composite_blocks)
TRACE = _row("trace_Gamma", "tr_Γ", r"\operatorname{tr_{\Gamma}}", (ONE, EFFORTS), "",
              "how tr(Γ Y) + tr(A_Γ Z) changes with rates", blocks=_trace_blocks)
SECOND = _row("ddGamma", "ddΓ", r"\delta^2 \Gamma", _RE, "coupling_second",
               "how y* Γ̇{s} z changes with rates", symmetric=True)
# fmt: on


def applied(row: Row, *args: Expr, hole: int | None = None) -> Expr:
    """A leaf with vectors in its braces, linear in each."""
    params = () if hole is None else (hole,)
    return linear(Op.LEAF, args, row.takes, row.gives, row.structure, (row, params))


def is_of_rotors(x: Expr) -> bool:
    """True for a leaf that the pass makes, or its adjoint."""
    return x.core.op is Op.LEAF and CATALOGUE.get(x.core.name) is x.core.row
