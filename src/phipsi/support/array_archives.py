"""Archives of arrays (`.npz`) that are read without trust: sizes first, and only plain arrays.

An archive is a zip of `.npy` members. What the directory of the archive and the headers of its
arrays claim is compared with the bytes that are there before anything is allocated; nothing is
unpickled. So the memory that reading takes is bounded, whatever a file says.
"""

from __future__ import annotations

import math
import os
import stat
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from phipsi.errors import ParseError, PhipsiError, shown
from phipsi.support.atomic_files import MissingPath, UnusablePath

Array = NDArray[Any]

_PLAIN = "fiubcU"
"""Kinds of arrays: numbers, booleans and strings."""


def opened_file(path: str | os.PathLike[str], advice: str) -> BinaryIO:
    """A regular file, open for reading; a named pipe in its place cannot block the call.

    Parameters
    ----------
    path : str or path
        The file.
    advice : str
        How to get such a file: the end of the message if the file is not found.
    """
    where = shown(Path(path).name)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        file = None if os.path.isdir(path) else os.fdopen(os.open(path, flags), "rb")
    except FileNotFoundError:
        raise MissingPath(f"{shown(path)}: file not found. {advice}".rstrip()) from None
    except OSError as error:
        raise UnusablePath(f"{shown(path)} cannot be read: {error.strerror}") from error
    if file is None or not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        what = "a folder" if file is None else "not a regular file"
        if file is not None:
            file.close()
        raise ParseError(f"{where} is {what}; give the path of a file. {advice}".rstrip())
    return file


@final
class ArrayArchive:
    """The members of an archive as arrays, with every size checked first.

    If the archive is damaged, zipfile and NumPy may raise any exception; `read_archive` turns them
    into a `ParseError`.

    Parameters
    ----------
    file : binary file
        The archive, open for reading.
    where : str
        The name of the file in messages.
    what : str
        What the file should be, such as "a trajectory file".
    max_bytes : int
        Limit of the size of its arrays together.
    advice : str, optional
        How to raise the limit.
    max_ratio : float, optional
        Limit of unpacked to packed size; 1 for archives that are written without compression.
    """

    def __init__(
        self,
        file: BinaryIO,
        where: str,
        what: str,
        *,
        max_bytes: int,
        advice: str = "",
        max_ratio: float = math.inf,
    ) -> None:
        size = file.seek(0, os.SEEK_END)
        self._archive, self._where, self._what = zipfile.ZipFile(file), where, what
        self._max_bytes, self._used, self._advice = max_bytes, 0, advice
        infos = self._archive.infolist()
        self._members = {info.filename: info for info in infos}
        self.take(sum(info.file_size for info in infos))
        if sum(info.compress_size for info in infos) > size:
            raise ParseError(
                f"{where}: its directory lists more bytes than the file has; the file is damaged."
            )
        for info in infos:
            if info.file_size > max_ratio * max(info.compress_size, 1):
                raise ParseError(
                    f"{where}: member {shown(repr(info.filename), 80)} unpacks to more than "
                    f"{max_ratio:g} times its size; {what} is stored without compression."
                )
        if len(self._members) < len(infos):
            raise ParseError(f"{where}: two members have the same name; the file is damaged.")

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return [name.removesuffix(".npy") for name in self._members]

    def take(self, count: int) -> None:
        """Count memory that is about to be used, and reject more than `max_bytes`."""
        self._used += count
        if self._used > self._max_bytes:
            raise ParseError(
                f"{self._where} unpacks to {self._used / 1e6:.0f} MB or more, more than max_bytes "
                f"= {self._max_bytes / 1e6:.0f} MB. {self._advice}"
            )

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self._members

    def array(self, name: str, kind: Any = None) -> Array:
        """One member; its type, size and content must be what its headers say."""
        info = self._members.get(f"{name}.npy")
        if info is None:
            raise ParseError(f"{self._where} has no array {name!r}; it is not {self._what}.")
        label = shown(repr(name), 80)
        with self._archive.open(info) as stream:
            version = npy.read_magic(stream)
            if version == (1, 0):
                shape, fortran, dtype = npy.read_array_header_1_0(stream)
            else:
                shape, fortran, dtype = npy.read_array_header_2_0(stream)
            left = info.file_size - stream.tell()
            plain = dtype.kind in _PLAIN if kind is None else dtype == np.dtype(kind)
            if not plain or any(n < 0 for n in shape):
                wanted = "of plain numbers" if kind is None else str(np.dtype(kind))
                raise ParseError(
                    f"{self._where}: array {label} has the type {shown(dtype, 80)}, not {wanted}."
                )
            if left != math.prod(shape) * dtype.itemsize:
                raise ParseError(
                    f"{self._where}: the header of array {label} has the shape "
                    f"{shown(shape, 80)}, which does not match its {left} bytes; the file is "
                    "damaged."
                )
            content = stream.read(left + 1)
        if len(content) != left:
            raise ParseError(f"{self._where}: array {label} is truncated; the file is damaged.")
        flat = np.frombuffer(content, dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C")


def read_archive(
    path: str | os.PathLike[str],
    what: str,
    *,
    max_bytes: int | None = None,
    advice: str = "",
    max_ratio: float = math.inf,
) -> dict[str, Array]:
    """All arrays of a file, read-only.

    Parameters
    ----------
    path : str or path
        The archive.
    what, advice, max_ratio
        As for `ArrayArchive`.
    max_bytes : int, optional
        Limit of the size of the arrays; by default the size of the file.

    Returns
    -------
    dict of str to ndarray
        The arrays by name.

    Raises
    ------
    ParseError
        If the content of the file is invalid.
    OSError
        If the file cannot be opened or read.

    >>> import pathlib, tempfile, numpy as np
    >>> from phipsi.support.array_archives import read_archive
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, x=np.arange(3))
    >>> read_archive(file, "an example")
    {'x': array([0, 1, 2])}
    """
    where = shown(Path(path).name)
    with opened_file(path, advice) as file:
        most = os.fstat(file.fileno()).st_size if max_bytes is None else max_bytes
        try:
            archive = ArrayArchive(
                file, where, what, max_bytes=most, advice=advice, max_ratio=max_ratio
            )
            return {name: archive.array(name) for name in archive.names}
        except (PhipsiError, OSError):
            raise
        except Exception as error:  # whatever a broken archive makes of zipfile, zlib or NumPy
            raise ParseError(
                f"{where} is damaged, or not {what}: {type(error).__name__}: {shown(error, 200)}"
            ) from None
