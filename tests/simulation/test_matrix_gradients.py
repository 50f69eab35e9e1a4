"""Gradients through matrices and poses that laws read: controllers in operational space."""

import known_systems
import numpy as np
import pytest
from differences import slope
from random_models import random_tree

import phipsi as pp
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.primitive_calls import call
from phipsi.operators import A, J, Lambda, P, frame_pose, mass_matrix, phi
from phipsi.simulation.integrators.group_calls import lower
from phipsi.simulation.integrators.step_calls import ProgramCall

FOUR_BAR = known_systems.four_bar()
TREE = random_tree(3, 4)
TIPS = [TREE.body_names[-1], (TREE.body_names[1], (0.1, 0.2, 0.3))]
MATRICES = {
    "ℳ": (mass_matrix, TREE, None, "dense"),
    "ℳ⁻¹": (mass_matrix.inv, TREE, None, "dense"),
    "J": (J, TREE, TIPS, "dense"),
    "J*": (J.T, TREE, TIPS, "dense"),
    "φ": (phi, TREE, None, "dense"),
    "P": (P, TREE, None, "dense"),
    "Λ": (Lambda, TREE, TIPS, "dense"),
    "A J": (A @ J, FOUR_BAR, None, "dense"),
    "poses of frames": (frame_pose, TREE, TIPS, "apply"),
}


def gap(name):
    """The gradient of Σ W ∘ X(q) along random rates, beside differences of order eight."""
    form, mechanism, points, mode = MATRICES[name]
    program = ProgramCall((form,), mechanism, mode=(mode,), points=points)
    rng, model = np.random.default_rng(1), mechanism.model
    q, along = model.random_configuration(rng), rng.standard_normal(model.nv)
    at = ops.input("q", (model.nq,))
    (result,) = call(program, at)
    W = rng.standard_normal(result.shape)
    (bar,) = adjoints([result], [ops.constant(W)], [at])
    assert bar is not None
    (found,) = lower(model, q, evaluate([bar], {"q": q})[0])
    wanted = slope(lambda e: np.sum(W * program.arrays(model.integrate(q, e * along))[0]), 1e-3)
    return abs(found @ along - wanted) / np.abs(found).max(), found


@pytest.mark.parametrize("name", MATRICES)
def test_weights_of_matrices_go_back(name):
    error, found = gap(name)
    assert error < 1e-9
    assert np.abs(found).max() > 1e-3


@pytest.mark.parametrize("name", ["ℳ", "A J"])
def test_a_column_that_is_left_out_is_noticed(name, monkeypatch):
    right = ProgramCall._along
    calls = []

    def forgetful(self, form, given, weight):
        calls.append(form)
        out = right(self, form, given, weight)
        return {} if len(calls) == 2 else out

    monkeypatch.setattr(ProgramCall, "_along", forgetful)
    assert gap(name)[0] > 1e-4


def test_weights_of_products_go_back():
    """J* x, by q and by x."""
    program = ProgramCall((J.T,), TREE, points=TIPS)
    rng = np.random.default_rng(2)
    q, (x, more) = TREE.random_configuration(rng), rng.standard_normal((2, 2, 6))
    along, w = rng.standard_normal((2, TREE.nv))
    inputs = [ops.input("q", (TREE.nq,)), ops.input("x", (2, 6))]
    (result,) = call(program, *inputs)
    by_q, by_x = adjoints([result], [ops.constant(w)], inputs)
    assert by_q is not None
    assert by_x is not None
    to_q, to_x = evaluate([by_q, by_x], {"q": q, "x": x})
    (to_q,) = lower(TREE, q, to_q)
    wanted = slope(lambda e: w @ program.arrays(TREE.integrate(q, e * along), x)[0], 1e-3)
    assert abs(to_q @ along - wanted) < 1e-9 * np.abs(to_q).max()
    np.testing.assert_allclose(np.sum(to_x * more), w @ program.arrays(q, more)[0], rtol=1e-12)


def test_a_matrix_without_vectors_is_rejected():
    """Of multipliers of the rows there is no input."""
    program = ProgramCall((A @ Lambda @ A.T,), FOUR_BAR, mode=("dense",))
    at = ops.input("q", (FOUR_BAR.nq,))
    (result,) = call(program, at)
    with pytest.raises(pp.errors.InputError, match=r"the derivative of A .*, which a law reads"):
        adjoints([result], [ops.constant(np.ones(result.shape))], [at])


ARM = pp.examples.seven_joint_arm()


def following():
    path = pp.control.CartesianPath([(0.3, 0.1, 0.6), (0.4, 0.2, 0.5)], [0.0, 0.02])
    control = pp.control.OperationalSpace(
        ARM, ARM.body_names[-1], path, kp=100, kd=20, components="position"
    )
    return ARM, control, np.full(ARM.nq, 0.4)


def turning_too():
    goal = pp.Pose.from_rpy((0.2, 0.1, 0.4), (0.4, 0.2, 0.6))
    control = pp.control.OperationalSpace(ARM, ARM.body_names[-1], goal, kp=100, kd=20)
    return ARM, control, np.full(ARM.nq, 0.4)


def in_a_loop():
    q = FOUR_BAR.assemble([1.0, -1.0, -1.5])
    control = pp.control.OperationalSpace(
        FOUR_BAR, "coupler", (0.6, 0.9, 0), kp=50, kd=10, components=(2,), actuated=["crank"]
    )
    return FOUR_BAR, control, q


@pytest.mark.parametrize("case", [following, turning_too, in_a_loop])
def test_runs_with_operational_space_control(case):
    mechanism, control, q = case()
    steps, rng, nv = 5, np.random.default_rng(0), mechanism.nv
    sim = pp.Simulator(mechanism, [control], 2e-3, integrator="semi_implicit")
    project = getattr(mechanism, "project", lambda q, v: (q, v))
    q0, v0 = project(q, 0.2 * rng.standard_normal(nv))
    end = rng.standard_normal((steps + 1, mechanism.nq))
    tau, more = 0.1 * rng.standard_normal((2, steps, nv))

    def value(tau):
        run = sim.rollout(sim.initial_state(q0, v0), tau, steps)
        return np.sum(end * run.q)

    found = sim.gradient(sim.initial_state(q0, v0), tau, steps, cotangents={"q": end})
    wanted = slope(lambda e: value(tau + e * more), 1e-1)
    np.testing.assert_allclose(np.sum(found.tau * more), wanted, rtol=1e-8)
    assert abs(wanted) > 1e-8
