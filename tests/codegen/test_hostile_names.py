"""Names from files are data in whatever is exported: they run nothing, and arrive as they are.

The full run is `python scripts/fuzz_exports.py`.
"""

from __future__ import annotations

import json
import os

import amounts
import pytest
from exported_code import node_program, run, tool
from hostile_names import CHECKS, STRICT, check_fmu, hostile_names

import phipsi as pp
from phipsi.codegen.quoted_texts import c_string, comment, markdown

pytestmark = pytest.mark.quick_code
TOOLS = {"cmake": ("gcc", "cmake"), "rust": ("rustc",), "object": ("gcc", "g++"), "web": ()}
SLOW = ("cmake", "rust", "object")


@pytest.mark.parametrize("what", CHECKS)
def test_hostile_names_are_data_in_every_export(what, tmp_path):
    pytest.importorskip("markdown_it")
    for name in TOOLS.get(what, ("gcc",)):
        tool(name)
    for seed in amounts.seeds(20, 1 if what in SLOW else 2):
        (tmp_path / str(seed)).mkdir()
        CHECKS[what](seed, tmp_path / str(seed))


def test_names_of_fmus_of_version_2_are_unique(tmp_path):
    check_fmu(0, tmp_path, fmi="2.0", compiled=False)


URDF = """<robot name="arm */&#10;#include &lt;stdlib.h&gt;&#10;int pwned(void) { return 1; } /*">
<link name="base"/>
<link name="hand"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
 iyz="0"/></inertial></link>
<joint name="RESULT_ROLL" type="continuous"><parent link="base"/><child link="hand"/></joint>
</robot>
"""


def test_the_name_of_a_robot_file_runs_nothing(tmp_path):
    """The header, the test and the crate were compiled with it, and the module imported."""
    (tmp_path / "arm.urdf").write_text(URDF)
    model = pp.load(tmp_path / "arm.urdf")
    assert "\n#include <stdlib.h>\n" in model.name
    pp.export(model, tmp_path / "c", what="mass_matrix", name="arm", target="c")
    words = ["test_arm.c", "arm.c", "-o", "t", "-lm"]
    run(tool("gcc"), *STRICT, *words, cwd=tmp_path / "c")
    assert run("./t", cwd=tmp_path / "c") == "ok"
    for file in (tmp_path / "c").iterdir():
        lines = file.read_bytes().split(b"\n")
        assert not [x for x in lines if x.startswith((b"#include <stdlib", b"int pwned"))], file
    pp.export(model, tmp_path / "web", what="mass_matrix", name="arm", target="wasm32")
    say = 'import { joints } from "./arm.mjs"; console.log(JSON.stringify(joints));'
    (tmp_path / "web/say.mjs").write_text(say)
    joints = json.loads(run(node_program(), "say.mjs", cwd=tmp_path / "web"))
    assert [x["name"] for x in joints] == ["RESULT_ROLL"]


def test_fmu_variables_of_names_that_differ_in_unprintable_characters(tmp_path):
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.1, 0, 0), 0.1)
    for name in ("j\x01", "j\x02", "j?", "j?_"):
        joint = pp.joints.Revolute()
        builder.add_body(f"b{name}", joint=joint, inertia=inertia, joint_name=name)
    for fmi in ("3.0", "2.0"):
        path = tmp_path / f"v{fmi[0]}.fmu"
        pp.export_fmu(pp.Simulator(builder.build()), path, fmi=fmi, binary=False)
        fmpy = pytest.importorskip("fmpy")
        names = [x.name for x in fmpy.read_model_description(str(path)).modelVariables]
        assert len(names) == len(set(names))
        assert {"q.j?", "q.j?_", "q.j?__", "q.j?___", "der(q.j?___)"} <= set(names)


def test_quoted_texts_are_of_one_line():
    """Whatever is quoted: no line ends, and what is quoted twice stays quoted."""
    for text in hostile_names(99, 200):
        assert comment(text).isascii() and "*/" not in comment(text) and "\n" not in comment(text)
        assert not comment(text).endswith("\\") and "??" not in comment(text)
        assert comment(comment(text)) == comment(text)
        quoted = c_string(text)
        assert quoted.isascii() and quoted.count('"') == 2 and "\n" not in quoted
        assert eval("b" + quoted) == text.encode()  # as C reads it
        assert "\n" not in markdown(text) and "\r" not in markdown(text)


def test_constants_of_joints_and_of_functions_differ(tmp_path):
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.1, 0, 0), 0.1)
    joint = pp.joints.Revolute()
    builder.add_body("b", joint=joint, inertia=inertia, joint_name="a_work")
    program = pp.compile("mass_matrix", builder.build(), mode="dense", backend="native")
    pp.export({"q_a": program, "v_a": program}, tmp_path / "x", target="c")
    text = (tmp_path / "x/robot.h").read_text()
    assert "#define ROBOT_Q_A_WORK_ 0" in text and os.listdir(tmp_path) == ["x"]
    run(tool("gcc"), *STRICT, "test_robot.c", "robot.c", "-o", "t", "-lm", cwd=tmp_path / "x")
    assert run("./t", cwd=tmp_path / "x") == "ok"
