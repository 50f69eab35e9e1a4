"""Files from outside: read with limits, complained about by line, confined to the robot's folders.

Nothing here follows a path that leads out of the allowed roots: a path is first checked as text,
and only then is the file system asked where it really leads.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from phipsi.errors import ModelError, did_you_mean

MAX_BYTES = 50_000_000
_PACKAGE_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MARKERS = ("package.xml", "model.config")
# Folders that robot packages conventionally keep their descriptions in, next to their meshes.
_DESCRIPTION_FOLDERS = ("urdf", "robots", "sdf", "mjcf", "xml")

PackageDirs = Mapping[str, str | os.PathLike[str]] | Iterable[str | os.PathLike[str]]


@final
class FileError(ModelError):
    """A robot file that cannot be read: `file`, `line`, the `element` by name, and the `reason`.

    The text is ``file:line: element: reason``; `line` is 1 for what concerns the file as a whole.
    """

    def __init__(self, file: str, line: int, element: str, reason: str) -> None:
        self.file, self.line, self.element, self.reason = file, line, element, reason
        super().__init__(
            f"{file}:{line}: {element}: {reason}" if element else f"{file}:{line}: {reason}"
        )

    def __reduce__(self) -> tuple[type, tuple[str, int, str, str]]:
        return FileError, (self.file, self.line, self.element, self.reason)


def read_bytes(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """Contents of a regular file of at most `max_bytes`, or a FileError."""
    name = os.fspath(path)
    if "\0" in name:
        raise FileError(repr(name), 1, "", "a file name cannot contain a NUL character.")
    try:
        # Non-blocking, so that a named pipe put in place of a file cannot hold us up.
        handle = os.open(
            name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except OSError as error:
        raise FileError(
            name, 1, "", f"cannot be opened: {error.strerror}.{_nearby(name)}"
        ) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise FileError(name, 1, "", f"is {what}; give the path of a robot file.")
        if status.st_size > max_bytes:
            raise FileError(name, 1, "", _too_large(status.st_size, max_bytes))
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise FileError(name, 1, "", f"cannot be read: {error.strerror}.") from error
    finally:
        os.close(handle)
    if len(data) > max_bytes:
        raise FileError(name, 1, "", _too_large(len(data), max_bytes))
    return data


def _too_large(size: int, max_bytes: int) -> str:
    return (
        f"has {size:,} bytes, more than the {max_bytes:,} that are read. Robot descriptions are "
        f"far smaller; if this one is right, raise the limit:  pp.load(path, max_bytes={size})"
    )


def _nearby(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        with os.scandir(folder or ".") as entries:
            known = [entry.name for entry, _ in zip(entries, range(500), strict=False)]
    except OSError:
        return ""
    hint = did_you_mean(base, known)
    return f" {hint}" if hint.startswith("Did you mean") else ""


# ---- confinement --------------------------------------------------------------------------------


@final
class Refused(Exception):
    """A path that leads out of the allowed folders; `is_absolute` if it names a place by itself."""

    def __init__(self, reason: str, is_absolute: bool = False) -> None:
        super().__init__(reason)
        self.is_absolute = is_absolute


@final
@dataclass(frozen=True)
class Roots:
    """The folders a robot file may refer to.

    `folder` is that of the file, `package` the folder of the package it is in, `named` maps
    package names to folders, `searched` are folders that contain packages.
    """

    folder: str
    package: str
    named: Mapping[str, str]
    searched: tuple[str, ...]

    @classmethod
    def of(cls, file: str | os.PathLike[str], package_dirs: PackageDirs | None = None) -> Roots:
        """Allow the package the file is in, and what the user names in `package_dirs`."""
        folder = os.path.realpath(os.path.dirname(os.fspath(file)) or ".")
        named: dict[str, str] = {}
        searched: list[str] = []
        if isinstance(package_dirs, Mapping):
            named = {str(name): os.path.realpath(at) for name, at in package_dirs.items()}
        elif isinstance(package_dirs, str | os.PathLike):
            searched = [os.path.realpath(package_dirs)]
        elif package_dirs is not None:
            searched = [os.path.realpath(place) for place in package_dirs]
        return cls(folder, _package_of(folder), named, tuple(searched))

    def locate(self, uri: str) -> str | None:
        """Where a file named in a robot file is: its real path, or None if it is not there.

        Understands ``package://name/path``, ``model://name/path``, ``file:`` and plain paths, the
        latter relative to the robot file. Raises `Refused` for anything that leads outside.
        """
        if "\0" in uri:
            raise Refused("the path contains a NUL character")
        scheme = _SCHEME.match(uri)
        word = scheme.group(1).lower() if scheme else ""
        if word in ("package", "model"):
            return self._in_package(uri, uri[len(word) + 1 :])
        if len(word) == 1:  # a drive letter
            raise Refused("the path is absolute, so it names a place on another machine", True)
        if word == "file":
            return self._absolute(uri[len("file:") :])
        if word:
            raise Refused(f"{word}: addresses are never fetched; use a file in the robot's package")
        path = uri.replace("\\", "/")
        if path.startswith("/"):
            return self._absolute(path)
        return self._inside(os.path.join(self.folder, path), self._allowed())

    def _allowed(self) -> list[str]:
        return [self.package, *self.named.values(), *self.searched]

    def _absolute(self, path: str) -> str | None:
        while path.startswith("//"):
            path = path[1:]
        try:
            return self._inside(path, self._allowed())
        except Refused as refused:
            raise Refused(
                "the path is absolute and outside the robot's package, so it is not opened", True
            ) from refused

    def _in_package(self, uri: str, rest: str) -> str | None:
        name, _, path = rest.lstrip("/").partition("/")
        if not _PACKAGE_NAME.fullmatch(name) or name in (".", ".."):
            raise Refused(f"{name!r} is no package name (letters, digits, '_', '.' and '-')")
        for root in self._packages(name):
            place = os.path.join(root, path.replace("\\", "/"))
            found = self._inside(place, [root], [root, *self._allowed()])
            if found is not None:
                return found
        if ".." in path.replace("\\", "/").split("/"):  # also when the package is not known
            self._inside(os.path.join("/package", path), ["/package"], ask=False)
        return None

    def _packages(self, name: str) -> list[str]:
        """Folders the package may be: named, in a searched folder, or one the file is in."""
        found = [self.named[name]] if name in self.named else []
        for place in self.searched:
            if os.path.basename(place) == name:
                found.append(place)
            inner = os.path.realpath(os.path.join(place, name))
            if _is_within(inner, place) and os.path.isdir(inner):
                found.append(inner)
        above = self.folder
        while True:
            if os.path.basename(above) == name:
                found.append(above)
                break
            parent = os.path.dirname(above)
            if parent == above:
                break
            above = parent
        return found

    @staticmethod
    def _inside(
        path: str, roots: list[str], allowed: list[str] | None = None, ask: bool = True
    ) -> str | None:
        """The real path if it is a file: as text within `roots`, in truth within `allowed`."""
        plain = os.path.normpath(path)
        if not any(_is_within(plain, root) for root in roots):
            raise Refused("the path leads out of the robot's package folder")
        if not ask:
            return None
        real = os.path.realpath(plain)
        if not any(_is_within(real, root) for root in allowed or roots):
            raise Refused(
                "the path leads through a symbolic link out of the robot's package folder"
            )
        return real if os.path.isfile(real) else None


def _is_within(path: str, root: str) -> bool:
    try:
        return os.path.commonpath([path, root]) == root
    except ValueError:  # different drives
        return False


def _package_of(folder: str) -> str:
    """The nearest folder upwards with a package's marker; else what the folder's name suggests."""
    above = folder
    for _ in range(12):
        if any(os.path.exists(os.path.join(above, marker)) for marker in _MARKERS):
            return above
        parent = os.path.dirname(above)
        if parent == above:
            break
        above = parent
    parent = os.path.dirname(folder)
    if (
        os.path.basename(folder).lower() in _DESCRIPTION_FOLDERS
        and os.path.dirname(parent) != parent
    ):
        return parent
    return folder
