"""Other systems, as far as they can be tested here: Windows' loader, no LLVM, caches of others."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sources import statements, text_of

import phipsi as pp
from phipsi.errors import PhipsiWarning
from phipsi.native import pipeline
from phipsi.native.calls import machine_function
from phipsi.native.targets import code_cache, llvm_library, target

SETTINGS = {k: v for k, v in os.environ.items() if k != "PHIPSI_BACKEND"}

# what both kinds of process compute: one configuration, a batch, with threads, a motion
WORK = """
import gc, json, sys, warnings
import numpy as np
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import phipsi as pp
    arm = pp.examples.planar_arm(3)
    x = np.linspace(-1.0, 1.0, 3 * 40 * 3).reshape(3, 40, 3)
    one = pp.forward_dynamics(arm, *x[:, 0])
    many = pp.forward_dynamics(arm, *x)
    program = pp.compile("mass_matrix^-1 tau", arm)
    shared = program(x[0], x[1], threads=2)
    q, v = pp.rollout(arm, x[0], x[1], x[2], 1e-3, 5)
kinds = [f"{w.category.__name__}: {w.message}" for w in found]
del program
gc.collect()
out = [one, many, shared, q, v]
print(json.dumps({"warnings": kinds, "numbers": [a.tolist() for a in out]}))
"""
WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ImportError(f"No module named {{name!r}}")
sys.meta_path.insert(0, Blocked())
"""
# Windows has no library without a name, and none of these functions
WINDOWS = """
import ctypes, os
from types import SimpleNamespace
import llvmlite.binding
libc = ctypes.CDLL(None)
libc.calloc.restype = ctypes.c_void_p
asked = []
known = {
    "ucrtbase": libc,
    "kernel32": SimpleNamespace(SwitchToThread=libc.sched_yield),
    "ntdll": SimpleNamespace(__chkstk=libc.sched_yield),
}
class Loader:
    def __call__(self, name, *args, **options):
        if name is None:
            raise TypeError("argument 1 must be str, not None")
        asked.append(name)
        return known[name]
ctypes.CDLL = Loader()
import pathlib, phipsi.errors  # for the system that this is
os.name, before = "nt", os.name
import phipsi.native.targets.llvm_library as llvm_library
os.name = before
import phipsi.native.targets.code_cache as code_cache
assert llvm_library.SYSTEM == "nt"
assert llvm_library.triple().endswith("-elf")
code_cache.SYSTEM = "nt"
for name in ("getuid", "register_at_fork", "O_NOFOLLOW", "O_NONBLOCK"):
    if hasattr(os, name):
        delattr(os, name)
"""


def run(code: str, **settings: str) -> dict[str, list]:
    """What a process prints in its last line."""
    command, settings = [sys.executable, "-c", code], SETTINGS | settings
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def usual() -> dict[str, list]:
    """What a process gets that has everything."""
    return run(WORK)


def compare(found: dict[str, list], usual: dict[str, list], rtol: float) -> None:
    for x, y in zip(found["numbers"], usual["numbers"], strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


def test_nothing_is_said_where_all_is_well(usual: dict[str, list]) -> None:
    assert usual["warnings"] == []


def test_numpy_alone_is_enough(usual: dict[str, list]) -> None:
    """Without LLVM, SciPy and the others: one warning, and the same results."""
    names = ["llvmlite", "scipy", "cyclopts", "matplotlib", "sympy", "mujoco", "pinocchio"]
    found = run(WITHOUT.format(names=names) + WORK)
    (warning,) = found["warnings"]
    assert warning.startswith("PhipsiWarning: no machine code: llvmlite cannot be imported")
    assert "pip install llvmlite" in warning
    compare(found, usual, 1e-11)


def test_one_module_imports_llvm() -> None:
    """All others can be imported without it."""
    package = Path(pp.__file__).parent
    found = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "llvmlite" in text_of(path)
        if any(_imports(node, "llvmlite") for node in statements(ast.parse(text_of(path))))
    ]
    assert found == ["native/targets/llvm_library.py"]


def _imports(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] == name
    return isinstance(node, ast.Import) and any(
        alias.name.partition(".")[0] == name for alias in node.names
    )


def test_compiled_runs_say_what_they_need() -> None:
    code = (
        WITHOUT.format(names=["llvmlite"])
        + """
import json, warnings
warnings.simplefilter("ignore")
import phipsi as pp
try:
    pp.Simulator(pp.examples.planar_arm(2), dt=1e-3)
except pp.errors.PhipsiError as error:
    print(json.dumps({"text": [str(error)]}))
"""
    )
    assert "pip install llvmlite" in run(code)["text"][0]


def test_windows_loader(usual: dict[str, list], tmp_path: Path) -> None:
    """Functions of the system by library and name; the same bits."""
    found = run(WINDOWS + WORK, LOCALAPPDATA=str(tmp_path), PHIPSI_CACHE=str(tmp_path / "cache"))
    assert found["warnings"] == []
    assert list((tmp_path / "cache").glob("*.bin"))
    compare(found, usual, 0.0)


def test_the_shim_rejects_what_windows_rejects() -> None:
    code = (
        WINDOWS
        + """
import json
llvm_library.SYSTEM = "posix"
try:
    llvm_library.release_memory(0)
    print(json.dumps({"failed": [False]}))
except TypeError:
    print(json.dumps({"failed": [True]}))
"""
    )
    assert run(code)["failed"] == [True]


def test_integers_of_status_have_the_number_that_numpy_gives_them() -> None:
    """7 on Linux and macOS, 9 on Windows."""
    assert machine_function._INT64 == np.dtype(np.int64).num
    assert machine_function._DOUBLE == np.dtype(np.float64).num


# ---- the code cache


@pytest.mark.parametrize("change", ["cpu", "features", "lanes", "fused", "number"])
def test_code_of_another_processor_has_another_key(change: str) -> None:
    """Programs are found by what they were compiled for."""
    host = target.host_target()
    others = {"cpu": "x86-64", "features": "", "lanes": 1, "fused": not host.fused}
    other = replace(host, **{change: {**others, "number": "float"}[change]})
    assert code_cache._text_key("text", host, 3) != code_cache._text_key("text", other, 3)
    program = pp.compile("mass_matrix^-1 tau", pp.examples.planar_arm(2)).source
    assert pipeline.plan_native(program)[0].key() != pipeline.plan_native(program, other)[0].key()


def test_code_of_another_system_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of macOS are not those of Linux on the same processor."""
    host = target.host_target()
    here = code_cache._text_key("text", host, 3), code_cache.sources_digest.__wrapped__()
    monkeypatch.setattr(llvm_library, "triple", lambda: "x86_64-apple-macosx11.0.0")
    there = code_cache._text_key("text", host, 3), code_cache.sources_digest.__wrapped__()
    assert here[0] != there[0] and here[1] != there[1]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PHIPSI_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize(
    "system, inside",
    [("posix", "home/.cache/phipsi"), ("darwin", "home/Library/Caches/phipsi"),
     ("nt", "local/phipsi/cache")],
)  # fmt: skip
def test_the_folder_is_where_the_system_keeps_such_files(
    places: Path, monkeypatch: pytest.MonkeyPatch, system: str, inside: str
) -> None:
    monkeypatch.setenv("LOCALAPPDATA", str(places / "local"))
    monkeypatch.setattr(code_cache, "SYSTEM", system)
    assert code_cache._wanted() == places / inside


def test_on_windows_only_the_profile_is_trusted(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_cache, "SYSTEM", "nt")
    code_cache.folder.cache_clear()
    try:
        monkeypatch.setenv("PHIPSI_CACHE", str(places / "elsewhere"))
        with pytest.warns(PhipsiWarning, match="outside of your profile"):
            assert code_cache.folder() is None
        code_cache.folder.cache_clear()
        monkeypatch.setenv("PHIPSI_CACHE", str(places / "home" / "mine"))
        assert code_cache.folder() == places / "home" / "mine"
    finally:
        code_cache.folder.cache_clear()
