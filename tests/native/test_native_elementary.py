"""Large angles and logarithms in machine code: against many digits, the same bits everywhere."""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from random_models import ALL, branching, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.native.targets.target import MachineCode, generic_target, host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, POINTER, Emitter, write_loop
from phipsi.native.text.sine_and_logarithm import HALF_PI, TABLE, define_log, define_sincos
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.runs.rollout import _plan
from phipsi.simulation.runs.run_emitter import RunEmitter

WIDTHS = (1, 2, 4, 8)
BINADES = range(-32, 972)  # exponents e of m 2^e with 53 bits of m, from 2^20 on


@cache
def function(name: str, lanes: int, fused: bool) -> Callable[[np.ndarray], np.ndarray]:
    """An array of arguments → results, (2, n) for "sincos" and (1, n) for "log"."""
    machine = host_target() if fused else generic_target()
    if fused and not machine.fused:
        pytest.skip("this processor has no fused operation")
    module = ir.Module()
    define = define_sincos if name == "sincos" else define_log
    inner = define(module, Emitter(lanes, fused=fused))
    kind = ir.FunctionType(ir.VOID, [POINTER, POINTER, I64])
    outer = ir.IRFunction(module, kind, "go")
    b: Any = ir.IRBuilder(outer.append_basic_block("entry"))
    source, target, count = outer.args
    vector = ir.VectorType(ir.DOUBLE, lanes)

    def group(i: Any) -> None:
        at = b.mul(i, ir.IRConstant(I64, 8))
        x = b.load(b.at(source, at), align=8, typ=vector)
        found = b.call(inner, [x])
        parts = [b.extract_value(found, k) for k in range(2)] if name == "sincos" else [found]
        for k, part in enumerate(parts):
            offset = b.mul(b.add(i, b.mul(count, ir.IRConstant(I64, k))), ir.IRConstant(I64, 8))
            b.store(part, b.at(target, offset), align=8)

    write_loop(b, count, group, lanes)
    b.ret_void()
    code = MachineCode(machine.object_code(str(module)), replace(machine, lanes=lanes))
    go = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        code.address("go")
    )

    def call(x: np.ndarray, _keep: object = code) -> np.ndarray:
        padded = np.concatenate([x, np.zeros(-len(x) % 8)])
        out = np.empty((2 if name == "sincos" else 1, len(padded)))
        go(padded.ctypes.data, out.ctypes.data, len(padded))
        return out[:, : len(x)]

    return call


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def ulps(got: np.ndarray, x: np.ndarray, exact: Callable[[Any], Any], bits: int = 1400) -> float:
    """The largest error in units of the last place."""
    worst = 0.0
    with mpmath.workprec(bits):
        for g, a in zip(got, x, strict=True):
            value = exact(mpmath.mpf(float(a)))
            unit = mpmath.mpf(float(np.spacing(max(abs(float(value)), 2.0**-1022))))
            worst = max(worst, float(abs(mpmath.mpf(float(g)) - value) / unit))
    return worst


@cache
def closest_to_quarter_turns() -> np.ndarray:
    """In every binade the numbers of 53 bits that come closest to multiples of π/2.

    Denominators of the continued fraction of 2^e · 2/π: no smaller m makes m 2^e closer.
    """
    out: list[float] = []
    with mpmath.workprec(1400):
        two_over_pi = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** 1300))
    for e in BINADES:
        p, q = two_over_pi << max(e, 0), 2**1300 << max(-e, 0)
        before, now = 1, 0
        while q:
            whole, rest = divmod(p, q)
            before, now = now, whole * now + before
            if now >= 2**53:
                break
            p, q = q, rest
        m = before
        if m:
            out.append(float(np.ldexp(float(m * -(-(2**52) // m)), e)))
            out.append(float(np.ldexp(float(m), e)))
    found = np.array(out)
    return found[(found > 2.0**20) & np.isfinite(found)]


def huge(count: int) -> np.ndarray:
    signs = rng().choice([-1.0, 1.0], count)
    return signs * rng().uniform(1, 2, count) * 2.0 ** rng().integers(20, 1024, count)


@pytest.mark.parametrize("fused", [False, True])
def test_large_angles_are_exact_to_the_last_place(fused: bool):
    edge = np.nextafter(2.0**20, np.inf)
    x = np.concatenate([huge(1200), [np.finfo(float).max, -np.finfo(float).max, edge, -edge, 1e22]])
    sine, cosine = function("sincos", 8, fused)(x)
    assert ulps(sine, x, mpmath.sin) <= 1.0
    assert ulps(cosine, x, mpmath.cos) <= 1.0


@pytest.mark.parametrize("fused", [False, True])
def test_the_worst_angles_of_every_binade(fused: bool):
    x = closest_to_quarter_turns()
    assert len(x) > 1500
    kahan = 6381956970095103 * 2.0**797
    assert kahan in x  # the worst of all
    x = x[:: 2 if fused else 1]
    sine, cosine = function("sincos", 4, fused)(x)
    assert np.minimum(abs(sine), abs(cosine)).max() < 1e-13
    assert ulps(sine, x, mpmath.sin) <= 1.0
    assert ulps(cosine, x, mpmath.cos) <= 1.0


def test_large_and_small_angles_side_by_side():
    x = np.where(rng().random(512) < 0.5, huge(512), rng().uniform(-10, 10, 512))
    x[::37] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0**20, -(2.0**20)] * 2
    for fused in (False, True):
        one = function("sincos", 1, fused)(x)
        assert np.isnan(one[:, ~np.isfinite(x)]).all()
        assert np.isfinite(one[:, np.isfinite(x)]).all()
        for lanes in WIDTHS[1:]:
            got = function("sincos", lanes, fused)(x)
            np.testing.assert_array_equal(got.view(np.int64), one.view(np.int64))


def test_the_digits_of_pi():
    with mpmath.workprec(2000):
        number = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** (64 * (len(TABLE) - 1))))
        assert int(mpmath.floor(mpmath.pi / 2 * mpmath.mpf(2) ** 127)) == HALF_PI
    assert sum(w << 64 * i for i, w in enumerate(reversed(TABLE))) == number


# ---- logarithms ----------------------------------------------------------------------------------


def positive() -> np.ndarray:
    draw = rng()
    every = draw.uniform(1, 2, 3000) * 2.0 ** draw.integers(-1022, 1024, 3000)
    near_one = 1 + draw.choice([-1, 1], 1500) * 2.0 ** draw.uniform(-53, -1, 1500)
    middle = draw.uniform(0.5, 3.0, 1500)
    denormal = draw.integers(1, 2**52, 500) * 5e-324
    root = np.sqrt([0.5, 2.0])
    edges = np.concatenate([np.nextafter(root, 0), root, np.nextafter(root, 9)])
    single = [1.0, 5e-324, 2.0**-1022, np.finfo(float).max, np.e, 2.0, 0.5]
    return np.concatenate([every, near_one, middle, denormal, edges, single])


@pytest.mark.parametrize("fused", [False, True])
def test_logarithms_are_exact_to_the_last_place(fused: bool):
    x = positive()
    (got,) = function("log", 8, fused)(x)
    assert ulps(got, x, mpmath.log, 200) <= 1.0
    for lanes in WIDTHS[:-1]:
        np.testing.assert_array_equal(function("log", lanes, fused)(x)[0], got)


def test_logarithms_at_the_ends():
    x = np.array([0.0, -0.0, np.inf, -1.0, -5e-324, -np.inf, np.nan, 1.0])
    for lanes in WIDTHS:
        (got,) = function("log", lanes, False)(x)
        want = np.array([-np.inf, -np.inf, np.inf, *[np.nan] * 4, 0.0])
        np.testing.assert_array_equal(got, want)


# ---- the same everywhere -------------------------------------------------------------------------

DIGEST = "f29bc45bdcfeac4390b9e71488b41da7238595e242ff626a792c06d951b53ad2"


def test_reproducible_functions_give_the_recorded_bits():
    """Made once; every x86-64 gives them, whatever its C library."""
    x = np.concatenate([huge(2000), rng().uniform(-2000, 2000, 2000)])
    bits = function("sincos", 4, False)(x).tobytes() + function("log", 4, False)(abs(x)).tobytes()
    assert hashlib.sha256(bits).hexdigest() == DIGEST


def undefined(binary: bytes) -> set[str]:
    """The symbols that object code asks others for (ELF)."""
    (start,) = struct.unpack_from("<Q", binary, 40)
    size, count, _ = struct.unpack_from("<HHH", binary, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", binary, start + i * size) for i in range(count)]
    out: set[str] = set()
    for _, kind, _, _, place, length, link, *_ in sections:
        if kind != 2:  # the table of symbols
            continue
        names = sections[link][4]
        for at in range(place, place + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", binary, at)
            if name and not section:
                end = binary.index(b"\0", names + name)
                out.add(binary[names + name : end].decode())
    return out


PYTHON = {"Py_IncRef", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem"}
NUMPY = {"phipsi_PyArray_New", "phipsi_PyArray_Return"}
MEMORY = {"calloc", "free", "memset", "memcpy"}
DECLARED = re.compile(r"^declare .*@([^(]+)\(", re.MULTILINE)
FLAGS = {"feclearexcept"}  # computes nothing


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")
def test_no_mathematical_function_of_a_library_is_called(monkeypatch: pytest.MonkeyPatch):
    """Neither by the text nor by LLVM, which has no instruction for some of its own functions."""
    model = random_tree(1, 2, ("spherical", "revolute"))
    texts: list[str] = []
    for reproducible in (False, True):
        forms = (FORWARD_DYNAMICS, ops.logdet(ops.mass_matrix))
        programs = [
            pp.compile(x, model, backend="native", reproducible=reproducible) for x in forms
        ]
        forward, log_det = (program.native for program in programs)
        assert forward is not None and log_det is not None
        for text in (forward.unit.emit(), log_det.unit.emit()):
            assert undefined(forward.target.object_code(text)) <= PYTHON | NUMPY | MEMORY | FLAGS
            texts.append(text)
    module, plan = ir.Module(), _plan(model, METHODS["rk4"])
    RunEmitter(module, plan, plan.natives, plan.base.target.lanes)
    step = plan.base.target.object_code(str(module))
    assert undefined(step) <= PYTHON | NUMPY | MEMORY | FLAGS
    texts.append(str(module))
    # joints of other types ask LLVM for nothing else; here the text counts, not the code
    monkeypatch.setenv("PHIPSI_LLVM_EFFORT", "0")
    model = branching(len(ALL), 11, ALL, armature=True)
    every = pp.compile(FORWARD_DYNAMICS, model, backend="native")
    assert every.native is not None
    seen = {name for text in texts for name in DECLARED.findall(text)}
    assert set(DECLARED.findall(every.native.unit.emit())) <= seen
