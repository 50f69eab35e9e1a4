"""Zeros that groups of configurations leave alone: batches give the bits of single calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amounts import ALL as FUZZ, seeds
from random_models import ALL, random_tree
from random_systems import KINDS, random_system

import phipsi as pp
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_operators,
    inverse_dynamics_operators,
)
from phipsi.core.model.points import PointSet, point_set
from phipsi.identification.regressors import REGRESSOR
from phipsi.native.matrices.structural_zeros import filled, zeros_stay
from phipsi.operators import A, D, H, J, Lambda, M, mass_matrix, phi, psi

FORMS: dict[str, Any] = {
    "regressor": REGRESSOR,
    "phi": phi,
    "phi*": phi.T,
    "H phi": H @ phi,
    "psi*": psi.T,
    "J": J,
    "J*": J.T,
    "Λ": Lambda,
    "mass matrix": mass_matrix,
    "inverse": mass_matrix.inv,
    "H phi M phi* H*": H @ phi @ M @ phi.T @ H.T,
    "derivatives of inverse dynamics": inverse_dynamics_operators(),
    "derivatives of forward dynamics": forward_dynamics_operators(),
    "several": (mass_matrix, mass_matrix.inv, REGRESSOR),
}
AT_POINTS = ("J", "J*", "Λ")


def model_of(name: str) -> pp.Model:
    if name in ("tree", "forest"):
        # where zeros are depends on the tree and on the sizes of hinges, not on how they move
        seed, joints = {"tree": 5, "forest": 11}[name], ALL if FUZZ else ("revolute", "spherical")
        return random_tree(seed, 9, joints, n_roots=1 + (name == "forest"))
    turn, ball = pp.joints.Revolute((0, 0, 1)), pp.joints.Spherical()
    if name == "welded root":  # branches that no moving joint has in common
        kinds = [pp.joints.Fixed(), turn, turn, turn, turn, ball]
        parents = ["world", "b0", "b0", "b1", "b2", "b2"]
    else:  # several trees
        kinds = [pp.joints.Free(), turn, ball] * 2
        parents = ["world", "b0", "b0", "world", "b3", "world"]
    builder = pp.ModelBuilder()
    one = pp.SpatialInertia(1.0, (0.1, 0.2, 0.3), np.diag([0.5, 0.6, 0.7]))
    for i, (joint, parent) in enumerate(zip(kinds, parents, strict=True)):
        at = pp.Pose(translation=(0.1 * i, 0.2, 0.3))
        builder.add_body(f"b{i}", parent=parent, joint=joint, placement=at, inertia=one)
    return builder.build()


def points_of(model: pp.Model) -> PointSet:
    names = [model.body_names[i] for i in (0, model.n_bodies // 2, model.n_bodies - 1)]
    return point_set(model, [*((name, (0.1, 0.2, 0.3)) for name in names), "world"], "world")


# which zeros are left alone is in the text: LLVM's optimisation is tried on one matrix of each kind
IN_FULL = [("welded root", form) for form in ("regressor", "psi*", "J", "Λ", "inverse")]
CASES = [
    pytest.param(name, form, marks=() if (name, form) in IN_FULL else pytest.mark.quick_code)
    for form in FORMS
    for name in ("tree", "forest", "welded root", *(["trees"] if form == "Λ" else []))
]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_batches_are_single_calls(name: str, form: str):
    model = model_of(name)
    options: dict[str, Any] = {"points": points_of(model)} if form in AT_POINTS else {}
    program = pp.compile(FORMS[form], model, mode="dense", backend="native", **options)
    assert program.native is not None
    rng = np.random.default_rng(4)
    for _ in range(2):  # the second time the memory holds the results of the first
        count = 19
        at = {"q": np.array([model.random_configuration(rng) for _ in range(count)])}
        for n in ("v", "vdot", "tau"):
            at[n] = rng.standard_normal((count, model.nv))
        args = [at[n] for n in program.inputs]
        shapes = program.native.output_shapes
        out = tuple(np.full((count, *s), np.nan) for s in shapes)
        status = np.full(count, -1)
        program.ufunc(*args, out=(*out, status))
        assert not status.any()
        for i in range(count):
            single = program(*(a[i] for a in args))
            for whole, one in zip(out, single if len(shapes) > 1 else (single,), strict=True):
                np.testing.assert_array_equal(whole[i], one)


@pytest.mark.quick_code
def test_blocks_of_narrow_joints_are_padded_in_every_group():
    model = model_of("welded root")
    program = pp.compile(D.inv, model, mode="blocks", backend="native")
    assert program.native is not None
    rng = np.random.default_rng(4)
    q = np.array([model.random_configuration(rng) for _ in range(19)])
    out, status = np.full((19, *program.native.output_shapes[0]), np.nan), np.full(19, -1)
    program.ufunc(q, out=(out, status))
    np.testing.assert_array_equal(out, np.array([program(x) for x in q]))
    for k, joint in enumerate(model.joints):
        assert not out[:, k, joint.nv :].any()
        assert not out[:, k, :, joint.nv :].any()


@pytest.mark.quick_code
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("seed", seeds(6))
def test_links_of_a_row_are_added_where_their_paths_meet(seed: int, adjoint: bool):
    system, _ = random_system(seed, 7, KINDS[2 * (seed % 3) :])
    rng = np.random.default_rng(seed)
    q = np.array([system.model.random_configuration(rng) for _ in range(19)])
    x = (A @ J).T if adjoint else A @ J
    program, reference = (
        pp.compile(x, system, mode="dense", backend=b) for b in ("native", "reference")
    )
    whole = program(q)
    np.testing.assert_array_equal(whole, np.array([program(one) for one in q]))
    want = reference(q)
    np.testing.assert_allclose(whole, want, atol=1e-12 * max(1.0, np.abs(want).max()))


@pytest.mark.quick_code
def test_what_is_left_out_is_zero_and_nothing_else_always_is():
    model = model_of("tree")
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(30)])
    v, vdot = rng.standard_normal((2, 30, model.nv))
    found = 0
    for form in ("regressor", "phi", "mass matrix"):
        program = pp.compile(FORMS[form], model, mode="dense", backend="native")
        native: Any = program.native
        (r,) = native.unit.results
        if not zeros_stay(r):
            continue
        found += 1
        at = {"q": q, "v": v, "vdot": vdot}
        values = program(*(at[n] for n in program.inputs))
        mask = filled(r, model, program.request.points)
        assert not values[:, ~mask].any()
        if form != "regressor":  # some parameters move no joint
            assert values[:, mask].any(axis=0).mean() > 0.6
    assert found >= 2


@pytest.mark.quick_code
def test_zeros_between_trees_are_left_out():
    model, rng = model_of("trees"), np.random.default_rng(0)
    at = [(name, (0.1, 0.2, 0.3)) for name in model.body_names]
    program = pp.compile(Lambda, model, mode="dense", backend="native", points=at)
    native: Any = program.native
    (r,) = native.unit.results
    assert zeros_stay(r)
    q = np.array([model.random_configuration(rng) for _ in range(30)])
    values, mask = program(q), filled(r, model, program.request.points)
    assert 0.3 < mask.mean() < 0.5
    assert not values[:, ~mask].any()
    assert values[:, mask].any(axis=0).mean() > 0.6
