"""How far rounding alone can take the value of an expression: the measure for comparisons.

    want, rounding = dense_with_rounding(x, model, points=points, **inputs)
    assert (abs(got - want) <= 64 * rounding).all()

A product of norms is no measure: it exceeds the rounding that is there by many orders of magnitude,
and a comparison with it cannot fail. Here every intermediate value of the dense oracle is shaken at
random, by a relative amount far above rounding and far below one; the result moves by so much per
unit of rounding as the expression is sensitive there, entry by entry. Where terms cancel, what is
left of the shaking is what would be left of rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.backends import dense as oracle
from phipsi.backends.dense_evaluate import Evaluation
from phipsi.expressions.node import Expr
from phipsi.expressions.row import Op
from phipsi.operators.definitions import Riccati

Array = NDArray[Any]
UNIT = 2.0**-53
SHAKE = 2.0**-30
SAMPLES = 3
# Nothing is rounded in these.
_EXACT = (Op.IDENTITY, Op.ZERO, Op.ADJOINT, Op.WRITTEN, Op.BD)


class Shaken(Evaluation):
    """The dense oracle with a random relative error in every value it computes."""

    noise: np.random.Generator

    def value(self, x: Expr) -> Array:
        """The matrix of x, each entry off by about SHAKE of itself."""
        if x not in self._values:
            value = self._compute(x)
            if x.op not in _EXACT:
                value = value * (1 + SHAKE * self.noise.choice((-1.0, 1.0), value.shape))
            self._values[x] = value
        return self._values[x]


    def _inverse(self, x: Expr) -> Array:
        return self._filled(super()._inverse(x))

    def _member(self, f: Riccati, name: str) -> Array:
        value = super()._member(f, name)
        return self._filled(value) if name == "psi" else value

    def _filled(self, inverse: Array) -> Array:
        """Elimination leaves rounding errors also where the inverse is zero."""
        size = np.abs(inverse).max(initial=0.0)
        return inverse + SHAKE * size * self.noise.choice((-1.0, 1.0), inverse.shape)


def dense_with_rounding(expr: Expr, model: Any, **named: Any) -> tuple[Array, Array]:
    """Return the dense value and the rounding, both of the same shape, of one configuration."""
    points, given = named.pop("points", None), named.pop("given", None)
    inputs, tree, where = oracle._inputs(expr, model, points, named, given)
    shape = oracle._shape(expr, tree, where)
    one = Evaluation(tree, where, *inputs.at(()), inputs.dtype)
    value = one.value(expr).reshape(shape)
    moved = np.zeros(shape)
    for seed in range(SAMPLES):
        shaken = Shaken(tree, where, *inputs.at(()), inputs.dtype)
        shaken.noise = np.random.default_rng(seed)
        moved = np.maximum(moved, np.abs(shaken.value(expr).reshape(shape) - value))
    # A few samples miss entries by chance: none is expected to be far below the largest.
    return value, (moved + 0.05 * moved.max(initial=0.0)) * (UNIT / SHAKE)
