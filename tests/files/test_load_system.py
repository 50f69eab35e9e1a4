"""Loops in files: mimic joints, SDF joints that close loops, equality constraints of MJCF."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c

mujoco = pytest.importorskip("mujoco")
DATA = Path(__file__).parent / "data"
BALL = '<geom size="0.1"/>'


# ---- URDF ------------------------------------------------------------------------------------


def test_mimic_joints_of_urdf_are_coupled(recwarn):
    system = pp.load(DATA / "arm.urdf")
    assert not [w for w in recwarn if "independently" in str(w.message)]
    (said,) = system.model.couplings
    (made,) = system.constraints
    assert isinstance(made, c.Coupling) and made.name == "finger_right mimics finger_left"
    rng = np.random.default_rng(0)
    q = system.assemble(system.model.random_configuration(rng))
    right, left = (q[system.model.q_slice(n)] for n in (said.joint, said.of))
    assert_allclose(right, said.multiplier * left + said.offset, atol=1e-12)
    q, v = system.project(q, rng.standard_normal(system.model.nv))
    right, left = (v[system.model.v_slice(n)] for n in (said.joint, said.of))
    assert_allclose(right, said.multiplier * left, atol=1e-12)


def test_a_file_without_loops_is_a_tree(tmp_path):
    pp.save_urdf(pp.examples.planar_arm(2).with_gravity((0, 0, -9.81)), tmp_path / "arm.urdf")
    for loops in ("close", "cut"):
        model = pp.load(tmp_path / "arm.urdf", loops=loops)
        assert type(model) is pp.Model and model.n_rows == 0 and model.nv == 2


def test_loops_are_cut_on_request_and_that_is_reported(tmp_path):
    with pytest.warns(pp.errors.PhipsiWarning, match="mimic.*move independently"):
        arm = pp.load(DATA / "arm.urdf", loops="cut")
    assert type(arm) is pp.Model and len(arm.couplings) == 1
    path = tmp_path / "loop.sdf"
    path.write_text(four_bar_sdf())
    with pytest.warns(pp.errors.PhipsiWarning, match="joint 'D': it closes a loop and is left out"):
        tree = pp.load(path, loops="cut")
    assert type(tree) is pp.Model and tree.joint_names == pp.load(path).joint_names


# ---- SDF -------------------------------------------------------------------------------------

LINK = (
    "<link name='{n}'><pose>{p}</pose><inertial><pose>0.5 0 0 0 0 0</pose><mass>1</mass><inertia>"
    "<ixx>0.01</ixx><iyy>0.1</iyy><izz>0.1</izz></inertia></inertial></link>"
)


def joint(name: str, parent: str, child: str, pose: str, kind: str = "revolute") -> str:
    axis = "<axis><xyz>0 0 1</xyz></axis>" if kind in ("revolute", "screw", "prismatic") else ""
    return (
        f"<joint name='{name}' type='{kind}'><parent>{parent}</parent><child>{child}</child>"
        f"<pose relative_to='__model__'>{pose}</pose>{axis}</joint>"
    )


def four_bar_sdf(last: str = "revolute", limit: str = "") -> str:
    """A parallelogram in the x-y plane at its zero configuration; 'D' comes last."""
    links = "".join(
        LINK.format(n=n, p=p)
        for n, p in (
            ("crank", "0 0 0 0 0 1.5707963267948966"),
            ("coupler", "0 1 0 0 0 0"),
            ("rocker", "2 0 0.3 0.4 0.2 0.1"),  # a frame of its own
        )
    )
    joints = (
        joint("A", "world", "crank", "0 0 0 0 0 0")
        + joint("B", "crank", "coupler", "0 1 0 0 0 0")
        + joint("C", "coupler", "rocker", "2 1 0 0 0 0")
        + joint("D", "world", "rocker", "2 0 0 0 0 0", last).replace("</axis>", f"{limit}</axis>")
    )
    return f"<sdf version='1.9'><model name='m'>{links}{joints}</model></sdf>"


def test_a_loop_of_sdf_is_closed_at_zero_and_moves_as_a_parallelogram(tmp_path):
    path = tmp_path / "loop.sdf"
    path.write_text(four_bar_sdf())
    system = pp.load(path)
    model = system.model
    assert [x.name for x in system.constraints] == ["D"]
    q = model.neutral()
    assert_allclose(system.residual(q), 0, atol=1e-12)
    assert system.mobility(q).mobility == 1
    v = np.linalg.svd(system.jacobian(q))[2][-1]
    rates = {n: v[model.v_slice(n)][0] for n in "ABC"}
    assert_allclose(rates["A"], -rates["B"], atol=1e-12)
    assert_allclose(rates["A"], rates["C"], atol=1e-12)
    turned = np.zeros(3)
    for name, sign in (("A", 1), ("B", -1), ("C", 1)):
        turned[model.q_slice(name)] = 0.4 * sign
    assert_allclose(system.residual(turned), 0, atol=1e-12)


@pytest.mark.parametrize(("kind", "rows"), [("fixed", 6), ("ball", 3), ("prismatic", 5)])
def test_joints_of_other_types_close_loops_too(tmp_path, kind, rows):
    path = tmp_path / "loop.sdf"
    path.write_text(four_bar_sdf(kind))
    system = pp.load(path)
    assert system.n_rows == rows
    assert_allclose(system.residual(system.model.neutral()), 0, atol=1e-12)


def test_a_floating_cycle_of_links_is_cut(tmp_path):
    path = tmp_path / "loop.sdf"
    names = ["a", "b", "c", "d"]
    corners = ["0 0 0 0 0 0", "1 0 0 0 0 0", "1 1 0 0 0 0", "0 1 0 0 0 0"]
    links = "".join(LINK.format(n=n, p=p) for n, p in zip(names, corners, strict=True))
    joints = "".join(joint(f"j{i}", names[i - 1], names[i], corners[i]) for i in (1, 2, 3, 0))
    path.write_text(f"<sdf version='1.9'><model name='m'>{links}{joints}</model></sdf>")
    system = pp.load(path)
    assert [x.name for x in system.constraints] == ["j0"]
    assert system.model.nv == 9
    q = system.model.neutral()
    q = system.assemble(q)
    assert system.mobility(q).mobility == 7  # six of the whole, one of the square


def test_loops_of_sdf_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "loop.sdf"
    screw = four_bar_sdf("screw").replace("</joint></model>",
        "<screw_thread_pitch>0.1</screw_thread_pitch></joint></model>")  # fmt: skip
    path.write_text(screw)
    with pytest.raises(pp.errors.ModelError, match=r"loop\.sdf:\d+: joint 'D': it closes a loop"):
        pp.load(path)
    path.write_text(four_bar_sdf(limit="<limit><lower>-1</lower><upper>1</upper></limit>"))
    with pytest.warns(pp.errors.PhipsiWarning, match="'D'.*limits and damping are lost"):
        pp.load(path)
    with pytest.raises(pp.errors.ModelError, match=r"joint 'D': it closes a loop and is left out"):
        pp.load(path, loops="cut", strict=True)


def test_a_run_starts_with_closed_loops(tmp_path, capsys):
    """The command line closes them, with the joints that were named as they were said to be."""
    from phipsi.cli.commands import app

    (tmp_path / "loop.sdf").write_text(four_bar_sdf())
    words = ["simulate", str(tmp_path / "loop.sdf"), "--duration", "0.2", "--set", "A=0.3"]
    words += ["--set-velocity", "A=0.5", "--out", str(tmp_path / "run.npz")]
    assert app(words, exit_on_error=False, result_action="return_value") == 0
    assert "energy" in capsys.readouterr().out
    run = pp.Trajectory.load(tmp_path / "run.npz")
    model = run.model
    assert_allclose(run.q[0][model.q_slice("A")], 0.3, atol=1e-12)
    assert_allclose(run.v[0][model.v_slice("A")], 0.5, atol=1e-12)
    assert_allclose(run.q[:, model.q_slice("A")], -run.q[:, model.q_slice("B")], atol=1e-9)
    words[4:] = ["--set", "A=0.3", "--set-velocity", "A=0.5", "--set-velocity", "B=0.5"]
    assert app(words, exit_on_error=False, result_action="return_value") == 2
    assert "contradict constraint row 'D." in capsys.readouterr().err
    (tmp_path / "run.toml").write_text('model = "loop.sdf"\nduration = 0.1\ninitial.q.A = 0.4\n')
    scenario = pp.load_scenario(tmp_path / "run.toml")
    assert_allclose(scenario.model.residual(scenario.q0), 0, atol=1e-9)
    assert scenario.simulate().complete


# ---- MJCF ------------------------------------------------------------------------------------

TREE = f"""
<body name="a" pos="0 0 1"><joint name="i" axis="0 1 0" pos="0 0 0.1"/>{BALL}
  <body name="b" pos="0.5 0 0" euler="10 20 30"><joint name="j" type="hinge" axis="1 0 1"/>{BALL}
    <body name="e" pos="0.3 0 0"><joint name="k" type="ball"/>{BALL}
      <site name="tip" pos="0.2 0 0" euler="5 0 0"/></body></body></body>
<body name="f" pos="0 0.7 0.2"><freejoint/>{BALL}<site name="grip" pos="0 0.1 0"/></body>
<body name="s"><joint name="s" type="slide" axis="1 0 0" ref="0.2"/>{BALL}</body>
"""


def mjcf(folder: Path, equality: str) -> Path:
    path = folder / "robot.xml"
    path.write_text(
        f"<mujoco>\n<equality>\n{equality}\n</equality>\n<worldbody>{TREE}</worldbody></mujoco>"
    )
    return path


def theirs(path: Path, qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals and Jacobian of MuJoCo's equality rows."""
    m = mujoco.MjModel.from_xml_path(str(path))
    m.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    d = mujoco.MjData(m)
    d.qpos[:] = qpos
    mujoco.mj_forward(m, d)
    rows = d.efc_type[: d.nefc] == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    return d.efc_pos[: d.nefc][rows], d.efc_J.reshape(d.nefc, m.nv)[rows]


def same_space(ours: np.ndarray, other: np.ndarray) -> None:
    """Both sets of rows constrain the same motions."""
    rank = np.linalg.matrix_rank(np.vstack([ours, other]), tol=1e-9)
    assert rank == np.linalg.matrix_rank(ours, tol=1e-9) == np.linalg.matrix_rank(other, tol=1e-9)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('<connect name="x" body1="e" body2="f" anchor="0.1 0.2 0.3"/>', c.Spherical),
        ('<connect name="x" body1="e" anchor="0.1 0.2 0.3"/>', c.Spherical),
        ('<connect name="x" site1="tip" site2="grip"/>', c.Spherical),
        ('<weld name="x" body1="e" body2="f"/>', c.Weld),
        ('<weld name="x" body1="b" body2="f" relpose="0.1 0.2 0.3 0.5 0.5 0.5 0.5"/>', c.Weld),
        ('<weld name="x" body1="b" body2="f" anchor="0.3 0.1 0"/>', c.Weld),
        ('<weld name="x" site1="tip" site2="grip"/>', c.Weld),
        ('<joint name="x" joint1="i" joint2="s" polycoef="0.1 0.7 0 0 0"/>', c.Coupling),
        ('<joint name="x" joint1="s" polycoef="0.3 0 0 0 0"/>', c.Coupling),
    ],
)
def test_equality_constraints_are_those_of_mujoco(tmp_path, text, kind):
    path = mjcf(tmp_path, text)
    system = pp.load(path)
    (made,) = system.constraints
    assert isinstance(made, kind) and made.name == "x"
    rng = np.random.default_rng(0)
    q = system.model.random_configuration(rng)
    residual, _ = theirs(path, pp.conventions.to_mujoco(system.model, q)[0])
    mine = system.residual(q)
    if kind is c.Coupling:
        assert_allclose(np.abs(mine), np.abs(residual), atol=1e-12)
    else:
        linear = slice(-3, None)
        assert_allclose(
            np.linalg.norm(mine[linear]), np.linalg.norm(residual[:3]), rtol=1e-9, atol=1e-12
        )
    closed = system.assemble(q, restarts=20)
    residual, J = theirs(path, pp.conventions.to_mujoco(system.model, closed)[0])
    assert_allclose(residual, 0, atol=1e-9)
    units = np.eye(system.model.nv)
    columns = [J @ pp.conventions.to_mujoco(system.model, closed, e)[1] for e in units]
    same_space(system.jacobian(closed), np.transpose(columns))


def test_a_joint_called_world_is_tied_under_its_new_name(tmp_path):
    path = mjcf(
        tmp_path, '<joint joint1="world" joint2="j"/><connect body1="e" body2="f" anchor="0 0 0"/>'
    )
    path.write_text(path.read_text().replace('name="i"', 'name="world"'))
    system = pp.load(path)
    assert system.joint_names[0] == "world_joint"
    assert system.constraints[0].joints == ("world_joint", "j")


def test_several_constraints_and_inactive_ones(tmp_path):
    path = mjcf(
        tmp_path,
        '<connect body1="e" body2="f" anchor="0 0 0"/>'
        '<weld name="off" body1="b" body2="f" active="false"/>'
        '<joint joint1="i" joint2="j"/>',
    )
    system = pp.load(path)
    assert [x.name for x in system.constraints] == ["equality1", "equality3"]
    with pytest.warns(
        pp.errors.PhipsiWarning, match="2 loop(.|\n)*ties motions together and is left out"
    ):
        tree = pp.load(path, loops="cut")
    assert type(tree) is pp.Model and tree.nv == system.nv


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<joint joint1="i" joint2="j" polycoef="0 1 2 0 0"/>', "is not linear"),
        ('<joint joint1="u" joint2="i"/>', "has no coordinate of its own"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, message):
    path = mjcf(tmp_path, text)
    two = '<body name="t"><joint name="u"/><joint name="w" axis="1 0 0"/><geom size="0.1"/></body>'
    path.write_text(path.read_text().replace("</worldbody>", f"{two}</worldbody>"))
    with pytest.raises(
        pp.errors.ModelError, match=rf"robot\.xml:3: equality <joint>(.|\n)*{message}"
    ):
        pp.load(path)
