"""A mechanism with loops is a model: the same attributes, and changed copies keep the loops."""

import pickle

import numpy as np
import pytest
from known_systems import pinned_arm
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp

ARM = pp.examples.planar_arm(3)
FOUR_BAR = pinned_arm(arm=ARM)
(PIN,) = FOUR_BAR.constraints
Q = FOUR_BAR.assemble([1.0, -1.0, -1.5])
REST = np.zeros(3)


def falls(mechanism):
    return pp.forward_dynamics(mechanism, Q, REST, REST)


def test_a_tree_is_a_mechanism_without_constraints():
    assert ARM.constraints == () and ARM.n_rows == 0 and ARM.row_names == ()
    assert ARM.model is ARM and FOUR_BAR.model is ARM
    assert isinstance(FOUR_BAR, pp.Model)


@pytest.mark.parametrize("name", [n for n in dir(pp.Model) if not n.startswith("_")])
def test_every_attribute_of_a_model_is_one_of_a_system(name):
    ours, theirs = getattr(FOUR_BAR, name), getattr(ARM, name)
    if callable(ours) or name in ("closures", "constraints", "n_rows", "row_names", "cache"):
        return
    assert_array_equal(ours, theirs) if isinstance(ours, np.ndarray) else None
    assert isinstance(ours, np.ndarray) or ours == theirs


def test_methods_about_coordinates():
    dv = np.array([0.1, -0.2, 0.3])
    assert_array_equal(FOUR_BAR.integrate(Q, dv), ARM.integrate(Q, dv))
    assert_array_equal(FOUR_BAR.difference(Q, Q + dv), ARM.difference(Q, Q + dv))
    assert_array_equal(FOUR_BAR.random_configuration(3), ARM.random_configuration(3))
    assert FOUR_BAR.joint("joint2") == ARM.joint("joint2")


HEAVY = pp.SpatialInertia.sphere(0.1, mass=5.0)
CHANGES = {
    "with_gravity": lambda m: m.with_gravity((0, -3.0, 0)),
    "with_payload": lambda m: m.with_payload("link2", HEAVY),
    "with_body": lambda m: m.with_body("link3", armature=0.3),
    "with_inertial_parameters": lambda m: (
        m.with_inertial_parameters(pp.identification.inertial_parameters(m) * 2)),
    "with_trees": lambda m: m.with_trees("link1"),
    "with_paths": lambda m: m.with_paths("link3"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_copies_keep_the_loops(change):
    changed = change(FOUR_BAR)
    assert changed.row_names == FOUR_BAR.row_names
    assert changed == pp.System(change(ARM), [PIN])
    assert_array_equal(falls(changed), falls(pp.System(change(ARM), [PIN])))
    if change is not CHANGES["with_trees"] and change is not CHANGES["with_paths"]:
        assert (
            np.abs(falls(changed) - falls(FOUR_BAR)).max() > 1e-3
            or change is CHANGES["with_inertial_parameters"]
        )


def test_a_copy_without_an_end_of_a_loop_is_rejected():
    with pytest.raises(pp.errors.ModelError, match="tip"):
        FOUR_BAR.with_paths("link1")


def test_another_tree_attached():
    both = FOUR_BAR.attach(pp.examples.planar_arm(1), prefix="other_")
    assert both.row_names == FOUR_BAR.row_names and both.nv == 4
    with pytest.raises(pp.errors.ModelError, match=r"(?s)'pin'.*other\.model"):
        ARM.attach(FOUR_BAR, prefix="other_")


def test_what_has_no_stored_form_is_not_lost():
    with pytest.raises(pp.errors.ModelError, match=r"system\.model\.to_dict"):
        FOUR_BAR.to_dict()


def test_systems_are_compared_by_content():
    assert pp.System(ARM, [PIN]) == FOUR_BAR != ARM and ARM != FOUR_BAR
    assert hash(pp.System(ARM, [PIN])) == hash(FOUR_BAR)
    near = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.4, 0, 0)))
    assert pp.System(ARM, [near]) != FOUR_BAR
    with pytest.raises(AttributeError, match="frozen"):
        FOUR_BAR.constraints = ()


@pytest.mark.parametrize(
    "system",
    [FOUR_BAR, pp.System(ARM, [PIN], secondary=["link3"]), pp.examples.two_finger_grasp()],
    ids=["system", "selection", "grasp"],
)
def test_pickled_systems_are_the_same(system):
    again = pickle.loads(pickle.dumps(system))
    assert again == system and type(again) is type(system)
    assert again.closures.selections == system.closures.selections


def test_a_changed_grasp_is_a_grasp():
    grasp = pp.examples.two_finger_grasp()
    light = grasp.with_gravity((0, 0, -1.62))
    assert isinstance(light, pp.grasping.Grasp) and light.contact_names == grasp.contact_names
    q, rest = grasp.neutral(), np.zeros(grasp.nv)
    assert_allclose(
        light.check(q, rest, rest).margins.shape, grasp.check(q, rest, rest).margins.shape
    )
