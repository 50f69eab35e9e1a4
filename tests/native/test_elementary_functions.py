"""Elementary functions in machine code: against many digits, the same bits at every width."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest

from phipsi.native.targets.target import MachineCode, generic_target, host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.elementary_functions import FUNCTIONS, define
from phipsi.native.text.lane_arithmetic import DOUBLE, I64, POINTER, Emitter, Lane, write_loop


@cache
def function(name: str, lanes: int, fused: bool) -> Callable[..., np.ndarray]:
    machine = host_target() if fused else generic_target()
    if fused and not machine.fused:
        pytest.skip("this processor has no fused operation")
    module = ir.Module()
    inner = define(module, name, Emitter(lanes, fused=fused))
    arity = FUNCTIONS[name][0]
    kind = ir.FunctionType(ir.VOID, [*([POINTER] * (arity + 1)), I64])
    outer = ir.IRFunction(module, kind, "go")
    b: Any = ir.IRBuilder(outer.append_basic_block("entry"))
    *arrays, count = outer.args
    vector = ir.VectorType(DOUBLE, lanes)

    def group(i: Any) -> None:
        places = [b.at(x, b.mul(i, ir.IRConstant(I64, 8))) for x in arrays]
        values = [b.load(place, align=8, typ=vector) for place in places[:-1]]
        b.store(b.call(inner, values), places[-1], align=8)

    write_loop(b, count, group, lanes)
    b.ret_void()
    code = MachineCode(machine.object_code(str(module)), replace(machine, lanes=lanes))
    signature = [ctypes.c_void_p] * (arity + 1) + [ctypes.c_int64]
    go = ctypes.CFUNCTYPE(None, *signature)(code.address("go"))

    def call(*args: np.ndarray, _keep: object = code) -> np.ndarray:
        size = len(args[0])
        padded = [np.concatenate([x, np.ones(-size % 8)]) for x in args]
        out = np.empty(len(padded[0]))
        go(*(x.ctypes.data for x in padded), out.ctypes.data, len(out))
        return out[:size]

    return call


def spread(low: float, high: float, count: int = 1500) -> np.ndarray:
    """Numbers of both signs, evenly in their logarithms, and evenly."""
    rng = np.random.default_rng(2)
    signs = rng.choice([-1.0, 1.0], count)
    wide = signs * np.exp(rng.uniform(np.log(low), np.log(high), count))
    return np.concatenate([wide, rng.uniform(-high, high, count)])


DIVISIONS = ("fmod", "floor_divide", "remainder")


def hostile_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Zeros, infinities, the smallest and largest numbers, multiples and their neighbours."""
    rng = np.random.default_rng(5)
    one = [0.0, 1.0, 0.1, 0.3, 6.0, np.nextafter(6, 7), 2 * np.pi, 2.0**53 - 1, 1e16, 1e308,
           5e-324, 2.0**-1022, 2.0**-1023, 1e-300, np.inf, np.nan]  # fmt: skip
    special = np.array([*one, *(-x for x in one)])
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    wide = np.ldexp(rng.uniform(-1, 1, (2, 3000)), rng.integers(-40, 40, (2, 3000)))
    step = np.ldexp(rng.uniform(-1, 1, 1500), rng.integers(-20, 20, 1500))
    multiple = step * rng.integers(-(10**6), 10**6, 1500)
    beside = np.nextafter(multiple, rng.choice([-np.inf, np.inf], 1500))
    return (
        np.concatenate([x, wide[0], multiple, beside, np.arange(-100, 100) * 0.1]),
        np.concatenate([y, wide[1], step, step, np.full(200, 0.1)]),
    )


def arguments(name: str) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(4)
    if name in ("arcsin", "arccos"):
        near = 1 - 10.0 ** rng.uniform(-16, -1, 500)
        return (np.concatenate([spread(1e-300, 1.0), near, -near]),)
    if name == "arctan2":
        return spread(1e-150, 1e150), spread(1e-150, 1e150)[::-1].copy()
    if name in DIVISIONS:
        return hostile_pairs()
    if name == "power":
        x = np.exp(rng.uniform(-40, 40, 3000))
        return x, rng.uniform(-65, 65, 3000) / np.maximum(1, np.abs(np.log(x)))
    top = {"exp": 700.0, "sinh": 700.0, "cosh": 700.0, "tanh": 30.0, "tan": 1e5, "arctan": 1e17}
    return (spread(1e-300, top[name]),)


EXACT: dict[str, Any] = {
    "exp": mpmath.exp, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "arctan": mpmath.atan, "arctan2": mpmath.atan2, "arcsin": mpmath.asin, "arccos": mpmath.acos,
    "tan": mpmath.tan, "power": mpmath.power,
}  # fmt: skip
ULPS = {
    "exp": 1.0, "sinh": 2.0, "cosh": 1.6, "tanh": 2.0, "arctan": 1.3, "arctan2": 2.0,
    "arcsin": 2.8, "arccos": 2.8, "tan": 2.0, "power": 1.6,
}  # fmt: skip


def errors(name: str, found: np.ndarray, args: tuple[np.ndarray, ...]) -> np.ndarray:
    """In units of the last place."""
    out = []
    with mpmath.workprec(400):
        for got, *x in zip(found, *args, strict=True):
            value = EXACT[name](*(mpmath.mpf(float(a)) for a in x))
            unit = mpmath.mpf(float(np.spacing(max(abs(float(value)), 2.0**-1022))))
            out.append(float(abs(mpmath.mpf(float(got)) - value) / unit))
    return np.array(out)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_within_a_few_last_places(name: str, fused: bool):
    args = arguments(name)
    found = errors(name, function(name, 4, fused)(*args), args)
    worst = int(np.argmax(found))
    assert found[worst] <= ULPS[name], [x[worst] for x in args]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_bits_at_every_width(name: str, fused: bool):
    args = tuple(x[:400] for x in arguments(name))
    wanted = function(name, 1, fused)(*args)
    for lanes in (2, 4, 8):
        assert np.array_equal(function(name, lanes, fused)(*args), wanted, equal_nan=True)


def test_every_function_is_compared_with_exact_numbers_or_with_bits():
    assert {*EXACT, *DIVISIONS} == set(FUNCTIONS)


def bits(x: np.ndarray) -> np.ndarray:
    """The bits of numbers, with one NaN and both zeros."""
    return np.where(np.isnan(x), np.nan, x).view(np.int64)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", DIVISIONS)
def test_quotients_and_remainders_have_the_bits_of_numpy(name: str, fused: bool):
    x, y = hostile_pairs()
    found = function(name, 8, fused)(x, y)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
        by_rounded_quotient = {
            "floor_divide": np.floor(x / y),
            "remainder": x - y * np.floor(x / y),
            "fmod": x - y * np.trunc(x / y),
        }[name]
    wrong = bits(found) != bits(wanted)
    assert not wrong.any(), (x[wrong][:3], y[wrong][:3], found[wrong][:3], wanted[wrong][:3])
    assert (bits(by_rounded_quotient) != bits(wanted)).mean() > 0.1  # a twin


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -1e-310, 1e308, -1e308])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_arguments_are_those_of_numpy(name: str):
    arity = FUNCTIONS[name][0]
    pairs = np.meshgrid(*([np.concatenate([SPECIAL, [2.0, -3.0, 0.5]])] * arity))
    args = [x.ravel().copy() for x in pairs]
    found = function(name, 4, False)(*args)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(*args)
    for got, exact, *x in zip(found, wanted, *args, strict=True):
        both = np.isnan(got) and np.isnan(exact)
        assert both or np.isclose(got, exact, rtol=1e-15, atol=1e-320), (name, x, got, exact)


@pytest.mark.parametrize("x", [709.7, 709.78271289338397, -708.4, -740.0, -745.1])
def test_exponentials_at_the_ends(x: float):
    found = function("exp", 4, False)(np.array([x]))
    assert errors("exp", found, (np.array([x]),))[0] <= 1.0


@pytest.mark.parametrize("fused", [False, True])
def test_numbers_that_are_not_finite_spoil_a_sum(fused):
    """On every processor: known zeros are folded, and the product with 0 is not known."""
    module = ir.Module()
    e = Emitter(2, fused=fused)
    function = ir.IRFunction(module, ir.FunctionType(e.vector, [e.vector]), "go")
    e.builder = ir.IRBuilder(function.append_basic_block("entry"))
    x = Lane(e, function.args[0])
    e.builder.ret(e.poison_nan(e.constant(0.0), x).value)
    assert ("llvm.fma" if fused else "fmul") in str(module)
