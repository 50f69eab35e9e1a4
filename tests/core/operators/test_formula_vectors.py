"""Vectors and numbers by formulas, joint coordinates in formulas, and names of derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import model_from_parents

import phipsi as pp
from phipsi.errors import InputError, ParseError, SpaceError
from phipsi.operators import D, M, V, coordinates, diag, mass_matrix, tau, v

TREE = model_from_parents([-1, 0, 1, 1], 4, ["revolute", "universal", "prismatic", "cylindrical"])
MIXED = model_from_parents([-1, 0, 1], 4, ["free", "revolute", "spherical"])
RNG = np.random.default_rng(8)
Q = TREE.random_configuration(RNG)
RATES, X, U, W = RNG.normal(size=(4, TREE.nv))
c, h = pp.custom.scalar("c", 0.7), pp.custom.scalar("h", 0.3)


def spring(q, v, c):
    return -c * q * (1 + q * q) - np.where(v > 0, v, 0.2 * v)


def kinetic(M, V, c):
    return c * V @ M @ V / 2


def grip(D, q, c):
    return c * D * np.cos(q[0]) + np.diag(np.exp(c * q))


SPRING = pp.custom.vector("spring", "efforts", spring, custom=[c], meaning="springs and valves")
T = pp.custom.scalar("T_c", kinetic, custom=[c])
GRIP = pp.custom.operator("Grip", "rates -> efforts", grip, custom=[c], symmetric=True)
RESPONSE = (mass_matrix + GRIP).inv @ (tau + SPRING @ T)


def by_hand(q, rates, number):
    """The response, with dense matrices and the functions on floats."""
    A, P = pp.evaluate_dense(mass_matrix, TREE, q), pp.evaluate_dense(D, TREE, q)
    motions, inertias = pp.evaluate_dense(V, TREE, q, rates), pp.evaluate_dense(M, TREE, q)
    whole, energy = A.copy(), 0.0
    for k, hinge in enumerate(TREE.v_slices):
        body = slice(6 * k, 6 * k + 6)
        whole[hinge, hinge] += grip(P[hinge, hinge], q[hinge], number)
        energy += kinetic(inertias[body, body], motions[body], number)
    return np.linalg.solve(whole, X + energy * spring(q, rates, number))


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_values(backend):
    program = pp.compile([SPRING, T, RESPONSE], TREE, backend=backend)
    force, energy, response = program(Q, RATES, X)
    assert_allclose(force, spring(Q, RATES, 0.7), rtol=1e-13)
    assert_allclose(
        energy, 0.35 * RATES @ pp.evaluate_dense(mass_matrix, TREE, Q) @ RATES, rtol=1e-12
    )
    assert_allclose(response, by_hand(Q, RATES, 0.7), rtol=1e-10)
    for x, found in ((SPRING, force), (T, energy), (RESPONSE, response)):
        assert_allclose(pp.evaluate_dense(x, TREE, Q, RATES, tau=X), found, rtol=1e-10)
    batch = program(np.stack([Q, Q[::-1]]), np.stack([RATES, U]), X)
    assert_allclose(batch[2][0], response, rtol=1e-12)
    assert not np.allclose(by_hand(Q, RATES, 0.8), response, rtol=1e-4)


STEPS = {
    "q": lambda e: (Q + e * U, RATES, 0.7),
    "v": lambda e: (Q, RATES + e * U, 0.7),
    "c": lambda e: (Q, RATES, 0.7 + e),
}


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_gradients_by_coordinates_rates_and_numbers(backend):
    gradients = pp.vjp(RESPONSE, TREE, tuple(STEPS), backend=backend)(Q, RATES, X, W)
    for (name, at), gradient in zip(STEPS.items(), gradients, strict=True):
        slope = W @ (by_hand(*at(1e-6)) - by_hand(*at(-1e-6))) / 2e-6
        found = gradient if name == "c" else gradient @ U
        assert_allclose(found, slope, rtol=1e-6, err_msg=name)
        assert abs(found - 2 * slope) > 1e-3
    along = pp.diff(RESPONSE, "c")
    assert_allclose(pp.evaluate_dense(along, TREE, Q, RATES, tau=X) @ W, gradients[2], rtol=1e-9)


def test_gradients_of_numbers():
    by_v = pp.vjp(T, TREE, "v")(Q, RATES)
    assert_allclose(by_v, 0.7 * pp.evaluate_dense(mass_matrix, TREE, Q) @ RATES, rtol=1e-11)
    twice = pp.diff(pp.diff(T, "v", along="dv"), "v", along="dv")
    wanted = 0.7 * U @ pp.evaluate_dense(mass_matrix, TREE, Q) @ U
    assert_allclose(pp.evaluate_dense(twice, TREE, Q, RATES, inputs={"dv": U}), wanted, rtol=1e-11)


# ---- coordinates ---------------------------------------------------------------------------------


def test_coordinates_are_a_vector_of_the_algebra():
    K = pp.custom.operator("K_q", "rates -> efforts", 3.0, symmetric=True)
    assert pp.parse("K_q q", custom=[K]) is K @ coordinates
    assert_allclose(pp.compile(K @ coordinates, TREE)(Q), 3 * Q)
    assert_allclose(pp.compile(pp.diff(K @ coordinates, "q"), TREE, mode="dense")(), np.eye(6) * 3)
    energy = coordinates.T @ K @ coordinates
    assert_allclose(pp.vjp(energy, TREE, "q")(Q), 6 * Q)
    stiff = diag(K @ coordinates)
    assert_allclose(pp.evaluate_dense(stiff, TREE, Q), np.diag(3 * Q))


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_joints_without_such_coordinates(backend):
    q = MIXED.random_configuration(RNG)
    for wrong in (SPRING, 2 * coordinates, coordinates, coordinates.T @ tau):
        with pytest.raises(InputError, match=r"reads q of joint 'j0' \(free\)[^$]*len\(q\) == 1"):
            pp.compile(wrong, MIXED, backend=backend)
    some = pp.custom.vector("some", "efforts", lambda q: -q if len(q) == 1 else np.zeros(len(q)))
    wanted = np.zeros(MIXED.nv)
    wanted[6] = -q[7]
    assert_allclose(pp.compile(some, MIXED, backend=backend)(q), wanted)
    assert_allclose(pp.evaluate_dense(some, MIXED, q), wanted)
    gradient = pp.vjp(some, MIXED, "q", backend=backend)(q, np.ones(MIXED.nv))
    assert_allclose(gradient, np.where(np.arange(MIXED.nv) == 6, -1.0, 0.0))


# ---- names ---------------------------------------------------------------------------------------


def test_derivatives_are_read_back():
    own = [GRIP, SPRING, T, c]
    once = [pp.diff(x, w, along=f"d{w}") for x in (GRIP, SPRING, T) for w in ("q", "v")]
    twice = [pp.diff(x, "q", along="dvdot") for x in once if x.op.name != "ZERO"]
    weights = [pp.core.calculus.differentiation.gradient(GRIP @ v, "c")]
    checked = [x for x in (*once, *twice, *weights) if "_" in str(x)]
    assert len(checked) > 8 and any("d0d1_" in str(x) for x in checked)
    assert any("w2_grip" in str(x) for x in checked)
    for x in checked:
        for text in (str(x), x.text("ascii"), *([] if x in weights else [x.latex()])):
            assert pp.parse(text, custom=own) is x
    assert pp.parse("d1_spring(q; v; c; dv)", custom=own) is not pp.parse(
        "d0_spring(q; v; c; dv)", custom=own
    )


@pytest.mark.parametrize("text", ["d3_spring(q; v; c; dv)", "d1d0_spring(q; v; c; dv; dq)", "d_f"])
def test_names_that_no_derivative_has(text):
    with pytest.raises(ParseError):
        pp.parse(text, custom=[SPRING, c])


def test_arguments_of_formulas_are_checked():
    with pytest.raises(SpaceError, match="spring takes .joint rates; joint rates; a number., not"):
        pp.parse("spring(q; v)", custom=[pp.custom.vector("s2", "efforts", spring, custom=[c]), c])
    with pytest.raises(InputError, match="reserved for derivatives of formulas"):

        def d0_f(v):
            return v

        pp.custom.vector("other", "efforts", d0_f)


def test_wrong_vectors_and_numbers():
    with pytest.raises(InputError, match=r"shape \(1, 1\).*\(1,\)\.\nReturn an array of shape"):
        pp.custom.vector("wide", "efforts", lambda v: np.outer(v, v))
    with pytest.raises(InputError, match="as expressions:  pp.custom.scalar"):
        pp.custom.scalar("h2", lambda h, c: h * c, custom=[h, c])
    with pytest.raises(SpaceError, match="belong to joints or bodies"):
        pp.custom.vector("u", "point_motions", lambda v: v)
    same = pp.custom.vector("ones", "motions", lambda M: M[5, 5])
    assert_allclose(
        pp.evaluate_dense(same, TREE, Q).reshape(-1, 6)[:, 2], [m.mass for m in TREE.inertias]
    )
