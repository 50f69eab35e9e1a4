"""Derivatives of expressions with constraint rows A in them, against complex steps."""

from functools import cache

import numpy as np
import pytest
from amounts import seeds
from comparers import close
from differences import complex_step as moved
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import forward_with_rows
from phipsi.operators import A, Adot, B, J, Lambda, U, V, tau

STEP = 1e-30
ROWS = A @ Lambda @ A.T
FORCES = J.T @ A.T @ ROWS.inv @ A @ J @ pp.parse("v")
VECTORS = {
    "rates of the rows": A @ B.T @ V,
    "their accelerations": U,
    "forces of given rates": FORCES,
    "second rates": Adot @ B.T @ V,
    "constraint forces": ROWS.inv @ (A @ J @ pp.parse("mass_matrix^-1") @ tau - U),
    "constrained accelerations": forward_with_rows(None, False, False)[0],
    "with articulated quantities": J.T @ A.T @ ROWS.inv @ U + pp.parse("D v"),
}


def drawn(seed):
    """A system, a state, and a generator that goes on from there."""
    system, values, state = _drawn(seed)
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    return system, values, rng


@cache
def _drawn(seed):
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:3]]
    system, q = random_system(seed, 5, kinds, independent=True)
    nv = system.model.nv
    rows = system.jacobian(q).shape[0]
    values = {"q": q, "v": admissible(system, q, rng), "tau": rng.standard_normal(nv)}
    values["Udot"] = rng.standard_normal(rows)
    return system, values, rng.bit_generator.state


def run(program, values):
    return program(**{name: values[name] for name in program.inputs})


@pytest.mark.parametrize("seed", seeds(8, 2))
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_with_rows(name, seed):
    expr, (system, values, rng) = VECTORS[name], drawn(seed)
    model = system.model
    plain = pp.compile(expr, system, backend="reference")
    for wrt, direction in (("q", "dq"), ("v", "dv")):
        u = rng.standard_normal(model.nv)
        expected = run(plain, moved(model, values, wrt, u)).imag / STEP
        along = pp.compile(pp.diff(expr, wrt, along=direction), system, backend="reference")
        close(run(along, {**values, direction: u}), expected)
        c = rng.standard_normal(expected.shape)
        found = run(pp.vjp(expr, system, wrt, backend="reference"), {**values, "x": c})
        close(np.sum(found * u), np.sum(c * expected))
        if name != "with articulated quantities":
            L = pp.compile(pp.diff(expr, wrt), system, mode="dense", backend="reference")
            close(run(L, values) @ u, expected.reshape(-1))


@pytest.mark.parametrize("seed", seeds(6, 1))
def test_the_dense_oracle_agrees(seed):
    """Also where A changes along two motions, of which the free one may be the first."""
    system, values, rng = drawn(seed)
    u = rng.standard_normal(system.model.nv)
    for expr in (A @ B.T @ V, FORCES, Adot @ B.T @ V):
        L = pp.diff(expr, "q")
        program = pp.compile(L, system, mode="dense", backend="reference")
        close(pp.evaluate_dense(L, system, values["q"], values["v"]) @ u, run(program, values) @ u)
        along = pp.diff(expr, "q", along="dq")
        close(
            pp.evaluate_dense(along, system, values["q"], values["v"], dq=u),
            run(program, values) @ u,
        )


def test_rows_in_machine_code():
    system, values, rng = drawn(3)
    for name in ("their accelerations", "constrained accelerations"):
        expr = VECTORS[name]
        c = rng.standard_normal(run(pp.compile(expr, system, backend="reference"), values).shape)
        both = [pp.vjp(expr, system, ("q", "v"), backend=b) for b in ("native", "reference")]
        assert both[0].backend == "native"
        for x, y in zip(*(run(p, {**values, "x": c}) for p in both), strict=True):
            close(x, y)
    dense = [
        pp.compile(pp.diff(VECTORS["their accelerations"], "q"), system, mode="dense", backend=b)
        for b in ("native", "reference")
    ]
    close(run(dense[0], values), run(dense[1], values))
