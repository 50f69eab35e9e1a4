"""The leaves of programs with drives: Γ, what belongs to it, how it changes, and its matrices.

Only the pass in `rows_of_drives.py` makes them. Each brings the operation that computes its blocks
(`drive_operations.py`). Formulas and letters: `model/drive.py`.

**Matrices** have in common what six rows and rates need, once. Without the rows of drives [X; Y]
behind (I − H ψ K) [H, I] φ gives

    on the diagonal   s = H X + Y                 on paths   X − G s

with X between rates and six rows, Y on rates. So s is one block, and the sums in it are held, so
that they are computed once. If X has Z t with Z = bd(ψ … φ*), then Y has Y_Z t, and H Z + Y_Z is
there, in the equation of Z.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from phipsi.core.expressions.functions import cross
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import (
    Expr,
    Number,
    identity,
    leaf,
    linear,
    product,
    total_of,
    zero,
)
from phipsi.core.expressions.row import Row
from phipsi.core.expressions.spaces import EFFORTS, FORCES, MOTIONS, ONE, RATES, Space
from phipsi.core.expressions.structure import GENERAL, MEMORYLESS
from phipsi.core.operators.catalogue import H, M, Riccati, V, family_of, v
from phipsi.core.sweeps.ir import Field, terms_of
from phipsi.core.sweeps.lower import Lowering

CATALOGUE: dict[str, Row] = {}


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
GAMMA = leaf(_row("Gamma", "Γ", r"\Gamma", _RF, "coupling", "rates of a drive → forces",
                  plain=True))
CORNER = leaf(_row("A_Gamma", "A_Γ", r"A_{\Gamma}", _RE, "drive_corner",
                   "inertia between the rates of a drive", symmetric=True, plain=True))
HINGE = leaf(_row("J_Gamma", "J_Γ", r"J_{\Gamma}", _RE, "drive_inertia",
                  "A_Γ + H Γ + Γ* H*", symmetric=True, plain=True))
FORCE = leaf(_row("b_Gamma", "b_Γ", r"b_{\Gamma}", (ONE, FORCES), "", "b with what drives add",
                  "qv", blocks=_force_blocks))
EFFORT = leaf(_row("e_Gamma", "e_Γ", r"e_{\Gamma}", (ONE, EFFORTS), "coupling_effort",
                   "b of the rates of drives", "qv", of=(V, v)))
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
                    "the same of drives with one rate", symmetric=True)
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


def is_of_drives(x: Expr) -> bool:
    """True for a leaf that the pass makes, or its adjoint."""
    return x.core.op is Op.LEAF and CATALOGUE.get(x.core.name) is x.core.row


# ---- blocks of matrices --------------------------------------------------------------------------


Terms = list[tuple[Number, Expr]]


class _Split(NamedTuple):
    """X, and s = H X + Y."""

    six: Field
    rates: Field


def moved(low: Lowering, family: Riccati | None, pose: Field, block: Field) -> Field:
    """A block in the frame of the root.

    Several matrices of a mechanism with drives have G there as W (P H* + Γ) D⁻¹, because paths
    begin with W (P H* + Γ) too.
    """
    b = low.builder
    shared = low.options.coupled and low.options.several and block.op == "mul"
    if shared and family is not None and block is low.blocks.block(family.G):
        return b.mul(b.mul(pose, block.args[0]), block.args[1])
    return b.mul(pose, block)


def behind_gain(low: Lowering, family: Riccati, inner: Terms, outer: Terms) -> Field:
    """The block that a path begins with: π̄ X of the terms inside, and those outside, with −G Y."""
    b = low.builder
    first = [(c, y) for c, y in outer if y.factors[0] is family.G and len(y.factors) > 1]
    rates: Terms = [(-c, product(y.factors[1:])) for c, y in first]
    parts = [(c, low.blocks.block(y)) for c, y in outer if (c, y) not in first]
    if not inner and not rates:
        return b.add(parts)
    found = _split(low, inner, rates)
    gain = low.blocks.block(family.G)
    return b.add([(1, found.six), (-1, b.mul(gain, found.rates)), *parts])


def on_diagonal(low: Lowering, terms: Terms, symmetric: bool) -> Field:
    """The sum of memoryless terms between rates."""
    if symmetric:
        return low.builder.add([(c, low.blocks.block(y)) for c, y in terms])
    begun = [(c, y) for c, y in terms if y.factors[0] is H]
    inner: Terms = [(c, _behind_hinge(y)) for c, y in begun]
    return _split(low, inner, [t for t in terms if t not in begun]).rates


def _behind_hinge(y: Expr) -> Expr:
    return product(y.factors[1:]) if len(y.factors) > 1 else identity(FORCES)


def _split(low: Lowering, inner: Terms, rates: Terms) -> _Split:
    b, six = low.builder, low.blocks
    left = {y: c for c, y in rates}
    joined = list[tuple[Number, Expr, Expr]]()
    for c, y in inner:
        pair = _joined(c, y, left)
        if pair is not None:
            joined.append((c, *pair))
    moved = {Z @ t for _, Z, t in joined}
    none = zero((inner or rates)[0][1].takes, FORCES)
    plain = six.block(total_of([(0, none), *(x for x in inner if x[1] not in moved)]))
    whole = six.block(total_of([(0, none), *inner]))
    coupled = [(c, y) for y, c in left.items() if any(map(is_of_drives, y.factors))]
    others = [(c, six.block(y)) for y, c in left.items() if (c, y) not in coupled]
    held = b.held(
        b.add(
            [
                (1, b.mul(six.block(H), plain)),
                *((c, b.mul(with_rates(six, Z), six.block(t))) for c, Z, t in joined),
                *((c, six.block(y)) for c, y in coupled),
            ]
        )
    )
    return _Split(b.held(whole), b.add([(1, held), *others]))


def _joined(c: Number, y: Expr, rates: dict[Expr, Number]) -> tuple[Expr, Expr] | None:
    """(Z, t) if y is Z t and the rates have Y_Z t, which is taken from them."""
    first, *rest = y.factors
    if first.op is not Op.LEAF or first.row is not COMPOSITE or not rest:
        return None
    t = product(rest)
    needed = {x @ t: c * d for d, x in first.args[1].terms}
    if any(rates.get(x) != d for x, d in needed.items()):
        return None
    for x in needed:
        del rates[x]
    return first, t
