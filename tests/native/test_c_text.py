"""Programs written as C99 and compiled by gcc give the bits of the machine code."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_programs import as_c, built, written
from known_systems import four_bar
from random_expressions import Generator
from random_models import ALL, branching, random_tree
from single_kernels import SingleKernel

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.derivatives import forward_dynamics_operators
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, forward_with_rows
from phipsi.core.model.model import Model
from phipsi.core.model.points import point_set
from phipsi.errors import LoweringError
from phipsi.identification.regressors import REGRESSOR
from phipsi.native.targets.target import MachineCode, generic_target, host_target
from phipsi.native.text import c_text, llvm_text as ir
from phipsi.native.text.elementary_functions import FUNCTIONS, define
from phipsi.native.text.lane_arithmetic import DOUBLE, I64, POINTER, Emitter, write_loop
from phipsi.native.text.sine_and_logarithm import define_log, define_sincos

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.quick_code,  # the bits of machine code do not depend on the effort of LLVM
]
COUNT = 6
HANDS = [("b3", (0.1, 0.2, -0.3)), ("b4", (0.0, 0.1, 0.0))]


def tree() -> Model:
    return random_tree(7, 5, ("revolute", "prismatic"), armature=True)


def inputs_of(program: pp.Program, model: Model, seed: int = 8) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    known = {"q": np.array([model.random_configuration(rng) for _ in range(COUNT)])}
    shapes = program.input_shapes
    return [
        known[n] if n in known else rng.standard_normal((COUNT, *shapes[n])) for n in program.inputs
    ]


def bits(x: Any) -> list[bytes]:
    """Matrices with zeros of one sign: theirs depends on how many columns are computed at once."""
    return [(a + 0.0 if a.ndim > 1 else np.ascontiguousarray(a)).tobytes() for a in x]


def compare(program: pp.Program, run: Any, args: list[np.ndarray]) -> None:
    """Every configuration: the results of machine code, and no failure."""
    native: Any = program.native
    wanted = native.ufunc(*args)
    for i in range(len(args[0])):
        found, status = run(*(a[i] for a in args))
        results = [x[i] if x.ndim > y.ndim else x for x, y in zip(wanted[:-1], found, strict=True)]
        assert status == np.broadcast_to(wanted[-1], len(args[0]))[i]
        assert bits(found) == bits(results)


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "forward dynamics": (FORWARD_DYNAMICS, {}),
    "mass matrix": (ops.mass_matrix, {"mode": "dense"}),
    "derivatives": (forward_dynamics_operators(), {"mode": "dense"}),
    "log det and solve": ((ops.logdet(ops.mass_matrix), ops.mass_matrix.inv), {}),
    "compliance": (ops.Lambda, {"mode": "dense", "points": HANDS}),
    "regressor": (REGRESSOR, {"mode": "dense"}),
    "inertias given": (FORWARD_DYNAMICS, {"inputs": ("M",)}),
}


OPTIMISED = ("forward dynamics", "compliance")  # as users compile them


@pytest.mark.parametrize("name", CASES)
def test_programs_have_the_bits_of_machine_code(name: str, tmp_path: Path):
    x, options = CASES[name]
    model = tree()
    program = pp.compile(x, model, backend="native", reproducible=True, **options)
    args = inputs_of(program, model)
    if "inputs" in options:
        args[program.inputs.index("M")] = np.stack([model.inertia_matrices] * COUNT)
    compare(program, as_c(program, tmp_path, optimise="-O2" if name in OPTIMISED else "-O0"), args)


@pytest.mark.skipif(not host_target().fused, reason="this processor has no fused operation")
def test_one_rounding_for_a_product_and_a_sum(tmp_path: Path):
    model = tree()
    program = pp.compile(FORWARD_DYNAMICS, model, backend="native")
    compare(program, as_c(program, tmp_path, fused=True), inputs_of(program, model))


@pytest.mark.parametrize("name", ["forward dynamics", "log det and solve"])
def test_single_precision(name: str, tmp_path: Path):
    x, options = CASES[name]
    model = tree()
    program = pp.compile(x, model, backend="native", reproducible=True, **options)
    jit, run = SingleKernel(program, fused=False), as_c(program, tmp_path, number="float")
    for args in zip(*inputs_of(program, model), strict=True):
        (found, status), (want, other) = run(*args), jit(*args)
        assert status == other == 0
        assert bits(found) == bits(want)


def test_every_joint_type_large_angles_and_failures(tmp_path: Path):
    """The status is the same too: of angles that are not finite, and of an inertia that is 0."""
    model = branching(len(ALL), 11, ALL, armature=True)
    program = pp.compile(FORWARD_DYNAMICS, model, backend="native", reproducible=True)
    run = as_c(program, tmp_path)
    args = inputs_of(program, model)
    compare(program, run, args)
    angle = next(i for i, j in enumerate(model.joints) if type(j).__name__ == "Revolute")
    place = sum(j.nq for j in model.joints[:angle])
    for i, value in enumerate((1e6, -3e7, 1e300, 2.0**20)):
        args[0][i, place] = value
    compare(program, run, args)
    args[0][0, place] = np.nan
    _, status = run(*(a[0] for a in args))
    native: Any = program.native
    assert status == native.ufunc(*args)[-1][0] != 0


def test_constrained_systems(tmp_path: Path):
    """Matrices between rows, and redundant rows."""
    system = four_bar()
    program = pp.compile(
        forward_with_rows(None, False, False), system, backend="native", reproducible=True
    )
    assert program.native.unit.plan.row_matrices  # type: ignore[union-attr]
    args = inputs_of(program, system)
    args[program.inputs.index("q")][:] = system.assemble(np.array([1.0, -1.0, -1.5]))
    compare(program, as_c(program, tmp_path, optimise="-O2"), args)


@pytest.mark.parametrize("seed", range(5))
def test_random_expressions(seed: int, tmp_path: Path):
    rng = np.random.default_rng([seed, 31])
    kinds = [("revolute",), ("prismatic",), ("spherical", "revolute")][seed % 3]
    model = random_tree(rng, 4, kinds, armature=True, frames=True)
    where = point_set(model, [("b3", (0.1, 0.0, 0.2))]) if seed % 2 else None
    x = Generator(rng, points=where is not None, independent=where is not None).expression(5)
    options: dict[str, Any] = {"points": where, "reproducible": True}
    if not x.is_vector and seed % 3 == 0:
        options["mode"] = "dense"
    try:
        program = pp.compile(x, model, backend="native", **options)
    except LoweringError:
        pytest.skip("has no O(N) form")
    assert program.backend == "native"
    compare(program, as_c(program, tmp_path), inputs_of(program, model))


def all_functions(module: ir.Module) -> ir.Module:
    """``go(x, y, out, n)``: every elementary function of x, or of x and y, one after the other."""
    kind = ir.FunctionType(ir.VOID, [POINTER, POINTER, POINTER, I64])
    e = Emitter(1, fused=False)
    inner = [define(module, name, e) for name in FUNCTIONS]
    inner += [define_log(module, e), define_sincos(module, e)]
    outer = ir.IRFunction(module, kind, "go")
    b: Any = outer.begin()
    x, y, out, count = outer.args
    lane = ir.VectorType(DOUBLE, 1)

    def one(i: Any) -> None:
        at = b.mul(i, ir.IRConstant(I64, 8))
        given = [b.load(b.at(p, at), align=8, typ=lane) for p in (x, y)]
        place = b.at(out, b.mul(i, ir.IRConstant(I64, 8 * (len(inner) + 1))))
        for k, f in enumerate(inner):
            value = b.call(f, given[: len(f.args)])
            if f is inner[-1]:
                b.store(b.extract_value(value, 1), b.at(place, 8 * (k + 1)), align=8)
                value = b.extract_value(value, 0)
            b.store(value, b.at(place, 8 * k), align=8)

    write_loop(b, count, one)
    b.ret_void()
    return module


def test_elementary_functions(tmp_path: Path):
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e-310, np.inf, -np.inf, np.nan, 709.9, -745.2]
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(300) * 10.0 ** rng.uniform(-12, 12, 300)
    x = np.concatenate([special * len(special), rng.uniform(-1, 1, 100), spread])
    y = np.concatenate([np.repeat(special, len(special)), rng.permutation(x[len(special) ** 2 :])])
    code = built(str(all_functions(c_text.CModule())), tmp_path)
    machine = generic_target()
    jit = MachineCode(machine.object_code(str(all_functions(ir.Module()))), machine)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    results = []
    other = ctypes.cast(code.go, ctypes.c_void_p).value or 0
    for address in (jit.address("go"), other):
        out = np.zeros((len(x), len(FUNCTIONS) + 3))
        signature(address)(x.ctypes.data, y.ctypes.data, out.ctypes.data, len(x))
        results.append(out)
    a, b = results
    assert np.array_equal(np.isnan(a), np.isnan(b))  # the sign of NaN is nobody's
    assert np.nan_to_num(a).tobytes() == np.nan_to_num(b).tobytes()
    assert np.isfinite(a).mean() > 0.5


def test_a_compiler_that_joins_products_and_sums_gives_other_bits(tmp_path: Path):
    """A twin: the comparison finds what the flag is for."""
    if not host_target().fused:
        pytest.skip("this processor has no fused operation")
    model = tree()
    program = pp.compile(FORWARD_DYNAMICS, model, backend="native", reproducible=True)
    run = as_c(program, tmp_path, flags=["-mfma", "-ffp-contract=fast"], optimise="-O2")
    with pytest.raises(AssertionError):
        compare(program, run, inputs_of(program, model))


def test_parameters_do_not_hide_variables(tmp_path: Path):
    """Names of users, such as v1, in the parameters of functions for other files."""
    module = c_text.CModule()
    f = ir.IRFunction(module, ir.FunctionType(DOUBLE, [POINTER, POINTER]), "go")
    b: Any = f.begin()
    x, y = (b.load(p, typ=DOUBLE) for p in f.args)
    b.ret(b.call_named("llvm.maxnum.f64", DOUBLE, [x, b.fadd(x, y)]))
    module.signatures["go"] = ("const double *v1", "double *larger")
    code = built(str(module), tmp_path)
    code.go.restype = ctypes.c_double
    assert code.go(ctypes.byref(ctypes.c_double(1.0)), ctypes.byref(ctypes.c_double(2.0))) == 3.0


def test_more_lanes_are_rejected():
    module = c_text.CModule()
    with pytest.raises(ValueError, match="one lane, not 4"):
        define_log(module, Emitter(4, fused=False))


def test_what_is_not_called_is_not_written():
    program = pp.compile(ops.mass_matrix, tree(), backend="native", mode="dense")
    text = written(program, fused=False)[0]
    assert "phipsi_log" not in text
    assert "leading_zeros" in text  # large angles
    for line in text.splitlines():
        assert "nan" not in line.split("/*")[0].split()
