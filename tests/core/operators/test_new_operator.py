"""An operator from outside the library: one row with its formulas and its one differential.

`along_gravity` has the blocks g(k) g(k)*, with g(k) = [0; g] seen in the axes of body k. Nothing in
the library knows of it, and it is compiled, put into other expressions, and differentiated in all
three ways.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest
from random_models import random_state, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.core.calculus.differentiation import gradient
from phipsi.core.expressions.functions import cross
from phipsi.core.expressions.node import Expr, leaf
from phipsi.core.expressions.row import Row
from phipsi.core.expressions.spaces import FORCES, MOTIONS
from phipsi.core.expressions.structure import MEMORYLESS

STEP = 1e-30


def blocks(low: Any, x: Expr) -> Any:
    """g g* from the poses of the bodies and the gravity of the world, in operations of programs."""
    b = low.builder
    turn = b.apply("rotation", low.pose())
    g = b.mul(b.transpose(turn), b.apply("gravity"))
    return b.mul_symmetric(g, b.transpose(g))


def matrix(at: Any) -> Any:
    """The same with plain matrices, for one configuration."""
    world = np.array([0, 0, 0, *at.model.gravity])
    here = [at.turn(k).T @ world for k in range(at.model.n_bodies)]
    return at.diagonal(lambda k: np.outer(here[k], here[k]))


def change(x: Expr, d: Any) -> Expr:
    """δg = −ω × g when the body turns with ω, the angular part of its motion."""
    turned = cross(ops.angular @ d.motion) @ x
    return -turned - turned.T


GAMMA = leaf(
    Row(
        name="along_gravity",
        symbol="Γ",
        latex=r"\Gamma",
        takes=FORCES,
        gives=MOTIONS,
        structure=MEMORYLESS,
        needs=("q",),
        symmetric=True,
        meaning="forces along gravity",
        differential=change,
        blocks=blocks,
        matrix=matrix,
    )
)
VECTORS = {
    "a vector": GAMMA @ ops.M @ ops.V,
    "before a sweep": ops.H @ ops.phi @ ops.M @ GAMMA @ ops.b,
}
BLOCKS = {  # their derivatives by all of q are no operators
    "between articulated inertias": ops.P @ GAMMA @ ops.P @ ops.V,
    "the trace of blocks": ops.inertia_trace(GAMMA),
    "a block-diagonal part": ops.bd(ops.phi.T @ GAMMA @ ops.phi) @ ops.b,
    "in a family": ops.Riccati(M=ops.M + ops.M @ GAMMA @ ops.M).D @ ops.v,
}


@pytest.fixture
def model() -> pp.Model:
    return random_tree(4, 5, frames=True, armature=True)


state = partial(random_state, rates=3)


def along(expr: Expr, model: pp.Model, q: Any, v: Any, u: Any) -> Any:
    """The change of an expression by a complex step along u, with plain linear algebra."""
    return pp.evaluate_dense(expr, model, q + 1j * STEP * model.qdot(q, u), v).imag / STEP


def close(x: Any, y: Any) -> None:
    x, y = np.reshape(x, -1), np.reshape(y, -1)
    assert np.abs(x - y).max() <= 1e-10 * max(1, np.abs(y).max())


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("expr", [*VECTORS.values(), *BLOCKS.values()], ids=str)
def test_it_is_compiled(expr: Expr, backend: str, model: pp.Model):
    q, v, *_ = state(model)
    values = {"q": q, "v": v}
    program = pp.compile(expr, model, backend=backend)
    got = program(**{name: values[name] for name in program.inputs})
    close(got, pp.evaluate_dense(expr, model, q, v))


@pytest.mark.parametrize("expr", [GAMMA, *VECTORS.values(), *BLOCKS.values()], ids=str)
def test_along_a_direction(expr: Expr, model: pp.Model):
    q, v, u, _ = state(model)
    change = pp.diff(expr, "q", along="dq")
    close(pp.evaluate_dense(change, model, q, v, dq=u), along(expr, model, q, v, u))
    twice = pp.diff(change, "q", along="v")
    step = q + 1j * STEP * model.qdot(q, v)
    expected = pp.evaluate_dense(change, model, step, v, dq=u).imag / STEP
    close(pp.evaluate_dense(twice, model, q, v, dq=u), expected)


@pytest.mark.parametrize("expr", VECTORS.values(), ids=str)
def test_by_all_of_q(expr: Expr, model: pp.Model):
    q, v, u, _ = state(model)
    L = pp.diff(expr, "q")
    assert isinstance(L, Expr)
    close(pp.compile(L, model)(q, v, u), along(expr, model, q, v, u))


@pytest.mark.parametrize("expr", [*VECTORS.values(), *BLOCKS.values()], ids=str)
def test_gradients(expr: Expr, model: pp.Model):
    q, v, u, _ = state(model)
    change = along(expr, model, q, v, u)
    c = np.random.default_rng(1).standard_normal(change.shape)
    program = pp.vjp(expr, model, "q")
    assert program.inputs[0] == "q" and gradient(expr, "q").gives is ops.tau.gives
    values = {"q": q, "v": v, "x": c.reshape(model.n_bodies, -1) if c.size > model.nv else c}
    by_q = program(**{name: values[name] for name in program.inputs})
    close(np.sum(by_q * u), np.sum(c * change))
