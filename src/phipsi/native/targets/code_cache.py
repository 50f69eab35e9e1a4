"""Machine code by its key: loaded already, from the disk cache, or compiled.

On disk it has the digest of its LLVM text as key, and is found by it when other sources write the
same text. The key of a program covers everything its text depends on; its file names the keys of
the code of its parts, so that no text is written for a program that is known. That key is made by
those who write code: `key` of `native/pipeline.py` for programs, `custom_kernel.py` beside
it for functions of lanes, `simulation/runs/run_code.py` for runs; all contain
`sources_digest`. Files are
written under a temporary name and renamed, so that two processes never see half a file; they hold
their key and a digest, so that a damaged or renamed one is ignored.

What is loaded is executed. So the folder and its files must belong to the user and be writable by
nobody else, and nobody else may be able to exchange the folder: the folders above it belong to the
user or the system, and are not writable by others or sticky, as /tmp is. Otherwise the cache is not
used, with a warning.

On Windows, where a folder has no owner that counts, it must be in the user's profile.

``PHIPSI_CACHE=0`` (or off) turns it off, another value is the folder to use. Above 256 MB, or what
``PHIPSI_CACHE_MB`` says, the files that were not used for longest are removed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from phipsi.errors import InputError, PhipsiWarning
from phipsi.native.targets import llvm_library
from phipsi.native.targets.llvm_library import llvm
from phipsi.native.targets.target import FULL_EFFORT, MachineCode, Target, llvm_effort
from phipsi.native.text.llvm_text import Module, SeparateFunction
from phipsi.package_state import IMPORT_TIME

_MAGIC = b"phipsi machine code 3\n"
_SAME = b"the code of "  # before the key that has it; object code begins otherwise
_DIGEST = 32
_OFF = ("0", "off", "no", "false", "none")
_NEW = ".new-"  # what temporary names begin with
_ABANDONED = 3600  # s after which no process is writing a file any more
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
SYSTEM: Final = "darwin" if sys.platform == "darwin" else os.name
LIMIT = 256  # MB, about five thousand programs
_room: dict[Path, float] = {}  # bytes that this process may still write before it looks again


# ---- the folder ----------------------------------------------------------------------------------


@cache
def folder() -> Path | None:
    """The folder of the cache, created if needed; None if no folder can be used."""
    path = _wanted()
    if path is None:
        return None
    try:
        _make(path)
        path = path.resolve(strict=True)
        reason = _unsafe(path)
    except (OSError, RuntimeError):
        return None
    if reason:
        _warn(f"the code cache {path} is not used, because {reason}")
        return None
    return path


def _wanted() -> Path | None:
    """Where the cache should be, as an absolute path."""
    setting = os.environ.get("PHIPSI_CACHE", "").strip()
    if setting.lower() in _OFF:
        return None
    if setting:
        path = Path(os.path.expanduser(setting))
        if not path.is_absolute():
            _warn(
                f"PHIPSI_CACHE={setting} is not used, because a relative path names another folder "
                f"in every working directory. Set the whole path:  PHIPSI_CACHE={Path.cwd() / path}"
            )
            return None
        return path
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():  # others are to be ignored, says the XDG specification
        return base / "phipsi"
    home = _home()
    if SYSTEM == "nt":
        local = Path(os.environ.get("LOCALAPPDATA", ""))
        return local / "phipsi" / "cache" if local.is_absolute() else None
    usual = Path("Library", "Caches") if SYSTEM == "darwin" else Path(".cache")
    return None if home is None else home / usual / "phipsi"


def _home() -> Path | None:
    """The user's home: $HOME if that is an absolute path, else what the system knows."""
    home = Path(os.path.expanduser("~"))
    if home.is_absolute() and os.environ.get("HOME") != "":
        return home
    try:
        import pwd

        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return None
    return home if home.is_absolute() else None


def _make(path: Path) -> None:
    """Create a folder and its parents, for the user only."""
    for folder in (*reversed(path.parents), path):
        try:
            folder.mkdir(mode=0o700)
        except OSError:
            if not folder.is_dir():
                raise


def _unsafe(path: Path) -> str:
    """Why other users could put code into a folder; "" if they cannot."""
    if SYSTEM == "nt":
        return _outside_profile(path)
    me = os.getuid()
    trusted = (me, 0, os.stat("/").st_uid)
    status = path.stat()
    if status.st_uid != me:
        return "it belongs to another user. Use a folder of your own:  PHIPSI_CACHE=/path/to/folder"
    if status.st_mode & _OTHERS:
        return (
            "other users can write to it, and the code in it would be executed. Make it private:"
            f"  chmod 700 {path}"
        )
    for above in path.parents:
        status = above.stat()
        if status.st_uid not in trusted:
            return f"{above} belongs to another user, who could replace it"
        if not status.st_mode & stat.S_ISVTX and _writable_by_others(status):
            return (
                f"other users can write to {above} and could replace it. If they need not:"
                f"  chmod go-w {above}"
            )
    return ""


def _outside_profile(path: Path) -> str:
    """The same on Windows, where only the folders of a user's profile are private by themselves."""
    homes = [os.path.expanduser("~"), os.environ.get("LOCALAPPDATA", "")]
    if any(home and path.is_relative_to(Path(home).resolve()) for home in homes):
        return ""
    return (
        "it is outside of your profile, where others may be able to write. Use the folder that "
        "phipsi chooses, without PHIPSI_CACHE, or one below %LOCALAPPDATA%"
    )


def _writable_by_others(status: os.stat_result) -> bool:
    """Whether others than the owner may write; a group that is the user's own does not count."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


def _is_own_group(number: int) -> bool:
    """Whether a group is named as the user and has no other members, as many systems set it up."""
    import grp
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
        group = grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _warn(text: str) -> None:
    warnings.warn(text, PhipsiWarning, stacklevel=4)


# ---- its files -----------------------------------------------------------------------------------


def read_parts(key: str) -> list[tuple[str, bytes]] | None:
    """The code that a key refers to, with the keys of its parts; None if one cannot be used."""
    found = read(key)
    if found is None or not found.startswith(_SAME):
        return None
    names = found[len(_SAME) :].decode().split()
    parts = [(name, code) for name in names if (code := read(name)) is not None]
    return parts if len(parts) == len(names) else None


def read(key: str) -> bytes | None:
    """What is stored under a key; None if it is missing, damaged, or not the user's own."""
    where = folder()
    if where is None:
        return None
    path = where / f"{key}.bin"
    try:
        content = _own_file(path)
        os.utime(path)  # used now: the last to be removed
    except OSError:
        return None
    head = _head(key)
    if content is None or not content.startswith(head):
        return None
    digest, body = content[len(head) :][:_DIGEST], content[len(head) + _DIGEST :]
    return body if hashlib.sha256(head + body).digest() == digest else None


def _own_file(path: Path) -> bytes | None:
    """The contents of a plain file that belongs to the user and that no one else can write."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return None
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & _OTHERS):
            return None
        return file.read()


def _head(key: str) -> bytes:
    return _MAGIC + key.encode() + b"\n"


def refer(key: str, others: Sequence[str]) -> None:
    """Keep that the code of a key is that of others."""
    write(key, _SAME + " ".join(others).encode())


def limit() -> float:
    """The bytes that the folder may hold."""
    setting = os.environ.get("PHIPSI_CACHE_MB", str(LIMIT))
    try:
        return max(float(setting), 0.0) * 2**20
    except ValueError:
        raise InputError(f"PHIPSI_CACHE_MB={setting!r} must be a number (MB)") from None


def write(key: str, code: bytes) -> None:
    """Keep the code; a full or read-only disk is not an error."""
    where = folder()
    if where is None:
        return
    head = _head(key)
    try:
        handle, name = tempfile.mkstemp(dir=where, prefix=_NEW)
        try:
            with open(handle, "wb") as file:
                file.write(head + hashlib.sha256(head + code).digest() + code)
            os.replace(name, where / f"{key}.bin")
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _room[where] = _room.get(where, 0) - len(code)
        if _room[where] <= 0:
            most = limit()
            _room[where] = (most - _tidy(where, most)) / 4  # other processes write too
    except OSError:
        return


def _tidy(where: Path, most: float) -> int:
    """Remove what killed processes left, and the files used longest ago if there are too many.

    Then three quarters of the limit are left. Returns the bytes that are left; looking at every
    file takes longer than writing one.
    """
    with os.scandir(where) as entries:
        listed = [(e.stat(follow_symlinks=False), e.name) for e in entries]
    abandoned = time.time() - _ABANDONED
    for status, name in listed:
        if name.startswith(_NEW) and status.st_mtime < abandoned:
            (where / name).unlink(missing_ok=True)
    files = [(status, name) for status, name in listed if name.endswith(".bin")]
    total = sum(status.st_size for status, _ in files)
    if total <= most:
        return total
    for status, name in sorted(files, key=lambda f: f[0].st_mtime_ns):
        if total <= 0.75 * most:
            break
        (where / name).unlink(missing_ok=True)  # another process may have been faster
        total -= status.st_size
    return total


# ---- code by its key -----------------------------------------------------------------------------

_LOADED: WeakValueDictionary[str, MachineCode] = WeakValueDictionary()


def machine_code(key: str, target: Target, emit: Callable[[], str | Module]) -> MachineCode:
    """The code with this key: loaded already, from the disk cache, or compiled from ``emit()``.

    That is text, or a module whose parts are looked for in the cache by their own keys.
    """
    effort = llvm_effort()
    key = key if effort == FULL_EFFORT else f"{key}-{effort}"
    found = _LOADED.get(key)
    if found is None:
        kept = read_parts(key)
        if kept is None:
            kept = _with_parts(emit(), target, effort)
            refer(key, [name for name, _ in kept])
        binary, *others = [code for _, code in kept]
        found = _LOADED.setdefault(key, MachineCode(binary, target, others))
    return found


def linked_code(key: str, target: Target, write: Callable[[Module], None]) -> MachineCode:
    """The same for a module that ``write(module)`` fills; its parts are compiled once."""

    def emit() -> Module:
        module = Module(linked=True)
        write(module)
        return module

    return machine_code(key, target, emit)


def kept_object(text: str, target: Target) -> bytes:
    """An object file of LLVM text for any target, from the disk cache if it is there."""
    return _compiled(text, target, llvm_effort())[1]


def _with_parts(written: str | Module, target: Target, effort: int) -> list[tuple[str, bytes]]:
    """The keys and the code of a text or module, of its parts and of their parts, each once."""
    out = dict([_compiled(str(written), target, effort)])
    if isinstance(written, Module):
        for name, part in written.parts.items():
            out.update(_part(name, part, target, effort))
    return list(out.items())


def _part(
    name: str, part: SeparateFunction, target: Target, effort: int
) -> list[tuple[str, bytes]]:
    """The same of a part, whose text is written if no program has it."""
    key = hashlib.sha256(f"part {name} {part.key} {target} {effort}".encode()).hexdigest()
    kept = read_parts(key)
    if kept is None:
        kept = _with_parts(part.module(name), target, effort)
        refer(key, [each for each, _ in kept])
    return kept


def _compiled(text: str, target: Target, effort: int) -> tuple[str, bytes]:
    """The key of the code of a text, and the code: from the disk cache, or compiled now."""
    key = _text_key(text, target, effort)
    binary = read(key)
    if binary is None:
        binary = target.object_code(text)
        write(key, binary)
    return key, binary


def _text_key(text: str, target: Target, effort: int) -> str:
    """Everything that object code depends on, as one digest."""
    llvm_is = f"{llvm_library.VERSION} {llvm.llvm_version_info} {llvm_library.triple()}"
    compiler = f"{llvm_is} {target} {effort}\n"
    return hashlib.sha256((compiler + text).encode()).hexdigest()


_CORE = ("arrays", "backends", "machine", "model", "operators", "spatial", "sweeps")
_ROOMS = (*(f"core/{x}" for x in _CORE), "laws", "native")


@cache
def sources_of(modules: frozenset[str]) -> str:
    """The same of a program with formulas from other modules, such as operations of a feature.

    Rooms of the library are part of the digest. What is from elsewhere may differ in the next
    process, so that its code is not found there.
    """
    rooms = sorted({x.split(".")[1] for x in modules if x.startswith("phipsi.")})
    others = sorted(x for x in modules if not x.startswith("phipsi."))
    own = f" {others} of {os.getpid()} {IMPORT_TIME}" if others else ""
    return sources_digest(*rooms) + own


@cache
def sources_digest(*rooms: str) -> str:
    """Versions of everything that writes code, with a digest of our own sources.

    `rooms` are further folders of the package whose sources write code, such as "contact".

    Sources that have changed since they were imported are not the ones that run: what such a
    process compiles must not be found by others.
    """
    digest, last = hashlib.sha256(), 0.0
    package = Path(__file__).parents[2]
    for room in (*_ROOMS, *rooms):
        for folder, inside, names in os.walk(package / room):
            inside[:] = sorted({*inside} - {"__pycache__"})
            for name in sorted(names):
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), "rb") as file:
                        last = max(last, os.fstat(file.fileno()).st_mtime)
                        digest.update(file.read())
    if last > IMPORT_TIME:
        digest.update(f"{os.getpid()} {IMPORT_TIME}".encode())
    return f"llvmlite {llvm_library.VERSION} {llvm_library.triple()} {digest.hexdigest()}"
