"""Tracing: a function of a user runs once on `Tracer` values, which record what is done to them.

They take Python's operators and NumPy's functions, as arrays would. Whatever needs to know a value
(an `if`, a conversion to a number, a function that looks at entries) is an error that names the
line of the function and shows how to write it. Laws and the formulas of custom operators are
traced.

Reasons: docs/decisions/0036.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, final

import numpy as np

from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.graph import Array, Node, Shape
from phipsi.core.arrays.law_errors import fail, fail_without_value, is_read_by_a_user, short
from phipsi.core.model import as_floats, is_array, is_list

_ROOM: ContextVar[list[int] | None] = ContextVar("room", default=None)
UFUNCS: dict[str, Any] = {}
METHODS: dict[Any, Callable[..., Any]] = {}
REARRANGING: set[Any] = set()
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""How NumPy's functions are traced; `numpy_functions.py` fills these tables."""


@contextmanager
def at_most(count: int) -> Generator[None]:
    """Inside, a function may compute so many traced values: a loop without an end is reported."""
    token = _ROOM.set([count, count])
    try:
        yield
    finally:
        _ROOM.reset(token)


@final
class Tracer:
    """An array that is not known yet: it has a shape, and operations on it are recorded.

    Entries can be assigned where an array of the law's own is changed and nothing else sees it:
    not in arguments, and not while a part of the array has another name, as NumPy would change
    both.
    """

    __slots__ = ("__weakref__", "_node", "_owed", "_owned", "_parts")
    dtype = np.dtype(np.float64)
    is_traced = True

    def __init__(self, node: Node, *, owned: bool | None = None) -> None:
        room = _ROOM.get()
        if room is not None:
            room[0] -= 1
            if room[0] < 0:
                fail(
                    f"the function computes more than {room[1]:,} steps",
                    "check that its loops end, or compute parts of it separately",
                )
        self._node = node
        self._owned = node.operation.name != "input" if owned is None else owned
        self._owed = False  # a part that was changed in place and is not yet back in its array
        self._parts: list[weakref.ref[Tracer]] = []

    @property
    def node(self) -> Node:
        """What is recorded."""
        if self._owed:
            fail(
                "a named view of an array is changed in place, which cannot be traced",
                "index the array itself:  x[:3] += …",
            )
        return self._node

    @property
    def __class__(self) -> Any:
        """That of the array or number of NumPy for which it stands, if the function asks for it."""
        if not is_read_by_a_user():
            return Tracer
        return np.ndarray if self._node.shape else np.float64

    @__class__.setter
    def __class__(self, kind: Any) -> NoReturn:
        raise AttributeError("the class of a traced array cannot be set")

    def __hash__(self) -> int:
        if self.shape:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        self._known_only_later()

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("__") and hasattr(np.ndarray, name):
            fail_without_value(
                f"{name} of arrays cannot be traced", _INSTEAD.get(name) or _listed()
            )
        raise AttributeError(f"a traced array has no attribute {name!r}", name=name, obj=self)

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
    def T(self) -> Tracer:
        """The transpose."""
        return self.rearranged(np.transpose)

    @property
    def real(self) -> Tracer:
        """The array itself."""
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a number has no length")  # as NumPy's, which NumPy itself asks for
        return self.shape[0]

    def __iter__(self) -> Iterator[Tracer]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Tracer:
        if type(key) is int and len(self.shape) == 1 and -self.size <= key < self.size:
            return Tracer(ops.gather(self.node, key % self.size), owned=True)
        self._check_key(key)
        return self.rearranged(lambda numbers: numbers[key])

    def _check_key(self, key: Any) -> None:
        if contains_tracer(key):
            fail(
                "an entry is chosen by a value that is known only when it runs",
                "choose with np.where(i == 0, x[0], x[1]), or with pp.laws.table(i, xs, ys)",
            )

    def rearranged(self, function: Callable[[Any], Any]) -> Tracer:
        """The entries in another order or shape, by what a function does to their numbers."""
        numbers = np.arange(self.size).reshape(self.shape)
        try:
            found = function(numbers)
        except (IndexError, ValueError, TypeError) as error:
            fail(f"{error} (shape {self.shape})")
        part = is_array(found) and np.shares_memory(found, numbers)
        out = Tracer(ops.gather(self.node, found), owned=not part)
        if part:
            self._parts = [x for x in self._parts if x() is not None]
            self._parts.append(weakref.ref(out))
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_key(key)
        if isinstance(value, Tracer):
            value._owed = False
        numbers = np.arange(self.size).reshape(self.shape)
        new = as_node(value)
        try:
            target = numbers[key]
            spread = np.broadcast_to(np.arange(new.size).reshape(new.shape), np.shape(target))
            numbers[key] = self.size + spread
        except (IndexError, ValueError) as error:
            fail(f"{error} (shape {self.shape})")
        both = ops.concat([self.node, new], (self.size + new.size,))
        self.become(ops.gather(both, numbers))

    def changed_in_place(self, new: Tracer) -> Tracer:
        """What this name stands for, once the array has other values."""
        if not self._owned and self.node.operation.name != "input":
            new._owed = True  # x[:3] += y  puts it back
            return new
        self.become(new.node)
        return self

    def become(self, node: Node) -> None:
        """Take other values, if no other name sees them."""
        if not self._owned:
            fail_without_value(
                "entries of an argument, or of a view of another array, cannot be assigned",
                "assign to a copy:  x = x.copy(); x[0] = …",
            )
        if any(x() is not None for x in self._parts):
            fail(
                "an array cannot be modified while a view of it has a name of its own",
                "take the part as a copy:  part = x[:3].copy()",
            )
        self._node = node

    def copy(self) -> Tracer:
        """An array of its own with the same entries."""
        return Tracer(self.node, owned=True)

    def astype(self, dtype: Any) -> Tracer:
        """A copy, or whether entries are not zero; traced numbers are float64."""
        if np.dtype(dtype) == np.bool_:
            return ~entrywise("equal", self, 0.0)
        check_dtype(dtype)
        return self.copy()

    def reshape(self, *shape: Any) -> Tracer:
        """The entries row by row in another shape."""
        return self.rearranged(lambda numbers: numbers.reshape(*shape))

    def transpose(self, *axes: Any) -> Tracer:
        """Axes in another order."""
        return self.rearranged(lambda numbers: numbers.transpose(*axes))

    def ravel(self) -> Tracer:
        """The entries row by row on one axis."""
        return self.reshape(-1)

    def flatten(self) -> Tracer:
        """A copy of the entries row by row on one axis."""
        return self.reshape(-1).copy()

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Tracer:
        """The sum of all entries or along axes."""
        return FUNCTIONS[np.sum](self, axis, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Tracer:
        """The mean of all entries or along axes."""
        return FUNCTIONS[np.mean](self, axis, keepdims=keepdims)

    def max(self, axis: Any = None) -> Tracer:
        """The largest of all entries or along an axis."""
        return FUNCTIONS[np.max](self, axis)

    def min(self, axis: Any = None) -> Tracer:
        """The smallest of all entries or along an axis."""
        return FUNCTIONS[np.min](self, axis)

    def clip(self, low: Any = None, high: Any = None) -> Tracer:
        """The entries within limits."""
        return FUNCTIONS[np.clip](self, low, high)

    def dot(self, other: Any) -> Tracer:
        """The product with a vector or matrix."""
        return FUNCTIONS[np.dot](self, other)

    # ---- values that are not known

    def __bool__(self) -> NoReturn:
        fail_without_value(
            "the function branches on a value that is known only when it runs",
            "write  np.where(condition, a, b)  instead of  a if condition else b;  "
            "np.maximum(a, b)  instead of  max(a, b);  "
            "(a < b) & (b < c)  instead of  a < b < c;  "
            "np.stack([a, b])  instead of  np.array([a, b])  for arrays that are compared",
        )

    def _known_only_later(self, *_: Any) -> NoReturn:
        fail_without_value(
            "the function needs the number itself, which is known only when it runs",
            "use np.zeros_like(x, shape=(6, 6)) instead of np.zeros((6, 6)) for arrays whose "
            "entries are assigned, x being a value of the function; np.stack([a, b]) or "
            "np.array([a, b]) for an array of values, without dtype=float; np.sin, np.sqrt, "
            "np.abs … instead of functions of math; arithmetic instead of float(…) or int(…)",
        )

    __float__ = __int__ = __index__ = __complex__ = _known_only_later
    item = tolist = _known_only_later

    def __round__(self, digits: int | None = None) -> NoReturn:
        fail("round cannot be traced", _INSTEAD["round"])

    def __trunc__(self) -> NoReturn:
        fail("trunc cannot be traced", _INSTEAD["trunc"])

    def __repr__(self) -> str:
        if is_read_by_a_user():
            fail(
                "the function prints a value that is known only when it runs, or makes a str of it",
                "print its shape; return the value under a name of its own to record it",
            )
        return f"<traced {self._node.shape}>"

    def __format__(self, spec: str) -> str:
        if is_read_by_a_user():
            self.__repr__()
            self._known_only_later()
        return repr(self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """The entries as an array of objects, for np.array([a, b]) of traced values.

        An array that NumPy would share, np.asarray(x), can be read only: a change of it would not
        be seen in x.
        """
        if dtype is not None and np.dtype(dtype) != object:
            self._known_only_later()
        out = np.empty(self.shape, dtype=object)
        for i in np.ndindex(*self.shape):
            out[i] = self[i] if i else self
        out.setflags(write=bool(copy))
        return out

    def conjugate(self) -> Tracer:
        """The array itself: its numbers are real."""
        return self

    def __copy__(self) -> Tracer:
        return self.copy()

    def __deepcopy__(self, _: Any) -> Tracer:
        return self.copy()

    # ---- operators

    def __divmod__(self, other: Any) -> Any:
        return entrywise("floor_divide", self, other), entrywise("remainder", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return entrywise("floor_divide", other, self), entrywise("remainder", other, self)

    def __neg__(self) -> Tracer:
        return entrywise("neg", self)

    def __pos__(self) -> Tracer:
        return self.copy()

    def __abs__(self) -> Tracer:
        return entrywise("abs", self)

    def __invert__(self) -> Tracer:
        return UFUNCS["invert"](self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if (ufunc, method) in METHODS:
            return METHODS[ufunc, method](*inputs, **options)
        if method != "__call__" or options:
            how = method if method != "__call__" else ", ".join(f"{k}=" for k in options)
            fail_without_value(f"np.{ufunc.__name__} with {how} cannot be traced")
        row = UFUNCS.get(ufunc.__name__)
        if row is None:
            name = ufunc.__name__
            fail_without_value(f"np.{name} cannot be traced", _INSTEAD.get(name) or _listed())
        return row(*inputs) if callable(row) else entrywise(row, *inputs)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if function in REARRANGING:
            first = args[0] if isinstance(args[0], Tracer) else Tracer(as_node(args[0]))
            return first.rearranged(lambda numbers: function(numbers, *args[1:], **kwargs))
        traced = FUNCTIONS.get(function)
        if traced is None:
            name = function.__name__
            fail_without_value(f"np.{name} cannot be traced", _INSTEAD.get(name) or _listed())
        try:
            return traced(*args, **kwargs)
        except TypeError as error:
            fail(f"np.{function.__name__}: {error}")


def _operator(name: str, *, swapped: bool = False) -> Callable[[Tracer, Any], Any]:
    def operate(self: Tracer, other: Any) -> Any:
        pair = (other, self) if swapped else (self, other)
        return UFUNCS[name](*pair) if callable(UFUNCS.get(name)) else entrywise(name, *pair)

    return operate


def _in_place(operate: Callable[[Tracer, Any], Any]) -> Callable[[Tracer, Any], Any]:
    def change(self: Tracer, other: Any) -> Tracer:
        new = operate(self, other)
        if not self.shape and not new.shape:
            return new  # Python's numbers are not changed, their names are
        if new.shape != self.shape:
            fail(f"an array of shape {self.shape} cannot be reshaped to {new.shape}")
        return self.changed_in_place(new)

    return change


for _name, _symbol in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "power", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "mod": "remainder", "floordiv": "floor_divide",
}.items():  # fmt: skip
    setattr(Tracer, f"__{_name}__", _operator(_symbol))
    setattr(Tracer, f"__r{_name}__", _operator(_symbol, swapped=True))
    setattr(Tracer, f"__i{_name}__", _in_place(_operator(_symbol)))
for _name, _symbol, _other in (
    ("lt", "less", False), ("le", "less_equal", False), ("gt", "less", True),
    ("ge", "less_equal", True), ("eq", "equal", False),
):  # fmt: skip
    setattr(Tracer, f"__{_name}__", _operator(_symbol, swapped=_other))


def _differ(self: Any, other: Any) -> Any:
    return ~(self == other)


setattr(Tracer, "__ne__", _differ)  # noqa: B010


# ---- functions -----------------------------------------------------------------------------------


def as_node(x: Any) -> Node:
    """The node of a traced value, a number, an array, or a list of these."""
    if isinstance(x, Tracer):
        return x.node
    if is_list(x) and contains_tracer(x):
        return FUNCTIONS[np.stack](x).node
    try:
        array: Array = np.asarray(x)
    except ValueError:
        fail(f"{short(x)} has rows of several lengths")
    if array.dtype == object and any(isinstance(y, Tracer) for y in array.flat):
        return _gathered(array)
    if array.dtype.kind not in "biuf":
        fail(f"{type(x).__name__} {short(x)} is not a number or an array of numbers")
    if not np.isfinite(array).all():
        fail(f"the constant {short(x)} is not finite")
    return ops.constant(array)


def _gathered(array: Any) -> Node:
    """The node of an array of objects: the array that its entries were taken from, if it is one."""
    parts = [as_node(y) for y in array.flat]
    first = parts[0]
    if all(y.operation.name == "pick" and y.args == first.args for y in parts):
        return ops.gather(first.args[0], np.array([y.data for y in parts]).reshape(array.shape))
    if any(y.shape for y in parts):
        fail(f"{short(array)} has entries that are arrays")
    return ops.concat(parts, array.shape)


def as_array(x: Any) -> Any:
    """Numbers as an array of float64; traced values, and lists of them, stay traced."""
    if contains_tracer(x):
        return Tracer(as_node(x))
    if type(x) is np.ndarray and x.dtype == np.float64:
        return x
    return as_floats("an argument", x)


_DIVISIONS = ("div", "floor_divide", "remainder")


def entrywise(name: str, *args: Any) -> Tracer:
    """An operation on single entries, of values that NumPy's rules bring to one shape."""
    nodes = [as_node(x) for x in args]
    shapes = {x.shape: None for x in nodes if x.shape}
    shape = next(iter(shapes), ())
    if len(shapes) > 1:
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            listed = " and ".join(str(x.shape) for x in nodes)
            fail(f"shapes {listed} do not fit together")
    if name in ("add", "sub", "neg") and all(map(is_truth, nodes)):
        if name != "add":
            fail("comparisons cannot be subtracted", "make numbers of them:  1.0 * (x > 0)")
        name = "either"  # NumPy's sum of truths
    if name in _DIVISIONS and nodes[1].operation.name == "constant" and not nodes[1].data.all():
        fail("the function divides by the constant 0", "divide by another number")
    if name == "power":
        out = ops.power(*(_fitted(x, shape) for x in nodes))
    else:
        out = ops.apply(name, *(_fitted(x, shape) for x in nodes))
    if out.operation.name == "constant" and not np.isfinite(out.data).all():
        fail(f"{name} of known numbers gives {short(out.data.tolist())}, which is not finite")
    return Tracer(out)


def is_truth(x: Node) -> bool:
    """Whether a node is a comparison, or made of comparisons: a bool of NumPy."""
    if x.operation.name == "pick":
        return is_truth(x.args[0])
    return x.operation.name in ("less", "less_equal", "equal", "both", "either", "not")


def check_dtype(dtype: Any) -> None:
    """Reject kinds of numbers that round or cut off."""
    if dtype is not None and np.dtype(dtype) != np.float64:
        fail(f"traced numbers are float64, and cannot be converted to {np.dtype(dtype)}")


def _fitted(x: Node, shape: Shape) -> Node:
    return x if not x.shape or x.shape == shape else ops.expand(x, shape)


_RINT = "use np.rint(x), or np.rint(x / step) * step for steps such as those of an encoder"
_TO_ZERO = "use np.where(x < 0, np.ceil(x), np.floor(x))"
_INSTEAD = {
    "round": _RINT, "around": _RINT, "round_": _RINT, "trunc": _TO_ZERO, "fix": _TO_ZERO,
    "heaviside": "use np.where(x > 0, 1.0, 0.0)",
    "fmod": (
        "use np.remainder(x, y), which has the sign of y; with the sign of x it is  "
        "np.sign(x) * np.remainder(np.abs(x), np.abs(y))"
    ),
    "unwrap": (
        "the angles of joints are not wrapped. Bring a difference of angles to −π … π with  "
        "x - 2 * np.pi * np.rint(x / (2 * np.pi))"
    ),
    "sinc": "use np.where(x == 0, 1.0, np.sin(np.pi * x) / np.where(x == 0, 1.0, np.pi * x))",
}  # fmt: skip
"""What to write in place of functions of NumPy that cannot be traced."""


def _listed() -> str:
    functions = {*FUNCTIONS, *REARRANGING}
    names = sorted({*UFUNCS, *(f.__name__ for f in functions)})
    return "there are " + ", ".join(names) + "; and + - * / // % ** @ < <= == & | ~"


def contains_tracer(x: Any) -> bool:
    """Whether a value is traced, or a list in which one is."""
    if isinstance(x, Tracer):
        return True
    if is_array(x):
        return bool(x.dtype == object) and any(map(contains_tracer, x.flat))
    return is_list(x) and any(map(contains_tracer, x))
