"""Bodies behind rotors without their rows: expressions on six rows, with Γ.

Rotors give the body behind their joint a row for each of its rates (`skew_rotors.py`). The rules of
the algebra hold there as they are; but nothing comes to these rows from other bodies, so that
programs need not have them. This pass writes an expression, after the rules, as a matrix of
expressions between six rows and the rates of the joint:

    φ = [[φ, 0], [0, I]],  H = [H, I],  M = [[M, Γ], [Γ*, A]],  b = [b + b_Γ; e_Γ],  V = [V; v]
    ψ = [[ψ, −ψ K], [0, I]],  K = [K; 0],  P = [[P, Γ], [Γ*, A]],  with G = (P H* + Γ) D⁻¹

and what it is between joints, points, rows and the six rows of bodies is lowered as that of a
mechanism without rotors. Rates without rotors have zeros in Γ and in A, the corner of M.

Reasons: docs/decisions/0060.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from phipsi.core.expressions import (
    EFFORTS,
    FORCES,
    MEMORYLESS,
    MOTIONS,
    ONE,
    RATES,
    Expr,
    Number,
    Op,
    Space,
    adjoint,
    as_matrix,
    block_diagonal,
    cross,
    cross_force,
    dE_trace,
    dH_trace,
    diag,
    diagonal,
    dM_trace,
    half,
    identity,
    inertia_of,
    inertia_trace,
    inverse,
    is_anticausal,
    is_causal,
    leaf,
    linear,
    logdet,
    outer,
    product,
    rebuild,
    regress,
    rigid_cross,
    rigid_cross_force,
    rigid_vee,
    rigid_vee_force,
    scaled,
    total_of,
    trace,
    vee,
    vee_force,
    zero,
)
from phipsi.core.operators import (
    E_phi,
    H,
    M,
    Riccati,
    V,
    arguments_of,
    definition,
    family_of,
    phi,
    place_of,
    plain_transition,
    strict_transition,
    v,
)
from phipsi.core.rewrite import diagonal_part, inverse_form, products_of, riccati_of
from phipsi.core.sweeps import Field, KeptRows, Lowering, Terms
from phipsi.transmissions import rotor_matrices
from phipsi.transmissions.coupled_riccati import CoupledRiccati
from phipsi.transmissions.rotor_leaves import (
    ALONG,
    BACK,
    BACK_OF_ONE,
    CHANGE,
    COMPOSITE,
    CORNER,
    CORNER_ALONG,
    CORNER_CHANGE,
    EFFORT,
    FORCE,
    GAMMA,
    HINGE,
    SECOND,
    SPIN,
    SWEPT,
    TRACE,
    applied,
)

Matrix = tuple[tuple[Expr, ...], ...]


class RotorElimination(NamedTuple):
    """The pass, by what the rotors of a model have: a corner, and g on bodies behind their joints.

    `matrix`: operators are written out, so that what stands behind φ or ψ alone is split off.
    """

    corner: bool
    hinge: bool
    matrix: bool = False

    def before_rules(self, x: Expr) -> Expr:
        """The expression for mechanisms whose bodies have no modes."""
        return without_modes(x)

    def eliminated(self, x: Expr, matrix: bool) -> Expr:
        """The expression without the rows; a KeptRows if it is not known."""
        return without_rows(x, self._replace(matrix=matrix))

    def kept(self, x: Expr) -> Expr:
        """Back, for programs with the rows."""
        return with_modes(x)

    def moved(self, low: Lowering, family: Riccati | None, pose: Field, block: Field) -> Field:
        """A block in the frame of the root."""
        return rotor_matrices.moved(low, family, pose, block)

    def behind_gain(self, low: Lowering, family: Riccati, inner: Terms, outer: Terms) -> Field:
        """The block that a path begins with."""
        return rotor_matrices.behind_gain(low, family, inner, outer)

    def on_diagonal(self, low: Lowering, terms: Terms, symmetric: bool) -> Field:
        """The sum of memoryless terms between rates."""
        return rotor_matrices.on_diagonal(low, terms, symmetric)


# ---- the pass ------------------------------------------------------------------------------------

_RATES_OF = {MOTIONS: RATES, FORCES: EFFORTS}


def _parts(space: Space) -> tuple[Space, ...]:
    """Six rows and the rates of a body; other spaces are whole."""
    return (space, _RATES_OF[space]) if space in _RATES_OF else (space,)


def without_rows(x: Expr, rotors: RotorElimination) -> Expr:
    """x between joints, points and the six rows of bodies, without the other rows; vectors too."""
    return _split(x, rotors)[0][0]


@lru_cache(maxsize=2**12)
def _split(x: Expr, rotors: RotorElimination) -> Matrix:
    """x as a matrix of expressions between the parts of its spaces."""
    if x.op is Op.ZERO:
        return _filled(x, zero)
    if x.op is Op.IDENTITY:
        return _filled(x, lambda t, g: identity(t) if t is g else zero(t, g))
    if x.op is Op.SUM:
        return _sum([(c, _split(y, rotors)) for c, y in x.terms], rotors)
    if x.op is Op.PRODUCT:
        out, behind = _split(x.args[-1], rotors), x.args[-1]
        for y in reversed(x.args[:-1]):
            for m in reversed(_in_factors(y, behind, rotors)):
                out = _times(m, out, rotors)
            behind = y @ behind
        return out
    if x.op is Op.ADJOINT:
        return _transposed(_split(x.args[0], rotors))
    if x.op is Op.INVERSE:
        return _inverse(x.args[0], rotors)
    if x.op is Op.BD and _is_composite(x.args[0]):
        return _composite(x.args[0].factors, rotors)
    if x.op is Op.BD:
        return tuple(tuple(map(_block_diagonal, row)) for row in _split(x.args[0], rotors))
    if x.op is Op.AS_MATRIX:
        return ((as_matrix(_single(x.args[0], rotors)),),)
    if x.op is Op.LOGDET:
        family = riccati_of(x.args[0])
        return ((logdet(_single(x.args[0] if family is None else family.D, rotors)),),)
    if x.op is Op.FUNCTION:
        return _function(x, rotors)
    if x.op is Op.LEAF:
        return _leaf(x, rotors)
    raise KeptRows


def _filled(x: Expr, make: Callable[[Space, Space], Expr]) -> Matrix:
    return tuple(tuple(make(t, g) for t in _parts(x.takes)) for g in _parts(x.gives))


def _first(x: Expr, core: Expr) -> Matrix:
    """A matrix that is zero but for its first entry, which has the spaces of x."""
    out = [list(row) for row in _filled(x, zero)]
    out[0][0] = core
    return tuple(map(tuple, out))


def _sum(terms: list[tuple[Number, Matrix]], rotors: RotorElimination) -> Matrix:
    shape = terms[0][1]
    return tuple(
        tuple(_tidy(total_of((c, m[i][j]) for c, m in terms), rotors) for j in range(len(shape[0])))
        for i in range(len(shape))
    )


def _times(left: Matrix, right: Matrix, rotors: RotorElimination) -> Matrix:
    columns = list(zip(*right, strict=True))
    return tuple(
        tuple(
            _tidy(total_of((1, _swept(x @ y)) for x, y in zip(row, column, strict=True)), rotors)
            for column in columns
        )
        for row in left
    )


def _swept(x: Expr) -> Expr:
    """A product in which cross(V)* Γ and Γ* cross(V) are one block, also of how Γ changes."""
    for i, (y, z) in enumerate(pairwise(x.factors)):
        found = _swept_pair(y, z) or _swept_pair(z.T, y.T)
        if found is not None:
            left = found if y.core.function is cross and y.op is Op.ADJOINT else found.T
            return -product((*x.factors[:i], left, *x.factors[i + 2 :]))
    return x


def _swept_pair(y: Expr, z: Expr) -> Expr | None:
    """−cross(V)* Γ, if y is cross(V)* and z is Γ or how it changes."""
    coupling = z.op is Op.LEAF and z.row in (GAMMA.row, ALONG, CHANGE)
    if not coupling or y.op is not Op.ADJOINT or y.core.function is not cross:
        return None
    return leaf(SWEPT, (y.core.args[0], z))


def _block_diagonal(x: Expr) -> Expr:
    """bd(x), of which bd(φ Γ) = Γ is known."""
    one_way = is_causal(x.structure) or is_anticausal(x.structure)
    return (diagonal_part(x) if one_way else None) or block_diagonal(x)


def _is_composite(x: Expr) -> bool:
    """True for ψ X φ* with memoryless X."""
    left, *middle, right = x.factors if len(x.factors) > 2 else (x, x)
    family = family_of(left) if left.op is Op.LEAF and left.row.riccati else None
    inside = family is not None and left is family.psi and right is phi.T
    return inside and product(middle).structure == MEMORYLESS


def _composite(factors: tuple[Expr, ...], rotors: RotorElimination) -> Matrix:
    """bd(ψ X φ*), between six rows as one recursion Z = X + E (Z − G (H Z + Y)) E*.

    Y is what X is from six rows to rates: ψ = [[ψ, −ψ K], [0, I]].
    """
    six = _coupled(family_of(factors[0]), rotors)
    (core, side), (rows, last) = _split(product(factors[1:-1]), rotors)
    return (leaf(COMPOSITE, (core, rows, six.G)), side), (rows, last)


def _transposed(m: Matrix) -> Matrix:
    return tuple(tuple(map(adjoint, column)) for column in zip(*m, strict=True))


def _tidy(x: Expr, rotors: RotorElimination) -> Expr:
    """H Γ + Γ* H* as J_Γ − A_Γ, which is known without them."""
    if x.op is not Op.SUM or x.takes is not RATES or x.gives is not EFFORTS:
        return x
    terms = products_of(x, _written_out, 64)
    plain = total_of((c, product(factors)) for c, factors in terms or ())
    found = {y: c for c, y in plain.terms}
    c = found.pop(H @ GAMMA, 0)
    if c == 0 or found.pop(GAMMA.T @ H.T, 0) != c:
        return x
    hinge = HINGE if rotors.hinge else zero(RATES, EFFORTS)
    return total_of([(c, hinge), (-c, _corner(rotors)), *((d, y) for y, d in found.items())])


def _written_out(y: Expr) -> list[tuple[Number, tuple[Expr, ...]]]:
    """The terms of a factor that is a memoryless sum with Γ."""
    coupled = y.op is Op.SUM and y.structure == MEMORYLESS and {GAMMA, GAMMA.T} & {*y.args}
    return [(c, t.factors) for c, t in y.terms] if coupled else [(1, y.factors)]


def _single(x: Expr, rotors: RotorElimination) -> Expr:
    """An expression between spaces that are whole."""
    m = _split(x, rotors)
    if len(m) != 1 or len(m[0]) != 1:
        raise KeptRows
    return m[0][0]


def _rates(x: Expr, rotors: RotorElimination) -> Expr:
    """The rates of a vector of bodies."""
    return _split(x, rotors)[1][0]


def _inverse(x: Expr, rotors: RotorElimination) -> Matrix:
    """x⁻¹ between joints, points or rows; of W + H φ M φ* H* by its family, which then splits."""
    per_joint = x.takes.per_body and not x.is_scalar
    if per_joint and not (is_causal(x.structure) or is_anticausal(x.structure)):
        form = inverse_form(x)
        if form is None:
            raise KeptRows
        return _split(form, rotors)
    return ((inverse(_single(x, rotors)),),)


# ---- functions -----------------------------------------------------------------------------------

_PLAIN = {
    cross: cross, rigid_cross: cross, vee: vee, rigid_vee: vee, vee_force: vee_force,
    rigid_vee_force: vee_force, inertia_of: inertia_of, regress: regress,
    inertia_trace: inertia_trace, dH_trace: dH_trace, diag: diag, diagonal: diagonal, half: half,
}  # fmt: skip
"""Functions of the six rows, or of joints."""


def _function(x: Expr, rotors: RotorElimination) -> Matrix:
    function, hole = x.data
    if function in _PLAIN:
        args = [without_rows(y, rotors) for y in x.args]
        return _first(x, _PLAIN[function](*args, hole=hole))
    if function in (cross_force, rigid_cross_force):
        return _first(x, _cross_force(without_rows(x.args[0], rotors)))
    if function is dE_trace:
        return _filled(x, zero)
    if function is dM_trace:
        X, *others = x.args
        (_, side), (rows, last) = _split(X, rotors)
        args = rows + side.T, last, *(_rates(y, rotors) for y in others)
        params = () if hole is None else (hole,)
        return (zero(ONE, FORCES),), (leaf(TRACE, args, params),)
    if function is outer:
        one, other = (_split(y, rotors) for y in x.args)
        return tuple(tuple(outer(p[0], q[0]) for q in other) for p in one)
    if function is scaled:
        s, m = _single(x.args[0], rotors), _split(x.args[1], rotors)
        return tuple(tuple(scaled(s, y) for y in row) for row in m)
    if function is trace:
        m = _split(x.args[0], rotors)
        return ((total_of((1, trace(m[i][i])) for i in range(len(m))),),)
    if all(len(_parts(s)) == 1 for y in (x, *x.args) for s in (y.takes, y.gives)):
        return ((rebuild(x, [_single(y, rotors) for y in x.args]),),)
    raise KeptRows


def _cross_force(f: Expr) -> Expr:
    """cross_force(f), of Γ w by its few numbers."""
    spins = [(c, y) for c, y in f.terms if y.factors[0] is GAMMA and len(y.factors) > 1]
    others = [t for t in f.terms if t not in spins]
    rest = cross_force(total_of([(0, f), *others]))
    return total_of([(1, rest), *((c, applied(SPIN, product(y.factors[1:]))) for c, y in spins)])


# ---- leaves --------------------------------------------------------------------------------------


def _leaf(x: Expr, rotors: RotorElimination) -> Matrix:
    found = _LEAVES.get(x.name)
    if x.row.riccati:
        return _of_family(x, rotors)
    if found is not None:
        return found(x, rotors)
    if x.row.modal:
        return _filled(x, zero)
    whole = len(_parts(x.takes)) == len(_parts(x.gives)) == 1
    if x.row.six_rows or (whole and (not x.row.compound and definition(x) is None)):
        args = tuple(without_rows(y, rotors) for y in x.args)
        if x.row.braces is None and args != x.args:
            raise KeptRows
        same = linear(Op.LEAF, args, x.takes, x.gives, x.structure, x.data) if args else x
        return _first(x, same)
    meaning = definition(x)
    if meaning is None:
        raise KeptRows
    return _split(meaning, rotors)


def _in_factors(x: Expr, behind: Expr, rotors: RotorElimination) -> list[Matrix]:
    """A factor as a product of matrices; what is behind ψ comes to it as one sum.

    Of a matrix T X with memoryless X is X + T̃ X, whose paths begin as others do.
    """
    apart = rotors.matrix and behind.structure == MEMORYLESS and not behind.is_vector
    if apart and x.op is Op.LEAF and plain_transition(x) is x:
        strict = _in_factors(strict_transition(x), behind, rotors)
        out = strict[-1]
        for m in reversed(strict[:-1]):
            out = _times(m, out, rotors)
        return [_sum([(1, _split(identity(FORCES), rotors)), (1, out)], rotors)]
    if x.op is not Op.LEAF or x.name not in ("psi", "psi_tilde"):
        return [_split(x, rotors)]
    six, last = _coupled(family_of(x), rotors), identity(EFFORTS)
    if x.name == "psi":
        return [
            _diagonal(six.psi, last),
            ((identity(FORCES), -six.K), (zero(FORCES, EFFORTS), last)),
        ]
    first = ((six.proj_bar, -six.G), (zero(FORCES, EFFORTS), _NONE))
    return [_diagonal(six.psi @ E_phi, _NONE), first]


def _corner(rotors: RotorElimination) -> Expr:
    return CORNER if rotors.corner else zero(RATES, EFFORTS)


def _diagonal(x: Expr, rates: Expr) -> Matrix:
    return ((x, zero(rates.takes, x.gives)), (zero(x.takes, rates.gives), rates))


def _inertia(x: Expr, rotors: RotorElimination) -> Matrix:
    return ((M, GAMMA), (GAMMA.T, _corner(rotors)))


def _change(x: Expr, rotors: RotorElimination) -> Matrix:
    """Ṁ{s; …}."""
    along = [_rates(y, rotors) for y in arguments_of(x)]
    coupling = applied(ALONG if rotors.corner else CHANGE, *along)  # of one rate both are the same
    block = applied(CORNER_ALONG, *along) if rotors.corner else zero(RATES, EFFORTS)
    return ((zero(MOTIONS, FORCES), coupling), (coupling.T, block))


def _applied(x: Expr, rotors: RotorElimination) -> Matrix:
    """dM{y; …}: s ↦ Ṁ{s; …} y."""
    y, *others = x.args
    place, along = place_of(x), [_rates(u, rotors) for u in others]
    hole = None if place == len(along) else place
    six, rates = without_rows(y, rotors), _rates(y, rotors)
    if rotors.corner:
        push = applied(CHANGE, rates, *along, hole=hole)
        back = applied(BACK, six, *along, hole=hole)
        back = back + applied(CORNER_CHANGE, rates, *along, hole=hole)
    else:
        push, back = applied(CHANGE, rates, *along), applied(BACK_OF_ONE, six, *along)
    return ((zero(MOTIONS, FORCES), push), (zero(MOTIONS, EFFORTS), back))


def _twice(x: Expr, rotors: RotorElimination) -> Matrix:
    """ddM{y; z; …}: y* Ṁ{s; t; …} z by s and t."""
    y, z, *others = x.args
    along = [_rates(u, rotors) for u in others]
    row = SECOND if rotors.corner else BACK_OF_ONE  # of one rate y* Γ̇{s; t} z is dΓT{y; z}
    terms = [
        (1, applied(row, without_rows(p, rotors), _rates(q, rotors), *along))
        for p, q in ((y, z), (z, y))
    ]
    if rotors.corner:
        terms.append((1, applied(SECOND, _rates(y, rotors), _rates(z, rotors), *along)))
    return _diagonal(zero(MOTIONS, FORCES), total_of(terms))


def _gyroscopic(x: Expr, rotors: RotorElimination) -> Matrix:
    return ((FORCE,), (EFFORT if rotors.corner else zero(ONE, EFFORTS),))


_NONE = zero(EFFORTS, EFFORTS)
_LEAVES: dict[str, Callable[[Expr, RotorElimination], Matrix]] = {
    "H": lambda x, d: ((H, identity(EFFORTS)),),
    "E_phi": lambda x, d: _diagonal(E_phi, _NONE),
    "phi": lambda x, d: _diagonal(phi, identity(EFFORTS)),
    "phi_tilde": lambda x, d: _diagonal(x, _NONE),
    "M": _inertia,
    "Mdot": _change,
    "dM": _applied,
    "ddM": _twice,
    "V": lambda x, d: ((V,), (v,)),
    "b": _gyroscopic,
}


def _coupled(f: Riccati, rotors: RotorElimination) -> CoupledRiccati:
    """The family on six rows."""
    if f.H is not H or f.E is not E_phi or f.M is not M:
        raise KeptRows
    armature = _single(f.armature, rotors)
    return CoupledRiccati(H, E_phi, M, armature + HINGE if rotors.hinge else armature, GAMMA)


def _of_family(x: Expr, rotors: RotorElimination) -> Matrix:
    """A member of a Riccati family."""
    f = family_of(x)
    six = _coupled(f, rotors)
    corner = _corner(rotors)
    if x.name == "P":
        return ((six.P, GAMMA), (GAMMA.T, corner))
    if x.name in ("D", "D_half"):
        return ((six.leaf(x.name),),)
    if x.name == "G":
        return ((six.G,), ((GAMMA.T @ H.T + corner) @ six.D.inv,))
    if x.name == "K":
        return ((six.K,), (zero(EFFORTS, EFFORTS),))
    if x.name in ("psi", "psi_tilde"):
        last = identity(EFFORTS) if x.name == "psi" else _NONE
        return ((six.leaf(x.name), -(six.psi @ six.K)), (zero(FORCES, EFFORTS), last))
    if x.name == "E_psi":
        return ((six.E_psi, -six.K), (zero(FORCES, EFFORTS), _NONE))
    meaning = definition(x)
    if meaning is None:
        raise KeptRows
    return _split(meaning, rotors)


# ---- before the rules ----------------------------------------------------------------------------

_RIGID: dict[Any, Any] = {
    rigid_cross: cross, rigid_cross_force: cross_force, rigid_vee: vee, rigid_vee_force: vee_force
}  # fmt: skip
_MODAL = {rigid: modal for modal, rigid in _RIGID.items()}


@lru_cache(maxsize=2**12)
def without_modes(x: Expr) -> Expr:
    """x for mechanisms whose bodies have no modes: rigid_cross is cross, nothing moves ports."""
    return _renamed(x, True)


@lru_cache(maxsize=2**12)
def with_modes(x: Expr) -> Expr:
    """The same back, for programs with the rows of rotors."""
    return _renamed(x, False)


def _renamed(x: Expr, plain: bool) -> Expr:
    again = without_modes if plain else with_modes
    if plain and (x.function is dE_trace or (x.op is Op.LEAF and x.row.modal)):
        return zero(x.takes, x.gives)
    if not x.args:
        return x
    args = tuple(map(again, x.args))
    if x.op is Op.LEAF:
        same = x.row.riccati or args == x.args
        made = leaf(x.row, args, x.params) if same else None
        return made or linear(Op.LEAF, args, x.takes, x.gives, x.structure, x.data)
    if x.op is Op.FUNCTION:
        function, hole = x.data
        return (_RIGID if plain else _MODAL).get(function, function)(*args, hole=hole)
    return rebuild(x, args)
