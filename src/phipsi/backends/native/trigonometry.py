"""Sine and cosine of vector registers.

Argument reduction by π/2 in three exact parts (Cody and Waite), then minimax polynomials on
[−π/4, π/4], with the low part of the reduced argument carried along. Within 1 ulp for |x| ≤ 2^20.
Lanes beyond that, and non-finite ones, are computed one by one by the C library; what a lane gets
depends on its own argument only, never on its neighbours.
"""

from __future__ import annotations

from typing import Any

from phipsi.backends.native import llvm_text as ir
from phipsi.backends.native.lanes import DOUBLE, I32, I64, Emitter, Lane

LARGEST = 2.0**20
_TWO_OVER_PI = 6.36619772367581382433e-01
# π/2 = P1 + P2 + P3 + …, each part of 33 bits, so that n · P is exact for |n| < 2^20
_P1, _P2 = 1.57079632673412561417e00, 6.07710050630396597660e-11
_P3, _P3T = 2.02226624871116645580e-21, 8.47842766036889956997e-32
_SIN = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_COS = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip


def define_sincos(module: ir.Module, lanes: int, *, fused: bool) -> ir.Function:
    """Add the function ``{sin, cos} sincos(x)`` to the module."""
    name = f"phipsi_sincos_{lanes}"
    if name in module.globals:
        return module.globals[name]
    e = Emitter(lanes, fused=fused)
    pair = ir.LiteralStructType([e.vector, e.vector])
    function = ir.Function(module, ir.FunctionType(pair, [e.vector]), name)
    function.linkage = "internal"
    e.builder = b = ir.IRBuilder(function.append_basic_block("entry"))
    x = Lane(e, function.args[0])
    inside = e.compare("<=", e.intrinsic("fabs", x), LARGEST)
    # 0 stands in for the others, which are replaced later: no overflow, a quadrant that fits
    sine, cosine = _polynomials(e, e.select(inside, x, 0.0))
    all_inside = b.icmp_unsigned(
        "==", b.bitcast(inside, ir.IntType(lanes)), ir.Constant(ir.IntType(lanes), 2**lanes - 1)
    )
    fast, slow = function.append_basic_block("fast"), function.append_basic_block("slow")
    b.cbranch(all_inside, fast, slow)
    b.position_at_end(fast)
    b.ret(_pair(b, pair, sine, cosine))
    b.position_at_end(slow)
    for name, value in (("sin", sine), ("cos", cosine)):
        library = library_function(module, name)
        out = value.value
        for i in range(lanes):
            at = ir.Constant(I32, i)
            exact = b.call(library, [b.extract_element(x.value, at)])
            mine = b.extract_element(out, at)
            good = b.extract_element(inside, at)
            out = b.insert_element(out, b.select(good, mine, exact), at)
        if name == "sin":
            sine = Lane(e, out)
        else:
            cosine = Lane(e, out)
    b.ret(_pair(b, pair, sine, cosine))
    return function


def _pair(b: Any, pair: Any, sine: Lane, cosine: Lane) -> Any:
    out = b.insert_value(ir.Constant(pair, ir.Undefined), sine.value, 0)
    return b.insert_value(out, cosine.value, 1)


def _polynomials(e: Emitter, x: Lane) -> tuple[Lane, Lane]:
    b = e.builder
    n = e.intrinsic("roundeven", x * _TWO_OVER_PI)
    t = n.times_plus(-_P1, x)
    w = n * _P2
    first = t - w
    low = n.times_plus(_P3, w - (t - first))
    y0 = first - low
    y1 = n.times_plus(-_P3T, (first - y0) - low)
    z = y0 * y0
    sine = _kernel_sine(y0, y1, z)
    cosine = _kernel_cosine(y0, y1, z)
    quadrant = b.fptosi(n.value, e.integers)  # n mod 4 is what matters
    one = ir.Constant(e.integers, [1] * e.lanes)
    two = ir.Constant(e.integers, [2] * e.lanes)
    zero = ir.Constant(e.integers, [0] * e.lanes)
    swap = b.icmp_signed("!=", b.and_(quadrant, one), zero)
    negative_sine = b.icmp_signed("!=", b.and_(quadrant, two), zero)
    shifted = b.add(quadrant, one)
    negative_cosine = b.icmp_signed("!=", b.and_(shifted, two), zero)
    s, c = e.select(swap, cosine, sine), e.select(swap, sine, cosine)
    return e.select(negative_sine, -s, s), e.select(negative_cosine, -c, c)


def _kernel_sine(x: Lane, y: Lane, z: Lane) -> Lane:
    v = z * x
    r = _horner(z, _SIN[1:])
    inner = r.times_plus(-v, 0.5 * y)
    return x - v.times_plus(-_SIN[0], z.times_plus(inner, -y))


def _kernel_cosine(x: Lane, y: Lane, z: Lane) -> Lane:
    r = z * _horner(z, _COS)
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + z.times_plus(r, -(x * y)))


def _horner(z: Lane, coefficients: tuple[float, ...]) -> Any:
    out: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        out = z.times_plus(out, c)
    return out


def library_function(module: ir.Module, name: str) -> ir.Function:
    """A function double → double of the C library."""
    found = module.globals.get(name)
    return found or ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE]), name)


def i64(x: int) -> ir.Constant:
    """A 64-bit integer constant."""
    return ir.Constant(I64, x)
