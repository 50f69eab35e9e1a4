"""Decoupled control in innovations coordinates: every residual decays at its own rate."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from amounts import examples, seeds
from comparers import close
from differences import slope
from hypothesis import given, settings, strategies as st
from moving_references import moving
from random_models import ALL, branching, models

import phipsi as pp
from phipsi.errors import InputError
from phipsi.simulation.control import innovations_control
from phipsi.simulation.control.compiled_control import NoCode

ARM = pp.examples.seven_joint_arm()
K = np.linspace(5.0, 17.0, 7)
PATH = pp.control.JointPath(ARM, [np.zeros(7), np.full(7, 0.6)], [0.0, 0.8])


def random_case(model, seed):
    rng = np.random.default_rng(seed)
    k, rate = rng.uniform(0.5, 5, (2, model.nv))
    control = pp.control.InnovationsControl(
        model, moving(model, seed), k, rate, actuated=model.joint_names
    )
    return control, model.random_configuration(rng), rng.standard_normal(model.nv)


@pytest.mark.usefixtures("interpreted")
@settings(max_examples=examples(40))
@given(models(max_bodies=5), st.integers(0, 2**32 - 1))
def test_every_residual_decays_on_its_own(model, seed):
    """ṅ = −k n along the motion of forward dynamics, by differences; and ½ n* n is ½ s* ℳ s."""
    control, q, v = random_case(model, seed)
    vdot = pp.forward_dynamics(model, q, v, control(0.0, q, v))
    n = control.residuals(0.0, q, v)

    def along(h, change=vdot):
        return control.residuals(h, model.integrate(q, h * v), v + h * change)

    condition = np.linalg.cond(pp.mass_matrix(model, q)) if model.nv else 1.0
    size = 1 + np.abs(v).max(initial=0) ** 2 + np.abs(vdot).max(initial=0)
    close(slope(along, 1e-3), -control.k * n, 1e-7, scale=size * condition)
    close(control.lyapunov(0.0, q, v), 0.5 * n @ n, 1e-12)
    if model.nv > 1:  # equal joint gains in joint coordinates do not decouple the energy
        other = pp.control.PassivityBased(
            model, control.reference, 0, control.k, rate=control.rate, actuated=model.joint_names
        )
        beside = pp.forward_dynamics(model, q, v, other(0.0, q, v))
        if np.abs(beside - vdot).max() > 1e-3:
            assert np.abs(slope(lambda h: along(h, beside), 1e-3) + control.k * n).max() > 1e-8


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_efforts_with_factors_of_numpy(seed):
    """ℳ = ℓ ℓ* from the matrices of the operators, dℓ*/dt by differences, all else dense."""
    model = branching(7, seed, ALL, armature=True)
    control, q, v = random_case(model, seed)
    program = pp.compile("(I + H phi K) D_half", model, mode="dense")
    factor = program(q)
    close(factor @ factor.T, pp.mass_matrix(model, q), 1e-9)
    rate = slope(lambda h: program(model.integrate(q, h * v)), 2e-3)
    n = control.residuals(0.0, q, v)
    s = np.linalg.solve(factor.T, n)
    plain = pp.control.PassivityBased(
        model, control.reference, 0, 0, rate=control.rate, actuated=model.joint_names
    )
    # ℳ v̇_r + C v_r + gravity is the controller without gains; c = C v
    without = plain(0.0, q, v) - pp.coriolis_product(model, q, v, s)
    wanted = without + factor @ (rate.T @ s + control.k * n)
    close(control(0.0, q, v), wanted, 1e-8)
    twin = without + factor @ (control.k * n)
    assert np.abs(twin - wanted).max() > 1e-4


def test_machine_code_is_the_formula_on_arrays(monkeypatch):
    model = branching(len(ALL), 11, ALL, armature=True)
    control, *_ = random_case(model, 3)
    rng = np.random.default_rng(5)
    q, v = model.random_configuration(rng, 4), rng.standard_normal((4, model.nv))
    found, key = control(0.0, q, v), innovations_control.innovations_control
    assert not isinstance(model.cache[key], NoCode)
    with monkeypatch.context() as m:
        m.setitem(model.cache, key, NoCode())
        close(found, control(0.0, q, v), 1e-11)
    fixed = pp.control.InnovationsControl(ARM, np.zeros(7), K, 2.0)
    again = pickle.loads(pickle.dumps(fixed))
    assert (again(0.0, np.ones(7), np.ones(7)) == fixed(0.0, np.ones(7), np.ones(7))).all()


def test_residuals_of_a_compiled_run_are_exponentials():
    control = pp.control.InnovationsControl(ARM, PATH, K, rate=3.0)
    sim = pp.Simulator(ARM, [control], 1e-3)
    assert list(sim.parameters) == ["InnovationsControl.k", "InnovationsControl.rate"]
    names = ("InnovationsControl.residuals", "InnovationsControl.lyapunov")
    q0, v0 = np.linspace(-0.3, 0.3, 7), np.linspace(1.3, -0.6, 7)
    run = sim.rollout(sim.initial_state(q0, v0), steps=1000, record_every=100, record=("q", *names))
    n, V = (run[x] for x in names)
    t = np.linspace(0, 1, 11)
    close(n, n[0] * np.exp(-np.outer(t, K)), 1e-8)
    close(V, 0.5 * (n**2).sum(axis=-1), 1e-12)
    assert (np.diff(V) < 0).all() and np.abs(n[0]).min() > 1e-3
    late = sim.rollout(sim.initial_state(q0, v0), steps=3000, record_every=3000)
    assert np.abs(late.q[-1] - 0.6).max() < 1e-3
    exact = pp.simulate(ARM, q0, v0, 0.05, controller=control, integrator="rk4", dt=1e-3)
    close(sim.rollout(sim.initial_state(q0, v0), steps=50).q[-1], exact.q[-1], 1e-11)
    other = sim.initial_state(q0, v0, parameters={"InnovationsControl.k": 2 * K})
    twin = sim.rollout(other, steps=100, record_every=100, record=names)
    close(twin[names[0]][-1], n[0] * np.exp(-0.2 * K), 1e-8)
    assert np.abs(twin[names[0]][-1] - n[1]).max() > 1e-3


def test_refusals():
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    arm = pp.examples.planar_arm(3)
    with pytest.raises(InputError, match="constraints couple them again"):
        pp.control.InnovationsControl(pp.System(arm, [pin]), np.zeros(3), 1, 1)
    with pytest.raises(InputError, match="an actuator at every joint"):
        pp.control.InnovationsControl(arm, np.zeros(3), 1, 1, actuated=["joint1"])
    with pytest.raises(InputError, match="k is -1.0 at joint"):
        pp.control.InnovationsControl(arm, np.zeros(3), -1, 1)


def test_gradients_are_rejected_with_the_reason():
    sim = pp.Simulator(ARM, [pp.control.InnovationsControl(ARM, PATH, K, rate=3.0)], 5e-3)
    with pytest.raises(InputError, match="the gradient needs the derivative of .* not implemented"):
        sim.gradient(sim.initial_state(np.zeros(7)), steps=2, cotangents={"q": np.ones((3, 7))})
