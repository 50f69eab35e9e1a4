"""`compile` and `Program`: inputs, batches, given quantities, errors, number types, caching."""

from __future__ import annotations

import gc
import pickle
import re
import threading
import weakref
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from random_models import branching, chain, model_from_parents, random_tree

import phipsi as pp
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions.node import Expr
from phipsi.core.model.points import point_set
from phipsi.errors import (
    InputError,
    LoweringError,
    ModelError,
    ParseError,
    SingularHingeError,
    SingularMatrixError,
    SpaceError,
)
from phipsi.operators import (
    B,
    D,
    G,
    H,
    I,
    J,
    K,
    Lambda,
    M,
    P,
    R,
    Upsilon,
    V,
    a,
    a_paper,
    b,
    b_paper,
    c_J,
    cross,
    f0,
    f_ext,
    gravity,
    logdet,
    mass_matrix,
    parse,
    phi,
    pose,
    shift,
    tau,
    total,
    v,
    vdot,
)

compiled = partial(pp.compile, backend="reference")
MODEL = random_tree(4, 6, armature=True, frames=True)
POINTS = [("b5", (0.1, 0.2, -0.3)), ("f2", (0, 0, 0.1)), "b5"]
BIAS = H @ phi @ (M @ phi.T @ (a + gravity) + b - f_ext + B @ f0)
FORWARD = mass_matrix.inv @ (tau - BIAS)
INVERSE = mass_matrix @ vdot + BIAS


def draw(model: pp.Model = MODEL, seed: int = 0, batch: tuple[int, ...] = ()) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    count = int(np.prod(batch, dtype=int))
    q = np.array([model.random_configuration(rng) for _ in range(count)])
    return {
        "q": q.reshape(*batch, model.nq),
        **{n: rng.standard_normal((*batch, model.nv)) for n in ("v", "vdot", "tau")},
        "f_ext": rng.standard_normal((*batch, model.n_bodies, 6)),
        "f0": rng.standard_normal((*batch, len(POINTS), 6)),
    }


def call(x: Any, inputs: dict[str, Any], model: pp.Model = MODEL, **options: Any) -> Any:
    program = compiled(x, model, **options)
    return program(**{name: inputs[name] for name in program.inputs})


# ---- inputs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x, inputs",
    [
        (FORWARD, ("q", "v", "tau", "f_ext", "f0")),
        (INVERSE, ("q", "v", "vdot", "f_ext", "f0")),
        (mass_matrix, ("q", "x")),
        (M, ("x",)),
        (M.inv, ("x",)),
        (v.T @ tau, ("v", "tau")),
        (tau, ("tau",)),
        (pose, ("q",)),
        (c_J, ("q", "v")),
        ((mass_matrix, mass_matrix.inv), ("q", "x0", "x1")),
        ((mass_matrix, V), ("q", "v", "x")),
        ((V, mass_matrix.inv, tau, J), ("q", "v", "tau", "x0", "x1")),
        (a_paper, ("q", "v")),
        (shift, ("q", "x")),
    ],
)
def test_inputs_are_those_needed_in_a_fixed_order(x: Any, inputs: tuple[str, ...]):
    assert compiled(x, MODEL, points=POINTS).inputs == inputs


def test_a_program_takes_its_inputs_by_position_and_by_name():
    program, at = compiled(FORWARD, MODEL, points=POINTS), draw()
    values = [at[name] for name in program.inputs]
    want = program(*values)
    assert_array_equal(program(**dict(zip(program.inputs, values, strict=True))), want)
    assert_array_equal(program(*values[:2], f0=at["f0"], tau=at["tau"], f_ext=at["f_ext"]), want)


def test_inputs_may_be_lists_integers_and_single_precision():
    model = pp.examples.planar_arm(2)
    program = compiled(mass_matrix, model)
    want = program(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    assert_array_equal(program([0, 1], (1, 2)), want)
    assert_array_equal(program(np.float32([0, 1]), np.int8([1, 2])), want)
    assert want.dtype == np.float64


@pytest.mark.parametrize(
    "args, named, message",
    [
        ((), {}, r"missing q, v, tau, f_ext, f0; this program takes \(q, v, tau, f_ext, f0\)"),
        (("q",), {}, "missing v, tau, f_ext, f0"),
        (("q", "v", "tau", "f_ext", "f0", "q"), {}, "6 arguments were given"),
        (("q", "v", "tau", "f_ext"), {"f0": "f0", "q": "q"}, "'q' was given twice"),
        (("q", "v", "tau", "f_ext", "f0"), {"force": "q"}, "no input 'force'"),
        (("v", "q", "tau", "f_ext", "f0"), {}, "nq ="),
    ],
)
def test_wrong_arguments_are_named(args: Any, named: Any, message: str):
    at, program = draw(), compiled(FORWARD, MODEL, points=POINTS)
    with pytest.raises(InputError, match=message):
        program(*(at[n] for n in args), **{n: at[value] for n, value in named.items()})


def test_a_wrong_shape_says_which_and_how_it_ought_to_be():
    program, at = compiled(FORWARD, MODEL, points=POINTS), draw()
    wrong = {
        "q": np.zeros(MODEL.nq + 1),
        "v": np.zeros(MODEL.nv - 1),
        "tau": 3.0,
        "f_ext": np.zeros((6, MODEL.n_bodies + 1)),
        "f0": np.zeros((1, 6)),
    }
    for name, value in wrong.items():
        with pytest.raises(InputError) as e:
            program(**{**_needed(at, program), name: value})
        text = str(e.value)
        assert text.startswith(f"{name} has shape") and f"nv = {MODEL.nv}" in text


def _needed(at: dict[str, Any], program: pp.Program) -> dict[str, Any]:
    return {name: at[name] for name in program.inputs}


def test_numbers_that_are_not_finite_are_located():
    program = compiled(FORWARD, MODEL, points=POINTS)
    for name, index, where in [
        ("q", (MODEL.q_slice("j3").start,), "joint 'j3'"),
        ("tau", (MODEL.v_slice("j2").start,), "joint 'j2'"),
        ("f_ext", (4, 2), f"body {MODEL.body_names[4]!r}"),
    ]:
        at = _needed(draw(), program)
        at[name] = at[name].copy()
        at[name][index] = np.nan
        with pytest.raises(InputError, match=f"{name} is nan at {re.escape(where)}"):
            program(**at)
    at = _needed(draw(batch=(3,)), program)
    at["v"][1, 0] = np.inf
    with pytest.raises(InputError, match=r"v is inf at joint .*element \[1\] of the batch"):
        program(**at)


@pytest.mark.parametrize("value", ["text", None, [[1, 2], [3]], np.array(["a"]), object()])
def test_values_that_are_no_numbers_are_refused(value: Any):
    program = compiled(mass_matrix, pp.examples.planar_arm(2))
    with pytest.raises(InputError, match="q"):
        program(value, [1, 2])


# ---- what is refused by compile ------------------------------------------------------------------


@pytest.mark.parametrize(
    "x, options, error, message",
    [
        (mass_matrix, {"mode": "matrix"}, InputError, "mode='matrix' is not one of"),
        (mass_matrix, {"mode": ("apply", "dense")}, InputError, "2 modes for 1 expressions"),
        (mass_matrix, {"rewrite": "some"}, InputError, "rewrite='some'"),
        (mass_matrix, {"backend": "gpu"}, InputError, "backend='gpu'"),
        ((), {}, InputError, "no expression"),
        (I, {}, SpaceError, "not determined"),
        (2 * I, {}, SpaceError, "not determined"),
        (b"H phi", {}, InputError, "not an operator expression"),
        ("H φ φ* H", {}, SpaceError, "cannot compose"),
        ("H φy", {}, ParseError, "not of the catalogue"),
        (3, {}, InputError, "neither an operator expression"),
        (None, {}, InputError, "neither an operator expression"),
        ((mass_matrix, 3), {}, InputError, "3 is not an operator expression"),
        (mass_matrix, {"inputs": ["phi"]}, InputError, "inputs='phi'"),
        (mass_matrix, {"inputs": ["mass_matrix"]}, InputError, "inputs='mass_matrix'"),
        (mass_matrix, {"inputs": ["tau"]}, InputError, "tau is an input already"),
        (mass_matrix, {"inputs": ["Q"]}, InputError, "inputs='Q'"),
        (J, {"points": None}, InputError, "needs points"),
        (J, {"points": []}, InputError, "needs points"),
        (B @ f0, {"points": None}, InputError, "needs points"),
        (J, {"points": "b1"}, ModelError, "must be a list"),
        (J, {"axes": "local"}, InputError, "axes='local'"),
        (J, {"points": point_set(MODEL, ["b1"]), "axes": "body"}, InputError, "given with axes"),
        (J, {"points": ["nobody"]}, ModelError, "nobody"),
        (J, {"points": [("b1", (1, 2))]}, ModelError, "b1"),
        (J, {"points": [("b1", (1, 2, np.nan))]}, ModelError, "b1"),
        (a + phi.T @ a_paper, {}, SpaceError, "mixes a_paper"),
        (H @ phi @ (M @ a + b_paper), {}, SpaceError, "mixes b_paper"),
        (mass_matrix, {"mode": "blocks", "blocks": [("b1", "nobody")]}, ModelError, "nobody"),
        (mass_matrix, {"mode": "blocks", "blocks": ["b1"]}, InputError, "blocks"),
        (J, {"mode": "blocks", "blocks": [(7, "b1")]}, InputError, "points are numbered"),
        (J, {"mode": "blocks"}, LoweringError, "no diagonal blocks"),
        ((phi @ M @ phi.T + M).inv, {}, LoweringError, "no O"),
    ],
)
def test_compile_refuses(x: Any, options: dict[str, Any], error: type, message: str):
    with pytest.raises(error, match=message):
        pp.compile(x, MODEL, **{"points": POINTS, "backend": "reference", **options})


@pytest.mark.parametrize("model", [None, "arm.urdf", pp.ModelBuilder()])
def test_compile_refuses_what_is_no_model(model: Any):
    with pytest.raises((InputError, ModelError), match="model"):
        pp.compile(mass_matrix, model)


def test_poses_cannot_be_multiplied():
    with pytest.raises(SpaceError):
        compiled(pose.T @ pose, MODEL)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", None])
def test_threads_must_be_a_whole_number(threads: Any):
    with pytest.raises(InputError, match="threads"):
        compiled(V, MODEL)(draw()["q"], draw()["v"], threads=threads)


def test_on_error_is_raise_mask_or_return():
    with pytest.raises(InputError, match="on_error='ignore' is not one of 'raise', 'nan', "):
        compiled(V, MODEL)(draw()["q"], draw()["v"], on_error="ignore")


# ---- given ---------------------------------------------------------------------------------------

GIVEN: dict[str, Expr] = {
    "M": M,
    "R": R,
    "P": P,
    "D": D,
    "G": G,
    "Upsilon": Upsilon,
    "V": V,
    "a": a,
    "b": b,
    "pose": pose,
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("rewrite", ["full", "as_written"])
def test_a_given_quantity_gives_the_same_result_as_computing_it(name: str, rewrite: str):
    """Everything that depends on it, at once."""
    at = draw()
    x = (FORWARD, Lambda @ f0, R @ V, Upsilon @ f_ext, logdet(mass_matrix), total(M @ V))
    value = call(GIVEN[name], at, mode="blocks")
    program = compiled(x, MODEL, points=POINTS, inputs=[name], rewrite=rewrite)
    assert program.inputs[-1] == name
    results = program(**_needed({**at, name: value}, program))
    for got, want in zip(results, call(x, at, points=POINTS, rewrite=rewrite), strict=True):
        assert_allclose(got, want, rtol=1e-8, atol=1e-8)


def test_a_given_value_is_used_and_not_computed():
    at = draw()
    inertias = call(P, at, mode="blocks")
    program = compiled(D, MODEL, mode="blocks", inputs=["P"])
    assert all(f.op != "rec" for step in program.steps for f in step.fields)
    twice = program(**_needed({**at, "P": 2 * inertias}, program))
    armature = call(parse("Jr"), at, mode="blocks")
    assert_allclose(twice - armature, 2 * (call(D, at, mode="blocks") - armature), atol=1e-12)


def test_hinge_axes_can_be_given_as_h_transposed():
    at = draw()
    axes = call(H.T, at, mode="blocks")
    assert axes.shape == (6, MODEL.nv)
    program = compiled(mass_matrix @ vdot, MODEL, inputs="H")
    assert program.inputs == ("q", "vdot", "H")
    assert_allclose(program(at["q"], at["vdot"], axes), call(mass_matrix @ vdot, at), atol=1e-12)


def test_several_quantities_can_be_given_in_the_order_named():
    at = draw()
    program = compiled(FORWARD, MODEL, points=POINTS, inputs=["b", "P", "pose", "a"])
    assert program.inputs == ("q", "tau", "f_ext", "f0", "b", "P", "pose", "a")
    values = {n: call(GIVEN[n], at, mode="blocks") for n in ("b", "P", "pose", "a")}
    want = call(FORWARD, at, points=POINTS)
    assert_allclose(program(**_needed({**at, **values}, program)), want, rtol=1e-9, atol=1e-9)


def test_given_quantities_are_batched_like_inputs():
    at = draw(batch=(4,))
    program = compiled(mass_matrix.inv @ tau, MODEL, inputs=["P"])
    inertias = call(P, at, mode="blocks")
    got = program(at["q"], at["tau"], inertias)
    assert_allclose(got, call(mass_matrix.inv @ tau, at), rtol=1e-9, atol=1e-9)
    with pytest.raises(InputError, match="P has shape"):
        program(at["q"], at["tau"], inertias[..., :5])


# ---- batches, out, threads ----------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(1,), (5,), (2, 3), (0,), (2, 0, 3)])
def test_batches_equal_single_calls_bit_for_bit(batch: tuple[int, ...]):
    at = draw(batch=batch)
    results = call((FORWARD, pose, mass_matrix, P), at | {"x": at["v"]}, points=POINTS,
                   mode=("apply", "apply", "dense", "blocks"))  # fmt: skip
    assert [r.shape[: len(batch)] for r in results] == [batch] * 4
    for index in np.ndindex(batch):
        one = {name: value[index] for name, value in at.items()}
        alone = call((FORWARD, pose, mass_matrix, P), one, points=POINTS,
                     mode=("apply", "apply", "dense", "blocks"))  # fmt: skip
        for whole, single in zip(results, alone, strict=True):
            assert_array_equal(whole[index], single)


def test_batch_axes_broadcast():
    at = draw(batch=(4,))
    program = compiled(mass_matrix.inv @ tau, MODEL)
    many = program(at["q"][:, None], at["tau"][None])
    assert many.shape == (4, 4, MODEL.nv)
    assert_array_equal(many[1, 2], program(at["q"][1], at["tau"][2]))
    assert_array_equal(program(at["q"][0], at["tau"]), many[0])
    with pytest.raises(InputError, match="batch axes do not broadcast: q: \\(4,\\), tau: \\(3,\\)"):
        program(at["q"], at["tau"][:3])


def test_out_is_written_and_returned():
    at = draw(batch=(3,))
    program = compiled((FORWARD, V), MODEL, points=POINTS)
    want = program(**_needed(at, program))
    out = tuple(np.full_like(w, np.nan) for w in want)
    got = program(**_needed(at, program), out=out)
    for o, g, w in zip(out, got, want, strict=True):
        assert g is o
        assert_array_equal(o, w)
    single = compiled(V, MODEL)
    target = np.empty((3, MODEL.n_bodies, 6))
    assert single(at["q"], at["v"], out=target) is target


@pytest.mark.parametrize(
    "out", [np.empty(3), np.empty((6, 6), dtype=np.float32)[:2], "array", [1, 2], (np.empty(2),)]
)
def test_out_that_does_not_fit_is_refused(out: Any):
    with pytest.raises(InputError, match="out="):
        compiled(V, MODEL)(draw()["q"], draw()["v"], out=out)


@pytest.mark.parametrize("batch", [(7,), (1,), (0,), (3, 2)])
@pytest.mark.parametrize("threads", [2, 3, 16])
def test_threads_give_the_same_bits(batch: tuple[int, ...], threads: int):
    at = draw(batch=batch)
    program = compiled((FORWARD, P), MODEL, points=POINTS, mode=("apply", "blocks"))
    arguments = _needed(at, program)
    for one, many in zip(program(**arguments), program(**arguments, threads=threads), strict=True):
        assert_array_equal(one, many)


def test_a_program_can_be_called_from_several_threads():
    program, at = compiled(FORWARD, MODEL, points=POINTS), draw(batch=(20,))
    want = program(**_needed(at, program))
    got: list[Any] = [None] * 20

    def work(i: int) -> None:
        got[i] = program(**_needed({n: x[i] for n, x in at.items()}, program))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert_array_equal(np.array(got), want)


def test_inputs_are_not_changed():
    program, at = compiled(FORWARD, MODEL, points=POINTS), draw()
    before = {name: value.copy() for name, value in at.items()}
    for value in at.values():
        value.flags.writeable = False
    program(**_needed(at, program))
    for name, value in before.items():
        assert_array_equal(at[name], value)


def test_results_do_not_share_memory_with_inputs_or_each_other():
    at = draw()
    one, two = call((tau, tau), at)
    assert not np.shares_memory(one, two) and not np.shares_memory(one, at["tau"])


# ---- failures -----------------------------------------------------------------------------------


def without_inertia() -> pp.Model:
    builder = pp.ModelBuilder()
    solid = pp.SpatialInertia(mass=1, com_B=(0.2, 0, 0), moment_about_com_B=0.1)
    builder.add_body("arm", joint=pp.joints.Revolute((0, 0, 1)), inertia=solid)
    builder.add_body("hand", parent="arm", joint=pp.joints.Revolute((0, 0, 1)), joint_name="wrist")
    builder.add_body("nail", parent="hand", joint=pp.joints.Fixed())
    return builder.build()


def test_a_hinge_without_inertia_is_named_with_its_d_and_a_fix():
    model = without_inertia()
    with pytest.raises(SingularHingeError) as e:
        compiled(mass_matrix.inv, model)([0.1, 0.2], [1.0, 1.0])
    text = str(e.value)
    for part in ("'wrist'", "'hand'", "D = H P H* + Jr = 0", "armature=1e-4", "no inertia"):
        assert part in text


def test_masked_elements_are_nan_and_have_a_status():
    """A point that can move in one direction only: its admittance has no inverse."""
    model = chain(7, 0, ["revolute"])
    at = draw(model, batch=(3,))
    program = compiled(Lambda.inv, model, points=["b6"], mode="dense")
    result, status = program(at["q"], on_error="nan")
    assert result.shape == (3, 6, 6) and (status == 0).all() and np.isfinite(result).all()
    program = compiled((Lambda.inv, V), model, points=["b0"], mode="dense")
    (result, velocities), status = program(at["q"], at["v"], on_error="nan")
    assert np.isnan(result).all() and (status != 0).all() and np.isnan(velocities).all()
    with pytest.raises(SingularMatrixError, match="rank 1 of 6"):
        program(at["q"], at["v"])


def test_only_failed_elements_are_masked():
    model = pp.examples.planar_arm(3)
    q = np.zeros((2, 3))
    assert compiled(logdet(D), model)(q, on_error="nan")[1].tolist() == [0, 0]
    inertias = call(P, {"q": q}, model, mode="blocks")
    inertias[1] = 0
    program = compiled(mass_matrix.inv @ tau, model, inputs=["P"])
    result, status = program(q, np.ones(3), inertias, on_error="nan")
    assert np.isfinite(result[0]).all() and np.isnan(result[1]).all()
    assert status[0] == 0 and status[1] > 0
    with pytest.raises(SingularHingeError, match=r"element \[1\] of the batch"):
        program(q, np.ones(3), inertias)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_failed_elements_are_returned_with_their_numbers(backend: str):
    """log det of what is not positive: the numbers stay, the status is that of "nan"."""
    model = pp.examples.planar_arm(3)
    inertias = np.repeat(model.inertia_matrices[None], 2, axis=0)
    inertias[1] *= -1
    program = pp.compile((logdet(mass_matrix), V), model, inputs=["M"], backend=backend)
    inputs = {"q": np.zeros((2, 3)), "v": np.ones((2, 3)), "M": inertias}
    (masked, nothing), status = program(**inputs, on_error="nan")
    (found, velocities), same = program(**inputs, on_error="best")
    assert status[0] == 0 and status[1] > 0 and np.array_equal(status, same)
    assert np.isnan(nothing[1]).all() and np.isfinite(velocities).all()
    np.testing.assert_array_equal(masked[0], found[0])
    (alone, _), zero = program(*(inputs[n][0] for n in program.inputs), on_error="best")
    assert zero == 0 and alone == found[0]


def test_bad_numbers_are_masked_too():
    at = draw(batch=(2,))
    at["tau"][1, 0] = np.nan
    program = compiled(mass_matrix.inv @ tau, MODEL)
    result, status = program(at["q"], at["tau"], on_error="nan")
    assert np.isnan(result[1]).all() and np.isfinite(result[0]).all()
    assert status[0] == 0 and status[1] != 0


def test_overflow_is_reported_and_not_returned():
    at = draw()
    with pytest.raises(SingularMatrixError, match="not a finite number"):
        compiled(1e300 * mass_matrix, MODEL)(at["q"], 1e300 * at["v"])


def test_singular_blocks_name_the_operator_and_the_body():
    with pytest.raises(SingularMatrixError, match=r"M.*body 'hand'"):
        compiled(M.inv, without_inertia())(np.zeros((2, 6)))


# ---- numbers ------------------------------------------------------------------------------------


def test_complex_inputs_give_complex_step_derivatives():
    at, h = draw(), 1e-30
    program = compiled(FORWARD, MODEL, points=POINTS)
    arguments = _needed(at, program)
    direction = np.random.default_rng(1).standard_normal(MODEL.nv)
    moved = program(**{**arguments, "q": at["q"] + 1j * h * MODEL.qdot(at["q"], direction)})
    assert moved.dtype == np.complex128
    step = 1e-6
    ahead, back = (
        program(**{**arguments, "q": MODEL.integrate(at["q"], s * step * direction)})
        for s in (1, -1)
    )
    assert_allclose(moved.imag / h, (ahead - back) / (2 * step), rtol=1e-5, atol=1e-5)
    assert_allclose(moved.real, program(**arguments), rtol=1e-12)


def test_symbols_give_the_closed_form_of_a_two_link_arm():
    import sympy  # here: only one of the processes needs it

    model = pp.examples.planar_arm(2)
    q1, q2 = sympy.symbols("q1 q2", real=True)
    matrix = compiled(mass_matrix, model, mode="dense")(np.array([q1, q2]))
    third = sympy.Rational(1, 3)
    want = sympy.Matrix(
        [
            [5 * third + sympy.cos(q2), third + sympy.cos(q2) / 2],
            [third + sympy.cos(q2) / 2, third],
        ]
    )
    difference = sympy.nsimplify(sympy.Matrix(matrix) - want, rational=True, tolerance=1e-12)
    assert sympy.simplify(difference) == sympy.zeros(2, 2)


def test_fifty_digits():
    model = branching(4, 3, ["revolute", "prismatic"], armature=True)
    at = draw(model)
    with mpmath.workdps(50):
        many = {n: np.vectorize(mpmath.mpf, otypes=[object])(at[n]) for n in ("q", "tau")}
        there = compiled(mass_matrix.inv @ tau, model)(**many)
        back = compiled(mass_matrix @ vdot, model)(many["q"], there)
        assert there.dtype == object
        assert (
            max(abs(x - y) for x, y in zip(back, many["tau"], strict=True)) < mpmath.mpf(10) ** -44
        )
    assert_allclose(there.astype(float), compiled(mass_matrix.inv @ tau, model)(at["q"], at["tau"]))


# ---- several results, points, caching -----------------------------------------------------------


def test_a_tuple_gives_the_same_as_one_by_one():
    at = draw() | {"x0": draw(seed=1)["v"], "x1": draw(seed=2)["tau"]}
    x = (FORWARD, mass_matrix, V, mass_matrix.inv, v.T @ tau, P)
    modes = ("apply", "apply", "apply", "apply", "apply", "blocks")
    program = compiled(x, MODEL, points=POINTS, mode=modes)
    results = program(**_needed(at, program))
    assert isinstance(results, tuple) and len(results) == 6
    operands = iter(("x0", "x1"))
    for y, mode, got in zip(x, modes, results, strict=True):
        alone = compiled(y, MODEL, points=POINTS, mode=mode)
        named = {n: at[next(operands)] if n == "x" else at[n] for n in alone.inputs}
        assert_allclose(got, alone(**named), rtol=1e-10, atol=1e-10)


def test_a_tuple_of_one_gives_a_tuple_of_one():
    at = draw()
    (only,) = call((V,), at)
    assert_array_equal(only, call(V, at))
    assert isinstance(call([V], at), tuple)


def test_points_are_bodies_frames_offsets_and_the_world():
    at = draw()
    forms = [["b2"], [("b2", (0, 0, 0))], [("b2", [0.0, 0.0, 0.0])], [("b2", np.zeros(3))]]
    matrices = [call(J, at, points=p, mode="dense") for p in forms]
    for matrix in matrices[1:]:
        assert_array_equal(matrix, matrices[0])
    assert not call(J, at, points=["world"], mode="dense").any()
    both = call(J, at, points=["world", "b2"], mode="dense")
    assert_array_equal(both[6:], matrices[0])
    for axes in ("world", "body", "spatial"):
        where = point_set(MODEL, POINTS, axes)
        want = evaluate_dense(J, MODEL, at["q"], points=where)
        assert_allclose(call(J, at, points=where, mode="dense"), want, atol=1e-12)


def test_equal_requests_give_the_same_program():
    one = compiled(mass_matrix.inv, MODEL, points=["b1"])
    assert compiled(mass_matrix.inv, MODEL, points=[("b1", (0, 0, 0))]) is not None
    assert compiled(mass_matrix.inv, MODEL, points=["b1"]) is one
    assert compiled(mass_matrix.inv, MODEL, points=["b2"]) is not one
    assert compiled(mass_matrix.inv, MODEL, points=["b1"], mode="dense") is not one
    assert compiled(mass_matrix.inv, branching(3, 1), points=["b1"]) is not one


def test_programs_do_not_keep_models_alive():
    model = branching(3, 5)
    program = compiled(mass_matrix.inv, model)
    program(model.neutral(), np.ones(model.nv))
    there = weakref.ref(model)
    del program, model
    gc.collect()
    assert there() is None


def test_programs_and_models_with_programs_can_be_pickled():
    model = branching(3, 5)
    program = compiled(mass_matrix.inv, model)
    again = pickle.loads(pickle.dumps(model))
    q, x = model.neutral(), np.ones(model.nv)
    assert_array_equal(compiled(mass_matrix.inv, again)(q, x), program(q, x))
    assert_array_equal(pickle.loads(pickle.dumps(program))(q, x), program(q, x))


def test_a_program_says_what_it_is():
    program = compiled(mass_matrix.inv, MODEL)
    assert repr(program) == "<Program ℳ⁻¹: (q, x) in 2 sweeps>"
    assert program.model is MODEL


# ---- nothing to move -----------------------------------------------------------------------------


def nothing() -> list[pp.Model]:
    welded = pp.ModelBuilder()
    welded.add_body("table", joint=pp.joints.Fixed(), inertia=pp.SpatialInertia(mass=1))
    return [random_tree(0, 0), welded.build()]


@pytest.mark.parametrize("model", nothing(), ids=["empty", "welded"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_models_without_bodies(model: pp.Model, batch: tuple[int, ...]):
    at = draw(model, batch=batch)
    x = np.zeros((*batch, 0))
    assert call(mass_matrix, {**at, "x": x}, model).shape == (*batch, 0)
    assert call(mass_matrix.inv, {**at, "x": x}, model, mode="dense").shape == (*batch, 0, 0)
    assert call(V, at, model).shape == (*batch, 0, 6)
    assert call(P, at, model, mode="blocks").shape == (*batch, 0, 6, 6)
    assert call(D, at, model, mode="blocks").shape == (*batch, 0, 0, 0)
    assert call(G, at, model, mode="blocks").shape == (*batch, 6, 0)
    assert call(pose, at, model).shape == (*batch, 0, 4, 4)
    assert call(J, at, model, points=["world"], mode="dense").shape == (*batch, 6, 0)
    assert_array_equal(call(logdet(mass_matrix), at, model), np.zeros(batch))
    assert_array_equal(call(v.T @ tau, at, model), np.zeros(batch))
    assert_array_equal(call(total(M @ V), at, model), np.zeros((*batch, 6)))


def test_a_joint_without_freedom_in_a_composite():
    fixed = pp.joints.Composite([pp.joints.Fixed()])
    model = model_from_parents([-1, 0, 1], 0, ["revolute", fixed, "prismatic"])
    at = draw(model)
    for x in (mass_matrix, mass_matrix.inv, K, cross(V)):
        want = evaluate_dense(x, model, at["q"], at["v"])
        got = call(x, at, model, mode="dense")
        assert_allclose(got, want, atol=1e-10)


@pytest.mark.parametrize("axes", ["world", "body", "spatial"])
def test_axes_of_points(axes):
    at, points = draw(), ["b1", ("b2", (0.1, 0.2, 0.3))]
    found = pp.compile(J, MODEL, mode="dense", points=points, axes=axes, backend="reference")
    assert_allclose(found(at["q"]), pp.jacobian(MODEL, at["q"], points, axes=axes), rtol=1e-14)
    resolved = point_set(MODEL, points, axes)
    again = pp.compile(J, MODEL, mode="dense", points=resolved, axes=axes, backend="reference")
    assert again is found
    text = str(pp.explain(J, MODEL, points=points, axes=axes))
    assert text == str(pp.compile(J, MODEL, points=resolved).explain())


def test_a_system_has_its_own_points_and_axes():
    pin = pp.constraints.Spherical(name="pin", a="b1", b="world")
    system = pp.System(MODEL, [pin])
    with pytest.raises(InputError, match="axes='body' has no effect: the closure frames"):
        pp.compile(mass_matrix, system, axes="body")
    q = MODEL.random_configuration(0)
    mixed = pp.compile(J, system, mode="dense", points=["b1"])
    assert mixed.request.points.names == ("b1", "pin.a", "pin.b")
    assert_array_equal(mixed(q)[:6], pp.compile(J, MODEL, mode="dense", points=["b1"])(q))
    bare, tree = (
        pp.compile(J, each, mode="dense", points=["b1"])(q)
        for each in (pp.System(MODEL, []), MODEL)
    )
    assert_array_equal(bare, tree)  # without constraints it is its tree
