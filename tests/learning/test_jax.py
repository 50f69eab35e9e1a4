"""Programs and algorithms as JAX primitives; runs where JAX is installed."""

import numpy as np
import pytest
from known_systems import pinned_four_bar
from random_models import model_from_parents

import phipsi as pp
from phipsi.operators import P, V, mass_matrix, tau

jax = pytest.importorskip("jax", reason="needs JAX")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import phipsi.jax as pj  # noqa: E402

jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module")
def model():
    kinds = ["free", "spherical", "revolute", "planar"]
    return model_from_parents([-1, 0, 1, 0], 1, kinds)


def arrays(model, batch=(), seed=0):
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng, batch)
    return [jnp.asarray(x) for x in (q, *rng.standard_normal((2, *batch, model.nv)))]


def test_values_and_jit(model):
    q, v, u = arrays(model, (3,))
    want = pp.forward_dynamics(model, np.asarray(q), np.asarray(v), np.asarray(u))
    function = lambda *x: pj.forward_dynamics(model, *x)  # noqa: E731
    np.testing.assert_allclose(function(q, v, u), want, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(function)(q, v, u), want, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(function)(q, v[0], u[:1]).shape, (3, model.nv))
    assert pj.function(mass_matrix.inv @ tau, model).inputs == ("q", "tau")


def test_derivatives(model):
    q, v, u = arrays(model, (2,))
    frame = [model.body_names[-1]]
    for function, inputs in [
        (lambda *x: pj.forward_dynamics(model, *x), (q, v, u)),
        (lambda *x: pj.inverse_dynamics(model, *x), (q, v, u)),
        (lambda *x: pj.kinetic_energy(model, *x), (q, v)),
        (lambda x: pj.poses(model, x, frame), (q,)),
        (pj.function(mass_matrix.inv @ tau, model), (q, u)),
    ]:
        check_grads(function, inputs, order=1, modes=("fwd", "rev"), atol=1e-5, rtol=1e-5)
        check_grads(jax.jit(function), inputs, order=1, modes=("rev",), atol=1e-5, rtol=1e-5)


def test_vmap(model):
    q, v, u = arrays(model, (5,))
    whole = pj.forward_dynamics(model, q, v, u[0])
    mapped = jax.vmap(lambda a, b: pj.forward_dynamics(model, a, b, u[0]), in_axes=(0, 1))(q, v.T)
    np.testing.assert_allclose(mapped, whole, rtol=1e-12)
    energy = lambda a, b: pj.kinetic_energy(model, a, b)  # noqa: E731
    momenta = jax.jit(jax.vmap(jax.grad(energy, argnums=1)))(q, v)
    want = np.einsum("kij,kj->ki", pp.mass_matrix(model, np.asarray(q)), v)
    np.testing.assert_allclose(momenta, want, rtol=1e-9, atol=1e-12)
    forward = jax.jacfwd(lambda x: pj.forward_dynamics(model, q[0], v[0], x))(u[0])
    reverse = jax.jacrev(lambda x: pj.forward_dynamics(model, q[0], v[0], x))(u[0])
    inverse = pp.mass_matrix_inverse(model, np.asarray(q[0]))
    np.testing.assert_allclose(forward, inverse, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(reverse, inverse, rtol=1e-8, atol=1e-10)


def test_float32(model):
    q, v, u = (x.astype(jnp.float32) for x in arrays(model))
    with jax.enable_x64(False):
        out = pj.forward_dynamics(model, q, v, u)
        assert out.dtype == jnp.float32
        assert jax.grad(lambda x: pj.kinetic_energy(model, q, x))(v).dtype == jnp.float32


def test_rollout():
    arm = pp.examples.planar_arm(2)
    rng = np.random.default_rng(0)
    q0, v0 = jnp.asarray(rng.standard_normal((2, 2)))
    efforts = jnp.asarray(rng.standard_normal((6, 2)))

    def end(q0, v0, efforts):
        q, v = pj.rollout(arm, q0, v0, efforts, 0.05, integrator="rk4")
        return (q[-1] ** 2).sum() + (v**2).sum()

    check_grads(end, (q0, v0, efforts), order=1, modes=("rev",), atol=1e-6, rtol=1e-6)
    check_grads(jax.jit(end), (q0, v0, efforts), order=1, modes=("rev",), atol=1e-6, rtol=1e-6)


def test_second_derivatives_are_refused(model):
    q, v, _ = arrays(model)
    energy = lambda x: pj.kinetic_energy(model, q, x)  # noqa: E731
    for function in (jax.hessian(energy), jax.jacfwd(jax.jacfwd(energy))):
        with pytest.raises(NotImplementedError, match="first derivatives only"):
            function(v)


def test_articulated_quantities_and_loops():
    """Forward and reverse mode of vectors without a derivative in the algebra; systems."""
    model = model_from_parents([-1, 0, 1], 1, ["revolute", "universal", "prismatic"])
    q, v, _ = arrays(model, (2,))
    check_grads(pj.function(P @ V, model), (q, v), order=1, modes=("fwd", "rev"), rtol=1e-5)
    system, q = pinned_four_bar()
    q0 = jnp.asarray(q)

    def end(efforts):
        q, v = pj.rollout(system, q0, jnp.zeros(3), efforts, 0.02, integrator="rk4")
        return (v[-1] ** 2).sum() + pj.forward_dynamics(system, q0, jnp.zeros(3), efforts[0]).sum()

    check_grads(end, (jnp.ones((4, 3)),), order=1, modes=("rev",), atol=1e-6, rtol=1e-6)


def test_complex_arrays_are_rejected():
    """Their imaginary parts would be lost."""
    arm = pp.examples.planar_arm(2)
    q = np.array([0.1, 0.2])
    with pytest.raises(pp.errors.InputError, match="v holds .*complex.*must be real"):
        pj.forward_dynamics(arm, q, q + 1j, q)
