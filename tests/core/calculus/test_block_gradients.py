"""Gradients of vectors with P, D, G, ψ and bd(…) in them, and by the inertial parameters."""

import numpy as np
import pytest
from amounts import examples
from comparers import tight as close
from hypothesis import given, settings, strategies as st
from random_models import models, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics import (
    diagonal_dynamics as diagonal,
    dynamics_expressions as dynamics,
)
from phipsi.core.calculus.differentiation import gradient
from phipsi.core.operators.catalogue import operand
from phipsi.core.spatial import inertia_of, inertia_trace
from phipsi.operators import D, G, H, I, K, M, P, R, Riccati, V, bd, mass_matrix, phi, psi, tau, v

STEP = 1e-30
seeds = st.integers(0, 2**32 - 1)
LOG_DET = ops.logdet(mass_matrix)

VECTORS = {
    "hinge accelerations": D.inv @ tau,
    "momenta of articulated bodies": P @ V,
    "gains": G @ tau + K @ tau,
    "forward dynamics FD4": dynamics._fd4(ops.b),
    "innovations": ops.D_half.inv @ (I - H @ psi @ K) @ tau,
    "body accelerations from efforts": psi.T @ H.T @ D.inv @ tau,
    "through the tildes": ops.psi_tilde @ P @ ops.psi_tilde.T @ V,
    "Omega and Upsilon": ops.Omega @ P @ V + ops.Upsilon @ M @ V,
    "composite inertias": R @ V,
    "diagonal of the mass matrix": bd(mass_matrix) @ v,
    "diagonal of its inverse": bd(mass_matrix.inv) @ tau,
    "diagonals of products": bd(phi @ M @ psi.T) @ V + bd(ops.E_phi @ P @ psi.T) @ V,
    "a diagonal outward": bd(phi.T @ P.inv @ psi) @ ops.f_ext,
    "a family without armature": Riccati(Jr=0).psi @ P @ V,
    "a family on psi": Riccati(E=ops.E_psi).P @ V,
    "a family with other inertias": Riccati(M=M + R, Jr=2 * ops.Jr).G @ tau,
    "the shift": ops.shift @ P @ ops.shift.T @ V + bd(ops.shift @ R @ ops.shift.T) @ V,
    "the papers' pair": H @ phi @ (P @ phi.T @ ops.a_paper + ops.b_paper),
    "a varying hinge map": R @ ops.Hdot.T @ v,
    "a scalar": tau.T @ D.inv @ tau,
    "a vector times a scalar": (H.T @ v) @ (V.T @ P @ V),
    "an inverse of a scalar": tau @ (V.T @ M @ V).inv,
    "log det and another scalar": LOG_DET + v.T @ D @ v,
    "the gradient of log det": pp.diff(LOG_DET, "q").T,
    "derivatives of P": pp.diff(P @ V, "q", along="v"),
    "diagonal Coriolis terms": diagonal._coriolis(False),
    "products with Jacobians": pp.diff(dynamics.GRAVITY_FORCES, "q") @ v,
    "gradients": pp.diff(dynamics.INVERSE_DYNAMICS, "q").T @ v,
}


def state(model, seed):
    rng = np.random.default_rng(seed)
    v, vdot, tau = rng.standard_normal((3, model.nv))
    loads = rng.standard_normal((2, model.n_bodies, 6))
    values = {"q": model.random_configuration(rng), "v": v, "vdot": vdot, "tau": tau}
    return {**values, "f_ext": loads[0], "x": loads[1]}


def run(program, values):
    return program(**{name: values[name] for name in program.inputs})


def derivative(expr, model, values, wrt, u):
    """By a complex step along u; inertial parameters change by those of another inertia M."""
    given = ("M",) if wrt == "inertia" else ()
    program = pp.compile(expr, model, backend="reference", inputs=given)
    if wrt == "inertia":
        moved = {"M": model.inertia_matrices + 1j * STEP * inertia_of(u)}
    else:
        moved = {wrt: values[wrt] + 1j * STEP * (model.qdot(values["q"], u) if wrt == "q" else u)}
    return run(program, {**values, **moved}).imag / STEP


def directions(model, seed, wrt):
    rng = np.random.default_rng(seed + 3)
    return rng.standard_normal((model.n_bodies, 10) if wrt == "inertia" else model.nv)


@pytest.mark.parametrize("name", VECTORS)
@given(models(max_bodies=5), seeds, st.sampled_from(["q", "v", "tau", "inertia"]))
@settings(max_examples=examples(6))
def test_gradients_are_complex_steps(name, model, seed, wrt):
    expr, values = VECTORS[name], state(model, seed)
    u = directions(model, seed, wrt)
    expected = derivative(expr, model, values, wrt, u)
    c = np.random.default_rng(seed).standard_normal(expected.shape)
    c = np.ones(()) if expr.is_scalar else c
    found = run(pp.vjp(expr, model, wrt, backend="reference"), {**values, "x": c})
    assert found.shape == u.shape
    close(np.sum(found * u), np.sum(c * expected), scale=max(1.0, np.abs(c * expected).sum()))


@pytest.mark.parametrize("name", ["gains", "forward dynamics FD4", "diagonal of its inverse"])
@given(models(max_bodies=4, armature=True), seeds)
@settings(max_examples=examples(4))
def test_gradients_as_expressions(name, model, seed):
    """What vjp compiles, evaluated as it is written by the dense oracle."""
    expr, values = VECTORS[name], state(model, seed)
    c = np.random.default_rng(seed).standard_normal(pp.compile(expr, model)(
        *(values[n] for n in pp.compile(expr, model).inputs)).shape)  # fmt: skip
    for wrt in ("q", "inertia"):
        found = run(pp.vjp(expr, model, wrt), {**values, "x": c})
        values.pop("x", None)
        oracle = pp.evaluate_dense(
            gradient(expr, wrt), model, **values, inputs={operand(expr.gives.dual): c}
        )
        close(found.reshape(-1), oracle, 1e-9)


def test_gradients_in_batch_and_together():
    model = random_tree(4, 6, armature=True)
    rng = np.random.default_rng(0)
    q = model.random_configuration(rng, (3,))
    v_, tau_, c = rng.standard_normal((3, 3, model.nv))
    program = pp.vjp(dynamics._fd4(ops.b), model, ("q", "v", "tau", "inertia"))
    assert program.inputs == ("q", "v", "tau", "x")
    found = program(q, v_, tau_, c)
    plain = pp.vjp(dynamics.FORWARD_DYNAMICS, model, ("q", "v", "tau", "inertia"))
    for x, y in zip(found, plain(q, v_, tau_, c), strict=True):
        close(x, y)
    one = program(q[1], v_[1], tau_[1], c[1])
    for x, y in zip(found, one, strict=True):
        close(x[1], y)


OPERATORS = {
    "mass matrix": mass_matrix,
    "its inverse": mass_matrix.inv,
    "P": P,
    "D": D,
    "G": G,
    "psi": psi,
    "Upsilon": ops.Upsilon,
    "R": R,
}


@pytest.mark.parametrize("name", OPERATORS)
@given(models(max_bodies=4, min_bodies=1, armature=True), seeds)
@settings(max_examples=4)
def test_operators_by_inertial_parameters(name, model, seed):
    expr, values = OPERATORS[name], state(model, seed)
    u = directions(model, seed, "inertia")
    program = pp.compile(expr, model, mode="dense", inputs=("M",), backend="reference")
    moved = model.inertia_matrices + 1j * STEP * inertia_of(u)
    expected = program(values["q"], moved).imag / STEP
    change = pp.diff(expr, "inertia", along="dinertia")
    along = pp.compile(change, model, mode="dense", backend="reference")
    close(along(values["q"], u), expected)
    close(pp.evaluate_dense(change, model, values["q"], dinertia=u), expected)


def test_families_over_inertial_parameters():
    model = random_tree(1, 4, armature=True)
    q = model.random_configuration(np.random.default_rng(0))
    tensor = pp.diff(mass_matrix, "inertia").compile(model)(q)
    n = model.n_bodies
    assert tensor.shape == (model.nv, model.nv, 10 * n)
    pi = pp.identification.inertial_parameters(model)
    rotors = np.diag(model.armature)
    close(tensor @ pi.reshape(-1) + rotors, pp.mass_matrix(model, q))  # linear in them
    for k, name in enumerate(model.body_names):
        one = pp.compile(pp.diff(mass_matrix, f"inertia[{name}, 2]"), model, mode="dense")(q)
        close(one, tensor[..., 10 * k + 2])
    twice = pp.diff(pp.diff(mass_matrix.inv, "inertia", along="dinertia"), "q", along="v")
    u, w = directions(model, 0, "inertia"), directions(model, 0, "q")
    first = pp.diff(mass_matrix.inv, "inertia", along="dinertia")
    step = pp.compile(first, model, mode="dense")(q + 1j * STEP * model.qdot(q, w), u).imag / STEP
    close(pp.compile(twice, model, mode="dense")(q, w, u), step)


@given(models(max_bodies=6), seeds)
@settings(max_examples=8)
def test_log_det_by_inertial_parameters(model, seed):
    """tr(Υ M(π)) against ℳ⁻¹ and the change of ℳ."""
    q, u = state(model, seed)["q"], directions(model, seed, "inertia")
    found = pp.sensitivities.log_det_mass_matrix_gradient(model, q, wrt="inertia")
    assert found.shape == (model.n_bodies, 10)
    change = pp.compile(pp.diff(mass_matrix, "inertia", along="dinertia"), model, mode="dense")
    expected = np.trace(np.linalg.solve(pp.mass_matrix(model, q), change(q, u)))
    close(np.sum(found * u), expected, scale=max(1.0, np.abs(found * u).sum()))
    program = pp.compile(pp.diff(LOG_DET, "inertia", along="dinertia"), model)
    close(program(q, u), expected, scale=max(1.0, np.abs(found * u).sum()))


def test_traces_of_inertias():
    rng = np.random.default_rng(0)
    X, pi = rng.standard_normal((6, 6)), rng.standard_normal(10)
    assert np.isclose(inertia_trace(X) @ pi, np.trace(inertia_of(pi) @ X), rtol=1e-14)
