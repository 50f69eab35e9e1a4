"""A mechanism that nobody uses any more is forgotten, with its programs and their machine code."""

import gc
import weakref

import numpy as np
import pytest
from known_systems import pinned_arm as four_bar

import phipsi as pp

ARM = {
    "forward dynamics": lambda m, q, v: pp.forward_dynamics(m, q, v, v),
    "derivatives": lambda m, q, v: pp.forward_dynamics_derivatives(m, q, v, v),
    "simulate": lambda m, q, v: pp.simulate(m, q, v, 0.02),
    "fixed steps": lambda m, q, v: pp.simulate(m, q, v, 0.02, integrator="rk4", dt=0.01),
    "implicit steps": lambda m, q, v: pp.simulate(
        m, q, v, 0.02, integrator="implicit_midpoint", dt=0.01
    ),
    "rollout": lambda m, q, v: pp.rollout(m, q, v, v, 0.01, 3),
    "a simulator": lambda m, q, v: simulator(m, q, v),
    "gradient of a run": lambda m, q, v: pp.rollout_gradient(
        m, q, v, v, 0.01, 3, final=lambda q, v: ((v * v).sum(-1), None, 2 * v)
    ),
    "step derivatives": lambda m, q, v: pp.step_derivatives(m, q, v, v, 0.01),
    "linearize": lambda m, q, v: pp.linearize(m, q, 0 * v),
    "computed torque": lambda m, q, v: pp.control.ComputedTorque(m, q, 9, 6)(0.0, q, v),
    "controlled run": lambda m, q, v: pp.simulate(
        m, q, v, 0.02, controller=pp.control.PDGravity(m, q, 9, 6), integrator="rk4", dt=0.01
    ),
    "elements": lambda m, q, v: pp.simulate(
        m, q, v, 0.02, forces=pp.forces.from_model(m), integrator="rk4", dt=0.01
    ),
}
BOTH = ("forward dynamics", "simulate", "fixed steps", "rollout", "a simulator", "computed torque")


def simulator(model, q, v):
    sim = pp.Simulator(model, dt=0.01)
    sim.rollout(sim.initial_state(q, v), steps=3)


def is_forgotten(make, use):
    """Make a mechanism, use it, drop it, and look whether it is still there."""
    model = make()
    seen = weakref.ref(model.model)
    use(model)
    del model
    gc.collect()
    return seen() is None


@pytest.mark.parametrize("what", ARM)
def test_trees(what):
    def use(model):
        ARM[what](model, np.full(model.nq, 0.3), np.zeros(model.nv))

    assert is_forgotten(lambda: pp.examples.planar_arm(2), use)


def test_inverse_kinematics():
    def use(model):
        tip = pp.poses(model, [0.3, 0.4], ["tip"])[0]
        pp.inverse_kinematics(model, {"tip": tip}, [0.2, 0.3])

    assert is_forgotten(lambda: pp.examples.planar_arm(2), use)


@pytest.mark.parametrize("what", BOTH)
def test_systems_with_loops(what):
    def use(system):
        q = system.assemble([1.0, -1.0, -1.5])
        ARM[what](system, q, np.zeros(3))

    assert is_forgotten(four_bar, use)


def test_what_is_kept_is_noticed():
    kept = []
    assert not is_forgotten(lambda: pp.examples.planar_arm(2), kept.append)
