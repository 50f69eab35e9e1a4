"""Exporting again replaces what an export wrote, and keeps everything of the user's own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import phipsi as pp
from phipsi.codegen.written_folder import LISTING, with_digests, write_folder
from phipsi.errors import InputError

pytestmark = pytest.mark.quick_code
OWN = ("rust/src/main.rs", "rust/.git/HEAD", "rust/target/debug/arm", "rust/Cargo.lock", "mine.c",
       "build/CMakeCache.txt", "test_arm")  # fmt: skip


def put(folder: Path, **files: str) -> Path:
    """An export of these files, whose names have __ for /."""
    named = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    return write_folder(folder, with_digests({}, named))


def contents(folder: Path) -> dict[str, str]:
    """All files by name, but for the listing."""
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if not p.is_dir()}
    return {name: p.read_text() for name, p in found.items() if name != LISTING}


def test_exporting_again_keeps_the_files_of_the_user(tmp_path):
    arm = pp.examples.planar_arm(2)
    folder = tmp_path / "arm"
    first = pp.export(arm, folder, what="mass_matrix", name="arm")
    for name in OWN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"own {name}")
    again = pp.export(arm, folder, what="gravity_forces", name="arm")
    assert "arm_gravity_forces" in (folder / "arm.h").read_text() and again.files == first.files
    pp.export(arm, folder, what="mass_matrix", name="web", target="wasm32")
    for name in OWN:
        assert (folder / name).read_text() == f"own {name}"
    listed = json.loads((folder / LISTING).read_text())["files"]
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert found == {*listed, *OWN}  # what only the first ones wrote is gone


def test_what_an_export_wrote_is_replaced_or_removed(tmp_path):
    folder = tmp_path / "a" / "out"
    put(folder, one="1", rust__src__lib="2", rust__own="3")
    put(folder, one="new", two="2")
    assert contents(folder) == {"one": "new", "two": "2"}
    assert sorted(os.listdir(folder)) == [LISTING, "one", "two"]  # no empty folders
    assert os.listdir(tmp_path / "a") == ["out"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda f: (f / "one").write_text("mine"), "one would be lost: it was changed after"),
        (lambda f: (f / "two").write_text("mine"), "two would be lost: it is not from an export"),
        (lambda f: (f / "rust").write_text("mine"), "rust would be lost: .*where a folder must be"),
        (lambda f: (f / "two").mkdir(), "two would be lost: it is not a file"),
        (lambda f: (f / "two").symlink_to("nowhere"), "two would be lost: it is not a file"),
    ],
)  # fmt: skip
def test_files_of_the_user_are_never_replaced(change: Any, match: str, tmp_path):
    folder = put(tmp_path / "out", one="1", old="0")
    change(folder)
    before = sorted(os.listdir(folder))
    with pytest.raises(InputError, match=f"{match}.* Nothing was written. Move or delete it, or"):
        put(folder, one="new", two="2", rust__lib="3")
    assert sorted(os.listdir(folder)) == before
    assert (folder / "old").read_text() == "0"


def test_a_file_that_was_changed_and_is_no_longer_exported_is_kept(tmp_path):
    folder = put(tmp_path / "out", one="1", old="0", older="0")
    (folder / "old").write_text("changed")
    put(folder, one="1")
    assert contents(folder) == {"one": "1", "old": "changed"}


def test_links_stay_and_are_followed(tmp_path):
    """The folder, a folder inside, and a file of it are elsewhere."""
    put(tmp_path / "real", one="1", rust__lib="2")
    (tmp_path / "real/rust").rename(tmp_path / "crate")
    (tmp_path / "real/rust").symlink_to(tmp_path / "crate")
    (tmp_path / "real/one").rename(tmp_path / "shared")
    (tmp_path / "real/one").symlink_to("../shared")
    (tmp_path / "link").symlink_to("real")
    put(tmp_path / "link", one="new", rust__lib="new")
    for name in ("link", "real/rust", "real/one"):
        assert (tmp_path / name).is_symlink(), name
    assert (tmp_path / "shared").read_text() == (tmp_path / "crate/lib").read_text() == "new"
    put(tmp_path / "link", three="3")  # nothing is removed through a link
    assert (tmp_path / "shared").read_text() == (tmp_path / "crate/lib").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["crate", "link", "real", "shared"]
    (tmp_path / "later").symlink_to("made")
    put(tmp_path / "later", one="1")
    assert (tmp_path / "later").is_symlink() and (tmp_path / "made/one").read_text() == "1"


def test_an_fmu_is_written_through_a_link(tmp_path):
    (tmp_path / "link.fmu").symlink_to("real.fmu")
    pp.export_fmu(pp.Simulator(pp.examples.planar_arm(1)), tmp_path / "link.fmu", binary=False)
    assert (tmp_path / "link.fmu").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.fmu", "real.fmu"]


def test_a_listing_names_nothing_outside_of_its_folder(tmp_path):
    """Not even by a listing that somebody else has written is a file elsewhere removed."""
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "precious").write_text("x")
    names = [
        "../precious",
        str(tmp_path / "precious"),
        "a/../../precious",
        "",
        ".",
        3,
        None,
        LISTING,
    ]
    (folder / LISTING).write_text(json.dumps({"files": names}))
    put(folder, one="1")
    assert (tmp_path / "precious").read_text() == "x" and contents(folder) == {"one": "1"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3}', "[" * 99_999, "\xff"])
def test_folders_that_no_export_wrote_are_rejected(text: str, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / LISTING).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"files that are not from an export \(export.json\)"):
        put(folder, one="1")
    assert os.listdir(folder) == [LISTING]


def test_a_folder_of_an_earlier_version_without_digests_is_replaced(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / LISTING).write_text('{"files": ["one", "old", "export.json"]}')
    for name in ("one", "old", "mine"):
        (folder / name).write_text("0")
    put(folder, one="1")
    assert contents(folder) == {"one": "1", "mine": "0"}


@pytest.mark.parametrize("broken", ["write_bytes", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_all_files_are_written_or_none(broken: str, error: BaseException, tmp_path, monkeypatch):
    """Whichever call fails, the first or a later one, the folder is as it was."""
    folder = put(tmp_path / "out", one="1", old="0")
    (folder / "mine").write_text("m")
    wanted = {"one": "1", "old": "0", "mine": "m"}
    owner: Any = Path if broken == "write_bytes" else os
    real, fails = getattr(owner, broken), 0
    for at in range(5):
        calls = 0

        def sometimes(*args: Any, at: int = at) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1:
                raise error
            return real(*args)

        monkeypatch.setattr(owner, broken, sometimes)
        try:
            put(folder, one="new", rust__lib="2", two="3")
        except (InputError, KeyboardInterrupt) as found:
            fails += 1
            match = "cannot be written: No space left on device"
            assert isinstance(found, KeyboardInterrupt) or match in str(found)
            assert contents(folder) == wanted and "rust" not in os.listdir(folder)
        monkeypatch.setattr(owner, broken, real)
    assert fails == 5


def test_paths_that_cannot_be_folders(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        put(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written"):
        put(tmp_path / "file" / "out")
