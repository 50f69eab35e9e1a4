"""Every joint: pose, hinge axes, their rate, q̇, integrate and difference agree with each other.

The derivative checks use the complex step (no cancellation): with q(t) = q + t q̇, the imaginary
part at t = i h, divided by h, is the derivative to rounding.
"""

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import JOINTS, random_axis, random_rotation
from scipy.linalg import expm

from phipsi.core.model import joints as tree_joints
from phipsi.core.model.joint import ConstantAxes
from phipsi.core.model.joints import (
    Composite,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Translation,
    Universal,
)
from phipsi.core.model.scalar_linalg import as_array
from phipsi.core.spatial import crm, quat_multiply, quat_to_matrix, skew
from phipsi.core.spatial.number_kinds import ARRAYS
from phipsi.errors import ModelError

ROOT = Path(__file__).parents[3]
rng0 = np.random.default_rng(7)
SAMPLES = [maker(rng0) for maker in JOINTS.values()] + [
    Revolute(),
    Prismatic((0, -2, 0)),
    Helical((1, 0, 0), -0.2),
    Universal((1, 0, 0), (1, 1, 0)),
    Planar((0, 0, 2), (3, 0, 0)),
    Composite([Spherical(), Prismatic((1, 2, 3)), Universal((1, 0, 0), (0, 1, 1))]),
    Composite([Free()]),
    Fixed(),
    Composite(),
    Composite([Planar(), Composite([Cylindrical((0, 1, 1))]), Fixed(), Helical((1, 2, 0), 0.1)]),
]
joints = pytest.mark.parametrize("joint", SAMPLES, ids=lambda joint: joint.kind)
STEP = 1e-30


def split(array):
    return [array[..., k] for k in range(array.shape[-1])]


def pose(joint, q):
    R, p = joint.transform(joint.params, split(np.asarray(q)), ARRAYS)
    return as_array(R), as_array([p])[..., 0, :]


def homogeneous(joint, q):
    R, p = pose(joint, q)
    return np.block([[R, p[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


def hinge(joint, q):
    return as_array(joint.hinge_axes(joint.params, split(np.asarray(q)), ARRAYS))


def hinge_rate(joint, q, v):
    rate = joint.hinge_axes_rate(joint.params, split(np.asarray(q)), split(v), ARRAYS)
    return as_array(rate)


def qdot(joint, q, v):
    return np.array(joint.q_rate(joint.params, split(np.asarray(q)), split(v), ARRAYS))


def unskew(W):
    return np.array([W[2, 1], W[0, 2], W[1, 0]])


def draw(joint, seed=0):
    rng = np.random.default_rng(seed)
    return joint.random(rng), rng.normal(size=joint.nv)


@joints
def test_velocity_of_pose_is_hinge_axes_times_v(joint):
    q, v = draw(joint)
    R, p = pose(joint, q + 1j * STEP * qdot(joint, q, v))
    R_rate, p_rate = R.imag / STEP, p.imag / STEP
    W = R.real.T @ R_rate
    assert_allclose(W, -W.T, atol=1e-13)
    V = np.concatenate([unskew(W), R.real.T @ p_rate])
    assert_allclose(hinge(joint, q) @ v, V, atol=1e-13)
    assert_allclose(R.real.T @ R.real, np.eye(3), atol=1e-14)


@joints
def test_rate_of_hinge_axes(joint):
    q, v = draw(joint, 1)
    moved = hinge(joint, q + 1j * STEP * qdot(joint, q, v))
    assert_allclose(hinge_rate(joint, q, v), np.imag(moved) / STEP, atol=1e-13)


def test_some_hinge_axes_do_change():
    joint = SAMPLES[list(JOINTS).index("universal")]
    q, v = draw(joint)
    assert np.abs(hinge_rate(joint, q, v)).max() > 1e-2


@joints
def test_q_rate_is_the_derivative_of_integrate(joint):
    q, v = draw(joint, 2)
    coarse, fine = (
        (joint.integrate(q, h * v) - joint.integrate(q, -h * v)) / (2 * h) for h in (2e-3, 1e-3)
    )
    assert_allclose((4 * fine - coarse) / 3, qdot(joint, q, v), atol=1e-10)


@joints
def test_integrate_follows_one_motion(joint):
    q, v = draw(joint, 3)
    halfway = joint.integrate(q, 0.3 * v)
    assert_allclose(joint.integrate(halfway, 0.7 * v), joint.integrate(q, v), atol=1e-13)
    assert_allclose(joint.integrate(q, 0 * v), q, atol=1e-15)


@pytest.mark.parametrize(
    "joint",
    [j for j in SAMPLES if isinstance(j, ConstantAxes)],
    ids=lambda joint: joint.kind,
)
def test_integrate_is_the_exponential_where_hinge_axes_are_constant(joint):
    q, v = draw(joint, 4)
    V = hinge(joint, q) @ v
    twist = np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = skew(V[:3]), V[3:]
    end = homogeneous(joint, joint.integrate(q, v))
    assert_allclose(end, homogeneous(joint, q) @ expm(twist), atol=1e-12)


@joints
@pytest.mark.parametrize("size", [1e-200, 1e-12, 1e-6, 0.3, 1.0])
def test_difference_inverts_integrate(joint, size):
    rng = np.random.default_rng(5)
    q = joint.random(rng, (50,))
    dv = rng.uniform(-1, 1, (50, joint.nv)) * size
    back = joint.difference(q, joint.integrate(q, dv))
    assert_allclose(back, dv, rtol=0, atol=1e-12 * max(size, 1e-3))
    other = joint.random(rng, (50,))
    reached = joint.integrate(q, joint.difference(q, other))
    for a, b in zip(pose(joint, reached), pose(joint, other), strict=True):
        assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("joint", [Spherical(), Free(), Planar()], ids=lambda joint: joint.kind)
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-6, 1e-3])
def test_difference_is_the_shortest_way_up_to_half_a_turn(joint, gap):
    rng = np.random.default_rng(6)
    q, dv = joint.random(rng), rng.uniform(-1, 1, joint.nv)
    count = 1 if joint.kind == "planar" else 3
    dv[:count] *= (np.pi - gap) / np.linalg.norm(dv[:count])
    back = joint.difference(q, joint.integrate(q, dv))
    assert_allclose(np.linalg.norm(back[:count]), np.pi - gap, atol=1e-12)
    if gap:
        assert_allclose(back, dv, atol=1e-10)
    longer = dv.copy()
    longer[:count] *= (np.pi + 0.5) / np.linalg.norm(dv[:count])
    back = joint.difference(q, joint.integrate(q, longer))
    assert_allclose(np.linalg.norm(back[:count]), np.pi - 0.5, atol=1e-12)


def test_quaternion_length_does_not_matter():
    q, v = draw(Free(), 8)
    long = q * np.array([3.0] * 4 + [1.0] * 3)
    for a, b in zip(pose(Free(), long), pose(Free(), q), strict=True):
        assert_allclose(a, b, atol=1e-15)
    assert_allclose(np.linalg.norm(Free().integrate(long, v)[:4]), 1, atol=1e-15)
    assert_allclose(Free().difference(long, Free().integrate(q, v)), v, atol=1e-13)


@joints
def test_neutral_pose_is_the_identity(joint):
    assert_allclose(homogeneous(joint, joint.neutral()), np.eye(4), atol=1e-15)


@joints
def test_batches(joint):
    rng = np.random.default_rng(9)
    q, dv = joint.random(rng, (2, 3)), rng.normal(size=(3, joint.nv))
    assert q.shape == (2, 3, joint.nq)
    moved = joint.integrate(q, dv)
    gap = joint.difference(q, moved)
    R, p = pose(joint, q)
    H, rate = hinge(joint, q), hinge_rate(joint, q, np.broadcast_to(dv, (2, 3, joint.nv)))
    for i in np.ndindex(2, 3):
        assert_allclose(moved[i], joint.integrate(q[i], dv[i[1]]), atol=1e-15)
        assert_allclose(gap[i], joint.difference(q[i], moved[i]), atol=1e-15)
        assert_allclose(np.broadcast_to(R, (2, 3, 3, 3))[i], pose(joint, q[i])[0], atol=1e-15)
        assert_allclose(np.broadcast_to(p, (2, 3, 3))[i], pose(joint, q[i])[1], atol=1e-15)
        full = (2, 3, 6, joint.nv)
        assert_allclose(np.broadcast_to(H, full)[i], hinge(joint, q[i]), atol=1e-15)
        one = hinge_rate(joint, q[i], dv[i[1]])
        assert_allclose(np.broadcast_to(rate, full)[i], one, atol=1e-15)


@joints
def test_random_is_in_range(joint):
    q = joint.random(np.random.default_rng(0), (1000,))
    for name, column in zip(joint.coordinate_names, q.T, strict=True):
        bound = np.pi if name.startswith("theta") else 1.0
        assert np.abs(column).max() <= bound
        assert np.abs(column).max() > 0.8 * bound and abs(column.mean()) < 0.15 * bound


@joints
def test_symbols_and_numbers_give_the_same(joint):
    import sympy  # here: only one of the processes needs it

    q, v = draw(joint, 10)
    qs, vs = sympy.symbols(f"q:{joint.nq}"), sympy.symbols(f"v:{joint.nv}")
    R, p = joint.transform(joint.params, qs, sympy)
    rate = joint.hinge_axes_rate(joint.params, qs, vs, sympy)
    rates = joint.q_rate(joint.params, qs, vs, sympy)
    everything = sympy.lambdify([*qs, *vs], [R, p, rate, rates], "numpy")
    R, p, rate, rates = everything(*q, *v)
    assert_allclose(R, pose(joint, q)[0], atol=1e-14)
    assert_allclose(p, pose(joint, q)[1], atol=1e-14)
    assert_allclose(rate, hinge_rate(joint, q, v), atol=1e-13)
    assert_allclose(rates, qdot(joint, q, v), atol=1e-14)


@joints
def test_fifty_digits_agree_with_floats(joint):
    q, _ = draw(joint, 11)
    with mpmath.workdps(50):
        R, p = joint.transform(joint.params, [mpmath.mpf(x) for x in q], mpmath.mp)
        R, p = np.array(R, dtype=float), np.array(p, dtype=float)
    assert_allclose(R, pose(joint, q)[0], atol=2e-15)
    assert_allclose(p, pose(joint, q)[1], atol=2e-15)


def test_structural_zeros_and_ones():
    import sympy  # here: only one of the processes needs it

    theta = sympy.Symbol("theta")
    R, p = Revolute().transform((0, 0, 1), [theta], sympy)
    c, s = sympy.cos(theta), sympy.sin(theta)
    assert R == [[c, -s, 0], [s, c, 0], [0, 0, 1]] and p == [0, 0, 0]
    assert all(type(x) is int for x in (R[0][2], R[2][0], R[2][2], *p))
    for joint in (Free(), Spherical(), Translation()):
        H = joint.hinge_axes((), sympy.symbols(f"q:{joint.nq}"), sympy)
        assert all(type(x) is int for row in H for x in row)
    slide = Composite([Prismatic((1, 0, 0)), Prismatic((0, 1, 0))])
    R, p = slide.transform((1, 0, 0, 0, 1, 0), sympy.symbols("x y"), sympy)
    assert R == [[1, 0, 0], [0, 1, 0], [0, 0, 1]] and p == list(sympy.symbols("x y")) + [0]
    rate = slide.hinge_axes_rate((1, 0, 0, 0, 1, 0), [0, 0], sympy.symbols("u w"), sympy)
    assert all(type(x) is int and x == 0 for row in rate for x in row)


def same_joint(a, b, q, v):
    for x, y in zip(pose(a, q), pose(b, q), strict=True):
        assert_allclose(x, y, atol=1e-14)
    assert_allclose(hinge(a, q), hinge(b, q), atol=1e-14)
    assert_allclose(hinge_rate(a, q, v), hinge_rate(b, q, v), atol=1e-14)


def test_composites_equal_the_joints_they_spell_out():
    rng = np.random.default_rng(12)
    u, w = random_axis(rng), random_axis(rng)
    q, v = rng.normal(size=2), rng.normal(size=2)
    same_joint(Composite([Revolute(u), Revolute(w)]), Universal(u, w), q, v)
    same_joint(Composite([Revolute(u), Prismatic(u)]), Cylindrical(u), q, v)
    same_joint(Composite([Helical(u, 0.2)]), Helical(u, 0.2), q[:1], v[:1])


def test_planar_equals_two_slides_and_a_turn():
    rng = np.random.default_rng(13)
    R = random_rotation(rng)
    planar = Planar(R[:, 0], R[:, 1])
    spelled = Composite([Prismatic(R[:, 0]), Prismatic(R[:, 1]), Revolute(R[:, 2])])
    q, v = rng.normal(size=3), rng.normal(size=3)
    q_spelled, v_spelled = np.roll(q, -1), np.roll(qdot(planar, q, v), -1)
    for a, b in zip(pose(planar, q), pose(spelled, q_spelled), strict=True):
        assert_allclose(a, b, atol=1e-14)
    assert_allclose(hinge(planar, q) @ v, hinge(spelled, q_spelled) @ v_spelled, atol=1e-14)


def test_free_equals_translation_then_spherical():
    q, v = draw(Free(), 14)
    spelled = Composite([Translation(), Spherical()])
    q_spelled = np.concatenate([q[4:], q[:4]])
    v_spelled = np.concatenate([pose(Free(), q)[0] @ v[3:], v[:3]])
    for a, b in zip(pose(Free(), q), pose(spelled, q_spelled), strict=True):
        assert_allclose(a, b, atol=1e-15)
    assert_allclose(hinge(spelled, q_spelled) @ v_spelled, v, atol=1e-14)


def test_universal_coriolis_term_is_that_of_the_table():
    joint = Universal((1, 0, 0), (0.6, 0.8, 0))
    q, v = np.array([0.4, -1.1]), np.array([2.0, 3.0])
    R2 = pose(Revolute((0.6, 0.8, 0)), q[1:])[0]
    expected = np.cross(R2.T @ [1, 0, 0], [0.6, 0.8, 0]) * v[0] * v[1]
    assert_allclose(hinge_rate(joint, q, v) @ v, [*expected, 0, 0, 0], atol=1e-14)


def test_composite_rate_is_minus_crm_for_a_constant_inner_joint():
    joint = Composite([Revolute((1, 1, 0)), Cylindrical((0, 1, 2)), Spherical()])
    q, v = draw(joint, 15)
    H = hinge(joint, q)
    outboard = H[:, 1:] @ v[1:]
    assert_allclose(hinge_rate(joint, q, v)[:, 0], -crm(outboard) @ H[:, 0], atol=1e-13)


def test_quaternion_product_is_the_order_of_spherical_joints():
    rng = np.random.default_rng(16)
    a, b = Spherical().random(rng), Spherical().random(rng)
    both = pose(Composite([Spherical(), Spherical()]), np.concatenate([a, b]))[0]
    assert_allclose(both, quat_to_matrix(quat_multiply(a, b)), atol=1e-14)


@joints
def test_joints_are_values(joint):
    copy = pickle.loads(pickle.dumps(joint))
    assert copy == joint and hash(copy) == hash(joint) and copy.params == joint.params
    assert eval(repr(joint), vars(tree_joints)) == joint
    assert type(joint)(**joint.as_arguments()) == joint
    assert joint != Revolute((1, 7, 2))
    with pytest.raises(AttributeError, match="frozen"):
        joint.params = ()
    if joint.params:
        assert not np.isnan(joint.params).any()


def test_axes_are_normalised_once():
    joint = Revolute((1, 2, 3))
    assert_allclose(np.linalg.norm(joint.params), 1, atol=1e-16)
    assert Revolute(joint.params).params == joint.params
    assert Revolute((0, 0, 1e-200)).params == (0, 0, 1)
    assert Revolute((0, 0, 1e200)) == Revolute()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Revolute((0, 0, 0)), "Revolute axis is \\(0, 0, 0\\).*not a direction"),
        (lambda: Prismatic((np.nan, 0, 1)), "Prismatic axis.*not finite"),
        (lambda: Revolute((1, 0)), "Revolute axis must be three numbers"),
        (lambda: Helical((0, 0, 1), np.inf), "Helical pitch.*metres per radian"),
        (lambda: Universal((0, 0, 1), (0, 0, -3)), "parallel.*\n.*Revolute"),
        (lambda: Planar((1, 0, 0), (1, 1, 0)), "not perpendicular.*\n.*e2 −"),
        (lambda: Composite([Free(), Revolute()]), "7 degrees of freedom.*free 6 \\+ revolute 1"),
        (lambda: Composite([Revolute]), "Composite takes joints"),  # pyright: ignore
    ],
)
def test_impossible_joints_say_why(make, says):
    with pytest.raises(ModelError, match=says):
        make()


@joints
def test_logarithms_of_numbers_are_those_of_arrays(joint):
    """The formula for any kind of number, which generated code uses, and `difference`."""
    rng = np.random.default_rng(5)
    q0, q1 = joint.random(rng, (20,)), joint.random(rng, (20,))
    expected = joint.difference(q0, q1)
    for group, i, j in joint.parts():
        if not group.nq:
            continue
        a, b = (list(np.moveaxis(q[:, i : i + group.nq], -1, 0)) for q in (q0, q1))
        found = np.stack(np.broadcast_arrays(*group.log(a, b, ARRAYS)), axis=-1)
        assert_allclose(found, expected[:, j : j + group.nv], atol=4e-14)


def what_a_joint_lacks(names: Iterable[str]) -> Iterator[str]:
    """Where a joint type has to be added so that it is known everywhere."""
    from phipsi.papers.proofs.sample_mechanisms import _JOINTS as PROVED

    pages = {x: (ROOT / "docs" / x).read_text("utf-8") for x in ("notation.md", "models.md")}
    for name in names:
        if name.lower() not in JOINTS:
            yield f'{name}: add "{name.lower()}" to JOINTS of tests/support/random_models.py'
        if name.lower() not in PROVED:
            yield f'{name}: add "{name.lower()}" to _JOINTS of papers/proofs/sample_mechanisms.py'
        for page, text in pages.items():
            if f"`{name}" not in text:
                yield f"{name}: name it in the table of joints of docs/{page}"


def test_every_joint_is_known_everywhere():
    missing = list(what_a_joint_lacks(set(tree_joints.__all__) - {"Joint", "Fixed"}))
    assert not missing, "\n".join(missing)
    assert len(list(what_a_joint_lacks(["Cam"]))) == 4
