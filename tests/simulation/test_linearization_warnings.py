"""Linear models that say little about the mechanism are warned of; observability in any units."""

import warnings

import numpy as np
import pytest
from amounts import seeds

import phipsi as pp
from phipsi.errors import PhipsiWarning
from phipsi.simulation.analysis.linear_system import LinearSystem

ARM = pp.examples.planar_arm(2)


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PhipsiWarning)
        yield


def test_smoothed_friction_at_rest_is_a_damper_that_nobody_has():
    friction = pp.forces.JointFriction("joint2", 0.5, velocity_scale=0.02)
    with pytest.raises(PhipsiWarning, match=r"joint 'joint2'.*friction/velocity_scale = 25 N·m"):
        pp.linearize(ARM, [0.1, 0.2], laws=[[friction]])
    with pytest.raises(PhipsiWarning, match="above 0.06"):
        pp.linearize(ARM, [0.1, 0.2], [1.0, 0.03], laws=friction)
    pp.linearize(ARM, [0.1, 0.2], [0.0, 0.1], laws=[friction])
    stribeck = pp.forces.StribeckFriction("joint1", 1.5, 1.0, stribeck_velocity=0.1)
    with pytest.raises(PhipsiWarning, match="= 150 N·m"):
        pp.linearize(ARM, [0.1, 0.2], laws=[stribeck])
    pp.linearize(ARM, [0.1, 0.2], laws=[pp.forces.JointFriction(None, 0.0)])


def test_a_gear_with_losses_at_rest_counts_as_driven():
    command = pp.law(lambda q, u: {"tau": u - 3 * q}, name="command").bind(u=np.zeros(2)).silent()
    read = pp.signals.output(command)
    motor = pp.laws.motor(["joint1", "joint2"], read, efficiency=0.5)
    with pytest.raises(PhipsiWarning, match="1/efficiency = 2 on the joint, but with 0.5 while"):
        pp.linearize(ARM, [0.1, 0.2], laws=[command, motor])
    pp.linearize(ARM, [0.1, 0.2], [0.3, 0.4], laws=[command, motor])
    ideal = {"motor.efficiency": 1.0}
    pp.linearize(ARM, [0.1, 0.2], laws=[command, motor], parameters=ideal)


def test_damping_of_the_model_is_counted_once():
    arm = pp.examples.seven_joint_arm()
    assert arm.damping.any()
    dampers = [x for x in pp.forces.from_model(arm) if isinstance(x, pp.forces.JointDamper)]
    q = arm.neutral()
    with pytest.raises(PhipsiWarning, match="counted twice"):
        pp.linearize(arm, q, laws=dampers, damping=True)
    once = pp.linearize(arm, q, laws=dampers)
    np.testing.assert_allclose(once.A, pp.linearize(arm, q, damping=True).A, rtol=1e-9, atol=1e-12)


# ---- fast poles ----------------------------------------------------------------------------------


def system(A, B, C):
    A, B, C = (np.array(x, dtype=float) for x in (A, B, C))
    sizes = {"x": len(A), "u": B.shape[1], "y": len(C)}
    names = [tuple(f"{n}{i}" for i in range(k)) for n, k in sizes.items()]
    none = np.zeros(1)
    return LinearSystem(A, B, C, np.zeros((len(C), B.shape[1])), *names, none, none, none, none)


@pytest.mark.parametrize("stiffness", [0.0, 5.0])
@pytest.mark.parametrize("L", [1e-3, 1e-4, 1e-5, 1e-6])
def test_a_fast_electrical_pole_does_not_hide_the_others(L, stiffness):
    """A DC motor: the matrix [C; CA; CA²] is triangular, of full rank for any inductance."""
    A = [[0, 1, 0], [-stiffness, -0.1, 2.0], [0, -0.05 / L, -1.2 / L]]
    motor = system(A, [[0], [0], [1 / L]], [[1, 0, 0]])
    assert motor.is_observable() and motor.is_controllable()
    speed = system(A, [[0], [0], [1 / L]], [[0, 1, 0]])  # the position of a free shaft is not seen
    assert speed.is_observable() == (stiffness > 0)
    free = system([[0, 1, 0], [0, 0, 2.0], [0, 0, -1.2 / L]], [[1], [1], [0]], np.eye(3))
    assert free.is_observable() and not free.is_controllable()  # nothing drives the current


@pytest.mark.parametrize("seed", seeds(40))
def test_what_is_not_seen_stays_unseen_in_any_units(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    m = int(rng.integers(1, n))
    A, C = rng.standard_normal((n, n)), np.zeros((1, n))
    A *= 10.0 ** rng.uniform(-3, 3, (n, 1))
    C[0, :m] = rng.standard_normal(m)
    units = np.diag(10.0 ** rng.uniform(-3, 3, n))
    turned = np.linalg.qr(rng.standard_normal((n, n)))[0]
    for hidden in (True, False):
        if hidden:
            A[:m, m:] = 0.0
        else:
            A = rng.standard_normal((n, n))
        for T in (units, turned):
            back = np.linalg.inv(T)
            seen = system(T @ A @ back, np.ones((n, 1)), C @ back)
            assert seen.is_observable() is not hidden
            assert system(seen.A.T, seen.C.T, np.ones((1, n))).is_controllable() is not hidden
