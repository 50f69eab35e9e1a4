"""Exported code gives the bits of the code that runs here, on any work memory, in any batch."""

from __future__ import annotations

import os
import re
import sys

import numpy as np
import pytest
import warm_python
from amounts import EXPORTED_EXPRESSIONS
from backend_contract import arguments
from exported_code import InProcess, source_of
from numpy.testing import assert_array_equal
from random_expressions import Generator
from random_models import ALL, model_from_parents, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.derivatives import forward_dynamics_operators
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from phipsi.codegen.exported_module import FunctionSource, exported_module
from phipsi.codegen.targets import TARGETS, target_named
from phipsi.core.backends.errors_from_status import NOT_FINITE
from phipsi.core.expressions.kinds import Op
from phipsi.errors import InputError, LoweringError, SpaceError
from phipsi.native.targets.target import Target

COUNT = 11  # a group of every width, and what is left over
DENSE = {"mode": "dense"}
EXPRESSIONS = {
    "forward dynamics": (FORWARD_DYNAMICS, {}),
    "inverse dynamics": (INVERSE_DYNAMICS, {}),
    "mass matrix": (ops.mass_matrix, DENSE),
    "inverse mass matrix": (ops.mass_matrix.inv, DENSE),
    "poses": (ops.pose, {}),
    "derivative": (pp.diff(FORWARD_DYNAMICS, "q"), DENSE),
    "log det": (ops.logdet(ops.mass_matrix), {}),
    "several": ((ops.V, ops.logdet(ops.mass_matrix), ops.mass_matrix.inv @ ops.tau), {}),
    "point inverse": ((ops.B.T @ ops.M.inv @ ops.B).inv, {"mode": "dense", "points": True}),
    "admittance": (ops.Lambda, {"mode": "dense", "points": True}),
}


@pytest.fixture(scope="module")
def model() -> pp.Model:
    return model_from_parents([-1, 0, 1, 0], 5, ["revolute", "free", "prismatic", "spherical"])


@pytest.fixture(scope="module")
def programs(model: pp.Model) -> list[pp.Program]:
    out: list[pp.Program] = []
    for x, options in EXPRESSIONS.values():
        points = [model.body_names[2], model.body_names[3]] if "points" in options else ()
        out.append(
            pp.compile(x, model, backend="native", mode=options.get("mode", "apply"), points=points)
        )
    return out


@pytest.fixture(scope="module")
def exported(programs: list[pp.Program]) -> InProcess:
    return InProcess(programs)


def inputs_of(program: pp.Program, seed: int = 3) -> list[np.ndarray]:
    given = arguments(program.model, program.request.points, (COUNT,), seed)
    return [np.ascontiguousarray(given[name]) for name in program.inputs]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)), ids=list(EXPRESSIONS))
def test_bits_of_one_and_of_many(number, programs, exported):
    program = programs[number]
    assert program.backend == "native"
    inputs = inputs_of(program)
    want = program(*inputs)
    want = want if isinstance(want, tuple) else (want,)
    many, status, first = exported.batch(number, COUNT, *inputs)
    assert first == 0 and not status.any()
    for a, b in zip(many, want, strict=True):
        assert_array_equal(a.reshape(b.shape), b)
    for i in range(COUNT):
        one, code = exported(number, *(np.ascontiguousarray(x[i]) for x in inputs))
        assert code == 0
        for a, b in zip(one, want, strict=True):
            assert_array_equal(a.reshape(b[i].shape), b[i])


def test_numbers_that_are_not_finite_are_named_as_such(programs, exported):
    inputs = inputs_of(programs[0])
    inputs[0][4, 1] = np.nan
    inputs[2][7, 0] = np.inf
    for i in (4, 7):
        _, code = exported(0, *(np.ascontiguousarray(x[i]) for x in inputs))
        assert code == NOT_FINITE
    _, status, first = exported.batch(0, COUNT, *inputs)
    assert first == NOT_FINITE
    assert_array_equal(status, [NOT_FINITE if i in (4, 7) else 0 for i in range(COUNT)])


def test_an_empty_batch_does_nothing(programs, exported):
    inputs = [x[:0] for x in inputs_of(programs[0])]
    _, status, first = exported.batch(0, 0, *inputs)
    assert first == 0 and status.size == 0


# Constants fit into a hole of the addresses where the code does not, and both are far apart.
FAR = """
import ctypes, sys
import llvmlite.binding as llvm
from phipsi.native.targets.target import MachineCode
from phipsi.codegen.targets import target_named

if "apart" in sys.argv:
    create = llvm.create_mcjit_compiler
    llvm.create_mcjit_compiler = lambda module, machine, use_lmm: create(module, machine)
sums = "".join(f"%x{i + 1} = fadd double %x{i}, {i % 4}.5\\n" for i in range(8000))
text = f"define double @f(double %x0) {{ {sums} ret double %x8000 }}"
target = target_named("host").target
binary = target.object_code(text)
libc, block, private = ctypes.CDLL(None), 1 << 15, 0x4022  # anonymous, without memory
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
far = libc.mmap(None, 16 << 30, 0, private, -1, 0)
last = libc.mmap(None, block, 0, private, -1, 0)
while (this := libc.mmap(None, block, 0, private, -1, 0)) > far:
    last = this
if last < far:
    sys.exit("no hole")
libc.munmap(last + 4096, 8192)
code = MachineCode(binary, target)
f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))
print(f(1.0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs mmap as Linux has it")
def test_code_and_its_constants_lie_near_each_other(tmp_path):
    """In a process whose addresses are nearly taken, too; the twin with LLVM's memory dies."""
    (tmp_path / "far.py").write_text(FAR)
    good, bad = (
        warm_python.run(["far.py", *words], cwd=tmp_path, env=dict(os.environ))
        for words in ([], ["apart"])
    )
    if bad.returncode == 0 or "no hole" in bad.stderr:
        pytest.skip("here they lie near each other anyway")
    assert good.returncode == 0 and float(good.stdout) == 1 + 8000 * 2, good.stderr


def test_static_memory_gives_the_same_bits(programs):
    static = InProcess(programs[:1], static=True, batch=False)
    x = [np.ascontiguousarray(a[0]) for a in inputs_of(programs[0])]
    out = [np.full(programs[0].model.nv, np.nan)]
    assert static.call("f0", [*x, *out]) == 0
    assert_array_equal(out[0], programs[0](*x))


def test_tables_with_equal_contents_are_there_once(programs):
    target = target_named("host").target
    texts = [
        exported_module(
            [FunctionSource(f"f{i}", source_of(p), ()) for i, p in enumerate(some)],
            target,
            batch=False,
        ).text
        for some in (programs[:1], programs[1:2], programs[:2])
    ]
    tables = [re.findall(r"(?<= = )internal constant .*", t) for t in texts]
    assert len(set(tables[2])) == len(tables[2])
    assert len(tables[2]) <= max(len(tables[0]), len(tables[1])) < len(tables[0]) + len(tables[1])


@pytest.mark.parametrize("name", ["cortex-m7", "wasm32-simd", "x86-64-v3"])
def test_no_text_calls_a_library(name, programs):
    row = TARGETS[name]
    sources = [FunctionSource(f"f{i}", source_of(p), ()) for i, p in enumerate(programs)]
    text = exported_module(sources, row.target).text
    allowed = {"sqrt", "fabs", "copysign", "masked", "ctlz"}
    allowed |= {"fma"} if row.target.fused else set()
    allowed |= {"maxnum", "floor"} - set(row.target.missing)
    declared = {x.split(".")[1] for x in re.findall(r"^declare .* @(llvm\.[\w.]+)", text, re.M)}
    assert declared <= allowed
    assert not re.search(r"^declare .* @(?!llvm\.)", text, re.M)
    assert not re.search(r"inttoptr|ptrtoint|sitofp|fptosi|<1 x| s(div|rem) ", text)


def test_texts_that_call_a_library_are_found():
    model = pp.examples.seven_joint_arm()
    program = pp.compile(ops.mass_matrix, model, mode="dense", backend="native")
    native = program.native
    assert native is not None and "llvm.memset" in native.unit.emit()
    row = TARGETS["cortex-m7"]
    assert (
        "llvm.memset"
        not in exported_module([FunctionSource("f", source_of(program), ())], row.target).text
    )


# ---- any expression, any mechanism ---------------------------------------------------------------


def _random_program(seed: int) -> tuple[pp.Program, list[np.ndarray]] | None:
    rng = np.random.default_rng(seed)
    model = random_tree(rng, int(rng.integers(1, 5)), ALL)
    points = [model.body_names[-1]] if seed % 3 == 0 else None
    x = Generator(rng, points=points is not None).expression()
    mode = "dense" if seed % 2 and x.op is not Op.LEAF else "apply"
    try:
        program = pp.compile(x, model, mode=mode, points=points, backend="native")
    except (LoweringError, SpaceError, InputError):
        return None
    if program.backend != "native":
        return None
    given = arguments(model, program.request.points, (), seed)
    shapes = program.input_shapes
    inputs = [given[n] if n in given else rng.standard_normal(shapes[n]) for n in program.inputs]
    return program, [np.ascontiguousarray(a, dtype=float) for a in inputs]


def test_random_programs_give_the_bits_of_the_code_here():
    found = [_random_program(seed) for seed in range(EXPORTED_EXPRESSIONS)]
    cases = [x for x in found if x is not None]
    assert len(cases) > EXPORTED_EXPRESSIONS / 2
    exported = InProcess([program for program, _ in cases], batch=False)
    for number, (program, inputs) in enumerate(cases):
        want, status = program(*inputs, on_error="best")
        want = want if isinstance(want, tuple) else (want,)
        got, code = exported(number, *inputs)
        assert code == status, program
        if code == 0:
            for a, b in zip(got, want, strict=True):
                assert_array_equal(a.reshape(b.shape), b, err_msg=repr(program))


@pytest.mark.parametrize("bodies", [1, 4, 5])
def test_tiles_of_products_do_not_change_bits(bodies, monkeypatch):
    """Products of matrices of fewer rows than a tile, of a whole tile, and of one and a rest."""
    chain = pp.examples.planar_arm(bodies)
    forms = forward_dynamics_operators()
    program = pp.compile(forms, chain, mode="dense", backend="native")
    inputs = inputs_of(program)
    results, texts = [], set[str]()
    for registers in (16, 32):
        monkeypatch.setattr(Target, "registers", property(lambda _, n=registers: n))
        exported = InProcess([program])
        texts.add(exported.module.text)
        found, status, _ = exported.batch(0, COUNT, *inputs)
        assert not status.any()
        results.append([found, [exported(0, *(x[i] for x in inputs))[0] for i in range(COUNT)]])
    assert len(texts) == (2 if bodies > 2 else 1)  # a small matrix has no whole tile
    want = program(*inputs)
    for many, ones in results:
        for k, w in enumerate(want):
            assert_array_equal(many[k], w)
            assert_array_equal([one[k] for one in ones], w)


def test_registers_of_processors():
    few = {name for name, row in TARGETS.items() if row.target.registers == 16}
    assert few == {
        "x86-64", "x86-64-v2", "x86-64-v3", "armv7", "cortex-m7", "cortex-m4", "cortex-m33",
        "macos-x86-64", "windows-x64",
    }  # fmt: skip
