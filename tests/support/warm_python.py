"""Python processes that begin with everything imported.

Most of what a short program does is to import: a second for NumPy, SciPy and the library. Here one
process imports them and waits; each program is a fork of it, with its own folder, arguments,
environment and output, its own `__main__`, and an exit status as Python gives it. In the process
that waits nothing is compiled and no thread is started, so a fork has all of a new process but the
imports. What is missing in a cold start is noticed by tests that start one (`cold=True`).
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

# What programs import on their way; a name that cannot be imported is left out.
IMPORTS = (
    "numpy", "scipy.integrate", "scipy.optimize", "scipy.sparse.linalg", "scipy.linalg",
    "scipy.stats", "scipy.spatial", "cyclopts", "rich.console", "llvmlite.binding",
    "concurrent.futures.process", "multiprocessing.connection", "http.server", "urllib.request",
    "phipsi.cli.commands",
)  # fmt: skip


def run(
    words: list[str], *, cwd: Path | str, env: dict[str, str], cold: bool = False
) -> subprocess.CompletedProcess[str]:
    """`python words…`, where words are a script with arguments, or -m, a module and arguments."""
    command = [sys.executable, *words]
    if cold or not hasattr(os, "fork"):
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    status, out, err = _server().ask(words, str(cwd), env)
    return subprocess.CompletedProcess(command, status, out, err)


# ---- the process that waits ----------------------------------------------------------------------


class _Server:
    """The process that waits, seen from the tests."""

    def __init__(self):
        here, there = socket.socketpair()
        with there:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        self.wire = here.makefile("rw", encoding="utf-8")
        self.lock = threading.Lock()
        here.close()
        atexit.register(self.close)

    def ask(self, words: list[str], cwd: str, env: dict[str, str]) -> tuple[int, str, str]:
        with self.lock:
            print(json.dumps([words, cwd, env]), file=self.wire, flush=True)
            answer = self.wire.readline()
        if not answer:
            raise RuntimeError(f"the process that forks ended with {self.process.wait()}")
        return tuple(json.loads(answer))

    def close(self) -> None:
        self.wire.close()  # it reads the end of its orders, and ends
        self.process.wait()


@cache
def _server() -> _Server:
    return _Server()


def _serve(wire: Any) -> None:
    """Fork for every order until there are no more."""
    import importlib
    import tempfile

    for name in IMPORTS:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    import phipsi

    for name in phipsi.__all__:
        getattr(phipsi, name)  # loaded on first use
    assert threading.active_count() == 1, "a fork has one thread: importing must start none"
    for line in wire:
        words, cwd, env = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _become(words, cwd, env, out.fileno(), err.fileno())
            _, status = os.waitpid(child, 0)
            texts: list[str] = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8"))
        print(json.dumps([os.waitstatus_to_exitcode(status), *texts]), file=wire, flush=True)


def _become(words: list[str], cwd: str, env: dict[str, str], out: int, err: int) -> NoReturn:
    """Run a program in this process, which is a new fork, and end as Python ends."""
    import io
    import runpy
    import traceback

    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 256)
        sys.stdin = io.TextIOWrapper(io.FileIO(0), encoding="utf-8")
        sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.FileIO(1, "w"), encoding="utf-8")
        sys.stderr = sys.__stderr__ = io.TextIOWrapper(
            io.FileIO(2, "w"), encoding="utf-8", line_buffering=True
        )
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        module = words[0] == "-m"
        sys.argv = words[module:]
        sys.path.insert(0, cwd if module else str(Path(words[0]).parent))
        try:
            if module:
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(words[0], run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            if not (end.code is None or isinstance(end.code, int)):
                print(end.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        status = status or 120  # as Python where its end fails
    finally:
        sys.stderr.flush()
        os._exit(status & 255)


if __name__ == "__main__":
    sys.path[:] = sys.path[1:]  # not the folder of this file
    with socket.socket(fileno=int(sys.argv[1])) as _wire:
        _serve(_wire.makefile("rw", encoding="utf-8"))
