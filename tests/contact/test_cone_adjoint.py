"""Derivatives of impulses against differences, and in machine code against arrays."""

from dataclasses import replace

import numpy as np
import pytest
from compiled_graphs import compiled
from cone_problems import mixed_problems, random_problems, stack
from numpy.testing import assert_allclose, assert_array_equal

from phipsi.contact.solver.contact_problem import INACTIVE
from phipsi.contact.solver.contact_solver import solve, solve_rebound
from phipsi.contact.solver.contact_solver_calls import ContactSolve
from phipsi.contact.solver.contact_solver_derivatives import (
    AdjointCall,
    SmoothedCall,
    cone_adjoint,
    smoothed_adjoint,
)
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.primitive_calls import call

STEP = 2e-4


def is_strict(problem, p):
    """Whether no contact is near another mode."""
    layout, u = problem.layout, problem.velocities(p)
    own = np.einsum("...ii->...i", problem.W)
    near = np.full(problem.batch, np.inf)
    for head, row in enumerate(layout.normals):
        near = np.minimum(
            near, np.abs(p[..., row] * own[..., row] - u[..., row] - problem.s[..., head])
        )
    for head, rows in layout.groups:
        mu = problem.coefficients[..., list(rows)]
        top = p[..., layout.normals[head]] if head >= 0 else 1.0
        slack = top - np.linalg.norm(p[..., list(rows)] / mu, axis=-1)
        fast = np.linalg.norm(mu * u[..., list(rows)], axis=-1)
        closed = np.abs(top) > 0
        near = np.where(closed, np.minimum(near, np.abs(slack) + fast), near)
    return near > 0.02


def differences(run, x, moved):
    """Central differences along a direction, with an error of the order STEP⁶."""
    near, far, further = (run(x + k * STEP * moved) - run(x - k * STEP * moved) for k in (1, 2, 3))
    return (45 * near - 9 * far + further) / (60 * STEP)


def differences_at_once(run, x, moved):
    """The same, of a function of so many problems that all places are one call."""
    found = run(np.concatenate([x + k * STEP * moved for k in (1, -1, 2, -2, 3, -3)]))
    ahead, behind = np.moveaxis(found.reshape(3, 2, *x.shape[:1], *found.shape[1:]), 1, 0)
    near, far, further = ahead - behind
    return (45 * near - 9 * far + further) / (60 * STEP)


@pytest.mark.parametrize("make", [lambda rng: random_problems(rng, 4, 40),
                                  lambda rng: mixed_problems(rng, 40)])  # fmt: skip
def test_derivatives_agree_with_differences(make):
    rng = np.random.default_rng(0)
    problem = make(rng)
    p = solve(problem, tolerance=1e-14).p
    strict = is_strict(problem, p)
    assert strict.sum() >= 12
    n, k = problem.layout.n_rows, problem.layout.n_heads
    count = len(p)
    weight = rng.standard_normal((count, n))
    to_b, to_s, to_mu = cone_adjoint(problem, p, weight)
    to_W = to_b[:, :, None] * p[:, None, :]
    half = rng.standard_normal((count, n, n))
    moves = {
        "W": (half + half.swapaxes(1, 2), to_W), "b": (rng.standard_normal((count, n)), to_b),
        "s": (rng.standard_normal((count, k)), to_s),
        "coefficients": (rng.standard_normal((count, n)), to_mu),
    }  # fmt: skip
    for name, (moved, found) in moves.items():

        def run(x, name=name):
            return solve(replace(problem, **{name: x}), p, tolerance=1e-14).p

        dp = differences(run, getattr(problem, name), moved)
        wanted = np.sum(weight * dp, axis=1)
        axes = tuple(range(1, found.ndim))
        ours = np.sum(found * moved, axis=axes)
        size = 1 + np.abs(wanted)
        assert np.abs((ours - wanted) / size)[strict].max() <= 1e-9, name
    wrong = cone_adjoint(
        replace(problem, coefficients=problem.coefficients * (1 + 1e-6)), p, weight
    )
    assert np.abs(wrong[0] - to_b)[strict].max() > 1e-7  # a twin


def test_velocities_of_indeterminate_contacts_have_derivatives():
    problem = stack([1.0], 0.01, push=0.5)
    p = solve(problem, tolerance=1e-14).p
    rng = np.random.default_rng(1)
    moved = problem.W @ rng.standard_normal(problem.layout.n_rows)  # of bodies
    v = rng.standard_normal(problem.layout.n_rows)  # weight of u = W p + b
    to_b = cone_adjoint(problem, p, problem.W @ v)[0] + v

    def run(b):
        changed = replace(problem, b=b)
        return changed.velocities(solve(changed, p, tolerance=1e-14).p)

    du = differences(run, problem.b, moved)
    assert_allclose(to_b @ moved, v @ du, rtol=1e-7)


def in_lanes(callee, shapes, arrays, lanes):
    """The results of a callee, in groups of lanes."""
    nodes = [ops.input(name, shape) for name, shape in shapes.items()]
    run, parts = compiled(call(callee, *nodes), lanes, False), []
    for i in range(0, len(arrays[0]), lanes):
        given = (x[i : i + lanes] for x in arrays)
        parts.append(run(dict(zip(shapes, given, strict=True))))
    return [np.concatenate(x) for x in zip(*parts, strict=True)]


@pytest.mark.parametrize("smoothing", [0.0, 1e-3])
def test_machine_code_agrees_with_arrays(smoothing):
    rng = np.random.default_rng(2)
    problem = mixed_problems(rng, 8)
    s = problem.s.copy()
    s[3, [0, 3]] = s[5, 1] = 2 * INACTIVE
    problem = replace(problem, s=s)
    layout, weight = problem.layout, rng.standard_normal((8, problem.layout.n_rows))
    n, k = layout.n_rows, layout.n_heads
    shapes = {"W": (n, n), "b": (n,), "s": (k,), "mu": (n,), "p": (n,), "weight": (n,)}
    arrays = [problem.W, problem.b, s, problem.coefficients, solve(problem).p, weight]
    callee = AdjointCall(layout)
    if smoothing:
        callee = SmoothedCall(layout, smoothing)
        del shapes["p"], arrays[4]
    whole, alone = (in_lanes(callee, shapes, arrays, lanes) for lanes in (4, 1))
    for one, other, known in zip(whole, alone, callee.arrays(*arrays), strict=True):
        assert_array_equal(one, other)
        assert_allclose(one, known, rtol=1e-9, atol=1e-10 * np.abs(known).max())
    arrays[3] = arrays[3] * (1 + 1e-6)  # the twin: another friction
    twin, size = callee.arrays(*arrays)[0], np.abs(whole[0]).max()
    assert np.abs(twin - whole[0]).max() > 1e-7 * size


@pytest.mark.parametrize("smoothing", [0.0, 1e-3])
def test_rows_that_share_no_body_are_not_read(smoothing):
    """What is between them in W may be anything: it is never written."""
    rng = np.random.default_rng(4)
    first = random_problems(rng, 4, 8)
    layout, n, k = first.layout, first.layout.n_rows, first.layout.n_heads
    owner = np.searchsorted(layout.normals, np.arange(n))  # the contact of every row
    apart = owner[:, None] // 2 != owner // 2  # two bodies, with two contacts each
    problem = replace(first, W=np.where(apart, 0.0, first.W))
    poisoned = np.where(apart, np.nan, first.W)
    weight = rng.standard_normal((8, n))
    shapes = {"W": (n, n), "b": (n,), "s": (k,), "mu": (n,), "p": (n,), "weight": (n,)}
    arrays = [problem.W, problem.b, problem.s, problem.coefficients, solve(problem).p, weight]
    masks = (1, 1, 2, 2)
    plain, masked = AdjointCall(layout), AdjointCall(layout, masks)
    if smoothing:
        plain, masked = SmoothedCall(layout, smoothing), SmoothedCall(layout, smoothing, masks)
        del shapes["p"], arrays[4]
    want = in_lanes(plain, shapes, arrays, 4)
    got = in_lanes(masked, shapes, [poisoned, *arrays[1:]], 4)
    for one, other in zip(got, want, strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(other).max())
    spoiled = in_lanes(plain, shapes, [poisoned, *arrays[1:]], 4)[0]
    assert not np.allclose(spoiled, want[0], rtol=1e-3)


@pytest.mark.parametrize("make", [lambda rng: random_problems(rng, 4, 20),
                                  lambda rng: mixed_problems(rng, 20)])  # fmt: skip
def test_smoothed_derivatives(make):
    rng = np.random.default_rng(3)
    problem = make(rng)
    n, kappa = problem.layout.n_rows, 1e-2
    weight, exact = rng.standard_normal((20, n)), solve(problem).p
    errors = []
    for level in (1e-3, 1e-5, 1e-7):
        found = smoothed_adjoint(problem, level, weight)
        assert not found.status.any()
        errors.append(np.median(np.abs(found.p - exact).max(axis=1)))
    assert_allclose(errors, errors[0] * np.array([1, 1e-2, 1e-4]), rtol=0.5)
    found = smoothed_adjoint(problem, kappa, weight)
    assert (found.p[:, problem.layout.normals] > 0).all()  # open contacts push, too
    to_W = found.to_b[:, :, None] * found.p[:, None, :]
    named = {"W": to_W, "b": found.to_b, "s": found.to_s, "coefficients": found.to_mu}
    for name, value in named.items():
        moved = rng.standard_normal(value.shape)
        moved = moved + np.swapaxes(moved, 1, 2) if name == "W" else moved

        def run(x, name=name):
            return smoothed_adjoint(replace(problem, **{name: x}), kappa, weight).p

        dp = differences(run, getattr(problem, name), moved)
        wanted = np.sum(weight * dp, axis=1)
        ours = np.sum(value * moved, axis=tuple(range(1, moved.ndim)))
        bounds = {"rtol": 1e-7, "atol": 1e-8 * np.abs(wanted).max()}
        assert_allclose(ours, wanted, **bounds, err_msg=name)
        assert not np.allclose(ours * (1 + 1e-6), wanted, **bounds)  # a twin


def test_graphs_take_smoothed_derivatives():
    problem = random_problems(np.random.default_rng(5), 2, 3)
    shapes = {"W": (6, 6), "b": (6,), "s": (2,), "mu": (6,), "start": (6,)}
    nodes = [ops.input(name, shape) for name, shape in shapes.items()]
    weight = ops.constant(np.arange(6.0))
    p = call(ContactSolve(problem.layout, smoothing=1e-2), *nodes)[0]
    arrays = (problem.W, problem.b, problem.s, problem.coefficients, np.zeros((3, 6)))
    back = [x for x in adjoints([p], [weight], nodes) if x is not None]
    given = dict(zip(shapes, arrays, strict=True))
    found = smoothed_adjoint(problem, 1e-2, np.arange(6.0))
    wanted = (found.to_b[:, :, None] * found.p[:, None, :], found.to_b, found.to_s, found.to_mu)
    for one, other in zip(evaluate(back, given), wanted, strict=False):
        assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    twin = smoothed_adjoint(problem, 1e-2 * (1 + 1e-6), np.arange(6.0))
    assert not np.allclose(twin.to_b, found.to_b, rtol=1e-9, atol=1e-12)


def test_graphs_go_back_through_rebounds():
    rng = np.random.default_rng(4)
    problem = random_problems(rng, 3, 40)
    before = problem.b[:, problem.layout.normals]
    calm = np.zeros((40, 3))
    s = np.where(before < 0, before, 0.0)
    problem = replace(problem, s=s)
    found, share = solve_rebound(problem, calm, tolerance=1e-14)
    chosen = np.flatnonzero((share < 1) & (share > 0.01))[:2]
    chosen = np.concatenate([chosen, np.flatnonzero(share == 1)[:2]])
    assert (share[chosen] < 1).sum() >= 2
    W, b, mu = problem.W[chosen], problem.b[chosen], problem.coefficients[chosen]
    s, calm = s[chosen], calm[chosen]
    n = 9
    shapes = {"W": (n, n), "b": (n,), "s": (3,), "calm": (3,), "mu": (n,), "start": (n,)}
    nodes = {name: ops.input(name, shape) for name, shape in shapes.items()}
    weight = ops.input("weight", (n,))
    callee = ContactSolve(problem.layout, 1e-14, rebounds=True)
    p = call(callee, *nodes.values())[0]
    inputs = tuple(nodes[x] for x in ("W", "b", "s", "calm", "mu"))
    back = adjoints([p], [weight], inputs)
    known = {"W": W, "b": b, "s": s, "calm": calm, "mu": mu, "start": found.p[chosen]}
    known["weight"] = rng.standard_normal((len(chosen), n))
    values = evaluate(back, known)
    repeated = {name: np.concatenate([x] * 6) for name, x in known.items()}
    for name, value in zip(
        ("W", "b", "s", "mu"), (values[0], values[1], values[2], values[4]), strict=True
    ):
        moved = rng.standard_normal(known[name].shape)
        moved = moved + np.swapaxes(moved, 1, 2) if name == "W" else moved

        def run(x, name=name):
            return callee.arrays(*({**repeated, name: x}[y] for y in shapes))[0]

        dp = differences_at_once(run, known[name], moved)
        wanted = np.sum(known["weight"] * dp, axis=1)
        ours = np.sum(value * moved, axis=tuple(range(1, moved.ndim)))
        assert_allclose(ours, wanted, rtol=1e-7, atol=1e-7, err_msg=name)
