"""The process that runs MuJoCo's reader: `python -m phipsi.interfaces.formats.mjcf.worker`.

It reads requests from its standard input until that ends, and writes answers to its standard
output. It can create no file, leaves no core behind, and ends itself when a request takes longer
than it may, so that nothing is left of it when the program that started it is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from typing import IO, Any

from phipsi.interfaces.formats.mjcf.mujoco_arrays import compiled, packed, resident_bytes
from phipsi.interfaces.formats.mjcf.reader_process import HELLO, receive, send

_MOST = 500_000_000  # bytes in use after a file, above which a fresh process takes over
_GRACE = 2.0  # seconds; the other side ends us before, if it still can


def main() -> None:
    """Answer until the other side is gone."""
    requests, answers = _streams()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started us
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with contextlib.suppress(ImportError):  # the answer to a request will say so
        import_module("mujoco")
    _leave_no_traces()
    send(answers, {"hello": HELLO})
    while True:
        try:
            request, blobs = receive(requests)
        except EOFError:
            return
        with _limited(request["seconds"], request["memory"]):
            head, out = _answer(request, blobs)
        head["is_last"] = resident_bytes() > _MOST or head.get("failure") == "memory"
        send(answers, head, out)


def _answer(request: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    text, *files = blobs
    split = len(request["includes"])
    includes = dict(zip(request["includes"], files[:split], strict=True))
    assets = dict(zip(request["assets"], files[split:], strict=True))
    try:
        head, arrays = compiled(text.decode(), includes, assets)
        listed, out = packed(arrays)
    except MemoryError as error:
        return {"failure": "memory", "message": str(error)}, []
    return head | {"arrays": listed}, out


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """Our two pipes; what C++ code prints goes nowhere."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    return requests, answers


def _leave_no_traces() -> None:
    """Stand in a folder that is gone, in which MuJoCo cannot create its log."""
    with contextlib.suppress(OSError):  # where nothing can be written anyway
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        try:
            os.rmdir(folder)
        except OSError:  # Windows keeps it while we are in it
            os.chdir(tempfile.gettempdir())
            os.rmdir(folder)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@contextlib.contextmanager
def _limited(seconds: float, memory: int) -> Iterator[None]:
    """Time and memory for one request, where the system can limit them."""
    has_alarm = hasattr(signal, "setitimer")
    if has_alarm:
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE)  # whose signal ends us
    with _address_space(memory):
        yield
    if has_alarm:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _address_space(memory: int) -> Iterator[None]:
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        before = resource.getrlimit(resource.RLIMIT_AS)
        hard = before[1]
        wanted = used + memory if hard == resource.RLIM_INFINITY else min(used + memory, hard)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    except (ImportError, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


if __name__ == "__main__":
    main()
    sys.exit(0)
