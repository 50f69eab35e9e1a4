"""Exported code gives the same bits on other processors, in equal time for every state."""

from __future__ import annotations

import warnings
from importlib.metadata import files
from pathlib import Path

import numpy as np
import pytest
from emulators import run
from numpy.testing import assert_allclose, assert_array_equal
from single_kernels import SingleKernel

import phipsi as pp
from phipsi import operators as ops
from phipsi.codegen.export import undefined_symbols
from phipsi.codegen.named_programs import NAMED
from phipsi.codegen.targets import TARGETS
from phipsi.errors import PhipsiWarning
from phipsi.native.targets.target import host_target

FORWARD = NAMED["forward_dynamics"].expression


@pytest.fixture(autouse=True)
def full_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHIPSI_LLVM_EFFORT", "3")


@pytest.fixture(scope="module")
def arm() -> pp.Model:
    return pp.examples.seven_joint_arm()


@pytest.fixture(scope="module")
def ur5() -> pp.Model:
    """A six-axis arm of industry, from the robots that come with Pinocchio."""
    listed = files("example-robot-data") or []
    (path,) = [f for f in listed if f.name == "ur5_robot.urdf"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)
        return pp.load(Path(str(path.locate())).resolve(), "fixed")


def states(model: pp.Model, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    q = np.array([model.random_configuration(rng) for _ in range(count)])
    return [q, rng.standard_normal((count, model.nv)), rng.standard_normal((count, model.nv))]


def expected(x, model, target, inputs, **options):
    """The numbers of Python, and whether they have the bits that the target should give."""
    fused = TARGETS[target].target.fused
    program = pp.compile(x, model, backend="native", reproducible=not fused, **options)
    return program(*inputs), not fused or host_target().fused


@pytest.mark.parametrize("target", ["aarch64-linux", "armv7", "riscv64"])
def test_other_processors_give_the_same_bits(target, arm, tmp_path):
    cases = {"forward": (FORWARD, {}, 3), "inverse": (ops.mass_matrix.inv, {"mode": "dense"}, 1)}
    programs = {n: pp.compile(x, arm, backend="native", **o) for n, (x, o, _) in cases.items()}
    found = pp.export(programs, tmp_path / "out", target=target)
    for i, (x, options, count) in enumerate(cases.values()):
        inputs = states(arm, 5)[:count]
        inputs[0][3] *= 1e6  # angles beyond the range of quick reduction
        answer = run(found, inputs, tmp_path, i)
        want, exact = expected(x, arm, target, inputs, **options)
        assert answer.status == 0
        if exact:
            assert_array_equal(answer.results, want)
        else:
            assert_allclose(answer.results, want, rtol=1e-9)


def test_a_microcontroller_takes_the_same_number_of_instructions_for_every_state(ur5, tmp_path):
    program = pp.compile(FORWARD, ur5, backend="native")
    found = program.export(tmp_path / "out", target="cortex-m7")
    assert found.code_bytes <= 8_700 and found.functions[0].work_bytes <= 4500
    inputs = states(ur5, 20)
    answer = run(found, inputs, tmp_path)
    want, exact = expected(FORWARD, ur5, "cortex-m7", inputs)
    assert answer.status == 0
    if exact:
        assert_array_equal(answer.results, want)
    else:
        assert_allclose(answer.results, want, rtol=1e-9)
    assert len(answer.instructions) == 20
    assert max(answer.instructions) - min(answer.instructions) <= 1  # of the timer's rounding
    assert answer.instructions[0] <= 7_450


def test_single_precision_on_a_microcontroller_without_doubles(ur5, tmp_path):
    """The bits of this processor, no helper functions, the same instructions for every state."""
    program = pp.compile(FORWARD, ur5, backend="native")
    found = program.export(tmp_path / "out", target="cortex-m4", precision="single")
    assert found.code_bytes <= 8 * 1024 and found.functions[0].work_bytes <= 2250
    binary = (found.folder / "robot.o").read_bytes()
    assert undefined_symbols(binary) == ()
    inputs = [x.astype(np.float32) for x in states(ur5, 20)]
    answer = run(found, inputs, tmp_path)
    assert answer.status == 0
    assert_allclose(answer.results, program(*inputs), atol=4e-6 * np.abs(answer.results).max())
    if host_target().fused:
        here = SingleKernel(program)
        assert_array_equal(answer.results, [here(*x)[0][0] for x in zip(*inputs, strict=True)])
    assert max(answer.instructions) - min(answer.instructions) <= 1
    assert answer.instructions[0] <= 7_000


def test_webassembly_is_small(ur5, tmp_path):
    found = pp.compile(FORWARD, ur5, backend="native").export(tmp_path / "out", target="wasm32")
    assert (found.folder / "robot.wasm").stat().st_size <= 9_000
