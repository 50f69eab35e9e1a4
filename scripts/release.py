"""Build the packages of a release and try them as a user would: `make release` calls this.

    python scripts/release.py

Writes a wheel and a source distribution into dist/, checks their descriptions, and installs the
wheel into an empty environment of every Python that pyproject.toml claims and this machine has.
There it imports every public name, prints the versions, runs the demo and runs docs/quick-start.md.
Pythons that are not found are named. Nothing is uploaded.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
CLAIM = re.compile(r"Programming Language :: Python :: (3\.\d+)")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
NAMES = """
import phipsi as pp
for name in pp.__all__:
    getattr(pp, name)
print(f"phipsi {pp.__version__}: {len(pp.__all__)} public names")
"""


def project() -> dict:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def claimed_pythons() -> list[str]:
    """Versions of Python that the classifiers claim, such as 3.11."""
    found = (CLAIM.fullmatch(x) for x in project()["classifiers"])
    return [x[1] for x in found if x]


def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or one that pyenv has installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(glob.glob(str(pyenv / "versions" / f"{version}.*" / "bin" / "python")))
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in (sys.executable, shutil.which(f"python{version}"), *reversed(installed)):
        if path is None:
            continue
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True)
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return path
    return None


def user_environment() -> dict[str, str]:
    """The variables of this process without those that lead Python or phipsi to these sources."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PHIPSI"))}


def run(words: Sequence[str | Path], cwd: Path = ROOT) -> str:
    """What a command prints; if it fails, its output and the end of the program."""
    shown = " ".join(map(str, words))
    done = subprocess.run(
        [str(x) for x in words], cwd=cwd, env=user_environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed with exit code {done.returncode}:  {shown}")
    return done.stdout


def build() -> tuple[Path, Path]:
    """The wheel and the source distribution in dist/, after `twine check --strict`."""
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", DIST])
    wheel, sdist = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    version = project()["version"]
    names = wheel.name.startswith(f"phipsi-{version}-"), sdist.name == f"phipsi-{version}.tar.gz"
    if not all(names):
        sys.exit(f"{wheel.name} and {sdist.name} are not of version {version}")
    run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist])
    return wheel, sdist


def quick_start() -> str:
    """The Python blocks of docs/quick-start.md as one file, as that page says."""
    text = (ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")
    return "\n".join(PYTHON_BLOCK.findall(text))


def try_wheel(wheel: Path, python: str, version: str, place: Path) -> str:
    """Install the wheel into an empty environment in an empty folder, and use it there."""
    environment, folder = place / "environment", place / "work"
    folder.mkdir()
    run([python, "-m", "venv", "--without-pip", environment])
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    own = programs / "python"
    run([sys.executable, "-m", "pip", "--python", own, "install", "--quiet", wheel])
    where = run([own, "-c", "import phipsi; print(phipsi.__file__)"], folder).strip()
    if not Path(where).resolve().is_relative_to(environment.resolve()):
        sys.exit(f"Python {version} imported {where} instead of the wheel")
    said = [run([own, "-c", NAMES], folder).strip()]
    versions = run([programs / "phipsi", "info"], folder).splitlines()
    said += [re.sub(" +", " ", x) for x in versions if re.match("llvmlite|numpy", x)]
    run([programs / "phipsi", "demo", "--out", folder / "demo"], folder)
    if not (folder / "demo" / "report.html").is_file():
        sys.exit(f"Python {version}: phipsi demo wrote no report.html")
    (folder / "arm.py").write_text(quick_start(), encoding="utf-8")
    run([own, "arm.py"], folder)
    return ", ".join(said)


def main() -> int:
    """Build, check and try; say for every Python what happened."""
    wheel, sdist = build()
    for file in (wheel, sdist):
        print(f"dist/{file.name}: {file.stat().st_size / 1e6:.1f} MB, description checked")
    missing, tried = [], 0
    for version in claimed_pythons():
        python = interpreter(version)
        if python is None:
            missing.append(version)
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as place:
            said = try_wheel(wheel, python, version, Path(place))
        tried += 1
        print(f"Python {version}: {said}; demo and quick start in "
              f"{time.perf_counter() - start:.0f} s", flush=True)  # fmt: skip
    if missing:
        print(f"not found on this machine, so not tried: Python {', '.join(missing)}")
    if not tried:
        print("The wheel was tried with no Python.", file=sys.stderr)
    return 0 if tried else 1


if __name__ == "__main__":
    sys.exit(main())
