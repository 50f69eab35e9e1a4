"""The lock of a study's folder: one driver at a time, and the lock of a dead one is taken over.

The lock is a file with the process, the machine and a token of the driver, which touches it every
few seconds. It is stale if its process has ended, or if nobody has touched it for a minute. Where
the time of the file says nothing, because it lies in the future, or the file is empty, a driver
watches for some seconds whether anybody touches it. Blocks are safe in any case: a block is written
as a whole, bitwise identical by whoever computes it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, final

from phipsi.errors import InputError, shown, warn
from phipsi.support import opened_file

LOCK = "driver.lock"
_LONGEST = 10_000
"""Bytes of a lock that are read."""
_BEAT = 5.0
"""Seconds between two touches."""
_SILENCE = 60.0
"""Seconds without a touch after which a driver on any machine counts as dead."""
_WATCH = 3 * _BEAT
"""Seconds in which a driver that is alive surely touches a lock."""
_FUTURE = 2.0
"""Seconds by which the times of a disk may differ."""


@final
class FolderLock:
    """Held by the driver of a study: ``with FolderLock(path) as lock: … lock.beat()``.

    Raises
    ------
    InputError
        If another driver is at work, and in `beat` if another one has taken over because this one
        was silent for too long.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / LOCK
        self._token, self._beaten = secrets.token_hex(8), 0.0
        self._watched: tuple[Any, float] | None = None

    def __enter__(self) -> FolderLock:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while not self._is_created():
                self._take_over()
        except OSError as error:
            text = f"the folder {self._folder} cannot be used: {error.strerror or error}"
            raise InputError(text) from None
        return self

    def __exit__(self, *error: object) -> None:
        if _read(self._file).get("token") == self._token:
            self._file.unlink(missing_ok=True)

    def beat(self) -> None:
        """Touch the lock if that is due."""
        now = time.monotonic()
        if now - self._beaten < _BEAT:
            return
        self._beaten, found = now, _read(self._file)
        if found.get("token") != self._token:
            who = _shown_owner(found) if found else "somebody who removed the lock"
            raise InputError(
                f"{self._folder} was taken over by {who}, because this driver was silent for too "
                "long. Nothing is lost: the blocks that it has written are kept"
            )
        os.utime(self._file)

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Touch the lock from another thread, while this one computes."""
        over = Event()

        def touch() -> None:
            while not over.wait(_BEAT):
                with suppress(InputError, OSError):
                    self.beat()

        Thread(target=touch, daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _is_created(self) -> bool:
        about = {"pid": os.getpid(), "host": socket.gethostname(), "token": self._token}
        try:
            with self._file.open("x", encoding="utf-8") as file:
                file.write(json.dumps(about))
        except FileExistsError:
            return False
        self._beaten = time.monotonic()
        return True

    def _take_over(self) -> None:
        """Remove a stale lock; an error if its driver is at work."""
        found, silent = _read(self._file), self._silence()
        if silent is None:
            return  # it was removed just now
        here = found.get("host") == socket.gethostname()
        dead = here and not _is_alive(found.get("pid"))
        vague = silent < _SILENCE and (not found or silent < -_FUTURE)
        if not dead and vague:  # it is being written, or somebody set the clock
            if self._is_watched():
                time.sleep(0.05)
                return
        elif not dead and silent < _SILENCE:
            silent = max(0.0, silent)
            raise InputError(
                f"{self._folder} is in use by {_shown_owner(found)}, which touched it "
                f"{silent:.0f} s ago. Wait for it or stop it; to look at its results:  "
                f"phipsi study status {self._folder}"
            )
        aside = self._file.with_name(f".{LOCK}.{self._token}.part")
        try:
            os.rename(self._file, aside)
        except FileNotFoundError:
            return
        if _read(aside).get("token") != found.get("token"):  # somebody else was faster
            with suppress(OSError):
                os.link(aside, self._file)
        else:
            warn(f"took over {self._folder} from {_shown_owner(found)}, which has ended")
        aside.unlink(missing_ok=True)

    def _is_watched(self) -> bool:
        """Whether it is not known yet that nobody touches the lock."""
        with suppress(FileNotFoundError):
            status = self._file.lstat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._watched is None or self._watched[0] != seen:
                self._watched = seen, time.monotonic()
            return time.monotonic() - self._watched[1] < _WATCH
        return True

    def _silence(self) -> float | None:
        """Seconds since the lock was touched, by the clock of the disk."""
        try:
            touched = self._file.lstat().st_mtime
        except FileNotFoundError:
            return None
        with tempfile.TemporaryFile(dir=self._folder) as probe:
            return os.fstat(probe.fileno()).st_mtime - touched


def owner_of(folder: Path) -> str:
    """Who has locked a folder, or "" if nobody has."""
    return _shown_owner(_read(folder / LOCK)) if (folder / LOCK).is_file() else ""


def _read(file: Path) -> dict[str, Any]:
    try:
        with opened_file(file, "") as source:
            found = json.loads(source.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown_owner(found: dict[str, Any]) -> str:
    return f"process {shown(found.get('pid'), 40)} on {shown(found.get('host'), 80)}"


def _is_alive(pid: Any) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    if os.name == "nt":
        return True  # os.kill would end it: its silence decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # of another user
    return True
