"""`inputs=`: every quantity that can be an input, in every named expression, on both backends.

    PHIPSI_GIVEN_NATIVE=1 pytest tests/core/backends/test_given.py   every quantity in machine code

The oracle is `dense` with the same values given, which rewrites nothing. P, D, G and π̄ are the
articulated bodies of ℳ: the compiler uses them for ℳ⁻¹ too, which `dense` inverts as it stands. For
them, and for what belongs to the model, the oracle is another model that has the numbers given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from backend_contract import OPERATORS, SMALL, VECTORS, arguments
from random_models import model_from_parents, random_inertia, random_pose
from rounding import RoundedOracle

import phipsi as pp
from phipsi import operators as ops
from phipsi.core.backends.arguments import check_symmetric
from phipsi.core.expressions.node import Expr
from phipsi.core.model.model import Model
from phipsi.core.model.points import PointSet, point_set
from phipsi.core.operators.catalogue import CATALOGUE, catalogue_leaf
from phipsi.core.operators.inputs import leaves_of
from phipsi.core.rewrite import rewriter
from phipsi.errors import InputError

EVERY = bool(os.environ.get("PHIPSI_GIVEN_NATIVE"))  # machine code for every quantity by itself
JOINTS = ("revolute", "spherical", "prismatic", "revolute")
PARENTS = (-1, 0, 1, 1)
TOLERANCE = 1e-11  # of the largest number of the result; the models are well conditioned
POINTS = [("b3", (0.1, 0.2, 0.3)), ("b2", (0.0, 0.1, -0.2))]
ARTICULATED = ("P", "D", "G", "proj_bar")
OF_THE_MODEL = ("gravity", "placement")
# what rules replace by something else if the model has no rotors, or by V
RULED = {
    "H G": ops.H @ ops.G,
    "H π̄": ops.H @ ops.proj_bar,
    "π̄ G": ops.proj_bar @ ops.G,
    "π̄ P H*": ops.proj_bar @ ops.P @ ops.H.T,
    "Lemma .7d": ops.H @ ops.psi @ ops.M @ ops.psi.T @ ops.H.T,
    "log det without rotors": ops.logdet(ops.H @ ops.phi @ ops.M @ ops.phi.T @ ops.H.T),
    "carried cross product": ops.H @ ops.phi @ ops.M @ ops.phi.T
    @ ops.cross(ops.H.T @ ops.v) @ ops.phi.T @ ops.H.T,
}  # fmt: skip
EXPRESSIONS: dict[str, Expr] = {**VECTORS, **OPERATORS, **SMALL, **RULED}
# one program of machine code for these
NATIVE = ("forward dynamics", "energy", "without rotors", "point rates", "H G", "bd outward")
UNUSED = (
    "K_e",  # nothing in bodies without modes
    "C_e",
    "modal",
    "modal_rows",
    "Mdot",
    "eta",
    "moved",
    "unprescribed",
    "prescribed",
    "angular",
    "proj",
    "c_J",
    "s_gauge",
)  # no expression is written with them


def can_be_given(name: str) -> bool:
    try:
        pp.compile(ops.M, pp.examples.planar_arm(1), inputs=(name,))
    except InputError:
        return False
    return True


QUANTITIES = [name for name in CATALOGUE if can_be_given(name)]
ALONE = [n for n in QUANTITIES if n not in (*ARTICULATED, *OF_THE_MODEL)]


@cache
def mechanism(
    armature: bool, joints: tuple[str, ...] = JOINTS
) -> tuple[Model, PointSet, dict[str, Any]]:
    model = model_from_parents(PARENTS, 3, joints, armature=armature)
    where = point_set(model, POINTS)
    at = arguments(model, where)
    return model, where, {**at, "free": np.ones(model.nv)}


def changed(model: Model) -> Model:
    """The mechanism with other inertias and rotors."""
    rng = np.random.default_rng(8)
    for joint, body in zip(model.joints, model.body_names, strict=True):
        rotors = rng.uniform(0.3, 0.9, joint.nv)
        model = model.with_body(body, inertia=random_inertia(rng), armature=rotors)
    return model


def stored(name: str, model: Model, where: PointSet, at: Mapping[str, Any]) -> np.ndarray:
    """The value of a quantity in storage layout."""
    x = ops.H.T if name == "H" else catalogue_leaf(name)
    mode = "apply" if x.is_vector else "blocks"
    return run(x, model, where, at, backend="reference", mode=mode)


def another(name: str, model: Model, where: PointSet, at: Mapping[str, Any]) -> np.ndarray:
    """A value that a quantity does not have here."""
    rng = np.random.default_rng(4)
    if name == "Jr":
        return stored("Jr", changed(model), where, at)
    if name == "pose":
        return stored(name, model, where, {**at, "q": model.random_configuration(rng)})
    own = stored(name, model, where, at)
    if name in ("prescribed", "Hdot"):  # zero here, and padded
        own = stored({"prescribed": "Jr", "Hdot": "H"}[name], changed(model), where, at)
        return own if name == "prescribed" else 0.1 * own.T
    if catalogue_leaf(name).row.symmetric or name == "D_half":
        return 1.3 * own
    return own + 0.3 * np.abs(own).max() * rng.standard_normal(own.shape)


def run(
    x: Any,
    model: Model,
    where: PointSet,
    at: Mapping[str, Any],
    given: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> Any:
    given = given or {}
    program = pp.compile(x, model, points=where, inputs=tuple(given), **options)
    values = {**at, **given}
    return program(**{name: values[name] for name in program.inputs})


def matrices(
    names: Iterable[str],
    model: Model,
    where: PointSet,
    at: Mapping[str, Any],
    given: Mapping[str, np.ndarray],
    backend: str,
) -> dict[str, np.ndarray]:
    """What one program with all the expressions makes of them."""
    names = list(names)
    some = tuple(EXPRESSIONS[n] for n in names)
    got = run(some, model, where, at, given, backend=backend, mode="dense")
    return dict(zip(names, got, strict=True))


def applied(
    names: Iterable[str],
    model: Model,
    where: PointSet,
    at: Mapping[str, Any],
    given: Mapping[str, np.ndarray],
    want: Mapping[str, np.ndarray],
) -> list[str]:
    """The operators that, applied to a vector, give another than their matrices would."""
    operators = [n for n in names if not EXPRESSIONS[n].is_vector]
    some = tuple(EXPRESSIONS[n] for n in operators)
    program = pp.compile(some, model, points=where, inputs=tuple(given), backend="reference")
    shapes, rng = program.input_shapes, np.random.default_rng(1)
    operands = {f"x{i}": rng.standard_normal(shapes[f"x{i}"]) for i in range(len(some))}
    values = {**at, **given, **operands}
    got = program(**{name: values[name] for name in program.inputs})
    exact = (want[n] @ x.ravel() for n, x in zip(operators, operands.values(), strict=True))
    return differing(
        dict(zip(operators, got, strict=True)), dict(zip(operators, exact, strict=True))
    )


def differing(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> list[str]:
    """The expressions whose value is another one."""
    out: list[str] = []
    for name, value in got.items():
        size = max(1.0, float(np.abs(want[name]).max(initial=0.0)))
        error = np.abs(np.ravel(value) - np.ravel(want[name])).max(initial=0.0)
        if not error <= TOLERANCE * size:
            out.append(name)
    return out


def oracle(
    names: Iterable[str],
    model: Model,
    where: PointSet,
    at: Mapping[str, Any],
    given: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    leaves: dict[str | Expr, Any] = {
        (ops.H.T if name == "H" else name): value for name, value in (given or {}).items()
    }
    at_once = RoundedOracle(model, points=where, given=leaves, **at)  # common parts once
    return {n: at_once.value(EXPRESSIONS[n]) for n in names}


@cache
def nothing_given(armature: bool) -> dict[str, np.ndarray]:
    """What the expressions are without a given value."""
    return matrices(EXPRESSIONS, *mechanism(armature), {}, "reference")


def test_which_quantities_can_be_given():
    assert set(ALONE) >= {"H", "M", "Jr", "Hdot", "R", "proj", "Upsilon", "V", "a", "b", "pose"}
    assert {*ARTICULATED, "gravity"} <= set(QUANTITIES)
    inputs = {"v", "dq", "dinertia", "free", "operand", "unit_rate", "dHT", "phi", "Lam_phi"}
    assert not inputs & set(QUANTITIES)


@pytest.mark.parametrize("name", ALONE)
def test_another_value_is_used_where_the_quantity_stands_and_nowhere_else(name: str):
    model, where, at = mechanism(armature=name == "M")
    given = {name: another(name, model, where, at)}
    want = oracle(EXPRESSIONS, model, where, at, given)
    assert not differing(matrices(EXPRESSIONS, model, where, at, given, "reference"), want)
    assert not applied(EXPRESSIONS, model, where, at, given, want)
    # the twin: a program that drops the value is seen, if the quantity is there at all
    dropped = differing(nothing_given(armature=name == "M"), want)
    assert len(dropped) >= (9 if name in ("H", "M", "Jr", "V") else name not in UNUSED)


@pytest.mark.quick_code
@pytest.mark.parametrize("name", ["all at once", "Jr", *(ALONE if EVERY else ())])
def test_the_same_in_machine_code(name: str):
    model, where, at = mechanism(False, ("revolute",))
    names = ALONE if name == "all at once" else [name]
    given = {n: another(n, model, where, at) for n in names}
    got = matrices(NATIVE, model, where, at, given, "native")
    assert not differing(got, oracle(NATIVE, model, where, at, given))


def test_rules_that_ask_the_model_are_seen(monkeypatch: pytest.MonkeyPatch):
    """The twin: conditions that look at the model only drop a given Jr, or bring it in."""
    monkeypatch.setattr(rewriter, "ROTORS", frozenset[str]())
    for kept in ("rewrite_one", "use_all_rules"):
        monkeypatch.setattr(rewriter, kept, getattr(rewriter, kept).__wrapped__)
    model, where, at = mechanism.__wrapped__(armature=False)
    given = {"Jr": another("Jr", model, where, at)}
    want = oracle(EXPRESSIONS, model, where, at, given)
    wrong = differing(matrices(EXPRESSIONS, model, where, at, given, "reference"), want)
    assert {"Jr", "mass matrix", "inverse dynamics", "energy"} <= set(wrong)  # dropped
    assert {"without rotors", "other family", "Lemma .7d"} <= set(wrong)  # brought in


# ---- articulated bodies and the model: against another model that has these numbers --------------


@pytest.mark.parametrize("names", [*((n,) for n in ARTICULATED), ("P", "D", "G")], ids="-".join)
def test_articulated_bodies_of_other_inertias_and_rotors(names: tuple[str, ...]):
    """The model of the program has no rotors and other inertias: nothing of it may come through."""
    model, where, at = mechanism(armature=False)
    other = changed(model)
    given = {n: stored(n, other, where, at) for n in ("M", "Jr", *names)}
    want = oracle(EXPRESSIONS, other, where, at)
    assert not differing(matrices(EXPRESSIONS, model, where, at, given, "reference"), want)
    assert not applied(EXPRESSIONS, model, where, at, given, want)


@pytest.mark.parametrize("name", ARTICULATED)
def test_articulated_bodies_are_not_those_of_other_families(name: str):
    """A value of P, D, G or π̄ is no value of the family without rotors."""
    some = ("without rotors", "other family", "log det without rotors")
    for armature in (False, True):
        model, where, at = mechanism(armature)
        given = {name: another(name, model, where, at)}
        want = oracle(some, model, where, at)
        assert not differing(matrices(some, model, where, at, given, "reference"), want)


@pytest.mark.quick_code
def test_gravity_and_placements_are_those_of_a_model_built_with_them():
    model, where, at = mechanism(armature=True)
    rng = np.random.default_rng(6)
    g = rng.standard_normal(3)
    moved = model.with_gravity(g)
    for body in model.body_names:
        moved = moved.with_body(body, placement=random_pose(rng))
    placements = np.array([p.matrix for p in moved.placements])
    given = {"gravity": g, "placement": placements}
    want = oracle(EXPRESSIONS, moved, point_set(moved, POINTS), at)
    assert not differing(matrices(EXPRESSIONS, model, where, at, given, "reference"), want)
    assert not applied(EXPRESSIONS, model, where, at, given, want)
    some = ("forward dynamics", "point rates")
    assert not differing(matrices(some, model, where, at, given, "native"), want)


@pytest.mark.parametrize("name", ["dq", "free", "operand", "v", "unit_rate", "dHT", "dA", "phi"])
def test_what_is_no_quantity_cannot_be_given(name: str):
    with pytest.raises(InputError, match=name):
        pp.compile(ops.M, mechanism(armature=False)[0], inputs=(name,))


def test_velocities_given_are_not_brought_in():
    """φ* H* v is computed, V is given: the rule that calls the one by the other's name is off."""
    model, where, at = mechanism(armature=False)
    x = EXPRESSIONS["carried cross product"]
    program = pp.compile(x, model, mode="dense", inputs=("V",))
    assert "V" not in {leaf.name for leaf in leaves_of(program.rewriting.expressions[0])}
    again = pp.compile(x, model, mode="dense")
    assert "V" in {leaf.name for leaf in leaves_of(again.rewriting.expressions[0])}


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_symmetric_quantity_must_be_given_symmetric(backend: str):
    arm = pp.examples.seven_joint_arm()
    program = pp.compile(ops.M @ ops.V, arm, inputs=["M"], backend=backend)
    q, v = arm.random_configuration(0), np.ones(7)
    good = pp.compile(ops.M, arm, mode="blocks")()
    np.testing.assert_allclose(program(q, v, good), pp.compile(ops.M @ ops.V, arm)(q, v))
    for off in (1.0, 1e-6):
        bad = good.copy()
        bad[2, 0, 3] += off
        for _ in range(2):  # the first call and later ones
            with pytest.raises(pp.errors.InputError, match="given block of body 'upper_arm_roll'"):
                program(q, v, bad)


@pytest.mark.quick_code
def test_machine_code_and_numpy_agree_about_symmetry():
    """The shortest way takes a call exactly if the blocks pass the check of the longest one."""
    robot = pp.examples.quadruped()  # hinges of one and of six rates: D is padded
    program = pp.compile(ops.mass_matrix.inv, robot, inputs=["P", "D"], backend="native")
    blocks = pp.compile((ops.P, ops.D), robot, mode="blocks")
    rng, taken = np.random.default_rng(3), []
    for _ in range(60):
        q = robot.random_configuration(rng)
        at = {"q": q, "x": rng.normal(size=robot.nv), **dict(zip("PD", blocks(q), strict=True))}
        name = rng.choice(["P", "D"])
        block = at[name][rng.integers(robot.n_bodies)]
        i, j = rng.choice(len(block), 2, replace=False)
        block[i, j] += np.abs(block).max() * 1e-9 * rng.choice([0.9, 0.999999, 1.000001, 1.1])
        args = [at[n] for n in program.inputs]
        try:
            check_symmetric(program.source, at)
            good = True
        except pp.errors.InputError:
            good = False
        program.fast(*args)  # loads it
        assert (program.direct(*args) is not None) == good
        many = [np.stack([at[n]] * 9) for n in program.inputs]
        assert (program.fast(*many) is not None) == good
        taken.append(good)
    assert 5 < sum(taken) < 55
