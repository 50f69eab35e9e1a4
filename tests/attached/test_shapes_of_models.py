"""Shapes of models: what is rejected, and that changed copies keep shapes where they belong."""

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

import phipsi as pp
from phipsi.attached.file_metadata import FileMetadata, LinkShape as FileShape
from phipsi.attached.shapes import KINDS
from phipsi.contact.pair_slots import SLOTS
from phipsi.errors import InputError, ModelError, ParseError, PhipsiWarning

S = pp.shapes
FREE = pp.joints.Free()
ONE = pp.SpatialInertia.sphere(0.1, mass=1.0)
CUBE = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
FACES = np.array([[0, 4, 1], [1, 4, 5], [2, 3, 6], [3, 7, 6], [0, 1, 2], [1, 3, 2], [4, 6, 5],
                  [5, 6, 7], [0, 2, 4], [2, 6, 4], [1, 5, 3], [3, 5, 7]])  # fmt: skip


def outward(points, faces):
    """The same triangles counterclockwise seen from outside, of a convex solid about 0."""
    a, b, c = (points[faces[:, i]] for i in range(3))
    turned = np.einsum("ij,ij->i", np.cross(b - a, c - a), a) < 0
    return np.where(turned[:, None], faces[:, ::-1], faces)


def chain(*shapes):
    """Bodies b0, b1, … one on the other by free joints, each with a shape s0, s1, …."""
    builder = pp.ModelBuilder()
    for i, shape in enumerate(shapes):
        parent = f"b{i - 1}" if i else "world"
        builder.add_body(f"b{i}", parent=parent, joint=FREE, inertia=ONE)
        builder.add_shape(f"s{i}", f"b{i}", shape)
    return builder.build()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: S.Sphere(0.0), r"Sphere: radius=0.0: 0 m must be above 0"),
        (lambda: S.Sphere(-1), r"Sphere: radius=-1: -1 m must be above 0. For example radius=1"),
        (lambda: S.Capsule(0.1, math.nan), "Capsule: length=nan: nan m is not finite"),
        (lambda: S.Cylinder(math.inf, 1), "Cylinder: radius=inf: inf m is not finite"),
        (lambda: S.Box((1, 2)), r"Box: size must be 3 numbers in m, not \(1, 2\)"),
        (lambda: S.Box((1, 2, 0)), r"Box: size=\(1, 2, 0\): 0 m must be above 0"),
        (lambda: S.Ellipsoid("abc"), "Ellipsoid: radii must be 3 numbers"),
        (lambda: S.ConvexMesh(np.zeros((3, 3))), r"at least 4 points .* the shape is \(3, 3\)"),
        (lambda: S.ConvexMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]), "lie in one plane"),
        (lambda: S.ConvexMesh([*CUBE, [0, 0, np.nan]]), r"vertices\[8\]\[2\] = nan is not finite"),
        (lambda: S.ConvexMesh(CUBE, [[0, 1, 8]]), "0 to 8, but there are 8, numbered from 0"),
        (lambda: S.ConvexMesh(CUBE, [[0.0, 1, 2]]), r"integers \(m, 3\)"),
        (lambda: S.ConvexMesh(CUBE, outward(CUBE, FACES)[:, ::-1]), "inside out"),
        (lambda: S.ConvexMesh([*CUBE, [0, 0, 2]], outward(CUBE, FACES)),
         r"(?s)concave: vertex 8 stands 1 m out of.*ConvexMesh\(vertices\).*coacd.run_coacd"),
        (lambda: S.HeightField(np.zeros((2, 5)), 1), r"at least 3 by 3, .* shape is \(2, 5\)"),
        (lambda: S.HeightField(np.full((3, 3), np.nan), 1), r"heights\[0\]\[0\] = nan is not"),
        (lambda: S.HeightField(np.zeros((3, 3)), 0), "HeightField: spacing=.* must be above 0"),
        (lambda: pp.Material(-0.1), "friction=-0.1 is negative"),
        (lambda: pp.Material("x"), "friction='x' is not a number"),
        (lambda: pp.Material(math.inf), "friction=inf is not finite"),
        (lambda: pp.Material(restitution=1.5), "restitution=1.5 is above 1"),
        (lambda: pp.Material(stiffness=0), "stiffness must be above 0"),
        (lambda: pp.Material(damping=3), r"pp.Material\(stiffness=1e5, damping=3\)"),
        (lambda: pp.Material(torsional_friction=-1), "torsional_friction=-1 is negative"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_rejected(make, said):
    with pytest.raises(ModelError, match=said):
        make()


def test_good_meshes():
    faces = outward(CUBE, FACES)
    assert S.ConvexMesh(CUBE, faces).numbers == S.ConvexMesh(CUBE).numbers
    assert hash(S.ConvexMesh(CUBE, faces)) == hash(S.ConvexMesh(CUBE.tolist(), faces.tolist()))


def test_shapes_that_cannot_be_attached():
    builder = pp.ModelBuilder()
    builder.add_body("hand", joint=FREE, inertia=ONE)
    for arguments, said in [
        (("x", "hand", S.Sphere), "shape is the class Sphere"),
        (("x", "hand", 3), "shape must be a Shape, not 3"),
        (("", "hand", S.Sphere(1)), "a shape's name must be a non-empty string"),
        (("x", "hand", S.Sphere(1), 5), "placement must be a Pose"),
    ]:
        with pytest.raises(ModelError, match=said):
            builder.add_shape(*arguments)
    with pytest.raises(ModelError, match="material must be a Material, not 0.5"):
        builder.add_shape("x", "hand", S.Sphere(1), material=0.5)
    with pytest.raises(ModelError, match="mask=-1 must be bits"):
        builder.add_shape("x", "hand", S.Sphere(1), mask=-1)
    builder.add_shape("x", "hnd", S.Sphere(1))
    with pytest.raises(
        ModelError, match="shape 'x' is on 'hnd', which is not a body. Did you mean"
    ):
        builder.build()


def test_names_of_shapes_differ():
    builder = pp.ModelBuilder()
    builder.add_body("hand", joint=FREE, inertia=ONE)
    for _ in range(2):
        builder.add_shape("x", "hand", S.Sphere(1))
    with pytest.raises(ModelError, match="two shapes are named 'x'"):
        builder.build()


# ---- changed copies ------------------------------------------------------------------------------


def arm_with_shapes():
    builder = pp.ModelBuilder()
    at = pp.Pose.from_rpy((0.1, 0.2, 0.3), (0.3, 0.1, 0.2))
    builder.add_body("upper", joint=pp.joints.Revolute(axis=(0, 1, 0)), inertia=ONE)
    builder.add_body("fore", parent="upper", placement=at, inertia=ONE)
    builder.add_body("tool", parent="fore", joint=pp.joints.Fixed(), placement=at, inertia=ONE)
    builder.add_shape("tip", "tool", S.Sphere(0.05), at, material=pp.Material(0.7), group=2, mask=5)
    builder.add_shape("arm", "upper", S.Capsule(0.05, 0.3), at)
    builder.add_shape("floor", "world", S.Plane(), at)
    return builder.build()


def world_poses(model, q):
    """The pose of every shape in the world, by name."""
    out = {}
    for shape in model.shapes:
        X = pp.poses(model, q, [shape.body])[0]
        out[shape.name] = X @ shape.placement.matrix
    return out


def test_a_welded_body_hands_its_shapes_on():
    model = arm_with_shapes()
    assert [s.body for s in model.shapes] == ["fore", "upper", "world"]
    q = [0.4, -0.7]
    at = pp.Pose.from_rpy((0.1, 0.2, 0.3), (0.3, 0.1, 0.2)).matrix
    np.testing.assert_allclose(
        world_poses(model, q)["tip"], pp.poses(model, q, ["tool"])[0] @ at, atol=1e-15
    )


def test_locking_keeps_shapes_where_they_are():
    model, q = arm_with_shapes(), np.array([0.4, -0.7])
    locked = model.with_locked("fore", q)
    assert [s.body for s in locked.shapes] == ["upper", "upper", "world"]
    before, after = world_poses(model, q), world_poses(locked, q[:1])
    for name, X in before.items():
        np.testing.assert_allclose(after[name], X, atol=1e-15)
    still = model.with_locked(["upper", "fore"], q)
    assert {s.body for s in still.shapes} == {"world"}


def test_attached_models_bring_their_shapes():
    model, at = arm_with_shapes(), pp.Pose(translation=(0, 0, 0.5))
    both = model.attach(model, at="tool", placement=at, prefix="second_")
    assert [s.name for s in both.shapes][3:] == ["second_tip", "second_arm", "second_floor"]
    assert [s.body for s in both.shapes][3:] == ["second_fore", "second_upper", "fore"]
    q = np.array([0.4, -0.7, 0.2, 0.1])
    X = pp.poses(both, q, ["tool"])[0] @ at.matrix
    own = world_poses(model, q[2:])
    for name, pose in own.items():
        np.testing.assert_allclose(world_poses(both, q)[f"second_{name}"], X @ pose, atol=1e-14)
    two = arm_with_shapes()
    builder = pp.ModelBuilder()
    builder.add_body("x", inertia=ONE)
    builder.add_shape("tip", "x", S.Sphere(1))
    with pytest.raises(ModelError, match="both mechanisms have a shape named 'tip'"):
        two.attach(builder.build())


def test_parts_of_a_model_keep_their_shapes():
    model = arm_with_shapes()
    assert [s.name for s in model.with_paths("upper").shapes] == ["arm", "floor"]
    assert model.with_trees("upper").shapes == model.shapes
    assert model.with_gravity((0, 0, -1)).shapes == model.shapes
    assert model.with_body("upper", inertia=ONE.scaled(2.0)).shapes == model.shapes


def test_shapes_are_part_of_what_a_model_is():
    model = arm_with_shapes()
    again = pp.Model.from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False)))
    assert again == model and again.shapes == model.shapes
    assert again.shapes[0].material == pp.Material(0.7)
    assert pickle.loads(pickle.dumps(model)) == model
    bare = model.to_dict()
    del bare["shapes"]
    assert pp.Model.from_dict(bare) != model
    every = {"Sphere": S.Sphere(1), "Capsule": S.Capsule(1, 2), "Cylinder": S.Cylinder(1, 2),
             "Ellipsoid": S.Ellipsoid((1, 2, 3)), "Box": S.Box((1, 2, 3)), "Plane": S.Plane(),
             "ConvexMesh": S.ConvexMesh(CUBE, outward(CUBE, FACES)),
             "HeightField": S.HeightField(np.eye(3, 4), 0.5)}  # fmt: skip
    assert every.keys() == KINDS.keys()
    stored = chain(*every.values()).to_dict()
    assert (
        pp.Model.from_dict(json.loads(json.dumps(stored))).shapes == chain(*every.values()).shapes
    )
    stored["shapes"][0]["shape"]["type"] = "Spere"
    with pytest.raises(
        ParseError, match="type 'Spere', which does not exist. Did you mean 'Sphere'"
    ):
        pp.Model.from_dict(stored)
    stored["shapes"][0]["shape"] = {"type": "Sphere", "size": 3}
    with pytest.raises(ParseError, match="shape 's0' is not in the format of a model"):
        pp.Model.from_dict(stored)


def test_models_without_shapes_are_as_before():
    model = pp.examples.planar_arm(2)
    assert model.shapes == () and "shapes" not in model.to_dict()


# ---- pairs ---------------------------------------------------------------------------------------


def names(contacts):
    return [p.name for p in contacts.pairs]


def test_which_pairs_may_touch():
    model = chain(S.Sphere(0.1), S.Capsule(0.1, 0.2), S.Sphere(0.2))
    contacts = pp.Contacts(model, ground=True)
    # neighbours in the tree do not touch; the world is a neighbour of none
    # and pairs of the same kinds follow each other
    assert names(contacts) == ["s0|s2", "s0|ground", "s2|ground", "s1|ground"]
    assert contacts.bodies == (0, 1, 2) and contacts.n_slots == 5
    assert contacts.slot_bodies.tolist() == [[0, 2], [0, -1], [2, -1], [1, -1], [1, -1]]
    assert contacts.slot_names == ("s0|s2", "s0|ground", "s2|ground", "s1|ground", "s1|ground")
    assert names(pp.Contacts(model)) == ["s0|s2"]
    assert pp.Contacts(model).bodies == (0, 2)


def test_pairs_by_name():
    model = chain(S.Sphere(0.1), S.Capsule(0.1, 0.2), S.Sphere(0.2))
    assert names(pp.Contacts(model, pairs=[("b1", "b0")])) == ["s0|s1"]
    assert names(pp.Contacts(model, pairs=[("s2", "ground")], ground=True)) == ["s2|ground"]
    assert names(pp.Contacts(model, ground=True, exclude=["b1", ("s0", "s2")])) == [
        "s0|ground",
        "s2|ground",
    ]
    for options, said in [
        ({"pairs": [("s0", "s4")]}, "names 's4', which is not a shape or body. Known names"),
        ({"exclude": ["grond"], "ground": True}, "Did you mean 'ground'"),
        ({"exclude": "s0"}, "must be a list of names"),
        ({"pairs": "all"}, 'must be "auto" or a list'),
        ({"pairs": [("s0",)]}, "not a pair of names"),
        ({"pairs": [("s0", "b0")]}, "on the same body 'b0'"),
        ({"ground": 3}, "ground=3 must be True"),
        ({"combine": "geometrc"}, "Did you mean 'geometric'"),
        ({"margin": 0}, "margin=0 must be a length above 0"),
        ({"max_points": 0}, "max_points=0 must be an integer"),
        ({"margin": True}, "margin=True must be a length"),
        ({"material": 0.5}, "material=0.5 must be a Material"),
    ]:
        with pytest.raises(InputError, match=said):
            pp.Contacts(model, **options)
    with pytest.raises(InputError, match="Contacts needs a model first"):
        pp.Contacts(None)
    bare = pp.examples.planar_arm(2)
    with pytest.raises(InputError, match="the body 'link1', which has no shapes"):
        pp.Contacts(bare, exclude=["link1"])


def test_points_of_round_shapes_on_height_fields():
    """Three of a ball or ellipsoid, or as many as are wanted."""
    builder = pp.ModelBuilder()
    builder.add_body("foot", joint=FREE, inertia=ONE)
    builder.add_shape("foot", "foot", S.Sphere(0.3))
    builder.add_shape("egg", "foot", S.Ellipsoid((0.1, 0.1, 0.2)))
    builder.add_shape("terrain", "world", S.HeightField(np.zeros((4, 4)), (0.5, 1.0)))
    model = builder.build()
    assert pp.Contacts(model).n_slots == 6 and pp.Contacts(model, max_points=1).n_slots == 2
    assert pp.Contacts(model, max_points=np.int64(1)).n_slots == 2


def test_groups_and_masks():
    builder = pp.ModelBuilder()
    for i, (group, mask) in enumerate([(1, 2), (2, 1), (2, 2), (3, 3)]):
        builder.add_body(f"b{i}", joint=FREE, inertia=ONE)
        builder.add_shape(f"s{i}", f"b{i}", S.Sphere(0.1), group=group, mask=mask)
    found = names(pp.Contacts(builder.build()))
    assert found == ["s0|s1", "s0|s3", "s1|s3", "s2|s3"]


def test_a_ground_of_its_own():
    model = chain(S.Sphere(0.1))
    tilted = pp.Pose.from_rpy((0, 0.3, 0), (0, 0, 0.5))
    contacts = pp.Contacts(model, ground=tilted)
    assert contacts.pairs[0].b.placement == tilted
    builder = pp.ModelBuilder()
    builder.add_body("x", joint=FREE, inertia=ONE)
    builder.add_shape("ground", "x", S.Sphere(1))
    with pytest.raises(ModelError, match="has a shape 'ground' already"):
        pp.Contacts(builder.build(), ground=True)


def test_pairs_without_a_formula_are_named():
    """Planes and height fields do not touch each other: they have to be asked for."""
    assert ("HeightField", "Plane") not in SLOTS
    builder = pp.ModelBuilder()
    builder.add_body("b0", joint=FREE, inertia=ONE)
    builder.add_shape("s0", "b0", S.HeightField(np.zeros((3, 3)), 1.0))
    builder.add_shape("s1", "b0", S.Sphere(0.1))
    model = builder.build()
    asked = {"ground": True, "pairs": [("s0", "ground"), ("s1", "ground")]}
    with pytest.raises(InputError) as caught:
        pp.Contacts(model, **asked)
    text = str(caught.value)
    assert "HeightField 's0' (on 'b0') against Plane 'ground' (on 'world')" in text
    with pytest.warns(PhipsiWarning, match=r"1 pairs .* \('s0', 'ground'\)"):
        fewer = pp.Contacts(model, **asked, unsupported="warn")
    assert names(fewer) == names(pp.Contacts(model, ground=True)) and len(fewer.pairs) == 1
    with pytest.raises(InputError, match="unsupported='skip' is not one of"):
        pp.Contacts(model, unsupported="skip")
    suggested = eval(text.partition("exclude=")[2])
    assert names(pp.Contacts(model, **asked, exclude=suggested))


@pytest.mark.parametrize(
    ("rule", "friction"),
    [("geometric", 0.4), ("minimum", 0.2), ("maximum", 0.8), ("mean", 0.5), ("product", 0.16)],
)
def test_materials_are_combined(rule, friction):
    builder = pp.ModelBuilder()
    soft = pp.Material(0.2, stiffness=100.0, damping=3.0)
    for name, material in {"a": soft, "b": pp.Material(0.8, stiffness=300.0)}.items():
        builder.add_body(name, joint=FREE, inertia=ONE)
        builder.add_shape(name, name, S.Sphere(0.1), material=material)
    contacts = pp.Contacts(builder.build(), ground=True, combine=rule, material=pp.Material(0.3))
    both, with_ground, _ = (p.material for p in contacts.pairs)
    assert both.friction == pytest.approx(friction, rel=1e-15)
    assert both.stiffness == pytest.approx(75.0)  # 1/100 + 1/300 = 1/75
    assert both.damping == pytest.approx(0.75**2 * 3)  # three quarters of the deformation
    assert (with_ground.stiffness, with_ground.damping) == (100.0, 3.0)


def test_contacts_are_values():
    model = chain(S.Sphere(0.1), S.Sphere(0.2))
    one, other = (pp.Contacts(model, ground=True) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert one != pp.Contacts(model, ground=True, margin=0.1)
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError, match="frozen"):
        one.margin = 3


# ---- shapes of files -----------------------------------------------------------------------------

URDF = """<robot name="r"><link name="base"/>
<link name="leg"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
  iyz="0"/></inertial>
  <collision><origin xyz="0 0 -0.5"/><geometry>
  <cylinder radius="0.1" length="1"/></geometry></collision>
  <visual><geometry><sphere radius="5"/></geometry></visual></link>
<link name="foot"><collision name="sole"><geometry>
  <sphere radius="0.05"/></geometry></collision></link>
<joint name="hip" type="prismatic"><parent link="base"/><child link="leg"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="ankle" type="fixed"><parent link="leg"/>
  <child link="foot"/><origin xyz="0 0 -1"/></joint>
</robot>"""


def test_collision_shapes_of_a_file(tmp_path):
    path = tmp_path / "leg.urdf"
    path.write_text(URDF)
    model = pp.load(path)
    contacts = pp.Contacts(model, ground=True)
    assert names(contacts) == ["leg_cylinder|ground", "sole|ground"]
    found = pp.contact_points(contacts, [1.0])
    assert found.gap[-1] == pytest.approx(-0.05)  # the sole: 1 − 1 − 0.05
    assert found.gap[:-1].min() == pytest.approx(0.0, abs=1e-15)


def test_meshes_of_a_file_are_reported():
    model = chain(S.Sphere(0.1))
    mesh = FileShape("b0", "collision", "mesh", (1.0, 1.0, 1.0), uri="a.stl")
    model = model.with_attachment(replace(model.of(FileMetadata), geometry=(mesh,)))
    with pytest.warns(PhipsiWarning, match=r"collision meshes .* 'b0' \(mesh\)"):
        contacts = pp.Contacts(model, ground=True)
    assert names(contacts) == ["s0|ground"]


def test_shapes_are_written_to_urdf(tmp_path):
    """The same gaps after writing and reading; what URDF cannot state is an error."""
    builder = pp.ModelBuilder()
    at = pp.Pose.from_rpy((0.1, 0.2, 0.3), (0.1, 0.0, 0.2))
    builder.add_body("arm", joint=pp.joints.Revolute(axis=(0, 1, 0)), inertia=ONE)
    for name, shape in {"ball": S.Sphere(0.1), "cap": S.Capsule(0.1, 0.3), "box": S.Box((1, 2, 3)),
                        "can": S.Cylinder(0.2, 0.3)}.items():  # fmt: skip
        builder.add_shape(name, "arm", shape, at)
    model = builder.build()
    pp.save_urdf(model, tmp_path / "arm.urdf")
    again = pp.load(tmp_path / "arm.urdf")
    both = [pp.Contacts(m, ground=True) for m in (model, again)]
    assert names(both[0]) == names(both[1]) and len(both[0].pairs) == 4
    gaps = [pp.contact_points(c, [[0.3], [1.0]]).gap for c in both]
    np.testing.assert_allclose(*gaps, atol=1e-12)
    builder.add_shape("egg", "arm", S.Ellipsoid((1, 2, 3)))
    with pytest.raises(ModelError, match="link 'arm': URDF has no ellipsoid"):
        pp.save_urdf(builder.build(), tmp_path / "egg.urdf")


def test_shapes_are_drawn():
    from phipsi.pages.shapes_and_colors import solids_of

    builder = pp.ModelBuilder()
    builder.add_body("arm", joint=FREE, inertia=ONE)
    builder.add_shape("ball", "arm", S.Sphere(0.25), pp.Pose(translation=(0, 0, 1)))
    solid, *link = solids_of(builder.build())  # the link that leads to a ball that is a foot
    assert (solid.mesh, solid.scale, solid.position[2]) == ("sphere", (0.25,) * 3, 1.0)
    assert link and {x.body for x in link} == {0}
    builder.add_shape("hull", "arm", S.Box((0.1, 0.1, 0.1)))
    assert [x.mesh for x in solids_of(builder.build())] == ["sphere", "box"]


SDF = """<sdf version="1.8"><model name="m"><link name="ball"><collision name="skin">
<geometry><sphere><radius>0.1</radius></sphere></geometry>
<surface><friction><ode><mu>MU</mu></ode></friction>
<bounce><restitution_coefficient>0.25</restitution_coefficient></bounce></surface>
</collision></link></model></sdf>"""


def test_surfaces_of_sdf(tmp_path):
    path = tmp_path / "ball.sdf"
    path.write_text(SDF.replace("MU", "0.7"))
    (pair,) = pp.Contacts(pp.load(path, base="free"), ground=True, combine="maximum").pairs
    assert (pair.name, pair.material) == ("skin|ground", pp.Material(0.7, restitution=0.25))
    for wrong, said in (("-0.7", "friction=-0.7 is negative"), ("much", "much")):
        path.write_text(SDF.replace("MU", wrong))
        with pytest.warns(PhipsiWarning, match=f"its <surface> is left out: .*{said}"):
            model = pp.load(path, base="free")
        assert pp.Contacts(model, ground=True).pairs[0].material == pp.Material()


MJCF = """<mujoco><worldbody>
<geom name="floor" type="plane" size="0 0 1" friction="0.7 0.01 0.001" condim="4"/>
<body name="torso" pos="0 0 1"><freejoint/><geom name="torso" size="5" mass="1"/>
 <body name="leg"><joint name="hx" axis="1 0 0"/><joint name="hy" axis="0 1 0"/>
  <geom name="thigh" size="5" mass="1" condim="6" friction="1 0.02 0.003"/>
  <body name="sole"><geom name="sole" size="5" mass="1"/></body>
  <body name="foot"><joint name="a" axis="0 1 0"/>
   <geom name="foot" size="5" mass=".1" friction="1.2"/>
   <geom name="shell" size="5" mass=".1" contype="0" conaffinity="0"/></body></body>
 <body name="arm"><joint name="s" axis="0 1 0"/>
  <geom name="arm" size="5" mass="1" contype="2" conaffinity="1"/></body>
</body>
<body name="ball"><freejoint/>
 <geom name="ball" size="5" mass="1" contype="4" conaffinity="2"/></body>
<body name="cap"><freejoint/><geom name="cap" size="5" mass="1" contype="0" conaffinity="4"/></body>
</worldbody><contact><exclude body1="arm" body2="foot"/>
<pair geom1="shell" geom2="floor" friction="0.3 0.3 0.05 0.01 0.01" condim="4" margin="0.01"/>
<pair geom1="arm" geom2="foot"/><pair geom1="torso" geom2="thigh" friction="0.2 0.2"/>
</contact></mujoco>"""


def test_pairs_of_mjcf_are_those_of_mujoco(tmp_path):
    """Balls so large that all touch: MuJoCo lists every pair that its rules allow."""
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    with pytest.warns(PhipsiWarning, match=r"robot\.xml:17: <pair>: margin of 1 pair"):
        model = pp.load(path)
    contacts = pp.Contacts(model)
    peer = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    theirs = {
        frozenset(peer.geom(int(i)).name for i in data.contact.geom[k]) for k in range(data.ncon)
    }
    ours = {frozenset((p.a.name, p.b.name)) for p in contacts.pairs}
    assert ours == theirs and len(ours) > 8
    by_name = {p.name: p.material for p in contacts.pairs}
    assert by_name["foot|floor"].friction == 1.2
    assert by_name["thigh|floor"] == pp.Material(
        1.0, torsional_friction=0.02, rolling_friction=0.003
    )
    assert (
        by_name["torso|floor"].torsional_friction == 0.01
        and by_name["ball|cap"].torsional_friction == 0.0
    )
    assert by_name["shell|floor"] == pp.Material(0.3, torsional_friction=0.05)  # of <pair>
    assert by_name["torso|thigh"].friction == 0.2 and "foot|arm" in by_name
    again = pp.Model.from_dict(json.loads(json.dumps(model.to_dict())))
    assert pp.Contacts(again) == contacts
    assert len(again.with_paths("leg").of(FileMetadata).pairs) == 1
    assert again.with_paths("leg").of(FileMetadata).exclusions == ()
    both = pp.examples.planar_arm(2).attach(model, at="link2", prefix="b_")
    assert both.of(FileMetadata).exclusions[0].body == "b_foot"
    twice = both.attach(model, at="link1", prefix="c_")
    listed = {p.name: p.material.friction for p in pp.Contacts(twice).pairs}
    assert listed["b_torso|b_thigh"] == listed["c_torso|c_thigh"] == 0.2  # of <pair>, of both
