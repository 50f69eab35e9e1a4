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
                "strict=True rejects what repair= would fix; pass one of the two, not both."
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
    """Read a robot file: URDF, SDF or MJCF, recognised by its root element.

    A tree is a `Model`. A robot with loops is a `System`, which is a model with constraints: they
    come from `<mimic>` of URDF and SDF (`Coupling`, "<joint> mimics <other>"), from the joints of
    an SDF file that close loops (the later ones in the file, under their names; their limits and
    damping have no coordinate and are reported), and from the active `<equality>` elements of MJCF:
    connect (`Spherical`), weld (`Weld`) and joint with a linear polynomial (`Coupling`). MuJoCo
    makes them soft; here they are exact. Files say where joints are, not in which configuration
    loops are closed: ``system.assemble(q)`` finds one.

    Joint limits, damping and dry friction of the file are stored and do not act by themselves: pass
    ``forces=pp.forces.from_model(model)`` to a simulation, which warns if it has no forces.

    The numbers are those of the file. Inertias that no rigid body can have, and other findings, are
    listed in `model.diagnosis` and summarised in one `PhipsiWarning`. Reading never executes or
    fetches anything and opens nothing outside the folder of the package the file is in and
    `package_dirs`.

    Parameters
    ----------
    path : str or path
        The file.
    base : {"fixed", "free"}, optional
        Weld the base link to the world, or let it float on a free joint "root_joint". Default:
        fixed for URDF, and as the file says for SDF and MJCF.
    package_dirs : sequence or mapping, optional
        Folders that contain the packages of ``package://`` paths, or a mapping from package name to
        folder. Default: none.
    strict : bool, optional
        Whether to reject what would be a warning. Default: False.
    repair : {"inertia"}, optional
        Replace inertias that no rigid body can have by the nearest that one can have, and list
        every change. Default: change nothing.
    loops : {"close", "cut"}, optional
        "cut" omits what closes loops, and lists it: the result is a tree, mimic joints move
        independently and `model.couplings` lists them. Default: "close".
    model : str, optional
        The name of one of several models in an SDF file.
    isolate : bool, optional
        Whether MuJoCo, which reads MJCF, runs in a process of its own, so that its crashes do no
        harm. False runs it in this process, without the two limits below. Default: True.
    max_bytes : int, optional
        Reject larger files.
    max_seconds : float, optional
        The longest that reading may take. Default: 60.
    max_memory : int, optional
        The most memory that reading may take, bytes. Default: 2·10⁹.

    Returns
    -------
    Model
        A `System` if there are constraints, else a tree.

    Raises
    ------
    ModelError
        If the file is wrong, with file and line.

    See Also
    --------
    save_urdf : Write a model as URDF.
    forces.from_model : Joint limits, damping and dry friction of the file as forces.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import phipsi as pp
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "arm.urdf"
    >>> arm = pp.examples.planar_arm(2).with_gravity((0, 0, -9.81))
    >>> text = pp.save_urdf(arm, file)
    >>> pp.load(file).joint_names[:2]
    ('joint1', 'joint2')
    """
    if not isinstance(cast(object, path), (str, os.PathLike)):
        raise InputError(f"load needs the path of a robot file, not {type(path).__name__}")
    options = LoadOptions(base, strict, repair, loops, model, isolate, max_seconds, max_memory)
    file = os.fspath(path)
    data = read_bytes(file, max_bytes)
    folders = AllowedFolders.of(file, package_dirs)
    kind = kind_of(data, file)
    if model is not None and kind != "sdf":
        reason = f"model={model!r} chooses among the models of an SDF file; remove it."
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
    what = f"starts with <{tag}>" if tag else "contains no XML element"
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
