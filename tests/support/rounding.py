"""How far rounding alone can take the value of an expression: the measure for comparisons.

    want, rounding = dense_with_rounding(x, model, points=points, **inputs)
    assert excess(got, want, rounding) <= ALLOWED

A product of norms is no measure: it exceeds the rounding that is there by many orders of magnitude,
and a comparison with it cannot fail. Here every intermediate value of the dense oracle is shaken at
random, by a relative amount far above rounding and far below one; the result moves by so much per
unit of rounding as the expression is sensitive there, entry by entry. Where terms cancel, what is
left of the shaking is what would be left of rounding.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from phipsi.backends import dense as oracle
from phipsi.backends.dense.evaluation import Evaluation, gain
from phipsi.errors import SingularHingeError, SingularMatrixError
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr
from phipsi.operators.catalogue import Riccati

Array = NDArray[Any]
E = TypeVar("E", bound=Evaluation)
UNIT = 2.0**-53
# Small ones keep to the slope; a larger one also moves what cancels twice, such as π π̄ π̄.
SHAKES = (2.0**-30, 2.0**-30, 2.0**-8)
# Another way to compute the same thing rounds differently. Of 1,600 random expressions 99 % are
# within 3 times the measure and the worst, at a nearly singular hinge, is at 743; a mistake of one
# in 10⁹ in one factor is at 10⁶.
ALLOWED = 1024.0
# Nothing is rounded in these.
_EXACT = (Op.IDENTITY, Op.ZERO, Op.ADJOINT, Op.AS_MATRIX, Op.BD)


class Shaken(Evaluation):
    """The dense oracle with a random relative error in every value it computes."""

    noise: np.random.Generator
    amount: float

    def value(self, x: Expr) -> Array:
        """The matrix of x, each entry off by `amount` of itself."""
        if x not in self._values:
            value = self._compute(x)
            if x.op not in _EXACT:
                value = value * (1 + self.amount * self.noise.choice((-1.0, 1.0), value.shape))
            self._values[x] = value
        return self._values[x]

    def _inverse(self, x: Expr) -> Array:
        return self._filled(super()._inverse(x))

    def _member(self, f: Riccati, name: str) -> Array:
        if name == "G":  # a solution with D, so the rounding of D counts with its condition
            return gain(self.model, *map(self.value, (f.H, f.P, f.D)))
        value = super()._member(f, name)
        return self._filled(value) if name == "psi" else value

    def _filled(self, inverse: Array) -> Array:
        """Elimination leaves rounding errors also where the inverse is zero."""
        largest = np.abs(inverse).max(initial=0.0)
        return inverse + self.amount * largest * self.noise.choice((-1.0, 1.0), inverse.shape)


class Mistaken(Evaluation):
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
    points, given = named.pop("points", None), named.pop("given", None)
    value = oracle.dense(expr, model, points=points, given=given, **named)
    moved = np.zeros(value.shape)
    for seed, amount in enumerate(SHAKES):
        shaken = oracle_at(Shaken, expr, model, points, named, given)
        shaken.noise, shaken.amount = np.random.default_rng(seed), amount
        try:
            with np.errstate(invalid="ignore"):
                change = np.abs(shaken.value(expr).reshape(value.shape) - value)
        except (SingularHingeError, SingularMatrixError, np.linalg.LinAlgError):
            change = np.full(value.shape, np.nan)
        if not np.isfinite(change).all():
            assert amount != SHAKES[0], f"{expr} is singular within {amount:g}"
            continue  # so near to singular that a large amount is too much
        moved = np.maximum(moved, change * (UNIT / amount))
    # A few samples miss entries by chance: none is expected to be far below the largest.
    return value, moved + 0.05 * moved.max(initial=0.0)


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
