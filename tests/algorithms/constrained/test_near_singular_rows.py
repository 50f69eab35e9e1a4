"""Rows that elimination in a fixed order is in doubt about are solved again by singular values."""

from dataclasses import replace
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from amounts import ALL
from known_systems import bricard
from numpy.testing import assert_allclose
from random_systems import admissible

import phipsi as pp
from phipsi import constraints as c, operators as ops
from phipsi.algorithms.dynamics.dynamics_expressions import FORMS
from phipsi.core.backends.errors_from_status import DOUBTFUL

TILTS = np.array([0.5, 1e-2, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7, 0.0])
AT = (0.4, 0.1, 0.2)


@pytest.fixture(params=["native", "reference"])
def backend(request, monkeypatch) -> str:
    monkeypatch.setenv("PHIPSI_BACKEND", request.param)
    return request.param


@cache
def guided(backend: str) -> pp.System:
    """A point held along the world's z and along the body's: nearly the same if it hardly leans.

    Once for each backend: programs are kept with its model.
    """
    b = pp.ModelBuilder()
    body = pp.SpatialInertia(2, (0.1, 0, 0.05), (0.2, 0.3, 0.25))
    b.add_body("plate", joint=pp.joints.Free(), inertia=body)
    b.add_body("flap", parent="plate", joint=pp.joints.Spherical(), inertia=body)
    up = {"points": [("plate", AT)], "A": [[0, 0, 0, 0, 0, 1]]}
    rows = [c.Rows(name="world", axes="world", **up), c.Rows(name="body", axes="body", **up)]
    return pp.System(b.build(), rows)


def leaning(system: pp.System, tilt) -> np.ndarray:
    q = np.tile(system.model.neutral(), (*np.shape(tilt), 1))
    q[..., 0], q[..., 2] = np.cos(np.asarray(tilt) / 2), np.sin(np.asarray(tilt) / 2)
    return q


def exact(system: pp.System, q, v, tau, Udot=0.0) -> tuple[np.ndarray, np.ndarray]:
    """The dense equations of motion in 60 digits; of equal rows the first one only."""
    G, M = system.jacobian(q), pp.mass_matrix(system.model, q)
    right = np.broadcast_to(Udot, len(G)) - system.bias(q, v)
    kept = 1 if np.array_equal(G[0], G[1]) else 2
    load = tau - pp.bias_forces(system.model, q, v)
    n = len(M)
    with mp.workdps(60):
        K = mp.zeros(n + kept)
        for i in range(n):
            for j in range(n):
                K[i, j] = mp.mpf(M[i, j])
            for j in range(kept):
                K[i, n + j] = K[n + j, i] = mp.mpf(G[j, i])
        x = mp.lu_solve(K, mp.matrix([*load.tolist(), *right[:kept].tolist()]))
        f = np.array([float(y) for y in x[n:]])
        return np.array([float(y) for y in x[:n]]), f if kept == 2 else np.array([f[0] / 2] * 2)


def at_rest(system: pp.System) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Configurations that lean less and less, no rates, and efforts."""
    v, tau = np.zeros(system.model.nv), np.random.default_rng(0).standard_normal(system.model.nv)
    return leaning(system, TILTS), v, tau


@cache
def exact_accelerations(backend: str) -> list[np.ndarray]:
    system = guided(backend)
    q, v, tau = at_rest(system)
    return [exact(system, one, v, tau)[0] for one in q]


@pytest.mark.parametrize("form", [None, *FORMS])
def test_nearly_dependent_rows_are_neither_dropped_nor_blurred(backend, form):
    """They used to be dropped below a lean of 1e-5, and accelerations to be off by a tenth."""
    system = guided(backend)
    q, v, tau = at_rest(system)
    vdot, _, f = pp.forward_dynamics(system, q, v, tau, algorithm=form, return_multipliers=True)
    accelerations = exact_accelerations(backend)
    for i, tilt in enumerate(TILTS):
        want = accelerations[i]
        wrong = 1e-8 if tilt < 5e-6 else max(1e-9, 1e-15 / tilt**2)  # by elimination
        assert_allclose(vdot[i], want, rtol=0, atol=wrong * np.abs(want).max())
        if ALL or form is None or backend == "reference":
            one = pp.forward_dynamics(system, q[i], v, tau, algorithm=form)
            assert_allclose(one, vdot[i], rtol=0, atol=1e-12 * np.abs(want).max())
        load = tau - pp.bias_forces(system.model, q[i], v)
        left = pp.mass_matrix(system.model, q[i]) @ vdot[i] + system.jacobian(q[i]).T @ f[i]
        assert_allclose(left, load, rtol=0, atol=1e-7 * max(1, np.abs(f[i]).max()))


def test_forces_and_impulses_there(backend):
    system = guided(backend)
    q, rng = leaning(system, TILTS), np.random.default_rng(1)
    v, tau = rng.standard_normal((2, system.model.nv))
    rest = np.zeros_like(v)
    forces = pp.constraint_forces(system, q, rest, tau)
    after, p = pp.constraint_impulse(system, q, v)
    for i, tilt in enumerate(TILTS):
        G, M = system.jacobian(q[i]), pp.mass_matrix(system.model, q[i])
        wrong = 1e-7 if tilt < 5e-6 else max(1e-9, 1e-14 / tilt**2)
        _, want = exact(system, q[i], rest, tau)
        assert_allclose(forces[i], want, rtol=0, atol=wrong * np.abs(want).max())
        assert_allclose(G @ after[i], 0, atol=1e-9)
        assert_allclose(M @ (after[i] - v), -G.T @ p[i], atol=1e-7 * max(1, np.abs(p[i]).max()))


def test_loops_that_are_open_a_little_do_not_lock(backend):
    """Drift makes redundant rows look independent; what the gap explains does not count."""
    system = bricard()
    q = pp.simulate(system, np.zeros(5), np.zeros(5), 0.7).q[-1]
    rng = np.random.default_rng(0)
    q, v = system.project(q, rng.standard_normal(5))
    tau = rng.standard_normal(5)
    want = pp.forward_dynamics(system, q, v, tau)
    double = [*system.constraints, *(replace(x, name="again") for x in system.constraints)]
    for gap in (1e-10, 1e-8, 1e-6, 1e-5):
        off = q + gap * rng.standard_normal(5)
        for listed in (system.constraints, double, double[::-1]):
            found = pp.forward_dynamics(pp.System(system.model, listed), off, v, tau)
            assert_allclose(found, want, rtol=0, atol=100 * gap * np.abs(want).max())


def test_rows_that_contradict_each_other_are_still_told(backend):
    system = guided(backend)
    q, nv = leaning(system, TILTS), system.model.nv
    rest = np.zeros(nv)
    ask = np.array([0.0, 1.0])
    with pytest.raises(pp.errors.SingularMatrixError, match=r"between 'plate'") as caught:
        pp.forward_dynamics(system, q, rest, rest, row_acceleration=ask, return_multipliers=True)
    assert f"element [{len(TILTS) - 1}]" in str(caught.value)
    for i in range(len(TILTS) - 1):  # hard to do, but not impossible
        vdot, _, _ = pp.forward_dynamics(
            system, q[i], rest, rest, row_acceleration=ask, return_multipliers=True
        )
        assert_allclose(system.jacobian(q[i]) @ vdot + system.bias(q[i], rest), ask, atol=1e-5)


def test_the_status_of_a_batch(backend):
    system = guided(backend)
    q, rest = leaning(system, TILTS), np.zeros(system.model.nv)
    pp.forward_dynamics(
        system, q[0], rest, rest, row_acceleration=[0.0, 0.0], return_multipliers=True
    )
    from phipsi.algorithms.dynamics.dynamics_expressions import forward_with_rows

    program = pp.compile(forward_with_rows(None, False, True), system)
    (vdot, f), status = program(q, rest, rest, [0.0, 1.0], on_error="nan")
    np.testing.assert_array_equal(status != 0, TILTS == 0)
    np.testing.assert_array_equal(np.isnan(vdot).any(-1), TILTS == 0)
    assert np.isfinite(f[:-1]).all()


def test_admissible_states_of_redundant_systems_are_not_in_doubt(monkeypatch):
    """On the constraints elimination alone decides: nothing is solved twice."""
    from phipsi.algorithms.dynamics import constraint_forces

    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    called = []
    kept = constraint_forces.ConstraintMetric
    monkeypatch.setattr(
        constraint_forces, "ConstraintMetric", lambda *a: called.append(1) or kept(*a)
    )
    system = bricard()
    rng = np.random.default_rng(2)
    q = pp.simulate(system, np.zeros(5), np.zeros(5), 0.4).q[-1]
    q, _ = system.project(q, np.zeros(5))
    for _ in range(5):
        v, tau = admissible(system, q, rng), rng.standard_normal(5)
        pp.forward_dynamics(system, q, v, tau)
    assert not called


def test_expressions_of_users_say_what_they_left_out(backend):
    """Named functions decide by singular values; an inverse as such has no other rows to ask."""
    system = guided(backend)
    q = leaning(system, TILTS)
    J_A = ops.A @ ops.J
    x = ops.mass_matrix.inv @ J_A.T @ (ops.A @ ops.Lambda @ ops.A.T).inv @ J_A @ ops.v
    program = pp.compile(x, system)
    v = np.random.default_rng(2).standard_normal((len(TILTS), system.model.nv))
    result, status = program(q, v, on_error="nan")
    assert np.isfinite(result).all()  # doubts keep their numbers
    assert set((status % 8).tolist()) == {0, DOUBTFUL}
    in_doubt = int(np.flatnonzero(status)[0])
    name = system.row_names[int(status[in_doubt]) // 8 - 1]
    with pytest.warns(pp.errors.PhipsiWarning, match=rf"{name}(.|\n)*element \[{in_doubt}\]"):
        warned = program(q, v)
    np.testing.assert_array_equal(warned, result)
    fine = np.flatnonzero(status == 0)
    program(q[fine], v[fine])  # without a warning, which would be an error here
