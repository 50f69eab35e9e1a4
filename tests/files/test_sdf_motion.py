"""What an SDF file says beyond the mechanism: surfaces, who touches whom, and warnings.

Every line that a warning gives to paste is run.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from robot_files import pasted as made

import phipsi as pp
from phipsi.core.model.model import Model
from phipsi.errors import ModelError, PhipsiWarning
from phipsi.files.load import load

INERTIAL = (
    "<inertial><pose>0.1 0 0.2 0 0 0</pose><mass>2</mass><inertia><ixx>0.1</ixx><iyy>0.1</iyy>"
    "<izz>0.1</izz></inertia></inertial>"
)
BALL = "<geometry><sphere><radius>0.1</radius></sphere></geometry>"


def written(folder: Path, inside: str) -> Path:
    path = folder / "robot.sdf"
    path.write_text(f"<sdf version='1.10'><model name='m'>\n{inside}</model></sdf>")
    return path


def one(path: Path, words: str):
    """The one problem of a file, which `load` warns of."""
    with pytest.warns(PhipsiWarning, match=words):
        model = load(path)
    (finding,) = (f for f in model.diagnosis if f.is_problem)
    return model, finding, finding.message.rpartition("\n")[2].strip()


def surfaced(surface: str) -> str:
    return (
        f"<link name='a'>{INERTIAL}<collision name='c'>{BALL}\n<surface>{surface}</surface>"
        "</collision></link>"
    )


# ---- forces on links and joints ------------------------------------------------------------------


def test_velocity_decay_is_told_and_can_be_written(tmp_path: Path):
    decay = "<velocity_decay>\n<linear>0.003</linear><angular>0.002</angular></velocity_decay>"
    path = written(tmp_path, f"<link name='a'>{INERTIAL}\n{decay}</link>")
    model, finding, line = one(path, "<velocity_decay> is not part of the model")
    assert (finding.element, finding.line) == ("link 'a'", 3)
    free = model.with_gravity((0, 0, 0))
    sim = pp.Simulator(free, [made(line)], dt=1e-3)
    start = np.array([0.5, 0.0, 0.0, 1.0, 2.0, -1.0])
    run = sim.rollout(sim.initial_state(free.neutral(), start), steps=1)
    centre = start[3:] + np.cross(start[:3], [0.1, 0.0, 0.2])  # it decays by 0.3 % in a step
    moved = run.v[-1][3:] + np.cross(run.v[-1][:3], [0.1, 0.0, 0.2])
    assert run.v[-1][0] == pytest.approx(0.998 * 0.5, rel=1e-4)
    assert np.linalg.norm(moved) == pytest.approx(0.997 * np.linalg.norm(centre), rel=1e-4)
    none = decay.replace("0.003", "0").replace("0.002", "0")
    load(written(tmp_path, f"<link name='a'>{INERTIAL}{none}</link>"), strict=True)


def test_a_link_without_gravity_can_be_held_as_the_warning_says(tmp_path: Path):
    joint = (
        "<joint name='j' type='revolute'><pose>0.3 0 0 0 0 0</pose><parent>world</parent>"
        "<child>a</child><axis><xyz>0 1 0</xyz></axis></joint>"
    )
    text = f"<link name='a'>{INERTIAL}<gravity>false</gravity></link>{joint}"
    model, _, line = one(written(tmp_path, text), "<gravity>false</gravity> is not part")
    still = pp.simulate(model, [0.4], [0.0], 0.1, forces=[made(line)])
    falls = pp.simulate(model, [0.4], [0.0], 0.1)
    assert abs(still.q[-1, 0] - 0.4) < 1e-9 and abs(falls.q[-1, 0] - 0.4) > 1e-3


SPRINGS = {
    "one axis": ("revolute", 1, [6.0], [0.3]),
    "two axes": ("universal", 2, [0.0, 6.0], [0.0, 0.3]),
}


@pytest.mark.parametrize("case", SPRINGS)
def test_springs_can_be_written_as_the_warning_says(tmp_path: Path, case: str):
    kind, count, stiffness, rest = SPRINGS[case]
    dynamics = (
        "<dynamics><spring_stiffness>6</spring_stiffness><spring_reference>0.3</spring_reference>"
        "</dynamics>"
    )
    axes = (
        f"<axis><xyz>0 1 0</xyz>{dynamics}</axis>"
        if count == 1
        else f"<axis><xyz>0 1 0</xyz></axis><axis2><xyz>1 0 0</xyz>{dynamics}</axis2>"
    )
    text = (
        f"<link name='a'>{INERTIAL}</link><joint name='j' type='{kind}'><parent>world</parent>"
        f"<child>a</child>{axes}</joint>"
    )
    _, _, line = one(written(tmp_path, text), "its spring is not part of the model")
    spring = made(line)
    assert np.atleast_1d(spring.stiffness).tolist() == stiffness
    assert np.atleast_1d(spring.rest).tolist() == rest


def test_each_axis_keeps_its_friction_and_limits(tmp_path: Path):
    def axis(tag: str, friction: float, effort: float) -> str:
        return (
            f"<{tag}><xyz>{'0 1 0' if tag == 'axis' else '1 0 0'}</xyz><dynamics><friction>"
            f"{friction}</friction></dynamics><limit><effort>{effort}</effort></limit></{tag}>"
        )

    text = (
        f"<link name='a'>{INERTIAL}</link><joint name='j' type='universal'><parent>world</parent>"
        f"<child>a</child>{axis('axis', 0.1, 3)}{axis('axis2', 0.2, 4)}</joint>"
    )
    model = load(written(tmp_path, text), strict=True)
    rating = model.joint_properties["j"]
    assert (rating.friction, rating.effort) == ((0.1, 0.2), (3.0, 4.0)) and not model.diagnosis
    cut = pp.control.Saturated(lambda t, q, v: [9.0, -9.0], model)
    assert cut(0.0, np.zeros(2), np.zeros(2)).tolist() == [3.0, -4.0]


# ---- surfaces ------------------------------------------------------------------------------------


def test_torsional_friction_of_a_patch(tmp_path: Path):
    twist = (
        "<friction><torsional><coefficient>0.5</coefficient><patch_radius>0.02</patch_radius>"
        "</torsional></friction>"
    )
    (shape,) = load(written(tmp_path, surfaced(twist)), strict=True).geometry
    assert shape.material == pp.Material(1.0, torsional_friction=3 * math.pi / 16 * 0.5 * 0.02)


LEFT_OUT = {
    "two directions": ("<friction><ode><mu>0.3</mu><mu2>0.8</mu2></ode></friction>",
                       "0.3 and 0.8 in two directions"),
    "slip": ("<friction><ode><mu>0.3</mu><slip1>0.1</slip1></ode></friction>", "<slip1>, by which"),
    "depth": ("<friction><torsional><use_patch_radius>0</use_patch_radius><surface_radius>0.1"
              "</surface_radius></torsional></friction>", "grows with the depth"),
    "threshold": ("<bounce><restitution_coefficient>0.5</restitution_coefficient><threshold>0.2"
                  "</threshold></bounce>", "<threshold> 0.2 m/s"),
    "soft": ("<contact><ode><kp>1e5</kp><kd>10</kd></ode></contact>", "<kp>, <kd> of its contacts"),
    "bits": ("<contact><collide_bitmask>x1</collide_bitmask></contact>", "must be an integer"),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_a_surface_says_and_is_left_out_is_told(tmp_path: Path, case: str):
    surface, words = LEFT_OUT[case]
    path = written(tmp_path, surfaced(surface))
    _, finding, line = one(path, words)
    assert finding.element == "collision 'c'" and finding.line in (2, 3)
    if line.startswith("pp."):
        assert made(line) == pp.Material(1.0, stiffness=1e5, damping=10.0)
    with pytest.raises(ModelError, match="strict=True"):
        load(path, strict=True)


def test_a_collision_shape_that_is_not_read_is_told(tmp_path: Path):
    text = "<geometry>\n<heightmap><uri>x.png</uri><size>1 1 1</size></heightmap></geometry>"
    path = written(tmp_path, f"<link name='a'><collision name='c'>{text}</collision></link>")
    _, finding, line = one(path, "its <heightmap> is not read")
    assert finding.line == 3 and "HeightField" in line
    empty = "<link name='a'><collision name='c'><geometry><empty/></geometry></collision></link>"
    load(written(tmp_path, empty), strict=True)


# ---- who touches whom ----------------------------------------------------------------------------


def touching(model: Model) -> set[str]:
    return {p.name for p in pp.Contacts(model, ground=True).pairs}


def loose(name: str, more: str = "", bits: str = "") -> str:
    surface = bits and (
        f"<surface><contact><collide_bitmask>{bits}</collide_bitmask></contact></surface>"
    )
    return (
        f"<link name='{name}'>{more}{INERTIAL}<collision name='{name}'>{BALL}{surface}</collision>"
        "</link>"
    )


def test_links_of_a_model_touch_where_the_file_says_so(tmp_path: Path):
    itself = "<self_collide>true</self_collide>"
    three = loose("a") + loose("b") + loose("c")
    ground = {"a|ground", "b|ground", "c|ground"}
    all_pairs = ground | {"a|b", "a|c", "b|c"}
    model = load(written(tmp_path, three))
    assert touching(model) == ground
    assert touching(load(written(tmp_path, itself + three))) == all_pairs
    some = load(written(tmp_path, loose("a") + loose("b", itself) + loose("c")))
    assert touching(some) == ground | {"a|b", "b|c"}
    nested = f"{loose('a')}<model name='n'>{loose('b')}{loose('c')}</model>"
    assert touching(load(written(tmp_path, nested))) == ground | {"a|b", "a|c"}
    again = Model.from_dict(model.to_dict())
    assert pp.Contacts(again, ground=True) == pp.Contacts(model, ground=True)
    two = pp.examples.planar_arm(2).attach(model, at="link2", prefix="x_")
    two = two.attach(model, at="link1", prefix="y_")
    found = touching(two)  # those of two robots touch, and a list of the user wins
    assert {"x_a|y_b", "x_a|y_a"} <= found and "x_a|x_b" not in found
    assert pp.Contacts(model, pairs=[("a", "b")]).pairs[0].name == "a|b"


def test_bits_of_collisions(tmp_path: Path):
    itself = "<self_collide>true</self_collide>"
    text = itself + loose("a", bits="0x1") + loose("b", bits="6") + loose("c")
    pairs = {p.name for p in pp.Contacts(load(written(tmp_path, text))).pairs}
    assert pairs == {"a|c", "b|c"}
