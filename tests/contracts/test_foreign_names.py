"""What people type first is answered with the name that it has here."""

from __future__ import annotations

import re

import pytest

import phipsi
import phipsi.gym
from phipsi.files import foreign_name_hints

ANSWERS = {
    "fk": "pp.poses",
    "forward_kinematics": "pp.poses",
    "ik": "pp.inverse_kinematics",
    "id": "pp.inverse_dynamics",
    "fd": "pp.forward_dynamics",
    "rnea": "pp.inverse_dynamics",
    "load_urdf": "pp.load",
    "load_mjcf": "pp.load",
    "load_sdf": "pp.load",
    "from_urdf": "pp.load",
    "plot": "pp.report",
    "viz": "pp.show",
    "visualize": "pp.live_page",
    "view": "pp.render",
    "interop": "pp.conventions",
    "step": "pp.Simulator",
    "World": "pp.Simulator",
    "Robot": "pp.load",
    "Environment": "phipsi.gym",
    "make": "phipsi.gym.cart_pole_swing_up",
    "lqr": "pp.linearize",
    "pid": "pp.laws.pid",
    "kalman": "phipsi has no state estimators.*pp.linearize",
    "mpc": "phipsi has no model-predictive control.*pp.rollout_gradient",
    "FreeFlyer": "pp.joints.Free",
    "Floating": "pp.joints.Free",
    "Hinge": "pp.joints.Revolute",
    "own": "it is pp.custom now",
    "dense": "it is pp.evaluate_dense now",
}
JOINTS = {
    "FreeFlyer": "Free",
    "Floating": "Free",
    "Hinge": "Revolute",
    "Slide": "Prismatic",
    "Ball": "Spherical",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_people_type_first_is_answered(name: str):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*{ANSWERS[name]}"):
        getattr(phipsi, name)


@pytest.mark.parametrize("name", JOINTS)
def test_joints_of_other_libraries_are_answered(name: str):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*joints.{JOINTS[name]}"):
        getattr(phipsi.joints, name)
    assert hasattr(phipsi.joints, JOINTS[name])


def test_other_names_of_joints_are_plain_errors():
    with pytest.raises(AttributeError, match="no attribute 'Knee'$"):
        phipsi.joints.Knee  # noqa: B018


def test_gym_says_what_it_has():
    with pytest.raises(AttributeError, match="registers no ids") as error:
        phipsi.gym.make("CartPole-v1")
    named = re.findall(r"(\w+)\(num_envs\)", str(error.value))
    assert named and all(hasattr(phipsi.gym, name) for name in named)
    with pytest.raises(AttributeError, match="no attribute 'spaces'$"):
        phipsi.gym.spaces  # noqa: B018


def test_every_answer_names_what_there_is():
    """Each ``pp.….…`` in an answer exists, and no name that is answered does."""
    tables = foreign_name_hints._FIRST, foreign_name_hints._NOT_HERE
    for theirs, answer in (row for table in tables for row in table.items()):
        for dotted in re.findall(r"pp\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", answer):
            x: object = phipsi
            for name in dotted.split("."):
                x = getattr(x, name)
        for name in theirs.split():
            assert not hasattr(phipsi, name), name
