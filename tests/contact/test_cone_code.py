"""Contact problems in machine code: the reference again, the same bits in every company."""

from dataclasses import replace

import numpy as np
import pytest
from compiled_graphs import compiled
from cone_problems import (
    MIXED,
    jammed_problems,
    mixed_problems,
    random_problems,
    rigid_problem,
    stack,
    violations,
    wedged_problems,
)
from numpy.testing import assert_allclose, assert_array_equal

from phipsi.contact.solver import newton, solver_schedule
from phipsi.contact.solver.contact_problem import (
    INACTIVE,
    NOT_FINITE,
    UNSOLVED,
    ContactProblem,
    ContactProblemLayout,
    residual,
    tolerance_of,
)
from phipsi.contact.solver.contact_solver import solve
from phipsi.contact.solver.contact_solver_calls import ContactSolve
from phipsi.contact.solver.gathered_arrays import GatheredArrays
from phipsi.contact.solver.newton import ITERATIONS, PROXIMAL
from phipsi.contact.solver.scaled_problem import ScaledProblem
from phipsi.contact.solver.solver_schedule import SCHEDULE, solve_cones
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.primitive_calls import call

LANES = 4


def solver(layout, lanes=LANES, fused=False, **options):
    """A function of problems, (B, ...) each, in groups of lanes; the last group is filled up."""
    n, k = layout.n_rows, layout.n_heads
    shapes = {"W": (n, n), "b": (n,), "s": (k,), "mu": (n,), "start": (n,)}
    nodes = [ops.input(name, shape) for name, shape in shapes.items()]
    run = compiled(call(ContactSolve(layout, **options), *nodes), lanes, fused)

    def solved(problem, start=None):
        flat = problem.flat()
        count = len(flat.b)
        first = np.zeros((count, n)) if start is None else start
        given = dict(zip(shapes, (flat.W, flat.b, flat.s, flat.coefficients, first), strict=True))
        found = []
        for i in range(0, count, lanes):
            which = np.minimum(np.arange(i, i + lanes), count - 1)
            found.append(run({name: x[which] for name, x in given.items()}))
        return [np.concatenate(x)[:count] for x in zip(*found, strict=True)]

    return solved


@pytest.fixture(scope="module")
def of_points():
    """Solvers of point contacts, by number."""
    known = {}

    def find(layout):
        if layout not in known:
            known[layout] = solver(layout)
        return known[layout]

    return find


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: random_problems(rng, 1, 12),
        lambda rng: random_problems(rng, 4, 30),
        lambda rng: random_problems(rng, 8, 12, 3.0),
        lambda rng: mixed_problems(rng, 30),
        lambda rng: stack([1.0, 1e3, 1.0], 0.01),
        lambda rng: stack([1.0, 1.0], 0.01, push=1.0),
    ],
)
def test_machine_code_solves_as_the_reference(of_points, make):
    problem = make(np.random.default_rng(1))
    p, error, iterations, status = of_points(problem.layout)(problem)
    known = solve(problem.flat())
    assert not status.any()
    size = np.abs(known.p).max(axis=1, keepdims=True) + 1e-9
    assert_allclose(p / size, known.p / size, atol=1e-7 if problem.batch == () else 1e-8)
    assert_allclose(error, residual(problem.flat(), p), rtol=1e-3, atol=1e-13)
    assert violations(problem.flat(), p).max() <= 2e-9
    assert np.abs(iterations - known.iterations).max() <= 2


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: random_problems(rng, 8, 10, 3.0),
        lambda rng: mixed_problems(rng, 12),
        lambda rng: jammed_problems(rng, 8, 12),
        lambda rng: wedged_problems(rng, 12, 1e-9),
        lambda rng: tables(8)[0],
    ],
)
def test_arrays_and_lanes_have_the_same_bits(of_points, make):
    """It is one text, and there is no fma here."""
    problem = make(np.random.default_rng(11))
    problem = replace(problem, W=0.5 * (problem.W + problem.W.swapaxes(1, 2)))  # to the last bit
    p, _, iterations, status = of_points(problem.layout)(problem)
    known = solve(problem)
    assert_array_equal(p, known.p)
    assert_array_equal(iterations, known.iterations)
    assert_array_equal(status, known.status)


def test_the_text_obeys_the_rules_of_machines():
    """Turn by turn in reverse, always with copies of the lanes that are left: the same bits."""
    problem = mixed_problems(np.random.default_rng(12), 5)
    found = []
    for strict in (False, True):
        gathered = GatheredArrays(problem, np.zeros_like(problem.b), (3,), strict=strict)
        with np.errstate(all="ignore"):
            solve_cones(gathered.m, gathered.kinds, gathered.memory, 1e-10)
        found.append((gathered.y(), gathered.results()))
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)


def test_a_table_on_four_legs_does_not_feel_who_else_is_there():
    """Its impulses are made the least by rounds that go on while other problems have ended."""
    legs = np.array([[1.0, x, y] for x in (-1, 1) for y in (-1, 1)])
    W = np.stack([legs @ np.diag([1.0, 3.0, 3.0]) @ legs.T] * 3)
    b, s = np.full((3, 4), -1e-4), np.zeros((3, 4))
    s[1:, 1:] = 2 * INACTIVE  # of the others one leg only is near
    layout = ContactProblemLayout(("normal",) * 4)
    problem = ContactProblem(layout, W, b, s, np.ones((3, 4)))
    for strict in (False, True):
        gathered = GatheredArrays(problem, np.zeros_like(b), (3,), strict=strict)
        with np.errstate(all="ignore"):
            solve_cones(gathered.m, gathered.kinds, gathered.memory, 1e-13)
        assert_allclose(gathered.y()[0], 2.5e-5, rtol=1e-9)
        assert (residual(problem, gathered.y()) < 1e-12).all()


def test_what_is_no_number_is_no_solution():
    """Impulses that are lost on the way must not look like those without any residual."""
    problem = mixed_problems(np.random.default_rng(12), 5)
    gathered = GatheredArrays(problem, np.full_like(problem.b, np.nan), (3,))
    x = ScaledProblem(gathered.m, gathered.kinds, gathered.memory)
    with np.errstate(all="ignore"):
        x.scale_problem()
        x.multiply(x.y)
        for i in range(x.y.shape[0]):
            x.y[i] = np.nan
        x.multiply(x.y)
        x.residual(x.y)
    assert np.isinf(x.found.value).all()


def tables(count):
    """Tables on four legs and their exact loads: m v/4 (1 + x x_i/a² + y y_i/b²)."""
    rng, problems, loads = np.random.default_rng(8), [], []
    for _ in range(count):
        (a, b, high), (x, y) = rng.uniform(0.3, 0.6, 3), rng.uniform(-0.1, 0.1, 2)
        m, fall = 10 ** rng.uniform(-2, 3), rng.uniform(0.01, 0.1)
        feet = np.array([(i * a, j * b, 0.0) for i in (-1, 1) for j in (-1, 1)])
        touching = [("point", 0, -1, foot, (0, 0, 1)) for foot in feet]
        body = (m, m * rng.uniform(0.05, 0.09, 3), (x, y, high))
        v = np.array([0, 0, 0, 0, 0, -fall])
        problems.append(rigid_problem([body], touching, v, {"friction": 0.5}))
        loads.append(m * fall / 4 * (1 + x * feet[:, 0] / a**2 + y * feet[:, 1] / b**2))
    W, b, s = (np.stack([getattr(x, name) for x in problems]) for name in ("W", "b", "s"))
    layout = problems[0].layout
    mu = np.broadcast_to(problems[0].coefficients, (count, layout.n_rows))
    return ContactProblem(layout, W, b, s, mu), np.stack(loads)


def test_impulses_that_motion_does_not_determine_are_the_least(monkeypatch):
    """K9, to rounding; without `remove_self_stress`, rounding / ε of a self-stress is left."""
    problem, loads = tables(12)

    def errors(p):
        off = np.abs(p[:, problem.layout.normals] - loads)
        return (off / loads.mean(axis=1, keepdims=True)).max()

    def found(lanes=LANES):
        return solver(problem.layout, lanes, tolerance=1e-13)(problem)

    native, alone, known = found(), found(1), solve(problem, tolerance=1e-13)
    assert errors(native[0]) < 1e-11 and errors(known.p) < 1e-11
    for one, other in zip(native, alone, strict=True):
        assert_array_equal(one, other)
    monkeypatch.setattr(newton.Newton, "remove_self_stress", lambda *_: None)
    assert errors(found()[0]) > 7e-9 and errors(solve(problem, tolerance=1e-13).p) > 7e-9


def test_every_lane_and_company_gives_the_same_bits(of_points):
    rng = np.random.default_rng(2)
    problem = random_problems(rng, 4, 12)
    s = problem.s.copy()
    s[rng.random(s.shape) < 0.4] = 2 * INACTIVE  # other contacts in each lane
    problem = replace(problem, s=s)
    whole = of_points(problem.layout)(problem)
    assert not whole[3].any()
    alone = solver(problem.layout, lanes=1)(problem)
    order = rng.permutation(12)
    mixed = of_points(problem.layout)(ContactProblem(problem.layout, *(
        x[order] for x in (problem.W, problem.b, problem.s, problem.coefficients)
    )))  # fmt: skip
    for one, other, moved in zip(whole, alone, mixed, strict=True):
        assert_array_equal(one, other)
        assert_array_equal(one[order], moved)
    gone = np.repeat(s >= INACTIVE, 3, axis=1)
    assert gone.any() and not whole[0][gone].any()


def test_a_start_at_the_solution_needs_no_search(of_points):
    problem = random_problems(np.random.default_rng(3), 4, 8)
    first = of_points(problem.layout)(problem)
    again = of_points(problem.layout)(problem, first[0])
    assert not again[3].any() and again[2].max() <= 2
    assert_allclose(again[0], first[0], atol=1e-12)


def test_jammed_bodies_need_the_interior_point(of_points):
    problem = jammed_problems(np.random.default_rng(4), 8, 24)
    p, error, iterations, status = of_points(problem.layout)(problem)
    assert not status.any() and iterations.max() > ITERATIONS
    assert violations(problem, p).max() <= 2e-9
    assert_allclose(error, residual(problem, p), rtol=1e-3, atol=1e-13)


@pytest.mark.parametrize("uneven", [1e-11, 1e-9, 1e-8])
def test_wedged_boxes_are_solved(of_points, uneven):
    """Where gaps differ by as much as ε p, contacts all but slide."""
    problem = wedged_problems(np.random.default_rng(5), 64, uneven)
    p, error, iterations, status = of_points(problem.layout)(problem)
    assert not status.any() and (iterations > ITERATIONS).any()
    assert_allclose(error, residual(problem, p), rtol=1e-3, atol=1e-13)
    assert error.max() <= 1e-10
    assert solve(problem).is_solved.all()


def test_misfits_under_a_heavy_body_need_full_steps(of_points, monkeypatch):
    """Gaps that are not those of planes ask for a self-stress of the size of the load."""
    one, rng = stack([1.0, 1e3, 1e6], 0.02), np.random.default_rng(0)
    problem = replace(one, s=1e-7 * rng.random((12, one.layout.n_heads)))
    p, _, iterations, status = of_points(one.layout)(problem)
    solved = residual(problem, p) <= tolerance_of(problem, p)
    assert_array_equal(status == 0, solved)
    assert solved.sum() >= 11 and iterations.max() < 900
    alone = solver(one.layout, lanes=1)(problem)  # none ends earlier because a neighbour asks
    assert_array_equal(alone[0], p)
    assert_array_equal(alone[2], iterations)
    few = replace(problem, s=problem.s[status == 0][:3])
    assert solve(few).is_solved.all()
    monkeypatch.setattr(solver_schedule, "SCHEDULE", [x for x in SCHEDULE if not x.is_free])
    assert solver(one.layout)(problem)[3].sum() >= 3


def test_wedged_boxes_need_polishing_and_the_best_iterate(monkeypatch):
    few = (SCHEDULE[0], SCHEDULE[1]._replace(eps=PROXIMAL))
    monkeypatch.setattr(solver_schedule, "SCHEDULE", few)
    monkeypatch.setattr(newton, "STALL_ROUNDS", 100)
    monkeypatch.setattr(newton.Newton, "correct", lambda *_: None)
    problem = wedged_problems(np.random.default_rng(5), 64, 1e-9)
    assert solver(problem.layout)(problem)[3].sum() > 10


def test_the_interior_point_alone_solves_all_kinds(monkeypatch):
    monkeypatch.setattr(solver_schedule, "ITERATIONS", 0)  # of Newton's method, at first
    problem = mixed_problems(np.random.default_rng(1), 12)
    s = problem.s.copy()
    s[5, [0, 2]] = s[6, 1] = 2 * INACTIVE
    problem = replace(problem, s=s)
    found, alone = solver(MIXED)(problem), solver(MIXED, lanes=1)(problem)
    assert not found[3].any() and 5 <= found[2].min() <= found[2].max() <= 40
    assert violations(problem, found[0]).max() <= 2e-9
    for one, other in zip(found, alone, strict=True):
        assert_array_equal(one, other)


def test_lanes_that_fail_say_so_and_disturb_no_other(of_points, monkeypatch):
    plain = random_problems(np.random.default_rng(5), 4, 4)
    b = plain.b.copy()
    b[2, 3] = np.nan
    spoiled, whole = of_points(plain.layout)(replace(plain, b=b)), of_points(plain.layout)(plain)
    assert spoiled[3].tolist() == [0, 0, NOT_FINITE, 0]
    assert_array_equal(spoiled[0][[0, 1, 3]], whole[0][[0, 1, 3]])
    monkeypatch.setattr(solver_schedule, "ITERATIONS", 4)
    monkeypatch.setattr(solver_schedule, "SCHEDULE", SCHEDULE[:1])
    problem = random_problems(np.random.default_rng(5), 4, 24)
    p, error, _, status = solver(problem.layout)(problem)
    assert 0 < status.sum() < 24
    assert_array_equal(status == UNSOLVED, residual(problem, p) > 1e-10)
    assert_allclose(error, residual(problem, p), rtol=1e-3, atol=1e-13)


def test_nothing_touches(of_points):
    problem = random_problems(np.random.default_rng(6), 4, 4)
    found = of_points(problem.layout)(replace(problem, s=np.full((4, 4), 2 * INACTIVE)))
    for x in found:
        assert not x.any()


def test_rebounds_create_no_energy():
    rng = np.random.default_rng(4)
    problem = random_problems(rng, 3, 40)
    before = problem.b[:, problem.layout.normals]
    calm = np.where(np.arange(40)[:, None] % 5 == 0, problem.s, 0.0)  # some cannot rebound
    s = np.where((before < 0) & (calm == 0), before, calm)
    calm[7, 1] = s[7, 1] = 2 * INACTIVE
    problem = replace(problem, s=s)
    callee = ContactSolve(problem.layout, rebounds=True)
    shapes = {"W": (9, 9), "b": (9,), "s": (3,), "calm": (3,), "mu": (9,), "start": (9,)}
    nodes = [ops.input(name, shape) for name, shape in shapes.items()]
    arrays = (problem.W, problem.b, s, calm, problem.coefficients, np.zeros((40, 9)))
    found = []
    for lanes in (4, 1):
        run, parts = compiled(call(callee, *nodes), lanes, False), []
        for i in range(0, 40, lanes):
            given = (x[i : i + lanes] for x in arrays)
            parts.append(run(dict(zip(shapes, given, strict=True))))
        found.append([np.concatenate(x) for x in zip(*parts, strict=True)])
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)
    p, _, _, status, share = found[0]
    known = callee.arrays(*arrays)
    assert not status.any() and 2 <= (share < 1).sum() < 40
    assert_allclose(share, known[4], atol=1e-9)
    assert_allclose(p, known[0], atol=1e-8)
    gain = 0.5 * np.sum(p * (problem.velocities(p) + problem.b), axis=1)
    assert gain.max() <= 1e-12
    part = replace(problem, s=calm + share[:, None] * (s - calm))
    assert violations(part, p).max() <= 1e-9


def test_zeros_between_contacts_are_skipped_and_change_no_bits():
    """Contacts of a chain of bodies; some lanes are full, so that their neighbours skip less."""
    rng = np.random.default_rng(7)
    layout = ContactProblemLayout(("torsion", "normal", "point", "rolling"), limits=1)
    n, count = layout.n_rows, 8
    G = np.zeros((count, n, 5, 6))
    for row, contact in enumerate(layout.heads):
        G[:, row, [contact, max(contact - 1, 0)]] = rng.standard_normal((count, 2, 6))
    G[[2, 5]] = rng.standard_normal((2, n, 5, 6))
    G = G.reshape(count, n, 30)
    W = G @ G.swapaxes(1, 2) + 0.05 * np.eye(n)
    assert (W[0] == 0).sum() > n
    b, s = rng.standard_normal((count, n)), np.zeros((count, layout.n_heads))
    s[1, 2] = s[6, 3] = 2 * INACTIVE
    coefficients = layout.coefficients(0.5, 0.1, 0.1, 0.3)
    problem = ContactProblem(layout, W, b, s, np.broadcast_to(coefficients, (count, n)))
    full = solver(layout)
    found, alone = full(problem), solver(layout, lanes=1)(problem)
    known = solve(problem)
    assert not found[3].any() and violations(problem, found[0]).max() <= 2e-9
    assert_allclose(found[0], known.p, atol=1e-8)
    for one, other in zip(found, alone, strict=True):
        assert_array_equal(one, other)
    chain = [0, 1, 3, 4, 6, 7]  # lanes without products between contacts that are far apart
    problem = ContactProblem(layout, *(x[chain] for x in (W, b, s, problem.coefficients)))
    masks = tuple(1 << i | 1 << max(i - 1, 0) for i in range(5))
    sparse, whole = solver(layout, masks=masks)(problem), full(problem)
    for one, other in zip(sparse, whole, strict=True):
        assert_array_equal(one, other)
    wrong = solver(layout, masks=tuple(1 << i for i in range(5)))(problem)
    assert np.abs(wrong[0] - whole[0]).max() > 1e-3
