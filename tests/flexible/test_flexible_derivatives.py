"""Derivatives of the dynamics of flexible bodies against differences and frequencies."""

import numpy as np
import pytest
from flexible_loops import START, SYSTEM
from flexible_oracle import random_flexible_tree
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, INVERSE_DYNAMICS

pytestmark = pytest.mark.usefixtures("interpreted")

TREE = random_flexible_tree(
    2, bodies=3, modes=(2, 0, 1), joints=("spherical", "revolute", "fixed"), armature=True
)
MODEL = TREE.build()
_RNG = np.random.default_rng(0)
Q, V = TREE.random_state(_RNG)
X = _RNG.normal(size=MODEL.nv)


def differences(function, h=1e-6):
    """Columns of a derivative along unit rates."""
    units = h * np.eye(MODEL.nv)
    return np.stack([(function(u) - function(-u)) / (2 * h) for u in units], axis=-1)


@pytest.mark.parametrize("kind", ["inverse", "forward"])
def test_derivatives_of_dynamics(kind):
    function = getattr(pp, f"{kind}_dynamics")
    by_q, by_v, by_x = getattr(pp, f"{kind}_dynamics_derivatives")(MODEL, Q, V, X)
    size = {"rtol": 1e-6, "atol": 1e-6 * np.abs(by_q).max()}
    moved = differences(lambda u: function(MODEL, MODEL.integrate(Q, u), V, X))
    assert_allclose(by_q, moved, **size)
    assert_allclose(by_v, differences(lambda u: function(MODEL, Q, V + u, X)), **size)
    assert_allclose(by_x, differences(lambda u: function(MODEL, Q, V, X + u)), **size)


def test_batches_and_failures():
    many = pp.inverse_dynamics_derivatives(MODEL, np.stack([Q, MODEL.neutral()]), V, X)
    assert_allclose(many.by_q[0], pp.inverse_dynamics_derivatives(MODEL, Q, V, X).by_q)
    bad = np.stack([Q, Q * np.nan])
    found, status = pp.forward_dynamics_derivatives(MODEL, bad, V, X, on_error="nan")
    assert status[0] == 0 and status[1] != 0 and np.isnan(found.by_q[1]).all()


def test_linearisation_has_the_natural_frequencies():
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(1.0, 3.0), modes=1, rotary_inertia=1e-3)
    builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    model = builder.build()
    system = pp.linearize(model, model.neutral())
    found = np.sort(np.abs(np.linalg.eigvals(system.A).imag))[::2]
    assert_allclose(found, pp.natural_frequencies(model), rtol=1e-8)


def test_derivatives_of_a_step():
    A, B = pp.step_derivatives(MODEL, Q, V, X, 1e-4)

    def after(u):
        q, v = pp.rollout(MODEL, Q, V, X + u, 1e-4, 1)
        return v[-1]

    assert_allclose(B[MODEL.nv :], differences(after, 1e-3), rtol=1e-5, atol=1e-9)
    assert A.shape == (2 * MODEL.nv, 2 * MODEL.nv)


# ---- against complex steps, and runs


def along(expr, wrt, rates):
    """The change of an expression along rates by a complex step of the dense oracle."""
    at, step = {"q": Q, "v": V, "tau": X, "vdot": X}, 1e-30
    rates = MODEL.qdot(Q, rates) if wrt == "q" else rates
    at[wrt] = at[wrt] + 1j * step * rates
    return np.imag(pp.evaluate_dense(expr, MODEL, at.pop("q"), at.pop("v"), **at)) / step


@pytest.mark.parametrize("kind", ["inverse", "forward"])
def test_derivatives_of_dynamics_are_exact(kind):
    expr = {"inverse": INVERSE_DYNAMICS, "forward": FORWARD_DYNAMICS}[kind]
    names = ("q", "v", "vdot" if kind == "inverse" else "tau")
    every = getattr(pp, f"{kind}_dynamics_derivatives")(MODEL, Q, V, X)
    rates = _RNG.normal(size=MODEL.nv)
    for name, matrix in zip(names, every, strict=True):
        assert_allclose(matrix @ rates, along(expr, name, rates), rtol=1e-10, atol=1e-10)


def test_sensitivities():
    q = Q
    change = differences(lambda u: pp.mass_matrix(MODEL, MODEL.integrate(q, u)), 1e-5)
    found = pp.sensitivities.mass_matrix_sensitivity(MODEL, q)
    assert_allclose(found, change, atol=1e-7 * np.abs(change).max())
    change = differences(lambda u: pp.mass_matrix_inverse(MODEL, MODEL.integrate(q, u)), 1e-5)
    found = pp.sensitivities.mass_matrix_inverse_sensitivity(MODEL, q)
    assert_allclose(found, change, atol=1e-7 * np.abs(change).max())
    change = differences(
        lambda u: pp.diagonal_dynamics.log_det_mass_matrix(MODEL, MODEL.integrate(q, u)), 1e-5
    )
    found = pp.sensitivities.log_det_mass_matrix_gradient(MODEL, q)
    assert_allclose(found, change, atol=1e-7 * np.abs(change).max())


def test_christoffel_symbols_are_the_coriolis_forces():
    """Of what is quadratic in the rates: neither elastic forces nor damping."""
    found = pp.sensitivities.christoffel_symbols(MODEL, Q)
    whole = pp.bias_forces(MODEL, Q, V) + pp.bias_forces(MODEL, Q, -V)
    quadratic = whole / 2 - pp.bias_forces(MODEL, Q, 0 * V)
    assert_allclose(np.einsum("ijk,j,k->i", found, V, V), quadratic, atol=1e-12)
    nu = pp.diagonal_dynamics.innovations(MODEL, Q, V, X).nu
    assert abs(nu @ pp.diagonal_dynamics.coriolis(MODEL, Q, nu)) < 1e-12


def test_gradients_of_runs():
    tree = random_flexible_tree(1, bodies=2, modes=(2, 1), joints=("revolute", "revolute"))
    model, (q, v) = tree.build(), tree.random_state(_RNG)
    weight, dt, steps = _RNG.normal(size=model.nv), 1e-3, 3
    sim = pp.Simulator(model, (), dt)
    of = {"v": np.zeros((steps + 1, model.nv))}
    of["v"][-1] = weight
    found = sim.gradient(sim.initial_state(q, v), steps=steps, cotangents=of)

    def final(q, v):
        return v @ weight, np.zeros_like(v), np.broadcast_to(weight, v.shape)

    other = pp.rollout_gradient(model, q, v, np.zeros(model.nv), dt, steps, final=final)
    for by_q, by_v in ((found.q, found.v), (other.q0, other.v0)):
        for gradient, move in ((by_q, lambda u: (q + u, v)), (by_v, lambda u: (q, v + u))):
            ends = [
                [sim.rollout(sim.initial_state(*move(s * u)), steps=steps).v[-1] for s in (1, -1)]
                for u in 1e-5 * np.eye(model.nv)
            ]
            there = [(ahead - behind) @ weight / 2e-5 for ahead, behind in ends]
            assert_allclose(gradient, there, atol=1e-8)


def test_a_beam_rests_where_its_load_bends_it():
    """A cantilever with a tip mass: m g L³ / 3 EI, and its own weight, w L⁴ / 8 EI."""
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    beam = pp.FlexibleInertia.beam(1.0, 0.2, EI=500.0, modes=3, stiffening=False)
    builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    load = pp.SpatialInertia.sphere(1e-3, mass=0.1)
    builder.add_body("load", parent="boom", port="tip", joint=pp.joints.Fixed(), inertia=load)
    model = builder.build()
    rest = pp.equilibrium(model)
    sag = 9.81 * (0.1 / 3 + 0.2 / 8) / 500
    assert_allclose(-pp.poses(model, rest.q)[1][2, 3], sag, rtol=1e-4)


def test_derivatives_with_a_loop():
    system, tree = SYSTEM, SYSTEM.model
    rng = np.random.default_rng(0)
    q, v = system.project(system.assemble(START), 0.1 * rng.normal(size=tree.nv))
    tau, rates, h = rng.normal(size=tree.nv), rng.normal(size=tree.nv), 1e-6
    every = pp.forward_dynamics_derivatives(system, q, v, tau)
    moved = (
        lambda s: (tree.integrate(q, s * rates), v, tau),
        lambda s: (q, v + s * rates, tau),
        lambda s: (q, v, tau + s * rates),
    )
    for matrix, at in zip(every, moved, strict=True):
        ends = [pp.forward_dynamics(system, *at(s)) for s in (h, -h)]
        there = (ends[0] - ends[1]) / (2 * h)
        assert_allclose(matrix @ rates, there, atol=3e-8 * np.abs(there).max())
    assert pp.linearize(system, q, v, tau).A.shape == (2 * 5, 2 * 5)


def test_variational_steps_with_modes():
    """Momentum to rounding, and an error of second order in the step."""
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    beam = pp.FlexibleInertia.beam(1.0, 2.0, EI=(40.0, np.inf), modes=0)
    hub = pp.SpatialInertia.box((0.4, 0.3, 0.2), mass=2.0)
    builder.add_body("hub", joint=pp.joints.Free(), inertia=hub)
    builder.add_body("boom", parent="hub", joint=pp.joints.Fixed(), inertia=beam)
    model = builder.build()
    q, v = model.neutral(), 0.3 * np.random.default_rng(0).normal(size=model.nv)
    v[6:] *= 0.1
    exact = pp.simulate(model, q, v, 0.016, integrator="rk4", dt=2e-4).q[-1]
    errors = []
    for dt in (4e-3, 2e-3):
        run = pp.simulate(model, q, v, 0.016, integrator="variational", dt=dt)
        errors.append(np.abs(model.difference(exact, run.q[-1])).max())
        momenta = pp.momentum(model, run.q, run.v)
        assert_allclose(momenta, np.broadcast_to(momenta[0], momenta.shape), atol=1e-14)
    assert 3 < errors[0] / errors[1] < 6
