"""Equations in graphs: solved on arrays and in machine code, differentiated, or reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differences import slope
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.graph import in_order
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.native.native_backend import KernelSource
from phipsi.simulation.integrators.fixed_point import UNSOLVED
from phipsi.simulation.integrators.graph_steps import solution
from phipsi.simulation.runs.run_memory import RunMemory
from phipsi.simulation.runs.run_program import RunProgram

E, M = ops.input("E", (3,)), ops.input("m", (3,))
ECC = ops.input("e", ())


def number(x: Any) -> Any:
    """A node that arithmetic is written with."""
    return Tracer(x)


anomaly, mean, e = map(number, (E, M, ECC))


def kepler() -> Any:
    """E = M + e sin E, which has one solution for 0 ≤ e < 1."""
    return solution([E], [as_node(mean + e * np.sin(anomaly))], [M])[0]


def newton(m, ecc):
    x = m + 0.0
    for _ in range(60):
        x = x - (x - ecc * np.sin(x) - m) / (1 - ecc * np.cos(x))
    return x


def run(result: Any, rows: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A node in machine code: the state "out" after one step; and the status."""
    base = KernelSource(pp.compile(FORWARD_DYNAMICS, pp.examples.planar_arm(1)).source)
    inputs = {name: x[0].size for name, x in rows.items()}
    count = len(next(iter(rows.values())))
    out = np.zeros((count, max(1, result.size)))
    program = RunProgram(base, {"out": result}, {}, inputs, {}, (), {})
    memory = RunMemory(program, {"out": out, **rows}, count)
    memory.run(1e-3, 1, 0, records=False)
    return out, memory.status


def test_solved_on_arrays_and_in_machine_code():
    """The same solutions, to rounding; those of machine code do not depend on neighbours."""
    rng = np.random.default_rng(0)
    rows = {"m": rng.uniform(-3, 3, (11, 3)), "e": rng.uniform(0, 0.3, (11, 1))}
    wanted = newton(rows["m"], rows["e"])
    result = kepler()
    arrays = evaluate([result], {"m": rows["m"], "e": rows["e"][:, 0]})[0]
    found, status = run(result, rows)
    assert not status.any()
    assert_allclose(arrays, wanted, atol=2e-15)
    assert_allclose(found, wanted, atol=2e-15)
    for k in range(11):
        alone, _ = run(result, {name: x[k : k + 1] for name, x in rows.items()})
        assert_array_equal(alone[0], found[k])


def test_without_a_solution_a_lane_fails_alone():
    """x ← x + 1 never stands still where e = 1; elsewhere it is not touched."""
    x = ops.input("x", (3,))
    image = as_node(0.3 * number(x) + e * (0.7 * number(x) + 1.0) + mean)
    result = solution([x], [image], [M])[0]
    ecc = np.array([0.1, 1.0, 0.2, 0.0, 1.0])
    rows = {"m": np.arange(15.0).reshape(5, 3), "e": ecc[:, None]}
    found, status = run(result, rows)
    assert status.tolist() == [0, UNSOLVED, 0, 0, UNSOLVED]
    wanted = (rows["m"] + ecc[:, None]) / (0.7 - 0.7 * ecc[:, None] + (ecc[:, None] == 1))
    good = ecc < 1
    assert_allclose(found[good], wanted[good], rtol=1e-14)
    assert not found[~good].any()  # the step is not taken
    arrays = evaluate([result], {"m": rows["m"], "e": ecc})[0]
    assert_allclose(arrays[good], wanted[good], rtol=1e-14)
    assert np.isnan(arrays[~good]).all()


def test_several_unknowns_that_converge_at_different_rates():
    x, y = ops.input("x", (3,)), ops.input("y", ())
    images = [as_node(0.01 * number(x) + number(y) * mean), as_node(0.4 * number(y) + 0.6 * e)]
    zero = ops.constant(np.zeros(3)), ops.constant(0.0)
    results = solution([x, y], images, zero)
    rows = {"m": np.random.default_rng(1).normal(size=(6, 3)), "e": np.ones((6, 1)) * 3}
    wanted = 3 * rows["m"] / 0.99
    found, status = run(results[0], rows)
    assert not status.any()
    assert_allclose(found, wanted, rtol=1e-13)
    assert_allclose(run(results[1], rows)[0], 3.0, rtol=1e-13)


def test_what_does_not_change_is_computed_once():
    """Nodes without unknowns are arguments of the call, not part of its graph."""
    hard = as_node(np.exp(np.tanh(mean)) * np.sqrt(e))
    result = solution([E], [as_node(0.1 * anomaly + number(hard))], [M])[0]
    body = in_order(result.args[0].data.body)
    assert not {"exp", "tanh", "sqrt"} & {x.operation.name for x in body}
    assert hard in result.args[0].args


def test_equal_equations_are_one_call():
    assert kepler() is kepler()
    one, other = (solution([E], [as_node(k * np.cos(anomaly))], [M])[0] for k in (0.1, 0.2))
    assert one.args[0].data.name != other.args[0].data.name


def test_gradient_by_the_implicit_function_theorem():
    """Against differences of order eight; the guess has no weight. Arrays and machine code."""
    result, rng = kepler(), np.random.default_rng(3)
    weights, along = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    m, ecc = rng.uniform(-3, 3, (4, 3)), rng.uniform(0.1, 0.4, 4)
    bar = ops.input("w", (3,))
    by_m, by_e = adjoints([result], [bar], [M, ECC])
    values = {"m": m, "e": ecc, "w": weights}
    found = evaluate([by_m, by_e], values)  # type: ignore[list-item]
    wanted = weights / (1 - ecc[:, None] * np.cos(newton(m, ecc[:, None])))
    assert_allclose(found[0], wanted, rtol=1e-13)

    def cost(dm=0.0, de=0.0):
        return (weights * newton(m + dm, ecc[:, None] + de)).sum(axis=1)

    assert_allclose((found[0] * along).sum(axis=1), slope(lambda x: cost(dm=x * along), 1e-2),
                    rtol=1e-10)  # fmt: skip
    assert_allclose(found[1], slope(lambda x: cost(de=x), 1e-2), rtol=1e-9)
    rows = {"m": m, "e": ecc[:, None], "w": weights}
    assert_allclose(run(by_m, rows)[0], wanted, rtol=1e-13)
    assert_allclose(run(by_e, rows)[0][:, 0], found[1], rtol=1e-12)


def test_a_guess_has_no_weight():
    guess = ops.input("guess", (3,))
    result = solution([E], [as_node(mean + 0.2 * np.sin(anomaly))], [guess])[0]
    by_guess, by_mean = adjoints([result], [ops.constant(np.ones(3))], [guess, M])
    assert by_guess is None and by_mean is not None


@pytest.mark.parametrize("noise", [1e-13, 1e-6])
def test_rounding_that_never_settles(noise):
    """Changes that no longer shrink are rounding if they are small; else there is no solution."""
    x = ops.input("x", (3,))
    wave = np.sin(1e17 * number(x))  # as good as random
    result = solution([x], [as_node(1.0 + 0.1 * number(x) + noise * wave)], [M])[0]
    found, status = run(result, {"m": np.zeros((9, 3))})
    if noise < 1e-11:
        assert not status.any()
        assert_allclose(found, 1 / 0.9, rtol=1e-11)
    else:
        assert (status == UNSOLVED).all()
