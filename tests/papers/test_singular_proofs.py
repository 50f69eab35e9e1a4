"""Identities on a mechanism with a hinge that has nothing to move: held, or refused by its name."""

import pytest

from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.errors import SingularHingeError
from phipsi.papers.theorems import identities, prove

ROD = SpatialInertia(mass=1.0, com_B=(0.5, 0, 0), moment_about_com_B=(0.001, 0.083, 0.083))


def arm(armature: float = 0.0) -> Model:
    """A rod with a massless tip that turns on it."""
    builder = ModelBuilder()
    builder.add_body("upper", joint=joints.Revolute((0, 1, 0)), inertia=ROD)
    builder.add_body(
        "tip",
        parent="upper",
        joint=joints.Revolute((0, 0, 1)),
        joint_name="wrist",
        armature=armature,
    )
    return builder.build()


def test_every_identity_holds_or_names_the_hinge():
    refused = 0
    for identity in identities():
        try:
            proof = prove(identity, arm())
        except SingularHingeError as error:
            assert "joint 'wrist'" in str(error)
            refused += 1
        else:
            assert proof.holds is not False, proof
    assert 0 < refused < len(identities())


@pytest.mark.parametrize("name", ["log det of the mass matrix", "FD1 recursion", "Omega blocks"])
def test_what_inverts_the_hinge_inertia_is_refused_and_holds_with_a_rotor(name: str):
    with pytest.raises(SingularHingeError, match=r"joint 'wrist'.*has no inertia to move"):
        prove(name, arm())
    assert prove(name, arm(armature=0.1)).holds is not False
