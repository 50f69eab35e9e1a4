"""A worker process that answers requests with limits of time and memory, kept for later requests.

A crash, too much time or too much memory ends the worker and not the user's process. Requests
and answers are plain data: JSON and bytes, nothing that is executed on arrival. MJCF files are read
in one, and the workbench evaluates expressions in one. `serve` is the side of the process itself.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, final

HELLO = "phipsi answers"
_START_SECONDS = 60.0
_LAST_SECONDS = 5.0
_LONGEST_HEAD = 200_000_000
_LONGEST_BLOB = 2_000_000_000
_PIECE = 1 << 20
_MOST = 500_000_000  # bytes in use after a request, above which a fresh process takes over
_GRACE = 2.0  # seconds; the user's side ends the process before, if it still can

Message = tuple[dict[str, Any], list[bytes]]


@final
class NotStarted(Exception):
    """The process could not be started; the text says why."""


@final
class TooSlow(Exception):
    """There was no answer within the time limit."""


@final
class Ended(Exception):
    """The process ended instead of answering; the text names the signal or exit code."""


# ---- messages: used on both sides ---------------------------------------------------------------


def send(stream: IO[bytes], head: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Write a message: the length of its head, the head as JSON, and bytes."""
    text = json.dumps(head | {"sizes": [len(blob) for blob in blobs]}).encode()
    for part in (struct.pack("<Q", len(text)) + text, *blobs):
        left = memoryview(part)
        while left:
            left = left[stream.write(left[:_PIECE]) :]
    stream.flush()


def receive(stream: IO[bytes]) -> Message:
    """Read a message; EOFError if the other side is gone, ValueError if it is not a message."""
    (length,) = struct.unpack("<Q", _exactly(stream, 8))
    if length > _LONGEST_HEAD:
        raise ValueError("the header of the message is too long")
    head = json.loads(_exactly(stream, length))
    sizes = head.pop("sizes", None) if isinstance(head, dict) else None
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("the sizes in the message are not nonnegative integers")
    if sum(sizes) > _LONGEST_BLOB:
        raise ValueError("the message is too long")
    return head, [_exactly(stream, size) for size in sizes]


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = stream.read(min(size - len(data), _PIECE))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


# ---- the user's side ----------------------------------------------------------------------------


@final
class LimitedProcess:
    """A process that runs a module with `serve`; started when needed, and again if it ended."""

    def __init__(self, module: str) -> None:
        self.module = module
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)
        self.lock = threading.Lock()
        self.holder = 0  # the thread that has the lock
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], blobs: Sequence[bytes], seconds: float) -> Message:
        """The answer to a request; one of the exceptions above if there is none in time.

        A process that ends, but answered others before, may have been harmed by one of those: the
        request is then made again to a fresh one.
        """
        if self.holder == threading.get_ident():  # a signal handler, which would wait for itself
            raise NotStarted("this thread already waits for the answer to another request")
        with self.lock:
            try:
                self.holder = threading.get_ident()
                was_used = self.process is not None
                try:
                    head, answer = self._exchange(self._running(), request, blobs, seconds)
                except Ended:
                    if not was_used:
                        raise
                    self._end()
                    head, answer = self._exchange(self._running(), request, blobs, seconds)
            except BaseException:  # Ctrl-C too: an answer that nobody waits for must not be read
                self._end()
                raise
            finally:
                self.holder = 0
            if head.get("is_last"):
                self._end()
            return head, answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is not None and self.process.poll() is not None:
            self._end()
        if self.process is None:
            self.process = _started(self.module)
            hello = self._exchange(self.process, None, (), _START_SECONDS, NotStarted)[0]
            if hello.get("hello") != HELLO:
                raise NotStarted(f"unexpected output from the worker process {sys.executable}")
        return self.process

    def _exchange(
        self,
        process: subprocess.Popen[bytes],
        request: dict[str, Any] | None,
        blobs: Sequence[bytes],
        seconds: float,
        failure: type[Exception] = Ended,
    ) -> Message:
        assert process.stdin is not None and process.stdout is not None
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError as error:  # no more threads
            raise NotStarted(str(error)) from error
        try:
            if request is not None:
                send(process.stdin, request, blobs)
            return receive(process.stdout)
        except (EOFError, OSError, ValueError) as error:
            how = _end_of(process) if not isinstance(error, ValueError) else "an invalid message"
            if is_over.is_set():
                late = f"no answer within {seconds:g} s"
                raise (TooSlow() if failure is Ended else failure(late)) from error
            process.kill()
            said = "" if failure is Ended else _stderr_tail(process)
            raise failure(f"{how}{said}") from error
        finally:
            timer.cancel()

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)

    def forget(self) -> None:
        """After a fork: the process belongs to the parent, and another thread may hold the lock."""
        process, self.process = self.process, None
        self.lock, self.holder = threading.Lock(), 0
        if process is not None:
            _close_pipes(process)
            process.returncode = 0

    def end(self) -> None:
        """End the process, if there is one; for the end of the program."""
        process = self.process
        if process is not None:  # without the lock, which a thread may hold that never ends
            process.kill()
            process.wait()


def _started(module: str) -> subprocess.Popen[bytes]:
    if getattr(sys, "frozen", False) or not sys.executable:
        raise NotStarted(
            "a frozen application has no Python interpreter to start a worker process with"
        )
    environment = dict(os.environ)
    if sys.flags.ignore_environment:
        environment = {k: v for k, v in environment.items() if not k.startswith("PYTHON")}
    # The process finds what this one finds, but nothing in the current folder (-P).
    ours = str(Path(__file__).absolute().parents[3])
    found = dict.fromkeys([*(os.path.abspath(place) for place in sys.path if place), ours])
    environment["PYTHONPATH"] = os.pathsep.join(found)
    environment["OPENBLAS_NUM_THREADS"] = environment["OMP_NUM_THREADS"] = "1"
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,  # nothing is half written when the program forks
            env=environment,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # on Windows
        )
    except Exception as error:  # OSError; whatever a sandbox or an audit hook raises
        raise NotStarted(f"{type(error).__name__}: {error}") from error


def _end_of(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_LAST_SECONDS)
    except subprocess.TimeoutExpired:  # it closed its pipe and stays
        process.kill()
        code = process.wait()
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _stderr_tail(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    said = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
    return f" ({said[-1][:300]})" if said else ""


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):  # what could not be written to a process that is gone
            if pipe is not None:
                pipe.close()


# ---- the side of the process --------------------------------------------------------------------


def serve(
    answer: Callable[[dict[str, Any], list[bytes]], Message],
    prepare: Callable[[], object],
    *,
    writes_files: bool,
) -> None:
    """Answer requests from the standard input until the other side is gone.

    Every request has the limits "seconds" and "memory" (bytes). The process ends if it exceeds
    them, so that it does not outlive the program that started it. It writes no core dump, and
    creates no file unless `writes_files`.
    """
    requests, answers = _streams()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started us
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    prepare()
    _leave_no_traces(writes_files)
    send(answers, {"hello": HELLO})
    while True:
        try:
            request, blobs = receive(requests)
        except EOFError:
            return
        with _limited(request["seconds"], request["memory"]):
            head: dict[str, Any]
            out: list[bytes]
            try:
                head, out = answer(request, blobs)
            except MemoryError as error:
                head, out = {"failure": "memory", "message": str(error)}, []
        head["is_last"] = resident_bytes() > _MOST or head.get("failure") == "memory"
        send(answers, head, out)


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """Our two pipes; what C++ code prints goes nowhere."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    return requests, answers


def _leave_no_traces(writes_files: bool) -> None:
    """Change to a folder that has been deleted, so that foreign code cannot write logs there."""
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
        if not writes_files:
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


def resident_bytes() -> int:
    """Memory of this process that is in use now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
