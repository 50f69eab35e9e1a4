"""Tracing: a law runs once on `Traced` values, which record what is done to them.

They take Python's operators and NumPy's functions, as arrays would. Whatever needs to know a value
(an `if`, a conversion to a number, a function that looks at entries) is an error that names the
line of the law and shows how to write it.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, final

import numpy as np

from phipsi.errors import LawError
from phipsi.laws import law_operations as ops
from phipsi.laws.graph import Node, Shape

_PACKAGE = str(Path(__file__).resolve().parents[1])
_NUMPY = str(Path(np.__file__).resolve().parent)


@final
class Traced:
    """An array that is not known yet: it has a shape, and operations on it are recorded."""

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]  # == is entry by entry

    def __init__(self, node: Node) -> None:
        self.node = node

    # ---- shape

    @property
    def shape(self) -> Shape:
        """Axes, without those of the batch."""
        return self.node.shape

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """How many entries."""
        return self.node.size

    @property
    def T(self) -> Traced:
        """The transpose."""
        return Traced(ops.transpose(self.node))

    def __len__(self) -> int:
        if not self.shape:
            fail("a scalar has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Traced]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Traced:
        if _holds_traced(key):
            fail(
                "an entry is chosen by a value that is not known yet",
                "choose with where(i == 0, x[0], x[1]), or with a table: interpolate(i, …)",
            )
        numbers = np.arange(self.size).reshape(self.shape)
        try:
            return Traced(ops.pick(self.node, numbers[key]))
        except IndexError as error:
            fail(f"{error} (shape {self.shape})")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        fail(
            "entries of a traced array cannot be assigned",
            "build a new array:  np.concatenate([x[:2], [y], x[3:]])  or  np.where(mask, y, x)",
        )

    def reshape(self, *shape: Any) -> Traced:
        """The entries row by row in another shape."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        numbers = np.arange(self.size)
        try:
            return Traced(ops.pick(self.node, numbers.reshape(wanted)))
        except ValueError as error:
            fail(str(error))

    def sum(self, axis: int | None = None) -> Traced:
        """The sum of all entries or along an axis."""
        return _sum(self, axis=axis)

    def dot(self, other: Any) -> Traced:
        """The product with a vector or matrix."""
        return _matmul(self, other)

    # ---- values that are not known

    def __bool__(self) -> NoReturn:
        fail(
            "the law branches on a value that is known only when it runs",
            "write  np.where(condition, a, b)  instead of  a if condition else b;  "
            "(a < b) & (b < c)  instead of  a < b < c",
        )

    def _known_only_later(self, *_: Any) -> NoReturn:
        fail(
            "the law needs the number itself, which is known only when it runs",
            "use np.sin, np.sqrt, np.abs … instead of functions of math, and arithmetic "
            "instead of float(…) or int(…)",
        )

    __float__ = __int__ = __index__ = __complex__ = _known_only_later
    item = tolist = __array__ = _known_only_later

    # ---- operators

    def __neg__(self) -> Traced:
        return _entrywise("neg", self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return _entrywise("abs", self)

    def __invert__(self) -> Traced:
        return _entrywise("not", self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            how = method if method != "__call__" else ", ".join(f"{k}=" for k in options)
            fail(f"np.{ufunc.__name__} with {how} cannot be traced")
        if ufunc.__name__ == "matmul":
            return _matmul(*inputs)
        row = _UFUNCS.get(ufunc.__name__)
        if row is None:
            fail(f"np.{ufunc.__name__} is not among the functions of laws", _listed())
        return row(*inputs) if callable(row) else _entrywise(row, *inputs)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        traced = _FUNCTIONS.get(function)
        if traced is None:
            fail(f"np.{function.__name__} is not among the functions of laws", _listed())
        try:
            return traced(*args, **kwargs)
        except TypeError as error:
            fail(f"np.{function.__name__}: {error}")


def _operator(name: str, *, swapped: bool = False) -> Callable[[Traced, Any], Any]:
    def operate(self: Traced, other: Any) -> Any:
        pair = (other, self) if swapped else (self, other)
        return _matmul(*pair) if name == "matmul" else _entrywise(name, *pair)

    return operate


for _name, _symbol in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "power", "matmul": "matmul",
    "and": "both", "or": "either",
}.items():  # fmt: skip
    setattr(Traced, f"__{_name}__", _operator(_symbol))
    setattr(Traced, f"__r{_name}__", _operator(_symbol, swapped=True))
for _name, _symbol, _other in (
    ("lt", "less", False), ("le", "less_equal", False), ("gt", "less", True),
    ("ge", "less_equal", True), ("eq", "equal", False),
):  # fmt: skip
    setattr(Traced, f"__{_name}__", _operator(_symbol, swapped=_other))
setattr(Traced, "__ne__", lambda self, other: ~(self == other))  # noqa: B010


# ---- functions -----------------------------------------------------------------------------------


def as_node(x: Any) -> Node:
    """The node of a traced value, a number, an array, or a list of these."""
    if isinstance(x, Traced):
        return x.node
    if isinstance(x, (list, tuple)) and _holds_traced(x):
        return _stack(x).node
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        fail(f"{type(x).__name__} {_short(x)} is not a number or an array of numbers")
    if not np.isfinite(array).all():
        fail(f"the constant {_short(x)} is not finite")
    if array.ndim > 2:
        fail(f"an array with {array.ndim} axes; arrays of laws have at most two")
    return ops.constant(array)


def _entrywise(name: str, *args: Any) -> Traced:
    nodes = [as_node(x) for x in args]
    try:
        shape = np.broadcast_shapes(*(x.shape for x in nodes))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in nodes)
        fail(f"shapes {shapes} do not fit together")
    if name == "power":
        return Traced(_power(nodes[0], nodes[1], shape))
    return Traced(ops.apply(name, *(_fitted(x, shape) for x in nodes)))


def _fitted(x: Node, shape: Shape) -> Node:
    return x if not x.shape else ops.expand(x, shape)


def _power(x: Node, y: Node, shape: Shape) -> Node:
    """Powers with small whole exponents are products, right for negative numbers too."""
    if y.operation.name == "constant" and not y.shape:
        exponent = float(y.data)
        if exponent == 0.5:
            return ops.apply("sqrt", _fitted(x, shape))
        if exponent.is_integer() and abs(exponent) <= 64:
            return _whole_power(_fitted(x, shape), int(exponent))
    return ops.apply("power", _fitted(x, shape), _fitted(y, shape))


def _whole_power(x: Node, n: int) -> Node:
    if n < 0:
        return ops.apply("div", ops.constant(1.0), _whole_power(x, -n))
    if n == 0:
        return ops.expand(ops.constant(1.0), x.shape)
    half = _whole_power(x, n // 2) if n > 1 else None
    square = x if half is None else ops.apply("mul", half, half)
    return ops.apply("mul", square, x) if n > 1 and n % 2 else square


def _matmul(x: Any, y: Any) -> Traced:
    a, b = as_node(x), as_node(y)
    if not a.shape or not b.shape:
        fail("@ takes vectors and matrices; use * for scalars")
    if a.shape[-1] != b.shape[0]:
        fail(f"shapes {a.shape} and {b.shape} do not fit together in a product")
    return Traced(ops.matmul(a, b))


def _sum(x: Any, axis: int | None = None) -> Traced:
    node = as_node(x)
    if axis is None:
        return Traced(ops.total(node, None) if node.shape else node)
    if not -len(node.shape) <= axis < len(node.shape):
        fail(f"axis {axis} of an array with shape {node.shape}")
    return Traced(ops.total(node, axis % len(node.shape)))


def _stack(parts: Sequence[Any], axis: int = 0) -> Traced:
    nodes = [as_node(x) for x in parts]
    shapes = {x.shape for x in nodes}
    if len(shapes) != 1:
        fail(f"entries of shapes {sorted(shapes)} cannot be stacked")
    out = Traced(ops.join(nodes, (len(nodes), *shapes.pop())))
    if axis % out.ndim == 0:
        return out
    return out.T if out.ndim == 2 else fail("arrays of laws have at most two axes")


def _concatenate(parts: Sequence[Any], axis: int = 0) -> Traced:
    nodes = [as_node(x) for x in parts]
    if any(not x.shape for x in nodes):
        fail("scalars cannot be concatenated", "use np.stack, or [x] for an array of one entry")
    if axis % max(len(x.shape) for x in nodes):
        return _concatenate([Traced(ops.transpose(x)) for x in nodes]).T
    if len({x.shape[1:] for x in nodes}) != 1:
        fail(f"arrays of shapes {[x.shape for x in nodes]} cannot be concatenated")
    return Traced(ops.join(nodes, (sum(x.shape[0] for x in nodes), *nodes[0].shape[1:])))


def _where(condition: Any, x: Any, y: Any) -> Traced:
    return _entrywise("where", condition, x, y)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, **bounds: Any) -> Traced:
    low = bounds.pop("min", a_min)
    high = bounds.pop("max", a_max)
    if bounds:
        fail(f"clip does not take {', '.join(bounds)}")
    out = x if low is None else _entrywise("maximum", x, low)
    return out if high is None else _entrywise("minimum", out, high)


def _norm(x: Any) -> Traced:
    node = as_node(x)
    if len(node.shape) != 1:
        fail("norm takes a vector")
    return _entrywise("sqrt", Traced(ops.total(ops.apply("mul", node, node), None)))


def _cross(x: Any, y: Any) -> Traced:
    a, b = Traced(as_node(x)), Traced(as_node(y))
    if a.shape != (3,) or b.shape != (3,):
        fail(f"cross takes vectors of three entries, not {a.shape} and {b.shape}")
    return a[[1, 2, 0]] * b[[2, 0, 1]] - a[[2, 0, 1]] * b[[1, 2, 0]]  # type: ignore[operator]


def _hypot(x: Any, y: Any) -> Traced:
    return _entrywise("sqrt", _entrywise("add", _square(x), _square(y)))


def _square(x: Any) -> Traced:
    return _entrywise("mul", x, x)


def _like(value: float) -> Callable[[Any], Traced]:
    return lambda x: Traced(ops.constant(np.full(as_node(x).shape, value)))


def _extreme(name: str) -> Callable[[Any], Traced]:
    def of(x: Any) -> Traced:
        node = Traced(as_node(x)).reshape(-1)
        out = node[0]
        for i in range(1, node.size):
            out = _entrywise(name, out, node[i])
        return out

    return of


_UFUNCS: dict[str, Any] = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg",
    "power": "power", "float_power": "power", "absolute": "abs", "fabs": "abs", "sign": "sign",
    "floor": "floor", "sqrt": "sqrt", "exp": "exp", "log": "log", "sin": "sin", "cos": "cos",
    "tan": "tan", "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan",
    "arctan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "minimum": "minimum",
    "maximum": "maximum", "fmin": "minimum", "fmax": "maximum", "less": "less",
    "less_equal": "less_equal", "equal": "equal", "logical_and": "both", "logical_or": "either",
    "logical_not": "not", "bitwise_and": "both", "bitwise_or": "either", "invert": "not",
    "square": _square, "hypot": _hypot, "positive": lambda x: x,
    "greater": lambda x, y: _entrywise("less", y, x),
    "greater_equal": lambda x, y: _entrywise("less_equal", y, x),
    "not_equal": lambda x, y: ~_entrywise("equal", x, y),
    "reciprocal": lambda x: _entrywise("div", 1.0, x),
    "deg2rad": lambda x: _entrywise("mul", np.pi / 180, x),
    "radians": lambda x: _entrywise("mul", np.pi / 180, x),
    "clip": _clip,
}  # fmt: skip
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where, np.clip: _clip, np.sum: _sum, np.concatenate: _concatenate, np.stack: _stack,
    np.dot: _matmul, np.cross: _cross, np.linalg.norm: _norm, np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0), np.max: _extreme("maximum"), np.min: _extreme("minimum"),
    np.reshape: lambda x, shape: Traced(as_node(x)).reshape(shape),
    np.ravel: lambda x: Traced(as_node(x)).reshape(-1),
    np.transpose: lambda x: Traced(as_node(x)).T,
    np.outer: lambda x, y: (Traced(as_node(x)).reshape(-1, 1) * Traced(as_node(y)).reshape(1, -1)),  # type: ignore[operator]
    np.shape: lambda x: as_node(x).shape, np.ndim: lambda x: len(as_node(x).shape),
    np.size: lambda x: as_node(x).size,
}  # fmt: skip


def _listed() -> str:
    names = sorted({*_UFUNCS, *(f.__name__ for f in _FUNCTIONS)})
    return "there are " + ", ".join(names) + "; and + - * / ** @ < <= == & | ~"


def _holds_traced(x: Any) -> bool:
    if isinstance(x, Traced):
        return True
    return isinstance(x, (list, tuple)) and any(map(_holds_traced, x))


# ---- errors --------------------------------------------------------------------------------------


def fail(why: str, instead: str = "") -> NoReturn:
    """Raise a LawError that names the line of the law."""
    place = _line_of_the_law()
    raise LawError(f"{place}{why}." + (f"\n{instead[0].upper()}{instead[1:]}." if instead else ""))


def _line_of_the_law() -> str:
    """File, line and text of the innermost call that is neither here nor in NumPy."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, _NUMPY, "<__array_function__")):
            text = linecache.getline(file, frame.f_lineno).strip()
            shown = f"\n    {text}\n" if text else " "
            return f"{Path(file).name}, line {frame.f_lineno}, in {frame.f_code.co_name}:{shown}"
        frame = frame.f_back
    return ""


def _short(x: Any) -> str:
    text = " ".join(repr(x).split())
    return text if len(text) <= 60 else text[:59] + "…"
