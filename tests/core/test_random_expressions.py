"""What is compiled equals what is dense, for random expressions on random trees.

    PHIPSI_FUZZ=20000 pytest tests/core/test_random_expressions.py     more seeds
    PHIPSI_SEED=17 pytest tests/core/test_random_expressions.py        one seed again
    PHIPSI_BACKEND=native pytest tests/core/test_random_expressions.py another backend

Every seed draws a forest of all joint types, points on it, an expression and inputs; the programs
for all modes that fit, rewritten and as written, are compared with the dense oracle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from amounts import ALL as EVERYTHING, EXPRESSIONS
from random_expressions import BODY_SPACES, Generator, pick
from random_models import ALL, random_tree
from rounding import ALLOWED, Mistaken, applied, dense_with_rounding, excess, oracle_at

import phipsi as pp
from phipsi.core.backends.storage_layout import block_rows, block_shape, vector_shape
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import Expr, block_diagonal
from phipsi.core.expressions.spaces import EFFORTS, space_size
from phipsi.core.model.model import Model
from phipsi.core.model.points import PointSet, point_set
from phipsi.errors import LoweringError, SingularMatrixError

SEEDS = EXPRESSIONS
CHUNK = max(40, SEEDS // 400)
ONE = os.environ.get("PHIPSI_SEED")
BACKEND = os.environ.get("PHIPSI_BACKEND", "reference")
STARTS = list(range(0, SEEDS, CHUNK)) if ONE is None else [int(ONE)]


@dataclass
class Case:
    """One expression on one model in one state, and what it ought to be."""

    seed: int
    model: Model
    points: PointSet
    x: Expr
    inputs: dict[str, Any]
    rng: np.random.Generator
    errors: list[str] = field(default_factory=list)
    checks: int = 0

    def __post_init__(self) -> None:
        where = self.points if len(self.points) else None
        self.want, self.rounding = dense_with_rounding(
            self.x, self.model, points=where, **self.inputs
        )

    def operand(self, *columns: int) -> np.ndarray:
        shape = vector_shape(self.x.takes, self.model, self.points)
        return self.rng.standard_normal((*shape, *columns))

    def call(self, rewrite: str, operand: np.ndarray | None = None, **options: Any) -> Any:
        program = pp.compile(
            self.x, self.model, points=self.points, rewrite=rewrite, backend=BACKEND, **options
        )
        named = {name: self.inputs[name] for name in program.inputs if name != "x"}
        if operand is not None:
            named["x"] = operand
        return program(**named)

    def compare(self, what: str, got: np.ndarray, want: np.ndarray, rounding: np.ndarray) -> None:
        self.checks += 1
        if got.size != want.size:
            self.errors.append(f"seed {self.seed}, {what}: {got.shape} for {want.shape}: {self.x}")
        elif (off := excess(got, want, rounding)) > ALLOWED:
            self.errors.append(
                f"seed {self.seed}, {what}: off by {off:.3g} times the rounding, allowed are "
                f"{ALLOWED:g}: {self.x}"
            )

    def check(self, rewrite: str) -> None:
        x = self.x
        if x.is_vector:
            self.compare(rewrite, self.call(rewrite), self.want, self.rounding)
            return
        u = self.operand()
        wanted = applied(self.want, self.rounding, u.ravel())
        self.compare(f"apply {rewrite}", self.call(rewrite, u), *wanted)
        kind = self.rng.random()
        if kind < 0.3:
            u = self.operand(2)
            rows = space_size(x.takes, self.model, self.points)  # type: ignore[arg-type]
            got = self.call(rewrite, u, columns=True)
            wanted = applied(self.want, self.rounding, u.reshape(rows, 2))
            self.compare(f"columns {rewrite}", got, *wanted)
        if kind < 0.8:
            self.compare(
                f"dense {rewrite}", self.call(rewrite, mode="dense"), self.want, self.rounding
            )
        else:
            self.check_blocks(rewrite)

    def check_blocks(self, rewrite: str) -> None:
        pairs = [
            tuple(self.name_of_block(space.index) for space in (self.x.gives, self.x.takes))  # type: ignore[union-attr]
            for _ in range(3)
        ]
        if any(name is None for pair in pairs for name in pair):
            return
        got = self.call(rewrite, mode="blocks", blocks=pairs)
        for (row, col), block in zip(pairs, got, strict=True):
            rows = block_rows(self.x.gives, row, self.model, self.points)  # type: ignore[arg-type]
            cols = block_rows(self.x.takes, col, self.model, self.points)  # type: ignore[arg-type]
            wanted = self.want[rows, cols], self.rounding[rows, cols]
            self.compare(f"block {row, col} {rewrite}", block, *wanted)

    def check_diagonal(self, rewrite: str) -> None:
        x, m = self.x, self.model
        got = self.call(rewrite, mode="blocks")
        want, rounding = np.zeros((2, *block_shape(x.takes, x.gives, m)))
        for k, s in enumerate(m.v_slices):
            body, width = slice(6 * k, 6 * k + 6), s.stop - s.start
            rows = s if x.gives.index == "joint" else body
            cols = s if x.takes.index == "joint" else body
            if x.takes.index != x.gives.index:
                at: Any = (slice(None), s) if x.gives.index == "body" else s
            else:
                at = k if x.gives.index == "body" else (k, slice(width), slice(width))
            want[at], rounding[at] = self.want[rows, cols], self.rounding[rows, cols]
        self.compare(f"diagonal {rewrite}", got, want, rounding)

    def name_of_block(self, index: str) -> Any:
        m = self.model
        names = {
            "joint": m.joint_names,
            "body": m.body_names,
            "point": range(len(self.points)),
            "world": ["world"],
        }.get(index, ())
        return pick(self.rng, list(names)) if len(names) else None


def draw_model(rng: np.random.Generator) -> Model:
    kind = rng.random()
    armature = bool(rng.random() < 0.5)
    if kind < 0.02:
        return random_tree(rng, 0)
    n = int(rng.integers(1, 7))
    roots = int(rng.integers(1, 3))
    joints = ALL if kind < 0.8 else ("revolute", "prismatic")
    return random_tree(rng, max(n, roots), joints, n_roots=roots, armature=armature, frames=True)


def draw_points(rng: np.random.Generator, model: Model, independent: bool) -> PointSet:
    """Points on bodies, frames and the world, perhaps several on one; or on different bodies."""
    if independent:
        count = int(rng.integers(1, min(3, model.n_bodies) + 1))
        bodies = [model.body_names[i] for i in rng.permutation(model.n_bodies)[:count]]
    else:
        names = [*model.body_names, *(f"f{i}" for i in range(model.n_bodies)), "world"]
        bodies = [pick(rng, names) for _ in range(int(rng.integers(1, 4)))]
    offsets = rng.uniform(-0.5, 0.5, (len(bodies), 3))
    axes = pick(rng, ["world", "world", "body", "spatial"])
    return point_set(model, list(zip(bodies, offsets, strict=True)), axes)


def draw(seed: int, make: Callable[[Generator], Expr] = Generator.expression) -> Case:
    rng = np.random.default_rng(seed)
    model = draw_model(rng)
    with_points = rng.random() < 0.4
    independent = bool(rng.random() < 0.5) and model.n_bodies > 0
    points = draw_points(rng, model, independent) if with_points else point_set(model, None)
    bodies = model.n_bodies > 0
    x = make(Generator(rng, points=len(points) > 0, independent=independent, bodies=bodies))
    inputs = {
        "q": model.random_configuration(rng),
        "v": rng.standard_normal(model.nv),
        "vdot": rng.standard_normal(model.nv),
        "tau": rng.standard_normal(model.nv),
        "f_ext": rng.standard_normal((model.n_bodies, 6)),
        "f0": rng.standard_normal((len(points), 6)),
    }
    return Case(seed, model, points, x, inputs, rng)


def seeds(first: int) -> Iterator[int]:
    return iter([first] if ONE is not None else range(first, min(first + CHUNK, SEEDS)))


@pytest.mark.parametrize("first", STARTS, ids=lambda first: f"seeds from {first}")
def test_compiled_equals_dense(first: int):
    errors: list[str] = []
    for seed in seeds(first):
        case = draw(seed)
        for rewrite in ("full", "as_written"):
            try:
                case.check(rewrite)
            except Exception as e:
                case.errors.append(f"seed {seed}, {rewrite}: {type(e).__name__}: {e}: {case.x}")
        errors += case.errors
    assert not errors, "\n\n".join(errors)


@pytest.mark.parametrize("first", STARTS[:: len(STARTS) // 6 or 1])
def test_diagonal_blocks_in_storage_layout_equal_dense(first: int):
    """mode="blocks" without pairs, for the L X R whose diagonal is known to have an O(N) form."""
    errors: list[str] = []
    for seed in seeds(first):
        case = draw(seed, lambda g: g.inside_bd())
        for rewrite in ("full", "as_written"):
            try:
                case.check_diagonal(rewrite)
            except Exception as e:
                case.errors.append(f"seed {seed}, {rewrite}: {type(e).__name__}: {e}: {case.x}")
        errors += case.errors
    assert not errors, "\n\n".join(errors)


def wild_diagonal(g: Generator) -> Expr:
    """bd of any product, whether or not it has an O(N) form."""
    x = g.chain(g.pick(BODY_SPACES), int(g.rng.integers(2, 6)))
    while not x.takes.per_body:
        x = g.chain(g.pick(BODY_SPACES), int(g.rng.integers(2, 6)))
    return block_diagonal(x)


def wild_inverse(g: Generator) -> Expr:
    """The inverse of a sum of an invertible operator and any product."""
    space = g.pick(BODY_SPACES)
    for _ in range(50):
        x = g.chain(space, int(g.rng.integers(1, 5)))
        if x.takes is space:
            return (g.triangular(space, space) + g.number() * x).inv
        if x.takes is space.dual and space is EFFORTS:
            return (g.mass() + g.number() * x).inv
    return g.inverse(space)


@pytest.mark.parametrize("make", [wild_diagonal, wild_inverse], ids=["bd", "inverse"])
def test_what_has_no_sweeps_is_refused_and_never_wrong(make: Callable[[Generator], Expr]):
    outcomes = {"right": 0, "refused": 0, "singular": 0}
    errors: list[str] = []
    for seed in range(SEEDS // 6):
        try:
            case = draw(seed, make)
        except SingularMatrixError:
            outcomes["singular"] += 1
            continue
        for rewrite in ("full", "as_written"):
            try:
                case.check(rewrite)
                outcomes["right"] += 1
            except LoweringError as e:
                assert "no O(N) form" in str(e) and "pp.evaluate_dense" in str(e)
                outcomes["refused"] += 1
            except SingularMatrixError:
                outcomes["singular"] += 1
        errors += case.errors
    assert not errors, "\n\n".join(errors)
    assert outcomes["right"] > SEEDS // 20 and outcomes["refused"] > 0, outcomes


def test_the_comparison_notices_small_mistakes():
    """One factor that is off by one in 10⁹ is seen, unless the value is rounding itself."""
    noticed: list[bool] = []
    count = 200 if EVERYTHING else 100
    for seed in range(count):
        case = draw(seed)
        parts = [y for y in case.x.args if y.op is not Op.IDENTITY] or [case.x]
        mistaken = oracle_at(Mistaken, case.x, case.model, case.points, case.inputs)
        mistaken.where = pick(case.rng, parts)
        wrong = mistaken.value(case.x).reshape(case.want.shape)
        if (np.abs(wrong - case.want) > 1e-11 * np.abs(case.want)).any():
            noticed.append(excess(wrong, case.want, case.rounding) > ALLOWED)
    assert len(noticed) > count // 2 and np.mean(noticed) > 0.85, (len(noticed), np.mean(noticed))
