"""Rows that bind rates only: small motions of wheels that roll, against a published benchmark.

The benchmark bicycle: J. P. Meijaard, J. M. Papadopoulos, A. Ruina, A. L. Schwab, "Linearized
dynamics equations for the balance and steer of a bicycle: a benchmark and review", Proc. R. Soc. A
463 (2007). Its equations for lean and steer are the second route to its eigenvalues.
"""

import numpy as np
import pytest
from known_systems import bicycle, bicycle_matrices, riding
from numpy.testing import assert_allclose
from scipy.linalg import expm

import phipsi as pp
from phipsi import constraints as c
from phipsi.simulation.analysis.linear_system import LinearSystem

WEAVE, CAPSIZE = 4.29238253634111, 6.02426201538837  # m/s, the speeds where stability changes


@pytest.fixture(scope="module")
def bike() -> pp.System:
    return bicycle()


def published(speed: float) -> np.ndarray:
    M, C1, K0, K2 = bicycle_matrices()
    stiffness = 9.81 * K0 + speed**2 * K2
    upper = np.hstack([np.zeros((2, 2)), np.eye(2)])
    lower = -np.linalg.solve(M, np.hstack([stiffness, speed * C1]))
    return np.linalg.eigvals(np.vstack([upper, lower]))


def linear(system, speed, **options) -> LinearSystem:
    q, v = riding(system, speed)
    return pp.linearize(system, q, v, np.zeros(system.model.nv), **options)


def contains(poles: np.ndarray, wanted: np.ndarray, tolerance=1e-11) -> bool:
    """Whether each wanted number is among the poles, and the others are zero.

    Positions, heading and wheel angles change nothing, and the speed keeps its value: six zeros, in
    chains of two, which rounding turns into its square root (of three at the capsize speed).
    """
    left = list(poles)
    for x in wanted[np.abs(wanted) > 1e-9]:
        nearest = min(left, key=lambda pole: abs(pole - x))
        left.remove(nearest)
        if abs(nearest - x) > tolerance * max(1, abs(x)):
            return False
    return bool(np.abs(left).max(initial=0) < 1e-4)


@pytest.mark.parametrize("speed", [0.0, 1.0, 3.0, WEAVE, 5.0, CAPSIZE, 8.0, 10.0])
def test_poles_of_the_benchmark_bicycle(bike, speed):
    found = linear(bike, speed)
    n_q = sum(name.startswith("q") for name in found.state_names)
    assert (n_q, len(found.A) - n_q) == (7, 3)
    assert contains(found.poles(), published(speed))
    assert not contains(found.poles(), published(speed + 0.001))


def test_published_numbers(bike):
    """Stable between the weave and the capsize speed, and the eigenvalues printed for 5 m/s."""
    weave = -0.77534188219585 + 4.46486771378823j
    printed = [weave, np.conj(weave), -0.32286642900409, -14.07838969279822]
    assert contains(linear(bike, 5.0).poles(), np.array(printed))
    for speed, unstable in [(4.2, 2), (4.4, 0), (5.9, 0), (6.1, 1)]:
        assert (linear(bike, speed).poles().real > 1e-4).sum() == unstable


CHOICES = [
    ["rear_lean", "rear_wheel", "front_lean"],
    ["rear_lean", "front_lean", "front_wheel"],
    # as many as positions are free
    ["rear_contact", "rear_lean", "rear_wheel", "front_lean", "front_wheel"],
    ["front_contact", "rear_lean", "rear_wheel", "front_lean", "front_wheel"],
]


@pytest.mark.parametrize("names", CHOICES, ids=[" ".join(x) for x in CHOICES])
def test_poles_do_not_depend_on_the_independent_joints(bike, names):
    found = linear(bike, 5.0, independent=names)
    assert contains(found.poles(), published(5.0))
    assert len(found.A) == 10
    named = {n.partition("[")[2].partition(".")[0].rstrip("]") for n in found.state_names}
    assert set(names) <= named


def test_joints_that_do_not_determine_the_others_are_refused(bike):
    with pytest.raises(pp.errors.InputError, match=r"does not determine the 3 \(or, .* 7\)"):
        linear(bike, 5.0, independent=["rear_lean", "rear_wheel", "front_wheel"])


def test_a_long_run_decays_as_the_poles_say(bike):
    """A push of 1e-6 rad/s: after 8 s a twentieth of the lean is left, as predicted."""
    q, v = riding(bike, 5.0)
    model = bike.model
    found = linear(bike, 5.0, outputs=["q[rear_lean]", "v[rear_lean]"])
    push = np.zeros(model.nv)
    push[model.v_slice("rear_lean")] = 1e-6
    _, start = bike.project(q, v + push)
    run = pp.simulate(bike, q, start, 8.0, rtol=1e-12, atol=1e-15)
    x0 = np.zeros(len(found.A))
    x0[7:] = rates_of(found, model, start - v)
    expected = np.array([found.C @ expm(found.A * t) @ x0 for t in run.t])
    lean = np.hstack([run.q[:, model.q_slice("rear_lean")], run.v[:, model.v_slice("rear_lean")]])
    scale = np.abs(expected).max(axis=0)
    assert (np.abs(expected[-1]) < 0.05 * scale).all()
    assert_allclose(lean / scale, expected / scale, rtol=0, atol=1e-8)
    wrong = np.array([found.C @ expm(1.0001 * found.A * t) @ x0 for t in run.t])
    assert (np.abs(lean - wrong) / scale).max() > 1e-5


def rates_of(found: LinearSystem, model: pp.Model, v: np.ndarray) -> np.ndarray:
    joints = zip(model.joint_names, model.joints, strict=True)
    dofs = [f"{n}.{i}" if j.nv > 1 else n for n, j in joints for i in range(j.nv)]
    return v[[dofs.index(n[2:-1]) for n in found.state_names if n.startswith("v")]]


# ---- a disc by itself, with closed forms ---------------------------------------------------------


def disc(hoop: bool, r=0.4, mass=2.0) -> pp.System:
    b = pp.ModelBuilder(gravity=(0, 0, 9.81))
    nothing = pp.SpatialInertia(0, (0, 0, 0), 0)
    b.add_body("contact", joint=pp.joints.Planar(), inertia=nothing)
    b.add_body("lean", parent="contact", joint=pp.joints.Revolute((1, 0, 0)), inertia=nothing)
    spin = mass * r**2 * (1 if hoop else 0.5)
    wheel = pp.SpatialInertia(mass, (0, 0, 0), (spin / 2, spin, spin / 2))
    hub = pp.Pose(translation=(0, 0, -r))
    joint = pp.joints.Revolute((0, 1, 0))
    b.add_body("wheel", parent="lean", joint=joint, placement=hub, inertia=wheel)
    rows = np.zeros((2, 18))
    rows[0, [3, 7, 13]] = 1, -r, r
    rows[1, 4] = 1
    rolls = c.Rows(name="rolls", points=["contact", "lean", "wheel"], A=rows, axes="body")
    return pp.System(b.build(), [rolls])


@pytest.mark.parametrize("hoop", [False, True], ids=["disc", "hoop"])
def test_a_rolling_disc_stands_above_its_critical_speed(hoop):
    """Upright and straight on: v² > g r / 3 for a disc and g r / 4 for a hoop (Routh)."""
    system, r, g = disc(hoop), 0.4, 9.81
    critical = np.sqrt(g * r / (4 if hoop else 3))
    # spin and diametral moments of a disc of mass m: C = k m r², A = C / 2
    k = 1.0 if hoop else 0.5
    for part in (0.0, 0.5, 0.999, 1.001, 2.0):
        v = part * critical
        found = pp.linearize(system, system.model.neutral(), [0, v, 0, 0, -v / r], np.zeros(5))
        # (A + m r²) lean'' = m g r lean − (C + m r²) (v / r) yaw', A yaw' = C (v / r) lean
        square = ((k + 1) * k / (k / 2) * (v / r) ** 2 - g / r) / (k / 2 + 1)
        root = np.sqrt(complex(-square))
        assert contains(found.poles(), np.array([root, -root]), 1e-9)
        assert (found.poles().real > 1e-4).any() == (part < 1)
