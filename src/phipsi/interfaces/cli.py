"""The command line: `phipsi info FILE` and `phipsi check FILE`.

Heavy imports are inside the commands, so that help is quick.
"""

from __future__ import annotations

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
    """
    from phipsi.interfaces.tree_drawing import draw_tree

    model = _load(file, base, package_dirs)
    if model is None:
        return UNREADABLE
    mass = sum(inertia.mass for inertia in model.inertias)
    name = model.name or file.name
    sizes = f"{model.n_bodies} bodies, nq = {model.nq}, nv = {model.nv}"
    print(_printable(f"{name}: {sizes}, {mass:.4g} kg that can move"))
    for line in draw_tree(model, frames=frames, ascii_only=not _speaks_unicode()):
        print(_printable(line))
    if model.couplings:
        listed = ", ".join(c.joint for c in model.couplings)
        print(_printable(f"mimic joints (moving independently): {listed}"))
    shapes = len(model.geometry)
    print(
        f"{len(model.frames)} frames, {shapes} shapes, {len(model.diagnosis)} findings "
        "(phipsi check)"
    )
    return 0


@app.command
def check(
    file: Path,
    /,
    *,
    base: Literal["fixed", "free"] | None = None,
    package_dirs: list[Path] | None = None,
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
    seed
        Of the random state at which dynamics is checked.
    """
    from phipsi.interfaces.checks import check_model

    model = _load(file, base, package_dirs)
    if model is None:
        return UNREADABLE
    failed = 0
    for result in check_model(model, seed):
        print(_printable(str(result)))
        failed += result.passed is False
    print("all checks pass" if not failed else f"{failed} check(s) fail")
    return 1 if failed else 0


def _load(
    file: Path, base: Literal["fixed", "free"] | None, package_dirs: list[Path] | None
) -> Model | None:
    from phipsi.errors import ModelError, PhipsiWarning
    from phipsi.interfaces.load import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)  # findings are shown by the commands
        try:
            return load(file, base, package_dirs=package_dirs)
        except ModelError as error:
            print(_printable(str(error)), file=sys.stderr)
            return None


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")


def _printable(text: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def main() -> None:
    """Entry point of the `phipsi` command."""
    sys.exit(app())


if __name__ == "__main__":
    main()
