"""Grasps against the formulas of JPL 88-11 Part II in plain NumPy, and their inequalities."""

import numpy as np
import pytest
from amounts import mostly, seeds
from comparers import close as near
from numpy.testing import assert_allclose
from random_grasps import FREE, KINDS, Plain, random_grasp
from random_models import model_from_parents, random_pose
from random_systems import admissible, bias_by_complex_step, kkt

import phipsi as pp
from phipsi import grasping
from phipsi.algorithms.dynamics.dynamics_expressions import FORMS, forward_with_rows
from phipsi.grasping.contact_inequalities import Inequality, least_force, margins

LOOSE = [
    ("Rigid", "Rigid"), ("Rigid", "Point"), ("Edge", "SoftFinger"),
    ("Point", "SoftFinger", "Rigid"), ("SoftFinger", "SoftFinger"),
    ("Edge", "Edge", "Point"), ("Point",) * 4, ("Rigid",) * 3,
    ("SoftFinger", "Edge", "Rigid", "Point"),
]  # fmt: skip
inv = np.linalg.inv


def drawn(seed: int, kinds):
    grasp, q, v = random_grasp(seed, kinds)
    rng = np.random.default_rng(seed)
    tau = np.zeros(grasp.model.nv)
    plain = Plain(grasp, q, v)
    tau[plain.arms] = 5 * rng.standard_normal(len(plain.arms))
    return grasp, q, v, tau, plain


@pytest.mark.parametrize(("seed", "kinds"), list(enumerate(LOOSE)))
def test_equations_b9_give_the_compiled_accelerations_and_contact_forces(seed, kinds):
    grasp, q, v, tau, plain = drawn(seed, kinds)
    assert grasp.n_rows == sum(6 - FREE[k] for k in kinds)
    assert_allclose(grasp.residual(q), 0, atol=1e-12)
    f, vdot, alpha, _ = plain.b9(tau[plain.arms])
    motion = pp.forward_dynamics(grasp, q, v, tau, return_multipliers=True)
    near(motion.vdot[plain.arms], vdot)
    found = plain.J_C @ motion.vdot + pp.jacobian_dot(
        grasp.model, q, v, list(grasp.object), times_v=True
    )
    near(found, alpha)
    near(grasp.contact_forces(q, v, tau), plain.wrenches(f), 1e-8)
    # what a contact leaves free it does not transmit (a.7), and the object feels A* f (2.9)
    near(plain.H0 @ f, np.zeros(len(plain.H0)), 1e-9)
    load = grasp.grasp_map(q) @ motion.f
    R = pp.poses(grasp.model, q)[-1, :3, :3]
    near(np.kron(np.eye(2), R) @ load, plain.A.T @ f, 1e-8)
    near(grasp.object_load(q, v, motion.vdot), load, 1e-8)


@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("seed", [1, 3, 8])
def test_all_forms_agree_with_b9(seed, form):
    grasp, q, v, tau, plain = drawn(seed, LOOSE[seed])
    _, vdot, _, _ = plain.b9(tau[plain.arms])
    near(pp.forward_dynamics(grasp, q, v, tau, algorithm=form)[plain.arms], vdot)


@pytest.mark.parametrize("seed", mostly([3, 8], 3))
def test_machine_code_agrees(seed):
    grasp, q, v, tau, plain = drawn(seed, LOOSE[seed])
    vdot = pp.compile(forward_with_rows(None, False, False), grasp, backend="native")(q, v, tau)[0]
    near(vdot[plain.arms], plain.b9(tau[plain.arms])[1])


@pytest.mark.parametrize("seed", seeds(4))
def test_the_rigid_grasp_has_its_kkt_form_and_closed_solutions(seed):
    """2.11, 3.1–3.6, 4.9 and the O(l) form with M_C + Σ A* Λ⁻¹ A."""
    kinds = ("Rigid",) * (2 + seed % 3)
    grasp, q, v, tau, p = drawn(seed, kinds)
    T = tau[p.arms]
    n, m = len(p.arms), len(p.A)
    Z = np.zeros
    left = np.block([[Z((m, m)), p.J, -p.A], [p.J.T, p.MM, Z((n, 6))], [-p.A.T, Z((6, n)), p.M_C]])
    right = np.concatenate([p.a_C - p.Jdot_v, T - p.c, -p.b_C])
    x = np.linalg.solve(left, right)
    f, vdot = x[:m], x[m : m + n]
    load = T - p.c  # T'
    a = p.a_C - p.A @ inv(p.M_C) @ p.b_C - p.Jdot_v  # a'
    near(inv(p.Om) @ (p.J @ inv(p.MM) @ load - a), f, 1e-8)
    back = inv(p.MM) @ p.J.T @ inv(p.Om)
    near((inv(p.MM) - back @ p.J @ inv(p.MM)) @ load + back @ a, vdot)
    Lam = p.J @ inv(p.MM) @ p.J.T
    r = p.J @ inv(p.MM) @ load + p.Jdot_v + p.A @ inv(p.M_C) @ p.b_C - p.a_C
    star = p.M_C + p.A.T @ inv(Lam) @ p.A
    near(inv(Lam) @ (r - p.A @ inv(star) @ p.A.T @ inv(Lam) @ r), f, 1e-8)
    motion = pp.forward_dynamics(grasp, q, v, tau, return_multipliers=True)
    near(motion.vdot[p.arms], vdot)
    near(grasp.contact_forces(q, v, tau), p.wrenches(f), 1e-8)


@pytest.mark.parametrize("seed", [1, 2, 4, 5])
def test_the_coupled_form_b14(seed):
    grasp, q, v, tau, p = drawn(seed, LOOSE[seed])
    f, vdot, _, Wdot = p.b9(tau[p.arms])
    Oi, J, MM, A, H0 = inv(p.Om), p.J, p.MM, p.A, p.H0
    reach = A @ inv(p.M_C) @ A.T
    G1 = A @ inv(p.M_C) @ p.b_C + p.Jdot_v + p.Hdot_W - p.a_C - J @ inv(MM) @ p.c
    Pi = Oi - Oi @ H0.T @ inv(H0 @ Oi @ H0.T) @ H0 @ Oi
    left = np.block([[H0 @ Oi @ H0.T, H0 @ Oi @ J], [J.T @ Oi @ H0.T, MM]])
    G2 = H0 @ Oi @ ((reach @ Pi - np.eye(len(A))) @ G1 - J @ inv(MM) @ p.c)
    G3 = -J.T @ Oi @ G1 - p.c
    T = tau[p.arms]
    right = np.concatenate(
        [H0 @ Oi @ reach @ Pi @ J @ inv(MM) @ T + G2, T - J.T @ Oi @ J @ inv(MM) @ T + G3]
    )
    x = np.linalg.solve(left, right)
    near(x[: len(H0)], Wdot, 1e-8)
    near(x[len(H0) :], vdot, 1e-8)
    N = np.linalg.svd(H0)[2][len(H0) :].T
    near(N @ inv(N.T @ p.Om @ N) @ N.T, Pi, 1e-8)
    assert_allclose(pp.forward_dynamics(grasp, q, v, tau)[p.arms], vdot,
                    atol=1e-9 * np.abs(vdot).max())  # fmt: skip


@pytest.mark.parametrize("seed", range(len(LOOSE)))
def test_the_power_of_the_efforts_is_the_rate_of_the_energy(seed):
    """dE/dt by a complex step; the contacts do no work."""
    grasp, q, v, tau, _ = drawn(seed, LOOSE[seed])
    model = grasp.model
    vdot = pp.forward_dynamics(grasp, q, v, tau)
    h = 1e-30
    at, rate = q + 1j * h * model.qdot(q, v), v + 1j * h * vdot
    energy = pp.kinetic_energy(model, at, rate) + pp.potential_energy(model, at)
    near(energy.imag / h, v @ tau, 1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_two_arms_that_hold_each_other(seed):
    """Section 8: one 6×6 solve, f = Λ_c (α₂ − α₁)."""
    rng = np.random.default_rng(seed)
    parents = [-1, 0, 1, 2, -1, 4, 5, 6]
    model = model_from_parents(parents, rng, ["revolute", "universal", "spherical", "cylindrical"])
    q = model.random_configuration(rng)
    poses = pp.poses(model, q)
    X = random_pose(rng)
    other = np.linalg.inv(poses[7]) @ poses[3] @ X.matrix
    Y = pp.Pose(other[:3, :3], other[:3, 3])
    system = pp.System(model, [pp.constraints.Weld(name="grip", a=("b3", X), b=("b7", Y))])
    v, tau = admissible(system, q, rng), rng.standard_normal(model.nv)
    ends = [("b3", X.translation), ("b7", Y.translation)]
    M, J = pp.mass_matrix(model, q), pp.jacobian(model, q, ends).reshape(2, 6, -1)
    drift = pp.jacobian_dot(model, q, v, ends, times_v=True).reshape(2, 6)
    free = np.linalg.solve(M, tau - pp.bias_forces(model, q, v))
    alpha = J @ free + drift
    reach = sum(j @ np.linalg.solve(M, j.T) for j in J)
    assert_allclose(J[0] @ np.linalg.solve(M, J[1].T), 0, atol=1e-12)  # separate trees
    f = np.linalg.solve(reach, alpha[1] - alpha[0])
    vdot = free + np.linalg.solve(M, J[0].T @ f - J[1].T @ f)
    near(pp.forward_dynamics(system, q, v, tau), vdot)


# ---- the soft finger ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(4))
def test_the_spin_row_is_the_relative_spin_about_the_objects_normal(seed):
    grasp, q, _ = random_grasp(seed, ("SoftFinger", "Point"))
    rng = np.random.default_rng(seed)
    model = grasp.model
    for at in (q, model.integrate(q, 0.3 * rng.standard_normal(model.nv))):
        v = rng.standard_normal(model.nv)
        finger, thing = grasp.contacts[0].finger, grasp.contacts[0].object
        spins = pp.velocities(model, at, v, [finger[0], thing[0]], axes="world")[:, :3]
        R = pp.poses(model, at, [thing[0]])[0, :3, :3]
        normal = R @ thing[1].rotation[:, 2]
        assert grasp.row_names[0] == f"{grasp.contacts[0].name}.spin"
        near((grasp.jacobian(at) @ v)[0], normal @ (spins[0] - spins[1]), 1e-12)
        near(grasp.bias(at, v), bias_by_complex_step(grasp, at, v), 1e-11)
        assert grasp.residual(at)[0] == 0
    # the dense oracle, the reference recursion and machine code
    from phipsi.operators import A, Adot, B, J, V

    for expression in (A @ J, Adot @ B.T @ V + A @ B.T @ pp.parse("phi* a")):
        exact = (
            pp.evaluate_dense(expression, grasp, at, v)
            if expression is not A @ J
            else grasp.jacobian(at)
        )
        for backend in ("reference", "native"):
            if expression is A @ J:
                found = pp.compile(expression, grasp, mode="dense", backend=backend)(at)
            else:
                found = pp.compile(expression, grasp, backend=backend)(at, v)
            near(found, exact.reshape(found.shape), 1e-11)


def test_a_soft_finger_reaches_every_attitude():
    """Rolling about the two tangents in turn turns about the normal: there is no position row."""
    from phipsi.core.spatial import so3_exp

    loop = np.eye(3)
    step = 0.1
    for axis in ([1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]):
        loop = loop @ so3_exp(step * np.array(axis, dtype=float))
    assert abs(loop[1, 0] - loop[0, 1]) / 2 > 0.5 * step**2


# ---- inequalities ------------------------------------------------------------------------------


def test_margins_are_those_of_section_9():
    rng = np.random.default_rng(0)
    ends = {"name": "c", "finger": "tip", "object": "box"}
    w = rng.standard_normal((50, 6))
    N, F = w[:, :3], w[:, 3:]
    push, slip = -F[:, 2], np.linalg.norm(F[:, :2], axis=1)
    pressure, friction = grasping.Point(0.6, **ends).cones()
    assert_allclose(pressure.margin(w), push)
    assert_allclose(friction.margin(w), 0.6 * push - slip)
    _, soft = grasping.SoftFinger(0.6, 0.02, **ends).cones()
    inside = (slip / 0.6) ** 2 + (N[:, 2] / 0.02) ** 2 <= push**2
    assert ((soft.margin(w) >= 0) == (inside & (push >= 0))).all()
    e = np.array([0.6, 0.8, 0])
    *_, centre = grasping.Edge(e, half_length=0.1, **ends).cones()
    x = -(N @ np.cross([0, 0, -1], e)) / push  # the centre of pressure
    assert ((centre.margin(w) >= 0) == ((np.abs(x) <= 0.1) & (push >= 0))).all()
    assert grasping.Rigid(**ends).cones() == ()


def test_the_centre_of_pressure_is_where_the_force_acts():
    """A push at distance x along the edge gives a moment that the formula reads back."""
    e, n = np.array([0.6, 0.8, 0]), np.array([0, 0, -1.0])
    edge = grasping.Edge(e, half_length=0.1, name="c", finger="tip", object="box")
    *_, centre = edge.cones()
    for x, holds in ((0.09, True), (-0.09, True), (0.11, False), (-0.11, False)):
        force = 3.0 * n + 0.5 * e
        wrench = np.concatenate([np.cross(x * e, force), force])
        assert bool(centre.margin(wrench) >= 0) == holds
        assert_allclose(centre.margin(wrench), 3.0 * (0.1 - abs(x)), rtol=1e-12)


def test_a_box_held_by_friction_from_the_sides():
    """Two fingers, weight m g: each needs m g / 2 of friction, so it must push by m g / (2 mu)."""
    grasp = pp.examples.two_finger_grasp(friction=0.6)
    q, zero = grasp.model.neutral(), np.zeros(grasp.model.nv)
    load = grasp.object_load(q, zero, zero)
    assert_allclose(load, [0, 0, 0, 0, 0, 0.5 * 9.81], atol=1e-12)
    f = grasp.distribute(q, load, friction=True)
    wrench = grasp.wrenches(q, f)
    assert_allclose(wrench[:, 5], -0.5 * 9.81 / 2 / 0.6, rtol=1e-9)
    tau = grasp.efforts(q, zero, zero, f)
    assert_allclose(tau[grasp.object_rates], 0, atol=1e-10)
    assert_allclose(pp.forward_dynamics(grasp, q, zero, tau), 0, atol=1e-9)
    found = grasp.check(q, zero, tau)
    assert found.holds and found.is_unique and not found.broken
    assert_allclose(found.margins, [0.5 * 9.81 / 1.2, 0] * 2, atol=1e-9)
    weak = 0.5 * tau
    assert not grasp.check(q, zero, weak).holds
    assert "left: friction" in grasp.check(q, zero, weak).broken
    least = grasp.distribute(q, load)
    assert_allclose(grasp.wrenches(q, least)[:, 5], 0, atol=1e-12)
    squeezed = grasp.distribute(q, load, internal=[2.0])
    assert_allclose(squeezed - least, grasp.internal_forces(q) @ [2.0])
    more = grasp.distribute(q, load, friction=True, margin=0.3)
    assert_allclose(grasp.check(q, zero, tau, f=more).margins[[1, 3]], 0.3, atol=1e-8)


def test_contacts_that_cannot_turn_the_object_are_told():
    grasp = pp.examples.two_finger_grasp()
    q = grasp.model.neutral()
    with pytest.raises(pp.errors.InputError, match="cannot give the object this load"):
        grasp.distribute(q, [1, 0, 0, 0, 0, 0])
    with pytest.raises(pp.errors.InputError, match="must be"):
        grasp.distribute(q, [1, 0])


def test_where_forces_are_not_unique_the_check_is_a_feasibility_problem():
    """Fingers locked by being one body each: squeezing is self-stress."""
    held = []
    b = pp.ModelBuilder()
    for side, x in (("left", -1), ("right", 1)):
        outward = np.array([[0, 0, x], [0, 1, 0], [-x, 0, 0]])
        face = pp.Pose(outward, (0.05 * x, 0, 0))
        b.add_body(side, joint=pp.joints.Prismatic((0, 0, 1)),
                   inertia=pp.SpatialInertia(1, (0, 0, 0), 0.01))  # fmt: skip
        held.append((side, (0.05 * x, 0, 0), face))
    b.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1, (0, 0, 0), 0.01))
    model = b.build()
    tau = np.zeros(8)
    tau[:2] = 1.5 * 9.81  # the fingers carry themselves and the box

    fingers = [grasping.Point(0.5, name=n, finger=(n, at), object=("box", X)) for n, at, X in held]
    grasp = pp.grasping.Grasp(model, object="box", contacts=fingers)
    q = model.neutral()
    assert_allclose(pp.forward_dynamics(grasp, q, np.zeros(8), tau), 0, atol=1e-9)
    forces = grasp.contact_forces(q, np.zeros(8), tau)
    assert np.abs(forces[:, 5]).max() < 1e-9  # the least ones do not squeeze, and would slip
    found = grasp.check(q, np.zeros(8), tau)
    assert not found.is_unique and found.holds
    assert_allclose(found.forces[:, 5], -9.81 / 2 / 0.5, rtol=1e-7)
    assert "BREAKS" not in str(found) and "do not determine" in str(found)
    # both fingers on one face: they would have to pull, and no self-stress helps
    aside = [
        grasping.Point(0.5, name=n, finger=(n, (-0.05, y, 0)), object=("box", at))
        for n, y in (("left", -0.02), ("right", 0.02))
        for at in [pp.Pose(held[0][2].rotation, (-0.05, y, 0))]
    ]
    slipping = pp.grasping.Grasp(model, object="box", contacts=aside).check(q, np.zeros(8), tau)
    assert not slipping.is_unique
    assert not slipping.holds


def polyhedral(f0, N, cones, faces: int, outer: bool) -> bool:
    """Feasibility with |x| replaced by a polygon inside or around its circle, by linprog."""
    from scipy.optimize import linprog

    rows, right = [], []
    for c in cones:
        if not len(c.C):
            rows.append(-c.a @ N)
            right.append(c.a @ f0)
            continue
        assert len(c.C) == 2
        grow = 1.0 if outer else 1 / np.cos(np.pi / faces)
        for k in range(faces):
            u = grow * np.array([np.cos(2 * np.pi * k / faces), np.sin(2 * np.pi * k / faces)])
            rows.append((u @ c.C - c.a) @ N)
            right.append((c.a - u @ c.C) @ f0)
    found = linprog(np.zeros(N.shape[1]), A_ub=rows, b_ub=right, bounds=(None, None))
    return found.status == 0


@pytest.mark.parametrize("seed", seeds(40))
def test_feasibility_agrees_with_linear_programs(seed):
    """Outer polygons feasible where inner ones are; the cone lies between."""
    rng = np.random.default_rng(seed)
    n, k, m = 9, int(rng.integers(1, 4)), 3
    N = np.linalg.qr(rng.standard_normal((n, k)))[0]
    f0 = rng.standard_normal(n)
    cones = []
    for i in range(m):
        e = np.eye(n)[3 * i : 3 * i + 3]
        cones += [Inequality(e[2], np.zeros((0, n))), Inequality(0.8 * e[2], e[:2])]
    f, inside = least_force(f0, N, cones)
    start = f0 - N @ (N.T @ f0)
    assert_allclose(f - start, N @ (N.T @ (f - start)), atol=1e-9)
    if polyhedral(f0, N, cones, 400, outer=False):
        assert inside
    if not polyhedral(f0, N, cones, 400, outer=True):
        assert not inside
    if inside:
        assert margins(f, cones).min() > -1e-9
        from scipy.optimize import minimize

        def smooth(z):
            return margins(start + N @ z, cones)

        best = minimize(lambda z: 0.5 * z @ z, N.T @ (f - start), jac=lambda z: z,
                        constraints={"type": "ineq", "fun": smooth}, method="SLSQP",
                        options={"ftol": 1e-14})  # fmt: skip
        assert best.fun >= 0.5 * (N.T @ f) @ (N.T @ f) - 1e-6


# ---- batches, articulated objects, errors --------------------------------------------------------


def test_batches_give_what_their_elements_give():
    grasp, q, v, tau, _ = drawn(3, LOOSE[3])
    rng = np.random.default_rng(0)
    taus = tau + rng.standard_normal((5, len(tau)))
    forces = grasp.contact_forces(q, v, taus)
    found = grasp.check(q, v, taus)
    assert forces.shape == (5, 3, 6) and found.holds.shape == (5,)
    for i in range(5):
        near(forces[i], grasp.contact_forces(q, v, taus[i]), 1e-12)
        near(found.margins[i], grasp.check(q, v, taus[i]).margins, 1e-12)


def test_an_articulated_object_held_at_two_of_its_bodies():
    rng = np.random.default_rng(2)
    parents = [-1, 0, 1, 2, -1, 4, 5, 6, -1, 8]
    kinds = ["revolute", "universal", "spherical", "cylindrical"] * 2 + ["free", "revolute"]
    model = model_from_parents(parents, rng, kinds)
    q = model.random_configuration(rng)
    from random_grasps import contact

    touching = [
        contact(model, q, "SoftFinger", "b3", "b8", rng),
        contact(model, q, "Edge", "b7", "b9", rng),
    ]
    grasp = pp.grasping.Grasp(model, object=["b8", "b9"], contacts=touching)
    v, tau = admissible(grasp, q, rng), rng.standard_normal(model.nv)
    wanted, _ = kkt(grasp, q, v, tau)
    motion = pp.forward_dynamics(grasp, q, v, tau, return_multipliers=True)
    near(motion.vdot, wanted)
    load = grasp.object_load(q, v, motion.vdot)
    assert load.shape == (7,)
    near(grasp.grasp_map(q) @ motion.f + tau[grasp.object_rates], load, 1e-8)


def test_ends_on_the_wrong_side_are_refused():
    grasp = pp.examples.two_finger_grasp()
    first = grasp.contacts[0]
    swapped = grasping.Point(0.6, name="x", finger=first.object, object=first.finger)
    with pytest.raises(pp.errors.ModelError, match="not part of the object"):
        pp.grasping.Grasp(grasp.model, object="box", contacts=[swapped])
    with pytest.raises(pp.errors.ModelError, match="not a contact"):
        pp.grasping.Grasp(grasp.model, object="box",
                 contacts=[pp.constraints.Weld(name="w", a="box", b="left_tip")])  # fmt: skip
    with pytest.raises(pp.errors.ModelError, match="above 0"):
        grasping.Point(0, name="x", finger="left_tip", object="box")
    with pytest.raises(
        pp.errors.ModelError, match="has a z component, but a line of contact lies in the surface"
    ):
        grasping.Edge((0, 1, 1), name="x", finger="left_tip", object="box")


@pytest.mark.parametrize("kind", KINDS)
def test_contact_axes_are_those_of_the_objects_pose(kind):
    """A push along the outward normal of the finger's side arrives as a negative z force."""
    grasp, q, v, tau, plain = drawn(11, (kind, "Rigid"))
    f = plain.b9(tau[plain.arms])[0]
    wrench = grasp.contact_forces(q, v, tau)[0]
    near(plain.contact_axes[0] @ wrench[3:], f[3:6], 1e-8)
    near(plain.contact_axes[0] @ wrench[:3], f[:3], 1e-8)


# ---- contacts that slide -------------------------------------------------------------------------


def sliding_grasp(seed: int, kinds=("Frictionless", "SlidingFace", "Point")):
    """A random grasp of whose contacts some slide, displaced in their planes, and a state of it."""
    grasp, q, _ = random_grasp(seed, ("Point",) * len(kinds))
    rng = np.random.default_rng(seed)
    poses = dict(zip(grasp.model.body_names, pp.poses(grasp.model, q), strict=True))
    contacts = []
    for old, kind in zip(grasp.contacts, kinds, strict=True):
        (thing, X), (finger, Y) = old.object, old.finger
        X = X @ pp.Pose(translation=(*rng.uniform(-0.1, 0.1, 2), 0)) if kind != "Point" else X
        if kind == "SlidingFace":  # the planes coincide, turned about the normal
            turn = pp.Pose.from_axis_angle((0, 0, 1), rng.uniform(-2, 2)).rotation
            R = poses[finger][:3, :3].T @ poses[thing][:3, :3] @ X.rotation @ turn
            Y = pp.Pose(R, Y.translation)
        ends = {"name": old.name, "finger": (finger, Y), "object": (thing, X)}
        contacts.append(getattr(grasping, kind)(**ends))
    out = pp.grasping.Grasp(grasp.model, object=grasp.object, contacts=contacts)
    return out, q, admissible(out, q, rng), rng


@pytest.mark.parametrize("seed", seeds(9, 3))
def test_sliding_contacts_transmit_normal_forces_only(seed):
    grasp, q, v, rng = sliding_grasp(seed)
    assert grasp.n_rows == 1 + 3 + 3
    assert_allclose(grasp.residual(q), 0, atol=1e-12)
    tau = rng.standard_normal(grasp.model.nv)
    vdot, f = kkt(grasp, q, v, tau)
    motion = pp.forward_dynamics(grasp, q, v, tau, return_multipliers=True)
    near(motion.vdot, vdot, 1e-8)
    near(motion.f, f, 1e-8)
    wrench = grasp.contact_forces(q, v, tau)
    size = np.abs(wrench).max()
    assert np.abs(wrench[:2, 3:5]).max() < 1e-12 * size  # no force along the tangents
    assert np.abs(wrench[:2, 2]).max() < 1e-12 * size  # nor a moment about the normal
    assert np.abs(wrench[2, 3:5]).max() > 1e-3  # of the point with friction
    # the force of a frictionless point passes through the finger: its moment is arm × force
    poses = dict(zip(grasp.model.body_names, pp.poses(grasp.model, q), strict=True))
    (thing, X), (finger, Y) = grasp.contacts[0].object, grasp.contacts[0].finger
    there = np.linalg.inv(poses[thing] @ X.matrix) @ poses[finger] @ Y.matrix
    near(wrench[0, :3], np.cross(there[:3, 3], wrench[0, 3:]), 1e-9, scale=size)
    assert np.abs(there[:2, 3]).max() > 1e-3  # off the origin of the contact frame
    # Newton's equations of the object alone, in world axes
    at = poses[thing]
    loads = [poses[thing] @ c.object[1].matrix for c in grasp.contacts]
    total = np.zeros(6)
    for Z, w in zip(loads, wrench, strict=True):
        force = Z[:3, :3] @ w[3:]
        total[:3] += Z[:3, :3] @ w[:3] + np.cross(Z[:3, 3] - at[:3, 3], force)
        total[3:] += force
    needed = grasp.object_load(q, v, vdot) - tau[grasp.object_rates]
    near(np.r_[at[:3, :3].T @ total[:3], at[:3, :3].T @ total[3:]], needed, 1e-8, scale=size)


def test_inequalities_of_sliding_contacts():
    ends = {"name": "x", "finger": "left_tip", "object": "box"}
    pad = grasping.SlidingFace(radius=0.02, **ends)
    push = np.array([0.03, 0.04, 0, 0, 0, -10.0])
    assert [cone.name for cone in pad.cones()] == ["pressure", "centre of pressure"]
    assert_allclose([cone.margin(push) for cone in pad.cones()], [10, 0.2 - 0.05])
    assert grasping.Frictionless(**ends).cones()[0].margin(-push) == -10
    with pytest.raises(pp.errors.ModelError, match="radius=-1 must be"):
        grasping.SlidingFace(radius=-1, **ends)


def test_frictionless_fingers_hold_a_box_only_from_enough_sides():
    """Two opposed frictionless points cannot carry weight; with one below they can."""
    b = pp.ModelBuilder()
    size = (0.2, 0.1, 0.1)
    b.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia.box(size, mass=1.0))
    places = {"west": (-0.1, 0, 0), "east": (0.1, 0, 0), "below": (0.0, 0, -0.05)}
    contacts = []
    for name, at in places.items():
        b.add_body(name, joint=pp.joints.Translation(), placement=pp.Pose(translation=at),
                   inertia=pp.SpatialInertia.sphere(0.02, mass=0.2))  # fmt: skip
        outward = pp.Pose(pp.constraints.z_along(tuple(np.sign(at))).rotation, at)
        contacts.append(grasping.Frictionless(name=name, finger=name, object=("box", outward)))
    model = b.build()
    q, rest = model.neutral(), np.zeros(model.nv)
    whole = pp.grasping.Grasp(model, object="box", contacts=contacts)
    load = whole.object_load(q, rest, rest)
    f = whole.distribute(q, load, friction=True, margin=2.0)
    wrench = whole.wrenches(q, f)
    assert_allclose(wrench[:, 5], [-2, -2, -9.81], atol=1e-6)
    assert whole.check(q, rest, whole.efforts(q, rest, rest, f)).holds
    two = pp.grasping.Grasp(model, object="box", contacts=contacts[:2])
    with pytest.raises(pp.errors.InputError, match="cannot give the object this load"):
        two.distribute(q, load)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_derivatives_of_held_objects_agree_with_complex_steps(seed):
    """All contacts, the velocity row of the soft finger included."""
    grasp, q, v, tau, _ = drawn(seed, LOOSE[seed])
    model = grasp.model
    found = pp.forward_dynamics_derivatives(grasp, q, v, tau)
    program = pp.compile(forward_with_rows(None, False, False), grasp, backend="reference")
    h, eye = 1e-30, np.eye(model.nv)
    steps = [
        (q + 1j * h * model.qdot(q, eye), v, tau),
        (q, v + 1j * h * eye, tau),
        (q, v, tau + 1j * h * eye),
    ]
    for mine, state in zip(found, steps, strict=True):
        near(mine, np.imag(program(*state)[0]).T / h, 1e-8)


@pytest.mark.parametrize("batch", [(), (0,), (1,), (9,)], ids=str)
def test_grasps_without_contacts_and_without_one_sided_ones(batch):
    two = pp.examples.two_finger_grasp(friction=0.6)
    model = two.model
    q = np.broadcast_to(model.neutral(), (*batch, model.nq))
    rest = np.zeros(model.nv)
    firm = [
        grasping.Rigid(name=c.name, finger=c.finger, object=(c.object[0], c.object[1].translation))
        for c in two.contacts
    ]
    for grasp, count in ((pp.grasping.Grasp(model, object="box", contacts=[]), 0),
                         (pp.grasping.Grasp(model, object="box", contacts=firm), 2)):  # fmt: skip
        forces = grasp.contact_forces(q, rest, rest)
        assert forces.shape == (*batch, count, 6)
        found = grasp.check(q, rest, rest)
        assert np.all(found.holds) and found.broken == () and "one-sided" in str(found)
    assert repr(pp.grasping.Grasp(model, object="box", contacts=[])).endswith("0 contacts>")
