"""Joint limits, damping and friction of a robot file: stored, and told where they do not act."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import PhipsiWarning

HINGE = """<robot name="door"><link name="frame"/><link name="leaf"><inertial>
<origin xyz="0.5 0 0"/><mass value="1"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="hinge" type="revolute"><parent link="frame"/><child link="leaf"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="5" velocity="3"/>{dynamics}</joint></robot>"""
SAID = "the file of the robot 'door' gives limits of 1 joint, damping of 1 joint and dry friction"


@pytest.fixture
def door(tmp_path: Path) -> pp.Model:
    path = tmp_path / "door.urdf"
    path.write_text(HINGE.format(dynamics='<dynamics damping="0.2" friction="0.1"/>'))
    return pp.load(path)


def test_simulate_warns_once_and_its_lines_work(door: pp.Model):
    with pytest.warns(PhipsiWarning, match=SAID) as told:
        free = pp.simulate(door, [0.0], [0.0], 1.0)
    assert len(told) == 1 and told[0].filename == __file__
    pp.simulate(door.with_gravity((0, 0, -1)), [0.0], [0.0], 0.1)  # the same file: not again
    pp.Simulator(door)
    lines = [x.strip() for x in str(told[0].message).splitlines()[1:]]
    assert lines == ["forces=pp.forces.from_model(model)", "forces=[]"]
    held = pp.simulate(door, [0.0], [0.0], 1.0, forces=pp.forces.from_model(door))
    assert free.q[-1] > 1.5 > 1.1 > held.q[-1]  # past its limit, and held by it
    none = pp.simulate(door, [0.0], [0.0], 1.0, forces=[])
    np.testing.assert_array_equal(none.q[-1], free.q[-1])


def test_simulators_warn_and_say_what_does_not_act(door: pp.Model):
    with pytest.warns(PhipsiWarning, match=SAID) as told:
        sim = pp.Simulator(door)
    assert "    pp.Simulator(model, pp.forces.from_model(model), …)\n" in str(told[0].message)
    assert repr(sim).endswith(
        "rk4; stored, not acting: limits of 1 joint, damping of 1 joint and dry friction of 1 "
        "joint>"
    )
    assert "stored" not in repr(pp.Simulator(door, pp.forces.from_model(door)))
    assert "stored" in repr(pp.Simulator(door, lambda t, q, v: -q))


def test_rigid_limits_are_named_for_time_stepping(door: pp.Model):
    shaped = door.with_shape("ball", "leaf", pp.shapes.Sphere(0.1))
    system = pp.System(shaped, contacts=pp.Contacts(shaped, ground=True))
    with pytest.warns(PhipsiWarning, match=r"from_model\(model, exact=True\), …"):
        pp.Simulator(system, integrator="time_stepping")
    system = pp.Simulator(door, pp.forces.from_model(door, exact=True), integrator="time_stepping")
    run = system.rollout(system.initial_state(), steps=1000)
    assert abs(run.q[-1, 0] - 1.0) < 1e-6


def test_who_says_that_nothing_acts_is_not_warned(door: pp.Model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pp.simulate(door, [0.0], [0.0], 0.1, forces=[])
        pp.Simulator(door, [])
        pp.Simulator(door, lambda t, q, v: -q)
        pp.Simulator(pp.examples.seven_joint_arm())  # of no file


def test_files_that_say_nothing_of_the_kind_do_not_warn(tmp_path: Path):
    path = tmp_path / "door.urdf"
    text = HINGE.format(dynamics="").replace('"revolute"', '"continuous"')
    path.write_text(text.replace('lower="-1" upper="1" ', ""))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(pp.Simulator(pp.load(path))).endswith("rk4>")


FLOOR = """<mujoco><worldbody><geom name="floor" type="plane" size="0 0 0.1"/>
<body name="box" pos="0 0 1">{joint}<geom type="sphere" size="0.1" mass="1"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("joint", ["<freejoint/>", '<joint type="slide" axis="0 0 1"/>'])
def test_a_floor_without_contacts_is_told_once(tmp_path: Path, joint: str):
    pytest.importorskip("mujoco")
    path = tmp_path / "box.xml"
    path.write_text(FLOOR.format(joint=joint))
    model = pp.load(path)
    with pytest.warns(PhipsiWarning, match="the floor of the robot file does not act") as told:
        pp.Simulator(model, [])
    pp.simulate(model, model.neutral(), np.zeros(model.nv), 0.1, forces=[])  # once
    names = {"pp": pp, "model": model, "warnings": warnings}
    lines = [x.strip() for x in str(told[0].message).splitlines() if x.startswith("    ")]
    exec("\n".join(lines[:2]), names)  # the lines that the message prints
    sim = names["sim"]
    run = sim.rollout(sim.initial_state(), steps=500)
    height = pp.poses(model, run.q[-1])[0, 2, 3]
    assert abs(height - 0.1) < 1e-3  # it lies on the floor
    again = pp.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(lines[2], names)
        pp.Simulator(again, [])


TOUCHES_NOTHING = FLOOR.replace('"plane"', '"plane" contype="0" conaffinity="0"')


@pytest.mark.parametrize(
    "text",
    [FLOOR.format(joint='<joint axis="0 1 0"/>'), TOUCHES_NOTHING.format(joint="<freejoint/>")],
)
def test_robots_that_stay_or_touch_nothing_are_not_warned_of(tmp_path: Path, text: str):
    pytest.importorskip("mujoco")
    path = tmp_path / "box.xml"
    path.write_text(text)
    pp.Simulator(pp.load(path), [])


def test_systems_with_contacts_have_joint_properties(door: pp.Model):
    shaped = door.with_shape("ball", "leaf", pp.shapes.Sphere(0.1))
    system = pp.System(shaped, contacts=pp.Contacts(shaped, ground=pp.Pose(translation=(0, 0, -3))))
    for exact in (False, True):
        mine, plain = (pp.forces.from_model(x, exact=exact) for x in (system, shaped))
        assert [repr(x) for x in mine] == [repr(x) for x in plain] and len(mine) == 3
    sim = pp.Simulator(system, mine, dt=2e-3, integrator="time_stepping")
    assert abs(sim.rollout(sim.initial_state(), steps=1000).q[-1, 0] - 1.0) < 1e-6
