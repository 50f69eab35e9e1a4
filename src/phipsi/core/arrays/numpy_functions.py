"""NumPy's functions on traced values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.graph import Array, Node
from phipsi.core.arrays.law_errors import fail
from phipsi.core.arrays.trace import (
    FUNCTIONS,
    METHODS,
    REARRANGING,
    UFUNCS,
    Tracer,
    as_node,
    check_dtype,
    contains_tracer,
    entrywise,
    is_truth,
)
from phipsi.core.model import as_floats, is_list
from phipsi.errors import LawError, one_of


def _matmul(x: Any, y: Any) -> Tracer:
    a, b = Tracer(as_node(x)), Tracer(as_node(y))
    if not a.shape or not b.shape:
        fail("@ takes vectors and matrices; use * for scalars")
    if is_truth(a.node) and is_truth(b.node):
        fail("comparisons cannot be multiplied as matrices", "make numbers of one:  1.0 * (x > 0)")
    if a.shape[-1] != b.shape[-2:][0]:
        fail(f"shapes {a.shape} and {b.shape} do not fit together in a product")
    if max(a.ndim, b.ndim) <= 2:
        return Tracer(ops.matmul(a.node, b.node))
    inner = [z.shape[-2:] for z in (a, b)]
    try:
        outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        fail(f"shapes {a.shape} and {b.shape} do not fit together in a product")
    left, right = (
        _broadcast(z, (*outer, *last)) if z.ndim > 1 else z
        for z, last in zip((a, b), inner, strict=True)
    )
    products = [
        ops.matmul(*((z[i] if z.ndim > 2 else z).node for z in (left, right)))
        for i in np.ndindex(outer)
    ]
    return Tracer(ops.concat(products, (*outer, *products[0].shape)))


def _broadcast(x: Any, shape: Any) -> Tracer:
    return Tracer(ops.expand(as_node(x), tuple(shape)))


def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Tracer, ...]:
    shape = np.broadcast_shapes(*(as_node(x).shape for x in arrays))
    return tuple(_broadcast(x, shape) for x in arrays)


def _axes(x: Node, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """Which axes are meant, the last first."""
    if axis is None:
        return tuple(reversed(range(len(x.shape))))
    wanted = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    for one in wanted:
        if not -len(x.shape) <= one < len(x.shape):
            fail(f"axis {one} of an array with shape {x.shape}")
    return tuple(sorted({int(one) % len(x.shape) for one in wanted}, reverse=True))


def _sum(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tracer:
    node = as_node(x)
    axes = _axes(node, axis)
    shape = tuple(1 if i in axes else n for i, n in enumerate(node.shape))
    if len(axes) == len(node.shape) > 1:
        node, axes = ops.reduce_sum(node, None), ()
    for one in axes:
        node = ops.reduce_sum(node, one)
    return Tracer(node).reshape(shape) if keepdims else Tracer(node)


def _mean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tracer:
    total = _sum(x, axis, keepdims=keepdims)
    return entrywise("div", total, float(max(as_node(x).size // max(total.size, 1), 1)))


def _stack(parts: Sequence[Any], axis: int = 0) -> Tracer:
    nodes = [as_node(x) for x in parts]
    shapes = {x.shape for x in nodes}
    if len(shapes) != 1:
        fail(f"entries of shapes {sorted(shapes)} cannot be stacked")
    out = Tracer(ops.concat(nodes, (len(nodes), *shapes.pop())))
    return out if axis % out.ndim == 0 else Tracer(out.rearranged(_moved(0, axis)).node)


def _moved(start: int, to: int) -> Callable[[Any], Any]:
    return lambda numbers: np.moveaxis(numbers, start, to)


def _concatenate(parts: Sequence[Any], axis: int = 0) -> Tracer:
    wholes = [Tracer(as_node(x)) for x in parts]
    if any(not x.shape for x in wholes):
        fail("scalars cannot be concatenated", "use np.stack, or [x] for an array of one entry")
    first = [x.rearranged(_moved(axis, 0)) for x in wholes]
    if len({x.shape[1:] for x in first}) != 1:
        fail(f"arrays of shapes {[x.shape for x in wholes]} cannot be concatenated")
    length = sum(x.shape[0] for x in first)
    out = Tracer(ops.concat([x.node for x in first], (length, *first[0].shape[1:])))
    return Tracer(out.rearranged(_moved(0, axis)).node)


def _where(condition: Any, x: Any, y: Any) -> Tracer:
    return entrywise("where", condition, x, y)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, **bounds: Any) -> Tracer:
    low = bounds.pop("min", a_min)
    high = bounds.pop("max", a_max)
    if bounds:
        fail(f"np.clip has no arguments {', '.join(bounds)}")
    out = x if low is None else entrywise("maximum", x, low)
    return out if high is None else entrywise("minimum", out, high)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tracer:
    if ord not in (None, 2):
        fail(f"np.linalg.norm with ord={ord!r} cannot be traced", "use np.abs, np.sum, np.max")
    if axis is None and len(as_node(x).shape) != 1:
        fail("norm takes a vector, or an axis along which vectors lie")
    return entrywise("sqrt", _sum(_square(x), axis, keepdims=keepdims))


def _cross(x: Any, y: Any) -> Tracer:
    a, b = Tracer(as_node(x)), Tracer(as_node(y))
    if a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
        fail(f"cross takes vectors of three entries, not {a.shape} and {b.shape}")
    ahead, behind = [1, 2, 0], [2, 0, 1]
    return a[..., ahead] * b[..., behind] - a[..., behind] * b[..., ahead]  # type: ignore[operator]


def _einsum(spec: str, *operands: Any) -> Tracer:
    """Products over all letters, then sums over those that are not in the result."""
    left, arrow, result = spec.replace(" ", "").replace("...", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(operands) or any(len(set(x)) != len(x) for x in terms):
        fail(
            f"einsum({spec!r}) cannot be traced",
            "write out the letters of the result, and no letter twice in one operand",
        )
    letters = "".join(dict.fromkeys("".join(terms)))
    lengths: dict[str, int] = {}
    out: Any = 1.0
    for term, x in zip(terms, operands, strict=True):
        node = as_node(x)
        if len(node.shape) != len(term):
            fail(f"einsum({spec!r}): {term!r} for an array of shape {node.shape}")
        for letter, length in zip(term, node.shape, strict=True):
            if lengths.setdefault(letter, length) != length:
                fail(f"einsum({spec!r}): letter {letter!r} has lengths {length} and "
                     f"{lengths[letter]}")  # fmt: skip
        order = [term.index(c) for c in letters if c in term]
        shape = [node.shape[term.index(c)] if c in term else 1 for c in letters]
        out = entrywise("mul", out, Tracer(node).transpose(order).reshape(shape))
    out = _sum(out, tuple(i for i, c in enumerate(letters) if c not in result))
    kept = [c for c in letters if c in result]
    return out.transpose([kept.index(c) for c in result]) if len(kept) > 1 else out


def _add_reduceat(x: Any, starts: Any, axis: int = 0) -> Tracer:
    """Sums of the stretches between starts."""
    rows = Tracer(as_node(x)).rearranged(_moved(axis, 0))
    ends = [*starts[1:], len(rows)]
    sums = [rows[a : max(b, a + 1)].sum(0) for a, b in zip(starts, ends, strict=True)]
    return Tracer(_stack(sums).rearranged(_moved(0, axis)).node)


def _add_at(target: Tracer, key: Any, value: Any) -> None:
    """Add entries at places, which may repeat."""
    numbers: Array = np.arange(target.size).reshape(target.shape)[key]
    value = _broadcast(value, np.shape(numbers))
    sums = ops.scatter_add(value.node, numbers, target.shape)
    target.become(ops.apply("add", target.node, sums))


def _truths(name: str, symbol: str) -> Callable[..., Tracer]:
    """&, | and ~, which NumPy has for comparisons only."""

    def of(*args: Any) -> Tracer:
        for x in map(as_node, args):
            known = x.operation.name == "constant" and np.isin(x.data, (0.0, 1.0)).all()
            if not known and not is_truth(x):
                fail(f"{symbol} takes comparisons", "use np.logical_and(x, y), or  x != 0")
        return entrywise(name, *args)

    return of


def _dot(x: Any, y: Any) -> Tracer:
    if max(len(as_node(z).shape) for z in (x, y)) > 2:
        fail("np.dot of arrays with more than two axes", "use @")
    return _matmul(x, y)


def _inner(x: Any, y: Any) -> Tracer:
    if any(len(as_node(z).shape) != 1 for z in (x, y)):
        fail("np.inner takes two vectors", "use x @ y.T")
    return _matmul(x, y)


def _hypot(x: Any, y: Any) -> Tracer:
    """The root of the sum of squares, which neither overflow nor vanish: both are scaled first."""
    largest: Any = entrywise("maximum", entrywise("abs", x), entrywise("abs", y))
    scale = _where(largest > 2.0**500, 2.0**-600, _where(largest < 2.0**-500, 2.0**600, 1.0))
    squares = [_square(entrywise("mul", z, scale)) for z in (x, y)]
    return entrywise("div", entrywise("sqrt", entrywise("add", *squares)), scale)


def _but_not_nan(name: str) -> Callable[[Any, Any], Tracer]:
    """The smaller or larger number; the other one where one is NaN."""

    def of(x: Any, y: Any) -> Tracer:
        chosen = _where(entrywise("equal", y, y), entrywise(name, x, y), x)
        return _where(entrywise("equal", x, x), chosen, y)

    return of


def _square(x: Any) -> Tracer:
    return entrywise("mul", x, x)


def _like(value: float | None) -> Callable[..., Tracer]:
    def full(x: Any, *rest: Any, dtype: Any = None, shape: Any = None) -> Tracer:
        number, *kind = rest if value is None else (value, *rest)
        check_dtype(kind[0] if kind else dtype)
        return _broadcast(number, as_node(x).shape if shape is None else shape)

    return full


def _extreme(name: str) -> Callable[..., Tracer]:
    def of(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tracer:
        if keepdims:
            return of(x, axis).rearranged(lambda numbers: np.expand_dims(numbers, axis))
        whole = Tracer(as_node(x))
        rows = whole.reshape(-1) if axis is None else whole.rearranged(_moved(axis, 0))
        out = rows[0]
        for i in range(1, len(rows)):
            out = entrywise(name, out, rows[i])
        return out

    return of


def _by_entries(function: Callable[..., Any]) -> Callable[..., Tracer]:
    """A function that moves, adds and multiplies entries, run by NumPy on arrays of objects."""

    def of(*args: Any, **options: Any) -> Tracer:
        try:
            return Tracer(as_node(function(*map(_objects, args), **options)))
        except (IndexError, ValueError) as error:
            fail(f"np.{function.__name__}: {error}")

    return of


def _objects(x: Any) -> Any:
    if is_list(x):
        kind: type[list[Any] | tuple[Any, ...]] = type(x)
        return kind(map(_objects, x))
    return np.asarray(x) if isinstance(x, Tracer) else x


def _method(row: Any) -> Callable[[Tracer], Any]:
    return lambda x: row(x) if callable(row) else entrywise(row, x)


def _fill_diagonal(x: Any, value: Any, wrap: bool = False) -> None:
    if x.ndim != 2 or wrap:
        fail("np.fill_diagonal takes a matrix")
    i = np.arange(min(x.shape))
    x[i, i] = value


def _select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0.0) -> Tracer:
    out: Any = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        out = _where(condition, choice, out)
    return Tracer(as_node(out))


def _rint(x: Any) -> Tracer:
    """The nearest integer; of two the even one."""
    below: Any = entrywise("floor", x)
    rest: Any = entrywise("sub", x, below)
    half: Any = entrywise("floor", 0.5 * below)
    odd = below - 2.0 * half
    whole: Any = _where(rest == 0.5, below + odd, entrywise("add", below, rest > 0.5))
    return _where(whole == 0.0, entrywise("mul", x, 0.0), whole)  # zero has the sign of x


def _interp(x: Any, xp: Any, fp: Any) -> Array:
    return table(x, xp, fp)


def table(x: ArrayLike, xs: ArrayLike, ys: ArrayLike, kind: str = "linear") -> Array:
    """Interpolate a lookup table: a curve through the points (xs, ys), evaluated at x.

    Before the first and after the last point, the curve is constant.

    Parameters
    ----------
    x : array_like
        Where to evaluate the curve, of any shape.
    xs : array_like, shape (n,)
        Increasing places, n ≥ 2.
    ys : array_like, shape (n,)
        Values at these places.
    kind : {"linear", "cubic"}, optional
        "cubic" has continuous slopes and is monotone between monotone points. Default: "linear".

    Returns
    -------
    ndarray
        The values, of the shape of `x`.

    Notes
    -----
    **Cost:** O(n).

    References
    ----------
    "cubic": Fritsch and Carlson 1980, SIAM J. Numer. Anal. 17.

    Examples
    --------
    >>> import phipsi as pp
    >>> float(pp.laws.table(0.5, [0, 1, 3], [2, 4, 0]))
    3.0
    """
    if not contains_tracer(x):
        x = as_floats("x", x)
    try:
        knots, rows = _pieces(xs, ys, kind)
    except ValueError as error:
        fail(str(error))
    # an infinite number times the slope zero beyond the ends would be NaN
    inside: Any = (_clip if contains_tracer(x) else np.clip)(x, knots[1], knots[-1])
    out = ops.curve(as_node(inside), knots, rows)
    if contains_tracer(x):
        return Tracer(out)  # type: ignore[return-value]
    return out.operation.array(np.asarray(inside, dtype=np.float64), data=out.data)


def _pieces(xs: Any, ys: Any, kind: str) -> tuple[Array, Array]:
    """Knots and coefficients of the curve through points; constant before and behind them."""
    xs, ys = (as_floats(name, z) for name, z in (("xs", xs), ("ys", ys)))
    if xs.ndim != 1 or xs.shape != ys.shape or len(xs) < 2 or not (np.diff(xs) > 0).all():
        raise LawError(
            "a table needs at least two places xs, which increase, and as many values ys: "
            f"xs has shape {xs.shape}, ys has shape {ys.shape}"
        )
    if not (np.isfinite(xs).all() and np.isfinite(ys).all()):
        raise LawError("the numbers xs and ys of a table must be finite")
    one_of("table: kind", kind, ("linear", "cubic"), error=LawError)
    width = np.diff(xs)
    slope = np.diff(ys) / width
    rows = np.stack([ys[:-1], slope], 1)
    if kind == "cubic":
        d = _monotone_slopes(width, slope)
        bend = (3 * slope - 2 * d[:-1] - d[1:]) / width
        rows = np.stack([ys[:-1], d[:-1], bend, (d[:-1] + d[1:] - 2 * slope) / width**2], 1)
    before, behind = np.zeros((2, 1, rows.shape[1]))
    before[0, 0], behind[0, 0] = ys[0], ys[-1]
    return np.concatenate([[xs[0] - 1.0], xs]), np.concatenate([before, rows, behind])


def _monotone_slopes(width: Array, slope: Array) -> Array:
    """Slopes at the points: weighted harmonic means of those beside them, zero at extremes."""
    a, b = slope[:-1], slope[1:]
    w1, w2 = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    with np.errstate(all="ignore"):
        inner = np.where(a * b > 0, (w1 + w2) / (w1 / a + w2 / b), 0.0)
    return np.concatenate([slope[:1], inner, slope[-1:]])


def _positive(x: Any) -> Tracer:
    return Tracer(as_node(x))


def _greater(x: Any, y: Any) -> Tracer:
    return entrywise("less", y, x)


def _greater_equal(x: Any, y: Any) -> Tracer:
    return entrywise("less_equal", y, x)


def _not_equal(x: Any, y: Any) -> Tracer:
    return ~entrywise("equal", x, y)


def _reciprocal(x: Any) -> Tracer:
    return entrywise("div", 1.0, x)


def _ceil(x: Any) -> Tracer:
    return -entrywise("floor", -Tracer(as_node(x)))


def _radians(x: Any) -> Tracer:
    return entrywise("mul", np.pi / 180, x)


def _degrees(x: Any) -> Tracer:
    return entrywise("mul", 180 / np.pi, x)


def _copy(x: Any) -> Tracer:
    return Tracer(as_node(x), owned=True)


def _vdot(x: Any, y: Any) -> Tracer:
    return _matmul(*(Tracer(as_node(z)).reshape(-1) for z in (x, y)))


def _outer(x: Any, y: Any) -> Tracer:
    column: Any = Tracer(as_node(x)).reshape(-1, 1)
    return column * Tracer(as_node(y)).reshape(1, -1)


def _shape(x: Any) -> tuple[int, ...]:
    return as_node(x).shape


def _ndim(x: Any) -> int:
    return len(as_node(x).shape)


def _size(x: Any) -> int:
    return as_node(x).size


UFUNCS.update({
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg",
    "power": "power", "float_power": "power", "absolute": "abs", "fabs": "abs", "sign": "sign",
    "floor": "floor", "sqrt": "sqrt", "exp": "exp", "log": "log", "sin": "sin", "cos": "cos",
    "tan": "tan", "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan",
    "arctan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "minimum": "minimum",
    "maximum": "maximum", "fmin": _but_not_nan("minimum"), "fmax": _but_not_nan("maximum"),
    "less": "less", "less_equal": "less_equal", "equal": "equal", "logical_and": "both",
    "logical_or": "either", "logical_not": "not", "bitwise_and": _truths("both", "&"),
    "bitwise_or": _truths("either", "|"), "invert": _truths("not", "~"),
    "square": _square, "hypot": _hypot, "positive": _positive,
    "matmul": _matmul, "floor_divide": "floor_divide", "remainder": "remainder",
    "greater": _greater, "greater_equal": _greater_equal, "not_equal": _not_equal,
    "reciprocal": _reciprocal, "rint": _rint, "ceil": _ceil,
    "deg2rad": _radians, "radians": _radians, "rad2deg": _degrees, "degrees": _degrees,
    "clip": _clip,
})  # fmt: skip
METHODS.update({(np.add, "reduceat"): _add_reduceat, (np.add, "at"): _add_at})
REARRANGING.update({
    np.broadcast_to, np.diagonal, np.expand_dims, np.flip, np.moveaxis, np.ravel, np.repeat,
    np.reshape, np.roll, np.squeeze, np.swapaxes, np.tile, np.transpose, np.atleast_1d,
})  # fmt: skip
FUNCTIONS.update({
    np.broadcast_arrays: _broadcast_arrays, np.where: _where,
    np.clip: _clip, np.sum: _sum, np.mean: _mean, np.concatenate: _concatenate,
    np.stack: _stack, np.dot: _dot, np.cross: _cross, np.linalg.norm: _norm,
    np.einsum: _einsum, np.interp: _interp,
    np.zeros_like: _like(0.0), np.ones_like: _like(1.0), np.full_like: _like(None),
    np.max: _extreme("maximum"), np.min: _extreme("minimum"),
    np.copy: _copy, np.vdot: _vdot, np.inner: _inner, np.outer: _outer,
    np.shape: _shape, np.ndim: _ndim, np.size: _size,
    np.fill_diagonal: _fill_diagonal, np.select: _select,
})  # fmt: skip
FUNCTIONS.update({
    function: _by_entries(function)
    for function in (
        np.diag, np.diagflat, np.trace, np.kron, np.block, np.vstack, np.hstack, np.column_stack,
        np.triu, np.tril, np.cumsum, np.prod, np.tensordot, np.append, np.insert, np.delete,
        np.diff, np.take, np.rot90, np.fliplr, np.flipud, np.polyval, np.linalg.matrix_power,
    )
})  # fmt: skip
for _name in (
    "sqrt exp log sin cos tan arcsin arccos arctan sinh cosh tanh square rint floor ceil sign"
).split():
    # NumPy calls these on the entries of an array of objects
    setattr(Tracer, _name, _method(UFUNCS[_name]))
