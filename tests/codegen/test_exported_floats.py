"""`pp.export(precision="single")`: arrays of float, with their accuracy in the header."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess

import known_systems
import numpy as np
import pytest
from exported_code import run, tool
from numpy.testing import assert_array_equal
from single_kernels import SingleKernel

import phipsi as pp
from phipsi import operators as ops
from phipsi.codegen.export import undefined_symbols
from phipsi.codegen.named_programs import NAMED
from phipsi.codegen.targets import target_named
from phipsi.errors import InputError

WARNINGS = "-std=c99 -Wall -Wextra -Werror -pedantic".split()


@pytest.fixture(scope="module")
def programs() -> dict[str, pp.Program]:
    arm = pp.examples.seven_joint_arm()
    forms = {
        "forward": (NAMED["forward_dynamics"].expression, {}),
        "inverse": (ops.mass_matrix.inv, {"mode": "dense"}),
        "logarithm": (ops.logdet(ops.mass_matrix), {}),
    }
    return {n: pp.compile(x, arm, backend="native", **o) for n, (x, o) in forms.items()}


@pytest.fixture(scope="module")
def exported(programs: dict[str, pp.Program], tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("single") / "arm"
    return pp.export(programs, folder, name="arm", precision="single")


def test_the_header_has_floats_and_their_accuracy(exported) -> None:
    text = (exported.folder / "arm.h").read_text()
    assert "int arm_forward(const float *q, const float *v, const float *tau, float *vdot" in text
    assert "double" not in re.sub(r"double precision", "", text)
    assert text.count("Errors against double precision: median") == 3
    for f in exported.functions:
        assert 0 < f.accuracy.median <= f.accuracy.largest < 4e-6
        assert (f.accuracy.states, f.accuracy.failed) == (100, 0)
    listing = json.loads((exported.folder / "export.json").read_text())
    assert listing["number"] == "float"
    assert listing["functions"][0]["accuracy"]["largest"] == exported.functions[0].accuracy.largest
    assert undefined_symbols((exported.folder / "arm.o").read_bytes()) == ()


def test_memory_is_half_of_that_of_doubles(programs, tmp_path) -> None:
    """And vectors hold twice as many."""
    chosen = {"forward": programs["forward"]}
    single, double = (
        pp.export(chosen, tmp_path / p, target="cortex-m7", precision=p)
        for p in ("single", "double")
    )
    assert 2 * single.functions[0].work_bytes <= double.functions[0].work_bytes + 32
    assert single.code_bytes < double.code_bytes
    lanes = [target_named("x86-64-v3", number=n).target.lanes for n in ("float", "double")]
    assert lanes == [8, 4]


def test_the_test_program_says_ok_and_finds_wrong_numbers(exported, tmp_path) -> None:
    words = [tool("gcc"), *WARNINGS, f"-I{exported.folder}"]
    for name, change in (("right", ""), ("wrong", r"\g<1>1.001f * ")):
        text = (exported.folder / "test_arm.c").read_text()
        text = re.sub(r"(_vdot\[4\]\[7\] = \{\n  \{)", change, text, count=1) if change else text
        (tmp_path / f"{name}.c").write_text(text)
        run(*words, f"{name}.c", exported.folder / "arm.o", "-o", name, cwd=tmp_path)
    assert run(tmp_path / "right", cwd=tmp_path) == "ok"
    done = subprocess.run([tmp_path / "wrong"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("FAILED: function 1")


def test_batches_and_single_calls_have_the_bits_of_python(programs, tmp_path) -> None:
    """Called through a shared library, on more states than lanes."""
    tool("gcc")
    given_once = {"forward": programs["forward"]}
    linked = pp.export(given_once, tmp_path, name="arm", precision="single", shared=True)
    library = ctypes.CDLL(str(linked.folder / "libarm.so"))
    program, rng, n = programs["forward"], np.random.default_rng(0), 21
    given = [rng.standard_normal((n, 7)).astype(np.float32) for _ in range(3)]
    kernel = SingleKernel(program)
    want = np.array([kernel(*x)[0][0] for x in zip(*given, strict=True)])
    out, status = np.zeros((n, 7), np.float32), np.full(n, -1, np.int32)
    f = linked.functions[0]
    work = np.full(max(f.batch_bytes, f.work_bytes), 0xFF, np.uint8)

    def at(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
        return [ctypes.c_void_p(a.ctypes.data) for a in arrays]

    assert library.arm_forward_batch(n, *at(*given, out, status, work)) == 0
    assert_array_equal(out, want)
    assert_array_equal(status, 0)
    one = np.zeros(7, np.float32)
    assert library.arm_forward(*at(*(a[3] for a in given), one, work)) == 0
    assert_array_equal(one, want[3])


def test_c_source_and_webassembly(programs, tmp_path) -> None:
    program = {"forward": programs["forward"], "logarithm": programs["logarithm"]}
    source = pp.export(program, tmp_path / "c", name="arm", target="c", precision="single")
    flags = [*WARNINGS, "-O1", "-ffp-contract=off", "-Wfloat-conversion", "-Wdouble-promotion"]
    run(tool("gcc"), *flags, "-c", "arm.c", "-o", tmp_path / "arm.o", cwd=source.folder)
    words = [tool("gcc"), *WARNINGS, "test_arm.c", tmp_path / "arm.o", "-lm", "-o", tmp_path / "t"]
    run(*words, cwd=source.folder)
    assert run(tmp_path / "t", cwd=tmp_path) == "ok"
    web = pp.export(program, tmp_path / "web", name="arm", target="wasm32", precision="single")
    assert run(tool("node"), "test_arm.mjs", cwd=web.folder) == "ok"
    assert "Float32Array" in (web.folder / "arm.d.mts").read_text()
    for found in (source, web):
        for f in found.functions:
            said = f"`{f.name}` in single precision against double: {f.accuracy}"
            assert said in (found.folder / "README.md").read_text()


def test_constrained_systems_are_measured_too(tmp_path) -> None:
    """At random configurations, which do not close the loops: of matrices that does not matter."""
    system, _, _ = known_systems.n_four_bar(2)
    matrix = pp.compile(ops.A @ ops.Lambda @ ops.A.T, system, mode="dense", backend="native")
    found = matrix.export(tmp_path / "out", precision="single", target="cortex-m33")
    assert found.functions[0].accuracy.largest < 4e-6


def test_other_precisions_are_rejected(programs, tmp_path) -> None:
    with pytest.raises(InputError, match="precision='half' is not one of"):
        pp.export(programs, tmp_path / "out", precision="half")
    sim = pp.Simulator(known_systems.n_four_bar(2)[0], dt=1e-3)
    with pytest.raises(InputError, match="this step solves equations .* need double precision"):
        pp.export({}, tmp_path / "out", precision="single", step=sim)
    assert not (tmp_path / "out").exists()
