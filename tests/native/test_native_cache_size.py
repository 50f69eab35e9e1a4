"""The disk cache stays within its limit: what was used longest ago goes first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phipsi.errors import InputError
from phipsi.native.targets import code_cache as cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setenv("PHIPSI_CACHE_MB", f"{10_000 / 2**20}")
    return tmp_path


def age(folder: Path, key: str, seconds: float) -> None:
    path = folder / f"{key}.bin"
    when = path.stat().st_mtime - seconds
    os.utime(path, (when, when))


def test_the_oldest_go_when_the_limit_is_passed(folder: Path):
    for i in range(9):
        cache.write(f"k{i}", bytes(1000))
        age(folder, f"k{i}", 100 - i)
    assert len(list(folder.glob("*.bin"))) == 9  # within the limit: nothing is removed
    assert cache.read("k0") == bytes(1000)  # used: now the youngest
    cache.write("new", bytes(1000))
    left = {p.stem for p in folder.glob("*.bin")}
    assert {"k0", "new"} <= left and "k1" not in left and "k2" not in left
    assert sum(p.stat().st_size for p in folder.glob("*.bin")) <= 7500


def test_other_files_are_left_alone(folder: Path):
    (folder / "notes.txt").write_bytes(bytes(50_000))
    cache.write("a", bytes(1000))
    assert cache.read("a") == bytes(1000) and (folder / "notes.txt").exists()


def test_a_program_larger_than_the_limit_is_simply_not_kept(folder: Path):
    cache.write("huge", bytes(20_000))
    assert cache.read("huge") is None


def test_the_limit_is_a_setting(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PHIPSI_CACHE_MB")
    assert cache.limit() == 256 * 2**20
    monkeypatch.setenv("PHIPSI_CACHE_MB", "much")
    with pytest.raises(InputError, match=r"PHIPSI_CACHE_MB='much' must be a number \(MB\)"):
        cache.limit()
