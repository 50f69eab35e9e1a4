"""Every URDF of example-robot-data against Pinocchio: poses, mass matrix and dynamics."""

import re
import warnings
from collections import Counter
from functools import cache
from importlib.metadata import files
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from comparers import EPS, within

import phipsi as pp
from phipsi import bias_forces, forward_dynamics, inverse_dynamics, mass_matrix
from phipsi.core.model.model import Model
from phipsi.errors import ModelError, PhipsiWarning, SingularHingeError
from phipsi.files.conventions import pinocchio_order, to_mujoco, to_pinocchio
from phipsi.files.load import load
from phipsi.files.urdf.write_urdf import save_urdf


def shipped_urdfs() -> list[Path]:
    listed = files("example-robot-data") or []
    found = [Path(str(f.locate())).resolve() for f in listed if f.suffix == ".urdf"]
    return sorted(found)


ROBOTS = shipped_urdfs()
EMPTY = "ur3.urdf"
LOADABLE = [path for path in ROBOTS if path.name != EMPTY]


@cache
def shipped(path: Path, base: str) -> Model:
    """A robot of the package, read once."""
    return quietly(path, base)


def quietly(path: Path, base: str) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)
        return load(path, base, loops="cut")


close = within(4.5e6 * EPS, 1e-6)


def test_there_are_69():
    assert len(ROBOTS) == 69


@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize("path", LOADABLE, ids=lambda path: path.stem)
def test_agrees_with_pinocchio(path: Path, base: str):
    model = shipped(path, base)
    root = (pin.JointModelFreeFlyer(),) if base == "free" else ()
    theirs = pin.buildModelFromUrdf(str(path), *root, mimic=False)
    data = theirs.createData()
    assert pinocchio_order(model) == list(theirs.names)[1:]
    assert model.nv == theirs.nv

    rng = np.random.default_rng(7)
    q = model.random_configuration(rng)
    v, vdot, tau = rng.normal(size=(3, model.nv))
    state = to_pinocchio(model, q, v, vdot, tau)

    pin.framesForwardKinematics(theirs, data, state.q)
    poses = dict(zip(model.frames, pp.poses(model, q, model.frames), strict=True))
    poses |= dict(zip(model.body_names, pp.poses(model, q), strict=True))
    for name, pose in poses.items():
        known = "world" if name == "world_link" else name
        frame = theirs.getFrameId(known, pin.FrameType.BODY)
        np.testing.assert_allclose(pose, data.oMf[frame].homogeneous, rtol=0, atol=1e-9)

    tau_needed = inverse_dynamics(model, q, v, vdot)
    close(to_pinocchio(model, q, tau=tau_needed).tau, pin.rnea(theirs, data, *state[:3]))

    upper = np.triu(pin.crba(theirs, data, state.q))
    M_theirs = upper + np.triu(upper, 1).T
    T = to_pinocchio(model, np.tile(q, (model.nv, 1)), np.eye(model.nv)).v.T
    close(T @ mass_matrix(model, q) @ T.T, M_theirs)

    condition = np.linalg.cond(M_theirs) if model.nv else 1.0
    if not np.isfinite(condition) or condition > 1e15:
        with pytest.raises(SingularHingeError, match="has no inertia to move") as caught:
            forward_dynamics(model, q, v, tau)
        assert any(repr(name) in str(caught.value) for name in model.joint_names)
        return
    accelerations = pin.aba(theirs, data, state.q, state.v, state.tau)
    ours = to_pinocchio(model, q, v, forward_dynamics(model, q, v, tau)).vdot
    close(ours, accelerations, max(1e-9, 100 * condition * 2.2e-16))


def in_mujoco(path: Path) -> mujoco.MjModel | None:
    """The robot without its shapes in MuJoCo, None where MuJoCo refuses the inertias."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"<(visual|collision)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r"<mimic\b[^>]*/>", "", text)
    options = '<mujoco><compiler balanceinertia="false" fusestatic="false"/></mujoco></robot>'
    text = text.replace("</robot>", options)
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError:
        return None


ACCEPTED = [path for path in LOADABLE if in_mujoco(path) is not None]


def test_mujoco_accepts_many():
    assert len(ACCEPTED) >= 45


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_agrees_with_mujoco(path: Path):
    model, theirs = shipped(path, "fixed"), in_mujoco(path)
    data = mujoco.MjData(theirs)
    names = [theirs.joint(k).name for k in range(theirs.njnt)]
    rng = np.random.default_rng(5)
    q, v = model.random_configuration(rng), rng.normal(size=model.nv)
    state = to_mujoco(model, q, v, names=names)
    data.qpos, data.qvel = state.q, state.v
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    mujoco.mj_forward(theirs, data)
    columns = np.zeros((theirs.nv, theirs.nv))
    for k, unit in enumerate(np.eye(theirs.nv)):
        mujoco.mj_mulM(theirs, data, columns[k], unit)
    T = to_mujoco(model, np.tile(q, (model.nv, 1)), np.eye(model.nv), names=names).v.T
    close(T @ mass_matrix(model, q) @ T.T, columns)
    close(to_mujoco(model, q, tau=bias_forces(model, q, v), names=names).tau, data.qfrc_bias)


@pytest.mark.parametrize("base", ["fixed", "free"])
def test_every_robot_can_be_saved_and_loaded_again(base: str, tmp_path: Path):
    for path in LOADABLE:
        model = shipped(path, base)
        text = save_urdf(model, tmp_path / path.name)
        again = quietly(tmp_path / path.name, base)
        assert again.joint_names == model.joint_names, path
        assert (
            again.couplings == model.couplings and again.joint_properties == model.joint_properties
        ), path
        for array in ("lower", "upper", "damping"):
            np.testing.assert_array_equal(getattr(again, array), getattr(model, array))
        for array in ("inertia_matrices", "placement_rotations", "placement_translations"):
            np.testing.assert_allclose(getattr(again, array), getattr(model, array), atol=1e-14)
        for name, (host, pose) in model.frames.items():
            assert again.frames[name][0] == host, path
            np.testing.assert_allclose(again.frames[name][1].matrix, pose.matrix, atol=1e-14)
        uris = [sorted(s.uri for s in m.geometry) for m in (again, model)]
        assert uris[0] == uris[1], path
        if base == "fixed":
            assert pin.buildModelFromXML(text, mimic=False).nv == model.nv, path


def test_the_empty_robot_is_refused():
    (empty,) = [path for path in ROBOTS if path.name == EMPTY]
    with pytest.raises(ModelError, match=r"ur3\.urdf:6: <robot>: there is no <link>"):
        load(empty)


def test_the_diagnosis_of_all_shipped_robots():
    counts: Counter[str] = Counter()
    for path in LOADABLE:
        model = shipped(path, "fixed")
        counts.update(finding.kind for finding in model.diagnosis)
        for finding in model.diagnosis:
            line = path.read_text(encoding="utf-8", errors="replace").splitlines()[finding.line - 1]
            assert "<" in line, f"{finding} points at {line!r}"
    assert counts["massless"] == 219
    assert counts["singular"] == 300
    assert counts["triangle"] == 56
    assert counts["negative"] == 9
    assert counts["limit"] == 12
    assert counts["mesh"] == 20  # absolute paths of the machine one robot was made on


def test_every_mesh_but_the_absolute_ones_is_found():
    missing = []
    for path in LOADABLE:
        model = shipped(path, "fixed")
        missing += [s.uri for s in model.geometry if s.uri and s.file is None]
    assert len(missing) == 20 and all(uri.startswith("file:///usr/") for uri in missing)


def test_one_warning_for_a_robot_with_bad_inertias():
    (path,) = [path for path in ROBOTS if path.name == "romeo.urdf"]
    with pytest.warns(PhipsiWarning) as caught:
        model = load(path)
    assert len(caught) <= 2
    problems = [f for f in model.diagnosis if f.is_problem]
    assert str(len(problems)) in str(caught[0].message)
    with pytest.raises(ModelError, match="strict=True rejects it"):
        load(path, strict=True)
