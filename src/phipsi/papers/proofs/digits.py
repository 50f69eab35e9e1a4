"""Arrays of decimal numbers with 110 digits, for irrational numbers: given angles, square roots.

The standard library's `decimal` does the arithmetic; sine and cosine are summed here. Work within
``with long_decimals():``. Two numbers count as equal if they agree to fifty digits (`AGREE`), so
that more than half of the digits are a reserve against cancellation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_FLOOR, Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cache
from typing import Any, final

import numpy as np

from phipsi.core.backends import FUNCTIONS
from phipsi.core.spatial import ScalarOps
from phipsi.papers.proofs.exact_array import ExactArray, NotRational

DIGITS = 110
AGREE = Decimal(10) ** -50
STEP = Decimal(10) ** -30  # of difference quotients, whose error is about its square


@contextmanager
def long_decimals() -> Iterator[None]:
    """Decimal arithmetic with 110 digits, here only."""
    with localcontext() as context:
        context.prec = DIGITS
        yield


@final
class Digits(ExactArray):
    """Arrays of decimal numbers."""

    def scalars(self) -> list[Any]:
        """The numbers one by one."""
        return list(self.view(np.ndarray).reshape(-1))

    @classmethod
    def of(cls, values: Any) -> Any:
        """Decimal numbers; a float is the number it is, not the one it was rounded from."""
        if isinstance(values, cls):
            return values
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise NotRational("a complex number is not a decimal")
        return np.asarray(_DECIMAL(array), object).reshape(array.shape).view(cls)

    @classmethod
    def compute(cls, ufunc: Any, inputs: list[Any]) -> Any:
        """Arithmetic as NumPy does it for objects, and the functions of one number."""
        name = ufunc.__name__
        if name == "isfinite":
            return np.ones(np.shape(inputs[0]), bool)
        if name == "power":
            inputs = [inputs[0], int(np.asarray(inputs[1]))]
            plain = [cls.of(inputs[0]).view(np.ndarray), inputs[1]]
        else:
            plain = [cls.of(x).view(np.ndarray) for x in inputs]
        if name in _OF_ONE:
            result = np.frompyfunc(_OF_ONE[name], 1, 1)(plain[0])
        elif name in _ARITHMETIC:
            result = ufunc(*plain)
        else:
            raise NotRational(f"{name} of long decimals")
        if name in _COMPARISONS:
            return np.asarray(result, bool)
        return cls._objects(result)

    @classmethod
    def _added(cls, values: Any, axis: Any = 0, **options: Any) -> Any:
        return cls._objects(np.add.reduce(values.view(np.ndarray), axis=axis, initial=Decimal(0)))

    @classmethod
    def _objects(cls, numbers: Any) -> Any:
        """An array of decimal numbers, or of one that has no axes."""
        out = np.empty(np.shape(numbers), object)
        out[...] = numbers
        return out.view(cls)

    @classmethod
    def inverse(cls, matrix: Any) -> Any:
        """Gauss–Jordan elimination with the largest pivot of each column."""
        n = len(matrix)
        work = np.concatenate([matrix.view(np.ndarray), np.asarray(cls.of(np.eye(n)))], axis=1)
        size = max((abs(x) for x in work[:, :n].reshape(-1)), default=Decimal(0))
        for i in range(n):
            pivot = max(range(i, n), key=lambda r: abs(work[r, i]))
            if abs(work[pivot, i]) <= size * AGREE:
                raise np.linalg.LinAlgError("singular matrix")
            if pivot != i:
                work[[i, pivot]] = work[[pivot, i]]
            work[i] = work[i] / work[i, i]
            for r in range(n):
                if r != i and work[r, i]:
                    work[r] = work[r] - work[r, i] * work[i]
        return work[:, n:].view(cls)

    @classmethod
    def determinant(cls, matrix: Any) -> Any:
        """The determinant, by elimination."""
        work, total = matrix.view(np.ndarray).copy(), Decimal(1)
        for i in range(len(work)):
            pivot = max(range(i, len(work)), key=lambda r: abs(work[r, i]))
            if not work[pivot, i]:
                return cls.of(0)
            if pivot != i:
                work[[i, pivot]] = work[[pivot, i]]
                total = -total
            total *= work[i, i]
            for r in range(i + 1, len(work)):
                work[r] = work[r] - work[r, i] / work[i, i] * work[i]
        return cls.of(total)


def _decimal(x: Any) -> Decimal:
    if isinstance(x, Decimal):
        return x if type(x) is Decimal else Decimal(x)
    if isinstance(x, Fraction):
        return Decimal(x.numerator) / Decimal(x.denominator)
    while isinstance(x, (np.generic, np.ndarray)):  # an entry may be an array without axes
        x = x.item()
    return Decimal(x)


class DecimalNumber(Decimal):
    """A decimal number that computes with floats and fractions too, as the numbers they are."""


def _with_any(name: str) -> Callable[[Decimal, Any], Any]:
    plain = getattr(Decimal, name)

    def operation(self: Decimal, other: Any) -> Any:
        if not isinstance(other, (Decimal, Fraction, int, float, np.number)):
            return NotImplemented
        return DecimalNumber(plain(self, _decimal(other)))

    return operation


for _name in ("add", "sub", "mul", "truediv"):
    setattr(DecimalNumber, f"__{_name}__", _with_any(f"__{_name}__"))
    setattr(DecimalNumber, f"__r{_name}__", _with_any(f"__r{_name}__"))


_DECIMAL: Any = np.frompyfunc(_decimal, 1, 1)


@cache
def _pi(precision: int) -> Decimal:
    """π by Machin's formula, to the precision in use."""
    return 16 * _arctan_of_reciprocal(5) - 4 * _arctan_of_reciprocal(239)


def _arctan_of_reciprocal(n: int) -> Decimal:
    power, total, k = 1 / Decimal(n), Decimal(0), 1
    while True:
        term = power / k
        if abs(term) < _small():
            return total
        total, power, k = total + (term if k % 4 == 1 else -term), power / (n * n), k + 2


def _small() -> Decimal:
    """The size of terms that no longer count in the precision in use."""
    return Decimal(10) ** -(getcontext().prec + 2)


def _series(x: Decimal, term: Decimal, k: int) -> Decimal:
    """The sum of the alternating terms that follow one of x^k / k!."""
    total = Decimal(0)
    while abs(term) > _small():
        total += term
        term, k = -term * x * x / ((k + 1) * (k + 2)), k + 2
    return total


def _of_angle(x: Decimal, series: Callable[[Decimal], Decimal]) -> Decimal:
    """A series of x rad less whole turns, with digits in reserve."""
    with localcontext() as context:
        context.prec = DIGITS + 10 + max(0, x.adjusted())
        turn = 2 * _pi(context.prec)
        return series(x - turn * (x / turn).to_integral_value())


def sine(x: Decimal) -> Decimal:
    """The sine of x rad."""
    return _of_angle(x, lambda rest: _series(rest, rest, 1))


def cosine(x: Decimal) -> Decimal:
    """The cosine of x rad."""
    return _of_angle(x, lambda rest: _series(rest, Decimal(1), 0))


def _root(x: Decimal) -> Decimal:
    if x < 0:
        raise NotRational("the square root of a negative number")
    return x.sqrt()


_OF_ONE: dict[str, Callable[[Decimal], Any]] = {
    "sin": sine,
    "cos": cosine,
    "sqrt": _root,
    "log": lambda x: x.ln(),
}


def _tanh(x: Decimal) -> Decimal:
    """Hyperbolic tangent, with digits in reserve for what cancels near zero."""
    with localcontext() as context:
        context.prec = 2 * DIGITS + 10
        small = (-2 * abs(x)).exp()
        return ((1 - small) / (1 + small)).copy_sign(x)


def _sinh(x: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 2 * DIGITS + 10
        return (x.exp() - (-x).exp()) / 2


def _arctan(x: Decimal) -> Decimal:
    """Half the angle, again and again, until the series is short."""
    with localcontext() as context:
        context.prec = DIGITS + 20
        for _ in range(8):
            x = x / (1 + (1 + x * x).sqrt())
        total, power, k = Decimal(0), x, 1
        while abs(power) > _small():
            total, power, k = total + power / k, -power * x * x, k + 2
        return 256 * total


def _arctan2(y: Decimal, x: Decimal) -> Decimal:
    if not x:
        return (_pi(DIGITS) / 2).copy_sign(y) if y else Decimal(0)
    turn = _pi(DIGITS).copy_sign(y) if x < 0 else 0
    return _arctan(y / x) + turn


def _curve(x: Decimal, data: Any) -> Decimal:
    knots, coefficients = data
    piece = max(i for i in range(len(coefficients)) if i == 0 or x >= Decimal(knots[i]))
    s, out = x - Decimal(knots[piece]), Decimal(0)
    for c in reversed(coefficients[piece]):
        out = out * s + Decimal(c)
    return out


def _remainder(x: Decimal, y: Decimal) -> Decimal:
    """x less the multiple of y below it: zero, or with the sign of y."""
    rest = x % y
    return rest + y if rest and (rest < 0) != (y < 0) else rest


def _floor_divide(x: Decimal, y: Decimal) -> Decimal:
    return ((x - _remainder(x, y)) / y).to_integral_value()


_ENTRYWISE: dict[str, Callable[..., Any]] = {
    **_OF_ONE,
    "exp": Decimal.exp, "tanh": _tanh, "sinh": _sinh,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2, "tan": lambda x: sine(x) / cosine(x),
    "arctan": _arctan, "arctan2": _arctan2,
    "arcsin": lambda x: _arctan2(x, _root((1 - x) * (1 + x))),
    "arccos": lambda x: _arctan2(_root((1 - x) * (1 + x)), x),
    "power": lambda x, y: x**y, "abs": abs, "sign": lambda x: (x > 0) - (x < 0),
    "floor": lambda x: x.to_integral_value(ROUND_FLOOR), "minimum": min, "maximum": max,
    "floor_divide": _floor_divide, "remainder": _remainder,
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "neg": operator.neg, "fma": lambda x, y, z: x * y + z,
    "less": operator.lt, "less_equal": operator.le, "equal": operator.eq,
    "both": lambda x, y: bool(x and y), "either": lambda x, y: bool(x or y),
    "not": operator.not_, "where": lambda c, x, y: x if c else y,
}  # fmt: skip


@final
class DecimalOps(ScalarOps):
    """Decimal numbers, or numbers made of them."""

    def __init__(self, made: Callable[[Any], Any]) -> None:
        self._made = made

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> Any:
        """An operation on single numbers; truth is 1."""
        xs = [_decimal(x) for x in args]
        return self._made(_curve(xs[0], data) if name == "curve" else _ENTRYWISE[name](*xs))

    def number(self, c: Any) -> Any:
        """A number of as many digits."""
        return self._made(_decimal(c))

    def sin(self, x: Any) -> Any:
        """Sine."""
        return self._made(sine(_decimal(x)))

    def cos(self, x: Any) -> Any:
        """Cosine."""
        return self._made(cosine(_decimal(x)))

    def sqrt(self, x: Any) -> Any:
        """Square root."""
        return self._made(_root(_decimal(x)))


DECIMALS = DecimalOps(Decimal)
Digits.ops, Digits.number, FUNCTIONS[DecimalNumber] = (
    DECIMALS,
    DecimalNumber,
    DecimalOps(DecimalNumber),
)
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_ARITHMETIC = _COMPARISONS | {
    "add", "subtract", "multiply", "divide", "matmul", "negative", "positive", "absolute", "power",
    "square", "maximum", "minimum",
}  # fmt: skip


def agree(a: Any, b: Any) -> tuple[bool, float]:
    """Whether two arrays agree to fifty digits of their largest number, and their difference."""
    left, right = Digits.of(a), Digits.of(b)
    if not (left - right).size:
        return True, 0.0
    gap = abs(left - right).view(np.ndarray).reshape(-1).max()
    size = max(Decimal(1), *(abs(x).view(np.ndarray).reshape(-1).max() for x in (left, right)))
    return bool(gap <= size * AGREE), float(gap)
