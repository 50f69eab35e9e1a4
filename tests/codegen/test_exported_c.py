"""`pp.export(…, target="c")`: C99 that any compiler compiles, with the bits of the program."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_programs import FLAGS
from comparers import same_bits

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.operators import mass_matrix

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.quick_code,
]
COUNT = 5


@pytest.fixture(scope="module")
def programs() -> dict[str, pp.Program]:
    model = pp.examples.planar_arm(3)
    options: dict[str, Any] = {"backend": "native", "reproducible": True}
    return {
        "forward_dynamics": pp.compile(FORWARD_DYNAMICS, model, **options),
        "inverse": pp.compile(mass_matrix.inv, model, mode="dense", **options),
    }


def compiled(folder: Path, *words: str) -> None:
    done = subprocess.run(
        ["gcc", *FLAGS, *words, "-lm"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]


@pytest.fixture(scope="module")
def folder(programs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("c") / "arm"
    found = pp.export(programs, where, name="arm", target="c")
    assert found.files[0] == "arm.c"
    compiled(where, "-shared", "-fPIC", "arm.c", "-o", "arm.so")
    return where


def test_the_test_program_says_ok(folder: Path):
    compiled(folder, "test_arm.c", "arm.c", "-o", "test")
    done = subprocess.run(["./test"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "ok"


def states(n: int = COUNT) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal((n, 3)) for _ in range(3)]


def test_bits_of_one_and_of_many(programs: Any, folder: Path):
    code = ctypes.CDLL(str(folder / "arm.so"))
    q, v, tau = states()
    for name, given in (("forward_dynamics", [q, v, tau]), ("inverse", [q])):
        want = np.asarray(programs[name](*given))
        work = np.full(2000, np.nan)
        one = np.zeros(want.shape[1:])
        for i in range(COUNT):
            arrays = [*(np.ascontiguousarray(a[i]) for a in given), one, work]
            assert getattr(code, f"arm_{name}")(*map(_pointer, arrays)) == 0
            same_bits(one, want[i])
        many, status = np.zeros(want.shape), np.full(COUNT, -1, dtype=np.int32)
        arrays = [*given, many, status, work]
        assert getattr(code, f"arm_{name}_batch")(COUNT, *map(_pointer, arrays)) == 0
        same_bits(many, want)
        assert not status.any()


def _pointer(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def test_statuses(programs: Any, folder: Path):
    """NaN is "not finite" here too, and the batch names the first failure."""
    code = ctypes.CDLL(str(folder / "arm.so"))
    q, v, tau = states()
    q[2, 0] = np.nan
    many, status, work = np.zeros((COUNT, 3)), np.zeros(COUNT, dtype=np.int32), np.zeros(2000)
    first = code.arm_forward_dynamics_batch(COUNT, *map(_pointer, [q, v, tau, many, status, work]))
    assert (first & 7) == (status[2] & 7) != 0
    assert not status[[0, 1, 3, 4]].any()


@pytest.mark.parametrize("options", [{"scratch": "static"}, {"precision": "single"}], ids=str)
def test_static_memory_and_single_precision(options: Any, programs: Any, tmp_path: Path):
    where = tmp_path / "arm"
    pp.export(programs, where, name="arm", target="c", **options)
    compiled(where, "test_arm.c", "arm.c", "-o", "test")
    assert subprocess.run(["./test"], cwd=where, check=False, capture_output=True).returncode == 0


def test_nothing_is_called_but_the_root(folder: Path):
    compiled(folder, "-c", "arm.c", "-o", "arm.o")
    listed = subprocess.run(["nm", "arm.o"], cwd=folder, capture_output=True, text=True, check=True)
    wanted = {x.split()[-1] for x in listed.stdout.splitlines() if " U " in x}
    assert wanted <= {"sqrt", "memset", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    assert not [x for x in listed.stdout.splitlines() if x.split()[-2] in "BbDd"]


@pp.law
def hold(q: Any, v: Any, kp: Any, target: Any) -> Any:
    return kp * (target - q) - 0.3 * v


def test_a_step_with_laws(tmp_path: Path):
    """The rollout of C has the numbers of the simulator's, but for rounding."""
    held = hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4]).sampled(rate=250.0)
    sim = pp.Simulator(pp.examples.planar_arm(2), [held], dt=1e-3)
    where = tmp_path / "arm"
    found = pp.export({}, where, name="arm", target="c", step=sim)
    compiled(where, "test_arm.c", "arm.c", "-o", "test")
    assert subprocess.run(["./test"], cwd=where, check=False, capture_output=True).returncode == 0
    compiled(where, "-shared", "-fPIC", "arm.c", "-o", "arm.so")
    state, plan = sim.initial_state([0.1, 0.2]), sim.compiled.plan()
    given = {n: np.array(x, dtype=float) for n, x in state.arrays().items()}
    arrays = [*(given[n] for n in plan.states), np.zeros(1), np.array([0.5, 0.0])]
    arrays += [np.ascontiguousarray(given[n]) for n in plan.shared]
    arrays.append(np.zeros(found.functions[0].work_bytes // 8))
    code = ctypes.CDLL(str(where / "arm.so"))
    assert code.arm_rollout(200, *map(_pointer, arrays)) == 0
    want = sim.rollout(state, [0.5, 0.0], steps=200, record_every=200)
    np.testing.assert_allclose(given["q"].ravel(), want.q[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(given["v"].ravel(), want.v[-1], rtol=0, atol=1e-11)
