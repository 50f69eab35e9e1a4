"""Rotors of several joints, as in differentials and belts: equal to bodies, or refused."""

import numpy as np
import pytest
from amounts import seeds
from geared_trees import Explicit, belted_chain, differential_tree, with_rotor_body
from numpy.testing import assert_allclose
from random_models import random_state as state

import phipsi as pp
from phipsi.algorithms.constrained.stages import ArticulatedCache
from phipsi.errors import InputError, ModelError

LINK = pp.SpatialInertia(1.0, (0.1, 0, 0.2), (0.1, 0.2, 0.25))
TURN = ((0.8, -0.6, 0), (0.6, 0.8, 0), (0, 0, 1))
PAIR = ((8, 5), (8, -5))


def wrist(**rotor):
    """A forearm that turns, a pitch and a roll; axes of both at right angles."""
    builder = pp.ModelBuilder()
    builder.add_body("fore", joint=pp.joints.Revolute((0.6, 0.8, 0)), inertia=LINK)
    builder.add_body("pitch", parent="fore", joint=pp.joints.Revolute((0, 1, 0)), inertia=LINK)
    builder.add_body("roll", parent="pitch", joint=pp.joints.Revolute((1, 0, 0)), inertia=LINK)
    if rotor:
        builder.add_rotor("motor", **{"joint": ("pitch", "roll"), "moment": 1e-3, **rotor})
    return builder


def assert_equal_to_bodies(model, bodies, seed):
    q, v, vdot = state(model, seed)
    M, tau = bodies.mass_matrix(q), bodies.efforts(q, v, vdot)
    assert_allclose(pp.mass_matrix(model, q), M, atol=1e-11 * np.abs(M).max())
    assert_allclose(pp.inverse_dynamics(model, q, v, vdot), tau, atol=1e-11 * np.abs(tau).max())
    assert_allclose(M @ pp.forward_dynamics(model, q, v, tau), M @ vdot, atol=1e-9)
    assert_allclose(pp.kinetic_energy(model, q, v), 0.5 * v @ M @ v, rtol=1e-11)


@pytest.mark.parametrize("seed", seeds(12))
def test_pairs_of_equal_rotors_on_any_two_joints(seed):
    assert_equal_to_bodies(*differential_tree(seed, bodies=3 + seed % 4), seed)


@pytest.mark.parametrize("seed", seeds(12))
def test_rotors_of_two_parallel_joints_in_a_row_over_a_body_that_never_turns_about_them(seed):
    model, bodies = belted_chain(seed, bodies=3 + seed % 3, rotors=1 + seed % 3)
    assert_equal_to_bodies(model, bodies, seed)
    q, v, _ = state(model, seed)
    with pytest.raises(InputError, match="momentum needs .* of rotor 'rotor[012]'"):
        pp.momentum(model, q, v)


@pytest.mark.parametrize(
    ("joint", "u", "on"),
    [
        (pp.joints.Prismatic((1, 0, 0)), (1, 0, 0), "parent"),  # a ball screw on a column
        (pp.joints.Prismatic((0, 0, 1)), (0.6, 0.8, 0), "child"),
        (pp.joints.Revolute((1, 0, 0)), (0, 1, 0), "parent"),  # a bevel gear
        (pp.joints.Revolute((0, 0, 1)), (0.6, 0, 0.8), "parent"),
        (pp.joints.Revolute((0, 0, -1)), (0.6, 0, 0.8), "child"),
    ],
)
def test_a_rotor_has_no_effect_about_axes_about_which_its_carrier_never_turns(joint, u, on):
    builder, z = pp.ModelBuilder(), pp.joints.Revolute((0, 0, 1))
    builder.add_body("column", joint=z, inertia=LINK)
    builder.add_body("arm", parent="column", joint=z, inertia=LINK,
                     placement=pp.Pose(TURN, (0.5, 0, 0)))  # fmt: skip
    builder.add_body("tool", parent="arm", joint=joint, inertia=LINK)
    tree, u = builder.build(), np.array(u)
    rotor = pp.SpatialInertia(0.2, (0.1, 0, 0.2), 1e-3)
    model = tree.with_rotor("m", joint="tool", ratio=7, moment=1e-3, axis=u, on=on, inertia=rotor)
    full = with_rotor_body(tree, "m", "arm" if on == "parent" else "tool", u, rotor)
    bodies = Explicit(full, model, {"m": {"tool": 7.0}})
    assert_equal_to_bodies(model, bodies, 0)
    q, v, _ = state(model)
    with pytest.raises(InputError, match="joint_reactions needs .* of rotor 'm'"):
        pp.joint_reactions(model, q, v, v)
    tilted = tree.with_body("arm", placement=pp.Pose(((0, 0, 1), (1, 0, 0), (0, 1, 0))))
    assert not model.has_more_rows
    assert tilted.with_rotor("m", joint="tool", ratio=7, moment=1e-3, axis=u, on=on).has_more_rows


@pytest.mark.parametrize("seed", seeds(4))
def test_momentum_and_reactions_of_a_flying_differential(seed):
    model, bodies = differential_tree(seed, bodies=5, flying=True)
    q, v, vdot = state(model, seed)
    B, whole = bodies.B, bodies.q(q)
    assert model.rotors
    assert_allclose(pp.momentum(model, q, v), pp.momentum(bodies.model, whole, B @ v), atol=1e-12)
    tau = pp.inverse_dynamics(model, q, v, vdot)
    found = pp.joint_reactions(model, q, v, tau).joints
    assert_allclose(found, bodies.reactions(q, v, vdot), atol=1e-9)


def test_a_differential_is_two_rotors_of_one_joint_and_armature_of_the_other():
    model = wrist(ratio=PAIR).build()
    plain = wrist().build().with_body("roll", armature=2 * 25e-3)
    other = plain.with_rotor("a", joint="pitch", ratio=8, moment=2e-3)
    args = state(model)
    tau = pp.inverse_dynamics(other, *args)
    assert_allclose(pp.inverse_dynamics(model, *args), tau, atol=1e-13)
    # the same one by one, in any order; a ratio of the wrong sign is not the same
    builder = wrist(ratio=PAIR[0])
    builder.add_rotor("second", joint=["roll", "pitch"], ratio=(-5, 8), moment=1e-3,
                      axis=(0, 1, 0), on="parent")  # fmt: skip
    with pytest.raises(ModelError, match="'motor' on 'fore' turns also with joint 'roll'"):
        builder.build()  # it sits on the parent of roll, where the other does not
    builder = wrist(ratio=PAIR[0])
    builder.add_rotor("second", joint=("pitch", "roll"), ratio=PAIR[1], moment=1e-3)
    assert_allclose(pp.inverse_dynamics(builder.build(), *args), tau, atol=1e-13)
    wrong = pp.inverse_dynamics(wrist(ratio=((-8, 5), (-8, -5))).build(), *args)
    assert np.abs(wrong - tau).max() > 1e-3
    assert pp.Model.from_dict(model.to_dict()) == model


def test_locking_joints_of_a_rotor():
    model = wrist(ratio=PAIR).build()
    q = state(model)[0]
    held = model.with_locked("roll", q)
    assert [r.joints for r in held.rotors] == [("pitch",)]
    M = pp.mass_matrix(model, q)
    assert_allclose(pp.mass_matrix(held, q[:2]), M[:2, :2], atol=1e-13)
    assert model.with_locked(["pitch", "roll"], q).rotors == ()
    assert model.with_paths("pitch").rotors == held.rotors
    with pytest.raises(
        ModelError, match="is mounted on the parent of joint 'pitch', which no longer"
    ):
        model.with_locked("pitch", q)
    hung = model.attach(model, at="roll", prefix="b_")
    assert hung.rotors[1].joints == ("b_pitch", "b_roll")


def test_parts_of_a_mechanism_with_the_rotors_of_all():
    # what is kept of bodies, when other joints of their rotors move
    for model in (belted_chain(2, 4, 2)[0], differential_tree(1, 5)[0], wrist(ratio=PAIR).build()):
        kept, q = ArticulatedCache(), state(model)[0]
        program = pp.compile((pp.operators.P, pp.operators.D, pp.operators.G), model, mode="blocks")
        for i in (0, 0, 1, 2):
            q = q + 0.3 * (np.arange(model.nq) == i)
            for x, y in zip(kept.articulated(model, q)[0], program(q), strict=True):
                assert_allclose(x, y, atol=1e-12 * np.abs(y).max())
    # one tree of two that share motors
    model = wrist().build()
    two = model.attach(model, prefix="b_")
    two = two.with_rotor("m", joint=("pitch", "b_roll"), ratio=PAIR, moment=1e-3)
    q = state(two)[0]
    M = pp.mass_matrix(two, q)
    assert_allclose(pp.mass_matrix(two.with_trees("fore"), q[:3]), M[:3, :3], atol=1e-13)
    assert_allclose(pp.mass_matrix(two.with_trees("b_fore"), q[3:]), M[3:, 3:], atol=1e-13)
    assert two.with_trees("b_fore").rotors[0].on == "world"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratio": (8, 5)}, "'motor' on 'fore' turns also with joint 'roll'"),
        ({"ratio": (8, 5), "on": "world"}, "couples the joints 'pitch' and 'roll' by 0.04 kg·m²"),
        ({"ratio": ((8, 5), (8, -4))}, "'motor' on 'fore' turns also with joint 'roll'"),
        ({"ratio": 8}, "ratio must be 2 numbers, one for each joint, or rows, not 8"),
        ({"ratio": (8, 5, 3)}, "ratio must be 2 numbers"),
        ({"ratio": (8, 0)}, r"ratio=\(8, 0\) must be finite and not 0"),
        ({"ratio": (8, np.nan)}, "must be finite"),
        ({"ratio": PAIR, "joint": ("pitch", "pitch")}, "or different names"),
        ({"ratio": PAIR, "joint": ("pitch", 3)}, "or different names"),
        ({"ratio": PAIR, "joint": ("pitch", "rol")}, "'rol', which is not a joint"),
        ({"ratio": PAIR, "moment": 0.12}, r"'fore' carries 'motor', whose .* \(0.24 kg·m²"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    with pytest.raises(ModelError, match=message):
        wrist(**change).build()


@pytest.mark.parametrize("ratio", [(8, 5), ((8, 5), (7, -3))])
def test_advice_for_a_rotor_of_several_joints_works(ratio):
    with pytest.raises(ModelError) as caught:
        wrist(ratio=ratio).build()
    lines = [x.strip() for x in str(caught.value).splitlines() if x.startswith("    ")]
    scope = {"pp": pp, "builder": wrist()}
    exec("\n".join(lines), scope)
    system, rows = scope["system"], np.reshape(ratio, (-1, 2))
    q, v = np.zeros(3 + len(rows)), np.zeros(3 + len(rows))
    B = np.zeros((3 + len(rows), 3))
    order = [system.model.v_slice(x).start for x in ("fore", "pitch", "roll")]
    B[order] = np.eye(3)
    for i, row in enumerate(rows, 1):
        name = "motor" if len(rows) == 1 else f"motor{i}"
        B[system.model.v_slice(name), 1:] = row
    v = B @ [0.5, -1.0, 2.0]
    vdot = pp.forward_dynamics(system, q, v, np.zeros(len(q)))
    assert_allclose(vdot, B @ vdot[order], atol=1e-10)
    tau = B.T @ pp.inverse_dynamics(system.model, q, v, vdot)
    assert_allclose(tau, 0, atol=1e-10)
