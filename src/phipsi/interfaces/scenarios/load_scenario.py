"""`load_scenario`: a TOML file as a `Scenario`, checked from top to bottom before anything runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phipsi import examples
from phipsi.errors import InputError, PhipsiWarning, did_you_mean
from phipsi.interfaces.formats.folders import AllowedFolders, PackageDirs, Rejected
from phipsi.interfaces.formats.load import load
from phipsi.interfaces.scenarios.controller import read_controller
from phipsi.interfaces.scenarios.forces_and_events import read_events, read_forces
from phipsi.interfaces.scenarios.joint_values import closed_state, with_coordinates, with_rates
from phipsi.interfaces.scenarios.scenario import Scenario, checked_output
from phipsi.interfaces.scenarios.toml_tables import Table, read_toml
from phipsi.model import Model
from phipsi.motion.tableaux import METHODS

_KEYS = (
    "title", "model", "duration", "initial", "integrator", "forces", "controller", "events",
    "output",
)  # fmt: skip
_ROBOT_SUFFIXES = (".urdf", ".sdf", ".world", ".mjcf", ".xml")
_OUTPUTS = {
    "npz": (".npz",),
    "csv": (".csv",),
    "figure": (".png", ".svg", ".pdf"),
    "report": (".html",),
}


def load_scenario(
    path: str | os.PathLike[str],
    *,
    package_dirs: PackageDirs | None = None,
    coordinates: Mapping[str, Sequence[float]] | None = None,
    rates: Mapping[str, Sequence[float]] | None = None,
) -> Scenario:
    r"""Read a scenario, a TOML file with everything a run needs; see docs/scenarios.md.

    Paths in it are relative to it. The robot file must be in its folder or package, as for files
    that a robot file names, and what is written goes into its folder.

    **Arguments:** `package_dirs`, further folders it may refer to, as for `load`; `coordinates` and
    `rates`, by joint, which change the initial state. **Returns:** a `Scenario`; whatever is wrong
    is a `ModelError` with file and line.

    >>> import tempfile, pathlib, phipsi as pp
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "fall.toml"
    >>> _ = file.write_text('model = "seven_joint_arm"\nduration = 0.1\n')
    >>> scenario = pp.load_scenario(file)
    >>> scenario.simulate().complete
    True
    """
    top = read_toml(os.fspath(path))
    top.only(*_KEYS)
    folders = AllowedFolders.of(os.fspath(path), package_dirs, call="pp.load_scenario")
    model, source = _model(top, folders, package_dirs)
    initial = top.table("initial") or Table(top.file, top.lines, ("initial",), {}, "initial")
    initial.only("q", "v")
    said = initial.by_joint("q"), initial.by_joint("v")
    q0 = with_coordinates(model, model.neutral(), said[0], _refusing(initial, "q"))
    v0 = with_rates(model, np.zeros(model.nv), said[1], _refusing(initial, "v"))
    changed = coordinates or {}, rates or {}
    q0, v0 = with_coordinates(model, q0, changed[0]), with_rates(model, v0, changed[1])
    q0, v0 = closed_state(model, q0, v0, {**said[0], **changed[0]}, {**said[1], **changed[1]})
    output = top.table("output")
    return Scenario(
        model,
        q0,
        v0,
        top.number("duration", example="5.0", positive=True),
        **_integrator(top),
        every=output.number("every", None, example="0.01", positive=True) if output else None,
        controller=read_controller(top, model, q0),
        forces=read_forces(top, model),
        events=read_events(top, model),
        outputs=_outputs(output, folders, source) if output else (),
        title=top.text("title", ""),
    )


def _refusing(table: Table, key: str) -> Any:
    def refuse(joint: str, reason: str) -> Any:
        table.refuse((key, joint), reason)

    return refuse


# ---- the model ---------------------------------------------------------------------------------


def _model(
    top: Table, folders: AllowedFolders, package_dirs: PackageDirs | None
) -> tuple[Model, str]:
    """The model, and the file it is from or nothing."""
    if isinstance(top.data.get("model"), str):
        return _named(top, "model", top.text("model"), folders, {"package_dirs": package_dirs})
    one = top.table("model")
    if one is None:
        top.refuse(
            "",
            f"'model' is missing. For example:  model = \"arm.urdf\"   or one that ships with "
            f'phipsi:  model = "{examples.ROBOTS[-1]}"',
        )
    one.only("file", "robot", "base", "gravity", "name")
    if ("file" in one) == ("robot" in one):
        one.refuse("", 'say either  file = "arm.urdf"  or  robot = "humanoid", one of the two.')
    if "robot" in one:
        for key in ("base", "name"):
            if key in one:
                one.refuse(key, f"{key!r} is for files; robots that ship are what they are.")
        model, source = _shipped(one, "robot", one.text("robot")), ""
    else:
        options = {
            "package_dirs": package_dirs,
            "base": one.choice("base", ("fixed", "free"), None),
            "model": one.text("name", None),
        }
        model, source = _from_file(one, "file", one.text("file"), folders, options)
    if "gravity" in one:
        model = model.with_gravity(one.numbers("gravity", 3))
    return model, source


def _named(
    top: Table, key: str, name: str, folders: AllowedFolders, options: dict[str, Any]
) -> tuple[Model, str]:
    """A file if it looks like one, else a robot that ships with the library."""
    if name.lower().endswith(_ROBOT_SUFFIXES) or "/" in name:
        return _from_file(top, key, name, folders, options)
    return _shipped(top, key, name), ""


def _shipped(one: Table, key: str, name: str) -> Model:
    if name not in examples.ROBOTS:
        one.refuse(
            key,
            f"no robot {name!r} ships with phipsi. {did_you_mean(name, examples.ROBOTS)} "
            f"A robot file has a suffix, such as {name + '.urdf'!r}.",
        )
    return getattr(examples, name)()


def _from_file(
    one: Table, key: str, name: str, folders: AllowedFolders, options: dict[str, Any]
) -> tuple[Model, str]:
    try:
        found = folders.locate(name)
    except Rejected as refused:
        text = (
            str(refused).replace("robot's package", "scenario's").replace("folder folder", "folder")
        )
        one.refuse(key, f"{name!r}: {text}")
    if found is None:
        one.refuse(key, f"there is no file {name!r} in {folders.folder}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)  # `phipsi check` is for the robot file
        return load(found, **options), found


# ---- how to run it, and where to ---------------------------------------------------------------


def _integrator(top: Table) -> dict[str, Any]:
    if "integrator" not in top:
        return {}
    if isinstance(top.data["integrator"], str):
        return {"integrator": top.choice("integrator", METHODS)}
    one = top.table("integrator")
    assert one is not None
    one.only("name", "dt", "rtol", "atol")
    name = one.choice("name", METHODS, "dopri")
    unused = ("dt",) if METHODS[name].is_adaptive else ("rtol", "atol")
    for key in unused:
        if key in one:
            kind = "chooses its steps" if key == "dt" else "has fixed steps"
            other = "rtol and atol" if key == "dt" else "dt"
            one.refuse(key, f"{name} {kind}, so {key!r} would do nothing; it has {other}.")
    return {
        "integrator": name,
        "dt": one.number("dt", 1e-3, example="1e-3", positive=True),
        "rtol": one.number("rtol", 1e-9, example="1e-9", positive=True),
        "atol": one.number("atol", 1e-12, example="1e-12", positive=True),
    }


def _outputs(one: Table, folders: AllowedFolders, source: str) -> tuple[Path, ...]:
    one.only("every", *_OUTPUTS)
    out: list[Path] = []
    inputs = {os.path.realpath(one.file), source}
    for key, suffixes in _OUTPUTS.items():
        if key not in one:
            continue
        name = one.text(key, example=f'"run{suffixes[0]}"')
        if os.path.splitext(name)[1].lower() not in suffixes:
            one.refuse(key, f"{key} = {name!r} must end in {' or '.join(suffixes)}.")
        if "\0" in name:
            one.refuse(key, "a file name cannot contain a NUL character.")
        plain = os.path.normpath(os.path.join(folders.folder, name.replace("\\", "/")))
        real = os.path.realpath(plain)  # a symbolic link may lead out
        if not all(Path(p).is_relative_to(folders.folder) for p in (plain, real)):
            one.refuse(
                key,
                f"{name!r} leads out of the scenario's folder, where it may not write. To write "
                f"elsewhere say so when running it:  phipsi simulate … --out {name}",
            )
        if real in inputs or real in map(str, out):
            one.refuse(key, f"{name!r} is read, or written twice; choose another name.")
        try:
            out.append(checked_output(real))
        except InputError as error:
            one.refuse(key, str(error))
    return tuple(out)
