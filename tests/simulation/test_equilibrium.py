"""States of rest and of steady motion: against formulas, other searches and long runs."""

from typing import Any

import numpy as np
import pytest
from amounts import mostly
from differences import slopes
from known_systems import four_bar
from numpy.testing import assert_allclose
from random_models import random_tree
from scipy.optimize import minimize

import phipsi as pp
from phipsi.errors import ConvergenceError, InputError, LawError
from phipsi.simulation.analysis.equilibrium import _EquilibriumSolver, _start
from phipsi.simulation.analysis.law_linearization import LawLinearization

ARM = pp.examples.planar_arm(2)
G = 9.81


@pp.law
def hold(t, q, v, kp, kd, target):
    return kp * (target - q) - kd * v


@pp.law
def everything(t, q, v, k, X, speed):
    """Efforts and forces that depend on q, v, poses and parameters in curved ways."""
    z = k * np.sin(q[:1].sum()) + X[2, 3] ** 2
    force = np.stack([z, -0.3 * speed[0], 1.0 + speed[1] * speed[2]])
    return {"tau": -0.2 * np.tanh(v) * k, "force": force, "energy": z}


def governor(length=0.4):
    """A vertical shaft with a ball on a massless arm, hinged across it."""
    b = pp.ModelBuilder(gravity=(0, 0, -G))
    ball = pp.SpatialInertia(2.0, (0, 0, -length), np.zeros(3))
    shaft = pp.SpatialInertia(1.0, (0, 0, 0), (0.1, 0.1, 0.1))
    b.add_body("shaft", parent="world", joint=pp.joints.Revolute((0, 0, 1)), inertia=shaft)
    b.add_body("arm", parent="shaft", joint=pp.joints.Revolute((0, 1, 0)), inertia=ball)
    return b.build()


# ---- rest ----------------------------------------------------------------------------------------


def test_a_pendulum_on_a_spring_satisfies_its_equation():
    spring = pp.forces.JointSpring("joint1", stiffness=30.0, rest=0.4)
    found = pp.equilibrium(pp.examples.planar_arm(1), [spring], q=[0.2])
    (angle,) = found.q
    assert abs(30.0 * (0.4 - angle) - 0.5 * G * np.cos(angle)) < 1e-12
    assert found.parameters and found.iterations > 1 and not found.v.any()


def test_efforts_that_hold_a_pose_are_those_of_gravity():
    q = [0.3, -0.8]
    found = pp.equilibrium(ARM, q=q, unknowns="tau")
    assert_allclose(found.tau, pp.gravity_forces(ARM, q), rtol=1e-13)
    assert_allclose(found.efforts, found.tau)


def test_a_parameter_is_found_that_balances_the_arm():
    law = hold.bind(kp=np.array([50.0, 20.0]), kd=1.0, target=np.zeros(2))
    q = np.array([0.3, -0.8])
    found = pp.equilibrium(ARM, [law], q=q, unknowns="hold.target")
    by_hand = q + pp.gravity_forces(ARM, q) / [50.0, 20.0]
    assert_allclose(found.parameters["hold.target"], by_hand, rtol=1e-12)
    assert_allclose(found.q, q, atol=0)  # what is not unknown stays
    given = {"hold.target": by_hand}
    again = pp.equilibrium(ARM, [law], q=[0.0, 0.0], parameters=given)
    assert_allclose(again.q, q, atol=1e-12)


def test_one_entry_of_a_parameter_is_found():
    spring = pp.forces.JointSpring("joint1", stiffness=100.0, rest=0.2)
    for entry in ("joint1", "0"):
        names = [f"joint_spring.stiffness[{entry}]", "tau[joint2]"]
        found = pp.equilibrium(ARM, [spring], q=[0.0, 0.0], unknowns=names)
        assert_allclose(found.parameters["joint_spring.stiffness"], [2 * G / 0.2, 0], rtol=1e-12)
    with pytest.raises(InputError, match="no joint '2'"):
        pp.equilibrium(ARM, [spring], unknowns="joint_spring.stiffness[2]")


def test_a_damped_run_ends_where_the_search_does():
    laws = [hold.bind(kp=40.0, kd=15.0, target=np.array([0.5, -0.2]))]
    sim = pp.Simulator(ARM, laws, dt=2e-3)
    last = sim.rollout(sim.initial_state([0.0, 0.0]), steps=10_000, record_every=10_000).q[-1]
    assert_allclose(pp.equilibrium(ARM, laws).q, last, atol=1e-9)


def test_the_integral_of_a_controller_finds_the_load():
    @pp.law(states={"sum": np.zeros(2)})
    def pid(q, v, sum, target):
        error = target - q
        return {"tau": 40 * error - 8 * v + 25 * sum, "sum": error}

    target = np.array([0.4, 0.7])
    found = pp.equilibrium(ARM, [pid.bind(target=target)])
    assert_allclose(found.q, target, atol=1e-12)
    assert_allclose(found.states["pid.sum"], pp.gravity_forces(ARM, target) / 25, rtol=1e-11)


def test_what_a_sampled_law_holds_has_arrived():
    law = hold.bind(kp=40.0, kd=15.0, target=np.array([0.5, -0.2]))
    now = pp.equilibrium(ARM, [law])
    held = pp.equilibrium(ARM, [law.sampled(rate=100.0, delay=2)])
    assert_allclose(held.q, now.q, atol=1e-12)


def test_a_free_body_comes_to_rest_between_springs():
    b = pp.ModelBuilder(gravity=(0, 0, -G))
    box = pp.SpatialInertia(3.0, (0, 0, 0), (0.2, 0.3, 0.4))
    b.add_body("box", parent="world", joint=pp.joints.Free(), inertia=box)
    model = b.build()
    corners = [(1.0, 0.0, 0.0), (-1.0, 1.0, 0.0), (-1.0, -1.0, 0.0)]
    springs = [
        pp.forces.PointSpring(("box", x), ("world", (3 * x[0], 3 * x[1], 4.0)), stiffness=80.0)
        for x in corners
    ]
    found = pp.equilibrium(model, springs, q=model.integrate(model.neutral(), [0.2] * 6))
    run = LawLinearization(model, springs, 1e-3)
    at = {**run.first(), "t": 0.0, "q": found.q, "v": np.zeros(6), "tau": np.zeros(6)}
    assert_allclose(run.values(at)[:6], pp.gravity_forces(model, found.q), atol=1e-8)
    sag = pp.poses(model, found.q)[0, 2, 3]
    pull = sum(80 * (4.0 - pp.poses(model, found.q, [("box", x)])[0, 2, 3]) for x in corners)
    assert pull == pytest.approx(3 * G) and sag < 4.0


# ---- steady motion -------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [6.0, 9.0])
def test_the_balls_of_a_governor_rise_as_the_formula_says(rate):
    found = pp.equilibrium(governor(), v={"shaft": rate}, q=[0.0, 1.0], unknowns="q[arm]")
    assert np.cos(found.q[1]) == pytest.approx(G / (rate**2 * 0.4), rel=1e-12)
    assert pp.forward_dynamics(governor(), found.q, found.v, found.tau) == pytest.approx(0)


def test_the_rate_is_found_at_which_they_stand_at_an_angle():
    found = pp.equilibrium(governor(), q=[0.0, 1.1], v={"shaft": 3.0}, unknowns=["v[shaft]"])
    assert found.v[0] ** 2 == pytest.approx(G / (0.4 * np.cos(1.1)))
    assert "steady" in repr(found)


def test_a_motor_keeps_a_damped_shaft_turning():
    damper = pp.forces.JointDamper("shaft", damping=0.7)
    found = pp.equilibrium(
        governor(), [damper], v={"shaft": 7.0}, q=[0.0, 1.0], unknowns=["q[arm]", "tau[shaft]"]
    )
    assert found.tau[0] == pytest.approx(0.7 * 7.0)


# ---- loops ---------------------------------------------------------------------------------------


def test_a_four_bar_rests_at_the_least_energy_of_its_closed_configurations():
    system = four_bar()
    tree = system.model
    spring = pp.forces.JointSpring("crank", stiffness=12.0, rest=0.3)
    start = system.assemble([1.0, -1.0, -1.5])
    found = pp.equilibrium(system, [spring], q=start)

    def energy(q):
        return float(pp.potential_energy(tree, q)) + 6.0 * (q[0] - 0.3) ** 2

    rows = [0, 1, 2, 3, 4]
    independent = [i for i in rows if np.abs(system.jacobian(start)[i]).max() > 1e-9]
    least = minimize(
        energy, found.q + 0.05, method="SLSQP", tol=1e-14,
        constraints={"type": "eq", "fun": lambda q: system.residual(q)[independent]},
    )  # fmt: skip
    assert_allclose(found.q, least.x, atol=1e-5)
    assert np.abs(system.residual(found.q)).max() < 1e-10
    effort = np.array([12.0 * (0.3 - found.q[0]), 0, 0])
    assert np.abs(pp.forward_dynamics(system, found.q, np.zeros(3), effort)).max() < 1e-8


def test_one_drive_holds_a_four_bar():
    system = four_bar()
    q = system.assemble([1.0, -1.0, -1.5])
    found = pp.equilibrium(system, q=q, unknowns=["tau[crank]"])
    assert_allclose(found.q, q, atol=0)
    assert np.abs(pp.forward_dynamics(system, q, np.zeros(3), found.tau)).max() < 1e-9
    assert np.count_nonzero(found.tau) == 1 and found.f.shape == (system.n_rows,)


def test_gears_turn_steadily_together():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name in ("a", "b"):
        b.add_body(name, parent="world", joint=pp.joints.Revolute((0, 0, 1)),
                   inertia=pp.SpatialInertia(1.0, (0, 0, 0), (1.0, 1.0, 1.0)))  # fmt: skip
    gear = pp.constraints.Coupling(name="gear", joints=("a", "b"), coefficients=[1, 3])
    system = pp.System(b.build(), [gear])
    damper = pp.forces.JointDamper("b", damping=0.5)
    found = pp.equilibrium(system, [damper], v={"a": 6.0}, unknowns=["v[b]", "tau[a]"])
    assert_allclose(found.v, [6.0, -2.0])
    assert found.tau[0] == pytest.approx(0.5 * 4.0 / 6.0)  # the same power


# ---- derivatives ---------------------------------------------------------------------------------


def _laws(model):
    point = (model.body_names[-1], (0.1, 0.2, -0.1))
    return everything.at(point).bind(
        k=1.7, X=pp.signals.pose(point), speed=pp.signals.velocity(point)
    )


@pytest.mark.parametrize("seed", mostly(range(3), 1))
def test_derivatives_of_the_equations_of_trees(seed):
    model = random_tree(seed, 4)
    _compare(model, None, [_laws(model)], seed)


def test_derivatives_of_the_equations_of_loops():
    system = four_bar()
    _compare(system.model, system, [_laws(system.model)], 0)


def _compare(model, system, laws, seed):
    rng = np.random.default_rng(seed)
    acting = LawLinearization(model, laws, 1e-3)
    search = _EquilibriumSolver(model, system, acting, ["q", "v", "tau", "everything.k"], 1e-10)
    q = model.random_configuration(rng)
    at = _start(model, acting, q, rng.normal(size=model.nv), rng.normal(size=model.nv), {})
    at["t"] = 0.0
    if system is not None:
        at["f"] = rng.normal(size=system.n_rows)
    slope = search.jacobian(at)
    count = slope.shape[1]
    by_hand = slopes(lambda d: search.equations(search.moved(at, d)), count)
    close = 1e-9 * np.abs(by_hand).max()
    assert_allclose(slope, by_hand, rtol=0, atol=close)
    if system is not None:  # and the forces of the constraints are part of it
        twin = search.jacobian({**at, "f": 0 * at["f"]})
        assert np.abs(twin - by_hand).max() > 1e3 * close


# ---- errors --------------------------------------------------------------------------------------


def test_a_joint_that_nothing_holds_is_named_with_a_fix():
    with pytest.raises(ConvergenceError) as error:
        pp.equilibrium(ARM, q=[0.0, 0.0], unknowns=["tau[joint2]"])
    text = str(error.value)
    assert "joint 'joint1'" in text and "The unknowns were tau[joint2]" in text
    assert 'unknowns=("tau[joint2]", "tau[joint1]")' in text
    best: Any = error.value.result
    assert best.tau[1] == pytest.approx(0.5 * G)
    fixed = pp.equilibrium(ARM, q=[0.0, 0.0], unknowns=("tau[joint2]", "tau[joint1]"))
    assert_allclose(fixed.residual, 0, atol=1e-12)


def test_there_is_no_rest_without_support():
    b = pp.ModelBuilder(gravity=(0, 0, -G))
    b.add_body("box", parent="world", joint=pp.joints.Prismatic((0, 0, 1)), joint_name="lift",
               inertia=pp.SpatialInertia(3.0, (0, 0, 0), (1.0, 1.0, 1.0)))  # fmt: skip
    with pytest.raises(ConvergenceError, match="joint 'lift'"):
        pp.equilibrium(b.build())


def test_a_law_that_counts_never_rests():
    @pp.law(states={"age": 0.0})
    def ages(q, age):
        return {"tau": 0 * q, "age": 1.0}

    with pytest.raises(ConvergenceError, match=r"state 'ages\.age' of a law"):
        pp.equilibrium(ARM, [ages], q=[-np.pi / 2, 0.0])


def test_a_loop_that_cannot_close_is_named():
    system = four_bar(lengths=(0.1, 0.1, 0.1), ground=5.0)
    with pytest.raises(ConvergenceError, match="row 'pin"):
        pp.equilibrium(system, q=[0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"unknowns": "q[jiont1]"}, "no joint 'jiont1'"),
        ({"unknowns": ["p"]}, "is not 'q', 'v', 'tau'"),
        ({"unknowns": ()}, "there are no unknowns"),
        ({"q": [0.0]}, r"q has shape \(1,\)"),
        ({"v": {"joint1": [1.0, 2.0]}}, r"v\[joint1\]"),
        ({"tau": [np.nan, 0.0]}, "must be finite"),
        ({"parameters": {"spring.k": 1.0}}, "is not a parameter of the laws: none"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_wrong_arguments(given, text):
    with pytest.raises(InputError, match=text):
        pp.equilibrium(ARM, **given)


def test_a_wrong_law_is_rejected_as_in_a_run():
    with pytest.raises(LawError, match="laws has 3"):
        pp.equilibrium(ARM, [3])


def test_a_loop_is_solved_for_all_coordinates():
    """A crank alone cannot move: the advice is not a torque that holds another joint."""
    system = four_bar()
    q = system.assemble([1.0, -1.0, -1.5])
    with pytest.raises(ConvergenceError, match='closed loops.*\n    unknowns=."q".'):
        pp.equilibrium(system, q=q, unknowns=["q[crank]"])
    pp.equilibrium(system, q=q, unknowns=["q"])
