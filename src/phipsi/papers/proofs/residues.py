"""Arrays of residues modulo a prime below 2³¹, with dual numbers x + ε x', ε² = 0.

The residues are integers in float64, a dual number is complex128 with its rate as imaginary
part: complex steps ``f(x + 1j d).imag`` are exact derivatives here, with a step of one. Products
are formed in int64, products of matrices by splitting one into halves of 16 bits, which BLAS
multiplies exactly. Sine and cosine of a residue are a random rational point of the circle, the same
whenever the residue is: θ, sin θ and cos θ are otherwise independent, and so they are here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, NoReturn, final

import numpy as np

from phipsi.core.backends import FUNCTIONS
from phipsi.core.spatial import ScalarOps
from phipsi.papers.proofs.exact_array import ExactArray, NotRational

Array = Any  # of int64, float64 or complex128

LARGEST_PRIME = 2**31
_BLOCK = 32  # smaller matrices are inverted by elimination, larger ones by halves
_HALF = 16
_FEW = 1000  # numbers; below, calls cost more than arithmetic
_SMALL = 2500  # multiplications; below, calls cost more than arithmetic
_SHORT = 63  # products of 16 and 31 bits that float64 adds without rounding: 63 · 2⁴⁷ < 2⁵³


class Residues(ExactArray):
    """Residues modulo `prime`; use `field(prime, seed)` for the class of one prime."""

    prime: ClassVar[int]
    divisor: ClassVar[Array]  # the prime as NumPy has it
    seed: ClassVar[int]

    def scalars(self) -> list[Any]:
        """The numbers one by one, for formulas that are written for scalars."""
        value, rate = self._whole()
        rates = np.zeros_like(value) if rate is None else rate
        pairs = zip(value.reshape(-1).tolist(), rates.reshape(-1).tolist(), strict=True)
        return [Residue(x, dx, type(self)) for x, dx in pairs]

    @classmethod
    def of(cls, values: Any) -> Any:
        """Residues of numbers: integers, fractions, floats as the rationals they are."""
        if isinstance(values, cls):
            return values
        if isinstance(values, (int, Fraction, float)):
            return np.array(float(residue(values, cls.prime))).view(cls)
        array: Array = np.asarray(values)
        if array.dtype.kind == "c":
            return cls._joined(*(cls.of(part)._whole()[0] for part in (array.real, array.imag)))
        if array.dtype.kind == "O":
            flat = [float(residue(x, cls.prime)) for x in array.reshape(-1)]
            return np.array(flat, float).reshape(array.shape).view(cls)
        array = array.astype(np.float64)
        if (np.abs(array) < 2.0**53).all() and (array == np.floor(array)).all():
            return np.asarray(np.mod(array, cls.prime)).view(cls)
        flat = [float(residue(x, cls.prime)) for x in array.reshape(-1).tolist()]
        return np.array(flat).reshape(array.shape).view(cls)

    def _whole(self) -> tuple[Array, Array | None]:
        """Values and rates as int64; None if there are no rates."""
        data: Array = self.view(np.ndarray)
        if data.dtype.kind == "c":
            return data.real.astype(np.int64), data.imag.astype(np.int64)
        return data.astype(np.int64), None

    @classmethod
    def _joined(cls, value: Array, rate: Array | None) -> Any:
        if rate is None:
            return np.asarray(value, np.float64).view(cls)
        shape = np.broadcast_shapes(np.shape(value), np.shape(rate))
        out = np.empty(shape, np.complex128)
        out.real, out.imag = value, rate
        return out.view(cls)

    # ---- arithmetic -----------------------------------------------------------------------------

    @classmethod
    def compute(cls, ufunc: Any, inputs: list[Any]) -> Any:
        """Arithmetic, comparison, sine and cosine."""
        name = ufunc.__name__
        exact = [cls.of(x) for x in inputs]
        if name in ("sin", "cos"):
            return cls._circle(exact[0], name)
        if name == "log":
            return cls._logarithm(exact[0])
        if name == "isfinite":
            return np.ones(exact[0].shape, bool)
        if name in ("equal", "not_equal"):
            return ufunc(*(x.view(np.ndarray) for x in exact))
        (a, da), *rest = (x._whole() for x in exact)
        if name == "negative":
            return cls._joined(cls._mod(-a), None if da is None else cls._mod(-da))
        if name == "positive":
            return exact[0]
        if name in ("power", "square"):
            return cls._raised(exact[0], 2 if name == "square" else int(np.asarray(inputs[1])))
        if name == "divide":
            return exact[0] * cls._reciprocal(exact[1])
        if name not in ("add", "subtract", "multiply", "matmul"):
            raise NotRational(f"{name} has no meaning modulo a prime")
        b, db = rest[0]
        if name in ("add", "subtract"):
            value = cls._mod(ufunc(a, b))
            if da is None and db is None:
                return cls._joined(value, None)
            return cls._joined(value, cls._mod(ufunc(_or_zero(da, a), _or_zero(db, b))))
        times = cls._matmul if name == "matmul" else cls._times
        rates = [times(x, y) for x, y in ((da, b), (a, db)) if x is not None and y is not None]
        rate = cls._mod(sum(rates[1:], rates[0])) if rates else None
        return cls._joined(times(a, b), rate)

    @classmethod
    def _mod(cls, x: Any) -> Any:
        p = cls.divisor
        return x % p if x.size < _FEW else x - (x // p) * p  # quotients of many have a fast path

    @classmethod
    def _times(cls, a: Array, b: Array) -> Any:
        return cls._mod(a * b)

    @classmethod
    def _matmul(cls, a: Array, b: Array) -> Any:
        """A B = (A₁ B) 2¹⁶ + A₀ B with the halves of A, so that every sum of products is exact.

        Small matrices in int64, large ones in float64 by BLAS, where long sums are cut in two.
        """
        is_small = a.size * b.shape[-1] < _SMALL
        if a.shape[-1] > _SHORT and not is_small:
            h, down = a.shape[-1] // 2, max(b.ndim - 2, 0)
            left, right = np.split(a, [h], axis=-1), np.split(b, [h], axis=down)
            return cls._mod(sum(map(cls._matmul, left, right)))
        high = a >> _HALF
        low = a - (high << _HALF)
        if is_small:
            return cls._mod((cls._mod(high @ b) << _HALF) + low @ b)
        right = b.astype(np.float64)
        top, rest = ((x.astype(np.float64) @ right).astype(np.int64) for x in (high, low))
        return cls._mod((cls._mod(top) << _HALF) + rest)

    @classmethod
    def _raised(cls, x: Any, exponent: int) -> Any:
        out: Any = cls.of(1)
        for _ in range(abs(exponent)):
            out = out * x
        return cls._reciprocal(out) if exponent < 0 else out

    @classmethod
    def _reciprocal(cls, x: Any) -> Any:
        value, rate = x._whole()
        if not value.all():
            raise np.linalg.LinAlgError("division by zero")
        if value.size <= 256:
            flat = [pow(y, -1, cls.prime) for y in value.reshape(-1).tolist()]
            one = np.array(flat, np.int64).reshape(value.shape)
        else:
            one, base, left = np.ones_like(value), value, cls.prime - 2
            while left:
                if left & 1:
                    one = cls._times(one, base)
                base, left = cls._times(base, base), left >> 1
        if rate is None:
            return cls._joined(one, None)
        return cls._joined(one, cls._mod(-cls._times(cls._times(one, one), rate)))

    @classmethod
    def _circle(cls, x: Any, name: str) -> Any:
        value, rate = x._whole()
        points = [_point_of_circle(v, cls.prime, cls.seed) for v in value.reshape(-1).tolist()]
        c, s = np.array(points, np.int64).reshape(-1, 2).T.reshape(2, *value.shape)
        out, slope = (s, c) if name == "sin" else (c, cls._mod(-s))
        return cls._joined(out, None if rate is None else cls._times(slope, rate))

    @classmethod
    def _logarithm(cls, x: Any) -> Any:
        """Only the rate of a logarithm is rational; its value is left out."""
        value, rate = x._whole()
        if rate is None:
            raise NotRational("a logarithm modulo a prime")
        change = cls._joined(rate, None) / cls._joined(value, None)
        return cls._joined(np.zeros_like(value), change._whole()[0])

    @classmethod
    def _added(cls, values: Any, axis: Any = 0, **options: Any) -> Any:
        value, rate = values._whole()
        total = cls._mod(np.add.reduce(value, axis=axis))
        return cls._joined(
            total, None if rate is None else cls._mod(np.add.reduce(rate, axis=axis))
        )

    # ---- linear algebra -------------------------------------------------------------------------

    @classmethod
    def inverse(cls, matrix: Any) -> Any:
        """Inverse modulo the prime; of a dual matrix A + ε A' it is A⁻¹ − ε A⁻¹ A' A⁻¹."""
        value, rate = matrix._whole()
        out = cls._joined(cls._invert(value), None)
        if rate is None:
            return out
        change = -(out @ cls._joined(rate, None) @ out)
        return cls._joined(out._whole()[0], change._whole()[0])

    @classmethod
    def _invert(cls, a: Array) -> Array:
        n = len(a)
        if n > _BLOCK:
            try:
                return cls._invert_by_halves(a)
            except np.linalg.LinAlgError:
                pass  # a leading block may be singular where the matrix is not
        return cls._eliminate(np.concatenate([a, np.eye(n, dtype=np.int64)], axis=1))[:, n:]

    @classmethod
    def _invert_by_halves(cls, a: Array) -> Array:
        h = len(a) // 2
        first = cls._invert(a[:h, :h])
        across = cls._matmul(a[h:, :h], first)
        rest = cls._invert(cls._mod(a[h:, h:] - cls._matmul(across, a[:h, h:])))
        out = np.empty_like(a)
        down = cls._matmul(first, a[:h, h:])
        out[h:, h:] = rest
        out[h:, :h] = cls._mod(-cls._matmul(rest, across))
        out[:h, h:] = cls._mod(-cls._matmul(down, rest))
        out[:h, :h] = cls._mod(first - cls._matmul(out[:h, h:], across))
        return out

    @classmethod
    def _eliminate(cls, work: Array) -> Array:
        """Gauss–Jordan elimination of the square matrix in front; LinAlgError if singular."""
        for i in range(len(work)):
            rows = np.flatnonzero(work[i:, i])
            if not len(rows):
                raise np.linalg.LinAlgError("singular matrix")
            pivot = i + int(rows[0])
            if pivot != i:
                work[[i, pivot]] = work[[pivot, i]]
            work[i] = cls._times(work[i], pow(int(work[i, i]), -1, cls.prime))
            column = work[:, i].copy()
            column[i] = 0
            work = cls._mod(work - column[:, None] * work[i][None, :])
        return work

    @classmethod
    def determinant(cls, matrix: Any) -> Any:
        """The determinant, by elimination; its rate is det A tr(A⁻¹ A')."""
        value, rate = matrix._whole()
        total, work = 1, value.copy()
        for i in range(len(work)):
            rows = np.flatnonzero(work[i:, i])
            if not len(rows):
                total = 0
                break
            pivot = i + int(rows[0])
            if pivot != i:
                work[[i, pivot]] = work[[pivot, i]]
                total = -total
            total = total * int(work[i, i]) % cls.prime
            scaled = cls._times(work[i], pow(int(work[i, i]), -1, cls.prime))
            work[i + 1 :] = cls._mod(work[i + 1 :] - work[i + 1 :, i][:, None] * scaled[None, :])
        out = cls.of(total % cls.prime)
        if rate is None:
            return out
        change = out * np.trace(cls._joined(cls._invert(value), None) @ cls._joined(rate, None))
        return cls._joined(out._whole()[0], change._whole()[0])


class Residue:
    """One residue with its rate: a plain number for the formulas of the joints."""

    __slots__ = ("kind", "rate", "value")

    def __init__(self, value: int, rate: int, kind: Any) -> None:
        self.value, self.rate, self.kind = value, rate, kind

    def _of(self, other: Any) -> Residue:
        if isinstance(other, Residue):
            return other
        return Residue(residue(other, self.kind.prime), 0, self.kind)

    def _new(self, value: int, rate: int) -> Residue:
        p = self.kind.prime
        return Residue(value % p, rate % p, self.kind)

    def __add__(self, other: Any) -> Residue:
        kind = self.kind
        p = kind.prime
        if type(other) is Residue:
            rate = self.rate + other.rate
            return Residue((self.value + other.value) % p, rate % p if rate else 0, kind)
        if not isinstance(other, _RATIONALS):
            return NotImplemented
        return Residue((self.value + residue(other, p)) % p, self.rate, kind) if other else self

    __radd__ = __add__

    def __sub__(self, other: Any) -> Residue:
        kind = self.kind
        p = kind.prime
        if type(other) is Residue:
            rate = self.rate - other.rate
            return Residue((self.value - other.value) % p, rate % p if rate else 0, kind)
        if not isinstance(other, _RATIONALS):
            return NotImplemented
        return Residue((self.value - residue(other, p)) % p, self.rate, kind) if other else self

    def __mul__(self, other: Any) -> Residue:
        kind = self.kind
        p = kind.prime
        if type(other) is Residue:
            a, b, da, db = self.value, other.value, self.rate, other.rate
            rate = (da * b + a * db) % p if da or db else 0
            return Residue(a * b % p, rate, kind)
        if not isinstance(other, _RATIONALS):
            return NotImplemented
        if other == 1:
            return self
        b, da = residue(other, p), self.rate
        return Residue(self.value * b % p, da * b % p if da else 0, kind)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Residue:
        if not isinstance(other, (Residue, *_RATIONALS)):
            return NotImplemented
        return self * self._of(other).reciprocal()

    def __rsub__(self, other: Any) -> Residue:
        return -self + other

    def __neg__(self) -> Residue:
        return self._new(-self.value, -self.rate)

    def __rtruediv__(self, other: Any) -> Residue:
        return self.reciprocal() * other

    def reciprocal(self) -> Residue:
        """1 / x."""
        if not self.value:
            raise np.linalg.LinAlgError("division by zero")
        one = pow(self.value, -1, self.kind.prime)
        return self._new(one, -one * one * self.rate)

    def sqrt(self) -> Residue:
        """No square root is rational."""
        raise NotRational("a square root modulo a prime")

    def circle(self) -> tuple[Residue, Residue]:
        """Cosine and sine."""
        c, s = _point_of_circle(self.value, self.kind.prime, self.kind.seed)
        return self._new(c, -s * self.rate), self._new(s, c * self.rate)

    def __float__(self) -> float:
        return float(self.value)

    def __complex__(self) -> complex:
        return complex(self.value, self.rate)


_RATIONALS = (int, float, Fraction)


@final
class ResidueOps(ScalarOps):
    """Residues; floats and fractions are numbers of any prime."""

    @staticmethod
    def matmul(left: Array, right: Array) -> Array:
        """The product of two blocks of residues, computed whole and not number by number."""
        numbers = (x for block in (left, right) for x in block.flat)
        kind = next((x.kind for x in numbers if type(x) is Residue), None)
        if kind is None:
            return np.matmul(left, right)
        (a, da), (b, db) = (_taken_apart(block, kind.prime) for block in (left, right))
        value = kind._matmul(a, b)
        rate = np.zeros_like(value)
        for x, y in ((da, b), (a, db)):
            if x is not None and y is not None:
                rate = kind._mod(rate + kind._matmul(x, y))
        pairs = zip(value.reshape(-1).tolist(), rate.reshape(-1).tolist(), strict=True)
        out = np.empty(value.size, object)
        out[:] = [Residue(x, dx, kind) for x, dx in pairs]
        return out.reshape(value.shape)

    def number(self, c: Any) -> Any:
        """The number itself: arithmetic with residues takes it."""
        return c

    def sin(self, x: Residue) -> Residue:
        """Sine."""
        return x.circle()[1]

    def cos(self, x: Residue) -> Residue:
        """Cosine."""
        return x.circle()[0]

    def sqrt(self, x: Residue) -> Residue:
        """No square root is rational."""
        return x.sqrt()

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> NoReturn:
        """No function of laws is rational; sines above are those of the angles of joints."""
        raise NotRational(f"{name} of a number modulo a prime")


Residues.ops = FUNCTIONS[Residue] = ResidueOps()


@cache
def field(prime: int, seed: int = 0) -> type[Residues]:
    """The residues modulo a prime; the seed chooses the points of the circle."""
    return type(
        f"Residues{prime}",
        (Residues,),
        {"prime": prime, "divisor": np.array(prime, np.int64), "seed": seed},
    )


def residue(x: Any, prime: int) -> int:
    """A rational number modulo a prime; a float is the rational number it is."""
    if type(x) is int:
        return x % prime
    if isinstance(x, (int, np.integer)):
        return int(x) % prime
    top, bottom = x.as_integer_ratio()
    if bottom % prime == 0:
        raise np.linalg.LinAlgError("division by zero")
    return top * pow(bottom, -1, prime) % prime


def _taken_apart(block: Array, prime: int) -> tuple[Array, Array | None]:
    """Values and rates of an array of residues and rational numbers; None if there are no rates."""
    numbers = block.reshape(-1).tolist()
    values = [x.value if type(x) is Residue else residue(x, prime) for x in numbers]
    rates = [x.rate if type(x) is Residue else 0 for x in numbers]
    parts = [np.array(part, np.int64).reshape(block.shape) for part in (values, rates)]
    return parts[0], parts[1] if any(rates) else None


def _or_zero(rate: Array | None, like: Array) -> Array:
    return np.zeros_like(like) if rate is None else rate


@cache
def _point_of_circle(angle: int, prime: int, seed: int) -> tuple[int, int]:
    """(cos, sin) = ((1 − t²), 2 t) / (1 + t²) for a t that is drawn for this angle."""
    tried = 0
    while True:
        text = f"{seed}:{prime}:{angle}:{tried}".encode()
        t = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest()) % prime
        below = (1 + t * t) % prime
        if below:
            inverse = pow(below, -1, prime)
            return (1 - t * t) * inverse % prime, 2 * t * inverse % prime
        tried += 1


# ---- primes --------------------------------------------------------------------------------------


def is_prime(n: int) -> bool:
    """Whether n is prime; Miller and Rabin with bases that decide every n below 3 · 10⁹."""
    if n < 2:
        return False
    for small in (2, 3, 5, 7, 11, 13):
        if n % small == 0:
            return n == small
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def random_prime(rng: np.random.Generator) -> int:
    """A prime between 2³⁰ and 2³¹."""
    while True:
        n = int(rng.integers(2**30, LARGEST_PRIME)) | 1
        if is_prime(n):
            return n
