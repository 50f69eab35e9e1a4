"""Laws in machine code equal their reference on arrays; the same bits at every width."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from compiled_graphs import compiled
from numpy.testing import assert_allclose
from traced_functions import ALL, traced, values

from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.graph import in_order
from phipsi.core.arrays.law_derivatives import adjoints, ones
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.native.kernel.law_code import Area, LawCode
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import Emitter

LANES = 4


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients(name, fused):
    result = traced(ALL[name])
    inputs = [x for x in in_order([result]) if x.operation.name == "input"]
    bars = adjoints([result], [ones(result)], inputs)
    results = [result, *(x for x in bars if x is not None)]
    given = values((LANES,))
    found = compiled(results, LANES, fused)(given)
    for got, wanted in zip(found, evaluate(results, given), strict=True):
        assert_allclose(got, wanted, rtol=1e-14, atol=2e-15)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_the_same_bits_at_every_width(name, fused):
    result, given = traced(ALL[name]), values((8,))
    (wanted,) = compiled([result], 8, fused)(given)
    for lanes in (1, 2, 4):
        narrow = compiled([result], lanes, fused)
        for start in range(0, 8, lanes):
            part = {n: x[start : start + lanes] for n, x in given.items()}
            (found,) = narrow(part)
            assert np.array_equal(found, wanted[start : start + lanes])


@cache
def policy():
    """Two layers of 64 tanh, as a graph: 30 observations, 12 actions."""
    x = Tracer(ops.input("x", (30,)))
    sizes = (30, 64, 64, 12)
    for i, (n, m) in enumerate(zip(sizes, sizes[1:], strict=False)):
        w, b = Tracer(ops.input(f"w{i}", (m, n))), Tracer(ops.input(f"b{i}", (m,)))
        x = w @ x + b
        x = np.tanh(x) if i < 2 else x
    return as_node(x)


def weights(batch=()):
    rng = np.random.default_rng(0)
    shapes = {x.data[0]: x.shape for x in in_order([policy()]) if x.operation.name == "input"}
    return {
        name: rng.standard_normal((*(batch if name == "x" else ()), *shape)) / 8
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("fused", [False, True])
def test_policies_with_shared_weights(fused):
    given = weights((LANES,))
    shared = tuple(name for name in given if name != "x")
    (found,) = compiled([policy()], LANES, fused, shared)(given)
    (wanted,) = evaluate([policy()], given)
    assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)
    x = given["x"]
    for i in range(3):
        x = x @ given[f"w{i}"].T + given[f"b{i}"]
        x = np.tanh(x) if i < 2 else x
    assert_allclose(found, x, rtol=1e-13, atol=1e-14)


def test_curves():
    knots = np.array([0.0, 1.0, 3.0])
    rows = np.array([[1.0, 2.0, 0.5], [3.5, -1.0, 0.25]])
    x = ops.input("x", (3,))
    result = ops.curve(x, knots, rows)
    (slope,) = adjoints([result], [ones(result)], [x])
    given = {"x": np.array([[-1.0, 0.0, 0.5], [1.0, 2.0, 4.0], [np.nan, 3.0, 0.9], [1.1, 2.9, 0]])}
    wanted = evaluate([result, slope], given)
    assert_allclose(wanted[0][0], [-0.5, 1.0, 2.125])
    for got, exact in zip(compiled([result, slope], LANES, False)(given), wanted, strict=True):
        assert_allclose(got, exact, rtol=1e-15)


@pytest.mark.parametrize("name", [n for n, row in ops.OPERATIONS.items() if row.is_entrywise])
def test_every_operation_has_code_and_numpys_special_values(name):
    """NaN, infinities and zeros of both signs."""
    if name == "curve":
        return
    row = ops.OPERATIONS[name]
    arity = row.text.count("{")
    numbers = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 0.3])
    grid = [x.ravel() for x in np.meshgrid(*[numbers] * arity)]
    inputs = [ops.input(f"x{i}", ()) for i in range(arity)]
    node = ops.apply(name, *inputs)
    size = len(grid[0])
    code = compiled([node], 8, False)
    found = np.concatenate([
        code({f"x{k}": x[i : i + 8] for k, x in enumerate(grid)})[0]
        for i in range(0, min(size, 64), 8)
    ])  # fmt: skip
    (wanted,) = evaluate([node], {f"x{k}": x for k, x in enumerate(grid)})
    assert_allclose(found, wanted[: len(found)], rtol=1e-15, atol=0)


VIEWS = {
    "transposed": lambda w, x: w.T @ x,
    "transposed, on the right": lambda w, x: x @ w.T,
    "both": lambda w, x: w.T @ w,
    "of a transposed one": lambda w, x: (w.T[3:, 2:].T @ x[:23]) * 2.0,
    "a column": lambda w, x: w[:, 5] @ x,
    "a column and a matrix": lambda w, x: w @ w[:, 7],
    "every second": lambda w, x: x @ w[:, 1::2],
    "backward": lambda w, x: x[::-1] * np.sin(x) + w @ x[::-1],
    "entry by entry": lambda w, x: np.sin(w.T) - w,
    "repeated rows": lambda w, x: (
        np.broadcast_to(x, (26, 26)) @ x + np.broadcast_to(x, (26, 26))[3]
    ),
    "repeated columns": lambda w, x: (w * x[:, None]) @ x,
    "in no pattern": lambda w, x: x[[*range(0, 26, 3), *range(20), 0]] * 1.5,
}


@pytest.mark.parametrize("shared", [(), ("w",)])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_large_arrays(name, shared):
    """Rows, columns and transposed matrices are read where they are, also in gradients."""
    w, x = (Tracer(ops.input(*y)) for y in (("w", (26, 26)), ("x", (26,))))
    result = as_node(VIEWS[name](w, x))
    bars = adjoints([result], [ones(result)], [as_node(w), as_node(x)])
    results = [result, *(y for y in bars if y is not None)]
    rng = np.random.default_rng(4)
    given = {
        n: rng.standard_normal(s if n in shared else (LANES, *s))
        for n, s in (("w", (26, 26)), ("x", (26,)))
    }
    found = compiled(results, LANES, True, shared)(given)
    for got, wanted in zip(found, evaluate(results, given), strict=True):
        assert_allclose(got, np.broadcast_to(wanted, got.shape), rtol=1e-13, atol=1e-12)
    whole = {n: y if n in shared else y[0] for n, y in given.items()}
    assert_allclose(found[0][0], VIEWS[name](whole["w"], whole["x"]), rtol=1e-13, atol=1e-12)


def test_large_irregular_patterns_are_loops():
    """Picks, scatters, sums along axes and constants beyond `MANY` entries."""
    rng = np.random.default_rng(2)
    x = ops.input("x", (20, 3, 8))
    picked = ops.gather(x, rng.integers(0, 480, (50, 6)))
    weight = ops.constant(rng.standard_normal((50, 6)))
    product = ops.apply("mul", picked, weight)
    results = [
        ops.scatter_add(product, rng.integers(0, 90, (50, 6)), (90,)),
        ops.scatter_add(product, rng.integers(0, 5, (50, 6)), (5,)),
        ops.gather(
            ops.scatter_add(product, np.arange(300), (300,)), np.arange(300).reshape(50, 6).T
        ),
        *(ops.reduce_sum(x, axis) for axis in (0, 1, 2)),
        ops.reduce_sum(product, 1),
    ]
    given = {"x": rng.standard_normal((LANES, 20, 3, 8))}
    wanted = evaluate(results, given)
    for got, exact in zip(compiled(results, LANES, False)(given), wanted, strict=True):
        assert_allclose(got, exact, rtol=1e-14, atol=1e-14)


def chain():
    """Arrays that follow from each other entry by entry, with a sum between them."""
    x, y = (Tracer(ops.input(name, (40,))) for name in "xy")
    z = np.sin(x * y) - x
    w = np.where(z < y, z * z, np.abs(y))
    return [as_node(v) for v in (w, np.sum(w) * z + y, z)]


def test_entries_that_follow_from_each_other_are_one_loop():
    results = chain()
    given = {name: np.random.default_rng(3).standard_normal((LANES, 40)) for name in "xy"}
    for chosen in (results, results[:1], results[1:2]):  # others are not kept in memory
        for got, wanted in zip(
            compiled(chosen, LANES, False)(given), evaluate(chosen, given), strict=True
        ):
            assert_allclose(got, wanted, rtol=1e-14, atol=2e-14)
    module = ir.Module()
    function = ir.IRFunction(module, ir.FunctionType(ir.VOID, [ir.POINTER] * 2), "go")
    e = Emitter(LANES, fused=False)
    e.builder = b = ir.IRBuilder(function.append_basic_block("entry"))
    sizes = []

    def memory(size):
        sizes.append(size)
        return b.alloca(e.vector, size=size)

    places = {name: Area(x) for name, x in zip("xy", function.args, strict=True)}
    code = LawCode(module, e, places, memory)
    code.write(results[:1])
    assert sizes == [40] and sum(x.label.startswith("head") for x in function.blocks) == 1
    code.write(results)  # z again, and the other one
    assert sizes == [40] * 3 and sum(x.label.startswith("head") for x in function.blocks) == 2
