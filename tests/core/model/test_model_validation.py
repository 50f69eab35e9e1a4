"""Mechanisms that cannot be: the error names the body or joint, says why, and how to mend it."""

import copy
import warnings

import numpy as np
import pytest

from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joints import Fixed, Planar, Revolute, Spherical, Universal
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.errors import (
    InputError,
    ModelError,
    ParseError,
    PhipsiError,
    PhipsiWarning,
    SpaceError,
    did_you_mean,
)


def build(*bodies, frames=(), **options):
    builder = ModelBuilder()
    for name, arguments in bodies:
        builder.add_body(name, **arguments)
    for name, body in frames:
        builder.add_frame(name, body=body)
    return builder.build(**options)


def box(*moments, **keywords):
    return {"inertia": SpatialInertia(1.0, moment_about_com_B=moments, **keywords)}


@pytest.mark.parametrize(
    ("bodies", "frames", "says"),
    [
        ([("a", {}), ("a", {})], [], ["two bodies are named 'a'", "name='a_2'"]),
        (
            [("a", {"joint_name": "j"}), ("b", {"joint_name": "j"})],
            [],
            ["two joints are named 'j'", "joint_name='j_2'"],
        ),
        ([("a", {})], [("f", "a"), ("f", "a")], ["two frames are named 'f'"]),
        ([("a", {})], [("a", "a")], ["'a' is both a body and a frame", "'a_frame'"]),
        ([("world", {})], [], ["named 'world'", "inertial frame", "'base'"]),
        ([("a", {"joint_name": "world"})], [], ["the joint of body 'a'", "'world'"]),
        ([("a", {})], [("world", "a")], ["a frame is named 'world'"]),
        (
            [("elbow", {}), ("hand", {"parent": "elbwo"})],
            [],
            ["'hand'", "parent 'elbwo'", "Did you mean 'elbow'?"],
        ),
        (
            [("a", {}), ("b", {"parent": "f"})],
            [("f", "a")],
            ["'b'", "'f' is a frame", "placement=frame_pose @ placement"],
        ),
        ([("arm", {})], [("tip", "amr")], ["frame 'tip'", "'amr'", "Did you mean 'arm'?"]),
        (
            [("r", {}), ("a", {"parent": "c"}), ("b", {"parent": "a"}), ("c", {"parent": "b"})],
            [],
            ["cycle", "'a' → 'c' → 'b' → 'a'", "add_body('a', parent=\"world\""],
        ),
        ([("a", {"parent": "a"})], [], ["cycle", "'a' → 'a'"]),
        (
            [("a", {"inertia": SpatialInertia(-2.0)})],
            [],
            ["body 'a'", "mass -2 kg is negative", "mass=2"],
        ),
        ([("a", {"inertia": SpatialInertia(np.nan)})], [], ["body 'a'", "mass", "not finite"]),
        (
            [("a", {"inertia": SpatialInertia(1, (0, np.inf, 0))})],
            [],
            ["body 'a'", "com_B", "not finite"],
        ),
        (
            [("a", {"inertia": SpatialInertia(1, (0, 1e200, 0))})],
            [],
            ["body 'a'", "1e+200 m", "units kg and m"],
        ),
        ([("a", box(1, np.nan, 1))], [], ["body 'a'", "moment of inertia", "not finite"]),
        (
            [("a", {"armature": -0.1})],
            [],
            ["joint 'a' (revolute, body 'a')", "armature -0.1", "armature=0.1"],
        ),
        ([("a", {"damping": np.nan})], [], ["joint 'a'", "damping", "not finite"]),
        ([("a", {"damping": -1})], [], ["joint 'a'", "damping -1 is negative", "energy"]),
        (
            [("a", {"limits": (2, -1)})],
            [],
            ["joint 'a'", "lower limit 2", "upper limit -1", "limits=(-1, 2)"],
        ),
        ([("a", {"limits": (1, 1)})], [], ["joint 'a'", "joint=Fixed()"]),
        ([("a", {"limits": (np.nan, 1)})], [], ["joint 'a'", "NaN", "±inf"]),
        (
            [("a", {}), ("forearm", box(0.01, 0.02, 0.04))],
            [],
            [
                "body 'forearm'",
                "(0.01, 0.02, 0.04) kg·m²",
                "triangle inequality (0.01 + 0.02 < 0.04)",
                "moment_about_origin_B=",
                'builder.build(inertia="warn")',
            ],
        ),
        ([("a", box(-1, 1, 1))], [], ["body 'a'", "not all ≥ 0"]),
        (
            [("a", {"inertia": SpatialInertia(1, (0, 0, 1), moment_about_origin_B=0.5)})],
            [],
            ["body 'a'", "not all ≥ 0", "moment_about_com_B="],
        ),
    ],
)
def test_refused(bodies, frames, says):
    with pytest.raises(ModelError) as caught:
        build(*bodies, frames=frames)
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"joint": Revolute}, ["body 'a'", "joint=Revolute()"]),
        ({"joint": "revolute"}, ["body 'a'", "must be a Joint", "Revolute(axis=(0, 0, 1))"]),
        ({"placement": (0, 0, 1)}, ["body 'a'", "Pose(translation="]),
        ({"inertia": 3.0}, ["body 'a'", "SpatialInertia(mass="]),
        ({"parent": None}, ["parent of body 'a'", "non-empty string"]),
        (
            {"joint": Universal(), "armature": (1, 2, 3)},
            ["joint 'a' (universal)", "one number or 2"],
        ),
        ({"damping": "much"}, ["joint 'a'", "damping", "'much'"]),
        ({"joint": Spherical(), "limits": (-1, 1)}, ["joint 'a' (spherical)", "quaternion"]),
        ({"limits": 1.5}, ["joint 'a'", "(lower, upper)", "limits=(-1.5, 1.5)"]),
        ({"joint": Planar(), "limits": ((0, 0), (1, 1))}, ["joint 'a' (planar)", "or 3"]),
    ],
)
def test_wrong_kinds_of_arguments(arguments, says):
    with pytest.raises(ModelError) as caught:
        ModelBuilder().add_body("a", **arguments)
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Pose(np.diag([1, 1, -1])), "det R = -1"),
        (lambda: Pose(2 * np.eye(3)), "not a rotation"),
        (lambda: Pose(np.eye(3) + 1e-7), "not a rotation"),
        (lambda: Pose((1, 1, 0, 0)), "length 1.41421356.*unit quaternion"),
        (lambda: Pose((0, 0, 1)), "shape \\(3,\\).*roll, pitch and yaw"),
        (lambda: Pose("up"), "3×3 matrix or a quaternion"),
        (lambda: Pose(np.full((3, 3), np.nan)), "not finite"),
        (lambda: Pose(translation=(0, np.inf, 0)), "not finite"),
        (lambda: Pose(translation=(0, 0)), "three numbers"),
        (lambda: SpatialInertia(1, (0, 0, 0), 1, moment_about_origin_B=1), "give .* once"),
        (lambda: SpatialInertia("1,5"), "mass must be a number in kg, not '1,5'"),
        (lambda: SpatialInertia(1, (0, 0)), "com_B must be three numbers"),
        (lambda: SpatialInertia(1, (0, 0, 0), (1, 2)), "scalar, three diagonal entries"),
        (lambda: SpatialInertia(1, (0, 0, 0), np.arange(9).reshape(3, 3)), "not symmetric"),
        (lambda: SpatialInertia.from_parameters(np.ones(9)), "10 numbers"),
        (lambda: SpatialInertia.from_parameters([0, 1] + [0] * 8), "no mass centre"),
        (lambda: ModelBuilder(gravity=9.81), "gravity must be three numbers"),
        (lambda: ModelBuilder(gravity=(0, 0, np.nan)), "gravity .* not finite"),
        (lambda: ModelBuilder().add_body(""), "non-empty string"),
        (lambda: ModelBuilder().add_frame("f", body="b", placement=1), "frame 'f'.*Pose"),
        (
            lambda: build(("a", {}), inertia="ignore"),
            "inertia='ignore' is not one of 'error'",
        ),
    ],
)
def test_impossible_parts(make, says):
    with pytest.raises(ModelError, match=f"(?s){says}"):
        make()


def test_warn_gives_one_warning_for_all_bodies():
    bad = [(f"b{i}", box(1, 1, 3)) for i in range(12)]
    with pytest.warns(PhipsiWarning) as caught:
        model = build(*bad, inertia="warn")
    assert len(caught) == 1 and caught[0].filename == __file__
    text = str(caught[0].message)
    assert "'b0'" in text and "'b9'" in text and "and 2 more bodies" in text
    assert model.n_bodies == 12
    assert model.with_body("b3", damping=1.0).n_bodies == 12  # other bodies are not judged again
    with pytest.warns(PhipsiWarning):
        assert Model.from_dict(model.to_dict()) == model
    with pytest.raises(ModelError, match="'b0'"):
        Model.from_dict(model.to_dict(), inertia="error")


def test_limiting_moments_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = build(
            ("thin_rod", box(0.1, 0.1, 0.0)),
            ("thin_plate", box(0.1, 0.2, 0.1 + 0.2)),
            ("point", {"inertia": SpatialInertia(0.3, (0.1, 0.2, 0.7))}),
            (
                "point_about_origin",
                {
                    "inertia": SpatialInertia(
                        0.3,
                        (0.1, 0.2, 0.7),
                        moment_about_origin_B=SpatialInertia(
                            0.3, (0.1, 0.2, 0.7)
                        ).moment_about_origin_B,
                    )
                },
            ),
            ("massless", {}),
        )
    assert model.n_bodies == 5


def test_moments_of_welded_bodies_are_judged_too():
    with pytest.raises(ModelError, match="'plate'"):
        build(("arm", box(1, 1, 1)), ("plate", {"parent": "arm", "joint": Fixed(), **box(0, 0, 1)}))


def test_lookups_explain():
    model = build(
        ("arm", {"joint_name": "shoulder"}),
        ("flange", {"parent": "arm", "joint": Fixed()}),
        ("plinth", {"joint": Fixed()}),
    )
    cases = [
        (lambda: model.body_index("amr"), "no body 'amr'. Did you mean 'arm'?"),
        (lambda: model.body("flange"), "fixed in body 'arm'"),
        (lambda: model.body("plinth"), "fixed in the world"),
        (lambda: model.body("world"), "inertial frame"),
        (lambda: model.q_slice("arm"), "'arm' is a body; its joint is named 'shoulder'"),
        (lambda: model.joint("flange"), "'flange' is welded"),
        (lambda: model.v_slice("sholder"), "Did you mean 'shoulder'?"),
        (lambda: model.resolve_point("flnge"), "Did you mean 'flange'?"),
        (lambda: model.resolve_point(("arm", (0, 1))), "offset of a point on 'arm'"),
        (lambda: model.resolve_point(("arm", (0, 1, np.nan))), "not finite"),
        (lambda: model.resolve_point(3), "(name, offset)"),  # pyright: ignore
    ]
    for call, says in cases:
        with pytest.raises(ModelError) as caught:
            call()
        assert says in str(caught.value)


def test_documents_that_are_no_models():
    good = build(("arm", {"limits": (-1, 1)}), frames=[("tip", "arm")]).to_dict()

    def changed(edit):
        data = copy.deepcopy(good)
        edit(data)
        return data

    cases = [
        ({}, "not a phipsi model"),
        (changed(lambda d: d.update(version=99)), "version 99"),
        (changed(lambda d: d.pop("gravity")), "lacks the field 'gravity'"),
        (changed(lambda d: d.update(bodies={})), "'bodies' must be a list"),
        (changed(lambda d: d["bodies"][0].update(mas=1)), "body 'arm' has an unknown field 'mas'"),
        (changed(lambda d: d["bodies"].append(3)), "a body must be an object"),
        (
            changed(lambda d: d["bodies"][0]["joint"].update(type="Revolut")),
            "Did you mean 'Revolute'?",
        ),
        (changed(lambda d: d["bodies"][0]["joint"].update(pitch=1)), "Revolute does not take"),
        (changed(lambda d: d["bodies"][0].update(joint="Revolute")), 'with a "type"'),
        (changed(lambda d: d["bodies"][0].update(limits=[1])), "limits of body 'arm'"),
        (changed(lambda d: d["frames"][0].pop("body")), "frame 'tip' lacks the field 'body'"),
    ]
    for data, says in cases:
        with pytest.raises(ParseError) as caught:
            Model.from_dict(data)
        assert says in str(caught.value)
    with pytest.raises(ModelError, match="mass -1"):
        Model.from_dict(changed(lambda d: d["bodies"][0]["inertia"].update(mass=-1)))


def test_error_classes_are_also_the_builtin_ones():
    for error, builtin in ((ModelError, ValueError), (InputError, ValueError),
                           (ParseError, ValueError), (SpaceError, TypeError)):  # fmt: skip
        assert issubclass(error, builtin) and issubclass(error, PhipsiError)


def test_suggestions():
    assert did_you_mean("elbwo", ["elbow", "wrist"]) == "Did you mean 'elbow'?"
    assert did_you_mean("x", []) == "There are none yet."
    assert did_you_mean("x", ["elbow", "wrist"]) == "Known names: 'elbow', 'wrist'."
    assert "(20 in all)" in did_you_mean("x", [f"name{i}" for i in range(20)])
