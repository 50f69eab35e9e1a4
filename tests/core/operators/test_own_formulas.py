"""Blocks of own operators as formulas: every route against NumPy, body by body."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import model_from_parents

import phipsi as pp
from phipsi.errors import InputError, SpaceError
from phipsi.operators import D, H, M, P, V, mass_matrix, v

RNG = np.random.default_rng(11)
TREE = model_from_parents(
    [-1, 0, 1, 1, 0], 3, ["free", "revolute", "universal", "prismatic", "spherical"], armature=True
)
Q = TREE.random_configuration(RNG, (3,))
RATES, X = RNG.normal(size=(3, TREE.nv)), RNG.normal(size=(3, TREE.n_bodies, 6))
h = pp.custom.scalar("h", 0.3)


def mixed(M, H, D, P, V, h, c=2.5):
    out = c * M + h * H.T @ H + np.outer(V, V[::-1])
    out[0, 1] = np.sqrt(P[1, 1]) + np.sin(P[0, 3]) / (1 + P[2, 2] ** 2) - np.cos(V[4])
    return out / D[0, 0]


def soft(D, v, h):
    return h * D + np.diag(np.sqrt(1 + v * v) + np.exp(-v * v) * np.tanh(2 * v))


MIXED = pp.custom.operator("Mix", "motions -> forces", mixed, custom=[h])
SOFT = pp.custom.operator("S_v", "rates -> efforts", soft, custom=[h], symmetric=True)


def by_hand(function, row, names, i):
    """Blocks computed by NumPy from those of the dense matrices of built-in operators."""
    q, rates = Q[i], RATES[i]
    size = TREE.nv if row == "joint" else 6 * TREE.n_bodies
    out = np.zeros((size, size))
    whole = {n: pp.evaluate_dense(x, TREE, q, rates) for n, x in names.items()}
    for k, hinge in enumerate(TREE.v_slices):
        body = slice(6 * k, 6 * k + 6)
        part = {
            "M": (body, body), "P": (body, body), "H": (hinge, body), "D": (hinge, hinge),
            "V": (body,), "v": (hinge,),
        }  # fmt: skip
        own = hinge if row == "joint" else body
        out[own, own] = function(**{n: x[part[n]] for n, x in whole.items()}, h=0.3)
    return out


@pytest.fixture(scope="module")
def blocks():
    names = {"M": M, "H": H, "D": D, "P": P, "V": V}
    return [by_hand(mixed, "body", names, i) for i in range(3)]


def test_dense_is_the_formula(blocks):
    for i, wanted in enumerate(blocks):
        assert_allclose(
            pp.evaluate_dense(MIXED, TREE, Q[i], RATES[i]), wanted, rtol=1e-12, atol=1e-12
        )
    wanted = by_hand(soft, "joint", {"D": D, "v": v}, 0)
    assert_allclose(pp.evaluate_dense(SOFT, TREE, Q[0], RATES[0]), wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_compiled_programs_agree_in_body_axes(backend, blocks):
    program = pp.compile(MIXED, TREE, backend=backend)
    assert program.backend == backend
    found = program(Q, RATES, X)
    for i, wanted in enumerate(blocks):
        wanted = (wanted @ X[i].ravel()).reshape(-1, 6)
        assert_allclose(found[i], wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
        assert_allclose(program(Q[i], RATES[i], X[i]), wanted, rtol=0, atol=1e-11)
        other = (blocks[i].T @ X[i].ravel()).reshape(-1, 6)
        assert not np.allclose(found[i], other, atol=1e-3)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_it_composes(backend):
    x = RNG.normal(size=TREE.nv)
    inverse = (mass_matrix + SOFT).inv
    whole = pp.evaluate_dense(mass_matrix, TREE, Q[0]) + by_hand(soft, "joint", {"D": D, "v": v}, 0)
    found = pp.compile(inverse, TREE, backend=backend)(Q[0], RATES[0], x)
    assert_allclose(found, np.linalg.solve(whole, x), rtol=1e-10, atol=1e-10)
    program = pp.compile(SOFT, TREE, inputs=["h"], backend=backend)
    twice = program(q=Q[0], v=RATES[0], h=0.6, x=x) - program(q=Q[0], v=RATES[0], h=0.3, x=x)
    assert_allclose(twice, 0.3 * pp.evaluate_dense(D, TREE, Q[0]) @ x, rtol=1e-10, atol=1e-10)


def test_equal_formulas_are_one_and_are_pickled():
    assert pp.custom.operator("S_v", "rates -> efforts", soft, custom=[h], symmetric=True) is SOFT
    assert pickle.loads(pickle.dumps(SOFT)) is SOFT
    assert SOFT.T is SOFT
    assert MIXED.T is not MIXED
    one, other = (
        pp.custom.operator("S_c", "rates -> efforts", lambda D, c=c: c * D) for c in (1.0, 2.0)
    )
    assert one is not other
    with pytest.raises(InputError, match="two custom operators are named S_c"):
        pp.compile(one + other, TREE)


def test_a_number_is_a_multiple_of_the_identity():
    U = pp.custom.operator("Umass", "motions -> forces", lambda M: M[3, 3])
    wanted = np.repeat([m[3, 3] for m in TREE.inertia_matrices], 6)
    assert_allclose(pp.evaluate_dense(U, TREE, Q[0]), np.diag(wanted), rtol=1e-14)


def test_constants_are_not_steps():
    U = pp.custom.operator("Unum", "motions -> forces", lambda V: V[5] * V[3] + V[5] * 3.0)
    W = pp.custom.operator("Unum", "motions -> forces", lambda V: V[5] * V[3] + V[5] * V[3])
    assert U is not W
    speeds = pp.evaluate_dense(V, TREE, Q[0], RATES[0]).reshape(-1, 6)
    wanted = np.repeat(speeds[:, 5] * (speeds[:, 3] + 3), 6)
    assert_allclose(
        pp.evaluate_dense(U, TREE, Q[0], RATES[0]), np.diag(wanted), rtol=1e-12, atol=1e-13
    )


def test_functions_of_numpy_are_known_without_laws():
    """A process that only introduces an operator has not loaded what laws need."""
    code = (
        "import numpy as np, phipsi as pp\n"
        "print(pp.custom.vector('drag', 'efforts', lambda v: -v * np.abs(v)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "drag\n"


def test_it_is_printed():
    text = str(pp.explain(SOFT))
    assert "S_v(k) = soft(D(k), v(k), h)" in text


def test_proofs():
    def other(v, D, h):
        ratio = (np.exp(4 * v) - 1) / (np.exp(4 * v) + 1)
        return D * h + np.diag((1 + v**2) ** 0.5 + ratio / np.exp(v**2))

    def angles(v):
        return np.diag(np.sin(2 * v))

    def products(v):
        return np.diag(2 * np.sin(v) * np.cos(v))

    same = pp.custom.operator("S_2", "rates -> efforts", other, custom=[h])
    proof = pp.prove(pp.Identity(SOFT, same))
    assert proof.holds
    assert proof.in_general.method == "50 digits"  # never called exact: the degree is not known
    assert not pp.prove(pp.Identity(SOFT, 2 * same - D)).holds
    one, two = (pp.custom.operator(f.__name__, "rates -> efforts", f) for f in (angles, products))
    assert pp.prove(pp.Identity(one, two)).holds
    assert not pp.prove(pp.Identity(one, 2 * two)).holds


# ---- derivatives ---------------------------------------------------------------------------------


def moved(wrt, u, eps):
    """The state after a small step of q or v along u."""
    q, rates = Q[0], RATES[0]
    return (TREE.integrate(q, eps * u), rates) if wrt == "q" else (q, rates + eps * u)


def difference(x, wrt, u):
    ahead, behind = (pp.evaluate_dense(x, TREE, *moved(wrt, u, eps)) for eps in (1e-6, -1e-6))
    return (ahead - behind) / 2e-6


@pytest.mark.parametrize("wrt", ["q", "v"])
@pytest.mark.parametrize("x", [MIXED, SOFT], ids=str)
def test_changes_along_directions(x, wrt):
    u = RNG.normal(size=TREE.nv)
    change = pp.diff(x, wrt, along=f"d{wrt}")
    wanted = difference(x, wrt, u)
    for backend in ("reference", "native"):
        program = pp.compile(change, TREE, mode="dense", backend=backend)
        found = program(**{"q": Q[0], "v": RATES[0], f"d{wrt}": u})
        assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert np.abs(wanted).max() > 1e-2  # it does change


def test_second_derivatives():
    cubic = pp.custom.operator("Cub", "rates -> efforts", lambda v: np.diag(v**3))
    twice = pp.diff(pp.diff(cubic, "v", along="dv"), "v", along="dv")
    u, rates = RNG.normal(size=TREE.nv), RATES[0]
    found = pp.evaluate_dense(twice, TREE, Q[0], rates, inputs={"dv": u})
    assert_allclose(found, np.diag(6 * rates * u * u), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("wrt", ["q", "v"])
@pytest.mark.parametrize(("x", "weight"), [(MIXED @ V, X[0]), (SOFT @ v, RATES[1])], ids=str)
def test_gradients(x, weight, wrt):
    u = RNG.normal(size=TREE.nv)
    gradient = pp.vjp(x, TREE, wrt)(Q[0], RATES[0], weight)
    wanted = weight.ravel() @ difference(x, wrt, u)
    assert_allclose(gradient @ u, wanted, rtol=1e-6)
    assert abs(gradient @ u - 2 * wanted) > 1e-3


def test_derivatives_by_own_quantities():
    wanted = pp.evaluate_dense(D, TREE, Q[0]) @ RATES[0]
    assert_allclose(
        pp.evaluate_dense(pp.diff(SOFT @ v, "h"), TREE, Q[0], RATES[0]), wanted, rtol=1e-12
    )
    gradient = pp.vjp(SOFT @ v, TREE, "h")(Q[0], RATES[0], RATES[1])
    assert_allclose(gradient, wanted @ RATES[1], rtol=1e-10)
    k = pp.custom.vector("k", "efforts", np.ones(TREE.nv))
    x = pp.custom.operator("Uk", "rates -> efforts", lambda D, k: D * (k @ k), custom=[k]) @ v
    gradient = pp.vjp(x, TREE, "k")(Q[0], RATES[0], RATES[1])
    wanted = [  # k @ k changes by 2 with every component of the same joint
        2 * RATES[1][hinge] @ pp.evaluate_dense(D, TREE, Q[0])[hinge, hinge] @ RATES[0][hinge]
        for hinge in TREE.v_slices
    ]
    assert_allclose(gradient, np.repeat(wanted, [j.nv for j in TREE.joints]), rtol=1e-10)


# ---- errors --------------------------------------------------------------------------------------


def branch(D):
    if D[0, 0] > 1:
        return D
    return 2 * D


def inverse_sine(D):
    return np.arcsinh(D)


def narrow(M):
    return M[:3, :3]


def infinite(D):
    return D * np.inf


def converted(D):
    return float(D[0, 0])


def endless(D):
    x = D[0, 0]
    while True:
        x = x * x + 1


def by_zero(D):
    return D / 0.0


def two_columns(D):
    return D[1, 1] * D


@pytest.mark.parametrize(
    ("function", "spaces", "words"),
    [
        (branch, "rates -> efforts", ["in branch", "if D[0, 0] > 1", "branches on a value"]),
        (
            inverse_sine,
            "rates -> efforts",
            ["in inverse_sine", "np.arcsinh cannot be traced"],
        ),
        (narrow, "motions -> forces", ["narrow", "shape (3, 3)", "(6, 6)"]),
        (infinite, "rates -> efforts", ["in infinite", "inf is not finite"]),
        (converted, "rates -> efforts", ["in converted", "needs the number itself"]),
        (endless, "rates -> efforts", ["in endless", "more than 20,000 steps"]),
        (by_zero, "rates -> efforts", ["in by_zero", "divides by the constant 0"]),
        (
            lambda Mm: Mm,
            "motions -> forces",
            ["'Mm' is not a quantity of one body", "Did you mean"],
        ),
        (lambda phi: phi, "forces -> forces", ["'phi' is not memoryless"]),
        (lambda c=1.0: c, "forces -> forces", ["needs a quantity of the body"]),
        (lambda *x: x, "forces -> forces", ["has no fixed name"]),
        (lambda D: "no", "rates -> efforts", ["'no', which is not a number"]),
    ],
)
def test_errors_name_the_function_and_the_line(function, spaces, words):
    with pytest.raises(InputError) as error:
        pp.custom.operator("Uerr", spaces, function)
    for word in ["test_own_formulas.py, line ", *words]:
        assert word in str(error.value)


def test_a_joint_for_which_a_formula_fails_is_named():
    U = pp.custom.operator("Utwo", "rates -> efforts", two_columns)
    with pytest.raises(InputError, match="two_columns of joint 'j1'") as error:
        pp.compile(U, TREE)
    assert "return D[1, 1] * D" in str(error.value)


def test_a_formula_that_is_not_symmetric():
    with pytest.raises(SpaceError, match="declared symmetric, but its formula is not"):
        pp.custom.operator("Uskew", "motions -> forces", mixed, custom=[h], symmetric=True)
