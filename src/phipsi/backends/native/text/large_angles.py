"""Large angles less a multiple of a quarter turn, exactly (Payne and Hanek 1983).

x = m 2^e with a whole number m < 2^53. Of x · 2/π only what it leaves modulo 4 matters. The bits of
2/π that come long before the point contribute multiples of 4 there, those long behind it nothing
that counts: 192 bits from place e − 2 on are enough. No number of 64 bits is closer to a multiple
of π/2 than 2^-61.5 of a quarter turn (Kahan), so that 75 bits of the rest are right at least.

All of it is arithmetic on whole numbers: the same bits on every machine.
"""

from __future__ import annotations

from typing import Any

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import DOUBLE, I1, I8, I64

I128 = ir.IntType(128)
# 2/π = 0.A2F9836E…, behind one word of zeros
_TWO_OVER_PI = (
    "0000000000000000"
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561"
    "B7246E3A424DD2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484"
    "E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980F"
    "EF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B"
    "3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB"
)
TABLE = [int(_TWO_OVER_PI[i : i + 16], 16) for i in range(0, len(_TWO_OVER_PI), 16)]
HALF_PI = 0xC90FDAA22168C234C4C6628B80DC1CD1  # π/2 · 2^127
REDUCED = ir.LiteralStructType([DOUBLE, DOUBLE, I64])


def define_reduction(module: ir.Module) -> ir.Function:
    """Add ``{y0, y1, n} phipsi_reduce(x)``: x = n π/2 + y0 + y1 modulo 2π, for |x| ≥ 2^20.

    |y0 + y1| ≤ π/4, y1 being what y0 lacks; both are NaN if x is infinite or NaN.
    """
    name = "phipsi_reduce"
    if name in module.globals:
        return module.globals[name]
    table = ir.Table(module, I64, TABLE, "phipsi_two_over_pi")
    function = ir.Function(module, ir.FunctionType(REDUCED, [DOUBLE]), name)
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block("entry"))
    finite, other = (function.append_basic_block(n) for n in ("finite", "other"))
    (x,) = function.args
    bits = b.bitcast(x, I64)
    exponent = b.and_(b.lshr(bits, _word(52)), _word(2047))
    b.cbranch(b.icmp_unsigned("<", exponent, _word(2047)), finite, other)
    b.position_at_end(other)
    nothing = b.fsub(x, x)
    b.ret(_triple(b, nothing, nothing, _word(0)))
    b.position_at_end(finite)
    whole = b.or_(b.and_(bits, _word(2**52 - 1)), _word(2**52))
    quarters, rest, mirrored = _turns(b, table, whole, b.sub(exponent, _word(1075 - 62)))
    high, low = _radians(b, *rest)
    backwards = b.icmp_signed("<", bits, _word(0))
    negative = b.xor(mirrored, backwards)
    high, low = (b.select(negative, b.fneg(y), y) for y in (high, low))
    quarters = b.select(backwards, b.sub(_word(0), quarters), quarters)
    b.ret(_triple(b, high, low, quarters))
    return function


def _turns(b: Any, table: Any, whole: Any, place: Any) -> tuple[Any, list[Any], Any]:
    """Quarter turns of whole · 2^e, and the rest to the nearest one.

    `place` is the bit of the table that counts 2 quarter turns. The rest is a fraction of 192 bits,
    less than half, and whether it is to be taken away.
    """
    first, shift = b.lshr(place, _word(6)), b.and_(place, _word(63))
    words = [
        b.load(
            b.gep(table, [b.mul(b.add(first, _word(i)), _word(8))], source_etype=I8),
            typ=I64,
            align=8,
        )
        for i in range(4)
    ]
    window = [_moved(b, x, y, shift) for x, y in zip(words, words[1:], strict=False)]
    wide = b.zext(whole, I128)
    product = [b.mul(wide, b.zext(w, I128)) for w in window]
    middle = b.add(product[1], b.lshr(product[2], _wide(64)))
    top = b.add(product[0], b.lshr(middle, _wide(64)))
    r = [b.trunc(p, I64) for p in (top, middle, product[2])]
    quarters = b.lshr(r[0], _word(62))
    two = _word(2)
    rest = [_moved(b, r[0], r[1], two), _moved(b, r[1], r[2], two), b.shl(r[2], two)]
    mirrored = b.icmp_signed("<", rest[0], _word(0))  # more than half
    turned = b.select(mirrored, _word(-1), _word(0))
    rest = [b.xor(w, turned) for w in rest]
    return b.add(quarters, b.zext(mirrored, I64)), rest, mirrored


def _radians(b: Any, first: Any, second: Any, third: Any) -> tuple[Any, Any]:
    """A fraction of a quarter turn in rad, as a number and what it lacks."""
    kind = ir.FunctionType(I64, [I64, I1])
    zeros = b.module.globals.get("llvm.ctlz.i64") or ir.Function(b.module, kind, "llvm.ctlz.i64")
    shift = b.call(zeros, [first, ir.Constant(I1, 1)])
    high, low = _moved(b, first, second, shift), _moved(b, second, third, shift)
    top, bottom = (ir.Constant(I128, x) for x in (HALF_PI >> 64, HALF_PI % 2**64))
    high, low = b.zext(high, I128), b.zext(low, I128)
    out = b.mul(high, top)
    for part in (b.mul(high, bottom), b.mul(low, top)):
        out = b.add(out, b.lshr(part, _wide(64)))
    # 128 bits, of which the first or the second is set: 53 exactly, and the next 62
    parts = [b.lshr(out, _wide(75)), b.and_(b.lshr(out, _wide(13)), _wide(2**62 - 1))]
    numbers: list[Any] = []
    for part, unit in zip(parts, (-52, -114), strict=True):
        scale = b.shl(b.sub(_word(1023 + unit), shift), _word(52))
        number = b.sitofp(b.trunc(part, I64), DOUBLE)
        numbers.append(b.fmul(number, b.bitcast(scale, DOUBLE)))
    whole = b.fadd(*numbers)
    return whole, b.fsub(numbers[1], b.fsub(whole, numbers[0]))


def _moved(b: Any, x: Any, y: Any, shift: Any) -> Any:
    """The first word of two that are moved up by less than 64 bits."""
    back = b.sub(_word(63), shift)
    return b.or_(b.shl(x, shift), b.lshr(b.lshr(y, _word(1)), back))


def _triple(b: Any, *members: Any) -> Any:
    out: Any = ir.Constant(REDUCED, ir.Undefined)
    for i, x in enumerate(members):
        out = b.insert_value(out, x, i)
    return out


def _word(x: int) -> ir.Constant:
    return ir.Constant(I64, x)


def _wide(x: int) -> ir.Constant:
    return ir.Constant(I128, x)
