"""Derivatives by inertial parameters in mechanisms with flexible bodies.

Mass, first moment and moments of rigid bodies, and of flexible ones as they are undeformed, with
the invariants of their modes held. Efforts and momenta are linear in them: differences are exact.
"""

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from phipsi.operators import M, V, mass_matrix

pytestmark = pytest.mark.usefixtures("interpreted")

TREE = random_flexible_tree(
    5, bodies=4, modes=(2, 0, 1, 0), joints=("spherical", "revolute", "fixed", "universal"),
    armature=True,
)  # fmt: skip
MODEL = TREE.build()
_RNG = np.random.default_rng(0)
Q, RATES = TREE.random_state(_RNG)
X, CHANGE = _RNG.normal(size=MODEL.nv), 0.01 * _RNG.normal(size=(4, 10))
VALUES = {"q": Q, "v": RATES, "vdot": X, "tau": X, "dinertia": CHANGE}
INVARIANTS = ("S1", "S2", "J1", "J2", "C0", "C1", "stiffness", "damping", "ports", "modal_mass")


def moved(s):
    """The model with other parameters."""
    model = MODEL
    for k, name in enumerate(MODEL.body_names):
        d, body = s * CHANGE[k], MODEL.flexible[k]
        if body is None:
            inertia = pp.SpatialInertia.from_parameters(MODEL.inertias[k].parameters + d)
            model = model.with_body(name, inertia=inertia, moments="warn")
            continue
        more = np.array([[d[4], d[7], d[8]], [d[7], d[5], d[9]], [d[8], d[9], d[6]]])
        same = {x: getattr(body, x) for x in INVARIANTS}
        first, moment = body.first_moment + d[1:4], body.rotational_inertia + more
        model = model.with_body(
            name, inertia=pp.FlexibleInertia(body.mass + d[0], first, moment, **same)
        )
    return model


CASES = {
    "inverse dynamics": (INVERSE_DYNAMICS, lambda m: pp.inverse_dynamics(m, Q, RATES, X)),
    "forward dynamics": (FORWARD_DYNAMICS, lambda m: pp.forward_dynamics(m, Q, RATES, X)),
    "energy": (0.5 * (V.T @ M @ V), lambda m: pp.evaluate_dense(0.5 * (V.T @ M @ V), m, Q, RATES)),
    "determinant": (
        ops.logdet(mass_matrix),
        lambda m: np.linalg.slogdet(pp.mass_matrix(m, Q))[1],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_by_parameters(name):
    form, function = CASES[name]
    h = 0.02
    near, far = (function(moved(s * h)) - function(moved(-s * h)) for s in (1, 2))
    there = (8 * near - far) / (12 * h)
    size = {"atol": 1e-7 * np.abs(there).max(), "rtol": 0}
    change = pp.diff(form, "inertia", along="dinertia", modes=True)
    program = pp.compile(change, MODEL)
    found = program(*(VALUES[x] for x in program.inputs))
    assert_allclose(found, there, **size)
    inputs = {x: VALUES[x] for x in ("vdot", "tau", "dinertia")}
    dense = pp.evaluate_dense(change, MODEL, Q, RATES, **inputs)
    assert_allclose(found, dense, rtol=1e-11, atol=1e-12 * np.abs(dense).max())
    gradient = pp.vjp(form, MODEL, "inertia")
    weight = np.linspace(-1, 1, MODEL.nv) if np.shape(there) else 1.0
    back = gradient(*({**VALUES, "x": weight}[x] for x in gradient.inputs))
    assert_allclose(np.sum(back * CHANGE), np.sum(weight * found), rtol=1e-10)


def test_without_modes_the_call_that_is_right_is_named():
    with pytest.raises(pp.errors.LoweringError, match="modes=True"):
        pp.compile(pp.diff(INVERSE_DYNAMICS, "inertia", along="dinertia"), MODEL)


def test_regressor():
    """tau is Y π and a rest that does not depend on π."""
    regressor, parameters = pp.identification.regressor, pp.identification.inertial_parameters
    Y = regressor(MODEL, Q, RATES, X)
    other = moved(1.0)
    change = parameters(other) - parameters(MODEL)
    assert_allclose(change, CHANGE.ravel(), atol=1e-13)
    gap = pp.inverse_dynamics(other, Q, RATES, X) - pp.inverse_dynamics(MODEL, Q, RATES, X)
    assert_allclose(Y @ change, gap, atol=1e-12 * np.abs(Y).max())
    assert len(pp.identification.parameter_names(MODEL)) == Y.shape[1] == 40
    with pytest.raises(pp.errors.InputError, match="invariants of their modes"):
        pp.identification.base_parameters(MODEL)


@pytest.mark.parametrize("integrator", ["rk4", "linearly_implicit"])
def test_gradient_of_a_motion_by_parameters(integrator):
    h, steps, weight = 1e-2, 2, np.linspace(-1, 1, MODEL.nv)
    zero = np.zeros(MODEL.nv)

    def end(model):
        run = pp.rollout(model, Q, RATES, zero, h, steps, integrator=integrator)
        return run[1][-1] @ weight

    found = pp.rollout_gradient(
        MODEL, Q, RATES, zero, h, steps, integrator=integrator, parameters=True,
        final=lambda q, v: (v @ weight, None, weight),
    )  # fmt: skip
    e = 0.02
    near, far = (end(moved(s * e)) - end(moved(-s * e)) for s in (1, 2))
    expected = (8 * near - far) / (12 * e)
    assert_allclose(found.parameters[:40] @ CHANGE.ravel(), expected, rtol=1e-6)
