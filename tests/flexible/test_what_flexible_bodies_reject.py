"""Flexible bodies in what is written for rigid ones: right, or rejected with the reason."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.operators import H, M, Riccati, a, c_J, eta, mass_matrix, v, vdot

pytestmark = pytest.mark.usefixtures("interpreted")

BEAM = pp.FlexibleInertia(
    1.0, (0.5, 0, 0), (0.01, 0.34, 0.34), S1=[[0], [0.3], [0]], C0=[[0], [0], [0.2]],
    modal_mass=[[0.25]], stiffness=[[50.0]],
    ports=[pp.Port("tip", position=(1, 0, 0), translation_modes=[[0], [1], [0]],
                   rotation_modes=[[0], [0], [1.4]])],
)  # fmt: skip


def _arm(mounted=False):
    """Hub, beam, load; the joints of the beam and the load on bodies without mass if mounted."""
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    rigid = pp.SpatialInertia.box((0.3, 0.2, 0.1), mass=1.0)
    builder.add_body("hub", joint_name="j1", inertia=rigid)
    beam, load = {"parent": "hub"}, {"parent": "beam", "port": "tip"}
    if mounted:
        builder.add_body("axle", joint_name="j2", **beam)
        builder.add_body("beam", parent="axle", joint=pp.joints.Fixed(), inertia=BEAM)
        builder.add_body("mount", joint=pp.joints.Fixed(), **load)
        builder.add_body("load", joint_name="j3", parent="mount", inertia=rigid)
    else:
        builder.add_body("beam", joint_name="j2", inertia=BEAM, **beam)
        builder.add_body("load", joint_name="j3", inertia=rigid, **load)
    return builder.build()


ARM = _arm()
Q, V = np.array([0.3, -0.4, 0.05, 0.5]), np.array([0.3, -0.2, 0.1, 0.4])


# ---- derivatives

KINETIC = v.T @ mass_matrix @ v
BY_Q = [KINETIC, mass_matrix, M @ a, Riccati().P, pp.operators.R]
ANYWHERE = [H, c_J, H @ M @ H.T @ v, M, M @ H.T @ v]


@pytest.mark.parametrize("expr", BY_Q, ids=str)
@pytest.mark.parametrize("mode", ["apply", "dense", "blocks"])
def test_derivatives_for_rigid_bodies(expr, mode):
    """Rejected with the call that is right."""
    change = pp.diff(expr, "q", along="dq")
    with pytest.raises(pp.errors.LoweringError, match=r"rigid bodies only(.|\n)*modes=True"):
        pp.compile(change, ARM, mode=mode)
    pp.compile(pp.diff(expr, "q", along="dq", modes=True), ARM, mode=mode)


@pytest.mark.parametrize("expr", ANYWHERE, ids=str)
def test_derivatives_without_a_part_that_knows_bodies_are_those_with_modes(expr):
    """M alone is not a constant: its derivative is right for all, never a silent zero."""
    change = pp.diff(expr, "q", along="dq")
    assert change is pp.diff(expr, "q", along="dq", modes=True)
    if "M" in str(expr):
        assert "Ṁ" in str(change)
    rigid = pp.evaluate_dense(
        change, ARM.with_rigid_bodies(), Q[[0, 1, 3]], V[[0, 1, 3]], dq=np.ones(3)
    )
    assert np.abs(rigid).max() < 1e-14


def test_a_derivative_that_cancels_is_still_rejected():
    still = pp.operators.cross(pp.operators.gravity) @ pp.operators.gravity
    with pytest.raises(pp.errors.LoweringError, match="rigid bodies only"):
        pp.compile(still, ARM)


def test_derivatives_that_are_right():
    """Elastic forces by q, and momenta by rates."""
    K = pp.compile(pp.diff(pp.operators.K_e @ eta, "q"), ARM, mode="dense")()
    assert_allclose(K, np.diag([0, 0, 50.0, 0]))
    found = pp.vjp(mass_matrix @ vdot, ARM, "vdot")(Q, V)
    assert_allclose(found, pp.mass_matrix(ARM, Q) @ V, atol=1e-12)


# ---- forces and laws by the name of a joint


def test_a_joint_force_leaves_the_modes_of_its_body_alone():
    for force in (pp.forces.JointSpring("j2", 5.0), pp.forces.JointDamper("j2", 5.0)):
        bound = force.bind(ARM)
        efforts = bound.efforts(pp.forces.State(ARM, 0.0, Q, V))
        assert np.flatnonzero(efforts).tolist() == [1]
    stop = pp.forces.JointLimit("j2", 100.0, lower=-0.1, upper=0.1).bind(ARM)
    assert stop._q.tolist() == stop._v.tolist() == [1]
    assert ARM.joint_coordinates("j2") == slice(1, 2) and ARM.q_slice("j2") == slice(1, 3)


def test_a_law_of_a_joint_is_a_spring_at_that_joint():
    @pp.law
    def spring(q):
        return {"tau": -5.0 * q}

    sim = pp.Simulator(ARM, [spring.on("j2")], 1e-3)
    run = sim.rollout(sim.initial_state(Q, V), steps=3)
    force = pp.forces.JointSpring("j2", 5.0)
    other = pp.simulate(ARM, Q, V, 3e-3, integrator="rk4", dt=1e-3, forces=force)
    assert_allclose(run.q[-1], other.q[-1], atol=1e-13)


def test_a_field_of_gravity():
    field = pp.forces.GravityField.inverse_square(10.0, (5, 5, 5))
    why = "does not support flexible bodies, such as 'beam'"
    with pytest.raises(pp.errors.InputError, match=why):
        pp.simulate(ARM, Q, V, 1e-3, forces=field)


# ---- couplings


@pytest.mark.parametrize(("joint", "fix"), [("j2", "add_body"), ("j3", "'beam', port=")])
def test_couplings_of_joints_on_flexible_bodies(joint, fix):
    pair = pp.constraints.Coupling(name="pair", joints=("j1", joint), coefficients=(1.0, 2.0))
    with pytest.raises(pp.errors.ModelError, match=fix):
        pp.System(ARM, [pair])


def test_couplings_with_bodies_without_mass_between():
    """As the error advises: the same mechanism, and rows that are the coefficients."""
    model = _arm(mounted=True)
    assert_allclose(pp.mass_matrix(model, Q), pp.mass_matrix(ARM, Q), atol=1e-12)
    pair = pp.constraints.Coupling(name="pair", joints=("j2", "j3"), coefficients=(1.0, 2.0))
    system = pp.System(model, [pair])
    q = system.assemble(Q)
    _, rates = system.project(q, V)
    found = pp.forward_dynamics(system, q, rates, V)
    row = np.array([0, 1, 0, 2.0])
    assert_allclose(system.jacobian(q), row[None], atol=1e-12)
    inertia, load = pp.mass_matrix(model, q), V - pp.bias_forces(model, q, rates)
    whole = np.block([[inertia, row[:, None]], [row[None], np.zeros((1, 1))]])
    assert_allclose(found, np.linalg.solve(whole, np.append(load, 0))[:4], rtol=1e-9, atol=1e-9)


# ---- values that are given


def test_what_is_for_rigid_bodies_says_so():
    with pytest.raises(pp.errors.PhipsiError, match=r"rigid bodies|flexible bodies"):
        pp.compile(M, ARM, inputs=("M",))
