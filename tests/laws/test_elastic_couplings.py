"""Elastic couplings: stiff ones become the constraint, backlash transmits nothing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp

pytestmark = pytest.mark.usefixtures("machine_code")  # runs take thousands of evaluations


def shafts():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, J in (("motor", 0.02), ("drum", 0.5)):
        b.add_body(name, inertia=pp.SpatialInertia(1.0, (0, 0, 0), J))
    return b.build()


def test_a_stiff_coupling_moves_as_the_constraint_does():
    model, ratio = shafts(), (1.0, -4.0)
    gear = pp.constraints.Coupling(name="gear", joints=("motor", "drum"), coefficients=ratio)
    wanted = pp.forward_dynamics(pp.System(model, [gear]), [0, 0], [0, 0], [1.0, 0.0])
    errors = []
    for k in (1e3, 4e3):
        shaft = pp.forces.ElasticCoupling(("motor", "drum"), ratio, k, damping=2.0)
        run = pp.simulate(
            model, [0, 0], [0, 0], 1.0, controller=lambda t, q, v: [1.0, 0.0], forces=[shaft],
            rtol=1e-9, atol=1e-12,
        )  # fmt: skip
        errors.append(np.abs(run.v[-1] - wanted).max())
        assert_allclose(run.q[-1, 0] - 4 * run.q[-1, 1], _twist(wanted, k), rtol=1e-3)
    assert errors[1] < 1e-3


def _twist(wanted, k):
    """The load that accelerates the drum, J vdot = 4 k x, twists the shaft by x."""
    return 0.5 * wanted[1] / 4 / k


def test_within_the_backlash_nothing_is_transmitted():
    model = shafts()
    loose = pp.forces.ElasticCoupling(("motor", "drum"), (1, -1), 500.0, backlash=0.2)
    run = pp.simulate(model, [0, 0], [1.0, 0], 0.09, forces=[loose])
    assert_allclose(run.v[-1], [1.0, 0.0], atol=1e-12)
    run = pp.simulate(model, [0, 0], [1.0, 0], 0.25, forces=[loose], rtol=1e-9, atol=1e-12)
    assert abs(run.v[-1, 1]) > 1e-3
    assert_allclose(run.energy, 0.01, rtol=1e-6)
    momentum = run.v @ [0.02, 0.5]
    assert_allclose(momentum, 0.02, rtol=1e-9)


def test_dissipation_only_loses_energy_and_never_pulls():
    model = shafts()
    lossy = pp.forces.ElasticCoupling(
        ("motor", "drum"), (1, -1), 500.0, backlash=0.2, dissipation=2.0
    )
    run = pp.simulate(model, [0, 0], [1.0, 0], 3.0, forces=[lossy], rtol=1e-9, atol=1e-12)
    assert (np.diff(run.energy) < 1e-10).all() and run.energy[-1] < 0.95 * run.energy[0]
    bound = lossy.bind(model)
    rng = np.random.default_rng(0)
    q, v = rng.uniform(-0.5, 0.5, (500, 2)), rng.uniform(-3, 3, (500, 2))
    effort = bound.efforts(pp.forces.State(model, 0.0, q, v))
    twist = q @ [1, -1]
    assert (effort[:, 0] * np.sign(twist) <= 0).all()
    assert_allclose(effort[np.abs(twist) < 0.1], 0)


def test_compiled_runs_are_the_same():
    model = shafts()
    shaft = pp.forces.ElasticCoupling(("motor", "drum"), (1, -3), 50.0, backlash=0.1, dissipation=1)
    sim = pp.Simulator(model, [shaft], dt=1e-3)
    found = sim.rollout(sim.initial_state([0.3, 0.0], [0, 0]), steps=200)
    slow = pp.simulate(model, [0.3, 0], [0, 0], 0.2, forces=[shaft], rtol=1e-10, atol=1e-12)
    assert_allclose(found.q[-1], slow.q[-1], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda f: f(("motor", "motor"), (1, 2), 1.0), "different names"),
        (lambda f: f(("motor", "drum"), (1, 0), 1.0), "coefficient 0"),
        (lambda f: f(("motor", "drum"), (1,), 1.0), r"shape \(1,\); pass one for each of the 2"),
        (lambda f: f(("motor", "drum"), 1.0, 1.0), r"shape \(\)"),
        (lambda f: f(("motor", "drum"), (1, 1), 1.0, damping=1, backlash=0.1), "dissipation="),
        (lambda f: f(("motor", "drum"), (1, 1), -1.0), "stiffness"),
        (lambda f: f(("motor", "nothing"), (1, 1), 1.0), "nothing"),
    ],
)
def test_bad_input(make, text):
    with pytest.raises(pp.errors.PhipsiError, match=text):
        make(pp.forces.ElasticCoupling).bind(shafts())
