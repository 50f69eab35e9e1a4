"""Dual numbers x + ε x', ε² = 0, over any scalar: exact derivatives of the joint formulas.

The formulas of the joints are generic over the scalar, so running them on dual numbers gives the
derivative along a direction, for floats, batches, symbols and generated code alike. Structural
zeros stay structural.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, final

from phipsi.core.model.joint import Columns, Joint
from phipsi.core.model.scalar_linalg import Scalar, ScalarOps, Vector, add, is_zero, mul, sub


@final
class Dual:
    """One number and its rate of change; `rate` may be the structural zero."""

    __slots__ = ("rate", "value")
    __array_ufunc__ = None

    def __init__(self, value: Scalar, rate: Scalar) -> None:
        self.value, self.rate = value, rate

    def __add__(self, other: Any) -> Dual:
        if type(other) is Dual:
            return Dual(add(self.value, other.value), add(self.rate, other.rate))
        return Dual(add(self.value, other), self.rate)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dual:
        return Dual(sub(self.value, value_of(other)), sub(self.rate, rate_of(other)))

    def __rsub__(self, other: Any) -> Dual:
        return Dual(sub(value_of(other), self.value), sub(rate_of(other), self.rate))

    def __neg__(self) -> Dual:
        return Dual(-self.value, 0 if is_zero(self.rate) else -self.rate)

    def __mul__(self, other: Any) -> Dual:
        x, rate = self.value, self.rate
        if type(other) is Dual:
            y = other.value
            return Dual(mul(x, y), add(mul(rate, y), mul(x, other.rate)))
        return Dual(mul(x, other), mul(rate, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        y = value_of(other)
        ratio = self.value / y
        return Dual(ratio, mul(sub(self.rate, mul(ratio, rate_of(other))), 1 / y))

    def __rtruediv__(self, other: Any) -> Dual:
        return Dual(value_of(other), rate_of(other)) / self


def value_of(x: Scalar) -> Scalar:
    """The number without its rate."""
    return x.value if isinstance(x, Dual) else x


def rate_of(x: Scalar) -> Scalar:
    """The rate of a number, the structural zero for a constant."""
    return x.rate if isinstance(x, Dual) else 0


@final
class DualOps(ScalarOps):
    """Dual numbers over another kind: what the formulas of joints ask for."""

    def __init__(self, ops: ScalarOps) -> None:
        self._ops, self.number = ops, ops.number

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> NoReturn:
        """Derivatives of laws are graphs; those of joints need the functions below."""
        raise TypeError(f"{name} of dual numbers is not known")

    def sin(self, x: Any) -> Any:
        """Sine."""
        value = self._ops.sin(value_of(x))
        return Dual(value, mul(self._ops.cos(value_of(x)), rate_of(x)))

    def cos(self, x: Any) -> Any:
        """Cosine."""
        value = self._ops.cos(value_of(x))
        return Dual(value, sub(0, mul(self._ops.sin(value_of(x)), rate_of(x))))

    def sqrt(self, x: Any) -> Any:
        """Square root."""
        value = self._ops.sqrt(value_of(x))
        return Dual(value, mul(rate_of(x), 1 / (2 * value)))


def hinge_axes_along(
    joint: Joint, params: Vector, q: Vector, directions: Sequence[Vector], ops: ScalarOps
) -> Columns:
    """H* differentiated along rates one after the other, each held while the next one acts.

    One direction gives `hinge_axes_rate`; every further one is a derivative of that formula along
    q̇ of the direction, by dual numbers.
    """
    if not directions:
        return joint.hinge_axes(params, q, ops)
    if len(directions) == 1:
        return joint.hinge_axes_rate(params, q, directions[0], ops)
    if joint.nv == 0:
        return joint.hinge_axes(params, q, ops)
    rate = joint.q_rate(params, q, directions[-1], ops)
    moving = [Dual(x, r) for x, r in zip(q, rate, strict=True)]
    columns = hinge_axes_along(joint, params, moving, directions[:-1], DualOps(ops))
    return [[rate_of(x) for x in row] for row in columns]
