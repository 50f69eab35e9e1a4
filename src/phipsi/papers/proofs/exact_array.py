"""Arrays of exact numbers that NumPy code can work with: the base of residues and of long decimals.

They are subclasses of ndarray, so shapes, indexing and broadcasting are NumPy's; arithmetic and
linear algebra are overridden. Functions without an exact meaning (an absolute value modulo a prime,
say) raise `NotRational`. The formulas of the dense reference and of the theorems run on them
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class NotRational(TypeError):
    """A quantity that is not a rational function of the numbers, such as a square root."""


class ExactArray(np.ndarray):
    """An ndarray with its own arithmetic; `is_exact` is how other code recognises it."""

    is_exact: ClassVar[bool] = True
    ops: ClassVar[Any]  # sine, cosine and square root of the scalars
    number: ClassVar[Callable[[Any], Any]] = staticmethod(lambda scalar: scalar)
    """A scalar as a number that computes with floats too, for arrays of objects."""
    __array_priority__ = 100.0  # pyright: ignore[reportAssignmentType]

    def scalars(self) -> list[Any]:
        """The numbers one by one, for formulas that are written for scalars."""
        raise NotImplementedError

    def objects(self) -> Array:
        """The same as a plain array of numbers, which any NumPy code can work with."""
        out = np.empty(self.size, object)
        out[:] = [type(self).number(x) for x in self.scalars()]
        return out.reshape(self.shape)

    @classmethod
    def of(cls, values: Any) -> Any:
        """The exact array of numbers: floats are taken as the rational numbers they are."""
        raise NotImplementedError

    @classmethod
    def compute(cls, ufunc: Any, inputs: list[Any]) -> Any:
        """The value of a ufunc; `NotRational` if it has no exact value."""
        raise NotImplementedError

    @classmethod
    def inverse(cls, matrix: Any) -> Any:
        """The inverse of a square matrix; LinAlgError if it is singular."""
        raise NotImplementedError

    @classmethod
    def determinant(cls, matrix: Any) -> Any:
        """The determinant of a square matrix."""
        raise NotImplementedError

    # ---- elements and assignment: everything stays of this class ---------------------------------

    def __getitem__(self, key: Any) -> Any:
        out = super().__getitem__(key)
        if isinstance(out, np.ndarray):
            return out
        single = np.empty((), self.dtype)
        single[()] = out
        return single.view(type(self))

    def __setitem__(self, key: Any, value: Any) -> None:
        exact = type(self).of(value)
        super().__setitem__(key, exact.view(np.ndarray))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    # ---- NumPy's protocols ----------------------------------------------------------------------

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        cls = type(self)
        if method == "reduce" and ufunc in (np.logical_or, np.logical_and):
            return ufunc.reduce(np.asarray(inputs[0]).astype(bool), **options)
        if method == "reduce" and ufunc is np.add:
            result = cls._added(cls.of(inputs[0]), **options)
        elif method == "__call__":
            if any(getattr(type(x), "__array_ufunc__", 0) is None for x in inputs):
                return NotImplemented
            result = cls.compute(ufunc, list(inputs))
        else:
            raise NotRational(f"{ufunc.__name__}.{method} of exact numbers")
        if out is None:
            return result
        target = out[0]
        if isinstance(target, cls):
            target[...] = result
        else:
            target[...] = np.asarray(result)
        return target

    @classmethod
    def _added(cls, values: Any, axis: Any = 0, **options: Any) -> Any:
        """Sum over an axis, or over all."""
        raise NotImplementedError

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = _FUNCTIONS.get(function)
        if own is not None:
            return own(type(self), *args, **kwargs)
        return super().__array_function__(function, types, args, kwargs)


# ---- functions of NumPy that do more than move numbers about -------------------------------------


def _inverse(cls: type[ExactArray], matrix: Any) -> Any:
    stack = cls.of(matrix)
    if stack.ndim == 2:
        return cls.inverse(stack)
    return np.stack([_inverse(cls, x) for x in stack])


def _solve(cls: type[ExactArray], matrix: Any, values: Any) -> Any:
    return _inverse(cls, matrix) @ cls.of(values)


def _determinant(cls: type[ExactArray], matrix: Any) -> Any:
    return cls.determinant(cls.of(matrix))


def _power(cls: type[ExactArray], matrix: Any, n: int) -> Any:
    out = cls.of(np.eye(len(matrix)))
    for _ in range(n):
        out = out @ matrix
    return out


def _cross(
    cls: type[ExactArray], a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1
) -> Any:
    x, y = np.moveaxis(cls.of(a), axisa, -1), np.moveaxis(cls.of(b), axisb, -1)
    parts = [x[..., i] * y[..., j] - x[..., j] * y[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.moveaxis(np.stack(parts, axis=-1), -1, axisc)


def _outer(cls: type[ExactArray], a: Any, b: Any) -> Any:
    return cls.of(a).reshape(-1, 1) * cls.of(b).reshape(1, -1)


def _diag(cls: type[ExactArray], values: Any) -> Any:
    if np.ndim(values) == 2:
        return np.diagonal(values)
    n = len(values)
    out = np.zeros_like(values, shape=(n, n))
    out[np.arange(n), np.arange(n)] = values
    return out


def _trace(cls: type[ExactArray], matrix: Any) -> Any:
    return np.diagonal(matrix).sum()


def _where(cls: type[ExactArray], condition: Any, x: Any, y: Any) -> Any:
    a, b, chosen = cls.of(x), cls.of(y), np.asarray(condition, bool)
    out = np.zeros_like(a + b, shape=np.broadcast_shapes(a.shape, b.shape, chosen.shape))
    out[...] = b
    out[chosen] = np.broadcast_to(a, out.shape)[chosen]
    return out


def _einsum(cls: type[ExactArray], subscripts: str, *operands: Any) -> Any:
    """Sums of products, index by index."""
    names, _, result = subscripts.replace(" ", "").partition("->")
    labels = names.split(",")
    letters = sorted({letter for label in labels for letter in label})
    order = [x for x in letters if x in result] + [x for x in letters if x not in result]
    order.sort(key=lambda x: result.find(x) if x in result else len(result))
    product: Any = cls.of(1)
    for label, operand in zip(labels, operands, strict=True):
        x = cls.of(operand)
        kept = "".join(dict.fromkeys(label))
        if kept != label:  # a diagonal
            sizes = dict(zip(label, x.shape, strict=True))
            index = np.indices([sizes[c] for c in kept])
            x = x[tuple(index[kept.index(c)] for c in label)]
        at = [kept.index(c) for c in order if c in kept]
        x = np.transpose(x, at)
        x = x[tuple(slice(None) if c in kept else None for c in order)]
        product = product * x
    for _ in range(len(order) - len(result)):
        product = product.sum(axis=-1)
    return product


def _array_equal(cls: type[ExactArray], a: Any, b: Any) -> bool:
    x, y = cls.of(a), cls.of(b)
    return x.shape == y.shape and bool(np.all(np.asarray(x == y)))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.linalg.inv: _inverse,
    np.linalg.solve: _solve,
    np.linalg.det: _determinant,
    np.linalg.matrix_power: _power,
    np.cross: _cross,
    np.diag: _diag,
    np.outer: _outer,
    np.trace: _trace,
    np.where: _where,
    np.einsum: _einsum,
    np.array_equal: _array_equal,
}
