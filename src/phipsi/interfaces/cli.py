"""The command line: `phipsi info FILE` and `phipsi check FILE`.

Heavy imports are inside the commands, so that help is quick.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

if TYPE_CHECKING:
    from phipsi.model import Model

app = App(
    name="phipsi",
    help="Multibody dynamics: look at robot files and check them.",
    version_flags=["--version"],
)
UNREADABLE = 2


@app.command
def info(
    file: Path,
    /,
    *,
    base: Literal["fixed", "free"] | None = None,
    frames: bool = False,
    package_dirs: list[Path] | None = None,
    model: str | None = None,
) -> int:
    """Show the tree of a robot file: names, joints, freedoms and masses.

    Parameters
    ----------
    file
        A URDF, SDF or MJCF file.
    base
        Weld the base to the world or let it float; by default what the format says.
    frames
        Also show the frames fixed in each body.
    package_dirs
        Folders that contain the packages of package:// paths.
    model
        One of several models of an SDF file, by name.
    """
    from phipsi.interfaces.checks import counted
    from phipsi.interfaces.tree_drawing import draw_tree

    robot = _load(file, base, package_dirs, model)
    if robot is None:
        return UNREADABLE
    mass = sum(inertia.mass for inertia in robot.inertias)
    name = (robot.name or file.name)[:80]
    sizes = f"{counted(robot.n_bodies, 'body')}, nq = {robot.nq}, nv = {robot.nv}"
    print(_printable(f"{name}: {sizes}, {mass:.4g} kg that can move"))
    for line in draw_tree(robot, frames=frames, ascii_only=not _speaks_unicode()):
        print(_printable(line))
    if robot.couplings:
        listed = ", ".join(c.joint[:60] for c in robot.couplings)
        print(_printable(f"mimic joints (moving independently): {listed}"))
    rest = ("frame", len(robot.frames)), ("shape", len(robot.geometry))
    print(", ".join(counted(n, word) for word, n in rest))
    if robot.diagnosis:
        print(f"{counted(len(robot.diagnosis), 'finding')} in the file; phipsi check lists them")
    return 0


@app.command
def check(
    file: Path,
    /,
    *,
    base: Literal["fixed", "free"] | None = None,
    package_dirs: list[Path] | None = None,
    model: str | None = None,
    seed: int = 0,
) -> int:
    """Check a robot file: its inertias, its dynamics, and every operator identity on it.

    The exit code is 0 if all checks pass, 1 if one fails, 2 if the file cannot be read.

    Parameters
    ----------
    file
        A URDF, SDF or MJCF file.
    base
        Weld the base to the world or let it float; by default what the format says.
    package_dirs
        Folders that contain the packages of package:// paths.
    model
        One of several models of an SDF file, by name.
    seed
        Of the random state at which dynamics is checked.
    """
    from phipsi.interfaces.checks import check_model

    robot = _load(file, base, package_dirs, model)
    if robot is None:
        return UNREADABLE
    failed = 0
    for result in check_model(robot, seed):
        print(_printable(str(result)))
        failed += result.passed is False
    for finding in robot.diagnosis:
        if not finding.is_problem:
            print(_printable(f"note  {finding}"))
    print("all checks pass" if not failed else f"{failed} check(s) fail")
    return 1 if failed else 0


def _load(
    file: Path,
    base: Literal["fixed", "free"] | None,
    package_dirs: list[Path] | None,
    model: str | None,
) -> Model | None:
    from phipsi.errors import ModelError, PhipsiWarning
    from phipsi.interfaces.load import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)  # findings are shown by the commands
        try:
            return load(file, base, package_dirs=package_dirs, model=model)
        except ModelError as error:
            text = str(error)
            for option in ("package_dirs", "model"):  # what the message says in Python
                if f"{option}=" in text:
                    text += f"\nOn the command line:  --{option.replace('_', '-')} …"
            print(_printable(text), file=sys.stderr)
            return None


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")


def _printable(text: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def main() -> None:
    """Entry point of the `phipsi` command."""
    try:
        code = app()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
