"""Controllers in circuits: the controllers themselves, traced."""

import known_mechanisms
import numpy as np
import pytest
from differences import slope
from known_systems import pinned_four_bar
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import GRAVITY_FORCES
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_operations import constant, input
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.primitive_calls import call
from phipsi.errors import LawError
from phipsi.native.custom_kernel import graph_function
from phipsi.simulation.control import references
from phipsi.simulation.control.compiled_control import StopWhere
from phipsi.simulation.control.controllers import (
    ComputedTorque,
    OperationalSpace,
    PDGravity,
    Saturated,
)
from phipsi.simulation.control.row_equations import RowSolve
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.diagram.diagram_builder import run_evaluation
from phipsi.simulation.integrators.step_calls import ProgramCall

ARM = pp.examples.seven_joint_arm()


FLYER = known_mechanisms.jointed_flyer()
CASES = {
    "computed torque": (ARM, lambda m: ComputedTorque(m, 0.1 * np.arange(7), kp=25, kd=10)),
    "damping": (ARM, lambda m: ComputedTorque(m, np.zeros(7), 25, 10, compensate_damping=True)),
    "gravity": (ARM, lambda m: PDGravity(m, np.zeros(7), kp=5, kd=1)),
    "saturated": (ARM, lambda m: Saturated(PDGravity(m, np.zeros(7), 50, 1), m, 40.0)),
    "unlimited": (ARM, lambda m: Saturated(PDGravity(m, np.zeros(7), 50, 1), m,
                                           [3.0, np.inf, 2.0, np.inf, 1.0, 1.0, 1.0])),
    "path": (ARM, lambda m: ComputedTorque(m, references.JointPath(
        m, [np.zeros(7), 0.1 * np.arange(7), np.ones(7)], [-0.5, 0.3, 1.5]), 25, 10)),
    "waves": (ARM, lambda m: PDGravity(m, references.FourierPath(
        m, np.zeros(7), np.ones((7, 2)), 0.5 * np.ones((7, 2)), 3.0), 25, 10)),
    "operational space": (ARM, lambda m: OperationalSpace(
        m, m.body_names[-1], (0.3, 0.2, 0.5), 25, 10, components="position",
        null_space=PDGravity(m, np.zeros(7), 5, 1))),
    "rotations": (FLYER, lambda m: ComputedTorque(
        m, m.random_configuration(4), kp=25, kd=10, actuated=m.joint_names)),
    "rotations pd": (FLYER, lambda m: PDGravity(
        m, m.random_configuration(4), kp=5, kd=1, actuated=m.joint_names)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_controllers_are_laws(name):
    model, make = CASES[name]
    control = make(model)
    rng = np.random.default_rng(2)
    q, v = model.random_configuration(rng, 4), rng.standard_normal((4, model.nv))
    made = block_diagram(model, [control], 1e-3)
    times = np.array([0.0, 0.3, 0.9, 2.0])
    found = made.values({"t": times, "q": q, "v": v}, run_evaluation(model))["efforts"]
    wanted = np.array([control(float(t), a, b) for t, a, b in zip(times, q, v, strict=True)])
    assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    assert not np.allclose(found, control(0.0, q, 1.01 * v))


@pytest.mark.usefixtures("machine_code")
def test_a_simulator_runs_them():
    control = Saturated(ComputedTorque(ARM, 0.3 * np.ones(7), kp=25, kd=10), ARM, 60.0)
    simulator = pp.Simulator(ARM, block_diagram(ARM, [control], 1e-3), 1e-3)
    run = simulator.rollout(simulator.initial_state(np.zeros((3, 7))), steps=20, record_every=20)
    exact = pp.simulate(ARM, np.zeros(7), np.zeros(7), 0.02, controller=control,
                        integrator="rk4", dt=1e-3)  # fmt: skip
    assert_allclose(run.q[1, -1], exact.q[-1], rtol=1e-11, atol=1e-12)


def test_too_few_drives_are_named():
    bar = pp.examples.planar_arm(3)
    control = ComputedTorque(bar, np.zeros(3), 25, 10, actuated=bar.joint_names[:2])
    with pytest.raises(LawError, match=r"cannot drive this motion(?s:.)*for example 'joint3'"):
        block_diagram(bar, [control], 1e-3)


# ---- numbers as parameters -----------------------------------------------------------------------


def held(kp=5.0, kd=1.0, target=0.0):
    return PDGravity(ARM, np.full(7, target), kp, kd)


def in_space(null_space, kp=25.0, place=(0.3, 0.2, 0.5), **options):
    tip = ARM.body_names[-1]
    return OperationalSpace(ARM, tip, place, kp, 10, components="position", null_space=null_space,
                            **options)  # fmt: skip


# a controller, its parameters that change, and the same with these numbers from the start
CHANGED = {
    "gains": (held(), {"PDGravity.kp": np.arange(7.0), "PDGravity.kd": 3.0 * np.ones(7)},
              held(np.arange(7.0), 3.0)),
    "target": (held(), {"PDGravity.reference.q": 0.4 * np.ones(7)}, held(target=0.4)),
    "computed": (ComputedTorque(ARM, np.zeros(7), 25, 10), {"ComputedTorque.kp": 9.0 * np.ones(7)},
                 ComputedTorque(ARM, np.zeros(7), 9, 10)),
    "within": (Saturated(held(50.0), ARM, 40.0), {"Saturated.efforts": 20.0 * np.ones(7),
               "Saturated.controller.kp": 30.0 * np.ones(7)}, Saturated(held(30.0), ARM, 20.0)),
    "in space": (in_space(held()), {"OperationalSpace.null_space.kd": 2.0 * np.ones(7),
                 "OperationalSpace.kp": 9.0 * np.ones(3)}, in_space(held(kd=2.0), 9.0)),
    "in place": (in_space(None), {"OperationalSpace.reference.position": np.array([0.2, 0.4, 0.4]),
                 "OperationalSpace.null_damping": np.array(7.0)},
                 in_space(None, place=(0.2, 0.4, 0.4), null_damping=7.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_numbers_of_controllers_are_parameters(name):
    control, numbers, other = CHANGED[name]
    rng = np.random.default_rng(2)
    q, v = ARM.random_configuration(rng), rng.standard_normal(7)
    made, run = block_diagram(ARM, [control], 1e-3), run_evaluation(ARM)
    assert set(numbers) <= set(made.of_kind("parameter"))
    state = {"t": 0.0, "q": q, "v": v, "tau": np.zeros(7)}
    assert_allclose(made.values({**state, **numbers}, run)["efforts"], other(0.0, q, v), rtol=1e-10)
    before = control(0.0, q, v)
    assert_allclose(made.values(state, run)["efforts"], before, rtol=1e-10)  # itself unchanged
    for one in numbers:  # each of them does something
        rest = {n: x for n, x in numbers.items() if n != one}
        found = made.values({**state, **rest}, run)["efforts"]
        assert not np.allclose(found, other(0.0, q, v), rtol=1e-6)


class Spring:
    """A controller of a user with one number that a run may change."""

    parameters = {"stiffness": "k"}  # noqa: RUF012

    def __init__(self, k):
        self.k = k

    def __call__(self, t, q, v):
        return -self.k * q


class Recorded(Spring):
    """With a method that a run records."""

    records = ("energy_of_spring",)

    def energy_of_spring(self, t, q, v):
        return 0.5 * self.k * (q @ q)


def test_methods_in_records_are_recorded_with_the_numbers_of_the_run():
    arm, q = pp.examples.planar_arm(2), np.array([0.4, -0.2])
    sim = pp.Simulator(arm, [Recorded(4.0)], 1e-3)
    name = "Recorded.energy_of_spring"
    state = sim.initial_state(q, parameters={"Recorded.stiffness": 6.0})
    run = sim.rollout(state, steps=20, record_every=20, record=("q", name))
    assert_allclose(run[name], 3.0 * (run.q**2).sum(axis=-1), rtol=1e-14)
    plain = pp.Simulator(arm, [Spring(4.0)], 1e-3)
    other = plain.rollout(
        plain.initial_state(q, parameters={"Spring.stiffness": 6.0}), steps=20, record_every=20
    )
    assert np.array_equal(run.q, other.q)
    twisted = type("Twisted", (Spring,), {"records": ["no", "tuple"]})
    assert name not in pp.Simulator(arm, [twisted(4.0)], 1e-3).recordable


def test_own_controllers_name_their_numbers_too():
    arm = pp.examples.planar_arm(2)
    q = np.array([0.4, -0.2])
    sampled = pp.law(PDGravity(arm, [0.0, 0.0], 5, 1), rate=500.0)
    sim = pp.Simulator(arm, [Spring(4.0), sampled, lambda t, q, v: -v], 1e-3)
    assert list(sim.parameters) == [
        "Spring.stiffness", "PDGravity.kp", "PDGravity.kd", "PDGravity.reference.q"
    ]  # fmt: skip
    soft = {"Spring.stiffness": 1.0, "PDGravity.kp": [2.0, 3.0]}
    other = pp.law(PDGravity(arm, [0.0, 0.0], [2.0, 3.0], 1), rate=500.0)
    ends = [
        s.rollout(s.initial_state(q, parameters=p), steps=20).q[-1]
        for s, p in (
            (sim, soft),
            (pp.Simulator(arm, [Spring(1.0), other, lambda t, q, v: -v], 1e-3), {}),
            (sim, {}),
        )
    ]
    assert np.array_equal(ends[0], ends[1]) and not np.allclose(ends[0], ends[2], rtol=1e-6)


# ---- loops and joints without a drive ------------------------------------------------------------


def four_bar():
    system, q = pinned_four_bar()
    return system, *system.project(q, [0.4, 0, 0]), system.assemble(q + [0.3, 0, 0])


def five_bar():
    """Two degrees of freedom; the rows of the pin out of the plane are redundant."""
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.2, 0, 0)))
    system = pp.System(pp.examples.planar_arm(4), [pin])
    q = system.assemble([1.9, -0.9, -1.6, -1.0])
    q, v = system.project(q, [0.4, 0.2, 0, -0.3])
    return system, q, v, system.assemble(q + [0.2, 0, 0, 0.1])


BARS = {"four": four_bar(), "five": five_bar()}
ENDS, TOP = ["joint1", "joint4"], ("link2", (1, 0, 0))
CLOSED = {
    "one drive": ("four", lambda s, goal: ComputedTorque(s, goal, 30, 7, actuated=["joint1"])),
    "all drives": ("four", lambda s, goal: ComputedTorque(s, goal, 30, 7)),
    "springs": ("four", lambda s, goal: PDGravity(s, goal, 30, 7, actuated=["joint2"])),
    "two drives": ("five", lambda s, goal: ComputedTorque(s, goal, 30, 7, actuated=ENDS)),
    "springs at all": ("five", lambda s, goal: PDGravity(s, goal, 30, 7)),
    "a point": ("five", lambda s, goal: OperationalSpace(
        s, TOP, (0.5, 1.2, 0), 30, 7, components=(3, 4), actuated=ENDS)),
    "a direction": ("five", lambda s, goal: OperationalSpace(
        s, TOP, (0.5, 1.2, 0), 30, 7, components=(3,), null_space=PDGravity(s, goal, 3, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_controllers_of_loops_are_laws(name):
    """The dense equations in graphs, against singular values in NumPy."""
    which, make = CLOSED[name]
    system, q, v, goal = BARS[which]
    control = make(system, goal)
    made = block_diagram(system, [control], 1e-3)
    several = np.stack([v, 0 * v, -2 * v])
    places = np.broadcast_to(q, several.shape)
    state = {"t": 0.0, "q": places, "v": several, "tau": np.zeros(system.nv)}
    found = made.values(state, run_evaluation(system))["efforts"]
    wanted = control(0.0, places, several)
    assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
    assert not np.allclose(found, control(0.0, places, 1.01 * several), rtol=1e-6)


def test_gains_at_joints_without_a_drive_do_nothing():
    system, q, v, goal = BARS["four"]
    control = PDGravity(system, goal, 30, 7, actuated=["joint2"])
    made, run = block_diagram(system, [control], 1e-3), run_evaluation(system)
    state = {"t": 0.0, "q": q, "v": v, "tau": np.zeros(3)}
    found = made.values({**state, "PDGravity.kp": np.full(3, 30.0)}, run)["efforts"]
    assert_allclose(found, control(0.0, q, v), rtol=1e-11)
    assert found[0] == found[2] == 0 != found[1]


def test_a_simulator_runs_controllers_of_loops():
    """One moves the mechanism, another one is computed beside it."""
    system, q, v, goal = BARS["five"]
    control, other = (CLOSED[name][1](system, goal) for name in ("a point", "two drives"))

    @pp.law
    def beside(t, q, v):
        return {"u": other(t, q, v)}

    sim = pp.Simulator(system, [control, beside], 2e-3, integrator="semi_implicit")
    record = ("q", "v", "OperationalSpace.tau", "beside.u")
    run = sim.rollout(sim.initial_state(q, v), steps=15, record=record)
    exact = pp.simulate(system, q, v, 0.03, controller=control, integrator="semi_implicit", dt=2e-3)
    assert_allclose(run.q, exact.q, rtol=1e-10, atol=1e-11)
    assert_allclose(run["OperationalSpace.tau"], exact.tau, rtol=1e-8, atol=1e-8)
    assert_allclose(run["beside.u"], other(0.0, run.q, run.v), rtol=1e-8, atol=1e-8)
    assert np.abs(run.q[-1] - q).max() > 1e-3


# ---- the equations -------------------------------------------------------------------------------


def equations(seed=0):
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((3, 5, 6))
    G[:, 1], G[:, 3] = 0.0, G[:, 0] + 2 * G[:, 2]
    P = np.diag([1.0, 2.0, 0.0, 1.0, 0.0, 3.0])
    c = rng.standard_normal((3, 6, 2))
    return P, G, c, G @ rng.standard_normal((3, 6, 2)), np.array([1.0, 1.0, 0.3, 2.0, 1.0])


def test_constrained_equations():
    P, G, c, e, scales = equations()
    x, f = RowSolve(6, 5, 2).arrays(P, G, c, e, scales)
    assert_allclose(P @ x + np.swapaxes(G, -1, -2) @ f, c, atol=1e-12)
    assert_allclose(G @ x, e, atol=1e-12)
    wrong = RowSolve(6, 5, 2).arrays(P, G, c, 1.001 * e, scales)[0]
    assert np.abs(wrong - x).max() > 1e-5
    none = RowSolve(6, 5, 2).arrays(0 * P, G, c, e, scales)[0]
    assert np.isnan(none).all()


def test_machine_code_of_constrained_equations():
    """All sizes of equations are one text of loops; lanes agree with arrays.

    The code that the first call needs is compiled first; the memory it works in suffices for both.
    """
    P, G, c, e, scales = equations(3)
    names = {"P": P, "G": G, "c": c, "e": e, "scales": scales}
    shapes = {"q": (1,)} | {n: x.shape[-2:] if n != "scales" else (5,) for n, x in names.items()}
    nodes = [input(n, s) for n, s in shapes.items()]
    x, f = call(RowSolve(6, 5, 2), *nodes[1:])
    # a program says for which processor the code is
    weight = call(ProgramCall((GRAVITY_FORCES,), pp.examples.planar_arm(1)), nodes[0])[0]
    found, other = (graph_function(shapes, {"x": x, "f": f, "weight": weight}) for _ in range(2))
    wanted = RowSolve(6, 5, 2).arrays(*names.values())
    together = found.fast(np.zeros(1), *names.values())
    assert found.direct_if_compiled() is None and other.scratch_bytes == 0
    for i in range(3):
        args = [np.ascontiguousarray(a[i] if a.ndim == 3 else a) for a in names.values()]
        for function in (other, found):
            one = function.fast(np.zeros(1), *args)
            assert_allclose(one[0], wanted[0][i], rtol=1e-11, atol=1e-12)
            assert_allclose(one[1], wanted[1][i], rtol=1e-11, atol=1e-12)
            assert all(np.array_equal(a, b[i]) for a, b in zip(one[:2], together, strict=False))
    for a, b in zip(other.fast(np.zeros(1), *names.values()), together, strict=True):
        assert np.array_equal(a, b)


def test_where_a_run_stops_values_are_not_numbers():
    found = StopWhere(2, 23).arrays(np.ones((4, 2)), np.array([0.0, 1.0, np.nan, 0.0]))[0]
    np.testing.assert_array_equal(
        np.isnan(found), [[False] * 2, [True] * 2, [True] * 2, [False] * 2]
    )
    assert (found[[0, 3]] == 1.0).all()


def test_adjoint_of_constrained_equations():
    P, G, c, e, scales = (x[0] if x.ndim == 3 else x for x in equations(5))
    G = np.delete(G, [1, 3], axis=0)  # along redundant rows the solution jumps
    e, scales = np.delete(e, [1, 3], axis=0), scales[[0, 2, 4]]
    rng = np.random.default_rng(1)
    callee, at = RowSolve(6, 3, 2), (P, G, c, e)
    names = ("P", "G", "c", "e")
    nodes = [input(n, x.shape) for n, x in zip(names, at, strict=True)]
    x, f = call(callee, *nodes, constant(scales))
    u, w = rng.standard_normal((6, 2)), rng.standard_normal((3, 2))
    bars = adjoints([x, f], [constant(u), constant(w)], nodes)
    found = evaluate(bars, dict(zip(names, at, strict=True)))
    turn = [rng.standard_normal(y.shape) for y in at]
    turn[0] = turn[0] + turn[0].T
    wanted = sum(float(np.sum(a * b)) for a, b in zip(found, turn, strict=True))

    def cost(h):
        moved = [y + h * d for y, d in zip(at, turn, strict=True)]
        y, g = callee.arrays(*moved, scales)
        return np.sum(u * y) + np.sum(w * g)

    assert_allclose(slope(cost, 1e-3), wanted, rtol=1e-9)
    assert abs(wanted) > 0.1
