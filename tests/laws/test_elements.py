"""Force elements in circuits: their own formulas, traced, in machine code and by parameters."""

import numpy as np
import pytest
from compiled_graphs import compiled
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import LawError
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.diagram.diagram_builder import run_evaluation
from phipsi.simulation.forces.body_forces import GravityField, PointSpring, Wrench
from phipsi.simulation.forces.force import BoundForces, Force
from phipsi.simulation.forces.frame_forces import Bushing, TorsionSpring, WindDrag
from phipsi.simulation.forces.joint_forces import (
    JointDamper,
    JointFriction,
    JointSpring,
    StribeckFriction,
    from_model,
)
from phipsi.simulation.forces.joint_limits import JointLimit

ARM = pp.examples.seven_joint_arm()
TIP, MIDDLE = ARM.body_names[-1], ARM.body_names[3]


class Wind(Force):
    """Drag on every body, as in the documentation of `Force`."""

    def body_forces(self, state):
        out = np.zeros_like(state.velocities)
        out[..., 3:] = -0.5 * state.velocities[..., 3:]
        return out


ELEMENTS = {
    "damper": [JointDamper(None, 0.5)],
    "dampers": [JointDamper(None, 0.5), JointDamper(ARM.joint_names[2], 0.25)],
    "friction": [JointFriction(ARM.joint_names[1], 0.5), JointFriction(ARM.joint_names[3], 0.2)],
    "spring": [JointSpring(None, 3.0), JointSpring(None, 1.0, rest=0.1 * np.arange(7))],
    "stop": [JointLimit(None, 10.0, 0.3)],
    "one side": [JointLimit(ARM.joint_names[0], 10.0, lower=0.5)],
    "point spring": [PointSpring(TIP, ("world", (0, 0, 3.0)), 50.0, 1.0, 2.0)],
    "point springs": [PointSpring(TIP, MIDDLE, 5.0, 0.1, 1.0), PointSpring(TIP, "world", 2.0)],
    "gravity": [GravityField.inverse_square(2.0, (0, 0, 9.0))],
    "wrench": [Wrench(MIDDLE, [1, 2, 3, 4, 5, 6.0])],
    "moving wrench": [Wrench(MIDDLE, lambda t: [1, 2, 3, 4, np.sin(t), 6.0], axes="body")],
    "bushing": [Bushing(MIDDLE, (TIP, (0.1, 0.2, 0.3)), np.arange(1.0, 7.0), 0.1 * np.arange(6))],
    "mount": [Bushing("world", TIP, 3.0)],
    "torsion": [TorsionSpring(MIDDLE, TIP, 3.0, 0.2, 0.1), TorsionSpring("world", MIDDLE, 2.0)],
    "wind": [WindDrag((TIP, (0.1, 0.2, 0.3)), 0.5, wind=(3.0, 1.0, 0.0))],
    "gusts": [WindDrag(TIP, 0.5, wind=lambda t: [3 * np.sin(t), 0.0, 1.0])],
    "stribeck": [
        StribeckFriction(ARM.joint_names[1], 2.0, 1.0, 0.5, 0.1),
        StribeckFriction(ARM.joint_names[4:6], 1.5, [1.0, 0.5], 0.2),
    ],
    "own": [Wind()],
    "joint_properties": from_model(ARM),
}


def states(batch=4):
    rng = np.random.default_rng(0)
    q, v = 2 * rng.standard_normal((2, batch, ARM.nv))
    return np.arange(float(batch)), q, v


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_are_their_formulas(name):
    t, q, v = states()
    made = block_diagram(ARM, ELEMENTS[name], 1e-3)
    found = made.values({"t": t, "q": q, "v": v}, run_evaluation(ARM))
    elements = BoundForces(ELEMENTS[name], ARM)
    state = elements.state(t, q, v)
    efforts, loads = elements.acting(state, np.zeros(7))
    energy = elements.potential_energy(state)
    assert (found["efforts"] is None) == (not elements._on_joints)
    assert (found["loads"] is None) == (not loads)
    for mine, wanted in (
        (found["efforts"], efforts),
        (found["loads"], loads),
        (found["energy"], energy),
    ):
        if mine is not None:
            assert_allclose(mine, np.reshape(wanted, mine.shape), rtol=1e-13, atol=1e-13)
            assert np.abs(mine).max() > 1e-3
    twin = made.values({"t": t, "q": q + 0.1, "v": 1.1 * v}, run_evaluation(ARM))
    for mine, other in ((found[n], twin[n]) for n in ("efforts", "loads")):
        assert mine is None or name == "moving wrench" or not np.allclose(mine, other)


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_in_machine_code(name):
    t, q, v = states()
    made = block_diagram(ARM, ELEMENTS[name], 1e-3)
    given = {
        n: np.broadcast_to(x.value, (4, *x.shape)) for n, x in made.of_kind("parameter").items()
    }
    given |= {"t": t, "q": q, "v": v}
    for one in made.evaluations:
        given |= dict(zip(one.results, run_evaluation(ARM)(one, given), strict=True))
    nodes = [x for x in (made.efforts, made.loads, made.energy) if x is not None]
    values = made.values({"t": t, "q": q, "v": v}, run_evaluation(ARM))
    wanted = [values[n] for n in ("efforts", "loads", "energy") if values[n] is not None]
    for mine, exact in zip(compiled(nodes, 4, False)(given), wanted, strict=True):
        assert_allclose(mine, exact, rtol=1e-13, atol=1e-13)


def test_every_trajectory_has_its_own_numbers():
    t, q, v = states()
    made = block_diagram(ARM, [JointDamper(None, 0.5), JointLimit(None, 10.0)], 1e-3)
    assert set(made.of_kind("parameter")) == {
        "joint_damper.damping", "joint_limit.stiffness", "joint_limit.dissipation",
        "joint_limit.lower", "joint_limit.upper",
    }  # fmt: skip
    damping = np.arange(28.0).reshape(4, 7)
    mine = made.values(
        {"t": t, "q": q, "v": v, "joint_damper.damping": damping}, run_evaluation(ARM)
    )["efforts"]
    for i in range(4):
        elements = BoundForces([JointDamper(None, damping[i]), JointLimit(None, 10.0)], ARM)
        state = elements.state(t[i], q[i], v[i])
        assert_allclose(mine[i], elements.efforts(state, np.zeros(7)), rtol=1e-14, atol=1e-13)


def test_elements_and_laws_add_up():
    t, q, v = states()

    @pp.law
    def pull(q, k):
        return -k * q

    made = block_diagram(ARM, [pull.bind(k=2.0), JointDamper(None, 0.5), Wind()], 1e-3)
    found = made.values({"t": t, "q": q, "v": v}, run_evaluation(ARM))
    assert_allclose(found["efforts"], -2 * q - 0.5 * v, rtol=1e-14)
    assert found["loads"].shape == (4, ARM.n_bodies, 6)


class Branches(Force):
    """Cannot be traced."""

    def efforts(self, state):
        return -state.v if state.q[0] > 0 else state.v


class WrongShape(Force):
    """Gives one number too many."""

    def efforts(self, state):
        return np.concatenate([state.v, state.v[:1]])


@pytest.mark.parametrize(
    ("element", "text"),
    [(Branches(), r"test_elements.py, line \d+, in efforts:.*\n.*\n.*branches on a value"),
     (WrongShape(), r"line \d+, efforts: efforts returns shape \(8,\) instead of \(7,\)")],
)  # fmt: skip
def test_elements_that_cannot_be_traced(element, text):
    with pytest.raises(LawError, match=text):
        block_diagram(ARM, [element], 1e-3)


def test_springs_on_rotations():
    b = pp.ModelBuilder()
    ball = pp.SpatialInertia(1, moment_about_com_B=1)
    b.add_body("base", joint=pp.joints.Free(), inertia=ball)
    b.add_body("ball", parent="base", joint=pp.joints.Spherical(), inertia=ball)
    model = b.build()
    spring = JointSpring(None, 2.0, rest=model.random_configuration(3))
    rng = np.random.default_rng(1)
    q, v = model.random_configuration(rng, 4), rng.standard_normal((4, model.nv))
    made = block_diagram(model, [spring], 1e-3)
    found = made.values({"t": np.zeros(4), "q": q, "v": v}, run_evaluation(model))
    elements = BoundForces([spring], model)
    state = elements.state(0.0, q, v)
    assert_allclose(found["efforts"], elements.efforts(state, 0.0), rtol=1e-12, atol=1e-12)
    assert_allclose(found["energy"], elements.potential_energy(state), rtol=1e-12)
