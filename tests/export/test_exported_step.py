"""A step of a simulator with its laws runs in C as it does here, bit for bit."""

from __future__ import annotations

import json

import amounts
import numpy as np
import pytest
from exported_code import InProcess, node_program, run, tool
from known_systems import four_bar
from numpy.testing import assert_array_equal

import phipsi as pp
from phipsi.errors import InputError
from phipsi.exporting.exported_step import exported_step


@pp.law
def hold(q, v, kp, target):
    return kp * (target - q) - 0.3 * v


def with_laws() -> pp.Simulator:
    arm = pp.examples.planar_arm(2)
    held = hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4]).sampled(rate=250.0)
    friction = pp.forces.JointFriction(["joint1"], 0.2)
    return pp.Simulator(arm, [held, friction], dt=1e-3, given=("gravity",))


def closed() -> pp.Simulator:
    return pp.Simulator(four_bar(), dt=1e-3)


def flying() -> pp.Simulator:
    return pp.Simulator(pp.examples.free_flyer(), dt=1e-3, integrator="semi_implicit")


def rolling() -> pp.Simulator:
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia.sphere(0.1, mass=1.0)
    builder.add_body("ball", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("ball", "ball", pp.shapes.Sphere(0.1))
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    return pp.Simulator(system, dt=1e-3, integrator="time_stepping")


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
    state = sim.start(q, parameters=PARAMETERS.get(name, {}))
    tau = rng.standard_normal(sim.model.nv)
    given = {n: np.array(x, dtype=float) for n, x in state.arrays().items()}
    plan = sim.plan((), ())
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
    state = sim.start([0.1, 0.2], parameters=PARAMETERS["laws"])
    given = {n: np.array(x, dtype=float) for n, x in state.arrays().items()}
    plan = sim.plan((), ())
    arrays = [np.ascontiguousarray(given[n]) for n in plan.states]
    before = [x.copy() for x in arrays]
    tau = np.array([np.nan, 0.0])
    rest = [tau, *(np.ascontiguousarray(given[n]) for n in plan.shared)]
    work = np.zeros(code.module.functions[0].work_bytes, dtype=np.uint8)
    assert code.call("robot_step", [*arrays, np.zeros(1), *rest, work]) % 8 == 4
    for x, old, n in zip(arrays, before, plan.states, strict=True):
        if n in ("q", "v", "t"):
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


def test_steps_that_cannot_be_exported(tmp_path):
    arm = pp.examples.planar_arm(2)
    with pytest.raises(InputError, match="must be a Simulator"):
        pp.export({}, tmp_path / "x", step=arm)
    with pytest.raises(InputError, match='scratch="caller"'):
        pp.export({}, tmp_path / "x", step=pp.Simulator(arm), scratch="static")
    other = pp.compile("mass_matrix", pp.examples.planar_arm(3), mode="dense", backend="native")
    with pytest.raises(InputError, match="f, step are programs of 2 mechanisms"):
        pp.export({"f": other}, tmp_path / "x", step=pp.Simulator(arm))
    ends = pp.Episodes(limit=1.0)
    with pytest.raises(InputError, match="episodes start again in Python"):
        exported_step(pp.Simulator(arm, episodes=ends), InProcess.host(), "robot")
    assert not list(tmp_path.iterdir())
