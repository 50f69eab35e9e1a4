"""Machine code in single precision: elementary functions and programs, against double precision."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import known_systems
import numpy as np
import pytest
from random_expressions import Generator
from random_models import random_tree
from single_kernels import SingleKernel, relative_errors, single_target

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_operators,
    inverse_dynamics_operators,
)
from phipsi.algorithms.dynamics.dynamics_expressions import (
    FORWARD_DYNAMICS,
    INVERSE_DYNAMICS,
    forward_with_rows,
)
from phipsi.core.backends import errors_from_status
from phipsi.errors import PhipsiError
from phipsi.native.pipeline import plan_native
from phipsi.native.targets.target import MachineCode
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.elementary_functions import FUNCTIONS, define
from phipsi.native.text.lane_arithmetic import I64, POINTER, Emitter, Lane, i64, write_loop
from phipsi.native.text.sine_and_logarithm import define_log, define_sincos

# ---- elementary functions


@cache
def function(name: str, lanes: int, fused: bool) -> Callable[..., np.ndarray]:
    """Arrays of float32 → results (k, n)."""
    target = single_target(lanes, fused=fused)
    e, module = Emitter(lanes, fused=fused, number="float"), ir.Module()
    special = {"sincos": define_sincos, "log": define_log}
    inner = special[name](module, e) if name in special else define(module, name, e)
    arity, outputs = len(inner.args), 2 if name == "sincos" else 1
    outer = ir.IRFunction(module, ir.FunctionType(ir.VOID, [POINTER] * (arity + 1) + [I64]), "go")
    b = e.builder = outer.begin()
    *arrays, result, count = outer.args

    def group(i: Any) -> None:
        values = [e.load(b.at(x, b.mul(i, i64(e.unit)))).value for x in arrays]
        found = b.call(inner, values)
        for k in range(outputs):
            part = b.extract_value(found, k) if outputs == 2 else found
            place = b.add(i, b.mul(count, i64(k)))
            e.store(Lane(e, part), b.at(result, b.mul(place, i64(e.unit))))

    write_loop(b, count, group, lanes)
    b.ret_void()
    code = MachineCode(target.object_code(str(module)), target)
    kinds = [ctypes.c_void_p] * (arity + 1) + [ctypes.c_int64]
    go = ctypes.CFUNCTYPE(None, *kinds)(code.address("go"))

    def call(*args: np.ndarray, _keep: object = code) -> np.ndarray:
        size = len(args[0])
        padded = [np.concatenate([x, np.ones(-size % 8)]).astype(np.float32) for x in args]
        out = np.empty((outputs, len(padded[0])), np.float32)
        go(*(x.ctypes.data for x in padded), out.ctypes.data, len(padded[0]))
        return out[:, :size]

    return call


EXACT: dict[str, Callable[..., Any]] = {
    "sincos": lambda x: np.array([np.sin(x), np.cos(x)]), "log": np.log, "exp": np.exp,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "arctan": np.arctan,
    "arctan2": np.arctan2, "arcsin": np.arcsin, "arccos": np.arccos, "tan": np.tan,
    "power": np.power,
}  # fmt: skip
TOPS = {"exp": 88.0, "sinh": 88.0, "cosh": 88.0, "tanh": 20.0, "arcsin": 1.0, "arccos": 1.0}
ULPS = {
    "tan": 3.0,
    "arcsin": 3.0,
    "arccos": 3.0,
    "arctan2": 2.5,
    "power": 2.0,
    "sinh": 2.5,
    "arctan": 2.0,
}


def arguments(name: str) -> tuple[np.ndarray, ...]:
    """Floats of all sizes that the function has values of."""
    rng, count = np.random.default_rng(1), 4000
    top = TOPS.get(name, 1e30)
    sizes = np.exp(rng.uniform(np.log(1e-30), np.log(top), count))
    x = np.concatenate(
        [sizes * rng.choice([-1, 1], count), rng.uniform(-1, 1, count) * min(top, 8)]
    )
    x = x.astype(np.float32)
    if name == "log":
        return (np.append(np.abs(x), np.array([1e-40, 1e-44, 1.0], np.float32)),)
    if name == "arctan2":
        return x, rng.permutation(x)
    if name == "power":
        base = np.exp(rng.uniform(-20, 20, count)).astype(np.float32)
        return base, (rng.uniform(-60, 60, count) / np.maximum(1, np.abs(np.log(base)))).astype(
            "f4"
        )
    return (x,)


def ulps(name: str, found: np.ndarray, args: tuple[np.ndarray, ...]) -> np.ndarray:
    """Errors in units of the last place of a float."""
    exact = np.atleast_2d(EXACT[name](*(a.astype(np.float64) for a in args)))
    unit = np.spacing(np.maximum(np.abs(exact), 2.0**-126).astype(np.float32))
    return np.abs(found - exact) / unit


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_functions_of_floats_are_within_a_few_last_places(name: str, fused: bool) -> None:
    if fused and not single_target().fused:
        pytest.skip("this processor has no fused operation")
    args = arguments(name)
    found = ulps(name, function(name, 4, fused)(*args), args)
    place = int(np.argmax(found.max(axis=0)))
    assert found.max() <= ULPS.get(name, 1.6), [x[place] for x in args]


@pytest.mark.parametrize("name", EXACT)
def test_the_same_bits_at_every_width(name: str) -> None:
    args = tuple(a[:333] for a in arguments(name))
    one, *others = (function(name, lanes, single_target().fused)(*args) for lanes in (1, 4, 8))
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_the_ends_of_the_range() -> None:
    nan, inf = np.nan, np.inf
    ends = np.array([inf, -inf, nan, 0.0], np.float32)
    assert np.isnan(function("sincos", 1, False)(ends)[:, :3]).all()
    np.testing.assert_array_equal(function("exp", 1, False)(ends)[0], [inf, 0, nan, 1])
    np.testing.assert_array_equal(function("log", 1, False)(ends)[0], [inf, nan, nan, -inf])
    np.testing.assert_array_equal(function("tanh", 1, False)(ends)[0], [1, -1, nan, 0])
    assert set(FUNCTIONS) | {"sincos", "log"} == {*EXACT, *DIVISIONS}


DIVISIONS = ("fmod", "floor_divide", "remainder")


@pytest.mark.parametrize("name", DIVISIONS)
def test_quotients_and_remainders_have_the_bits_of_numpy(name: str) -> None:
    rng = np.random.default_rng(2)
    one = [0.0, 1.0, 0.1, 0.3, 6.0, 2.0**24 - 1, 1e38, 1e-45, 2.0**-126, np.inf, np.nan]
    x, y = (a.ravel() for a in np.meshgrid(*[[*one, *(-z for z in one)]] * 2))
    step = np.ldexp(rng.uniform(-1, 1, 500), rng.integers(-20, 20, 500)).astype(np.float32)
    multiples = step * rng.integers(-(10**4), 10**4, 500).astype(np.float32)
    args = [np.float32(np.append(a, b)) for a, b in ((x, multiples), (y, step))]
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(*args)
    (found,) = np.atleast_2d(function(name, 4, single_target().fused)(*args))
    np.testing.assert_array_equal(found, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


# ---- programs

ARM = pp.examples.seven_joint_arm()
FLYER = pp.examples.free_flyer()
ON_FLYER: dict[str, Any] = {"points": ["left_tool", "right_tool"]}
PROGRAMS: dict[str, tuple[Any, pp.Model, dict[str, Any]]] = {
    "forward dynamics": (FORWARD_DYNAMICS, ARM, {}),
    "forward dynamics of a free flyer": (FORWARD_DYNAMICS, FLYER, {}),
    "inverse dynamics": (INVERSE_DYNAMICS, FLYER, {}),
    "mass matrix": (ops.mass_matrix, FLYER, {"mode": "dense"}),
    "inverse mass matrix": (ops.mass_matrix.inv, FLYER, {"mode": "dense"}),
    "Jacobian": (ops.J, FLYER, {"mode": "dense", **ON_FLYER}),
    "operational space": (ops.Lambda.inv, FLYER, {"mode": "dense", **ON_FLYER}),
    "derivatives": (forward_dynamics_operators(), ARM, {"mode": "dense"}),
    "derivatives of inverse dynamics": (inverse_dynamics_operators(), ARM, {"mode": "dense"}),
    "every joint type": (FORWARD_DYNAMICS, random_tree(8, 5), {}),
}
# largest relative errors that were found on many states, with a margin of three
LARGEST = {"operational space": 2e-5, "every joint type": 2e-5, "derivatives": 2e-5}


def states(program: pp.Program, count: int, seed: int = 0) -> list[np.ndarray]:
    """Random arguments (count, …)."""
    rng, model = np.random.default_rng(seed), program.model
    return [
        np.array([model.random_configuration(rng) for _ in range(count)])
        if name == "q"
        else rng.standard_normal((count, *program.source.input_shapes[name]))
        for name in program.inputs
    ]


SEVERAL = ("mass matrix", "inverse mass matrix", "derivatives")  # columns side by side
CASES = [*((name, 1) for name in PROGRAMS), *((name, 4) for name in SEVERAL)]


@pytest.mark.parametrize("name, lanes", CASES)
def test_programs_agree_with_double_precision(name: str, lanes: int) -> None:
    """`lanes` columns of a matrix at once; one for processors without vectors."""
    expression, model, options = PROGRAMS[name]
    program = pp.compile(expression, model, **options)
    found = relative_errors(SingleKernel(program, lanes), program, states(program, 25))
    assert found.max() < LARGEST.get(name, 4e-6)
    assert np.median(found) < 3e-6


def test_the_comparison_finds_a_wrong_number() -> None:
    """A gravity that is off by 1e-4 is found."""
    program = pp.compile(INVERSE_DYNAMICS, ARM)
    kernel = SingleKernel(program)
    kernel.unit.tables.gravity[5] *= np.float32(1 + 1e-4)
    assert relative_errors(kernel, program, states(program, 5)).max() > 1e-5


@pytest.mark.quick_code
@pytest.mark.parametrize("name", ["stewart", "n_four_bar"])
def test_constrained_systems(name: str) -> None:
    """Accelerations and multipliers of closed loops, by the matrix between constraint rows."""
    if name == "stewart":
        (system, q), v = known_systems.stewart(), None
    else:
        system, q, v = known_systems.n_four_bar(2)
    program = pp.compile(forward_with_rows(None, False, False), system)
    rng = np.random.default_rng(0)
    speed = 0.0 * rng.standard_normal(system.nv) if v is None else v
    given = [[q], [speed], [rng.standard_normal(system.nv)]]
    found = relative_errors(SingleKernel(program), program, [np.array(x) for x in given])
    assert found.max() < 2e-4


def test_memory_is_half() -> None:
    """Scratch memory and tables of numbers take half the bytes; integers do not."""
    program = pp.compile(FORWARD_DYNAMICS, ARM)
    single = SingleKernel(program)
    double, data = plan_native(program.source)
    words = double.words
    assert single.unit.tables.doubles.dtype == np.float32
    assert single.unit.tables.integers.dtype == np.int64
    per_lane = (int(data[words]) - 64) / double.target.lanes
    assert (int(single.data[words]) - 64) * 2 <= per_lane


# ---- failures


def test_status_of_what_has_no_result() -> None:
    program = pp.compile(FORWARD_DYNAMICS, ARM)
    kernel = SingleKernel(program)
    q, v, tau = (a[0] for a in states(program, 1))
    q[2] = np.nan
    assert kernel(q, v, tau)[1] == errors_from_status.NOT_FINITE


def test_a_hinge_whose_inertia_is_rounding_is_named() -> None:
    """Behind a free joint nothing of the load is left at the axle but rounding errors."""
    b = pp.ModelBuilder()
    nothing = pp.SpatialInertia(0.0, (0, 0, 0), np.zeros((3, 3)))
    load = pp.SpatialInertia(1.0, (0.1, 0.2, 0.3), np.diag([0.4, 0.5, 0.6]))
    b.add_body("axle", joint=pp.joints.Revolute((0, 0, 1)), inertia=nothing)
    b.add_body("load", parent="axle", joint=pp.joints.Free(), inertia=load)
    model = b.build()
    kernel = SingleKernel(pp.compile(FORWARD_DYNAMICS, model))
    for seed in range(6):
        rates = np.zeros(model.nv)
        status = kernel(model.random_configuration(seed), rates, rates)[1]
        assert status == errors_from_status.HINGE + errors_from_status.CODES


# ---- random expressions


@pytest.mark.quick_code
def test_random_expressions() -> None:
    """Well-conditioned draws agree; a draw that has no machine code is left out."""
    done = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        model = random_tree(rng, 3, ("revolute", "prismatic"))
        try:
            program = pp.compile(Generator(rng).expression(), model, backend="native")
            kernel = SingleKernel(program) if program.backend == "native" else None
        except PhipsiError:
            continue
        if kernel is None:
            continue
        given = states(program, 3, seed)
        assert np.median(relative_errors(kernel, program, given, least=0.01)) < 1e-4, seed
        done += 1
    assert done > 2
