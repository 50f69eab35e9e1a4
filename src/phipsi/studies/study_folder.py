"""The folder of a study: a manifest, and a file of arrays for every block of runs that is done.

The manifest is the truth: a block counts when it is listed there with the digest of its arrays.
Both are written to another name, flushed and renamed, so that whoever is killed leaves nothing
half-written. A block that was written just before its driver was killed names the study it is of,
and is listed when the study goes on. Nothing in the folder is ever unpickled.
Why so: docs/decisions/0053.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError, ParseError, shown, warn
from phipsi.native import host_target
from phipsi.studies.block_sizes import BlockSizes
from phipsi.studies.block_workers import NotWritten
from phipsi.studies.folder_lock import LOCK, owner_of
from phipsi.support import MissingPath, UnusablePath, atomic_write, opened_file, read_archive

Array = NDArray[Any]

FORMAT, VERSION = "phipsi-study", 1
_MANIFEST = "manifest.json"
_STUDY = "study"
"""The array of a block that names its study."""
_AGAIN = "Run the study again with this folder to recompute the block"
_LIBRARIES = ("phipsi", "numpy", "scipy", "llvmlite")
_MOST_SESSIONS = 100
MOST_BLOCKS = 1_000_000
"""Blocks of a study: a manifest has a line for each, and the driver 33 bytes."""
_MOST_BYTES, _MOST_VALUES = 400_000_000, 20_000_000
"""Bytes of a manifest, and values in it, of which Python makes objects."""
_DIGEST = hashlib.sha256().digest_size


@final
class Digests(MutableMapping[int, str]):
    """The digests of blocks by number, in 33 bytes for every block of the study."""

    def __init__(self, blocks: int) -> None:
        self._bytes = np.zeros((blocks, _DIGEST), dtype=np.uint8)
        self._there = np.zeros(blocks, dtype=bool)

    def __getitem__(self, block: int) -> str:
        if block not in self:
            raise KeyError(block)
        return self._bytes[block].tobytes().hex()

    def __setitem__(self, block: int, digest: str) -> None:
        found = bytes.fromhex(digest)
        if not 0 <= block < len(self._there) or len(found) != _DIGEST:
            raise ValueError(f"block {block} with digest {digest!r}")
        self._bytes[block] = np.frombuffer(found, dtype=np.uint8)
        self._there[block] = True

    def __delitem__(self, block: int) -> None:
        self._there[block] = False

    def __contains__(self, block: object) -> bool:
        return isinstance(block, int) and 0 <= block < len(self._there) and self._there[block]

    def __iter__(self) -> Iterator[int]:
        return (int(i) for i in np.flatnonzero(self._there))

    def __len__(self) -> int:
        return int(self._there.sum())

    @property
    def missing(self) -> Array:
        """The numbers of the blocks that are missing."""
        return np.flatnonzero(~self._there)


@final
class StudyFolder:
    """The folder with the results of a study.

    Attributes
    ----------
    path : Path
        The folder.
    definition : dict
        Definition of the study.
    done : dict
        Completed blocks by number with the digest of their arrays.
    quarantined : dict
        Blocks by number with what went wrong.
    sessions : list
        When, where and with which versions of libraries the study was run.
    """

    def __init__(
        self, path: str | os.PathLike[str], definition: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
        self.definition: dict[str, Any] = dict(definition or {})
        self.done = Digests(blocks_of(self.definition) if definition else 0)
        self.quarantined: dict[int, str] = {}
        self.sessions: list[dict[str, Any]] = []

    def __getstate__(self) -> dict[str, Any]:
        """What whoever writes blocks needs: not which of them are there."""
        return {**self.__dict__, "done": Digests(0), "quarantined": {}, "sessions": []}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> StudyFolder:
        """A folder that has a study."""
        file = Path(path) / _MANIFEST
        try:
            read = _read_json(file)
        except MissingPath:
            raise InputError(_not_there(Path(path))) from None
        except (OSError, ParseError) as error:
            raise ParseError(f"{file} cannot be read: {shown(error, 200)}") from None
        fine = isinstance(read, dict) and read.get("format") == FORMAT
        if not fine or read.get("version") != VERSION:
            raise ParseError(f"{file} is not a {FORMAT} of version {VERSION}")
        try:
            out = cls(path, _checked(read["definition"]))
            for number, digest in read["done"].items():
                out.done[int(number)] = digest
            out.quarantined = {int(k): str(x) or "?" for k, x in read["quarantined"].items()}
            out.sessions = [{**x, "versions": dict(x["versions"])} for x in read["sessions"]]
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            why = shown(error, 200)
            text = (
                f"{file}: a field is missing or of the wrong kind ({type(error).__name__}: {why})"
            )
            raise ParseError(text) from None
        return out

    @classmethod
    def begin(cls, path: str | os.PathLike[str], definition: dict[str, Any]) -> StudyFolder:
        """The folder of a study that begins or goes on; rejects one of another study."""
        target = Path(path)
        if (target / _MANIFEST).exists():
            out = cls.open(target)
            if difference := _difference(out.definition, definition):
                raise InputError(
                    f"{target} contains another study: {difference}. Resume with the same study, "
                    "or pass a new folder"
                )
            out.sweep()
            out._adopt()
            out._compare(_session())
        else:
            try:
                target.mkdir(parents=True, exist_ok=True)
                strangers = [x.name for x in target.iterdir() if _is_strange(x.name)]
            except OSError as error:
                raise InputError(f"the folder {target} cannot be used: {error.strerror}") from None
            if strangers:
                raise InputError(
                    f"{target} is not empty ({shown(strangers[0])} …) and contains no study. "
                    "Pass a new folder"
                )
            out = cls(target, definition)
        out.sessions = [*out.sessions, _session()][-_MOST_SESSIONS:]
        try:
            out.save()
        except NotWritten as error:
            raise InputError(f"the folder {target} cannot be used: {error}") from None
        return out

    def save(self) -> None:
        """Write the manifest, a few digests at a time: it has a line for every block."""
        head = json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "definition": self.definition,
                "quarantined": {str(k): x for k, x in sorted(self.quarantined.items())},
                "sessions": self.sessions,
            },
            allow_nan=False,
        )
        target = self.path / _MANIFEST
        try:
            with atomic_write(target) as part, part.open("w", encoding="utf-8") as file:
                file.write(f'{head[:-1]}, "done": {{')
                between = "\n"
                for number, digest in self.done.items():
                    file.write(f'{between}"{number}": "{digest}"')
                    between = ",\n"
                file.write("\n}}\n")
        except OSError as error:
            raise _unwritable(target, error) from None

    def block_file(self, number: int) -> Path:
        """Where a block's arrays are."""
        return self.path / f"block-{number:07d}.npz"

    def write_block(self, number: int, arrays: Mapping[str, Array]) -> str:
        """Write the arrays of a block; their digest."""
        whole = {**arrays, _STUDY: self._study}
        try:
            with atomic_write(self.block_file(number)) as part:
                np.savez(part, allow_pickle=False, **whole)
        except OSError as error:
            raise _unwritable(self.block_file(number), error) from None
        return digest_of(arrays)

    @cached_property
    def _study(self) -> Array:
        """The definition as one digest."""
        text = json.dumps(self.definition, sort_keys=True)
        return np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint8)

    def read_block(self, number: int) -> dict[str, Array]:
        """The arrays of a block, which must be those of the manifest."""
        arrays, _ = self._read(number)
        if digest_of(arrays) != self.done.get(number):
            raise ParseError(
                f"block {number}: checksum mismatch in {self.block_file(number)}. {_AGAIN}"
            )
        self._check_runs(number, arrays)
        return arrays

    def _read(self, number: int) -> tuple[dict[str, Array], Array | None]:
        """The arrays of a block, and the digest of the study they are of."""
        file = self.block_file(number)
        try:
            arrays = read_archive(file, "a block of a study", max_ratio=1)
        except MissingPath:
            raise ParseError(
                f"block {number}: {file} cannot be read: it does not exist. {_AGAIN}"
            ) from None
        except (OSError, ParseError) as error:
            why = shown(getattr(error, "strerror", None) or error, 200)
            text = f"block {number}: {file} cannot be read ({why}). {_AGAIN}"
            raise ParseError(text) from None
        return arrays, arrays.pop(_STUDY, None)

    def _check_runs(self, number: int, arrays: Mapping[str, Array]) -> None:
        """Reject arrays that are not those of the runs of a block: a manifest may list anything."""
        runs = sizes_of(self.definition).numbers_of(number, runs_of(self.definition))
        wrong = [name for name, x in arrays.items() if x.shape[:1] != (len(runs),)]
        if wrong or not np.array_equal(arrays.get("run", ()), runs):
            what = f"{shown(repr(wrong[0]), 80)} has another shape" if wrong else "it has others"
            raise ParseError(
                f"block {number}: {self.block_file(number)} does not have the runs {runs.start} "
                f"… {runs.stop - 1}: {what}. {_AGAIN}"
            )

    def sweep(self) -> None:
        """Remove the beginnings of files that a killed process leaves."""
        for file in (
            *self.path.glob(".block-*.part.npz"),
            *self.path.glob(".manifest.*.part.json"),
        ):
            with suppress(OSError):
                file.unlink()

    def _adopt(self) -> None:
        """List blocks of this study that were written after the manifest."""
        for file in self.path.glob("block-*.npz"):
            digits = file.stem.removeprefix("block-")
            if not digits.isdecimal() or int(digits) in self.done:
                continue
            if int(digits) >= blocks_of(self.definition):
                continue
            try:
                arrays, study = self._read(int(digits))
                self._check_runs(int(digits), arrays)
            except ParseError:
                continue  # it runs again
            if study is not None and np.array_equal(study, self._study):
                self.done[int(digits)] = digest_of(arrays)

    def _compare(self, now: Mapping[str, Any]) -> None:
        """Say so if other libraries computed what is there."""
        last = self.sessions[-1] if self.sessions else {}
        before, after = (
            {**x.get("versions", {}), **({"python": x["python"]} if "python" in x else {})}
            for x in (last, now)
        )
        changed = [
            f"{shown(name, 40)} {shown(x, 40)}, now {after.get(name)}"
            for name, x in sorted(before.items())
            if x != after.get(name)
        ]
        if changed and len(self.done):
            warn(
                f"{len(self.done)} blocks in {self.path} were computed with "
                f"{'; '.join(changed)}. Last digits may differ between them and the other "
                "blocks. For identical results pass a new folder"
            )

    def damaged(self) -> dict[int, str]:
        """Blocks of the manifest that cannot be read or have other numbers, with what is wrong."""
        out = {}
        for number in self.done:
            try:
                self.read_block(number)
            except ParseError as error:
                out[number] = str(error).removesuffix(f". {_AGAIN}")
        return out

    def drop_damaged(self) -> dict[int, str]:
        """Take damaged blocks out of the manifest; which they were."""
        out = self.damaged()
        for number in out:
            del self.done[number]
        if out:
            self.save()
        return out


# ---- definitions ---------------------------------------------------------------------------------


def sizes_of(definition: Mapping[str, Any]) -> BlockSizes:
    """How the runs of a study are divided into blocks."""
    largest = definition["block"]
    return BlockSizes(definition.get("first_block", largest), largest)


def blocks_of(definition: Mapping[str, Any]) -> int:
    """The number of blocks of a study."""
    return sizes_of(definition).blocks(runs_of(definition))


def runs_of(definition: Mapping[str, Any]) -> int:
    """The number of runs of a study."""
    lists = [len(x["values"]) for x in definition["distributions"].values() if "values" in x]
    return definition["runs"] * math.prod(lists)


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "runs": int, "block": int, "steps": int, "record_every": int, "seed": int, "dt": (int, float),
    "mechanism": str, "integrator": str, "sampling": str, "record": list, "save": list,
    "distributions": dict,
}  # fmt: skip
"""What readers of results use of a definition."""


def _checked(definition: Any) -> dict[str, Any]:
    """The definition of a manifest, if a study can have it; else an error of Python."""
    for name, kind in _FIELDS.items():
        x = definition[name]
        if not isinstance(x, kind) or isinstance(x, bool):
            raise TypeError(f"{name} is {shown(repr(x), 40)}")
    words = [*definition["record"], *definition["save"]]
    lists = [x["values"] for x in definition["distributions"].values() if "values" in x]
    if not all(isinstance(x, str) for x in words) or not all(isinstance(x, list) for x in lists):
        raise TypeError("record, save or distributions")
    for name, least in (("runs", 1), ("steps", 0), ("record_every", 1)):
        if not least <= definition[name] < 2**53:
            raise ValueError(f"{name} is {shown(definition[name], 40)}")
    if not sizes_of(definition).is_fine or not 0 < runs_of(definition) < 2**53:
        raise ValueError(f"block is {shown(definition['block'], 40)}")
    if blocks_of(definition) > MOST_BLOCKS:
        raise ValueError(f"{blocks_of(definition)} blocks are more than {MOST_BLOCKS}")
    return definition


def _read_json(file: Path) -> Any:
    """What a file of JSON says, if that fits into memory."""
    with opened_file(file, "") as source:
        data = source.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES or sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise ParseError(f"it is longer than the manifest of {MOST_BLOCKS} blocks")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ParseError(shown(error, 200)) from None


def _not_there(path: Path) -> str:
    """Why a folder has no manifest."""
    if owner := owner_of(path):
        return (
            f"the study in {path} is being started by {owner}: there are no results yet. Try "
            "again in a moment"
        )
    if not path.exists():
        return f"{path} does not exist: no study has been started there"
    return f"{path} has no {_MANIFEST}: it is not the folder of a study"


def _is_strange(name: str) -> bool:
    """Whether a file is not one that an interrupted driver leaves."""
    return name != LOCK and ".part" not in name


def _session() -> dict[str, Any]:
    """When, where and with which libraries."""
    found, target = {}, host_target()
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return {
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{platform.node()}, {platform.system()} {platform.machine()}",
        "processor": f"{target.cpu}, {target.lanes} lanes{', fused' if target.fused else ''}",
        "python": sys.version.split()[0],
        "versions": found,
    }


def _unwritable(file: Path, error: OSError) -> NotWritten:
    if isinstance(error, UnusablePath):  # names the file
        return NotWritten(str(error))
    return NotWritten(f"{file} cannot be written: {error.strerror or error}")


def digest_of(arrays: Mapping[str, Array]) -> str:
    """Names, shapes, kinds and numbers of arrays as one digest."""
    out = hashlib.sha256()
    for name in sorted(arrays):
        x = np.ascontiguousarray(arrays[name])
        out.update(f"{name} {x.dtype.str} {x.shape}\n".encode())
        out.update(x.tobytes())
    return out.hexdigest()


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Where two definitions part, or "".

    Compiled functions can be compared only if the same version of Python has compiled them; their
    texts and all that they read always.
    """
    same = old.get("python") == new.get("python")
    ignored = {"python", "unseen"} if same else {"python", "unseen", "code"}

    def first(a: Any, b: Any, path: tuple[str, ...]) -> tuple[tuple[str, ...], Any, Any] | None:
        if isinstance(a, dict) and isinstance(b, dict):
            keys = sorted({*a, *b} - ignored)
            # what functions read says more than that their code is another one
            keys.sort(key=lambda x: x == "code")
            found = (first(a.get(k, _NOTHING), b.get(k, _NOTHING), (*path, k)) for k in keys)
            return next((x for x in found if x is not None), None)
        return None if a == b and type(a) is type(b) else (path, a, b)

    found = first(dict(old), dict(new), ())
    if found is None:
        return ""
    (key, *inner), a, b = found
    named = [shown(repr(x), 80) for x in inner if x not in ("reads", "code", "")]
    what = f"its {key}" if not inner else f"what its {key!r} depends on has changed:"
    if "code" in inner:
        return f"{what} {' of '.join(named)} is compiled to other code"
    return (
        f"{what} {'of '.join(named) + ' ' if named else ''}is {shown(str(a), 120)}, that of this "
        f"one {shown(str(b), 120)}"
    )


_NOTHING = "not there"
