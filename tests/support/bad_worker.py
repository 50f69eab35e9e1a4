"""The process that reads MJCF, with faults of a C++ reader that the name of the model asks for."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from phipsi.files.mjcf import worker as mjcf_worker
from phipsi.files.mjcf.mujoco_arrays import compiled as good


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _fill() -> None:
    bytearray(300_000_000)


def _print() -> None:
    os.write(1, b"noise on 1\n")
    os.write(2, b"noise on 2\n")
    print("noise", flush=True)


def _write() -> None:
    with open("MUJOCO_LOG.TXT", "a") as file:
        file.write("noise")


def _babble() -> None:
    for stream in range(3, 10):
        with contextlib.suppress(OSError):
            os.write(stream, b"\xff" * 100)


def _sleep() -> None:
    """Never come back, and say when that begins: a file that the environment names."""
    begun = os.environ.get("BAD_WORKER_SLEEPS")
    if begun is not None:
        open(begun, "w").close()
    time.sleep(1000)


def _poison() -> None:
    """Harm that shows at the next file."""
    FAULTS["good"] = _kill


FAULTS: dict[str, Callable[[], object]] = {
    "segfault": _kill,
    "abort": os.abort,
    "exit": lambda: os._exit(7),
    "sleep": _sleep,
    "memory": _fill,
    "noise": _print,
    "write": _write,
    "nonsense": _babble,
    "poison": _poison,
}


def compiled(text: str, *given: object) -> object:
    for name, fault in list(FAULTS.items()):
        if f'model="{name}"' in text:
            fault()
    return good(text, *given)  # type: ignore[arg-type]


if __name__ == "__main__":
    mjcf_worker.compiled = compiled  # type: ignore[assignment]
    mjcf_worker.main()
