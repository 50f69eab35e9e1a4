"""What coordinates and body frames mean where a joint has a ref or is not at the body's origin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import phipsi as pp

mujoco = pytest.importorskip("mujoco")

HOPPER = """<mujoco><compiler angle="radian"/><worldbody><body name="torso" pos="0 0 1.25">
  <joint name="rootz" type="slide" axis="0 0 1" ref="1.25"/>
  <geom type="sphere" size="0.1" mass="3"/>
  <body name="foot" pos="0.13 0 -0.35"><joint name="ankle" axis="0 -1 0" pos="-0.13 0 0.1"/>
  <geom type="box" size="0.1 0.05 0.02" mass="1"/></body></body></worldbody>
  <actuator><motor joint="ankle"/></actuator></mujoco>"""


def loaded(tmp_path: Path, text: str) -> tuple[pp.Model, str, str]:
    """The model, the text of its warning (of the motor), and the findings as text."""
    file = tmp_path / "hopper.xml"
    file.write_text(text)
    with pytest.warns(pp.errors.PhipsiWarning) as said:
        model = pp.load(file)
    return model, str(said[0].message), "\n".join(str(x) for x in model.diagnosis)


def test_moved_body_frames_are_noted(tmp_path: Path):
    model, warning, findings = loaded(tmp_path, HOPPER)
    m = mujoco.MjModel.from_xml_string(HOPPER)
    d = mujoco.MjData(m)
    d.qpos[:] = [1.1, 0.4]
    mujoco.mj_forward(m, d)
    at = pp.poses(model, d.qpos, ["foot_frame", "foot"])[:, :3, 3]
    assert np.allclose(at[0], d.xpos[2], atol=1e-14)
    assert np.allclose(at[1], d.xanchor[1], atol=1e-14) and not np.allclose(at[1], d.xpos[2])
    for text in (warning, findings):
        assert "origins of 1 body are elsewhere: 'foot'" in text and "frame 'foot_frame'" in text
    assert [x.is_problem for x in model.diagnosis if x.kind == "frame"] == [False]
    _, _, findings = loaded(tmp_path, HOPPER.replace('pos="-0.13 0 0.1"', ""))
    assert "body frames" not in findings  # the twin: joints at the origins


def test_the_pose_of_a_file_with_ref_is_printed(tmp_path: Path):
    model, warning, findings = loaded(tmp_path, HOPPER)
    q0 = mujoco.MjModel.from_xml_string(HOPPER).qpos0
    text = "joint 'rootz': coordinates are measured as in MuJoCo, from its ref"
    assert text in warning and text in findings
    (line,) = (x.strip() for x in warning.splitlines() if x.strip().startswith("q"))
    names = {"model": model}
    exec(line, names)  # noqa: S102 - the line that the warning prints
    assert (names["q"] == q0).all() and not (model.neutral() == q0).all()
    assert (pp.conventions.from_mujoco(model, q0).q == q0).all()
    _, _, findings = loaded(tmp_path, HOPPER.replace('ref="1.25"', ""))
    assert "its ref" not in findings
