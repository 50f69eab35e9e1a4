"""Derivatives of steps and gradients of motions, against complex steps and differences."""

from functools import cache

import numpy as np
import pytest
from amounts import mostly, seeds
from comparers import proportional as close
from differences import slope
from random_models import ALL, chain, model_from_parents, random_state as state

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.algorithms.kinematics.exponential_chart import Chart
from phipsi.core.spatial import skew
from phipsi.errors import InputError
from phipsi.simulation.analysis.step_derivatives import step_derivatives
from phipsi.simulation.runs import gradients
from phipsi.simulation.runs.gradients import rollout_gradient

pytestmark = pytest.mark.usefixtures(
    "interpreted"
)  # derivatives of many mechanisms; rollouts are machine code anyway

INTEGRATORS = ("semi_implicit", "rk4")
# derivative at 0 from values at ±1 … ±4 steps, exact for polynomials of degree 8
FLAT = ["revolute", "prismatic", "helical", "universal", "cylindrical", "translation"]
STEP = 1e-30


def inertia_by_parameter(i):
    """∂M/∂π of one body, π = [m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz]."""
    M = np.zeros((6, 6))
    if i == 0:
        M[3:, 3:] = np.eye(3)
    elif i < 4:
        M[:3, 3:] = skew(np.eye(3)[i - 1])
        M[3:, :3] = -M[:3, 3:]
    else:
        row, column = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)][i - 4]
        M[row, column] = M[column, row] = 1
    return M


def mixed(seed=3):
    kinds = ["free", "spherical", "revolute", "planar", "composite", "universal"]
    return model_from_parents([-1, 0, 1, 0, 3, 1], seed, kinds, armature=True)


# ---- the group -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-6, 0.3, 2.0])
def test_chart_matrices(size):
    """T, Jr and dexp⁻¹ by differences on the manifold."""
    model = mixed()
    chart = Chart(model)
    q, z, d = state(model)
    z = size * z / np.abs(z).max()
    end = model.integrate(q, z)
    by_base = slope(lambda s: model.difference(end, model.integrate(model.integrate(q, s * d), z)))
    close(chart.transport(z) @ d, by_base, 2e-10)
    by_z = slope(lambda s: model.difference(end, model.integrate(q, z + s * d)))
    close(chart.right(z) @ d, by_z, 2e-10)
    close(chart.rate_matrix(z) @ chart.right(z), np.eye(model.nv), 1e-13)
    start = chart.start(q)
    rel = z.copy()
    rel[np.setdiff1d(np.arange(model.nv), chart.curved)] = 0
    _, _, v = state(model, 8)
    numeric = slope(lambda s: chart.rate(start + rel + s * d, v))
    close(chart.rate_change(rel, v) @ d, numeric, 2e-10)
    both = chart.transport(np.stack([z, 0 * z]))
    close(both[1], np.eye(model.nv))
    close(chart.rate_matrix(z), chart.rate_matrix(start + rel), 1e-14)


# ---- one step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("seed", seeds(4))
def test_step_on_curved_joints(integrator, seed):
    model = mixed(seed) if seed else model_from_parents([-1, 0, 1, 1, 3, -1, 5], 5, ALL)
    q, v, tau = state(model, seed)
    dt, n = 0.05, model.nv
    A, B = step_derivatives(model, q, v, tau, dt, integrator=integrator)

    def end(q, v, tau):
        Q, V = pp.rollout(model, q, v, tau, dt, 1, integrator=integrator)
        return Q[-1], V[-1]

    q1, v1 = end(q, v, tau)
    d = np.random.default_rng(seed).standard_normal((3, n))

    def moved(s):
        Q, V = end(model.integrate(q, s * d[0]), v + s * d[1], tau + s * d[2])
        return np.concatenate([model.difference(q1, Q), V - v1])

    close(A @ d[:2].ravel() + B @ d[2], slope(moved), 1e-9, np.abs(A).max())


def complex_rollout(model, q, v, tau, dt, steps, integrator, forward):
    """The same formulas in complex arithmetic, for joints with q̇ = v."""
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], tau.shape[:-2])
    q, v = (np.broadcast_to(x, (*batch, model.nv)) for x in (q, v))
    Q, V = [q], [v]
    for k in range(steps):
        u = tau[..., k, :]
        if integrator == "semi_implicit":
            v = v + dt * forward(q, v, u)
            q = q + dt * v
        else:
            k1 = v, forward(q, v, u)
            k2 = v + dt / 2 * k1[1], forward(q + dt / 2 * k1[0], v + dt / 2 * k1[1], u)
            k3 = v + dt / 2 * k2[1], forward(q + dt / 2 * k2[0], v + dt / 2 * k2[1], u)
            k4 = v + dt * k3[1], forward(q + dt * k3[0], v + dt * k3[1], u)
            q = q + dt / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
            v = v + dt / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        Q.append(q)
        V.append(v)
    return np.stack(Q, -2), np.stack(V, -2)


def reference(model):
    program = pp.compile(FORWARD_DYNAMICS, model, backend="reference")
    return lambda q, v, tau: program(q, v, tau)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_step_by_complex_steps(integrator):
    model = chain(4, 2, FLAT, armature=True)
    q, v, tau = state(model)
    n = model.nv
    A, B = step_derivatives(model, q, v, tau, 0.1, integrator=integrator)
    whole = np.eye(3 * n) * 1j * STEP
    Q, V = complex_rollout(
        model, q + whole[:, :n], v + whole[:, n : 2 * n], (tau + whole[:, 2 * n :])[:, None, :],
        0.1, 1, integrator, reference(model),
    )  # fmt: skip
    columns = np.concatenate([Q[:, 1], V[:, 1]], axis=-1).imag.T / STEP
    close(np.hstack([A, B]), columns, 1e-13)


def test_step_batches(monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    model = chain(3, 0, ["spherical", "revolute", "revolute"])
    q, v, tau = state(model, 1, (2, 3))
    A, B = step_derivatives(model, q, v, tau[0, 0], 0.02, integrator="rk4")
    assert A.shape == (2, 3, 2 * model.nv, 2 * model.nv)
    one = step_derivatives(model, q[1, 2], v[1, 2], tau[0, 0], 0.02, integrator="rk4")
    close(A[1, 2], one[0], 1e-12)
    close(B[1, 2], one[1], 1e-12)
    with pytest.raises(InputError, match="implicit_midpoint"):
        step_derivatives(model, q, v, tau, 0.1, integrator="implicit_midpoint")


# ---- whole motions -------------------------------------------------------------------------------


class Cost:
    """A smooth cost of everything, with its gradient; works for complex numbers too."""

    def __init__(self, model, seed=5):
        rng = np.random.default_rng(seed)
        self.a, self.b, self.c, self.d = rng.standard_normal((4, model.nv))

    def running(self, k, q, v, tau):
        w = np.cos(k)[:, None]
        value = (w * (self.a * np.sin(q) + self.b * v**2 + self.c * tau**2)).sum(-1)
        return value, w * self.a * np.cos(q), 2 * w * self.b * v, 2 * w * self.c * tau

    def final(self, q, v):
        value = (self.d * q**2).sum(-1) + (self.a * v).sum(-1) ** 2
        return value, 2 * self.d * q, 2 * (self.a * v).sum(-1)[..., None] * self.a

    def total(self, q, v, tau):
        steps = tau.shape[-2]
        value = self.running(np.arange(steps), q[..., :-1, :], v[..., :-1, :], tau)[0].sum(-1)
        return value + self.final(q[..., -1, :], v[..., -1, :])[0]


class Motion:
    """Some motion, and the derivatives of its cost by complex steps and differences."""

    steps, dt = 11, 0.05

    def __init__(self, integrator):
        self.integrator = integrator
        model = self.model = chain(3, 1, FLAT, armature=True)
        rng = np.random.default_rng(0)
        steps, n = self.steps, model.nv
        self.q, self.v = q, v = 0.3 * rng.standard_normal((2, n))
        self.tau = tau = rng.standard_normal((steps, n))
        self.cost, forward = Cost(model), reference(model)

        def total(q, v, tau, forward=forward):
            Q, V = complex_rollout(model, q, v, tau, self.dt, steps, integrator, forward)
            return self.cost.total(Q, V, tau)

        self.value = total(q, v, tau)
        eye = np.eye(n) * 1j * STEP
        self.by_q = total(q + eye, v, tau[None]).imag / STEP
        self.by_v = total(q, v + eye, tau[None]).imag / STEP
        every = (np.eye(steps * n) * 1j * STEP).reshape(-1, steps, n)
        self.by_tau = total(q, v, tau + every).imag / STEP

        given = pp.compile(FORWARD_DYNAMICS, model, inputs=("M",), backend="reference")
        count = 10 * model.n_bodies
        M = np.stack([model.inertia_matrices + 0j] * count)
        for i in range(count):
            M[i, i // 10] += 1j * STEP * inertia_by_parameter(i % 10)
        some = np.zeros((count, 1)) + q, np.zeros((count, 1)) + v, np.stack([tau] * count)
        self.by_inertia = total(*some, lambda q, v, u: given(q, v, u, M)).imag / STEP
        self.by_rotor = [slope(self.with_rotor(i), 1e-3) for i in range(n)]

    def with_rotor(self, i):
        model = self.model
        p, unit = pp.identification.inertial_parameters(model), np.eye(model.nv)[i]

        def total(x):
            other = model.with_inertial_parameters(p, armature=model.armature + x * unit)
            Q, V = pp.rollout(
                other, self.q, self.v, self.tau, self.dt, self.steps, integrator=self.integrator
            )
            return self.cost.total(Q, V, self.tau)

        return total


motion = cache(Motion)  # one for all lengths of segments


@pytest.mark.parametrize("segment", [None, 1, 4, 11, 100])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_gradient_by_complex_steps(integrator, segment):
    m = motion(integrator)
    found = rollout_gradient(
        m.model, m.q, m.v, m.tau, m.dt, m.steps, running=m.cost.running, final=m.cost.final,
        integrator=integrator, segment=segment, parameters=True,
    )  # fmt: skip
    close(found.cost, m.value, 1e-12)
    close(found.q0, m.by_q, 1e-12)
    close(found.v0, m.by_v, 1e-12)
    close(found.tau.ravel(), m.by_tau, 1e-12)
    assert found.parameters is not None
    want = np.concatenate([m.by_inertia, m.by_rotor])
    assert len(found.parameters) == len(want)
    for i, (x, y) in enumerate(zip(found.parameters, want, strict=True)):
        close(x, y, 1e-10 if i < len(m.by_inertia) else 1e-8, 1.0)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("seed", mostly([1, 2], 1))
def test_gradient_on_curved_joints(integrator, seed):
    """Cost: distance of a point and rates; derivative along a random change of everything."""
    model = mixed(seed)
    rng = np.random.default_rng(seed)
    steps, dt, n, batch = 7, 0.02, model.nv, (2, 1)
    q, v, _ = state(model, seed, batch)
    tau = rng.standard_normal((*batch, steps, n))
    body = [model.body_names[-1]]
    weights = rng.standard_normal(n)

    def running(k, q, v, tau):
        place = pp.poses(model, q, body)[..., 0, :3, 3]
        J = pp.jacobian(model, q, body)[..., 3:, :]
        by_q = (place[..., None, :] @ J)[..., 0, :]
        return (place**2).sum(-1) / 2 + (weights * v**2).sum(-1), by_q, 2 * weights * v, None

    def final(q, v):
        value, by_q, by_v, _ = running(None, q, v, None)
        return value, by_q, by_v

    found = rollout_gradient(
        model, q, v, tau, dt, steps, running=running, final=final, integrator=integrator
    )
    assert found.parameters is None and found.cost.shape == batch
    d = rng.standard_normal((2, *batch, n)), rng.standard_normal((*batch, steps, n))

    def total(s):
        Q, V = pp.rollout(
            model, model.integrate(q, s * d[0][0]), v + s * d[0][1], tau + s * d[1], dt, steps,
            integrator=integrator,
        )  # fmt: skip
        return running(None, Q, V, None)[0].sum(-1)

    close(found.cost, total(0.0), 1e-12)
    mine = (found.q0 * d[0][0] + found.v0 * d[0][1]).sum(-1) + (found.tau * d[1]).sum((-2, -1))
    close(mine, slope(total), 1e-9)


@pytest.fixture
def by_steps(monkeypatch):
    """Gradients by A and B of every step, as where there is no machine code."""
    return lambda: monkeypatch.setattr(gradients, "has_machine_code", lambda: False)


@pytest.mark.parametrize("segment", [None, 3])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_same_by_the_derivatives_of_steps(integrator, segment, by_steps):
    """On all joints, in a batch, by everything; efforts of every step, and constant ones."""
    model = mixed()
    q, v, tau = state(model, 1, (2,))
    weights = np.linspace(-1, 1, model.nv)

    def final(q, v):
        return (weights * v**2).sum(-1), np.broadcast_to(weights, v.shape), 2 * weights * v

    def running(k, q, v, tau):
        return (v**2 + tau**2).sum(-1), None, 2 * v, 2 * tau

    def all_of_it():
        efforts = tau, np.stack([tau, -tau, 2 * tau, tau, tau, -tau, tau], axis=1)
        for effort, per_step in zip(efforts, (False, True), strict=True):
            yield from rollout_gradient(
                model, q, v, effort, 0.01, 7, running=running, final=final, integrator=integrator,
                parameters=True, segment=segment, per_step=per_step,
            )  # fmt: skip

    found = list(all_of_it())
    by_steps()
    for x, y in zip(found, all_of_it(), strict=True):
        close(x, y, 1e-12)


def test_constant_efforts_and_no_steps():
    model = chain(2, 0, ["revolute"])
    q, v, tau = state(model, 0, (3,))
    cost = Cost(model)
    options = {"running": cost.running, "final": cost.final, "integrator": "rk4"}
    constant = rollout_gradient(model, q, v, tau[0], 0.02, 20, **options)
    varying = np.broadcast_to(tau[0], (3, 20, 2))
    every = rollout_gradient(model, q, v, varying, 0.02, 20, **options)
    close(constant.tau, every.tau.sum(-2), 1e-12)
    close(constant.q0, every.q0, 1e-12)
    none = rollout_gradient(model, q, v, tau[0], 0.02, 0, final=cost.final)
    value, by_q, by_v = cost.final(q, v)
    close(none.cost, value)
    close(none.q0, by_q)
    close(none.v0, by_v)
    assert none.tau.shape == (3, 2) and not none.tau.any()
    # as many trajectories as steps: still no doubt which axis is which
    same = rollout_gradient(model, q, v, tau[0], 0.02, 3, final=cost.final)
    each = rollout_gradient(model, q, v, varying[:, :3], 0.02, 3, final=cost.final)
    close(same.tau, each.tau.sum(-2), 1e-12)


def test_what_is_refused():
    model = mixed()
    q, v, tau = state(model)
    with pytest.raises(InputError, match="a cost is missing"):
        rollout_gradient(model, q, v, tau, 0.1, 3)
    with pytest.raises(InputError, match="directions of v"):
        rollout_gradient(model, q, v, tau, 0.1, 3, final=lambda q, v: (0.0, q, None))
    with pytest.raises(InputError, match="three derivatives"):
        rollout_gradient(model, q, v, tau, 0.1, 3, running=lambda k, q, v, u: (0.0, None))
    with pytest.raises(InputError, match="cost that final"):
        rollout_gradient(model, q, v, tau, 0.1, 3, final=lambda q, v: (np.zeros(2), None, None))
    with pytest.raises(InputError, match="segment"):
        rollout_gradient(model, q, v, tau, 0.1, 3, final=lambda q, v: (0.0, None, None), segment=0)
    with pytest.raises(InputError, match="integrator"):
        rollout_gradient(
            model, q, v, tau, 0.1, 3, final=lambda q, v: (0.0, None, None), integrator="dopri"
        )
