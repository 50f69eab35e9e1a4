"""Contacts together with the constraint rows of loops: dense twins, standing legs, gradients."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from contact_problems import leg
from numpy.testing import assert_allclose, assert_array_equal
from random_systems import admissible, kkt, random_system

import phipsi as pp
from phipsi.contact.solver.contact_problem import ContactProblem, ContactProblemLayout
from phipsi.contact.solver.contact_solver import solve

STEPPING = {"integrator": "time_stepping"}


@pytest.mark.parametrize("seed", [0, 3, 4, 5, 7, 8])
def test_impulses_are_those_of_a_dense_solution(seed):
    rng = np.random.default_rng(seed)
    kinds = ["Spherical", "Distance", "Coupling", "Revolute", "PointOnLine"][: 2 + seed % 4]
    joints = ("revolute", "prismatic", "cylindrical", "universal")
    loops, q = random_system(seed + 40, 5, kinds, spare=2, n_roots=2, joints=joints)
    model, hosts = loops.model, [loops.model.body_names[i] for i in (-1, 1)]
    for i, body in enumerate(hosts):
        model = model.with_shape(f"ball{i}", body, pp.shapes.Sphere(0.05))
    at = pp.poses(model, q)[[-1, 1], :3, 3]
    R = pp.Pose.from_axis_angle((1, 0, 0), 0.3).rotation
    low = np.argmin(at @ R[:, 2])
    ground = pp.Pose(R, at[low] - 0.05 * R[:, 2])
    contacts = pp.Contacts(
        model,
        ground=ground,
        material=pp.Material(0.4),
        pairs=[(f"ball{i}", "ground") for i in range(2)],
        margin=0.5,
    )
    system = pp.System(model, loops.constraints, contacts=contacts)
    h, v, tau = 1e-3, admissible(system, q, rng), rng.normal(size=model.nv)
    falls = pp.jacobian(model, q, [(hosts[low], (0, 0, 0))])[3:] @ v @ R[:, 2]
    v = v if falls < 0 else -v
    found = pp.contact_step(system, q, v, tau, h)
    free = v + h * kkt(loops, q, v, tau)[0]
    slots = pp.contact_points(system, q)
    G, M = loops.jacobian(q), pp.mass_matrix(model, q)
    reach = np.linalg.solve(M, G.T)
    Y = np.linalg.inv(M) - reach @ np.linalg.pinv(G @ reach, rcond=1e-10) @ reach.T
    C, points = [], []
    for name, x, n in zip(hosts, slots.point_a, slots.normal, strict=True):
        J = pp.jacobian(model, q, [(name, (0, 0, 0))])
        origin = pp.poses(model, q)[model.body_index(name), :3, 3]
        moved = J[3:] + np.array([np.cross(w, x - origin) for w in J[:3].T]).T
        t = np.cross(n, (1, 0, 0)) / np.linalg.norm(np.cross(n, (1, 0, 0)))
        points.append(moved)
        C.append(np.stack([t, np.cross(n, t), n]) @ moved)
    C = np.concatenate(C)
    layout = ContactProblemLayout(("point", "point"))
    s = np.maximum(slots.gap, 0.0) / h
    problem = ContactProblem(layout, C @ Y @ C.T, C @ free, s, layout.coefficients(0.4))
    p = solve(problem, tolerance=1e-13).p
    # impulses of a body with few degrees of freedom are not unique, what they do is
    efforts = sum(J.T @ f for J, f in zip(points, found.impulses[:, 3:], strict=True))
    change = Y @ C.T @ p
    assert_allclose(Y @ efforts, change, atol=1e-9 * (1 + np.abs(v).max()))
    assert np.abs(change).max() > 1e-3
    scale = 1 + np.abs(p).max()
    assert found.certificate.is_clean and found.certificate.gain <= 1e-12 * scale**2
    assert np.abs(system.residual(found.q)).max() < 1e-10


def test_a_four_bar_leg_stands():
    system, q = leg()
    sim = pp.Simulator(system, dt=1e-3, **STEPPING)
    names = ("q", "v", "contact.impulses", "loop.impulses")
    run = sim.rollout(sim.initial_state(q), steps=800, record=names, progress=False)
    proof = run.certificate
    assert proof.is_clean and proof.gain < 1e-12 and proof.overlap < 1e-6
    assert np.abs(system.residual(run.q)).max() < 1e-10
    assert np.abs(run.v[-1]).max() < 1e-9
    force = run["contact.impulses"][-1, :, 3:] / 1e-3
    assert force[:, 2].sum() == pytest.approx(7.5 * 9.81, rel=1e-9)
    # the loop's impulses, with those of the floor, hold the tree without any acceleration
    G, at = system.jacobian(run.q[-1]), run.q[-1]
    points = pp.contact_points(system, at).point_a
    host = pp.poses(system.model, at)[system.model.body_index("foot")]
    efforts = G.T @ run["loop.impulses"][-1] / 1e-3
    for x, f in zip(points, force, strict=True):
        local = host[:3, :3].T @ (x - host[:3, 3])
        efforts += pp.jacobian(system.model, at, [("foot", local)])[3:].T @ f
    assert_allclose(efforts, pp.gravity_forces(system.model, at), atol=1e-6)


def test_energy_of_a_leg_that_falls_is_accounted_for():
    system, q = leg()
    balance = []
    for h in (2e-3, 1e-3):
        sim = pp.Simulator(system, dt=h, **STEPPING)
        run = sim.rollout(
            sim.initial_state(q + [0.1, 0, 0, 0]), steps=round(0.3 / h), progress=False
        )
        proof = run.certificate
        assert proof.is_clean and proof.gain < 1e-12 and proof.dissipated > 1.0
        balance.append(abs(float(proof.balance)))
    assert max(balance) < 1e-2


def test_stops_and_friction_in_a_loop():
    system, q = leg()
    laws = [
        pp.forces.JointLimit("front", np.inf, lower=0.2, upper=1.0),
        pp.forces.JointFriction("rear", 0.05, 0.0),
    ]
    sim = pp.Simulator(system, laws, dt=1e-3, **STEPPING)
    run = sim.rollout(sim.initial_state(q), steps=600, progress=False)
    assert run.q[:, 1].min() >= 0.2 - 1e-9 and run.certificate.is_clean
    assert np.abs(system.residual(run.q)).max() < 1e-10
    alone = pp.System(system.model, system.constraints)  # no shapes at all
    sim = pp.Simulator(alone, laws, dt=1e-3, **STEPPING)
    run = sim.rollout(sim.initial_state(q, system.project(q, [0, -1.0, 1.0, -1.0])[1]), steps=200)
    assert run.q[:, 1].min() == pytest.approx(0.2, abs=1e-6)


def test_gradients_through_contacts_and_loops():
    system, q = leg(0.1)
    laws = [pp.forces.JointDamper("front", 0.3), pp.forces.JointSpring("rear", 2.0)]
    sim = pp.Simulator(system, laws, dt=1e-3, **STEPPING)
    v = system.project(q, [-0.8, 0.5, -0.5, 0.5])[1]
    steps = 8
    weight = np.zeros((steps + 1, 4))
    weight[-1] = [1.0, -0.3, 0.2, 0.5]
    found = sim.gradient(
        sim.initial_state(q, v), np.zeros((steps, 4)), steps, cotangents={"v": weight}
    )

    def value(dq, dv, **own):
        parameters = {f"joint_{name}": x for name, x in own.items()}
        start = sim.initial_state(*system.project(q + dq, v + dv), parameters=parameters)
        run = sim.rollout(start, steps=steps, record=("v",), progress=False)
        return run.v[..., -1, :] @ weight[-1]

    def slope(along):
        far, near = ((along(x) - along(-x)) / (2 * x) for x in (4e-6, 2e-6))
        return (4 * near - far) / 3

    # along motions that keep the loop closed
    G = system.jacobian(q)
    free = np.linalg.svd(G)[2][np.linalg.matrix_rank(G, tol=1e-9) :]
    by_v = slope(lambda x: np.array([value(0, x * d) for d in free]))
    assert_allclose(free @ found.v, by_v, atol=1e-7)
    assert np.abs(by_v).max() > 0.1
    own = sim.parameters["joint_damper.damping"]
    by_c = slope(lambda x: value(0, 0, **{"damper.damping": own + x * np.eye(4)[1]}))
    assert_allclose(found.parameters["joint_damper.damping"][1], by_c, atol=1e-7)


def test_bits_do_not_depend_on_company():
    system, q = leg()
    sim = pp.Simulator(system, dt=2e-3, **STEPPING)
    rates = np.array([system.project(q, [x, 0, 0, 0])[1] for x in np.linspace(-1, 0, 6)])
    many = sim.rollout(sim.initial_state(np.tile(q, (6, 1)), rates), steps=100, progress=False)
    for i in (0, 5):
        one = sim.rollout(sim.initial_state(q, rates[i]), steps=100, progress=False)
        assert_array_equal(one.q, many.q[i])


def test_a_grasp_with_shapes_keeps_them():
    grasp = pp.examples.two_finger_grasp()
    model = grasp.model.with_shape("box", "box", pp.shapes.Sphere(0.02))
    shapes = pp.Contacts(model, ground=pp.Pose(None, (0, 0, -5.0)))
    held = pp.grasping.Grasp(model, object="box", contacts=grasp.contacts, touching=shapes)
    assert held.contact_pairs == shapes and held.contacts == grasp.contacts
    again = pickle.loads(pickle.dumps(held))
    assert again.contact_pairs == shapes
    assert held.with_gravity((0, 0, -1.0)).contact_pairs is not None
    step = pp.contact_step(held, model.neutral(), np.zeros(model.nv), dt=1e-3)
    assert np.abs(held.residual(step.q)).max() < 1e-10 and not step.impulses.any()
