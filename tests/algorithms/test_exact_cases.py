"""Small mechanisms with known answers: tables, closed forms, and numbers with 50 digits."""

import mpmath
import numpy as np
import pytest

import phipsi as pp
from phipsi.core.compiler import compile
from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.examples import planar_arm
from phipsi.operators import mass_matrix

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
ORIGIN = (0, 0, 0)

# parent, axis, offset, mass centre, moments about it; all of 1 kg under gravity (0, −9.81, 0)
CASES = {
    "rod": ([(-1, Z, ORIGIN, X, 1)], [-4.905]),
    "body off the axis": ([(-1, Z, ORIGIN, (1.5, 1, 1), (1, 2, 3))], [-2.3544]),
    "double pendulum": ([(-1, Z, ORIGIN, X, 1), (0, Z, X, X, 1)], [-5.886, 3.924]),
    "crossed hinges": ([(-1, Z, ORIGIN, X, 1), (0, Y, X, Y, 1)], [-3.924, 0]),
    "tree": (
        [
            (-1, Z, ORIGIN, X, 1),
            (0, Y, X, Y, 1),
            (1, X, Y, Z, 1),
            (0, Y, (-0.5, 0, 0), Y, 1),
            (3, X, (0, -0.5, 0), Z, 1),
        ],
        [
            -1.60319066147860,
            -0.534396887159533,
            4.10340466926070,
            0.267198443579767,
            5.30579766536965,
        ],
    ),
}


def build(rows) -> Model:
    b = ModelBuilder(gravity=(0, -9.81, 0))
    for i, (parent, axis, offset, com, moment) in enumerate(rows):
        b.add_body(
            f"b{i}",
            parent="world" if parent < 0 else f"b{parent}",
            joint=joints.Revolute(axis),
            placement=Pose(translation=offset),
            inertia=SpatialInertia(1, com, moment),
        )
    return b.build()


@pytest.mark.parametrize("algorithm", [None, "FD1", "FD2", "FD3", "FD4"])
@pytest.mark.parametrize("name", CASES)
def test_small_exact_cases(name, algorithm):
    rows, expected = CASES[name]
    model = build(rows)
    zero = np.zeros(model.nv)
    vdot = pp.forward_dynamics(model, zero, zero, zero, algorithm=algorithm)
    np.testing.assert_allclose(vdot, expected, rtol=1e-13, atol=1e-13)
    tau = pp.inverse_dynamics(model, zero, zero, expected)
    np.testing.assert_allclose(tau, zero, atol=1e-12)


# ---- the two-link arm in symbols ---------------------------------------------------------------


def closed_form(q2, moment, cos):
    """Mass matrix of two rods of 1 kg and 1 m with this moment about their hinges."""
    coupling = moment + cos(q2) / 2
    return [[2 * moment + 1 + cos(q2), coupling], [coupling, moment]]


def test_symbols_give_the_closed_form_of_the_mass_matrix():
    import sympy  # here: only one of the processes needs it

    q1, q2 = sympy.symbols("q1 q2", real=True)
    arm = planar_arm(2)
    M = compile(mass_matrix, arm, mode="dense")(np.array([q1, q2], dtype=object))
    assert M.dtype == object
    expected = sympy.Matrix(closed_form(q2, sympy.Rational(1, 3), sympy.cos))
    gap = sympy.nsimplify(sympy.Matrix(M.tolist()), rational=True, tolerance=1e-14) - expected
    assert sympy.simplify(gap) == sympy.zeros(2, 2)


def test_symbols_give_the_inverse_and_the_dynamics():
    import sympy  # here: only one of the processes needs it

    q = np.array(sympy.symbols("q1 q2", real=True), dtype=object)
    v = np.array(sympy.symbols("v1 v2", real=True), dtype=object)
    arm = planar_arm(2)
    inverse = sympy.Matrix(pp.mass_matrix_inverse(arm, q).tolist())
    bias = sympy.Matrix(pp.bias_forces(arm, q, v).tolist())
    at = {q[0]: 0.3, q[1]: -0.7, v[0]: 1.1, v[1]: 0.4}
    numbers = [[0.3, -0.7], [1.1, 0.4]]
    np.testing.assert_allclose(
        np.array(inverse.subs(at).evalf(), dtype=float),
        np.linalg.inv(pp.mass_matrix(arm, numbers[0])),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        np.array(bias.subs(at).evalf(), dtype=float)[:, 0],
        pp.bias_forces(arm, *numbers),
        rtol=1e-12,
    )
    kinetic = pp.kinetic_energy(arm, q, v)
    assert abs(sympy.N(kinetic.item().subs(at)) - pp.kinetic_energy(arm, *numbers)) < 1e-14


# ---- fifty digits ------------------------------------------------------------------------------


@pytest.fixture
def fifty_digits():
    with mpmath.workdps(50):
        yield


def numbers(*text: str) -> np.ndarray:
    return np.array([mpmath.mpf(t) for t in text], dtype=object)


def test_mass_matrix_to_fifty_digits(fifty_digits):
    arm, q = planar_arm(2), numbers("0.3", "0.7")
    moment = mpmath.mpf(arm.inertia_matrices[0, 2, 2])  # 1/3 as the model has it, in binary
    expected = closed_form(q[1], moment, mpmath.cos)
    M = compile(mass_matrix, arm, mode="dense")(q)
    assert max(abs(M[i, j] - expected[i][j]) for i in (0, 1) for j in (0, 1)) < mpmath.mpf("1e-48")


def test_forward_dynamics_to_fifty_digits(fifty_digits):
    """A chain of eight rods: in double precision against 50 digits, and the residual in 50."""
    arm = planar_arm(8)
    rng = np.random.default_rng(0)
    q, v, tau = rng.standard_normal((3, 8))
    exact = [np.array([mpmath.mpf(float(x)) for x in y], dtype=object) for y in (q, v, tau)]
    vdot = pp.forward_dynamics(arm, *exact)
    left = pp.inverse_dynamics(arm, *exact[:2], vdot) - exact[2]
    assert max(abs(x) for x in left) < mpmath.mpf("1e-45")
    double = pp.forward_dynamics(arm, q, v, tau)
    gap = max(abs(a - b) for a, b in zip(double, vdot, strict=True))
    assert gap < 1e-12 * max(abs(x) for x in vdot)


def test_quaternions_to_fifty_digits(fifty_digits):
    """A free body that carries a spherical one: energy rate minus power, in 50 digits."""
    b = ModelBuilder()
    inertia = SpatialInertia(2.0, (0.1, 0.2, -0.1), (0.3, 0.4, 0.5))
    b.add_body("base", joint=joints.Free(), inertia=inertia)
    place = Pose(translation=(0.5, 0, 0.2))
    b.add_body("top", parent="base", joint=joints.Spherical(), placement=place, inertia=inertia)
    model = b.build()
    rng = np.random.default_rng(1)
    q = np.array([mpmath.mpf(x) for x in model.random_configuration(rng)], dtype=object)
    v, tau = (np.array([mpmath.mpf(x) for x in y], dtype=object) for y in rng.random((2, 9)))
    vdot = pp.forward_dynamics(model, q, v, tau)
    left = pp.inverse_dynamics(model, q, v, vdot) - tau
    assert max(abs(x) for x in left) < mpmath.mpf("1e-45")


def test_complex_steps_pass_through_every_algorithm():
    """Derivative of the accelerations with respect to one coordinate, against differences."""
    arm = planar_arm(3)
    q, v, tau = np.random.default_rng(2).standard_normal((3, 3))
    step = np.array([0, 1, 0])
    for algorithm in (None, "FD1", "FD2", "FD3", "FD4"):
        forward = lambda x, a=algorithm: pp.forward_dynamics(arm, x, v, tau, algorithm=a)  # noqa: E731
        exact = forward(q + 1e-30j * step).imag / 1e-30
        h = 1e-6
        differences = (forward(q + h * step) - forward(q - h * step)) / (2 * h)
        np.testing.assert_allclose(exact, differences, rtol=1e-7, atol=1e-7)
