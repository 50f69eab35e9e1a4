"""`load`: read a robot file of any known format."""

from __future__ import annotations

import math
import os
import re
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast, final

from phipsi.core.model import Model
from phipsi.errors import FileError, InputError, ModelError, is_real, one_of, true_or_false
from phipsi.files.allowed_folders import AllowedFolders, PackageDirs
from phipsi.files.files import MAX_BYTES, read_bytes
from phipsi.package_state import public

Base = Literal["fixed", "free"]
_OPENING = re.compile(rb"<([A-Za-z_][A-Za-z0-9_:.-]*)|<\?|<!--")
_CLOSING = {b"<?": b"?>", b"<!--": b"-->"}
_BY_TAG = {"robot": "urdf", "sdf": "sdf", "mujoco": "mjcf"}
_BY_SUFFIX = {".urdf": "urdf", ".sdf": "sdf", ".world": "sdf", ".mjcf": "mjcf", ".xacro": "urdf"}


@final
@dataclass
class LoadOptions:
    """What the caller of `load` chose; see there."""

    base: Base | None = None
    strict: bool = False
    repair: str | None = None
    loops: str = "close"
    model: str | None = None
    isolate: bool = True
    max_seconds: float = 60.0
    max_memory: int = 2_000_000_000

    def __post_init__(self) -> None:
        for name, known in (
            ("base", ("fixed", "free", None)),
            ("repair", ("inertia", None)),
            ("loops", ("close", "cut")),
        ):
            value = getattr(self, name)
            if value is not None or None not in known:
                words = [word for word in known if word is not None]
                one_of(name, value, words, error=ModelError)
        for name in ("strict", "isolate"):
            true_or_false(name, getattr(self, name), error=ModelError)
        for name in ("max_seconds", "max_memory"):
            value = getattr(self, name)
            if not is_real(value) or not 0 < value < math.inf:
                raise ModelError(f"{name}={value!r} must be a positive number.")
        self.closes_loops = self.loops == "close"
        self.deadline = time.monotonic() + self.max_seconds
        if self.strict and self.repair:
            raise ModelError(
                "strict=True rejects what repair= would mend; give one of the two, not both."
            )


def load(
    path: str | os.PathLike[str],
    base: Base | None = None,
    *,
    package_dirs: PackageDirs | None = None,
    strict: bool = False,
    repair: str | None = None,
    loops: str = "close",
    model: str | None = None,
    isolate: bool = True,
    max_bytes: int = MAX_BYTES,
    max_seconds: float = 60.0,
    max_memory: int = 2_000_000_000,
) -> Model:
    """Read a robot file: URDF, SDF or MJCF, recognised by its outermost element.

    A tree is a `Model`. A robot with loops is a `System`, which is a model with constraints: they
    come from `<mimic>` of URDF and SDF (`Coupling`, "<joint> mimics <other>"), from the joints of
    an SDF file that close loops (the later ones in the file, under their names; their limits and
    damping have no coordinate and are reported), and from the active `<equality>` elements of
    MJCF: connect (`Spherical`), weld (`Weld`) and joint with a linear polynomial (`Coupling`).
    MuJoCo makes them soft; here they are exact. Files say where joints are, not in which
    configuration loops are closed: ``system.assemble(q)`` finds one.

    The numbers are those of the file. Inertias that no rigid body has, and other findings, are
    listed in `model.diagnosis` and summarised in one `PhipsiWarning`.

    **Arguments:** `base`, "fixed" welds the base link to the world and "free" lets it float on a
    free joint "root_joint"; by default fixed for URDF and as the file says for SDF and MJCF;
    `package_dirs`, folders that contain the packages of ``package://`` paths, or a mapping from
    package name to folder; `strict`, reject what would be a warning; ``repair="inertia"``, replace
    inertias that no rigid body has by the nearest that one can have, and list every change;
    ``loops="cut"``, leave out what closes loops, and list it: the result is a tree, mimic joints
    move independently and `model.couplings` lists them;
    `model`, the name of one of several models in an SDF file; `max_bytes`, reject larger files;
    `max_seconds` and `max_memory` (bytes), the most that reading may take.
    MuJoCo, which reads MJCF, runs in a process of its own, where no fault of it can do harm;
    ``isolate=False`` runs it in this one, without these two limits.
    **Returns:** a `Model`, a `System` if constraints are left; a `ModelError` has file and line.

    Reading never executes or fetches anything and opens nothing outside the folder of the package
    the file is in and `package_dirs`.
    """
    if not isinstance(cast(object, path), (str, os.PathLike)):
        raise InputError(f"load needs the path of a robot file, not {type(path).__name__}")
    options = LoadOptions(base, strict, repair, loops, model, isolate, max_seconds, max_memory)
    file = os.fspath(path)
    data = read_bytes(file, max_bytes)
    folders = AllowedFolders.of(file, package_dirs)
    kind = kind_of(data, file)
    if model is not None and kind != "sdf":
        reason = f"model={model!r} chooses among the models of an SDF file; leave it out."
        raise FileError(file, 1, "", reason)
    reader = import_module(f"phipsi.files.{kind}.read_{kind}")
    parsed, default = getattr(reader, f"read_{kind}")(data, file, folders, options)
    tree = parsed.finish(options, default)
    if not parsed.constraints:
        return tree
    try:
        return public("System")(tree, parsed.constraints)
    except ModelError as error:
        raise FileError(file, 1, "", str(error)) from error


def kind_of(data: bytes, file: str) -> str:
    """Return "urdf", "sdf" or "mjcf": by the outermost element, else by the suffix."""
    suffix = os.path.splitext(file)[1].lower()
    tag = _first_tag(data[:20_000])
    kind = _BY_TAG.get(tag) or _BY_SUFFIX.get(suffix)
    if kind is not None:
        return kind
    if suffix == ".xml":
        return "mjcf" if tag.startswith("mujoco") else "urdf"
    what = f"starts with <{tag}>" if tag else "has no XML element in sight"
    raise FileError(
        file,
        1,
        "",
        f"{what}, but robot files start with <robot> (URDF), <sdf> (SDF) or <mujoco> (MJCF).",
    )


def _first_tag(data: bytes) -> str:
    """The tag of the outermost element: the first outside of comments and instructions."""
    at = 0
    while (opening := _OPENING.search(data, at)) is not None:
        if opening.group(1):
            return opening.group(1).decode("ascii")
        end = data.find(_CLOSING[opening.group()], opening.end())
        if end < 0:
            return ""
        at = end
    return ""
