"""The folder of an export: what an earlier export wrote is replaced, everything else is kept.

`export.json` lists the files with their digests. Only a file that is listed, and is still what was
written, is replaced or removed; a file of the user's own, or one that was changed, is never lost.
Symbolic links stay, and are followed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from phipsi.errors import InputError

LISTING = "export.json"
"""The file that lists all others."""


def with_digests(listing: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """All files, and the listing of them."""
    digests = {name: _digest(content) for name, content in files.items()}
    text = json.dumps({**listing, "files": [*files, LISTING], "sha256": digests}, indent=1)
    return dict(files) | {LISTING: f"{text}\n".encode()}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write all files or none, and remove files of an earlier export that this one does not have.

    Parameters
    ----------
    folder : Path
        If it exists, it must be empty or an earlier export.
    files : mapping of str to bytes
        Those of `with_digests`.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If a file of the user stands where one of these must be written, or if a file to be replaced
        was changed.
    """
    folder = Path(os.path.realpath(folder))  # a link to a folder stays one
    with _named_errors(folder):
        if folder.exists():
            _Update(folder, files).run()
        else:
            _write_new(folder, files)
    return folder


@contextmanager
def _named_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"folder={str(folder)!r} cannot be written: {error.strerror}") from error


def _write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    """All files beside the folder, which is then given its name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        for name, content in files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_bytes(content)
        new.chmod(0o777 & ~_umask())
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


class _Update:
    """New files for a folder that exists.

    New contents are written beside the old ones first. While they take their places, the listing
    has the names of both, so that a process that is ended then leaves nothing that no listing has.
    """

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self.folder, self.files = folder, files
        self.old = _earlier(folder)  # digests by name, "" if there is none
        self.places = {name: self._place(name, content) for name, content in files.items()}
        self.stale = [name for name in self.old if name not in files and self._is_ours(name)]

    def run(self) -> None:
        """Exchange the files, or restore those that were there."""
        before: dict[Path, bytes | None] = {}
        made: list[Path] = []
        parts: dict[Path, Path] = {}
        try:
            for name, place in self.places.items():
                made += _made_folders(place.parent)
                parts[place] = _part(place, self.files[name])
            listing = self.places.get(LISTING)
            if listing is not None and self.old:
                before[listing] = _content(listing)
                _replace(listing, self._names_of_both())
            for place, part in parts.items():
                before.setdefault(place, _content(place))
                os.replace(part, place)
            for name in self.stale:
                before[self.folder / name] = _content(self.folder / name)
                (self.folder / name).unlink()
        except BaseException:  # interrupts too
            for place, content in before.items():
                if content is None:
                    place.unlink(missing_ok=True)
                else:
                    _replace(place, content)
            for part in parts.values():
                part.unlink(missing_ok=True)
            _remove_empty(made)
            raise
        _remove_empty([p for name in self.stale for p in self._folders_of(name)])

    def _names_of_both(self) -> bytes:
        names = dict.fromkeys((*self.old, *self.files, LISTING))
        return json.dumps({"files": list(names), "sha256": {}}).encode()

    def _folders_of(self, name: str) -> list[Path]:
        """The folders below this one that a file is in, the outer ones first."""
        return [self.folder / p for p in reversed(PurePosixPath(name).parents[:-1])]

    def _place(self, name: str, new: bytes) -> Path:
        """Where a file is written; nothing of the user's own is there."""
        for parent in self._folders_of(name):
            if os.path.lexists(parent) and not parent.is_dir():
                raise self._refusal(
                    parent, "it is not from an export, and stands where a folder must be created"
                )
        path = self.folder / name
        if not os.path.lexists(path):
            return path
        place = Path(os.path.realpath(path))
        if not place.is_file():
            raise self._refusal(path, "it is not a file, and stands where a file must be written")
        found, digest = place.read_bytes(), self.old.get(name)
        if found == new or (name == LISTING and self.old):
            return place
        if digest is None or (not digest and place != path):
            raise self._refusal(path, "it is not from an export")
        if digest and digest != _digest(found):
            raise self._refusal(path, "it was changed after it was exported")
        return place

    def _refusal(self, path: Path, why: str) -> InputError:
        name, other = path.relative_to(self.folder).as_posix(), self.folder / "export"
        return InputError(
            f"folder={str(self.folder)!r}: {name} would be lost: {why}. Nothing was written. "
            f"Move or delete it, or use another folder:  folder={str(other)!r}"
        )

    def _is_ours(self, name: str) -> bool:
        """Whether an old file is what an export wrote, and not a link or reached by one."""
        path = self.folder / name
        if not path.is_file() or Path(os.path.realpath(path)) != path:
            return False
        return not self.old[name] or self.old[name] == _digest(path.read_bytes())


def _earlier(folder: Path) -> dict[str, str]:
    """The digests of the files that an earlier export wrote; {} for an empty folder."""
    if not folder.is_dir():
        raise InputError(f"folder={str(folder)!r} is a file; give the path of a folder")
    found = sorted(p.name for p in folder.iterdir())
    if not found:
        return {}
    try:
        listing = json.loads((folder / LISTING).read_text(encoding="utf-8"))
        digests = listing.get("sha256", {})
        return {name: str(digests.get(name, "")) for name in listing["files"] if _inside(name)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"folder={str(folder)!r} has files that are not from an export "
            f"({', '.join(found[:3])}). Use another folder:  folder={str(folder / 'export')!r}"
        ) from None


def _inside(name: Any) -> bool:
    """Whether a name from a listing is that of a file below its folder."""
    if not isinstance(name, str) or "\\" in name or "\0" in name:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path.as_posix() == name != "."


# ---- files and folders ---------------------------------------------------------------------------


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _part(place: Path, content: bytes) -> Path:
    """A new file beside a place, with this content."""
    part = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        part.write_bytes(content)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def _replace(place: Path, content: bytes) -> None:
    part = _part(place, content)
    try:
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)


def _made_folders(folder: Path) -> list[Path]:
    """Make a folder; those that were made, the outer ones first."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _remove_empty(folders: list[Path]) -> None:
    """Remove these folders, inner ones first, where nothing is in them."""
    for folder in sorted(set(folders), key=lambda p: len(p.parts), reverse=True):
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
