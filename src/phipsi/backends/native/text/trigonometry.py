"""Sine and cosine of vector registers.

Argument reduction by π/2 in three exact parts (Cody and Waite) for |x| ≤ 2^20, lane by lane by
whole numbers beyond (`large_angles`); then minimax polynomials on [−π/4, π/4], with the low part of
the reduced argument carried along. Within 1 ulp. What a lane gets depends on its own argument
only, never on its neighbours, and on no library.
"""

from __future__ import annotations

from typing import Any

from phipsi.backends.native.text import llvm_text as ir
from phipsi.backends.native.text.lanes import I32, Emitter, Lane
from phipsi.backends.native.text.large_angles import define_reduction

LARGEST = 2.0**20
_TWO_OVER_PI = 6.36619772367581382433e-01
_WHOLE = 1.5 * 2.0**52  # a number added to this is rounded to a whole one, to the even one of two
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
    rare = _define_sincos_of_any(module, lanes, fused=fused)
    e, function, x, inside = _begin(module, lanes, fused, name)
    b, kind = e.builder, ir.IntType(lanes)
    near, far = (function.append_basic_block(n) for n in ("near", "far"))
    every = ir.Constant(kind, 2**lanes - 1)
    b.cbranch(b.icmp_unsigned("==", b.bitcast(inside, kind), every), near, far)
    b.position_at_end(far)
    b.ret(b.call(rare, [x.value]))
    b.position_at_end(near)
    b.ret(_polynomials(e, *_reduced(e, x)))
    return function


def _define_sincos_of_any(module: ir.Module, lanes: int, *, fused: bool) -> ir.Function:
    """The same function where some angles are large or not finite."""
    e, function, x, inside = _begin(module, lanes, fused, f"phipsi_sincos_of_any_{lanes}")
    # 0 stands in for the large ones, which are reduced later
    y0, y1, quadrant = _reduced(e, e.select(inside, x, 0.0))
    y0, y1, quadrant = _reduced_one_by_one(e, x, inside, [y0.value, y1.value, quadrant])
    e.builder.ret(_polynomials(e, Lane(e, y0), Lane(e, y1), quadrant))
    return function


def _begin(
    module: ir.Module, lanes: int, fused: bool, name: str
) -> tuple[Emitter, ir.Function, Lane, Any]:
    """A function of angles: its emitter, itself, the angles, and which of them are small."""
    e = Emitter(lanes, fused=fused)
    pair = ir.LiteralStructType([e.vector, e.vector])
    function = ir.Function(module, ir.FunctionType(pair, [e.vector]), name)
    function.linkage = "internal"
    e.builder = ir.IRBuilder(function.append_basic_block("entry"))
    x = Lane(e, function.args[0])
    return e, function, x, e.compare("<=", e.intrinsic("fabs", x), LARGEST)


def _reduced_one_by_one(e: Emitter, x: Lane, inside: Any, values: list[Any]) -> list[Any]:
    """The same values, with those of large angles put in."""
    b = e.builder
    reduce = define_reduction(b.module)
    for i in range(e.lanes):
        at = ir.Constant(I32, i)
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


def _reduced(e: Emitter, x: Lane) -> tuple[Lane, Lane, Any]:
    """(y0, y1, n) with x = n π/2 + y0 + y1 for |x| ≤ 2^20; only the last bits of n are right."""
    shifted = x.times_plus(_TWO_OVER_PI, _WHOLE)
    n = shifted - _WHOLE
    t = n.times_plus(-_P1, x)
    w = n * _P2
    first = t - w
    low = n.times_plus(_P3, w - (t - first))
    y0 = first - low
    y1 = n.times_plus(-_P3T, (first - y0) - low)
    return y0, y1, e.builder.bitcast(shifted.value, e.integers)


def _polynomials(e: Emitter, y0: Lane, y1: Lane, quadrant: Any) -> Any:
    """{sin, cos} of the reduced angle, exchanged and with signs as the quadrant asks for."""
    b = e.builder
    z = y0 * y0
    sine = _kernel_sine(y0, y1, z)
    cosine = _kernel_cosine(y0, y1, z)
    one = ir.Constant(e.integers, [1] * e.lanes)
    two = ir.Constant(e.integers, [2] * e.lanes)
    zero = ir.Constant(e.integers, [0] * e.lanes)
    swap = b.icmp_signed("!=", b.and_(quadrant, one), zero)
    negative_sine = b.icmp_signed("!=", b.and_(quadrant, two), zero)
    shifted = b.add(quadrant, one)
    negative_cosine = b.icmp_signed("!=", b.and_(shifted, two), zero)
    s, c = e.select(swap, cosine, sine), e.select(swap, sine, cosine)
    s, c = e.select(negative_sine, -s, s), e.select(negative_cosine, -c, c)
    pair = ir.Constant(ir.LiteralStructType([e.vector, e.vector]), ir.Undefined)
    return b.insert_value(b.insert_value(pair, s.value, 0), c.value, 1)


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
