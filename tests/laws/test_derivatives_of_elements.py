"""Derivatives of every force element, controller and standard law, one by one, to 1e-9.

The adjoint of an element's graph against differences of order eight of its values, extrapolated
once (Richardson), along random changes of configuration, rates and every number of the element.
"""

import known_mechanisms
import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.simulation import forces as f
from phipsi.simulation.analysis.law_linearization import LawLinearization

ARM = pp.examples.planar_arm(3)
TIP = ARM.body_names[-1]
NAMES = ARM.joint_names
Q, V = np.array([0.3, -0.4, 0.5]), np.array([0.2, 0.1, -0.3])
RNG = np.random.default_rng(5)
WALL = ("world", (1.0, 2.0, 0.0))


FLYER = known_mechanisms.jointed_flyer()
POLICY = {
    "0.weight": RNG.standard_normal((5, 6)), "0.bias": np.zeros(5),
    "2.weight": RNG.standard_normal((3, 5)), "2.bias": np.zeros(3),
}  # fmt: skip
ELEMENTS = {
    "joint spring": (ARM, f.JointSpring(None, 3.0, rest=[0.1, 0.2, 0.3])),
    "joint damper": (ARM, f.JointDamper(None, 0.2)),
    "joint friction": (ARM, f.JointFriction(None, 0.1, 0.5)),
    "stribeck friction": (ARM, f.StribeckFriction(None, 0.4, 0.2, 0.3, 0.1, 0.2)),
    "stop, above": (ARM, f.JointLimit(NAMES, 50.0, 0.3, lower=-0.9, upper=0.1)),
    "stop, below": (ARM, f.JointLimit(NAMES, 50.0, 0.3, lower=-0.1, upper=0.9)),
    "point spring": (ARM, f.PointSpring("tip", WALL, 5.0, 0.4, 0.3)),
    "rope, taut": (ARM, f.Rope("tip", WALL, 0.4, 5.0, 0.3)),
    "wrench": (ARM, f.Wrench("tip", np.arange(6.0))),
    "bushing": (ARM, f.Bushing(ARM.body_names[0], TIP, np.arange(1.0, 7.0), 0.1)),
    "torsion spring": (ARM, f.TorsionSpring("world", TIP, 2.0, 0.1, 0.2)),
    "wind drag": (ARM, f.WindDrag("tip", 0.3, wind=(1.0, 2.0, 0.0))),
    "elastic coupling": (ARM, f.ElasticCoupling(NAMES, (1.0, -2.0, 0.5), 30.0, damping=0.4)),
    "coupling with backlash": (ARM, f.ElasticCoupling(
        NAMES, (1.0, -2.0, 0.5), 30.0, backlash=0.2, dissipation=0.3, offset=-0.1)),
    "gravity field": (FLYER, f.GravityField.inverse_square(mu=3.0)),
    "spring in space": (FLYER, f.PointSpring("arm", WALL, 5.0, 0.4, 0.3)),
    "bushing in space": (FLYER, f.Bushing("base", "arm", np.arange(1.0, 7.0), 0.1)),
    "drag in space": (FLYER, f.WindDrag("arm", 0.3, wind=(1.0, 2.0, 0.5))),
    "pid": (ARM, pp.laws.pid(NAMES, 0.2, 4.0, 2.0, 0.5)),
    "motor": (ARM, pp.laws.motor(NAMES, [1.0, -0.5, 0.3], gear=5.0, time_constant=0.05)),
    "motor, limited": (ARM, pp.laws.motor(
        NAMES, [1.0, -0.5, 0.3], gear=5.0, speeds=[0, 50], torques=[0.3, 0.0])),
    "low pass": (ARM, pp.laws.low_pass(
        pp.signals.expression("H phi M phi* gravity"), 0.1, initial=np.zeros(3))),
    "policy": (ARM, pp.laws.policy(POLICY, activation="tanh")),
    "computed torque": (ARM, pp.control.ComputedTorque(ARM, 0.1 * np.ones(3), 20, 5)),
    "gravity": (ARM, pp.control.PDGravity(ARM, 0.1 * np.ones(3), 20, 5)),
    "saturated": (ARM, pp.control.Saturated(
        pp.control.PDGravity(ARM, 0.1 * np.ones(3), 20, 5), ARM, 1e3)),
    "rotations": (FLYER, pp.control.ComputedTorque(
        FLYER, FLYER.random_configuration(4), 9, 6, actuated=FLYER.joint_names)),
}  # fmt: skip
WEIGHTS = (4 / 5, -1 / 5, 4 / 105, -1 / 280)


def slope(function, h):
    """Differences of order eight, extrapolated with those of half the length."""

    def of(h):
        pairs = enumerate(WEIGHTS, start=1)
        return sum(w * (function(i * h) - function(-i * h)) for i, w in pairs) / h

    half = of(h / 2)
    return half + (half - of(h)) / (2**8 - 1)


def start(model, acting):
    rng = np.random.default_rng(7)
    q, v = (
        (Q, V) if model is ARM else (model.random_configuration(3), rng.standard_normal(model.nv))
    )
    at = {**acting.first(), "t": 0.3, "q": q, "v": v, "tau": np.zeros(model.nv)}
    for name in acting.states:  # away from zero, where nothing has a scale
        at[name] = at[name] + 0.1 + 0.05 * rng.standard_normal(np.shape(at[name]))
    return at


def moved(model, at, name, change, h):
    if name == "q":
        return {**at, "q": model.integrate(at["q"], h * change)}
    return {**at, name: at[name] + h * change}


@pytest.mark.parametrize("name", ELEMENTS)
def test_derivatives(name):
    model, element = ELEMENTS[name]
    acting = LawLinearization(model, [element], 1e-3)
    at = start(model, acting)
    rng = np.random.default_rng(11)
    wanted = [x for x in at if x not in ("t", "tau") and np.isfinite(at[x]).all()]
    found = acting.derivatives(at, wanted)
    largest = 0.0
    for by in wanted:
        size = model.nv if by == "q" else np.size(at[by])
        change = rng.standard_normal(size)
        along = change if by == "q" else change.reshape(np.shape(at[by]))
        exact = slope(lambda h, by=by, along=along: acting.values(moved(model, at, by, along, h)),
                      4e-3)  # fmt: skip
        scale = max(1.0, np.abs(exact).max())
        assert_allclose(found[by] @ change / scale, exact / scale, rtol=0, atol=1e-9, err_msg=by)
        largest = max(largest, float(np.abs(exact).max()))
        # the twin: a millionth more of the change is another derivative
        if np.abs(exact).max() > 1e-2:
            assert np.abs((1 + 1e-6) * found[by] @ change - exact).max() > 1e-9 * scale
    assert largest > 1e-2


def test_every_element_and_controller_is_here():
    tested = {type(x) for _, x in ELEMENTS.values()}
    missing = [n for n in f.__all__ if isinstance(getattr(f, n), type)]
    bases = ("Force", "State")
    forgotten = [n for n in missing if n not in bases and getattr(f, n) not in tested]
    assert not forgotten, f"add a line to ELEMENTS above for each of {forgotten}"
    from phipsi.simulation.control import controllers

    missing = [n for n in controllers.__all__ if getattr(pp.control, n) not in tested]
    # the first reads Λ as a matrix, whose derivative is not there
    assert missing == ["OperationalSpace", "OperationalSpaceDynamics"]
