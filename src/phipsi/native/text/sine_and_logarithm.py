"""Elementary functions of vector registers, within 1 ulp: sine and cosine, logarithm.

What a lane gets depends on its own argument only, never on its neighbours, and on no library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I1,
    I32,
    I64,
    WORD,
    Emitter,
    FloatFormat,
    Lane,
    i64,
    shared_function,
)

# ---- sine and cosine -----------------------------------------------------------------------------
#
# Argument reduction by π/2 in three exact parts (Cody and Waite) for small |x|, lane by lane by
# integers beyond; then minimax polynomials on [−π/4, π/4], with the low part of the reduced
# argument carried along. The polynomials are those of FreeBSD (doubles) and of Moshier's Cephes
# library (floats).

_TWO_OVER_PI = 6.36619772367581382433e-01


@dataclass(frozen=True)
class _Sines:
    """The constants of sine and cosine.

    `parts` are P1, P2, P3, P3T: π/2 is the sum of the first three, of so few bits that n P is exact
    for the quarter turns n of |x| ≤ `largest`, and P3T is the rest of P3.
    """

    largest: float
    parts: tuple[float, float, float, float]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


_SINES = {
    "double": _Sines(
        2.0**20,
        (1.57079632673412561417e00, 6.07710050630396597660e-11,
         2.02226624871116645580e-21, 8.47842766036889956997e-32),
        (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
         2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10),
        (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
         -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11),
    ),
    "float": _Sines(
        2.0**13,
        (1.5703125, 4.837512969970703125e-4, 7.549533620476723e-8, 2.56334406825709e-12),
        (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
        (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
    ),
}  # fmt: skip


def define_sincos(module: ir.Module, like: Emitter) -> ir.IRFunction:
    """Add the function ``{sin, cos} sincos(x)`` for such lanes."""
    lanes = like.lanes
    name = f"phipsi_sincos_{lanes}"
    if name in module.globals:
        return module.globals[name]
    rare = None
    if lanes > 1:
        full = f"phipsi_sincos_of_any_{lanes}"
        rare = shared_function(module, like, full, _sincos_of(like), _define_sincos_of_any)
    e, function, x, inside = _begin(module, like, name)
    b, kind = e.builder, ir.IntType(lanes)
    every = ir.IRConstant(kind, 2**lanes - 1)
    if rare is None:
        b.ret(_polynomials(e, *_reduced_if_small(e, x, inside)))
        return function
    near, far = (function.append_basic_block(n) for n in ("near", "far"))
    b.cbranch(b.icmp_unsigned("==", b.bitcast(inside, kind), every), near, far)
    b.position_at_end(far)
    b.ret(b.call(rare, [x.value]))
    b.position_at_end(near)
    b.ret(_polynomials(e, *_reduced(e, x)))
    return function


def _define_sincos_of_any(module: ir.Module, like: Emitter) -> ir.IRFunction:
    """The same function where some angles are large or not finite."""
    e, function, x, inside = _begin(module, like, f"phipsi_sincos_of_any_{like.lanes}")
    # 0 stands in for the large ones, which are reduced later
    y0, y1, quadrant = _reduced(e, e.select(inside, x, 0.0))
    y0, y1, quadrant = _reduced_one_by_one(e, x, inside, [y0.value, y1.value, quadrant])
    e.builder.ret(_polynomials(e, Lane(e, y0), Lane(e, y1), quadrant))
    return function


def _sines(e: Emitter) -> _Sines:
    return _SINES[e.number.name]


def _sincos_of(e: Emitter) -> ir.FunctionType:
    return ir.FunctionType(ir.LiteralStructType([e.vector, e.vector]), [e.vector])


def _begin(module: ir.Module, like: Emitter, name: str) -> tuple[Emitter, ir.IRFunction, Lane, Any]:
    """A function of angles: its emitter, itself, the angles, and which of them are small."""
    function = ir.IRFunction(module, _sincos_of(like), name, "internal")
    e = like.inside(function)
    x = Lane(e, function.args[0])
    return e, function, x, e.compare("<=", e.intrinsic("fabs", x), _sines(e).largest)


def _reduced_one_by_one(e: Emitter, x: Lane, inside: Any, values: list[Any]) -> list[Any]:
    """The same values, with those of large angles put in."""
    b = e.builder
    reduce = define_reduction(b.module, e)
    for i in range(e.lanes):
        at = ir.IRConstant(I32, i)
        before, large, after = b.block, *(b.function.append_basic_block(n) for n in ("one", "on"))
        b.cbranch(b.extract_element(inside, at), after, large)
        b.position_at_end(large)
        found = b.call(reduce, [b.extract_element(x.value, at)])
        new = [b.insert_element(v, b.extract_value(found, k), at) for k, v in enumerate(values)]
        b.branch(after)
        b.position_at_end(after)
        for k, (old, put) in enumerate(zip(values, new, strict=True)):
            values[k] = b.phi(old.type)
            values[k].add_incoming(old, before)
            values[k].add_incoming(put, large)
    return values


def _reduced_if_small(e: Emitter, x: Lane, inside: ir.IRValue) -> tuple[Lane, Lane, Any]:
    """The reduced angle of one lane, by integers if it is large."""
    b = e.builder
    near, far, done = (b.function.append_basic_block(n) for n in ("near", "far", "done"))
    b.cbranch(inside, near, far)
    b.position_at_end(far)
    found = b.call(define_reduction(b.module, e), [x.value])
    large = [b.extract_value(found, i) for i in range(3)]
    b.branch(done)
    b.position_at_end(near)
    y0, y1, quadrant = _reduced(e, x)
    b.branch(done)
    b.position_at_end(done)
    out: list[Any] = []
    for small, other in zip((y0.value, y1.value, quadrant), large, strict=True):
        out.append(b.phi(small.type))
        out[-1].add_incoming(small, near)
        out[-1].add_incoming(other, far)
    return Lane(e, out[0]), Lane(e, out[1]), out[2]


def _reduced(e: Emitter, x: Lane) -> tuple[Lane, Lane, Any]:
    """(y0, y1, n) with x = n π/2 + y0 + y1 for small x; only the last bits of n are right."""
    p1, p2, p3, rest = _sines(e).parts
    shifted = x.times_plus(_TWO_OVER_PI, e.number.whole)
    n = shifted - e.number.whole
    t = n.times_plus(-p1, x)
    w = n * p2
    first = t - w
    low = n.times_plus(p3, w - (t - first))
    y0 = first - low
    y1 = n.times_plus(-rest, (first - y0) - low)
    return y0, y1, e.builder.bitcast(shifted.value, e.integers)


def _polynomials(e: Emitter, y0: Lane, y1: Lane, quadrant: ir.IRValue) -> ir.IRValue:
    """{sin, cos} of the reduced angle, exchanged and with signs as the quadrant asks for."""
    b = e.builder
    z = y0 * y0
    sine = _kernel_sine(_sines(e).sine, y0, y1, z)
    cosine = _kernel_cosine(_sines(e).cosine, y0, y1, z)
    one = ir.IRConstant(e.integers, [1] * e.lanes)
    two = ir.IRConstant(e.integers, [2] * e.lanes)
    zero = ir.IRConstant(e.integers, [0] * e.lanes)
    swap = b.icmp_signed("!=", b.and_(quadrant, one), zero)
    negative_sine = b.icmp_signed("!=", b.and_(quadrant, two), zero)
    shifted = b.add(quadrant, one)
    negative_cosine = b.icmp_signed("!=", b.and_(shifted, two), zero)
    s, c = e.select(swap, cosine, sine), e.select(swap, sine, cosine)
    s, c = e.select(negative_sine, -s, s), e.select(negative_cosine, -c, c)
    pair = ir.IRConstant(ir.LiteralStructType([e.vector, e.vector]), ir.Undefined)
    return b.insert_value(b.insert_value(pair, s.value, 0), c.value, 1)


def _kernel_sine(c: tuple[float, ...], x: Lane, y: Lane, z: Lane) -> Lane:
    v = z * x
    r = _horner(z, c[1:])
    inner = r.times_plus(-v, 0.5 * y)
    return x - v.times_plus(-c[0], z.times_plus(inner, -y))


def _kernel_cosine(c: tuple[float, ...], x: Lane, y: Lane, z: Lane) -> Lane:
    r = z * _horner(z, c)
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + z.times_plus(r, -(x * y)))


def _horner(z: Lane, coefficients: tuple[float, ...]) -> Lane:
    out: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        out = z.times_plus(out, c)
    return out


# ---- large angles --------------------------------------------------------------------------------
#
# Large angles less a multiple of a quarter turn, exactly (Payne and Hanek 1983).
#
# x = m 2^e with an integer m < 2^53. Of x · 2/π only what it leaves modulo 4 matters. The bits
# of 2/π that come long before the point contribute multiples of 4 there, those long behind it
# nothing that counts: 192 bits from place e − 2 on are enough. No number of 64 bits is closer to a
# multiple of π/2 than 2^-61.5 of a quarter turn (Kahan), so that 75 bits of the rest are right at
# least. All of it is integer arithmetic: bitwise identical on every machine.

I128 = ir.IntType(128)
# 2/π = 0.A2F9836E…, behind one word of zeros
_BITS = (
    "0000000000000000"
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561"
    "B7246E3A424DD2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484"
    "E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980F"
    "EF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B"
    "3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB"
)
TABLE = [int(_BITS[i : i + 16], 16) for i in range(0, len(_BITS), 16)]
HALF_PI = 0xC90FDAA22168C234C4C6628B80DC1CD1  # π/2 · 2^127


def define_reduction(module: ir.Module, like: Emitter) -> ir.IRFunction:
    """Add ``{y0, y1, n} phipsi_reduce(x)``: x = n π/2 + y0 + y1 modulo 2π, for large |x|.

    |y0 + y1| ≤ π/4, y1 being what y0 lacks; both are NaN if x is infinite or NaN.
    """
    kind = ir.FunctionType(_triple_of(like.number), [like.number.type])
    return shared_function(module, like.like(1), "phipsi_reduce", kind, _define_reduction)


def _triple_of(number: FloatFormat) -> ir.LiteralStructType:
    return ir.LiteralStructType([number.type, number.type, number.integer])


def _define_reduction(module: ir.Module, like: Emitter) -> ir.IRFunction:
    number, triple = like.number, _triple_of(like.number)
    integer, fraction = number.integer, number.fraction

    def known(i: int) -> ir.IRConstant:
        return ir.IRConstant(integer, i)

    table = ir.ConstantTable(module, I64, TABLE, "phipsi_two_over_pi")
    kind = ir.FunctionType(triple, [number.type])
    function = ir.IRFunction(module, kind, "phipsi_reduce", "internal")
    b = function.begin()
    finite, other = (function.append_basic_block(n) for n in ("finite", "other"))
    (x,) = function.args
    bits, largest = b.bitcast(x, integer), known(2 * number.bias + 1)
    exponent = b.and_(b.lshr(bits, known(fraction)), largest)
    b.cbranch(b.icmp_unsigned("<", exponent, largest), finite, other)
    b.position_at_end(other)
    nothing = b.fsub(x, x)
    b.ret(_triple(b, triple, nothing, nothing, known(0)))
    b.position_at_end(finite)
    whole = b.or_(b.and_(bits, known(2**fraction - 1)), known(2**fraction))
    place = b.sub(exponent, known(number.bias + fraction - 62))
    if number.name == "double":
        quarters, parts, mirrored = _turns(b, table, whole, place)
        high, low = _radians(b, parts, number)
    else:
        whole, place = b.zext(whole, I64), b.zext(place, I64)
        quarters, rest, mirrored = _short_turns(b, table, whole, place)
        quarters = b.trunc(quarters, integer)
        high, low = _short_radians(b, rest, number)
    backwards = b.icmp_signed("<", bits, known(0))
    negative = b.xor(mirrored, backwards)
    high, low = (b.select(negative, b.fneg(y), y) for y in (high, low))
    quarters = b.select(backwards, b.sub(known(0), quarters), quarters)
    b.ret(_triple(b, triple, high, low, quarters))
    return function


def _turns(
    b: ir.IRBuilder, table: ir.IRValue, whole: ir.IRValue, place: ir.IRValue
) -> tuple[Any, list[Any], Any]:
    """Quarter turns of whole · 2^e, and the rest to the nearest one.

    `place` is the bit of the table that counts 2 quarter turns. The rest is a fraction of 192 bits,
    less than half, and whether it is to be taken away.
    """
    window = _window(b, table, place, 3)
    product = [_product(b, whole, w) for w in window]
    middle = b.add(product[1], b.lshr(product[2], _wide(64)))
    top = b.add(product[0], b.lshr(middle, _wide(64)))
    r = [b.trunc(p, I64) for p in (top, middle, product[2])]
    quarters = b.lshr(r[0], i64(62))
    two = i64(2)
    rest = [_moved(b, r[0], r[1], two), _moved(b, r[1], r[2], two), b.shl(r[2], two)]
    mirrored = b.icmp_signed("<", rest[0], i64(0))  # more than half
    turned = b.select(mirrored, i64(-1), i64(0))
    rest = [b.xor(w, turned) for w in rest]
    return b.add(quarters, b.zext(mirrored, I64)), rest, mirrored


def _window(b: ir.IRBuilder, table: ir.IRValue, place: ir.IRValue, count: int) -> list[ir.IRValue]:
    """So many words of the table from a bit on."""
    first, shift = b.lshr(place, i64(6)), b.and_(place, i64(63))
    words = [
        b.load(b.at(table, b.mul(b.add(first, i64(i)), i64(WORD))), typ=I64, align=WORD)
        for i in range(count + 1)
    ]
    return [_moved(b, x, y, shift) for x, y in zip(words, words[1:], strict=False)]


def _short_turns(b: Any, table: Any, whole: Any, place: Any) -> tuple[Any, Any, Any]:
    """The same of an integer below 2^24: the rest is a fraction of 64 bits.

    Products of 32 bits each, because this runs on processors that have no others.
    """
    high, low = _window(b, table, place, 2)
    below = i64(2**32 - 1)
    parts = (b.lshr(high, i64(32)), b.and_(high, below), b.lshr(low, i64(32)))
    product = [b.mul(whole, w) for w in parts]
    top = b.add(b.shl(product[0], i64(32)), b.add(product[1], b.lshr(product[2], i64(32))))
    rest = b.shl(top, i64(2))
    mirrored = b.icmp_signed("<", rest, i64(0))  # more than half
    rest = b.xor(rest, b.select(mirrored, i64(-1), i64(0)))
    return b.add(b.lshr(top, i64(62)), b.zext(mirrored, I64)), rest, mirrored


def _short_radians(b: Any, rest: Any, number: FloatFormat) -> tuple[Any, Any]:
    """A fraction of 64 bits of a quarter turn in rad, as a number and what it lacks."""
    shift = _zeros_before(b, rest)
    out = b.mul(b.lshr(b.shl(rest, shift), i64(32)), i64(HALF_PI >> 96))
    # 64 bits, of which the first or the second is set: 24 exactly, and the next 30
    parts = [b.lshr(out, i64(40)), b.and_(b.lshr(out, i64(10)), i64(2**30 - 1))]
    return _sum_of_parts(b, parts, (-23, -53), shift, number)


def _zeros_before(b: ir.IRBuilder, x: ir.IRValue) -> ir.IRValue:
    """How many bits come before the first that is set."""
    kind, name = ir.FunctionType(I64, [I64, I1]), "llvm.ctlz.i64"
    zeros = b.module.globals.get(name) or ir.IRFunction(b.module, kind, name)
    return b.call(zeros, [x, ir.IRConstant(I1, 1)])


def _sum_of_parts(
    b: ir.IRBuilder,
    parts: Sequence[ir.IRValue],
    units: tuple[int, int],
    shift: ir.IRValue,
    number: FloatFormat,
) -> tuple[Any, Any]:
    """Two integers in units of powers of 2, less a shift: their sum, and what it lacks."""
    integer, numbers = number.integer, list[Any]()
    narrow = shift if integer is I64 else b.trunc(shift, integer)
    for part, unit in zip(parts, units, strict=True):
        exponent = b.sub(ir.IRConstant(integer, number.bias + unit), narrow)
        scale = b.shl(exponent, ir.IRConstant(integer, number.fraction))
        short = b.trunc(part, integer)
        factor = whole_number(b, short, number) if integer is I64 else b.sitofp(short, number.type)
        numbers.append(b.fmul(factor, b.bitcast(scale, number.type)))
    whole = b.fadd(*numbers)
    return whole, b.fsub(numbers[1], b.fsub(whole, numbers[0]))


def _radians(b: ir.IRBuilder, rest: Sequence[ir.IRValue], number: FloatFormat) -> tuple[Any, Any]:
    """A fraction of a quarter turn in rad, as a number and what it lacks."""
    first, second, third = rest
    shift = _zeros_before(b, first)
    high, low = _moved(b, first, second, shift), _moved(b, second, third, shift)
    top, bottom = i64(HALF_PI >> 64), i64(HALF_PI % 2**64)
    out = _product(b, high, top)
    for part in (_product(b, high, bottom), _product(b, low, top)):
        out = b.add(out, b.lshr(part, _wide(64)))
    # 128 bits, of which the first or the second is set: 53 exactly, and the next 62
    parts = [b.lshr(out, _wide(75)), b.and_(b.lshr(out, _wide(13)), _wide(2**62 - 1))]
    return _sum_of_parts(b, parts, (-52, -114), shift, number)


def _moved(b: ir.IRBuilder, x: ir.IRValue, y: ir.IRValue, shift: ir.IRValue) -> ir.IRValue:
    """The first word of two that are moved up by less than 64 bits."""
    if shift.number is None:  # long code on small processors
        known = b.module.globals.get("phipsi_moved")
        return b.call(known or _define_moved(b.module), [x, y, shift])
    return _shifted(b, x, y, shift)


def _define_moved(module: ir.Module) -> ir.IRFunction:
    function = ir.IRFunction(module, ir.FunctionType(I64, [I64] * 3), "phipsi_moved", "internal")
    b = function.begin()
    b.ret(_shifted(b, *function.args))
    return function


def _shifted(b: ir.IRBuilder, x: ir.IRValue, y: ir.IRValue, shift: ir.IRValue) -> ir.IRValue:
    back = b.sub(i64(63), shift)
    return b.or_(b.shl(x, shift), b.lshr(b.lshr(y, i64(1)), back))


def _product(b: ir.IRBuilder, x: ir.IRValue, y: ir.IRValue) -> ir.IRValue:
    """x y of two words, 128 bits."""
    known = b.module.globals.get("phipsi_product")
    return b.call(known or _define_product(b.module), [x, y])


def _define_product(module: ir.Module) -> ir.IRFunction:
    """By halves, as not every processor has the instruction."""
    function = ir.IRFunction(
        module, ir.FunctionType(I128, [I64, I64]), "phipsi_product", "internal"
    )
    b = function.begin()
    x, y = function.args
    (x0, x1), (y0, y1) = ((b.and_(w, i64(2**32 - 1)), b.lshr(w, i64(32))) for w in (x, y))
    low, left, right, high = (b.mul(*pair) for pair in ((x0, y0), (x0, y1), (x1, y0), (x1, y1)))
    carried = b.add(b.lshr(low, i64(32)), b.and_(left, i64(2**32 - 1)))
    carried = b.add(carried, b.and_(right, i64(2**32 - 1)))
    low = b.or_(b.and_(low, i64(2**32 - 1)), b.shl(carried, i64(32)))
    for part in (left, right, carried):
        high = b.add(high, b.lshr(part, i64(32)))
    b.ret(b.or_(b.shl(b.zext(high, I128), _wide(64)), b.zext(low, I128)))
    return function


def whole_number(b: ir.IRBuilder, word: ir.IRValue, number: FloatFormat) -> ir.IRValue:
    """An integer below 2^63 as a double, rounded once, without a conversion of 64 bits.

    As a float it must be below 2^32.
    """
    if number.name == "float":
        return b.uitofp(b.trunc(word, I32), number.type)
    low = b.or_(b.and_(word, i64(2**32 - 1)), i64(0x433 << 52))  # 2^52 + the lower half
    high = b.or_(b.lshr(word, i64(32)), i64(0x453 << 52))  # 2^84 + the upper half · 2^32
    parts = [
        b.fsub(b.bitcast(x, ir.DOUBLE), ir.IRConstant(ir.DOUBLE, offset))
        for x, offset in ((high, 2.0**84), (low, 2.0**52))
    ]
    return b.fadd(*parts)


def _triple(b: ir.IRBuilder, kind: ir.IRType, *members: ir.IRValue) -> ir.IRValue:
    out: Any = ir.IRConstant(kind, ir.Undefined)
    for i, x in enumerate(members):
        out = b.insert_value(out, x, i)
    return out


def _wide(x: int) -> ir.IRConstant:
    return ir.IRConstant(I128, x)


# ---- logarithm -----------------------------------------------------------------------------------
#
# The natural logarithm of vector registers, within 1 ulp.
#
# x = 2^k (1 + f) with 1 + f between √½ and √2, and with s = f/(2 + f)
#
#     log(1 + f) = log(1 + s) − log(1 − s) = f − f²/2 + s (f²/2 + R(s²)),
#
# R being a minimax polynomial; the method and the numbers are those of FreeBSD's e_log.c. k log 2
# is added in two parts, the first of which is exact.


@dataclass(frozen=True)
class Logs:
    """The constants of logarithm, exponential and powers.

    log 2 in two parts, the first exact with any exponent; the coefficients R1, R2, …; bits of √½,
    shortened; the power of 2 by which numbers with fewer bits than usual are multiplied.
    """

    ln2: tuple[float, float]
    series: tuple[float, ...]
    root: int
    lift: int


LOGS = {
    "double": Logs(
        (6.93147180369123816490e-01, 1.90821492927058770002e-10),
        (6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
         2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
         1.479819860511658591e-01),
        0x3FE6A09E << 32,
        54,
    ),
    "float": Logs(
        (6.9313812256e-01, 9.0580006145e-06),
        (6.6666662693e-01, 4.0000972152e-01, 2.8498786688e-01, 2.4279078841e-01),
        0x3F3504F3,
        25,
    ),
}  # fmt: skip


def define_log(module: ir.Module, like: Emitter) -> ir.IRFunction:
    """Add the function ``log(x)``: −inf of 0, NaN of negative numbers."""
    lanes, kind, logs = like.lanes, like.number, LOGS[like.number.name]
    name = f"phipsi_log_{lanes}"
    if name in module.globals:
        return module.globals[name]
    signature = ir.FunctionType(like.vector, [like.vector])
    function = ir.IRFunction(module, signature, name, "internal")
    e, count = like.inside(function), 2.0**kind.fraction
    b = e.builder
    x = Lane(e, function.args[0])

    tiny = e.compare("<", x, 2.0 ** (1 - kind.bias))  # such numbers have fewer bits
    start, rare, usual = b.block, *(function.append_basic_block(n) for n in ("rare", "usual"))
    flags = ir.IntType(lanes)
    b.cbranch(b.icmp_unsigned("!=", b.bitcast(tiny, flags), ir.IRConstant(flags, 0)), rare, usual)
    b.position_at_end(rare)
    scaled = e.select(tiny, x * 2.0**logs.lift, x)
    offset = e.select(tiny, count + kind.bias + logs.lift, count + kind.bias)
    b.branch(usual)
    b.position_at_end(usual)
    normal, zero = b.phi(e.vector), b.phi(e.vector)
    for phi, values in ((normal, (x, scaled)), (zero, (e.constant(count + kind.bias), offset))):
        for value, origin in zip(values, (start, rare), strict=True):
            phi.add_incoming(value.value, origin)
    bits = b.add(b.bitcast(normal, e.integers), e.integer(kind.one_bits - logs.root))
    # or-ing an integer to the bits of 2^fraction gives 2^fraction + that number
    exponent = b.or_(b.lshr(bits, e.integer(kind.fraction)), e.integer(kind.count_bits))
    k = Lane(e, b.bitcast(exponent, e.vector)) - Lane(e, zero)
    near_one = b.add(b.and_(bits, e.integer(2**kind.fraction - 1)), e.integer(logs.root))
    f = Lane(e, b.bitcast(near_one, e.vector)) - 1.0
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * _horner(w, logs.series[1::2])
    rest = z.times_plus(_horner(w, logs.series[::2]), even)
    low = s.times_plus(half + rest, k * logs.ln2[1])
    out = k.times_plus(logs.ln2[0], f - (half - low))
    out = e.select(e.compare(">", x, 0.0), out, e.select(e.compare("==", x, 0.0), -_INF, _NAN))
    b.ret(e.select(e.compare("==", x, _INF), x, out).value)
    return function


def log_of(e: Emitter, x: Lane) -> Lane:
    """The natural logarithm."""
    return Lane(e, e.builder.call(define_log(e.builder.module, e), [x.value]))


_INF, _NAN = float("inf"), float("nan")
