"""The disk cache of machine code.

One file per program, named by a key that covers everything the code depends on. Files are written
under a temporary name and renamed, so that two processes never see half a file, and carry a
digest, so that a damaged one is ignored. What is loaded is executed, so the folder must belong to
the user and be writable by nobody else; otherwise it is not used, with a warning.
``PHIPSI_CACHE=0`` (or off) turns it off, another value is the folder to use. Above `LIMIT` bytes
the files that were not used for longest are removed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import warnings
from functools import cache
from pathlib import Path

from phipsi.errors import PhipsiWarning

_MAGIC = b"phipsi machine code 1\n"
_OFF = ("0", "off", "no", "false", "none")
LIMIT = 256 * 2**20  # about five thousand programs


@cache
def folder() -> Path | None:
    """The folder of the cache, made if needed; None if there is none to use."""
    setting = os.environ.get("PHIPSI_CACHE", "")
    if setting.lower() in _OFF:
        return None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(setting) if setting else Path(base) / "phipsi"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError:
        return None
    if hasattr(os, "getuid"):
        foreign = status.st_uid != os.getuid()
        if foreign or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            warnings.warn(
                f"the code cache {path} can be written by others and is not used, because what is "
                f"in it would be executed. Make it private:  chmod 700 {path}",
                PhipsiWarning,
                stacklevel=2,
            )
            return None
    return path


def read(key: str) -> bytes | None:
    """The code with this key, or None if it is not there or damaged."""
    where = folder()
    if where is None:
        return None
    path = where / f"{key}.bin"
    try:
        content = path.read_bytes()
        os.utime(path)  # used now: the last to be removed
    except OSError:
        return None
    head, digest, body = (
        content[: len(_MAGIC)],
        content[len(_MAGIC) :][:32],
        content[len(_MAGIC) + 32 :],
    )
    if head != _MAGIC or hashlib.sha256(body).digest() != digest:
        return None
    return body


def write(key: str, code: bytes) -> None:
    """Keep the code; a full or read-only disk is no error."""
    where = folder()
    if where is None:
        return
    content = _MAGIC + hashlib.sha256(code).digest() + code
    try:
        handle, name = tempfile.mkstemp(dir=where, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, where / f"{key}.bin")
        _keep_within(where, LIMIT)
    except OSError:
        return


def _keep_within(where: Path, limit: int) -> None:
    """Remove the files used longest ago until three quarters of the limit are left."""
    with os.scandir(where) as entries:
        files = [(e.stat(), e.path) for e in entries if e.name.endswith(".bin")]
    total = sum(status.st_size for status, _ in files)
    if total <= limit:
        return
    for status, path in sorted(files, key=lambda f: f[0].st_mtime_ns):
        if total <= 0.75 * limit:
            return
        Path(path).unlink(missing_ok=True)  # another process may have been faster
        total -= status.st_size
