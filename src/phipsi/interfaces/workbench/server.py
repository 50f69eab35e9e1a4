"""The workbench's server: one page and its questions, for this machine only.

It listens on the loopback address. Every address holds a token that only the person at this machine
was told; requests with another Host (a foreign page whose name points here), another Origin or no
token get nothing. Questions are data: `answers.py` evaluates them in a process with limits, and the
page may load nothing from elsewhere.

Reasons: docs/decisions/0039.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, final
from urllib.parse import quote, urlsplit

from phipsi.errors import InputError
from phipsi.interfaces.limited_process import Ended, LimitedProcess, NotStarted, TooSlow
from phipsi.model import Model

_HOST = "127.0.0.1"
_LONGEST_REQUEST = 64_000  # bytes
_WAIT = 30.0  # seconds that a connection may stay silent
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "woff2": "font/woff2",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@final
class Workbench:
    """A running workbench: `address` opens its page; `close` ends it.

    **Arguments:** `robot`, a model of your own, offered first; `port`, 0 for any that is free;
    `seconds` and `memory` (bytes), the limits of one answer; `expression`, what the page begins
    with. It serves in a thread of its own until it is closed; it is a context manager.

    >>> with Workbench(expression="H φ M φ* H*") as bench:
    ...     bench.address.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        robot: Model | None = None,
        *,
        expression: str = "",
        port: int = 0,
        seconds: float = 20.0,
        memory: int = 4_000_000_000,
    ) -> None:
        self.token = secrets.token_urlsafe(18)
        self._limits = {"seconds": float(seconds), "memory": int(memory)}
        self._own: dict[str, Any] = {}
        if robot is not None:
            self._own = {"own": [robot.name or "robot", robot.to_dict()]}
        self._process = LimitedProcess("phipsi.interfaces.workbench.evaluator")
        self._assets = _assets()
        try:
            self._server = ThreadingHTTPServer((_HOST, port), _handler(self))
        except (OSError, OverflowError) as error:
            raise InputError(
                f"port {port} of {_HOST} cannot be used: {error}. Take any that is free: --port 0"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.hosts = (f"{_HOST}:{self.port}", f"localhost:{self.port}")
        fragment = f"#x={quote(expression)}" if expression else ""
        self.address = f"http://{_HOST}:{self.port}/{self.token}/{fragment}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def asset(self, path: str) -> tuple[str, bytes] | None:
        """The media type and content of a file of the page; None if there is none."""
        return self._assets.get(path or "page.html")

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question of the page, within the limits."""
        request = {**question, **self._own, **self._limits}
        try:
            head, _ = self._process.ask(request, (), self._limits["seconds"])
        except TooSlow:
            seconds = self._limits["seconds"]
            return _failure(
                f"there was no answer within {seconds:g} s. Take a smaller robot or a shorter "
                f"expression, or give it more:  phipsi workbench --seconds {10 * seconds:g}"
            )
        except Ended as error:
            return _failure(f"the process that evaluates ended with {error}; ask again")
        except NotStarted as error:
            return _failure(f"the process that evaluates could not be started: {error}")
        if head.pop("failure", "") == "memory":
            return _failure(
                f"it needs more memory than the {self._limits['memory']:,} bytes it may use"
            )
        head.pop("is_last", None)
        return head

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """End the server and the process that evaluates."""
        self._server.shutdown()
        self._server.server_close()
        self._process.end()

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _failure(text: str) -> dict[str, Any]:
    return {"error": text, "class": "Limit"}


def _assets() -> dict[str, tuple[str, bytes]]:
    """Every file of the page by its path below the token."""
    found: dict[str, tuple[str, bytes]] = {}
    folders = [("", files("phipsi.interfaces.workbench") / "assets")]
    while folders:
        prefix, folder = folders.pop()
        for one in folder.iterdir():
            if one.is_dir():
                folders.append((f"{prefix}{one.name}/", one))
            elif (ending := one.name.rpartition(".")[2]) in _TYPES:
                found[prefix + one.name] = (_TYPES[ending], one.read_bytes())
    return found


def _handler(bench: Workbench) -> Callable[..., BaseHTTPRequestHandler]:
    """The class whose objects answer one connection each."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _WAIT
        server_version, sys_version = "phipsi", ""

        def do_GET(self) -> None:
            path = self._path()
            if path is not None:
                found = bench.asset(path)
                if found is None:
                    self._say(HTTPStatus.NOT_FOUND)
                else:
                    self._send(HTTPStatus.OK, *found)

        def do_POST(self) -> None:
            path = self._path()
            if path is None:
                return
            kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            length = self.headers.get("Content-Length", "")
            if path != "ask":
                self._say(HTTPStatus.NOT_FOUND)
            elif kind != "application/json":
                self._say(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            elif not (length.isascii() and length.isdigit() and len(length) < 12):
                self._say(HTTPStatus.LENGTH_REQUIRED)
            elif int(length) > _LONGEST_REQUEST:
                self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            else:
                self._answer(self.rfile.read(int(length)))

        def _answer(self, body: bytes) -> None:
            try:
                question = json.loads(body)
            except (ValueError, RecursionError):
                question = None
            if not isinstance(question, dict):
                self._say(HTTPStatus.BAD_REQUEST)
                return
            answer = json.dumps(bench.ask(question), allow_nan=False)
            self._send(HTTPStatus.OK, "application/json", answer.encode())

        def _path(self) -> str | None:
            """The path below the token; None, with an answer, if the request is not from us."""
            if self.headers.get("Host", "") not in bench.hosts:
                return self._say(HTTPStatus.MISDIRECTED_REQUEST)
            origin = self.headers.get("Origin")
            if origin is not None and origin not in [f"http://{host}" for host in bench.hosts]:
                return self._say(HTTPStatus.FORBIDDEN)
            token, slash, rest = urlsplit(self.path).path[1:].partition("/")
            if not hmac.compare_digest(token.encode(), bench.token.encode()) or not slash:
                return self._say(HTTPStatus.FORBIDDEN)
            return rest

        def _say(self, status: HTTPStatus) -> None:
            self.close_connection = True  # what was not read would be taken for a request
            self._send(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

        def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
            self.send_response(status)
            for name, text in _HEADERS.items():
                self.send_header(name, text)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            with contextlib.suppress(ConnectionError):  # the page was closed meanwhile
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet: addresses hold the token."""

    return Handler
