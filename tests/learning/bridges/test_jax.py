"""Programs, algorithms and runs as JAX primitives, with gradients.

In double precision, but for the tests of the default type, for which that is off, as JAX begins.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from held_arm import KP, simulator
from jax.test_util import check_grads
from known_systems import pinned_four_bar
from random_models import model_from_parents

import phipsi as pp
import phipsi.jax as pj
from phipsi.operators import P, V, mass_matrix, tau


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


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


def functions(model):
    """Every function, with the arrays that it takes."""
    q, v, u = (np.asarray(x) for x in arrays(model, (3,)))
    efforts = np.random.default_rng(1).standard_normal((3, 5, model.nv))
    frame = [model.body_names[-1]]
    return {
        "forward_dynamics": (lambda *x: pj.forward_dynamics(model, *x), (q, v, u)),
        "inverse_dynamics": (lambda *x: pj.inverse_dynamics(model, *x), (q, v, u)),
        "kinetic_energy": (lambda *x: pj.kinetic_energy(model, *x), (q, v)),
        "poses": (lambda *x: pj.poses(model, *x, frame), (q,)),
        "function": (pj.function(mass_matrix.inv @ tau, model), (q, u)),
        "rollout": (lambda *x: pj.rollout(model, *x, 0.01, integrator="rk4")[1], (q, v, efforts)),
    }


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_the_default_type(model, wrap):
    """float32: values and gradients are those of float64, to single precision."""
    for name, (function, inputs) in functions(model).items():
        found = []
        for double in (True, False):
            with jax.enable_x64(double):
                given = [jnp.asarray(x) for x in inputs]
                places = tuple(range(len(given)))
                square = lambda *x, f=function: (f(*x) ** 2).sum()  # noqa: E731
                out = [wrap(function)(*given), *wrap(jax.grad(square, places))(*given)]
                assert {x.dtype.name for x in out} == {"float64" if double else "float32"}, name
                found.append([np.asarray(x) for x in out])
        for want, got in zip(*found, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-6 * np.abs(want).max(), err_msg=name)


def test_transforms_of_the_default_type(model):
    q, v, u = (np.asarray(x) for x in arrays(model, (3,)))
    inverse = pp.mass_matrix_inverse(model, q)
    with jax.enable_x64(False):
        assert jnp.asarray(q).dtype == jnp.float32
        one = lambda *x: pj.forward_dynamics(model, *x)  # noqa: E731
        mapped = jax.jit(jax.vmap(one))(q, v, u)
        np.testing.assert_allclose(mapped, pp.forward_dynamics(model, q, v, u), rtol=1e-4)
        for derivative in (jax.jacfwd, jax.jacrev):
            found = derivative(lambda x: one(q[0], v[0], x))(jnp.asarray(u[0]))
            assert found.dtype == jnp.float32
            np.testing.assert_allclose(found, inverse[0], rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize(("double", "rtol"), [(True, 1e-12), (False, 1e-6)])
def test_a_simulator(double, rtol):
    """Gradients by the gains of a controller, in double precision and in the default type."""
    sim = simulator()
    wanted = sim.gradient(sim.initial_state(), np.zeros((10, 2)), 10, cotangents={"hold.cost": 1.0})

    def cost(kp):
        zero, efforts = np.zeros(2), np.zeros((10, 2))
        given = {"hold.kp": kp}
        return pj.simulator_rollout(
            sim, zero, zero, efforts, record=("hold.cost",), parameters=given
        ).sum()

    with jax.enable_x64(double):
        found = jax.grad(cost)(jnp.asarray(KP))
    assert found.dtype == (jnp.float64 if double else jnp.float32)
    np.testing.assert_allclose(found, wanted.parameters["hold.kp"], rtol=rtol)
