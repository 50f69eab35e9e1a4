"""Rigid stops and dry friction in joints, by the solver of contacts: exact answers, dense twins."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.contact.solver.contact_problem import ContactProblem, ContactProblemLayout, residual
from phipsi.contact.solver.contact_solver import solve

F = pp.forces
STEPPING = {"integrator": "time_stepping"}


def slider(mass: float = 1.0) -> pp.Model:
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    inertia = pp.SpatialInertia(mass, (0, 0, 0), 0.01)
    builder.add_body("cart", joint=pp.joints.Prismatic((1, 0, 0)), inertia=inertia)
    return builder.build()


def leg() -> tuple[pp.Model, pp.System, np.ndarray]:
    """Three links over the ground with a ball at the tip, which touches it."""
    builder = pp.ModelBuilder()
    rod = pp.SpatialInertia(1.0, (0, 0, -0.25), (0.03, 0.02, 0.01))
    for i, parent in enumerate(("world", "link0", "link1")):
        place = pp.Pose(None, (0, 0, 1.2 if i == 0 else -0.5))
        joint = pp.joints.Revolute((0, 1, 0) if i != 1 else (1, 0, 0))
        builder.add_body(f"link{i}", parent=parent, joint=joint, inertia=rod, placement=place)
    builder.add_shape("foot", "link2", pp.shapes.Sphere(0.05), pp.Pose(None, (0, 0, -0.3)))
    model = builder.build()
    contacts = pp.Contacts(model, ground=True, material=pp.Material(0.6))
    return model, pp.System(model, contacts=contacts), np.array([0.2, -0.5, 0.6])


def test_a_cart_with_dry_friction_stops_at_the_exact_place():
    bound, mass, h = 0.5, 2.0, 1e-2
    model = slider(mass)
    sim = pp.Simulator(model, [F.JointFriction("cart", bound, 0.0)], dt=h, **STEPPING)
    run = sim.rollout(sim.initial_state([0.0], [1.0]), steps=500, progress=False)
    stop = mass / bound
    assert_allclose(run.v[:, 0], np.maximum(1 - run.t / stop, 0.0), atol=1e-12)
    assert run.q[-1, 0] == pytest.approx(stop / 2 - h / 2, abs=1e-12)  # Euler: v⁺ over each step
    assert_allclose(run.v[-1], 0.0, atol=1e-15)
    smoothed = [F.JointFriction("cart", bound)]
    twin = pp.Simulator(model, smoothed, dt=h, integrator="implicit_damping")
    smooth = twin.rollout(twin.initial_state([0.0], [1.0]), steps=500, progress=False)
    assert abs(smooth.q[-1, 0] - run.q[-1, 0]) > 1e-4


@pytest.mark.parametrize(("push", "moves"), [(0.999, False), (1.001, True)])
def test_stiction_holds_up_to_its_bound(push, moves):
    sim = pp.Simulator(slider(), [F.JointFriction(None, 1.0, 0.0)], dt=1e-3, **STEPPING)
    run = sim.rollout(sim.initial_state(), [push], steps=100, progress=False)
    assert_allclose(run.v[-1], (push - 1.0) * 0.1 if moves else 0.0, atol=1e-13)


def test_a_joint_does_not_pass_its_rigid_stop():
    arm = pp.examples.planar_arm(1)
    laws = [F.JointLimit("joint1", np.inf, lower=-1.0)]
    sim = pp.Simulator(arm, laws, dt=1e-3, **STEPPING)
    names = ("q", "v", "stop.impulses")
    run = sim.rollout(sim.initial_state([0.0]), steps=700, record=names, progress=False)
    assert run.q.min() >= -1.0 - 1e-12 and run.q[-1] == pytest.approx(-1.0, abs=1e-12)
    assert_allclose(run.v[-1], 0.0, atol=1e-12)
    held = run["stop.impulses"][-1, 0] / 1e-3
    assert held == pytest.approx(9.81 * 0.5 * np.cos(1.0), rel=1e-9)
    proof = run.certificate
    assert proof.is_clean and proof.gain <= 1e-13 and proof.residual < 1e-10


def dense_step(model, system, q, v, tau, h, limits, friction):
    """The same step with dense matrices: rows of the contact, stops, friction."""
    M, vdot = pp.mass_matrix(model, q), pp.forward_dynamics(model, q, v, tau)
    free = v + h * vdot
    found = pp.contact_points(system, q)
    n = found.normal[0]
    both = pp.jacobian(model, q, [("link2", (0, 0, -0.3))])
    Jp = both[3:] + np.array([np.cross(w, -0.05 * n) for w in both[:3].T]).T
    t1 = np.array([1.0, 0, 0])
    G = [np.stack([t1, np.cross(n, t1), n]) @ Jp, *(s * np.eye(3)[[i]] for i, s, _ in limits)]
    G = np.concatenate([*G, np.eye(3)[list(friction)]])
    gaps = [found.gap[0], *(g for _, _, g in limits)]
    layout = ContactProblemLayout(("point",), len(limits), len(friction))
    mu = layout.coefficients(0.6, limits=h * np.array(list(friction.values())))
    s = np.maximum(gaps, 0.0) / h
    W = G @ np.linalg.solve(M, G.T)
    p = solve(ContactProblem(layout, W, G @ free, s, mu), tolerance=1e-13).p
    # rates are those of one impulse at all contacts that closed
    closed = s + (W @ p + G @ free)[[2, *range(3, 3 + len(limits))]] < 1e-9
    if np.any(closed & (s > 10 * h)):
        p = solve(
            ContactProblem(layout, W, G @ free, np.where(closed, 0, s), mu), tolerance=1e-13
        ).p
    return free + np.linalg.solve(M, G.T @ p), p


def test_contacts_stops_and_friction_are_one_problem():
    model, system, q = leg()
    height = pp.contact_points(system, q).gap[0]
    h, low, bound = 1e-2, q[0] - 2e-3, {1: 0.3, 2: 40.0}
    laws = [
        F.JointLimit("link0", np.inf, lower=low, upper=2.0),
        F.JointFriction("link1", 0.3, 0.0),
        F.JointFriction("link2", 40.0, 0.0),
    ]
    placed = model.with_body("link0", placement=pp.Pose(None, (0, 0, 1.2 - height + 2e-3)))
    contacts = pp.Contacts(placed, ground=True, material=pp.Material(0.6))
    both = pp.System(placed, contacts=contacts)
    sim = pp.Simulator(both, laws, dt=h, **STEPPING)
    rng = np.random.default_rng(3)
    rates = rng.normal(size=(8, 3))
    state = sim.initial_state(np.tile(q, (8, 1)), rates)
    run = sim.rollout(state, steps=1, record=("v", "stop.impulses"), progress=False)
    pushed = 0
    for i in range(8):
        limits = [(0, 1, 2e-3), (0, -1, 2.0 - q[0])]
        want, p = dense_step(placed, both, q, rates[i], np.zeros(3), h, limits, bound)
        assert_allclose(run.v[i, -1], want, atol=1e-10)
        pushed += p[3] > 0
        assert_allclose(run["stop.impulses"][i, -1, 0], p[3], atol=1e-10)
    assert 0 < pushed < 8
    assert run.certificate.is_clean and run.certificate.gain.max() < 1e-13


def test_gradients_through_stops_and_friction():
    model, system, q = leg()
    laws = [
        F.JointLimit("link0", np.inf, lower=q[0] - 1e-2),
        F.JointFriction(["link1", "link2"], [0.4, 0.6], 0.0),
    ]
    height = pp.contact_points(system, q).gap[0]
    placed = model.with_body("link0", placement=pp.Pose(None, (0, 0, 1.2 - height + 2e-3)))
    contacts = pp.Contacts(placed, ground=True, material=pp.Material(0.3))
    sim = pp.Simulator(pp.System(placed, contacts=contacts), laws, dt=1e-3, **STEPPING)
    v, steps = np.array([-3.0, 0.7, 0.5]), 12
    weight = np.zeros((steps + 1, 3))
    weight[-1] = [1.0, -0.7, 0.4]
    found = sim.gradient(
        sim.initial_state(q, v), np.zeros((steps, 3)), steps, cotangents={"v": weight}
    )

    def value(dq, dv, friction=None):
        own = {} if friction is None else {"joint_friction.friction": friction}
        run = sim.rollout(
            sim.initial_state(q + dq, v + dv, parameters=own), steps=steps, record=("v", "q"),
            progress=False,
        )  # fmt: skip
        return run.v[..., -1, :] @ weight[-1]

    def slope(along):
        """Differences of fourth order."""
        far, near = ((along(x) - along(-x)) / (2 * x) for x in (4e-6, 2e-6))
        return (4 * near - far) / 3

    every, own = np.eye(3), np.array([0.0, 0.4, 0.6])
    assert_allclose(found.q, slope(lambda x: value(x * every, 0)), atol=1e-7)
    assert_allclose(found.v, slope(lambda x: value(0, x * every)), atol=1e-7)
    by_bound = found.parameters["joint_friction.friction"][1:]
    wanted = slope(lambda x: value(0, 0, own + x * every[1:]))
    assert_allclose(by_bound, wanted, atol=1e-7)
    assert np.abs(by_bound).max() > 1e-4


def test_bits_do_not_depend_on_company():
    model, system, q = leg()
    laws = [F.JointLimit(None, np.inf, lower=-1.0, upper=1.0), F.JointFriction(None, 0.2, 0.0)]
    sim = pp.Simulator(system, laws, dt=2e-3, **STEPPING)
    rates = np.random.default_rng(0).normal(size=(7, 3))
    many = sim.rollout(sim.initial_state(np.tile(q, (7, 1)), rates), steps=200, progress=False)
    for i in (0, 6):
        one = sim.rollout(sim.initial_state(q, rates[i]), steps=200, progress=False)
        assert_array_equal(one.q, many.q[i])
    assert np.abs(many.q).max() <= 1.0 + 1e-9 and many.certificate.gain.max() < 1e-13


def test_ratings_of_a_file_as_exact_elements():
    arm = pp.examples.seven_joint_arm()
    exact = F.from_model(arm, exact=True)
    assert [type(x).__name__ for x in exact] == ["JointDamper", "JointLimit"]
    sim = pp.Simulator(arm, exact, dt=2e-3, **STEPPING)
    run = sim.rollout(sim.initial_state(arm.neutral()), steps=500, progress=False)
    assert (run.q >= arm.lower - 1e-9).all() and (run.q <= arm.upper + 1e-9).all()
    assert run.certificate.is_clean


ARM = pp.examples.planar_arm(2)
RK4 = {"integrator": "rk4"}
DRY, RIGID = F.JointFriction(None, 1.0, 0.0), F.JointLimit(None, np.inf, lower=-1.0)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: pp.Simulator(ARM, [DRY]), "time_stepping"),
        (lambda: pp.Simulator(ARM, [RIGID], integrator="implicit_damping"), "time_stepping"),
        (lambda: pp.Simulator(ARM, [F.JointDamper(None, 1.0)], **STEPPING), "JointLimit"),
        (lambda: pp.simulate(ARM, [0, 0], [0, 0], 0.1, forces=[RIGID], **RK4), "time_stepping"),
        (
            lambda: pp.simulate(ARM, [0, 0], [0, 0], 0.1, forces=[DRY], **RK4),
            "velocity_scale positive",
        ),
        (lambda: pp.linearize(ARM, [0, 0], laws=[DRY]), "no torques at a state"),
        (
            lambda: F.JointLimit(None, np.inf, 0.1, lower=-1.0).bind(ARM),
            "dissipation= applies only",
        ),
        (
            lambda: F.JointLimit(None, 5.0, lower=-1.0, restitution=0.5).bind(ARM),
            "restitution= applies only",
        ),
        (lambda: F.JointLimit(None, np.inf, lower=-1.0, restitution=2).bind(ARM), "create energy"),
        (lambda: F.JointFriction(None, 1.0, -1.0).bind(ARM), "velocity_scale"),
    ],
)
def test_rejected(call, why):
    with pytest.raises(pp.errors.PhipsiError, match=why):
        call()


def test_simulate_takes_the_same_steps():
    dry = F.JointFriction(None, 0.4, 0.0)
    arm, laws = pp.examples.planar_arm(2), [F.JointLimit(None, np.inf, lower=-0.6), dry]
    found = pp.simulate(
        arm, [0.0, 0.2], [0.0, 0.0], 0.5, forces=laws, integrator="time_stepping", dt=1e-3
    )
    sim = pp.Simulator(arm, laws, dt=1e-3, **STEPPING)
    run = sim.rollout(sim.initial_state([0.0, 0.2]), steps=500, progress=False)
    assert_array_equal(found.q, run.q)
    assert found.q.min() == pytest.approx(-0.6, abs=1e-9)
    assert found.energy[-1] < found.energy[0]


def test_the_certificate_has_angles_beyond_stops_in_rad_and_lengths_in_m() -> None:
    arm = pp.examples.planar_arm(2)
    stop = pp.forces.JointLimit("joint1", np.inf, lower=-0.5, upper=0.5)
    sim = pp.Simulator(arm, [stop], dt=1e-3, integrator="time_stepping")
    state = sim.initial_state([0.7, 0.0], resolve_penetration=True)
    sim.step(state)
    proof = state.certificate
    assert proof.angle == pytest.approx(0.2) and proof.overlap == 0
    assert "beyond a stop, farthest         0.2 rad" in str(proof) and "m/s or rad/s" in str(proof)
    builder = pp.ModelBuilder()
    slide = pp.joints.Prismatic((1, 0, 0))
    builder.add_body("cart", joint=slide, inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.1))
    rail = pp.forces.JointLimit("cart", np.inf, upper=0.5)
    sim = pp.Simulator(builder.build(), [rail], dt=1e-3, integrator="time_stepping")
    state = sim.initial_state([0.7], resolve_penetration=True)
    sim.step(state)
    assert state.certificate.overlap == pytest.approx(0.2) and state.certificate.angle == 0
    assert "rad" not in str(state.certificate)
    run = pp.simulate(arm, [-0.4, 0.0], [-1.0, 0.0], 0.2, forces=[stop])
    text = str(run.contacts.certificate)
    assert any(e.name == "stop of joint1 hits" for e in run.events)
    assert "beyond a stop" in text and run.contacts.certificate.overlap == 0


# ---- limits alone, without contacts and stops ----------------------------------------------------


def test_the_residual_of_bounds_alone_is_that_of_each_joint():
    """max |p − clip(p − w/W, ±c)| W, written by hand, for impulses inside and on the bounds."""
    rng = np.random.default_rng(3)
    layout = ContactProblemLayout((), limits=2)
    root = rng.standard_normal((5, 2, 2))
    W, b = root @ root.swapaxes(1, 2) + 0.1 * np.eye(2), rng.standard_normal((5, 2))
    c, p = rng.uniform(0.1, 1.0, (5, 2)), rng.standard_normal((5, 2))
    own = np.einsum("nii->ni", W)
    w = np.einsum("nij,nj->ni", W, p) + b
    wanted = (np.abs(p - np.clip(p - w / own, -c, c)) * own).max(axis=1)
    problem = ContactProblem(layout, W, b, np.zeros((5, 0)), c)
    np.testing.assert_allclose(residual(problem, p), wanted, rtol=1e-12)
    assert (wanted > 1e-3).all()


def test_a_step_with_dry_friction_alone_that_fails_says_so():
    """Parameters are checked, so the bound is made impossible behind the simulator's back."""
    dry = pp.forces.JointFriction("cart", 2.0, velocity_scale=0)
    sim = pp.Simulator(slider(), [dry], dt=1e-3, integrator="time_stepping")
    state = sim.initial_state()
    state.shared["joint_friction.friction"][:] = -1.0
    with pytest.raises(pp.errors.SimulationError, match="dry friction.*'friction in cart' is"):
        sim.rollout(state, steps=2)


@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_impacts_on_limits_are_in_the_energy_record(restitution):
    """What the stops take is dissipated; the rest is the error of the steps, of first order."""
    b = pp.ModelBuilder(gravity=(0, 0, -9.81))
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), (0.001, 1 / 12, 1 / 12))
    hinge = {"joint": pp.joints.Revolute((0, 1, 0)), "limits": (-0.5, 0.5), "inertia": rod}
    b.add_body("upper", **hinge)
    b.add_body("lower", parent="upper", placement=pp.Pose(None, (1, 0, 0)), **hinge)
    b.add_shape("tip", "lower", pp.shapes.Sphere(0.05), pp.Pose(None, (1, 0, 0)))
    b.add_shape("floor", "world", pp.shapes.Plane(), pp.Pose(None, (0, 0, -2.5)))
    model = b.build()
    system = pp.System(model, contacts=pp.Contacts(model))  # whose floor is out of reach
    stop = pp.forces.JointLimit(None, np.inf, restitution=restitution)
    proofs = []
    for dt in (2e-3, 2.5e-4):
        sim = pp.Simulator(system, [stop], dt, integrator="time_stepping")
        state = sim.initial_state([0.0, 0.0])
        start = pp.kinetic_energy(model, state.q, state.v) + pp.potential_energy(model, state.q)
        run = sim.rollout(state, steps=round(2.0 / dt), record_every=round(0.1 / dt))
        q, v = run.q[-1], run.v[-1]
        end = pp.kinetic_energy(model, q, v) + pp.potential_energy(model, q)
        proof = run.contacts.certificate
        assert proof.is_clean and proof.work == 0
        assert proof.balance == pytest.approx(float(end - start) + proof.dissipated, abs=1e-9)
        proofs.append(proof)
    assert min(x.dissipated for x in proofs) > 10  # J: without the stops' share, that much is off
    assert abs(proofs[1].balance) < 0.02 and abs(proofs[0].balance) < 0.1
