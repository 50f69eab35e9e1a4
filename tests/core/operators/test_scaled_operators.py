"""Operators times own numbers: s * U, block by block, against dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import model_from_parents

import phipsi as pp
from phipsi.errors import SpaceError
from phipsi.operators import (  # fmt: skip
    E_phi,
    H,
    I,
    J,
    M,
    V,
    bd,
    mass_matrix,
    phi,
    psi,
    scaled,
    tau,
    trace,
    v,
)

TREE = model_from_parents(
    [-1, 0, 1, 1], 3, ["spherical", "revolute", "universal", "prismatic"], armature=True
)
RNG = np.random.default_rng(6)
Q = TREE.random_configuration(RNG)
RATES, X, U, W = RNG.normal(size=(4, TREE.nv))
h = pp.custom.scalar("h", 0.2)
half = RNG.normal(size=(6, 6))
C = pp.custom.operator("C", "rates -> efforts", 0.4, symmetric=True)
N = pp.custom.operator("N", "motions -> forces", half @ half.T, symmetric=True)
B = pp.custom.operator("B_any", "forces -> forces", half)
PLAIN = H @ phi @ M @ phi.T @ H.T


def faded(s, at):
    """The recursion body by body, from the tips."""
    E, out = at(E_phi), at(N)
    for _ in range(TREE.n_bodies):
        out = at(N) + s * E @ out @ E.T
    return out


CASES = {
    "table": (h * N, lambda s, at: s * at(N)),
    "not symmetric": (B * h, lambda s, at: s * at(B)),
    "inertia": (h * M, lambda s, at: s * at(M)),
    "square": ((h @ h) * C, lambda s, at: s * s * at(C)),
    "quotient": (N / h, lambda s, at: at(N) / s),
    "sum": (h * (C + 2 * pp.operators.Jr), lambda s, at: s * (at(C) + 2 * at(pp.operators.Jr))),
    "product": (h * PLAIN, lambda s, at: s * at(PLAIN)),
    "transition": (h * psi, lambda s, at: s * at(psi)),
    "leaf": (h * mass_matrix, lambda s, at: s * at(mass_matrix)),
    "energy": ((v.T @ (C @ v)) * N, lambda s, at: 0.4 * RATES @ RATES * at(N)),
    "implicit": ((mass_matrix + h * C + (h @ h) * C).inv,
                 lambda s, at: np.linalg.inv(at(mass_matrix) + 0.4 * (s + s * s) * np.eye(7))),
    "other weights": ((h * PLAIN + C).inv, lambda s, at: np.linalg.inv(s * at(PLAIN) + at(C))),
    "weighted mass matrix": ((C + h * mass_matrix).inv,
                             lambda s, at: np.linalg.inv(s * at(mass_matrix) + at(C))),
    "weighted twice": ((C + h * (h * H @ phi @ M @ phi.T @ H.T)).inv,
                       lambda s, at: np.linalg.inv(s * s * at(PLAIN) + at(C))),
    "sum with a number": ((1 - h) * N + B @ N * (1 / h + 2),
                          lambda s, at: (1 - s) * at(N) + (1 / s + 2) * at(B) @ at(N)),
    "recursion": (pp.custom.operator("Fade", "motions -> forces",
                              recursion=lambda X: N + h * (E_phi @ X @ E_phi.T)),
                  lambda s, at: faded(s, at)),
    "inverse": ((h * N).inv, lambda s, at: np.linalg.inv(at(N)) / s),
}  # fmt: skip


def at(x):
    return pp.evaluate_dense(x, TREE, Q, RATES)


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    x, by_hand = CASES[name]
    wanted = by_hand(0.2, at)
    assert_allclose(at(x), wanted, rtol=1e-9, atol=1e-12)
    for backend in ("reference", "native"):
        program = pp.compile(x, TREE, mode="dense", backend=backend)
        given = {"q": Q, "v": RATES}
        found = program(**{n: given[n] for n in program.inputs})
        assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-8, atol=1e-10)
    if name != "energy":
        assert not np.allclose(by_hand(0.3, at), wanted, rtol=1e-3)


@pytest.mark.parametrize(
    "name", ["implicit", "other weights", "weighted mass matrix", "product", "square"]
)
def test_gradients(name):
    x, by_hand = CASES[name]
    gradient = pp.vjp(x @ (tau if x.takes is tau.gives else v), TREE, "h")
    given = {"q": Q, "v": RATES, "tau": RATES, "x": W}
    found = gradient(**{n: given[n] for n in gradient.inputs})
    slope = W @ (by_hand(0.2 + 1e-6, at) - by_hand(0.2 - 1e-6, at)) @ RATES / 2e-6
    assert_allclose(found, slope, rtol=1e-6)
    along = pp.diff(x, "h")
    assert_allclose(W @ at(along) @ RATES, slope, rtol=1e-6)


def test_gradients_pass_through_scaled_blocks():
    y = (mass_matrix + h * bd(H @ (h * N) @ H.T)).inv @ tau
    by_q = pp.vjp(y, TREE, "q")(Q, X, W)
    ahead, behind = (
        pp.evaluate_dense(y, TREE, TREE.integrate(Q, e * U), tau=X) for e in (1e-6, -1e-6)
    )
    assert_allclose(by_q @ U, W @ (ahead - behind) / 2e-6, rtol=1e-6)


def test_traces():
    found = trace(N @ M.inv @ (h * N) @ M.inv)
    square = at(N) @ np.linalg.inv(at(M))
    wanted = np.trace(square @ square) * 0.2
    assert_allclose(pp.compile(found, TREE)(), wanted, rtol=1e-10)
    assert_allclose(at(found), wanted, rtol=1e-10)
    twist = trace(pp.operators.cross(V))
    assert_allclose(pp.compile(twist @ twist, TREE)(Q, RATES), 0.0, atol=1e-12)
    by_v = pp.vjp(trace(pp.operators.cross(V) @ pp.operators.cross(V)), TREE, "v")(Q, RATES)
    ahead, behind = (
        pp.evaluate_dense(
            trace(pp.operators.cross(V) @ pp.operators.cross(V)), TREE, Q, RATES + e * U
        )
        for e in (1e-6, -1e-6)
    )
    assert_allclose(by_v @ U, (ahead - behind) / 2e-6, rtol=1e-7)


def test_the_algebra():
    assert (h * N).T is h * N and (B * h).T is h * B.T
    assert h * v is v @ h and (h * PLAIN).T is h * PLAIN
    assert h * (2 * N) is 2 * (h * N) and h * (N + M) is h * N + h * M
    assert pp.diff(h * C, "h") is C
    for text, x in {"h N": h * N, "N h": h * N, "h h C": (h @ h) * C}.items():
        assert pp.parse(text, custom=[h, N, C]) is x
    assert pp.parse("(M + h N)^-1 h b", custom=[h, N]) is ((M + h * N).inv @ pp.operators.b) * h
    for x in (h * N, (h @ h) * C, N / h, h * psi, trace(B)):
        for text in (str(x), x.text("ascii"), x.latex()):
            assert pp.parse(text, custom=[h, N, C, B]) is x
    assert pp.prove(pp.Identity((h * N).inv, N.inv / h)).in_general.method == "exact"
    assert not pp.prove(pp.Identity((h * N).inv, h * N.inv)).holds


def test_a_time_step_is_an_input():
    program = pp.compile((mass_matrix + h * C).inv @ tau, TREE, inputs=["h"])
    steps = np.array([0.01, 0.1, 1.0])
    found = program(Q, X, steps)
    for s, y in zip(steps, found, strict=True):
        assert_allclose(y, np.linalg.solve(at(mass_matrix) + 0.4 * s * np.eye(7), X), rtol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: h * I, "h cannot scale I"),
        (lambda: h * J, r"h cannot scale J .*J @ \(y @ h\)"),
        (lambda: trace(M), "operator on one space, but M is: body motions → body forces"),
        (lambda: scaled(h, phi), "needs a memoryless operator, but φ is"),
        (lambda: C * C, "write X @ Y"),
        (lambda: C / C, "write X @ Y"),
        (lambda: h @ C, r"These fit:  h \* C"),
        (lambda: C + 1, r"write 1 \* I"),
        (lambda: h + "1", "not a finite real number"),
    ],
)
def test_what_cannot_be_scaled(wrong, words):
    with pytest.raises(SpaceError, match=words):
        wrong()
