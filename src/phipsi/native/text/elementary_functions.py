"""Elementary functions of vector registers besides sine, cosine and logarithm.

    exp                 x = k log 2 + r, a rational function of r², then 2^k in two factors
    sinh, cosh, tanh    rational functions near 0, exponentials beyond
    arctan, arctan2     reduction to |x| < 0.66 by tan(π/4), tan(3π/8), a rational function
    arcsin, arccos      by arctan2 of the sides of the triangle
    tan                 sin / cos
    power               exp(y log x), the logarithm in two numbers
    remainder           long division in binary digits: every difference is exact
    floor_divide        by the remainder, as NumPy and Python do it

The rational functions are those of FreeBSD's e_exp.c and of Moshier's Cephes library. What a lane
gets depends on its own argument only, and on no library. Errors in ulp, measured against many
digits: exp, sinh, cosh, tanh, arctan 1–2; arctan2, arcsin, arccos, tan 2–3; power 2 where the
result is between 1e-30 and 1e30, up to 12 at the ends of the range; remainder and floor_divide have
NumPy's bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Emitter, Lane
from phipsi.native.text.sine_and_logarithm import LOGS, define_sincos

_INF, _NAN = float("inf"), float("nan")
_PER_LN2 = 1.44269504088896338700
_TAN_3_8 = 2.41421356237309504880  # tan(3π/8)
_HALF_PI = 1.57079632679489661923
_PI = 2 * _HALF_PI

Coefficients = tuple[float, ...]


@dataclass(frozen=True)
class _Constants:
    """What the functions of one kind of number are computed with.

    `exp`, of (2 + c)/(2 − c); `finite` and `positive`, arguments of exp beyond which it is infinite
    or zero; `half_finite`, beyond which exp is halved before it overflows; `tanh`, `sinh`,
    `arctan`, ratios of polynomials; `middle`, where arctan turns by π/4; `half_pi_rest`, π/2 less
    the number nearest to it; `half_bits`, how many bits the lower half of a product's factor has;
    `artanh`, how many terms of its series.
    """

    exp: Coefficients
    finite: float
    positive: float
    half_finite: float
    tanh: tuple[Coefficients, Coefficients]
    sinh: tuple[Coefficients, Coefficients]
    arctan: tuple[Coefficients, Coefficients]
    middle: float
    half_pi_rest: float
    half_bits: int
    artanh: int


_CONSTANTS = {
    "double": _Constants(
        (1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
         -1.65339022054652515390e-06, 4.13813679705723846039e-08),
        709.782712893383973096, -745.13321910194110842, 709.0,
        ((-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1),
         (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)),
        ((-3.51754964808151394800e5, -1.15614435765005216044e4, -1.63725857525983828727e2,
          -7.89474443963537015605e-1),
         (-2.11052978884890840399e6, 3.61578279834431989373e4, -2.77711081420602794433e2, 1.0)),
        ((-6.485021904942025371773e1, -1.228866684490136173410e2, -7.500855792314704667340e1,
          -1.615753718733365076637e1, -8.750608600031904122785e-1),
         (1.945506571482613964425e2, 4.853903996359136964868e2, 4.328810604912902668951e2,
          1.650270098316988542046e2, 2.485846490142306297962e1, 1.0)),
        0.66, 6.123233995736765886130e-17, 27, 11,
    ),
    "float": _Constants(
        (1.6666625440e-1, -2.7667332906e-3),
        88.72283, -103.97207, 88.0,
        ((-3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2, 2.06390887954e-2,
          -5.70498872745e-3), (1.0,)),
        ((1.66667160211e-1, 8.33028376239e-3, 2.03721912945e-4), (1.0,)),
        ((-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2), (1.0,)),
        0.4142135623730950, -4.37113900018624283e-8, 12, 6,
    ),
}  # fmt: skip

Body = Callable[..., Lane]


def define(module: ir.Module, name: str, like: Emitter) -> ir.IRFunction:
    """Add one of the functions to a module, by its name in the table."""
    full = f"phipsi_{name}_{like.lanes}"
    if full in module.globals:
        return module.globals[full]
    count, body = FUNCTIONS[name]
    signature = ir.FunctionType(like.vector, [like.vector] * count)
    function = ir.IRFunction(module, signature, full, "internal")
    e = like.inside(function)
    e.builder.ret(body(_Tools(e), *(Lane(e, x) for x in function.args)).value)
    return function


class _Tools:
    """What the functions are written with: choices, other functions, bits."""

    def __init__(self, emitter: Emitter) -> None:
        self.module, self.e = emitter.builder.module, emitter
        self.known = _CONSTANTS[emitter.number.name]
        self.ln2 = LOGS[emitter.number.name].ln2

    def call(self, name: str, *args: Lane) -> Lane:
        """Another function of the table."""
        inner = define(self.module, name, self.e)
        return Lane(self.e, self.e.builder.call(inner, [x.value for x in args]))

    def sincos(self, x: Lane) -> tuple[Lane, Lane]:
        inner = define_sincos(self.module, self.e)
        pair = self.e.builder.call(inner, [x.value])
        sine, cosine = (self.e.builder.extract_value(pair, i) for i in range(2))
        return Lane(self.e, sine), Lane(self.e, cosine)

    def pick(
        self, relation: str, x: Lane, y: float | Lane, then: float | Lane, other: float | Lane
    ) -> Lane:
        return self.e.select(self.e.compare(relation, x, y), then, other)

    def abs(self, x: Lane) -> Lane:
        return self.e.intrinsic("fabs", x)

    def sign_of(self, x: Lane, sign: Lane) -> Lane:
        return self.e.intrinsic("copysign", x, sign)

    def nan_or(self, x: Lane, out: Lane) -> Lane:
        """NaN where x is NaN."""
        return self.pick("==", x, x, out, x)

    def repeated(
        self, live: Callable[..., Any], body: Callable[..., list[Lane]], *starts: Lane
    ) -> list[Lane]:
        """While ``live(*values)`` holds in some lanes: values = body(where it does, *values)."""
        e, b = self.e, self.e.builder
        head, inside, after = (b.function.append_basic_block(n) for n in ("while", "do", "end"))
        before, kind = b.block, ir.IntType(e.lanes)
        b.branch(head)
        b.position_at_end(head)
        phis = [b.phi(e.vector) for _ in starts]
        values = [Lane(e, phi) for phi in phis]
        which = live(*values)
        b.cbranch(
            b.icmp_unsigned("!=", b.bitcast(which, kind), ir.IRConstant(kind, 0)), inside, after
        )
        b.position_at_end(inside)
        for phi, start, new in zip(phis, starts, body(which, *values), strict=True):
            phi.add_incoming(start.value, before)
            phi.add_incoming(new.value, b.block)
        b.branch(head)
        b.position_at_end(after)
        return values

    def two_to(self, whole: ir.IRValue) -> Lane:
        """2^k of integers within the range of exponents."""
        e, b = self.e, self.e.builder
        bits = b.shl(b.add(whole, e.integer(e.number.bias)), e.integer(e.number.fraction))
        return Lane(e, b.bitcast(bits, e.vector))


def _polynomial(x: Lane, coefficients: tuple[float, ...]) -> Lane:
    """Σ c_i x^i."""
    out: Any = x.emitter.constant(coefficients[-1])
    for c in coefficients[-2::-1]:
        out = out.times_plus(x, c)
    return out


def _ratio(x: Lane, pair: tuple[Coefficients, Coefficients]) -> Lane:
    above, below = pair
    out = _polynomial(x, above)
    return out if below == (1.0,) else out / _polynomial(x, below)


def _exp(t: _Tools, x: Lane) -> Lane:
    """exp(x + 0)."""
    return _exp_of_sum(t, x, None)


def _exp_of_sum(t: _Tools, x: Lane, rest: Lane | None) -> Lane:
    """exp(x + rest), |rest| below an ulp of x."""
    e, b = t.e, t.e.builder
    known = t.known
    most, least = math.ceil(known.finite), math.floor(known.positive)
    inside = t.pick("<", x, most, x, most)
    inside = t.pick(">", inside, least, inside, least)
    shifted, high, low, r, c = _exp_reduced(t, inside, rest)
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    whole = b.sub(b.bitcast(shifted.value, e.integers), e.integer(e.number.whole_bits))
    # k is within ±1076: half of it is, by a shift of 2000 + k, which is positive
    half = b.sub(b.lshr(b.add(whole, e.integer(2000)), e.integer(1)), e.integer(1000))
    out = y * t.two_to(half) * t.two_to(b.sub(whole, half))
    out = t.pick(">", x, known.finite, _INF, out)
    out = t.pick("<", x, known.positive, 0.0, out)
    return t.nan_or(x, out)


def _exp_reduced(
    t: _Tools, x: Lane, rest: Lane | None = None
) -> tuple[Lane, Lane, Lane, Lane, Lane]:
    """(k and what rounds it, high, low, r, c): exp(x + rest) = 2^k (1 + high − low + r c/(2 − c)).

    r = high − low is x + rest less k log 2.
    """
    unit, (ln2_high, ln2_low) = t.e.number.whole, t.ln2
    shifted = x.times_plus(_PER_LN2, unit)
    k = shifted - unit
    high = (-k).times_plus(ln2_high, x)
    low = k * ln2_low if rest is None else k * ln2_low - rest
    r = high - low
    square = r * r
    return shifted, high, low, r, r - square * _polynomial(square, t.known.exp)


def _halves(t: _Tools, x: Lane) -> tuple[Lane, Lane]:
    """exp(|x|)/2 without overflow before it must be, and exp(−|x|)/2."""
    size = t.abs(x)
    large = e_half = t.call("exp", size * 0.5)
    whole = t.call("exp", size)
    large = e_half * 0.5 * e_half
    grown = t.pick(">", size, t.known.half_finite, large, whole * 0.5)
    return grown, 0.5 / whole


def _sinh(t: _Tools, x: Lane) -> Lane:
    z = x * x
    near = x + x * z * _ratio(z, t.known.sinh)
    grown, shrunk = _halves(t, x)
    return t.pick("<=", t.abs(x), 1.0, near, t.sign_of(grown - shrunk, x))


def _cosh(t: _Tools, x: Lane) -> Lane:
    grown, shrunk = _halves(t, x)
    return t.nan_or(x, grown + shrunk)


def _tanh(t: _Tools, x: Lane) -> Lane:
    """x + x z P/Q of z = x² near 0, 1 − 2/(exp 2|x| + 1) beyond, with one division for both.

    exp is 2^k (1 + high − low + r c / (2 − c)) as above, so that 2/(exp + 1) is
    2 (2 − c) / (2^k ((1 + high − low)(2 − c) + r c) + (2 − c)).
    """
    e, b = t.e, t.e.builder
    z, size = x * x, t.abs(x)
    near = e.compare("<", size, 0.625)
    twice = t.pick("<", size, 40.0, size + size, 80.0)  # beyond, it is 1
    shifted, _, _, r, c = _exp_reduced(t, twice)
    below = 2.0 - c
    grown = (r + 1.0).times_plus(below, r * c)
    whole = b.sub(b.bitcast(shifted.value, e.integers), e.integer(e.number.whole_bits))
    near_above, near_under = t.known.tanh
    above = e.select(near, size * z * _polynomial(z, near_above), -2.0 * below)
    under = e.select(near, _polynomial(z, near_under), grown.times_plus(t.two_to(whole), below))
    out = e.select(near, size, 1.0) + above / under
    return t.nan_or(x, t.sign_of(out, x))


def _arctan(t: _Tools, x: Lane) -> Lane:
    size, more = t.abs(x), t.known.half_pi_rest
    far, middle = t.e.compare(">", size, _TAN_3_8), t.e.compare(">", size, t.known.middle)
    choose = t.e.select
    above = choose(far, -1.0, choose(middle, size - 1.0, size))
    below = choose(far, size, choose(middle, size + 1.0, 1.0))
    start = choose(far, _HALF_PI, choose(middle, 0.5 * _HALF_PI, 0.0))
    rest = choose(far, more, choose(middle, 0.5 * more, 0.0))
    y = above / below
    z = y * y
    turned = y * (z * _ratio(z, t.known.arctan)) + y
    return t.nan_or(x, t.sign_of(start + (turned + rest), x))


def _arctan2(t: _Tools, y: Lane, x: Lane) -> Lane:
    """The angle of (x, y), in the quadrants of C's atan2."""
    rise, run, more = t.abs(y), t.abs(x), t.known.half_pi_rest
    steep = t.e.compare(">", rise, run)
    large, small = t.e.select(steep, rise, run), t.e.select(steep, run, rise)
    both = t.pick("==", small, _INF, 1.0, small / large)  # two infinities: the diagonal
    slope = t.pick("==", large, 0.0, 0.0, both)
    angle = t.call("arctan", slope)
    angle = t.e.select(steep, (_HALF_PI - angle) + more, angle)
    behind = t.pick("<", t.sign_of(t.e.constant(1.0), x), 0.0, 1.0, 0.0)
    angle = t.pick("==", behind, 1.0, (_PI - angle) + 2 * more, angle)
    return t.nan_or(x, t.nan_or(y, t.sign_of(angle, y)))


def _side(t: _Tools, x: Lane) -> Lane:
    return t.e.intrinsic("sqrt", (1.0 - x) * (1.0 + x))


def _arcsin(t: _Tools, x: Lane) -> Lane:
    return t.call("arctan2", x, _side(t, x))


def _arccos(t: _Tools, x: Lane) -> Lane:
    return t.call("arctan2", _side(t, x), x)


def _tan(t: _Tools, x: Lane) -> Lane:
    sine, cosine = t.sincos(x)
    return sine / cosine


def _power(t: _Tools, x: Lane, y: Lane) -> Lane:
    """x^y of x ≥ 0; of negative x for whole y only, NaN otherwise."""
    size = t.abs(x)
    high, low = _log_in_two(t, size)
    product, error = _product(high, y)
    rest = low.times_plus(y, error)
    finite = t.pick("<", t.abs(product), 1e4, rest, 0.0)
    out = _exp_of_sum(t, product, finite)
    out = t.pick("==", size, 0.0, t.pick(">", y, 0.0, 0.0, _INF), out)
    out = t.pick("==", size, _INF, t.pick("<", y, 0.0, 0.0, _INF), out)
    out = t.pick("==", size, 1.0, 1.0, out)
    half = y * 0.5
    whole, even = (t.pick("==", t.e.intrinsic("floor", n), n, 1.0, 0.0) for n in (y, half))
    odd = whole - even  # an infinite exponent is whole and even
    signed = t.pick("==", odd, 1.0, t.sign_of(out, x), out)
    undefined = t.pick("==", size, _INF, 1.0, whole)  # −∞ has all powers
    signed = t.pick("<", x, 0.0, t.pick("==", undefined, 0.0, _NAN, signed), signed)
    signed = t.nan_or(x, t.nan_or(y, signed))
    return t.pick("==", y, 0.0, 1.0, t.pick("==", x, 1.0, 1.0, signed))


def _product(x: Lane, y: Lane) -> tuple[Lane, Lane]:
    """x y as a sum of two numbers (Dekker, or one fused operation)."""
    e, high = x.emitter, x * y
    if e.fused:
        return high, x.times_plus(y, -high)
    (a, b), (c, d) = _split(x), _split(y)
    return high, ((a * c - high) + a * d + b * c) + b * d


def _split(x: Lane) -> tuple[Lane, Lane]:
    """The upper half of the bits of a number, and the rest."""
    e, builder = x.emitter, x.emitter.builder
    lower = _CONSTANTS[e.number.name].half_bits
    bits = builder.and_(builder.bitcast(x.value, e.integers), e.integer(-(1 << lower)))
    upper = Lane(e, builder.bitcast(bits, e.vector))
    return upper, x - upper


def _log_in_two(t: _Tools, x: Lane) -> tuple[Lane, Lane]:
    """log x as a sum of two numbers, some 60 bits; x > 0 and finite.

    x = 2^k m with m between √½ and √2, s = (m − 1)/(m + 1) in two numbers, log m = 2 artanh s.
    """
    e, b, kind, logs = t.e, t.e.builder, t.e.number, LOGS[t.e.number.name]
    tiny = e.compare("<", x, 2.0 ** (1 - kind.bias))
    normal = e.select(tiny, x * 2.0**logs.lift, x)
    bits = b.add(b.bitcast(normal.value, e.integers), e.integer(kind.one_bits - logs.root))
    exponent = b.or_(b.lshr(bits, e.integer(kind.fraction)), e.integer(kind.count_bits))
    start = 2.0**kind.fraction + kind.bias
    k = Lane(e, b.bitcast(exponent, e.vector)) - e.select(tiny, start + logs.lift, start)
    near = b.add(b.and_(bits, e.integer(2**kind.fraction - 1)), e.integer(logs.root))
    m = Lane(e, b.bitcast(near, e.vector))
    above, below = m - 1.0, m + 1.0  # the first is exact
    below_rest = m - (below - 1.0)
    s = above / below
    back, error = _product(s, below)
    s_rest = ((above - back) - error - s * below_rest) / below
    z = s * s
    series = z * _polynomial(z, tuple(2.0 / (2 * i + 1) for i in range(1, t.known.artanh + 1)))
    tail = s * series + 2.0 * s_rest
    first = k * logs.ln2[0]
    total = first + 2.0 * s
    carried = t.pick(">=", t.abs(first), t.abs(2.0 * s),
                     (first - total) + 2.0 * s, (2.0 * s - total) + first)  # fmt: skip
    low = carried + (tail + k * logs.ln2[1])
    high = total + low
    return high, (total - high) + low


def _fmod(t: _Tools, x: Lane, y: Lane) -> Lane:
    """x less the multiple of y before it towards zero, exact: C's fmod.

    |y| is doubled until it is more than |x|/2, then taken away where it fits and halved. Every
    difference lies within a factor of two of what it is taken from, so none is rounded; rounds are
    as many as the exponents of x and y differ by.
    """
    e, b = t.e, t.e.builder
    size, least = t.abs(x), t.abs(y)
    defined = b.and_(e.compare("<", size, _INF), e.compare(">", least, 0.0))
    rest, least = e.select(defined, size, 0.0), e.select(defined, least, 1.0)
    half = rest * 0.5

    def doubled(which: ir.IRValue, step: Lane) -> list[Lane]:
        return [e.select(which, step + step, step)]

    def reduced(which: ir.IRValue, rest: Lane, step: Lane) -> list[Lane]:
        fits = b.and_(which, e.compare(">=", rest, step))
        return [e.select(fits, rest - step, rest), step * 0.5]

    def is_small(step: Lane) -> ir.IRValue:
        return e.compare("<=", step, half)

    def is_left(rest: Lane, _: Lane) -> ir.IRValue:
        return e.compare(">=", rest, least)

    (step,) = t.repeated(is_small, doubled, least)
    rest, _ = t.repeated(is_left, reduced, rest, step)
    return e.select(defined, t.sign_of(rest, x), _NAN)


def _divided(t: _Tools, x: Lane, y: Lane) -> tuple[Lane, Lane]:
    """(x // y, x % y) as NumPy has them, and Python: the remainder has the sign of y."""
    e = t.e
    rest = t.call("fmod", x, y)
    quotient = (x - rest) / y  # nearly whole
    other = t.pick("<", y, 0.0, 1.0, 0.0) - t.pick("<", rest, 0.0, 1.0, 0.0)
    moved = e.builder.and_(e.compare("!=", other, 0.0), e.compare("!=", rest, 0.0))
    zero = t.sign_of(e.constant(0.0), y)
    rest = e.select(moved, rest + y, t.pick("==", rest, 0.0, zero, rest))
    quotient = e.select(moved, quotient - 1.0, quotient)
    below = e.intrinsic("floor", quotient)
    whole = t.pick(">", quotient - below, 0.5, below + 1.0, below)
    whole = t.pick("==", quotient, 0.0, t.sign_of(e.constant(0.0), x / y), whole)
    return t.pick("==", y, 0.0, x / y, whole), rest


def _floor_divide(t: _Tools, x: Lane, y: Lane) -> Lane:
    return _divided(t, x, y)[0]


def _remainder(t: _Tools, x: Lane, y: Lane) -> Lane:
    return _divided(t, x, y)[1]


FUNCTIONS: dict[str, tuple[int, Body]] = {
    "exp": (1, _exp), "sinh": (1, _sinh), "cosh": (1, _cosh), "tanh": (1, _tanh),
    "arctan": (1, _arctan), "arctan2": (2, _arctan2), "arcsin": (1, _arcsin),
    "arccos": (1, _arccos), "tan": (1, _tan), "power": (2, _power),
    "fmod": (2, _fmod), "floor_divide": (2, _floor_divide), "remainder": (2, _remainder),
}  # fmt: skip
