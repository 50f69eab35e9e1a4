"""Derivatives of expressions with modes: expressions against complex steps of the dense oracle.

`pp.evaluate_dense` has formulas of its own, which are compared here with nodes with mass
(`flexible_oracle`) and, along complex steps, with compiled derivatives.
"""

import numpy as np
import pytest
from amounts import seeds
from flexible_oracle import ALL_FLEXIBLE, random_flexible_tree
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from phipsi.core.calculus.directional import substitute
from phipsi.core.calculus.families import Family
from phipsi.core.expressions.node import zero
from phipsi.core.operators.catalogue import CATALOGUE
from phipsi.core.operators.inputs import leaves_of
from phipsi.operators import D, H, M, P, V, a, b, gravity, mass_matrix, phi, psi, tau

pytestmark = pytest.mark.usefixtures("interpreted")

STEP = 1e-30
VECTORS = {
    "inertias": H @ M @ V,
    "motions": H @ phi @ M @ phi.T @ gravity,
    "a": H @ M @ a,
    "b": H @ b,
    "inverse dynamics": INVERSE_DYNAMICS,
    "forward dynamics": FORWARD_DYNAMICS,
    "articulated": H @ P @ V,
    "hinges": D.inv @ tau,
    "psi": H @ psi @ M @ V,
    "momentum": ops.total(M @ V),
    "energy": 0.5 * (V.T @ M @ V),
    "determinant": ops.logdet(mass_matrix),
}


class Case:
    """A random tree of rigid and flexible bodies on all kinds of joints, with a state."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        joints = [ALL_FLEXIBLE[i] for i in rng.integers(len(ALL_FLEXIBLE), size=5)]
        self.tree = random_flexible_tree(
            seed, bodies=5, modes=(2, 0, 3, 1, 0), joints=joints, armature=True
        )
        self.model = self.tree.build()
        self.q, self.v = self.tree.random_state(rng)
        names = ("tau", "vdot", "dq", "dv")
        self.inputs = {name: rng.normal(size=self.model.nv) for name in names}
        self.inputs |= {"q": self.q, "v": self.v}
        self.weight = rng

    def __call__(self, program, **more):
        values = self.inputs | more
        return np.asarray(program(*(values[name] for name in program.inputs)))

    def dense(self, x, **changed):
        """The value of an expression by full matrices."""
        inputs = self.inputs | changed
        return pp.evaluate_dense(x, self.model, inputs.pop("q"), inputs.pop("v"), **inputs)

    def along(self, x, wrt):
        """The change of a vector along dq or dv, by a complex step of the dense oracle."""
        rates = self.inputs["d" + wrt]
        rates = self.model.qdot(self.q, rates) if wrt == "q" else rates
        return np.imag(self.dense(x, **{wrt: self.inputs[wrt] + 1j * STEP * rates})) / STEP


@pytest.fixture(scope="module", params=seeds(2))
def case(request):
    return Case(request.param + 3)


@pytest.mark.parametrize("name", VECTORS)
def test_derivatives_by_q(case, name):
    x, model = VECTORS[name], case.model
    there = case.along(x, "q")
    size = {"rtol": 1e-10, "atol": 1e-11 * max(1.0, np.abs(there).max())}
    change = pp.diff(x, "q", along="dq", modes=True)
    assert_allclose(case(pp.compile(change, model)), there, **size)
    assert_allclose(case.dense(change), there, **size)
    whole = pp.diff(x, "q", modes=True)
    if not isinstance(whole, Family):
        assert_allclose(case(pp.compile(whole @ ops.dq, model)), there, **size)
    gradient = pp.vjp(x, model, "q")
    weight = case.weight.normal(size=there.shape)
    found = case(gradient, x=weight if there.shape else 1.0)
    number = np.sum(weight * there) if there.shape else there
    assert_allclose(found @ case.inputs["dq"], number, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["a", "b", "inverse dynamics", "forward dynamics", "energy"])
def test_derivatives_by_v(case, name):
    x, model = VECTORS[name], case.model
    change = pp.diff(x, "v", along="dv", modes=True)
    assert_allclose(case(pp.compile(change, model)), case.along(x, "v"), rtol=1e-10, atol=1e-10)


def test_second_derivatives(case):
    once = pp.diff(INVERSE_DYNAMICS, "q", along=ops.v, modes=True)
    twice = pp.diff(once, "q", along="dq")
    found = case(pp.compile(twice, case.model))
    assert_allclose(found, case.along(once, "q"), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("leaf", ["Mdot", "Edot"])
def test_a_missing_term_shows(case, leaf):
    """Twins: the same derivative with one kind of term left out is another number."""
    change = pp.diff(INVERSE_DYNAMICS, "q", along="dq", modes=True)
    form = CATALOGUE[leaf].form
    gone = {y: zero(y.takes, y.gives) for y in leaves_of(change) if y.row.form is form}
    there = case.along(INVERSE_DYNAMICS, "q")
    assert np.abs(case.dense(change) - there).max() < 1e-9
    assert np.abs(case.dense(substitute(change, gone)) - there).max() > 1e-3


def test_derivatives_of_points_with_mass(case):
    """Nothing of the library but poses and axes of joints is in these efforts."""
    tree, model, h = case.tree, case.model, 2e-3
    vdot, dq = case.inputs["vdot"], case.inputs["dq"]
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}  # of sixth order
    there = sum(
        w * sign * tree.inverse_dynamics(model.integrate(case.q, sign * i * h * dq), case.v, vdot)
        for i, w in weights.items()
        for sign in (1, -1)
    )
    change = pp.compile(pp.diff(INVERSE_DYNAMICS, "q", along="dq", modes=True), model)
    size = np.abs(there).max() / h
    assert_allclose(case(change), there / h, rtol=1e-8, atol=1e-9 * size)
