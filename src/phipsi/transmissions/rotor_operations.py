"""Operations of rotors on skew axes: Γ and what is made of it, their bodies and rows of the table.

**Without rows** (`eliminate_rotor_rows.py`) the rotors at a joint are Γ = [C; 0], six rows and a
column for each rate of the joint, and two blocks between these rates, the corner of M and what it
is with H:

    corner = A − W* C_p − C_p* W        J_Γ = corner + H Γ + Γ* H* = A + W* g_k + g_k* W

C_p = R* g_p turns with the joint: along a rate d it changes by C_p × W d. If the body turns about
one axis, W does not change, and further changes are further products; else they are those of dual
numbers. What is made from Γ gets its value. A body behind such a joint has its own code; at other
bodies these operations are known to be zero.

Formulas and letters: `skew_rotors.py`. Reasons: docs/decisions/0060.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from phipsi.core.sweeps import (
    EACH,
    Arithmetic,
    Block,
    Domain,
    Entry,
    Field,
    Kind,
    Naming,
    Operation,
    Rows,
    Variant,
    add,
    cross,
    cross_matrix,
    dot,
    identity,
    is_zero,
    lower_half,
    matvec,
    minus,
    mul,
    mul_add,
    mul_sub,
    plus,
    sub,
    transpose_rows,
    with_each,
)
from phipsi.transmissions.rotor_blocks import (
    HALF,
    Directions,
    Numbers,
    Vectors,
    by_dual_numbers,
    corner,
    rotors_of,
)

Body = Callable[[Arithmetic, Field], Block]


def _here(a: Arithmetic) -> tuple[Vectors, Rows]:
    """C and the corner at this configuration."""
    return a.once("corner", lambda: corner(a, a.coordinates("q"), a))


def _turns(a: Arithmetic) -> Rows:
    """W, a vector for each rate of the joint."""
    hinge = a.joint
    rows = hinge.joint.hinge_axes(a.params()[: hinge.own_start], a.coordinates("q"), a)
    return transpose_rows(rows[:3])


def _own(a: Arithmetic) -> Numbers:
    return Numbers(rotors_of(a), a.params()[a.joint.own_start :])


def _read(a: Arithmetic, x: Field) -> Vectors:
    """C of Γ."""
    columns = transpose_rows(a.rows(x))
    return [columns[i][:3] for i in rotors_of(a).rates]


def _along(a: Arithmetic, coupling: Field, directions: Directions) -> tuple[Vectors, Rows]:
    """C and the corner along rates of the joint, one direction after the other."""
    if not rotors_of(a).across:
        return by_dual_numbers(a, directions)
    (g,), (own,), (rate,) = _read(a, coupling), _own(a).own, rotors_of(a).rates
    g, turn = minus(g, own), _turns(a)[rate]
    for by in directions:
        g = cross(g, [mul(c, by[rate]) for c in turn])
    return [g], [[0]]


def _columns(a: Arithmetic, vectors: Vectors) -> Block:
    """[C; 0], a column for each rate of the joint."""
    columns: Rows = [[0] * 6 for _ in range(a.joint.nv)]
    for rate, g in zip(rotors_of(a).rates, vectors, strict=True):
        columns[rate] = [*g, 0, 0, 0]
    return a.dense(transpose_rows(columns), a.joint.nv)


def _square(a: Arithmetic, block: Rows) -> Block:
    """A symmetric block between the rates of rows as one between those of the joint."""
    n, rates = a.joint.nv, rotors_of(a).rates
    out: Rows = [[0] * n for _ in range(n)]
    for i, x in enumerate(rates):
        for j, y in enumerate(rates):
            out[x][y] = block[i][j]
    return a.symmetric(lower_half(out), n)


def _of_rotors(body: Body) -> Body:
    """The body of an operation that is zero at bodies without such rotors."""

    @wraps(body)
    def whole(a: Arithmetic, x: Field) -> Block:
        return a.zeros(x) if rotors_of(a) is None else body(a, x)

    return whole


def _pushed(C: Vectors, rates: Sequence[Entry], start: Sequence[Entry] = (0, 0, 0)) -> list[Entry]:
    """C u, with u the rates that have rows, added to a vector."""
    out = list(start)
    for g, u in zip(C, rates, strict=True):
        out = [mul_add(c, u, x) for c, x in zip(g, out, strict=True)]
    return out


def _of_rows(a: Arithmetic, x: Sequence[Entry]) -> list[Entry]:
    return [x[i] for i in rotors_of(a).rates]


# ---- Γ -------------------------------------------------------------------------------------------


@_of_rotors
def coupling(a: Arithmetic, x: Field) -> Block:
    """Γ = [C; 0]. What is across a known axis is known to be zero along it."""
    vectors, rotors = _here(a)[0], rotors_of(a)
    if rotors.across and not any(map(any, rotors.own)):
        turn = _turns(a)[rotors.rates[0]]
        if all(isinstance(w, int) for w in turn):
            vectors = [[c if is_zero(w) else 0 for c, w in zip(vectors[0], turn, strict=True)]]
    return _columns(a, vectors)


@_of_rotors
def inertia_of_corner(a: Arithmetic, x: Field) -> Block:
    """The corner of M."""
    return _square(a, _here(a)[1])


@_of_rotors
def inertia_with_hinge(a: Arithmetic, x: Field) -> Block:
    """J_Γ = A + W* g_k + g_k* W: corner + H Γ + Γ* H*."""
    numbers, turns, rates = _own(a), _turns(a), rotors_of(a).rates
    n, pairs = len(rates), iter(numbers.pairs)
    block: Rows = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            found = next(pairs, 0) if j < i else 0
            for p, r in ((i, j), (j, i)):
                found = add(found, dot(turns[rates[p]], numbers.own[r]))
            block[i][j] = block[j][i] = found
    return _square(a, block)


@_of_rotors
def spin(a: Arithmetic, x: Field) -> Block:
    """cross_force(Γ w) = [[(C u)~, 0], [0, 0]]."""
    push = _pushed(_read(a, x.args[0]), _of_rows(a, a.column(x.args[1])))
    return a.gyration_block([*(c for row in cross_matrix(push) for c in row), 0, 0, 0])


@_of_rotors
def swept(a: Arithmetic, x: Field) -> Block:
    """V ×* [C; 0] = [ω × C; 0], of Γ or of how it changes."""
    w = a.column(x.args[1])[:3]
    return _columns(a, [cross(w, g) for g in _read(a, x.args[0])])


def force(a: Arithmetic, x: Field) -> Block:
    """b with what rotors add: V ×* (M V + Γ u) + Γ̇ u, of Γ, V, M V and the rates."""
    V, momentum = a.column(x.args[1]), a.column(x.args[2])
    (w, v), (p, l) = ((y[:3], y[3:]) for y in (V, momentum))
    if rotors_of(a) is None:
        return a.dense([[c] for c in (*plus(cross(w, p), cross(v, l)), *cross(w, l))], 1)
    every, C = a.column(x.args[3]), _read(a, x.args[0])
    rates = _of_rows(a, every)
    p = plus(p, _pushed(C, rates))
    if rotors_of(a).across:
        (own,), (rate,) = _own(a).own, rotors_of(a).rates
        above = minus(C[0], own)
        turn = [mul(c, every[rate]) for c in _turns(a)[rate]]
        more = _cross_plus(_pushed([above], rates), turn, cross(w, p))
    else:
        more = _pushed(by_dual_numbers(a, [every])[0], rates, cross(w, p))
    return a.dense([[c] for c in (*plus(more, cross(v, l)), *cross(w, l))], 1)


def _cross_plus(x: Sequence[Entry], y: Sequence[Entry], start: Sequence[Entry]) -> list[Entry]:
    """x × y added to a vector."""
    ways = ((1, 2), (2, 0), (0, 1))
    pairs = zip(ways, start, strict=True)
    return [mul_sub(mul_add(x[i], y[j], z), x[j], y[i]) for (i, j), z in pairs]


@_of_rotors
def effort(a: Arithmetic, x: Field) -> Block:
    """b of the rates: Ċ* ω + Ȧ u − ½ ∂/∂q (2 ω* C u + u* A u); zero with g_p across the axis."""
    if rotors_of(a).across:
        return a.zeros(x)
    w, v = a.column(x.args[1])[:3], a.column(x.args[2])
    rates, (C, block) = _of_rows(a, v), _along(a, x.args[0], [v])
    out: list[Entry] = [0] * a.joint.nv
    for i, rate in enumerate(rotors_of(a).rates):
        by, of = _along(a, x.args[0], [identity(a.joint.nv)[rate]])
        swept = dot(w, _pushed(by, rates))
        swept = add(swept, mul(a.number(HALF), dot(rates, matvec(of, rates))))
        out[rate] = sub(add(dot(C[i], w), dot(block[i], rates)), swept)
    return a.dense([[c] for c in out], 1)


def turning(a: Arithmetic, x: Field) -> Block:
    """[A, 0]: rows that sliding does not enter, as those of Γ*, Γ̇* and Γ* cross(V)."""
    return a.turning_block([row[:3] for row in a.rows(x.args[0])])


# ---- how it changes ------------------------------------------------------------------------------


@_of_rotors
def coupling_along(a: Arithmetic, x: Field) -> Block:
    """Γ̇{s; …}."""
    return _columns(a, _along(a, x.args[0], [a.column(y) for y in x.args[1:]])[0])


@_of_rotors
def corner_along(a: Arithmetic, x: Field) -> Block:
    """The corner along rates."""
    return _square(a, _along(a, x.args[0], [a.column(y) for y in x.args[1:]])[1])


def _along_each(a: Arithmetic, x: Field, held: int = 2) -> list[tuple[int, Vectors, Rows]]:
    """C and the corner along the directions given and along each rate that has a row.

    Others turn no body, and change nothing.
    """
    given, units = [a.column(y) for y in x.args[held:]], identity(a.joint.nv)
    rates = rotors_of(a).rates
    every = with_each(given, x.data, [units[i] for i in rates])
    return [(i, *_along(a, x.args[0], way)) for i, way in zip(rates, every, strict=True)]


@_of_rotors
def coupling_change(a: Arithmetic, x: Field) -> Block:
    """s ↦ Γ̇{s} y."""
    y = _of_rows(a, a.column(x.args[1]))
    return _columns(a, [_pushed(C, y) for _, C, _ in _along_each(a, x)])


def _between_rates(a: Arithmetic, x: Field, numbers: Callable[[Vectors, Rows], Any]) -> Block:
    """A column for each rate: numbers of C and the corner along it, one for each of those."""
    n = a.joint.nv
    columns: Rows = [[0] * n for _ in range(n)]
    for i, C, block in _along_each(a, x):
        for rate, found in zip(rotors_of(a).rates, numbers(C, block), strict=True):
            columns[i][rate] = found
    return a.dense(transpose_rows(columns), n)


@_of_rotors
def coupling_change_back(a: Arithmetic, x: Field) -> Block:
    """s ↦ Γ̇{s}* y."""
    y = a.column(x.args[1])[:3]
    return _between_rates(a, x, lambda C, _: matvec(C, y))


@_of_rotors
def coupling_change_of_one(a: Arithmetic, x: Field) -> Block:
    """s ↦ Γ̇{s}* y, which is symmetric if there is one rate."""
    y, (rate,) = a.column(x.args[1])[:3], rotors_of(a).rates
    n, ((_, (g,), _),) = a.joint.nv, _along_each(a, x)
    found = dot(g, y)
    return a.symmetric([found if i == j == rate else 0 for i in range(n) for j in range(i + 1)], n)


@_of_rotors
def corner_change(a: Arithmetic, x: Field) -> Block:
    """s ↦ how the corner times y changes along s."""
    y = _of_rows(a, a.column(x.args[1]))
    return _between_rates(a, x, lambda _, block: matvec(block, y))


@_of_rotors
def second_change(a: Arithmetic, x: Field) -> Block:
    """y* Γ̇{s; t; …} z by s and t; of rates y that of the corner."""
    first, other, *given = x.args[1:]
    y, z, along = a.column(first), _of_rows(a, a.column(other)), [a.column(u) for u in given]
    units, n, rates = identity(a.joint.nv), a.joint.nv, rotors_of(a).rates
    block: Rows = [[0] * n for _ in range(n)]
    for i in rates:
        for j in rates:
            if j <= i:
                C, corner_ = _along(a, x.args[0], [units[i], units[j], *along])
                whole = matvec(corner_, z) if first.type.rows != "6" else _pushed(C, z)
                held = _of_rows(a, y) if first.type.rows != "6" else y[:3]
                block[i][j] = dot(held, whole)
    return a.symmetric(lower_half(block), n)


@_of_rotors
def trace(a: Arithmetic, x: Field) -> Block:
    """tr(Γ̇{s} Y) + how tr(corner Z) changes along s, by s."""
    Y, Z, rates = a.rows(x.args[1]), a.rows(x.args[2]), rotors_of(a).rates
    out: list[Entry] = [0] * a.joint.nv
    for i, C, block in _along_each(a, x, 3):
        for j, g in zip(rates, C, strict=True):
            out[i] = add(out[i], dot(g, Y[j][:3]))
        for j, row in zip(rates, block, strict=True):
            out[i] = add(out[i], dot(row, [Z[k][j] for k in rates]))
    return a.dense([[c] for c in out], 1)


# ---- rows of the table ---------------------------------------------------------------------------


def _coupling(
    name: str, meaning: str, body: Any, rows: str, cols: str, form: str, latex: str = "",
    cost: int = 0, **more: Any,
) -> None:  # fmt: skip
    Operation(
        name, meaning, body=body, rows=rows, cols=cols, form=form, latex=latex or form, cost=cost,
        domain=Domain.BODY, variant=Variant.JOINT, **more,
    )  # fmt: skip


# fmt: off
_coupling("coupling", "Γ of skew rotors", coupling, "6", "r", "Γ({at})", r"\Gamma({at})", 60,
          naming=Naming.INLINE, starred=("Γ*({at})", r"\Gamma^{*}({at})"))
_coupling("rotor_corner", "inertia between the rates of rotors", inertia_of_corner,
          "r", "r", "A_Γ({at})", r"A_{\Gamma}({at})", 10, naming=Naming.INLINE, kind=Kind.SYMMETRIC)
_coupling("rotor_inertia", "the same with H Γ + Γ* H*", inertia_with_hinge, "r", "r",
          "J_Γ({at})", r"J_{\Gamma}({at})", 6, naming=Naming.INLINE, kind=Kind.SYMMETRIC)
_coupling("coupling_spin", "cross_force(Γ w)", spin, "6", "6", "cross_force({0} {1})",
          r"\operatorname{cross_{f}}({0} {1})", 3, kind=Kind.GYRATION, linear=EACH)
_coupling("coupling_swept", "V ×* Γ", swept, "6", "r", "{1} ×* {0}", r"{1} \times^{*} {0}",
          10, linear=EACH)
_coupling("coupling_force", "b with what rotors add", force, "6", "1", "b_Γ({...})",
          r"b_{\Gamma}({...})", 50)
_coupling("coupling_effort", "b of the rates of rotors", effort, "r", "1", "e_Γ({...})",
          r"e_{\Gamma}({...})", 20)
_coupling("coupling_along", "Γ along rates", coupling_along, "6", "r", "Γ̇({...})",
          r"\dot{\Gamma}({...})", 10, linear=EACH)
_coupling("corner_along", "the inertia of rotors along rates", corner_along, "r", "r",
          "Ȧ_Γ({...})", r"\dot{A}_{\Gamma}({...})", 10, linear=EACH, kind=Kind.SYMMETRIC)
_coupling("coupling_change", "how Γ y changes with the rates", coupling_change, "6", "r",
          "dΓ({...})", r"\delta \Gamma({...})", 10, linear=EACH)
_coupling("coupling_change_back", "how Γ* y changes with the rates", coupling_change_back,
          "r", "r", "dΓT({...})", r"\delta \Gamma^{*}({...})", 10, linear=EACH)
_coupling("coupling_change_of_one", "the same of one rate",
          coupling_change_of_one, "r", "r", "dΓT({...})", r"\delta \Gamma^{*}({...})", 10,
          linear=EACH, kind=Kind.SYMMETRIC)
_coupling("corner_change", "how the inertia of rotors times y changes", corner_change,
          "r", "r", "dA_Γ({...})", r"\delta A_{\Gamma}({...})", 10, linear=EACH)
_coupling("coupling_second", "how y* Γ̇{s} z changes with the rates", second_change,
          "r", "r", "ddΓ({...})", r"\delta^2 \Gamma({...})", 20, linear=EACH, kind=Kind.SYMMETRIC)
_coupling("coupling_trace", "how tr(Γ Y) changes with the rates", trace, "r", "1",
          "tr_Γ({...})", r"\operatorname{tr_{\Gamma}}({...})", 20)
_coupling("turning", "rows that sliding does not enter", turning, "r", "6", "{0}",
          kind=Kind.TURNING, naming=Naming.INLINE, linear=EACH)
# fmt: on
