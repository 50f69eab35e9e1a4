"""The operations of laws: a row each, with its value on arrays and its derivatives.

Entrywise operations take arguments of one shape, or scalars. Truth is 1 and falsehood is 0. Code
for lanes is in `native/kernel/entry_code.py`; a row without code there fails its test.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from phipsi.core.arrays import dependence
from phipsi.core.arrays.graph import (
    Adjoint,
    Array,
    ArrayOperation,
    Node,
    Pattern,
    Shape,
    Tangent,
    in_order,
)
from phipsi.core.spatial import ON_ARRAYS, curve_value

OPERATIONS: dict[str, ArrayOperation] = {}
_Slopes = tuple[Node | None, ...]
_Partials = (
    Callable[[Node, Node], _Slopes]
    | Callable[[Node, Node, Node], _Slopes]
    | Callable[[Node, Node, Node, Node], _Slopes]
)
_SHORT = 64  # entries, for which lists are faster than arrays


def _row(
    name: str,
    shape: Callable[..., Shape],
    array: Callable[..., Array],
    text: str,
    partials: _Partials | None = None,
    jvp: Tangent | None = None,
    vjp: Adjoint | None = None,
    pattern: Pattern | None = None,
) -> None:
    OPERATIONS[name] = ArrayOperation(name, shape, array, text, partials, jvp, vjp, pattern)


# ---- building nodes ------------------------------------------------------------------------------


def apply(name: str, *args: Node, data: Any = None) -> Node:
    """A node of an operation by name; constants are computed at once."""
    operation = OPERATIONS[name]
    for x in args:
        if x.operation.name != "constant":
            return Node(operation, args, data)
    if not args or not operation.is_entrywise:
        return Node(operation, args, data)
    with np.errstate(all="ignore"):
        return constant(operation.array(*(x.data for x in args), data=data))


def substituted(results: Sequence[Node], values: Mapping[Node, Node]) -> list[Node]:
    """The nodes with others in place of those that `values` names; constants are computed."""
    known = dict(values)
    for x in in_order(results):
        if x in known:
            continue
        args = [known[y] for y in x.args]
        if args == list(x.args):
            known[x] = x
        elif x.operation.is_entrywise:
            known[x] = apply(x.operation.name, *args, data=x.data)
        else:
            known[x] = Node(x.operation, args, x.data)
    return [known[x] for x in results]


def constant(values: Any) -> Node:
    """Known numbers."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return Node(OPERATIONS["constant"], (), array)


def filled(nodes: Iterable[Node | None], shapes: Iterable[Shape]) -> list[Node]:
    """Nodes, with zeros of these shapes where there is none."""
    pairs = zip(nodes, shapes, strict=True)
    return [constant(np.zeros(shape)) if x is None else x for x, shape in pairs]


def input(name: str, shape: Shape) -> Node:
    """A quantity that is given when the law runs."""
    return Node(OPERATIONS["input"], (), (name, shape))


def gather(x: Node, places: Any) -> Node:
    """The entries of x at `places`, numbers of its entries row by row, in their shape."""
    places = np.array(places, dtype=np.int64)
    if places.shape == x.shape and _is_in_order(places):
        return x
    if x.operation.name == "constant":
        return constant(x.data.ravel()[places])
    if x.operation.name == "pick":
        return gather(x.args[0], x.data.ravel()[places])
    if x.operation.name == "join":
        parts = _runs_of_join(x, places.ravel())
        if parts is not None:
            return concat(parts, places.shape)
    places.setflags(write=False)
    return Node(OPERATIONS["pick"], (x,), places)


def _is_in_order(places: Array) -> bool:
    """Whether places are 0, 1, 2, … row by row."""
    n = places.size
    if n and (places.item(0) or places.item(n - 1) != n - 1):
        return False
    return n < 3 or bool((places.ravel() == np.arange(n)).all())


def _runs_of_join(x: Node, places: Array) -> list[Node] | None:
    """Places in a join as stretches of its parts, if these are not many."""
    n, starts = len(places), list(accumulate((y.size for y in x.args), initial=0))
    if n <= _SHORT:
        part = [bisect_right(starts, place) - 1 for place in places.tolist()]
    else:
        part = (np.searchsorted(starts, places, side="right") - 1).tolist()
    ends = [*(i for i in range(1, n) if part[i] != part[i - 1]), n]
    if not n or len(ends) > 2 * len(x.args):
        return None
    runs = zip([0, *ends[:-1]], ends, strict=True)
    return [gather(x.args[part[a]], places[a:b] - starts[part[a]]) for a, b in runs]


def expand(x: Node, shape: Shape) -> Node:
    """x repeated along new axes and axes of length one, as NumPy does it."""
    if x.shape == shape:
        return x
    return gather(x, np.broadcast_to(np.arange(x.size).reshape(x.shape), shape))


def scatter_add(x: Node, places: Array, shape: Shape) -> Node:
    """Zeros of a shape, with the entries of x added at `places`."""
    order = np.argsort(places, axis=None)
    if np.array_equal(places.ravel()[order], np.arange(int(np.prod(shape, dtype=int)))):
        return gather(x, order.reshape(shape))  # every place once
    return Node(OPERATIONS["scatter"], (x,), (places, shape))


def concat(parts: Iterable[Node], shape: Shape) -> Node:
    """The entries of several nodes one after the other, in a shape."""
    flat = (y for x in parts for y in (x.args if x.operation.name == "join" else (x,)))
    parts = tuple(x for x in flat if x.size) or (constant(np.zeros(shape)),)
    if len(parts) == 1:
        return gather(parts[0], np.arange(parts[0].size).reshape(shape))
    if all(x.operation.name == "constant" for x in parts):
        return constant(np.concatenate([x.data.ravel() for x in parts]).reshape(shape))
    return Node(OPERATIONS["join"], parts, shape)


def transpose(x: Node) -> Node:
    """Rows and columns exchanged."""
    return gather(x, np.arange(x.size).reshape(x.shape).T)


def power(x: Node, y: Node) -> Node:
    """x^y; small whole exponents are products, right for negative numbers too."""
    if y.operation.name == "constant" and not y.shape:
        exponent = float(y.data)
        if exponent == 0.5:
            return apply("sqrt", x)
        if exponent.is_integer() and abs(exponent) <= 64:
            return _whole_power(x, int(exponent))
    return apply("power", x, y)


def _whole_power(x: Node, n: int) -> Node:
    if n < 0:
        return apply("div", constant(1.0), _whole_power(x, -n))
    if n == 0:
        return expand(constant(1.0), x.shape)
    half = _whole_power(x, n // 2) if n > 1 else None
    square = x if half is None else apply("mul", half, half)
    return apply("mul", square, x) if n > 1 and n % 2 else square


# ---- entrywise -----------------------------------------------------------------------------------


def _entrywise(*args: Node, data: Any) -> Shape:
    shape: Shape = ()
    for x in args:
        if x.shape and x.shape != shape:
            assert not shape, f"shapes {[y.shape for y in args]} of one entrywise operation"
            shape = x.shape
    return shape


@cache
def _number(x: float) -> Node:
    return constant(x)


def _plus(x: Node, y: Node) -> Node:
    return apply("add", x, y)


def _times(x: Node, y: Node) -> Node:
    return apply("mul", x, y)


def _over(x: Node, y: Node) -> Node:
    return apply("div", x, y)


def _minus(x: Node) -> Node:
    return apply("neg", x)


def _of(function: Callable[..., Any]) -> Callable[..., Array]:
    """A NumPy function as the array form of an operation, which also gets data."""

    def call(*values: Array, data: Any) -> Array:
        return function(*values)

    return call


def _entries(name: str, text: str, partials: _Partials) -> None:
    _row(name, _entrywise, _of(ON_ARRAYS[name]), text, partials=partials)


def _flat(*_: Node) -> tuple[Node | None, ...]:
    """The derivatives of a function of steps: none where there is one."""
    return (None,) * (len(_) - 1)


ONE, HALF, TWO, ZERO = (
    lambda: _number(1.0), lambda: _number(0.5), lambda: _number(2.0), lambda: _number(0.0),
)  # fmt: skip


# Partials get the node itself first, then its arguments.
_entries("add", "{0} + {1}", lambda f, x, y: (ONE(), ONE()))
_entries("sub", "{0} - {1}", lambda f, x, y: (ONE(), _number(-1.0)))
_entries("mul", "{0} * {1}", lambda f, x, y: (y, x))
_entries("div", "{0} / {1}", lambda f, x, y: (_over(ONE(), y), _minus(_over(f, y))))
_entries("neg", "-{0}", lambda f, x: (_number(-1.0),))
_entries("abs", "abs({0})", lambda f, x: (apply("sign", x),))
_entries("sign", "sign({0})", _flat)
_entries("floor", "floor({0})", _flat)
_entries("sqrt", "sqrt({0})", lambda f, x: (_over(HALF(), f),))
_entries("exp", "exp({0})", lambda f, x: (f,))
_entries("log", "log({0})", lambda f, x: (_over(ONE(), x),))
_entries("sin", "sin({0})", lambda f, x: (apply("cos", x),))
_entries("cos", "cos({0})", lambda f, x: (_minus(apply("sin", x)),))
_entries("tan", "tan({0})", lambda f, x: (_plus(ONE(), _times(f, f)),))
_entries("arctan", "arctan({0})",
         lambda f, x: (_over(ONE(), _plus(ONE(), _times(x, x))),))  # fmt: skip
_entries("arcsin", "arcsin({0})", lambda f, x: (_over(ONE(), _cathetus(x)),))
_entries("arccos", "arccos({0})", lambda f, x: (_over(_number(-1.0), _cathetus(x)),))
_entries("arctan2", "arctan2({0}, {1})", lambda f, y, x: _arctan2(y, x))
_entries("sinh", "sinh({0})", lambda f, x: (apply("cosh", x),))
_entries("cosh", "cosh({0})", lambda f, x: (apply("sinh", x),))
_entries("tanh", "tanh({0})", lambda f, x: (apply("sub", ONE(), _times(f, f)),))
_entries("power", "{0} ** {1}", lambda f, x, y: _power(f, x, y))
_entries("floor_divide", "{0} // {1}", _flat)
_entries("remainder", "{0} % {1}",
         lambda f, x, y: (ONE(), _minus(apply("floor_divide", x, y))))  # fmt: skip
_entries("minimum", "minimum({0}, {1})", lambda f, x, y: _choice("less_equal", x, y))
_entries("maximum", "maximum({0}, {1})", lambda f, x, y: _choice("less_equal", y, x))
for _name, _text in {
    "less": "{0} < {1}", "less_equal": "{0} <= {1}", "equal": "{0} == {1}",
    "both": "({0}) & ({1})", "either": "({0}) | ({1})", "not": "~({0})",
}.items():  # fmt: skip
    _entries(_name, _text, _flat)
_entries("fma", "{0} * {1} + {2}", lambda f, x, y, z: (y, x, ONE()))
_entries("where", "where({0}, {1}, {2})",
         lambda f, c, x, y: (None, apply("where", c, ONE(), ZERO()),
                             apply("where", c, ZERO(), ONE())))  # fmt: skip


def _cathetus(x: Node) -> Node:
    """√(1 − x²), as (1 − x)(1 + x) near 1."""
    return apply("sqrt", _times(apply("sub", ONE(), x), _plus(ONE(), x)))


def _arctan2(y: Node, x: Node) -> tuple[Node, Node]:
    square = _plus(_times(x, x), _times(y, y))
    return _over(x, square), _minus(_over(y, square))


def _power(f: Node, x: Node, y: Node) -> tuple[Node, Node | None]:
    by_x = _times(y, apply("power", x, apply("sub", y, ONE())))
    if y.operation.name == "constant":
        return by_x, None
    # where x = 0 and y > 0 the power does not change with y, though log x is not finite
    safe = apply("where", apply("equal", x, ZERO()), ONE(), x)
    return by_x, _times(f, apply("log", safe))


def _choice(name: str, x: Node, y: Node) -> tuple[Node, Node]:
    first = apply(name, x, y)
    return first, apply("sub", ONE(), first)


# ---- curves --------------------------------------------------------------------------------------


def curve(x: Node, knots: Array, coefficients: Array) -> Node:
    """A piecewise polynomial: Σ c_j (x − knot)^j between knots, the first or last piece outside."""
    return Node(OPERATIONS["curve"], (x,), (knots, coefficients))


def _curve(x: Array, *, data: Any) -> Array:
    return curve_value(x, data)


def _slope_of_curve(f: Node, x: Node) -> tuple[Node | None]:
    knots, coefficients = f.data
    if coefficients.shape[1] == 1:
        return (None,)
    later: Array = coefficients[:, 1:]
    count: int = later.shape[1]
    return (curve(x, knots, later * np.arange(1, 1 + count)),)


_row("curve", _entrywise, _curve, "curve({0})", partials=_slope_of_curve)

# ---- moving entries, sums, products --------------------------------------------------------------


def _flattened(x: Array, shape: Shape) -> Array:
    """Batch axes, then one for all entries."""
    if len(shape) == 1:
        return x
    batch = x.shape[: x.ndim - len(shape)]
    return x.reshape(*batch, math.prod(x.shape[len(batch) :]))


def _pick(x: Array, *, data: Any, shapes: tuple[Shape, ...]) -> Array:
    return _flattened(x, shapes[0]).take(data, axis=-1)


def _scatter(x: Array, *, data: Any, shapes: tuple[Shape, ...]) -> Array:
    places, shape = data
    flat = _flattened(x, shapes[0])
    out = np.zeros((*flat.shape[:-1], int(np.prod(shape, dtype=int))))
    for i, place in enumerate(places.ravel()):  # places may repeat
        out[..., place] += flat[..., i]
    return out.reshape((*flat.shape[:-1], *shape))


def _join(*parts: Array, data: Any, shapes: tuple[Shape, ...]) -> Array:
    flat = [_flattened(x, shape) for x, shape in zip(parts, shapes, strict=True)]
    batches = {x.shape[:-1] for x in flat}
    batch = next(iter(batches)) if len(batches) == 1 else np.broadcast_shapes(*batches)
    if len(batches) > 1:
        flat = [np.broadcast_to(x, (*batch, x.shape[-1])) for x in flat]
    return np.concatenate(flat, axis=-1).reshape((*batch, *data))


def _matmul(x: Array, y: Array, *, data: Any, shapes: tuple[Shape, ...]) -> Array:
    # in one layout: NumPy has other loops, with other sums, for others, which depend on the batch
    x, y = np.asarray(x, order="C"), np.asarray(y, order="C")
    left, right = (len(shape) for shape in shapes)
    x = x[..., None, :] if left == 1 else x
    y = y[..., None] if right == 1 else y
    out = np.matmul(x, y)
    out = out[..., 0] if right == 1 else out
    return (out[..., 0] if right == 1 else out[..., 0, :]) if left == 1 else out


def _join_vjp(f: Node, bar: Node) -> Iterable[tuple[int, Node]]:
    start = 0
    for i, x in enumerate(f.args):
        yield i, gather(bar, start + np.arange(x.size).reshape(x.shape))
        start += x.size


def _matmul_vjp(f: Node, bar: Node) -> Iterable[tuple[int, Node]]:
    x, y = f.args
    rows, between = x.shape if len(x.shape) == 2 else (1, *x.shape)
    columns = y.shape[1] if len(y.shape) == 2 else 1

    def reshaped(node: Node, shape: Shape) -> Node:
        return gather(node, np.arange(node.size).reshape(shape))

    X, Y = reshaped(x, (rows, between)), reshaped(y, (between, columns))
    out = reshaped(bar, (rows, columns))
    yield 0, reshaped(matmul(out, transpose(Y)), x.shape)
    yield 1, reshaped(matmul(transpose(X), out), y.shape)


def _matmul_shape(x: Node, y: Node, *, data: Any) -> Shape:
    assert x.shape[-1] == y.shape[0], f"{x.shape} @ {y.shape}"
    return (*x.shape[:-1], *y.shape[1:])


def matmul(x: Node, y: Node) -> Node:
    """The product of matrices and vectors."""
    return Node(OPERATIONS["matmul"], (x, y))


def reduce_sum(x: Node, axis: int | None) -> Node:
    """The sum along an axis, or of all entries."""
    return Node(OPERATIONS["total"], (x,), axis)


def _total_shape(x: Node, *, data: Any) -> Shape:
    return () if data is None else (*x.shape[:data], *x.shape[data + 1 :])


def _total(x: Array, *, data: Any, shapes: tuple[Shape, ...]) -> Array:
    rank = len(shapes[0])
    axes = tuple(range(-rank, 0)) if data is None else (data - rank,)
    return np.asarray(x, order="C").sum(axis=axes)


def _total_vjp(f: Node, bar: Node) -> Iterable[tuple[int, Node]]:
    (x,) = f.args
    if f.data is None:
        return [(0, expand(bar, x.shape))]
    numbers = np.expand_dims(np.arange(f.size).reshape(f.shape), f.data)
    return [(0, gather(bar, np.broadcast_to(numbers, x.shape)))]


def _linear_jvp(f: Node, tangents: tuple[Node | None, ...]) -> Node | None:
    """Of an operation that is linear in its arguments together."""
    if all(dx is None for dx in tangents):
        return None
    zeros = [constant(np.zeros(x.shape)) for x in f.args]
    args = [z if dx is None else dx for z, dx in zip(zeros, tangents, strict=True)]
    return concat(args, f.data) if f.operation.name == "join" else Node(f.operation, args, f.data)


def _matmul_jvp(f: Node, tangents: tuple[Node | None, ...]) -> Node | None:
    (x, y), (dx, dy) = f.args, tangents
    terms = [matmul(dx, y)] if dx is not None else []
    terms += [matmul(x, dy)] if dy is not None else []
    return None if not terms else terms[0] if len(terms) == 1 else _plus(*terms)


def _input_value(*, data: Any) -> Array:
    raise AssertionError(f"{data[0]} is given, not computed")


def _none(f: Node, tangents: tuple[Node | None, ...]) -> None:
    return None


def _data(*_: Node, data: Any) -> Any:
    return data


def _shape_of_data(*_: Node, data: Any) -> Shape:
    return data.shape


def _shape_beside_data(*_: Node, data: Any) -> Shape:
    return data[1]


_row(
    "constant",
    _shape_of_data,
    _data,
    "{data}",
    pattern=dependence.nothing,
    jvp=_none,
    vjp=lambda f, bar: (),
)
_row(
    "input",
    _shape_beside_data,
    _input_value,
    "{data}",
    pattern=dependence.nothing,
    jvp=_none,
    vjp=lambda f, bar: (),
)
_row(
    "pick",
    _shape_of_data,
    _pick,
    "{0}[…]",
    pattern=dependence.picked,
    jvp=_linear_jvp,
    vjp=lambda f, bar: [(0, scatter_add(bar, f.data, f.args[0].shape))],
)
_row(
    "scatter",
    _shape_beside_data,
    _scatter,
    "scatter({0})",
    pattern=dependence.scattered,
    jvp=_linear_jvp,
    vjp=lambda f, bar: [(0, gather(bar, f.data[0]))],
)
_row(
    "join",
    _data,
    _join,
    "join({0}, …)",
    pattern=dependence.joined,
    jvp=_linear_jvp,
    vjp=_join_vjp,
)
_row(
    "total",
    _total_shape,
    _total,
    "sum({0})",
    pattern=dependence.summed,
    jvp=_linear_jvp,
    vjp=_total_vjp,
)
_row(
    "matmul",
    _matmul_shape,
    _matmul,
    "{0} @ {1}",
    pattern=dependence.multiplied,
    jvp=_matmul_jvp,
    vjp=_matmul_vjp,
)
