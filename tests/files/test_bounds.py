"""Small files that ask for much: work, memory and messages stay in proportion to the file."""

import difflib
from pathlib import Path

import pytest

from phipsi.errors import FileError, did_you_mean
from phipsi.files import mimic_joints
from phipsi.files.load import kind_of, load
from phipsi.files.sdf.frame_graph import FrameGraph
from phipsi.files.sdf.read_sdf import _SDFReader  # pyright: ignore[reportPrivateUsage]

MASS = (
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" '
    'izz="1"/></inertial>'
)


def written(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def urdf(folder: Path, inside: str = "", after: str = "") -> Path:
    text = f'<robot name="r"><link name="a">{MASS}{inside}</link>{after}</robot>'
    return written(folder, text, "r.urdf")


def sdf(folder: Path, inside: str) -> Path:
    text = f'<sdf version="1.9"><model name="m"><link name="a"/>{inside}</model></sdf>'
    return written(folder, text, "r.sdf")


class Counter:
    """Counts the calls of a function."""

    def __init__(self, function: object) -> None:
        self.function, self.calls = function, 0

    def __get__(self, instance: object, owner: object = None) -> object:
        return lambda *given: self(instance, *given)

    def __call__(self, *given: object, **named: object) -> object:
        self.calls += 1
        return self.function(*given, **named)  # type: ignore[operator]


@pytest.mark.parametrize("is_forward", [True, False])
def test_each_frame_of_a_chain_is_looked_at_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_forward: bool
):
    n = 400
    order = range(n) if is_forward else range(n - 1, -1, -1)
    frames = (f'<frame name="f{i}" attached_to="{f"f{i - 1}" if i else "a"}"/>' for i in order)
    path = sdf(tmp_path, "".join(frames))
    asked = Counter(FrameGraph._node)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(FrameGraph, "_node", asked)
    model = load(path)
    assert len(model.frames) == n
    assert n <= asked.calls <= 4 * n


def test_whether_a_joint_closes_a_loop_is_found_along_short_ways(tmp_path: Path):
    """Chains and loops in any order of their joints; the ways are compressed."""
    n = 300
    joint = (
        '<joint name="{0}" type="revolute"><parent>{1}</parent><child>{2}</child><axis/></joint>'
    )
    links = "".join(f'<link name="b{i}"/>' for i in range(n))
    chain = [joint.format(f"j{i}", f"b{i - 1}" if i else "a", f"b{i}") for i in range(n)]
    for joints in (chain, chain[::-1], chain[::2] + chain[1::2]):
        closing = joint.format("loop", f"b{n - 1}", "b7")  # its child has a joint already
        system = load(sdf(tmp_path, links + "".join(joints) + closing))
        assert [c.name for c in system.constraints] == ["loop"]
        assert system.model.nv == n + 6
    reader = object.__new__(_SDFReader)
    reader.hangs = {}
    for i in range(n):
        assert not reader._closes_a_loop(f"b{i}", f"b{i + 1}")  # pyright: ignore[reportPrivateUsage]
    assert set(reader.hangs.values()) == {"b0"}
    assert reader._closes_a_loop(f"b{n}", "b0")  # pyright: ignore[reportPrivateUsage]


def test_misspelt_tags_are_compared_once_and_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    compared = Counter(difflib.get_close_matches)
    monkeypatch.setattr(difflib, "get_close_matches", compared)
    with pytest.warns(match="2000 ignored"):
        model = load(urdf(tmp_path, "<visuall/>" * 2000))
    assert compared.calls == 1 and len(model.diagnosis) == 2000
    compared.calls = 0
    with pytest.warns(match="ignored"):
        load(urdf(tmp_path, "".join(f"<visual{i}/>" for i in range(2000))))
    assert compared.calls == 500


def test_hints_for_mimic_joints_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = Counter(did_you_mean)
    monkeypatch.setattr(mimic_joints, "did_you_mean", asked)
    links = "".join(
        f'<link name="b{i}"/><joint name="j{i}" type="continuous"><parent link="a"/><child '
        f'link="b{i}"/><mimic joint="nope{i}"/></joint>'
        for i in range(100)
    )
    with pytest.warns(match="100 mimic"):
        load(urdf(tmp_path, after=links))
    assert asked.calls == 10


LONG = "x" * 1_000_000
LONG_MESSAGES = {
    "tag": f"<{LONG}/>",
    "open tag": f"<{LONG}>",
    "attribute": f'<visual {LONG}="1"/>',
    "value": f'<visual name="{LONG}"/>',
    "number": f'<visual><geometry><sphere radius="{"9" * 1_000_000}x"/></geometry></visual>',
    "many numbers": f'<visual><geometry><box size="{"0 " * 1_000_000}"/></geometry></visual>',
    "path": f'<visual><geometry><mesh filename="../{LONG}"/></geometry></visual>',
    "package": f'<visual><geometry><mesh filename="package://{LONG}/x"/></geometry></visual>',
    "scheme": f'<visual><geometry><mesh filename="{LONG}:x"/></geometry></visual>',
    "shape": f"<visual><geometry><{'x' * 190}/></geometry></visual>",
    "instruction": f"<?{LONG}>",
}


@pytest.mark.parametrize("case", LONG_MESSAGES)
def test_messages_are_short(tmp_path: Path, case: str):
    with pytest.raises(FileError) as caught:
        load(urdf(tmp_path, LONG_MESSAGES[case]))
    assert len(str(caught.value)) < len(str(tmp_path)) + 600


def test_long_names_are_cut_in_hints():
    hint = did_you_mean("y", [LONG] * 10)
    assert len(hint) < 1200 and hint.endswith("(10 in all).")


def test_text_in_many_pieces(tmp_path: Path):
    """Comments cut the text of an element; its pieces are joined at the end."""
    pose = "<!-- -->".join("0.5 0 0 0 0 0")
    text = f'<model name="m"><link name="a"><pose>{pose}</pose></link></model>'
    (tmp_path / "r.sdf").write_text(f'<sdf version="1.9">{text}</sdf>')
    assert load(tmp_path / "r.sdf").placement_translations[0].tolist() == [0.5, 0, 0]


def test_the_outermost_element_is_found_behind_comments():
    assert kind_of(b"<?xml?><!-- <robot> --><!----><sdf/>", "x") == "sdf"
    with pytest.raises(FileError, match="contains no XML element"):
        kind_of(b"<!--" * 5000 + b"<robot/>", "x")


def test_time_is_limited_in_our_own_readers(tmp_path: Path):
    for path in (urdf(tmp_path), sdf(tmp_path, "")):
        assert load(path).nv in (0, 6)
        with pytest.raises(FileError, match=":1: reading takes longer than max_seconds allows"):
            load(path, max_seconds=1e-9)
