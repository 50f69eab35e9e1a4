"""How far rounding alone can take the value of an expression: the measure for comparisons.

    want, rounding = dense_with_rounding(x, model, points=points, **inputs)
    assert excess(got, want, rounding) <= ALLOWED

Of many expressions at one configuration, `RoundedOracle` computes what they have in common once.

A product of norms is no measure: it exceeds the rounding that is there by many orders of magnitude,
and a comparison with it cannot fail. Here every intermediate value of the dense oracle is shaken at
random, by a relative amount far above rounding and far below one; the result moves by so much per
unit of rounding as the expression is sensitive there, entry by entry. Where terms cancel, what is
left of the shaking is what would be left of rounding.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from phipsi.core.dense import expression_matrices as oracle
from phipsi.core.dense.evaluation import DenseEvaluator, gain
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import Expr
from phipsi.core.operators.catalogue import Riccati
from phipsi.errors import SingularHingeError, SingularMatrixError

Array = NDArray[Any]
E = TypeVar("E", bound=DenseEvaluator)
UNIT = 2.0**-53
# Small ones keep to the slope; a larger one also moves what cancels twice, such as π π̄ π̄.
SHAKES = (2.0**-30, 2.0**-30, 2.0**-8)
# Another way to compute the same thing rounds differently. Of 1,600 random expressions 99 % are
# within 3 times the measure and the worst, at a nearly singular hinge, is at 743; a mistake of one
# in 10⁹ in one factor is at 10⁶.
ALLOWED = 1024.0
# Nothing is rounded in these.
_EXACT = (Op.IDENTITY, Op.ZERO, Op.ADJOINT, Op.AS_MATRIX, Op.BD)


class Shaken(DenseEvaluator):
    """The dense oracle with a random relative error in every value it computes.

    The error of a value is that of its name: what was computed before does not matter.
    """

    seed: int
    amount: float

    def value(self, x: Expr) -> Array:
        """The matrix of x, each entry off by `amount` of itself."""
        if x not in self._values:
            value = self._compute(x)
            if x.op not in _EXACT:
                value = value * (1 + self.amount * self._signs(_text(x), value.shape))
            self._values[x] = value
        return self._values[x]

    def _inverse(self, x: Expr) -> Array:
        return self._filled(super()._inverse(x), _text(x))

    def _member(self, f: Riccati, name: str) -> Array:
        if name == "G":  # a solution with D, so the rounding of D counts with its condition
            return gain(self.model, *map(self.value, (f.H, f.P, f.D)))
        value = super()._member(f, name)
        return self._filled(value, _text(f.psi)) if name == "psi" else value

    def _filled(self, inverse: Array, name: str) -> Array:
        """Elimination leaves rounding errors also where the inverse is zero."""
        largest = np.abs(inverse).max(initial=0.0)
        return inverse + self.amount * largest * self._signs(f"filled {name}", inverse.shape)

    def _signs(self, name: str, shape: tuple[int, ...]) -> Array:
        """Signs that belong to a name."""
        size = int(np.prod(shape, dtype=int))
        start = crc32(f"{self.seed} {name}".encode()) % max(len(_SIGNS) - size, 1)
        return np.resize(_SIGNS[start : start + size], shape) if size else np.zeros(shape)


_SIGNS = np.random.default_rng(0).choice((-1.0, 1.0), 1 << 18)
_text = cache(str)


class Mistaken(DenseEvaluator):
    """The dense oracle with one part of the expression off by one in 10⁹."""

    where: Expr

    def value(self, x: Expr) -> Array:
        """The matrix of x, wrong at one place."""
        if x not in self._values:
            value = self._compute(x)
            self._values[x] = value * (1 + 1e-9) if x is self.where else value
        return self._values[x]


def oracle_at(
    kind: type[E], expr: Expr, model: Any, points: Any, named: dict[str, Any], given: Any = None
) -> E:
    """Return an evaluation of this kind at one configuration."""
    inputs, tree, where = oracle._inputs(expr, model, points, named, given)
    return kind(tree, where, *inputs.at(()), inputs.dtype)


def dense_with_rounding(expr: Expr, model: Any, **named: Any) -> tuple[Array, Array]:
    """Return the dense value and the rounding, both of the same shape, of one configuration."""
    return RoundedOracle(model, **named).with_rounding(expr)


class RoundedOracle:
    """Dense values and their rounding at one configuration; common parts are computed once."""

    def __init__(self, model: Any, *, points: Any = None, given: Any = None, **named: Any) -> None:
        self.model, self.points, self.given, self.named = model, points, given, named
        self._known: dict[Expr, tuple[Array, Array]] = {}
        self._exact: DenseEvaluator | None = None
        self._shaken: list[Shaken] = []

    def with_rounding(self, expr: Expr) -> tuple[Array, Array]:
        """Return the value and the rounding that is to be expected in each entry."""
        if expr not in self._known:
            value = self.value(expr)
            self._known[expr] = value, self._rounding(expr, value)
        return self._known[expr]

    def value(self, expr: Expr) -> Array:
        """Return the dense value."""
        one = self._exact = self._exact or self._at(DenseEvaluator, expr)
        return one.value(expr).reshape(oracle._shape(expr, one.model, one.points)).copy()

    def _at(self, kind: type[E], expr: Expr) -> E:
        return oracle_at(kind, expr, self.model, self.points, self.named, self.given)

    def _rounding(self, expr: Expr, value: Array) -> Array:
        if not self._shaken:
            for seed, amount in enumerate(SHAKES):
                one = self._at(Shaken, expr)
                one.seed, one.amount = seed, amount
                self._shaken.append(one)
        moved = np.zeros(value.shape)
        for shaken in self._shaken:
            try:
                with np.errstate(invalid="ignore"):
                    change = np.abs(shaken.value(expr).reshape(value.shape) - value)
            except (SingularHingeError, SingularMatrixError, np.linalg.LinAlgError):
                change = np.full(value.shape, np.nan)
            if not np.isfinite(change).all():
                assert shaken is not self._shaken[0], f"{expr} is singular within {shaken.amount:g}"
                continue  # so near to singular that a large amount is too much
            moved = np.maximum(moved, change * (UNIT / shaken.amount))
        # A few samples miss entries by chance: none is expected to be far below the largest.
        return moved + 0.05 * moved.max(initial=0.0)


def excess(got: Any, want: Array, rounding: Array, dense: Array | None = None) -> float:
    """Return how many times the rounding the two differ at the worst entry.

    `dense` is the value by the oracle, if that is not what is wanted. Of values that are nothing
    but rounding the square root is taken: a zero such as π̄ π̄ π π is zero twice over, so that two
    roundings multiply, and with them by how much each is off.
    """
    error = np.abs(np.asarray(got).reshape(want.shape) - want)
    if not np.isfinite(error).all():
        return np.inf
    off = float((error / np.maximum(rounding, np.finfo(float).tiny)).max(initial=0.0))
    size = np.abs(want if dense is None else dense).max(initial=0.0)
    is_rounding = size <= ALLOWED * rounding.max(initial=0.0)
    return off**0.5 if is_rounding else off


def applied(want: Array, rounding: Array, operand: Array) -> tuple[Array, Array]:
    """Return a matrix with its rounding, both applied to an operand (rows,) or (rows, columns)."""
    size = np.abs(operand)
    return want @ operand, rounding @ size + UNIT * np.abs(want) @ size
