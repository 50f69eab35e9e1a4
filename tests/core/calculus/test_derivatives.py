"""Derivatives of expressions against complex steps, on random trees of all joint types."""

import numpy as np
import pytest
from amounts import examples
from comparers import tight as close
from differences import complex_step as moved
from hypothesis import given, settings, strategies as st
from random_models import models, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics import dynamics_expressions as dynamics
from phipsi.core.calculus import differentiation
from phipsi.core.expressions.node import Expr
from phipsi.errors import InputError, SpaceError

STEP = 1e-30
trees = models(max_bodies=5, frames=True)
seeds = st.integers(0, 2**32 - 1)
DIRECTION = {"q": "dq", "v": "dv", "vdot": "dvdot", "tau": "dtau"}
KINETIC = 0.5 * (ops.V.T @ ops.M @ ops.V)
POINT_VELOCITY = ops.J @ ops.v
POINT_BIAS = ops.B.T @ ops.phi.T @ ops.a + ops.Bdot.T @ ops.V

VECTORS = {
    "inverse dynamics": dynamics.INVERSE_DYNAMICS,
    "forward dynamics": dynamics.FORWARD_DYNAMICS,
    "forward dynamics with loads": dynamics.forward(ops.b - ops.f_ext + ops.B @ ops.f0),
    "gravity forces": dynamics.GRAVITY_FORCES,
    "body accelerations": ops.phi.T @ (ops.H.T @ ops.vdot + ops.a),
    "point velocities": POINT_VELOCITY,
    "point forces": ops.J.T @ ops.f0,
    "momentum": ops.total(ops.M @ ops.V, (0.1, 0.2, 0.3)),
    "kinetic energy": KINETIC,
    "force through a step": ops.E_phi @ ops.M @ ops.E_phi.T @ ops.V + ops.phi_tilde @ ops.b,
}


def state(model, seed):
    rng = np.random.default_rng(seed)
    v, vdot, tau = rng.standard_normal((3, model.nv))
    return {
        "q": model.random_configuration(rng),
        "v": v,
        "vdot": vdot,
        "tau": tau,
        "f_ext": rng.standard_normal((model.n_bodies, 6)),
        "f0": rng.standard_normal((2, 6)),
    }


def points_of(model):
    return ["f0", (model.body_names[-1], (0.1, -0.2, 0.3))]


def run(expr, model, values, axes="world", **options):
    where = pp.core.model.points.point_set(model, points_of(model), axes)
    program = pp.compile(expr, model, points=where, backend="reference", **options)
    return program(**{name: values[name] for name in program.inputs})


def complex_step(expr, model, values, wrt, u, **options):
    return run(expr, model, moved(model, values, wrt, u), **options).imag / STEP


def direction(model, seed, wrt, values):
    return np.random.default_rng(seed + 7).standard_normal(
        model.nv if wrt == "q" else values[wrt].shape
    )


@pytest.mark.parametrize("name", VECTORS)
@given(trees, seeds, st.sampled_from(["q", "v", "vdot", "tau"]))
@settings(max_examples=6)
def test_vectors(name, model, seed, wrt):
    """By all of a variable, along a direction, and the adjoint: all are the complex step."""
    expr, values = VECTORS[name], state(model, seed)
    u = direction(model, seed, wrt, values)
    expected = complex_step(expr, model, values, wrt, u)
    L = pp.diff(expr, wrt)
    got = run(L, model, {**values, "x": u})
    close(got, expected)
    c = np.random.default_rng(seed).standard_normal(expected.shape)
    back = run(L.T, model, {**values, "x": c})
    back = c * back if expr.is_scalar else back  # the gradient of a scalar is a vector
    close(np.sum(back * u), np.sum(c * expected), scale=max(1.0, np.abs(c * expected).sum()))
    along = pp.diff(expr, wrt, along=DIRECTION[wrt])
    close(run(along, model, {**values, DIRECTION[wrt]: u}), expected)
    where = points_of(model)
    oracle = pp.evaluate_dense(L, model, points=where, **values) @ u
    close(oracle, expected.reshape(oracle.shape))


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
@pytest.mark.parametrize("expr", [POINT_VELOCITY, ops.J.T @ ops.f0, POINT_BIAS])
@given(trees, seeds, st.sampled_from(["q", "v"]))
@settings(max_examples=4)
def test_points_in_all_axes(axes, expr, model, seed, wrt):
    values = state(model, seed)
    u = direction(model, seed, wrt, values)
    expected = complex_step(expr, model, values, wrt, u, axes=axes)
    L = pp.diff(expr, wrt)
    close(run(L, model, {**values, "x": u}, axes=axes), expected)
    where = pp.core.model.points.point_set(model, points_of(model), axes)
    close(pp.evaluate_dense(L, model, points=where, **values) @ u, expected.reshape(-1))
    along = pp.diff(expr, wrt, along=DIRECTION[wrt])
    close(run(along, model, {**values, DIRECTION[wrt]: u}, axes=axes), expected)
    second = pp.diff(along, "q", along="v")
    inputs = {**values, DIRECTION[wrt]: u}
    expected = complex_step(along, model, inputs, "q", values["v"], axes=axes)
    close(run(second, model, inputs, axes=axes), expected)


OPERATORS = {
    "mass matrix": ops.mass_matrix,
    "its inverse": ops.mass_matrix.inv,
    "P": ops.P,
    "D": ops.D,
    "G": ops.G,
    "K": ops.K,
    "psi": ops.psi,
    "Omega": ops.Omega,
    "Upsilon": ops.Upsilon,
    "R": ops.R,
    "Jacobian": ops.J,
    "admittance": ops.Lambda,
    "Hdot": ops.Hdot,
    "hinge map": ops.H,
    "a family without armature": pp.operators.Riccati(Jr=0).psi,
    "a family on psi": pp.operators.Riccati(E=ops.E_psi).P,
}


@pytest.mark.parametrize("name", OPERATORS)
@given(models(max_bodies=5, min_bodies=2, frames=True, armature=True), seeds)
@settings(max_examples=4)
def test_operators(name, model, seed):
    """Along a direction, for every leaf of the Riccati family and what is built on them."""
    expr, values = OPERATORS[name], state(model, seed)
    points = [(model.body_names[-1], (0.1, -0.2, 0.3))]
    u = direction(model, seed, "q", values)

    def value(expr, **values):
        return pp.evaluate_dense(expr, model, values["q"], values["v"], points=points, **directions)

    directions = {}
    expected = value(expr, **moved(model, values, "q", u)).imag / STEP
    change = pp.diff(expr, "q", along="dq")
    directions = {"dq": u}
    close(value(change, **values), expected)
    program = pp.compile(change, model, mode="dense", points=points, backend="reference")
    inputs = {**values, "dq": u}
    close(program(**{n: inputs[n] for n in program.inputs}), expected)


def test_operational_space_inertia_along_a_direction():
    model = random_tree(2, 6, armature=True)
    values = state(model, 0)
    u, points = direction(model, 0, "q", values), [("b5", (0.1, -0.2, 0.3))]
    program = pp.compile(ops.Lambda.inv, model, mode="dense", points=points, backend="reference")
    expected = program(moved(model, values, "q", u)["q"]).imag / STEP
    change = pp.diff(ops.Lambda.inv, "q", along="dq")
    got = pp.compile(change, model, mode="dense", points=points, backend="reference")
    close(got(values["q"], u), expected)


@given(models(max_bodies=4, frames=True), seeds)
@settings(max_examples=6)
def test_derivatives_of_the_dynamics(model, seed):
    values = state(model, seed)
    q, v, vdot, tau = (values[n] for n in ("q", "v", "vdot", "tau"))
    by = pp.inverse_dynamics_derivatives(model, q, v, vdot)
    for matrix, wrt in zip(by, ("q", "v", "vdot"), strict=True):
        for k, u in enumerate(np.eye(model.nv)):
            close(
                matrix[:, k], complex_step(dynamics.INVERSE_DYNAMICS, model, values, wrt, u),
                scale=max(1.0, np.abs(matrix).max()),
            )  # fmt: skip
    by = pp.forward_dynamics_derivatives(model, q, v, tau)
    for matrix, wrt in zip(by, ("q", "v", "tau"), strict=True):
        for k, u in enumerate(np.eye(model.nv)):
            close(
                matrix[:, k], complex_step(dynamics.FORWARD_DYNAMICS, model, values, wrt, u),
                scale=max(1.0, np.abs(matrix).max()),
            )  # fmt: skip


def test_vector_jacobian_products_are_the_adjoint_matrices():
    model = random_tree(3, 7, armature=True)
    rng = np.random.default_rng(0)
    q = model.random_configuration(rng, (4,))
    v, tau, c = rng.standard_normal((3, 4, model.nv))
    gradient = pp.vjp(dynamics.FORWARD_DYNAMICS, model, ("q", "v", "tau"))
    matrices = pp.forward_dynamics_derivatives(model, q, v, tau)
    for g, A in zip(gradient(q, v, tau, c), matrices, strict=True):
        close(g, np.einsum("bij,bi->bj", A, c))


def test_one_degree_of_freedom_and_families():
    model = random_tree(5, 6)
    rng = np.random.default_rng(1)
    q = model.random_configuration(rng)
    family = pp.diff(ops.mass_matrix, "q")
    tensor = family.compile(model)(q)
    assert tensor.shape == (model.nv,) * 3
    for joint, hinge in zip(model.joint_names, model.v_slices, strict=True):
        for i in range(hinge.stop - hinge.start):
            one = pp.diff(ops.mass_matrix, f"q[{joint}, {i}]")
            expected = tensor[:, :, hinge.start + i]
            close(pp.compile(one, model, mode="dense")(q), expected)
            close(pp.evaluate_dense(family.along(joint, i), model, q), expected)
    w = rng.standard_normal(model.nv)
    close(pp.compile(family.contract(ops.v), model, mode="dense")(q, w), tensor @ w)
    batch = family.compile(model)(np.stack([q, model.neutral()]))
    close(batch[0], tensor)
    assert pp.parse(str(pp.diff(ops.mass_matrix, "q[j1]"))) is pp.diff(ops.mass_matrix, "q[j1]")


@given(models(max_bodies=4, frames=True), seeds)
@settings(max_examples=examples(8))
def test_second_derivatives(model, seed):
    """diff of diff, for vectors and operators."""
    values = state(model, seed)
    u = direction(model, seed, "q", values)
    values["dq"], values["dv"] = np.random.default_rng(seed).standard_normal((2, model.nv))
    for first in (
        pp.diff(dynamics.INVERSE_DYNAMICS, "q", along="dq"),
        pp.diff(dynamics.INVERSE_DYNAMICS, "v", along="dv"),
        pp.diff(dynamics.INVERSE_DYNAMICS, "q") @ ops.dq,
        pp.diff(dynamics.GRAVITY_FORCES, "q").T @ ops.dq,
    ):
        expected = complex_step(first, model, values, "q", u)
        along = pp.diff(first, "q", along="dv")
        close(run(along, model, {**values, "dv": u}),
              complex_step(first, model, {**values, "dv": u}, "q", u))  # fmt: skip
        second = pp.diff(first, "q")
        if "dH" not in str(first) or isinstance(second, Expr):
            close(run(second, model, {**values, "x": u}), expected)
    rate = pp.diff(ops.mass_matrix, "q", along="dq")
    twice = pp.diff(rate, "q", along="v")
    expected = complex_step(rate, model, values, "q", values["v"], mode="dense")
    close(run(twice, model, values, mode="dense"), expected)
    jacobian = pp.diff(dynamics.INVERSE_DYNAMICS, "q")
    change = pp.diff(jacobian, "q", along="dq")
    expected = complex_step(jacobian, model, values, "q", values["dq"], mode="dense")
    close(run(change, model, values, mode="dense"), expected)


@given(trees, seeds)
@settings(max_examples=6)
def test_inertial_parameters(model, seed):
    """Inverse dynamics is linear in them; forward dynamics by a model with other ones."""
    values = state(model, seed)
    q, v, vdot, tau = (values[n] for n in ("q", "v", "vdot", "tau"))
    Y = pp.compile(pp.diff(dynamics.INVERSE_DYNAMICS, "inertia"), model, mode="dense")(q, v, vdot)
    close(Y, pp.identification.regressor(model, q, v, vdot))
    L = pp.compile(pp.diff(dynamics.FORWARD_DYNAMICS, "inertia"), model, mode="dense")(q, v, tau)
    change = np.random.default_rng(seed).standard_normal(Y.shape[-1]) * 1e-3
    pi, h = pp.identification.inertial_parameters(model), 1e-3
    ends = [
        pp.forward_dynamics(model.with_inertial_parameters(pi + s * h * change), q, v, tau)
        for s in (-2, -1, 1, 2)
    ]
    difference = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
    close(L @ change, difference, 1e-8)


@given(models(max_bodies=4), seeds)
@settings(max_examples=5)
def test_vectors_with_articulated_quantities(model, seed):
    """FD4 and the innovations by all of q: a family over the dofs."""
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng)
    v, tau = rng.standard_normal((2, model.nv))
    for expr, args in (
        (dynamics._fd4(ops.b), (q, v, tau)),
        (ops.psi.T @ ops.H.T @ ops.D.inv @ ops.tau, (q, tau)),
    ):
        plain = pp.compile(expr, model, backend="reference")
        columns = [
            plain(q + 1j * STEP * model.qdot(q, u), *args[1:]).imag / STEP for u in np.eye(model.nv)
        ]
        expected = np.stack(columns, axis=-1)
        family = pp.diff(expr, "q")
        close(family.compile(model)(*args), expected, 1e-9)
        batch = family.compile(model)(*(np.stack([x, x]) for x in args))
        close(batch[1], expected, 1e-9)


def test_errors_say_what_to_write():
    with pytest.raises(InputError, match=r"q\[shoulder\]"):
        pp.diff(ops.mass_matrix, "theta")
    with pytest.raises(SpaceError, match="joint rates"):
        pp.diff(ops.mass_matrix, "q", along="tau")
    with pytest.raises(SpaceError, match="trace of X⁻¹ δX"):
        pp.vjp(ops.logdet(ops.R), pp.examples.planar_arm(2), "q")
    with pytest.raises(SpaceError, match="sum over the points"):
        differentiation.gradient(ops.logdet(ops.Lambda), "q")
    with pytest.raises(SpaceError, match="Poses cannot be added"):
        pp.diff(ops.pose, "q", along="dq")
    with pytest.raises(InputError, match="ten inertial parameters"):
        arm = pp.examples.planar_arm(2)
        one = pp.diff(ops.mass_matrix, f"inertia[{arm.body_names[0]}, 10]")
        pp.compile(one, arm, mode="dense")
    with pytest.raises(InputError, match="numbered from 0"):
        arm = pp.examples.planar_arm(2)
        pp.compile(pp.diff(ops.mass_matrix, f"q[{arm.joint_names[0]}, 3]"), arm, mode="dense")
