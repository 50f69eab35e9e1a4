"""The natural logarithm of vector registers, within 1 ulp.

x = 2^k (1 + f) with 1 + f between √½ and √2, and with s = f/(2 + f)

    log(1 + f) = log(1 + s) − log(1 − s) = f − f²/2 + s (f²/2 + R(s²)),

R being a minimax polynomial; the method and the numbers are those of FreeBSD's e_log.c. k log 2 is
added in two parts, the first of which is exact.
"""

from __future__ import annotations

from typing import Any

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import Emitter, Lane

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_R = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
    1.479819860511658591e-01,
)  # fmt: skip
_SMALLEST = 2.0**-1022  # below it numbers have fewer bits
_ROOT = 0x3FE6A09E << 32  # bits of √½, shortened
_ONE = 0x3FF << 52
_MANTISSA = 2**52 - 1
_COUNT = 0x433 << 52  # bits of 2^52: or-ing a whole number to it gives 2^52 + that number


def define_log(module: ir.Module, lanes: int, *, fused: bool) -> ir.Function:
    """Add the function ``log(x)``: −inf of 0, NaN of negative numbers."""
    name = f"phipsi_log_{lanes}"
    if name in module.globals:
        return module.globals[name]
    e = Emitter(lanes, fused=fused)
    function = ir.Function(module, ir.FunctionType(e.vector, [e.vector]), name)
    function.linkage = "internal"
    e.builder = b = ir.IRBuilder(function.append_basic_block("entry"))
    x = Lane(e, function.args[0])

    def integers(value: int) -> Any:
        return ir.Constant(e.integers, [value] * lanes)

    tiny = e.compare("<", x, _SMALLEST)
    start, rare, usual = b.block, *(function.append_basic_block(n) for n in ("rare", "usual"))
    kind = ir.IntType(lanes)
    b.cbranch(b.icmp_unsigned("!=", b.bitcast(tiny, kind), ir.Constant(kind, 0)), rare, usual)
    b.position_at_end(rare)
    scaled = e.select(tiny, x * 2.0**54, x)
    offset = e.select(tiny, 2.0**52 + 1077, 2.0**52 + 1023)
    b.branch(usual)
    b.position_at_end(usual)
    normal, zero = b.phi(e.vector), b.phi(e.vector)
    for phi, values in ((normal, (x, scaled)), (zero, (e.constant(2.0**52 + 1023), offset))):
        for value, origin in zip(values, (start, rare), strict=True):
            phi.add_incoming(value.value, origin)
    bits = b.add(b.bitcast(normal, e.integers), integers(_ONE - _ROOT))
    exponent = b.or_(b.lshr(bits, integers(52)), integers(_COUNT))
    k = Lane(e, b.bitcast(exponent, e.vector)) - Lane(e, zero)
    near_one = b.add(b.and_(bits, integers(_MANTISSA)), integers(_ROOT))
    f = Lane(e, b.bitcast(near_one, e.vector)) - 1.0
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * w.times_plus(w.times_plus(_R[5], _R[3]), _R[1])
    odd = w.times_plus(w.times_plus(w.times_plus(_R[6], _R[4]), _R[2]), _R[0])
    rest = z.times_plus(odd, even)
    low = s.times_plus(half + rest, k * _LN2_LOW)
    out = k.times_plus(_LN2_HIGH, f - (half - low))
    out = e.select(e.compare(">", x, 0.0), out, e.select(e.compare("==", x, 0.0), -_INF, _NAN))
    b.ret(e.select(e.compare("==", x, _INF), x, out).value)
    return function


_INF, _NAN = float("inf"), float("nan")
