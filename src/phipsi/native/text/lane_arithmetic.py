"""Numbers in generated code: one vector register holds one number of every configuration.

A `Lane` overloads + − * / so that the joint formulas and the block operations read like arithmetic.
Python numbers mixed in are folded: a known 0 or 1 costs no instruction.

Reasons for numbers of two widths: docs/decisions/0047.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast, final

from phipsi.core.spatial import SERIES_BELOW, polynomial
from phipsi.native.text import llvm_text as ir

if TYPE_CHECKING:
    from phipsi.core.machine import Mask, Number as AnyNumber

I64, I32, I8, I1 = (ir.IntType(bits) for bits in (64, 32, 8, 1))
DOUBLE, POINTER, WORD = ir.DOUBLE, ir.POINTER, ir.WORD
_FIRST = ir.IRConstant(I32, 0)
_bits = struct.Struct("<d").pack

NumberName = Literal["double", "float"]


@final
class FloatFormat:
    """A kind of number that code computes with; sizes in memory and limits of rounding follow.

    **Attributes:** `type`, as LLVM has it; `integer`, integers of the same width, which lanes of
    integers consist of; `fraction`, the bits behind the leading one; `bias` of the exponent;
    `dtype`, NumPy's name.
    """

    def __init__(
        self, name: NumberName, type_: ir.IRType, integer: ir.IntType, fraction: int
    ) -> None:
        self.name: NumberName = name
        self.type, self.integer, self.fraction = type_, integer, fraction
        self.bytes = integer.width // 8
        self.bias = (1 << (integer.width - fraction - 2)) - 1
        self.dtype = f"f{self.bytes}"
        self.suffix = f"f{integer.width}"  # of intrinsics
        # added to a number, this rounds it to a whole one, to the even one of two
        self.whole = 1.5 * 2.0**fraction
        self.one_bits = self.bias << fraction  # of 1
        self.count_bits = (self.bias + fraction) << fraction  # of 2^fraction
        self.whole_bits = self.count_bits | 1 << (fraction - 1)
        self.alignment = ir.IRConstant(I32, self.bytes)

    def tolerance(self, x: float) -> float:
        """A tolerance for doubles as one for these numbers: the same power of the rounding unit."""
        return x if self.name == "double" else x ** (self.fraction / _DOUBLE.fraction)


_DOUBLE = FloatFormat("double", ir.DOUBLE, I64, 52)
NUMBERS = {"double": _DOUBLE, "float": FloatFormat("float", ir.FLOAT, I32, 23)}


@lru_cache(maxsize=1 << 14)
def i64(x: int) -> ir.IRConstant:
    """A 64-bit integer constant."""
    return ir.IRConstant(I64, x)


class Emitter:
    """The place where instructions are written, for a number of lanes.

    `fused` says whether x y + z is one instruction with one rounding. It is written out explicitly
    and never left to LLVM, so that kernels of different widths agree bitwise. `bytes` is the
    size of one number of all lanes, `unit` that of one of them.
    """

    def __init__(self, lanes: int, *, fused: bool, number: NumberName = "double") -> None:
        self.lanes, self.fused, self.number = lanes, fused, NUMBERS[number]
        self.unit = self.number.bytes
        self.bytes = self.unit * lanes
        self.vector = ir.side_by_side(self.number.type, lanes)
        self.mask = ir.side_by_side(I1, lanes)
        self.integers = ir.side_by_side(self.number.integer, lanes)
        self.builder = cast("ir.IRBuilder", None)  # set where a function begins
        self._suffix = f"{'' if lanes == 1 else f'v{lanes}'}{self.number.suffix}"  # of intrinsics
        self._constants: dict[bytes, ir.IRConstant] = {}
        self._zeros = ir.IRConstant(ir.side_by_side(I32, lanes), [0] * lanes)

    def like(self, lanes: int | None = None) -> Emitter:
        """An emitter of the same numbers for another function, or for other lanes."""
        count = self.lanes if lanes is None else lanes
        return Emitter(count, fused=self.fused, number=self.number.name)

    def inside(self, function: ir.IRFunction) -> Emitter:
        """An emitter of the same numbers at the start of another function."""
        out = self.like()
        out.builder = function.begin()
        return out

    def constant(self, x: float) -> Lane:
        """The same number in every lane."""
        number = float(x)
        key = _bits(number)  # 0 and −0 are equal, and differ
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = ir.IRConstant(self.vector, [number] * self.lanes)
        return Lane(self, known)

    def lift(self, x: AnyNumber | float) -> Lane:
        """A lane value of a lane value or a Python number."""
        if isinstance(x, Lane):
            return x
        known: Any = x
        return self.constant(known)

    def splat(self, scalar: ir.IRValue) -> Lane:
        """A single number in every lane."""
        return Lane(self, self._everywhere(scalar, self.vector))

    def splat_integer(self, scalar: ir.IRValue) -> ir.IRValue:
        """A 64-bit integer in every lane."""
        narrow = self.number.integer
        short = scalar if narrow is I64 else self.builder.trunc(scalar, narrow)
        return self._everywhere(short, self.integers)

    def integer(self, x: int) -> ir.IRValue:
        """The same known integer in every lane."""
        return ir.IRConstant(self.integers, [x] * self.lanes)

    @property
    def numbers(self) -> ir.IRValue:
        """0, 1, 2, …: the numbers of the lanes."""
        return ir.IRConstant(self.integers, list(range(self.lanes)))

    def first(self, count: ir.IRValue) -> ir.IRValue:
        """The mask of so many lanes."""
        return self.builder.icmp_signed("<", self.numbers, self.splat_integer(count))

    def _everywhere(self, scalar: ir.IRValue, kind: ir.IRType) -> ir.IRValue:
        b, undefined = self.builder, ir.IRConstant(kind, ir.Undefined)
        one = b.insert_element(undefined, scalar, _FIRST)
        return b.shuffle_vector(one, undefined, self._zeros)

    def intrinsic(self, name: str, *args: Lane) -> Lane:
        """An LLVM intrinsic on vectors, e.g. "sqrt", "fabs", "maxnum", "roundeven"."""
        if name in self.builder.module.missing:
            return _WITHOUT_LIBRARY[name](self, *args)
        full = f"llvm.{name}.{self._suffix}"
        values = [a.value for a in args]
        return Lane(self, self.builder.call_named(full, self.vector, values))

    def compare(self, relation: str, x: AnyNumber | float, y: AnyNumber | float) -> ir.IRValue:
        """Lanewise comparison that is false where an operand is NaN."""
        return self.builder.fcmp_ordered(relation, self.lift(x).value, self.lift(y).value)

    def select(self, condition: ir.IRValue, x: AnyNumber | float, y: AnyNumber | float) -> Lane:
        """x where the condition holds, y elsewhere."""
        return Lane(self, self.builder.select(condition, self.lift(x).value, self.lift(y).value))

    def pick(
        self, s: Lane, series: tuple[float, ...], closed: Callable[[Any, Any], Any], ops: Any
    ) -> Lane:
        """A power series in s, or ``closed(s, ops)`` beyond it; see exponential_coefficients.py."""
        small = self.compare("<", s, SERIES_BELOW)
        near, far = self.select(small, s, 0.0), self.select(small, 1.0, s)
        return self.select(small, polynomial(series, near), closed(far, ops))

    def poison_nan(self, total: Lane, x: Lane) -> Lane:
        """`total`, but not a number where x is infinite or not a number."""
        return x.times_plus(self.constant(0.0), total)  # a plain 0 would be folded

    # -- memory

    def load(self, where: ir.IRValue) -> Lane:
        """One number of every lane."""
        return Lane(self, self.builder.load(where, align=self.unit, typ=self.vector))

    def store(self, x: AnyNumber | float, where: ir.IRValue) -> None:
        """Write one number of every lane."""
        self.builder.store(self.lift(x).value, where, align=self.unit)

    def load_one(self, where: ir.IRValue) -> ir.IRValue:
        """A single number."""
        return self.builder.load(where, align=self.unit, typ=self.number.type)

    def load_shared(self, where: ir.IRValue) -> Lane:
        """A single number, in every lane."""
        return self.splat(self.load_one(where))

    def load_integers(self, where: ir.IRValue) -> ir.IRValue:
        """One integer of every lane, such as the status."""
        return self.builder.load(where, align=self.unit, typ=self.integers)

    def store_integers(self, x: ir.IRValue, where: ir.IRValue) -> None:
        """Write one integer of every lane."""
        self.builder.store(x, where, align=self.unit)

    def masked_load(self, where: ir.IRValue, mask: ir.IRValue) -> ir.IRValue:
        """A vector of which only the lanes in the mask are read; the others are zero."""
        name = f"llvm.masked.load.v{self.lanes}{self.number.suffix}.p0"
        aligned, nothing = self.number.alignment, self.constant(0.0).value
        return self.builder.call_named(name, self.vector, [where, aligned, mask, nothing])

    def masked_store(self, value: ir.IRValue, where: ir.IRValue, mask: ir.IRValue) -> None:
        """Write the lanes in the mask."""
        name = f"llvm.masked.store.v{self.lanes}{self.number.suffix}.p0"
        self.builder.call_named(name, ir.VOID, [value, where, self.number.alignment, mask])


# ---- functions that all programs share -----------------------------------------------------------

Write = Callable[[ir.Module, Emitter], ir.IRFunction]


def shared_function(
    module: ir.Module, like: Emitter, name: str, signature: ir.FunctionType, write: Write
) -> ir.IRFunction:
    """The function that ``write(module, like)`` writes, for such lanes; no program changes it.

    In code for this process it is compiled once for all modules, and found by its text.
    """

    def once(into: ir.Module) -> ir.IRFunction:
        return into.globals.get(name) or write(into, like)

    if not module.linked:
        return once(module)
    key = _text_digest(name, write, like.lanes, like.fused, like.number.name)
    return module.part(f"{name}_{key[:16]}", key, signature, once)


@cache
def _text_digest(name: str, write: Write, lanes: int, fused: bool, number: NumberName) -> str:
    """A digest of the text of a function, which a process writes for this once."""
    like = Emitter(lanes, fused=fused, number=number)

    def begin(module: ir.Module) -> ir.IRFunction:
        return write(module, like)

    text = str(ir.SeparateFunction("", begin).module(name))
    return hashlib.sha256(text.encode()).hexdigest()


def _largest(e: Emitter, x: Lane, y: Lane) -> Lane:
    """The larger of two numbers; the other one if one is NaN."""
    return e.select(e.compare(">", x, y), x, e.select(e.compare("==", y, y), y, x))


def _floor(e: Emitter, x: Lane) -> Lane:
    """The largest integer that is not larger; a number plus `large` has no fraction."""
    size, large = e.intrinsic("fabs", x), 2.0**e.number.fraction
    whole = e.intrinsic("copysign", (size + large) - large, x)
    whole = e.select(e.compare(">", whole, x), whole - 1.0, whole)
    return e.select(e.compare("<", size, large), whole, x)


# what some processors have no instruction for: there LLVM calls a function of a library
_WITHOUT_LIBRARY: dict[str, Callable[..., Lane]] = {"maxnum": _largest, "floor": _floor}


def write_loop(
    b: ir.IRBuilder, count: ir.IRValue, body: Callable[[ir.IRValue], None], step: int = 1
) -> None:
    """For i in range(0, count, step): body(i)."""

    def once(i: ir.IRValue, _: list[ir.IRValue]) -> list[ir.IRValue]:
        body(i)
        return []

    fold_loop(b, count, step, [], once)


def write_rounds(
    b: ir.IRBuilder,
    most: ir.IRValue,
    condition: Callable[[], ir.IRValue],
    body: Callable[[ir.IRValue], None],
) -> None:
    """While a condition holds, `most` times at most: body(number)."""
    head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I64)
    number.add_incoming(i64(0), before)
    holds = condition()
    b.cbranch(b.and_(b.icmp_signed("<", number, most), holds), inside, after)
    b.position_at_end(inside)
    body(number)
    number.add_incoming(b.add(number, i64(1)), b.block)
    b.branch(head)
    b.position_at_end(after)


def at_most(b: ir.IRBuilder, x: ir.IRValue, limit: ir.IRValue) -> ir.IRValue:
    """The smaller of two integers."""
    return b.select(b.icmp_signed("<", x, limit), x, limit)


def write_cases(
    b: ir.IRBuilder, which: ir.IRValue, count: int, body: Callable[[int], None]
) -> None:
    """The code body(i) for the case that `which` is i, for all i below count."""
    done = b.function.append_basic_block("done")
    switch = b.switch(which, done)
    for i in range(count):
        case = b.function.append_basic_block(f"case_{i}")
        switch.add_case(ir.IRConstant(I64, i), case)
        b.position_at_end(case)
        body(i)
        b.branch(done)
    b.position_at_end(done)


def fold_loop(
    b: ir.IRBuilder,
    count: ir.IRValue,
    step: int,
    starts: Sequence[ir.IRValue],
    body: Callable[[ir.IRValue, list[ir.IRValue]], Sequence[ir.IRValue]],
) -> list[ir.IRValue]:
    """For i in range(0, count, step): values = body(i, values); the last values."""
    f, most = b.function, count.number
    if most is not None and most <= 0:
        return list(starts)
    kind = I32 if b.module.narrow and most is not None and most + step < 2**31 else I64
    head, inside, after = (f.append_basic_block(n) for n in ("head", "inside", "after"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    counter = b.phi(kind)
    counter.add_incoming(ir.IRConstant(kind, 0), before)
    phis = [b.phi(x.type) for x in starts]
    values = list[ir.IRValue](phis)
    for phi, start in zip(phis, starts, strict=True):
        phi.add_incoming(start, before)
    end = count if kind is I64 else ir.IRConstant(kind, most)
    b.cbranch(b.icmp_signed("<", counter, end), inside, after)
    b.position_at_end(inside)
    new = body(counter if kind is I64 else b.zext(counter, I64), values)
    counter.add_incoming(b.add(counter, ir.IRConstant(kind, step)), b.block)
    for phi, value in zip(phis, new, strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)
    return values


class Lane:
    """One number per configuration; `place` is where the table of bodies has it, if it does."""

    __slots__ = ("emitter", "place", "value")

    def __init__(self, emitter: Emitter, value: ir.IRValue, place: int | None = None) -> None:
        self.emitter, self.value, self.place = emitter, value, place

    def _binary(self, name: str, x: Any, y: Any) -> Any:
        e = self.emitter
        if not isinstance(x, (Lane, int, float)) or not isinstance(y, (Lane, int, float)):
            return NotImplemented  # numbers that consist of lanes have operators of their own
        operation = getattr(e.builder, name)
        return Lane(e, operation(e.lift(x).value, e.lift(y).value))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Lane):
            return Lane(self.emitter, self.emitter.builder.fadd(self.value, other.value))
        return self if other == 0 else self._binary("fadd", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Lane):
            return Lane(self.emitter, self.emitter.builder.fsub(self.value, other.value))
        return self if other == 0 else self._binary("fsub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return -self if other == 0 else self._binary("fsub", other, self)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Lane):
            return Lane(self.emitter, self.emitter.builder.fmul(self.value, other.value))
        if other == 0:
            return 0
        if other == 1:
            return self
        if other == -1:
            return -self
        return self._binary("fmul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Lane):
            return Lane(self.emitter, self.emitter.builder.fdiv(self.value, other.value))
        return self if other == 1 else self._binary("fdiv", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return 0 if other == 0 else self._binary("fdiv", other, self)

    def __neg__(self) -> Lane:
        return Lane(self.emitter, self.emitter.builder.fneg(self.value))

    def __lt__(self, other: AnyNumber | float) -> LaneMask:
        return LaneMask(self.emitter, self.emitter.compare("<", self, other))

    def __le__(self, other: AnyNumber | float) -> LaneMask:
        return LaneMask(self.emitter, self.emitter.compare("<=", self, other))

    def __gt__(self, other: AnyNumber | float) -> LaneMask:
        return LaneMask(self.emitter, self.emitter.compare(">", self, other))

    def __ge__(self, other: AnyNumber | float) -> LaneMask:
        return LaneMask(self.emitter, self.emitter.compare(">=", self, other))

    def times_plus(self, y: AnyNumber | float, z: AnyNumber | float) -> Lane:
        """self · y + z, with one rounding where the machine can."""
        e = self.emitter
        if e.fused:
            return e.intrinsic("fma", self, e.lift(y), e.lift(z))
        return self * y + z


class LaneMask:
    """One boolean per lane; `bits` is the value of the code."""

    __slots__ = ("bits", "emitter")

    def __init__(self, emitter: Emitter, bits: ir.IRValue) -> None:
        self.emitter, self.bits = emitter, bits

    def __and__(self, other: Mask) -> LaneMask:
        assert isinstance(other, LaneMask), "a mask of lanes"
        return LaneMask(self.emitter, self.emitter.builder.and_(self.bits, other.bits))

    def __or__(self, other: Mask) -> LaneMask:
        assert isinstance(other, LaneMask), "a mask of lanes"
        return LaneMask(self.emitter, self.emitter.builder.or_(self.bits, other.bits))

    def __invert__(self) -> LaneMask:
        return LaneMask(self.emitter, self.emitter.builder.not_(self.bits))


def plus_scaled(old: Lane, coefficient: float, term: Lane) -> Lane:
    """old + coefficient · term, without a product for ±1."""
    return old - term if coefficient == -1 else old + scaled(term, coefficient)


def scaled(x: Lane, factor: Any) -> Lane:
    """factor · x, without a product for ±1."""
    if factor == 1:
        return x
    return -x if factor == -1 else x * float(factor)


def known(x: object) -> bool:
    """True for a number that is known when the code is written."""
    return not isinstance(x, Lane)
