"""The disk cache of machine code: where it is, and whom it trusts."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from phipsi.errors import PhipsiWarning
from phipsi.native.targets import code_cache as cache

CODE = bytes(range(256)) * 40
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners as on POSIX")
root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may")
Settings = Callable[..., None]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Sets environment variables, all others that matter being unset; works in an empty folder."""

    def set_all(**values: str) -> None:
        for name in ("PHIPSI_CACHE", "XDG_CACHE_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        cache.folder.cache_clear()

    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    yield set_all
    assert not list((tmp_path / "working").iterdir())
    cache.folder.cache_clear()


@pytest.fixture
def kept(settings: Settings, tmp_path: Path) -> Path:
    """A file of the cache."""
    settings(PHIPSI_CACHE=str(tmp_path / "cache"))
    cache.write("a", CODE)
    assert cache.read("a") == CODE
    return tmp_path / "cache" / "a.bin"


def quiet() -> Path | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return cache.folder()


# ---- where it is ---------------------------------------------------------------------------------


def test_the_home_folder_may_be_abbreviated(settings: Settings, tmp_path: Path):
    settings(PHIPSI_CACHE="~/x", HOME=str(tmp_path / "home"))
    assert quiet() == tmp_path / "home" / "x"


@pytest.mark.parametrize("setting", ["x", "./x", "../x", "~nobody-of-this-name/x"])
def test_a_relative_folder_is_refused(settings: Settings, tmp_path: Path, setting: str):
    settings(PHIPSI_CACHE=setting)
    with pytest.warns(PhipsiWarning, match="Set the whole path:  PHIPSI_CACHE=/"):
        assert cache.folder() is None
    assert [p.name for p in tmp_path.iterdir()] == ["working"]


@pytest.mark.parametrize("base", ["", "relative", "~/cache"])
def test_a_relative_xdg_folder_is_ignored(settings: Settings, tmp_path: Path, base: str):
    settings(XDG_CACHE_HOME=base, HOME=str(tmp_path))
    assert quiet() == tmp_path / ".cache" / "phipsi"


@posix
@pytest.mark.parametrize("home", ["", "relative", ".", None])
def test_a_relative_home_is_ignored(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
):
    settings(**({} if home is None else {"HOME": home}))
    known = SimpleNamespace(pw_dir=str(tmp_path / "known"), pw_name="someone")
    monkeypatch.setattr("pwd.getpwuid", lambda _: known)
    assert quiet() == tmp_path / "known" / ".cache" / "phipsi"


@posix
def test_without_any_home_there_is_no_cache(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    settings(HOME="relative")
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_dir="", pw_name="someone"))
    assert quiet() is None
    cache.write("a", CODE)
    assert cache.read("a") is None


@posix
def test_folders_are_made_for_the_user_only(settings: Settings, tmp_path: Path):
    settings(PHIPSI_CACHE=str(tmp_path / "some" / "where" / "else"))
    old = os.umask(0)
    try:
        where = quiet()
    finally:
        os.umask(old)
    assert where is not None
    for path in (where, where.parent, where.parent.parent):
        assert path.stat().st_mode & 0o777 == 0o700


# ---- whom it trusts ------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("bits", [0o777, 0o707, 0o772])
def test_a_parent_that_others_can_write_is_refused(settings: Settings, tmp_path: Path, bits: int):
    above = tmp_path / "above"
    (above / "between" / "cache").mkdir(mode=0o700, parents=True)
    above.chmod(bits)
    settings(PHIPSI_CACHE=str(above / "between" / "cache"))
    with pytest.warns(PhipsiWarning, match=f"(?s)replace it.*chmod go-w {above}"):
        assert cache.folder() is None


@posix
def test_a_group_that_has_other_members_is_refused(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o770)
    me = SimpleNamespace(pw_name="someone")
    monkeypatch.setattr("pwd.getpwuid", lambda _: me)
    for name, members, good in (
        ("someone", [], True),  # a group of one's own, as many systems have it
        ("someone", ["someone"], True),
        ("someone", ["another"], False),
        ("users", [], False),
    ):
        group = SimpleNamespace(gr_name=name, gr_mem=members)
        monkeypatch.setattr("grp.getgrgid", lambda _, group=group: group)
        settings(PHIPSI_CACHE=str(above / "cache"))
        if good:
            assert quiet() == above / "cache"
        else:
            with pytest.warns(PhipsiWarning, match="replace it"):
                assert cache.folder() is None


@posix
def test_a_sticky_parent_is_fine(settings: Settings, tmp_path: Path):
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o1777)
    settings(PHIPSI_CACHE=str(above / "cache"))
    assert quiet() == above / "cache"


@root
def test_a_parent_of_another_user_is_refused(settings: Settings, tmp_path: Path):
    above = tmp_path / "above"
    above.mkdir(mode=0o755)
    (above / "cache").mkdir(mode=0o700)
    os.chown(above, 12345, 12345)
    settings(PHIPSI_CACHE=str(above / "cache"))
    with pytest.warns(PhipsiWarning, match="above belongs to another user"):
        assert cache.folder() is None


@posix
def test_a_folder_of_another_user_is_refused(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings(PHIPSI_CACHE=str(tmp_path / "cache"))
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.warns(PhipsiWarning, match="it belongs to another user"):
        assert cache.folder() is None


@posix
def test_a_link_is_followed_to_a_folder_that_is_checked(settings: Settings, tmp_path: Path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "cache").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "open" / "cache")
    settings(PHIPSI_CACHE=str(tmp_path / "link"))
    (tmp_path / "open").chmod(0o700)
    assert quiet() == tmp_path / "open" / "cache"
    (tmp_path / "open").chmod(0o777)
    settings(PHIPSI_CACHE=str(tmp_path / "link"))
    with pytest.warns(PhipsiWarning, match="replace it"):
        assert cache.folder() is None


@posix
@pytest.mark.parametrize("bits", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_ignored(kept: Path, bits: int):
    kept.chmod(bits)
    assert cache.read("a") is None
    cache.write("a", CODE)  # replaced
    assert cache.read("a") == CODE


@root
def test_a_file_of_another_user_is_ignored(kept: Path):
    os.chown(kept, 12345, 12345)
    assert cache.read("a") is None


@posix
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_ignored(kept: Path, tmp_path: Path, kind: str):
    (tmp_path / "elsewhere").write_bytes(kept.read_bytes())
    kept.unlink()
    if kind == "link":
        kept.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(kept, 0o600)
    else:
        kept.mkdir()
    assert cache.read("a") is None


# ---- what is in it -------------------------------------------------------------------------------


def test_a_file_under_another_key_is_ignored(kept: Path):
    kept.rename(kept.with_name("b.bin"))
    assert cache.read("b") is None and cache.read("a") is None
    kept.with_name("b.bin").rename(kept)
    assert cache.read("a") == CODE


def test_a_key_in_the_file_is_covered_by_the_digest(kept: Path):
    """A file whose key was changed with its name is ignored as well."""
    content = kept.read_bytes()
    assert content.count(b"\na\n") == 1
    kept.with_name("b.bin").write_bytes(content.replace(b"\na\n", b"\nb\n"))
    kept.with_name("b.bin").chmod(0o600)
    assert cache.read("b") is None


FULL = """
import resource
from phipsi.native.targets import code_cache as cache
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
cache.write("large", bytes(100_000))
assert cache.read("large") is None
cache.write("small", bytes(1000))
assert cache.read("small") == bytes(1000)
"""


@posix
def test_a_full_disk_leaves_nothing_behind(kept: Path):
    subprocess.run([sys.executable, "-c", FULL], check=True, timeout=60)
    assert sorted(p.name for p in kept.parent.iterdir()) == ["a.bin", "small.bin"]


def test_an_interrupt_leaves_nothing_behind(kept: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write("b", CODE)
    assert [p.name for p in kept.parent.iterdir()] == ["a.bin"]


def test_what_killed_processes_left_is_removed(kept: Path):
    old, young = kept.with_name(".new-old"), kept.with_name(".new-young")
    for path in (old, young):
        path.write_bytes(CODE)
    os.utime(old, (0, 0))
    cache._room.clear()  # as in another process
    cache.write("b", CODE)
    assert not old.exists() and young.exists()
