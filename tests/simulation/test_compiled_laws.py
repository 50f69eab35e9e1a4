"""Controllers and force elements of the library run in machine code, with the same results."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.errors import SimulationError
from phipsi.simulation.compiled_laws import compiled_laws
from phipsi.simulation.equations import Equations

ARM = pp.examples.planar_arm(3)
TREE = pp.examples.random_tree(5, 4)
Q, Z = np.array([0.3, -0.4, 0.5]), np.zeros(3)
PATH = pp.references.JointPath(ARM, [Q, Q + 0.4], [0.0, 0.8])
CONTROLLERS = {
    "nothing": None,
    "computed torque": pp.controllers.ComputedTorque(ARM, Q + 0.1, kp=30, kd=9),
    "along a path": pp.controllers.ComputedTorque(ARM, PATH, kp=30, kd=9),
    "PD": pp.controllers.PDGravity(ARM, Q + 0.2, kp=30, kd=9),
}
FORCES = [
    pp.forces.JointDamper(None, 0.3),
    pp.forces.JointSpring("joint2", 4.0),
    pp.forces.PointSpring("tip", ("world", (1.0, 1.0, 0.0)), 20.0),
]


def in_python(controller):
    """The same as a function of the user, which is called as it is."""
    if controller is None:
        return lambda t, q, v: Z
    return lambda t, q, v: controller(t, q, v)


def simulate(controller, integrator, duration=0.6, **more):
    given = {"rtol": 1e-12} if integrator in ("dopri", "radau") else {"dt": 1e-3}
    return pp.simulate(
        ARM, Q, Z, duration, controller=controller, forces=FORCES, integrator=integrator,
        **given, **more,
    )  # fmt: skip


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "implicit_midpoint", "dopri"])
@pytest.mark.parametrize("name", CONTROLLERS)
def test_runs_agree_with_those_in_python(name, integrator):
    controller = CONTROLLERS[name]
    found = simulate(controller, integrator)
    by_hand = simulate(in_python(controller), integrator)
    scale = 1e-11 if integrator != "dopri" else 1e-9
    assert_allclose(found.q[-1], by_hand.q[-1], rtol=0, atol=scale)
    if controller is not None:
        wanted = [controller(t, q, v) for t, q, v in zip(found.t, found.q, found.v, strict=True)]
        assert_allclose(found.tau, wanted, atol=1e-11)


def test_accelerations_of_trees_with_all_joints():
    rng = np.random.default_rng(0)
    q, v = TREE.random_configuration(rng), rng.normal(size=TREE.nv)
    reference = TREE.integrate(q, 0.2 * rng.normal(size=TREE.nv))
    controller = pp.controllers.ComputedTorque(TREE, reference, kp=5, kd=2)
    forces = [pp.forces.JointDamper(None, 0.3), pp.forces.JointSpring(None, 2.0)]
    laws = compiled_laws(TREE, controller, forces)
    assert laws is not None
    by_hand = Equations(TREE, controller, forces).acceleration(0.1, q, v)
    found = laws.accelerations()(0.1, q, v)
    assert found is not None
    assert_allclose(found, by_hand, rtol=1e-11, atol=1e-11 * np.abs(by_hand).max())


def test_long_runs_do_not_call_python(monkeypatch):
    calls = []
    kind = pp.controllers.ComputedTorque
    original = kind.__call__

    def counted(self, t, q, v):
        calls.append(t)
        return original(self, t, q, v)

    monkeypatch.setattr(kind, "__call__", counted)
    simulate(CONTROLLERS["computed torque"], "rk4")
    assert len(calls) < 20
    calls.clear()
    simulate(in_python(CONTROLLERS["computed torque"]), "rk4")
    assert len(calls) > 4 * 600


def test_functions_of_the_user_are_called_as_they_are():
    class Remembers:
        """Holds what it has summed up."""

        def __init__(self):
            self.times, self.reference = [], None

        def __call__(self, t, q, v):
            self.times.append(t)
            return -1e-4 * len(self.times) * v

    class Own(pp.forces.Force):
        def efforts(self, state):
            return -0.5 * state.v

    own = Remembers()
    pp.simulate(ARM, Q, Z, 0.5, controller=own, integrator="rk4", dt=1e-3)
    assert len(own.times) > 2000
    moving = pp.controllers.PDGravity(ARM, lambda t: (Q, Z, Z), kp=3, kd=1)
    saturated = pp.controllers.Saturated(CONTROLLERS["PD"], ARM, efforts=5.0)
    assert compiled_laws(ARM, own, ()) is None
    assert compiled_laws(ARM, None, [Own()]) is None
    assert compiled_laws(ARM, moving, ()) is None  # the reference may change
    assert compiled_laws(ARM, saturated, ()) is None  # it counts
    assert compiled_laws(ARM, None, ()) is None  # nothing acts
    assert compiled_laws(ARM, None, FORCES) is not None


@pytest.mark.parametrize("integrator", ["rk4", "dopri"])
def test_an_event_changes_a_controller(integrator):
    def run(wrap):
        controller = pp.controllers.PDGravity(ARM, Q, kp=30, kd=9)

        def switch(t, q, v):
            controller.reference = pp.controllers.PDGravity(ARM, -Q, kp=1, kd=1).reference
            return q, v

        event = pp.Event(lambda t, q, v: t - 0.25, action=switch)
        given = in_python(controller) if wrap else controller
        return simulate(given, integrator, events=[event], duration=0.8)

    found, by_hand = run(False), run(True)
    assert_allclose(found.q[-1], by_hand.q[-1], atol=1e-9)
    still = simulate(pp.controllers.PDGravity(ARM, Q, kp=30, kd=9), integrator, duration=0.8)
    assert np.abs(found.q[-1] - still.q[-1]).max() > 1e-2


def test_other_numbers_share_the_code():
    kinds = [pp.controllers.ComputedTorque(ARM, Q + x, kp=9 + x, kd=6 + x) for x in (0.1, 0.2)]
    one, two = (compiled_laws(ARM, x, FORCES) for x in kinds)
    assert one is not None and two is not None
    assert one._key() == two._key()
    q, v = Q + 0.05, Q
    by_hand = [Equations(ARM, x, FORCES).acceleration(0.0, q, v) for x in kinds]
    found = [laws.accelerations()(0.0, q, v) for laws in (one, two)]
    assert_allclose(np.array(found, dtype=float), by_hand, rtol=1e-12)


def test_a_run_has_the_same_bits_every_time():
    first = simulate(CONTROLLERS["along a path"], "rk4")
    again = simulate(CONTROLLERS["along a path"], "rk4")
    assert_array_equal(first.q, again.q)
    assert_array_equal(first.tau, again.tau)


def test_a_run_that_diverges_says_where():
    hard = pp.forces.JointSpring(None, 1e9)
    with pytest.raises(SimulationError, match="diverged") as error:
        pp.simulate(ARM, Q, Z, 1.0, forces=[hard], integrator="rk4", dt=1e-3)
    assert error.value.trajectory is not None
