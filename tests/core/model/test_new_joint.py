"""A joint from outside the library: one class with its formulas.

Turning a `Cam` by θ about z lifts the body by lift · (1 − cos θ) along it, so that its hinge map
changes with θ. Nothing in the library knows of it; it is built into a tree, compiled for both
backends, differentiated, simulated, rolled out in machine code, and locked.
"""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import random_inertia, random_pose

import phipsi as pp
from phipsi.core.model.joint import AdditiveJoint
from phipsi.core.model.scalar_linalg import from_columns, rotation_about
from phipsi.operators import H, M, V, mass_matrix, phi, tau, vdot

Z = (0, 0, 1)


class Cam(AdditiveJoint):
    """Rotation by θ about z, with the lift L (1 − cos θ): H* = [z; L sin θ z]."""

    __slots__ = ()
    kind = "cam"
    nq = nv = 1
    coordinate_names = ("theta",)

    def __init__(self, lift=0.1):
        self._set(_arguments={"lift": float(lift)}, params=(float(lift),))

    def transform(self, params, q, ops):
        return rotation_about(Z, q[0], ops), [0, 0, params[0] * (1 - ops.cos(q[0]))]

    def hinge_axes(self, params, q, ops):
        return from_columns([(*Z, 0, 0, params[0] * ops.sin(q[0]))])

    def hinge_axes_rate(self, params, q, v, ops):
        return from_columns([(0, 0, 0, 0, 0, params[0] * ops.cos(q[0]) * v[0])])


@pytest.fixture
def model(monkeypatch, tmp_path):
    """Cams between other joints, with a free base; a code cache of its own."""
    monkeypatch.setenv("PHIPSI_CACHE", str(tmp_path))
    rng = np.random.default_rng(3)
    builder = pp.ModelBuilder(gravity=(0.3, -2.0, -9.0))
    parents = {"base": None, "a": "base", "b": "a", "c": "b", "d": "a"}
    joints = [pp.joints.Free(), Cam(0.2), pp.joints.Revolute((1, 2, 0)), Cam(-0.3), Cam(0.1)]
    for (name, parent), joint in zip(parents.items(), joints, strict=True):
        builder.add_body(
            name, parent=parent or "world", joint=joint,
            placement=random_pose(rng), inertia=random_inertia(rng),
        )  # fmt: skip
    return builder.build()


def state(model, batch=()):
    rng = np.random.default_rng(1)
    q = model.random_configuration(rng, batch)
    return q, rng.standard_normal((*batch, model.nv)), rng.standard_normal((*batch, model.nv))


def complex_step(expr, model, q, v, u):
    return np.imag(pp.evaluate_dense(expr, model, q + 1e-30j * model.qdot(q, u), v)) / 1e-30


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize(
    "expr", [V, H @ phi @ M @ V, mass_matrix @ vdot, mass_matrix.inv @ tau], ids=str
)
def test_it_is_compiled(model, expr, backend):
    q, v, vdots = state(model, (9,))
    values = {"q": q, "v": v, "vdot": vdots, "tau": vdots}
    program = pp.compile(expr, model, backend=backend)
    assert program.backend == backend
    found = program(**{name: values[name] for name in program.inputs})
    for i in range(9):
        wanted = pp.evaluate_dense(expr, model, q[i], v[i], vdot=vdots[i], tau=vdots[i])
        assert_allclose(np.ravel(found[i]), np.ravel(wanted), rtol=0, atol=1e-9)


def test_velocities_are_those_of_the_poses(model):
    q, v, _ = state(model)
    poses = pp.poses(model, q)
    ahead = pp.poses(model, model.integrate(q, 1e-6 * v))
    behind = pp.poses(model, model.integrate(q, -1e-6 * v))
    rate = np.linalg.solve(poses, (ahead - behind) / 2e-6)
    found = pp.velocities(model, q, v)
    spin = [rate[:, 2, 1], rate[:, 0, 2], rate[:, 1, 0]]
    assert_allclose(found, np.column_stack([*spin, rate[:, :3, 3]]), atol=1e-7)


def test_it_is_differentiated(model):
    q, v, u = state(model)
    efforts, weights = H @ phi @ M @ V, np.linspace(-1, 1, model.nv)
    wanted = complex_step(efforts, model, q, v, u)
    along = pp.evaluate_dense(pp.diff(efforts, "q", along="dq"), model, q, v, dq=u)
    assert_allclose(along, wanted, atol=1e-9)
    assert_allclose(pp.compile(pp.diff(efforts, "q"), model)(q, v, u), wanted, atol=1e-9)
    by_q = pp.vjp(efforts, model, "q")(q, v, weights)
    assert_allclose(by_q @ u, weights @ wanted, atol=1e-9)


def test_it_moves(model):
    q, v, _ = state(model)
    run = pp.simulate(model, q, v, 0.5, rtol=1e-10, atol=1e-10)
    assert_allclose(run.energy, run.energy[0], rtol=0, atol=1e-6)
    steps = pp.rollout(model, q, v, np.zeros(model.nv), dt=0.5 / 400, steps=400)
    assert_allclose(steps[0][-1], run.q[-1], atol=1e-6)


def test_it_is_locked_and_pickled(model):
    q, _, _ = state(model)
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(pp.mass_matrix(again, q), pp.mass_matrix(model, q), rtol=1e-14)
    joint = model.joint_names[1]
    locked = model.with_locked([joint], q)
    rest = np.delete(np.arange(model.nv), model.v_slice(joint).start)
    found = pp.mass_matrix(locked, np.delete(q, model.q_slice(joint).start))
    assert_allclose(found, pp.mass_matrix(model, q)[np.ix_(rest, rest)], atol=1e-10)


class _Steeper(Cam):
    """A cam with another formula and the same name: the lift grows with the angle."""

    __slots__ = ()

    def transform(self, params, q, ops):
        return rotation_about(Z, q[0], ops), [0, 0, params[0] * q[0]]

    def hinge_axes(self, params, q, ops):
        return from_columns([(*Z, 0, 0, params[0])])

    def hinge_axes_rate(self, params, q, v, ops):
        return from_columns([(0, 0, 0, 0, 0, 0)])


def one_body(*joints):
    builder = pp.ModelBuilder()
    for i, joint in enumerate(joints):
        builder.add_body(
            f"body{i}", parent=f"body{i - 1}" if i else "world", joint=joint,
            inertia=pp.SpatialInertia.sphere(0.1, mass=2.0),
        )  # fmt: skip
    return builder.build()


@pytest.mark.parametrize(
    "joints",
    [
        lambda joint: (joint(0.2),),
        lambda joint: (pp.joints.Composite([pp.joints.Revolute((1, 0, 0)), joint(0.2)]),),
    ],
    ids=["alone", "in a composite"],
)
def test_classes_with_one_name_do_not_share_code(monkeypatch, tmp_path, joints):
    monkeypatch.setenv("PHIPSI_CACHE", str(tmp_path))
    for joint in (Cam, _Steeper, Cam):
        model = one_body(*joints(joint))
        q = np.linspace(0.7, 0.9, model.nq)
        assert_allclose(
            pp.mass_matrix(model, q), pp.evaluate_dense(mass_matrix, model, q), atol=1e-12
        )


def test_two_classes_with_one_name_in_a_model():
    model = one_body(Cam(0.2), _Steeper(0.3), Cam(0.4))
    q = np.array([0.7, 0.8, 0.9])
    assert_allclose(pp.mass_matrix(model, q), pp.evaluate_dense(mass_matrix, model, q), atol=1e-12)


def test_stored_code_of_other_processes_is_not_used(monkeypatch):
    joint = Cam(0.2)
    here = joint.formulas
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert joint.formulas != here
    assert pp.joints.Revolute().formulas == "revolute"


def test_proofs_need_its_degree(model):
    with pytest.raises(pp.errors.PhipsiError, match="Cam does not declare one.*\n.*degree"):
        pp.prove("H phi M phi* H* = mass_matrix", model)
    declared = type("Cam", (Cam,), {"__slots__": (), "degree": 7})
    small = one_body(declared(0.2), pp.joints.Revolute((1, 0, 0)))
    inverse = "(H phi M phi* H*)^-1 = (I - H psi K)* D^-1 (I - H psi K)"
    true, false = pp.prove(inverse, small), pp.prove(f"{inverse} + 1e-9 D^-1", small)
    assert true.holds and true.here.holds
    assert not false.holds and not false.here.holds


def test_param_kinds_must_fit():
    wrong = type("Cam", (Cam,), {"__slots__": (), "param_kinds": ("axis",)})
    with pytest.raises(pp.errors.PhipsiError, match="describes 3 numbers, but params has 1"):
        one_body(wrong(0.2)).joints[0].blocks_of_params()


def test_the_rate_of_its_axes_must_be_stated():
    class Forgetful(AdditiveJoint):
        kind, coordinate_names = "forgetful", ("theta",)
        transform, hinge_axes = Cam.transform, Cam.hinge_axes

    with pytest.raises(TypeError, match="hinge_axes_rate"):
        Forgetful()
