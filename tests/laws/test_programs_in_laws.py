"""Programs and functions of the library inside laws: shapes, batches, and what cannot be called."""

import re

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import LawError

ARM = pp.examples.planar_arm(2)
FLYER = pp.examples.free_flyer()
OPERAND = pp.compile("H φ", FLYER)
Q, V = np.array([0.3, 0.4]), np.array([0.5, -0.2])


def compiled(function, model=ARM):
    return pp.Simulator(model, pp.law(function), dt=1e-3)


def tau_of(function):
    """The efforts of a law in a compiled step, by the change of the velocities in a short step."""
    sim = pp.Simulator(ARM, pp.law(function), dt=1e-6, integrator="semi_implicit")
    after = sim.rollout(sim.initial_state(Q, V), steps=1).v[-1]
    return pp.inverse_dynamics(ARM, Q, V, (after - V) / 1e-6)


WRONG = {
    "a part of q": (ARM, lambda q, v: pp.gravity_forces(ARM, q[:1]), "q has shape (1,)"),
    "without the quaternion": (
        FLYER,
        lambda q, v: pp.gravity_forces(FLYER, q[3:]),
        "q has shape (18,)",
    ),
    "a part of tau": (
        ARM,
        lambda q, v: pp.forward_dynamics(ARM, q, v, v[:1]),
        "tau has shape (1,)",
    ),
    "a scalar": (ARM, lambda q, v: pp.forward_dynamics(ARM, q, v, 0.0), "tau has shape ()"),
    "one row of f_ext": (
        ARM,
        lambda q, v: pp.inverse_dynamics(ARM, q, v, v, f_ext=q[0] * np.ones(6)),
        "f_ext has shape (6,)",
    ),
    "flat f_ext": (
        ARM,
        lambda q, v: pp.inverse_dynamics(ARM, q, v, v, f_ext=q[0] * np.ones(12)),
        "f_ext has shape (12,)",
    ),
    "rates for forces": (FLYER, lambda q, v: OPERAND(q, -v), "x has shape (20,)"),
    "one argument too few": (FLYER, lambda q, v: OPERAND(q), "missing x"),
    "batches that do not broadcast": (
        ARM,
        lambda q, v: pp.inverse_dynamics(ARM, np.stack([q, q]), np.stack([v, v, v]), v)[0],
        "the batch axes do not broadcast: q: (2,), v: (3,)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_shapes_are_rejected_where_a_law_is_traced(case):
    model, function, text = WRONG[case]
    with pytest.raises(LawError, match=re.escape(text)) as found:
        compiled(function, model)
    assert "test_programs_in_laws.py, line " in str(found.value)


def test_shapes_are_rejected_with_the_text_of_a_call_outside():
    with pytest.raises(pp.errors.InputError) as outside:
        pp.gravity_forces(ARM, Q[:1])
    with pytest.raises(LawError) as inside:
        compiled(lambda q, v: pp.gravity_forces(ARM, q[:1]))
    assert outside.value.args[0] in str(inside.value)


BATCHES = {
    "all": lambda q, v: pp.gravity_forces(ARM, np.stack([q, 2 * q]))[1],
    "one operand": lambda q, v: pp.inverse_dynamics(ARM, q, np.stack([v, v, 2 * v]), v)[2],
    "two axes": lambda q, v: pp.mass_matrix(ARM, np.stack([[q, 2 * q], [v, 3 * q]]))[1, 1] @ v,
    "several results": lambda q, v: pp.velocities(ARM, np.stack([q, 2 * q]), v)[1][:, 2],
    "a list": lambda q, v: pp.gravity_forces(ARM, [q[0], 2 * q[1]]),
}


@pytest.mark.parametrize("case", BATCHES)
def test_batches_of_a_law_are_those_of_the_function(case):
    wanted = BATCHES[case](Q, V)
    # a step of 1 µs gives the change of the velocities to about 1e-10, its error is about 1e-6
    assert np.allclose(tau_of(BATCHES[case]), wanted, rtol=0, atol=1e-4)
    assert not np.allclose(tau_of(BATCHES[case]), 1.01 * wanted, rtol=0, atol=1e-4)


INSIDE = {
    "Model.integrate": lambda q, v: 0 * v + ARM.integrate(q, v),
    "Model.difference": lambda q, v: 0 * v + ARM.difference(q, v),
    "linearize": lambda q, v: 0 * v + pp.linearize(ARM, q, v),
    "evaluate_dense": lambda q, v: 0 * v + pp.evaluate_dense("H φ M", ARM, q),
    "accelerations": lambda q, v: pp.accelerations(ARM, q, v, v, ["tip"], classical=True)[0, :2],
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_function_that_needs_numbers_is_named(name):
    with pytest.raises(LawError, match=f"{name} needs the numbers .* cannot be called inside a la"):
        compiled(INSIDE[name])


def test_a_branch_of_the_law_itself_is_its_own():
    with pytest.raises(LawError, match="the function branches on a value"):
        compiled(lambda q, v: v if q[0] > 0 else -v)
