"""Attachments: data that a package of its own hangs on a mechanism, and that follows it.

The package is examples/magnets.py: an attachment, and a force that uses it.
"""

import importlib.util
import json
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.attached.file_metadata import FileMetadata, JointProperties
from phipsi.core.model.attachments import Attachments, known_keys
from phipsi.pages.scene import scene_description

_FILE = Path(__file__).parents[3] / "examples" / "magnets.py"
_SPEC = importlib.util.spec_from_file_location("magnets", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
magnets = importlib.util.module_from_spec(_SPEC)
sys.modules["magnets"] = magnets  # where pickle looks for its classes
_SPEC.loader.exec_module(magnets)
Magnet, Magnets = magnets.Magnet, magnets.Magnets

TILTED = pp.Pose.from_rpy((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
TWO = Magnets([Magnet("a", "link2", (1.0, 2.0, 3.0)), Magnet("b", "link3", (0, 0.5, 0), TILTED)])


def _arm(n: int = 3) -> pp.Model:
    return pp.examples.planar_arm(n).with_attachment(TWO)


def _same_place(model: pp.Model, name: str, before: pp.Model, q, q_before) -> None:
    """A magnet is where it was, in the world."""

    def pose(m, q, name):
        x = next(x for x in m.of(Magnets).records if x.name == name)
        return pp.poses(m, q, [x.body])[0] @ x.placement.matrix

    assert_allclose(pose(model, q, name), pose(before, q_before, name), atol=1e-14)


# ---- it is kept ----------------------------------------------------------------------------------


def test_models_have_what_is_hung_on_them():
    arm = pp.examples.planar_arm(3)
    assert arm.of(Magnets) == Magnets() and not arm.of(Magnets)
    assert _arm().of(Magnets) is TWO
    assert _arm() == _arm() and hash(_arm()) == hash(_arm()) and _arm() != arm
    assert _arm().with_attachment(Magnets()) == arm
    builder = pp.ModelBuilder()
    builder.add_body("link2")
    builder.add_attachment(Magnets([TWO.records[0]]))
    assert builder.build().of(Magnets).records == TWO.records[:1]


def test_copies_with_other_data_keep_it():
    arm = _arm()
    changed = [
        arm.with_gravity((0, 0, 0)),
        arm.with_body("link2", armature=0.1),
        arm.with_payload("link3", pp.SpatialInertia.sphere(0.1, mass=1.0)),
        arm.with_inertial_parameters(pp.identification.inertial_parameters(arm)),
        arm.with_rotor("motor", joint="joint2", ratio=10, moment=1e-3),
        arm.with_shape("skin", "link2", pp.shapes.Sphere(0.1)),
        arm.with_rigid_bodies(),
        pp.System(arm, [pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b="world")]),
    ]
    assert all(model.of(Magnets) == TWO for model in changed)


def test_it_goes_through_json_and_pickle():
    arm = _arm().with_shape("skin", "link2", pp.shapes.Sphere(0.1))
    data = arm.to_dict()
    assert [*data][-2:] == ["shapes", "magnets"]
    assert data["magnets"][0] == {
        "name": "a", "body": "link2", "moment": [1.0, 2.0, 3.0],
        "placement": {"rotation": np.eye(3).tolist(), "translation": [0.0, 0.0, 0.0]},
    }  # fmt: skip
    assert pp.Model.from_dict(json.loads(json.dumps(data))) == arm
    assert pickle.loads(pickle.dumps(arm)) == arm
    del data["magnets"][0]["placement"]
    assert pp.Model.from_dict(data) == arm


# ---- it follows the mechanism --------------------------------------------------------------------


def test_locked_joints_carry_it_to_the_body_that_is_left():
    arm, q = _arm(), np.array([0.3, -0.5, 0.7])
    locked = arm.with_locked(["joint2", "joint3"], q)
    assert {x.body for x in locked.of(Magnets).records} == {"link1"}
    for name in "ab":
        _same_place(locked, name, arm, q[:1], q)
    still = arm.with_locked(arm.joint_names, q)
    assert {x.body for x in still.of(Magnets).records} == {"world"}


def test_it_goes_with_its_bodies():
    assert _arm().with_paths("link2").of(Magnets).records == TWO.records[:1]
    assert not _arm().with_paths("link1").of(Magnets)


def test_mechanisms_are_attached_with_it():
    q, X = np.array([0.3, -0.5, 0.7]), pp.Pose(translation=(0.1, 0, 0))
    bar = Magnets([Magnet("bar", "world", (1.0, 0, 0), TILTED), *TWO.records])
    other = _arm().with_attachment(bar)
    both = _arm().attach(other, at="tip", placement=X, prefix="b_")
    names = [(x.name, x.body) for x in both.of(Magnets).records]
    assert names == [
        ("a", "link2"), ("b", "link3"), ("b_bar", "link3"), ("b_a", "b_link2"), ("b_b", "b_link3"),
    ]  # fmt: skip
    tip = pp.poses(both, np.zeros(6), ["tip"])[0]
    pad = both.of(Magnets).records[2]
    found = pp.poses(both, np.zeros(6), ["link3"])[0] @ pad.placement.matrix
    assert_allclose(found, tip @ X.matrix @ TILTED.matrix, atol=1e-14)
    _same_place(both, "a", _arm(), np.concatenate([q, q]), q)
    only_there = pp.examples.planar_arm(1).attach(_arm(), at="tip", prefix="b_")
    assert [x.name for x in only_there.of(Magnets).records] == ["b_a", "b_b"]


# ---- its force -----------------------------------------------------------------------------------


def test_a_compass_swings_as_it_should():
    moment, inertia, field = 0.5, 1e-6, 5e-5
    builder = pp.ModelBuilder()
    builder.add_body("needle", inertia=pp.SpatialInertia(2e-3, (0, 0, 0), inertia))
    builder.add_attachment(Magnets([Magnet("north", "needle", (moment, 0, 0))]))
    compass = pp.Model.from_dict(json.loads(json.dumps(builder.build().to_dict())))
    forces, period = [magnets.MagneticField((field, 0, 0))], 2 * np.pi / 5.0
    assert_allclose(np.sqrt(moment * field / inertia), 5.0)
    exact = dict(forces=forces, rtol=1e-11, atol=1e-13)
    run = pp.simulate(compass, [1e-4], [0.0], period, **exact)
    assert_allclose([run.q[-1, 0], run.v[-1, 0]], [1e-4, 0.0], atol=1e-10)
    wide = pp.simulate(compass, [2.0], [0.0], 10.0, **exact)
    assert_allclose(wide.energy, -moment * field * np.cos(2.0), rtol=1e-9)
    simulator = pp.Simulator(compass, forces, 1e-3)
    found = simulator.rollout(simulator.initial_state([2.0], [0.0]), steps=1000)
    stepped = pp.simulate(compass, [2.0], [0.0], 1.0, integrator="rk4", dt=1e-3, forces=forces)
    assert_allclose(found.q[-1], stepped.q[-1], rtol=1e-12)


def test_its_force_is_minus_the_gradient_of_its_energy():
    arm, field = _arm(), magnets.MagneticField((1.0, 2.0, 3.0))
    q, rest, h = np.array([0.3, -0.5, 0.7]), np.zeros(3), 1e-6
    free = arm.with_gravity((0, 0, 0))
    run = pp.simulate(free, q, rest, 1e-9, forces=[field], integrator="rk4", dt=1e-9)
    effort = pp.mass_matrix(arm, q) @ (run.v[-1] / 1e-9)

    def energy(q):
        still = pp.simulate(free, q, rest, 0.0, forces=[field])
        return still.energy[0]

    slopes = [(energy(q + h * e) - energy(q - h * e)) / (2 * h) for e in np.eye(3)]
    assert_allclose(effort, -np.array(slopes), rtol=1e-6)


# ---- its picture ---------------------------------------------------------------------------------


def test_pages_draw_it_beside_the_bodies():
    bare, seen = (scene_description(m)["solids"] for m in (pp.examples.planar_arm(3), _arm()))
    red, blue, *others = [x for x in seen if x not in bare and x["body"] >= 0]  # no pedestal
    assert len(others) == 2 and len(seen) == len(bare) + 4
    assert red["body"] == 1 and red["mesh"] == "sphere" and red["scale"] == [0.01] * 3
    along = 0.01 * np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    assert_allclose([red["position"], blue["position"]], [along, -along], rtol=1e-4)
    assert others[0]["body"] == 2
    tip = TILTED.translation + 0.01 * TILTED.rotation[:, 1]
    assert_allclose(others[0]["position"], tip, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [("cone", (1.0,), "Picture: kind"), ("box", (1.0, 2.0), "a box has 3 numbers as its size")],
)
def test_pictures_are_checked(kind, size, message):
    with pytest.raises(pp.errors.ModelError, match=message):
        pp.attachments.Picture("link1", kind, size)


# ---- what is wrong is told -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Magnet("c", "link9", (1, 0, 0)), r"magnet 'c' is on 'link9', which is not a body"),
        (Magnet("c", "tip", (1, 0, 0)), "'tip' is a frame; use the body it is on"),
        (Magnet("a", "link1", (1, 0, 0)), "two magnets are named 'a'"),
        (Magnet("c", "link1", (1, 0)), r"moment=\(1, 0\) must be three finite numbers"),
    ],
)
def test_models_check_it(record, message):
    with pytest.raises(pp.errors.ModelError, match=message):
        _arm().with_attachment(TWO.with_record(record))
    builder = pp.ModelBuilder()
    for name in ("link1", "link2", "link3"):
        builder.add_body(name)
    builder.add_frame("tip", "link3")
    builder.add_attachment(TWO.with_record(record))
    with pytest.raises(pp.errors.ModelError, match=message):
        builder.build()


def test_names_of_attached_mechanisms_must_differ():
    other = _arm().with_trees("link1")
    with pytest.raises(pp.errors.ModelError, match="both mechanisms have a body or frame"):
        _arm().attach(other)
    one = pp.ModelBuilder()
    one.add_body("single", joint_name="hinge")
    alone = one.build().with_attachment(Magnets([Magnet("a", "single", (1, 0, 0))]))
    with pytest.raises(pp.errors.ModelError, match="both mechanisms have a magnet named 'a'"):
        _arm().attach(alone)


def test_points_of_flexible_bodies_are_ports():
    builder = pp.ModelBuilder()
    builder.add_body("boom", inertia=pp.FlexibleInertia.beam(1.0, 1.0, 100.0, modes=1))
    builder.add_attachment(Magnets([Magnet("a", "boom", (1, 0, 0))]))
    with pytest.raises(pp.errors.ModelError, match=r"(?s)on a port.*port='tip'.*magnet on 'pad'"):
        builder.build()


def test_records_are_checked():
    with pytest.raises(pp.errors.ModelError, match="magnet must be a Magnet, not 3"):
        Magnets([3])
    with pytest.raises(pp.errors.ModelError, match="a magnet's name must be a non-empty string"):
        Magnets([Magnet("", "link1", (1, 0, 0))])
    with pytest.raises(AttributeError, match="frozen"):
        TWO.records = ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["magnets"][0].update(color=1), "magnet 'a' has an unknown field 'color'"),
        (lambda d: d["magnets"][0].pop("moment"), "magnet 'a' lacks the field 'moment'"),
        (lambda d: d.update(magnets=3), "'magnets' must be a list, not 3"),
        (
            lambda d: d.update(magnet=[]),
            r"(?s)Did you mean 'magnets'.*registered: import",
        ),
    ],
)
def test_wrong_files_are_told(change, message):
    data = _arm().to_dict()
    change(data)
    with pytest.raises(pp.errors.ParseError, match=message):
        pp.Model.from_dict(data)


def test_classes_are_registered_once_and_completely():
    class Unknown(pp.attachments.Attachment):
        keys = ("unknown",)

    with pytest.raises(pp.errors.ModelError, match=r"(?s)not .*registered.*attachments\.register"):
        Attachments(Unknown())
    with pytest.raises(pp.errors.ModelError, match=r"(?s)no fields in a stored model.*keys = \("):
        pp.attachments.register(pp.attachments.Attachment)
    with pytest.raises(pp.errors.ModelError, match="derived from Attachment, not 3"):
        pp.attachments.register(3)  # pyright: ignore[reportArgumentType]

    @dataclass(frozen=True)
    class Paint:
        name: str
        body: str

    for taken, whose in (("magnets", "magnets:Magnets"), ("bodies", "the mechanism itself"),
                         ("shapes", "BodyShapes")):  # fmt: skip

        class Taken(pp.attachments.BodyRecords):
            keys, record = (taken,), Paint

        with pytest.raises(pp.errors.ModelError, match=f"'{taken}' of stored models.*{whose}"):
            pp.attachments.register(Taken)
    assert "unknown" not in known_keys()


# ---- those of the library ------------------------------------------------------------------------

_CORE = """
import sys
import phipsi as pp

builder = pp.ModelBuilder()
builder.add_body("a", inertia=pp.SpatialInertia(1.0, (0, 0, 0), 1.0))
builder.add_body("b", parent="a", joint=pp.joints.Fixed())
builder.add_frame("f", "b")
one = builder.build()
two = one.attach(one, at="f", prefix="x")
two.with_locked("a", {"a": 0.0}).with_paths("xa").with_payload("xa", pp.SpatialInertia(1.0))
two.with_inertial_parameters([[1.0, 0, 0, 0, 1, 1, 1, 0, 0, 0]] * 2)
assert pp.Model.from_dict(two.to_dict()) == two
assert not (two.name or two.couplings or two.joint_properties or two.geometry)
assert not (two.shapes or two.rotors)
print(*(x.rpartition(".")[2] for x in sys.modules if x.startswith("phipsi.core.model.")))
"""


def test_a_mechanism_without_them_loads_none_of_their_modules():
    ran = subprocess.run([sys.executable, "-c", _CORE], capture_output=True, text=True, check=True)
    features = re.compile("attached_(shapes|rotors)|shape|rotor|extras|contact|pair|capabilities")
    loaded = ran.stdout.split()
    assert "weld_fixed_joints" in loaded
    assert not [x for x in loaded if features.match(x)]


def test_attachments_of_the_library_are_found_too():
    arm = _arm().with_attachment(
        FileMetadata(name="arm", joint_properties=(JointProperties("joint1", effort=5.0),))
    )
    assert arm.name == "arm" and arm.joint_properties["joint1"].effort == 5.0
    assert not arm.with_locked(["joint1"], [0.0, 0.0, 0.0]).joint_properties
    assert arm.with_attachment(replace(arm.of(FileMetadata), name="")).name == ""
    assert [type(x).__name__ for x in arm.description.attachments] == ["FileMetadata", "Magnets"]
    assert arm.with_rotor("m", joint="joint1", ratio=5, moment=1.0).to_dict().keys() >= {
        "rotors", "magnets", "name", "joint_properties",
    }  # fmt: skip
