"""What is compiled equals what is dense, for random expressions on random trees.

    PHIPSI_FUZZ=20000 pytest tests/numeric/test_random_expressions.py     more seeds
    PHIPSI_SEED=17 pytest tests/numeric/test_random_expressions.py        one seed again

Every seed draws a forest of all joint types, points on it, an expression and inputs, and compares the
programs for all modes that fit, rewritten and as written, with the dense oracle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from random_expressions import Generator, pick
from random_models import ALL, random_tree

import phipsi as pp
from phipsi.backends.dense import dense, dense_with_scale
from phipsi.backends.layout import block_rows, space_size, vector_shape
from phipsi.errors import LoweringError
from phipsi.expressions.node import Expr, block_diagonal
from phipsi.model.model import Model
from phipsi.model.points import PointSet, point_set

TOLERANCE = 1e-9
SEEDS = int(os.environ.get("PHIPSI_FUZZ", 1200))
CHUNK = max(40, SEEDS // 400)
ONE = os.environ.get("PHIPSI_SEED")
STARTS = range(0, SEEDS, CHUNK) if ONE is None else [int(ONE)]


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
        self.want, self.scale = dense_with_scale(self.x, self.model, points=where, **self.inputs)

    def operand(self, *columns: int) -> np.ndarray:
        assert self.x.takes is not None
        shape = vector_shape(self.x.takes, self.model, self.points)
        return self.rng.standard_normal((*shape, *columns))

    def call(self, rewrite: str, operand: np.ndarray | None = None, **options: Any) -> Any:
        program = pp.compile(self.x, self.model, points=self.points, rewrite=rewrite, **options)
        named = {name: self.inputs[name] for name in program.inputs if name != "x"}
        if operand is not None:
            named["x"] = operand
        return program(**named)

    def compare(self, what: str, got: np.ndarray, want: np.ndarray, scale: float) -> None:
        self.checks += 1
        if got.size != want.size:
            self.errors.append(f"seed {self.seed}, {what}: {got.shape} for {want.shape}: {self.x}")
        elif got.size:
            error = np.abs(got.reshape(want.shape) - want).max()
            if not error <= TOLERANCE * scale:
                self.errors.append(
                    f"seed {self.seed}, {what}: off by {error:.2e}, allowed are "
                    f"{TOLERANCE * scale:.2e}: {self.x}"
                )

    def check(self, rewrite: str) -> None:
        x = self.x
        if x.is_vector:
            self.compare(rewrite, self.call(rewrite), self.want, self.scale)
            return
        u = self.operand()
        size = self.scale * max(1.0, float(np.linalg.norm(u)))
        self.compare(f"apply {rewrite}", self.call(rewrite, u), self.want @ u.ravel(), size)
        kind = self.rng.random()
        if kind < 0.3:
            u = self.operand(2)
            rows = space_size(x.takes, self.model, self.points)  # type: ignore[arg-type]
            got = self.call(rewrite, u, columns=True)
            size = self.scale * max(1.0, float(np.linalg.norm(u)))
            self.compare(f"columns {rewrite}", got, self.want @ u.reshape(rows, 2), size)
        if kind < 0.8:
            self.compare(
                f"dense {rewrite}", self.call(rewrite, mode="dense"), self.want, self.scale
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
            want = self.want[rows, cols]
            self.compare(f"block {row, col} {rewrite}", block, want, self.scale)

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
    """Points on bodies and frames, several on one body, also on the world; or on different bodies."""
    if independent:
        count = int(rng.integers(1, min(3, model.n_bodies) + 1))
        bodies = [model.body_names[i] for i in rng.permutation(model.n_bodies)[:count]]
    else:
        names = [*model.body_names, *(f"f{i}" for i in range(model.n_bodies)), "world"]
        bodies = [pick(rng, names) for _ in range(int(rng.integers(1, 4)))]
    offsets = rng.uniform(-0.5, 0.5, (len(bodies), 3))
    axes = pick(rng, ["world", "world", "body", "spatial"])
    return point_set(model, list(zip(bodies, offsets, strict=True)), axes)


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    model = draw_model(rng)
    with_points = rng.random() < 0.4
    independent = bool(rng.random() < 0.5) and model.n_bodies > 0
    points = draw_points(rng, model, independent) if with_points else point_set(model, None)
    x = Generator(rng, points=len(points) > 0, independent=independent).expression()
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
