"""The folder of a study: a manifest, and a file of arrays for every block of runs that is done.

The manifest is the truth: a block counts when it is listed there with the digest of its arrays.
Both are written to another name, flushed and renamed, so that whoever is killed leaves nothing
half-written. A block that was written just before its driver was killed names the study it is of,
and is listed when the study goes on. Nothing in the folder is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError, ParseError, shown
from phipsi.whole_files import whole_file

Array = NDArray[Any]

FORMAT, VERSION = "phipsi-study", 1
_MANIFEST = "manifest.json"
_STUDY = "study"
"""The array of a block that names its study."""
_AGAIN = "Run the study again with this folder: it runs the block again"


@final
class StudyFolder:
    """Where the results of a study are.

    **Attributes:** `path`; `definition`, of the study; `done`, blocks by number with the digest of
    their arrays; `quarantined`, blocks by number with what went wrong.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.definition: dict[str, Any] = {}
        self.done: dict[int, str] = {}
        self.quarantined: dict[int, str] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> StudyFolder:
        """A folder that has a study."""
        out = cls(path)
        file = out.path / _MANIFEST
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            text = f"{out.path} has no {_MANIFEST}: it is not the folder of a study"
            raise InputError(text) from None
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise ParseError(f"{file} cannot be read: {error}") from None
        fine = isinstance(read, dict) and read.get("format") == FORMAT
        if not fine or read.get("version") != VERSION:
            raise ParseError(f"{file} is not a {FORMAT} of version {VERSION}")
        try:
            out.definition = dict(read["definition"])
            out.done = {int(k): str(x) for k, x in read["done"].items()}
            out.quarantined = {int(k): str(x) for k, x in read["quarantined"].items()}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ParseError(f"{file}: a field is missing or of the wrong kind") from None
        return out

    @classmethod
    def begin(cls, path: str | os.PathLike[str], definition: dict[str, Any]) -> StudyFolder:
        """The folder of a study that begins or goes on; rejects one of another study."""
        target = Path(path)
        if (target / _MANIFEST).exists():
            out = cls.open(target)
            if out.definition != definition:
                raise InputError(_difference(target, out.definition, definition))
            out._adopt()
            return out
        try:
            target.mkdir(parents=True, exist_ok=True)
            strangers = [x.name for x in target.iterdir() if ".part" not in x.name]
        except OSError as error:
            raise InputError(f"the folder {target} cannot be used: {error.strerror}") from None
        if strangers:
            raise InputError(
                f"{target} is not empty ({shown(strangers[0])} …) and has no study; name a new one"
            )
        out = cls(target)
        out.definition = definition
        out.save()
        return out

    def save(self) -> None:
        """Write the manifest."""
        text = json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "definition": self.definition,
                "done": {str(k): x for k, x in sorted(self.done.items())},
                "quarantined": {str(k): x for k, x in sorted(self.quarantined.items())},
            },
            allow_nan=False,
        )
        with whole_file(self.path / _MANIFEST) as part:
            part.write_text(text, encoding="utf-8")

    def block_file(self, number: int) -> Path:
        """Where a block's arrays are."""
        return self.path / f"block-{number:07d}.npz"

    def write_block(self, number: int, arrays: Mapping[str, Array]) -> str:
        """Write the arrays of a block; their digest."""
        whole = {**arrays, _STUDY: self._study}
        with whole_file(self.block_file(number)) as part:
            np.savez(part, allow_pickle=False, **whole)
        return digest_of(arrays)

    @property
    def _study(self) -> Array:
        """The definition as one digest."""
        text = json.dumps(self.definition, sort_keys=True)
        return np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint8)

    def read_block(self, number: int) -> dict[str, Array]:
        """The arrays of a block, which must be those of the manifest."""
        arrays, _ = self._read(number)
        if digest_of(arrays) != self.done.get(number):
            raise ParseError(
                f"{self.block_file(number)} has other numbers than the manifest says. {_AGAIN}"
            )
        return arrays

    def _read(self, number: int) -> tuple[dict[str, Array], Array | None]:
        """The arrays of a block, and the digest of the study they are of."""
        file = self.block_file(number)
        try:
            with file.open("rb") as source, np.load(source, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
        except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
            raise ParseError(f"{file} cannot be read ({error}). {_AGAIN}") from None
        return arrays, arrays.pop(_STUDY, None)

    def _adopt(self) -> None:
        """List blocks of this study that were written after the manifest."""
        for file in self.path.glob("block-*.npz"):
            digits = file.stem.removeprefix("block-")
            if not digits.isdecimal() or int(digits) in self.done:
                continue
            try:
                arrays, study = self._read(int(digits))
            except ParseError:
                continue  # it runs again
            if study is not None and np.array_equal(study, self._study):
                self.done[int(digits)] = digest_of(arrays)

    def drop_damaged(self) -> list[int]:
        """Take blocks that cannot be read out of the manifest; their numbers."""
        bad = []
        for number in sorted(self.done):
            try:
                self.read_block(number)
            except ParseError:
                bad.append(number)
        for number in bad:
            del self.done[number]
        if bad:
            self.save()
        return bad


def digest_of(arrays: Mapping[str, Array]) -> str:
    """Names, shapes, kinds and numbers of arrays as one digest."""
    out = hashlib.sha256()
    for name in sorted(arrays):
        x = np.ascontiguousarray(arrays[name])
        out.update(f"{name} {x.dtype.str} {x.shape}\n".encode())
        out.update(x.tobytes())
    return out.hexdigest()


def _difference(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Where two definitions part."""
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if a != b:
            return (
                f"{path} has another study: its {key} is {shown(str(a), 120)}, that of this one "
                f"{shown(str(b), 120)}. Go on with the same study, or name a new folder"
            )
    raise AssertionError("the definitions are the same")
