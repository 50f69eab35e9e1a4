"""Atomic writes: a file is replaced as a whole or not at all. Checks of paths before long work."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from phipsi.errors import InputError, shown


class UnusablePath(InputError, OSError):
    """A path at which nothing can be read or written; ``except OSError`` finds it too."""


class MissingPath(UnusablePath, FileNotFoundError):
    """A file or a folder that does not exist."""


def path_of(path: Any) -> Path:
    """A path as given, if it can be one."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InputError(f"a path is a str or a pathlib.Path, such as 'run.html', not {path!r}")
    if "\0" in os.fspath(path):
        raise InputError(f"{os.fspath(path)!r}: a path cannot contain a NUL character")
    return Path(path)


def checked_target(path: Any, *, in_place: bool = False) -> Path:
    """A path that can be written to, checked before long work.

    Parameters
    ----------
    path : str or path
        The file to write.
    in_place : bool, optional
        Whether an existing file is written to, and not replaced.

    >>> from phipsi.support.atomic_files import checked_target
    >>> checked_target("no_such_folder/run.html")
    Traceback (most recent call last):
        ...
    phipsi.support.atomic_files.MissingPath: no_such_folder/run.html: there is no folder...
    """
    target = path_of(path)
    folder, name = target.parent, shown(target)
    if target.is_dir():
        raise UnusablePath(f"{name} is a folder; give the name of a file.")
    if not folder.is_dir():
        where = shown(folder)
        raise MissingPath(f"{name}: there is no folder {where}. Make it first:  mkdir -p {where}")
    written, what = (target, "file") if in_place and target.exists() else (folder, "folder")
    if not os.access(written, os.W_OK):
        raise UnusablePath(f"{name}: nothing can be written to the {what} {shown(written)}.")
    return target


def checked_page(path: Any) -> Path:
    """The same for an HTML page, whose name ends in .html or .htm."""
    return checked_target(named_as(path, "a page", (".html", ".htm")))


def named_as(path: Any, what: str, suffixes: Sequence[str], **others: str) -> Path:
    """A path whose suffix matches the format that is written; an error for other suffixes.

    Parameters
    ----------
    path : str or path
        The file to write.
    what : str
        The format, such as "an archive".
    suffixes : sequence of str
        Its suffixes, in lower case, the usual one first.
    **others : str
        By suffix without its dot: the line that writes that format, with {} for the path.

    >>> from phipsi.support.atomic_files import named_as
    >>> named_as("run.csv", "an archive", (".npz",), csv="run.to_csv({})")
    Traceback (most recent call last):
        ...
    phipsi.errors.InputError: run.csv: this is an archive; give it a name that ends in .npz.
    For .csv write  run.to_csv('run.csv')...
    """
    target = path_of(path)
    suffix = target.suffix.lower()
    if suffix in suffixes:
        return target
    line = others.get(suffix[1:], "").format(repr(os.fspath(target)))
    raise InputError(
        f"{shown(target)}: this is {what}; give it a name that ends in {suffixes[0]}."
        + (f"\nFor {suffix} write  {line}" if line else "")
    )


def atomic_write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file as `atomic_write` does, and return its path."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to a temporary file beside `path`, which replaces `path` at the end (an atomic write).

    If anything fails, `path` is unchanged and the temporary file is removed. The temporary file has
    the suffix of `path`. If `path` is a symbolic link, the file it points to is replaced. Errors
    name `path`.

    >>> import pathlib, tempfile
    >>> from phipsi.support.atomic_files import atomic_write
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as part:
    ...     _ = part.write_text("all of it")
    >>> target.read_text(), [x.name for x in target.parent.iterdir()]
    ('all of it', ['note.txt'])
    """
    target = checked_target(path)
    if target.is_symlink():
        target = checked_target(os.path.realpath(target))
    part = target.with_name(f".{target.stem}.{secrets.token_hex(4)}.part{target.suffix}")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        if error.filename not in (None, part, str(part)) or isinstance(error, InputError):
            raise
        raise UnusablePath(
            f"{shown(target)} cannot be written: {error.strerror or error}"
        ) from error
    finally:
        part.unlink(missing_ok=True)
