"""A step of a simulator with its laws runs in C as it does here, bit for bit."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import amounts
import numpy as np
import pytest
from exported_code import InProcess, node_program, run, tool
from known_systems import four_bar, rolling_ball
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.codegen.export import Exported
from phipsi.codegen.exported_step import exported_step
from phipsi.errors import InputError


@pp.law
def hold(q, v, kp, target):
    away = (target - q + np.pi) % (2 * np.pi) - np.pi  # the short way round
    return kp * away - 0.3 * v


def with_laws() -> pp.Simulator:
    arm = pp.examples.planar_arm(2)
    held = hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4]).sampled(rate=250.0)
    friction = pp.forces.JointFriction(["joint1"], 0.2)
    return pp.Simulator(arm, [held, friction], dt=1e-3, per_trajectory=("gravity",))


def closed() -> pp.Simulator:
    return pp.Simulator(four_bar(), dt=1e-3)


def flying() -> pp.Simulator:
    return pp.Simulator(pp.examples.free_flyer(), dt=1e-3, integrator="semi_implicit")


def rolling() -> pp.Simulator:
    return pp.Simulator(rolling_ball(), dt=1e-3, integrator="time_stepping")


CASES = {"laws": with_laws, "closed": closed, "flying": flying}
CASES |= {"rolling": rolling} if amounts.ALL else {}  # LLVM takes seconds for it
PARAMETERS = {"laws": {"gravity": [0.0, -9.81, 0.0]}}


@pytest.mark.parametrize("name", CASES)
def test_bits_of_steps(name):
    sim = CASES[name]()
    code = InProcess([], step=sim)
    function = code.module.functions[0]
    rng = np.random.default_rng(2)
    q = sim.model.random_configuration(rng)
    if name == "closed":
        q = four_bar().assemble(q)
    if name == "rolling":
        q = np.array([1.0, 0, 0, 0, 0, 0, 0.1])
    state = sim.initial_state(q, parameters=PARAMETERS.get(name, {}))
    tau = rng.standard_normal(sim.model.nv)
    given = {n: np.array(x, dtype=float) for n, x in state.arrays().items()}
    plan = sim.compiled.plan()
    arrays = [np.ascontiguousarray(given[n]) for n in plan.states]
    counter = np.zeros(1)
    rest = [tau, *(np.ascontiguousarray(given[n]) for n in plan.shared)]
    work = np.full(function.work_bytes + 64, 0xFF, dtype=np.uint8)
    for steps in (1, 1, 9):
        sim.step(state, tau, steps)
        names = [function.name] if steps == 1 else [function.rollout]
        lead = [] if steps == 1 else [steps]
        assert code.call(names[0], [*arrays, counter, *rest, work], lead) == 0
        for n, x in zip(plan.states, arrays, strict=True):
            assert_array_equal(x.ravel(), state.arrays()[n].ravel(), err_msg=n)
    assert counter[0] == 11 and (work[-64:] == 0xFF).all()


def test_a_step_that_fails_keeps_the_state():
    sim = with_laws()
    code = InProcess([], step=sim)
    state = sim.initial_state([0.1, 0.2], parameters=PARAMETERS["laws"])
    given = {n: np.array(x, dtype=float) for n, x in state.arrays().items()}
    plan = sim.compiled.plan()
    arrays = [np.ascontiguousarray(given[n]) for n in plan.states]
    before = [x.copy() for x in arrays]
    tau = np.array([np.nan, 0.0])
    rest = [tau, *(np.ascontiguousarray(given[n]) for n in plan.shared)]
    work = np.zeros(code.module.functions[0].work_bytes, dtype=np.uint8)
    assert code.call("robot_step", [*arrays, np.zeros(1), *rest, work]) % 8 == 4
    for x, old, n in zip(arrays, before, plan.states, strict=True):
        if n in ("q", "v", "t"):
            assert_array_equal(x, old)


def test_a_negative_number_of_steps_is_none():
    sim = sampled()
    code = InProcess([], step=sim)
    state = sim.initial_state([0.1, 0.2])
    given = {n: np.array(x, dtype=float) for n, x in state.arrays().items()}
    plan = sim.compiled.plan()
    arrays = [np.ascontiguousarray(given[n]) for n in plan.states]
    before = [x.copy() for x in arrays]
    rest = [np.zeros(2), *(np.ascontiguousarray(given[n]) for n in plan.shared)]
    work = np.zeros(code.module.functions[0].work_bytes, dtype=np.uint8)
    counter = np.full(1, 7.0)
    for count in (0, -1, -(2**31)):
        assert code.call("robot_rollout", [*arrays, counter, *rest, work], [count]) == 0
        assert counter[0] == 7
        for x, old in zip(arrays, before, strict=True):
            assert_array_equal(x, old)


def test_files_of_a_step(tmp_path):
    sim = with_laws()
    sim = pp.Simulator(sim.model, [hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4])], dt=1e-3)
    program = pp.compile("mass_matrix", sim.model, mode="dense", backend="native")
    for target in ("host", "wasm32"):
        found = pp.export({"mass_matrix": program}, tmp_path / target, step=sim, target=target)
        assert [f.name for f in found.functions] == ["robot_mass_matrix", "robot_step"]
        if target == "host":
            words = [
                "-std=c99",
                "-Wall",
                "-Wextra",
                "-Werror",
                "test_robot.c",
                "robot.o",
                "-o",
                "t",
            ]
            run(tool("gcc"), *words, cwd=found.folder)
            assert run("./t", cwd=found.folder) == "ok"
            header = (found.folder / "robot.h").read_text()
            assert (
                "int robot_rollout(int n, double *q, double *v, double *t, double *step," in header
            )
            listing = json.loads((found.folder / "export.json").read_text())
            names = [a["name"] for a in listing["functions"][1]["arguments"]]
            assert names == ["q", "v", "t", "step", "tau", "hold_kp", "hold_target"]
        else:
            assert run(node_program(), "test_robot.mjs", cwd=found.folder) == "ok"


@pytest.mark.parametrize("name", ["laws", "flying"])
def test_single_precision_and_static_memory(name, tmp_path):
    """As many steps as the sampled law needs to run twice; C says the same as the JIT's floats."""
    sim = CASES[name]() if name != "laws" else sampled()
    static = pp.export({}, tmp_path / "a", step=sim, precision="single", scratch="static")
    f = static.functions[0]
    assert f.accuracy is not None and 0 < f.accuracy.median <= f.accuracy.largest < 2e-6
    header = (static.folder / "robot.h").read_text()
    assert "int robot_step(float *q, float *v, float *t," in header and "double *" not in header
    assert "void *work" not in header and "Errors against double precision" in header
    run(tool("gcc"), "-Wall", "-Werror", "test_robot.c", "robot.o", "-o", tmp_path / "t",
        cwd=static.folder)  # fmt: skip
    assert run(tmp_path / "t", cwd=static.folder) == "ok"
    library = linked(static, tmp_path / "static.so")
    given = pp.export({}, tmp_path / "b", step=sim, precision="single")
    other = linked(given, tmp_path / "given.so")
    rng = np.random.default_rng(3)
    state = sim.initial_state(
        sim.model.random_configuration(rng), rng.standard_normal(sim.model.nv)
    )
    arrays = {n: np.array(x, dtype=np.float32) for n, x in state.arrays().items()}
    plan, steps = sim.compiled.plan(), 40
    ends = []
    for one, work in ((library, []), (other, [np.full(given.functions[0].work_bytes, 255, "u1")])):
        rows = [arrays[n].copy() for n in plan.states]
        counter, tau = np.zeros(1, "f4"), np.zeros(sim.model.nv, "f4")
        rest = [np.array(state.shared[n], "f4") for n in plan.shared]
        places = [x.ctypes.data for x in (*rows, counter, tau, *rest, *work)]
        assert one(steps, *(ctypes.c_void_p(x) for x in places)) == 0
        assert counter[0] == steps
        ends.append(rows)
    sim.step(state, steps=steps)
    for n, x, y in zip(plan.states, *ends, strict=True):
        assert_array_equal(x, y)
        assert_allclose(x.ravel(), state.arrays()[n].ravel(), rtol=0, atol=2e-5)
        if n == "q":
            assert np.abs(x.ravel() - arrays[n].ravel()).max() > 1e-3


def test_a_step_for_the_web_has_its_numbers(tmp_path):
    """The program of the README takes the steps of the simulator, from the numbers in the code."""
    sim = sampled().as_reproducible()
    found = pp.export({}, tmp_path / "web", step=sim, target="wasm32")
    block = (found.folder / "README.md").read_text().split("```js\n")[-1].split("```")[0]
    report = "\nconsole.log(JSON.stringify([[...step.arrays.q], m.dt, m.defaults]));"
    (found.folder / "steps.mjs").write_text(f'import * as m from "./robot.mjs";\n{block}{report}')
    q, dt, defaults = json.loads(
        run(node_program(), "steps.mjs", cwd=found.folder).splitlines()[-1]
    )
    state = sim.initial_state()
    sim.step(state, steps=1000)
    assert np.abs(state.q).max() > 0.1 and q == state.q.tolist()
    assert dt == 1e-3 and defaults["hold_kp"] == [9.0, 4.0] and defaults["tau"] == [0.0, 0.0]


def sampled() -> pp.Simulator:
    held = hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4]).sampled(rate=50.0)
    return pp.Simulator(pp.examples.planar_arm(2), [held], dt=1e-3)


def linked(found: Exported, path: Path) -> Any:
    """The function of many steps, which is hidden, in a library."""
    words = ["-shared", "-Wl,--export-dynamic", "robot.o", "-o", path]
    text = "int robot_rollout(); void *rollout(void) { return robot_rollout; }\n"
    (path.parent / "call.c").write_text(text)
    run(tool("gcc"), "-fPIC", path.parent / "call.c", *words, cwd=found.folder)
    library = ctypes.CDLL(str(path))
    library.rollout.restype = ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library.rollout())


def test_the_example_of_the_readme_starts_from_defaults(tmp_path):
    """It compiles, and ends where the simulator does; infinite limits are numbers of C."""
    held = hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4]).sampled(rate=250.0)
    stop = pp.forces.JointLimit("joint1", 1e3, upper=3.0)
    sim = pp.Simulator(pp.examples.planar_arm(2), [held, stop], dt=1e-3)
    end = sim.rollout(sim.initial_state(), steps=1000, record_every=1000).q[-1]
    for target, options in (("host", {}), ("c", {}), ("host", {"precision": "single"})):
        folder = pp.export({}, tmp_path / target, step=sim, target=target, **options).folder
        number, end_of = ("float", "f") if options else ("double", "")
        header = (folder / "robot.h").read_text()
        assert f"#define ROBOT_DT 0.001{end_of} " in header
        text = f"static const {number} robot_default_hold_kp[2] = {{9.0{end_of}, 4.0{end_of}}};"
        assert text in header and "-INFINITY" in header
        readme = (folder / "README.md").read_text()
        assert "| `robot_rollout` | n, q, v, t, " in readme and "_batch`" not in readme
        program = readme.partition("```c\n")[2].partition("```")[0]
        shown = '  printf("%.17g %.17g", (double)q[0], (double)q[1]);\n  return 0;'
        program = "#include <stdio.h>\n" + program.replace("  return 0;", shown)
        (folder / "loop.c").write_text(program)
        code = "robot.c" if target == "c" else "robot.o"
        words = "-std=c99 -Wall -Wextra -Werror -pedantic -ffp-contract=off loop.c".split()
        run(tool("gcc"), *words, code, "-o", "loop", "-lm", cwd=folder)
        found = [float(x) for x in run("./loop", cwd=folder).split()]
        assert_allclose(found, end, rtol=0, atol=2e-4 if options else 1e-9)
        words[-1] = "test_robot.c"
        run(tool("gcc"), *words, code, "-o", "test", "-lm", cwd=folder)
        assert run("./test", cwd=folder) == "ok"


def test_a_law_is_exported_with_its_simulator(tmp_path):
    held = hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4])
    sim = pp.Simulator(pp.examples.planar_arm(2), [held])
    for given in ({"hold": held}, held):
        with pytest.raises(InputError, match="(?s)controller alone cannot be exported yet.*step="):
            pp.export(given, tmp_path / "x")
    with pytest.raises(InputError, match=r"Pass it as  step="):
        pp.export(sim, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_steps_that_cannot_be_exported(tmp_path):
    arm = pp.examples.planar_arm(2)
    with pytest.raises(InputError, match="must be a Simulator"):
        pp.export({}, tmp_path / "x", step=arm)
    for sim in (closed(), pp.Simulator(arm, dt=1e-3, integrator="implicit_midpoint")):
        with pytest.raises(InputError, match='need double precision.*precision="double"'):
            pp.export({}, tmp_path / "x", step=sim, precision="single")
    other = pp.compile("mass_matrix", pp.examples.planar_arm(3), mode="dense", backend="native")
    with pytest.raises(InputError, match="f, step are programs of 2 mechanisms"):
        pp.export({"f": other}, tmp_path / "x", step=pp.Simulator(arm))
    ends = pp.Episodes(time_limit=1.0)
    with pytest.raises(InputError, match="episodes are reset in Python"):
        exported_step(pp.Simulator(arm, episodes=ends), InProcess.host(), "robot")
    assert not list(tmp_path.iterdir())
