"""The NumPy side of the bridges: tangents and pullbacks by components, against differences."""

import numpy as np
import pytest
from comparers import EPS, within
from known_systems import pinned_four_bar
from random_models import chain, model_from_parents

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import (
    FORWARD_DYNAMICS,
    INVERSE_DYNAMICS,
    forward_with_rows,
)
from phipsi.algorithms.dynamics.energy import KINETIC_ENERGY
from phipsi.core.model.points import point_set
from phipsi.errors import InputError, SpaceError
from phipsi.learning.coordinate_maps import CoordinateMaps
from phipsi.learning.differentiable import (
    ExpressionBridge,
    FrameworkFunctions,
    PosesBridge,
    RolloutBridge,
    SimulatorBridge,
)
from phipsi.operators import A, B, D, H, J, M, P, V, f0, f_ext, mass_matrix, phi, psi, tau, v

STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}


def curved(seed=0):
    kinds = ["free", "spherical", "revolute", "planar", "composite"]
    return model_from_parents([-1, 0, 1, 0, 3], seed, kinds, armature=True)


def difference(value, h=2e-3):
    return [
        sum(c / h * (value(k * h)[i] - value(-k * h)[i]) for k, c in STENCIL.items())
        for i in range(len(value(0.0)))
    ]


close = within(4.5e7 * EPS, 1e-3)


def arguments(bridge, model, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    out = []
    for name, core in zip(bridge.names, bridge.core, strict=True):
        if name in ("q", "q0"):
            out.append(model.random_configuration(rng, batch))
        else:
            out.append(rng.standard_normal((*batch, *core)))
    return out


def check(bridge, model, *, long=False, batch=(2,), tangent=True):
    """Components of q are moved freely, quaternions off the unit sphere included."""
    rng = np.random.default_rng(7)
    inputs = arguments(bridge, model, 1, batch)
    changes = [rng.standard_normal(x.shape) for x in inputs]
    out = bridge.value(inputs)
    assert [x.shape for x in out] == [(*batch, *s) for s in bridge.results]

    def moved(s):
        return bridge.value([x + s * d for x, d in zip(inputs, changes, strict=True)])

    slope = difference(moved)
    if tangent:
        for mine, theirs in zip(bridge.tangent(inputs, changes), slope, strict=True):
            close(mine, theirs)
    weights = [rng.standard_normal(x.shape) for x in out]
    pulled = bridge.pullback(inputs, weights)
    assert [g.shape for g in pulled] == [x.shape for x in inputs]
    left = sum(np.sum(g * d) for g, d in zip(pulled, changes, strict=True))
    right = sum(np.sum(w * d) for w, d in zip(weights, slope, strict=True))
    close(left, right, 1e-8)


def test_coordinate_maps():
    model = curved()
    maps = CoordinateMaps(model)
    rng = np.random.default_rng(0)
    q = 1.3 * model.random_configuration(rng, (4,))  # not unit
    w, g = rng.standard_normal((4, model.nv)), rng.standard_normal((4, model.nq))
    N = np.stack([model.qdot(q, e) for e in np.eye(model.nv)], axis=-1)
    close(maps.adjoint(q, g), np.einsum("kij,ki->kj", N, g), 1e-13)
    pinv = np.linalg.pinv(N)
    close(maps.rates(q, g), np.einsum("kij,kj->ki", pinv, g), 1e-12)
    close(maps.gradient(q, w), np.einsum("kij,ki->kj", pinv, w), 1e-12)
    flat = CoordinateMaps(chain(3, 0, ["revolute"]))
    assert flat.rates(w, w) is w


@pytest.mark.parametrize(
    "expr",
    [FORWARD_DYNAMICS, INVERSE_DYNAMICS, KINETIC_ENERGY, mass_matrix.inv @ tau, M @ V, phi @ f_ext],
    ids=str,
)
def test_expressions(expr):
    model = curved()
    check(ExpressionBridge(expr, model, None, None), model)


def test_articulated_quantities():
    """P, D, G and ψ: derivatives by q that are no operators, in both directions."""
    model = curved()
    for expr in (psi.T @ H.T @ D.inv @ tau, P @ V):
        check(ExpressionBridge(expr, model, None, None), model)


def linkage():
    system, q = pinned_four_bar()
    return system, q, system.project(q, np.ones(3))[1]


def test_systems():
    """Expressions with constraint rows, and whole motions; along changes that keep the loops."""
    system, q, v_ = linkage()
    u = np.array([1.0, -2.0, 0.5])
    functions = FrameworkFunctions(lambda bridge: lambda *x: bridge.value(x))
    (found,) = functions.forward_dynamics(system, q, v_, u)
    close(found, pp.forward_dynamics(system, q, v_, u))
    with pytest.raises(pp.errors.InputError, match=r"(?s)inverse_dynamics is for trees.*'pin'"):
        functions.inverse_dynamics(system, q, v_, u)
    check_at = [
        (
            ExpressionBridge(forward_with_rows(None, False, False)[0], system, None, None),
            [q, v_, u],
        ),
        (ExpressionBridge(A @ J @ v, system, None, None), [q, v_]),
    ]
    rng = np.random.default_rng(0)
    for bridge, inputs in check_at:
        changes = [rng.standard_normal(x.shape) for x in inputs]
        weights = [rng.standard_normal(s) for s in bridge.results]

        def moved(s, bridge=bridge, inputs=inputs, changes=changes):
            return bridge.value([x + s * d for x, d in zip(inputs, changes, strict=True)])

        slope = difference(moved)
        close(bridge.tangent(inputs, changes)[0], slope[0])
        pulled = bridge.pullback(inputs, weights)
        left = sum(np.sum(g * d) for g, d in zip(pulled, changes, strict=True))
        close(left, np.sum(weights[0] * slope[0]))
    bridge = RolloutBridge(system, 0.02, 5, "rk4")
    efforts, d = rng.standard_normal((2, 5, 3))
    weights = [rng.standard_normal(s) for s in bridge.results]
    by_tau = bridge.pullback([q, v_, efforts], weights)[2]
    slope = difference(lambda s: bridge.value([q, v_, efforts + s * d]))
    close(np.sum(by_tau * d), sum(np.sum(w * x) for w, x in zip(weights, slope, strict=True)))
    with pytest.raises(InputError, match=r"system\.model"):
        functions.inverse_dynamics(system, q, v_, u)


def test_points():
    model = curved(1)
    points = [(model.body_names[-1], (0.1, 0.2, 0.3)), model.body_names[1]]
    for expr in (J @ v, B @ f0 + 2 * phi @ B @ f0):
        check(ExpressionBridge(expr, model, points, None), model)


def test_poses():
    model = curved(2)
    frames = [model.body_names[-1], (model.body_names[1], (0.1, 0.0, -0.3))]
    bridge = PosesBridge(model, point_set(model, frames), None)
    check(bridge, model, batch=(2, 3))


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4"])
def test_rollout(integrator):
    model = chain(3, 1, ["revolute", "prismatic", "universal"])
    bridge = RolloutBridge(model, 0.02, 7, integrator)
    check(bridge, model, tangent=False)
    with pytest.raises(InputError, match="reverse-mode"):
        inputs = arguments(bridge, model)
        bridge.tangent(inputs, inputs)


def test_rollout_on_the_group():
    """Along changes that keep quaternions unit, since a rollout refuses others."""
    model = curved(3)
    bridge = RolloutBridge(model, 0.02, 6, "rk4")
    rng = np.random.default_rng(0)
    q, v, tau = arguments(bridge, model, 2)
    d = rng.standard_normal(model.nv)
    weights = [rng.standard_normal(s) for s in bridge.results]
    by_q, _, _ = bridge.pullback([q, v, tau], weights)

    def moved(s):
        out = bridge.value([model.integrate(q, s * d), v, tau])
        return [sum(np.sum(w * x) for w, x in zip(weights, out, strict=True))]

    close(by_q @ model.qdot(q, d), difference(moved)[0], 1e-8)


def test_quaternions_of_single_precision():
    """Frameworks have float32 by default, and a rollout takes quaternions that are unit to 1e-8."""
    model = curved(3)
    bridge = RolloutBridge(model, 0.02, 3, "rk4")
    inputs = arguments(bridge, model, 2, (4,))
    single = [x.astype(np.float32) for x in inputs]
    with pytest.raises(InputError, match="rotations have unit quaternions"):
        bridge.value([x.astype(float) for x in single])
    for got, want in zip(bridge.value(bridge.doubles(single)), bridge.value(inputs), strict=True):
        close(got, want, 1e-6)
    same = bridge.doubles(inputs)
    assert all(x.tobytes() == y.tobytes() for x, y in zip(same, inputs, strict=True))
    long = [np.float32(1.00001) * single[0], *single[1:]]
    with pytest.raises(InputError, match="rotations have unit quaternions"):
        bridge.value(bridge.doubles(long))
    sim = pp.Simulator(model, [pp.forces.JointDamper(None, 0.4)], 1e-2)
    bridge = SimulatorBridge(sim, 3, 1, ("q",), ())
    (got,) = bridge.value(bridge.doubles(single))
    close(got, bridge.value(inputs)[0], 1e-6)


def test_what_is_refused():
    model = chain(2, 0, ["revolute"])
    with pytest.raises(SpaceError, match="vector or scalar expression"):
        ExpressionBridge(mass_matrix, model, None, None)
    with pytest.raises(SpaceError, match="vector or scalar expression"):
        ExpressionBridge(pp.operators.pose, model, None, None)
    bridge = ExpressionBridge(FORWARD_DYNAMICS, model, None, None)
    with pytest.raises(InputError, match="q has shape"):
        bridge.batch([(3,), (2,), (2,)])
    with pytest.raises(InputError, match="the inputs are"):
        bridge.batch([(2,), (2,)])
    with pytest.raises(InputError, match="do not broadcast"):
        bridge.batch([(4, 2), (3, 2), (2,)])
    assert bridge.batch([(4, 1, 2), (3, 2), (2,)]) == (4, 3)


def test_the_functions_of_a_framework():
    """Wrapped for NumPy, they are the functions of phipsi; what they compile is kept."""
    made = []

    def wrap(bridge):
        made.append(bridge)
        return lambda *x: bridge.value(x) if len(bridge.results) > 1 else bridge.value(x)[0]

    functions, model = FrameworkFunctions(wrap), curved(4)
    rng = np.random.default_rng(5)
    q = model.random_configuration(rng)
    v, u = rng.standard_normal((2, model.nv))
    places = [model.body_names[0], (model.body_names[-1], np.array([0.1, 0.2, 0.3]))]
    force = np.tile(u, (4, 1))
    for _ in range(2):
        for name in ("forward_dynamics", "inverse_dynamics"):
            close(getattr(functions, name)(model, q, v, u), getattr(pp, name)(model, q, v, u))
        close(functions.kinetic_energy(model, q, v), pp.kinetic_energy(model, q, v))
        close(functions.poses(model, q, places), pp.poses(model, q, places))
        states = functions.rollout(model, q, v, force, 0.01, integrator="rk4")
        wanted = pp.rollout(model, q, v, force, 0.01, 4, integrator="rk4")
        for got, want in zip(states, wanted, strict=True):
            close(got, want)
    assert len(made) == 5
    solve = functions.function(mass_matrix.inv @ tau, model)
    assert solve.inputs == ("q", "tau")
    close(solve(q, u), np.linalg.solve(pp.mass_matrix(model, q), u))
    with pytest.raises(pp.errors.ModelError, match="must be a list"):
        functions.poses(model, q, model.body_names[0])


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_missing_libraries_are_named(name, monkeypatch):
    """Importing the bridge needs nothing; using it says what to install."""
    import importlib
    import sys

    module = importlib.import_module(f"phipsi.{name}")
    for loaded in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"phipsi\[{name}\]"):
        module.function(FORWARD_DYNAMICS, chain(1, 0, ["revolute"]))
