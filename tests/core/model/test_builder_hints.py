"""Arguments of `add_body` that belong elsewhere are answered with where."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import phipsi as pp
from phipsi.errors import InputError


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"friction": 0.3}, r"pp\.forces\.JointFriction\('arm', 0.3\)"),
        ({"friction": 0.3, "joint_name": "hinge"}, r"pp\.forces\.JointFriction\('hinge', 0.3\)"),
        ({"stiffness": 2.0}, r"pp\.forces\.JointSpring\('arm', 2.0\)"),
        ({"mass": 1.5}, r"inertia=pp\.SpatialInertia\(1.5, com_B, moment\)"),
        ({"axis": (0, 1, 0)}, r"joint=pp\.joints\.Revolute\(\(0, 1, 0\)\)"),
    ],
)
def test_arguments_that_belong_elsewhere(given: Any, text: str):
    with pytest.raises(InputError, match=text):
        pp.ModelBuilder().add_body("arm", **given)


def test_others_are_errors_of_python_and_the_signature_is_kept():
    with pytest.raises(TypeError, match="unexpected keyword argument 'frction'"):
        pp.ModelBuilder().add_body("arm", **{"frction": 0.3})
    assert list(inspect.signature(pp.ModelBuilder.add_body).parameters)[:3] == [
        "self", "name", "parent",
    ]  # fmt: skip
