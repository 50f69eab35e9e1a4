"""`model.integrate` in machine code: the exponential of a matrix, the same bits and errors."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import ALL, branching
from scipy.linalg import expm

import phipsi as pp
from phipsi.core.model.model import Model
from phipsi.core.spatial import skew
from phipsi.errors import InputError
from phipsi.operators import moved

pytestmark = pytest.mark.usefixtures("machine_code")


def every_joint() -> Model:
    return branching(len(ALL), 11, ALL)


def states(model: Model, count: int = 21) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return model.random_configuration(rng, count), 2 * rng.standard_normal((count, model.nv))


def screw(motion: np.ndarray) -> np.ndarray:
    """The exponential of a body motion [ω; u] as a homogeneous matrix."""
    out = np.zeros((4, 4))
    out[:3, :3], out[:3, 3] = skew(motion[:3]), motion[3:]
    return expm(out)


@pytest.mark.parametrize("joint", [pp.joints.Free(), pp.joints.Spherical(), pp.joints.Planar()])
def test_it_is_the_exponential_of_a_matrix(joint: pp.joints.Joint):
    builder = pp.ModelBuilder()
    builder.add_body("body", joint=joint, inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.1))
    model = builder.build()
    for q, v in zip(*states(model), strict=True):
        then = pp.poses(model, model.integrate(q, v))[0]
        now, motion = pp.poses(model, q)[0], pp.velocities(model, q, v)[0]
        assert np.abs(then - now @ screw(motion)).max() < 1e-13
        if joint.nv > 3:  # and not on the other side
            assert np.abs(then - screw(motion) @ now).max() > 1e-3


def test_every_joint_agrees_with_its_formula_on_arrays():
    model = every_joint()
    q, v = states(model)
    found = model.integrate(q, v)
    program = pp.compile(moved, model)
    assert program.backend == "native" and (found == program(q, v)).all()
    for joint, i, j in zip(model.joints, model.q_slices, model.v_slices, strict=True):
        assert np.abs(found[:, i] - joint.integrate(q[:, i], v[:, j])).max(initial=0) < 1e-14
    assert np.abs(model.difference(q, model.integrate(q, 0.1 * v)) - 0.1 * v).max() < 1e-14


def test_one_and_many_give_the_same_bits():
    model = every_joint()
    q, v = states(model)
    whole = model.integrate(q, v)
    assert (np.array([model.integrate(a, b) for a, b in zip(q, v, strict=True)]) == whole).all()
    assert (model.integrate(q[0], v)[1:] == model.integrate(np.array([q[0]] * 20), v[1:])).all()
    assert (model.integrate(q[0].tolist(), v[0].tolist()) == whole[0]).all()


@pytest.mark.parametrize("length", [1e-300, 1e-160, 0.3, 1e160, 1e300])
def test_quaternions_of_any_length(length: float):
    model = pp.ModelBuilder()
    model.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1, (0, 0, 0), 0.1))
    ball = model.build()
    q, v = states(ball)
    stretched = q * np.array([length] * 4 + [1] * 3)
    assert np.abs(ball.integrate(stretched, v) - ball.integrate(q, v)).max() < 1e-14


def test_errors_are_those_of_the_formulas_on_arrays():
    model = every_joint()
    q, v = states(model)
    free = next(i for i, joint in enumerate(model.joints) if joint.nq == 7)
    lost = q[0].copy()
    lost[model.q_slices[free].start : model.q_slices[free].start + 4] = 0
    with pytest.raises(
        InputError, match=f"quaternion of joint {model.joint_names[free]!r} is zero"
    ):
        model.integrate(lost, v[0])
    with pytest.raises(InputError, match="dv has shape .* its last axis must be nv"):
        model.integrate(q, v[:, 1:])
    with pytest.raises(InputError, match="dv is nan at joint"):
        model.integrate(q[0], v[0] * np.nan)
    with pytest.raises(InputError, match="must be real"):
        model.integrate(q[0], v[0] + 1j)
    with pytest.raises(InputError, match="dv"):
        model.integrate(q[0], "fast")
