"""The native backend gives what the reference gives: random expressions, and every joint type.

PHIPSI_FUZZ_NATIVE=5000 pytest tests/native/test_native_expressions.py     more seeds

The first random expressions, and some programs for every joint type, are compiled as users do, the
others without LLVM's optimisation; `make fuzz` compiles all as users do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amounts import NATIVE_EXPRESSIONS
from random_expressions import Generator
from random_models import (
    ALL,
    model_from_parents,
    random_axis,
    random_inertia,
    random_pose,
    random_tree,
)
from rounding import ALLOWED, applied, dense_with_rounding, excess

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_operators,
    inverse_dynamics_operators,
)
from phipsi.core.backends.storage_layout import vector_shape
from phipsi.core.expressions.spaces import UNKNOWN
from phipsi.core.model.model import Model
from phipsi.core.model.points import point_set
from phipsi.errors import LoweringError, SingularMatrixError
from phipsi.identification.regressors import REGRESSOR
from phipsi.native.tables import model_tables

SEEDS = NATIVE_EXPRESSIONS
CHUNK = 25
OPTIMISED = 8  # the first ones, as users compile them; `make fuzz` optimises all
BATCH = 3  # less than a full group of lanes everywhere
# Code is written per joint type: few types per model keep the compiler's time low.
KINDS = [("revolute",), ("revolute",), ("prismatic",), ("spherical",), ("free", "revolute"), ALL]
WEIGHTS = np.array([0.5, 0.2, 0.12, 0.12, 0.05, 0.01])

A_G = ops.a + ops.gravity
FORWARD = ops.mass_matrix.inv @ (ops.tau - ops.H @ ops.phi @ (ops.M @ ops.phi.T @ A_G + ops.b))
INVERSE = (
    ops.H @ ops.phi @ (ops.M @ ops.phi.T @ (ops.H.T @ ops.vdot + A_G) + ops.b - ops.f_ext)
    + ops.Jr @ ops.vdot
)


class NotNative(Exception):
    """The program has no machine code and runs on the reference backend."""


def draw_inputs(
    model: Model, rng: np.random.Generator, n_points: int, batch: int
) -> dict[str, Any]:
    return {
        "q": np.array([model.random_configuration(rng) for _ in range(batch)]),
        "v": rng.standard_normal((batch, model.nv)),
        "vdot": rng.standard_normal((batch, model.nv)),
        "tau": rng.standard_normal((batch, model.nv)),
        "f_ext": rng.standard_normal((batch, model.n_bodies, 6)),
        "f0": rng.standard_normal((batch, n_points, 6)),
    }


def both(
    x: Any,
    model: Model,
    values: dict[str, Any],
    rng: np.random.Generator,
    *,
    alone: bool = False,
    **options: Any,
) -> tuple[Any, Any]:
    """Results of the two backends on the same inputs; of machine code one by one, if `alone`."""
    native = pp.compile(x, model, backend="native", **options)
    reference = pp.compile(x, model, backend="reference", **options)
    if native.backend != "native":
        raise NotNative(str(x))
    named = {n: values[n] for n in native.inputs if n in values}
    for name, shape in native.input_shapes.items():
        if name in native.inputs and name not in named:
            batch = len(values["q"])
            named[name] = rng.standard_normal((batch, *shape))
    if alone and named:
        found = np.stack([native(**{n: a[i] for n, a in named.items()}) for i in range(BATCH)])
    else:
        found = native(**named)
    return found, reference(**named)


def one_seed(seed: int) -> str | None:
    """None if all is well, otherwise what is wrong."""
    rng = np.random.default_rng([seed, 2])
    kinds = KINDS[int(rng.choice(len(KINDS), p=WEIGHTS))]
    n, roots = int(rng.integers(1, 6)), int(rng.integers(1, 3))
    armature = bool(rng.random() < 0.5)
    model = random_tree(rng, max(n, roots), kinds, n_roots=roots, armature=armature, frames=True)
    where = None
    if rng.random() < 0.4:
        bodies = rng.permutation(model.n_bodies)[: int(rng.integers(1, 3))]
        where = point_set(model, [(f"b{i}", rng.uniform(-0.5, 0.5, 3)) for i in bodies])
    x = Generator(rng, points=where is not None, independent=where is not None).expression(5)
    inputs = draw_inputs(model, rng, 0 if where is None else len(where), BATCH)
    options: dict[str, Any] = {"points": where, "rewrite": "full"}
    if rng.random() < 0.2:
        options["rewrite"] = "as_written"
    if not x.is_vector and rng.random() < 0.4:
        options["mode"] = "dense"
    is_applied = not (x.is_vector or "mode" in options)
    operand = np.empty((BATCH, 0))
    if is_applied and x.takes is not UNKNOWN:
        operand = rng.standard_normal(
            (BATCH, *vector_shape(x.takes, model, point_set(model, where)))
        )
    try:
        # groups of configurations and one alone are different code
        alone = bool(seed % 2)
        got, want = both(x, model, {**inputs, "x": operand}, rng, alone=alone, **options)
    except (LoweringError, SingularMatrixError):
        return "refused"
    except NotNative:
        return f"seed {seed} {options.get('mode', 'apply')} has no machine code: {x}"
    if got.shape != want.shape:
        return f"seed {seed}: {got.shape} for {want.shape}: {x}"
    for i in range(BATCH):
        at = {name: values[i] for name, values in inputs.items()}
        value, rounding = dense_with_rounding(x, model, points=where, **at)
        if is_applied:
            value, rounding = applied(value, rounding, operand[i].ravel())
        # what depends on no input has no batch
        one, other = (got[i], want[i]) if got.size == BATCH * rounding.size else (got, want)
        off = excess(one, other, rounding.reshape(other.shape), value)
        if off > ALLOWED:
            return (
                f"seed {seed} {options.get('mode', 'apply')}, element {i}: off by {off:.3g} times "
                f"the rounding: {x}"
            )
    return None


PARTS = [range(OPTIMISED)]
PARTS += [range(i, min(i + CHUNK, SEEDS)) for i in range(OPTIMISED, SEEDS, CHUNK)]


@pytest.mark.parametrize(
    "part",
    [pytest.param(p, marks=pytest.mark.quick_code if p.start else ()) for p in PARTS],
    ids=lambda p: f"seeds from {p.start}",
)
def test_random_expressions_equal_the_reference(part: range):
    outcomes = [one_seed(seed) for seed in part]
    errors = [o for o in outcomes if o not in (None, "refused")]
    assert not errors, "\n\n".join(str(e) for e in errors)
    assert outcomes.count("refused") <= 0.25 * len(outcomes)


# ---- every joint type ----------------------------------------------------------------------------

# one of each, on two trees with branches (bodies on fixed joints become part of their parents)
EVERY = [*ALL, "revolute"]
PARENTS = [-1, 0, 1, 1, 3, 4, 4, -1, 7, 8, 3]
POINTS = [("b9", (0.1, 0.2, -0.3)), ("b5", (0.0, 0.1, 0.0)), ("world", (1.0, 0.0, 0.0))]
HAND = [("b9", (0.1, 0.2, -0.3)), ("b10", (0.0, 0.1, 0.0))]

NAMED: dict[str, tuple[Any, dict[str, Any]]] = {
    "forward dynamics": (FORWARD, {}),
    "inverse dynamics": (INVERSE, {}),
    "mass matrix": (ops.mass_matrix, {"mode": "dense"}),
    "inverse mass matrix": (ops.mass_matrix.inv, {"mode": "dense"}),
    "poses": (ops.pose, {}),
    "frame poses": (ops.frame_pose, {"points": POINTS}),
    "moved": (ops.moved, {}),
    "Jacobian": (ops.J, {"mode": "dense", "points": POINTS}),
    "velocities of points": (ops.B.T @ ops.V, {"points": POINTS}),
    "accelerations of points": (
        ops.Bdot.T @ ops.V + ops.B.T @ ops.phi.T @ (ops.H.T @ ops.vdot + ops.a),
        {"points": POINTS},
    ),
    "forces at points": (ops.H @ ops.phi @ ops.B @ ops.f0, {"points": POINTS}),
    "compliance": (ops.J @ ops.mass_matrix.inv @ ops.J.T, {"mode": "dense", "points": HAND}),
    "momentum": (ops.total(ops.M, (0.3, 0.1, -0.2)) @ ops.V, {}),
    "centroidal momentum matrix": (
        ops.to_com @ ops.total(ops.M @ ops.phi.T @ ops.H.T),
        {"mode": "dense"},
    ),
    "log det": (ops.logdet(ops.mass_matrix), {}),
    "kinetic energy": (0.5 * (ops.v.T @ ops.mass_matrix @ ops.v), {}),
    "articulated inertias": (ops.P, {"mode": "blocks"}),
    "hinge inertias": (ops.D, {"mode": "blocks"}),
    "two at once": ((FORWARD, ops.V), {}),
    "inertias given": (FORWARD, {"inputs": ("M",)}),
}


# long programs, run on a tree with few types of joints
LARGE: dict[str, tuple[Any, dict[str, Any]]] = {
    "regressor": (REGRESSOR, {"mode": "dense"}),
    "derivatives of inverse dynamics": (inverse_dynamics_operators(), {"mode": "dense"}),
    "derivatives of forward dynamics": (forward_dynamics_operators(), {"mode": "dense"}),
}


def some_joints() -> Model:
    return model_from_parents(PARENTS, 7, ("spherical", "revolute", "prismatic"), armature=True)


def every_joint(**options: Any) -> Model:
    return model_from_parents(PARENTS, 7, EVERY, armature=True, frames=True, **options)


@pytest.fixture(scope="module")
def tree() -> Model:
    return every_joint()


# compiled as users do: a solve, a matrix between paths, and sums over bodies
IN_FULL = ("forward dynamics", "inverse mass matrix", "momentum")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in IN_FULL else pytest.mark.quick_code) for n in NAMED]
)
def test_every_joint_type_equals_the_reference(name: str, tree: Model):
    x, options = NAMED[name]
    rng = np.random.default_rng(5)
    inputs = draw_inputs(tree, rng, len(options.get("points", ())), 6)
    if "inputs" in options:
        factors = rng.uniform(0.5, 2.0, (6, tree.n_bodies, 1, 1))
        inputs["M"] = factors * tree.inertia_matrices
    got, want = both(x, tree, inputs, rng, **options)
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11 * max(1.0, np.abs(b).max()))


def test_every_joint_type_is_there(tree: Model):
    """A guard of the test above: ten kinds, and each is a case of the code."""
    kinds = {type(j).__name__.lower() for j in tree.joints}
    assert kinds == set(ALL)
    assert len(model_tables(tree, point_set(tree, None)).codes) == len(ALL)


@pytest.mark.parametrize("given", ["M", "pose", "H", "Jr", "gravity"])
def test_model_quantities_may_be_batched_inputs(given: str):
    """Every element of the batch is another mechanism."""
    model = random_tree(3, 4, ("revolute", "prismatic"), armature=True)
    rng = np.random.default_rng(0)
    batch = 5
    inputs = draw_inputs(model, rng, 0, batch)
    others = [
        random_tree(20 + i, 4, ("revolute",), armature=True, gravity=rng.standard_normal(3))
        for i in range(batch)
    ]
    widths = np.zeros((batch, 4, 1, 1))
    widths[:, :, 0, 0] = rng.uniform(0.1, 0.5, (batch, 4))
    inputs |= {
        "M": np.array([m.inertia_matrices for m in others]),
        "pose": pp.poses(model, inputs["q"] + rng.standard_normal((batch, model.nq))),
        "H": rng.standard_normal((batch, 6, model.nv)),
        "Jr": widths,
        "gravity": rng.standard_normal((batch, 3)),
    }
    got, want = both(FORWARD, model, inputs, rng, inputs=(given,))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)
    assert np.ptp(got, axis=0).min() > 0


def test_placements_may_be_batched_inputs():
    """Every element is the mechanism that is built with those placements."""
    rng = np.random.default_rng(4)
    kinds = [pp.joints.Revolute(random_axis(rng)), pp.joints.Prismatic(random_axis(rng))]
    kinds += [pp.joints.Spherical(), pp.joints.Revolute(random_axis(rng))]
    inertias = [random_inertia(rng) for _ in kinds]
    placements = [[random_pose(rng) for _ in kinds] for _ in range(9)]

    def built(poses: list[pp.Pose]) -> Model:
        b = pp.ModelBuilder()
        for i, (joint, inertia, pose) in enumerate(zip(kinds, inertias, poses, strict=True)):
            parent = f"b{(i - 1) // 2}" if i else "world"
            b.add_body(f"b{i}", parent=parent, joint=joint, inertia=inertia, placement=pose)
        return b.build()

    model = built(placements[0])
    inputs = draw_inputs(model, rng, 0, 9)
    order = [int(name[1:]) for name in model.body_names]
    inputs["placement"] = np.array([[poses[i].matrix for i in order] for poses in placements])
    got, want = both(FORWARD, model, inputs, rng, inputs=("placement",))
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)
    for i, poses in enumerate(placements):
        alone = pp.compile(FORWARD, built(poses), backend="native")
        expected = alone(*(inputs[name][i] for name in ("q", "v", "tau")))
        np.testing.assert_allclose(got[i], expected, rtol=1e-10, atol=1e-11)
