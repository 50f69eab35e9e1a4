"""Kernels of a GPU: ptxas accepts them, and as C they give the bits of the program here.

There is no GPU in the tests: this is as far as one gets without.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from exported_code import tool
from numpy.testing import assert_array_equal
from ptx_as_c import Kernels

import phipsi as pp
from phipsi.codegen.export import Exported
from phipsi.codegen.named_programs import programs_named
from phipsi.errors import InputError

COUNT = 7  # not a multiple of the threads of a block


@pytest.fixture(scope="module")
def arm() -> pp.Model:
    return pp.examples.planar_arm(3)


@pytest.fixture(scope="module")
def programs(arm: pp.Model) -> dict[str, pp.Program]:
    what = ["forward_dynamics", "mass_matrix_inverse", "jacobian:tip"]
    return programs_named(arm, what, backend="native")


@pytest.fixture(scope="module")
def simulator(arm: pp.Model) -> pp.Simulator:
    return pp.Simulator(arm, dt=1e-3)


@pytest.fixture(scope="module")
def found(programs, simulator, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    where = tmp_path_factory.mktemp("ptx") / "arm"
    return pp.export(programs, where, name="arm", target="nvptx64", step=simulator)


@pytest.fixture(scope="module")
def kernels(found: Exported, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return Kernels(found.folder / "arm.ptx", tmp_path_factory.mktemp("c"))


def test_ptxas_accepts_it(found: Exported, tmp_path: Path):
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("ptxas is not installed; it comes with CUDA, or pip install nvidia-cuda-nvcc")
    words = [ptxas, "-v", "-arch=sm_80", found.folder / "arm.ptx", "-o", tmp_path / "arm.cubin"]
    done = subprocess.run(words, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert (tmp_path / "arm.cubin").stat().st_size > 1000
    entries = re.findall(r"Compiling entry function '(\w+)'", said)
    assert sorted(entries) == sorted(
        ["arm_forward_dynamics_batch", "arm_mass_matrix_inverse_batch", "arm_jacobian_tip_batch",
         "arm_step_batch", "arm_rollout_batch"]
    )  # fmt: skip
    assert int(re.findall(r"Used (\d+) registers", said)[0]) <= 255
    wrong = found.folder.parent / "wrong.ptx"
    wrong.write_text((found.folder / "arm.ptx").read_text().replace("fma.rn.f64", "fma.rx.f64"))
    assert subprocess.run([ptxas, wrong, "-o", tmp_path / "w"], capture_output=True).returncode


def test_rounding_is_written_out(found: Exported):
    """Without `.rn`, ptxas may fuse a product and a sum."""
    text = (found.folder / "arm.ptx").read_text()
    codes = set(re.findall(r"^\s+((?:add|sub|mul|fma|div|rcp|sqrt)\.[\w.]*f64)", text, re.M))
    assert "fma.rn.f64" in codes and all(".rn." in x for x in codes)


def test_nothing_is_called_and_no_data_changes(found: Exported):
    text = (found.folder / "arm.ptx").read_text()
    assert ".extern" not in text and "vprintf" not in text
    tables = re.findall(r"^\.global .* (\S+)\[", text, re.M)
    assert tables and not re.search(r"^\s+st\.global\S*\s+\[(?!%)", text, re.M)


@pytest.mark.parametrize("number", range(3))
def test_bits_of_every_thread(number, programs, found, kernels):
    name, program = list(programs.items())[number]
    rng = np.random.default_rng(number)
    inputs = [rng.standard_normal((COUNT, *program.input_shapes[n])) for n in program.inputs]
    want = program(*inputs)
    result = np.full(want.shape, np.nan)
    status = np.full(COUNT + 1, -1, dtype=np.int32)
    if number == 0:
        inputs[0][2, 0], want[2] = np.nan, np.nan
    kernels.launch(f"arm_{name}_batch", [COUNT], [*inputs, result, status])
    good = np.arange(COUNT) != (2 if number == 0 else -1)
    assert_array_equal(result[good], want[good])
    assert (status[:-1][good] == 0).all() and status[-1] == -1
    assert number or status[2] == 4


def test_steps_of_every_thread(simulator, found, kernels):
    rng = np.random.default_rng(5)
    q, v, tau = rng.standard_normal((3, COUNT, 3))
    t, step, status = np.zeros((COUNT, 1)), np.zeros((COUNT, 1)), np.full(COUNT, -1, dtype=np.int32)
    state = simulator.initial_state(q, v)
    for name, first, steps in (("step", [COUNT], 1), ("rollout", [COUNT, 4], 4)):
        kernels.launch(f"arm_{name}_batch", first, [q, v, t, step, tau, status])
        simulator.step(state, tau, steps)
        assert not status.any()
        assert_array_equal(q, state.q)
        assert_array_equal(v, state.v)
    assert_array_equal(step, 5)


def test_single_precision(arm, programs, tmp_path):
    program = programs["forward_dynamics"]
    small = pp.export({"f": program}, tmp_path / "arm", target="nvptx64", precision="single")
    accuracy = small.functions[0].accuracy
    assert accuracy is not None
    kernels = Kernels(small.folder / "robot.ptx", tmp_path)
    inputs = list(np.random.default_rng(1).standard_normal((3, COUNT, 3)).astype(np.float32))
    result, status = np.zeros((COUNT, 3), dtype=np.float32), np.zeros(COUNT, dtype=np.int32)
    kernels.launch("robot_f_batch", [COUNT], [*inputs, result, status])
    want = program(*(x.astype(float) for x in inputs))
    error = np.abs(result - want).max(axis=1) / np.abs(want).max(axis=1)
    assert 0 < error.max() < 10 * accuracy.largest and not status.any()


def test_the_test_program_compiles(found: Exported):
    ptxas = shutil.which("ptxas")
    places = [Path("/usr/local/cuda/include"), *Path("/usr/local").glob("cuda-*/include")]
    here = next((p for p in places if (p / "cuda.h").is_file()), None)
    if ptxas is None or here is None:
        pytest.skip("cuda.h is not installed; it comes with CUDA")
    words = [tool("gcc"), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{here}", "test_arm.c"]
    done = subprocess.run(words, cwd=found.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_memory_is_the_threads_own(programs, tmp_path):
    with pytest.raises(InputError, match="every thread needs work memory"):
        pp.export(programs, tmp_path / "x", target="nvptx64", scratch="static")
    assert not list(tmp_path.iterdir())
