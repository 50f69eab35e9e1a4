"""Sensitivities of the mass matrix, Christoffel symbols, diagonal equations of motion."""

from functools import partial

import numpy as np
import pytest
from amounts import ALL
from comparers import tight as close
from differences import by_complex_steps
from hypothesis import given, settings, strategies as st
from random_models import chain, models, random_state, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.diagonal_dynamics import LOG_DET
from phipsi.algorithms.dynamics.sensitivities import _dof_levels

STEP = 1e-30
trees = models(max_bodies=5)
seeds = st.integers(0, 2**32 - 1)


state = partial(random_state, rates=3)


def program(expr, model, **options):
    return pp.compile(expr, model, backend="reference", **options)


@given(trees, seeds)
@settings(max_examples=15)
def test_mass_matrix_and_its_inverse(model, seed):
    q, *_ = state(model, seed)
    dense = program(ops.mass_matrix, model, mode="dense")
    close(pp.sensitivities.mass_matrix_sensitivity(model, q), by_complex_steps(model, q, dense))
    inverse = program(ops.mass_matrix.inv, model, mode="dense")
    condition = np.linalg.cond(dense(q))
    expected = by_complex_steps(model, q, inverse)
    close(
        pp.sensitivities.mass_matrix_inverse_sensitivity(model, q), expected,
        scale=max(1.0, 1e-3 * condition * np.abs(expected).max()),
    )  # fmt: skip


@given(trees, seeds)
@settings(max_examples=15)
def test_christoffel_symbols_and_the_coriolis_matrix(model, seed):
    q, v, w, _ = state(model, seed)
    C = pp.sensitivities.christoffel_symbols(model, q)
    close(C, np.swapaxes(C, -1, -2))
    bias = pp.bias_forces(model, q, v) - pp.gravity_forces(model, q)
    close(np.einsum("ijk,j,k->i", C, v, v), bias)
    close(pp.sensitivities.christoffel_symbols(model, q, v), C @ v)
    matrix = pp.sensitivities.coriolis_matrix(model, q, v)
    close(matrix @ v, bias)
    rate = pp.sensitivities.mass_matrix_sensitivity(model, q) @ v
    close(matrix + matrix.T, rate)
    skew = rate - 2 * matrix
    close(w @ skew @ w, 0.0, scale=max(1.0, np.abs(rate).max() * (w @ w)))


def bracket(model, v, w):
    """[v, w] of the frames in which velocities are: zero where q̇ = v."""
    out = np.zeros(model.nv)
    for joint, at in zip(model.joints, model.v_slices, strict=True):
        for group, _, start in joint.parts(0, at.start):
            turn = group.rotation
            if turn is None:
                continue
            rates = slice(start, start + turn.rates)
            out[rates] = turn.bracket(v[rates], w[rates])
            if group.nv > turn.rates:
                to = slice(start + turn.rates, start + group.nv)
                there, back = turn.spin(v[rates], w[to]), turn.spin(w[rates], v[to])
                out[to] = np.subtract(there, back)
    return out


@given(trees, seeds)
@settings(max_examples=25)
def test_the_coriolis_product_is_the_connection_of_levi_civita(model, seed):
    """½ (c(v + w) − c(v) − c(w)) + ½ ℳ [v, w], and the change of ℳ along v, by complex steps.

    ℳ without armatures, which are constant and have no Coriolis forces.
    """
    q, v, w, _ = state(model, seed)
    found = pp.coriolis_product(model, q, v, w)

    def forces(u):
        return pp.bias_forces(model, q, u) - pp.gravity_forces(model, q)

    size = max(1.0, np.abs(forces(v)).max(initial=0), np.abs(forces(w)).max(initial=0))
    mass = program(ops.H @ ops.phi @ ops.M @ ops.phi.T @ ops.H.T, model, mode="dense")(q)
    polar = polar_of(forces, v, w)
    close(found, polar + mass @ bracket(model, v, w) / 2, scale=size)
    close(pp.coriolis_product(model, q, v, v), forces(v), scale=size)
    close(found, pp.sensitivities.coriolis_matrix(model, q, v) @ w, scale=size)
    dense = program(ops.mass_matrix, model, mode="dense")
    rate = dense(q + 1j * STEP * model.qdot(q, v)).imag / STEP  # d/dt of the mass matrix along v
    C = np.array([pp.coriolis_product(model, q, v, e) for e in np.eye(model.nv)]).T
    close(C + C.T, rate, scale=size)
    if np.abs(rate).max(initial=0) > 1e-3:  # the twin: polarisation alone is another C
        twin = np.array([polar_of(forces, v, e) for e in np.eye(model.nv)]).T
        if np.abs(twin - C).max() > 1e-6:
            assert np.abs(twin + twin.T - rate).max() > 1e-9


def polar_of(forces, v, w):
    return (forces(v + w) - forces(v) - forces(w)) / 2


@pytest.mark.usefixtures("machine_code")
def test_coriolis_products_in_machine_code_and_of_other_mechanisms():
    model = random_tree(5, 8, armature=True)
    rng = np.random.default_rng(1)
    q = model.random_configuration(rng, 5)
    v, w = rng.standard_normal((2, 5, model.nv))
    together = pp.coriolis_product(model, q, v, w)
    each = np.array([
        pp.sensitivities.coriolis_matrix(model, a, b) @ c for a, b, c in zip(q, v, w, strict=True)
    ])  # fmt: skip
    close(together, each)
    close(pp.coriolis_product(model, q, v, 2 * w), 2 * together)
    assert np.abs(pp.coriolis_product(model, q, w, v) - together).max() > 1e-3  # not symmetric
    pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
    with pytest.raises(pp.errors.InputError, match="coriolis_product is for trees"):
        pp.coriolis_product(pp.System(pp.examples.planar_arm(3), [pin]), *np.zeros((3, 3)))
    with pytest.raises(pp.errors.InputError, match="shape"):
        pp.coriolis_product(model, q, v, w[..., 1:])


def test_christoffel_symbols_of_true_coordinates():
    """½ (L_k ℳ_ij + L_j ℳ_ik − L_i ℳ_jk), the symmetries of MS, and the zeros of a tree."""
    kinds = ["revolute", "prismatic", "helical", "cylindrical", "universal"]
    model = random_tree(3, 7, kinds, armature=True)
    q, *_ = state(model, 0)
    C, L = (
        pp.sensitivities.christoffel_symbols(model, q),
        pp.sensitivities.mass_matrix_sensitivity(model, q),
    )
    first = (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, -1, 0)) / 2
    close(C, first)
    close(L, C + np.moveaxis(C, [0, 1, 2], [1, 0, 2]))  # L_k ℳ_ij = C_i(j,k) + C_j(i,k)
    owner = np.concatenate([np.full(j.nv, k) for k, j in enumerate(model.joints)])
    above = [set(model.tree.path(k)) for k in range(model.n_bodies)]

    def on_one_path(*dofs):
        bodies = sorted((owner[d] for d in dofs), key=lambda k: -len(above[k]))
        return all(b in above[bodies[0]] for b in bodies)

    for i, j, k in np.ndindex(C.shape):
        if not on_one_path(i, j, k):
            assert C[i, j, k] == 0 and L[i, j, k] == 0


@given(trees, seeds)
@settings(max_examples=15)
def test_gradient_of_the_determinant(model, seed):
    q, *_ = state(model, seed)
    expected = by_complex_steps(model, q, program(LOG_DET, model))
    scale = np.linalg.cond(pp.mass_matrix(model, q)) * 1e-3
    close(pp.sensitivities.log_det_mass_matrix_gradient(model, q), expected, scale=max(1.0, scale))
    by_trace = np.einsum(
        "ij,jik->k",
        pp.mass_matrix_inverse(model, q),
        pp.sensitivities.mass_matrix_sensitivity(model, q),
    )
    close(by_trace, expected, scale=max(1.0, scale))


def test_gradient_of_the_determinant_takes_two_sweeps():
    model = random_tree(0, 5, ["revolute", "universal"])
    gradient = pp.compile(pp.diff(LOG_DET, "q").T, model)
    assert len(gradient.source.sweeps()) == 2


def test_operational_space_inertia():
    arm = pp.examples.seven_joint_arm()
    q = np.array([0.1, 0.5, 0.2, 1.0, 0.3, 0.8, 0.1])
    inertia = program(ops.Lambda.inv, arm, mode="dense", points=["tool"])
    got = pp.sensitivities.operational_space_inertia_sensitivity(arm, q, ["tool"])
    expected = by_complex_steps(arm, q, inertia)
    close(got, expected)
    batch = pp.sensitivities.operational_space_inertia_sensitivity(
        arm, np.stack([q, q + 0.1]), ["tool"]
    )
    close(batch[0], expected)


@given(trees, seeds)
@settings(max_examples=15)
def test_diagonal_equations_of_motion(model, seed):
    """ν̇ along a true motion is ε − μ, for joints with several dofs too, and μ does no work."""
    q, v, tau, _ = state(model, seed)
    vdot = pp.forward_dynamics(model, q, v, tau)
    nu_of = program(ops.D_half.T @ (ops.I + ops.H @ ops.phi @ ops.K).T @ ops.v, model)
    moved = q + 1j * STEP * model.qdot(q, v), v + 1j * STEP * vdot
    rate = nu_of(*moved).imag / STEP
    epsilon, nu = pp.diagonal_dynamics.innovations(model, q, v, tau - pp.gravity_forces(model, q))
    mu = pp.diagonal_dynamics.coriolis(model, q, nu)
    scale = 1e-4 * np.linalg.cond(pp.mass_matrix(model, q)) * max(1, np.abs(mu).max())
    close(rate + mu, epsilon, scale=max(1.0, scale))
    close(nu @ mu, 0.0, scale=max(1.0, scale * np.linalg.norm(nu)))
    close(pp.diagonal_dynamics.rates(model, q, nu), v, scale=max(1.0, scale))


@pytest.mark.parametrize("kinds", [["revolute"], ["spherical", "revolute"]])
def test_a_simulation_in_diagonal_coordinates(kinds, monkeypatch):
    """ν and q integrated by ν̇ = ε − μ, q̇ = N(q) v end where ordinary simulation ends."""
    monkeypatch.setenv("PHIPSI_BACKEND", "native")  # thousands of evaluations
    model = random_tree(5, 4, kinds)
    q, v, *_ = state(model, 3)
    tau = np.zeros(model.nv)
    nu = pp.diagonal_dynamics.innovations(model, q, v, tau).nu
    duration, n = 0.2, 200
    h = duration / n

    def rates(q, nu):
        v = pp.diagonal_dynamics.rates(model, q, nu)
        force = tau - pp.gravity_forces(model, q)
        return model.qdot(q, v), pp.diagonal_dynamics.innovations(model, q, v, force).epsilon - (
            pp.diagonal_dynamics.coriolis(model, q, nu)
        )

    end = pp.simulate(model, q, v, duration, rtol=1e-11, atol=1e-12)
    for _ in range(n):
        a = rates(q, nu)
        b = rates(q + h / 2 * a[0], nu + h / 2 * a[1])
        c = rates(q + h / 2 * b[0], nu + h / 2 * b[1])
        d = rates(q + h * c[0], nu + h * c[1])
        q = q + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        nu = nu + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
    close(pp.diagonal_dynamics.rates(model, q, nu), end.v[-1], 1e-7)
    close(model.difference(q, end.q[-1]), np.zeros(model.nv), 1e-7)


@pytest.mark.parametrize("seed", range(6 if ALL else 2))
def test_christoffel_symbols_by_levels_and_one_by_one(seed: int):
    """On trees that branch all degrees of freedom of a level are found at once."""
    model = random_tree(seed, 14, n_roots=7)
    q = model.random_configuration(seed, 3)
    levels = _dof_levels(model)
    assert levels.worth_it
    np.testing.assert_array_equal(levels.units.sum(axis=0), 1)
    C = pp.sensitivities.christoffel_symbols(model, q)
    scale = max(1.0, np.abs(C).max())
    for k, unit in enumerate(np.eye(model.nv)):
        alone = pp.sensitivities.christoffel_symbols(model, q, np.tile(unit, (3, 1)))
        np.testing.assert_allclose(C[..., k], alone, rtol=0, atol=1e-13 * scale)


def test_chains_have_as_many_levels_as_degrees_of_freedom():
    model = chain(4, 1)
    levels = _dof_levels(model)
    assert not levels.worth_it and len(levels.units) == model.nv
