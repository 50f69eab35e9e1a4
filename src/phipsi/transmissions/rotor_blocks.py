"""Blocks of bodies behind rotors on skew axes, with a row for each rate; for any scalar.

V(k) = [ω; v; rates]. M(k) has the corner C, which turns with the joint, and a block
A − W* C_p − C_p* W below it. The rates are those of coordinates, so that b is Boltzmann and Hamel's
as for modes:

    b = [ω × p + v × l + Ċ u;  ω × l;  Ċ* ω + Ȧ u − ½ ∂/∂q (2 ω* C u + u* A u)]      [p; l; …] = M V

with u the rates. With one rate and g_p at right angles to its axis the last row is zero.

Formulas and letters: `skew_rotors.py`. Reasons: docs/decisions/0060.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from phipsi.core.model import Dual, DualOps, ScalarOps, rate_of, rate_rows_of
from phipsi.core.sweeps import (
    Arithmetic,
    Block,
    Entry,
    Rows,
    add,
    cross,
    dot,
    identity,
    lower_half,
    matvec,
    mul,
    plus,
    sub,
    transpose_rows,
)

HALF = Fraction(1, 2)
Vectors = list[list[Entry]]
Directions = Sequence[Sequence[Entry]]


def rotors_of(a: Arithmetic) -> Any:
    """The `SkewRotors` at the joint here, or None."""
    return rate_rows_of(a.joint)


class Numbers:
    """The vectors and numbers of rotors, as `SkewRotors.numbers` puts them in a row."""

    def __init__(self, rotors: Any, numbers: Sequence[Entry]) -> None:
        rest = iter(numbers)

        def read(vectors: Sequence[Sequence[float]]) -> Vectors:
            return [[next(rest) if any(g) else 0 for _ in range(3)] for g in vectors]

        self.above, self.own = read(rotors.above), read(rotors.own)
        self.pairs: list[Entry] = [next(rest) if x else 0 for x in rotors.pairs]


def corner(a: Arithmetic, q: Sequence[Entry], ops: ScalarOps) -> tuple[Vectors, Rows]:
    """C, a vector for each rate, and the block A − W* C_p − C_p* W, at coordinates of the joint."""
    hinge, params = a.joint, a.params()
    joint, start = hinge.joint, hinge.own_start
    own, rotors = params[:start], hinge.rate_rows
    numbers, n = Numbers(rotors, params[start:]), len(rotors.rates)
    turned = any(map(any, rotors.above))
    back = transpose_rows(joint.transform(own, q, ops)[0]) if turned else []
    above = [matvec(back, g) if any(d) else [0, 0, 0] for g, d in
             zip(numbers.above, rotors.above, strict=True)]  # fmt: skip
    C = [plus(x, y) for x, y in zip(above, numbers.own, strict=True)]
    block: Rows = [[0] * n for _ in range(n)]
    if not rotors.across:
        turns = transpose_rows(joint.hinge_axes(own, q, ops)[:3])
        pairs = iter(numbers.pairs)
        for i in range(n):
            for j in range(i + 1):
                there = next(pairs) if j < i else 0
                both = [dot(turns[rotors.rates[x]], above[y]) for x, y in ((i, j), (j, i))]
                block[i][j] = block[j][i] = sub(sub(there, both[0]), both[1])
    return C, block


def by_dual_numbers(a: Arithmetic, directions: Directions) -> tuple[Vectors, Rows]:
    """C and the block along rates of the joint, one direction after the other."""
    hinge = a.joint
    own = a.params()[: hinge.own_start]

    def moving(q: Sequence[Entry], ops: ScalarOps, left: int) -> tuple[Vectors, Rows]:
        if not left:
            return corner(a, q, ops)
        by = hinge.joint.q_rate(own, q, directions[left - 1], ops)
        dual = [Dual(x, y) for x, y in zip(q, by, strict=True)]
        C, block = moving(dual, DualOps(ops), left - 1)
        return [[rate_of(x) for x in g] for g in C], [[rate_of(x) for x in r] for r in block]

    return moving(a.coordinates("q"), a, len(directions))


def _along_rates(a: Arithmetic, directions: Directions) -> tuple[Vectors, Rows]:
    """The same along rates that have rows."""
    every: list[list[Entry]] = []
    for direction in directions:
        rates: list[Entry] = [0] * a.joint.joint.nv
        for rate, x in zip(rotors_of(a).rates, direction, strict=True):
            rates[rate] = x
        every.append(rates)
    return by_dual_numbers(a, every)


def inertia(a: Arithmetic) -> Block:
    """M(q)."""
    C, block = a.once("corner", lambda: corner(a, a.coordinates("q"), a))
    rows = a.entries(a.own_inertia())
    return a.symmetric(lower_half(rows) + _below(C, block), 6 + len(C))


def inertia_along(a: Arithmetic, directions: Directions) -> list[Entry]:
    """The lower half of Ṁ{…}; the six rigid rows and columns do not change."""
    C, block = _along_rates(a, directions)
    return [0] * 21 + _below(C, block)


def _below(C: Vectors, block: Rows) -> list[Entry]:
    out: list[Entry] = []
    for i, g in enumerate(C):
        out += [*g, 0, 0, 0, *block[i][: i + 1]]
    return out


def gyroscopic(a: Arithmetic, rows: Rows, V: Sequence[Entry]) -> Block:
    """b of a body behind rotors, of M(q) and its motion."""
    w, v, rates = list(V[:3]), list(V[3:6]), list(V[6:])
    momentum = [dot(row, V) for row in rows[:6]]
    turning, pushing = momentum[:3], momentum[3:]
    C, block = _along_rates(a, [rates])  # Ċ and Ȧ
    moment = plus(cross(w, turning), cross(v, pushing))
    for g, u in zip(C, rates, strict=True):
        moment = plus(moment, [mul(c, u) for c in g])
    out = [*moment, *cross(w, pushing)]
    n = len(rates)
    if rotors_of(a).across:
        return a.dense([[c] for c in (*out, 0)], 1)
    for i, unit in enumerate(identity(n)):
        by, of = _along_rates(a, [unit])
        swept: Entry = 0
        for g, u in zip(by, rates, strict=True):
            swept = add(swept, mul(dot(w, g), u))
        swept = add(swept, mul(a.number(HALF), dot(rates, matvec(of, rates))))
        out.append(sub(add(dot(C[i], w), dot(block[i], rates)), swept))
    return a.dense([[c] for c in out], 1)


def second(a: Arithmetic, given: Directions, y: Any, z: Any) -> list[Entry]:
    """The lower half of z* Ṁ{s; t; …} y by s and t: zeros for rigid motions."""
    n = len(rotors_of(a).rates)
    lower: list[Entry] = [0] * 21
    units = identity(n)
    for i in range(n):
        lower += [0] * 6
        for j in range(i + 1):
            C, block = _along_rates(a, [units[i], units[j], *given])
            found = dot(z[6:], matvec(block, y[6:]))
            for g, p, q in zip(C, y[6:], z[6:], strict=True):
                found = add(found, add(mul(dot(z[:3], g), p), mul(dot(y[:3], g), q)))
            lower.append(found)
    return lower
