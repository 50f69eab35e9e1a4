"""The same call gives the same bits: every batch size and split, threads, repeats, processes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_models import ALL, branching, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.core.model.model import Model

A_G = ops.a + ops.gravity
FORWARD = ops.mass_matrix.inv @ (ops.tau - ops.H @ ops.phi @ (ops.M @ ops.phi.T @ A_G + ops.b))
LARGEST = 33  # several full groups of 4 or 8 lanes and every tail


def every_joint() -> Model:
    return branching(len(ALL), 11, ALL, armature=True)


def arm() -> Model:
    return random_tree(2, 5, ("revolute",), armature=True)


def inputs_of(model: Model, batch: int = LARGEST) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    q = np.array([model.random_configuration(rng) for _ in range(batch)])
    return q, rng.standard_normal((batch, model.nv)), rng.standard_normal((batch, model.nv))


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "forward dynamics, every joint type": (every_joint, FORWARD, {}),
    "forward dynamics, arm": (arm, FORWARD, {}),
    "mass matrix, arm": (arm, ops.mass_matrix, {"mode": "dense"}),
    "inverse mass matrix, arm": (arm, ops.mass_matrix.inv, {"mode": "dense"}),
    "log det and solve, arm": (arm, (ops.logdet(ops.mass_matrix), ops.mass_matrix.inv), {}),
    "reproducible": (arm, FORWARD, {"reproducible": True}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[pp.Program, list[np.ndarray], list[np.ndarray]]:
    """A program, a batch of inputs, and what it gives for them one by one."""
    make, x, options = CASES[request.param]
    model = make()
    program = pp.compile(x, model, backend="native", **options)
    assert program.backend == "native"
    q, v, tau = inputs_of(model)
    known = {"q": q, "v": v, "tau": tau, "x": tau}
    args = [known[n] for n in program.inputs]
    return program, args, run(program, args)


def run(program: pp.Program, args: list[np.ndarray], **options: Any) -> list[np.ndarray]:
    out = program(*args, **options)
    return list(out) if isinstance(out, tuple) else [out]


def same_bits(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(
        np.array_equal(
            np.ascontiguousarray(x).view(np.int64), np.ascontiguousarray(y).view(np.int64)
        )
        for x, y in zip(a, b, strict=True)
    )


def test_every_batch_size_gives_the_same_bits(case: Any):
    program, args, whole = case
    for size in range(1, LARGEST + 1):
        part = run(program, [a[:size] for a in args])
        assert same_bits(part, [w[:size] for w in whole]), size


def test_every_split_gives_the_same_bits(case: Any):
    program, args, whole = case
    for cut in range(1, LARGEST):
        parts = [run(program, [a[s] for a in args]) for s in (slice(cut), slice(cut, None))]
        joined = [np.concatenate(p) for p in zip(*parts, strict=True)]
        assert same_bits(joined, whole), cut


def test_single_calls_give_the_same_bits(case: Any):
    program, args, whole = case
    ones = [run(program, [a[i] for a in args]) for i in range(LARGEST)]
    stacked = [np.array([one[k] for one in ones]) for k in range(len(whole))]
    assert same_bits(stacked, whole)


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_threads_give_the_same_bits(case: Any, threads: int):
    program, args, whole = case
    assert same_bits(run(program, args, threads=threads), whole)


def test_neighbours_do_not_matter(case: Any):
    """A lane computes the same next to other configurations, also next to failing ones."""
    program, args, whole = case
    order = np.random.default_rng(0).permutation(LARGEST)
    assert same_bits(run(program, [a[order] for a in args]), [w[order] for w in whole])
    poisoned = [a.copy() for a in args]
    poisoned[0][1::2] = np.nan
    results, status = program(*poisoned, on_error="nan")
    results = list(results) if isinstance(results, tuple) else [results]
    assert (status[1::2] != 0).all() and (status[::2] == 0).all()
    assert same_bits([r[::2] for r in results], [w[::2] for w in whole])
    assert all(np.isnan(r[1::2]).all() for r in results)


def test_repeats_give_the_same_bits(case: Any):
    program, args, whole = case
    assert all(same_bits(run(program, args), whole) for _ in range(20))


def test_many_threads_may_call_one_program(case: Any):
    """More callers than there are scratch blocks kept, each with its own part of the batch."""
    program, args, whole = case

    def call(i: int) -> bool:
        s = slice(i % 7, LARGEST - i % 5)
        return all(
            same_bits(run(program, [a[s] for a in args]), [w[s] for w in whole]) for _ in range(30)
        )

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(call, range(48)))


# ---- another process -----------------------------------------------------------------------------

DIGEST = """
import sys
sys.path[:0] = {paths!r}
import test_native_bits as t
print(t.digest(False), t.digest(True))
"""


def digest(reproducible: bool) -> str:
    model = arm()
    program = pp.compile(FORWARD, model, backend="native", reproducible=reproducible)
    args = inputs_of(model)
    results = program(*args), program(*(a[0] for a in args))  # of groups, and of one configuration
    return hashlib.sha256(b"".join(x.tobytes() for x in results)).hexdigest()


def test_a_fresh_process_gives_the_same_bits(tmp_path: Path):
    """Once compiled anew, once from the disk cache, once without a cache."""
    here = Path(__file__).parent
    text = DIGEST.format(paths=[str(here), str(here.parent / "support")])
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    mine = [digest(False), digest(True)]
    for setting in (str(cache), str(cache), "0"):
        done = subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, "PHIPSI_CACHE": setting},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == mine
    # Keys and code of each program and of its kernel, for one configuration and for groups; and of
    # what no program changes: sines of large angles (2), moving numbers into lanes and back.
    assert len(list(cache.iterdir())) == 16 + 16


@pytest.mark.parametrize("effort", ["0", "1"])
def test_code_that_is_compiled_with_less_effort_gives_the_same_bits(effort, monkeypatch):
    """Tests with the mark `quick_code` build on this."""
    inverse = pp.operators.mass_matrix.inv
    forms = [(arm, FORWARD, "apply", 3), (arm, inverse, "dense", 1)]
    if effort == "0":  # what they use
        forms += [(every_joint, FORWARD, "apply", 3), (arm, pp.diff(FORWARD, "v"), "dense", 2)]

    def bits(make, expr, mode, count):
        model = make()
        program = pp.compile(expr, model, mode=mode, backend="native")
        assert program.backend == "native"
        return program(*inputs_of(model)[:count]).tobytes()

    wanted = [bits(*form) for form in forms]
    monkeypatch.setenv("PHIPSI_LLVM_EFFORT", effort)
    assert [bits(*form) for form in forms] == wanted


def test_an_effort_that_llvm_does_not_know(monkeypatch):
    monkeypatch.setenv("PHIPSI_LLVM_EFFORT", "fast")
    with pytest.raises(
        pp.errors.InputError, match="PHIPSI_LLVM_EFFORT='fast' must be 0, 1, 2 or 3"
    ):
        pp.compile(FORWARD, arm(), backend="native")(*inputs_of(arm()))


# ---- reproducible=True ---------------------------------------------------------------------------


# what would let LLVM change the value of a floating-point operation
LOOSE = re.compile(r"= f(?:add|sub|mul|div|neg|cmp) (?:fast|reassoc|nnan|ninf|nsz|arcp|afn)\b")


def test_reproducible_code_has_no_fused_operations():
    program = pp.compile(FORWARD, arm(), backend="native", reproducible=True)
    text = program.native.unit.emit()
    assert " fmul " in text and not LOOSE.search(text)
    for word in ("contract", "llvm.fma", "llvm.fmuladd"):
        assert word not in text, word
    assert program.native.target.features == "" and program.native.target.lanes == 4


def test_reproducible_results_are_close_to_the_others():
    model = arm()
    args = inputs_of(model)
    strict = pp.compile(FORWARD, model, backend="native", reproducible=True)(*args)
    usual = pp.compile(FORWARD, model, backend="native")(*args)
    np.testing.assert_allclose(strict, usual, rtol=1e-11, atol=1e-12)


def test_nothing_is_reassociated():
    text = pp.compile(FORWARD, arm(), backend="native").native.unit.emit()
    assert " fmul " in text and not LOOSE.search(text)
