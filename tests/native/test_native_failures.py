"""What goes wrong in one element of a batch is reported with its joint and its place."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import random_inertia, random_pose, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.core.backends.errors_from_status import HINGE, NOT_FINITE
from phipsi.core.model.model import Model
from phipsi.errors import InputError, SingularHingeError, SingularMatrixError

A_G = ops.a + ops.gravity
FORWARD = ops.mass_matrix.inv @ (ops.tau - ops.H @ ops.phi @ (ops.M @ ops.phi.T @ A_G + ops.b))
SIZES = [1, 2, 3, 4, 5, 8, 9, 13, 16, 17]


@pytest.fixture(scope="module")
def gimbal() -> Model:
    """A weightless frame between two hinges: stuck when the hinges are in line, at "pan" = 0."""
    rng = np.random.default_rng(0)
    builder = pp.ModelBuilder()
    nothing = pp.SpatialInertia(0.0, (0, 0, 0), np.zeros((3, 3)))
    add = builder.add_body
    add("base", parent="world", joint=pp.joints.Revolute((0, 0, 1)), joint_name="yaw",
        inertia=random_inertia(rng), placement=random_pose(rng))  # fmt: skip
    add("frame", parent="base", joint=pp.joints.Revolute((1, 0, 0)), joint_name="roll",
        inertia=nothing)  # fmt: skip
    add("arm", parent="frame", joint=pp.joints.Revolute((0, 1, 0)), joint_name="pan",
        inertia=nothing)  # fmt: skip
    # a rod along x when pan = 0: then nothing has inertia about the roll axis
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), np.diag([0.0, 1 / 12, 1 / 12]))
    add("rod", parent="arm", joint=pp.joints.Prismatic((1, 0, 0)), joint_name="slide", inertia=rod)
    return builder.build()


@pytest.fixture(scope="module")
def forward(gimbal: Model) -> pp.Program:
    program = pp.compile(FORWARD, gimbal, backend="native")
    assert program.backend == "native"
    return program


def states(model: Model, batch: int, stuck: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(batch)
    q = rng.uniform(0.5, 1.0, (batch, model.nq))
    q[stuck, model.q_slices[model.joint_index("pan")]] = 0.0
    q[stuck, model.q_slices[model.joint_index("slide")]] = 0.0
    return [q, rng.standard_normal((batch, model.nv)), rng.standard_normal((batch, model.nv))]


@pytest.mark.parametrize("size", SIZES)
def test_a_singular_hinge_is_named_with_its_element(forward: pp.Program, size: int):
    for at in {0, size // 2, size - 1}:
        args = states(forward.model, size, [at])
        with pytest.raises(SingularHingeError, match="joint 'roll'") as caught:
            forward(*args)
        assert f"(element [{at}] of the batch)" in str(caught.value)
        with pytest.raises(SingularHingeError, match="joint 'roll'"):
            forward(*args, threads=2)


def test_a_single_call_names_the_joint_alone(forward: pp.Program):
    args = [a[0] for a in states(forward.model, 1, [0])]
    with pytest.raises(SingularHingeError, match="joint 'roll'") as caught:
        forward(*args)
    assert "element" not in str(caught.value)


def test_the_element_of_several_batch_axes(forward: pp.Program):
    args = [a.reshape(3, 4, -1) for a in states(forward.model, 12, [6])]
    with pytest.raises(SingularHingeError, match=r"element \[1, 2\] of the batch"):
        forward(*args)


@pytest.mark.parametrize("threads", [1, 2])
def test_masked_elements_are_nan_and_the_rest_is_right(forward: pp.Program, threads: int):
    model = forward.model
    stuck = [0, 5, 6, 12]
    args = states(model, 13, stuck)
    results, status = forward(*args, on_error="nan", threads=threads)
    bad = np.isin(np.arange(13), stuck)
    assert (status[bad] == HINGE + 8 * (model.joint_index("roll") + 1)).all()
    assert not status[~bad].any()
    assert np.isnan(results[bad]).all() and np.isfinite(results[~bad]).all()
    np.testing.assert_array_equal(results[~bad], forward(*(a[~bad] for a in args)))
    reference = pp.compile(FORWARD, model, backend="reference")
    want, other = reference(*args, on_error="nan")
    np.testing.assert_array_equal(status, other)
    np.testing.assert_allclose(results, want, rtol=1e-9)


def test_a_good_batch_has_status_zero(forward: pp.Program):
    results, status = forward(*states(forward.model, 7, []), on_error="nan")
    assert status.shape == (7,) and not status.any() and np.isfinite(results).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["q", "v", "tau"])
def test_inputs_that_are_not_finite_are_refused_with_the_joint(
    forward: pp.Program, name: str, value: float
):
    model = forward.model
    args = states(model, 6, [])
    args[forward.inputs.index(name)][4, model.joint_index("pan")] = value
    with pytest.raises(InputError, match=rf"{name} is {value} at joint 'pan' \(element \[4\]"):
        forward(*args)
    with pytest.raises(InputError, match=f"{name} is {value} at joint 'pan'"):
        forward(*(a[4] for a in args))
    results, status = forward(*args, on_error="nan")
    assert np.flatnonzero(status).tolist() == [4] and np.isnan(results[4]).all()


def test_inputs_that_no_result_needs_are_refused_too():
    """tau of a joint far away: NaN must not vanish in a product with a known zero."""
    model = random_tree(0, 3, ("prismatic",))
    program = pp.compile(ops.mass_matrix @ ops.v, model, backend="native")
    q = np.zeros((2, 3))
    q[1, 2] = np.nan  # the mass matrix of prismatic joints may not depend on it
    with pytest.raises(InputError, match="q is nan"):
        program(q, np.ones((2, 3)))


def test_overflow_is_reported_as_such():
    model = random_tree(0, 3, ("revolute",))
    program = pp.compile(FORWARD, model, backend="native")
    args = [np.zeros((5, 3)), np.ones((5, 3)), np.ones((5, 3))]
    args[1][3] = 1e200  # squared velocities overflow
    with pytest.raises(SingularMatrixError, match=r"too large.*\n?.*element \[3\]"):
        program(*args)
    _, status = program(*args, on_error="nan")
    assert np.flatnonzero(status).tolist() == [3] and status[3] % 8 == NOT_FINITE


def test_huge_but_valid_inputs_warn_of_nothing():
    """Warnings are errors in these tests: no flag of the arithmetic may reach the user."""
    model = random_tree(0, 3, ("revolute",))
    program = pp.compile(FORWARD, model, backend="native")
    for x in (1e9, 1e100, 1e200, 1e300):
        q = np.full((5, 3), x)
        assert np.isfinite(program(q, np.ones(3), np.ones(3))).all()


def test_singular_blocks_name_their_body():
    builder = pp.ModelBuilder()
    ball = pp.SpatialInertia(1.0, (0, 0, 0), np.eye(3))
    dust = pp.SpatialInertia(1.0, (0, 0, 0), np.zeros((3, 3)))
    builder.add_body("a", parent="world", joint=pp.joints.Revolute((0, 0, 1)), inertia=ball)
    builder.add_body("dust", parent="a", joint=pp.joints.Prismatic((0, 0, 1)), inertia=dust)
    model = builder.build()
    program = pp.compile(ops.M.inv @ ops.f_ext, model, backend="native")
    with pytest.raises(SingularMatrixError, match="'dust'"):
        program(np.ones((2, 2, 6)))


def test_log_det_of_nothing_positive():
    model = random_tree(0, 3, ("revolute",))
    program = pp.compile(ops.logdet(ops.mass_matrix), model, inputs=("M",), backend="native")
    M = np.broadcast_to(model.inertia_matrices, (3, 3, 6, 6)).copy()
    M[1] *= -1
    q = np.zeros((3, 3))
    with pytest.raises(SingularHingeError, match=r"D = .* -0\.\d+(.|\n)*element \[1\]"):
        program(q, M)
    _, status = program(q, M, on_error="nan")
    assert np.flatnonzero(status).tolist() == [1]
