"""Machine code of operations on single numbers: the entries of laws and of formulas of one body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from phipsi.core.spatial import ScalarOps
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.elementary_functions import FUNCTIONS, define
from phipsi.native.text.lane_arithmetic import Emitter, Lane
from phipsi.native.text.sine_and_logarithm import define_sincos, log_of


def entry_code(e: Emitter, name: str, args: Sequence[Lane], data: Any) -> Lane:
    """The code of an operation on single entries."""
    if name in _ARITHMETIC:
        return _ARITHMETIC[name](e, *args)
    if name == "curve":
        return _curve(e, args[0], *data)
    module = e.builder.module
    if name in ("sin", "cos"):
        pair = e.builder.call(define_sincos(module, e), [args[0].value])
        return Lane(e, e.builder.extract_value(pair, int(name == "cos")))
    if name == "log":
        return log_of(e, args[0])
    assert name in FUNCTIONS, f"{name} has no machine code"
    return Lane(e, e.builder.call(define(module, name, e), [y.value for y in args]))


def _curve(e: Emitter, at: Lane, knots: Sequence[float], coefficients: Any) -> Lane:
    """A piecewise polynomial: the coefficients are chosen knot by knot."""
    chosen = [e.constant(float(c)) for c in (knots[0], *coefficients[0])]
    for knot, row in zip(knots[1 : len(coefficients)], coefficients[1:], strict=True):
        beyond = e.compare(">=", at, float(knot))
        new = [float(c) for c in (knot, *row)]
        chosen = [e.select(beyond, n, old) for n, old in zip(new, chosen, strict=True)]
    s, out = at - chosen[0], chosen[-1]
    for c in chosen[-2:0:-1]:
        out = out * s + c
    return e.select(e.compare("==", at, at), out, at)


def _relation(name: str) -> Callable[[Emitter, Lane, Lane], Lane]:

    def holds(e: Emitter, x: Lane, y: Lane) -> Lane:
        return e.select(e.compare(name, x, y), 1.0, 0.0)

    return holds


def _either(e: Emitter, x: Lane, y: Lane) -> Lane:
    return _not(e, _both(e, _not(e, x), _not(e, y)))


def _both(e: Emitter, x: Lane, y: Lane) -> Lane:
    return e.select(_true(e, x), e.select(_true(e, y), 1.0, 0.0), 0.0)


def _not(e: Emitter, x: Lane) -> Lane:
    return e.select(_true(e, x), 0.0, 1.0)


def _true(e: Emitter, x: Lane) -> ir.IRValue:
    """Not zero; NaN is true, as in NumPy."""
    return e.builder.fcmp_unordered("!=", x.value, e.constant(0.0).value)


def _sign(e: Emitter, x: Lane) -> Lane:
    return e.select(e.compare(">", x, 0.0), 1.0, e.select(e.compare("<", x, 0.0), -1.0, x))


def _least(relation: str) -> Callable[[Emitter, Lane, Lane], Lane]:
    """The smaller or larger number; NaN if one is."""

    def choose(e: Emitter, x: Lane, y: Lane) -> Lane:
        chosen = e.select(e.compare(relation, x, y), x, y)
        return e.select(e.compare("==", x, x), chosen, x)

    return choose


_Code = (
    Callable[[Emitter, Lane], Lane]
    | Callable[[Emitter, Lane, Lane], Lane]
    | Callable[[Emitter, Lane, Lane, Lane], Lane]
)
_ARITHMETIC: dict[str, _Code] = {
    "add": lambda e, x, y: x + y, "sub": lambda e, x, y: x - y, "mul": lambda e, x, y: x * y,
    "div": lambda e, x, y: x / y, "neg": lambda e, x: -x,
    "fma": lambda e, x, y, z: x.times_plus(y, z),
    "abs": lambda e, x: e.intrinsic("fabs", x), "sign": _sign,
    "floor": lambda e, x: e.intrinsic("floor", x), "sqrt": lambda e, x: e.intrinsic("sqrt", x),
    "minimum": _least("<"), "maximum": _least(">"), "less": _relation("<"),
    "less_equal": _relation("<="), "equal": _relation("=="), "both": _both, "either": _either,
    "not": _not, "where": lambda e, c, x, y: e.select(_true(e, c), x, y),
}  # fmt: skip


@final
class LaneNumbers(ScalarOps):
    """Lanes, for formulas that are written for any kind of number.

    The sine and cosine of a value are computed once, so an object serves code without branches.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self._known: dict[str, tuple[Lane, Lane]] = {}

    def entrywise(self, name: str, args: Sequence[Any], data: Any = None) -> Lane:
        """An operation by its name."""
        if name in ("sin", "cos"):
            return self._sincos(self.e.lift(args[0]))[name == "cos"]
        return entry_code(self.e, name, [self.e.lift(x) for x in args], data)

    def _sincos(self, x: Lane) -> tuple[Lane, Lane]:
        key = x.value.name
        if key not in self._known:
            e = self.e
            pair = e.builder.call(define_sincos(e.builder.module, e), [x.value])
            sine, cosine = (Lane(e, e.builder.extract_value(pair, i)) for i in range(2))
            self._known[key] = sine, cosine
        return self._known[key]

    def less(self, x: Any, y: Any) -> Any:
        """Where x < y, as a mask."""
        return self.e.compare("<", x, y)

    def where(self, condition: Any, x: Any, y: Any) -> Lane:
        """One or the other, lane by lane."""
        return self.e.select(condition, x, y)
