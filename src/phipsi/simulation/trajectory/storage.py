"""Trajectories in files: `.npz` with a JSON header and the model inside, and CSV.

The archive is a plain zip of `.npy` members without compression. Reading trusts nothing: members
are looked up by name, their sizes checked against what the archive and the array headers say before
anything is allocated, only numbers are read, and the header must have the right fields.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model, as_list, entry_names
from phipsi.errors import ParseError, PhipsiError, counted, shown, warn
from phipsi.simulation.trajectory.event_record import EventRecord
from phipsi.simulation.trajectory.interpolation import NODES, DenseRecord
from phipsi.support import (
    ArrayArchive,
    atomic_write,
    checked_target,
    named_as,
    opened_file,
    path_of,
)

Array = NDArray[Any]

FORMAT, VERSION = "phipsi-trajectory", 1
MAX_BYTES = 2_000_000_000
_MAX_RATIO = 200  # of unpacked to packed size; what `save` writes has 1
_HEADER = "header"
# most that Python takes for a header: copies of the text with four bytes a letter, and an empty
# dict with its place in a list for every comma and bracket
_BYTES_PER_LETTER, _BYTES_PER_OBJECT = 6, 72


# ---- writing ------------------------------------------------------------------------------------


def save(trajectory: Any, path: str | os.PathLike[str]) -> None:
    """Write a trajectory; see `Trajectory.save`."""
    others = {"csv": "run.to_csv({})", "html": "pp.report(run, {})", "htm": "pp.report(run, {})"}
    others |= dict.fromkeys(("png", "gif", "mp4"), "pp.render(run, {})")
    target = checked_target(named_as(path, "an archive of arrays", (".npz",), **others))
    arrays = _arrays(trajectory)
    with atomic_write(target) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _arrays(trajectory: Any) -> dict[str, Array]:
    model, events = trajectory.model, trajectory.events
    header = {
        "format": FORMAT,
        "version": VERSION,
        "integrator": trajectory.integrator,
        "complete": trajectory.complete,
        "events": [event.name for event in events],
        "quadratures": list(trajectory.quadratures),
        "model": model.to_dict(),
    }
    text = json.dumps(header, allow_nan=False)  # in ASCII: names may hold what UTF-8 cannot
    arrays = {
        _HEADER: np.frombuffer(text.encode(), dtype=np.uint8),
        "t": trajectory.t,
        "q": trajectory.q,
        "v": trajectory.v,
        "tau": trajectory.tau,
        "energy": trajectory.energy,
        "momentum": trajectory.momentum,
        "constraint_residuals": trajectory.constraint_residuals,
        "quadratures": np.array([*trajectory.quadratures.values()]).reshape(-1, len(trajectory)),
        "totals": np.array([*trajectory.totals.values()], dtype=np.float64),
        "event_t": np.array([e.t for e in events]),
        "event_q": np.array([[e.q, e.q_after] for e in events]).reshape(-1, 2, model.nq),
        "event_v": np.array([[e.v, e.v_after] for e in events]).reshape(-1, 2, model.nv),
    }
    dense = trajectory._dense.arrays() if trajectory._dense is not None else None
    if dense is not None:
        arrays |= dict(zip(_DENSE, dense, strict=True))
    return arrays


_DENSE = ("dense_t0", "dense_h", "dense_base", "dense_values")


def to_csv(trajectory: Any, path: str | os.PathLike[str]) -> None:
    """Write a trajectory as columns; see `Trajectory.to_csv`."""
    named = named_as(path, "a table", (".csv", ".txt"), npz="run.save({})")
    target, model = checked_target(named, in_place=True), trajectory.model
    names = ["t"]
    for kind, slices in (("q", model.q_slices), ("v", model.v_slices), ("tau", model.v_slices)):
        names += [f"{kind}:{name}" for name in entry_names(model, slices)]
    columns = [trajectory.t, trajectory.q, trajectory.v, trajectory.tau, trajectory.energy]
    records = record_columns(trajectory.records)
    more = {**trajectory.quadratures, **records}
    table = np.column_stack([*columns, *more.values()])
    with open(target, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([_cell(name) for name in (*names, "energy", *more)])
        writer.writerows([repr(x) for x in row] for row in table.tolist())


def record_columns(records: Mapping[str, Array]) -> dict[str, Array]:
    """Every entry of recorded signals over time (k,), by a name such as "pid.error[0]"."""
    out: dict[str, Array] = {}
    for name, x in records.items():
        for place in np.ndindex(*x.shape[1:]):
            text = f"[{', '.join(map(str, place))}]" if place else ""
            out[name + text] = x[(slice(None), *place)]
    return out


def _cell(name: str) -> str:
    """A name as a spreadsheet may see it: what would be read as a formula begins with a quote."""
    text = shown(name, most=None)
    return f"'{text}" if text.startswith(_FORMULA) else text


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


# ---- reading ------------------------------------------------------------------------------------


def load(
    path: str | os.PathLike[str],
    max_bytes: int = MAX_BYTES,
    package_dirs: Iterable[str | os.PathLike[str]] = (),
) -> dict[str, Any]:
    """The arguments of the `Trajectory` in a file."""
    where = shown(path_of(path).name)
    listed = as_list("package_dirs", package_dirs, "['folder of meshes']")
    folders = [os.path.realpath(path_of(x)) for x in (path_of(path).parent, *listed)]
    with opened_file(path, "Write one with trajectory.save(path)") as file:
        try:
            archive = _Archive(file, where, max_bytes)
            header = archive.header()
            foreign = _foreign_meshes(header, folders)
            found = _read(archive, header, where)
        except ParseError:
            raise
        except PhipsiError as error:
            raise ParseError(f"{where} has an invalid model: {error}") from error
        except Exception as error:  # whatever a broken archive makes of zipfile, json or NumPy
            raise ParseError(
                f"{where} is not a trajectory file: {type(error).__name__}: {shown(error)}. "
                f"Write one with trajectory.save(path)."
            ) from error
    if foreign:
        kept = list(dict.fromkeys([*folders[1:], *foreign]))[:10]
        warn(
            f"{where} names {counted(sum(foreign.values()), 'mesh file')} outside of its folder. "
            "They are not opened, because an untrusted file could name any file; bodies are "
            "drawn by other shapes. If you trust it, allow the folders:\n"
            f"    pp.Trajectory.load({os.fspath(path)!r}, package_dirs={kept!r})"
        )
    return found


def _foreign_meshes(header: Any, folders: list[str]) -> dict[str, int]:
    """Take meshes outside of these folders out of a header; their folders, with how many."""
    model = header.get("model") if isinstance(header, dict) else None
    records = model.get("geometry") if isinstance(model, dict) else None
    out: dict[str, int] = {}
    for record in records if isinstance(records, list) else ():
        file = record.get("file") if isinstance(record, dict) else None
        if file is None or _is_allowed(file, folders):
            continue
        del record["file"]
        place = os.path.dirname(file) if isinstance(file, str) else "?"
        out[place] = out.get(place, 0) + 1
    return out


def _is_allowed(file: Any, folders: list[str]) -> bool:
    """Whether a file is inside: first as text, and only then the disk is asked where it leads."""
    if not isinstance(file, str) or not os.path.isabs(file) or "\0" in file:
        return False
    plain = os.path.normpath(file)
    if not any(os.path.commonpath([plain, x]) == x for x in folders):
        return False
    real = os.path.realpath(plain)
    return any(os.path.commonpath([real, x]) == x for x in folders) and os.path.isfile(real)


class _Archive:
    """The members of a trajectory file: a header, and arrays of finite numbers."""

    def __init__(self, file: BinaryIO, where: str, max_bytes: int) -> None:
        self._where = where
        self._members = ArrayArchive(
            file, where, "a trajectory file", max_bytes=max_bytes, max_ratio=_MAX_RATIO,
            advice="If you trust it: Trajectory.load(path, max_bytes=…)",
        )  # fmt: skip

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def header(self) -> Any:
        """The header, if what Python makes of it fits into memory as well."""
        text = self._members.array(_HEADER, np.uint8)
        objects = sum(int(np.count_nonzero(text == ord(mark))) for mark in ",[{")
        self._members.take(_BYTES_PER_LETTER * text.size + _BYTES_PER_OBJECT * objects)
        return json.loads(text.tobytes().decode("utf-8"))

    def array(self, name: str) -> Array:
        """One array of numbers that must be finite."""
        found = self._members.array(name, np.float64)
        if not np.isfinite(found).all():
            raise ParseError(
                f"{self._where}: array {name!r} has numbers that are not finite; trajectories have "
                "none, so the file is damaged."
            )
        return found


def _read(archive: _Archive, header: Any, where: str) -> dict[str, Any]:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ParseError(f'{where} is not a trajectory file: its "format" is not "{FORMAT}".')
    if header.get("version") != VERSION:
        raise ParseError(
            f"{where} has the format version {shown(repr(header.get('version')), 80)}, which is "
            f"not supported; this library reads version {VERSION}."
        )
    model = Model.from_dict(header.get("model"))  # type: ignore[arg-type]
    names, integrator = _names(header, "events", where), header.get("integrator")
    if not isinstance(integrator, str) or not isinstance(header.get("complete"), bool):
        raise ParseError(f"{where}: the header's integrator or complete has the wrong type.")
    nq, nv = model.nq, model.nv
    t = archive.array("t")
    k = t.shape[0] if t.ndim == 1 else -1
    arrays = {
        name: _of_shape(archive, where, name, shape)
        for name, shape in {
            "t": (k,),
            "q": (k, nq),
            "v": (k, nv),
            "tau": (k, nv),
            "energy": (k,),
            "momentum": (k, 6),
            "constraint_residuals": (k, None),
        }.items()
    }
    if (np.diff(t) < 0).any():
        raise ParseError(f"{where}: the times do not increase.")
    m = len(names)
    event_t = _of_shape(archive, where, "event_t", (m,))
    event_q = _of_shape(archive, where, "event_q", (m, 2, nq))
    event_v = _of_shape(archive, where, "event_v", (m, 2, nv))
    events = tuple(
        EventRecord(name, float(at), q[0], v[0], q[1], v[1])
        for name, at, q, v in zip(names, event_t, event_q, event_v, strict=True)
    )
    beside = _names({"quadratures": [], **header}, "quadratures", where)  # older files have none
    n = len(beside)
    found = _of_shape(archive, where, "quadratures", (n, k)) if n else np.zeros((0, k))
    totals = _of_shape(archive, where, "totals", (n,)) if n else np.zeros(0)
    return {
        "model": model,
        **arrays,
        "events": events,
        "complete": header["complete"],
        "integrator": integrator,
        "dense": _dense(archive, where, nq, 2 * nv + len(beside)),
        "quadratures": dict(zip(beside, found, strict=True)),
        "totals": dict(zip(beside, totals.tolist(), strict=True)),
    }


def _names(header: dict[str, Any], what: str, where: str) -> list[str]:
    found = header.get(what)
    if not (isinstance(found, list) and all(isinstance(x, str) for x in found)):
        raise ParseError(f"{where}: the header's {what} must be a list of names.")
    return found


def _of_shape(archive: _Archive, where: str, name: str, shape: tuple[int | None, ...]) -> Array:
    array = archive.array(name)
    fits = array.ndim == len(shape) and all(
        n is None or n == size for n, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ParseError(
            f"{where}: array {name!r} has the shape {array.shape}, which does not fit the model "
            f"and the times, {shape}."
        )
    return array


def _dense(archive: _Archive, where: str, nq: int, width: int) -> DenseRecord | None:
    if not any(name in archive for name in _DENSE):
        return None
    values = archive.array("dense_values")
    s, nodes = values.shape[:2] if values.ndim == 3 else (-1, -1)
    if nodes not in NODES:
        raise ParseError(f"{where}: dense_values has the shape {values.shape}.")
    shapes: tuple[tuple[int, ...], ...] = ((s,), (s,), (s, nq), (s, nodes, width))
    t0, h, base, values = (
        _of_shape(archive, where, name, shape) for name, shape in zip(_DENSE, shapes, strict=True)
    )
    if s == 0 or (np.diff(t0) < 0).any() or not (h > 0).all():
        raise ParseError(f"{where}: the segments of the dense output do not follow each other.")
    return DenseRecord.of_arrays(t0, h, base, values)
