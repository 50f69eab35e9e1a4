"""The robots made by the library: sizes, inertias, and agreement with Pinocchio through a file."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from phipsi import center_of_mass, examples, inverse_dynamics, poses
from phipsi.errors import PhipsiWarning
from phipsi.files.conventions import from_pinocchio, to_pinocchio
from phipsi.files.load import load
from phipsi.files.urdf.write_urdf import save_urdf

MASS = {"seven_joint_arm": 18.9, "free_flyer": 187.8, "quadruped": 30.0, "humanoid": 79.8}


@pytest.mark.parametrize("name", examples.ROBOTS)
def test_mass_and_symmetry(name: str):
    model = getattr(examples, name)()
    assert sum(inertia.mass for inertia in model.inertias) == pytest.approx(MASS[name])
    if model.joints[0].kind == "free":
        assert abs(center_of_mass(model, model.neutral())[1]) < 1e-12


@pytest.mark.parametrize("name", ["quadruped", "humanoid"])
def test_written_as_urdf_it_is_the_same_robot(name: str, tmp_path: Path):
    model = getattr(examples, name)()
    with pytest.warns(PhipsiWarning, match="armature"):
        text = save_urdf(model, tmp_path / "robot.urdf")
    again = load(tmp_path / "robot.urdf")  # the free joint of the base is in the file
    assert again.joint_names == model.joint_names
    theirs = pin.buildModelFromXML(text)
    data = theirs.createData()
    rng = np.random.default_rng(0)
    q, (v, vdot) = model.random_configuration(rng), rng.normal(size=(2, model.nv))
    state = to_pinocchio(again, q, v, vdot, names=list(theirs.names)[1:])
    tau = pin.rnea(theirs, data, state.q, state.v, state.vdot)
    tau = from_pinocchio(again, state.q, tau=tau, names=list(theirs.names)[1:]).tau
    np.testing.assert_allclose(
        inverse_dynamics(model, q, v, vdot) - model.armature * vdot, tau, rtol=0, atol=1e-9
    )


def test_feet_are_on_the_ground_when_standing():
    quadruped, humanoid = examples.quadruped(), examples.humanoid()
    feet = poses(quadruped, quadruped.neutral(), quadruped.frames)[:, 2, 3]
    np.testing.assert_allclose(feet, -0.6, atol=1e-12)
    height = dict(
        zip(humanoid.frames, poses(humanoid, humanoid.neutral(), humanoid.frames), strict=True)
    )
    assert height["eyes"][2, 3] - height["left_sole"][2, 3] == pytest.approx(1.81, abs=0.05)
