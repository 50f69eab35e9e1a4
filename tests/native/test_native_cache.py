"""The disk cache of machine code: private, whole files only, and never a reason to fail."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from phipsi.errors import PhipsiWarning
from phipsi.native.targets import code_cache as cache
from phipsi.native.targets.code_cache import machine_code
from phipsi.native.targets.target import Target, host_target

CODE = bytes(range(256)) * 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    where = tmp_path / "cache"
    monkeypatch.setenv("PHIPSI_CACHE", str(where))
    cache.folder.cache_clear()
    yield where
    cache.folder.cache_clear()


def test_what_is_written_is_read_and_private(folder: Path):
    assert cache.read("a") is None
    cache.write("a", CODE)
    assert cache.read("a") == CODE and cache.read("b") is None
    assert [p.name for p in folder.iterdir()] == ["a.bin"]  # no temporary file is left
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "a.bin").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("bits", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_refused(folder: Path, bits: int):
    folder.mkdir()
    folder.chmod(bits)
    with pytest.warns(PhipsiWarning, match=r"other users can write to it(.|\n)*chmod 700"):
        cache.write("a", CODE)
    assert cache.read("a") is None
    assert not list(folder.iterdir())


def test_a_folder_that_others_can_read_is_used(folder: Path):
    folder.mkdir(mode=0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write("a", CODE)
    assert cache.read("a") == CODE


@pytest.mark.parametrize("damage", ["empty", "short", "long", "one bit", "another version"])
def test_damaged_files_are_ignored(folder: Path, damage: str):
    cache.write("a", CODE)
    path = folder / "a.bin"
    content = bytearray(path.read_bytes())
    if damage == "one bit":
        content[len(content) // 2] ^= 1
    elif damage == "another version":
        content[content.index(b"\n") - 1] += 1
    else:
        content = {"empty": b"", "short": content[:-1], "long": content + b"\0"}[damage]
    path.write_bytes(content)
    assert cache.read("a") is None
    cache.write("a", CODE)  # made anew
    assert cache.read("a") == CODE


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="permissions as on POSIX")
def test_a_read_only_folder_is_no_error(monkeypatch: pytest.MonkeyPatch):
    """As nobody if this is root, who may write everywhere: so it lies where nobody gets to."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder = Path(place) / "cache"
        Path(place).chmod(0o711)
        folder.mkdir(mode=0o555)
        monkeypatch.setenv("PHIPSI_CACHE", str(folder))
        cache.folder.cache_clear()
        if root:
            os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                (folder / "a.bin").write_bytes(CODE)
            cache.write("a", CODE)
            assert cache.folder() == folder and cache.read("a") is None
            assert not list(folder.iterdir())
        finally:
            if root:
                os.seteuid(0)
            cache.folder.cache_clear()


def test_a_file_where_the_folder_should_be_is_no_error(folder: Path):
    folder.write_text("not a folder")
    cache.write("a", CODE)
    assert cache.read("a") is None


@pytest.mark.parametrize("word", ["0", "off", "OFF", "no", "false", "None"])
def test_it_can_be_turned_off(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
):
    monkeypatch.setenv("PHIPSI_CACHE", word)
    monkeypatch.chdir(tmp_path)
    cache.folder.cache_clear()
    cache.write("a", CODE)
    assert cache.read("a") is None and not list(tmp_path.iterdir())


TEXT = "define double @f(double %x) {{\n  %y = fadd double %x, {}\n  ret double %y\n}}\n"


def test_code_is_found_by_its_text(folder: Path, monkeypatch: pytest.MonkeyPatch):
    compiled: list[str] = []
    compile_ = Target.object_code

    def counted(self: Target, text: str) -> bytes:
        compiled.append(text)
        return compile_(self, text)

    monkeypatch.setattr(Target, "object_code", counted)
    one, two = TEXT.format("1.0"), TEXT.format("2.0")

    def value(key: str, text: str) -> float:
        code = machine_code(key, host_target(), lambda: text)
        return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))(3.0)

    assert value("a", one) == 4.0 and value("b", one) == 4.0  # as from other sources
    assert compiled == [one]
    assert value("c", two) == 5.0 and compiled == [one, two]
    assert len(list(folder.glob("*.bin"))) == 5  # two codes, three keys
    monkeypatch.setenv("PHIPSI_LLVM_EFFORT", "2")  # is other code
    assert value("a", one) == 4.0 and compiled == [one, two, one]


def test_a_key_without_its_code_is_no_key(folder: Path):
    cache.write("code", CODE)
    cache.write("other", b"other")
    cache.refer("a", ["code", "other"])
    assert cache.read_parts("a") == [("code", CODE), ("other", b"other")]
    (folder / "other.bin").unlink()
    assert cache.read_parts("a") is None


WRITER = """
import sys
from phipsi.native.targets import code_cache as cache
mine = sys.argv[1].encode() * 50_000
for _ in range(150):
    cache.write("same", mine)
    found = cache.read("same")
    assert found is not None and len(found) == 50_000 and len(set(found)) == 1, found
"""


def test_processes_that_write_at_once_never_see_half_a_file(folder: Path):
    command = [sys.executable, "-c", WRITER]
    running = [subprocess.Popen([*command, letter], stderr=subprocess.PIPE) for letter in "abcd"]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    assert [p.name for p in folder.iterdir()] == ["same.bin"]


FIRST = """
import numpy as np, phipsi as pp
arm = pp.examples.planar_arm(3)
print(pp.forward_dynamics(arm, [0.1, 0.2, 0.3], np.zeros(3), np.ones(3)).tolist())
"""


def test_a_program_whose_code_is_damaged_is_compiled_again(folder: Path):
    def run() -> str:
        env = {**os.environ, "PHIPSI_BACKEND": "native"}
        done = subprocess.run(
            [sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    expected = run()
    files = sorted(folder.glob("*.bin"))
    assert files
    whole = [p.read_bytes() for p in files]
    for p, content in zip(files, whole, strict=True):
        p.write_bytes(content[: len(content) // 2])
    assert run() == expected
    assert sorted(p.read_bytes() for p in folder.glob("*.bin")) == sorted(whole)


ALONE = """
import numpy as np
from phipsi.native.custom_kernel import graph_function
from phipsi.core.arrays import law_operations as operations
a = operations.input("a", ())
double = graph_function({"a": ()}, {"x": operations.apply("add", a, a)})
found, status = double.ufunc(np.arange(3.0))
print(found.tolist())
"""


def test_code_without_a_program_is_loaded_by_a_new_process(folder: Path):
    """The code calls functions of Python, which LLVM must know before it loads it."""
    env = {**os.environ, "PHIPSI_BACKEND": "native", "PHIPSI_LLVM_EFFORT": "0"}
    for _ in range(2):  # the second one finds the code in the cache, and compiles nothing
        done = subprocess.run(
            [sys.executable, "-c", ALONE], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout == "[0.0, 2.0, 4.0]\n"
