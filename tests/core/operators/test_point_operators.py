"""Custom operators between motions and forces of points, against dense NumPy on random trees."""

import pickle

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from known_systems import four_bar
from random_models import random_tree
from scipy.linalg import block_diag

import phipsi as pp
from phipsi.core.model import point_set
from phipsi.operators import J, f0, logdet, mass_matrix, tau, v

RNG = np.random.default_rng(5)
TREES = [random_tree(seed, 6, n_roots=1 + seed % 2, armature=True) for seed in range(3)]
SPACES = "point_motions -> point_forces"
TOLERANCE = 1e-11
C = pp.custom.operator("C", "rates -> efforts", 0.7, symmetric=True)
W = pp.custom.operator("W", "efforts -> rates", 1 / 0.7, symmetric=True)


def points_of(model):
    """Two points on one body, and one on another."""
    last, middle = model.body_names[-1], model.body_names[model.n_bodies // 2]
    return [(last, (0.1, 0.2, 0.3)), (middle, (0.3, 0, -0.1)), (last, (0, -0.2, 0.1))]


def positive(rng, count):
    x = rng.normal(size=(count, 6, 6))
    x = x @ np.swapaxes(x, -1, -2) + np.eye(6)
    return (x + np.swapaxes(x, -1, -2)) / 2


BLOCKS = positive(RNG, 3)
SKEWED = np.eye(6) + 0.3 * RNG.normal(size=(3, 6, 6))
KINDS = {
    "each": (BLOCKS, True, block_diag(*BLOCKS)),
    "one for all": (BLOCKS[0], True, block_diag(*[BLOCKS[0]] * 3)),
    "number": (2.5, True, 2.5 * np.eye(18)),
    "not symmetric": (SKEWED, False, block_diag(*SKEWED)),
}


def near(found, wanted):
    wanted = np.asarray(wanted)
    return np.abs(np.asarray(found) - wanted).max() <= TOLERANCE * np.abs(wanted).max()


def cases(Q, D, jacobian, mass):
    """Expressions and the same in NumPy; the inverses for a symmetric Q."""
    yield J.T @ Q @ J, jacobian.T @ D @ jacobian
    yield Q.T, D.T
    yield Q.inv, np.linalg.inv(D)
    yield Q.T @ J @ W @ J.T @ Q, D.T @ jacobian @ jacobian.T @ D / 0.7
    if Q.T is Q:
        yield (
            (C + J.T @ Q @ J).inv,
            np.linalg.inv(0.7 * np.eye(len(mass)) + jacobian.T @ D @ jacobian),
        )
        yield (mass_matrix + J.T @ Q @ J).inv, np.linalg.inv(mass + jacobian.T @ D @ jacobian)
        whole = jacobian @ np.linalg.solve(mass, jacobian.T) + np.linalg.inv(D)
        yield (J @ mass_matrix.inv @ J.T + Q.inv).inv, np.linalg.inv(whole)
        yield logdet(J @ mass_matrix.inv @ J.T + Q.inv), np.linalg.slogdet(whole)[1]


def called(program, **values):
    return program(*(values[name] for name in program.inputs))


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_against_numpy(backend, kind, axes):
    block, symmetric, D = KINDS[kind]
    Q = pp.custom.operator("Q", SPACES, block, symmetric=symmetric)
    model = TREES[["world", "body", "spatial"].index(axes)]
    where, q = points_of(model), model.random_configuration(RNG)
    jacobian = pp.evaluate_dense(J, model, q, points=where, axes=axes)
    mass = pp.evaluate_dense(mass_matrix, model, q)
    for expr, wanted in cases(Q, D, jacobian, mass):
        mode = "apply" if expr.is_scalar else "dense"
        program = pp.compile(expr, model, points=where, axes=axes, mode=mode, backend=backend)
        assert near(called(program, q=q), wanted), expr
        assert near(pp.evaluate_dense(expr, model, q, points=where, axes=axes), wanted), expr
        if not expr.is_scalar:  # twin
            assert not near(called(program, q=q), 1.001 * wanted)
    if not symmetric:  # the twin: blocks transposed, or of other points
        found = pp.evaluate_dense(J.T @ Q @ J, model, q, points=where, axes=axes)
        assert not near(found, jacobian.T @ D.T @ jacobian)
        assert not near(found, jacobian.T @ block_diag(*np.roll(SKEWED, 1, axis=0)) @ jacobian)


def test_axes_are_those_of_the_points():
    model = TREES[0]
    q, where = model.random_configuration(RNG), points_of(model)
    Q = pp.custom.operator("Q", SPACES, BLOCKS, symmetric=True)
    world, body = (
        pp.evaluate_dense(J.T @ Q @ J, model, q, points=where, axes=axes)
        for axes in ("world", "body")
    )
    assert not near(world, body)
    in_world, in_body = (
        pp.evaluate_dense(J, model, q, points=where, axes=axes) for axes in ("world", "body")
    )
    frames = pp.evaluate_dense(pp.operators.pose, model, q)
    hosts = [model.body_index(name) for name, _ in where]
    turns = block_diag(*[block_diag(*[frames[k, :3, :3]] * 2) for k in hosts])
    assert near(turns @ in_body, in_world)
    turned = block_diag(*BLOCKS)
    turned = turns @ turned @ turns.T
    rotated = [turned[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] for i in range(3)]
    blocks = np.array([(x + x.T) / 2 for x in rotated])
    same = pp.custom.operator("Q", SPACES, blocks, symmetric=True)
    assert near(pp.compile(J.T @ same @ J, model, points=where, mode="dense")(q), body)


def test_several_operators_numbers_and_counts_of_points():
    """Code is shared between programs with other numbers of points."""
    model = TREES[1]
    q, rates = model.random_configuration(RNG, (37,)), RNG.normal(size=(37, model.nv))
    h, g = pp.custom.scalar("h", 0.3), pp.custom.scalar("g_2", 1.7)
    for count in (3, 2, 1):
        where = points_of(model)[:count]
        Q = pp.custom.operator("Q", SPACES, BLOCKS[:count], symmetric=True)
        S = pp.custom.operator("S", SPACES, SKEWED[::-1][:count])
        expr = (S @ J @ v) @ h + (Q @ J @ v) @ g
        D = 0.3 * block_diag(*SKEWED[::-1][:count]) + 1.7 * block_diag(*BLOCKS[:count])
        jacobian = pp.compile(J, model, points=where, mode="dense")(q)
        wanted = (D @ jacobian @ rates[..., None]).reshape(37, count, 6)
        assert near(pp.compile(expr, model, points=where)(q, rates), wanted)


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_as_an_input(backend):
    model = TREES[2]
    q, x, where = model.random_configuration(RNG), RNG.normal(size=model.nv), points_of(model)
    Q = pp.custom.operator("Q", SPACES, 1.0, symmetric=True)
    expr = (mass_matrix + J.T @ Q @ J).inv @ tau
    program = pp.compile(expr, model, points=where, inputs=[Q], backend=backend)
    jacobian = pp.evaluate_dense(J, model, q, points=where)
    mass = pp.evaluate_dense(mass_matrix, model, q)
    many = np.array([BLOCKS, 2 * BLOCKS, 0 * BLOCKS])
    for found, blocks in zip(program(q, x, many), many, strict=True):
        wanted = np.linalg.solve(mass + jacobian.T @ block_diag(*blocks) @ jacobian, x)
        assert near(found, wanted)
        assert near(
            pp.evaluate_dense(expr, model, q, tau=x, points=where, inputs={"Q": blocks}), wanted
        )
    with pytest.raises(pp.errors.InputError, match="symmetric"):
        program(q, x, SKEWED)


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
def test_derivatives(axes):
    model = TREES[0]
    q, x, c, u = model.random_configuration(RNG), *RNG.normal(size=(3, model.nv))
    where = point_set(model, points_of(model), axes)
    Q = pp.custom.operator("Q", SPACES, BLOCKS, symmetric=True)
    for expr in ((C + J.T @ Q @ J).inv @ tau, J.T @ Q @ J @ v):
        known = {"q": q, "v": x, "tau": x, "dq": u, "x": c}
        along = called(pp.compile(pp.diff(expr, "q", along="dq"), model, points=where), **known)
        program = pp.compile(expr, model, points=where)
        ahead, behind = (
            called(program, **{**known, "q": model.integrate(q, e * u)}) for e in (1e-5, -1e-5)
        )
        scale = np.abs(along).max()
        assert np.abs(along - (ahead - behind) / 2e-5).max() <= 1e-7 * scale
        assert np.abs(along - (ahead - behind) / 2e-5 * 1.001).max() > 1e-7 * scale
        backward = called(pp.vjp(expr, model, "q", points=where), **known)
        assert backward @ u == pytest.approx(c @ along, rel=1e-9, abs=1e-9 * scale)
    dQ = pp.custom.operator("dQ", SPACES, BLOCKS[::-1], symmetric=True)
    assert pp.diff(J.T @ Q @ J @ v, "Q", along=dQ) is J.T @ dQ @ J @ v
    with pytest.raises(pp.errors.SpaceError, match="at points"):
        pp.vjp(J.T @ Q @ J @ v, model, "Q", points=where)


def test_flexible_trees():
    model = random_flexible_tree(3, 4).build()
    q, where = model.random_configuration(RNG), points_of(model)
    where = [(name, (0, 0, 0)) for name, _ in where]
    Q = pp.custom.operator("Q", SPACES, BLOCKS, symmetric=True)
    jacobian = pp.evaluate_dense(J, model, q, points=where)
    mass, x = pp.evaluate_dense(mass_matrix, model, q), RNG.normal(size=model.nv)
    stiffness = jacobian.T @ block_diag(*BLOCKS) @ jacobian
    program = pp.compile(J.T @ Q @ J @ v, model, points=where)
    assert near(program(q, x), stiffness @ x)
    solved = pp.compile((mass_matrix + J.T @ Q @ J).inv @ tau, model, points=where)
    wanted = np.linalg.solve(mass + stiffness, x)
    assert np.abs(solved(q, x) - wanted).max() <= 1e-9 * np.abs(wanted).max()


def test_inverses():
    model = TREES[0]
    where, x = points_of(model), RNG.normal(size=(3, 6))
    Q = pp.custom.operator("Q", SPACES, BLOCKS, symmetric=True, inverse=True)
    wanted = np.linalg.solve(block_diag(*BLOCKS), x.ravel()).reshape(3, 6)
    assert near(pp.compile(Q.inv @ f0, model, points=where)(x), wanted)
    wrong = pp.custom.operator("Q", SPACES, BLOCKS, symmetric=True, inverse=BLOCKS)
    with pytest.raises(pp.errors.SpaceError, match="point 0"):
        pp.compile(wrong.inv @ f0, model, points=where)
    S = pp.custom.operator("S", SPACES, np.diag([1, 1, 1, 1, 1, 0.0]), symmetric=True)
    for backend in ("native", "reference"):
        with pytest.raises(pp.errors.SingularMatrixError, match="at a point is singular"):
            pp.compile(S.inv @ f0, model, points=where, backend=backend)(x)


def test_log_det_of_what_is_not_symmetric_is_refused():
    """The code takes the determinant of symmetric blocks."""
    for spaces in (SPACES, "motions -> forces"):
        S = pp.custom.operator("S", spaces, SKEWED[0])
        with pytest.raises(pp.errors.LoweringError, match="log det needs symmetric"):
            pp.compile(logdet(S), TREES[0], points=points_of(TREES[0]))


def test_it_is_a_value():
    Q = pp.custom.operator("Q", SPACES, BLOCKS, symmetric=True)
    assert pickle.loads(pickle.dumps(Q)) is Q
    assert pp.parse(str(J.T @ Q @ J), custom=[Q]) is J.T @ Q @ J
    woodbury = "(ℳ + J* Q J)^-1 = ℳ^-1 {} ℳ^-1 J* (Q^-1 + J ℳ^-1 J*)^-1 J ℳ^-1"
    arm = pp.examples.planar_arm(2)
    assert pp.prove(woodbury.format("-"), arm, custom=[Q])
    assert pp.prove(woodbury.format("+"), arm, custom=[Q]).holds is False


@pytest.mark.parametrize(
    ("block", "match"),
    [
        ({"b1": 1.0}, "points have no names"),
        (np.ones((5, 6)), "is .6, 6."),
        (np.ones((2, 5, 6)), "number of points, 6, 6"),
        (SKEWED[0], "declared symmetric"),
        (SKEWED, "point 0"),
        (lambda M: M, "between joint and body spaces"),
        (np.full((6, 6), np.nan), "finite"),
    ],
)
def test_blocks_that_are_refused(block, match):
    with pytest.raises((pp.errors.InputError, pp.errors.SpaceError), match=match):
        pp.custom.operator("Q", SPACES, block, symmetric=True)


def test_programs_that_are_refused():
    Q = pp.custom.operator("Q", SPACES, BLOCKS, symmetric=True)
    model, system = TREES[0], four_bar()
    with pytest.raises(pp.errors.SpaceError, match=r"there are 2 points"):
        pp.compile(J.T @ Q @ J, model, points=points_of(model)[:2])
    with pytest.raises(pp.errors.SpaceError, match=r"there are 2 points"):
        pp.evaluate_dense(J.T @ Q @ J, model, model.neutral(), points=points_of(model)[:2])
    with pytest.raises(pp.errors.InputError, match=r"system\.model"):
        pp.compile(J.T @ Q @ J, system)
    with pytest.raises(pp.errors.InputError, match=r"system\.model"):
        pp.compile(J.T @ Q @ J, system, points=["rocker"])
    with pytest.raises(pp.errors.SpaceError, match="are not"):
        pp.custom.operator("Q", "motions -> point_forces", 1.0)


DETERMINANTS = {
    "J W J*": J @ W @ J.T,
    "J ℳ⁻¹ J*": J @ mass_matrix.inv @ J.T,
    "J ℳ⁻¹ J* + S": J @ mass_matrix.inv @ J.T
    + pp.custom.operator("S", "point_forces -> point_motions", 0.3, symmetric=True),
}


def by_numpy(name, model, q, u, where):
    """tr X⁻¹ δX with δX by differences, and log det X."""

    def matrix(at):
        jacobian = pp.evaluate_dense(J, model, at, points=where)
        if name == "J W J*":
            return jacobian @ jacobian.T / 0.7
        inner = np.linalg.inv(pp.evaluate_dense(mass_matrix, model, at))
        return jacobian @ inner @ jacobian.T + 0.3 * np.eye(len(jacobian)) * ("S" in name)

    ahead, behind = (matrix(model.integrate(q, e * u)) for e in (1e-5, -1e-5))
    return np.trace(np.linalg.solve(matrix(q), (ahead - behind) / 2e-5))


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
@pytest.mark.parametrize("name", DETERMINANTS)
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_derivatives_of_log_det(backend, name, axes):
    model = random_tree(7, 9, n_roots=1, joints=["revolute", "universal", "spherical"])
    tips = [model.body_names[-1]] if name == "J W J*" else [model.body_names[-1], "b3"]
    if "S" not in name:
        tips = tips[:1]
    where = point_set(model, [(tip, (0.1, 0.2, 0.3)) for tip in tips], axes)
    expr, rng = logdet(DETERMINANTS[name]), np.random.default_rng(3)
    q, (u, other) = model.random_configuration(rng), rng.normal(size=(2, model.nv))
    wanted = by_numpy(name, model, q, u, where)
    change = pp.diff(expr, "q", along="dq")
    custom = [x for x in (W, *DETERMINANTS[name].args) if x.op.name == "LEAF" and x.row.is_own]
    assert pp.parse(str(change), custom=custom) is change
    along = pp.compile(change, model, points=where, backend=backend)
    assert along(q, u) == pytest.approx(wanted, rel=1e-6)
    assert along(q, u) != pytest.approx(by_numpy(name, model, q, other, where), rel=1e-6)
    exact = float(along(q, u))
    assert pp.evaluate_dense(change, model, q, dq=u, points=where) == pytest.approx(exact, rel=1e-9)
    program = pp.vjp(expr, model, "q", points=where, backend=backend)
    backward = called(program, q=q, x=1.0)
    assert backward @ u == pytest.approx(exact, rel=1e-9)
    family = pp.diff(expr, "q").compile(model, points=where, backend=backend)
    assert np.asarray(family(q)) == pytest.approx(backward, rel=1e-8, abs=1e-8 * abs(exact))


def test_derivatives_of_log_det_by_other_routes():
    """The function of `pp.manipulability`, a family of second derivatives, and what is refused."""
    arm = pp.examples.seven_joint_arm()
    rng = np.random.default_rng(4)
    q, u, w = rng.normal(size=(3, 7))
    where = [(arm.body_names[-1], (0.1, 0.2, 0.3))]
    identity = pp.custom.operator("W", "efforts -> rates", 1.0, symmetric=True)
    expr = logdet(J @ identity @ J.T)
    gradient = pp.vjp(expr, arm, "q", points=where)
    wanted = pp.manipulability.log_det_gradient(arm, q, where)
    assert called(gradient, q=q, x=1.0) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    twice = pp.diff(pp.diff(expr, "q", along="dq"), "q", along="dv")
    second = called(pp.compile(twice, arm, points=where), q=q, dq=u, dv=w)
    ahead, behind = (
        pp.manipulability.log_det_gradient(arm, q + e * w, where) @ u for e in (1e-5, -1e-5)
    )
    assert second == pytest.approx((ahead - behind) / 2e-5, rel=1e-5)
    again = pp.vjp(pp.diff(expr, "q", along="dq"), arm, "q", points=where)
    assert called(again, q=q, dq=u, x=1.0) @ w == pytest.approx(second, rel=1e-8)
    with pytest.raises(pp.errors.LoweringError, match="points="):
        pp.explain(pp.diff(expr, "q", along="dq"))
