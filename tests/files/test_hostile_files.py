"""Files made to do harm are refused, and nothing outside the package is opened meanwhile."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from phipsi.errors import FileError, PhipsiWarning
from phipsi.files.allowed_folders import AllowedFolders, Rejected
from phipsi.files.load import load

MASS = (
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" '
    'izz="1"/></inertial>'
)
LOAD = """
    import sys, warnings
    warnings.simplefilter("ignore")
    sys.path[:0] = {path!r}
    from phipsi.errors import ModelError
    from phipsi.files.load import load
"""


def urdf(inside: str = "", head: str = "") -> bytes:
    return f'{head}<robot name="r"><link name="a">{MASS}{inside}</link></robot>'.encode()


def mesh(uri: str) -> bytes:
    return urdf(f'<visual><geometry><mesh filename="{uri}"/></geometry></visual>')


def sdf(inside: str = "") -> bytes:
    return f'<sdf version="1.9"><model name="m"><link name="a"/>{inside}</model></sdf>'.encode()


def mjcf(inside: str = "", head: str = "") -> bytes:
    return (
        f"{head}<mujoco>{inside}<worldbody><body><freejoint/><geom "
        'size="1"/></body></worldbody></mujoco>'
    ).encode()


def bomb(levels: int = 10) -> str:
    lines = ['<!ENTITY a0 "ha">']
    lines += [f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, levels)]
    return f"<!DOCTYPE r [{''.join(lines)}]>"


EXTERNAL = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
PARAMETER = '<!DOCTYPE r [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x.dtd"> %x;]>'
DTD = '<!DOCTYPE robot SYSTEM "http://127.0.0.1:9/robot.dtd">'
DEEP = "<a>" * 200_000 + "</a>" * 200_000
SECRET = "../secret.stl"

HOSTILE: dict[str, tuple[str, bytes]] = {
    "entity bomb": ("x.urdf", urdf("&a9;", bomb())),
    "entity bomb in sdf": ("x.sdf", bomb().encode() + sdf("&a9;")),
    "entity bomb in mjcf": ("x.xml", mjcf("&a9;", bomb())),
    "quadratic blowup": (
        "x.urdf",
        urdf("&b;" * 50_000, f'<!DOCTYPE r [<!ENTITY b "{"B" * 50_000}">]>'),
    ),
    "external entity": ("x.urdf", urdf("&x;", EXTERNAL)),
    "external entity in sdf": ("x.sdf", EXTERNAL.encode() + sdf("&x;")),
    "external entity in mjcf": ("x.xml", mjcf("&x;", EXTERNAL)),
    "parameter entity": ("x.urdf", urdf("", PARAMETER)),
    "external dtd": ("x.urdf", urdf("", DTD)),
    "external dtd in mjcf": ("x.xml", mjcf("", DTD)),
    "undefined entity": ("x.urdf", urdf("&nope;")),
    "depth": ("x.urdf", urdf(DEEP)),
    "depth in sdf": ("x.sdf", sdf(DEEP)),
    "depth in mjcf": ("x.xml", mjcf(DEEP)),
    "unclosed depth": ("x.urdf", b"<robot>" * 100_000),
    "many elements": ("x.urdf", urdf("<a/>" * 400_000)),
    "long text": ("x.sdf", sdf(f"<pose>{'0 ' * 500_000}</pose>")),
    "traversal": ("x.urdf", mesh(SECRET)),
    "deep traversal": ("x.urdf", mesh("meshes/../../../../../../../../etc/passwd")),
    "traversal with backslashes": ("x.urdf", mesh("..\\..\\secret.stl")),
    "traversal in a package": ("x.urdf", mesh("package://robot/../secret.stl")),
    "traversal in an unknown package": ("x.urdf", mesh("package://other/../../secret.stl")),
    "package called ..": ("x.urdf", mesh("package://../secret.stl")),
    "package called .": ("x.urdf", mesh("package://./../secret.stl")),
    "package with a separator": ("x.urdf", mesh("package://a\\..\\..\\b/x.stl")),
    "empty package": ("x.urdf", mesh("package:///%2e%2e/etc/passwd")),
    "symbolic link to a file": ("x.urdf", mesh("link.stl")),
    "symbolic link to a folder": ("x.urdf", mesh("out/secret.stl")),
    "absolute path": ("x.urdf", mesh("/etc/passwd")),
    "absolute path with two slashes": ("x.urdf", mesh("//etc/passwd")),
    "file address": ("x.urdf", mesh("file:///etc/passwd")),
    "file address with a host": ("x.urdf", mesh("file://host/etc/passwd")),
    "file address with a mesh's name on a host": ("x.urdf", mesh("file://host/secret.stl")),
    "file address without a slash": ("x.urdf", mesh("file:etc/x.stl")),
    "absolute path to a mesh": ("x.urdf", mesh("/tmp/x.stl")),
    "share of another machine": ("x.urdf", mesh("\\\\host\\share\\x.stl")),
    "drive letter": ("x.urdf", mesh("C:\\Windows\\x.stl")),
    "http": ("x.urdf", mesh("http://127.0.0.1:9/x.stl")),
    "https in capitals": ("x.urdf", mesh("HTTPS://127.0.0.1:9/x.stl")),
    "ftp": ("x.urdf", mesh("ftp://127.0.0.1/x.stl")),
    "data address": ("x.urdf", mesh("data:text/plain,hello")),
    "traversal in sdf": (
        "x.sdf",
        sdf(
            "<link name='b'><visual "
            f"name='v'><geometry><mesh><uri>{SECRET}</uri></mesh></geometry></visual></link>"
        ),
    ),
    "absolute path in sdf": (
        "x.sdf",
        sdf(
            "<link name='b'><visual name='v'><geometry><mesh><uri>/etc/x.stl</uri></mesh>"
            "</geometry></visual></link>"
        ),
    ),
    "sdf include file address": (
        "x.sdf",
        sdf("<include><uri>file:///etc/model.sdf</uri></include>"),
    ),
    "sdf merge outside": (
        "x.sdf",
        sdf("<include merge='true'><uri>../other.sdf</uri></include>"),
    ),
    "sdf include outside": ("x.sdf", sdf("<include><uri>../other.sdf</uri></include>")),
    "sdf include http": ("x.sdf", sdf("<include><uri>http://127.0.0.1:9/m</uri></include>")),
    "sdf include itself": ("x.sdf", sdf("<include><uri>x.sdf</uri></include>")),
    "mjcf include outside": ("x.xml", mjcf('<include file="../other.xml"/>')),
    "mjcf include absolute": ("x.xml", mjcf('<include file="/etc/passwd"/>')),
    "mjcf include itself": ("x.xml", mjcf('<include file="x.xml"/>')),
    "mjcf include missing": ("x.xml", mjcf('<include file="missing.xml"/>')),
    "mjcf mesh file address": (
        "x.xml",
        mjcf('<asset><mesh name="m" file="file:///etc/x.stl"/></asset>'),
    ),
    "mjcf mesh outside": ("x.xml", mjcf(f'<asset><mesh file="{SECRET}"/></asset>')),
    "mjcf meshdir outside": (
        "x.xml",
        mjcf('<compiler meshdir="/etc"/><asset><mesh name="m" file="passwd"/></asset>'),
    ),
    "mjcf texture outside": (
        "x.xml",
        mjcf('<asset><texture type="2d" file="/etc/passwd"/></asset>'),
    ),
    "mjcf heightfield outside": (
        "x.xml",
        mjcf('<asset><hfield name="h" size="1 1 1 1" file="../secret.stl"/></asset>'),
    ),
    "mjcf mesh through a link": ("x.xml", mjcf('<asset><mesh file="link.stl"/></asset>')),
    "mjcf model outside": ("x.xml", mjcf('<asset><model name="m" file="../other.xml"/></asset>')),
    "mjcf plugin": ("x.xml", mjcf('<extension><plugin plugin="mujoco.x"/></extension>')),
    "mjcf huge texture": (
        "x.xml",
        mjcf('<asset><texture type="2d" builtin="flat" width="99999" height="99999"/></asset>'),
    ),
    "mjcf huge memory": ("x.xml", mjcf('<size memory="900T"/>')),
    "mjcf many copies": ("x.xml", mjcf('<worldbody><replicate count="100000000"/></worldbody>')),
    "nul": ("x.urdf", urdf("\0")),
    "nul in a path": ("x.urdf", mesh("a\0b")),
    "utf-16": ("x.urdf", urdf().decode().encode("utf-16")),
    "utf-16 without mark": ("x.urdf", urdf().decode().encode("utf-16-le")),
    "utf-32": ("x.urdf", urdf().decode().encode("utf-32")),
    "utf-7 declared": ("x.urdf", urdf("", '<?xml version="1.0" encoding="utf-7"?>')),
    "odd encoding": ("x.urdf", urdf("", '<?xml version="1.0" encoding="rot13"?>')),
    "not utf-8": ("x.urdf", urdf().replace(b'"a"', b'"\xff\xfe\xfa"')),
    "nan": ("x.urdf", urdf().replace(b'value="1"', b'value="nan"')),
    "infinite": ("x.urdf", urdf().replace(b'value="1"', b'value="-inf"')),
    "overflow": ("x.urdf", urdf().replace(b'value="1"', b'value="1e999"')),
    "comma": ("x.urdf", urdf().replace(b'value="1"', b'value="1,5"')),
    "hexadecimal": ("x.urdf", urdf().replace(b'value="1"', b'value="0x1p3"')),
    "underscore": ("x.urdf", urdf().replace(b'value="1"', b'value="1_0"')),
    "other digits": ("x.urdf", urdf().replace(b'value="1"', 'value="\u0663"'.encode())),
    "long number": ("x.urdf", urdf().replace(b'value="1"', b'value="' + b"9" * 100_000 + b'"')),
    "xacro": ("x.urdf", urdf("<xacro:include filename='/etc/passwd'/>")),
    "xacro expression": ("x.urdf", mesh("${xacro.load_yaml('/etc/passwd')}")),
    "xacro environment": ("x.xacro", mesh("$(env HOME)")),
    "binary": ("x.urdf", bytes(range(1, 256)) * 40),
    "html": ("x.urdf", b"<html><body>404</body></html>"),
    "shell script": ("x.urdf", b"#!/bin/sh\nrm -rf /\n"),
    "empty": ("x.urdf", b""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with links that lead out of it, and files next to it that nobody may open."""
    outside = tmp_path_factory.mktemp("hostile")
    (outside / "secret.stl").write_text("secret")
    (outside / "other.xml").write_text("<mujoco/>")
    (outside / "other.sdf").write_bytes(sdf())
    package = outside / "robot"
    (package / "meshes").mkdir(parents=True)
    (package / "link.stl").symlink_to(outside / "secret.stl")
    (package / "out").symlink_to(outside)
    for name, (file, data) in HOSTILE.items():
        place = package / name.replace(" ", "_").replace(".", "_")
        place.mkdir()
        (place / file).write_bytes(data)
        (place / "link.stl").symlink_to(outside / "secret.stl")
        (place / "out").symlink_to(outside)
    return package


def path_of(folder: Path, name: str) -> Path:
    return folder / name.replace(" ", "_").replace(".", "_") / HOSTILE[name][0]


def test_there_are_at_least_forty():
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize("name", HOSTILE)
def test_refused(folder: Path, name: str):
    with pytest.raises(FileError) as caught:
        load(path_of(folder, name))
    assert caught.value.line >= 1 and len(str(caught.value)) < 2000


@pytest.mark.parametrize("suffix", ["stl", "dae", "mesh"])
def test_an_address_of_the_authors_machine_is_told_and_not_looked_at(folder: Path, suffix: str):
    """As in a robot of example-robot-data; the file is there, and nobody asks for it."""
    outside = folder.parent / f"left.{suffix}"
    outside.write_text("secret")
    path = folder / "left.urdf"
    path.write_bytes(mesh(f"file://{outside}"))
    with pytest.warns(PhipsiWarning, match="it is not opened, and the shape has no file"):
        model = load(path)
    assert model.geometry[0].file is None
    (found,) = (finding for finding in model.diagnosis if finding.kind == "mesh")
    assert found.is_problem and found.line == 1
    with pytest.raises(FileError, match="strict=True rejects it"):
        load(path, strict=True)
    assert load(path, package_dirs=[folder.parent]).geometry[0].file == str(outside.resolve())


def test_the_fix_in_the_message_can_be_pasted(folder: Path):
    path = folder / "absolute.urdf"
    for uri in (str(folder.parent / "secret.stl"), "../secret.stl", "link.stl"):
        path.write_bytes(mesh(uri))
        with pytest.raises(FileError) as caught:
            load(path)
        call = re.search(r"package_dirs=(\[.*\])\)", str(caught.value))
        assert call is not None
        model = load(path, package_dirs=eval(call.group(1)))
        assert model.geometry[0].file == str((folder.parent / "secret.stl").resolve())


def test_a_folder_above_the_package_is_no_package_because_of_its_name(folder: Path):
    """Else package://home/... would reach what every user has."""
    path = folder / "meshes" / "x.urdf"
    path.write_bytes(mesh(f"package://{folder.parent.name}/secret.stl"))
    model = load(path)
    assert model.geometry[0].file is None
    assert "package_dirs=" in model.diagnosis[0].message


def test_package_xml_says_the_name_of_the_package(tmp_path: Path):
    package = tmp_path / "arm-main"
    (package / "urdf").mkdir(parents=True)
    (package / "x.stl").write_text("solid")
    path = package / "urdf" / "x.urdf"
    path.write_bytes(mesh("package://arm/x.stl"))
    marker = package / "package.xml"
    marker.write_text("<package><name>arm</name></package>")
    assert load(path).geometry[0].file == str((package / "x.stl").resolve())
    marker.write_text("<package><name>arm</package>")  # is not ours to judge
    assert load(path).geometry[0].file is None
    marker.unlink()
    marker.symlink_to("/etc/passwd")
    assert load(path).geometry[0].file is None


def test_special_files_are_refused(tmp_path: Path):
    pipe = tmp_path / "pipe.urdf"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", tmp_path, tmp_path / "missing.urdf", "a\0b"):
        with pytest.raises(FileError):
            load(path)
    large = tmp_path / "large.urdf"
    with large.open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(FileError, match="10,000,000,000 bytes"):
        load(large)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Rejected by the system; root may read everything, so the refusal is made up."""
    path = tmp_path / "x.urdf"
    path.write_bytes(urdf())

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileError, match=r"(?m)x\.urdf: cannot be opened: Permission denied\.$"):
        load(path)


def test_a_mesh_that_is_a_folder_or_pipe_is_not_found(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.stl")
    (tmp_path / "folder.stl").mkdir()
    for name in ("pipe.stl", "folder.stl"):
        path = tmp_path / "x.urdf"
        path.write_bytes(mesh(name))
        assert load(path).geometry[0].file is None


@pytest.mark.parametrize(
    "uri", ["../x", "/x", "package://../x", "http://a/x", "a/../../x", "out/x"]
)
def test_roots_refuse(folder: Path, uri: str):
    with pytest.raises(Rejected):
        AllowedFolders.of(folder / "robot.urdf").locate(uri)


def run(
    code: str, *arguments: str, wrapper: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    source = textwrap.dedent(LOAD.format(path=[p for p in sys.path if p])) + textwrap.dedent(code)
    command = [*wrapper, sys.executable, "-c", source, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_an_audit_hook_sees_no_access_outside(folder: Path):
    code = """
    import mujoco
    opened = []
    def hook(event, arguments):
        if event == "open" and isinstance(arguments[0], str):
            opened.append(arguments[0])
        elif event.startswith(("socket", "subprocess", "os.system", "os.exec", "urllib")):
            opened.append(event)
    for path in sys.argv[1:]:  # once before watching, so that no import is left
        try: load(path)
        except ModelError: pass
    sys.addaudithook(hook)
    for path in sys.argv[1:]:
        try: load(path)
        except ModelError: pass
    print("\\n".join(opened))
    """
    paths = [str(path_of(folder, name)) for name in HOSTILE]
    done = run(code, *paths)
    assert done.returncode == 0, done.stderr
    opened = set(filter(None, done.stdout.splitlines()))
    assert opened, "the hook saw nothing at all"
    allowed = {os.path.realpath(path) for path in paths}
    assert {os.path.realpath(path) for path in opened} <= allowed, opened


@pytest.mark.skipif(
    shutil.which("strace") is None,
    reason="strace is not installed (apt install strace); it watches MuJoCo's C++ reader",
)
def test_the_system_calls_open_nothing_outside(folder: Path, tmp_path: Path):
    """MuJoCo's reader is C++, which no audit hook sees."""
    code = """
    import mujoco, os
    valid = sys.argv[1]
    load(valid)
    os.path.exists("/phipsi-begins")
    for path in sys.argv[2:]:
        try: load(path)
        except ModelError: pass
    """
    valid = tmp_path / "valid.xml"
    valid.write_bytes(mjcf())
    log = tmp_path / "calls.txt"
    wrapper = ("strace", "-f", "-qq", "-e", "trace=openat,open,connect,newfstatat", "-o", str(log))
    done = run(code, str(valid), *(str(path_of(folder, name)) for name in HOSTILE), wrapper=wrapper)
    assert done.returncode == 0, done.stderr
    calls = log.read_text().splitlines()
    start = next(i for i, line in enumerate(calls) if "/phipsi-begins" in line)
    assert not any("connect(" in line for line in calls)
    opens = (re.search(r'\bopen(?:at)?\([^"]*"([^"]*)"', line) for line in calls[start:])
    opened = [call.group(1) for call in opens if call]
    package = str(folder)
    outside = [p for p in opened if not os.path.realpath(p).startswith(package)]
    source = str(Path(__file__).parents[2] / "src")
    python = (sys.prefix, sys.base_prefix, source, sys.pycache_prefix or source, "/proc", "/sys")
    outside = [p for p in outside if not p.startswith(python) and p not in ("/dev/null",)]
    assert any(p.startswith(package) for p in opened)
    assert not outside, outside
