"""Bushings, torsion springs, drag and Stribeck friction against their formulas by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.core.spatial import so3_exp
from phipsi.errors import InputError
from phipsi.simulation.forces.force import BoundForces
from phipsi.simulation.forces.frame_forces import Bushing, TorsionSpring, WindDrag
from phipsi.simulation.forces.joint_forces import JointSpring, StribeckFriction

ARM = pp.examples.seven_joint_arm()
FIRST, MIDDLE, TIP = (ARM.body_names[i] for i in (0, 3, -1))
POINT = (TIP, (0.1, -0.2, 0.3))
CONSERVATIVE = {
    "bushing": Bushing(MIDDLE, POINT, np.arange(1.0, 7.0)),
    "mount": Bushing("world", TIP, [3.0, 1.0, 2.0, 5.0, 6.0, 7.0]),
    "torsion": TorsionSpring(MIDDLE, POINT, 3.0, 0.2),
    "torsion to the world": TorsionSpring(TIP, "world", 3.0),
}


def states(count=3):
    rng = np.random.default_rng(4)
    return ARM.random_configuration(rng, count), rng.standard_normal((count, 7))


@pytest.mark.parametrize("name", CONSERVATIVE)
def test_forces_are_the_gradient_of_the_energy(name):
    elements = BoundForces([CONSERVATIVE[name]], ARM)
    q, v = states()
    state = elements.state(0.0, q, v)
    power = elements.power(state, np.zeros(7), elements.loads(state))
    h = 1e-4
    weights = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
    energies = [elements.potential_energy(elements.state(0.0, ARM.integrate(q, k * h * v), v))
                for k in range(-4, 5)]  # fmt: skip
    slope = np.einsum("k,kn->n", weights, energies) / h
    assert_allclose(power, -slope, rtol=1e-8, atol=1e-8)
    assert np.abs(power).min() > 1e-3


@pytest.mark.parametrize(
    "element",
    [Bushing(MIDDLE, POINT, 0.0, np.arange(1.0, 7.0)),
     TorsionSpring(MIDDLE, POINT, 0.0, damping=2.0), WindDrag(POINT, 2.0)],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_dampers_take_energy(element):
    elements = BoundForces([element], ARM)
    q, v = states(20)
    state = elements.state(0.0, q, v)
    assert (elements.power(state, np.zeros(7), elements.loads(state)) < -1e-6).all()


def test_a_bushing_acts_on_both_bodies_alike():
    """Total force and moment vanish: the loads on a mechanism without ground."""
    elements = BoundForces([Bushing(MIDDLE, POINT, np.arange(1.0, 7.0), np.arange(6.0))], ARM)
    q, v = states()
    loads = elements.loads(elements.state(0.0, q, v))[0]
    X = pp.poses(ARM, q)
    R, p = X[..., :3, :3], X[..., :3, 3]
    force = np.einsum("nbij,nbj->nbi", R, loads[..., 3:])
    moment = np.einsum("nbij,nbj->nbi", R, loads[..., :3]) + np.cross(p, force)
    assert_allclose(force.sum(1), 0, atol=1e-12)
    assert_allclose(moment.sum(1), 0, atol=1e-12)
    assert np.abs(force).max() > 0.1


def test_a_mount_is_a_spring_at_a_free_joint():
    """On a free body: the same energy as a joint spring for equal stiffness, and its rotation."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1, moment_about_com_B=1))
    box = b.build()
    q = box.random_configuration(1)
    mount = BoundForces([Bushing("world", "box", [2, 2, 2, 0, 0, 0])], box)
    state = mount.state(0.0, q, np.zeros(6))
    angle = pp.core.spatial.so3_log(pp.poses(box, q)[0, :3, :3])
    assert_allclose(mount.potential_energy(state), angle @ angle, rtol=1e-13)
    assert_allclose(mount.loads(state)[0][0, :3], -2 * angle, rtol=1e-12)  # same in both axes
    joint = BoundForces([JointSpring("box", [2, 2, 2, 0, 0, 0])], box)
    assert_allclose(mount.loads(state)[0][0, :3], joint.efforts(state, 0.0)[:3], rtol=1e-12)


def test_torsion_at_a_hinge():
    hinge = pp.examples.planar_arm(1)
    body = hinge.body_names[0]
    element = BoundForces([TorsionSpring("world", body, 3.0, 0.2, 0.5)], hinge)
    for q, v in ((0.7, 1.0), (-2.0, 0.3), (3.0, -1.0)):
        state = element.state(0.0, np.array([q]), np.array([v]))
        wanted = -3 * (q - 0.2) - 0.5 * v
        assert_allclose(element.loads(state)[0][0], [0, 0, wanted, 0, 0, 0], atol=1e-12)
    beyond = element.state(0.0, np.array([4.0]), np.zeros(1))  # the short way round
    assert_allclose(element.loads(beyond)[0][0, 2], -3 * (4.0 - 0.2 - 2 * np.pi), rtol=1e-12)


def test_drag_by_hand():
    wind = np.array([3.0, 1.0, -2.0])
    elements = BoundForces([WindDrag(POINT, 0.5, 1.2, 1.3, wind)], ARM)
    q, v = states()
    loads = elements.loads(elements.state(0.0, q, v))[0]
    u = pp.velocities(ARM, q, v, [POINT], axes="world")[:, 0, 3:] - wind
    force = -0.5 * 1.3 * 1.2 * 0.5 * np.linalg.norm(u, axis=1)[:, None] * u
    J = pp.jacobian(ARM, q, [POINT]).reshape(3, 6, 7)[:, 3:]
    power = np.sum(loads * pp.velocities(ARM, q, v), axis=(1, 2))
    assert_allclose(power, np.einsum("ni,nij,nj->n", force, J, v), rtol=1e-12)
    moving = BoundForces([WindDrag(POINT, 0.5, 1.2, 1.3, lambda t: wind * t)], ARM)
    times = np.array([1.0, 1.0, 1.0])
    assert_allclose(moving.loads(moving.state(times, q, v))[0], loads, rtol=1e-13)


def test_stribeck_by_hand():
    element = BoundForces([StribeckFriction(None, 2.0, 1.0, 0.3, 0.1, 0.05)], ARM)
    q, v = states()
    wanted = -(1 + np.exp(-((v / 0.3) ** 2))) * np.tanh(v / 0.05) - 0.1 * v
    assert_allclose(element.efforts(element.state(0.0, q, v), 0.0), wanted, rtol=1e-13)


def test_energy_balances_along_a_run():
    elements = [Bushing("world", TIP, [0, 0, 0, 20.0, 20.0, 20.0], 0.5),
                TorsionSpring("world", FIRST, 2.0, 0.1, 0.2), WindDrag(TIP, 0.1)]  # fmt: skip
    run = pp.simulate(ARM, 0.3 * np.ones(7), np.zeros(7), 0.3, forces=elements[1:2])
    free = pp.simulate(
        ARM, 0.3 * np.ones(7), np.zeros(7), 0.3, forces=[TorsionSpring("world", FIRST, 2.0, 0.1)]
    )
    assert np.abs(free.energy - free.energy[0]).max() < 1e-6
    assert run.energy[-1] < run.energy[0] - 1e-5
    damped = pp.simulate(ARM, 0.3 * np.ones(7), np.zeros(7), 0.3, forces=elements)
    assert (np.diff(damped.energy) < 1e-9).all()


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (Bushing(TIP, POINT, 1.0), "on the same body"),
        (Bushing(TIP, "world", [1.0, 2.0]), "stiffness must be 6"),
        (Bushing(TIP, "world", -1.0), "must not be negative"),
        (Bushing("tipp", "world", 1.0), "tipp"),
        (TorsionSpring(TIP, "world", np.nan), "stiffness must be 1"),
        (WindDrag("world", 1.0), "fixed in the world"),
        (WindDrag(TIP, 1.0, wind=(1, 2)), "wind must be 3"),
        (WindDrag(TIP, 1.0, wind=lambda: 0), "takes"),
        (StribeckFriction(None, 1.0, 2.0, 0.1), "less than sliding"),
        (StribeckFriction(None, 1.0, 0.5, 0.0), "must be positive"),
    ],
)
def test_bad_elements(element, text):
    with pytest.raises(InputError, match=text):
        BoundForces([element], ARM)


def test_rotations_by_half_turns():
    """Bushings near half a turn, where the logarithm is longest."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1, moment_about_com_B=1))
    box = b.build()
    axis = np.array([1.0, 2.0, 2.0]) / 3
    for angle in (0.0, 1e-9, 1.0, 3.1):
        q = np.concatenate([pp.core.spatial.quat_exp(angle * axis), np.zeros(3)])
        mount = BoundForces([Bushing("world", "box", [2, 2, 2, 0, 0, 0])], box)
        found = mount.loads(mount.state(0.0, q, np.zeros(6)))[0][0, :3]
        assert_allclose(found, -2 * angle * axis, rtol=1e-9, atol=1e-15)
    assert_allclose(so3_exp(np.zeros(3)), np.eye(3))
