"""Flexible bodies in files: one .npz archive of plain arrays, without pickles.

| array | shape | meaning |
|---|---|---|
| `format` | | the text "phipsi flexible body 1" |
| `mass`, `first_moment`, `rotational_inertia`, `S1`, `S2`, `J1`, `J2`, `C0`, `C1` | | as in `FlexibleInertia`, SI units |
| `modal_mass`, `stiffness`, `damping` | (n, n) | |
| `port_names` | (p,) | text |
| `port_rotation`, `port_position`, `port_turns`, `port_moves`, `port_shortening` | (p, …) | as in `Port` |
| `shape_nodes`, `shape_modes`, `shape_triangles`, `shape_segments` | | as in `FlexibleShape`; may be missing |
"""  # noqa: E501

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import numpy as np

from phipsi.errors import FileError
from phipsi.whole_files import whole_file

_FORMAT = "phipsi flexible body 1"
_NUMBERS = (
    "mass", "first_moment", "rotational_inertia", "S1", "S2", "J1", "J2", "C0", "C1",
    "modal_mass", "stiffness", "damping",
)  # fmt: skip
_PORTS = ("port_rotation", "port_position", "port_turns", "port_moves", "port_shortening")
_SHAPE = ("shape_nodes", "shape_modes", "shape_triangles", "shape_segments")


def write_arrays(path: str | os.PathLike[str], arguments: dict[str, Any]) -> None:
    """Write the arguments of FlexibleInertia; ports and shape are dictionaries."""
    arrays = {name: arguments[name] for name in _NUMBERS}
    ports, shape = arguments["ports"], arguments["shape"] or {}
    arrays["port_names"] = np.array([port["name"] for port in ports], dtype=np.str_)
    for name in _PORTS if ports else ():
        arrays[name] = np.stack([port[name.removeprefix("port_")] for port in ports])
    arrays |= {f"shape_{k}": v for k, v in shape.items()}
    with whole_file(path) as part, part.open("wb") as file:
        np.savez_compressed(file, format=np.array(_FORMAT), **arrays)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Inverse of `write_arrays`."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {x: file[x] for x in file.files}
    except FileNotFoundError as error:
        raise FileError(name, 1, "", "there is no such file.") from error
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        reason = "this is not an .npz archive of plain arrays."
        raise FileError(name, 1, "", reason) from error
    found = str(arrays.pop("format", "no format"))
    if found != _FORMAT:
        reason = f"{found!r} is not {_FORMAT!r}, as FlexibleInertia.save writes it."
        raise FileError(name, 1, "format", reason)
    expected = {*_NUMBERS, *_PORTS, *_SHAPE, "port_names"}
    wrong = sorted({*arrays} - expected) or sorted({*_NUMBERS} - {*arrays})
    if wrong:
        verb = "is not a part of a flexible body" if {*arrays} - expected else "is missing"
        raise FileError(name, 1, wrong[0], f"this array {verb}.")
    names = arrays.pop("port_names", np.zeros(0, dtype=np.str_))
    parts = {x.removeprefix("port_"): arrays.pop(x) for x in _PORTS if x in arrays}
    shape = {x.removeprefix("shape_"): arrays.pop(x) for x in _SHAPE if x in arrays}
    if names.ndim != 1 or any(np.shape(values)[:1] != names.shape for values in parts.values()):
        raise FileError(name, 1, "port_names", "ports and their names differ in number.")
    ports = [{"name": str(x), **{k: v[i] for k, v in parts.items()}} for i, x in enumerate(names)]
    return {**arrays, "ports": ports, "shape": shape or None}
