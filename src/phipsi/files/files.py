"""Files from outside: read with limits and complained about by line."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Protocol

from phipsi.errors import FileError, ModelError

MAX_BYTES = 50_000_000


class SourceLocation(Protocol):
    """Anything that knows the file and the line it is about, such as an XML element."""

    @property
    def file(self) -> str:
        """The file as the user named it, or one it includes."""
        ...

    @property
    def line(self) -> int:
        """The line, from 1."""
        ...


def where(place: SourceLocation, seen_from: SourceLocation) -> str:
    """Say "on line 7", or "in other.sdf on line 7" if that is another file."""
    file = "" if place.file == seen_from.file else f"in {place.file} "
    return f"{file}on line {place.line}"


@contextmanager
def attributed_to(at: SourceLocation, element: str) -> Iterator[None]:
    """Report errors of the model at the element of the file that they are about."""
    try:
        yield
    except ModelError as error:
        raise FileError(at.file, at.line, element, str(error)) from error


def unused(name: str, taken: Container[str]) -> str:
    """The name, with as many underscores behind it as make it different from those taken."""
    while name in taken:
        name += "_"
    return name


def read_bytes(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """Contents of a regular file of at most `max_bytes`, or a FileError."""
    name = os.fspath(path)
    if "\0" in name:
        raise FileError(repr(name), 0, "", "a file name cannot contain a NUL character.")
    try:
        # Non-blocking, so that a named pipe put in place of a file cannot hold us up.
        handle = os.open(
            name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except OSError as error:
        hint = _nearby(name) if isinstance(error, FileNotFoundError) else ""
        raise FileError(name, 0, "", f"cannot be opened: {error.strerror}.{hint}") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise FileError(name, 0, "", f"is {what}; give the path of a robot file.")
        if status.st_size > max_bytes:
            raise FileError(name, 1, "", _too_large(status.st_size, max_bytes))
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise FileError(name, 0, "", f"cannot be read: {error.strerror}.") from error
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
    stem, suffix = os.path.splitext(base)
    try:
        with os.scandir(folder or ".") as entries:
            known = [entry.name for entry, _ in zip(entries, range(500), strict=False)]
    except OSError:
        return ""
    # The suffix is left out, or every short name with the same one would be close.
    stems = [os.path.splitext(other)[0] for other in known if other.endswith(suffix)]
    close = difflib.get_close_matches(stem, stems, n=3)
    return f" Did you mean {' or '.join(repr(s + suffix) for s in close)}?" if close else ""
