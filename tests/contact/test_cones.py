"""Contact problems: every solution is checked by Signorini's and Coulomb's laws themselves."""

from dataclasses import replace

import numpy as np
import pytest
from cone_problems import (
    jammed_problems,
    random_problems,
    rigid_problem,
    stack,
    violations,
    without_sliding_term,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq, minimize

from phipsi.contact.solver import solver_schedule
from phipsi.contact.solver.contact_problem import (
    INACTIVE,
    NOT_FINITE,
    ContactProblem,
    ContactProblemLayout,
    Groups,
    nearest_on_cones,
    residual,
    tolerance_of,
)
from phipsi.contact.solver.contact_solver import solve, solve_rebound
from phipsi.contact.solver.solver_schedule import STARTS, SolverStage
from phipsi.errors import InputError

# ---- corpora: problem, most factorisations (median, largest)

CORPORA = {
    "4 random contacts": (lambda rng: random_problems(rng, 4, 60), 7, 10),
    "8 random contacts": (lambda rng: random_problems(rng, 8, 40), 7, 10),
    "16 random contacts": (lambda rng: random_problems(rng, 16, 10), 8, 10),
    "8 contacts scaled over 3 decades": (lambda rng: random_problems(rng, 8, 40, 3.0), 8, 14),
    "jammed by 8 cones": (lambda rng: jammed_problems(rng, 8, 40), 39, 250),
    "jammed by 16 cones": (lambda rng: jammed_problems(rng, 16, 12), 39, 250),
    "box on the floor": (lambda rng: stack([1.0], 0.01), 4, 4),
    "box sliding": (lambda rng: stack([1.0], 0.01, push=1.0), 6, 6),
    "10 boxes": (lambda rng: stack([1.0] * 10, 0.01), 13, 13),
    "heavy on light, 1 : 1e3": (lambda rng: stack([1.0, 1e3], 0.01), 7, 7),
    "heavy on light, 1 : 1e6": (lambda rng: stack([1.0, 1e6], 0.01), 9, 9),
}


@pytest.mark.parametrize("name", CORPORA)
def test_solutions_obey_the_laws(name):
    make, median, largest = CORPORA[name]
    problem = make(np.random.default_rng(7))
    found = solve(problem)
    assert found.is_solved.all()
    limit = tolerance_of(problem, found.p)
    assert (found.residual <= limit).all()
    assert_allclose(found.residual, residual(problem, found.p), rtol=1e-6, atol=1e-16)
    assert (violations(problem, found.p) <= 20 * limit).all()
    assert np.median(found.iterations) <= median and found.iterations.max() <= largest
    u = problem.velocities(found.p)  # T⁺ − T_f = p*u − ½ p*W p: no energy is gained
    gain = 0.5 * np.sum(found.p * (u + problem.b), axis=-1)
    assert (gain <= 1e-10 * np.sum(np.abs(found.p * problem.b), axis=-1) + 1e-12).all()


@pytest.mark.parametrize("kind", ["normal", "torsion", "rolling"])
def test_all_kinds_of_contacts(kind):
    rng = np.random.default_rng(3)
    layout = ContactProblemLayout((kind, "point", kind), stops=2, limits=2)
    n, k = layout.n_rows, layout.n_heads
    G = rng.standard_normal((30, n, n + 4))
    coefficients = layout.coefficients(
        rng.uniform(0.1, 1, (30, 3)), rng.uniform(0.01, 0.5, (30, 3)),
        rng.uniform(0.01, 0.3, (30, 3)), rng.uniform(0.05, 0.5, (30, 2)),
    )  # fmt: skip
    b = rng.standard_normal((30, n))
    problem = ContactProblem(layout, G @ G.swapaxes(1, 2), b, np.zeros((30, k)), coefficients)
    found = solve(problem)
    assert found.is_solved.all() and violations(problem, found.p).max() <= 1e-9
    # the interior point takes the same side heads
    inside = [solve(problem, rng.standard_normal((30, n))), solve(problem, 100 * np.ones(n))]
    for other in inside:
        assert other.is_solved.all() and violations(problem, other.p).max() <= 1e-9


# ---- the laws as one condition


def made_of_modes(rng, contacts):
    """Problems with a known solution: open, sticking and sliding contacts."""
    layout = ContactProblemLayout(("point",) * contacts)
    mu = rng.uniform(0.1, 1, contacts)
    p, u, s = np.zeros(3 * contacts), np.zeros(3 * contacts), np.zeros(contacts)
    modes = rng.integers(3, size=contacts)
    for i, mode in enumerate(modes):
        t, n = slice(3 * i, 3 * i + 2), 3 * i + 2
        s[i] = rng.uniform(0, 0.3)
        e = rng.standard_normal(2)
        e /= np.linalg.norm(e)
        if mode == 0:
            u[t], u[n] = rng.standard_normal(2), rng.uniform(0, 1) - s[i] + 0.1
        else:
            p[n], u[n] = rng.uniform(0.1, 1), -s[i]
            p[t] = -mu[i] * p[n] * e * (1.0 if mode == 2 else rng.uniform(0, 0.9))
            u[t] = e * rng.uniform(0.1, 1) * (mode == 2)
    G = rng.standard_normal((3 * contacts, 3 * contacts + 6))
    W = G @ G.T
    return ContactProblem(layout, W, u - W @ p, s, layout.coefficients(mu)), p, modes


def test_laws_and_residual_say_the_same():
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem, p, modes = made_of_modes(rng, 5)
        assert residual(problem, p) <= 1e-13 and violations(problem, p) <= 1e-13
        found = solve(problem)
        assert residual(problem, found.p) <= 1e-10
        # a wrong sign, a wrong direction, a wrong size are not solutions
        slides = np.flatnonzero(modes == 2)
        for i in slides:
            turned = p.copy()
            turned[3 * i : 3 * i + 2] *= -1
            bent = p.copy()
            bent[3 * i : 3 * i + 2] += 1e-4 * np.array([-p[3 * i + 1], p[3 * i]])
            for wrong in (turned, bent):
                wrong_b = replace(problem, b=problem.b + problem.W @ (p - wrong))  # the same u
                assert residual(wrong_b, wrong) > 1e-7 and violations(wrong_b, wrong) > 1e-7
        if slides.size:
            other = replace(problem, coefficients=problem.coefficients * (1 + 1e-6))
            assert residual(other, p) > 1e-8 and violations(other, p) > 1e-8


def test_the_interior_point_finds_contacts_that_touch_without_force(monkeypatch):
    """They are between two modes: p_n and u_n of the interior point are both √κ."""
    attempts = [SolverStage(size) for size in STARTS[:3]]
    monkeypatch.setattr(solver_schedule, "SCHEDULE", attempts)  # no Newton's method at first
    rng = np.random.default_rng(10)
    for _ in range(10):
        problem, p, modes = made_of_modes(rng, 5)
        graze = np.flatnonzero(modes == 0)
        u = problem.velocities(p)
        b = problem.b.copy()
        rows = problem.layout.normals[graze]
        b[rows] -= u[rows] + problem.s[graze]  # now u_n + s = 0 and p_n = 0
        problem = replace(problem, b=b)
        assert residual(problem, p) <= 1e-13
        found = solve(problem)
        assert found.is_solved and residual(problem, found.p) <= 5e-9 * np.abs(b).max()


def test_projection_is_nearest_and_splits():
    rng = np.random.default_rng(1)
    layout = ContactProblemLayout(("rolling", "point", "normal"), limits=1)
    g = Groups(layout)
    for _ in range(5):
        mu = np.array([[rng.uniform(0.1, 2), rng.uniform(0.1, 2), rng.uniform(0.1, 2), 0.4]])
        x_n, x_g = rng.standard_normal((1, 3)), rng.standard_normal((1, 4, 3)) * (g.rows < 12)
        y_n, y_g = nearest_on_cones(g, mu, x_n, x_g)
        size = np.linalg.norm(y_g[0], axis=-1)
        bounds = np.array([y_n[0, 0], y_n[0, 0], y_n[0, 1], 1.0]) * mu[0]
        assert (size <= bounds + 1e-14).all() and (y_n >= 0).all()

        def distance(v, x=x_n, z=x_g, mu=mu):
            of = [0, 1]  # the groups of the first contact
            sizes = np.linalg.norm(z[0, of], axis=-1)
            return (v[0] - x[0, 0]) ** 2 + sum(
                max(a - m * v[0], 0) ** 2 for a, m in zip(sizes, mu[0, of], strict=True)
            )

        best = minimize(lambda v, f=distance: f(np.abs(v)), [1.0], tol=1e-14)
        assert distance(y_n[0]) <= best.fun + 1e-9
    # x = Π_K(x) − Π_K*(−x) with the dual cone of 1/μ
    point = Groups(ContactProblemLayout(("point",)))
    x = rng.standard_normal((50, 3))
    mu = rng.uniform(0.1, 2, (50, 1))
    pad = lambda x: np.concatenate([x[:, None, :2], np.zeros((50, 1, 1))], axis=-1)  # noqa: E731
    up = nearest_on_cones(point, mu, x[:, 2:], pad(x))
    down = nearest_on_cones(point, 1 / mu, -x[:, 2:], pad(-x))
    assert_allclose(up[0] - down[0], x[:, 2:], atol=1e-14)
    assert_allclose((up[1] - down[1])[:, 0, :2], x[:, :2], atol=1e-14)


def test_one_contact_has_a_closed_form():
    rng = np.random.default_rng(2)
    problem = random_problems(rng, 1, 100)
    problem = replace(problem, b=problem.b - 0.5 * np.eye(3)[2])
    found, seen = solve(problem), set()
    assert found.is_solved.all()
    for W, b, s, mu, p in zip(
        problem.W, problem.b, problem.s[:, 0], problem.coefficients[:, 0], found.p, strict=True
    ):
        stick = -np.linalg.solve(W, b + [0, 0, s])
        if b[2] + s >= 0:
            seen.add("open")
            assert not p.any()
        elif np.hypot(*stick[:2]) <= mu * stick[2]:
            seen.add("stick")
            assert_allclose(p, stick, rtol=1e-8)
        else:
            seen.add("slip")

            def impulse(angle, W=W, b=b, s=s, mu=mu):
                e = np.array([np.cos(angle), np.sin(angle)])
                p_n = -(b[2] + s) / (W[2, 2] - mu * W[2, :2] @ e)
                return np.array([*(-mu * p_n * e), p_n]), e

            def across(angle, W=W, b=b):
                p, e = impulse(angle)
                return (W @ p + b)[:2] @ np.array([-e[1], e[0]])

            grid = np.linspace(0, 2 * np.pi, 400)
            values = [across(a) for a in grid]
            roots = [
                brentq(across, grid[i], grid[i + 1], xtol=1e-14)
                for i in range(399)
                if values[i] * values[i + 1] < 0
            ]
            answers = [impulse(a) for a in roots]
            right = [q for q, e in answers if q[2] >= 0 and (W @ q + b)[:2] @ e >= 0]
            assert min(np.abs(q - p).max() for q in right) <= 1e-9 * np.abs(p).max() + 1e-10
    assert seen == {"open", "stick", "slip"}


# ---- solutions that are not unique


@pytest.mark.parametrize("kind", ["normal", "point"])
def test_a_table_has_the_least_forces(kind):
    a, b, m, h = 0.4, 0.3, 20.0, 0.01
    legs = [(x, y, 0.0) for x in (-a, a) for y in (-b, b)]
    for centre in ((0.1, 0.05), (0.0, 0.0), (-0.13, 0.1)):
        touching = [(kind, 0, -1, leg, (0, 0, 1)) for leg in legs]
        bodies = [(m, (1.0, 1.2, 1.5), (*centre, 0.5))]
        fall = np.array([0, 0, 0, 0, 0, -9.81 * h])
        problem = rigid_problem(bodies, touching, fall, {"friction": 0.5})
        found = solve(problem)
        force = found.p[problem.layout.normals] / h
        share = 1 + np.array([centre[0] * x / a**2 + centre[1] * y / b**2 for x, y, _ in legs])
        assert found.is_solved and found.iterations <= 5
        assert_allclose(force, m * 9.81 / 4 * share, rtol=1e-6)  # ε_machine / ε
        warm = solve(problem, 1.3 * found.p + 0.01)
        assert_allclose(warm.p, found.p, atol=1e-6)
    # beyond the diagonal one leg carries nothing
    bodies = [(m, (1.0, 1.2, 1.5), (0.3, 0.2, 0.5))]
    problem = rigid_problem(bodies, touching, fall, {"friction": 0.5})
    found = solve(problem)
    assert found.is_solved and found.p[problem.layout.normals[0]] == 0


def test_a_bracket_falls_or_hangs():
    """The start decides between two solutions of a wedged body."""
    height, mu, m, h = 0.1, 0.25, 2.0, 0.01
    for d in (0.15, 0.25):  # h/(2 μ) = 0.2 m
        touching = [
            ("point", 0, -1, (0, 0, height / 2), (-1, 0, 0)),
            ("point", 0, -1, (0, 0, -height / 2), (1, 0, 0)),
        ]
        bodies = [(m, (0.01, 0.01, 0.01), (d, 0, 0))]
        fall = np.array([0, 0, 0, 0, 0, -9.81 * h])
        problem = rigid_problem(bodies, touching, fall, {"friction": mu})
        falls = solve(problem)
        assert falls.is_solved and not falls.p.any()
        start = np.zeros(6)
        start[[2, 5]] = m * 9.81 * h * d / height
        for i in (0, 3):  # friction upward
            up = row_up(problem, i)
            start[i : i + 2] = up * m * 9.81 * h / 2
        hangs = solve(problem, start)
        assert hangs.is_solved and violations(problem, hangs.p) <= 1e-9
        assert (np.abs(hangs.p).max() > 1e-9) == (d > 0.2)


def row_up(problem, first):
    """The direction of +z among t1, t2 of a contact, from the free fall −z."""
    b = problem.b[first : first + 2]
    return -b / np.linalg.norm(b)


# ---- what must not happen


def test_the_convex_relaxation_is_caught():
    """Without μ |u_t| a sliding box takes off at μ v/(1 + μ²)."""
    problem = stack([1.0], 0.01, push=1.0)
    relaxed = without_sliding_term(problem)[0]
    assert violations(problem, relaxed) > 0.1 and residual(problem, relaxed) > 0.1
    found = solve(problem)
    assert np.abs(problem.velocities(found.p)[problem.layout.normals]).max() <= 1e-10


def test_every_batch_gives_the_same_bits():
    problem = random_problems(np.random.default_rng(5), 4, 9)
    jam = jammed_problems(np.random.default_rng(5), 6, 9)
    for x in (problem, jam):
        whole = solve(x)
        assert whole.is_solved.all()
        for i in range(9):
            one = solve(ContactProblem(x.layout, x.W[i], x.b[i], x.s[i], x.coefficients[i]))
            assert_array_equal(one.p, whole.p[i])
            assert one.iterations == whole.iterations[i]
        some = solve(ContactProblem(x.layout, x.W[2:5], x.b[2:5], x.s[2:5], x.coefficients[2:5]))
        assert_array_equal(some.p, whole.p[2:5])


def test_contacts_that_are_not_there_change_nothing():
    problem = random_problems(np.random.default_rng(6), 5, 20)
    s = problem.s.copy()
    s[:, [1, 4]] = 2 * INACTIVE
    keep = [0, 1, 2, 6, 7, 8, 9, 10, 11]
    layout = ContactProblemLayout(("point",) * 3)
    fewer = ContactProblem(
        layout, problem.W[:, keep][:, :, keep], problem.b[:, keep], s[:, [0, 2, 3]],
        problem.coefficients[:, keep],
    )  # fmt: skip
    found = solve(replace(problem, s=s))
    assert found.is_solved.all()
    assert_allclose(found.p[:, keep], solve(fewer).p, atol=1e-11)
    assert not found.p[:, [3, 4, 5, 12, 13, 14]].any()


def test_no_friction_is_a_contact_without_tangential_rows():
    problem = random_problems(np.random.default_rng(8), 4, 20)
    smooth = replace(problem, coefficients=np.zeros_like(problem.coefficients))
    rows = problem.layout.normals
    layout = ContactProblemLayout(("normal",) * 4)
    W = problem.W[:, rows][:, :, rows]
    fewer = ContactProblem(layout, W, problem.b[:, rows], problem.s, np.ones((20, 4)))
    assert_allclose(solve(smooth).p[:, rows], solve(fewer).p, atol=1e-11)


def test_restitution_never_creates_energy():
    rng = np.random.default_rng(4)
    problem = random_problems(rng, 3, 40)
    problem = replace(problem, s=np.zeros((40, 3)))
    before = problem.b[:, problem.layout.normals]
    plain = solve(replace(problem, s=np.where(before < 0, before, 0.0)))
    gained = 0.5 * np.sum(plain.p * (problem.velocities(plain.p) + problem.b), axis=1)
    assert (gained > 1e-6).any()  # Newton's law alone does
    calm = np.zeros_like(problem.s)
    rebounds = replace(problem, s=np.where(before < -1e-3, before, 0.0))
    found, share = solve_rebound(rebounds, calm)
    u = problem.velocities(found.p)
    gain = 0.5 * np.sum(found.p * (u + problem.b), axis=1)
    assert found.is_solved.all() and gain.max() <= 1e-12
    assert ((share < 1) == (gained > 1e-12)).all()
    assert_allclose(gain[share < 1], 0, atol=1e-9)  # no more is taken than needed
    full = replace(problem, s=share[:, None] * rebounds.s)
    assert violations(full, found.p).max() <= 1e-9
    # without friction the loss is ½ (1 − e²) u_n² / W_nn
    smooth = random_problems(rng, 1, 20)
    smooth = replace(smooth, s=np.zeros((20, 1)), coefficients=0 * smooth.coefficients)
    before = smooth.b[:, 2:]
    rebounds = replace(smooth, s=np.where(before < -1e-3, 0.7 * before, 0.0))
    p = solve_rebound(rebounds, np.zeros_like(smooth.s)).solution.p
    gain = 0.5 * np.sum(p * (smooth.velocities(p) + smooth.b), axis=1)
    hit = before[:, 0] < -1e-3
    loss = 0.5 * (1 - 0.49) * before[:, 0] ** 2 / smooth.W[:, 2, 2]
    assert_allclose(gain[hit], -loss[hit], rtol=1e-9)


def test_what_is_not_a_number_is_reported():
    problem = random_problems(np.random.default_rng(9), 2, 3)
    b = problem.b.copy()
    b[1, 4] = np.nan
    found = solve(replace(problem, b=b))
    assert found.status.tolist() == [0, NOT_FINITE, 0]
    with pytest.raises(InputError, match="'sliding' is not a kind of contact"):
        ContactProblemLayout(("sliding",))
    with pytest.raises(InputError, match=r"s is \(3, 1\)"):
        solve(replace(problem, s=problem.s[:, :1]))
