"""Bodies on the ports of flexible bodies that touch the ground, in steps.

The oracle is one step in dense arithmetic: ℳ + h C_e + h² K_e, the velocity of the point that
touches by differences of its place, and the laws of Signorini and Coulomb by projections.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.operators import mass_matrix

pytestmark = pytest.mark.usefixtures("interpreted")

RADIUS, FRICTION, H = 0.05, 0.3, 1e-3
DOWN = pp.Pose(translation=(0, 0, -0.2))


def _beam(EI, **more):
    return pp.FlexibleInertia.beam(
        1.0, 1.0, EI=(EI, np.inf), bending_axis=(0, 0, 1), modes=0, damping_ratio=0.02, **more
    )


def _arm(EI, friction=FRICTION, gravity=9.81, joint=None):
    """A beam on a hinge, or free, with a ball on the tip above a floor."""
    builder = pp.ModelBuilder(gravity=(0, 0, -gravity))
    builder.add_body("beam", joint=joint or pp.joints.Revolute((0, 1, 0)), inertia=_beam(EI))
    ball = pp.SpatialInertia.sphere(RADIUS, mass=0.2)
    builder.add_body("ball", parent="beam", port="tip", joint=pp.joints.Fixed(), inertia=ball)
    builder.add_shape("ball", "ball", pp.shapes.Sphere(RADIUS))
    model = builder.build()
    return pp.System(
        model,
        contacts=pp.Contacts(model, ground=DOWN, material=pp.Material(friction=friction)),
    )


def _elastic(model):
    """C_e and K_e as matrices between all rates."""
    C, K = np.zeros((2, model.nv, model.nv))
    for at, x in zip(model.v_slices, model.flexible, strict=True):
        if x is not None:
            rates = slice(at.stop - x.modes, at.stop)
            C[rates, rates], K[rates, rates] = x.damping, x.stiffness
    return C, K


def _lowest(model, q):
    """The rates of the lowest point of the ball, (3, nv), by differences of its place."""
    X = pp.poses(model, q)[-1]
    local = X[:3, :3].T @ [0, 0, -RADIUS]

    def place(dv):
        Y = pp.poses(model, model.integrate(q, dv))[-1]
        return Y[:3, :3] @ local + Y[:3, 3]

    steps = 1e-6 * np.eye(model.nv)
    return np.array([place(e) - place(-e) for e in steps]).T / 2e-6


def _impulse(W, b, gap):
    """p with p_n ⊥ u_n + gap/h and Coulomb's law: projections on the cone (De Saxcé's form)."""
    p, rho = np.zeros(3), 0.5 / np.linalg.norm(W, 2)
    for _ in range(20000):
        u = W @ p + b
        u[2] += gap / H + FRICTION * np.hypot(*u[:2])
        x = p - rho * u
        t = np.hypot(*x[:2])
        if t <= FRICTION * x[2]:
            new = x
        elif FRICTION * t <= -x[2]:
            new = np.zeros(3)
        else:
            n = (x[2] + FRICTION * t) / (1 + FRICTION**2)
            new = np.array([*(FRICTION * n * x[:2] / t), n])
        if np.abs(new - p).max() < 1e-15:
            break
        p = new
    return p


@pytest.mark.parametrize("EI", [5.0, 5e4])
def test_a_step_is_that_of_a_dense_oracle(EI):
    """A ball that slides on the floor: stiff modes too, for which explicit steps would explode."""
    system = _arm(EI)
    model = system.model
    q = np.array([0.0, 0.02 / np.sqrt(EI), -0.001 / np.sqrt(EI)])
    q[0] = np.arcsin(0.15) + 0.02  # then down until it touches
    for _ in range(30):
        gap = pp.contact_points(system, q).gap[0]
        q[0] += gap
    v = np.array([0.8, 0.3, -0.05])
    found = pp.contact_step(system, q, v, None, H)
    M, (C, K) = pp.mass_matrix(model, q), _elastic(model)
    whole = M + H * C + H * H * K
    load = -pp.bias_forces(model, q, v) - H * K @ v
    free = v + H * np.linalg.solve(whole, load)
    J = _lowest(model, q)
    p = _impulse(J @ np.linalg.solve(whole, J.T), J @ free, pp.contact_points(system, q).gap[0])
    assert_allclose(found.impulses[0, 3:], p, atol=1e-7)
    assert_allclose(found.v, free + np.linalg.solve(whole, J.T @ p), atol=1e-6)
    assert p[2] > 0.05 and np.hypot(*p[:2]) > 0.9 * FRICTION * p[2]  # it slides
    explicit = v - H * np.linalg.solve(M, pp.bias_forces(model, q, v))
    assert np.abs(explicit - free).max() > 1e-3  # the oracle of explicit steps is another one


def test_a_stiff_beam_is_a_rigid_one():
    """Steps converge to those of the undeformed bodies as 1/EI, impacts too."""
    rigid = _arm(1.0, friction=0.0).model.with_rigid_bodies()
    ground = pp.Contacts(rigid, ground=DOWN, material=pp.Material(friction=0.0))
    system = pp.System(rigid, contacts=ground)
    q, v, off = [0.12], [2.0], []
    for _ in range(30):
        step = pp.contact_step(system, q, v, None, 2e-3)
        q, v = step.q, step.v
    for EI in (1e6, 1e8):
        flexible = _arm(EI, friction=0.0)
        at, rates = np.array([0.12, 0, 0]), np.array([2.0, 0, 0])
        for _ in range(30):
            last = pp.contact_step(flexible, at, rates, None, 2e-3)
            at, rates = last.q, last.v
        off.append(abs(at[0] - q[0]))
    assert off[1] < 0.02 * off[0] and off[1] < 1e-6, off
    assert_allclose(last.impulses, step.impulses, atol=1e-5)
    assert step.impulses[0, 5] > 1e-3  # it lies on the floor
    reaction = last.impulses[0, 5] / 2e-3
    arm = 0.5 * 1.0 + 1.0 * 0.2
    assert_allclose(reaction, 9.81 * arm, rtol=1e-4)  # both moment arms have the factor cos θ


def test_momentum_and_energy_of_a_free_beam_that_hits_the_floor():
    """What the floor gives is the change of momentum; nothing adds energy."""
    system = _arm(20.0, friction=0.2, gravity=0.0, joint=pp.joints.Free())
    model = system.model
    q, v = model.neutral(), np.zeros(model.nv)
    turn = pp.Pose.from_axis_angle((0, 1, 0), 0.4)
    q[:4], q[4:7] = turn.quaternion, (0.1, 0.0, 0.29)
    v[:6] = 0.3, -0.2, 0.1, 0.4, 0.1, -1.5
    start, energies, bent, given = pp.momentum(model, q, v), [], 0.0, np.zeros(6)
    for _ in range(60):
        at = pp.contact_points(system, q).point_b[0]
        step = pp.contact_step(system, q, v, None, H)
        impulse = step.impulses[0, 3:]
        given += [*np.cross(at, impulse), *impulse]
        q, v = step.q, step.v
        stored = float(pp.elastic_energy(model, q))
        energies.append(pp.kinetic_energy(model, q, v) + stored)
        bent = max(bent, stored)
    assert given[5] > 0.3 and bent > 0.02  # it has hit, and vibrates
    off = pp.momentum(model, q, v) - start - given
    assert np.abs(off).max() < 0.02 * given[5], (off, given)  # of first order in the step
    assert np.diff(energies).max() < 1e-4 * energies[0]
    assert energies[-1] < 0.99 * energies[0]


def test_the_certificate_counts_elastic_forces():
    """Energy that is not accounted for falls with the step; without elastic work it would not."""
    system = _arm(20.0)
    off = {}
    for h in (2e-3, 5e-4):
        q, v, total, elastic = np.array([0.12, 0, 0]), np.array([1.0, 0.0, 0.0]), 0.0, 0.0
        for _ in range(round(0.03 / h)):
            step = pp.contact_step(system, q, v, None, h)
            total += float(step.certificate.balance)
            q, v = step.q, step.v
        off[h], elastic = abs(total), float(pp.elastic_energy(system.model, q))
    assert off[5e-4] < 0.4 * off[2e-3] and off[5e-4] < 0.1 * elastic, (off, elastic)


# ---- rotors that are given: joint damping and PD control taken implicitly


def test_the_inertia_of_rotors_can_be_given_with_modes():
    model = _arm(5.0).model
    q, more = np.array([0.3, 0.01, -0.002]), np.array([0.5, 0.2, 0.1])
    blocks = np.zeros((2, 3, 3))
    blocks[0] = np.diag(more)
    program = pp.compile(mass_matrix.inv, model, mode="dense", inputs=("Jr",))
    inverse = np.linalg.inv(pp.mass_matrix(model, q) + np.diag(more))
    assert_allclose(program(q, Jr=blocks), inverse, rtol=1e-10, atol=1e-12)
    with pytest.raises(pp.errors.InputError, match="only gravity, scalars and the inertia of rot"):
        pp.compile(mass_matrix.inv, model, inputs=("M",))
