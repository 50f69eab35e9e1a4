"""Residuals, Jacobians and velocity terms of all constraints, by second routes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_systems import (
    KINDS,
    SURFACES,
    WITH_LAWS,
    admissible,
    bias_by_complex_step,
    random_system,
)

import phipsi as pp

SYSTEMS = [(seed, kind) for kind in (*WITH_LAWS, *SURFACES) for seed in (0, 1)]


SINGLE = ("revolute", "prismatic", "helical")
MIXED = (*SINGLE, "spherical", "free", "planar", "universal", "composite")


def built(seed: int, kind: str) -> tuple[pp.System, np.ndarray]:
    joints = SINGLE if kind == "Coupling" else MIXED
    system, q = random_system(seed, 6, [kind] * 2, joints=joints, spare=0, n_roots=2)
    assert system.n_rows, "the random tree left no room"
    return system, q


def elsewhere(system: pp.System, q, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return system.model.integrate(q, 0.3 * rng.standard_normal(system.model.nv))


def plain_residual(system: pp.System, q) -> np.ndarray:
    """The definition, closure by closure."""
    poses = [*pp.poses(system.model, q), np.eye(4)]
    out = []
    for constraint, closure in zip(system.constraints, system.closures.closures, strict=True):
        if closure.matrix is not None:
            if isinstance(constraint, pp.constraints.Coupling):
                values = [q[system.model.q_slice(n)][0] for n in constraint.joints]
                out.append(np.dot(constraint.coefficients, values) - constraint.offset)
            elif isinstance(constraint, pp.constraints.Cam):
                values = [q[system.model.q_slice(n)][0] for n in constraint.joints]
                out.append(constraint.law(*values) - constraint.offset)
            else:
                out.extend([0.0] * len(closure.rows))
            continue
        X_a, X_b = (
            poses[closure.a] @ closure.a_frame.matrix,
            poses[closure.b] @ closure.b_frame.matrix,
        )
        X = np.linalg.inv(X_a) @ X_b
        R, r = X[:3, :3], X[:3, 3]
        k = closure.constant
        out.extend(
            {
                "none": [], "axis": [R[0, 2], R[1, 2]], "cross": [R[2, 2] - k],
                "all": [(R[2, 1] - R[1, 2]) / 2, (R[0, 2] - R[2, 0]) / 2, (R[1, 0] - R[0, 1]) / 2],
            }[closure.angular]
        )  # fmt: skip
        out.extend(
            {
                "none": [], "all": r, "xy": r[:2], "z": r[2:],
                "distance": [np.linalg.norm(r) - k], "circle": [np.linalg.norm(r) - k, r[2]],
            }[closure.linear]
        )  # fmt: skip
    return np.array(out)


@pytest.mark.parametrize(("seed", "kind"), SYSTEMS)
def test_residual_is_zero_where_the_loop_is_closed_and_as_defined_elsewhere(seed, kind):
    system, q = built(seed, kind)
    assert_allclose(system.residual(q), 0, atol=1e-13)
    away = elsewhere(system, q)
    residual = system.residual(away)
    assert_allclose(residual, plain_residual(system, away), atol=1e-13)
    if kind != "Rows":
        assert np.abs(residual).max() > 1e-3


@pytest.mark.parametrize(("seed", "kind"), [x for x in SYSTEMS if x[1] != "Rows"])
def test_jacobian_is_the_derivative_of_the_residual_also_off_the_constraints(seed, kind):
    system, q = built(seed, kind)
    h, model = 1e-30, system.model
    for at in (q, elsewhere(system, q)):
        columns = [
            system.residual(at + 1j * h * model.qdot(at, e)).imag / h for e in np.eye(model.nv)
        ]
        assert_allclose(system.jacobian(at), np.transpose(columns), atol=1e-12)


@pytest.mark.parametrize(("seed", "kind"), SYSTEMS)
def test_the_rows_for_assembly_have_their_derivative_too(seed, kind):
    system, q = built(seed, kind)
    h, model, rows = 1e-30, system.model, system.rows
    at = elsewhere(system, q)
    turned = at + 1j * h * model.qdot(at, np.eye(model.nv))
    values = rows.strict_residual(turned, rows.residual(turned, rows.poses(turned))[1])
    poses, motion = rows.kinematics(at[None])
    slopes = rows.strict_jacobian(at[None], rows.residual(at[None], poses)[1], motion)[0]
    assert_allclose(slopes, values.imag.T / h, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_general_rows_are_their_matrix_times_the_point_jacobian(seed):
    system, q = built(seed, "Rows")
    first = system.constraints[0]
    J = pp.jacobian(system.model, q, list(first.points), axes=first.axes)
    assert_allclose(system.jacobian(q)[:2], np.asarray(first.A) @ J, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_coupling_as_rows_on_bodies_is_the_coupling_of_rates(seed):
    """What the compiled operators use: constant rows on the motions of child and parent."""
    system, q = built(seed, "Coupling")
    for i, closure in enumerate(system.closures.closures):
        rows = 0.0
        for k, (body, frame) in enumerate(closure.points):
            if body < 0:
                continue
            name = system.model.body_names[body]
            at = pp.jacobian(system.model, q, [(name, frame.translation)], axes="body")
            turned = np.kron(np.eye(2), frame.rotation.T) @ at
            rows = rows + closure.matrix[:, 6 * k : 6 * k + 6] @ turned
        assert_allclose(rows[0], system.jacobian(q)[i], atol=1e-12)


@pytest.mark.parametrize(("seed", "kind"), SYSTEMS)
def test_bias_is_the_rate_of_the_jacobian_times_v(seed, kind):
    system, q = built(seed, kind)
    rng = np.random.default_rng(seed)
    for at in (q, elsewhere(system, q)):
        v = rng.standard_normal(system.model.nv)
        exact = bias_by_complex_step(system, at, v)
        assert_allclose(system.bias(at, v), exact, atol=1e-11 * max(1, np.abs(exact).max()))


@pytest.mark.parametrize("seed", range(3))
def test_batches_and_one_at_a_time_agree(seed):
    system, q = random_system(seed, 6, KINDS, n_roots=2)
    rng = np.random.default_rng(seed)
    qs = system.model.integrate(q, 0.1 * rng.standard_normal((2, 3, system.model.nv)))
    vs = rng.standard_normal((3, system.model.nv))
    for i, j in np.ndindex(2, 3):
        one = (system.residual(qs[i, j]), system.jacobian(qs[i, j]), system.bias(qs[i, j], vs[j]))
        many = (system.residual(qs)[i, j], system.jacobian(qs)[i, j], system.bias(qs, vs)[i, j])
        for a, b in zip(one, many, strict=True):
            assert_allclose(a, b, atol=1e-14)


def test_a_system_without_constraints_is_the_tree():
    system = pp.System(pp.examples.planar_arm(2), [])
    q, v = np.array([0.3, 0.4]), np.array([1.0, 2.0])
    assert system.residual(q).shape == (0,) and system.jacobian(q).shape == (0, 2)
    assert_allclose(system.project(q, v), (q, v), rtol=1e-14)
    assert_allclose(system.assemble(q), q)
    assert system.mobility(q).mobility == 2


@pytest.mark.parametrize("seed", range(3))
def test_admissible_rates_are_found(seed):
    system, q = random_system(seed, 6, KINDS[:4], n_roots=2)
    v = admissible(system, q, np.random.default_rng(seed))
    assert_allclose(system.jacobian(q) @ v, system.rates, atol=1e-10)
