"""Mechanisms with flexible bodies: coordinates, ports, changed copies, and what is rejected."""

import pickle
import re

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.core.model.deflections import deflection

BEAM = pp.FlexibleInertia(
    2.0,
    (1, 0, 0),
    (0.01, 0.7, 0.7),
    S1=[[0, 0], [0.8, 0], [0, 0.8]],
    C0=[[0, 0], [0, -0.6], [0.6, 0]],
    modal_mass=np.eye(2),
    stiffness=np.diag([400.0, 900.0]),
    damping=0.1 * np.eye(2),
    ports=[
        pp.Port(
            "tip",
            position=(1, 0, 0),
            translation_modes=[[0, 0], [1, 0], [0, 1]],
            rotation_modes=np.eye(3)[:, :2],
        ),
        pp.Port("middle", position=(0.5, 0, 0), translation_modes=[[0, 0], [0.3, 0], [0, 0.3]]),
    ],
)
BALL = pp.SpatialInertia.sphere(0.1, mass=1.0)


def boom(**more):
    """A boom on a hinge with a ball on its tip."""
    builder = pp.ModelBuilder()
    builder.add_body("boom", joint=pp.joints.Revolute((0, 1, 0)), inertia=BEAM, limits=(-1, 1))
    builder.add_body(
        "ball", parent="boom", port="tip", joint=pp.joints.Spherical(), inertia=BALL, **more
    )
    builder.add_frame("eye", "boom", port="middle")
    return builder.build()


MODEL = boom()


def test_the_coordinates_of_a_joint_are_followed_by_those_of_the_modes():
    assert (MODEL.nq, MODEL.nv, MODEL.modes) == (7, 6, (2, 0, 0))
    assert MODEL.joints[0].coordinate_names == ("theta", "eta1", "eta2")
    assert MODEL.q_slices[0] == slice(0, 3)
    assert_array_equal(MODEL.neutral(), [0, 0, 0, 1, 0, 0, 0])
    assert_array_equal(MODEL.lower[:3], [-1, -np.inf, -np.inf])
    assert MODEL.flexible[0] is BEAM and MODEL.is_flexible
    assert not pp.examples.planar_arm(2).is_flexible
    assert "2 modes" in repr(MODEL)


def test_configurations_move_on_the_group_of_the_joint_and_add_modes():
    tree = random_flexible_tree(3, bodies=6, joints=("free", "planar", "fixed", "spherical"))
    model, rng = tree.build(), np.random.default_rng(1)
    q, dv = model.random_configuration(2, 4), rng.normal(size=(4, model.nv))
    moved = model.integrate(q, dv)
    assert_allclose(model.difference(q, moved), dv, atol=1e-13)
    for k, n in enumerate(model.modes):
        a, b = model.q_slices[k].stop, model.v_slices[k].stop
        assert_array_equal(moved[:, a - n : a], (q[:, a - n : a] + dv[:, b - n : b]))
    rate = (model.integrate(q[0], 1e-6 * dv[0]) - model.integrate(q[0], -1e-6 * dv[0])) / 2e-6
    assert_allclose(model.qdot(q[0], dv[0]), rate, atol=1e-8)


def test_random_configurations_bend_a_body_by_two_percent_of_its_length():
    q = MODEL.random_configuration(0, 500)
    for i in (1, 2):
        assert 0.018 < np.abs(q[:, i]).max() <= 0.02


def test_a_weld_on_a_port_stays_a_body_and_others_merge():
    builder = pp.ModelBuilder()
    builder.add_body("boom", inertia=BEAM)
    builder.add_body("load", parent="boom", port="tip", joint=pp.joints.Fixed(), inertia=BALL)
    builder.add_body("more", parent="load", joint=pp.joints.Fixed(), inertia=BALL)
    builder.add_body("next", parent="more", joint=pp.joints.Fixed(), inertia=BEAM)
    model = builder.build()
    assert model.body_names == ("boom", "load", "next")
    assert model.inertias[1].mass == 2.0
    assert [joint.nv for joint in model.joints] == [3, 0, 2]


def test_files_copies_and_keys():
    again = pp.Model.from_dict(MODEL.to_dict())
    assert again == MODEL and hash(again) == hash(MODEL)
    assert pickle.loads(pickle.dumps(MODEL)) == MODEL
    rigid = pp.examples.planar_arm(2)
    assert not {"port", "flexible"} & set(rigid.to_dict()["bodies"][0])
    other = MODEL.with_body("boom", inertia=pp.FlexibleInertia(
        2.0, (1, 0, 0), (0.01, 0.7, 0.7), modal_mass=[[1.0]], stiffness=[[9.0]],
        ports=[pp.Port(x, rotation_modes=np.zeros((3, 1))) for x in ("tip", "middle")],
    ))  # fmt: skip
    assert other.modes == (1, 0, 0) and other != MODEL


def test_undeformed_bodies_and_locked_joints():
    rigid = MODEL.with_rigid_bodies()
    assert not rigid.is_flexible and rigid.frames["eye"][1].translation[0] == 0.5
    assert_allclose(rigid.placements[1].translation, (1, 0, 0))
    full = pp.mass_matrix(MODEL, MODEL.neutral())
    joints = [0, 3, 4, 5]
    assert_allclose(
        pp.mass_matrix(rigid, rigid.neutral()), full[np.ix_(joints, joints)], atol=1e-14
    )
    locked = MODEL.with_locked("boom", MODEL.neutral())
    assert locked.nv == 5 and locked.modes[0] == 2


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: boom(placement=None), "placement"),
        (lambda: _attached(port=None), "pass its port.*port='tip'"),
        (lambda: _attached(port="tap"), "body 'ball': .*'boom' has no port 'tap'.*'tip'"),
        (lambda: _attached(parent="world", port="tip"), "not a flexible body and has no ports"),
        (lambda: _with_frame(), r"frame 'f' is on the flexible body 'boom'.*port='tip'"),
        (lambda: MODEL.with_shape("s", "boom", pp.shapes.Sphere(1.0)), "shape 's'.*flexible"),
        (lambda: MODEL.with_payload("boom", BALL), "depends on the port"),
        (lambda: MODEL.with_inertial_parameters(np.zeros((3, 10))), "'boom' deforms"),
        (lambda: pp.jacobian(MODEL, MODEL.neutral(), [("boom", (0.1, 0, 0))]), "add_frame"),
        (lambda: MODEL.with_body("boom", inertia=BALL), "not a flexible body and has no ports"),
        (lambda: MODEL.attach(boom(), "boom", prefix="b_"), "pass its port"),
    ],
)
def test_mistakes_are_explained(build, words):
    with pytest.raises(pp.errors.PhipsiError, match=re.compile(words, re.DOTALL)):
        build()


def _attached(parent="boom", **more):
    builder = pp.ModelBuilder()
    builder.add_body("boom", inertia=BEAM)
    builder.add_body("ball", parent=parent, inertia=BALL, **more)
    return builder.build()


def _with_frame():
    builder = pp.ModelBuilder()
    builder.add_body("boom", inertia=BEAM)
    builder.add_frame("f", "boom")
    return builder.build()


def test_the_body_frame_of_a_flexible_parent_does_not_move_with_its_modes():
    model = _attached(port="")
    q = np.array([0.3, 0.5, -0.2, 0.4])
    found = pp.poses(model, q)[1]
    assert_allclose(found, pp.poses(model, q * [1, 0, 0, 1])[1], atol=1e-15)
    on_tip = pp.poses(_attached(port="tip"), q)
    place = BEAM.port_pose("tip", q[1:3])
    assert_allclose((on_tip[0] @ place.matrix)[:3, 3], on_tip[1][:3, 3], atol=1e-15)


def test_values_cannot_be_given_and_operators_of_rigid_bodies_are_rejected():
    with pytest.raises(pp.errors.PhipsiError, match="only gravity, scalars"):
        pp.compile("V", MODEL, inputs=["P"])
    with pytest.raises(pp.errors.PhipsiError, match="known for rigid bodies only"):
        pp.compile("cross(V) V", MODEL)
    with pytest.raises(pp.errors.PhipsiError, match="known for rigid bodies only"):
        pp.compile("shift", MODEL)
    with pytest.raises(pp.errors.PhipsiError, match="known for rigid bodies only"):
        pp.compile("angular V", MODEL)
    drag = pp.custom.operator("drag", "motions -> forces", np.eye(6), symmetric=True)
    with pytest.raises(pp.errors.PhipsiError, match="known for rigid bodies only"):
        pp.compile(drag, MODEL)


def test_how_far_a_body_is_bent():
    """By displacements of its ports, as parts of their distance, and half of their turns."""
    beam = pp.FlexibleInertia.beam(0.5, 1.0, EI=(3.0, 1.0), modes=0)
    (tip,) = beam.ports
    for mode, share in (
        (0, tip.translation_modes[2, 0] / 0.5),
        (2, abs(tip.rotation_modes[1, 2]) / 2),
    ):
        eta = 0.1 * np.eye(4)[mode]
        assert deflection(beam, eta) == pytest.approx(0.1 * share)
    assert deflection(beam, np.zeros(4)) == 0
