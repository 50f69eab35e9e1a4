"""The wheel and the sdist: built, installed where nothing but NumPy is, and used there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp

ROOT = Path(pp.__file__).parents[2]
pytest.importorskip("hatchling", reason="packages are built by hatchling:  pip install hatchling")

USE = """
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import phipsi as pp
    arm = pp.examples.planar_arm(2)
    print(pp.__file__)
    print(*pp.forward_dynamics(arm, [0.3, -0.2], [1.0, 2.0], [0.0, 0.5]))
    pp.mass_matrix(arm, [0.3, -0.2])
print(len(found), found[0].category.__name__, "llvmlite" in str(found[0].message))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel, built from the sdist as `pip install` does, and the sdist."""
    folder = tmp_path_factory.mktemp("packages")
    call = (
        "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"
    )
    sdist = _run(["-c", call, "build_sdist", str(folder)], ROOT).split()[-1]
    with tarfile.open(folder / sdist) as archive:
        archive.extractall(folder, filter="data")
    inside = folder / sdist.removesuffix(".tar.gz")
    wheel = _run(["-c", call, "build_wheel", str(folder)], inside).split()[-1]
    return folder / wheel, folder / sdist


def _run(arguments: list[str], where: Path, **settings: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PHIPSI"))}
    command = [sys.executable, "-s", *arguments]
    done = subprocess.run(
        command, cwd=where, env=kept | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_works_where_only_numpy_is(packages: tuple[Path, Path], tmp_path: Path) -> None:
    """Without LLVM: one warning, and the same numbers on the reference backend."""
    place = tmp_path / "site"
    with zipfile.ZipFile(packages[0]) as archive:  # all of a wheel of Python code is its files
        archive.extractall(place)
    numpy = Path(np.__file__).parent
    for name in ("numpy", "numpy.libs"):
        if (numpy.parent / name).exists():
            os.symlink(numpy.parent / name, place / name)
    # -S: no other package of this environment is seen
    out = _run(["-S", "-c", USE], tmp_path, PYTHONPATH=str(place)).splitlines()
    assert out[0].startswith(str(place)), "another phipsi was imported"
    want = pp.forward_dynamics(pp.examples.planar_arm(2), [0.3, -0.2], [1.0, 2.0], [0.0, 0.5])
    np.testing.assert_allclose([float(x) for x in out[1].split()], want, rtol=1e-12)
    assert out[2] == "1 PhipsiWarning True"


def test_the_wheel_has_the_package_and_nothing_else(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[0]) as archive:
        names = set(archive.namelist())
        metadata = next(n for n in names if n.endswith("METADATA"))
        text = archive.read(metadata).decode()
    roots = {n.partition("/")[0] for n in names}
    assert roots == {"phipsi", metadata.partition("/")[0]}
    source = {
        str(p.relative_to(ROOT / "src"))
        for p in (ROOT / "src" / "phipsi").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert {n for n in names if n.startswith("phipsi/")} == source
    assert "phipsi/py.typed" in names
    assert "Requires-Dist: numpy" in text


def test_the_sdist_has_what_tests_and_docs_need(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[1]) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "src/phipsi/__init__.py"} <= names
    assert {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "Makefile"} <= names
    assert {"examples/reach.py", "scripts/release.py", ".github/workflows/tests.yml"} <= names
    assert any(n.startswith("tests/") for n in names) and any(n.startswith("docs/") for n in names)
    assert not [n for n in names if "__pycache__" in n or n.startswith((".venv", ".git/"))]
