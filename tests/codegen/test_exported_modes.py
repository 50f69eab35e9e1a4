"""Programs and steps of bodies that deform, in C and WebAssembly: the bits of those here."""

from __future__ import annotations

import ctypes
import shutil
import zipfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from c_programs import FLAGS
from comparers import same_bits
from exported_code import InProcess, node_program, run, tool
from numpy.testing import assert_array_equal

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.codegen import fmu
from phipsi.operators import mass_matrix

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.quick_code,
]
COUNT = 5


@pytest.fixture(scope="module")
def model() -> pp.Model:
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(40.0, np.inf), modes=0, damping_ratio=0.01)
    builder.add_body("beam", inertia=beam)
    tool = pp.SpatialInertia.box((0.3, 0.1, 0.1), mass=0.2)
    builder.add_body("tool", parent="beam", port="tip", inertia=tool)
    return builder.build()


@pytest.fixture(scope="module")
def programs(model: pp.Model) -> dict[str, pp.Program]:
    options = {"backend": "native", "reproducible": True}
    return {
        "forward_dynamics": pp.compile(FORWARD_DYNAMICS, model, **options),
        "inverse": pp.compile(mass_matrix.inv, model, mode="dense", **options),
    }


def states(model: pp.Model) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    rates = rng.standard_normal((2, COUNT, model.nv))
    return [model.random_configuration(rng, (COUNT,)), *rates]


def test_c_has_the_bits_of_programs(model, programs, tmp_path: Path):
    sim = pp.Simulator(model, dt=1e-3, integrator="linearly_implicit", reproducible=True)
    chosen = {"forward_dynamics": programs["forward_dynamics"]}
    found = pp.export(chosen, tmp_path / "arm", name="arm", target="c", step=sim)
    run(tool("gcc"), *FLAGS, "-shared", "-fPIC", "arm.c", "-o", "arm.so", "-lm", cwd=found.folder)
    code = ctypes.CDLL(str(found.folder / "arm.so"))
    q, v, tau = states(model)
    want = np.asarray(programs["forward_dynamics"](q, v, tau))
    one, work = np.zeros(model.nv), np.full(4000, np.nan)
    for i in range(COUNT):
        arrays = [*(np.ascontiguousarray(a[i]) for a in (q, v, tau)), one, work]
        assert code.arm_forward_dynamics(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)) == 0
        same_bits(one, want[i])
    state, work = sim.initial_state(q[0], v[0]), np.zeros(4000)
    arrays = [q[0].copy(), v[0].copy(), np.zeros(1), np.zeros(1), tau[0].copy(), work]
    for _ in range(3):
        sim.step(state, tau[0])
        assert code.arm_step(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)) == 0
        assert_array_equal(arrays[0], state.q)
        assert_array_equal(arrays[1], state.v)
    assert np.abs(state.q[1:3] - q[0, 1:3]).max() > 1e-6  # it bends


@pytest.mark.parametrize("integrator", ["rk4", "linearly_implicit"])
def test_code_for_the_host_has_the_bits_of_steps(model, integrator):
    sim = pp.Simulator(model, dt=1e-3, integrator=integrator)
    code = InProcess([], step=sim)
    q, v, tau = (x[0] for x in states(model))
    state, work = (
        sim.initial_state(q, v),
        np.zeros(code.module.functions[0].work_bytes, dtype=np.uint8),
    )
    arrays = [q.copy(), v.copy(), np.zeros(1), np.zeros(1), tau.copy(), work]
    for _ in range(3):
        sim.step(state, tau)
        assert code.call("robot_step", arrays) == 0
        assert_array_equal(arrays[0], state.q)
        assert_array_equal(arrays[1], state.v)


def test_webassembly_says_ok(model, programs, tmp_path: Path):
    sim = pp.Simulator(model, dt=1e-3, integrator="linearly_implicit")
    found = pp.export(programs, tmp_path / "wasm", target="wasm32", step=sim)
    assert run(node_program(), "test_robot.mjs", cwd=found.folder) == "ok"


def test_an_fmu_has_the_numbers_of_a_rollout(model, tmp_path: Path):
    """Co-simulation bit for bit. Modes have no unit and no input; there are derivatives."""
    fmpy = pytest.importorskip("fmpy")
    sim = pp.Simulator(model, dt=1e-3, integrator="linearly_implicit", reproducible=True)
    q = np.array([0.1, 0.01, 0.0, -0.3])
    with patch.object(fmu, "_FLAGS", [x for x in fmu._FLAGS if x != "-O2"]):
        path = pp.export_fmu(sim, tmp_path / "beam.fmu", q=q, kind="co_simulation")
    listed = fmpy.read_model_description(str(path)).modelVariables
    assert [x.name for x in listed if x.causality == "input"] == ["tau.beam.0", "tau.tool"]
    assert next(x for x in listed if x.name == "q.beam.eta1").unit is None
    names = [x.name for x in listed if x.causality == "output"]
    found = fmpy.simulate_fmu(str(path), stop_time=0.05, output=names, output_interval=0.01)
    run = sim.rollout(sim.initial_state(q), steps=50, record_every=50)
    assert_array_equal([found[-1][n] for n in names], [*run.q[-1], *run.v[-1]])
    other = pp.export_fmu(sim, tmp_path / "exchange.fmu", kind="model_exchange", binary=False)
    assert fmpy.read_model_description(str(other)).modelExchange is not None
    text = zipfile.ZipFile(other).read("modelDescription.xml").decode()
    assert 'providesDirectionalDerivatives="true"' in text
