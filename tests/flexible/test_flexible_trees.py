"""Random trees of rigid and flexible bodies against the dense oracle: all joints, ports, welds."""

import re
from functools import cache

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import ModelError
from phipsi.operators import C_e, J, K_e, Lambda, M, V, eta, logdet, mass_matrix, total, v

pytestmark = pytest.mark.usefixtures("interpreted")

SEEDS = range(8)
TIGHT = {"rtol": 1e-11, "atol": 1e-11}


class Case:
    """A random tree, its model, and a state."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tree = random_flexible_tree(rng, bodies=3 + seed % 4, armature=seed % 2 == 0)
        self.model = self.tree.build()
        self.q, self.v = self.tree.random_state(rng)
        self.vdot, self.tau = rng.normal(size=(2, self.model.nv))
        self.mass = self.tree.mass_matrix(self.q)


@cache
def case(seed: int) -> Case:
    return Case(seed)


@pytest.fixture(params=SEEDS)
def one(request):
    return case(request.param)


def test_the_trees_have_all_that_matters():
    models = [case(seed).model for seed in SEEDS]
    assert all(model.is_flexible for model in models)
    hinges = [joint for model in models for joint in model.joints]
    kinds = {getattr(joint, "joint", joint).kind.partition("(")[0] for joint in hinges}
    assert len(kinds) >= 9 and "fixed" in kinds
    assert sum(bool(getattr(joint, "port_modes", 0)) for joint in hinges) >= 8


def test_equations_of_motion(one):
    tree, model, q, v_, tau = one.tree, one.model, one.q, one.v, one.tau
    assert_allclose(pp.mass_matrix(model, q), one.mass, **TIGHT)
    assert_allclose(pp.mass_matrix_inverse(model, q), np.linalg.inv(one.mass), **TIGHT)
    found = pp.inverse_dynamics(model, q, v_, one.vdot)
    assert_allclose(found, tree.inverse_dynamics(q, v_, one.vdot), **TIGHT)
    assert_allclose(pp.bias_forces(model, q, v_), tree.bias_forces(q, v_), **TIGHT)
    assert_allclose(pp.gravity_forces(model, q), tree.gravity_forces(q), **TIGHT)
    acceleration = pp.forward_dynamics(model, q, v_, tau)
    assert_allclose(acceleration, tree.forward_dynamics(q, v_, tau), **TIGHT)
    assert_allclose(
        pp.diagonal_dynamics.log_det_mass_matrix(model, q), np.linalg.slogdet(one.mass)[1], **TIGHT
    )


def test_kinematics(one):
    model, q, v_ = one.model, one.q, one.v
    motions = one.tree.motions(q)
    for k, (R, p, _, jacobian) in enumerate(motions):
        assert_allclose(pp.poses(model, q)[k, :3], np.column_stack([R, p]), **TIGHT)
        assert_allclose(pp.velocities(model, q, v_)[k], (jacobian @ v_)[:6], **TIGHT)
    names = [model.body_names[-1], model.body_names[0]]
    turned = [motions[k] for k in (model.n_bodies - 1, 0)]
    jacobian = np.vstack([np.kron(np.eye(2), R) @ J_k[:6] for R, _, _, J_k in turned])
    found = pp.compile(J, model, mode="dense", points=names)(q)
    assert_allclose(found, jacobian, **TIGHT)
    admittance = pp.compile(Lambda, model, mode="dense", points=names)(q)
    assert_allclose(admittance, jacobian @ np.linalg.inv(one.mass) @ jacobian.T, **TIGHT)
    step = 1e-6 * model.nv
    ahead, behind = (model.integrate(q, s * step * v_) for s in (1, -1))
    rate = [
        pp.jacobian(model, x, names) @ (v_ + s * step * one.vdot)
        for x, s in ((ahead, 1), (behind, -1))
    ]
    moving = pp.accelerations(model, q, v_, one.vdot, names, axes="world", classical=True)
    assert_allclose(moving.ravel(), (rate[0] - rate[1]) / (2 * step), atol=1e-6)


def test_energies_and_momentum(one):
    tree, model, q, v_ = one.tree, one.model, one.q, one.v
    assert_allclose(pp.kinetic_energy(model, q, v_), tree.kinetic_energy(q, v_), **TIGHT)
    assert_allclose(pp.potential_energy(model, q), tree.potential_energy(q), **TIGHT)
    assert_allclose(pp.momentum(model, q, v_), tree.momentum(q, v_), **TIGHT)
    energy = pp.compile(eta.T @ K_e @ eta / 2, model)(q)
    assert_allclose(energy, tree.elastic_energy(q), **TIGHT)
    mass = sum(x.points.masses.sum() for x in tree.links)
    momentum = pp.centroidal.com_jacobian(model, q) @ v_ * mass
    assert_allclose(momentum, tree.momentum(q, v_)[3:], **TIGHT)


def test_stiffness_and_damping_are_operators(one):
    model, q, v_ = one.model, one.q, one.v
    forces = pp.compile(K_e @ eta + C_e @ v, model)(q, v_)
    assert_allclose(forces, one.tree.elastic_forces(q, v_), **TIGHT)
    rigid = pp.examples.planar_arm(2)
    assert not pp.compile(K_e, rigid, mode="dense")().any()


def test_external_forces_have_no_modal_part(one):
    model, q, v_ = one.model, one.q, one.v
    f = np.random.default_rng(5).normal(size=(model.n_bodies, 6))
    forces = sum(J_k[:6].T @ f[k] for k, (*_, J_k) in enumerate(one.tree.motions(q)))
    found = pp.inverse_dynamics(model, q, v_, one.vdot, f)
    assert_allclose(found, pp.inverse_dynamics(model, q, v_, one.vdot) - forces, **TIGHT)


def test_reactions_carry_what_is_outboard(one):
    """H f = tau − Jr vdot, and the modes take the rest."""
    model, q, v_ = one.model, one.q, one.v
    f = pp.joint_reactions(model, q, v_, one.tau).joints
    vdot = pp.forward_dynamics(model, q, v_, one.tau)
    for k, hinge in enumerate(model.joints):
        joint = getattr(hinge, "joint", hinge)
        i, j = model.q_slices[k].start, model.v_slices[k].start
        axes = np.array(joint.hinge_axes(joint.params, q[i : i + joint.nq], pp_ops()), dtype=float)
        at = slice(j, j + joint.nv)
        expected = one.tau[at] - model.armature[at] * vdot[at]
        assert_allclose(axes.reshape(6, joint.nv).T @ f[k], expected, **TIGHT)


def pp_ops():
    from phipsi.core.spatial.number_kinds import ARRAYS

    return ARRAYS


def test_batches_and_complex_steps(one):
    model, q, v_ = one.model, one.q, one.v
    many = np.stack([q, model.neutral(), q])
    assert_allclose(pp.mass_matrix(model, many)[2], one.mass, **TIGHT)
    along = q + 1e-30j * model.qdot(q, v_)
    program = pp.compile((v.T @ mass_matrix @ v) / 2, model)
    rate = program(along, v_).imag / 1e-30
    bias = one.tree.inverse_dynamics(q, v_, np.zeros(model.nv), elastic=False)
    power = v_ @ (bias - one.tree.gravity_forces(q))
    assert_allclose(rate, power, rtol=1e-9, atol=1e-9)


def test_a_wrong_invariant_is_noticed():
    """The comparison can fail: with C1 transposed, inverse dynamics differs."""
    tree = random_flexible_tree(5, bodies=1, joints=("free",), modes=(3,))
    model = tree.build()
    body = model.flexible[0]
    names = ("S1", "S2", "J1", "J2", "C0", "modal_mass", "stiffness", "damping")
    wrong = pp.FlexibleInertia(
        body.mass, body.first_moment, body.rotational_inertia,
        C1=body.C1.swapaxes(1, 2), **{name: getattr(body, name) for name in names},
    )  # fmt: skip
    q, v_ = tree.random_state(np.random.default_rng(0))
    vdot = np.zeros(model.nv)
    expected = tree.inverse_dynamics(q, v_, vdot)
    other = model.with_body("b0", inertia=wrong, moments="warn")
    assert np.abs(pp.inverse_dynamics(other, q, v_, vdot) - expected).max() > 1e-3


@pytest.mark.parametrize("mode", ["apply", "dense", "blocks"])
def test_operators_in_every_mode(mode):
    one = case(1)
    model, q = one.model, one.q
    program = pp.compile(M, model, mode=mode)
    if mode == "apply":
        x = np.zeros((model.n_bodies, 6))
        x[0, 3] = 1.0
        found = program(q, x)
        assert found.shape == (model.n_bodies, 6)
        assert_allclose(found[0, 3], model.inertias[0].mass)
        return
    found = program(q)
    start = 0
    for k, n in enumerate(model.modes):
        eta_k = q[model.q_slices[k]][len(q[model.q_slices[k]]) - n :]
        body = model.flexible[k]
        expected = model.inertia_matrices[k] if body is None else body.inertia_at(eta_k)
        size = slice(start, start + 6 + n)
        block = found[size, size] if mode == "dense" else found[k, : 6 + n, : 6 + n]
        assert_allclose(block, expected, **TIGHT)
        start += 6 + n
    assert found.shape[-1] == (start if mode == "dense" else 6 + max(model.modes))


def test_log_det_and_total():
    one = case(2)
    assert_allclose(
        pp.compile(logdet(mass_matrix), one.model)(one.q), np.linalg.slogdet(one.mass)[1], **TIGHT
    )
    found = pp.compile(total(M @ V), one.model)(one.q, one.v)
    assert_allclose(found, one.tree.momentum(one.q, one.v), **TIGHT)


def test_a_port_without_a_frame_is_named_with_the_line_that_gives_it_one():
    builder = pp.ModelBuilder()
    boom = pp.FlexibleInertia.beam(10.0, 1.2, 1.4e4, modes=2)
    builder.add_body("boom", joint=pp.joints.Revolute((0, 0, 1)), inertia=boom)
    bare = builder.build()
    line = "builder.add_frame('tip', 'boom', port='tip')"
    with pytest.raises(ModelError, match=re.escape(line)):
        pp.poses(bare, bare.neutral(), ["tip"])
    exec(line, {"builder": builder})
    model = builder.build()
    assert pp.poses(model, model.neutral(), ["tip"])[0, 0, 3] == 10.0
    with pytest.raises(ModelError, match="which is not a body or frame"):
        pp.poses(bare, bare.neutral(), ["tipp"])
    assert "M(k) = M(k)" not in str(pp.explain("M", model))
