"""The bodies of operations on bodies behind a drive, written once for every backend.

V(k) = [ω; v; rates] has a row for each rate of the drive; M(k) has the corner C, which turns with
the joint, and a block A − W* C_p − C_p* W below it. Formulas: `model/drive.py`.

Rates of a drive are those of coordinates, so that b is Boltzmann and Hamel's as for modes:

    b = [ω × p + v × l + Ċ u;  ω × l;  Ċ* ω + Ȧ u − ½ ∂/∂q (2 ω* C u + u* A u)]      [p; l; …] = M V

with u the rates. With one rate and g_p at right angles to its axis the last row is zero.

Reasons: docs/decisions/0060.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from phipsi.model.drive import Drive
from phipsi.model.dual import Dual, DualOps, rate_of
from phipsi.model.scalars import ScalarOps
from phipsi.sweeps.arithmetic import Arithmetic, Block
from phipsi.sweeps.entries import (
    Entry,
    Rows,
    add,
    cross,
    dot,
    matvec,
    mul,
    plus,
    sub,
    transpose_rows,
)

_HALF = Fraction(1, 2)
Vectors = list[list[Entry]]


class Numbers:
    """The vectors and numbers of a drive, as `Drive.numbers` puts them in a row."""

    def __init__(self, drive: Drive, numbers: Sequence[Entry]) -> None:
        rest = iter(numbers)

        def read(vectors: Sequence[Sequence[float]]) -> Vectors:
            return [[next(rest) if any(g) else 0 for _ in range(3)] for g in vectors]

        self.above, self.own = read(drive.above), read(drive.own)
        self.pairs: list[Entry] = [next(rest) if x else 0 for x in drive.pairs]


def corner(a: Arithmetic, q: Sequence[Entry], ops: ScalarOps) -> tuple[Vectors, Rows]:
    """C, a vector for each rate, and the block A − W* C_p − C_p* W, at coordinates of the joint."""
    hinge, params = a.joint, a.params()
    joint, start = hinge.joint, hinge.own_start
    own, drive = params[:start], hinge.drive
    numbers, n = Numbers(drive, params[start:]), len(drive.rates)
    turned = any(map(any, drive.above))
    back = transpose_rows(joint.transform(own, q, ops)[0]) if turned else []
    above = [matvec(back, g) if any(d) else [0, 0, 0] for g, d in
             zip(numbers.above, drive.above, strict=True)]  # fmt: skip
    C = [plus(x, y) for x, y in zip(above, numbers.own, strict=True)]
    block: Rows = [[0] * n for _ in range(n)]
    if not drive.across:
        turns = transpose_rows(joint.hinge_axes(own, q, ops)[:3])
        pairs = iter(numbers.pairs)
        for i in range(n):
            for j in range(i + 1):
                there = next(pairs) if j < i else 0
                both = [dot(turns[drive.rates[x]], above[y]) for x, y in ((i, j), (j, i))]
                block[i][j] = block[j][i] = sub(sub(there, both[0]), both[1])
    return C, block


def _along(a: Arithmetic, directions: Sequence[Sequence[Entry]]) -> tuple[Vectors, Rows]:
    """C and the block along rates of the drive, one direction after the other."""
    hinge = a.joint
    joint, params = hinge.joint, a.params()[: hinge.own_start]

    def moving(q: Sequence[Entry], ops: ScalarOps, left: int) -> tuple[Vectors, Rows]:
        if not left:
            return corner(a, q, ops)
        rates: list[Entry] = [0] * joint.nv
        for rate, x in zip(hinge.drive.rates, directions[left - 1], strict=True):
            rates[rate] = x
        by = joint.q_rate(params, q, rates, ops)
        dual = [Dual(x, y) for x, y in zip(q, by, strict=True)]
        C, block = moving(dual, DualOps(ops), left - 1)
        return [[rate_of(x) for x in g] for g in C], [[rate_of(x) for x in r] for r in block]

    return moving(a.coordinates("q"), a, len(directions))


def inertia(a: Arithmetic) -> Block:
    """M(q)."""
    C, block = a.once("corner", lambda: corner(a, a.coordinates("q"), a))
    rows = a.entries(a.own_inertia())
    lower = [rows[i][j] for i in range(6) for j in range(i + 1)]
    return a.symmetric(lower + _below(C, block), 6 + len(C))


def inertia_along(a: Arithmetic, directions: Sequence[Sequence[Entry]]) -> list[Entry]:
    """The lower half of Ṁ{…}; the six rigid rows and columns do not change."""
    C, block = _along(a, directions)
    return [0] * 21 + _below(C, block)


def _below(C: Vectors, block: Rows) -> list[Entry]:
    out: list[Entry] = []
    for i, g in enumerate(C):
        out += [*g, 0, 0, 0, *block[i][: i + 1]]
    return out


def gyroscopic(a: Arithmetic, rows: Rows, V: Sequence[Entry]) -> Block:
    """b of a body behind a drive, of M(q) and its motion."""
    w, v, rates = list(V[:3]), list(V[3:6]), list(V[6:])
    momentum = [dot(row, V) for row in rows[:6]]
    turning, pushing = momentum[:3], momentum[3:]
    C, block = _along(a, [rates])  # Ċ and Ȧ
    moment = plus(cross(w, turning), cross(v, pushing))
    for g, u in zip(C, rates, strict=True):
        moment = plus(moment, [mul(c, u) for c in g])
    out = [*moment, *cross(w, pushing)]
    n = len(rates)
    if a.joint.drive.across:
        return a.dense([[c] for c in (*out, 0)], 1)
    for i in range(n):
        unit = [1 if j == i else 0 for j in range(n)]
        by, of = _along(a, [unit])
        swept: Entry = 0
        for g, u in zip(by, rates, strict=True):
            swept = add(swept, mul(dot(w, g), u))
        swept = add(swept, mul(a.number(_HALF), dot(rates, matvec(of, rates))))
        out.append(sub(add(dot(C[i], w), dot(block[i], rates)), swept))
    return a.dense([[c] for c in out], 1)


def second(a: Arithmetic, given: Sequence[Sequence[Entry]], y: Any, z: Any) -> list[Entry]:
    """The lower half of z* Ṁ{s; t; …} y by s and t: zeros for rigid motions."""
    n = len(a.joint.drive.rates)
    lower: list[Entry] = [0] * 21
    units = [[1 if j == i else 0 for j in range(n)] for i in range(n)]
    for i in range(n):
        lower += [0] * 6
        for j in range(i + 1):
            C, block = _along(a, [units[i], units[j], *given])
            found = dot(z[6:], matvec(block, y[6:]))
            for g, p, q in zip(C, y[6:], z[6:], strict=True):
                found = add(found, add(mul(dot(z[:3], g), p), mul(dot(y[:3], g), q)))
            lower.append(found)
    return lower
