"""Which files a robot file may refer to: those in its own package and in folders the user names.

A path is first checked as text, and only when it stays inside is the file system asked where it
really leads; about a path that leads out the file system is not even asked.

Reasons: docs/decisions/0014.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from phipsi.core.model import as_list
from phipsi.errors import InputError, ModelError, shown
from phipsi.files.files import read_bytes, unused
from phipsi.files.xml_document import parse_xml
from phipsi.support import path_of

_PACKAGE_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MARKERS = ("package.xml", "model.config")
_MARKER_BYTES = 100_000
_LONGEST = 4096  # characters of a path
# Folders that robot packages conventionally keep their descriptions in, next to their meshes.
_DESCRIPTION_FOLDERS = ("urdf", "robots", "sdf", "mjcf", "xml")

PackageDirs = Mapping[str, str | os.PathLike[str]] | Iterable[str | os.PathLike[str]]


@final
class Rejected(Exception):
    """A path that leads out of the allowed folders, with what the user can do about it.

    `folder` is the one to allow, if that would do; `is_file_address` if it is a ``file:///…``
    address, which says where its author had the file.
    """

    def __init__(
        self, reason: str, fix: str = "", is_file_address: bool = False, folder: str = ""
    ) -> None:
        super().__init__(f"{reason}. {fix}" if fix else f"{reason}.")
        self.reason, self.fix, self.is_file_address = reason, fix, is_file_address
        self.folder = folder


@final
@dataclass(frozen=True)
class AllowedFolders:
    """The folders a robot file may refer to.

    `folder` is that of the `file`, `package` the folder of the package it is in, `named` maps
    package names to folders, `searched` are folders that contain packages. `call` is the function
    that was asked to read the file, for messages.
    """

    file: str
    folder: str
    package: str
    named: Mapping[str, str]
    searched: tuple[str, ...]
    call: str = "pp.load"
    _stated: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        file: str | os.PathLike[str],
        package_dirs: PackageDirs | None = None,
        call: str = "pp.load",
    ) -> AllowedFolders:
        """Allow the package the file is in, and what the user names in `package_dirs`."""
        folder = os.path.realpath(os.path.dirname(os.fspath(file)) or ".")
        named: dict[str, str] = {}
        searched: list[str] = []
        if isinstance(package_dirs, Mapping):
            named = {str(name): os.path.realpath(at) for name, at in package_dirs.items()}
        elif isinstance(package_dirs, str | os.PathLike):
            searched = [os.path.realpath(package_dirs)]
        elif package_dirs is not None:
            listed = as_list("package_dirs", package_dirs, "['folder of packages']")
            searched = [os.path.realpath(path_of(place)) for place in listed]
        for place in (*named.values(), *searched):
            if not os.path.isdir(place):
                raise InputError(f"package_dirs: there is no folder {shown(place)}")
        return cls(os.fspath(file), folder, _package_of(folder), named, tuple(searched), call)

    def allowing(self, folders: Iterable[str]) -> str:
        """The call that allows these folders besides those that are allowed already."""
        new = dict.fromkeys(folders)
        dirs: object = list(dict.fromkeys([*self.searched, *new]))
        if self.named:
            dirs = dict(self.named)
            for folder in new:
                dirs[unused(os.path.basename(folder) or "root", dirs)] = folder
        what = "folder" if len(new) == 1 else "folders"
        return (
            f"If you trust it, allow the {what}:\n"
            f"    {self.call}({self.file!r}, package_dirs={dirs!r})"
        )

    def _rejected(self, reason: str, folder: str, is_file_address: bool = False) -> Rejected:
        return Rejected(reason, self.allowing([folder]), is_file_address, folder)

    def locate(self, uri: str, named_in: str | None = None) -> str | None:
        """Where a file named in a robot file is: its real path, or None if it is not found.

        Understands ``package://name/path``, ``model://name/path``, ``file:///path`` and plain
        paths, the latter relative to the file `named_in` (by default the robot file). Raises
        `Rejected` for anything that leads outside.
        """
        if "\0" in uri:
            raise Rejected("the path contains a NUL character")
        if len(uri) > _LONGEST:
            raise Rejected(f"the path has {len(uri):,} characters")
        scheme = _SCHEME.match(uri)
        word = scheme.group(1).lower() if scheme else ""
        if word in ("package", "model"):
            return self._in_package(uri[len(word) + 1 :])
        if word == "file":
            return self._at_address(uri[len("file:") :])
        if len(word) == 1:  # a drive letter
            raise Rejected("the path is absolute", "Write it relative to this file.")
        if word:
            raise Rejected(
                f"{word}: addresses are never fetched", "Put the file into the robot's package."
            )
        path = uri.replace("\\", "/")
        if path.startswith("/"):
            return self._absolute(path)
        folder = self.folder
        if named_in is not None:
            folder = os.path.realpath(os.path.dirname(named_in) or ".")
        return self._inside(os.path.join(folder, path), self._allowed())

    def _allowed(self) -> list[str]:
        return [self.package, *self.named.values(), *self.searched]

    def _absolute(self, path: str, is_file_address: bool = False) -> str | None:
        plain = os.path.normpath("/" + path.lstrip("/"))
        if not any(_is_within(plain, root) for root in self._allowed()):
            raise self._rejected(
                "the path is absolute and outside the robot's package, so it is not opened",
                os.path.dirname(plain),
                is_file_address,
            )
        return self._inside(plain, self._allowed())

    def _at_address(self, rest: str) -> str | None:
        """A path after ``file:``; ``file://host/…`` is on another machine."""
        host, path = "", rest
        if rest.startswith("//"):
            host, slash, path = rest[2:].partition("/")
            path = slash + path
        if host not in ("", "localhost") or not path.startswith("/"):
            what = f"it names a file on the machine {host[:60]!r}" if host else "no file is named"
            raise Rejected(what, "Write file:///path, or a path relative to this file.")
        return self._absolute(path, True)

    def _in_package(self, rest: str) -> str | None:
        name, _, path = rest.lstrip("/").partition("/")
        path = path.replace("\\", "/")
        if not _PACKAGE_NAME.fullmatch(name) or name in (".", ".."):
            raise Rejected(f"{name[:60]!r} is not a package name: letters, digits, '_', '.', '-'")
        if not _is_within(os.path.normpath(os.path.join("/package", path)), "/package"):
            raise Rejected(f"the path leads out of the package {name!r}")
        for root in self._packages(name):
            found = self._inside(os.path.join(root, path), [root], [root, *self._allowed()])
            if found is not None:
                return found
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
        if self._name_of_package() == name:
            found.append(self.package)
        # A folder above the package with the right name is not one unless it is marked: else
        # package://home/… would reach everything.
        above = self.folder
        while True:
            if os.path.basename(above) == name and (
                _is_within(above, self.package) or _is_marked(above)
            ):
                found.append(above)
            parent = os.path.dirname(above)
            if parent == above:
                return found
            above = parent

    def _name_of_package(self) -> str:
        """The name that package.xml gives the file's package, which its folder need not have."""
        if "name" not in self._stated:
            name = ""
            try:
                marker = self._inside(os.path.join(self.package, "package.xml"), [self.package])
                if marker is not None:
                    at = parse_xml(read_bytes(marker, _MARKER_BYTES), marker).only("name")
                    name = at.text.strip() if at is not None else ""
            except (ModelError, Rejected):  # a damaged package.xml gives no name
                pass
            self._stated["name"] = name
        return self._stated["name"]

    def _inside(self, path: str, roots: list[str], allowed: list[str] | None = None) -> str | None:
        """The real path if it is a file: as text within `roots`, in truth within `allowed`."""
        plain = os.path.normpath(path)
        if not any(_is_within(plain, root) for root in roots):
            raise self._rejected(
                "the path leads out of the robot's package folder", os.path.dirname(plain)
            )
        real = os.path.realpath(plain)
        if not any(_is_within(real, root) for root in allowed or roots):
            raise self._rejected(
                "the path leads through a symbolic link out of the robot's package folder",
                os.path.dirname(real),
            )
        return real if os.path.isfile(real) else None


def _is_within(path: str, root: str) -> bool:
    try:
        return os.path.commonpath([path, root]) == root
    except ValueError:  # different drives
        return False


def _is_marked(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, marker)) for marker in _MARKERS)


def _package_of(folder: str) -> str:
    """The nearest folder upwards with a package's marker; else what the folder's name suggests."""
    above = folder
    for _ in range(12):
        if _is_marked(above):
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
