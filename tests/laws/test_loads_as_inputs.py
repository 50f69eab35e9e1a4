"""Laws that read what all laws do together: efforts at joints, loads of constraints."""

import known_systems
import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c
from phipsi.errors import InputError, LawError
from phipsi.laws.signals import (
    constraint_efforts,
    constraint_loads,
    joint_efforts,
    output,
    previous,
)
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.diagram.diagram_builder import run_evaluation

Z, X = (0, 0, 1), (1, 0, 0)
ROD = pp.SpatialInertia(1.0, (0.5, 0, 0), (0.01, 0.1, 0.1))
DT = 1e-3


def slider_crank():
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    b.add_body("crank", joint=pp.joints.Revolute(Z), inertia=ROD)
    b.add_body(
        "rod", parent="crank", joint=pp.joints.Revolute(Z), placement=pp.Pose(None, X), inertia=ROD
    )
    b.add_body("slider", joint=pp.joints.Prismatic(X), inertia=pp.SpatialInertia(0.5, (0, 0, 0)))
    return pp.System(b.build(), [c.Revolute(Z, name="pin", a=("rod", X), b="slider")])


SYSTEM = slider_crank()
MODEL = SYSTEM.model
Q = SYSTEM.assemble([0.7, -1.4, 1.5])


@pp.law
def feel(f, g, total):
    return {"f": f, "g": g, "total": total}


@pp.law
def drive(t, k):
    return {"tau": k * np.stack([np.sin(9 * t), 0.0 * t, 0.3 + t])}


@pp.law(at=("rod", (0.5, 0, 0)))
def wind(t):
    return {"force": np.stack([1.0 + 5 * t, 2.0 + 0.0 * t, 0.0 * t])}


@pp.law
def react(f, k):
    return k * f[2:]


FEEL = feel.bind(f=constraint_loads(), g=constraint_efforts(), total=joint_efforts())
LAWS = [FEEL, drive.bind(k=2.0), wind, pp.forces.JointDamper(None, 0.2)]


@pytest.fixture(scope="module")
def simulator():
    return pp.Simulator(SYSTEM, LAWS, dt=DT, integrator="semi_implicit")


@pytest.fixture(scope="module")
def run(simulator):
    names = ("q", "v", "tau", "vdot", "feel.f", "feel.g", "feel.total")
    given = np.array([0.1, 0.2, 0.3])
    return simulator.rollout(simulator.initial_state(Q), given, 40, record_every=20, record=names)


def by_hand(q, v, t, given):
    """f and all efforts from ℳ vdot + G* f = tau − bias, G vdot = −drift, in NumPy."""
    tau = given + 2.0 * np.array([np.sin(9 * t), 0.0, 0.3 + t]) - 0.2 * v
    X_W = pp.poses(MODEL, q)[1]
    force = X_W[:3, :3].T @ np.array([1.0 + 5 * t, 2.0, 0.0])
    f_ext = np.zeros((3, 6))
    f_ext[1] = np.concatenate([np.cross([0.5, 0, 0], force), force])
    load = tau - pp.inverse_dynamics(MODEL, q, v, np.zeros(3), f_ext)
    G, M = SYSTEM.jacobian(q), pp.mass_matrix(MODEL, q)
    rows = [2, 3]  # of the pin in its plane: the others are zero
    K = np.block([[M, G[rows].T], [G[rows], np.zeros((2, 2))]])
    found = np.linalg.solve(K, np.concatenate([load, -SYSTEM.bias(q, v)[rows]]))
    f = np.zeros(5)
    f[rows] = found[3:]
    return f, -G.T @ f, tau, f_ext


@pytest.mark.parametrize("k", [0, 1, 2])
def test_loads_are_those_of_the_equations_of_motion(run, k):
    q, v = run.q[k], run.v[k]
    f, g, tau, f_ext = by_hand(q, v, run.t[k], [0.1, 0.2, 0.3])
    assert_allclose(run["feel.f"][k], f, rtol=1e-10, atol=1e-11)
    assert_allclose(run["feel.g"][k], g, rtol=1e-10, atol=1e-11)
    assert_allclose(run["feel.total"][k], tau, rtol=1e-14)
    assert_allclose(run["feel.f"][k], pp.constraint_forces(SYSTEM, q, v, tau, f_ext), atol=1e-11)
    # without the force on the rod, the damper or the efforts from outside they are others
    assert np.abs(pp.constraint_forces(SYSTEM, q, v, tau) - f).max() > 0.1
    assert np.abs(pp.constraint_forces(SYSTEM, q, v, tau - [0.1, 0.2, 0.3], f_ext) - f).max() > 0.01


def test_the_reference_agrees(run):
    made = block_diagram(SYSTEM, LAWS, DT)
    state = {"t": run.t, "q": run.q, "v": run.v, "tau": np.array([0.1, 0.2, 0.3])}
    found = made.values(state, run_evaluation(SYSTEM))["records"]
    for name in ("feel.f", "feel.g", "feel.total"):
        assert_allclose(found[name], run[name], rtol=1e-12, atol=1e-12)


def test_a_string_by_formula():
    """Half of a rod's weight hangs on a string; the drive takes some of it."""
    arm = pp.examples.planar_arm(1)
    string = c.Distance(1.0, name="string", a="tip", b=("world", (1.0, 1.0, 0)))
    push = pp.law(lambda u: np.stack([u]), name="push").bind(u=2.0)
    system = pp.System(arm, [string])
    state = {"q": np.zeros(1), "v": np.zeros(1), "tau": np.zeros(1)}
    found = block_diagram(system, [FEEL, push], DT).values(state, run_evaluation(system))["records"]
    assert_allclose(found["feel.f"], [9.81 / 2 - 2.0], rtol=1e-12)
    assert_allclose(found["feel.g"], [9.81 / 2 - 2.0], rtol=1e-12)


def test_some_joints_and_constraints():
    laws = [
        feel.bind(f=constraint_loads("pin"), g=constraint_efforts(),
                  total=joint_efforts("slider", "crank")),
        drive.bind(k=2.0),
    ]  # fmt: skip
    assert MODEL.joint_names == ("crank", "rod", "slider")
    found = block_diagram(SYSTEM, laws, DT).values(
        {"t": 0.1, "q": Q, "v": np.zeros(3), "tau": np.zeros(3)}, run_evaluation(SYSTEM)
    )
    assert_allclose(found["records"]["feel.total"], 2 * np.array([0.4, np.sin(0.9)]), rtol=1e-14)
    assert found["records"]["feel.f"].shape == (5,)


# ---- cycles --------------------------------------------------------------------------------------


def test_a_law_that_changes_the_load_it_reads():
    bound = react.bind(f=constraint_loads("pin"), k=-0.1)
    text = "react reads constraint_loads, which depends on react: "
    text += "constraint_loads → react → constraint_loads"
    with pytest.raises(LawError, match=text) as error:
        pp.Simulator(SYSTEM, [drive.bind(k=1.0), bound])
    fix = str(error.value).splitlines()[-1].strip()
    assert fix == (
        "react.bind(f=pp.signals.previous(pp.signals.constraint_loads('pin'), initial=0.0))"
    )
    pp.Simulator(SYSTEM, [drive.bind(k=1.0), eval(fix, {"react": bound, "pp": pp})])


def test_a_cycle_through_another_law_and_through_a_program():
    @pp.law
    def sensor(f):
        return {"load": 2.0 * f}

    @pp.law
    def answer(q, v, load):
        return pp.inverse_dynamics(MODEL, q, v, load[2:])

    laws = [answer.bind(load=output("sensor", "load")), sensor.bind(f=constraint_loads())]
    cycle = "constraint_loads → sensor → answer → constraint_loads"
    with pytest.raises(LawError, match=f"sensor reads .* which depends on answer: {cycle}"):
        block_diagram(SYSTEM, laws, DT)
    laws[1] = sensor.bind(f=previous(constraint_loads()))
    block_diagram(SYSTEM, laws, DT)


def test_a_cycle_through_forces_on_bodies():
    @pp.law(at="rod")
    def pull(f):
        return {"force": f[:3]}

    with pytest.raises(LawError, match="constraint_loads → pull → constraint_loads"):
        block_diagram(SYSTEM, [pull.bind(f=constraint_loads())], DT)
    with pytest.raises(LawError, match="constraint_efforts → pull → constraint_efforts"):
        block_diagram(SYSTEM, [pull.bind(f=constraint_efforts())], DT)
    # forces on bodies are not among the efforts at joints
    made = block_diagram(SYSTEM, [pull.bind(f=joint_efforts()), FEEL, drive.bind(k=1.0)], DT)
    state = {"t": 0.2, "q": Q, "v": np.zeros(3), "tau": np.zeros(3)}
    found = made.values(state, run_evaluation(SYSTEM))
    assert_allclose(
        found["records"]["feel.f"],
        pp.constraint_forces(SYSTEM, Q, np.zeros(3), found["efforts"], found["loads"]),
        atol=1e-12,
    )
    assert np.abs(found["loads"]).max() > 0.1


def test_efforts_in_a_cycle():
    half = pp.law(lambda total: -0.5 * total, name="half")
    with pytest.raises(LawError, match="joint_efforts → half → joint_efforts"):
        block_diagram(MODEL, [half.bind(total=joint_efforts())], DT)
    block_diagram(MODEL, [half.bind(total=joint_efforts()).silent()], DT)


# ---- what breaks them ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain():
    return pp.Simulator(SYSTEM, [drive.bind(k=2.0)], dt=DT, integrator="semi_implicit")


def stepwise(plain, steps, feedback, *, late=False):
    """Steps of one in Python: `feedback(loads)` are efforts of this step; `late`, of the next."""
    state, held, out = plain.initial_state(Q), np.zeros(3), []
    for k in range(steps):
        acting = 2.0 * np.array([np.sin(9 * k * DT), 0.0, 0.3 + k * DT])
        new = feedback(pp.constraint_forces(SYSTEM, state.q, state.v, acting + held))
        plain.step(state, held if late else new)
        held = new
        out.append(state.q.copy())
    return np.array(out)


def test_previous_loads(plain):
    bound = react.bind(f=previous(constraint_loads()), k=-0.3)
    sim = pp.Simulator(SYSTEM, [drive.bind(k=2.0), bound], dt=DT, integrator="semi_implicit")
    state = sim.initial_state(Q)
    assert_allclose(state.laws["constraint_loads().previous"], np.zeros(5))
    found = sim.rollout(state, steps=10).q[1:]
    wanted = stepwise(plain, 10, lambda f: -0.3 * f[2:], late=True)
    assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    for twin in ({"late": False}, {"late": True, "feedback": lambda f: -0.31 * f[2:]}):
        others = {"feedback": lambda f: -0.3 * f[2:]} | twin
        assert np.abs(found - stepwise(plain, 10, **others)).max() > 1e-7


def test_sampled_laws_read_the_load_before_their_sample(plain):
    """Held efforts break the cycle: the load is that of the efforts which have acted so far."""
    bound = react.bind(f=constraint_loads(), k=-0.3).sampled(1 / DT)
    sim = pp.Simulator(SYSTEM, [drive.bind(k=2.0), bound], dt=DT, integrator="semi_implicit")
    found = sim.rollout(sim.initial_state(Q), steps=10).q[1:]
    assert_allclose(found, stepwise(plain, 10, lambda f: -0.3 * f[2:]), rtol=1e-12, atol=1e-13)


def test_a_filter_reads_loads():
    @pp.law(states={"x": np.zeros(5)})
    def filtered(f, x):
        return {"tau": -0.2 * x[2:], "x": 50.0 * (f - x)}

    sim = pp.Simulator(
        SYSTEM,
        [filtered.bind(f=constraint_loads()), drive.bind(k=2.0)],
        dt=DT,
        integrator="semi_implicit",
    )
    found = sim.rollout(
        sim.initial_state(Q), steps=400, record=("q", "v", "filtered.tau"), record_every=400
    )
    tau = found["filtered.tau"][-1] + 2.0 * np.array([np.sin(9 * 0.4), 0.0, 0.7])
    f = pp.constraint_forces(SYSTEM, found.q[-1], found.v[-1], tau)
    assert_allclose(-0.2 * f[2:], found["filtered.tau"][-1], atol=0.2)
    assert np.abs(found["filtered.tau"][-1]).max() > 0.5


# ---- what is rejected ----------------------------------------------------------------------------


def test_trees_have_no_constraint_loads():
    for signal in (constraint_loads(), constraint_efforts()):
        with pytest.raises(LawError, match=r"needs constraints, and .* has none"):
            block_diagram(MODEL, [react.bind(f=signal, k=1.0).silent()], DT)


def test_unknown_names():
    with pytest.raises(LawError, match=r"no constraint 'pim'. Did you mean 'pin'"):
        block_diagram(SYSTEM, [react.bind(f=constraint_loads("pim"), k=1.0).silent()], DT)
    with pytest.raises(LawError, match=r"no joint 'crunk'. Did you mean 'crank'"):
        block_diagram(SYSTEM, [react.bind(f=joint_efforts("crunk"), k=1.0).silent()], DT)
    with pytest.raises(LawError, match=r"shape \(2,\), but constraint_loads\(\) has shape \(5,\)"):
        block_diagram(
            SYSTEM, [react.bind(f=previous(constraint_loads(), initial=[0, 0]), k=1.0)], DT
        )


def test_loads_that_are_not_determined():
    system, q = known_systems.parallelogram()
    sim = pp.Simulator(system, [FEEL])
    with pytest.raises(
        InputError, match=r"of 'pin1.x', 'pin2.x', which are statically indeterminate"
    ):
        sim.initial_state(q)
    # their efforts are
    efforts = pp.law(lambda g: {"g": g}, name="read").bind(g=constraint_efforts())
    zero = np.zeros(system.nv)
    state = {"q": q, "v": zero, "tau": zero}
    found = block_diagram(system, [efforts], DT).values(state, run_evaluation(system))["records"][
        "read.g"
    ]
    f = pp.constraint_forces(system, q, zero, zero)
    assert_allclose(found, -system.jacobian(q).T @ f, atol=1e-10)
    assert np.abs(found).max() > 1
