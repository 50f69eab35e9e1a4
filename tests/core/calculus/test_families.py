"""Derivatives by all degrees of freedom at once: families, their axes, and second derivatives."""

import numpy as np
import pytest
from amounts import ALL, examples
from comparers import tight as close
from differences import by_complex_steps
from hypothesis import given, settings, strategies as st
from random_models import models, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics import dynamics_expressions as dynamics
from phipsi.core.calculus.families import Family
from phipsi.errors import InputError, LoweringError, SpaceError
from phipsi.operators import mass_matrix

STEP = 1e-30
seeds = st.integers(0, 2**32 - 1)


# ---- twice ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("expr", [mass_matrix, ops.P, ops.J], ids=str)
@given(models(max_bodies=3, frames=True), seeds)
@settings(max_examples=examples(5))
def test_applied_twice(expr, model, seed):
    """L_k (L_j X) at [..., j, k]: the family differentiated by complex steps."""
    q = model.random_configuration(np.random.default_rng(seed))
    options = {"points": [model.body_names[-1]]} if expr is ops.J else {}
    first = pp.diff(expr, "q")
    second = pp.diff(first, "q")
    expected = by_complex_steps(model, q, first.compile(model, **options))
    close(second.compile(model, **options)(q), expected)
    close(second.evaluate_dense(model, q, **options), expected)
    one = second.along(model.joint_names[0])  # the last derivative by the first dof of a joint
    assert isinstance(one, Family)
    close(one.compile(model, **options)(q), expected[..., 0])
    by_name = pp.diff(first, f"q[{model.joint_names[0]}]")
    close(by_name.compile(model, **options)(q), expected[..., 0])


def test_twice_of_true_coordinates_is_symmetric():
    model = random_tree(3, 5, ["revolute", "prismatic", "helical", "universal"], armature=True)
    q = model.random_configuration(np.random.default_rng(0), (3,))
    T = pp.diff(pp.diff(mass_matrix, "q"), "q").compile(model)(q)
    assert T.shape == (3, *(model.nv,) * 4)
    close(T, np.swapaxes(T, -1, -2), 1e-12)
    close(T, np.swapaxes(T, 1, 2), 1e-12)


def test_twice_by_different_things():
    model = random_tree(4, 4, armature=True)
    q = model.random_configuration(np.random.default_rng(1))
    n = model.nv
    mixed = pp.diff(pp.diff(mass_matrix.inv, "inertia"), "q").compile(model)(q)
    assert mixed.shape == (n, n, 10 * model.n_bodies, n)
    first = pp.diff(mass_matrix.inv, "inertia").compile(model)
    close(mixed, by_complex_steps(model, q, first))
    other = pp.diff(pp.diff(mass_matrix.inv, "q"), "inertia").compile(model)(q)
    close(other, np.swapaxes(mixed, -1, -2))


@pytest.mark.parametrize("batch", [(), (7,), (8,), (9,), (17,), (2, 3), (0,)], ids=str)
def test_in_machine_code(batch):
    model = random_tree(2, 4, ["revolute", "spherical", "planar"], armature=True)
    q = model.random_configuration(np.random.default_rng(0), batch)
    for family in (pp.diff(mass_matrix, "q"), pp.diff(pp.diff(mass_matrix, "q"), "q")):
        native, reference = (family.compile(model, backend=b) for b in ("native", "reference"))
        assert native.program.backend == "native"
        close(native(q), reference(q), 1e-12)


def test_a_direction_that_is_in_use():
    """The family of something that has dq in it already is one over another direction."""
    model = random_tree(5, 4)
    rng = np.random.default_rng(2)
    q, u = model.random_configuration(rng), rng.standard_normal(model.nv)
    along = pp.diff(mass_matrix, "q", along="dq")
    program = pp.compile(along, model, mode="dense")
    expected = by_complex_steps(model, q, lambda z: program(z, u))
    family = pp.diff(along, "q")
    found = family.compile(model)
    assert found.inputs == ("q", "dq")
    close(found(q, u), expected)
    w = rng.standard_normal(model.nv)
    contracted = pp.compile(family.contract("v"), model, mode="dense")
    close(contracted(q=q, v=w, dq=u), expected @ w)
    thrice = pp.diff(pp.diff(pp.diff(mass_matrix, "q"), "q"), "q")
    with pytest.raises(InputError, match="derivative with respect to q needs a direction"):
        pp.diff(thrice, "q")
    twice = pp.diff(pp.diff(mass_matrix, "q"), "q")
    with pytest.raises(InputError, match="already a direction of the family"):
        twice.contract("dq")
    with pytest.raises(InputError, match="already a direction of the family"):
        pp.diff(pp.diff(mass_matrix, "q"), "q", along="dq")


# ---- shapes --------------------------------------------------------------------------------------


def test_what_does_not_occur_gives_zeros():
    model = random_tree(6, 3)
    n = model.nv
    for wrt in ("v", "tau"):
        family = pp.diff(mass_matrix, wrt)
        found = family.compile(model)()
        assert found.shape == (n, n, n) and not found.any()
        dense = family.evaluate_dense(model, model.neutral())
        assert dense.shape == (n, n, n) and not dense.any()


def test_operators_between_bodies_are_applied():
    """The operand has two axes of its own."""
    model = random_tree(7, 4)
    rng = np.random.default_rng(0)
    q, f = model.random_configuration(rng, (3,)), rng.standard_normal((3, model.n_bodies, 6))
    found = pp.diff(ops.phi, "q").compile(model, mode="apply")(q, f)
    assert found.shape == (3, model.n_bodies, 6, model.nv)
    matrices = pp.diff(ops.phi, "q").compile(model)(q)
    expected = np.einsum("bijk,bj->bik", matrices, f.reshape(3, -1))
    close(found.reshape(expected.shape), expected)


def test_nothing_to_move():
    model = pp.examples.planar_arm(0)
    assert pp.diff(mass_matrix, "q").compile(model)([]).shape == (0, 0, 0)
    assert pp.diff(mass_matrix, "q").evaluate_dense(model, []).shape == (0, 0, 0)
    assert pp.diff(pp.diff(mass_matrix, "q"), "q").compile(model)(np.zeros((2, 0))).shape == (
        2, 0, 0, 0, 0,
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_one_component_of_every_variable(backend):
    """Columns of the derivatives of the dynamics, each by the name of its joint."""
    model = random_tree(9, 4, ["revolute", "spherical", "prismatic"])
    rng = np.random.default_rng(3)
    q = model.random_configuration(rng)
    values = {"q": q, **dict(zip(("v", "vdot", "tau"), rng.standard_normal((3, model.nv)),
                                 strict=True))}  # fmt: skip
    inverse = pp.inverse_dynamics_derivatives(model, q, values["v"], values["vdot"])
    forward = pp.forward_dynamics_derivatives(model, q, values["v"], values["tau"])
    for expr, names, matrices in (
        (dynamics.INVERSE_DYNAMICS, ("q", "v", "vdot"), inverse),
        (dynamics.FORWARD_DYNAMICS, ("q", "v", "tau"), forward),
    ):
        for wrt, matrix in zip(names, matrices, strict=True):
            places = list(zip(model.joint_names, model.v_slices, strict=True))
            if backend == "native" and not ALL:  # of one joint, of the reference of all
                places = places[1:2]
            for joint, s in places:
                i = s.stop - s.start - 1
                one = pp.diff(expr, f"{wrt}[{joint}, {i}]")
                program = pp.compile(one, model, backend=backend)
                assert program.backend == backend
                column = program(**{name: values[name] for name in program.inputs})
                close(column, matrix[:, s.stop - 1])
                if backend == "reference":
                    oracle = pp.evaluate_dense(one, model, **values)
                    close(oracle, matrix[:, s.stop - 1])


# ---- what is refused -----------------------------------------------------------------------------


def test_refusals_of_a_compiled_family():
    arm = pp.examples.planar_arm(2)
    program = pp.diff(mass_matrix, "q").compile(arm)
    for call, message in (
        (lambda: program(), "missing q; this program takes"),
        (lambda: program([0, 0], [0, 0]), "2 arguments were given"),
        (lambda: program([0, 0], q=[0, 0]), "given twice"),
        (lambda: program(p=[0, 0]), "no input 'p'"),
        (lambda: program([0, 0, 0]), r"q has shape \(3,\)"),
        (lambda: program([[0, 0], [0, np.nan]]), r"joint 'joint2' \(element \[1\] of the batch"),
        (
            lambda: pp.sensitivities.christoffel_symbols(arm, [[0, 0], [0, 0], [np.inf, 0]]),
            r"element \[2\]",
        ),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_refusals_say_what_to_write():
    arm = pp.examples.planar_arm(2)
    family = pp.diff(mass_matrix, "q")
    for call, error, message in (
        (lambda: family.contract(np.ones(2)), InputError, "contract with an input"),
        (lambda: family.contract("tau"), SpaceError, "vector of joint rates"),
        (lambda: pp.compile(family, arm), InputError, r"\.compile\(model\)"),
        (lambda: pp.explain(family, arm), InputError, r"\.explain\(\)"),
        (lambda: pp.evaluate_dense(family, arm, [0, 0]), InputError, r"\.evaluate_dense\(model"),
        (lambda: pp.diff(3, "q"), InputError, "pp.diff needs an operator expression"),
        (lambda: pp.diff(mass_matrix, "q", along=np.ones(2)), InputError, "along='dq'"),
        (
            lambda: pp.diff(ops.phi @ ops.f_ext, "f_ext[link1]"),
            InputError,
            "v, vdot and tau have components",
        ),
        (lambda: pp.vjp(3, arm), InputError, "pp.vjp needs an operator expression"),
        (lambda: pp.vjp("mass_matrix", arm), SpaceError, "vjp needs a vector"),
        (lambda: pp.vjp(dynamics.FORWARD_DYNAMICS, arm, ()), InputError, "names no variable"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert "cost  O(N)" in str(family.explain()) or "recursion" in str(family.explain(arm))


def nested(count):
    x = ops.V
    for _ in range(count):
        x = ops.cross(x) @ (ops.phi.T @ ops.V) + ops.V
    return x


def test_expressions_that_are_nested_too_deeply():
    """A sentence instead of a thousand lines of Python's."""
    with pytest.raises(LoweringError, match="nested too deeply to be printed"):
        str(nested(400))
    y = ops.phi
    for _ in range(1200):
        y = ops.bd(ops.phi @ y @ ops.phi)
    arm = pp.examples.planar_arm(1)
    for call in (
        lambda: pp.diff(y, "q"),
        lambda: pp.vjp(y @ ops.f_ext, arm, "q"),
        lambda: pp.evaluate_dense(y, arm, [0.0]),
        lambda: pp.compile(y, arm),
        lambda: str(y),
    ):
        with pytest.raises(LoweringError, match="nested too deeply") as caught:
            call()
        assert caught.value.__suppress_context__
