"""Parameters whose default is infinite, a limit that is none: runs may give every trajectory one.

What a run cannot change is refused, with what to write instead.
"""

import numpy as np
import pytest

import phipsi as pp
from phipsi.simulation.forces.joint_forces import JointDamper, JointFriction, JointSpring
from phipsi.simulation.forces.joint_limits import JointLimit

ARM = pp.examples.planar_arm(2)
NONE = np.inf


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_a_stop_with_one_limit_gets_the_other_by_parameter(side):
    """The same motion as that of a stop which had both limits from the beginning."""
    rng = np.random.default_rng(5)
    q, v = rng.uniform(-0.2, 0.2, (6, 2)), rng.standard_normal((6, 2))
    limits = {"lower": rng.uniform(-0.6, -0.3, (6, 2)), "upper": rng.uniform(0.3, 0.6, (6, 2))}
    other = "upper" if side == "lower" else "lower"
    limits[side][3, 1] = NONE if side == "upper" else -NONE  # no limit in one of them
    known = {other: limits[other][0]}
    sim = pp.Simulator(ARM, [JointLimit(None, 500.0, 0.1, **known)], dt=2e-3)
    assert np.isinf(sim.parameters[f"joint_limit.{side}"]).all()
    given = {f"joint_limit.{side}": limits[side]}
    run = sim.rollout(sim.initial_state(q, v, parameters=given), steps=300)
    for i in range(6):
        both = JointLimit(None, 500.0, 0.1, **{**known, side: limits[side][i]})
        alone = pp.Simulator(ARM, [both], dt=2e-3)
        wanted = alone.rollout(alone.initial_state(q[i], v[i]), steps=300)
        np.testing.assert_allclose(run.q[i], wanted.q, rtol=0, atol=1e-12)
    free = sim.rollout(sim.initial_state(q, v), steps=300)
    assert np.abs(run.q - free.q).max() > 0.1


def test_a_law_and_a_controller_without_limits_get_them_by_parameter():
    @pp.law
    def pull(v, most):
        return np.clip(0 * v - 25.0, -most, most)

    drive = pp.control.Saturated(lambda t, q, v: 0 * v - 25.0, ARM, efforts=[NONE, 30.0])
    for law, name in ((pull.bind(most=[NONE, 30.0]), "pull.most"), (drive, "Saturated.efforts")):
        sim = pp.Simulator(ARM, [law])
        for most, wanted in (([2.0, 3.0], [-2.0, -3.0]), ([NONE, 3.0], [-25.0, -3.0])):
            start = sim.initial_state(parameters={name: most})
            run = sim.rollout(start, steps=2, record=("q", "tau"))
            np.testing.assert_array_equal(run["tau"], 3 * [wanted])


@pytest.mark.parametrize("value", [np.nan, -NONE])
def test_other_infinite_numbers_and_nan_are_refused(value):
    sim = pp.Simulator(ARM, [JointLimit(None, 500.0, upper=[NONE, 1.0])])
    with pytest.raises(pp.errors.InputError, match=r"at index \[1, 0\]; it must be finite, or inf"):
        sim.initial_state(parameters={"joint_limit.upper": [[0.3, 0.3], [value, 0.3]]})
    with pytest.raises(pp.errors.InputError, match=r"inf at index \[1\]; it must be finite\n"):
        sim.initial_state(parameters={"joint_limit.upper": [0.3, NONE]})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("upper", [0.3, 1.0], r"upper is 0.3 at index \[0\].*inf.*JointLimit\(…, upper=3.0\)"),
        ("stiffness", [NONE, 5.0], r"stiffness is 5.0 at index \[1\].*JointLimit\(…, stiffness="),
        (
            "dissipation",
            [0.1, 0.0],
            r"dissipation is 0.1 at index \[0\].*cannot be set on a rigid limit",
        ),
    ],
)
def test_what_a_rigid_stop_has_not_cannot_be_given_to_it(name, value, says):
    rigid = JointLimit(None, NONE, lower=-1.0, upper=[NONE, 1.0])
    sim = pp.Simulator(ARM, [rigid], integrator="time_stepping")
    with pytest.raises(pp.errors.InputError, match=says):
        sim.initial_state(parameters={f"joint_limit.{name}": value})
    same = {f"joint_limit.{n}": sim.parameters[f"joint_limit.{n}"] for n in ("upper", "stiffness")}
    fallen = sim.rollout(
        sim.initial_state(parameters={**same, "joint_limit.lower": [-0.2, -0.5]}), steps=800
    )
    np.testing.assert_allclose(fallen.q.min(axis=0), [-0.2, -0.5], atol=1e-12)


def test_a_stop_of_which_one_joint_is_rigid_is_compliant_at_the_other():
    both = JointLimit(None, [NONE, 300.0], lower=-0.3)
    sim = pp.Simulator(ARM, [both, JointDamper(None, 0.3)], integrator="time_stepping")
    run = sim.rollout(sim.initial_state(), steps=1500)
    assert abs(run.q[:, 0].min() + 0.3) < 1e-12 and -0.5 < run.q[:, 1].min() < -0.3
    soft = {"joint_limit.stiffness": [NONE, 50.0]}
    softer = sim.rollout(sim.initial_state(parameters=soft), steps=1500)
    assert softer.q[:, 1].min() < run.q[:, 1].min() - 0.02


def test_numbers_of_merged_elements_are_those_of_the_elements():
    """Defaults of 0 included: neither rest nor velocity scale is taken from another element."""
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, joint in (("u", pp.joints.Universal()), ("ball", pp.joints.Spherical())):
        builder.add_body(name, joint=joint, inertia=pp.SpatialInertia(1, moment_about_com_B=1))
    model, turn = builder.build(), np.array([0.8, 0.0, 0.6, 0.0])
    k, friction = np.array([0, 0, 3.0, 4.0, 5.0]), np.array([0.3, 0.4, 0, 0, 0])
    laws = [
        JointSpring("u", [10, 0], [0.1, 0]),
        JointSpring("u", [0, 5], [0, 0.4]),
        JointSpring("ball", 0.0, turn),
        JointFriction("u", 0.0, 0.05),
    ]
    sim = pp.Simulator(model, laws, dt=1e-3)
    q, v = np.concatenate([[0.3, -0.2], [1.0, 0, 0, 0]]), np.full(5, 0.1)
    first = sim.parameters["joint_spring.stiffness"] + k
    given = {"joint_spring.stiffness": first, "joint_friction.friction": friction}
    tau = sim.rollout(sim.initial_state(q, v, parameters=given), steps=0, record=("q", "tau"))[
        "tau"
    ][0]
    twin = [JointSpring("ball", [3.0, 4.0, 5.0], turn), JointFriction("u", [0.3, 0.4], 0.05)]
    alone = pp.Simulator(model, [*laws[:2], *twin], dt=1e-3)
    wanted = alone.rollout(alone.initial_state(q, v), steps=0, record=("q", "tau"))["tau"][0]
    np.testing.assert_allclose(tau, wanted, rtol=0, atol=1e-13)
    by_hand = [-10 * 0.2 - 0.3 * np.tanh(2.0), 5 * 0.6 - 0.4 * np.tanh(2.0)]
    np.testing.assert_allclose(tau[:2], by_hand, rtol=1e-12)
    assert abs(tau[3]) > 0.5


# ---- numbers that constructors refuse ------------------------------------------------------------

BOTH = ["joint1", "joint2"]
REFUSED = {
    "joint_friction.friction": (JointFriction(None, 0.1), [-0.1, 0.0], "at least 0"),
    "joint_damper.damping": (JointDamper(None, 0.1), [0.0, -0.1], "at least 0"),
    "joint_spring.stiffness": (JointSpring(None, 0.1), [-1.0, 1.0], "at least 0"),
    "joint_limit.stiffness": (JointLimit(None, 1.0, upper=1.0), [-1.0, 1.0], "at least 0"),
    "pid.limit": (pp.laws.pid(BOTH, 0.0, 1.0, limit=5.0), -1.0, "above 0"),
    "motor.efficiency": (pp.laws.motor(BOTH, 1.0), 5.0, "above 0 and at most 1"),
    "motor.time_constant": (pp.laws.motor(BOTH, 1.0, time_constant=0.1), -0.01, "above 0"),
    "low_pass.time_constant": (
        pp.laws.low_pass(pp.signals.position("tip"), 0.1, initial=np.zeros(3)), 0.0, "above 0",
    ),
    "Saturated.efforts": (
        pp.control.Saturated(pp.control.PDGravity(ARM, [0, 0], 1, 1), ARM, efforts=9.0),
        [-1.0, 0.0], "at least 0",
    ),
    "Saturated.controller.kp": (
        pp.control.Saturated(pp.control.PDGravity(ARM, [0, 0], 1, 1), ARM, efforts=9.0),
        [-1.0, 0.0], "at least 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_trajectories_have_no_parameters_that_constructors_refuse(name):
    element, value, wanted = REFUSED[name]
    sim = pp.Simulator(ARM, [element], dt=1e-3)
    own = np.array(value)
    sim.initial_state(parameters={name: np.abs(own) / 10 + 0.1})  # inside
    with pytest.raises(pp.errors.InputError, match=f"{name} is .*; it must be {wanted}"):
        sim.initial_state(parameters={name: value})
    several = np.stack([np.abs(own) / 10 + 0.1, own])
    with pytest.raises(pp.errors.InputError, match=f"{name} is .*; it must be {wanted}"):
        sim.initial_state(parameters={name: several})


def test_bind_refuses_what_ready_laws_refuse():
    with pytest.raises(pp.errors.LawError, match="limit=-1 must be above 0"):
        pp.laws.pid(BOTH, 0.0, 1.0, limit=5.0).bind(limit=-1)


def test_a_study_counts_such_a_run_as_rejected():
    sim = pp.Simulator(ARM, [JointFriction(None, 0.1)], dt=1e-2)
    name = "joint_friction.friction"
    results = pp.Study(sim, {f"{name}[joint1]": [0.1, -0.1, 0.2]}, steps=3).run()
    assert results["status"].tolist() == [0, -1, 0]
    assert "must be at least 0" in str(results["rejected"][1])
