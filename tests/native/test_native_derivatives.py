"""Derivatives in machine code: the same numbers as the reference backend, in batches and alone."""

import numpy as np
import pytest
from amounts import mostly
from comparers import EPS, within
from random_models import ALL, chain, random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics import (
    derivatives,
    diagonal_dynamics as diagonal,
    dynamics_expressions as dynamics,
    sensitivities,
)
from phipsi.core.sweeps.request import FLAT_DEPTH

# Long programs: LLVM would take minutes to optimise all of them. A derivative with its optimisation
# is in test_native_bits.py; `make fuzz` compiles all of these with it.
pytestmark = pytest.mark.quick_code

JOINTS = {
    "turning": ["revolute", "universal", "spherical"],
    "sliding": ["prismatic", "helical", "planar", "free"],
    "all": ALL,
}


close = within(4.5e4 * EPS)


def state(model, batch):
    rng = np.random.default_rng(1)
    return model.random_configuration(rng, batch), *rng.standard_normal((4, *batch, model.nv))


def both(expr, model, **options):
    out = [pp.compile(expr, model, backend=b, **options) for b in ("native", "reference")]
    assert out[0].backend == "native"
    return out


@pytest.mark.parametrize(
    "kinds", mostly(JOINTS, "all")
)  # types by themselves: test_native_expressions.py
@pytest.mark.parametrize("which", ["inverse", "forward"])
def test_matrices(kinds, which):
    model = random_tree(4, 4 if kinds == "all" else 7, JOINTS[kinds], n_roots=2, armature=True)
    make = {
        "inverse": derivatives.inverse_dynamics_operators,
        "forward": derivatives.forward_dynamics_operators,
    }[which]
    native, reference = both(make(), model, mode="dense")
    q, v, third, *_ = state(model, (11,))
    expected = reference(q, v, third)
    for x, y in zip(native(q, v, third), expected, strict=True):
        close(x, y)
    for x, y in zip(native(q[3], v[3], third[3]), expected, strict=True):
        close(x, y[3])


@pytest.mark.parametrize("kinds", ["turning", "sliding"])
def test_gradients(kinds):
    model = random_tree(2, 6, JOINTS[kinds], armature=True)
    q, v, third, c, _ = state(model, (11,))
    for expr, names in (
        (dynamics.INVERSE_DYNAMICS, ("q", "v", "vdot")),
        (dynamics.FORWARD_DYNAMICS, ("q", "v", "tau")),
    ):
        native, reference = (pp.vjp(expr, model, names, backend=b) for b in ("native", "reference"))
        assert native.backend == "native"
        for x, y in zip(native(q, v, third, c), reference(q, v, third, c), strict=True):
            close(x, y)


def test_products_of_matrices():
    """as_matrix(X) @ as_matrix(Y): in place, for sizes that fill no square, with a factor."""
    for n in (1, 3, 5, 9):
        model = random_tree(n, n, ["revolute", "prismatic"])
        inverse = ops.mass_matrix.inv
        rates = pp.diff(dynamics.INVERSE_DYNAMICS, "v")
        product = -2 * (ops.as_matrix(inverse) @ ops.as_matrix(rates))
        native, reference = both((product, inverse), model, mode="dense")
        q, v, *_ = state(model, (10,))
        got, expected = native(q, v), reference(q, v)
        close(got[0], expected[0])
        close(native(q[0], v[0])[0], expected[0][0])
        close(got[0], -2 * got[1] @ pp.compile(rates, model, mode="dense")(q, v))
        close(pp.evaluate_dense(product, model, q[0], v[0]), expected[0][0])


def test_picks_and_point_derivatives():
    model = random_tree(6, 5, ["revolute", "free"], frames=True)
    points = ["f0", ("b4", (0.1, 0.2, -0.3))]
    q, v, *_ = state(model, (9,))
    one = pp.diff(ops.mass_matrix, "q[j3]")
    native, reference = both(one, model, mode="dense")
    close(native(q), reference(q))
    native, reference = both(pp.diff(ops.J @ ops.v, "q"), model, mode="dense", points=points)
    close(native(q, v), reference(q, v))


@pytest.mark.parametrize("kinds", ["turning", "sliding"])
def test_sensitivities(kinds):
    model = random_tree(8, 6, JOINTS[kinds], armature=True)
    q, v, *_ = state(model, (9,))
    for expr, args in (
        (pp.diff(ops.mass_matrix, "q", along="v"), (q, v)),
        (sensitivities.CORIOLIS_MATRIX, (q, v)),
        (pp.diff(ops.mass_matrix.inv, "q", along="v"), (q, v)),
    ):
        native, reference = both(expr, model, mode="dense")
        close(native(*args), reference(*args), 1e-10)
        close(native(*(a[2] for a in args)), reference(*args)[2], 1e-10)
    for expr, args in (
        (pp.diff(ops.logdet(ops.mass_matrix), "q").T, (q,)),
        (diagonal._coriolis(False), (q, v)),
    ):
        native, reference = both(expr, model)
        close(native(*args), reference(*args), 1e-9)


def test_long_paths_stay_in_body_axes():
    """Beyond FLAT_DEPTH bodies nothing is carried to the root; both ways give the same numbers."""
    model = chain(FLAT_DEPTH + 3, 1, ["revolute"])
    native, reference = both(derivatives.inverse_dynamics_operators(), model, mode="dense")
    fields = [x for s in native.steps for x in s.fields]
    assert not any(x.op == "below_root" for x in fields)
    q, v, vdot, *_ = state(model, (9,))
    short = chain(FLAT_DEPTH - 3, 1, ["revolute"])
    flat = pp.compile(derivatives.inverse_dynamics_operators(), short, mode="dense")
    assert any(x.op == "below_root" for s in flat.steps for x in s.fields)
    for x, y in zip(native(q, v, vdot), reference(q, v, vdot), strict=True):
        close(x, y)
    u, h = np.ones(model.nv), 1e-30
    inverse = pp.compile(dynamics.INVERSE_DYNAMICS, model, backend="reference")
    step = inverse(q[0] + 1j * h * u, v[0], vdot[0]).imag / h
    close(native(q[0], v[0], vdot[0])[0] @ u, step)
    n = short.nv
    step = pp.compile(dynamics.INVERSE_DYNAMICS, short, backend="reference")(
        q[0, :n] + 1j * h * u[:n], v[0, :n], vdot[0, :n]
    )
    close(flat(q[0, :n], v[0, :n], vdot[0, :n])[0] @ u[:n], step.imag / h)


@pytest.mark.parametrize("kinds", [["universal", "revolute"], ["free", "prismatic"]], ids=str)
def test_gradients_of_blocks(kinds):
    """Traces, outer products, inertias of parameters: the operations that only gradients need."""
    model = random_tree(3, 5, kinds, armature=True)
    q, v, tau, c, _ = state(model, (6,))
    pi = np.random.default_rng(0).standard_normal((6, model.n_bodies, 10))
    values = {"q": q, "v": v, "tau": tau, "x": c, "dinertia": pi}
    angular = ops.H @ ops.phi @ (ops.M @ ops.phi.T @ ops.a_paper + ops.b_paper)
    for expr, names in (
        (ops.D.inv @ ops.tau, ("q", "tau", "inertia")),
        (pp.diff(ops.D @ ops.v, "q", along="v"), ("q", "v", "inertia")),
        (angular + ops.H @ ops.shift @ ops.R @ ops.V, ("q", "v")),
        (ops.H @ ops.vee(ops.cross(ops.V) @ ops.R.inv @ ops.cross_force(ops.M @ ops.V)), ("v",)),
    ):
        found = [pp.vjp(expr, model, names, backend=b) for b in ("native", "reference")]
        assert found[0].backend == "native"
        inputs = [values[n] for n in found[0].inputs]
        for x, y in zip(*(program(*inputs) for program in found), strict=True):
            close(x, y, 1e-10)
    body = model.body_names[2]
    for expr in (
        pp.diff(ops.mass_matrix, "inertia", along="dinertia"),
        pp.diff(ops.mass_matrix, f"inertia[{body}, 5]"),
    ):
        native, reference = both(expr, model, mode="dense")
        inputs = [values[n] for n in native.inputs]
        close(native(*inputs), reference(*inputs), 1e-10)
    close(pp.sensitivities.log_det_mass_matrix_gradient(model, q, wrt="inertia"),
          both(pp.diff(ops.logdet(ops.D), "inertia").T, model)[0](q), 1e-10)  # fmt: skip


NAMED = {
    "inverse_dynamics_derivatives": "qvu",
    "forward_dynamics_derivatives": "qvu",
    "mass_matrix_sensitivity": "q",
    "mass_matrix_inverse_sensitivity": "q",
    "christoffel_symbols": "q",
    "coriolis_matrix": "qv",
    "log_det_mass_matrix_gradient": "q",
    "coriolis": "qv",
    "regressor": "qvu",
}


@pytest.mark.parametrize("name", NAMED)
def test_named_functions_in_batches_of_every_size(name, monkeypatch):
    """Alone, in batches that fill the lanes and that do not, none at all, strided: one answer."""
    model = random_tree(4, 5, ["revolute", "spherical", "prismatic"], n_roots=2, armature=True)
    q, v, u, *_ = state(model, (17,))
    inputs = [{"q": q, "v": v, "u": u}[n] for n in NAMED[name]]
    places = (pp, pp.sensitivities, pp.diagonal_dynamics, pp.identification)
    function = next(getattr(p, name) for p in places if hasattr(p, name))

    def call(arrays):
        found = function(model, *arrays)
        return found if isinstance(found, tuple) else (found,)

    monkeypatch.setenv("PHIPSI_BACKEND", "reference")
    expected = call(inputs)
    model.cache.clear()
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    for size in (17, 9, 8, 7, 1, 0):
        for x, y in zip(call([a[:size] for a in inputs]), expected, strict=True):
            close(x, y[:size], 1e-10)
    for x, y in zip(call([a[3] for a in inputs]), expected, strict=True):
        close(x, y[3], 1e-10)
    strided = [np.asfortranarray(a[::-2]) for a in inputs]
    for a in strided:
        a.flags.writeable = False
    for x, y in zip(call(strided), expected, strict=True):
        close(x, y[::-2], 1e-10)
    assert any(getattr(p, "backend", "") == "native" for p in model.cache.values())
    nested = [a[:6].reshape(2, 3, -1) for a in inputs]
    for x, y in zip(call(nested), expected, strict=True):
        close(x, y[:6].reshape(2, 3, *y.shape[1:]), 1e-10)
