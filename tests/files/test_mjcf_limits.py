"""What reaches MuJoCo's reader of an MJCF file, and what is refused before."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import FileError, PhipsiWarning
from phipsi.files.load import load
from phipsi.files.mjcf import checked_files as mjcf_limits
from phipsi.files.mjcf.mujoco_arrays import compiled
from phipsi.files.mjcf.mujoco_text import text_for_mujoco
from phipsi.files.mjcf.read_mjcf import READERS
from phipsi.files.xml_document import parse_xml

MACHINE = Path(__file__).parent / "data" / "machine.xml"
BODY = '<body name="a"><joint name="j"/><geom size="0.1"/></body>'


def written(folder: Path, head: str = "", inside: str = BODY) -> Path:
    path = folder / "robot.xml"
    path.write_text(f"<mujoco>{head}\n<worldbody>\n{inside}\n</worldbody></mujoco>")
    return path


# ---- texts that MuJoCo could take for formats ----------------------------------------------------

FORMATS = {
    "class": (2, '<geom size="1" class="%s%s%s%s%n"/>', ""),
    "childclass": (2, '<body childclass="%n"/>', ""),
    "name": (2, '<body name="%n"/><body name="%n"/>', ""),
    "entity": (2, '<geom size="1" class="&#37;n"/>', ""),
    "number": (2, '<geom size="%n"/>', ""),
    "word": (2, '<geom size="1" type="%n"/>', ""),
    "unknown attribute": (2, '<geom size="1" nothing="%n"/>', ""),
    "material": (2, '<geom size="1" material="%n"/>', ""),
    "mesh": (2, '<geom type="mesh" mesh="%n"/>', ""),
    "frame": (2, '<frame name="%n"/>', ""),
    "prefix": (2, '<replicate count="2" sep="%n">' + BODY + "</replicate>", ""),
    "compiler": (1, BODY, '<compiler angle="%n"/>'),
    "folder": (1, BODY, '<compiler meshdir="%n"/>'),
    "default": (1, BODY, '<default class="%n"/>'),
    "asset": (1, BODY, '<asset><mesh name="m" file="%n.stl"/></asset>'),
    "texture": (1, BODY, '<asset><texture name="%n" builtin="flat" width="1" height="1"/></asset>'),
    "actuator": (1, BODY, '<actuator><motor joint="%n"/></actuator>'),
    "tendon": (1, BODY, '<tendon><fixed name="t"><joint joint="%n" coef="1"/></fixed></tendon>'),
    "equality": (1, BODY, '<equality><weld body1="%n" body2="a"/></equality>'),
    "contact": (1, BODY, '<contact><exclude body1="a" body2="%n"/></contact>'),
    "include": (1, BODY, '<include file="%n.xml"/>'),
    "flag": (1, BODY, '<option><flag gravity="%n"/></option>'),
    "model": (0, BODY, ""),
}


@pytest.mark.parametrize("case", FORMATS)
def test_nothing_that_could_be_a_format_reaches_mujoco(tmp_path: Path, case: str):
    line, inside, head = FORMATS[case]
    path = written(tmp_path, head, inside.replace("\n", ""))
    if case == "model":
        path.write_text(path.read_text().replace("<mujoco>", '<mujoco model="%n">'))
    (tmp_path / "%n").mkdir()
    for name in ("%n.stl", "%n.xml"):
        (tmp_path / name).write_text("<mujoco/>")
    with pytest.raises(FileError, match="contains '%'") as caught:
        load(path, isolate=False)
    assert str(caught.value).startswith(f"{path}:{line + 1 if line == 2 else 1}: ")


def test_a_comment_or_data_that_mujoco_does_not_get_may_have_a_percent_sign(tmp_path: Path):
    head = '<!-- 100% --><custom><text name="note" data="50% %n"/></custom>some %n'
    assert load(written(tmp_path, head)).nv == 1


def test_a_format_that_gets_through_ends_the_reader_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With the check taken away: MuJoCo's own fault, which is an error here."""
    monkeypatch.setattr(mjcf_limits, "_check_text", lambda element, fields: None)
    path = written(tmp_path, "", '<geom size="1" class="%s%s%s%s%n"/>')
    with pytest.raises(FileError, match=r"robot\.xml:\d+: .*MuJoCo"):
        load(path)
    assert load(written(tmp_path)).nv == 1


# ---- what MuJoCo gets ----------------------------------------------------------------------------

FURNISHED = """<mujoco model="furnished">
<compiler angle="radian" eulerseq="xyz"><lengthrange mode="all" interval="0.5"/></compiler>
<size nkey="5" nuser_geom="7"/>
<option gravity="0 1 -3" density="2"><flag contact="enable"/></option>
<custom><numeric name="n" size="400" data="1"/></custom>
<asset>
  <texture name="t" type="cube" builtin="gradient" width="300" height="300" rgb1="1 0 0"/>
  <material name="m" texture="t" rgba="0.1 0.2 0.3 1"/>
  <hfield name="h" nrow="3" ncol="3" size="1 2 3 4" elevation="1 2 3 4 5 6 7 8 9"/>
  <mesh name="ball" builtin="sphere" params="2"/>
</asset>
<worldbody>
  <geom type="hfield" hfield="h" name="ground"/>
  <body name="a &amp; &quot;b&quot; &lt;" pos="0 0 1" euler="0.1 0.2
    0.3"><freejoint name="f"/>
    <geom name="g" size="0.1" material="m" user="1 2 3"/>
    <geom type="mesh" mesh="ball" density="300"/>
    <body name="c" pos="0.3 0 0"><joint name="j" axis="0 1 0" range="-1 1" damping="0.2"/>
      <geom type="hfield" hfield="h" pos="0 0 0.1" mass="2"/><site name="s" pos="0.1 0 0"/></body>
  </body>
  <body name="d" pos="0 0 1.05"><freejoint/><geom size="0.1"/></body>
</worldbody>
<equality><connect body1="c" body2="d" anchor="0 0 0.2"/></equality>
<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>
<actuator><muscle joint="j"/></actuator>
<sensor><gyro site="s"/></sensor>
<keyframe><key name="k" qpos="0 0 1 1 0 0 0 0 0 0 1 1 0 0 0"/></keyframe>
</mujoco>
"""


def test_what_is_left_out_changes_nothing_that_is_read():
    """The whole file and what MuJoCo gets of it, both compiled: the same arrays and names."""
    document = parse_xml(FURNISHED.encode(), "x")
    written = text_for_mujoco(document, True, {"h"})
    for word in ("keyframe", "<sensor", "custom", "user=", "gradient"):
        assert word in FURNISHED and word not in written
    assert "elevation" in written and "elevation" not in text_for_mujoco(document, True)
    for text in (FURNISHED, MACHINE.read_text()):
        whole, all_arrays = compiled(text, {}, {})
        again = text_for_mujoco(parse_xml(text.encode(), "x"), True, {"h"})
        ours, arrays = compiled(again, {}, {})
        assert whole["names"] == ours["names"] and whole.keys() == ours.keys()
        assert all_arrays.keys() == arrays.keys()
        for name, array in all_arrays.items():
            np.testing.assert_array_equal(array, arrays[name], name)
    assert compiled(FURNISHED, {}, {})[0]["names"]["actuator"] == [""]


def test_every_element_keeps_its_line():
    document = parse_xml(FURNISHED.encode(), "x")
    again = parse_xml(text_for_mujoco(document, True).encode(), "x")
    lines = {(e.tag, e.name): e.line for e in walk(document)}
    found = {(e.tag, e.name): e.line for e in walk(again)}
    assert len(set(found) & set(lines)) > 20
    for key in set(found) & set(lines) - {("size", ""), ("compiler", ""), ("option", "")}:
        if key not in (("lengthrange", ""), ("flag", ""), ("geom", ""), ("freejoint", "")):
            assert found[key] == lines[key], key


def walk(element):  # type: ignore[no-untyped-def]
    yield element
    for child in element.children:
        yield from walk(child)


# ---- sums and products ---------------------------------------------------------------------------

MANY = {
    "geoms": ("", '<geom size="1"/>' * 20_001, "more than 20,000 elements"),
    "copies": (
        "",
        f'<replicate count="500">{"".join("<geom/>" for _ in range(60))}</replicate>',
        "more than 20,000 elements",
    ),
    "classes": (
        "<default>" + "".join(f'<default class="c{i}"/>' for i in range(20_001)) + "</default>",
        BODY,
        "more than 20,000 elements",
    ),
    "wedges": (
        "<asset>"
        + "".join(
            f'<mesh name="{i}" builtin="wedge" params="200 200 60 60 0.5"/>' for i in range(3)
        )
        + "</asset>",
        BODY,
        "more than 100,000 vertices",
    ),
    "tori": (
        "<asset>"
        + "".join(f'<mesh name="{i}" builtin="supertorus" params="190 0.5 1 1"/>' for i in range(3))
        + "</asset>",
        BODY,
        "more than 100,000 vertices",
    ),
}


@pytest.mark.parametrize("case", MANY)
def test_too_much_together(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch):
    head, inside, words = MANY[case]
    monkeypatch.setattr(READERS, "ask", lambda *_: pytest.fail("MuJoCo was asked"))
    with pytest.raises(FileError, match=words) as caught:
        load(written(tmp_path, head, inside))
    assert len(str(caught.value)) < 1000


MUCH = {
    "keyframes": '<size nkey="100000"/>',
    "height fields": "<asset>"
    + "".join(f'<hfield name="{i}" nrow="2000" ncol="2000" size="1 1 1 1"/>' for i in range(50))
    + "</asset>",
    "texture": '<asset><texture name="t" builtin="flat" width="4096" height="24576"/></asset>',
    "user data": '<size nuser_geom="1000000" nuser_body="1000000" nuser_jnt="1000000"/>',
    "arena": '<size memory="900G" njmax="1000000" nconmax="1000000"/>',
    "muscles": '<compiler><lengthrange mode="all" inttotal="1e9" timestep="1e-6" interval="1e8"/>'
    '</compiler><actuator><muscle joint="j"/></actuator>',
    "iterations": '<option iterations="1000000000" tolerance="0" timestep="1e-9"/>',
}


def test_what_no_mechanism_needs_costs_nothing(tmp_path: Path):
    """Each took gigabytes or minutes; a model of one body fits in 400 MB, most of it reserved."""
    for head in MUCH.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if "muscle" in head else "error", PhipsiWarning)
            assert load(written(tmp_path, head), max_memory=400_000_000, max_seconds=30).nv == 1


def test_one_file_counts_for_each_mesh_that_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from phipsi.files.mjcf import checked_files as mjcf_files

    monkeypatch.setattr(mjcf_files, "MAX_USED_BYTES", 1000)
    (tmp_path / "m.stl").write_bytes(b"x" * 300)
    meshes = "".join(f'<mesh name="m{i}" file="m.stl"/>' for i in range(4))
    with pytest.raises(FileError, match="mesh 'm3': the meshes have more"):
        load(written(tmp_path, f"<asset>{meshes}</asset>"))


def test_included_files_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from phipsi.files import xml_document as document

    monkeypatch.setattr(document, "MAX_ELEMENTS", 30)
    (tmp_path / "a.xml").write_text("<mujocoinclude>" + "<geom/>" * 20 + "</mujocoinclude>")
    (tmp_path / "b.xml").write_text("<mujocoinclude>" + "<geom/>" * 20 + "</mujocoinclude>")
    path = written(tmp_path, "", '<include file="a.xml"/><include file="b.xml"/>')
    with pytest.raises(FileError, match="included up to here have more than"):
        load(path)
    inner = '<sdf version="1.9"><model name="m{}"><link name="a"/>{}</model></sdf>'
    (tmp_path / "m.sdf").write_text(inner.format(1, "<plugin/>" * 20))
    outer = "".join(f"<include><name>n{i}</name><uri>m.sdf</uri></include>" for i in range(2))
    (tmp_path / "n.sdf").write_text(inner.format(0, outer))
    with pytest.raises(FileError, match="included up to here have more than"):
        load(tmp_path / "n.sdf")


# ---- folders -------------------------------------------------------------------------------------


def test_the_call_in_the_message_allows_all_folders(tmp_path: Path):
    """A model that is spread over folders: pasting what the message says, again and again."""
    robot = tmp_path / "robot"
    for name in ("robot", "assets", "parts", "more", "pictures"):
        (tmp_path / name).mkdir()
    obj = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "assets" / "tip.obj").write_text(obj)
    (tmp_path / "more" / "top.obj").write_text(obj)
    (tmp_path / "pictures" / "skin.png").write_bytes(b"never opened")
    (tmp_path / "parts" / "tip.xml").write_text(
        '<mujocoinclude><asset><mesh name="top" file="../more/top.obj"/></asset></mujocoinclude>'
    )
    path = robot / "robot.xml"
    path.write_text(
        '<mujoco><compiler meshdir="../assets"/><include file="../parts/tip.xml"/><asset>'
        '<mesh name="tip" file="tip.obj"/><texture file="../pictures/skin.png" type="2d"/></asset>'
        '<worldbody><body><joint/><geom type="mesh" mesh="tip"/><geom type="mesh" mesh="top"/>'
        "</body></worldbody></mujoco>"
    )
    call, calls = f"pp.load({str(path)!r})", 0
    while True:
        try:
            model = eval(call, {"pp": pp})
            break
        except pp.errors.PhipsiError as error:
            assert calls < 3, error
            call, calls = str(error).splitlines()[-1].strip(), calls + 1
            assert re.fullmatch(r"pp\.load\('.*', package_dirs=\[.*\]\)", call)
    assert calls == 2  # what the included file names is known once that may be read
    assert [shape.file for shape in model.geometry] == [
        str(tmp_path.resolve() / "assets" / "tip.obj"),
        str(tmp_path.resolve() / "more" / "top.obj"),
    ]
    with pytest.raises(FileError) as caught:
        load(path, package_dirs={"parts": tmp_path / "parts"})
    call = str(caught.value).splitlines()[-1].strip()
    assert "package_dirs={'parts': " in call
    assert eval(call, {"pp": pp}).nv == 1
